"""The last resort: an unexpected error also ends in one line, and a log file keeps its traceback.

It is a fault of this program or of a library, or a limit of the machine. The user cannot fix it by changing the
command, so it has an exit code of its own. The log does not reveal the environment: values of variables that may be
secret are removed wherever they appear.
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

from audit.tables.formatting import brief
from audit.tables.version import __version__
from stimuli.errors import in_one_line

SWITCH: Final = "AUDIT_TRACEBACK"  # an environment variable; unless it is empty or 0, tracebacks are also printed
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
"""Parts of the names of variables that hold secrets."""
_SHORTEST: Final = 6  # In characters. A shorter value is a number or a switch, which appears everywhere.
_LONGEST: Final = 400  # most characters of an error's own message in the line; the log has all of it
_IN_URL: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")
_KEPT: Final = "what was collected is kept"


def log_unexpected(error: BaseException, words: Sequence[str]) -> str:
    """Log an unexpected error's traceback, and return the line for the user: what happened and where the log is."""
    text = _log(error, words)
    if os.environ.get(SWITCH, "0") not in ("", "0"):
        _print(text)
    try:
        place = f"its traceback is in {_written(text)}, for an issue"
    except OSError as fault:
        _print(text)
        place = f"no log could be written ({fault.strerror or fault}), so its traceback is printed above"
    return f"{brief(_without_secrets(_named(error), words), at_most=_LONGEST)}; {place}; {_KEPT}"


def _named(error: BaseException) -> str:
    """Describe what happened: limits of the machine by name, other errors by type and message."""
    if isinstance(error, MemoryError):
        return "the machine's memory is used up (MemoryError); run the command on a machine with more"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({_words(error)}); free some space"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open ({_words(error)}); raise the limit with ulimit -n"
    said = _words(error)
    return f"an unexpected error, {type(error).__name__}{f': {said}' if said else ''}"


def _words(error: BaseException) -> str:
    """Return an error's message on one line; empty if it cannot be made."""
    try:
        return in_one_line(error)
    except Exception:  # an error whose message fails is one more error
        return ""


def _log(error: BaseException, words: Sequence[str]) -> str:
    """Write the text of the log."""
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
    """Return the traceback without variables; for an error that cannot be formatted, where it was raised."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])


def _packages() -> Iterator[str]:
    """Yield the packages imported so far, with versions."""
    from importlib.metadata import packages_distributions, version

    loaded = {name.partition(".")[0] for name in sys.modules}
    with suppress(Exception):  # damaged package metadata must not cost the reader the traceback
        owners = packages_distributions()
        for name in sorted({owner for module in loaded for owner in owners.get(module, ())}, key=str.lower):
            yield f"{name} {version(name)}"


def _without_secrets(text: str, words: Sequence[str]) -> str:
    """Remove from a text the values of environment variables that may be secret, and logins in URLs."""
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
    """Write a log under ``XDG_STATE_HOME``, else ``~/.local/state``, else the temporary folder; return its path."""
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
    """Print a traceback; the terminal may have gone."""
    from audit.cli.terminal.printing import say

    with suppress(OSError):
        say(text)
