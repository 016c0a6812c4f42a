"""Which estimate of δ stands first: complete narratives' contrast, or the mixed model where ratings are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import contrast_by_narrative, in_group_weights
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.mixed import MixedFit, fit_mixed


@dataclass(frozen=True)
class Headline:
    """The estimate that stands first, and what it was made by."""

    estimator: Literal["contrast", "mixed"]
    estimate: GapEstimate
    fit: MixedFit | None


def headline_gap(cube: NarrativeCube, *, confidence: float) -> Headline:
    """Estimate δ from all valid ratings: by the contrast if none is missing, else by the mixed model.

    On complete data the two give the same δ. The contrast's standard error is then the safer one: it holds whatever
    the narratives' covariance, and at the boundary too.

    Parameters
    ----------
    cube
        Ratings of one dimension or intersection; baselines are left out.
    confidence
        Coverage of the t interval, between 0 and 1; p is the t-test's.

    Raises
    ------
    NotEstimableError
        As :func:`~audit.statistics.contrasts.in_group_weights` and :func:`~audit.statistics.mixed.fit_mixed`.
    """
    compared = cube.without_baselines()
    if np.isnan(compared.y).any():
        fit = fit_mixed(compared)
        return Headline("mixed", fit.estimate(confidence=confidence), fit)
    weights = in_group_weights(compared)
    used = np.ones(len(compared.y), dtype=np.bool_)
    contrasts, rounding = contrast_by_narrative(compared.y, weights, used=used)
    estimate = summarise_contrasts(contrasts, rounding=rounding, confidence=confidence, n_ratings=compared.y.size)
    return Headline("contrast", estimate, None)
