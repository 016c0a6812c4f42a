"""The published heatmaps of many runs in one figure: one panel a run, with a common order of identities and colours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from audit.errors import NotEstimableError
from audit.report.cell_matrix import BASELINES, CellMatrix, Mask, lay_out_matrix
from audit.report.figures.style import (
    DIVERGING,
    INK,
    LABEL,
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
)
from audit.tables.formatting import fixed, plural

MOST: Final = 60  # most panels that fit a figure
_COLUMNS: Final = 4  # default number of panels side by side
_WRITTEN: Final = 8  # most identities whose cells have room for their number
_GAP: Final = 0.18
_NOT_ASKED: Final = "#dcdce2"
_LEGEND: Final = "published form: standard deviations of the panel's own cells, about their mean; one scale for all"


@for_phones
def plot_published_grid(
    cells: pd.DataFrame, *, clusters: Mapping[str, str] | None = None, n_columns: int | None = None
) -> Figure:
    """Draw the published heatmap of every run, up to 60, with the published mask.

    A cell hidden by the mask is white, one that was asked and has no value is hatched, and one that the run did not ask
    is grey. In-group cells are framed. A run without any value has a panel that says so.
    """
    runs = [str(run) for run in cells["run"].unique()]
    if cells["dimension"].nunique() != 1 or not 1 <= len(runs) <= MOST:
        raise ValueError(f"a grid of heatmaps is of one dimension and of 1 to {MOST} runs, and there are {len(runs)}")
    reach = float(cells["z"].abs().max())
    if not math.isfinite(reach):
        raise NotEstimableError(f"{cells['dimension'].iloc[0]}: no cell of any run has a published value")
    reach = reach if reach > 1e-9 else 1.0
    # `lay_out` ignores the mean for its order, so any number will do; the layout covers the pairs of all runs.
    laid = cells.assign(mean=cells["z"], n_prompts=1, n_rated=1, variant="")
    everywhere = lay_out_matrix(laid.drop_duplicates(["perceiver", "experiencer"]), clusters=clusters)
    return _draw(laid, runs, everywhere, reach=reach, n_columns=n_columns or min(_COLUMNS, len(runs)))


def _draw(cells: pd.DataFrame, runs: list[str], everywhere: CellMatrix, *, reach: float, n_columns: int) -> Figure:
    n_rows, n_cells = everywhere.mean.shape
    written = max(n_rows, n_cells) <= _WRITTEN
    cell = 0.42 if written else 0.155
    rows = [drawable(str(term), width=16 if is_narrow() else 40, lines=1) for term in everywhere.mean.index]
    if is_narrow():
        n_columns = 1
        cell = max(min(cell, (NARROW - PAD - 0.38 - extent(rows, size=SMALL)[0]) / n_cells), 0.125)
        written = written and cell >= 0.3
    width, height = n_cells * cell, n_rows * cell
    columns = [drawable(str(term), width=40, lines=1) for term in everywhere.mean.columns]
    titles = [drawable(run, width=max(int(width * 72 / (0.6 * TEXT)), 12), lines=2) for run in runs]
    title_room = height_of(titles, size=TEXT) + 0.05
    left = PAD + 0.2 + extent(rows, size=SMALL)[0] + 0.06
    above = PAD + 0.2 + extent(columns, size=SMALL)[0] + 0.06
    n_lines = -(-len(runs) // n_columns)
    total = max(left + n_columns * width + (n_columns - 1) * _GAP + 0.12, NARROW if is_narrow() else 4.2)
    note = fill(
        f"{plural(len(runs), 'run')}. Framed: in-group. White: hidden by the published significance mask. Hatched: no "
        "value. Grey: not asked.",
        width=total - 2 * PAD,
        size=SMALL,
    )
    legend = fill(_LEGEND, width=total - left - PAD if total - left > 3 else total - 2 * PAD, size=TEXT)
    below = PAD + height_of([note], size=SMALL) + 0.06 + height_of([legend], size=TEXT) + 0.17 + 0.13 + 0.14
    step = height + title_room + 0.1
    with drawing():
        figure = new_figure(total, above + n_lines * step + below)
        bar = place_axes(figure, PAD if is_narrow() else left, below - 0.27, min(max(width, 2.0), 3.2), 0.13)
        for number, (run, title) in enumerate(zip(runs, titles, strict=True)):
            line, column = divmod(number, n_columns)
            bottom = below + (n_lines - 1 - line) * step
            axes = place_axes(figure, left + column * (width + _GAP), bottom, width, height)
            _panel(axes, cells.loc[cells["run"] == run], everywhere, reach=reach, bar=bar, written=written)
            axes.set_title(title, fontsize=TEXT, loc="left", pad=3, fontweight="bold")
            if column == 0:
                axes.set_yticks(np.arange(n_rows) + 0.5, rows, rotation=0, fontsize=SMALL)
            if line == 0:
                _head(figure, axes, columns, cell=cell, room=title_room)
        bar.tick_params(labelsize=SMALL, length=2.5, pad=2)
        bar.set_xlabel(legend, fontsize=TEXT, loc="left", labelpad=2)
        edge = figure.get_figheight()
        figure.text(left / total, 1 - PAD / edge, "experiencer", va="top", fontsize=LABEL, fontweight="bold")
        figure.text(
            PAD / total, 1 - (above + title_room) / edge, "perceiver", va="top", rotation=90, fontsize=LABEL,
            fontweight="bold",
        )  # fmt: skip
        figure.text(PAD / total, PAD / edge, note, va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _panel(axes: Axes, own: pd.DataFrame, everywhere: CellMatrix, *, reach: float, bar: Axes, written: bool) -> None:
    """Draw one run's cells on the axes of all runs."""
    z = everywhere.align(own, "z")
    asked = everywhere.align(own.assign(there=1.0), "there").notna().to_numpy()
    hidden = everywhere.align(own.assign(shown=own["shown"].astype("boolean").fillna(True)), "shown").to_numpy() == 0.0
    hatched = asked & z.isna().to_numpy()
    values = z.mask(hidden)
    decimals = min(max(1 - math.floor(math.log10(reach)), 1), 3)
    labels = np.array([[fixed(v, decimals=decimals, signed=True) for v in row] for row in z.to_numpy().tolist()])
    sns.heatmap(
        values,
        mask=values.isna(),
        annot=labels if written else None,
        fmt="",
        annot_kws={"size": SMALL, "color": INK},
        vmin=-reach,
        vmax=reach,
        cmap=sns.blend_palette(DIVERGING, as_cmap=True),
        xticklabels=False,
        yticklabels=False,
        cbar_kws={"orientation": "horizontal"},
        cbar_ax=bar,
        ax=axes,
    )
    # Embedded as an image: paths of so many cells would take megabytes.
    axes.collections[0].set_rasterized(True)
    axes.collections[0].colorbar.solids.set_rasterized(True)  # type: ignore[union-attr]
    axes.set_xlabel("")
    axes.set_ylabel("")
    axes.tick_params(length=0, pad=3)
    looks: tuple[tuple[Mask, dict[str, Any]], ...] = (
        (hatched, {"facecolor": "white", "edgecolor": "#8a8a94", "hatch": "////", "gid": "no-value"}),
        (~asked, {"facecolor": _NOT_ASKED, "edgecolor": "none", "gid": "not-asked"}),
    )
    for places, look in looks:
        for row, column in np.argwhere(places):
            axes.add_patch(Rectangle((column, row), 1, 1, linewidth=0, **look))
    if not z.notna().any(axis=None):
        axes.text(0.5, 0.5, "no value", transform=axes.transAxes, ha="center", va="center", fontsize=TEXT, color=INK)
    for groups, draw in ((everywhere.row_groups, axes.axhline), (everywhere.column_groups, axes.axvline)):
        first = next((place for place, group in enumerate(groups) if group in BASELINES), None)
        if first:
            draw(first, color=MUTED, linewidth=0.7, gid="boundary")
    axes.add_collection(
        LineCollection(_frames(everywhere.in_group), colors=INK, linewidths=0.8, clip_on=False, gid="in-group")
    )
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.5)
        spine.set_color(MUTED)


def _frames(in_group: Mask) -> list[list[tuple[float, float]]]:
    """Return the edges between in-group cells and others, so that adjacent frames merge."""
    inside = np.pad(in_group, 1).astype(np.int8)
    across = [[(c, r), (c + 1, r)] for r, c in np.argwhere(np.diff(inside, axis=0)[:, 1:-1]).tolist()]
    down = [[(c, r), (c, r + 1)] for r, c in np.argwhere(np.diff(inside, axis=1)[1:-1]).tolist()]
    return [*across, *down]


def _head(figure: Figure, axes: Axes, names: list[str], *, cell: float, room: float) -> None:
    """Write the experiencers above the title of a panel in the first row."""
    width, height = figure.get_size_inches()
    box = axes.get_position()
    for place, name in enumerate(names):
        figure.text(
            box.x0 + (place + 0.5) * cell / width, box.y1 + room / height, name, rotation=90, ha="center", va="bottom",
            fontsize=SMALL, color=INK,
        )  # fmt: skip
