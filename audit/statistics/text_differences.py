"""What was written about each group against what was written about the others: scores with intervals, marked words.

Texts are not independent observations: some are copies, and one perceiver's texts resemble each other. So scores are
reduced to one difference a narrative, or a perceiver where the narrative was not shown, and the t interval is over
those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from audit.statistics.estimates import EPSILON, t_interval
from audit.statistics.families import adjust_p
from audit.statistics.ratings import BASELINES, BoolArray, FloatArray, IntArray, divide
from audit.statistics.remarks import Remark
from audit.statistics.texts.words import words
from audit.tables.formatting import brief, p_value, plural, points
from audit.tables.stages import MARKED_WORDS, STAGE_TEXTS, THEME

MEASURES: Final = {
    "n_words": "words",
    "sentiment": "compound, from -1 to 1",
    "stereotype_words": "per 100 words",
    "refused": "% of texts",
    "emotion_named": "% of texts",
    "emotion_accuracy": "% of texts that name an emotion",
}
"""The measures that are tested, with their units."""
MARKED: Final = 15  # the most words that are listed for a group
MIN_TEXTS: Final = 3  # distinct texts in which a word must occur to be tested
_SHARES: Final = ("refused", "emotion_named", "emotion_accuracy")
_REMARKED: Final = ("stereotype_words", "sentiment")
_BLIND: Final = "the texts are the same whatever the narrative, and tell nothing of its emotion"
_NAMED: Final = 4
_FAILED: Final = "failed"
_AXES: Final = ("narrative_id", "perceiver", "experiencer")


def text_tables(stages: pd.DataFrame, *, confidence: float) -> dict[str, pd.DataFrame]:
    """Compare what stages wrote about each group with what they wrote about the others.

    ``stages`` has one row a prompt and stage; the columns of emotions may be absent and are then left out. Returns
    ``stage_texts`` and ``marked_words``, empty without rows; dimensions, variants and stages in their order of
    appearance, groups and all else whatever the order of the rows. The t intervals are not corrected for multiplicity.

    Notes
    -----
    Baselines ("unspecified", "no persona") are left out on both sides, as in δ. With y_npg the mean score of narrative
    n's texts by perceiver p about the terms of group g, of G groups, the difference of a narrative is the mean over
    perceivers of y_npg − Σ_{h≠g} y_nph / (G − 1); perceivers whose text about some group is missing in a narrative are
    left out there. The t interval is over narratives: *these identities, any such narratives*.

    Where a stage wrote the same texts whatever the narrative, differences are taken per perceiver (by its wording) over
    all narratives, and the interval is over perceivers: *any such perceivers*. They are few, and so it is wide.
    Narratives, or perceivers, that share the texts of more than half of their pairs are copies: they make one unit.
    Such texts tell nothing of a narrative's emotion, and so have no ``emotion_accuracy``. Elsewhere it is over texts
    that name an emotion, and a perceiver who names none about some group is left out like one whose text is missing.

    All stages, measures and groups of a dimension and variant are one family, corrected by Holm's method, since a
    reader looks through all of them. A theme is a part of ``stereotype_words``; it is described, and is no test.
    """
    rows: list[dict[str, Any]] = []
    marked: list[dict[str, Any]] = []
    outside = stages["experiencer_group"].isin(BASELINES) | stages["perceiver_group"].isin(BASELINES)
    for (dimension, variant), own in stages.loc[~outside].groupby(["dimension", "variant"], observed=True, sort=False):
        family: list[dict[str, Any]] = []
        for stage, part in own.groupby("stage", observed=True, sort=False):
            known = {"dimension": str(dimension), "variant": str(variant), "stage": str(stage)}
            laid = _Laid.out(part, place=", ".join(known.values()))
            family += (known | row for row in _difference_rows(laid, part, confidence=confidence))
            marked += (known | row for row in _marked_rows(part))
        tested = [row["p"] if row["measure"] in MEASURES else np.nan for row in family]
        adjusted, size = adjust_p(tested, method="Holm")
        rows += (
            row | {"p_adjusted": p, "method": "Holm", "family_size": size}
            for row, p in zip(family, adjusted.tolist(), strict=True)
        )
    return {
        "stage_texts": pd.DataFrame(rows, columns=list(STAGE_TEXTS)),
        "marked_words": pd.DataFrame(marked, columns=list(MARKED_WORDS)),
    }


def texts_remarks(stage_texts: pd.DataFrame, *, confidence: float) -> Iterator[Remark]:
    """Yield the remark ``texts_differ`` where tests find stereotype words or sentiment to differ between groups."""
    found = stage_texts.loc[_asked(stage_texts) & _differ(stage_texts, confidence)]
    for (dimension, variant), own in found.groupby(["dimension", "variant"], observed=True, sort=False):
        largest = own.sort_values(["p_adjusted", "p"], kind="stable")
        said = [
            f"{brief(str(row['group']))} ({_said(row)}, stage {row['stage']})"
            for row in largest.head(_NAMED).to_dict("records")
        ]
        more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
        yield Remark(
            dimension=str(dimension),
            variant=str(variant),
            code="texts_differ",
            text=f"What the strategy wrote about a group differs from what it wrote about the others: {'; '.join(said)}"
            f"{more}. A smaller δ that comes with stereotyped texts is no remedy.",
        )


def count_differences(stage_texts: pd.DataFrame, *, confidence: float) -> dict[tuple[str, str], tuple[int, int]]:
    """Count the tests of stereotype words and sentiment and those that differ, by dimension and variant."""
    tested = stage_texts.loc[_asked(stage_texts)]
    differ = _differ(tested, confidence)
    groups = tested.assign(differ=differ).groupby(["dimension", "variant"], observed=True, sort=False)["differ"]
    return {(str(dimension), str(variant)): (len(own), int(own.sum())) for (dimension, variant), own in groups}


def _asked(stage_texts: pd.DataFrame) -> pd.Series[bool]:
    """Whether a row asks if stereotype words or sentiment differ, by a test or because all units differ alike."""
    answered = stage_texts["p_adjusted"].notna() | stage_texts["constant"].astype(bool)
    return stage_texts["measure"].isin(_REMARKED) & answered


def _differ(stage_texts: pd.DataFrame, confidence: float) -> pd.Series[bool]:
    return (stage_texts["p_adjusted"].astype(float) < 1 - confidence) | stage_texts["constant"].astype(bool)


def _said(row: Mapping[Any, Any]) -> str:
    unit = "stereotype words per 100 words" if row["measure"] == "stereotype_words" else "points of sentiment"
    how = f"in all {row['units']} alike" if row["constant"] else f"corrected {p_value(row['p_adjusted'])}"
    return f"{points(row['difference'])} {unit}, {how}"


@dataclass(frozen=True)
class _Laid:
    """The texts of one stage by narrative, perceiver and experiencer, each sorted by name."""

    places: tuple[IntArray, IntArray, IntArray]
    shape: tuple[int, int, int]
    texts: IntArray
    group_of: tuple[str, ...]

    @classmethod
    def out(cls, part: pd.DataFrame, *, place: str) -> _Laid:
        """Arrange the rows by narrative, perceiver and experiencer; −1 where there is no text."""
        coded = [pd.factorize(part[name].astype(str), sort=True) for name in _AXES]
        places = tuple(np.asarray(codes, dtype=np.int64) for codes, _ in coded)
        shape = tuple(len(names) for _, names in coded)
        flat = np.ravel_multi_index(places, shape)
        if np.unique(flat).size < flat.size:
            raise ValueError(f"a prompt occurs twice in the stage's texts ({place}): they are one row a prompt")
        texts = np.full(int(np.prod(shape)), -1, dtype=np.int64)
        codes = pd.factorize(part["text"].astype(str))[0]
        # Empty texts are alike without being copies of one another.
        nothing = ((part["status"] == _FAILED) | (part["n_words"] == 0)).to_numpy()
        texts[flat] = np.where(nothing, -1, codes)
        group_of = dict(zip(part["experiencer"].astype(str), part["experiencer_group"].astype(str), strict=True))
        return cls(
            (places[0], places[1], places[2]),
            (shape[0], shape[1], shape[2]),
            texts.reshape(shape),
            tuple(group_of[str(name)] for name in coded[2][1]),
        )

    def scores(self, values: FloatArray) -> FloatArray:
        """Arrange a measure by narrative, perceiver and experiencer; NaN where there is none."""
        y = np.full(self.shape, np.nan)
        y[self.places] = values
        return y


def _difference_rows(laid: _Laid, part: pd.DataFrame, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``STAGE_TEXTS`` of one stage, without the columns that the family adds."""
    groups = sorted(set(laid.group_of))
    units, copy_of = _units(laid.texts)
    n_written = int(np.count_nonzero(copy_of >= 0))
    n_copied = n_written - int(copy_of.max(initial=-1) + 1)
    limited = f"of {n_written} {units} {n_copied} have the texts of another one and are counted with it"
    failed = (part["status"] == _FAILED).to_numpy()
    empty = (part["n_words"] == 0).to_numpy() & ~failed
    about = part["experiencer_group"].astype(str).to_numpy()
    text = part["text"].astype(str).to_numpy()
    counts = {
        group: {
            "n_texts": len(set(text[(about == group) & ~failed & ~empty])),
            "n_empty": int(np.count_nonzero(empty[about == group])),
            "n_failed": int(np.count_nonzero(failed[about == group])),
        }
        for group in groups
    }
    taken = [name for name in MEASURES if name in part]
    for measure in (*taken, *(str(name) for name in part.columns if str(name).startswith(THEME))):
        values = part[measure].to_numpy(dtype=np.float64) * (100.0 if measure in _SHARES else 1.0)
        blind = measure == "emotion_accuracy" and units == "perceivers"
        values = np.where(failed | blind, np.nan, values)
        scored = np.isfinite(values) & ~empty
        means = _unit_means(laid.scores(values), laid.group_of, groups, units, copy_of)
        for place, group in enumerate(groups):
            estimated = _difference(means, place, units, tested=measure in MEASURES, confidence=confidence)
            if measure == "emotion_accuracy" and not estimated["n_units"]:
                estimated["note"] = _BLIND if blind else f"{estimated['note']} that names an emotion"
            if n_copied and not estimated["note"] and measure in MEASURES:
                estimated["note"] = limited
            if len(groups) == 2 and place == 1 and measure in MEASURES and estimated["n_units"]:
                # One question, not two: corrected for as one test.
                estimated |= {"p": float("nan"), "constant": False}
                estimated["note"] = f"the other side of the difference of {brief(groups[0])}, and no test of its own"
            yield {
                "measure": measure,
                "group": group,
                "unit": MEASURES.get(measure, MEASURES["stereotype_words"]),
                **estimated,
                "units": units,
                **counts[group],
                "n_scored": len(set(text[scored & (about == group)])),
            }


def _units(texts: IntArray) -> tuple[str, IntArray]:
    """Name the independent units, and number them so that copies share a number.

    The units are narratives, unless they are all copies of one; else perceivers. ``texts`` is by narrative, perceiver
    and experiencer.
    """
    narratives = _copies(texts.reshape(len(texts), -1))
    if len(texts) > 1 and narratives.max() == 0:
        return "perceivers", _copies(texts.transpose(1, 0, 2).reshape(texts.shape[1], -1))
    return "narratives", narratives


def _copies(texts: IntArray) -> IntArray:
    """Give rows that are alike in more than half of what both have one number; −1 for an empty row."""
    number = np.full(len(texts), -1, dtype=np.int64)
    first: list[IntArray] = []
    holding: dict[tuple[int, int], list[int]] = {}
    for row, own in enumerate(texts):
        if (own < 0).all():
            continue
        shared = Counter(each for key in enumerate(own.tolist()) if key[1] >= 0 for each in holding.get(key, ()))
        number[row] = len(first)
        for each, n_alike in shared.most_common():
            if 2 * n_alike > np.count_nonzero((own >= 0) & (first[each] >= 0)):
                number[row] = each
                break
        if number[row] == len(first):
            first.append(own)
            for key in enumerate(own.tolist()):
                if key[1] >= 0:
                    holding.setdefault(key, []).append(len(first) - 1)
    return number


def _unit_means(
    y: FloatArray, group_of: Sequence[str], groups: Sequence[str], units: str, copy_of: IntArray
) -> FloatArray:
    """Means, shape (units, groups), over the terms of a group, then over perceivers or narratives, then over copies."""
    of_groups = np.stack([_mean(y[:, :, [name == group for name in group_of]], axis=2) for group in groups], axis=2)
    of_groups[np.isnan(of_groups).any(axis=2)] = np.nan
    by_unit = _mean(of_groups, axis=1 if units == "narratives" else 0)
    written = copy_of >= 0
    return pd.DataFrame(by_unit[written]).groupby(copy_of[written]).mean().to_numpy(dtype=np.float64)


def _mean(values: FloatArray, *, axis: int) -> FloatArray:
    """Mean of the values that are not NaN; NaN if there are none."""
    known = ~np.isnan(values)
    return divide(np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis))


def _difference(means: FloatArray, place: int, units: str, *, tested: bool, confidence: float) -> dict[str, Any]:
    """Estimate one group's difference from the others; ``means`` by unit and group."""
    used = means[~np.isnan(means).any(axis=1)]
    estimate: dict[str, Any] = dict.fromkeys(
        ("mean", "mean_others", "difference", "se", "df", "ci_low", "ci_high", "p"), float("nan")
    )
    n, n_groups = used.shape
    estimate |= {"constant": False, "n_units": n, "note": ""}
    if n == 0:
        return estimate | {"note": f"in none of {plural(len(means), units[:-1])} is there a text about every group"}
    estimate["mean"] = float(used[:, place].mean())
    if n_groups < 2:
        return estimate | {"note": "there is no other group to compare it with"}
    others = np.delete(used, place, axis=1).mean(axis=1)
    differences = used[:, place] - others
    differences[np.abs(differences) <= 8 * n_groups * EPSILON * np.abs(used).max(axis=1)] = 0.0
    estimate |= {"mean_others": float(others.mean()), "difference": float(differences.mean())}
    if not tested:
        return estimate
    if n < 2:
        return estimate | {"note": f"one unit ({units[:-1]}) says nothing about how {units} differ"}
    if np.ptp(differences) <= 64 * n_groups * EPSILON * np.abs(used).max():
        estimate["constant"] = estimate["difference"] != 0
        return estimate | {"note": f"all {n} {units} give the same difference, so their spread is 0"}
    se, df = float(differences.std(ddof=1)) / n**0.5, float(n - 1)
    low, high, p = t_interval(estimate["difference"], se, df, confidence=confidence)
    return estimate | {"se": se, "df": df, "ci_low": low, "ci_high": high, "p": p}


def _marked_rows(part: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``MARKED_WORDS`` of one stage."""
    written = part.loc[(part["status"] != _FAILED) & (part["n_words"] > 0)]
    about = written["experiencer_group"].astype(str)
    texts_of = {group: sorted(set(written.loc[about == group, "text"].astype(str))) for group in sorted(set(about))}
    if len(texts_of) < 2:
        return
    split = cache(words)
    n_texts = Counter(word for text in set().union(*texts_of.values()) for word in set(split(text)))
    identities = _own_words(name for side in ("experiencer", "experiencer_group") for name in part[side].unique())
    counts = {group: Counter(word for text in texts for word in split(text)) for group, texts in texts_of.items()}
    total = sum(counts.values(), Counter())
    vocabulary = sorted(total.keys() - identities)
    tested = np.array([n_texts[word] >= MIN_TEXTS for word in vocabulary], dtype=bool)
    all_counts = np.array([total[word] for word in vocabulary], dtype=np.int64)
    for group, own in counts.items():
        inside = np.array([own[word] for word in vocabulary], dtype=np.int64)
        yield from _most_marked(group, vocabulary, inside, all_counts - inside, tested)


def _most_marked(
    group: str, vocabulary: Sequence[str], inside: IntArray, outside: IntArray, tested: BoolArray
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group's words, the most marked first."""
    if not tested.any() or len(vocabulary) < 2 or not inside.any() or not outside.any():
        return
    log_odds, z = (each[tested] for each in log_odds_ratio(inside, outside))
    adjusted, size = adjust_p(2 * special.ndtr(-np.abs(z)), method="Holm")
    chosen = np.flatnonzero(tested)
    # Words with equal z stand in alphabetical order.
    for k in np.argsort(-z, kind="stable")[:MARKED].tolist():
        if z[k] > 0:
            yield {
                "group": group,
                "word": vocabulary[chosen[k]],
                "n_group": int(inside[chosen[k]]),
                "n_others": int(outside[chosen[k]]),
                "log_odds": float(log_odds[k]),
                "z": float(z[k]),
                "p_adjusted": float(adjusted[k]),
                "family_size": size,
            }


def log_odds_ratio(inside: npt.ArrayLike, outside: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Compare two counts of words by their log odds, smoothed by an informative Dirichlet prior.

    Both counts have shape (W,), W > 1; each word occurs at least once in one of them, and neither collection is empty.
    Returns δ_w, positive where the word is more frequent inside, and its z score, shape (W,) each.

    Notes
    -----
    With y_w and n a collection's counts of the word and of all words, α_w the word's count in both collections together
    and α_0 = Σ α_w (the background as prior, as [2]_ takes it; [1]_ leaves its size open),

    δ_w = log[(y_w + α_w) / (n + α_0 − y_w − α_w)] inside, less the same outside;
    z_w = δ_w / sqrt(1 / (y_w inside + α_w) + 1 / (y_w outside + α_w)).

    z would be standard normal if each word were drawn by itself. Words of one text are not: a text that repeats itself
    makes its words look marked. So z orders words, and a p made of it is too small; it shows nothing about how texts
    by other perceivers, or of other narratives, would differ.

    References
    ----------
    .. [1] Monroe, Colaresi and Quinn (2008), Fightin' Words, Political Analysis 16(4), 372–403.
    .. [2] Cheng, Durmus and Jurafsky (2023), Marked Personas, arXiv:2305.18189.

    Examples
    --------
    The first word stands 3 times of 4 inside and 1 time of 4 outside. With the prior, that is 7 of 12 against 5 of 12:

    >>> delta, z = log_odds_ratio([3, 1], [1, 3])
    >>> delta.round(3).tolist()  # ± (log(7/5) − log(5/7))
    [0.673, -0.673]
    """
    counts = [np.asarray(each, dtype=np.float64) for each in (inside, outside)]
    prior = counts[0] + counts[1]
    smoothed = [each + prior for each in counts]
    logits = [np.log(each / (each.sum() - each)) for each in smoothed]
    delta: FloatArray = logits[0] - logits[1]
    return delta, delta / np.sqrt(1 / smoothed[0] + 1 / smoothed[1])


def _own_words(wordings: Iterable[object]) -> frozenset[str]:
    """Return the words that identities are named by, with their plurals and possessives."""
    return frozenset(word + end for wording in wordings for word in words(str(wording)) for end in ("", "s", "'s"))
