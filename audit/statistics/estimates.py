"""What an estimate of δ is, whatever estimator made it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy import special

from audit.statistics.ratings import FloatArray

EPSILON: Final = float(np.finfo(np.float64).eps)
SAME: Final = "give the same contrast, so their spread is 0"


@dataclass(frozen=True)
class GapEstimate:
    """A gap; unrounded, NaN where the ratings do not determine a value.

    Attributes
    ----------
    delta_points
        The gap in points of the scale: in-group minus out-group.
    se
        Its standard error, in points.
    df
        Degrees of freedom of the t distribution.
    ci_low, ci_high
        Ends of the t interval, in points.
    p
        Two-sided p against a gap of 0.
    d_z
        ``delta_points`` over the standard deviation of the narratives' contrasts; no unit.
    n_narratives
        Narratives that the estimate uses.
    n_narratives_asked
        Those and the narratives left out because ratings are missing.
    n_ratings
        Ratings used.
    not_estimable
        Why there is no interval, in words; empty if there is one.
    by_narrative
        Shape (N,), each asked narrative's contrast in points, NaN where it is not used; their mean is
        ``delta_points``. Of an incomplete design they are pseudo-values: δ plus N times the narrative's part in it.
    """

    delta_points: float
    se: float
    df: float
    ci_low: float
    ci_high: float
    p: float
    d_z: float
    n_narratives: int
    n_narratives_asked: int
    n_ratings: int
    not_estimable: str = ""
    by_narrative: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def with_informative(self, n_informative: int, *, confidence: float) -> GapEstimate:
        """Return the estimate with the degrees of freedom of the narratives that tell of it, where not all do."""
        se, df, reason = self.se, float(n_informative - 1), ""
        if n_informative < 2:
            se, df = float("nan"), float("nan")
            reason = "one narrative says nothing about how narratives differ"
        elif self.not_estimable:
            reason = f"all {self.n_narratives} narratives {SAME}"
        low, high, p = t_interval(self.delta_points, se, df, confidence=confidence)
        return replace(
            self,
            se=se,
            df=df,
            ci_low=low,
            ci_high=high,
            p=p,
            d_z=self.delta_points / (se * n_informative**0.5) if n_informative > 0 else float("nan"),
            not_estimable=reason,
        )


def t_interval(delta: float, se: float, df: float, *, confidence: float) -> tuple[float, float, float]:
    """Return the ends of the t interval and the two-sided p against 0; NaN where ``se`` or ``df`` is.

    Raises
    ------
    ValueError
        If ``confidence`` is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it is a share between 0 and 1, such as 0.95")
    half = se * float(special.stdtrit(df, 0.5 + confidence / 2))
    p = 2 * float(special.stdtr(df, -abs(delta) / se)) if se > 0 else float("nan")
    return delta - half, delta + half, p


def summarise_contrasts(
    contrasts: FloatArray, *, rounding: float, confidence: float, n_ratings: int, p: float | None = None
) -> GapEstimate:
    """Summarise one contrast a narrative: mean, t interval with N − 1 degrees of freedom, t-test's p.

    Parameters
    ----------
    contrasts
        Shape (N,), in points; NaN for a narrative that is left out. At least one is not.
    rounding
        Differences between contrasts up to twice this are those of floating-point arithmetic.
    confidence
        Coverage of the interval, between 0 and 1.
    n_ratings
        Ratings that the contrasts are made of.
    p
        In place of the t-test's.
    """
    used = contrasts[~np.isnan(contrasts)]
    n, delta = used.size, float(used.mean())
    se = d_z = df = float("nan")
    not_estimable = ""
    if n < 2:
        not_estimable = "one complete narrative says nothing about how narratives differ"
    else:
        df = float(n - 1)
        if np.ptp(used) <= 2 * rounding:
            not_estimable = f"all {n} complete narratives {SAME}"
        else:
            sd = float(used.std(ddof=1))
            se, d_z = sd / n**0.5, delta / sd
    low, high, p_t = t_interval(delta, se, df, confidence=confidence)
    return GapEstimate(
        delta_points=delta,
        se=se,
        df=df,
        ci_low=low,
        ci_high=high,
        p=p_t if p is None else p,
        d_z=d_z,
        n_narratives=n,
        n_narratives_asked=contrasts.size,
        n_ratings=n_ratings,
        not_estimable=not_estimable,
        by_narrative=contrasts,
    )
