"""What a command is, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from audit.cli.terminal.options import Usage
from audit.cli.terminal.printing import say
from audit.cli.terminal.unexpected import log_unexpected
from audit.errors import AuditError, StoreError
from audit.tables.formatting import printable
from stimuli.errors import StimulusError

OK: Final = 0
FAILED: Final = 2  # the user can fix it: one line says how
UNEXPECTED: Final = 70  # an unexpected error, like `EX_SOFTWARE` of sysexits.h: one line names a log
INTERRUPTED: Final = 130

LONGEST_LINE: Final = 2000  # most characters of an error line, which may quote a value of any length from a file
_END: Final = 600  # characters kept of its end, which has the remedy


@dataclass(frozen=True)
class Command:
    """One command of ``python -m audit``."""

    name: str
    summary: str  # a line or two for the list of commands
    help: Callable[[], str]  # returns what `--help` prints, from "usage: " to the last newline; imports nothing heavy
    # Takes the words after the command and returns the exit code; imports what it needs when called. Errors that the
    # user can fix are raised as AuditError or StimulusError.
    do: Callable[[Sequence[str]], int]
    unread: int = OK  # exit code if the reader of the output leaves early
    usages: tuple[Usage, ...] = ()  # the ways to call it, for shell completion
    overrides: bool = False  # whether it also takes overrides of the configuration


def shortened(text: str) -> str:
    """Return a text as one printable line, without its middle if it is very long."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE - _END]} [...] {line[-_END:]}"


@dataclass(frozen=True)
class Fault:
    """How a step failed: the line shown, and the exit code ``FAILED`` or ``UNEXPECTED``."""

    line: str
    code: int = FAILED

    def __str__(self) -> str:
        return self.line


def try_step(step: Callable[[], None], words: Sequence[str]) -> Fault | None:
    """Run a step; print a failure as one line and return it. Ctrl-C and a closed output pipe are passed on."""
    try:
        step()
    except (AuditError, StimulusError) as error:
        fault = Fault(shortened(str(error)))
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:  # a library must not end the command in the middle of its work
        fault = Fault(printable(log_unexpected(error, words)), UNEXPECTED)
    else:
        return None
    say(f"audit: {fault}")
    return fault


@contextmanager
def writing_out(out: Path | None) -> Iterator[None]:
    """Turn an error in writing ``out=FILE`` into one line; a closed output pipe is passed on."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={out} cannot be written ({error.strerror or error}); name another file") from error
