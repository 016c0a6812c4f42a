"""EPITOME's strategies in replies: shares and scores by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.tables.replies import EPITOME, REPLIES
from audit.tasks.reply.epitome import epitome_table


def replies_to(narratives):
    rows = {
        "prompt_index": np.arange(len(narratives)), "dimension": "religion", "variant": "origin",
        "narrative_id": narratives, "status": "written",
    }  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=list(REPLIES))


def test_shares_are_means_of_narratives_and_replies_are_held_against_peoples_reply():
    replies = replies_to(["a", "a", "a", "b", "b", "c"])
    levels = pd.DataFrame({"explorations": [2, 1, 0, 0, 0, np.nan]}, index=range(6))
    labels = {"a": {"explorations": 1}, "b": {"explorations": 0}}
    table = epitome_table(replies, {"classifier": levels}, labels, confidence=0.95)
    assert list(table) == list(EPITOME)
    row = table.iloc[0]
    assert row[["n_replies", "n_narratives", "n_labelled"]].tolist() == [5, 2, 5]
    assert row["share"] == pytest.approx((2 / 3 + 0) / 2)
    # t with one degree of freedom, narratives' shares 2/3 and 0
    assert row["ci_high"] - row["share"] == pytest.approx(12.7062047 * (2 / 3) / 2)
    assert row[["precision", "recall", "f1", "accuracy"]].tolist() == pytest.approx([1, 2 / 3, 0.8, 0.8])
    # Levels 2, 1, 0, 0, 0 where people have 1, 1, 1, 0, 0: three are right. F1: 2·2/(2 + 3), 2·1/(3 + 1), 0 of level 2.
    assert row[["level_accuracy", "macro_f1"]].tolist() == pytest.approx([3 / 5, (4 / 5 + 1 / 2 + 0) / 3])


@pytest.mark.parametrize(
    ("score", "level"), [(0.0, 0), (0.49, 0), (0.5, 0), (0.51, 1), (1.0, 1), (1.5, 1), (1.51, 2), (2.0, 2)]
)
def test_a_score_between_levels_counts_as_the_nearest_and_of_two_as_near_as_the_lower(score, level):
    # The share of one reply is whether its level is 1 or 2; of people's levels 1 and 0, the one that it agrees with.
    judged = {"judge": pd.DataFrame({"explorations": [score]})}
    row = epitome_table(replies_to(["a"]), judged, {"a": {"explorations": 1}}, confidence=0.95).iloc[0]
    assert (row["by"], row["n_replies"], row["n_labelled"]) == ("judge", 1, 1)
    assert row["share"] == row["accuracy"] == (level >= 1)


def test_classifier_and_judge_have_a_row_each_of_the_same_mechanism_and_the_same_labels():
    replies = replies_to(["a", "a", "b", "b"])
    given = {
        "classifier": pd.DataFrame({"explorations": [1.0, 2.0, 0.0, 0.0]}),
        # As a judge's expected values: levels 2, 0, 1 and none.
        "judge": pd.DataFrame({"interpretations": [0.2, 0.4, 0.9, 1.6], "explorations": [1.7, 0.5, 0.6, np.nan]}),
    }
    before = {by: each.copy() for by, each in given.items()}
    labels = {"a": {"explorations": 1}, "b": {"explorations": 0}}
    table = epitome_table(replies, given, labels, confidence=0.95).set_index(["mechanism", "by"])
    assert table.index.tolist() == [
        ("explorations", "classifier"), ("explorations", "judge"), ("interpretations", "judge"),
    ]  # fmt: skip
    assert table["n_replies"].tolist() == [4, 3, 4]
    # Narratives a and b: classifier 1 and 0; judge 1/2 and 1/1; interpretations 0/2 and 2/2.
    assert table["share"].tolist() == pytest.approx([1 / 2, 3 / 4, 1 / 2])
    assert table["accuracy"].tolist()[:2] == pytest.approx([1, 1 / 3])  # the judge is right in one of three
    assert table["precision"].tolist()[:2] == pytest.approx([1, 1 / 2])
    # People's replies have no level of interpretations: missing, and no mechanism that was not shown.
    assert table["n_labelled"].tolist() == [4, 3, 0]
    assert np.isnan(table["accuracy"].iloc[2])
    for by, each in given.items():
        pd.testing.assert_frame_equal(each, before[by])


def test_without_labels_or_scores_there_is_nothing_in_their_place():
    replies = replies_to(["a", "b"])
    table = epitome_table(replies, {"classifier": pd.DataFrame({"explorations": [1.0, 1.0]})}, {}, confidence=0.95)
    assert table["share"][0] == 1
    assert "no interval" in table["note"][0]
    assert table[["precision", "accuracy"]].isna().all(axis=None)
    nothing = epitome_table(replies, {"judge": pd.DataFrame({"explorations": [np.nan, np.nan]})}, {}, confidence=0.95)
    assert np.isnan(nothing["share"][0])
    assert nothing["note"][0] == "no reply was scored"
    assert list(epitome_table(replies, {}, {}, confidence=0.95)) == list(EPITOME)
