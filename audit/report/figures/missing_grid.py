"""A heatmap of δ under other assumptions about missing ratings."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.style import (
    DIVERGING,
    INK,
    NARROW,
    SMALL,
    TEXT,
    drawing,
    fill,
    for_phones,
    is_narrow,
    new_figure,
    place_axes,
)
from audit.tables.formatting import coverage, fixed

_CELL_WIDTH, _CELL_HEIGHT = 0.62, 0.3
_LEFT, _BOTTOM, _TOP, _RIGHT = 0.75, 0.8, 0.15, 0.15


@for_phones
def plot_missing_grid(grid: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw δ by how far the missing in-group and out-group ratings are shifted, with the line at which it is 0.

    Takes rows of the `tables.MISSING_GRID` table, of one dimension and variant. A number whose interval includes 0 is
    in brackets. NotEstimableError if no rating is missing.
    """
    if grid.empty:
        raise NotEstimableError("no rating is missing, so that no shift of missing ratings can be drawn")
    by = {"index": "shift_out_group", "columns": "shift_in_group"}
    delta = grid.pivot(**by, values="delta").sort_index(ascending=True)
    low, high = (grid.pivot(**by, values=end).to_numpy() for end in ("ci_low", "ci_high"))
    values = delta.to_numpy()
    reach = float(np.abs(values).max()) or 1.0
    n_rows, n_columns = values.shape
    cell = min(_CELL_WIDTH, (NARROW - _LEFT - _RIGHT) / n_columns) if is_narrow() else _CELL_WIDTH
    width, height = cell * n_columns, _CELL_HEIGHT * n_rows
    with drawing():
        figure = new_figure(_LEFT + width + _RIGHT, _BOTTOM + height + _TOP)
        axes = place_axes(figure, _LEFT, _BOTTOM, width, height)
        colours = LinearSegmentedColormap.from_list("diverging", DIVERGING)
        places = np.arange(n_columns + 1) - 0.5, np.arange(n_rows + 1) - 0.5
        axes.pcolormesh(*places, values, cmap=colours, vmin=-reach, vmax=reach, edgecolors="white", linewidth=0.5)
        decimals = 2 if reach < 10 else 1
        for (row, column), value in np.ndenumerate(values):
            number = fixed(value, decimals=decimals, signed=True)
            holds = low[row, column] <= 0 <= high[row, column]
            shown = f"({number})" if holds else number
            axes.text(column, row, shown, ha="center", va="center", fontsize=SMALL, color=INK)
        if values.min() < 0 < values.max():
            axes.contour(np.arange(n_columns), np.arange(n_rows), values, levels=[0.0], colors=[INK], linewidths=1.0)
        for ticks, shifts in ((axes.set_xticks, delta.columns), (axes.set_yticks, delta.index)):
            written = [fixed(shift, decimals=_decimals(grid), signed=True) for shift in shifts.to_numpy(dtype=float)]
            ticks(range(len(shifts)), written)
        axes.tick_params(length=0)
        axes.set_xlabel(fill("missing in-group ratings, points from what is expected of them", width=width, size=TEXT))
        axes.set_ylabel("missing out-group ratings, points", fontsize=TEXT)
        figure.text(
            0.02,
            0.03,
            f"In the cells: δ, in points; in brackets where its {coverage(confidence)} interval holds 0.\n"
            "Line: δ is 0. Shift 0 and 0: the headline.",
            fontsize=SMALL,
            color=INK,
        )
    return figure


def _decimals(grid: pd.DataFrame) -> int:
    shifts = grid["shift_in_group"].to_numpy()
    return next((n for n in range(4) if np.allclose(shifts, np.round(shifts, n))), 4)
