"""The first screens of comparisons: between which runs the answer differs, by how much, and what does not follow."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from audit.comparing.page import BESIDES, DIFFERING, counted_alike
from audit.comparing.pair_answers import (
    COMPARABLE,
    FOUND,
    SIDES,
    PairAnswer,
    delta_answer,
    group_answer,
    headline,
    measure_answer,
    next_step,
    strategy_answer,
)
from audit.report.disparities import DISPARITY_IN_SHORT
from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.summary import (
    EVERY_PART,
    NO_GROUPS,
    NO_LARGER,
    NOT_IN_ITSELF,
    NOT_THE_GROUPS,
    SIDE,
    THESE_WORDS,
    WORDS_DIFFER,
    ShortAnswer,
    Summary,
    summary,
)
from audit.report.verdicts import Step, not_in_a_part, tallied
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import OF_GROUPS_AND_MODELS, dimension_title, listed, magnitude, plural
from audit.tables.gap import NO_PERCEIVERS
from audit.tasks.task_words import TaskWords

NOT_OF_A_SERIES: Final = (
    "that other models of this series, or of another, follow its line",
    "why a gap changes along it: its models differ in more than their place",
)
MEANING_OF_CHANGES: Final = Markup(
    "<strong>The gap δ</strong>: how much higher people of the model’s own group are rated than others. {}."
).format(DISPARITY_IN_SHORT)
_RUNS_NAMED: Final = 8


def summary_of_runs(results: Results, *, along: Sequence[ShortAnswer] = (), along_plainly: str = "") -> Summary:
    """Write the first screen of a comparison of ratings: how the runs differ in each dimension, by stored codes.

    ``along`` is what changes along a series of runs, ``along_plainly`` the same in a sentence; it stands first.
    """
    runs, gaps, strategies = (results.rows(name) for name in ("runs", "gap", "strategies"))
    names, judged = strategy_names(strategies), results.rows("verdicts")
    alone = without_perceivers(gaps)
    answers: list[PairAnswer] = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in gaps):
        changes = results.rows("disparity_changes", dimension=dimension)
        rated, refused = ([row for row in changes if (row["outcome"] == REFUSALS) is which] for which in (False, True))
        tail = SIDE if rated else ""
        if dimension not in alone:
            led = results.rows("strategies", dimension=dimension)
            answers.append(
                strategy_answer(led, names, judged, tail=tail, confidence=results.confidence)
                if any(row["code"] for row in led)
                else _of_pairs(results, judged, dimension, tail)
            )
        if rated:
            answers.append(group_answer(rated, dimension=dimension, confidence=results.confidence))
        if any(row["code"] in FOUND for row in refused):  # as on a run's page, only what is found is told
            answers.append(group_answer(refused, dimension=dimension, confidence=results.confidence))
    n_without = len({str(row["run"]) for row in gaps if has_no_perceiver(row)})
    return summary(
        Markup("Each of {} asked a model {} to rate how strongly they felt; {}.").format(
            plural(len(runs), "run"), _asked(n_without, len(runs)), say_differences(runs)
        ),
        [*along, *(each.short for each in answers)],
        [],
        not_concluded=[
            *_left_open([*results.rows("comparisons"), *strategies, *results.rows("disparity_changes")], judged),
            *(NOT_OF_A_SERIES if along else ()),
            "which run's ratings are right",
            OF_GROUPS_AND_MODELS,
        ],
        source=sources_of(runs),
        chosen_by=f"{'trends first, then ' if along else ''}how many differences were found",
        step=_of_runs(next_step(answers), judged, n_runs=len(runs)),
        headline=along_plainly or headline(answers),
        meaning=MEANING_OF_CHANGES if any(row["dimension"] not in alone for row in gaps) else DISPARITY_IN_SHORT + ".",
    )  # fmt: skip


def _of_runs(step: Step, judged: Sequence[PlacedRow], *, n_runs: int) -> Step:
    """Add to a step which runs it is for, if their check failed: the others need none."""
    failed = dict.fromkeys(str(row["run"]) for row in judged if row["next_step"] == step.code == "other_model")
    if not failed or len(failed) == n_runs:
        return step
    words = Markup("{} ({} of {} runs: {})").format(step, len(failed), n_runs, _named(failed))
    return Step.of(step.code, words)


def _of_pairs(results: Results, verdicts: Sequence[PlacedRow], dimension: str, tail: str) -> PairAnswer:
    if rows := results.rows("comparisons", dimension=dimension):
        return delta_answer(rows, verdicts, dimension=dimension, tail=tail, confidence=results.confidence)
    none = ShortAnswer(dimension_title(dimension), "No two runs have a gap", kind="absent", tail=tail, question="side")
    return PairAnswer(none, COMPARABLE, SIDES, why="no two have a gap of this dimension")


def _left_open(changes: Sequence[PlacedRow], verdicts: Sequence[PlacedRow] = ()) -> Iterator[str | Markup]:
    """Yield what differences between runs leave open, by their codes and claims, and which runs have no verdict."""
    codes, claims = ({str(row[name]) for row in changes} for name in ("code", "claim"))
    if {*FOUND} & codes:
        yield "that a gap nearer to 0 is less bias"
    if {"not_shown", "undecided"} & codes:
        yield "that runs are alike where no difference is shown"
    if "no_verdict" in codes:  # a difference alone may have no estimate
        without = dict.fromkeys(str(row["run"]) for row in verdicts if row["code"] == "no_verdict")
        named = Markup(" ({})").format(_named(without)) if without else Markup("")
        yield Markup("anything from runs without a verdict{}").format(named)
    for claim, words in (("uncontrolled", NOT_THE_GROUPS), ("pairs", THESE_WORDS), ("words", WORDS_DIFFER)):
        if claim in claims:
            yield words


def has_no_perceiver(gap: PlacedRow) -> bool:
    """Whether a run gave the model no group's identity, so that there is no δ."""
    return str(gap["note"]) == NO_PERCEIVERS


def without_perceivers(gaps: Sequence[PlacedRow]) -> frozenset[str]:
    """Return the dimensions in which no run gave the model a group's identity."""
    asked = {str(row["dimension"]) for row in gaps if not has_no_perceiver(row)}
    return frozenset(str(row["dimension"]) for row in gaps) - asked


def _asked(n_without: int, n_runs: int) -> str:
    if not n_without:
        return "to speak as one person, to read accounts by people of the same and of other groups, and"
    if n_without == n_runs:
        return "without giving it an identity, to read accounts by people of several groups, and"
    return "to speak as one person, or gave it no identity, to read accounts by people of several groups, and"


def strategy_names(strategies: Sequence[PlacedRow]) -> dict[str, str]:
    """Return each run's name on the page: its strategy if that is unique, else its label."""
    strategy = {str(row["run"]): str(row["strategy"]) for row in strategies}
    return strategy if len(set(strategy.values())) == len(strategy) else {run: run for run in strategy}


def say_differences(runs: Sequence[PlacedRow]) -> str:
    """Say which choices the runs differ in."""
    for choices in (DIFFERING, BESIDES):
        differ = [words for name, words in choices.items() if len({str(row[name]) for row in runs if name in row}) > 1]
        if differ:
            return f"they differ in {listed(list(dict.fromkeys(differ)))}"
    return "they differ in nothing that was recorded of how they were asked"


def sources_of(runs: Sequence[PlacedRow]) -> Markup:
    """Name the runs that a printed page is about."""
    return Markup("Runs: {}.").format(_named([str(row["run"]) for row in runs]))


def _named(runs: Collection[str]) -> Markup:
    """List runs, the first ones by name; a name may have commas."""
    more = [f"{len(runs) - _RUNS_NAMED} more"] if len(runs) > _RUNS_NAMED else []
    return Markup("; ").join([*(Markup("<bdi>{}</bdi>").format(run) for run in list(runs)[:_RUNS_NAMED]), *more])


def left_open_by(verdicts: Sequence[PlacedRow]) -> Iterator[str]:
    """Yield what runs' verdicts leave open, by control, scope and parts, even if they find a gap or rule one out."""
    found = [row for row in verdicts if row["code"] == "gap"]
    ruled_out = [row for row in verdicts if row["code"] == "within" or row["size"] == "smaller"]
    for words, holds in (
        (NO_GROUPS, any("controls_disagree" in str(row["reasons"]) for row in verdicts)),
        (NOT_THE_GROUPS, any(row["control"] == "none" for row in found)),
        (NO_LARGER, any(row["control"] == "none" for row in ruled_out)),
        (NOT_IN_ITSELF, any(row["control"] == "placebo" for row in ruled_out)),
        (THESE_WORDS, any(row["scope"] == "pairs" for row in (*found, *ruled_out))),
        (EVERY_PART, any(not_in_a_part(row) for row in ruled_out)),
    ):
        if holds:
            yield words


def counted_verdicts(verdicts: Sequence[PlacedRow]) -> Markup:
    """Count the runs' verdicts in one dimension, in the words of the runs' own pages."""
    order = ("no_verdict", "no_estimate", "gap", "within", "undecided")
    ordered = sorted(verdicts, key=lambda row: (order.index(row["code"]), row.number("direction")))
    return counted_alike(tallied(row)[1] for row in ordered)


def summary_of_changes(results: Results, titles: Mapping[str, str], *, words: TaskWords) -> Summary:
    """Write the first screen of a comparison of replies; ``titles`` names each measure."""
    runs, changes = results.rows("runs"), results.rows("measure_changes")
    of_groups = results.rows("measure_disparity_changes")
    answers: list[PairAnswer] = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in changes):
        own = [row for row in changes if row["dimension"] == dimension]
        less = [row for row in of_groups if row["dimension"] == dimension]
        answers.append(
            measure_answer(
                own,
                titles,
                results.rows("verdicts"),
                dimension=dimension,
                tail=SIDE if less else "",
                confidence=results.confidence,
            )
        )
        if less:
            answers.append(group_answer(less, dimension=dimension, confidence=results.confidence, titles=titles))
    sized = [row for row in changes if row["code"] in FOUND and math.isfinite(row.number("change_sd"))]
    size = Markup("")
    if sized:
        row = max(sized, key=lambda each: abs(each.number("change_sd")))
        size = Markup(
            "the largest change that is shown, of {} in {}, is {} times the spread (SD) of that measure over the {} of "
            "<bdi>{}</bdi>."
        ).format(
            titles[row["outcome"]], dimension_title(str(row["dimension"])),
            show(row, "change_sd", magnitude), words.texts, row["reference"],
        )  # fmt: skip
    return summary(
        Markup("Each of {} asked a model to speak as one person and to {}; {}.").format(
            plural(len(runs), "run"), words.to.format(words.about[1]), say_differences(runs)
        ),
        [each.short for each in answers],
        [("How big", size)],
        not_concluded=[*_left_open([*changes, *of_groups]), words.no_better, OF_GROUPS_AND_MODELS],
        source=sources_of(runs),
        chosen_by="how many changes were found",
        step=next_step(answers),
        headline=headline(answers),
    )
