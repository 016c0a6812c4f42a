"""Oracles: the truth that was drawn, and the log likelihood written out rating by rating and maximised by scipy."""

import numpy as np
import pytest
from cubes import cube_of, mask_of
from scipy import optimize, stats

from audit.errors import NotEstimableError
from audit.statistics.headline import headline_gap
from audit.statistics.scale_ends import end_shares, tobit_gap

NAN = np.nan


def drawn(n, k, *, delta, seed, mean=95.0, main=0.0, interaction=0.0, missing=0.0, slope=0.0):
    """Ratings of SD 8 cut at 100; the same identities are rated high as perceivers and as experiencers."""
    rng = np.random.default_rng(seed)
    main_effects = main * rng.standard_normal(k)
    y = mean + main_effects[:, None] + main_effects + (delta + slope * rng.standard_normal((n, 1, 1))) * np.eye(k)
    y = y + 6 * rng.standard_normal((n, 1, 1)) + 8 * rng.standard_normal((n, k, k))
    y += interaction * (rng.standard_normal((n, k, 1)) + rng.standard_normal((n, 1, k)))
    y = np.clip(y, 0, 100)
    y[rng.random(y.shape) < missing] = NAN
    return cube_of(y, groups=[f"group {term}" for term in range(k)])


def tobit(cube):
    return tobit_gap(cube, low=0, high=100, confidence=0.95)


def test_the_maximum_is_that_of_the_likelihood_written_out():
    cube = drawn(4, 3, delta=3.0, seed=1, mean=92.0, missing=0.1)
    y, g = cube.y, np.eye(3)

    def minus_log_likelihood(theta):
        delta, log_sd, alpha, a, b = theta[0], theta[1], theta[2:6], theta[6:8], theta[8:10]
        of_pair = delta * g + np.append(0, a)[:, None] + np.append(0, b)
        total = 0.0
        for i, p, e in np.argwhere(~np.isnan(y)):
            mean, sd = alpha[i] + of_pair[p, e], np.exp(log_sd)
            if y[i, p, e] >= 100:
                total -= stats.norm.logsf(100, mean, sd)
            else:
                total -= stats.norm.logpdf(y[i, p, e], mean, sd)
        return total

    start = np.concatenate([[0, 2], np.full(4, 92), np.zeros(4)])
    found = optimize.minimize(minus_log_likelihood, start, method="BFGS", options={"gtol": 1e-6, "maxiter": 2_000})
    assert tobit(cube).delta == pytest.approx(found.x[0], abs=1e-3)


def test_without_a_rating_at_an_end_it_is_the_contrast():
    """Least squares and its clustered error are then the maximum; of complete ratings that is sd(d)/√N."""
    cube = drawn(30, 4, delta=1.0, seed=2, mean=50.0, main=3.0)
    headline = headline_gap(cube, confidence=0.95)
    found = tobit(cube)
    assert [found.delta, found.se, found.df] == pytest.approx([headline.delta, headline.se, headline.df], rel=1e-5)


def test_both_ends_are_alike():
    cube = drawn(30, 4, delta=2.0, seed=3, missing=0.1)
    turned = cube_of(100 - cube.y, groups=cube.perceiver_groups)
    assert end_shares(turned, low=0, high=100) == end_shares(cube, low=0, high=100)[::-1]
    assert tobit(turned).delta == pytest.approx(-tobit(cube).delta, rel=1e-6)
    assert tobit(turned).se == pytest.approx(tobit(cube).se, rel=1e-5)


def test_another_scale_gives_the_same_gap_in_its_points():
    cube = drawn(20, 4, delta=2.0, seed=4)
    tenth = tobit_gap(cube_of(cube.y / 10 - 5, groups=cube.perceiver_groups), low=-5, high=5, confidence=0.95)
    assert [tenth.delta, tenth.se] == pytest.approx([tobit(cube).delta / 10, tobit(cube).se / 10])


@pytest.mark.parametrize("at", ["narrative", "perceiver", "experiencer"])
def test_what_lies_at_one_end_throughout_tells_nothing_and_is_left_out(at):
    cube = drawn(20, 5, delta=2.0, seed=5)
    y, without = cube.y.copy(), cube.y.copy()
    place = {"narrative": np.s_[3], "perceiver": np.s_[:, 3], "experiencer": np.s_[:, :, 3]}[at]
    y[place], without[place] = 100, NAN
    found, apart = (tobit(cube_of(each, groups=cube.perceiver_groups)) for each in (y, without))
    assert [found.delta, found.se, found.n_answers] == [apart.delta, apart.se, apart.n_answers]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(np.random.default_rng(0).random((9, 3, 3)) > 0.5, 100.0, 0.0), "no rating lies between the ends"),
        (np.full((9, 3, 3), NAN), "no rating lies between the ends"),
        (np.where(mask_of("ABC") == 1, 100.0, np.random.default_rng(1).uniform(20, 80, (9, 3, 3))), "grows without"),
    ],
)
def test_what_has_no_maximum_is_not_estimable(y, message):
    with pytest.raises(NotEstimableError, match=message):
        tobit(cube_of(y, groups=list("ABC")))


def test_a_scale_upside_down_is_refused():
    with pytest.raises(ValueError, match="runs from 100 to 0"):
        tobit_gap(drawn(5, 3, delta=0, seed=6), low=100, high=0, confidence=0.95)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("n", "fields"),
    [
        (50, {"delta": 1.5}),
        (50, {"delta": 0.0, "main": 4.0, "slope": 1.5}),
        (12, {"delta": 1.5, "main": 4.0, "interaction": 4.0}),
        (50, {"delta": 1.5, "main": 4.0, "interaction": 8.0, "missing": 0.2}),
    ],
)
def test_a_squeezed_gap_is_found_again_and_none_is_feigned(n, fields):
    """A third at the ceiling keeps two thirds of a gap of 1.5, and feigns one of −.5 where there is none."""
    cubes = [drawn(n, 5, seed=100 + seed, **fields) for seed in range(100)]
    found = [tobit(cube) for cube in cubes]
    delta = fields["delta"]
    errors = np.array([each.delta - delta for each in found])
    assert abs(errors.mean()) < 4 * errors.std() / 10
    assert np.mean([each.se for each in found]) == pytest.approx(errors.std(), rel=0.25)
    assert np.mean([each.ci_low <= delta <= each.ci_high for each in found]) > 0.95 - 4 * 0.0218
    headlines = [headline_gap(cube, confidence=0.95).delta - delta for cube in cubes]
    assert np.mean(headlines) < -0.25
