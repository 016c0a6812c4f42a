"""Workers that are processes of this machine, each with devices of its own.

They are started anew, not forked: a process that has begun to use a GPU cannot be. A pipe joins each to the writer; it
closes when either of them dies, however that is, so that no worker outlives the command.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import BinaryIO, Final

from audit.asking.workers.base import Do
from audit.asking.workers.pool import Ended, Post, Worker

_START: Final = "import sys; sys.path[:] = {path!r}; from audit.asking.workers.process import main; main({descriptor})"
END_WITHIN: Final = 20.0
"""Seconds that a worker may take to free what it took."""
LAST_LINES: Final = 3
"""Lines of a worker's log that are said when it has died."""
_LONGEST: Final = 300
"""Characters of them."""


class LocalWorker(Worker):
    """A process of this machine.

    Parameters
    ----------
    number
        Its own, from 1.
    on
        What it computes on, in words.
    environment
        What its environment has beside, or in place of, this process's; set before it imports anything.
    opening
        What it opens: an :class:`audit.asking.workers.serve.Opening`, pickled.
    log, stream
        The file that takes what it and its libraries print, and that file opened to append to.
    """

    def __init__(
        self,
        number: int,
        on: str,
        environment: Mapping[str, str],
        opening: bytes,
        *,
        log: Path,
        stream: BinaryIO,
    ) -> None:
        self.name = f"replica {number} ({on})"
        self._environment, self._opening = dict(environment), opening
        self._log, self._stream = log, stream
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def start(self, post: Post) -> None:
        """See :class:`Worker`."""
        self._pipe, theirs = Pipe()
        with self._stream, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(path=sys.path, descriptor=theirs.fileno())],
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=self._stream,
                stderr=self._stream,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl-C is the writer's, who ends the worker and all that it started
            )
        self.name = f"{self.name[:-1]}, process {self._process.pid})"
        threading.Thread(target=self._listen, args=(self._pipe, post), daemon=True).start()
        self.hand(self._opening)

    def send(self, number: int, do: Do) -> None:
        """See :class:`Worker`."""
        self.hand(pickle.dumps((number, do)))

    def hand(self, message: bytes) -> None:
        """Hand it a pickled message; returns at once."""
        # Not from this thread: a worker that is stopped reads nothing, and a long message would wait for it.
        threading.Thread(target=self._write, args=(message,), daemon=True).start()

    def _write(self, message: bytes) -> None:
        assert self._pipe is not None
        with contextlib.suppress(OSError):  # who has died is heard of by who listens
            self._pipe.send_bytes(message)

    def _listen(self, pipe: Connection, post: Post) -> None:
        try:
            while True:
                post(pipe.recv())
        except (EOFError, OSError):
            post(Ended(self._why()))
        except Exception as error:  # whatever unpickling raises
            post(Ended(f"what it told cannot be read ({type(error).__name__}: {error}); see {self._log}"))

    def _why(self) -> str:
        """Say how the process ended, and what it printed last."""
        assert self._process is not None
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return f"it closed its pipe; see {self._log}"
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", as the system sends it where memory runs out"
        last = last_lines(self._log)
        return f"{how}; {self._log} ends: {last}" if last else f"{how}; see {self._log}"

    def end(self) -> None:
        """See :class:`Worker`. Libraries leave memory that they share behind, if they are not let."""
        if self._process is not None:
            self.hand(pickle.dumps(None))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=END_WITHIN)
        self.stop()

    def stop(self) -> None:
        """See :class:`Worker`."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)


def last_lines(log: Path) -> str:
    """Return the last lines of a log in one line, as plain text; empty where there are none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            lines = deque((line.strip() for line in stream if line.strip()), LAST_LINES)
    except OSError:
        return ""
    text = " | ".join(lines)
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _LONGEST else f"... {plain[-_LONGEST:]}"
