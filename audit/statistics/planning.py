"""How small a gap the ratings rule out, and how many narratives it takes: equivalence tests and power.

That no gap was found does not show that there is none. The equivalence table says how large a gap these ratings still
allow; the power table says how small a gap as many narratives would find.

Power is integrated here and not taken from a library: the noncentral t distribution of scipy 1.17, which statsmodels
uses, is NaN at scattered points (2 narratives, noncentrality 8), and a solver that meets one returns gaps of another
power without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy import optimize, special

from audit.statistics.estimates import t_interval

_NAN: Final = float("nan")
_NODES: Final = np.polynomial.legendre.leggauss(200)
_MANY: Final = 1e9  # with more narratives the normal formula stands for the t distribution: they agree to 1 in 10⁸


def equivalence_row(
    *,
    dimension: str,
    variant: str,
    estimator: str,
    scope: str,
    delta: float,
    se: float,
    df: float,
    margin: float | None,
    alpha: float = 0.05,
) -> dict[str, Any]:
    """Say how large a gap an estimate rules out, and whether that is within the margin: a row of ``EQUIVALENCE``.

    The verdict is "no gap larger than the margin" if the interval of confidence 1 − 2 alpha lies inside ±margin; "gap"
    if that of 1 − alpha leaves out 0; "gap, smaller than the margin" if both; "undecided" if neither. None of them says
    that the gap is 0. Without a positive ``se`` the gap is "not estimable". The estimate, its standard error and the
    margin are in points; ``margin`` is None if none was chosen.

    Notes
    -----
    Two one-sided t-tests [1]_, H₁: δ > −margin and H₂: δ < margin; p is the larger of theirs, and p < alpha just
    when the interval of confidence 1 − 2 alpha lies inside.

    References
    ----------
    .. [1] Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15(6), 657–680.
    """
    _check_alpha(alpha)
    _check_positive("margin", margin)
    level, p = 1 - 2 * alpha, _NAN
    low, high, _ = t_interval(delta, se if se > 0 else _NAN, df, confidence=level)
    largest = max(abs(low), abs(high))
    if np.isnan(largest):
        verdict = "not estimable"
    else:
        found = abs(delta) > se * float(special.stdtrit(df, 1 - alpha / 2))
        verdict = "gap" if found else "undecided"
        if margin is not None:
            p = float(special.stdtr(df, (abs(delta) - margin) / se))
            if largest < margin:
                verdict = "gap, smaller than the margin" if found else "no gap larger than the margin"
    return {
        "dimension": dimension,
        "variant": variant,
        "estimator": estimator,
        "scope": scope,
        "margin": _NAN if margin is None else margin,
        "alpha": alpha,
        "delta": delta,
        "level": level,
        "low": low,
        "high": high,
        "largest_gap": largest,
        "p_equivalence": p,
        "verdict": verdict,
    }


def power_row(
    *,
    dimension: str,
    variant: str,
    se: float,
    n_narratives: int,
    sum_of_squares: float,  # s, the information of a narrative's pairs on its gap: design_information
    # Standard deviation of the narratives' true gaps, in points. If sd_contrast is nearly as large, more identities
    # would not make δ more exact, only more narratives.
    slope_sd: float | None = None,
    residual_sd: float | None = None,  # standard deviation of a rating about its narrative's own fit, in points
    wanted: float | None = None,  # in points, positive
    margin: float | None = None,  # in points, positive
    power: float = 0.8,
    alpha: float = 0.05,
    note: str = "",  # why there is no standard error, if the caller knows
) -> dict[str, Any]:
    """Say how small a gap as many narratives find, and how many narratives find a given gap or rule one out.

    A row of ``POWER``, unrounded; NaN and a note where ``se`` is 0 or NaN. ``detectable_low`` and ``detectable_high``
    are the ends of the detectable gap's interval, of confidence 1 − alpha. All power follows from ``se``, in points,
    and ``n_narratives``: it is that of another set of as many narratives that differ as these do.

    Notes
    -----
    s = ΣG̃² = 1/Σw², since w = G̃/s. Of complete ratings sd_contrast² estimates τ² + σ²/s.
    """
    _check_power(power, alpha)
    _check_positive("wanted", wanted)
    _check_positive("margin", margin)
    sd = se * n_narratives**0.5 if se > 0 and n_narratives >= 2 else _NAN
    if np.isnan(sd) and not note:
        note = "there is no standard error: the contrasts of narratives, if there are two or more, have no spread"
    known, chance = not np.isnan(sd), {"power": power, "alpha": alpha}
    sd_low, sd_high = spread_interval(sd, n_narratives, alpha=alpha) if known else (_NAN, _NAN)
    return {
        "dimension": dimension,
        "variant": variant,
        "sd_contrast": sd,
        "slope_sd": _NAN if slope_sd is None else slope_sd,
        "residual_sd": _NAN if residual_sd is None else residual_sd,
        "sum_of_squares": sum_of_squares,
        "n_narratives": n_narratives,
        **chance,
        "detectable_points": detectable_gap(sd, n_narratives, **chance) if known else _NAN,
        "detectable_low": detectable_gap(sd_low, n_narratives, **chance) if known else _NAN,
        "detectable_high": detectable_gap(sd_high, n_narratives, **chance) if known else _NAN,
        "wanted_points": _NAN if wanted is None else wanted,
        "n_for_wanted": narratives_to_find(wanted, sd, **chance) if known and wanted is not None else _NAN,
        "margin_points": _NAN if margin is None else margin,
        "n_for_margin": narratives_to_rule_out(margin, sd, **chance) if known and margin is not None else _NAN,
        "note": note,
    }


def detectable_gap(sd: float, n_narratives: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest gap, in points, that a two-sided t-test of ``n_narratives`` contrasts finds.

    ``sd`` is the standard deviation of the contrasts, in points; ``power`` lies between ``alpha``, the size of the
    test, and 1.

    Notes
    -----
    By the noncentral t distribution; for many narratives (z_{1−alpha/2} + z_power) · sd/√N, 2.80 · sd/√N by default.

    Examples
    --------
    >>> round(detectable_gap(10.0, 100), 2)  # for many narratives 2.80 · 10 / √100 = 2.80
    2.83
    """
    return detectable_by(sd / float(np.sqrt(n_narratives)), n_narratives - 1, power=power, alpha=alpha)


def detectable_by(se: float, df: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest gap, in points, that a two-sided t-test finds with a standard error, in points."""
    _check_power(power, alpha)

    def excess(noncentrality: float) -> float:
        return _t_power(noncentrality, df + 1, alpha=alpha) - power

    upper = 1.0
    while excess(upper) < 0:
        upper *= 2
    noncentrality: float = optimize.brentq(excess, 0.0, upper, xtol=1e-12)
    return se * noncentrality


def spread_interval(sd: float, n_narratives: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """Return the interval of the true standard deviation, of confidence 1 − alpha: with few narratives it is wide.

    ``sd``, in points, is the estimated standard deviation of the contrasts of at least 2 narratives.

    Notes
    -----
    (N − 1)·sd²/SD² is χ² with N − 1 degrees of freedom where contrasts are normal: sd·√((N − 1)/χ²) at the 1 − alpha/2
    and the alpha/2 quantile. Contrasts with heavier tails than normal ones need a wider interval.

    Examples
    --------
    >>> low, high = spread_interval(10.0, 12)  # χ² with 11 degrees of freedom: 21.92 and 3.816
    >>> round(low, 2), round(high, 2)
    (7.08, 16.98)
    """
    _check_alpha(alpha)
    df = n_narratives - 1
    upper, lower = special.chdtri(df, alpha / 2), special.chdtri(df, 1 - alpha / 2)
    return sd * float(np.sqrt(df / upper)), sd * float(np.sqrt(df / lower))


def narratives_to_find(delta: float, sd: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return how many narratives, at least 2, a two-sided t-test needs to find a gap.

    The inverse of :func:`detectable_gap`: ``delta``, the true gap, and ``sd``, the standard deviation of the contrasts,
    are in points.

    Examples
    --------
    >>> narratives_to_find(5.0, 10.0)  # a paired t-test of half a standard deviation
    34.0
    """
    _check_power(power, alpha)
    z = float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    return _fewest(lambda n: _t_power(delta / sd * n**0.5, n, alpha=alpha) >= power, root=z * sd / delta)


def narratives_to_rule_out(margin: float, sd: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return how many narratives, at least 2, show that a gap of exactly 0 lies within the margin.

    ``margin`` and ``sd``, the standard deviation of the contrasts, are in points. ``power`` is the chance that the
    equivalence test succeeds, ``alpha`` the size of each of the two one-sided tests.

    Notes
    -----
    For many narratives ((z_{1−alpha} + z_{1−(1−power)/2}) · sd/margin)²; a true gap other than 0 takes more.

    Examples
    --------
    >>> narratives_to_rule_out(5.0, 10.0)  # for many narratives (2.93 · 10 / 5)² = 34.3
    36.0
    """
    _check_power(power, alpha)
    z = float(special.ndtri(1 - alpha) + special.ndtri((1 + power) / 2))
    return _fewest(lambda n: equivalence_power(margin / sd, n, alpha=alpha) >= power, root=z * sd / margin)


def equivalence_power(margin: float, n_narratives: int, *, alpha: float = 0.05) -> float:
    """Return the chance that two one-sided t-tests show a gap of exactly 0 to lie within the margin.

    ``margin`` is in standard deviations of the contrasts.

    Notes
    -----
    With t the 1 − alpha quantile for N − 1 df and u the sample's standard deviation over the true one, both tests
    reject with the probability max(0, 2Φ(margin·√N − t·u) − 1), whose mean over u this is. The sum of two noncentral
    t probabilities, which is often taken for it, is a lower bound.

    Examples
    --------
    >>> equivalence_power(0.5, 35) < 0.8 <= equivalence_power(0.5, 36)
    True
    """
    _check_alpha(alpha)
    df = n_narratives - 1
    reach, t = margin * float(np.sqrt(n_narratives)), float(special.stdtrit(df, 1 - alpha))
    return 2 * _exceeds(t, df, reach, most=reach / t) - _spread_below(reach / t, df)


def _t_power(noncentrality: float, n_narratives: float, *, alpha: float) -> float:
    """Power of the two-sided t-test at a gap of ``noncentrality`` standard errors."""
    df = n_narratives - 1
    t = float(special.stdtrit(df, 1 - alpha / 2))
    return _exceeds(t, df, noncentrality) + _exceeds(t, df, -noncentrality)


def _exceeds(t: float, df: float, noncentrality: float, *, most: float = float("inf")) -> float:
    """Chance that a noncentral t exceeds t > 0 and the spread u in its denominator, χ/√df, is below ``most``.

    The mean of Φ(noncentrality − t·u) over u by Gauss–Legendre's rule, where Φ is not yet 1 or 0 and u has density.
    """
    tails = special.gammaincinv(df / 2, 1e-17), special.gammainccinv(df / 2, 1e-17)
    bottom, top = (float(np.sqrt(2 * tail / df)) for tail in tails)
    start, end = np.clip([(noncentrality - 9) / t, (noncentrality + 9) / t], bottom, max(bottom, min(top, most)))
    half = (end - start) / 2
    u = start + half * (1 + _NODES[0])
    constant = np.log(2) + df / 2 * np.log(df / 2) - special.gammaln(df / 2)
    density = np.exp(constant + (df - 1) * np.log(u) - df / 2 * u**2)
    middle = half * float((_NODES[1] * density * special.ndtr(noncentrality - t * u)).sum())
    return _spread_below(float(start), df) + float(middle)


def _spread_below(u: float, df: float) -> float:
    """Chance that χ/√df is below u."""
    return float(special.gammainc(df / 2, df / 2 * u * u))


def _fewest(enough: Callable[[int], bool], *, root: float) -> float:
    """Find the fewest narratives, at least 2, that are enough, starting from the normal formula's root."""
    guess = root * root
    if guess > _MANY:
        return float(np.ceil(guess))
    upper = max(2, int(np.ceil(guess)))
    while not enough(upper):
        upper *= 2
    lower = 1
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if enough(middle) else (middle, upper)
    return float(upper)


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha is {alpha}; it is an error rate between 0 and 0.5, such as 0.05")


def _check_power(power: float, alpha: float) -> None:
    _check_alpha(alpha)
    if not alpha < power < 1:
        raise ValueError(f"power is {power}; it is a share between alpha, {alpha}, and 1, such as 0.8")


def _check_positive(name: str, points: float | None) -> None:
    if points is not None and not points > 0:
        raise ValueError(f"{name} is {points}; it is a gap in points above 0, or None")
