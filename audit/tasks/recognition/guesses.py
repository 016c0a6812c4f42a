"""Whether answers about conversations are better than guesses: F1 and accuracy alone do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd

from audit.statistics.adjusted import adjusted_contrasts
from audit.statistics.conversations import conversation_of
from audit.statistics.remarks import Remark
from audit.tables.formatting import brief, interval, percentage_points, rate

_CODE: Final = "no_better_than_guesses"


def one_label_remarks(tables: Mapping[str, pd.DataFrame]) -> Iterator[Remark]:
    """Yield where answers are not shown to be right more often than naming the corpus' most frequent label always.

    ``tables`` are those of :func:`~audit.tasks.recognition.statistics.recognition_tables`.
    """
    labels = tables["recognition_labels"].query("by == 'all'")
    for row in tables["recognition"].query("by == 'all'").to_dict("records"):
        own = labels.loc[(labels["dimension"] == row["dimension"]) & (labels["variant"] == row["variant"])]
        usual = own.loc[own["support"].idxmax()]
        share, low = usual["support"] / row["n"], row["accuracy_low"]
        if (low if low == low else row["accuracy"]) <= share:
            yield Remark(
                row["dimension"], row["variant"], _CODE,
                f"Answers are not shown to be right more often than {brief(usual['label'])!r} in every case: accuracy "
                f"{rate(row['accuracy'])}, and {rate(share)} have that label. Macro F1 is {row['macro_f1']:.2f}.",
            )  # fmt: skip


def span_remarks(
    answers: pd.DataFrame, guesses: Mapping[str, Mapping[str, float]], *, confidence: float
) -> Iterator[Remark]:
    """Yield where answers are not shown to share more words with the marked cause than the best guess does.

    ``answers`` as for :func:`~audit.tasks.recognition.statistics.cause_table`; ``guesses`` are those of
    :func:`~audit.tasks.recognition.scorer.span_guesses`. The best guess is chosen with the marked words at hand, so it
    is a little harder to beat than any that could be made without them.
    """
    for (dimension, variant), own in answers.groupby(["dimension", "variant"], observed=True, sort=False):
        f1 = own["f1"].groupby(own["narrative_id"].astype(str), sort=False).mean().dropna()
        of_guesses = pd.DataFrame(guesses).reindex(f1.index).dropna()
        if of_guesses.empty:
            continue
        best = str(of_guesses.mean().idxmax())
        f1 = f1[of_guesses.index]
        difference = (f1 - of_guesses[best]).to_numpy(dtype=np.float64)
        units = [conversation_of(name) for name in f1.index]
        [found] = adjusted_contrasts(
            difference[:, None, None], np.ones((1, 1, 1)), np.empty((len(units), 0)), units, confidence=confidence
        )
        made = found.estimate
        if made is not None and made.ci_low > 0:
            continue
        spread = f"{difference.mean():+.2f}".replace("-", "−")
        if made is not None and made.ci_low == made.ci_low:
            spread += f", {interval(made.ci_low, made.ci_high)}"
        yield Remark(
            str(dimension), str(variant), _CODE,
            "Answers are not shown to share more words with the marked cause than a guess does: F1 is "
            f"{f1.mean():.2f}, and of {best} in every case it is {of_guesses[best].mean():.2f} (difference: {spread}).",
        )  # fmt: skip


def yes_remarks(answers: pd.DataFrame, *, confidence: float) -> Iterator[Remark]:
    """Yield where yes is not shown to be said more often of causes than of other utterances.

    ``answers`` as for :func:`~audit.tasks.recognition.statistics.entailment_table`. The interval of the difference is
    clustered by conversation, see :func:`~audit.statistics.adjusted.adjusted_contrasts`.
    """
    read = answers.dropna(subset="said").assign(yes=lambda own: own["said"].astype("float64"))
    for (dimension, variant), own in read.groupby(["dimension", "variant"], observed=True, sort=False):
        of_each = own.groupby(own["narrative_id"].astype(str)).agg(yes=("yes", "mean"), is_cause=("is_cause", "first"))
        is_cause = of_each["is_cause"].to_numpy(np.bool_)
        if is_cause.all() or not is_cause.any():
            continue
        said = np.stack([of_each["yes"].where(~is_cause), of_each["yes"].where(is_cause)], axis=1)[:, None]
        units = [conversation_of(name) for name in of_each.index]
        [found] = adjusted_contrasts(
            said, np.array([[[-1.0, 1.0]]]), np.empty((len(units), 0)), units, confidence=confidence
        )
        made = found.estimate
        if made is not None and made.ci_low > 0:
            continue
        causes, others = (of_each.loc[of, "yes"].mean() for of in (is_cause, ~is_cause))
        spread = percentage_points(causes - others)
        if made is not None and made.ci_low == made.ci_low:
            spread += f", {interval(100 * made.ci_low, 100 * made.ci_high)}"
        share = float(own["is_cause"].mean())
        yield Remark(
            str(dimension), str(variant), _CODE,
            f"Yes is not shown to be said more often of causes than of other utterances: of {rate(causes)} and "
            f"{rate(others)} (percentage points: {spread}). To say yes of all has F1 {2 * share / (1 + share):.2f} of "
            "causes.",
        )  # fmt: skip
