"""Changes of measures between runs: against the comparison of ratings, and scipy's paired t-test."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_measures import GROUPS, cube, replies_of, two_dimensions, values_of

from audit.comparing.changes import OTHER_TEXTS, measure_change_rows, strategy_rows, subtract
from audit.comparing.costs import cost_rows
from audit.comparing.run_gaps import gaps_of_ratings, gaps_of_replies
from audit.comparing.tables import REPLY_COSTS
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.comparisons import Labelled, difference
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.outcome import Outcome

SETTINGS = AnalysisSettings(n_permutations=100)
IN_RATINGS = {"delta_change": "delta_change", "ci_low": "change_low", "ci_high": "change_high", "p": "p",
              "n_narratives": "n_narratives"}  # fmt: skip


def run_of(ratings, **measured):
    """One run, in which the intensity is the measure ``eq`` unless others are given."""
    given = measured or {"eq": values_of(ratings)}
    each = [Outcome(name, values=values) for name, values in given.items()]
    return gaps_of_replies(replies_of(ratings), each, seed=0, settings=SETTINGS)


def changes_of(*runs, measures=("eq",), texts=None, confidence=0.95):
    """Changes of all runs against the first, called a, b and so on."""
    named = dict(zip("abcdef", runs, strict=False))
    others = dict.fromkeys(list(named)[1:], "a")
    rows = measure_change_rows(
        named,
        references=others,
        comparable=dict.fromkeys(others, measures),
        texts=texts or dict.fromkeys(named, "geneva"),
        confidence=confidence,
    )
    return pd.DataFrame(list(rows))


@pytest.mark.parametrize("missing", [0.0, 0.03])
def test_the_change_of_a_measure_that_is_an_intensity_is_the_one_of_ratings(ratings_of, missing):
    """The ratings' own comparison is the oracle, of single dimensions and of the mean over them."""
    rng = np.random.default_rng(5)
    ratings = [two_dimensions(ratings_of, rng, missing=each) for each in (0.0, missing)]
    measured = {
        label: next(gaps_of_ratings(each, scale=(0, 100), seed=0, settings=SETTINGS))
        for label, each in zip("ab", ratings, strict=True)
    }
    blank = dict.fromkeys(("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens", "shortened_share"), 0.0)
    wanted = strategy_rows(
        measured,
        strategies={"a": "none", "b": "ecn"},
        references={"b": "a"},
        costs=dict.fromkeys("ab", blank | {"seconds": 0.0}),
        confidence=0.95,
    )
    wanted = pd.DataFrame(list(wanted)).query("run == 'b'").set_index("dimension")
    found = changes_of(*map(run_of, ratings)).set_index("dimension")
    assert list(found.index) == ["religion", "nationality", "all"]
    for name, theirs in IN_RATINGS.items():
        assert found[name].tolist() == pytest.approx(wanted[theirs].tolist(), rel=1e-9), name
    if not missing:  # nor does the mean depend on which pairs are there
        assert found["mean_change"].tolist() == pytest.approx(wanted["mean_change"].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_change_and_a_planted_shift_are_found_within_their_intervals(ratings_of, seed):
    """By 99.9% intervals: of 3 x 4 of them one would fail in 80 tries of the test with other seeds."""
    rng = np.random.default_rng([seed, 3])
    base = cube(rng, n=24)
    inside = np.equal.outer(GROUPS, GROUPS)

    def again(gap, shift):
        return run_of(ratings_of(base + rng.normal(0, 2, base.shape) + gap * inside + shift, GROUPS))

    found = changes_of(again(5, 0), again(1, 0), again(5, 7), confidence=0.999).set_index("run")
    assert found["ci_low"]["b"] < -4 < found["ci_high"]["b"] < 0
    assert found["ci_low"]["c"] < 0 < found["ci_high"]["c"]
    assert found["mean_low"]["c"] < 7 < found["mean_high"]["c"]
    # 5 groups without the baseline: a fifth of the pairs is in-group.
    assert found["mean_low"]["b"] < -4 / 5 < found["mean_high"]["b"]


def test_the_mean_s_change_is_a_paired_t_test_of_the_narratives_means(ratings_of):
    rng = np.random.default_rng(8)
    cubes = [cube(rng) for _ in range(2)]
    found = changes_of(*(run_of(ratings_of(y, GROUPS)) for y in cubes)).iloc[0]
    k = GROUPS.index("unspecified")
    means = [np.delete(np.delete(y, k, axis=1), k, axis=2).mean(axis=(1, 2)) for y in cubes]
    wanted = stats.ttest_rel(means[1], means[0]).confidence_interval(0.95)
    assert [found["mean_low"], found["mean_high"]] == pytest.approx([wanted.low, wanted.high])
    assert [found["mean"], found["reference_mean"]] == pytest.approx([means[1].mean(), means[0].mean()])
    sd = np.std(cubes[0], ddof=1)  # of all replies, baselines included
    assert [found["mean_sd"], found["change_sd"]] == pytest.approx(
        [found["mean_change"] / sd, found["delta_change"] / sd]
    )


def test_replies_that_are_missing_in_one_run_do_not_move_the_mean(ratings_of):
    y = cube(np.random.default_rng(2))
    high, low = y > np.quantile(y, 0.9), y < np.quantile(y, 0.05)
    runs = [run_of(ratings_of(np.where(gone, np.nan, each), GROUPS)) for gone, each in ((low, y), (high, y + 3))]
    found = changes_of(*runs).iloc[0]
    assert [found["mean_change"], found["mean"] - found["reference_mean"]] == pytest.approx([3, 3])
    k = len(GROUPS) - 1  # without the baseline
    n_high, n_low = (int(gone[:, :k, :k].sum()) for gone in (high, low))
    assert n_high > n_low > 10
    n = y[:, :k, :k].size
    assert (found["n_missing"], found["reference_missing"]) == (n_high, n_low)
    assert (found["n_both"], found["n_answers"], found["reference_answers"]) == (
        n - n_high - n_low,
        n - n_high,
        n - n_low,
    )


def test_holm_is_over_measures_and_runs(ratings_of):
    rng = np.random.default_rng(4)
    ratings = ratings_of(cube(rng), GROUPS)
    runs = [
        run_of(ratings, **{name: values_of(ratings) + rng.normal(0, 5, len(ratings)) for name in ("eq", "regard")})
        for _ in range(3)
    ]
    found = changes_of(*runs, measures=("eq", "regard")).sort_values("p")
    assert found["family_size"].tolist() == [4] * 4
    steps = np.minimum(1, np.maximum.accumulate(found["p"].to_numpy() * [4, 3, 2, 1]))
    assert found["p_adjusted"].tolist() == pytest.approx(steps.tolist())


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_measure_that_is_the_same_in_every_reply_has_a_change_of_0_and_no_test(ratings_of, missing):
    rng = np.random.default_rng(1)
    runs = []
    for each in (0.0, missing):
        y = np.where(np.isnan(cube(rng, missing=each)), np.nan, 0.1)
        runs.append(run_of(ratings_of(y, GROUPS)))
    found = changes_of(*runs).iloc[0]
    assert found["delta_change"] == 0
    assert found["mean_change"] == pytest.approx(0, abs=1e-12)
    assert found[["se", "p", "p_adjusted", "ci_low", "mean_low", "change_sd"]].isna().all()
    assert "the same in all 14 narratives" in found["note"]


def test_runs_of_other_texts_or_without_an_estimate_have_a_note_and_no_number(ratings_of):
    y = cube(np.random.default_rng(6))
    runs = [run_of(ratings_of(each, GROUPS)) for each in (y, y + 1)]
    apart = changes_of(*runs, texts={"a": "geneva", "b": "csv 1"}).iloc[0]
    assert OTHER_TEXTS in apart["note"]
    mute = run_of(ratings_of(np.full_like(y, np.nan), GROUPS))
    none = changes_of(runs[0], mute).iloc[0]
    assert "no change, since δ of b cannot be estimated" in none["note"]
    for row in (apart, none):
        assert row[["delta", "delta_change", "p", "mean_change", "change_sd"]].isna().all()


def test_a_mean_over_dimensions_without_a_narrative_in_common_names_the_dimensions(ratings_of):
    rng = np.random.default_rng(5)
    ratings = two_dimensions(ratings_of, rng, missing=0)
    elsewhere = ratings["dimension"] == "nationality"
    ratings["narrative_id"] = ratings["narrative_id"].where(~elsewhere, "other " + ratings["narrative_id"])
    found = changes_of(run_of(ratings), run_of(ratings)).set_index("dimension")
    assert found.loc["all", "note"].startswith("no narrative is used by all of the dimensions religion, nationality")


def test_utterances_of_a_conversation_are_not_counted_as_independent(ratings_of):
    """Two utterances of each of eight conversations have the same gaps: they say as much as one of each does."""
    rng = np.random.default_rng(7)

    def conversation_of(name):
        return str(int(name.removeprefix("n")) % 8)

    halves = [cube(rng, n=8) for _ in range(2)]
    once = changes_of(*(run_of(ratings_of(y, GROUPS)) for y in halves)).iloc[0]
    twice = [
        replace(run_of(ratings_of(np.concatenate([y, y]), GROUPS)), conversation_of=conversation_of) for y in halves
    ]
    found = changes_of(*twice).iloc[0]
    for name in ("delta_change", "se", "df", "ci_low", "p", "mean_change", "mean_low", "mean_high"):
        assert found[name] == pytest.approx(once[name]), name
    assert "over 8 conversations" in found["note"]
    assert found["n_narratives"] == 16


def test_utterances_that_differ_within_a_conversation_are_no_spread_of_conversations():
    """Of known noise, as where numbers are missing; groups alike, so that they add nothing."""
    rng = np.random.default_rng(9)
    ids = tuple(f"n{k}" for k in range(200))
    alike = (dict.fromkeys("ABCDEF", 1.0),)
    pair = [
        Labelled(
            label,
            summarise_contrasts(
                rng.normal(0, 1, 200), noise=np.full(200, 0.01), rounding=0.0, confidence=0.95, n_answers=0
            ),
            ids, (0.0, 1.0), alike,
        )
        for label in "xy"
    ]  # fmt: skip
    found = subtract(
        (pair[0], pair[1]), dimension="religion", conversation_of=lambda name: str(int(name[1:]) % 20),
        confidence=0.95,
    )  # fmt: skip
    plain, _ = difference(*pair, confidence=0.95)
    assert found["scope"] == "groups"
    assert 0.6 < found["se"] / plain.se < 1.5


def test_shares_of_what_became_of_prompts_are_counted_without_baselines_and_over_all_dimensions(ratings_of):
    ratings = two_dimensions(ratings_of, np.random.default_rng(3), missing=0)
    replies = replies_of(ratings)
    between = replies.loc[replies["in_group"].notna(), "prompt_index"].to_numpy()
    status = replies["status"].astype(object)
    status[between[:14]] = "cut"  # of 14 x 25 in religion
    of_run = partial(gaps_of_replies, outcomes=[Outcome("eq", values=values_of(ratings))], seed=0, settings=SETTINGS)
    runs = {"a": of_run(replies), "b": of_run(replies.assign(status=status))}
    costs = {label: {"n_calls": 1.0, "seconds": 0.1} for label in runs}
    rows = {(row["run"], row["dimension"]): row for row in cost_rows(runs, references={"b": "a"}, costs=costs)}
    assert all(list(row) == list(REPLY_COSTS) for row in rows.values())
    shares = {where: row["cut_share"] for where, row in rows.items() if where[0] == "b"}
    assert shares == {("b", "religion"): 14 / 350, ("b", "nationality"): 0, ("b", "all"): 14 / 700}
    assert rows["b", "all"]["cut_change"] == 14 / 700
    assert np.isnan(rows["a", "all"]["cut_change"])
    assert rows["a", "religion"]["n_reply_tokens"] == 5
