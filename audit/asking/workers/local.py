"""Workers that are processes of this machine, each with its own devices.

They are spawned, not forked, because a process that has begun to use a GPU cannot be forked. A pipe connects each to
the writer. It closes whenever either of them dies, so no worker outlives the command.
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
END_WITHIN: Final = 20.0  # seconds that a worker has to free its resources
LAST_LINES: Final = 3  # lines of its log that are quoted when a worker dies
_LONGEST: Final = 300  # longest quotation, in characters


class LocalWorker(Worker):
    """A process of this machine."""

    def __init__(
        self, number: int, on: str, environment: Mapping[str, str], opening: bytes, *, log: Path, stream: BinaryIO
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
                start_new_session=True,  # the writer handles Ctrl-C and ends the worker with its children
            )
        self.name = f"{self.name[:-1]}, process {self._process.pid})"
        threading.Thread(target=self._listen, args=(self._pipe, post), daemon=True).start()
        self.hand(self._opening)

    def send(self, number: int, do: Do) -> None:
        """See :class:`Worker`."""
        self.hand(pickle.dumps((number, do)))

    def hand(self, message: bytes) -> None:
        """Send it a pickled message without waiting."""
        # In a thread, because a worker that is stopped reads nothing and a long message would block.
        threading.Thread(target=self._write, args=(message,), daemon=True).start()

    def _write(self, message: bytes) -> None:
        assert self._pipe is not None
        with contextlib.suppress(OSError):  # the listener notices a death
            self._pipe.send_bytes(message)

    def _listen(self, pipe: Connection, post: Post) -> None:
        try:
            while True:
                post(pipe.recv())
        except (EOFError, OSError):
            post(Ended(self._why()))
        except Exception as error:  # unpickling may raise anything
            post(Ended(f"what it told cannot be read ({type(error).__name__}: {error}); see {self._log}"))

    def _why(self) -> str:
        """Say how the process ended and what it printed last."""
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
        """See :class:`Worker`. Ends it cleanly, because libraries would leave shared memory behind."""
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
    """Return the last lines of a log as one line of plain text; empty if there are none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            lines = deque((line.strip() for line in stream if line.strip()), LAST_LINES)
    except OSError:
        return ""
    text = " | ".join(lines)
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _LONGEST else f"... {plain[-_LONGEST:]}"
