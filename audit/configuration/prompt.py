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
    low_label: str = Field(description="what the lower end means, as the model is told")
    high_label: str = Field(description="what the upper end means, as the model is told")


class OriginalsConfig(OptionGroup):
    """The prompt texts that the paraphrases were written for; None skips the check."""

    persona: str | None = Field(
        default=None, description="the persona that the paraphrases are of; null = it is not checked"
    )
    system: str | None = Field(
        default=None, description="the system message that the paraphrases are of; null = it is not checked"
    )
    user: str | None = Field(
        default=None, description="the question that the paraphrases are of; null = it is not checked"
    )


class ParaphrasesConfig(OptionGroup):
    """Further wordings of a prompt's parts, in order. A part without paraphrases is the same in every wording."""

    originals: OriginalsConfig = OriginalsConfig()
    persona: Words = Field(default=(), description="other wordings of the persona, in their order, for wordings=")
    system: Words = Field(default=(), description="other wordings of the system message, in their order, for wordings=")
    user: Words = Field(default=(), description="other wordings of the question, in their order, for wordings=")

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The paraphrases of each part that has any, stripped."""
        lists = {name: getattr(self, name) for name in type(self.originals).model_fields}
        return {name: tuple(text.strip() for text in texts) for name, texts in lists.items() if texts}


class TemplateConfig(OptionGroup):
    """A prompt variant in the toolkit's or the user's wording."""

    kind: Literal["template"] = Field(description="what sort of prompt it is; set by prompt=")
    name: Name = Field(description="what the prompt is called in reports")
    persona: str = Field(description="how the model is told who it is; placeholder {perceiver}")
    system: str = Field(description="the system message; {persona} stands for the persona")
    user: str = Field(
        description="the question; {experiencer}, {narrative}, {emotion_noun} and so on stand for what is asked about"
    )
    narrative: str = Field(
        description="which wording of the narratives is shown: neutral, first_person or third_person"
    )
    scale: ScaleConfig
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()


class PublishedConfig(OptionGroup):
    """A prompt variant in the study's wording, read from the user's copy of its code."""

    kind: Literal["published"]
    variant: str = Field(
        description="which prompt of the study: origin, persona-1, persona-2, persona-3, 1-person, 3-person or 10-scale"
    )
    path: Path | None = Field(description="const.py in your copy of the study's repository")
