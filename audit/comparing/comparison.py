"""The steps of a comparison, in order: run folders, gaps, differences, figures, one folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.comparing.base import ComparisonContent, RunsCompared
from audit.comparing.ratings import RatingComparison
from audit.comparing.replies import ReplyComparison
from audit.comparing.series import RunPositions, positions_of
from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.schema import load_statistics
from audit.errors import ConfigError
from audit.runs.differences import identity_of
from audit.runs.manifest import ComparisonManifest, Manifest
from audit.runs.provenance import versions
from audit.runs.store import ComparisonFolder
from audit.tables.base import Table
from audit.tables.formatting import encodable
from audit.tasks.registry import task_of
from stimuli.hashes import fingerprint

if TYPE_CHECKING:
    from audit.report.summary import Summary

_COMPARISONS: Final[dict[str, type[RunsCompared[Any]]]] = {"gaps": RatingComparison, "measures": ReplyComparison}
"""By the task's ``compared_by``."""


@dataclass(frozen=True)
class Comparison:
    """A finished comparison; ``summary`` is its page's first screen."""

    path: Path
    page: Path
    remarks: tuple[str, ...]
    described: Mapping[str, Table]
    summary: Summary


def compare_folders(
    folders: Sequence[Path],
    *,
    out: Path | None,  # replaces an earlier comparison there; None: a name made of the runs' identities
    reports_dir: Path,
    settings: Mapping[str, Any] | None = None,  # override those of the first run
    series: str | Mapping[str, Any] | None = None,
    command: str | None = None,  # to record; None: one that makes the same comparison
    left_out: Sequence[str] = (),  # runs that were asked for and failed, in words
    say: Callable[[str], None],
) -> Comparison:
    """Compare complete runs, which are only read, on one page. Nothing is written until everything has succeeded.

    ``series`` is the runs in an order, along which each gap's trend is tested: ``order`` (as given), ``size`` (the
    models' numbers of parameters) or the path of a table with the columns ``run`` and ``position``; or what a
    comparison's manifest recorded of it.
    """
    manifests = {folder: Manifest.read(folder) for folder in _each_once(folders)}
    identities = _different_runs(manifests)
    compared_by = _compared_by(manifests)
    kind = _COMPARISONS[compared_by]
    used = _settings(next(iter(manifests.values())), settings or {}, known=kind.settings)
    placed = _placed(series, manifests, kind, compared_by)
    path = out or reports_dir / f"comparison-{fingerprint({'runs': identities})[:8]}"
    target = ComparisonFolder(path)
    target.check()
    words = [f"series={series}"] if isinstance(series, str) else []
    command = command or shlex.join(["python", "-m", "audit", "report", *map(str, folders), *words, f"run_dir={path}"])
    command = encodable(command)
    compared = kind(manifests, used, placed).side_by_side(left_out=left_out, command=command, say=say)
    content, summary = compared.files(_draw(compared))
    with target:
        said = {
            "command": command,
            "runs": compared.hashes(),
            "left_out": list(left_out),
            "settings": {name: getattr(used, name) for name in kind.settings},
            **compared.facts,
            "versions": versions(),
        }
        target.write_manifest(ComparisonManifest.of(said))
        for name in ("tables", "figures"):
            target.clear(name)
        for name, written in content.items():
            target.write_file(name, written)
    return Comparison(path, path / "comparison.html", compared.remarks, compared.described, summary)


def _draw(compared: ComparisonContent) -> Mapping[str, Any]:
    """Draw all figures. A function of its own, so that tests can leave drawing out."""
    return compared.draw()


def _each_once(folders: Sequence[Path]) -> list[Path]:
    if len(folders) < 2:
        raise ConfigError(f"a comparison takes two run folders or more, got {shlex.join(map(str, folders)) or 'none'}")
    seen: dict[Path, Path] = {}
    for folder in folders:
        place = folder.resolve()
        if place in seen:
            raise ConfigError(f"{seen[place]} and {folder} are the same folder; give each run once")
        seen[place] = folder
    return list(folders)


def _different_runs(manifests: Mapping[Path, Manifest]) -> list[str]:
    """Return the runs' identities. Raise ConfigError if two folders hold the same run."""
    seen: dict[str, Path] = {}
    for folder, manifest in manifests.items():
        identity = identity_of(manifest)
        if identity in seen:
            raise ConfigError(f"{seen[identity]} and {folder} hold the same run; give each run once")
        seen[identity] = folder
    return list(seen)


def _compared_by(manifests: Mapping[Path, Manifest]) -> str:
    """Return what runs of this task are compared by. Raise ConfigError if tasks differ or cannot be compared."""
    tasks = {folder: task_of(manifest) for folder, manifest in manifests.items()}
    (first, task), *others = tasks.items()
    odd = next((folder for folder, other in others if other is not task), None)
    if odd is not None:
        raise ConfigError(
            f"{first} is a run of task={task.kind} and {odd} of task={tasks[odd].kind}: what they measure has no unit "
            "in common; compare runs of one task"
        )
    if task.compared_by is None:
        raise ConfigError(f"{first} is a run of task={task.kind}, of which there is no comparison; read its own report")
    return task.compared_by


def _placed(
    series: str | Mapping[str, Any] | None, manifests: Mapping[Path, Manifest], kind: type[RunsCompared[Any]], by: str
) -> RunPositions | None:
    """Return where each run of a series stands; None without a series."""
    if series is None:
        return None
    if not kind.takes_series:
        raise ConfigError(
            f"series= follows gaps of ratings, and {next(iter(manifests))} is compared by {by}; leave out series="
        )
    if isinstance(series, str):
        return positions_of(series, manifests)
    return RunPositions.again(series, list(manifests))


def _settings(first: Manifest, settings: Mapping[str, Any], *, known: Sequence[str]) -> AnalysisSettings:
    """Return the settings that all runs are analysed with: those in ``known`` of the first run, unless overridden."""
    unused = next((name for name in settings if name not in known), None)
    if unused is not None:
        raise ConfigError(f"statistics.{unused}: a comparison of runs has no use for it; it takes {', '.join(known)}")
    recorded = {name: value for name, value in first.config.recorded.items() if name in known}
    return load_statistics({**recorded, **settings})
