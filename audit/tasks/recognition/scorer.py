"""Whether a model recognises an emotion in a conversation, and its cause, as people marked them.

Only its answer is read, not its confidence: a label, or words of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.asking.elicitation.plain_text import answer_of
from audit.tasks.measures.base import Measure, Reply
from audit.tasks.measures.emotion import label_of
from audit.tasks.measures.spans import exact_match, span_words, word_f1
from audit.tasks.measures.wordlists import load_forms
from stimuli.conversations import Conversations
from stimuli.hashes import fingerprint
from stimuli.sentences import sentences, words

_LABELLED: Final = "The corpus' label is one reading; people who label conversations often disagree."

RECOGNITION: Final = (
    Measure(
        "recognised",
        "Recognises the emotion",
        "share of answers",
        "higher",
        "accuracy of emotion recognition in conversation; the label is read by words, which are ours",
        f"{_LABELLED} An answer without a readable label counts as not recognised.",
        0,
        1,
    ),
    Measure(
        "unreadable",
        "Gives no label",
        "share of answers",
        "lower",
        "as above",
        "None of the labels, or several. Refusals are counted apart.",
        0,
        1,
    ),
)
"""The measures of :class:`EmotionRecognition`, in the order of its columns."""

_SPANS: Final = "Poria et al. (2021), arXiv:2012.11820, by SQuAD's rules; asked once of the whole conversation"
_MARKED: Final = "The marked words are one choice of where a cause begins and ends."

CAUSES: Final = (
    Measure("cause_em", "Names the cause in the marked words", "share of answers", "higher", _SPANS, _MARKED, 0, 1),
    Measure(
        "cause_f1",
        "Shares words with the marked cause",
        "F1 of words",
        "higher",
        _SPANS,
        f"{_MARKED} Words count wherever in the conversation they are from.",
        0,
        1,
    ),
)
"""The measures of :class:`CauseSpans`, in the order of its columns."""

_ENTAILS: Final = "causal emotion entailment of Poria et al. (2021), arXiv:2012.11820; yes or no is read by words"
_MARKED_TURNS: Final = "Which utterances count as causes is people's reading. An unreadable answer is missing here."

ENTAILMENTS: Final = (
    Measure(
        "entailment_right", "Tells causes from other utterances", "share of answers", "higher", _ENTAILS,
        f"{_MARKED_TURNS} Most utterances are no cause, so a model that always says no is often right.", 0, 1,
    ),
    Measure(
        "cause_confirmed", "Says yes of a marked cause", "share of answers", "higher", _ENTAILS,
        f"{_MARKED_TURNS} A model that always says yes has 1.", 0, 1,
    ),
    Measure(
        "cause_denied", "Says no of another utterance", "share of answers", "higher", _ENTAILS,
        f"{_MARKED_TURNS} A model that always says no has 1.", 0, 1,
    ),
    Measure(
        "entailment_unreadable", "Says neither yes nor no", "share of answers", "lower", "as above",
        "A refusal that is written as an answer counts here.", 0, 1,
    ),
)  # fmt: skip
"""The measures of :class:`CauseEntailment`, in the order of its columns."""

_YES_NO: Final = re.compile(
    r"[\W_]*(?:(?:the )?answer(?: is)?[\W_]*)?(?P<said>yes|no)(?![\w'-])(?!,? (?:and|or|but|doubt|way to)\b)",
    re.IGNORECASE,
)
_STRAIGHT: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})
_BEFORE: Final = re.compile(
    r"[\W_]*(?:(?:the )?(?:cause|answer|span)(?: is)?|person [a-z]{1,2})[*_]* ?:(?=.*\w)", re.IGNORECASE | re.DOTALL
)
_SAID: Final = r"(?:mentioned|stated|given|named|found|specified|said|present|there)"
_CAUSE: Final = r"(?:(?:clear|explicit|specific|such|stated|mentioned) )*(?:cause|span|reason|words?)"
_HERE: Final = "(?: in (?:this )?conversation)?"
_NONE: Final = re.compile(  # of normalised words, which have no articles
    rf"(?:there (?:is|are|was|were) )?(?:none|na|no {_CAUSE}(?: (?:is|are|was|were))?(?: {_SAID})?){_HERE}"
    rf"|(?:(?:{_CAUSE}|it) (?:is|was) )?(?:not|never) {_SAID}{_HERE}"
)


class EmotionRecognition:
    """Takes :data:`RECOGNITION` of answers, read by :func:`~audit.tasks.measures.emotion.label_of`.

    ``recognised`` is 1 if the label that is read is the right one, else 0; NaN if the right one is no label.
    ``unreadable`` is 1 if no label can be read, else 0.
    """

    measures = RECOGNITION

    def __init__(self, labels: Sequence[str], synonyms: Mapping[str, Sequence[str]] | None = None) -> None:
        self._labels = tuple(labels)
        self._synonyms = {label: tuple(own) for label, own in (synonyms or {}).items()}
        label_of("", self._labels, synonyms=self._synonyms)  # raises ValueError if they cannot be used

    @property
    def facts(self) -> dict[str, Any]:
        """Labels and synonyms, and the source and hash of forms such as "happiness" for ``happy``."""
        forms = load_forms()
        return {
            "labels": list(self._labels),
            "synonyms": {label: list(own) for label, own in self._synonyms.items()},
            "forms": {"source": forms.source, "sha256": forms.sha256},
        }

    def read(self, answers: Sequence[str]) -> list[str | None]:
        """Return the label of each answer; None if no label, or no single one, can be read."""
        label = cache(lambda answer: label_of(answer, self._labels, synonyms=self._synonyms))  # many answers are alike
        return [label(answer) for answer in answers]

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 2)."""
        rows = [
            [float(label == reply.emotion) if reply.emotion in self._labels else np.nan, float(label is None)]
            for reply, label in zip(replies, self.read([reply.text for reply in replies]), strict=True)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(replies), len(RECOGNITION))


class CauseSpans:
    """Takes :data:`CAUSES` of answers.

    ``spans`` are the words that people marked, by ``narrative_id``, any of which is right; empty if nothing that was
    said is the cause. Narratives that are absent were not annotated.

    Notes
    -----
    Spans and answers are compared word by word as in [1]_ (:mod:`audit.tasks.measures.spans`, with curly quotation
    marks made straight), by exact match and by F1; the best of several spans counts. If there is no cause, both are
    1 for an answer that says so and 0 for any other, as in [2]_; if there is one, both are 0 for an answer that says
    there is none. The whole answer is compared, without "Cause:" or a speaker's "Person A:" before it, so that
    an explanation after the words costs F1.

    Both are NaN if the narrative was not annotated, or the answer has no word.

    References
    ----------
    .. [1] Rajpurkar et al. (2016), SQuAD, arXiv:1606.05250.
    .. [2] Rajpurkar, Jia and Liang (2018), SQuAD 2.0, arXiv:1806.03822.
    """

    measures = CAUSES

    def __init__(self, spans: Mapping[str, Sequence[str]]) -> None:
        for narrative_id, own in spans.items():
            if isinstance(own, str):
                raise ValueError(f"the spans of {narrative_id!r} are one string; give a sequence of spans")
        self._spans = {name: tuple(own) for name, own in spans.items()}
        self._wanted = {
            name: [found for span in own if (found := _words(span))] or [[]] for name, own in self._spans.items()
        }

    @property
    def facts(self) -> dict[str, Any]:
        """Numbers of narratives annotated and with a cause, and the hash of all spans."""
        return {
            "n_narratives": len(self._spans),
            "n_with_cause": sum(wanted != [[]] for wanted in self._wanted.values()),
            "sha256": fingerprint(self._spans),
            "none_said_by": _NONE.pattern,
        }

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 2)."""
        rows = [self._score(reply) for reply in replies]
        return np.array(rows, dtype=np.float64).reshape(len(replies), len(CAUSES))

    def _score(self, reply: Reply) -> tuple[float, float]:
        answer = answer_of(reply.text)
        if reply.narrative_id not in self._wanted or not words(answer):
            return np.nan, np.nan
        wanted = self._wanted[reply.narrative_id]
        found = _words(_bare(answer))
        if says_none(answer) and found not in wanted:
            found = []
        return max(exact_match(found, each) for each in wanted), max(word_f1(found, each) for each in wanted)


def span_guesses(corpus: Conversations, narrative_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return F1 with the marked words of what could be copied without reading, by guess and narrative.

    Narratives without known utterances have none.
    """
    guesses: dict[str, Callable[[tuple[str, ...]], str]] = {
        "the last line": lambda said: said[-1],
        "the line before the last": lambda said: said[-2] if len(said) > 1 else said[-1],
        "the longest line": lambda said: max(said, key=len),
        "all lines": " ".join,
        "that there is no cause": lambda said: "none",
    }
    asked = [name for name in narrative_ids if name in corpus.utterances]
    scorer = CauseSpans(corpus.causes)
    found = {}
    for name, guess in guesses.items():
        scores = scorer.score([Reply(guess(corpus.utterances[each]), narrative_id=each) for each in asked])
        found[name] = dict(zip(asked, scores[:, 1].tolist(), strict=True))
    return found if asked else {}


class CauseEntailment:
    """Takes :data:`ENTAILMENTS` of answers.

    ``is_cause`` says of each narrative, an utterance with a possible cause, whether people marked it as one; answers
    about others are NaN. An answer is read by its first word, after "Answer:" if that stands there. Whatever does not
    begin with yes or no, or is both ("yes and no"), is unreadable, and missing from the other measures.
    """

    measures = ENTAILMENTS

    def __init__(self, is_cause: Mapping[str, bool]) -> None:
        self._is_cause = dict(is_cause)

    @property
    def facts(self) -> dict[str, Any]:
        """Numbers of narratives and of causes among them, the hash of both, and how answers are read."""
        return {
            "n_narratives": len(self._is_cause),
            "n_causes": sum(self._is_cause.values()),
            "sha256": fingerprint(self._is_cause),
            "read_by": _YES_NO.pattern,
        }

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 4)."""
        rows = [self._score(reply) for reply in replies]
        return np.array(rows, dtype=np.float64).reshape(len(replies), len(ENTAILMENTS))

    def _score(self, reply: Reply) -> tuple[float, float, float, float]:
        if reply.narrative_id not in self._is_cause:
            return np.nan, np.nan, np.nan, np.nan
        said = says_yes(reply.text)
        if said is None:
            return np.nan, np.nan, np.nan, 1.0
        is_cause = self._is_cause[reply.narrative_id]
        right = float(said == is_cause)
        return right, right if is_cause else np.nan, np.nan if is_cause else right, 0.0


def says_yes(answer: str) -> bool | None:
    """Whether an answer begins with yes, or with no; None if with neither.

    Examples
    --------
    >>> [says_yes(answer) for answer in ("Yes.", "**No**, it came later", "Answer: yes", "It did", "yes and no")]
    [True, False, True, None, None]
    """
    found = _YES_NO.match(answer_of(answer))
    return None if found is None else found["said"].lower() == "yes"


def says_none(answer: str) -> bool:
    """Whether an answer's first sentence says that there is no cause, by our patterns for English."""
    first = next(iter(sentences(_bare(answer))), "")
    return _NONE.fullmatch(" ".join(_words(first))) is not None


def _bare(answer: str) -> str:
    """Remove a label such as "Cause:" before an answer."""
    label = _BEFORE.match(answer)
    return answer[label.end() :] if label else answer


def _words(text: str) -> list[str]:
    return span_words(text.translate(_STRAIGHT))
