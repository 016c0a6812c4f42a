"""Which estimate stands first. Oracles: scipy's t-test of contrasts by hand, and the mixed model, tested of its own."""

import numpy as np
import pytest
from cubes import cube_of
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.headline import headline_gap
from audit.statistics.mixed import fit_mixed

GROUPS = ["unspecified", *"AAB"]


def ratings(n=12):
    rng = np.random.default_rng(0)
    return 50 + rng.normal(0, 6, (n, 1, 1)) + rng.normal(3, 2, (n, 1, 1)) * np.eye(4) + rng.normal(0, 4, (n, 4, 4))


def test_without_a_missing_rating_the_contrast_stands_first_whatever_baselines_lack():
    y = ratings()
    y[0, 0] = y[1, :, 0] = np.nan
    found = headline_gap(cube_of(y, groups=GROUPS), confidence=0.9)
    # Mask 110/110/001, rows and columns centred: ±2/9, ±4/9 and 8/9 at the end; ΣG̃² = 144/81, so w = G̃ · 9/16.
    w = np.outer([1, 1, -2], [1, 1, -2]) / 8
    t = stats.ttest_1samp((y[:, 1:, 1:] * w).sum(axis=(1, 2)), 0)
    estimate = found.estimate
    assert (found.estimator, found.fit) == ("contrast", None)
    assert (estimate.ci_low, estimate.ci_high) == pytest.approx(tuple(t.confidence_interval(0.9)))
    assert (estimate.p, estimate.df, estimate.n_ratings) == pytest.approx((t.pvalue, 11, 12 * 9))
    assert fit_mixed(cube_of(y, groups=GROUPS)).delta_points == pytest.approx(estimate.delta_points, abs=1e-10)


def test_with_one_missing_rating_the_mixed_model_stands_first():
    y = ratings()
    y[3, 1, 2] = np.nan
    cube = cube_of(y, groups=GROUPS)
    found, fit = headline_gap(cube, confidence=0.9), fit_mixed(cube)
    assert found.estimator == "mixed"
    assert found.fit.delta_points == found.estimate.delta_points == fit.delta_points
    assert found.estimate == fit.estimate(confidence=0.9)
    assert found.estimate.n_ratings == 12 * 9 - 1


@pytest.mark.parametrize(
    ("n", "missing", "groups", "reason"),
    [
        (3, False, "AAAA", "nothing is out-group"),
        (3, True, "AAAA", "no rated pair of identities is out-group"),
        (1, True, "ABCD", "1 of 1 narratives has"),
    ],
)
def test_what_neither_can_estimate_is_refused_and_never_handed_to_the_other(n, missing, groups, reason):
    y = ratings(n)
    if missing:
        y[0, 0, 1] = np.nan
    with pytest.raises(NotEstimableError, match=reason):
        headline_gap(cube_of(y, groups=groups), confidence=0.95)
