"""The explorer: heatmaps whose cells open to the ratings behind them, as many as one file can hold.

What needs no script is laid out here as plain rows for the template. The rest is one compressed JSON text for the
page's script, made in `audit.report.explorer_data`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import pandas as pd

from audit.errors import MissingCellError
from audit.report.cell_matrix import BASELINES, colour_limits, interaction, lay_out_matrix, mean_decimals
from audit.report.explorer_data import KEYS, STEPS, fit_ratings, packed_cells, packed_emotions, sample_sentence, steps
from audit.runs.prompts import ConversationPrompt
from audit.tables.formatting import MISSING as NOTHING
from audit.tables.formatting import brief, coverage, dimension_title, fixed, rate, scale_end

__all__ = ["INK", "DrawnCell", "Explorer", "HeatRow", "Heatmap", "View", "explore"]

INK: Final = ("#1b1b1f", "#f4f5f7")
"""Colours of the numbers in the cells, on a light and on a dark page."""
NO_PROMPTS: Final = "the ratings came without them, or the files that they were made of have moved"
_WITHOUT_LEVELS: Final = (
    "The heatmaps first show what δ is made of: each pair's mean, after removing how high its perceiver rates everyone "
    "and how high everyone rates its experiencer. If no rating is missing, δ depends on these numbers only. Choose "
    "“mean in points” to see the means."
)
_NO_INTERACTIONS: Final = (
    "The heatmaps first show means. These include how high each perceiver rates everyone and how high everyone rates "
    "each experiencer; δ does not. What δ is made of can be shown only if every pair has a mean."
)
_NO_PERCEIVERS: Final = "The heatmaps first show means. No group is the model's own, so there is no δ."
_SEQUENTIAL: Final = (("#f7fafd", "#bcd7ee", "#62a2d4"), ("#20262e", "#23496b", "#2f6ea5"))
_DIVERGING: Final = (("#5b9fd6", "#f8f8f8", "#ee9a4d"), ("#2f6ea5", "#26272b", "#96541b"))
_LEAST_SHARE: Final = 0.1
"""Least end of the colours of missing shares: a single refusal must not look like the worst."""


@dataclass(frozen=True, slots=True)
class View:
    """A quantity that the heatmaps can show."""

    name: str  # of the radio button
    label: str
    legend: str  # what the numbers are
    low: str  # the ends of the colours, in words
    high: str
    light: str  # the colours as a CSS list, on a light and on a dark page
    dark: str


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """A cell as drawn."""

    row: int | None  # its position in the table of cells; None if the pair was not asked
    value: str = ""  # its mean, unrounded as Python writes it; empty if nothing was rated
    text: str = ""  # its mean, rounded
    sparse: bool = False  # whether the mean is of less than 80% of the pair's prompts
    in_group: bool = False
    light: str = ""
    dark: str = ""


@dataclass(frozen=True, slots=True)
class Bracket:
    """A header over several rows or columns; its label may be empty."""

    label: str
    span: int


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A perceiver: the brackets that begin at it, its wording and its cells."""

    brackets: tuple[Bracket, ...]
    label: str
    first_baseline: bool
    cells: tuple[DrawnCell, ...]


@dataclass(frozen=True, slots=True)
class Heatmap:
    """The cells of one dimension and variant."""

    title: str
    dimension: str
    variant: str
    bodies: tuple[tuple[HeatRow, ...], ...]  # the perceivers, grouped by outermost bracket
    brackets: tuple[tuple[Bracket, ...], ...]  # over the experiencers, outermost first
    columns: tuple[tuple[str, bool], ...]  # experiencers, each with whether it is the first baseline
    n_row_heads: int  # header cells before a perceiver's cells, including its own


@dataclass(frozen=True, slots=True)
class Explorer:
    """The content of the template."""

    heatmaps: tuple[Heatmap, ...]  # drawn by means; the script opens them on the first view
    views: tuple[View, ...]
    opens_on: str  # which view that is, and why
    sample: str  # which ratings are in the file
    no_prompts: str  # why the prompts are missing
    has_narratives: bool  # whether the narratives' own contrasts are known
    payload: str  # JSON for the script, gzipped and in base64


def explore(
    ratings: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    *,
    low: float,
    high: float,
    seed: int,
    asked: Callable[[int], ConversationPrompt] | None,
    max_ratings: int = 100_000,
    max_bytes: int = 900_000,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    confidence: float = 0.95,
    no_prompts: str = NO_PROMPTS,
) -> Explorer:
    """Lay out the cells, and pack the ratings behind them.

    Cells and emotions are always complete, even beyond ``max_bytes``. Ratings are included by whole narratives, in
    every pair that they were asked in: all of them if they fit, else a draw balanced over emotions. ``cells`` must be
    as the statistics made it: its rows are named by position.
    """
    cells = _measured(tables)
    parts = list(dict.fromkeys(zip(cells["dimension"], cells["variant"], strict=True)))
    ends = _colour_ends(cells, low=low, high=high)
    cells = cells.assign(
        **{f"{name}_step": steps(cells[name], *ends[name]) for name in ("mean", "z", "interaction", "missing")}
    )
    several = len({variant for _, variant in parts}) > 1
    heatmaps = tuple(
        _heatmap(
            cells.loc[(cells["dimension"] == dimension) & (cells["variant"] == variant)],
            (clusters or {}).get(dimension, {}),
            title=dimension_title(dimension) + (f" (variant {brief(variant)})" if several else ""),
            decimals=mean_decimals(low, high),
        )
        for dimension, variant in parts
    )
    emotions = tables.get("cell_emotions")
    fixed_part = {
        "missing": NOTHING,
        "parts": [[heatmap.title, *map(brief, part)] for heatmap, part in zip(heatmaps, parts, strict=True)],
        "palettes": {
            "sequential": _hues(_SEQUENTIAL),
            "diverging": _hues(_DIVERGING),
        },
        "cells": packed_cells(cells, parts, tables.get("families"), decimals=_interaction_decimals(ends),
                               level=coverage(confidence)),
        "emotions": None if emotions is None else packed_emotions(emotions, cells, low=low, high=high),
    }  # fmt: skip
    held, text = fit_ratings(ratings, cells, parts, tables.get("narratives"), asked, fixed_part,
                      seed=seed, max_ratings=max_ratings, max_bytes=max_bytes)  # fmt: skip
    views = _views(ends, low=low, high=high)
    complete = _has_interactions(cells)
    return Explorer(
        heatmaps=heatmaps,
        views=views if complete else tuple(sorted(views, key=lambda view: view.name != "mean")),
        opens_on=_WITHOUT_LEVELS
        if complete
        else _NO_INTERACTIONS
        if cells["in_group"].notna().any()
        else _NO_PERCEIVERS,
        sample=sample_sentence(ratings, held, seed=seed),
        no_prompts="" if asked is not None else f"This file does not contain prompts and narratives: {no_prompts}.",
        has_narratives="narratives" in tables,
        payload=text,
    )


def _palette(stops: Sequence[str]) -> list[str]:
    """Return ``STEPS`` + 1 colours from the first stop to the last, evenly spaced in sRGB."""
    channels = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in stops], dtype=float)
    places = np.linspace(0, len(stops) - 1, STEPS + 1)
    mixed = [np.interp(places, np.arange(len(stops)), channel) for channel in channels.T]
    return ["#" + "".join(f"{round(value):02x}" for value in colour) for colour in zip(*mixed, strict=True)]


# --- Cells -----------------------------------------------------------------------------------------------------------


def _measured(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Join to each cell the values of the other views; rows stay in the table's order."""
    cells = tables["cells"].reset_index(drop=True)
    wanted = [*KEYS, "z", "p_perceiver", "p_experiencer", "shown"]
    published = tables.get("published_cells", pd.DataFrame(columns=wanted)).reindex(columns=wanted)
    cells = cells.merge(published.astype(dict.fromkeys(KEYS, object)), on=KEYS, how="left", validate="one_to_one")
    asked = cells["n_prompts"].where(cells["n_prompts"] > 0)
    effects = np.full(len(cells), math.nan)
    for _, part in cells.groupby(["dimension", "variant"], sort=False, observed=True):
        try:
            centred = interaction(part)
        except (MissingCellError, ValueError):  # a pair has no mean, or there are baselines only: nothing to show
            continue
        among = part.loc[part["perceiver"].isin(centred.index) & part["experiencer"].isin(centred.columns)]
        rows = centred.index.get_indexer(pd.Index(among["perceiver"]))
        columns = centred.columns.get_indexer(pd.Index(among["experiencer"]))
        effects[among.index] = centred.to_numpy()[rows, columns]
    return cells.assign(
        z=cells["z"].astype(float),
        shown=cells["shown"].astype("boolean"),
        interaction=effects,
        missing=1 - cells["n_rated"] / asked,
    )


def _has_interactions(cells: pd.DataFrame) -> bool:
    """Tell whether every pair of identities, in all dimensions and variants, has a value of what δ is made of."""
    between = cells.loc[cells["in_group"].notna(), "interaction"]
    return bool(len(between)) and bool(between.notna().all())


def _colour_ends(cells: pd.DataFrame, *, low: float, high: float) -> dict[str, tuple[float, float]]:
    """Return the values at the ends of each view's colours, the same for all dimensions."""
    ends = {"mean": colour_limits(cells["mean"].to_numpy(dtype=float), low=low, high=high)}
    for name in ("z", "interaction"):
        reach = float(np.nanmax(np.abs([*cells[name], 0.0])))
        reach = reach if reach > 1e-9 else 1.0
        ends[name] = (-reach, reach)
    ends["missing"] = (0.0, float(np.nanmax([*cells["missing"], _LEAST_SHARE])))
    return ends


def _hues(stops: tuple[Sequence[str], Sequence[str]]) -> list[list[str]]:
    return [*map(_palette, stops)]


def _interaction_decimals(ends: Mapping[str, tuple[float, float]]) -> int:
    return min(max(1 - math.floor(math.log10(ends["interaction"][1])), 1), 4)


def _views(ends: Mapping[str, tuple[float, float]], *, low: float, high: float) -> tuple[View, ...]:
    def view(
        name: str, label: str, legend: str, write: Callable[[float], str], colours: tuple[Sequence[str], Sequence[str]]
    ) -> View:
        low, high = ends[name]
        return View(name, label, legend, write(low), write(high), ", ".join(colours[0]), ", ".join(colours[1]))

    decimals = _interaction_decimals(ends)
    scale = f"{scale_end(low)}{NOTHING}{scale_end(high)}"
    of_scale = rate(ends["interaction"][1] / abs(high - low))
    return (
        view("interaction", "what δ is made of", "points by which a pair's mean is above or below what its perceiver "
                                                 "and "
             f"its experiencer have on average. The strongest colour is the largest value here, {of_scale} of the "
             f"scale.",
             lambda end: fixed(end, decimals=decimals, signed=True), _DIVERGING),
        view("mean", "mean in points", f"mean intensity in points of the {scale} scale",
             lambda end: fixed(end, decimals=1), _SEQUENTIAL),
        view("z", "published z", "the mean in standard deviations of the dimension's own cells, as published; "
             "not comparable between dimensions", lambda end: fixed(end, decimals=2, signed=True), _DIVERGING),
        view("missing", "refused and missing share", "share of prompts without a rating, for any reason",
             rate, _SEQUENTIAL),
    )  # fmt: skip


def _heatmap(cells: pd.DataFrame, clusters: Mapping[str, str], *, title: str, decimals: int) -> Heatmap:
    grid = lay_out_matrix(cells, clusters=clusters)
    means = grid.mean.to_numpy()
    row_of = dict(zip(zip(cells["perceiver"], cells["experiencer"], strict=True), cells.index, strict=True))
    step_of = cells["mean_step"].to_dict()
    hues = _hues(_SEQUENTIAL)

    def cell(row: int, column: int) -> DrawnCell:
        at = row_of.get((grid.mean.index[row], grid.mean.columns[column]))
        if at is None:
            return DrawnCell(None)
        mean, step, in_group = float(means[row, column]), step_of[at], bool(grid.in_group[row, column])
        if step < 0:
            return DrawnCell(at, in_group=in_group)
        return DrawnCell(at, repr(mean), fixed(mean, decimals=decimals), bool(grid.sparse[row, column]), in_group,
                    hues[0][step], hues[1][step])  # fmt: skip

    levels = [_runs(labels) for labels in _levels(grid.row_groups, clusters)]
    begins = [dict(zip(np.cumsum([0, *(b.span for b in level)]).tolist(), level, strict=False)) for level in levels]
    rows = [
        HeatRow(
            brackets=tuple(level[at] for level in begins if at in level),
            label=brief(str(label)),
            first_baseline=_first_baseline(grid.row_groups, at),
            cells=tuple(cell(at, column) for column in range(len(grid.column_groups))),
        )
        for at, label in enumerate(grid.mean.index)
    ]
    outermost = np.cumsum([0, *(bracket.span for bracket in levels[0])]) if levels else [0, len(rows)]
    return Heatmap(
        title=title,
        dimension=str(cells["dimension"].iloc[0]),
        variant=str(cells["variant"].iloc[0]),
        bodies=tuple(tuple(rows[a:b]) for a, b in pairwise(outermost)),
        brackets=tuple(tuple(_runs(labels)) for labels in _levels(grid.column_groups, clusters)),
        columns=tuple((brief(str(label)), _first_baseline(grid.column_groups, at))
                      for at, label in enumerate(grid.mean.columns)),
        n_row_heads=len(levels) + 1,
    )  # fmt: skip


def _levels(groups: Sequence[str], clusters: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the labels of the brackets: clusters if there are any, and groups if one has several terms."""
    if any(group in clusters for group in groups):
        yield [clusters.get(group, "") for group in groups]
    own = [group for group in groups if group not in BASELINES]
    if len(set(own)) < len(own):
        yield ["" if group in BASELINES else group for group in groups]


def _runs(labels: Sequence[str]) -> list[Bracket]:
    return [Bracket(brief(label), len(list(run))) for label, run in groupby(labels)]


def _first_baseline(groups: Sequence[str], at: int) -> bool:
    return groups[at] in BASELINES and at > 0 and groups[at - 1] not in BASELINES
