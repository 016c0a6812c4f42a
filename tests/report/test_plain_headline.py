"""The first screen's answer in everyday words claims what the stored codes do, of one dimension and of several."""

from __future__ import annotations

from dataclasses import fields

import pytest
from markupsafe import Markup
from test_render import verdict_row

from audit.report.disparities import DisparitySentence
from audit.report.numbers import PlacedRow
from audit.report.sentences import WordedResult
from audit.report.verdicts import told_plainly, worded
from audit.tasks.intensity.first_screen import FirstScreenGap, _headline

GAP = {"claim": "groups", "scope": "groups", "ci_low": 1.0, "ci_high": 9.0}
NO_VERDICT = verdict_row("no_verdict", reasons=("manipulation",))
FOUND = {side: verdict_row("gap", direction=side, delta=5.0 * side, **GAP) for side in (1, -1)}


def told(title: str, verdict: dict[str, object], less: DisparitySentence) -> FirstScreenGap:
    row = PlacedRow(verdict, table="verdicts", line=0)
    empty = {each.name: Markup("") for each in fields(WordedResult)[:8]}
    answer = WordedResult(**{**empty, "verdict": worded(row), "plain": told_plainly(row)})
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
    assert said.count("1 other dimension") == 2  # one with a gap, one with a group that gets less


def test_an_undecided_question_is_named_beside_an_answer_to_another() -> None:
    assert "Undecided" not in _headline([told("one", FOUND[1], OPEN)])


@pytest.mark.parametrize("side", [1, -1])
def test_what_exceeds_the_gap_of_invented_groups_is_not_called_the_gap(side: int) -> None:
    row = PlacedRow({**FOUND[side], "control": "placebo"}, table="verdicts", line=0)
    assert "5.00 points more than for invented groups" in _plain(told_plainly(row))
    assert "5.00 points higher" not in _plain(told_plainly(row))
    assert "5.00 points lower" not in _plain(told_plainly(row))


def _plain(words: Markup) -> str:
    return words.striptags()
