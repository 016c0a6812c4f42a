"""Sweeps whose jobs run in other processes, on this machine or in Slurm, through one of Hydra's launchers.

A launcher sends a job away and brings back nothing except a value that Hydra drops. So each job leaves a file with its
outcome, which the command reads when all have ended.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from audit.cli.terminal.printing import say
from audit.errors import ConfigError, StoreError

LAUNCHER: Final = "hydra/launcher="
_HERE: Final[set[str]] = set()  # tokens of this process's sweeps; a process that was started for a job has none


@dataclass
class Jobs:
    """The outcomes of jobs, in whichever process they ran."""

    place: Path | None = None  # where jobs in other processes leave their files; None if all run here
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _done: list[Any] = field(default_factory=list)

    def add(self, number: int | None, job: Any) -> None:
        """Record a job's outcome; from another process, leave it in a file."""
        if self.place is None or _is_here(self._token):
            self._done.append(job)
        else:
            unfinished = self.place / f"{number}.unfinished"
            unfinished.write_bytes(pickle.dumps(job))
            unfinished.rename(self.place / f"{number}.job")

    def all(self) -> list[Any]:
        """Return all outcomes, in the order of the sweep."""
        if self.place is None:
            return self._done
        files = sorted(self.place.glob("*.job"), key=lambda file: int(file.stem))
        return [*self._done, *(pickle.loads(file.read_bytes()) for file in files)]


def _is_here(token: str) -> bool:
    return token in _HERE  # the module's set, because pickling would copy a function's own globals


def without_results(error: Exception, overrides: Sequence[str]) -> ConfigError:
    """Turn a launcher's error (settings, jobs that did not start, no result) into one line."""
    asked = next(word for word in reversed(overrides) if word.lstrip("+").startswith(LAUNCHER))
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, NameError):  # submitit raises it for an unknown setting
        return ConfigError(
            f"{asked}: {_in_order(said)}; correct the name in hydra.launcher.NAME=VALUE, or leave it out"
        )
    return ConfigError(
        f"{asked}: {said}; look into .submitit/ of the sweep's folder, and whether other jobs still run; the same "
        "command goes on where they stopped"
    )


def _in_order(said: str) -> str:
    """Sort the names that submitit lists, which it takes from a set: its order changes from process to process."""
    problem, before, names = said.partition(" Valid arguments: ")
    return problem + before + ", ".join(sorted(names.split(", ")))


@contextmanager
def gathered(overrides: Sequence[str], *, may: bool) -> Iterator[Jobs]:
    """Gather the outcomes of jobs; refuses launchers unless ``may`` is true and it is a sweep."""
    launchers = [word for word in overrides if word.lstrip("+").startswith(LAUNCHER)]
    if not launchers or launchers[-1].endswith("=basic"):
        yield Jobs()
        return
    asked = launchers[-1]
    if not may:
        raise ConfigError(f"{asked}: only `run -m` hands its jobs to others; leave it out")
    if not {"-m", "--multirun"} & set(overrides):
        raise ConfigError(f"{asked} is of the jobs of a sweep, and this is one run; give -m, or leave it out")
    _check_installed(asked)
    # In the command's folder, because submitted jobs start there too, on any machine.
    try:
        place = Path(tempfile.mkdtemp(prefix=".sweep-", dir=Path.cwd()))
    except OSError as error:
        raise StoreError(
            f"{asked}: the folder that the command is given in cannot be written ({error.strerror or error}); give it "
            "in one that all of the jobs can write"
        ) from error
    jobs = Jobs(place)
    _HERE.add(jobs._token)
    say(
        f"{asked}: the jobs are handed over, and what they say is in .submitit/ of the sweep's folder (multirun/ of "
        "reports_dir); waiting for all of them ..."
    )
    try:
        yield jobs
    finally:
        _HERE.discard(jobs._token)
        shutil.rmtree(place, ignore_errors=True)


def _check_installed(asked: str) -> None:
    import importlib.util

    if asked.endswith(("=slurm", "=submitit_slurm", "=submitit_local")):
        try:
            found = importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise ConfigError(f"{asked} needs Hydra's launcher for it: pip install 'empathy-audit[slurm]'")
