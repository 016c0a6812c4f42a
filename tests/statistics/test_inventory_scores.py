"""Oracles: scores and differences worked by hand, scipy's t-test, scripted answerers, planted differences."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
from questionnaires import PERCEIVERS, WITH_BASELINES, answers_of, inventory_of, one, welch
from scipy import stats

from audit.tasks.inventory.scores import inventory_tables
from audit.tasks.inventory.tables import INVENTORY_DIFFERENCES, INVENTORY_SCORES
from stimuli.inventories import Inventory, orders

NUMBERS = ["difference", "se", "df", "ci_low", "ci_high", "p"]


def tables_of(answers, inventory, confidence=0.95, *, alone=False):
    tables = inventory_tables(answers, inventory, alone=alone, confidence=confidence)
    columns = {"inventory_scores": INVENTORY_SCORES, "inventory_differences": INVENTORY_DIFFERENCES}
    assert {name: list(table.columns) for name, table in tables.items()} == {k: list(v) for k, v in columns.items()}
    return tables["inventory_scores"], tables["inventory_differences"]


# --- Scores ----------------------------------------------------------------------------------------------------------

# care0, care1, care2 (reverse), thirst0, thirst1 in two orders.
BY_HAND = {"care0": (4, 2), "care1": (1, 1), "care2": (0, 1), "thirst0": (3, 3), "thirst1": (0, 2)}


def by_hand(perceiver, item_id, order):
    return BY_HAND[item_id][order]


def test_a_score_is_the_one_worked_by_hand():
    scores, _ = tables_of(answers_of(by_hand, inventory_of(total=True), n_orders=2), inventory_of(total=True))
    care, thirst, total = (one(scores, perceiver="a Jain", subscale=name) for name in ("care", "thirst", "total"))
    # care2 turned round on 0 to 4: 4, 3. Items' means 3, 1, 3.5: their mean 2.5.
    assert care["score"] == pytest.approx(2.5)
    # Over items: deviations .5, -1.5, 1: variance 3.5 / 2, over 3 items.
    assert care["se_items"] == pytest.approx(math.sqrt(3.5 / 2 / 3))
    # Orders' scores (4 + 1 + 4) / 3 = 3 and (2 + 1 + 3) / 3 = 2: variance .5, over 2 orders.
    assert care["se_orders"] == pytest.approx(math.sqrt(0.5 / 2))
    # Within items: variances 2, 0 and .5, pooled.
    assert care["sd_within_items"] == pytest.approx(math.sqrt(2.5 / 3))
    assert care[["n_items", "n_items_used", "n_orders", "n_asked", "n_answered"]].tolist() == [3, 3, 2, 6, 6]
    assert thirst["score"] == pytest.approx((3 + 1) / 2)
    assert total["score"] == pytest.approx((3 + 1 + 3.5 + 3 + 1) / 5)  # of all items, not of the subscales
    assert total["n_items"] == 5
    assert (scores["note"] == "").all()


def test_a_reverse_item_of_a_scale_from_one_to_five_counts_six_less_its_answer():
    inventory = inventory_of(care=2, reverse=("care1",), low=1, high=5)
    answers = answers_of(lambda p, i, o: {"care0": 4.0, "care1": 2.0}.get(i, 1.0), inventory)
    scores, _ = tables_of(answers, inventory)
    assert one(scores, perceiver="a Jain", subscale="care")["score"] == 4.0  # (4 + (6 - 2)) / 2
    assert one(scores, perceiver="a Jain", subscale="thirst")["score"] == 1.0


def test_there_is_no_total_where_the_inventory_has_none():
    scores, differences = tables_of(answers_of(by_hand, inventory_of()), inventory_of())
    assert set(scores["subscale"]) == set(differences["subscale"]) == {"care", "thirst"}


@pytest.mark.parametrize(
    ("missing", "care", "note"),
    [
        # care0 lacks one order: 2 alone. Items 2, 1, 3.5.
        ({("care0", 0)}, 6.5 / 3, ""),
        # care1 lacks both: the mean of the other two, 3 and 3.5.
        ({("care1", 0), ("care1", 1)}, 3.25, "the mean of 2 of 3 items"),
        (
            {("care0", 0), ("care0", 1), ("care1", 0), ("care1", 1)},
            math.nan,
            "1 of 3 items has an answer, and 2 are needed",
        ),
        (set(product(BY_HAND, (0, 1))), math.nan, "0 of 3 items have an answer, and 2 are needed"),
    ],
)
def test_all_items_but_one_are_needed_and_a_missing_answer_is_no_number(missing, care, note):
    def answer(perceiver, item_id, order):
        return math.nan if (item_id, order) in missing else by_hand(perceiver, item_id, order)

    scores, _ = tables_of(answers_of(answer, inventory_of(), n_orders=2), inventory_of())
    row = one(scores, perceiver="a Sikh", subscale="care")
    assert row["score"] == pytest.approx(care, nan_ok=True)
    assert row["note"] == note
    assert (row["n_asked"], row["n_answered"]) == (6, 6 - len([1 for item_id, _ in missing if "care" in item_id]))


def test_a_subscale_of_two_items_needs_both():
    inventory = inventory_of()
    answers = answers_of(lambda p, i, o: math.nan if i == "thirst0" else 2.0, inventory)
    row = one(tables_of(answers, inventory)[0], perceiver="a Jain", subscale="thirst")
    assert math.isnan(row["score"])
    assert row["note"] == "1 of 2 items has an answer, and both are needed"


def test_an_order_that_lacks_an_item_is_none_the_higher_for_it():
    # Items differ, orders do not: without centring, the order that lacks the high item would seem low.
    inventory = inventory_of(reverse=())
    answers = answers_of(
        lambda p, i, o: math.nan if (i, o) == ("care0", 1) else {"care0": 4.0}.get(i, 1.0), inventory, n_orders=3
    )
    row = one(tables_of(answers, inventory)[0], perceiver="a Jain", subscale="care")
    assert (row["score"], row["se_orders"], row["sd_within_items"]) == (2.0, 0.0, 0.0)


def test_an_order_of_which_little_was_answered_counts_in_no_spread():
    inventory = inventory_of(reverse=())
    places = {"care0": 1.0, "care1": 2.0, "care2": 3.0}
    answers = answers_of(
        lambda p, i, o: math.nan if o == 4 and i != "care0" else places.get(i, 0.0) + o / 10, inventory, n_orders=5
    )
    row = one(tables_of(answers, inventory)[0], perceiver="a Jain", subscale="care")
    assert (row["n_orders"], row["n_orders_used"]) == (5, 4)


# --- Who answers by item, and who by place ---------------------------------------------------------------------------


@dataclass
class Answerer:
    """Fills in lists: by what an item says, or by where it stands."""

    places: np.ndarray
    inventory: Inventory
    by_place: bool

    def __call__(self, perceiver, item_id, order):
        k = [item.item_id for item in self.inventory.items].index(item_id)
        return 0.7 * float((np.flatnonzero(self.places[order] == k)[0] if self.by_place else 3 * k + 1) % 5)


def test_shuffles_leave_a_model_s_scores_alone_if_it_answers_by_item_and_spread_them_if_it_answers_by_place():
    inventory = inventory_of(care=7, thirst=7, reverse=("care1", "thirst3"))
    places = orders(14, 10, seed=1)
    once, _ = tables_of(answers_of(Answerer(places, inventory, False), inventory), inventory)
    by_item, _ = tables_of(answers_of(Answerer(places, inventory, False), inventory, n_orders=10), inventory)
    by_place, _ = tables_of(answers_of(Answerer(places, inventory, True), inventory, n_orders=10), inventory)
    assert by_item["score"].tolist() == pytest.approx(once["score"].tolist(), abs=1e-12)
    assert (by_item[["se_orders", "sd_within_items"]] == 0).all().all()
    assert once[["se_orders", "sd_within_items"]].isna().all().all()  # one order says nothing about orders
    assert (by_place["se_orders"] > 0.05).all()
    assert (by_place["sd_within_items"] > 0.5).all()
    # Oracle: numpy on the scripted answers of the first subscale.
    keyed = np.array([[0.7 * (np.flatnonzero(row == k)[0] % 5) for row in places] for k in range(7)])
    keyed[1] = 4 - keyed[1]
    row = one(by_place, perceiver="a Jain", subscale="care")
    assert row["score"] == pytest.approx(keyed.mean())
    assert row["se_orders"] == pytest.approx(stats.sem(keyed.mean(axis=0)))
    assert row["sd_within_items"] == pytest.approx(math.sqrt(keyed.var(axis=1, ddof=1).mean()))


def test_what_an_order_does_to_all_perceivers_alike_cancels_in_their_differences():
    inventory = inventory_of(care=7, thirst=7)
    places = orders(14, 6, seed=2)
    model = Answerer(places, inventory, True)
    answers = answers_of(lambda p, i, o: model(p, i, o) + (p == "a Jain") * 0.5, inventory, n_orders=6)
    answers["answer"] = answers["answer"].where(answers["item_id"] != "care2", 4 - answers["answer"])  # all keyed alike
    _, differences = tables_of(answers, inventory)
    row = one(differences, perceiver_group="Jain", subscale="care")
    assert row["difference"] == pytest.approx(0.5)
    assert row["se_orders"] == pytest.approx(0, abs=1e-12)


# --- Differences -----------------------------------------------------------------------------------------------------


def random_answers(inventory, *, perceivers=WITH_BASELINES, n_orders=3, seed=0, effect=None):
    rng = np.random.default_rng(seed)
    level = {item.item_id: rng.uniform(1.5, 2.5) for item in inventory.items}
    sign = {item.item_id: -1 if item.reverse else 1 for item in inventory.items}

    def answer(perceiver, item_id, order):
        own = (effect or {}).get(perceivers[perceiver], 0.0)
        return float(np.clip(level[item_id] + sign[item_id] * own + rng.normal(scale=0.2), 0, 4))

    return answers_of(answer, inventory, perceivers=perceivers, n_orders=n_orders)


def item_means(answers, inventory, subscale):
    """Keyed means over orders and a group's perceivers: items in rows, groups in columns."""
    key = {item.item_id: item for item in inventory.items}
    own = answers.loc[[key[item_id].subscale == subscale for item_id in answers["item_id"]]].copy()
    own["answer"] = [
        4 - x if key[item_id].reverse else x for item_id, x in zip(own["item_id"], own["answer"], strict=True)
    ]
    return own.pivot_table(index="item_id", columns="perceiver_group", values="answer", aggfunc="mean")


@pytest.mark.parametrize("compared_with", ["no persona", "unspecified", "other groups"])
@pytest.mark.parametrize("group", ["Hindu", "Jain"])
def test_in_one_order_a_difference_is_scipy_s_paired_t_test_over_items(group, compared_with):
    inventory = inventory_of(care=7, thirst=4)
    perceivers = WITH_BASELINES | {"a Jaina": "Jain"}  # two terms of one group
    answers = random_answers(inventory, perceivers=perceivers, n_orders=1)
    _, differences = tables_of(answers, inventory, confidence=0.9)
    row = one(differences, perceiver_group=group, compared_with=compared_with, subscale="care")
    means = item_means(answers, inventory, "care")
    others = [name for name in ("Hindu", "Jain", "Sikh") if name != group]
    other = means[others].mean(axis=1) if compared_with == "other groups" else means[compared_with]
    tested = stats.ttest_rel(means[group], other)
    interval = tested.confidence_interval(0.9)
    assert row["difference"] == pytest.approx((means[group] - other).mean())
    assert [row["mean"], row["mean_compared"]] == pytest.approx([means[group].mean(), other.mean()])
    assert row["se"] == pytest.approx(stats.sem(means[group] - other))
    assert row[["df", "p", "ci_low", "ci_high"]].tolist() == pytest.approx([6, tested.pvalue, *interval])
    assert (row["n_items"], row["n_items_used"], row["n_perceivers"]) == (7, 7, 1 + (group == "Jain"))
    assert row["note"] == "one order: the interval takes it as it was shown"


def test_in_several_orders_their_spread_adds_to_that_of_the_items():
    inventory = inventory_of(care=7, thirst=4, reverse=())
    answers = random_answers(inventory, n_orders=3)
    cells = answers.loc[answers["item_id"].str.startswith("care")].pivot_table(
        index="item_id", columns=["perceiver", "order"], values="answer"
    )
    apart = (cells["a Jain"] - cells["no persona"]).to_numpy()
    over_items, over_orders = (stats.sem(apart.mean(axis=axis)) ** 2 for axis in (1, 0))
    se, df = welch(over_items, over_orders, 7, 3)
    _, differences = tables_of(answers, inventory, confidence=0.9)
    row = one(differences, perceiver_group="Jain", compared_with="no persona", subscale="care")
    assert row[["se_items", "se_orders"]].tolist() == pytest.approx([math.sqrt(over_items), math.sqrt(over_orders)])
    assert row[["se", "df"]].tolist() == pytest.approx([se, df])
    low, high = stats.t.interval(0.9, df, apart.mean(), se)
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(apart.mean()) / se, df))
    assert row["note"] == ""


def shown_alone(inventory, *, perceivers=PERCEIVERS, seed=0, effect=None, direction=1.0):
    """Answers from both ends of the scale: each its own noise, and all higher where it begins at the low end."""
    answers = random_answers(inventory, perceivers=perceivers, n_orders=2, seed=seed, effect=effect)
    return answers.assign(answer=answers["answer"] + np.where(answers["order"] == 0, direction, 0.0) / 2)


@pytest.mark.parametrize("compared_with", ["no persona", "other groups"])
def test_of_items_shown_alone_a_difference_is_scipy_s_paired_t_test_over_their_means(compared_with):
    inventory = inventory_of(care=7, thirst=4, reverse=())
    answers = shown_alone(inventory, perceivers=WITH_BASELINES)
    _, differences = tables_of(answers, inventory, confidence=0.9, alone=True)
    row = one(differences, perceiver_group="Jain", compared_with=compared_with, subscale="care")
    means = item_means(answers, inventory, "care")
    other = means[["Hindu", "Sikh"]].mean(axis=1) if compared_with == "other groups" else means[compared_with]
    tested = stats.ttest_rel(means["Jain"], other)
    interval = tested.confidence_interval(0.9)
    assert row[["difference", "se"]].tolist() == pytest.approx(
        [(means["Jain"] - other).mean(), stats.sem(means["Jain"] - other)]
    )
    assert row[["df", "p", "ci_low", "ci_high"]].tolist() == pytest.approx([6, tested.pvalue, *interval])
    assert (row["se_items"], row["note"]) == (row["se"], "")
    assert math.isnan(row["se_orders"])


@pytest.mark.simulation
@pytest.mark.parametrize("care", [3, 7])
def test_a_planted_difference_of_items_shown_alone_lies_within_95_of_100_intervals(care):
    inventory, two = inventory_of(care=care, reverse=()), {"a Hindu": "Hindu", "a Jain": "Jain"}
    held, as_a_list = [], []
    for seed in range(300):
        answers = shown_alone(inventory, perceivers=two, seed=seed, effect={"Hindu": 0.3})
        for kept, alone in ((held, True), (as_a_list, False)):
            row = one(tables_of(answers, inventory, alone=alone)[1], perceiver_group="Hindu", subscale="care")
            kept.append(row["ci_low"] <= 0.3 <= row["ci_high"])
    assert 0.92 <= np.mean(held) <= 0.98  # binomial, with a standard deviation of .013
    assert np.mean(as_a_list) > np.mean(held)  # two directions are a poor sample of orders


def test_the_directions_of_the_scale_are_no_sample():
    inventory = inventory_of(reverse=())
    scores, _ = tables_of(shown_alone(inventory), inventory, alone=True)
    listed, _ = tables_of(shown_alone(inventory), inventory)
    assert scores["se_orders"].isna().all()
    assert (listed["se_orders"] > 0.2).all()
    assert (scores["n_orders_used"] == 0).all()
    same = [name for name in INVENTORY_SCORES if name not in ("se_orders", "n_orders_used")]
    pd.testing.assert_frame_equal(scores[same], listed[same])


@pytest.mark.parametrize("alone", [True, False])
def test_two_items_have_a_difference_and_no_interval(alone):
    inventory = inventory_of(care=5, thirst=2)
    answers = random_answers(inventory, n_orders=2)
    _, differences = tables_of(answers, inventory, alone=alone)
    row = one(differences, perceiver_group="Jain", compared_with="no persona", subscale="thirst")
    means = item_means(answers, inventory, "thirst")
    assert row["difference"] == pytest.approx((means["Jain"] - means["no persona"]).mean())
    assert row[[*NUMBERS[1:], "p_adjusted"]].isna().all()
    assert row["note"] == "2 items are too few for an interval, which takes 3"
    assert row["family_size"] == 4  # groups; of care alone


def test_each_comparison_is_a_family_over_groups_and_subscales_corrected_by_holm():
    inventory = inventory_of(care=5, thirst=4)
    _, differences = tables_of(random_answers(inventory), inventory)
    sizes = differences.groupby("compared_with").size()
    assert sizes.to_dict() == {"no persona": 8, "unspecified": 6, "other groups": 6}
    for _, family in differences.groupby("compared_with"):
        ordered = family.sort_values("p")
        steps = ordered["p"].to_numpy() * np.arange(len(ordered), 0, -1)
        assert ordered["p_adjusted"].tolist() == pytest.approx(np.minimum(np.maximum.accumulate(steps), 1).tolist())
        assert set(family["family_size"]) == {len(family)}


def test_two_groups_are_one_question_and_one_test():
    inventory = inventory_of(care=5, thirst=4)
    two = {"a Hindu": "Hindu", "a Jain": "Jain"}
    _, differences = tables_of(random_answers(inventory, perceivers=two), inventory)
    first, second = (one(differences, perceiver_group=group, subscale="care") for group in ("Hindu", "Jain"))
    assert first["difference"] == pytest.approx(-second["difference"])
    assert math.isnan(second["p"])
    assert second["note"] == "the other side of the difference of Hindu, and no test of its own"
    assert first["family_size"] == 2


def test_a_planted_difference_lies_within_its_interval_as_often_as_it_should():
    inventory = inventory_of(care=7, thirst=2)
    effect = {"Hindu": 0.3, "Jain": -0.15, "Sikh": -0.15}  # Hindu less the mean of the others: .45
    held, found = [], []
    for seed in range(120):
        answers = random_answers(inventory, perceivers=PERCEIVERS, seed=seed, n_orders=2, effect=effect)
        _, differences = tables_of(answers, inventory)
        row = one(differences, perceiver_group="Hindu", compared_with="other groups", subscale="care")
        held.append(row["ci_low"] <= 0.45 <= row["ci_high"])
        found.append(row["p_adjusted"] < 0.05)
    assert sum(held) >= 112  # of 120: the interval errs to the wide side of 95%
    assert sum(found) > 60


def test_the_same_difference_in_all_items_has_no_interval():
    inventory = inventory_of()
    answers = answers_of(lambda p, i, o: 2.0 + (p == "a Jain") * (-1 if i == "care2" else 1), inventory)
    _, differences = tables_of(answers, inventory)
    row = one(differences, perceiver_group="Jain", subscale="care")
    assert row["difference"] == 1.0
    assert row[["se", "ci_low", "ci_high", "p", "p_adjusted"]].isna().all()
    assert row["note"] == "all 3 items give the same value, so its spread is 0"


def test_a_difference_is_paired_by_item_and_order():
    # The Jain's answers are the Hindu's in every item and order that both have; the order that one lacks is higher.
    inventory = inventory_of(care=4, reverse=())
    two = {"a Hindu": "Hindu", "a Jain": "Jain"}
    answers = answers_of(lambda p, i, o: float(o + (i == "care1")), inventory, perceivers=two, n_orders=2)
    lacking = (answers["perceiver"] == "a Jain") & (answers["item_id"] == "care0") & (answers["order"] == 1)
    answers.loc[lacking, "answer"] = math.nan
    scores, differences = tables_of(answers, inventory)
    assert (
        one(scores, perceiver="a Jain", subscale="care")["score"]
        < one(scores, perceiver="a Hindu", subscale="care")["score"]
    )
    for group in ("Hindu", "Jain"):
        row = one(differences, perceiver_group=group, subscale="care")
        assert row["difference"] == 0.0
        assert row["mean"] == row["mean_compared"]


def test_perceivers_without_a_score_are_left_out_and_counted():
    inventory = inventory_of(care=5)
    perceivers = PERCEIVERS | {"a Jaina": "Jain"}
    whole = random_answers(inventory, perceivers=perceivers)
    silent = whole.assign(answer=whole["answer"].where(~whole["perceiver"].isin(["a Jaina", "a Sikh"])))
    _, differences = tables_of(silent, inventory)
    rows = {group: one(differences, perceiver_group=group, subscale="care") for group in ("Hindu", "Jain", "Sikh")}
    without = whole.loc[whole["perceiver"].isin(["a Hindu", "a Jain"])]
    expected = one(tables_of(without, inventory)[1], perceiver_group="Hindu", subscale="care")
    assert rows["Hindu"][NUMBERS].tolist() == pytest.approx(expected[NUMBERS].tolist())
    assert rows["Hindu"]["note"] == "2 perceivers without enough answers left out"
    assert rows["Jain"]["n_perceivers"] == 1
    assert "the other side of the difference of Hindu" in rows["Jain"]["note"]
    assert rows["Sikh"]["note"] == "no perceiver of the group has enough answers"
    assert rows["Sikh"][[*NUMBERS, "mean", "p_adjusted"]].isna().all()


def test_items_that_are_not_answered_together_are_named():
    inventory = inventory_of(care=4, reverse=())
    lost = {"a Hindu": "care0", "a Jain": "care1"}
    answers = answers_of(lambda p, i, o: math.nan if lost.get(p) == i else 2.0, inventory)
    _, differences = tables_of(answers, inventory)
    row = one(differences, perceiver_group="Hindu", subscale="care")
    assert math.isnan(row["difference"])
    assert row["note"] == "2 of 4 items have an answer of all that are compared in one order, and 3 are needed"


def test_rows_may_come_in_any_order_and_dimensions_are_kept_apart():
    inventory = inventory_of()
    first, second = (random_answers(inventory, seed=seed) for seed in (1, 2))
    both = pd.concat([first, second.assign(dimension="nationality")], ignore_index=True)
    before = both.copy()
    together, alone = tables_of(both, inventory), tables_of(second.assign(dimension="nationality"), inventory)
    pd.testing.assert_frame_equal(both, before)
    for whole, own in zip(together, alone, strict=True):
        of_dimension = whole.loc[whole["dimension"] == "nationality"].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_dimension, own, check_exact=True)
    shuffled = first.sample(frac=1.0, random_state=3).astype({"perceiver": "category", "answer": "Float64"})
    keys = ["perceiver", "subscale"]
    expected, found = (
        tables_of(each, inventory)[0].sort_values(keys).reset_index(drop=True) for each in (first, shuffled)
    )
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_without_rows_the_tables_are_empty():
    answers = answers_of(by_hand, inventory_of())
    assert all(table.empty for table in tables_of(answers.iloc[:0], inventory_of()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: pd.concat([t, t.iloc[:1]]), "an answer occurs twice"),
        (lambda t: t.assign(answer=5.0), "the answer 5 is not on the scale from 0 to 4"),
        (lambda t: t.assign(item_id="milk"), "the item 'milk', which the inventory does not have"),
    ],
)
def test_answers_that_can_not_be_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        inventory_tables(change(answers_of(by_hand, inventory_of())), inventory_of(), alone=False, confidence=0.95)
