"""Oracles: statsmodels' least squares of one narrative on its identities and each group's own cells; planted gaps."""

import numpy as np
import pytest
import statsmodels.api as sm
from cubes import cube_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.statistics.families import family_rows
from audit.statistics.headline import headline_gap
from audit.statistics.own_groups import own_group_weights

GROUPS = "AABBBCDDDD"


def weights_of(groups, rated=None):
    k = len(groups)
    names = tuple(dict.fromkeys(groups))
    return own_group_weights(names, groups, groups, rated=np.ones((k, k), bool) if rated is None else rated)


def own_rows(cube):
    rows = family_rows(cube, confidence=0.95, valence={}, clusters={})
    return {row["member"]: row for row in rows if row["family"] == "group"}


def planted(groups, own, *, n=40, seed=0, noise=6.0):
    """Ratings of n narratives with main effects, and beside them an own gap of each group, in points."""
    rng, k = np.random.default_rng(seed), len(groups)
    labels = np.array(list(groups))
    cells = np.where(labels[:, None] == labels, np.array([own.get(name, 0.0) for name in labels])[:, None], 0.0)
    effects = rng.normal(0, 5, (1, k, 1)) + rng.normal(0, 5, (1, 1, k)) + rng.normal(0, 6, (n, 1, 1))
    return 40 + effects + cells + rng.normal(0, noise, (n, k, k))


@pytest.mark.parametrize("holes", [False, True])
def test_own_gaps_are_least_squares_beside_effects_of_identities(holes):
    rng, k = np.random.default_rng(1), len(GROUPS)
    rated = (rng.random((k, k)) > (0.2 if holes else -1)) | np.eye(k, dtype=bool)
    y, names = rng.normal(50, 20, (k, k)), tuple("ABCD")
    p, e = (axis[rated] for axis in np.indices((k, k)))
    label = np.array(list(GROUPS))
    own = [(label[p] == name) & (label[e] == name) for name in names]
    effects = [p == each for each in range(1, k)] + [e == each for each in range(1, k)]
    design = np.column_stack([*own, np.ones(p.size), *effects]).astype(float)
    weights = weights_of(GROUPS, rated)
    assert (weights[:, ~rated] == 0).all()
    np.testing.assert_allclose((weights * y).sum(axis=(1, 2)), sm.OLS(y[rated], design).fit().params[:4], atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from("ABCDE"), min_size=3, max_size=9).filter(lambda groups: len(set(groups)) > 2),
    st.integers(0, 2**32 - 1),
)
def test_one_odd_group_loads_itself_alone_and_a_common_gap_is_each_group_s(groups, seed):
    """Whatever the groups' sizes and the effects of perceivers and experiencers."""
    rng, k = np.random.default_rng(seed), len(groups)
    label, names = np.array(groups), tuple(dict.fromkeys(groups))
    y = rng.normal(0, 20, (k, 1)) + rng.normal(0, 20, k)
    own = dict(zip(names, rng.normal(0, 10, len(names)), strict=True))
    for gaps in (dict.fromkeys(names, 3.0), dict.fromkeys(names, 0.0) | {names[0]: 36.0}, own):
        cells = np.where(label[:, None] == label, np.array([gaps[name] for name in label])[:, None], 0.0)
        found = (weights_of(groups) * (y + cells)).sum(axis=(1, 2))
        assert dict(zip(names, found, strict=True)) == pytest.approx(gaps, abs=1e-8)


@pytest.mark.parametrize("groups", ["AB", "AABBB"])
def test_two_groups_have_no_gaps_of_their_own(groups):
    assert np.isnan(weights_of(groups)).all()


def test_a_group_whose_own_cells_have_no_rating_is_not_determined_and_costs_the_others_nothing():
    rated = np.ones((5, 5), bool)
    rated[4, 4] = False
    weights = weights_of("ABCDE", rated)
    assert np.isnan(weights).any(axis=(1, 2)).tolist() == [False] * 4 + [True]
    cube = cube_of(np.where(rated, planted("ABCDE", {}), np.nan), groups="ABCDE")
    rows = own_rows(cube)
    assert [np.isfinite(rows[name]["delta"]) for name in "ABCDE"] == [True] * 4 + [False]
    assert rows["E"]["note"]
    assert rows["A"]["family_size"] == 4


def test_a_pair_that_was_never_rated_leaves_every_group_its_gap():
    y = planted("ABCD", {"B": 36.0}, noise=2.0)
    y[:, 0, 2] = np.nan
    rows = own_rows(cube_of(y, groups="ABCD"))
    assert {name: row["delta"] for name, row in rows.items()} == pytest.approx(
        {"A": 0, "B": 36, "C": 0, "D": 0}, abs=4 * max(row["se"] for row in rows.values())
    )


TWELVE = "ABCDEFGHIJKL"


@pytest.mark.parametrize("terms", [TWELVE, "AAAAABBBBCCCDDDDDD"], ids=["twelve of one term", "5, 4, 3 and 6 terms"])
def test_one_odd_group_is_the_only_one_found(terms):
    """Planted: +36 toward its own in one group; the means of pair gaps would find all of them."""
    rows = own_rows(cube_of(planted(terms, {"B": 36.0}), groups=terms))
    assert rows["B"]["delta"] == pytest.approx(36, abs=4 * rows["B"]["se"])
    assert [name for name, row in rows.items() if row["p_adjusted"] < 0.05] == ["B"]
    assert [name for name, row in rows.items() if row["change_p_adjusted"] < 0.05 and row["change"] > 0] == ["B"]
    assert rows["B"]["delta_rest"] == pytest.approx(
        np.mean([row["delta"] for name, row in rows.items() if name != "B"])
    )


def test_a_gap_that_all_groups_have_is_found_in_each_and_no_group_differs():
    cube = cube_of(planted("AAABBCCCDE", dict.fromkeys("ABCDE", 10.0), n=60, seed=3), groups="AAABBCCCDE")
    rows, delta = own_rows(cube), headline_gap(cube, confidence=0.95).delta
    for row in rows.values():
        assert row["delta"] == pytest.approx(10, abs=4 * row["se"])
        assert row["p_adjusted"] < 0.05 < row["change_p_adjusted"]
    assert delta == pytest.approx(10, abs=1)


def test_the_precision_is_that_of_the_design():
    """One term a group: σ²/N times the diagonal of ((K − 2)/K I + J/K²)⁻¹, which is 1.583 for K = 5 and 2.5 for 3."""
    for k, factor in ((3, 2.5), (5, 1.5833333)):
        weights = weights_of("ABCDE"[:k])
        assert (weights**2).sum(axis=(1, 2)) == pytest.approx(factor)


def test_how_a_group_differs_from_the_rest_is_a_paired_t_test_of_narratives():
    groups = "ABCDE"
    y = planted(groups, {"C": 8.0}, n=25)
    own = np.einsum("kpe,npe->kn", weights_of(groups), y)
    rows = own_rows(cube_of(y, groups=groups))
    for place, name in enumerate(groups):
        rest = np.delete(own, place, axis=0).mean(axis=0)
        oracle = stats.ttest_rel(own[place], rest)
        row = rows[name]
        assert row["change"] == pytest.approx(own[place].mean() - rest.mean())
        assert row["delta_rest"] == pytest.approx(rest.mean())
        assert row["change_p"] == pytest.approx(oracle.pvalue)
        assert row["change_se"] == pytest.approx((own[place] - rest).std(ddof=1) / 5)


def test_of_two_groups_whose_gap_can_be_told_each_differs_from_the_other():
    y = planted("ABC", {"A": 8.0}, n=25)
    y[:, 2, 2] = np.nan  # without a rating of its own pair, C's gap is not determined
    rows = own_rows(cube_of(y, groups="ABC"))
    assert np.isnan(rows["C"]["delta"])
    for name, other in ("AB", "BA"):
        assert rows[name]["delta_rest"] == pytest.approx(rows[other]["delta"])
        assert rows[name]["change"] == pytest.approx(rows[name]["delta"] - rows[other]["delta"])
