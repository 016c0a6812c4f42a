"""Oracle: scipy's paired t-test."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.statistics.manipulation import manipulation_rows


def answers(**columns):
    """Ratings by kind, one a narrative; NaN is a refusal."""
    rows = [
        {"narrative_id": f"n{k}", "kind": kind, "emotion": "joy", "intensity": value, "response": "",
         "status": "refused" if np.isnan(value) else "rated"}
        for kind, values in columns.items() for k, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["narrative_id", "kind", "emotion", "intensity", "response", "status"])


def rows_of(table):
    return {row["check"]: row for row in manipulation_rows(table, confidence=0.95)}


def test_a_check_is_a_paired_t_test_over_narratives_rated_both_times():
    rng = np.random.default_rng(0)
    own, wrong = rng.normal(60, 10, 20), rng.normal(30, 10, 20)
    own[3] = wrong[7] = np.nan
    found = rows_of(answers(own=own, wrong=wrong))["emotion"]
    both = ~np.isnan(own + wrong)
    test = stats.ttest_rel(own[both], wrong[both])
    assert (found["n_asked"], found["n_pairs"], found["passed"]) == (20, 18, True)
    assert [found[name] for name in ("p", "ci_low", "ci_high")] == pytest.approx(
        [test.pvalue, *test.confidence_interval(0.95)]
    )


@pytest.mark.parametrize(("shift", "passed"), [(20, True), (0, False), (-20, False)])
def test_a_model_passes_only_if_the_interval_lies_above_0(shift, passed):
    rng = np.random.default_rng(1)
    mild = rng.normal(50, 5, 24)
    found = rows_of(answers(own=mild, mild=mild, strong=mild + shift + rng.normal(0, 3, 24)))
    assert list(found) == ["intensity"]
    assert found["intensity"]["passed"] is passed


def test_a_model_that_answers_the_same_fails_and_one_that_always_adds_the_same_passes():
    same = np.full(10, 50.0)
    assert rows_of(answers(own=same, wrong=same))["emotion"]["passed"] is False
    assert rows_of(answers(own=same, wrong=same - 5))["emotion"]["passed"] is True


def test_without_a_pair_nothing_is_passed_or_failed():
    found = rows_of(answers(own=[50.0, np.nan], wrong=[np.nan, 40.0]))["emotion"]
    assert (found["passed"], found["n_pairs"], found["note"]) == (None, 0, "no narrative was rated both times")
    assert rows_of(answers()) == {}
