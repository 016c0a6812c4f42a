"""The input of verdicts: a run's deciding gaps, ranks among dealings of terms, and whether other wordings agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Repetition
from audit.statistics.deciding_estimate import DecidedGap, Made, Place, gaps_of, moved
from audit.statistics.estimate_rows import child_rng
from audit.statistics.estimates import GapEstimate, by_t, t_interval
from audit.statistics.outcome import INTENSITY, DimensionAnalysis, OutcomeAnalysis
from audit.statistics.ratings import split_ratings
from audit.statistics.relabelling import rank_among_dealings
from audit.statistics.remarks import are_few_complete
from audit.statistics.verdict import JudgedGap, Limits, Verdict, decide_verdicts
from audit.tables.formatting import dimension_title
from audit.tables.shared import OVERALL
from audit.tables.verdicts import JUDGED

LEAST_SHARE: Final = 0.01  # the least gap of interest unless one is set, as a share of the scale
_DUST: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Averages:
    """The gaps of a run and what else its verdicts need."""

    # averages and the gaps of emotions, groups and refusals, dimension by dimension and variant by variant
    gaps: tuple[DecidedGap, ...]
    overall: tuple[DecidedGap, ...]  # the means over single dimensions, if there are several
    ranks: Mapping[Place, tuple[int, int]]  # the rank of the true dealing of terms, and the number of dealings
    wordings: Mapping[Place, Made]  # the gap of any such wordings, where several were asked
    constant: frozenset[Place]  # where every rating is the same
    settings: AnalysisSettings

    def verdicts(
        self,
        limits: Limits,
        *,
        margin: float | None,
        refusal_margin: float = 5.0,
        response: Mapping[str, float] | None = None,
    ) -> tuple[list[JudgedGap], list[Verdict]]:
        """Decide, as :func:`~audit.statistics.verdict.decide_verdicts`; the means over dimensions come last."""
        limits = replace(limits, on_place=self._limits(limits))
        found: list[Verdict] = []
        judged: list[JudgedGap] = []
        for gaps in (self.gaps, self.overall):
            if not gaps:
                continue
            scale = gaps[0].scale if gaps[0].kind != "refusals" else (0.0, 100.0)
            least = self.settings.least_gap or LEAST_SHARE * abs(scale[1] - scale[0])
            held, made = decide_verdicts(
                gaps, limits, margin=margin, least_gap=least, alpha=self.settings.alpha, power=self.settings.power,
                refusal_margin=refusal_margin, ranks=self.ranks, response=response,
            )  # fmt: skip
            judged += held
            if gaps is self.overall:
                made = [_with_dimensions(each, found, with_margin=margin is not None) for each in made]
            found += [
                replace(each, of_these_wordings=of_these_wordings(each, self.wordings, alpha=self.settings.alpha))
                for each in made
            ]
        return judged, found

    def of_variant(self, variant: str) -> Averages:
        """Keep the gaps of one prompt variant."""
        gaps, overall = (tuple(g for g in each if g.variant == variant) for each in (self.gaps, self.overall))
        return replace(self, gaps=gaps, overall=overall)

    def _limits(self, limits: Limits) -> dict[Place, frozenset[str]]:
        """Return the limits of each place; a mean over dimensions has those of any of them.

        Noise floor and constant ratings limit a mean only if they limit all dimensions.
        """
        places = {(gap.dimension, gap.variant) for gap in self.gaps}
        found: dict[Place, frozenset[str]] = {
            place: frozenset(limits.of(place)) | ({"constant"} if place in self.constant else frozenset())
            for place in places
        }
        for gap in self.overall:
            own = [codes for (name, variant, *_), codes in found.items() if variant == gap.variant and "+" not in name]
            found[gap.dimension, gap.variant] = limits_of_mean(own, gap)
        return found


def limits_of_mean(own: Sequence[frozenset[str]], mean: DecidedGap) -> frozenset[str]:
    """Return what limits a mean over dimensions: the codes of any, but noise floor and constant ratings only of all."""
    shared = frozenset.intersection(*own) if own else frozenset()
    return frozenset(mean.held_back).union(*own) - ({"noise_floor", "constant"} - shared)


def averages_of(
    found: OutcomeAnalysis,
    *,
    placebos: Mapping[str, Mapping[str, NarrativeCube]],  # ratings by variant and set of invented groups
    scales: Mapping[str, tuple[float, float]],  # the two ends of each variant's scale, in points
    seed: int,  # of the draw of dealings where there are many
    settings: AnalysisSettings,
    repetition: Repetition,
    sees_refusals: bool = True,  # whether these ratings can show a refusal
) -> Averages:
    """Collect the input of verdicts from the analysis of all dimensions and variants."""
    gaps: list[DecidedGap] = []
    ranks: dict[Place, tuple[int, int]] = {}
    wordings: dict[Place, Made] = {}
    for part in found.parts:
        place = part.cube.dimension, part.cube.variant
        gaps += gaps_of(
            part,
            placebos=placebos.get(place[1], {}),
            repetition=repetition,
            scale=scales[place[1]],
            confidence=settings.confidence,
            missing_shift=settings.missing_shift,
            refusals=sees_refusals,
        )
        rng = child_rng(seed, *place, "dealings")
        ranks[place] = rank_among_dealings(part.cube.without_baselines(), rng=rng)
        if (made := other_wordings(part)) is not None:
            wordings[place] = made
    return Averages(
        gaps=tuple(gaps),
        overall=tuple(overall_gaps(found, gaps, scales, confidence=settings.confidence)),
        ranks=ranks,
        wordings=wordings,
        constant=frozenset((part.cube.dimension, part.cube.variant) for part in found.parts if is_flat(part)),
        settings=settings,
    )


def placebo_cubes(compact: pd.DataFrame, repetition: Repetition) -> dict[str, dict[str, NarrativeCube]]:
    """Return the ratings of each set of invented groups, by variant and set."""
    cubes: dict[str, dict[str, NarrativeCube]] = {}
    for dimension, variant, part in split_ratings(compact):
        if dimension in repetition.placebo:
            cube = repetition.cube_of(part, dimension=dimension, variant=variant)
            cubes.setdefault(variant, {})[dimension] = cube
    return cubes


def judged_rows(judged: list[JudgedGap]) -> list[dict[str, Any]]:
    """Lay out judged gaps as rows of ``JUDGED``."""
    rows = []
    for each in judged:
        held, gap = each.held, each.held.gap
        row = {
            "dimension": gap.dimension, "variant": gap.variant, "kind": gap.kind, "member": gap.member,
            "control": gap.control, "scope": gap.scope, "delta": held.value, "low": held.low, "high": held.high,
            "margin": held.margin, "p_beyond": held.p_beyond, "p_adjusted": held.p_adjusted,
            "beyond_low": held.beyond_low, "beyond_high": held.beyond_high, "beyond_level": held.beyond_level,
            "outcome": each.outcome, "reasons": "; ".join(each.reasons), "n_narratives": gap.n_narratives,
        }  # fmt: skip
        rows.append({column: row[column] for column in JUDGED})
    return rows


def _with_dimensions(overall: Verdict, found: Sequence[Verdict], *, with_margin: bool) -> Verdict:
    """Name, for a mean over dimensions, the dimensions and parts beyond the margin, and those not shown within it."""
    beyond: list[str] = []
    not_shown: list[str] = []
    for each in found:
        if each.variant != overall.variant or "+" in each.dimension:
            continue
        name = dimension_title(each.dimension)
        if each.code == "gap" and (each.size == "beyond" or not with_margin):
            beyond.append(name)
        elif with_margin and not (each.code == "within" or each.size == "smaller"):
            not_shown.append(name)
        beyond += [f"{part} ({name})" for part in each.parts_beyond]
        not_shown += [f"{part} ({name})" for part in each.parts_not_shown]
    return replace(overall, parts_beyond=tuple(beyond), parts_not_shown=tuple(not_shown))


def is_flat(part: DimensionAnalysis) -> bool:
    """Whether every rating between identities is the same within each narrative."""
    y = part.cube.without_baselines().y.reshape(len(part.cube.narrative_ids), -1)
    y = y[(~np.isnan(y)).sum(axis=1) > 1]
    return bool(y.size) and float((np.nanmax(y, axis=1) - np.nanmin(y, axis=1)).max()) < _DUST


def other_wordings(part: DimensionAnalysis) -> Made | None:
    """Return the gap of any such wordings, or why it is not known; None if there is one wording."""
    if part.worded is None:
        return None
    crossed = part.worded.crossed
    return crossed if isinstance(crossed, NotEstimableError) else crossed.estimate


def of_these_wordings(verdict: Verdict, wordings: Mapping[Place, Made], *, alpha: float) -> str:
    """Say why what a verdict claims is not shown for other wordings; empty if it is, or if there is one wording.

    ``wordings`` are of one outcome. A mean over dimensions is shown for other wordings if each of them is.
    """
    own = [
        made
        for (dimension, variant, *_), made in wordings.items()
        if variant == verdict.variant and (dimension == verdict.dimension or (
            verdict.dimension == OVERALL and "+" not in dimension))
    ]  # fmt: skip
    return next(filter(None, (_not_of_others(verdict, made, alpha=alpha) for made in own)), "")


def _not_of_others(verdict: Verdict, made: Made, *, alpha: float) -> str:
    if isinstance(made, NotEstimableError):
        return str(made)
    if not np.isfinite(made.ci_low):
        return made.not_estimable or "over wordings it has no interval"
    is_gap = verdict.code == "gap"
    ruled_out = verdict.supported_margin if verdict.code == "undecided" else verdict.margin
    if verdict.code in ("within", "undecided") or verdict.size == "smaller":
        low, high, _ = t_interval(made.delta, made.se, made.df, confidence=1 - 2 * alpha)
        if max(abs(low), abs(high)) >= ruled_out:
            what = "the margin" if is_gap or verdict.code == "within" else "what is ruled out"
            return f"the interval for any such wordings reaches beyond {what}"
    if not is_gap:
        return ""
    if made.ci_low <= 0 <= made.ci_high:
        return "the interval for any such wordings holds 0"
    if verdict.direction * made.delta < 0:
        return "the gap of any such wordings is on the other side of 0"
    nearest, farthest = sorted((abs(made.ci_low), abs(made.ci_high)))
    if verdict.size == "beyond" and nearest <= verdict.margin:
        return "the interval for any such wordings reaches inside the margin"
    if verdict.size == "tiny" and farthest >= verdict.least_gap:
        return "the interval for any such wordings reaches beyond the least gap"
    return ""


def overall_gaps(
    found: OutcomeAnalysis, gaps: Sequence[DecidedGap], scales: Mapping[str, tuple[float, float]], *, confidence: float
) -> list[DecidedGap]:
    """Make the deciding gap of the mean over single dimensions, by variant.

    Its control is ``echo_free`` only if that of all dimensions is, its scope ``groups`` only if all speak of groups.
    """
    means = [row for row in found.gap if row["dimension"] == OVERALL]  # for utterances, over conversations
    made = []
    for variant in dict.fromkeys(str(row["variant"]) for row in means):
        own = [gap for gap in gaps if gap.kind == "average" and gap.variant == variant and "+" not in gap.dimension]
        rows = {row["scope"]: row for row in means if row["variant"] == variant}
        parts = [each.made for each in own]
        free = all(gap.control == "echo_free" for gap in own)
        wide = rows.get("narratives_and_terms")
        scope = (
            "groups"
            if wide is not None and np.isfinite(wide["se"]) and all(g.scope == "groups" for g in own)
            else "pairs"
        )
        row = wide if scope == "groups" and wide is not None else rows["narratives"]
        without = any(isinstance(each, NotEstimableError) for each in parts)
        known = DecidedGap(
            "average", "", OVERALL, variant, NotEstimableError(str(row["note"])), (), scales[variant],
            control="echo_free" if free else "none", scope=scope,  # type: ignore[arg-type]
            why_pairs="" if scope == "groups" else "not every dimension speaks of any such groups",
            outcome=own[0].outcome if own else INTENSITY, held_back=() if without else _held_back(row, own),
        )  # fmt: skip
        if without or not np.isfinite(row["delta"]):
            made.append(known)
            continue
        estimate = _estimate(row, own)
        worst = None
        if any(gap.worst is not None for gap in own):
            shifts = [_shifts(gap) for gap in own]
            worst = NotEstimableError("ratings are missing, and what they could be has no bound in one dimension")
            if all(each is not None for each in shifts):
                low, high = (float(np.mean([each[end] for each in shifts if each is not None])) for end in (0, 1))
                worst = moved(estimate, low), moved(estimate, high)  # type: ignore[assignment]
        off = float(np.mean([gap.off for gap in own]))
        made.append(
            replace(
                known, made=estimate, worst=worst, off=off, other=_other(own, confidence=confidence),
                narrative_ids=_ids_of(own),
            )
        )  # fmt: skip
    return made


def _held_back(row: Mapping[str, Any], own: Sequence[DecidedGap]) -> tuple[str, ...]:
    """Return why a mean over dimensions, which is over narratives that all use, need not be that of their gaps."""
    n_asked, sets = len(_ids_of(own)), [set(gap.narrative_ids) for gap in own]
    if sets and are_few_complete(len(set.intersection(*sets)), n_asked):
        return ("few_shared",)
    return ("incomplete_narratives",) if are_few_complete(row["n_narratives"], n_asked) else ()


def _other(own: list[DecidedGap], *, confidence: float) -> Made | None:
    """Return the mean of the dimensions' second controls; its standard error is at most the mean of theirs."""
    if all(gap.other is None for gap in own):
        return None
    others = [gap.other for gap in own if isinstance(gap.other, GapEstimate)]
    if len(others) < len(own):
        return NotEstimableError("not every dimension has a second control")
    delta, se, df = (
        float(np.mean([each.delta for each in others])),
        float(np.mean([each.se for each in others])),
        min(each.df for each in others),
    )
    nothing = np.full_like(others[0].by_narrative, np.nan)
    return replace(others[0], **by_t(delta, se, df, confidence=confidence), by_narrative=nothing)


def _ids_of(own: Sequence[DecidedGap]) -> tuple[Any, ...]:
    """Return the narratives that any of these gaps has, in order of first appearance."""
    return tuple(dict.fromkeys(key for gap in own for key in gap.narrative_ids))


def _estimate(row: Mapping[str, Any], own: list[DecidedGap]) -> GapEstimate:
    """Return the row of the mean over dimensions as an estimate, with the mean of each narrative's gaps."""
    ids = _ids_of(own)
    columns = []
    for gap in own:
        assert isinstance(gap.made, GapEstimate)
        before_control = gap.plain or gap.made  # like the row, from which no gap of invented groups is taken off
        of = dict(zip(gap.narrative_ids, before_control.by_narrative.tolist(), strict=True))
        columns.append([of.get(key, np.nan) for key in ids])
    means = np.array(columns, dtype=np.float64).mean(axis=0)
    numbers = {name: float(row[name]) for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "d_z")}
    used = ~np.isnan(means)
    return GapEstimate(
        **numbers, n_narratives=int(row["n_narratives"]), n_narratives_asked=int(row["n_narratives_asked"]),
        n_answers=int(row["n_answers"]), not_estimable=str(row["note"]) if not np.isfinite(row["se"]) else "",
        by_narrative=means, noise=np.full(means.size, np.nan),
        weights=np.where(used, 1 / max(int(used.sum()), 1), 0.0),
    )  # fmt: skip


def _shifts(gap: DecidedGap) -> tuple[float, float] | None:
    """How far the worst cases of missing ratings lie from the estimate, in its unit; None if they have no bound."""
    if gap.worst is None:
        return 0.0, 0.0
    if isinstance(gap.worst, NotEstimableError) or isinstance(gap.made, NotEstimableError):
        return None
    return tuple(each.delta - gap.made.delta for each in gap.worst)  # type: ignore[return-value]
