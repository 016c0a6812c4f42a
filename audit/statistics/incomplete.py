"""Estimates from incomplete narratives: contrasts of pairs that few narratives have whole, and the plain mean of gaps.

A contrast that needs many pairs finds hardly a narrative complete in all of them: of 441 pairs with 5% missing, none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from audit.statistics.cells import NarrativeCube
from audit.statistics.clustered import Clustered, clustered, summed_up
from audit.statistics.estimates import GapEstimate, summarise_contrasts, with_spread
from audit.statistics.headline import headline_gap
from audit.statistics.ratings import BoolArray, FloatArray, IntArray

_EXACT: Final = 1.5e9  # narratives times cubed pairs up to which CR2 is computed in full, in some seconds
_EXACT_NARRATIVES: Final = 500  # narratives up to which CR2 is computed in full: their matrix G grows with the square


@dataclass(frozen=True, eq=False)
class CellContrasts:
    """M contrasts of the effects of pairs, shape (M,) each."""

    delta: FloatArray  # in points; NaN where the ratings do not determine the contrast
    se: FloatArray  # clustered by narrative, in points
    df: FloatArray
    # Shape (M, N), in points: each contrast plus N times the narrative's part in it, so that their mean is the
    # contrast; NaN where a narrative has fewer than two ratings, and throughout where the ratings do not determine the
    # contrast.
    by_narrative: FloatArray
    n_informative: IntArray  # narratives with a rating in a pair that has a weight

    def estimate(self, place: int, *, rounding: float, confidence: float, n_answers: int) -> GapEstimate:
        """Return one contrast as an estimate; ``rounding`` as for :func:`summarise_contrasts`."""
        pooled = summarise_contrasts(
            self.by_narrative[place], rounding=rounding, confidence=confidence, n_answers=n_answers
        )
        delta = float(self.delta[place])
        n = int(self.n_informative[place])
        return with_spread(
            replace(pooled, delta=0.0 if abs(delta) <= rounding else delta, n_narratives=n),
            se=float(self.se[place]),
            df=float(self.df[place]),
            n_informative=n,
            confidence=confidence,
        )


def cell_contrasts(y: FloatArray, weights: FloatArray, levels: IntArray | None = None) -> CellContrasts:
    """Estimate contrasts of the effects of pairs by least squares on effects of narratives and of all pairs.

    ``y`` has shape (N, C), in points, NaN where missing; ``weights`` has shape (M, C), and each row sums to 0. With
    ``levels``, shape (C,), whole numbers from 0, each narrative has a level of its own for the pairs of each number,
    such as those of one perceiver; each row of weights then sums to 0 over each of them.

    Notes
    -----
    The model is y_ic = α_i + μ_c + ε_ic, the contrast ⟨w, μ̂⟩. With o_i the 0/1 vector of narrative i's ratings and n_i
    their number, μ̂ solves M μ = Σ_i o_i (y_i − ȳ_i), M = Σ_i L_i, L_i = diag(o_i) − o_i o_i'/n_i. Narrative i's part in
    it is ψ_i = w' M⁺ o_i (e_i − ē_i), e the residuals. On complete ratings N ψ_i plus the contrast is ⟨w, y_i⟩, the
    plain contrast, and the standard error and its N − 1 degrees of freedom are those of the plain t-test. The level of
    a narrative is taken out; should ratings be missing more often where its *gap* is large, the estimate is biased
    towards the gap of the others.

    Standard errors are CR2 with Satterthwaite's degrees of freedom, see
    :func:`~audit.statistics.clustered.clustered`. Of more than 500 narratives, or of so many pairs that N·C³ exceeds
    1.5·10⁹, the same with the leverage 1/n_c of a pair's n_c ratings in place of the exact one: with h = w'M⁺ and
    β_c = h_c √(n_c/(n_c − 1)), the sum is of (Σ_c β_c e_ic)², g_ij = δ_ij [Σ_c β_c² o_ic − (Σ_c β_c o_ic)²/n_i] − Σ_c
    β_c² o_ic o_jc / n_c. On complete ratings both are the plain t-test.

    With ``levels`` the model is y_ic = α_il + μ_c + ε_ic, l the level of pair c: L_i, n_i and the means over a
    narrative's ratings are then of the ratings of one level.
    """
    inverse, effects, residuals = _two_way(y, levels)
    valid = ~np.isnan(y)
    n_each = _in_level(valid, levels)
    o = np.where(n_each > 1, valid, False).astype(np.float64)
    used = o.any(axis=1)
    solved = weights @ inverse  # h = w' M⁺
    contrasts = weights @ effects
    together = _together(y.shape[1], levels)
    system = np.diag(o.sum(axis=0)) - ((o / np.maximum(n_each, 1)).T @ o) * together
    reach = np.abs(weights).sum(axis=1, keepdims=True)
    estimable = np.asarray((np.abs(solved @ system - weights) <= 1e-7 * reach).all(axis=1))
    by_narrative = np.where(used, contrasts[:, None] + np.count_nonzero(used) * (solved @ residuals.T), np.nan)
    n_informative = ((weights != 0).astype(np.float32) @ o.T.astype(np.float32) > 0).sum(axis=1)
    n, n_cells = int(np.count_nonzero(used)), y.shape[1]
    if n <= _EXACT_NARRATIVES and n * n_cells**3 <= _EXACT:
        grams = -o[used][:, :, None] * (o[used] / np.maximum(n_each[used], 1))[:, None]
        if levels is not None:
            grams *= together
        grams[:, np.arange(n_cells), np.arange(n_cells)] += o[used]
        spread = clustered(grams, residuals[used], inverse, weights)
    else:
        spread = _by_pairs(o, residuals, solved, levels, truth=(solved * weights).sum(axis=1))
    for values in (contrasts, by_narrative, *spread):
        values[~estimable] = np.nan
    return CellContrasts(contrasts, spread.se, spread.df, by_narrative, n_informative)


def rating_weights(valid: BoolArray, weights: FloatArray, levels: IntArray | None = None) -> FloatArray:
    """Weights of the ratings themselves, shape (N, C), in a contrast of :func:`cell_contrasts`.

    With h = w'M⁺ the rating of narrative i in pair c has h_c − Σ_c' h_c' o_ic'/n_i, and 0 where there is none.
    ``valid`` has shape (N, C); ``weights`` has shape (C,) and sums to 0; ``levels`` is as there.
    """
    inverse, _, _ = _two_way(np.where(valid, 0.0, np.nan), levels)
    solved = weights @ inverse
    there = np.where(valid, solved, 0.0)
    n_each = _in_level(valid, levels)
    centred = there - _in_level(there, levels) / np.maximum(n_each, 1)
    found: FloatArray = np.where(valid & (n_each > 1), centred, 0.0)
    return found


def _in_level(values: npt.NDArray[Any], levels: IntArray | None) -> npt.NDArray[Any]:
    """Sum up a narrative's values, shape (N, C), over the pairs of one level: shape (N, 1), or (N, C) with levels."""
    if levels is None:
        return np.asarray(values.sum(axis=1, keepdims=True))
    sums = np.stack([values[:, levels == level].sum(axis=1) for level in range(int(levels.max()) + 1)], axis=1)
    return np.asarray(sums[:, levels])


def _together(n_cells: int, levels: IntArray | None) -> FloatArray:
    """Mark the pairs that share a level, shape (C, C)."""
    if levels is None:
        return np.ones((n_cells, n_cells))
    together: FloatArray = (levels[:, None] == levels).astype(np.float64)
    return together


def _by_pairs(
    o: FloatArray, residuals: FloatArray, solved: FloatArray, levels: IntArray | None, *, truth: FloatArray
) -> Clustered:
    """CR2 with the leverage of a rating among those of its pair."""
    n_each = o.sum(axis=0)
    several = n_each > 1
    beta = solved * np.sqrt(np.where(several, n_each / np.where(several, n_each - 1, 1.0), 0.0))
    squares = ((residuals @ beta.T) ** 2).sum(axis=0)
    own = beta**2
    shared = own / np.maximum(n_each, 1)
    of_narrative = o @ own.T
    for level in range(1 if levels is None else int(levels.max()) + 1):
        inside = slice(None) if levels is None else levels == level
        part = o[:, inside]
        of_narrative -= (part @ beta[:, inside].T) ** 2 / np.maximum(part.sum(axis=1), 1)[:, None]
    lost = o @ shared.T
    together = (o.T @ o) ** 2
    spread = (of_narrative**2 - 2 * of_narrative * lost).sum(axis=0) + ((shared @ together) * shared).sum(axis=1)
    return summed_up(squares, expected=(of_narrative - lost).sum(axis=0), spread=spread, truth=truth)


class _TwoWay(NamedTuple):
    """Least squares on effects of narratives and of cells: M⁺, the cells' effects, and residuals, 0 where missing."""

    inverse: FloatArray
    effects: FloatArray
    residuals: FloatArray


def _two_way(y: FloatArray, levels: IntArray | None = None) -> _TwoWay:
    """Fit ratings, shape (N, C), NaN where missing; narratives with one rating say nothing and have residuals of 0."""
    valid = ~np.isnan(y)
    n = _in_level(valid, levels)
    informative: BoolArray = n > 1
    share = np.where(informative, 1 / np.maximum(n, 1), 0.0)
    centre = float(y[valid].mean()) if valid.any() else 0.0
    o = (valid & informative).astype(np.float64)
    filled = np.where(o > 0, y - centre, 0.0)
    system = np.diag(o.sum(axis=0)) - ((o * share).T @ o) * _together(y.shape[1], levels)
    values, vectors = np.linalg.eigh(system)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    basis = vectors[:, kept]
    inverse: FloatArray = (basis / values[kept]) @ basis.T
    effects = inverse @ (filled - o * (_in_level(filled, levels) * share)).sum(axis=0)
    residuals = np.where(o > 0, filled - effects, 0.0)
    residuals -= o * (_in_level(residuals, levels) * share)
    return _TwoWay(inverse, effects, residuals)


def cell_means(y: FloatArray) -> FloatArray:
    """Return the means of cells, shape (C,), free of the levels of the narratives that they have.

    They are the effects of cells beside those of narratives, by least squares, about the mean of all ratings; NaN where
    a cell has no rating, and the plain means if ratings are complete. ``y`` has shape (N, C), NaN where missing.
    """
    valid = ~np.isnan(y)
    known = valid.any(axis=0)
    means = np.full(y.shape[1], np.nan)
    if valid.all():
        return np.asarray(y.mean(axis=0), dtype=np.float64)
    if not known.any():
        return means
    _, effects, _ = _two_way(y)
    n_each = valid.sum(axis=0)
    means[known] = effects[known] + float(y[valid].mean() - n_each @ effects / n_each.sum())
    return means


def equal_weight_gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ as the plain mean of the narratives' own gaps, whatever number of ratings each has.

    The headline gives narratives with many missing ratings less weight. Where ratings are missing because of a
    narrative's gap, that biases it towards the gap of the others. This estimate is not biased, as long as every
    narrative keeps the ratings that tell its gap; it pays with a larger standard error. On complete ratings the two are
    one. Baselines are left out.
    """
    headline = headline_gap(cube, confidence=confidence)
    return summarise_contrasts(
        headline.by_narrative, rounding=headline.rounding, confidence=confidence, n_answers=headline.n_answers
    )
