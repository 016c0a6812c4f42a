"""Gaps between runs: paired differences of δ, what strategies and elicitations change, and what the runs show together.

Two runs' δ are subtracted narrative by narrative, so that the narrative's own effect on both cancels. Beside the change
of a measure's δ stands the change of its mean over all pairs: a run that writes differently to everybody can change δ
without treating groups differently. Runs are never pooled into one estimate: they share narratives, models or
identities in ways that no sampling scheme describes, so the specification curve is described, not tested.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.comparing.run_gaps import RatingGaps, ReplyGaps, RunGaps
from audit.comparing.tables import (
    COMPARED_GAP,
    ELICITATION_RANGES,
    ELICITATIONS,
    MEASURE_CHANGES,
    SPECIFICATIONS,
    STRATEGIES,
)
from audit.errors import NotEstimableError, attempt
from audit.statistics.anchors import with_adjusted_p
from audit.statistics.comparisons import Labelled, compare_estimates, difference, mean_of, over_groups, scope_of
from audit.statistics.conversations import conversations_of, noted_over_conversations
from audit.statistics.estimates import INTERVAL, summarise_contrasts
from audit.statistics.families import adjust_p
from audit.statistics.outcome import OWN_UNIT, ROUNDING
from audit.statistics.ratings import FloatArray
from audit.statistics.scopes import slope_variance
from audit.tables.shared import OVERALL

OTHER_TEXTS: Final = "the two were asked about different narratives, which cannot be paired"
OTHER_PAIRS: Final = (
    "one gap is of pairs without a common word and the other of all pairs, so their difference would be the echo of "
    "words"
)
NO_REFERENCE: Final = (
    "no run of strategy none has the same model, files of it, prompt, narratives, elicitation with its settings, seed, "
    "scale and identities"
)
_CHANGED: Final = {
    "delta_change": "delta_change",
    "change_scope": "scope",
    "change_low": "ci_low",
    "change_high": "ci_high",
    "p": "p",
    "n_narratives": "n_narratives",
}
"""Columns of a change of δ beside the runs' own gaps, and their names in ``tables.COMPARISONS``."""
_IN_UNIT: Final = ("delta_change", "change_low", "change_high")
_ENDS: Final = {"": "mean_change", "_low": "mean_low", "_high": "mean_high"}
_PROMPT: Final = ["narrative_id", "perceiver", "experiencer", "wording"]
_ZERO: Final = 1e-9
"""Share of the scale: a smaller δ is floating-point error and has no sign."""
_CLAIMED: Final = ("claim", "direction", "size", "control", "scope", "parts_beyond", "parts_not_shown")
_NONE: Final = ("no_verdict", "no_estimate")
"""Codes of verdicts that say nothing about the gap, so that nothing depends on the elicitation."""


def same_dimensions(runs: Mapping[str, RunGaps]) -> bool:
    """Whether all runs that have an overall mean take it over the same dimensions."""
    return len({frozenset(each.single_dimensions) for each in runs.values() if len(each.single_dimensions) > 1}) < 2


def subtract(
    pair: tuple[Labelled, Labelled],
    *,
    dimension: str,
    confidence: float,
    conversation_of: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """Subtract the second δ from the first, narrative by narrative: a row of ``tables.COMPARISONS``.

    For utterances the uncertainty is that of their conversations; see
    :func:`audit.statistics.conversations.over_conversations`.
    """
    [found] = compare_estimates(pair, dimension=dimension, confidence=confidence)
    try:
        change, shared = difference(*pair, confidence=confidence)
    except NotEstimableError:
        return found
    units = conversations_of(shared, conversation_of)
    if not units or not np.isfinite(found["se"]):
        return found
    over, note = noted_over_conversations(change, units, confidence=confidence)
    # Differences between utterances partly cancel in their conversation's mean, so its slopes vary less.
    slopes = min(slope_variance(over), over.se**2)
    wide = over_groups(over, *pair, confidence=confidence, slopes=slopes)
    return found | {name: getattr(wide, name) for name in INTERVAL} | {"scope": scope_of(wide, over), "note": note}


def _pair(runs: Mapping[str, RunGaps], names: Sequence[str], dimension: str, *of: str) -> tuple[Labelled, Labelled]:
    first, second = (runs[name].own(dimension, name, *of) for name in names)
    return first, second


def _corrected(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Correct the p of a dimension's rows by Holm; a row that is compared with no other run stays as it is."""
    adjusted, size = adjust_p([row["p"] for row in rows], method="Holm")
    for row, p in zip(rows, adjusted.tolist(), strict=True):
        is_compared = row["reference"] not in ("", row["run"])
        yield row | ({"p_adjusted": p, "method": "Holm", "family_size": size} if is_compared else {})


def _noted(*notes: str) -> str:
    return "; ".join(dict.fromkeys(filter(None, notes)))


# --- Ratings: every two runs, and over all runs ----------------------------------------------------------------------


def compared_gap_table(runs: Mapping[str, RatingGaps]) -> pd.DataFrame:
    """Return ``tables.COMPARED_GAP``: the gaps of all runs, in the order given, dimension by dimension.

    p is corrected over the headlines of all runs.
    """
    rows = list(with_adjusted_p([{"run": label, **row} for label, each in runs.items() for row in each.gap]))
    table = pd.DataFrame(rows, columns=list(COMPARED_GAP))
    place = {name: number for number, name in enumerate(_dimensions(runs))}
    return table.sort_values("dimension", key=lambda names: names.map(place), kind="stable", ignore_index=True)


def _dimensions(runs: Mapping[str, RatingGaps]) -> list[str]:
    """List all dimensions in order of first appearance, the overall mean last."""
    found = dict.fromkeys(row["dimension"] for each in runs.values() for row in each.gap)
    return sorted(found, key=lambda name: name == OVERALL)


def compare_runs(
    runs: Mapping[str, RatingGaps], *, texts: Mapping[str, str], confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.COMPARISONS``: every two runs' δ compared narrative by narrative, by dimension.

    Runs that were asked about different texts get a row of NaN and a note. So do a gap of pairs without a common word
    and one of all pairs: their difference would be the echo of words. The overall mean has no rows if the runs asked
    about different dimensions. ``texts`` says what a run's narrative identifiers stand for: only runs with equal values
    are paired.
    """
    for dimension in _dimensions(runs):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        of_pairs = {label: _pairs_of(run, dimension) for label, run in runs.items()}
        # Equal identifiers are the same narrative only if they stand for the same text.
        told_apart = [
            replace(made, narrative_ids=tuple((texts[label], of_pairs[label], key) for key in made.narrative_ids))
            for label, run in runs.items()
            if isinstance(made := attempt(partial(run.own, dimension, label)), Labelled)
        ]
        for row in compare_estimates(told_apart, dimension=dimension, confidence=confidence):
            first, second = row["first"], row["second"]
            if texts[first] != texts[second]:
                yield row | {"note": OTHER_TEXTS}
            elif of_pairs[first] != of_pairs[second]:
                yield row | {"note": OTHER_PAIRS}
            else:
                yield row


def _pairs_of(run: RatingGaps, dimension: str) -> str:
    """Return which in-group pairs a gap uses, as in ``tables.ELICITATIONS``. A mean over dimensions may be mixed."""
    asked = set(run.single_dimensions) if dimension == OVERALL else {dimension}
    return "echo_free" if asked <= run.free else "mixed" if asked & run.free else "all_terms"


def specification_rows(runs: Mapping[str, RatingGaps]) -> Iterator[dict[str, Any]]:
    """Describe each dimension's δ over the runs: its median, its range, and how many agree in sign.

    Rows of ``tables.SPECIFICATIONS`` are in points, or in % of the scale if the scales of the runs differ. The overall
    mean has no row if the runs asked about different dimensions.

    Notes
    -----
    The descriptive part of a specification curve [1]_. Its test by resampling is left out: it needs specifications that
    exhaust what is reasonable, and runs are only those that someone chose to make.

    References
    ----------
    .. [1] Simonsohn, Simmons and Nelson (2020), Nature Human Behaviour 4, 1208–1214.
    """
    gap = compared_gap_table(runs)
    for dimension, rows in gap.groupby("dimension", sort=False):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        in_unit, unit = in_one_unit(rows, {label: each.scale for label, each in runs.items()})
        longest = max(np.ptp(runs[label].scale) for label in rows["run"])
        zero = _ZERO * (float(longest) if unit == "points" else 100.0)
        yield _specification(str(dimension), in_unit, unit, zero=zero)


def in_one_unit(gap: pd.DataFrame, scales: Mapping[str, tuple[float, float]]) -> tuple[pd.DataFrame, str]:
    """Return δ and interval of each run in one unit, and the unit: points if all scales are equal, else % of the scale.

    ``gap`` holds rows of one dimension from :func:`compared_gap_table`. The result has the columns ``run``, ``delta``,
    ``ci_low`` and ``ci_high``, for the scope ``narratives``.
    """
    own = gap.loc[gap["scope"] == "narratives"].reset_index(drop=True)
    one_scale = len({scales[label] for label in own["run"]}) < 2
    length = own["run"].map({label: high - low for label, (low, high) in scales.items()}).astype(float)
    factor = 1.0 if one_scale else 100 / length
    columns = {name: own[name].astype(float) * factor for name in ("delta", "ci_low", "ci_high")}
    return pd.DataFrame({"run": own["run"], **columns}), "points" if one_scale else "% of the scale"


def _specification(dimension: str, rows: pd.DataFrame, unit: str, *, zero: float) -> dict[str, Any]:
    estimated = rows.loc[rows["delta"].notna()]
    delta: FloatArray = estimated["delta"].to_numpy(dtype=np.float64)
    low, high = (estimated[name].to_numpy(dtype=np.float64) for name in ("ci_low", "ci_high"))
    row: dict[str, Any] = dict.fromkeys(SPECIFICATIONS, float("nan"))
    row |= {"dimension": dimension, "unit": unit, "n_runs": len(rows), "n_estimated": delta.size}
    row |= {"lowest_run": "", "highest_run": ""}
    row |= {"n_above": int((low > 0).sum()), "n_below": int((high < 0).sum())}
    row |= {"n_compatible": int(((low <= 0) & (high >= 0)).sum()), "n_no_interval": int(np.isnan(low).sum())}
    if not delta.size:
        return row | {"n_same_sign": 0}
    sign = np.sign(np.where(np.abs(delta) <= zero, 0.0, delta))
    median = float(np.median(delta))
    same = int((sign == np.sign(median)).sum()) if abs(median) > zero else 0
    row |= {"median": median, "lowest": float(delta.min()), "highest": float(delta.max()), "n_same_sign": same}
    for end, place in (("lowest_run", delta.argmin()), ("highest_run", delta.argmax())):
        row[end] = str(estimated["run"].iloc[int(place)])
    counted = {"share_same_sign": same, "share_above": row["n_above"], "share_below": row["n_below"]}
    return row | {name: number / delta.size for name, number in counted.items()}


def strategy_rows(
    runs: Mapping[str, RatingGaps],
    *,
    strategies: Mapping[str, str],
    references: Mapping[str, str],
    costs: Mapping[str, Mapping[str, float]],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.STRATEGIES``: each strategy's δ, side effects and cost beside the run without a strategy.

    ``references`` holds for each run with a strategy the label of its reference, which has the same texts and scale;
    empty if there is none. Other runs have no row. p is corrected by Holm over the strategies of the dimension, each
    against its reference, and not over all pairs: the question is what each strategy changes. The overall mean has no
    row if the runs asked about different dimensions.
    """
    concerned = {*references, *references.values()}
    gap = compared_gap_table({label: each for label, each in runs.items() if label in concerned})
    gap = gap.loc[gap["scope"] == "narratives"]
    for dimension, own in gap.groupby("dimension", sort=False):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        in_unit, unit = in_one_unit(own, {label: each.scale for label, each in runs.items()})
        notes = dict(zip(own["run"], own["note"], strict=True))
        rows = []
        for found in in_unit.to_dict("records"):
            label = found["run"]
            row: dict[str, Any] = dict.fromkeys(STRATEGIES, float("nan"))
            row |= {str(column): value for column, value in found.items()}
            row |= {**costs[label], "strategy": strategies[label], "unit": unit, "note": notes[label]}
            row |= {"dimension": dimension, "reference": "", "change_scope": "", "method": ""}
            row |= {"family_size": 0, "n_narratives": 0}
            row |= runs[label].tallies[str(dimension)].levels()
            if label in references:
                factor = 1.0 if unit == "points" else 100 / float(np.ptp(runs[label].scale))
                changed, why = _strategy_change(runs, label, references[label], str(dimension), confidence=confidence)
                changed |= {name: factor * changed[name] for name in _IN_UNIT if name in changed}
                row |= changed | {"note": _noted(row["note"], why)}
            rows.append(row)
        yield from _corrected(rows)


def _strategy_change(
    runs: Mapping[str, RatingGaps], label: str, reference: str, dimension: str, *, confidence: float
) -> tuple[dict[str, Any], str]:
    """Return the columns of a row that compare with the reference, in points, and why any are missing."""
    if not reference:
        return {}, NO_REFERENCE
    run, other = runs[label], runs[reference]
    if dimension not in other.identities and dimension != OVERALL:
        return {}, f"{reference} did not ask about this dimension"
    mean, before = (each.tallies[dimension].levels()["mean_rating"] for each in (run, other))
    known = {"reference": reference, "mean_change": mean - before}
    changed, why = _change(runs, label, reference, dimension, confidence=confidence)
    return known | changed, why


def _change(
    runs: Mapping[str, RatingGaps], label: str, reference: str, dimension: str, *, confidence: float
) -> tuple[dict[str, Any], str]:
    """Subtract the reference's δ from a run's: the columns of a change, in points, and why a number is missing."""
    pair = attempt(lambda: _pair(runs, (label, reference), dimension))
    if isinstance(pair, NotEstimableError):
        return {}, str(pair)
    if _pairs_of(runs[label], dimension) != _pairs_of(runs[reference], dimension):
        return {}, OTHER_PAIRS
    row = subtract(pair, dimension=dimension, confidence=confidence)
    return {name: row[column] for name, column in _CHANGED.items()}, row["note"]


# --- Elicitations ----------------------------------------------------------------------------------------------------


def elicitation_rows(
    runs: Mapping[str, RatingGaps],
    *,
    elicitations: Mapping[str, str],
    verdicts: Mapping[tuple[str, str], Mapping[str, Any]],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.ELICITATIONS``: each run's headline gap beside the first run's, dimension by dimension.

    ``elicitations`` names each run's elicitation; the first is the reference, and the runs differ in nothing else.
    ``verdicts`` are rows of ``tables.VERDICTS``, by label and dimension. The gap is the one that the run's verdict
    rests on, if that has an interval, so that this table and the run's own page agree on the sign. p is corrected by
    Holm over the elicitations of the dimension. The mean over dimensions has no row if the runs asked about different
    dimensions.
    """
    own = {label: runs[label] for label in elicitations}
    reference = next(iter(own))
    for dimension in dict.fromkeys(row["dimension"] for each in own.values() for row in each.gap):
        if dimension == OVERALL and not same_dimensions(own):
            continue
        rows = []
        for label, run in own.items():
            found = run.headline(dimension)
            if found is None:
                continue
            row: dict[str, Any] = dict.fromkeys(ELICITATIONS, float("nan"))
            row |= {name: found[name] for name in ("delta", "ci_low", "ci_high", "note")}
            decided = verdicts[label, dimension]
            row |= {"verdict": decided["code"]} | {name: decided[name] for name in _CLAIMED}
            if np.isfinite(decided["ci_low"]):
                row |= {name: decided[name] for name in ("delta", "ci_low", "ci_high")}
            row |= {"run": label, "elicitation": elicitations[label], "dimension": dimension, "reference": reference}
            row |= {"pairs": _free_of_echo(run, dimension), "change_scope": "", "method": ""}
            row |= {"family_size": 0, "n_narratives": 0}
            if label != reference:
                changed, why = _change(own, label, reference, dimension, confidence=confidence)
                row |= changed | {"note": _noted(row["note"], why)}
            rows.append(row)
        yield from _corrected(rows)


def elicitation_range(
    rows: Sequence[Mapping[str, Any]], *, scale: tuple[float, float], confidence: float
) -> dict[str, Any]:
    """Return a row of ``tables.ELICITATION_RANGES``: how much a dimension's gap varies over elicitations.

    ``rows`` are of :func:`elicitation_rows`, of one set and dimension.

    Notes
    -----
    A sign is that of the estimate. Estimates on both sides of 0 may be chance; the sign *reverses* only if two
    intervals exclude 0 on opposite sides. Two verdicts may differ although the gaps hardly do: whether the gaps
    themselves differ is for the paired differences to say. Runs without a verdict are left out of signs and changes:
    their ratings support neither.
    """
    known = [row for row in rows if np.isfinite(row["delta"])]
    decided = [row for row in known if row["verdict"] not in _NONE]
    row: dict[str, Any] = dict.fromkeys(ELICITATION_RANGES, float("nan")) | {
        "reference": rows[0]["reference"],
        "dimension": rows[0]["dimension"],
        "n_elicitations": len(rows),
        "n_estimated": len(known),
        "n_intervals": sum(np.isfinite(row["ci_low"]) for row in known),
        "n_verdicts": len(decided),
        **dict.fromkeys(("lowest_elicitation", "highest_elicitation", "sign", "verdict"), ""),
    }
    counted = decided if rows[0] in decided else []
    tested = [each["p_adjusted"] for each in counted if np.isfinite(each["p_adjusted"])]
    row |= {"n_changes": len(tested), "n_found": sum(p < 1 - confidence for p in tested)}
    if known:
        lowest, highest = (which(known, key=lambda each: each["delta"]) for which in (min, max))
        row |= {"lowest": lowest["delta"], "highest": highest["delta"]}
        row |= {"range": highest["delta"] - lowest["delta"]}
        row |= {"lowest_elicitation": lowest["elicitation"], "highest_elicitation": highest["elicitation"]}
    if len(decided) > 1:
        zero = _ZERO * (scale[1] - scale[0])
        signs = {0 if abs(each["delta"]) <= zero else int(np.sign(each["delta"])) for each in decided}
        opposed = any(each["ci_low"] > 0 for each in decided) and any(each["ci_high"] < 0 for each in decided)
        row["sign"] = "reverses" if opposed else "same" if len(signs) == 1 else "differs"
        row["verdict"] = "same" if len({_claimed(each) for each in decided}) == 1 else "differs"
    return row


def _claimed(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a verdict claims. One that decides nothing makes no claim by control, scope or parts."""
    said = (row["verdict"], row["claim"], row["direction"], row["size"])
    if row["verdict"] not in ("gap", "within"):
        return said
    return (*said, row["control"], row["scope"], bool(row["parts_beyond"]), bool(row["parts_not_shown"]))


def _free_of_echo(run: RatingGaps, dimension: str) -> str:
    """Return which in-group pairs a gap uses; empty without a gap."""
    return "" if isinstance(attempt(lambda: run.own(dimension, "")), NotEstimableError) else _pairs_of(run, dimension)


# --- Measures of replies ---------------------------------------------------------------------------------------------


def measure_change_rows(
    runs: Mapping[str, ReplyGaps],
    *,
    references: Mapping[str, str],  # by the label of each compared run
    comparable: Mapping[str, Sequence[str]],  # by the same: the measures that both runs scored the same way, in order
    texts: Mapping[str, str],  # what narrative identifiers stand for, by label: only runs with equal ones are paired
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Subtract each reference's gaps from those of the runs compared with it, narrative by narrative.

    Rows of ``tables.MEASURE_CHANGES`` come without ``strategy``, dimension by dimension. What cannot be estimated is
    a row of NaN with a note. The overall mean has rows if both runs asked about the same dimensions.

    Notes
    -----
    p is corrected by Holm over all changes of a dimension: of every measure, and of every run against its reference.
    The change of the mean uses a narrative's pairs that have a number in both runs, so that missing replies do not move
    it; its t interval is over narratives (of utterances, over their conversations).
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for label, reference in references.items():
        own, other = (runs[name].single_dimensions for name in (label, reference))
        shared = {name: [name] for name in runs[label].identities if name in runs[reference].identities}
        if len(own) > 1 and set(own) == set(other):
            shared[OVERALL] = list(own)
        for measure in comparable[label]:
            matched = {name: _matched(runs, (label, reference), measure, name) for name in shared if name != OVERALL}
            for dimension, parts in shared.items():
                row: dict[str, Any] = dict.fromkeys(MEASURE_CHANGES, float("nan"))
                row |= {"run": label, "reference": reference, "dimension": dimension, "scope": "", "n_narratives": 0}
                row |= runs[label].outcomes[measure].named({"n_both": 0, "note": OTHER_TEXTS})
                if texts[label] == texts[reference]:
                    means = [matched[name] for name in parts]
                    row |= _measure_change(runs, (label, reference), measure, dimension, means, confidence=confidence)
                rows[dimension].append(row | _of_own_gaps(runs, (label, reference), measure, row))
    for dimension in sorted(rows, key=lambda name: name == OVERALL):
        yield from _corrected(rows[dimension])


def _measure_change(
    runs: Mapping[str, ReplyGaps],
    names: tuple[str, str],
    measure: str,
    dimension: str,
    matched: Sequence[pd.DataFrame],
    *,
    confidence: float,
) -> dict[str, Any]:
    """Return the columns that compare both runs' gaps and means; ``matched`` are the replies of each dimension."""
    run, reference = (runs[name] for name in names)
    how = partial(subtract, dimension=dimension, confidence=confidence, conversation_of=run.conversation_of)
    nan = float("nan")
    row: dict[str, Any] = {"n_both": sum(map(len, matched)), "note": ""}
    gaps = attempt(lambda: _pair(runs, names, dimension, measure))
    found: Mapping[str, Any] = {}
    if isinstance(gaps, NotEstimableError):
        row["note"] = str(gaps)
    else:
        found = how(gaps)
        copied = ("delta_change", "scope", *INTERVAL, "n_narratives", "note")
        row |= {name: found[name] for name in copied}
        row |= {"delta": found["delta_first"], "reference_delta": found["delta_second"]}
    means = attempt(lambda: _means(matched, names, confidence=confidence))
    in_both = {} if isinstance(means, NotEstimableError) else how(means)
    row |= {
        "mean": in_both.get("delta_first", nan),
        "reference_mean": in_both.get("delta_second", nan),
        "mean_change": in_both.get("delta_change", nan),
        "mean_low": in_both.get("ci_low", nan),
        "mean_high": in_both.get("ci_high", nan),
    }
    sd = reference.sd(measure)
    in_sd = {"change_sd": "delta_change", "sd_ci_low": "ci_low", "sd_ci_high": "ci_high"}
    row |= {name: found.get(of, nan) / sd for name, of in in_sd.items()}
    return row | {f"mean_sd{end}": row[of] / sd for end, of in _ENDS.items()}


def _matched(runs: Mapping[str, ReplyGaps], names: tuple[str, str], measure: str, dimension: str) -> pd.DataFrame:
    """Return the prompts with a number in both runs: ``narrative_id``, ``number`` and ``number_reference``."""
    sides = []
    for run in (runs[name] for name in names):
        rows = run.between(dimension)
        values = run.outcomes[measure].values
        assert values is not None
        side = rows[_PROMPT].astype(str).assign(number=rows["prompt_index"].map(values).to_numpy(dtype=np.float64))
        sides.append(side.loc[np.isfinite(side["number"])])
    both: pd.DataFrame = sides[0].merge(sides[1], on=_PROMPT, suffixes=("", "_reference"), validate="1:1")
    return both


def _means(matched: Sequence[pd.DataFrame], names: tuple[str, str], *, confidence: float) -> tuple[Labelled, Labelled]:
    """Return both runs' means by narrative over the prompts scored in both; of several dimensions, the mean."""
    sides: tuple[dict[str, Labelled], dict[str, Labelled]] = ({}, {})
    for place, both in enumerate(matched):
        if both.empty:
            raise NotEstimableError("no prompt has a number in both")
        numbers = ["number", "number_reference"]
        means = both.groupby("narrative_id", sort=False)[numbers].mean()
        least = ROUNDING * float(np.abs(both[numbers].to_numpy(dtype=np.float64)).max())
        for side, name, column in zip(sides, names, numbers, strict=True):
            own: FloatArray = means[column].to_numpy(dtype=np.float64)
            estimate = summarise_contrasts(own, rounding=least, confidence=confidence, n_answers=0)
            side[str(place)] = Labelled(name, estimate, tuple(means.index), OWN_UNIT)
    if len(matched) == 1:
        return sides[0]["0"], sides[1]["0"]
    return mean_of(sides[0], confidence=confidence), mean_of(sides[1], confidence=confidence)


def _of_own_gaps(
    runs: Mapping[str, ReplyGaps], names: tuple[str, str], measure: str, row: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the columns about each run's own gap: its replies, those without a number, and its note."""
    found: dict[str, Any] = {}
    notes: dict[str, list[str]] = {}
    columns = (("n_answers", "n_missing"), ("reference_answers", "reference_missing"))
    for name, (used, missing) in zip(names, columns, strict=True):
        own = runs[name].headline(row["dimension"], measure)
        assert own is not None
        found |= {used: int(own["n_answers"]), missing: int(own["n_missing"])}
        if own["note"] and str(own["note"]) not in row["note"]:
            notes.setdefault(str(own["note"]), []).append(name)
    of_runs = [f"{' and '.join(labels)}: {said}" for said, labels in notes.items()]
    return found | {"note": "; ".join(filter(None, (row["note"], *of_runs)))}
