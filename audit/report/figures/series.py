"""Gaps along a series of runs: δ and each group's disparity at each run's position, with the line of the trend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    NARROW,
    PAD,
    SMALL,
    TEXT,
    drawable,
    drawing,
    extent,
    fill,
    for_phones,
    height_of,
    is_narrow,
    new_figure,
    place_axes,
    write_ticks,
)
from audit.tables.formatting import coverage, points

MOST_PANELS: Final = 12  # those of the largest trends; the table has all
_ACROSS: Final = 4
_WIDE, _HIGH, _TITLE, _BELOW = 1.35, 1.1, 0.3, 0.36
_SHOWN: Final = ("falls", "rises")


@for_phones
def plot_series(runs: pd.DataFrame, trends: pd.DataFrame, names: Mapping[float, str], *, confidence: float) -> Figure:
    """Draw a panel for each gap of one dimension: rows of ``series_runs`` and ``series``.

    ``names`` says what each position is called. δ has a scale of its own, disparities share one. Runs that take no part
    are hollow; the line of a trend that is shown is solid, of another one dashed.
    """
    known = trends.loc[trends["estimate"].notna()]
    if known.empty:
        raise NotEstimableError("there is no trend to draw")
    sizes = known["estimate"].abs().where(known["kind"] == "disparity", np.inf)
    panels = known.loc[sizes.sort_values(ascending=False, kind="stable").index[:MOST_PANELS]].sort_index()
    across = min(2 if is_narrow() else _ACROSS, len(panels))
    down = -(-len(panels) // across)
    left = PAD + extent([points(-99.5)], size=SMALL)[0] + 0.12
    wide = (NARROW - PAD - across * left) / across if is_narrow() else _WIDE
    width = max(across * (left + wide) + PAD, NARROW)
    note = fill(
        f"Points of the scale, with {coverage(confidence)} intervals; the line is the mean of the narratives' "
        "least-squares lines. Solid: a trend that is shown after correction; dashed: one that is not. Hollow: a run "
        "without a verdict, which takes no part. δ has its own vertical scale, groups share one.",
        width=width - 2 * PAD,
        size=SMALL,
    )
    foot = PAD + height_of([note], size=SMALL) + 0.06
    each = _TITLE + _HIGH + _BELOW
    with drawing():
        figure = new_figure(width, foot + down * each)
        for place, row in enumerate(panels.to_dict("records")):
            axes = place_axes(
                figure,
                left + (place % across) * (left + wide),
                foot + (down - 1 - place // across) * each + _BELOW,
                wide,
                _HIGH,
            )
            alike = runs["kind"] == row["kind"]
            own = runs.loc[alike & (runs["member"] == row["member"])]
            drawn = alike & runs["member"].isin(panels["member"])
            _draw(axes, own, pd.Series(row), limits=_limits(runs.loc[drawn]))
            _name_positions(axes, own, names, wide=wide)
            title = f"D of {row['member']}" if row["member"] else "δ"
            axes.set_title(drawable(title, width=int(wide * 12), lines=2), loc="left", fontsize=TEXT, pad=3)
        whole = figure.get_figheight()
        figure.text(PAD / width, PAD / whole, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _limits(runs: pd.DataFrame) -> tuple[float, float]:
    """Return vertical limits that hold all intervals and 0."""
    ends = runs[["delta", "ci_low", "ci_high"]].to_numpy(dtype=float)
    low, high = min(0.0, float(np.nanmin(ends))), max(0.0, float(np.nanmax(ends)))
    room = 0.08 * (high - low or 1.0)
    return low - room, high + room


def _draw(axes: Axes, own: pd.DataFrame, trend: pd.Series, *, limits: tuple[float, float]) -> None:
    axes.axhline(0.0, color=INK, linewidth=0.7, zorder=1, gid="zero")
    x, y = (own[name].to_numpy(dtype=float) for name in ("position", "delta"))
    low, high = (own[name].to_numpy(dtype=float) for name in ("ci_low", "ci_high"))
    axes.vlines(x, low, high, color=MUTED, linewidth=1.0, zorder=2)
    used = own["takes_part"].to_numpy(dtype=bool)
    for chosen, filled in ((used, True), (~used, False)):
        axes.plot(
            x[chosen], y[chosen], "o", markersize=4, markeredgecolor=BLUE, markerfacecolor=BLUE if filled else "white",
            zorder=4, gid="runs" if filled else "left-out",
        )  # fmt: skip
    ends = x[used].min(), x[used].max()
    shown = trend["code"] in _SHOWN
    axes.plot(ends, (trend["line_first"], trend["line_last"]), color=BLUE, linewidth=1.4 if shown else 1.0,
              linestyle="-" if shown else (0, (3, 2)), zorder=3, gid="trend" if shown else "not-shown")  # fmt: skip
    axes.set_ylim(*limits)
    write_ticks(axes.yaxis, signed=True, most=4)
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.grid(axis="y", color=FAINT, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _name_positions(axes: Axes, own: pd.DataFrame, names: Mapping[float, str], *, wide: float) -> None:
    """Name the positions: all where they have room, else the first and the last."""
    places = sorted(set(own["position"].astype(float)))
    length = places[-1] - places[0]
    axes.set_xlim(places[0] - 0.12 * length, places[-1] + 0.12 * length)
    inch = wide / (1.24 * length)
    kept = [places[0]]
    for place in places[1:]:
        needed = sum(extent([names[each]], size=SMALL)[0] for each in (kept[-1], place)) / 2 + 0.06
        last = sum(extent([names[each]], size=SMALL)[0] for each in (places[-1], place)) / 2 + 0.06
        if place == places[-1] or ((place - kept[-1]) * inch >= needed and (places[-1] - place) * inch >= last):
            kept.append(place)
    axes.set_xticks(kept, [drawable(names[place], width=12, lines=1) for place in kept], fontsize=SMALL)
