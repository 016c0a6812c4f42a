"""What a reader of outside bytes is to the fuzz suite, and how one is tried: it ends in a value, a line, or a fault.

The contract is the same for all: an input ends in a value or in an error of the AuditError/StimulusError family, within
a time limit; and where a file says its own checksum, never in another value than was written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from audit.cli.terminal.base import shortened
from audit.errors import AuditError
from stimuli.errors import StimulusError

LIMIT_S = 5.0
"""Seconds of the processor that an input may take; a reader of a few kilobytes takes milliseconds."""


class WrongValueError(Exception):
    """A file that says its own checksum was read as something that was never written."""


class TooSlowError(BaseException):
    """An input took longer than the limit; no reader catches this by accident."""


@dataclass(frozen=True)
class Case:
    """One input: what stands in the file, or what the words are; ``damaged`` is a file that its writer did not make."""

    content: Any
    damaged: bool = False
    which: str = ""


@dataclass(frozen=True)
class Tried:
    """How a reader is tried: what makes an input, what reads it, and inputs without a fault, which must be read."""

    make: Callable[[Random], Case]
    read: Callable[[Case], object]
    whole: Sequence[Case]


@dataclass(frozen=True)
class Reader:
    """A reader of outside bytes or text.

    Attributes
    ----------
    name
        What it is called in the table.
    share
        Its part of all inputs, as a weight.
    prepare
        Takes an empty folder and returns how the reader is tried.
    """

    name: str
    share: int
    prepare: Callable[[Path], Tried]


@dataclass
class Found:
    """What became of a reader's inputs.

    Attributes
    ----------
    faults
        Of each kind of fault, the first input's number and what it ended in.
    """

    reader: str
    n: int = 0
    n_read: int = 0
    n_refused: int = 0
    n_other: int = 0
    n_wrong: int = 0
    slowest_s: float = 0.0
    slowest: int = 0
    total_s: float = 0.0
    faults: dict[str, tuple[int, str]] = field(default_factory=dict)


def rng_of(seed: int, reader: str, number: int) -> Random:
    """Return what draws one input: the same for the same seed, reader and number, whichever are tried beside it."""
    return Random(f"{seed}/{reader}/{number}")


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooSlowError where what is inside takes so long of the processor, or twelve times as long by the clock.

    So a busy machine makes nothing slow. Python's own loops and regular expressions listen to it.
    """

    def late(*_: object) -> None:
        raise TooSlowError

    before = {number: signal.signal(number, late) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 12 * seconds)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep what readers print out of the way."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def try_one(tried: Tried, rng: Random, *, limit_s: float = LIMIT_S) -> tuple[str, str]:
    """Try one input; return ``read``, ``refused``, ``wrong`` or ``other``, and what it ended in."""
    case = tried.make(rng)
    try:
        with silent(), within(limit_s):
            tried.read(case)
    except (AuditError, StimulusError) as error:
        line = shortened(str(error))
        if not line or not line.isprintable():
            return "other", f"{type(error).__name__}: no line that can be printed: {line[:200]!r}"
        return "refused", line
    except WrongValueError as error:
        return "wrong", str(error)
    except TooSlowError:
        return "other", f"took longer than {limit_s:g} s, at {_place(sys.exc_info()[2])}"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit too: no reader ends the process
        return "other", f"{type(error).__name__}: {str(error)[:200]}, at {_place(error.__traceback__)}"
    return "read", ""


def _place(trace: Any) -> str:
    """Return the last place of ours in a traceback: what the fault is to be mended at."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if "/audit/" in frame.filename or "/stimuli/" in frame.filename]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}"


def try_reader(
    reader: Reader, folder: Path, *, seed: int, numbers: range, watch: Callable[[int], None] = lambda number: None
) -> Found:
    """Try a reader with its inputs of these numbers; ``watch`` is told each before it is tried."""
    tried = reader.prepare(folder)
    with silent():
        for case in tried.whole:  # a reader that refuses everything passes any test; and imports are no reading
            tried.read(case)
    found = Found(reader.name)
    for number in numbers:
        watch(number)
        rng = rng_of(seed, reader.name, number)
        began = time.process_time()
        what, said = try_one(tried, rng)
        took = time.process_time() - began
        found.n += 1
        found.total_s += took
        if took > found.slowest_s:
            found.slowest_s, found.slowest = took, number
        match what:
            case "read":
                found.n_read += 1
            case "refused":
                found.n_refused += 1
            case "wrong":
                found.n_wrong += 1
            case _:
                found.n_other += 1
        if what in ("wrong", "other"):
            found.faults.setdefault(said.rpartition(", at ")[2] or said, (number, f"{what}: {said}"))
    return found
