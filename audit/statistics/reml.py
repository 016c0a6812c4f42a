"""The REML likelihood of ratings in which narratives differ, reduced to what it needs and maximised.

Within a narrative the covariance is σ²(I + Z Δ Z'), with Z = [1, g] and g = 1 for in-group pairs. Its inverse needs
only Z'Z, which is the number of ratings and the number of in-group ones among them. Narratives that agree in both are
pooled: an evaluation costs the same for 50 narratives and for 6,050, and nothing is approximated, whatever is missing.

References
----------
Bates, Mächler, Bolker and Walker (2015), Journal of Statistical Software 67(1), section 3: the profiled criterion.
Henderson (1975), Biometrics 31, 423–447: the mixed model equations. Satterthwaite (1946), Biometrics Bulletin
2, 110–114.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from audit.errors import NotEstimableError
from audit.statistics.ratings import BoolArray, FloatArray

Places = npt.NDArray[np.intp]

_STARTS: Final = ((1.0, 0.0, 1.0), (0.2, 0.0, 0.2), (1.0, 0.5, 3.0), (1.0, -0.7, 0.1))
"""Factors (l11, l21, l22) of Δ that the search starts from, times rough guesses, until it ends in an optimum."""
_NEWTON: Final = 40  # the most Newton steps; three or four are taken once BFGS has come close
_DECREASE: Final = 1e-6  # a point is an optimum if no step, to second order, lowers −2 log REML by more than this


@dataclass(frozen=True, eq=False)
class Solution:
    """The likelihood at one Θ = (l11, l21, l22 of Δ's Cholesky factor; SDs of random columns over σ)."""

    criterion: float  # −2 log REML
    gradient: FloatArray  # shape of Θ; one longer, by log σ², if that was given
    residual_variance: float  # σ²
    coefficients: FloatArray  # shape (p,), of the columns
    covariance: FloatArray  # shape (p, p), over σ²
    by_delta: FloatArray  # shape (2, 2), the criterion's derivative by Δ
    # Shape (L, 2, 2): of each class of narratives, the matrix that takes Z'e to the narrative's fitted deviation.
    deviations: FloatArray


@dataclass(frozen=True, eq=False)
class Reml:
    """Ratings reduced to what the likelihood needs."""

    columns: FloatArray  # shape (C, p), the design of a narrative's C cells
    blocks: tuple[slice, ...]  # columns whose coefficients are random, with one variance each; they come last
    classes: FloatArray  # shape (L, 2): numbers of ratings and of in-group ratings
    n_each: FloatArray  # shape (L,): how many narratives have them
    class_of: Places  # shape (N,), each narrative's class; −1 without a rating
    with_one: FloatArray  # shape (N, p + 1): W'1 of each narrative, W = [columns, y]
    with_g: FloatArray  # shape (N, p + 1): W'g
    gram: FloatArray  # shape (p + 1, p + 1), W'W
    # Shape (3, L, (p + 1)²): sums over a class's narratives of the outer products 1·1, 1·g, g·g of the former.
    outer: FloatArray
    n_ratings: int

    @classmethod
    def of(cls, y: FloatArray, *, in_group: BoolArray, columns: FloatArray, blocks: tuple[slice, ...] = ()) -> Self:
        """Reduce ratings, shape (N, C), NaN where missing; centre them first, for the sake of the last digits."""
        valid = ~np.isnan(y)
        filled, weights = np.where(valid, y, 0.0), valid.astype(np.float64)
        inside = np.flatnonzero(in_group)
        with_one = np.column_stack([weights @ columns, filled.sum(axis=1)])
        with_g = np.column_stack([weights[:, inside] @ columns[inside], filled[:, inside].sum(axis=1)])
        counts = np.stack([weights.sum(axis=1), weights[:, inside].sum(axis=1)], axis=1)
        rated = np.flatnonzero(counts[:, 0])
        classes, class_of_rated, n_each = np.unique(counts[rated], axis=0, return_inverse=True, return_counts=True)
        class_of = np.full(len(y), -1)
        class_of[rated] = class_of_rated.ravel()
        width = columns.shape[1] + 1
        gram = np.empty((width, width))
        gram[:-1, :-1] = (columns * weights.sum(axis=0)[:, None]).T @ columns
        gram[-1, :-1] = gram[:-1, -1] = columns.T @ filled.sum(axis=0)
        gram[-1, -1] = float(np.vdot(filled, filled))
        outer = np.empty((3, len(classes), width, width))
        for place in range(len(classes)):
            chosen = np.flatnonzero(class_of == place) if len(classes) > 1 else rated
            one, g = with_one[chosen], with_g[chosen]
            cross = one.T @ g
            outer[0, place], outer[1, place], outer[2, place] = one.T @ one, (cross + cross.T) / 2, g.T @ g
        return cls(
            columns=columns,
            blocks=blocks,
            classes=classes,
            n_each=n_each.astype(np.float64),
            class_of=class_of,
            with_one=with_one,
            with_g=with_g,
            gram=gram,
            outer=outer.reshape(3, len(classes), -1),
            n_ratings=int(weights.sum()),
        )

    @property
    def n_fixed(self) -> int:
        """Number of columns whose coefficients are fixed."""
        n_random: int = sum(block.stop - block.start for block in self.blocks)
        return int(self.columns.shape[1]) - n_random

    def within(self) -> tuple[float, int]:
        """Return the residual sum of squares and degrees of freedom under fixed effects of narratives."""
        n, m = self.classes.T
        both = (m > 0) & (m < n)
        rest = np.where(both, n - m, 1.0)
        first = np.where(both, 1 / rest, np.where(m == n, 0.0, 1 / n))
        second = np.where(both, n / (np.where(both, m, 1.0) * rest), np.where(m == n, 1 / n, 0.0))
        system = self._absorb(first, np.where(both, -1 / rest, 0.0), second)
        values, vectors = np.linalg.eigh(system[:-1, :-1])
        kept = values > 1e-9 * max(float(np.abs(values).max()), 1e-300)
        explained = (vectors[:, kept].T @ system[:-1, -1]) ** 2 / values[kept]
        used = int((self.n_each * (1 + both)).sum()) + int(kept.sum())
        return float(system[-1, -1] - explained.sum()), self.n_ratings - used

    def _absorb(self, first: FloatArray, cross: FloatArray, second: FloatArray) -> FloatArray:
        """W'V⁻¹W: the Gram matrix less the classes' outer products, weighted by M, shapes (L,)."""
        weighted = first @ self.outer[0] + 2 * (cross @ self.outer[1]) + second @ self.outer[2]
        absorbed: FloatArray = self.gram - weighted.reshape(self.gram.shape)
        return absorbed

    def solve(self, theta: FloatArray, *, log_variance: float | None = None) -> Solution:
        """Evaluate −2 log REML and its exact gradient at Θ, profiled over σ² unless its logarithm is given.

        LinAlgError if rounding leaves nothing to evaluate there; the search must expect it.
        """
        factor = _factor(theta)
        n, m = self.classes.T
        gram = _symmetric(n, m, m)  # Z'Z
        inner = np.eye(2) + factor.T @ gram @ factor
        determinant = inner[:, 0, 0] * inner[:, 1, 1] - inner[:, 0, 1] ** 2
        adjugate = _symmetric(inner[:, 1, 1], -inner[:, 0, 1], inner[:, 0, 0])
        absorbed = factor @ (adjugate / determinant[:, None, None]) @ factor.T  # M = (Δ⁻¹ + Z'Z)⁻¹
        system = self._absorb(absorbed[:, 0, 0], absorbed[:, 0, 1], absorbed[:, 1, 1])

        scales, ridge = np.ones(self.columns.shape[1]), np.zeros(self.columns.shape[1])
        for block, scale in zip(self.blocks, theta[3:], strict=True):
            scales[block], ridge[block] = scale, 1.0
        lower = linalg.cholesky(scales[:, None] * system[:-1, :-1] * scales + np.diag(ridge), lower=True)
        right = scales * system[:-1, -1]
        b = linalg.cho_solve((lower, True), right)
        inverse = linalg.cho_solve((lower, True), np.eye(scales.size))
        rest = float(system[-1, -1] - right @ b)
        if rest <= 0:
            raise linalg.LinAlgError("what the model leaves of the ratings is too small to compute with")
        free = self.n_ratings - self.n_fixed
        variance = rest / free if log_variance is None else float(np.exp(log_variance))
        criterion = (
            free * np.log(2 * np.pi * variance)
            + rest / variance
            + float(self.n_each @ np.log(determinant))
            + 2 * float(np.log(np.diag(lower)).sum())
        )

        # By Δ: the narratives' determinant grows, the coefficients' and the residual fall.
        h = np.eye(2) - gram @ absorbed  # (I + Z'Z Δ)⁻¹
        covariance = scales[:, None] * inverse * scales
        fit = np.append(-scales * b, 1.0)
        owed = np.outer(fit, fit) / variance
        owed[:-1, :-1] += covariance
        by_delta = self.n_each[:, None, None] * (h @ gram) - h @ _symmetric(*(self.outer @ owed.ravel())) @ h.mT
        total = by_delta.sum(axis=0)
        by_factor = 2 * total @ factor
        gradient = [by_factor[0, 0], by_factor[1, 0], by_factor[1, 1]]
        if self.blocks:
            spread = (inverse * (scales[:, None] * system[:-1, :-1])).sum(axis=0)
            misfit = b * (system[:-1, -1] - system[:-1, :-1] @ (scales * b))
            gradient += [2 * float((spread - misfit / variance)[block].sum()) for block in self.blocks]
        if log_variance is not None:
            gradient.append(free - rest / variance)
        return Solution(criterion, np.array(gradient), variance, scales * b, covariance, total, absorbed)

    def maximise(self) -> tuple[FloatArray, bool]:
        """Find the Θ of the least criterion, and say whether it was confirmed to be an optimum.

        NotEstimableError if the criterion cannot be evaluated wherever the search leads.

        Notes
        -----
        BFGS and Newton steps lead to an optimum; then Θ is moved to the boundary wherever that costs nothing, and
        the steps repeated there. It is confirmed if the Hessian predicts no lower criterion and, where Δ or a
        variance is at the boundary, no direction away from it leads lower either. Else another start is tried.
        """
        intercept, slope, *others = self._guess()
        best: tuple[float, FloatArray] | None = None
        for l11, l21, l22 in _STARTS:
            try:
                theta = self._descend(np.array([l11 * intercept, l21 * slope, l22 * slope, *others]))
                criterion = self.solve(theta).criterion
                if best is None or criterion < best[0]:
                    best = criterion, theta
                if self._is_optimum(best[1]):
                    return best[1], True
            except linalg.LinAlgError:  # from this start the search leaves the range of floating point
                continue
        if best is None:
            raise NotEstimableError(
                "the mixed model cannot be computed: the ratings have next to no noise beside what is fitted"
            )
        return best[1], False

    def _guess(self) -> list[float]:
        """Guess standard deviations over σ, from means alone: narratives' levels, their gaps, each random block."""
        rest, df = self.within()
        variance = rest / df
        n, m = self.classes[self.class_of[self.class_of >= 0]].T
        total, inside = (sums[self.class_of >= 0, -1] for sums in (self.with_one, self.with_g))
        both = (m > 0) & (m < n)
        gaps = inside[both] / m[both] - (total - inside)[both] / (n - m)[both]
        noise = variance * float((1 / m[both] + 1 / (n - m)[both]).mean())
        levels = [np.var(total / n), np.var(gaps) - noise]
        for block in self.blocks:
            sizes = np.diag(self.gram)[:-1][block]
            levels.append(np.var(self.gram[-1, :-1][block] / sizes))
        return [float(np.sqrt(max(level / variance, 1e-2))) for level in levels]

    def _descend(self, start: FloatArray) -> FloatArray:
        def evaluate(theta: FloatArray) -> tuple[float, FloatArray]:
            here = self.solve(theta)
            return here.criterion, here.gradient

        found = optimize.minimize(evaluate, start, jac=True, method="BFGS", options={"gtol": 1e-5, "maxiter": 500})
        theta = self._polish(np.asarray(found.x, dtype=np.float64))
        theta[:2] *= -1 if theta[0] < 0 else 1
        theta[2:] = np.abs(theta[2:])
        for place in (2, 0, *range(3, theta.size)):
            at_boundary = theta.copy()
            at_boundary[place] = 0.0
            if place == 0:  # without an intercept variance there is no covariance
                at_boundary[1:3] = 0.0, np.hypot(theta[1], theta[2])
            cost = self.solve(at_boundary).criterion - self.solve(theta).criterion
            if theta[place] > 0 and cost <= _DECREASE / 10:
                theta = self._polish(at_boundary)
        return theta

    def _polish(self, theta: FloatArray) -> FloatArray:
        """Take Newton's steps, each shortened until it descends, on the face of the boundary that Θ is on."""
        places = _free(theta)
        for _ in range(_NEWTON if places.size else 0):
            here = self.solve(theta)
            gradient = here.gradient[places]
            values, vectors = np.linalg.eigh(self._hessian(theta, places))
            curvature = np.maximum(np.abs(values), 1e-10 * max(float(np.abs(values).max()), 1e-300))
            step = vectors @ (vectors.T @ gradient / curvature)
            if gradient @ step < 1e-13:
                break
            for shorter in 0.5 ** np.arange(30):
                moved = theta.copy()
                moved[places] -= shorter * step
                with contextlib.suppress(linalg.LinAlgError):
                    if self.solve(moved).criterion < here.criterion:
                        theta = moved
                        break
            else:
                break
        return theta

    def _hessian(self, theta: FloatArray, places: Places) -> FloatArray:
        hessian = _differentiate(lambda at: self.solve(at).gradient[places], theta, places)
        symmetric: FloatArray = (hessian + hessian.T) / 2
        return symmetric

    def _is_optimum(self, theta: FloatArray) -> bool:
        here, places = self.solve(theta), _free(theta)
        if places.size:
            hessian, gradient = self._hessian(theta, places), here.gradient[places]
            if np.linalg.eigvalsh(hessian)[0] <= 0 or gradient @ np.linalg.solve(hessian, gradient) > 2 * _DECREASE:
                return False
        values, vectors = np.linalg.eigh(_factor(theta) @ _factor(theta).T)
        null = vectors[:, values <= 1e-12 * max(float(values[-1]), 1e-12)]
        inwards = np.linalg.eigvalsh(null.T @ here.by_delta @ null)
        if inwards.size and inwards[0] / float((self.n_each @ self.classes).max()) < -_DECREASE:
            return False
        for place in np.flatnonzero(theta[3:] == 0) + 3:
            near = theta.copy()
            near[place] = 1e-2 / np.sqrt(self.n_ratings)
            if self.solve(near).criterion < here.criterion - _DECREASE:
                return False
        return True

    def satterthwaite(self, theta: FloatArray, column: int) -> float:
        """Degrees of freedom of a coefficient's variance as that of a scaled χ²; infinite where it is known exactly.

        Notes
        -----
        df = 2 V² / (∇V' A ∇V), V the variance as a function of the free parameters and A their asymptotic covariance,
        twice the inverse Hessian of −2 log REML; parameters at the boundary are held.
        """
        full = np.append(theta, np.log(self.solve(theta).residual_variance))
        places = np.append(_free(theta), theta.size)

        def log_variance(at: FloatArray) -> FloatArray:
            here = self.solve(at[:-1], log_variance=float(at[-1]))
            return np.array([at[-1] + np.log(here.covariance[column, column])])

        try:
            gradient = _differentiate(log_variance, full, places)[:, 0]
            hessian = _differentiate(
                lambda at: self.solve(at[:-1], log_variance=float(at[-1])).gradient[places], full, places
            )
        except linalg.LinAlgError:  # so little noise that a step aside leaves the range of floating point
            return float("inf")
        spread = float(gradient @ np.linalg.pinv((hessian + hessian.T) / 2) @ gradient)
        return 1 / spread if spread > 0 else float("inf")


def _factor(theta: FloatArray) -> FloatArray:
    return np.array([[theta[0], 0.0], [theta[1], theta[2]]])


def _symmetric(first: FloatArray, cross: FloatArray, second: FloatArray) -> FloatArray:
    """Stack 2 × 2 matrices, shape (L, 2, 2)."""
    return np.stack([np.stack([first, cross], axis=-1), np.stack([cross, second], axis=-1)], axis=-2)


def _free(theta: FloatArray) -> Places:
    """Places of Θ that may move: none at the boundary, nor the covariance with an intercept variance of 0."""
    free = theta != 0
    free[1] = theta[0] != 0
    return np.flatnonzero(free)


def _differentiate(function: Callable[[FloatArray], FloatArray], at: FloatArray, places: Places) -> FloatArray:
    """Take derivatives by central differences, one row for each of the places."""
    rows = []
    for place in places:
        width = 1e-5 * max(abs(float(at[place])), 1e-2)
        above, below = at.copy(), at.copy()
        above[place] += width
        below[place] -= width
        rows.append((function(above) - function(below)) / (2 * width))
    return np.array(rows)
