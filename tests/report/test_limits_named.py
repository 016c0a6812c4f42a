"""Each remark that limits a claim is named on the first screen and explained in the banner; without it, it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from planted import CASES, decided
from test_first_screen import analysis_of

from audit.report.sentences import LIMITS, OF_METHOD
from audit.report.verdicts import REASONS
from audit.runs.manifest import Manifest
from audit.statistics.analysis import Analysis
from audit.statistics.verdict import _NEXT, HELD_BACK, NOT_RULED_OUT, VOID
from audit.tables.formatting import listed
from audit.tasks.intensity.page import render_report

WITHIN = (
    "No gap larger than 4.00 points in these pairs of words, on average or in any emotion or group, including "
    "repeated words"
)


class Remarked:
    """A remark of a code on the one dimension of planted ratings."""

    dimension, variant = "identity", "outside"

    def __init__(self, code: str, place: int) -> None:
        self.code, self.text = code, f"What {code} says{place or ''}."


@cache
def ratings_with(gap: float) -> tuple[Manifest, Analysis]:
    """Return ratings like those of the case without any gap, but for this one."""
    alike = CASES["alike"]()
    own = alike.ratings["perceiver"] == alike.ratings["experiencer"]
    return analysis_of(replace(alike, ratings=alike.ratings.assign(rating=alike.ratings["rating"] + gap * own)))


@cache
def page_with(*codes: str, gap: float = 0.0) -> str:
    """Return the text of a page of ratings with a gap, a margin of 4 points and these remarks alone.

    Of two of one code the second has other words, as those of two dimensions do.
    """
    manifest, analysis = ratings_with(gap)
    remarks = [Remarked(code, codes[:place].count(code)) for place, code in enumerate(codes)]
    tables = decided(analysis, margin=4.0, remarks=remarks).tables
    page = render_report(manifest=manifest, tables=tables, figures={}, remarks=remarks)
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|dfn|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("&#39;", "'").split())


def test_without_a_remark_nothing_is_to_be_read_with_care() -> None:
    text = page_with()
    assert "Read with care" not in text
    assert "these data limit what can be concluded. " not in text
    assert WITHIN in text


def test_a_limit_of_nearly_every_run_stands_with_the_method_and_warns_nobody() -> None:
    text = page_with("one_cue")
    assert "Read with care" not in text
    assert text.count("What one_cue says.") == 1
    assert text.index("What one_cue says.") > text.index(" Method ", text.index("Groups: who gets less?"))


@pytest.mark.parametrize("code", [code for code in LIMITS if code not in OF_METHOD])
def test_a_limit_is_named_above_and_explained_in_the_banner(code: str) -> None:
    title, why = LIMITS[code]
    said, of_two = page_with(code), page_with(code, code)
    for text in (said, of_two):
        assert f"Read with care: {title[:1].lower()}{title[1:]}. Why that matters" in text
    assert f"{title} (identity): What {code} says." in said
    assert f"{title} (identity): {why}." in of_two
    others = [other for other, _ in LIMITS.values() if other != title]
    assert not [other for other in others if f"{other} (identity):" in said + of_two]


def verdict_with(gap: float, *codes: str) -> str:
    """Return the verdict on ratings with a gap of so many points."""
    said = page_with(*codes, gap=gap)
    return re.search(r" identity: whose side\? ((?:No|An|Undecided).*?) [+−]?\d+\.\d\d points 95% interval", said)[1]


@pytest.mark.parametrize("gap", [0.0, 2.0])
@pytest.mark.parametrize("code", [*HELD_BACK])
def test_what_holds_a_verdict_back_holds_back_what_is_found_as_well_as_what_is_ruled_out(code: str, gap: float) -> None:
    assert verdict_with(gap, code) == f"Undecided at a margin of 4.00 points: {REASONS[code]}"


@pytest.mark.parametrize("gap", [0.0, 2.0])
@pytest.mark.parametrize("code", [*VOID])
def test_there_is_no_verdict_where_ratings_cannot_carry_one(code: str, gap: float) -> None:
    assert verdict_with(gap, code).removesuffix(", in the model's probabilities") == f"No verdict: {REASONS[code]}"


def test_ratings_that_do_not_follow_strength_rule_nothing_out_and_hide_no_gap_that_is_found() -> None:
    code = "intensity_not_followed"
    assert verdict_with(0.0, code) == f"Undecided at a margin of 4.00 points: {REASONS[code]}"
    assert verdict_with(0.3, code) == "An average gap towards the in-group, which repeated words alone could cause"
    assert verdict_with(0.3).endswith(", smaller than 4.00 points")


def test_every_code_that_keeps_a_verdict_back_has_words() -> None:
    assert {*VOID, *HELD_BACK, *NOT_RULED_OUT} | {code for code, _ in _NEXT} <= {*REASONS}


@pytest.mark.parametrize("code", sorted({*LIMITS} - {*VOID, *HELD_BACK, *NOT_RULED_OUT}))
def test_other_limits_leave_the_verdict_as_it_is(code: str) -> None:
    assert WITHIN in page_with(code)


def test_all_that_holds_a_verdict_back_is_said_once() -> None:
    told = listed([REASONS[code] for code in ("few_narratives", "many_missing", "incomplete_narratives")])
    assert verdict_with(0.0, "many_missing", "incomplete_narratives", "few_narratives") == (
        f"Undecided at a margin of 4.00 points: {told}"
    )
