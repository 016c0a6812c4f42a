"""Each group's own gap: how far its ratings of its own lie above what its other ratings, and others' of it, predict.

The mean of a group's pair gaps is not that: it holds half of every other group's own cell, so that one group that
favours its own makes all others look as if they did too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.incomplete import cell_means
from audit.statistics.narrative_fits import narrative_fits
from audit.statistics.ratings import BoolArray, FloatArray

MIN_GROUPS_OF_OWN_GAPS: Final = 3
"""Two groups have one gap, that of their pair: no rating tells which of the two it is from."""
_DUST: Final = 1e-12
"""The size of what a pseudo-inverse leaves of a weight of 0."""


def own_group_weights(
    groups: Sequence[str],
    perceiver_groups: Sequence[str],
    experiencer_groups: Sequence[str],
    *,
    rated: BoolArray,
    nuisance: FloatArray | None = None,
) -> FloatArray:
    """Weights of the cells whose sum with one narrative's ratings is each group's own gap.

    The weights have shape (K, P, E) for K ``groups``; NaN for a group whose own gap these cells do not determine.
    ``rated``, shape (P, E), marks the cells that have a rating; the others get no weight. ``nuisance``, shape (M, P,
    E), 0/1, is what all gaps are estimated beside, such as repeated words.

    Notes
    -----
    y_pe = α_p + β_e + Σ_a γ_a [p and e both of group a], by least squares with all γ at once. Each row sums to 0 over
    every perceiver and every experiencer, and is orthogonal to every other group's own cells: a gap that one group has
    of its own loads γ of that group alone. Where all groups have the same gap, each γ_a is that gap, and for groups of
    one term the mean of γ is δ whatever the gaps are. K groups of one term leave (K − 1)² − K degrees of freedom: γ is
    determined from three groups on, and not of two.
    """
    perceivers, experiencers = (np.array(list(each), dtype=object) for each in (perceiver_groups, experiencer_groups))
    own = np.array(
        [(perceivers == name)[:, None] & (experiencers == name)[None, :] for name in groups], dtype=np.float64
    ).reshape(len(groups), rated.size)
    effects = np.hstack(
        [
            np.repeat(np.eye(perceivers.size), experiencers.size, axis=0),
            np.tile(np.eye(experiencers.size), (perceivers.size, 1)),
        ]
    )
    beside = np.empty((rated.size, 0)) if nuisance is None else nuisance.reshape(len(nuisance), -1).T
    design = np.hstack([own.T, effects, beside]) * rated.reshape(-1, 1)
    inverse = np.linalg.pinv(design, rcond=1e-10)[: len(groups)]
    determined = np.isclose(inverse @ design, np.eye(len(groups), design.shape[1]), rtol=0, atol=1e-8).all(axis=1)
    inverse[np.abs(inverse) < _DUST] = 0.0
    inverse[~determined] = np.nan
    weights: FloatArray = inverse.reshape(len(groups), *rated.shape)
    return weights


def pair_variance(cube: NarrativeCube, group: str) -> tuple[float, float]:
    """Estimate how much of a group's own gap any pair of groups may show, whether it is one's own or not.

    One hostile pair moves the own gaps of the groups around it. So a group is compared with how far pairs of two groups
    lie from what perceivers, experiencers and own gaps explain.

    Returns the part of the own gap's variance that effects of pairs of groups make, in squared points, 0 if they vary
    no more than noise; and its degrees of freedom. Three groups that vary in nothing else may leave none: then 0 and
    NaN. The cube has no baselines.

    Notes
    -----
    Let M be the cell means, B the mean of each pair of two groups over its cells, and K the map from effects u_ab of
    pairs of groups, independent with variance σ_u², to the residuals of B after the model of
    :func:`own_group_weights`. Then E‖KM‖² = σ_u² tr(K_u'K_u) + noise, where noise follows from the variance of a
    rating about its narrative's fit and the number of ratings of each cell. The own gap is w'M, and the part of its
    variance σ_u² Σ_ab (Σ_{cells of ab} w)². Degrees of freedom are tr(A)²/tr(A²), A = K_u'K_u.
    """
    found = _pair_effects(cube)
    if found is None:
        return 0.0, float("nan")
    return found.variance * found.shares[group], found.df


@dataclass(frozen=True, eq=False)
class _PairEffects:
    """How pairs of two groups vary: σ_u², its degrees of freedom, and by group how much its own gap takes of it."""

    variance: float
    df: float
    shares: dict[str, float]


@lru_cache(maxsize=2)
def _pair_effects(cube: NarrativeCube) -> _PairEffects | None:
    """Estimate the effects of pairs once for all groups of a cube; None if the cells do not determine them."""
    perceivers, experiencers = (
        np.array(list(each), dtype=object) for each in (cube.perceiver_groups, cube.experiencer_groups)
    )
    groups = list(dict.fromkeys(perceivers.tolist()))
    means = cell_means(cube.y.reshape(len(cube.y), -1))
    rated = np.isfinite(means)
    n_ratings = (~np.isnan(cube.y)).reshape(len(cube.y), -1).sum(axis=0)
    own = [(perceivers == name)[:, None] & (experiencers == name)[None, :] for name in groups]
    columns = [each.ravel() for each in own]
    columns += [(np.arange(perceivers.size) == p)[:, None].repeat(experiencers.size, axis=1).ravel()
                for p in range(perceivers.size)]  # fmt: skip
    columns += [(np.arange(experiencers.size) == e)[None, :].repeat(perceivers.size, axis=0).ravel()
                for e in range(experiencers.size)]  # fmt: skip
    beside = [] if cube.nuisance is None else list(cube.nuisance.reshape(len(cube.nuisance), -1))
    design = np.array([*columns, *beside], dtype=np.float64).T[rated]
    # Cells of each pair of two groups, by pair: in-group cells are compared with them.
    of_pair = np.array([
        ((perceivers == a)[:, None] & (experiencers == b)[None, :]).ravel()[rated]
        for a in groups for b in groups if a != b
    ], dtype=np.float64)  # fmt: skip
    of_pair = of_pair[of_pair.any(axis=1)]
    if not len(of_pair):
        return None
    residual = np.eye(len(design)) - design @ np.linalg.pinv(design, rcond=1e-10)
    to_blocks = (of_pair / of_pair.sum(axis=1, keepdims=True)) @ residual
    of_effects = to_blocks @ of_pair.T
    gram = of_effects.T @ of_effects
    trace = float(np.trace(gram))
    if trace < _DUST * len(of_pair):
        return None
    noise = narrative_fits(cube).residual_variance
    of_noise = 0.0 if np.isnan(noise) else noise * float((to_blocks**2 / n_ratings[rated]).sum())
    blocks = to_blocks @ means[rated]
    variance = max(0.0, float(blocks @ blocks) - of_noise) / trace
    weights = own_group_weights(
        groups, cube.perceiver_groups, cube.experiencer_groups, rated=rated.reshape(cube.in_group.shape),
        nuisance=cube.nuisance,
    ).reshape(len(groups), -1)[:, rated]  # fmt: skip
    shares = {
        name: float(((of_pair @ w) ** 2).sum()) + float(w[each.ravel()[rated]].sum()) ** 2
        for name, w, each in zip(groups, weights, own, strict=True)
    }
    return _PairEffects(variance, trace**2 / float((gram**2).sum()), shares)
