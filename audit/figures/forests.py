"""Forest plots: gaps with their intervals, one below the other, and each written beside it.

One routine draws the headline by dimension, the members of a family, and the differences between variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.figures.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    NARROW,
    PAD,
    SMALL,
    TEXT,
    drawing,
    extent,
    fill,
    for_phones,
    height_of,
    is_narrow,
    new_figure,
    place_axes,
    plain,
    write_ticks,
)
from audit.wording import MISSING, coverage, dimension_title, error_rate, interval, points

_PLOT: Final = 2.7
"""Width of the part with the marks, in inches."""
_AT_MOST: Final = 60
_STACKED: Final = ((0.4, 0.3, 0.3), (0.56, 0.4, 0.17))
"""Where words stand above marks, the height of a row in inches, and how far above the mark its name and its words are,
in rows: with both on one line, or on two.
"""
_TICK: Final = 0.14
"""Room beside the axis for half of the number at its end."""
_LETTER: Final = 0.62 * TEXT / 72
"""Width of a letter, in inches."""
_ORDERED: Final = frozenset({"valence", "degree", "uplift"})
"""Families whose members have an order of their own; those of the others stand by their gap."""


@for_phones
def plot_gaps(gap: pd.DataFrame, *, confidence: float = 0.95, margin: float | None = None) -> Figure:
    """Draw each dimension's δ with its interval, in scale points, with a line at 0.

    Parameters
    ----------
    gap
        The `tables.GAP` table, of which the headline rows about narratives are drawn. A gap that could not be
        estimated keeps its row, which says so.
    confidence
        Coverage of the table's intervals, for the axis to name.
    margin
        Gap that counts as too small to matter, in points: a band on either side of 0.

    Raises
    ------
    ValueError
        If the table has no headline.
    """
    rows = gap.loc[gap["headline"].astype(bool) & (gap["scope"] == "narratives")].reset_index(drop=True)
    if rows.empty:
        raise ValueError("the gap table has no headline row to draw")
    several = rows["variant"].nunique() > 1
    names = [
        dimension_title(str(name)) + (f", {variant}" if several else "")
        for name, variant in zip(rows["dimension"], rows["variant"], strict=True)
    ]
    return _forest(
        _Forest(
            rows=_rows(names, rows, estimate="delta_points"),
            axis=f"δ in scale points (in-group minus out-group) and its {coverage(confidence)} interval",
            margin=margin,
        )
    )


@for_phones
def plot_family(families: pd.DataFrame, *, family: str, confidence: float) -> Figure:
    """Draw the members of one family of contrasts: δ by emotion, by group, by cluster and so on.

    Filled marks are those whose p, corrected for the family, is below 1 − `confidence`. Members stand by their
    contrast, the largest first, but for families with an order of their own (valence, degree, uplift).

    Parameters
    ----------
    families
        Rows of the `tables.FAMILIES` table, of one dimension and one variant.
    family
        Which of its families: ``emotion``, ``group``, ``cluster`` ... Of more than 60 members the 60 furthest from 0
        are drawn, and the figure says so.
    confidence
        Coverage of the table's intervals.

    Raises
    ------
    ValueError
        If the table has no such family, or several dimensions or variants.
    NotEstimableError
        If no member could be estimated.
    """
    members = families.loc[families["family"] == family]
    if members.empty:
        raise ValueError(f"the table of families has no family {family!r} to draw")
    for name in ("dimension", "variant"):
        if members[name].nunique() > 1:
            found = ", ".join(sorted(map(str, members[name].unique())))
            raise ValueError(f"a family of one {name} is drawn at a time, and there are several: {found}")
    if not np.isfinite(members["delta_points"]).any():
        raise NotEstimableError(f"no member of the family {family!r} could be estimated: {_note_of(members)}")
    n_all = len(members)
    chosen = members.loc[members["delta_points"].abs().sort_values(ascending=False, kind="stable").index[:_AT_MOST]]
    chosen = chosen.sort_index() if family in _ORDERED else chosen.sort_values("delta_points", ascending=False)
    partners = chosen["partner"].fillna("").astype(str)
    names = [
        f"{member} {MISSING} {partner}" if partner else str(member)
        for member, partner in zip(chosen["member"], partners, strict=True)
    ]
    notes = _significance_notes(chosen, confidence=confidence, method=str(chosen["method"].iloc[0]))
    if n_all > _AT_MOST:
        notes = (*notes, f"The {_AT_MOST} of {n_all} that are furthest from 0.")
    return _forest(
        _Forest(
            rows=_rows(names, chosen, estimate="delta_points", alpha=1 - confidence),
            axis=f"gap in scale points and its {coverage(confidence)} interval, not corrected",
            notes=notes,
        )
    )


@for_phones
def plot_comparisons(comparisons: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw paired differences of δ between variants (or strategies, or models).

    Parameters
    ----------
    comparisons
        Rows of the `tables.COMPARISONS` table in one unit. Filled marks are those whose p, corrected for the
        comparisons within the dimension, is below 1 − `confidence`.
    confidence
        Coverage of the table's intervals.

    Raises
    ------
    ValueError
        If there are no comparisons, or they are in several units, which have no axis in common.
    NotEstimableError
        If no difference could be estimated.
    """
    if comparisons.empty:
        raise ValueError("there are no comparisons to draw: a comparison needs two variants of one dimension")
    units = sorted(map(str, comparisons["unit"].unique()))
    if len(units) > 1:
        raise ValueError(f"comparisons in one unit are drawn at a time, and there are several: {', '.join(units)}")
    if not np.isfinite(comparisons["delta_change"]).any():
        raise NotEstimableError(f"no difference between variants could be estimated: {_note_of(comparisons)}")
    several = comparisons["dimension"].nunique() > 1
    names = [
        (f"{dimension_title(str(dimension))}: " if several else "") + f"{first} minus {second}"
        for dimension, first, second in zip(
            comparisons["dimension"], comparisons["first"], comparisons["second"], strict=True
        )
    ]
    unit = "scale points" if units[0] == "points" else units[0]
    return _forest(
        _Forest(
            rows=_rows(names, comparisons, estimate="delta_change", alpha=1 - confidence),
            axis=f"difference of two δ, in {unit}, and its {coverage(confidence)} interval, not corrected",
            notes=_significance_notes(
                comparisons, confidence=confidence, method=str(comparisons["method"].dropna().iloc[0])
            ),
        )
    )


@for_phones
def plot_measures(gaps: pd.DataFrame, titles: Mapping[str, str], *, confidence: float) -> Figure:
    """Draw δ of each measure of replies on one axis, in standard deviations of the measure among replies.

    Parameters
    ----------
    gaps
        Rows of the `tables.MEASURE_GAPS` table, headlines about narratives, of one dimension and one variant,
        drawn in their order. A measure of whole corpora has no standard deviation among replies: it is not drawn.
        Filled marks are those whose p, corrected for the measures, is below 1 − `confidence`.
    titles
        Measure → what it is called.
    confidence
        Coverage of the table's intervals.

    Raises
    ------
    ValueError
        If there are several dimensions or variants.
    NotEstimableError
        If no measure has such a δ.
    """
    if len(gaps[["dimension", "variant"]].drop_duplicates()) > 1:
        raise ValueError("a figure of measures takes rows of one dimension and one variant")
    rows = gaps.loc[gaps["estimator"] != "jackknife"]
    if not np.isfinite(rows["delta_sd"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no measure has a δ that can be set beside others")
    in_sd = rows.assign(ci_low=rows["sd_ci_low"], ci_high=rows["sd_ci_high"])
    return _forest(
        _Forest(
            rows=_rows(
                [titles.get(str(name), str(name)) for name in rows["measure"]],
                in_sd,
                estimate="delta_sd",
                alpha=1 - confidence,
            ),
            axis=f"δ (in-group minus out-group) and its {coverage(confidence)} interval, not corrected, in standard "
            "deviations of the measure among replies",
            notes=_significance_notes(rows, confidence=confidence, method="Holm, over the measures"),
        )
    )


@dataclass(frozen=True)
class _Forest:
    """Rows from the top, of the columns name, estimate, low, high and filled."""

    rows: pd.DataFrame
    axis: str
    notes: tuple[str, ...] = ()
    margin: float | None = None


def _rows(names: Sequence[str], table: pd.DataFrame, *, estimate: str, alpha: float | None = None) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": list(names),
            "estimate": table[estimate].to_numpy(dtype=float),
            "low": table["ci_low"].to_numpy(dtype=float),
            "high": table["ci_high"].to_numpy(dtype=float),
            "filled": True if alpha is None else table["p_adjusted"].to_numpy(dtype=float) < alpha,
        }
    )


def _significance_notes(table: pd.DataFrame, *, confidence: float, method: str) -> tuple[str, ...]:
    level = error_rate(confidence)
    if not np.isfinite(table["p_adjusted"].to_numpy(dtype=float)).any():
        return (f"\N{WHITE CIRCLE} no p value, and so no correction ({method}).",)
    return (f"\N{BLACK CIRCLE} p < {level} after correction ({method})   \N{WHITE CIRCLE} not so, or without a p.",)


def _note_of(table: pd.DataFrame) -> str:
    notes = [str(note) for note in table["note"].dropna() if str(note)]
    return notes[0] if notes else "the table does not say why"


def _forest(forest: _Forest) -> Figure:
    rows = forest.rows.assign(row=np.arange(len(forest.rows), dtype=float))
    stacked = is_narrow()
    without = rows["estimate"].notna() & rows[["low", "high"]].isna().any(axis="columns")
    notes = forest.notes if without.sum() < 2 else (*forest.notes, "No line: no interval.")
    words = [
        _written(*ends, once=without.sum() < 2)
        for ends in zip(rows["estimate"], rows["low"], rows["high"], strict=True)
    ]
    room = extent(words, size=TEXT)[0]
    if stacked:
        left, plot, right = PAD + _TICK, NARROW - 2 * (PAD + _TICK), PAD + _TICK
        beside = int((plot - room - 0.1) / _LETTER)
        on_two = any(len(str(name)) > beside for name in rows["name"])
        step, above_name, above_words = _STACKED[on_two]
        names = [plain(name, width=int(plot / _LETTER) if on_two else beside, lines=1) for name in rows["name"]]
    else:
        names = [plain(name, width=26, lines=2 if len(rows) > 8 else 3) for name in rows["name"]]
        step = max(0.19 if len(rows) > 12 else 0.26, height_of(names, size=TEXT) + 0.05)
        left, plot, right = PAD + extent(names, size=TEXT)[0] + 0.08, _PLOT, 0.12 + room + PAD
    width = left + plot + right
    axis = fill(forest.axis, width=plot if stacked else plot + right, size=TEXT)
    note = "\n".join(fill(line, width=width - 2 * PAD, size=SMALL) for line in notes)
    note_height = height_of([note], size=SMALL) + 0.06 if note else 0.0
    below = PAD + note_height + height_of([axis], size=TEXT) + 0.19
    above = PAD + (0.18 if forest.margin is not None else 0.04)
    with drawing():
        figure = new_figure(width, above + len(rows) * step + below)
        axes = place_axes(figure, left, below, plot, len(rows) * step)
        axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
        if forest.margin is not None:
            _draw_margin(axes, forest.margin)
        draw_estimates(axes, rows)
        fit_estimates(axes, rows, least=forest.margin or 0.0)
        dress_rows(axes, len(rows))
        name_rows(axes, [""] * len(names) if stacked else names)
        for row, name, text in zip(rows["row"], names, words, strict=True):
            look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": TEXT}
            if stacked:
                over: dict[str, Any] = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}, "zorder": 2}
                axes.text(0, row - above_name, name, **look, **over)
                axes.text(1, row - above_words, text, ha="right", **look, **over)
            else:
                axes.text(1 + 0.12 / plot, row, text, **look)
        axes.set_xlabel(axis, loc="left", labelpad=3)
        axes.set_ylabel("")
        if note:
            height = figure.get_figheight()
            figure.text(PAD / width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _written(estimate: float, low: float, high: float, *, once: bool) -> str:
    """Write an estimate and its interval; that there is none is said where it is so ``once``."""
    if not np.isfinite(estimate):
        return "not estimable"
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{points(estimate)}, no interval" if once else points(estimate)
    return f"{points(estimate)}  [{interval(low, high)}]"


def draw_estimates(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw estimates with their intervals, one a row.

    Parameters
    ----------
    axes
        Drawn on.
    rows
        Columns row, estimate, low, high (NaN where there is none) and filled: whether the mark is.
    """
    bounded = rows.loc[rows[["low", "high"]].notna().all(axis="columns")]
    axes.hlines(bounded["row"], bounded["low"], bounded["high"], color=BLUE, linewidth=1.5, gid="interval")
    for filled, face in ((True, BLUE), (False, "white")):
        sns.scatterplot(
            data=rows.loc[(rows["filled"] == filled) & rows["estimate"].notna()],
            x="estimate",
            y="row",
            facecolor=face,
            edgecolor=BLUE,
            linewidth=1.2,
            s=20,
            legend=False,
            zorder=3,
            gid="filled" if filled else "hollow",
            ax=axes,
        )


def fit_estimates(axes: Axes, rows: pd.DataFrame, *, least: float = 0.0) -> None:
    """Let the axis hold 0, all intervals, and as much as `least` on either side."""
    ends = rows[["estimate", "low", "high"]].to_numpy(dtype=float)
    low = min(float(np.nanmin(ends, initial=0.0)), -least)
    high = max(float(np.nanmax(ends, initial=0.0)), least)
    span = high - low if high - low > 1e-9 else 1.0
    axes.set_xlim(low - 0.06 * span, high + 0.06 * span)
    write_ticks(axes.xaxis, signed=True)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows, from 0, at the left."""
    axes.set_yticks(np.arange(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_multialignment("right")


def dress_rows(axes: Axes, n_rows: int) -> None:
    """Give the axes of a plot with one row a name their grid and ticks."""
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=SMALL, length=2.5, pad=2)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    sns.despine(ax=axes, left=True)


def _draw_margin(axes: Axes, margin: float) -> None:
    axes.axvspan(-margin, margin, color=FAINT, linewidth=0, zorder=0, gid="margin")
    axes.text(
        0,
        1.0,
        f"margin: {points(margin, signed=False)} points either way",
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        fontsize=SMALL,
        color=MUTED,
    )
