import numpy as np
import pytest
from cubes import cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.cells import degree_columns
from audit.statistics.headline import headline_gap
from audit.statistics.scopes import adjusted_gap, group_scope

NAN = np.nan


def scope_of(y, groups, **fields):
    cube = cube_of(y, groups=groups, **fields)
    return group_scope(cube, headline_gap(cube, confidence=0.95), confidence=0.95)


def ordinary_gap(means, in_group, counts=None):
    """In-group coefficient of cell means by explicit dummies: numpy's least squares as the oracle.

    Cells count by ``counts``, shape (K, K); None for all alike.
    """
    k = len(means)
    rows = [
        [1, in_group[p, e], *(p == j for j in range(1, k)), *(e == j for j in range(1, k)), means[p, e]]
        for p, e in np.ndindex(k, k)
        if np.isfinite(means[p, e])
    ]
    design = np.array(rows, dtype=float)
    if counts is not None:
        design *= np.sqrt(counts[np.isfinite(means)])[:, None]
    return np.linalg.lstsq(design[:, :-1], design[:, -1], rcond=None)[0][1]


def counts_of(groups):
    """Groups count alike: a cell counts as one over the cells of its pair of groups."""
    sizes = np.array([list(groups).count(name) for name in groups])
    return 1 / np.outer(sizes, sizes)


def draw(groups, n, seed=0):
    draws = np.random.default_rng(seed)
    k = len(groups)
    y = draws.normal(50, 5, size=(n, k, k)) + draws.normal(0, 4, size=(k, 1)) + draws.normal(size=(k, k))
    return y + (1 + 2 * draws.normal(size=(n, 1, 1))) * mask_of(groups)


@pytest.mark.parametrize("groups", ["ABCDE", "AABBCDDE"])
def test_the_jackknife_leaves_groups_out_and_adds_the_narratives_spread(groups):
    y = draw(groups, 60)
    scope = scope_of(y, groups)
    mask, means = mask_of(groups), y.mean(axis=0)
    names = sorted(set(groups))
    kept = {name: np.ix_(*[[k for k, own in enumerate(groups) if own != name]] * 2) for name in names}
    counts = counts_of(groups)
    expected = {name: ordinary_gap(means[cells], mask[cells], counts[cells]) for name, cells in kept.items()}
    assert scope.leave_one_out == pytest.approx(expected, abs=1e-10)
    gaps, g = np.array(list(expected.values())), len(names)
    jackknife = (g - 1) / g * ((gaps - gaps.mean()) ** 2).sum()
    assert scope.jackknife_se == pytest.approx(jackknife**0.5)

    # Narratives: sd² of the contrasts less the noise in them, each a coefficient of its own least squares. Noise is
    # what ratings vary by about their fit, which does not depend on what cells count for.
    contrasts = np.array([ordinary_gap(narrative, mask, counts) for narrative in y])
    alike = np.array([ordinary_gap(narrative, mask) for narrative in y])
    weights = np.array([ordinary_gap(cell.reshape(mask.shape), mask, counts) for cell in np.eye(mask.size)])
    k = len(groups)
    centred = y - y.mean(0)
    centred -= centred.mean(2, keepdims=True)
    centred -= centred.mean(1, keepdims=True)
    g_centred = mask - mask.mean(0) - mask.mean(1, keepdims=True) + mask.mean()
    rest = centred - (alike - alike.mean())[:, None, None] * g_centred
    noise = (rest**2).sum() / (59 * ((k - 1) ** 2 - 1))
    slopes = max(0, contrasts.var(ddof=1) - noise * (weights**2).sum())
    assert scope.estimate.slope_variance == pytest.approx(slopes)
    narrow = contrasts.std(ddof=1) / 60**0.5  # never less than this
    assert scope.estimate.se == pytest.approx(max((jackknife + slopes / 60) ** 0.5, narrow), rel=1e-9)
    half = stats.t(g - 1).ppf(0.975) * scope.estimate.se
    assert scope.estimate.ci_high - scope.estimate.delta == pytest.approx(half)
    assert scope.estimate.df == g - 1
    assert scope.no_claim == ""


def test_the_wider_scope_never_claims_more_certainty_than_the_narrower():
    draws = np.random.default_rng(3)
    y = draws.normal(50, 5, size=(5, 6, 6))
    y += -y.mean(axis=0) + 50  # cell means without any pair effect: the jackknife finds no spread
    cube = cube_of(y)
    headline = headline_gap(cube, confidence=0.95)
    scope = group_scope(cube, headline, confidence=0.95)
    assert scope.jackknife_se == pytest.approx(0, abs=1e-9)
    assert scope.estimate.se >= headline.se
    assert scope.estimate.ci_low <= headline.ci_low  # five narratives have fewer degrees of freedom than six groups
    assert scope.estimate.ci_high >= headline.ci_high
    assert scope.estimate.p >= headline.p


@pytest.mark.parametrize("groups", ["ABCD", "ABC"])
def test_three_or_four_groups_show_their_range_and_claim_nothing(groups):
    scope = scope_of(draw(groups, 30), groups)
    assert list(scope.leave_one_out) == list(groups)
    assert np.isnan([scope.estimate.se, scope.estimate.ci_low, scope.estimate.p]).all()
    assert scope.no_claim == f"{len(groups)} groups are too few to speak about others"
    assert np.isfinite(scope.estimate.delta)


def test_two_groups_can_not_be_left_out():
    scope = scope_of(draw("AABB", 30), "AABB")
    assert scope.leave_one_out == {}
    assert scope.no_claim == "without A there is no gap to compare with"


def test_intersections_claim_nothing_about_other_identities():
    crossed = [(race, faith) for race in "ABC" for faith in "DE"]
    shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in crossed] for p in crossed])
    cube = cube_of(draw("ABCDEF", 20), shared)
    scope = group_scope(cube, headline_gap(cube, confidence=0.95), confidence=0.95)
    assert "intersection" in scope.no_claim
    assert scope.leave_one_out == {}


def test_perceivers_and_experiencers_of_other_groups_claim_nothing():
    y = draw("ABCDE", 20)
    scope = scope_of(y, "ABCDE", experiencer_groups=tuple("VWXYZ"))
    assert "different groups" in scope.no_claim


def means_beside_narratives(y):
    """Effects of cells beside those of narratives, by explicit dummies; NaN where a cell has no rating."""
    flat = y.reshape(len(y), -1)
    i, c = np.nonzero(np.isfinite(flat))
    x = np.column_stack([c[:, None] == np.arange(flat.shape[1]), i[:, None] == np.arange(1, len(y))]).astype(float)
    effects = np.linalg.lstsq(x, flat[i, c], rcond=None)[0][: flat.shape[1]]
    return np.where(np.isfinite(flat).any(axis=0), effects, NAN).reshape(y.shape[1:])


def test_missing_ratings_use_cell_means_free_of_narratives_levels():
    """Additive narratives of very different level: holes shift raw cell means by points, the freed ones by nothing."""
    y = draw("ABCDEF", 50) + 30 * np.random.default_rng(1).normal(size=(50, 1, 1))
    whole = scope_of(y, "ABCDEF")
    holed = y.copy()
    holed[np.random.default_rng(2).random(y.shape) < 0.05] = NAN
    scope = scope_of(holed, "ABCDEF")
    assert scope.no_claim == ""
    for group, gap in whole.leave_one_out.items():
        assert scope.leave_one_out[group] == pytest.approx(gap, abs=0.5)


OF_F = {  # which ratings of the sixth group are missing
    "unrated": lambda p, e: (p == 5) | (e == 5),
    "perceives nothing": lambda p, e: p == 5,
    "is never perceived": lambda p, e: e == 5,
    "no rating of its own": lambda p, e: (p == 5) & (e == 5),
    "perceives its own alone": lambda p, e: (p == 5) & (e != 5),
    "is perceived by its own alone": lambda p, e: (p != 5) & (e == 5),
}


@pytest.mark.parametrize("holes", OF_F)
def test_a_group_of_whose_gap_the_ratings_tell_nothing_is_not_counted(holes):
    y = draw("ABCDEF", 40, seed=1)
    y[:, OF_F[holes](*np.indices((6, 6)))] = NAN
    cube = cube_of(y, groups="ABCDEF")
    headline = headline_gap(cube, confidence=0.95)
    scope = group_scope(cube, headline, confidence=0.95)
    assert list(scope.leave_one_out) == list("ABCDE")
    assert (scope.uncounted, scope.estimate.df, scope.no_claim) == (("F",), 4, "")
    assert scope.note == "5 of 6 groups count: the ratings tell nothing of the gap of F"
    means, mask = means_beside_narratives(y), mask_of("ABCDEF")
    for place, gap in enumerate(scope.leave_one_out.values()):
        others = np.ix_(*[[k for k in range(6) if k != place]] * 2)
        assert gap == pytest.approx(ordinary_gap(means[others], mask[others]), abs=1e-9)
    gaps = np.array(list(scope.leave_one_out.values()))
    assert scope.jackknife_se == pytest.approx((4 / 5 * ((gaps - gaps.mean()) ** 2).sum()) ** 0.5)

    # What makes a group count: δ moves with the ratings between its own identities.
    for place, group in enumerate("ABCDEF"):
        shifted = y.copy()
        shifted[:, place, place] += 10
        moved = headline_gap(cube_of(shifted), confidence=0.95).delta - headline.delta
        assert (abs(moved) > 0.5) == (group in scope.leave_one_out), group


def test_unrated_groups_leave_the_scope_of_those_that_were_rated():
    y = draw("ABCDEFG", 40)
    y[3, 1, 2] = y[:, 5:] = y[:, :, 5:] = NAN
    scope, rated = scope_of(y, "ABCDEFG"), scope_of(y[:, :5, :5], "ABCDE")
    for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "n_answers"):
        assert getattr(scope.estimate, name) == pytest.approx(getattr(rated.estimate, name), rel=1e-6)
    assert scope.leave_one_out == pytest.approx(rated.leave_one_out, rel=1e-6)
    assert scope.note.endswith("tell nothing of the gap of F, G")
    assert rated.note == ""


def test_the_groups_that_count_are_those_that_may_be_too_few():
    y = draw("ABCDEFGHI", 40)
    y[:, 3:] = y[:, :, 3:] = NAN
    scope = scope_of(y, "ABCDEFGHI")
    assert list(scope.leave_one_out) == list("ABC")
    assert np.isnan([scope.estimate.se, scope.estimate.df, scope.estimate.ci_low, scope.estimate.p]).all()
    assert scope.note == scope.estimate.not_estimable
    assert scope.note == (
        "3 of 9 groups count, too few to speak about others: the ratings tell nothing of the gap of D, E, F and 3 more"
    )


def test_a_group_of_several_terms_counts_while_some_of_its_own_ratings_can_be_compared():
    y = draw("AABBCDE", 40)
    y[:, 0, :2] = y[:, 1, 0] = NAN  # of group A, the second term about itself is left
    assert scope_of(y, "AABBCDE").uncounted == ()
    y[:, 1, 2:] = NAN  # and has no other to be held against
    assert scope_of(y, "AABBCDE").uncounted == ("A",)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_cells_without_a_rating_are_left_out_of_the_adjusted_gap(seed):
    draws = np.random.default_rng(seed)
    means, mask = draws.normal(50, 9, size=(5, 5)), mask_of("AABCD")
    means[tuple(draws.integers(0, 5, size=2))] = NAN
    assert adjusted_gap(means, degree_columns(mask)) == pytest.approx(ordinary_gap(means, mask), abs=1e-9)


def test_cells_that_do_not_tell_in_group_apart_are_not_estimable():
    means = np.where(np.eye(2) == 1, 50.0, NAN)
    with pytest.raises(NotEstimableError, match="do not tell in-group"):
        adjusted_gap(means, degree_columns(np.eye(2, dtype=int)))
