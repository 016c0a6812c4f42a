"""The order of the stages of a comparison, and nothing else: run folders, gaps, differences, figures, one folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pandas as pd

from audit.choices import (
    choice_table,
    choices_of,
    differing_choices,
    elicitation_sets,
    engine_remarks,
    identity_of,
    label_runs,
    reference_runs,
    telling_choices,
)
from audit.config import fingerprint, load_statistics
from audit.errors import ConfigError, NotEstimableError
from audit.provenance import versions
from audit.reply_comparison import REPLY_SETTINGS, compare_replies, reply_choices
from audit.runs.manifest import ComparisonManifest, Manifest
from audit.store import ComparisonFolder, RunFolder
from audit.tables.base import dictionary
from audit.tables.comparison import RUNS
from audit.tables.ratings import Status
from audit.tables.registry import COMPARISON_TABLES
from audit.tables.shared import OVERALL
from audit.tasks.registry import task_of
from audit.wording import dimension_title, plural
from stimuli.stereotypes import Lexicon, load_stereotypes

if TYPE_CHECKING:
    from audit.statistics.across_runs import Measured

SETTINGS: Final = ("confidence", "margin", "n_permutations", "min_number_mass")
"""Settings of an analysis that a comparison has a use for."""
_DRAWN: Final = 60
"""Runs that a figure has room for; the tables have all of them."""
_ASIDE: Final = 7
"""Panels of a figure that stand side by side at most: the variants of the study."""
_PACKAGED: Final = "geneva"
"""Narratives that come with this package: an identifier is one text, whatever else was asked."""
_UNKNOWN: Final = "outside"
"""Stands for the texts of a table of ratings, which it does not hold."""
_Compared: TypeAlias = tuple[dict[str, bytes], pd.DataFrame, tuple[str, ...], dict[str, Any]]
"""The files of a comparison but the manifest, its gaps, its remarks, and what the manifest says of the runs."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison ended in.

    Attributes
    ----------
    path
        Its folder.
    page
        The rendered page.
    gap
        ``tables/gap.csv``, see :data:`audit.tables.comparison.COMPARED_GAP`; of runs of replies
        ``tables/measure_changes.csv``, see :data:`audit.tables.reply_comparison.MEASURE_CHANGES`.
    confidence
        Level of the intervals in ``gap``.
    remarks
        What a reader must know beside it, in plain words.
    compared_by
        What the runs' task is compared by: ``gaps`` or ``measures``.
    """

    path: Path
    page: Path
    gap: pd.DataFrame
    confidence: float
    remarks: tuple[str, ...]
    compared_by: str


@dataclass(frozen=True)
class _Run:
    """A run's folder with its manifest, and what was measured in one of its prompt variants."""

    folder: Path
    manifest: Manifest
    measured: Measured
    choices: Mapping[str, str]
    counts: Mapping[str, int]
    cost: Mapping[str, float]
    text_differences: Mapping[tuple[str, str], tuple[int, int]]
    ratings_sha256: str


def compare_folders(
    folders: Sequence[Path],
    *,
    out: Path | None,
    reports_dir: Path,
    defaults: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    command: str | None = None,
    left_out: Sequence[str] = (),
    say: Callable[[str], None],
) -> Comparison:
    """Put complete runs side by side in one page; nothing is written before all of it has succeeded.

    Parameters
    ----------
    folders
        The runs' folders, two or more. They are only read.
    out
        Where the comparison is kept; an earlier one there is replaced. None takes a name made of the runs' identities
        in ``reports_dir``.
    reports_dir
        Where such a folder lies.
    defaults
        Settings of the analysis that the first run did not record.
    settings
        Settings that take the place of the first run's; ``SETTINGS`` are those that there are, of runs of replies
        ``REPLY_SETTINGS``.
    command
        The command line that asked for it; None takes one that does.
    left_out
        Runs that were asked for and have come to nothing, in words.
    say
        Takes lines about progress.

    Raises
    ------
    StoreError
        If a folder is none of a run's, a run is not complete, or ``out`` holds anything but a comparison.
    ConfigError
        If there are fewer than two runs, one of them twice, they are of several tasks, or a setting can not be used.
    """
    manifests = {folder: Manifest.read(folder) for folder in _each_once(folders)}
    identities = _different_runs(manifests)
    compared_by = _compared_by(manifests)
    compare, known = _COMPARISONS[compared_by]
    used = _settings(next(iter(manifests.values())), defaults, settings or {}, known=known)
    path = out or reports_dir / f"comparison-{fingerprint({'runs': identities})[:8]}"
    target = ComparisonFolder(path)
    target.check()
    command = command or shlex.join(["python", "-m", "audit", "report", *map(str, folders), f"run_dir={path}"])
    command = _encodable(command)
    content, gap, remarks, facts = compare(manifests, used, command=command, left_out=left_out, say=say)
    with target:
        said = {
            "command": command,
            "runs": facts["runs"],
            "left_out": list(left_out),
            "settings": used,
            **({"stereotypes": facts["stereotypes"]} if "stereotypes" in facts else {}),
            "versions": versions(),
        }
        target.write_manifest(ComparisonManifest.of(said))
        for name in ("tables", "figures"):
            target.clear(name)
        for name, written in content.items():
            target.write_file(name, written)
    return Comparison(path, path / "comparison.html", gap, used["confidence"], remarks, compared_by)


def _compare_ratings(
    manifests: Mapping[Path, Manifest],
    used: Mapping[str, Any],
    *,
    command: str,
    left_out: Sequence[str],
    say: Callable[[str], None],
) -> _Compared:
    lexicon = _lexicon(manifests)
    runs: list[_Run] = []
    for folder, manifest in manifests.items():
        runs += _measure(folder, manifest, used, lexicon)
        say(f"{folder}: {plural(manifest.n_prompts, 'prompt')} read")
    labels = label_runs([run.choices for run in runs], [run.folder.name for run in runs])
    content, gap, remarks = _contents(dict(zip(labels, runs, strict=True)), used, command=command, left_out=left_out)
    facts = {
        "runs": [{"run": label, **_hashes(run)} for label, run in zip(labels, runs, strict=True)],
        "stereotypes": {"source": lexicon.source, "sha256": lexicon.sha256},
    }
    return content, gap, remarks, facts


def _compare_replies(
    manifests: Mapping[Path, Manifest],
    used: Mapping[str, Any],
    *,
    command: str,
    left_out: Sequence[str],
    say: Callable[[str], None],
) -> _Compared:
    choices = [reply_choices(manifest) for manifest in manifests.values()]
    labels = label_runs(choices, [folder.name for folder in manifests])
    by_label = dict(zip(labels, manifests.values(), strict=True))
    content, changes, remarks, runs = compare_replies(
        dict(zip(labels, manifests, strict=True)),
        by_label,
        dict(zip(labels, choices, strict=True)),
        used,
        remarks=tuple(_otherwise(by_label, used)),
        left_out=left_out,
        command=command,
        say=say,
    )
    hashes = [
        {"run": row["run"], "folder": _encodable(row["folder"]), "identity": row["identity"], "replies": row["replies"]}
        for row in runs
    ]
    return content, changes, remarks, {"runs": hashes}


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
    """Return the runs' identities, or refuse two folders of the same run."""
    seen: dict[str, Path] = {}
    for folder, manifest in manifests.items():
        identity = identity_of(manifest)
        if identity in seen:
            raise ConfigError(f"{seen[identity]} and {folder} hold the same run; give each run once")
        seen[identity] = folder
    return list(seen)


def _compared_by(manifests: Mapping[Path, Manifest]) -> str:
    """Return what is compared of runs of one task; ConfigError if they are of several, or nothing can be compared."""
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


_COMPARISONS: Final = {"gaps": (_compare_ratings, SETTINGS), "measures": (_compare_replies, REPLY_SETTINGS)}
"""By what a task is compared by: what makes the comparison, and the settings that it has a use for."""


def _settings(
    first: Manifest, defaults: Mapping[str, Any], settings: Mapping[str, Any], *, known: Sequence[str]
) -> dict[str, Any]:
    """Return the settings that all runs are analysed by."""
    unused = next((name for name in settings if name not in known), None)
    if unused is not None:
        raise ConfigError(f"statistics.{unused}: a comparison of runs has no use for it; it takes {', '.join(known)}")
    own = first.statistics.content
    validated = load_statistics({**defaults, **own, **settings, "formula": None, "random": None})
    return {name: getattr(validated, name) for name in known}


def _lexicon(manifests: Mapping[Path, Manifest]) -> Lexicon:
    """Return the stereotype words that all runs' texts are searched for: those of the first run that has any texts."""
    led = (manifest.statistics.stereotypes for manifest in manifests.values() if manifest.strategy.stages)
    return load_stereotypes(next(led, None))


def _measure(folder: Path, manifest: Manifest, used: Mapping[str, Any], lexicon: Lexicon) -> Iterator[_Run]:
    """Read a run, and keep what is small of each of its prompt variants."""
    from audit.conversations import emotions_of, stages_are_told
    from audit.measures.emotion import EmotionScorer, run_vocabulary
    from audit.statistics.across_runs import measure_run
    from audit.statistics.controls import Repetition
    from audit.statistics.costs import cost_of
    from audit.statistics.ratings import without_dimensions
    from audit.statistics.rows import Settings
    from audit.statistics.texts import count_differences, text_tables
    from audit.texts.scores import score_stages

    # Without its lock: a complete run does not change, and may lie where nothing can be written.
    stored = RunFolder(folder)
    ratings = stored.read_ratings(n_prompts=manifest.n_prompts)
    digest = stored.ratings_sha256()
    stages = stored.read_stages()
    cost = cost_of(ratings, stages, n_prompts=manifest.n_prompts, seconds=manifest.timings.seconds_per_prompt)
    read = None
    if len(stages) and not stages_are_told(manifest):
        read = EmotionScorer(run_vocabulary(ratings["emotion"].unique(), emotions_of(folder, manifest))).read
    repetition = Repetition(manifest.stems, manifest.placebo, manifest.cues)
    of_groups = without_dimensions(ratings, repetition.placebo)
    about = score_stages(stages, of_groups, lexicon=lexicon, read_emotions=read)
    written = text_tables(about, confidence=used["confidence"])["stage_texts"]
    counts = ratings[["variant", "status"]].value_counts().to_dict()
    scale = manifest.scale.low, manifest.scale.high
    for measured in measure_run(
        ratings, scale=scale, seed=manifest.seed, settings=Settings(**used), repetition=repetition
    ):
        yield _Run(
            folder=folder,
            manifest=manifest,
            measured=measured,
            choices=choices_of(manifest, variant=measured.variant),
            counts={str(status): counts.get((measured.variant, str(status)), 0) for status in Status},
            cost=cost,
            text_differences=count_differences(written, confidence=used["confidence"]),
            ratings_sha256=digest,
        )


def _hashes(run: _Run) -> dict[str, str]:
    return {"folder": _encodable(str(run.folder)), "identity": identity_of(run.manifest), "ratings": run.ratings_sha256}


def _encodable(text: str) -> str:
    """Return a text without what UTF-8 can not hold: names of folders may have bytes that are no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _run_row(label: str, run: _Run) -> dict[str, Any]:
    """Make a row of ``tables.RUNS``."""
    recorded = {
        "started": run.manifest.started,
        "version": run.manifest.versions.get("empathy-audit", ""),
        "command": run.manifest.command,
        "n_prompts": sum(run.counts.values()),
        **{f"n_{status}": number for status, number in run.counts.items()},
    }
    known = {"run": label, **run.choices, **recorded, **_hashes(run)}
    return {column: known[column] for column in RUNS}


def _contents(
    runs: Mapping[str, _Run], used: Mapping[str, Any], *, command: str, left_out: Sequence[str]
) -> tuple[dict[str, bytes], pd.DataFrame, tuple[str, ...]]:
    """Return the files of a comparison but the manifest, its gaps and its remarks."""
    from audit.figures.style import figure_bytes, figure_files
    from audit.report.comparison import render_comparison, strategy_names
    from audit.report.paper_table import paper_table, published_paper, strategies_paper
    from audit.statistics.across_runs import compare_runs, gap_table, specification_rows, strategy_rows

    measured = {label: run.measured for label, run in runs.items()}
    texts, remarks = _texts(runs)
    choices = {label: run.choices for label, run in runs.items()}
    references = reference_runs(choices)
    led = strategy_rows(
        measured,
        strategies={label: each["strategy"] for label, each in choices.items()},
        references=references,
        costs={label: run.cost for label, run in runs.items()},
        confidence=used["confidence"],
    )
    rows = {
        "runs": [_run_row(label, run) for label, run in runs.items()],
        "comparisons": list(compare_runs(measured, texts=texts, confidence=used["confidence"])),
        "specifications": list(specification_rows(measured)),
        "strategies": list(led),
        "controls": [{"run": label, **row} for label, each in measured.items() for row in each.controls],
    }
    tables = {name: pd.DataFrame(rows.get(name), columns=list(columns)) for name, columns in COMPARISON_TABLES.items()}
    tables["gap"] = gap_table(measured)
    sets = elicitation_sets(choices)
    tables |= _elicitation_tables(measured, sets, confidence=used["confidence"])
    clusters = _clusters(runs)
    tables |= _published_tables(runs)
    tables["perceiver_map"], unmapped = _perceiver_map(tables["published_cells"], runs, clusters)
    tables["strategies"] = _with_texts(tables["strategies"], runs)
    unseen = [choices[run]["elicitation"].partition(",")[0] == "expected" for run in tables["strategies"]["run"]]
    tables["strategies"].loc[unseen, "refusal_rate"] = float("nan")
    remarks = (*remarks, *_remarks(runs, used), *engine_remarks(choices, references))
    for own in sets:
        first, *others = own
        remarks = (*remarks, *engine_remarks(choices, dict.fromkeys(others, first)))
    told = choice_table(choices, differing_choices(list(choices.values())))
    drawn = _draw(tables, measured, told, used) | _draw_published(tables, choices, clusters)
    figures = {name: figure_bytes(figure, "svg") for name, figure in drawn.items()}
    named = choice_table(choices, telling_choices(list(choices.values())))
    paper = paper_table(tables["gap"], named, confidence=used["confidence"])
    worth = None
    if len(tables["strategies"]):
        names = strategy_names(tables["strategies"])
        worth = strategies_paper(tables["strategies"], names, confidence=used["confidence"])
    published = published_paper(tables["published"], tables["gap"], confidence=used["confidence"])
    page = render_comparison(
        tables=tables,
        figures=figures,
        paper=paper,
        worth=worth,
        published=published,
        unmapped=unmapped,
        remarks=remarks,
        left_out=left_out,
        confidence=used["confidence"],
        command=command,
    )
    content = {f"tables/{name}.csv": COMPARISON_TABLES[name].csv(table) for name, table in tables.items()}
    content["tables/dictionary.csv"] = dictionary(COMPARISON_TABLES.values())
    for name, figure in drawn.items():
        content |= figure_files(name, figure, figures[name])
    for name, pasted in (("table", paper), ("tables/strategies", worth), ("tables/published", published)):
        if pasted is not None:
            content |= {f"{name}.md": pasted.markdown().encode(), f"{name}.tex": pasted.latex().encode()}
    return content | {"comparison.html": page.encode()}, tables["gap"], remarks


def _elicitation_tables(
    measured: Mapping[str, Measured], sets: Sequence[Mapping[str, str]], *, confidence: float
) -> dict[str, pd.DataFrame]:
    """Set the elicitations of each set beside each other, dimension by dimension."""
    from audit.statistics.across_elicitations import elicitation_range, elicitation_rows

    made = [(own, list(elicitation_rows(measured, elicitations=own, confidence=confidence))) for own in sets]
    rows = pd.DataFrame([row for _, own in made for row in own], columns=list(COMPARISON_TABLES["elicitations"]))
    ranges = [
        elicitation_range(
            [row for row in found if row["dimension"] == dimension],
            scale=measured[next(iter(own))].scale,
            confidence=confidence,
        )
        for own, found in made
        for dimension in dict.fromkeys(row["dimension"] for row in found)
    ]
    return {
        "elicitations": rows,
        "elicitation_ranges": pd.DataFrame(ranges, columns=list(COMPARISON_TABLES["elicitation_ranges"])),
    }


def _clusters(runs: Mapping[str, _Run]) -> dict[str, dict[str, str]]:
    """Return the cultural cluster of each group, dimension by dimension; the first run's, where runs differ."""
    clusters: dict[str, dict[str, str]] = {}
    for run in runs.values():
        for dimension, own in run.manifest.clusters.items():
            clusters[dimension] = {**own, **clusters.get(dimension, {})}
    return clusters


def _published_tables(runs: Mapping[str, _Run]) -> dict[str, pd.DataFrame]:
    """Make the study's table, and the cells of its heatmaps, dimension by dimension."""
    measured = {label: run.measured for label, run in runs.items()}
    names = dict.fromkeys(row["dimension"] for each in measured.values() for row in each.published)
    rows = [
        {"run": label, "model": runs[label].choices["model"], "prompt": runs[label].choices["prompt"], **row}
        for name in names
        for label, each in measured.items()
        for row in each.published
        if row["dimension"] == name
    ]
    cells = [
        {"run": label, **row}
        for name in names
        for label, each in measured.items()
        for row in each.published_cells
        if row["dimension"] == name
    ]
    return {
        "published": pd.DataFrame(rows, columns=list(COMPARISON_TABLES["published"])),
        "published_cells": pd.DataFrame(cells, columns=list(COMPARISON_TABLES["published_cells"])),
    }


def _perceiver_map(
    cells: pd.DataFrame, runs: Mapping[str, _Run], clusters: Mapping[str, Mapping[str, str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Place each run's perceivers in the plane; the second part says where that could not be done, and why."""
    from audit.statistics.tsne import map_perceivers

    rows: list[dict[str, Any]] = []
    why: dict[tuple[str, str], list[str]] = {}
    for key, own in cells.groupby(["dimension", "run"], sort=False):
        dimension, label = map(str, key)
        known = {"run": label, "dimension": dimension}
        seed = runs[label].manifest.seed
        try:
            places = list(map_perceivers(own, clusters=clusters.get(dimension, {}), seed=seed))
        except NotEstimableError as error:
            why.setdefault((dimension, str(error)), []).append(label)
        else:
            rows += [known | row for row in places]
    said = [
        f"{dimension_title(dimension)} ({'all runs' if len(labels) == len(runs) else '; '.join(labels)}): {reason}."
        for (dimension, reason), labels in why.items()
    ]
    return pd.DataFrame(rows, columns=list(COMPARISON_TABLES["perceiver_map"])), said


def _draw_published(
    tables: Mapping[str, pd.DataFrame],
    choices: Mapping[str, Mapping[str, str]],
    clusters: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Draw the study's own figures: the grid of heatmaps, and the map of perceivers, of each dimension."""
    from audit.figures.perceiver_map import plot_perceiver_map
    from audit.figures.published_grid import plot_published_grid

    drawn: dict[str, Any] = {}
    if len(choices) > _DRAWN:
        return drawn
    cells, places = tables["published_cells"], tables["perceiver_map"]
    for dimension, own in cells.groupby("dimension", sort=False):
        columns = _panels_aside(choices, list(dict.fromkeys(own["run"])))
        if own["z"].notna().any():
            drawn[f"published-{dimension}"] = plot_published_grid(
                own, clusters=clusters.get(str(dimension)), n_columns=columns
            )
        placed = places.loc[places["dimension"] == dimension]
        if len(placed):
            columns = _panels_aside(choices, list(dict.fromkeys(placed["run"])))
            drawn[f"perceiver-map-{dimension}"] = plot_perceiver_map(placed, n_columns=columns)
    return drawn


def _panels_aside(choices: Mapping[str, Mapping[str, str]], labels: Sequence[str]) -> int | None:
    """Return how many panels stand side by side where runs are models by prompts, a line a model; else None."""
    pairs = [(choices[label]["model"], choices[label]["prompt"]) for label in labels]
    models, prompts = (list(dict.fromkeys(each)) for each in zip(*pairs, strict=True))
    crossed = pairs == [(model, prompt) for model in models for prompt in prompts]
    return len(prompts) if crossed and 1 < len(prompts) <= _ASIDE else None


def _with_texts(strategies: pd.DataFrame, runs: Mapping[str, _Run]) -> pd.DataFrame:
    """Say how much of what each strategy wrote differs between groups; over all dimensions, in each of them."""
    counts = [
        [
            sum(
                found[place]
                for (dimension, variant), found in runs[row["run"]].text_differences.items()
                if variant == runs[row["run"]].measured.variant
                and (dimension == row["dimension"] or (row["dimension"] == OVERALL and "+" not in dimension))
            )
            for place in (0, 1)
        ]
        for row in strategies.to_dict("records")
    ]
    n_tests, n_found = zip(*counts, strict=True) if counts else ((), ())
    return strategies.assign(n_text_tests=n_tests, n_text_differences=n_found)


def _draw(
    tables: Mapping[str, pd.DataFrame], runs: Mapping[str, Measured], told: pd.DataFrame, used: Mapping[str, Any]
) -> dict[str, Any]:
    """Draw what there is to draw: the gaps side by side, each dimension's curve, differences from the first run."""
    from audit.figures.forests import plot_comparisons, plot_gaps
    from audit.figures.specification import plot_specification
    from audit.figures.strategies import plot_strategies
    from audit.statistics.across_runs import in_one_unit

    drawn: dict[str, Any] = {}
    confidence = used["confidence"]
    gap, comparisons = tables["gap"], tables["comparisons"]
    scales = {label: each.scale for label, each in runs.items()}
    # Points of different scales are not drawn on one axis.
    if len(set(scales.values())) == 1 and len(runs) <= _DRAWN:
        drawn["gaps"] = plot_gaps(
            gap.assign(variant=gap["run"], headline=True), confidence=confidence, margin=used["margin"]
        )
    curves = tables["specifications"]
    for dimension in curves.loc[(curves["n_estimated"] > 1) & (curves["n_runs"] <= _DRAWN), "dimension"]:
        in_unit, unit = in_one_unit(gap.loc[gap["dimension"] == dimension], scales)
        curve = in_unit.rename(columns={"run": "label"}).join(told, on="label")
        drawn[f"specification-{dimension}"] = plot_specification(
            curve, unit="scale points" if unit == "points" else unit
        )
    of_first = comparisons.loc[(comparisons["first"] == next(iter(runs))) & comparisons["delta_change"].notna()]
    for of_unit, rows in of_first.iloc[: 2 * _DRAWN].groupby("unit", sort=True):
        drawn["comparisons" if of_unit == "points" else "comparisons-percent"] = plot_comparisons(
            rows.reset_index(drop=True), confidence=confidence
        )
    strategies = tables["strategies"]
    for dimension in strategies["dimension"].unique():
        rows = strategies.loc[strategies["dimension"] == dimension]
        if len(rows) <= _DRAWN and rows["delta"].notna().any():
            drawn[f"strategies-{dimension}"] = plot_strategies(
                rows.reset_index(drop=True), unit=str(rows["unit"].iloc[0]), confidence=confidence
            )
    return drawn


def _texts(runs: Mapping[str, _Run]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Say which narratives each run's identifiers stand for, and what was taken on trust.

    A table of another tool does not hold the texts. Its narratives count as those of a run of ours that has all of its
    identifiers with the same emotions, which is what prompts that were written for another tool come back as.
    """
    texts: dict[str, str] = {}
    for label, run in runs.items():
        source, digest = run.choices["narratives"], run.choices["texts"]
        texts[label] = _UNKNOWN if not digest else source if source == _PACKAGED else f"{source} {digest}"
    known = {label: run.measured.emotions for label, run in runs.items() if texts[label] != _UNKNOWN}
    trusted: dict[str, str] = {}
    for label, run in runs.items():
        if texts[label] == _UNKNOWN:
            own = run.measured.emotions.items()
            trusted[label] = next((other for other, theirs in known.items() if own <= theirs.items()), "")
    said = [
        f"The texts behind the narratives of {label} were not recorded; they are taken to be those of {other}, which "
        "has the same identifiers and emotions."
        for label, other in trusted.items()
        if other
    ]
    if sum(not other for other in trusted.values()) > 1:
        said.append(
            "The texts behind the narratives of outside ratings were not recorded: where two such runs have the same "
            "identifiers, they are taken to be the same narratives."
        )
    return texts | {label: texts[other] for label, other in trusted.items() if other}, tuple(said)


def _remarks(runs: Mapping[str, _Run], used: Mapping[str, Any]) -> Iterator[str]:
    """Say what limits the comparison."""
    from audit.report.sentences import LIMITS
    from audit.statistics.across_runs import same_dimensions

    measured = {label: run.measured for label, run in runs.items()}
    one_scale = len({each.scale for each in measured.values()}) == 1
    if not one_scale:
        yield "The runs have different scales: where they meet, δ is in % of the scale's length."
        if used["margin"] is not None:
            yield "The margin is in points of each run's own scale."
    if not same_dimensions(measured):
        yield (
            "The runs asked about different dimensions, so their means over all dimensions are not compared: they "
            "would be means of different things."
        )
    for dimension in dict.fromkeys(name for each in measured.values() for name in each.identities):
        asked = {label: each.identities[dimension] for label, each in measured.items() if dimension in each.identities}
        if dimension != OVERALL and len({tuple(map(frozenset, sides)) for sides in asked.values()}) > 1:
            yield (
                f"{dimension_title(dimension)}: the runs asked about different identities, so a difference between "
                "their δ may be one of the identities."
            )
    for code, (title, why) in LIMITS.items():
        limited = [label for label, each in measured.items() if code in {remark.code for remark in each.remarks}]
        if limited:
            yield f"{title} ({'all runs' if len(limited) == len(runs) else '; '.join(limited)}): {why}."
    yield from _otherwise({label: run.manifest for label, run in runs.items()}, used)


def _otherwise(manifests: Mapping[str, Manifest], used: Mapping[str, Any]) -> Iterator[str]:
    """Say which runs' own reports were made with other settings."""
    otherwise: dict[tuple[str, str], list[str]] = {}
    for label, manifest in manifests.items():
        own = manifest.statistics.content
        other = [name for name in used if name in own and own[name] != used[name]]
        if other:
            said = tuple(", ".join(f"{name} {_setting(of[name])}" for name in other) for of in (own, used))
            otherwise.setdefault((said[0], said[1]), []).append(label)
    for (there, here), labels in otherwise.items():
        yield f"Analysed here with {here}, in the own reports of these runs with {there}: {'; '.join(labels)}."


def _setting(value: Any) -> str:
    return "none" if value is None else f"{value:g}"
