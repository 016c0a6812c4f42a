"""Heatmaps of one dimension's cells, perceivers in rows and experiencers in columns.

There are four: mean intensity, what δ is made of, the published z, and refusals. Colour limits can be shared by panels
of several dimensions; every cell also shows its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.cell_matrix import SPARSE_BELOW, CellMatrix, Mask, colour_limits, lay_out_matrix, mean_decimals
from audit.report.figures.matrix import Clusters, Panel, draw_matrix
from audit.report.figures.style import DIVERGING, SEQUENTIAL, for_phones
from audit.tables.formatting import MISSING, fixed, scale_end


@for_phones
def plot_cells(
    cells: pd.DataFrame,
    *,
    low: float,
    high: float,
    clusters: Clusters | None = None,
    limits: tuple[float, float] | None = None,
    width: float | None = None,
) -> Figure:
    """Draw the mean intensity of every pair.

    A pair that was asked but never rated is hatched and has no colour, since missing is not 0. A star marks a mean over
    less than 80% of the pair's prompts. ``limits`` are the means at the ends of the colours (`shared_limits`).
    DoesNotFitError if cells and labels need more than ``width``, in inches.
    """
    grid = lay_out_matrix(cells, clusters=clusters)
    own = shared_limits(cells, low=low, high=high)
    if limits is not None and (own[0] < limits[0] - 1e-6 or own[1] > limits[1] + 1e-6):
        means = grid.mean.to_numpy()
        _check_inside(means, limits, "are not within the colour limits")
    decimals = mean_decimals(low, high)
    labels = _written(grid.mean, lambda mean: fixed(mean, decimals=decimals))
    return draw_matrix(
        Panel(
            grid=grid,
            values=grid.mean,
            labels=np.where(grid.sparse, np.char.add(labels, "*"), labels),
            limits=limits or own,
            colours=SEQUENTIAL,
            legend=f"mean intensity, points of the {scale_end(low)}{MISSING}{scale_end(high)} scale",
            hatched=grid.unrated,
            notes=(
                ("Hatched: no rating.", grid.unrated.any()),
                (f"*: under {SPARSE_BELOW:.0%} of its prompts rated.", grid.sparse.any()),
                (
                    f"Some means lie beyond the scale's ends, {scale_end(low)} and {scale_end(high)}.",
                    bool(((grid.mean < low - 1e-6) | (grid.mean > high + 1e-6)).any(axis=None)),
                ),
            ),
        ),
        clusters=clusters,
        width=width,
    )


def shared_limits(cells: pd.DataFrame, *, low: float, high: float) -> tuple[float, float]:
    """Return the means at the two ends of the colours of `plot_cells`, so that several panels can share them."""
    if not low < high:
        raise ValueError(f"the scale's lower end {low} is not below its upper end {high}")
    return colour_limits(cells["mean"].to_numpy(dtype=float), low=low, high=high)


@for_phones
def plot_interaction(
    cells: pd.DataFrame, *, clusters: Clusters | None = None, reach: float | None = None, width: float | None = None
) -> Figure:
    """Draw `interaction`: the identity pairs' means with row and column effects removed, in points around 0.

    Baselines are left out. ``reach`` is the points on either side of 0 at the ends of the colours; None takes the
    largest here. MissingCellError if an identity pair has no mean, since effects cannot be removed then.
    """
    grid = lay_out_matrix(cells, clusters=clusters).without_baselines()
    if grid.mean.empty:
        raise NotEstimableError(f"{_title(cells)}: there are no pairs of identities to draw, only baselines")
    if min(grid.mean.shape) == 1:
        raise NotEstimableError(
            f"{_title(cells)}: with one perceiver or one experiencer, effects leave nothing to draw"
        )
    centred = grid.centred()
    return _diverging(
        grid,
        centred,
        reach=reach,
        clusters=clusters,
        legend="points, after perceiver and experiencer effects are removed",
        place=_title(cells),
        width=width,
    )


def interaction_reach(cells: pd.DataFrame) -> float | None:
    """Return the largest absolute value over all panels of `plot_interaction`, in points; None if none can be drawn."""
    reaches = []
    for _, panel in cells.groupby(["dimension", "variant"], sort=False, observed=True):
        grid = lay_out_matrix(panel).without_baselines()
        if not grid.mean.empty and grid.mean.notna().all(axis=None):
            reaches.append(float(grid.centred().abs().to_numpy().max()))
    return max(reaches, default=None)


@for_phones
def plot_published(
    cells: pd.DataFrame,
    published_cells: pd.DataFrame,
    *,
    masked: bool,
    clusters: Clusters | None = None,
    reach: float | None = None,
) -> Figure:
    """Draw the published form of the matrix: cells in standard deviations of the matrix's own, about its mean.

    ``masked`` leaves cells blank that the published significance mask hides. A pair without a value is hatched either
    way. ``reach`` is the standard deviations at the ends of the colours; None takes the largest here, hidden cells
    included.
    """
    grid = lay_out_matrix(cells, clusters=clusters)
    place = _title(cells)
    own = published_cells
    for name in ("dimension", "variant"):
        own = own.loc[own[name].astype(str) == str(cells[name].iloc[0])]
    z = grid.align(own, "z")
    if not np.isfinite(z.to_numpy()).any():
        raise NotEstimableError(f"{place}: no cell has a published value, so there is no published heatmap to draw")
    hidden = grid.align(own.assign(shown=own["shown"].astype("boolean").fillna(True)), "shown").to_numpy() == 0.0
    return _diverging(
        grid,
        z,
        reach=reach,
        clusters=clusters,
        legend="published form: standard deviations of this matrix's own cells, about their mean",
        place=place,
        hidden=hidden if masked else np.zeros_like(hidden),
    )


def published_reach(published_cells: pd.DataFrame) -> float | None:
    """Return the largest absolute published value, in the unit of ``z``; None if there is no value."""
    largest = float(published_cells["z"].abs().max())
    return largest if math.isfinite(largest) else None


@for_phones
def plot_missing(cells: pd.DataFrame, *, clusters: Clusters | None = None, upper: float | None = None) -> Figure:
    """Draw how often the model refused to rate each pair, in percent of the pair's prompts.

    Colours start at 0 and reach at least 5%, so that a few refusals do not look like many. Zeros are drawn too: they
    were observed. ``upper`` is the rate, between 0 and 1, at the upper end of the colours.
    """
    grid = lay_out_matrix(cells, clusters=clusters)
    rates = grid.align(cells, "refusal_rate") * 100
    limits = (0.0, max(100 * upper if upper is not None else float(np.nanmax(rates, initial=0.0)), 5.0))
    _check_inside(rates.to_numpy(), limits, "% are not within the colour limits")
    whole = bool((np.isnan(rates) | (rates == rates.round())).all(axis=None))

    def write(rate: float) -> str:
        return "<0.1" if 0 < rate < 0.05 else fixed(rate, decimals=0 if whole or rate >= 99.95 else 1)

    return draw_matrix(
        Panel(
            grid=grid,
            values=rates,
            labels=_written(rates, write),
            limits=limits,
            colours=SEQUENTIAL,
            legend="refusals, % of the pair's prompts",
            hatched=np.zeros_like(grid.asked),
        ),
        clusters=clusters,
    )


def _diverging(
    grid: CellMatrix,
    values: pd.DataFrame,
    *,
    reach: float | None,
    clusters: Clusters | None,
    legend: str,
    place: str,
    hidden: Mask | None = None,
    width: float | None = None,
) -> Figure:
    largest = float(np.nanmax(np.abs(values.to_numpy())))
    if reach is not None and largest > reach * (1 + 1e-9) + 1e-9:
        raise ValueError(f"{place}: a value {largest:g} away from 0 is beyond the colours' reach of {reach:g}")
    reach = largest if reach is None else reach
    # A smaller value is floating-point error.
    reach = reach if reach > 1e-9 else 1.0
    # Cells of many columns are narrow, so their numbers get one digit less.
    digits = 1 if max(values.shape) <= 12 else 0
    decimals = min(max(digits - math.floor(math.log10(reach)), 1), 4)
    hatched: Mask = grid.asked & np.isnan(values.to_numpy())
    hidden = np.zeros_like(hatched) if hidden is None else hidden & ~hatched
    return draw_matrix(
        Panel(
            grid=grid,
            values=values.mask(hidden),
            labels=_written(values, lambda value: fixed(value, decimals=decimals, signed=True)),
            limits=(-reach, reach),
            colours=DIVERGING,
            legend=legend,
            hatched=hatched,
            notes=(
                ("Blank: hidden by the published significance mask.", hidden.any()),
                ("Hatched: no value.", hatched.any()),
            ),
        ),
        clusters=clusters,
        width=width,
    )


def _written(values: pd.DataFrame, write: Callable[[float], str]) -> npt.NDArray[np.str_]:
    return np.array([[write(value) for value in row] for row in values.to_numpy().tolist()], dtype=str)


def _check_inside(values: npt.NDArray[np.float64], limits: tuple[float, float], words: str) -> None:
    least, greatest = float(np.nanmin(values, initial=np.inf)), float(np.nanmax(values, initial=-np.inf))
    if least < limits[0] - 1e-6 or greatest > limits[1] + 1e-6:
        raise ValueError(f"means from {least:g} to {greatest:g} {words} from {limits[0]:g} to {limits[1]:g}")


def _title(cells: pd.DataFrame) -> str:
    return f"{cells['dimension'].iloc[0]}, {cells['variant'].iloc[0]}"
