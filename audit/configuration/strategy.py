"""The options ``strategy.NAME``: the calls that lead the model to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, FieldSerializationInfo, field_serializer, field_validator, model_validator

from audit.configuration.groups import Name, OptionGroup, Words
from audit.errors import ConfigError
from stimuli.knowledge import RELATIONS
from stimuli.strategies import NO_STRATEGY, Examples, Stage, Strategy


class StageConfig(OptionGroup):
    """A model call of a strategy, before the question."""

    prompt: str = Field(
        description="what this call asks; the prompt's placeholders, and {stage_NAME} for what an earlier stage wrote"
    )
    max_tokens: int = Field(default=200, ge=1, description="tokens that it writes, at most")
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 takes the likeliest token at each step; above 0 tokens are drawn",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, tokens are drawn from the smallest set that has this probability",
    )


class ExampleColumnsConfig(OptionGroup):
    """Column names in a user's pool of examples."""

    example_id: str = Field(default="example_id", description="your pool's column with an identifier of each example")
    text: str = Field(default="text", description="your pool's column with the situation")
    answer: str = Field(default="answer", description="your pool's column with the answer to it")
    emotion: str | None = Field(
        default=None, description="your pool's column with the emotion, for {example_emotion}; null = none"
    )


class ExamplesConfig(OptionGroup):
    """Examples that are shown before the first call; if ``pool`` is None, the packaged ones."""

    n: int = Field(description="how many examples are shown")
    choice: Literal["random", "similar"] = Field(
        description="which examples are shown: similar = those whose text is most like the narrative; random = any"
    )
    user: str = Field(description="how an example is shown; {example_text} stands for its situation")
    assistant: str = Field(description="how the answer of an example is shown; {example_answer} stands for it")
    pool: Path | None = Field(default=None, description="a CSV file of yours with examples; null = the packaged ones")
    columns: ExampleColumnsConfig = ExampleColumnsConfig()
    embedder: str = Field(
        default="embedded:minilm",
        min_length=1,
        description="the model that tells how alike texts are: embedded:minilm, a folder, or a hub id",
    )
    revision: str | None = Field(default=None, description="of an embedder on the hub: branch, tag or commit")

    @model_validator(mode="after")
    def _columns_are_of_a_pool(self) -> Self:
        if self.pool is None and self.columns != ExampleColumnsConfig():
            raise ValueError("columns are those of a file of yours: name it, strategy.examples.pool=FILE")
        return self


class KnowledgeConfig(OptionGroup):
    """Knowledge about each narrative: read from a user's file, or inferred by a local COMET model."""

    source: Literal["file", "comet"] = Field(
        description="where the knowledge comes from: file = a file of yours; comet = a COMET model on this machine"
    )
    path: str | None = Field(
        default=None,
        description="the CSV file with a column narrative_id and one for each relation; of source=comet the folder "
        "or hub id of the model",
    )
    relations: Words = Field(
        default=RELATIONS, description="which relations are known of each narrative, for {knowledge_RELATION}"
    )
    revision: str | None = Field(default=None, description="of a model on the hub: branch, tag or commit")
    n: int = Field(
        default=5, ge=1, description="how many inferences of a relation are joined, the likeliest of a beam search"
    )
    max_tokens: int = Field(default=24, ge=1, description="tokens of an inference, at most")

    @model_validator(mode="after")
    def _inferring_is_a_models(self) -> Self:
        for name in ("revision", "n", "max_tokens") if self.source == "file" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={value} is for source=comet; what a file says is taken as it stands")
        return self


class StrategyConfig(OptionGroup):
    """The calls that lead the model to its answer; none by default.

    ``stages`` maps names to calls, in order; a null stage is skipped. It is serialised as a list, because mappings are
    written sorted. ``reply_stage`` names the last stage if it writes the reply that task=reply asks for, and
    ``reply_prompt`` is that stage's prompt then; empty keeps the stage's own.
    """

    name: Name = Field(default=NO_STRATEGY, description="what the strategy is called in reports")
    source: str = Field(default="", description="where the strategy comes from, as the report says it")
    deviates: str = Field(default="", description="in what it differs from its source, as the report says it")
    stages: dict[str, StageConfig | None] = Field(
        default_factory=dict,
        description="The calls before the question, in their order: NAME: {prompt, max_tokens, temperature, top_p}; "
        "NAME: null leaves one out. What each writes has to reach the question: as a turn (history), as "
        "{stage_NAME}, or through a later stage.",
    )
    stage_system: str = Field(
        default="{persona}",
        description="the system message of the stages; the prompt's own {system} asks for a number and nothing more",
    )
    system: str = Field(
        default="{system}", description="the system message of the question; {system} stands for the prompt's own"
    )
    question: str = Field(
        default="{question}",
        description="the question after the stages; {question} stands for the prompt's own, {stage_NAME} for what a "
        "stage wrote",
    )
    history: Literal["all", "last", "none"] = Field(
        default="all",
        description="which earlier calls, with what was written to them, a call is shown as turns: all, last or none",
    )
    overrun: Literal["oldest", "fail"] = Field(
        default="oldest",
        description="What happens where a call does not fit into the model's context: oldest = examples and earlier "
        "calls are left out, the oldest first, until it fits, and are counted; fail = nothing more is "
        "asked.",
    )
    examples: ExamplesConfig | None = Field(
        default=None,
        description="the examples that are shown before the first call, as in few-shot-1.yaml; null = none",
    )
    knowledge: KnowledgeConfig | None = Field(
        default=None,
        description="what is known of each narrative, for {knowledge_RELATION}, as in knowledge-file.yaml; null = none",
    )
    reply_stage: str | None = Field(
        default=None,
        description="The last stage, where what it writes is the reply that task=reply asks for, so that no further "
        "call asks for one. Of ratings, and where that stage is left out, the question is asked after "
        "the stages.",
    )
    reply_prompt: str = Field(
        default="", description="what the reply_stage is asked where it writes the reply; empty = its own prompt"
    )

    @field_validator("stages", mode="before")
    @classmethod
    def _by_name(cls, stages: object) -> object:
        if not isinstance(stages, (list, tuple)):
            return stages
        named: dict[object, object] = {}
        for stage in stages:
            if not isinstance(stage, Mapping) or not isinstance(stage.get("name"), str):
                raise ValueError("each stage of a list needs a name; or write them as `name: {prompt: ...}`")
            if stage["name"] in named:
                raise ValueError(f"there are two stages {stage['name']!r}; give one another name")
            named[stage["name"]] = {key: value for key, value in stage.items() if key != "name"}
        return named

    @field_serializer("stages")
    def _as_list(self, stages: dict[str, StageConfig | None]) -> list[dict[str, Any]]:
        return [{"name": name, **stage.model_dump()} for name, stage in stages.items() if stage is not None]

    @field_serializer("reply_stage", "reply_prompt")
    def _of_a_stage_that_is_asked(self, value: str | None, field: FieldSerializationInfo) -> str | None:
        # A skipped stage is not in the list, so nothing can name it.
        return self.__class__.model_fields[field.field_name].default if self._writer_is_left_out else value

    @property
    def _writer_is_left_out(self) -> bool:
        return self.reply_stage in self.stages and self.stages[self.reply_stage] is None

    def strategy(self, *, replies: bool = False) -> Strategy:
        """Build the strategy.

        With ``replies``, ``reply_stage`` writes the reply in place of the question, unless that stage is skipped.
        """
        # The last newline of a YAML block is not part of the text, as in prompts.
        kept_apart = {"stages", "examples", "knowledge", "reply_stage", "reply_prompt"}
        fields = {key: value.strip() for key, value in self.model_dump(exclude=kept_apart).items()}
        stages = [
            Stage(name, **{**stage.model_dump(), "prompt": stage.prompt.strip()})
            for name, stage in self.stages.items()
            if stage is not None
        ]
        reply = self._reply(stages)
        if replies and reply is not None:
            stages = stages[:-1]
            fields |= {"system": fields["stage_system"], "question": reply.prompt}
        examples = None
        if self.examples is not None:
            shown = {key: getattr(self.examples, key).strip() for key in ("user", "assistant")}
            examples = Examples(n=self.examples.n, choice=self.examples.choice, **shown)
        relations = self.knowledge.relations if self.knowledge is not None else ()
        return Strategy(
            **fields,
            stages=tuple(stages),
            examples=examples,
            relations=relations,
            reply=reply if replies else None,
        )

    def _reply(self, stages: Sequence[Stage]) -> Stage | None:
        """Return the stage that writes the reply, with its prompt; None if there is none or it is skipped."""
        if self.reply_stage is None:
            if self.reply_prompt.strip():
                raise ConfigError(
                    f"strategy {self.name}: reply_prompt is of a reply_stage, and none is named; name the last stage, "
                    "or leave it out"
                )
            return None
        if self._writer_is_left_out:
            return None
        if not stages or stages[-1].name != self.reply_stage:
            last = f"the last one, {stages[-1].name}, or null" if stages else "null, since there is no stage"
            raise ConfigError(
                f"strategy {self.name}: reply_stage={self.reply_stage} is not the last stage, and later calls would be "
                f"asked for nothing; give {last}"
            )
        return replace(stages[-1], prompt=self.reply_prompt.strip() or stages[-1].prompt)
