"""Turns the configured measures into scorers. Each scorer is opened only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Final

from audit.configuration.measures import MeasuresConfig
from audit.configuration.schema import fingerprint
from audit.tasks.measures.base import Measure, Scorer
from stimuli.narratives import EmotionWords, Narrative, emotion_words

JUDGE: Final = "judge"
"""A scorer by an instruction-tuned model; :mod:`audit.tasks.reply.scoring` opens it."""
DIVERSITY: Final = "diversity"
"""Measures of all replies taken together, which need no scorer and have no gap."""
_DIST_CAUTION: Final = "falls with the number and the length of the replies taken together"
_NO_CLASSIFIER: Final = (
    "it needs trained classifiers of your own, one a mechanism: measures.epitome.emotional_reactions=FOLDER_OR_HUB_ID, "
    "and likewise interpretations and explorations"
)
_NO_REFERENCES: Final = (
    "it needs reference replies: measures.bertscore.references=FILE, a CSV with narrative_id, reference"
)
CORPORA: Final = {
    n: Measure(
        f"dist_{n}",
        f"Dist-{n}: distinct {what} of all, over all replies together",
        f"share of {what}",
        "higher",
        "Li et al. (2016), arXiv:1510.03055",
        _DIST_CAUTION,
        low=0.0,
        high=1.0,
    )
    for n, what in ((1, "words"), (2, "pairs of neighbouring words"))
}
"""The measures of all replies taken together, by n of their n-grams."""


@dataclass(frozen=True)
class Wanted:
    """A scorer that the configuration asks for.

    Attributes
    ----------
    name
        Among ``measures.names``.
    asked
        Everything in the configuration that its numbers depend on, as plain values.
    open
        Loads it. Raises ModelError, or ModelAbsentError if an audit can do without it.
    absent
        What the configuration lacks to open it; else empty.
    """

    name: str
    asked: dict[str, Any]
    open: Callable[[], Scorer]
    absent: str = ""


def wanted_scorers(
    config: MeasuresConfig, *, terms: Sequence[str], narratives: Sequence[Narrative]
) -> Iterator[Wanted]:
    """Yield the configured scorers in order, without ``diversity``, which needs none.

    ``terms`` are the wordings of all identities of the run, which regard must not see. ``narratives`` are the run's:
    their references are read, and a reply may name their emotions.
    """
    for name in dict.fromkeys(config.names):
        match name:
            case "lexical":
                yield Wanted(name, {}, _lexical)
            case "emotion":
                words = emotion_words() | {narrative.emotion: narrative.words for narrative in narratives}
                asked = {"emotions": {emotion: list(astuple(its)) for emotion, its in words.items()}}
                yield Wanted(name, asked, partial(_emotion, words))
            case "lexicon":
                yield _lexicon(config, terms, narratives)
            case "perplexity":
                yield Wanted(name, config.perplexity.model_dump(mode="json"), partial(_perplexity, config))
            case "eq":
                hypotheses = _hypotheses(config)
                asked = config.eq.model_dump(mode="json") | {"hypotheses": hypotheses}
                yield Wanted(name, asked, partial(_eq, config, hypotheses))
            case "regard":
                asked = config.regard.model_dump(mode="json") | {"terms": list(terms)}
                yield Wanted(name, asked, partial(_regard, config, terms))
            case "bertscore":
                yield _bertscore(config, [narrative.narrative_id for narrative in narratives])
            case "epitome":
                asked = config.epitome.model_dump(mode="json", exclude={"labels"}, exclude_none=True)
                yield Wanted(name, asked, partial(_epitome, config), "" if asked else _NO_CLASSIFIER)


def _lexical() -> Scorer:
    from audit.tasks.measures.lexical import LexicalScorer

    return LexicalScorer()


def _emotion(words: Mapping[str, EmotionWords]) -> Scorer:
    from audit.tasks.measures.emotion import EmotionScorer, vocabulary_of

    return EmotionScorer(vocabulary_of(words))


def _lexicon(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    from audit.tasks.measures.lexicon import LexiconScorer, load_lexicon

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
            "name a larger one, measures.lexicon.path=FILE, or hold replies against the narrative's emotion, "
            "measures.lexicon.narrative=emotion"
        )
    scorer = partial(LexiconScorer, lexicon, terms=terms, narrative=own.narrative, emotions=words)
    return Wanted("lexicon", asked, scorer, absent)


def _wordings(narrative: Narrative) -> tuple[str, str, str]:
    return narrative.neutral, narrative.first_person, narrative.third_person


def _perplexity(config: MeasuresConfig) -> Scorer:
    from audit.tasks.measures.perplexity import PerplexityScorer

    own = config.perplexity
    return PerplexityScorer(own.model, revision=own.revision, device=config.device, download=config.download)


def _hypotheses(config: MeasuresConfig) -> dict[str, str]:
    from audit.tasks.measures.eq import HYPOTHESES

    return {**HYPOTHESES, **config.eq.hypotheses.model_dump(exclude_none=True)}


def _eq(config: MeasuresConfig, hypotheses: Mapping[str, str]) -> Scorer:
    from audit.tasks.measures.eq import open_eq

    return open_eq(config.eq.model, revision=config.eq.revision, hypotheses=hypotheses, **_reading(config))


def _regard(config: MeasuresConfig, terms: Sequence[str]) -> Scorer:
    from audit.tasks.measures.regard import open_regard

    own = config.regard
    labels = own.labels.model_dump() if own.labels else None
    return open_regard(own.model, terms=terms, revision=own.revision, labels=labels, **_reading(config))


def _bertscore(config: MeasuresConfig, narrative_ids: Collection[str]) -> Wanted:
    from audit.tasks.measures.bertscore import BertScoreScorer, read_references

    own = config.bertscore
    references = {} if own.references is None else read_references(own.references, narrative_ids)
    asked = own.model_dump(mode="json", exclude={"references"})
    asked["references"] = fingerprint({name: list(texts) for name, texts in references.items()})
    absent = "" if own.references else _NO_REFERENCES
    if own.references and not references:
        absent = f"measures.bertscore.references={own.references} has no reference to any narrative of this run"
    scorer = partial(
        BertScoreScorer,
        references,
        model=own.model,
        layer=own.layer,
        revision=own.revision,
        device=config.device,
        download=config.download,
    )
    return Wanted("bertscore", asked, scorer, absent)


def _epitome(config: MeasuresConfig) -> Scorer:
    from audit.tasks.measures.epitome import MECHANISMS, open_epitome

    own = {name: model for name in MECHANISMS if (model := getattr(config.epitome, name)) is not None}
    models = {name: classifier.model for name, classifier in own.items()}
    revisions = {name: classifier.revision for name, classifier in own.items()}
    return open_epitome(models, revisions=revisions, **_reading(config))


def _reading(config: MeasuresConfig) -> dict[str, Any]:
    return {"device": config.device, "batch_size": config.batch_size, "download": config.download}
