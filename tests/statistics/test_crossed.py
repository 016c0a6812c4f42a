"""Oracles: a table worked by hand, the two-way mean squares of statsmodels, Satterthwaite by hand, simulations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.crossed import crossed_gap
from audit.statistics.wordings import variance_shares

NAN = np.nan
# Rows are narratives: means 1, 3, 8, grand mean 4. Columns are wordings: means 3, 5.
# V var(rows) = 2 · ((−3)² + (−1)² + 4²)/2 = 26; N var(columns) = 3 · (1 + 1)/1 = 6.
# Residuals d − row − column + 4: (0−1−3+4, 2−1−5+4) = (0, 0); (1−3−3+4, 5−3−5+4) = (−1, 1); (8−8−3+4, …) = (1, −1).
# Their squares sum to 4, over (3−1)(2−1) = 2: MS_R = 2.
BY_HAND = np.array([[0.0, 2.0], [1.0, 5.0], [8.0, 8.0]])


def crossed(gaps, confidence=0.95):
    gaps = np.asarray(gaps, dtype=float)
    return crossed_gap(gaps, confidence=confidence, n_ratings=gaps.size)


def test_a_small_table_by_hand():
    found = crossed(BY_HAND)
    # (26 + 6 − 2)/6 = 5, the largest of 26, 6 and 30; df = 30² / (26²/2 + 6²/1 + 2²/2) = 900 / 376.
    assert found.estimate.delta_points == pytest.approx(4)
    assert found.estimate.se == pytest.approx(5**0.5)
    assert found.estimate.df == pytest.approx(900 / 376)
    half = stats.t.ppf(0.975, 900 / 376) * 5**0.5
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx((4 - half, 4 + half))
    assert found.estimate.p == pytest.approx(2 * stats.t.sf(4 / 5**0.5, 900 / 376))
    # (26 − 2)/2, (6 − 2)/3 and 2.
    assert (found.narratives, found.wordings, found.rest) == pytest.approx((12, 4 / 3, 2))


def test_the_mean_squares_are_those_of_a_two_way_analysis_of_variance():
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    rng = np.random.default_rng(3)
    n, v = 12, 5
    gaps = 2 + rng.normal(0, 1, (n, 1)) + rng.normal(0, 0.7, v) + rng.normal(0, 2, (n, v))
    i, k = (axis.ravel() for axis in np.indices(gaps.shape))
    table = anova_lm(ols("d ~ C(i) + C(k)", pd.DataFrame({"d": gaps.ravel(), "i": i, "k": k})).fit())
    of_rows, of_columns, rest = table["sum_sq"] / table["df"]
    found = crossed(gaps)
    assert found.estimate.se**2 == pytest.approx(max(of_rows, of_columns, of_rows + of_columns - rest) / (n * v))
    expected = max(0, of_rows - rest) / v, max(0, of_columns - rest) / n, rest
    assert (found.narratives, found.wordings, found.rest) == pytest.approx(expected)


def test_where_wordings_do_not_differ_the_interval_is_that_of_narratives_and_the_other_way_round():
    rows = np.array([1.0, 2.0, 4.0, 9.0])
    alike = crossed(np.column_stack([rows, rows, rows]))
    assert (alike.estimate.se, alike.estimate.df) == pytest.approx((rows.std(ddof=1) / 2, 3))
    other = crossed(np.column_stack([rows, rows, rows]).T)
    assert (other.estimate.se, other.estimate.df) == pytest.approx((rows.std(ddof=1) / 2, 3))
    assert (alike.narratives, alike.wordings, alike.rest) == pytest.approx((rows.var(ddof=1), 0, 0))


def test_noise_alone_is_never_narrower_than_either_one():
    # Column means are equal, so MS_N + MS_V − MS_R is below MS_N: it is not taken.
    gaps = np.array([[1.0, -1.0], [-1.0, 1.0], [3.0, 3.0]])
    found = crossed(gaps)
    assert found.estimate.se**2 == pytest.approx(2 * gaps.mean(axis=1).var(ddof=1) / 6)
    assert found.estimate.df == 2
    assert found.wordings == 0


def test_a_narrative_that_lacks_a_wording_is_left_out():
    found = crossed(np.vstack([BY_HAND, [NAN, 100.0]]))
    assert found.estimate.delta_points == pytest.approx(4)
    assert (found.estimate.n_narratives, found.estimate.n_narratives_asked) == (3, 4)
    np.testing.assert_allclose(found.estimate.by_narrative, [1, 3, 8, NAN])


@pytest.mark.parametrize(
    ("gaps", "reason"),
    [
        ([[1.0], [2.0]], "one wording"),
        ([[1.0, 2.0], [NAN, 3.0]], "1 of 2 narratives has a gap in every one of 2 wordings"),
    ],
)
def test_what_says_nothing_of_wordings_is_said(gaps, reason):
    with pytest.raises(NotEstimableError, match=reason):
        crossed(gaps)


def test_gaps_that_are_all_the_same_have_no_interval():
    found = crossed(np.full((3, 2), 0.1)).estimate
    assert found.delta_points == pytest.approx(0.1)
    assert np.isnan([found.se, found.ci_low]).all()
    assert "all narratives give the same gap" in found.not_estimable


# --- Shares and splits -----------------------------------------------------------------------------------------------


def test_shares_are_those_of_one_gap_and_of_delta():
    parts = {row["part"]: row for row in variance_shares(crossed(BY_HAND), identities=5.0, n_groups=7)}
    total = 12 + 4 / 3 + 2
    assert [parts[name]["share"] for name in ("narratives", "wordings", "rest")] == pytest.approx(
        [12 / total, 4 / 3 / total, 2 / total]
    )
    # Of δ over 3 narratives and 2 wordings: 12/3 + (4/3)/2 + 2/6 = 5, its variance; identities add as much again.
    assert [row["of_delta"] for row in parts.values()] == pytest.approx([4, 2 / 3, 1 / 3, 5])
    assert [row["share_of_delta"] for row in parts.values()] == pytest.approx([0.4, 1 / 15, 1 / 30, 0.5])
    assert [row["levels"] for row in parts.values()] == [3, 2, 6, 7]
    assert np.isnan([parts["identities"]["share"], parts["identities"]["variance"]]).all()


def test_identities_that_are_not_known_are_left_out_of_the_shares():
    parts = {row["part"]: row for row in variance_shares(crossed(BY_HAND))}
    assert np.isnan(parts["identities"]["share_of_delta"])
    assert sum(row["share_of_delta"] for row in parts.values() if row["part"] != "identities") == pytest.approx(1)


# --- Simulations -----------------------------------------------------------------------------------------------------


@pytest.mark.simulation
@pytest.mark.parametrize("sd", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("n", "v"), [(24, 4), (24, 8), (24, 16), (100, 4), (100, 8), (100, 16)])
def test_the_interval_holds_the_true_gap_in_93_to_97_of_100(n, v, sd):
    # docs/statistics.md has 4,000 data sets of each, by benchmarks/wordings.py: 94.0 to 96.9%.
    n_datasets = 2_000
    rng = np.random.default_rng([n, v, int(10 * sd)])
    held = narrow = 0
    for _ in range(n_datasets):
        gaps = rng.standard_normal((n, 1)) + sd * rng.standard_normal(v) + 2 * rng.standard_normal((n, v))
        found = crossed_gap(gaps, confidence=0.95, n_ratings=gaps.size).estimate
        held += found.ci_low <= 0 <= found.ci_high
        means = gaps.mean(axis=1)
        narrow += abs(means.mean()) <= stats.t.ppf(0.975, n - 1) * means.std(ddof=1) / n**0.5 if sd == 1.0 else 0
    allowance = 2.6 * (0.05 * 0.95 / n_datasets) ** 0.5  # 99% of what chance does
    assert 0.93 - allowance <= held / n_datasets <= 0.97 + allowance
    if sd == 1.0:  # without wordings in it, the interval would not be wide enough
        assert narrow / n_datasets < 0.88
