"""Shared by commands that take overrides: their help, and running one job or those of a sweep."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.cli.terminal.base import OK, Fault, try_step
from audit.cli.terminal.elsewhere import Jobs, gathered, without_results
from audit.cli.terminal.options import Given, Usage
from audit.cli.terminal.printing import WIDTH, say
from audit.configuration.composition import Composed, compose
from audit.configuration.options import offered

if TYPE_CHECKING:
    from audit.configuration.schema import AuditConfig

_OVERRIDES: Final = """\
{command} takes overrides of the configuration: KEY=VALUE, or GROUP=CHOICE for the groups below.

groups:
{groups}

often used:
  dimensions=[religion]                which dimensions; [race_ethnicity+religion] crosses two
  preset=quick                         a first look; standard: a release gate; thorough: a paper
  stimuli.situations_per_emotion=all   all narratives, not a sample
  model.path=HUB_ID_OR_FOLDER_OR_FILE  any model; a file is a GGUF file
  run_dir=PATH                         where the run is kept
  --config-dir=DIR                     a folder of yours with groups of your own, e.g. DIR/prompt/mine.yaml

every option, with its meaning: python -m audit options
all options and their values with these overrides: python -m audit {command} ... --cfg job
"""


def split_arguments(usage: Usage, words: Sequence[str]) -> tuple[Given, list[str]]:
    """Separate a command's own options from configuration overrides."""
    own = [word for word in words if word.partition("=")[0] in usage.names]
    return usage.read(own), [word for word in words if word not in own]


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of one composed configuration."""

    number: int | None  # its place in a sweep; None outside a sweep
    overrides: tuple[str, ...]
    config: AuditConfig | None  # None if it could not be validated
    folder: Path | None  # the run's, if there is one
    fault: Fault | None  # None if all went well


def overrides_help(command: str) -> str:
    """Write the help on overrides, with the packaged choices."""
    groups = "\n".join(_listed(name, names) for name, names in offered().items() if names)
    return _OVERRIDES.format(command=command, groups=groups)


def each_job(
    overrides: Sequence[str], do: Callable[[AuditConfig, Composed], Path | None], *, elsewhere: bool = False
) -> tuple[int, list[JobOutcome]]:
    """Do a job with the configuration, or with each of a sweep; the exit code is that of the worst fault.

    ``do`` returns the run's folder, if it makes one. With ``elsewhere``, other processes may do a sweep's jobs.
    """
    with gathered(overrides, may=elsewhere) as jobs:

        def composed() -> None:
            try:
                compose(list(overrides), _task(jobs, do, overrides), say=say)
            except (RuntimeError, NameError) as error:  # launchers report their own errors as these
                if jobs.place is None:
                    raise
                raise without_results(error, overrides) from error

        fault = try_step(composed, overrides)
        done: list[JobOutcome] = jobs.all()
        if jobs.place is not None:
            for job in done:
                say(f"job {job.number} ({' '.join(job.overrides)}): {job.fault or job.folder}")
    faults = [each for each in (fault, *(job.fault for job in done)) if each is not None]
    return max((each.code for each in faults), default=OK), done


def _task(
    jobs: Jobs, do: Callable[[AuditConfig, Composed], Path | None], words: Sequence[str]
) -> Callable[[Composed], None]:
    """Return a function that does one job, here or in another process."""

    def task(composed: Composed) -> None:
        config: AuditConfig | None = None
        folder: Path | None = None

        def step() -> None:
            nonlocal config, folder
            config = composed.validated()
            folder = do(config, composed)

        fault = try_step(step, words)
        jobs.add(composed.number, JobOutcome(composed.number, composed.overrides, config, folder, fault))

    return task


def _listed(group: str, names: Sequence[str]) -> str:
    """Write a group and its choices, wrapped for a terminal."""
    head = f"  {group + '=':<13}"
    return textwrap.fill(
        " ".join(names), WIDTH, initial_indent=head, subsequent_indent=" " * 15, break_on_hyphens=False
    )
