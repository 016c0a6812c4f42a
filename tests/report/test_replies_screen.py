"""The first screen of a page of replies, on planted numbers of measures for which each sentence is true, or false."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from judged import cards_of, first_screen
from test_replies_controls import INVENTED, ONE
from test_replies_page import replies_of

from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.numbers import rows_of
from audit.report.summary import CHANGED, NO_GAP, NO_GAP_NONE_LESS, NO_GROUPS, NONE_LESS, NOT_THE_GROUPS
from audit.report.verdicts import next_step, reason_in_words
from audit.runs.manifest import Manifest
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.tables.formatting import OF_GROUPS_AND_MODELS
from audit.tables.replies import RATIONALES
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tasks.recognition.task import Cause, Emotion
from audit.tasks.reply.first_screen import combined
from audit.tasks.reply.gaps import measure_tables
from audit.tasks.reply.page import render_replies
from audit.tasks.reply.task import ReplyWriting

Gap = Callable[[pd.DataFrame], np.ndarray]
UNFOUND = "that measures without a gap found have none"


def own(table: pd.DataFrame) -> np.ndarray:
    """Whether a reply is to the own group."""
    return table["in_group"].to_numpy(bool).astype(float)


def of_words(table: pd.DataFrame) -> np.ndarray:
    return (table["perceiver"] == table["experiencer"]).to_numpy(float)


def screen_of(
    gaps: Mapping[str, Gap],
    *,
    groups: Mapping[str, list[str]] = ONE,
    dimensions: tuple[str, ...] = ("religion",),
    invented: bool = False,
    n: int = 24,
    sd: float | Mapping[str, float] = 1.0,
    status: str = "written",
    words=ReplyWriting.words,
    remarks=(),
    cards: bool = False,
) -> str:
    """Return the first screen of replies whose measures are noise and what is planted, as text; or the cards."""
    parts = [replies_of(groups, n=n, dimensions=dimensions)]
    parts += [replies_of(INVENTED, n=n, dimensions=("invented_1",))] if invented else []
    replies = pd.concat(parts, ignore_index=True).assign(prompt_index=lambda table: range(len(table)), status=status)
    outcomes = []
    for place, (name, gap) in enumerate(gaps.items()):
        noise = np.random.default_rng(place).normal(0, 1, len(replies))
        values = gap(replies) + (sd[name] if isinstance(sd, Mapping) else sd) * noise
        written = values if status in ("written", "cut") else np.full(len(replies), np.nan)
        outcomes.append(Outcome(name, unit="points", values=pd.Series(written, index=replies["prompt_index"])))
    tables = {name: pd.DataFrame(columns=list(columns)) for name, columns in REPLY_TABLES.items()}
    tables |= measure_tables(
        replies, outcomes, seed=0, settings=AnalysisSettings(n_permutations=100),
        repetition=Repetition(
            {name: {term: term for terms in groups.values() for term in terms} for name in dimensions},
            placebo=("invented_1",) if invented else (),
        ),
    )  # fmt: skip
    described = [
        dict.fromkeys(REPLY_TABLES["measures"], 0.0)
        | dict.fromkeys(("scorer", "source", "caution", "note"), "")
        | {"measure": name, "title": f"Measure {name}", "unit": "points", "better": "higher", "status": "scored"}
        for name in gaps
    ]
    tables["measures"] = pd.DataFrame(described, columns=list(REPLY_TABLES["measures"]))
    manifest = {"model": {"name": "a model"}, "task": {"kind": "reply", "max_tokens": 9, "temperature": 0.0}, "seed": 0}
    manifest |= {"config": {"statistics": {"confidence": 0.95}}, "started": "2026-01-01T00:00:00+00:00"}
    page = render_replies(
        manifest=Manifest.of(manifest), tables=tables, figures={}, remarks=list(remarks), replies=replies,
        values=pd.DataFrame(), rationales=pd.DataFrame(columns=list(RATIONALES)), narratives={},
        words=words,
    )  # fmt: skip
    return cards_of(page) if cards else first_screen(page)


def nothing(table: pd.DataFrame) -> np.ndarray:
    return np.zeros(len(table))


def test_opposite_gaps_are_counted_each_way_and_undecided_measures_are_not_said_to_have_none() -> None:
    screen = screen_of({"a": lambda t: 3 * own(t), "b": lambda t: -2 * own(t), "c": nothing})
    assert "religion: whose side? A gap, which repeated words alone could cause, in 2 measures (3 tested)" in screen
    assert "How it varies: δ is above 0 in 1 of 3 tests, below 0 in 1 and undecided in 1." in screen
    assert re.search(r"Smallest p: Measure a \+[23]\.\d+ points, 95% interval \+2\.\d+ to \+3\.\d+", screen)
    assert re.search(r"How big: the largest gap found, Measure a, is 1\.\d\d times the spread \(SD\) of that", screen)
    assert UNFOUND in screen
    assert NOT_THE_GROUPS in screen
    for claim in (NO_GAP, NO_GROUPS, CHANGED, "show more", "invented"):
        assert claim not in screen
    assert "that a measure is empathy itself" in screen
    assert ReplyWriting.words.no_better in screen
    assert OF_GROUPS_AND_MODELS in screen


def test_where_nothing_is_found_no_size_and_no_gap_are_told() -> None:
    screen = screen_of({"a": nothing, "b": nothing})
    assert "religion: whose side? No gap is found (2 tested)" in screen
    assert "How it varies: δ is above 0 in 0 of 2 tests, below 0 in 0 and undecided in 2." in screen
    assert NO_GAP_NONE_LESS in screen
    for claim in ("How big", "Smallest p", UNFOUND, NOT_THE_GROUPS, "A gap"):
        assert claim not in screen


def test_where_nothing_is_found_the_largest_gap_that_is_possible_is_told_and_is_larger_for_fewer_narratives() -> None:
    def possible(n: int, gap: float = 0.0) -> dict[str, float]:
        screen = screen_of({name: lambda t: gap * own(t) for name in "ab"}, n=n)
        sure = screen.partition("How sure:")[2].partition("This does not show")[0]
        found = re.findall(r"a (gap|difference) .*? may be as large as (\d+\.\d+) standard deviations", sure)
        return {what: float(size) for what, size in found}

    many, few = possible(60), possible(12)
    assert set(many) == set(few) == {"gap", "difference"}
    assert all(0 < many[what] < few[what] for what in many)
    assert set(possible(60, gap=5.0)) == {"difference"}  # every measure has the gap; no group differs


def test_where_all_is_found_nothing_is_said_to_be_undecided() -> None:
    screen = screen_of({"a": lambda t: 3 * own(t), "b": lambda t: 3 * own(t)})
    assert "religion: whose side? A gap, which repeated words alone could cause, in 2 measures (2 tested)" in screen
    assert UNFOUND not in screen
    assert NONE_LESS in screen
    assert NO_GAP not in screen
    assert NO_GAP_NONE_LESS not in screen


def test_a_measure_whose_gap_is_the_same_in_every_narrative_is_not_said_to_show_none() -> None:
    """Three points more to the own group in each reply and no noise: a gap that nobody can test, and no lack of one."""
    gaps = {"a": lambda t: 3 * own(t), "b": nothing}
    screen = screen_of(gaps, sd={"a": 0.0, "b": 1.0})
    assert "religion: whose side? No gap is found (1 tested, 1 could not be)" in screen
    alone = screen_of({"a": gaps["a"]}, sd=0.0)
    assert "religion: whose side? Nothing could be tested" in alone
    for claim in ("tested)", "How it varies", "No gap"):
        assert claim not in alone
    assert NO_GAP_NONE_LESS in alone


@pytest.mark.parametrize("status", ["refused", "empty", "failed", "other_script"])
def test_a_model_that_wrote_nothing_is_said_to_have_been_asked_and_no_more(status: str) -> None:
    screen = screen_of({"a": nothing}, status=status)
    asked = "was asked to speak as one person and to write replies to 24 accounts by people of the same and of other"
    assert f"a model {asked} groups." in screen
    assert "religion: whose side? Nothing could be tested" in screen
    assert "wrote" not in screen


@pytest.mark.parametrize(("n", "said"), [(1, "1 account by"), (24, "24 accounts by")])
def test_one_account_is_one(n: int, said: str) -> None:
    assert f"to write replies to {said} people" in screen_of({"a": nothing}, n=n)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (Emotion.words, "to name the emotion in 24 things said by people of the same and of other groups."),
        (Cause.words, "to copy the words that brought on the emotion in 24 things said by people of the same and of"),
    ],
)
def test_what_was_asked_is_what_the_task_asks(words, asked: str) -> None:
    screen = screen_of({"a": nothing}, words=words)
    assert asked in screen
    assert "replies" not in screen.partition("This does not show")[0].partition("was asked")[2]
    assert words.no_better in screen


def test_an_echo_of_invented_groups_too_is_counted_as_one_and_a_gap_beyond_it_is_one_between_groups() -> None:
    gaps = {"a": lambda t: 3 * of_words(t), "b": lambda t: 3 * own(t) * (t["dimension"] == "religion").to_numpy(float)}
    screen = screen_of(gaps, invented=True)
    assert "religion: whose side? A gap in these pairs of words in 1 measure (2 tested)" in screen
    assert (
        "δ is above 0 in 1 of 2 tests, below 0 in 0 and undecided in 1; 1 not distinguishable from invented groups."
        in screen
    )
    assert NO_GROUPS in screen
    assert NOT_THE_GROUPS not in screen
    echo = screen_of({"a": gaps["a"]}, invented=True)
    assert "religion: whose side? Not distinguishable from invented groups (1 tested)" in echo
    beyond = screen_of({"b": gaps["b"]}, invented=True)
    assert NO_GROUPS not in beyond
    assert "invented" not in beyond


def test_a_gap_that_turns_once_that_of_invented_groups_is_taken_off_is_undecided() -> None:
    """In-group +1 for real groups, +3 for invented ones: what is left is −2, which these groups do not show."""

    def turned(table: pd.DataFrame) -> np.ndarray:
        return own(table) * np.where(table["dimension"] == "religion", 1.0, 3.0)

    screen = screen_of({"a": turned}, invented=True)
    assert "religion: whose side? Undecided (1 tested)" in screen
    assert "δ is above 0 in 0 of 1 test, below 0 in 0 and undecided in 1." in screen


def test_of_several_dimensions_the_largest_gap_is_told_with_its_own() -> None:
    def gap(table: pd.DataFrame) -> np.ndarray:
        return own(table) * np.where(table["dimension"] == "age", -4.0, 1.5)

    screen = screen_of({"a": gap}, dimensions=("religion", "age"))
    assert re.search(r"How big: the largest gap found, Measure a \(age\), is \d", screen)


def test_of_many_dimensions_those_with_the_most_gaps_are_shown() -> None:
    def gap(table: pd.DataFrame) -> np.ndarray:
        return 3 * own(table) * table["dimension"].isin(["d1", "d4"]).to_numpy(float)

    names = tuple(f"d{place}" for place in range(5))
    screen = screen_of({"a": gap}, dimensions=names)
    shown = re.findall(r" (d\d|all dimensions): whose side\? (?=A gap|No gap)", screen)
    assert shown == ["d1", "d4", "all dimensions"]
    assert "d0: who gets less?" in screen  # each question keeps an answer
    said = "Shown: 4 of 11 findings, chosen by how many gaps and differences were found. The others are below."
    assert said in screen


class Accepted:
    dimension = variant = ""
    code = "accepted"
    text = "1 file had changed."


@pytest.mark.parametrize("remarks", [(), (Accepted(),)])
def test_changed_files_are_denied_where_there_are_some(remarks) -> None:
    screen = screen_of({"a": nothing}, remarks=remarks)
    assert (CHANGED in screen) == bool(remarks)
    assert ("Read with care: files that were changed." in screen) == bool(remarks)


# --- The cards -------------------------------------------------------------------------------------------------------


def test_the_card_says_how_far_the_intervals_of_what_is_undecided_reach() -> None:
    card = screen_of({"a": nothing, "b": lambda t: 0.02 * own(t)}, cards=True)
    said = re.search(
        r"Tested: 2 measures, with p corrected for their number\. Undecided: compatible with no average gap "
        r"\(2\)\. No gap was found, but there may still be one: "
        r"the 95% intervals of single replies' measures reach from −(0\.\d\d) to \+(0\.\d\d) standard deviations\.",
        card,
    )
    assert said is not None
    assert all(0.1 < float(end) < 0.8 for end in said.groups())
    assert "could not be tested" not in card
    assert "in-group minus out-group, with" not in card


def test_the_card_names_the_gaps_of_the_smallest_p_and_says_so_where_there_are_more() -> None:
    gaps = {name: (lambda t, size=size: 2.0**size * own(t)) for size, name in enumerate("abcdefg")}
    few = screen_of({name: gaps[name] for name in "ab"}, cards=True)
    assert "δ, in-group minus out-group, with 95% intervals:" in few
    assert "of the smallest p" not in few
    many = screen_of(gaps, cards=True)
    assert "The 5 gaps of the smallest p, in-group minus out-group, with 95% intervals:" in many
    assert re.findall(r"Measure (\w): [+−]", many) == [*"gfedc"]


def test_the_card_counts_what_could_not_be_tested_and_where_nothing_could_says_where_it_is_told_why() -> None:
    some = screen_of({"a": lambda t: 3 * own(t), "b": nothing}, sd={"a": 0.0, "b": 1.0}, cards=True)
    assert "Tested: 1 measure, with p corrected for their number; 1 more could not be tested." in some
    none = screen_of({"a": nothing}, sd=0.0, cards=True)
    assert "Nothing could be tested All identities have the same score (1)." in none


def test_the_card_names_what_is_not_told_apart_from_invented_groups_and_counts_what_turns_beyond_them() -> None:
    def turned(table: pd.DataFrame) -> np.ndarray:
        return own(table) * np.where(table["dimension"] == "religion", 1.0, 3.0)

    card = screen_of({"a": turned, "b": lambda t: 3 * of_words(t)}, invented=True, cards=True)
    assert "Not distinguishable from invented groups: Measure b" in card
    assert "Undecided: the gap appears only after subtracting the gap of invented groups (1)" in card
    plain = screen_of({"a": lambda t: 3 * own(t)}, cards=True)
    assert "invented" not in plain


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("few_narratives", "too few narratives in which scores differ"),
        ("incomplete_narratives", "many narratives have texts without a score"),
        ("many_missing", "many texts have no score"),
        ("not_additive", "the spread of scores differs between perceivers, and that alone can create a gap"),
    ],
)
def test_a_reason_of_a_measure_speaks_of_texts_and_not_of_ratings(code, words):
    assert reason_in_words(code, {"outcome": "n_words"}) == words
    assert reason_in_words(code, {"outcome": "intensity"}) != words


def test_what_helps_a_measure_and_a_run_without_verdicts():
    row = next(
        iter(rows_of(pd.DataFrame([{"outcome": "n_words", "next_step": "other_scale", "n_needed": np.nan}]), ""))
    )
    assert next_step(row) == "Use another measure."
    row["next_step"] = "missing_shift"
    assert next_step(row) == "Find out why texts have no score."
    assert combined([], {}, confidence=0.95).lead == "To get one, make the report again."
