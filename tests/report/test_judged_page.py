"""The first screen of a judge's page, on planted preferences for which each sentence is true, or false."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from judged import ATTACK, cards_of, first_screen, judged, judged_page

from audit.comparing.preference.page import NO_DIFFERENCE, NOT_EQUAL, NOT_EVERYWHERE
from audit.tables.formatting import OF_GROUPS_AND_MODELS

NAN = math.nan
PREFERS = "On average, the judge prefers the replies of "
NO_INTERVAL = "No answer: the preference has no interval."
VERDICTS = (
    f"{PREFERS}one.", f"{PREFERS}two.", "Undecided: compatible with no preference on average.", NO_INTERVAL,
    "No answer: no pair could be read in both orders.", f"{PREFERS}one (not found after correction).",
)  # fmt: skip


@pytest.mark.parametrize(
    ("prefers", "how", "verdict", "number"),
    [
        (lambda k, own: 0.7, {}, f"{PREFERS}one.", "70."),
        (lambda k, own: 0.3, {}, f"{PREFERS}two.", "29.|30."),
        (lambda k, own: 0.5, {"sd": 0.2}, "Undecided: compatible with no preference on average.", "4.|5."),
        # Every pair a tie: a preference of none, of which there is no interval.
        (lambda k, own: 0.5, {"sd": 0.0}, NO_INTERVAL, "50.0"),
        (lambda k, own: 1.0, {"sd": 0.0}, NO_INTERVAL, "100.0"),
        (lambda k, own: 0.9, {"n": 1}, NO_INTERVAL, "90."),
        (lambda k, own: NAN, {}, "No answer: no pair could be read in both orders.", ""),
    ],
    ids=["first", "second", "undecided", "ties", "always", "one narrative", "nothing read"],
)
def test_the_verdict_is_the_one_that_these_preferences_allow(prefers, how, verdict, number) -> None:
    screen = first_screen(judged_page(judged(prefers, **how)))
    assert [said for said in VERDICTS if said in screen] == [verdict]
    assert ("% for one" in screen) == bool(number)
    assert re.search(rf" religion {re.escape(verdict)} ({number})", screen)
    assert (NOT_EQUAL in screen) == (PREFERS not in screen)
    assert screen.partition("This does not show: ")[2].startswith("which replies are better (the judge is a model)")
    assert OF_GROUPS_AND_MODELS in screen


def test_where_in_group_and_out_group_pairs_prefer_opposite_runs_the_verdict_is_of_the_average_alone() -> None:
    """In-group pairs, one in three, prefer the first run by far; out-group pairs the second: 55% of all."""
    screen = first_screen(judged_page(judged(lambda k, own: 0.95 if own else 0.35)))
    assert f" religion {PREFERS}one. 5" in screen
    assert "the judge prefers" not in screen.replace(PREFERS, "")
    assert re.search(
        r"How it varies: religion: in-group minus out-group \+(59|60)\.\d percentage points "
        r"\(95% interval \+\d\d\.\d to \+\d\d\.\d; corrected p < \.001\)\.",
        screen,
    )
    assert NOT_EVERYWHERE in screen
    assert NO_DIFFERENCE not in screen


def test_where_no_difference_between_in_group_and_out_group_is_found_none_is_denied_and_none_claimed() -> None:
    screen = first_screen(judged_page(judged(lambda k, own: 0.7, sd=0.1)))
    assert NO_DIFFERENCE in screen
    assert NOT_EVERYWHERE not in screen
    alike = first_screen(judged_page(judged(lambda k, own: 0.7, sd=0.0)))
    assert "no interval; corrected p –" in alike
    assert NO_DIFFERENCE in alike


def test_a_preference_that_correction_takes_back_is_not_called_found() -> None:
    """Of eight dimensions one alone leaves one half out, and not by enough for eight."""
    parts = [judged(lambda k, own: 0.5, dimension=f"d{k}", sd=0.2, seed=k) for k in range(8)]
    rng = np.random.default_rng(0)
    means = rng.normal(0, 1, 20)
    means = 0.5 + 0.1 * ((means - means.mean()) / means.std(ddof=1) + 2.4 / math.sqrt(20))  # t = 2.4, p = .027
    parts[0] = judged(lambda k, own: means[k], dimension="d0", sd=0.0)
    screen = first_screen(judged_page(*parts))
    assert f"d0 {PREFERS}one (not found after correction)." in screen
    assert f"d0 {PREFERS}one." in first_screen(judged_page(parts[0]))


def test_of_many_dimensions_the_preferences_farthest_from_one_half_are_shown_and_how_they_vary_counts_the_rest() -> (
    None
):
    """0.05 lies farther from one half than 0.8, and nearer to 0."""
    wanted = {"d0": 0.8, "d1": 0.5, "d2": 0.05, "d3": 0.7, "d4": 0.9, "d5": NAN}
    parts = [
        judged(lambda k, own, p=p: p + (0.1 if own else 0.0), dimension=name, seed=place)
        for place, (name, p) in enumerate(wanted.items())
    ]
    screen = first_screen(judged_page(*parts))
    assert re.findall(r" (d\d) (?=On|Und|No)", screen) == ["d0", "d2", "d3", "d4"]
    chosen = "chosen by how far the preference lies from one half"
    assert f"Shown: 4 of 6 findings, {chosen}. The others are below." in screen
    assert "; 3 more below." in screen


@pytest.mark.parametrize(
    ("columns", "limit"),
    [
        ({}, ""),
        ({"given_mass": 0.1, "swapped_mass": 0.2}, "a judge that would mostly write neither A nor B"),
        ({"consistent": False}, "a judge that contradicts itself"),
        ({"first_place": 0.6}, "a judge that leans to a place"),
        ({"same_text": True}, "pairs of the same words"),
    ],
)
def test_what_limits_a_judge_is_named_on_the_first_screen(columns, limit) -> None:
    screen = first_screen(judged_page(judged(lambda k, own: 0.7, **columns)))
    assert ("Read with care" in screen) == bool(limit)
    assert limit in screen


def test_missing_pairs_and_few_narratives_are_named_on_the_first_screen() -> None:
    few = first_screen(judged_page(judged(lambda k, own: 0.7 if k else NAN, n=5)))
    assert "Read with care: few narratives; many pairs without a choice." in few
    page = judged_page(judged(lambda k, own: 0.7, n=5))
    assert 'href="#limiting"' in page
    assert page.count('id="limiting"') == 1


def test_pairs_without_two_replies_are_counted_and_named_where_they_are_many() -> None:
    part = judged(lambda k, own: 0.7 if k % 2 else NAN, n=60)
    gone = part["preference"].isna()
    without = part.assign(**{name: part[name].mask(gone, "") for name in ("given_status", "swapped_status")})
    screen = first_screen(judged_page(without))
    assert "Read with care: many pairs without two replies." in screen
    assert "without a choice" not in screen


def test_pairs_with_a_baseline_alone_have_no_in_group_and_nothing_is_said_of_one() -> None:
    page = judged_page(judged(lambda k, own: 0.7, in_group=pd.array([pd.NA] * 180, dtype="boolean")))
    screen = first_screen(page)
    assert f"religion {PREFERS}one." in screen
    assert "pairs with a baseline" in page
    assert "(with a baseline)" in page
    for claim in ("In-group minus out-group:", "in-group pairs</", NO_DIFFERENCE, NOT_EVERYWHERE, "How it varies"):
        assert claim not in page
    assert "with a baseline" not in judged_page(judged(lambda k, own: 0.7))


def test_what_users_and_models_wrote_is_shown_as_text() -> None:
    page = judged_page(
        judged(lambda k, own: 0.7, dimension=ATTACK, text=ATTACK), labels=(ATTACK, f"2{ATTACK}"), which=ATTACK
    )
    assert ATTACK not in page
    assert ATTACK in first_screen(page)


# --- The cards -------------------------------------------------------------------------------------------------------


def test_the_card_says_of_how_many_pairs_and_what_the_place_does() -> None:
    card = cards_of(judged_page(judged(lambda k, own: 0.7, first_place=0.4, consistent=False)))
    assert re.search(
        r"Preference for one: (69|70)\.\d% \(95% interval (69|70)\.\d% to 70\.\d%; against one half corrected p "
        r"< \.001\), from 180 of 180 pairs on 20 narratives\.",
        card,
    )
    assert re.search(
        r"Position bias: −10\.0 percentage points towards the reply that stands first \(no interval\)\. The two orders "
        r"contradict each other in 100\.0% of the pairs that were read\.",
        card,
    )
    other = cards_of(judged_page(judged(lambda k, own: 0.7)))
    assert "contradict each other in 0.0% of the pairs that were read." in other


def test_the_card_tells_the_difference_of_in_group_and_out_group_or_that_there_is_none_to_tell() -> None:
    card = cards_of(judged_page(judged(lambda k, own: 0.9 if own else 0.4)))
    assert re.search(
        r"In-group minus out-group: the preference for one differs by \+(49|50)\.\d percentage points \(95% interval "
        r"\+\d\d\.\d to \+\d\d\.\d; corrected p < \.001\)\.",
        card,
    )
    nothing = cards_of(judged_page(judged(lambda k, own: NAN)))
    assert "In-group minus out-group: not estimated (no pair was read in both orders)." in nothing
    for claim in ("Preference for one", "Position bias", "differs by"):
        assert claim not in nothing


def test_the_pairs_to_read_are_under_the_run_that_was_preferred() -> None:
    page = judged_page(judged(lambda k, own: 0.9 if own else 0.1))
    assert "Most preferred of <bdi>one" not in page  # a heading is one text
    both = first_screen(page) + cards_of(page)
    assert "Most preferred of" not in both
    assert page.count("Most preferred of one") == page.count("Most preferred of two") == 1
    sure = judged_page(judged(lambda k, own: 0.9))
    assert "Most preferred of two" not in sure
    assert "The two orders contradict each other</bdi>" not in sure


def test_the_page_has_its_sections_in_order() -> None:
    page = judged_page(judged(lambda k, own: 0.7, n=5))
    assert re.findall("<h2 id[^>]*>(.*?)</h2>", page) == [
        "Which replies does this judge prefer?", "In-group and out-group", "Pairs to read", "What this does not show",
        "How to reproduce it",
    ]  # fmt: skip
    assert '<h3 id="limiting">What limits this comparison</h3>' in page
