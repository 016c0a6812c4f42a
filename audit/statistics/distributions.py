"""The distributions behind the means: ratings by emotion and by narrative, and histograms of ratings and shuffles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.ratings import STATUSES, BoolArray, FloatArray, divide
from audit.statistics.status_counts import END_TOLERANCE

_BINS: Final = 40  # bins between the ends of the scale, and of the shuffles
_MOST_BINS: Final = 100


def cell_emotion_rows(cube: NarrativeCube) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``CELL_EMOTIONS``, one for each pair and emotion that was asked; none without emotions."""
    emotions = [emotion for emotion in dict.fromkeys(cube.emotions) if emotion]
    of_narrative = np.array(cube.emotions, dtype=object)
    tables = []
    for emotion in emotions:
        part = cube.of_narratives(of_narrative == emotion)
        counts = np.moveaxis(part.n_by_status.sum(axis=0, dtype=np.int64), -1, 0)
        n_rated = np.count_nonzero(part.status == 0, axis=0)
        mean = divide(np.nansum(part.y, axis=0), n_rated)
        squares = np.nansum((part.y - mean) ** 2, axis=0)
        tables.append((emotion, counts, mean, np.sqrt(divide(squares, n_rated - 1))))
    for p, e in np.argwhere(cube.asked).tolist():
        for emotion, counts, mean, sd in tables:
            n_prompts = sum(int(count[p, e]) for count in counts)
            if n_prompts:
                yield {
                    **_names(cube),
                    "perceiver": cube.perceivers[p],
                    "experiencer": cube.experiencers[e],
                    "emotion": emotion,
                    "mean": float(mean[p, e]),
                    "sd": float(sd[p, e]),
                    "n_prompts": n_prompts,
                    **{f"n_{name}": int(count[p, e]) for name, count in zip(STATUSES, counts, strict=True)},
                }


def narrative_rows(cube: NarrativeCube, contrasts: FloatArray) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``NARRATIVES``; the cube has baselines."""
    counts = cube.n_by_status.sum(axis=(1, 2), dtype=np.int64)
    mean = divide(np.nansum(cube.y, axis=(1, 2)), (cube.status == 0).sum(axis=(1, 2)))
    for place, narrative_id in enumerate(cube.narrative_ids):
        yield {
            **_names(cube),
            "narrative_id": narrative_id,
            "emotion": cube.emotions[place],
            "contrast_points": float(contrasts[place]),
            "mean": float(mean[place]),
            "n_prompts": int(counts[place].sum()),
            "n_rated": int(counts[place, 0]),
        }


def distribution_rows(cube: NarrativeCube, *, low: float, high: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``DISTRIBUTIONS``: bins of each kind of pair that has a rating; the cube has baselines.

    Expected values within a billionth of the scale's length count as at an end, as in the table of outcomes. Ratings
    beyond an end are in a bin of their own. Where all ratings are whole numbers of points, each bin between the ends
    holds as many possible ratings: bins of another width would show teeth that are the bins' own.
    """
    baseline = cube.baseline_perceiver[:, None] | cube.baseline_experiencer
    edges = _edges(cube.y, low=low, high=high)
    starts, ends = [low, *edges[:-1], high], [low, *edges[1:], high]
    for pairs, chosen in (
        ("in_group", cube.in_group & ~baseline),
        ("out_group", ~cube.in_group & ~baseline),
        ("baseline", baseline),
    ):
        ratings = _rated(cube.y, chosen)
        if ratings.size == 0:
            continue
        tolerance = END_TOLERANCE * (high - low)
        at_low, at_high = np.abs(ratings - low) <= tolerance, np.abs(ratings - high) <= tolerance
        below, above = ratings[(ratings < low) & ~at_low], ratings[(ratings > high) & ~at_high]
        inside = ratings[(ratings > low) & (ratings < high) & ~at_low & ~at_high]
        between, _ = np.histogram(inside, bins=edges)
        bins = list(zip(starts, ends, [int(at_low.sum()), *between.tolist(), int(at_high.sum())], strict=True))
        if below.size:
            bins.insert(0, (float(below.min()), low, below.size))
        if above.size:
            bins.append((high, float(above.max()), above.size))
        for start, end, count in bins:
            yield {
                **_names(cube),
                "pairs": pairs,
                "low": float(start),
                "high": float(end),
                "n_ratings": count,
                "share": count / ratings.size,
            }


def _edges(y: FloatArray, *, low: float, high: float) -> FloatArray:
    """Return the edges of the bins between the ends: half-way between possible ratings if these are whole numbers."""
    offsets = y[~np.isnan(y)] - low
    length = round(high - low)
    n_values = length - 1
    if offsets.size and n_values > 0 and high - low == length and (offsets == np.round(offsets)).all():
        sizes = [size for size in range(1, n_values + 1) if n_values % size == 0 and n_values // size <= _MOST_BINS]
        size = min(sizes, key=lambda each: abs(n_values // each - _BINS))
        if n_values <= _MOST_BINS or n_values // size > 1:
            return low + 0.5 + size * np.arange(n_values // size + 1, dtype=np.float64)
    return np.linspace(low, high, _BINS + 1)


def null_rows(cube: NarrativeCube, shuffled: FloatArray) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``NULL``: published gaps of shuffled matrices, shape (B,), in bins of equal width."""
    counts, edges = np.histogram(shuffled, bins=_BINS)
    for start, end, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True):
        yield {**_names(cube), "low": start, "high": end, "n_shuffles": count}


def _rated(y: FloatArray, chosen: BoolArray) -> FloatArray:
    ratings = y[:, chosen]
    rated: FloatArray = ratings[~np.isnan(ratings)]
    return rated


def _names(cube: NarrativeCube) -> dict[str, str]:
    return {"dimension": cube.dimension, "variant": cube.variant}
