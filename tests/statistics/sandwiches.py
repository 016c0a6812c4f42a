"""Bell and McCaffrey's clustered standard error, written out on explicit matrices, for the tests of statistics."""

from __future__ import annotations

import numpy as np


def bell_mccaffrey(x, y, cluster, direction):
    """Standard error and Satterthwaite's df of direction'β̂ of least squares of y on x, CR2 by cluster.

    The definition itself: residuals of each cluster times (I − H_ii)^(−1/2), by the eigenvalues that are not 0; the df
    of the quadratic form of independent errors, whose matrix is Σ p_i p_i'.
    """
    bread = np.linalg.pinv(x.T @ x)
    maker = np.eye(len(y)) - x @ bread @ x.T
    residuals = maker @ y
    total, forms = 0.0, []
    for name in np.unique(cluster):
        own = np.flatnonzero(cluster == name)
        values, vectors = np.linalg.eigh(maker[np.ix_(own, own)])
        root = vectors @ np.diag([value**-0.5 if value > 1e-7 else 0.0 for value in values]) @ vectors.T
        weights = direction @ bread @ x[own].T @ root
        total += float(weights @ residuals[own]) ** 2
        forms.append(weights @ maker[own])
    gram = np.array(forms) @ np.array(forms).T
    return total**0.5, float(np.trace(gram) ** 2 / (gram**2).sum())
