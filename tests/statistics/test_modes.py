"""Oracle: counts by hand."""

import numpy as np
import pytest
from cubes import cube_of

from audit.statistics.most_common_answers import mode_rows
from audit.tables.ratings import MODES


def row_of(cube):
    [row] = mode_rows(cube)
    assert list(row) == list(MODES)
    return {name: row[name] for name in ("of", "value", "share", "n_values", "n")}


def test_the_most_common_most_probable_number_and_its_share():
    mode = np.zeros((4, 3, 3))
    mode[0, 0, :2] = 100.0
    y = np.random.default_rng(0).normal(30, 9, (4, 3, 3))
    assert row_of(cube_of(y, mode=mode)) == {"of": "mode", "value": 0.0, "share": 34 / 36, "n_values": 2, "n": 36}


def test_without_modes_it_is_the_ratings_themselves():
    """A constant model: every rating was 50."""
    assert row_of(cube_of(np.full((4, 3, 3), 50.0))) == {
        "of": "intensity", "value": 50.0, "share": 1.0, "n_values": 1, "n": 36,
    }  # fmt: skip
    y = np.array([[[10.0, 20.0], [20.0, 40.0]]])
    assert row_of(cube_of(y)) == {"of": "intensity", "value": 20.0, "share": 0.5, "n_values": 3, "n": 4}


def test_of_two_as_common_the_lower_is_named():
    assert row_of(cube_of([[[80.0, 20.0], [20.0, 80.0]]]))["value"] == 20.0


def test_refusals_and_baselines_are_not_counted():
    y = np.full((4, 3, 3), 50.0)
    y[0, 1, 1] = np.nan
    y[:, 0, :] = y[:, :, 0] = 7.0
    mode = np.where(np.isnan(y), np.nan, y)
    found = row_of(cube_of(y, groups=["unspecified", "A", "B"], mode=mode))
    assert found == {"of": "mode", "value": 50.0, "share": 1.0, "n_values": 1, "n": 15}


@pytest.mark.parametrize("groups", [["A", "B"], ["unspecified", "A"]])
def test_nothing_rated_is_no_row(groups):
    y = np.full((3, 2, 2), np.nan)
    assert list(mode_rows(cube_of(y, groups=groups))) == []
