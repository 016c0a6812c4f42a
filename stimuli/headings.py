"""Headings of a user's table that are not ours: which column may be which, and how to say so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_WORDS: Final = {
    "narrative_id": ("id", "no", "nr", "number", "item"),
    "emotion": ("emotion", "feeling"),
    "neutral": ("text", "vignette", "story", "scenario"),
    "perceiver": ("persona", "speaker", "rater"),
    "experiencer": ("experiencer", "target"),
    "rating": ("rating", "score", "intensity"),
    "term": ("term", "identity", "label"),
    "group": ("group", "category"),
}
"""Words of headings by our names; the likeliest first."""


def guess_columns(lacking: Iterable[str], headings: Iterable[str], *, optional: Iterable[str] = ()) -> dict[str, str]:
    """Map our names to the headings that may mean them: by their words, then in order if as many are left.

    What cannot be guessed is ``COLUMN``; an ``optional`` name that no word tells is left out.

    Examples
    --------
    >>> guess_columns(["narrative_id", "emotion", "neutral"], ["Gefühl", "Story text", "Nr."])
    {'narrative_id': 'Nr.', 'neutral': 'Story text', 'emotion': 'Gefühl'}
    >>> guess_columns(["narrative_id", "rating"], ["Vignette", "Feeling", "Score"], optional=["emotion", "status"])
    {'narrative_id': 'Vignette', 'rating': 'Score', 'emotion': 'Feeling'}
    """
    left, lacking, optional = list(headings), list(lacking), list(optional)
    found: dict[str, str] = {}
    rest: list[str] = []
    for ours in (*lacking, *optional):
        words = {heading: re.findall(r"[^\W_]+", heading.casefold()) for heading in left}
        # Beside ratings there are no texts: a column "Vignette" says of which vignette they are.
        texts = _WORDS["neutral"] if ours == "narrative_id" and "neutral" not in lacking else ()
        near = [each for word in (*_WORDS.get(ours, (ours,)), *texts) for each in left if word in words[each]]
        if near:
            found[ours] = near[0]
            left.remove(near[0])
        elif ours in lacking:
            rest.append(ours)
    return found | dict(zip(rest, left if len(rest) == len(left) else ["COLUMN"] * len(rest), strict=True))
