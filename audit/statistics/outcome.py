"""The gaps of any outcome that has one number a prompt: one analysis, with the same controls, for all of them.

An intensity, a measure of a reply, an emotion recognised or not, and the score that people gave are outcomes. The
tables of ratings and of replies are made from what :func:`analyse_outcome` returns; what only ratings have (δ_z, number
mass, the ends of the scale) is added in :mod:`audit.statistics.analysis`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube, cell_table
from audit.statistics.comparisons import Labelled
from audit.statistics.controls import Dependent, Repetition
from audit.statistics.conversations import conversations_of, gaps_over_conversations, noted_over_conversations
from audit.statistics.echo import echo_free
from audit.statistics.estimate_rows import Estimates, gap_rows, overall_rows
from audit.statistics.estimates import GapEstimate
from audit.statistics.families import family_rows
from audit.statistics.incomplete import cell_means
from audit.statistics.missing import missing_rows
from audit.statistics.noise import noise_floor, noise_row
from audit.statistics.ratings import BoolArray, FloatArray
from audit.statistics.remarks import FEW_NARRATIVES, MISSING_SHARE, Remark, remarks_of
from audit.statistics.status_counts import outcome_table
from audit.statistics.wordings import WordingGaps
from audit.tables.cells import CELLS
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import count, plural, rate
from audit.tables.gap import NO_PERCEIVERS
from audit.tables.replies import SCORED
from audit.tables.shared import RATES, TALLY

OWN_UNIT: Final = (0.0, 1.0)  # the scale of an outcome without one, so that differences stay in its own unit
ROUNDING: Final = 1e-12  # smaller differences, relative to the largest number, are floating-point arithmetic
_ESTIMATORS: Final = ("contrast", "mixed")
"""Estimators of outcomes other than ratings: random perceivers and experiencers, and δ_z, are for ratings."""
_OF_RATED: Final = (*TALLY.keys() - {"n_rated"}, *RATES)  # columns of cells for other outcomes than a number


@dataclass(frozen=True, eq=False)
class Outcome:
    """The quantity that δ is computed for: an intensity, or a measure of replies."""

    name: str
    unit: str = ""
    # By prompt_index; NaN or no entry for a prompt without such a number. None if the prompts hold it, as ratings do.
    values: pd.Series | None = None
    scale: tuple[float, float] | None = None  # the two ends of its scale; None without one
    rated: bool = False  # whether it was asked for as a rating, in points: only such have δ_z and the crossed model
    # What D of replies that are not matched is adjusted for, numbers by narrative; None for all others
    covariates: pd.DataFrame | None = None
    # Whether nobody chose who writes what, so that groups may differ because of what they write
    observational: bool = False
    # By prompt_index, the numbers of prompts that were asked once more; None if none were
    again: pd.Series | None = None

    def named(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of a table of all outcomes with the name and unit of this one."""
        return {**row, "outcome": self.name, "unit": self.unit}


INTENSITY: Final = Outcome("intensity", unit="points", rated=True)
REFUSED: Final = Outcome(REFUSALS, unit="percentage points", scale=(0.0, 100.0))
"""Whether a prompt for a rating was refused, 100 or 0: its mean is the share of refusals in percent."""


@dataclass(frozen=True, eq=False)
class DimensionAnalysis:
    """An outcome in one dimension and variant, with its estimates."""

    outcome: Outcome
    cube: NarrativeCube  # the outcome's numbers, with baselines; its δ is echo-free if the terms allow that
    prompts: pd.DataFrame  # the same, as compacted ratings
    told: Repetition
    conversations: tuple[str, ...]  # of each narrative; empty if narratives are independent
    estimates: Estimates
    gap: list[dict[str, Any]]  # rows of GAP
    repetition: list[dict[str, Any]]  # rows of CONTROLS for the repetition of words
    settings: AnalysisSettings
    dependent: Dependent | None = None  # gives an estimate the uncertainty of conversations, if there are any

    @property
    def headline(self) -> GapEstimate | NotEstimableError:
        """The headline estimate, or why there is none."""
        return self.estimates.headline

    @cached_property
    def worded(self) -> WordingGaps | None:
        """Its gaps in each wording of the prompt; None if there is one wording."""
        # A wording whose ratings do not allow the headline's estimate has no δ, rather than another kind of δ.
        stems = self.told.stems.get(self.cube.dimension, {})
        free = {} if self.cube.nuisance is None else {"within": partial(echo_free, stems=stems)}
        return WordingGaps.of(self.prompts, self.cube, confidence=self.settings.confidence, **free)

    @cached_property
    def noise(self) -> dict[str, Any] | None:
        """The row ``noise`` of ``CONTROLS``, of prompts that were asked once more; None if none were."""
        values, again = self.outcome.values, self.outcome.again
        if values is None or again is None:
            return None
        first, second = (
            each.rename_axis("prompt_index").reset_index(name="intensity")
            for each in (values.reindex(again.index), again)
        )
        return noise_row(
            self.cube.without_baselines(),
            noise_floor(first, second),
            confidence=self.settings.confidence,
            n_wordings=int(self.prompts["wording"].nunique()),
        )

    @property
    def is_within_noise(self) -> bool:
        """Whether δ is less than twice what it would change by if the same prompts were asked again."""
        found = self.headline
        return self.noise is not None and isinstance(found, GapEstimate) and abs(found.delta) < 2 * self.noise["se"]

    def controls(self) -> list[dict[str, Any]]:
        """Return the rows of ``CONTROLS``: for the repetition of words, for several wordings, and for asking again."""
        if not self.cube.has_perceivers:
            return []
        of_wordings = None if self.worded is None else self.worded.control(n_missing=n_missing(self.prompts))
        return [*self.repetition, *map(self.outcome.named, filter(None, [of_wordings, self.noise]))]

    def wordings(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``WORDINGS``; none for one wording."""
        yield from map(self.outcome.named, () if self.worded is None else self.worded.rows())

    def wording_shares(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``WORDING_SHARES``; none for one wording."""
        if self.worded is not None:
            found = self.worded.shares(self.estimates.scopes["contrast"], self.estimates.contrast)
            yield from map(self.outcome.named, found)

    def families(
        self, valence: Mapping[str, str] | None, clusters: Mapping[str, Mapping[str, str]] | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``FAMILIES``, as :func:`~audit.statistics.families.family_rows`."""
        if not self.cube.has_perceivers:
            return
        dimension, confidence = self.cube.dimension, self.settings.confidence
        over = partial(noted_over_conversations, conversations=self.conversations, confidence=confidence)
        rows = family_rows(
            self.cube,
            confidence=confidence,
            valence=valence or {},
            clusters=(clusters or {}).get(dimension, {}),
            cues=self.told.cues.get(dimension, {}),
            over=over if self.conversations else None,
        )
        yield from map(self.outcome.named, rows)

    def remarks(self, scale: tuple[float, float]) -> Iterator[Remark]:
        """Yield what limits its gaps, without analyses of their sensitivity."""
        (low, high), settings = scale, self.settings
        return remarks_of(
            self.cube,
            self.estimates,
            outcomes=outcome_table(self.prompts, low=low, high=high, min_number_mass=settings.min_number_mass),
            missing=list(missing_rows(self.cube, confidence=settings.confidence)),
            sensitivity=(),
            low=low,
            high=high,
            min_number_mass=settings.min_number_mass,
        )

    def cells(self) -> pd.DataFrame:
        """Return the columns of ``CELLS``; of statuses only ratings have numbers."""
        cells = cell_table(self.prompts)
        # Each pair was asked in other narratives, whose levels differ; replies without matches have no such level.
        if self.cube.by_design and self.outcome.covariates is None:
            means = cell_means(self.cube.y.reshape(len(self.cube.y), -1))
            cells["mean"] = means[self.cube.asked.ravel()]
        if not self.outcome.rated:
            cells = cells.drop(columns=list(_OF_RATED))
        return cells.assign(**self.outcome.named({})).reindex(columns=list(CELLS))


@dataclass(frozen=True, eq=False)
class OutcomeAnalysis:
    """The analysis of an outcome: its parts, the mean over dimensions, and all rows of the gap."""

    parts: tuple[DimensionAnalysis, ...]
    overall: list[dict[str, Any]]  # rows of GAP for the mean over single dimensions
    gap: list[dict[str, Any]]  # of parts, then of the mean; for utterances with the uncertainty of conversations
    labelled: Mapping[str, list[Labelled]]  # by dimension, the headline in each variant that has one
    prompts: pd.DataFrame  # the compacted ratings that were analysed, sets of invented groups included


def analyse_outcome(
    outcome: Outcome,
    prompts: pd.DataFrame,  # compacted ratings, one row a prompt, with the outcome's number in place of an intensity
    *,
    # With the names of dimension and variant, so that the other prompts do not alter a p, and all outcomes have their
    # signs flipped alike.
    seed: int,
    settings: AnalysisSettings,
    repetition: Repetition | None = None,  # sets of invented groups are a control, and have no δ of their own
    conversation_of: Callable[[str], str] | None = None,  # of a narrative; None if narratives are not utterances
    replies: pd.DataFrame | None = None,  # to the prompts, row by row; None for ratings
) -> OutcomeAnalysis:
    """Estimate δ of an outcome in each dimension and variant, and over all dimensions, with its controls."""
    told = repetition or Repetition()
    confidence = settings.confidence
    dependent = _dependent(conversation_of, confidence=confidence)
    parts: list[DimensionAnalysis] = []
    labelled: defaultdict[str, list[Labelled]] = defaultdict(list)
    for cube, own, controls in told.controlled(prompts, confidence=confidence, dependent=dependent):
        made = Estimates.of(cube, seed=seed, settings=settings, published=outcome.rated)
        rows = gap_rows(cube, made, confidence=confidence, n_missing=n_missing(own))
        rows = rows if outcome.rated else _measured_rows(rows, cube, *_n_numberless(replies, own))
        rows = rows if cube.has_perceivers else (row | {"note": NO_PERCEIVERS} for row in rows)
        part = DimensionAnalysis(
            outcome=outcome,
            cube=cube,
            prompts=own,
            told=told,
            conversations=conversations_of(cube.narrative_ids, conversation_of),
            estimates=made,
            gap=list(map(outcome.named, rows)),
            repetition=list(map(outcome.named, controls)),
            settings=settings,
            dependent=dependent,
        )
        parts.append(part)
        if isinstance(part.headline, GapEstimate):
            scale = outcome.scale or OWN_UNIT
            without = made.without(made.estimator)
            labelled[cube.dimension].append(Labelled(cube.variant, part.headline, cube.narrative_ids, scale, without))
    of_parts = [row for part in parts for row in part.gap]
    overall = list(map(outcome.named, overall_rows(of_parts, labelled, confidence=confidence)))
    gap = [*of_parts, *overall]
    if conversation_of is not None and any(part.conversations for part in parts):
        found = [(part.cube, part.estimates) for part in parts]
        gap = gaps_over_conversations(gap, found, labelled, conversation_of, seed=seed, settings=settings)
    return OutcomeAnalysis(tuple(parts), overall, gap, labelled, prompts)


def is_scored(replies: pd.DataFrame) -> BoolArray:
    """Mark the replies that measures are taken of."""
    return np.asarray(replies["status"].isin(SCORED), dtype=np.bool_)


def n_missing(prompts: pd.DataFrame) -> int:
    """Count the compacted prompts between identities that have no number, baselines left out."""
    return int((prompts["in_group"].notna() & prompts["intensity"].isna()).sum())


def is_constant(numbers: FloatArray) -> bool:
    """Whether there are numbers, and they differ by floating-point arithmetic alone."""
    known = numbers[~np.isnan(numbers)]
    return bool(known.size) and float(np.ptp(known)) <= ROUNDING * float(np.abs(known).max())


def n_differing(y: FloatArray) -> tuple[int, int]:
    """Count the narratives with a number in y, shape (N, P, E), and those of them in which numbers differ."""
    flat = y.reshape(len(y), -1)
    n_known = int((~np.isnan(flat)).any(axis=1).sum())
    return n_known, n_known - sum(is_constant(own) for own in flat)


def spread_of(values: pd.Series, replies: pd.DataFrame) -> float:
    """Return the standard deviation (n − 1) of a measure among some replies; NaN if it does not vary."""
    known = values[values.index.isin(replies["prompt_index"])].to_numpy(dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.std(ddof=1)) if known.size > 1 and not is_constant(known) else float("nan")


def _n_numberless(replies: pd.DataFrame | None, part: pd.DataFrame) -> tuple[int, int]:
    """Count the scored replies between identities that have no number, and all of them."""
    assert replies is not None
    scored = is_scored(replies)[part.index] & part["in_group"].notna().to_numpy()
    return int((scored & part["intensity"].isna().to_numpy()).sum()), int(scored.sum())


def _measured_rows(
    rows: Iterator[dict[str, Any]], cube: NarrativeCube, n_without: int, n_scored: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a measure of replies, each with a note on replies that hardly differ or have no number."""
    compared = cube.without_baselines()
    remark, constant = _remark(compared.y, n_without, n_scored), is_constant(compared.y)
    for row in rows:
        if row["estimator"] not in _ESTIMATORS:
            continue
        # Flipping the sign of 0 changes nothing: p would be 1, test nothing, and count as one more test.
        untested = {"p_sign_flip": float("nan")} if row["delta"] == 0 and np.isnan(row["se"]) else {}
        yield row | untested | {"note": remark if constant else "; ".join(filter(None, (row["note"], remark)))}


def _remark(y: FloatArray, n_without: int, n_scored: int) -> str:
    """Say of y, shape (N, P, E), that replies hardly differ in a measure, or that many have no such number."""
    flat = y.reshape(len(y), -1)
    n_known, n_differ = n_differing(y)
    said = []
    if is_constant(flat):
        said.append(f"every reply between identities has the same number, {flat[~np.isnan(flat)][0]:g}")
    elif n_differ < min(FEW_NARRATIVES, n_known / 2):
        said.append(f"only in {count(n_differ)} of {plural(n_known, 'narrative')} do replies differ in it")
    if n_without > MISSING_SHARE * n_scored:
        said.append(f"{rate(n_without / n_scored)} of the replies have no such number: δ speaks of the others")
    return "; ".join(said)


def _dependent(conversation_of: Callable[[str], str] | None, *, confidence: float) -> Dependent | None:
    """Make the function that gives a control's estimate the uncertainty of conversations; None without them."""
    if conversation_of is None:
        return None

    def over(estimate: GapEstimate, narrative_ids: Sequence[Any]) -> tuple[GapEstimate, str]:
        units = conversations_of(narrative_ids, conversation_of)
        if not units:
            return estimate, ""
        return noted_over_conversations(estimate, units, confidence=confidence)

    return over
