"""The first screen's picture: intervals on one axis, and what they are to be compared with.

It is drawn in places of percent of its width, so that it fits any screen and keeps the size of its letters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.report.numbers import PlacedRow, rounded, show, show_gap, show_interval, show_rounded_interval
from audit.tables.formatting import brief, fixed

_BESIDE = 5.0  # how many times as far as the intervals something to compare them with may reach and still be drawn
_TICKS = 5
_ROOM = 0.06  # beside the outermost end, as a share of what is drawn


@dataclass(frozen=True, slots=True)
class Mark:
    """A row of the picture: an estimate and its interval; ``look`` is its CSS class."""

    name: Markup
    at: float
    low: float
    high: float
    number: Markup
    spread: Markup
    look: str = ""
    found: bool = False  # whether it is a finding
    least: float = math.nan  # what the interval must exceed, drawn as a line


@dataclass(frozen=True, slots=True)
class Axis:
    """What the picture shows of the scale."""

    low: float
    high: float
    margin: float = math.nan  # drawn as a band around 0

    def place(self, value: float) -> str:
        """Return a value's place, in percent of the width; what lies beyond an end is drawn at it."""
        return f"{100 * min(max((value - self.low) / (self.high - self.low), 0), 1):.2f}%"

    def length(self, low: float, high: float) -> str:
        """Return the length between two values in percent of the width."""
        return f"{float(self.place(high)[:-1]) - float(self.place(low)[:-1]):.2f}%"

    def beyond(self, mark: Mark) -> bool:
        """Tell whether an estimate lies where nothing is drawn."""
        return not self.low <= mark.at <= self.high

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Places of round numbers, and the numbers."""
        size = (self.high - self.low) / _TICKS
        power = math.floor(math.log10(size))
        step = next(each for k in (1, 2, 5, 10) if (each := k * 10.0**power) >= size)
        whole = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [
            (self.place(k * step), fixed(k * step, decimals=max(0, -power), signed=True) if k else "0") for k in whole
        ]


def mark(
    row: PlacedRow,
    column: str,
    name: object,
    *,
    low: str = "ci_low",
    look: str = "",
    found: bool = False,
    in_points: bool = True,
) -> Mark | None:
    """Return the mark of an estimate, rounded as its interval; None without one."""
    ends = low, low.removesuffix("_low") + "_high"
    at, first, last = (row.number(each) for each in (column, *ends))
    if not all(map(math.isfinite, (at, first, last))):
        return None
    spread = show_interval(row, *ends) if in_points else show_rounded_interval(row, *ends)
    number = show_gap(row, column) if in_points else show(row, column, rounded(row, *ends))
    least = float(row.get("least_response", math.nan))
    return Mark(Markup("<bdi>{}</bdi>").format(brief(str(name))), at, first, last, number, spread, look, found, least)


def marks(*each: Mark | None) -> tuple[Mark, ...]:
    """Drop marks that are None."""
    return tuple(one for one in each if one is not None)


def axis_of(drawn: Sequence[Mark], *, margin: float | None) -> Axis | None:
    """Return the axis on which the intervals are seen, 0 and a margin too; None if nothing can be drawn.

    What they are to be compared with is drawn if they can still be read beside it.
    """
    own = [each for each in drawn if not each.look] or drawn
    ends = [0.0, *(end for each in own for end in (each.low, each.high))]
    ends += [] if margin is None or not any(not each.look for each in drawn) else [-margin, margin]
    low, high = min(ends), max(ends)
    if not high > low:
        return None
    reach = _BESIDE * (high - low)
    for each in drawn:
        if max(abs(each.low), abs(each.high)) <= reach:
            ends = [end for end in (low, high, each.low, each.high, each.least) if math.isfinite(end)]
            low, high = min(ends), max(ends)
    room = _ROOM * (high - low)
    return Axis(low - room, high + room, math.nan if margin is None else margin)
