"""Oracles: Krippendorff's worked example, the krippendorff library (tests/reference), the definition written out."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit.errors import NotEstimableError
from audit.statistics.agreement import MIN_UNITS, krippendorff_alpha, percentile_interval, resamples

SCORES = json.loads((Path(__file__).parents[1] / "reference" / "scores.json").read_text(encoding="utf-8"))
TRUTH = 6 / np.pi * np.arcsin(0.25)  # the rank correlation of normal ratings that correlate by 0.5
NAN = np.nan


def agreement(ratings, *, seed=0, n_draws=200, **options):
    return krippendorff_alpha(ratings, rng=np.random.default_rng(seed), n_draws=n_draws, **options)


def draw(*, seed, units, raters=3, icc=0.5):
    """One-way normal ratings; at ``icc`` 0.5 their α is TRUTH."""
    rng = np.random.default_rng([seed, units])
    return icc**0.5 * rng.normal(size=units) + (1 - icc) ** 0.5 * rng.normal(size=(raters, units))


def draw_clusters(*, seed, clusters, size=4, raters=3):
    """The same with that α, where 0.4 of the variance is of clusters of units and 0.1 of the units within them."""
    rng = np.random.default_rng([seed, clusters, size])
    units = (0.4**0.5 * rng.normal(size=clusters)).repeat(size) + 0.1**0.5 * rng.normal(size=clusters * size)
    return units + 0.5**0.5 * rng.normal(size=(raters, units.size)), [f"n{k}" for k in np.arange(clusters).repeat(size)]


def by_definition(ratings):
    """α by the coincidence matrix, value by value."""
    units = [column[~np.isnan(column)].tolist() for column in np.asarray(ratings, dtype=float).T]
    units = [unit for unit in units if len(unit) > 1]
    values = sorted({value for unit in units for value in unit})
    o = {(c, k): 0.0 for c in values for k in values}
    for unit in units:
        for c, k in permutations(unit, 2):
            o[c, k] += 1 / (len(unit) - 1)
    margin = {c: sum(o[c, k] for k in values) for c in values}
    n = sum(margin.values())

    def squared(c, k):
        low, high = min(c, k), max(c, k)
        return (sum(margin[g] for g in values if low <= g <= high) - (margin[c] + margin[k]) / 2) ** 2

    observed = sum(o[c, k] * squared(c, k) for c, k in o) / n
    return 1 - observed / (sum(margin[c] * margin[k] * squared(c, k) for c, k in o) / (n * (n - 1)))


def test_krippendorff_s_worked_example():
    assert round(agreement(SCORES["alpha"]["published"]["ratings"]).alpha, 3) == 0.815


@pytest.mark.parametrize("table", SCORES["alpha"])
def test_alpha_is_that_of_the_krippendorff_library(table):
    reference = SCORES["alpha"][table]
    assert agreement(reference["ratings"], n_draws=0).alpha == pytest.approx(reference["ordinal"], abs=1e-12)


def test_alpha_worked_by_hand():
    # Units (1, 1), (2, 4): coincidences 1-1 twice, 2-4 and 4-2 once; n_1 = 2, n_2 = n_4 = 1, n = 4.
    # Mid-ranks 1.5, 3 and 4: D_o = (1 + 1) / 4, D_e = 2 · (2·1·1.5² + 2·1·2.5² + 1·1·1²) / (4 · 3).
    assert agreement([[1, 2], [1, 4]]).alpha == pytest.approx(1 - 0.5 / (2 * (4.5 + 12.5 + 1) / 12))


TABLES = arrays(float, st.tuples(st.integers(2, 4), st.integers(1, 5)), elements=st.sampled_from([NAN, 0, 1, 2, 4.5]))


@settings(deadline=None)
@given(ratings=TABLES)
def test_alpha_follows_the_definition_or_is_not_estimable(ratings):
    units = [set(column[~np.isnan(column)]) for column in ratings.T if (~np.isnan(column)).sum() > 1]
    if len(set().union(*units)) < 2:
        with pytest.raises(NotEstimableError):
            agreement(ratings, n_draws=0)
    else:
        found = agreement(ratings, n_draws=0)
        assert found.alpha == pytest.approx(by_definition(ratings), abs=1e-9)
        assert agreement(ratings[::-1], n_draws=0).alpha == pytest.approx(found.alpha)


def test_a_resample_s_alpha_is_that_of_the_table_with_units_repeated():
    ratings = np.abs(np.round(3 * draw(seed=1, units=MIN_UNITS)))
    ratings[0, :5] = NAN
    found = agreement(ratings, n_draws=40, confidence=0.5)
    (weights,) = resamples(MIN_UNITS, n_draws=40, rng=np.random.default_rng(0))
    each = [by_definition(ratings.repeat(weight.astype(int), axis=1)) for weight in weights]
    assert [found.ci_low, found.ci_high] == pytest.approx(np.quantile(each, [0.25, 0.75]))


def test_clusters_of_one_unit_make_no_difference_and_units_without_a_pair_do_not_count_as_clusters():
    ratings = np.round(draw(seed=6, units=MIN_UNITS + 2), 1)
    ratings[1:, 3] = NAN
    names = [f"n{k}" for k in range(MIN_UNITS + 2)]
    assert agreement(ratings, clusters=names) == agreement(ratings)
    few = agreement(ratings[:, 2:], clusters=names[2:])  # MIN_UNITS, one of them without a pair
    assert few.no_interval == "19 units are too few for an interval, which takes 20"


def test_copies_of_a_unit_in_its_cluster_make_the_interval_no_narrower():
    # k copies leave D_o and multiply D_e by k (n − 1) / (kn − 1), n the ratings, in every resample alike.
    ratings, k = np.abs(np.round(3 * draw(seed=7, units=MIN_UNITS))), 5
    once = agreement(ratings)
    n, clusters = ratings.size, [f"n{unit}" for unit in np.arange(MIN_UNITS).repeat(k)]
    found = agreement(ratings.repeat(k, axis=1), clusters=clusters)
    factor = (k * n - 1) / (k * (n - 1))
    for name in ("alpha", "ci_low", "ci_high"):
        assert getattr(found, name) == pytest.approx(1 - (1 - getattr(once, name)) * factor)
    apart = agreement(ratings.repeat(k, axis=1))
    assert apart.ci_high - apart.ci_low < 0.6 * (found.ci_high - found.ci_low)  # 1/√5 = .45 of it, about


def test_a_resample_of_clusters_is_the_table_with_clusters_repeated():
    ratings = np.round(draw(seed=8, units=3 * MIN_UNITS))
    ratings[0, ::4] = NAN
    names = [f"n{unit % MIN_UNITS}" for unit in range(3 * MIN_UNITS)]  # not next to each other
    found = agreement(ratings, n_draws=40, clusters=names, confidence=0.5)
    (weights,) = resamples(MIN_UNITS, n_draws=40, rng=np.random.default_rng(0))
    repeated = [ratings.repeat(np.tile(weight, 3).astype(int), axis=1) for weight in weights]
    expected = np.quantile(list(map(by_definition, repeated)), [0.25, 0.75])
    assert [found.ci_low, found.ci_high] == pytest.approx(expected)


def test_units_are_drawn_as_often_as_there_are_units_and_a_seed_repeats_them():
    found = np.concatenate(list(resamples(7, n_draws=50, rng=np.random.default_rng(3), width=10**6)))
    assert found.shape == (50, 7)
    assert set(found.sum(axis=1)) == {7}
    # Each is in 1 of a resample, give or take 0.93 / √50.
    assert found.mean(axis=0) == pytest.approx(np.ones(7), abs=0.5)
    again = np.concatenate(list(resamples(7, n_draws=50, rng=np.random.default_rng(3))))
    assert np.array_equal(found, again)
    first, second = (agreement(draw(seed=2, units=30), seed=seed) for seed in (5, 5))
    assert first == second


def test_stretched_ratings_have_the_same_alpha():
    ratings = np.round(draw(seed=3, units=30), 2)
    assert agreement(np.exp(ratings)) == agreement(ratings)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1, NAN], [NAN, 2]], "none of 2 units has ratings of two raters"),
        ([[3, 3, 1], [3, 3, NAN]], "all 4 ratings that could differ are 3"),
    ],
)
def test_what_does_not_determine_alpha_is_named(ratings, reason):
    with pytest.raises(NotEstimableError, match=reason):
        agreement(ratings)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [([1, 2], r"shape \(2,\)"), ([[1, np.inf], [1, 2]], "unit 1 by rater 0 .* is inf")],
)
def test_what_is_no_table_of_ratings_is_refused(ratings, reason):
    with pytest.raises(ValueError, match=reason):
        agreement(ratings)


def test_every_unit_has_one_cluster():
    with pytest.raises(ValueError, match="there are 1 clusters of 2 units"):
        agreement([[1, 2], [1, 3]], clusters=["n1"])


def test_few_units_and_full_agreement_have_no_interval():
    few = agreement(draw(seed=4, units=MIN_UNITS - 1))
    assert few.no_interval == "19 units are too few for an interval, which takes 20"
    ratings, names = draw_clusters(seed=4, clusters=MIN_UNITS - 1)
    assert agreement(ratings, clusters=names).no_interval == few.no_interval
    full = agreement(np.tile(np.arange(30.0) % 7 / 10, (3, 1)))
    assert full.alpha == pytest.approx(1, abs=1e-12)
    assert full.no_interval == "all 200 resamples give the same coefficient, so their spread is 0"
    assert np.isnan([few.ci_low, few.ci_high, full.ci_low, full.ci_high]).all()


def test_resamples_without_a_difference_are_left_out_and_counted():
    nothing = np.full(3, NAN)
    assert percentile_interval([np.array([0.2, 0.4]), nothing], n_units=2, min_units=2, confidence=0.5)[2] == 2
    ratings = np.full((2, 30), 0.1)
    ratings[0, 0] = 6.1  # in a share of (1 − 1/30)^30 = 0.36 of the resamples it is not drawn
    found = agreement(ratings, n_draws=1000)
    assert found.ci_low <= found.alpha <= found.ci_high


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile_interval([np.arange(3.0)], n_units=3, min_units=2, confidence=confidence)


@pytest.mark.simulation
@pytest.mark.parametrize(("units", "least", "most"), [(20, 0.89, 0.95), (30, 0.91, 0.96), (100, 0.92, 0.97)])
def test_the_interval_covers_as_often_as_the_docstring_says(units, least, most):
    found = [agreement(draw(seed=seed, units=units), n_draws=500) for seed in range(400)]
    assert least <= np.mean([each.ci_low <= TRUTH <= each.ci_high for each in found]) <= most


@pytest.mark.simulation
@pytest.mark.parametrize(("clusters", "least", "most"), [(20, 0.88, 0.94), (30, 0.89, 0.95), (100, 0.89, 0.95)])
def test_the_interval_of_clusters_covers_so_too_and_that_of_their_units_less_often(clusters, least, most):
    held, held_apart = [], []
    for seed in range(400):
        ratings, names = draw_clusters(seed=seed, clusters=clusters)
        for kept, resampled in ((held, names), (held_apart, None)):
            found = agreement(ratings, n_draws=500, clusters=resampled)
            kept.append(found.ci_low <= TRUTH <= found.ci_high)
    assert least <= np.mean(held) <= most
    assert np.mean(held_apart) < 0.88
