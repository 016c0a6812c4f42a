"""What δ would be if the missing ratings were higher or lower than the observed ones predict.

No ratings tell why others are missing. Missing at random is one assumption, and each pair of shifts is another: the
missing in-group ratings shifted by so many points, and the missing out-group ratings by so many (a pattern-mixture
model). Which one is true has to be argued from outside the ratings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.ratings import FloatArray
from audit.statistics.sensitivity import moved_by_missing


@dataclass(frozen=True, eq=False)
class MissingShifts:
    """A headline, and how it moves with the values assumed for the missing ratings.

    Attributes
    ----------
    delta, df
        The headline, in points, and its degrees of freedom.
    parts
        Shape (N,), each narrative's part in the headline's error, in points: their squares sum to its variance.
    moved
        Shape (N, 2), see :func:`~audit.statistics.sensitivity.moved_by_missing`.
    n_missing
        In-group and out-group prompts that were asked and gave no rating.

    Notes
    -----
    They are about identities that have a rating, as δ is: of one without any there is nothing to expect.
    """

    delta: float
    df: float
    parts: FloatArray
    moved: FloatArray
    n_missing: tuple[int, int]

    @classmethod
    def of(cls, cube: NarrativeCube, estimate: GapEstimate) -> Self:
        """Compute how shifts of a cube's missing ratings move its headline.

        Baselines are left out, and so is a perceiver or an experiencer without any rating.
        """
        compared = cube.without_baselines().rated()
        missing, inside = np.isnan(compared.y) & (compared.status >= 0), compared.in_group
        beyond = np.nan_to_num(estimate.weights**0.5 * (estimate.by_narrative - estimate.delta_points))
        length = float(np.sqrt(beyond @ beyond))
        return cls(
            delta=estimate.delta_points,
            df=estimate.df,
            parts=beyond * (estimate.se / length) if length > 0 else np.full(len(beyond), np.nan),
            moved=moved_by_missing(compared),
            n_missing=(int(np.count_nonzero(missing & inside)), int(np.count_nonzero(missing & ~inside))),
        )

    def at(self, shift_in_group: float, shift_out_group: float, *, confidence: float) -> dict[str, float]:
        """Estimate δ with the missing ratings shifted, in points from what is expected of them.

        The numbers ``delta_points``, ``se``, ``df``, ``ci_low`` and ``ci_high`` are NaN where the headline has none.

        Notes
        -----
        The headline from incomplete ratings is the mean over *all* narratives of the contrast that each would have with
        its missing ratings filled by what the estimator's model expects of them: a narrative's own fit, drawn to δ by
        as much as the narrative's ratings fail to tell. With E the expectation given the ratings there are and d_i the
        gap of narrative i's own fit, E⟨w, y_i⟩ = δ + c W_i (d_i − δ), W_i the narratives' weights, c the same for all,
        and Σ W_i (d_i − δ) = 0. So nothing need be imputed by chance, and the headline's standard error is already that
        of the filled values: it has the uncertainty that Rubin's rules add to imputed ones. With m_ipe = 1 where a
        rating is missing and s its shift,

            δ(s) = δ + mean_i a_i,   a_i = Σ_pe w_pe m_ipe s_pe,

        linear in both shifts. Narratives are a sample, and so is what is missing of them: with ω_i what narrative i
        counts for, and φ_i = √ω_i (d_i − δ)/√(N − 1), se² = Σ [φ_i + (a_i − ā)/√(N(N − 1))]². On complete contrasts
        that is sd(d_i + a_i)/√N. Filled values are not clipped to the scale: δ would no longer be linear, and each
        clipped value would be a shift of its own. Where a filled value would lie beyond an end, it assumes more
        than the scale allows; the worst cases of the sensitivity table are the bounds that respect its ends.
        """
        a = self.moved @ (shift_in_group, shift_out_group)
        n = len(a)
        errors = self.parts + (a - a.mean()) / (n * (n - 1)) ** 0.5 if n > 1 else np.full(n, np.nan)
        delta, se = self.delta + float(a.mean()), float(np.sqrt(errors @ errors))
        low, high, _ = t_interval(delta, se, self.df, confidence=confidence)
        return {"delta_points": delta, "se": se, "df": self.df, "ci_low": low, "ci_high": high}
