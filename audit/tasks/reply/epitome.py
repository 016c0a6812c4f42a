"""EPITOME's mechanisms in replies: how often each shows, and whether it shows where people's reply has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.statistics.classification import score_labels
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.replies import EPITOME
from stimuli.strategy_labels import LEVELS

_SHOWN: Final = ("not shown", "shown")
_ROUNDING: Final = 1e-12


def epitome_table(
    replies: pd.DataFrame,
    levels: Mapping[str, pd.DataFrame],
    reference: Mapping[str, Mapping[str, int]],
    *,
    confidence: float,
) -> pd.DataFrame:
    """Describe which mechanisms replies show, in each dimension: ``tables.EPITOME``.

    ``levels`` has, by source (``classifier`` or ``judge``), one column a mechanism, indexed by ``prompt_index``, with
    the level from 0 to 2 or a score between two levels; NaN if the reply was not scored. ``reference`` has the level of
    a reply by people, by narrative and mechanism.

    Notes
    -----
    A mechanism shows in a reply at level 1 or 2 [1]_. Its share is the mean of the narratives' shares, with a t
    interval over narratives: replies to one narrative are not independent. Precision, recall, F1 and accuracy are of
    showing or not, each reply against the reference of its narrative, as arXiv:2311.04915 scores strategies. The
    accuracy of levels and their macro F1, over the levels that occur, are the study's own two numbers [1]_.

    A classifier's level is the likeliest, as in [1]_. A judge's score counts as the nearest level, the lower one if two
    are equally near, which is ours: one above 0.5 shows the mechanism. If the score is the mean of the judge's
    distribution (``expected``) it need not be near its likeliest level: a judge torn between 0 and 2 gives 1. So a
    share by a classifier and one by a judge are two readings, and neither is the other's error.

    References
    ----------
    .. [1] Sharma et al. (2020), A Computational Approach to Understanding Empathy, arXiv:2009.08441.
    """
    return pd.DataFrame(_rows(replies, levels, reference, confidence=confidence), columns=list(EPITOME))


def _rows(
    replies: pd.DataFrame,
    levels: Mapping[str, pd.DataFrame],
    reference: Mapping[str, Mapping[str, int]],
    *,
    confidence: float,
) -> Iterator[dict[str, Any]]:
    mechanisms = dict.fromkeys(str(name) for given in levels.values() for name in given.columns)
    for (dimension, variant), part in replies.groupby(["dimension", "variant"], sort=False, observed=True):
        narratives = part["narrative_id"].astype(str).to_numpy(dtype=object)
        for mechanism, (by, given) in product(mechanisms, levels.items()):
            if mechanism not in given.columns:
                continue
            level = _nearest(given[mechanism].reindex(part["prompt_index"].to_numpy()).to_numpy(dtype=np.float64))
            known = np.isfinite(level)
            shown, whose = level[known] >= 1, narratives[known]
            row = {"dimension": dimension, "variant": variant, "mechanism": mechanism, "by": by}
            row |= {"n_replies": int(known.sum())} | _share(shown, whose, confidence=confidence)
            yield row | _against(level[known], whose, mechanism, reference)


def _nearest(scores: FloatArray) -> FloatArray:
    """Return the nearest level, the lower one of two equally near; NaN stays."""
    nearest: FloatArray = np.ceil(scores - 0.5)
    return nearest


def _share(shown: BoolArray, narratives: npt.NDArray[np.object_], *, confidence: float) -> dict[str, Any]:
    names = ("share", "ci_low", "ci_high")
    if not shown.size:
        return dict.fromkeys(names, np.nan) | {"n_narratives": 0, "note": "no reply was scored"}
    means: FloatArray = np.asarray(pd.Series(shown.astype(np.float64)).groupby(narratives).mean(), dtype=np.float64)
    made = summarise_contrasts(means, rounding=_ROUNDING, confidence=confidence, n_answers=int(shown.size))
    values = (made.delta, made.ci_low, made.ci_high)
    note = "" if np.isfinite(made.ci_low) else "no interval: narratives' shares do not differ, or there is one"
    return dict(zip(names, values, strict=True)) | {"n_narratives": len(means), "note": note}


def _against(
    levels: FloatArray, narratives: npt.NDArray[np.object_], mechanism: str, reference: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Score whether the mechanism shows where the reference has it, and whether at its level."""
    names = ("precision", "recall", "f1", "accuracy", "level_accuracy", "macro_f1")
    labelled = np.array([mechanism in reference.get(name, {}) for name in narratives], dtype=bool)
    if not labelled.any():
        return dict.fromkeys(names, np.nan) | {"n_labelled": 0}
    true = [reference[name][mechanism] for name in narratives[labelled]]
    taken = levels[labelled].astype(int).tolist()
    found = score_labels(
        [_SHOWN[each >= 1] for each in true], [_SHOWN[each >= 1] for each in taken], labels=list(_SHOWN)
    )
    of_levels = score_labels(list(map(str, true)), list(map(str, taken)), labels=LEVELS)
    own = found.by_label[1]
    values = (own.precision, own.recall, own.f1, found.accuracy, of_levels.accuracy, of_levels.macro_f1)
    return dict(zip(names, values, strict=True)) | {"n_labelled": int(labelled.sum())}
