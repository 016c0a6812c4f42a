"""``prompts``: write the prompts of a run as JSON lines, without a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from audit.cli.base import Command
from audit.cli.jobs import each_job, overrides_help
from audit.cli.printing import say
from audit.errors import StoreError
from audit.wording import plural

if TYPE_CHECKING:
    from audit.config import AuditConfig

_HELP: Final = """\
usage: python -m audit prompts [OVERRIDE ...]

Writes one JSON object a prompt (dimension, variant, narrative_id, emotion, perceiver, experiencer, system, user) to
standard output or to out=FILE, for the same overrides that `run` takes. No model is loaded.

"""


def _help() -> str:
    return _HELP + overrides_help("prompts")


def _prompts(words: Sequence[str]) -> int:
    written: set[Path] = set()
    return each_job(words, lambda config, _: _write(config, written=written))[0]


def _write(config: AuditConfig, *, written: set[Path]) -> None:
    """Write the prompts of one configuration; ``written`` are the files of earlier jobs, and grows."""
    from audit.tasks.registry import TASKS

    task = TASKS[config.task.kind]
    plan = task.plan(config)
    try:
        if config.out is None:
            target: AbstractContextManager[TextIO] = nullcontext(sys.stdout)
        else:
            # The jobs of a sweep follow each other in one file; what was in it before goes.
            target = config.out.open("a" if config.out in written else "w", encoding="utf-8")
            written.add(config.out)
        with target as stream:
            for record in task.records(plan):
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={config.out} cannot be written ({error.strerror or error})") from error
    if config.out is not None:
        say(f"{plural(len(plan.grid), 'prompt')}: {config.out}")


COMMAND: Final = Command("prompts", "write the prompts of a run as JSON lines, without a model", _help, _prompts)
