"""Tables to figures, by seaborn: heatmaps of the cells, what δ is made of, and the gaps with their intervals.

Nothing here opens a file or a window: every function returns a `matplotlib.figure.Figure` that pyplot does not know,
and `figure_bytes` turns one into bytes, the same bytes for the same table. Identity wordings come from users and
are drawn as plain text, never as mathematics.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib import font_manager, style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from audit.grid import BASELINES, SPARSE_BELOW, Grid, lay_out
from audit.wording import MISSING, coverage, dimension_title, fixed, interval, points, scale_end

_INK: Final = "#1b1b1f"
_MUTED: Final = "#55555e"
_SEQUENTIAL: Final = ("#f7fafd", "#bcd7ee", "#62a2d4")
_DIVERGING: Final = ("#5b9fd6", "#f8f8f8", "#ee9a4d")
"""Light throughout, so that dark numbers stay legible; blue against orange survives every colour-vision deficiency."""
_GAP_POINTS: Final = 8.0
"""Width of the gap before the baselines, in typographic points."""
_LETTER: Final = 0.082
"""Room for a letter of a label, in inches."""
_WIDE_FONTS: Final = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari")
_STYLE: Final[dict[str, Any]] = {
    "font.size": 10.0,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "hatch.linewidth": 0.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "empathy-audit",
}


def plot_cells(cells: pd.DataFrame, *, low: float, high: float) -> Figure:
    """Draw the mean intensity of every pair, perceivers in rows and experiencers in columns.

    In-group cells are framed, the baselines stand apart, and a pair that was asked but never rated is hatched: it has
    no colour, since missing is not 0. A star marks a mean over under 80% of the pair's prompts.

    Parameters
    ----------
    cells
        Rows of the `schema.CELLS` table, of one dimension and one variant.
    low, high
        Ends of the scale, in points. The colours span the means, widened to at least a tenth of the scale so that
        noise does not look like structure.

    Raises
    ------
    ValueError
        If there are no cells, several dimensions or variants, a pair twice, or means off the scale.
    """
    if not low < high:
        raise ValueError(f"the scale's lower end {low} is not below its upper end {high}")
    grid = lay_out(cells)
    decimals = 1 if high - low > 20 else 2
    means = grid.mean.to_numpy()
    labels = np.array([[fixed(value, decimals=decimals) for value in row] for row in means], dtype=str)
    ends = f"{scale_end(low)}{MISSING}{scale_end(high)}"
    return _heatmap(
        grid,
        annotations=np.where(grid.sparse, np.char.add(labels, "*"), labels),
        limits=_colour_limits(means, low=low, high=high),
        palette=sns.blend_palette(_SEQUENTIAL, as_cmap=True),
        legend=f"mean intensity, points of the {ends} scale",
    )


def plot_interaction(cells: pd.DataFrame) -> Figure:
    """Draw `interaction`: the identity pairs' means with row and column effects removed, in points around 0.

    Parameters
    ----------
    cells
        As in `plot_cells`; baselines are left out.

    Raises
    ------
    MissingCellError, ValueError
        As in `interaction`.
    """
    grid = lay_out(cells).without_baselines()
    centred = grid.centred()
    values = centred.to_numpy()
    reach = float(np.abs(values).max())
    reach = reach if reach > 1e-9 else 1.0
    decimals = min(max(1 - math.floor(math.log10(reach)), 1), 4)
    return _heatmap(
        replace(grid, mean=centred, sparse=np.zeros_like(grid.sparse)),
        annotations=np.array([[fixed(v, decimals=decimals, signed=True) for v in row] for row in values], dtype=str),
        limits=(-reach, reach),
        palette=sns.blend_palette(_DIVERGING, as_cmap=True),
        legend="points, after perceiver and experiencer effects are removed",
    )


def plot_gaps(gap: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw each dimension's δ with its interval: a forest plot in scale points, with a line at 0.

    Parameters
    ----------
    gap
        The `schema.GAP` table, of which the headline rows about narratives are drawn. A gap that could not be
        estimated keeps its row, which says so.
    confidence
        Coverage of the table's intervals, for the axis to name.

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
    with _style():
        figure = _figure(width=4.5, height=1.0 + 0.56 * len(rows))
        axes = figure.subplots()
        axes.axvline(0.0, color=_INK, linewidth=1.0, zorder=1)
        places = rows.assign(row=np.arange(len(rows), dtype=float))
        axes.hlines(places["row"], places["ci_low"], places["ci_high"], color="#7a7a85", linewidth=2.2, zorder=2)
        sns.scatterplot(
            data=places,
            x="delta_points",
            y="row",
            hue="variant",
            style="variant",
            palette=sns.color_palette("colorblind", n_colors=places["variant"].nunique()),
            s=64,
            legend=False,
            zorder=3,
            ax=axes,
        )
        _fit_gaps(axes, places)
        axes.set_yticks(places["row"], [_plain(name, width=16, lines=4) for name in names])
        axes.set_ylim(len(rows) - 0.5, -0.75)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(
            f"δ in scale points (in-group minus out-group)\nand its {coverage(confidence)} interval", fontsize=9
        )
        axes.set_ylabel("")
        axes.grid(axis="x", color="#e3e3ea", linewidth=0.8)
        axes.set_axisbelow(True)
        sns.despine(ax=axes, left=True)
        _settle(figure)
    return figure


def figure_bytes(figure: Figure, format: Literal["svg", "png"]) -> bytes:
    """Render a figure: the same figure gives the same bytes, since neither a date nor a random id goes in.

    Parameters
    ----------
    figure
        A figure of this module.
    format
        ``svg`` (text as outlines, so that it looks alike everywhere) or ``png`` (200 dots an inch).
    """
    buffer = io.BytesIO()
    with _style():
        if format == "svg":
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        else:
            figure.savefig(buffer, format="png", dpi=200)
    return buffer.getvalue()


def _colour_limits(means: npt.NDArray[np.float64], *, low: float, high: float) -> tuple[float, float]:
    rated = means[np.isfinite(means)]
    if rated.size == 0:
        return low, high
    if rated.min() < low - 1e-6 or rated.max() > high + 1e-6:
        raise ValueError(f"means from {rated.min():g} to {rated.max():g} are not on the scale from {low:g} to {high:g}")
    middle = (float(rated.min()) + float(rated.max())) / 2
    half = max(float(np.ptp(rated)), (high - low) / 10) / 2
    return max(low, middle - half), min(high, middle + half)


def _heatmap(
    grid: Grid, *, annotations: npt.NDArray[np.str_], limits: tuple[float, float], palette: Any, legend: str
) -> Figure:
    n_rows, n_columns = grid.mean.shape
    largest = max(n_rows, n_columns)
    cell = 0.7 if largest <= 6 else 0.54 if largest <= 12 else 0.48
    text_size = min(9.5 if largest <= 6 else 8.5, 0.9 * cell * 72 / (0.62 * max(map(len, annotations.flat))))
    words = (word for term in grid.mean.columns for word in str(term).split())
    turned = n_columns > 6 or max(map(len, words), default=0) > 11
    row_names = [
        _plain(term, width=20 if largest > 6 else 13, lines=2 if largest > 6 else 3) for term in grid.mean.index
    ]
    column_names = [_plain(term, width=20 if turned else 11, lines=2 if turned else 4) for term in grid.mean.columns]
    width = 0.5 + _LETTER * _longest(row_names) + n_columns * cell
    above = _LETTER * _longest(column_names) if turned else 0.16 * max(name.count("\n") + 1 for name in column_names)
    note = _note(grid)
    with _style():
        figure = _figure(width=max(width, 3.4), height=above + n_rows * cell + (1.5 if note else 1.3))
        axes = figure.subplots()
        sns.heatmap(
            grid.mean,
            mask=grid.mean.isna(),
            annot=annotations,
            fmt="",
            annot_kws={"size": text_size, "color": _INK},
            vmin=limits[0],
            vmax=limits[1],
            cmap=palette,
            linewidths=0.6,
            linecolor="white",
            # Labels are set below: seaborn draws the figure first, with wordings read as mathematics.
            xticklabels=False,
            yticklabels=False,
            cbar_kws={"location": "bottom", "aspect": 32, "pad": 0.03, "shrink": 0.9},
            ax=axes,
        )
        bar = figure.axes[-1]
        bar.set_xlabel(textwrap.fill(legend, width=max(int(13 * n_columns * cell), 30)), fontsize=9)
        bar.tick_params(labelsize=8.5)
        _mark_cells(axes, grid, cell=cell)
        axes.set_xlabel("experiencer", fontweight="bold")
        axes.set_ylabel("perceiver", fontweight="bold")
        axes.xaxis.set_label_position("top")
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=8.5)
        axes.set_xticks(np.arange(n_columns) + 0.5, column_names, rotation=90 if turned else 0)
        axes.set_yticks(np.arange(n_rows) + 0.5, row_names, rotation=0)
        for label in axes.get_yticklabels():
            label.set_multialignment("right")
        for label in axes.get_xticklabels():
            label.set_multialignment("left" if turned else "center")
        if note:
            figure.supxlabel(textwrap.fill(note, width=int(13 * width)), fontsize=8.5, color=_MUTED)
        _settle(figure)
    return figure


def _mark_cells(axes: Axes, grid: Grid, *, cell: float) -> None:
    n_rows, n_columns = grid.mean.shape
    for row, column in np.argwhere(grid.unrated):
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="white", edgecolor="#8a8a94", hatch="////", linewidth=0, gid="no-rating"
            )
        )
        if max(n_rows, n_columns) <= 6:
            label = axes.text(column + 0.5, row + 0.5, "no\nrating", ha="center", va="center", fontsize=8)
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0})
    for groups, draw, end in ((grid.row_groups, axes.hlines, n_columns), (grid.column_groups, axes.vlines, n_rows)):
        for place, apart in _boundaries(groups):
            draw(place, 0, end, color="white", linewidth=_GAP_POINTS if apart else 3.0, zorder=2, gid="boundary")
    edges = list(_outline(grid, inset=_GAP_POINTS / 144 / cell))
    frames = LineCollection(
        edges, colors=_INK, linewidths=1.8, capstyle="round", zorder=3, clip_on=False, gid="in-group"
    )
    axes.add_collection(frames)


def _boundaries(groups: Sequence[str]) -> Iterator[tuple[int, bool]]:
    """Yield the places between groups, and whether baselines begin there; one-term groups need no line."""
    grouped = len(set(groups)) < len(groups)
    for place in range(1, len(groups)):
        before, after = groups[place - 1], groups[place]
        if (before in BASELINES) != (after in BASELINES):
            yield place, True
        elif grouped and before != after and after not in BASELINES:
            yield place, False


def _outline(grid: Grid, *, inset: float) -> Iterator[list[tuple[float, float]]]:
    """Yield the edges between an in-group cell and a neighbour that is not: frames that touch become one."""
    inside = np.pad(grid.in_group, 1)
    row_gaps = {place for place, apart in _boundaries(grid.row_groups) if apart}
    column_gaps = {place for place, apart in _boundaries(grid.column_groups) if apart}
    for row, column in np.argwhere(grid.in_group).tolist():
        left, right = _edges(column, column_gaps, inset)
        top, bottom = _edges(row, row_gaps, inset)
        if not inside[row, column + 1]:
            yield [(left, top), (right, top)]
        if not inside[row + 2, column + 1]:
            yield [(left, bottom), (right, bottom)]
        if not inside[row + 1, column]:
            yield [(left, top), (left, bottom)]
        if not inside[row + 1, column + 2]:
            yield [(right, top), (right, bottom)]


def _edges(place: int, gaps: set[int], inset: float) -> tuple[float, float]:
    return place + (inset if place in gaps else 0.0), place + 1 - (inset if place + 1 in gaps else 0.0)


def _note(grid: Grid) -> str:
    notes = []
    if grid.in_group.any():
        notes.append("Framed: in-group.")
    if grid.unrated.any():
        notes.append("Hatched: no rating.")
    if grid.sparse.any():
        notes.append(f"*: under {SPARSE_BELOW:.0%} of its prompts rated.")
    return " ".join(notes)


def _fit_gaps(axes: Axes, places: pd.DataFrame) -> None:
    """Set the limits of the forest plot and write each gap above its interval."""
    ends = places[["delta_points", "ci_low", "ci_high"]].to_numpy(dtype=float)
    reach = float(np.nanmax(np.abs(ends), initial=0.0))
    reach = reach if reach > 1e-9 else 1.0
    low, high = min(0.0, float(np.nanmin(ends, initial=0.0))), max(0.0, float(np.nanmax(ends, initial=0.0)))
    room = 0.4 * max(high - low, 0.5 * reach)
    axes.set_xlim(low - room, high + room)
    for place, delta, start, end in zip(
        places["row"], places["delta_points"], places["ci_low"], places["ci_high"], strict=True
    ):
        if not np.isfinite(delta):
            words, x = "not estimable", 0.0
        elif not (np.isfinite(start) and np.isfinite(end)):
            words, x = f"{points(delta)}, no interval", float(delta)
        else:
            words, x = f"{points(delta)}  [{interval(start, end)}]", float(delta)
        axes.annotate(
            words,
            (x, place),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
        )


def _plain(text: str, *, width: int, lines: int = 2) -> str:
    r"""Make a wording safe to draw: printable, wrapped, cut where too long, and ``$`` no sign of mathematics."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    wrapped = textwrap.wrap(printable, width=width, max_lines=lines, placeholder=" \N{HORIZONTAL ELLIPSIS}")
    return "\n".join(wrapped).replace("$", r"\$")


def _longest(names: Sequence[str]) -> int:
    return max(len(line) for name in names for line in name.split("\n"))


def _figure(*, width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Lay the figure out for good: each drawing would move a constrained layout a little, and change the bytes."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


@contextmanager
def _style() -> Iterator[None]:
    """Draw by this module's settings alone, whatever the user's matplotlibrc says."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(name for name in _WIDE_FONTS if name in installed)]
    with style.context(["default", _STYLE | {"font.family": fonts}]), warnings.catch_warnings():
        # A script that no font here has is drawn as boxes; the report's tables still show the wording.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
