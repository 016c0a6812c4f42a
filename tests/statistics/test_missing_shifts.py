"""Oracles: ratings filled cell by cell, and truths that were drawn."""

from dataclasses import replace

import numpy as np
import pytest
from cubes import cube_of, mask_of
from missing_shifts import MissingShifts

from audit.statistics.contrasts import in_group_weights
from audit.statistics.headline import headline_gap

NAN = np.nan


def drawn(n, k, rng, *, delta=0.0, slope=2.0):
    """Complete ratings about 50 of SD 8."""
    y = 50 + (delta + slope * rng.standard_normal((n, 1, 1))) * np.eye(k) + 6 * rng.standard_normal((n, 1, 1))
    return y + 8 * rng.standard_normal((n, k, k))


def cube(y):
    return cube_of(y, groups=[f"group {term}" for term in range(y.shape[1])])


def shifts_of(made):
    return MissingShifts.of(made, headline_gap(made, confidence=0.95))


def test_without_a_shift_it_is_the_headline():
    y = drawn(20, 4, np.random.default_rng(1))
    y[np.random.default_rng(2).random(y.shape) < 0.2] = NAN
    made = cube(y)
    estimate = headline_gap(made, confidence=0.95)
    centre = shifts_of(made).at(0, 0, confidence=0.95)
    for name in ("delta_points", "se", "df", "ci_low", "ci_high"):
        assert centre[name] == pytest.approx(getattr(estimate, name), rel=1e-9)
    inside = mask_of([f"group {term}" for term in range(4)]) == 1
    assert shifts_of(made).n_missing == (np.isnan(y[:, inside]).sum(), np.isnan(y[:, ~inside]).sum())


def test_where_no_rating_is_missing_nothing_moves():
    assert shifts_of(cube(drawn(9, 3, np.random.default_rng(4)))).n_missing == (0, 0)
    never = cube(drawn(9, 3, np.random.default_rng(4)))
    y, status = never.y.copy(), never.status.copy()
    y[0, 0, 1], status[0, 0, 1] = NAN, -1
    shifts = shifts_of(replace(never, y=y, status=status))  # what was never asked is not missing
    assert shifts.n_missing == (0, 0)
    assert not shifts.moved.any()


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
    assert at_10["delta_points"] - at_0["delta_points"] == pytest.approx(contrasts[1] - contrasts[0], rel=1e-9)
    assert at_10["delta_points"] - at_0["delta_points"] == pytest.approx(-10 / 12 / 12, rel=1e-9)


def test_the_shift_of_one_kind_moves_nothing_where_none_of_it_is_missing():
    y = drawn(12, 4, np.random.default_rng(6))
    y[:5, 0, 1] = NAN
    shifts = shifts_of(cube(y))
    deltas = [[shifts.at(own, other, confidence=0.95)["delta_points"] for own in (-20, 0, 20)] for other in (-20, 20)]
    assert deltas[0] == pytest.approx([deltas[0][0]] * 3, rel=1e-9)
    assert deltas[1] == pytest.approx([deltas[1][0]] * 3, rel=1e-9)
    assert deltas[0][0] != pytest.approx(deltas[1][0], rel=1e-3)


def test_narratives_that_lose_different_numbers_of_ratings_widen_the_interval():
    y = drawn(40, 4, np.random.default_rng(7))
    y[:8, 0, 1:] = NAN
    made = cube(y)
    shifts = MissingShifts.of(made, headline_gap(made, confidence=0.95))
    far = shifts.at(0, -60, confidence=0.95)
    moved = 60 / 12 * 3 * np.append(np.ones(8), np.zeros(32))
    assert far["delta_points"] - shifts.delta == pytest.approx(moved.mean(), rel=1e-9)
    assert far["se"] > moved.std(ddof=1) / 40**0.5 * 0.7
    assert far["se"] > 1.2 * shifts.at(0, 0, confidence=0.95)["se"]


def test_a_headline_without_an_interval_stays_without_one():
    y = drawn(9, 3, np.random.default_rng(10))
    y[0, 0, 1] = NAN
    headline = headline_gap(cube(y), confidence=0.95)
    without = replace(headline, se=NAN, df=NAN, not_estimable="all narratives give the same contrast")
    row = MissingShifts.of(cube(y), without).at(5, -5, confidence=0.95)
    assert np.isnan([row["se"], row["ci_low"], row["ci_high"]]).all()
    assert np.isfinite(row["delta_points"])


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
