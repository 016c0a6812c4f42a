"""Would any words do? The gap of the true groups among the gaps of all ways to deal their terms to groups.

If groups mean nothing, the true dealing of the second terms ("a follower of Islam", ...) to groups is one of many that
might have been, and its gap may lie anywhere among theirs. Its rank needs no model. It decides nothing: terms of one
group behave alike, and so the rank errs where pairs of groups differ.
"""

from __future__ import annotations

from itertools import islice, permutations, product
from math import factorial
from typing import Final

import numpy as np

from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.incomplete import cell_means
from audit.tables.verdicts import DEALINGS_DRAWN

MOST: Final = 5_040  # up to this many dealings (7!, of the second terms of seven groups) all are taken; of more, a draw
_DUST: Final = 1e-9


def rank_among_dealings(cube: NarrativeCube, *, rng: np.random.Generator) -> tuple[int, int]:
    """Return the rank of the true gap among those of all dealings of terms to groups, and the number of dealings.

    The rank goes by the size of the gap, in either direction: 1 if no other dealing has a larger one. The true dealing
    is counted. Both are 0 if not every group has a further term, perceivers and experiencers have different groups, or
    the cells do not determine every gap.

    The cube has no baselines, and its δ is echo-free. Each group's first term stays; the others are dealt. ``rng``
    draws dealings if there are more than :data:`MOST`.

    Notes
    -----
    A dealing's gap is the coefficient of in-group, as that dealing has it, in least squares of the cell means beside
    what terms share, perceivers and experiencers.
    """
    terms = _terms_by_group(cube)
    n_dealt = min(len(each) for each in terms.values()) - 1 if terms else 0
    if cube.echoing is None or n_dealt < 1 or len(terms) < 2:
        return 0, 0
    means = cell_means(cube.y.reshape(len(cube.y), -1))
    known = np.isfinite(means)
    beside, perceivers, experiencers = (each[known] for each in effect_columns(cube.columns))
    others = np.column_stack([perceivers, experiencers, beside])
    free = np.eye(len(others)) - others @ np.linalg.pinv(others, rcond=1e-10)
    y = free @ means[known]
    groups = list(terms)

    def gap_of(dealing: tuple[tuple[int, ...], ...]) -> float:
        group_of = {own[0]: name for name, own in terms.items()}
        for place, order in enumerate(dealing, start=1):
            group_of |= {terms[groups[source]][place]: name for name, source in zip(groups, order, strict=True)}
        sides = [np.array([group_of.get(term, "") for term in side]) for side in (cube.perceivers, cube.experiencers)]
        column = free @ (sides[0][:, None] == sides[1]).ravel()[known].astype(np.float64)
        squares = float(column @ column)
        return float(column @ y) / squares if squares > _DUST else float("nan")

    gaps = np.array([gap_of(each) for each in _dealings(len(groups), n_dealt, rng)])
    if np.isnan(gaps).any():
        return 0, 0
    sizes = np.abs(gaps)
    return 1 + int(np.count_nonzero(sizes[1:] > sizes[0] + _DUST)), gaps.size


def _terms_by_group(cube: NarrativeCube) -> dict[str, list[str]]:
    """Terms of each group in order of appearance, on either side; empty if the two sides have different groups."""
    if set(cube.perceiver_groups) != set(cube.experiencer_groups):
        return {}
    terms: dict[str, list[str]] = {}
    for names, groups in ((cube.perceivers, cube.perceiver_groups), (cube.experiencers, cube.experiencer_groups)):
        for term, group in zip(names, groups, strict=True):
            if term not in terms.setdefault(group, []):
                terms[group].append(term)
    n = min(map(len, terms.values()), default=0)
    return {group: own[:n] for group, own in terms.items()}


def _dealings(n_groups: int, n_dealt: int, rng: np.random.Generator) -> list[tuple[tuple[int, ...], ...]]:
    """Return the true dealing first, then all others, or a draw of them."""
    true = tuple(tuple(range(n_groups)) for _ in range(n_dealt))
    if factorial(n_groups) ** n_dealt <= MOST:
        every = product(list(permutations(range(n_groups))), repeat=n_dealt)
        return [true, *(each for each in islice(every, 1, None))]
    drawn = [tuple(tuple(rng.permutation(n_groups).tolist()) for _ in range(n_dealt)) for _ in range(DEALINGS_DRAWN)]
    return [true, *drawn]
