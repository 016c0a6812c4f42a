"""Files that are whole or absent, their SHA-256, and disk errors as one clear line."""

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

NO_FILE: Final = "no file"  # stands for the SHA-256 of what is not a file: a folder, a pipe, a device
_SURE_AFTER_NS: Final = 100_000_000  # a file changed less than this before it was read may change without new times
_COARSE_NS: Final = 10_000_000
_SURE_AFTER_COARSE_NS: Final = 3_000_000_000
"""The same on a disk whose times are multiples of 10 ms. Some of those count only seconds, or two at a time."""
_SHA256: Final[dict[tuple[int, ...], str]] = {}  # hashes by device, inode, size and times


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn disk errors into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space and give the same command again: what was collected is kept"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "choose a folder that you can write to with run_dir=PATH"
        else:
            remedy = "fix that and give the same command again"
        raise StoreError(f"{path} cannot be written ({error.strerror or error}); {remedy}") from error


def check_in_place(folder: Path) -> None:
    """Raise StoreError if the folder of a command that is under way has gone: it is not made again half filled."""
    if not folder.is_dir():
        raise StoreError(
            f"{folder} was moved or removed while this command ran; what was collected is where it was moved to: give "
            "the command again with that run_dir="
        )


def unfinished_of(path: Path) -> Path:
    """Return where a file is written before it is whole."""
    return path.with_name(f".{path.name}.unfinished")


@contextmanager
def whole(path: Path, before: Callable[[Path], None] | None = None) -> Iterator[io.BufferedWriter]:
    """Open a file that replaces ``path`` once all is written; ``before`` gets its path just before that."""
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
    """Write a file, whole or not at all."""
    with whole(path) as handle:
        handle.write(content)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_link(path: Path) -> None:
    """Raise StoreError for a symbolic link: a folder may come from anyone, and its links lead anywhere."""
    if path.is_symlink():
        raise StoreError(
            f"{path} is a link to another place, where a run never writes or removes files; replace the link by "
            "its target, or choose another folder with run_dir=PATH"
        )


def sha256_of(path: Path) -> str | None:
    """Return a file's SHA-256, cached while it is unchanged; None if absent, :data:`NO_FILE` for a pipe or folder."""
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
    """Whether a file's times would show any change since it was read; all in nanoseconds."""
    coarse = not any(each % _COARSE_NS for each in times)
    return now - max(times) >= (_SURE_AFTER_COARSE_NS if coarse else _SURE_AFTER_NS)
