"""Reads a file of ``conf/`` with its comments: each option's value as it is typed, and the comment on it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from yaml import Node

_DEFAULTS: Final = "defaults"
"""The key of a file's defaults list, which is no option."""
_GLOBAL: Final = "# @package _global_"
"""The first line of a file that gives options by their full names."""


@dataclass(frozen=True)
class Written:
    """What a file says about an option.

    Attributes
    ----------
    value
        As typed after the equals sign, on one line.
    comment
        The comment beside it with its continuation lines, or else the comment lines above it.
    """

    value: str
    comment: str


@dataclass(frozen=True)
class Commented:
    """A file of the configuration.

    Attributes
    ----------
    head
        The first sentence of its opening comment.
    defaults
        The choices in its defaults list, by group.
    options
        By full name, in the file's order.
    """

    head: str
    defaults: dict[str, str]
    options: dict[str, Written]


def read_commented(path: Path, *, group: str = "") -> Commented:
    """Read a well-formed file of the configuration.

    ``group`` prefixes the names of its options, unless the first line says that they are full names.
    """
    text = path.read_text("utf-8")
    lines = text.splitlines()
    head = _leading(lines)
    prefix = (group,) if group and _GLOBAL not in head else ()
    root = _root(text)
    return Commented(
        _first_sentence([line for line in head if line != _GLOBAL]),
        _defaults(root),
        dict(_options(root, lines, prefix)),
    )


def _defaults(root: Node | None) -> dict[str, str]:
    listed = [value for key, value in _pairs(root) if key.value == _DEFAULTS]
    entries = [pair for each in listed for entry in each.value for pair in _pairs(entry)]
    return {name.value: chosen.value for name, chosen in entries if " " not in name.value}


def _options(root: Node | None, lines: Sequence[str], prefix: tuple[str, ...]) -> Iterator[tuple[str, Written]]:
    """Yield the options of a mapping and of those nested in it, by full name."""
    for key, value in _pairs(root):
        if len(prefix) < 2 and key.value in (_DEFAULTS, "hydra"):
            continue
        name = (*prefix, key.value)
        yield ".".join(name), Written(_as_typed(value), _comment(key, value, lines))
        yield from _options(value, lines, name)


def _comment(key: Node, value: Node, lines: Sequence[str]) -> str:
    """Return the comment beside an option with its continuation lines, or the comment lines above it."""
    place = value.end_mark if value.start_mark.line == key.start_mark.line and _is_flow(value) else key.end_mark
    line = lines[place.line] if place.line < len(lines) else ""
    beside = re.search(r"(?:^|\s)# ?(.*)$", line[place.column :])
    if beside:
        column = line.index("#", place.column)
        more = []
        for following in lines[place.line + 1 :]:
            if following[: column + 1].strip() != "#" or len(following) - len(following.lstrip()) != column:
                break
            more.append(following.lstrip("# "))
        return " ".join([beside[1].strip(), *more])
    above: list[str] = []
    for before in reversed(lines[len(_leading(lines)) : key.start_mark.line]):
        if not before.lstrip().startswith("#") or len(before) - len(before.lstrip()) != key.start_mark.column:
            break
        above.insert(0, before.strip().lstrip("# "))
    return " ".join(above)


def _is_flow(value: Node) -> bool:
    """Tell whether a value ends on its first line; the end mark of a block lies after it."""
    style = getattr(value, "style", None)
    return style not in ("|", ">") if isinstance(value.value, str) else bool(getattr(value, "flow_style", False))


def _leading(lines: Sequence[str]) -> list[str]:
    """Return the comment lines that a file begins with."""
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return list(lines[:end])


def _first_sentence(head: Sequence[str]) -> str:
    """Return the first sentence of comment lines; indented lines are commands and do not count."""
    plain = itertools.takewhile(lambda line: not line.startswith("#  "), head)
    text = " ".join(line.lstrip("# ").strip() for line in plain)
    found = re.match(r"(.+?)(?<!e\.g)(?<!al)[.:](?: (?=[A-Z(])|$)", text)
    return (found[1] if found else text).strip()


def _as_typed(value: Node) -> str:
    """Write a value as typed after the equals sign, on one line."""
    if isinstance(value.value, str):
        return " ".join(value.value.split()) if value.value else '""' if getattr(value, "style", None) else "null"
    if value.tag.endswith(":seq"):
        return f"[{', '.join(_as_typed(each) for each in value.value)}]"
    return f"{{{', '.join(f'{key.value}: {_as_typed(inside)}' for key, inside in _pairs(value))}}}"


def _pairs(node: Node | None) -> list[tuple[Any, Node]]:
    """Return the keys and values of a mapping; empty for other nodes."""
    return list(node.value) if node is not None and node.tag.endswith(":map") else []


def _root(text: str) -> Node | None:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.compose(text, Loader=loader)
