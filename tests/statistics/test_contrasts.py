import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from complete_gaps import degree_gaps, gap_by_narrative
from cubes import contrast_weights, cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import (
    complete_narratives,
    sign_flip_p,
)

NAN = np.nan
CROSSED = [(race, religion) for race in ("Black", "White") for religion in ("Muslim", "Christian")]


def degrees_of(groups):
    return np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in groups] for p in groups])


def gap_of(y, n_shared, seed=0, **options):
    return gap_by_narrative(cube_of(y, n_shared), rng=np.random.default_rng(seed), **options)


def design_of(n_shared):
    """Columns: one indicator a degree, an intercept, and all but the first perceiver and experiencer."""
    n_p, n_e = n_shared.shape
    p, e = (axis.ravel() for axis in np.indices(n_shared.shape))
    degrees = [n_shared.ravel() == degree for degree in range(1, n_shared.max() + 1)]
    terms = [p == i for i in range(1, n_p)] + [e == i for i in range(1, n_e)]
    return np.column_stack([*degrees, np.ones(p.size), *terms]).astype(float)


def test_weights_of_a_two_by_two_matrix_worked_by_hand():
    # G = [[1, 0], [0, 1]]: all row, column and grand means are 1/2, so G̃ = ±1/2, ΣG̃² = 1 and w = ±1/2.
    np.testing.assert_allclose(contrast_weights([[1, 0], [0, 1]]), [[[0.5, -0.5], [-0.5, 0.5]]], atol=1e-15)


def test_one_dimension_has_the_weights_of_the_double_centred_mask():
    mask = mask_of(list("AAAAABBBBCCCDDDDDD"))  # the published 5, 4, 3 and 6 terms
    centred = mask - mask.mean(axis=1, keepdims=True) - mask.mean(axis=0) + mask.mean()
    np.testing.assert_allclose(contrast_weights(mask)[0], centred / (centred**2).sum(), rtol=0, atol=1e-16)


@pytest.mark.parametrize(
    "n_shared",
    [
        mask_of(list("ABCDE")),
        mask_of(list("AABBBC")),
        mask_of(list("AAB"), list("ABBCC")),
        degrees_of(CROSSED),
        degrees_of([*CROSSED, ("Asian", "Jew"), ("Black", "Jew")]),
    ],
    ids=["one-term groups", "unequal groups", "non-square", "crossed", "crossed, unequal"],
)
def test_contrast_equals_ordinary_least_squares_within_a_narrative(n_shared):
    y = np.random.default_rng(1).normal(50, 20, size=n_shared.shape)
    fitted = sm.OLS(y.ravel(), design_of(n_shared)).fit().params
    ours = (contrast_weights(n_shared) * y).sum(axis=(1, 2))
    np.testing.assert_allclose(ours, fitted[: n_shared.max()], rtol=0, atol=1e-10)


def test_gap_equals_the_fixed_effect_of_statsmodels_mixed_model_on_complete_data():
    """Random intercept and in-group slope by narrative; statsmodels stops within 1e-7 of its optimum here."""
    n_shared = mask_of(list("ABCD"))
    rng = np.random.default_rng(7)
    n, k = 60, 4
    y = (
        50
        + rng.normal(0, 8, size=(n, 1, 1))
        + rng.normal(0, 4, size=(1, k, 1))
        + rng.normal(0, 4, size=(1, 1, k))
        + rng.normal(2, 4, size=(n, 1, 1)) * n_shared
        + rng.normal(0, 3, size=(n, k, k))
    )
    design = np.tile(design_of(n_shared), (n, 1))
    model = sm.MixedLM(y.ravel(), design, groups=np.repeat(np.arange(n), k * k), exog_re=design[:, [1, 0]])
    fit = model.fit(reml=True)
    ours = gap_of(y, n_shared)
    assert fit.converged
    assert ours.delta == pytest.approx(fit.fe_params[0], abs=1e-7)
    assert ours.se == pytest.approx(fit.bse_fe[0], rel=1e-3)


def test_interval_and_d_z_against_scipy_one_sample_t():
    n_shared = mask_of(list("AABBC"))
    y = np.random.default_rng(2).normal(50, 20, size=(30, 5, 5))
    contrasts = np.tensordot(y, contrast_weights(n_shared)[0], axes=2)
    oracle = stats.ttest_1samp(contrasts, 0)
    ours = gap_of(y, n_shared)
    assert ours.df == oracle.df == 29
    assert ours.delta / ours.se == pytest.approx(oracle.statistic, rel=1e-12)
    interval = oracle.confidence_interval(0.95)
    assert (ours.ci_low, ours.ci_high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert ours.d_z == pytest.approx(contrasts.mean() / contrasts.std(ddof=1), rel=1e-12)
    narrow = oracle.confidence_interval(0.9)
    assert gap_of(y, n_shared, confidence=0.9).ci_high == pytest.approx(narrow.high, rel=1e-12)
    assert (ours.n_narratives, ours.n_narratives_asked, ours.n_answers) == (30, 30, 750)


@pytest.mark.parametrize("n", [2, 5, 8, 9, 12])
def test_sign_flips_are_all_taken_when_few_as_in_scipy(n):
    contrasts = np.random.default_rng(n).normal(0.5, 1, size=n)
    oracle = stats.permutation_test((contrasts,), np.mean, permutation_type="samples", n_resamples=np.inf)
    untouched = np.random.default_rng(0)
    assert sign_flip_p(contrasts, rng=untouched, n_permutations=2**n) == pytest.approx(oracle.pvalue, abs=1e-15)
    assert untouched.random() == np.random.default_rng(0).random()


def test_drawn_sign_flips_come_near_all_of_them():
    # 15 contrasts: 32,768 flips. Drawing 20,000 leaves a standard error of √(p(1 − p)/B) < .0036.
    contrasts = np.random.default_rng(5).normal(0.3, 1, size=15)
    exact = sign_flip_p(contrasts, rng=np.random.default_rng(0), n_permutations=2**15)
    drawn = sign_flip_p(contrasts, rng=np.random.default_rng(0), n_permutations=20_000)
    assert drawn == pytest.approx(exact, abs=4 * 0.0036)
    assert drawn != exact


def test_drawn_sign_flips_equal_a_plain_loop_with_the_same_draws():
    contrasts = np.sort(np.random.default_rng(3).normal(0.4, 1, size=19))
    draws = np.random.default_rng(11)
    bytes_of = [draws.integers(0, 256, size=200, dtype=np.uint8) for _ in range(3)]  # 8 + 8 + 3 narratives
    count = 0
    for flip in range(200):
        total = sum(d * (-1 if bytes_of[i // 8][flip] >> (i % 8) & 1 else 1) for i, d in enumerate(contrasts))
        count += abs(total) >= abs(sum(contrasts)) - 1e-12
    ours = sign_flip_p(contrasts[::-1], rng=np.random.default_rng(11), n_permutations=200)
    assert ours == (count + 1) / 201


def test_sign_flip_p_is_never_zero_and_is_one_for_no_gap():
    assert sign_flip_p(np.full(50, 3.0), rng=np.random.default_rng(0), n_permutations=99) == 1 / 100
    assert sign_flip_p(np.zeros(50), rng=np.random.default_rng(0), n_permutations=99) == 1
    # +1 and −1 sum to 0, which every flip reaches
    assert sign_flip_p(np.array([1.0, -1.0]), rng=np.random.default_rng(0), n_permutations=99) == 1


def test_same_seed_same_estimate():
    y = np.random.default_rng(2).normal(50, 20, size=(30, 3, 3))
    assert gap_of(y, np.eye(3, dtype=int), seed=4) == gap_of(y, np.eye(3, dtype=int), seed=4)


groupings = st.lists(st.integers(0, 3), min_size=2, max_size=7)


@st.composite
def complete_data(draw):
    """A mask with unequal groups, not always square, and the ratings of two to six narratives."""
    perceivers, experiencers = draw(groupings), draw(groupings)
    mask = mask_of(perceivers, experiencers)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return mask, rng.uniform(0, 100, size=(draw(st.integers(2, 6)), *mask.shape))


def estimable(mask):
    centred = mask - mask.mean(axis=1, keepdims=True) - mask.mean(axis=0) + mask.mean()
    return np.abs(centred).max() > 1e-9


@given(complete_data(), st.randoms(use_true_random=False))
def test_gap_does_not_depend_on_the_order_of_identities_and_narratives(drawn, random):
    mask, y = drawn
    if not estimable(mask):
        return
    orders = [random.sample(range(size), size) for size in y.shape]
    first, second = gap_of(y, mask), gap_of(y[np.ix_(*orders)], mask[np.ix_(*orders[1:])])
    np.testing.assert_allclose(dataclasses.astuple(first)[:10], dataclasses.astuple(second)[:10], rtol=1e-9, atol=1e-9)


@given(complete_data(), st.floats(-1000, 1000), st.floats(0.01, 100))
def test_shift_leaves_the_gap_and_scale_scales_it(drawn, shift, scale):
    mask, y = drawn
    if not estimable(mask):
        return
    first, second = gap_of(y, mask), gap_of(y * scale + shift, mask)
    assert second.delta == pytest.approx(first.delta * scale, rel=1e-8, abs=1e-9)
    assert second.se == pytest.approx(first.se * scale, rel=1e-6, abs=1e-9)


@given(complete_data())
def test_swapping_in_and_out_of_group_flips_the_sign(drawn):
    mask, y = drawn
    if not estimable(mask):
        return
    assert gap_of(y, 1 - mask).delta == pytest.approx(-gap_of(y, mask).delta, abs=1e-9)


@given(complete_data())
def test_main_effects_alone_make_no_gap(drawn):
    """With unequal numbers of terms in the groups too, and with effects that differ between narratives."""
    mask, y = drawn
    if not estimable(mask):
        return
    effects = y[:, :, :1] + y[:, :1, :]
    ours = gap_of(effects, mask)
    assert ours.delta == pytest.approx(0, abs=1e-11)
    assert (ours.p_sign_flip, np.isnan(ours.p)) == (1, True)
    assert "spread is 0" in ours.not_estimable


@given(complete_data(), st.floats(-20, 20))
def test_planted_gap_is_recovered_under_main_effects(drawn, planted):
    mask, y = drawn
    if not estimable(mask):
        return
    effects = y[:, :, :1] + y[:, :1, :] + planted * mask
    assert gap_of(effects, mask).delta == pytest.approx(planted, abs=1e-9)


@given(complete_data())
@settings(max_examples=50)
def test_every_mask_gives_an_estimate_or_a_reason(drawn):
    mask, y = drawn
    if estimable(mask):
        assert np.isfinite(gap_of(y, mask).delta)
    else:
        with pytest.raises(NotEstimableError):
            gap_of(y, mask)


def test_degrees_recover_what_was_planted():
    n_shared = degrees_of([*CROSSED, ("Asian", "Jew")])
    rng = np.random.default_rng(3)
    y = rng.normal(50, 9, size=(5, 5, 1)) + rng.normal(0, 9, size=(5, 1, 5))
    y = y + np.array([0.0, 1.25, 4.0])[n_shared]
    gaps = degree_gaps(cube_of(y, n_shared), rng=rng)
    assert {degree: gap.delta for degree, gap in gaps.items()} == pytest.approx({2: 4.0, 1: 1.25}, abs=1e-10)
    assert gap_of(y, n_shared).delta == pytest.approx(4.0, abs=1e-10)


def test_additive_gaps_of_two_dimensions_average_at_one_and_add_up_at_two():
    # Sharing race is worth 3, religion 5. Half of the pairs that share one dimension share race: (3 + 5) / 2 = 4.
    share_race, share_religion = (mask_of([identity[i] for identity in CROSSED]) for i in (0, 1))
    y = 50 + 3.0 * share_race + 5.0 * share_religion
    gaps = degree_gaps(cube_of([y, y], degrees_of(CROSSED)), rng=np.random.default_rng(0))
    assert gaps[1].delta == pytest.approx(4, abs=1e-12)
    assert gaps[2].delta == pytest.approx(8, abs=1e-12)


def test_headline_draws_the_same_as_the_largest_degree():
    y = np.random.default_rng(3).normal(50, 9, size=(30, 4, 4))
    cube = cube_of(y, degrees_of(CROSSED))
    gaps = degree_gaps(cube, rng=np.random.default_rng(6))
    assert list(gaps) == [2, 1]
    assert gap_by_narrative(cube, rng=np.random.default_rng(6)) == gaps[2]


def test_degree_that_no_pair_has_is_left_out():
    n_shared = degrees_of([("Black", "Muslim"), ("White", "Christian"), ("Asian", "Jew")])
    y = np.random.default_rng(3).normal(50, 9, size=(3, 3, 3))
    assert np.isnan(contrast_weights(n_shared)[0]).all()
    gaps = degree_gaps(cube_of(y, n_shared), rng=np.random.default_rng(0))
    assert list(gaps) == [2]
    assert gaps[2].delta == pytest.approx(gap_of(y, n_shared // 2).delta)


@pytest.mark.parametrize(
    ("n_shared", "message"),
    [
        (np.zeros((3, 3), dtype=int), "nothing is in-group"),
        (np.ones((3, 3), dtype=int), "nothing is out-group"),
        (mask_of(["A"], ["A", "B"]), "at least two perceivers"),
        (mask_of(["A", "B"], ["A"]), "at least two perceivers"),
        (np.array([[1, 1], [0, 0]]), "perceiver and experiencer effects"),
        (degrees_of([("Black", "Muslim"), ("Black", "Christian")]), "no pair shares none"),
    ],
)
def test_mask_that_main_effects_explain_is_not_estimable(n_shared, message):
    with pytest.raises(NotEstimableError, match=message):
        contrast_weights(n_shared)


def test_intersection_in_which_no_pair_shares_all_has_no_headline():
    y = np.random.default_rng(0).normal(size=(4, 2, 2))
    cube = dataclasses.replace(cube_of(y, np.eye(2, dtype=int)), in_group=np.zeros((2, 2), dtype=bool))
    with pytest.raises(NotEstimableError, match="shares every group"):
        gap_by_narrative(cube, rng=np.random.default_rng(0))
    assert list(degree_gaps(cube, rng=np.random.default_rng(0))) == [1]


def test_narrative_with_a_missing_rating_is_left_out_and_counted():
    y = np.random.default_rng(0).normal(50, 9, size=(6, 3, 3))
    holed = y.copy()
    holed[2, 0, 1] = holed[5] = NAN
    assert complete_narratives(cube_of(holed, np.eye(3, dtype=int))).tolist() == [True, True, False, True, True, False]
    ours = gap_of(holed, np.eye(3, dtype=int))
    assert (ours.n_narratives, ours.n_narratives_asked, ours.n_answers) == (4, 6, 36)
    assert ours.delta == pytest.approx(gap_of(y[[0, 1, 3, 4]], np.eye(3, dtype=int)).delta, rel=1e-12)


def test_no_complete_narrative_is_not_estimable():
    y = np.full((2, 2, 2), 50.0)
    y[0, 0, 0] = y[1, 1, 1] = NAN
    with pytest.raises(NotEstimableError, match="none of 2 narratives has a rating in all 2 × 2 pairs"):
        gap_of(y, np.eye(2, dtype=int))


def test_one_narrative_has_a_gap_and_nothing_to_judge_it_by():
    # (60 + 70 − 50 − 40) / 2 = 20
    ours = gap_of([[[60, 50], [40, 70]]], np.eye(2, dtype=int))
    assert ours.delta == pytest.approx(20)
    assert np.isnan([ours.se, ours.df, ours.ci_low, ours.ci_high, ours.p, ours.d_z]).all()
    assert "one narrative" in ours.not_estimable


@pytest.mark.parametrize("value", [0.0, 50.0, 99.9, 1 / 3])
def test_equal_ratings_have_a_gap_of_exactly_zero_and_no_interval(value):
    ours = gap_of(np.full((20, 5, 5), value), np.eye(5, dtype=int))
    assert ours.delta == 0
    assert (ours.p_sign_flip, np.isnan(ours.p)) == (1, True)
    assert np.isnan([ours.se, ours.ci_low, ours.ci_high, ours.d_z]).all()
    assert "all 20 narratives give the same contrast" in ours.not_estimable


def test_baselines_never_enter_the_gap(ratings_of):
    y = np.random.default_rng(0).normal(50, 9, size=(5, 4, 3))
    groups = ["unspecified", "A", "B", "no persona"], ["A", "unspecified", "B"]
    changed = y.copy()
    changed[:, [0, 3]] = 0
    changed[:, :, 1] = NAN
    gaps = [
        gap_by_narrative(
            NarrativeCube.from_ratings(ratings_of(v, *groups), dimension="religion", variant="origin", baselines=keep),
            rng=np.random.default_rng(0),
        )
        for v in (y, changed)
        for keep in (False, True)
    ]
    assert gaps[0] == gaps[1] == gaps[2] == gaps[3]
    assert gaps[0].delta == pytest.approx(gap_of(y[:, 1:3][:, :, [0, 2]], np.eye(2, dtype=int)).delta)


def test_baselines_alone_are_not_estimable(ratings_of):
    ratings = ratings_of(np.ones((2, 1, 1)), ["unspecified"])
    cube = NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin")
    with pytest.raises(NotEstimableError, match="baselines only"):
        gap_by_narrative(cube, rng=np.random.default_rng(0))


@pytest.mark.parametrize(("option", "value"), [("confidence", 95), ("confidence", 0), ("n_permutations", 0)])
def test_impossible_options_are_errors(option, value):
    with pytest.raises(ValueError, match=f"{option} is {value}"):
        gap_of(np.ones((3, 2, 2)), np.eye(2, dtype=int), **{option: value})


def test_rows_in_another_order_give_the_same_gap(ratings_of):
    ratings = ratings_of(np.random.default_rng(0).integers(0, 101, size=(20, 3, 3)), ["A", "B", "B"])
    gaps = [
        gap_by_narrative(
            NarrativeCube.from_ratings(table, dimension="religion", variant="origin"), rng=np.random.default_rng(1)
        )
        for table in (ratings, ratings.sample(frac=1, random_state=1), ratings.iloc[::-1])
    ]
    assert all(isinstance(gap.p, float) and pd.notna(gap.p) for gap in gaps)
    np.testing.assert_allclose(*[dataclasses.astuple(gap)[:10] for gap in gaps[:2]], rtol=1e-12)
    np.testing.assert_allclose(*[dataclasses.astuple(gap)[:10] for gap in gaps[1:]], rtol=1e-12)
