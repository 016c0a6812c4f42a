"""All figures of a run: one of all gaps, and a set for each dimension and variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from audit.errors import MissingCellError, NotEstimableError
from audit.report.figures.distributions import plot_contrasts, plot_null, plot_ratings
from audit.report.figures.forests import plot_disparity, plot_family, plot_gaps, rows_to_draw
from audit.report.figures.heatmaps import (
    interaction_reach,
    plot_cells,
    plot_interaction,
    plot_missing,
    plot_published,
    published_reach,
    shared_limits,
)
from audit.report.figures.texts import plot_texts
from audit.report.figures.wordings import plot_wordings
from audit.tables.disparity import without_refusals

Tables = Mapping[str, pd.DataFrame]


def draw_figures(
    tables: Tables,
    *,
    low: float,
    high: float,
    confidence: float,
    margin: float | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    replicates: bool = False,
) -> dict[str, Figure]:
    """Draw the figures that a run's tables allow; panels of one kind share their colours."""
    figures: dict[str, Figure] = {}
    if not tables["gap"].empty:
        figures["gaps"] = plot_gaps(rows_to_draw(tables), confidence=confidence, margin=margin)
    if tables["cells"].empty:
        return figures
    shared = {
        "limits": shared_limits(tables["cells"], low=low, high=high),
        "interaction": interaction_reach(tables["cells"]),
        "published": published_reach(tables["published_cells"]),
    }
    for dimension, variant in tables["cells"][["dimension", "variant"]].drop_duplicates().itertuples(index=False):
        own = {
            name: table.loc[(table["dimension"] == dimension) & (table["variant"] == variant)]
            for name, table in tables.items()
            if {"dimension", "variant"} <= {*table}
        }
        of_groups = (clusters or {}).get(str(dimension))
        kinds = {
            **_of_disparity(own, tables, str(variant), confidence=confidence, margin=margin),
            **_distributions(own, low=low, high=high, confidence=confidence),
            **_heatmaps(own, low=low, high=high, clusters=of_groups, shared=shared),
            **(_of_the_study(own, clusters=of_groups, shared=shared) if replicates else {}),
        }
        for kind, draw in kinds.items():
            try:
                figures[f"{kind}-{dimension}-{variant}"] = draw()
            except (MissingCellError, NotEstimableError):
                continue  # the page names the missing figure, and its tables say why
    return figures


def _of_disparity(
    own: Tables, tables: Tables, variant: str, *, confidence: float, margin: float | None
) -> dict[str, Callable[[], Figure]]:
    """Return a function that draws which groups are rated lower than the others, if groups were compared."""
    rows = own.get("disparity")  # runs of earlier versions have none
    if rows is None or not rows["headline"].astype(bool).any():
        return {}
    rows, every = without_refusals(rows), without_refusals(tables["disparity"])
    invented = every.loc[every["invented"].astype(bool) & (every["variant"] == variant)]  # dimensions of their own
    rows = pd.concat([rows, invented]) if len(invented) else rows
    return {"disparity": partial(plot_disparity, rows, confidence=confidence, margin=margin)}


def _distributions(own: Tables, *, low: float, high: float, confidence: float) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the forests and distributions for which there are data."""
    found: dict[str, Callable[[], Figure]] = {}
    families, gap = own["families"], own["gap"]
    for kind, family in (("emotions", "emotion"), ("groups", "group")):
        if (families["family"] == family).sum() > 1:
            found[kind] = partial(plot_family, families, family=family, confidence=confidence)
    if own["narratives"]["contrast_points"].notna().any():
        headline = _first(gap.loc[gap["headline"].astype(bool) & (gap["scope"] == "narratives")])
        found["contrasts"] = partial(plot_contrasts, own["narratives"], confidence=confidence, headline=headline)
    if not own["distributions"].empty:
        found["ratings"] = partial(plot_ratings, own["distributions"], low=low, high=high)
    if not own["wordings"].empty:
        controls = own["controls"]
        crossed = _first(controls.loc[controls["control"] == "wording"])
        found["wordings"] = partial(
            plot_wordings, own["wordings"], own["wording_shares"], crossed, confidence=confidence
        )
    if not own["stage_texts"].empty:
        found["texts"] = partial(plot_texts, own["stage_texts"], confidence=confidence)
    return found


def _heatmaps(
    own: Tables, *, low: float, high: float, clusters: Mapping[str, str] | None, shared: Mapping[str, Any]
) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the heatmaps of cells, with refusals if there are any."""
    cells = own["cells"]
    return {
        **({"refusals": partial(plot_missing, cells, clusters=clusters)} if (cells["n_refused"] > 0).any() else {}),
        "cells": partial(plot_cells, cells, low=low, high=high, clusters=clusters, limits=shared["limits"]),
        "interaction": partial(plot_interaction, cells, clusters=clusters, reach=shared["interaction"]),
    }


def _of_the_study(
    own: Tables, *, clusters: Mapping[str, str] | None, shared: Mapping[str, Any]
) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw what the published study shows: the null interval's histogram, and its heatmaps."""
    heatmap = partial(
        plot_published, own["cells"], own["published_cells"], clusters=clusters, reach=shared["published"]
    )
    found: dict[str, Callable[[], Figure]] = {
        "published": partial(heatmap, masked=False),
        "published-masked": partial(heatmap, masked=True),
    }
    row = _first(own["gap"].loc[own["gap"]["estimator"] == "published"])
    if row is not None and not own["null"].empty:
        ends = {name: float(row[name]) for name in ("delta_z", "null_low", "null_high")}
        found["null"] = partial(plot_null, own["null"], **ends)
    return found


def _first(rows: pd.DataFrame) -> Any:
    return rows.iloc[0] if len(rows) else None
