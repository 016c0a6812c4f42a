"""People beside measures: how far raters agree, and how far a measure orders replies as they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.people.correlation import correlations
from audit.statistics.agreement import krippendorff_alpha
from audit.statistics.estimate_rows import child_rng
from audit.tables.people import HUMAN
from audit.tables.people_of_replies import AGREEMENT, HUMAN_CORRELATIONS


def people_tables(
    human: pd.DataFrame, values: pd.DataFrame, replies: pd.DataFrame, *, seed: int, confidence: float
) -> dict[str, pd.DataFrame]:
    """Describe raters' agreement, and correlate their scores with measures of the same replies.

    Correlations use the mean score of each reply over its raters. Narratives are resampled as a whole, because replies
    to one narrative are not independent; with fewer than ``agreement.MIN_UNITS`` or ``correlation.MIN_UNITS``
    narratives there is no interval.
    """
    agreement: list[dict[str, Any]] = []
    frames: list[pd.DataFrame] = []
    labels = replies.set_index("prompt_index")[["narrative_id", "emotion"]].astype(str)
    for question, own in human.groupby("question", sort=False, observed=True):
        matrix = own.pivot(index="rater", columns="prompt_index", values="score")
        about = labels.loc[matrix.columns]
        rng = child_rng(seed, "", str(question), "agreement")
        agreement.append({"question": question} | _alpha(matrix, about["narrative_id"], rng=rng, confidence=confidence))
        mean = matrix.mean(axis=0).dropna()
        about = labels.loc[mean.index]
        for measure in values.columns:
            table = correlations(
                values[measure].reindex(mean.index).to_numpy(dtype=np.float64),
                mean.to_numpy(dtype=np.float64),
                seed=seed,
                by=about["emotion"].tolist(),
                clusters=about["narrative_id"].tolist(),
                confidence=confidence,
            )
            renamed = table.rename(columns={"n_units": "n_narratives"})
            frames.append(renamed.assign(question=question, measure=measure))
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return {
        "agreement": pd.DataFrame(agreement, columns=list(AGREEMENT)),
        "human_correlations": pd.DataFrame(found, columns=list(HUMAN_CORRELATIONS)),
    }


def human_table(narratives: pd.DataFrame, human: Mapping[str, float], *, seed: int, confidence: float) -> pd.DataFrame:
    """Correlate the model's mean over all pairs with people's intensities, in any unit, narrative by narrative."""
    frames = []
    for (dimension, variant), own in narratives.groupby(["dimension", "variant"], sort=False) if human else ():
        table = correlations(
            own["mean"].to_numpy(dtype=np.float64),
            own["narrative_id"].astype(str).map(human).to_numpy(dtype=np.float64),
            seed=seed,
            by=own["emotion"].astype(str).tolist(),
            confidence=confidence,
        )
        frames.append(table.assign(dimension=str(dimension), variant=str(variant)))
    return pd.DataFrame(pd.concat(frames, ignore_index=True) if frames else None, columns=list(HUMAN))


def _alpha(
    matrix: pd.DataFrame, narratives: pd.Series, *, rng: np.random.Generator, confidence: float
) -> dict[str, Any]:
    ratings = matrix.to_numpy(dtype=np.float64)
    known = np.isfinite(ratings)
    paired = known.sum(axis=0) > 1
    row: dict[str, Any] = {
        "level": "ordinal",
        "n_raters": int(known.any(axis=1).sum()),
        "n_items": int(paired.sum()),
        "n_narratives": int(narratives[paired].nunique()),
        "n_scores": int(known[:, paired].sum()),
        "n_left_out": int(known[:, known.sum(axis=0) == 1].sum()),
        "note": "",
    }
    try:
        found = krippendorff_alpha(ratings, rng=rng, clusters=narratives.tolist(), confidence=confidence)
    except NotEstimableError as error:
        return row | {"alpha": np.nan, "ci_low": np.nan, "ci_high": np.nan, "note": str(error)}
    numbers = {name: getattr(found, name) for name in ("alpha", "ci_low", "ci_high")}
    return row | numbers | {"note": found.no_interval.replace("units", "narratives")}
