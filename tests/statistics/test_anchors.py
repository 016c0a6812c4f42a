"""Oracles: hand-worked numbers, pandas' groupby, Holm's correction by statsmodels."""

import numpy as np
import pandas as pd
import pytest
from conftest import build_ratings
from statsmodels.stats.multitest import multipletests

from audit.comparing.changes import compared_gap_table
from audit.comparing.run_gaps import gaps_of_ratings
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.anchors import sd_within

NAN = np.nan
SCALES = {"origin": (0.0, 100.0), "10-scale": (1.0, 5.0)}
SETTINGS = AnalysisSettings(n_permutations=200)
ANCHORS = ["percent_of_scale", "sd_within", "delta_sd", "raw_in", "raw_out"]


def gap_of(*tables, seed=1):
    ratings = pd.concat(tables, ignore_index=True)
    return analyse(ratings, scales=SCALES, seed=seed, settings=SETTINGS).tables["gap"]


def headline(gap, dimension="religion", variant="origin", scope="narratives"):
    chosen = gap["headline"].astype(bool) & (gap["scope"] == scope)
    return gap[chosen & (gap["dimension"] == dimension) & (gap["variant"] == variant)].iloc[0]


def random_ratings(groups, seed=0, n=12, **options):
    k = len(groups)
    generator = np.random.default_rng(seed)
    effects = generator.normal(0, 9, (1, k, 1)) + generator.normal(0, 9, (1, 1, k)) + generator.normal(0, 8, (n, 1, 1))
    y = 50 + effects + generator.normal(0, 5, (n, k, k))
    return build_ratings(y, list(groups), **options)


# --- Plain means and sizes -------------------------------------------------------------------------------------------


def test_worked_by_hand():
    # Narrative 1 has 60, 50, 40, 70: mean 55, squares 25 + 25 + 225 + 225. Narrative 2 has 55, 50, 45, 60: mean 52.5,
    # squares 6.25 + 6.25 + 56.25 + 56.25. Pooled (500 + 125)/6.
    row = headline(gap_of(build_ratings([[[60, 50], [40, 70]], [[55, 50], [45, 60]]], list("AB"))))
    assert (row["raw_in"], row["raw_out"]) == ((60 + 70 + 55 + 60) / 4, (50 + 40 + 50 + 45) / 4)
    assert row["sd_within"] == pytest.approx((625 / 6) ** 0.5)
    assert row["delta"] == pytest.approx(15)
    assert row["delta_sd"] == pytest.approx(15 / (625 / 6) ** 0.5)
    assert row["percent_of_scale"] == pytest.approx(15)


def test_percent_is_of_the_scale_s_length():
    y = [[[3, 2], [2, 4]], [[3, 2], [1, 4]]]
    row = headline(gap_of(build_ratings(y, list("AB"), variant="10-scale")), variant="10-scale")
    assert row["delta"] == pytest.approx((1.5 + 2) / 2)
    assert row["percent_of_scale"] == pytest.approx(100 * 1.75 / 4)  # from 1 to 5


def test_raw_means_and_the_gap_can_disagree_in_sign():
    """Planted: 5 of 6 terms are one group, whose own rate low and are rated low; every group favours its own by 3."""
    labels = np.array(list("AAAAAB"))
    effects = np.where(labels == "A", -10.0, 0.0)
    y = 60 + effects[:, None] + effects + 3.0 * (labels[:, None] == labels)
    row = headline(gap_of(build_ratings(y + np.random.default_rng(0).normal(0, 0.1, (10, 6, 6)), list(labels))))
    assert row["delta"] == pytest.approx(3, abs=0.2)
    # 25 pairs at 43 and one at 63 in-group; 10 pairs at 50 out-group
    assert (row["raw_in"], row["raw_out"]) == pytest.approx(((25 * 43 + 63) / 26, 50), abs=0.1)
    assert row["raw_in"] < row["raw_out"]


def test_anchors_are_of_the_headline_s_ratings_whatever_is_missing():
    ratings = random_ratings("AABC")
    ratings.loc[[3, 40, 77], ["status", "intensity"]] = "refused", None
    row = headline(gap_of(ratings))
    rated = ratings[ratings["status"] == "rated"].astype({"intensity": float, "in_group": bool})
    means = rated.groupby("in_group")["intensity"].mean()
    assert (row["raw_in"], row["raw_out"]) == pytest.approx((means[True], means[False]))
    centred = rated["intensity"] - rated.groupby("narrative_id")["intensity"].transform("mean")
    df = len(rated) - rated["narrative_id"].nunique()
    assert row["sd_within"] == pytest.approx(((centred**2).sum() / df) ** 0.5)


def test_other_rows_have_the_share_of_the_scale_alone_and_the_published_none():
    gap = gap_of(random_ratings("AABCDE"))
    own = gap["headline"].astype(bool)
    assert gap.loc[~own, ANCHORS[1:]].isna().all(axis=None)
    assert gap.loc[own, ANCHORS].notna().all(axis=None)
    assert gap["percent_of_scale"].isna().tolist() == (gap["estimator"] == "published").tolist()


def test_ratings_that_are_all_the_same_are_no_unit():
    row = headline(gap_of(build_ratings(np.full((4, 3, 3), 50.0), list("ABC"))))
    assert (row["sd_within"], row["raw_in"], row["raw_out"], row["percent_of_scale"]) == (0, 50, 50, 0)
    assert np.isnan(row["delta_sd"])


def test_a_narrative_with_one_rating_says_nothing_of_the_spread():
    y = np.array([[[1.0, 3.0]], [[9.0, NAN]], [[NAN, NAN]]])
    assert sd_within(y) == pytest.approx(2**0.5)  # 1 + 1 over 1
    assert np.isnan(sd_within(y[1:]))


def test_neither_baselines_nor_narratives_without_a_rating_alter_an_anchor():
    rng = np.random.default_rng(3)
    y = rng.normal(50, 9, (8, 3, 3))
    wider = np.pad(y, ((0, 0), (1, 0), (1, 0)), constant_values=99.0)
    plain = headline(gap_of(build_ratings(y, list("ABC"))))
    other = headline(gap_of(build_ratings(wider, ["unspecified", *"ABC"])))
    assert other[ANCHORS].tolist() == pytest.approx(plain[ANCHORS].tolist())


def test_the_mean_over_dimensions_has_the_means_of_their_anchors():
    gap = gap_of(random_ratings("AABC"), random_ratings("ABCD", seed=1, dimension="nation"))
    row, parts = headline(gap, "all"), [headline(gap, name) for name in ("religion", "nation")]
    for name in ("raw_in", "raw_out", "percent_of_scale"):
        assert row[name] == pytest.approx(np.mean([part[name] for part in parts]))
    assert row["sd_within"] == pytest.approx(np.mean([part["sd_within"] ** 2 for part in parts]) ** 0.5)
    assert row["delta_sd"] == pytest.approx(row["delta"] / row["sd_within"])


# --- p over all headlines --------------------------------------------------------------------------------------------


def test_p_is_corrected_over_the_headlines_of_all_dimensions_and_variants_but_not_their_mean():
    tables = [
        random_ratings("ABC", seed=seed, dimension=name, variant=variant)
        for seed, (name, variant) in enumerate([("a", "origin"), ("b", "origin"), ("a+b", "origin"), ("a", "10-scale")])
    ]
    gap = gap_of(*tables)
    family = gap["headline"].astype(bool) & (gap["scope"] == "narratives") & (gap["dimension"] != "all")
    assert family.sum() == 4
    own = gap[family]
    assert own["p_adjusted"].tolist() == pytest.approx(multipletests(own["p"], method="holm")[1])
    assert (own["family_size"] == 4).all()
    assert (gap["dimension"] == "all").any()
    assert gap.loc[~family, ["p_adjusted", "family_size"]].isna().all(axis=None)


def test_a_headline_without_a_p_is_in_no_family():
    gap = gap_of(random_ratings("ABC"), random_ratings("AAA", dimension="alone"))
    assert headline(gap)["family_size"] == 1
    assert headline(gap)["p_adjusted"] == headline(gap)["p"]
    assert np.isnan(headline(gap, "alone")["p_adjusted"])


def test_a_comparison_corrects_over_all_its_runs():
    measured = {}
    for seed in range(3):
        ratings = pd.concat([random_ratings("ABC", seed=seed), random_ratings("ABCD", seed=seed, dimension="nation")])
        [measured[f"run {seed}"]] = gaps_of_ratings(ratings, scale=(0.0, 100.0), seed=1, settings=SETTINGS)
    gap = compared_gap_table(measured)
    family = (gap["scope"] == "narratives") & (gap["dimension"] != "all")
    assert family.sum() == 6
    assert gap.loc[family, "p_adjusted"].tolist() == pytest.approx(
        multipletests(gap.loc[family, "p"], method="holm")[1].tolist()
    )
    assert (gap.loc[family, "family_size"] == 6).all()
    assert gap.loc[~family, "p_adjusted"].isna().all()
    # All else of a headline is what the run's own report says.
    alone = gap_of(random_ratings("ABC", seed=0), random_ratings("ABCD", seed=0, dimension="nation"))
    row = gap[(gap["run"] == "run 0") & (gap["dimension"] == "religion") & (gap["scope"] == "narratives")].iloc[0]
    assert row[[*ANCHORS, "p"]].tolist() == pytest.approx(headline(alone)[[*ANCHORS, "p"]].tolist())
