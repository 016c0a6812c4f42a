"""What a command is, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from audit.cli.options import Usage
from audit.cli.printing import say
from audit.cli.unexpected import line_of
from audit.errors import AuditError, StoreError
from audit.tables.formatting import printable
from stimuli.errors import StimulusError

OK: Final = 0
FAILED: Final = 2
"""The user can mend it: one line says how."""
UNEXPECTED: Final = 70
"""Nobody foresaw it, as ``EX_SOFTWARE`` of sysexits.h: one line names a log; see :mod:`audit.cli.unexpected`."""
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
    usages
        The ways to call it, for the completion of shells.
    overrides
        Whether it also takes overrides of the configuration.
    """

    name: str
    summary: str
    help: Callable[[], str]
    do: Callable[[Sequence[str]], int]
    unread: int = OK
    usages: tuple[Usage, ...] = ()
    overrides: bool = False


def shortened(text: str) -> str:
    """Return a text as one line that can be printed; of what is very long, the beginning and the end."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE - _END]} [...] {line[-_END:]}"


@dataclass(frozen=True)
class Fault:
    """What a step ended with.

    Attributes
    ----------
    line
        What was said of it.
    code
        The exit code that it stands for: ``FAILED`` or ``UNEXPECTED``.
    """

    line: str
    code: int = FAILED

    def __str__(self) -> str:
        return self.line


def attempt(step: Callable[[], None], words: Sequence[str]) -> Fault | None:
    """Do a step; show whatever it ends with as one line, and return that, or None if all went well.

    Parameters
    ----------
    step
        What to do. Ctrl-C, and a reader of the output who has gone, are not taken for its faults.
    words
        The command line, for the log of what nobody foresaw.
    """
    try:
        step()
    except (AuditError, StimulusError) as error:
        fault = Fault(shortened(str(error)))
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:  # a library must not end the command in the middle of its work
        fault = Fault(printable(line_of(error, words)), UNEXPECTED)
    else:
        return None
    say(f"audit: {fault}")
    return fault


@contextmanager
def writing_out(out: Path | None) -> Iterator[None]:
    """Turn what keeps ``out=FILE`` from being written into one line; whoever reads a pipe may leave."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={out} cannot be written ({error.strerror or error}); name another file") from error
