"""People beside the model: what is put together, and a planted correlation found again."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.people.measure_agreement import human_table, people_tables
from audit.statistics.agreement import MIN_UNITS, krippendorff_alpha
from audit.statistics.estimate_rows import child_rng
from audit.tables.cells import NARRATIVES
from audit.tables.people import HUMAN
from audit.tables.people_of_replies import AGREEMENT, HUMAN_CORRELATIONS
from audit.tables.replies import REPLIES
from audit.tables.shared import OVERALL


def normal_pairs(n, r, rng):
    """Draw pairs whose Spearman correlation is 6/π · asin(r/2)."""
    return rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size=n)


def narratives_of(means, emotions):
    rows = {
        "dimension": "religion",
        "variant": "origin",
        "narrative_id": [f"n{place}" for place in range(len(means))],
        "emotion": emotions,
        "mean": means,
    }
    return pd.DataFrame(rows).reindex(columns=list(NARRATIVES))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_planted_correlation_of_model_and_people_is_within_its_interval(seed):
    pairs = normal_pairs(400, 0.6, np.random.default_rng(seed))
    narratives = narratives_of(pairs[:, 0], ["sad", "happy"] * 200)
    human = {f"n{place}": value for place, value in enumerate(pairs[:, 1])}
    table = human_table(narratives, human, seed=0, confidence=0.99)
    assert list(table) == list(HUMAN)
    assert list(table["emotion"]) == [OVERALL, "sad", "happy"]
    planted = 6 / math.pi * math.asin(0.3)
    assert ((table["rho_low"] < planted) & (planted < table["rho_high"])).all()
    assert table["rho"][0] == pytest.approx(stats.spearmanr(pairs[:, 0], pairs[:, 1]).statistic, rel=1e-12)


def test_narratives_that_people_did_not_rate_are_missing_and_without_people_there_is_no_row():
    narratives = narratives_of(np.arange(30.0), ["sad"] * 30)
    table = human_table(narratives, {f"n{place}": -place for place in range(20)}, seed=0, confidence=0.95)
    assert table[["rho", "n", "n_missing"]].iloc[0].tolist() == [-1.0, 20, 10]
    assert human_table(narratives, {}, seed=0, confidence=0.95).empty


def test_raters_beside_measures_replies_by_their_mean_and_narratives_resampled_as_a_whole():
    rng = np.random.default_rng(5)
    n = 60
    truth = rng.normal(size=n)
    replies = pd.DataFrame(
        {"prompt_index": np.arange(n), "narrative_id": [f"n{place // 2}" for place in range(n)], "emotion": "sad"}
    ).reindex(columns=list(REPLIES))
    rated = [
        {
            "rater": rater,
            "prompt_index": place,
            "question": "empathy",
            "score": float(np.clip(np.round(3 + value), 1, 5)),
        }
        for rater, noise in (("a", 0.2), ("b", 0.2))
        for place, value in enumerate(truth + rng.normal(scale=noise, size=n))
    ]
    human = pd.DataFrame(rated)
    human.loc[0, "score"] = np.nan
    values = pd.DataFrame({"n_words": truth, "eq": rng.normal(size=n)}, index=np.arange(n))
    tables = people_tables(human, values, replies, seed=0, confidence=0.95)
    agreement = tables["agreement"]
    assert list(agreement) == list(AGREEMENT)
    counts = agreement[["n_raters", "n_items", "n_narratives", "n_scores", "n_left_out"]].iloc[0].tolist()
    assert counts == [2, n - 1, n // 2, 2 * (n - 1), 1]
    # Oracle: α with the narrative of each reply as its cluster.
    matrix = human.pivot(index="rater", columns="prompt_index", values="score").to_numpy()
    rng, clusters = child_rng(0, "", "empathy", "agreement"), replies["narrative_id"].tolist()
    oracle = krippendorff_alpha(matrix, rng=rng, clusters=clusters)
    assert agreement[["alpha", "ci_low", "ci_high"]].iloc[0].tolist() == [oracle.alpha, oracle.ci_low, oracle.ci_high]
    assert oracle.alpha > 0.8
    found = tables["human_correlations"]
    assert list(found) == list(HUMAN_CORRELATIONS)
    overall = found.loc[found["emotion"] == OVERALL].set_index("measure")
    mean = human.groupby("prompt_index")["score"].mean()
    assert overall.loc["n_words", "rho"] == pytest.approx(stats.spearmanr(truth, mean).statistic, rel=1e-12)
    assert overall.loc["eq", "rho_low"] < 0 < overall.loc["eq", "rho_high"]
    assert (overall["n_narratives"] == n // 2).all()


def test_many_replies_to_few_narratives_have_an_alpha_and_no_interval():
    rng = np.random.default_rng(1)
    n = 5 * (MIN_UNITS - 1)
    replies = pd.DataFrame(
        {"prompt_index": np.arange(n), "narrative_id": [f"n{place // 5}" for place in range(n)], "emotion": "sad"}
    ).reindex(columns=list(REPLIES))
    human = pd.DataFrame(
        [(rater, place, "empathy", float(rng.integers(1, 6))) for rater in "ab" for place in range(n)],
        columns=["rater", "prompt_index", "question", "score"],
    )
    row = people_tables(human, pd.DataFrame(index=np.arange(n)), replies, seed=0, confidence=0.95)["agreement"].iloc[0]
    assert row["n_items"] == n
    assert not math.isnan(row["alpha"])
    assert math.isnan(row["ci_low"])
    assert row["note"] == f"{MIN_UNITS - 1} narratives are too few for an interval, which takes {MIN_UNITS}"
    assert f"of fewer than {MIN_UNITS} there is no interval" in AGREEMENT["n_narratives"].meaning


def test_one_rater_has_no_agreement_and_says_so():
    human = pd.DataFrame([{"rater": "a", "prompt_index": 0, "question": "empathy", "score": 3.0}])
    replies = pd.DataFrame({"prompt_index": [0], "narrative_id": ["n"], "emotion": ["sad"]}).reindex(
        columns=list(REPLIES)
    )
    tables = people_tables(human, pd.DataFrame(index=[0]), replies, seed=0, confidence=0.95)
    assert math.isnan(tables["agreement"]["alpha"][0])
    assert "two raters" in tables["agreement"]["note"][0]
    assert tables["human_correlations"].empty
