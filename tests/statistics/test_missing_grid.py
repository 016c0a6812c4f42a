"""Oracles: ratings filled cell by cell, and truths that were drawn."""

from dataclasses import replace

import numpy as np
import pytest
from cubes import cube_of, mask_of

from audit.statistics.contrasts import in_group_weights
from audit.statistics.headline import headline_gap
from audit.statistics.missing_grid import SHIFTS, MissingShifts, missing_grid_rows
from audit.tables.controls import MISSING_GRID

NAN = np.nan


def drawn(n, k, rng, *, delta=0.0, slope=2.0):
    """Complete ratings about 50 of SD 8."""
    y = 50 + (delta + slope * rng.standard_normal((n, 1, 1))) * np.eye(k) + 6 * rng.standard_normal((n, 1, 1))
    return y + 8 * rng.standard_normal((n, k, k))


def cube(y):
    return cube_of(y, groups=[f"group {term}" for term in range(y.shape[1])])


def grid_of(made, **options):
    headline = headline_gap(made, confidence=0.95)
    return list(missing_grid_rows(made, headline, **{"low": 0, "high": 100, "confidence": 0.95} | options))


def test_without_a_shift_it_is_the_headline():
    y = drawn(20, 4, np.random.default_rng(1))
    y[np.random.default_rng(2).random(y.shape) < 0.2] = NAN
    made = cube(y)
    estimate = headline_gap(made, confidence=0.95)
    rows = grid_of(made)
    centre = next(row for row in rows if row["shift_in_group"] == row["shift_out_group"] == 0)
    assert len(rows) == len(SHIFTS) ** 2 == 81
    assert set(centre) == set(MISSING_GRID)
    for name in ("delta", "se", "df", "ci_low", "ci_high"):
        assert centre[name] == pytest.approx(getattr(estimate, name), rel=1e-9)
    inside = mask_of([f"group {term}" for term in range(4)]) == 1
    assert centre["n_missing_in_group"] == np.isnan(y[:, inside]).sum()
    assert centre["n_missing_out_group"] == np.isnan(y[:, ~inside]).sum()


def test_shifts_are_fifths_of_the_scale():
    y = drawn(9, 3, np.random.default_rng(3)) / 10
    y[0, 0, 1] = NAN
    shifts = [row["shift_in_group"] for row in grid_of(cube(y), high=10)]
    assert (min(shifts), max(shifts)) == (-2.0, 2.0)


def test_where_no_rating_is_missing_there_is_no_grid():
    assert grid_of(cube(drawn(9, 3, np.random.default_rng(4)))) == []
    never = cube(drawn(9, 3, np.random.default_rng(4)))
    y, status = never.y.copy(), never.status.copy()
    y[0, 0, 1], status[0, 0, 1] = NAN, -1
    assert grid_of(replace(never, y=y, status=status)) == []  # what was never asked is not missing


def test_a_missing_rating_that_is_higher_moves_delta_as_one_that_was_rated_higher():
    """One of 12 narratives lacks a rating; with any number put in, its contrast moves by w a point.

    Of K = 4 groups w is (0 − 1/4 − 1/4 + 1/4)/s off the diagonal, s = K − 1 = 3: −1/12.
    """
    y = drawn(12, 4, np.random.default_rng(5))
    contrasts = [(in_group_weights(cube(y)) * y).sum(axis=(1, 2)).mean()]
    y[0, 2, 1] += 10
    contrasts.append((in_group_weights(cube(y)) * y).sum(axis=(1, 2)).mean())
    y[0, 2, 1] = NAN
    made = cube(y)
    estimate = headline_gap(made, confidence=0.95)
    at_0, at_10 = (MissingShifts.of(made, estimate).at(0, shift, confidence=0.95) for shift in (0, 10))
    assert at_10["delta"] - at_0["delta"] == pytest.approx(contrasts[1] - contrasts[0], rel=1e-9)
    assert at_10["delta"] - at_0["delta"] == pytest.approx(-10 / 12 / 12, rel=1e-9)


def test_the_shift_of_one_kind_moves_nothing_where_none_of_it_is_missing():
    y = drawn(12, 4, np.random.default_rng(6))
    y[:5, 0, 1] = NAN
    rows = grid_of(cube(y))
    by_out = {}
    for row in rows:
        by_out.setdefault(row["shift_out_group"], set()).add(round(row["delta"], 9))
    assert all(len(found) == 1 for found in by_out.values())
    assert len({min(found) for found in by_out.values()}) == len(SHIFTS)


def test_narratives_that_lose_different_numbers_of_ratings_widen_the_interval():
    y = drawn(40, 4, np.random.default_rng(7))
    y[:8, 0, 1:] = NAN
    made = cube(y)
    shifts = MissingShifts.of(made, headline_gap(made, confidence=0.95))
    far = shifts.at(0, -60, confidence=0.95)
    moved = 60 / 12 * 3 * np.append(np.ones(8), np.zeros(32))
    assert far["delta"] - shifts.delta == pytest.approx(moved.mean(), rel=1e-9)
    assert far["se"] > moved.std(ddof=1) / 40**0.5 * 0.7
    assert far["se"] > 1.2 * shifts.at(0, 0, confidence=0.95)["se"]


def test_a_headline_without_an_interval_has_a_grid_without_and_says_why():
    y = drawn(9, 3, np.random.default_rng(10))
    y[0, 0, 1] = NAN
    headline = headline_gap(cube(y), confidence=0.95)
    without = replace(headline, se=NAN, df=NAN, not_estimable="all narratives give the same contrast")
    rows = list(missing_grid_rows(cube(y), without, low=0, high=100, confidence=0.95))
    assert all(np.isnan([row["se"], row["ci_low"], row["ci_high"]]).all() for row in rows)
    assert {row["note"] for row in rows} == {"all narratives give the same contrast"}
    assert all(np.isfinite(row["delta"]) for row in rows)


def test_a_scale_upside_down_is_refused():
    y = drawn(5, 3, np.random.default_rng(8))
    with pytest.raises(ValueError, match="runs from 100 to 0"):
        grid_of(cube(y), low=100, high=0)


@pytest.mark.simulation
@pytest.mark.parametrize("n", [12, 50])
def test_at_the_true_shift_the_interval_covers_and_without_it_it_does_not(n):
    """Out-group ratings are lost at a rate of each narrative's own, and were all 12 points higher than one expects.

    The target is the gap of the population of narratives with those ratings: delta less 12 times the mean of the
    weights lost, 12 · rate · (K − 1)K · 1/(K(K − 1)) = 12 · .3 lower.
    """
    inside = np.eye(5, dtype=bool)
    covered = []
    for child in np.random.default_rng([9, n]).spawn(150):
        y = drawn(n, 5, child, delta=1.0)
        rates = child.beta(1.2, 2.8, size=(n, 1, 1))  # mean .3
        y[(child.random(y.shape) < rates) & ~inside] = NAN
        made = cube(y)
        shifts = MissingShifts.of(made, headline_gap(made, confidence=0.95))
        target = 1.0 - 12 * 0.3
        row, at_0 = shifts.at(0, 12, confidence=0.95), shifts.at(0, 0, confidence=0.95)
        covered.append([found["ci_low"] <= target <= found["ci_high"] for found in (row, at_0)])
    share, without = np.mean(covered, axis=0)
    assert share > 0.95 - 4 * (0.95 * 0.05 / 150) ** 0.5
    assert without < share - 0.1
