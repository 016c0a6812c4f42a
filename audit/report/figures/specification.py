"""The specification curve: δ of one dimension over all the ways in which it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    NARROW,
    ORANGE,
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
from audit.tables.formatting import plural, points

_ESTIMATES: Final = ("label", "delta", "ci_low", "ci_high")
_CURVE: Final = 1.7  # height of the upper panel, in inches
_ROW: Final = 0.17
_NARROW, _NARROW_LABEL = 0.1, 0.13
"""Least width of a run, in inches, so that its dot, or its turned label, does not touch the next."""
_MOST: Final = 60


@for_phones
def plot_specification(runs: pd.DataFrame, *, unit: str) -> Figure:
    """Draw a specification curve: δ of each run with its interval, and below it the choices of the run.

    ``runs`` has 2 to 60 rows: ``label``, ``delta``, ``ci_low``, ``ci_high``, and a column of strings for each choice.
    Runs are sorted by δ; one without an estimate comes last and is named. A choice that all runs share is not drawn; if
    no choice differs, the labels are drawn below.

    References
    ----------
    Simonsohn, Simmons and Nelson (2020), Specification curve analysis, doi:10.1038/s41562-020-0912-z. Their joint test
    is left out.
    """
    absent = [name for name in _ESTIMATES if name not in runs.columns]
    if absent:
        raise ValueError(f"the runs of a specification curve lack the column {absent[0]!r}")
    if not 2 <= len(runs) <= _MOST:
        raise ValueError(f"a specification curve is of 2 to {_MOST} runs, and there are {len(runs)}")
    runs = runs.sort_values("delta", kind="stable", na_position="last").reset_index(drop=True)
    if not np.isfinite(runs["delta"]).any():
        raise NotEstimableError("no run has an estimate, so there is no specification curve to draw")
    choices = [str(name) for name in runs.columns if name not in _ESTIMATES and runs[name].nunique(dropna=False) > 1]
    return _draw(runs, choices, unit=unit)


def _draw(runs: pd.DataFrame, choices: Sequence[str], *, unit: str) -> Figure:
    headings = [drawable(name.replace("_", " "), width=16 if is_narrow() else 24, lines=1) for name in choices]
    values = [list(dict.fromkeys(runs[name].astype(object).fillna("not given").astype(str))) for name in choices]
    # Options of a choice are sorted by number or name, regardless of δ.
    values = [sorted(own, key=_reading_order) for own in values]
    letters = 16 if is_narrow() else 26
    options = [drawable(value, width=letters, lines=1) for own in values for value in own]
    labels = [] if choices else [drawable(str(label), width=30, lines=1) for label in runs["label"]]
    turned = bool(labels) and len(runs) > 4
    indent = 0.1
    names_width = max(extent(options, size=SMALL)[0] + indent, extent(headings, size=SMALL, bold=True)[0])
    left = max(PAD + names_width + 0.08, 0.62)
    step = min(max(3.2 / len(runs), _NARROW_LABEL if labels else _NARROW), 0.6 if not labels or turned else 1.0)
    if labels and not turned:
        labels = [drawable(str(label), width=14, lines=3) for label in runs["label"]]
        step = 1.0
    if is_narrow():
        step = max(min(step, (NARROW - left - PAD) / len(runs)), _NARROW_LABEL if labels else _NARROW)
        turned = bool(labels)
        labels = [drawable(str(label), width=30, lines=1) for label in runs["label"]] if labels else []
    width = left + step * len(runs) + (PAD if is_narrow() else 0.45)
    matrix = _ROW * (len(options) + len(headings))
    label_room = extent(labels, size=SMALL)[0 if turned else 1] + 0.06 if labels else 0.0
    missing = [str(label) for label in runs.loc[runs["delta"].isna(), "label"]]
    note = f"{plural(len(runs), 'run')}. Dashed: median, {points(float(runs['delta'].median()))}."
    if missing:
        shown = drawable(", ".join(label[:80] for label in missing[:20]), width=60, lines=3).replace("\n", " ")
        note += f" Not estimable: {shown}."
    note = fill(note, width=width - 2 * PAD, size=SMALL)
    below = PAD + height_of([note], size=SMALL) + 0.06
    bottom = below + label_room + matrix + (0.08 if matrix else 0.02)
    axis = fill(f"δ, in {unit}", width=_CURVE, size=TEXT)
    with drawing():
        figure = new_figure(max(width, 3.4), bottom + _CURVE + PAD)
        axes = place_axes(figure, left, bottom, step * len(runs), _CURVE)
        _draw_curve(axes, runs)
        axes.set_ylabel(axis)
        if labels:
            axes.set_xticks(np.arange(len(runs)), labels, rotation=90 if turned else 0, fontsize=SMALL)
            axes.tick_params(axis="x", length=0, pad=3)
        else:
            axes.set_xticks([])
            lower = place_axes(figure, left, below, step * len(runs), matrix)
            _draw_choices(lower, runs, choices, headings, values, letters=letters)
        figure.text(
            PAD / figure.get_figwidth(), PAD / figure.get_figheight(), note, va="bottom", fontsize=SMALL, color=MUTED
        )
    return figure


def _reading_order(value: str) -> tuple[int, float, str]:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    return (0, number, value) if math.isfinite(number) else (1, 0.0, value)


def _draw_curve(axes: Axes, runs: pd.DataFrame) -> None:
    places = runs.assign(place=np.arange(len(runs), dtype=float))
    bounded = places.loc[places[["ci_low", "ci_high"]].notna().all(axis="columns")]
    axes.axhline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
    median = float(runs["delta"].median())
    axes.axhline(median, color=ORANGE, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1, gid="median")
    axes.vlines(bounded["place"], bounded["ci_low"], bounded["ci_high"], color=BLUE, linewidth=1.3, gid="interval")
    sns.scatterplot(
        data=places.loc[places["delta"].notna()], x="place", y="delta", color=BLUE, s=18, linewidth=0, zorder=3,
        legend=False, gid="delta", ax=axes,
    )  # fmt: skip
    for place in places.loc[places["delta"].isna(), "place"]:
        axes.text(
            place, 0.02, "not estimable", rotation=90, ha="center", va="bottom", fontsize=SMALL, color=MUTED,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    ends = np.append(places[["delta", "ci_low", "ci_high"]].to_numpy(dtype=float).ravel(), 0.0)
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    room = 0.06 * (high - low if high - low > 1e-9 else 1.0)
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.set_ylim(low - room, high + room)
    write_ticks(axes.yaxis, signed=True)
    axes.tick_params(axis="y", labelsize=SMALL, length=2.5, pad=2)
    axes.set_xlabel("")
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    sns.despine(ax=axes, bottom=True)


def _draw_choices(
    axes: Axes,
    runs: pd.DataFrame,
    choices: Sequence[str],
    headings: Sequence[str],
    values: Sequence[Sequence[str]],
    *,
    letters: int,
) -> None:
    """Draw a row for each option under its choice's heading, with a dot for each run that took it."""
    row, dots = 0, []
    for choice, heading, options in zip(choices, headings, values, strict=True):
        taken = runs[choice].astype(object).fillna("not given").astype(str)
        _name(axes, row, heading, bold=True)
        for number, option in enumerate(options, start=1):
            _name(axes, row + number, drawable(option, width=letters, lines=1), bold=False)
            axes.axhline(row + number, color=FAINT, linewidth=0.6, zorder=0)
            dots += [(place, row + number) for place in np.flatnonzero(taken == option)]
        row += len(options) + 1
    sns.scatterplot(
        x=[place for place, _ in dots], y=[row for _, row in dots], color=INK, s=14, linewidth=0, legend=False,
        gid="choice", zorder=2, ax=axes,
    )  # fmt: skip
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.set_ylim(row - 0.5, -0.5)
    axes.set_axis_off()


def _name(axes: Axes, row: int, name: str, *, bold: bool) -> None:
    axes.annotate(
        name, (0, row), xycoords=("axes fraction", "data"), xytext=(-6, 0), textcoords="offset points", ha="right",
        va="center", fontsize=SMALL, fontweight="bold" if bold else "normal",
    )  # fmt: skip
