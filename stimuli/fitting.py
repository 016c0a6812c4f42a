"""Packaged situations that contradict a group of a dimension, and so are not asked about in that dimension.

A situation in which somebody's baby has a fever is not told by a person in their seventies. It is left out for all
groups of the dimension, not for that one alone: otherwise groups would be compared over different situations, and a
gap that is larger in some situations than in others would be a difference between groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from stimuli.errors import StimulusError
from stimuli.identities import Dimension
from stimuli.narratives import Narratives, supposed
from stimuli.pairs import Mask, can_be_drawn, drawn_pairs
from stimuli.prompts import PromptGrid


def contradictions(dimension: Dimension, narratives: Narratives) -> Iterator[Mapping[str, frozenset[str]]]:
    """Yield for each narrative, an emotion's together, which groups it contradicts, and in what; of most, none.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> from stimuli.narratives import load_narratives
    >>> [age] = load_dimensions("six-groups", names=["age"])
    >>> worried = load_narratives("geneva", emotions=["worried"])
    >>> found = dict(zip([each.narrative_id for each in worried.by_emotion], contradictions(age, worried)))
    >>> {group: sorted(what) for group, what in found["worried-17"].items()}
    {'Seventies': ['a small child']}
    >>> found["worried-20"]
    {}
    """
    supposes = supposed(narratives.source) if dimension.contradicts else {}
    for narrative in narratives.by_emotion:
        told = supposes.get(narrative.narrative_id, frozenset())
        yield {group: both for group, what in dimension.contradicts.items() if (both := what & told)}


def own_stories(dimension: Dimension, narratives: Narratives) -> Mask:
    """Say which pairs are asked about where each narrative is one experiencer's story, shape (P, E, N).

    Every perceiver is asked, of the experiencers of the narrative's group or term. Within an emotion each experiencer
    has as many stories as the one who has fewest: the first of the file. The k-th stories of all experiencers are a
    set, in which every pair was asked about, as statistics need it (:mod:`audit.statistics.cells`).

    StimulusError if no emotion has a story of every group.
    """
    told = narratives.by_emotion
    named = [{each.term.casefold(), each.group.casefold()} - {""} for each in dimension.experiencers]
    own = np.array([[each.identity.casefold() in names for each in told] for names in named], dtype=bool)
    own[[each.is_baseline for each in dimension.experiencers]] = False
    has_stories = {each.group for each, those in zip(dimension.experiencers, own, strict=True) if those.any()}
    every = dict.fromkeys(each.group for each in dimension.experiencers if not each.is_baseline)
    if without := [group for group in every if group not in has_stories]:
        remedy = "set stimuli.placebo=0" if dimension.placebo else "add some, or leave the group or the dimension out"
        raise StimulusError(
            f"stimuli.columns.identity: no narrative is a story of {without[0]!r} ({dimension.name}); {remedy}"
        )
    used = own.any(axis=1)
    asked = np.zeros_like(own)
    for emotion in narratives.emotions:
        here = np.array([each.emotion == emotion for each in told], dtype=bool)
        stories = own & here
        n_sets = int(stories[used].sum(axis=1).min())
        asked |= stories & (stories.cumsum(axis=1) <= n_sets)
    if not asked.any():
        raise StimulusError(
            f"stimuli.columns.identity: no emotion has a story of every group of {dimension.name!r}, so groups could "
            "not be compared within an emotion; add stories, or leave groups out"
        )
    return np.broadcast_to(asked, (len(dimension.perceivers), *asked.shape)).copy()


def asked_pairs(dimension: Dimension, narratives: Narratives, *, balanced: bool, seed: int) -> Mask | None:
    """Say which pairs each narrative is asked about, shape (P, E, N), an emotion's together; None: all in all.

    ``balanced`` draws pairs, where a dimension's can be drawn, in the narratives that contradict no group. Narratives
    of one experiencer each are asked about as :func:`own_stories` says.
    """
    if any(each.identity for each in narratives.narratives):
        return own_stories(dimension, narratives)
    fits = np.array([not each for each in contradictions(dimension, narratives)], dtype=bool)
    drawn = balanced and can_be_drawn(dimension)
    if fits.all():
        return drawn_pairs(dimension, fits.size, seed=seed) if drawn else None
    if not fits.any():
        raise StimulusError(
            f"dimensions: every narrative ({fits.size}) contradicts a group of {dimension.name!r}, so none can be "
            "asked about; ask about more narratives (stimuli.situations_per_emotion, stimuli.emotions), or leave the "
            "dimension out"
        )
    mask = np.zeros((len(dimension.perceivers), len(dimension.experiencers), fits.size), dtype=bool)
    mask[:, :, fits] = drawn_pairs(dimension, int(fits.sum()), seed=seed) if drawn else True
    return mask


def fit_remarks(grid: object, *, seed: int) -> list[str]:
    """Return a line for each dimension that leaves narratives out: how many, how many prompts, and why.

    Of a user's own narratives it is not known what they suppose; a line says so. Other grids leave nothing out.
    """
    if not isinstance(grid, PromptGrid):
        return []
    narratives = grid.narratives
    lines = []
    own = [each.name for each in grid.dimensions if each.contradicts and not supposed(narratives.source)]
    if own:
        lines.append(
            f"{', '.join(own)}: packaged situations that contradict a group are left out, but not narratives of yours; "
            "check that people of every group could tell each"
        )
    for each in grid.dimensions:
        if each.name not in grid.left_out:
            continue
        if any(own.identity for own in narratives.narratives):
            lines.append(
                f"{each.name}: {len(grid.left_out[each.name])} of {len(narratives.narratives)} narratives are left "
                "out, because they are of no group of it, or another group has fewer stories of the emotion"
            )
            continue
        why = Counter(what for found in contradictions(each, narratives) for what in frozenset().union(*found.values()))
        reasons = ", ".join(f"{what} ({n})" for what, n in why.most_common())
        lines.append(
            f"{each.name}: {len(grid.left_out[each.name])} of {len(narratives.narratives)} narratives "
            f"({_n_left_out(grid, each, seed=seed):,} prompts) are left out for all groups, because what they suppose "
            f"contradicts one of them: {reasons}"
        )
    return lines


def _n_left_out(grid: PromptGrid, dimension: Dimension, *, seed: int) -> int:
    """Return how many prompts more a dimension would have if no narrative were left out."""
    asked = grid.drawn[dimension.name]
    drawn = dimension.name in grid.sampled
    every = int(drawn_pairs(dimension, asked.shape[2], seed=seed).sum()) if drawn else asked.size
    return (every - int(asked.sum())) * len(grid.wordings)
