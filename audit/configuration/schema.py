"""The validated configuration of a run: turns what Hydra composed into frozen objects, or raises a one-line error.

A field's description is what ``audit options`` says of the option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args, get_origin

from pydantic import BaseModel, Field, model_validator

from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.elicitation import AUTO, ElicitationConfig, ThinkingConfig
from audit.configuration.engine import EngineConfig
from audit.configuration.groups import GroupWithNewOptions, Words
from audit.configuration.measures import MeasuresConfig
from audit.configuration.model import ModelConfig
from audit.configuration.packaged import differs
from audit.configuration.prompt import DeployedConfig, PublishedConfig, TemplateConfig
from audit.configuration.stimuli import StimuliConfig
from audit.configuration.strategy import StrategyConfig
from audit.configuration.task import IntensityTask, InventoryTask, RecognitionTask, ReplyTask
from audit.configuration.validation import validate
from audit.errors import ConfigError
from stimuli.errors import StimulusError
from stimuli.faults import nested_models, shown
from stimuli.identities import EARLIER_TURN, Identity, packs
from stimuli.languages import ENGLISH, LanguagePack, load_language
from stimuli.manipulation import NOBODY
from stimuli.prompts import (
    DeployedVariant,
    PromptVariant,
    Scale,
    as_template,
    read_published_variant,
    read_system_prompt,
)
from stimuli.strategies import NO_STRATEGY


class AuditConfig(GroupWithNewOptions):
    """Everything that a run depends on."""

    _of_servers = ("language",)

    model: ModelConfig
    engine: EngineConfig
    stimuli: StimuliConfig
    prompt: TemplateConfig | PublishedConfig | DeployedConfig = Field(discriminator="kind")
    task: IntensityTask | ReplyTask | RecognitionTask | InventoryTask = Field(
        default=IntensityTask(), discriminator="kind"
    )
    elicitation: ElicitationConfig
    thinking: ThinkingConfig = ThinkingConfig()
    statistics: AnalysisSettings
    measures: MeasuresConfig | None = None
    strategy: StrategyConfig = StrategyConfig()
    dimensions: Words | None = Field(
        description="the identity dimensions to compare, e.g. [religion]; a+b crosses two; null = all of "
        f"stimuli.identities. Only if named: {', '.join(packs())} (docs/stimuli.md)"
    )
    language: str = Field(
        default=ENGLISH,
        description="the language of the prompts: en, or the language pack de (docs/languages.md); tasks, strategies "
        "and wordings without a text in it are refused",
    )
    wordings: int = Field(
        default=1,
        ge=1,
        description="number of wordings of each prompt: 1 = only the original; 8 = the original and 7 paraphrases; 9 "
        "= all packaged wordings",
    )
    seed: int = Field(
        ge=0,
        lt=2**32,
        description="the random seed: sample of narratives, invented groups, permutations, the engine's sampling",
    )
    run_dir: Path | None = Field(
        description="the folder of the run; null = a folder in reports_dir, named after the configuration"
    )
    reports_dir: Path = Field(description="the folder for runs without run_dir")
    shard_size: int | None = Field(
        ge=1, description="number of prompts that are asked and saved at a time; null = 128 on a CPU, 4096 on a GPU"
    )
    out: Path | None = Field(
        description="`prompts` only: write to this file instead of standard output, and FILE.run.json, which `report "
        "answers=` needs (docs/elsewhere.md)"
    )

    @model_validator(mode="after")
    def _points_lie_on_the_scale(self) -> Self:
        if self.task.stores == "ratings" and not isinstance(self.prompt, PublishedConfig):
            scale = self.prompt.scale
            self.statistics.check_on_scale(low=scale.low, high=scale.high)
        return self

    @model_validator(mode="after")
    def _without_a_perceiver(self) -> Self:
        """Refuse what nobody would be shown if the model is given no identity, and what only such a model is asked."""
        prompt, deployed = self.prompt, isinstance(self.prompt, DeployedConfig)
        if not deployed and EARLIER_TURN in (self.stimuli.cues or ()):
            raise ConfigError(
                f"stimuli.cues names {EARLIER_TURN!r}, which only prompt=deployed has; leave it out, or use "
                "experiment=deployed"
            )
        if self.stimuli.perceiver != "none":
            if deployed:
                raise ConfigError(
                    f"stimuli.perceiver={self.stimuli.perceiver}: prompt=deployed gives the model no identity; leave "
                    "stimuli.perceiver out"
                )
            return self
        if not self.task.can_be_without_perceivers:
            raise ConfigError(
                f"stimuli.perceiver=none: task={self.task.kind} compares perceivers, and there would be none; use "
                "task=intensity or task=reply, or leave stimuli.perceiver out"
            )
        if isinstance(prompt, TemplateConfig) and "{persona}" not in prompt.system:
            raise ConfigError(
                f"prompt.system={shown(prompt.system)} lacks {{persona}}; the file of your own system prompt goes with "
                "prompt=deployed prompt.system=FILE"
            )
        if (
            prompt.variant.startswith("persona-")
            if isinstance(prompt, PublishedConfig)
            else isinstance(prompt, TemplateConfig) and differs("prompt.persona", prompt.persona, choice="base")
        ):
            raise ConfigError(
                "stimuli.perceiver=none: this prompt has a persona of its own, which no model would be given; use "
                "prompt=deployed or prompt=origin, or leave stimuli.perceiver out"
            )
        return self

    @model_validator(mode="after")
    def _a_script_answers_what_it_can(self) -> Self:
        """Refuse what the script of a planted model has no answer to."""
        if self.model.planted is None:
            return self
        cannot = {
            f"engine={self.engine.name}": self.engine.name != "planted",
            f"task={self.task.kind}": not self.task.has_planted_answers,
            f"elicitation={self.elicitation_method}": self.task.stores == "ratings"
            and self.elicitation_method != "generate",
            f"thinking={self.thinking.mode}": self.thinking.is_on,
            f"engine.replicas={self.engine.replicas}": self.engine.replicas != 1,
            "engine.add_special_tokens=true": self.engine.add_special_tokens,
        }
        for setting, is_asked in cannot.items():
            if is_asked:
                raise ConfigError(
                    f"{setting}: model=planted only writes ratings and replies (task=intensity, task=reply), in one "
                    "process and without probabilities, tokens or thoughts; leave it out, or choose another model="
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _marks_are_of_the_model(cls, asked: Any) -> Any:
        """Copy ``thinking.marks`` to the model's card, because engines only get the card."""
        thinking, model = (asked.get(name) for name in ("thinking", "model")) if isinstance(asked, Mapping) else (0, 0)
        marks = thinking.get("marks") if isinstance(thinking, Mapping) else None
        if not isinstance(marks, (list, tuple)) or len(marks) != 2 or not isinstance(model, Mapping):
            return asked
        named = model.get("thinks_in", "auto")
        if named != "auto" and list(named) != list(marks):
            raise ConfigError(
                f"thinking.marks={list(marks)} and model.thinks_in={named} both set the marks of thoughts; keep one"
            )
        return {**asked, "model": {**model, "thinks_in": tuple(marks)}}

    @property
    def elicitation_method(self) -> Literal["generate", "expected"]:
        """The elicitation, with ``auto`` resolved by the model's card; ``generate`` until trials choose."""
        method = self.model.elicitation if self.elicitation.method == AUTO else self.elicitation.method
        return "generate" if method == AUTO else method

    @property
    def open_method(self) -> bool:
        """Whether neither the command nor the model's card says how ratings are elicited."""
        return self.elicitation.method == AUTO == self.model.elicitation

    @property
    def needs_trials(self) -> bool:
        """Whether trials choose the elicitation or the beginning of answers."""
        return self.open_method or self.elicitation.prefill == AUTO

    def settled(self, method: Literal["generate", "expected"] = "generate", begun: str = "") -> Self:
        """Return the configuration with what it leaves to trials filled in; what it states stays."""
        chosen = {
            **({"method": method} if self.open_method else {}),
            **({"prefill": begun} if self.elicitation.prefill == AUTO else {}),
        }
        return self.model_copy(update={"elicitation": self.elicitation.model_copy(update=chosen)}) if chosen else self

    @property
    def pack(self) -> LanguagePack | None:
        """The language pack of the prompts; None for English. Raises StimulusError if there is no such pack."""
        return load_language(self.language)

    @property
    def nobody(self) -> Identity:
        """The experiencer of prompts that name no identity."""
        return NOBODY if self.pack is None else self.pack.identity(NOBODY)

    def prompt_variant(self, labels: str = "") -> PromptVariant:
        """Build the prompt variant.

        ``labels`` fills ``{labels}`` in a task's system message: the emotions to choose from.
        """
        if self.wordings > 1 and not self.task.has_wordings:
            raise ConfigError(
                f"wordings={self.wordings}: task={self.task.kind} has one wording (only ratings and replies "
                "have several); leave wordings=1"
            )
        variant = self.task.variant(self._variant_that_rates(), labels)
        return variant if self.pack is None else self.pack.variant(variant)

    def prompt_wordings(self, labels: str = "") -> tuple[PromptVariant, ...]:
        """Build the prompt variant in all its wordings, the original first.

        Refuses more wordings than there are, and paraphrases of another original.
        """
        original = self.prompt_variant(labels)
        if self.wordings == 1:
            return (original,)
        asked = f"wordings={self.wordings}"
        if isinstance(self.prompt, PublishedConfig):
            raise ConfigError(f"{asked}: prompt=published has one wording, the study's; leave wordings=1")
        if isinstance(self.prompt, DeployedConfig):
            raise ConfigError(f"{asked}: prompt=deployed has one wording; leave wordings=1")
        given = {"prompt": self.prompt.paraphrases}
        if (of_task := self.task.own_paraphrases) is not None:
            given["task"] = of_task
        # A task that words its messages itself takes nothing but the persona from the prompt.
        group_of = {
            part: group
            for group, own in given.items()
            for part in own.parts
            if group == "task" or "task" not in given or part == "persona"
        }
        texts = {part: given[group].parts[part] for part, group in group_of.items()}
        most = 1 + min(map(len, texts.values()), default=0)
        if self.wordings > most:
            has = "no paraphrases" if most == 1 else f"{most - 1} paraphrases"
            raise ConfigError(
                f"{asked}: prompt {original.name} has {has}, so wordings can be at most {most}; add more to "
                f"{' and '.join(f'{group}.paraphrases' for group in given)}"
            )
        for part, group in group_of.items():
            of = getattr(given[group].originals, part)
            if of is not None and of.strip() != getattr(original, part):
                raise ConfigError(
                    f"{asked}: {group}.{part} is not the wording that {group}.paraphrases.{part} paraphrases; give "
                    f"your own paraphrases with {group}.paraphrases.originals.{part}=null, or leave wordings=1"
                )
        return original, *(
            original.reworded(number, **{part: own[number - 1] for part, own in texts.items()})
            for number in range(1, self.wordings)
        )

    def _variant_that_rates(self) -> PromptVariant:
        match self.prompt:
            case PublishedConfig():
                if self.prompt.path is None:
                    raise ConfigError(
                        "prompt=published needs prompt.path: const.py in your copy of the study's repository"
                    )
                return read_published_variant(self.prompt.variant, self.prompt.path)
            case DeployedConfig():
                rates = self.task.stores == "ratings"
                own = self.prompt
                return DeployedVariant(
                    name=own.name,
                    persona=as_template(read_system_prompt(own.system)),
                    system="{persona}",
                    user="\n".join([own.message.strip(), *([own.question.strip()] if rates else [])]),
                    narrative=own.narrative.strip(),
                    scale=Scale(**own.scale.model_dump()) if rates else None,
                    earlier_user=own.earlier.user.strip(),
                    earlier_assistant=own.earlier.assistant.strip(),
                )
            case template:
                fields = template.model_dump(exclude={"kind", "scale", "paraphrases"})
                # A YAML block ends with a newline that is not part of the prompt.
                stripped = {name: text.strip() for name, text in fields.items()}
                return PromptVariant(**stripped, scale=Scale(**template.scale.model_dump()))


def load_config(composed: Mapping[str, Any]) -> AuditConfig:
    """Validate a composed configuration. A ConfigError names the key and the value."""
    config = validate(AuditConfig, composed)
    # Trials choose how ratings are elicited; other tasks ask for none.
    return _in_its_language(config if config.task.stores == "ratings" else config.settled())


def _in_its_language(config: AuditConfig) -> AuditConfig:
    """Translate the beginning of answers; refuse settings whose text exists in English only."""
    if config.language == ENGLISH:
        return config
    asked = f"language={config.language}"
    try:
        pack = config.pack
        assert pack is not None
        begun = (
            config.elicitation.prefill
            if config.elicitation.prefill == AUTO
            else pack.beginning(config.elicitation.prefill)
        )
    except StimulusError as error:
        raise ConfigError(str(error)) from error
    english = {
        f"task={config.task.kind}": not config.task.has_languages,
        "prompt=published": isinstance(config.prompt, PublishedConfig),
        "prompt=deployed": isinstance(config.prompt, DeployedConfig),
        f"strategy={config.strategy.name}": config.strategy.name != NO_STRATEGY,
        f"wordings={config.wordings}": config.wordings > 1,
        "elicitation.parser=hou2025": config.elicitation.parser == "hou2025",
        "model.chat_template=plain": config.model.chat_template == "plain",
    }
    for setting, is_asked in english.items():
        if is_asked:
            raise ConfigError(
                f"{setting} is in English only, and {asked} would mix two languages; leave it out, or set language=en"
            )
    return config.model_copy(update={"elicitation": config.elicitation.model_copy(update={"prefill": begun})})


def load_model(values: Mapping[str, Any]) -> ModelConfig:
    """Validate a model card, given by names without ``model.``."""
    return validate(ModelConfig, values, "model")


def load_statistics(values: Mapping[str, Any]) -> AnalysisSettings:
    """Validate settings of an analysis, given by names without ``statistics.``; others have their defaults."""
    return validate(AnalysisSettings, values, "statistics")


def option_names() -> list[str]:
    """Return the full name of every option, e.g. ``model.dtype``."""
    return sorted(option_types())


def option_types() -> dict[str, frozenset[str]]:
    """Map each option's full name to what it takes: ``path``, ``text``, ``list``, ``names`` or ``other``.

    ``model.path`` may also be a hub id, so it takes text and a path.
    """
    found: dict[str, frozenset[str]] = {}

    def collect(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            full = prefix + name
            kinds = frozenset(_kinds(field.annotation)) | ({"path"} if full == "model.path" else set())
            found[full] = found.get(full, frozenset()) | kinds
            by_name = "NAME." if get_origin(field.annotation) is dict else ""
            for nested in nested_models(field.annotation):
                collect(nested, f"{full}.{by_name}")

    collect(AuditConfig, "")
    return found


def _kinds(annotation: Any) -> Iterator[str]:
    """Yield the kinds of values that an annotation allows."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin is Literal:
        yield from ("text" for value in get_args(annotation) if isinstance(value, str))
    elif origin in (tuple, list, Sequence):
        yield "list"
    elif origin in (dict, Mapping):
        yield "names"
    elif origin is not None:
        for each in get_args(annotation):
            yield from _kinds(each)
    elif annotation is not type(None):
        yield {str: "text", Path: "path"}.get(annotation, "other")


NOT_MEASURED: Final = frozenset({"statistics", "measures", "run_dir", "reports_dir", "out", "shard_size"})
"""Keys that change neither a prompt nor its answer."""


def measured(config: AuditConfig) -> dict[str, Any]:
    """Return the part of the configuration that answers depend on, as plain values."""
    return config.model_dump(mode="json", exclude=set(NOT_MEASURED))
