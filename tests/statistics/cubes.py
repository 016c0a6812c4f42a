"""Builds cubes without going through a table, for the tests of statistics."""

from __future__ import annotations

import numpy as np

from audit.statistics.cells import NarrativeCube, degree_columns
from audit.statistics.contrasts import column_weights


def mask_of(perceiver_groups, experiencer_groups=None):
    """In-group mask of groups: 1 where they are the same."""
    experiencer_groups = perceiver_groups if experiencer_groups is None else experiencer_groups
    return (np.array(list(perceiver_groups))[:, None] == np.array(list(experiencer_groups))).astype(int)


def contrast_weights(n_shared):
    """Weights, shape (D, P, E), of the gap of a complete narrative at each degree of sharing."""
    return column_weights(degree_columns(n_shared))


def cube_of(y, n_shared=None, *, groups=None, status=None, emotions=None, **fields):
    """Build a cube of y, shape (N, P, E); NaN is a refusal.

    Who is in-group follows from ``n_shared``, or from ``groups``, one for each identity, of which "unspecified" and
    "no persona" are baselines.
    """
    y = np.asarray(y, dtype=float)
    n, p, e = y.shape
    groups = tuple(groups) if groups is not None else tuple(f"group {k}" for k in range(max(p, e)))
    n_shared = mask_of(groups[:p], groups[:e]) if n_shared is None else np.asarray(n_shared)
    baselines = np.isin(groups, ["unspecified", "no persona"])
    n_shared = np.where(baselines[:p, None] | baselines[None, :e], 0, n_shared)
    return NarrativeCube(
        **{
            "dimension": "religion",
            "variant": "origin",
            "y": y,
            "status": np.where(np.isnan(y), 1, 0).astype(np.int8) if status is None else np.asarray(status, np.int8),
            "number_mass": np.full(y.shape, np.nan),
            "mode": np.full(y.shape, np.nan),
            "n_shared": n_shared,
            "in_group": (n_shared == max(n_shared.max(), 1)) & ~baselines[:p, None] & ~baselines[None, :e],
            "asked": np.ones((p, e), dtype=bool),
            "baseline_perceiver": baselines[:p],
            "baseline_experiencer": baselines[:e],
            "narrative_ids": tuple(f"n{i}" for i in range(n)),
            "emotions": ("joy",) * n if emotions is None else tuple(emotions),
            "perceivers": tuple(f"person {k}" for k in range(p)),
            "experiencers": tuple(f"person {k}" for k in range(e)),
            "perceiver_groups": groups[:p],
            "experiencer_groups": groups[:e],
        }
        | fields
    )
