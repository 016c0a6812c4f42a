"""The order of the stages, and nothing else: stimuli, prompts, engine, ratings, statistics, figures, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.config import AuditConfig, StatisticsConfig, load_statistics
from audit.conversations import explorer_of, prompt_records
from audit.errors import ConfigError, StoreError
from audit.outside import describe_outside, read_outside
from audit.plan import Plan, labels, make_plan
from audit.provenance import (
    check_same_run,
    default_run_dir,
    describe_run,
    first_difference,
    model_identity,
    now,
    plan_difference,
)
from audit.schema import Status
from audit.store import SCHEMA_VERSION, RunFolder, read_manifest
from audit.wording import plural
from stimuli.narratives import emotion_valence
from stimuli.prompts import Prompt, PromptCell, PromptGrid
from stimuli.stereotypes import lexicon_of, load_stereotypes
from stimuli.strategies import strategy_values

if TYPE_CHECKING:
    from audit.elicitation.base import Elicitation
    from audit.engines.open import OpenModel
    from audit.statistics.remarks import Remark

_WRITTEN: Final = ("text", "status", "n_prompt_tokens", "n_tokens", "n_dropped")
"""Columns of ``schema.STAGES`` that a later stage needs."""
ENGINE_LOG: Final = "engine.log"
"""The file of the run folder that takes what the model's library prints while it loads."""

Say = Callable[[str], None]
"""Takes a line about progress."""


@dataclass(frozen=True)
class Outcome:
    """What a run ended in.

    Attributes
    ----------
    run_dir
        The run's folder.
    report
        The rendered report.
    gap
        ``tables/gap.csv``; see :data:`audit.schema.GAP`.
    confidence
        Level of the intervals in ``gap``.
    remarks
        What a reader must know beside it, in plain words.
    """

    run_dir: Path
    report: Path
    gap: pd.DataFrame
    confidence: float
    remarks: tuple[Any, ...]


def run_audit(
    config: AuditConfig, *, command: str, preset: str = "defaults", job: int | None = None, say: Say
) -> Outcome:
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
    plan = make_plan(config)
    grid, strategy = plan.grid, plan.strategy
    path = default_run_dir(plan)
    if config.run_dir is not None:
        path = config.run_dir if job is None else config.run_dir / path.name
    narratives = grid.narratives
    led = f", strategy {strategy.name} ({len(strategy.stages) + 1} calls a prompt)" if strategy.stages else ""
    say(
        f"{config.model.name}, prompt {grid.variant.name}{led}: {len(narratives.narratives):,} of "
        f"{narratives.n_available:,} narratives ({narratives.source}) x {grid.n_pairs:,} pairs of identities in "
        f"{', '.join(d.name for d in grid.dimensions)} = {len(grid):,} prompts"
    )
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        manifest = _earlier_manifest(plan, folder)
        if manifest is not None and _missing_shards(manifest, folder) == []:
            say(f"all {len(grid):,} prompts are there already; analysing")
        else:
            manifest = _elicit(plan, folder, manifest, command=command, say=say)
        # Statistics may differ between analyses of the same ratings; the command shown is the one that asked for them.
        manifest["config"]["statistics"] = config.statistics.model_dump(mode="json")
        manifest |= {"command": command, "preset": preset}
        manifest = {"finished": now(), **manifest, "status": "complete"}
        folder.write_manifest(manifest)
        return _analyse(folder, manifest)


def report_run(
    path: Path, *, defaults: Mapping[str, Any], settings: Mapping[str, Any] | None = None, command: str = ""
) -> Outcome:
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
        If a setting can not be used.
    """
    manifest = read_manifest(path)
    earlier = manifest["config"]["statistics"]
    statistics = load_statistics({**defaults, **earlier, **(settings or {})})
    _check_formula(statistics)
    with RunFolder(path) as folder:
        manifest = read_manifest(path)
        manifest["config"]["statistics"] = statistics.model_dump(mode="json")
        if settings:
            manifest["report_command"] = command
        return _analyse(folder, manifest)


def report_outside(
    ratings: Path,
    groups: Path,
    run_dir: Path,
    *,
    low: float,
    high: float,
    model: str | None,
    seed: int,
    statistics: Mapping[str, Any],
    command: str,
    say: Say,
) -> Outcome:
    """Analyse ratings that another tool collected, and keep them in a run folder.

    Parameters
    ----------
    ratings, groups
        The table of ratings, and the one that says which group each term belongs to; see :mod:`audit.outside`.
    run_dir
        Where the run is kept; the same files may be analysed there again.
    low, high
        The ends of the rating scale, in points.
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
        If a file can not be read, or the folder holds another run.
    ConfigError
        If the tables or a setting can not be used.
    """
    settings = load_statistics(statistics)
    _check_formula(settings)
    outside = read_outside(ratings, groups, low=low, high=high)
    manifest = describe_outside(outside, command=command, seed=seed, model=model)
    manifest["config"]["statistics"] = settings.model_dump(mode="json")
    say(f"{ratings}: {len(outside.ratings):,} ratings on a scale from {low:g} to {high:g}")
    with RunFolder(run_dir) as folder:
        earlier = folder.read_manifest()
        if earlier is not None:
            check_same_run(first_difference(earlier.get("identity", {}), manifest["identity"]), run_dir)
        else:
            folder.write_shard(0, outside.ratings)
        return _analyse(folder, manifest)


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
        ``calibration.csv`` in the run's folder, and what it holds; see :data:`audit.schema.CALIBRATION`.

    Raises
    ------
    StoreError
        If the folder is none of a run's, or the run is not complete.
    """
    from tqdm import tqdm

    from audit.statistics.calibration import calibrate_ratings

    manifest = read_manifest(path)
    statistics = load_statistics({**defaults, **manifest["config"]["statistics"]})
    with RunFolder(path) as folder:
        ratings = folder.read_ratings(n_prompts=manifest["n_prompts"])
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
            )
        return folder.write_file("calibration.csv", table.to_csv(index=False).encode()), table


def _check_formula(statistics: StatisticsConfig) -> None:
    """Refuse a formula that can not be used, before anything long begins."""
    if statistics.formula is None:
        if statistics.random is not None:
            raise ConfigError(f"statistics.random={statistics.random!r} is part of a formula; give statistics.formula")
        return
    from audit.statistics.own_model import check_own_model

    check_own_model(statistics.formula, fit=statistics.fit, random=statistics.random, cluster=statistics.cluster)


def _earlier_manifest(plan: Plan, folder: RunFolder) -> dict[str, Any] | None:
    manifest = folder.read_manifest()
    if manifest is not None:
        check_same_run(plan_difference(manifest["identity"], plan), folder.path)
    elif folder.shards():
        raise StoreError(f"{folder.path} has ratings but no manifest.json; name another run_dir")
    return manifest


def _missing_shards(manifest: dict[str, Any], folder: RunFolder) -> list[int]:
    n_shards = -(-manifest["n_prompts"] // manifest["shard_size"])
    return sorted(set(range(n_shards)) - folder.shards())


def _elicit(plan: Plan, folder: RunFolder, earlier: dict[str, Any] | None, *, command: str, say: Say) -> dict[str, Any]:
    """Load the model, do the shards that are missing, and return the run's manifest."""
    # Imported here: torch, transformers and vLLM take seconds, and a complete run needs none of them.
    from audit.engines.open import choose_engine, open_model
    from audit.strategies.given import give, values_of

    config = plan.config
    engine_name = choose_engine(config.engine)
    if config.engine.name == "auto" and engine_name == "transformers":
        say("vLLM is not installed, so the transformers engine takes over (slower)")
    given = folder.read_given() if earlier is not None else []
    brought: dict[str, Any] = {}
    if plan.strategy.brings and not given:
        given, brought = give(plan, say=say)
        if earlier is not None and brought["given_sha256"] != earlier["strategy"].get("given_sha256"):
            raise StoreError(
                f"{folder.path}/given.parquet is gone, and what would be brought now is not what the first prompts "
                "were shown; name another run_dir"
            )
        folder.write_given(given)
    say(f"loading {config.model.path} by {engine_name}, which reports to {folder.path / ENGINE_LOG} ...")
    clock = time.perf_counter()
    with folder.output_in(ENGINE_LOG):
        model = open_model(config.model, config.engine, seed=config.seed)
    load_s = time.perf_counter() - clock
    facts = model.engine.facts
    say(f"{facts.name} {facts.version} on {facts.device}, {facts.dtype}; elicitation: {config.elicitation_method}")
    if earlier is None:
        first = next(prompt_records(plan, given))
        example = {name: value for name, value in first.items() if name in ("system", "turns", "user")}
        manifest = describe_run(plan, model, example=example, given=brought, command=command)
    else:
        check_same_run(first_difference(earlier["identity"], model_identity(model)), folder.path)
        manifest = earlier
    manifest["n_sessions"] += 1
    folder.write_manifest(manifest)

    clock = time.perf_counter()
    n_prompts = _elicit_shards(_elicitation(config, plan.grid), plan, values_of(given), model, folder, manifest)
    elicit_s = time.perf_counter() - clock
    manifest["timings"] = {
        "load_s": load_s,
        "elicit_s": elicit_s,
        "n_prompts": n_prompts,
        "prompts_per_s": n_prompts / elicit_s,
    }
    return manifest


def _elicitation(config: AuditConfig, grid: PromptGrid) -> Elicitation:
    from audit.elicitation.expected import ExpectedElicitation
    from audit.elicitation.generate import GenerateElicitation

    if config.elicitation_method == "expected":
        return ExpectedElicitation(grid.variant.scale, config.elicitation.max_pruned_points)
    return GenerateElicitation(grid.variant.scale, config.elicitation.max_tokens, config.elicitation.parser)


def _elicit_shards(
    elicitation: Elicitation,
    plan: Plan,
    given: Mapping[str, Mapping[str, str]],
    model: OpenModel,
    folder: RunFolder,
    manifest: dict[str, Any],
) -> int:
    """Do the shards that are missing, stage by stage, and return how many prompts that were."""
    from tqdm import tqdm

    from audit.elicitation.base import Elicited

    grid, size = plan.grid, manifest["shard_size"]
    missing = {
        number: range(number * size, min((number + 1) * size, len(grid)))
        for number in _missing_shards(manifest, folder)
    }
    n_missing = sum(map(len, missing.values()))
    with tqdm(total=len(grid), initial=len(grid) - n_missing, unit="prompt", file=sys.stderr, smoothing=0.1) as bar:
        for number, places in missing.items():
            cells = grid[places.start : places.stop]
            asked = [strategy_values(grid, cell, given) for cell in cells]
            prompts = _lead(plan, cells, asked, elicitation.room, model, folder, number, bar.set_postfix_str)
            whole = [prompt for prompt, _ in filter(None, prompts)]
            answers = iter(elicitation.elicit(model.engine, whole) if whole else [])
            rows = []
            for cell, prompt in zip(cells, prompts, strict=True):
                outcome = Elicited(Status.FAILED) if prompt is None else next(answers)
                n_dropped = None if prompt is None else prompt[1]
                rows.append(_row(cell, asdict(outcome) | {"n_dropped": n_dropped}, grid.variant.name))
            folder.write_shard(number, rows)
            bar.update(len(cells))
    return n_missing


def _lead(
    plan: Plan,
    cells: Sequence[PromptCell],
    asked: Sequence[Mapping[str, str]],
    room: int,
    model: OpenModel,
    folder: RunFolder,
    shard: int,
    show: Say,
) -> list[tuple[Prompt, int] | None]:
    """Ask the stages of one shard that have not been asked, and return the prompts that ask for its ratings.

    Beside each prompt stands how many examples and earlier calls it had to leave out.
    """
    from audit.strategies.run import Written, final_prompts, run_stage

    strategy, seed = plan.strategy, plan.config.seed
    places = [cell.index for cell in cells]
    earlier: list[list[Written]] = []
    for number, stage in enumerate(strategy.stages):
        show(stage.name)
        kept = folder.read_stage(shard, number)
        if kept is None:
            model.engine.forget()
            written = run_stage(strategy, number, model.engine, asked=asked, earlier=earlier, places=places, seed=seed)
            kept = [
                {"prompt_index": place, "stage": stage.name, **asdict(each)}
                for place, each in zip(places, written, strict=True)
            ]
            folder.write_stage(shard, number, kept)
        earlier.append([Written(**{field: row[field] for field in _WRITTEN}) for row in kept])
    model.engine.forget()
    return final_prompts(strategy, model.engine, asked=asked, earlier=earlier, room=room)


def _row(cell: PromptCell, outcome: dict[str, Any], variant: str) -> dict[str, object]:
    dimension = cell.dimension
    return {
        "prompt_index": cell.index,
        **labels(cell, variant),
        "perceiver_group": cell.perceiver.group,
        "experiencer_group": cell.experiencer.group,
        "in_group": dimension.in_group(cell.perceiver, cell.experiencer),
        "n_shared": dimension.n_shared(cell.perceiver, cell.experiencer),
        # NaN is how Python says missing; the table has nulls.
        **{key: None if value != value else value for key, value in outcome.items()},
        "status": str(outcome["status"]),
    }


def _analyse(folder: RunFolder, manifest: dict[str, Any]) -> Outcome:
    """Analyse and render; nothing is written, not even the manifest, before all of it has succeeded."""
    from audit.figures.gallery import draw_figures
    from audit.figures.style import figure_bytes, figure_files
    from audit.report.render import render_report
    from audit.schema import data_dictionary
    from audit.statistics.analysis import analyse
    from audit.statistics.calls import call_table
    from audit.statistics.rows import Settings
    from audit.statistics.texts import text_tables, texts_remarks
    from audit.texts.scores import score_stages

    manifest = {"schema_version": SCHEMA_VERSION, **manifest}
    unfinished = manifest.get("status") == "running"
    ratings = folder.read_ratings(n_prompts=manifest["n_prompts"], unfinished=unfinished)
    counts = ratings["status"].value_counts()
    manifest["counts"] = {str(status): int(counts.get(str(status), 0)) for status in Status} | {"total": len(ratings)}
    low, high = manifest["scale"]["low"], manifest["scale"]["high"]
    settings = manifest["config"]["statistics"]
    clusters = manifest.get("clusters", {})
    analysis = analyse(
        ratings,
        scales={str(variant): (low, high) for variant in ratings["variant"].unique()},
        seed=manifest["seed"],
        settings=Settings(**{name: value for name, value in settings.items() if name != "stereotypes"}),
        valence=emotion_valence(),
        clusters=clusters,
    )
    stages = folder.read_stages()
    lexicon = lexicon_of(settings if len(stages) else {})
    if len(stages):
        manifest["stereotypes"] = {"source": lexicon.source, "sha256": lexicon.sha256}
    on_texts = text_tables(score_stages(stages, ratings, lexicon=lexicon), confidence=settings["confidence"])
    tables = {**analysis.tables, "calls": call_table(ratings, stages), **on_texts}
    remarks = (
        *_remarks_on_run(manifest, ratings),
        *analysis.remarks,
        *texts_remarks(on_texts["stage_texts"], confidence=settings["confidence"]),
    )
    drawn = draw_figures(
        tables,
        low=low,
        high=high,
        confidence=settings["confidence"],
        margin=settings["margin"],
        clusters=clusters,
    )
    figures = {name: figure_bytes(figure, "svg") for name, figure in drawn.items()}
    html = render_report(
        manifest=manifest,
        tables=tables,
        figures=figures,
        remarks=remarks,
        explorer=explorer_of(manifest, ratings, tables, stages=stages, given=folder.read_given()),
    )
    folder.write_manifest(manifest)
    for name in ("tables", "figures"):
        folder.clear(name)
    for name, table in tables.items():
        folder.write_file(f"tables/{name}.csv", table.to_csv(index=False).encode())
    folder.write_file("tables/dictionary.csv", pd.DataFrame(data_dictionary()).to_csv(index=False).encode())
    for name, figure in drawn.items():
        for file, content in figure_files(name, figure, figures[name]).items():
            folder.write_file(file, content)
    report = folder.write_file("report.html", html.encode())
    return Outcome(folder.path, report, tables["gap"], settings["confidence"], remarks)


def _remarks_on_run(manifest: Mapping[str, Any], ratings: pd.DataFrame) -> Iterator[Remark]:
    """Say what the run has not asked yet, and what the table of another tool leaves open."""
    from audit.statistics.remarks import Remark

    def on_run(code: str, text: str) -> Remark:
        return Remark(dimension="", variant="", code=code, text=text)

    n_missing = manifest["n_prompts"] - len(ratings)
    if n_missing:
        begun = set(map(str, ratings["dimension"].unique()))
        untouched = [name for name in manifest["dimensions"] if name not in begun]
        nothing = f", and none of {', '.join(untouched)}" if untouched else ""
        yield on_run(
            "unfinished",
            f"{len(ratings):,} of {manifest['n_prompts']:,} prompts have been asked{nothing}; the run's command, given "
            "again, asks the others.",
        )
    n_empty = manifest.get("strategy", {}).get("knowledge", {}).get("n_empty", 0)
    if n_empty:
        yield on_run(
            "knowledge_empty",
            f"COMET inferred nothing for {plural(n_empty, 'relation')} of narratives: prompts show a blank there.",
        )
    n_unexplained = manifest["counts"]["unparseable"]
    if not manifest.get("outside", {}).get("status_given", True) and n_unexplained:
        yield on_run(
            "missing_unexplained",
            f"The table of ratings does not say why {n_unexplained:,} ratings are missing: they count as unparseable, "
            "and the refusal gap is not known. A column `status` would tell.",
        )
