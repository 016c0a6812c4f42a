"""δ as the mean of narratives' own gaps. Oracles: statsmodels on explicit dummies, influence written out in numpy, the
contrast of complete ratings, and a truth that was drawn."""

import numpy as np
import pytest
import statsmodels.api as sm
from cubes import cube_of, mask_of

from audit.errors import NotEstimableError
from audit.statistics.contrasts import gap_by_narrative
from audit.statistics.incomplete import equal_weight_gap
from audit.statistics.mixed import fit_mixed

NAN = np.nan
CROSSED = [(race, faith) for race in "AB" for faith in "CDE"]
DESIGNS = {
    "one-term groups": mask_of("ABCD"),
    "unequal groups": mask_of("AABBBC"),
    "non-square": mask_of("AAB", "ABBCC"),
    "intersection": np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in CROSSED] for p in CROSSED]),
}


def draw(n_shared, n=12, *, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    p, e = n_shared.shape
    y = 50 + rng.normal(0, 8, (n, 1, 1)) + rng.normal(0, 5, (p, 1)) + rng.normal(0, 5, e) + 2.0 * n_shared
    y = y + rng.normal(3, 2, (n, 1, 1)) * (n_shared == n_shared.max()) + rng.normal(0, 4, (n, p, e))
    return np.where(rng.random(y.shape) < missing, NAN, y)


def gap_of(y, n_shared, confidence=0.95):
    return equal_weight_gap(cube_of(y, n_shared), confidence=confidence)


def explicit(y, n_shared):
    """Ratings, dummies of narratives, of their slopes and of identities (and lesser degrees), and narratives' codes."""
    top = n_shared.max()
    i, p, e = np.nonzero(~np.isnan(y))
    shared, n = n_shared[p, e], np.arange(len(y))
    levels = (i[:, None] == n).astype(float)
    identities = [p[:, None] == np.arange(1, n_shared.shape[0]), e[:, None] == np.arange(1, n_shared.shape[1])]
    lesser = [(shared == degree)[:, None] for degree in range(1, top)]
    return y[i, p, e], np.hstack([levels * (shared == top)[:, None], levels, *identities, *lesser]).astype(float), i


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("missing", [0.15, 0.4])
def test_it_is_the_mean_of_the_narratives_slopes_in_least_squares_on_explicit_dummies(design, missing):
    n_shared = DESIGNS[design]
    y = draw(n_shared, missing=missing)
    n, c = len(y), n_shared.size
    ratings, x, narrative = explicit(y, n_shared)
    fitted = sm.OLS(ratings, x).fit()
    found = gap_of(y, n_shared)
    assert found.delta_points == pytest.approx(fitted.params[:n].mean(), abs=1e-9)
    # Influence written out: the slope of narrative i is m_i'(y_i − X_i β), m_i of weight 1/n_in and −1/n_out, so that
    # its part in δ is (d_i − δ)/N − mean(X'm)'(X'QX)⁻¹X_i'Q(y_i − X_i β), Q what sweeps out level and slope.
    rest = x[:, 2 * n :]
    swept = rest - x[:, : 2 * n] @ np.linalg.lstsq(x[:, : 2 * n], rest, rcond=None)[0]
    bread = np.linalg.pinv(swept.T @ swept)
    in_group = x[:, :n].sum(axis=1)
    parts, leaning = [], np.zeros(rest.shape[1])
    for k in range(n):
        own = narrative == k
        m = np.where(in_group[own] == 1, 1 / in_group[own].sum(), -1 / (1 - in_group[own]).sum())
        leaning += rest[own].T @ m / n
    for k in range(n):
        own = narrative == k
        part = (fitted.params[k] - fitted.params[:n].mean()) / n
        parts.append(part - leaning @ bread @ swept[own].T @ fitted.resid[own])
    assert sum(parts) == pytest.approx(0, abs=1e-9)
    assert found.se == pytest.approx((n / (n - 1) * np.square(parts).sum()) ** 0.5, rel=1e-8)
    np.testing.assert_allclose(found.by_narrative, found.delta_points + n * np.array(parts), atol=1e-8)
    assert (found.df, found.n_narratives, found.n_ratings) == (n - 1, n, ratings.size)
    assert ratings.size < n * c


@pytest.mark.parametrize("design", DESIGNS)
def test_on_complete_ratings_it_is_the_contrast(design):
    y = draw(DESIGNS[design], seed=1)
    found = gap_of(y, DESIGNS[design])
    contrast = gap_by_narrative(cube_of(y, DESIGNS[design]), rng=np.random.default_rng(0), n_permutations=10)
    np.testing.assert_allclose(found.by_narrative, contrast.by_narrative, rtol=0, atol=1e-10)
    for name in ("delta_points", "se", "ci_low", "ci_high", "d_z", "n_ratings"):
        assert getattr(found, name) == pytest.approx(getattr(contrast, name), rel=1e-10, abs=1e-10)


def test_narratives_without_either_kind_of_rating_are_left_out_and_identities_without_any_do_not_matter():
    n_shared = DESIGNS["one-term groups"]
    y = draw(n_shared)
    y[0, np.eye(4) == 1] = y[1, np.eye(4) == 0] = y[2] = NAN
    found, rest = gap_of(y, n_shared), gap_of(y[3:], n_shared)
    assert (found.delta_points, found.se) == pytest.approx((rest.delta_points, rest.se), rel=1e-10)
    assert (found.n_narratives, found.n_narratives_asked, found.n_ratings) == (9, 12, 9 * 16)
    assert np.flatnonzero(np.isnan(found.by_narrative)).tolist() == [0, 1, 2]
    y[:, 3] = y[:, :, 3] = NAN
    found, rest = gap_of(y, n_shared), gap_of(y[3:, :3, :3], n_shared[:3, :3])
    assert (found.delta_points, found.se) == pytest.approx((rest.delta_points, rest.se), rel=1e-10)


def test_baselines_are_left_out_and_the_ratings_are_not_modified():
    y = draw(mask_of("ABCD"), missing=0.2)
    before = y.copy()
    found = equal_weight_gap(cube_of(y, groups=["unspecified", *"ABC"]), confidence=0.9)
    without = equal_weight_gap(cube_of(y[:, 1:, 1:], groups="ABC"), confidence=0.9)
    assert (found.delta_points, found.ci_low) == pytest.approx((without.delta_points, without.ci_low), rel=1e-10)
    np.testing.assert_array_equal(y, before)


def test_it_is_unbiased_where_ratings_are_missing_because_of_the_narrative_s_gap_and_the_mixed_model_is_not():
    """Narratives of a gap above the mean of 2 lose all but one in-group and one out-group rating; 30 data sets of 200.

    The mixed model gives them less weight: σ² = 100 beside τ² = 16 makes their own gaps' variances 16 + 200 and
    16 + 100/4 + 100/12.
    """
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(30):
        slopes = rng.normal(2, 4, 200)
        y = 50 + rng.normal(0, 10, (200, 4, 4)) + rng.normal(0, 4, 4) + slopes[:, None, None] * np.eye(4)
        one_of_each = rng.permuted(np.tile(np.arange(4), (200, 1)), axis=1)[:, :2]
        kept = np.zeros(y.shape, dtype=bool)
        kept[np.arange(200), one_of_each[:, 0], one_of_each[:, 0]] = True
        kept[np.arange(200), one_of_each[:, 0], one_of_each[:, 1]] = True
        cube = cube_of(np.where((slopes > 2)[:, None, None] & ~kept, NAN, y))
        found = equal_weight_gap(cube, confidence=0.95)
        errors.append([found.delta_points - 2, fit_mixed(cube).delta_points - 2, found.se])
    equal, mixed, se = np.array(errors).T
    assert abs(equal.mean()) < 3 * equal.std(ddof=1) / 30**0.5
    assert mixed.mean() < -0.8
    assert mixed.mean() < -10 * mixed.std(ddof=1) / 30**0.5
    assert se.mean() == pytest.approx(equal.std(ddof=1), rel=4 / 60**0.5)


@pytest.mark.parametrize("value", [0.0, 50.0, 1 / 3, 99.9])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_equal_ratings_have_a_gap_of_0_and_no_interval(value, missing):
    rng = np.random.default_rng(3)
    found = gap_of(np.where(rng.random((40, 5, 5)) < missing, NAN, value), mask_of("ABCDE"))
    assert found.delta_points == pytest.approx(0, abs=1e-12)
    assert np.isnan([found.se, found.ci_low, found.p, found.d_z]).all()
    assert "spread is 0" in found.not_estimable


def test_one_narrative_has_a_gap_and_no_interval():
    found = gap_of(np.array([[[60.0, 50], [40, 70]], [[1, NAN], [NAN, 2]]]), mask_of("AB"))
    assert found.delta_points == pytest.approx(20)  # (60 + 70 − 50 − 40)/2
    assert np.isnan([found.se, found.df, found.ci_low, found.p]).all()
    assert found.not_estimable.startswith("one ")


@pytest.mark.parametrize(
    ("y", "groups", "reason"),
    [
        (np.full((3, 2, 2), NAN), "AB", "none of 3 narratives has both an in-group and an out-group rating"),
        ([[[1, NAN], [NAN, 2]], [[NAN, 1], [2, NAN]]], "AB", "none of 2 narratives has both"),
        (np.ones((3, 2, 2)), "AA", "every pair of identities is in-group"),
        (np.ones((3, 1, 1)), ["unspecified"], "is in-group"),
        ([[[1, 2], [NAN, NAN]], [[1, 3], [NAN, NAN]]], "AB", "can not be told from the effects of identities"),
    ],
    ids=["nothing", "either kind", "one group", "baselines", "one perceiver"],
)
def test_what_the_ratings_do_not_determine_is_refused_in_words(y, groups, reason):
    with pytest.raises(NotEstimableError, match=reason):
        equal_weight_gap(cube_of(y, groups=groups), confidence=0.95)


def test_the_mean_of_the_gaps_may_be_determined_where_no_single_one_is():
    # One perceiver in each narrative. With b the second experiencer's effect less the first's: 1 − 2 = d₁ − b and
    # 3 − 1 = d₂ + b, so that d₁ + d₂ = 1.
    y = np.array([[[1, 2], [NAN, NAN]], [[NAN, NAN], [1, 3]]])
    assert gap_of(y, mask_of("AB")).delta_points == pytest.approx(0.5)
