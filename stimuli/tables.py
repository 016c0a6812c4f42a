"""Reads a table with a header strictly: no cell that is asked for is empty, and every fault has its line.

What the table is written in is :mod:`stimuli.table_files`'s; what its numbers look like is told here, for all tables.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from stimuli.chat_parts import cell_text
from stimuli.errors import Faults, StimulusError, suggest
from stimuli.files import read_file
from stimuli.headings import guess_columns
from stimuli.spreadsheets import SUFFIXES as SPREADSHEETS
from stimuli.spreadsheets import choose_sheet, read_sheets
from stimuli.table_files import (
    LINES,
    PARQUET,
    SPSS,
    TABBED,
    MalformedRowError,
    Rows,
    TableFile,
    delimited,
    empathetic_dialogues,
    json_lines,
    parquet_columns,
    plain_name,
    reccon,
    spss_columns,
)
from stimuli.yaml_files import decoded, may_be_file

Columns: TypeAlias = Mapping[str, str | Sequence[str]]  # our names, and the file's; several make one identifier

_DELIMITERS: Final = (",", ";", "\t")  # in use where commas are decimal, or where a spreadsheet is pasted
_SEP_LINE: Final = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)  # the first line as Excel writes it, and hides it
_NO_NUMBER: Final = frozenset({"", "na", "#n/a", "<na>", "nan", "null", "#null!", "none", ".", "\\n"})
"""What R, pandas, SPSS, SAS, Stata, spreadsheets and data banks write where there is no number."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WITH_COMMA: Final = re.compile(r"[+-]?(\d*),(\d+)", re.ASCII)
_THOUSANDS: Final = 3  # digits after a comma that may part thousands
_BETWEEN: Final = ":"  # stands between the parts of an identifier that several columns make


def open_table(
    path: Path,
    wanted: Sequence[str],  # names of columns that will be read, in whatever case
    *,
    also: Sequence[str] = (),  # that will be read if they are there; of a packed table all others are empty
    # None takes the one of comma, semicolon and tab by which the header has the wanted columns; in doubt the tab for a
    # file that ends in .tsv, else the comma
    delimiter: str | None = None,
    numbers: Collection[str] = (),  # of the columns that hold numbers: of these, SPSS's labels of values are not read
    every: bool = False,  # whether all columns will be read
    long_cells: bool = False,  # whether a cell may be as long as a model's answer; else a quotation mark is open
) -> TableFile:
    """Open a table, whichever program wrote it; all that a user names are opened here.

    A file's kind is told by its name's end; it is delimited text where that is none of
    :data:`stimuli.table_files.SUFFIXES`. By the ``wanted`` columns the delimiter and the sheet are found.
    MalformedRowError if the header, or later a row, cannot be told into cells.
    """
    try:
        content = read_file(path)
    except (OSError, ValueError) as error:  # a name may hold what no name of a file can
        raise StimulusError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    sha256, suffix = hashlib.sha256(content).hexdigest(), path.suffix.lower()
    if suffix in SPREADSHEETS:
        sheet = choose_sheet(path, read_sheets(path, content), wanted)
        header, *below = sheet.rows
        rows = ((sheet.first + place, row) for place, row in enumerate(below, start=1) if any(row))
        return TableFile(header, rows, sha256, "row", sheet.name)
    if suffix in PARQUET | SPSS:
        opened = parquet_columns if suffix in PARQUET else spss_columns
        read = None if every else {*map(plain_name, (*wanted, *also))}
        header, packed = opened(path, content, read, {*map(plain_name, numbers)})
        return TableFile(header, packed, sha256, "row")
    text = decoded(path, content)
    if suffix in LINES:
        header, packed = json_lines(text)
        return TableFile(header, packed, sha256, "line")
    if suffix == ".json" and (annotated := reccon(text)) is not None:
        return TableFile([*next(annotated)[1]], annotated, sha256, "utterance")
    if (dialogues := empathetic_dialogues(text)) is not None:
        return TableFile([*next(dialogues)[1]], dialogues, sha256, "line", delimiter=",")
    said = _SEP_LINE.match(text)
    if delimiter is None:
        usual = "\t" if suffix in TABBED else ","
        delimiter = said[1] if said else find_delimiter(text, wanted, usual=usual)
    lines: Rows = delimited(text, delimiter, long_cells=long_cells)
    if said:
        next(lines, None)
    _, names = next(lines, (0, ()))
    return TableFile([name.strip() for name in names], lines, sha256, "line", delimiter=delimiter)


def find_delimiter(text: str, wanted: Sequence[str], *, usual: str) -> str:
    """Return the delimiter by which a header has most of the wanted columns; in doubt the usual one.

    Examples
    --------
    >>> find_delimiter("id;text, as written", ["id"], usual=",")
    ';'
    """
    begin = text.lstrip("\r\n")
    names = {plain_name(name) for name in wanted}
    found = {}
    for delimiter in dict.fromkeys([usual, *_DELIMITERS]):
        try:
            header = next(csv.reader(io.StringIO(begin, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        found[delimiter] = [plain_name(name) for name in header]
    n_wanted = {each: len(names & set(header)) for each, header in found.items()}
    if max(n_wanted.values(), default=0):
        return max(n_wanted, key=lambda each: n_wanted[each])
    if len(found.get(usual, ())) > 1:
        return usual
    return max(found, key=lambda each: len(found[each]), default=usual)


def read_cells(
    path: Path,
    columns: Columns,  # our names and the file's names of the columns to read; the file may have others
    *,
    of: str,  # what the rows are, in the plural: narratives
    delimiter: str | None = None,
    may_be_empty: Collection[str] = (),  # those of our names whose cells may be empty
    may_be_missing: Collection[str] = (),  # by their own names; empty where they are not there
    # Those of our names whose cells are numbers: what programs write for none, such as NA, is an empty cell there.
    # Elsewhere a group may be called so.
    numbers: Collection[str] = (),
    missing: Collection[str] = (),  # what the user says stands for an empty cell, in any column
    remedy: str = "",  # for a column that is not there, beside mending its name
    key: Callable[[str, str], str] | None = None,  # writes the option that gives one of our names the file's, as typed
) -> list[tuple[str, dict[str, str]]]:
    """Return for each row its place, for messages, and its cells by our names, without outer white space."""
    named = {ours: [theirs] if isinstance(theirs, str) else list(theirs) for ours, theirs in columns.items()}
    wanted = [name for names in named.values() for name in names]
    faults = Faults(str(path))
    rows: list[tuple[str, dict[str, str]]] = []
    try:
        table = _open(path, delimiter, wanted, numbers=[name for ours in numbers for name in named.get(ours, ())])
        absent = {ours: name for ours, names in named.items() for name in names if name not in table.header}
        if absent:
            shown = ", ".join(
                f"{theirs!r} (for {ours})" if ours != theirs or len(absent) == 1 else repr(theirs)
                for ours, theirs in absent.items()
            )
            there = _columns_there(next(iter(absent.values())), table, wanted)
            if key is not None and len(table.header) > 1:
                guessed = guess_columns(absent, [name for name in table.header if name and name not in wanted])
                remedy = f"or say which is which: {' '.join(key(*each) for each in guessed.items())}"
            also = f"; {remedy}" if remedy else ""
            raise StimulusError(f"{path}: no column{'s' if len(absent) > 1 else ''} {shown}; {there}{also}")
        for ours, names in named.items():
            for theirs in names:
                if table.header.count(theirs) > 1:
                    n = table.header.count(theirs)
                    raise StimulusError(f"{path}: {n} columns are called {theirs!r} (for {ours}); keep one")
        also_there = _also_there(path, table.header, may_be_missing, taken=wanted)
        lacking = dict.fromkeys(set(may_be_missing) - set(also_there), "")
        read = named | also_there
        marks = {mark.strip() for mark in missing}
        for number, row in table.rows:
            place = f"{path}: {table.place(number)}"
            try:
                rows.append((place, _cells(table, row, read, may_be_empty, numbers, marks) | lacking))
            except StimulusError as fault:
                faults.add(place, str(fault))
    except MalformedRowError as error:
        raise StimulusError(f"{path}: the row that begins on line {error.line}: {error}") from error
    faults.check()
    if not rows:
        raise StimulusError(f"{path}: has a header but no {of}; write one per row below the header")
    return rows


def column_names(path: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Return the names in a file's header, for files that may lack columns."""
    try:
        return [name for name in _open(path, None, wanted).header if name]
    except MalformedRowError as error:
        raise StimulusError(f"{path}: its header: {error}") from error


def is_no_number(cell: str) -> bool:
    """Tell whether a cell of a column of numbers says that there is none."""
    return cell.strip().casefold() in _NO_NUMBER


def read_numbers(cells: Sequence[str], *, decimal_comma: bool = False) -> tuple[list[float], list[int]]:
    """Return the numbers of a column's cells, NaN where one says that there is none, and the places of wrong cells.

    All of a column is read, since one cell alone does not tell what its comma is. Decimals are expected to have one
    (``decimal_comma``) if semicolons stand between the cells.

    Notes
    -----
    A comma is decimal where no other number of the column has a point, and one of them has not just three digits after
    it, or only a 0 before: else it may part thousands.

    Examples
    --------
    >>> read_numbers(["4,5", "NA", "7"])
    ([4.5, nan, 7.0], [])
    >>> read_numbers(["1,234", "7"])
    ([nan, 7.0], [0])
    """
    plain = {cell: cell.strip() for cell in set(cells)}
    with_comma = {cell: found for cell, text in plain.items() if (found := _WITH_COMMA.fullmatch(text))}
    has_point = any("." in text and _NUMBER.fullmatch(text) for text in plain.values())
    is_decimal = not has_point and (
        decimal_comma or any(len(found[2]) != _THOUSANDS or found[1].strip("0") == "" for found in with_comma.values())
    )
    value: dict[str, float] = {}
    for cell, text in plain.items():
        if is_no_number(text):
            value[cell] = math.nan
            continue
        written = text.replace(",", ".") if is_decimal and cell in with_comma else text
        if _NUMBER.fullmatch(written) and math.isfinite(number := float(written)):
            value[cell] = number
    wrong = [place for place, cell in enumerate(cells) if cell not in value]
    return [value.get(cell, math.nan) for cell in cells], wrong


def _columns_there(asked: str, table: TableFile, wanted: Sequence[str]) -> str:
    """Return which columns a table has, and what may be wrong with its header where none of them is wanted."""
    names = [name for name in table.header if name]
    line = table.counts
    if not names:
        return f"the file is empty; write the names of the columns in its first {line}"
    if len(names) == 1 and table.delimiter:
        return (
            f"its first line is one column, {names[0][:60]!r}; write the names of all columns there, with a comma, a "
            "semicolon or a tab between them"
        )
    said = suggest(asked, names)
    is_header = set(wanted) & set(names) or said.startswith("did you mean")
    return said if is_header else f"{said}; write the names of the columns in the first {line}"


def _also_there(
    path: Path, header: Sequence[str], names: Collection[str], *, taken: Collection[str]
) -> dict[str, list[str]]:
    """Return the columns that may be missing and are there; StimulusError if one stands twice, or almost is there."""
    for name in names:
        if header.count(name) > 1:
            raise StimulusError(f"{path}: {header.count(name)} columns are called {name!r}; keep one")
        near = [each for each in header if each not in taken and each != name and _plain(each) == _plain(name)]
        if near:
            raise StimulusError(f"{path}: the column {near[0]!r} is not read; call it {name!r}")
    return {name: [name] for name in names if name in header}


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.casefold())


def _open(path: Path, delimiter: str | None, wanted: Sequence[str], numbers: Sequence[str] = ()) -> TableFile:
    if not may_be_file(path):
        what = "is a folder, not a file" if path.is_dir() else "is not a file; check its name and its folder"
        raise StimulusError(f"{path} {what}")
    return open_table(path, wanted, delimiter=delimiter, numbers=numbers)


def _cells(
    table: TableFile,
    row: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    may_be_empty: Collection[str],
    numbers: Collection[str],
    marks: Collection[str],
) -> dict[str, str]:
    """Return a row's cells by our names; StimulusError, without its place, if one of them cannot be used."""
    if any(cell.strip() for cell in row[len(table.header) :]):
        raise StimulusError(
            "has more cells than the header has columns; put text with a comma, semicolon or tab in double quotes"
        )
    cells: dict[str, str] = {}
    for ours, names in columns.items():
        parts = []
        for theirs in names:
            place_of = table.header.index(theirs)
            cell = cell_text(row[place_of].strip()) if place_of < len(row) else ""
            was = cell
            if cell in marks or (ours in numbers and is_no_number(cell)):
                cell = ""
            if not cell and ours not in may_be_empty:
                raise StimulusError(_empty(theirs, was, table))
            parts.append(cell)
        cells[ours] = parts[0] if len(parts) == 1 else _BETWEEN.join(map(_escaped, parts)) if any(parts) else ""
    return cells


def _empty(column: str, was: str, table: TableFile) -> str:
    if was:
        return f"the cell in column {column!r} is {was!r}, which stands for none; fill it or leave the row out"
    why = " (so is a formula that has no value, or an error)" if table.sheet else ""
    return f"the cell in column {column!r} is empty{why}; fill it or leave the row out"


def _escaped(part: str) -> str:
    """Return a part of an identifier so that no other parts make the same one."""
    return part.replace("\\", "\\\\").replace(_BETWEEN, f"\\{_BETWEEN}")


def check_unique(identifiers: Iterable[str], *, of: str, place: str) -> None:
    """Raise StimulusError if an identifier stands twice.

    Examples
    --------
    >>> check_unique(["a", "b", "a"], of="narrative", place="mine.csv")
    Traceback (most recent call last):
    stimuli.errors.StimulusError: mine.csv: the narrative identifier 'a' occurs twice; give each its own
    """
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for identifier in identifiers:
        if identifier in seen:
            twice[identifier] = None
        seen.add(identifier)
    if twice:
        first, *others = twice
        more = f" (and {len(others):,} more: {', '.join(map(repr, others[:3]))})" if others else ""
        raise StimulusError(f"{place}: the {of} identifier {first!r} occurs twice{more}; give each its own")
