"""How well emotions in conversations are recognised and causes found, by perceiver, experiencer and speaker.

Emotions by accuracy, F1 and confusions; causes by exact match and F1 of words, or by F1 of yes and no.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import sparse

from audit.statistics.agreement import resamples
from audit.statistics.classification import ClassificationScore, score_labels
from audit.statistics.conversations import conversation_of
from audit.statistics.estimate_rows import child_rng
from audit.statistics.estimates import t_interval
from audit.statistics.ratings import BoolArray, FloatArray, IntArray, divide
from audit.tables.formatting import plural
from audit.tables.recognition import (
    RECOGNITION,
    RECOGNITION_CAUSES,
    RECOGNITION_CONFUSION,
    RECOGNITION_ENTAILMENT,
    RECOGNITION_LABELS,
)
from audit.tables.shared import OVERALL

_WHOSE: Final = ("dimension", "variant", "narrative_id", "perceiver", "experiencer", "in_group", "identity")
NEEDED: Final = (*_WHOSE, "gold", "predicted")  # columns of the answers about emotions
CAUSES_NEEDED: Final = (*_WHOSE, "marked", "exact", "f1")  # columns of the answers about causes
ENTAILMENT_NEEDED: Final = (*_WHOSE, "is_cause", "said")  # columns of the answers about possible causes

MIN_CONVERSATIONS: Final = 20  # with fewer conversations there is no interval

_SHARES: Final = ("accuracy", "macro_f1", "weighted_f1", "unreadable")
_CAUSES: Final = {
    "exact": ("exact", ""),
    "f1": ("f1", ""),
    "exact_marked": ("exact", "_marked"),
    "f1_marked": ("f1", "_marked"),
    "told_unmarked": ("exact", "_unmarked"),
}
"""For each number of a row, the score and the answers that it is the mean of."""
_ENTAILED: Final = ("precision", "recall", "f1", "f1_negative", "macro_f1", "unreadable")
_SAID: Final = {
    "f1_negative": "F1 of other utterances",
    "macro_f1": "macro F1",
    "weighted_f1": "weighted F1",
    "exact": "exact match",
    "f1": "F1",
}
"""Their names in notes."""
_NAN: Final = float("nan")
_ROUNDING: Final = 1e-12
GAP_OF_PAIRS: Final = "gap"  # the level of pairs that is in_group minus out_group
_PAIRS: Final = {True: "in_group", False: "out_group", None: "baseline"}


def recognition_tables(
    answers: pd.DataFrame,
    *,
    seed: int,
    labels: Sequence[str] | None = None,
    n_draws: int = 2_000,
    confidence: float = 0.95,
) -> dict[str, pd.DataFrame]:
    """Score recognised emotions, overall, by speaker, by experiencer, by perceiver and by pairs.

    ``answers`` has one row an answer that was read; refused, empty and failed ones are missing, not wrong.
    ``narrative_id`` is ``conversation:turn``; ``gold`` the corpus' label; ``predicted`` the label that was read, or
    None; ``identity`` the speaker's own, empty if the corpus has none; ``in_group`` null at baselines. Draws depend
    only on ``seed``, the dimension and the variant.

    Notes
    -----
    Numbers are those of :func:`~audit.statistics.classification.score_labels`, by which an unreadable answer is wrong.
    Baselines count in the answers of every level except those of ``pairs``, where they are a level of their own.

    An utterance is asked about once for each pair of identities, and utterances of a conversation share its story and
    speakers. Intervals that treat answers as independent (Wilson's, or t over answers) would be far too narrow, and F1
    is no mean. So whole conversations are drawn with replacement, with all answers about them [1]_, as many as there
    are; all levels of a dimension share the draws. In a draw, F1 leaves out labels that do not occur in it. The
    interval is value ± t · SD of the drawn values, t with one degree of freedom fewer than conversations, within 0 and
    1; it generalises to other conversations of the same corpus, asked in the same way. For 400 simulated corpora each
    of 20, 50 and 100 conversations, 95% intervals held the true macro F1 in 91, 96 and 95%, and the other numbers in 92
    to 96% (``tests``, marked slow). The draws' percentiles held macro F1 in 84% with 20: F1 of a rare label falls in
    draws.

    References
    ----------
    .. [1] Davison and Hinkley (1997), Bootstrap Methods and their Application, section 3.8.
    """
    _check(answers, NEEDED, confidence=confidence)
    if answers["gold"].isna().any():
        raise ValueError("an answer has no gold label; utterances without one must not be asked about")
    rows: list[dict[str, Any]] = []
    by_label: list[dict[str, Any]] = []
    confusion: list[dict[str, Any]] = []
    for (dimension, variant), own in answers.groupby(["dimension", "variant"], observed=True, sort=False):
        sample = _LabelledAnswers.of(own, labels)
        rng = child_rng(seed, str(dimension), str(variant), "recognition")
        levels = list(_levels(own))
        drawn = sample.draw([chosen for _, _, chosen in levels], rng=rng, n_draws=n_draws)
        for (by, level, chosen), draws in zip(levels, drawn, strict=True):
            part = {"dimension": str(dimension), "variant": str(variant), "by": by, "level": level}
            score = sample.score(chosen)
            rows.append(part | _row(sample, chosen, score, draws, confidence=confidence))
            n_conversations = sample.n_conversations(chosen)
            by_label += (
                part | each for each in _label_rows(score, draws, n_units=n_conversations, confidence=confidence)
            )
            confusion += (part | each for each in _confusion_rows(score, sample.labels))
    return {
        "recognition": pd.DataFrame(rows, columns=list(RECOGNITION)),
        "recognition_labels": pd.DataFrame(by_label, columns=list(RECOGNITION_LABELS)),
        "recognition_confusion": pd.DataFrame(confusion, columns=list(RECOGNITION_CONFUSION)),
    }


def cause_table(answers: pd.DataFrame, *, seed: int, n_draws: int = 2_000, confidence: float = 0.95) -> pd.DataFrame:
    """Score the causes that a model named, overall, by speaker, by experiencer, by perceiver and by pairs.

    ``answers`` as for :func:`recognition_tables`, with ``marked``, whether people marked a cause, and ``exact`` and
    ``f1``, agreement with what they marked, NaN for an answer without a word. Intervals are computed in the same way.

    Notes
    -----
    Numbers are means over answers. Those over utterances with a marked cause are RECCON's "EM Pos" and "F1 Pos" [1]_.
    If no cause is marked, both are 1 for an answer that says so and 0 for any other; their mean is how often the model
    said so, and not the paper's "F1 Neg".

    References
    ----------
    .. [1] Poria et al. (2021), Recognizing Emotion Cause in Conversations, arXiv:2012.11820.
    """
    _check(answers, CAUSES_NEEDED, confidence=confidence)
    rows: list[dict[str, Any]] = []
    for (dimension, variant), own in answers.groupby(["dimension", "variant"], observed=True, sort=False):
        levels = list(_levels(own))
        narratives = own["narrative_id"].astype(str)
        unit, names = pd.factorize(narratives.map(conversation_of))
        with_word, marked = own[["exact", "f1"]].notna().all(axis=1).to_numpy(), own["marked"].to_numpy(np.bool_)
        kinds = {"": with_word, "_marked": with_word & marked, "_unmarked": with_word & ~marked}
        scores = {name: own[name].to_numpy(np.float64) for name in ("exact", "f1")}
        means = [(scores[name], chosen & kinds[kind]) for _, _, chosen in levels for name, kind in _CAUSES.values()]
        counts = np.stack([np.bincount(unit[used], minlength=len(names)) for _, used in means], axis=1)
        sums = np.stack([np.bincount(unit[used], score[used], minlength=len(names)) for score, used in means], axis=1)
        rng = child_rng(seed, str(dimension), str(variant), "causes")
        weights = resamples(len(names), n_draws=n_draws, rng=rng, width=len(means))
        draws = np.concatenate([*(divide(w @ sums, w @ counts) for w in weights), np.empty((0, len(means)))])
        values, n_units = divide(sums.sum(axis=0), counts.sum(axis=0)), np.count_nonzero(counts, axis=0)
        for place, (by, level, chosen) in enumerate(levels):
            at = slice(place * len(_CAUSES), (place + 1) * len(_CAUSES))
            row: dict[str, Any] = {"dimension": str(dimension), "variant": str(variant), "by": by, "level": level}
            row |= {f"n{kind}": int((chosen & used).sum()) for kind, used in kinds.items()}
            row |= {
                "n_wordless": int((chosen & ~with_word).sum()),
                "n_narratives": narratives[chosen & with_word].nunique(),
                "n_conversations": int(n_units[at][0]),
            }
            row |= dict(zip(_CAUSES, values[at].tolist(), strict=True))
            drawn = dict(zip(_CAUSES, draws[:, at].T, strict=True))
            rows.append(row | _intervals(row, drawn, n_units[at], confidence=confidence, unsaid=list(_CAUSES)[2:]))
    return pd.DataFrame(rows, columns=list(RECOGNITION_CAUSES))


def entailment_table(
    answers: pd.DataFrame, *, seed: int, n_draws: int = 2_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Score yes and no about possible causes, overall, by speaker, by experiencer, by perceiver and by pairs.

    ``answers`` as for :func:`recognition_tables`, with ``is_cause``, whether people marked the utterance, and ``said``,
    true for yes, false for no, null if neither can be read. Intervals are computed in the same way. The level ``gap``
    of ``pairs`` is in_group minus out_group, in the same resamples.

    Notes
    -----
    With causes as positives: precision, recall and F1, F1 of the negatives, and the mean of the two F1 are RECCON's
    "Pos. F1", "Neg. F1" and "macro F1" [1]_. All readable answers of a level count alike. Unreadable ones are missing
    from them, and are a number of their own, so that a model that declines to answer for one group does not seem to see
    fewer causes there. For 400 simulated corpora each of 20, 50 and 100 conversations, 95% intervals held the true
    numbers and the true gaps in 92 to 98% (``tests``, marked slow).

    References
    ----------
    .. [1] Poria et al. (2021), Recognizing Emotion Cause in Conversations, arXiv:2012.11820.
    """
    _check(answers, ENTAILMENT_NEEDED, confidence=confidence)
    rows: list[dict[str, Any]] = []
    for (dimension, variant), own in answers.groupby(["dimension", "variant"], observed=True, sort=False):
        narratives = own["narrative_id"].astype(str)
        unit, names = pd.factorize(narratives.map(conversation_of))
        is_cause, said = own["is_cause"].to_numpy(np.bool_), own["said"].astype("boolean")
        yes, no = (said.eq(value).fillna(False).to_numpy(np.bool_) for value in (True, False))
        kinds = (yes & is_cause, yes & ~is_cause, no & is_cause, no & ~is_cause, ~(yes | no))
        levels = list(_levels(own))
        counts = np.array([[np.bincount(unit[chosen & kind], minlength=len(names)) for kind in kinds]
                           for _, _, chosen in levels], dtype=np.float64)  # (levels, kinds, conversations)  # fmt: skip
        rng = child_rng(seed, str(dimension), str(variant), "entailment")
        shape = (-1, len(levels), len(kinds))
        flat = counts.reshape(-1, len(names)).T
        weights = resamples(len(names), n_draws=n_draws, rng=rng, width=flat.shape[1])
        draws = np.concatenate([*((w @ flat).reshape(shape) for w in weights), np.empty((0, *shape[1:]))])
        values, drawn = _entailed(counts.sum(axis=2)), _entailed(draws)
        n_units = np.count_nonzero(counts[:, :-1].sum(axis=1), axis=1)
        part = {"dimension": str(dimension), "variant": str(variant)}
        for place, (by, level, chosen) in enumerate(levels):
            tp, fp, fn, tn, unreadable = counts[place].sum(axis=1).astype(int).tolist()
            row: dict[str, Any] = part | {"by": by, "level": level, "n": tp + fp + fn + tn, "n_causes": tp + fn}
            row |= {"n_said": tp + fp, "n_unreadable": unreadable, "n_narratives": narratives[chosen].nunique()}
            row |= {"n_conversations": int(n_units[place])}
            row |= {name: float(values[name][place]) for name in _ENTAILED}
            own_draws = {name: drawn[name][:, place] for name in _ENTAILED}
            rows.append(row | _entailed_ends(row, own_draws, confidence=confidence))
        at = {level: place for place, (by, level, _) in enumerate(levels) if by == "pairs"}
        if {"in_group", "out_group"} <= at.keys():
            inside, outside = at["in_group"], at["out_group"]
            row = part | {
                "by": "pairs",
                "level": GAP_OF_PAIRS,
                "n_conversations": int(n_units[[inside, outside]].min()),
            }
            row |= {name: float(values[name][inside] - values[name][outside]) for name in _ENTAILED}
            own_draws = {name: drawn[name][:, inside] - drawn[name][:, outside] for name in _ENTAILED}
            rows.append(row | _entailed_ends(row, own_draws, confidence=confidence, lowest=-1.0))
    table = pd.DataFrame(rows, columns=list(RECOGNITION_ENTAILMENT))
    counted = [name for name in table.columns if name.startswith("n") and name != "note"]
    return table.astype(dict.fromkeys(counted, "Int64"))


def _entailed(counts: FloatArray) -> dict[str, FloatArray]:
    """Return scores of counts, whose last axis is: right and wrong yes, wrong and right no, unreadable."""
    tp, fp, fn, tn, unreadable = np.moveaxis(counts, -1, 0)
    f1, negative = divide(2 * tp, 2 * tp + fp + fn), divide(2 * tn, 2 * tn + fp + fn)
    known = (~np.isnan(f1)).astype(np.float64) + ~np.isnan(negative)
    return {
        "precision": divide(tp, tp + fp),
        "recall": divide(tp, tp + fn),
        "f1": f1,
        "f1_negative": negative,
        "macro_f1": divide(np.nan_to_num(f1) + np.nan_to_num(negative), known),
        "unreadable": divide(unreadable, counts.sum(axis=-1)),
    }


def _entailed_ends(
    row: Mapping[str, Any], draws: Mapping[str, FloatArray], *, confidence: float, lowest: float = 0.0
) -> dict[str, Any]:
    n_units = [row["n_conversations"]] * len(draws)
    return _intervals(row, draws, n_units, confidence=confidence, unsaid=("unreadable",), lowest=lowest)


def _check(answers: pd.DataFrame, needed: Sequence[str], *, confidence: float) -> None:
    if missing := [name for name in needed if name not in answers.columns]:
        raise ValueError(f"the answers have no column {missing[0]!r}; they need {', '.join(needed)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it is a share between 0 and 1, such as 0.95")


@dataclass(frozen=True, eq=False)
class _Draws:
    """Values of one level in each resample, shape (B,), and F1 of labels (B, labels); NaN if a draw has none."""

    accuracy: FloatArray
    macro_f1: FloatArray
    weighted_f1: FloatArray
    unreadable: FloatArray
    f1: FloatArray

    @classmethod
    def of(cls, support: FloatArray, n_predicted: FloatArray, correct: FloatArray) -> _Draws:
        """Score counts of labels, each of shape (B, labels)."""
        n = support.sum(axis=1)
        f1 = divide(2 * correct, support + n_predicted)
        known = ~np.isnan(f1)
        return cls(
            accuracy=divide(correct.sum(axis=1), n),
            macro_f1=divide(np.where(known, f1, 0.0).sum(axis=1), known.sum(axis=1)),
            weighted_f1=divide((np.where(known, f1, 0.0) * support).sum(axis=1), n),
            unreadable=divide(n - n_predicted.sum(axis=1), n),
            f1=f1,
        )


@dataclass(frozen=True, eq=False)
class _LabelledAnswers:
    """Answers of one dimension and variant; codes have one element an answer, ``predicted`` −1 without a label."""

    labels: tuple[str, ...]
    gold: IntArray
    predicted: IntArray
    conversation: IntArray
    narrative: IntArray

    @classmethod
    def of(cls, answers: pd.DataFrame, labels: Sequence[str] | None) -> _LabelledAnswers:
        gold, predicted = answers["gold"].astype(str), answers["predicted"].astype(object)
        names = sorted({*gold, *predicted.dropna()}) if labels is None else list(labels)
        for kind, used in (("gold", gold), ("predicted", predicted.dropna())):
            if unknown := sorted(set(used) - set(names)):
                raise ValueError(f"{unknown[0]!r} is a {kind} label, but the labels are {', '.join(map(repr, names))}")
        place = {name: k for k, name in enumerate(names)}
        narratives = answers["narrative_id"].astype(str)
        return cls(
            labels=tuple(names),
            gold=gold.map(place).to_numpy(np.int64),
            predicted=predicted.map(place).fillna(-1).to_numpy(np.int64),
            conversation=pd.factorize(narratives.map(conversation_of))[0].astype(np.int64),
            narrative=pd.factorize(narratives)[0].astype(np.int64),
        )

    def score(self, chosen: BoolArray) -> ClassificationScore:
        gold = [self.labels[k] for k in self.gold[chosen]]
        predicted = [None if k < 0 else self.labels[k] for k in self.predicted[chosen]]
        return score_labels(gold, predicted, labels=self.labels)

    def n_conversations(self, chosen: BoolArray) -> int:
        return np.unique(self.conversation[chosen]).size

    def n_narratives(self, chosen: BoolArray) -> int:
        return np.unique(self.narrative[chosen]).size

    def draw(self, levels: Sequence[BoolArray], *, rng: np.random.Generator, n_draws: int) -> list[_Draws]:
        """Return each level's values in resamples of the conversations, the same resamples for all."""
        n_units, shape = int(self.conversation.max()) + 1, (len(levels), 3, len(self.labels))
        counts = self._counts(levels, n_units)
        width = counts.shape[1]
        sums = [(counts.T @ w.T).T for w in resamples(n_units, n_draws=n_draws, rng=rng, width=width)]
        drawn = np.concatenate([*sums, np.empty((0, width))]).reshape(-1, *shape)
        return [_Draws.of(*drawn[:, k].transpose(1, 0, 2)) for k in range(len(levels))]

    def _counts(self, levels: Sequence[BoolArray], n_units: int) -> sparse.csr_array:
        """Count gold labels, predicted labels, and both equal: conversations × (levels, these three, labels)."""
        given, right = self.predicted >= 0, self.predicted == self.gold
        units, columns = [], []
        for place, chosen in enumerate(levels):
            for k, (rows, codes) in enumerate(
                ((chosen, self.gold), (chosen & given, self.predicted), (chosen & right, self.gold))
            ):
                units.append(self.conversation[rows])
                columns.append((3 * place + k) * len(self.labels) + codes[rows])
        unit, column = np.concatenate(units), np.concatenate(columns)
        shape = n_units, 3 * len(levels) * len(self.labels)
        return sparse.csr_array((np.ones(unit.size), (unit, column)), shape=shape)


def _levels(answers: pd.DataFrame) -> Iterator[tuple[str, str, BoolArray]]:
    """Yield each grouping, its level, and which answers belong to it."""
    yield OVERALL, OVERALL, np.ones(len(answers), dtype=np.bool_)
    for by, column in (("speaker", "identity"), ("experiencer", "experiencer"), ("perceiver", "perceiver")):
        names = answers[column].astype(object).fillna("").astype(str)
        for name in dict.fromkeys(sorted(names) if by == "speaker" else names):
            if name:
                yield by, name, (names == name).to_numpy(np.bool_)
    inside = answers["in_group"].astype("boolean")
    for value, level in _PAIRS.items():
        chosen = inside.isna() if value is None else (inside == value).fillna(False)
        if chosen.any():
            yield "pairs", level, chosen.to_numpy(np.bool_)


def _row(
    sample: _LabelledAnswers, chosen: BoolArray, score: ClassificationScore, draws: _Draws, *, confidence: float
) -> dict[str, Any]:
    n_units = sample.n_conversations(chosen)
    known = [each for each in score.by_label if not np.isnan(each.f1)]
    row: dict[str, Any] = {
        "n": score.n,
        "n_narratives": sample.n_narratives(chosen),
        "n_conversations": n_units,
        "n_labels": len(known),
        "accuracy": score.accuracy,
        "macro_f1": score.macro_f1,
        "weighted_f1": sum(each.f1 * each.support for each in known) / score.n,
        "unreadable": score.n_unlabelled / score.n,
    }
    drawn = {name: getattr(draws, name) for name in _SHARES}
    return row | _intervals(row, drawn, [n_units] * len(drawn), confidence=confidence, unsaid=("unreadable",))


def _intervals(
    row: Mapping[str, float],
    drawn: Mapping[str, FloatArray],
    n_units: Iterable[int],
    *,
    confidence: float,
    unsaid: Sequence[str] = (),
    lowest: float = 0.0,
) -> dict[str, Any]:
    """Return the intervals of a row's numbers, and a note that says why some have none."""
    ends: dict[str, Any] = {}
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    there = [name for name in drawn if name not in unsaid and not np.isnan(row[name])]
    for (name, draws), n in zip(drawn.items(), n_units, strict=True):
        low, high, reason = _interval(row[name], draws, n_units=int(n), confidence=confidence, lowest=lowest)
        ends |= {f"{name}_low": low, f"{name}_high": high}
        if reason and name in there:
            reasons[reason].append(_SAID.get(name, name))
    said = [reason if len(own) == len(there) else f"{', '.join(own)}: {reason}" for reason, own in reasons.items()]
    return ends | {"note": "; ".join(said)}


def _label_rows(
    score: ClassificationScore, draws: _Draws, *, n_units: int, confidence: float
) -> Iterator[dict[str, Any]]:
    for place, each in enumerate(score.by_label):
        low, high, _ = _interval(each.f1, draws.f1[:, place], n_units=n_units, confidence=confidence)
        fields = ("label", "precision", "recall", "f1", "support", "n_predicted", "n_correct")
        yield {name: getattr(each, name) for name in fields} | {"f1_low": low, "f1_high": high}


def _confusion_rows(score: ClassificationScore, labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    given = (*labels, "")
    for row, column in np.argwhere(score.confusion).tolist():
        n = int(score.confusion[row, column])
        support = int(score.confusion[row].sum())
        yield {"gold": labels[row], "predicted": given[column], "n": n, "share": n / support}


def _interval(
    value: float, draws: FloatArray, *, n_units: int, confidence: float, lowest: float = 0.0
) -> tuple[float, float, str]:
    """Return the ends of the interval of a share, or of a difference of two (−1 the lowest); NaN and why if none."""
    known = draws[~np.isnan(draws)]
    if n_units < MIN_CONVERSATIONS:
        few = f"{plural(n_units, 'conversation')} {'is' if n_units == 1 else 'are'} too few for an interval"
        return _NAN, _NAN, f"{few}, which takes {MIN_CONVERSATIONS}"
    if np.isnan(value) or known.size < 2:
        return _NAN, _NAN, "there are no resamples to make an interval of"
    se = float(known.std(ddof=1))
    if se <= _ROUNDING:
        return _NAN, _NAN, f"all {known.size} resamples give the same value, so their spread is 0"
    low, high, _ = t_interval(value, se, n_units - 1, confidence=confidence)
    return max(low, lowest), min(high, 1.0), ""
