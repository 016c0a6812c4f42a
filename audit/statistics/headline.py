"""Which estimate of δ stands first: complete narratives' contrast, or the mixed model where ratings are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

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

    @classmethod
    def of_fit(cls, fit: MixedFit, *, confidence: float) -> Self:
        """Make a headline of a mixed model."""
        return cls("mixed", fit.estimate(confidence=confidence), fit)

    @property
    def converged(self) -> bool:
        """Whether the fit was confirmed to be the optimum; so is a contrast, which needs none."""
        return self.fit is None or self.fit.converged

    @property
    def n_informative(self) -> int:
        """Narratives that tell of the gap: those with in-group and out-group ratings."""
        return self.estimate.n_narratives if self.fit is None else self.fit.n_informative


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
        return Headline.of_fit(fit_mixed(compared), confidence=confidence)
    weights = in_group_weights(compared)
    used = np.ones(len(compared.y), dtype=np.bool_)
    contrasts, rounding = contrast_by_narrative(compared.y, weights, used=used)
    estimate = summarise_contrasts(contrasts, rounding=rounding, confidence=confidence, n_ratings=compared.y.size)
    return Headline("contrast", estimate, None)
