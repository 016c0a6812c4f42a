"""The report's sentences: what an estimate says, in words that claim no more than it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from audit.grid import Grid
from audit.wording import count, coverage, dimension_title, fixed, interval, p_value, plural, points, rate

_IDENTITIES_NAMED: Final = 8
Row = Mapping[Any, Any]
"""A row of a table by its columns."""

ELICITATION: Final = {
    "expected": (
        "The model wrote nothing. For each prompt, its probabilities for what comes next were read and reduced to the "
        "whole numbers of the scale ({scale}); the rating is the mean of that distribution, which can lie between two "
        "numbers. The number mass is the probability that the model gives to any of these numbers before the "
        "reduction: where it is small, the model would rather have written something else, and the rating describes "
        "only a small part of what it would do. What follows the last digit that a number of the scale can have was "
        "not asked: digit by digit, 80 on a scale that ends at 10 counts as 8. A "
        "refusal can not be seen this way."
    ),
    "outside": (
        "The ratings were collected by another tool and read from a table; how the model was asked, and how its "
        "answers became numbers, is not known here. A missing rating counts as unparseable unless the table says "
        "otherwise."
    ),
    "generate": (
        "The model wrote its answer at temperature 0 (always the most probable next token), and one intensity on the "
        "scale ({scale}) was read from the text. An answer that declines to rate counts as refused, and one from "
        "which no single intensity on the scale can be read as unparseable. Both are missing data, never 0."
    ),
}
"""How a rating is got, by the elicitation's name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one dimension and variant came to.

    Attributes
    ----------
    lead
        The answer in a sentence.
    evidence
        δ, its interval, p and the counts.
    excluded
        What was left out of it.
    bound
        How large a gap is ruled out, and how small a one could have been found.
    scope
        What the interval speaks about.
    wider
        What can be said of other identities.
    """

    lead: str
    evidence: str
    excluded: str
    bound: str
    scope: str
    wider: str


def answer(
    gap: Row | None,
    outcomes: pd.DataFrame,
    identities: list[str],
    *,
    wider: Row | None,
    left_out: Sequence[Row],
    equivalence: Row | None,
    power: Row | None,
    tipping: Row | None,
    dimension: str,
    scale: str,
    confidence: float,
) -> Answer:
    """Put a gap in words.

    Parameters
    ----------
    gap
        The headline's row of the gap table, or None if there is none.
    outcomes
        Rows of the outcomes table of the same dimension and variant.
    identities
        Wordings that the gap is about.
    wider
        The headline's row for any such identities.
    left_out
        Rows of the table of gaps without each group.
    equivalence, power
        Rows of these tables for the headline.
    tipping
        The tipping point's row of the sensitivity table.
    dimension
        The dimension's name in the tables: in an intersection, out-group is sharing none of the crossed dimensions.
    scale
        The scale's name, e.g. "0–100".
    confidence
        Coverage of the interval.
    """
    named = ", ".join(identities[:_IDENTITIES_NAMED])
    rest = len(identities) - _IDENTITIES_NAMED
    listed = f" ({named}{f' and {rest} more' if rest > 0 else ''})" if identities else ""
    scope = f"This speaks of these identities{listed}, and of any such narratives."
    if gap is None or not math.isfinite(gap["delta_points"]):
        return Answer(
            lead="δ could not be estimated from this run.",
            evidence="No number is reported in its place; the notes and the outcomes below say what is missing.",
            excluded=_excluded(gap, outcomes),
            bound="",
            scope="",
            wider="",
        )
    delta, low, high = float(gap["delta_points"]), float(gap["ci_low"]), float(gap["ci_high"])
    inside, outside = (
        ("Experiencers who share every crossed dimension with the perceiver", "those who share none")
        if "+" in dimension
        else ("In-group experiencers", "out-group experiencers")
    )
    said = f"{inside} were rated {points(abs(delta), signed=False)} points {direction(delta)} than {outside}"
    spread = f"{coverage(confidence)} interval {interval(low, high)}"
    if not (math.isfinite(low) and math.isfinite(high)):
        lead = f"{said}; how certain that is could not be computed."
        spread = "no interval"
    elif low <= 0.0 <= high:
        lead = f"The data are compatible with no gap, and with gaps from {interval(low, high)} points."
    else:
        lead = f"{said}."
    evidence = (
        f"δ = {points(delta)} points on the {scale} scale ({spread}; {p_value(float(gap['p']))}), from "
        f"{plural(gap['n_narratives'], 'narrative')} and {plural(gap['n_ratings'], 'rating')}"
        f"{', by the mixed model' if gap['estimator'] == 'mixed' else ''}."
    )
    return Answer(
        lead=lead,
        evidence=evidence,
        excluded=" ".join(filter(None, (_excluded(gap, outcomes), _tipping(tipping)))),
        bound=_bound(equivalence, power),
        scope=scope,
        wider=_wider(wider, left_out, confidence=confidence),
    )


def _bound(equivalence: Row | None, power: Row | None) -> str:
    """Say what size of gap the data rule out, and what size they could have shown."""
    said = []
    if equivalence is not None and math.isfinite(equivalence["largest_gap"]):
        level, largest = coverage(equivalence["level"]), points(equivalence["largest_gap"], signed=False)
        said.append(f"No gap larger than {largest} points in either direction ({level} interval).")
        if math.isfinite(equivalence["margin"]):
            margin = points(equivalence["margin"], signed=False)
            said.append(f"Against the margin of {margin} points: {equivalence['verdict']}.")
    if power is not None and math.isfinite(power["detectable_points"]):
        said.append(
            f"As many such narratives find a gap of {points(power['detectable_points'], signed=False)} points with a "
            f"probability of {power['power']:.0%}."
        )
    return " ".join(said)


def _tipping(tipping: Row | None) -> str:
    """Say how far the missing ratings would have to be off for δ to be 0."""
    if tipping is None or not math.isfinite(tipping["shift_points"]):
        return ""
    if tipping["note"]:
        return "Nothing that the missing ratings could have been, all alike, would make δ 0."
    shift = float(tipping["shift_points"])
    return (
        f"Were all missing ratings {points(abs(shift), signed=False)} points {direction(shift)} than is expected of "
        "them, δ would be 0."
    )


def _wider(wider: Row | None, left_out: Sequence[Row], *, confidence: float) -> str:
    """Say what δ tells of any such identities, or that nothing is claimed."""
    if wider is None:
        return ""
    gaps = [float(row["delta_points"]) for row in left_out]
    spread = f" Without one group at a time, δ goes from {interval(min(gaps), max(gaps))} points." if gaps else ""
    if not math.isfinite(wider["ci_low"]):
        return f"Nothing is claimed about other identities: {wider['note']}.{spread}"
    low, high = float(wider["ci_low"]), float(wider["ci_high"])
    said = "is compatible with no gap" if low <= 0.0 <= high else "leaves out 0"
    return (
        f"If these {len(gaps)} groups stand for others like them, the {coverage(confidence)} interval is "
        f"{interval(low, high)} ({p_value(float(wider['p']))}) and {said}.{spread}"
    )


def direction(delta: float) -> str:
    """Say which way a difference goes."""
    return "lower" if delta < 0 else "higher"


def _excluded(gap: Row | None, outcomes: pd.DataFrame) -> str:
    between = outcomes.loc[outcomes["pairs"].isin(["in_group", "out_group"])]
    asked = int(between["n_prompts"].sum())
    kinds = {kind: int(between[f"n_{kind}"].sum()) for kind in ("refused", "unparseable", "failed")}
    missing = sum(kinds.values()) if gap is None or not math.isfinite(gap["n_missing"]) else int(gap["n_missing"])
    used, narratives = (gap["n_narratives"], gap["n_narratives_asked"]) if gap is not None else (math.nan, math.nan)
    dropped = narratives - used if math.isfinite(narratives) and math.isfinite(used) else 0
    if not missing and not dropped:
        return "Nothing was left out: every prompt between these identities gave a rating."
    parts = []
    if missing:
        of = f" of {count(asked)}" if asked else ""
        why = ", ".join(f"{count(number)} {kind}" for kind, number in kinds.items() if number)
        parts.append(
            f"{count(missing)}{of} prompts between these identities gave no rating{f' ({why})' if why else ''}"
        )
    if dropped:
        parts.append(f"{count(dropped)} of {plural(narratives, 'narrative')} could not be used")
    sentence = f"Left out: {'; '.join(parts)}."
    refusals = between.set_index("pairs")["refusal_rate"].to_dict()
    if kinds["refused"] and {"in_group", "out_group"} <= refusals.keys():
        shares = f"{rate(refusals['in_group'])} of in-group and {rate(refusals['out_group'])} of out-group"
        sentence += f" Refused: {shares} prompts."
    return sentence


def describe_gaps(gaps: Sequence[tuple[str, Row]], *, confidence: float) -> str:
    """Describe the forest plot for those who can not see it: each title with its δ and interval."""
    described = []
    for title, gap in gaps:
        if not math.isfinite(gap["delta_points"]):
            described.append(f"{title}: not estimable")
        elif not math.isfinite(gap["ci_low"]):
            described.append(f"{title}: {points(gap['delta_points'])}, no interval")
        else:
            described.append(f"{title}: {points(gap['delta_points'])}, {interval(gap['ci_low'], gap['ci_high'])}")
    start = f"Forest plot of δ in scale points with {coverage(confidence)} intervals and a line at 0."
    return f"{start} {'; '.join(described)}."


def describe_cells(grid: Grid | None, dimension: str, *, decimals: int) -> str:
    """Describe the heatmap of means for those who can not see it: its size, its extremes and its empty cells.

    Parameters
    ----------
    grid
        What is drawn, or None if that is not known.
    dimension
        The dimension's name in the tables.
    decimals
        How many are written, as in the figure.
    """
    start = f"Heatmap of mean intensity for {dimension_title(dimension)}"
    if grid is None:
        return f"{start}."
    empty = int(grid.unrated.sum())
    missing = f" {plural(empty, 'pair')} without a rating." if empty else ""
    return f"{start}: {_extremes(grid.mean, decimals=decimals, signed=False)}{missing}"


def describe_interaction(grid: Grid | None, dimension: str) -> str:
    """Describe the heatmap of the interaction; parameters as in `describe_cells`."""
    start = f"Heatmap of the interaction of perceiver and experiencer for {dimension_title(dimension)}"
    identities = None if grid is None else grid.without_baselines()
    if identities is None or identities.mean.empty or bool(identities.mean.isna().to_numpy().any()):
        return f"{start}."
    return f"{start}: {_extremes(identities.centred(), decimals=2, signed=True)}"


def _extremes(matrix: pd.DataFrame, *, decimals: int, signed: bool) -> str:
    size = f"{plural(matrix.shape[0], 'perceiver')} in rows, {plural(matrix.shape[1], 'experiencer')} in columns"
    values = matrix.T.unstack().dropna()
    if values.empty:
        return f"{size}; no pair has a rating."

    def write(place: Any) -> str:
        return (
            f"{fixed(values[place], decimals=decimals, signed=signed)} (perceiver {place[0]}, experiencer {place[1]})"
        )

    return f"{size}; from {write(values.idxmin())} to {write(values.idxmax())} points."
