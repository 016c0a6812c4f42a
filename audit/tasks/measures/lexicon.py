"""Similarity of a reply's emotion words to its narrative's, by a lexicon of words and emotions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig
from audit.tasks.measures.base import Measure, Reply, Wanted
from audit.tasks.measures.regard import IdentityMask
from audit.tasks.measures.wordlists import FORMS_FILE, EmotionForms, load_forms, plain_sentence
from stimuli.errors import StimulusError
from stimuli.hashes import fingerprint
from stimuli.narratives import EmotionWords, Narrative, emotion_valence, emotion_words
from stimuli.sentences import sentences, words
from stimuli.table_files import SUFFIXES
from stimuli.tables import read_cells
from stimuli.yaml_files import may_be_file, read_text, read_yaml

_SOURCE: Final = "emotion lexicons as proxies of empathy, chinaxiv-202506.00080; formula ours"
_CAUTION: Final = (
    "Words are counted, without negation or context, and whose emotion it is is not read. An empathic reply may answer "
    "fear with calm: likeness to the narrative is not empathy."
)

LEXICON: Final = (
    Measure(
        "lexicon_distance",
        "Distance of emotion words to the narrative's",
        "share",
        "lower",
        _SOURCE,
        _CAUTION,
        0.0,
        1.0,
    ),
    Measure(
        "lexicon_cosine",
        "Likeness of emotion words to the narrative's",
        "cosine",
        "higher",
        _SOURCE,
        _CAUTION,
        0.0,
        1.0,
    ),
)
"""The measures of :class:`LexiconScorer`, in the order of its columns."""

_VALUES: Final = {"0": False, "1": True}
_WITH_HEADER: Final = SUFFIXES - {".txt", ".tsv", ".tab"}
"""Endings of tables with a header. Lexicons are published as lines with tabs and without a header."""
_SHOWN: Final = 60  # characters of a user's text in a message


@dataclass(frozen=True)
class EmotionLexicon:
    """The emotions that each word is associated with."""

    source: str  # `packaged` or `file`
    emotions: Mapping[str, tuple[str, ...]]  # by word, as words() writes it; a valence counts as an emotion
    n_phrases: int = 0  # entries of several words, which are never found
    phrases: EmotionForms | None = None  # in which a word does not count

    @property
    def names(self) -> tuple[str, ...]:
        """All emotions of the lexicon, sorted."""
        return tuple(sorted({name for own in self.emotions.values() for name in own}))

    @property
    def sha256(self) -> str:
        """Hash of words, emotions and phrases, whatever the format of the file."""
        content = [{word: sorted(own) for word, own in self.emotions.items()}, self.phrases and self.phrases.sha256]
        return fingerprint(content)

    def profile(self, text: str) -> Counter[str]:
        """Count, for each emotion, the words of a text that are associated with it."""
        if self.phrases is not None:
            text = "\n".join(self.phrases.without_phrases(plain_sentence(sentence)) for sentence in sentences(text))
        return Counter(name for word in words(text) for name in self.emotions.get(word, ()))


class LexiconScorer:
    """Takes :data:`LEXICON` of replies.

    ``terms`` are masked before words are counted, since a lexicon may hold them ("black" as a sad word), and naming
    somebody is no emotion. ``narrative`` says whether a reply is compared with the ``text`` of its narrative, or with
    the words for its ``emotion`` if narratives name none.

    Notes
    -----
    Let a_e be the number of the narrative's words that the lexicon associates with emotion e, and b_e that of the
    reply's; a word of several emotions counts in each. With the profiles p = a / Σa and q = b / Σb,

    - ``lexicon_distance`` = ½ Σ_e |p_e − q_e|, the total variation: 0 if the emotions have the same shares, 1 if
      no emotion is in both;
    - ``lexicon_cosine`` = Σ_e a_e b_e / √(Σ_e a_e² · Σ_e b_e²), the affective cosine similarity: 1 and 0 there.

    Both are missing if the narrative or the reply has no word of the lexicon: nothing is known then, which is not a
    distance of 0.

    The survey [1]_ names a lexicon of emotions such as NRC's [2]_, and affective similarity, as proxies of empathy; we
    know of no published formula, so these are ours. They need no training and no model, and see nothing but words.

    References
    ----------
    .. [1] Survey of empathy simulation in large language models, chinaxiv-202506.00080.
    .. [2] Mohammad and Turney (2013), Crowdsourcing a Word-Emotion Association Lexicon, Computational Intelligence
       29(3), 436–465.
    """

    measures = LEXICON

    def __init__(
        self,
        lexicon: EmotionLexicon,
        *,
        terms: Sequence[str] = (),
        narrative: Literal["text", "emotion"] = "text",
        emotions: Mapping[str, EmotionWords] | None = None,
    ) -> None:
        self._lexicon, self._narrative = lexicon, narrative
        self._mask = IdentityMask(terms)
        self._emotions = emotion_words() if emotions is None else emotions

    @property
    def facts(self) -> dict[str, Any]:
        """The lexicon, what replies are compared with, and what is masked."""
        own = self._lexicon
        return {
            "lexicon": {
                "source": own.source,
                "sha256": own.sha256,
                "n_words": len(own.emotions),
                "n_phrases": own.n_phrases,
                "emotions": list(own.names),
            },
            "narrative": self._narrative,
            "masked": list(self._mask.wordings),
        }

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 2); NaN if the narrative or the reply has no word of the lexicon."""
        profile_of = cache(lambda text: self._lexicon.profile(self._mask(text)))
        rows = [_compared(profile_of(self._held_against(reply)), profile_of(reply.text)) for reply in replies]
        return np.array(rows, dtype=np.float64).reshape(len(replies), len(LEXICON))

    def _held_against(self, reply: Reply) -> str:
        if self._narrative == "text":
            return reply.narrative
        own = self._emotions.get(reply.emotion, EmotionWords("", ""))
        return "\n".join(dict.fromkeys(filter(None, (reply.emotion, own.noun, own.adjective))))


def load_lexicon(path: Path | None = None) -> EmotionLexicon:
    """Read a lexicon of words and emotions.

    A file that ends in ``.csv`` has the columns ``word``, ``emotion`` and ``association``. Any other is in the
    word-level form of the NRC Emotion Lexicon, without a header: word, emotion and association, separated by tabs. An
    association is 1 or 0; a pair that is not in the file has none.

    None is the packaged lexicon: **ours, and not normed on people**. It has only the forms of ``emotion_forms.yaml``,
    each associated with its family ("happier": happiness) and with the valence of ``emotions.yaml`` (positive; none for
    surprise), so it finds only emotions that are named by these words. We found no licence to redistribute NRC's
    lexicon: bring your own copy.
    """
    if path is None:
        return _packaged()
    found: dict[tuple[str, str], bool] = {}
    for place, word, emotion, value in _rows(path):
        if value not in _VALUES:
            raise StimulusError(
                f"{place}: the association of {word[:_SHOWN]!r} with {emotion[:_SHOWN]!r} is {value[:_SHOWN]!r}; write "
                "1 or 0"
            )
        pair = word.lower(), emotion.lower()
        if found.setdefault(pair, _VALUES[value]) != _VALUES[value]:
            raise StimulusError(
                f"{place}: {word[:_SHOWN]!r} is associated with {emotion[:_SHOWN]!r} in one row and not in "
                "another; keep one"
            )
    emotions: dict[str, dict[str, None]] = {}
    phrases = set()
    for (word, emotion), associated in found.items():
        if associated:
            spelt = words(word)
            if len(spelt) == 1:
                emotions.setdefault(spelt[0], {})[emotion] = None
            else:
                phrases.add(word)
    if not emotions:
        raise StimulusError(f"{path}: no word has an association of 1; give word, emotion and 0 or 1")
    return EmotionLexicon("file", {word: tuple(own) for word, own in emotions.items()}, len(phrases))


def _rows(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield the place, word, emotion and association of each row."""
    if path.suffix.lower() in _WITH_HEADER:
        columns = ("word", "emotion", "association")
        for place, cells in read_cells(path, dict(zip(columns, columns, strict=True)), of="words"):
            yield place, cells["word"], cells["emotion"], cells["association"]
        return
    if not may_be_file(path):
        raise StimulusError(f"{path} is not a file")
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            parts = [part.strip() for part in line.split("\t")]
            if len(parts) != 3 or not all(parts):
                raise StimulusError(
                    f"{path}: line {number}: {line[:_SHOWN]!r} must be word, emotion and 0 or 1, separated by "
                    "tabs; a file with commas must end in .csv"
                )
            yield f"{path}: line {number}", parts[0], parts[1], parts[2]


def _packaged() -> EmotionLexicon:
    of_name = emotion_valence()
    valence = {own.noun: (of_name[name],) for name, own in emotion_words().items() if of_name[name] != "neutral"}
    emotions = {
        form: (name, *valence.get(name, ()))
        for name, family in read_yaml(FORMS_FILE)["families"].items()
        for form in family
    }
    return EmotionLexicon("packaged", emotions, phrases=load_forms())


def _compared(one: Mapping[str, int], other: Mapping[str, int]) -> tuple[float, float]:
    """Return distance and cosine of two profiles; NaN if one is empty."""
    if not one or not other:
        return float("nan"), float("nan")
    names = sorted({*one, *other})
    a, b = (np.array([own.get(name, 0) for name in names], dtype=np.float64) for own in (one, other))
    distance = float(np.abs(a / a.sum() - b / b.sum()).sum()) / 2
    cosine = float(a @ b / np.sqrt((a @ a) * (b @ b)))
    return min(distance, 1.0), min(cosine, 1.0)


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    own = config.lexicon
    lexicon = load_lexicon(own.path)
    words = emotion_words() | {narrative.emotion: narrative.words for narrative in narratives}
    asked: dict[str, Any] = {"lexicon": lexicon.sha256, "narrative": own.narrative, "terms": list(terms)}
    absent = ""
    if own.narrative == "emotion":
        asked["emotions"] = {emotion: list(astuple(its)) for emotion, its in words.items()}
    elif not any(lexicon.profile(text) for each in narratives for text in _wordings(each)):
        absent = (
            f"no narrative of this run has a word of the {lexicon.source} lexicon ({len(lexicon.emotions):,} words): "
            "give a larger one, measures.lexicon.path=FILE, or compare replies with the narrative's emotion, "
            "measures.lexicon.narrative=emotion"
        )
    scorer = partial(LexiconScorer, lexicon, terms=terms, narrative=own.narrative, emotions=words)
    return Wanted("lexicon", asked, scorer, absent)


def _wordings(narrative: Narrative) -> tuple[str, str, str]:
    return narrative.neutral, narrative.first_person, narrative.third_person
