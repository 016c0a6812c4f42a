"""Any classifier of texts as measures of replies: a probability for each label, an expected level, or emotion accuracy.

The emotion accuracy of Qian, Zhang and Liu (2023), arXiv:2310.05140, is the share of replies in which a classifier
finds the emotion of what they reply to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import ClassifierConfig, MeasuresConfig
from audit.engines.classifier import Classifier, open_classifier
from audit.errors import ModelError
from audit.tasks.measures.base import Measure, Reply, Scorer, Wanted, reading
from audit.tasks.measures.regard import MASK, IdentityMask
from stimuli.errors import suggest
from stimuli.narratives import Narrative, emotion_words
from stimuli.sentences import words

_CAUTION: Final = "By a classifier that the user chose; it is as good as its training."


@dataclass(frozen=True)
class ClassifiedScorer:
    """Scores replies by one classifier; made by :func:`open_classified`."""

    name: str
    classifier: Classifier
    config: ClassifierConfig
    mask: IdentityMask
    emotions: Mapping[str, int]  # by the narratives' emotions, which of the classifier's labels is theirs

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The expected level or each label's probability; then whether the likeliest is the narrative's emotion."""
        source, better = f"classifier {self.classifier.name}", self.config.better
        found = []
        if self.config.levels is not None:
            ends = self.config.levels.values()
            title = f"{self.name}: expected level"
            found.append(Measure(self.name, title, "level", better, source, _CAUTION, min(ends), max(ends)))
        else:
            for label in self._labels:
                name, title = f"{self.name}_{_plain(label)}", f"{self.name}: {label}"
                found.append(Measure(name, title, "probability", better, source, _CAUTION, 0, 1))
        if self.config.emotion:
            title = f"{self.name}: the narrative's emotion is the likeliest"
            found.append(Measure(f"{self.name}_hit", title, "0 or 1", "higher", source, _CAUTION, 0, 1))
        return tuple(found)

    @property
    def _labels(self) -> Sequence[str]:
        return self.config.labels or self.classifier.labels

    @property
    def facts(self) -> dict[str, Any]:
        """The classifier's facts, and what is masked."""
        return {**self.classifier.facts, "mask": MASK, "masked": list(self.mask.wordings)}

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """``cut``: replies that were truncated for the classifier."""
        return {"": Counter(cut=self.classifier.n_cut)}

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n, measures); NaN for a reply without a letter or digit, or whose emotion has no label."""
        scores = np.full((len(replies), len(self.measures)), np.nan)
        said = [place for place, reply in enumerate(replies) if words(reply.text)]
        shares = self.classifier.probabilities([self.mask(replies[place].text) for place in said])
        labels = self.classifier.labels
        if self.config.levels is not None:
            scores[said, 0] = shares @ [self.config.levels[label] for label in labels]
        else:
            scores[said, : len(self._labels)] = shares[:, [labels.index(label) for label in self._labels]]
        if self.config.emotion:
            right = [self.emotions.get(replies[place].emotion, np.nan) for place in said]
            scores[said, -1] = np.where(np.isnan(right), np.nan, shares.argmax(axis=1) == right)
        return scores


def open_classified(
    name: str,
    config: ClassifierConfig,
    *,
    terms: Sequence[str],
    emotions: Mapping[str, Sequence[str]],  # the words for each of the narratives' emotions
    **options: Any,
) -> Scorer:
    """Return the scorer of a classifier. Raises ModelError if it has not the labels that the configuration names."""
    asked = f"classifier {config.model} (measures.classifier.{name})"
    classifier = open_classifier(config.model, asked=asked, revision=config.revision, several=True, **options)
    labels = classifier.labels
    for label in (*(config.labels or ()), *(config.levels or ())):
        if label not in labels:
            raise ModelError(f"{asked} has no label {label!r}; {suggest(label, labels)}")
    if config.levels is not None and (lacking := [label for label in labels if label not in config.levels]):
        raise ModelError(f"{asked}: its label {lacking[0]!r} has no level; name a level for each of its labels")
    if config.levels is not None and not classifier.exclusive:
        raise ModelError(f"{asked}: several of its labels may fit one text, so there is no expected level; name labels")
    shown = [_plain(label) for label in config.labels or labels]
    if config.levels is None and (not all(shown) or len(set(shown)) < len(shown)):
        raise ModelError(f"{asked}: the names of its labels ({', '.join(labels)}) make no different names of measures")
    plain = {_plain(label): place for place, label in enumerate(labels)}
    places = {
        emotion: place
        for emotion, its in emotions.items()
        if (place := next((plain[_plain(word)] for word in its if _plain(word) in plain), None)) is not None
    }
    if config.emotion and not places:
        raise ModelError(f"{asked}: none of its labels ({', '.join(labels)}) is an emotion of this run's narratives")
    mask = IdentityMask(terms if config.mask else ())
    return ClassifiedScorer(f"classifier_{name}", classifier, config, mask, places)


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def wanted_classifiers(
    config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]
) -> Iterator[Wanted]:
    """Yield a scorer for each of the user's classifiers."""
    known = emotion_words() | {narrative.emotion: narrative.words for narrative in narratives}
    emotions = {each.emotion: (each.emotion, *astuple(known[each.emotion])) for each in narratives}
    for name, own in config.classifier.items():
        asked: dict[str, Any] = own.model_dump(mode="json", exclude_defaults=True)
        if own.emotion:
            asked |= {"emotions": {emotion: list(its) for emotion, its in emotions.items()}}
        opening = partial(open_classified, name, own, terms=terms, emotions=emotions, **reading(config))
        yield Wanted(f"classifier_{name}", asked, opening)
