"""What became of each call, counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.statistics.calls import call_table
from audit.tables.stages import CALLS


def ratings(*rows):
    """Rows of dimension, status, tokens of the prompt and examples or calls left out of it."""
    return pd.DataFrame(
        [(place, row[0], "origin", *row[1:]) for place, row in enumerate(rows)],
        columns=["prompt_index", "dimension", "variant", "status", "n_prompt_tokens", "n_dropped"],
    ).astype({"dimension": "category", "status": "category"})  # fmt: skip


def stages(*rows):
    columns = ["prompt_index", "stage", "status", "n_prompt_tokens", "n_tokens", "n_dropped"]
    return pd.DataFrame(rows, columns=columns)


NONE = stages()
FOUR = ratings(
    ("religion", "rated", 100, 0), ("religion", "refused", 110, 1), ("religion", "failed", np.nan, np.nan),
    ("nationality", "rated", 90, 2),
)  # fmt: skip


def test_calls_are_counted_by_dimension_stage_by_stage_and_the_question_last():
    wrote = stages(
        (0, "feel", "written", 40, 8, 0), (1, "feel", "cut", 50, 20, 0),
        (2, "feel", "failed", 0, 0, 0), (3, "feel", "empty", 30, 1, 0),
        (0, "why", "written", 60, 9, 0), (1, "why", "written", 80, 11, 1),
        (2, "why", "failed", 0, 0, 0), (3, "why", "cut", 70, 20, 0),
        (4, "feel", "written", 1000, 1000, 9),  # of a prompt that has no rating yet
    )  # fmt: skip
    table = call_table(FOUR, wrote)
    assert list(table) == list(CALLS)
    assert table[["dimension", "call", "place"]].values.tolist() == [
        [dimension, call, place]
        for dimension in ("religion", "nationality")
        for place, call in enumerate(["feel", "why", "question"])
    ]
    counts = ["n_prompts", "n_written", "n_cut", "n_empty", "n_failed", "n_shortened"]
    assert table[counts].fillna(-1).values.tolist() == [
        [3, 1, 1, 0, 1, 0], [3, 2, 0, 0, 1, 1], [3, 2, -1, -1, 1, 1],
        [1, 0, 0, 1, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, -1, -1, 0, 1],
    ]  # fmt: skip
    assert table["mean_prompt_tokens"].tolist() == [45, 70, 105, 30, 70, 90]
    assert table["mean_tokens"].fillna(-1).tolist() == [14, 10, -1, 1, 20, -1]


def test_without_stages_the_question_is_counted_alone():
    table = call_table(FOUR, NONE)
    assert table["call"].tolist() == ["question", "question"]
    assert table["n_prompts"].tolist() == [3, 1]


@pytest.mark.parametrize("status", ["rated", "failed"])
def test_ratings_that_do_not_tell_their_tokens_have_no_calls(status):
    assert call_table(ratings(("religion", status, np.nan, np.nan)), NONE).empty


def test_a_dimension_in_which_all_failed_has_no_means():
    table = call_table(
        ratings(("religion", "rated", 9, 0), ("age", "failed", np.nan, np.nan)), stages((1, "feel", "failed", 0, 0, 0))
    )
    assert table.loc[table["dimension"] == "age", ["n_failed", "n_written"]].values.tolist() == [[1, 0], [1, 0]]
    assert table.loc[table["dimension"] == "age", ["mean_prompt_tokens", "mean_tokens"]].isna().all(axis=None)
