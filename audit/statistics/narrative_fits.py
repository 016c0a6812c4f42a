"""Least squares within each narrative, on its own valid ratings alone: its gap, whatever is missing.

A narrative's ratings are regressed on in-group (and, for an intersection, lesser degrees of sharing), perceiver and
experiencer. All of these are the narrative's own, so that its gap does not depend on how the narrative moves perceivers
or experiencers, complete or not. For a complete narrative it is the double-centred contrast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import complete_narratives, contrast_by_narrative, in_group_weights
from audit.statistics.estimates import EPSILON
from audit.statistics.ratings import BoolArray, FloatArray, IntArray

_NOTHING = 1e-8  # a 0/1 column's remaining sum of squares, or an eigenvalue of such columns, counts as 0 below this


@dataclass(frozen=True, eq=False)
class Swept:
    """Each narrative's sums of squares and products, free of its level and its perceivers' effects."""

    columns: FloatArray  # shape (D, P, E), 0/1: as NarrativeCube.columns, in-group last
    valid: BoolArray  # shape (N, P, E), which ratings there are
    y: FloatArray  # shape (N, P, E), ratings less their grand mean, 0 where there is none
    n_each: FloatArray  # shape (N, P), ratings by perceiver, or what they count for
    experiencers: FloatArray  # shape (N, E, E), products of experiencers' columns
    experiencers_columns: FloatArray  # shape (N, E, D), their products with columns
    experiencers_y: FloatArray  # shape (N, E), their products with the ratings
    columns_columns: FloatArray  # shape (N, D, D)
    columns_y: FloatArray  # shape (N, D)

    @classmethod
    def of(cls, y: FloatArray, columns: FloatArray, cell_weights: FloatArray | None = None) -> Self:
        """Sum up ratings, shape (N, P, E), NaN where missing, of pairs with these columns, shape (D, P, E).

        Cells count by ``cell_weights``, shape (P, E); None for all alike.
        """
        n = len(y)
        valid = ~np.isnan(y)
        o = valid.astype(np.float64) if cell_weights is None else valid * cell_weights
        centre = float(y[valid].mean()) if valid.any() else 0.0
        filled = np.where(valid, y - centre, 0.0)
        flat = columns.reshape(len(columns), -1)
        counted = filled if cell_weights is None else filled * cell_weights
        n_each = o.sum(axis=2)
        inverse = 1 / np.where(n_each > 0, n_each, 1.0)
        sums = counted.sum(axis=2)
        shares = np.einsum("npe,dpe->ndp", o, columns)
        y_of, columns_of = sums * inverse, shares * inverse[:, None]
        mirrored = o.transpose(0, 2, 1)
        direct = o.sum(axis=1)
        experiencers = -(mirrored @ (o * inverse[:, :, None]))
        experiencers[:, np.arange(y.shape[2]), np.arange(y.shape[2])] += direct
        squares = (flat[:, None] * flat).reshape(-1, flat.shape[1])
        return cls(
            columns=columns,
            valid=valid,
            y=filled,
            n_each=n_each,
            experiencers=experiencers,
            experiencers_columns=np.einsum("npe,dpe->ned", o, columns) - mirrored @ columns_of.transpose(0, 2, 1),
            experiencers_y=counted.sum(axis=1) - (mirrored @ y_of[:, :, None])[:, :, 0],
            columns_columns=(o.reshape(n, -1) @ squares.T).reshape(n, len(flat), len(flat))
            - shares @ columns_of.transpose(0, 2, 1),
            columns_y=counted.reshape(n, -1) @ flat.T - (shares @ y_of[:, :, None])[:, :, 0],
        )


@dataclass(frozen=True, eq=False)
class NarrativeFits:
    """The gap of each narrative by its own ratings, and how exact it is."""

    gaps: FloatArray  # shape (N,), in points: the in-group coefficient; NaN where it is not determined
    # Shape (N,), s: the remaining sum of squares of the in-group column beside the others. The coefficient's variance
    # is that of a rating over s. 0 where the coefficient is not determined.
    information: FloatArray
    residual_variance: float  # of a rating about its narrative's fit, pooled, in squared points; or NaN
    residual_df: float
    rounding: float  # the rounding error of a gap of 0: smaller gaps are set to 0

    @property
    def noise(self) -> FloatArray:
        """Variance of each gap about the narrative's true one, shape (N,), in squared points; NaN where unknown."""
        known = self.information > 0
        noise: FloatArray = np.where(known, self.residual_variance / np.where(known, self.information, 1.0), np.nan)
        return noise


def narrative_fits(cube: NarrativeCube) -> NarrativeFits:
    """Fit each narrative's valid ratings on their own; baselines must be left out of the cube.

    Notes
    -----
    Perceivers are swept out by their means, experiencers by the pseudo-inverse of the E × E products that remain, so
    that no matrix is larger than that; narratives with the same ratings missing share it. A complete narrative's gap is
    ⟨w, y⟩, to the last digit that of :func:`~audit.statistics.contrasts.contrast_by_narrative`.

    Residuals still hold what is peculiar to a pair of identities in all narratives alike. That is no noise, and would
    be taken for it: the mean residual of each pair over the n_c narratives that have it is taken off, and its degrees
    of freedom, Σ_c Σ_{i has c} (df_i/n_i)/n_c, with it. On complete ratings what is left is the double-centred residual
    mean square with (N − 1)((P − 1)(E − 1) − D) degrees of freedom, D the degrees of sharing. With missing ratings the
    residuals' variances are not quite equal within a narrative, so that the number is not quite exact.
    """
    y = cube.y
    if not cube.in_group.size:
        raise NotEstimableError("the ratings hold baselines only: no perceiver and experiencer have groups to compare")
    weights_of_cells = cube.cell_weights
    sums = Swept.of(y, cube.columns, weights_of_cells)
    n_experiencers = y.shape[2]
    pattern_of, first = patterns(sums.valid)
    inverse, rank = pseudo_inverse(sums.experiencers[first])
    inverse, rank = inverse[pattern_of], rank[pattern_of]
    slopes = inverse @ sums.experiencers_columns
    beyond = sums.columns_columns - sums.experiencers_columns.transpose(0, 2, 1) @ slopes
    owed = sums.columns_y - (slopes.transpose(0, 2, 1) @ sums.experiencers_y[:, :, None])[:, :, 0]
    inner, n_columns = pseudo_inverse(beyond)
    coefficients = (inner @ owed[:, :, None])[:, :, 0]
    lesser, _ = pseudo_inverse(beyond[:, :-1, :-1])
    cross = beyond[:, :-1, -1]
    information = beyond[:, -1, -1] - np.einsum("nd,ndk,nk->n", cross, lesser, cross)
    information[information < _NOTHING] = 0.0

    of_experiencer = (inverse @ sums.experiencers_y[:, :, None])[:, :, 0] - (slopes @ coefficients[:, :, None])[:, :, 0]
    rest = sums.y - of_experiencer[:, None, :] - np.einsum("nd,dpe->npe", coefficients, sums.columns)
    rest[~sums.valid] = 0.0
    counted = rest if weights_of_cells is None else rest * weights_of_cells
    rest -= (counted.sum(axis=2) / np.where(sums.n_each > 0, sums.n_each, 1.0))[:, :, None]
    rest[~sums.valid] = 0.0
    n_ratings = sums.valid.sum(axis=(1, 2)).astype(np.float64)
    df = n_ratings - (sums.n_each > 0).sum(axis=1) - rank - n_columns
    variance, total_df = _pooled(rest, sums.valid, df, n_ratings, largest=float(np.abs(y[sums.valid]).max(initial=0.0)))

    if weights_of_cells is not None:
        information = _as_equal(sums, weights_of_cells, slopes, lesser @ cross[:, :, None], information)
        # How ratings vary about their narrative's fit does not depend on the weights of cells.
        alike = narrative_fits(replace(cube, terms_alike=True))
        variance, total_df = alike.residual_variance, alike.residual_df
    gaps = np.where(information > 0, coefficients[:, -1], np.nan)
    largest = float(np.abs(sums.y).max(initial=0.0))
    least = float(information[information > 0].min(initial=np.inf))
    rounding = 8 * n_experiencers * EPSILON * largest * (sums.columns[0].size / least) ** 0.5
    complete = complete_narratives(cube)
    if complete.any():
        weights = in_group_weights(cube)
        contrasts, own_rounding = contrast_by_narrative(y, weights, used=complete)
        gaps[complete], information[complete] = contrasts[complete], 1 / float((weights**2).sum())
        rounding = own_rounding if complete.all() else max(rounding, own_rounding)
    gaps[np.abs(gaps) <= rounding] = 0.0
    return NarrativeFits(gaps, information, variance, total_df, rounding)


def _as_equal(
    sums: Swept, cell_weights: FloatArray, slopes: FloatArray, of_lesser: FloatArray, information: FloatArray
) -> FloatArray:
    """Return s if cells do not count alike: 1 / c'c, c the weights of the ratings in the coefficient.

    c = ω r / Σ ω r g, r what is left of the in-group column g after the others by least squares of weights ω.
    """
    in_group, lesser = sums.columns[-1], sums.columns[:-1]
    rest = np.broadcast_to(in_group, sums.valid.shape) - np.einsum("nd,dpe->npe", of_lesser[:, :, 0], lesser)
    beyond = slopes[:, :, -1] - np.einsum("ned,nd->ne", slopes[:, :, :-1], of_lesser[:, :, 0])
    rest = np.where(sums.valid, rest - beyond[:, None, :], 0.0)
    level = (rest * cell_weights).sum(axis=2) / np.where(sums.n_each > 0, sums.n_each, 1.0)
    rest = np.where(sums.valid, rest - level[:, :, None], 0.0)
    squares = ((rest * cell_weights) ** 2).sum(axis=(1, 2))
    equal: FloatArray = np.where(squares > 0, information**2 / np.where(squares > 0, squares, 1.0), 0.0)
    return equal


def designed_weights(cube: NarrativeCube) -> FloatArray:
    """Weights of each narrative's pairs in its gap, shape (N, P, E), if all ratings are there that were asked for.

    ⟨w_i, y_i⟩ is the in-group coefficient of narrative i; pairs that it was not to be asked about have weight 0. Where
    all pairs are asked, these are :func:`~audit.statistics.contrasts.in_group_weights`. NotEstimableError as there, or
    if a narrative's pairs do not determine its gap. The cube has no baselines.
    """
    expected = cube.expected
    if expected.all():
        return np.broadcast_to(in_group_weights(cube), expected.shape)
    in_group_weights(cube)  # raises if there are none
    pattern_of, first = patterns(expected)
    sums = Swept.of(np.where(expected[first], 0.0, np.nan), cube.columns)
    inverse, _ = pseudo_inverse(sums.experiencers)
    slopes = inverse @ sums.experiencers_columns
    beyond = sums.columns_columns - sums.experiencers_columns.transpose(0, 2, 1) @ slopes
    lesser, _ = pseudo_inverse(beyond[:, :-1, :-1])
    # in-group less its projection on the other columns, experiencers and perceivers
    parts = np.concatenate([-(lesser @ beyond[:, :-1, -1:])[:, :, 0], np.ones((len(first), 1))], axis=1)
    rest = np.einsum("nd,dpe->npe", parts, cube.columns) - (slopes @ parts[:, :, None])[:, None, :, 0]
    rest[~sums.valid] = 0.0
    rest -= (rest.sum(axis=2) / np.maximum(sums.n_each, 1))[:, :, None]
    rest[~sums.valid] = 0.0
    information = (rest**2).sum(axis=(1, 2))
    if (information < _NOTHING).any():
        raise NotEstimableError("the pairs that a narrative was asked about do not determine its gap")
    weights: FloatArray = (rest / information[:, None, None])[pattern_of]
    return weights


def design_information(cube: NarrativeCube) -> float:
    """Return s, what is left of a narrative's in-group column: 1/Σw², over narratives the harmonic mean.

    A narrative's gap has the variance τ² + σ²/s. Raises as :func:`designed_weights`.
    """
    if cube.expected.all():
        return 1 / float((in_group_weights(cube) ** 2).sum())
    return 1 / float((designed_weights(cube) ** 2).sum(axis=(1, 2)).mean())


def _pooled(
    rest: FloatArray, valid: BoolArray, df: FloatArray, n_ratings: FloatArray, *, largest: float
) -> tuple[float, float]:
    """Mean square of residuals less the mean of each pair, and its degrees of freedom."""
    n_of_pair = np.maximum(valid.sum(axis=0), 1)
    means = rest.sum(axis=0) / n_of_pair
    squares = float(np.vdot(rest, rest)) - float((n_of_pair * means**2).sum())
    share = df / np.maximum(n_ratings, 1)
    total = float(df.sum() - ((valid * share[:, None, None]).sum(axis=0) / n_of_pair).sum())
    if total < 0.5:
        return float("nan"), 0.0
    dust = float(n_ratings.sum()) * (16 * EPSILON * largest) ** 2
    return (squares / total if squares > dust else 0.0), total


def patterns(valid: BoolArray) -> tuple[IntArray, IntArray]:
    """Return each narrative's pattern of missing ratings, shape (N,), and the first narrative of each pattern."""
    packed = np.packbits(valid.reshape(len(valid), -1), axis=1)
    _, first, pattern_of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return pattern_of.ravel(), first


def pseudo_inverse(matrices: FloatArray) -> tuple[FloatArray, IntArray]:
    """Pseudo-inverses and ranks of symmetric matrices of products of 0/1 columns, shape (N, d, d)."""
    values, vectors = np.linalg.eigh(matrices)
    kept = values > _NOTHING
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return (vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1), kept.sum(axis=1)
