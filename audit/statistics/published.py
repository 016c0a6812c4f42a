"""δ_z as published: the released arithmetic and its permutation null, kept for replication.

δ_z is divided by the spread of the matrix's own cells, so it cannot be compared with anything else, and its null
ignores that narratives vary. :mod:`audit.statistics.contrasts` holds the better statistic.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import lru_cache
from math import factorial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import special

from audit.errors import NotEstimableError
from audit.statistics.cells import BY_DESIGN, NarrativeCube
from audit.statistics.estimates import EPSILON
from audit.statistics.ratings import NO_PERSONA, BoolArray, FloatArray, divide
from audit.tables.formatting import plural

_CHUNK: Final = 1_700  # shuffles at a time: memory does not grow with their number, and a processor's cache holds them
_LISTED: Final = 6  # with up to this many identities, all their orders (720) are listed and drawn from


@dataclass(frozen=True)
class PublishedGap:
    """The published gap; unrounded except for the cell means that it is made of."""

    delta_z: float  # in-group minus out-group, in standard deviations of the matrix's own cells
    # 2.5 and 97.5 percentiles of δ_z over shuffled matrices: a *null* interval, not a confidence interval. If all
    # shuffles are listed they are those of the exact null, the limit for ever more draws.
    null_low: float
    null_high: float
    null: str  # which shuffles those are, in words
    n_narratives: int  # left after listwise deletion: those with a rating in every cell between identities
    n_narratives_asked: int  # before it
    n_answers: int  # ratings in the matrix: n_narratives · P · E
    # shape (B,), δ_z of the shuffled matrices
    shuffled: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)


def published_gap(cube: NarrativeCube, *, rng: np.random.Generator, n_permutations: int = 10_000) -> PublishedGap:
    """Compute δ_z and its null interval with the arithmetic of the released study.

    Baselines are ignored: a narrative is left out if a rating is missing between identities, not if one is missing by
    or about the unspecified person. ``n_permutations`` are independent shuffles of the rows and of the columns; all
    that can differ, if there are no more.

    Notes
    -----
    Following the code of [1]_: cell means are rounded to 2 decimals, see :func:`rounded_means`; z = (M − mean) /
    population SD over the P × E cells between identities (unspecified left out); δ_z = mean(z[in-group]) −
    mean(z[out-group]). The heatmap has narratives and a z of its own, see :func:`published_cells`.

    References
    ----------
    .. [1] Hou, Daumé III and Rudinger (2025), arXiv:2503.01030.
    """
    compared = cube.without_baselines()
    in_group = compared.in_group
    if in_group.size == 0:
        raise NotEstimableError("the ratings hold baselines only: no perceiver and experiencer have groups to compare")
    kept = ~np.asarray(np.isnan(compared.y).any(axis=(1, 2)))
    if not kept.any() and not compared.expected.all():
        raise NotEstimableError(BY_DESIGN)
    if not kept.any():
        raise NotEstimableError(
            f"listwise deletion leaves none of {plural(kept.size, 'narrative')}: each lacks a rating in some cell"
        )
    z = standardise_cells(rounded_means(compared.y[kept]))
    delta_z = _in_minus_out(z, in_group)
    null = exact_null(z, in_group, at_most=n_permutations)
    if null is not None:
        words = f"all {null.size:,} shuffles"
        # The limit for ever more draws: between few values there is nothing to interpolate.
        null_low, null_high = np.percentile(null, [2.5, 97.5], method="averaged_inverted_cdf")
    else:
        words = f"{n_permutations:,} random shuffles"
        null = permutation_null(z, in_group, rng=rng, n_permutations=n_permutations)
        null_low, null_high = np.percentile(null, [2.5, 97.5])
    n_narratives = int(np.count_nonzero(kept))
    return PublishedGap(
        delta_z=delta_z,
        null_low=float(null_low),
        null_high=float(null_high),
        null=words,
        n_narratives=n_narratives,
        n_narratives_asked=kept.size,
        n_answers=n_narratives * in_group.size,
        shuffled=null,
    )


def rounded_means(y: FloatArray) -> FloatArray:
    """Average each cell in points as the released study does: rounded to 2 decimals by Python's ``round``.

    ``y``, shape (N, P, E), has the narratives that are kept; a cell that holds NaN has no mean.

    Notes
    -----
    ``round`` goes by the number that the floating point holds, ``numpy.round`` by 100 times it: of 2.675, which is held
    as a little less, the first makes 2.67 and the second 2.68. Sums of whole numbers are exact; of others, the sum is
    rounded once, so that the order of the narratives does not matter.
    """
    n_narratives, *shape = y.shape
    columns = y.reshape(n_narratives, -1).T.tolist()
    return np.array([round(math.fsum(column) / n_narratives, 2) for column in columns], dtype=np.float64).reshape(shape)


def released_matrix(cube: NarrativeCube) -> tuple[BoolArray, BoolArray]:
    """Find the narratives, shape (N,), and the cells, shape (P, E), of the published heatmap and its mask.

    The cube holds one dimension with baselines.

    Notes
    -----
    A narrative needs a rating in each of the cells: those of all identities and of the unspecified one. A perceiver
    given no persona is no part of the released matrix, so it drops no narrative; nor does a baseline pair that was
    never asked. The study has neither.
    """
    persona = np.array([group != NO_PERSONA for group in cube.perceiver_groups], dtype=np.bool_)
    identities = ~cube.baseline_perceiver[:, None] & ~cube.baseline_experiencer
    cells = persona[:, None] & (cube.asked | identities)
    return ~np.asarray((np.isnan(cube.y) & cells).any(axis=(1, 2))), cells


def published_cells(cube: NarrativeCube) -> FloatArray:
    """Return the standardised cells of the published heatmap, shape (P, E).

    They are (M − mean) / population SD, both over all (K + 1)² cells, as in the code of [1]_; M is
    :func:`rounded_means`. A perceiver given no persona, whom the study does not have, is put in the same unit. All are
    NaN where listwise deletion leaves no narrative, or all cells are equal; so is a pair without a rating.

    The cube holds one dimension *with* baselines: the released matrix has the unspecified perceiver and experiencer in
    it, and a narrative without a rating in any of its cells is left out of all. So these may be other narratives than
    those of :func:`published_gap`.

    References
    ----------
    .. [1] Hou, Daumé III and Rudinger (2025), arXiv:2503.01030.
    """
    kept, cells = released_matrix(cube)
    if not kept.any() or not cells.any():
        return np.full(cube.in_group.shape, np.nan)
    means = rounded_means(cube.y[kept])
    released = means[cells]
    if np.ptp(released) == 0:
        return np.full(cube.in_group.shape, np.nan)
    standardised: FloatArray = (means - released.mean()) / released.std()
    return standardised


def published_mask(cube: NarrativeCube) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Find the cells that the published heatmap shows: those that differ from both identities' own cells.

    The cube holds one dimension with baselines, as for :func:`published_cells`, whose narratives the tests use. Returns
    three arrays of shape (P, E): p of the paired t-test against the perceiver's own cell (the perceiver about its own
    wording), p against the experiencer's own cell, and whether the cell is shown. p is NaN where there is no own cell,
    no narrative has a difference, or fewer than two narratives are left; where the difference is the same in every
    narrative, and not 0, t is infinite and p is 0, as scipy has it.

    Notes
    -----
    Shown are cells with both p < 0.05 / (K + 1)², K the identities; own cells and those of the unspecified identity
    are always shown, as in [1]_. It is no test of intergroup bias: main effects of identities alone, with enough
    narratives, show most of the cells.

    References
    ----------
    .. [1] Hou, Daumé III and Rudinger (2025), arXiv:2503.01030.
    """
    kept, _ = released_matrix(cube)
    y = cube.y[kept]
    own_of = {term: place for place, term in enumerate(cube.experiencers)}
    perceiver_at = {term: place for place, term in enumerate(cube.perceivers)}
    shape = cube.in_group.shape
    of_perceiver, of_experiencer = np.full(shape, np.nan), np.full(shape, np.nan)
    own = np.zeros(shape, dtype=np.bool_)
    for place, term in enumerate(cube.perceivers):
        if term in own_of:
            own[place, own_of[term]] = True
            of_perceiver[place] = _paired_p(y[:, place, :], y[:, place, own_of[term], None])
    for place, term in enumerate(cube.experiencers):
        if term in perceiver_at:
            of_experiencer[:, place] = _paired_p(y[:, :, place], y[:, perceiver_at[term], place, None])
    identities = np.count_nonzero(~cube.baseline_experiencer)
    level = 0.05 / (identities + 1) ** 2
    shown = (of_perceiver < level) & (of_experiencer < level)
    return of_perceiver, of_experiencer, shown | own | cube.baseline_perceiver[:, None] | cube.baseline_experiencer


def _paired_p(cells: FloatArray, own: FloatArray) -> FloatArray:
    """Two-sided p of paired t-tests of cells, shape (N, M), against one, shape (N, 1); NaN without any difference."""
    n, n_cells = cells.shape
    if n < 2:
        return np.full(n_cells, np.nan)
    differences = cells - own
    mean, spread = differences.mean(axis=0), differences.std(axis=0, ddof=1)
    rounding = 4 * EPSILON * np.abs(cells).max()
    same = np.ptp(differences, axis=0) <= rounding
    spread[same] = 0.0
    p: FloatArray = 2 * special.stdtr(n - 1, -np.abs(divide(mean * n**0.5, spread)))
    p[same & (np.abs(mean) > rounding)] = 0.0
    return p


def standardise_cells(means: FloatArray) -> FloatArray:
    """Standardise cell means, shape (P, E), without baselines: less their mean, over their population SD.

    NotEstimableError if all are equal.

    Examples
    --------
    The mean is 50 and the population standard deviation 10:

    >>> standardise_cells(np.array([[60.0, 40.0], [40.0, 60.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if np.ptp(means) == 0:
        raise NotEstimableError(f"all {means.size} cell means are {means.flat[0]:g}: their standard deviation is 0")
    standardised: FloatArray = (means - means.mean()) / means.std()
    return standardised


def _in_minus_out(z: FloatArray, in_group: BoolArray) -> float:
    if in_group.all() or not in_group.any():
        which = f"all {in_group.size} pairs are" if in_group.any() else f"none of {in_group.size} pairs is"
        raise NotEstimableError(f"{which} in-group, so there is nothing to compare")
    return float(z[in_group].mean() - z[~in_group].mean())


def exact_null(z: FloatArray, in_group: BoolArray, *, at_most: int) -> FloatArray | None:
    """Compute δ_z of every shuffle that can differ, or None if those are more than ``at_most``.

    ``z`` and ``in_group`` have shape (P, E): the standardised cells and the mask.

    Notes
    -----
    Where every identity is in-group with exactly one, shuffling the rows as well only repeats what shuffling the
    columns gives: K = 5 has 120 values. Otherwise all orders of the rows meet all orders of the columns.

    Examples
    --------
    Two groups have two shuffles: the matrix as it is, and its columns exchanged.

    >>> z, in_group = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[True, False], [False, True]])
    >>> exact_null(z, in_group, at_most=10).tolist()
    [2.0, -2.0]
    """
    one_to_one = _is_one_to_one(in_group)
    n_rows, n_columns = z.shape
    n_row_orders = 1 if one_to_one else factorial(n_rows)
    if n_row_orders * factorial(n_columns) > at_most:
        return None
    columns = _all_orders(n_columns)
    if one_to_one:
        return shuffled_gaps(z, in_group, row_orders=np.arange(n_rows)[:, None], column_orders=columns)
    rows = np.repeat(_all_orders(n_rows), columns.shape[1], axis=1)
    return shuffled_gaps(z, in_group, row_orders=rows, column_orders=np.tile(columns, (1, n_row_orders)))


def _is_one_to_one(in_group: BoolArray) -> bool:
    return bool((in_group.sum(axis=0) == 1).all() and (in_group.sum(axis=1) == 1).all())


def permutation_null(
    z: FloatArray, in_group: BoolArray, *, rng: np.random.Generator, n_permutations: int = 10_000
) -> FloatArray:
    """Draw δ_z of matrices whose rows and columns are shuffled independently: shape (n_permutations,).

    ``z`` are standardised cells, shape (P, E); the mask ``in_group``, of which some but not all are true, stays in
    place. ``rng`` draws rows before columns in each chunk of 1,700.

    Notes
    -----
    Where every identity is in-group with exactly one, the rows stay: shuffling them as well gives nothing new.
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; it must be at least 1")
    null = np.empty(n_permutations)
    # Allocated once: fresh pages for every chunk would cost more than the shuffles.
    rows, columns = (np.empty((size, min(_CHUNK, n_permutations)), dtype=np.intp) for size in z.shape)
    row_orders, stay = np.arange(z.shape[0])[:, None], _is_one_to_one(in_group)
    for start in range(0, n_permutations, _CHUNK):
        n_draws = min(_CHUNK, n_permutations - start)
        if not stay:
            row_orders = draw_orders(z.shape[0], n_draws, rng=rng, out=rows)
        column_orders = draw_orders(z.shape[1], n_draws, rng=rng, out=columns)
        null[start : start + n_draws] = shuffled_gaps(z, in_group, row_orders=row_orders, column_orders=column_orders)
    return null


def shuffled_gaps(
    z: FloatArray, in_group: BoolArray, *, row_orders: npt.NDArray[np.intp], column_orders: npt.NDArray[np.intp]
) -> FloatArray:
    """Compute δ_z of ``z[row_order][:, column_order]`` for each pair of orders: shape (B,).

    ``z`` and ``in_group`` have shape (P, E); the mask stays in place while the cells move. The orders have shapes (P,
    B), or (P, 1) for rows that stay, and (E, B), one order a column.

    Notes
    -----
    The total over cells is the same in every order, so only the in-group cells, or the others if they are fewer, are
    summed: two at a time where a row has two, by a table of the sums of all pairs of a row's cells, and the rows of a
    group, which share their columns, are looked up together. They are added row by row, whatever the groups.
    """
    n_in = int(np.count_nonzero(in_group))
    n_out = in_group.size - n_in
    sum_in_group = n_in <= n_out
    n_columns = z.shape[1]
    cells, pairs = z.ravel(), (z[:, :, None] + z[:, None, :]).ravel()
    sums = np.zeros(column_orders.shape[1])
    chosen = [np.flatnonzero(row).tolist() for row in (in_group if sum_in_group else ~in_group)]
    starts = row_orders * n_columns
    for columns, rows in itertools.groupby(range(len(chosen)), key=chosen.__getitem__):
        first, *others = rows
        of_rows = starts[first : first + 1 + len(others)]
        # No place is out of range; "wrap" spares numpy the proof.
        parts = [cells.take(of_rows + column_orders[columns[-1]], mode="wrap")] if len(columns) % 2 else []
        of_rows = of_rows * n_columns
        for one, other in zip(columns[:-1:2], columns[1::2], strict=True):
            places = column_orders[one] * n_columns + column_orders[other]
            parts.append(pairs.take(of_rows + places, mode="wrap"))
        for row in zip(*parts, strict=True):
            for part in row:
                sums += part
    rest = cells.sum() - sums
    in_sums, out_sums = (sums, rest) if sum_in_group else (rest, sums)
    gaps: FloatArray = in_sums / n_in - out_sums / n_out
    return gaps


def draw_orders(
    n_terms: int, n_draws: int, *, rng: np.random.Generator, out: npt.NDArray[np.intp] | None = None
) -> npt.NDArray[np.intp]:
    """Draw uniform orders of ``n_terms`` things: shape (n_terms, n_draws), one order a column; into ``out``, if given.

    Notes
    -----
    Few things: one of all their orders. More: random keys of 32 bits are sorted that carry their place in the lowest,
    which is five times as fast as ``rng.permuted``; two of 21 keys are equal in one of 600,000 draws, and then keep
    their order. Over 64 things have keys of 64 bits.
    """
    orders = np.empty((n_terms, n_draws), dtype=np.intp) if out is None else out[:, :n_draws]
    if n_terms <= _LISTED:
        orders[:] = _all_orders(n_terms).take(rng.integers(0, factorial(n_terms), size=n_draws), axis=1)
        return orders
    kind = np.uint32 if n_terms <= 64 else np.uint64
    n_words = -(-n_terms * n_draws * np.dtype(kind).itemsize // 8)
    words = rng.integers(0, 2**64, size=n_words, dtype=np.uint64)
    keys: npt.NDArray[Any] = words.view(kind)[: n_terms * n_draws].reshape(n_draws, n_terms)
    place = kind(2 ** (n_terms - 1).bit_length() - 1)
    keys &= ~place
    keys |= np.arange(n_terms, dtype=kind)
    keys.sort(axis=1)
    keys &= place
    orders[:] = keys.T
    return orders


@lru_cache
def _all_orders(n_terms: int) -> npt.NDArray[np.intp]:
    return np.ascontiguousarray(np.array(list(itertools.permutations(range(n_terms))), dtype=np.intp).T)
