"""The comparison of runs of replies: what was measured in each, by what, and what changes against a reference.

Of two runs a measure is compared only where the same scorer took it: the same model, files, template and lists. What
is not compared is said, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from audit.choices import (
    choice_table,
    choices_of,
    engine_remarks,
    identity_of,
    reference_runs,
    short,
    telling_choices,
)
from audit.config import fingerprint
from audit.errors import StoreError
from audit.measures.choose import CORPORA
from audit.measures.outcomes import OUTCOMES
from audit.provenance import Difference, first_difference
from audit.report.words import TaskWords
from audit.runs.manifest import Manifest
from audit.store import RunFolder
from audit.tables.base import Table, dictionary
from audit.tables.registry import REPLY_COMPARISON_TABLES
from audit.tables.replies import ReplyStatus
from audit.tables.reply_comparison import (
    COMPARED_MEASURE_CONTROLS,
    COMPARED_MEASURES,
    MEASURE_GAP_ALL,
    REPLY_RUNS,
)
from audit.tasks.registry import task_of
from audit.wording import dimension_title, plural

if TYPE_CHECKING:
    from audit.statistics.measures import Measured
    from audit.statistics.measures_across import RepliesOfRun

REPLY_SETTINGS: Final = ("confidence", "n_permutations")
"""Settings of an analysis that a comparison of runs of replies has a use for."""
_DRAWN: Final = 40
"""Figures at most; the tables have all changes."""
_PACKAGED: Final = "geneva"
"""Narratives that come with this package: an identifier is one text, whatever else was asked."""
_NO_REFERENCE: Final = (
    "no run of strategy none has the same model, files of it, prompt, narratives, kind of reply, seed and identities"
)


@dataclass(frozen=True)
class _Run:
    """A run's folder with its manifest, its replies, and what was measured of them, by what."""

    folder: Path
    manifest: Manifest
    replies: pd.DataFrame
    table: pd.DataFrame
    measured: tuple[Measured, ...]
    taken: Mapping[str, Mapping[str, Any]]
    cost: Mapping[str, float]


def reply_choices(manifest: Manifest) -> dict[str, str]:
    """Return a run's choices as :func:`audit.choices.choices_of`; in place of an elicitation, what a reply may be."""
    task = manifest.task
    kind = f"{task.max_tokens} tokens, temperature {task.temperature:g}"
    if task.temperature and task.top_p != 1:
        kind += f", top p {task.top_p:g}"
    return choices_of(manifest, variant=manifest.prompt.variant) | {"elicitation": kind}


def compare_replies(
    folders: Mapping[str, Path],
    manifests: Mapping[str, Manifest],
    choices: Mapping[str, Mapping[str, str]],
    used: Mapping[str, Any],
    *,
    remarks: Sequence[str],
    left_out: Sequence[str],
    command: str,
    say: Callable[[str], None],
) -> tuple[dict[str, bytes], pd.DataFrame, tuple[str, ...], list[dict[str, Any]]]:
    """Put complete runs of replies side by side.

    Parameters
    ----------
    folders, manifests, choices
        By label: where each run is, which is only read; its manifest; and its choices, see :func:`reply_choices`.
    used
        Values of ``REPLY_SETTINGS``.
    remarks
        What is known to limit the comparison, in words.
    left_out
        Runs that were asked for and have come to nothing, in words.
    command
        The command line that makes it.
    say
        Takes lines about progress.

    Returns
    -------
    tuple
        The files of the comparison but its manifest; ``tables.MEASURE_CHANGES``; what a reader must know beside
        it, in words; and rows of ``tables.REPLY_RUNS``.

    Raises
    ------
    StoreError
        If a run is not complete, or not all of its replies are scored.
    """
    from audit.statistics.controls import Repetition
    from audit.statistics.conversations import told_apart_by
    from audit.statistics.costs import cost_rows
    from audit.statistics.measures_across import RepliesOfRun, change_rows
    from audit.statistics.rows import Settings

    read: dict[str, _Run] = {}
    for label, folder in folders.items():
        read[label] = _read(folder, manifests[label])
        say(f"{folder}: {plural(manifests[label].n_prompts, 'prompt')} read")
    read = _with_same_outcomes(read)
    runs = {
        label: RepliesOfRun.of(
            run.replies,
            run.measured,
            seed=run.manifest.seed,
            settings=Settings(**used),
            conversation_of=told_apart_by(run.manifest.stimuli.source),
            repetition=Repetition(run.manifest.stems, run.manifest.placebo, run.manifest.cues),
        )
        for label, run in read.items()
    }
    references, reasons, on_references = _references(choices)
    measures = pd.concat(
        [_measure_rows(label, run, references.get(label, ""), read, reasons) for label, run in read.items()],
        ignore_index=True,
    )
    compared = measures.loc[measures["compared"]]
    changes = change_rows(
        runs,
        references=references,
        comparable={label: compared.loc[compared["run"] == label, "measure"].tolist() for label in references},
        texts={label: _texts(each) for label, each in choices.items()},
        confidence=used["confidence"],
    )
    scored = measures.loc[measures["status"] == "scored"]  # an absent scorer may have a measure's name
    units = dict(zip(scored["measure"], scored["unit"], strict=True))
    strategies = {label: each["strategy"] for label, each in choices.items()}
    costs = cost_rows(runs, references=references, costs={label: run.cost for label, run in read.items()})
    rows = {
        "runs": [_run_row(label, run, choices[label]) for label, run in read.items()],
        "measure_changes": [
            row | {"strategy": strategies[row["run"]], "unit": units[row["measure"]]} for row in changes
        ],
        "reply_costs": [row | {"strategy": strategies[row["run"]]} for row in costs],
    }
    tables = {
        name: pd.DataFrame(rows.get(name), columns=list(columns)) for name, columns in REPLY_COMPARISON_TABLES.items()
    }
    tables |= {"measures": measures, "measure_gap_all": _all(runs, "gaps", MEASURE_GAP_ALL)}
    tables["measure_controls"] = _all(runs, "controls", COMPARED_MEASURE_CONTROLS)
    said = (*on_references, *remarks, *_remarks(read, runs, references), *engine_remarks(choices, references))
    told = choice_table(choices, telling_choices(list(choices.values()))).rename(columns={"elicitation": "generation"})
    words = task_of(next(iter(manifests.values()))).words
    assert words is not None
    content = _files(
        tables,
        told,
        words=words,
        used=used,
        remarks=said,
        left_out=left_out,
        command=command,
    )
    return content, tables["measure_changes"], said, rows["runs"]


def _read(folder: Path, manifest: Manifest) -> _Run:
    """Read a complete run; StoreError if prompts or scores are missing."""
    from audit.measured import measures_of
    from audit.statistics.costs import cost_of

    # Without its lock: a complete run does not change, and may lie where nothing can be written.
    stored = RunFolder(folder)
    replies = stored.read("replies", n_prompts=manifest.n_prompts)
    shards = stored.shards("replies")
    unscored = next((name for name in manifest.scorers if shards - stored.scored(name)), None)
    if unscored is not None or manifest.status != "complete":
        missing = f"{unscored} has not scored all of its replies" if unscored else "it is not scored to the end"
        raise StoreError(f"{folder} is not finished: {missing}; give its command again, which goes on from there")
    table, measured = measures_of(manifest, replies, stored.read_scores())
    asked = replies.assign(n_prompt_tokens=replies["n_prompt_tokens"].where(replies["n_prompt_tokens"] > 0))
    return _Run(
        folder=folder,
        manifest=manifest,
        replies=replies,
        table=table,
        measured=tuple(measured),
        taken=_taken(manifest),
        cost=cost_of(
            asked, stored.read_stages(), n_prompts=manifest.n_prompts, seconds=manifest.timings.seconds_per_prompt
        ),
    )


def _taken(manifest: Manifest) -> dict[str, Mapping[str, Any]]:
    """Return by measure all that its numbers depend on beside the replies."""
    return {
        measure["name"]: {"asked": taken.asked, "facts": taken.facts.content, "measure": measure}
        for taken in manifest.scorers.values()
        for measure in taken.measures
    }


def _with_same_outcomes(runs: Mapping[str, _Run]) -> dict[str, _Run]:
    """Give every run the outcomes that any run's replies show: 0 for every reply that did not fail."""
    from audit.statistics.measures import Measured

    names = [measure.name for measure in OUTCOMES.values()]
    rows = {
        row["measure"]: row
        for run in runs.values()
        for row in run.table.loc[run.table["measure"].isin(names)].to_dict("records")
    }
    given: dict[str, _Run] = {}
    for label, run in runs.items():
        lacking = [name for name in names if name in rows and name not in {each.name for each in run.measured}]
        answered = run.replies.loc[run.replies["status"] != ReplyStatus.FAILED.value, "prompt_index"].to_numpy()
        none = pd.Series(0.0, index=answered)
        n = {"n_replies": len(answered), "n_scored": len(answered), "mean": 0.0, "sd": 0.0}
        scored = [run.table, pd.DataFrame([rows[name] | n for name in lacking], columns=list(run.table))]
        given[label] = _Run(
            **{
                **vars(run),
                "table": pd.concat(scored, ignore_index=True) if lacking else run.table,
                "measured": (*run.measured, *(Measured(name, values=none) for name in lacking)),
            }
        )
    return given


def _references(
    choices: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Return which run each is compared with, why others are not, and what a reader must know of that.

    Where strategies differ it is the run without one that differs in nothing else, else the first run.
    """
    led = reference_runs(choices)
    first, *others = choices
    if not any(led.values()):
        said = f"No run of strategy none differs from another in its strategy alone: all are compared with {first}."
        return dict.fromkeys(others, first), {}, (said,) if led else ()
    found = {label: reference for label, reference in led.items() if reference}
    reasons = {label: _NO_REFERENCE for label, reference in led.items() if not reference}
    idle = [label for label in choices if label not in led and label not in found.values()]
    reasons |= {label: "it leads by no strategy, and no run that does has the same other choices" for label in idle}
    return found, reasons, tuple(f"{label} is not compared: {why}." for label, why in reasons.items())


def _texts(choices: Mapping[str, str]) -> str:
    """Say which narratives a run's identifiers stand for."""
    source = choices["narratives"]
    return source if source == _PACKAGED else f"{source} {choices['texts']}"


def _measure_rows(
    label: str, run: _Run, reference: str, runs: Mapping[str, _Run], reasons: Mapping[str, str]
) -> pd.DataFrame:
    """Make rows of ``tables.COMPARED_MEASURES``: each measure of a run, and whether it is compared."""
    rows = []
    for row in run.table.to_dict("records"):
        name = str(row["measure"])
        there = row["status"] == "scored"
        note = str(row["note"])
        if there and reference and not set(run.replies["dimension"]) & set(runs[reference].replies["dimension"]):
            note = f"{label} and {reference} have no dimension in common"
        elif there and reference:
            note = _why_not(name, run, runs[reference], reference)
        elif there:
            note = reasons.get(label, "")
        known = {
            "run": label,
            "scorer_sha256": fingerprint(run.taken.get(name, {"measure": name})) if there else "",
            "reference": reference,
            "compared": bool(there and reference and not note),
            "note": note,
        }
        of_both = {**{str(column): value for column, value in row.items()}, **known}
        rows.append({column: of_both[column] for column in COMPARED_MEASURES})
    rows += _not_asked_for(label, run, reference, runs[reference]) if reference else []
    return pd.DataFrame(rows, columns=list(COMPARED_MEASURES)).astype({"compared": bool})


def _not_asked_for(label: str, run: _Run, reference: str, other: _Run) -> list[dict[str, Any]]:
    """Make rows of what the reference has and the run neither has nor names as absent."""
    there = {each.name for each in run.measured}
    absent = set(run.table.loc[run.table["status"] == "absent", "measure"])
    named = {name for scorer, names in _scorers(other).items() if scorer in absent for name in names}
    lacking = other.table.loc[(other.table["status"] == "scored") & ~other.table["measure"].isin(there | named)]
    blank: dict[str, Any] = {"n_replies": run.table["n_replies"].max(), "n_scored": 0, "mean": np.nan, "sd": np.nan}
    blank |= {"run": label, "scorer": "", "status": "absent", "scorer_sha256": "", "reference": reference}
    blank |= {"compared": False, "note": f"its scorer was not asked for, as it was in {reference}"}
    shown = lacking[["measure", "title", "unit", "better"]].to_dict("records")
    return [{**blank, **{str(name): value for name, value in row.items()}} for row in shown]


def _why_not(name: str, run: _Run, reference: _Run, label: str) -> str:
    """Say why a measure of a run is not compared with the reference's; empty where it is."""
    if name not in {each.name for each in reference.measured}:
        absent = reference.table.loc[reference.table["status"] == "absent", "measure"]
        scorer = next((key for key, taken in _scorers(run).items() if name in taken), name)
        why = "is absent" if scorer in set(absent) else "was not asked for"
        return f"{label} has no such measure: its scorer {why}"
    own, other = run.taken.get(name, {}), reference.taken.get(name, {})
    if own == other:
        return ""
    found = first_difference(other, own)
    if found is None:  # the reference's has a setting more
        more = first_difference(own, other)
        assert more is not None
        found = Difference(more.setting, there=more.here, here=more.there)
    there, here = ("not there" if value is None else short(repr(value)) for value in (found.there, found.here))
    return f"taken by another scorer than in {label}, where {found.setting} is {there}, and here {here}"


def _scorers(run: _Run) -> dict[str, set[str]]:
    """Return by scorer the names of its measures."""
    own = {scorer: {measure["name"] for measure in taken.measures} for scorer, taken in run.manifest.scorers.items()}
    return own | {"diversity": {measure.name for measure in CORPORA.values()}}


def _all(runs: Mapping[str, RepliesOfRun], table: str, columns: Table) -> pd.DataFrame:
    """Put a table of all runs under each other."""
    tables = [getattr(run, table).assign(run=label)[list(columns)] for label, run in runs.items()]
    filled = [each for each in tables if len(each)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=list(columns))


def _run_row(label: str, run: _Run, choices: Mapping[str, str]) -> dict[str, Any]:
    """Make a row of ``tables.REPLY_RUNS``."""
    status = run.replies["status"].astype(str)
    known = {
        "run": label,
        "folder": str(run.folder),
        **choices,
        "generation": choices["elicitation"],
        "n_prompts": len(run.replies),
        **{f"n_{each}": int((status == each.value).sum()) for each in ReplyStatus},
        "started": run.manifest.started,
        "version": run.manifest.versions.get("empathy-audit", ""),
        "command": run.manifest.command,
        "identity": identity_of(run.manifest),
        "replies": fingerprint({"status": status.tolist(), "text": run.replies["text"].tolist()}),
    }
    return {column: known[column] for column in REPLY_RUNS}


def _remarks(
    read: Mapping[str, _Run], runs: Mapping[str, RepliesOfRun], references: Mapping[str, str]
) -> Iterator[str]:
    """Say what limits the comparison."""
    from audit.measured import reply_remarks

    for label, reference in references.items():
        own, other = (set(runs[name].single_dimensions) for name in (label, reference))
        if own != other:
            yield (
                f"{label} and {reference} asked about different dimensions: what they share is compared, and not the "
                "means over all dimensions."
            )
    for dimension in dict.fromkeys(name for run in runs.values() for name in run.dimensions):
        asked = {
            tuple(frozenset(run.between(dimension)[side].astype(str)) for side in ("perceiver", "experiencer"))
            for run in runs.values()
            if dimension in run.dimensions
        }
        if len(asked) > 1:
            yield (
                f"{dimension_title(dimension)}: the runs asked about different identities, so a difference between "
                "their δ may be one of the identities."
            )
    n_rated = [label for label, run in read.items() if RunFolder(run.folder).has_people()]
    if n_rated:
        yield (
            f"Scores by people are not compared: who rated what differs from run to run ({'; '.join(n_rated)}). The "
            "runs' own reports have them."
        )
    said: dict[tuple[str, str], list[str]] = {}
    for label, run in read.items():
        for remark in reply_remarks(run.replies, run.manifest):
            said.setdefault((remark.dimension, remark.text), []).append(label)
    for (dimension, text), labels in said.items():
        where = "all runs" if len(labels) == len(read) else "; ".join(labels)
        yield f"{f'{dimension_title(dimension)}, ' if dimension else ''}{where}: {text}"


def _files(
    tables: Mapping[str, pd.DataFrame],
    told: pd.DataFrame,
    *,
    words: TaskWords,
    used: Mapping[str, Any],
    remarks: Sequence[str],
    left_out: Sequence[str],
    command: str,
) -> dict[str, bytes]:
    """Draw, render, and return all files but the manifest."""
    from audit.figures.style import figure_bytes, figure_files
    from audit.report.reply_comparison import changes_paper, render_reply_comparison

    drawn = _draw(tables, confidence=used["confidence"])
    figures = {name: figure_bytes(figure, "svg") for name, figure in drawn.items()}
    paper = changes_paper(tables, told, confidence=used["confidence"])
    page = render_reply_comparison(
        tables=tables,
        figures=figures,
        paper=paper,
        words=words,
        remarks=remarks,
        left_out=left_out,
        confidence=used["confidence"],
        command=command,
    )
    content = {f"tables/{name}.csv": REPLY_COMPARISON_TABLES[name].csv(table) for name, table in tables.items()}
    content["tables/dictionary.csv"] = dictionary(REPLY_COMPARISON_TABLES.values())
    for name, figure in drawn.items():
        content |= figure_files(name, figure, figures[name])
    content |= {"table.md": paper.markdown().encode("utf-8", "replace")}
    content |= {"table.tex": paper.latex().encode("utf-8", "replace")}
    return content | {"comparison.html": page.encode()}


def _draw(tables: Mapping[str, pd.DataFrame], *, confidence: float) -> dict[str, Any]:
    """Draw each run's changes against its reference, dimension by dimension."""
    from audit.figures.measure_changes import plot_measure_changes

    changes = tables["measure_changes"]
    scored = tables["measures"].loc[tables["measures"]["status"] == "scored"]
    titles = dict(zip(scored["measure"], scored["title"], strict=True))
    places = {label: place for place, label in enumerate(tables["runs"]["run"], start=1)}
    drawn: dict[str, Any] = {}
    for (dimension, label), own in changes.groupby(["dimension", "run"], sort=False):
        in_sd = own[["change_sd", "mean_sd"]].to_numpy(dtype=np.float64)
        if np.isfinite(in_sd).any() and len(drawn) < _DRAWN:
            drawn[f"changes-{dimension}-{places[label]}"] = plot_measure_changes(
                own.reset_index(drop=True), titles, confidence=confidence
            )
    return drawn
