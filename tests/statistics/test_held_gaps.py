"""Oracles: the interval of |δ| − |δ₀| against its definition, Holm's steps by hand; error rates by simulation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from audit.statistics.estimates import summarise_contrasts, with_variance
from audit.statistics.margin_tests import DecidedGap, _box, _worse, hold

MARGINS = {"average": 2.0, "emotion": 2.0, "group": 2.0, "refusals": 5.0}


def gap(contrasts: np.ndarray, member: str = "a") -> DecidedGap:
    made = summarise_contrasts(contrasts, rounding=1e-9, confidence=0.95, n_answers=contrasts.size)
    return DecidedGap(
        "group", member, "faith", "plain", made, tuple(range(contrasts.size)), (0.0, 100.0), control="echo_free"
    )


def held(gaps, baselines=None):
    return hold(gaps, baselines, margins=MARGINS, alpha=0.05, power=0.8)


def test_the_change_of_size_follows_from_change_and_sum():
    for own, theirs in itertools.product(np.linspace(-5, 5, 21), repeat=2):
        assert _worse(own - theirs, own + theirs) == pytest.approx(abs(own) - abs(theirs))


def test_the_interval_of_the_change_of_size_holds_all_that_it_can_be_and_is_as_narrow():
    rng = np.random.default_rng(0)
    for _ in range(50):
        change, total = np.sort(rng.normal(0, 3, (2, 2)), axis=1)
        low, high = _box(tuple(change), tuple(total))
        grid = [_worse(d, s) for d in np.linspace(*change, 80) for s in np.linspace(*total, 80)]
        assert low - 1e-9 <= min(grid)
        assert max(grid) <= high + 1e-9
        assert max(grid) == pytest.approx(high, abs=0.2)


def test_within_is_scipys_two_one_sided_tests():
    contrasts = np.random.default_rng(3).normal(0.5, 4, 40)
    [one] = held([gap(contrasts)])
    p = max(
        stats.ttest_1samp(contrasts, -2, alternative="greater").pvalue,
        stats.ttest_1samp(contrasts, 2, alternative="less").pvalue,
    )
    low, high = stats.t.interval(0.9, 39, contrasts.mean(), stats.sem(contrasts))
    assert (one.low, one.high) == pytest.approx((low, high))
    assert (one.decided == "within") == (p < 0.05)


def test_beyond_is_corrected_by_holm_and_its_interval_says_the_same():
    rng = np.random.default_rng(5)
    for _ in range(30):
        rows = held([gap(rng.normal(rng.choice([0, 2.5, 3.5]), 2, 40), str(k)) for k in range(5)])
        p = [2 * stats.t.sf((abs(each.value) - 2) / each.gap.made.se, 39) for each in rows]
        assert [each.p_beyond for each in rows] == pytest.approx([min(one, 1) for one in p])
        for each in rows:
            wholly = each.beyond_low > 2 or each.beyond_high < -2
            assert (each.decided == "beyond") == wholly == (each.p_adjusted <= 0.05)


def drawn(rng, means, n=40):
    level = rng.normal(0, 1, n)  # gaps of one narrative depend on each other
    return [gap(mean + level + rng.normal(0, 3, n), str(k)) for k, mean in enumerate(means)]


@pytest.mark.simulation
def test_a_family_with_a_gap_at_the_margin_passes_in_no_more_than_five_percent():
    rng = np.random.default_rng(11)
    for means in ([2.0], [2.0, 0, 0, 0], [2.0, -2.0]):
        passed = [all(each.decided == "within" for each in held(drawn(rng, means, 120))) for _ in range(1_500)]
        assert np.mean(passed) <= 0.05 + 2.6 * (0.05 * 0.95 / 1_500) ** 0.5
    assert np.mean([all(e.decided == "within" for e in held(drawn(rng, [0.0, 0.0], 120))) for _ in range(200)]) > 0.9


@pytest.mark.simulation
def test_a_family_within_the_margin_fails_in_no_more_than_five_percent():
    rng = np.random.default_rng(12)
    for means in ([0.0] * 8, [2.0] * 8, [2.0, -2.0, 0.0]):
        failed = [any(each.decided == "beyond" for each in held(drawn(rng, means))) for _ in range(1_500)]
        assert np.mean(failed) <= 0.05 + 2.6 * (0.05 * 0.95 / 1_500) ** 0.5


@pytest.mark.simulation
def test_as_many_narratives_as_are_needed_pass_as_often_as_was_planned():
    rng = np.random.default_rng(14)
    needed = max(each.n_needed for each in held(drawn(rng, [0.0] * 4, 5_000)))
    passed = [all(each.decided == "within" for each in held(drawn(rng, [0.0] * 4, int(needed)))) for _ in range(400)]
    assert 0.8 - 0.06 <= np.mean(passed) < 0.97
    fewer = int(needed * 0.6)
    assert np.mean([all(e.decided == "within" for e in held(drawn(rng, [0.0] * 4, fewer))) for _ in range(200)]) < 0.8


@pytest.mark.simulation
def test_words_take_their_part_of_the_margin_and_narratives_are_counted_for_the_rest():
    """However many narratives were asked, as many are needed: what words differ by does not shrink with them."""
    needed = []
    for n in (40, 400):
        contrasts = np.random.default_rng(1).normal(0, 1, n)
        contrasts = 10 * (contrasts - contrasts.mean()) / contrasts.std(ddof=1)
        made = with_variance(gap(contrasts).made, 0.3, 6, confidence=0.95)
        one = replace(gap(contrasts), kind="disparity", made=made, pair_variance=0.3, control="not_needed")
        [each] = hold([one], None, margins={"disparity": 2.0}, alpha=0.05, power=0.8)
        needed.append(each.n_needed)
    assert needed[0] == needed[1]
    # (z.95 + z.90)² * 10² / (2² - (t.95 + z.90)² * 0.3) = 8.567 * 100 / 0.880, t with 6 df
    assert needed[0] == pytest.approx(975, rel=0.01)


def test_against_a_baseline_both_errors_are_at_most_five_percent():
    rng = np.random.default_rng(13)
    for before, after in ((0.0, 2.0), (3.0, 5.0), (3.0, -5.0), (-0.5, 2.5)):
        passed, failed = [], []
        for _ in range(1_000):
            [own], [theirs] = drawn(rng, [after]), drawn(rng, [before])
            [one] = held([own], {theirs.key: theirs})
            passed.append(one.decided == "within")
            failed.append(one.decided == "beyond")
        for share in (np.mean(passed), np.mean(failed)):
            assert share <= 0.05 + 2.6 * (0.05 * 0.95 / 1_000) ** 0.5
