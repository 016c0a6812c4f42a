"""The last resort: an error that nobody foresaw ends in one line too, and a log file keeps its traceback.

What ends here is a fault of this program or of a library, or a limit of the machine. The user can mend none of it by
the words of the command, so the exit code is one of its own, :data:`audit.cli.base.UNEXPECTED`. A log says nothing of
the environment: values of variables that may be secret are cut out wherever they stand.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from audit.configuration.version import __version__
from audit.tables.formatting import brief

SWITCH: Final = "AUDIT_TRACEBACK"
"""A variable of the environment; if it is set to anything but 0, tracebacks are printed at once, too."""
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
"""What names of variables with secrets hold."""
_SHORTEST: Final = 6
"""Letters of a value that is cut out; a shorter one is a number or a switch, which stands everywhere."""
_LONGEST: Final = 400
"""Letters of what an error says of itself; the log has the rest."""
_IN_URL: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")
_KEPT: Final = "what was collected is kept"


def line_of(error: BaseException, words: Sequence[str]) -> str:
    """Keep an unexpected error's traceback, and return the line for the user: what happened, and where more is said.

    Parameters
    ----------
    error
        What was raised.
    words
        The command line, without the program.
    """
    text = _log(error, words)
    if os.environ.get(SWITCH, "0") not in ("", "0"):
        _print(text)
    try:
        place = f"its traceback is in {_written(text)}, for an issue"
    except OSError as fault:
        _print(text)
        place = f"no log could be written ({fault.strerror or fault}), so its traceback stands above"
    return f"{brief(_without_secrets(_named(error), words), at_most=_LONGEST)}; {place}; {_KEPT}"


def _named(error: BaseException) -> str:
    """Say what happened: the limits of a machine by name, and of any other error its type and its own words."""
    if isinstance(error, MemoryError):
        return "the machine's memory is used up (MemoryError); give the command where there is more"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({_words(error)}); free some space"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open ({_words(error)}); raise the limit by ulimit -n"
    said = _words(error)
    return f"an error that was not foreseen, {type(error).__name__}{f': {said}' if said else ''}"


def _words(error: BaseException) -> str:
    """Return an error's own words in one line; nothing where it cannot say them."""
    try:
        return " ".join(str(error).split())
    except Exception:  # an error whose text cannot be made is one more error
        return ""


def _log(error: BaseException, words: Sequence[str]) -> str:
    """Return what the log holds."""
    said = [
        f"empathy-audit {__version__}, {datetime.now(UTC).isoformat(timespec='seconds')}",
        f"command: python -m audit {' '.join(map(repr, words))}",
        f"machine: {platform.system()} {platform.machine()}, Python {platform.python_version()}",
        f"packages: {', '.join(_packages())}",
        "",
        _traceback(error),
    ]
    return _without_secrets("\n".join(said), words)


def _traceback(error: BaseException) -> str:
    """Return the traceback, without the values of variables; of an error that cannot be shown, where it was raised."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])


def _packages() -> Iterator[str]:
    """Yield the packages that are imported by now, with their versions: those took part."""
    from importlib.metadata import packages_distributions, version

    loaded = {name.partition(".")[0] for name in sys.modules}
    with suppress(Exception):  # a package whose metadata are damaged keeps no traceback from its reader
        owners = packages_distributions()
        for name in sorted({owner for module in loaded for owner in owners.get(module, ())}, key=str.lower):
            yield f"{name} {version(name)}"


def _without_secrets(text: str, words: Sequence[str]) -> str:
    """Cut out of a text what variables of the environment hold that may be secret, and who logs in by a URL."""
    named = {word.partition("api_key_env=")[2].strip("'\"") for word in words}
    secrets = {
        value.strip(): name
        for name, value in os.environ.items()
        if (_SECRET.search(name) or name in named) and len(value.strip()) >= _SHORTEST
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, f"<{secrets[value]}>")
    return _IN_URL.sub("<login>", text)


def _written(text: str) -> Path:
    """Write a log of its own under ``XDG_STATE_HOME``, else ``~/.local/state``, and return where it is.

    Where that cannot be written it goes to the folder for temporary files.

    Raises
    ------
    OSError
        If that cannot be written either.
    """
    content = text.encode("utf-8", "backslashreplace")
    begin = datetime.now(UTC).strftime("%Y%m%dT%H%M%S-")
    with suppress(OSError, RuntimeError):  # a user without a home is a RuntimeError
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "empathy-audit" / "errors"
        folder.mkdir(parents=True, exist_ok=True)
        return _new_file(content, prefix=begin, folder=folder)
    return _new_file(content, prefix=f"empathy-audit-{begin}", folder=None)


def _new_file(content: bytes, *, prefix: str, folder: Path | None) -> Path:
    """Write a file that only its user can read."""
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".log", dir=folder)
    with open(handle, "wb") as stream:
        stream.write(content)
    return Path(name)


def _print(text: str) -> None:
    """Print a traceback; the terminal may be gone."""
    from audit.cli.printing import say

    with suppress(OSError):
        say(text)
