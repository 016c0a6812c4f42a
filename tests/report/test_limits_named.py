"""Each remark that limits a claim is named on the first screen and explained in the banner; without it, it is not."""

from __future__ import annotations

import re
from functools import cache

import pytest
from planted import CASES
from test_first_screen import analysis_of

from audit.report.render import render_report
from audit.report.sentences import LIMITS
from audit.report.verdicts import RESERVATIONS


class Remarked:
    """A remark of a code on the one dimension of planted ratings."""

    dimension, variant = "identity", "outside"

    def __init__(self, code: str, place: int) -> None:
        self.code, self.text = code, f"What {code} says{place or ''}."


@cache
def page_with(*codes: str) -> str:
    """Return the text of a page of ratings without any gap, a margin of 4 points and these remarks alone.

    Of two of one code the second has other words, as those of two dimensions do.
    """
    manifest, analysis = analysis_of(CASES["alike"]())
    page = render_report(
        manifest=manifest,
        tables=analysis.tables,
        figures={},
        remarks=[Remarked(code, codes[:place].count(code)) for place, code in enumerate(codes)],
    )
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("&#39;", "'").split())


def test_without_a_remark_nothing_is_to_be_read_with_care() -> None:
    text = page_with()
    assert "Read with care" not in text
    assert "these data limit what can be claimed. " not in text
    assert "No gap larger than 4.00 points, on average or in any emotion or group" in text


@pytest.mark.parametrize("code", [*LIMITS])
def test_a_limit_is_named_above_and_explained_in_the_banner(code: str) -> None:
    title, why = LIMITS[code]
    said, of_two = page_with(code), page_with(code, code)
    for text in (said, of_two):
        assert f"Read with care: {title[:1].lower()}{title[1:]}. Why that matters" in text
    assert f"{title} (identity): What {code} says." in said
    assert f"{title} (identity): {why}." in of_two
    others = [other for other, _ in LIMITS.values() if other != title]
    assert not [other for other in others if f"{other} (identity):" in said + of_two]


@pytest.mark.parametrize("code", [*RESERVATIONS])
def test_nothing_is_ruled_out_under_a_remark_that_the_data_could_be_otherwise_and_what_it_takes_to_be_so_is_said(
    code: str,
) -> None:
    reason, assumption = RESERVATIONS[code]
    text = page_with(code)
    where = ", in the model's probabilities" if code == "number_mass" else ""
    assert f"Undecided against 4.00 points{where}: {reason}" in text
    assert re.search(rf"The 95% interval reaches \d\.\d\d points from 0\. It holds if {re.escape(assumption)}\.", text)
    for claim in ("No gap larger than 4.00", "No average gap larger", "Average gaps larger than"):
        assert claim not in text.partition("The verdicts")[0]


@pytest.mark.parametrize("code", sorted({*LIMITS} - {*RESERVATIONS} - {"manipulation", "noise_floor"}))
def test_other_limits_leave_the_verdict_as_it_is(code: str) -> None:
    assert "No gap larger than 4.00 points, on average or in any emotion or group" in page_with(code)


def test_the_same_assumption_is_told_once() -> None:
    text = page_with("many_missing", "incomplete_narratives", "few_narratives")
    assert "Undecided against 4.00 points: few narratives and many ratings are missing" in text
    assert text.count("missing ratings are like those of the same pairs and narratives") == 1
