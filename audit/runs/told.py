"""Reads ``ledger.jsonl`` and sums up what its lines say of a folder's files.

Lines of earlier versions also have a key ``after``, the SHA-256 of the line before; it is ignored. A folder may come
from anyone, and so may its ledger. A line that names a file outside the folder is a fault, so that a ledger cannot make
us remove or replace other files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from stimuli.files import read_file

FILE: Final = "ledger.jsonl"
_OF_ANSWERS: Final = re.compile(r"(ratings|replies|answers)/part-\d+\.parquet")
OTHER_LINE_ENDS: Final = "has other line ends"


@dataclass
class LedgerSummary:
    """The content of a ledger, summed up over its lines."""

    files: dict[str, str | None] = field(default_factory=dict)
    was: dict[str, str] = field(default_factory=dict)  # each file's hash when it was last there
    before: dict[str, str | None] = field(default_factory=dict)  # what was recorded of the last line's files before it
    n_lines: int = 0
    n_bytes: int = 0  # bytes of all complete lines
    published: bool = False  # whether the last line is of an analysis that is being put in place
    taken_over: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()  # parts of answers that were stored more than once, with different content
    fault: str = ""

    def allowed(self, name: str) -> tuple[str | None, ...]:
        """Return a file's allowed hashes: files of the last line may still be in their earlier state."""
        return (self.files.get(name), self.before[name]) if name in self.before else (self.files.get(name),)

    def knows(self, name: str) -> bool:
        """Whether a file of this name may be there."""
        return any(self.allowed(name))


def read_ledger(folder: Path) -> LedgerSummary | None:
    """Return a folder's ledger; None if it has none. Raises OSError if it cannot be read."""
    try:
        content = read_file(folder / FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    told = LedgerSummary()
    for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
        told.n_lines += 1
        if line.endswith(b"\r\n"):
            told.fault = f"{OTHER_LINE_ENDS} than were written, as git (core.autocrlf) or an editor leaves them"
            break
        try:
            said = json.loads(line)
            files = said["files"]
            if not all(
                isinstance(name, str) and (value is None or isinstance(value, str)) for name, value in files.items()
            ):
                raise ValueError
            accepted = tuple(map(str, said.get("accepted", ())))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            told.fault = f"line {told.n_lines} cannot be read"
            break
        if (outside := next(filter(_lies_elsewhere, files), None)) is not None:
            told.fault = f"line {told.n_lines} names a file that is none of the folder's: {outside[:80]!r}"
            break
        told.before = {name: told.files.get(name) for name in files}
        told.files |= files
        told.anew += tuple(
            name
            for name, sha256 in files.items()
            if sha256 is not None and _OF_ANSWERS.fullmatch(name) and told.was.get(name, sha256) != sha256
        )
        told.was |= {name: sha256 for name, sha256 in files.items() if sha256 is not None}
        told.published = "published" in said
        told.taken_over += tuple(files) if "taken_over" in said else ()
        told.accepted += accepted
        told.n_bytes += len(line)
    return told


def _lies_elsewhere(name: str) -> bool:
    """Whether a name leads out of the folder, on any system, or is no file's."""
    here, windows = PurePosixPath(name), PureWindowsPath(name)
    return (
        not here.parts
        or here.is_absolute()
        or bool(windows.anchor)
        or ".." in (*here.parts, *windows.parts)
        or "\0" in name
        or name == FILE
    )
