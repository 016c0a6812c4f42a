"""The first screen on ratings whose truth is planted: from the files to the page, no row made by hand.

In each case the words of an earlier version, or the same words on other data, would be false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import CASES, EMOTIONS, FIVE_UP_TWO_DOWN, Planted, alone, claims_of, decided, grouped, ratings_of, refused

from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.echo import control_lines
from audit.runs.manifest import Manifest
from audit.runs.outside import describe_outside, read_outside
from audit.statistics.analysis import Analysis, analyse
from audit.statistics.controls import Repetition
from audit.statistics.remarks import FEW_NARRATIVES
from audit.tables.formatting import BEYOND, interval, p_value, points
from audit.tasks.intensity.first_screen import MEANING_IN_SHORT
from audit.tasks.intensity.page import render_report


def analysis_of(
    planted: Planted,
    alter: Callable[[pd.DataFrame], pd.DataFrame] = lambda ratings: ratings,
    repetition: Repetition | None = None,
    remarks: Sequence[object] = (),
) -> tuple[Manifest, Analysis]:
    """Return the manifest and the analysis of planted ratings, altered once they are read; verdicts under remarks."""
    with TemporaryDirectory() as folder:
        planted.write(Path(folder))
        files = Path(folder) / "ratings.csv", Path(folder) / "groups.csv"
        outside = read_outside(*files, low=0, high=100)
        manifest = describe_outside(outside, command="python -m audit report ...", seed=0, model="a model")
    settings = AnalysisSettings(n_permutations=200, **planted.settings)
    manifest = manifest.adding("config", statistics={"confidence": settings.confidence, "margin": settings.margin})
    ratings = alter(outside.ratings)
    analysis = analyse(ratings, scales={"unknown": (0, 100)} | _scales(ratings), seed=0,
                       settings=settings, repetition=repetition or Repetition(manifest.stems))  # fmt: skip
    return manifest, decided(analysis, margin=settings.margin, remarks=remarks)


def page_of(
    planted: Planted,
    alter: Callable[[pd.DataFrame], pd.DataFrame] = lambda ratings: ratings,
    repetition: Repetition | None = None,
) -> tuple[str, Analysis]:
    """Return the whole page of planted ratings, altered once they are read, as text, and the analysis that it is of."""
    manifest, analysis = analysis_of(planted, alter, repetition)
    page = render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=analysis.remarks)
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", claims_of(page), flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|dfn|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("&#39;", "'").split()), analysis


def _scales(ratings: pd.DataFrame) -> dict[str, tuple[float, float]]:
    return {str(variant): (0, 100) for variant in ratings["variant"].unique()}


@cache
def shown(case: str) -> tuple[str, str, Analysis]:
    """Return the first screen of a planted case, what lies beneath it, and its analysis."""
    text, analysis = page_of(CASES[case]())
    screen, _, beneath = text.partition("Evidence: whose side? In-group minus out-group")
    return screen, beneath, analysis


def headline(analysis: Analysis) -> pd.Series:
    gap = analysis.tables["gap"]
    return gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0]


def test_opposite_gaps_of_emotions_are_named_and_no_verdict_covers_them() -> None:
    screen, beneath, analysis = shown("b1-emotions")
    assert abs(headline(analysis)["delta"]) < 0.2
    assert (
        "No average gap larger than 4.00 points in these pairs of words, including repeated words; not shown for "
        "anger, fear and 3 more" in screen
    )
    assert re.search(
        r"Beyond the margin of 4\.00 points, which repeated words alone could cause: anger −7\.\d\d, fear −7\.\d\d and "
        r"3 more\.",
        screen,
    )
    assert not re.search(r"No gap larger than \d", screen)
    assert "What next: The average is clear, but not every emotion and group" in screen
    assert re.search(
        r"Any average gap in these pairs of words is smaller than \d\.\d\d points, including repeated words\.", beneath
    )
    assert not re.search(r"(?<!average )gap is smaller than [\d<]", beneath)
    members = analysis.tables["families"].query("family == 'emotion'").set_index("member")["delta"]
    assert [members[name] for name in EMOTIONS] == pytest.approx(list(FIVE_UP_TWO_DOWN.values()), abs=0.6)


def test_one_odd_group_is_named_alone() -> None:
    screen, _, analysis = shown("b1-group")
    assert headline(analysis)["delta"] == pytest.approx(3, abs=0.3)
    assert "Undecided at a margin of 4.00 points +2.80" in screen
    assert re.search(
        r"Beyond the margin of 4\.00 points, which repeated words alone could cause: group 03 \+3[56]\.\d\d\. ", screen
    )
    assert "Different from the other emotions" not in screen
    assert not [name for name in alone(12).values() if name in screen and name != "group 03"]


def test_what_another_tool_asked_is_not_run_again_and_a_model_without_a_name_is_not_called_by_its_file() -> None:
    screen, beneath, _ = shown("b1-group")
    assert "What next: Collect ratings of more narratives." in screen
    assert "run again with" not in (screen + beneath).lower()
    manifest, analysis = analysis_of(CASES["b1-group"]())
    files = manifest.adding("model", name="ratings.csv"), manifest.adding("model", name="gpt")
    asked = [
        render_report(manifest=each, tables=analysis.tables, figures={}, remarks=analysis.remarks).summary.asked
        for each in files
    ]
    assert [re.search(r"ratings: <bdi>(.*?)</bdi> was asked", each)[1] for each in asked] == ["a model", "gpt"]


def test_what_limits_every_group_stands_once_above_the_table_and_what_limits_some_in_their_rows() -> None:
    _, beneath, analysis = shown("b1-group")
    limits = deciding_limits(analysis)
    assert len(limits) == 12
    shared = set.intersection(*limits.values())
    assert shared == {"margin_open", "one_term"}
    table = beneath[beneath.index("What limits every answer:") :].partition("The groups' terms, invented groups")[0]
    assert table.count("one term per group cannot tell a group from its word") == 1
    own = sum("bystander" in each for each in limits.values())
    assert table.count("it differs only because other groups do") == own > 0


def deciding_limits(analysis: Analysis) -> dict[str, set[str]]:
    rows = analysis.tables["disparity"]
    rows = rows[rows["headline"] & (rows["outcome"] == "intensity") & (rows["view"] == "all")]
    return {row["group"]: {*row["limits"].split("; ")} for row in rows.to_dict("records")}


def test_an_odd_group_has_a_gap_of_its_own_without_a_margin_and_none_beyond_a_wide_one() -> None:
    planted = CASES["b1-group"]()
    screens = [page_of(Planted(planted.ratings, planted.groups, margin))[0] for margin in ({}, {"margin": 40})]
    without, wide = (screen.partition("Evidence: whose side? In-group")[0] for screen in screens)
    own = r"With their own gap, which repeated words alone could cause: group 03 \+3\d\.\d\d\. "
    assert re.search(own, without)
    assert "No gap larger than 40.00 points, on average or in any emotion or group, including repeated words" in wide
    assert "group 03" not in wide.partition("How it varies: ")[2]


def test_where_nothing_differs_the_verdict_is_about_every_part_and_claims_no_sameness() -> None:
    screen, _, _ = shown("alike")
    assert (
        "No gap larger than 4.00 points in these pairs of words, on average or in any emotion or group, including "
        "repeated words" in screen
    )
    assert (
        "No pair of groups stands out, and no gap was found for any single emotion or group. There may still be one."
        in screen
    )


def test_no_sentence_says_that_the_in_group_was_rated_higher_where_its_mean_is_lower() -> None:
    screen, beneath, analysis = shown("b3-unbalanced")
    row = headline(analysis)
    assert row["delta"] == pytest.approx(2.85, abs=0.15)
    assert (row["raw_in"], row["raw_out"]) == pytest.approx((46.0, 51.1), abs=0.1)
    assert "An average gap towards the in-group" in screen
    assert re.search(r"The plain means point the other way: 4[56]\.\d\d in-group and 51\.\d\d out-group\.", screen)
    assert MEANING_IN_SHORT.striptags() in screen
    assert BEYOND in beneath
    for sentence in re.split(r"(?<=[.;]) ", screen + beneath):
        if re.search(r"rated (\S+ points )?(higher|lower)|rated (higher|lower)", sentence):
            of_groups = "than the others" in sentence or "than the other groups" in sentence  # who gets less
            known = "fter removing" in sentence or "account for" in sentence or "unspecified" in sentence
            assert known or of_groups, sentence


def test_plain_means_that_agree_stay_beneath() -> None:
    screen, beneath, _ = shown("alike")
    assert "lain means" not in screen
    assert "Plain means: 50." in beneath


@pytest.mark.parametrize("case", ["few-narratives", "refused-when-high"])
def test_nothing_is_ruled_out_under_a_banner_that_denies_it(case: str) -> None:
    screen, beneath, _ = shown(case)
    assert "Read with care" in screen
    assert "Undecided at a margin of 4.00 points: " in screen
    for claim in ("ruled out", "No average gap", "No gap larger than 4", "smaller than"):
        assert (
            claim not in screen + beneath.partition("Each verdict uses one estimate")[0].partition("How δ is judged")[0]
        )


def test_a_gap_hidden_by_refusals_is_not_acquitted_and_the_refusals_have_a_card() -> None:
    """The planted gap is 6; what is left of it is compatible with none."""
    screen, _, analysis = shown("refused-when-high")
    assert headline(analysis)["ci_low"] < 0
    assert (
        "Undecided at a margin of 4.00 points: many ratings are missing, many narratives are incomplete and refusals "
        "differ between in-group and out-group" in screen
    )
    assert re.search(
        r": refusals The model refuses more often if the person is of its own group \+5\d\.\d\d percentage points 95%",
        screen,
    )


def test_missing_ratings_that_could_undo_a_part_or_the_average_leave_it_open() -> None:
    """Ten of 2,400 ratings are missing, of joy alone: 50 points more in them give joy 4.2, and the average 0.8."""
    groups = alone(4)
    ratings = ratings_of(groups, n=150)
    own = (ratings["perceiver"] == "a term 00") & (ratings["experiencer"] == "a term 00")
    gone = own & ratings["narrative_id"].isin([f"n{5 * k:03d}" for k in range(10)])
    said = {
        margin: page_of(
            Planted(
                ratings.assign(rating=ratings["rating"].mask(gone), status=ratings["status"].mask(gone, "failed")),
                grouped(groups),
                {"margin": margin},
            )
        )[0].partition("Evidence: whose side? In-g")[0]
        for margin in (4.0, 0.5)
    }
    assert re.search(
        r"No average gap larger than 4\.00 points in these pairs of words, including repeated words; not shown for "
        r"(joy|group 00) and (joy|group 00) \+",
        said[4],
    )
    assert "Undecided at a margin of 0.50 points: missing ratings could change the answer" in said[0.5]


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("constant", "Every rating was 50"),
        ("constant-within-narratives", "Within each narrative all ratings are the same"),
    ],
)
def test_a_model_that_tells_no_identities_apart_is_said_to(case: str, verdict: str) -> None:
    screen, beneath, _ = shown(case)
    assert "identity: whose side? No verdict: all identities were rated alike 0.00 points no interval" in screen
    assert f"{verdict}: such ratings can neither show a gap nor rule one out." in beneath
    for claim in ("rated 0.00 points", "No gap larger", "No average gap", "compatible with no"):
        assert claim not in screen
    assert "Any average gap is smaller" not in beneath


def test_baselines_that_differ_are_no_part_of_every_rating() -> None:
    planted = CASES["constant"]()
    baseline = planted.ratings.loc[planted.ratings["perceiver"] == "a term 00"]
    rows = pd.concat([planted.ratings, baseline.assign(perceiver="a person", rating=70.0)])
    groups = pd.concat([planted.groups, pd.DataFrame({"term": ["a person"], "group": ["unspecified"]})])
    assert "Every rating between identities was 50" in page_of(Planted(rows, groups))[0]


def test_one_answer_to_nearly_all_prompts_is_said_in_the_card() -> None:
    screen, _, _ = shown("nearly-constant")
    assert "The rating is 50 in 95.0% of 480 prompts." in screen
    assert "The rating is" not in shown("alike")[0]


@pytest.mark.parametrize("case", [*CASES])
def test_one_level_of_confidence_and_no_d_z_on_the_first_screen(case: str) -> None:
    screen, beneath, _ = shown(case)
    assert set(re.findall(r"\d+(?=% (?:t )?interval)", screen)) == {"95"}
    assert re.search(r"\bd ?z\b", screen) is None
    assert "from the same t distribution" in beneath


@pytest.mark.parametrize("case", [*CASES])
def test_size_stands_beside_every_gap_of_the_first_screen(case: str) -> None:
    screen, _, analysis = shown(case)
    row = headline(analysis)
    has_size = "times the spread (SD) of the ratings of one narrative" in screen
    assert has_size == (row["se"] > 0)


def test_the_corrected_p_is_of_all_dimensions_of_the_page() -> None:
    """Of ten dimensions one has a small gap: p alone finds it, the corrected p does not."""
    groups = alone(3)
    parts = [
        ratings_of(groups, n=25, gap=lambda emotion, group, k=k: 1.0 if k == 0 else 0.0, sd=2.0, seed=k).assign(
            dimension=f"d{k}"
        )
        for k in range(10)
    ]
    text, analysis = page_of(Planted(pd.concat(parts), grouped(groups)))
    gap = analysis.tables["gap"].query("headline and scope == 'narratives' and dimension != 'all'")
    taken_back = gap.query("p < 0.05 and p_adjusted >= 0.05")
    assert len(taken_back) > 0
    assert text.partition("Evidence: whose side? In-group")[0].count("not found after correction") == len(taken_back)
    assert "corrected p (Holm) is for the 10 average gaps of the run, without the mean over dimensions." in text


@pytest.mark.parametrize("gap", [0.0, 0.5, 12.0])
@pytest.mark.parametrize("n", [3, FEW_NARRATIVES - 1, FEW_NARRATIVES])
def test_verdict_interval_and_p_never_contradict_each_other(n: int, gap: float) -> None:
    """Of few narratives nothing is found, however far from 0 their interval is."""
    groups = alone(4)
    text, analysis = page_of(Planted(ratings_of(groups, n=n, gap=lambda emotion, group: gap), grouped(groups)))
    row = headline(analysis)
    found = not row["ci_low"] <= 0 <= row["ci_high"]
    assert found == (row["p"] < 0.05)
    assert found or gap < 12
    screen = text.partition("Evidence: whose side? In-group")[0]
    enough = n >= FEW_NARRATIVES
    assert bool(re.search("(An|A tiny) average gap towards the", screen)) == (found and enough)
    assert ("No average gap found" in screen) == (not found and enough)
    assert ("Undecided: too few narratives" in screen) != enough
    assert "Each verdict uses one estimate" in screen
    assert "disagree" not in text.partition("How δ is judged")[0]


def test_an_identity_without_a_rating_is_none_of_those_that_the_interval_speaks_about() -> None:
    groups = alone(6)
    ratings = ratings_of(groups, n=20)
    of_it = (ratings["perceiver"] == "a term 00") | (ratings["experiencer"] == "a term 00")
    text, _ = page_of(Planted(refused(ratings, of_it), grouped(groups)))
    # Of five groups a verdict takes the groups as a sample, so that this is said of the gap over narratives alone.
    named = "a term 01, a term 02, a term 03, a term 04, a term 05"
    assert (
        f"The interval of δ (for these words only) covers narratives like these, and exactly these identities: {named}."
        in text
    )
    assert "The perceiver 'a term 00' has no rating at all, so δ only covers the others." in text


# --- Group or words --------------------------------------------------------------------------------------------------

TWO_TERMS = {
    "a Buddhist": "Buddhist", "a follower of the Noble Eightfold Path": "Buddhist",
    "a Christian": "Christian", "a follower of Jesus": "Christian",
    "a Hindu": "Hindu", "a follower of the Bhagavad Gita": "Hindu",
    "a Muslim": "Muslim", "a follower of Islam": "Muslim",
}  # fmt: skip
INVENTED = {f"a {name}": name for name in ("Veltan", "Dorrish", "Kessolti", "Omlunder")}


def echoing(*, group: float = 0.0, words: float = 0.0, invented: float | None = None, terms: int = 2, sd: float = 1.0):
    """Ratings with a gap of groups and an echo of words; of invented groups, if asked, with an echo of their own."""
    groups = dict(list(TWO_TERMS.items())[:: 3 - terms])
    tables = []
    for dimension, own, echo, gap in (("religion", groups, words, group), ("invented", INVENTED, invented, 0.0)):
        if echo is None:
            continue
        table = ratings_of(own, n=40, gap=lambda emotion, member, gap=gap: gap, sd=sd, seed=len(own) + len(tables))
        table["rating"] += echo * (table["perceiver"] == table["experiencer"])
        tables.append(table.assign(dimension=dimension))
    return Planted(pd.concat(tables, ignore_index=True), grouped(groups | INVENTED))


def as_wordings(ratings: pd.DataFrame) -> pd.DataFrame:
    wording = ratings["variant"].astype(str).str.removeprefix("wording ").astype(int)
    return ratings.assign(wording=wording, variant="origin")


def first_screen(planted: Planted, *, worded: bool = False) -> tuple[str, Analysis]:
    alter = as_wordings if worded else lambda ratings: ratings
    text, analysis = page_of(
        planted, alter, Repetition({"religion": {term: term for term in TWO_TERMS}}, placebo=("invented",))
    )
    return text.partition("Evidence: whose side? In-group minus out-group")[0], analysis


def test_an_echo_of_words_is_no_gap_between_groups() -> None:
    screen, analysis = first_screen(echoing(words=2.0))
    assert headline(analysis)["delta"] == pytest.approx(0, abs=0.2)
    assert "gap between groups" not in screen
    assert "No average gap found in these pairs of words" in screen
    assert re.search(r"δ counts only pairs described in different words\. Counting all pairs: \+1\.0\d", screen)


def test_a_gap_of_other_words_is_one_of_these_pairs_and_of_five_groups_one_between_groups() -> None:
    screen, _ = first_screen(echoing(group=-1.5, words=3.0, invented=3.0))
    assert "An average gap in these pairs of words, towards the out-group" in screen
    assert "Collect ratings of at least five groups and two terms each: fewer cannot show a gap between" in screen
    assert "With their own gap, in these pairs of words: " in screen
    assert "Of 24 ways to assign the terms to groups, the true one gives the largest gap." in screen
    assert re.search(
        r"Counting only pairs with identical words: \+1\.5\d \([^)]*\), and \+3\.\d\d \([^)]*\) for invented groups",
        screen,
    )
    six = {f"a {word} {k}": f"group {k}" for k in range(6) for word in ("first", "second")}
    ratings = ratings_of(six, n=30, gap=lambda emotion, group: -1.5)
    repetition = Repetition({"identity": {term: term for term in six}})
    page, analysis = page_of(Planted(ratings, grouped(six)), repetition=repetition)
    of_six = page.partition("Evidence: whose side? In-group")[0]
    assert "An average gap between groups, towards the out-group −1.5" in of_six
    assert "at least five groups" not in of_six
    # An interval covers what its estimate tests: with four groups the words are fixed, six groups are a sample.
    assert re.search(r"interval \S+ to \S+, for narratives like these, but only these words for these groups ", screen)
    assert re.search(r"interval \S+ to \S+, for narratives and groups like these ", of_six)
    assert "for narratives and groups like these" not in screen
    assert "only these words for these groups" not in of_six
    alone, [verdict] = headline(analysis), analysis.tables["verdicts"].to_dict("records")
    assert verdict["scope"] == "groups"
    assert verdict["ci_low"] < alone["ci_low"] < alone["ci_high"] < verdict["ci_high"]
    assert_labelled(page, alone, verdict)


def assert_labelled(page: str, alone: pd.Series, verdict: dict[str, Any]) -> None:
    """The numbers over narratives alone are called so, and those that the verdict rests on stand beside them."""
    spread, decided = (f"95% interval {interval(row['ci_low'], row['ci_high'])}" for row in (alone, verdict))
    assert decided != spread
    said, _, after = page.partition("For these words only, δ = ")[2].partition(" The verdict uses ")
    assert f"({spread}" in said
    used = f"{points(verdict['delta'])} points ({decided}; {p_value(verdict['p'])})."
    assert after.startswith(used.replace("<", "&lt;"))
    assert "Its interval also counts how much δ differs between groups." in after
    assert "these identities, for these words only" in page
    assert "For these words only: with this many narratives, a true gap of " in page
    # Nowhere else does the interval over narratives alone stand as if it were the answer's.
    assert spread not in page.partition("Evidence: whose side? ")[0]


def test_no_more_than_invented_groups_show_is_no_gap() -> None:
    screen, analysis = first_screen(echoing(words=2.0, invented=2.0, terms=1))
    assert headline(analysis)["delta"] == pytest.approx(2, abs=0.2)
    assert "No average gap found in these pairs of words" in screen
    assert "An average gap" not in screen


def test_what_appears_only_beyond_invented_groups_is_not_found() -> None:
    screen, analysis = first_screen(echoing(words=1.0, invented=3.0, terms=1))
    assert headline(analysis)["delta"] > 0.5
    assert "Undecided: the gap appears only after subtracting the gap of invented groups −2." in screen
    assert "An average gap" not in screen
    assert re.search(r"For invented groups, [^.]* is \+3\.\d\d \([^)]*\)\. After subtracting that: −2\.\d\d \(", screen)


def test_without_controls_a_gap_is_not_called_one_between_groups() -> None:
    screen, _ = first_screen(echoing(words=2.0, terms=1))
    assert "An average gap towards the in-group, which repeated words alone could cause" in screen
    # Another tool asked: our options do not change that.
    assert "What next: Use two terms per group that share no word, with their stems" in screen
    assert "stimuli.placebo=1" not in screen.partition("Print this summary")[0]
    assert "gap between groups" not in screen
    assert "Repeated words are not controlled" in screen


def test_a_gap_in_these_wordings_alone_is_said_to_be_that() -> None:
    planted = echoing(group=1.0, invented=0.0)
    member = TWO_TERMS | INVENTED
    own = planted.ratings["perceiver"].map(member) == planted.ratings["experiencer"].map(member)
    worded = [
        planted.ratings.assign(variant=f"wording {k}", rating=planted.ratings["rating"] + shift * own)
        for k, shift in enumerate(np.linspace(-3.0, 3.5, 8))
    ]
    screen, analysis = first_screen(Planted(pd.concat(worded, ignore_index=True), planted.groups), worded=True)
    assert headline(analysis)["ci_low"] > 0.5
    assert "An average gap in these pairs of words, towards the in-group; not shown for other wordings" in screen
    assert re.search(r"Over 8 wordings of the prompt, for wordings like these: \+1\.\d\d \(−", screen)


def test_the_tipping_point_says_of_which_missing_ratings_it_is() -> None:
    groups = alone(6)
    ratings = ratings_of(groups, n=20, gap=lambda emotion, group: 6.0, sd=4.0)
    of_one = ratings["perceiver"] == "a term 00"
    high = (ratings["perceiver"] == ratings["experiencer"]) & (ratings["rating"] > 56)
    missing = (high, high | of_one, of_one)
    own, both, one = (page_of(Planted(refused(ratings, gone), grouped(groups)))[0] for gone in missing)
    assert re.search(r"If all missing ratings were \d\.\d\d points lower than expected, δ would be 0\.", own)
    some = "missing ratings (between identities that have some at all)"
    assert re.search(re.escape(f"If all {some}") + r" were \d\.\d\d points lower than expected, δ would", both)
    assert "than expected, δ would be 0." not in one


def test_a_tipping_point_is_told_where_ratings_lie_beyond_the_scale() -> None:
    groups = alone(4)
    ratings = ratings_of(groups, n=20, gap=lambda emotion, group: 6.0, sd=4.0)
    gone = (ratings["perceiver"] == ratings["experiencer"]) & (ratings["rating"] > 56)
    planted = Planted(refused(ratings, gone), grouped(groups))
    beyond = lambda read: read.assign(intensity=read["intensity"].where(read.index != 1, 104.0))  # noqa: E731
    page, analysis = page_of(planted, beyond)
    row = analysis.tables["sensitivity"].set_index("check").loc["tipping_point"]
    assert row["note"].startswith("ratings lie beyond the scale")
    assert "would make δ 0" not in page
    assert "If all missing ratings were" in page


def test_identities_that_add_up_and_nothing_else_are_told_as_no_gap_of_any_narrative() -> None:
    """Perceiver + experiencer + narrative, without noise: no rating of 0.00 points higher is there to be told of."""
    groups = alone(6)
    ratings = ratings_of(groups, n=20, sd=0.0)
    perceivers = dict(zip(groups, (-20.0, -9.0, -3.0, 2.0, 8.0, 20.0), strict=True))
    experiencers = dict(zip(groups, (-25.0, -7.0, 0.0, 3.0, 10.0, 22.0), strict=True))
    rating = 50 + ratings["perceiver"].map(perceivers) + ratings["experiencer"].map(experiencers)
    rating += ratings["narrative_id"].str[1:].astype(int) / 4
    text, analysis = page_of(
        Planted(ratings.assign(rating=rating), grouped(groups), {"margin": 4, "sensitivity": True})
    )
    assert headline(analysis)["delta"] == 0
    assert "rated 0.00 points" not in text
    assert "identity: whose side? No answer: δ has no interval 0.00 points no interval" in text
    assert f"Every narrative's gap is 0, {BEYOND}. Its uncertainty could not be computed." in text
    assert "for 0 tests" not in text
    ranks = analysis.tables["sensitivity"].set_index("check").loc["ranks"]
    assert abs(ranks["delta"]) > 1
    assert "ranks do not add up: where perceivers or experiencers differ much, they can show a gap" in text


def test_a_gap_that_correction_takes_back_is_not_found() -> None:
    """A verdict that finds a gap above a line that finds none would leave the reader to choose."""
    groups = alone(3)
    parts = [
        ratings_of(groups, n=25, gap=lambda emotion, group, k=k: 1.0 if k == 0 else 0.0, sd=2.0, seed=k).assign(
            dimension=f"d{k}"
        )
        for k in range(10)
    ]
    _, analysis = page_of(Planted(pd.concat(parts), grouped(groups), {"margin": 40}))
    rows = analysis.tables["verdicts"].query("dimension != 'all'")
    back = rows.query("p < 0.05 and p_adjusted >= 0.05")
    assert len(back) > 0
    assert not (back["code"] == "gap").any()
    assert (rows.query("code == 'gap'")["p_adjusted"] < 0.05).all()


def test_a_margin_at_the_bound_is_not_beyond_it() -> None:
    groups = alone(4)
    ratings = ratings_of(groups, n=120)
    row = page_of(Planted(ratings, grouped(groups), {"margin": 50}))[1].tables["verdicts"].iloc[0]
    bound = float(row["supported_margin"])
    assert np.isfinite(bound)
    for margin, ruled_out in ((bound * 0.999, False), (bound * 1.001, True)):
        screen, analysis = page_of(Planted(ratings, grouped(groups), {"margin": margin}))
        assert (analysis.tables["verdicts"].iloc[0]["code"] == "within") == ruled_out
        first = screen.partition("Evidence: whose side? In-g")[0]
        assert bool(re.search("o (average )?gap larger than", first)) == ruled_out


def test_an_intersection_is_compared_with_those_who_share_nothing_in_its_plain_means_too() -> None:
    """6 points where both are shared, 2 where one is: against none 6, against all others 5."""
    parts = [(race, faith) for race in ("white", "Black", "Asian") for faith in ("Hindu", "Jew", "Muslim")]
    groups = {f"a {race} {faith}": f"{race} × {faith}" for race, faith in parts}
    told = dict(zip(groups, parts, strict=True))

    def shared(table: pd.DataFrame) -> list[int]:
        pairs = zip(table["perceiver"].astype(str), table["experiencer"].astype(str), strict=True)
        return [sum(one == other for one, other in zip(told[p], told[e], strict=True)) for p, e in pairs]

    def crossed(read: pd.DataFrame) -> pd.DataFrame:
        n = pd.Series(shared(read), index=read.index)
        return read.assign(
            dimension=read["dimension"].cat.rename_categories(["race_ethnicity+religion"]),
            n_shared=n.astype(read["n_shared"].dtype),
            in_group=(n == 2).astype(read["in_group"].dtype),
        )

    ratings = ratings_of(groups, n=30)
    rating = ratings["rating"] + np.array([0.0, 2.0, 6.0])[shared(ratings)]
    text, analysis = page_of(Planted(ratings.assign(rating=rating), grouped(groups), {"margin": 4}), crossed)
    row = headline(analysis)
    assert row["delta"] == pytest.approx(6, abs=0.25)
    assert row["raw_in"] - row["raw_out"] == pytest.approx(6, abs=0.25)
    screen, _, beneath = text.partition("Evidence: whose side? In-group")
    assert (
        "race/ethnicity × religion: whose side? An average gap towards the in-group, which repeated words alone could "
        "cause" in screen
    )
    assert re.search(
        r"experiencers who share every crossed dimension with the perceiver were on average rated [56]\.\d\d points "
        "higher than those who share none",
        beneath,
    )
    assert "in-group experiencers were on average" not in beneath
    assert "This run says nothing about other identities: the groups of an intersection share dimensions" in beneath


def test_a_terminal_says_of_each_gap_whether_words_were_controlled() -> None:
    [plain] = control_lines(shown("b1-group")[2].tables["controls"])
    assert plain.startswith("group or words? identity (outside): Repeated words are not controlled:")
    held = control_lines(first_screen(echoing(group=-1.5, words=3.0, invented=3.0))[1].tables["controls"])
    assert "group or words? religion (outside): δ counts only pairs described in different words" in next(held)
