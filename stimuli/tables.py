"""Reads a table with a header strictly: no cell that is asked for is empty, and every fault has its line.

The table is a delimited file, whose delimiter is found by its header, or a sheet of a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stimuli.errors import StimulusError, suggest
from stimuli.spreadsheets import SUFFIXES, choose_sheet, read_sheets
from stimuli.yaml_files import may_be_file, read_text

_DELIMITERS: Final = (",", ";", "\t")
"""In use where commas are decimal, or where a spreadsheet is pasted."""


@dataclass(frozen=True)
class _Table:
    """A header, and the rows below it with their places, for messages; a row that is wholly empty is none."""

    header: list[str]
    rows: Iterator[tuple[str, list[str]]]
    of_spreadsheet: bool = False


def read_cells(
    path: Path,
    columns: Mapping[str, str],
    *,
    of: str,
    delimiter: str | None = None,
    may_be_empty: Collection[str] = (),
    may_be_missing: Collection[str] = (),
    remedy: str = "",
) -> list[tuple[str, dict[str, str]]]:
    """Return for each row its place, for messages, and its cells by our names, without outer white space.

    Parameters
    ----------
    path
        A UTF-8 file with a header, or a spreadsheet, one of whose sheets has the columns.
    columns
        Our names and the file's names of the columns to read; the file may have others.
    of
        What the rows are, in the plural: ``narratives``.
    delimiter
        Of a file that is no spreadsheet. None takes the one of comma, semicolon and tab by which the header has the
        columns; in doubt the tab for a file that ends in ``.tsv``, else the comma.
    may_be_empty
        Those of our names whose cells may be empty.
    may_be_missing
        Columns that are read by their own names if they are there; where they are not, their cells are empty.
    remedy
        What can be done about a column that is not there, beside mending its name. OURS in it stands for our name.

    Raises
    ------
    StimulusError
        If the file is missing, not UTF-8, not well-formed or without rows, a column is missing or stands twice, a row
        has more cells than the header, or a cell is empty.
    """
    try:
        table = _open(path, delimiter, list(columns.values()))
        for ours, theirs in columns.items():
            if theirs not in table.header:
                also = f"; {remedy.replace('OURS', ours)}" if remedy else ""
                there = _columns_there(theirs, table, list(columns.values()))
                raise StimulusError(f"{path}: no column {theirs!r} (for {ours}); {there}{also}")
            if table.header.count(theirs) > 1:
                n = table.header.count(theirs)
                raise StimulusError(f"{path}: {n} columns are called {theirs!r} (for {ours}); keep one")
        also_there = _also_there(path, table.header, may_be_missing, taken=columns.values())
        lacking = dict.fromkeys(set(may_be_missing) - set(also_there), "")
        wanted = {**columns, **also_there}
        rows = [(place, _cells(table, row, wanted, may_be_empty, place) | lacking) for place, row in table.rows]
    except _Malformed as error:
        raise StimulusError(f"{path}: the row that begins on line {error.line}: {error}") from error
    if not rows:
        raise StimulusError(f"{path}: has a header but no {of}; write them below it, one row each")
    return rows


def column_names(path: Path) -> list[str]:
    """Return the names in a file's header, for files that may lack columns.

    Raises
    ------
    StimulusError
        If the file is missing, not UTF-8, or its header not well-formed.
    """
    try:
        return [name for name in _open(path, None, ()).header if name]
    except _Malformed as error:
        raise StimulusError(f"{path}: its header: {error}") from error


def _columns_there(asked: str, table: _Table, wanted: Sequence[str]) -> str:
    """Return which columns a table has, and what may be wrong with its header where none of them is wanted."""
    names = [name for name in table.header if name]
    line = "row" if table.of_spreadsheet else "line"
    if not names:
        return f"the file is empty; write the names of the columns in its first {line}"
    if len(names) == 1 and not table.of_spreadsheet:
        return (
            f"its first line is one column, {names[0][:60]!r}; write the names of all columns there, with a comma, a "
            "semicolon or a tab between them"
        )
    said = suggest(asked, names)
    is_header = set(wanted) & set(names) or said.startswith("did you mean")
    return said if is_header else f"{said}; write the names of the columns in the first {line}"


def _also_there(path: Path, header: Sequence[str], names: Collection[str], *, taken: Collection[str]) -> dict[str, str]:
    """Return the columns that may be missing and are there; StimulusError if one stands twice, or almost is there."""
    for name in names:
        if header.count(name) > 1:
            raise StimulusError(f"{path}: {header.count(name)} columns are called {name!r}; keep one")
        near = [each for each in header if each not in taken and each != name and _plain(each) == _plain(name)]
        if near:
            raise StimulusError(f"{path}: the column {near[0]!r} is not read; call it {name!r}")
    return {name: name for name in names if name in header}


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.casefold())


_MEANT: Final[Mapping[str, str]] = {
    "unexpected end of data": "a quotation mark is never closed; close or remove it",
    "expected after": "text stands after a closing quotation mark; write quotation marks within a text twice",
    "field larger than": "a cell is very long; a quotation mark may not be closed",
}
"""What is likeliest meant, by what Python's reader of CSV says."""


class _Malformed(ValueError):
    """A row cannot be told into cells."""

    def __init__(self, error: csv.Error, line: int) -> None:
        said = str(error)
        meant = next((words for part, words in _MEANT.items() if part in said), "")
        super().__init__(f"{said}; {meant}" if meant else said)
        self.line = line


def _open(path: Path, delimiter: str | None, wanted: Sequence[str]) -> _Table:
    if not may_be_file(path):
        what = "is a folder, and a file is wanted" if path.is_dir() else "is not a file; check its name and its folder"
        raise StimulusError(f"{path} {what}")
    if path.suffix.lower() in SUFFIXES:
        sheet = choose_sheet(path, read_sheets(path), wanted)
        header, *below = sheet.rows
        places = (
            f"{path}: sheet {sheet.name!r}: row {n}" for n in range(sheet.first + 1, sheet.first + len(sheet.rows))
        )
        return _Table(header, ((p, row) for p, row in zip(places, below, strict=True) if any(row)), of_spreadsheet=True)
    text = read_text(path)
    said = re.match(r"sep=(.)\r?\n", text)  # as Excel writes it, and hides it
    if said and delimiter is None:
        delimiter = said[1]
    if delimiter is None:
        delimiter = find_delimiter(text, wanted, usual="\t" if path.suffix == ".tsv" else ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines = _lines(reader, path)
    if said:
        next(lines, None)
    _, header = next(lines, ("", []))
    return _Table([name.strip() for name in header], lines)


def _lines(reader: Any, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that have anything in them, with their places."""
    while True:
        done = reader.line_num
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _Malformed(error, done + 1) from error
        if any(cell.strip() for cell in row):
            yield f"{path}: line {reader.line_num}", row


def find_delimiter(text: str, wanted: Sequence[str], *, usual: str) -> str:
    """Return the delimiter by which a header has most of the wanted columns; in doubt the usual one.

    Examples
    --------
    >>> find_delimiter("id;text, as written", ["id"], usual=",")
    ';'
    """
    begin = text.lstrip("\r\n")
    found = {}
    for delimiter in dict.fromkeys([usual, *_DELIMITERS]):
        try:
            header = next(csv.reader(io.StringIO(begin, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        found[delimiter] = [name.strip() for name in header]
    n_wanted = {each: len(set(wanted) & set(header)) for each, header in found.items()}
    if max(n_wanted.values(), default=0):
        return max(n_wanted, key=lambda each: n_wanted[each])
    if len(found.get(usual, ())) > 1:
        return usual
    return max(found, key=lambda each: len(found[each]), default=usual)


def _cells(
    table: _Table, row: Sequence[str], columns: Mapping[str, str], may_be_empty: Collection[str], place: str
) -> dict[str, str]:
    """Return a row's cells by our names."""
    if any(cell.strip() for cell in row[len(table.header) :]):
        raise StimulusError(
            f"{place}: has more cells than the header has columns; put a text with a comma, semicolon or tab in it in "
            "double quotes"
        )
    cells: dict[str, str] = {}
    for ours, theirs in columns.items():
        place_of = table.header.index(theirs)
        cell = row[place_of].strip() if place_of < len(row) else ""
        if not cell and ours not in may_be_empty:
            why = " (so is a formula that has no value, or an error)" if table.of_spreadsheet else ""
            raise StimulusError(f"{place}: the cell in column {theirs!r} is empty{why}; fill it or leave the row out")
        cells[ours] = cell
    return cells


def check_unique(identifiers: Iterable[str], *, of: str, place: str) -> None:
    """Raise StimulusError if an identifier stands twice.

    Parameters
    ----------
    identifiers
        In the order of their file.
    of
        What they identify, in the singular: ``narrative``.
    place
        The file, or the folder of the files.

    Examples
    --------
    >>> check_unique(["a", "b", "a"], of="narrative", place="mine.csv")
    Traceback (most recent call last):
    stimuli.errors.StimulusError: mine.csv: the narrative identifier 'a' stands twice; give each its own
    """
    seen: set[str] = set()
    for identifier in identifiers:
        if identifier in seen:
            raise StimulusError(f"{place}: the {of} identifier {identifier!r} stands twice; give each its own")
        seen.add(identifier)
