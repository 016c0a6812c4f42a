"""Narratives of a user's own that name a group: shown as told by every experiencer, they contradict all but one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from stimuli.identities import Dimension
from stimuli.narratives import WORDINGS, Narratives

ARTICLE: Final = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_SHORTEST: Final = 3  # letters of a group's name that is looked for by itself: two may be any word


def remarks(narratives: Narratives | None, dimensions: Sequence[Dimension]) -> tuple[str, ...]:
    """Return what to know of a user's own narratives before a model is asked about them, each in a line.

    Narratives must not name the groups of ``dimensions``, except for invented ones.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> from stimuli.narratives import load_narratives
    >>> remarks(load_narratives("geneva"), load_dimensions("geneva"))
    ()
    """
    if narratives is None:
        return ()
    found = [narratives.remark] if narratives.remark else []
    if n := narratives.n_not_asked:
        found.append(
            f"{n} {'utterance' if n == 1 else 'utterances'} of the corpus {'is' if n == 1 else 'are'} marks alone, as "
            "'!' is: shown to the model, and not asked about"
        )
    if n := narratives.n_short:
        found.append(
            f"{n} {'conversation is' if n == 1 else 'conversations are'} left out: the person says less in "
            f"{'it' if n == 1 else 'them'} than the strategy has turns"
        )
    if narratives.source == "csv" and (named := list(_mentions(narratives, dimensions))):
        first, word = named[0]
        n, of = len(named), len(narratives.narratives)
        found.append(
            f"{n} of {of} narratives {'names' if n == 1 else 'name'} a group (the first is {first!r}, which has "
            f"{word!r}), but each narrative is shown as told by people of every group; reword what would be untrue "
            "for other groups"
        )
    return tuple(found)


def _mentions(narratives: Narratives, dimensions: Sequence[Dimension]) -> Iterator[tuple[str, str]]:
    """Yield the narratives that name a group, each with the first word for one that it has."""
    sides = [identity for each in dimensions if not each.placebo for identity in (*each.perceivers, *each.experiencers)]
    own = [identity for identity in sides if not identity.is_baseline]
    if not own:
        return
    terms = either({ARTICLE.sub("", identity.term) for identity in own})
    # With its capitals: "greens" are no Greens.
    groups = either({group for identity in own for group in identity.groups if len(group) >= _SHORTEST})
    any_of = re.compile(rf"(?<!\w)(?:(?i:{terms}){f'|{groups}' if groups else ''})(?!\w)")
    for narrative in narratives.narratives:
        texts = (*map(narrative.wording, WORDINGS), *narrative.later)
        said = map(any_of.search, texts)
        if match := next(filter(None, said), None):
            yield narrative.narrative_id, match[0]


def either(words: Collection[str]) -> str:
    """Return the pattern of any of some words, the longest first."""
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))
