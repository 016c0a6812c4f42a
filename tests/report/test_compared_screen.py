"""The first screens of comparisons, on planted runs for which each sentence is true, or false."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from judged import words_of
from markupsafe import Markup
from planted import grouped, ratings_of, refused
from test_comparison_page import run_row
from test_replies_page import replies_of

from audit.comparing.base import ComparisonContent
from audit.comparing.changes import (
    compare_runs,
    compared_gap_table,
    measure_change_rows,
    specification_rows,
    strategy_rows,
)
from audit.comparing.decided import sides_of, with_answers
from audit.comparing.first_screen import _of_runs, say_differences, summary_of_changes, summary_of_runs
from audit.comparing.paper_table import changes_paper
from audit.comparing.reply_page import _answer, reply_page
from audit.comparing.run_gaps import RatingGaps, ReplyGaps, gaps_of_ratings, gaps_of_replies
from audit.comparing.tables import COMPARISON_TABLES, MEASURE_CHANGES, REPLY_COMPARISON_TABLES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.numbers import PlacedRow, rows_of
from audit.report.results import Results
from audit.report.summary import NOT_THE_GROUPS, THESE_WORDS, Summary
from audit.report.verdicts import Step
from audit.runs.outside import read_outside
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.statistics.verdict import Limits
from audit.tables.formatting import OF_GROUPS_AND_MODELS
from audit.tasks.reply.task import ReplyWriting

SETTINGS = AnalysisSettings(n_permutations=100)
ALIKE = "that runs are alike where no difference is shown"
SILENT = "anything from runs without a verdict"
NEARER = "that a gap nearer to 0 is less bias"
REAL = {f"{word} {name}": name for name in ("Hindu", "Muslim", "Sikh", "Jain", "Jew") for word in ("a", "my dear")}
INVENTED = {f"a {name}": name for name in ("Veltan", "Dorrish", "Kessari")}
COSTS = dict.fromkeys(
    ("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens", "shortened_share", "seconds"), 1.0
)


def written(screen: Summary) -> str:
    """Return a first screen as text, as the page has it."""
    said = [screen.asked]
    for each in screen.findings:
        said += [f"{each.title}{each.tail}", each.verdict, each.number, each.unit, each.spread]
    said += [screen.left_out, f"What next: {screen.step}"]
    said += [*(f"{what}: {words}" for what, words in screen.lines), screen.source]
    text = re.sub(r"</?(data|bdi|strong)\b[^>]*>", "", " ".join(map(str, said)))
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).replace("\N{NO-BREAK SPACE}", " ").split())


@cache
def measured(
    *gaps: float, n=25, seed=0, gone=False, lost=0.0, silent=0, more=0.0, placebo: float | None = None, controlled=True
):  # fmt: skip
    """Measure a run with these gaps of its dimensions; of invented groups, if asked, with one of their own."""
    names = ("religion",) if len(gaps) == 1 else [f"d{place}" for place in range(len(gaps))]
    told = {**dict(zip(names, gaps, strict=True)), **({} if placebo is None else {"invented": placebo})}
    parts = [
        ratings_of(
            INVENTED if name == "invented" else REAL,
            n=n,
            gap=lambda emotion, group, gap=gap: gap,
            sd=1.0,
            seed=seed + place,
        ).assign(dimension=name)
        for place, (name, gap) in enumerate(told.items())
    ]
    ratings = pd.concat(parts)
    first = ratings["narrative_id"].str[1:].astype(int) < 2
    if more:  # so many points more for the own group in the first two narratives, which `silent` ones refuse
        own = ratings["perceiver"].map(REAL) == ratings["experiencer"].map(REAL)
        ratings["rating"] += more * (first & own)
    if silent:
        ratings = refused(ratings, ratings["narrative_id"].str[1:].astype(int) < silent)
    if gone:
        ratings = refused(ratings, pd.Series(True, index=ratings.index))
    if lost:
        inside = ratings["perceiver"].map(REAL) == ratings["experiencer"].map(REAL)
        ratings = refused(ratings, inside & (np.random.default_rng(seed).random(len(ratings)) < lost))
    with TemporaryDirectory() as name:
        folder = Path(name)
        ratings.to_csv(folder / "ratings.csv", index=False)
        grouped(REAL | INVENTED).to_csv(folder / "groups.csv", index=False)
        read = read_outside(folder / "ratings.csv", folder / "groups.csv", low=0, high=100).ratings
    stems = {name: {term: term for term in REAL} for name in names} if controlled else {}
    repetition = Repetition(stems, placebo=() if placebo is None else ("invented",))
    [made] = gaps_of_ratings(read, scale=(0.0, 100.0), seed=0, settings=SETTINGS, repetition=repetition)
    return made


def table(rows, name: str) -> list[PlacedRow]:
    return rows_of(pd.DataFrame(list(rows), columns=list(COMPARISON_TABLES[name])), name)


def results_of(
    runs: Mapping[str, RatingGaps], *, references: Mapping[str, str] | None = None, void: tuple[str, ...] = (), **differ
) -> Results:
    """Return the tables of a comparison; with references, of strategies. The ratings of ``void`` match no story."""
    facts = [
        run_row(label, prompt="origin", **{name: own[k] for name, own in differ.items()})
        for k, label in enumerate(runs)
    ]
    verdicts = {
        label: [
            verdict.row()
            for verdict in each.averages.verdicts(
                Limits(frozenset({"manipulation"} if label in void else ()), {}), margin=None
            )[1]
        ]
        for label, each in runs.items()
    }
    sides = sides_of({
        label: SimpleNamespace(known_gaps=each, verdicts=verdicts[label]) for label, each in runs.items()
    })  # fmt: skip
    led = strategy_rows(
        runs, strategies={label: label for label in runs}, references=references or {},
        costs=dict.fromkeys(runs, COSTS), confidence=0.95,
    )  # fmt: skip
    rows = {
        "runs": facts,
        "gap": compared_gap_table(runs).to_dict("records"),
        "specifications": specification_rows(runs),
        "verdicts": [{"run": label} | row for label, own in verdicts.items() for row in own],
        "comparisons": with_answers(
            compare_runs(runs, texts=dict.fromkeys(runs, "x"), confidence=0.95), sides, confidence=0.95
        ),
        "strategies": with_answers(led, sides, first="run", second="reference", confidence=0.95) if references else [],
    }
    tables = {
        name: pd.DataFrame(list(rows.get(name, ())), columns=list(own)) for name, own in COMPARISON_TABLES.items()
    }
    return Results(tables, COMPARISON_TABLES, 0.95)


def plainly(screen: Summary) -> str:
    """Return the answer in everyday words."""
    return Markup(screen.headline).striptags()


def screen_of(runs: Mapping[str, RatingGaps], **how) -> str:
    """Return the first screen of runs."""
    return written(summary_of_runs(results_of(runs, **how)))


def test_a_step_for_runs_whose_check_failed_names_them() -> None:
    steps = {"a, origin": "other_model", "a, persona-1": "other_model", "b": "more_narratives"}
    judged = [PlacedRow({"run": run, "next_step": step}, table="verdicts", line=0) for run, step in steps.items()]
    step = _of_runs(Step.of("other_model"), judged, n_runs=3)
    assert step.striptags().endswith("cannot be judged. (2 of 3 runs: a, origin; a, persona-1)")
    assert step.code == "other_model"
    for other in (_of_runs(Step.of("more_narratives"), judged, n_runs=3), _of_runs(step, judged[:2], n_runs=2)):
        assert other.count("runs:") == other.count("2 of 3")  # nothing is added


def changes_in(runs: Mapping[str, RatingGaps], **how) -> dict[tuple[str, str], PlacedRow]:
    return {(row["first"], row["second"]): row for row in results_of(runs, **how).rows("comparisons")}


def test_two_runs_are_told_by_their_difference_with_its_size_and_how_sure_it_is() -> None:
    """A gap of 6 beside one of 1: 5 more, in five groups of two terms without a common word."""
    runs = {"up": measured(6.0), "less": measured(1.0, seed=3)}
    [row] = changes_in(runs).values()
    assert (row["code"], row["claim"], row["limits"], row["next_step"]) == ("higher", "groups", "", "nothing")
    assert row["delta_change"] == pytest.approx(5.0, abs=0.5)
    screen = screen_of(runs)
    assert "religion The gap between groups is higher in up than in less +" in screen
    told = re.search(
        r"\+(\d\.\d\d?) points 95% interval \+(\d\.\d+) to \+(\d\.\d+); corrected p < \.001; 25 narratives; "
        r"δ \+\d\.\d+ and [+−]\d\.\d+",
        screen,
    )
    assert told is not None, screen
    assert [float(each) for each in told.groups()] == pytest.approx(
        [row["delta_change"], row["ci_low"], row["ci_high"]], abs=0.06
    )
    assert "What next: No further run is needed: the answer is clear." in screen
    assert NEARER in screen
    assert "which run's ratings are right" in screen
    assert OF_GROUPS_AND_MODELS in screen
    for claim in (ALIKE, SILENT, NOT_THE_GROUPS, THESE_WORDS):
        assert claim not in screen


def test_the_other_way_round_the_gap_is_lower() -> None:
    runs = {"less": measured(1.0, seed=3), "up": measured(6.0)}
    assert "The gap between groups is lower in less than in up −" in screen_of(runs)


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        ("m, origin", "m, persona-1", "in m with origin than with persona-1"),
        ("m, few, n 3", "m, few, n 5", "in m, few with n 3 than with n 5"),
        ("m, origin", "n, origin", "in m, origin than in n, origin"),
        ("m", "m, few", "in m than in m, few"),
        ("m, a, x", "m, b, x", "in m with a, x than with b, x"),
    ],
)
def test_what_two_names_begin_with_is_said_once(first, second, where) -> None:
    runs = {first: measured(1.0, seed=3), second: measured(6.0)}
    assert f"The gap between groups is lower {where} −" in screen_of(runs)
    assert f" points lower {where}." in plainly(summary_of_runs(results_of(runs)))


@pytest.mark.parametrize(
    ("first", "second", "where"), [(-6.0, -2.0, ", farther from 0"), (-2.0, -6.0, ", nearer to 0"), (6.0, 2.0, "")]
)
def test_of_two_gaps_towards_the_out_group_the_lower_one_is_not_left_to_look_smaller(first, second, where) -> None:
    screen = screen_of({"first": measured(first), "second": measured(second, seed=1)})
    assert [each for each in (", farther from 0", ", nearer to 0") if each in screen] == [*filter(None, [where])]


def test_of_several_gaps_towards_the_out_group_none_that_is_lower_looks_smaller() -> None:
    runs = {name: measured(gap, seed=3 * k) for k, (name, gap) in enumerate({"a": -6.0, "b": -2.0, "c": 5.0}.items())}
    screen = screen_of(runs)
    assert re.search(r"lower in a than in b by [34]\.\d+ points, farther from 0 \(p", screen), screen
    assert re.search(r"lower in a than in c by 1[01]\.?\d* points \(δ −[56]\.\d+ and \+[45]\.\d+; p", screen), screen
    led = screen_of({"none": runs["b"], "warm": runs["a"]}, references={"warm": "none"})
    assert "is lower under warm than without, farther from 0 −" in led


def test_a_gap_that_may_be_on_the_other_side_of_0_is_not_called_nearer_to_it() -> None:
    # Before: "lower in a than in b, farther from 0", though b's interval reaches as far above 0 as a's below it.
    runs = {"a": measured(-0.6, n=100), "b": measured(-0.05, n=100, seed=1)}
    [row] = changes_in(runs).values()
    assert row["code"] == "lower"
    assert row["delta_second"] < 0
    own = {each["run"]: each for each in results_of(runs).rows("verdicts")}
    assert own["a"]["ci_high"] < 0 < own["b"]["ci_high"]
    assert "from 0" not in screen_of(runs).replace(NEARER, "")


def test_two_runs_with_the_same_gap_are_not_called_alike() -> None:
    runs = {"a": measured(6.0), "b": measured(6.0, seed=3)}
    [row] = changes_in(runs).values()
    assert (row["code"], row["claim"], row["next_step"]) == ("not_shown", "", "more_narratives")
    screen = screen_of(runs)
    assert "religion a and b are not shown to differ in their gap May differ by up to " in screen
    assert "What next: Run again with more narratives." in screen
    assert ALIKE in screen
    assert NEARER not in screen


def test_narratives_that_one_run_refuses_leave_larger_differences_possible() -> None:
    """One run has a gap of 25 points in 2 of 25 narratives, which the other refuses: 2 points on average.

    The pages of both runs say +2 and "any gap is smaller than 20".
    """
    runs = {"a": measured(0.0, more=25.0), "b": measured(0.0, seed=3, silent=2)}
    [row] = changes_in(runs).values()
    assert (row["code"], row["limits"], row["n_narratives"]) == ("not_shown", "missing", 23)
    assert row["next_step"] == "missing_shift"
    assert max(abs(row["ci_low"]), abs(row["ci_high"])) < 1
    told = re.search(
        r"May differ by up to 0\.\d+ points \(95% interval; 23 narratives in both runs\); by more "
        r"where ratings are missing",
        screen_of(runs),
    )
    assert told is not None, screen_of(runs)
    runs = {"a": measured(0.0), "b": measured(0.0, seed=3)}
    assert [row["limits"] for row in changes_in(runs).values()] == [""]
    assert "25 narratives in both runs) What next" in screen_of(runs)


def test_of_several_runs_the_pairs_that_differ_are_counted_and_the_largest_named() -> None:
    gaps = {"up": 6.0, "more": 5.9, "down": -5.0}
    runs = {name: measured(gap, seed=7 * k) for k, (name, gap) in enumerate(gaps.items())}
    found = {pair: row["code"] for pair, row in changes_in(runs).items()}
    assert found == {("up", "more"): "not_shown", ("up", "down"): "higher", ("more", "down"): "higher"}
    screen = screen_of(runs)
    told = r"religion 2 of 3 pairs of runs differ in their gap lower in down than in (up|more) by 1[01]\.?\d* points "
    own = r"δ −[45]\.\d+ and \+[56]\.\d+"  # of down, then of the other: they take different sides
    told += rf"\({own}; p [^)]+\), in (up|more) by 1[01]\.?\d* points \({own}; p [^)]+\) What next"
    both = re.search(told, screen)
    assert both, screen
    assert {*both.groups()} == {"up", "more"}


def test_a_single_pair_of_several_that_differs_is_told_in_a_sentence() -> None:
    """Three runs, of which one without a verdict: its gap of −5 is compared with nobody's."""
    gaps = {"up": 6.0, "less": 1.0, "deaf": -5.0}
    runs = {name: measured(gap, seed=7 * k) for k, (name, gap) in enumerate(gaps.items())}
    rows = changes_in(runs, void=("deaf",))
    assert {pair: row["code"] for pair, row in rows.items()} == {
        ("up", "less"): "higher", ("up", "deaf"): "no_verdict", ("less", "deaf"): "no_verdict",
    }  # fmt: skip
    assert rows["up", "deaf"]["limits"] == "manipulation"
    screen = screen_of(runs, void=("deaf",))
    assert "The gap between groups is higher in up than in less; no verdict on 2 pairs +" in screen
    assert f"{SILENT} (deaf)" in screen


def test_the_answer_in_everyday_words_says_which_run_is_higher_by_how_much() -> None:
    runs = {"up": measured(6.0), "less": measured(1.0, seed=3)}
    [row] = changes_in(runs).values()
    said = plainly(summary_of_runs(results_of(runs)))
    told = re.fullmatch(
        r"Compared with others, people of the model's own group are rated (\d\.\d+) points higher in up than in less\.",
        said,
    )
    assert told is not None, said
    assert float(told[1]) == pytest.approx(row["delta_change"], abs=0.06)
    other = plainly(summary_of_runs(results_of(dict(reversed(runs.items())))))
    assert "points lower in less than in up." in other
    led = plainly(summary_of_runs(results_of(dict(reversed(runs.items())), references={"less": "up"})))
    assert "points lower under less than without." in led


@pytest.mark.parametrize(
    ("controlled", "placebo", "said"),
    [
        (True, None, "."),
        (False, 0.0, "."),
        (False, None, ", which repeated words alone could cause."),
    ],
)
def test_the_answer_in_everyday_words_claims_no_more_than_the_row(controlled, placebo, said) -> None:
    runs = {
        "up": measured(6.0, placebo=placebo, controlled=controlled),
        "less": measured(1.0, seed=3, placebo=placebo, controlled=controlled),
    }
    assert plainly(summary_of_runs(results_of(runs))).endswith(f"higher in up than in less{said}")
    more = runs | {"down": measured(-5.0, seed=7, placebo=placebo, controlled=controlled)}
    counted = plainly(summary_of_runs(results_of(more)))
    assert counted == f"3 of 3 pairs of runs differ in how the model takes sides{said}"


def test_no_difference_found_no_verdict_and_several_dimensions_are_told_apart_in_everyday_words() -> None:
    """Each of these answers is false of the runs of the others."""
    alike = {"a": measured(6.0), "b": measured(6.0, seed=3)}
    none = "No difference between these runs is shown in how the model takes sides"
    assert plainly(summary_of_runs(results_of(alike))) == f"{none}."
    assert plainly(summary_of_runs(results_of({"up": measured(6.0), "b": measured(1.0, seed=3)}, void=("up",)))) == (
        "We cannot tell whether these runs differ in how the model takes sides: the ratings do not match the story."
    )
    lost = plainly(summary_of_runs(results_of({"a": measured(4.0, lost=0.5), "b": measured(1.0, seed=3)})))
    assert lost.startswith("We cannot tell yet whether these runs differ in how the model takes sides: ")
    several = {"a": measured(0.0, 0.0), "b": measured(0.0, 0.0, seed=10)}
    assert plainly(summary_of_runs(results_of(several))) == f"{none}, in any of 2 dimensions."
    found = {"a": measured(0.0, 5.0, 5.0), "b": measured(0.0, 0.0, 0.0, seed=10)}
    said = plainly(summary_of_runs(results_of(found)))
    assert said.startswith("d1: Compared with others, people of the model's own group are rated ")
    assert said.endswith(" Runs differ in how the model takes sides in d2, too.")
    more = {"a": measured(5.0, 5.0, 5.0), "b": measured(0.0, 0.0, 0.0, seed=10)}
    assert plainly(summary_of_runs(results_of(more))).endswith(" in 2 other dimensions, too, see below.")
    assert "higher in a than in b." in said
    assert "No difference" not in said


def test_where_no_run_has_a_verdict_there_is_none_on_their_difference() -> None:
    runs = {"up": measured(6.0), "down": measured(-5.0, seed=4)}
    screen = screen_of(runs, void=("up", "down"))
    assert "religion No verdict: the ratings do not match the story" in screen
    assert "What next: Change the prompt" in screen
    assert not re.search(r"[+−]\d", screen)  # and no number that would suggest one


def test_runs_without_any_rating_have_no_gap_to_compare() -> None:
    runs = {name: measured(6.0, gone=True) for name in "ab"}
    screen = screen_of(runs)
    assert "religion No two runs have a gap" in screen
    assert "What next: Compare runs that asked about the same narratives and identities." in screen
    assert NEARER not in screen


@pytest.mark.parametrize(
    ("real", "invented", "claim"),
    [(6.0, (6.0, 1.0), "uncontrolled"), (6.0, (0.0, 0.0), "groups"), (6.0, (None, None), "uncontrolled")],
)
def test_a_change_that_invented_groups_show_too_is_not_one_between_groups(real, invented, claim) -> None:
    """6 beside 1. Invented groups show the same change, or none; or nothing controls for repeated words."""
    runs = {
        "a": measured(real, placebo=invented[0], controlled=False),
        "b": measured(1.0, seed=3, placebo=invented[1], controlled=False),
    }
    [row] = changes_in(runs).values()
    assert row["delta_change"] == pytest.approx(5.0, abs=0.5)
    if invented[0]:  # the controls disagree, or nothing but the words is left
        assert (row["code"], row["claim"]) != ("higher", "groups")
        return
    assert (row["code"], row["claim"]) == ("higher", claim)
    assert (NOT_THE_GROUPS in screen_of(runs)) == (claim == "uncontrolled")


def test_runs_that_differ_by_the_same_in_every_narrative_are_not_called_incomparable_or_without_a_verdict() -> None:
    screen = screen_of({"a": measured(6.0), "b": measured(0.0)})  # one seed: the same noise
    assert "religion No answer: the difference is the same in all 25 narratives" in screen
    assert "Compare runs that" not in screen
    assert "runs without a verdict" not in screen


def test_missing_ratings_that_could_make_a_difference_leave_it_undecided() -> None:
    """Half of the in-group ratings of one run are refused: where they lie could make all of the difference."""
    runs = {"a": measured(4.0, lost=0.5), "b": measured(1.0, seed=3)}
    [row] = changes_in(runs).values()
    assert row["p_adjusted"] < 0.05
    assert row["code"] == "undecided"
    assert {"missing", "many_missing", "incomplete_narratives", "refusal_gap"} & set(row["limits"].split("; "))
    assert "religion Undecided: " in screen_of(runs)


def test_strategies_that_change_delta_are_named_and_others_are_not_called_unchanged() -> None:
    gaps = {"none": 6.0, "warm": 1.0, "cold": 9.0, "same": 6.0}
    runs = {name: measured(gap, seed=3 * k) for k, (name, gap) in enumerate(gaps.items())}
    screen = screen_of(runs, references=dict.fromkeys(("warm", "cold", "same"), "none"))
    assert re.search(
        r"The gap between groups is lower under warm \(−[45]\.\d+\) and higher under cold \(\+[23]\.\d+\), in points "
        r"Not shown to change it: same\. δ without a strategy: \+[56]\.\d\d points",
        screen,
    ), screen
    assert NEARER in screen
    assert ALIKE in screen
    assert "pairs of runs" not in screen


def test_one_strategy_is_told_like_two_runs_and_none_that_changes_nothing() -> None:
    runs = {"none": measured(6.0), "warm": measured(1.0, seed=3)}
    screen = screen_of(runs, references={"warm": "none"})
    assert re.search(r"The gap between groups is lower under warm than without −[45]\.\d+ points 95% interval", screen)
    runs = {name: measured(6.0, seed=k) for k, name in enumerate(("none", "warm"))}
    screen = screen_of(runs, references={"warm": "none"})
    assert "warm is not shown to change the gap Not shown to change it: warm." in screen
    assert NEARER not in screen


def test_a_strategy_whose_run_has_no_verdict_is_said_to_change_nothing() -> None:
    runs = {"none": measured(6.0), "warm": measured(1.0, seed=3)}
    for void in (("none",), ("warm",)):
        screen = screen_of(runs, references={"warm": "none"}, void=void)
        assert "religion No verdict: the ratings do not match the story" in screen
        assert "lower under" not in screen


def test_of_many_dimensions_those_with_a_difference_are_shown() -> None:
    gaps = (0.0, 5.0, 5.0, 0.0, 5.0, 5.0)
    runs = {"a": measured(*gaps), "b": measured(*(0.0,) * 6, seed=10)}
    screen = screen_of(runs)
    found = re.findall(r" (d\d|all dimensions) (?=The gap between groups is higher|a and b are)", screen)
    assert found == ["d1", "d2", "d4", "d5"]
    assert "Shown: 4 of 7 findings, chosen by how many differences were found. The others are below" in screen


@pytest.mark.parametrize(
    ("differ", "said"),
    [
        ({}, "they differ in nothing that was recorded of how they were asked"),
        ({"model": ("a", "b")}, "they differ in the model"),
        ({"identities": ("1", "2")}, "they differ in the identities"),
        ({"dimensions": ("religion", "age"), "identities": ("1", "2")}, "they differ in the identities"),
        ({"wording": ("1", "2")}, "they differ in the wording of the prompt"),
        ({"texts": ("1", "2")}, "they differ in the accounts"),
        ({"language": ("de", "en"), "prompt": ("a", "b")}, "they differ in the wording of the prompt and the language"),
        ({"model": ("a", "b"), "revision": ("1", "2")}, "they differ in the model"),
        ({"revision": ("1", "2")}, "they differ in the files of the model"),
        ({"device": ("cpu", "cuda"), "engine": ("x", "y")}, "they differ in the library that runs the model and what "),
    ],
)
def test_what_runs_differ_in_is_said_and_nothing_else(differ, said) -> None:
    facts = [
        run_row(label, prompt="origin") | {name: own[k] for name, own in differ.items()} for k, label in enumerate("ab")
    ]
    told = say_differences(table(facts, "runs"))
    assert told.startswith(said)
    assert len(said.split(",")) == len(told.split(","))


def test_what_a_reply_may_be_is_a_choice_too() -> None:
    facts = [
        PlacedRow({"run": label, "generation": f"{n} tokens"}, table="runs", line=n) for n, label in enumerate("ab")
    ]
    assert say_differences(facts) == "they differ in what a reply may be"
    assert "what a reply may be" not in say_differences([facts[0], facts[0]])


# --- Replies ---------------------------------------------------------------------------------------------------------

GROUPS = {"Hindu": ["a Hindu"], "Muslim": ["a Muslim"], "Sikh": ["a Sikh"], "Jain": ["a Jain"]}
Gap = Callable[[pd.DataFrame], np.ndarray]


def own(table: pd.DataFrame) -> np.ndarray:
    return table["in_group"].to_numpy(bool).astype(float)


def replies_with(gaps: Mapping[str, Gap], seed: int, *, dimensions=("religion",), sd=1.0, n=16) -> ReplyGaps:
    """Measure a run of replies with these gaps of its measures."""
    replies = replies_of(GROUPS, n=n, dimensions=dimensions).assign(status="written")
    outcomes = []
    for place, (name, gap) in enumerate(gaps.items()):
        noise = np.random.default_rng(100 * seed + place).normal(0, sd, len(replies)) if sd else 0.0
        values = pd.Series(gap(replies) + noise, index=replies["prompt_index"])
        outcomes.append(Outcome(name, unit="points", values=values))
    return gaps_of_replies(replies, outcomes, seed=0, settings=SETTINGS)


def changes_of(
    runs: Mapping[str, Mapping[str, Gap]], *, dimensions=("religion",), sd=1.0, n=16
) -> tuple[Results, dict[str, str]]:
    """Return what changes in runs of replies, each against the first, with these gaps of each measure; and titles."""
    titles = {name: f"Measure {name}" for gaps in runs.values() for name in gaps}
    written_by = {
        label: replies_with(gaps, k, dimensions=dimensions, sd=sd, n=n) for k, (label, gaps) in enumerate(runs.items())
    }
    first, *others = runs
    rows = measure_change_rows(
        written_by, references=dict.fromkeys(others, first), comparable={label: list(titles) for label in others},
        texts=dict.fromkeys(runs, "x"), confidence=0.95,
    )  # fmt: skip
    sides = sides_of({
        label: SimpleNamespace(known_gaps=each, verdicts=each.verdicts(Limits(frozenset(), {})))
        for label, each in written_by.items()
    })  # fmt: skip
    changes = with_answers(rows, sides, first="run", second="reference", confidence=0.95)
    tables = {name: pd.DataFrame(columns=list(own)) for name, own in REPLY_COMPARISON_TABLES.items()}
    tables["measure_changes"] = pd.DataFrame(list(changes), columns=list(MEASURE_CHANGES))
    tables["runs"] = pd.DataFrame([run_row(label, prompt="origin", model=label, generation="") for label in runs])
    return Results(tables, REPLY_COMPARISON_TABLES, 0.95), titles


def changes_screen(runs: Mapping[str, Mapping[str, Gap]], **how) -> str:
    """Return the first screen of these runs of replies."""
    results, titles = changes_of(runs, **how)
    return written(summary_of_changes(results, titles, words=ReplyWriting.words))


def changes_card(runs: Mapping[str, Mapping[str, Gap]], **how) -> str:
    """Return the card of these runs' one dimension."""
    results, titles = changes_of(runs, **how)
    card = _answer(results.rows("measure_changes"), titles, confidence=0.95)
    said = [str(each.text) if hasattr(each, "text") else " ".join(map(str, each.items)) for each in card.content]
    return words_of(" ".join(said)).replace("\N{NO-BREAK SPACE}", " ")


def test_changes_of_either_way_are_named_and_sized_and_others_are_not_called_unchanged() -> None:
    before = {"a": lambda t: 3 * own(t), "b": lambda t: 0 * own(t), "c": lambda t: own(t)}
    after = {"a": lambda t: 0 * own(t), "b": lambda t: 2 * own(t), "c": lambda t: own(t)}
    screen = changes_screen({"x": before, "y": after}, n=40)
    assert screen.startswith(
        "Each of 2 runs asked a model to speak as one person and to write replies to accounts by people of the same "
        "and of other groups; they differ in the model."
    )
    assert "religion The gap changes in 2 of 3 measures " in screen
    assert re.search(r"lower Measure a \(−[23]\.\d+ points, p < \.001\)", screen)
    assert re.search(r"higher Measure b \(\+[12]\.\d+ points, p < \.001\)", screen)
    assert "Measure c" not in screen
    assert re.search(
        r"How big: the largest change that is shown, of Measure [ab] in religion, is \d\.\d\d times the spread \(SD\) "
        r"of that measure over the replies of x\.",
        screen,
    )
    assert ALIKE in screen
    assert NEARER in screen
    assert ReplyWriting.words.no_better in screen
    assert OF_GROUPS_AND_MODELS in screen


def test_one_change_is_told_in_a_sentence_with_its_interval() -> None:
    screen = changes_screen({"x": {"a": lambda t: 3 * own(t)}, "y": {"a": lambda t: 0 * own(t)}}, n=40)
    assert re.search(r"The gap.* in Measure a is lower in y than in x −[23]\.\d+ points 95% interval", screen)
    assert ALIKE not in screen


def test_where_no_change_is_found_none_is_told_and_none_denied() -> None:
    same = {"a": lambda t: 3 * own(t)}
    screen = changes_screen({"x": same, "y": same}, n=40)
    assert "religion No change of a gap is shown in any measure 1 change tested, of 1" in screen
    assert "How big" not in screen
    assert ALIKE in screen


def test_opposite_changes_of_one_measure_in_two_dimensions_are_told_apart() -> None:
    """Lower in religion and higher in age: on average no change."""

    def after(table: pd.DataFrame) -> np.ndarray:
        return own(table) * np.where(table["dimension"] == "age", 4.0, -2.0)

    screen = changes_screen({"x": {"a": lambda t: own(t)}, "y": {"a": after}}, dimensions=("religion", "age"), n=40)
    assert re.search(r"religion The gap.* in Measure a is lower in y than in x", screen)
    assert re.search(r"age The gap.* in Measure a is higher in y than in x", screen)


def test_a_change_that_is_the_same_in_every_narrative_cannot_be_tested_and_is_not_left_unsaid() -> None:
    before, after = {"a": lambda t: 3 * own(t)}, {"a": lambda t: 0 * own(t)}
    screen = changes_screen({"x": before, "y": after}, sd=0)
    assert "religion No verdict: all identities have the same score" in screen
    assert "What next: Use another measure." in screen  # not how ratings are obtained: there are none
    assert "the answer is clear" not in screen
    for claim in ("How big", "is shown in any measure"):
        assert claim not in screen


def test_the_card_says_each_change_with_both_gaps_and_what_the_mean_did() -> None:
    """All replies get 2 more, and in-group ones 3 less: of one pair in four, on average 1.25 more."""
    before, after = {"a": lambda t: 3 * own(t)}, {"a": lambda t: np.full(len(t), 2.0)}
    card = changes_card({"x": before, "y": after}, n=40)
    assert "The gap changes in 1 measure" in card
    assert "Tested: 1 change of δ, of 1 measure in 1 run, with p corrected for their number." in card
    number = r"\d\.\d+"
    said = re.search(
        rf"y, Measure a \(points\): δ = [+−]?{number}, and \+[23]\.\d+ in x; change, including repeated words, "
        rf"−[23]\.\d+ "
        rf"\(95% interval −{number} to −{number}\)\. Beside it, the mean over all pairs goes from {number} to {number} "
        rf"\(\+({number})\)\.",
        card,
    )
    assert said is not None, card
    assert float(said[1]) == pytest.approx(1.25, abs=0.3)


def test_the_card_of_several_runs_counts_comparisons_and_names_the_smallest_p() -> None:
    gaps = {name: (lambda t: 3 * own(t)) for name in "abcd"}
    none = {name: (lambda t: 0 * own(t)) for name in "abcd"}
    card = changes_card({"x": gaps, "y": none, "z": none}, n=40)
    assert "The gap changes in 8 comparisons" in card
    assert (
        "Tested: 8 changes of δ, of 4 measures in 2 runs, with p corrected for their number; below are the 6 of" in card
    )
    assert len(re.findall(r"Measure \w \(points\): δ = ", card)) == 6


def test_the_card_claims_no_sameness_where_no_change_is_found_and_counts_what_was_not_tested() -> None:
    same = {"a": lambda t: 3 * own(t)}
    card = changes_card({"x": same, "y": same})
    assert "No change of a gap is found" in card
    assert re.search(
        r"That none is found does not mean that there is none: the 95% intervals of single replies' measures reach "
        r"from [+−]\d\.\d\d to [+−]\d\.\d\d standard deviations\.",
        card,
    )
    assert "The gap changes" not in card
    untested = changes_card({"x": same, "y": {"a": lambda t: 0 * own(t)}}, sd=0)
    assert "Nothing could be tested Why stands beside each measure below." in untested


def test_the_verdict_on_each_run_s_gap_is_counted_beside_the_changes() -> None:
    """A gap of 3 in one measure of one run, in enough narratives; what limits a run takes its verdicts away."""
    runs = {"x": {"a": lambda t: 3 * own(t), "b": lambda t: 0 * own(t)}, "y": {"a": lambda t: 0 * own(t)}}
    made = {label: replies_with(gaps, k, n=40) for k, (label, gaps) in enumerate(runs.items())}
    rows = {
        label: {row["outcome"]: row for row in each.verdicts(Limits(frozenset(), {}))} for label, each in made.items()
    }
    assert (rows["x"]["a"]["code"], rows["x"]["a"]["direction"]) == ("gap", 1)
    assert {rows["x"]["b"]["code"], rows["y"]["a"]["code"]} == {"undecided"}
    [changed] = made["y"].verdicts(Limits(frozenset({"accepted"}), {}))
    assert (changed["code"], changed["reasons"]) == ("no_verdict", "accepted")
    results, titles = changes_of({label: {"a": gaps["a"]} for label, gaps in runs.items()}, n=40)
    verdicts = table([{"run": label, **row} for label, each in rows.items() for row in each.values()], "verdicts")
    card = _answer(results.rows("measure_changes"), titles, verdicts, confidence=0.95)
    said = words_of(" ".join(str(getattr(each, "text", "")) for each in card.content))
    said = said.replace("\N{NO-BREAK SPACE}", " ")
    assert "Verdicts on 3 gaps, one for each run and measure, as on the runs' own pages: 1 × an average gap" in said
    assert said.rstrip().endswith("· 2 × undecided.")


def test_a_page_of_replies_without_a_comparable_measure_says_so_first() -> None:
    tables = {name: pd.DataFrame(columns=list(columns)) for name, columns in REPLY_COMPARISON_TABLES.items()}
    tables["runs"] = pd.DataFrame(
        [{**dict.fromkeys(REPLY_COMPARISON_TABLES["runs"], ""), "run": each} for each in "ab"]
    )
    told = pd.DataFrame({"model": ["a", "b"]}, index=["a", "b"])
    content = ComparisonContent(
        tables=tables, described=REPLY_COMPARISON_TABLES, confidence=0.95, collected="replies",
        remarks=(), left_out=(), papers={"table": changes_paper(tables["measure_changes"], told, confidence=0.95)},
        command="", page=reply_page,
    )  # fmt: skip
    page = reply_page(content, Results(tables, REPLY_COMPARISON_TABLES, 0.95), words=ReplyWriting.words)
    assert 'No measure could be compared; why stands under <a href="#missing">Not compared</a>.' in page
    assert "No run is compared with another." in page
    assert "There is nothing to compare." in page
