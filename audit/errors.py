"""What can go wrong in an audit by the user's hand or the machine's; each ends in one line and exit code 2."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

PROGRAM: Final = ("python", "-m", "audit")

_Made = TypeVar("_Made")


class AuditError(Exception):
    """Base of all errors that the command line shows as one line; it names value, place and remedy."""


class ConfigError(AuditError):
    """The configuration cannot be used."""


class ModelError(AuditError):
    """The model or its engine cannot be loaded, or cannot do what was asked."""


class ModelAbsentError(ModelError):
    """A model that an audit can do without is not on this machine; says how to get it."""


class WorkerError(AuditError):
    """The workers that ask the model have ended, or cannot be had."""


class StoreError(AuditError):
    """The run folder cannot be read or written, is in use, or holds another run."""


class MissingCellError(AuditError):
    """A statistic needs a cell that holds no rating: a refusal is missing data, not an intensity of 0."""


class NotEstimableError(AuditError):
    """The ratings do not determine the statistic that was asked for."""


def attempt(make: Callable[[], _Made]) -> _Made | NotEstimableError:
    """Return what is made, or in its place the reason why the ratings do not determine it."""
    try:
        return make()
    except NotEstimableError as error:
        return error


def command_line(*words: str) -> str:
    """Write a command as the user may type it again."""
    return shlex.join([*PROGRAM, *words])


def report_command(*folders: Path | str, run_dir: str = "") -> str:
    """Return the command that analyses a run's folder again, or compares several in ``run_dir``, as it is typed."""
    words = [*map(str, folders), *([f"run_dir={run_dir}"] if run_dir else [])]
    return command_line("report", *words)


def recovery(folder: Path, does: str) -> str:
    """Return the remedy for a run's folder that is damaged: the command, as it is typed, and what it does."""
    return f"{command_line('recover', str(folder))} {does}"


def check_margin(name: str, margin: float | None, *, low: float, high: float, may_be_all: bool = False) -> None:
    """Refuse points that nothing on a scale can reach: every model would lie within such a margin.

    ``may_be_all`` allows as many points as the scale is long, as of how far a rating may lie from another.
    """
    length = high - low  # NaN where nothing is rated
    if margin is None or not (margin > length or (margin == length and not may_be_all)):
        return
    if may_be_all:
        raise ConfigError(
            f"{name}={margin:g}: no two ratings on a scale from {low:g} to {high:g} can differ by that much; give "
            f"at most {length:g}"
        )
    raise ConfigError(
        f"{name}={margin:g}: no gap on a scale from {low:g} to {high:g} can be that large; give less than {length:g}"
    )
