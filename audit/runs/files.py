"""Files that are there whole or not at all, their SHA-256, and the disk's refusals as one clear line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from audit.errors import StoreError

_SURE_AFTER_NS: Final = 100_000_000
"""A file that was changed later than that before it was read may be changed again without its times telling."""
_SHA256: Final[dict[tuple[int, ...], str]] = {}
"""What files were, by all that the disk tells of a file short of what it holds."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the disk's refusals into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space and give the same command again: what is collected is kept"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "choose a folder that you may write to with run_dir=PATH"
        else:
            remedy = "mend that and give the same command again"
        raise StoreError(f"{path} cannot be written ({error.strerror or error}); {remedy}") from error


@contextmanager
def whole(path: Path, before: Callable[[Path], None] | None = None) -> Iterator[io.BufferedWriter]:
    """Open a file that is there whole once all is written, or not at all; StoreError as of :func:`writing`.

    Parameters
    ----------
    path
        The file; what there was in its place stays until the new one is whole.
    before
        Is given the place of what was written, right before it takes the file's place.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    with writing(path):
        try:
            with unfinished.open("wb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            if before is not None:
                before(unfinished)
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises
    ------
    StoreError
        If the disk is full or the place may not be written to.
    """
    with whole(path) as handle:
        handle.write(content)


def sync_folder(folder: Path) -> None:
    """Have the disk keep which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where there is none. What is remembered of unchanged files is not read again.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    try:
        with path.open("rb") as handle:
            found = os.fstat(handle.fileno())
            key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if key not in _SHA256:
                now = time.time_ns()
                sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
                if now - max(found.st_mtime_ns, found.st_ctime_ns) < _SURE_AFTER_NS:
                    return sha256
                _SHA256[key] = sha256
            return _SHA256[key]
    except (FileNotFoundError, NotADirectoryError):
        return None
