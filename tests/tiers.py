"""What a test needs beside this process: its marks say so, or its fixtures. A guard refuses everything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FIXTURES = {
    "make_model": "model", "open_engine": "model", "child_environment": "process", "browser": "browser",
    "chromium": "browser", "firefox": "browser",
}  # fmt: skip
"""The mark of a test by a fixture that it uses, itself or through another one."""
MARKS = ("model", "process", "server", "browser", "long", "slow", "simulation")
"""A test that has none of them is quick: it is of `make test`."""
MODELS = {"torch", "transformers", "vllm", "ray", "sentence_transformers", "llama_cpp", "xllamacpp"}
EVENTS = {
    "subprocess.Popen": "process", "os.fork": "process", "os.forkpty": "process", "os.posix_spawn": "process",
    "os.spawn": "process", "os.system": "process", "os.exec": "process", "socket.bind": "server",
}  # fmt: skip


class Unmarked(Exception):
    """A test without a mark used what only marked tests may use."""


_armed = False
_seen: list[str] = []


def mark(item: pytest.Item) -> None:
    """Add the marks that a test's fixtures tell."""
    for name in sorted({FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}):
        if not item.get_closest_marker(name):
            item.add_marker(name)


def is_quick(item: pytest.Item) -> bool:
    """Tell whether a test is of `make test`."""
    return not any(item.get_closest_marker(name) for name in MARKS)


def _refuse(kind: str, what: str) -> None:
    if _armed:
        # Whoever catches the error does not hide it: the guard looks at what was seen.
        _seen.append(f"{what}: mark the test {kind!r}")
        raise Unmarked(_seen[-1])


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _armed:
        if event in EVENTS:
            _refuse(EVENTS[event], f"{event} {arguments!r:.200}")
        elif event == "import" and arguments[0].partition(".")[0] in MODELS:
            _refuse("model", f"import {arguments[0]}")


sys.addaudithook(_hear)


@contextmanager
def guarded() -> Iterator[None]:
    """Refuse processes, servers and libraries of models; what was used all the same is an error at the end.

    A library that another test has imported already can be had, but no model of it be asked.
    """
    global _armed
    before = _armed

    def refuse_to_ask(network: Any, *_: Any, **__: Any) -> None:
        _refuse("model", f"asking a {type(network).__name__}")

    def refuse_to_start(process: Any) -> None:
        _refuse("process", f"the start of {process!r}")

    _seen.clear()
    with pytest.MonkeyPatch.context() as patch:
        # Without an audit event of its own.
        patch.setattr("multiprocessing.process.BaseProcess.start", refuse_to_start)
        if "torch" in sys.modules:
            patch.setattr("torch.nn.Module.__call__", refuse_to_ask)
        _armed = True
        try:
            yield
        finally:
            _armed = before
            seen = [*_seen]
            _seen.clear()
    if seen:
        raise Unmarked(seen[0])
