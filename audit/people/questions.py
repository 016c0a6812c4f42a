"""The questions that raters answer on each item and, once, about themselves: packaged or from the user's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import yaml
from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator, model_validator

from audit.errors import ConfigError
from audit.tables.spreadsheets import FORMULA
from stimuli.faults import explain, place_of
from stimuli.strict import StrictModel
from stimuli.yaml_files import at_line, read_yaml

Form: TypeAlias = Literal["replies", "intensity", "norming"]
"""What people do: score replies, rate intensities as perceivers, or judge the narratives."""
QUESTIONS_FILE: Final = Path(__file__).parent / "questions.yaml"
TAKEN: Final = frozenset({"rater", "item_id", "person", "narrative", "reply", "emotion", "question", "score"})
"""Columns of the raters' files, which no question can be named after."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
_Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
_End = Annotated[int, Field(strict=True, ge=0, le=1000)]
_MOST_STEPS: Final = 10  # the largest number on a scale whose numbers are clicked


class _QuestionInFile(StrictModel):
    """A question as in the file, without its name."""

    text: _Text
    entry: Literal["scale", "number"] = "scale"
    low: _End
    high: _End
    low_label: _Label
    high_label: _Label

    @field_validator("low", "high")
    @classmethod
    def _can_be_clicked(cls, end: int, info: ValidationInfo) -> int:
        if end > _MOST_STEPS and info.data.get("entry") == "scale":
            raise ValueError(f"{end} is beyond {_MOST_STEPS}; `entry: number` has raters write a number up to 1000")
        return end

    @model_validator(mode="after")
    def _in_order(self) -> _QuestionInFile:
        if self.low >= self.high:
            raise ValueError(f"low={self.low} must be below high={self.high}")
        return self


class ScaleQuestion(_QuestionInFile):
    """A question that is answered by a whole number.

    ``name`` is the column of its answers. ``{emotion}`` in ``text`` stands for the item's own word. ``entry`` is
    ``scale``, all numbers side by side, at most up to 10, or ``number``, a field to type one into.
    """

    name: _Name


class _Options(StrictModel):
    """A question that is answered by one of several texts, as in the file, without its name."""

    text: _Text
    options: Annotated[tuple[_Label, ...], Field(min_length=2, max_length=200)]

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> _Options:
        for option in self.options:
            if self.options.count(option) > 1:
                raise ValueError(f"the option {option!r} stands twice; word one of them otherwise")
            if option.startswith(FORMULA):
                raise ValueError(f"the option {option!r} would be a spreadsheet's formula; begin it with a letter")
        return self


class OptionQuestion(_Options):
    """A question that is answered by one of its options; ``name`` is the column of its answers."""

    name: _Name


Asked: TypeAlias = ScaleQuestion | OptionQuestion


class Questions(StrictModel):
    """What raters are asked."""

    # read first; empty lines separate paragraphs
    introduction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=10_000)] = ""
    questions: Annotated[tuple[Asked, ...], Field(min_length=1, max_length=12)]  # on each item, in order
    about: Annotated[tuple[OptionQuestion, ...], Field(max_length=12)] = ()  # about the rater, once, before the first

    @property
    def names(self) -> tuple[str, ...]:
        """The questions' names, in order."""
        return tuple(question.name for question in self.questions)

    def to_yaml(self) -> str:
        """Write the file that :func:`load_questions` reads as these questions."""
        content = {
            "introduction": self.introduction,
            "questions": _written(self.questions),
            **({"about": _written(self.about)} if self.about else {}),
        }
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def _written(asked: Iterable[Asked]) -> dict[str, object]:
    return {each.name: each.model_dump(mode="json", exclude={"name"}, exclude_defaults=True) for each in asked}


def load_questions(path: Path | None = None) -> Questions:
    """Read questions from a YAML file; None reads the packaged ones on replies, which are ours and not normed.

    The file has ``introduction`` (optional) and ``questions``: at most 12 names with ``text``, ``low``, ``high``,
    ``low_label`` and ``high_label``. The ends are whole numbers from 0 to 10, or to 1000 with ``entry: number``. A
    question with ``options`` in place of a scale is answered by one of them; ``about`` holds such questions about the
    rater.
    """
    file = QUESTIONS_FILE if path is None else path
    content = read_yaml(file)
    asked = content.get("questions")
    if not isinstance(asked, dict) or not asked:
        raise ConfigError(f"{file}: questions: there are none; write a name and under it text, low, high and labels")
    about = content.get("about", {})
    if not isinstance(about, dict):
        raise ConfigError(f"{file}: about: write a name and under it text and options")
    try:
        return Questions.model_validate(
            content
            | {
                "questions": tuple(_asked(asked, "questions", file=file)),
                "about": tuple(_asked(about, "about", file=file)),
            }
        )
    except ValidationError as error:
        raise ConfigError(f"{at_line(file, *place_of(error))}: {explain(error)}") from error


def _asked(content: Mapping[object, object], section: str, *, file: Path) -> Iterator[Asked]:
    """Read the questions of a section, each under its name."""
    for name, parts in content.items():
        if name in TAKEN:
            raise ConfigError(f"{file}: {section}: {name!r} is a column of the raters' files; call it otherwise")
        body = parts if isinstance(parts, dict) else {}
        kind = OptionQuestion if "options" in body or section == "about" else ScaleQuestion
        try:
            yield kind.model_validate({"name": name, **body})
        except (ValidationError, TypeError) as error:
            fault, within = str(error), tuple[str | int, ...]()
            if isinstance(error, ValidationError):
                fault, within = explain(error, kind, {"name": name, **body}), place_of(error, body)
            where = at_line(file, section, str(name), *within)
            raise ConfigError(f"{where}: {section}.{name}: {fault}") from error
