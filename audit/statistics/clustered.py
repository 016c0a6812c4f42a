"""Standard errors of least squares with errors clustered by narrative, for few or unequal narratives.

The usual sandwich is too small where a coefficient leans on few narratives, and its t has fewer degrees of freedom than
narratives less one. Bell and McCaffrey's correction, CR2, makes it right on average if errors are independent, and
gives the degrees of freedom.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from audit.statistics.ratings import FloatArray

_ALONE: Final = 1e-6
"""A leverage this near to 1 is 1: the narrative alone determines something, and its residuals say nothing about it."""

_WHOLE: Final = 500  # narratives up to which G is written out, as the numbers of published runs were


class Clustered(NamedTuple):
    """Standard errors and degrees of freedom, shapes (M,); NaN where the ratings do not show how narratives differ."""

    se: FloatArray
    df: FloatArray


def clustered(grams: FloatArray, scores: FloatArray, inverse: FloatArray, directions: FloatArray) -> Clustered:
    """Estimate the standard errors of linear combinations of least-squares coefficients by CR2.

    ``grams``, shape (N, p, p), are L_i = X_i'X_i of each narrative's rows, its own level swept out (of weighted least
    squares X_i'W_iX_i); ``scores``, shape (N, p), X_i'e_i (X_i'W_ie_i), e the residuals; ``inverse``, shape (p, p), is
    B = (Σ L_i)⁺; ``directions``, shape (M, p), are the a of the combinations a'β̂.

    Notes
    -----
    CR2 [1]_ takes (I − H_ii)^(−1/2) e_i for the residuals, H_ii = X_iBX_i'. Its variance of a'β̂ is Σ (q_i'X_i'e_i)²
    with q_i = B^½ (I − B^½L_iB^½)^(−½) B^½ a, so that nothing larger than p × p is needed. Under independent errors of
    one variance it is a quadratic form of the errors whose matrix has the eigenvalues of G, g_ij = δ_ij q_i'L_iq_i −
    (L_iq_i)'B(L_jq_j): its expectation is tr G and Satterthwaite's degrees of freedom [1]_ are (tr G)²/tr G² [2]_.
    Where a narrative alone determines something, tr G is less than the true a'Ba; the variance is then raised by their
    ratio, as if what cannot be seen were like the rest.

    References
    ----------
    .. [1] Bell and McCaffrey (2002), Survey Methodology 28(2), 169–181.
    .. [2] Pustejovsky and Tipton (2018), Journal of Business & Economic Statistics 36(4), 672–683.
    """
    values, vectors = np.linalg.eigh(inverse)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    half = directions @ root
    squares, traces, spread = (np.zeros(len(directions)) for _ in range(3))
    moved = np.empty((len(grams), *directions.shape))
    own = np.empty((len(grams), len(directions)))
    # Narratives in which the same ratings are missing have the same Gram matrix: most of them have it with all ratings.
    first: dict[bytes, tuple[int, FloatArray]] = {}
    for i, (gram, score) in enumerate(zip(grams, scores, strict=True)):
        key = gram.tobytes()
        if key in first:
            same, q = first[key]
            moved[i], own[i] = moved[same], own[same]
        else:
            leverage, axes = np.linalg.eigh(root @ gram @ root)
            seen = leverage < 1 - _ALONE
            raised = np.where(seen, 1 / np.sqrt(np.where(seen, 1 - leverage, 1.0)), 0.0)
            q = ((half @ axes) * raised) @ axes.T @ root
            moved[i] = q @ gram
            own[i] = (moved[i] * q).sum(axis=1)
            first[key] = i, q
        squares += (q @ score) ** 2
    for m in range(len(directions)):
        if len(grams) <= _WHOLE:
            g = -(moved[:, m] @ inverse @ moved[:, m].T)
            g[np.diag_indices_from(g)] += own[:, m]
            traces[m], spread[m] = np.trace(g), (g**2).sum()
        else:  # the same of a diagonal less a matrix of rank p, with nothing of N × N
            lost = ((moved[:, m] @ inverse) * moved[:, m]).sum(axis=1)
            inner = inverse @ (moved[:, m].T @ moved[:, m])
            traces[m] = (own[:, m] - lost).sum()
            spread[m] = (own[:, m] ** 2).sum() - 2 * own[:, m] @ lost + (inner * inner.T).sum()
    return summed_up(squares, expected=traces, spread=spread, truth=(half**2).sum(axis=1))


def summed_up(squares: FloatArray, *, expected: FloatArray, spread: FloatArray, truth: FloatArray) -> Clustered:
    """Turn sums of squares, shape (M,), into standard errors, corrected for what they are expected to be.

    ``expected`` and ``spread``, shape (M,), are tr G and tr G² of their quadratic forms; ``truth``, shape (M,), the
    true variances. All are over one variance of the errors.
    """
    known = expected > _ALONE * truth
    some = np.where(known, expected, 1.0)
    se = np.where(known, np.sqrt(squares * truth / some), np.nan)
    df = np.where(known, some**2 / np.where(known, spread, 1.0), np.nan)
    return Clustered(se, df)
