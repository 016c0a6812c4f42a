"""Reads a delimited file with a header strictly: no cell that is asked for is empty, and every fault has its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from stimuli.errors import StimulusError, suggest
from stimuli.yaml_files import may_be_file, read_text


def read_cells(
    path: Path,
    columns: Mapping[str, str],
    *,
    of: str,
    delimiter: str | None = None,
    may_be_empty: Collection[str] = (),
    remedy: str = "",
) -> list[tuple[str, dict[str, str]]]:
    """Return for each row its place, for messages, and its cells by our names, without outer white space.

    Parameters
    ----------
    path
        A UTF-8 file with a header.
    columns
        Our names and the file's names of the columns to read; the file may have others.
    of
        What the rows are, in the plural: ``narratives``.
    delimiter
        None takes the tab for a file that ends in ``.tsv``, else the comma.
    may_be_empty
        Those of our names whose cells may be empty.
    remedy
        What can be done about a column that is not there, beside mending its name.

    Raises
    ------
    StimulusError
        If the file is missing, not UTF-8, not well-formed or without rows, a column is missing or stands twice, a row
        has more cells than the header, or a cell is empty.
    """
    reader = _open(path, delimiter)
    rows: list[tuple[str, dict[str, str]]] = []
    try:
        header = list(reader.fieldnames or ())
        for ours, theirs in columns.items():
            if theirs not in header:
                also = f"; {remedy}" if remedy else ""
                raise StimulusError(f"{path}: no column {theirs!r} (for {ours}); {suggest(theirs, header)}{also}")
            if header.count(theirs) > 1:
                raise StimulusError(
                    f"{path}: {header.count(theirs)} columns are called {theirs!r} (for {ours}); keep one"
                )
        for row in reader:
            place = f"{path}: line {reader.line_num}"
            rows.append((place, _cells(row, columns, may_be_empty, place)))
    except csv.Error as error:
        # The reader counts the rows that it has finished.
        raise StimulusError(f"{path}: the row that begins on line {reader.line_num + 1}: {error}") from error
    if not rows:
        raise StimulusError(f"{path}: has a header but no {of}")
    return rows


def column_names(path: Path) -> list[str]:
    """Return the names in a file's header, for files that may lack columns.

    Raises
    ------
    StimulusError
        If the file is missing, not UTF-8, or its header not well-formed.
    """
    try:
        return list(_open(path, None).fieldnames or ())
    except csv.Error as error:
        raise StimulusError(f"{path}: its header: {error}") from error


def _open(path: Path, delimiter: str | None) -> csv.DictReader[str]:
    if not may_be_file(path):
        raise StimulusError(f"{path} is not a file")
    if delimiter is None:
        delimiter = "\t" if path.suffix == ".tsv" else ","
    return csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)


def _cells(
    row: Mapping[str, str | None], columns: Mapping[str, str], may_be_empty: Collection[str], place: str
) -> dict[str, str]:
    """Return a row's cells by our names."""
    if None in row:
        raise StimulusError(f"{place}: has more cells than the header has columns")
    cells: dict[str, str] = {}
    for ours, theirs in columns.items():
        cell = (row[theirs] or "").strip()
        if not cell and ours not in may_be_empty:
            raise StimulusError(f"{place}: the cell in column {theirs!r} is empty; fill it or leave the row out")
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
    stimuli.errors.StimulusError: mine.csv: the narrative identifier 'a' stands twice
    """
    seen: set[str] = set()
    for identifier in identifiers:
        if identifier in seen:
            raise StimulusError(f"{place}: the {of} identifier {identifier!r} stands twice")
        seen.add(identifier)
