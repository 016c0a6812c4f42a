"""What a command is, and how it ends."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from audit.cli.printing import say
from audit.errors import AuditError, StoreError
from audit.wording import printable
from stimuli.errors import StimulusError

PROGRAM: Final = ("python", "-m", "audit")

OK: Final = 0
FAILED: Final = 2
INTERRUPTED: Final = 130

LONGEST_LINE: Final = 2000
"""Letters of a line about a fault; a file may hold a value of any length, which the line names."""
_END: Final = 600
"""Letters that are kept of its end, where the remedy stands."""


@dataclass(frozen=True)
class Command:
    """One command of ``python -m audit``.

    Attributes
    ----------
    name
        What the user types.
    summary
        What it is for, in a line or two of the list of commands.
    help
        Returns what ``--help`` prints, from "usage: " to the last newline. It imports nothing heavy.
    do
        Takes the words after the command and returns the exit code. It imports what it needs when it is called. What
        the user can mend it raises as an ``AuditError`` or a ``StimulusError``.
    unread
        Exit code where whoever reads the output has gone before its end.
    """

    name: str
    summary: str
    help: Callable[[], str]
    do: Callable[[Sequence[str]], int]
    unread: int = OK


def command_line(*words: str) -> str:
    """Return a command as the user may type it again."""
    return shlex.join([*PROGRAM, *words])


def line_of(error: Exception) -> str:
    """Return what an error says as one line that can be printed; of what is very long, the beginning and the end."""
    line = printable(" ".join(str(error).split()))
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE - _END]} [...] {line[-_END:]}"


def attempt(step: Callable[[], None]) -> str | None:
    """Do a step; show what the user can mend as one line, and return that line, or None if all went well."""
    try:
        step()
    except (AuditError, StimulusError) as error:
        fault = line_of(error)
        say(f"audit: {fault}")
        return fault
    return None


@contextmanager
def writing_out(out: Path | None) -> Iterator[None]:
    """Turn what keeps ``out=FILE`` from being written into one line; whoever reads a pipe may leave."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={out} cannot be written ({error.strerror or error})") from error
