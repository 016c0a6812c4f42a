"""What the files of tables hold, whichever program wrote them: a header, and rows of texts with their numbers.

The forms are delimited text, sheets of spreadsheets, JSON lines, Parquet and the data files of SPSS. Every cell is a
text, and an empty one where the file has no value, so that whoever reads a table decides what its cells mean, and not
the parser. :func:`stimuli.tables.open_table` tells the forms apart.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from stimuli.chat_parts import joined_parts
from stimuli.errors import StimulusError
from stimuli.files import LARGEST_TABLE
from stimuli.spreadsheets import SUFFIXES as SPREADSHEETS
from stimuli.spreadsheets import text_of

TABBED: Final = frozenset({".tsv", ".tab"})
DELIMITED: Final = frozenset({".csv", ".txt", *TABBED})
LINES: Final = frozenset({".jsonl", ".ndjson"})
PARQUET: Final = frozenset({".parquet"})
SPSS: Final = frozenset({".sav", ".zsav"})
SUFFIXES: Final = frozenset({*DELIMITED, *SPREADSHEETS, *LINES, *PARQUET, *SPSS})
"""What the names of tables end with; another file is taken for delimited text where any may be given."""
WRITTEN_AS: Final = ".csv, .tsv or .txt, a spreadsheet (.xlsx), .parquet, .jsonl, or SPSS's .sav"  # the same in words
_OF_DIALOGUES: Final = ["conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "selfeval", "tags"]
_OF_RECCON: Final = ("turn", "speaker", "utterance", "emotion")
_USUAL_NAMES: Final = {
    "happines": "happiness", "happy": "happiness", "sad": "sadness", "angry": "anger", "surprised": "surprise",
}  # fmt: skip
_EVIDENCE: Final = "expanded emotion cause evidence"
_SPAN: Final = "expanded emotion cause span"
_MOST_CELLS: Final = 100_000_000  # cells of a packed table: a few bytes can stand for any number of them

Rows: TypeAlias = Iterator[tuple[int, Sequence[str]]]


@dataclass(frozen=True, eq=False)
class TableFile:
    """An open table."""

    header: list[str]  # names of the columns, without outer white space; none where the file is empty
    rows: Rows  # The number of each row, as `counts` says, and its cells. Of text and of sheets, empty rows are none.
    sha256: str  # of the file's bytes
    counts: str  # `line` or `row`
    sheet: str = ""  # of a spreadsheet with its name
    delimiter: str = ""  # of delimited text

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


def plain_name(name: str) -> str:
    """Return a column's name as names are compared."""
    return name.strip().casefold()


def delimited(text: str, delimiter: str, *, long_cells: bool) -> Rows:
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


def empathetic_dialogues(text: str) -> Rows | None:
    """Return the rows of a file of EmpatheticDialogues, header first; None if the text is none.

    Its cells are split at every comma and never quoted, and a comma in them is ``_comma_``. Rows of two of its three
    files have a ninth cell with candidate replies, which is left out. MalformedRowError if a row has another number of
    cells, unless it has quoted ones: then the file is plain CSV.
    """
    first = text.lstrip("\n").partition("\n")[0]
    if first.rstrip("\r").split(",") != _OF_DIALOGUES:
        return None
    lines = [(number, line.rstrip("\r").split(",")) for number, line in enumerate(text.split("\n"), start=1) if line]
    for number, row in lines:
        if len(row) in (8, 9):
            continue
        if any(cell.startswith('"') for cell in row):  # written again by another program, as CSV usually is
            return None
        raise MalformedRowError(
            f"it has {len(row)} cells, and a row of EmpatheticDialogues 8 or 9; write each comma of a text as _comma_, "
            "or take the file as released",
            number,
        )
    return ((number, [cell.replace("_comma_", ",") for cell in row[:8]]) for number, row in lines)


def reccon(text: str) -> Rows | None:
    """Return the rows of a file of RECCON's annotations, header first; None if the text is none.

    Each conversation is a list that holds the list of its turns. Evidence is turns, and ``b`` a cause that nobody said,
    which is left out with its span; so are turns after the target, which RECCON's entailment never asks about. What
    stays has ``||`` between several; evidence is ``none`` where nothing stays, and empty where nothing was marked.
    A row's number is its place in the file. A few of DailyDialog's emotions are spelt otherwise than the rest (3 of
    1,099 in its test file); where the usual name is there too, it is used.
    """
    try:
        said = json.loads(text)
        emotions = {turn["emotion"] for turns, *_ in said.values() for turn in turns}
        usual = {odd: name for odd, name in _USUAL_NAMES.items() if name in emotions}
        header = ["conversation_id", *_OF_RECCON, _EVIDENCE, _SPAN]
        rows: list[list[str]] = [header]
        for conversation, (turns, *_) in said.items():
            for turn in turns:
                marked, spans = turn.get(_EVIDENCE), turn.get(_SPAN, [])
                kept = [each for each in marked or [] if isinstance(each, int) and each <= turn["turn"]]
                if marked is not None and len(spans) == len(marked):
                    spans = [span for span, each in zip(spans, marked, strict=True) if each in kept]
                spans = [span for span in spans if span != "b"]
                turn["emotion"] = usual.get(turn["emotion"], turn["emotion"])
                told = [conversation, *(str(turn[name]) for name in _OF_RECCON)]
                evidence = "" if marked is None else "||".join(map(str, kept)) or "none"
                rows.append([*told, evidence, "||".join(spans)])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return enumerate(rows) if len(rows) > 1 else None


def json_lines(text: str) -> tuple[list[str], Rows]:
    """Return the names that lines of JSON have, and their values; a list of parts is its text."""
    objects: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            read = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MalformedRowError(f"it is not JSON ({error}); each line is one object", number) from error
        if not isinstance(read, dict):
            raise MalformedRowError("it is not a JSON object; write NAME: VALUE pairs in braces", number)
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


def parquet_columns(path: Path, content: bytes, wanted: set[str] | None, numbers: set[str]) -> tuple[list[str], Rows]:
    """Return the header of a Parquet file and its rows, in which columns that are not wanted are empty; None is all."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(io.BytesIO(content)) as file:  # by its path, folders named a=b would become columns
            header = [str(name) for name in file.schema_arrow.names]
            _check_size(path, file.metadata.num_rows * max(1, len(header)))
            if twice := next((name for name in header if header.count(name) > 1), None):
                raise StimulusError(f"{path}: several columns are called {twice!r}; keep one")
            names = [name for name in header if wanted is None or plain_name(name) in wanted]
            read = file.read(columns=names)
            columns = {name: _told(read[name].to_pylist()) for name in names}
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        NotImplementedError,
        pa.ArrowException,
    ) as error:
        if isinstance(error, StimulusError):
            raise
        reason = next(iter(str(error).splitlines()), "").rstrip(".")
        raise StimulusError(f"{path} cannot be read as Parquet ({reason}); write it again, or as CSV") from error
    return [name.strip() for name in header], _numbered(header, columns, read.num_rows)


def spss_columns(path: Path, content: bytes, wanted: set[str] | None, numbers: set[str]) -> tuple[list[str], Rows]:
    """Return the columns of a data file of SPSS: what its values' labels say, and of numbers the numbers."""
    try:
        import pyreadstat
    except ImportError as error:
        raise StimulusError(
            f"{path}: reading SPSS data files needs: pip install 'empathy-audit[spss]'; or save it as CSV (UTF-8)"
        ) from error
    try:
        _, told = pyreadstat.read_sav(path, metadataonly=True)
        header = [str(name) for name in told.column_names]
        _check_size(path, (told.number_rows or 0) * max(1, len(header)))
        names = [name for name in header if wanted is None or plain_name(name) in wanted]
        # Values that the file declares missing are; as plain lists, since a table of pandas would widen types.
        read, _ = pyreadstat.read_sav(path, usecols=names or None, output_format="dict")
    except StimulusError:
        raise
    except Exception as error:  # whatever the library says of damage
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StimulusError(f"{path}: cannot be read as an SPSS data file ({reason}); save it again") from error
    columns = {
        name: _told(list(read[name]), {} if plain_name(name) in numbers else told.variable_value_labels.get(name, {}))
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
        raise StimulusError(f"{path}: has {n_cells:,} cells, but at most {_MOST_CELLS:,} can be read; split it")
