"""The lines of ``ledger.jsonl`` as they are read: what they say of a folder's files, taken together.

Lines of earlier versions have a key ``after`` too, the SHA-256 of the line before; it is not read. A folder may come
from anybody, and so may its ledger. A line that names a file outside the folder is a fault, so that
nobody's other files are removed or replaced by what it says.
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
class Told:
    """What the lines of a ledger say, taken together."""

    files: dict[str, str | None] = field(default_factory=dict)
    was: dict[str, str] = field(default_factory=dict)
    """What each file was when it was last there."""
    before: dict[str, str | None] = field(default_factory=dict)
    """Of the files of the last line, what was said of them before."""
    n_lines: int = 0
    n_bytes: int = 0
    """Of all lines that were written to their end."""
    published: bool = False
    """Whether the last line is of an analysis that is put in place."""
    taken_over: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    """Parts of answers that were written more than once, not the same each time."""
    fault: str = ""

    def allowed(self, name: str) -> tuple[str | None, ...]:
        """Return what a file may be: one of the last line may still be what it was before."""
        return (self.files.get(name), self.before[name]) if name in self.before else (self.files.get(name),)

    def knows(self, name: str) -> bool:
        """Tell whether a file of that name may be there."""
        return any(self.allowed(name))


def read(folder: Path) -> Told | None:
    """Return what a folder's ledger says; None where it has none. OSError if it cannot be read."""
    try:
        content = read_file(folder / FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    told = Told()
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
    """Tell whether a name leads out of the folder, on any system, or is no file's."""
    here, windows = PurePosixPath(name), PureWindowsPath(name)
    return (
        not here.parts
        or here.is_absolute()
        or bool(windows.anchor)
        or ".." in (*here.parts, *windows.parts)
        or "\0" in name
        or name == FILE
    )
