"""The words of an emotion that a user names: its noun (``how much {noun}``) and its adjective (``how {adjective}``).

What a user's file says goes first. Words that are not given are those of a list; a name that no list has is taken as it
stands. Whatever was not given is said, since it stands in prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from stimuli.errors import StimulusError
from stimuli.yaml_files import read_yaml

_DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class EmotionWords:
    """The words of an emotion: ``how much {noun}``, ``how {adjective}``; empty where a source gives none."""

    noun: str
    adjective: str


@cache
def emotion_words() -> dict[str, EmotionWords]:
    """Return the packaged emotions' words, by the emotion's name.

    Examples
    --------
    >>> emotion_words()["sad"]
    EmotionWords(noun='sadness', adjective='sad')
    """
    return {
        name: EmotionWords(noun=body["noun"], adjective=body["adjective"])
        for name, body in read_yaml(_DATA / "emotions.yaml").items()
    }


@cache
def _listed() -> tuple[EmotionWords, ...]:
    """Return the words of all lists, the packaged emotions' first."""
    more = read_yaml(_DATA / "emotion_words.yaml")
    pairs = [(noun, each) for noun, said in more.items() for each in ([said] if isinstance(said, str) else said)]
    return (*dict.fromkeys(emotion_words().values()), *(EmotionWords(*pair) for pair in pairs))


_GUESSED: Final = "its own name, because no list has it"
"""What is said of an emotion whose words nobody gave."""


def _is_listed(emotion: str) -> bool:
    """Tell whether any list has the emotion, by its name, noun or adjective."""
    name = emotion.casefold()
    return name in emotion_words() or any(name in (each.noun, each.adjective) for each in _listed())


def words_of_emotion(emotion: str) -> EmotionWords:
    """Return the words of an emotion: of the lists, by its name, noun or adjective; or else its name for both.

    Capital letters do not matter.

    Examples
    --------
    >>> words_of_emotion("angry")
    EmotionWords(noun='anger', adjective='angry')
    >>> words_of_emotion("Gratitude")
    EmotionWords(noun='gratitude', adjective='grateful')
    >>> words_of_emotion("saudade")
    EmotionWords(noun='saudade', adjective='saudade')
    """
    packaged = emotion_words().get(emotion)
    if packaged is not None:
        return packaged
    name = emotion.casefold()
    if name in emotion_words():
        return emotion_words()[name]
    by_noun = (each for each in _listed() if name == each.noun)
    by_adjective = (each for each in _listed() if name == each.adjective)
    return next(by_noun, None) or next(by_adjective, None) or EmotionWords(emotion, emotion)


def complete(
    given: Sequence[tuple[str, str, str]], *, place: object
) -> tuple[tuple[EmotionWords, ...], dict[str, str]]:
    """Return the words of each row of a file that may give some; and, by emotion, the words that it does not give.

    ``given`` has of each row the emotion, its noun and its adjective; a word that is not given is empty. What is given
    in one row is taken for the emotion's other rows, too; StimulusError if rows give different ones. Of packaged
    emotions nothing is said.

    Examples
    --------
    >>> words, said = complete([("angry", "", ""), ("Wut", "rage", ""), ("Wut", "", "")], place="mine.csv")
    >>> words[2]
    EmotionWords(noun='rage', adjective='Wut')
    >>> list(said.values())
    ["'angry': noun 'anger', adjective 'angry'", "'Wut': adjective 'Wut' (its own name, because no list has it)"]
    """
    nouns: dict[str, dict[str, None]] = {}
    adjectives: dict[str, dict[str, None]] = {}
    for emotion, noun, adjective in given:
        for known, word in ((nouns, noun), (adjectives, adjective)):
            known.setdefault(emotion, {}).update({word: None} if word else {})

    def taken(emotion: str, word: str, kind: str, known: dict[str, dict[str, None]], inferred: str) -> str:
        if not word and len(known[emotion]) > 1:
            raise StimulusError(
                f"{place}: the emotion {emotion!r} has several {kind}s, {', '.join(map(repr, known[emotion]))}, "
                "and rows without one; give every row one, or all rows the same"
            )
        return word or next(iter(known[emotion]), inferred)

    words = []
    for emotion, noun, adjective in given:
        inferred = words_of_emotion(emotion)
        words.append(
            EmotionWords(
                taken(emotion, noun, "noun", nouns, inferred.noun),
                taken(emotion, adjective, "adjective", adjectives, inferred.adjective),
            )
        )
    said = {}
    for emotion in nouns:
        own = words_of_emotion(emotion)
        lacking = [
            f"{kind} {word!r}"
            for kind, word, known in (("noun", own.noun, nouns), ("adjective", own.adjective, adjectives))
            if not known[emotion]
        ]
        if lacking and emotion not in emotion_words():
            guessed = "" if _is_listed(emotion) else f" ({_GUESSED})"
            said[emotion] = f"{emotion!r}: {', '.join(lacking)}{guessed}"
    return tuple(words), said
