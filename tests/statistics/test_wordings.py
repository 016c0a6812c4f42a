"""Oracles: ratings laid out by hand, the headline of each wording by itself, planted effects of wordings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import build_ratings
from simulated_ratings import calibrate_ratings

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Repetition
from audit.statistics.crossed import crossed_gap
from audit.statistics.headline import headline_gap
from audit.statistics.missing import missing_rows
from audit.statistics.ratings import compact_ratings
from audit.statistics.wordings import WordingGaps, cube_of_prompts, wording_cubes
from audit.tables.controls import WORDING_SHARES, WORDINGS

NAN = np.nan
NAMES = {"dimension": "religion", "variant": "origin"}


def worded(*cubes, groups="ABCDE"):
    """Lay out one y of shape (N, P, E) for each wording."""
    tables = [build_ratings(y, list(groups)).assign(wording=k) for k, y in enumerate(cubes)]
    return pd.concat(tables, ignore_index=True).assign(prompt_index=range(sum(map(len, tables))))


def planted(effects, *, n=12, groups="ABCDE", seed=0, sd=1.0):
    """Ratings with a gap of 3, what narratives and wordings add to it, and what wordings add to every rating."""
    rng, k = np.random.default_rng(seed), len(groups)
    own = np.eye(k)
    gaps, levels = rng.normal(3, 1, (n, 1, 1)), rng.normal(50, 6, (n, 1, 1))
    return [
        levels + 20 * place + (gaps + effect) * own + rng.normal(0, sd, (n, k, k))
        for place, effect in enumerate(effects)
    ]


def analysed(ratings, stems=None, **settings):
    return analyse(
        ratings, scales={"origin": (0.0, 200.0)}, seed=1,
        settings=AnalysisSettings(**{"n_permutations": 200} | settings),
        repetition=Repetition({NAMES["dimension"]: stems or {}}),
    ).tables  # fmt: skip


def cube_from(ratings):
    return NarrativeCube.from_ratings(ratings, **NAMES, baselines=True)


# --- Ratings averaged over wordings ----------------------------------------------------------------------------------


def test_a_rating_is_the_mean_over_the_wordings_that_were_rated():
    first, second = np.full((2, 2, 2), 10.0), np.full((2, 2, 2), 30.0)
    first[0, 0, 1] = second[1, 1, 0] = first[1, 1, 1] = second[1, 1, 1] = NAN
    cube = cube_from(worded(first, second, groups="AB"))
    expected = np.full((2, 2, 2), 20.0)
    expected[0, 0, 1], expected[1, 1, 0], expected[1, 1, 1] = 30, 10, NAN
    np.testing.assert_array_equal(cube.y, expected)
    # Rated where one wording is; NaN was a refusal.
    assert cube.status[1, 1, 1] == 1
    assert (cube.status == 0).sum() == 7
    np.testing.assert_array_equal(cube.n_by_status[0, 0, 1], [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(cube.n_by_status[1, 1, 1], [0, 2, 0, 0, 0])


def test_one_wording_is_laid_out_as_ratings_without_a_wording_are():
    y = planted([0.0])[0]
    with_number, without = worded(y), worded(y).drop(columns="wording")
    one, other = cube_from(with_number), cube_from(without)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.of_wordings is None
    for name, table in analysed(with_number).items():
        pd.testing.assert_frame_equal(table, analysed(without)[name])


def test_a_prompt_that_occurs_twice_in_a_wording_is_named_and_one_in_each_is_none():
    ratings = worded(*planted([0.0, 1.0], n=2))
    cube_from(ratings)
    with pytest.raises(ValueError, match=r"2 rows of dimension 'religion'.*'n1'"):
        cube_from(pd.concat([ratings, ratings.iloc[[-1]]]))


def test_ratings_that_have_lost_their_wording_are_no_mean_of_it():
    with pytest.raises(ValueError, match="2 rows of dimension 'religion'"):
        cube_from(worded(*planted([0.0, 1.0], n=2)).drop(columns="wording"))


def test_refusals_are_counted_in_every_wording():
    first, second = planted([0.0, 0.0], n=4, groups="AB")
    second[:, 0, 1] = second[:, 1, 0] = NAN  # out-group pairs, in the second wording
    row = next(iter(missing_rows(cube_from(worded(first, second, groups="AB")), confidence=0.95)))
    assert row["outcome"] == "refused"
    assert (row["rate_in_group"], row["rate_out_group"], row["gap_pp"]) == (0, 0.5, -50)
    assert (row["n_prompts"], row["n_with_outcome"], row["n_narratives"]) == (32, 8, 4)


def test_counts_are_of_prompts_and_sums_of_tables_agree():
    ratings = worded(*planted([0.0, 2.0, 4.0], n=6))
    tables = analysed(ratings)
    for name in ("cells", "cell_emotions", "narratives"):
        assert tables[name]["n_prompts"].sum() == len(ratings)
    assert tables["distributions"]["n_ratings"].sum() == len(ratings)
    assert tables["modes"]["n"].tolist() == [len(ratings)]


def test_prompts_by_themselves_are_all_there():
    ratings = compact_ratings(worded(*planted([0.0, 2.0], n=3)))
    cube = cube_of_prompts(ratings, **NAMES)
    assert cube.y.shape == (6, 5, 5)
    np.testing.assert_array_equal(np.sort(cube.y.ravel()), np.sort(ratings["intensity"].to_numpy()))


def test_a_run_in_several_wordings_can_be_calibrated():
    table = calibrate_ratings(worded(*planted([0.0, 2.0])), n_datasets=5, delta=1.0, seed=0, confidence=0.95, power=0.8)
    assert table["n_datasets"].max() == 5


# --- Wording by wording ----------------------------------------------------------------------------------------------


def test_each_wording_has_the_headline_of_its_own_ratings():
    cubes = planted([0.0, 2.0, -1.0])
    tables = analysed(worded(*cubes))
    wordings = tables["wordings"]
    assert list(wordings.columns) == list(WORDINGS)
    assert wordings["wording"].tolist() == [0, 1, 2]
    for row, y in zip(wordings.to_dict("records"), cubes, strict=True):
        alone = headline_gap(cube_from(build_ratings(y, list("ABCDE"))), confidence=0.95)
        assert (row["delta"], row["se"], row["ci_low"], row["n_answers"]) == pytest.approx(
            (alone.delta, alone.se, alone.ci_low, alone.n_answers)
        )


def test_the_control_crosses_the_gaps_of_narratives_and_wordings():
    cubes = planted([0.0, 2.0, -1.0, 0.5, 1.5, -0.5, 1.0, -2.0])
    alone = [headline_gap(cube_from(build_ratings(y, list("ABCDE"))), confidence=0.95).by_narrative for y in cubes]
    expected = crossed_gap(np.column_stack(alone), confidence=0.95, n_answers=0).estimate
    tables = analysed(worded(*cubes))
    row = tables["controls"].set_index("control").loc["wording"]
    for name in ("delta", "se", "df", "ci_low", "ci_high", "p"):
        assert row[name] == pytest.approx(getattr(expected, name))
    gap = tables["gap"].query("headline and scope == 'narratives'").iloc[0]
    assert row["delta"] == pytest.approx(gap["delta"])
    assert row["se"] > 1.5 * gap["se"]
    assert (row["levels"], row["n_answers"], row["scope"]) == (8, 8 * 12 * 25, "narratives")


@pytest.mark.parametrize(("n", "has_interval"), [(4, False), (7, False), (8, True)])
def test_few_wordings_say_nothing_of_others(n, has_interval):
    """Before, four wordings had an interval for any such wordings, and one odd one made it leave out 0 in 45%."""
    tables = analysed(worded(*planted([6.0, *[0.0] * (n - 1)], n=6)))
    row = tables["controls"].set_index("control").loc["wording"]
    assert np.isfinite(row["delta"])
    assert np.isfinite([row["se"], row["ci_low"], row["ci_high"], row["p"]]).tolist() == [has_interval] * 4
    assert bool(row["note"]) is not has_interval
    averages = analyse(
        worded(*planted([6.0, *[0.0] * (n - 1)], n=6)), scales={"origin": (0.0, 200.0)}, seed=1,
        settings=AnalysisSettings().model_copy(update={"n_permutations": 20}),
    ).averages  # fmt: skip
    if not has_interval:
        assert "too few" in averages.wordings["religion", "origin"].not_estimable


def test_narratives_keep_their_places_whatever_the_order_of_rows():
    ratings = worded(*planted([0.0, 2.0, -1.0, 0.5, 1.5, -0.5, 1.0, -2.0]))
    shuffled = ratings.sample(frac=1, random_state=0)
    one, other = (
        analysed(table)["controls"].set_index("control").loc["wording", ["delta", "se", "df"]]
        for table in (ratings, shuffled)
    )
    np.testing.assert_allclose(one.astype(float), other.astype(float))


def test_a_wording_s_level_does_not_pass_for_a_gap_where_ratings_are_missing():
    # Wordings differ by 20 points in level; the higher one refuses two out-group pairs of every narrative.
    cubes = planted([0.0, 0.0], n=30, sd=0.01)
    cubes[1][:, 0, 1] = cubes[1][:, 2, 3] = NAN
    part = compact_ratings(worded(*cubes))
    cube = cube_from(part)
    made = WordingGaps.of(part, cube, confidence=0.95)
    truth = headline_gap(cube_from(build_ratings(cubes[0], list("ABCDE"))), confidence=0.95).delta
    assert made.crossed.estimate.delta == pytest.approx(truth, abs=0.02)


def test_one_wording_has_no_rows():
    tables = analysed(worded(*planted([0.0])))
    for name in ("wordings", "wording_shares"):
        assert tables[name].empty
    assert "wording" not in set(tables["controls"]["control"])
    assert wording_cubes(compact_ratings(worded(*planted([0.0]))), **NAMES) == {}


def test_a_wording_without_a_rating_leaves_the_others_and_says_why():
    cubes = planted([0.0, 2.0])
    cubes[1][:] = NAN
    tables = analysed(worded(*cubes))
    assert tables["wordings"]["note"].tolist() == ["", "no pair of identities has a rating"]
    row = tables["controls"].set_index("control").loc["wording"]
    assert np.isnan(row["delta"])
    assert "0 of 12 narratives have a gap in every one of 2 wordings" in row["note"]
    assert tables["wording_shares"].empty


def test_the_variances_are_the_planted_ones():
    rng = np.random.default_rng(5)
    cubes = planted(rng.normal(0, 2, 16), n=200, groups="ABCDEF", sd=2.0)
    tables = analysed(worded(*cubes, groups="ABCDEF"))
    shares = tables["wording_shares"].set_index("part")
    assert list(tables["wording_shares"].columns) == list(WORDING_SHARES)
    # Narratives' gaps have SD 1, wordings' 2; the rest is σ²/s = 4/5, s = 5 of six one-term groups.
    assert shares.loc["narratives", "variance"] == pytest.approx(1, rel=0.25)
    assert shares.loc["wordings", "sd"] == pytest.approx(2, rel=0.4)
    assert shares.loc["rest", "variance"] == pytest.approx(4 / 5, rel=0.05)
    assert shares.loc["identities", "levels"] == 6
    assert shares.loc["identities", "of_delta"] < 0.01  # no group has a gap of its own


def test_groups_with_gaps_of_their_own_are_a_part_of_delta_s_variance():
    rng = np.random.default_rng(2)
    own = np.diag([9.0, 0.0, -6.0, 3.0, 0.0, 12.0])
    cubes = [y + own for y in planted(rng.normal(0, 0.3, 4), n=60, groups="ABCDEF")]
    shares = analysed(worded(*cubes, groups="ABCDEF"))["wording_shares"].set_index("part")
    assert shares.loc["identities", "share_of_delta"] > 0.9
    assert shares["share_of_delta"].sum() == pytest.approx(1)
    few = analysed(worded(*planted([0.0, 1.0], groups="ABC"), groups="ABC"))["wording_shares"].set_index("part")
    assert np.isnan(few.loc["identities", "of_delta"])
    assert "3 groups are too few" in few.loc["identities", "note"]


def test_gaps_of_wordings_are_free_of_repeated_words_where_the_headline_is():
    words = {f"person {k} of {group}": word for k, (group, word) in enumerate(
        zip("AABBCC", ("amber", "birch", "cedar", "dune", "elm", "fern"), strict=True)
    )}  # fmt: skip
    own = np.array([[a == b for b in "AABBCC"] for a in "AABBCC"])
    effects, rng = (0.0, 4.0), np.random.default_rng(0)
    gaps = rng.normal(3, 1, (8, 1, 1))
    cubes = [50 + (gaps + effect) * own + 20 * np.eye(6) for effect in effects]  # 20: the very same words
    ratings = worded(*cubes, groups="AABBCC").replace({"perceiver": words, "experiencer": words})
    tables = analysed(ratings, stems={word: word for word in words.values()})
    controls = tables["controls"].set_index("control")
    assert controls.loc["echo_free", "headline"]
    assert controls.loc["all_terms", "delta"] > 10
    np.testing.assert_allclose(tables["wordings"]["delta"], gaps.mean() + np.array(effects), atol=1e-9)
    assert controls.loc["wording", "delta"] == pytest.approx(gaps.mean() + 2)
