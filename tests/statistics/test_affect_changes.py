"""Oracles: changes worked by hand, scipy's t-test, planted changes."""

import math

import numpy as np
import pytest
from questionnaires import PERCEIVERS, WITH_BASELINES, answers_of, inventory_of, one, welch
from scipy import stats

from audit.tasks.inventory.affect import affect_tables
from audit.tasks.inventory.tables import AFFECT_CHANGES, AFFECT_DIFFERENCES, AFFECT_NARRATIVES

NARRATIVES = ["default", "glad1", "glad2", "glad3", "sad1", "sad2"]
KINDS = {name: name[:-1] for name in NARRATIVES[1:]}


def affect_of(inventory, *, effect=None, seed=0, n_orders=2, narratives=NARRATIVES, perceivers=WITH_BASELINES):
    rng = np.random.default_rng(seed)
    shifts = {name: rng.normal(scale=0.1) for name in narratives}
    drawn = {}

    def answer(perceiver, item_id, narrative, order):
        way = {"g": 0.5, "s": -0.5}.get(narrative[0], 0.0) + shifts[narrative]
        own = 0.0 if narrative == "default" else (effect or {}).get(perceivers[perceiver], 0.0)
        drawn[perceiver, item_id, narrative, order] = 2 + way + own + rng.normal(scale=0.1)
        return drawn[perceiver, item_id, narrative, order]

    return answers_of(answer, inventory, perceivers=perceivers, n_orders=n_orders, narratives=narratives)


def affect_tables_of(answers, inventory, **options):
    tables = affect_tables(answers, inventory, **({"confidence": 0.95, "alone": False} | options))
    columns = [AFFECT_NARRATIVES, AFFECT_CHANGES, AFFECT_DIFFERENCES]
    assert [list(table.columns) for table in tables.values()] == [list(each) for each in columns]
    assert list(tables) == ["affect_narratives", "affect_changes", "affect_differences"]
    return list(tables.values())


AFFECT = inventory_of(reverse=())


def changes_by_hand(answers, perceivers, kind="glad"):
    """One a narrative: the mean evoked answer to the items of care less the mean default."""
    own = answers.loc[answers["perceiver"].isin(perceivers) & answers["item_id"].str.startswith("care")]
    means = own.groupby("narrative_id")["answer"].mean()
    return np.array([means[name] - means["default"] for name in NARRATIVES if KINDS.get(name) == kind])


def test_in_one_order_a_change_is_evoked_less_default_with_scipy_s_t_test_over_narratives():
    answers = affect_of(AFFECT, n_orders=1)
    narratives, changes, _ = affect_tables_of(answers, AFFECT, kinds=KINDS, confidence=0.8)
    by_hand = changes_by_hand(answers, ["a Jain"])
    own = narratives.loc[(narratives["perceiver"] == "a Jain") & (narratives["subscale"] == "care")]
    assert own["narrative_id"].tolist() == NARRATIVES[1:]
    assert own["change"].iloc[:3].tolist() == pytest.approx(by_hand.tolist())
    assert (own["evoked"] - own["default"]).tolist() == pytest.approx(own["change"].tolist())
    row = one(changes, perceiver="a Jain", subscale="care", narratives="glad")
    tested = stats.ttest_1samp(by_hand, 0.0)
    interval = tested.confidence_interval(0.8)
    assert row[["change", "df", "p", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [by_hand.mean(), 2, tested.pvalue, *interval]
    )
    assert row["evoked"] - row["default"] == pytest.approx(row["change"])
    assert row["note"] == "one order: the interval takes it as it was shown"
    assert (row["n_narratives"], row["n_narratives_asked"]) == (3, 3)
    assert set(changes["family_size"]) == {5 * 2 * 2}  # perceivers, subscales, kinds


@pytest.mark.parametrize("compared_with", ["no persona", "other groups"])
def test_groups_differ_by_the_mean_of_their_changes_narrative_by_narrative(compared_with):
    answers = affect_of(AFFECT, effect={"Jain": 0.4})
    *_, differences = affect_tables_of(answers, AFFECT, kinds=KINDS)
    row = one(differences, perceiver_group="Jain", compared_with=compared_with, subscale="care", narratives="glad")
    others = ["no persona"] if compared_with == "no persona" else ["a Hindu", "a Sikh"]
    by_hand = changes_by_hand(answers, ["a Jain"]) - changes_by_hand(answers, others)
    by_order = [
        (changes_by_hand(own, ["a Jain"]) - changes_by_hand(own, others)).mean() for _, own in answers.groupby("order")
    ]
    se, df = welch(stats.sem(by_hand) ** 2, stats.sem(by_order) ** 2, 3, 2)
    assert row["difference"] == pytest.approx(by_hand.mean())
    assert row["mean"] - row["mean_compared"] == pytest.approx(row["difference"])
    assert row[["se", "df", "se_narratives", "se_orders"]].tolist() == pytest.approx(
        [se, df, stats.sem(by_hand), stats.sem(by_order)]
    )
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(by_hand.mean()) / se, df))
    assert set(differences["family_size"]) == {4 * 4, 3 * 4}  # groups by subscales and kinds


def test_a_planted_difference_of_changes_lies_within_its_interval_however_many_narratives_share_a_default():
    narratives = ["default", *(f"glad{k}" for k in range(40))]
    held, held_over_narratives = [], []
    for seed in range(40):
        answers = affect_of(
            AFFECT, effect={"Jain": 0.3}, narratives=narratives, n_orders=4, perceivers=PERCEIVERS, seed=seed
        )
        *_, differences = affect_tables_of(answers, AFFECT)
        row = one(differences, perceiver_group="Jain", subscale="care")
        held.append(row["ci_low"] <= 0.3 <= row["ci_high"])
        half = stats.t.ppf(0.975, 39) * row["se_narratives"]
        held_over_narratives.append(abs(row["difference"] - 0.3) <= half)
    assert sum(held) >= 35  # 38 expected, binomial with a standard deviation of 1.4
    assert sum(held_over_narratives) <= 30  # why orders are a part of it


@pytest.mark.parametrize("table", ["change", "difference"])
def test_of_items_shown_alone_what_is_evoked_varies_over_narratives_and_items(table):
    answers = affect_of(AFFECT, effect={"Jain": 0.4})
    _, changes, differences = affect_tables_of(answers, AFFECT, kinds=KINDS, alone=True)
    chosen = {"subscale": "care", "narratives": "glad"}
    own = answers.loc[answers["item_id"].str.startswith("care")]
    means = own.pivot_table(index="item_id", columns=["perceiver", "narrative_id"], values="answer")
    glad = ["glad1", "glad2", "glad3"]
    moved = {name: means[name][glad].sub(means[name]["default"], axis=0) for name in ("a Jain", "no persona")}
    if table == "change":
        row, by_hand = one(changes, perceiver="a Jain", **chosen), moved["a Jain"]
    else:
        row = one(differences, perceiver_group="Jain", compared_with="no persona", **chosen)
        by_hand = moved["a Jain"] - moved["no persona"]
    over_narratives, over_items = (stats.sem(by_hand.mean(axis=axis)) for axis in (0, 1))
    se, df = welch(over_narratives**2, over_items**2, 3, 3)
    assert row[[table, "se", "df"]].tolist() == pytest.approx([by_hand.to_numpy().mean(), se, df])
    assert row[["se_narratives", "se_items"]].tolist() == pytest.approx([over_narratives, over_items])
    assert math.isnan(row["se_orders"])
    few = one(changes, perceiver="a Jain", subscale="thirst", narratives="glad")
    assert few["note"] == "2 items are too few for an interval, which takes 3"
    assert math.isnan(few["ci_low"])


def test_of_items_shown_alone_a_default_that_all_narratives_share_makes_no_change_seem_sure():
    inventory, narratives = inventory_of(care=7, reverse=()), ["default", *(f"n{k}" for k in range(40))]
    held, held_over_narratives = [], []
    for seed in range(60):
        answers = affect_of(inventory, narratives=narratives, perceivers={"a Jain": "Jain"}, seed=seed)
        answers["answer"] = 2 + np.random.default_rng(seed).normal(scale=0.3, size=len(answers))
        row = one(affect_tables_of(answers, inventory, alone=True)[1], subscale="care")
        held.append(row["ci_low"] <= 0 <= row["ci_high"])
        held_over_narratives.append(abs(row["change"]) <= stats.t.ppf(0.975, 39) * row["se_narratives"])
    assert sum(held) >= 52  # 57 expected, with a standard deviation of 1.7
    assert sum(held_over_narratives) < 30


def test_without_kinds_all_narratives_are_taken_together():
    answers = affect_of(AFFECT)
    _, changes, differences = affect_tables_of(answers, AFFECT)
    assert set(changes["narratives"]) == set(differences["narratives"]) == {"all"}
    assert set(changes["n_narratives"]) == {5}


def test_narratives_without_a_kind_are_shown_and_not_tested():
    narratives, changes, _ = affect_tables_of(affect_of(AFFECT), AFFECT, kinds={"glad1": "glad", "glad2": "glad"})
    assert set(narratives["narrative_id"]) == set(NARRATIVES[1:])
    assert set(changes["n_narratives"]) == {2}


def test_a_narrative_without_enough_answers_is_missing_and_one_narrative_has_no_interval():
    answers = affect_of(AFFECT)
    lost = (answers["narrative_id"] == "sad1") & (answers["perceiver"] == "a Jain")
    answers.loc[lost, "answer"] = math.nan
    narratives, changes, differences = affect_tables_of(answers, AFFECT, kinds=KINDS)
    assert math.isnan(one(narratives, perceiver="a Jain", narrative_id="sad1", subscale="care")["change"])
    row = one(changes, perceiver="a Jain", narratives="sad", subscale="care")
    assert (row["n_narratives"], row["n_narratives_asked"]) == (1, 2)
    assert row["change"] == pytest.approx(changes_by_hand(answers, ["a Jain"], "sad")[1])
    assert math.isnan(row["p"])
    assert row["note"] == "one of the narratives says nothing about how narratives differ"
    row = one(differences, perceiver_group="Hindu", compared_with="other groups", narratives="sad", subscale="care")
    assert row["n_narratives"] == 1  # the Jain's is missing in the mean of the others
    answers.loc[answers["perceiver"] == "a Jain", "answer"] = math.nan
    _, changes, differences = affect_tables_of(answers, AFFECT, kinds=KINDS)
    row = one(changes, perceiver="a Jain", narratives="sad", subscale="care")
    assert row[["default", "evoked", "change", "se", "p"]].isna().all()
    assert row["note"] == "in none of 2 narratives were enough items answered"
    row = one(differences, perceiver_group="Hindu", compared_with="other groups", narratives="sad", subscale="care")
    assert row["n_narratives"] == 2
    assert row["note"].startswith("1 perceiver without enough answers left out")


def test_a_change_is_paired_by_item_and_order():
    # Every evoked answer is 1 above the default of its item and order; the order that some lack is much higher.
    answers = answers_of(
        lambda p, i, n, o: 2.0 * o + (n != "default"), AFFECT, n_orders=2, narratives=["default", "glad1", "glad2"]
    )
    lacking = (answers["narrative_id"] == "glad1") & (answers["item_id"] == "care0") & (answers["order"] == 1)
    answers.loc[lacking, "answer"] = math.nan
    narratives, changes, _ = affect_tables_of(answers, AFFECT)
    assert set(narratives["change"]) == set(changes["change"]) == {1.0}


def test_an_item_missing_in_the_default_is_left_out_of_the_evoked_too():
    answers = affect_of(AFFECT, n_orders=1)
    high = answers["item_id"] == "care0"
    answers.loc[high, "answer"] = 4.0
    answers.loc[high & (answers["narrative_id"] == "default"), "answer"] = math.nan
    narratives, *_ = affect_tables_of(answers, AFFECT, kinds=KINDS)
    row = one(narratives, perceiver="a Sikh", narrative_id="sad1", subscale="care")
    own = answers.loc[(answers["perceiver"] == "a Sikh") & answers["item_id"].isin(["care1", "care2"])]
    means = own.groupby("narrative_id")["answer"].mean()
    assert row[["default", "evoked"]].tolist() == pytest.approx([means["default"], means["sad1"]])


def test_reverse_items_are_turned_round_both_times():
    turned = inventory_of(reverse=("care0", "care1", "care2"))
    answers = affect_of(AFFECT)
    mirrored = answers.assign(
        answer=answers["answer"].where(~answers["item_id"].str.startswith("care"), 4 - answers["answer"])
    )
    _, expected, _ = affect_tables_of(answers, AFFECT)
    _, found, _ = affect_tables_of(mirrored, turned)
    assert found["change"].tolist() == pytest.approx(expected["change"].tolist())


def test_answers_without_a_default_are_refused():
    answers = affect_of(AFFECT)
    with pytest.raises(ValueError, match="no answers of the narrative 'default' to compare with"):
        affect_tables(answers.loc[answers["narrative_id"] != "default"], AFFECT, alone=False, confidence=0.95)
