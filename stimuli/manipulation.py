"""Does the model follow what is told? Narratives without any identity, with their own emotion and with a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

import numpy as np

from stimuli.identities import NO_PERSONA, UNSPECIFIED, Identity
from stimuli.narratives import Narrative, emotion_valence, geneva20_versions
from stimuli.prompts import PromptCell, PromptGrid

OWN: Final = "own"
WRONG: Final = "wrong"
_OPPOSITE: Final = {"positive": "negative", "negative": "positive"}
NOBODY: Final = Identity("a person", UNSPECIFIED, ())


@dataclass(frozen=True, slots=True)
class Manipulated:
    """A prompt without identity.

    Attributes
    ----------
    cell
        What it shows.
    narrative_id
        The run's narrative that it is made of.
    kind
        ``own`` (its own emotion is asked about), ``wrong`` (another one, of the opposite valence where there is one),
        or, of a situation written in several intensities, ``mild`` or ``strong``.
    """

    cell: PromptCell
    narrative_id: str
    kind: str


def manipulated(grid: PromptGrid, *, size: int, seed: int, nobody: Identity = NOBODY) -> Iterator[Manipulated]:
    """Yield prompts without perceiver and experiencer, of narratives drawn by the seed.

    Parameters
    ----------
    grid
        The run's.
    size
        Narratives, at most as many as there are.
    seed
        Of the draw, and of the wrong emotions.
    nobody
        Who stands for the experiencer.

    Notes
    -----
    The wrong emotion is drawn from the run's own emotions: of the opposite valence, else of another one. A run of one
    emotion has none.
    """
    narratives = grid.narratives.narratives
    rng = np.random.default_rng([seed, crc32(b"manipulation")])
    chosen = np.sort(rng.choice(len(narratives), min(size, len(narratives)), replace=False)).tolist()
    words = {each.emotion: each.words for each in narratives}
    valence = emotion_valence()
    versions: dict[tuple[str, str], Narrative] = {}
    if any(narrative.situation for narrative in narratives):
        versions = {(each.situation, each.intensity): each for each in geneva20_versions()}
    for place in chosen:
        narrative = narratives[place]
        others = sorted(words.keys() - {narrative.emotion})
        opposite = _OPPOSITE.get(valence.get(narrative.emotion, ""))
        best = [emotion for emotion in others if valence.get(emotion) == opposite] or others
        shown = {OWN: narrative}
        if best:
            wrong = str(rng.choice(best))
            shown[WRONG] = replace(narrative, emotion=wrong, words=words[wrong])
        for intensity in ("mild", "strong"):
            if (narrative.situation, intensity) in versions:
                shown[intensity] = versions[narrative.situation, intensity]
        for kind, each in shown.items():
            perceiver = Identity(NO_PERSONA, NO_PERSONA, ())
            yield Manipulated(PromptCell(-1, grid.dimensions[0], perceiver, nobody, each), narrative.narrative_id, kind)
