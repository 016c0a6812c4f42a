"""EQ, the empathy score of Empathetic Cascading Networks: what a reply entails, by an NLI model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.schema import MeasuresConfig
from audit.engines.classifier import Classifier, open_classifier, softmax
from audit.errors import ConfigError, ModelError
from audit.statistics.texts.words import words
from audit.tasks.measures.base import Measure, Reply, Scorer, Wanted, reading
from stimuli.errors import suggest
from stimuli.narratives import Narrative

HYPOTHESES: Final[Mapping[str, str]] = {
    "emotion": "This response acknowledges the user's emotions.",
    "perspective": "This response shows understanding of the user's perspective.",
    "advice": "This response gives constructive, empathetic advice.",
}
"""The hypothesis of each part: the study's three criteria, in our wording."""

_SOURCE: Final = (
    "Empathetic Cascading Networks (arXiv:2511.18696), by zero-shot NLI (Yin et al. 2019, arXiv:1909.00161)"
)
_CAUTION: Final = "Circular for ECN strategies, whose last stage asks for what EQ scores."
_TITLES: Final = {
    "emotion": "EQ: acknowledges emotions",
    "perspective": "EQ: understands the perspective",
    "advice": "EQ: advises constructively",
}


def _measure(name: str, title: str) -> Measure:
    return Measure(name, title, "probability", "higher", _SOURCE, _CAUTION, low=0, high=1)


@dataclass(frozen=True)
class EqScorer:
    """Scores replies by an NLI model; made by :func:`open_eq`."""

    classifier: Classifier
    contradiction: int  # the places of the classifier's two labels
    entailment: int
    hypotheses: Mapping[str, str]
    _cut: Counter[str] = field(default_factory=Counter, init=False, repr=False)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The three parts, and their mean ``eq``."""
        return (*(_measure(f"eq_{part}", title) for part, title in _TITLES.items()), _measure("eq", "EQ"))

    @property
    def facts(self) -> dict[str, Any]:
        """The classifier's facts and the hypotheses."""
        return {**self.classifier.facts, "hypotheses": dict(self.hypotheses)}

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """``cut``: replies that were truncated for the model, with one hypothesis or several."""
        return {"": Counter(cut=self._cut["cut"])}

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n, 4), probabilities; NaN for a reply without a letter or digit."""
        scores = np.full((len(replies), len(_TITLES) + 1), np.nan)
        said = [place for place, reply in enumerate(replies) if words(reply.text)]
        premises = [replies[place].text for place in said]
        n_cut = [self.classifier.n_cut]
        for k, part in enumerate(_TITLES):
            logits = self.classifier.logits(premises, [self.hypotheses[part]] * len(said))
            scores[said, k] = softmax(logits[:, [self.contradiction, self.entailment]])[:, 1]
            n_cut.append(self.classifier.n_cut)
        scores[said, -1] = scores[said, :-1].mean(axis=1)
        # A reply that is cut with one hypothesis is cut with every longer one, so the longest counts them all.
        self._cut["cut"] += max(after - before for before, after in pairwise(n_cut))
        return scores


def open_eq(
    model: str = "facebook/bart-large-mnli",
    *,
    revision: str | None = None,
    device: str = "cpu",
    batch_size: int = 16,
    download: bool = False,
    hypotheses: Mapping[str, str] = HYPOTHESES,
) -> Scorer:
    """Return the scorer of EQ.

    The reply is the premise, each hypothesis is tried in turn, and the score is the probability of entailment against
    contradiction alone [2]_: the softmax over these two labels, as in Hugging Face's zero-shot pipeline with
    ``multi_label=True``. The pipeline takes the first or last label for contradiction; here it is found by its name.
    The study [1]_ does not say how it combines the three: ``eq`` is their mean, our choice.

    ``model`` is a folder or hub id of a classifier with a label that begins with "entail" and one that begins with
    "contra", in any case.

    References
    ----------
    .. [1] Empathetic Cascading Networks, arXiv:2511.18696.
    .. [2] Yin, Hay and Roth (2019), Benchmarking Zero-shot Text Classification, arXiv:1909.00161.
    """
    for part in hypotheses:
        if part not in HYPOTHESES:
            raise ConfigError(f"EQ: there is no part {part!r} to have a hypothesis; {suggest(part, HYPOTHESES)}")
    for part in HYPOTHESES:
        if not hypotheses.get(part, "").strip():
            raise ConfigError(f"EQ: the part {part!r} needs a hypothesis, a sentence about a reply")
    classifier = open_classifier(
        model,
        asked=f"EQ's NLI model {model}",
        revision=revision,
        device=device,
        batch_size=batch_size,
        download=download,
    )
    return EqScorer(
        classifier,
        contradiction=_place(classifier, "contra"),
        entailment=_place(classifier, "entail"),
        hypotheses=hypotheses,
    )


def _place(classifier: Classifier, prefix: str) -> int:
    places = [k for k, label in enumerate(classifier.labels) if label.lower().startswith(prefix)]
    if len(places) != 1:
        raise ModelError(
            f"EQ's NLI model {classifier.name}: of its labels ({', '.join(classifier.labels)}) {len(places)} begin "
            f"with {prefix!r}; choose a model of natural language inference, with one for contradiction and one for "
            "entailment"
        )
    return places[0]


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    own = config.eq
    hypotheses = {**HYPOTHESES, **own.hypotheses.model_dump(exclude_none=True)}
    asked = own.model_dump(mode="json") | {"hypotheses": hypotheses}
    scorer = partial(open_eq, own.model, revision=own.revision, hypotheses=hypotheses, **reading(config))
    return Wanted("eq", asked, scorer)
