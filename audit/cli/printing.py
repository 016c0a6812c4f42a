"""How commands speak: remarks on standard error, what was found as a table on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from audit.wording import (
    dimension_title,
    fixed,
    printable,
)

if TYPE_CHECKING:
    from audit.tasks.base import Published

WIDTH: Final = 118
"""Letters of a line of help."""


def say(line: str) -> None:
    """Tell the user something on standard error; what would act in a terminal is escaped."""
    print("\n".join(map(printable, line.split("\n"))), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Tell the user what to know of what was found."""
    say(f"note: {text}")


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Print lines of cells, the head first, in columns."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def percent(row: Mapping[Any, Any], *names: str, signed: bool) -> str:
    """Write a share of a row in percent, or two of them as an interval; "none" where it is missing."""
    if row[names[0]] != row[names[0]]:
        return "none"
    return " to ".join(fixed(100 * row[name], decimals=1, signed=signed) for name in names)


def show_outcome(outcome: Published) -> None:
    """Print what was found in a run, and where its report lies."""
    about: dict[str, list[str]] = {}
    for remark in outcome.remarks:
        about.setdefault(remark.text, []).extend([dimension_title(remark.dimension)] if remark.dimension else [])
    for text, dimensions in about.items():
        note(f"{', '.join(dict.fromkeys(dimensions))}{': ' if dimensions else ''}{text}")
    print_table(outcome.lines)
    for line in outcome.controls:
        print(line)
    print(f"report: {outcome.report}")
