"""Opens a table, whichever program wrote it: a header, and rows of texts with the numbers that an editor shows.

All tables that a user names are opened here: delimited text, sheets of spreadsheets, JSON lines, Parquet and the data
files of SPSS. Every cell is a text, and an empty one where the file has no value, so that whoever reads a table decides
what its cells mean, and not the parser.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from stimuli.chat_parts import joined_parts
from stimuli.errors import StimulusError
from stimuli.files import LARGEST_TABLE, read_file
from stimuli.spreadsheets import SUFFIXES as SPREADSHEETS
from stimuli.spreadsheets import choose_sheet, read_sheets, text_of
from stimuli.yaml_files import decoded

_DELIMITERS: Final = (",", ";", "\t")
"""In use where commas are decimal, or where a spreadsheet is pasted."""
_TABBED: Final = frozenset({".tsv", ".tab"})
_DELIMITED: Final = frozenset({".csv", ".txt", *_TABBED})
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_PARQUET: Final = frozenset({".parquet"})
_SPSS: Final = frozenset({".sav", ".zsav"})
SUFFIXES: Final = frozenset({*_DELIMITED, *SPREADSHEETS, *_LINES, *_PARQUET, *_SPSS})
"""What the names of tables end with; another file is taken for delimited text where any may be given."""
WRITTEN_AS: Final = ".csv, .tsv or .txt, a spreadsheet (.xlsx), .parquet, .jsonl, or SPSS's .sav"
"""The same in words."""
_MOST_CELLS: Final = 100_000_000
"""Cells of a packed table: a few bytes can stand for any number of them."""
_SEP_LINE: Final = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
"""The first line as Excel writes it, and hides it."""

Rows: TypeAlias = Iterator[tuple[int, Sequence[str]]]


@dataclass(frozen=True, eq=False)
class TableFile:
    """An open table.

    Attributes
    ----------
    header
        Names of the columns, without outer white space; none where the file is empty.
    rows
        The number of each row, as :attr:`counts` them, and its cells; rows that are wholly empty are none.
    sha256
        Of the file's bytes.
    counts
        ``line`` or ``row``.
    sheet
        Of a spreadsheet with its name.
    delimiter
        Of delimited text.
    """

    header: list[str]
    rows: Rows
    sha256: str
    counts: str
    sheet: str = ""
    delimiter: str = ""

    def place(self, number: int) -> str:
        """Return where a row stands within the file."""
        return f"{f'sheet {self.sheet!r}: ' if self.sheet else ''}{self.counts} {number}"


class MalformedRowError(ValueError):
    """A row of delimited text, or of JSON lines, cannot be told into cells."""

    def __init__(self, said: str, line: int) -> None:
        super().__init__(said)
        self.line = line


_MEANT: Final[Mapping[str, str]] = {
    "unexpected end of data": "a quotation mark is never closed; close or remove it",
    "expected after": "text stands after a closing quotation mark; write quotation marks within a text twice",
    "field larger than": "a cell is very long; a quotation mark may not be closed",
}
"""What is likeliest meant, by what Python's reader of CSV says."""


def open_table(
    path: Path,
    wanted: Sequence[str],
    *,
    also: Sequence[str] = (),
    delimiter: str | None = None,
    numbers: Collection[str] = (),
    long_cells: bool = False,
) -> TableFile:
    """Open a table.

    Parameters
    ----------
    path
        A file, whose kind is told by its name's end; delimited text where that is none of :data:`SUFFIXES`.
    wanted
        Names of columns that will be read, in whatever case: the delimiter and the sheet are found by them.
    also
        Names of columns that will be read if they are there; of a packed table all others are empty.
    delimiter
        Of delimited text. None takes the one of comma, semicolon and tab by which the header has the wanted columns; in
        doubt the tab for a file that ends in ``.tsv``, else the comma.
    numbers
        Those of the columns that hold numbers: of these, SPSS's labels of values are not read.
    long_cells
        Whether a cell may be longer than people write, as a model's answer is; else a quotation mark is open.

    Raises
    ------
    StimulusError
        If the file cannot be read, or is not of the form that its name says.
    MalformedRowError
        If its header, or later a row, cannot be told into cells.
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
    if suffix in _PARQUET | _SPSS:
        opened = _parquet if suffix in _PARQUET else _spss
        header, packed = opened(path, content, {*map(_plain, (*wanted, *also))}, {*map(_plain, numbers)})
        return TableFile(header, packed, sha256, "row")
    text = decoded(path, content)
    if suffix in _LINES:
        header, packed = _json_lines(text)
        return TableFile(header, packed, sha256, "line")
    said = _SEP_LINE.match(text)
    if delimiter is None:
        usual = "\t" if suffix in _TABBED else ","
        delimiter = said[1] if said else find_delimiter(text, wanted, usual=usual)
    lines: Rows = _lines(text, delimiter, long_cells=long_cells)
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
    names = {_plain(name) for name in wanted}
    found = {}
    for delimiter in dict.fromkeys([usual, *_DELIMITERS]):
        try:
            header = next(csv.reader(io.StringIO(begin, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        found[delimiter] = [_plain(name) for name in header]
    n_wanted = {each: len(names & set(header)) for each, header in found.items()}
    if max(n_wanted.values(), default=0):
        return max(n_wanted, key=lambda each: n_wanted[each])
    if len(found.get(usual, ())) > 1:
        return usual
    return max(found, key=lambda each: len(found[each]), default=usual)


def _plain(name: str) -> str:
    return name.strip().casefold()


def _lines(text: str, delimiter: str, *, long_cells: bool) -> Rows:
    """Yield the rows of delimited text that have anything in them, each with the line that it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    n_rows = 0
    while True:
        begins = reader.line_num + 1
        # The reader's limit is one for the whole of Python. A header is short in any case.
        usual = csv.field_size_limit(LARGEST_TABLE) if long_cells and n_rows else None
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            meant = next((words for part, words in _MEANT.items() if part in str(error)), "")
            raise MalformedRowError(f"{error}; {meant}" if meant else str(error), begins) from error
        finally:
            if usual is not None:
                csv.field_size_limit(usual)
        if any(cell.strip() for cell in row):
            n_rows += 1
            yield begins, row


def _json_lines(text: str) -> tuple[list[str], Rows]:
    """Return the names that lines of JSON have, and their values; a list of parts is its text."""
    objects: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            read = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MalformedRowError(f"it is no JSON ({error}); each line is one object", number) from error
        if not isinstance(read, dict):
            raise MalformedRowError("it is no object of JSON; write names with values in braces", number)
        objects.append((number, {name.strip(): value for name, value in read.items()}))
    header = list(dict.fromkeys(name for _, row in objects for name in row))
    return header, ((number, [_json_text(row.get(name)) for name in header]) for number, row in objects)


def _json_text(value: Any) -> str:
    if isinstance(value, (list, dict)):
        text = joined_parts(value)
        return json.dumps(value, ensure_ascii=False) if text is None else text
    return _packed_text(value)


def _packed_text(value: Any) -> str:
    """Return a value of a typed table as a text; empty where it says that there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value) if isinstance(value, bool) else text_of(value)


def _parquet(path: Path, content: bytes, wanted: set[str], numbers: set[str]) -> tuple[list[str], Rows]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(io.BytesIO(content)) as file:  # by its path, folders named a=b would become columns
            header = [str(name) for name in file.schema_arrow.names]
            _check_size(path, file.metadata.num_rows * max(1, len(header)))
            if twice := next((name for name in header if header.count(name) > 1), None):
                raise StimulusError(f"{path}: several columns are called {twice!r}; keep one")
            names = [name for name in header if _plain(name) in wanted]
            read = file.read(columns=names)
            columns = {name: _told(read[name].to_pylist()) for name in names}
    except (OSError, ValueError, TypeError, NotImplementedError, pa.ArrowException) as error:
        if isinstance(error, StimulusError):
            raise
        reason = next(iter(str(error).splitlines()), "").rstrip(".")
        raise StimulusError(f"{path} cannot be read as Parquet ({reason}); write it anew, or as CSV") from error
    return [name.strip() for name in header], _numbered(header, columns, read.num_rows)


def _spss(path: Path, content: bytes, wanted: set[str], numbers: set[str]) -> tuple[list[str], Rows]:
    """Return the columns of a data file of SPSS: what its values' labels say, and of numbers the numbers."""
    try:
        import pyreadstat
    except ImportError as error:
        raise StimulusError(
            f"{path}: to read data files of SPSS: pip install 'empathy-audit[spss]'; or save it as CSV (UTF-8)"
        ) from error
    try:
        _, told = pyreadstat.read_sav(path, metadataonly=True)
        header = [str(name) for name in told.column_names]
        _check_size(path, (told.number_rows or 0) * max(1, len(header)))
        names = [name for name in header if _plain(name) in wanted]
        # Values that the file declares missing are; as plain lists, since a table of pandas would widen types.
        read, _ = pyreadstat.read_sav(path, usecols=names or None, output_format="dict")
    except StimulusError:
        raise
    except Exception as error:  # whatever the library says of damage
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StimulusError(f"{path}: is no data file of SPSS that can be read ({reason}); save it again") from error
    columns = {
        name: _told(list(read[name]), {} if _plain(name) in numbers else told.variable_value_labels.get(name, {}))
        for name in names
    }
    return [name.strip() for name in header], _numbered(header, columns, told.number_rows or 0)


def _told(values: Sequence[Any], labels: Mapping[Any, str] | None = None) -> list[str]:
    """Return the texts of a column's values, or what their labels say."""
    known: dict[Any, str] = dict(labels or {})
    return [str(known[value]) if known and value in known else _packed_text(value) for value in values]


def _numbered(header: Sequence[str], columns: Mapping[str, Sequence[str]], n_rows: int) -> Rows:
    nothing = [""] * n_rows
    return enumerate(zip(*(columns.get(name, nothing) for name in header), strict=True), start=1)


def _check_size(path: Path, n_cells: int) -> None:
    if n_cells > _MOST_CELLS:
        raise StimulusError(f"{path}: stands for {n_cells:,} cells, and at most {_MOST_CELLS:,} are read; split it")
