import numpy as np
import pandas as pd
import pytest

from audit.statistics.cells import NarrativeCube, cell_table
from audit.tables.cells import CELLS

NAN = np.nan


def cube_of(ratings, **options):
    return NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", **options)


def test_cells_against_numbers_worked_by_hand(ratings_of):
    # Three narratives; the cell (0, 0) has 10, 20 and a refusal: mean 15, sd √((25 + 25)/1) = √50.
    y = [[[10, 1], [2, 3]], [[20, 1], [2, 4]], [[NAN, 1], [NAN, 8]]]
    table = cell_table(ratings_of(y, ["A", "B"]))

    assert list(table.columns) == list(CELLS)
    assert table[["perceiver", "experiencer"]].to_numpy().tolist() == [
        ["person 0 of A", "person 0 of A"],
        ["person 0 of A", "person 1 of B"],
        ["person 1 of B", "person 0 of A"],
        ["person 1 of B", "person 1 of B"],
    ]
    assert table["mean"].tolist() == [15, 1, 2, 5]
    np.testing.assert_allclose(table["sd"], [50**0.5, 0, 0, 7**0.5])  # 3, 4, 8: deviations −2, −1, 3; 14 / 2
    assert table["n_prompts"].tolist() == [3, 3, 3, 3]
    assert table["n_rated"].tolist() == [2, 3, 2, 3]
    assert table["n_refused"].tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(table["refusal_rate"], [1 / 3, 0, 1 / 3, 0])
    assert table["in_group"].tolist() == [True, False, False, True]
    assert table["n_shared"].tolist() == [1, 0, 0, 1]


def test_cell_without_ratings_has_no_mean_and_one_rating_no_sd(ratings_of):
    table = cell_table(ratings_of([[[NAN, 1], [2, 3]]], ["A", "B"], missing_status="unparseable"))
    assert table["mean"].isna().tolist() == [True, False, False, False]
    assert table["sd"].isna().all()
    assert table["unparseable_rate"].tolist() == [1, 0, 0, 0]
    assert table["refusal_rate"].tolist() == [0, 0, 0, 0]


def test_baseline_cells_are_shown_without_group_membership(ratings_of):
    table = cell_table(ratings_of(np.ones((1, 3, 2)), ["A", "unspecified", "no persona"], ["A", "unspecified"]))
    assert table["n_shared"].isna().tolist() == [False, True, True, True, True, True]
    assert table["in_group"].isna().tolist() == [False, True, True, True, True, True]
    assert table["perceiver_group"].tolist() == ["A", "A", "unspecified", "unspecified", "no persona", "no persona"]


def test_cells_keep_dimensions_variants_and_identities_in_order_of_first_appearance(ratings_of):
    parts = [
        ratings_of(np.ones((1, 2, 2)), ["Z", "A"], dimension=dimension, variant=variant)
        for dimension, variant in (("religion", "origin"), ("nation", "origin"), ("nation", "10-scale"))
    ]
    table = cell_table(pd.concat(parts[::-1], ignore_index=True))
    assert table["dimension"].tolist() == ["nation"] * 8 + ["religion"] * 4
    assert table["variant"].tolist() == ["10-scale"] * 4 + ["origin"] * 8
    assert table["perceiver_group"].tolist() == ["Z", "Z", "A", "A"] * 3


def test_pair_that_was_never_asked_has_no_row(ratings_of):
    ratings = ratings_of(np.ones((2, 2, 2)), ["A", "B"]).query(
        "not (perceiver_group == 'A' and experiencer_group == 'B')"
    )
    assert len(cell_table(ratings)) == 3


def test_empty_ratings_give_an_empty_table(ratings_of):
    assert list(cell_table(ratings_of(np.ones((1, 1, 1)), ["A"]).iloc[:0]).columns) == list(CELLS)


def test_cube_places_every_rating_whatever_the_order_of_rows(ratings_of):
    y = np.arange(24.0).reshape(4, 2, 3)
    ratings = ratings_of(y, ["A", "B"], ["A", "B", "C"])
    cube = cube_of(ratings)
    np.testing.assert_array_equal(cube.y, y)
    assert cube.n_shared.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert cube.narrative_ids == ("n0", "n1", "n2", "n3")
    assert cube.emotions == ("anger", "joy", "anger", "joy")
    assert cube.experiencer_groups == ("A", "B", "C")

    shuffled = cube_of(ratings.sample(frac=1, random_state=3))
    narratives = [shuffled.narrative_ids.index(name) for name in cube.narrative_ids]
    perceivers = [shuffled.perceivers.index(name) for name in cube.perceivers]
    experiencers = [shuffled.experiencers.index(name) for name in cube.experiencers]
    np.testing.assert_array_equal(shuffled.y[np.ix_(narratives, perceivers, experiencers)], y)


@pytest.mark.parametrize("as_category", [False, True])
def test_cube_is_the_same_from_strings_and_categoricals(ratings_of, as_category):
    y = np.arange(8.0).reshape(2, 2, 2)
    ratings = ratings_of(y, ["B", "A"])
    if as_category:
        labels = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "status"]
        ratings = ratings.astype(dict.fromkeys([*labels, "perceiver_group", "experiencer_group"], "category"))
    cube = cube_of(ratings)
    np.testing.assert_array_equal(cube.y, y)
    assert cube.perceivers == ("person 0 of B", "person 1 of A")


def test_cube_leaves_baselines_out_unless_asked(ratings_of):
    y = np.arange(12.0).reshape(1, 4, 3)
    ratings = ratings_of(y, ["unspecified", "A", "no persona", "B"], ["unspecified", "A", "B"])
    np.testing.assert_array_equal(cube_of(ratings).y, y[:, [1, 3], 1:])

    whole = cube_of(ratings, baselines=True)
    np.testing.assert_array_equal(whole.y, y)
    assert whole.baseline_perceiver.tolist() == [True, False, True, False]
    assert whole.baseline_experiencer.tolist() == [True, False, False]
    np.testing.assert_array_equal(whole.without_baselines().y, y[:, [1, 3], 1:])


@pytest.mark.parametrize("status", ["refused", "unparseable", "failed"])
def test_refusal_is_missing_not_zero(ratings_of, status):
    ratings = ratings_of(np.full((1, 2, 2), 5.0), ["A", "B"])
    ratings.loc[0, "status"] = status  # its intensity of 5 stays in the table, and is no rating
    assert np.isnan(cube_of(ratings).y).tolist() == [[[True, False], [False, False]]]
    assert cell_table(ratings)["mean"].isna().tolist() == [True, False, False, False]


def test_input_is_not_modified(ratings_of):
    ratings = ratings_of(np.arange(8.0).reshape(2, 2, 2), ["A", "B"])
    before = ratings.copy(deep=True)
    cell_table(ratings)
    cube_of(ratings)
    pd.testing.assert_frame_equal(ratings, before)


def test_duplicate_prompt_is_named(ratings_of):
    ratings = ratings_of(np.ones((2, 2, 2)), ["A", "B"])
    twice = pd.concat([ratings, ratings.iloc[[5]]])
    message = r"2 rows of .*'religion'.*'origin'.*'n1'.*'person 0 of A'.*'person 1 of B'"
    with pytest.raises(ValueError, match=message):
        cube_of(twice)


@pytest.mark.parametrize("table", [cell_table, cube_of])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("status", "ok", "status 'ok'; there are: rated"),
        ("status", None, "status None"),
        ("n_shared", 0, "more than one value of n_shared"),
        ("in_group", None, "more than one value of in_group"),
        ("perceiver", None, "perceiver is missing in row 0"),
        ("intensity", None, "'rated' and intensity nan"),
    ],
)
def test_contradictory_ratings_are_errors(ratings_of, table, column, value, message):
    ratings = ratings_of(np.ones((2, 2, 2)), ["A", "B"])
    ratings.loc[0, column] = value
    with pytest.raises(ValueError, match=message):
        table(ratings)


def test_in_group_that_contradicts_n_shared_is_an_error(ratings_of):
    ratings = ratings_of(np.ones((1, 2, 2)), ["A", "B"])
    ratings["in_group"] = ~ratings["in_group"]
    with pytest.raises(ValueError, match=r"n_shared 1\.0 and in_group 0\.0"):
        cube_of(ratings)


def test_ratings_of_out_group_pairs_alone_contradict_nothing(ratings_of):
    ratings = ratings_of(np.ones((1, 2, 2)), ["A", "B"])
    cube = cube_of(ratings[~ratings["in_group"].astype(bool)])
    assert not cube.in_group.any()
    assert np.count_nonzero(~np.isnan(cube.y)) == 2


def test_unknown_dimension_is_an_error(ratings_of):
    ratings = ratings_of(np.ones((1, 2, 2)), ["A", "B"])
    with pytest.raises(ValueError, match="none of dimension 'nation' and variant 'origin'"):
        NarrativeCube.from_ratings(ratings, dimension="nation", variant="origin")
