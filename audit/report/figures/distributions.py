"""Draw what is behind a mean: gaps of single narratives, the ratings, and the published null."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from audit.errors import NotEstimableError
from audit.report.figures.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    ORANGE,
    PALE_BLUE,
    SMALL,
    TEXT,
    drawing,
    fill,
    height_of,
    new_figure,
    place_axes,
    ticks_between,
    write_ticks,
)
from audit.tables.formatting import count, coverage, interval, plural, points, rate, scale_end

_WIDTH: Final = 3.5  # fits a phone, and a column of print
_LEFT: Final = 0.62
_RIGHT: Final = 0.12
_PLOT: Final = _WIDTH - _LEFT - _RIGHT
_LEAST_BINS, _MOST_BINS = 8, 80
_MOST_OUTLINES: Final = 400  # strokes of a rug that is drawn; beyond it is an image, not so many lines of the file
_END_WORDS: Final = {"floor": "at {0}", "ceiling": "at {1}", "below": "below {0}", "above": "above {1}"}
"""Names of bars at and beyond the ends of the scale; ``{0}`` and ``{1}`` are its ends."""
_PAIRS: Final = {"in_group": "in-group", "out_group": "out-group"}


def plot_contrasts(
    narratives: pd.DataFrame, *, confidence: float | None = None, headline: pd.Series[Any] | None = None
) -> Figure:
    """Draw a histogram of narratives' own gaps with a rug, the line of 0, and their mean.

    Narratives without a contrast are left out; the figure says how many. ``headline`` is the row of ``GAP`` whose δ and
    interval are drawn; None draws the mean of the contrasts.
    """
    place = _of_one(narratives, "narratives")
    contrasts = narratives["contrast_points"].to_numpy(dtype=float)
    contrasts = contrasts[np.isfinite(contrasts)]
    if contrasts.size == 0:
        raise NotEstimableError(f"{place}: no narrative has a gap of its own, so there is no distribution to draw")
    if headline is not None and not math.isfinite(float(headline["delta"])):
        raise NotEstimableError(f"{place}: the headline has no estimate to draw")
    edges = _edges_about_zero(contrasts)
    mean, low, high = float(contrasts.mean()), math.nan, math.nan
    if headline is not None:
        mean, low, high = (float(headline[name]) for name in ("delta", "ci_low", "ci_high"))
    bounded = math.isfinite(low) and math.isfinite(high)
    words = f"δ {points(mean)}" if headline is not None else f"mean {points(mean)}"
    if bounded:
        words += f"  [{interval(low, high)}]"
        words += f", {coverage(confidence)} interval" if confidence is not None else ""
    n_without = len(narratives) - contrasts.size
    axis = f"narrative's own gap, in scale points ({plural(contrasts.size, 'narrative')}"
    axis += f"; {count(n_without)} without)" if n_without else ")"
    with drawing():
        axes = _axes(height=1.6, above=0.3, axis=axis, side="narratives")
        sns.histplot(
            x=contrasts, bins=edges, color=PALE_BLUE, edgecolor=BLUE, linewidth=0.7, alpha=1, zorder=2, ax=axes
        )
        sns.rugplot(
            x=contrasts, height=-0.05, clip_on=False, expand_margins=False, color=MUTED, linewidth=0.6, alpha=0.6,
            gid="narratives", rasterized=contrasts.size > _MOST_OUTLINES, ax=axes,
        )  # fmt: skip
        axes.axvline(0.0, color=INK, linewidth=0.9, zorder=3, gid="zero")
        # The mean and its interval are drawn above the bars, which would hide them.
        top = 1.18 * float(np.histogram(contrasts, bins=edges)[0].max())
        axes.plot([mean, mean], [0, top], color=ORANGE, linewidth=1.4, linestyle=(0, (4, 1.5)), zorder=4, gid="mean")
        axes.plot([mean], [top], "D", color=ORANGE, markersize=4, zorder=5)
        if bounded:
            axes.plot([low, high], [top, top], color=ORANGE, linewidth=2, zorder=4, gid="interval")
        ends = (edges[0], edges[-1], mean, 0.0, *((low, high) if bounded else ()))
        # A single bar must not fill the figure.
        room = max(0.03 * (max(ends) - min(ends)), 5 * (edges[1] - edges[0]) if len(edges) == 2 else 0.0)
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.set_ylim(0, 1.08 * top)
        axes.tick_params(axis="x", pad=8)
        _finish(axes, signed=True, counts=True)
        axes.text(0.5, 1.04, words, transform=axes.transAxes, ha="center", va="bottom", fontsize=TEXT)
    return _figure_of(axes)


def plot_ratings(distributions: pd.DataFrame, *, low: float, high: float) -> Figure:
    """Draw the distribution of ratings, in-group against out-group, with separate bars for the ends of the scale.

    Ratings beyond an end have a bar of their own outside it. Baselines are left out; the figure names a kind of pair
    without a rating.
    """
    place = _of_one(distributions, "distributions")
    kinds = {pairs: own for pairs in _PAIRS if len(own := distributions.loc[distributions["pairs"] == pairs])}
    if not kinds:
        raise NotEstimableError(f"{place}: no pair of identities has a rating, so there is no distribution to draw")
    span = high - low
    looks: dict[str, dict[str, Any]] = {
        "in_group": {"color": BLUE, "linewidth": 1.5},
        "out_group": {"color": ORANGE, "linewidth": 1.5, "linestyle": (0, (3, 1.2))},
    }
    bars: dict[str, dict[str, Any]] = {
        "in_group": {"facecolor": PALE_BLUE, "edgecolor": BLUE},
        "out_group": {"facecolor": "white", "edgecolor": ORANGE, "hatch": "/////", "linestyle": (0, (3, 1.2))},
    }
    bar, gap = 0.085 * span, 0.075 * span
    starts = {"floor": low - gap - 2 * bar, "ceiling": high + gap}
    if any((own["low"] < low).any() for own in kinds.values()):
        starts["below"] = starts["floor"] - gap - 2 * bar
    if any((own["high"] > high).any() for own in kinds.values()):
        starts["above"] = starts["ceiling"] + gap + 2 * bar
    with drawing():
        axes = _axes(height=1.7, above=0.58, axis=_steps(1.0), side="share of ratings, %")
        handles, greatest = [], 0.0
        for position, pairs in enumerate(_PAIRS):
            if pairs not in kinds:
                handles.append(Patch(facecolor="none", edgecolor="none", label=f"{_PAIRS[pairs]}: no rating"))
                continue
            between, own_ends = _parts(kinds[pairs], place, low=low, high=high)
            shares = 100 * between["share"].to_numpy(dtype=float)
            edges = [*between["low"], between["high"].iloc[-1]]
            axes.stairs(shares, edges, zorder=2 + position, gid=pairs, baseline=None, **looks[pairs])
            for end, share in own_ends.items():
                if end not in starts:
                    continue
                x = starts[end] + position * bar
                axes.bar(x, 100 * share, width=bar * 0.86, align="edge", linewidth=1, gid=f"end-{pairs}", **bars[pairs])
                axes.annotate(
                    rate(share), (x + 0.43 * bar, 100 * share), xytext=(0, 3), textcoords="offset points",
                    ha="center", va="bottom", rotation=90, fontsize=SMALL,
                )  # fmt: skip
            greatest = max(greatest, shares.max(), *(100 * share for share in own_ends.values()))
            n_ratings = int(kinds[pairs]["n_ratings"].sum())
            handles.append(Patch(label=f"{_PAIRS[pairs]} ({plural(n_ratings, 'rating')})", linewidth=1, **bars[pairs]))
        axes.set_xlim(min(starts.values()) - 0.3 * bar, max(starts.values()) + 2.3 * bar)
        axes.set_ylim(0, greatest * 1.3 if greatest else 1.0)
        _finish(axes)
        width = between["high"].iloc[0] - between["low"].iloc[0]
        inner, written = ticks_between(low + width, high - width)
        axes.set_xticks(
            [*(start + bar for start in starts.values()), *inner],
            [*(_END_WORDS[end].format(scale_end(low), scale_end(high)) for end in starts), *written],
        )
        axes.set_xlabel(_steps(float(width)))
        axes.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=1, frameon=False, fontsize=TEXT,
            borderaxespad=0.2, handlelength=1.3, labelspacing=0.25,
        )  # fmt: skip
    return _figure_of(axes)


def plot_null(null: pd.DataFrame, *, delta_z: float, null_low: float, null_high: float) -> Figure:
    """Draw the published gap among those of shuffled matrices, in standard deviations of the matrix's own cells."""
    place = _of_one(null, "shuffles")
    n_shuffles = int(null["n_shuffles"].sum())
    if n_shuffles == 0 or not all(map(math.isfinite, (delta_z, null_low, null_high))):
        raise NotEstimableError(f"{place}: the published gap or its null is missing, so there is no null to draw")
    edges = [*null["low"], null["high"].iloc[-1]]
    with drawing():
        axes = _axes(
            height=1.5,
            above=0.6,
            axis=f"published gap δ_z of shuffled matrices ({count(n_shuffles)}), in standard deviations of the "
            "matrix's cells",
            side="shuffled matrices",
        )
        axes.axvspan(null_low, null_high, color=FAINT, linewidth=0, zorder=0, gid="null-interval")
        axes.stairs(
            null["n_shuffles"], edges, fill=True, facecolor=PALE_BLUE, edgecolor=BLUE, linewidth=0.9, gid="null",
            zorder=2,
        )  # fmt: skip
        axes.axvline(delta_z, color=ORANGE, linewidth=1.8, zorder=3, gid="observed")
        ends = (edges[0], edges[-1], delta_z, null_low, null_high, 0.0)
        room = 0.05 * (max(ends) - min(ends) or 1.0)
        axes.set_xlim(min(ends) - room, max(ends) + room)
        _finish(axes, signed=True, counts=True)
        left = delta_z < sum(axes.get_xlim()) / 2
        axes.annotate(
            f"observed {points(delta_z)}", (delta_z, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", ha="left" if left else "right", va="bottom", fontsize=TEXT, fontweight="bold",
        )  # fmt: skip
        axes.annotate(
            f"shaded: 95% null interval, {interval(null_low, null_high)},\nnot a confidence interval",
            (0, 1), xycoords="axes fraction", xytext=(0, 15), textcoords="offset points", va="bottom", fontsize=SMALL,
            color=MUTED,
        )  # fmt: skip
    return _figure_of(axes)


def _steps(width: float) -> str:
    """Label the axis of ratings; bars between the ends are ``width`` points wide."""
    return fill(f"rating, in scale points; between the ends in steps of {scale_end(width)}", width=_PLOT, size=TEXT)


def _of_one(table: pd.DataFrame, what: str) -> str:
    """Name the table's dimension and variant; raise an error if there are none or several."""
    if table.empty:
        raise NotEstimableError(f"there are no {what} to draw")
    for name in ("dimension", "variant"):
        if table[name].nunique() > 1:
            found = ", ".join(sorted(map(str, table[name].unique())))
            raise ValueError(f"{what} of one {name} are drawn at a time, and there are several: {found}")
    return f"{table['dimension'].iloc[0]}, {table['variant'].iloc[0]}"


def _edges_about_zero(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Bin edges about as wide as by the Freedman-Diaconis rule, at multiples of the width: no bin holds both signs."""
    reach = float(np.abs(values).max()) or 1.0
    spread = float(np.ptp(values))
    if spread < 1e-9 * reach:
        width = reach / 10
    else:
        quartiles = np.quantile(values, [0.25, 0.75])
        wanted = 2 * float(quartiles[1] - quartiles[0]) / values.size ** (1 / 3)
        width = float(np.clip(wanted, spread / _MOST_BINS, spread / _LEAST_BINS))
    # If rounding puts an end inside the values, one more bin covers them.
    first, last = math.floor(float(values.min()) / width), math.floor(float(values.max()) / width) + 1
    first, last = first - (first * width > values.min()), last + (last * width < values.max())
    edges: npt.NDArray[np.float64] = np.arange(first, last + 1, dtype=np.float64) * np.float64(width)
    return edges


def _parts(own: pd.DataFrame, place: str, *, low: float, high: float) -> tuple[pd.DataFrame, dict[str, float]]:
    """Separate the bins between the ends of the scale from the shares at the ends and beyond them."""
    own = own.sort_values(["low", "high"], kind="stable")
    outside = {"below": own["low"] < low, "above": own["high"] > high}
    on_scale = own.loc[~(outside["below"] | outside["above"])]
    if len(on_scale) < 3:
        raise ValueError(f"{place}: the bins of the ratings do not run from {low:g} to {high:g}")
    floor, between, ceiling = on_scale.iloc[0], on_scale.iloc[1:-1], on_scale.iloc[-1]
    whole = bool(np.isclose(between["high"].to_numpy()[:-1], between["low"].to_numpy()[1:]).all())
    met = [*own.loc[outside["below"], "high"], *own.loc[outside["above"], "low"]]
    wanted = [*[low] * int(outside["below"].sum()), *[high] * int(outside["above"].sum())]
    ends = [floor["low"], floor["high"], ceiling["low"], ceiling["high"], *met]
    if not whole or not np.allclose(ends, [low, low, high, high, *wanted]):
        raise ValueError(f"{place}: the bins of the ratings do not run from {low:g} to {high:g}")
    return between, {
        "floor": float(floor["share"]),
        "ceiling": float(ceiling["share"]),
        **{side: float(own.loc[chosen, "share"].sum()) for side, chosen in outside.items()},
    }


def _axes(*, height: float, above: float, axis: str, side: str) -> Axes:
    """Make a figure of one panel with labelled axes."""
    written = fill(axis, width=_PLOT, size=TEXT)
    below = 0.32 + height_of([written], size=TEXT)
    figure = new_figure(_WIDTH, above + height + below)
    axes = place_axes(figure, _LEFT, below, _PLOT, height)
    axes.set_xlabel(written, labelpad=3)
    axes.set_ylabel(side)
    return axes


def _finish(axes: Axes, *, signed: bool = False, counts: bool = False) -> None:
    write_ticks(axes.xaxis, signed=signed)
    write_ticks(axes.yaxis, whole=counts)
    axes.tick_params(labelsize=SMALL, length=2.5)
    axes.tick_params(axis="y", pad=2)
    sns.despine(ax=axes)


def _figure_of(axes: Axes) -> Figure:
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure
