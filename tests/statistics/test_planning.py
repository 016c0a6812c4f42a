import numpy as np
import pytest
from cubes import contrast_weights, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from audit.statistics.planning import (
    detectable_gap,
    equivalence_power,
    equivalence_row,
    narratives_to_find,
    narratives_to_rule_out,
    power_row,
    spread_interval,
)
from audit.tables.gap import EQUIVALENCE, POWER

NAN = float("nan")
FIVE = contrast_weights(mask_of("ABCDE"))[-1]


def equivalence(delta, se, df=10.0, margin=None, **options):
    names = {"dimension": "religion", "variant": "origin", "estimator": "contrast", "scope": "narratives"}
    return equivalence_row(**names, delta=delta, se=se, df=df, margin=margin, **options)


def power(se, n_narratives, **options):
    s = 1 / (FIVE**2).sum()
    return power_row(
        dimension="religion", variant="origin", se=se, n_narratives=n_narratives, sum_of_squares=s, **options
    )


@pytest.mark.parametrize(("mean", "margin", "alpha"), [(0.1, 0.5, 0.05), (-0.6, 0.5, 0.05), (-0.3, 0.9, 0.01)])
def test_equivalence_is_the_tost_of_statsmodels(mean, margin, alpha):
    contrasts = DescrStatsW(np.random.default_rng(3).normal(mean, 1.0, 30))
    se = contrasts.std_mean
    row = equivalence(contrasts.mean, se, 29.0, margin, alpha=alpha)
    assert row["p_equivalence"] == pytest.approx(contrasts.ttost_mean(-margin, margin)[0], rel=1e-9)
    assert (row["low"], row["high"]) == pytest.approx(contrasts.tconfint_mean(alpha=2 * alpha), rel=1e-12)
    assert row["level"] == 1 - 2 * alpha
    assert list(row) == list(EQUIVALENCE)


# With se 1 and 10 df the 90% interval reaches 1.812 to either side of δ, the 95% interval 2.228 (tables of t).
@pytest.mark.parametrize(
    ("delta", "margin", "largest", "verdict"),
    [
        (0.0, 1.82, 1.812, "no gap larger than the margin"),
        (0.0, 1.81, 1.812, "undecided"),
        (-2.2, 4.02, 4.012, "no gap larger than the margin"),
        (-2.2, 4.01, 4.012, "undecided"),
        (2.3, 4.12, 4.112, "gap, smaller than the margin"),
        (-2.3, 4.11, 4.112, "gap"),
        (2.2, None, 4.012, "undecided"),
        (-2.3, None, 4.112, "gap"),
    ],
)
def test_verdict_follows_from_two_intervals(delta, margin, largest, verdict):
    row = equivalence(delta, 1.0, margin=margin)
    assert row["verdict"] == verdict
    assert row["largest_gap"] == pytest.approx(largest, abs=5e-4)
    assert np.isnan(row["p_equivalence"]) == np.isnan(row["margin"]) == (margin is None)


@pytest.mark.parametrize("se", [0.0, NAN])
def test_without_a_standard_error_nothing_is_equivalent(se):
    row = equivalence(0.0, se, margin=1.0)
    assert row["verdict"] == "not estimable"
    assert np.isnan([row[name] for name in ("low", "high", "largest_gap", "p_equivalence")]).all()


@given(delta=st.floats(-5, 5), se=st.floats(0.1, 3), df=st.floats(1, 500), margin=st.floats(0.1, 9))
def test_equivalence_is_significant_just_where_the_interval_is_inside_the_margin(delta, se, df, margin):
    row, mirrored = equivalence(delta, se, df, margin), equivalence(-delta, se, df, margin)
    if abs(row["largest_gap"] - margin) > 1e-9:
        assert (row["p_equivalence"] < 0.05) == (row["largest_gap"] < margin) == ("margin" in row["verdict"])
    assert (mirrored["low"], mirrored["verdict"]) == (-row["high"], row["verdict"])


# At σ = 8, τ = 1.5 and K = 5: ΣG̃² = K − 1 = 4, so sd² = 1.5² + 8²/4 = 18.25, and 2.80 · sd/√N is 0.592 and 0.154.
@pytest.mark.parametrize(("n", "detectable"), [(408, 0.59), (6050, 0.15)])
def test_detectable_gaps_of_the_specification(n, detectable):
    row = power((18.25 / n) ** 0.5, n, slope_sd=1.5, residual_sd=8.0)
    assert row["sum_of_squares"] == pytest.approx(4.0, rel=1e-12)
    assert row["sd_contrast"] ** 2 == pytest.approx(1.5**2 + 8.0**2 / row["sum_of_squares"], rel=1e-12)
    assert row["detectable_points"] == pytest.approx(2.8016 * row["sd_contrast"] / n**0.5, rel=4e-3)
    assert round(row["detectable_points"], 2) == detectable
    assert list(row) == list(POWER)


@pytest.mark.parametrize(
    ("n", "chance", "alpha"), [(5, 0.8, 0.05), (12, 0.9, 0.01), (408, 0.8, 0.05), (6050, 0.99, 0.2)]
)
def test_detectable_gap_has_the_power_that_statsmodels_computes(n, chance, alpha):
    delta = detectable_gap(3.0, n, power=chance, alpha=alpha)
    assert TTestPower().power(delta / 3.0, n, alpha) == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize(("n", "chance", "alpha"), [(2, 0.8, 0.05), (2, 0.8, 0.01), (2, 0.9, 0.001), (3, 0.9, 0.001)])
def test_detectable_gap_of_very_few_narratives_has_its_power(n, chance, alpha):
    # Oracle: P(T > t) = E[P(spread < (Z + noncentrality)/t)], summed over Z; the other tail is nil.
    noncentrality = detectable_gap(1.0, n, power=chance, alpha=alpha) * n**0.5
    t = stats.t.ppf(1 - alpha / 2, n - 1)
    z = np.linspace(-8.5, 8.5, 20_001)
    spread = np.maximum(z + noncentrality, 0) / t
    tail = np.trapezoid(stats.norm.pdf(z) * stats.chi2.cdf((n - 1) * spread**2, n - 1), z)
    assert tail == pytest.approx(chance, abs=1e-6)


def test_narratives_to_find_are_those_of_the_tables():
    # G*Power 3.1, one-sample t-test, two-sided: d = 0.5 takes 34 and d = 0.2 takes 199 at 80%; d = 0.5 takes 44 at 90%.
    assert [narratives_to_find(delta, 2.0) for delta in (1.0, 0.4)] == [34, 199]
    assert narratives_to_find(1.0, 2.0, power=0.9) == 44
    assert narratives_to_find(500.0, 2.0) == 2


@given(n=st.integers(2, 5_000), chance=st.floats(0.3, 0.99), alpha=st.floats(0.001, 0.2))
@settings(max_examples=40, deadline=None)
def test_as_many_narratives_find_the_detectable_gap_and_one_fewer_does_not(n, chance, alpha):
    delta = detectable_gap(1.0, n, power=chance, alpha=alpha)
    assert narratives_to_find(delta * (1 + 1e-9), 1.0, power=chance, alpha=alpha) == n
    assert narratives_to_find(delta * (1 - 1e-9), 1.0, power=chance, alpha=alpha) == n + 1


@pytest.mark.parametrize("n", [60, 408, 6050])
@pytest.mark.parametrize("reach", [2.5, 3.0, 4.0])
def test_power_of_equivalence_is_that_of_two_one_sided_tests(n, reach):
    # With 60 narratives or more, one of the two tests rejects all but surely: P(both) = P(one) + P(other) − 1.
    one = TTestPower().power(reach / n**0.5, n, 0.05, alternative="larger")
    assert equivalence_power(reach / n**0.5, n) == pytest.approx(2 * one - 1, abs=1e-6)


@pytest.mark.parametrize("margin", [3.0, 1.0, 0.5])
def test_narratives_that_rule_out_a_margin_do_so_with_the_power_asked_for(margin):
    n = int(narratives_to_rule_out(2 * margin, 2.0))
    assert equivalence_power(margin, n - 1) < 0.8 <= equivalence_power(margin, n)
    contrasts = np.random.default_rng(20).normal(0, 1, (2_000, n))
    half = stats.t.ppf(0.95, n - 1) * contrasts.std(axis=1, ddof=1) / n**0.5
    shown = np.mean(np.abs(contrasts.mean(axis=1)) + half < margin)
    expected = equivalence_power(margin, n)
    assert abs(shown - expected) < 3 * (expected * (1 - expected) / 2_000) ** 0.5


def test_power_of_equivalence_in_two_narratives_worked_by_hand():
    # Two contrasts a and b: |a + b|/2 + t|a − b|/2 < m, a diamond with half axes √2·m and √2·m/t along the independent
    # normal (a + b)/√2 and (a − b)/√2: its probability by summing strips.
    margin, t = 5.0, np.tan(np.pi * 0.45)  # the 95% quantile of a Cauchy distribution
    across = np.linspace(0, 2**0.5 * margin, 200_001)
    strips = stats.norm.pdf(across) * (2 * special.ndtr((2**0.5 * margin - across) / t) - 1)
    assert equivalence_power(margin, 2) == pytest.approx(2 * np.trapezoid(strips, across), abs=1e-9)


@pytest.mark.parametrize("margin", [0.05, 1e-3, 1e-5])
def test_many_narratives_rule_out_by_the_formula_of_the_specification(margin):
    # ((z₀.₉₅ + z₀.₉) · sd/margin)² = (1.644854 + 1.281552)² / margin²; the t distribution costs a narrative or two.
    by_formula = (1.6448536 + 1.2815516) ** 2 / margin**2
    assert narratives_to_rule_out(margin, 1.0) == pytest.approx(by_formula, rel=1e-7, abs=3)


def test_extreme_margins_neither_fail_nor_warn():
    assert narratives_to_rule_out(1e-200, 1.0) == narratives_to_find(1e-200, 1.0) == float("inf")
    assert narratives_to_rule_out(1e300, 1.0) == narratives_to_find(1e300, 1.0) == 2


def test_row_plans_with_the_spread_of_the_contrasts():
    row = power(0.5, 16, wanted=1.0, margin=2.0, power=0.9, alpha=0.01)
    options = {"power": 0.9, "alpha": 0.01}
    assert row["sd_contrast"] == 2.0
    assert row["detectable_points"] == detectable_gap(2.0, 16, **options)
    assert row["n_for_wanted"] == narratives_to_find(1.0, 2.0, **options)
    assert row["n_for_margin"] == narratives_to_rule_out(2.0, 2.0, **options)
    assert np.isnan([row["slope_sd"], row["residual_sd"]]).all()
    assert row["note"] == ""


def test_the_interval_of_the_detectable_gap_is_that_of_the_spread():
    # χ² of 15 df: 27.4884 at .975 and 6.2621 at .025 (tables); √(15/27.4884) = .7387, √(15/6.2621) = 1.5477.
    row = power(0.5, 16)
    assert row["detectable_low"] == pytest.approx(0.7387 * row["detectable_points"], rel=1e-4)
    assert row["detectable_high"] == pytest.approx(1.5477 * row["detectable_points"], rel=1e-4)
    wider = power(0.5, 16, alpha=0.01, power=0.8)
    assert wider["detectable_high"] / wider["detectable_points"] > 1.5477
    assert np.isnan([power(NAN, 16)[name] for name in ("detectable_low", "detectable_high")]).all()


def test_the_interval_of_the_detectable_gap_holds_the_true_one_as_often_as_it_says():
    """4,000 sets of 12 normal contrasts of SD 1; what was reported as detectable is found with .44 to .96 of them."""
    contrasts = np.random.default_rng(21).normal(0, 1, (4_000, 12))
    truth = detectable_gap(1.0, 12)
    spreads = np.array([spread_interval(sd, 12) for sd in contrasts.std(axis=1, ddof=1)]) * truth
    covered = np.mean((spreads[:, 0] <= truth) & (truth <= spreads[:, 1]))
    assert covered == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 4_000) ** 0.5)


def test_what_was_not_named_is_missing():
    row = power(0.5, 16)
    assert np.isnan([row[name] for name in ("wanted_points", "n_for_wanted", "margin_points", "n_for_margin")]).all()


@pytest.mark.parametrize(("se", "n"), [(0.0, 12), (NAN, 12), (NAN, 1), (0.5, 1), (NAN, 0)])
def test_without_a_spread_there_is_no_power_but_a_note(se, n):
    row = power(se, n, wanted=1.0, margin=1.0)
    names = ("sd_contrast", "detectable_points", "n_for_wanted", "n_for_margin")
    assert np.isnan([row[name] for name in names]).all()
    assert "no standard error" in row["note"]
    assert power(se, n, note="all 12 are alike")["note"] == "all 12 are alike"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: equivalence(0, 1, margin=0), "margin is 0; it is a gap in points above 0, or None"),
        (lambda: equivalence(0, 1, alpha=0.5), "alpha is 0.5; it is an error rate between 0 and 0.5"),
        (lambda: power(1, 9, wanted=-1), "wanted is -1; "),
        (lambda: power(1, 9, margin=NAN), "margin is nan; "),
        (lambda: power(1, 9, power=1.0), "power is 1.0; it is a share between alpha, 0.05, and 1"),
        (lambda: detectable_gap(1, 9, power=0.01), "power is 0.01; "),
        (lambda: equivalence_power(1, 9, alpha=0), "alpha is 0; "),
    ],
)
def test_impossible_plans_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
