"""Arranges prompts so that a forward pass computes each of their distinct tokens about once.

Prompts of a run share their beginnings: the perceiver's system message, then the experiencer. A *pack* is a group of
prompts with a common beginning, its *prefix*, which is computed once and kept. The rest of each prompt is placed with
others in a *row* of a batch. A row is the trie of its prompts: what they share beyond the prefix is in it once. Rows of
equal length waste nothing on padding, and short rows little on attention between unrelated prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from audit.engines.base import TokenIds

WORTH_A_GROUP: Final = 48  # tokens that a longer prefix must save to justify a group of its own
REPEATED: Final = 8  # at most one in so many tokens of a row may repeat a group's beginning, as each row does


@dataclass(frozen=True, slots=True)
class Pack:
    """Prompts that are read together."""

    n_prefix: int  # tokens of their common beginning; each prompt keeps at least one token for its row
    # indices of each row's prompts, sorted by tokens, so that a prompt shares most with the one before it
    rows: tuple[tuple[int, ...], ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Indices of all prompts, row by row."""
        return tuple(place for row in self.rows for place in row)


def n_shared(one: TokenIds, other: TokenIds) -> int:
    """Return the number of equal tokens at the beginning of two prompts."""
    for k, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return k
    return min(len(one), len(other))


def pack_prompts(prompts: Sequence[TokenIds], *, max_nodes: int, row_nodes: int) -> Iterator[Pack]:
    """Yield packs with every prompt once, ordered so that a pack shares most with the one before.

    ``row_nodes`` is about how many tokens are in one row, unless one prompt alone has more.
    """
    packed: list[_PromptGroup] = []
    n_prefix = 0
    for group in _groups(prompts, max_nodes):
        if packed:
            shared = n_shared(prompts[packed[-1].places[-1]], prompts[group.places[0]])
            shared = min(n_prefix, group.n_prefix, shared)
            both = [*packed, group]
            n_nodes = sum(len(prompts[place]) - shared for own in both for place in own.places)
            repeated = max(own.n_prefix for own in both) - shared
            if n_nodes <= max_nodes and repeated * REPEATED <= row_nodes:
                packed, n_prefix = both, shared
                continue
            yield _laid(packed, prompts, n_prefix, row_nodes)
        packed, n_prefix = [group], group.n_prefix
    if packed:
        yield _laid(packed, prompts, n_prefix, row_nodes)


class _PromptGroup(NamedTuple):
    """Prompts that share more with each other than with others, such as those of a pair of identities."""

    n_prefix: int
    places: list[int]


def _groups(prompts: Sequence[TokenIds], max_nodes: int) -> Iterator[_PromptGroup]:
    """Yield groups of at most ``max_nodes`` tokens, with every prompt once, sorted."""
    places: list[int] = []
    n_prefix = n_nodes = 0
    for place in sorted(range(len(prompts)), key=lambda place: list(prompts[place])):
        length = len(prompts[place])
        if places:
            shared = min(n_prefix, n_shared(prompts[places[-1]], prompts[place]), length - 1)
            lost = (len(places) - 1) * (n_prefix - shared)
            joined = n_nodes + len(places) * (n_prefix - shared) + length - shared
            if lost < WORTH_A_GROUP and joined <= max_nodes:
                places.append(place)
                n_prefix, n_nodes = shared, joined
                continue
            yield _PromptGroup(n_prefix, places)
        places, n_prefix, n_nodes = [place], length - 1, 1
    if places:
        yield _PromptGroup(n_prefix, places)


def _laid(groups: Sequence[_PromptGroup], prompts: Sequence[TokenIds], n_prefix: int, row_nodes: int) -> Pack:
    """Return a pack of these groups; no row mixes two groups."""
    return Pack(n_prefix, tuple(row for group in groups for row in _balanced(group, prompts, row_nodes)))


def _balanced(group: _PromptGroup, prompts: Sequence[TokenIds], row_nodes: int) -> list[tuple[int, ...]]:
    """Distribute a group over rows of similar length: longest prompt first, each into the shortest row."""
    lengths = {place: len(prompts[place]) - group.n_prefix for place in group.places}
    loads = [0] * min(len(lengths), max(1, -(-sum(lengths.values()) // row_nodes)))
    rows: list[list[int]] = [[] for _ in loads]
    rank = {place: k for k, place in enumerate(group.places)}
    for place in sorted(group.places, key=lambda place: (-lengths[place], rank[place])):
        row = loads.index(min(loads))
        loads[row] += lengths[place]
        rows[row].append(place)
    return [tuple(sorted(row, key=rank.__getitem__)) for row in rows]
