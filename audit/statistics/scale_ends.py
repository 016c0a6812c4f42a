"""The gap if the scale had no ends: a two-limit tobit model, for ratings of which many lie at an end.

A ceiling squeezes gaps, and it can make one where identities that are rated high as perceivers are rated high as
experiencers too: their pairs reach the ceiling first. The tobit model reads a rating at an end as "there or beyond".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.estimates import GapEstimate, summarise_contrasts, with_spread
from audit.statistics.ratings import BoolArray, FloatArray
from audit.statistics.status_counts import END_TOLERANCE

END_SHARE: Final = 0.1  # from this share of ratings at an end on, a gap is squeezed or, with main effects, made up
_MAX_STEPS: Final = 100
_WIDEST: Final = 10.0  # standard error, in lengths of the scale, from which on ratings do not determine the gap


def end_shares(cube: NarrativeCube, *, low: float, high: float) -> tuple[float, float]:
    """Return the shares of the ratings between identities at the lower and at the upper end; NaN without a rating."""
    return shares_at_ends(cube.without_baselines().y, low=low, high=high)


def shares_at_ends(y: FloatArray, *, low: float, high: float) -> tuple[float, float]:
    """Return the shares of ratings at the lower and at the upper end, NaN where missing; NaN without a rating.

    A rating beyond an end, which some parsers accept, does not lie at it.
    """
    rated = ~np.isnan(y)
    if not rated.any():
        return float("nan"), float("nan")
    tolerance = END_TOLERANCE * (high - low)
    low_share, high_share = (float((np.abs(y[rated] - end) <= tolerance).mean()) for end in (low, high))
    return low_share, high_share


def tobit_gap(cube: NarrativeCube, *, low: float, high: float, confidence: float) -> GapEstimate:
    """Estimate δ by a two-limit tobit model with effects of narratives, perceivers and experiencers.

    The estimate is in points of a scale that goes on beyond its ends, ``low`` and ``high``. The standard error is
    clustered by narrative, with the factor N/(N − 1); df is the number of narratives with an in-group and an out-group
    rating, less one. Baselines are left out.

    NotEstimableError if no rating lies between the ends, δ cannot be told from the identities' effects in the ratings
    that are left, or the likelihood has no maximum (all in-group ratings at one end, for instance).

    Notes
    -----
    y*_ipe = α_i + a_p + b_e + δ g_pe + ε, ε normal with standard deviation σ; the rating is y* between the ends, and
    the end where y* lies there or beyond [1]_. Narratives have effects of their own (α_i), so that nothing is assumed
    of how their levels are spread. With 1/σ and the coefficients over σ as parameters the log likelihood is concave
    [2]_; Newton's steps take out the narratives' block, which is diagonal. Narratives, perceivers and experiencers
    whose ratings all lie at one end have an effect without bound and add nothing: they are left out.

    Effects of narratives hardly bias a tobit's coefficients, unlike those of other nonlinear models [3]_. With
    s_i narrative i's profile score and S the profile information, its part in the coefficients is S⁻¹s_i, and the
    variance of δ, a ratio of two of them, follows by the delta method. Nothing else is assumed of how ratings of
    a narrative go together; but that a rating beyond an end would have been as spread as those between them is an
    assumption that no rating tests.

    References
    ----------
    .. [1] Tobin (1958), Econometrica 26(1), 24–36; two limits: Rosett and Nelson (1975), Econometrica 43(1), 141–146.
    .. [2] Olsen (1978), Econometrica 46(5), 1211–1215.
    .. [3] Greene (2004), Econometric Reviews 23(2), 125–147.
    """
    if not low < high:
        raise ValueError(f"the scale runs from {low} to {high}; its lower end must be below its upper end")
    compared = cube.without_baselines()
    ratings = compared.y
    tolerance = END_TOLERANCE * (high - low)
    at_low, at_high = ratings <= low + tolerance, ratings >= high - tolerance
    used = _bounded(~np.isnan(ratings), at_low, at_high)
    in_group = compared.in_group.ravel()
    n = len(ratings)
    flat = used.reshape(n, -1)
    kinds = flat[:, in_group].any(axis=1), flat[:, ~in_group].any(axis=1)
    n_informative = int(np.count_nonzero(kinds[0] & kinds[1]))
    if not (used & ~at_low & ~at_high).any():
        raise NotEstimableError("no rating lies between the ends of the scale")
    if n_informative == 0:
        raise NotEstimableError("no narrative has an in-group and an out-group rating that says more than its end")
    kept = flat.any(axis=1)
    middle, length = (low + high) / 2, high - low
    fit = _Tobit(
        y=np.where(used, (np.clip(ratings, low, high) - middle) / length, 0.0).reshape(n, -1)[kept],
        used=flat[kept],
        at_low=at_low.reshape(n, -1)[kept] & flat[kept],
        at_high=at_high.reshape(n, -1)[kept] & flat[kept],
        x=np.column_stack([in_group, *effect_columns(compared.columns)]).astype(np.float64),
    )
    delta, parts = fit.gap()
    by_narrative = np.full(n, np.nan)
    by_narrative[kept] = length * (delta + len(parts) * parts)
    estimate = summarise_contrasts(
        by_narrative, rounding=1e-12 * length, confidence=confidence, n_answers=int(np.count_nonzero(used))
    )
    return with_spread(
        estimate, se=estimate.se, df=float(n_informative - 1), n_informative=n_informative, confidence=confidence
    )


def _bounded(used: BoolArray, at_low: BoolArray, at_high: BoolArray) -> BoolArray:
    """Leave out the ratings of each narrative, perceiver and experiencer that has them at one end only."""
    used = used.copy()
    while True:
        before = np.count_nonzero(used)
        for others in ((1, 2), (0, 2), (0, 1)):
            for end in (at_low, at_high):
                used &= ~(np.all(end | ~used, axis=others, keepdims=True))
        if np.count_nonzero(used) == before:
            return used


@dataclass(frozen=True, eq=False)
class _Tobit:
    """Ratings as (N, C), from −½ to ½, and the (C, p) design of a narrative's cells."""

    y: FloatArray
    used: BoolArray
    at_low: BoolArray
    at_high: BoolArray
    x: FloatArray

    def gap(self) -> tuple[float, FloatArray]:
        """Maximise the likelihood; return the gap, and each narrative's part in it, as shares of the scale's length."""
        theta, alpha = self._start()
        value = self._value(theta, alpha)
        for _ in range(_MAX_STEPS):
            slope, score, system, weights, a = self._derivatives(theta, alpha)
            inverse = _inverse(system)
            step = inverse @ score
            rest = slope.sum(axis=1)
            step_alpha = (rest - a @ step) / weights
            gain = float(score @ step + (rest**2 / weights).sum())
            if gain < 1e-12 * self.used.sum():
                break
            size = 1.0
            while size > 1e-8:
                moved = theta + size * step, alpha + size * step_alpha
                reached = self._value(*moved) if moved[0][-1] > 0 else -np.inf
                if reached >= value + 1e-4 * size * gain:
                    break
                size /= 2
            else:
                break
            (theta, alpha), value = moved, reached
        else:
            raise NotEstimableError("the tobit model's likelihood has no maximum that could be found")
        slope, _, system, _, _ = self._derivatives(theta, alpha)
        inverse = _inverse(system)
        toward = np.zeros(len(theta))
        toward[0], toward[-1] = 1 / theta[-1], -theta[0] / theta[-1] ** 2
        if np.abs(system @ (inverse @ toward) - toward).max() > 1e-6 * np.abs(toward).max():
            raise NotEstimableError(
                "in-group cannot be told from the effects of identities in the ratings that are left"
            )
        # A likelihood without a maximum becomes flat, and its information on the gap vanishes.
        if toward @ inverse @ toward > _WIDEST**2:
            raise NotEstimableError("the tobit model's likelihood has no maximum: its gap grows without bound")
        between = self.used & ~self.at_low & ~self.at_high
        scores = np.column_stack([slope @ self.x, between.sum(axis=1) / theta[-1] - (slope * self.y).sum(axis=1)])
        parts: FloatArray = scores @ (inverse @ toward)
        return float(theta[0] / theta[-1]), parts

    def _start(self) -> tuple[FloatArray, FloatArray]:
        """Start with no effects but the narratives' means."""
        n = self.used.sum(axis=1)
        means = (self.y * self.used).sum(axis=1) / n
        spread = float(((self.y - means[:, None])[self.used] ** 2).mean()) ** 0.5
        scale = 1 / max(spread, 1e-3)
        return np.append(np.zeros(self.x.shape[1]), scale), means * scale

    def _parts(self, theta: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Standardised residuals, shape (N, C), and those of the ratings at the lower and the upper end."""
        z = theta[-1] * self.y - (self.x @ theta[:-1]) - alpha[:, None]
        return z, z[self.at_low], -z[self.at_high]

    def _value(self, theta: FloatArray, alpha: FloatArray) -> float:
        """Log likelihood, without constants."""
        z, low, high = self._parts(theta, alpha)
        between = self.used & ~self.at_low & ~self.at_high
        inside = z[between]
        return float(
            inside.size * np.log(theta[-1])
            - (inside @ inside) / 2
            + special.log_ndtr(low).sum()
            + special.log_ndtr(high).sum()
        )

    def _derivatives(
        self, theta: FloatArray, alpha: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Slopes by a rating's mean, (N, C); profile score and information; the narratives' weights and their block."""
        z, low, high = self._parts(theta, alpha)
        between = self.used & ~self.at_low & ~self.at_high
        slope, h = np.where(between, z, 0.0), between.astype(np.float64)
        for end, sign, at in ((low, -1.0, self.at_low), (high, 1.0, self.at_high)):
            ratio = np.exp(-(end**2) / 2 - special.log_ndtr(end)) / (2 * np.pi) ** 0.5
            slope[at] = sign * ratio
            h[at] = ratio * (ratio + end)
        weights = np.maximum(h.sum(axis=1), 1e-12)
        hy = h * self.y
        a = np.column_stack([h @ self.x, -hy.sum(axis=1)])
        of_cells = -(hy.sum(axis=0) @ self.x)
        system = np.block(
            [
                [(self.x * h.sum(axis=0)[:, None]).T @ self.x, of_cells[:, None]],
                [of_cells[None, :], np.array([[(hy * self.y).sum() + between.sum() / theta[-1] ** 2]])],
            ]
        )
        system -= (a / weights[:, None]).T @ a
        raw = np.append(slope.sum(axis=0) @ self.x, between.sum() / theta[-1] - (slope * self.y).sum())
        score = raw - a.T @ (slope.sum(axis=1) / weights)
        return slope, score, system, weights, a


def _inverse(system: FloatArray) -> FloatArray:
    """Pseudo-inverse of the profile information, of which the identities' effects leave directions undetermined."""
    told = np.diag(system) > 0
    scale = np.where(told, 1 / np.sqrt(np.where(told, np.diag(system), 1.0)), 0.0)
    inverse: FloatArray = (
        scale[:, None] * np.linalg.pinv(scale[:, None] * system * scale, rcond=1e-9, hermitian=True) * scale
    )
    return inverse
