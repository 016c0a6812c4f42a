"""Oracle: scipy's Welch test."""

import numpy as np
import pytest
from cubes import cube_of, mask_of
from scipy import stats

from audit.statistics.estimates import summarise_contrasts
from audit.statistics.families import family_rows
from audit.statistics.member_contrasts import changes_of_others


def estimates_of(gaps, labels):
    """An estimate by emotion, with its contrasts at its own narratives."""
    made = {}
    for name in dict.fromkeys(labels):
        own = np.where(np.array(labels) == name, gaps, np.nan)
        made[name] = summarise_contrasts(own, rounding=0.0, confidence=0.9, n_answers=1)
    return made


def test_of_two_emotions_the_difference_is_welch_s_with_the_fewer_degrees_of_freedom():
    rng = np.random.default_rng(0)
    gaps, labels = rng.normal(3, 5, 21), ["joy"] * 6 + ["fear"] * 15
    gaps[:6] *= 4
    welch = stats.ttest_ind(gaps[:6], gaps[6:], equal_var=False)
    changes = changes_of_others(estimates_of(gaps, labels), confidence=0.9)
    assert changes["joy"].delta == pytest.approx(gaps[:6].mean() - gaps[6:].mean())
    assert changes["joy"].delta / changes["joy"].se == pytest.approx(welch.statistic)
    assert changes["joy"].df == min(5, welch.df) == 5
    # Of fear the bound of 14 is not reached, and p is Welch's own.
    assert (changes["fear"].df, changes["fear"].p) == pytest.approx((welch.df, welch.pvalue))
    assert changes["fear"].delta == -changes["joy"].delta


def test_pseudo_values_give_the_difference_and_its_standard_error_again():
    rng = np.random.default_rng(1)
    gaps, labels = rng.normal(3, 5, 400), ["a", "b", "c", "d"] * 100
    change = changes_of_others(estimates_of(gaps, labels), confidence=0.9)["b"]
    assert change.by_narrative.mean() == pytest.approx(change.delta)
    # The variance of sums within members, n − 1 of each and not N − 1 of all.
    assert change.by_narrative.std(ddof=1) / 20 == pytest.approx(change.se, rel=0.02)


def test_an_emotion_of_one_narrative_is_in_no_mean_and_differs_from_none():
    gaps, labels = np.array([1.0, 2.0, 5.0, 9.0, 100.0]), ["a", "a", "b", "b", "alone"]
    changes = changes_of_others(estimates_of(gaps, labels), confidence=0.9)
    without = changes_of_others(estimates_of(gaps[:4], labels[:4]), confidence=0.9)
    assert set(changes) == {"a", "b"}
    assert changes["a"].delta == without["a"].delta == pytest.approx(1.5 - 7)
    assert (changes["a"].se, changes["a"].df) == (without["a"].se, without["a"].df)
    assert changes_of_others(estimates_of(gaps[[0, 1, 4]], ["a", "a", "alone"]), confidence=0.9) == {}


def test_an_emotion_that_goes_the_other_way_is_found_and_named():
    """Planted: +5 in three emotions, −7.5 in two, so that the mean over narratives is 0."""
    rng, emotions = np.random.default_rng(2), ["joy", "pride", "relief", "anger", "fear"] * 12
    own = {"joy": 5.0, "pride": 5.0, "relief": 5.0, "anger": -7.5, "fear": -7.5}
    gap = np.array([own[name] for name in emotions])[:, None, None]
    y = 50 + rng.normal(0, 6, (60, 1, 1)) + gap * mask_of("ABCD") + rng.normal(0, 3, (60, 4, 4))
    rows = {
        row["member"]: row
        for row in family_rows(cube_of(y, groups="ABCD", emotions=emotions), confidence=0.95, valence={}, clusters={})
        if row["family"] == "emotion"
    }
    assert set(rows) == set(own)
    assert all(row["change_p_adjusted"] < 0.01 for row in rows.values())
    for name, row in rows.items():
        rest = np.mean([value for other, value in own.items() if other != name])
        assert row["delta_rest"] == pytest.approx(rest, abs=1.5)
        assert row["change"] == pytest.approx(own[name] - rest, abs=4 * row["change_se"])
        # Each lies beyond a margin of 4 points, which the mean does not.
        assert row["eq_low"] > 2 if own[name] > 0 else row["eq_high"] < -4
    assert abs(np.mean([row["delta"] for row in rows.values()])) < 1
