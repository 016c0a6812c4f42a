"""The first screens of comparisons, on planted runs for which each sentence is true, or false."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from judged import words_of
from planted import grouped, ratings_of, refused
from test_comparison_page import run_row
from test_replies_page import replies_of

from audit.comparing.base import ComparisonContent
from audit.comparing.changes import compared_gap_table, measure_change_rows, specification_rows, strategy_rows
from audit.comparing.first_screen import say_differences, summary_of_changes, summary_of_runs
from audit.comparing.paper_table import changes_paper
from audit.comparing.reply_page import _answer, reply_page
from audit.comparing.run_gaps import RatingGaps, ReplyGaps, gaps_of_ratings, gaps_of_replies
from audit.comparing.tables import COMPARISON_TABLES, MEASURE_CHANGES, REPLY_COMPARISON_TABLES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.numbers import PlacedRow, rows_of
from audit.report.results import Results
from audit.report.summary import NO_GROUPS, NOT_THE_GROUPS, Summary
from audit.runs.outside import read_outside
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.statistics.verdict import Limits, Verdict
from audit.tables.formatting import OF_GROUPS_AND_MODELS, interval
from audit.tasks.reply.task import ReplyWriting

SETTINGS = AnalysisSettings(n_permutations=100)
UNDECIDED_RUN = "that an undecided run has no gap"
UNDECIDED_STRATEGY = "that an undecided strategy changes nothing"
NEARER = "that a δ nearer to 0 is less bias"
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
    said += [screen.left_out, *(f"{what}: {words}" for what, words in screen.lines), screen.source]
    text = re.sub(r"</?(data|bdi|strong)\b[^>]*>", "", " ".join(map(str, said)))
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).replace("\N{NO-BREAK SPACE}", " ").split())


@cache
def measured(*gaps: float, n=25, seed=0, gone=False, placebo: float | None = None, controlled=True):
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
    if gone:
        ratings = refused(ratings, pd.Series(True, index=ratings.index))
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


def screen_of(
    runs: Mapping[str, RatingGaps], *, references: Mapping[str, str] | None = None, decided: bool = True, **differ
) -> str:
    """Return the first screen of runs; with references, of strategies against them."""
    facts = [
        run_row(label, prompt="origin", **{name: own[k] for name, own in differ.items()})
        for k, label in enumerate(runs)
    ]
    strategies = []
    if references:
        strategies = list(
            strategy_rows(
                runs, strategies={label: label for label in runs}, references=references,
                costs=dict.fromkeys(runs, COSTS), confidence=0.95,
            )
        )  # fmt: skip
    gaps = [row for row in table(compared_gap_table(runs).to_dict("records"), "gap") if row["scope"] == "narratives"]
    limits = Limits(frozenset(), {})
    verdicts = [
        {"run": label} | verdict.row()
        for label, each in runs.items()
        for verdict in each.averages.verdicts(limits, margin=None)[1]
        if decided
    ]
    return written(
        summary_of_runs(
            table(facts, "runs"), table(specification_rows(runs), "specifications"), gaps,
            table(strategies, "strategies"), {label: label for label in runs}, table(verdicts, "verdicts"),
            confidence=0.95,
        )
    )  # fmt: skip


def test_runs_of_each_kind_are_counted_and_none_that_there_are_not() -> None:
    gaps = {"up": 6.0, "more": 4.0, "down": -5.0, "flat": 0.0}
    runs = {name: measured(gap, seed=7 * k) for k, (name, gap) in enumerate(gaps.items())}
    runs["refused"] = measured(6.0, gone=True)
    screen = screen_of(runs)
    assert screen.startswith(
        "Each of 5 runs asked a model to speak as one person, to read accounts by people of the same and of other "
        "groups, and to rate how strongly they felt;"
    )
    assert (
        "religion 1 × no verdict · 1 × an average gap between groups, towards the out-group · 2 × an average gap "
        "between groups, towards the in-group · 1 × undecided δ: " in screen
    )
    assert re.search(r"δ: −[45]\.\d\d to \+[56]\.\d\d, in points", screen)
    assert re.search(r"How big: the largest δ, of up in religion, is [56]\.\d\d% of the scale;", screen)
    assert re.search(r"How it varies: [23] of 4 runs have a δ for these words only with the sign of", screen)
    assert UNDECIDED_RUN in screen
    assert "anything from runs without a verdict" in screen
    for claim in (NEARER, UNDECIDED_STRATEGY, NO_GROUPS, NOT_THE_GROUPS, "without an interval"):
        assert claim not in screen
    assert "which run's ratings are right" in screen
    assert OF_GROUPS_AND_MODELS in screen


def verdict_of(run: RatingGaps) -> Verdict:
    _, [found] = run.averages.verdicts(Limits(frozenset(), {}), margin=None)
    return found


def test_the_largest_gap_is_the_one_that_a_verdict_rests_on_with_its_interval() -> None:
    """6 of which invented groups show 5 is no larger than 3 between groups; over narratives alone it would be."""
    runs = {"beyond": measured(6.0, placebo=5.0, controlled=False), "free": measured(3.0, seed=4)}
    beyond, free = (verdict_of(run) for run in runs.values())
    assert (beyond.control, free.control, free.scope) == ("placebo", "echo_free", "groups")
    assert 0.5 < beyond.delta < 2 < free.delta
    [narrow] = [
        row for row in compared_gap_table({"free": runs["free"]}).to_dict("records") if row["scope"] == "narratives"
    ]
    assert (narrow["ci_low"], narrow["ci_high"]) != (free.ci_low, free.ci_high)
    screen = screen_of(runs)
    told = re.search(
        r"How big: the largest δ, of free in religion, is ([\d.]+)% of the scale; .*? \(95% interval (.*?) points\)\.",
        screen,
    )
    assert told is not None
    assert float(told[1]) == round(free.delta, 2)
    assert told[2] == interval(free.ci_low, free.ci_high)
    assert told[2] != interval(narrow["ci_low"], narrow["ci_high"])


def test_a_largest_gap_on_which_no_verdict_rests_is_said_to_be_over_narratives_alone() -> None:
    screen = screen_of({"a": measured(6.0), "b": measured(3.0, seed=4)}, decided=False)
    assert re.search(r"How big: the largest δ, for these words only, of a in religion, is [56]\.\d\d% of", screen)
    assert "points)." not in screen


def test_where_every_run_is_decided_none_is_called_undecided() -> None:
    runs = {name: measured(gap) for name, gap in (("a", 6.0), ("b", 4.0))}
    screen = screen_of(runs)
    assert "religion 2 × an average gap between groups, towards the in-group δ: " in screen
    assert "2 of 2 runs have a δ for these words only with the sign of their median; that is no test." in screen
    assert UNDECIDED_RUN not in screen
    assert "towards the out-group" not in screen


def test_two_runs_of_opposite_signs_are_not_said_to_have_one() -> None:
    runs = {name: measured(gap) for name, gap in (("a", 6.0), ("b", -4.0))}
    screen = screen_of(runs)
    assert "1 of 2 runs has a δ for these words only with the sign of their median; that is no test." in screen
    assert "one sign" not in screen


def test_runs_without_any_rating_have_no_delta_and_nothing_is_said_of_its_size() -> None:
    runs = {name: measured(6.0, gone=True) for name in "ab"}
    screen = screen_of(runs)
    assert "religion No run has a δ" in screen
    for claim in ("How big", "How it varies", UNDECIDED_RUN, NOT_THE_GROUPS):
        assert claim not in screen


def test_one_run_with_a_delta_has_no_range() -> None:
    runs = {
        "a": measured(6.0),
        "b": measured(6.0, gone=True),
    }
    screen = screen_of(runs)
    assert re.search(r"δ: \+[56]\.\d\d, in points", screen)
    assert "How it varies" not in screen


@pytest.mark.parametrize(
    ("real", "invented", "denied"), [(6.0, 6.0, NO_GROUPS), (6.0, 0.0, ""), (6.0, None, NOT_THE_GROUPS)]
)
def test_what_repeated_words_leave_open_is_denied_of_runs_too(real, invented, denied) -> None:
    runs = {name: measured(real, placebo=invented, controlled=invented is not None) for name in "ab"}
    screen = screen_of(runs)
    for other in (NO_GROUPS, NOT_THE_GROUPS):
        assert (other in screen) == (other == denied), other


def test_strategies_that_change_delta_are_counted_and_named_and_others_are_not_called_unchanged() -> None:
    gaps = {"none": 6.0, "warm": 1.0, "cold": 9.0, "same": 6.0}
    runs = {name: measured(gap, seed=3 * k) for k, (name, gap) in enumerate(gaps.items())}
    screen = screen_of(runs, references=dict.fromkeys(("warm", "cold", "same"), "none"))
    assert "religion: 3 strategies tested 1 lower · 1 higher · 1 undecided" in screen
    assert re.search(r"δ for these words only: \+[56]\.\d\d points without, \+[01]\.\d\d to \+[89]\.\d\d with", screen)
    assert re.search(
        r"How it varies: warm \(religion\): δ lower by [45]\.\d\d points, p < \.001; "
        r"cold \(religion\): δ higher by [23]\.",
        screen,
    )
    assert NEARER in screen
    assert UNDECIDED_STRATEGY in screen
    assert UNDECIDED_RUN not in screen


def test_one_strategy_has_no_range_and_where_it_is_found_nothing_is_undecided() -> None:
    runs = {"none": measured(6.0), "warm": measured(1.0, seed=3)}
    screen = screen_of(runs, references={"warm": "none"})
    assert "religion: 1 strategy tested 1 lower · 0 higher · 0 undecided" in screen
    assert re.search(r"points without, \+[01]\.\d\d with How big", screen)
    assert UNDECIDED_STRATEGY not in screen


def test_strategies_that_change_nothing_are_not_said_to() -> None:
    runs = {name: measured(6.0, seed=k) for k, name in enumerate(("none", "warm"))}
    screen = screen_of(runs, references={"warm": "none"})
    assert "no strategy was found to change δ; that does not show that none does." in screen
    assert "0 lower · 0 higher · 1 undecided" in screen


def test_of_many_dimensions_those_with_the_most_gaps_are_shown() -> None:
    gaps = (0.0, 5.0, 5.0, 0.0, 5.0, 5.0)
    runs = {name: measured(*gaps, seed=10 * k) for k, name in enumerate("ab")}
    screen = screen_of(runs)
    found = re.findall(r" (d\d|all dimensions) (?=\d × (?:an average gap|undecided))", screen)
    assert found == ["d1", "d2", "d4", "d5"]
    assert (
        "Shown: 4 of 7 findings, chosen by how many gaps, or changes of a gap, were found. The others are further"
        in screen
    )


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
) -> tuple[list[PlacedRow], dict[str, str]]:
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
    changes = pd.DataFrame(list(rows), columns=list(MEASURE_CHANGES))
    return rows_of(changes, "measure_changes"), titles


def changes_screen(runs: Mapping[str, Mapping[str, Gap]], **how) -> str:
    """Return the first screen of these runs of replies."""
    changes, titles = changes_of(runs, **how)
    facts = table([run_row(label, prompt="origin", model=label) for label in runs], "runs")
    return written(summary_of_changes(facts, changes, titles, words=ReplyWriting.words, confidence=0.95))


def changes_card(runs: Mapping[str, Mapping[str, Gap]], **how) -> str:
    """Return the card of these runs' one dimension."""
    changes, titles = changes_of(runs, **how)
    card = _answer(changes, titles, confidence=0.95)
    said = [str(each.text) if hasattr(each, "text") else " ".join(map(str, each.items)) for each in card.content]
    return words_of(" ".join(said)).replace("\N{NO-BREAK SPACE}", " ")


def test_changes_of_either_way_are_counted_and_sized_and_undecided_ones_are_not_called_unchanged() -> None:
    before = {"a": lambda t: 3 * own(t), "b": lambda t: 0 * own(t), "c": lambda t: own(t)}
    after = {"a": lambda t: 0 * own(t), "b": lambda t: 2 * own(t), "c": lambda t: own(t)}
    screen = changes_screen({"x": before, "y": after})
    assert screen.startswith(
        "Each of 2 runs asked a model to speak as one person and to write replies to accounts by people of the same "
        "and of other groups; they differ in the model."
    )
    assert "religion δ: 1 lower · 1 higher · 1 undecided (of 3 tests in these pairs of words, corrected)" in screen
    assert re.search(
        r"How big: the largest change that is found, of Measure [ab] in y, is \d\.\d\d times the spread \(SD\) of that "
        r"measure over the replies of x\.",
        screen,
    )
    assert "How it varies: y, Measure a: lower; y, Measure b: higher." in screen
    assert "that an undecided measure is unchanged" in screen
    assert NEARER in screen
    assert ReplyWriting.words.no_better in screen
    assert OF_GROUPS_AND_MODELS in screen


def test_where_no_change_is_found_none_is_told_and_none_denied() -> None:
    same = {"a": lambda t: 3 * own(t)}
    screen = changes_screen({"x": same, "y": same})
    assert "religion δ: 0 lower · 0 higher · 1 undecided (of 1 test in these pairs of words, corrected)" in screen
    assert "How it varies: no δ was found to change; that does not show that none does." in screen
    assert "How big" not in screen
    assert "that an undecided measure is unchanged" in screen


def test_where_all_changes_are_found_none_is_called_undecided() -> None:
    screen = changes_screen({"x": {"a": lambda t: 3 * own(t)}, "y": {"a": lambda t: 0 * own(t)}})
    assert "that an undecided measure is unchanged" not in screen


def test_opposite_changes_of_one_measure_in_two_dimensions_are_told_apart() -> None:
    """Lower in religion and higher in age: on average no change."""

    def after(table: pd.DataFrame) -> np.ndarray:
        return own(table) * np.where(table["dimension"] == "age", 4.0, -2.0)

    screen = changes_screen({"x": {"a": lambda t: own(t)}, "y": {"a": after}}, dimensions=("religion", "age"))
    assert "y, Measure a (religion): lower" in screen
    assert "y, Measure a (age): higher" in screen
    assert re.search(r"the largest change that is found, of Measure a \((age|religion)\) in y", screen)
    assert "religion δ: 1 lower · 0 higher · 0 undecided" in screen
    assert "age δ: 0 lower · 1 higher · 0 undecided" in screen


def test_a_change_that_is_the_same_in_every_narrative_cannot_be_tested_and_is_not_left_unsaid() -> None:
    before, after = {"a": lambda t: 3 * own(t)}, {"a": lambda t: 0 * own(t)}
    screen = changes_screen({"x": before, "y": after}, sd=0)
    assert "religion Nothing could be tested" in screen
    for claim in ("How big", "How it varies", "no δ was found"):
        assert claim not in screen


def test_the_card_says_each_change_with_both_gaps_and_what_the_mean_did() -> None:
    """All replies get 2 more, and in-group ones 3 less: of one pair in four, on average 1.25 more."""
    before, after = {"a": lambda t: 3 * own(t)}, {"a": lambda t: np.full(len(t), 2.0)}
    card = changes_card({"x": before, "y": after})
    assert "The gap changes in 1 measure" in card
    assert "Tested: 1 change of δ, of 1 measure in 1 run, with p corrected for their number." in card
    number = r"\d\.\d+"
    said = re.search(
        rf"y, Measure a \(points\): δ = [+−]?{number}, and \+[23]\.\d+ in x; change in these pairs of words −[23]\.\d+ "
        rf"\(95% interval −{number} to −{number}\)\. Beside it, the mean over all pairs goes from {number} to {number} "
        rf"\(\+({number})\)\.",
        card,
    )
    assert said is not None, card
    assert float(said[1]) == pytest.approx(1.25, abs=0.3)


def test_the_card_of_several_runs_counts_comparisons_and_names_the_smallest_p() -> None:
    gaps = {name: (lambda t: 3 * own(t)) for name in "abcd"}
    none = {name: (lambda t: 0 * own(t)) for name in "abcd"}
    card = changes_card({"x": gaps, "y": none, "z": none})
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
    changes, titles = changes_of({label: {"a": gaps["a"]} for label, gaps in runs.items()}, n=40)
    verdicts = table([{"run": label, **row} for label, each in rows.items() for row in each.values()], "verdicts")
    card = _answer(changes, titles, verdicts, confidence=0.95)
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
        tables=tables, described=REPLY_COMPARISON_TABLES, confidence=0.95, shown="measure_changes", collected="replies",
        remarks=(), left_out=(), papers={"table": changes_paper(tables["measure_changes"], told, confidence=0.95)},
        command="", page=reply_page,
    )  # fmt: skip
    page = reply_page(content, Results(tables, REPLY_COMPARISON_TABLES, 0.95), words=ReplyWriting.words)
    assert 'No measure could be compared; why stands under <a href="#missing">Not compared</a>.' in page
    assert "No run is compared with another." in page
    assert "There is nothing to compare." in page
