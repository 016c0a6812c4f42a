"""The options ``elicitation.NAME`` and ``thinking.NAME``: how an answer is got from the model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from audit.configuration.groups import GroupWithNewOptions, OptionGroup, one_or_several
from audit.errors import ConfigError, check_margin
from stimuli.strategies import THOUGHT, Stage


class ElicitationConfig(OptionGroup):
    """How a rating is elicited from the model."""

    method: Literal["auto", "generate", "expected"] = Field(
        description="how ratings are got: expected = the mean of the model's distribution over the scale's numbers; "
        "generate = it writes, and the number is read; auto = the model card's choice"
    )
    max_tokens: int = Field(ge=1, description="generate: tokens of an answer, at most")
    parser: Literal["scale", "hou2025"] = Field(
        description="generate: how the number is read: scale (knows the scale's ends) or hou2025 (as the study did)"
    )
    max_pruned_points: float = Field(
        ge=0,
        description="expected: how far an intensity may be off for numbers that were not asked, in hundredths of the"
        " scale; 0 = all are asked",
    )
    prefill: str = Field(
        default="",
        description='what the model is made to begin its answer with, e.g. "Number: "; empty = it begins as it likes',
    )
    check_sample: int = Field(
        default=0,
        ge=0,
        description="expected: how many prompts are also answered in words, to tell whether both say the same; 0 = "
        "none",
    )
    noise_sample: int = Field(
        default=0,
        ge=0,
        description="how many prompts are asked again in another order, to tell what rounding does to ratings; 0 = "
        "none",
    )
    noise_formats: Annotated[tuple[Literal["bfloat16", "float16", "float32"], ...], BeforeValidator(one_or_several)] = (
        Field(
            default=(),
            description="other number formats in which the noise sample is asked too, e.g. [bfloat16]; slow on a CPU; "
            "transformers only",
        )
    )
    manipulation: int = Field(
        default=0,
        ge=0,
        description="how many narratives are also asked without identities, with their own emotion and with a wrong "
        "one: at least so many, all of the run's and more of its source; 0 = none",
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
            raise ValueError("white space alone begins no answer; give words, such as 'Number: ', or leave it empty")
        return prefill

    @field_validator("noise_formats")
    @classmethod
    def _of_a_sample(cls, formats: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if formats and not info.data.get("noise_sample"):
            raise ValueError("it is the noise sample that is asked in other formats; give elicitation.noise_sample")
        if len(set(formats)) < len(formats):
            raise ValueError("a format is named twice; name each once")
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
        description="what stands before a thought and after it, such as ['<think>','</think>']; null = as "
        "model.thinks_in says",
    )
    max_tokens: int = Field(
        default=1024,
        ge=1,
        description="tokens of a thought, at most; then on = the answer is missing, budget = the thought is closed "
        "and the model answers",
    )
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 takes the likeliest token at each step; above 0 tokens are drawn: some cards advise 0.6 with "
        "top_p 0.95",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, only the smallest set of likeliest tokens that has this probability is "
        "drawn from",
    )

    @field_validator("marks")
    @classmethod
    def _can_be_told_apart(cls, marks: tuple[str, str] | None) -> tuple[str, str] | None:
        if marks is not None and (marks[0] == marks[1] or not all(1 < len(each.strip()) < 100 for each in marks)):
            raise ConfigError(
                f"thinking.marks={list(marks)}: give what stands before a thought and what stands after it, two texts "
                "of 2 characters or more that differ, such as ['<think>','</think>']"
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
