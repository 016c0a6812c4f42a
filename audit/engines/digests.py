"""The SHA-256 of files; of large ones remembered, since a model of 30 GB takes half a minute to read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final

LARGE: Final = 2**30
"""Bytes from which on a file's hash is remembered: a second of reading."""
_SETTLED_NS: Final = 5 * 10**9
"""A file that was touched less long ago may be touched again within the same tick of the clock."""


def cache_folder() -> Path:
    """Return where unpacked models and hashes are kept: under ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "empathy-audit"


def sha256(path: Path) -> str:
    """Return a file's SHA-256.

    That of a large file is remembered by its place, size and node, and the times at which content and node changed:
    the system sets the last of them at every change, and no program can set it back.
    """
    before = _state(path)
    kept = cache_folder() / "digests" / hashlib.sha256(before.encode()).hexdigest() if before else None
    if kept is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if re.fullmatch(r"[0-9a-f]{64}", digest := kept.read_text(encoding="ascii")):
                return digest
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if kept is not None and _state(path) == before:
        with contextlib.suppress(OSError):  # where nothing can be kept, it is read again
            _keep(kept, digest)
    return digest


def _state(path: Path) -> str:
    """Return what tells a large file that has settled from itself at another time; empty of any other."""
    found = path.stat()
    if found.st_size < LARGE or time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _SETTLED_NS:
        return ""
    parts = (path.resolve(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return "\n".join(map(str, parts))


def _keep(place: Path, digest: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(digest)
    Path(name).replace(place)
