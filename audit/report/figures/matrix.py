"""A heatmap of pairs: cells of one size, frames, brackets, and measured room for every label.

In-group cells are framed, baselines stand apart, and brackets outside the labels name groups of several terms and
cultural clusters. A cell is as large as its number needs, so the figure grows with the identities.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from audit.report.cell_matrix import BASELINES, CellMatrix, Mask
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
    height_of,
    is_narrow,
    is_whole,
    new_figure,
    place_axes,
)

Clusters = Mapping[str, str]  # group → cultural cluster

_BASELINE_GAP: Final = 6.0  # width of the gap before the baselines, in points
_GAP: Final = 0.05  # distance between a cell, its label and a bracket, in inches
_TICK: Final = 0.05  # length of a bracket's ends, in inches
_NARROWEST: Final = 3.3
_WIDEST: Final = 0.8  # largest side of a cell, in inches, if the figure's width is given
_HEADING: Final = LEADING * LABEL / 72 + _GAP
_LEAST_CELL: Final = 0.105  # smallest side of a cell, in inches; below it, labels of neighbours would touch
_RIGHT: Final = 0.15  # room to the right of the cells, in inches
_RIGHT_NARROW: Final = 0.2  # the same in a narrow figure, where half of the colour bar's last number needs room
_NO_NUMBERS: Final = "The cells are too small for their numbers here."


@dataclass(frozen=True)
class Panel:
    """The content of a heatmap."""

    grid: CellMatrix  # defines axes, groups and frames
    values: pd.DataFrame  # shown by colour, on the grid's axes; NaN is left white
    labels: npt.NDArray[np.str_]  # texts in the cells
    limits: tuple[float, float]  # values at the two ends of the colours
    colours: Sequence[str]  # from the lower to the upper end
    legend: str  # what the values are, and their unit
    hatched: Mask  # pairs that were asked and have no value
    notes: tuple[tuple[str, Any], ...] = ()  # sentences for below, each with whether it applies


@dataclass(frozen=True)
class _Bracket:
    """A name over neighbouring rows or columns; ``last`` is exclusive."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class _Level:
    """Brackets side by side, with names along them, or across if they are too long."""

    brackets: tuple[_Bracket, ...]
    along: bool
    depth: float


class DoesNotFitError(ValueError):
    """A matrix does not fit the requested width with legible letters."""


@dataclass(frozen=True)
class _MatrixLayout:
    """Side of a cell and room around the cells, in inches; font sizes in points."""

    cell: float
    size: float
    names: float
    turned: bool
    row_names: list[str]
    column_names: list[str]
    row_room: float
    column_room: float
    row_levels: list[_Level]
    column_levels: list[_Level]
    right: float = _RIGHT
    numbered: bool = True

    @property
    def left(self) -> float:
        return PAD + _HEADING + sum(level.depth for level in self.row_levels) + self.row_room

    @property
    def above(self) -> float:
        return PAD + _HEADING + sum(level.depth for level in self.column_levels) + self.column_room

    @property
    def width(self) -> float:
        """Width of the whole figure, before a minimum is applied."""
        return self.left + len(self.column_names) * self.cell + self.right

    @property
    def fits(self) -> bool:
        """Whether row labels, and turned column labels, are no higher than a cell."""
        turned = self.column_names if self.turned else []
        return height_of([*self.row_names, *turned], size=self.names) <= self.cell + 0.02


def draw_matrix(panel: Panel, *, clusters: Clusters | None, width: float | None = None) -> Figure:
    """Draw a panel, with a bracket for each cluster; DoesNotFitError if it needs more than ``width``, in inches."""
    if width is None:
        laid = _lay_out_narrow(panel, clusters) if is_narrow() else _lay_out(panel, clusters)
        return _draw(panel, clusters, laid, max(laid.width, _NARROWEST))
    for size in (LABEL, TEXT, SMALL):
        least = _digits(panel, size) + 0.05
        for cell in np.arange(_WIDEST, least - 1e-9, -0.02):
            laid = _lay_out(panel, clusters, cell=float(cell), size=size)
            if laid.fits and laid.width <= width:
                return _draw(panel, clusters, laid, width)
    n_rows, n_columns = panel.grid.mean.shape
    raise DoesNotFitError(f"{n_rows} rows and {n_columns} columns have no room with letters of {SMALL:g} points")


def _digits(panel: Panel, size: float) -> float:
    """Return the width of the widest number, in inches."""
    return extent(sorted(set(panel.labels.flat)), size=size)[0]


def _lay_out(
    panel: Panel, clusters: Clusters | None, *, cell: float | None = None, size: float | None = None
) -> _MatrixLayout:
    """Measure labels around cells of the given side, or of the side that numbers of the usual size need."""
    grid = panel.grid
    largest = max(grid.mean.shape)
    names = TEXT if largest <= 12 and size != SMALL else SMALL
    size = size or (LABEL if largest <= 6 else TEXT if largest <= 12 else SMALL)
    if cell is None:
        cell = max(_digits(panel, size) + 0.07, 0.62 if largest <= 6 else 0.46 if largest <= 12 else 0.3)
    turned = len(grid.mean.columns) > 6 or extent(_words(grid.mean.columns), size=TEXT)[0] > cell - 0.02
    few = largest <= 6 and cell > 0.5
    row_names = [drawable(str(term), width=15 if few else 22, lines=3 if few else 2) for term in grid.mean.index]
    column_names = [
        drawable(str(term), width=22 if turned else max(int(cell * 72 / 4.6), 4), lines=2 if turned else 4)
        for term in grid.mean.columns
    ]
    return _MatrixLayout(
        cell,
        size,
        names,
        turned,
        row_names,
        column_names,
        row_room=extent(row_names, size=names)[0] + 2 * _GAP,
        column_room=extent(column_names, size=names)[0 if turned else 1] + 2 * _GAP,
        row_levels=_levels(grid.row_groups, clusters, cell=cell, size=names),
        column_levels=_levels(grid.column_groups, clusters, cell=cell, size=names),
    )


def _lay_out_narrow(panel: Panel, clusters: Clusters | None) -> _MatrixLayout:
    """Measure labels around cells that fit a phone's width; numbers that do not fit are left out."""
    grid = panel.grid
    digits = _digits(panel, SMALL)
    row_names = [drawable(str(term), width=12, lines=2) for term in grid.mean.index]
    column_names = [drawable(str(term), width=22, lines=2) for term in grid.mean.columns]
    row_room = extent(row_names, size=SMALL)[0] + 2 * _GAP
    largest = max(grid.mean.shape)
    cell = max(digits + 0.07, 0.62 if largest <= 6 else 0.46 if largest <= 12 else 0.3)
    brackets = sum(level.depth for level in _levels(grid.row_groups, clusters, cell=cell, size=SMALL))
    room = (NARROW - PAD - _HEADING - brackets - row_room - _RIGHT_NARROW) / len(column_names)
    # Row names of two lines need height, as columns need width.
    cell = max(min(cell, room), _LEAST_CELL)
    if height_of(row_names, size=SMALL) > cell:
        row_names = [drawable(str(term), width=12, lines=1) for term in grid.mean.index]
    return _MatrixLayout(
        cell,
        SMALL,
        SMALL,
        True,
        row_names,
        column_names,
        row_room=row_room,
        column_room=extent(column_names, size=SMALL)[0] + 2 * _GAP,
        row_levels=_levels(grid.row_groups, clusters, cell=cell, size=SMALL),
        column_levels=_levels(grid.column_groups, clusters, cell=cell, size=SMALL),
        right=_RIGHT_NARROW,
        numbered=digits + 0.02 <= cell,
    )


def _draw(panel: Panel, clusters: Clusters | None, laid: _MatrixLayout, width: float) -> Figure:
    grid, cell, size, names = panel.grid, laid.cell, laid.size, laid.names
    n_rows, n_columns = grid.mean.shape
    left, above = laid.left, laid.above
    note = fill(_note(panel, numbered=laid.numbered), width=width - 2 * PAD, size=SMALL)
    bar_width = min(max(n_columns * cell, 2.0), 3.2)
    legend = fill(panel.legend, width=width - left - PAD if n_columns > 3 else width - 2 * PAD, size=TEXT)
    legend_height = height_of([legend], size=TEXT)
    note_height = height_of([note], size=SMALL) + 0.03 if note else 0.0
    below = 0.12 + 0.13 + 0.17 + legend_height + note_height + PAD
    with drawing():
        figure = new_figure(width, above + n_rows * cell + below)
        axes = place_axes(figure, left, below, n_columns * cell, n_rows * cell)
        bar = place_axes(figure, left, below - 0.25, bar_width, 0.13)
        sns.heatmap(
            panel.values,
            mask=panel.values.isna(),
            annot=panel.labels if laid.numbered else None,
            fmt="",
            annot_kws={"size": size, "color": INK},
            vmin=panel.limits[0],
            vmax=panel.limits[1],
            cmap=sns.blend_palette(panel.colours, as_cmap=True),
            linewidths=0.6,
            linecolor="white",
            # Labels are set below: seaborn would draw the figure first, and read wordings as mathematics.
            xticklabels=False,
            yticklabels=False,
            cbar_kws={"orientation": "horizontal"},
            cbar_ax=bar,
            clip_on=False,
            ax=axes,
        )
        _draw_bar(axes, bar, legend)
        _mark_cells(axes, panel, clusters, cell=cell)
        _label(axes, laid.row_names, laid.column_names, turned=laid.turned, size=names)
        _draw_levels(axes, laid.row_levels, rows=True, room=laid.row_room, cell=cell, size=names)
        _draw_levels(axes, laid.column_levels, rows=False, room=laid.column_room, cell=cell, size=names)
        middle, edge = (left + n_columns * cell / 2) / width, figure.get_figheight()
        figure.text(middle, 1 - PAD / edge, "experiencer", ha="center", va="top", fontsize=LABEL, fontweight="bold")
        figure.text(
            PAD / width,
            (below + n_rows * cell / 2) / edge,
            "perceiver",
            ha="left",
            va="center",
            rotation=90,
            fontsize=LABEL,
            fontweight="bold",
        )
        if note:
            figure.text(PAD / width, PAD / edge, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _words(terms: pd.Index[Any]) -> list[str]:
    """Split labels into words, the units of line breaks."""
    return [drawable(word, width=22, lines=1) for term in terms for word in str(term)[:200].split()]


def _draw_bar(axes: Axes, bar: Axes, legend: str) -> None:
    # Embedded as an image: its 256 steps would be half of a small file.
    axes.collections[0].colorbar.solids.set_rasterized(True)  # type: ignore[union-attr]
    bar.tick_params(labelsize=SMALL, length=2.5, pad=2)
    bar.set_xlabel(legend, fontsize=TEXT, loc="left", labelpad=2)
    for label in bar.get_xticklabels():
        label.set_horizontalalignment("center")


def _label(axes: Axes, row_names: list[str], column_names: list[str], *, turned: bool, size: float) -> None:
    axes.set_xlabel("")
    axes.set_ylabel("")
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=size, pad=72 * _GAP)
    axes.set_xticks(np.arange(len(column_names)) + 0.5, column_names, rotation=90 if turned else 0)
    axes.set_yticks(np.arange(len(row_names)) + 0.5, row_names, rotation=0)
    for label in axes.get_yticklabels():
        label.set_multialignment("right")
    for label in axes.get_xticklabels():
        label.set_multialignment("left" if turned else "center")


def _levels(groups: Sequence[str], clusters: Clusters | None, *, cell: float, size: float) -> list[_Level]:
    """Lay out the brackets outside the labels, from the innermost: groups of several terms, then clusters."""
    spans = _spans(groups)
    several = [span for span in spans if span.last - span.first > 1 and span.name not in BASELINES]
    together = [span for span in _spans([(clusters or {}).get(group, "") for group in groups]) if span.name]
    return [_level(level, cell=cell, size=size) for level in (several, together) if level]


def _spans(names: Sequence[str]) -> list[_Bracket]:
    spans, first = [], 0
    for name, run in itertools.groupby(names):
        last = first + len(list(run))
        spans.append(_Bracket(str(name), first, last))
        first = last
    return spans


def _level(brackets: Sequence[_Bracket], *, cell: float, size: float) -> _Level:
    def wrapped(bracket: _Bracket) -> str:
        return drawable(bracket.name, width=max(int((bracket.last - bracket.first) * cell * 72 / (0.6 * size)), 4))

    along = tuple(_Bracket(wrapped(bracket), bracket.first, bracket.last) for bracket in brackets)
    fits = all(
        extent([bracket.name], size=size)[0] < (bracket.last - bracket.first) * cell
        and is_whole(bracket.name, original.name)
        for bracket, original in zip(along, brackets, strict=True)
    )
    if fits:
        return _Level(along, along=True, depth=extent([b.name for b in along], size=size)[1] + _TICK + 2 * _GAP)
    across = tuple(_Bracket(drawable(b.name, width=16), b.first, b.last) for b in brackets)
    return _Level(across, along=False, depth=extent([b.name for b in across], size=size)[0] + _TICK + 2 * _GAP)


def _draw_levels(axes: Axes, levels: list[_Level], *, rows: bool, room: float, cell: float, size: float) -> None:
    """Draw brackets in the axes' coordinates, where a cell is 1: ``out`` is the distance from the cells, in inches."""
    out = room
    for level in levels:
        inner, outer, text = (-length / cell for length in (out, out + _TICK, out + _TICK + _GAP))
        for bracket in level.brackets:
            start, end = bracket.first + 0.08, bracket.last - 0.08
            line = [(inner, start), (outer, start), (outer, end), (inner, end)]
            xs, ys = zip(*(point if rows else point[::-1] for point in line), strict=True)
            axes.plot(xs, ys, color=MUTED, linewidth=0.9, clip_on=False, scalex=False, scaley=False, gid="bracket")
            middle = (bracket.first + bracket.last) / 2
            axes.text(
                *((text, middle) if rows else (middle, text)),
                bracket.name,
                rotation=90 if rows == level.along else 0,
                ha="right" if rows else "center",
                va="center" if rows else "bottom",
                multialignment="center" if level.along else "right" if rows else "left",
                fontsize=size,
                gid="bracket",
            )
        out += level.depth


def _mark_cells(axes: Axes, panel: Panel, clusters: Clusters | None, *, cell: float) -> None:
    grid = panel.grid
    n_rows, n_columns = grid.mean.shape
    for row, column in np.argwhere(panel.hatched):
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="white", edgecolor="#8a8a94", hatch="////", linewidth=0, gid="no-rating"
            )
        )
    for groups, draw, end in ((grid.row_groups, axes.hlines, n_columns), (grid.column_groups, axes.vlines, n_rows)):
        for place, apart in _boundaries(groups, clusters):
            wide = _BASELINE_GAP if apart else 2.0
            draw(place, 0, end, color="white", linewidth=wide, zorder=2, gid="boundary")
    edges = list(_outline(grid, inset=_BASELINE_GAP / 144 / cell))
    frames = LineCollection(
        edges, colors=INK, linewidths=1.5, capstyle="round", zorder=3, clip_on=False, gid="in-group"
    )
    axes.add_collection(frames)


def _boundaries(groups: Sequence[str], clusters: Clusters | None = None) -> Iterator[tuple[int, bool]]:
    """Yield the places between groups, and whether baselines begin there; groups of one term need no line."""
    grouped = len(set(groups)) < len(groups)
    clusters = clusters or {}
    for place in range(1, len(groups)):
        before, after = groups[place - 1], groups[place]
        if (before in BASELINES) != (after in BASELINES):
            yield place, True
        elif before != after and after not in BASELINES and (grouped or clusters.get(before) != clusters.get(after)):
            yield place, False


def _outline(grid: CellMatrix, *, inset: float) -> Iterator[list[tuple[float, float]]]:
    """Yield the edges between an in-group cell and a neighbour that is not, so that adjacent frames merge."""
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


def _note(panel: Panel, *, numbered: bool) -> str:
    notes = ["Framed: in-group."] if panel.grid.in_group.any() else []
    return " ".join([*notes, *(words for words, applies in (*panel.notes, (_NO_NUMBERS, not numbered)) if applies)])
