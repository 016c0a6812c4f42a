"""Narrative × identity. Oracles: mean squares by hand, Henderson's method by dense projections, a drawn truth."""

import numpy as np
import pytest
from cubes import cube_of, mask_of

from audit.statistics.interactions import interaction_variances
from audit.statistics.narrative_fits import narrative_fits

NAN = np.nan


def draw(n_shared, n, *, rng, perceiver=3.0, experiencer=5.0, missing=0.0):
    p, e = n_shared.shape
    y = 50 + rng.normal(0, 6, (n, 1, 1)) + rng.normal(0, 5, (p, 1)) + rng.normal(0, 5, e) + rng.normal(0, 2, (p, e))
    y = y + rng.normal(0, perceiver, (n, p, 1)) + rng.normal(0, experiencer, (n, 1, e)) + rng.normal(0, 4, (n, p, e))
    y = y + rng.normal(1, 2, (n, 1, 1)) * (n_shared == n_shared.max())
    return np.where(rng.random(y.shape) < missing, NAN, y)


def test_on_complete_ratings_of_equal_groups_they_are_differences_of_mean_squares():
    rng = np.random.default_rng(0)
    y = draw(mask_of("ABCD"), 9, rng=rng)
    found = interaction_variances(cube_of(y))
    z = y - y.mean(axis=0)
    z = z - z.mean(axis=(1, 2), keepdims=True)
    of_perceiver, of_experiencer = z.mean(axis=2), z.mean(axis=1)
    rest = z - of_perceiver[:, :, None] - of_experiencer[:, None]
    g = np.eye(4) - 1 / 4  # double-centred; its sum of squares is 3
    gaps = (rest * g).sum(axis=(1, 2)) / 3
    residual = ((rest**2).sum() - 3 * (gaps**2).sum()) / (8 * (9 - 1))
    assert found.residual == pytest.approx(residual, rel=1e-10)
    for variance, means in ((found.perceiver, of_perceiver), (found.experiencer, of_experiencer)):
        mean_square = 4 * (means**2).sum() / (8 * 3)
        assert variance == pytest.approx((mean_square - residual) / 4, rel=1e-10)
    assert (found.n_narratives, found.n_answers, found.note) == (9, 9 * 16, "")


@pytest.mark.parametrize("groups", ["ABCD", "AABC"])
def test_with_missing_ratings_they_are_henderson_s_by_dense_projections(groups):
    rng = np.random.default_rng(1)
    n_shared = mask_of(groups)
    y = draw(n_shared, 6, rng=rng, missing=0.2, perceiver=8.0)
    cube = cube_of(y, n_shared)
    i, p, e = np.nonzero(~np.isnan(y))
    of_narrative = (i[:, None] == np.arange(6)).astype(float)

    def crossed(columns):
        return (of_narrative[:, :, None] * columns[:, None, :]).reshape(len(i), -1)

    def projection(*columns):
        x = np.hstack(columns)
        return x @ np.linalg.pinv(x, rcond=1e-10)

    perceivers, experiencers = ((codes[:, None] == np.arange(4)).astype(float) for codes in (p, e))
    own = crossed(np.column_stack([np.ones(len(i)), n_shared[p, e], experiencers]))
    z = crossed(perceivers)
    gained = projection(own, z) - projection(own, perceivers)
    residual = narrative_fits(cube).residual_variance
    rated = y[i, p, e]
    expected = (rated @ gained @ rated - residual * np.trace(gained)) / np.trace(gained @ z @ z.T)
    assert expected > 0
    found = interaction_variances(cube)
    assert (found.perceiver, found.residual) == pytest.approx((expected, residual), rel=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_they_find_variances_that_were_drawn(missing):
    rng = np.random.default_rng(2)
    n_shared = mask_of("AABBBC")
    found = []
    for _ in range(30):
        each = interaction_variances(cube_of(draw(n_shared, 25, rng=rng, missing=missing), n_shared))
        found.append((each.perceiver, each.experiencer))
    error = np.std(found, axis=0, ddof=1) / 30**0.5
    assert (np.abs(np.mean(found, axis=0) - [9, 25]) < 3.5 * error).all()
    assert (error < 1).all()


def test_what_narratives_add_to_everyone_is_no_interaction_and_no_estimate_is_negative():
    rng = np.random.default_rng(3)
    y = draw(mask_of("ABCD"), 40, rng=rng, perceiver=0.0, experiencer=0.0)
    levels = interaction_variances(cube_of(y + rng.normal(0, 100, (40, 1, 1))))
    plain = interaction_variances(cube_of(y))
    assert (levels.perceiver, levels.experiencer) == pytest.approx((plain.perceiver, plain.experiencer), abs=1e-8)
    assert 0 <= plain.perceiver < 1
    alternating = 50 + np.tile([1.0, -1.0], 8).reshape(1, 4, 4) + np.zeros((3, 4, 4))
    assert interaction_variances(cube_of(alternating)).experiencer == 0


def test_what_the_ratings_do_not_tell_is_missing_with_a_note():
    found = interaction_variances(cube_of(np.arange(8.0).reshape(2, 2, 2)))
    assert np.isnan([found.perceiver, found.experiencer, found.residual]).all()
    assert "no degree of freedom" in found.note
