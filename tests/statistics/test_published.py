import importlib.util
import itertools
import json
import math
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from cubes import cube_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics import published
from audit.statistics.cells import NarrativeCube
from audit.statistics.published import (
    draw_orders,
    exact_null,
    permutation_null,
    published_cells,
    published_gap,
    published_mask,
    released_matrix,
    rounded_means,
    shuffled_gaps,
    standardise_cells,
)

_SPEC = importlib.util.spec_from_file_location("released", Path(__file__).parents[1] / "reference" / "released.py")
released = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(released)

NAN = np.nan
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "published.json").read_text(encoding="utf-8"))


def gap_of(ratings, seed=0, n_permutations=200):
    cube = NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", baselines=True)
    return published_gap(cube, rng=np.random.default_rng(seed), n_permutations=n_permutations)


def released_gap(z, in_group):
    """Mean of in-group cells less mean of the others, cell by cell."""
    inside, outside = [], []
    for row, members in zip(z, in_group, strict=True):
        for cell, member in zip(row, members, strict=True):
            (inside if member else outside).append(cell)
    return sum(inside) / len(inside) - sum(outside) / len(outside)


def released_null(means, in_group, row_orders, column_orders):
    """Standardise and shuffle rows and columns one draw at a time, in plain Python; return δ_z and its percentiles."""
    cells = [cell for row in means for cell in row]
    mean = sum(cells) / len(cells)
    sd = math.sqrt(sum((cell - mean) ** 2 for cell in cells) / len(cells))
    z = [[(cell - mean) / sd for cell in row] for row in means]
    null = []
    for rows, columns in zip(row_orders, column_orders, strict=True):
        null.append(released_gap([[z[row][column] for column in columns] for row in rows], in_group))
    null.sort()

    def percentile(q):
        place = (len(null) - 1) * q / 100
        below = math.floor(place)
        above = min(below + 1, len(null) - 1)
        return null[below] + (null[above] - null[below]) * (place - below)

    return released_gap(z, in_group), percentile(2.5), percentile(97.5)


def test_two_by_two_worked_by_hand(ratings_of):
    # Mean 55, deviations 5, −5, −15, 15; squares 25 + 25 + 225 + 225 = 500, over 4 cells 125, SD √125.
    # In-group (5 + 15) / 2 = 10, out-group (−5 − 15) / 2 = −10: δ_z = 20 / √125 = 1.788854.
    gap = gap_of(ratings_of([[[60, 50], [40, 70]]], ["A", "B"]))
    assert gap.delta_z == pytest.approx(1.788854, abs=1e-6)
    assert (gap.n_narratives, gap.n_narratives_asked, gap.n_answers) == (1, 1, 4)


def test_three_by_three_with_two_terms_in_a_group_worked_by_hand(ratings_of):
    # In-group 60, 50, 50, 60, 70: mean 58; out-group four of 40. Mean (290 + 160) / 9 = 50.
    # Squared deviations by row: 100 + 0 + 100, 0 + 100 + 100, 100 + 100 + 400; 1000 together, SD √(1000/9).
    # δ_z = (58 − 40) / 10.540926 = 1.707630.
    gap = gap_of(ratings_of([[[60, 50, 40], [50, 60, 40], [40, 40, 70]]], ["A", "A", "B"]))
    assert gap.delta_z == pytest.approx(1.707630, abs=1e-6)


def test_means_are_rounded_to_two_decimals_by_pythons_rule(ratings_of):
    # Python rounds 1.115 down (it is held as 1.11499999...), numpy up (100 times it is 111.50000000000001); 1.004 is 1.
    # M = [[1.11, 1], [1, 1.05]]: mean 1.04, squared deviations .0049 + 2 · .0016 + .0001 = .0082, SD √.00205 =
    # .0452769; δ_z = (1.08 − 1) / .0452769 = 1.766904. By numpy's rule it would be 1.728318.
    assert (round(1.115, 2), np.round(1.115, 2)) == (1.11, 1.12)
    gap = gap_of(ratings_of([[[1.115, 1.004], [1, 1.05]]], ["A", "B"]))
    assert gap.delta_z == pytest.approx(1.766904, abs=1e-6)


def test_a_mean_of_whole_numbers_on_half_a_hundredth_goes_by_the_number_that_is_held():
    # 229 / 200 is 1.145, held as 1.1450000000000000178; 203 / 200 is 1.015, held as 1.0149999999999999023.
    y = np.ones((200, 1, 3))
    y[:29, 0, 0], y[:3, 0, 1], y[:14, 0, 2] = 2, 2, 2
    assert rounded_means(y).tolist() == [[1.15, 1.01, 1.07]]
    assert np.round(y.mean(axis=0), 2).tolist() != [[1.15, 1.01, 1.07]]


def test_a_mean_of_expected_ratings_does_not_depend_on_the_order_of_the_narratives():
    y = np.random.default_rng(0).uniform(0, 100, size=(400, 3, 3))
    y[:, 0, 0] = np.tile([0.1, 0.7, 0.205, 1.0], 100)
    found = rounded_means(y)
    for seed in range(5):
        assert np.array_equal(rounded_means(np.random.default_rng(seed).permutation(y)), found)
    np.testing.assert_allclose(found, y.mean(axis=0), atol=0.005 + 1e-9)
    assert math.isnan(rounded_means(np.full((2, 1, 1), NAN))[0, 0])


def drawn_table(seed, n_narratives, groups, refused):
    """Whole numbers from 0 to 100, with gaps, and refusals in cells of "a person" and, fewer, between identities."""
    rng = random.Random(seed)
    table = []
    for _ in range(n_narratives):
        level, narrative = rng.gauss(50, 12), []
        for perceiver in groups:
            row = []
            for experiencer in groups:
                baseline = "unspecified" in (perceiver, experiencer)
                own = rng.choice((0, 3)) if perceiver == experiencer and not baseline else 0
                rating = min(100, max(0, round(level + own + rng.gauss(0, 6))))
                row.append(None if rng.random() < (refused if baseline else refused / 8) else rating)
            narrative.append(row)
        table.append(narrative)
    return table


_DESIGNS = (
    ["unspecified", *"ABCDE"],
    ["unspecified", *"AABBBC"],
    [*"ABCD", "unspecified"],
    ["unspecified", *"AABB"],
)


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_have_the_study_s_numbers(seed):
    """Oracle: tests/reference/released.py. 20 tables of 50 to 145 narratives, five of them of 400."""
    groups = _DESIGNS[seed % 4]
    n_narratives = 400 if seed % 4 == 1 else 50 + 5 * seed
    table = drawn_table(seed, n_narratives, groups, refused=0.04)
    cube = cube_of(np.array(table, dtype=float), groups=groups)
    gap = published_gap(cube, rng=np.random.default_rng(0), n_permutations=200)
    assert gap.delta_z == pytest.approx(released.delta_z(table, groups), abs=1e-12)
    assert gap.n_narratives == len(released.narratives_without_default(table, groups))
    kept, _ = released_matrix(cube)
    assert int(kept.sum()) == len(released.narratives_with_default(table)) < gap.n_narratives < n_narratives
    np.testing.assert_allclose(published_cells(cube), released.heatmap_z(table, groups), atol=1e-12)
    # One set of narratives for both would give another number, and not by a matter of digits.
    alone = published_gap(cube.of_narratives(kept), rng=np.random.default_rng(0), n_permutations=200)
    assert abs(alone.delta_z - gap.delta_z) > 1e-4
    terms = len(released.identities(groups))
    rows, columns = (random.Random(seed + k).sample(range(terms), terms) for k in (1, 2))
    compared = cube.without_baselines()
    found = shuffled_gaps(
        standardise_cells(rounded_means(compared.y[~np.isnan(compared.y).any(axis=(1, 2))])),
        compared.in_group,
        row_orders=np.array([rows]).T,
        column_orders=np.array([columns]).T,
    )
    assert found[0] == pytest.approx(released.shuffled_delta_z(table, groups, rows, columns), abs=1e-12)


def test_half_hundredths_of_400_narratives_go_as_in_the_study():
    """Of 400 narratives each fourth mean lies on half a hundredth, and numpy's rule gives another δ_z."""
    groups = ["unspecified", *"ABCDE"]
    differ = 0
    for seed in range(10):
        rng = random.Random(seed)
        # Ratings that hardly differ, so that a hundredth is much.
        table = [[[rng.choice((50, 50, 50, 51)) for _ in groups] for _ in groups] for _ in range(400)]
        cube = cube_of(np.array(table, dtype=float), groups=groups)
        found = published_gap(cube, rng=np.random.default_rng(0), n_permutations=200).delta_z
        assert found == pytest.approx(released.delta_z(table, groups), abs=1e-12)
        z = standardise_cells(np.round(cube.without_baselines().y.mean(axis=0), 2))
        differ += abs(released_gap(z.tolist(), np.eye(5, dtype=bool).tolist()) - found) > 1e-3
    assert differ == 10


def test_a_refusal_of_a_person_s_cells_alone_moves_the_heatmap_and_not_the_gap():
    table = [[[50] * 3 for _ in range(3)] for _ in range(4)]
    table[0] = [[50, None, 50], [50, 90, 50], [50, 50, 90]]  # "a person" declines
    table[1] = [[50, 50, 50], [50, 40, 50], [50, 50, 40]]
    cube = cube_of(np.array(table, dtype=float), groups=["unspecified", "A", "B"])
    gap = published_gap(cube, rng=np.random.default_rng(0))
    # Own cells (90 + 40 + 50 + 50) / 4 = 57.5, others 50: half of the cells each, so z is ±1 and δ_z 2.
    assert (gap.delta_z, gap.n_narratives) == (pytest.approx(2.0), 4)
    z = published_cells(cube)
    # The heatmap is of three narratives: own cells (40 + 50 + 50) / 3 = 46.67, the other seven of nine 50.
    assert z[1, 1] < 0 < z[1, 2]
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize("name", REFERENCE)
def test_the_published_numbers_are_those_of_plain_loops(name):
    """Oracle: tests/reference/make_published.py, loops over fractions; all its shuffles are of rows and of columns."""
    reference = REFERENCE[name]
    cube = cube_of(np.array(reference["ratings"], dtype=float), groups=reference["groups"])
    gap = published_gap(cube, rng=np.random.default_rng(0), n_permutations=576)
    assert gap.null.startswith("all")
    assert reference["n_shuffles"] % len(gap.shuffled) == 0
    assert gap.n_narratives == reference["n_narratives"] < gap.n_narratives_asked
    assert int(released_matrix(cube)[0].sum()) == reference["n_narratives_heatmap"] < gap.n_narratives
    for field in ("delta_z", "null_low", "null_high"):
        assert getattr(gap, field) == pytest.approx(reference[field], rel=1e-14), field
    of_perceiver, of_experiencer, shown = published_mask(cube)
    for found, field in ((of_perceiver, "p_perceiver"), (of_experiencer, "p_experiencer")):
        np.testing.assert_allclose(found, np.array(reference[field], dtype=float), rtol=1e-12, err_msg=field)
    np.testing.assert_allclose(published_cells(cube), reference["z"], rtol=1e-13, atol=1e-15)
    assert shown.tolist() == reference["shown"]


@pytest.mark.parametrize(
    ("perceivers", "experiencers"),
    [("ABCDE", "ABCDE"), ("AAAAABBBBCCCDDDDDD", "AAAAABBBBCCCDDDDDD"), ("AABBC", "ABBBCCD"), ("AAAB", "AAB")],
    ids=["K = 5", "18 terms of 4 groups", "non-square", "mostly in-group"],
)
def test_null_interval_equals_the_plain_loop_with_the_same_draws(ratings_of, perceivers, experiencers):
    y = np.random.default_rng(8).integers(0, 101, size=(3, len(perceivers), len(experiencers)))
    draws = np.random.default_rng(5)
    one_to_one = perceivers == "ABCDE"  # shuffling its rows as well gives nothing new
    stay = [list(range(len(perceivers)))] * 100
    row_orders = stay if one_to_one else draw_orders(len(perceivers), 100, rng=draws).T.tolist()
    column_orders = draw_orders(len(experiencers), 100, rng=draws).T.tolist()
    in_group = [[p == e for e in experiencers] for p in perceivers]
    oracle = released_null(rounded_means(y).tolist(), in_group, row_orders, column_orders)

    gap = gap_of(ratings_of(y, list(perceivers), list(experiencers)), seed=5, n_permutations=100)
    assert gap.null == "100 random shuffles"
    assert (gap.delta_z, gap.null_low, gap.null_high) == pytest.approx(oracle, abs=1e-12)


@pytest.mark.parametrize(("perceivers", "experiencers", "n"), [("ABCDE", "CABED", 120), ("AAB", "ABBC", 144)])
def test_few_terms_are_shuffled_in_every_way(ratings_of, perceivers, experiencers, n):
    y = np.random.default_rng(4).integers(0, 101, size=(2, len(perceivers), len(experiencers)))
    in_group = [[p == e for e in experiencers] for p in perceivers]
    every = [
        (rows, columns)
        for rows in itertools.permutations(range(len(perceivers)))
        for columns in itertools.permutations(range(len(experiencers)))
    ]
    oracle = released_null(rounded_means(y).tolist(), in_group, *zip(*every, strict=True))
    gap = gap_of(ratings_of(y, list(perceivers), list(experiencers)), n_permutations=n)
    assert gap.null == f"all {n} shuffles"
    assert gap.delta_z == pytest.approx(oracle[0], abs=1e-12)
    null = exact_null(standardise_cells(rounded_means(y)), np.array(in_group), at_most=n)
    assert len(null) == n
    everything = [
        shuffled_gaps(
            standardise_cells(rounded_means(y)),
            np.array(in_group),
            row_orders=np.array([rows]).T,
            column_orders=np.array([columns]).T,
        )[0]
        for rows, columns in every
    ]
    np.testing.assert_allclose(np.repeat(np.sort(null), len(every) // n), np.sort(everything), atol=1e-12)
    # 2.5% of the values lie below: 3 of 120, so the middle of the third and the fourth; 3.6 of 144, so the fourth.
    low, high = np.sort(null), np.sort(null)[::-1]
    ends = [(side[2] + side[3]) / 2 if n == 120 else side[3] for side in (low, high)]
    assert [gap.null_low, gap.null_high] == pytest.approx(ends)


def test_four_one_term_groups_have_the_interval_that_ever_more_draws_come_to(ratings_of):
    """Each of 24 shuffles is 1/24 of the null, more than 2.5%: its ends are its least and its greatest value."""
    ratings = ratings_of(np.random.default_rng(3).integers(0, 101, size=(2, 4, 4)), list("ABCD"))
    gap, drawn = gap_of(ratings, n_permutations=24), gap_of(ratings, n_permutations=20)
    z = standardise_cells(rounded_means(cube_ratings(ratings)))
    many = permutation_null(z, np.eye(4, dtype=bool), rng=np.random.default_rng(0), n_permutations=20_000)
    assert (gap.null_low, gap.null_high) == pytest.approx((many.min(), many.max()))
    assert (gap.null_low, gap.null_high) == pytest.approx(tuple(np.percentile(many, [2.5, 97.5])))
    assert drawn.null == "20 random shuffles"


def cube_ratings(ratings):
    return NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin").y


def test_the_heatmap_s_mask_equals_scipy_s_paired_tests(ratings_of):
    groups = ["unspecified", "A", "B", "C"]
    y = np.random.default_rng(2).normal(50, 5, size=(40, 4, 4))
    y[:, 1, 2] += 20
    y[7, 3, 3] = np.nan  # listwise: the narrative is in no test
    cube = NarrativeCube.from_ratings(ratings_of(y, groups), dimension="religion", variant="origin", baselines=True)
    of_perceiver, of_experiencer, shown = published_mask(cube)
    kept = np.delete(y, 7, axis=0)
    for p, e in np.ndindex(4, 4):
        expected = [np.nan if p == e else stats.ttest_rel(kept[:, p, e], kept[:, own, own]).pvalue for own in (p, e)]
        np.testing.assert_allclose([of_perceiver[p, e], of_experiencer[p, e]], expected, rtol=1e-10)
        # Three identities: the level is .05 / 4².
        assert shown[p, e] == (p == e or 0 in (p, e) or max(expected) < 0.05 / 16)
    assert shown[1, 2]
    assert not shown[2, 1]


def test_cells_that_differ_by_the_same_in_every_narrative_are_shown_as_by_scipy():
    """A planted model without chance: t is infinite and p is 0, and no difference at all has no p."""
    level = np.random.default_rng(2).integers(20, 60, size=(9, 1, 1))
    y = level + np.array([[0, 0, 0], [0, 20, 5], [0, 5, 5]])
    of_perceiver, of_experiencer, shown = published_mask(cube_of(y, groups=["unspecified", "A", "B"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of differences without a spread
        assert stats.ttest_rel(y[:, 1, 2], y[:, 1, 1]).pvalue == of_perceiver[1, 2] == 0
        assert math.isnan(stats.ttest_rel(y[:, 1, 2], y[:, 2, 2]).pvalue)
    assert math.isnan(of_experiencer[1, 2])
    assert not shown[1, 2]
    of_perceiver, of_experiencer, shown = published_mask(cube_of(level + np.array([[0.0, 0.1], [0.2, 0.3]])))
    assert [of_perceiver[0, 1], of_experiencer[0, 1]] == [0, 0]
    assert shown.all()


def test_null_of_many_shuffles_is_drawn_in_chunks(monkeypatch):
    """Six terms of three groups, 20 shuffles in chunks of 7: the draws of a chunk are rows, then columns."""
    z = standardise_cells(np.random.default_rng(0).normal(size=(6, 6)))
    in_group = np.equal.outer([*"AAABBC"], [*"AAABBC"])
    monkeypatch.setattr(published, "_CHUNK", 7)
    ours = permutation_null(z, in_group, rng=np.random.default_rng(1), n_permutations=20)
    draws, parts = np.random.default_rng(1), []
    for size in (7, 7, 6):
        orders = {name: draw_orders(6, size, rng=draws) for name in ("row_orders", "column_orders")}
        parts.append(shuffled_gaps(z, in_group, **orders))
    np.testing.assert_array_equal(ours, np.concatenate(parts))


@pytest.mark.parametrize("n_terms", [3, 6, 7, 65])
def test_orders_are_uniform(n_terms):
    """Each thing in each place: 1 / n of 60,000 draws, standard error below .002."""
    orders = draw_orders(n_terms, 60_000, rng=np.random.default_rng(0))
    assert (np.sort(orders, axis=0) == np.arange(n_terms)[:, None]).all()
    for place in range(n_terms):
        shares = np.bincount(orders[place], minlength=n_terms) / 60_000
        np.testing.assert_allclose(shares, 1 / n_terms, atol=0.008)


def test_all_orders_of_three_one_term_groups_bound_the_null():
    # δ depends on the relative order only: 6 values, each as probable; the 2.5 percentile is the least of them.
    z = standardise_cells(np.array([[60.0, 50, 41], [52, 66, 40], [40, 40, 70]]))
    orders = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]).T
    stay = np.tile([[0], [1], [2]], 6)
    values = shuffled_gaps(z, np.eye(3, dtype=bool), row_orders=stay, column_orders=orders)
    null = permutation_null(z, np.eye(3, dtype=bool), rng=np.random.default_rng(0), n_permutations=2_000)
    np.testing.assert_allclose(np.percentile(null, [2.5, 97.5]), [values.min(), values.max()], atol=1e-12)


def test_same_seed_same_interval_and_more_identities_another(ratings_of):
    ratings = ratings_of(np.random.default_rng(8).integers(0, 101, size=(3, 7, 7)), list("ABCDEFG"))
    assert gap_of(ratings, seed=3) == gap_of(ratings, seed=3)
    assert gap_of(ratings, seed=3).null_low != gap_of(ratings, seed=4).null_low


def test_missing_rating_between_identities_alone_drops_the_narrative_from_the_gap(ratings_of):
    y = np.random.default_rng(1).integers(0, 101, size=(4, 3, 3)).astype(float)
    groups = ["unspecified", "A", "B"]
    y[1, 1, 2] = NAN  # between identities
    y[2, 0, 1] = NAN  # the unspecified perceiver
    gap = gap_of(ratings_of(y, groups))
    assert (gap.n_narratives, gap.n_narratives_asked, gap.n_answers) == (3, 4, 12)
    assert gap.delta_z == gap_of(ratings_of(y[[0, 2, 3], 1:, 1:], groups[1:])).delta_z
    kept, cells = released_matrix(cube_of(y, groups=groups))
    assert kept.tolist() == [True, False, False, True]
    assert cells.all()


def test_missing_rating_without_persona_drops_nothing(ratings_of):
    y = np.random.default_rng(1).integers(0, 101, size=(4, 3, 2)).astype(float)
    y[1, 0] = NAN
    groups = ["no persona", "A", "B"]
    ratings = ratings_of(y, groups, groups[1:])
    assert gap_of(ratings).n_narratives == 4
    cube = NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", baselines=True)
    kept, cells = released_matrix(cube)
    assert kept.all()
    assert cells.tolist() == [[False, False], [True, True], [True, True]]
    # Its ratings move neither the mean nor the spread of the others.
    y[:, 0] += 30
    others = NarrativeCube.from_ratings(
        ratings_of(y, groups, groups[1:]), dimension="religion", variant="origin", baselines=True
    )
    np.testing.assert_array_equal(published_cells(others)[1:], published_cells(cube)[1:])


def test_baseline_pair_that_was_never_asked_drops_nothing(ratings_of):
    y = np.random.default_rng(1).integers(0, 101, size=(4, 3, 3))
    ratings = ratings_of(y, ["unspecified", "A", "B"])
    unasked = (ratings["perceiver_group"] == "unspecified") & (ratings["experiencer_group"] == "unspecified")
    assert gap_of(ratings[~unasked]) == gap_of(ratings)
    cube = NarrativeCube.from_ratings(ratings[~unasked], dimension="religion", variant="origin", baselines=True)
    assert released_matrix(cube)[0].all()
    z = published_cells(cube)
    assert np.isnan(z).sum() == 1
    np.testing.assert_allclose([np.nanmean(z), np.nanstd(z)], [0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("y", "perceivers", "experiencers", "message"),
    [
        (np.full((3, 2, 2), 50.0), "AB", "AB", "all 4 cell means are 50"),
        (np.arange(12.0).reshape(3, 2, 2), "AA", "AA", "all 4 pairs are in-group, so there is nothing to compare"),
        (np.arange(12.0).reshape(3, 2, 2), "AB", "CD", "none of 4 pairs is in-group, so there is nothing to compare"),
        (np.full((3, 2, 2), NAN), "AB", "AB", "leaves none of 3 narratives"),
        (np.full((3, 1, 1), 1.0), ["unspecified"], ["unspecified"], "baselines only"),
    ],
)
def test_undefined_gap_is_not_estimable(ratings_of, y, perceivers, experiencers, message):
    with pytest.raises(NotEstimableError, match=message):
        gap_of(ratings_of(y, list(perceivers), list(experiencers)))


@given(st.integers(0, 2**32), st.floats(-50, 50), st.floats(0.1, 10))
@settings(max_examples=50)
def test_shift_and_scale_leave_the_standardised_cells(seed, shift, scale):
    means = np.random.default_rng(seed).uniform(0, 100, size=(4, 5))
    np.testing.assert_allclose(standardise_cells(means * scale + shift), standardise_cells(means), atol=1e-9)


@given(st.integers(2, 8), st.integers(0, 2**32))
@settings(max_examples=50)
def test_gap_of_one_term_groups_stays_within_its_bound(k, seed):
    """|δ_z| ≤ 1/√(f(1 − f)), f = 1/K: 2.5 at K = 5."""
    z = standardise_cells(np.random.default_rng(seed).normal(size=(k, k)))
    null = permutation_null(z, np.eye(k, dtype=bool), rng=np.random.default_rng(seed), n_permutations=50)
    assert np.abs(null).max() <= 1 / math.sqrt((1 / k) * (1 - 1 / k)) + 1e-12
