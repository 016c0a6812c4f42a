"""Commands in processes forked from one that has imported what a run imports: a start then costs little.

A process of a user's would draw figures in every form; these draw SVG alone. Whoever tests the start itself, or what a
command finds on its way in, starts Python anew.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

TIMEOUT = 300  # seconds a single process may take, on a slow machine with other work
IMPORTED = [
    "forked", "hydra.main", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto", "transformers.models.llama.modeling_llama", "audit.cli.main",
    "audit.tasks.pipeline", "audit.tasks.publishing", "audit.engines.transformers", "audit.statistics.analysis",
    "audit.report.figures.gallery", "audit.tasks.intensity.page",
]  # fmt: skip
"""What a run spends most of its start on: the process that all are forked from has it, and runs nothing."""


def _command(words: Sequence[str], said: Path, folder: Path, environment: Mapping[str, str]) -> None:
    from drawing import svg_alone

    from audit.cli.main import main

    for number in (signal.SIGTERM, signal.SIGHUP):  # what nohup ignores stays ignored, also if it began these tests
        signal.signal(number, signal.SIG_DFL)
    os.environ.update(environment)
    os.chdir(folder)
    with open(said, "a") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.argv = ["audit", *words]
    with svg_alone():
        sys.exit(main(list(words)))


@contextmanager
def started(words: Sequence[str], said: Path, **environment: str) -> Iterator[BaseProcess]:
    """Start a command in the folder of the file that takes what it says, and wait for its end."""
    with pytest.MonkeyPatch.context() as patch:
        home = Path(__file__).resolve().parent
        paths = [str(home), str(home.parent), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setenv("OMP_NUM_THREADS", "1")
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        process = context.Process(target=_command, args=(words, said, said.parent, environment))
        process.start()
    try:
        yield process
    finally:
        process.join(TIMEOUT)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.join()


def done(words: Sequence[str], said: Path, **environment: str) -> int:
    """Run a command to its end; return its exit code."""
    with started(words, said, **environment) as process:
        pass
    assert process.exitcode is not None
    return process.exitcode
