"""What lies behind the means: hand-worked counts, means and bins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes import cube_of

from audit.statistics.distributions import cell_emotion_rows, distribution_rows, narrative_rows, null_rows
from audit.statistics.published import published_cells, published_gap, rounded_means, standardise_cells
from audit.statistics.status_counts import END_TOLERANCE
from audit.tables.cells import CELL_EMOTIONS, DISTRIBUTIONS, NARRATIVES, NULL

NAN = np.nan
# Three narratives (joy, joy, fear), perceivers A and B and the unspecified one; NaN is a refusal.
Y = [
    [[10, 20, 30], [40, 100, 50], [60, 0, 70]],
    [[30, 40, 50], [NAN, 80, 70], [20, 40, 10]],
    [[50, NAN, 10], [0, 60, 90], [30, 30, 30]],
]
CUBE = cube_of(Y, groups=["A", "B", "unspecified"], emotions=["joy", "joy", "fear"])


def test_a_pair_s_ratings_of_an_emotion_have_their_own_mean_and_counts():
    table = pd.DataFrame(cell_emotion_rows(CUBE))
    assert list(table) == list(CELL_EMOTIONS)
    assert len(table) == 9 * 2
    cells = table.set_index(["perceiver", "experiencer", "emotion"])
    first = cells.loc[("person 0", "person 0", "joy")]
    assert (first["mean"], first["n_prompts"], first["n_rated"]) == (20, 2, 2)
    assert first["sd"] == pytest.approx(200**0.5)  # (10 - 20)² + (30 - 20)², over 2 - 1
    refused = cells.loc[("person 1", "person 0", "joy")]
    assert (refused["mean"], refused["n_rated"], refused["n_refused"]) == (40, 1, 1)
    assert np.isnan(refused["sd"])
    assert np.isnan(cells.loc[("person 0", "person 1", "fear"), "mean"])


def test_ratings_without_an_emotion_have_no_rows_by_emotion():
    assert list(cell_emotion_rows(cube_of(Y, emotions=["", "", ""]))) == []


def test_a_narrative_keeps_its_contrast_mean_and_counts():
    table = pd.DataFrame(narrative_rows(CUBE, np.array([1.5, NAN, -2.0])))
    assert list(table) == list(NARRATIVES)
    assert table["contrast_points"].tolist() == pytest.approx([1.5, NAN, -2.0], nan_ok=True)
    assert table["n_rated"].tolist() == [9, 8, 8]
    assert table["n_prompts"].tolist() == [9, 9, 9]
    assert table["mean"].tolist() == pytest.approx([380 / 9, 340 / 8, 300 / 8])


def test_the_ends_of_the_scale_have_bins_of_their_own():
    table = pd.DataFrame(distribution_rows(CUBE, low=0.0, high=100.0))
    assert list(table) == list(DISTRIBUTIONS)
    assert table.groupby("pairs")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    # In-group: 10, 30, 50 of A; 100, 80, 60 of B.
    own = table[table["pairs"] == "in_group"]
    assert own["n_ratings"].sum() == 6
    ends = own[own["low"] == own["high"]]
    assert (ends["low"].tolist(), ends["n_ratings"].tolist()) == ([0, 100], [0, 1])
    # Whole ratings: 99 lie between the ends, 3 in each of 33 bins, from 0.5 on; 10 is in the bin from 0.5 + 3 × 3.
    assert own.loc[own["n_ratings"] > 0, "low"].tolist() == [9.5, 27.5, 48.5, 57.5, 78.5, 100]
    out = table[(table["pairs"] == "out_group") & (table["low"] == table["high"])]
    assert out["n_ratings"].tolist() == [1, 0]  # of 20, 40, 40, 0 one is at the lower end


@pytest.mark.parametrize(("high", "n_bins"), [(100, 33), (10, 9), (7, 6), (50, 49), (1000, 37), (200, 40)])
def test_of_whole_ratings_every_bin_holds_as_many_possible_ones(high, n_bins):
    """A rating of each possible value: bins of 2.5 points on a scale to 100 would hold two and three in turn.

    999 = 27 × 37 values between 0 and 1,000. Between 0 and 200 are 199, a prime: no such bins, and 40 as before.
    """
    values = np.arange(high + 1.0)
    cube = cube_of(values[:, None, None])
    table = pd.DataFrame(distribution_rows(cube, low=0.0, high=float(high)))
    between = table.loc[table["low"] != table["high"], "n_ratings"]
    assert len(between) == n_bins
    assert (between.nunique() == 1) == (high != 200)
    assert table["n_ratings"].sum() == high + 1


def test_ratings_that_are_no_whole_numbers_have_bins_of_equal_width_from_end_to_end():
    table = pd.DataFrame(distribution_rows(cube_of([[[0.25]], [[99.0]]]), low=0.0, high=100.0))
    between = table.loc[table["low"] != table["high"]]
    assert (between["high"] - between["low"]).tolist() == pytest.approx([2.5] * 40)
    assert (between["low"].min(), between["high"].max()) == (0, 100)


@pytest.mark.parametrize("value", [1e-12, END_TOLERANCE * 100, 100 - 1e-8])
def test_an_expected_value_at_an_end_but_for_rounding_counts_as_at_it(value):
    table = pd.DataFrame(distribution_rows(cube_of([[[value]]]), low=0.0, high=100.0))
    held = table.loc[table["n_ratings"] > 0]
    assert held["low"].tolist() == held["high"].tolist() == [round(value)]


def test_every_shuffle_is_in_a_bin():
    table = pd.DataFrame(null_rows(CUBE, np.array([-1.0, 0.0, 0.0, 0.5, 1.0])))
    assert list(table) == list(NULL)
    assert table["n_shuffles"].sum() == 5
    assert (table["low"].iloc[0], table["high"].iloc[-1]) == (-1.0, 1.0)
    assert np.array_equal(table["high"][:-1], table["low"][1:])


def test_published_cells_are_standardised_over_the_whole_matrix_and_the_gap_over_identities():
    y = np.arange(18.0).reshape(2, 3, 3) ** 1.5
    cube = cube_of(y, groups=["A", "B", "unspecified"])
    z = published_cells(cube)
    assert z.mean() == pytest.approx(0, abs=1e-12)
    assert z.std() == pytest.approx(1)
    means = rounded_means(y)
    assert z[2, 0] == pytest.approx((means[2, 0] - means.mean()) / means.std())
    gap = published_gap(cube, rng=np.random.default_rng(0))
    own = standardise_cells(means[:2, :2])
    assert np.diag(own).mean() - own[[0, 1], [1, 0]].mean() == pytest.approx(gap.delta_z)
    assert gap.shuffled.tolist() == pytest.approx([gap.delta_z, -gap.delta_z])  # the two orders of two identities


@pytest.mark.parametrize("y", [np.ones((2, 3, 3)), np.full((2, 3, 3), NAN)])
def test_cells_without_a_spread_or_without_ratings_have_no_z(y):
    assert np.isnan(published_cells(cube_of(y, groups=["A", "B", "unspecified"]))).all()


def test_ratings_beyond_the_scale_have_a_bin_from_its_end_to_the_farthest():
    table = pd.DataFrame(distribution_rows(CUBE, low=20.0, high=60.0))
    own = table[table["pairs"] == "in_group"]  # 10, 30, 50, 100, 80, 60
    assert own[["low", "high", "n_ratings"]].iloc[[0, -1]].to_numpy().tolist() == [[10, 20, 1], [60, 100, 2]]
    ends = own[own["low"] == own["high"]]
    assert (ends["low"].tolist(), ends["n_ratings"].tolist()) == ([20, 60], [0, 1])
    assert own["n_ratings"].sum() == 6
    assert own["share"].sum() == pytest.approx(1)
