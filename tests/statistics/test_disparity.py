"""Who is rated lower by everybody. Oracles: numbers worked by hand, statsmodels, least squares with dummies, scipy."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from conftest import build_ratings
from sandwiches import bell_mccaffrey
from scipy import stats

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.comparisons import over_words
from audit.statistics.controls import Repetition
from audit.statistics.crossed import crossed_gap
from audit.statistics.disparity import disparity_gaps, disparity_rows
from audit.statistics.disparity_answers import with_limits
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.incomplete import cell_contrasts, rating_weights
from audit.statistics.margin_tests import hold
from audit.statistics.outcome import INTENSITY, Outcome, analyse_outcome
from audit.statistics.ratings import compact_ratings
from audit.statistics.verdict import Limits
from audit.tables.disparity import DISPARITY, without_refusals

FEW = AnalysisSettings(n_permutations=100)
PATH = Path(__file__).parents[2] / "benchmarks" / "disparity.py"


def disparities(ratings, *, repetition=None, settings=FEW, scale=(0.0, 100.0)):
    """The table of disparities of a whole analysis."""
    told = repetition or Repetition({"religion": {term: term for term in ratings["experiencer"].unique()}})
    tables = analyse(ratings, scales={"origin": scale}, seed=0, settings=settings, repetition=told).tables
    DISPARITY.check(tables["disparity"])
    return without_refusals(tables["disparity"])


def view_of(table, view="all", *, side="experiencer", level="group", scope="narratives", dimension="religion"):
    kept = (table["side"] == side) & (table["view"] == view) & (table["level"] == level) & (table["scope"] == scope)
    return table[kept & (table["dimension"] == dimension)].set_index("member")


def answers_of(table, view="all"):
    rows = table[table["headline"].astype(bool) & (table["view"] == view)].set_index("group")
    return rows["code"].to_dict()


def drawn(n=24, groups="AABBCCDD", *, planted=None, noise=3.0, seed=0, perceivers=None):
    """Ratings y, shape (N, P, E), around 60; ``planted`` is by group of experiencers, whoever perceives."""
    rng = np.random.default_rng(seed)
    perceivers = groups if perceivers is None else perceivers
    effects = np.array([(planted or {}).get(group, 0.0) for group in groups])
    return (
        60 + rng.normal(0, 5, (n, 1, 1)) + rng.normal(0, 4, (n, len(perceivers), 1))
        + rng.normal(0, 2, (1, len(perceivers), 1)) + effects + rng.normal(0, noise, (n, len(perceivers), len(groups)))
    )  # fmt: skip


# --- The estimate -----------------------------------------------------------------------------------------------------

EIGHT = np.array([[[10.0, 14.0, 20.0, 24.0]], [[30.0, 34.0, 36.0, 40.0]]])
"""Two narratives, no persona, two terms of A and two of B."""


def test_eight_numbers_by_hand():
    table = disparities(build_ratings(EIGHT, ["no persona"], list("AABB")))
    row = view_of(table, "no_persona").loc["A"]
    # A less B: (10 + 14)/2 - (20 + 24)/2 = -10 and (30 + 34)/2 - (36 + 40)/2 = -6: mean -8, SD 2.8284, SE 2.8284/√2 = 2
    assert (row["disparity"], row["se"], row["df"]) == pytest.approx((-8.0, 2.0, 1.0))
    # The 97.5% quantile of t with 1 df is 12.7062, the 95% one 6.3138; p = 2 P(t > 4) = 0.155958.
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((-8 - 2 * 12.7062, -8 + 2 * 12.7062), abs=1e-3)
    assert (row["eq_low"], row["eq_high"]) == pytest.approx((-8 - 2 * 6.31375, -8 + 2 * 6.31375), abs=1e-3)
    assert row["p"] == pytest.approx(0.155958, abs=1e-6)
    assert row["p_adjusted"] == pytest.approx(2 * 0.155958, abs=1e-6)  # Holm, of two groups
    assert (row["share_lower"], row["share_higher"]) == (1.0, 0.0)
    assert (row["n_narratives"], row["n_answers"], row["n_pairs"], row["n_terms"]) == (2, 8, 4, 2)
    assert row["percent_of_scale"] == pytest.approx(-8.0)
    terms = view_of(table, "no_persona", level="term")["disparity"]
    # The first term less the mean of B: 10 - 22 = -12 and 30 - 38 = -8; the second 14 - 22 = -8 and 34 - 38 = -4.
    assert terms.iloc[:2].tolist() == pytest.approx([-10.0, -6.0])
    assert row["term_sd"] == pytest.approx(2.8284, abs=1e-4)  # of -10 and -6
    assert set(table["view"]) == {"no_persona"}


def test_terms_add_what_words_differ_by_by_hand():
    table = disparities(build_ratings(EIGHT, ["no persona"], list("AABB")))
    row = view_of(table, "no_persona", scope="narratives_and_terms").loc["A"]
    # Terms lie 2 points from the mean of their group, in both groups and narratives alike: SE 0, of two terms and two
    # groups σ² = (4 · 2²) / (1 + 1) = 8. Of D it is 8/2 + 8/2 = 8: SE √(2² + 8) = 3.4641.
    assert row["se"] == pytest.approx(12**0.5)
    assert row["df"] == 1.0  # the fewer of 2 narratives - 1 and 2 terms of 2 groups - 2


def test_it_is_the_fixed_effect_of_least_squares_and_of_the_mixed_model():
    y = drawn(10, planted={"A": -4.0}, seed=1)
    ratings = build_ratings(y, list("AABBCCDD"))
    own = view_of(disparities(ratings))["disparity"]
    frame = ratings.assign(y=ratings["intensity"].astype(float), level=ratings["narrative_id"] + ratings["perceiver"])
    formula = "y ~ C(experiencer_group, Sum)"
    ols = smf.ols(f"{formula} + C(level)", frame).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the variance: the fixed effects of a complete design do not depend on it
        mixed = smf.mixedlm(f"{formula} + C(perceiver)", frame, groups="narrative_id").fit()
    for fitted in (ols, mixed):
        found = fitted.params[[f"C(experiencer_group, Sum)[S.{group}]" for group in "ABC"]].to_numpy() * 4 / 3
        np.testing.assert_allclose(own[list("ABC")], found, rtol=0, atol=1e-8)


def test_disparities_of_the_groups_sum_to_zero_also_with_missing_ratings():
    y = drawn(16, planted={"B": 5.0}, seed=2)
    for holes in (0.0, 0.2):
        y[np.random.default_rng(3).random(y.shape) < holes] = np.nan
        table = disparities(build_ratings(y, list("AABBCCDD")))
        for side, view in (("experiencer", "all"), ("perceiver", "all")):
            assert view_of(table, view, side=side)["disparity"].sum() == pytest.approx(0.0, abs=1e-9)


def test_the_order_of_rows_does_not_matter():
    y = drawn(12, seed=4)
    y[np.random.default_rng(5).random(y.shape) < 0.15] = np.nan
    ratings = build_ratings(y, [*"AABBCCD", "unspecified"])
    keys = ["side", "view", "level", "member", "scope"]
    first, other = (
        disparities(each).sort_values(keys).reset_index(drop=True)
        for each in (ratings, ratings.sample(frac=1, random_state=1))
    )
    pd.testing.assert_frame_equal(first, other, rtol=1e-7, atol=1e-9)


def test_groups_of_perceivers_and_of_experiencers_count_alike_whatever_their_number_of_terms():
    # One perceiver of A, three of B; B's perceivers rate A 12 lower, A's own perceiver does not.
    groups = ["A", "B", "B", "B"]
    y = np.full((4, 4, 4), 50.0) + np.arange(4)[:, None, None]
    y[:, 1:, 0] -= 12
    y[0, 0, 0] += 1.0  # so that narratives differ
    row = view_of(disparities(build_ratings(y, groups))).loc["A"]
    # Mean over the two groups of perceivers: (0 - 12)/2 = -6; of the four perceivers it would be -9. The added point
    # counts ¼ (narratives) times ½ (groups of perceivers).
    assert row["disparity"] == pytest.approx(-6 + 0.125)


def test_what_a_narrative_adds_to_one_perceiver_is_not_left_in_it_where_a_rating_is_missing():
    y = drawn(12, noise=0.5, seed=6)
    y[0, 0, 0] = np.nan
    groups = list("AABBCCDD")
    before = view_of(disparities(build_ratings(y, groups)))
    y[:, 0] += np.random.default_rng(7).normal(0, 50, 12)[:, None]
    after = view_of(disparities(build_ratings(y, groups), scale=(-400.0, 500.0)))
    for column in ("disparity", "se", "df"):
        np.testing.assert_allclose(after[column], before[column], rtol=1e-9)


@pytest.mark.parametrize("n", [8, 30])
def test_missing_ratings_are_least_squares_on_narrative_by_perceiver_and_pair_with_clustered_errors(n):
    y = drawn(n, "AABBC", planted={"A": -5.0}, seed=8)
    y[np.random.default_rng(9).random(y.shape) < 0.2] = np.nan
    ratings = build_ratings(y, list("AABBC"))
    row = view_of(disparities(ratings)).loc["A"]
    known = ratings[ratings["status"] == "rated"]
    pair = pd.get_dummies(known["perceiver"] + known["experiencer"], dtype=float)
    level = pd.get_dummies(known["narrative_id"] + known["perceiver"], dtype=float)
    of = {name: name.split(" of ")[-1] for name in pair}
    terms, raters = {"A": 2, "B": 2, "C": 1}, {"A": 2, "B": 2, "C": 1}
    sign = {"A": 1.0, "B": -0.5, "C": -0.5}
    rater = {name: name.split("person")[1].strip().split(" of ")[1] for name in pair}
    weights = np.array([sign[of[name]] / terms[of[name]] / 3 / raters[rater[name]] for name in pair])
    x = np.hstack([pair, level])
    direction = np.concatenate([weights, np.zeros(level.shape[1])])
    numbers = known["intensity"].to_numpy(dtype=float)
    se, df = bell_mccaffrey(x, numbers, known["narrative_id"].to_numpy(), direction)
    assert row["disparity"] == pytest.approx(direction @ np.linalg.pinv(x) @ numbers, abs=1e-8)
    assert (row["se"], row["df"]) == pytest.approx((se, df), rel=1e-6)
    assert row["estimator"] == "pairs"


def test_of_many_narratives_the_quick_errors_with_levels_are_near_the_exact_ones():
    rng = np.random.default_rng(10)
    y, levels = rng.normal(0, 1, (400, 12)) + rng.normal(0, 5, (400, 1)), np.repeat(np.arange(3), 4)
    y[rng.random(y.shape) < 0.2] = np.nan
    weights = np.tile([1.0, -1.0, 1.0, -1.0], 3)[None] / 6
    exact = cell_contrasts(y, weights, levels)
    both = cell_contrasts(np.vstack([y, y]), weights, levels)  # 800 narratives: the quick way
    assert both.delta == pytest.approx(exact.delta)
    assert both.se * 2**0.5 == pytest.approx(exact.se, rel=0.01)


def test_weights_of_ratings_with_levels_sum_up_to_the_contrast():
    rng = np.random.default_rng(11)
    y, levels = rng.normal(50, 5, (9, 8)), np.repeat(np.arange(2), 4)
    y[rng.random(y.shape) < 0.2] = np.nan
    weights = np.array([1.0, -1.0, 0.5, -0.5] * 2)
    each = rating_weights(~np.isnan(y), weights, levels)
    assert (each * np.nan_to_num(y)).sum() == pytest.approx(cell_contrasts(y, weights[None], levels).delta[0])
    for level in range(2):
        np.testing.assert_allclose(each[:, levels == level].sum(axis=1), 0.0, atol=1e-12)


def test_a_term_that_is_refused_more_often_does_not_move_its_group():
    # The second term of A is rated 10 higher, and has three of four ratings missing at random.
    y = drawn(60, perceivers=["no persona"], noise=1.0, seed=12)
    y[:, :, 1] += 10
    y[np.random.default_rng(13).random(60) < 0.75, 0, 1] = np.nan
    row = view_of(disparities(build_ratings(y, ["no persona"], list("AABBCCDD"))), "no_persona").loc["A"]
    assert row["disparity"] == pytest.approx(5.0, abs=3 * row["se"])
    assert row["se"] < 0.5


# --- Views and sides --------------------------------------------------------------------------------------------------


def test_views_are_of_their_perceivers_and_the_baseline_of_a_person():
    groups = ["A", "B", "C", "unspecified"]
    y = np.zeros((6, 5, 4)) + 50 + np.random.default_rng(14).normal(0, 0.01, (6, 5, 4))
    y[:, :3, 0] -= 3  # personas rate A 3 lower than the others and than a person,
    y[:, 3, 0] -= 6  # "a person" 6,
    y[:, 4, 0] -= 9  # and no persona 9.
    y[:, :3, 3] -= 1  # Personas rate "a person" 1 lower.
    table = disparities(build_ratings(y, [*groups, "no persona"], groups))
    for view, wanted in (("all", -3.0), ("unspecified", -6.0), ("no_persona", -9.0), ("baseline", -2.0)):
        assert view_of(table, view).loc["A", "disparity"] == pytest.approx(wanted, abs=0.05), view
    assert set(view_of(table, "baseline").index) == {"A", "B", "C"}
    assert view_of(table, "baseline").loc["B", "disparity"] == pytest.approx(1.0, abs=0.05)


def test_the_perceivers_side_says_which_persona_rates_everybody_lower_and_carries_no_answer():
    y = drawn(20, "ABCD", seed=15)
    y[:, 2] -= 15
    table = disparities(build_ratings(y, list("ABCD")))
    rows = view_of(table, side="perceiver")
    assert rows.loc["C", "disparity"] == pytest.approx(
        np.mean(y[:, 2].mean(axis=1) - y[:, [0, 1, 3]].mean(axis=(1, 2)))
    )
    assert not table.loc[table["side"] == "perceiver", "headline"].any()
    assert view_of(table).loc["C", "disparity"] == pytest.approx(0.0, abs=2.0)


@pytest.mark.parametrize("perceiver", ["A", "unspecified", "no persona"])
def test_one_perceiver_or_none_is_enough(perceiver):
    y = drawn(30, planted={"A": -20.0}, perceivers=[perceiver], seed=16)
    table = disparities(build_ratings(y, [perceiver], list("AABBCCDD")))
    view = {"A": "all", "no persona": "no_persona"}.get(perceiver, perceiver)
    assert view_of(table, view).loc["A", "disparity"] == pytest.approx(-20.0, abs=1.5)
    assert answers_of(table, view)["A"] == "lower"


def test_groups_of_an_intersection_are_the_crossed_ones():
    groups = [("Black", "Muslim"), ("Black", "Jewish"), ("White", "Muslim"), ("White", "Jewish")]
    y = drawn(20, "ABCD", planted={"B": -20.0}, seed=17)
    ratings = build_ratings(y, groups, dimension="race+religion")
    table = disparities(ratings, repetition=Repetition())
    rows = view_of(table, dimension="race+religion")
    assert rows.loc["Black & Jewish", "disparity"] == pytest.approx(-20.0, abs=1.5)
    answer = table[table["headline"].astype(bool)].set_index("group").loc["Black & Jewish"]
    assert (answer["code"], answer["claim"], answer["limits"]) == ("lower", "words", "intersection")


def test_pairs_that_were_not_drawn_are_not_missing_and_own_pairs_do_not_count_more():
    # Members of A rate their own 12 lower: of six perceivers that is -2. Own pairs are all asked, half of the others.
    groups = list("AABBCCDDEEFF")
    rng = np.random.default_rng(18)
    y = 50 + rng.normal(0, 5, (60, 1, 1)) + rng.normal(0, 1, (60, 6, 12))
    y[:, 0, :2] -= 12
    own = np.arange(6)[:, None] == np.repeat(np.arange(6), 2)
    ratings = build_ratings(y, list("ABCDEF"), groups)
    asked = own.ravel()[np.arange(len(ratings)) % own.size] | (rng.random(len(ratings)) < 0.5)
    told = Repetition({"religion": {t: t for t in ratings["experiencer"].unique()}}, drawn=("religion",))
    row = view_of(disparities(ratings[asked], repetition=told)).loc["A"]
    assert row["disparity"] == pytest.approx(-2.0, abs=4 * row["se"])
    assert row["se"] < 0.15
    assert (row["worst_low"], row["worst_high"]) == pytest.approx((row["ci_low"], row["ci_high"]))


# --- Planted: what is said and what is not ----------------------------------------------------------------------------


def test_a_group_that_everybody_rates_20_points_lower_is_found_and_delta_is_not_affected():
    y = drawn(80, planted={"B": -20.0}, seed=19)
    groups = list("AABBCCDD")
    ratings = build_ratings(y, groups)
    told = Repetition({"religion": {term: term for term in ratings["experiencer"].unique()}})
    tables = analyse(ratings, scales={"origin": (0.0, 100.0)}, seed=0, settings=FEW, repetition=told).tables
    row = view_of(tables["disparity"], scope="narratives_and_terms").loc["B"]
    assert row["disparity"] == pytest.approx(-20.0, abs=1.0)
    assert (row["code"], row["claim"], row["limits"], row["share_lower"]) == ("lower", "group", "", 1.0)
    # The others are 6.7 higher than their others, but not without B: nothing is said of them.
    assert answers_of(tables["disparity"]) == dict.fromkeys("ACD", "not_shown") | {"B": "lower"}
    others = view_of(tables["disparity"], scope="narratives_and_terms").loc[list("ACD")]
    assert set(others["limits"]) == {"bystander"}
    assert others["disparity"].to_numpy() == pytest.approx(20 / 3, abs=1.0)
    assert others["without_extreme"].to_numpy() == pytest.approx(0.0, abs=1.0)
    assert set(others["extreme"]) == {"B"}
    gap = tables["gap"]
    for shift in (0.0, 20.0):
        moved = y.copy()
        moved[:, :, 2:4] += shift
        again = build_ratings(moved, groups)
        own = analyse(again, scales={"origin": (0.0, 100.0)}, seed=0, settings=FEW, repetition=told).tables["gap"]
        np.testing.assert_allclose(own["delta"].iloc[:2], gap["delta"].iloc[:2], atol=1e-9)


@pytest.mark.parametrize("exact", [False, True])
def test_an_echo_of_words_or_a_gap_of_all_groups_makes_no_disparity(exact):
    y = drawn(60, seed=20)
    groups = np.array(list("AABBCCDD"))
    y += 15 * (np.eye(8) if exact else groups[:, None] == groups)
    table = disparities(build_ratings(y, groups.tolist()))
    assert set(answers_of(table).values()) == {"not_shown"}
    assert np.abs(view_of(table)["disparity"]).max() < 1.0


def test_equal_groups_are_shown_to_lie_within_a_margin_that_the_data_can_show():
    margin = view_of(disparities(build_ratings(drawn(400, seed=21), list("AABBCCDD"))), scope="narratives_and_terms")
    assert (margin["supported_margin"] < 2.5).all()
    few = view_of(disparities(build_ratings(drawn(24, seed=21), list("AABBCCDD"))), scope="narratives_and_terms")
    # In 24 narratives a few large ones may not have been drawn: a bound of the mean of numbers within ±100.
    assert (few["supported_margin"] > 10).all()


def test_one_term_a_group_is_said_to_be_of_words_and_so_are_terms_of_one_stem_or_of_none_that_is_stated():
    one = build_ratings(drawn(30, "ABCD", planted={"A": -20.0}, seed=22), list("ABCD"))
    two = build_ratings(drawn(30, planted={"A": -20.0}, seed=22), list("AABBCCDD"))
    same = {"religion": {term: term.split(" of ")[1] for term in two["experiencer"].unique()}}
    for ratings, told, code in (
        (one, Repetition(), "one_term"), (two, Repetition(), "stems_not_stated"), (two, Repetition(same), "same_stem"),
    ):  # fmt: skip
        table = disparities(ratings, repetition=told)
        row = table[table["headline"].astype(bool) & (table["view"] == "all")].set_index("group").loc["A"]
        assert (row["code"], row["claim"], row["limits"], row["scope"]) == ("lower", "words", code, "narratives"), code
        why = view_of(table, scope="narratives_and_terms").loc["A"]
        assert np.isnan(why["se"])
        assert why["note"]


def test_words_that_differ_as_much_as_the_group_are_not_called_the_group():
    y = drawn(40, seed=23)
    y[:, :, 0] -= 20  # one of the two terms of A
    table = disparities(build_ratings(y, list("AABBCCDD")))
    assert view_of(table).loc["A", "p_adjusted"] < 1e-6
    row = view_of(table, scope="narratives_and_terms").loc["A"]
    assert (row["code"], row["claim"], row["limits"]) == ("not_shown", "", "terms_differ")


def with_invented(real, labels, *, n=40, seed=24, sets=1, terms=1):
    """Ratings of four groups with these effects, and of sets of four invented ones with those."""
    groups = [group for group in "ABCD" for _ in range(terms)]
    parts = [build_ratings(drawn(n, groups, planted=dict(zip("ABCD", real, strict=True)), seed=seed), groups)]
    names = [f"invented_{place}" for place in range(sets)]
    for place, name in enumerate(names):
        y = drawn(n, "WXYZ", planted=dict(zip("WXYZ", np.roll(labels, place), strict=True)), seed=seed + place + 1)
        parts.append(build_ratings(y, list("WXYZ"), dimension=name))
    return pd.concat(parts, ignore_index=True), Repetition(placebo=tuple(names))


def test_a_disparity_that_invented_groups_show_as_well_is_not_claimed_and_a_larger_one_is():
    for real, code, limits in ((-5.0, "not_shown", "invented_as_large"), (-30.0, "lower", "")):
        ratings, told = with_invented((real, 0, 0, 0), (-4.0, 4.0, -1.0, 1.0), sets=2)
        table = disparities(ratings, repetition=told)
        row = table[table["headline"].astype(bool) & (table["view"] == "all")].set_index("group").loc["A"]
        assert (row["code"], row["scope"], row["limits"]) == (code, "narratives_and_labels", limits)
        assert row["claim"] == ("group" if code == "lower" else "")
        assert row["n_labels"] == 8
        assert view_of(table).loc["A", "p_adjusted"] < 1e-4  # these words differ, without any doubt
    invented = table[table["invented"]]
    assert set(invented["dimension"]) == {"invented_0", "invented_1"}
    assert not invented["headline"].any()


def test_what_labels_differ_by_is_added_by_hand():
    ratings, told = with_invented((-5.0, 0, 0, 0), (-4.0, 4.0, -1.0, 1.0))
    table = disparities(ratings, repetition=told)
    narrow, wide = view_of(table).loc["A"], view_of(table, scope="narratives_and_labels").loc["A"]
    invented = view_of(table, dimension="invented_0")
    # D of an invented group is 4/3 of its label's deviation from the mean of four: σ² by the sum of squares over 3 df,
    # less what the noise of each estimate adds. A real group's D has 4/3 of σ², its own label and a third of others'.
    deviations, noise = invented["disparity"] * 3 / 4, invented["se"] * 3 / 4
    variance = ((deviations**2).sum() - (noise**2).sum()) / 3
    assert wide["se"] == pytest.approx((narrow["se"] ** 2 + 4 / 3 * variance) ** 0.5)
    assert wide["df"] == 3.0
    assert wide["labels_sd"] == pytest.approx(np.sqrt((invented["disparity"] ** 2).mean()))
    assert wide["labels_largest"] == pytest.approx(invented["disparity"].abs().max())


def test_where_terms_and_invented_groups_disagree_nothing_is_claimed():
    ratings, told = with_invented((-5.0, 0, 0, 0), (-4.0, 4.0, -1.0, 1.0), terms=2)
    stems = {"religion": {term: term for term in ratings.query("dimension == 'religion'")["experiencer"].unique()}}
    table = disparities(ratings, repetition=Repetition(stems, placebo=told.placebo))
    row = view_of(table, scope="narratives_and_terms").loc["A"]
    assert row["headline"]
    assert row["p_adjusted"] < 0.05
    assert (row["code"], row["limits"]) == ("undecided", "invented_as_large")


def test_few_narratives_many_missing_and_ends_of_the_scale_hold_answers_back():
    groups = list("AABBCCDD")
    y = drawn(30, planted={"A": -20.0}, seed=25)
    holed = y.copy()
    holed[np.random.default_rng(26).random(y.shape) < 0.15] = np.nan
    silent = y.copy()
    silent[:, :, 5] = np.nan
    for numbers, code in (
        (y[:12], "few_narratives"), (holed, "many_missing"), (silent, "unrated_identity"),
        (np.minimum(y + 36, 100.0), "scale_end"), (y + 35, "beyond_scale"),
    ):  # fmt: skip
        answer = disparities(build_ratings(numbers, groups)).query("headline and view == 'all' and group == 'A'")
        assert answer["code"].item() == "undecided", code
        assert code in answer["limits"].item().split("; ")
        assert np.isnan(answer["supported_margin"].item())


def test_of_two_groups_both_are_named_and_it_is_said_that_no_rating_tells_which():
    table = disparities(build_ratings(drawn(30, "AABB", planted={"A": -20.0}, seed=27), list("AABB")))
    rows = table[table["headline"].astype(bool) & (table["view"] == "all")].set_index("group")
    assert rows["code"].to_dict() == {"A": "lower", "B": "higher"}
    assert set(rows["limits"]) == {"two_groups"}


def test_a_limit_of_the_run_withdraws_what_was_found_and_one_of_delta_alone_does_not():
    table = disparities(build_ratings(drawn(30, planted={"A": -20.0}, seed=28), list("AABBCCDD")))
    held = with_limits(table, Limits(frozenset({"manipulation", "noise_floor", "not_additive"})))
    assert set(answers_of(held).values()) == {"no_verdict"}
    row = held.query("headline and view == 'all' and group == 'A'").iloc[0]
    assert (row["limits"], row["claim"]) == ("manipulation", "")
    assert np.isnan(row["supported_margin"])
    place = {("religion", "origin"): {"noise_floor"}, ("race", "origin"): {"constant"}}
    pd.testing.assert_frame_equal(with_limits(table, Limits(on_place=place)), table)


# --- Missing ratings at their worst -----------------------------------------------------------------------------------


def test_the_worst_case_is_every_missing_rating_at_the_end_that_moves_it_most():
    y = drawn(20, "ABC", seed=29)
    y[0, 0, 0] = y[3, 1, 2] = y[5, 2, 1] = np.nan
    row = view_of(disparities(build_ratings(y, list("ABC")))).loc["A"]
    own = np.array([1.0, -0.5, -0.5]) / 3  # of A less the mean of B and C, over three perceivers
    ends = []
    for low_a in (True, False):
        filled = np.where(np.isnan(y), np.where((own > 0) == low_a, 0.0, 100.0), y)
        d = (filled * own).sum(axis=(1, 2))
        # As if they had been there, with no more degrees of freedom than the estimate has without them.
        ends.append(stats.t.interval(0.95, row["df"], d.mean(), d.std(ddof=1) / 20**0.5))
    assert (row["worst_low"], row["worst_high"]) == pytest.approx((ends[0][0], ends[1][1]))
    every = [
        np.mean([(np.where(np.isnan(y), 0.0, y) * own).sum(axis=(1, 2)).mean()
                 + (own[0] * a + own[2] * b + own[1] * c) / 20])
        for a, b, c in product((0.0, 100.0), repeat=3)
    ]  # fmt: skip
    assert row["worst_low"] < min(every) < max(every) < row["worst_high"]


def test_high_ratings_that_are_refused_could_be_all_there_is_to_it():
    # A is rated 4 lower; of the others one rating of twelve is missing.
    y = drawn(60, "ABCD", planted={"A": -4.0}, seed=30)
    y[np.arange(60), np.arange(60) % 4, 0] = np.nan
    told = Repetition()
    answer = disparities(build_ratings(y, list("ABCD")), repetition=told).query("headline and group == 'A'").iloc[0]
    assert (answer["code"], answer["limits"].split("; ")[0]) == ("undecided", "missing")
    near = AnalysisSettings(n_permutations=100, missing_shift=5.0)
    shifted = disparities(build_ratings(y, list("ABCD")), repetition=told, settings=near)
    row = shifted.query("headline and group == 'A'").iloc[0]
    assert (row["code"], row["claim"]) == ("lower", "words")
    # ¼ of the four ratings of A of each narrative, each ¼ of its mean over perceivers, may lie 5 points off.
    assert row["worst_high"] - row["ci_high"] == pytest.approx(5 / 4)


def test_ratings_known_within_bounds_could_move_it_by_as_much_as_they_may_be_off():
    ratings = build_ratings(drawn(30, "ABCD", planted={"A": -3.0}, seed=31), list("ABCD")).assign(pruned_points=0.5)
    row = view_of(disparities(ratings, repetition=Repetition())).loc["A"]
    # All of A half a point higher and all of the others half a point lower: 1 point.
    assert (row["bound_low"], row["bound_high"]) == pytest.approx((row["disparity"] - 1, row["disparity"] + 1))
    assert row["code"] == "lower"
    inexact = view_of(disparities(ratings.assign(pruned_points=2.0), repetition=Repetition())).loc["A"]
    assert (inexact["code"], inexact["limits"].split("; ")[0]) == ("undecided", "bounded")


def test_a_prompt_that_was_never_asked_has_no_worst_case():
    ratings = build_ratings(drawn(30, planted={"A": -20.0}, seed=32), list("AABBCCDD"))
    answer = disparities(ratings.drop(index=3)).query("headline and view == 'all' and group == 'A'").iloc[0]
    assert np.isnan(answer["worst_low"])


# --- All groups at once, wordings, conversations, other outcomes ------------------------------------------------------


def test_the_test_of_all_groups_is_hotelling_s():
    y = drawn(14, "ABCD", planted={"A": -1.5}, seed=33)
    row = view_of(disparities(build_ratings(y, list("ABCD"))), level="all").iloc[0]
    d = y.mean(axis=1)[:, :3] - y.mean(axis=1)[:, [3]]  # three differences from the fourth group
    t2 = 14 * d.mean(axis=0) @ np.linalg.inv(np.cov(d.T)) @ d.mean(axis=0)
    f = t2 * (14 - 3) / (3 * 13)
    assert (row["statistic"], row["df"], row["df_residual"]) == pytest.approx((f, 3.0, 11.0))
    assert row["p"] == pytest.approx(stats.f.sf(f, 3, 11))
    none = view_of(disparities(build_ratings(y[:4], list("ABCD"))), level="all").iloc[0]
    assert np.isnan(none["p"])
    assert "more narratives than groups" in none["note"]


@pytest.mark.parametrize("n_wordings", [3, 8])
def test_wordings_are_crossed_with_narratives(n_wordings):
    shift = np.random.default_rng(34).normal(0, 1, n_wordings)
    y = [drawn(20, "ABCD", planted={"A": -3.0 + each}, seed=35 + place) for place, each in enumerate(shift)]
    ratings = pd.concat(
        [build_ratings(own, list("ABCD")).assign(wording=place) for place, own in enumerate(y)], ignore_index=True
    ).assign(prompt_index=lambda table: range(len(table)))
    table = disparities(ratings, repetition=Repetition())
    row = view_of(table, scope="narratives_and_wordings").loc["A"]
    own = np.stack([each[:, :, 0].mean(axis=1) - each[:, :, 1:].mean(axis=(1, 2)) for each in y], axis=1)
    wanted = crossed_gap(own, confidence=0.95, n_answers=0).estimate
    assert row["disparity"] == pytest.approx(wanted.delta)
    if n_wordings < 8:
        assert np.isnan(row["se"])
        assert "these_wordings" in view_of(table).loc["A", "limits"]
    else:
        assert (row["se"], row["df"]) == pytest.approx((wanted.se, wanted.df))


def test_utterances_of_a_conversation_are_not_independent():
    y = np.repeat(drawn(12, "ABCD", planted={"A": -3.0}, noise=2.0, seed=36), 5, axis=0)
    y += np.random.default_rng(37).normal(0, 0.1, y.shape)
    compact = compact_ratings(build_ratings(y, list("ABCD")))
    unit = {f"n{place}": f"c{place // 5}" for place in range(60)}
    found = analyse_outcome(
        Outcome("length", unit="words"), compact, seed=0, settings=FEW, conversation_of=lambda name: unit[str(name)],
        replies=build_ratings(y, list("ABCD")).assign(status="written"),
    )  # fmt: skip
    rows = pd.DataFrame(disparity_rows(found, scales={"origin": (-np.inf, np.inf)}, settings=FEW), columns=[*DISPARITY])
    row = view_of(rows).loc["A"]
    means = y.reshape(12, 5, 4, 4).mean(axis=1)
    d = means[:, :, 0].mean(axis=1) - means[:, :, 1:].mean(axis=(1, 2))
    assert (row["disparity"], row["se"], row["df"]) == pytest.approx((d.mean(), d.std(ddof=1) / 12**0.5, 11.0))
    assert "over 12 conversations" in row["note"]
    assert np.isnan(row["percent_of_scale"])
    assert np.isnan(row["supported_margin"])
    assert (row["outcome"], row["unit"]) == ("length", "words")


def test_measures_that_are_looked_at_together_are_corrected_together():
    compact = compact_ratings(build_ratings(drawn(30, "ABCD", planted={"A": -1.0}, seed=38), list("ABCD")))
    found = analyse_outcome(INTENSITY, compact, seed=0, settings=FEW)
    one, ten = (
        pd.DataFrame(disparity_rows(found, scales={"origin": (0, 100)}, settings=FEW, n_outcomes=n))
        for n in (1, 10)
    )  # fmt: skip
    np.testing.assert_allclose(ten["p_adjusted"], np.minimum(10 * one["p_adjusted"], 1.0))
    groups = ten["level"] == "group"
    assert set(ten.loc[groups & ten["se"].notna(), "family_size"]) == {40}


def test_ratings_that_are_all_the_same_have_no_interval_and_no_answer():
    table = disparities(build_ratings(np.full((20, 4, 4), 50.0), list("ABCD")))
    assert set(answers_of(table).values()) == {"no_estimate"}
    assert view_of(table)["note"].str.len().min() > 0


def test_contrasts_of_levels_that_no_rating_links_are_not_estimated():
    y = np.array([[1.0, np.nan, np.nan, 2.0], [3.0, np.nan, np.nan, 5.0], [4.0, np.nan, np.nan, 1.0]])
    found = cell_contrasts(y, np.array([[1.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -1.0]]), np.zeros(4, dtype=int))
    assert np.isnan(found.delta[0])
    assert found.delta[1] == pytest.approx(np.mean(y[:, 0] - y[:, 3]))


# --- Simulated --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("disparity_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


@pytest.mark.simulation
@pytest.mark.parametrize("place", [1, 6, 9])
def test_intervals_cover_and_families_hold_their_level(benchmark, place):
    n = 60
    found = benchmark.errors(benchmark.CASES[place], datasets=n, seed=1)
    tested = set()
    for name, share in found.items():
        if name.startswith("coverage") and ("terms" in name or "labels" in name or not benchmark.CASES[place].words):
            assert share > 95 - 4 * 100 * (0.05 * 0.95 / n) ** 0.5, name
            tested.add("coverage")
        if name.startswith("family") or name == "omnibus":
            assert share < 5 + 3 * 100 * (0.05 * 0.95 / n) ** 0.5, name
            tested.add("family")
    assert tested == {"coverage", "family"}


# --- Beside a baseline ------------------------------------------------------------------------------------------------


def gaps_of(ratings, *, told=None, scale=(0.0, 100.0)):
    """Return the disparity of each group as a gap, by group."""
    told = told or Repetition({"religion": {term: term for term in ratings["experiencer"].unique()}})
    found = analyse_outcome(INTENSITY, compact_ratings(ratings), seed=0, settings=FEW, repetition=told)
    made = disparity_gaps(found, scales={"origin": scale}, settings=FEW, repetition=told)
    return {gap.member: gap for gap in made}


def beside(run, baseline, *, margin=2.0):
    """Hold disparities beside a baseline's, by group."""
    held = hold(
        list(run.values()), {gap.key: gap for gap in baseline.values()}, margins={"disparity": margin}, alpha=0.05,
        power=0.8,
    )  # fmt: skip
    return {each.gap.member: each for each in held}


def test_a_change_of_disparity_is_paired_by_narrative_and_by_word_by_hand():
    before = np.array([[[10.0, 14.0, 18.0, 22.0]], [[30.0, 34.0, 37.0, 41.0]]])
    run, baseline = (gaps_of(build_ratings(y, ["no persona"], list("AABB")))["A"] for y in (EIGHT, before))
    # D is -10 and -6, and was -8 and -7: changes -2 and +1, mean -0.5, SD 2.1213, SE 1.5; sums -18 and -13, SE 2.5.
    pairs = {}
    for sign, mean, narrow in ((-1.0, -0.5, 1.5), (1.0, -15.5, 2.5)):
        pair = summarise_contrasts(
            run.made.by_narrative + sign * baseline.made.by_narrative, rounding=0, confidence=0.95, n_answers=0
        )
        assert (pair.delta, pair.se) == pytest.approx((mean, narrow))
        pairs[sign] = pair
    # Each term lies 2 points from its group in both runs: a variance of 8 in each run's D, none in the change. In the
    # sum it is 4 points: (4 * 4**2) / 2 = 32 times the share 1/2 + 1/2.
    words = run.words, baseline.words
    assert [each.share * each.variance for each in words] == pytest.approx([8.0, 8.0])
    for sign, extra in ((-1.0, 0.0), (1.0, 32.0)):
        wide = over_words(pairs[sign], *words, confidence=0.95, sign=sign)
        assert (wide.se**2, wide.df) == pytest.approx((pairs[sign].se ** 2 + extra, 1.0))
    # Where not the same words count, the SD is at most the sum of both: (8**0.5 + 8**0.5)**2 = 32.
    other = baseline.words
    object.__setattr__(other, "names", ("other", *other.names[1:]))
    wide = over_words(pairs[-1.0], run.words, other, confidence=0.95)
    assert wide.se**2 == pytest.approx(1.5**2 + 32.0)


def test_words_that_both_runs_rate_alike_do_not_hide_that_nothing_changed():
    """The terms of a group are rated up to 6 points apart, by both models alike."""
    words = np.random.default_rng(40).normal(0, 3, 12)
    groups = list("AABBCCDDEEFF")
    run, same, moved = (
        gaps_of(build_ratings(drawn(40, groups, noise=1.0, seed=seed) + words + more, groups))
        for seed, more in ((41, 0.0), (42, 0.0), (43, np.repeat([-20.0, 0, 0, 0, 0, 0], 2)))
    )
    assert run["A"].made.se > 1  # beside any such terms
    found = beside(run, same)
    assert {each.decided for each in found.values()} == {"within"}
    assert beside(moved, run)["A"].decided == "beyond"
    # Of terms that moved each by itself, no change of the group is shown, and none ruled out.
    apart = np.random.default_rng(44).normal(0, 3, 12)
    other = gaps_of(build_ratings(drawn(40, groups, noise=1.0, seed=45) + apart, groups))
    assert "undecided" in {each.decided for each in beside(other, run).values()}
    assert "beyond" not in {each.decided for each in beside(other, run).values()}


def test_labels_of_invented_groups_are_paired_too():
    labels = np.array([-1.0, 1.0, -0.5, 0.5])
    groups = list("ABCD")

    def gaps(seed, more=0.0):
        real = build_ratings(drawn(40, groups, noise=1.0, seed=seed) + more, groups)
        invented = build_ratings(drawn(40, groups, noise=1.0, seed=seed + 50) + labels, list("WXYZ"), dimension="made")
        ratings = pd.concat([real, invented], ignore_index=True)
        return gaps_of(ratings.assign(prompt_index=range(len(ratings))), told=Repetition({}, ("made",)))

    run, same = gaps(60), gaps(61)
    # σ² = (1 + 1 + .25 + .25) / 3 and a share of 4/3: without pairing ±3.2 * 1.49 of the change would reach beyond 2.
    assert run["A"].made.se == pytest.approx((2.5 / 3 * 4 / 3) ** 0.5, abs=0.2)
    assert {each.decided for each in beside(run, same).values()} == {"within"}
    assert beside(gaps(62, np.array([-20.0, 0, 0, 0])), run)["A"].decided == "beyond"


@pytest.mark.simulation
def test_a_group_at_the_margin_is_hardly_ever_said_to_lie_within_it_or_beyond(benchmark):
    n = 40
    found = benchmark.errors(benchmark.CASES[5], datasets=n, seed=2, margin=20.0)
    most = 5 + 3 * 100 * (0.05 * 0.95 / n) ** 0.5
    assert found["within"] < most
    assert found["beyond"] < most
    assert found["found"] > 90
