"""Many runs side by side: the δ of each, paired differences between them, and what they show together.

Only a small summary of each run is kept, so that its ratings can leave memory before the next run is read. All runs are
analysed with the same settings. Runs are never pooled into one estimate: they share narratives, models or identities in
ways that no sampling scheme describes, so the specification curve is described, not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.comparing.published import compared_cell_rows, published_row
from audit.comparing.tables import COMPARED_GAP, SPECIFICATIONS, STRATEGIES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.anchors import anchored_overall, anchored_rows, with_adjusted_p
from audit.statistics.average_gaps import Averages, averages_of, placebo_cubes
from audit.statistics.comparisons import Labelled, compare_estimates, mean_of
from audit.statistics.controls import Repetition
from audit.statistics.families import adjust_p
from audit.statistics.inexactness import bounded_overall, bounded_rows
from audit.statistics.missing import missing_rows
from audit.statistics.outcome import INTENSITY, DimensionAnalysis, OutcomeAnalysis, analyse_outcome
from audit.statistics.planning import equivalence_row
from audit.statistics.ratings import FloatArray, compact_ratings
from audit.statistics.remarks import Remark, remarks_of
from audit.statistics.status_counts import Tally, outcome_table
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
_ZERO: Final = 1e-9
"""Share of the scale: a smaller δ is floating-point error and has no sign."""


@dataclass(frozen=True)
class Measured:
    """What is kept of one run's ratings in one prompt variant.

    Attributes
    ----------
    scale
        The two ends of the scale, in points.
    gap
        Headline rows of ``tables.COMPARED_GAP`` without ``run``, in either scope.
    estimates
        The headline narrative by narrative, by dimension, and ``OVERALL`` if there are several. A dimension whose δ
        cannot be estimated is absent.
    identities
        The compared terms by dimension: perceivers, then experiencers.
    emotions
        By narrative identifier.
    tallies
        How the prompts between identities ended, by dimension, and ``OVERALL`` if there are several.
    controls
        Rows of ``tables.CONTROLS``.
    published, published_cells
        Rows of ``tables.COMPARED_PUBLISHED`` and ``tables.COMPARED_CELLS``, without the columns that name the run.
    averages
        The input to verdicts.
    free
        Dimensions whose gap uses only pairs without a common word. Such a gap is not compared with one of all pairs.
    """

    variant: str
    scale: tuple[float, float]
    gap: tuple[dict[str, Any], ...]
    estimates: Mapping[str, Labelled]
    identities: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    emotions: Mapping[Any, str]
    remarks: tuple[Remark, ...]
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    controls: tuple[dict[str, Any], ...] = ()
    published: tuple[dict[str, Any], ...] = ()
    published_cells: tuple[dict[str, Any], ...] = ()
    averages: Averages | None = None
    free: frozenset[str] = frozenset()

    @property
    def single_dimensions(self) -> frozenset[str]:
        """The dimensions that the overall mean covers: all but intersections."""
        return frozenset(name for name in self.identities if "+" not in name)


def measure_run(
    ratings: pd.DataFrame,
    *,
    scale: tuple[float, float],
    seed: int,
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
    sees_refusals: bool = True,
) -> Iterator[Measured]:
    """Estimate the headline δ of every dimension, one Measured for each variant, in order of appearance.

    Parameters
    ----------
    ratings
        Columns of ``tables.RATINGS``, one row a prompt. Not modified.
    seed
        The run's own, so that p equals that of the run's report if the settings are the same.
    settings
        ``confidence``, ``margin``, ``n_permutations`` and ``min_number_mass`` matter here.
    repetition
        Separates repeated words from groups.
    sees_refusals
        Whether a refusal is visible in these ratings.

    Yields
    ------
    Measured
        What cannot be estimated is a row of NaN with a note. ``p_adjusted`` is missing, since the family of p is only
        known once all runs are; see :func:`compared_gap_table`.
    """
    variants: dict[str, list[DimensionAnalysis]] = {}
    told, compact = repetition or Repetition(), compact_ratings(ratings)
    found = analyse_outcome(replace(INTENSITY, scale=scale), compact, seed=seed, settings=settings, repetition=told)
    for part in found.parts:
        variants.setdefault(part.cube.variant, []).append(part)
    averages = averages_of(
        found, placebos=placebo_cubes(compact, told), scales=dict.fromkeys(variants, scale), seed=seed,
        settings=settings, repetition=told, sees_refusals=sees_refusals,
    )  # fmt: skip
    for variant, parts in variants.items():
        made = _measured(variant, parts, found, scale=scale, settings=settings)
        yield replace(made, averages=averages.of_variant(variant))


def _measured(
    variant: str,
    parts: Sequence[DimensionAnalysis],
    found: OutcomeAnalysis,
    *,
    scale: tuple[float, float],
    settings: AnalysisSettings,
) -> Measured:
    rows = [
        row
        for part in parts
        for row in bounded_rows(list(anchored_rows(part.gap, part.cube, scale=scale)), part.cube, part.headline)
    ]
    means = [row for row in found.overall if row["variant"] == variant]
    overall = list(bounded_overall(list(anchored_overall(means, rows, {variant: scale})), rows))
    labelled = {name: each for name, own in found.labelled.items() for each in own if each.label == variant}
    tallies = {part.cube.dimension: Tally.of(part.prompts) for part in parts}
    tallies[OVERALL] = Tally.total([tally for name, tally in tallies.items() if "+" not in name])
    estimates = dict(labelled)
    if overall and np.isfinite(overall[0]["delta"]):
        single = {name: each for name, each in labelled.items() if "+" not in name}
        estimates[OVERALL] = mean_of(single, confidence=settings.confidence)
    compared = {part.cube.dimension: part.cube.without_baselines() for part in parts}
    return Measured(
        variant=variant,
        scale=scale,
        gap=tuple(
            _compared_row(row, tallies[row["dimension"]].n_asked, settings)
            for row in (*rows, *overall)
            if row["headline"]
        ),
        estimates=estimates,
        identities={name: (cube.perceivers, cube.experiencers) for name, cube in compared.items()},
        emotions={
            key: emotion
            for part in parts
            for key, emotion in zip(part.cube.narrative_ids, part.cube.emotions, strict=True)
        },
        remarks=tuple(remark for part in parts for remark in _remarks(part, scale)),
        tallies=tallies,
        controls=tuple(row for part in parts for row in part.repetition),
        free=frozenset(part.cube.dimension for part in parts if part.cube.echoing is not None),
        published=tuple(published_row(part.cube, part.estimates.published) for part in parts),
        published_cells=tuple(row for part in parts for row in compared_cell_rows(part.cube)),
    )


def _remarks(part: DimensionAnalysis, scale: tuple[float, float]) -> Iterator[Remark]:
    (low, high), settings = scale, part.settings
    return remarks_of(
        part.cube,
        part.estimates,
        outcomes=outcome_table(part.prompts, low=low, high=high, min_number_mass=settings.min_number_mass),
        missing=list(missing_rows(part.cube, confidence=settings.confidence)),
        sensitivity=(),
        low=low,
        high=high,
        min_number_mass=settings.min_number_mass,
    )


def _compared_row(row: Mapping[str, Any], n_asked: int, settings: AnalysisSettings) -> dict[str, Any]:
    """Make a row of ``tables.COMPARED_GAP`` from a row of the gap table."""
    copied = ("dimension", "variant", "estimator", "scope", "delta", "se", "df")
    held = equivalence_row(**{name: row[name] for name in copied}, margin=settings.margin, alpha=settings.alpha)
    known = dict(row) | {name: held[name] for name in ("largest_gap", "margin", "p_equivalence", "verdict")}
    known |= {"n_asked": n_asked, "missing_share": row["n_missing"] / n_asked if n_asked else float("nan")}
    return {column: known[column] for column in COMPARED_GAP if column != "run"}


def same_dimensions(runs: Mapping[str, Measured]) -> bool:
    """Whether all runs that have an overall mean take it over the same dimensions."""
    return len({each.single_dimensions for each in runs.values() if len(each.single_dimensions) > 1}) < 2


def compared_gap_table(runs: Mapping[str, Measured]) -> pd.DataFrame:
    """Return ``tables.COMPARED_GAP``: the gaps of all runs, in the order given, dimension by dimension.

    p is corrected over the headlines of all runs.
    """
    rows = list(with_adjusted_p([{"run": label, **row} for label, each in runs.items() for row in each.gap]))
    table = pd.DataFrame(rows, columns=list(COMPARED_GAP))
    place = {name: number for number, name in enumerate(_dimensions(runs))}
    return table.sort_values("dimension", key=lambda names: names.map(place), kind="stable", ignore_index=True)


def _dimensions(runs: Mapping[str, Measured]) -> list[str]:
    """List all dimensions in order of first appearance, the overall mean last."""
    found = dict.fromkeys(row["dimension"] for each in runs.values() for row in each.gap)
    return sorted(found, key=lambda name: name == OVERALL)


def compare_runs(
    runs: Mapping[str, Measured], *, texts: Mapping[str, str], confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.COMPARISONS``: every two runs' δ compared narrative by narrative, by dimension.

    Runs that were asked about different texts get a row of NaN and a note. So do a gap of pairs without a common word
    and one of all pairs: their difference would be the echo of words. The overall mean has no rows if the runs asked
    about different dimensions. See :func:`audit.statistics.comparisons.compare_estimates`.

    Parameters
    ----------
    runs
        By label. The earlier run of a pair is the first.
    texts
        What the narrative identifiers stand for, by label: only runs with equal values are paired.
    """
    for dimension in _dimensions(runs):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        found = {label: each.estimates[dimension] for label, each in runs.items() if dimension in each.estimates}
        of_pairs = {label: _is_free(runs[label], dimension) for label in found}
        # Equal identifiers are the same narrative only if they stand for the same text.
        told_apart = [
            replace(
                each,
                label=label,
                narrative_ids=tuple((texts[label], of_pairs[label], key) for key in each.narrative_ids),
            )
            for label, each in found.items()
        ]
        for row in compare_estimates(told_apart, dimension=dimension, confidence=confidence):
            first, second = row["first"], row["second"]
            if texts[first] != texts[second]:
                yield row | {"note": OTHER_TEXTS}
            elif of_pairs[first] != of_pairs[second]:
                yield row | {"note": OTHER_PAIRS}
            else:
                yield row


def _is_free(run: Measured, dimension: str) -> str:
    """Return which pairs a gap uses. A mean over dimensions may be ``mixed``."""
    asked = run.single_dimensions if dimension == OVERALL else {dimension}
    return "free" if asked <= run.free else "mixed" if asked & run.free else "all"


def specification_rows(runs: Mapping[str, Measured]) -> Iterator[dict[str, Any]]:
    """Describe each dimension's δ over the runs: its median, its range, and how many agree in sign.

    Yields
    ------
    dict
        A row of ``tables.SPECIFICATIONS``, in points, or in % of the scale if the scales of the runs differ. The
        overall mean has no row if the runs asked about different dimensions.

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
    runs: Mapping[str, Measured],
    *,
    strategies: Mapping[str, str],
    references: Mapping[str, str],
    costs: Mapping[str, Mapping[str, float]],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.STRATEGIES``: each strategy's δ, side effects and cost beside the run without a strategy.

    Parameters
    ----------
    strategies
        Name of the strategy, by label.
    references
        For each run with a strategy, the label of its reference, which has the same texts and scale; empty if there is
        none. Runs that appear neither as key nor as value have no row.
    costs
        Cost per prompt by label, with the column names of ``tables.STRATEGIES``.

    Notes
    -----
    The change is that of :func:`.compare_estimates`; p is corrected by Holm over the strategies of
    the dimension, each against its reference, and not over all pairs: the question is what each strategy changes. The
    overall mean has no row if the runs asked about different dimensions.
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
                changed, why = _change(runs, label, references[label], str(dimension), confidence=confidence)
                changed |= {name: factor * changed[name] for name in _IN_UNIT if name in changed}
                row |= changed | {"note": "; ".join(dict.fromkeys(filter(None, (row["note"], why))))}
            rows.append(row)
        adjusted, size = adjust_p([row["p"] for row in rows], method="Holm")
        for row, p_adjusted in zip(rows, adjusted.tolist(), strict=True):
            yield row | ({"p_adjusted": p_adjusted, "method": "Holm", "family_size": size} if row["reference"] else {})


def _change(
    runs: Mapping[str, Measured], label: str, reference: str, dimension: str, *, confidence: float
) -> tuple[dict[str, Any], str]:
    """Return the columns of a row that compare with the reference, in points, and why any are missing."""
    if not reference:
        return {}, NO_REFERENCE
    run, other = runs[label], runs[reference]
    if dimension not in other.identities and dimension != OVERALL:
        return {}, f"{reference} did not ask about this dimension"
    mean, before = (each.tallies[dimension].levels()["mean_rating"] for each in (run, other))
    known = {"reference": reference, "mean_change": mean - before}
    changed, why = change_of(runs, label, reference, dimension, confidence=confidence)
    return known | changed, why


def change_of(
    runs: Mapping[str, Measured], label: str, reference: str, dimension: str, *, confidence: float
) -> tuple[dict[str, Any], str]:
    """Subtract the reference's δ from a run's, narrative by narrative.

    Returns ``delta_change``, ``change_scope``, ``change_low``, ``change_high``, ``p`` and ``n_narratives``, in points,
    if both have an estimate; and why a number is missing.
    """
    without = [name for name in (label, reference) if dimension not in runs[name].estimates]
    if without:
        return {}, f"no change, since {' and '.join(without)} cannot be estimated"
    if _is_free(runs[label], dimension) != _is_free(runs[reference], dimension):
        return {}, OTHER_PAIRS
    pair = [replace(runs[name].estimates[dimension], label=name) for name in (label, reference)]
    [row] = compare_estimates(pair, dimension=dimension, confidence=confidence)
    return {name: row[column] for name, column in _CHANGED.items()}, row["note"]
