"""Reads the sheets of a spreadsheet (.xlsx, .ods and the like) as texts, by python-calamine, which is an extra."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

from stimuli.errors import StimulusError, in_one_line
from stimuli.files import LARGEST_TABLE, unpacked_size

_SHOWN: Final = 80  # characters of a sheet's header in a message
SUFFIXES: Final = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})  # what the names of spreadsheets end with


@dataclass(frozen=True)
class Worksheet:
    """A sheet that is not empty."""

    name: str  # as its tab has it
    first: int  # the number of the row that rows begin with, as the spreadsheet counts
    rows: list[list[str]]  # the cells of each row as texts, without outer white space, from the first row that has any


def read_sheets(path: Path, content: bytes) -> list[Worksheet]:
    """Return the sheets of a spreadsheet that have anything in them.

    A number without decimals is written without any, a date as YYYY-MM-DD. Of a formula it is the value that the
    spreadsheet stored; where it stored none, or an error, the cell is empty.
    """
    try:
        import python_calamine
    except ImportError as error:
        raise StimulusError(
            f"{path}: reading spreadsheets needs: pip install 'empathy-audit[excel]'; or save the sheet as CSV (UTF-8)"
        ) from error
    try:
        _check_packed(path, content)
        with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
            read = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
    except python_calamine.PasswordError as error:
        raise StimulusError(f"{path}: is protected by a password; save it without a password") from error
    except OSError as error:
        raise StimulusError(f"{path}: cannot be read ({error.strerror or error})") from error
    except python_calamine.CalamineError as error:
        raise StimulusError(
            f"{path}: cannot be read as a spreadsheet ({in_one_line(error)}); save it again as .xlsx, or as CSV (UTF-8)"
        ) from error
    sheets = []
    for name, cells in read.items():
        rows = [[text_of(cell) for cell in row] for row in cells]
        filled = [number for number, row in enumerate(rows) if any(row)]
        if filled:
            sheets.append(Worksheet(name, filled[0] + 1, rows[filled[0] :]))
    return sheets


def choose_sheet(path: Path, sheets: Sequence[Worksheet], wanted: Sequence[str]) -> Worksheet:
    """Return the one sheet that has the wanted columns; the only one if there are no more."""
    if not sheets:
        raise StimulusError(f"{path}: has only empty sheets; save the table again, in the first sheet")
    if len(sheets) == 1:
        return sheets[0]
    having = [sheet for sheet in sheets if {*map(str.casefold, wanted)} <= {*map(str.casefold, sheet.rows[0])}]
    if len(having) == 1:
        return having[0]
    columns = ", ".join(map(repr, wanted))
    if having:
        what = f"several sheets have the columns {columns}: {', '.join(repr(sheet.name) for sheet in having)}"
    else:
        there = (f"{sheet.name!r} has {', '.join(filter(None, sheet.rows[0]))[:_SHOWN]}" for sheet in sheets)
        what = f"no sheet has all of the columns {columns}; {', '.join(there)}"
    raise StimulusError(f"{path}: {what}; save the sheet you want as a separate file")


def _check_packed(path: Path, content: bytes) -> None:
    """Refuse a workbook of which a few bytes stand for more than can be held."""
    if (size := unpacked_size(content)) > LARGEST_TABLE:
        raise StimulusError(
            f"{path}: unpacks to {size >> 20:,} MiB, and at most {LARGEST_TABLE >> 20:,} can be read; save the "
            "sheet as CSV (UTF-8)"
        )


def text_of(cell: object) -> str:
    """Return a value of a typed table as a text: a whole number without decimals, a date as YYYY-MM-DD."""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if isinstance(cell, datetime):
        at_midnight = (cell.hour, cell.minute, cell.second, cell.microsecond) == (0, 0, 0, 0)
        return cell.date().isoformat() if at_midnight else cell.isoformat(sep=" ")
    return cell.isoformat() if isinstance(cell, date) else str(cell).strip()
