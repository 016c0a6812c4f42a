"""The order of the stages, and nothing else: stimuli, prompts, engine, answers, scores, statistics, figures, report."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from audit.asking.prompt_export import Export, messages_in
from audit.configuration.schema import AuditConfig, StatisticsConfig, load_statistics
from audit.engines.answered import Answers, answered_model, read_answers
from audit.engines.progress import Say
from audit.errors import ConfigError, StoreError, check_margin, check_points
from audit.people.collection import FOLDERS, form_of, import_ratings
from audit.runs.manifest import Manifest
from audit.runs.outside import code_text, describe_outside, read_outside
from audit.runs.planned import Planned
from audit.runs.provenance import check_same_run, computed_by, default_run_dir, first_difference, now
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tables.gap import CALIBRATION
from audit.tasks.base import Published, Task
from audit.tasks.registry import TASKS, task_of
from stimuli.mentions import remarks
from stimuli.reach import reach_remarks
from stimuli.stereotypes import load_stereotypes


def run_audit(
    config: AuditConfig, *, command: str, preset: str = "defaults", job: int | None = None, say: Say
) -> Published:
    """Elicit what is missing of a run, analyse it and render its report.

    Parameters
    ----------
    config
        What to run.
    command
        The command line that asked for it; the manifest and the report show it.
    preset
        The experiment that it is, as ``conf/experiment`` names it.
    job
        The run's number in a sweep, None outside one. The runs of a sweep get a folder each inside ``run_dir``.
    say
        Takes lines about progress.

    Raises
    ------
    AuditError, StimulusError
        Whatever the user can mend; what was collected before is kept.
    """
    _check_formula(config.statistics)
    load_stereotypes(config.statistics.stereotypes)
    task = TASKS[config.task.kind]
    task.check_statistics(config.statistics)
    plan = task.plan(config)
    task.check(plan)
    path = _folder_of(plan, job)
    _announce(plan, say)
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        manifest = task.collect(plan, folder, command=command, say=say)
        return _publish(task, folder, _completed(manifest, config, command=command, preset=preset), say)


def _announce(plan: Planned, say: Say) -> None:
    """Say what is asked, and what to know of a user's own narratives."""
    say(plan.announced)
    for remark in (*remarks(plan.grid.narratives, plan.grid.dimensions), *reach_remarks(plan.grid.dimensions)):
        say(f"note: {remark}")


def _publish(task: Task[Any], folder: RunFolder, manifest: Manifest, say: Say) -> Published:
    """Analyse a run in which nothing is left to ask."""
    folder.write_manifest(manifest)
    folder.consolidate(say)
    return analysed(task, folder, manifest)


def analysed(task: Task[Any], folder: RunFolder, manifest: Manifest) -> Published:
    """Analyse what a run's folder holds, and put it in the place of an earlier analysis; see :meth:`Task.publish`."""
    return task.publish(folder, folder.stamped(manifest, computed_by()))


def _folder_of(plan: Planned, job: int | None) -> Path:
    named = plan.config.run_dir
    return default_run_dir(plan, within=named) if named is None or job is not None else named


def _completed(manifest: Manifest, config: AuditConfig, *, command: str, preset: str) -> Manifest:
    # Statistics may differ between analyses of the same ratings; the command shown is the one that asked for them.
    analysed = manifest.adding("config", statistics=config.statistics.model_dump(mode="json"))
    return analysed.having(command=command, preset=preset).complete(finished=now())


def report_run(
    path: Path, *, defaults: Mapping[str, Any], settings: Mapping[str, Any] | None = None, command: str = ""
) -> Published:
    """Analyse and render a run again, without its model; of one that is not finished, what there is.

    Parameters
    ----------
    path
        The run's folder.
    defaults
        Settings of the analysis that a run of an earlier version did not record.
    settings
        Settings that take the place of the run's own; the manifest records them.
    command
        The command line that asked for it, if it changes settings.

    Raises
    ------
    StoreError
        If the folder is none of a run's, or is being written to.
    ConfigError
        If a setting cannot be used.
    """
    manifest = Manifest.read(path)
    statistics = load_statistics({**defaults, **manifest.statistics.content, **(settings or {})})
    _check_formula(statistics)
    task = task_of(manifest)
    if math.isfinite(manifest.scale.high - manifest.scale.low):
        check_points(statistics.model_dump(), low=manifest.scale.low, high=manifest.scale.high)
    task.check_statistics(statistics)
    with RunFolder(path) as folder:
        manifest = Manifest.read(path).adding("config", statistics=statistics.model_dump(mode="json"))
        if settings:
            manifest = manifest.having(report_command=command)
        return analysed(task, folder, manifest)


def report_outside(
    ratings: Path,
    groups: Path,
    run_dir: Path,
    *,
    low: float | None,
    high: float | None,
    missing: Sequence[float | str] = (),
    model: str | None,
    seed: int,
    statistics: Mapping[str, Any],
    command: str,
    say: Say,
) -> Published:
    """Analyse ratings that another tool collected, and keep them in a run folder.

    Parameters
    ----------
    ratings, groups
        The table of ratings, and the one that says which group each term belongs to; see :mod:`audit.runs.outside`.
    run_dir
        Where the run is kept; the same files may be analysed there again.
    low, high
        The ends of the rating scale, in points. If None, 0 and 100, where the ratings reach them.
    missing
        What stands for no rating.
    model
        What the ratings are of; None takes the file's name.
    seed
        Of the permutations.
    statistics
        Settings of the analysis, all of them.
    command
        The command line that asked for it.
    say
        Takes lines about progress.

    Raises
    ------
    StoreError
        If a file cannot be read, or the folder holds another run.
    ConfigError
        If the tables or a setting cannot be used.
    """
    settings = load_statistics(statistics)
    _check_formula(settings)
    outside = read_outside(ratings, groups, low=low, high=high, missing=missing)
    check_points(settings.model_dump(), low=outside.low, high=outside.high)
    manifest = describe_outside(outside, command=command, seed=seed, model=model)
    manifest = manifest.adding("config", statistics=settings.model_dump(mode="json"))
    n_rated = int(outside.ratings["intensity"].notna().sum())
    coded = ", ".join(map(code_text, outside.missing))
    say(
        f"{ratings}: {plural(n_rated, 'rating')} of {plural(len(outside.ratings), 'prompt')} on a scale from "
        f"{outside.low:g} to {outside.high:g}"
        + (f"; {plural(outside.n_missing_codes, 'code')} ({coded}) for none" if outside.missing else "")
    )
    with RunFolder(run_dir) as folder:
        earlier = folder.read_manifest()
        if earlier is not None:
            check_same_run(first_difference(earlier.identity.content, manifest.identity.content), run_dir)
        if not folder.shards():  # in a new folder, and where they were damaged and set aside
            folder.write_shard(0, outside.ratings)
        folder.consolidate(say)
        return analysed(task_of(manifest), folder, manifest)


def report_answers(
    answers: Path,
    prompts: Path,
    *,
    run_dir: Path | None,
    model: str | None,
    by: str,
    settings: Mapping[str, Any],
    command: str,
    say: Say,
) -> Published:
    """Read the answers that another stack gave to prompts of ours, and analyse them as a run.

    Parameters
    ----------
    answers
        A line of JSON a prompt, or a log of Inspect, see :mod:`audit.engines.answered`.
    prompts
        The file of prompts, with what was written beside it, see :mod:`audit.asking.prompt_export`.
    run_dir
        Where the run is kept. If None, a folder that is named after the model, the prompts and the answers.
    model, by
        What the model and the stack are called, which nobody checks. If None or empty, what a log says itself is used,
        and of other files their name.
    settings
        Settings of the analysis that differ from those that the prompts were written with.
    command
        The command line that asked for it.
    say
        Takes lines about progress.

    Raises
    ------
    StoreError
        If a file cannot be read, the prompts were changed, or the folder holds another run.
    ConfigError
        If an answer or a setting cannot be used.
    """
    export = Export.read(prompts)
    found = read_answers(
        answers, export=export.id, n_prompts=len(export.asked.grid), asked=lambda: messages_in(prompts)
    )
    plan = export.plan(model=model or found.model or answers.stem)
    statistics = load_statistics({**plan.config.statistics.model_dump(), **settings})
    _check_formula(statistics)
    load_stereotypes(statistics.stereotypes)
    plan = replace(plan, config=plan.config.model_copy(update={"statistics": statistics}))
    config, task = plan.config, TASKS[plan.config.task.kind]
    task.check_statistics(statistics)
    task.check(plan)
    opened = answered_model(config.model.name, by or found.by, found, prompts_sha256=export.prompts_sha256)
    folder_name = default_run_dir(plan)
    path = run_dir or folder_name.with_name(f"{folder_name.name}-{found.sha256[:8]}")
    _announce(plan, say)
    say(f"{answers}: {_said_of(found)}")
    for remark in found.remarks:
        say(f"note: {remark}")
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        earlier = folder.read_manifest()
        if earlier is not None:
            check_same_run(first_difference(earlier.identity.content, opened.source.identity()), path)
        manifest = task.collect(plan, folder, command=command, say=say, opened=opened)
        # How long a file took to read says nothing of the model.
        manifest = _completed(manifest.having(timings={}), config, command=command, preset=export.preset)
        return _publish(task, folder, manifest, say)


def _said_of(answers: Answers) -> str:
    """Say what was found in a file of answers."""
    counted = (
        (answers.n_absent, "without a line"),
        (answers.n_without, "with a line that has no answer"),
        (answers.n_repeated, "with the same line again"),
        (answers.n_unsigned, "without a sign of being whole (finish_reason)"),
    )
    more = "; ".join(f"{count:,} {what}" for count, what in counted if count)
    return f"answers to {len(answers.texts):,} of {plural(answers.n_prompts, 'prompt')}{f'; {more}' if more else ''}"


def import_people(
    path: Path, files: Sequence[Path], *, form: str | None = None, defaults: Mapping[str, Any]
) -> tuple[Published, tuple[str, ...]]:
    """Take what people gave a run's replies, or its narratives, into its folder, and analyse it again.

    Parameters
    ----------
    path
        The run's folder, with an export.
    files
        The raters' CSV files, all of them.
    form
        Which form they are of; None takes that of the run's task.
    defaults
        As of :func:`report_run`.

    Returns
    -------
    tuple
        What the analysis ended in, and what was counted in the files, in words.

    Raises
    ------
    AuditError, StimulusError
        As of :func:`audit.people.collection.import_ratings` and :func:`report_run`.
    """
    which = form_of(path, task_of(Manifest.read(path)).forms, form)
    found, counted = import_ratings(path, which, files)
    with RunFolder(path) as folder:
        folder.write_manifest(Manifest.read(path).having(**{FOLDERS[which]: found}))
    return report_run(path, defaults=defaults), counted


def calibrate_run(
    path: Path, *, defaults: Mapping[str, Any], n_datasets: int, delta: float | None, seed: int, progress: bool
) -> tuple[Path, pd.DataFrame]:
    """Simulate data of a complete run's own design, and say how often its estimators err.

    Parameters
    ----------
    path
        The run's folder.
    defaults
        Settings of the analysis that a run of an earlier version did not record.
    n_datasets
        Data sets for each size of the gap.
    delta
        The gap for power and coverage, in points; None takes the smallest one that the run can detect.
    seed
        Of the simulation.
    progress
        Whether to show a bar.

    Returns
    -------
    tuple
        ``calibration.csv`` in the run's folder, and what it holds; see :data:`audit.tables.gap.CALIBRATION`.

    Raises
    ------
    StoreError
        If the folder is none of a run's, or the run is not complete.
    """
    from tqdm import tqdm

    from audit.statistics.calibration import calibrate_ratings
    from audit.statistics.controls import Repetition

    manifest = Manifest.read(path)
    statistics = load_statistics({**defaults, **manifest.statistics.content})
    check_margin("delta", None if delta is None else abs(delta), low=manifest.scale.low, high=manifest.scale.high)
    with RunFolder(path) as folder:
        ratings = folder.ratings_of(manifest)
        with tqdm(unit="data set", file=sys.stderr, smoothing=0.1, disable=not progress) as bar:

            def say(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            table = calibrate_ratings(
                ratings,
                n_datasets=n_datasets,
                delta=delta,
                seed=seed,
                confidence=statistics.confidence,
                power=statistics.power,
                say=say,
                repetition=Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn),
            )
        return folder.write_file("calibration.csv", CALIBRATION.csv(table)), table


def consolidate_run(path: Path) -> None:
    """Write each table of a finished run that lies in parts into one file, of the same rows.

    Parameters
    ----------
    path
        The run's folder.

    Raises
    ------
    StoreError
        If the folder is none of a run's, the run is not finished, or the disk does not allow it: the parts stay.
    """
    if Manifest.read(path).status != "complete":
        raise StoreError(f"{path} is not finished; give its command again, which consolidates it at its end")
    with RunFolder(path) as folder:
        folder.consolidate()


def _check_formula(statistics: StatisticsConfig) -> None:
    """Refuse a formula that cannot be used, before anything long begins."""
    if statistics.formula is None:
        if statistics.random is not None:
            raise ConfigError(f"statistics.random={statistics.random!r} is part of a formula; give statistics.formula")
        return
    from audit.statistics.own_model import check_own_model

    check_own_model(statistics.formula, fit=statistics.fit, random=statistics.random, cluster=statistics.cluster)
