"""δ in points: one contrast a narrative, free of perceiver and experiencer main effects, and a t interval over them.

The estimator is that of complete narratives alone: on complete data it is the headline, and equals the in-group fixed
effect of the mixed model with a random intercept and in-group slope for each narrative. Its interval speaks about
*these identities, any such narratives*; it says nothing about identities that were not asked.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.estimates import EPSILON, GapEstimate, summarise_contrasts
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.formatting import plural

_SIGNS: Final = np.asarray(1.0 - 2.0 * (np.arange(256)[:, None] >> np.arange(8) & 1), dtype=np.float64)
"""All ways to flip eight signs: one look-up replaces eight draws, and memory does not grow with the narratives."""


def column_weights(columns: FloatArray, cell_weights: FloatArray | None = None) -> FloatArray:
    """Weights of the cells whose sum with one complete narrative's ratings is the coefficient of each column.

    ``columns`` has shape (D, P, E), 0/1 and not all in one pair of identities: those that in-group is estimated beside,
    such as lesser degrees of sharing, then in-group. ``cell_weights``, shape (P, E), are positive: what each cell
    counts for in least squares; None for all alike. The weights have shape (D, P, E), NaN for a column before the last
    that the pairs do not determine; NotEstimableError if the last one cannot be told from the others and from perceiver
    and experiencer effects: one perceiver or experiencer, nothing shared, everything shared.

    Notes
    -----
    Each column is double-centred (less row means and column means, plus the grand mean) and the weights are rows of the
    pseudo-inverse of the stacked result. For D = 1 that is w = G̃ / ΣG̃². Each row sums to 0 over every perceiver and
    every experiencer, so that their main effects cancel whatever the number of terms in a group.

    Examples
    --------
    There are two groups, and each is both perceiver and experiencer. The gap of a complete narrative is then the mean
    of the two in-group ratings minus the mean of the two out-group ones:

    >>> weights = column_weights(np.eye(2)[None])
    >>> weights.round(2).tolist()
    [[[0.5, -0.5], [-0.5, 0.5]]]
    >>> ratings = np.array([[60.0, 50.0], [52.0, 58.0]])
    >>> float((weights[0] * ratings).sum())  # (60 + 58 - 50 - 52) / 2
    8.0
    """
    masks = np.asarray(columns, dtype=np.float64)
    n_degrees, in_group = len(masks), masks[-1]
    where = f"the {' × '.join(map(str, in_group.shape))} pairs of identities"
    if not in_group.any():
        raise NotEstimableError(f"no perceiver shares a group with an experiencer in {where}: nothing is in-group")
    if in_group.all():
        raise NotEstimableError(
            f"every perceiver shares the group of every experiencer in {where}: nothing is out-group"
        )
    if min(in_group.shape) < 2:
        raise NotEstimableError(
            f"{where} cannot tell in-group from the identity itself: ask at least two perceivers and two experiencers"
        )
    if cell_weights is not None:
        return _weighted(masks, cell_weights)
    centred = (
        masks
        - masks.mean(axis=2, keepdims=True)
        - masks.mean(axis=1, keepdims=True)
        + masks.mean(axis=(1, 2), keepdims=True)
    ).reshape(n_degrees, -1)
    centred[np.abs(centred) < 1e-12] = 0.0
    inverse = np.linalg.pinv(centred, rcond=1e-10)
    close = np.isclose(centred @ inverse, np.eye(n_degrees), rtol=0, atol=1e-8)
    determined = np.asarray(close.all(axis=1))
    if not determined[-1]:
        reason = "" if (masks == 0).all(axis=0).any() else ": no pair shares none, to compare with"
        raise NotEstimableError(
            f"in-group cannot be told from lesser sharing and from perceiver and experiencer effects in {where}{reason}"
        )
    weights: FloatArray = inverse.T.reshape(masks.shape)
    weights[~determined] = np.nan
    return weights


def _weighted(masks: FloatArray, cell_weights: FloatArray) -> FloatArray:
    """Weights of :func:`column_weights` if cells do not count alike."""
    lesser, perceivers, experiencers = effect_columns(masks)
    design = np.column_stack([perceivers, experiencers, lesser, masks[-1].ravel()])
    root = np.sqrt(cell_weights.ravel())
    inverse = np.linalg.pinv(design * root[:, None], rcond=1e-10) * root
    close = np.isclose(inverse @ design, np.eye(design.shape[1]), rtol=0, atol=1e-8)
    found = np.asarray(close.all(axis=1))[-len(masks) :]
    if not found[-1]:
        raise NotEstimableError("in-group cannot be told from perceiver and experiencer effects in these pairs")
    weights: FloatArray = inverse[-len(masks) :].reshape(masks.shape)
    weights[np.abs(weights) < 1e-12] = 0.0
    weights[~found] = np.nan
    return weights


def in_group_weights(cube: NarrativeCube) -> FloatArray:
    """Weights of δ's contrast, shape (P, E): the last row of :func:`contrast_weights`; baselines must be left out."""
    if not cube.in_group.any():
        raise NotEstimableError(
            f"no perceiver shares every group with an experiencer in the {' × '.join(map(str, cube.in_group.shape))} "
            "pairs of identities: nothing is in-group"
        )
    weights: FloatArray = column_weights(cube.columns, cube.cell_weights)[-1]
    return weights


def effect_columns(columns: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lay out the columns that in-group must be told from.

    ``columns`` has shape (D, P, E), in-group last, as :attr:`~audit.statistics.cells.NarrativeCube.columns`. Returns
    0/1 columns for the C = P · E pairs: all but in-group, shape (C, D − 1), each perceiver, shape (C, P), and each
    experiencer, shape (C, E).
    """
    n_perceivers, n_experiencers = columns.shape[1:]
    return (
        columns[:-1].reshape(len(columns) - 1, n_perceivers * n_experiencers).T,
        np.repeat(np.eye(n_perceivers), n_experiencers, axis=0),
        np.tile(np.eye(n_experiencers), (n_perceivers, 1)),
    )


def complete_narratives(cube: NarrativeCube) -> BoolArray:
    """Whether each narrative has a rating in every cell of the cube, shape (N,)."""
    return ~np.asarray(np.isnan(cube.y).any(axis=(1, 2)))


def contrast_by_narrative(y: FloatArray, weights: FloatArray, *, used: BoolArray) -> tuple[FloatArray, float]:
    """Sum the weighted ratings of each narrative: ⟨w, y⟩ in points, shape (N,), NaN for narratives not ``used``.

    ``y`` has shape (N, P, E), ``weights`` (P, E) and ``used`` (N,): those narratives must have a rating wherever a
    weight is not 0. Also returns the rounding error of a contrast of 0; contrasts up to it are set to 0.
    """
    cells = np.flatnonzero(weights)
    w, flat = weights.ravel()[cells], y.reshape(len(y), -1)
    taken = flat if used.all() and cells.size == flat.shape[1] else flat[np.ix_(np.flatnonzero(used), cells)]
    rounding = cells.size * EPSILON * float(np.abs(w).sum()) * float(np.abs(taken).max(initial=0.0))
    sums = taken @ w
    sums[np.abs(sums) <= rounding] = 0.0
    contrasts = np.full(len(y), np.nan)
    contrasts[used] = sums
    return contrasts, rounding


def listwise_gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ from the complete narratives alone; p is the t-test's. Baselines must be left out."""
    if not cube.in_group.size:
        raise NotEstimableError("the ratings hold baselines only: no perceiver and experiencer have groups to compare")
    complete = complete_narratives(cube)
    if not complete.any():
        shape = " × ".join(map(str, cube.in_group.shape))
        raise NotEstimableError(
            f"none of {plural(complete.size, 'narrative')} has a rating in all {shape} pairs of identities"
        )
    contrasts, rounding = contrast_by_narrative(cube.y, in_group_weights(cube), used=complete)
    n_answers = int(np.count_nonzero(complete)) * cube.in_group.size
    return summarise_contrasts(contrasts, rounding=rounding, confidence=confidence, n_answers=n_answers)


def sign_flip_p(contrasts: FloatArray, *, rng: np.random.Generator, n_permutations: int = 10_000) -> float:
    """Test whether contrasts, shape (N,), centre on 0 by flipping their signs at random; their order does not matter.

    Two-sided p: (c + 1)/(B + 1), c those of B flips whose |sum| reaches the observed one; c / 2^N if 2^N ≤ B, where
    each is taken once and ``rng`` is not used; NaN for fewer than two narratives.

    Notes
    -----
    Exact if contrasts are symmetric about 0 under the null [1]_. The 1 added counts the ratings as observed as a draw,
    so that p is never 0 [2]_.

    References
    ----------
    .. [1] Pitman (1937), Supplement to the Journal of the Royal Statistical Society 4, 119–130.
    .. [2] Phipson and Smyth (2010), Statistical Applications in Genetics and Molecular Biology 9(1), 39.

    Examples
    --------
    Of the 2³ = 8 ways to flip the signs, two reach the observed |sum|: none flipped, and all flipped.

    >>> sign_flip_p(np.array([1.0, 2.0, 3.0]), rng=np.random.default_rng(0))
    0.25
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; it must be at least 1")
    n = contrasts.size
    if n < 2:
        return float("nan")
    ordered = np.sort(contrasts)
    reached = abs(float(ordered.sum())) - n * EPSILON * float(np.abs(ordered).sum())
    exact = n < 63 and 2**n <= n_permutations
    n_flips = 2**n if exact else n_permutations
    sums = np.zeros(n_flips)
    for first in range(0, n, 8):
        eight = np.zeros(8)
        eight[: min(8, n - first)] = ordered[first : first + 8]
        patterns = np.arange(n_flips) >> first & 255 if exact else rng.integers(0, 256, size=n_flips, dtype=np.uint8)
        sums += (_SIGNS @ eight).take(patterns)
    count = int(np.count_nonzero(np.abs(sums) >= reached))
    return count / n_flips if exact else (count + 1) / (n_flips + 1)
