"""The comparison of runs of replies: the measures of each run, their scorers, and the changes against a reference.

A measure of two runs is compared only if the same scorer took it: the same model, files, template and lists. The page
says what is not compared, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from audit.comparing.base import ComparedRun, Differences, RunsCompared, texts_of, which
from audit.comparing.tables import COMPARED_MEASURES, REPLY_COMPARISON_TABLES
from audit.errors import ConfigError, StoreError
from audit.runs.differences import choice_table, choices_of, reference_runs, short, telling_choices, thinking_of
from audit.runs.manifest import Manifest
from audit.runs.provenance import Difference, first_setting_difference
from audit.runs.store import RunFolder
from audit.tables.formatting import dimension_title
from audit.tables.people_of_replies import PEOPLE_SCORES
from audit.tables.ratings import ASKED_AGAIN
from audit.tables.replies import SCORES, ReplyStatus
from audit.tables.stages import STAGES
from audit.tasks.measures.outcomes import OUTCOMES
from audit.tasks.registry import task_of
from audit.tasks.reply.scoring import read_scores, score_counts
from audit.tasks.reply.verdict_limits import limits_of_measures, unscored_remarks
from stimuli.hashes import fingerprint

if TYPE_CHECKING:
    from audit.comparing.run_gaps import ReplyGaps
    from audit.statistics.outcome import Outcome
    from audit.statistics.verdict import Limits

_DRAWN: Final = 40
"""Most figures; the tables have all changes."""
_NO_REFERENCE: Final = (
    "no run of strategy none has the same model, files of it, prompt, narratives, kind of reply, seed and identities"
)


@dataclass(frozen=True, kw_only=True)
class WrittenRun(ComparedRun):
    """A run's replies and their measures.

    ``replies`` has columns of ``tables.REPLIES``, ``table`` those of ``tables.MEASURES``; ``taken`` is all that a
    measure's numbers depend on besides the replies, and ``limits`` what limits verdicts besides the numbers.
    """

    gaps: ReplyGaps | None = None
    replies: pd.DataFrame
    table: pd.DataFrame
    outcomes: tuple[Outcome, ...]
    taken: Mapping[str, Mapping[str, Any]]
    limits: Limits


class ReplyComparison(RunsCompared[WrittenRun]):
    """Compares runs of replies."""

    described, collected = REPLY_COMPARISON_TABLES, "replies"
    settings = ("confidence", "n_permutations", "min_number_mass", "power")

    def read(self, folder: Path) -> list[WrittenRun]:  # noqa: D102
        from audit.comparing.costs import cost_of
        from audit.tasks.reply.measure_values import measures_of
        from audit.tasks.reply.story_check import story_codes

        manifest = self.manifests[folder]
        if manifest.outside.replies:
            raise ConfigError(f"{folder} has replies read from a file, and such runs are not compared; leave it out")
        # No lock: a complete run does not change, and may lie in a read-only place.
        stored = RunFolder(folder)
        replies = stored.read("replies", n_prompts=manifest.n_prompts)
        shards = stored.shards("replies")
        unscored = next((name for name in manifest.scorers if shards - stored.parts(SCORES, name).numbers()), None)
        if unscored is not None or manifest.status != "complete":
            missing = f"{unscored} has not scored all of its replies" if unscored else "it is not scored to the end"
            raise StoreError(f"{folder} is not finished: {missing}; give its command again to continue it")
        counted = {name: score_counts(stored, name) for name in manifest.scorers}
        stages, again = stored.parts(STAGES).frame(), stored.table(ASKED_AGAIN).frame()
        table, outcomes = measures_of(manifest, replies, read_scores(stored), counted, stages=stages, again=again)
        checked = task_of(manifest).check_stories(stored, manifest, replies, confidence=self.used.confidence)
        followed, unanswered = checked
        codes = {*story_codes(followed, manifest), *(remark.code for remark in unscored_remarks(manifest, stored))}
        asked = replies.assign(n_prompt_tokens=replies["n_prompt_tokens"].where(replies["n_prompt_tokens"] > 0))
        status = replies["status"].astype(str)
        run = WrittenRun(
            folder=folder,
            manifest=manifest,
            choices=reply_choices(manifest),
            counts={each.value: int((status == each.value).sum()) for each in ReplyStatus},
            cost=cost_of(
                asked,
                stages,
                n_prompts=manifest.n_prompts,
                seconds=manifest.timings.seconds_per_prompt,
            ),
            sha256=fingerprint({"status": status.tolist(), "text": replies["text"].tolist()}),
            replies=replies,
            table=table,
            outcomes=tuple(outcomes),
            taken=_taken(manifest),
            limits=limits_of_measures(
                manifest,
                table,
                codes,
                unanswered,
                min_number_mass=self.used.min_number_mass,
            ),
        )
        return [run]

    def analysed(self, runs: Mapping[str, WrittenRun]) -> Mapping[str, WrittenRun]:  # noqa: D102
        from audit.comparing.run_gaps import gaps_of_replies
        from audit.statistics.controls import Repetition
        from audit.statistics.conversations import told_apart_by

        found = {}
        for label, run in _with_same_outcomes(runs).items():
            of = run.manifest
            gaps = gaps_of_replies(
                run.replies,
                run.outcomes,
                seed=of.seed,
                settings=self.used,
                conversation_of=told_apart_by(of.stimuli.source),
                repetition=Repetition(of.stems, of.placebo, of.cues, of.pairs_drawn),
            )
            own = {each.name for each in runs[label].outcomes}
            verdicts = tuple(row for row in gaps.verdicts(run.limits) if row["outcome"] in own)
            found[label] = replace(run, gaps=gaps, verdicts=verdicts)
        return found

    def compare(self, runs: Mapping[str, WrittenRun], choices: Mapping[str, Mapping[str, str]]) -> Differences:  # noqa: D102
        from audit.comparing.changes import measure_change_rows
        from audit.comparing.costs import cost_rows
        from audit.comparing.decided import sides_of, with_answers
        from audit.comparing.disparity_changes import measure_disparity_change_rows
        from audit.comparing.paper_table import changes_paper
        from audit.comparing.reply_page import reply_page

        confidence = self.used.confidence
        gaps = {label: run.gaps for label, run in runs.items() if run.gaps is not None}
        references, reasons, on_references = _references(choices)
        measures = pd.concat(
            [_measure_rows(label, run, references.get(label, ""), runs, reasons) for label, run in runs.items()],
            ignore_index=True,
        )
        compared = measures.loc[measures["compared"]]
        comparable = {label: compared.loc[compared["run"] == label, "measure"].tolist() for label in references}
        texts = {label: texts_of(each) for label, each in choices.items()}
        changes = measure_change_rows(
            gaps, references=references, comparable=comparable, texts=texts, confidence=confidence
        )
        costs = cost_rows(gaps, references=references, costs={label: run.cost for label, run in runs.items()})
        led = {label: {"strategy": each["strategy"]} for label, each in choices.items()}
        tables = self.tables(
            runs,
            gap=[{"run": label, **row} for label, each in gaps.items() for row in each.gap],
            measure_changes=with_answers(
                (row | led[row["run"]] for row in changes),
                sides_of(runs),
                first="run",
                second="reference",
                confidence=confidence,
            ),
            measure_disparity_changes=measure_disparity_change_rows(
                gaps,
                {label: each.disparity_within(runs[label].limits) for label, each in gaps.items()},
                references=references,
                comparable=comparable,
                texts=texts,
                confidence=confidence,
            ),
            reply_costs=[row | led[row["run"]] for row in costs],
        ) | {"measures": measures}
        tables["runs"]["generation"] = [each["elicitation"] for each in choices.values()]
        told = choice_table(choices, telling_choices(list(choices.values())))
        paper = changes_paper(
            tables["measure_changes"], told.rename(columns={"elicitation": "generation"}), confidence=confidence
        )
        words = task_of(next(iter(runs.values())).manifest).words
        assert words is not None
        return Differences(
            tables,
            references,
            (*on_references, *_remarks(runs, gaps, references)),
            {"table": paper},
            partial(reply_page, words=words),
            partial(_draw, tables, confidence=confidence),
        )


def reply_choices(manifest: Manifest) -> dict[str, str]:
    """Return a run's choices, with the sampling of replies in place of an elicitation."""
    task = manifest.task
    kind = f"{task.max_tokens} tokens, temperature {task.temperature:g}"
    if task.temperature and task.top_p != 1:
        kind += f", top p {task.top_p:g}"
    sampled = kind + thinking_of(manifest)
    return choices_of(manifest, variant=manifest.prompt.variant) | {"elicitation": sampled, "briefly": sampled}


def _taken(manifest: Manifest) -> dict[str, Mapping[str, Any]]:
    """Return all that each measure's numbers depend on besides the replies."""
    return {
        measure["name"]: {"asked": taken.asked, "facts": taken.facts.content, "measure": measure}
        for taken in manifest.scorers.values()
        for measure in taken.measures
    }


def _with_same_outcomes(runs: Mapping[str, WrittenRun]) -> dict[str, WrittenRun]:
    """Add absent status measures as 0 for every reply that did not fail, so that runs have equal measures."""
    from audit.statistics.outcome import Outcome

    names = [measure.name for measure in OUTCOMES.values()]
    rows = {
        row["measure"]: row
        for run in runs.values()
        for row in run.table.loc[run.table["measure"].isin(names)].to_dict("records")
    }
    given: dict[str, WrittenRun] = {}
    for label, run in runs.items():
        lacking = [name for name in names if name in rows and name not in {each.name for each in run.outcomes}]
        answered = run.replies.loc[run.replies["status"] != ReplyStatus.FAILED.value, "prompt_index"].to_numpy()
        none = pd.Series(0.0, index=answered)
        n = {"n_replies": len(answered), "n_scored": len(answered), "mean": 0.0, "sd": 0.0}
        scored = [run.table, pd.DataFrame([rows[name] | n for name in lacking], columns=list(run.table))]
        shown = (Outcome(name, unit=rows[name]["unit"], values=none) for name in lacking)
        table = pd.concat(scored, ignore_index=True) if lacking else run.table
        given[label] = replace(run, table=table, outcomes=(*run.outcomes, *shown))
    return given


def _references(
    choices: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Return each run's reference, why other runs have none, and remarks on both.

    If strategies differ, the reference is the run without a strategy that differs in nothing else; otherwise the first
    run.
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


def _measure_rows(
    label: str, run: WrittenRun, reference: str, runs: Mapping[str, WrittenRun], reasons: Mapping[str, str]
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


def _not_asked_for(label: str, run: WrittenRun, reference: str, other: WrittenRun) -> list[dict[str, Any]]:
    """Make rows for the reference's measures that the run neither has nor reports as absent."""
    there = {each.name for each in run.outcomes}
    absent = set(run.table.loc[run.table["status"] == "absent", "measure"])
    named = {name for scorer, names in _scorers(other).items() if scorer in absent for name in names}
    lacking = other.table.loc[(other.table["status"] == "scored") & ~other.table["measure"].isin(there | named)]
    blank: dict[str, Any] = {"n_replies": run.table["n_replies"].max(), "n_scored": 0, "mean": np.nan, "sd": np.nan}
    blank |= {"run": label, "scorer": "", "status": "absent", "scorer_sha256": "", "reference": reference}
    blank |= {"compared": False, "note": f"its scorer was not asked for, as it was in {reference}"}
    shown = lacking[["measure", "title", "unit", "better"]].to_dict("records")
    return [{**blank, **{str(name): value for name, value in row.items()}} for row in shown]


def _why_not(name: str, run: WrittenRun, reference: WrittenRun, label: str) -> str:
    """Say why a measure is not compared with the reference's; empty if it is."""
    if name not in {each.name for each in reference.outcomes}:
        absent = reference.table.loc[reference.table["status"] == "absent", "measure"]
        scorer = next((key for key, taken in _scorers(run).items() if name in taken), name)
        why = "is absent" if scorer in set(absent) else "was not asked for"
        return f"{label} has no such measure: its scorer {why}"
    own, other = run.taken.get(name, {}), reference.taken.get(name, {})
    if own == other:
        return ""
    found = first_setting_difference(other, own)
    if found is None:  # the reference has one more setting
        more = first_setting_difference(own, other)
        assert more is not None
        found = Difference(more.setting, there=more.here, here=more.there)
    there, here = ("not there" if value is None else short(repr(value)) for value in (found.there, found.here))
    return f"taken by another scorer than in {label}, where {found.setting} is {there}, and here {here}"


def _scorers(run: WrittenRun) -> dict[str, set[str]]:
    """Return the names of each scorer's measures."""
    return {scorer: {measure["name"] for measure in taken.measures} for scorer, taken in run.manifest.scorers.items()}


def _remarks(
    read: Mapping[str, WrittenRun], runs: Mapping[str, ReplyGaps], references: Mapping[str, str]
) -> Iterator[str]:
    """Yield what limits the comparison."""
    from audit.tasks.reply.measure_values import reply_remarks

    for label, reference in references.items():
        own, other = (set(runs[name].single_dimensions) for name in (label, reference))
        if own != other:
            yield (
                f"{label} and {reference} asked about different dimensions: what they share is compared, and not the "
                "means over all dimensions."
            )
    n_rated = [label for label, run in read.items() if RunFolder(run.folder).table(PEOPLE_SCORES).exists()]
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
        yield f"{f'{dimension_title(dimension)}, ' if dimension else ''}{which(labels, read)}: {text}"


def _draw(tables: Mapping[str, pd.DataFrame], *, confidence: float) -> dict[str, Any]:
    """Draw each run's changes against its reference, by dimension."""
    from audit.report.figures.measure_changes import plot_measure_changes

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
