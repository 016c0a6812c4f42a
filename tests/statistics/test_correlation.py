"""Oracles: scipy on pairs written out, a bivariate normal whose ρ_S and τ are known, Holm's steps by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import NotEstimableError
from audit.people.correlation import CORRELATIONS, MIN_UNITS, correlate, correlations
from audit.statistics.agreement import resamples
from audit.tables.shared import OVERALL

NAN = np.nan


def found_of(x, y, *, seed=0, n_draws=200, **options):
    return correlate(x, y, rng=np.random.default_rng(seed), n_draws=n_draws, **options)


def planted(rho, *, n, seed):
    """Draw pairs of a bivariate normal whose Spearman correlation is ``rho``; return them and its τ too.

    ρ_S = 6/π · asin(r/2) and τ = 2/π · asin(r) of Pearson's r.
    """
    r = 2 * np.sin(np.pi * rho / 6)
    x, e = np.random.default_rng([seed, n]).normal(size=(2, n))
    return x, r * x + (1 - r**2) ** 0.5 * e, 2 / np.pi * np.arcsin(r)


def test_coefficients_worked_by_hand():
    # Ranks 1 2 3 4 and 1.5 1.5 4 3: Σd² = .25 + .25 + 1 + 1; about their means the products sum to
    # (−1.5)(−1) + (−.5)(−1) + (.5)(1.5) + (1.5)(.5) = 3.5, the squares to 5 and 4.5.
    found = found_of([10, 20, 30, 40], [1, 1, 9, 5])
    assert found.rho == pytest.approx(3.5 / (5 * 4.5) ** 0.5)
    # Of six pairs four are in the same order, one in the reverse, one tied on the second side.
    assert found.tau == pytest.approx((4 - 1) / (6 * 5) ** 0.5)
    assert (found.n, found.n_units, found.n_missing) == (4, 4, 0)
    assert found.no_interval == "4 units are too few for an interval, which takes 10"
    assert np.isnan([found.p, found.rho_low, found.tau_high]).all()


def test_p_is_scipy_s():
    x, y, _ = planted(0.3, n=40, seed=1)
    assert found_of(x, y).p == stats.spearmanr(x, y).pvalue


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=12, max_size=25),
    ties=st.booleans(),
)
def test_a_resample_s_coefficients_are_scipy_s_of_the_pairs_repeated(pairs, ties):
    x, y = np.array(pairs, dtype=float).T
    if not ties:
        x, y = x + np.arange(x.size) / 100, y - np.arange(x.size) / 100
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    found = found_of(x, y, n_draws=12, confidence=0.5)
    (weights,) = resamples(x.size, n_draws=12, rng=np.random.default_rng(0))
    repeated = [[side.repeat(weight.astype(int)) for side in (x, y)] for weight in weights]
    repeated = [sides for sides in repeated if all(np.ptp(side) > 0 for side in sides)]
    assert found.n_draws == len(repeated)
    if found.no_interval:
        return
    rho, tau = (
        [statistic(*sides).statistic for sides in repeated] for statistic in (stats.spearmanr, stats.kendalltau)
    )
    assert [found.rho_low, found.rho_high] == pytest.approx(np.quantile(rho, [0.25, 0.75]))
    assert [found.tau_low, found.tau_high] == pytest.approx(np.quantile(tau, [0.25, 0.75]))


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.7])
def test_a_planted_correlation_lies_within_its_interval(rho):
    # Of a binomial (40, .95) 99.9% lie at 33 or above.
    held = np.zeros(2)
    for seed in range(40):
        x, y, tau = planted(rho, n=80, seed=seed)
        found = found_of(x, y, seed=seed)
        held += [found.rho_low <= rho <= found.rho_high, found.tau_low <= tau <= found.tau_high]
        assert found.rho_high - found.rho_low < 0.55
    assert (held >= 33).all()


@pytest.mark.simulation
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n", [10, 30, 100])
def test_the_interval_covers_as_often_as_the_docstring_says(n, rho):
    held = np.zeros(2)
    for seed in range(400):
        x, y, tau = planted(rho, n=n, seed=seed)
        found = found_of(x, y, seed=seed, n_draws=500)
        held += [found.rho_low <= rho <= found.rho_high, found.tau_low <= tau <= found.tau_high]
    assert (held / 400 >= 0.93).all()


def test_rows_of_a_cluster_are_drawn_together():
    x, y, _ = planted(0.5, n=30, seed=2)
    names = [f"n{k}" for k in range(30)]
    alone = found_of(x, y, clusters=names)
    assert alone == found_of(x, y)
    # The same pair twice in each cluster is no more than once.
    doubled = found_of(x.repeat(2), y.repeat(2), clusters=np.repeat(names, 2).tolist())
    assert (doubled.n, doubled.n_units) == (60, 30)
    assert [doubled.rho_low, doubled.rho_high] == pytest.approx([alone.rho_low, alone.rho_high])
    assert [doubled.tau_low, doubled.tau_high] == pytest.approx([alone.tau_low, alone.tau_high])
    assert np.isnan(doubled.p)
    taken_for_independent = found_of(x.repeat(2), y.repeat(2))
    assert taken_for_independent.rho_high - taken_for_independent.rho_low < doubled.rho_high - doubled.rho_low


def test_missing_numbers_are_left_out_and_counted():
    x, y, _ = planted(0.5, n=30, seed=3)
    with_holes = found_of([NAN, *x, 1.0], [2.0, *y, NAN])
    assert (with_holes.n, with_holes.n_missing) == (30, 2)
    assert with_holes.rho_low == found_of(x, y).rho_low


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2, NAN], [1, 2, 3], "2 pairs of numbers"),
        ([1, 2, 3], [5, 5, 5], "the second number is 5 in all 3 pairs, so there is no order"),
        ([7, 7, 7, 8], [1, 2, 3, NAN], "the first number is 7 in all 3 pairs, so there is no order"),
    ],
)
def test_what_does_not_determine_a_correlation_is_named(x, y, reason):
    with pytest.raises(NotEstimableError, match=reason):
        found_of(x, y)


@pytest.mark.parametrize(
    ("x", "y", "clusters"),
    [([1, 2, 3], [1, 2], None), ([1, 2, 3], [1, 2, 3], ["a"]), ([1, 2, np.inf], [1, 2, 3], None)],
)
def test_sides_that_are_not_aligned_are_refused(x, y, clusters):
    with pytest.raises(ValueError, match=r"shapes|infinite"):
        found_of(x, y, clusters=clusters)


def test_the_same_order_in_all_resamples_has_no_interval():
    found = found_of(np.arange(20.0), np.arange(20.0) ** 3)
    assert (found.rho, found.tau) == pytest.approx((1, 1))
    assert found.no_interval == "all 200 resamples give the same coefficient, so their spread is 0"


def test_each_emotion_has_a_row_after_that_of_all_with_holm_s_correction():
    n = MIN_UNITS * 3
    parts = {"joy": planted(0.8, n=n, seed=4), "fear": planted(0.2, n=n, seed=5), "": planted(0.0, n=n, seed=6)}
    model, human = (np.concatenate([part[k] for part in parts.values()]) for k in (0, 1))
    human[0] = NAN
    few = {"grief": ([1.0, 2.0], [1.0, 2.0])}
    model, human = np.append(model, few["grief"][0]), np.append(human, few["grief"][1])
    by = [*np.repeat(list(parts), n), "grief", "grief"]
    table = correlations(model, human, seed=1, by=by, n_draws=100)
    assert list(table) == list(CORRELATIONS)
    assert table["emotion"].tolist() == [OVERALL, "joy", "fear", "grief"]
    assert table["n"].tolist() == [3 * n + 1, n - 1, n, 2]
    assert table["n_missing"].tolist() == [1, 1, 0, 0]
    rows = table.set_index("emotion")
    known = ~np.isnan(human)
    assert rows.loc[OVERALL, "rho"] == pytest.approx(stats.spearmanr(model[known], human[known]).statistic)
    chosen = {name: (np.array(by) == name) & known for name in ("joy", "fear")}
    p = {name: stats.spearmanr(model[mask], human[mask]).pvalue for name, mask in chosen.items()}
    assert p["joy"] < p["fear"]
    assert rows["p_adjusted"].tolist()[1:3] == pytest.approx([2 * p["joy"], p["fear"]])
    assert rows["family_size"].tolist() == [0, 2, 2, 2]
    assert np.isnan(rows.loc[OVERALL, "p_adjusted"])
    assert rows["method"].tolist() == ["", "Holm", "Holm", "Holm"]
    assert rows.loc["grief", "note"] == "2 pairs of numbers do not make a correlation, which takes 3"
    assert rows.loc["grief", ["rho", "tau", "rho_low", "p"]].isna().all()


def test_an_emotion_s_row_does_not_depend_on_the_others_and_inputs_are_kept():
    model, human, _ = planted(0.5, n=60, seed=7)
    by = ["joy", "fear"] * 30
    before = model.copy(), human.copy(), list(by)
    both = correlations(model, human, seed=1, by=by, n_draws=100).set_index("emotion")
    alone = correlations(model[::2], human[::2], seed=1, by=by[::2], n_draws=100).set_index("emotion")
    of_family = ["p_adjusted", "family_size"]
    pd.testing.assert_series_equal(both.loc["joy"].drop(of_family), alone.loc["joy"].drop(of_family))
    assert np.array_equal(before[0], model)
    assert np.array_equal(before[1], human)
    assert before[2] == by


def test_clusters_of_an_emotion_are_counted_and_drawn_together():
    model, human, _ = planted(0.5, n=40, seed=8)
    clusters = [f"n{k // 4}" for k in range(40)]
    options = {"seed": 1, "by": ["joy"] * 20 + [""] * 20, "n_draws": 100}
    table = correlations(model, human, clusters=clusters, **options)
    assert table["n_units"].tolist() == [10, 5]
    assert table["note"].tolist() == ["", "5 units are too few for an interval, which takes 10"]
    assert table["rho_low"].iloc[0] != correlations(model, human, **options)["rho_low"].iloc[0]


def test_nothing_that_correlates_is_one_row_with_a_note():
    table = correlations([1.0, NAN], [NAN, 2.0], seed=0)
    assert table["note"].tolist() == ["0 pairs of numbers do not make a correlation, which takes 3"]
    assert table[["n", "n_units", "n_missing"]].to_numpy().tolist() == [[0, 0, 2]]
