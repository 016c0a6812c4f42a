"""EPITOME: three mechanisms of empathy in a reply, each at a level from 0 to 2, by a classifier for each.

A classifier is a checkpoint of the study's own bi-encoder, which also finds the words that a level rests on, or any
sequence classifier of transformers that was fine-tuned on pairs, first the post and then the reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig
from audit.engines.biencoder import BiEncoder, open_biencoder
from audit.engines.classifier import SEQUENCE, Classifier, architectures, open_classifier
from audit.engines.resolve import check_model_folder, find_folder
from audit.errors import ConfigError, ModelError
from audit.tasks.measures.base import Measure, Reply, Scorer, Wanted, reading
from stimuli.errors import suggest
from stimuli.narratives import Narrative
from stimuli.sentences import words

MECHANISMS: Final[Mapping[str, str]] = {
    "emotional_reactions": "emotional reactions",
    "interpretations": "interpretations",
    "explorations": "explorations",
}
"""The study's mechanisms, with their names for readers."""

LEVELS: Final = (
    ("0", "1", "2"),
    ("no", "weak", "strong"),
    ("none", "weak", "strong"),
    ("no communication", "weak communication", "strong communication"),
    ("label_0", "label_1", "label_2"),
)
"""Names under which a classifier may have the levels 0, 1 and 2, in any case and order."""

_SOURCE: Final = "EPITOME (Sharma et al. 2020, arXiv:2009.08441)"
_NO_CLASSIFIER: Final = (
    "it needs a classifier for each mechanism: measures.epitome.emotional_reactions=FOLDER_OR_HUB_ID, and likewise "
    "interpretations and explorations; docs/replies.md names published ones"
)
_CAUTION: Final = "By a classifier that the user chose; it is as good as its training, on posts of other people."


@dataclass(frozen=True)
class EpitomeScorer:
    """Scores replies by one classifier for each mechanism; made by :func:`open_epitome`."""

    classifiers: Mapping[str, Classifier | BiEncoder]
    places: Mapping[str, Sequence[int]]  # by mechanism, which of the classifier's labels are the levels 0, 1 and 2

    @property
    def measures(self) -> tuple[Measure, ...]:
        """For each mechanism its likeliest level, then its expected level."""
        return tuple(measure for mechanism in self.classifiers for measure in _measures(mechanism))

    @property
    def facts(self) -> dict[str, Any]:
        """Each classifier's facts by mechanism, with its labels by level."""
        return {
            mechanism: {**classifier.facts, "levels": [classifier.labels[k] for k in self.places[mechanism]]}
            for mechanism, classifier in self.classifiers.items()
        }

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """``cut``: replies whose narrative was truncated, since both together were too long for the model."""
        return {
            measure.name: Counter(cut=classifier.n_cut)
            for mechanism, classifier in self.classifiers.items()
            for measure in _measures(mechanism)
        }

    @property
    def marks(self) -> bool:
        """Whether a classifier finds rationales."""
        return any(isinstance(classifier, BiEncoder) for classifier in self.classifiers.values())

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n, 2 mechanisms), levels; if two are equally likely, the likeliest is the lower one.

        NaN if reply or narrative has no letter or digit: the classifiers were trained on both.
        """
        return self.score_and_mark(replies)[0]

    def score_and_mark(
        self, replies: Sequence[Reply]
    ) -> tuple[npt.NDArray[np.float64], list[tuple[int, str, int, int]]]:
        """Return :meth:`score`, and the rationales of likeliest levels 1 and 2, which only bi-encoders find."""
        scores = np.full((len(replies), 2 * len(self.classifiers)), np.nan)
        marks: list[tuple[int, str, int, int]] = []
        said = [place for place, reply in enumerate(replies) if words(reply.text) and words(reply.narrative)]
        narratives, texts = [replies[place].narrative for place in said], [replies[place].text for place in said]
        for k, (mechanism, classifier) in enumerate(self.classifiers.items()):
            if isinstance(classifier, BiEncoder):
                found, spans = classifier.read(narratives, texts)
            else:
                found, spans = classifier.probabilities(narratives, texts), []
            of_levels = found[:, list(self.places[mechanism])]
            scores[said, 2 * k] = of_levels.argmax(axis=1)
            scores[said, 2 * k + 1] = of_levels @ [0.0, 1.0, 2.0]
            shown = [(place, own) for place, own in zip(said, spans, strict=False) if scores[place, 2 * k] > 0]
            marks += [(place, f"epitome_{mechanism}", *span) for place, own in shown for span in own]
        return scores, marks


def open_epitome(
    models: Mapping[str, str],
    *,
    revisions: Mapping[str, str | None] | None = None,
    encoder: str = "FacebookAI/roberta-base",
    lower_case: bool = False,
    device: str = "cpu",
    batch_size: int = 16,
    download: bool = False,
) -> Scorer:
    """Return the scorer of the mechanisms that have a classifier.

    The levels are no (0), weak (1) and strong communication (2) of a mechanism [1]_. Each gives two measures: the
    likeliest level, as in the study, and the mean of the levels by their probability, which is ours. As in the study,
    they are not summed over mechanisms.

    ``models`` gives, by mechanism, a checkpoint of the study's bi-encoder, a file, folder or hub id; or the folder or
    hub id of a sequence classifier of pairs (narrative, reply) whose three labels are named as in :data:`LEVELS`.
    ``encoder`` and ``lower_case`` are for bi-encoders: see :func:`audit.engines.biencoder.open_biencoder`.

    References
    ----------
    .. [1] Sharma, Miner, Atkins and Althoff (2020), A Computational Approach to Understanding Empathy Expressed in
       Text-Based Mental Health Support, arXiv:2009.08441.
    """
    for mechanism in (*models, *(revisions or ())):
        if mechanism not in MECHANISMS:
            raise ConfigError(f"EPITOME: {mechanism!r} is not a mechanism; {suggest(mechanism, MECHANISMS)}")
    if not models:
        raise ConfigError(f"EPITOME needs a classifier for at least one mechanism; {suggest('', MECHANISMS)}")
    classifiers = {
        mechanism: _open_classifier(
            models[mechanism],
            f"EPITOME's classifier {models[mechanism]} of {MECHANISMS[mechanism]}",
            (revisions or {}).get(mechanism),
            encoder,
            lower_case,
            {"device": device, "batch_size": batch_size, "download": download},
        )
        for mechanism in MECHANISMS
        if mechanism in models
    }
    return EpitomeScorer(classifiers, {each: _places(each, classifier) for each, classifier in classifiers.items()})


def _open_classifier(
    model: str, asked: str, revision: str | None, encoder: str, lower_case: bool, options: dict[str, Any]
) -> Classifier | BiEncoder:
    """Open a sequence classifier where config.json says that it is one, else a bi-encoder."""
    if not Path(model).expanduser().is_file():
        check = partial(check_model_folder, name=model, weights=False)
        files = find_folder(
            model, asked=asked, revision=revision, check=check, weights=False, download=options["download"]
        )
        if any(kind.endswith(SEQUENCE) for kind in architectures(files.folder)):
            return open_classifier(model, asked=asked, revision=revision, **options)
    return open_biencoder(model, asked=asked, encoder=encoder, lower_case=lower_case, revision=revision, **options)


def _measures(mechanism: str) -> tuple[Measure, ...]:
    return tuple(
        Measure(name, title, "level", "higher", _SOURCE, _CAUTION, low=0, high=2)
        for name, title in (
            (f"epitome_{mechanism}", f"EPITOME: {MECHANISMS[mechanism]}"),
            (f"epitome_{mechanism}_expected", f"EPITOME: {MECHANISMS[mechanism]}, expected"),
        )
    )


def _places(mechanism: str, classifier: Classifier | BiEncoder) -> list[int]:
    labels = [label.strip().lower() for label in classifier.labels]
    named = next((names for names in LEVELS if sorted(names) == sorted(labels)), None)
    if named is None:
        raise ModelError(
            f"EPITOME's classifier {classifier.name} of {MECHANISMS[mechanism]}: its labels "
            f"({', '.join(classifier.labels)}) are not three levels; name them "
            f"{' or '.join(', '.join(names) for names in LEVELS)} in id2label of its config.json"
        )
    return [labels.index(name) for name in named]


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    given = {name: model for name in MECHANISMS if (model := getattr(config.epitome, name)) is not None}
    own = {name: getattr(config.epitome, name) for name in ("encoder", "lower_case")}
    asked = config.epitome.model_dump(mode="json", exclude={"labels"}, exclude_none=True, exclude_defaults=True)
    models = {name: classifier.model for name, classifier in given.items()}
    revisions = {name: classifier.revision for name, classifier in given.items()}
    scorer = partial(open_epitome, models, revisions=revisions, **own, **reading(config))
    return Wanted("epitome", asked, scorer, "" if given else _NO_CLASSIFIER)
