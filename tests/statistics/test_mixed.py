"""Oracles: lme4 on tests/reference, the closed REML solution of complete data, one dense normal density."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from complete_gaps import gap_by_narrative
from cubes import cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.mixed import fit_mixed

REFERENCE = Path(__file__).parents[1] / "reference"
LME4 = pd.read_csv(REFERENCE / "lme4.csv")
AXES = ("narrative", "perceiver", "experiencer")
NAN = np.nan


def read_scenario(name):
    """Lay a reference table out as a cube; pairs that have no rating are asked all the same."""
    ratings = pd.read_csv(REFERENCE / f"{name}.csv")
    axes = [sorted(ratings[column].unique()) for column in AXES]
    places = [pd.Index(axis).get_indexer(ratings[name]) for axis, name in zip(axes, AXES, strict=True)]
    y = np.full([len(axis) for axis in axes], NAN)
    y[tuple(places)] = ratings["rating"]
    in_group = np.zeros(y.shape[1:], dtype=int)
    in_group[places[1], places[2]] = ratings["in_group"]
    return cube_of(y, in_group)


@pytest.mark.parametrize(("scenario", "model"), LME4[["scenario", "model"]].to_numpy().tolist())
def test_the_fit_is_that_of_lme4(scenario, model):
    lme4 = LME4[(LME4["scenario"] == scenario) & (LME4["model"] == model)].iloc[0]
    fit = fit_mixed(read_scenario(scenario), crossed=model == "crossed")
    assert fit.converged
    assert (fit.n_narratives, fit.n_answers) == (lme4["n_narratives"], lme4["n_ratings"])
    assert fit.boundary == bool(lme4["singular"])
    assert fit.criterion == pytest.approx(lme4["criterion"], rel=1e-9)
    assert fit.delta == pytest.approx(lme4["delta"], rel=1e-6)
    assert fit.se == pytest.approx(lme4["se"], rel=1e-6)
    assert fit.residual_variance == pytest.approx(lme4["var_residual"], rel=1e-5)
    scale = fit.residual_variance
    found = [fit.intercept_variance, fit.covariance, fit.slope_variance]
    variances = lme4[["var_intercept", "cov_intercept_slope", "var_slope"]].tolist()
    assert found == pytest.approx(variances, rel=1e-4, abs=1e-5 * scale)
    if model == "crossed":
        found = [fit.perceiver_variance, fit.experiencer_variance]
        assert found == pytest.approx(lme4[["var_perceiver", "var_experiencer"]].tolist(), rel=1e-4, abs=1e-5 * scale)
    if not fit.boundary:
        assert fit.df == pytest.approx(min(lme4["df"], fit.n_informative - 1), rel=1e-4)
    assert fit.df <= fit.n_informative - 1
    expected_sum = fit.delta * fit.n_narratives
    assert model == "crossed" or np.nansum(fit.by_narrative) == pytest.approx(expected_sum, abs=1e-9)


def draw_ratings(groups, n, *, seed=0, slope_sd=2.0, missing=0.0, delta=1.0):
    """Draw ratings with main effects, narratives that differ, noise of SD 5 and holes at random."""
    draws = np.random.default_rng(seed)
    k, in_group = len(groups), mask_of(groups)
    y = draws.normal(50, 5, size=(n, k, k)) + 3 * draws.normal(size=(k, 1)) + 3 * draws.normal(size=k)
    y += draws.normal(0, 6, size=(n, 1, 1)) + (delta + slope_sd * draws.normal(size=(n, 1, 1))) * in_group
    y[draws.random(y.shape) < missing] = NAN
    return y


def closed_reml(y, in_group):
    """REML of complete ratings in closed form, valid inside the boundary: δ, SE, D, σ² (two moments, no search)."""
    n, k = len(y), y.shape[1]
    g = in_group.ravel().astype(float)
    z = np.column_stack([np.ones(k * k), g])
    centred = g.reshape(k, k) - g.reshape(k, k).mean(0) - g.reshape(k, k).mean(1, keepdims=True) + g.mean()
    s = (centred**2).sum()
    means = y.mean(axis=0)
    deviations = (y - means).reshape(n, -1)
    b = deviations @ z @ np.linalg.inv(z.T @ z)
    ss_dev = ((deviations - b @ z.T) ** 2).sum()
    rest = means - means.mean(0) - means.mean(1, keepdims=True) + means.mean()
    delta = (centred * means).sum() / s
    ss_mean = ((rest - delta * centred) ** 2).sum()
    variance = (ss_dev + n * ss_mean) / ((n - 1) * (k * k - 2) + k * k - 2 * k)
    d = b.T @ b / (n - 1) - variance * np.linalg.inv(z.T @ z)
    return delta, np.sqrt((d[1, 1] + variance / s) / n), d, variance


@pytest.mark.parametrize("groups", ["ABCD", "AABBC", "AAABCD"])
def test_complete_ratings_have_the_closed_solution_and_the_contrast_s_gap(groups):
    y = draw_ratings(groups, 80, seed=3)
    fit = fit_mixed(cube_of(y, groups=groups))
    delta, se, d, variance = closed_reml(y, mask_of(groups))
    assert np.linalg.eigvalsh(d)[0] > 0, "the closed form holds inside the boundary only"
    assert fit.delta == pytest.approx(delta, abs=1e-12)
    assert fit.se == pytest.approx(se, rel=1e-8)
    found = [fit.intercept_variance, fit.covariance, fit.slope_variance, fit.residual_variance]
    assert found == pytest.approx([d[0, 0], d[0, 1], d[1, 1], variance], rel=1e-6)

    contrast = gap_by_narrative(cube_of(y, groups=groups), rng=np.random.default_rng(0), n_permutations=100)
    assert fit.delta == pytest.approx(contrast.delta, abs=1e-12)
    np.testing.assert_allclose(fit.by_narrative, contrast.by_narrative, atol=1e-10)
    np.testing.assert_allclose(fit.cell_means, y.mean(axis=0), atol=1e-10)
    assert fit.df == pytest.approx(79, abs=1e-4)
    if len(set(groups)) == len(groups):  # with equal groups the two standard errors estimate one variance
        assert fit.se == pytest.approx(contrast.se, rel=0.02)


def dense_criterion(y, in_group, d, variance, identities):
    """−2 log REML likelihood of all ratings at once: normal, with one dense covariance matrix (Harville, 1974).

    ``d`` is the covariance of a narrative's level and gap; ``identities`` are the variances of perceivers and of
    experiencers, or None for fixed ones, coded as an intercept and treatment contrasts.
    """
    places = np.argwhere(~np.isnan(y))
    narrative, perceiver, experiencer = (places[:, [axis]] for axis in range(3))
    g = in_group[perceiver, experiencer].astype(float)
    one = np.ones_like(g)
    z = np.column_stack([one, g])
    v = variance * np.eye(len(g)) + (narrative == narrative.T) * (z @ d @ z.T)
    x = [one, g]
    if identities is None:
        x += [perceiver == np.arange(1, y.shape[1]), experiencer == np.arange(1, y.shape[2])]
    else:
        v += identities[0] * (perceiver == perceiver.T) + identities[1] * (experiencer == experiencer.T)
    x, ratings = np.column_stack(x).astype(float), y[tuple(places.T)]
    information = x.T @ np.linalg.solve(v, x)
    residuals = ratings - x @ np.linalg.solve(information, x.T @ np.linalg.solve(v, ratings))
    determinants = np.linalg.slogdet(v)[1] + np.linalg.slogdet(information)[1]
    constant = (len(g) - x.shape[1]) * np.log(2 * np.pi)
    return constant + determinants + residuals @ np.linalg.solve(v, residuals), np.linalg.inv(information)[1, 1]


@pytest.mark.parametrize("crossed", [False, True], ids=["fixed", "crossed"])
@pytest.mark.parametrize(("groups", "missing"), [("ABC", 0.0), ("AABC", 0.2)])
def test_the_criterion_is_that_of_one_dense_normal_density_and_least_at_the_fit(groups, missing, crossed):
    y, in_group = draw_ratings(groups, 12, seed=4, slope_sd=6.0, missing=missing), mask_of(groups)
    fit = fit_mixed(cube_of(y, groups=groups), crossed=crossed)
    d = np.array([[fit.intercept_variance, fit.covariance], [fit.covariance, fit.slope_variance]])
    identities = np.array([fit.perceiver_variance, fit.experiencer_variance]) if crossed else None
    here, variance_of_gap = dense_criterion(y, in_group, d, fit.residual_variance, identities)
    assert fit.criterion == pytest.approx(here, rel=1e-10)
    assert fit.se == pytest.approx(variance_of_gap**0.5, rel=1e-8)
    for step in (0.97, 1.03):
        moved = [
            (d * factor, fit.residual_variance, identities) for factor in ([[step, 1], [1, 1]], [[1, 1], [1, step]])
        ]
        moved += [(d * [[1, step], [step, 1]], fit.residual_variance, identities)]
        moved += [(d, fit.residual_variance * step, identities)]
        if crossed:
            moved += [(d, fit.residual_variance, identities * factor) for factor in ([step, 1], [1, step])]
        assert all(dense_criterion(y, in_group, *elsewhere)[0] > here for elsewhere in moved)


def test_an_estimate_states_its_t_interval():
    fit = fit_mixed(cube_of(draw_ratings("ABCDE", 40, missing=0.2)))
    estimate = fit.estimate(confidence=0.9)
    t = stats.t(fit.df)
    half = fit.se * t.ppf(0.95)
    assert (estimate.ci_low, estimate.ci_high) == pytest.approx((fit.delta - half, fit.delta + half))
    assert estimate.p == pytest.approx(2 * t.sf(abs(fit.delta) / fit.se))
    assert estimate.d_z == pytest.approx(fit.delta / fit.se / 40**0.5)


def test_refusals_of_low_out_group_ratings_bias_listwise_deletion_and_not_the_model():
    """Truth 1.5; narratives of a small gap lose out-group ratings (statistics.md, section 4, on one large draw)."""
    draws = np.random.default_rng(11)
    slopes = draws.normal(0, 3, size=600)
    y = 50 + 5 * draws.normal(size=(600, 5, 5)) + (1.5 + slopes[:, None, None]) * np.eye(5)
    refused = (draws.random(y.shape) < 0.25) & ~np.eye(5, dtype=bool) & (slopes > 0)[:, None, None]
    y[refused] = NAN
    cube = cube_of(y)
    fit = fit_mixed(cube)
    listwise = gap_by_narrative(cube, rng=np.random.default_rng(0), n_permutations=100)
    assert abs(fit.delta - 1.5) < 3 * fit.se
    assert abs(listwise.delta - 1.5) > 6 * listwise.se


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), crossed=st.booleans())
def test_identities_and_narratives_in_another_order_give_the_same_fit(seed, crossed):
    groups = "AABCD"
    y = draw_ratings(groups, 25, seed=seed, missing=0.2)
    draws = np.random.default_rng(seed)
    n, p, e = draws.permutation(25), draws.permutation(5), draws.permutation(5)
    fits = [
        fit_mixed(cube_of(ratings, mask_of(groups)[np.ix_(rows, columns)]), crossed=crossed)
        for ratings, rows, columns in ((y, range(5), range(5)), (y[n][:, p][:, :, e], p, e))
    ]
    for name in ("delta", "se", "criterion", "residual_variance"):
        assert getattr(fits[0], name) == pytest.approx(getattr(fits[1], name), rel=1e-5, abs=1e-6)
    np.testing.assert_allclose(fits[0].cell_means[np.ix_(p, e)], fits[1].cell_means, atol=1e-4)


def test_lesser_degrees_of_an_intersection_are_not_out_group():
    crossed = [(race, faith) for race in "AB" for faith in "CD"]
    shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in crossed] for p in crossed])
    y = draw_ratings("ABCD", 40, delta=0) + np.array([0, 5, 9])[shared]
    y[np.random.default_rng(1).random(y.shape) < 0.1] = NAN
    fit = fit_mixed(cube_of(y, shared))
    assert abs(fit.delta - 9) < 3 * fit.se


def test_identities_without_a_rating_are_left_out():
    y = draw_ratings("ABCD", 30)
    holed = y.copy()
    holed[:, 3, :] = holed[:, :, 3] = NAN
    fit, smaller = fit_mixed(cube_of(holed)), fit_mixed(cube_of(y[:, :3, :3]))
    assert (fit.delta, fit.se) == pytest.approx((smaller.delta, smaller.se), rel=1e-6)
    assert fit.n_answers == 30 * 9


HOLES = {
    "no rated pair of identities is out-group": lambda y: np.where(np.eye(4) == 1, y, NAN)[:, :1, :1],
    "no in-group pair has a rating": lambda y: np.where(np.eye(4) == 0, y, NAN),
    "no out-group pair has a rating": lambda y: np.where(np.eye(4) == 1, y, NAN),
    "1 of 1 narrative has an in-group and an out-group rating": lambda y: y[:1],
    "no pair of identities has a rating": lambda y: np.full_like(y, NAN),
    "in-group cannot be told from the effects of identities": lambda y: np.where(
        np.eye(4)[0] + np.eye(4)[1] == 1, y, NAN
    )[:, :1, :2],
    "explain every rating": lambda y: np.full_like(y, 40.0) + np.arange(len(y))[:, None, None] * (1 + np.eye(4)) / 3,
    "too few": lambda y: y[:2, :2, :2],
}


@pytest.mark.parametrize("reason", HOLES)
def test_what_the_ratings_do_not_determine_is_said_and_not_made_up(reason):
    y = HOLES[reason](draw_ratings("ABCD", 12))
    in_group = np.eye(4, dtype=int)[: y.shape[1], : y.shape[2]]
    if "too few" in reason:
        y = y.copy()
        y[0, 0, 1] = y[1, 1, 0] = y[0, 1, 1] = NAN
    with pytest.raises(NotEstimableError, match=reason):
        fit_mixed(cube_of(y, in_group))


def test_pairs_none_of_which_is_in_group_have_no_gap():
    with pytest.raises(NotEstimableError, match="no rated pair of identities is in-group"):
        fit_mixed(cube_of(draw_ratings("ABCD", 12)[:, :2, 2:], np.zeros((2, 2), dtype=int)))


@pytest.mark.parametrize("value", [0.0, 50.0, 1 / 3])
def test_equal_ratings_leave_nothing_to_judge_by(value):
    with pytest.raises(NotEstimableError, match="explain every rating"):
        fit_mixed(cube_of(np.full((6, 3, 3), value)))
