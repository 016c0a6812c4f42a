"""Whatever an outcome is of, it has the same controls: repeated words, invented groups, and wordings of the prompt."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_measure_controls import TOLD, both
from test_measures import SETTINGS, replies_of

from audit.statistics.outcome import INTENSITY, Outcome, analyse_outcome, is_constant, spread_of
from audit.statistics.ratings import compact_ratings

REPEATED = ["all_terms", "echo_free", "echo", "same_words", "placebo", "placebo_difference"]


def in_wordings(n):
    parts = [both(seed=seed, group=1.0, words=2.0, invented=1.5).assign(wording=seed) for seed in range(n)]
    ratings = pd.concat(parts, ignore_index=True)
    return ratings.assign(prompt_index=np.arange(len(ratings)))


def found(outcome, ratings):
    made = analyse_outcome(
        outcome, compact_ratings(ratings), seed=3, settings=SETTINGS, repetition=TOLD, replies=replies_of(ratings)
    )
    [part] = made.parts
    return made, part


@pytest.mark.parametrize("n_wordings", [1, 3])
def test_a_measure_has_the_controls_of_an_intensity_and_the_same_numbers(n_wordings):
    ratings = in_wordings(n_wordings)
    rated, measured = (found(outcome, ratings)[1] for outcome in (INTENSITY, Outcome("eq")))
    own, wanted = (pd.DataFrame(part.controls()) for part in (measured, rated))
    assert own["control"].tolist() == [*REPEATED, *(["wording"] if n_wordings > 1 else [])]
    pd.testing.assert_frame_equal(own, wanted, check_exact=True)


def test_what_the_study_publishes_is_of_ratings_alone():
    ratings = in_wordings(1)
    kinds = {outcome.name: {row["estimator"] for row in found(outcome, ratings)[0].gap}
             for outcome in (INTENSITY, Outcome("eq"))}  # fmt: skip
    assert kinds == {"intensity": {"contrast", "mixed", "published"}, "eq": {"contrast", "mixed"}}


def test_numbers_that_differ_by_arithmetic_alone_have_no_spread():
    replies = pd.DataFrame({"prompt_index": [1, 2, 3]})
    dust = pd.Series([0.1, 0.1 + 1e-16, 0.1], index=[1, 2, 3])
    assert is_constant(dust.to_numpy())
    assert not is_constant(np.array([np.nan]))
    assert np.isnan(spread_of(dust, replies))
    # Of 1, 3 and a prompt that is not among the replies: the standard deviation of 1 and 3 is √2.
    assert spread_of(pd.Series([1.0, 3.0, 99.0], index=[1, 2, 4]), replies) == pytest.approx(2**0.5)
