"""``prompts``: writes the prompts of a run as JSON lines, without a model."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from audit.asking.shown_prompt import shown_prompt
from audit.cli.terminal.base import Command, writing_out
from audit.cli.terminal.jobs import each_job, overrides_help
from audit.cli.terminal.printing import note, say
from audit.tables.formatting import plural

if TYPE_CHECKING:
    from audit.configuration.schema import AuditConfig

_HELP: Final = """\
usage: python -m audit prompts [OVERRIDE ...]

Writes one JSON object per prompt (id, dimension, variant, narrative_id, emotion, perceiver, experiencer, system, user,
messages) to standard output or to out=FILE. Takes the same overrides as `run`. No model is loaded.

out=FILE.jsonl also writes FILE.jsonl.run.json, which the analysis needs. Collect the answers with any tool, write one
line {"id": ..., "text": ...} for each, then run `python -m audit report answers=ANSWERS.jsonl prompts=FILE.jsonl`.

"""


def _prompts(words: Sequence[str]) -> int:
    written: set[Path] = set()
    return each_job(words, lambda config, composed: _write(config, preset=composed.preset, written=written))[0]


def _write(config: AuditConfig, *, preset: str, written: set[Path]) -> None:
    """Write the prompts of one configuration; ``written`` collects the files of a sweep's jobs."""
    from audit.asking.prompt_export import Export, export_id, file_beside, sample_of, why_not_elsewhere, with_ids
    from audit.tasks.registry import TASKS
    from stimuli.fitting import fit_remarks
    from stimuli.mentions import remarks

    task = TASKS[config.task.kind]
    config = config.settled()  # another tool tries no other ways
    plan = task.plan(config)
    if left_out := sample_of(plan):
        note(left_out)
    for text in (*remarks(plan.grid.narratives, plan.grid.dimensions), *fit_remarks(plan.grid, seed=config.seed)):
        note(text)
    out, export = config.out, export_id(plan)
    follows = out in written
    digest = hashlib.sha256()
    with writing_out(out):
        if out is None:
            target: AbstractContextManager[BinaryIO] = nullcontext(sys.stdout.buffer)
        else:
            # The jobs of a sweep are appended to one file; its earlier contents go.
            target = out.open("ab" if follows else "wb")
            written.add(out)
            file_beside(out).unlink(missing_ok=True)
        with target as stream:
            for place, record in enumerate(with_ids(task.records(plan), export)):
                if place == 0:
                    for shown in shown_prompt(record):
                        say(shown)
                line = f"{json.dumps(record, ensure_ascii=False)}\n".encode()
                digest.update(line)
                stream.write(line)
            stream.flush()
    if out is None:
        return
    say(f"{plural(len(plan.grid), 'prompt')}: {out}")
    why_not = why_not_elsewhere(plan, kind=task.kind, readable=task.asked_elsewhere)
    if follows:
        why_not = "it has the prompts of several runs; give each its own out="
    if why_not:
        note(f"`report answers=` cannot read {out}: {why_not}")
        return
    Export(export, digest.hexdigest(), preset, plan.config, plan.asked).write(out)
    if config.elicitation.prefill and plan.grid.variant.scale is not None:
        note(
            f"answers are begun with {config.elicitation.prefill!r}, the last message: your server must continue "
            "it (vLLM: continue_final_message=true, add_generation_prompt=false); write the prompts with "
            "elicitation.prefill= to leave it out"
        )


COMMAND: Final = Command(
    "prompts",
    "write the prompts of a run as JSON lines, without a model",
    lambda: _HELP + overrides_help("prompts"),
    _prompts,
    overrides=True,
)
