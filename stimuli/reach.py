"""What a run of these identities can speak of, said before anything is asked: groups, or these pairs of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stimuli.identities import CROSS, Dimension

LEAST_GROUPS: Final = 5  # fewer are no sample for the test, so nothing is said about groups: docs/statistics.md


def reach_remarks(dimensions: Sequence[Dimension]) -> list[str]:
    """Return a line for each reason for which dimensions cannot carry a claim between groups, with the remedy.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> reach_remarks(load_dimensions("six-groups"))
    []
    >>> [few] = reach_remarks(load_dimensions("geneva", names=["religion"]))
    >>> few[:80]
    'religion: 4 groups; a result holds for these pairs of words, not for groups; for'
    """
    asked = [each for each in dimensions if not each.placebo and each.has_perceivers]
    few = [each for each in asked if _n_groups(each) < LEAST_GROUPS]
    crossed = [each.name for each in asked if CROSS in each.name]
    echoing = [each.name for each in asked if CROSS not in each.name and not _has_free_pairs(each)]
    lines = []
    for n_groups in sorted({_n_groups(each) for each in few}):
        names = ", ".join(each.name for each in few if _n_groups(each) == n_groups)
        lines.append(
            f"{names}: {n_groups} groups; a result holds for these pairs of words, not for groups; for groups, use "
            f"at least {LEAST_GROUPS}, such as those of stimuli.identities=six-groups"
        )
    if echoing:
        lines.append(
            f"{', '.join(echoing)}: every in-group pair repeats a word, so a gap may be its echo; a claim about "
            "groups needs 2 terms per group without a common stem (stimuli.experiencer_terms=null, "
            "stimuli.identities=six-groups, or terms of your own)"
        )
    if crossed:
        lines.append(
            f"{', '.join(crossed)}: an intersection has 1 term per group, so a gap may be the echo of a word; ask "
            "its dimensions one by one for a claim about groups"
        )
    return lines


def _n_groups(dimension: Dimension) -> int:
    """Count the groups that have a pair of their own."""
    return len({p.groups for p, e in dimension.pairs() if dimension.in_group(p, e)})


def _has_free_pairs(dimension: Dimension) -> bool:
    """Whether every group has an in-group pair of which no word is common to both."""
    stems = {term: set(stem.casefold().split("+")) for term, stem in dimension.stems.items()}
    own = [(p, e) for p, e in dimension.pairs() if dimension.in_group(p, e)]
    free = {
        p.groups
        for p, e in own
        if p.term in stems and e.term in stems and p.term != e.term and not stems[p.term] & stems[e.term]
    }
    return {p.groups for p, _ in own} == free
