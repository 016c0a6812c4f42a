"""The verdict on each measure of texts, by the rules for ratings: one estimate decides, whatever the outcome.

The deciding gap is that of :mod:`audit.statistics.deciding_estimate`, the verdict that of
:mod:`audit.statistics.verdict`. Measures differ from ratings in three ways. They have no margin, which is in points of
a rating scale, so nothing is ruled out. Texts without a number could have any number of the measure's scale, or without
a scale any that other texts have. p is corrected (Holm) over the measures of a dimension, in which people's questions
are a family of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.average_gaps import (
    is_flat,
    limits_of_mean,
    of_these_wordings,
    other_wordings,
    overall_gaps,
    placebo_cubes,
)
from audit.statistics.controls import Repetition
from audit.statistics.deciding_estimate import DecidedGap, Made, Place, gaps_of
from audit.statistics.estimates import GapEstimate
from audit.statistics.missing import missing_rows
from audit.statistics.outcome import DimensionAnalysis, Outcome, OutcomeAnalysis, n_differing
from audit.statistics.remarks import (
    FEW_NARRATIVES,
    are_few_complete,
    are_many_missing,
    not_additive,
    refusals_differ,
    unrated_identities,
)
from audit.statistics.verdict import Limits, Verdict, decide_verdicts
from audit.tables.shared import OVERALL

PEOPLE: Final = "people_"  # prefix of the names of people's questions
_NO_SCALE: Final = (float("-inf"), float("inf"))


def scale_of(outcome: Outcome) -> tuple[float, float]:
    """Return the two ends of a measure's scale; infinite without one."""
    return _NO_SCALE if outcome.scale is None else outcome.scale


@dataclass(frozen=True, eq=False)
class MeasuredGaps:
    """The deciding gaps of one measure, the codes that limit each, and the measure's spread over texts."""

    gaps: tuple[DecidedGap, ...]
    codes: Mapping[Place, frozenset[str]]
    sd: float
    wordings: Mapping[Place, Made]  # the gap of any such wordings, where several were asked


def measured_gaps(
    outcome: Outcome, found: OutcomeAnalysis, *, repetition: Repetition, settings: AnalysisSettings, sd: float
) -> MeasuredGaps:
    """Return a measure's deciding gap in each dimension and of their mean; ``sd`` is its SD over texts, or NaN."""
    scale = scale_of(outcome)
    placebos = placebo_cubes(found.prompts, repetition)
    gaps: list[DecidedGap] = []
    codes: dict[Place, frozenset[str]] = {}
    wordings: dict[Place, Made] = {}
    for part in found.parts:
        [gap] = gaps_of(
            part,
            placebos=placebos.get(part.cube.variant, {}),
            repetition=repetition,
            scale=scale,
            confidence=settings.confidence,
            average_alone=True,
        )
        gaps.append(gap)
        codes[gap.place] = frozenset(_codes(part, gap, settings))
        if (made := other_wordings(part)) is not None:
            wordings[gap.place] = made
    scales = dict.fromkeys((gap.variant for gap in gaps), scale)
    overall = overall_gaps(found, gaps, scales, confidence=settings.confidence)
    for gap in overall:
        own = [codes[each.place] for each in gaps if each.variant == gap.variant and "+" not in each.dimension]
        codes[gap.place] = limits_of_mean(own, gap)
    return MeasuredGaps((*gaps, *overall), codes, sd, wordings)


def measure_verdicts(
    measured: Iterable[MeasuredGaps], limits: Limits, settings: AnalysisSettings
) -> list[dict[str, Any]]:
    """Decide about every measure; return rows of ``tables.VERDICTS``."""
    every = list(measured)
    known = {place: set(codes) for place, codes in (limits.on_place or {}).items()}
    for each in every:
        for place, codes in each.codes.items():
            known.setdefault(place, set()).update(codes)
    all_limits = replace(limits, on_place=known)
    families: defaultdict[tuple[str, str, bool], list[DecidedGap]] = defaultdict(list)
    sd = {each.gaps[0].outcome.name: each.sd for each in every if each.gaps}
    wordings = {each.gaps[0].outcome.name: each.wordings for each in every if each.gaps}
    for each in every:
        for gap in each.gaps:
            families[gap.dimension, gap.variant, gap.outcome.name.startswith(PEOPLE)].append(gap)
    rows = []
    # Dimensions first, then their means, as in the other tables.
    for _, family in sorted(families.items(), key=lambda item: item[0][0] == OVERALL):
        _, found = decide_verdicts(
            family, all_limits, margin=None, least_gap=float("nan"), alpha=settings.alpha, power=settings.power
        )
        for verdict in found:
            said = of_these_wordings(verdict, wordings[verdict.outcome], alpha=settings.alpha)
            rows.append(_row(replace(verdict, of_these_wordings=said), sd[verdict.outcome]))
    return rows


def _row(verdict: Verdict, sd: float) -> dict[str, Any]:
    # Measures have no margin, and the noise of replies shrinks with their number.
    if verdict.next_step == "margin" or verdict.reasons[:1] == ("noise_floor",):
        verdict = replace(verdict, next_step="more_narratives")
    row = verdict.row()
    in_sd = {"delta_sd": row["delta"], "sd_ci_low": row["ci_low"], "sd_ci_high": row["ci_high"]}
    return row | {name: value / sd for name, value in in_sd.items()}


def _codes(part: DimensionAnalysis, gap: DecidedGap, settings: AnalysisSettings) -> Iterator[str]:
    """Yield codes of what limits a measure's gap, by the bounds of :mod:`audit.statistics.remarks`."""
    if not part.cube.has_perceivers:
        yield "no_perceivers"
        return
    cube = part.cube.without_baselines()
    n, n_lacking = int(np.count_nonzero(cube.expected)), int(np.count_nonzero(cube.lacking))
    if n_lacking == n:
        yield "nothing_rated"
        return
    if are_many_missing(n_lacking, n):
        yield "many_missing"
    if any(silent for _, silent in unrated_identities(cube)):
        yield "unrated_identity"
    n_complete = int(np.count_nonzero(~cube.lacking.any(axis=(1, 2))))
    if are_few_complete(n_complete, len(cube.narrative_ids)):
        yield "incomplete_narratives"
    refusals = next(
        row for row in missing_rows(part.cube, confidence=settings.confidence) if row["outcome"] == "refused"
    )
    if refusals_differ(refusals):
        yield "refusal_gap"
    yield from _of_numbers(part, cube.y)
    # A gap that is not found needs no noise to explain it: it stays undecided.
    if part.is_within_noise and isinstance(gap.made, GapEstimate) and gap.made.p <= settings.alpha:
        yield "noise_floor"
    if isinstance(gap.made, GapEstimate) and np.count_nonzero(~np.isnan(gap.made.by_narrative)) < FEW_NARRATIVES:
        yield "few_narratives"


def _of_numbers(part: DimensionAnalysis, y: np.ndarray[Any, Any]) -> Iterator[str]:
    """Yield codes of what limits a measure that has a number for each text."""
    if is_flat(part):
        yield "constant"
        return
    n_known, n_differ = n_differing(y)
    if n_differ < min(FEW_NARRATIVES, n_known / 2):
        yield "few_narratives"
    found = part.estimates
    yield from (code for code, _ in not_additive(part.cube, found))
    if found.estimator == "mixed" and not isinstance(found.mixed, NotEstimableError) and not found.mixed.converged:
        yield "not_converged"
