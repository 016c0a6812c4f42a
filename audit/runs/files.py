"""Files that are there whole or not at all, their SHA-256, and the disk's refusals as one clear line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from audit.errors import StoreError

NO_FILE: Final = "no file"
"""What stands for the SHA-256 of what is no file: a folder, a pipe, a device."""
_SURE_AFTER_NS: Final = 100_000_000
"""A file that was changed later than that before it was read may be changed again without its times telling."""
_COARSE_NS: Final = 10_000_000
_SURE_AFTER_COARSE_NS: Final = 3_000_000_000
"""The same of a disk whose times are multiples of 10 ms: some of those count seconds alone, or two at a time."""
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


def unfinished_of(path: Path) -> Path:
    """Return where a file is written before it is whole."""
    return path.with_name(f".{path.name}.unfinished")


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
    unfinished = unfinished_of(path)
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


def refuse_link(path: Path) -> None:
    """Refuse to write where a link leads: a folder may come from anybody, and its links lead to files of the user's.

    Raises
    ------
    StoreError
        If the path is a symbolic link.
    """
    if path.is_symlink():
        raise StoreError(
            f"{path} is a link to another place, and nothing of a run is written or removed there; put what it leads "
            "to in its place, or name another folder with run_dir=PATH"
        )


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where there is none. What is remembered of unchanged files is not read again.

    A link stands for what it leads to. Of what is no file :data:`NO_FILE` is returned: a pipe is not waited for.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return NO_FILE
        with path.open("rb") as handle:
            found = os.fstat(handle.fileno())
            key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if key not in _SHA256:
                now = time.time_ns()
                sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
                if not _has_rested(found.st_mtime_ns, found.st_ctime_ns, now=now):
                    return sha256
                _SHA256[key] = sha256
            return _SHA256[key]
    except (FileNotFoundError, NotADirectoryError):
        return None


def _has_rested(*times: int, now: int) -> bool:
    """Tell whether a file's times would tell of any change since it was read; all of them in nanoseconds."""
    coarse = not any(each % _COARSE_NS for each in times)
    return now - max(times) >= (_SURE_AFTER_COARSE_NS if coarse else _SURE_AFTER_NS)
