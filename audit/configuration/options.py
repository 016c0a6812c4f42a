"""The table of all options, from the schema (:mod:`audit.configuration.schema`) and the files in ``conf/``.

Types, choices and meanings come from the schema, defaults from ``conf/``. ``python -m audit options``, shell completion
and the reference page of the documentation are made from this table only.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

from audit.configuration.packaged import PackagedFile, read_packaged
from audit.configuration.packaged import conf_folder as conf_folder
from audit.configuration.peers import option_here
from audit.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

RUN: Final = "run"  # the heading of options that belong to no group, such as `seed`
_GIVEN: Final = "???"  # Hydra's mark for a value that must be given
_BY_CHOICE: Final = "..."  # marks a value that differs by choice; the schema's default is shown if there is one
_FEW: Final = 4
_SEARCHED: Final = 4  # letters of a word that is looked for in meanings
_SHORT: Final = 30  # up to 4 choices are listed with their values if no value is longer than this
_OR_NULL: Final = ", or null"
_WITHOUT_OPTIONS: Final = ("experiment", "preset")  # groups whose choices set options of other groups


@dataclass(frozen=True)
class OptionRow:
    """One option of a run."""

    group: str  # such as `model`; `run` if it belongs to none
    name: str  # as typed: `model.dtype`; NAME in it stands for a name that the user chooses
    type: str  # in words: whole number, at least 1
    # The packaged value as typed, on one line, or the values by choice: 256 (budget), 1024 (on). Empty if each choice
    # has its own or a value must be given. Model cards may set others.
    default: str
    choices: tuple[str, ...]  # the words that it takes, if these are fixed
    meaning: str


@dataclass(frozen=True)
class ChoiceRow:
    """One choice of a group: ``llama3`` of ``model=llama3``."""

    name: str
    meaning: str


@dataclass(frozen=True)
class GroupRow:
    """One group of options; ``run`` stands for the options of no group, and its default is empty."""

    name: str
    default: str
    choices: tuple[ChoiceRow, ...]


def choices() -> dict[str, list[str]]:
    """List the choices of each group of the packaged configuration."""
    folders = sorted(path for path in conf_folder().iterdir() if path.is_dir() and path.name != "hydra")
    return {f.name: sorted(p.stem for p in f.glob("*.yaml") if p.stem not in ("base", "none")) for f in folders}


def offered() -> dict[str, list[str]]:
    """List the choices of each group, including ``none`` for groups that have it."""
    has = {group for group in choices() if (conf_folder() / group / "none.yaml").is_file()}
    return {group: sorted([*names, *(["none"] if group in has else [])]) for group, names in choices().items()}


def choices_with(group: str, option: str) -> list[str]:
    """List the choices of a group whose files set an option; those that all others take it from do not count."""
    return [name for name in choices().get(group, []) if option in _file(group, name).values]


def group_rows() -> tuple[GroupRow, ...]:
    """List the groups with their choices; ``run`` comes first.

    Examples
    --------
    >>> [thinking] = [group for group in group_rows() if group.name == "thinking"]
    >>> thinking.default, [choice.name for choice in thinking.choices]
    ('off', ['budget', 'off', 'on'])
    """
    groups = [GroupRow(RUN, "", ())]
    for name in _usual():
        standard = _usual()[name]
        names = sorted(offered()[name], key=lambda each: each != "none")
        rows = tuple(ChoiceRow(each, _file(name, each).head) for each in names)
        groups.append(GroupRow(name, standard, rows))
    return tuple(groups)


def option_rows(group: str | None = None) -> tuple[OptionRow, ...]:
    """List all options of a run, or those of a group, an option, the beginning of names or a word, in schema order.

    A word is the end of names (``margin``), another tool's name (``limit``), or part of names or meanings.

    Examples
    --------
    >>> [seed] = option_rows("seed")
    >>> seed.type, seed.default
    ('whole number, at least 0, below 4294967296', '0')
    """
    rows = _rows()
    if group is None:
        return rows
    asked = group.rstrip("=.")
    chosen = tuple(row for row in rows if asked in (row.group, row.name) or row.name.startswith(f"{asked}."))
    if not chosen and asked not in _usual():
        near = _nearest(asked)
        chosen = _found(asked.lower(), in_meanings=not near.startswith("did you mean"))
        if not chosen:
            raise ConfigError(f"{group}: unknown group or option; {near}")
    return chosen


def _found(word: str, *, in_meanings: bool) -> tuple[OptionRow, ...]:
    """Find the options that a word means: by ends of names, other tools' names, parts of names, or meanings."""
    ways: list[Callable[[OptionRow], bool]] = [
        lambda row: row.name.endswith(f".{word}"),
        lambda row: row.name == option_here(word),
        lambda row: word in re.split(r"[._]", row.name),
    ]
    if in_meanings and len(word) >= _SEARCHED:
        ways.append(lambda row: re.search(rf"\b{re.escape(word)}\b", row.meaning, re.IGNORECASE) is not None)
    found = (tuple(filter(way, _rows())) for way in ways)
    return next(filter(None, found), ())


def _nearest(asked: str) -> str:
    """Suggest what a name resembles, and list the groups."""
    groups = [group.name for group in group_rows()]
    names = [row.name for row in _rows()]
    whole = {name for row in names for name in itertools.accumulate(row.split("."), "{}.{}".format)}
    by_end = [name for name in names if name.endswith(f".{asked}")]
    begun = [group for group in groups if asked and group.startswith(asked)]
    near = by_end[:1] or begun or difflib.get_close_matches(asked.lower(), [*groups, *sorted(whole)], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}groups are: {', '.join(groups)}"


@cache
def _rows() -> tuple[OptionRow, ...]:
    from audit.configuration.schema import AuditConfig

    packaged = _values()
    rows: dict[str, OptionRow] = {}
    for name, field in _fields(AuditConfig):
        # What no file names can only be given inside another option, unless the user names what holds it.
        if (name not in packaged and ".NAME." not in name) or name in _usual():
            continue
        head = name.partition(".")[0]
        value = packaged.get(name, _GIVEN)
        row = OptionRow(
            head if head in _usual() else RUN,
            name,
            _type(field),
            _as_typed(field) if value in (_BY_CHOICE, _GIVEN) else value,
            _choices(field.annotation),
            field.description or "",
        )
        rows[name] = _both(rows[name], row) if name in rows else row
    # Options of the run itself come first, like its flags.
    return tuple(sorted(rows.values(), key=lambda row: [RUN, *_usual()].index(row.group)))


@cache
def _usual() -> dict[str, str]:
    """Map each group to its default choice, in the order of ``audit.yaml``."""
    return read_packaged(conf_folder() / "audit.yaml").defaults


@cache
def _file(group: str, name: str) -> PackagedFile:
    return read_packaged(conf_folder() / group / f"{name}.yaml", group=group)


def _values() -> dict[str, str]:
    """Collect each option's packaged value.

    A card only sets the values of its own model, so those of ``model`` may come from any card.
    """
    found = dict(read_packaged(conf_folder() / "audit.yaml").values)
    for group, usual in _usual().items():
        if group in _WITHOUT_OPTIONS:
            continue
        names = [path.stem for path in sorted((conf_folder() / group).glob("*.yaml"))]
        first = [name for name in ("base", usual) if name in names and not (group == "model" and name == usual)]
        by_option: dict[str, dict[str, str]] = {}
        for name in dict.fromkeys([*first, *names]):
            for option, value in _file(group, name).values.items():
                if option.startswith(f"{group}."):
                    by_option.setdefault(_general(option), {})[name] = value
        found |= {option: _packaged(by_file, first) for option, by_file in by_option.items()}
    return found


def _packaged(by_file: Mapping[str, str], first: Sequence[str]) -> str:
    """Return the value of the default choice; if that lacks the option, the values of the choices that have it."""
    of_usual = [by_file[name] for name in first if name in by_file]
    if of_usual:
        return of_usual[-1]
    if len(set(by_file.values())) == 1:
        return next(iter(by_file.values()))
    if len(by_file) <= _FEW and all(len(value) <= _SHORT for value in by_file.values()):
        return ", ".join(f"{value} ({name})" for name, value in by_file.items())
    return _BY_CHOICE


def _general(name: str) -> str:
    """Put NAME in an option's name for the part that users name: a strategy's stages."""
    parts = name.split(".")
    return (
        ".".join(["strategy", "stages", "NAME", *parts[3:]])
        if parts[:2] == ["strategy", "stages"] and parts[2:]
        else name
    )


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the schema's options, except those that only hold others and cannot be null."""
    from stimuli.faults import nested_models

    for name, field in model.model_fields.items():
        inside = list(nested_models(field.annotation))
        if not inside or type(None) in get_args(field.annotation) or get_origin(field.annotation) is dict:
            yield prefix + name, field
        by_name = "NAME." if get_origin(field.annotation) is dict else ""
        for each in inside:
            yield from _fields(each, f"{prefix}{name}.{by_name}")


def _both(row: OptionRow, other: OptionRow) -> OptionRow:
    """Merge an option that several models have, such as ``task.kind``: it takes what either takes."""
    types = [each.type.removesuffix(_OR_NULL) for each in (row, other)]
    null = _OR_NULL if any(each.type.endswith(_OR_NULL) for each in (row, other)) else ""
    choices = tuple(dict.fromkeys([*row.choices, *other.choices]))
    return replace(
        row, type=" or ".join(dict.fromkeys(types)) + null, choices=choices, meaning=row.meaning or other.meaning
    )


def _as_typed(field: FieldInfo) -> str:
    """Write the schema's default as it is typed; empty if there is none."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(str, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return '""' if value == "" else str(value)


def _choices(annotation: Any) -> tuple[str, ...]:
    """List the words that an annotation allows, at any depth."""
    if get_origin(annotation) is Literal:
        return tuple(each for each in get_args(annotation) if isinstance(each, str))
    inside = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return tuple(dict.fromkeys(word for each in inside for word in _choices(each)))


_KINDS: Final[Mapping[Any, str]] = {
    int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path",
}  # fmt: skip


def _type(field: FieldInfo) -> str:
    """Describe in words what an option takes."""
    from audit.configuration.groups import bare_model

    also = ["text"] if any(getattr(each, "func", None) is bare_model for each in field.metadata) else []
    kinds = dict.fromkeys([*also, *_kinds(field.annotation)])
    bounds = [text for each in field.metadata if (text := _bound(each))]
    can_be_null = "null" in kinds
    said = ", ".join([" or ".join(kind for kind in kinds if kind != "null"), *bounds])
    return f"{said}{_OR_NULL}" if can_be_null else said


def _kinds(annotation: Any) -> Iterator[str]:
    from pydantic import BaseModel

    origin = get_origin(annotation)
    if annotation is type(None):
        yield "null"
    elif origin is Annotated:
        inside, *marks = get_args(annotation)
        bounds = [text for each in marks if (text := _bound(each))]
        yield from (", ".join([kind, *bounds]) for kind in _kinds(inside))
    elif origin is Literal:
        yield "one of the choices"
    elif origin in (tuple, list, Sequence):
        yield "list"
    elif origin in (dict, Mapping) or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        yield "names with values"
    elif origin is not None:
        for each in get_args(annotation):
            yield from _kinds(each)
    else:
        yield _KINDS[annotation]


def _bound(mark: Any) -> str:
    """Describe in words the bound that an annotation sets on a number."""
    if getattr(mark, "min_length", None) is not None:
        return "not empty"
    for name, words in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        if getattr(mark, name, None) is not None:
            return f"{words} {getattr(mark, name)}"
    return ""
