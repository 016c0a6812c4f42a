"""Which pairs of identities a narrative is asked about: all, or every in-group pair and a balanced draw of the others.

A pair that a narrative is not asked about is missing by design: its gap comes of the pairs that it has. Of G groups of
one perceiver each the in-group coefficient of a narrative has the information kG/(k + 1), k the other groups that each
perceiver is asked about: with k = 3 of 5 others nine tenths of all pairs' for two thirds of their prompts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import product
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stimuli.identities import Dimension, Identity

PairsAsked: TypeAlias = Literal["balanced", "all"]
DRAW: Final = "balanced"
"""What this draw is called in a run's identity, whose narratives, identities and seed determine it: another rule needs
another name."""
MOST: Final = 3  # other groups that a perceiver is asked about, at most: more add little to a narrative (see above)
FEWEST: Final = 3  # of fewer other groups, all are asked about
BASELINES_EVERY: Final = 2  # of so many narratives in a row, pairs with a baseline are asked about in one

Mask: TypeAlias = npt.NDArray[np.bool_]
_Combination: TypeAlias = tuple[str, ...]


def n_drawn(n_others: int) -> int:
    """Return how many of the other groups each perceiver is asked about in a narrative.

    Examples
    --------
    >>> [n_drawn(n_groups - 1) for n_groups in (2, 3, 4, 5, 6, 21)]
    [1, 2, 2, 2, 3, 3]
    """
    return n_others if n_others < FEWEST else min(MOST, -(-n_others // 2))


def can_be_drawn(dimension: Dimension) -> bool:
    """Whether a draw leaves pairs out: many groups, the same on both sides, each its own in-group."""
    groups = _groups(dimension)
    if groups is None:
        return False
    return any(n_drawn(len(offsets)) < len(offsets) for offsets in _offsets(groups))


def drawn_pairs(dimension: Dimension, n_narratives: int, *, seed: int) -> Mask:
    """Say which pairs each narrative is asked about, shape (P, E, N), narratives in the order of the grid.

    Notes
    -----
    Every in-group pair is asked about in every narrative. Of the other groups each perceiver is asked about
    :func:`n_drawn`, in all their terms; in an intersection so of the groups that share some of its dimensions, and of
    those that share none. Groups stand in a circle, and an offset between two places pairs each group with one other:
    the G − 1 offsets are a Latin square. Narratives take them in turn, k each, so that in G − 1 narratives each
    pair of groups is asked k times, each group is asked about by k others in each narrative, and pairs never differ by
    more than one narrative; after G − 1 narratives places and offsets are drawn anew. A group's further perceiver terms
    begin at other offsets. A pair with a baseline has every second narrative, so that each narrative has half of them:
    of a group of two terms one.
    """
    groups = _groups(dimension)
    if groups is None:
        raise ValueError(f"{dimension.name}: its groups cannot be sampled; use stimuli.pairs=all")
    turns_of = [_turns(side) for side in (dimension.perceivers, dimension.experiencers)]
    term_of = [term for _, term in turns_of[0]]
    columns: dict[_Combination, list[int]] = {}
    for place, each in enumerate(dimension.experiencers):
        columns.setdefault(each.groups, []).append(place)
    mask = np.zeros((len(dimension.perceivers), len(dimension.experiencers), n_narratives), dtype=bool)
    narratives = np.arange(n_narratives)
    for p, perceiver in enumerate(dimension.perceivers):
        for e, experiencer in enumerate(dimension.experiencers):
            if perceiver.is_baseline or experiencer.is_baseline:
                turn = sum(turns_of[0][p]) + sum(turns_of[1][e])
                mask[p, e] = narratives % BASELINES_EVERY == turn % BASELINES_EVERY
            else:
                mask[p, e] = perceiver.groups == experiencer.groups
    for stratum, offsets in enumerate(_offsets(groups)):
        k, r = n_drawn(len(offsets)), len(offsets)
        name = zlib.crc32(dimension.name.encode())
        # narrative m of a round has the offsets k(m + term) to k(m + term) + k − 1, round and round
        asked = {
            (term, turn): np.flatnonzero((turn - k * (np.arange(r) + term)) % r < k)
            for term in set(term_of)
            for turn in range(r)
        }
        for first in range(0, n_narratives, r):
            rng = np.random.default_rng([seed, name, stratum, first // r])
            circles = [[own[place] for place in rng.permutation(len(own))] for own in groups]
            turns = [offsets[place] for place in rng.permutation(r)]
            places = [{group: place for place, group in enumerate(circle)} for circle in circles]
            for p, perceiver in enumerate(dimension.perceivers):
                if perceiver.is_baseline:
                    continue
                at = [place[group] for place, group in zip(places, perceiver.groups, strict=True)]
                for turn, offset in enumerate(turns):
                    steps = zip(circles, at, offset, strict=True)
                    other = tuple(circle[(own + step) % len(circle)] for circle, own, step in steps)
                    at_these = first + asked[term_of[p], turn]
                    mask[p, np.array(columns[other])[:, None], at_these[at_these < n_narratives]] = True
    return mask


def is_drawn(asked: Mask) -> bool:
    """Whether some narrative is asked about some of the pairs only; ``asked`` as of :func:`drawn_pairs`."""
    return bool((asked.any(axis=(0, 1)) & ~asked.all(axis=(0, 1))).any())


def _groups(dimension: Dimension) -> list[list[str]] | None:
    """Return the groups of each crossed dimension; None unless sides have the same ones, each its own in-group."""
    both = dimension.perceivers, dimension.experiencers
    sides = [{each.groups for each in side if not each.is_baseline} for side in both]
    if sides[0] != sides[1]:
        return None
    ordered = list(dict.fromkeys(each.groups for each in dimension.perceivers if not each.is_baseline))
    groups = [list(dict.fromkeys(names)) for names in zip(*ordered, strict=True)]
    if len(groups) != len(dimension.in_group_pairs) or set(product(*groups)) != sides[0]:
        return None
    own = [frozenset((name, name) for name in names) for names in groups]
    return groups if own == list(dimension.in_group_pairs) else None


def _offsets(groups: list[list[str]]) -> Iterator[list[tuple[int, ...]]]:
    """Yield the offsets from a group to the others, by how many of the crossed dimensions they share: none first."""
    every = list(product(*(range(len(names)) for names in groups)))
    for n_shared in range(len(groups)):
        yield [offset for offset in every if offset.count(0) == n_shared]


def _turns(side: tuple[Identity, ...]) -> list[tuple[int, int]]:
    """Return the number of each identity's group, and of its term in that group."""
    seen: dict[_Combination, int] = {}
    numbers = []
    for each in side:
        term = seen.get(each.groups, 0)
        seen[each.groups] = term + 1
        numbers.append((list(seen).index(each.groups), term))
    return numbers
