"""Pairs of groups that stand out, and whether effects of perceivers and experiencers add up at all.

A group's own gap is what its ratings of its own have beyond how high it rates others and how high others rate it. So
one hostile pair (Hindu perceivers rate Muslims 10 points lower) raises the own gaps of both its groups, and those of
others too. This is why pairs are looked at before groups, and groups are estimated beside the pairs that stand out.

And a perceiver who uses more of the scale than others rates high experiencers higher and low ones lower. Where terms
are high on both sides, that alone makes a gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import special

from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.incomplete import cell_means
from audit.statistics.ratings import FloatArray

_DUST: Final = 1e-9
ALPHA: Final = 0.05
_NAN: Final = float("nan")


@dataclass(frozen=True)
class OddPair:
    """A pair of two groups that stands out among the pairs."""

    perceiver_group: str
    experiencer_group: str
    # how much higher its ratings are, in points, than perceivers, experiencers, own gaps and the other pairs predict
    delta: float
    se: float  # by how the other pairs differ
    df: float
    p_adjusted: float  # corrected for all pairs (Bonferroni)


def odd_pairs(cube: NarrativeCube) -> tuple[OddPair, ...]:
    """Find the pairs of two groups that stand out, the clearest first; the cube has no baselines.

    Notes
    -----
    The cell means are averaged over the cells of each pair of groups. Least squares on groups of perceivers, groups of
    experiencers and own gaps leaves (G − 1)² − G degrees of freedom. The pair whose own column has the largest t next
    to these is named if its p, times the number of pairs, is below α: the outlier test of [1]_. Then it stays in, and
    the next one is looked for, of at most G pairs.

    References
    ----------
    .. [1] Cook and Weisberg (1982), Residuals and Influence in Regression, section 2.2.2.
    """
    found = _blocks(cube)
    if found is None:
        return ()
    groups, means, base = found
    pairs = [(a, b) for a in range(len(groups)) for b in range(len(groups)) if a != b]
    columns = np.array([_column(len(groups), pair) for pair in pairs])
    named: list[OddPair] = []
    chosen: list[int] = []
    while len(chosen) < len(groups):
        design = np.column_stack([base, *(columns[place] for place in chosen)])
        free = np.eye(len(means)) - design @ np.linalg.pinv(design, rcond=1e-10)
        df = round(float(np.trace(free))) - 1
        if df < 1:
            break
        residual = free @ means
        rest = columns @ free
        squares = np.einsum("kc,kc->k", rest, columns)
        left = np.array([place not in chosen and squares[place] > _DUST for place in range(len(pairs))])
        effects = np.where(left, (rest @ means) / np.where(left, squares, 1.0), 0.0)
        spread = (float(residual @ residual) - effects**2 * squares) / df
        se = np.sqrt(np.maximum(spread, 0.0) / np.where(left, squares, 1.0))
        if not (se[left] > _DUST).any():
            break
        t = np.where(left, np.abs(effects) / np.maximum(se, _DUST), 0.0)
        best = int(np.argmax(t))
        p = min(1.0, 2 * float(special.stdtr(df, -t[best])) * len(pairs))
        if p > ALPHA:
            break
        chosen.append(best)
        a, b = pairs[best]
        named.append(OddPair(groups[a], groups[b], float(effects[best]), float(se[best]), float(df), p))
    return tuple(named)


def beside_odd_pairs(cube: NarrativeCube, pairs: tuple[OddPair, ...]) -> NarrativeCube:
    """Return the cube whose estimates are made beside these pairs, which then say nothing about their groups."""
    if not pairs:
        return cube
    perceivers, experiencers = (
        np.array(list(each), dtype=object) for each in (cube.perceiver_groups, cube.experiencer_groups)
    )
    own = np.array([
        (perceivers == pair.perceiver_group)[:, None] & (experiencers == pair.experiencer_group)[None, :]
        for pair in pairs
    ], dtype=np.float64)  # fmt: skip
    return replace(cube, nuisance=own if cube.nuisance is None else np.concatenate([cube.nuisance, own]))


@dataclass(frozen=True)
class Additivity:
    """Whether perceivers differ in how far they spread their ratings, which alone can make a gap."""

    # λ, the coefficient of the product of both effects, per point: above 0 if those who rate high spread more. NaN if
    # the test found not λ, but that perceivers' slopes differ in some way.
    slope: float
    p: float  # two-sided p that effects add up, the smaller of two tests (Bonferroni)
    delta: float  # the gap beside the effects that were found, in points


def additivity(cube: NarrativeCube) -> Additivity | None:
    """Test whether a perceiver's effect and an experiencer's add up; None if the cells cannot tell.

    The cube has no baselines.

    Notes
    -----
    α̂_p and β̂_e are those of least squares on the cell means. Tukey's one degree of freedom [1]_ is the product
    α̂_p β̂_e as a column; Mandel's test [2]_ has a column for each perceiver, of its β̂_e, and so a slope of its own. That
    one finds perceivers who spread more and rate no higher. F = (SS/q) / MSE, q the degrees of freedom of the columns.
    Least squares is beside each group's own gap, the pairs of groups that stand out and what terms share: one group
    that favours its own, or one hostile pair, moves both effects, and would pass for their product.

    References
    ----------
    .. [1] Tukey (1949), Biometrics 5(3), 232–242.
    .. [2] Mandel (1961), Journal of the American Statistical Association 56(296), 878–888.
    """
    tested = _multiplied(cube)
    if tested is None or tested.found.p > ALPHA:
        return None if tested is None else tested.found
    pairs = odd_pairs(cube)
    beside = _multiplied(beside_odd_pairs(cube, pairs)) if pairs else None
    # Pairs that leave less unexplained than the product does are the better explanation.
    return beside.found if beside is not None and beside.error_before < tested.error else tested.found


@dataclass(frozen=True)
class _Multiplied:
    """The test's result, and the mean square of the residuals with the product and without it."""

    found: Additivity
    error: float
    error_before: float


def _multiplied(cube: NarrativeCube) -> _Multiplied | None:
    """Run both tests, and take the clearer one."""
    means = cell_means(cube.y.reshape(len(cube.y), -1))
    known = np.isfinite(means)
    if not known.any():
        return None
    y = means[known]
    perceivers, experiencers = (
        np.array(list(each), dtype=object) for each in (cube.perceiver_groups, cube.experiencer_groups)
    )
    groups = dict.fromkeys(perceivers)
    own = [(perceivers == name)[:, None] & (experiencers == name)[None, :] for name in groups if len(groups) > 2]
    lesser, *sides = effect_columns(cube.columns)
    design = np.column_stack([*sides, lesser, cube.columns[-1].ravel(), *(each.ravel() for each in own)])[known]
    fitted, *_ = np.linalg.lstsq(design, y, rcond=1e-10)
    n_perceivers, n_experiencers = cube.in_group.shape
    alpha, beta = fitted[:n_perceivers], fitted[n_perceivers : n_perceivers + n_experiencers]
    of_alpha, of_beta = sides[0] @ (alpha - alpha.mean()), sides[1] @ (beta - beta.mean())
    free = np.eye(len(design)) - design @ np.linalg.pinv(design, rcond=1e-10)
    residual, left = free @ y, round(float(np.trace(free)))
    total = float(residual @ residual)
    if not total > _DUST:
        return None
    tests = []
    for columns in ((of_alpha * of_beta)[:, None], sides[0] * of_beta[:, None]):
        rest = free @ columns[known]
        rank = int(np.linalg.matrix_rank(rest, tol=_DUST))
        df = left - rank
        if df < 1 or not rank:
            continue
        coefficients, *_ = np.linalg.lstsq(rest, y, rcond=1e-10)
        squares = min(float(np.square(rest @ coefficients).sum()), total)
        error = (total - squares) / df
        p = float(special.fdtrc(rank, df, squares / rank / error)) if error > _DUST else 0.0
        tests.append((p, columns @ coefficients, float(coefficients[0]) if columns.shape[1] == 1 else _NAN, error))
    if not tests:
        return None
    p, product, slope, error = min(tests, key=lambda each: each[0])
    plain = np.column_stack([*sides, cube.columns.reshape(len(cube.columns), -1).T])[known]
    without, *_ = np.linalg.lstsq(plain, y - product[known], rcond=1e-10)
    return _Multiplied(Additivity(slope, min(1.0, p * len(tests)), float(without[-1])), error, total / left)


def _blocks(cube: NarrativeCube) -> tuple[list[str], FloatArray, FloatArray] | None:
    """Return groups, means of pairs of groups, and columns of groups and own gaps; None if a pair has no rating."""
    groups = list(dict.fromkeys(cube.perceiver_groups))
    if set(groups) != set(cube.experiencer_groups) or len(groups) < 4 or (cube.n_shared != cube.in_group).any():
        return None
    perceivers, experiencers = (
        np.array(list(each), dtype=object) for each in (cube.perceiver_groups, cube.experiencer_groups)
    )
    cells = cell_means(cube.y.reshape(len(cube.y), -1)).reshape(cube.in_group.shape)
    echoing = np.zeros(cells.shape, dtype=bool) if cube.echoing is None else cube.echoing
    means = np.full((len(groups), len(groups)), np.nan)
    for a, one in enumerate(groups):
        for b, other in enumerate(groups):
            own = (perceivers == one)[:, None] & (experiencers == other) & np.isfinite(cells) & ~echoing
            if own.any():
                means[a, b] = cells[own].mean()
    if np.isnan(means).any():
        return None
    n = len(groups)
    base = np.column_stack([
        *(np.repeat(np.arange(n), n) == a for a in range(n)), *(np.tile(np.arange(n), n) == b for b in range(n)),
        *(_column(n, (a, a)) for a in range(n)),
    ]).astype(np.float64)  # fmt: skip
    return groups, means.ravel(), base


def _column(n: int, pair: tuple[int, int]) -> FloatArray:
    column = np.zeros(n * n)
    column[pair[0] * n + pair[1]] = 1.0
    return column
