"""How far narratives move single perceivers and single experiencers: variances of narrative × identity.

δ is free of both, complete or not. They matter for simulating ratings like a run's own, and to every estimator that
knows only the narratives' levels and gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.estimates import EPSILON
from audit.statistics.narrative_fits import Swept, narrative_fits, patterns, pseudo_inverse
from audit.statistics.ratings import BoolArray, FloatArray


@dataclass(frozen=True)
class InteractionVariances:
    """Variances of what a narrative adds to one perceiver, and to one experiencer; unrounded, in squared points."""

    perceiver: float  # of narrative × perceiver; 0 if the estimate is negative, NaN if undetermined
    experiencer: float  # of narrative × experiencer
    residual: float  # of a rating beyond them: the variance left within narratives
    n_narratives: int  # narratives whose ratings inform either
    n_answers: int
    note: str = ""  # why a variance is missing


def interaction_variances(cube: NarrativeCube) -> InteractionVariances:
    """Estimate the variances of narrative × perceiver and of narrative × experiencer; baselines are left out.

    Notes
    -----
    Henderson's third method [1]_: the reduction of the sum of squares by letting each narrative have its own perceiver
    effects, set equal to what it is expected to be. With M_i what sweeps narrative i's own level, experiencers,
    in-group and lesser degrees of sharing out of its ratings, Z_i the 0/1 columns of perceivers, K_i = Z_i'M_iZ_i,
    c_i = Z_i'M_iy_i and σ² the residual variance of the narratives' fits,

        σ²_np = [Σ c_i'K_i⁺c_i − c'K⁺c − σ² (Σ rank K_i − rank K)] / [Σ tr K_i − tr(K⁺ Σ K_i²)],   c = Σ c_i, K = Σ K_i

    and alike for experiencers. On complete ratings of groups of equal size it is (MS_np − σ²)/E', MS_np the mean square
    of the perceivers' deviations. It takes the interactions of a narrative's perceivers for independent; only what
    tells perceivers apart within narratives shows, so that one added to all of them is the narrative's level.

    References
    ----------
    .. [1] Searle, Casella and McCulloch (1992), Variance Components, section 5.5.
    """
    compared = cube.without_baselines()
    residual, columns = narrative_fits(compared).residual_variance, compared.columns
    by_perceiver, told = _variance(compared.y.transpose(0, 2, 1), columns.transpose(0, 2, 1), residual)
    by_experiencer, told_too = _variance(compared.y, columns, residual)
    told = told | told_too
    silent = [name for name, found in (("perceiver", by_perceiver), ("experiencer", by_experiencer)) if np.isnan(found)]
    note = ""
    if np.isnan(residual):
        note = "the ratings within narratives leave no degree of freedom to tell interactions from noise"
    elif silent:
        note = f"no two narratives tell how they move single {' and '.join(silent)}s"
    n_answers = int(np.count_nonzero(~np.isnan(compared.y[told])))
    return InteractionVariances(by_perceiver, by_experiencer, residual, int(np.count_nonzero(told)), n_answers, note)


def _variance(y: FloatArray, columns: FloatArray, residual: float) -> tuple[float, BoolArray]:
    """Estimate the variance of narratives × the last axis; mark the narratives, shape (N,), that tell of it."""
    sums = Swept.of(y, columns)
    inner, _ = pseudo_inverse(sums.columns_columns)
    leaning = sums.experiencers_columns @ inner
    k = sums.experiencers - leaning @ sums.experiencers_columns.transpose(0, 2, 1)
    c = sums.experiencers_y - (leaning @ sums.columns_y[:, :, None])[:, :, 0]
    pattern_of, first = patterns(sums.valid)
    own, ranks = pseudo_inverse(k[first])
    told: BoolArray = ranks[pattern_of] > 0
    pooled, pooled_rank = pseudo_inverse(k.sum(axis=0)[None])
    n_each = np.bincount(pattern_of, minlength=len(first))
    squares = np.einsum("n,nef,nfg->eg", n_each, k[first], k[first])
    expected = float(np.trace(k.sum(axis=0)) - np.trace(pooled[0] @ squares))
    total = c.sum(axis=0)
    separate = float(np.einsum("ne,nef,nf->", c, own[pattern_of], c))
    reduction = separate - float(total @ pooled[0] @ total)
    if abs(reduction) <= c.size * EPSILON * separate:
        reduction = 0.0
    df = int(ranks[pattern_of].sum() - pooled_rank[0])
    if expected < 1e-6 * max(float(np.trace(pooled[0])), 1.0) or np.isnan(residual):
        return float("nan"), told
    return max(0.0, (reduction - residual * df) / expected), told
