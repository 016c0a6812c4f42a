"""Each group's own cell: how its ratings of its own lie above what its other ratings, and others of it, lead to expect.

The mean of a group's pair gaps is no such thing: it holds half of every other group's own cell, so that one group that
favours its own makes the gap of all others look as if they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from audit.statistics.ratings import BoolArray, FloatArray

MIN_GROUPS: Final = 3
"""Two groups have one gap, that of their pair: which of the two it is from, no rating tells."""
_DUST: Final = 1e-12
"""What a pseudo-inverse leaves of a weight of 0."""


def own_group_weights(
    groups: Sequence[str],
    perceiver_groups: Sequence[str],
    experiencer_groups: Sequence[str],
    *,
    rated: BoolArray,
    nuisance: FloatArray | None = None,
) -> FloatArray:
    """Weights of the cells whose sum with one narrative's ratings is each group's own gap.

    Parameters
    ----------
    groups
        Length K, whose own gaps are wanted.
    perceiver_groups, experiencer_groups
        Lengths P and E, the group of each identity.
    rated
        Shape (P, E), the cells that have a rating; the others get no weight.
    nuisance
        Shape (M, P, E), 0/1: what all groups' gaps are estimated beside, such as repeated words; None for nothing.

    Returns
    -------
    numpy.ndarray
        Shape (K, P, E); NaN for a group whose own gap these cells do not determine.

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
