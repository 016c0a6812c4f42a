"""Which emotion a text names: in a reply or a stage against the narrative's own, in an answer among a user's labels.

Only English words are matched: an emotion that is merely described ("your heart sank") is not named, and whose emotion
it is ("I am sad to hear that") is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.asking.elicitation.parsing import holds_refusal
from audit.asking.elicitation.plain_text import answer_of
from audit.configuration.measures import MeasuresConfig
from audit.tasks.measures.base import Measure, Reply, Wanted
from audit.tasks.measures.lexical import can_be_read
from audit.tasks.measures.wordlists import EmotionForms, load_forms, plain_sentence
from stimuli.hashes import fingerprint
from stimuli.narratives import EmotionWords, Narrative, emotion_words
from stimuli.sentences import sentences

_SOURCE: Final = "after the emotion accuracy of arXiv:2310.05140; by words, which are ours"
_CAUTION: Final = "Naming is not understanding."

EMOTION: Final = (
    Measure(
        "emotion_named",
        "Names an emotion",
        "share of replies",
        "neither",
        _SOURCE,
        "Any emotion counts, right or wrong.",
        0,
        1,
    ),
    Measure("emotion_hit", "Names the narrative's emotion", "share of replies", "higher", _SOURCE, _CAUTION, 0, 1),
    Measure(
        "emotion_accuracy",
        "Names the narrative's emotion, of replies that name one",
        "share of replies that name an emotion",
        "higher",
        _SOURCE,
        f"{_CAUTION} A reply that names several is right if one is.",
        0,
        1,
    ),
)
"""The measures of :class:`EmotionScorer`, in the order of its columns."""

_FILLER: Final = (
    "a|an|any|the|at|all|be|being|been|feel|feeling|feels|felt|get|getting|have|having|had|to|need|reason|cause|point|so|too"
    "|very|really|quite|particularly|especially|even|that|terribly|exactly|necessarily|of|for|in|you|your|yourself|longer"
    "|more|much|bit|sense|room|must|should"
)
_NEGATED: Final = (  # ends where the form begins, so "not only sad" and "no wonder" are no negations
    r"\b(?:not|no|nor|neither|never|without|nothing|hardly|barely|cannot|\w+n't|far from|rather than|instead of"
    rf"|as opposed to)(?: (?:{_FILLER}|(?:%s),? (?:or|nor)))* $"
)
_REACH: Final = 120  # characters before a form searched for a negation; bounded, so that time is linear
_INTENSE: Final = re.compile(r"\bnever (?:\w+ ){0,2}(?:so|this|more|such|as) $|\bcould(?:n't| not) \w+ (?:any )?more $")
_NOT_MORE: Final = re.compile(r"\bcould(?:n't| not) \w+ (?:any )?$")  # "couldn't be happier"

_QUOTED: Final = re.compile(r'"([^"\n]*)"')
_STATED: Final = re.compile(
    r"\W*(?:[\w']+ ){0,3}?(?:emotion|feeling|label|answer|category|class)\b\W*?(?: [\w']+){0,8}?"
    r"(?: ?[:=]| (?:is|was|would be|seems to be|appears to be)\b(?! (?:that )?clear))(?P<rest>.*)"
)
_END: Final = re.compile(r"[;(.]|\bbecause\b|\bsince\b|, \w+ ?:")


@dataclass(frozen=True)
class Vocabulary:
    """Emotions and the forms that name them."""

    forms: Mapping[str, tuple[str, ...]]  # in lower case; a form of several emotions names them all
    phrases: EmotionForms  # in which a form names nothing

    @property
    def sha256(self) -> str:
        """Hash of emotions, forms and phrases."""
        content = [{emotion: sorted(forms) for emotion, forms in self.forms.items()}, self.phrases.unless]
        return fingerprint(content)

    @cached_property
    def _finder(self) -> _Finder:
        return _Finder(_emotions_of(self.forms), self.phrases)


class EmotionScorer:
    """Takes :data:`EMOTION` of replies.

    Use one vocabulary for runs that are compared: what counts as naming an emotion depends on it.

    Notes
    -----
    - ``emotion_named``: 1 if the reply names any emotion of the vocabulary, else 0.
    - ``emotion_hit``: 1 if the narrative's own is among those named, else 0; over all replies.
    - ``emotion_accuracy``: the same over the replies that name an emotion; NaN for the others. For cells it is
      hit / named if each narrative has equally many replies.

    The last two are NaN if the narrative's emotion is not in the vocabulary.
    """

    measures = EMOTION

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary_of() if vocabulary is None else vocabulary

    @property
    def facts(self) -> dict[str, Any]:
        """The emotions, and the source and hash of their forms."""
        phrases = self._vocabulary.phrases
        return {
            "forms": {"source": phrases.source, "sha256": phrases.sha256},
            "vocabulary": {"emotions": list(self._vocabulary.forms), "sha256": self._vocabulary.sha256},
        }

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 3); NaN if :func:`audit.tasks.measures.lexical.can_be_read` is False."""
        rows = [self._score(reply) if can_be_read(reply) else [np.nan] * len(EMOTION) for reply in replies]
        return np.array(rows, dtype=np.float64).reshape(len(replies), len(EMOTION))

    def read(self, texts: Sequence[str], emotions: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
        """Score texts that are no replies, such as those of a strategy's stages, by measure."""
        scores = self.score([Reply(text, emotion=own) for text, own in zip(texts, emotions, strict=True)])
        return {measure.name: scores[:, place] for place, measure in enumerate(EMOTION)}

    def _score(self, reply: Reply) -> list[float]:
        named = named_emotions(reply.text, self._vocabulary)
        hit = float(reply.emotion in named) if reply.emotion in self._vocabulary.forms else np.nan
        return [float(bool(named)), hit, hit if named else np.nan]


def run_vocabulary(emotions: Iterable[object], words: Mapping[str, EmotionWords]) -> Vocabulary:
    """Return the packaged emotions and those of a run's narratives; one that ``words`` lacks has its name alone."""
    bare = {str(emotion): EmotionWords("", "") for emotion in emotions}
    return vocabulary_of({name: its for name, its in (bare | emotion_words() | dict(words)).items() if _plain(name)})


def vocabulary_of(words: Mapping[str, EmotionWords] | None = None, *, forms: EmotionForms | None = None) -> Vocabulary:
    """Return the forms of emotions: their names, nouns and adjectives, and the families that contain these.

    None takes the packaged emotions. For a user's narratives ``words`` is ``emotion_words() | {n.emotion: n.words for n
    in narratives}``.
    """
    words = emotion_words() if words is None else words
    forms = load_forms() if forms is None else forms
    if not words or not all(_plain(emotion) for emotion in words):
        raise ValueError(f"an emotion needs a name; got {list(words)!r}")
    return Vocabulary(
        {emotion: tuple(_with_families((emotion, its.noun, its.adjective), forms)) for emotion, its in words.items()},
        forms,
    )


def named_emotions(text: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the emotions that a text names, each once, in the order of their first mention.

    A negated form does not count ("not sad", "nothing to be afraid of", "neither angry nor sad"); an emphatic one does
    ("never so happy", "couldn't be prouder"), and so does one after "not only". A negation reaches forward over words
    that carry it on and ends at any other, in the manner of NegEx [1]_; the words are ours.

    References
    ----------
    .. [1] Chapman, Bridewell, Hanbury, Cooper and Buchanan (2001), A Simple Algorithm for Identifying Negated Findings
       and Diseases in Discharge Summaries, Journal of Biomedical Informatics 34(5), 301–310.
    """
    found = (emotion for sentence in sentences(text) for emotion in vocabulary._finder.named(plain_sentence(sentence)))
    return tuple(dict.fromkeys(found))


def label_of(answer: str, labels: Sequence[str], *, synonyms: Mapping[str, Sequence[str]] | None = None) -> str | None:
    """Return the one label that an answer gives, or None: a wrong label would bias a result, a missing one is missing.

    Case, hyphens and underscores do not matter. A synonym of several labels counts for none.

    Notes
    -----
    A form of a label's family stands for it ("happiness" for the label ``happy``), unless two labels are of that
    family. An answer states a label if a line or sentence is nothing else, or begins like "Emotion:" or "The emotion
    is". All stated labels must be the same; "Emotion: frustrated", if that is no label, gives None. If nothing is
    stated, the only label mentioned outside questions, quotations of three words or more, and negations is the answer,
    unless the answer is a refusal.
    """
    given = () if synonyms is None else tuple((label, tuple(words)) for label, words in synonyms.items())
    finder = _label_finder(tuple(labels), given)
    text = _QUOTED.sub(lambda quoted: finder.unquoted(quoted[1]), answer_of(answer).translate(_STRAIGHT_DOUBLE))
    units = [unit for unit in (plain_sentence(sentence) for sentence in sentences(text)) if not unit.endswith("?")]
    stated: list[str] = []
    for place, unit in enumerate(units):
        alone = finder.alone(unit)
        if alone:
            stated.extend(alone)
        elif said := _STATED.fullmatch(unit):
            rest = said["rest"] if said["rest"].strip() else " ".join(units[place + 1 : place + 2])
            named = set(finder.named(_END.split(rest, maxsplit=1)[0].strip()))
            if len(named) != 1:
                return None
            stated.extend(named)
    if not stated and not holds_refusal(answer):
        stated = [label for unit in units for label in finder.named(unit)]
    return stated[0] if len(set(stated)) == 1 else None


_STRAIGHT_DOUBLE: Final = str.maketrans({"\u201c": '"', "\u201d": '"', "{": " ", "}": " ", "[": " ", "]": " "})


class _Finder:
    """Finds forms in plain sentences, and what they stand for."""

    def __init__(self, meanings: Mapping[str, tuple[str, ...]], phrases: EmotionForms) -> None:
        longest_first = sorted(meanings, key=lambda form: (-len(form), form))
        either = "|".join(r"[\s_-]+".join(map(re.escape, form.split())) for form in longest_first)
        self._meanings, self._phrases = meanings, phrases
        self._form = re.compile(rf"(?<![\w'])(?:{either})(?!\w)")
        self._negated = re.compile(_NEGATED % either)

    def named(self, sentence: str) -> list[str]:
        """Return what the forms in a sentence stand for, in order, without negated ones."""
        text = self._phrases.without_phrases(sentence)
        return [
            meaning
            for form in self._form.finditer(text)
            if not self._denied(_last_words(text, form.start()), form.group())
            for meaning in self._meanings[_plain(form.group())]
        ]

    def alone(self, sentence: str) -> tuple[str, ...]:
        """Return what a sentence stands for if it is a single form."""
        return self._meanings.get(_plain(sentence.strip(" \t.,:;!'\"()|/\\")), ())

    def unquoted(self, quoted: str) -> str:
        """Keep a quotation that is a form or shorter than three words; drop any other."""
        return quoted if self.alone(quoted.lower()) or len(quoted.split()) < 3 else ""

    def _denied(self, before: str, form: str) -> bool:
        if _INTENSE.search(before) or (form.endswith("er") and _NOT_MORE.search(before)):
            return False
        return self._negated.search(before) is not None


@lru_cache(maxsize=32)
def _label_finder(labels: tuple[str, ...], synonyms: tuple[tuple[str, tuple[str, ...]], ...]) -> _Finder:
    exact = {_plain(label): (label,) for label in labels}
    if not labels or "" in exact or len(exact) < len(labels):
        raise ValueError(f"labels must be at least one, not empty and all different; got {list(labels)!r}")
    known = load_forms()
    others = {label: {_plain(word) for word in words} - {""} for label, words in synonyms}
    if unknown := [label for label in others if label not in labels]:
        raise ValueError(f"synonyms of {unknown[0]!r}, which is not one of the labels {list(labels)!r}")
    own = _emotions_of({label: sorted(others.get(label, ())) for label in labels})
    wide = _emotions_of({label: known.family_of(_plain(label)) for label in labels})
    return _Finder(wide | own | exact, known)


def _emotions_of(forms: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Invert emotion → forms to form → emotions."""
    emotions: dict[str, tuple[str, ...]] = {}
    for emotion, its in forms.items():
        for form in its:
            emotions[_plain(form)] = (*emotions.get(_plain(form), ()), emotion)
    return emotions


def _with_families(words: Iterable[str], forms: EmotionForms) -> dict[str, None]:
    plain = [_plain(word) for word in words if _plain(word)]
    return dict.fromkeys([*plain, *(form for word in plain for form in forms.family_of(word))])


def _last_words(text: str, end: int) -> str:
    """Return the whole words in the last :data:`_REACH` characters before ``end``."""
    return text[:end] if end <= _REACH else text[end - _REACH : end].partition(" ")[2]


def _plain(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.lower())).strip()


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    words = emotion_words() | {narrative.emotion: narrative.words for narrative in narratives}
    asked = {"emotions": {emotion: list(astuple(its)) for emotion, its in words.items()}}
    return Wanted("emotion", asked, lambda: EmotionScorer(vocabulary_of(words)))
