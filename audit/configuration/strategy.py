"""The options ``strategy.NAME``: the calls that lead the model to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, FieldSerializationInfo, field_serializer, field_validator, model_validator

from audit.configuration.groups import GroupWithNewOptions, Name, OptionGroup, Temperature, TopP, Words
from audit.errors import ConfigError
from stimuli.knowledge import RELATIONS
from stimuli.narratives import LATER_TURNS
from stimuli.prompts import VALUE_NAMES, placeholders
from stimuli.strategies import NO_STRATEGY, Examples, Stage, Strategy


class StageConfig(OptionGroup):
    """A model call of a strategy, before the question."""

    prompt: str = Field(
        description="the text of this call; takes the prompt's placeholders, and {stage_NAME} for the text of an "
        "earlier stage"
    )
    max_tokens: int = Field(default=200, ge=1, description="maximum tokens to write")
    temperature: Temperature = 0.0
    top_p: TopP = 1.0


class ExampleColumnsConfig(OptionGroup):
    """Column names in a user's pool of examples."""

    example_id: str = Field(default="example_id", description="your pool's column with the example's identifier")
    text: str = Field(default="text", description="your pool's column with the situation")
    answer: str = Field(default="answer", description="your pool's column with the answer to it")
    emotion: str | None = Field(
        default=None, description="your pool's column with the emotion, for {example_emotion}; null = none"
    )


class ExamplesConfig(GroupWithNewOptions):
    """Examples that are shown before the first call; if ``pool`` is None, the packaged ones."""

    _of_servers = ("order",)

    n: int = Field(description="number of examples")
    choice: Literal["random", "similar"] = Field(
        description="how to choose examples: similar = those most similar to the narrative; random = at random"
    )
    order: Literal["nearest_last", "nearest_first"] = Field(
        default="nearest_last", description="for choice=similar: whether the most similar example stands last or first"
    )
    user: str = Field(description="the text that shows an example; {example_text} is its situation")
    assistant: str = Field(description="the text that shows an example's answer; {example_answer} is the answer")
    pool: Path | None = Field(default=None, description="your own CSV file with examples; null = the packaged ones")
    columns: ExampleColumnsConfig = ExampleColumnsConfig()
    embedder: str = Field(
        default="embedded:minilm",
        min_length=1,
        description="the model that measures how similar texts are: embedded:minilm, a folder, or a hub id",
    )
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")

    @model_validator(mode="after")
    def _order_is_of_similarity(self) -> Self:
        if self.choice == "random" and self.order != "nearest_last":
            raise ValueError(f"order={self.order} is for choice=similar; leave it out")
        return self

    @model_validator(mode="after")
    def _columns_are_of_a_pool(self) -> Self:
        if self.pool is None and self.columns != ExampleColumnsConfig():
            raise ValueError("columns need your own file; give it: strategy.examples.pool=FILE")
        return self


class KnowledgeConfig(OptionGroup):
    """Knowledge about each narrative: read from a user's file, or inferred by a local COMET model."""

    source: Literal["file", "comet"] = Field(
        description="the source of the knowledge: file = your own file; comet = a COMET model on this machine"
    )
    path: str | None = Field(
        default=None,
        description="the CSV file with narrative_id and a column for each relation; for source=comet, the model's "
        "folder or hub id",
    )
    relations: Words = Field(
        default=RELATIONS, description="the relations known about each narrative, for {knowledge_RELATION}"
    )
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")
    n: int = Field(
        default=5, ge=1, description="number of inferences to join per relation, the most likely of a beam search"
    )
    max_tokens: int = Field(default=24, ge=1, description="maximum tokens of an inference")

    @model_validator(mode="after")
    def _inferring_is_a_models(self) -> Self:
        for name in ("revision", "n", "max_tokens") if self.source == "file" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={value} is for source=comet (a file is used as it is); leave it out")
        return self


class StrategyConfig(GroupWithNewOptions):
    """The calls that lead the model to its answer; none by default.

    ``stages`` maps names to calls, in order; a null stage is skipped. It is serialised as a list, because mappings are
    written sorted. ``reply_stage`` names the last stage if it writes the reply that task=reply asks for, and
    ``reply_prompt`` is that stage's prompt then; empty keeps the stage's own.
    """

    _of_servers = ("turns",)

    name: Name = Field(default=NO_STRATEGY, description="the strategy's name in reports")
    source: str = Field(default="", description="the strategy's source, for the report")
    deviates: str = Field(default="", description="how it differs from its source, for the report")
    stages: dict[str, StageConfig | None] = Field(
        default_factory=dict,
        description="The calls before the question, in order: NAME: {prompt, max_tokens, temperature, top_p}; NAME: "
        "null leaves one out. Each text must reach the question: as a turn (history), as {stage_NAME}, or through a "
        "later stage.",
    )
    stage_system: str = Field(
        default="{persona}",
        description="the system message of the stages; the prompt's own {system} asks for a number only",
    )
    system: str = Field(
        default="{system}",
        description="the system message of the question; {system} stands for the prompt's own, {examples} for all "
        "examples, which are no turns then",
    )
    question: str = Field(
        default="{question}",
        description="the question after the stages; {question} stands for the prompt's own, {stage_NAME} for the text "
        "of a stage",
    )
    history: Literal["all", "last", "none"] = Field(
        default="all",
        description="the earlier calls and their answers that a call is shown as turns: all, last or none",
    )
    overrun: Literal["oldest", "fail"] = Field(
        default="oldest",
        description="If a call does not fit into the model's context: oldest = leave out examples and earlier calls, "
        "the oldest first, until it fits, and count them; fail = stop asking.",
    )
    examples: ExamplesConfig | None = Field(
        default=None,
        description="the examples shown before the first call, as in few-shot-1.yaml; null = none",
    )
    knowledge: KnowledgeConfig | None = Field(
        default=None,
        description="knowledge about each narrative, for {knowledge_RELATION}, as in knowledge-file.yaml; null = none",
    )
    turns: Words = Field(
        default=(),
        description="task=reply: what the person writes after the narrative, message by message; each answer is "
        "scored. {turn_2}, {turn_3} ... are the narrative's own (stimuli.columns.turns)",
    )
    reply_stage: str | None = Field(
        default=None,
        description="The last stage, if its text is the reply that task=reply asks for, so that no further call is "
        "made. For ratings, or if that stage is left out, the question follows the stages.",
    )
    reply_prompt: str = Field(
        default="", description="the prompt of reply_stage if it writes the reply; empty = its own prompt"
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
                raise ValueError(f"two stages are called {stage['name']!r}; rename one")
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

    def strategy(self, *, answer: Stage | None = None) -> Strategy:
        """Build the strategy.

        ``answer`` has the settings of a written reply, for tasks that ask for one; ``reply_stage`` then writes it in
        place of the question, unless that stage is skipped.
        """
        # The last newline of a YAML block is not part of the text, as in prompts.
        kept_apart = {"stages", "examples", "knowledge", "turns", "reply_stage", "reply_prompt"}
        fields = {key: value.strip() for key, value in self.model_dump(exclude=kept_apart).items()}
        stages = [
            Stage(name, **{**stage.model_dump(), "prompt": stage.prompt.strip()})
            for name, stage in self.stages.items()
            if stage is not None
        ]
        if self.turns:
            stages = self._turns(answer)
            fields["stage_system"] = fields["system"]
        reply = stages[-1] if self.turns else self._reply(stages)
        if answer is not None and reply is not None:
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
            reply=None if answer is None else reply,
            is_talk=bool(self.turns),
        )

    def _turns(self, answer: Stage | None) -> list[Stage]:
        """Return the calls of a talk: the task's own question first, then what the person goes on to write."""
        where = f"strategy {self.name}: strategy.turns"
        if answer is None:
            raise ConfigError(
                f"{where} are messages that are replied to, and this task asks for no reply; add task=reply"
            )
        if self.stages or self.reply_stage:
            raise ConfigError(f"{where} and strategy.stages cannot go together; leave one of them out")
        if self.history != "all" or self.overrun != "fail":
            raise ConfigError(
                f"{where} need strategy.history=all and strategy.overrun=fail: without its first message, a talk would "
                "not say who writes"
            )
        if empty := next((number for number, text in enumerate(self.turns, start=1) if not text.strip()), None):
            raise ConfigError(f"{where}: message {empty} is empty; write it, or leave it out")
        for number, text in enumerate(self.turns, start=1):
            placeholders(text, VALUE_NAMES | {*LATER_TURNS}, place=f"{where}: message {number}")
        texts = ("{question}", *map(str.strip, self.turns))
        return [replace(answer, name=f"turn_{number}", prompt=text) for number, text in enumerate(texts, start=1)]

    def _reply(self, stages: Sequence[Stage]) -> Stage | None:
        """Return the stage that writes the reply, with its prompt; None if there is none or it is skipped."""
        if self.reply_stage is None:
            if self.reply_prompt.strip():
                raise ConfigError(
                    f"strategy {self.name}: reply_prompt needs reply_stage, which is not set; set it to the last "
                    "stage, or leave reply_prompt out"
                )
            return None
        if self._writer_is_left_out:
            return None
        if not stages or stages[-1].name != self.reply_stage:
            last = f"the last one, {stages[-1].name}, or null" if stages else "null, since there is no stage"
            raise ConfigError(
                f"strategy {self.name}: reply_stage={self.reply_stage} is not the last stage, so later calls would "
                f"have no effect; give {last}"
            )
        return replace(stages[-1], prompt=self.reply_prompt.strip() or stages[-1].prompt)
