"""A sweep whose jobs other processes do, on this machine or as jobs of Slurm, by one of Hydra's launchers.

A launcher takes what a job does there, and brings nothing back but a value that Hydra drops. So a job that is done
elsewhere leaves a file that says what became of it, which the command reads when all have ended.
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

from audit.cli.printing import say
from audit.errors import ConfigError, StoreError

LAUNCHER: Final = "hydra/launcher="
_HERE: Final[set[str]] = set()
"""Tokens of the sweeps of this process; a process that was made for a job has none."""


@dataclass
class Jobs:
    """What became of jobs, wherever they were done.

    Attributes
    ----------
    place
        Where a job that is done elsewhere leaves its file; None where all are done here.
    """

    place: Path | None = None
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _done: list[Any] = field(default_factory=list)

    def add(self, number: int | None, job: Any) -> None:
        """Take what became of a job; from another process, the command reads it later."""
        if self.place is None or _is_here(self._token):
            self._done.append(job)
        else:
            unfinished = self.place / f"{number}.unfinished"
            unfinished.write_bytes(pickle.dumps(job))
            unfinished.rename(self.place / f"{number}.job")

    def all(self) -> list[Any]:
        """Return all of them, in the order of the sweep."""
        if self.place is None:
            return self._done
        files = sorted(self.place.glob("*.job"), key=lambda file: int(file.stem))
        return [*self._done, *(pickle.loads(file.read_bytes()) for file in files)]


def _is_here(token: str) -> bool:
    return token in _HERE  # of the module, not of what was pickled: a function's own globals go with it


def without_results(error: Exception, overrides: Sequence[str]) -> ConfigError:
    """Return what a launcher says of settings, of jobs that it could not begin, or of no result, as one line."""
    asked = next(word for word in reversed(overrides) if word.lstrip("+").startswith(LAUNCHER))
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, NameError):  # as submitit tells of a setting that it does not know
        return ConfigError(f"{asked}: {said}; correct the name in hydra.launcher.NAME=VALUE, or leave it out")
    return ConfigError(
        f"{asked}: {said}; look into .submitit/ of the sweep's folder, and whether other jobs still run; the same "
        "command goes on where they stopped"
    )


@contextmanager
def gathered(overrides: Sequence[str], *, may: bool) -> Iterator[Jobs]:
    """Gather what becomes of jobs.

    Parameters
    ----------
    overrides
        The words of the command line.
    may
        Whether the command's jobs may be done elsewhere.

    Raises
    ------
    ConfigError
        If they may not, there is no sweep, or what the launcher needs is not installed.
    StoreError
        If the folder of the command cannot be written.
    """
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
    # In the folder of the command: submitted jobs begin there too, on whatever machine.
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
