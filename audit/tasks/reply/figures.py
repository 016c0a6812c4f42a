"""The figures of a run of replies: for each dimension forests of all measures, of groups, and of the stages' texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import plot_disparity, plot_measures, rows_to_draw
from audit.report.figures.texts import plot_texts

_DRAWN: Final = 3  # most measures of a dimension whose groups are drawn


def draw_measures(tables: Mapping[str, pd.DataFrame], *, confidence: float) -> dict[str, Figure]:
    """Draw ``measures-<dimension>-<variant>``, ``texts-…`` and ``disparity-…-<measure>``, as far as tables allow."""
    titles = dict(zip(tables["measures"]["measure"], tables["measures"]["title"], strict=True))
    texts = tables["stage_texts"]
    figures: dict[str, Figure] = {}
    for (dimension, variant), own in rows_to_draw(tables).groupby(["dimension", "variant"], sort=False, observed=True):
        name = f"{dimension}-{variant}"
        with contextlib.suppress(NotEstimableError):
            figures[f"measures-{name}"] = plot_measures(own.loc[own["delta_sd"].notna()], titles, confidence=confidence)
        written = texts.loc[(texts["dimension"] == dimension) & (texts["variant"] == variant)]
        if not written.empty:
            with contextlib.suppress(NotEstimableError):
                figures[f"texts-{name}"] = plot_texts(written, confidence=confidence)
    for (dimension, variant, measure), own in _found(tables.get("disparity", pd.DataFrame())):
        figures[f"disparity-{dimension}-{variant}-{measure}"] = plot_disparity(
            own, confidence=confidence, unit=str(own["unit"].iloc[0])
        )
    return figures


def _found(disparity: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Yield the rows of measures in which a group is lower or higher: of each dimension those that differ most."""
    if disparity.empty:
        return
    real = disparity.loc[~disparity["invented"].astype(bool)]
    shown = real.loc[real["code"].isin(["lower", "higher"])]
    sizes = shown["disparity_sd"].abs().groupby([shown[name] for name in ("dimension", "variant", "outcome")]).max()
    largest = sizes.sort_values(ascending=False, kind="stable").groupby(level=["dimension", "variant"]).head(_DRAWN)
    for key in largest.index:
        dimension, variant, measure = map(str, key)
        own = (real["dimension"] == dimension) & (real["variant"] == variant) & (real["outcome"] == measure)
        yield (dimension, variant, measure), real.loc[own]
