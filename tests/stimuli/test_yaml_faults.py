"""What pydantic says is said in the user's words; the oracle is what was planted."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stimuli.faults import explain, place_of
from stimuli.yaml_files import at_line, line_of


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(min_length=1)
    kind: Literal["red", "blue"] = "red"
    n: int = Field(default=1, ge=1, lt=10)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    parts: dict[str, Inner]
    listed: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = []
    either: Inner | Literal["none"] = "none"
    on: bool = True


GOOD = {"text": "a"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "parts: is missing; give it a value"),
        ({"parts": {"a": {}}}, "parts.a.text: is missing; give it a value"),
        ({"parts": {"a": {"text": ""}}}, "parts.a.text: must not be empty (given: '')"),
        ({"parts": {"a": {"text": 3}}}, "parts.a.text: must be text (given: 3); put it in quotes"),
        ({"parts": {"a": {"text": None}}}, "parts.a.text: must be text (given: nothing)"),
        ({"parts": {"a": {"txt": "b", **GOOD}}},
         "parts.a.txt: unknown name; did you mean 'text'? there are: kind, n, text"),
        ({"parts": {"a": {"kind": "bleu", **GOOD}}},
         "parts.a.kind: must be red or blue; did you mean 'blue'? (given: 'bleu')"),
        ({"parts": {"a": {"n": 0, **GOOD}}}, "parts.a.n: must be at least 1 (given: 0)"),
        ({"parts": {"a": {"n": 10, **GOOD}}}, "parts.a.n: must be below 10 (given: 10)"),
        ({"parts": {"a": {"n": "x", **GOOD}}}, "parts.a.n: must be a whole number (given: 'x')"),
        ({"parts": {"a": ["b"]}}, "parts.a: must be NAME: VALUE pairs (given: ['b'])"),
        ({"parts": "b"}, "parts: must be NAME: VALUE pairs (given: 'b')"),
        ({"parts": {}, "listed": [1.0, 0.0]}, "listed item 2: must be above 0 (given: 0.0)"),
        ({"parts": {}, "listed": [float("inf")]},
         "listed item 1: must be a finite number (given: inf)"),
        ({"parts": {}, "listed": 3}, "listed: must be a list, such as [a, b] (given: 3)"),
        ({"parts": {}, "on": "perhaps"}, "on: must be true or false (given: 'perhaps')"),
        ({"parts": {}, "either": {"text": True}}, "either.text: must be text (given: true); put it in quotes (YAML "
        "reads yes, no, on and off as true and false)"),
        ({"parts": {}, "prats": 1},
         "prats: unknown name; did you mean 'parts'? there are: either, listed, on, parts"),
    ],
)  # fmt: skip
def test_a_fault_names_the_place_what_is_wanted_and_what_was_given(content, said):
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(content)
    assert explain(caught.value, Outer, content) == said


def test_no_phrase_of_pydantic_is_left_in_any_of_these():
    for content in ({}, {"parts": 1}, {"parts": {"a": {"text": 1}}}, {"parts": {}, "on": 3}, {"parts": {}, "x": 1}):
        with pytest.raises(ValidationError) as caught:
            Outer.model_validate(content)
        line = explain(caught.value, Outer, content)
        assert not any(phrase in line for phrase in ("Input", "valid", "instance", "Extra", "Field", "dictionary"))


def test_the_line_of_a_value_is_found_by_its_keys_or_by_the_last_that_is_there(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("a: 1\nb:\n  c: [x,\n    y]\n  2: z\n")
    assert line_of(file, ("b", "c", 1)) == 4
    assert line_of(file, ("b", "2")) == 5
    assert line_of(file, ("b", "gone")) == 2
    assert line_of(file, ("gone",)) is None
    assert at_line(file, "gone") == str(file)
    assert line_of(tmp_path / "no.yaml", ("a",)) is None


def test_a_place_has_what_the_user_wrote_alone():
    content = {"parts": {}, "either": {"text": True}}
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(content)
    assert place_of(caught.value, content) == ("either", "text")
