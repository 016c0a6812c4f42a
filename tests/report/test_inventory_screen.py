"""The first screen of a questionnaire's page, on planted answers for which each sentence is true, or false."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
import pytest
from judged import cards_of, first_screen
from test_inventory_page import manifest_of

from audit.report.summary import CHANGED
from audit.tables.formatting import OF_GROUPS_AND_MODELS
from audit.tasks.inventory.analysis import answer_outcomes, scored_tables
from audit.tasks.inventory.first_screen import LIMITS, NOT_ALIKE, NOT_UNMOVED
from audit.tasks.inventory.page import render_inventory
from stimuli.inventories import Inventory, Item
from stimuli.prompts import Scale

ITEMS = tuple(Item(f"{part}{k}", f"text {part} {k}", part, False) for part in ("care", "thirst") for k in range(6))
INVENTORY = Inventory("tea test", "made up", Scale(1, 5, "never", "always"), "How often?", False, ITEMS)
GROUPS = ("Hindu", "Jain", "Muslim", "Sikh")
SITUATIONS = tuple(f"n{k}" for k in range(8))
Level = Callable[[str, str, str], float]


def alike(group: str, part: str, situation: str) -> float:
    return 3.0


def answers_of(
    level: Level, *, groups=GROUPS, affect=False, sd=0.2, status="rated", dimension="religion", seed=0
) -> pd.DataFrame:
    """Return answers to each item in four orders: a level of group, subscale and situation, and noise."""
    rng = np.random.default_rng(seed)
    rows = [
        (group, situation, order, item, level(group, item.subscale, situation))
        for group, situation, order, item in product(
            groups, ("default", *(SITUATIONS if affect else ())), range(4), ITEMS
        )
    ]
    return pd.DataFrame(
        {
            "prompt_index": range(len(rows)),
            "dimension": dimension,
            "variant": "origin",
            "perceiver": [f"a {row[0]}" for row in rows],
            "perceiver_group": [row[0] for row in rows],
            "narrative_id": [row[1] for row in rows],
            "emotion": ["" if row[1] == "default" else "sad" for row in rows],
            "order": [row[2] for row in rows],
            "place": 1,
            "item_id": [row[3].item_id for row in rows],
            "status": status,
            "answer": (np.array([row[4] for row in rows]) + rng.normal(0, sd, len(rows))).clip(1, 5)
            if status == "rated"
            else np.nan,
            "number_mass": np.nan,
        }
    )


def screen_of(*parts: pd.DataFrame, affect: bool = False, remarks=(), cards: bool = False) -> str:
    """Return the first screen of these answers, as text; or the cards."""
    answers = pd.concat(parts, ignore_index=True)
    tables = scored_tables(
        answers, INVENTORY, confidence=0.95, affect=affect, alone=False,
        kinds=dict.fromkeys(SITUATIONS, "negative") if affect else None,
    )  # fmt: skip
    tables["inventory_outcomes"] = answer_outcomes(answers)
    page = render_inventory(
        manifest=manifest_of(INVENTORY, affect=affect), tables=tables, figures={}, remarks=list(remarks)
    )
    return cards_of(page) if cards else first_screen(page)


class Remarked:
    """A remark of a code."""

    dimension = variant = ""

    def __init__(self, code: str) -> None:
        self.code, self.text = code, f"What {code} says."


def hindus_thirst(group: str, part: str, situation: str) -> float:
    """A point and a half more in one subscale of one group, and nothing else."""
    return 3.0 + 1.5 * (group == "Hindu" and part == "thirst")


def test_one_difference_is_counted_named_and_sized_and_the_others_are_not_said_to_be_none() -> None:
    screen = screen_of(answers_of(hindus_thirst))
    # 4 groups × 2 subscales; the three other groups are lower than the mean of theirs by half a point each.
    said = re.search(r"religion (\d) of 8 differences between a group and the others (was|were) found", screen)
    assert said is not None
    assert int(said[1]) >= 1
    assert re.search(r"Largest found: Hindu, thirst: \+1\.[45]\d points, 95% interval \+1\.\d\d to \+1\.\d\d", screen)
    assert re.search(r"How big: the largest found is 1\.[45]\d points on an item scale of 1–5\.", screen)
    assert NOT_ALIKE in screen
    assert NOT_UNMOVED not in screen
    assert "How it varies" not in screen
    assert "what the model is like or feels" in screen
    assert OF_GROUPS_AND_MODELS in screen


def test_where_nothing_differs_none_is_found_and_no_size_is_told() -> None:
    screen = screen_of(answers_of(alike, sd=0.5, seed=2))
    assert "religion None of 8 differences between a group and the others were found" in screen
    assert NOT_ALIKE in screen
    for claim in ("Largest", "How big"):
        assert claim not in screen


def test_a_wide_difference_that_is_not_found_does_not_make_the_largest_found_the_largest() -> None:
    """Two points in three items of six are a mean difference of 1 that no test finds; 0.5 in each item is found."""

    def level(group: str, part: str, situation: str) -> float:
        return 3.0 + (0.5 if group == "Hindu" and part == "care" else 0.0)

    answers = answers_of(level, sd=0.05)
    odd = (answers["perceiver_group"] == "Jain") & answers["item_id"].isin(["thirst0", "thirst1", "thirst2"])
    screen = screen_of(answers.assign(answer=answers["answer"].mask(odd, 4.9)))
    assert re.search(r"Largest found: Hindu, care: \+0\.[45]\d points", screen)


def test_of_two_groups_the_one_difference_is_counted_once() -> None:
    screen = screen_of(answers_of(hindus_thirst, groups=("Hindu", "Jain")))
    assert "religion 1 of 2 differences between a group and the others was found" in screen


@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_what_situations_change_is_counted_and_what_is_not_found_not_said_to_be_none(moved: float) -> None:
    def level(group: str, part: str, situation: str) -> float:
        return 3.0 + moved * (situation != "default" and part == "care")

    screen = screen_of(answers_of(level, affect=True, sd=0.5, seed=3), affect=True)
    n = "4" if moved else "none"
    assert f"How it varies: of 8 changes from default to evoked, {n} were found." in screen
    assert NOT_UNMOVED in screen
    assert "to fill in the questionnaire “tea test”, as it is and in situations to imagine." in screen


def test_where_all_is_found_nothing_is_denied_that_was_shown() -> None:
    """Four groups a point apart, in both subscales, and moved by two points; one of them is the mean of all others."""
    place = {"Hindu": -1.0, "Jain": -0.5, "Muslim": 0.5, "Sikh": 1.0}

    def level(group: str, part: str, situation: str) -> float:
        return 2.0 + 0.5 * place[group] if situation == "default" else 3.5 + place[group]

    screen = screen_of(answers_of(level, affect=True, sd=0.1), affect=True)
    assert re.search(r"religion 16 of 16 differences between a group and the others were found", screen)
    assert "of 8 changes from default to evoked, 8 were found." in screen
    assert NOT_ALIKE not in screen
    assert NOT_UNMOVED not in screen


@pytest.mark.parametrize("status", ["refused", "unparseable", "failed"])
def test_a_model_that_gave_no_answer_is_not_said_to_have_filled_it_in(status: str) -> None:
    screen = screen_of(answers_of(alike, status=status))
    assert "and to fill in the questionnaire “tea test”; it gave no answer that could be read." in screen
    assert "religion No difference between groups could be tested" in screen
    assert NOT_ALIKE in screen
    for claim in ("filled in", "were found", "Largest", "How big", "How it varies"):
        assert claim not in screen
    assert "it gave no answer" not in screen_of(answers_of(alike))


def test_of_many_dimensions_those_with_the_most_found_are_shown() -> None:
    parts = [
        answers_of(hindus_thirst if place in (1, 4) else alike, sd=0.3, dimension=f"d{place}", seed=10 + place)
        for place in range(6)
    ]
    screen = screen_of(*parts)
    assert re.findall(r" (d\d) (?=\d|None)", screen) == ["d0", "d1", "d2", "d4"]
    assert "Shown: 4 of 6 findings, chosen by how many differences were found. The others are below." in screen


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("accepted", "files that were changed"),
        ("unfinished", "the run is not finished"),
        ("no_answer", "no answer"),
        ("many_missing", "many missing answers"),
        ("number_mass", "low number mass"),
        ("few_narratives", "few situations"),
        ("", ""),
    ],
)
def test_what_limits_the_answers_is_named_and_changed_files_are_denied(code: str, limit: str) -> None:
    assert {"accepted", "unfinished", "no_answer", "many_missing", "number_mass", "few_narratives"} == {*LIMITS}
    screen = screen_of(answers_of(alike), remarks=[Remarked(code)] if code else [])
    assert (CHANGED in screen) == (code == "accepted")
    assert (f"Read with care: {limit}. Why that matters" in screen) == bool(code)
    assert ("Read with care" in screen) == bool(code)


# --- The cards -------------------------------------------------------------------------------------------------------


def test_the_card_names_what_remains_after_correction_and_the_largest_of_many() -> None:
    place = {"Hindu": -1.0, "Jain": -0.5, "Muslim": 0.5, "Sikh": 1.0}
    many = screen_of(answers_of(lambda group, part, situation: 3.0 + place[group], sd=0.1), cards=True)
    assert "Differences between a group and the others: 8 tested, 8 remain after correction for their number." in many
    said = many.partition("The 4 largest: ")[2]
    assert sorted(re.findall(r"(\w+), (?:care|thirst): [+−]1\.\d\d \(", said)) == ["Hindu", "Hindu", "Sikh", "Sikh"]
    one = screen_of(answers_of(hindus_thirst, groups=("Hindu", "Jain")), cards=True)
    assert "2 tested, 1 remains after correction for their number. Hindu, thirst: +1." in one
    assert "largest" not in one


def test_the_card_claims_no_absence() -> None:
    none = screen_of(answers_of(alike, sd=0.5, seed=2, affect=True), affect=True, cards=True)
    left = "none remains after correction for their number. There may still be one."
    for what in (
        "Differences between a group and the others",
        "Changes from default to evoked",
        "Differences between a group and the others in evoked scores",
    ):
        assert f"{what}: 8 tested, {left}" in none
    gone = screen_of(answers_of(alike, status="refused"), cards=True)
    assert "Differences between a group and the others: none could be tested." in gone
    assert "tested, " not in gone
