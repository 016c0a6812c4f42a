"""Reads a YAML file strictly: a key given twice is an error, where PyYAML silently keeps the last."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from stimuli.errors import StimulusError


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a mapping with a key given twice."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, Hashable):
            raise StimulusError(f"line {line}: a key must be a word, not a {type(key).__name__}")
        if key in seen:
            raise StimulusError(f"line {line}: {key!r} is given a second time, first on line {seen[key]}; keep one")
        seen[key] = line
    return dict(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_text(path: Path) -> str:
    """Return a file's text, which must be UTF-8.

    Raises
    ------
    StimulusError
        If the file cannot be read, or is not UTF-8: names the line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StimulusError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise StimulusError(
            f"{path}: line {line} is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        ) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises
    ------
    StimulusError
        If the file cannot be read, is not YAML, holds no mapping, or gives a key twice.
    """
    text = read_text(path)
    try:
        content = yaml.load(text, Loader=_StrictLoader)  # a subclass of SafeLoader
    except StimulusError as error:
        raise StimulusError(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # PyYAML's own constructors let the bare ones escape, e.g. for the date 2020-13-01.
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise StimulusError(f"{path}: {where}not YAML ({getattr(error, 'problem', None) or error})") from error
    if not isinstance(content, dict) or not content:
        raise StimulusError(f"{path}: is empty or no mapping; it needs `name: ...` lines")
    return content


def explain(error: ValidationError) -> str:
    """Return a pydantic error's first fault as ``place: what is wrong``, in one line."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    given = "" if fault["type"] == "missing" else f" (given: {fault['input']!r:.80})"
    said = "a path is wanted" if fault["type"] == "path_type" else fault["msg"].removeprefix("Value error, ")
    return f"{place}: {said}{given}" if place else f"{fault['msg']}{given}"
