"""The options ``measures.NAME``: what is measured of written replies, and by which models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from audit.configuration.groups import Name, OptionGroup, bare_model, one_or_several
from audit.configuration.model import ModelAtServer

MeasureName: TypeAlias = Literal[
    "lexical", "emotion", "lexicon", "diversity", "perplexity", "eq", "regard", "bertscore", "epitome", "judge"
]
"""The measures that can score a reply."""


class ScorerConfig(OptionGroup):
    """A model that scores replies."""

    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, description="of a hub id: branch, tag or commit; a folder has none")


class HypothesesConfig(OptionGroup):
    """Hypotheses whose entailment by a reply EQ measures; None means our wording."""

    emotion: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply responds to the emotion; null = ours"
    )
    perspective: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply takes the person's perspective; null = ours"
    )
    advice: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply gives advice; null = ours"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _stripped(cls, text: object) -> object:
        return text.strip() if isinstance(text, str) else text


class EqConfig(ScorerConfig):
    """A natural language inference model and its hypotheses."""

    model: str = Field(min_length=1, description="the model of natural language inference: a folder or hub id")
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
            raise ValueError(f"the label {twice[0]!r} is given for two classes; give each its own")
        return self


class RegardConfig(ScorerConfig):
    """A classifier of regard; if ``labels`` is None, its own label names are used."""

    model: str = Field(min_length=1, description="the classifier of regard: a folder or hub id")
    labels: RegardLabelsConfig | None = Field(
        default=None,
        description="its names of the classes, e.g. {negative: L0, neutral: L1, positive: L2, other: L3}; null = "
        "such names",
    )


class PerplexityConfig(ScorerConfig):
    """A language model that measures perplexity."""

    model: str = Field(
        min_length=1,
        description="the model that perplexity is measured by: embedded:smollm2, a folder or hub id",
    )


class BertScoreConfig(ScorerConfig):
    """An encoder that compares replies with reference replies."""

    model: str = Field(
        min_length=1, description="the encoder that compares replies: embedded:minilm, a folder or hub id"
    )
    layer: int | None = Field(
        default=None,
        ge=0,
        description="which layer of the encoder is compared, 0 being its embeddings; null = 5, for the packaged one;"
        " others need a number",
    )
    references: Path | None = Field(
        default=None,
        description="a CSV file of yours with narrative_id and reference, the replies to compare with; null = none",
    )

    @model_validator(mode="after")
    def _layer_is_known(self) -> Self:
        if self.layer is None and not self.model.startswith("embedded:"):
            raise ValueError(
                f"say which layer of {self.model} is compared: measures.bertscore.layer=17 is the authors' choice of "
                "FacebookAI/roberta-large's 24"
            )
        return self


class LexiconConfig(OptionGroup):
    """A lexicon of words and emotions; if ``path`` is None, the packaged one."""

    path: Path | None = Field(
        default=None,
        description="your lexicon: word, emotion, 0 or 1 with tabs between them, as NRC's; null = ours, of the "
        "emotions' names alone",
    )
    narrative: Literal["text", "emotion"] = Field(
        default="text",
        description="what a reply is held against: its narrative's text, or emotion, the words for the narrative's "
        "emotion",
    )


_Classifier = Annotated[ScorerConfig | None, BeforeValidator(bare_model)]


class EpitomeConfig(OptionGroup):
    """The user's trained classifiers, one for each mechanism, and ``labels`` with the levels of human replies.

    A classifier is a folder, a hub id, or a mapping of ``model`` and ``revision``.
    """

    emotional_reactions: _Classifier = Field(
        default=None, description="your classifier of emotional reactions: a folder or hub id; null = none"
    )
    interpretations: _Classifier = Field(
        default=None, description="your classifier of interpretations: a folder or hub id; null = none"
    )
    explorations: _Classifier = Field(
        default=None, description="your classifier of explorations: a folder or hub id; null = none"
    )
    labels: Path | None = Field(
        default=None,
        description="a CSV file with narrative_id and a column for each mechanism: the level, 0 to 2, that people "
        "gave each reply; null = none",
    )


class JudgeConfig(ModelAtServer):
    """A model that scores replies by a rubric; if ``model`` is None, there is no judge."""

    base_url: str | None = Field(
        default=None,
        description="the address of an OpenAI-compatible server; measures.judge.model is then the model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="the name of the variable of the environment that holds the server's key",
    )
    model: str | None = Field(
        description="the judge: a folder or hub id; null = none; embedded:smollm2 shows that it works, and judges "
        "nothing"
    )
    revision: str | None = Field(description="of a hub id: branch, tag or commit; a folder has none")
    rubric: Name = Field(description="the rubric: empathy, epitome, or one of rubric_file")
    rubric_file: Path | None = Field(
        description="a YAML file with rubrics of yours; null = the packaged ones: docs/replies.md"
    )
    method: Literal["expected", "generate"] = Field(
        description="how scores are got: expected = the mean of its next-token distribution over the scale; generate"
        " = the number that it writes"
    )
    max_tokens: int = Field(ge=1, description="generate: tokens of an answer, at most")
    max_model_len: int = Field(ge=16, description="tokens of what the judge reads and writes together, at most")
    shown_as: str = Field(
        description="what the judge reads in place of every experiencer, e.g. a person; empty shows each its own"
    )
    own_gap: int = Field(
        ge=0,
        description="how many narratives whose replies are judged again as replies to every experiencer, to see the "
        "judge's own gap; 0 = none",
    )


class MeasuresConfig(OptionGroup):
    """How replies are scored; may change between scorings of the same replies."""

    names: Annotated[tuple[MeasureName, ...], BeforeValidator(one_or_several)] = Field(
        description="which measures score the replies"
    )
    device: str = Field(
        min_length=1, description="where the scorers run: cpu, or cuda where the model under audit leaves room"
    )
    batch_size: int = Field(
        ge=1, description="texts that eq, regard and epitome read at once; it alters nothing but rounding"
    )
    download: bool = Field(description="true = scorers that are not on this machine are fetched from the hub")
    eq: EqConfig
    regard: RegardConfig
    perplexity: PerplexityConfig
    bertscore: BertScoreConfig
    epitome: EpitomeConfig = Field(
        description="your own trained classifiers, one a mechanism: a folder or hub id, or {model: OWNER/NAME, "
        "revision: v1}"
    )
    lexicon: LexiconConfig = Field(
        default=LexiconConfig(), description="how near a reply's emotion words are to its narrative's"
    )
    judge: JudgeConfig = Field(
        description="a model that scores each reply by a rubric, asked by the run's engine after all replies are "
        "written"
    )
