"""The SHA-256 of files, cached for large ones: a model of 30 GB takes half a minute to read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final

from audit.configuration.packaged import cache_folder

LARGE: Final = 2**30  # bytes from which a file's hash is cached: a second of reading
_SETTLED_NS: Final = 5 * 10**9  # a file changed more recently than this may change again within the same clock tick


def sha256(path: Path) -> str:
    """Return a file's SHA-256.

    For large files it is cached by path, size, inode, and the times at which content and inode changed. The system sets
    the last one at every change, and no program can set it back.
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
        with contextlib.suppress(OSError):  # without a cache the file is read again next time
            _keep(kept, digest)
    return digest


def _state(path: Path) -> str:
    """Return a key that identifies a large, settled file's state; empty for others."""
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
