"""A bound on the mean of narratives' gaps that rare, large gaps cannot pass unseen.

A t interval takes narratives' gaps to be roughly normal. If 5% of narratives have a gap of 50 points and the others
none, 30 narratives show none of them in one run of five, and the t interval then rules out what is there. All that is
certain is that a gap lies within the length of the scale. This bound needs no more than that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from audit.statistics.ratings import FloatArray

_BETS: Final = np.concatenate([[1.0], np.geomspace(0.003, 0.8, 15)])
"""Stakes, as shares of the largest one that cannot lose everything."""
_SHARES: Final = np.concatenate([[0.5], np.full(15, 0.5 / 15)])
_STEPS: Final = 60
_MANY: Final = 10**6  # more narratives than anyone will ask


def bounded_mean(values: FloatArray, *, reach: float, alpha: float) -> tuple[float, float]:
    """Return one-sided bounds of a mean, each at error rate α, from values that lie within ±reach.

    ``values`` are independent draws, shape (N,); NaN are left out, and values beyond ±reach count as at its ends. The
    bounds lie within ±reach.

    Notes
    -----
    With z the values moved to 0..1, K(m) = Σ_j π_j Π_i (1 + λ_j (m − z_i)), 0 ≤ λ_j ≤ 1/(1 − m), has expectation at
    most 1 wherever the mean is at least m. So the m of K(m) ≥ 1/α are ruled out with an error of at most α, by
    Markov's inequality: a bet against a large mean, at stakes fixed beforehand [1]_. The order of values does not
    matter. The lower bound is that of −values.

    References
    ----------
    .. [1] Waudby-Smith and Ramdas (2024), Journal of the Royal Statistical Society B 86(1), 1–27.

    Examples
    --------
    Thirty narratives without any gap leave an average of 11 points of 100 possible, and 400 one of less than 1:

    >>> [round(bounded_mean(np.zeros(n), reach=100.0, alpha=0.05)[1], 2) for n in (30, 400)]
    [11.34, 0.9]
    """
    known = np.clip(values[~np.isnan(values)], -reach, reach)
    if not known.size:
        return -reach, reach
    return -_upper(-known, reach, alpha), _upper(known, reach, alpha)


def narratives_to_bound(
    margin: float, *, reach: float, alpha: float, gaps: FloatArray | None = None, power: float = 0.8
) -> int:
    """Return how many narratives show that their mean is smaller than a margin, if it is 0.

    ``margin`` and ``reach`` are in points. ``gaps``, shape (N,), are of narratives that differ as those to come will;
    None takes them all to be 0. ``power``, above .5, is the chance that so many narratives show it: each of the two
    bounds may fail with half of the rest.

    Examples
    --------
    >>> narratives_to_bound(2.0, reach=100.0, alpha=0.05)
    179
    """
    mean = (1 + margin / reach) / 2
    if mean >= 1:
        return 1
    known = np.zeros(1) if gaps is None else gaps[~np.isnan(gaps)]
    z = (np.clip(known - known.mean(), -reach, reach) + reach) / (2 * reach)
    worst = max(_needed(each, mean, alpha=alpha, power=(1 + power) / 2) for each in (z, 1 - z))
    return int(worst)


def _needed(z: FloatArray, mean: float, *, alpha: float, power: float) -> int:
    """Return how many draws from z rule out a mean of ``mean`` with that chance."""
    with np.errstate(divide="ignore"):
        won = np.log1p(np.maximum(_BETS[:, None] / (1 - mean) * (mean - z), -1.0))
    won = won[np.isfinite(won).all(axis=1)]
    shares = _SHARES[-len(won) :]
    growth, spread = won.mean(axis=1), won.std(axis=1)
    short = float(special.ndtri(power))
    low, high = 1, _MANY
    while low < high:
        middle = (low + high) // 2
        logs = middle * growth - short * middle**0.5 * spread
        top = float(logs.max())
        enough = top + np.log(float((shares * np.exp(logs - top)).sum())) >= -np.log(alpha)
        low, high = (low, middle) if enough else (middle + 1, high)
    return high


def _upper(values: FloatArray, reach: float, alpha: float) -> float:
    z = (values + reach) / (2 * reach)
    low, high = float(z.mean()), 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _ruled_out(z, middle, alpha):
            high = middle
        else:
            low = middle
    return float(high * 2 * reach - reach)


def _ruled_out(z: FloatArray, mean: float, alpha: float) -> bool:
    if mean >= 1:
        return True
    stakes = _BETS / (1 - mean)
    with np.errstate(divide="ignore"):
        logs = np.log1p(np.maximum(stakes[:, None] * (mean - z), -1.0)).sum(axis=1)
    top = float(logs.max())
    return bool(top + np.log(float((_SHARES * np.exp(logs - top)).sum())) >= -np.log(alpha)) if top > -np.inf else False
