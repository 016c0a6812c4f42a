"""What is wrong with values that a user wrote, in the user's words: the place, what is wanted there, what was given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stimuli.errors import suggest

_WANTED: Final[Mapping[str, str]] = {
    "string": "a text is wanted",
    "int": "a whole number is wanted",
    "float": "a number is wanted",
    "finite_number": "a number is wanted that is not infinite",
    "bool": "true or false is wanted",
    "path": "a path is wanted",
    "model": "names with values are wanted, as in NAME: VALUE",
    "dict": "names with values are wanted, as in NAME: VALUE",
    "mapping": "names with values are wanted, as in NAME: VALUE",
    "list": "a list is wanted, as in [a, b]",
    "tuple": "a list is wanted, as in [a, b]",
}
"""What is wanted, by the beginning of pydantic's name of a fault."""

_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}
"""How a bound is said, and where pydantic has it."""


def nested_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a field may hold, however deep in its annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for nested in get_args(annotation):
        yield from nested_models(nested)


def explain(error: ValidationError, model: type[BaseModel] | None = None, content: object = None) -> str:
    """Return a pydantic error's most telling fault as ``place: what is wanted (given: value)``, in one line.

    Fields of ``model`` are suggested for a name that it does not have. Parts of a place that are not in ``content`` are
    pydantic's own, and left out.
    """
    fault = fault_of(error)
    place = _written(place_of(error, content))
    said = _said(fault, model)
    value = fault["input"]
    # Of a fault of the whole the parts are not repeated.
    whole = fault["type"] == "value_error" and isinstance(value, (Mapping, BaseModel))
    if fault["type"] not in ("missing", "extra_forbidden") and not whole:
        said += f" (given: {shown(value)})"
    if fault["type"] == "string_type" and isinstance(value, bool):
        said += "; put it in quotes (YAML reads yes, no, on and off as true and false)"
    elif fault["type"] == "string_type" and isinstance(value, (int, float, date)):
        said += "; put it in quotes"
    return f"{place}: {said}" if place else said


def fault_of(error: ValidationError) -> ErrorDetails:
    """Return the first fault, or the first misspelt name, of which the right one may be missed, too."""
    faults = error.errors(include_url=False)
    return next((each for each in faults if each["type"] == "extra_forbidden"), faults[0])


def place_of(error: ValidationError, content: object = None) -> tuple[str | int, ...]:
    """Return where the told fault is, without what pydantic adds of its own, such as the name of a choice's kind."""
    fault = fault_of(error)
    parts = [part for part in fault["loc"] if isinstance(part, int) or not re.search(r"[\[\]()]", part)]
    if content is None:
        return tuple(parts)
    kept: list[str | int] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if isinstance(content, Mapping):
            key = next((key for key in content if str(key) == str(part)), None)  # which YAML may read as a number
            if key is not None:
                content, part = content[key], str(part)
            elif not (last and fault["type"] == "missing"):
                continue
        elif isinstance(content, (list, tuple)) and isinstance(part, int) and part < len(content):
            content = content[part]
        else:
            continue
        kept.append(part)
    return tuple(kept)


def _written(place: Sequence[str | int]) -> str:
    """Return a place as a user counts: the second of a list's values is item 2."""
    text = ""
    for part in place:
        text += f" item {part + 1}" if isinstance(part, int) else f".{part}" if text else part
    return text.strip()


def shown(value: object) -> str:
    """Return a value as a user wrote it, cut where it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, date):
        return str(value)
    return str(value).lower() if isinstance(value, bool) else f"{value!r:.80}"


def _said(fault: Any, model: type[BaseModel] | None) -> str:
    """Return what is wrong, or what is wanted."""
    kind, context = str(fault["type"]), fault.get("ctx", {})
    if kind == "missing":
        return "is missing; give it a value"
    if kind == "extra_forbidden":
        names = fields_at(model, fault["loc"][:-1]) if model is not None else ()
        return f"there is no such name here; {suggest(str(fault['loc'][-1]), names)}" if names else "is not wanted here"
    if kind in ("value_error", "assertion_error"):
        return str(fault["msg"]).removeprefix("Value error, ")
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        words = re.findall(r"'([^']*)'", str(context.get("expected") or context.get("expected_tags")))
        near = difflib.get_close_matches(str(fault["input"]), words, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{' or '.join(words)} is wanted{hint}"
    if kind in _BOUNDS:
        words_of_it, key = _BOUNDS[kind]
        return f"must be {words_of_it} {context[key]:g}"
    if kind in ("string_too_short", "too_short"):
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"needs at least {least}"
    return next((words for begin, words in _WANTED.items() if kind.startswith(begin)), str(fault["msg"]))


def fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> Sequence[str]:
    """Return the fields of the model that a place is in; of several that may be there, those of all."""
    models = [model]
    for part in loc:
        inside = [
            nested
            for each in models
            for nested in (
                nested_models(each.model_fields[str(part)].annotation) if str(part) in each.model_fields else ()
            )
        ]
        # A name that the user chose, or a place in a list, leads to no other model.
        models = inside or models
    return list(dict.fromkeys(name for each in models for name in each.model_fields))
