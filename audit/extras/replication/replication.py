"""Replicate the study from its released results: read files, keep run folders, report on each, compare all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.asking.elicitation.rules import OF_ANSWERS
from audit.asking.progress import Progress
from audit.comparing.comparison import Comparison, compare_folders
from audit.comparing.ratings import RatingComparison
from audit.configuration.schema import load_statistics
from audit.errors import ConfigError, StoreError
from audit.extras.replication.released_results import (
    N_STUDY,
    NO_RATING,
    STUDY,
    ReleasedRatings,
    ReleasedRun,
    clusters_of,
    find_released,
    read_released,
)
from audit.runs.manifest import Manifest
from audit.runs.outside import outside_manifest
from audit.runs.provenance import check_same_run, computed_by, first_setting_difference
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tasks.base import Published
from audit.tasks.registry import task_of
from stimuli.hashes import fingerprint
from stimuli.identities import IDENTITIES_FILE
from stimuli.narratives import HOU2025_COUNTS, load_narratives

_COMPARISON: Final = "comparison"
_FILE: Final = "crowd-enVent_{}.tsv"


@dataclass(frozen=True)
class Replication:
    """Results of a replication."""

    outcomes: Mapping[tuple[str, str], Published]  # (model, variant) → the report of that run
    comparison: Comparison | None  # all runs side by side; None if there is only one run

    def table(self) -> pd.DataFrame:
        """Return the published and our own gap of each run and dimension: rows of ``tables.GAP`` with ``model``."""
        parts = []
        for (model, _), outcome in self.outcomes.items():
            own = outcome.gap.loc[outcome.gap["dimension"] != "all"]
            ours = own.loc[own["headline"].astype(bool) & (own["scope"] == "narratives")]
            beside = ours[["dimension", "variant", "delta", "ci_low", "ci_high"]]
            published = own.loc[own["estimator"] == "published"].drop(columns=["delta", "ci_low", "ci_high"])
            parts.append(published.merge(beside, on=["dimension", "variant"]).assign(model=model))
        return pd.concat(parts, ignore_index=True)


def replicate(
    folder: Path,  # the study's processed_results, or its results
    *,
    run_dir: Path | None,  # None makes one in reports_dir, named by a hash of the files
    reports_dir: Path,
    narratives: Path | None,  # crowd-enVENT's files, with the emotion of each text_id; None takes the files' own
    keep_beyond: bool,  # see read_released
    seed: int,  # for the permutations and the map of perceivers
    statistics: Mapping[str, Any],  # settings of the analysis; others have their defaults
    command: str,
    say: Callable[[str], None],
) -> Replication:
    """Reproduce the study's numbers and figures from its released result files, or its raw batches of answers.

    Each model and variant becomes a run folder of ratings collected by another tool; two or more of them, a comparison.
    All files are read before the first report is made.
    """
    settings = load_statistics(statistics)
    for name in ("formula", "covariates", "human"):
        if getattr(settings, name) is not None:
            raise ConfigError(f"statistics.{name} is for one run; use it with report RUN_DIR")
    runs = find_released(folder)
    emotion_of = None if narratives is None else _emotion_of(narratives)
    place = run_dir or reports_dir / f"replication-{_name_of(runs)}"
    folders = _folders(runs, place)
    n_files = sum(len(run.paths) for run in runs)
    say(f"{folder}: {plural(n_files, 'file')} of {plural(len(runs), 'run')} (model and variant)")
    manifests: dict[Path, Manifest] = {}
    with Progress(n_files, unit="files") as progress:
        for run, path in zip(runs, folders, strict=True):
            manifests[path] = _keep(
                run, path, folder, emotion_of, keep_beyond, seed=seed, command=command, say=say, done=progress.done
            )
    outcomes: dict[tuple[str, str], Published] = {}
    for number, (run, path) in enumerate(zip(runs, folders, strict=True), start=1):
        say(f"{path}: analysing, {number} of {len(runs)}")
        manifest = manifests.pop(path).adding("config", statistics=settings.model_dump(mode="json"))
        with RunFolder(path) as kept:
            outcome = task_of(manifest).publish(kept, kept.stamped(manifest, computed_by()))
        outcomes[run.model, run.variant] = outcome
        for remark in outcome.remarks:
            if remark.code in OF_ANSWERS:
                say(f"note: {run.model}, {run.variant}: {remark.text}")
    if len(runs) < 2:
        say("note: no comparison (it needs 2 runs), and so no t-SNE map of perceivers")
        return Replication(outcomes, None)
    chosen = {name: getattr(settings, name) for name in RatingComparison.settings}
    comparison = compare_folders(folders, out=place / _COMPARISON, reports_dir=reports_dir, settings=chosen, say=say)
    return Replication(outcomes, comparison)


def _keep(
    run: ReleasedRun,
    path: Path,
    source: Path,
    emotion_of: Mapping[str, str] | None,
    keep_beyond: bool,
    *,
    seed: int,
    command: str,
    say: Callable[[str], None],
    done: Callable[[int], None],
) -> Manifest:
    """Read a run's files into its folder, unless they are there already; return its manifest."""
    read = read_released(run, emotion_of=emotion_of, keep_beyond=keep_beyond, done=done)
    manifest = _manifest(run, read, source, seed=seed, command=command)
    for text in _noted(run, read):
        say(f"note: {run.model}, {run.variant}: {text}")
    with RunFolder(path) as kept:
        earlier = kept.read_manifest()
        if earlier is not None:
            check_same_run(first_setting_difference(earlier.identity.content, manifest.identity.content), path)
        else:
            kept.clear("ratings")
            for number, table in enumerate(read.tables.values()):
                kept.write_shard(number, table)
        kept.consolidate(say)
    return manifest


def _manifest(run: ReleasedRun, read: ReleasedRatings, source: Path, *, seed: int, command: str) -> Manifest:
    identities = hashlib.sha256(IDENTITIES_FILE.read_bytes()).hexdigest()
    first = next(iter(read.tables.values()))
    manifest = outside_manifest(
        command=command,
        seed=seed,
        model=run.model,
        scale=read.scale,
        source=source.resolve().name,
        variants=[run.variant],
        dimensions=list(run.dimensions),
        emotions=read.emotions,
        n_narratives=read.n_narratives,
        n_prompts=sum(map(len, read.tables.values())),
        missing=[NO_RATING],
        n_missing_codes=sum(int(table["intensity"].isna().sum()) for table in read.tables.values()),
        files={
            "ratings": str(source),
            "ratings_sha256": read.sha256,
            "groups": f"{IDENTITIES_FILE.name}: {STUDY}",
            "groups_sha256": identities,
            "status_given": read.has_responses,
            "released": True,
        },
    )
    told = {
        "narratives": [str(name) for name in first["narrative_id"].cat.categories],
        "emotions": first["emotion"].iloc[: read.n_narratives].astype(str).tolist(),
    }
    outside = {**manifest.identity.content["outside"], "rows": fingerprint(told)}
    return manifest.adding("identity", outside=outside).having(clusters=clusters_of(run))


def _noted(run: ReleasedRun, read: ReleasedRatings) -> Iterator[str]:
    """Yield what a reader must know about the files."""
    if read.n_narratives != N_STUDY:
        yield f"its files have {plural(read.n_narratives, 'row')}, and the study has {N_STUDY:,} narratives"
    if read.n_beyond:
        yield (f"{plural(read.n_beyond, 'rating')} outside the scale of {run.variant}, kept as by the study's parser")
    if read.without_baselines:
        names = ", ".join(read.without_baselines)
        yield f"no files of the unspecified identity in {names}: the heatmap is one of identities alone"
    if not read.has_responses:
        yield "no column response: how many of the missing ratings were refused is not known, and written as missing"
    if run.batches:
        yield "raw batches: intensities are what the study's own rule reads in the answers"
    if read.not_read:
        yield f"columns that are not read: {', '.join(read.not_read)}"


def _emotion_of(folder: Path) -> dict[str, str]:
    """Return the emotion of each narrative, from those of the twelve files that exist."""
    there = [emotion for emotion in HOU2025_COUNTS if (folder / _FILE.format(emotion)).is_file()]
    if not there:
        raise StoreError(
            f"narratives={folder} has no file {_FILE.format('joy')}; give the folder of the study's narratives"
        )
    read = load_narratives(STUDY, path=folder, emotions=there)
    return {narrative.narrative_id: narrative.emotion for narrative in read.narratives}


def _folders(runs: Sequence[ReleasedRun], place: Path) -> list[Path]:
    """Return a folder for each run, named by model and variant."""
    names = [re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{run.model}-{run.variant}") for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two models would get the folder {place / name}; rename the files of one")
    return [place / name for name in names]


def _name_of(runs: Sequence[ReleasedRun]) -> str:
    """Return a hash of the files' names and sizes."""
    sizes = {str(path.resolve()): path.stat().st_size for run in runs for path in run.paths}
    return fingerprint(sizes)[:8]
