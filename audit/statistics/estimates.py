"""An estimate of δ, and how narratives' gaps are pooled into one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy import optimize, special

from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.formatting import SAME

EPSILON: Final = float(np.finfo(np.float64).eps)
INTERVAL: Final = ("se", "df", "ci_low", "ci_high", "p")  # of an estimate, and columns of tables
_GRID: Final = np.concatenate([[0.0], np.geomspace(1e-6, 1e3, 55)])
"""Variances between narratives at which the likelihood is first evaluated, in units of gaps' variance and noise."""


@dataclass(frozen=True)
class GapEstimate:
    """A gap; unrounded, NaN where the ratings do not determine a value."""

    delta: float  # in points of the scale: in-group minus out-group
    se: float  # in points
    df: float  # of the t distribution
    ci_low: float  # ends of the t interval, in points
    ci_high: float
    # Two-sided p against a gap of 0, from the same t distribution as the interval: it is below 1 less the interval's
    # confidence just when the interval leaves out 0.
    p: float
    d_z: float  # delta over the root of N times se: if gaps count alike, over their standard deviation
    n_narratives: int  # that the estimate uses
    n_narratives_asked: int  # those and the narratives left out because ratings are missing
    n_answers: int
    not_estimable: str = ""  # why there is no interval; empty if there is one
    p_sign_flip: float = float("nan")  # two-sided p of flipping the narratives' signs, NaN if not done
    # Shape (N,), each asked narrative's gap in points, NaN where it is not used. For the mixed model they are pseudo-
    # values: δ plus N times the narrative's part in it.
    by_narrative: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    # shape (N,), variance of each about the narrative's true gap, in squared points; NaN where unknown
    noise: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    # shape (N,), summing to 1; 0 for narratives that are not used
    weights: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    # variance of the narratives' true gaps, in squared points; NaN where the noise is unknown
    slope_variance: float = field(default=float("nan"), compare=False)
    rounding: float = field(default=0.0, compare=False)  # the rounding error of a narrative's gap of 0, in points

    def among(self, chosen: BoolArray) -> GapEstimate:
        """Place the estimate of some narratives among others: ``chosen``, shape (M,), marks those that it is of."""

        def laid(own: FloatArray, empty: float) -> FloatArray:
            values = np.full(chosen.size, empty)
            values[chosen] = own
            return values

        nan = float("nan")
        return replace(
            self,
            by_narrative=laid(self.by_narrative, nan),
            noise=laid(self.noise, nan),
            weights=laid(self.weights, 0.0),
        )

    def leaves_out_zero(self, sign: float) -> bool:
        """Whether the interval lies wholly on the given side of 0; False without an interval."""
        return bool(self.ci_low > 0 if sign > 0 else self.ci_high < 0)


def t_interval(delta: float, se: float, df: float, *, confidence: float) -> tuple[float, float, float]:
    """Return the ends of the t interval and the two-sided p against 0; NaN where ``se`` or ``df`` is.

    Examples
    --------
    The 97.5% quantile of t with 11 degrees of freedom is 2.201:

    >>> low, high, p = t_interval(3.0, 1.0, 11, confidence=0.95)
    >>> round(low, 3), round(high, 3), round(p, 3)
    (0.799, 5.201, 0.012)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it is a share between 0 and 1, such as 0.95")
    half = se * float(special.stdtrit(df, 0.5 + confidence / 2))
    p = 2 * float(special.stdtr(df, -abs(delta) / se)) if se > 0 else float("nan")
    return delta - half, delta + half, p


def by_t(delta: float, se: float, df: float, *, confidence: float) -> dict[str, Any]:
    """Return an estimate and its t interval by the names of :class:`GapEstimate`."""
    low, high, p = t_interval(delta, se, df, confidence=confidence)
    return {"delta": delta, "se": se, "df": df, "ci_low": low, "ci_high": high, "p": p}


def with_spread(estimate: GapEstimate, *, se: float, df: float, n_informative: int, confidence: float) -> GapEstimate:
    """Give an estimate the standard error and degrees of freedom of ``n_informative`` unequal narratives."""
    reason = estimate.not_estimable
    if n_informative < 2:
        reason = "one narrative says nothing about how narratives differ"
    elif not reason and not (se > 0 and df > 0):
        reason = "the ratings do not show how narratives differ in it"
    if reason:
        se = float("nan")
        df = df if n_informative > 1 else float("nan")
    d_z = estimate.delta / (se * n_informative**0.5) if n_informative > 0 else float("nan")
    return replace(estimate, **by_t(estimate.delta, se, df, confidence=confidence), d_z=d_z, not_estimable=reason)


def without_interval(estimate: GapEstimate, reason: str) -> GapEstimate:
    """Blank the interval of an estimate, and say why."""
    unknown = dict.fromkeys(("se", "df", "ci_low", "ci_high", "p", "d_z", "p_sign_flip"), float("nan"))
    return replace(estimate, **unknown, not_estimable=reason)  # type: ignore[arg-type]


def with_variance(estimate: GapEstimate, extra: float, extra_df: float, *, confidence: float) -> GapEstimate:
    """Add a further, independent part to an estimate's variance, in squared points.

    The degrees of freedom are the fewer of both: Satterthwaite's grow where the further part happens to be estimated
    small, and an own gap was then found in 12 to 15% of runs in which pairs of groups differ and no group has one.
    Without an interval, or if the further part cannot be estimated (NaN degrees of freedom), the estimate stays as it
    is.
    """
    if not (estimate.se > 0 and extra_df > 0):
        return estimate
    se, df = (estimate.se**2 + extra) ** 0.5, min(estimate.df, extra_df)
    return replace(estimate, **by_t(estimate.delta, se, df, confidence=confidence), d_z=float("nan"))


def summarise_contrasts(
    contrasts: FloatArray,  # shape (N,), in points; NaN for a narrative that is left out; at least one is not
    *,
    rounding: float,  # differences between contrasts up to twice this are floating-point arithmetic
    confidence: float,
    n_answers: int,
    # variance of each about the narrative's true gap, in squared points; None or unknown: all count alike
    noise: FloatArray | None = None,
) -> GapEstimate:
    """Pool one gap a narrative: their weighted mean, its t interval with N − 1 degrees of freedom, and its p.

    Notes
    -----
    The model is d_i ~ N(δ, τ² + v_i), v_i the noise: the random-effects model of a meta-analysis, of narratives in
    place of studies. τ² is the REML estimate, not below 0, w_i = 1/(τ² + v_i), δ = Σ w_i d_i / Σ w_i, and

        se² = Σ w_i (d_i − δ)² / ((N − 1) Σ w_i)

    of Hartung and Knapp [1]_ and of Sidik and Jonkman [2]_, with N − 1 degrees of freedom. Where all v_i are equal
    these are the mean and sd/√N, exactly, whatever they are.

    References
    ----------
    .. [1] Hartung and Knapp (2001), Statistics in Medicine 20(12), 1771–1782.
    .. [2] Sidik and Jonkman (2002), Statistics in Medicine 21(21), 3153–3159.

    Examples
    --------
    Three narratives with gaps of 1, 2 and 3 points: their mean is 2, their standard deviation 1.

    >>> found = summarise_contrasts(np.array([1.0, 2.0, 3.0]), rounding=1e-12, confidence=0.95, n_answers=12)
    >>> round(found.delta, 6), round(found.se, 6), found.df  # 1 / √3 = 0.577350
    (2.0, 0.57735, 2.0)
    """
    there = ~np.isnan(contrasts)
    used = contrasts[there]
    n = used.size
    own_noise = np.full(n, np.nan) if noise is None else noise[there]
    shares, slope_variance = _shares(used, own_noise)
    delta = float(used.mean() if shares is None else shares @ used)
    se = d_z = df = float("nan")
    not_estimable = ""
    if n < 2:
        not_estimable = "one narrative says nothing about how narratives differ"
    else:
        df = float(n - 1)
        if np.ptp(used) <= 2 * rounding:
            not_estimable = f"all {n} narratives {SAME}"
        elif shares is None:
            sd = float(used.std(ddof=1))
            se, d_z = sd / n**0.5, delta / sd
        else:
            se = float(shares @ (used - delta) ** 2 / (n - 1)) ** 0.5
            d_z = delta / (se * n**0.5)
    pooled = GapEstimate(
        **by_t(delta, se, df, confidence=confidence),
        d_z=d_z,
        n_narratives=n,
        n_narratives_asked=n,
        n_answers=n_answers,
        not_estimable=not_estimable,
        by_narrative=used,
        noise=own_noise,
        weights=np.full(n, 1 / n) if shares is None else shares,
        slope_variance=slope_variance,
        rounding=rounding,
    )
    return replace(pooled.among(there), n_narratives_asked=contrasts.size)


def _shares(gaps: FloatArray, noise: FloatArray) -> tuple[FloatArray | None, float]:
    """Return the weight of each gap, None if all count alike, and the variance of the true gaps by REML.

    With equal noise v the estimate is max(0, s² − v), s² the variance of the gaps.
    """
    if np.isnan(noise).any():
        return None, float("nan")
    if gaps.size < 2:
        return None, float("nan")
    if np.ptp(noise) <= 8 * EPSILON * float(noise.max()):
        return None, max(0.0, float(gaps.var(ddof=1)) - float(noise.mean()))
    variance = _reml(gaps, noise)
    weights = 1 / (variance + noise)
    return weights / weights.sum(), variance


def _reml(gaps: FloatArray, noise: FloatArray) -> float:
    """Find the variance between narratives that maximises the restricted likelihood.

    −2 log REML is Σ log(τ² + v_i) + log Σ w_i + Σ w_i (d_i − δ)². It may have two optima: the grid finds the lower, and
    the root of its derivative Σ w_i − Σ w_i²/Σ w_i − Σ w_i² (d_i − δ)² makes it exact.
    """

    def parts(variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        weights = 1 / (variance[:, None] + noise)
        total = weights.sum(axis=1)
        squares = (gaps - (weights @ gaps / total)[:, None]) ** 2
        return weights, total, squares

    def slope(variance: float) -> float:
        weights, total, squares = parts(np.array([variance]))
        own = weights**2
        return float((total - own.sum(axis=1) / total - (own * squares).sum(axis=1))[0])

    positive = float(noise[noise > 0].min())
    grid = _GRID * (float(gaps.var(ddof=1)) + float(noise.mean()))
    grid[0] = 0.0 if noise.min() > 0 else 1e-12 * positive
    criterion = []
    for chunk in np.array_split(grid, max(1, grid.size * gaps.size // 200_000)):
        weights, total, squares = parts(chunk)
        criterion.append(-np.log(weights).sum(axis=1) + np.log(total) + (weights * squares).sum(axis=1))
    best = int(np.argmin(np.concatenate(criterion)))
    below, above = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)])
    if slope(below) >= 0:
        return below
    if slope(above) <= 0:
        return above
    found: float = optimize.brentq(slope, below, above, xtol=1e-14 * above, rtol=1e-13)
    return found
