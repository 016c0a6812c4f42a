"""The figures of a run of replies: for each dimension a forest of all measures, and one of the stages' texts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import plot_measures
from audit.report.figures.texts import plot_texts


def rows_to_draw(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the estimates behind the verdicts; for a run of an earlier version the headlines, without a verdict."""
    decided = tables.get("verdicts", pd.DataFrame())
    if not decided.empty:
        return decided
    gaps = tables["gap"]
    return gaps.loc[gaps["headline"].astype(bool) & (gaps["scope"] == "narratives")].assign(code="")


def draw_measures(tables: Mapping[str, pd.DataFrame], *, confidence: float) -> dict[str, Figure]:
    """Draw ``measures-<dimension>-<variant>`` and ``texts-<dimension>-<variant>``, as far as the tables allow."""
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
    return figures
