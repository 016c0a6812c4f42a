"""The packaged configuration: where its files are, and what each says; and where the cache is."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from yaml import Node

_DEFAULTS: Final = "defaults"  # the key of a file's defaults list, which is no option
_GLOBAL: Final = "# @package _global_"  # the first line of a file that gives options by their full names


def conf_folder() -> Path:
    """Return the folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def cache_folder() -> Path:
    """Return the folder of unpacked models and hashes: under ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "empathy-audit"


@dataclass(frozen=True)
class PackagedFile:
    """A file of the configuration."""

    head: str  # the first sentence of its opening comment, which says what this choice is
    defaults: dict[str, str]  # the choices in its defaults list, by group
    values: dict[str, str]  # each option's value by the option's full name: as typed after the equals sign, on one line


def read_packaged(path: Path, *, group: str = "") -> PackagedFile:
    """Read a well-formed file of the configuration."""
    import yaml

    text = path.read_text("utf-8")
    head = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
    prefix = (group,) if group and _GLOBAL not in head else ()
    # Nodes keep the values as they are typed.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    root = yaml.compose(text, Loader=loader)
    return PackagedFile(
        _first_sentence([line for line in head if line != _GLOBAL]), _defaults(root), dict(_values(root, prefix))
    )


def differs(option: str, value: str | None, *, choice: str) -> bool:
    """Tell whether a text is another one than the packaged choice has for the option, such as ``task.user``."""
    group = option.partition(".")[0]
    packaged = read_packaged(conf_folder() / group / f"{choice}.yaml", group=group).values[option]
    return " ".join(("null" if value is None else value).split()) != packaged


def _defaults(root: Node | None) -> dict[str, str]:
    listed = [value for key, value in _pairs(root) if key.value == _DEFAULTS]
    entries = [pair for each in listed for entry in each.value for pair in _pairs(entry)]
    return {name.value: chosen.value for name, chosen in entries if " " not in name.value}


def _values(root: Node | None, prefix: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the options of a mapping and of those nested in it, by full name."""
    for key, value in _pairs(root):
        if len(prefix) < 2 and key.value in (_DEFAULTS, "hydra"):
            continue
        name = (*prefix, key.value)
        yield ".".join(name), _as_typed(value)
        yield from _values(value, name)


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
