"""``run``: elicits ratings from a model, computes the gap and renders a report; compares the runs of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.cli.outcome import show_comparison, show_outcome
from audit.cli.terminal.base import FAILED, Command, try_step
from audit.cli.terminal.jobs import JobOutcome, each_job, overrides_help
from audit.cli.terminal.printing import note, say
from audit.errors import command_line

if TYPE_CHECKING:
    from audit.configuration.composition import Composed
    from audit.configuration.schema import AuditConfig

_HELP: Final = """\
usage: python -m audit run [-m] [OVERRIDE ...]

Asks the model every prompt, computes the gap of each dimension with its uncertainty, and writes the run folder:
manifest.json, ratings.parquet, tables/, figures/, report.html. To continue an interrupted run, give the same command
again.

-m runs a sweep over all comma-separated values and loads the model once: -m prompt=origin,persona-1,scale-10
At the end the runs are compared, as `report` compares several run folders, in comparison/ of run_dir, or in
reports/comparison-<hash>. With hydra/launcher=slurm the runs of a sweep are Slurm jobs; with
hydra/launcher=submitit_local they are processes on this machine. Each loads its own model.

"""


def _run(words: Sequence[str]) -> int:
    shown = command_line("run", *words)
    code, jobs = each_job(words, lambda config, composed: run_job(config, composed, command=shown), elsewhere=True)
    if not any(job.number is not None for job in jobs):
        return code
    fault = try_step(lambda: _compare_jobs(jobs), words)
    return code if fault is None else max(code, fault.code)


def run_job(config: AuditConfig, composed: Composed, *, command: str) -> Path:
    """Make one run, print what was found, and return its folder."""
    from audit.tasks.pipeline import run_audit

    outcome = run_audit(config, command=command, preset=composed.preset, job=composed.number, say=say)
    show_outcome(outcome)
    return outcome.run_dir


def _compare_jobs(jobs: Sequence[JobOutcome]) -> None:
    """Compare the runs of a sweep, and name the jobs that failed."""
    from audit.comparing.comparison import compare_folders

    # Jobs that differ in statistics only share one run.
    folders = list(dict.fromkeys(job.folder for job in jobs if job.folder is not None))
    everywhere = set.intersection(*(set(job.overrides) for job in jobs))
    left_out = [
        f"{' '.join(name for name in job.overrides if name not in everywhere) or f'job {job.number}'}: {job.fault}"
        for job in jobs
        if job.fault is not None
    ]
    if len(folders) < 2:
        note(f"no comparison was made (it needs 2 finished runs): this sweep ended with {len(folders)}")
        return
    configs = [job.config for job in jobs if job.config is not None]
    places = {config.run_dir for config in configs}
    place = places.pop() if len(places) == 1 else None
    comparison = compare_folders(
        folders,
        out=None if place is None else place / "comparison",
        reports_dir=configs[0].reports_dir,
        left_out=left_out,
        say=say,
    )
    for text in left_out:
        note(text)
    show_comparison(comparison)


COMMAND: Final = Command(
    "run",
    "ask a model for ratings, compute the gap, write a report",
    lambda: _HELP + overrides_help("run"),
    _run,
    unread=FAILED,
    overrides=True,
)
