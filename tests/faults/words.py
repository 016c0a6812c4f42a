"""What is typed: overrides of the configuration and KEY=VALUE words of every command; composed and read, never run."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import mutations
import yaml
from reading import Case, Reader, Tried
from stored import ROOT

from audit.cli.main import COMMANDS
from audit.cli.terminal.options import Usage
from audit.configuration.composition import choices, compose
from audit.configuration.schema import AuditConfig, option_names

SAFE_FLAGS = (
    "--cfg=job",
    "--resolve",
    "-m",
    "--multirun",
    "-c",
    "--info",
    "--frobnicate",
    "-h",
    "-",
    "--",
    "--config-dir=none",
)
_WRITTEN = (
    "1",
    "-1",
    "0",
    "1.5",
    "1e3",
    "nan",
    "inf",
    "true",
    "null",
    "~",
    "''",
    '""',
    "abc",
    "a b",
    "a,b",
    "a,b,c",
    "[1,2]",
    "[a,[b]]",
    "[]",
    "{a:1}",
    "{a:{b:c}}",
    "{}",
    "[",
    "]",
    "{",
    "}",
    "(",
    "'",
    '"',
    "\\",
    "a=b",
    "=",
    "==",
    ":",
    "a:b",
    "${seed}",
    "${oc.env:HOME}",
    "${oc.env:NO_SUCH}",
    "${x",
    "${}",
    "${.}",
    "${..seed}",
    "${oc.decode:'[1'}",
    "${nope:1}",
    "???",
    "range(1,4)",
    "range(1,0)",
    "range(0,1,0)",
    "interval(0,1)",
    "glob(*)",
    "glob(e*)",
    "choice(1,2)",
    "choice()",
    "sort(3,1)",
    "shuffle(1,2)",
    "int(x)",
    "str(1)",
    "bool(2)",
    "float(1)",
    "json_str([])",
    "extend_list(1)",
    "tag(a,b)",
    "é",
    "🙂",
    "/tmp/ä ö",
    "~/x",
    "2020-13-01",
    "0x1F",
    "1_000",
    "@",
    "#",
    "%",
    "!x",
    "&a",
    "*a",
    "|",
    ">",
    "\n",
    "\t",
    "a\nb",
    "\x00",
    "\udcff",
    "--",
    "9" * 400,
    "1" + "0" * 400,
    "x" * 3000,
    "[" * 300,
    "{a:" * 300,
    "range(0,100000000)",
    "1:30",
    "0o7",
    "yes",
    "no",
)
"""Values that mean something to a parser, or nearly do."""


@contextmanager
def read_once() -> Iterator[None]:
    """Read the packaged configuration once, not for each command: that takes longer than all else of composing one."""
    load, known = yaml.load, {}

    def load_once(stream: Any, Loader: Any) -> Any:
        name = getattr(stream, "name", None)
        if not isinstance(name, str) or not name.startswith(str(ROOT)):
            return load(stream, Loader=Loader)
        key = (name, Loader.__qualname__)
        if key not in known:
            known[key] = load(stream, Loader=Loader)
        return copy.deepcopy(known[key])

    with patch.object(yaml, "load", load_once):
        yield


def composed(words: list[str]) -> AuditConfig:
    """Return the configuration that words make."""
    found: list[AuditConfig] = []
    compose(words, lambda each: found.append(each.validated()))
    return found[-1]


@cache
def _names() -> tuple[str, ...]:
    return tuple(option_names())


def value(rng: Random) -> str:
    """Return the text after an equals sign."""
    match rng.randrange(6):
        case 0:
            return rng.choice((*mutations.ODD, *mutations.HUGE))
        case 1:
            return f"{rng.choice(_WRITTEN)}{rng.choice((',', '', ' ', ':'))}{rng.choice(_WRITTEN)}"
        case 2:
            return f"[{','.join(rng.choice(_WRITTEN) for _ in range(rng.randrange(4)))}]"
        case _:
            return rng.choice(_WRITTEN)


def override(rng: Random) -> str:
    """Return one override: of a group or an option, right, nearly right, or neither."""
    groups = choices()
    group = rng.choice(list(groups))
    match rng.randrange(10):
        case 0 | 1:
            word = f"{group}={rng.choice([*groups[group], 'none', rng.choice(groups[group])[:-1]])}"
        case 2:
            word = f"{group}={value(rng)}"
        case 3:
            inside = rng.choice(("x", "a.b", "0", "", "_target_", "_name_"))
            word = f"{rng.choice((group, rng.choice(_names())))}.{inside}={value(rng)}"
        case 4:
            word = rng.choice(
                (value(rng), f"{value(rng)}={value(rng)}", f"{group}@{rng.choice(_WRITTEN)}={value(rng)}")
            )
        case _:
            word = f"{rng.choice(_names())}={value(rng)}"
    word = f"{rng.choice(('', '', '', '', '', '+', '++', '~', ' '))}{word}"
    # What would begin processes, or a log somewhere, is not tried: nothing is run here.
    return word.replace("hydra", "hydrant")


def _overrides(folder: Path) -> Tried:
    os.chdir(folder)

    def make(rng: Random) -> Case:
        words = [override(rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        if rng.random() < 0.08:
            words.append(rng.choice(SAFE_FLAGS))
        return Case(words)

    def task(each: Any) -> None:
        config = each.validated()
        config.prompt_variant()
        config.strategy.strategy()
        config.model_dump_json()

    def read(case: Case) -> object:
        with read_once():
            return compose(list(case.content), task)

    return Tried(make, read, [Case([]), Case(["stimuli.situations_per_emotion=all", "+model=llama3"])])


def _own_conf(folder: Path) -> Tried:
    """Choices of a user's own, in a folder that --config-dir names: prompts, strategies, models, tasks."""
    os.chdir(folder)
    seeds = {
        "prompt": (ROOT / "conf/prompt/origin.yaml", ROOT / "conf/prompt/persona-1.yaml"),
        "strategy": (
            ROOT / "conf/strategy/ecn.yaml",
            ROOT / "conf/strategy/few-shot-1.yaml",
            ROOT / "conf/strategy/perspective.yaml",
        ),
        "model": (ROOT / "conf/model/smollm2.yaml",),
        "task": (ROOT / "conf/task/reply.yaml",),
    }

    def make(rng: Random) -> Case:
        group = rng.choice(list(seeds))
        return Case(mutations.of_yaml(rng, rng.choice(seeds[group]).read_bytes()), which=group)

    def read(case: Case) -> object:
        place = folder / "conf" / case.which
        shutil.rmtree(folder / "conf", ignore_errors=True)
        place.mkdir(parents=True)
        (place / "mine.yaml").write_bytes(case.content)

        def task(each: Any) -> None:
            config = each.validated()
            config.prompt_wordings()
            config.strategy.strategy(answer=config.task.stage if config.task.may_be_led else None)

        with read_once():
            return compose([f"--config-dir={folder / 'conf'}", f"{case.which}=mine"], task)

    return Tried(make, read, [Case(path.read_bytes(), which=group) for group, paths in seeds.items() for path in paths])


def usages() -> list[Usage]:
    """Return all ways to call a command that takes KEY=VALUE words."""
    import importlib

    modules = {command.do.__module__ for command in COMMANDS.values()}
    found = [each for name in sorted(modules) for each in vars(importlib.import_module(name)).values()]
    return [each for each in found if isinstance(each, Usage)]


def _key_values(folder: Path) -> Tried:
    os.chdir(folder)
    every = usages()

    def make(rng: Random) -> Case:
        place = rng.randrange(len(every))
        usage = every[place]
        words = []
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            options = [*usage.names, "statistics.margin", "statistics.formula"]
            name = (
                rng.choice(options) if rng.random() < 0.85 else rng.choice((*mutations.ODD, rng.choice(options)[:-1]))
            )
            words.append(f"{name}={value(rng)}" if rng.random() < 0.9 else value(rng))
        return Case(words, which=str(place))

    def read(case: Case) -> object:
        usage = every[int(case.which)]
        given = usage.read(case.content)
        return [given[option] for option in (*usage.needed, *usage.options)], given.settings()

    return Tried(make, read, [Case([], which=str(place)) for place in range(len(every))])


def _commands(folder: Path) -> Tried:
    """The words before a command reads its own: names, flags, folders that are not there."""
    os.chdir(folder)
    names = [name for name in COMMANDS if name not in ("run", "doctor", "plan", "prompts", "replicate", "cache")]
    every = usages()

    def make(rng: Random) -> Case:
        words = [rng.choice(names) if rng.random() < 0.8 else rng.choice((*mutations.ODD, "repot"))]
        options = sorted({name for usage in every for name in usage.names})
        words += [rng.choice((value(rng), f"{rng.choice(options)}={value(rng)}")) for _ in range(rng.randrange(4))]
        return Case(words)

    def read(case: Case) -> object:
        from audit.cli.main import main

        code = main(list(case.content))
        assert code in (0, 1, 2, 3), f"exit code {code}"
        return code

    return Tried(make, read, [Case(["report", "nowhere"])])


_PREPARED: Sequence[tuple[str, int, Callable[[Path], Tried]]] = (
    ("overrides of the configuration", 800, _overrides),
    ("own choices in --config-dir (YAML)", 120, _own_conf),
    ("KEY=VALUE words of commands", 12_000, _key_values),
    ("whole command lines, without runs", 600, _commands),
)
READERS = tuple(Reader(*each) for each in _PREPARED)
