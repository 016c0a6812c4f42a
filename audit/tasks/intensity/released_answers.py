"""What a study's released answers show beyond its intensities: refusals, and where answer and intensity disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from audit.asking.elicitation.rules import read_by_both
from audit.tables.formatting import brief, count, either, plural
from audit.tables.ratings import READING_RULES, Status
from audit.tasks.publishing import on_run

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark

OF_ANSWERS: Final = ("released_answers", "intensity_differs")  # codes of remarks on released answers


def released_answers(ratings: pd.DataFrame, *, low: float, high: float) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Compare released intensities with their answers, and count how two rules read the answers."""
    read = read_by_both(ratings["response"], low=low, high=high)
    own = ratings["intensity"].to_numpy(dtype=np.float64)
    study, ours = read["study_intensity"].to_numpy(), read["our_intensity"].to_numpy()
    read = read.assign(
        dimension=ratings["dimension"],
        variant=ratings["variant"],
        n_disagreeing=(own != study) & ~(np.isnan(own) & np.isnan(study)),
        n_other_number=~np.isnan(study) & ~np.isnan(ours) & (study != ours),
        n_prompts=1,
    )
    sums = ["n_prompts", "n_disagreeing", "n_other_number"]
    table = read.groupby(["dimension", "variant", "study", "ours"], observed=True, sort=False)[sums].sum()
    return table.reset_index()[list(READING_RULES)], (_on_rules(read), *_on_disagreement(ratings, read))


def _on_rules(read: pd.DataFrame) -> Remark:
    counts = {
        rule: [int((read[rule] == status.value).sum()) for status in (Status.REFUSED, Status.UNPARSEABLE)]
        for rule in ("study", "ours")
    }
    (refused, unread), (ours_refused, ours_unread) = counts["study"], counts["ours"]
    return on_run(
        OF_ANSWERS[0],
        f"Of {plural(len(read), 'released answer')}, the study's rule takes {count(refused)} for refused and finds no "
        f"number in {count(unread)} others; ours takes {count(ours_refused)} for refused and reads no rating in "
        f"{count(ours_unread)} others. Ratings are the released ones; why one is missing is told by our rule.",
    )


def _on_disagreement(ratings: pd.DataFrame, read: pd.DataFrame) -> tuple[Remark, ...]:
    wrong = np.flatnonzero(read["n_disagreeing"].to_numpy())
    if not len(wrong):
        return ()
    n, first = len(wrong), ratings.iloc[wrong[0]]
    text = (
        f"{count(n)} of {count(len(ratings))} released intensities {either(n, 'is', 'are')} not what the study's own "
        f"rule reads in the answer. The first: perceiver {first['perceiver']}, experiencer {first['experiencer']}, "
        f"narrative {brief(str(first['narrative_id']))} has {_number(first['intensity'])}, and its answer gives "
        f"{_number(read['study_intensity'].iloc[wrong[0]])}. All numbers here are of the released intensities."
    )
    return (on_run(OF_ANSWERS[1], text),)


def _number(intensity: float) -> str:
    return f"{intensity:g}" if intensity == intensity else "no rating"
