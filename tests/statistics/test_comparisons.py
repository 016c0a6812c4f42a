import dataclasses
from itertools import combinations

import numpy as np
import pytest
from cubes import cube_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from audit.errors import NotEstimableError
from audit.statistics.comparisons import Labelled, compare_estimates, mean_of, over_groups, overall_row, overall_scope
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.headline import headline_gap
from audit.statistics.scopes import group_scope
from audit.tables.gap import COMPARISONS

NAN = float("nan")


def estimate_of(contrasts):
    contrasts = np.array(contrasts, dtype=float)
    return summarise_contrasts(contrasts, rounding=0.0, confidence=0.95, n_answers=25 * contrasts.size)


def ids_of(n):
    return tuple(f"n{i}" for i in range(n))


def labelled(label, contrasts, ids=None, scale=(0, 100)):
    return Labelled(label, estimate_of(contrasts), ids_of(len(contrasts)) if ids is None else ids, scale)


def rows_of(*estimates, confidence=0.95):
    return list(compare_estimates(estimates, dimension="religion", confidence=confidence))


def draws(seed, n=20, columns=3):
    """Contrasts that share most of their variance."""
    rng = np.random.default_rng(seed)
    return 3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, columns)) + np.linspace(0, 1, columns)


def test_a_comparison_is_the_paired_t_test_of_scipy():
    a, b = draws(1, columns=2).T
    (row,) = rows_of(labelled("origin", a), labelled("named", b), confidence=0.9)
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.9)
    assert (row["p"], row["df"]) == pytest.approx((expected.pvalue, 19), rel=1e-9)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert row["delta_change"] / row["se"] == pytest.approx(expected.statistic, rel=1e-9)
    assert (row["delta_first"], row["delta_second"]) == pytest.approx((a.mean(), b.mean()), rel=1e-12)
    assert row["correlation"] == pytest.approx(stats.pearsonr(a, b).statistic, rel=1e-9)
    assert (row["dimension"], row["first"], row["second"]) == ("religion", "origin", "named")
    assert (row["unit"], row["n_narratives"], row["note"]) == ("points", 20, "")
    assert list(row) == list(COMPARISONS)


def test_all_pairs_are_compared_and_corrected_by_holm():
    contrasts = draws(2)
    rows = rows_of(*(labelled(name, each) for name, each in zip("ABC", contrasts.T, strict=True)))
    assert [(row["first"], row["second"]) for row in rows] == [("A", "B"), ("A", "C"), ("B", "C")]
    p = np.array([stats.ttest_rel(a, b).pvalue for a, b in combinations(contrasts.T, 2)])
    # Holm by hand: the smallest p times 3, the next times 2, the largest as it is; none below the one before or over 1.
    expected = np.empty(3)
    expected[np.argsort(p)] = np.minimum(np.maximum.accumulate(np.sort(p) * [3, 2, 1]), 1)
    np.testing.assert_allclose([row["p_adjusted"] for row in rows], expected, rtol=1e-9)
    assert {(row["method"], row["family_size"]) for row in rows} == {("Holm", 3)}


def test_only_narratives_that_both_use_are_compared():
    a, b = [1, 2, NAN, 4, 9], [5, 0, 7, NAN, 1]
    (row,) = rows_of(
        labelled("A", a, ids=("n1", "n2", "n3", "n4", "n5")), labelled("B", b, ids=("n5", "n2", "n1", "n4", "other"))
    )
    # Common: n1 (1 and 7), n2 (2 and 0), n5 (9 and 5): D = −6, 2, 4.
    assert (row["n_narratives"], row["df"]) == (3, 2)
    assert (row["delta_first"], row["delta_second"]) == pytest.approx((4, 4), rel=1e-12)
    assert row["delta_change"] == pytest.approx(0, abs=1e-12)
    assert row["se"] == pytest.approx((np.var([-6, 2, 4], ddof=1) / 3) ** 0.5, rel=1e-12)


@given(seed=st.integers(0, 999), factor=st.floats(0.01, 50))
@settings(max_examples=10, deadline=None)
def test_order_of_narratives_is_nothing_swapping_flips_the_sign_and_points_scale(seed, factor):
    a, b = draws(seed, columns=2).T
    row, _, swapped = rows_of(labelled("A", a), labelled("B", b), labelled("A again", a))
    order = np.random.default_rng(seed).permutation(20)
    ids = tuple(np.array(ids_of(20))[order])
    (shuffled,) = rows_of(labelled("A", factor * a), labelled("B", factor * b[order], ids=ids))
    names = ["delta_first", "delta_second", "delta_change", "se", "ci_low", "ci_high"]
    np.testing.assert_allclose([shuffled[name] for name in names], [factor * row[name] for name in names], rtol=1e-9)
    np.testing.assert_allclose(
        [swapped[name] for name in ["delta_second", "delta_first", "delta_change", "se", "ci_high", "ci_low"]],
        np.array([row[name] for name in names]) * [1, 1, -1, 1, -1, -1],
        rtol=1e-12,
    )
    assert swapped["p"] == pytest.approx(row["p"], rel=1e-12)
    assert shuffled["p"] == pytest.approx(row["p"], rel=1e-6)


def test_gaps_on_different_scales_are_compared_in_percent_of_the_scale():
    a, b = draws(3, columns=2).T
    first, second, same = labelled("A", a), labelled("B", b * 9 / 100, scale=(1, 10)), labelled("C", a + b)
    in_points = rows_of(first, labelled("B", b))[0]
    row, within, _ = rows_of(first, second, same)
    assert (row["unit"], within["unit"]) == ("% of the scale", "points")
    for name in ("delta_first", "delta_second", "delta_change", "se", "p", "correlation"):
        assert row[name] == pytest.approx(in_points[name], rel=1e-9)


@pytest.mark.parametrize(
    ("second", "n_common", "there"),
    [([NAN, NAN, 3.0], 1, "there is one"), ([NAN, NAN, NAN], 0, "there is none")],
)
def test_fewer_than_two_common_narratives_are_no_comparison(second, n_common, there):
    estimate = dataclasses.replace(estimate_of([1.0, 2.0]), by_narrative=np.array(second), noise=np.full(3, NAN))
    few = Labelled("B", estimate, ids_of(3), (0, 100))
    rows = rows_of(labelled("A", [1.0, 2.0, 4.0]), few, labelled("C", [2.0, 1.0, 5.0]))
    assert rows[0]["note"] == f"a difference needs two narratives that both have, and {there}"
    assert rows[0]["n_narratives"] == n_common
    numbers = [value for value in rows[0].values() if isinstance(value, float)]
    assert len(numbers) == 10
    assert np.isnan(numbers).all()
    assert [row["family_size"] for row in rows] == [1, 1, 1]
    assert rows[1]["p_adjusted"] == rows[1]["p"]


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_differences_without_spread_have_no_interval(shift):
    a = draws(4, columns=1)[:, 0]
    (row,) = rows_of(labelled("A", a + shift), labelled("B", a))
    assert row["delta_change"] == pytest.approx(shift, abs=1e-12)
    assert np.isnan([row[name] for name in ("se", "ci_low", "ci_high", "p", "p_adjusted")]).all()
    assert row["note"] == "the difference is the same in all 20 narratives, so its spread is 0"
    assert row["family_size"] == 0


@pytest.mark.parametrize("contrasts", [([1.0, 1.0, 1.0], [1.0, 2.0, 4.0]), ([1.0, 3.0], [1.0, 2.0])])
def test_correlation_needs_spread_and_three_narratives(contrasts):
    (row,) = rows_of(*(labelled(name, each) for name, each in zip("AB", contrasts, strict=True)))
    assert np.isnan(row["correlation"])
    assert row["se"] > 0


def test_one_estimate_has_nothing_to_be_compared_with():
    assert rows_of(labelled("A", [1.0, 2.0])) == rows_of() == []


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        ([labelled("A", [1.0, 2.0])] * 2, "dimension 'religion' have the label 'A': rename one"),
        ([labelled("A", [1.0, 2.0], scale=(5, 5))], r"the scale of 'A' is \(5, 5\)"),
        ([labelled("A", [1.0, 2.0], ids=("n1", "n1"))], "'A' has 2 narratives, 1 of them different, and 2 contrasts"),
        ([labelled("A", [1.0, 2.0], ids=("n1",))], "'A' has 1 narratives, 1 of them different, and 2 contrasts"),
    ],
)
def test_estimates_that_can_not_be_told_apart_are_refused(estimates, message):
    with pytest.raises(ValueError, match=message):
        rows_of(*estimates)


def test_overall_is_the_t_test_of_the_mean_contrast():
    contrasts = draws(5)
    names = ("religion", "nationality", "race_ethnicity")
    estimates = {name: estimate_of(each) for name, each in zip(names, contrasts.T, strict=True)}
    overall = overall_row(estimates, dict.fromkeys(names, ids_of(20)), confidence=0.95)
    expected = stats.ttest_1samp(contrasts.mean(axis=1), 0)
    assert overall.delta == pytest.approx(np.mean([each.delta for each in estimates.values()]), rel=1e-12)
    assert (overall.p, overall.df) == pytest.approx((expected.pvalue, 19), rel=1e-9)
    assert (overall.ci_low, overall.ci_high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)
    assert overall.n_answers == 3 * 500


def test_overall_uses_the_narratives_that_all_dimensions_use():
    estimates = {"religion": estimate_of([1, 2, 6, NAN]), "nationality": estimate_of([5, 4, 2, 9])}
    ids = {"religion": ("n1", "n2", "n3", "n4"), "nationality": ("n4", "n3", "n1", "n5")}
    overall = overall_row(estimates, ids, confidence=0.95)
    # n1: (1 + 2)/2 = 1.5, n3: (6 + 4)/2 = 5; of n1 to n5 no other is used by both.
    np.testing.assert_array_equal(overall.by_narrative, [1.5, NAN, 5, NAN, NAN])
    assert (overall.delta, overall.n_narratives, overall.n_narratives_asked) == (3.25, 2, 5)


def test_overall_without_spread_has_no_interval():
    a = draws(6, columns=1)[:, 0]
    estimates = {"religion": estimate_of(a), "nationality": estimate_of(0.3 - a)}
    overall = overall_row(estimates, dict.fromkeys(estimates, ids_of(20)), confidence=0.95)
    assert overall.delta == pytest.approx(0.15, rel=1e-12)
    assert np.isnan(overall.se)
    assert "spread is 0" in overall.not_estimable


def test_overall_without_common_narratives_or_dimensions_is_refused():
    estimates = {"religion": estimate_of([1, 2]), "nationality": estimate_of([1, 2])}
    with pytest.raises(NotEstimableError, match="used by all of the dimensions religion, nationality"):
        overall_row(estimates, {"religion": ids_of(2), "nationality": ("x", "y")}, confidence=0.95)
    with pytest.raises(ValueError, match="there is no dimension"):
        overall_row({}, {}, confidence=0.95)


def wider_of(**dimensions):
    """Rows of the second scope: standard error and degrees of freedom, or the reason for none."""
    rows = {}
    for name, each in dimensions.items():
        se, freedom, note = (NAN, NAN, each) if isinstance(each, str) else (*each, "")
        rows[name] = {"se": se, "df": freedom, "note": note}
    return rows


def overall_in_both_scopes(contrasts, wider):
    estimates = {name: estimate_of(each) for name, each in zip(wider, contrasts, strict=True)}
    ids = dict.fromkeys(wider, ids_of(len(contrasts[0])))
    narrow = overall_row(estimates, ids, confidence=0.95)
    return narrow, overall_scope(narrow, wider, estimates, ids, confidence=0.95)


def test_over_dimensions_identities_are_independent_and_narratives_are_shared():
    a = draws(8, columns=1)[:, 0]
    b = a + draws(9, columns=1)[:, 0]
    narrow, scope = overall_in_both_scopes([a, b], wider_of(religion=(2.0, 4), nationality=(3.0, 20)))
    assert np.cov(a, b)[0, 1] > 0
    variance = (2**2 + 3**2) / 4 + 2 * np.cov(a, b)[0, 1] / (4 * 20)
    assert scope.se == pytest.approx(variance**0.5, rel=1e-12)
    assert (scope.delta, scope.df) == (narrow.delta, 4)
    t = stats.t(4, narrow.delta, scope.se)
    assert (scope.ci_low, scope.ci_high) == pytest.approx(t.interval(0.95))
    assert scope.p == pytest.approx(2 * stats.t(4).sf(abs(narrow.delta) / scope.se))
    assert (scope.n_narratives, scope.not_estimable) == (20, "")


def test_over_dimensions_no_chance_narrows_the_wider_scope():
    a = draws(8, columns=1)[:, 0]
    opposed, tiny = wider_of(religion=(2.0, 4), nationality=(3.0, 4)), wider_of(religion=(1e-3, 4), nationality=(0, 4))
    # Opposed gaps of narratives would subtract; without groups' spread the narratives' own is left.
    assert overall_in_both_scopes([a, 1 - 2 * a], opposed)[1].se == pytest.approx(13**0.5 / 2)
    narrow, scope = overall_in_both_scopes([a, draws(9, columns=1)[:, 0]], tiny)
    assert scope.se >= narrow.se
    # One dimension is its own mean.
    assert overall_in_both_scopes([a], wider_of(religion=(2.0, 4)))[1].se == pytest.approx(2)


def test_over_dimensions_nothing_is_claimed_where_one_claims_nothing():
    wider = wider_of(religion=(2.0, 4), nationality="4 groups are too few", race="different groups")
    _, scope = overall_in_both_scopes(draws(5).T, wider)
    assert np.isnan([scope.se, scope.df, scope.ci_low, scope.ci_high, scope.p]).all()
    assert scope.not_estimable == "nationality: 4 groups are too few; race: different groups"
    a = draws(6, columns=1)[:, 0]
    _, scope = overall_in_both_scopes([a, 0.3 - a], wider_of(religion=(2.0, 4), nationality=(2.0, 4)))
    assert np.isnan(scope.se)
    assert "spread is 0" in scope.not_estimable


def random_effects(gaps, noise):
    """δ, its standard error and df of gaps of unequal noise: dense REML density, then Knapp–Hartung by its formula."""

    def criterion(variance):
        v = np.diag(variance + noise)
        ones = np.ones((len(gaps), 1))
        bread = ones.T @ np.linalg.inv(v) @ ones
        rest = gaps - (ones.T @ np.linalg.inv(v) @ gaps / bread)[0]
        return np.linalg.slogdet(v)[1] + np.log(bread[0, 0]) + rest @ np.linalg.inv(v) @ rest

    found = optimize.minimize_scalar(criterion, bounds=(0, 100), method="bounded", options={"xatol": 1e-10})
    w = 1 / (found.x + noise)
    delta = w @ gaps / w.sum()
    return delta, (w @ (gaps - delta) ** 2 / ((len(gaps) - 1) * w.sum())) ** 0.5


def noisy(label, gaps, noise, scale=(0, 100)):
    estimate = summarise_contrasts(gaps, noise=noise, rounding=0.0, confidence=0.95, n_answers=0)
    return Labelled(label, estimate, ids_of(len(gaps)), scale)


def test_differences_of_incomplete_narratives_count_for_what_their_noise_leaves():
    rng = np.random.default_rng(11)
    noise = rng.uniform(0.5, 9, size=(2, 15))
    a, b = rng.normal(1, 2, size=(2, 15)) + rng.normal(size=(2, 15)) * noise**0.5
    (row,) = rows_of(noisy("A", a, noise[0]), noisy("B", b, noise[1]))
    delta, se = random_effects(a - b, noise.sum(axis=0))
    assert (row["delta_change"], row["se"], row["df"]) == pytest.approx((delta, se, 14), rel=1e-5)
    assert row["delta_first"] - row["delta_second"] == pytest.approx(row["delta_change"], rel=1e-12)
    # The same gaps on a scale of 1 to 10: noise shrinks with the square of the points.
    (shares,) = rows_of(noisy("A", a, noise[0]), noisy("B", b * 9 / 100, noise[1] * 0.09**2, scale=(1, 10)))
    for name in ("delta_first", "delta_second", "delta_change", "se", "p"):
        assert shares[name] == pytest.approx(row[name], rel=1e-9)


def test_over_dimensions_an_average_has_the_mean_noise_over_their_number():
    rng = np.random.default_rng(12)
    noise = rng.uniform(0.5, 20, size=(3, 12))
    gaps = rng.normal(1, 1, 12) + rng.normal(size=(3, 12)) * noise**0.5
    estimates = {name: noisy("A", own, v).estimate for name, own, v in zip("abc", gaps, noise, strict=True)}
    overall = overall_row(estimates, dict.fromkeys("abc", ids_of(12)), confidence=0.95)
    np.testing.assert_allclose(overall.noise, noise.sum(axis=0) / 9)
    assert (overall.delta, overall.se) == pytest.approx(
        random_effects(gaps.mean(axis=0), noise.sum(axis=0) / 9), rel=1e-5
    )


def of_cube(label, y, *, scale=(0, 100), groups=None):
    """What a run keeps of its gap: the headline, and δ without each group where groups are a sample."""
    cube = cube_of(y, groups=groups)
    narrow = headline_gap(cube, confidence=0.95)
    scope = group_scope(cube, narrow, confidence=0.95)
    return Labelled(label, narrow, cube.narrative_ids, scale, () if scope.no_claim else (scope.leave_one_out,))


def two_models(seed, *, gap=0.0, n=50, groups=6):
    """Ratings of two models that each like single pairs of words (SD 1); the first has a gap between groups."""
    rng = np.random.default_rng(seed)
    liking = rng.normal(size=(2, 1, groups, groups))
    both = 50 + liking + rng.normal(size=(2, n, groups, groups))
    both[0] += gap * np.eye(groups)
    return both


@pytest.mark.parametrize(("gap", "least", "most"), [(0.0, 0, 4), (3.0, 38, 40)])
def test_a_liking_for_single_pairs_of_words_is_no_change_of_a_gap_between_groups(gap, least, most):
    rows = [rows_of(*map(of_cube, "AB", two_models(seed, gap=gap)))[0] for seed in range(40)]
    assert {row["scope"] for row in rows} == {"groups"}
    assert least <= sum(row["p"] < 0.05 for row in rows) <= most
    # What narratives alone say, which took every pair of words for fixed.
    alone = [
        rows_of(*(dataclasses.replace(of_cube(*each), without=()) for each in zip("AB", two_models(seed), strict=True)))
        for seed in range(40)
    ]
    assert {row["scope"] for (row,) in alone} == {"pairs"}
    assert sum(row["p"] < 0.05 for (row,) in alone) > 15


def test_what_two_runs_share_of_a_group_cancels_in_their_difference():
    rng = np.random.default_rng(4)
    y = 50 + np.diag([0, 2, 4, 6, 8, 10]) + rng.normal(size=(30, 6, 6))
    same = y + rng.normal(size=y.shape)
    (row,) = rows_of(of_cube("A", y), of_cube("B", same))
    each = group_scope(cube_of(y), headline_gap(cube_of(y), confidence=0.95), confidence=0.95).estimate
    assert row["scope"] == "groups"
    assert row["se"] < each.se / 3


def test_groups_that_differ_between_runs_are_samples_of_their_own():
    first, second = two_models(1)
    others = tuple(f"other {k}" for k in range(6))
    (same,) = rows_of(of_cube("A", first), of_cube("B", second))
    (apart,) = rows_of(of_cube("A", first), of_cube("B", second, groups=others))
    samples = [each.without[0] for each in (of_cube("A", first), of_cube("B", second))]
    jackknife = [5 / 6 * np.sum((np.array(list(s.values())) - np.mean(list(s.values()))) ** 2) for s in samples]
    assert (same["scope"], apart["scope"]) == ("groups", "groups")
    assert apart["delta_change"] == same["delta_change"]
    assert apart["se"] ** 2 >= sum(jackknife)


def test_a_difference_of_few_groups_or_of_one_run_of_few_speaks_of_pairs_alone():
    first, second = two_models(2, groups=4)
    (row,) = rows_of(of_cube("A", first), of_cube("B", second))
    assert row["scope"] == "pairs"
    many, _ = two_models(2)
    (row,) = rows_of(of_cube("A", many), of_cube("B", second))
    assert row["scope"] == "pairs"


def test_a_difference_in_percent_of_the_scale_has_the_groups_spread_in_percent():
    first, second = two_models(3)
    (points,) = rows_of(of_cube("A", first), of_cube("B", second))
    (percent,) = rows_of(of_cube("A", first), of_cube("B", second / 10, scale=(0, 10)))
    assert percent["unit"] == "% of the scale"
    assert [percent[name] for name in ("delta_change", "se", "df", "p")] == pytest.approx(
        [points[name] for name in ("delta_change", "se", "df", "p")], rel=1e-6
    )


def test_the_mean_over_dimensions_has_the_spread_of_the_groups_of_each():
    made = [
        {name: of_cube("A", two_models(seed)[k]) for name, seed in (("religion", 5), ("nationality", 6))}
        for k in (0, 1)
    ]
    first, second = (
        dataclasses.replace(mean_of(parts, confidence=0.95), label=label)
        for label, parts in zip("AB", made, strict=True)
    )
    assert [len(each.without) for each in (first, second)] == [2, 2]
    (row,) = rows_of(first, second)
    changes = [
        {group: (a - b) / 2 for (group, a), b in zip(one.without[0].items(), two.without[0].values(), strict=True)}
        for one, two in zip(made[0].values(), made[1].values(), strict=True)
    ]
    jackknife = sum(5 / 6 * np.sum((np.array(list(c.values())) - np.mean(list(c.values()))) ** 2) for c in changes)
    assert row["scope"] == "groups"
    assert row["se"] ** 2 >= jackknife


def test_runs_that_asked_about_the_same_dimensions_in_another_order_share_their_groups():
    names = ("religion", "nationality")
    made = []
    for k, order in ((0, names), (1, names), (1, names[::-1])):
        parts = {}
        for name in order:
            each = of_cube("A", two_models(5 + names.index(name))[k])
            parts[name] = dataclasses.replace(
                each, without=({f"{name} {group}": delta for group, delta in each.without[0].items()},)
            )
        made.append(dataclasses.replace(mean_of(parts, confidence=0.95), label=f"run {len(made)}"))
    first, same, swapped = made
    [row], [other] = rows_of(first, same), rows_of(first, swapped)
    numbers = ("delta_change", "se", "df", "ci_low", "ci_high", "p")
    assert [row[name] for name in numbers] == pytest.approx([other[name] for name in numbers], rel=1e-9)
    assert (row["scope"], other["scope"]) == ("groups", "groups")


def test_where_a_group_does_not_count_in_one_of_two_gaps_neither_difference_nor_sum_is_narrower():
    rng = np.random.default_rng(8)
    own = np.diag(rng.normal(0, 3, 6))
    first, second = (of_cube(name, 50 + own + rng.normal(size=(40, 6, 6))) for name in "AB")
    [left, *rest] = second.without[0]
    fewer = dataclasses.replace(second, without=({group: second.without[0][group] for group in rest},))
    common = first.estimate.by_narrative + second.estimate.by_narrative
    total = summarise_contrasts(common, rounding=0.0, confidence=0.95, n_answers=0)
    whole, lacking = (over_groups(total, first, each, sign=1.0, confidence=0.95) for each in (second, fewer))
    # What the sum varies by over groups: twice what one gap does, for both have the same groups' gaps.
    assert (
        whole.se
        > 0.9
        * 2
        * group_scope(cube_of(50 + own + rng.normal(size=(40, 6, 6))), first.estimate, confidence=0.95).estimate.se
    )
    assert lacking.se > 0.8 * whole.se
    assert lacking.df <= whole.df
    assert left not in fewer.without[0]


def test_a_difference_without_an_interval_speaks_of_nothing():
    first, _ = two_models(3)
    (row,) = rows_of(of_cube("A", first), of_cube("B", first - 0.3 * np.eye(6)))
    assert (row["scope"], row["note"][:40]) == ("", "the difference is the same in all 50 nar")
