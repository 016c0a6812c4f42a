"""Many runs side by side: the δ of each, paired differences between them, and what all of them together show.

What is kept of a run is small: its ratings may leave memory before the next run's are read. All runs are analysed by
the same settings. Nothing here pools runs into one estimate: they share narratives, models or identities in ways that
no sampling scheme describes, so the specification curve is described, not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.comparing.published import compared_cell_rows, published_row
from audit.comparing.tables import COMPARED_GAP, SPECIFICATIONS, STRATEGIES
from audit.statistics.anchors import anchored_overall, anchored_rows, with_adjusted_p
from audit.statistics.average_gaps import Averages, averages_of, placebo_cubes
from audit.statistics.comparisons import Labelled, compare, mean_of
from audit.statistics.controls import Repetition
from audit.statistics.estimate_rows import Settings
from audit.statistics.families import adjust_p
from audit.statistics.inexactness import bounded_overall, bounded_rows
from audit.statistics.missing import missing_rows
from audit.statistics.outcome import INTENSITY, Found, Part, analyse_outcome
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
"""What a change of δ is called beside its runs' own gaps, and in ``tables.COMPARISONS``."""
_IN_UNIT: Final = ("delta_change", "change_low", "change_high")
_ZERO: Final = 1e-9
"""Share of the scale under which a δ is the rest of a floating-point sum, and has no sign."""


@dataclass(frozen=True)
class Measured:
    """What is kept of one run's ratings in one prompt variant.

    Attributes
    ----------
    variant
        The prompt variant.
    scale
        The two ends of its scale, in points.
    gap
        Rows of ``tables.COMPARED_GAP`` without ``run``: the headline's, in either scope.
    estimates
        By dimension, and ``OVERALL`` where there are several, the headline narrative by narrative. A dimension whose δ
        cannot be estimated is not in it.
    identities
        By dimension, the terms that are compared: perceivers, then experiencers.
    emotions
        By the narrative's identifier.
    remarks
        What a reader must know before trusting the numbers.
    tallies
        By dimension, and ``OVERALL`` where there are several, what became of the prompts between identities.
    controls
        Rows of ``tables.CONTROLS``.
    published, published_cells
        Rows of ``tables.COMPARED_PUBLISHED`` and of ``tables.COMPARED_CELLS``, without what names the run.
    averages
        What verdicts are made of.
    free
        Dimensions whose gap is of pairs without a common word: it is not held against one of all pairs.
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
        """The dimensions that the mean over all of them is of: those that are no intersection."""
        return frozenset(name for name in self.identities if "+" not in name)


def measure_run(
    ratings: pd.DataFrame,
    *,
    scale: tuple[float, float],
    seed: int,
    settings: Settings,
    repetition: Repetition | None = None,
    sees_refusals: bool = True,
) -> Iterator[Measured]:
    """Estimate the headline δ of every dimension of a run, variant by variant.

    Parameters
    ----------
    ratings
        Columns of ``tables.RATINGS``, one row a prompt. Not modified.
    scale
        The two ends of the scale, in points.
    seed
        The run's, so that p is the one of the run's own report where the settings are the same.
    settings
        Of which ``confidence``, ``margin``, ``n_permutations`` and ``min_number_mass`` matter here.
    repetition
        What tells repeated words from groups.
    sees_refusals
        Whether a refusal can be seen in these ratings.

    Yields
    ------
    Measured
        In order of the variants' first appearance. What cannot be estimated is a row of NaN with a note. What p is
        corrected for is only known when all runs are: ``p_adjusted`` is missing here, see :func:`gap_table`.
    """
    variants: dict[str, list[Part]] = {}
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
    variant: str, parts: Sequence[Part], found: Found, *, scale: tuple[float, float], settings: Settings
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
    if overall and np.isfinite(overall[0]["delta_points"]):
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


def _remarks(part: Part, scale: tuple[float, float]) -> Iterator[Remark]:
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


def _compared_row(row: Mapping[str, Any], n_asked: int, settings: Settings) -> dict[str, Any]:
    """Make a row of ``tables.COMPARED_GAP`` from one of the gap's."""
    copied = ("dimension", "variant", "estimator", "scope", "delta_points", "se", "df")
    held = equivalence_row(**{name: row[name] for name in copied}, margin=settings.margin, alpha=settings.alpha)
    known = dict(row) | {name: held[name] for name in ("largest_gap", "margin", "p_equivalence", "verdict")}
    known |= {"n_asked": n_asked, "missing_share": row["n_missing"] / n_asked if n_asked else float("nan")}
    return {column: known[column] for column in COMPARED_GAP if column != "run"}


def same_dimensions(runs: Mapping[str, Measured]) -> bool:
    """Say whether the mean over all dimensions, where a run has one, is of the same dimensions in all runs."""
    return len({each.single_dimensions for each in runs.values() if len(each.single_dimensions) > 1}) < 2


def gap_table(runs: Mapping[str, Measured]) -> pd.DataFrame:
    """Put the gaps of all runs under each other, dimension by dimension, as ``tables.COMPARED_GAP``.

    p is corrected for all headlines of all these runs.

    Parameters
    ----------
    runs
        By label, in the order in which they are to be shown.
    """
    rows = list(with_adjusted_p([{"run": label, **row} for label, each in runs.items() for row in each.gap]))
    table = pd.DataFrame(rows, columns=list(COMPARED_GAP))
    place = {name: number for number, name in enumerate(_dimensions(runs))}
    return table.sort_values("dimension", key=lambda names: names.map(place), kind="stable", ignore_index=True)


def _dimensions(runs: Mapping[str, Measured]) -> list[str]:
    """All dimensions in order of first appearance, the mean over them last."""
    found = dict.fromkeys(row["dimension"] for each in runs.values() for row in each.gap)
    return sorted(found, key=lambda name: name == OVERALL)


def compare_runs(
    runs: Mapping[str, Measured], *, texts: Mapping[str, str], confidence: float
) -> Iterator[dict[str, Any]]:
    """Compare every two runs' δ narrative by narrative, dimension by dimension.

    Parameters
    ----------
    runs
        By label. Of a pair, the one that comes before is the first.
    texts
        By label, what the narratives' identifiers stand for: only runs in which it is the same are paired.
    confidence
        Coverage of the t intervals, between 0 and 1.

    Yields
    ------
    dict
        A row of ``tables.COMPARISONS``; see :func:`audit.statistics.comparisons.compare`. Runs of different texts have
        a row of NaN and a note, and so do a gap of pairs without a common word and one of all pairs: their difference
        would be the echo of words. There is none for the mean over dimensions where it is not of the same ones.
    """
    for dimension in _dimensions(runs):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        found = {label: each.estimates[dimension] for label, each in runs.items() if dimension in each.estimates}
        of_pairs = {label: _is_free(runs[label], dimension) for label in found}
        # An identifier is only worth as much as the text that it stands for.
        told_apart = [
            replace(
                each,
                label=label,
                narrative_ids=tuple((texts[label], of_pairs[label], key) for key in each.narrative_ids),
            )
            for label, each in found.items()
        ]
        for row in compare(told_apart, dimension=dimension, confidence=confidence):
            first, second = row["first"], row["second"]
            if texts[first] != texts[second]:
                yield row | {"note": OTHER_TEXTS}
            elif of_pairs[first] != of_pairs[second]:
                yield row | {"note": OTHER_PAIRS}
            else:
                yield row


def _is_free(run: Measured, dimension: str) -> str:
    """Say which pairs a gap is of: a mean over dimensions may be of both kinds."""
    asked = run.single_dimensions if dimension == OVERALL else {dimension}
    return "free" if asked <= run.free else "mixed" if asked & run.free else "all"


def specification_rows(runs: Mapping[str, Measured]) -> Iterator[dict[str, Any]]:
    """Describe each dimension's δ over the runs: its median, its range, and how many agree in sign.

    Parameters
    ----------
    runs
        By label.

    Yields
    ------
    dict
        A row of ``tables.SPECIFICATIONS``, in points, or in % of the scale where the runs of the dimension have
        different scales. There is none for the mean over dimensions where it is not of the same ones.

    Notes
    -----
    The descriptive part of a specification curve [1]_. Its test by resampling is not made: it needs specifications
    that exhaust what is reasonable, and runs are those that someone chose to make.

    References
    ----------
    .. [1] Simonsohn, Simmons and Nelson (2020), Nature Human Behaviour 4, 1208–1214.
    """
    gap = gap_table(runs)
    for dimension, rows in gap.groupby("dimension", sort=False):
        if dimension == OVERALL and not same_dimensions(runs):
            continue
        in_unit, unit = in_one_unit(rows, {label: each.scale for label, each in runs.items()})
        longest = max(np.ptp(runs[label].scale) for label in rows["run"])
        zero = _ZERO * (float(longest) if unit == "points" else 100.0)
        yield _specification(str(dimension), in_unit, unit, zero=zero)


def in_one_unit(gap: pd.DataFrame, scales: Mapping[str, tuple[float, float]]) -> tuple[pd.DataFrame, str]:
    """Return δ and interval of each run in one unit: points if all scales are the same, else % of the scale.

    Parameters
    ----------
    gap
        Rows of one dimension, as :func:`gap_table` makes them. Not modified.
    scales
        By label, the two ends of the run's scale, in points.

    Returns
    -------
    tuple
        Columns ``run``, ``delta``, ``ci_low`` and ``ci_high``, about any such narratives; and the unit.
    """
    own = gap.loc[gap["scope"] == "narratives"].reset_index(drop=True)
    one_scale = len({scales[label] for label in own["run"]}) < 2
    length = own["run"].map({label: high - low for label, (low, high) in scales.items()}).astype(float)
    factor = 1.0 if one_scale else 100 / length
    columns = {name: own[name].astype(float) * factor for name in ("delta_points", "ci_low", "ci_high")}
    in_unit = pd.DataFrame({"run": own["run"], **columns})
    return in_unit.rename(columns={"delta_points": "delta"}), "points" if one_scale else "% of the scale"


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
    """Set each strategy's δ, and what else it changed and cost, beside the run that led the model to nothing.

    Parameters
    ----------
    runs
        By label.
    strategies
        By label, the strategy's name.
    references
        By the label of a run with a strategy, the label of the run that it is compared with, of the same texts and
        scale; empty if there is none. Runs that are in neither place have no row.
    costs
        By label, what a prompt took, by the names of ``tables.STRATEGIES``: calls, tokens, ``shortened_share`` and
        ``seconds``.
    confidence
        Coverage of the t intervals, between 0 and 1.

    Yields
    ------
    dict
        A row of ``tables.STRATEGIES``. There is none for the mean over dimensions where it is not of the same ones.

    Notes
    -----
    The change is that of :func:`audit.statistics.comparisons.compare`; p is corrected by Holm over the strategies of
    the dimension, each against its reference, and not over all pairs: the question is what each changes.
    """
    concerned = {*references, *references.values()}
    gap = gap_table({label: each for label, each in runs.items() if label in concerned})
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
    """Return what of a row is about its reference, in points, and why a number of it is missing."""
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
    """Subtract a run's δ from its reference's, narrative by narrative.

    Parameters
    ----------
    runs
        By label.
    label, reference, dimension
        Which.
    confidence
        Coverage of the t interval.

    Returns
    -------
    tuple
        ``delta_change``, ``change_scope``, ``change_low``, ``change_high``, ``p`` and ``n_narratives``, in points,
        where both have an estimate; and why a number is missing.
    """
    without = [name for name in (label, reference) if dimension not in runs[name].estimates]
    if without:
        return {}, f"no change, since {' and '.join(without)} cannot be estimated"
    if _is_free(runs[label], dimension) != _is_free(runs[reference], dimension):
        return {}, OTHER_PAIRS
    pair = [replace(runs[name].estimates[dimension], label=name) for name in (label, reference)]
    [row] = compare(pair, dimension=dimension, confidence=confidence)
    return {name: row[column] for name, column in _CHANGED.items()}, row["note"]
