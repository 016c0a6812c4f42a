"""The options ``elicitation.NAME`` and ``thinking.NAME``: how an answer is got from the model."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from audit.configuration.groups import GroupWithNewOptions, OptionGroup, TopP, one_or_several
from audit.errors import ConfigError, check_margin
from stimuli.strategies import THOUGHT, Stage

AUTO: Final = "auto"
"""The value of ``elicitation.method`` and ``elicitation.prefill`` that leaves the choice to card and trials."""


class ElicitationConfig(OptionGroup):
    """How a rating is elicited from the model."""

    method: Literal["auto", "generate", "expected"] = Field(
        description="how ratings are obtained: expected = the mean of the model's distribution over the scale's "
        "numbers; generate = the number is read from what the model writes; auto = as the model's card says, "
        "else by trials"
    )
    max_tokens: int = Field(ge=1, description="generate: maximum tokens of an answer")
    parser: Literal["scale", "hou2025"] = Field(
        description="generate: how the number is read: scale (checks the scale's ends) or hou2025 (the study's parser)"
    )
    max_pruned_points: float = Field(
        ge=0,
        description="expected: largest error of an intensity from skipping unlikely numbers, in hundredths of the "
        "scale; 0 = skip none",
    )
    ends: Literal["exact", "calibrated"] = Field(
        default="calibrated",
        description="expected: whether a number ends: calibrated = a sample is asked, if ends hardly vary in it, "
        "with a statistical bound; exact = each prompt is asked, with several times the questions",
    )
    prefill: str = Field(
        default="",
        description='text that begins every answer, e.g. "Number: "; empty = none; auto = chosen by trials '
        "(docs/statistics.md)",
    )
    check_sample: int = Field(
        default=0,
        ge=0,
        description="expected: number of prompts that are also answered in words, to check whether both agree; 0 = "
        "none",
    )
    noise_sample: int = Field(
        default=0,
        ge=0,
        description="number of prompts that are asked again in another order, sampled replies with another seed, to "
        "measure how much δ would vary; 0 = none",
    )
    noise_formats: Annotated[tuple[Literal["bfloat16", "float16", "float32"], ...], BeforeValidator(one_or_several)] = (
        Field(
            default=(),
            description="other number formats for the noise sample, e.g. [bfloat16]; slow on a CPU; transformers only",
        )
    )
    manipulation: int = Field(
        default=0,
        ge=0,
        description="least number of narratives that are also asked without identities, about their own emotion and a "
        "wrong one (all of the run's, and more from its source); 0 = none",
    )

    @field_validator("max_pruned_points")
    @classmethod
    def _less_than_the_scale(cls, hundredths: float) -> float:
        check_margin("elicitation.max_pruned_points", hundredths, low=0, high=100)
        return hundredths

    @field_validator("prefill")
    @classmethod
    def _begins_with_words(cls, prefill: str) -> str:
        if prefill and not prefill.strip():
            raise ValueError("must not be white space only; give words, such as 'Number: ', or leave it empty")
        return prefill

    @field_validator("noise_formats")
    @classmethod
    def _of_a_sample(cls, formats: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if formats and not info.data.get("noise_sample"):
            raise ValueError(
                "other formats are asked in the noise sample, which is empty; set elicitation.noise_sample"
            )
        if len(set(formats)) < len(formats):
            raise ValueError("a format is given twice; keep one")
        return formats


class ThinkingConfig(GroupWithNewOptions):
    """Whether the model thinks before it answers, for how long, and how thoughts are sampled."""

    _of_servers = ("marks",)
    mode: Literal["off", "on", "budget"] = Field(
        default="off",
        description="off = no thought; on = the model ends its thought itself; budget = its thought is closed after "
        "max_tokens",
    )
    marks: tuple[str, str] | None = Field(
        default=None,
        description="the marks before and after a thought, such as ['<think>','</think>']; null = those of "
        "model.thinks_in",
    )
    max_tokens: int = Field(
        default=1024,
        ge=1,
        description="maximum tokens of a thought; then, for on, the answer is missing; for budget, the thought is "
        "closed and the model answers",
    )
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 = the most likely token at each step; above 0 = sampled: some cards advise 0.6 with top_p 0.95",
    )
    top_p: TopP = 1.0

    @field_validator("marks")
    @classmethod
    def _can_be_told_apart(cls, marks: tuple[str, str] | None) -> tuple[str, str] | None:
        if marks is not None and (marks[0] == marks[1] or not all(1 < len(each.strip()) < 100 for each in marks)):
            raise ConfigError(
                f"thinking.marks={list(marks)}: must be the mark before a thought and the mark after it, two "
                "different texts of at least 2 characters, such as ['<think>','</think>']"
            )
        return marks

    @property
    def is_on(self) -> bool:
        """Whether the model is asked to think."""
        return self.mode != "off"

    @property
    def stage(self) -> Stage:
        """The thought's settings, in the form of a strategy's stage."""
        return Stage(THOUGHT, "", self.max_tokens, self.temperature, self.top_p)
