"""What holds for every estimator of δ in points, on complete and on incomplete ratings, with groups of unequal size."""

import numpy as np
import pytest
from complete_gaps import gap_by_narrative
from conftest import build_ratings
from cubes import cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.statistics.cells import NarrativeCube
from audit.statistics.headline import headline_gap
from audit.statistics.incomplete import equal_weight_gap
from audit.statistics.mixed import fit_mixed
from audit.statistics.scopes import group_scope
from audit.statistics.sensitivity import weighted_gap

GROUPS = "AAABBCDE"
MASK = mask_of(GROUPS)
K, N = len(GROUPS), 14
ESTIMATORS = {
    "contrast": lambda cube: gap_by_narrative(cube, rng=np.random.default_rng(0), n_permutations=10),
    "mixed": lambda cube: fit_mixed(cube).estimate(confidence=0.95),
    "mixed_crossed": lambda cube: fit_mixed(cube, crossed=True).estimate(confidence=0.95),
    "equal_narratives": lambda cube: equal_weight_gap(cube, confidence=0.95),
    "within_narratives": lambda cube: weighted_gap(cube, np.ones((1, 1, 1)), confidence=0.95),
    "any_identities": lambda cube: group_scope(cube, headline_gap(cube, confidence=0.95), confidence=0.95).estimate,
}
SEEDS = st.integers(0, 10**6)


def every_estimator(test):
    """Run few examples each: there are twelve combinations of estimator and ratings."""
    test = settings(max_examples=4, deadline=None)(test)
    test = pytest.mark.parametrize("holes", [False, True], ids=["complete", "incomplete"])(test)
    return pytest.mark.parametrize("estimate", ESTIMATORS.values(), ids=ESTIMATORS)(test)


def draw(seed, holes, *, noise=5.0, gap=2.0, perceivers=6.0, experiencers=6.0):
    """Ratings with effects of narratives, their gaps and identities; the last five narratives are complete."""
    rng = np.random.default_rng(seed)
    y = 50 + rng.normal(0, 6, (N, 1, 1)) + perceivers * rng.normal(size=(K, 1)) + experiencers * rng.normal(size=K)
    y = y + (gap * rng.normal(1, 1, (N, 1, 1))) * MASK + noise * rng.normal(size=(N, K, K))
    missing = (rng.random(y.shape) < 0.2) & (np.arange(N) < N - 5)[:, None, None]
    return np.where(missing & holes, np.nan, y)


def cube_from(ratings):
    return NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin")


def same(found, expected, *, scale=1.0, sign=1):
    """The mixed model's optimum is found to some 1e-7 of its variances; the others agree to rounding."""
    assert found.delta == pytest.approx(sign * scale * expected.delta, rel=1e-5, abs=1e-5 * scale)
    assert [found.se, found.df] == pytest.approx([scale * expected.se, expected.df], rel=1e-3)


@every_estimator
@given(seed=SEEDS)
def test_the_order_of_rows_and_so_of_identities_and_narratives_does_not_matter(estimate, holes, seed):
    ratings = build_ratings(draw(seed, holes), list(GROUPS))
    same(estimate(cube_from(ratings.sample(frac=1, random_state=seed))), estimate(cube_from(ratings)))


@every_estimator
@given(seed=SEEDS, shift=st.floats(-50, 50), scale=st.sampled_from([0.01, 0.1, 3.0, 100.0]))
def test_shifted_ratings_leave_the_gap_and_scaled_ratings_scale_it(estimate, holes, seed, shift, scale):
    y = draw(seed, holes)
    same(estimate(cube_of(scale * y + shift, groups=GROUPS)), estimate(cube_of(y, groups=GROUPS)), scale=scale)


@every_estimator
@given(seed=SEEDS)
def test_in_group_and_out_group_swapped_flip_the_sign(estimate, holes, seed):
    y = draw(seed, holes)
    same(estimate(cube_of(y, 1 - MASK, groups=GROUPS)), estimate(cube_of(y, groups=GROUPS)), sign=-1)


@every_estimator
@given(seed=SEEDS, perceivers=st.sampled_from([0.0, 9.0]), experiencers=st.sampled_from([0.0, 9.0]))
def test_main_effects_alone_have_no_gap(estimate, holes, seed, perceivers, experiencers):
    """Noise of 0.01, without which the mixed model has nothing to judge by; the raw difference would be some points."""
    y = draw(seed, holes, noise=0.01, gap=0.0, perceivers=perceivers, experiencers=experiencers)
    assert estimate(cube_of(y, groups=GROUPS)).delta == pytest.approx(0, abs=0.01)
