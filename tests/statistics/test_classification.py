"""Oracles: counts by hand, and scikit-learn (tests/reference)."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.statistics.classification import score_labels

SCORES = json.loads((Path(__file__).parents[1] / "reference" / "scores.json").read_text(encoding="utf-8"))
LABELS = ("anger", "fear", "joy", "sadness", "trust")
NAN = np.nan


def test_labels_worked_by_hand():
    # joy: given 2, right 1, true 3; fear: given 2, right 1, true 2; one joy has no readable label.
    found = score_labels(["joy", "joy", "joy", "fear", "fear"], ["joy", "fear", None, "joy", "fear"])
    fear, joy = found.by_label
    assert (found.accuracy, found.n, found.n_unlabelled) == (2 / 5, 5, 1)
    assert (joy.label, joy.precision, joy.recall, joy.f1) == ("joy", 1 / 2, 1 / 3, pytest.approx(2 / 5))
    assert (fear.label, fear.precision, fear.recall, fear.f1) == ("fear", 1 / 2, 1 / 2, 1 / 2)
    assert (joy.support, joy.n_predicted, joy.n_correct) == (3, 2, 1)
    assert found.macro_f1 == pytest.approx((2 / 5 + 1 / 2) / 2)
    assert found.confusion.tolist() == [[1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("name", SCORES["labels"])
def test_labels_are_scored_as_by_scikit_learn(name):
    reference = SCORES["labels"][name]
    found = score_labels(reference["true"], reference["predicted"], labels=LABELS)
    assert [each.label for each in found.by_label] == list(LABELS)
    for field in ("precision", "recall", "f1", "support"):
        expected = [NAN if value is None else value for value in reference[field]]
        assert [getattr(each, field) for each in found.by_label] == pytest.approx(expected, nan_ok=True)
    assert (found.accuracy, found.macro_f1) == pytest.approx((reference["accuracy"], reference["macro_f1"]))
    assert found.confusion.tolist() == reference["confusion"]
    assert found.n_unlabelled == sum(label is None for label in reference["predicted"])


def test_a_label_that_neither_occurs_nor_is_given_is_no_part_of_the_mean():
    true, predicted = ["joy", "fear"], ["joy", "joy"]
    plain = score_labels(true, predicted)
    wider = score_labels(true, predicted, labels=["trust", "fear", "joy"])
    assert np.isnan([wider.by_label[0].f1, wider.by_label[0].precision, wider.by_label[0].recall]).all()
    # fear was never given: no precision, but an F1 of 0.
    assert np.isnan(wider.by_label[1].precision)
    assert wider.by_label[1].f1 == 0
    assert wider.macro_f1 == plain.macro_f1 == pytest.approx((0 + 2 / 3) / 2)


@settings(deadline=None)
@given(
    cases=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "b", "c", None])), min_size=1),
)
def test_an_unreadable_label_counts_as_a_wrong_one_that_is_nobody_s(cases):
    true, predicted = zip(*cases, strict=True)
    found = score_labels(true, predicted, labels="abc")
    other = score_labels(true, ["?" if label is None else label for label in predicted], labels="abc?")
    assert found.accuracy == other.accuracy
    for field in ("f1", "recall", "precision"):
        own, others = ([getattr(each, field) for each in score.by_label[:3]] for score in (found, other))
        assert own == pytest.approx(others, nan_ok=True)
    assert found.confusion.sum() == found.n == len(cases)
    assert found.n_unlabelled == predicted.count(None)


@pytest.mark.parametrize(
    ("true", "predicted", "labels", "reason"),
    [
        (["joy"], ["joy", "fear"], None, "1 true labels and 2 predicted"),
        ([], [], None, "no cases"),
        (["joy"], ["Joy"], ["joy"], "'Joy' is a predicted label, but the labels are 'joy'"),
        (["grief"], [None], ["joy"], "'grief' is a true label"),
        (["joy"], ["joy"], ["joy", "joy"], "name 'joy' twice"),
    ],
)
def test_labels_that_do_not_match_are_refused(true, predicted, labels, reason):
    with pytest.raises(ValueError, match=reason):
        score_labels(true, predicted, labels=labels)
