"""``python -m audit COMMAND``: lists the commands and runs them.

Nothing heavy is imported before a command needs it, so ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import entry_points
from typing import Final, NoReturn

from audit.cli import cache, consolidate, described, init, judge, people, prompts, report, run, selftest
from audit.cli.completion import completing
from audit.cli.terminal.base import FAILED, INTERRUPTED, OK, Command, try_step
from audit.cli.terminal.printing import WIDTH, say, speak_any_encoding
from audit.configuration import peers
from audit.errors import PROGRAM, ConfigError
from audit.tables.version import __version__
from stimuli.errors import suggest

_CORE: Final = {
    command.name: command
    for command in (
        run.COMMAND,
        described.COMMAND,
        init.COMMAND,
        report.COMMAND,
        people.COMMAND,
        judge.COMMAND,
        consolidate.COMMAND,
        prompts.COMMAND,
        selftest.COMMAND,
        cache.COMMAND,
    )
}
"""The commands of the core, in the order of ``--help``. To add one, add a module beside these and a line here."""
_GROUP: Final = "empathy_audit.commands"
"""The entry points of further commands: ``NAME = "MODULE:COMMAND"``, in pyproject.toml or in any installed package."""


class _Commands(Mapping[str, Command]):
    """All commands by name, the core's first. Others are imported when a name is looked for that the core has not."""

    @cached_property
    def _all(self) -> dict[str, Command]:
        return {command.name: command for command in completing((*_CORE.values(), *_of_extras()))}

    def __getitem__(self, name: str) -> Command:
        return _CORE[name] if name in _CORE else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


COMMANDS: Final = _Commands()


def _of_extras() -> Iterator[Command]:
    """Yield the commands that entry points name, without those of a folder that was taken away."""
    for point in entry_points(group=_GROUP):
        try:
            command = point.load()
        except ModuleNotFoundError as error:
            if error.name is None or not f"{point.module}.".startswith(f"{error.name}."):
                raise
            continue
        if command.name not in _CORE:
            yield command


_HELP: Final = """\
usage: python -m audit COMMAND ...

Audits a language model for intergroup empathy gaps: does a model that speaks as one group rate the feelings of
another lower than those of its own?

commands:
{commands}

`python -m audit COMMAND --help` explains one; `python -m audit --version` prints the version.
"""


class _Parser(argparse.ArgumentParser):
    """A parser with a handwritten help, whose errors end in one line like all others."""

    def __init__(self, *, text: Callable[[], str], prog: str) -> None:
        super().__init__(prog=prog, allow_abbrev=False)
        self._text = text

    def format_help(self) -> str:
        return self._text()

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 is success, 2 an error that the user can fix, 70 an unexpected error, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
    ``gate`` and ``doctor`` have further codes, see their help.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    speak_any_encoding()
    code = OK

    def step() -> None:
        nonlocal code
        code = _dispatch(words)

    try:
        with _ended_as_by_ctrl_c():
            fault = try_step(step, words)
        return code if fault is None else fault.code
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, _Ended) else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        with suppress(OSError):  # the terminal may be gone
            say(f"\n{how}; what was collected is kept: run the same command to continue")
        return INTERRUPTED - signal.SIGINT + number
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); Python must not complain again when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COMMANDS[words[0]].unread if words and words[0] in COMMANDS else OK


class _Ended(KeyboardInterrupt):
    """The process was asked to end; handled like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP end a command like Ctrl-C; what nohup ignores stays ignored."""
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise _Ended(number)

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)


def _dispatch(words: Sequence[str]) -> int:
    flags = ("-h", "--help", "--version")
    name, *rest = words or ["help"]
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    elif name == "version":
        name = "--version"
    if name not in (*flags, "help") and name not in COMMANDS:
        near = suggest(name, COMMANDS)
        if name in peers.COMMAND_OF and not near.startswith("did you mean"):
            near = f"did you mean {peers.COMMAND_OF[name]!r}? {near}"
        raise ConfigError(f"{name!r} is not a command; {near}")
    parser = _Parser(text=_help, prog=" ".join(PROGRAM))
    parser.add_argument("--version", action="version", version=f"empathy-audit {__version__}")
    commands = parser.add_subparsers()
    if name in COMMANDS:
        commands.add_parser(name, text=COMMANDS[name].help, prog=f"{parser.prog} {name}")
    try:
        # To this parser, a command's own words (folders, KEY=VALUE, Hydra's) are all unknown; their order is kept.
        _, own = parser.parse_known_args(["--help" if name == "help" else name, *rest])
    except SystemExit:
        return OK if words else FAILED
    return COMMANDS[name].do(own)


def _help() -> str:
    listed = [
        textwrap.fill(
            command.summary,
            WIDTH,
            initial_indent=f"  {command.name:<11}  ",
            subsequent_indent=" " * len("  consolidate  "),
        )
        for command in COMMANDS.values()
    ]
    return _HELP.format(commands="\n".join(listed))
