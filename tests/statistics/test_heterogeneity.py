"""Oracles: statsmodels' Brown–Forsythe test and Hotelling's test, all sign flips by hand; planted gaps."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import build_ratings
from statsmodels.stats.multivariate import test_mvmean as hotelling
from statsmodels.stats.oneway import anova_oneway

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.heterogeneity import between_emotions, between_groups
from audit.tables.gap import HETEROGENEITY

NAN = np.nan


def rng():
    return np.random.default_rng(0)


def estimates_of(contrasts, names="ABCDEFGHIJKL"):
    """An estimate by group, from contrasts of shape (K, N)."""
    made = {}
    for name, own in zip(names, contrasts, strict=False):
        made[name] = summarise_contrasts(np.array(own), rounding=0.0, confidence=0.95, n_answers=1)
    return made


def flipped(contrasts, n_permutations=999):
    return between_groups(estimates_of(contrasts), rng=rng(), n_permutations=n_permutations)


def ratings_of(gap, *, k=4, groups="ABCDEFGHIJKL", seed=0, noise=3.0, own=(), baselines=False):
    """Ratings of narratives of the emotions anger and joy in turn, with the gap of each and a group's own besides."""
    generator, n = np.random.default_rng(seed), len(gap)
    y = 50 + generator.normal(0, 6, (n, 1, 1)) + np.array(gap, dtype=float)[:, None, None] * np.eye(k)
    y = y + generator.normal(0, 5, (1, k, 1)) + generator.normal(0, noise, (n, k, k))
    for place, points in dict(own).items():
        y[:, place, place] += points
    names = list(groups[:k])
    if baselines:
        y, names = np.pad(y, ((0, 0), (1, 0), (1, 0)), constant_values=99.0), ["unspecified", *names]
    return build_ratings(y, names)


def rows_of(*tables, seed=1, **settings):
    ratings = pd.concat(tables, ignore_index=True)
    found = analyse(
        ratings, scales={"origin": (0.0, 100.0)}, seed=seed, settings=AnalysisSettings(n_permutations=200, **settings)
    ).tables["heterogeneity"]
    assert list(found) == list(HETEROGENEITY)
    return {(row["dimension"], row["over"]): row for row in found.to_dict("records")}


# --- Emotions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2, 2), (5, 5, 5, 5, 5), (20, 5, 3, 9), (4, 7)])
def test_between_emotions_is_brown_and_forsythe_s_test_as_mehrotra_corrects_it(sizes):
    gaps = {f"e{j}": np.random.default_rng([3, j]).normal(j, 1 + j, n) for j, n in enumerate(sizes)}
    found, oracle = between_emotions(gaps), anova_oneway(list(gaps.values()), use_var="bf")
    assert found["statistic"] == pytest.approx(oracle.statistic)
    assert (found["df"], found["df_residual"]) == pytest.approx(oracle.df)
    assert found["p"] == pytest.approx(oracle.pvalue)
    assert found["n_members"] == len(sizes)


def test_an_emotion_of_one_narrative_is_left_out_and_named():
    gaps = {"joy": np.array([1.0, 3.0, 4.0]), "fear": np.array([7.0, 9.0])}
    found = between_emotions(gaps | {"calm": np.array([1000.0])})
    assert found["note"].endswith("; without calm, of one narrative")
    assert {**found, "note": ""} == {**between_emotions(gaps), "note": ""}


@pytest.mark.parametrize(
    ("gaps", "n", "why"),
    [
        ({"joy": [1, 2, 3]}, 1, "fewer than two emotions"),
        ({"joy": [1, 2, 3], "fear": [7]}, 1, "fewer than two emotions"),
        ({"joy": [1, 1], "fear": [7, 7, 7]}, 2, "all narratives of an emotion have the same gap"),
        ({"joy": [0, 0], "fear": [0, 0]}, 2, "all narratives of an emotion have the same gap"),
        ({}, 0, "fewer than two emotions"),
    ],
)
def test_emotions_that_can_not_be_compared_have_a_note_and_no_p(gaps, n, why):
    found = between_emotions({name: np.array(own, dtype=float) for name, own in gaps.items()})
    assert (found["n_members"], "p" in found) == (n, False)
    assert why in found["note"]


def test_opposite_gaps_of_emotions_are_found_where_the_average_is_none():
    """anger −7, joy +7: the mean is 0 and says nothing of it."""
    hidden, same = ratings_of([-7, 7] * 8), ratings_of([0, 0] * 8)
    assert rows_of(hidden)["religion", "emotion"]["p"] < 1e-6
    assert rows_of(same)["religion", "emotion"]["p"] > 0.05
    assert rows_of(hidden)["religion", "group"]["p"] > 0.05


# --- Groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "n"), [(3, 6), (5, 30), (12, 24)])
def test_between_groups_is_hotelling_s_test_of_differences(k, n):
    contrasts = np.random.default_rng(4).normal(0, np.arange(1, k + 1)[:, None], (k, n)) + rng().normal(0, 9, n)
    found, oracle = flipped(contrasts), hotelling((contrasts[:-1] - contrasts[-1]).T)
    assert found["statistic"] == pytest.approx(oracle.statistic)
    assert (found["df"], found["df_residual"]) == (k - 1, n - k + 1) == oracle.df
    assert found["p"] == pytest.approx(oracle.pvalue)


def test_of_few_narratives_the_signs_of_whole_narratives_are_flipped():
    contrasts = np.random.default_rng(5).normal(0, 1, (6, 7))
    contrasts[2] += 2.5
    changes = contrasts - (contrasts.sum(axis=0) - contrasts) / 5

    def mean_f(values):
        return np.mean([v.mean() ** 2 / (v.var(ddof=1) / 7) for v in values])

    drawn = [mean_f(changes * np.array(signs)) for signs in product([-1, 1], repeat=7)]
    exact = np.mean(np.array(drawn) >= mean_f(changes) * (1 - 1e-9))
    found = flipped(contrasts, n_permutations=20_000)
    assert found["statistic"] == pytest.approx(mean_f(contrasts - (contrasts.sum(axis=0) - contrasts) / 5))
    assert found["p"] == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 20_000) ** 0.5)
    assert 0 < exact < 0.2
    assert "20,000 flips" in found["note"]


def test_neither_the_order_of_narratives_nor_that_of_groups_alters_the_draws():
    contrasts = np.random.default_rng(6).normal(0, 1, (6, 9))
    estimates = estimates_of(contrasts)
    other = dict(reversed(estimates_of(contrasts[:, ::-1]).items()))
    first, second = (between_groups(each, rng=rng(), n_permutations=500) for each in (estimates, other))
    assert first["p"] == second["p"]


@pytest.mark.parametrize(
    ("contrasts", "n", "why"),
    [
        ([], 0, "fewer than three groups"),
        ([[1.0, 2.0]], 1, "fewer than three groups"),
        ([[1.0], [2.0], [5.0]], 3, "one narrative"),
        ([[1.0, 2.0], [3.0, 4.0], [7.0, 8.0]], 3, "the same differences between groups"),
        ([[0.0] * 9] * 3, 3, "the same differences between groups"),
    ],
)
def test_groups_that_can_not_be_compared_have_a_note_and_no_p(contrasts, n, why):
    found = flipped(contrasts)
    assert (found["n_members"], "p" in found) == (n, False)
    assert why in found["note"]


def test_one_odd_group_of_twelve_is_found_and_a_common_gap_is_not():
    odd = ratings_of([0] * 30, k=12, own={4: 36.0})
    common = ratings_of([10] * 30, k=12)
    assert rows_of(odd)["religion", "group"]["p"] < 1e-6
    assert rows_of(common)["religion", "group"]["p"] > 0.05
    assert rows_of(common)["religion", "group"]["n_members"] == 12


def test_with_fewer_narratives_than_groups_an_odd_group_is_found_too():
    found = rows_of(ratings_of([0] * 10, k=12, own={4: 36.0}))["religion", "group"]
    assert found["p"] < 0.05
    assert "flips" in found["note"]


# --- The table -------------------------------------------------------------------------------------------------------


def test_p_is_corrected_over_the_rows_of_the_table():
    rows = rows_of(ratings_of([-2, 2] * 8), ratings_of([1] * 16, seed=4).assign(dimension="nation"))
    assert list(rows) == [(name, over) for name in ("religion", "nation") for over in ("emotion", "group")]
    p = np.array([row["p"] for row in rows.values()])
    # Holm: the smallest times 4, the next times 3, and so on, none below the one before
    by_hand = np.minimum(1, np.maximum.accumulate(np.sort(p) * [4, 3, 2, 1]))[p.argsort().argsort()]
    assert [row["p_adjusted"] for row in rows.values()] == pytest.approx(by_hand)


def test_two_groups_and_an_in_group_of_another_kind_are_not_tested():
    found = rows_of(ratings_of([1] * 8, k=2), ratings_of([1] * 8, k=3).assign(dimension="b", perceiver_group="A"))
    for name in ("religion", "b"):
        assert np.isnan(found[name, "group"]["p"])
        assert "fewer than three groups" in found[name, "group"]["note"]
        assert np.isnan(found[name, "group"]["p_adjusted"])


def test_what_should_not_matter_does_not():
    """Baselines, another dimension, the order of rows, and, where all else is told by F, the seed."""
    gap = [-2, 2, 1, -1] * 4
    plain = rows_of(ratings_of(gap))
    shuffled = ratings_of(gap).sample(frac=1, random_state=3)
    others = rows_of(ratings_of(gap, baselines=True)), rows_of(shuffled), rows_of(ratings_of(gap), seed=9)
    others += (rows_of(ratings_of([1] * 9, seed=8).assign(dimension="a"), ratings_of(gap)),)
    for over in ("emotion", "group"):
        for other in others:
            assert other["religion", over]["p"] == pytest.approx(plain["religion", over]["p"], rel=1e-9)


def test_a_missing_rating_leaves_the_tests_in_place():
    ratings = ratings_of([-7, 7] * 8)
    whole = rows_of(ratings)
    holed = ratings.copy()
    holed.loc[7, ["status", "intensity"]] = "refused", None
    found = rows_of(holed)
    for over in ("emotion", "group"):
        assert found["religion", over]["n_members"] == whole["religion", over]["n_members"]
        assert found["religion", over]["df_residual"] == pytest.approx(whole["religion", over]["df_residual"], rel=0.2)
    assert found["religion", "emotion"]["p"] < 1e-6


# --- Levels ----------------------------------------------------------------------------------------------------------


def below(n, rate):
    """Four standard errors above a rate."""
    return rate + 4 * (rate * (1 - rate) / n) ** 0.5


@pytest.mark.parametrize(
    ("sizes", "sds"),
    [
        ((2,) * 5, (1,) * 5),
        ((10,) * 5, (1, 1.5, 2, 2.5, 3)),
        ((20, 5, 5, 5, 5), (1, 2, 2, 3, 3)),
        ((2,) * 12, (1,) * 12),
    ],
    ids=["2 of each", "10 of each, unequal spread", "unequal numbers and spread", "2 of each of twelve"],
)
def test_the_test_of_emotions_holds_its_level(sizes, sds):
    generator, n = np.random.default_rng(11), 1000
    rejected = 0
    for _ in range(n):
        gaps = {f"e{j}": sd * generator.normal(size=size) for j, (size, sd) in enumerate(zip(sizes, sds, strict=True))}
        rejected += between_emotions(gaps)["p"] <= 0.05
    assert rejected / n <= below(n, 0.05)


@pytest.mark.parametrize(("k", "n", "least"), [(5, 30, 0.02), (12, 24, 0.02), (12, 10, 0.02)])
def test_the_test_of_groups_holds_its_level(k, n, least):
    generator, times = np.random.default_rng(12), 400
    rejected = 0
    for _ in range(times):
        spread = generator.normal(0, np.linspace(1, 2, k)[:, None], (k, n)) + generator.normal(0, 2, n)
        rejected += flipped(spread, n_permutations=199)["p"] <= 0.05
    assert least <= rejected / times <= below(times, 0.05)
