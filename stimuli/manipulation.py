"""Does the model follow what is told? Narratives without any identity, with their own emotion and with a wrong one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from zlib import crc32

import numpy as np

from stimuli.emotion_names import EmotionWords
from stimuli.identities import NO_PERSONA, UNSPECIFIED, Identity
from stimuli.narratives import WORDINGS, Narrative, emotion_valence, geneva20_versions
from stimuli.prompts import PromptCell, PromptGrid
from stimuli.words import words_alone

OWN: Final = "own"
WRONG: Final = "wrong"
LEAST: Final = 60  # narratives asked about by default, at least: how often so few decide, see docs/statistics.md
NOBODY: Final = Identity("a person", UNSPECIFIED, ())


@dataclass(frozen=True, slots=True)
class Manipulated:
    """A prompt without identity."""

    cell: PromptCell
    narrative_id: str  # of one of the run's narratives, or another one of the source
    # `own` (its own emotion is asked about), `wrong` (another one, of the opposite valence where there is one), or, of
    # a situation written in several intensities, `mild` or `strong`
    kind: str


def manipulated(grid: PromptGrid, *, size: int, seed: int, nobody: Identity = NOBODY) -> Iterator[Manipulated]:
    """Yield prompts without perceiver and experiencer, of the run's narratives and, where these are few, of others.

    ``size`` is how many narratives, at least: all of the run's, and as many others of the source as are missing and as
    there are. ``nobody`` stands for the experiencer.

    Notes
    -----
    Half of ``size`` narratives, at least, are pleasant and half unpleasant, as far as the source has them: else a model
    that always rates pleasant emotions higher, whatever happened, would seem to follow. Others are of the run's
    emotions, as long as there are such, so that the check is of what the run asks about. A larger ``size`` adds
    narratives and changes no prompt of a smaller one.

    The wrong emotion is of the opposite valence, which a user's file may give of its emotions: one of the run's own
    emotions, else one of the source's. Where there is none of that valence it is any other emotion, in the same order.
    An emotion that the same text is also told as, or that is asked about in the same words, is not wrong. A source of
    one emotion has none.
    """
    told = grid.narratives.narratives
    others = [each for each in grid.narratives.others if grid.can_show(each)]
    own = {each.emotion: each.words for each in told}
    words = {each.emotion: each.words for each in others} | own
    given = grid.narratives.valence
    versions: dict[tuple[str, str], Narrative] = {}
    if any(each.situation for each in told):
        versions = {(each.situation, each.intensity): each for each in geneva20_versions()}
    perceiver = Identity(NO_PERSONA, NO_PERSONA, ())
    labels = _labels_of_texts((*told, *grid.narratives.others))
    for narrative in (*told, *_drawn(others, size, told=told, given=given, seed=seed)):
        shown = {OWN: narrative}
        alike = {each for text in _texts(narrative) for each in labels[text]}
        alike |= {each for each in words if _in_same_words(words[each], narrative.words)}
        if wrong := _wrong_emotion(narrative, (own, words), alike=alike, given=given, seed=seed):
            shown[WRONG] = replace(narrative, emotion=wrong, words=words[wrong], valence=given.get(wrong, ""))
        for intensity in ("mild", "strong"):
            if (narrative.situation, intensity) in versions:
                shown[intensity] = versions[narrative.situation, intensity]
        for kind, each in shown.items():
            cell = PromptCell(-1, grid.dimensions[0], perceiver, nobody, each, is_wrong=kind == WRONG)
            yield Manipulated(cell, narrative.narrative_id, kind)


def _drawn(
    others: Sequence[Narrative], size: int, *, told: Sequence[Narrative], given: Mapping[str, str], seed: int
) -> Iterator[Narrative]:
    """Draw narratives beside those told: of a larger draw a smaller one is the beginning, see :func:`manipulated`."""
    rng = np.random.default_rng([seed, crc32(b"manipulation")])
    first = {each.emotion for each in told}
    order = sorted(rng.permutation(len(others)).tolist(), key=lambda place: others[place].emotion not in first)
    leanings = [leaning(each.emotion, given) for each in others]
    counts = Counter(leaning(each.emotion, given) for each in told)
    while order:
        least = min((1, -1), key=counts.__getitem__)
        there = counts.total() >= size
        if there and counts[least] >= (size - counts[0]) // 2:
            return
        lacking = {least} if there else {least, 0}
        place = next((each for each in order if leanings[each] in lacking), None if there else order[0])
        if place is None:
            return
        order.remove(place)
        counts[leanings[place]] += 1
        yield others[place]


def leaning(emotion: str, given: Mapping[str, str] = MappingProxyType({})) -> int:
    """Return 1 for a pleasant emotion, −1 for an unpleasant one, and 0 for any other, or of unknown valence.

    ``given`` has the valence of emotions of a user's file; of others the packaged one counts.
    """
    valence = given.get(emotion) or emotion_valence().get(emotion, "")
    return {"positive": 1, "negative": -1}.get(valence, 0)


def _texts(narrative: Narrative) -> Iterator[str]:
    """Yield what a narrative tells, in each wording that it has."""
    for name in WORDINGS:
        if text := words_alone(getattr(narrative, name)):
            yield text


def _labels_of_texts(narratives: Iterable[Narrative]) -> dict[str, set[str]]:
    """Return the emotions of each text: a writer and a reader may have named two."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for each in narratives:
        for text in _texts(each):
            labels[text].add(each.emotion)
    return labels


def _in_same_words(one: EmotionWords, other: EmotionWords) -> bool:
    """Whether a prompt may ask about two emotions in one word, as about ``sad`` and ``sadness``."""
    pairs = (one.noun, other.noun), (one.adjective, other.adjective)
    return any(own and own == theirs for own, theirs in pairs)


def _wrong_emotion(
    narrative: Narrative,
    among: Sequence[Collection[str]],
    *,
    alike: Collection[str],
    given: Mapping[str, str],
    seed: int,
) -> str:
    """Draw an emotion that the narrative does not tell of, see :func:`manipulated`; empty where there is none."""
    own = leaning(narrative.emotion, given)
    others = [sorted(set(each) - {narrative.emotion, *alike}) for each in among]
    opposed = [[emotion for emotion in each if leaning(emotion, given) == -own] for each in others]
    best = next(filter(None, [*(opposed if own else ()), *others]), None)
    rng = np.random.default_rng([seed, crc32(f"wrong emotion\n{narrative.narrative_id}".encode())])
    return str(rng.choice(best)) if best else ""
