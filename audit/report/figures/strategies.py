"""Strategies side by side: the gap under each, its change from no strategy, and its cost."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import draw_estimates, dress_rows, estimate_marks, fit_estimates, name_rows
from audit.report.figures.style import (
    BLUE,
    INK,
    MUTED,
    NARROW,
    ORANGE,
    PAD,
    PALE_BLUE,
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
from audit.tables.formatting import MISSING, coverage, error_rate, fixed, points

_PANELS: Final = (1.75, 1.75, 1.05)  # widths of the panels of gap, change and cost, in inches
_BETWEEN: Final = 0.16


@for_phones
def plot_strategies(rows: pd.DataFrame, *, unit: str, confidence: float) -> Figure:
    """Draw for each strategy δ, its paired change from no strategy, and the cost of a rating.

    A strategy's dashed line is the δ of its own reference. Filled marks in the middle panel have p, corrected for the
    strategies, below 1 − `confidence`. The cost is in seconds if all rows have them, else in model calls.
    """
    if rows.empty or rows["dimension"].nunique() > 1:
        raise ValueError("a figure of strategies takes rows of one dimension")
    if not np.isfinite(rows["delta"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no strategy has an estimate of δ, so there is nothing to draw")
    names = rows["strategy"] if rows["strategy"].is_unique else rows["run"]
    labels = [drawable(str(name), width=24) for name in names]
    unit = "scale points" if unit == "points" else unit
    timed = bool(np.isfinite(rows["seconds"].to_numpy(dtype=float)).all())
    cost = rows["seconds" if timed else "n_calls"].to_numpy(dtype=float)
    level = error_rate(confidence)
    gaps = estimate_marks(rows, "delta", "ci_low", "ci_high").assign(filled=True)
    changes = estimate_marks(rows, "delta_change", "change_low", "change_high").assign(
        filled=rows["p_adjusted"].to_numpy(dtype=float) < 1 - confidence
    )
    columns = (
        [_written(value, absent="not estimable") for value in gaps["estimate"]],
        [
            "reference" if run in set(rows["reference"]) else _written(value, absent=MISSING)
            for run, value in zip(rows["run"], changes["estimate"], strict=True)
        ],
        [fixed(value, decimals=1 if value >= 10 or not timed else 2 if value >= 0.1 else 3) for value in cost],
    )
    rooms = [extent(column, size=TEXT)[0] + 0.1 for column in columns]
    axis_titles = (
        f"δ and its {coverage(confidence)} interval, in {unit}",
        f"δ minus that of none, paired, and its {coverage(confidence)} interval",
        "seconds a rating" if timed else "model calls a rating",
    )
    left = PAD + extent(labels, size=TEXT)[0] + 0.08
    stacked = is_narrow()
    panels_wide = [max(NARROW - left - room - PAD, 0.8) for room in rooms] if stacked else list(_PANELS)
    titles = [
        fill(title, width=width + room, size=TEXT)
        for title, width, room in zip(axis_titles, panels_wide, rooms, strict=True)
    ]
    width = left + sum(panels_wide) + sum(rooms) + 2 * _BETWEEN + PAD
    if stacked:
        width = left + panels_wide[0] + rooms[0] + PAD
    said = (
        f"Dashed: δ under none. \N{BLACK CIRCLE} change with p < {level} after correction (Holm, over the strategies)"
        "   \N{WHITE CIRCLE} not so, or without p. Intervals are not corrected. A smaller |δ| is no proof of less bias."
    )
    note = fill(said, width=width - 2 * PAD, size=SMALL)
    step = max(0.26, height_of(labels, size=TEXT) + 0.05)
    below = PAD + height_of([note], size=SMALL) + 0.06
    bottom = below + height_of(titles, size=TEXT) + 0.19
    # Panels are side by side or, on a phone, one above the other.
    block = len(rows) * step + bottom - below + 0.08
    whole = PAD + 0.04 + len(rows) * step + bottom + (2 * block if stacked else 0.0)
    with drawing():
        figure = new_figure(width, whole)
        panels = []
        for place, (panel, room) in enumerate(zip(panels_wide, rooms, strict=True)):
            up = (len(rooms) - 1 - place) * block if stacked else 0.0
            panels.append(place_axes(figure, left, bottom + up, panel, len(rows) * step))
            left += 0.0 if stacked else panel + room + _BETWEEN
        _draw_estimates(panels[0], gaps, reference=_reference(rows))
        _draw_estimates(panels[1], changes)
        _draw_cost(panels[2], cost)
        for axes, title, column in zip(panels, titles, columns, strict=True):
            _finish(axes, title, column)
        for axes in panels if stacked else panels[:1]:
            name_rows(axes, labels)
        height = figure.get_figheight()
        figure.text(PAD / width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _reference(rows: pd.DataFrame) -> pd.Series:
    """Return the δ that each row is compared with: its reference's, or its own if it is a reference."""
    of_run = dict(zip(rows["run"], rows["delta"].astype(float), strict=True))
    used = set(rows["reference"])
    return pd.Series(
        [
            of_run.get(reference or (run if run in used else ""), np.nan)
            for run, reference in zip(rows["run"], rows["reference"], strict=True)
        ]
    )


def _draw_estimates(axes: Axes, marks: pd.DataFrame, *, reference: pd.Series | None = None) -> None:
    axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
    if reference is not None:
        known = reference.dropna()
        axes.vlines(
            known, known.index - 0.5, known.index + 0.5, color=ORANGE, linewidth=1.2, linestyle="--", gid="reference"
        )
    draw_estimates(axes, marks)
    fit_estimates(axes, marks)


def _draw_cost(axes: Axes, cost: np.ndarray) -> None:
    known = np.flatnonzero(np.isfinite(cost))
    axes.barh(known, cost[known], height=0.55, color=PALE_BLUE, edgecolor=BLUE, linewidth=0.7, gid="cost")
    most = float(np.nanmax(cost, initial=0.0))
    axes.set_xlim(0, 1.06 * most if most > 0 else 1.0)
    write_ticks(axes.xaxis)
    # The narrow panel fits three ticks.
    axes.set_xticks(axes.get_xticks()[:: max(1, len(axes.get_xticks()) // 3)])


def _finish(axes: Axes, title: str, column: list[str]) -> None:
    axes.set_yticks([])
    dress_rows(axes, len(column))
    for row, text in enumerate(column):
        axes.text(1.04, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=TEXT)
    axes.set_xlabel(title, loc="left", labelpad=3)
    axes.set_ylabel("")


def _written(value: float, *, absent: str) -> str:
    return points(value) if np.isfinite(value) else absent
