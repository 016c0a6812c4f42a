"""The first screen's answer in everyday words claims what the stored codes do, of one dimension and of several."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
from markupsafe import Markup
from test_render import verdict_row

from audit.report.disparities import DisparitySentence
from audit.report.numbers import PlacedRow
from audit.report.refusals import RefusalGap
from audit.report.sentences import WordedResult
from audit.report.verdicts import Step, VerdictSentence, told_plainly, worded
from audit.tasks.intensity.first_screen import FirstScreenGap, _headline, _next

GAP = {"claim": "groups", "scope": "groups", "ci_low": 1.0, "ci_high": 9.0}
NO_VERDICT = verdict_row("no_verdict", reasons=("manipulation",))
FOUND = {side: verdict_row("gap", direction=side, delta=5.0 * side, **GAP) for side in (1, -1)}


def told(title: str, verdict: dict[str, object], less: DisparitySentence) -> FirstScreenGap:
    row = PlacedRow(verdict, table="verdicts", line=0)
    empty = {each.name: Markup("") for each in fields(WordedResult)[:8]}
    answer = WordedResult(
        **{**empty, "verdict": worded(row, parts="emotion"), "plain": told_plainly(row), "decided": row}
    )
    return FirstScreenGap(title, "", answer, row, less=less)


def of_groups(kind: str, words: str, *, found: bool = False) -> DisparitySentence:
    return DisparitySentence(kind, Markup(words), found=(PlacedRow({}, table="disparity", line=0),) if found else ())


ABSENT = of_groups("absent", "No verdict: the ratings do not match the story")
OPEN = of_groups("undecided", "Undecided: the intervals reach beyond the margin")


def test_of_dimensions_without_a_verdict_nothing_is_said_but_why() -> None:
    said = _headline([told(name, NO_VERDICT, ABSENT) for name in ("one", "two", "three")])
    assert said == told_plainly(PlacedRow(NO_VERDICT, table="verdicts", line=0))


def test_gaps_of_opposite_sides_are_not_called_the_same_and_no_finding_is_left_out() -> None:
    lower = of_groups("gap", "A is rated lower", found=True)
    said = _headline([told("one", FOUND[1], lower), told("two", FOUND[-1], lower), told("three", NO_VERDICT, ABSENT)])
    assert "higher than others" in said
    assert "same" not in said
    assert "A gap the other way is found in <bdi>two</bdi>, see below." in said
    assert "lower or higher in 1 other dimension" in said


def test_a_gap_of_the_same_side_is_not_called_the_other_way() -> None:
    said = _headline([told(name, FOUND[1], OPEN) for name in ("one", "two", "three")])
    assert "A gap is found in 2 dimensions, see below." in said
    assert "other way" not in said


def test_what_is_ruled_out_in_every_dimension_is_said_and_nothing_more() -> None:
    less = of_groups("none", "No group is rated lower or higher than the others by 4.00 points or more")
    within = verdict_row("within", delta=0.1, margin=4.0, scope="groups", ci_low=-1.0, ci_high=1.0)
    both = _plain(_headline([told(name, within, less) for name in ("one", "two")]))
    assert both.startswith(
        "In each of 2 dimensions: This model, when it speaks as one group, rates that group's people"
    )
    assert "within 4.00 points of others on average" in both
    assert "In each of 2 dimensions: No group is rated lower or higher than the others by 4.00 points" in both
    unlike = [within, {**within, "scope": "pairs"}]
    assert "each answer below says of which words" in _headline(
        [told(str(k), row, less) for k, row in enumerate(unlike)]
    )
    left_open = verdict_row("undecided", reasons=("margin_open",), margin=4.0, scope="groups")
    one_open = _headline([told("one", within, less), told("two", left_open, OPEN)])
    assert "In none of 2 dimensions is the model shown to rate its own group higher or lower." in one_open
    assert "In each of" not in one_open


@pytest.mark.parametrize("dimensions", [["one"], ["one", "two"]])
def test_refusals_that_differ_are_the_headline_where_ratings_show_nothing(dimensions) -> None:
    gap = RefusalGap(VerdictSentence("gap", Markup("Its own group is refused more")), *map(Markup, "abcd"), least=1.0)
    undecided = verdict_row("undecided", reasons=("many_missing",))
    for each in ({"refusals": gap}, {"refused": of_groups("gap", "A is refused more", found=True)}):
        said = _plain(_headline([replace(told(name, undecided, OPEN), **each) for name in dimensions]))
        assert re.match(r"(one: )?(Its own group|A) is refused more\. ", said), said
        assert "No group is shown to be rated lower" in said


def test_an_undecided_question_is_named_beside_an_answer_to_another() -> None:
    assert "Undecided" not in _headline([told("one", FOUND[1], OPEN)])


@pytest.mark.parametrize(
    ("side", "less", "said"),
    [
        ("open", "found", "Who gets less is clear; whose side is not. Set the largest gap"),
        ("found", "open", "Whose side is clear; who gets less is not. Run again"),
        ("open", "open", "Set the largest gap"),
        ("found", "found", "No further run is needed"),
        ("absent", "found", "Change the prompt"),
    ],
)
def test_the_next_step_says_which_of_two_questions_it_is_for(side: str, less: str, said: str) -> None:
    rows = {
        "open": verdict_row("undecided", reasons=("holds_zero",), next_step="margin"),
        "found": {**FOUND[1], "next_step": "nothing"},
        "absent": {**NO_VERDICT, "next_step": "other_model"},
    }
    groups = {
        "open": replace(OPEN, step=Step.of("more_narratives")),
        "found": of_groups("gap", "A is rated lower", found=True),
    }
    step = _next([told("one", rows[side], groups[less])])
    assert step.startswith(said)
    assert step.code == {"open open": "margin"}.get(f"{side} {less}", step.code)
    assert _next([told(name, rows["open"], groups["found"]) for name in "ab"]).startswith("Set")


@pytest.mark.parametrize("side", [1, -1])
def test_what_exceeds_the_gap_of_invented_groups_is_not_called_the_gap(side: int) -> None:
    row = PlacedRow({**FOUND[side], "control": "placebo"}, table="verdicts", line=0)
    assert "5.00 points more than for invented groups" in _plain(told_plainly(row))
    assert "5.00 points higher" not in _plain(told_plainly(row))
    assert "5.00 points lower" not in _plain(told_plainly(row))


def _plain(words: Markup) -> str:
    return words.striptags()
