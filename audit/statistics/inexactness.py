"""How far a gap could be off because its ratings are known within bounds: the worst case, of all ratings at once.

A rating that was read from probabilities carries how far it could be from the one reported. A gap is a weighted sum of
ratings, so it could be off by the sum of these distances, each times the size of its weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns, in_group_weights
from audit.statistics.estimates import GapEstimate
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.shared import OVERALL

_ENDS = ("bound_low", "bound_high")


def gap_off(cube: NarrativeCube, estimate: GapEstimate) -> float:
    """Return how far a gap could be off because its ratings are known within bounds, in points; NaN without bounds.

    Baselines are left out.

    Notes
    -----
    The gap of a narrative is d_i = Σ w_ipe y_ipe, with the weights of least squares on the ratings that it has. With
    h_ipe the half-width of a rating, d_i lies within Σ |w_ipe| h_ipe, and δ = Σ ω_i d_i within Σ ω_i Σ |w_ipe| h_ipe,
    the ω_i held. Where no narrative has a gap of its own, the weights of complete narratives stand for those of the
    mixed model.
    """
    compared = cube.without_baselines()
    if compared.off is None:
        return float("nan")
    known = compared.off[~np.isnan(compared.off)]
    if not known.size:
        return float("nan")
    if not known.any():
        return 0.0
    shares = estimate.weights if estimate.weights.size == len(compared.y) else np.zeros(0)
    by_narrative = _by_narrative(compared)
    used = ~np.isnan(by_narrative)
    if not shares.size or not used.any():
        full = attempt(lambda: in_group_weights(compared))
        return float("nan") if isinstance(full, NotEstimableError) else float(known.max() * np.abs(full).sum())
    return float(shares[used] @ by_narrative[used])


def bounded_rows(
    rows: Sequence[Mapping[str, Any]], cube: NarrativeCube, gap: GapEstimate | NotEstimableError
) -> Iterator[dict[str, Any]]:
    """Add to rows of ``GAP`` of one dimension and variant the ends between which the gap lies."""
    off = float("nan") if isinstance(gap, NotEstimableError) else gap_off(cube, gap)
    for row in rows:
        yield _with_ends(row, float("nan") if row["estimator"] == "published" else off)


def bounded_overall(overall: Sequence[Mapping[str, Any]], gap: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add the same ends to rows of the mean over single dimensions, from the rows of those dimensions."""
    for row in overall:
        own = [
            each["bound_high"] - each["delta"]
            for each in gap
            if each["variant"] == row["variant"]
            and each["scope"] == row["scope"]
            and each["headline"]
            and "+" not in each["dimension"]
            and each["dimension"] != OVERALL
        ]
        yield _with_ends(row, float(np.mean(own)) if own else float("nan"))


def _with_ends(row: Mapping[str, Any], off: float) -> dict[str, Any]:
    ends = (row["delta"] - off, row["delta"] + off)
    return {**row, **dict(zip(_ENDS, ends, strict=True))}


def _by_narrative(cube: NarrativeCube) -> FloatArray:
    """Return how far each narrative's own gap could be off, shape (N,); NaN where its ratings tell none."""
    assert cube.off is not None
    flat = np.nan_to_num(cube.off).reshape(len(cube.y), -1)
    valid = ~np.isnan(cube.y).reshape(flat.shape)
    found = np.full(len(flat), np.nan)
    patterns, which = np.unique(valid, axis=0, return_inverse=True)
    for place, pattern in enumerate(patterns):
        weights = _own_weights(cube, pattern)
        if weights is not None:
            own = which.reshape(-1) == place
            found[own] = flat[own] @ np.abs(weights)
    return found


def _own_weights(cube: NarrativeCube, rated: BoolArray) -> FloatArray | None:
    """Return the weights of a narrative's ratings, shape (P · E,), in its own gap; None if they determine none."""
    target = cube.in_group.ravel().astype(np.float64)
    beside, perceivers, experiencers = effect_columns(cube.columns)
    design = np.hstack([target[:, None], beside, perceivers, experiencers]) * rated[:, None]
    inverse = np.linalg.pinv(design.T @ design, rcond=1e-10, hermitian=True)
    weights: FloatArray = design @ inverse[0]
    return weights if np.allclose(weights @ design, np.eye(1, design.shape[1])[0], rtol=0, atol=1e-6) else None
