"""Reads files that a user names: regular files of a size that such a file can have, and nothing else.

A device has no end, a pipe waits for somebody who may never write, and what lies in ``/proc`` is the system's own, keys
of the environment among it. All readers of a user's files open them here.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path
from typing import Final

LARGEST_TEXT: Final = 16 << 20  # bytes of a file that people write: settings, identities, prompts
LARGEST_TABLE: Final = 512 << 20  # bytes of a table, or of answers: some millions of rows
_MIB: Final = 1 << 20


def open_file(path: Path) -> BufferedReader:
    """Open a regular file to read its bytes; a link stands for what it leads to."""
    # Asked before it is opened: a pipe would wait, and opening a device may do something to it.
    _check_kind(path.stat().st_mode)
    stream = path.open("rb")
    try:
        found = os.fstat(stream.fileno())
        _check_kind(found.st_mode)
        if found.st_size == 0 and stream.read(1):
            raise OSError(errno.EINVAL, "it is the system's own, as what lies in /proc, and no file")
    except BaseException:
        stream.close()
        raise
    return stream


def read_file(path: Path, *, at_most: int = LARGEST_TABLE) -> bytes:
    """Return the bytes of a regular file, or of what a link leads to; OSError if there are more than ``at_most``."""
    with open_file(path) as stream:
        # A file may grow while it is read.
        too_large = os.fstat(stream.fileno()).st_size > at_most
        content = b"" if too_large else stream.read(at_most + 1)
    if too_large or len(content) > at_most:
        raise too_large_error(at_most)
    return content


def unpacked_size(content: bytes) -> int:
    """Return how many bytes an archive says it unpacks to; 0 for what is no archive, of which its reader speaks."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, EOFError):
        return 0


def too_large_error(at_most: int) -> OSError:
    """Return the error for a file that holds more than is read."""
    return OSError(errno.EFBIG, f"it is larger than {at_most // _MIB} MiB, the most that is read of such a file")


def _check_kind(mode: int) -> None:
    # What a folder is, is said by whoever opens it.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and a file is wanted")
