"""Layout of tables on a page: each column is defined once, by its heading and a function that writes a row's cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.report.numbers import Row, show, show_interval, unbroken
from audit.tables.formatting import MISSING, brief, count, fixed, points, unsigned

Write = Callable[[float], str]
_GAPS: Final = (points, unsigned)
"""Formatters of gaps: two decimals, or two significant digits below 0.01."""
_TWO_DECIMALS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Table:
    """A table as shown. The first column heads the rows; ``words`` has the columns of words instead of numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, a function that writes a row's cell, and whether cells are words.

    ``alike``, if given, returns a function that writes the column with the same number of decimals in all of these
    rows, or None.
    """

    head: str
    cell: Callable[[Row], str]
    words: bool = False
    alike: Callable[[Sequence[Row]], Callable[[Row], str] | None] | None = None


def table_of(rows: Sequence[Row], *columns: Column, note: str = "") -> Table:
    """Lay out rows of a statistics table. The first column heads the rows.

    ``note`` names the column of notes, which is shown last if any row has one.
    """
    if note and any(row[note] for row in rows):
        columns = (*columns, text("note", note))
    cells = [(column.alike and column.alike(rows)) or column.cell for column in columns]
    return Table(
        tuple(column.head for column in columns),
        tuple(tuple(cell(row) for cell in cells) for row in rows),
        frozenset(place for place, column in enumerate(columns) if column.words),
    )


def number(head: str, name: str, write: Write) -> Column:
    """Return a column of numbers rounded by ``write``. Gaps all get two decimals, unless all are smaller than that."""

    def alike(rows: Sequence[Row]) -> Callable[[Row], str] | None:
        if write not in _GAPS or not any(abs(row.number(name)) >= _TWO_DECIMALS for row in rows):
            return None
        return lambda row: show(row, name, partial(fixed, decimals=2, signed=write is points))

    return Column(head, lambda row: show(row, name, write), alike=alike)


def interval(level: str, low: str = "ci_low", high: str = "ci_high") -> Column:
    """Return a column of intervals of this coverage, as `show_interval` writes them.

    All have two decimals if these distinguish both ends of each.
    """

    def alike(rows: Sequence[Row]) -> Callable[[Row], str] | None:
        write = partial(fixed, decimals=2, signed=True)
        known = [row for row in rows if math.isfinite(row.number(low))]
        if any(write(row.number(low)) == write(row.number(high)) for row in known):
            return None
        return lambda row: ends(row, low, high, write)

    return Column(f"{level} interval", lambda row: show_interval(row, low, high), alike=alike)


def plain_interval(level: str, low: str, high: str, write: Write) -> Column:
    """Return a column of intervals of this coverage, whose ends ``write`` rounds; an en dash if there is none."""
    return Column(f"{level} interval", lambda row: ends(row, low, high, write))


def ends(row: Row, low: str, high: str, write: Write) -> Markup:
    """Write both ends of an interval; an en dash if there is none."""
    if not math.isfinite(row.number(low)):
        return Markup(MISSING)
    return unbroken(show(row, low, write), show(row, high, write))


def speaks_of(name: str) -> Column:
    """Return a column that says what a change generalises over, from a column of scopes."""
    said = {"groups": "groups", "pairs": "these pairs of words"}
    return Column("speaks of", lambda row: said.get(str(row[name]), MISSING), words=True)


def out_of(head: str, name: str, of: str, *, words: bool = False) -> Column:
    """Return a column that writes one count out of another."""
    return Column(head, lambda row: Markup("{} of {}").format(show(row, name, count), show(row, of, count)), words)


def text(head: str, name: str) -> Column:
    """Return a column of words as they are; empty if there are none."""
    return Column(head, lambda row: "" if row[name] is None else str(row[name]), words=True)


def names(head: str, name: str, *, words: bool = False) -> Column:
    """Return a column of names, which anybody may have chosen: shortened, and isolated from the text around them."""
    return Column(head, lambda row: named(row[name]), words)


def named(value: object) -> Markup:
    """Write a name, shortened and isolated from the text around it."""
    return Markup("<bdi>{}</bdi>").format(brief(str(value)))
