"""What the first screen and the page of paper say, on planted ratings for which each sentence is true, or false."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from planted import Planted, alone, grouped, ratings_of
from test_first_screen import echoing, first_screen, page_of, shown

from audit.report.dimensions import Limit
from audit.report.summary import CHANGED, MOST, NO_GAP, NO_GROUPS, NOT_THE_GROUPS, Finding, summary

ALWAYS = "which rating is right; anything about the people of these groups, or about other models, prompts and narr"
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
        ("b1-emotions", "that this holds in every emotion and group"),
        ("b1-group", NOT_THE_GROUPS),
        ("refused-when-high", NO_GAP),
        ("constant", NO_GAP),
        ("alike", ""),
    ],
)
def test_what_may_not_be_concluded_is_what_these_ratings_deny(case: str, denied: str) -> None:
    screen = summary_of(shown(case)[0])
    told = screen.partition("Not to be concluded: ")[2]
    assert ALWAYS in told
    for other in (NO_GAP, NO_GROUPS, NOT_THE_GROUPS, CHANGED, "that this holds in every emotion and group"):
        assert (other in told) == (other == denied), other


def test_an_echo_denies_that_groups_are_told_apart_and_a_controlled_gap_does_not() -> None:
    echo, _ = first_screen(echoing(words=2.0, invented=2.0, terms=1))
    assert NO_GROUPS in summary_of(echo)
    between, _ = first_screen(echoing(group=-1.5, words=3.0, invented=3.0))
    for denied in (NO_GROUPS, NOT_THE_GROUPS, NO_GAP):
        assert denied not in summary_of(between)


@pytest.mark.parametrize("case", ["b1-emotions", "b1-group", "refused-when-high", "constant", "b3-unbalanced"])
def test_the_summary_says_who_what_and_how_big_without_words_of_the_field(case: str) -> None:
    text, _, analysis = shown(case)
    screen = summary_of(text)
    n = int(analysis.tables["gap"]["n_narratives_asked"].max())
    said = re.search(
        r"was asked to be a certain person \(such as “([^”]+)”\), to read (\d+) accounts by people of the same and of "
        r"other groups \(such as “([^”]+)”\), and to rate how strongly they felt, from 0 to 100\.",
        screen,
    )
    assert said is not None
    group = analysis.tables["cells"].drop_duplicates("perceiver").set_index("perceiver")["perceiver_group"]
    assert int(said[2]) == n
    assert group[said[1]] != group[said[3]]
    assert ("How big: " in screen) == (case != "constant")
    for word in JARGON:
        assert word not in screen.partition("How it varies")[0].lower(), word


def test_of_several_dimensions_the_largest_gap_is_held_against_the_scale_and_the_mean_is_named() -> None:
    text, analysis = page_of(several(0.0, 5.0))
    screen = summary_of(text.partition("All gaps In-group")[0])
    gap = analysis.tables["gap"].query("headline and scope == 'narratives'").set_index("dimension")
    size = gap.loc["d1", "percent_of_scale"]
    assert gap["percent_of_scale"].abs().idxmax() == "d1"
    assert f"How big: the largest, d1, is {size:.2f}% of the scale;" in screen
    for title in ("d0", "d1", "all dimensions"):
        assert re.search(rf" {title} [A-Z]", screen), title
    assert "Above: " not in screen


def test_of_more_findings_than_a_phone_holds_those_farthest_from_0_are_shown_and_the_others_counted() -> None:
    text, analysis = page_of(several(0.0, 6.0, 0.0, 5.0, 0.0, 7.0))
    screen = summary_of(text.partition("All gaps In-group")[0])
    shown_there = re.findall(r" (d\d|all dimensions) (?=[A-Z])", screen)
    assert shown_there == ["d1", "d3", "d5", "all dimensions"]
    n = len(analysis.tables["gap"].query("headline and scope == 'narratives'"))
    chosen = "chosen by how far their intervals lie from 0, in percent of the scale or percentage points"
    assert f"Above: {MOST} of {n} findings, {chosen}. The others are further down." in screen


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
    assert re.search(r"How it varies: d1: Different from the rest: (anger|fear) −", screen)
    assert "d0: " not in screen


def test_limits_are_named_by_their_titles_and_dimensions_only_where_there_are_several() -> None:
    limits = [Limit("Few narratives", "religion", "…"), Limit("No rating", "", "…")]
    none = {"source": "", "chosen_by": ""}
    one = summary("asked", [Finding("religion", "v")], [], not_concluded=["a", "b"], limits=limits, **none)
    assert one.lines == (
        ("Not to be concluded", "a; b."),
        ("Read with care", 'few narratives; no rating. <a href="#limits">Why that matters</a>'),
    )
    two = [Finding("religion", "v"), Finding("age", "v")]
    both = summary("asked", two, [("How big", "")], not_concluded=[], limits=limits, why="there", **none)
    [(_, care)] = both.lines
    assert care.startswith('few narratives (<bdi>religion</bdi>); no rating. <a href="#there">')


def test_names_in_limits_and_findings_are_escaped() -> None:
    attack = "<img src=x onerror=alert(1)>"
    found = summary("", [Finding("a", "v"), Finding("b", "v")], [], not_concluded=[],
                    limits=[Limit("Few", attack, "")], source="", chosen_by="")  # fmt: skip
    assert attack not in str(found.lines)


def test_the_mean_over_dimensions_does_not_name_again_where_it_does_not_hold_and_its_card_does() -> None:
    planted = several(6.0, -5.0, 0.0)
    text, _ = page_of(Planted(planted.ratings, planted.groups, {"margin": 4}))
    screen, _, beneath = text.partition("Print this summary")
    assert re.search(r"all dimensions [^+−]*(larger|smaller) than 4\.00 points, but larger in a part", screen)
    assert "but larger in d0" not in screen
    assert "but larger in d0" in beneath
    alike, _ = page_of(Planted(several(0.0, 0.0).ratings, planted.groups, {"margin": 4}))
    assert "larger in a part" not in alike
