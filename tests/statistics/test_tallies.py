import numpy as np
import pandas as pd
import pytest

from audit.statistics.status_counts import outcome_table
from audit.tables.ratings import OUTCOMES

NAN = np.nan


def test_outcomes_against_counts_worked_by_hand(ratings_of):
    # One narrative, unspecified + A + B: 2 in-group, 2 out-group and 5 baseline pairs.
    y = [[[0, 100, 50], [0, 100, NAN], [50, 20, 0]]]
    table = outcome_table(ratings_of(y, ["unspecified", "A", "B"]), low=0, high=100).set_index("pairs")
    assert ["dimension", "variant", "pairs", *table.columns[2:]] == list(OUTCOMES)
    assert table["n_prompts"].to_dict() == {"in_group": 2, "out_group": 2, "baseline": 5, "all": 9}
    assert table["n_rated"].to_dict() == {"in_group": 2, "out_group": 1, "baseline": 5, "all": 8}
    assert table["n_refused"].to_dict() == {"in_group": 0, "out_group": 1, "baseline": 0, "all": 1}
    assert table["refusal_rate"].to_dict() == {
        "in_group": 0,
        "out_group": 0.5,
        "baseline": 0,
        "all": pytest.approx(1 / 9),
    }
    assert table["floor_share"].to_dict() == {"in_group": 0.5, "out_group": 0, "baseline": 0.4, "all": 3 / 8}
    assert table["ceiling_share"].to_dict() == {"in_group": 0.5, "out_group": 0, "baseline": 0.2, "all": 2 / 8}
    assert table[["mean_number_mass", "low_mass_share"]].isna().all(axis=None)


def test_kinds_of_pair_without_prompts_have_no_row(ratings_of):
    table = outcome_table(ratings_of(np.ones((2, 2, 2)), ["A", "B"]), low=0, high=10)
    assert table["pairs"].tolist() == ["in_group", "out_group", "all"]


def test_share_of_no_ratings_is_missing_not_zero(ratings_of):
    table = outcome_table(ratings_of(np.full((2, 2, 2), NAN), ["A", "B"], missing_status="failed"), low=0, high=10)
    assert table[["floor_share", "ceiling_share"]].isna().all(axis=None)
    assert table["n_failed"].tolist() == [4, 4, 8]
    assert table["refusal_rate"].tolist() == [0, 0, 0]


def test_number_mass_is_averaged_over_prompts_that_have_one(ratings_of):
    ratings = ratings_of(np.ones((1, 2, 2)), ["A", "B"])
    ratings["number_mass"] = [0.2, NAN, 0.5, 0.6]
    table = outcome_table(ratings, low=0, high=10).set_index("pairs")
    assert table["mean_number_mass"].to_dict() == pytest.approx({"in_group": 0.4, "out_group": 0.5, "all": 1.3 / 3})
    assert table["low_mass_share"].to_dict() == pytest.approx({"in_group": 0.5, "out_group": 0, "all": 1 / 3})
    table = outcome_table(ratings, low=0, high=10, min_number_mass=0.55).set_index("pairs")
    assert table["low_mass_share"].to_dict() == pytest.approx({"in_group": 0.5, "out_group": 1, "all": 2 / 3})


def test_expected_value_within_rounding_of_an_end_is_at_it(ratings_of):
    table = outcome_table(ratings_of([[[10 - 1e-12, 9.99], [1e-12, 0.01]]], ["A", "B"]), low=0, high=10)
    assert table.set_index("pairs").loc["all", ["floor_share", "ceiling_share"]].tolist() == [0.25, 0.25]


def test_a_scale_that_does_not_begin_at_0_has_its_own_end(ratings_of):
    table = outcome_table(ratings_of([[[1, 2], [7, 1]]], ["A", "B"]), low=1, high=7)
    assert table.set_index("pairs").loc["all", ["floor_share", "ceiling_share"]].tolist() == [0.5, 0.25]


def test_each_dimension_and_variant_is_counted_apart(ratings_of):
    first = ratings_of(np.ones((2, 2, 2)), ["A", "B"], dimension="nation")
    second = ratings_of(np.full((3, 2, 2), NAN), ["A", "B"])
    table = outcome_table(pd.concat([first, second], ignore_index=True), low=0, high=10)
    assert table["dimension"].tolist() == ["nation"] * 3 + ["religion"] * 3
    assert table["n_rated"].tolist() == [4, 4, 8, 0, 0, 0]


def test_reversed_scale_is_an_error(ratings_of):
    with pytest.raises(ValueError, match="from 10 to 0"):
        outcome_table(ratings_of(np.ones((1, 2, 2)), ["A", "B"]), low=10, high=0)


def test_ratings_beyond_the_scale_are_counted_and_at_neither_end(ratings_of):
    table = outcome_table(ratings_of([[[85, 10], [-3, 0]]], ["A", "B"]), low=0, high=10).set_index("pairs")
    assert table["n_above_scale"].to_dict() == {"in_group": 1, "out_group": 0, "all": 1}
    assert table["n_below_scale"].to_dict() == {"in_group": 0, "out_group": 1, "all": 1}
    assert table.loc["all", ["floor_share", "ceiling_share"]].tolist() == [0.25, 0.25]
    table = outcome_table(ratings_of([[[10 + 1e-12, -1e-12], [3, 4]]], ["A", "B"]), low=0, high=10).set_index("pairs")
    columns = ["n_above_scale", "n_below_scale", "floor_share", "ceiling_share"]
    assert table.loc["all", columns].tolist() == [0, 0, 0.25, 0.25]
