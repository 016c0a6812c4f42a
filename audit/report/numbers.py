"""Numbers of a page, each with its unrounded value and its place in a table.

A number is an HTML ``<data>`` element: the visible text is rounded, ``value`` is not, and ``data-at`` names table, row
(from 0, without the header) and column of ``tables/``. So a reader, or a test, can check the page against the files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from audit.tables.formatting import MISSING, beside, end_of, fixed, points, unsigned


class PlacedRow(dict[str, Any]):
    """A row of a table, by column, with its place in the file: the file's stem and the row's number, from 0."""

    def __init__(self, cells: Mapping[Any, Any], *, table: str, line: int) -> None:
        super().__init__({str(column): value for column, value in cells.items()})
        self.table, self.line = table, line

    def number(self, column: str) -> float:
        """Return a value as a float; NaN if missing."""
        value = self[column]
        return float("nan") if value is None or value is pd.NA else float(value)


def rows_of(table: pd.DataFrame, name: str) -> list[PlacedRow]:
    """Return a table's rows with their places: the row numbers of its index, and the file's stem ``name``."""
    names = [str(name) for name in table.columns]
    # As table.to_dict("records") has them, in half the time where there are more columns than rows.
    rows = zip(*(column.tolist() for _, column in table.items()), strict=True)
    return [
        PlacedRow(
            {key: None if cell is pd.NA else cell for key, cell in zip(names, row, strict=True)}, table=name, line=line
        )
        for line, row in zip(table.index.tolist(), rows, strict=True)
    ]


def show(row: PlacedRow, column: str, write: Callable[[float], str]) -> Markup:
    """Show one number of a row with its place; ``write`` rounds it."""
    return show_sum([row], column, write)


def show_sum(rows: Sequence[PlacedRow], column: str, write: Callable[[float], str]) -> Markup:
    """Show the sum of a column over some rows, with the places of all of them."""
    values = [row[column] for row in rows]
    number = sum(row.number(column) for row in rows)
    whole = all(isinstance(value, (int, np.integer)) for value in values)
    exact = "" if math.isnan(number) else str(sum(map(int, values))) if whole else repr(float(number))
    places = " ".join(f"{row.table}:{row.line}:{column}" for row in rows)
    return Markup('<data value="{}" data-at="{}">{}</data>').format(exact, places, write(number))


def unbroken(low: Markup, high: Markup) -> Markup:
    """Join the ends of an interval with no-break spaces."""
    return Markup("{}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{}").format(low, high)


def show_interval(row: PlacedRow, low: str = "ci_low", high: str = "ci_high") -> Markup:
    """Show an interval of a row, formatted as by `audit.tables.formatting.interval`; an en dash if there is none."""
    if not math.isfinite(row.number(low)):
        return Markup(MISSING)
    write = end_of(row.number(low), row.number(high))
    return unbroken(show(row, low, write), show(row, high, write))


def show_gap(row: PlacedRow, name: str = "delta", low: str = "ci_low", high: str = "ci_high") -> Markup:
    """Show a gap in points, formatted as by `audit.tables.formatting.beside` its interval."""
    return show(row, name, beside(row.number(low), row.number(high)))


def rounded(
    row: PlacedRow, low: str = "ci_low", high: str = "ci_high", *, signed: bool = True
) -> Callable[[float], str]:
    """Return a formatter for numbers beside an interval of any unit: to two digits of half its width."""
    half = (row.number(high) - row.number(low)) / 2
    if not (math.isfinite(half) and half > 0):
        return points if signed else unsigned
    return partial(fixed, decimals=min(max(1 - math.floor(math.log10(half)), 0), 12), signed=signed)


def show_rounded_interval(row: PlacedRow, low: str = "ci_low", high: str = "ci_high") -> Markup:
    """Show an interval of any unit, each end formatted by :func:`rounded`."""
    if not math.isfinite(row.number(low)):
        return Markup(MISSING)
    write = rounded(row, low, high)
    return unbroken(show(row, low, write), show(row, high, write))
