"""Output of commands: remarks on standard error, results as tables on standard output."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from audit.tables.formatting import fixed, printable

WIDTH: Final = 118  # characters in a line of help


_WITHOUT: Final[Mapping[str, str]] = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{GREEK SMALL LETTER DELTA}": "delta",
    "\N{MULTIPLICATION SIGN}": "x",
}
"""Replacements for signs that a terminal lacks; a dropped minus would change the number."""


def speak_any_encoding() -> None:
    """Replace characters that a terminal's encoding lacks, so that a command still ends with its result."""
    codecs.register_error("audit", _in_other_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="audit")


def _in_other_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    said = (_WITHOUT.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in lacking)
    return "".join(said), error.end


def say(line: str) -> None:
    """Print to standard error, with control characters escaped."""
    print("\n".join(map(printable, line.split("\n"))), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a remark on the result to standard error."""
    say(f"note: {text}")


def tell(line: str) -> None:
    """Print a result to standard output, with control characters escaped."""
    print(printable(line))


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Print rows of cells in columns, the heading first."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def percent(row: Mapping[Any, Any], *names: str, signed: bool) -> str:
    """Write a share of a row in percent, or two as an interval; "none" if missing."""
    if row[names[0]] != row[names[0]]:
        return "none"
    return " to ".join(fixed(100 * row[name], decimals=1, signed=signed) for name in names)


def disk_size(n: int) -> str:
    """Return a number of bytes in its largest unit, such as "2.5 GB"."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n / 1e3:.3g} kB"
