"""Layout of tables on a page: a column is named, and its heading and rounding follow from its declaration.

What a declaration does not say is added with a :class:`ShownColumn`: a heading, and a function that writes a cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, rounded, show, show_interval, show_rounded_interval, unbroken
from audit.tables import base
from audit.tables.formatting import (
    MISSING,
    bare_p,
    brief,
    count,
    dimension_title,
    fixed,
    mean_count,
    points,
    rate,
    unsigned,
)
from audit.tables.shared import OVERALL

Write = Callable[[float], str]
_GAPS: Final = (points, unsigned)  # formatters of gaps: two decimals, or two significant digits below 0.01
_RESIDUE: Final = 1e-9  # a smaller number is floating-point residue
_OF_MEASURE: Final = "the measure's unit"
_OF_ROW: Final = "the row's unit"
_RATINGS: Final = "intensity"  # the outcome of ratings; numbers of others are rounded by their interval
_HEADS: Final = {
    "delta": "δ, points",
    "disparity": "D, points",
    "n_answers": "ratings",
    "delta_sd": "δ in SD",
    "disparity_sd": "D in SD",
    "percent_of_scale": "% of scale",
    "percent_of_response": "% of response",
    "d_z": Markup("d<sub>z</sub>"),
    "p_adjusted": "corrected p",
    "se": "SE",
    "sd": "SD",
    "statistic": "F",
    "r": "Pearson's r",
    "rho": "Spearman's ρ",
    "tau": "Kendall's τ",
    "alpha": "Krippendorff's α",
    "f1": "F1",
    "macro_f1": "macro F1",
    "perceiver_group": "group",
    "narrative_id": "narrative",
}
"""Headings of columns whose names are unclear."""
_OF_MEASURES: Final = {"delta": "δ", "disparity": "D", "n_answers": "replies"}
"""Headings in tables of measures, if they are others."""
_SIZES: Final = frozenset({"mean", "sd", "se", "raw", "score", "default", "evoked", "least", "statistic"})
"""First words of the names of numbers that are written without a plus: they are no differences."""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as shown. The first column heads the rows; ``words`` has the columns of words instead of numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column: its heading, a function that writes a row's cell, and whether cells are words."""

    head: str
    cell: Callable[[PlacedRow], str]
    words: bool = False
    # returns a function that writes all of these rows with the same number of decimals, or None
    alike: Callable[[Sequence[PlacedRow]], Callable[[PlacedRow], str] | None] | None = None


def statistics_table(rows: Sequence[PlacedRow], *columns: ShownColumn, note: str = "") -> ShownTable:
    """Lay out rows of a statistics table. The first column heads the rows."""
    if note and any(row[note] for row in rows):
        columns = (*columns, text("note", note))
    cells = [(column.alike and column.alike(rows)) or column.cell for column in columns]
    return ShownTable(
        tuple(column.head for column in columns),
        tuple(tuple(cell(row) for cell in cells) for row in rows),
        frozenset(place for place, column in enumerate(columns) if column.words),
    )


@dataclass(frozen=True, slots=True)
class IfKnown:
    """A column that is shown if any row has a number in it; ``unless_zero``, if any has one other than 0."""

    name: str
    head: str = ""
    unless_zero: bool = False


Named = str | tuple[str, str] | IfKnown | ShownColumn
"""A column to show: its name, its name and another heading, or how it is written."""


def lay_out(
    declared: Mapping[str, base.Column], rows: Sequence[PlacedRow], columns: Sequence[Named], *, level: str
) -> ShownTable:
    """Lay out rows of a table by the declarations of its columns, without columns that are empty throughout.

    A name that ends in ``_low`` stands for the interval up to its ``_high``, rounded as the number named before it.
    """
    of_measures = any(row.get("outcome") not in (None, "", _RATINGS) for row in rows)
    if of_measures:
        declared = {
            name: replace(column, unit=_OF_MEASURE) if column.unit == _OF_ROW else column
            for name, column in declared.items()
        }
    made: list[ShownColumn] = []
    before = ""
    for each in columns:
        if isinstance(each, ShownColumn):
            made.append(each)
            continue
        if isinstance(each, IfKnown):
            known = [number for row in rows if not math.isnan(number := row.number(each.name))]
            if not (any(known) if each.unless_zero else known):
                continue
            each = (each.name, each.head)
        name, head = each if isinstance(each, tuple) else (each, "")
        if name.endswith("_low"):
            write = write_of(before, declared[before])
            if write in _GAPS and made and before:
                made[-1] = number_column(made[-1].head, before, write, low=name)
            made.append(_interval(declared, name, before, level=level))
        else:
            made.append(_column(name, declared[name], head or heading(name, of_measures=of_measures)))
            before = name
    # The first column heads the rows.
    made[0] = replace(made[0], words=False)
    table = statistics_table(rows, *made)
    kept = [place for place in range(len(made)) if not place or any(row[place] for row in table.rows)]
    return ShownTable(
        tuple(table.head[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in table.rows),
        frozenset(at for at, place in enumerate(kept) if place in table.words),
    )


def heading(name: str, *, of_measures: bool = False) -> str:
    """Return the heading of a column that has no other; ``of_measures`` tells that rows are of measures of replies."""
    if of_measures and name in _OF_MEASURES:
        return _OF_MEASURES[name]
    return _HEADS.get(name, name.removeprefix("n_").replace("_", " "))


def _column(name: str, declared: base.Column, head: str) -> ShownColumn:
    if declared.type == base.Type.TEXT:
        return text(head, name)
    if declared.type in (base.Type.WORD, base.Type.FLAG):
        return ShownColumn(head, lambda row: _word(name, row[name]), words=True)
    if declared.unit == _OF_MEASURE and _is_signed(name):
        return ShownColumn(head, lambda row: show(row, name, rounded(row)))
    return number_column(head, name, write_of(name, declared))


def _word(name: str, value: object) -> str:
    if name == "dimension":
        return dimension_title(str(value))
    return "all emotions together" if (name, value) == ("emotion", OVERALL) else named(value)


def write_of(name: str, declared: base.Column) -> Write:
    """Return how a column's numbers are rounded: by their unit, and with a sign if they are differences."""
    if declared.unit == "probability":
        return bare_p if "p" in name.split("_") else rate
    if declared.unit == _OF_MEASURE:
        return sized
    by_unit: dict[str, Write] = {"count": count, "share": rate, "tokens": mean_count}
    return by_unit.get(declared.unit, degrees if name.startswith("df") else points if _is_signed(name) else unsigned)


def _is_signed(name: str) -> bool:
    return name.split("_")[0] not in _SIZES


def _interval(declared: Mapping[str, base.Column], low: str, before: str, *, level: str) -> ShownColumn:
    """Return the column of an interval, rounded as the number that it is of."""
    high = low.removesuffix("_low") + "_high"
    if declared[before].unit == _OF_MEASURE:
        return ShownColumn(f"{level} interval", lambda row: show_rounded_interval(row, low, high))
    write = write_of(before, declared[before])
    return interval_column(level, low, high) if write is points else plain_interval(level, low, high, write)


def degrees(df: float) -> str:
    """Write degrees of freedom: whole numbers as such."""
    return fixed(df, decimals=0 if df.is_integer() else 1)


def sized(value: float) -> str:
    """Write a mean with three digits; below ten as gaps are written."""
    if not abs(value) >= 10:
        return unsigned(value)
    return fixed(value, decimals=max(0, 2 - math.floor(math.log10(abs(value)))))


def said(name: str, head: str, words: Mapping[str, str]) -> ShownColumn:
    """Return a column that says in other words what a coded word means; a word without others is shown as it is."""
    return ShownColumn(head, lambda row: words.get(str(row[name]), str(row[name])), words=True)


def number_column(head: str, name: str, write: Write, *, low: str = "") -> ShownColumn:
    """Return a column of numbers rounded by ``write``; gaps alike, by their intervals if ``low`` names their ends."""

    def alike(rows: Sequence[PlacedRow]) -> Callable[[PlacedRow], str] | None:
        if write not in _GAPS:
            return None
        decimals = _decimals(_halves(rows, low) if low else [abs(row.number(name)) for row in rows])
        return lambda row: show(row, name, partial(fixed, decimals=decimals, signed=write is points))

    return ShownColumn(head, lambda row: show(row, name, write), alike=alike)


def interval_column(level: str, low: str = "ci_low", high: str = "ci_high") -> ShownColumn:
    """Return a column of intervals of this coverage, as `show_interval` writes them."""

    def alike(rows: Sequence[PlacedRow]) -> Callable[[PlacedRow], str] | None:
        write = partial(fixed, decimals=_decimals(_halves(rows, low)), signed=True)
        return lambda row: ends(row, low, high, write)

    return ShownColumn(f"{level} interval", lambda row: show_interval(row, low, high), alike=alike)


def _halves(rows: Sequence[PlacedRow], low: str) -> list[float]:
    """Return half the length of each row's interval."""
    return [(row.number(low.removesuffix("_low") + "_high") - row.number(low)) / 2 for row in rows]


def _decimals(sizes: Sequence[float]) -> int:
    """Return the decimals of a column: two, or as many as show the first digit of its largest size, at most six.

    Narrower intervals than the widest are told by up to four.
    """
    needed = [-math.floor(math.log10(size)) for size in sizes if math.isfinite(size) and size > _RESIDUE]
    return 2 if not needed else min(max(2, min(needed), min(max(needed), 4)), 6)


def plain_interval(level: str, low: str, high: str, write: Write) -> ShownColumn:
    """Return a column of intervals of this coverage, whose ends ``write`` rounds; an en dash if there is none."""
    return ShownColumn(f"{level} interval", lambda row: ends(row, low, high, write))


def ends(row: PlacedRow, low: str, high: str, write: Write) -> Markup:
    """Write both ends of an interval; an en dash if there is none."""
    if not math.isfinite(row.number(low)):
        return Markup(MISSING)
    return unbroken(show(row, low, write), show(row, high, write))


def speaks_of(name: str) -> ShownColumn:
    """Return a column that says what a change generalises over, from a column of scopes."""
    said = {"groups": "groups", "pairs": "these pairs of words"}
    return ShownColumn("speaks of", lambda row: said.get(str(row[name]), MISSING), words=True)


def out_of(head: str, name: str, of: str, *, words: bool = False) -> ShownColumn:
    """Return a column that writes one count out of another."""
    return ShownColumn(head, lambda row: Markup("{} of {}").format(show(row, name, count), show(row, of, count)), words)


def text(head: str, name: str) -> ShownColumn:
    """Return a column of words as they are; empty if there are none."""
    return ShownColumn(head, lambda row: "" if row[name] is None else str(row[name]), words=True)


def names(head: str, name: str, *, words: bool = False) -> ShownColumn:
    """Return a column of names, which anybody may have chosen: shortened, and isolated from the text around them."""
    return ShownColumn(head, lambda row: named(row[name]), words)


def named(value: object) -> Markup:
    """Write a name, shortened and isolated from the text around it."""
    return Markup("<bdi>{}</bdi>").format(brief(str(value)))
