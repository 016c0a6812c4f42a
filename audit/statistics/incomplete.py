"""Estimates where ratings are missing that make no model of how narratives differ.

A contrast that needs many pairs finds hardly a narrative complete in all of them: of 441 pairs with 5% missing, none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.estimates import EPSILON, GapEstimate, summarise_contrasts
from audit.statistics.ratings import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CellContrasts:
    """Contrasts of the effects of pairs.

    Attributes
    ----------
    by_narrative
        Shape (M, N), in points: each contrast plus N times the narrative's part in it, so that their mean is the
        contrast; NaN where a narrative has no two ratings, and throughout where the ratings do not determine the
        contrast.
    n_informative
        Shape (M,), narratives with a rating in a pair that has a weight.
    """

    by_narrative: FloatArray
    n_informative: IntArray


def cell_contrasts(y: FloatArray, weights: FloatArray) -> CellContrasts:
    """Estimate contrasts of the effects of pairs by least squares on effects of narratives and of all pairs.

    Parameters
    ----------
    y
        Shape (N, C), in points; NaN where missing.
    weights
        Shape (M, C); each row sums to 0.

    Notes
    -----
    The model is y_ic = α_i + μ_c + ε_ic, the contrast ⟨w, μ̂⟩. With o_i the 0/1 vector of narrative i's ratings and n_i
    their number, μ̂ solves (Σ_i diag(o_i) − o_i o_i'/n_i) μ = Σ_i o_i (y_i − ȳ_i). Narrative i's part in it is
    ψ_i = w' M⁺ o_i (e_i − ē_i), e the residuals; the variance of N ψ_i is the cluster-robust one [1]_, whatever the
    covariance within narratives. On complete ratings N ψ_i plus the contrast is ⟨w, y_i⟩, the plain contrast. The level
    of a narrative is taken out; should ratings be missing more often where its *gap* is large, the estimate is biased
    towards the gap of the others.

    References
    ----------
    .. [1] Liang and Zeger (1986), Biometrika 73(1), 13–22.
    """
    valid = ~np.isnan(y)
    o, n = valid.astype(np.float64), valid.sum(axis=1)
    informative = n > 1
    inverse = np.where(informative, 1 / np.maximum(n, 1), 0.0)
    centre = float(y[valid].mean()) if valid.any() else 0.0
    filled = np.where(valid, y - centre, 0.0)
    o[~informative] = filled[~informative] = 0.0
    system = np.diag(o.sum(axis=0)) - (o * inverse[:, None]).T @ o
    values, vectors = np.linalg.eigh(system)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    basis = vectors[:, kept]
    solved = (weights @ basis) / values[kept] @ basis.T  # w' M⁺
    effects = basis @ ((basis.T @ (filled - o * (filled.sum(axis=1) * inverse)[:, None]).sum(axis=0)) / values[kept])
    residuals = np.where(o > 0, filled - effects, 0.0)
    residuals -= o * (residuals.sum(axis=1) * inverse)[:, None]
    contrasts = weights @ effects
    reach = np.abs(weights).sum(axis=1, keepdims=True)
    estimable = np.asarray((np.abs(solved @ system - weights) <= 1e-7 * reach).all(axis=1))
    used = o.any(axis=1)
    by_narrative = np.where(used, contrasts[:, None] + np.count_nonzero(used) * (solved @ residuals.T), np.nan)
    by_narrative[~estimable] = np.nan
    n_informative = ((weights != 0).astype(np.float32) @ o.T.astype(np.float32) > 0).sum(axis=1)
    return CellContrasts(by_narrative, n_informative)


def equal_weight_gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ as the plain mean of the narratives' own gaps, whatever number of ratings each has.

    The mixed model gives narratives with many missing ratings less weight. Where ratings are missing because of a
    narrative's gap, that biases it towards the gap of the others; this estimate it does not, as long as narratives
    keep a rating of either kind. It pays with a larger standard error. On complete ratings it is the contrast.

    Parameters
    ----------
    cube
        Ratings of one dimension or intersection; baselines are left out, and so are narratives without an in-group or
        without an out-group rating.
    confidence
        Coverage of the t interval, between 0 and 1.

    Raises
    ------
    NotEstimableError
        If no pair is in-group or out-group, no narrative has both, or δ can not be told from the identities' effects.

    Notes
    -----
    y_ipe = α_i + d_i g_pe + x_pe'β + ε, all fixed, by least squares, x the effects of identities (and lesser degrees of
    sharing); δ = mean(d_i). With z̄_i the difference of a narrative's in-group and out-group means of z, it gives
    d_i = ȳ_i − x̄_i'β̂. A narrative's part in δ is (d_i − δ)/N − x̄'ψ_i, x̄ = mean(x̄_i) and ψ_i its part in β̂.
    """
    compared = cube.without_baselines()
    in_group = compared.in_group.ravel()
    if in_group.all() or not in_group.any():
        raise NotEstimableError(f"{'every' if in_group.any() else 'no'} pair of identities is in-group")
    ratings = compared.y.reshape(len(compared.y), -1)
    valid = ~np.isnan(ratings)
    kinds = valid[:, in_group].sum(axis=1), valid[:, ~in_group].sum(axis=1)
    used = np.flatnonzero((kinds[0] > 0) & (kinds[1] > 0))
    if used.size == 0:
        raise NotEstimableError(f"none of {len(ratings)} narratives has both an in-group and an out-group rating")
    valid = valid[used]
    centre = float(ratings[used][valid].mean())
    y, n = np.where(valid, ratings[used] - centre, 0.0), used.size
    x = np.hstack(effect_columns(compared.n_shared))
    # Means over the ratings of a kind, in-group then out-group: of x, shape (N, p), and of y.
    parts = [(valid * kind).astype(np.float64) for kind in (in_group, ~in_group)]
    sizes = [part.sum(axis=1) for part in parts]
    x_means = [part @ x / size[:, None] for part, size in zip(parts, sizes, strict=True)]
    y_means = [(part * y).sum(axis=1) / size for part, size in zip(parts, sizes, strict=True)]
    system = (x * valid.sum(axis=0)[:, None]).T @ x
    right = x.T @ y.sum(axis=0)
    for size, of_x, of_y in zip(sizes, x_means, y_means, strict=True):
        system -= (of_x * size[:, None]).T @ of_x
        right -= of_x.T @ (size * of_y)
    inverse = np.linalg.pinv(system, rcond=1e-10, hermitian=True)
    leaning = (x_means[0] - x_means[1]).mean(axis=0)
    if np.abs(leaning - leaning @ inverse @ system).max(initial=0.0) > 1e-7:
        raise NotEstimableError("the gaps of narratives can not be told from the effects of identities")
    beta = inverse @ right
    gaps = (y_means[0] - y_means[1]) - (x_means[0] - x_means[1]) @ beta
    residuals = np.where(valid, y - x @ beta, 0.0)
    for part, size in zip(parts, sizes, strict=True):
        residuals -= part * ((part * residuals).sum(axis=1) / size)[:, None]
    by_narrative = np.full(len(ratings), np.nan)
    by_narrative[used] = gaps - n * (residuals @ (x @ (inverse @ leaning)))
    rounding = EPSILON * ratings.shape[1] * (float(np.abs(y).max()) + abs(centre)) * n**0.5
    return summarise_contrasts(by_narrative, rounding=rounding, confidence=confidence, n_ratings=int(valid.sum()))
