"""Builds ratings tables for the tests of statistics."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.tables.ratings import RATINGS

BASELINES = ("unspecified", "no persona")


def build_ratings(
    y,
    perceiver_groups,
    experiencer_groups=None,
    *,
    dimension="religion",
    variant="origin",
    missing_status="refused",
    number_mass=np.nan,
):
    """Lay out y of shape (N, P, E) as ratings; a group is a name, or a tuple of names for an intersection.

    NaN in y becomes a prompt with ``missing_status``; equal places of the two axes hold the same identity.
    """
    y = np.asarray(y, dtype=float)
    experiencer_groups = perceiver_groups if experiencer_groups is None else experiencer_groups
    rows = []
    for i, p, e in np.ndindex(*y.shape):
        first, second = perceiver_groups[p], experiencer_groups[e]
        baseline = first in BASELINES or second in BASELINES
        firsts, seconds = (group if isinstance(group, tuple) else (group,) for group in (first, second))
        shared = None if baseline else sum(a == b for a, b in zip(firsts, seconds, strict=True))
        rated = not np.isnan(y[i, p, e])
        rows.append(
            {
                "prompt_index": len(rows),
                "dimension": dimension,
                "variant": variant,
                "narrative_id": f"n{i}",
                "emotion": ("anger", "joy")[i % 2],
                "perceiver": f"person {p} of {first}",
                "experiencer": f"person {e} of {second}",
                "perceiver_group": " & ".join(firsts),
                "experiencer_group": " & ".join(seconds),
                "in_group": None if baseline else shared == len(firsts),
                "n_shared": shared,
                "status": "rated" if rated else missing_status,
                "intensity": y[i, p, e] if rated else None,
                "response": "",
                "number_mass": number_mass,
                "mode": np.nan,
                "spread": np.nan,
            }
        )
    table = pd.DataFrame(rows, columns=list(RATINGS))
    return table.astype({"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"})


@pytest.fixture(scope="session")
def ratings_of():
    return build_ratings


TWO_TERMS = ["a Hindu", "a follower of the Gita", "a Muslim", "a follower of Islam"]
STEMS = {"religion": {term: term for term in TWO_TERMS}}
"""Each term has a stem of its own: no two share one."""


def build_echoing(gaps, *, echo, dimension="religion"):
    """Return ratings of two groups of two terms: narrative i has the gap i, and repeating the very words adds `echo`.

    Beside a level of its own that each narrative has, nothing differs: the echo-free δ is the mean of the gaps.
    """
    groups = np.array(["Hindu", "Hindu", "Muslim", "Muslim"])
    in_group, same = groups[:, None] == groups, np.eye(4)
    y = np.array([40.0 + i + gap * in_group + echo * same for i, gap in enumerate(gaps)])
    ratings = build_ratings(y, groups.tolist(), dimension=dimension)
    names = {f"person {k} of {group}": TWO_TERMS[k] for k, group in enumerate(groups)}
    return ratings.assign(**{side: ratings[side].map(names) for side in ("perceiver", "experiencer")})


@pytest.fixture(scope="session")
def echoing():
    return build_echoing
