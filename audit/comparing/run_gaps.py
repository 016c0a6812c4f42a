"""What a comparison keeps of one run in one prompt variant: the gaps of its outcomes, narrative by narrative.

All runs are analysed with the same settings. A run's gaps equal those of its own report, given the same settings. Of
ratings only a small summary is kept, so that they can leave memory before the next run is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from audit.comparing.published import compared_cell_rows, published_row
from audit.comparing.tables import COMPARED_GAP
from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError, attempt
from audit.statistics.anchors import anchored_overall, anchored_rows, with_adjusted_p
from audit.statistics.average_gaps import Averages, averages_of, placebo_cubes
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import Labelled, mean_of
from audit.statistics.contrasts import in_group_weights
from audit.statistics.controls import Repetition
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.disparity import disparity_rows_and_gaps, refusal_rows_and_gaps
from audit.statistics.disparity_answers import beside_response, with_limits
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.inexactness import bounded_overall, bounded_rows
from audit.statistics.manipulation import Response
from audit.statistics.outcome import (
    INTENSITY,
    OWN_UNIT,
    DimensionAnalysis,
    Outcome,
    OutcomeAnalysis,
    analyse_outcome,
    is_constant,
)
from audit.statistics.planning import equivalence_row
from audit.statistics.ratings import compact_ratings, without_dimensions
from audit.statistics.remarks import Remark
from audit.statistics.status_counts import Tally
from audit.statistics.verdict import Limits
from audit.tables.disparity import DISPARITY, deciding_rows
from audit.tables.shared import OVERALL
from audit.tasks.reply.gaps import analyse_outcomes, family_of, gap_rows_of, n_tested_with, spread_among
from audit.tasks.reply.verdicts import MeasuredGaps, measure_verdicts, measured_gaps, scale_of


@dataclass(frozen=True, kw_only=True)
class RunGaps:
    """The gaps of a run, of ratings in one prompt variant."""

    gap: tuple[dict[str, Any], ...]  # headline rows of COMPARED_GAP without `run`, in either scope
    # The headline narrative by narrative, by outcome and dimension. What cannot be estimated is absent, or says why.
    estimates: Mapping[str, Mapping[str, Labelled | NotEstimableError]]
    identities: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]  # terms by dimension: perceivers, experiencers
    controls: tuple[dict[str, Any], ...] = ()  # rows of CONTROLS
    scale: tuple[float, float] = OWN_UNIT  # its two ends, in points
    confidence: float = 0.95
    disparity: tuple[dict[str, Any], ...] = ()  # rows of DISPARITY that decide: each outcome, dimension and group
    disparities: tuple[DecidedGap, ...] = ()  # the same as gaps, in the same order

    def disparity_within(self, limits: Limits, response: Response | None = None) -> tuple[dict[str, Any], ...]:
        """Return the rows of ``disparity`` as they hold with what limits the run, beside its response to the story."""
        held = with_limits(pd.DataFrame(list(self.disparity), columns=list(DISPARITY)), limits)
        held = beside_response(held, response)
        return tuple({str(name): value for name, value in row.items()} for row in held.to_dict("records"))

    @property
    def deciding(self) -> tuple[DecidedGap, ...]:
        """The average gaps that verdicts are on."""
        return ()

    @property
    def single_dimensions(self) -> tuple[str, ...]:
        """The dimensions that the overall mean covers: all but intersections."""
        return tuple(name for name in self.identities if "+" not in name)

    def own(self, dimension: str, label: str, outcome: str = INTENSITY.name) -> Labelled:
        """Return δ narrative by narrative, under this label. NotEstimableError says why there is none."""
        if dimension == OVERALL and len(self.single_dimensions) > 1:
            parts = {name: self.own(name, label, outcome) for name in self.single_dimensions}
            return mean_of(parts, confidence=self.confidence)
        found = self.estimates.get(outcome, {}).get(dimension, NotEstimableError(""))
        if isinstance(found, NotEstimableError):
            why = f": {found}" if str(found) else ""
            raise NotEstimableError(f"no change, since δ of {label} cannot be estimated{why}")
        return replace(found, label=label)

    def headline(self, dimension: str, outcome: str = INTENSITY.name) -> dict[str, Any] | None:
        """Return the row of ``gap`` within narratives; None if the run did not ask about the dimension."""
        of = outcome, dimension, "narratives"
        return next((row for row in self.gap if (row["outcome"], row["dimension"], row["scope"]) == of), None)


@dataclass(frozen=True, kw_only=True)
class RatingGaps(RunGaps):
    """The gaps of a run of ratings."""

    variant: str  # of the prompt
    emotions: Mapping[Any, str] = field(default_factory=dict)  # by narrative identifier
    remarks: tuple[Remark, ...] = ()
    # How the prompts between identities ended, by dimension, and OVERALL.
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    published: tuple[dict[str, Any], ...] = ()  # rows of COMPARED_PUBLISHED without the columns that name the run
    published_cells: tuple[dict[str, Any], ...] = ()  # the same of COMPARED_CELLS, of a replication alone
    averages: Averages | None = None  # the input to verdicts
    free: frozenset[str] = frozenset()  # dimensions whose gap uses only pairs without a common word

    @property
    def deciding(self) -> tuple[DecidedGap, ...]:
        """The average gaps that verdicts are on."""
        made = () if self.averages is None else (*self.averages.gaps, *self.averages.overall)
        return tuple(gap for gap in made if gap.kind == "average")


@dataclass(frozen=True, kw_only=True)
class ReplyGaps(RunGaps):
    """The gaps of a run of replies."""

    replies: pd.DataFrame  # columns of REPLIES, one row a prompt, without invented groups
    outcomes: Mapping[str, Outcome]  # the measures, by name
    measured: tuple[MeasuredGaps, ...]  # the input to verdicts
    settings: AnalysisSettings
    conversation_of: Callable[[str], str] | None = None  # of a narrative; None if narratives are no utterances

    def between(self, dimension: str) -> pd.DataFrame:
        """Return a dimension's prompts between identities, without baselines."""
        return _between(self.replies, dimension)

    def sd(self, measure: str) -> float:
        """Return the standard deviation (n − 1) of a measure over scored replies."""
        return spread_among(self.outcomes[measure], self.replies)

    @property
    def deciding(self) -> tuple[DecidedGap, ...]:
        """The average gaps that verdicts are on."""
        return tuple(gap for each in self.measured for gap in each.gaps)

    def verdicts(self, limits: Limits) -> list[dict[str, Any]]:
        """Decide about every measure; return rows of ``tables.VERDICTS``."""
        return measure_verdicts(self.measured, limits, self.settings)


# --- Ratings ---------------------------------------------------------------------------------------------------------


def gaps_of_ratings(
    ratings: pd.DataFrame,
    *,
    scale: tuple[float, float],
    seed: int,
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
    sees_refusals: bool = True,
    replicates: bool = False,
) -> Iterator[RatingGaps]:
    """Estimate the headline δ of every dimension, for each variant in order of appearance.

    ``seed`` is the run's own, ``sees_refusals`` says whether a refusal is visible in these ratings, and ``replicates``
    whether the cells of the published heatmap are wanted. What cannot be estimated is a row of NaN with a note.
    ``p_adjusted`` is missing, since the family of p is only known once all runs are; see
    :func:`audit.comparing.changes.compared_gap_table`.
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
    of_groups, disparities = disparity_rows_and_gaps(
        found, scales=dict.fromkeys(variants, scale), settings=settings, repetition=told
    )
    if sees_refusals:
        # Another run may refuse where this one does not.
        of_refusals, refused = refusal_rows_and_gaps(found, settings=settings, repetition=told, even_without=True)
        of_groups, disparities = [*of_groups, *of_refusals], [*disparities, *refused]
    for variant, parts in variants.items():
        compared = {part.cube.dimension: part.cube.without_baselines() for part in parts}
        tallies = {part.cube.dimension: Tally.of(part.prompts) for part in parts}
        tallies[OVERALL] = Tally.total([tally for name, tally in tallies.items() if "+" not in name])
        labelled = {name: each for name, own in found.labelled.items() for each in own if each.label == variant}
        yield RatingGaps(
            variant=variant,
            scale=scale,
            confidence=settings.confidence,
            gap=tuple(
                _compared_row(row, tallies[row["dimension"]].n_asked, settings)
                for row in _gap_rows(variant, parts, found, scale=scale)
                if row["headline"]
            ),
            estimates={INTENSITY.name: labelled},
            identities={name: (cube.perceivers, cube.experiencers) for name, cube in compared.items()},
            emotions={
                key: emotion
                for part in parts
                for key, emotion in zip(part.cube.narrative_ids, part.cube.emotions, strict=True)
            },
            remarks=tuple(remark for part in parts for remark in part.remarks(scale)),
            tallies=tallies,
            controls=tuple(row for part in parts for row in part.repetition),
            free=frozenset(part.cube.dimension for part in parts if part.cube.echoing is not None),
            published=tuple(published_row(part.cube, part.estimates.published) for part in parts),
            published_cells=tuple(row for part in parts if replicates for row in compared_cell_rows(part.cube)),
            averages=averages.of_variant(variant),
            disparity=tuple(row for row in deciding_rows(of_groups) if row["variant"] == variant),
            disparities=tuple(gap for gap in disparities if gap.variant == variant),
        )


def _gap_rows(
    variant: str, parts: Sequence[DimensionAnalysis], found: OutcomeAnalysis, *, scale: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return all rows of the gap table of one variant, with what puts a gap in points in proportion."""
    rows = [
        row
        for part in parts
        for row in bounded_rows(list(anchored_rows(part.gap, part.cube, scale=scale)), part.cube, part.headline)
    ]
    means = [row for row in found.overall if row["variant"] == variant]
    return [*rows, *bounded_overall(list(anchored_overall(means, rows, {variant: scale})), rows)]


def _compared_row(row: Mapping[str, Any], n_asked: int, settings: AnalysisSettings) -> dict[str, Any]:
    """Make a row of ``tables.COMPARED_GAP`` from a row of the gap table."""
    copied = ("dimension", "variant", "estimator", "scope", "delta", "se", "df")
    held = equivalence_row(**{name: row[name] for name in copied}, margin=settings.margin, alpha=settings.alpha)
    known = dict(row) | {name: held[name] for name in ("largest_gap", "margin", "p_equivalence", "verdict")}
    known |= {"n_asked": n_asked, "missing_share": row["n_missing"] / n_asked if n_asked else float("nan")}
    return {column: known[column] for column in COMPARED_GAP if column != "run"}


# --- Replies ---------------------------------------------------------------------------------------------------------


def gaps_of_replies(
    replies: pd.DataFrame,
    outcomes: Sequence[Outcome],
    *,
    seed: int,
    settings: AnalysisSettings,
    conversation_of: Callable[[str], str] | None = None,
    repetition: Repetition | None = None,
) -> ReplyGaps:
    """Estimate δ of each measure in every dimension; ``replies`` are of one prompt variant."""
    told = repetition or Repetition()
    of_groups = without_dimensions(replies, told.placebo)
    gap: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    measured: list[MeasuredGaps] = []
    estimates: dict[str, dict[str, Labelled | NotEstimableError]] = {}
    disparity: list[dict[str, Any]] = []
    disparities: list[DecidedGap] = []
    for outcome, found in analyse_outcomes(
        replies, outcomes, seed=seed, settings=settings, conversation_of=conversation_of, repetition=told
    ):
        sd = spread_among(outcome, of_groups)
        gap += gap_rows_of(found, sd)
        controls += (row for part in found.parts for row in part.repetition)
        measured.append(measured_gaps(outcome, found, repetition=told, settings=settings, sd=sd))
        estimates[outcome.name] = {part.cube.dimension: _own_gap(part) for part in found.parts}
        scales = dict.fromkeys(map(str, replies["variant"].unique()), scale_of(outcome))
        rows, of_measure = disparity_rows_and_gaps(
            found, scales=scales, settings=settings, repetition=told, n_outcomes=n_tested_with(outcome, outcomes)
        )
        disparity += deciding_rows(rows)
        disparities += of_measure
    dimensions = dict.fromkeys(map(str, of_groups["dimension"].unique()))
    return ReplyGaps(
        confidence=settings.confidence,
        gap=tuple(row for row in with_adjusted_p(gap, family_of=family_of) if row["headline"]),
        estimates=estimates,
        identities={name: _identities(_between(of_groups, name)) for name in dimensions},
        controls=tuple(controls),
        disparity=tuple(disparity),
        disparities=tuple(disparities),
        replies=of_groups,
        outcomes={each.name: each for each in outcomes},
        measured=tuple(measured),
        settings=settings,
        conversation_of=conversation_of,
    )


def _between(replies: pd.DataFrame, dimension: str) -> pd.DataFrame:
    return replies.loc[(replies["dimension"] == dimension) & replies["in_group"].notna().to_numpy()]


def _identities(between: pd.DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    perceivers, experiencers = (tuple(map(str, between[side].unique())) for side in ("perceiver", "experiencer"))
    return perceivers, experiencers


def _own_gap(part: DimensionAnalysis) -> Labelled | NotEstimableError:
    """Return δ from the narratives' own gaps. If all numbers are equal, δ is 0 and no model can be fitted."""
    compared = part.cube.without_baselines()
    known = ~np.isnan(compared.y)
    made = part.estimates.contrast
    if not known.any():
        made = NotEstimableError("no reply between identities has a number")
    elif is_constant(compared.y):
        made = attempt(partial(_no_gap, compared, confidence=part.settings.confidence))
    if isinstance(made, NotEstimableError):
        return made
    return Labelled("", made, part.cube.narrative_ids, OWN_UNIT, part.estimates.without("contrast"))


def _no_gap(compared: NarrativeCube, *, confidence: float) -> GapEstimate:
    in_group_weights(compared)  # raises NotEstimableError if nothing can be compared
    known = ~np.isnan(compared.y)
    none = np.where(known.any(axis=(1, 2)), 0.0, np.nan)
    return summarise_contrasts(none, rounding=0.0, confidence=confidence, n_answers=int(known.sum()))
