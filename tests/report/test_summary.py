"""What the first screen and the page of paper say, on planted ratings for which each sentence is true, or false."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from planted import Planted, alone, gets_less, grouped, ratings_of, refused, two_words_each
from test_first_screen import analysis_of, echoing, first_screen, headline, page_of, shown

from audit.report.dimensions import Limit
from audit.report.summary import (
    ALIKE_ELSEWHERE,
    CHANGED,
    MOST,
    NO_GAP,
    NO_GAP_NONE_LESS,
    NO_GROUPS,
    NONE_LESS,
    NOT_THE_GROUPS,
    WORDS_DIFFER,
    ShortAnswer,
    summary,
)
from audit.tasks.intensity.first_screen import NOT_FOLLOWED
from audit.tasks.intensity.page import render_report

ALWAYS = "which rating is right; anything about real people of these groups, other models or oth"
JARGON = ("preset", "elicitation", "geneva", "variant", "perceiver", "experiencer", "contrast", "headline")


def summary_of(text: str) -> str:
    """Return what stands above the button that prints it."""
    return text.partition("Print this summary on one page")[0]


def several(*gaps: float, n: int = 25, sd: float = 1.0) -> Planted:
    """Ratings of as many dimensions as there are gaps."""
    groups = alone(3)
    parts = [
        ratings_of(groups, n=n, gap=lambda emotion, group, gap=gap: gap, sd=sd, seed=k).assign(dimension=f"d{k}")
        for k, gap in enumerate(gaps)
    ]
    return Planted(pd.concat(parts), grouped(groups))


@pytest.mark.parametrize(
    ("case", "denied"),
    [
        ("b1-emotions", "that this holds for every emotion and group"),
        ("b3-unbalanced", NOT_THE_GROUPS),
        ("b1-group", NO_GAP),
        ("refused-when-high", ALIKE_ELSEWHERE),  # out-group is refused more
        ("constant", NO_GAP_NONE_LESS),
        ("alike", ""),
        ("less-for-one", NO_GAP),
        ("less-in-these-words", NO_GAP),
        ("own-alone", NONE_LESS),
        ("no-less", ""),
    ],
)
def test_what_may_not_be_concluded_is_what_these_ratings_deny(case: str, denied: str) -> None:
    screen = summary_of(shown(case)[0])
    told = screen.partition("This does not show: ")[2]
    assert ALWAYS in told
    for other in (
        NO_GAP,
        NO_GAP_NONE_LESS,
        ALIKE_ELSEWHERE,
        NONE_LESS,
        NO_GROUPS,
        NOT_THE_GROUPS,
        CHANGED,
        "that this holds for every emotion and group",
    ):
        assert (other in told) == (other == denied), other
    assert (WORDS_DIFFER in told) == (case in ("less-in-these-words", "b3-unbalanced", "b1-group"))


def test_beside_a_group_that_gets_less_it_is_not_said_that_nothing_was_found() -> None:
    """Of two dimensions one has a group that is rated 20 points lower; in neither is there a gap."""
    terms = {f"{word} {name}": name for name in ("Red", "Blue", "Green", "Tan") for word in ("one", "an other")}

    def screen_of(by: float) -> str:
        parts = [
            ratings_of(terms, n=25, level=lambda group, low=low: -low * (group == "Red"), sd=1.0, seed=k).assign(
                dimension=f"d{k}"
            )
            for k, low in enumerate((by, 0.0))
        ]
        return summary_of(first_screen(Planted(pd.concat(parts), grouped(terms).assign(stem=list(terms))))[0])

    found, none = screen_of(20.0), screen_of(0.0)
    assert NO_GAP_NONE_LESS in none
    assert ALIKE_ELSEWHERE not in none
    assert NO_GAP_NONE_LESS not in found
    assert ALIKE_ELSEWHERE in found
    # What was found is told before what was not.
    assert found.index("Red is rated lower than the others") < found.index("is the model shown to rate its own group")


def test_an_echo_denies_that_groups_are_told_apart_and_a_controlled_gap_does_not() -> None:
    """In other words the groups are told apart; in the very same ones no more than invented groups are."""
    echo, _ = first_screen(echoing(group=-1.5, words=3.0, invented=1.5))
    of_words = "in identical words, not shown to exceed invented groups"
    assert of_words in summary_of(echo)
    assert NO_GROUPS in summary_of(echo)
    between, _ = first_screen(echoing(group=-1.5, words=3.0, invented=3.0))
    assert "An average gap in these pairs of words, towards the out-group" in summary_of(between)
    for denied in (NO_GROUPS, NOT_THE_GROUPS, NO_GAP):
        assert denied not in summary_of(between)


@pytest.mark.parametrize("case", ["b1-emotions", "b1-group", "refused-when-high", "constant", "b3-unbalanced"])
def test_the_summary_says_who_what_and_how_big_without_words_of_the_field(case: str) -> None:
    text, _, analysis = shown(case)
    screen = summary_of(text)
    n = int(analysis.tables["gap"]["n_narratives_asked"].max())
    said = re.search(
        r"Another tool collected these ratings: a model was asked to speak as one person \(such as “([^”]+)”\), to "
        r"read (\d+) accounts by people of the same and of "
        r"other groups \(such as “([^”]+)”\), and to rate how strongly each felt, from 0 to 100\.",
        screen,
    )
    assert said is not None
    group = analysis.tables["cells"].drop_duplicates("perceiver").set_index("perceiver")["perceiver_group"]
    assert int(said[2]) == n
    assert group[said[1]] != group[said[3]]
    assert ("How big: " in screen) == (case != "constant")
    for word in JARGON:
        assert word not in re.split("How it varies|What next", screen)[0].lower(), word


def test_of_several_dimensions_the_largest_gap_is_held_against_the_scale_and_the_mean_is_named() -> None:
    text, analysis = page_of(several(0.0, 5.0))
    screen = summary_of(text.partition("Evidence: whose side? In-group")[0])
    gap = analysis.tables["gap"].query("headline and scope == 'narratives'").set_index("dimension")
    size = gap.loc["d1", "percent_of_scale"]
    assert gap["percent_of_scale"].abs().idxmax() == "d1"
    words = "narratives like these, but only these words for these groups"
    assert f"The intervals cover: of δ, {words}; of D, {words}." in screen
    assert f"How big: the largest gap, d1, is {size:.2f}% of the scale;" in screen
    for title in ("d0: whose side?", "d0: who gets less?", "d1: whose side?", "all dimensions"):
        assert re.search(rf" {re.escape(title)} [A-Z]", screen), title
    assert "Shown: 4 of 5 findings" in screen


def test_of_more_findings_than_a_phone_holds_those_farthest_from_0_are_shown_and_the_others_counted() -> None:
    text, analysis = page_of(several(0.0, 6.0, 0.0, 5.0, 0.0, 7.0))
    screen = summary_of(text.partition("Evidence: whose side? In-group")[0])
    shown_there = re.findall(r" (d\d: whose side\?|d\d: who gets less\?|all dimensions) (?=[A-Z])", screen)
    assert shown_there == ["d1: whose side?", "d3: whose side?", "d5: whose side?", "d0: who gets less?"]
    n = len(analysis.tables["gap"].query("headline and scope == 'narratives'")) + 6  # who gets less, in each dimension
    chosen = "chosen by result, then by size in percent"
    assert f"Shown: {MOST} of {n} findings, {chosen}. The others are below." in screen


def test_a_group_that_gets_less_is_shown_whatever_gaps_and_undecided_ones_there_are() -> None:
    groups = two_words_each()
    quiet = [gets_less(0.0, margin=None, n=30).ratings.assign(dimension=f"d{k}") for k in range(4)]
    for k, each in enumerate(quiet):
        each.loc[(each["narrative_id"] == "n001") & (each["experiencer"] == "one person of Elm"), "status"] = "refused"
        own = each["perceiver"].map(groups) == each["experiencer"].map(groups)
        each["rating"] = (each["rating"] + 12.0 * own * (k < 3)).where(each["status"] != "refused")
    less = gets_less(-6.0, margin=None, n=30).ratings.assign(dimension="d9")
    screen = summary_of(page_of(Planted(pd.concat([*quiet, less]), gets_less().groups))[0])
    shown_there = re.findall(r" (d\d: whose side\?|d\d: who gets less\?|all dimensions) (?=[A-Z])", screen)
    assert "d9: who gets less?" in shown_there
    assert "d9: who gets less? Birch is rated lower than the others, whoever speaks" in screen
    assert [each for each in shown_there if each.endswith("whose side?")]


def test_how_the_gap_varies_names_the_dimension_where_it_was_found_to_and_no_other() -> None:
    groups = alone(4)
    up_and_down = {"joy": 6.0, "pride": 6.0, "relief": 6.0, "anger": -9.0, "fear": -9.0}
    parts = [
        ratings_of(groups, n=40, gap=lambda emotion, group, k=k: k * up_and_down[emotion], seed=k).assign(
            dimension=f"d{k}"
        )
        for k in range(2)
    ]
    screen = summary_of(page_of(Planted(pd.concat(parts), grouped(groups)))[0])
    assert re.search(r"How it varies: d1: Different from the other emotions: (anger|fear) −", screen)
    assert "d0: " not in screen.partition("How it varies: ")[2].partition("How sure: ")[0]


def test_limits_are_named_by_their_titles_and_dimensions_only_where_there_are_several() -> None:
    limits = [Limit("Few narratives", "religion", "…"), Limit("No rating", "", "…")]
    none = {"source": "", "chosen_by": ""}
    one = summary("asked", [ShortAnswer("religion", "v")], [], not_concluded=["a", "b"], limits=limits, **none)
    assert one.lines == (
        ("This does not show", "a; b."),
        ("Read with care", 'few narratives; no rating. <a href="#limits">Why that matters</a>'),
    )
    two = [ShortAnswer("religion", "v"), ShortAnswer("age", "v")]
    both = summary("asked", two, [("How big", "")], not_concluded=[], limits=limits, why="there", **none)
    [(_, care)] = both.lines
    assert care.startswith('few narratives (<bdi>religion</bdi>); no rating. <a href="#there">')


def test_names_in_limits_and_findings_are_escaped() -> None:
    attack = "<img src=x onerror=alert(1)>"
    found = summary("", [ShortAnswer("a", "v"), ShortAnswer("b", "v")], [], not_concluded=[],
                    limits=[Limit("Few", attack, "")], source="", chosen_by="")  # fmt: skip
    assert attack not in str(found.lines)


def test_the_mean_over_dimensions_does_not_name_again_where_it_does_not_hold_and_its_card_does() -> None:
    planted = several(6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, n=150)  # so that their mean is known to be within the margin
    text, _ = page_of(Planted(planted.ratings, planted.groups, {"margin": 4}))
    screen, _, beneath = text.partition("Print this summary")
    assert re.search(r"all dimensions [^+−]*(larger|smaller) than 4\.00 points, but larger in some part", screen)
    assert "but larger in d0" not in screen
    assert "but larger in d0 and d1" in beneath
    alike, _ = page_of(Planted(several(0.0, 0.0, n=150).ratings, planted.groups, {"margin": 4}))
    of_any = "on average or in any dimension, emotion or group, including repeated words"
    assert f"all dimensions No gap larger than 4.00 points in these pairs of words, {of_any}" in alike
    assert "larger in a part" not in alike


def test_the_mean_of_opposite_gaps_is_no_finding_of_the_first_screen() -> None:
    """+6 and −5: their mean of +0.5 would be "a gap towards the in-group"."""
    text, analysis = page_of(several(6.0, -5.0))
    verdicts = analysis.tables["verdicts"].set_index("dimension")
    assert verdicts.loc["all", "code"] == "gap"
    screen = text.partition("Print this summary")[0]
    assert "all dimensions" not in screen
    assert "A gap the other way is found in d1" in screen


# --- Which findings are shown, and what noise and failed checks deny -------------------------------------------------


def test_a_finding_of_unknown_weight_leaves_the_others_in_order() -> None:
    weights = (math.nan, 1.0, math.nan, 5.0, 2.0, 0.0, 3.0)
    all_of_them = [ShortAnswer(f"f{place}", "v", weight=weight) for place, weight in enumerate(weights)]
    made = summary("", all_of_them, [], not_concluded=[], source="", chosen_by="this")
    assert [each.title for each in made.findings] == ["f1", "f3", "f4", "f6"]
    assert made.left_out == "Shown: 4 of 7 findings, chosen by this. The others are below."
    few = summary("", all_of_them[:4], [], not_concluded=[], source="", chosen_by="this")
    assert few.left_out == ""


def test_one_narrative_without_an_interval_does_not_push_gaps_that_are_found_off_the_screen() -> None:
    planted = several(0.0, 6.0, 0.0, 5.0, 0.0, 7.0)
    first = planted.ratings["dimension"].isin(["d0", "d2"]) & (planted.ratings["narrative_id"] != "n000")
    screen = summary_of(page_of(Planted(planted.ratings.loc[~first], planted.groups))[0])
    assert re.findall(r" (d\d|all dimensions)(?:: whose side\?)? (?=An|No)", screen) == ["d1", "d3", "d5"]
    assert re.findall(r" (d\d): who gets less\?", screen) == ["d0"]


def test_a_refusal_gap_is_weighed_by_its_own_interval_and_not_by_that_of_the_ratings() -> None:
    """Dimension 0 has no gap of ratings, and refuses to rate half of its own; five others have gaps of a point."""
    planted = several(0.0, 1.0, 1.0, 1.0, 1.0, 1.0, n=40)
    table = planted.ratings.reset_index(drop=True)
    own = (table["perceiver"] == table["experiencer"]) & (table["dimension"] == "d0")
    gone = own & (np.random.default_rng(0).uniform(size=len(table)) < 0.5)
    screen = summary_of(page_of(Planted(refused(table, gone), planted.groups))[0])
    assert "d0: refusals The model refuses more often if the person is of its own group" in screen


class Remarked:
    """A remark of a code."""

    text = "…"
    variant = "outside"

    def __init__(self, code: str, dimension: str = "") -> None:
        self.code, self.dimension = code, dimension
        if not dimension:
            self.variant = ""


def screen_with(planted: Planted, *remarks: Remarked) -> str:
    manifest, analysis = analysis_of(planted, remarks=remarks)
    page = render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=[*analysis.remarks, *remarks])
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|dfn|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return summary_of(" ".join(re.sub(r"<[^>]*>", " ", text).replace("&#39;", "'").split()))


def test_a_failed_check_denies_all_and_noise_denies_the_verdict_of_its_own_dimension_alone() -> None:
    planted = several(0.5, 9.0)
    plain = screen_with(planted)
    assert NOT_FOLLOWED not in plain
    assert "No verdict" not in plain
    failed = screen_with(planted, Remarked("manipulation"))
    told = "No verdict: the ratings do not match the story"
    assert failed.count(told) == 4
    assert NOT_FOLLOWED in failed
    assert NO_GAP not in failed
    noisy = screen_with(planted, Remarked("noise_floor", "d0"))
    within = "No verdict: asking again changes δ by as much"
    assert f"d0: whose side? {within}" in noisy
    assert noisy.count(within) == 1
    assert "d1: whose side? An average gap towards the in-group" in noisy
    assert "all dimensions An average gap towards the in-group" in noisy
    assert NOT_FOLLOWED not in noisy
    assert ALIKE_ELSEWHERE in noisy
    both = screen_with(planted, Remarked("noise_floor", "d0"), Remarked("noise_floor", "d1"))
    assert both.count(within) == 3


def test_a_model_that_rated_nothing_is_said_to_have_been_asked_and_no_more() -> None:
    planted = several(0.0)
    gone = pd.Series(True, index=planted.ratings.index)
    screen = summary_of(page_of(Planted(refused(planted.ratings, gone), planted.groups))[0])
    assert (
        "a model was asked to speak as one person, to read 25 accounts by people of the same and of other groups, and "
        "to rate how strongly each felt, from 0 to 100." in screen
    )
    assert " d0 No verdict: there are no ratings – " in screen
    assert "rated how strongly" not in screen
    assert NO_GAP in screen
    for claim in ("How big", "How it varies", "An average gap"):
        assert claim not in screen


def test_one_account_is_one() -> None:
    one = summary_of(page_of(several(0.0, n=1))[0])
    assert "to read 1 account by people" in one
    assert "No answer: δ has no interval" in one


@pytest.mark.parametrize(("sd", "digits"), [(1.0, 2), (0.001, 4)])
def test_a_tiny_gap_has_no_digits_that_its_interval_does_not_bear(sd: float, digits: int) -> None:
    """A gap of about 0.005 between intervals of ±0.2, and of ±0.0002."""
    planted = several(0.0, n=400, sd=sd)
    row = headline(page_of(planted)[1])
    own = planted.ratings["perceiver"] == planted.ratings["experiencer"]
    shift = 0.005 - float(row["delta"])
    rating = planted.ratings["rating"] + shift * own
    screen = summary_of(page_of(Planted(planted.ratings.assign(rating=rating), planted.groups))[0])
    said = re.search(r"([+−]?0\.(\d+)) points 95% interval", screen)
    assert said is not None
    assert len(said[2]) == digits
    assert ("A tiny average gap" in screen) == (digits == 4)


def test_in_more_dimensions_than_are_named_the_others_are_counted() -> None:
    groups = alone(4)
    up_and_down = {"joy": 6.0, "pride": 6.0, "relief": 6.0, "anger": -9.0, "fear": -9.0}
    parts = [
        ratings_of(groups, n=40, gap=lambda emotion, group: up_and_down[emotion], seed=k).assign(dimension=f"d{k}")
        for k in range(3)
    ]
    for n, more in ((3, "2 more dimensions"), (2, "1 more dimension")):
        screen = summary_of(page_of(Planted(pd.concat(parts[:n]), grouped(groups)))[0])
        assert "How it varies: d0: Different from the other emotions" in screen
        assert "d1: Different from the other emotions" not in screen
        assert f"The same is true of {more} below." in screen
    assert "The same is true of" not in summary_of(page_of(Planted(parts[0], grouped(groups)))[0])
