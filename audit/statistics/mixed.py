"""δ from all valid ratings: a mixed model in which narratives differ, fitted by exact REML whatever is missing.

The model of rating i of perceiver p about experiencer e, with g = 1 in-group and 0 out-group, is

    y_ipe = μ + δ g_pe + a_p + b_e + u_i + v_i g_pe + ε_ipe,   (u_i, v_i) ~ N(0, D),   ε ~ N(0, σ²)

with a and b fixed effects, or normal random ones ("crossed identities"); an intersection has one more fixed term for
each lesser degree of sharing. :mod:`audit.statistics.reml` maximises its likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.estimates import EPSILON, GapEstimate, by_t
from audit.statistics.ratings import BoolArray, FloatArray, divide
from audit.statistics.reml import Reml, Solution
from audit.tables.formatting import either, plural


@dataclass(frozen=True, eq=False)
class MixedFit:
    """A fitted model; unrounded, in points and squared points."""

    delta: float  # the in-group coefficient
    se: float
    df: float  # Satterthwaite's, but never more than the number of narratives with ratings of both kinds, less one
    intercept_variance: float  # D
    slope_variance: float
    covariance: float
    residual_variance: float  # σ²
    perceiver_variance: float  # of the crossed model; NaN where identities are fixed
    experiencer_variance: float
    criterion: float  # −2 log REML at the optimum
    boundary: bool  # whether D, or a variance of identities, is singular: at the boundary of the possible values
    converged: bool  # whether the optimum was confirmed, at the boundary too
    # Shape (P, E), mean over the valid ratings of each cell less their narrative's fitted deviation; NaN where a cell
    # has no rating. On complete data these are the plain cell means.
    cell_means: FloatArray
    # Shape (N,), δ plus N times each narrative's part in it; NaN where it has no rating, and throughout for the crossed
    # model.
    by_narrative: FloatArray
    n_narratives: int  # with a rating
    n_informative: int  # with an in-group and an out-group rating
    n_answers: int

    def estimate(self, *, confidence: float) -> GapEstimate:
        """Return the fit as an estimate of δ, with the t interval of its degrees of freedom."""
        return GapEstimate(
            **by_t(self.delta, self.se, self.df, confidence=confidence),
            d_z=self.delta / (self.se * self.n_informative**0.5),
            n_narratives=self.n_narratives,
            n_narratives_asked=self.by_narrative.size,
            n_answers=self.n_answers,
            by_narrative=self.by_narrative,
        )


def fit_mixed(cube: NarrativeCube, *, crossed: bool = False) -> MixedFit:
    """Fit the mixed model to all valid ratings of a cube; baselines and identities without a rating are left out.

    ``crossed`` gives perceivers and experiencers random effects in place of fixed ones. That does *not* widen what the
    interval speaks about: only effects of pairs do, see :mod:`audit.statistics.scopes`.

    NotEstimableError if the ratings do not determine δ or the variances: no rating of a kind, fewer than two narratives
    with both, δ not to be told from the identities' effects, no variation beyond them, or too few ratings.
    """
    whole = cube.without_baselines()
    known = _with_ratings(whole)
    compared = whole.select(*known)
    y, in_group = compared.y.reshape(len(compared.y), -1), compared.in_group.ravel()
    valid = ~np.isnan(y)
    n_informative = _count_informative(valid, in_group)
    columns, blocks, place = _columns(compared, np.asarray(valid.any(axis=0)), crossed=crossed)
    centre = float(y[valid].mean())
    reml = Reml.of(y - centre, in_group=in_group, columns=columns, blocks=blocks)
    _check_variation(reml, largest=float(np.abs(y[valid]).max()))
    theta, converged = reml.maximise()
    found = reml.solve(theta)
    variance = found.residual_variance
    l11, l21, l22 = theta[:3]
    identities = variance * theta[3:] ** 2 if crossed else np.full(2, np.nan)
    fitted = columns @ found.coefficients + centre
    residuals = np.where(valid, y - fitted, 0.0)
    deviations = _deviations(reml, found)
    freed = residuals - np.where(valid, deviations[:, :1] + deviations[:, 1:] * in_group, 0.0)
    cell_means = np.full(whole.in_group.shape, np.nan)
    cell_means[np.ix_(*known)] = (fitted + divide(freed.sum(axis=0), valid.sum(axis=0))).reshape(
        compared.in_group.shape
    )
    by_narrative = np.full(len(y), np.nan)
    if not crossed:
        # [(X'V⁻¹X)⁻¹ X'V⁻¹e] of δ, narrative by narrative; over all of them it is 0.
        row = found.covariance[place]
        parts = residuals @ (columns @ row)
        parts -= deviations[:, 0] * (reml.with_one[:, :-1] @ row) + deviations[:, 1] * (reml.with_g[:, :-1] @ row)
        rated = reml.class_of >= 0
        by_narrative[rated] = found.coefficients[place] + np.count_nonzero(rated) * parts[rated]
    return MixedFit(
        delta=float(found.coefficients[place]),
        se=float(np.sqrt(variance * found.covariance[place, place])),
        df=min(reml.satterthwaite(theta, place), float(n_informative - 1)),
        intercept_variance=float(variance * l11**2),
        slope_variance=float(variance * (l21**2 + l22**2)),
        covariance=float(variance * l11 * l21),
        residual_variance=variance,
        perceiver_variance=float(identities[0]),
        experiencer_variance=float(identities[1]),
        criterion=found.criterion,
        boundary=bool(theta[0] == 0 or (theta[2:] == 0).any()),
        converged=converged,
        cell_means=cell_means,
        by_narrative=by_narrative,
        n_narratives=int(np.count_nonzero(reml.class_of >= 0)),
        n_informative=n_informative,
        n_answers=reml.n_ratings,
    )


def _with_ratings(cube: NarrativeCube) -> tuple[BoolArray, BoolArray]:
    """Mark the perceivers, shape (P,), and experiencers, shape (E,), that have a rating; all of them if nobody has."""
    rated = ~np.isnan(cube.y)
    some = rated if rated.any() else ~rated
    return np.asarray(some.any(axis=(0, 2))), np.asarray(some.any(axis=(0, 1)))


def _deviations(reml: Reml, found: Solution) -> FloatArray:
    """Fitted deviations (û, v̂) of the narratives, shape (N, 2), in points; 0 without a rating."""
    fit = np.append(-found.coefficients, 1.0)
    sums = np.stack([reml.with_one @ fit, reml.with_g @ fit], axis=1)  # Z'e
    deviations: FloatArray = np.einsum("nij,nj->ni", found.deviations[reml.class_of], sums)
    deviations[reml.class_of < 0] = 0.0
    return deviations


def _check_variation(reml: Reml, *, largest: float) -> None:
    """Refuse ratings that narratives and identities explain completely, or that are too few to show a residual."""
    rest, df = reml.within()
    if df < 1:
        raise NotEstimableError(
            f"{plural(reml.n_ratings, 'rating')} of {plural(int(reml.n_each.sum()), 'narrative')} are too few to tell "
            "differing gaps of narratives from noise"
        )
    if rest <= max(1e-10 * reml.gram[-1, -1], reml.n_ratings * (8 * EPSILON * largest) ** 2):
        raise NotEstimableError("narratives and identities explain every rating, so nothing is left to judge δ by")


def _count_informative(valid: BoolArray, in_group: BoolArray) -> int:
    """Count the narratives with ratings of both kinds; NotEstimableError if there are fewer than two."""
    if not valid.any():
        raise NotEstimableError("no pair of identities has a rating")
    if in_group.all() or not in_group.any():
        missing = "in-group" if not in_group.any() else "out-group"
        raise NotEstimableError(f"no rated pair of identities is {missing}")
    n_in, n_out = valid[:, in_group].sum(axis=1), valid[:, ~in_group].sum(axis=1)
    for kind, counts in (("in-group", n_in), ("out-group", n_out)):
        if not counts.any():
            raise NotEstimableError(f"no {kind} pair has a rating")
    n_both = int(np.count_nonzero((n_in > 0) & (n_out > 0)))
    if n_both < 2:
        raise NotEstimableError(
            f"{n_both} of {plural(len(valid), 'narrative')} {either(n_both, 'has', 'have')} an in-group and an "
            "out-group rating, and how narratives differ shows in two or more"
        )
    return n_both


def _columns(cube: NarrativeCube, present: BoolArray, *, crossed: bool) -> tuple[FloatArray, tuple[slice, ...], int]:
    """Columns of the design, shape (C, p), the slices of the random ones, and the place of δ."""
    n_perceivers, n_experiencers = cube.in_group.shape
    lesser, perceivers, experiencers = effect_columns(cube.columns)
    fixed = [np.ones((len(lesser), 1)), lesser]
    if not crossed:
        fixed += [perceivers[:, 1:], experiencers[:, 1:]]
    nuisance = np.concatenate(fixed, axis=1)
    nuisance = nuisance[:, _independent(nuisance[present])]
    in_group = cube.in_group.ravel().astype(np.float64)
    if np.linalg.matrix_rank(np.column_stack([nuisance, in_group])[present], tol=1e-8) <= nuisance.shape[1]:
        raise NotEstimableError(
            f"in-group cannot be told from the effects of identities in the {int(present.sum())} of "
            f"{n_perceivers} × {n_experiencers} pairs that have a rating"
        )
    columns = np.column_stack([nuisance, in_group])
    delta = nuisance.shape[1]
    if not crossed:
        return columns, (), delta
    start = columns.shape[1]
    middle = start + n_perceivers
    blocks = slice(start, middle), slice(middle, middle + n_experiencers)
    return np.column_stack([columns, perceivers, experiencers]), blocks, delta


def _independent(columns: FloatArray) -> list[int]:
    """Places of columns, from the left, that are no linear combination of those before."""
    if np.linalg.matrix_rank(columns, tol=1e-8) == columns.shape[1]:
        return list(range(columns.shape[1]))
    kept: list[int] = []
    for place in range(columns.shape[1]):
        if np.linalg.matrix_rank(columns[:, [*kept, place]], tol=1e-8) > len(kept):
            kept.append(place)
    return kept
