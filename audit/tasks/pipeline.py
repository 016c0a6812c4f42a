"""The order of the stages, and nothing else: stimuli, prompts, engine, answers, scores, statistics, figures, report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.asking.progress import Say
from audit.asking.prompt_export import Export, messages_in
from audit.asking.run_identity import default_run_dir
from audit.asking.workers.open import check_installed
from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.planted import MARK
from audit.configuration.schema import AuditConfig, load_statistics
from audit.engines.answered import FileAnswers, answered_model, read_answers_file
from audit.errors import ConfigError, StoreError
from audit.runs.manifest import Manifest
from audit.runs.outside import COLUMNS as OF_RATINGS
from audit.runs.outside import code_text, describe_outside, read_outside
from audit.runs.planned import Planned
from audit.runs.provenance import check_same_run, computed_by, first_setting_difference, now
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tables.ratings import NARRATIVE_COVARIATES
from audit.tasks.base import Published, Task
from audit.tasks.people import FOLDERS, form_of, import_ratings
from audit.tasks.registry import TASKS, task_of
from audit.tasks.transcripts import COLUMNS as OF_REPLIES
from audit.tasks.transcripts import read_transcripts
from stimuli.covariates import GroupCovariates, read_covariates
from stimuli.fitting import fit_remarks
from stimuli.mentions import remarks
from stimuli.reach import reach_remarks
from stimuli.stereotypes import load_stereotypes

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = tuple(dict.fromkeys((*OF_RATINGS, *OF_REPLIES)))
"""Our names of the columns of files that other tools wrote; commands read their options by it."""


def run_audit(
    config: AuditConfig, *, command: str, preset: str = "defaults", job: int | None = None, say: Say
) -> Published:
    """Ask for all that a run still lacks, analyse it and render its report; after an error earlier answers are kept.

    ``preset`` is as ``conf/experiment`` names it; ``job`` is the run's number in a sweep, whose runs get a folder each.
    """
    covariates = _covariates_of(config.statistics)
    _check_formula(config.statistics, covariates)
    load_stereotypes(config.statistics.stereotypes)
    task = TASKS[config.task.kind]
    task.check_statistics(config.statistics)
    plan = task.plan(config)
    task.check(plan)
    path = _folder_of(plan, job)
    if not path.exists():  # a complete run is analysed without its model
        check_installed(plan.config)
    announce(plan, say)
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        manifest = task.collect(plan, folder, command=command, say=say)
        manifest = _completed(manifest, config, covariates, command=command, preset=preset)
        return _publish(task, folder, manifest, say)


def announce(plan: Planned, say: Say) -> None:
    """Report what is asked, with notes on the user's own narratives and on a budget that is too small."""
    say(plan.announced)
    grid, server = plan.grid, plan.config.engine.server
    fits = fit_remarks(grid, seed=plan.config.seed)
    for remark in (*remarks(grid.narratives, grid.dimensions), *fits, *reach_remarks(grid.dimensions)):
        say(f"note: {remark}")
    if server is not None and server.max_requests is not None and len(grid) > server.max_requests:
        say(
            f"note: engine.server.max_requests={server.max_requests:,} is less than these {len(grid):,} prompts: the "
            f"run takes {-(-len(grid) // server.max_requests):,} sessions or more; the same command continues it"
        )


def _publish(task: Task[Any], folder: RunFolder, manifest: Manifest, say: Say) -> Published:
    """Analyse a run in which nothing is left to ask."""
    folder.write_manifest(manifest)
    folder.consolidate(say)
    return analysed(task, folder, manifest)


def analysed(task: Task[Any], folder: RunFolder, manifest: Manifest) -> Published:
    """Analyse a run's folder, replacing an earlier analysis; see :meth:`Task.publish`."""
    published = task.publish(folder, folder.stamped(manifest, computed_by()))
    if manifest.model.planted is None:
        return published
    marked = (replace(each, title=f"{MARK}: {each.title}") for each in published.summary.findings)
    return replace(published, summary=replace(published.summary, findings=tuple(marked)))


def _folder_of(plan: Planned, job: int | None) -> Path:
    named = plan.config.run_dir
    return default_run_dir(plan, within=named) if named is None or job is not None else named


def _completed(
    manifest: Manifest, config: AuditConfig, covariates: GroupCovariates | None, *, command: str, preset: str
) -> Manifest:
    # Analyses of the same ratings may differ in statistics, so the command shown is this one's.
    analysed = _recording(manifest, config.statistics, covariates)
    return analysed.having(command=command, preset=preset).complete(finished=now())


def _covariates_of(statistics: AnalysisSettings) -> GroupCovariates | None:
    return None if statistics.covariates is None else read_covariates(statistics.covariates)


def _recording(manifest: Manifest, statistics: AnalysisSettings, covariates: GroupCovariates | None) -> Manifest:
    """Return the manifest with the settings of an analysis, and the user's numbers of groups."""
    manifest = manifest.adding("config", statistics=statistics.model_dump(mode="json"))
    if covariates is not None:
        return manifest.having(covariates=covariates.content())
    return manifest.having(covariates=None) if manifest.covariates.rows else manifest


def report_run(path: Path, *, settings: Mapping[str, Any] | None = None, command: str = "") -> Published:
    """Analyse and render a run again, also an unfinished one, without its model; ``settings`` override its own."""
    manifest = Manifest.read(path)
    statistics = load_statistics({**manifest.config.recorded, **(settings or {})})
    task = task_of(manifest)
    if math.isfinite(manifest.scale.high - manifest.scale.low):
        statistics.check_on_scale(low=manifest.scale.low, high=manifest.scale.high)
    task.check_statistics(statistics)
    # A file that is not named again may have changed, or be gone: the numbers recorded count.
    kept = manifest.covariates.given if "covariates" not in (settings or {}) else None
    covariates = kept if kept is not None and statistics.covariates is not None else _covariates_of(statistics)
    with RunFolder(path) as folder:
        _check_formula(statistics, covariates, folder.table(NARRATIVE_COVARIATES).frame())
        manifest = _recording(Manifest.read(path), statistics, covariates)
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
    columns: Mapping[str, str] | None = None,
    model: str | None,
    seed: int,
    statistics: Mapping[str, Any],
    command: str,
    say: Say,
) -> Published:
    """Analyse ratings that another tool collected, and keep them in a run folder, where they may be analysed again."""
    settings = load_statistics(statistics)
    covariates = _covariates_of(settings)
    outside = read_outside(ratings, groups, low=low, high=high, missing=missing, columns=columns)
    _check_formula(settings, covariates, outside.narratives)
    settings.check_on_scale(low=outside.low, high=outside.high)
    manifest = describe_outside(outside, command=command, seed=seed, model=model)
    manifest = _recording(manifest, settings, covariates)
    n_rated = int(outside.ratings["intensity"].notna().sum())
    coded = ", ".join(map(code_text, outside.missing))
    say(
        f"{ratings}: {plural(n_rated, 'rating')} of {plural(len(outside.ratings), 'prompt')} on a scale from "
        f"{outside.low:g} to {outside.high:g}"
        + (f"; {plural(outside.n_missing_codes, 'code')} ({coded}) for none" if outside.missing else "")
    )
    if len(outside.narratives):
        say(f"covariates of narratives, for statistics.formula: {', '.join(outside.narratives['covariate'].unique())}")
    if outside.not_kept and settings.formula is not None:
        others = "; ".join(f"{name!r}: {why}" for name, why in outside.not_kept.items())
        say(f"note: no covariates of narratives: {others}")
    with RunFolder(run_dir) as folder:
        _check_same(folder, manifest.identity.content)
        if not folder.shards():  # in a new folder, or if damaged shards were set aside
            folder.write_shard(0, outside.ratings)
        if len(outside.narratives):
            cells = outside.narratives.itertuples(index=False)
            folder.table(NARRATIVE_COVARIATES).write(
                [dict(zip(NARRATIVE_COVARIATES, row, strict=True)) for row in cells]
            )
        folder.consolidate(say)
        return analysed(task_of(manifest), folder, manifest)


def _check_same(folder: RunFolder, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another run."""
    if (earlier := folder.read_manifest()) is not None:
        check_same_run(first_setting_difference(earlier.identity.content, identity), folder.path)


def report_transcripts(
    replies: Path,
    groups: Path | None,  # None if a column of the replies names the groups
    run_dir: Path,
    *,
    columns: Mapping[str, str] | None = None,
    model: str | None,
    seed: int,
    measures: Sequence[str] = (),  # settings of what is measured, as typed: measures.names=[lexical]
    statistics: Mapping[str, Any],
    command: str,
    say: Say,
) -> Published:
    """Measure and analyse replies that nobody asked for here, and keep them in a run folder."""
    from audit.configuration.composition import Composed, compose

    task = TASKS["reply"]
    settings = load_statistics(statistics)
    task.check_statistics(settings)
    made: list[Composed] = []
    compose(["task=reply", f"seed={seed}", *measures], made.append, say=say)
    config = made[0].validated()
    found = read_transcripts(replies, groups, columns=columns)
    manifest = found.manifest(command=command, seed=seed, model=model)
    manifest = _recording(manifest, settings, None)
    said = "matched" if found.matched else "not matched: adjusted for what is known of their messages"
    say(f"{replies}: {plural(len(found.rows), 'reply')} to {plural(found.n_groups, 'group')}, {said}")
    if found.n_untold:
        say(f"note: {plural(found.n_untold, 'reply')} left out: the messages before them tell no group, or several")
    with RunFolder(run_dir) as folder:
        _check_same(folder, manifest.identity.content)
        manifest = task.take(found, folder, manifest, config, say=say)
        folder.consolidate(say)
        return analysed(task, folder, manifest.complete(finished=now()))


def report_answers(
    answers: Path,  # one line of JSON a prompt, or a log of Inspect
    prompts: Path,  # the exported prompts, with the files beside them
    *,
    run_dir: Path | None,  # None: a name made from the model, the prompts and the answers
    model: str | None,  # nobody checks it; None: as the file says, else the file's name
    by: str,  # the tool
    settings: Mapping[str, Any],  # that differ from those exported with the prompts
    command: str,
    say: Say,
) -> Published:
    """Read answers that another tool collected for our exported prompts, and analyse them as a run."""
    export = Export.read(prompts)
    found = read_answers_file(
        answers, export=export.id, n_prompts=len(export.asked.grid), asked=lambda: messages_in(prompts)
    )
    plan = export.plan(model=model or found.model or answers.stem)
    statistics = load_statistics({**plan.config.statistics.model_dump(), **settings})
    covariates = _covariates_of(statistics)
    _check_formula(statistics, covariates)
    load_stereotypes(statistics.stereotypes)
    plan = replace(plan, config=plan.config.model_copy(update={"statistics": statistics}))
    config, task = plan.config, TASKS[plan.config.task.kind]
    task.check_statistics(statistics)
    task.check(plan)
    opened = answered_model(config.model.name, by or found.by, found, prompts_sha256=export.prompts_sha256)
    folder_name = default_run_dir(plan)
    path = run_dir or folder_name.with_name(f"{folder_name.name}-{found.sha256[:8]}")
    announce(plan, say)
    say(f"{answers}: {_said_of(found)}")
    for remark in found.remarks:
        say(f"note: {remark}")
    if model and found.model and found.model != model:
        say(f"note: {answers} names its model {found.model!r}; the report says model={model}, as you do")
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        _check_same(folder, opened.source.identity())
        manifest = task.collect(plan, folder, command=command, say=say, opened=opened)
        # The time to read a file is not the model's.
        manifest = _completed(manifest.having(timings={}), config, covariates, command=command, preset=export.preset)
        return _publish(task, folder, manifest, say)


def _said_of(answers: FileAnswers) -> str:
    """Summarise a file of answers."""
    counted = (
        (answers.n_absent, "without a line"),
        (answers.n_without, "with a line that has no answer"),
        (answers.n_repeated, "with a repeated line"),
        (answers.n_unsigned, "without a sign of being complete (finish_reason)"),
    )
    more = "; ".join(f"{count:,} {what}" for count, what in counted if count)
    return f"answers to {len(answers.texts):,} of {plural(answers.n_prompts, 'prompt')}{f'; {more}' if more else ''}"


def import_people(path: Path, files: Sequence[Path], *, form: str | None = None) -> tuple[Published, tuple[str, ...]]:
    """Import people's ratings into a run's folder and analyse it again; also return what was counted, in words."""
    which = form_of(path, form)
    found, counted = import_ratings(path, which, files)
    with RunFolder(path) as folder:
        folder.write_manifest(Manifest.read(path).having(**{FOLDERS[which]: found}))
    return report_run(path), counted


def consolidate_run(path: Path) -> None:
    """Merge the parts of each table of a finished run into one file with the same rows."""
    if Manifest.read(path).status != "complete":
        raise StoreError(f"{path} is not finished; run its command again, which merges the parts when it finishes")
    with RunFolder(path) as folder:
        folder.consolidate()


def _check_formula(
    statistics: AnalysisSettings, covariates: GroupCovariates | None, narratives: pd.DataFrame | None = None
) -> None:
    """Reject an unusable formula before anything slow begins."""
    if statistics.formula is None:
        if statistics.random is not None:
            raise ConfigError(
                f"statistics.random={statistics.random!r} is part of a formula; set statistics.formula too"
            )
        return
    from audit.statistics.covariates import FormulaCovariates
    from audit.statistics.own_model import check_own_model

    check_own_model(
        statistics.formula,
        fit=statistics.fit,
        random=statistics.random,
        cluster=statistics.cluster,
        covariates=FormulaCovariates(covariates, narratives),
    )
