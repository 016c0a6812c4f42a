"""The process of a worker on this machine: opens the model and runs the jobs that come through its pipe."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

from audit.asking.workers.pool import Beat, Event, Progressed, Raised, Ready
from audit.asking.workers.serve import Opening, do_job, told
from audit.errors import AuditError

BEAT_EVERY: Final = 1.0  # seconds between signs of life


def main(descriptor: int) -> None:
    """Open the model that the pipe names, and run jobs until the other end closes."""
    faulthandler.enable()
    os.set_inheritable(descriptor, False)  # else the writer would not see it close while a child process lives
    pipe, lock, over = Connection(descriptor), threading.Lock(), threading.Event()

    def tell(event: Event) -> None:
        with lock:
            try:
                pipe.send(event)
            except OSError:
                _leave()

    def beat() -> None:
        while not over.wait(BEAT_EVERY):
            tell(Beat())

    threading.Thread(target=beat, daemon=True).start()
    try:
        opening: Opening = pipe.recv()
        try:
            model = opening.open()
        except AuditError as error:
            tell(Raised(None, told(error)))
            return
        tell(Ready(model.known))
        while (job := pipe.recv()) is not None:
            number, do = job
            tell(do_job(number, do, opening.shared, model, _Watch(number, tell)))
        over.set()
        model.engine.close()
    except EOFError:
        _leave()


class _Watch:
    """Reports how many more prompts of a job are done."""

    def __init__(self, job: int, tell: Callable[[Event], None]) -> None:
        self._job, self._tell = job, tell

    def __call__(self, n_prompts: int) -> None:
        self._tell(Progressed(self._job, n_prompts))


def _leave() -> None:
    """Kill this process and its children at once: the writer has gone, so nobody waits for an answer."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
