"""How the disparity of a group in a measure of replies differs between two runs, on planted replies and by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from test_replies_controls import FIVE, ONE
from test_replies_page import replies_of

from audit.comparing.disparity_changes import measure_disparity_change_rows
from audit.comparing.run_gaps import ReplyGaps, gaps_of_replies
from audit.comparing.tables import MEASURE_DISPARITY_CHANGES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome

Shares = Mapping[str, Mapping[str, float]]  # by measure, how many words more each group gets
NONE: Shares = {"length": {}, "other": {}}


def run_of(
    planted: Shares, *, groups: Mapping[str, list[str]] = FIVE, seed: int = 0, missing: float = 0.0
) -> ReplyGaps:
    """Return the gaps of a run whose replies are noise and what is planted, whoever writes."""
    replies = replies_of(groups, n=24, dimensions=("religion",)).assign(status="written")
    rng = np.random.default_rng(seed)
    level = dict(zip(sorted(set(replies["narrative_id"])), np.random.default_rng(9).normal(0, 5, 24), strict=True))
    outcomes = []
    for name, more in planted.items():
        values = replies["narrative_id"].map(level).to_numpy(float) + rng.normal(0, 1, len(replies))
        values = values + replies["experiencer_group"].map(lambda group, more=more: more.get(group, 0.0)).to_numpy()
        values[rng.random(len(values)) < missing] = np.nan
        outcomes.append(Outcome(name, unit="words", values=pd.Series(values, index=replies["prompt_index"])))
    stems = {term: term for terms in groups.values() for term in terms}
    return gaps_of_replies(
        replies, outcomes, seed=0, settings=AnalysisSettings(n_permutations=100),
        repetition=Repetition({"religion": stems}),
    )  # fmt: skip


def changes_of(
    own: ReplyGaps, reference: ReplyGaps, *, comparable: tuple[str, ...] = ("length", "other")
) -> pd.DataFrame:
    runs = {"led": own, "plain": reference}
    rows = measure_disparity_change_rows(
        runs, {label: run.disparity for label, run in runs.items()}, references={"led": "plain"},
        comparable={"led": comparable}, texts=dict.fromkeys(runs, "texts"), confidence=0.95,
    )  # fmt: skip
    return pd.DataFrame(rows, columns=list(MEASURE_DISPARITY_CHANGES)).set_index(["outcome", "group"])


def by_narrative(run: ReplyGaps, measure: str, group: str) -> pd.Series:
    """D of a group, narrative by narrative, by hand: the mean of its terms less the mean of the other groups'."""
    values = run.outcomes[measure].values
    assert values is not None
    rows = run.replies.assign(value=run.replies["prompt_index"].map(values))
    means = rows.groupby(["narrative_id", "experiencer_group", "experiencer"])["value"].mean()
    groups = means.groupby(level=[0, 1]).mean().unstack()
    return groups[group] - groups.drop(columns=group).mean(axis=1)


def test_a_planted_change_is_found_of_its_group_and_measure_alone() -> None:
    """A strategy that makes replies to Muslims 12 words shorter: −12 there, and nothing of others or elsewhere."""
    changes = changes_of(run_of({"length": {"Muslim": -12.0}, "other": {}}, seed=1), run_of(NONE, seed=2))
    found = changes.loc[changes["code"].isin(["lower", "higher"])]
    assert list(found.index) == [("length", "Muslim")]
    row = changes.loc[("length", "Muslim")]
    assert (row["code"], row["claim"], row["unit"], row["first"]) == ("lower", "group", "words", "led")
    assert row["disparity_change"] == pytest.approx(-12, abs=0.5)
    assert row["family_size"] == 2 * len(FIVE)
    others = changes.loc[[("length", group) for group in FIVE if group != "Muslim"]]
    assert others["disparity_change"].to_numpy() == pytest.approx(12 / 4, abs=0.5)
    assert others["limits"].str.contains("bystander").all()


def test_of_one_term_a_group_the_change_is_the_paired_t_test() -> None:
    pair = [run_of({"length": {"Muslim": -1.0}, "other": {}}, groups=ONE, seed=1), run_of(NONE, groups=ONE, seed=2)]
    changes = changes_of(pair[0], pair[1])
    for measure in ("length", "other"):
        for group in ONE:
            own, theirs = (by_narrative(run, measure, group) for run in pair)
            found, row = stats.ttest_rel(own, theirs), changes.loc[(measure, group)]
            assert row["disparity_change"] == pytest.approx((own - theirs).mean())
            assert row["p"] == pytest.approx(found.pvalue)
            assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(found.confidence_interval(0.95)))
    assert changes.loc[("length", "Muslim"), "claim"] == "words"


def test_runs_alike_change_in_nothing() -> None:
    planted: Shares = {"length": {"Muslim": -12.0}, "other": {}}
    changes = changes_of(run_of(planted, seed=1), run_of(planted, seed=2))
    assert set(changes["code"]) == {"not_shown"}
    assert changes["disparity_first"].to_dict()[("length", "Muslim")] == pytest.approx(-12, abs=0.5)


def test_measures_that_another_scorer_took_are_left_out_and_count_in_no_family() -> None:
    own, reference = run_of({"length": {"Muslim": -12.0}, "other": {}}, seed=1), run_of(NONE, seed=2)
    changes = changes_of(own, reference, comparable=("other",))
    assert set(changes.index.get_level_values("outcome")) == {"other"}
    assert set(changes["family_size"]) == {len(FIVE)}


def test_missing_replies_could_be_anything_so_a_small_change_is_not_shown() -> None:
    own, reference = (
        run_of({"length": {"Muslim": by}, "other": {}}, seed=seed, missing=0.06) for seed, by in enumerate((-0.8, 0.0))
    )
    row = changes_of(own, reference).loc[("length", "Muslim")]
    assert row["p_adjusted"] < 0.05
    assert (row["code"], "missing" in row["limits"]) == ("undecided", True)


def test_runs_of_other_groups_are_not_compared() -> None:
    fewer = {name: terms for name, terms in FIVE.items() if name != "Parsi"}
    changes = changes_of(run_of({"length": {"Muslim": -12.0}, "other": {}}, groups=fewer), run_of(NONE))
    assert changes["p"].isna().all()
    assert (changes["note"] != "").all()
    assert set(changes["code"]) == {"no_estimate"}
