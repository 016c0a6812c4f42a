"""How often a model's labels are those that people gave: accuracy, precision, recall and F1.

A case that the model left without a readable answer is wrong and is counted apart; it is never dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from audit.statistics.ratings import IntArray, divide


@dataclass(frozen=True)
class LabelScore:
    """How well one label was recognised."""

    label: str
    precision: float  # share of the cases given the label that have it; NaN if none was given it
    recall: float  # share of the label's cases that were given it; NaN if it has none
    f1: float  # harmonic mean, 2 n_correct / (support + n_predicted); NaN if the label neither occurs nor was given
    support: int  # cases with the label
    n_predicted: int  # cases given it
    n_correct: int  # cases that are both


@dataclass(frozen=True)
class ClassificationScore:
    """How well labels were recognised; shares between 0 and 1, unrounded."""

    accuracy: float  # share of all cases with the right label
    macro_f1: float  # mean F1 of the labels that have one, each counting alike
    by_label: tuple[LabelScore, ...]  # in the order of the labels
    # Shape (labels, labels + 1): cases by their label (rows) and the one they were given (columns); the last column
    # counts those given none.
    confusion: IntArray = field(repr=False, compare=False)
    n: int
    n_unlabelled: int  # cases without a readable label: wrong in accuracy and recall


def score_labels(
    true: Sequence[str], predicted: Sequence[str | None], *, labels: Sequence[str] | None = None
) -> ClassificationScore:
    """Compare labels with the true ones, case by case.

    A predicted label is None where the answer held no readable one. ``labels`` are all labels, in the order to report;
    None takes those that occur or were given, sorted.

    Notes
    -----
    As scikit-learn with ``zero_division=nan``: F1 is 0 for a label that either never occurs or was never given, and
    NaN, so left out of the macro mean, for one that neither occurs nor was given. (With scikit-learn's own default the
    last would count as 0.) Without ``labels`` no label is of the last kind.

    Examples
    --------
    >>> found = score_labels(["joy", "joy", "fear", "fear"], ["joy", "fear", "fear", None])
    >>> found.accuracy
    0.5
    >>> [(each.label, each.precision, each.recall) for each in found.by_label]
    [('fear', 0.5, 0.5), ('joy', 1.0, 0.5)]
    """
    if len(true) != len(predicted):
        raise ValueError(f"there are {len(true)} true labels and {len(predicted)} predicted ones; both are one a case")
    if not len(true):
        raise ValueError("there are no cases to score")
    given = [label for label in predicted if label is not None]
    names = sorted({*true, *given}) if labels is None else list(labels)
    place = {name: k for k, name in enumerate(names)}
    if len(place) < len(names):
        raise ValueError(f"the labels name {Counter(names).most_common(1)[0][0]!r} twice")
    for kind, used in (("true", true), ("predicted", given)):
        for label in used:
            if label not in place:
                raise ValueError(f"{label!r} is a {kind} label, but the labels are {', '.join(map(repr, names))}")
    rows = np.array([place[label] for label in true], dtype=np.int64)
    columns = np.array([len(names) if label is None else place[label] for label in predicted], dtype=np.int64)
    confusion = np.zeros((len(names), len(names) + 1), dtype=np.int64)
    np.add.at(confusion, (rows, columns), 1)
    correct, support, n_predicted = np.diag(confusion), confusion.sum(axis=1), confusion[:, :-1].sum(axis=0)
    precision, recall = divide(correct, n_predicted), divide(correct, support)
    f1 = divide(2 * correct, support + n_predicted)
    return ClassificationScore(
        accuracy=float(correct.sum() / len(true)),
        macro_f1=float(f1[~np.isnan(f1)].mean()),
        by_label=tuple(
            LabelScore(
                label=name,
                precision=float(precision[k]),
                recall=float(recall[k]),
                f1=float(f1[k]),
                support=int(support[k]),
                n_predicted=int(n_predicted[k]),
                n_correct=int(correct[k]),
            )
            for k, name in enumerate(names)
        ),
        confusion=confusion,
        n=len(true),
        n_unlabelled=int(confusion[:, -1].sum()),
    )
