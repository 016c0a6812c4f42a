"""The settings of an analysis: how the gap is computed, tested and planned. Their one declaration.

The schema validates them, a manifest stores them, and statistics take them as they are. A new setting is a field here
and its value in ``conf/statistics/default.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from audit.errors import ConfigError, check_margin

MOST_PERMUTATIONS: Final = 10_000_000  # more would only separate smaller p-values, which no corrected test needs
USUAL_MARGIN: Final = 0.02  # of the scale: the margin to plan for, or to try, where none is set
REFUSAL_MARGIN: Final = 5.0  # percentage points: a margin in scale points does not apply to refusals
_RECORDED: Final = "recorded"  # validation context of settings that a manifest holds
_IN_POINTS: Final = "may_be_all"  # the mark of a setting in points: whether it may be as large as the whole scale
_BOUNDS: Final = frozenset({
    "greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number", "string_too_short",
    "literal_error",
})  # fmt: skip
"""Pydantic's error types for values of the right type that may not be asked for."""


def _points(meaning: str, *, may_be_all: bool = False) -> Any:
    """Make the field of a setting in points; ``may_be_all`` says whether it may be as large as the whole scale."""
    return Field(default=None, gt=0, description=f"in points: {meaning}", json_schema_extra={_IN_POINTS: may_be_all})


class AnalysisSettings(BaseModel):
    """How the gap is computed and compared; may change between analyses of the same ratings.

    The options ``statistics.NAME``; ``audit options statistics`` says what each means.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    n_permutations: int = Field(
        default=10_000, ge=100, description="number of random sign flips and relabellings in the tests"
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="the coverage of all intervals")
    margin: float | None = _points(
        "test whether every gap is smaller than this; null = only report the largest gap that the data allow"
    )
    least_gap: float | None = _points("a gap shown to be smaller is called tiny; null = 1% of the scale")
    missing_shift: float | None = _points(
        "largest distance of missing ratings from their expected values; null = anywhere on the scale",
        may_be_all=True,
    )
    wanted: float | None = _points("report how many narratives would detect a gap of this size; null = not reported")
    power: float = Field(default=0.8, ge=0.5, lt=1, description="the power used for planning with margin and wanted")
    min_number_mass: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="elicitation=expected: an answer has low number mass if its numbers have less probability than "
        "this",
    )
    sensitivity: bool = Field(
        default=False,
        description="true = also estimate δ in 4 other ways, in sensitivity.csv (no verdict uses them): "
        "equal_narratives, within_narratives, mixed_crossed, ranks",
    )
    least_response: float = Field(
        default=0.01,
        gt=0,
        lt=1,
        description="a share of the scale: ratings that change with the story by less than this do not follow it",
    )
    formula: str | None = Field(
        default=None,
        description="your own model of the ratings, e.g. 'intensity ~ in_group * C(emotion)'; null = none",
    )
    fit: Literal["mixed", "ols"] = Field(
        default="mixed",
        description="how to fit the formula: mixed (random terms for each cluster) or ols (standard errors by cluster)",
    )
    random: str | None = Field(
        default=None, description="with fit=mixed, the random terms, e.g. '~ in_group'; null = an intercept"
    )
    cluster: str = Field(default="narrative_id", description="the column with the clusters for the formula")
    covariates: Path | None = Field(
        default=None,
        description="a table of numbers of groups (column group) or of pairs of groups (perceiver_group, "
        "experiencer_group), such as a cultural distance: does the gap grow with them? null = none",
    )
    stereotypes: Path | None = Field(
        default=None, description="a YAML file of stereotype words (theme: [word, stem*]); null = the packaged ones"
    )
    human: Path | None = Field(
        default=None,
        description="a CSV or TSV file of people's intensities, to compare how model and people order narratives; "
        "null = none",
    )
    human_id: str = Field(
        default="narrative_id",
        min_length=1,
        description="the column of that file with the narratives' identifiers; text_id in crowd-enVENT's own files",
    )
    human_rating: str = Field(
        default="intensity",
        min_length=1,
        description="the column of that file with the ratings; several rows per narrative are averaged",
    )

    @field_validator("n_permutations")
    @classmethod
    def _no_more_than_tell(cls, n: int, info: ValidationInfo) -> int:
        # Earlier versions had no limit, and their runs open.
        if n > MOST_PERMUTATIONS and info.context != _RECORDED:
            raise ConfigError(
                f"n_permutations={n}: at most {MOST_PERMUTATIONS:,}; the smallest p is 1 / (n_permutations + 1), "
                "so more would only separate p values below 1 in 10 million"
            )
        return n

    @classmethod
    def recorded(cls, content: Any) -> Self:
        """Read the settings that a manifest of any version holds.

        A setting that the version did not have, or that is null and cannot be, has its default. Names that are none of
        the settings are left out. Bounds hold for what is asked now, not for what was recorded. Raises pydantic's
        ValidationError if a value is of another type.
        """
        if not isinstance(content, Mapping):
            return cls.model_validate(content)
        known = {
            name: _as_path(content[name]) if field.annotation == Path | None else content[name]
            for name, field in cls.model_fields.items()
            if name in content and (content[name] is not None or field.default is None)
        }
        try:
            return cls.model_validate(known, strict=True, context=_RECORDED)
        except ValidationError as error:
            beyond = {str(fault["loc"][0]): fault["input"] for fault in error.errors() if fault["type"] in _BOUNDS}
            if len(beyond) < error.error_count():
                raise
            inside = {name: value for name, value in known.items() if name not in beyond}
            return cls.recorded(inside).model_copy(update=beyond)

    @property
    def alpha(self) -> float:
        """Error rate of the tests: 1 − ``confidence`` without the dust of floating-point arithmetic."""
        return round(1 - self.confidence, 12)

    @classmethod
    def in_points(cls) -> dict[str, bool]:
        """Return the settings in points of the scale, and whether each may be as large as the whole scale."""
        marks = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {name: bool(mark[_IN_POINTS]) for name, mark in marks.items() if isinstance(mark, dict)}

    def check_on_scale(self, *, low: float, high: float) -> None:
        """Raise ConfigError for settings in points that nothing on a scale of ratings can reach."""
        for name, may_be_all in self.in_points().items():
            check_margin(f"statistics.{name}", getattr(self, name), low=low, high=high, may_be_all=may_be_all)


def _as_path(value: Any) -> Any:
    """Return the path that JSON holds as text."""
    return Path(value) if isinstance(value, str) else value
