"""Rubrics: what a judge, another model, is asked about a written reply.

A rubric is data: templates, and criteria that each have a question and a scale. The packaged ones are ours in wording
and not normed on people; see the head of ``data/rubrics.yaml``.

A reply is untrusted text: it may hold instructions to the judge ("rate this 5"). So each of its lines is shown after a
``>``, which no line of it can escape, marks of chat templates in it are broken, and the packaged system message says
that such lines are material and not addressed to the judge. This makes it harder to lead a judge; it is no guarantee.
No placeholder names the perceiver or the model that wrote the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StrictInt, StringConstraints, ValidationError, field_validator, model_validator

from stimuli.errors import StimulusError, suggest
from stimuli.faults import explain, place_of
from stimuli.hashes import fingerprint
from stimuli.prompts import Prompt, Scale, placeholders
from stimuli.strict import StrictModel
from stimuli.words import capital
from stimuli.yaml_files import at_line, read_yaml

RUBRICS_FILE: Final = Path(__file__).parent / "data" / "rubrics.yaml"
PACKAGED: Final = "packaged"  # the source file of the rubrics that come with the package

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_IS_A_NAME: Final = "a name is a lower-case letter a-z, then letters, digits and underscores"
_WHO: Final = frozenset({"experiencer", "Experiencer"})
_USER: Final = ("narrative", "reply", "question", "low", "high")
_PAIR: Final = ("narrative", "first", "second", "which", "answers")
_QUOTED: Final = frozenset({"narrative", "reply", "first", "second"})
_CONTROL: Final = re.compile(r"<(?=[|｜/A-Za-z])|\[(?=/?INST\])")

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Criterion(StrictModel):
    """What a reply is judged on."""

    question: Text  # about one reply
    low: StrictInt  # ends of the scale
    high: StrictInt
    low_label: Text  # what each end is called
    high_label: Text
    which: str = ""  # the question about two replies; empty where the rubric compares none

    @model_validator(mode="after")
    def _has_a_scale(self) -> Criterion:
        Scale(self.low, self.high)
        return self

    @property
    def scale(self) -> Scale:
        """The scale, as elicitations take it."""
        return Scale(self.low, self.high, self.low_label, self.high_label)


class Rubric(StrictModel):
    """A way of asking a judge."""

    name: str  # in its file, and in the names of its measures
    file: str  # `packaged`, or the user's file
    source: Text  # where it comes from, in one line
    system: str = ""  # no placeholders
    user: Text  # the template of the question about one reply
    pair: str = ""  # the template of the question about two
    criteria: Annotated[dict[str, Criterion], Field(min_length=1)]  # by name, in order

    @field_validator("criteria")
    @classmethod
    def _are_named(cls, criteria: dict[str, Criterion]) -> dict[str, Criterion]:
        for name in criteria:
            if not _NAME.fullmatch(name):
                raise ValueError(f"the criterion {name!r} has an invalid name: {_IS_A_NAME}")
        return criteria

    @model_validator(mode="after")
    def _can_be_filled(self) -> Rubric:
        placeholders(self.system, (), place="system")
        _check_template(self.user, _USER, {*_WHO, "low_label", "high_label"}, place="user")
        if self.pair:
            _check_template(self.pair, _PAIR, _WHO, place="pair")
        for name, criterion in self.criteria.items():
            if bool(self.pair) != bool(criterion.which):
                given, lacking = ("pair", f"criteria.{name}.which") if self.pair else (f"criteria.{name}.which", "pair")
                raise ValueError(f"{given} is given but {lacking} is not; comparing two replies needs both")
        return self

    @property
    def names_experiencer(self) -> bool:
        """Whether the question about one reply shows who it was written to."""
        return bool(placeholders(self.user, {*_USER, *_WHO, "low_label", "high_label"}, place="user") & _WHO)

    @property
    def sha256(self) -> str:
        """Of everything that the rubric puts into prompts, and of the scales."""
        asked = self.model_dump(exclude={"name", "file", "source"})
        return fingerprint(asked)

    def prompt(self, criterion: str, *, experiencer: str, narrative: str, reply: str) -> Prompt:
        """Return the question about one reply on one criterion; braces in the texts are text."""
        asked = self._criterion(criterion)
        user = self.user.format(
            **_who(experiencer), narrative=quoted(narrative), reply=quoted(reply), **asked.model_dump(exclude={"which"})
        )
        return Prompt(self.system.format(), user)

    def pair_prompt(
        self, criterion: str, *, experiencer: str, narrative: str, first: str, second: str, answers: str
    ) -> Prompt:
        """Return the question which of two replies is better on one criterion."""
        asked = self._criterion(criterion)
        if not self.pair:
            raise StimulusError(
                f"rubric {self.name} ({self.file}) has no pair; add pair, with a `which` for each criterion"
            )
        user = self.pair.format(
            **_who(experiencer),
            narrative=quoted(narrative),
            first=quoted(first),
            second=quoted(second),
            which=asked.which,
            answers=answers,
        )
        return Prompt(self.system.format(), user)

    def _criterion(self, name: str) -> Criterion:
        if name not in self.criteria:
            raise StimulusError(
                f"rubric {self.name} ({self.file}): no criterion {name!r}; {suggest(name, self.criteria)}"
            )
        return self.criteria[name]


def quoted(text: str) -> str:
    r"""Return untrusted text as quoted lines.

    Every line stands after ``> ``, and a space breaks what a chat template may take for a mark of its own: ``<|end|>``,
    ``</s>``, ``[INST]``.

    Examples
    --------
    >>> print(quoted("I am sorry.\nWrite to me."))
    > I am sorry.
    > Write to me.
    """
    broken = _CONTROL.sub(r"\g<0> ", text.strip())
    return "\n".join(f"> {line}".rstrip() for line in broken.splitlines() or [""])


def load_rubrics(path: Path | None = None) -> dict[str, Rubric]:
    """Read rubrics by name from a YAML file in the form of the packaged ``data/rubrics.yaml``; None reads that one.

    Examples
    --------
    >>> rubrics = load_rubrics()
    >>> sorted(rubrics)
    ['empathy', 'epitome']
    """
    file = RUBRICS_FILE if path is None else path
    rubrics: dict[str, Rubric] = {}
    for name, body in read_yaml(file).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise StimulusError(f"{file}: rubric {name!r}: {_IS_A_NAME}")
        if not isinstance(body, dict):
            raise StimulusError(
                f"{file}: rubric {name} must have NAME: VALUE pairs; it needs source, user and criteria"
            )
        own = {"name", "file"} & set(body)
        if own:
            raise StimulusError(
                f"{file}: rubric {name}: {min(own)} must not be given: it follows from the file; leave it out"
            )
        try:
            rubrics[name] = Rubric.model_validate(
                {**body, "name": name, "file": PACKAGED if path is None else str(path)}
            )
        except ValidationError as error:
            where = at_line(Path(file), name, *place_of(error, body))
            raise StimulusError(f"{where}: rubric {name}: {explain(error, Rubric, body)}") from error
    return rubrics


def load_rubric(name: str, path: Path | None = None) -> Rubric:
    """Read one rubric; see :func:`load_rubrics`."""
    rubrics = load_rubrics(path)
    if name not in rubrics:
        raise StimulusError(f"{path or 'packaged rubrics'}: unknown rubric {name!r}; {suggest(name, rubrics)}")
    return rubrics[name]


def _who(experiencer: str) -> dict[str, str]:
    return {"experiencer": experiencer, "Experiencer": capital(experiencer)}


def _check_template(template: str, needed: Iterable[str], others: Iterable[str], *, place: str) -> None:
    """Raise StimulusError unless a template has what it needs, and quoted texts alone on their lines."""
    needed = list(needed)
    found = placeholders(template, {*needed, *others}, place=place)
    lacking = [name for name in needed if name not in found]
    if lacking:
        raise StimulusError(f"{place} lacks the placeholder {{{lacking[0]}}}")
    for name in sorted(_QUOTED & found):
        alone = [line for line in template.splitlines() if line.strip() == f"{{{name}}}"]
        if len(alone) != template.count(f"{{{name}}}"):
            raise StimulusError(f"{place}: {{{name}}} must be alone on its line, because it is shown as quoted lines")
