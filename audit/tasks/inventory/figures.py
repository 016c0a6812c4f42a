"""Figures of a questionnaire by group of perceivers: scores of each subscale, and what situations change in them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import draw_estimates, dress_rows, fit_estimates, name_rows
from audit.report.figures.style import (
    INK,
    LABEL,
    LEADING,
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
    ticks_between,
    write_ticks,
)
from audit.tables.formatting import MISSING, coverage, error_rate, points, unsigned

_PLOT: Final = 1.6  # width of a panel, in inches
_BETWEEN: Final = 0.2
_TICKS: Final = 0.26  # room below a panel for its numbers, in inches
_AT_MOST: Final = 40
_COLUMNS: Final = 4
_PARTS: Final = ["dimension", "variant"]

BoolArray: TypeAlias = npt.NDArray[np.bool_]


def draw_inventory(
    tables: Mapping[str, pd.DataFrame], *, low: float, high: float, confidence: float
) -> dict[str, Figure]:
    """Draw ``inventory-<dimension>-<variant>`` and ``affect-<dimension>-<variant>``, as far as the tables allow."""
    figures: dict[str, Figure] = {}
    for key, own in tables["inventory_groups"].groupby(_PARTS, sort=False):
        with contextlib.suppress(NotEstimableError):
            figures["-".join(("inventory", *map(str, key)))] = plot_scores(
                own, low=low, high=high, confidence=confidence
            )
    for key, own in tables.get("affect_groups", pd.DataFrame(columns=_PARTS)).groupby(_PARTS, sort=False):
        with contextlib.suppress(NotEstimableError):
            figures["-".join(("affect", *map(str, key)))] = plot_changes(own, confidence=confidence)
    return figures


@for_phones
def plot_scores(groups: pd.DataFrame, *, low: float, high: float, confidence: float) -> Figure:
    """Draw each subscale's score by group with its interval, on the scale of an item."""
    if not np.isfinite(groups["score"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no subscale has a score")
    names = list(map(str, groups["perceiver_group"].unique()))
    panels = [
        _Panel(f"subscale {subscale}", _marks(own, names, estimate="score", filled=np.ones(len(own), dtype=bool)))
        for subscale, own in groups.groupby("subscale", sort=False)
    ]
    note = (
        f"Mean answer by group of perceivers, in points from {low:g} to {high:g}, with {coverage(confidence)} "
        "intervals over items and, of lists, orders. No line: no interval."
    )
    return _panels([("", panels)], names, note=note, ends=(low, high))


@for_phones
def plot_changes(groups: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw what imagining situations changes, by subscale, group and kind; filled marks have a low corrected p."""
    if not np.isfinite(groups["change"].to_numpy(dtype=float)).any():
        raise NotEstimableError("nothing was answered both by default and in a situation")
    names = list(map(str, groups["perceiver_group"].unique()))
    blocks = []
    for kind, of_kind in groups.groupby("narratives", sort=False):
        panels = []
        for subscale, own in of_kind.groupby("subscale", sort=False):
            significant = own["p_adjusted"].to_numpy(dtype=float) < 1 - confidence
            panels.append(_Panel(f"subscale {subscale}", _marks(own, names, estimate="change", filled=significant)))
        blocks.append((f"Situations: {kind}", panels))
    level = error_rate(confidence)
    note = (
        f"Evoked minus default, in points, with {coverage(confidence)} intervals over situations and, of lists, "
        f"orders, else items, not corrected. \N{BLACK CIRCLE} p < {level} after correction (Holm)   "
        "\N{WHITE CIRCLE} not so, or without p. No line: no interval."
    )
    return _panels(blocks, names, note=note, ends=None)


@dataclass(frozen=True)
class _Panel:
    """Marks for `draw_estimates`, under their title."""

    title: str
    marks: pd.DataFrame


def _marks(own: pd.DataFrame, names: list[str], *, estimate: str, filled: BoolArray) -> pd.DataFrame:
    placed = own.assign(filled=filled).set_index("perceiver_group").reindex(names[:_AT_MOST])
    return pd.DataFrame(
        {
            "row": np.arange(len(placed), dtype=float),
            "estimate": placed[estimate].to_numpy(dtype=float),
            "low": placed["ci_low"].to_numpy(dtype=float),
            "high": placed["ci_high"].to_numpy(dtype=float),
            "filled": placed["filled"].eq(True).to_numpy(),  # a group without a row has NaN there
        }
    )


def _panels(
    blocks: Sequence[tuple[str, Sequence[_Panel]]], names: Sequence[str], *, note: str, ends: tuple[float, float] | None
) -> Figure:
    """Draw blocks of panels below each other; the panels of a block side by side, in several rows if needed."""
    columns = 1 if is_narrow() else _COLUMNS
    labels = [drawable(name, width=24) for name in names[:_AT_MOST]]
    if len(names) > _AT_MOST:
        note += f" The first {_AT_MOST} of {len(names)} groups."
    rows = [
        (heading if first == 0 else "", panels[first : first + columns])
        for heading, panels in blocks
        for first in range(0, len(panels), columns)
    ]
    write = points if ends is None else unsigned
    words = {
        id(panel): [write(each) if np.isfinite(each) else MISSING for each in panel.marks["estimate"]]
        for _, panels in rows
        for panel in panels
    }
    room = extent([text for texts in words.values() for text in texts], size=TEXT)[0]
    left = PAD + extent(labels, size=TEXT)[0] + 0.08
    plot = max(NARROW - left - 0.1 - room - PAD, 0.8) if is_narrow() else _PLOT
    column_width = plot + 0.1 + room + _BETWEEN
    width = left + column_width * max(len(panels) for _, panels in rows) - _BETWEEN + PAD
    # A single narrow panel would leave its notes no room.
    width = width if is_narrow() else max(width, left + 2 * column_width)
    step = max(0.22, height_of(labels, size=TEXT) + 0.05)
    said = fill(note, width=width - 2 * PAD, size=SMALL)
    heights = [
        (LEADING * LABEL / 72 + 0.08 if heading else 0.04) + LEADING * TEXT / 72 + 0.08 + len(labels) * step + _TICKS
        for heading, _ in rows
    ]
    below = PAD + height_of([said], size=SMALL) + 0.06
    height = PAD + sum(heights) + below
    with drawing():
        figure = new_figure(width, height)
        top = height - PAD
        for (heading, panels), own_height in zip(rows, heights, strict=True):
            bottom = top - own_height + _TICKS
            for column, panel in enumerate(panels):
                axes = place_axes(figure, left + column * column_width, bottom, plot, len(labels) * step)
                _draw(axes, panel, labels if column == 0 else [""] * len(labels), words[id(panel)], ends, plot=plot)
            if heading:
                figure.text(
                    PAD / width,
                    top / height,
                    drawable(heading, width=60, lines=1),
                    ha="left",
                    va="top",
                    fontsize=LABEL,
                    fontweight="bold",
                )
            top -= own_height
        figure.text(PAD / width, PAD / height, said, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _draw(
    axes: Axes,
    panel: _Panel,
    labels: Sequence[str],
    words: Sequence[str],
    ends: tuple[float, float] | None,
    *,
    plot: float,
) -> None:
    draw_estimates(axes, panel.marks)
    if ends is None:
        axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
        fit_estimates(axes, panel.marks)
        _thin_ticks(axes)
    else:
        axes.set_xlim(ends[0] - 0.04 * (ends[1] - ends[0]), ends[1] + 0.04 * (ends[1] - ends[0]))
        write_ticks(axes.xaxis)
    dress_rows(axes, len(labels))
    name_rows(axes, labels)
    for y, text in enumerate(words):
        at = axes.get_yaxis_transform()
        axes.text(1 + 0.1 / plot, y, text, transform=at, va="center", fontsize=TEXT)
    axes.set_ylabel("")
    axes.set_xlabel("")
    axes.set_title(drawable(panel.title, width=28, lines=1), loc="left", fontsize=TEXT, pad=3)


def _thin_ticks(axes: Axes) -> None:
    """Keep every second tick, 0 among them, if a narrow panel has no room for all."""
    places, written = ticks_between(*axes.get_xlim(), signed=True)
    if len(places) > 4:
        first = places.index(0.0) % 2
        axes.set_xticks(places[first::2], written[first::2])
