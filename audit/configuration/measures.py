"""The options ``measures.NAME``: what is measured of written replies, and by which models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from audit.configuration.groups import Name, OptionGroup, Words, bare_model, one_or_several
from audit.configuration.model import ModelAtServer
from stimuli.errors import suggest

MeasureName: TypeAlias = Literal[
    "lexical", "emotion", "lexicon", "diversity", "perplexity", "eq", "regard", "bertscore", "epitome", "judge"
]
"""The measures that can score a reply."""


def _names_a_measure(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise ValueError("must be a lower-case letter and up to 39 such letters, digits and underscores")
    return name


_MeasureWord = Annotated[str, AfterValidator(_names_a_measure)]


class ScorerConfig(OptionGroup):
    """A model that scores replies."""

    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")


class HypothesesConfig(OptionGroup):
    """Hypotheses whose entailment by a reply EQ measures; None means our wording."""

    emotion: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the sentence that says that the reply responds to the emotion; null = the packaged one",
    )
    perspective: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the sentence that says that the reply takes the person's perspective; null = the packaged one",
    )
    advice: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply gives advice; null = the packaged one"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _stripped(cls, text: object) -> object:
        return text.strip() if isinstance(text, str) else text


class EqConfig(ScorerConfig):
    """A natural language inference model and its hypotheses."""

    model: str = Field(min_length=1, description="the natural language inference model: a folder or hub id")
    hypotheses: HypothesesConfig = Field(
        default=HypothesesConfig(),
        description="sentences about a reply, which it entails or contradicts; null = ours, see docs/replies.md",
    )


_Label = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]


class RegardLabelsConfig(OptionGroup):
    """The classifier's labels for the four classes of regard."""

    negative: _Label
    neutral: _Label
    positive: _Label
    other: _Label

    @model_validator(mode="after")
    def _differ(self) -> Self:
        named = list(self.model_dump().values())
        if twice := [label for label in named if named.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} is given to two classes; give each class its own label")
        return self


class RegardConfig(ScorerConfig):
    """A classifier of regard; if ``labels`` is None, its own label names are used."""

    model: str = Field(min_length=1, description="the classifier of regard: a folder or hub id")
    labels: RegardLabelsConfig | None = Field(
        default=None,
        description="its names for the classes, e.g. {negative: L0, neutral: L1, positive: L2, other: L3}; null = "
        "these names",
    )


class PerplexityConfig(ScorerConfig):
    """A language model that measures perplexity."""

    model: str = Field(
        min_length=1,
        description="the model that measures perplexity: embedded:smollm2, a folder or hub id",
    )


class BertScoreConfig(ScorerConfig):
    """An encoder that compares replies with reference replies."""

    model: str = Field(
        min_length=1, description="the encoder that compares replies: embedded:minilm, a folder or hub id"
    )
    layer: int | None = Field(
        default=None,
        ge=0,
        description="the layer of the encoder to compare (0 = its embeddings); null = 5 for the packaged encoder; "
        "others need a number",
    )
    references: Path | None = Field(
        default=None,
        description="your own CSV file with narrative_id and reference, the replies to compare with; null = none",
    )

    @model_validator(mode="after")
    def _layer_is_known(self) -> Self:
        if self.layer is None and not self.model.startswith("embedded:"):
            raise ValueError(
                f"{self.model} needs a layer to compare; for FacebookAI/roberta-large, the authors chose "
                "measures.bertscore.layer=17 of 24"
            )
        return self


class LexiconConfig(OptionGroup):
    """A lexicon of words and emotions; if ``path`` is None, the packaged one."""

    path: Path | None = Field(
        default=None,
        description="your lexicon: word, emotion, 0 or 1, separated by tabs, as in NRC's; null = the packaged one, of "
        "the emotions' names only",
    )
    narrative: Literal["text", "emotion"] = Field(
        default="text",
        description="what a reply is compared with: text = its narrative's text; emotion = the words for the "
        "narrative's emotion",
    )


_Classifier = Annotated[ScorerConfig | None, BeforeValidator(bare_model)]


class EpitomeConfig(OptionGroup):
    """The classifiers, one for each mechanism, and ``labels`` with the levels of human replies.

    A classifier is a file, a folder, a hub id, or a mapping of ``model`` and ``revision``.
    """

    emotional_reactions: _Classifier = Field(
        default=None,
        description="the classifier of emotional reactions: a checkpoint's file, a folder or hub id; null = none",
    )
    interpretations: _Classifier = Field(
        default=None,
        description="the classifier of interpretations: a checkpoint's file, a folder or hub id; null = none",
    )
    explorations: _Classifier = Field(
        default=None, description="the classifier of explorations: a checkpoint's file, a folder or hub id; null = none"
    )
    encoder: str = Field(
        default="FacebookAI/roberta-base",
        min_length=1,
        description="the RoBERTa of EPITOME checkpoints that come without its tokenizer and sizes: a folder or hub id",
    )
    lower_case: bool = Field(
        default=False,
        description="true = checkpoints read lower case after a blank, as the released code does with transformers 2.7",
    )
    labels: Path | None = Field(
        default=None,
        description="a CSV file with narrative_id and a column for each mechanism, with the level from 0 to 2 that "
        "people gave each reply; null = none",
    )


class ClassifierConfig(ScorerConfig):
    """A classifier of replies of the user's choice; its labels are called by its own names."""

    model: str = Field(min_length=1, description="the classifier: a folder or hub id")
    labels: Annotated[tuple[_Label, ...], BeforeValidator(one_or_several)] | None = Field(
        default=None, min_length=1, description="the labels whose probabilities are measured; null = all"
    )
    levels: dict[str, float] | None = Field(
        default=None,
        min_length=2,
        description="a number for each label, e.g. {rude: 0, polite: 1}: measures the expected one; null = labels",
    )
    emotion: bool = Field(
        default=False, description="true = also measures whether the likeliest label is the narrative's emotion"
    )
    better: Literal["higher", "lower", "neither"] = Field(
        default="neither", description="which direction of its measures is better for the reader"
    )
    mask: bool = Field(default=True, description="true = masks the run's identities in the replies, as for regard")

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if self.labels is not None and self.levels is not None:
            raise ValueError("labels and levels are both given; give labels to measure probabilities, or levels")
        return self


class JudgeConfig(ModelAtServer):
    """A model that scores replies by a rubric; if ``model`` is None, there is no judge."""

    base_url: str | None = Field(
        default=None,
        description="the address of an OpenAI-compatible server; measures.judge.model is then the model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="the environment variable with the server's key",
    )
    model: str | None = Field(
        description="the judge: a folder or hub id; null = none; embedded:smollm2 only tests the set-up"
    )
    revision: str | None = Field(description="for a hub id: branch, tag or commit")
    rubric: Name = Field(description="the rubric: empathy, epitome, or one from rubric_file")
    rubric_file: Path | None = Field(
        description="your own YAML file of rubrics (docs/replies.md); null = the packaged ones"
    )
    method: Literal["expected", "generate"] = Field(
        description="how scores are obtained: expected = the mean of its next-token distribution over the scale; "
        "generate = the number that it writes"
    )
    max_tokens: int = Field(ge=1, description="generate: maximum tokens of an answer")
    max_model_len: int = Field(ge=16, description="maximum tokens that the judge reads and writes together")
    shown_as: str = Field(
        description="text that the judge reads instead of every experiencer, e.g. a person; empty = the experiencer "
        "itself"
    )
    own_gap: int = Field(
        ge=0,
        description="number of narratives whose replies are judged again as replies to every experiencer, to measure "
        "the judge's own gap; 0 = none",
    )


class MeasuresConfig(OptionGroup):
    """How replies are scored; may change between scorings of the same replies."""

    names: Annotated[tuple[MeasureName, ...], BeforeValidator(one_or_several)] = Field(
        description="the measures that score the replies"
    )
    required: Words = Field(
        default=(), description="those without which a run stops before its first call; others are then left out"
    )
    device: str = Field(
        min_length=1, description="the device of the scorers: cpu, or cuda if the audited model leaves room"
    )
    batch_size: int = Field(ge=1, description="texts that eq, regard and epitome read at once; changes only rounding")
    download: bool = Field(description="true = download missing scorers from the hub")
    eq: EqConfig
    regard: RegardConfig
    perplexity: PerplexityConfig
    bertscore: BertScoreConfig
    epitome: EpitomeConfig = Field(
        description="classifiers of replies, one a mechanism: a file, folder or hub id, or {model: OWNER/NAME, "
        "revision: v1}"
    )
    classifier: dict[_MeasureWord, Annotated[ClassifierConfig, BeforeValidator(bare_model)]] = Field(
        default={}, description="classifiers of your choice by names of yours, e.g. {toxicity: OWNER/NAME}"
    )
    scores: Path | None = Field(
        default=None,
        description="your own CSV file of scores: prompt_index, a column for each measure, and text, the scored "
        "replies, to check them; null = none",
    )
    lexicon: LexiconConfig = Field(
        default=LexiconConfig(), description="how near a reply's emotion words are to its narrative's"
    )
    judge: JudgeConfig = Field(
        description="a model that scores each reply by a rubric, asked by the run's engine after all replies are "
        "written"
    )

    @model_validator(mode="after")
    def _required_are_measured(self) -> Self:
        known = [*self.names, *(f"classifier_{name}" for name in self.classifier), *(["scores"] if self.scores else [])]
        if unknown := [name for name in self.required if name not in known]:
            raise ValueError(f"required has {unknown[0]!r}, which is not measured; {suggest(unknown[0], known)}")
        return self
