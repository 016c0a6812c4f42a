"""The options ``task.NAME``: what the model is asked to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from audit.configuration.groups import OptionGroup, Temperature, TopP
from audit.configuration.packaged import differs
from audit.configuration.prompt import ParaphrasesConfig
from audit.errors import ConfigError
from stimuli.prompts import DeployedVariant, PromptVariant
from stimuli.strategies import Stage

_CAUSES: Final[dict[str, Literal["", "words", "utterances"]]] = {
    "emotion": "",
    "cause": "words",
    "entailment": "utterances",
}


class TaskConfig(OptionGroup):
    """The settings of what the perceiver is asked to do; :mod:`audit.tasks` analyses the answers."""

    stores: ClassVar[Literal["ratings", "replies", "answers"]]
    """What the model is asked for, and the run's folder that holds it."""
    has_wordings: ClassVar[bool] = False
    """Whether a prompt may be asked in several wordings."""
    has_languages: ClassVar[bool] = False
    """Whether all of its text comes from the prompt, which language packs translate."""
    may_be_led: ClassVar[bool] = False
    """Whether a strategy's ``reply_stage`` may write the answer."""
    can_be_without_perceivers: ClassVar[bool] = False
    """Whether its answers can be compared by who they are about, where the model is given no identity."""
    has_planted_answers: ClassVar[bool] = False
    """Whether the script of ``model=planted`` has an answer to it."""
    kind: str

    @property
    def causes(self) -> Literal["", "words", "utterances"]:
        """What it asks of the causes that a corpus of conversations marks; empty for nothing."""
        return ""

    @property
    def own_paraphrases(self) -> ParaphrasesConfig | None:
        """Further wordings of the messages that the task words itself; None if the prompt words them."""
        return None

    @property
    def name(self) -> str:
        """What a run's name and identity add for the task; empty for ratings of intensity."""
        return self.kind

    @property
    def stage(self) -> Stage | None:
        """The settings of the call that writes the answer; None if the answer is not a text."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return the settings that answers depend on beside the prompts."""
        return {"kind": self.kind}

    def variant(self, rates: PromptVariant, labels: str) -> PromptVariant:
        """Derive the task's prompt variant from the one that asks for ratings.

        ``labels`` is that of :meth:`AuditConfig.prompt_variant`.
        """
        return rates


class RatedTask(TaskConfig):
    """The perceiver rates something; all text comes from the prompt."""

    stores = "ratings"
    has_wordings = True
    has_languages = True


class IntensityTask(RatedTask):
    """The perceiver rates the intensity of the experiencer's emotion."""

    can_be_without_perceivers = True
    has_planted_answers = True
    kind: Literal["intensity"] = Field(default="intensity", description="the task of the model; set by task=")

    @property
    def name(self) -> str:
        """Empty, because runs got their names before other tasks existed."""
        return ""


class WrittenTask(TaskConfig):
    """The perceiver writes a text; the persona comes from the prompt."""

    stores = "replies"
    system: str = Field(
        description="the system message; {persona} stands for the persona, and in task=emotion {labels} for the labels"
    )
    user: str = Field(description="the question; {experiencer}, {narrative} and other placeholders are filled in")
    narrative: Literal["neutral", "first_person", "third_person"] | None = Field(
        description="the wording of the narratives: neutral, first_person or third_person; null = the prompt's"
    )
    max_tokens: int = Field(
        ge=1,
        description="maximum tokens of an answer; for task=inventory, null = elicitation.max_tokens for single, 32 "
        "per item for list",
    )
    temperature: Temperature
    top_p: TopP

    @property
    def stage(self) -> Stage:
        """The length and sampling settings of the text."""
        return Stage(self.kind, "", max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p)

    def identity(self) -> dict[str, Any]:
        """Return ``kind`` and the sampling settings."""
        return self.model_dump(mode="json", include={"kind", "max_tokens", "temperature", "top_p"})

    def variant(self, rates: PromptVariant, labels: str) -> PromptVariant:
        """Return the task's own wording, without a scale."""
        system = self.system.strip()
        if labels:
            system = system.replace("{labels}", labels.replace("{", "{{").replace("}", "}}"))
        return replace(
            rates, system=system, user=self.user.strip(), narrative=self.narrative or rates.narrative, scale=None
        )


class ReplyTask(WrittenTask):
    """The perceiver replies to the experiencer."""

    has_wordings = True
    may_be_led = True
    can_be_without_perceivers = True
    has_planted_answers = True
    kind: Literal["reply"]
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()

    @property
    def own_paraphrases(self) -> ParaphrasesConfig:
        """Those of the system message and the question; without any of the persona, the prompt's are taken."""
        return self.paraphrases

    def variant(self, rates: PromptVariant, labels: str) -> PromptVariant:
        """Return the task's own wording, or what a user writes to a deployed model, which is all that it reads."""
        if not isinstance(rates, DeployedVariant):
            return super().variant(rates, labels)
        for option in ("task.system", "task.user", "task.narrative"):
            if differs(option, getattr(self, option.removeprefix("task.")), choice="reply"):
                raise ConfigError(
                    f"{option} is not used with prompt=deployed: the reply answers prompt.message, under the system "
                    f"prompt of prompt.system=FILE; leave {option} out"
                )
        return rates


class RecognitionTask(WrittenTask):
    """The perceiver names the emotion of an utterance, or the words that caused it, or judges a possible cause."""

    kind: Literal["emotion", "cause", "entailment"]

    @property
    def causes(self) -> Literal["", "words", "utterances"]:
        """Words in ``task=cause``, whole utterances in ``task=entailment``."""
        return _CAUSES[self.kind]


class InventoryTask(TaskConfig):
    """The perceiver fills in a questionnaire.

    If ``path`` is None, it is the packaged list of affect words. Other settings that are None have defaults.
    """

    stores = "answers"
    kind: Literal["inventory"]
    path: Path | None = Field(
        description="the file of your inventory (name, source, scale, instruction, total, items); null = the "
        "packaged affect words"
    )
    presentation: Literal["single", "list"] = Field(
        description="single = one item per prompt; list = all items in one prompt, for models that write their answers"
    )
    n_orders: int | None = Field(
        ge=1,
        description="list: number of orders of the items; single: number of orders of the scale's ends, at most 2; "
        "null = 5 for list, 2 for single",
    )
    affect: bool | None = Field(
        description="true = also ask while a situation of stimuli= is imagined (after arXiv:2308.03656); null = true "
        "if path is null"
    )
    method: Literal["auto", "expected", "generate"] = Field(
        description="expected or generate, as for ratings; auto = elicitation= for single, generate for list"
    )
    max_tokens: int | None = Field(ge=1)
