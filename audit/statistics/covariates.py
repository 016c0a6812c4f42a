"""How the gap changes with numbers that a user has of groups, or of pairs of groups, such as a cultural distance.

Groups are few, and two pairs that share a group are not independent. So p comes from permuting groups, and says how
small it can be at all. The interval of the slope is over narratives, and speaks of these groups alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import ConfigError, NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.disparity_estimates import RatedView, rated_views
from audit.statistics.estimate_rows import child_rng
from audit.statistics.estimates import GapEstimate
from audit.statistics.families import adjust_p, estimate_contrasts, groups_are_in_groups
from audit.statistics.incomplete import cell_means
from audit.statistics.own_groups import own_group_weights
from audit.statistics.ratings import FloatArray, IntArray, groups_by_dimension
from audit.tables.disparity import deciding_view
from audit.tables.formatting import bare_p, either, plural
from audit.tables.gap import COVARIATES
from stimuli.covariates import GroupCovariates, read_covariates

LEAST_GROUPS: Final = 3  # of two groups any number is a straight line
_DUST: Final = 1e-12
_EQUAL: Final = 1e-9  # statistics of permutations that differ by no more, relative to their size, are one
_CHUNK: Final = 4_096  # permutations that are held at once
_NUMBERS: Final = ("slope", "se", "df", "ci_low", "ci_high", "per_sd", "p", "p_least")
_COUNTS: Final = ("n_permutations", "n_groups", "n_pairs", "n_narratives", "n_answers")

GroupWeights: TypeAlias = Mapping[str, FloatArray]
"""By group the weights, shape (P, E), whose sum with one narrative's ratings is a number of that group."""


def covariates_of(ratings: pd.DataFrame, path: Path) -> GroupCovariates:
    """Read a user's numbers of the groups of these ratings."""
    covariates = read_covariates(path)
    covariates.check(groups_by_dimension(ratings))
    return covariates


@dataclass(frozen=True, eq=False)
class Slope:
    """The slope of gaps on a covariate, and the test that permutes groups."""

    estimate: GapEstimate  # over narratives, in points per unit of the covariate
    sd: float  # of the covariate, over the pairs or groups
    p: float
    p_least: float
    n_permutations: int
    groups: tuple[str, ...]
    n_pairs: int
    note: str


def covariate_rows(
    cube: NarrativeCube,
    covariates: GroupCovariates,
    *,
    seed: int,  # with the names of dimension, variant and covariate, so that other covariates do not alter a p
    n_permutations: int,
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Estimate for each covariate how the gap changes with it; yields rows of ``COVARIATES``, unrounded.

    Covariates of pairs are compared with the out-group pairs, see :func:`pair_slope`; those of groups with each group's
    own gap and with its disparity, see :func:`group_slope`. What cannot be estimated is a row of NaN with a note, and
    does not count in the family.
    """
    compared = cube.without_baselines()
    alpha = round(1 - confidence, 12)
    rows = []
    view = deciding_view_of(cube)

    def slope_of(of: str, numbers: Mapping[tuple[str, ...], float], **settings: Any) -> Slope:
        if of == "disparity":
            if view is None:
                raise NotEstimableError("fewer than two groups have a rating")
            weights = dict(zip(view.groups, view.cells(view.of_groups), strict=True))
            by_group = {group: x for (group,), x in numbers.items()}
            return group_slope(view.y, weights, by_group, levels=view.levels, **settings)
        if not groups_are_in_groups(compared):
            raise NotEstimableError("perceivers and experiencers do not have the same groups")
        if of == "pairs":
            return pair_slope(compared, {(a, b): x for (a, b), x in numbers.items()}, **settings)
        return group_slope(
            compared.y, own_gap_weights(compared), {group: x for (group,), x in numbers.items()}, **settings
        )

    kinds = ("pairs",) if covariates.of_pairs else ("groups", "disparity")
    for name, of in product(covariates.names, kinds):
        numbers = covariates.numbers(name, cube.dimension)
        stream = f"covariate {name}" if of != "disparity" else f"disparity and covariate {name}"
        rng = child_rng(seed, cube.dimension, cube.variant, stream)
        row: dict[str, Any] = dict.fromkeys(_NUMBERS, math.nan) | dict.fromkeys(_COUNTS, 0)
        row |= {"dimension": cube.dimension, "variant": cube.variant, "covariate": name, "of": of}
        try:
            found = slope_of(of, numbers, rng=rng, n_permutations=n_permutations, confidence=confidence)
        except NotEstimableError as error:
            rows.append(row | {"note": str(error)})
            continue
        estimate = found.estimate
        row |= {each: getattr(estimate, each) for each in ("se", "df", "ci_low", "ci_high")}
        row |= {each: getattr(estimate, each) for each in ("n_narratives", "n_answers")}
        row |= {"slope": estimate.delta, "per_sd": estimate.delta * found.sd, "p": found.p, "p_least": found.p_least}
        row |= {"n_permutations": found.n_permutations, "n_groups": len(found.groups), "n_pairs": found.n_pairs}
        rows.append(row | {"note": found.note})
    for of in kinds:
        own = [row for row in rows if row["of"] == of]
        adjusted, size = adjust_p([row["p"] for row in own], method="Holm")
        for row, p in zip(own, adjusted.tolist(), strict=True):
            row |= {"p_adjusted": p, "method": "Holm", "family_size": size}
            row["answer"] = _answer(row, alpha=alpha)
    yield from ({column: row[column] for column in COVARIATES} for row in rows)


def deciding_view_of(cube: NarrativeCube) -> RatedView | None:
    """Return the ratings of experiencers that say who gets less; None of fewer than two groups."""
    views = {view.name: view for view in rated_views(cube) if view.side == "experiencer"}
    return views.get(deciding_view(views))


def _answer(row: Mapping[str, Any], *, alpha: float) -> str:
    """Return the claim that a row allows, as the table's column ``answer`` describes it."""
    if math.isnan(row["p"]):
        return ""
    if row["p_least"] >= alpha:
        return "too_few_groups"
    if row["p_adjusted"] >= alpha or row["ci_low"] <= 0 <= row["ci_high"]:
        return "not_shown"
    names = ("higher", "lower") if row["of"] == "disparity" else ("grows", "shrinks")
    return names[0] if row["slope"] > 0 else names[1]


# --- Pairs -----------------------------------------------------------------------------------------------------------


def pair_slope(
    compared: NarrativeCube,  # without baselines, with the same groups on both sides
    numbers: Mapping[tuple[str, str], float],  # by perceiver's and experiencer's group
    *,
    rng: np.random.Generator,
    n_permutations: int,
    confidence: float,
) -> Slope:
    """Estimate how much lower out-group pairs are rated for one unit more of a covariate of pairs.

    In-group pairs are left out: they would make the slope from near to far the gap itself, since one's own group is at
    no distance. NotEstimableError if the pairs do not determine the slope.

    Notes
    -----
    Within each narrative, y_pe = α_p + β_e − θ x_ab over perceivers p of group a and experiencers e of group b ≠ a, by
    least squares in which each pair of groups counts alike, whatever its number of terms, and beside what terms share.
    So θ is a contrast of cells, and perceiver and experiencer effects cancel, narrative by narrative.

    p is of the matrix permutation of quadratic assignment [1]_ [2]_: the groups of x are permuted, rows and columns
    together, and the square of the partial correlation of x with the cell means is compared. Effects of perceivers and
    experiencers are the same space after every permutation, so that permuting x and permuting what they leave of it
    are one [3]_. Of up to ``n_permutations`` all are taken, and p is exact; else a draw, and the observed order counts
    as one more.

    References
    ----------
    .. [1] Mantel (1967), Cancer Research 27(2), 209–220.
    .. [2] Krackhardt (1988), Social Networks 10(4), 359–381.
    .. [3] Dekker, Krackhardt and Snijders (2007), Psychometrika 72(4), 563–581.
    """
    every = tuple(dict.fromkeys(compared.perceiver_groups))
    groups = _with_all_pairs(every, numbers)
    _check_groups(groups, every)
    x = np.array([[numbers.get((a, b), 0.0) for b in groups] for a in groups])
    place = {group: index for index, group in enumerate(groups)}
    rows, columns = (
        np.array([place.get(group, -1) for group in side])
        for side in (compared.perceiver_groups, compared.experiencer_groups)
    )
    means = cell_means(compared.y.reshape(len(compared.y), -1)).reshape(compared.in_group.shape)
    used = (rows >= 0)[:, None] & (columns >= 0) & (rows[:, None] != columns) & np.isfinite(means)
    p, e = np.nonzero(used)
    codes = rows[p] * len(groups) + columns[e]
    pairs, of_pair, n_cells = np.unique(codes, return_inverse=True, return_counts=True)
    first, second = pairs // len(groups), pairs % len(groups)
    root = 1 / np.sqrt(n_cells[of_pair])
    beside = [] if compared.nuisance is None else list(compared.nuisance[:, p, e])
    effects = [p == each for each in np.unique(p)] + [e == each for each in np.unique(e)]
    basis = _basis(np.array([*effects, *beside], dtype=np.float64).T * root[:, None])
    indicators = np.zeros((len(p), len(pairs)))
    indicators[np.arange(len(p)), of_pair] = root
    free = indicators - basis @ (basis.T @ indicators)  # what effects leave of each pair's column
    values = x[first, second]
    _check_varies(values, "out-group pairs")
    left = free.T @ indicators
    squares = float(values @ left @ values)
    if squares <= _EQUAL * float(((values - values.mean()) ** 2).sum()):
        raise NotEstimableError(
            f"effects of perceivers and experiencers explain all of it in {plural(len(groups), 'group')}"
            + (": a symmetric covariate needs four" if len(groups) == LEAST_GROUPS else "")
        )
    weights = np.zeros(compared.in_group.shape)
    weights[p, e] = -root * (free @ values) / squares
    weights[np.abs(weights) < _DUST * np.abs(weights).max()] = 0.0
    tested = _permuted(
        lambda orders: x[orders[:, first], orders[:, second]],
        len(groups),
        free.T @ (root * means[p, e]),
        left,
        rng=rng,
        n_permutations=n_permutations,
    )
    return _slope(compared.y, weights, float(values.std(ddof=1)), groups, every, tested, confidence=confidence)


def _with_all_pairs(groups: Sequence[str], numbers: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    """Leave out groups until every pair has a number: the one that lacks most first, of equals the last."""
    kept = list(groups)
    while kept:
        lacking = [sum(((a, b) not in numbers) + ((b, a) not in numbers) for b in kept if b != a) for a in kept]
        if not max(lacking):
            break
        kept.pop(len(kept) - 1 - lacking[::-1].index(max(lacking)))
    return tuple(kept) if len(kept) > 1 else ()


# --- Groups ----------------------------------------------------------------------------------------------------------


def own_gap_weights(compared: NarrativeCube) -> GroupWeights:
    """Weights of each group's own gap, as in the family ``group``; without groups whose gap the pairs do not tell."""
    groups = tuple(dict.fromkeys(compared.perceiver_groups))
    _check_groups(groups, groups)
    rated = ~np.asarray(np.isnan(compared.y).all(axis=0))
    weights = own_group_weights(
        groups, compared.perceiver_groups, compared.experiencer_groups, rated=rated, nuisance=compared.nuisance
    )
    return {group: own for group, own in zip(groups, weights, strict=True) if not np.isnan(own).any()}


def group_slope(
    y: FloatArray,  # shape (N, P, E), in points; NaN where missing
    weights: GroupWeights,
    numbers: Mapping[str, float],  # by group
    *,
    levels: IntArray | None = None,  # of each cell, shape (P·E,): a narrative has an effect for each; None for one
    rng: np.random.Generator,
    n_permutations: int,
    confidence: float,
) -> Slope:
    """Estimate how a number of each group, such as its own gap, changes with one unit of a covariate of groups.

    NotEstimableError if the groups do not determine the slope.

    Notes
    -----
    With γ_ia the weighted sum of narrative i's ratings for group a, the slope of i is Σ_a (x_a − x̄) γ_ia / Σ_a (x_a −
    x̄)²: least squares over groups, each counting alike, and a contrast of cells. p is of permuting x over the groups,
    by the square of its correlation with the γ of the cell means; exact as in :func:`pair_slope`.
    """
    every = tuple(weights)
    groups = tuple(group for group in every if group in numbers)
    _check_groups(groups, every)
    x = np.array([numbers[group] for group in groups])
    _check_varies(x, "groups")
    centred = x - x.mean()
    of_groups = np.array([weights[group] for group in groups])
    means = cell_means(y.reshape(len(y), -1)).reshape(y.shape[1:])
    gaps = np.where(of_groups == 0, 0.0, of_groups * np.where(np.isfinite(means), means, 0.0)).sum(axis=(1, 2))
    combined = np.tensordot(centred / (centred @ centred), of_groups, axes=1)
    combined[np.abs(combined) < _DUST * np.abs(combined).max()] = 0.0
    n = len(groups)
    tested = _permuted(
        lambda orders: x[orders], n, gaps - gaps.mean(), np.eye(n) - 1 / n, rng=rng, n_permutations=n_permutations
    )
    return _slope(y, combined, float(x.std(ddof=1)), groups, every, tested, confidence=confidence, levels=levels)


# --- Both ------------------------------------------------------------------------------------------------------------


def _check_groups(groups: Sequence[str], every: Sequence[str]) -> None:
    if len(groups) < LEAST_GROUPS:
        raise NotEstimableError(
            f"{len(groups)} of {plural(len(every), 'group')} {either(len(groups), 'has', 'have')} all numbers; at "
            f"least {LEAST_GROUPS} are needed"
        )


def _check_varies(values: FloatArray, of: str) -> None:
    if float(np.ptp(values)) <= _DUST * float(np.abs(values).max()):
        raise NotEstimableError(f"it is {values[0]:g} in all {of}")


def _basis(design: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the columns."""
    vectors, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis: FloatArray = vectors[:, sizes > 1e-10 * sizes[0]]
    return basis


@dataclass(frozen=True)
class _Permuted:
    p: float
    p_least: float
    n_permutations: int
    is_exact: bool


def _permuted(
    values_of: Callable[[IntArray], FloatArray],  # orders of groups, shape (B, K), to the covariate, shape (B, M)
    n_groups: int,
    products: FloatArray,  # shape (M,): with the covariate, what effects leave of both
    squares: FloatArray,  # shape (M, M): of the covariate, likewise
    *,
    rng: np.random.Generator,
    n_permutations: int,
) -> _Permuted:
    """Permute the groups of a covariate; its squared correlation with the ratings is compared."""
    true = values_of(np.arange(n_groups)[None])[0]
    own = squares @ true
    size = float(true @ own)
    observed = float(true @ products) ** 2 / size
    is_exact = math.factorial(n_groups) <= n_permutations
    n = reached = same = 0
    for orders in _all_orders(n_groups) if is_exact else _drawn_orders(n_groups, n_permutations, rng):
        values = values_of(orders)
        sizes = np.einsum("bm,bm->b", values @ squares, values)
        there = np.where(sizes > _EQUAL * size, sizes, np.inf)
        reached += int(np.count_nonzero((values @ products) ** 2 / there >= observed * (1 - _EQUAL)))
        same += int(np.count_nonzero((values @ own) ** 2 / there >= size * (1 - _EQUAL)))
        n += len(orders)
    if is_exact:
        return _Permuted(reached / n, same / n, n, is_exact)
    return _Permuted((reached + 1) / (n + 1), (same + 1) / (n + 1), n, is_exact)


def _all_orders(n: int) -> Iterator[IntArray]:
    every = permutations(range(n))
    while chunk := list(islice(every, _CHUNK)):
        yield np.array(chunk)


def _drawn_orders(n: int, n_draws: int, rng: np.random.Generator) -> Iterator[IntArray]:
    for start in range(0, n_draws, _CHUNK):
        yield rng.permuted(np.tile(np.arange(n), (min(_CHUNK, n_draws - start), 1)), axis=1)


def _slope(
    y: FloatArray,
    weights: FloatArray,
    sd: float,
    groups: tuple[str, ...],
    every: Sequence[str],
    tested: _Permuted,
    *,
    confidence: float,
    levels: IntArray | None = None,
) -> Slope:
    """Estimate the slope over narratives, and say what limits it."""
    [member] = estimate_contrasts(y, weights[None], confidence=confidence, levels=levels)
    if member.estimate is None:
        raise NotEstimableError(member.note)
    estimate = member.estimate
    out = [group for group in every if group not in groups]
    notes = [
        f"left out, since a number is missing: {', '.join(out)}" if out else "",
        f"of {tested.n_permutations:,} orders of {len(groups)} groups, the smallest possible p is "
        f"{bare_p(tested.p_least)}"
        if tested.is_exact
        else "",
        member.note,
    ]
    # Ratings that do not differ between groups would count as one more test.
    untested = estimate.delta == 0 and math.isnan(estimate.se)
    p = math.nan if untested else tested.p
    said = "; ".join(filter(None, notes))
    return Slope(estimate, sd, p, tested.p_least, tested.n_permutations, groups, member.n_pairs, said)


# --- In a user's formula ---------------------------------------------------------------------------------------------


class FormulaCovariates:
    """The covariates that a user's formula can name.

    A covariate of pairs has its own name. One of groups, ``size``, is ``perceiver_size`` and ``experiencer_size``. One
    of narratives is the column of the ratings, a number or a label.
    """

    def __init__(self, given: GroupCovariates | None, narratives: pd.DataFrame | None = None) -> None:
        """Take covariates of groups or pairs, and the rows of ``NARRATIVE_COVARIATES``."""
        self._given = given
        self._narratives: dict[str, dict[str, Any]] = {}
        labels = []
        if narratives is not None:
            for name, own in narratives.groupby("covariate", sort=False, observed=True):
                is_number = bool(own["number"].notna().any())
                values = own["number"] if is_number else own["label"].astype(object)
                self._narratives[str(name)] = dict(zip(own["narrative_id"].astype(str), values, strict=True))
                labels += [] if is_number else [str(name)]
        self._of_sides = {
            f"{side}_{name}": (side, name)
            for name in (() if given is None or given.of_pairs else given.names)
            for side in ("perceiver", "experiencer")
        }
        self.of_groups = (*(given.names if given is not None and given.of_pairs else ()), *self._of_sides)
        if twice := next((name for name in self.of_groups if name in self._narratives), None):
            raise ConfigError(
                f"two covariates are called {twice!r}, one in the table of ratings and one in statistics.covariates; "
                "rename one"
            )
        self.labels = tuple(labels)
        self.numbers = (*self.of_groups, *(name for name in self._narratives if name not in labels))

    def beside(self, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
        """Add the covariates among the names to compacted ratings of one dimension."""
        own = {name: self._column(rows, name) for name in names if name in (*self.numbers, *self.labels)}
        return rows.assign(**own) if own else rows  # which copies: there may be millions

    def _column(self, rows: pd.DataFrame, name: str) -> FloatArray | pd.Categorical:
        if name in self._narratives:
            return _by_category(rows["narrative_id"], self._narratives[name], label=name in self.labels)
        assert self._given is not None
        dimension = str(rows["dimension"].iloc[0])
        if name in self._of_sides:
            side, own = self._of_sides[name]
            numbers = {group: x for (group,), x in self._given.numbers(own, dimension).items()}
            return _by_category(rows[f"{side}_group"], numbers, label=False)
        pairs = self._given.numbers(name, dimension)
        first, second = (rows[f"{side}_group"].array for side in ("perceiver", "experiencer"))
        known = np.array([[pairs.get((a, b), math.nan) for b in second.categories] for a in first.categories])
        values: FloatArray = known[first.codes, second.codes]
        return values


def _by_category(labels: pd.Series, values: Mapping[str, Any], *, label: bool) -> FloatArray | pd.Categorical:
    """Return the value of each label; missing where it has none."""
    own: npt.NDArray[Any] = np.array([values.get(str(name)) for name in labels.cat.categories], dtype=object)
    if label:
        return pd.Categorical(own[labels.array.codes])
    return np.asarray(own.astype(np.float64)[labels.array.codes], dtype=np.float64)
