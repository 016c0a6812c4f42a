"""Validation of composed options: a ConfigError in one line that gives the option's full name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from audit.errors import ConfigError
from stimuli.errors import suggest
from stimuli.faults import explain, fault_of, fields_at, nested_models, place_of, shown

_MOST: Final = 10_000
"""Limit on the values of a list or the names of a mapping."""
_LARGEST: Final = 10**15
"""No count is this large, so a larger number is a slip; some libraries could not hold it."""
_Model = TypeVar("_Model", bound=BaseModel)


def validate(model: type[_Model], values: Mapping[str, Any], *part: str) -> _Model:
    """Build a model of the configuration or of one part; a ConfigError gives the full name of the option."""
    _check_kinds((model,), values, part)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = fault_of(error)
        if fault["type"] == "extra_forbidden":
            *place, key = map(str, place_of(error, values))
            nearest = suggest(key, fields_at(model, place))
            raise ConfigError(f"{'.'.join([*part, *place, key])}: unknown option; {nearest}") from error
        raise ConfigError("".join(f"{name}." for name in part) + explain(error, model, values)) from error


def _check_kinds(models: Sequence[type[BaseModel]], values: Mapping[Any, Any], place: Sequence[str]) -> None:
    """Refuse what pydantic would convert silently (true for a number, 1 for true) and what is too large or long.

    ``models`` are the alternatives that ``values`` may belong to, ``place`` the names that lead to them. Unknown names
    are left to pydantic.
    """
    for name, value in values.items():
        annotations = [of.model_fields[name].annotation for of in models if name in of.model_fields]
        if not annotations:
            continue
        full = ".".join([*place, str(name)])
        if fault := _wrong_kind(_leaves_of(annotations), value):
            raise ConfigError(f"{full}: {fault} (given: {shown(value)})")
        if isinstance(value, str) and (Path in _leaves_of(annotations) or name == "path"):
            if "\0" in value:
                raise ConfigError(f"{full}: has a NUL character, which no path can have; write the path again")
            if not (name == "path" and values.get("base_url")):  # a server's model is an id, not a path
                _check_path(full, value)
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        if len(value) > _MOST:
            raise ConfigError(f"{full}: has {len(value):,} values; give at most {_MOST:,}")
        inside = _of_kind([nested for annotation in annotations for nested in nested_models(annotation)], value)
        is_by_name = any(dict in _origins(annotation) for annotation in annotations)
        of_names = value.items() if isinstance(value, Mapping) and is_by_name else [("", value)]
        for own, each in of_names:
            if isinstance(each, Mapping):
                _check_kinds(inside, each, [*place, str(name), *([str(own)] if own else [])])


def _of_kind(models: Sequence[type[BaseModel]], value: object) -> Sequence[type[BaseModel]]:
    """Keep the alternatives that a mapping's ``kind`` names: another kind may take a path where this one takes text."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    named = [each for each in models if (own := each.model_fields.get("kind")) and kind in get_args(own.annotation)]
    return named or models


def _leaves_of(annotations: Sequence[Any]) -> frozenset[Any]:
    return frozenset().union(*map(_leaves, annotations))


def _check_path(name: str, text: str) -> None:
    """Refuse a path with a part that is too long for a file name."""
    if longest := next((part for part in re.split(r"[/\\]", text) if len(part.encode("utf-8", "replace")) > 255), ""):
        raise ConfigError(f"{name}: {longest[:40]!r}... is too long for a file name; shorten it")


def _wrong_kind(kinds: frozenset[Any], value: object) -> str:
    """Say what is wanted instead of a value; empty if the value is fine."""
    if isinstance(value, bool):
        wanted = "" if bool in kinds else "must be a number" if float in kinds else "must be a whole number"
        return wanted if {int, float} & kinds else ""
    if bool in kinds and isinstance(value, (int, float, str)):
        return "must be true or false"
    if {int, float} & kinds and isinstance(value, (int, float)):
        if not math.isfinite(value):
            return "must be a finite number"
        return f"must be at most {_LARGEST:,}" if abs(value) > _LARGEST else ""
    return ""


def _leaves(annotation: Any) -> frozenset[Any]:
    """Collect the plain types that an annotation allows outside a list."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _leaves(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return frozenset().union(*map(_leaves, get_args(annotation)))
    return frozenset() if origin is not None else frozenset({annotation})


def _origins(annotation: Any) -> set[Any]:
    """Collect the collection types that an annotation allows."""
    inside = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return {get_origin(annotation), *(origin for each in inside for origin in _origins(each))}
