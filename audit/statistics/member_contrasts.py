"""How one member of a family differs from the mean of the others, over the same narratives or over different ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

import numpy as np

from audit.statistics.estimates import GapEstimate, by_t
from audit.statistics.ratings import FloatArray

_Key = TypeVar("_Key", bound=Hashable)
_DUST: Final = 1e-12


def weights_against_rest(weights: FloatArray) -> FloatArray:
    """Weights of each contrast less the mean of the others, shape (M, P, E) as those given; M is at least 2."""
    n = len(weights)
    against: FloatArray = (weights - weights.mean(axis=0)) * (n / (n - 1))
    against[np.abs(against) < _DUST] = 0.0
    return against


def changes_of_others(estimates: Mapping[_Key, GapEstimate], *, confidence: float) -> dict[_Key, GapEstimate]:
    """Compare each estimate with the mean of the others, if no narrative is in two of them.

    ``by_narrative`` of each estimate has all narratives, NaN where they are another's. In the results, ``delta`` is the
    member's δ less the mean of the others' δ, each counting alike. Members without a standard error are left out; the
    result is empty if fewer than two have one.

    Notes
    -----
    With v_j = se_j² and M members, v = v_a + Σ_{j≠a} v_j / (M − 1)², and the degrees of freedom are
    v² / (v_a²/df_a + Σ v_j² / ((M − 1)⁴ df_j)) [1]_ [2]_, but no more than the member's own. Without that bound a
    member whose few narratives happen to agree is given the degrees of freedom of the others: of 20,000 simulated
    tables without a difference, twelve emotions of 2 narratives had one below .05 after Holm's correction in 26%. With
    it, that is so in under 0.1%, with five emotions of 10 narratives in 2.5%, and of 30 in 4.4%. ``by_narrative`` has
    pseudo-values, the difference plus N times a narrative's part in it.

    References
    ----------
    .. [1] Satterthwaite (1946), Biometrics Bulletin 2(6), 110–114.
    .. [2] Welch (1947), Biometrika 34(1/2), 28–35.
    """
    tested = {key: each for key, each in estimates.items() if np.isfinite(each.se) and np.isfinite(each.df)}
    if len(tested) < 2:
        return {}
    return {key: _change(key, tested, confidence=confidence) for key in tested}


def _change(key: _Key, tested: Mapping[_Key, GapEstimate], *, confidence: float) -> GapEstimate:
    shares = {name: 1.0 if name == key else -1 / (len(tested) - 1) for name in tested}
    change = sum(share * tested[name].delta for name, share in shares.items())
    variances = {name: (share * tested[name].se) ** 2 for name, share in shares.items()}
    variance = sum(variances.values())
    by_satterthwaite = variance**2 / sum(part**2 / tested[name].df for name, part in variances.items())
    df = min(by_satterthwaite, tested[key].df)
    n = sum(each.n_narratives for each in tested.values())
    by_narrative = np.full(tested[key].by_narrative.size, np.nan)
    for name, share in shares.items():
        own = tested[name]
        used = ~np.isnan(own.by_narrative)
        parts = (own.by_narrative[used] - own.delta) / np.count_nonzero(used)
        by_narrative[used] = change + n * share * parts
    return GapEstimate(
        **by_t(change, variance**0.5, df, confidence=confidence),
        d_z=float("nan"),
        n_narratives=n,
        n_narratives_asked=by_narrative.size,
        n_answers=sum(each.n_answers for each in tested.values()),
        by_narrative=by_narrative,
    )
