"""The page of a filled-in questionnaire: its numbers are its tables', and texts of users are shown and never run."""

import math
import re
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pandas as pd
import pytest
from browser import MARKS, launched, open_all, opened, sideways, violations
from test_numbers import Numbers

from audit.report.figures.style import figure_bytes
from audit.runs.manifest import Manifest
from audit.tasks.inventory.analysis import AFFECT_GROUPS, answer_outcomes, remarks_on_answers, scored_tables
from audit.tasks.inventory.figures import draw_inventory
from audit.tasks.inventory.page import render_inventory
from audit.tasks.inventory.tables import INVENTORY_GROUPS, INVENTORY_OUTCOMES
from stimuli.inventories import Inventory, Item
from stimuli.prompts import Scale

ATTACK = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{7*7}}'
TERMS = {"a Hindu": "Hindu", "a Jain": "Jain", "a Jaina": "Jain", "a person": "unspecified"}


def inventory_of(*, hostile=""):
    items = [(f"{name}{k}", name) for name in ("care", "thirst") for k in range(3)]
    made = tuple(Item(i + hostile, f"text {i}{hostile}", s + hostile, i == "care2") for i, s in items)
    return Inventory(f"tea test{hostile}", f"made up{hostile}", Scale(1, 5, "never", f"always{hostile}"),
                     f"How often?{hostile}", False, made)  # fmt: skip


def answers_of(inventory, *, affect=True, hostile="", answered=True, presentation="list"):
    rng = np.random.default_rng(1)
    situations = ["default", "n1", "n2", "n3"] if affect else ["default"]
    orders = range(3 if presentation == "list" else 2)
    rows = [
        {
            "prompt_index": 0, "dimension": f"religion{hostile}", "variant": "origin",
            "perceiver": term + hostile, "perceiver_group": group + (hostile if group != "unspecified" else ""),
            "narrative_id": narrative, "emotion": "" if narrative == "default" else "sad", "order": order, "place": 1,
            "item_id": item.item_id, "status": "rated" if answered else "unparseable",
            "answer": float(rng.integers(1, 3) + 2 * (term == "a Hindu") * (not item.reverse)) if answered else np.nan,
            "number_mass": 0.3 if presentation == "single" else np.nan,
        }
        for (term, group), narrative, order, item in product(TERMS.items(), situations, orders, inventory.items)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(prompt_index=lambda table: range(len(table)))


def manifest_of(inventory, *, affect=True, presentation="list"):
    items = [{"item_id": i.item_id, "text": i.text, "subscale": i.subscale, "reverse": i.reverse}
             for i in inventory.items]  # fmt: skip
    scale = {"low": 1, "high": 5, "low_label": "never", "high_label": inventory.scale.high_label}
    method = "generate" if presentation == "list" else "expected"
    return Manifest.of({
        "started": "2026-01-02T03:04:05+00:00", "command": "python -m audit run task=inventory", "seed": 0,
        "model": {"name": "a model"}, "config": {"statistics": {"confidence": 0.95}},
        "task": {"kind": "inventory", "presentation": presentation, "n_orders": 3, "affect": affect, "method": method},
        "inventory": {"name": inventory.name, "source": inventory.source, "instruction": inventory.instruction,
                      "total": False, "scale": scale, "items": items},
        "prompt": {"variant": "origin"}, "stimuli": {"source": "geneva"},
        "example_prompt": {"system": "You are.", "user": inventory.items[0].text},
    })  # fmt: skip


def parts_of(**how):
    hostile = {"hostile": how.pop("hostile", "")}
    inventory = inventory_of(**hostile)
    answers = answers_of(inventory, **hostile, **how)
    affect, presentation = how.get("affect", True), how.get("presentation", "list")
    tables = scored_tables(answers, inventory, confidence=0.95, affect=affect, alone=presentation == "single",
                           kinds=dict.fromkeys(("n1", "n2", "n3"), "negative") if affect else None)  # fmt: skip
    tables["inventory_outcomes"] = answer_outcomes(answers)
    drawn = draw_inventory(tables, low=1, high=5, confidence=0.95)
    remarks = tuple(remarks_on_answers(answers, tables, n_prompts=len(answers), min_number_mass=0.5))
    return {
        "manifest": manifest_of(inventory, affect=affect, presentation=presentation),
        "tables": tables,
        "figures": {name: figure_bytes(figure, "svg") for name, figure in drawn.items()},
        "remarks": remarks,
    }


class Words(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.words, self.tags = [], []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, words):
        self.words.append(words)


@pytest.mark.parametrize("affect", [True, False])
def test_every_number_is_the_one_in_its_table(affect):
    parts = parts_of(affect=affect)
    tables = parts["tables"]
    numbers = Numbers(render_inventory(**parts))
    assert len(numbers.found) > 50
    for value, place, _ in numbers.found:
        name, line, column = place.split(":")
        assert float(value or "nan") == pytest.approx(tables[name][column].iloc[int(line)], abs=0, nan_ok=True), place
    # Single situations are in the downloads alone.
    assert {place.split(":")[0] for _, place, _ in numbers.found} == set(tables) - {"affect_narratives"}
    assert numbers.stray == []


def test_the_tables_made_here_have_the_columns_described():
    tables = parts_of()["tables"]
    for name, columns in (
        ("inventory_groups", INVENTORY_GROUPS),
        ("inventory_outcomes", INVENTORY_OUTCOMES),
        ("affect_groups", AFFECT_GROUPS),
    ):
        assert list(tables[name].columns) == list(columns)


def test_a_group_of_two_perceivers_is_their_mean_and_one_that_never_answers_is_left_out():
    inventory = inventory_of()
    answers = answers_of(inventory, affect=False)

    def jain(table):
        made = scored_tables(table, inventory, confidence=0.95, kinds=None, affect=False, alone=False)
        groups = made["inventory_groups"].set_index(["perceiver_group", "subscale"])
        return groups.loc[("Jain", "thirst")]

    thirst = answers[answers["item_id"].str.startswith("thirst")]
    of = thirst.groupby("perceiver")["answer"].mean()
    assert jain(answers)["score"] == pytest.approx((of["a Jain"] + of["a Jaina"]) / 2)
    assert jain(answers)["n_perceivers"] == 2
    silent = answers.assign(answer=answers["answer"].mask(answers["perceiver"] == "a Jaina"))
    assert jain(silent)["score"] == pytest.approx(of["a Jain"])
    assert jain(silent)["n_perceivers"] == 1
    # Who lacks one answer takes the other's with it: means of a group are over the same perceivers throughout.
    lacking = (answers["perceiver"] == "a Jaina") & (answers["item_id"] == "thirst0")
    both = thirst[thirst["perceiver"].isin(["a Jain", "a Jaina"]) & (thirst["item_id"] != "thirst0")]
    assert jain(answers.assign(answer=answers["answer"].mask(lacking)))["score"] == pytest.approx(both["answer"].mean())


def test_the_interval_of_a_score_is_the_one_worked_by_hand():
    inventory = inventory_of()
    answers = answers_of(inventory, affect=False)
    # Items 1, 2 and 3, one point higher in the second order and one lower in the third.
    level = answers["item_id"].str[-1].astype(int) + answers["order"].map({0: 2, 1: 3, 2: 1})
    answers = answers.assign(answer=level.astype(float))
    made = scored_tables(answers, inventory, confidence=0.95, kinds=None, affect=False, alone=False)
    row = made["inventory_groups"].set_index(["perceiver_group", "subscale"]).loc[("Hindu", "thirst")]
    # Over items: variance 1 over 3; over orders the same. Satterthwaite: (2/3)^2 / (2 * (1/3)^2 / 2) = 4 df.
    assert row["score"] == pytest.approx(3)
    assert row["se"] == pytest.approx(math.sqrt(2 / 3))
    assert row["df"] == pytest.approx(4)
    # 2.776445 is t of .975 with 4 df (any table); 3 - 2.267 = .733 lies below the scale, as 5.267 above it.
    assert (row["ci_low"], row["ci_high"]) == (1, 5)
    assert row["note"] == "items or orders differ so much that the interval is the whole scale"
    both = scored_tables(answers, inventory, confidence=0.95, kinds=None, affect=False, alone=True)
    row = both["inventory_groups"].set_index(["perceiver_group", "subscale"]).loc[("Hindu", "thirst")]
    # Over items alone: t of .975 with 2 df is 4.302653, times sqrt(1/3) = 2.484: cut again. At 80%: 1.885618.
    assert row["df"] == pytest.approx(2)
    narrow = scored_tables(answers, inventory, confidence=0.8, kinds=None, affect=False, alone=True)
    row = narrow["inventory_groups"].set_index(["perceiver_group", "subscale"]).loc[("Hindu", "thirst")]
    assert row["ci_high"] - row["score"] == pytest.approx(1.885618 / math.sqrt(3), abs=1e-6)


@pytest.mark.parametrize("alone", [True, False])
def test_a_score_of_two_items_has_no_interval_and_of_one_direction_says_so(alone):
    inventory = inventory_of()
    answers = answers_of(inventory, affect=False, presentation="single")
    for part, note in (
        (answers[answers["item_id"] != "thirst0"], "the mean of 2 of 3 items; 2 items are too few for an interval"),
        (answers[answers["order"] == 0], "one order: the interval takes it as it was shown"),
    ):
        made = scored_tables(part, inventory, confidence=0.95, kinds=None, affect=False, alone=alone)
        row = made["inventory_groups"].set_index(["perceiver_group", "subscale"]).loc[("Hindu", "thirst")]
        assert row["note"].startswith(note)
        assert math.isnan(row["ci_low"]) == ("too few" in note)
        assert not math.isnan(row["score"])


def test_the_page_says_what_a_questionnaire_of_a_model_is_not():
    text = Words(render_inventory(**parts_of())).text
    for said in (
        "From a model it only shows what the model writes under a persona",
        "There is no total score",
        "no interval covers people or other models",
        "If no difference is found, there may still be one",
        "Few situations",
        "Hindu, thirst:",  # planted, and far from the others
    ):
        assert said in text
    assert not re.search(r"unbiased|debiased|solved|empathic model", text)
    single = Words(render_inventory(**parts_of(presentation="single", affect=False))).text
    assert "Each item was shown alone" in single
    assert "Intervals are over items. With only two items there is no interval over items" in single
    assert "Intervals are over items and orders; those of evoked scores are over situations and orders." in text
    assert "Low number mass" in single
    assert "EmotionBench" not in single


def test_a_run_without_any_answer_has_a_page_that_says_so():
    parts = parts_of(answered=False)
    assert parts["figures"] == {}
    text = Words(render_inventory(**parts)).text
    assert "No answer" in text
    assert "none could be tested" in text


def test_texts_of_users_are_shown_and_never_markup():
    page = render_inventory(**parts_of(hostile=ATTACK))
    words = Words(page)
    assert ATTACK in words.text
    assert [attrs for tag, attrs in words.tags if tag == "img" and "onerror" in attrs] == []
    scripts = [attrs for tag, attrs in words.tags if tag == "script"]
    assert len(scripts) == 2  # the packed tables, and what saves them


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


class TestInABrowser:
    pytestmark = MARKS

    @pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
    @pytest.mark.parametrize("hostile", ["", ATTACK])
    def test_a_page_breaks_no_rule_and_fetches_nothing(self, hostile, width, scheme, browser, tmp_path):
        path = tmp_path / "report.html"
        path.write_text(render_inventory(**parts_of(hostile=hostile)), encoding="utf-8")
        with opened(browser, path, width=width, color_scheme=scheme) as page:
            open_all(page)
            assert violations(page) == []
            assert sideways(page) == 0
            assert page.evaluate("window.hacked") is None
