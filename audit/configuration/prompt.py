"""The options ``prompt.NAME``: the wording of prompts, and their paraphrases."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from audit.configuration.groups import Name, OptionGroup, Words


class ScaleConfig(OptionGroup):
    """The two ends of the rating scale."""

    low: int = Field(description="the lower end of the rating scale")
    high: int = Field(description="the upper end of the rating scale")
    low_label: str = Field(description="the meaning of the lower end, in the prompt")
    high_label: str = Field(description="the meaning of the upper end, in the prompt")


class OriginalsConfig(OptionGroup):
    """The prompt texts that the paraphrases were written for; None skips the check."""

    persona: str | None = Field(default=None, description="the persona that the paraphrases reword; null = not checked")
    system: str | None = Field(
        default=None, description="the system message that the paraphrases reword; null = not checked"
    )
    user: str | None = Field(default=None, description="the question that the paraphrases reword; null = not checked")


class ParaphrasesConfig(OptionGroup):
    """Further wordings of a prompt's parts, in order. A part without paraphrases is the same in every wording."""

    originals: OriginalsConfig = OriginalsConfig()
    persona: Words = Field(default=(), description="other wordings of the persona, in order, for wordings=")
    system: Words = Field(default=(), description="other wordings of the system message, in order, for wordings=")
    user: Words = Field(default=(), description="other wordings of the question, in order, for wordings=")

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The paraphrases of each part that has any, stripped."""
        lists = {name: getattr(self, name) for name in type(self.originals).model_fields}
        return {name: tuple(text.strip() for text in texts) for name, texts in lists.items() if texts}


class TemplateConfig(OptionGroup):
    """A prompt variant in the toolkit's or the user's wording."""

    kind: Literal["template"] = Field(description="the kind of prompt; set by prompt=")
    name: Name = Field(description="the prompt's name in reports")
    persona: str = Field(description="the text that tells the model who it is; placeholder {perceiver}")
    system: str = Field(
        description="the system message; {persona} stands for the persona. prompt=deployed: the file with your "
        "assistant's system prompt, which is sent as it is; null = none"
    )
    user: str = Field(
        description="the question; {experiencer}, {narrative}, {emotion_noun} and other placeholders are filled in"
    )
    narrative: str = Field(description="the wording of the narratives: neutral, first_person or third_person")
    scale: ScaleConfig
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()


class PublishedConfig(OptionGroup):
    """A prompt variant in the study's wording, read from the user's copy of its code."""

    kind: Literal["published"]
    variant: str = Field(
        description="the study's prompt: origin, persona-1, persona-2, persona-3, 1-person, 3-person or 10-scale"
    )
    path: Path | None = Field(description="const.py in your copy of the study's repository")


class EarlierTurnConfig(OptionGroup):
    """The turn before the question in which the user says who they are."""

    user: str = Field(
        description="what the user says in an earlier turn, if stimuli.cues has earlier_turn; {disclosure}"
    )
    assistant: str = Field(description="what the model is shown to have answered in the earlier turn")


class DeployedConfig(OptionGroup):
    """What a user writes to a model that is given no identity, under the deployer's own system prompt."""

    kind: Literal["deployed"]
    name: Name
    system: Path | None
    message: str = Field(
        description="what the user writes: {disclosure} is what they say of themselves, {narrative} what happened"
    )
    question: str = Field(description="what the user asks after the message, if the task asks for a rating")
    earlier: EarlierTurnConfig
    narrative: str
    scale: ScaleConfig
