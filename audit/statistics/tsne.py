"""A map of the perceivers, as a picture: t-SNE of their rows of the published heatmap.

t-SNE places similar rows near each other and says nothing about how far apart others are. It claims nothing and tests
nothing; it is here because the study shows one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.ratings import FloatArray

FEWEST: Final = 6  # the fewest perceivers for a map: with fewer, any placing looks like a finding
_HIGHEST: Final = 30.0  # the library's own default, which needs 91 perceivers


def perplexity_of(n_perceivers: int) -> float:
    """Return the perplexity for that many perceivers: a third of their number less one, from 2 to 30.

    It must be smaller than their number. The value that the study took is not known to us.
    """
    return float(min(max((n_perceivers - 1) // 3, 2), _HIGHEST))


def map_perceivers(cells: pd.DataFrame, *, clusters: Mapping[str, str], seed: int) -> Iterator[dict[str, Any]]:
    """Place the perceivers of one run and dimension in the plane; rows of ``PERCEIVER_MAP``.

    ``x`` and ``y`` have no unit. A perceiver's row is its ``z`` by experiencer, of the identities and not of the
    baselines. NotEstimableError if there are fewer than ``FEWEST`` perceivers, fewer than two experiencers, a pair
    without a value, rows that are all equal, or no scikit-learn.

    Notes
    -----
    The exact t-SNE of [1]_ by scikit-learn, from the principal components, with the library's learning rate. z is the
    pair's mean rating on another origin and unit, which t-SNE is not moved by.

    References
    ----------
    .. [1] van der Maaten and Hinton (2008), Journal of Machine Learning Research 9, 2579–2605.
    """
    own = cells.loc[cells["in_group"].notna()]
    names = [str(name) for name in own["perceiver"].unique()]
    if len(names) < FEWEST:
        raise NotEstimableError(f"a map of perceivers takes {FEWEST} or more, and there are {len(names)}")
    rows = own.pivot(index="perceiver", columns="experiencer", values="z").loc[names].to_numpy(dtype=np.float64)
    if rows.shape[1] < 2:
        raise NotEstimableError("a map of perceivers takes two experiencers or more, and there is one")
    if not np.isfinite(rows).all():
        raise NotEstimableError(f"{int((~np.isfinite(rows)).sum())} of {rows.size} pairs have no published value")
    if not np.ptp(rows, axis=0).any():
        raise NotEstimableError("all perceivers have the same row")
    perplexity = perplexity_of(len(names))
    places = _embed(rows, perplexity=perplexity, seed=seed)
    group_of = dict(zip(own["perceiver"].astype(str), own["perceiver_group"].astype(str), strict=True))
    for name, (x, y) in zip(names, places.tolist(), strict=True):
        yield {
            "perceiver": name,
            "perceiver_group": group_of[name],
            "cluster": clusters.get(group_of[name], ""),
            "x": x,
            "y": y,
            "perplexity": perplexity,
            "seed": seed,
        }


def _embed(rows: FloatArray, *, perplexity: float, seed: int) -> FloatArray:
    try:
        # Imported here: it takes a second, and only this needs it.
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise NotEstimableError(
            "scikit-learn is not installed, which it is made by: pip install 'empathy-audit[tsne]'"
        ) from error
    embedding = TSNE(perplexity=perplexity, init="pca", method="exact", random_state=seed)
    return np.asarray(embedding.fit_transform(rows), dtype=np.float64)
