"""Who is rated lower by everybody: how far each group lies below or above the others, whoever perceives.

δ removes what every perceiver does alike, so a model that rates one group 20 points lower whoever looks at it has a δ
of 0. The disparity D of a group is what δ leaves out: the mean of its terms less the mean of the other groups' means,
averaged over the groups of perceivers, narrative by narrative. In complete designs neither says anything about the
other.

- **Views**: over all perceivers with an identity; as rated by "a person"; as rated without a persona (the deployed
  assistant); and against "a person" as experiencer, which tells *lower than the others* from *lower than nobody in
  particular*.
- **Group or word?** A group is told from its words by other words (``narratives_and_terms``: its terms are a sample of
  such terms), or by what labels of invented groups differ by (``narratives_and_labels``). With neither, D speaks of
  these words. Where both are there, terms decide and invented groups must not disagree.
- **To accuse is as hard as to acquit**: what is shown must hold wherever missing ratings lie, and not at an end of the
  scale.

The same of perceivers says which persona rates everybody lower: a table without a verdict.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Repetition
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.disparity_answers import APART_VIEWS, decide, group_gaps
from audit.statistics.disparity_estimates import (
    NARRATIVES,
    DisparityPlan,
    GroupDisparity,
    RatedView,
    ViewEstimates,
    spread_of_labels,
    term_contrasts,
)
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.families import FamilyMember
from audit.statistics.heterogeneity import hotelling
from audit.statistics.narrative_fits import Swept, pseudo_inverse
from audit.statistics.outcome import REFUSED, OutcomeAnalysis
from audit.statistics.ratings import BoolArray, FloatArray, compact_ratings, split_ratings
from audit.tables.disparity import DISPARITY, deciding_view
from audit.tables.ratings import Status

_NAN: Final = float("nan")
_NUMBERS: Final = ("se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers")
_DUST: Final = 1e-9


def disparity_rows(
    found: OutcomeAnalysis,
    *,
    scales: Mapping[str, tuple[float, float]],  # the two ends of each variant's scale; infinite without a scale
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
    n_outcomes: int = 1,  # outcomes that are looked at together, such as the measures of replies
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``DISPARITY`` of an outcome: each dimension and variant, then sets of invented groups.

    Notes
    -----
    On complete ratings a group's disparity is the mean over narratives of D_ig = Σ_pe w_pe y_ipe, with the weights of
    its definition, and the interval is that of a t-test with N − 1 degrees of freedom. Where a rating is missing it is
    estimated as the contrasts of ``FAMILIES`` are, :func:`~audit.statistics.incomplete.cell_contrasts`, with a level
    for each narrative and perceiver: nothing that a narrative adds to one perceiver is left in it, as nothing is in the
    headline of δ. The headline's own way, least squares of each narrative's own ratings, is not taken: it needs every
    group rated by one perceiver in one narrative, and mixes up groups and terms where one term lacks more ratings, and
    groups and pairs where each narrative is asked about a draw of them (docs/statistics.md has the figures).

    Terms of a group that share a stem count as one. With d_u the deviations of units from the mean of their group,
    σ² = Σ (d_u² − se_u²) / Σ (units − 1), pooled over groups, is added to the variance of D for each of its terms, with
    no more degrees of freedom than the sum has. What invented groups differ by is added likewise.
    """
    for plan, each in _estimated(found, scales, settings, repetition or Repetition(), n_outcomes):
        yield from _rows_of(plan, each)


def disparity_gaps(
    found: OutcomeAnalysis,
    *,
    scales: Mapping[str, tuple[float, float]],  # the two ends of each variant's scale; infinite without a scale
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
) -> Iterator[DecidedGap]:
    """Yield the disparity of each group of each dimension and variant, in the view that decides, as a gap."""
    yield from _deciding(_estimated(found, scales, settings, repetition or Repetition(), 1))


def disparity_rows_and_gaps(
    found: OutcomeAnalysis,
    *,
    scales: Mapping[str, tuple[float, float]],
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
    n_outcomes: int = 1,  # outcomes that are looked at together, such as the measures of replies
) -> tuple[list[dict[str, Any]], list[DecidedGap]]:
    """Return both :func:`disparity_rows` and :func:`disparity_gaps`, estimated once."""
    made = list(_estimated(found, scales, settings, repetition or Repetition(), n_outcomes))
    return [row for plan, each in made for row in _rows_of(plan, each)], list(_deciding(made))


def refusal_rows_and_gaps(
    found: OutcomeAnalysis,  # of ratings
    *,
    settings: AnalysisSettings,
    repetition: Repetition | None = None,
    even_without: bool = False,  # also where no prompt was refused; else there is neither a row nor a gap
) -> tuple[list[dict[str, Any]], list[DecidedGap]]:
    """Return rows and gaps of how much more often each group is refused than the others, in percentage points.

    The disparity of 100 for a refusal and 0 for any other answer. A prompt that failed says nothing about what the
    model would have done, and is missing.
    """
    told = repetition or Repetition()
    status = found.prompts["status"].astype(str)
    if not ((status == Status.REFUSED).any() or even_without):
        return [], []
    answered = status != Status.FAILED
    prompts = compact_ratings(
        found.prompts.assign(
            status=status.mask(answered, Status.RATED.value),
            intensity=(100.0 * (status == Status.REFUSED)).where(answered),
            mode=np.nan,
            number_mass=np.nan,
            pruned_points=np.nan,
        )
    )
    of_place = {(dimension, variant): own for dimension, variant, own in split_ratings(prompts)}
    parts = []
    for part in found.parts:
        place = part.cube.dimension, part.cube.variant
        cube = told.cube_of(of_place[place], dimension=place[0], variant=place[1], baselines=True)
        parts.append(replace(part, outcome=REFUSED, cube=cube, prompts=of_place[place]))
    assert REFUSED.scale is not None
    return disparity_rows_and_gaps(
        replace(found, parts=tuple(parts), prompts=prompts),
        scales={part.cube.variant: REFUSED.scale for part in parts},
        settings=settings.model_copy(update={"margin": None, "missing_shift": None}),  # these are in points
        repetition=told,
    )


def _deciding(estimated: Iterable[tuple[DisparityPlan, ViewEstimates]]) -> Iterator[DecidedGap]:
    made: dict[tuple[str, str], dict[str, tuple[DisparityPlan, ViewEstimates]]] = {}
    for plan, each in estimated:
        if each.view.side == "experiencer" and not plan.invented:
            made.setdefault((plan.cube.dimension, plan.cube.variant), {})[each.view.name] = plan, each
    for views in made.values():
        name = deciding_view(views)
        if name:
            yield from group_gaps(*views[name])


def _estimated(
    found: OutcomeAnalysis,
    scales: Mapping[str, tuple[float, float]],
    settings: AnalysisSettings,
    told: Repetition,
    n_outcomes: int,
) -> Iterator[tuple[DisparityPlan, ViewEstimates]]:
    """Yield all views, each with its plan: of dimensions and variants, then of sets of invented groups."""
    if not found.parts:
        return
    first = found.parts[0]

    def plan_of(cube: NarrativeCube, prompts: pd.DataFrame, **known: Any) -> DisparityPlan:
        return DisparityPlan(
            first.outcome, cube, prompts, told.stems.get(cube.dimension, {}), scales[cube.variant], settings,
            first.dependent, n_outcomes, cues=told.cues.get(cube.dimension, {}), **known,
        )  # fmt: skip

    by_variant: defaultdict[str, list[ViewEstimates]] = defaultdict(list)
    invented: list[tuple[DisparityPlan, list[ViewEstimates]]] = []
    for dimension, variant, own in split_ratings(found.prompts):
        if dimension in told.placebo:
            plan = plan_of(told.cube_of(own, dimension=dimension, variant=variant, baselines=True), own, invented=True)
            made = list(plan.estimated({}))
            by_variant[variant] += made
            invented.append((plan, made))
    labels = {variant: spread_of_labels(made) for variant, made in by_variant.items()}
    for part in found.parts:
        plan = plan_of(part.cube, part.prompts, conversations=part.conversations)
        of_part = list(plan.estimated(labels.get(part.cube.variant, {})))
        of_groups = {each.view.name: each for each in of_part if each.view.side == "experiencer"}
        apart = tuple(of_groups[name] for name in APART_VIEWS if name in of_groups)
        for each in of_part:
            yield plan, replace(each, others=apart) if each is of_groups.get("all") else each
    for plan, made in invented:
        for each in made:
            yield plan, each


def _rows_of(plan: DisparityPlan, estimated: ViewEstimates) -> Iterator[dict[str, Any]]:
    """Yield the rows of one view: its groups in every scope, their terms, and the test of all groups."""
    view, cube = estimated.view, plan.cube
    known: dict[str, Any] = plan.outcome.named(
        dict.fromkeys(DISPARITY, _NAN)
        | {"dimension": cube.dimension, "variant": cube.variant, "side": view.side, "view": view.name,
           "member": "", "group": "", "invented": plan.invented, "scope": NARRATIVES, "headline": False,
           "estimator": "", "method": "Holm", "family_size": 0, "n_narratives": 0, "n_answers": 0, "n_pairs": 0,
           "n_labels": 0, "extreme": "", "code": "", "claim": "", "size": "", "limits": "", "note": ""}
    )  # fmt: skip
    belongs = view.members > 0
    own = _own_of_narratives(view, belongs, view.contrasts)
    spreads = [_sd_of_terms(view, estimated.terms, name) for name in view.groups]
    margin = plan.settings.margin if plan.outcome.rated and plan.settings.margin is not None else _NAN
    decided = decide(plan, estimated) if view.side == "experiencer" and not plan.invented else {}
    scopes = dict.fromkeys(scope for each in estimated.groups for scope in each.scopes) or {NARRATIVES: None}
    for scope in scopes:
        adjusted, size = plan.adjusted_in(scope, estimated.groups)
        for place, (each, p_adjusted) in enumerate(zip(estimated.groups, adjusted.tolist(), strict=True)):
            answer = decided.get(each.group)
            row = known | {
                "level": "group", "member": each.group, "group": each.group, "scope": scope,
                "n_terms": int(belongs[place].sum()), "term_sd": spreads[place],
                "p_adjusted": p_adjusted, "family_size": size,
            }  # fmt: skip
            row |= _numbers(each.member, each.scopes.get(scope), plan)
            row |= _shares(own[place])
            row |= _worst_of(each, scope, plan.confidence) | _without_extreme(each, scope)
            if not isinstance(estimated.labels, NotEstimableError):
                found = estimated.labels
                row |= {"labels_sd": found.sd, "labels_largest": found.largest, "n_labels": found.n}
            if answer is not None and scope == answer.scope:
                row |= asdict(answer) | {"headline": True, "limits": "; ".join(answer.limits), "margin": margin}
            yield row
    terms = [column for column, group in enumerate(view.of_columns) if group != view.against]
    own = _own_of_narratives(view, np.eye(len(view.of_columns), dtype=bool), term_contrasts(view))
    adjusted, size = plan.adjusted([_NAN if each.estimate is None else each.estimate.p for each in estimated.terms])
    for column, member, shares, p_adjusted in zip(terms, estimated.terms, own, adjusted.tolist(), strict=True):
        row = known | {
            "level": "term", "member": view.terms[column], "group": view.of_columns[column], "n_terms": 1,
            "p_adjusted": p_adjusted, "family_size": size,
        }  # fmt: skip
        yield row | _numbers(member, member.estimate, plan) | _shares(shares)
    yield from _rows_by_cue(plan, estimated, known)
    if not view.against:
        yield known | {"level": "all", "n_terms": len(terms)} | _of_all(plan, estimated, spreads)


def _rows_by_cue(plan: DisparityPlan, estimated: ViewEstimates, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of groups told by one cue, corrected for groups and cues together."""
    made = [member.estimate for _, member in estimated.cues]
    adjusted, size = plan.adjusted([_NAN if each is None else each.p for each in made])
    for (of, member), p_adjusted in zip(estimated.cues, adjusted.tolist(), strict=True):
        row = known | {
            "level": "cue", "member": of.cue, "group": of.group, "n_terms": of.n_terms,
            "p_adjusted": p_adjusted, "family_size": size,
        }  # fmt: skip
        yield row | _numbers(member, member.estimate, plan)


def _numbers(
    member: FamilyMember, estimate: GapEstimate | NotEstimableError | None, plan: DisparityPlan
) -> dict[str, Any]:
    """Return the columns of an estimate; an error is a note."""
    row = {"estimator": member.estimator, "n_pairs": member.n_pairs, "note": member.note}
    if not isinstance(estimate, GapEstimate):
        return row | {"note": str(estimate or member.note)}
    eq_low, eq_high, _ = t_interval(estimate.delta, estimate.se, estimate.df, confidence=2 * plan.confidence - 1)
    length = abs(plan.scale[1] - plan.scale[0])
    return row | {name: getattr(estimate, name) for name in _NUMBERS} | {
        "disparity": estimate.delta, "eq_low": eq_low, "eq_high": eq_high,
        "percent_of_scale": 100 * estimate.delta / length if np.isfinite(length) else _NAN,
        "note": member.note or estimate.not_estimable,
    }  # fmt: skip


def _shares(own: FloatArray) -> dict[str, float]:
    """Return the shares of narratives in which it is rated lower and higher."""
    known = own[~np.isnan(own)]
    if not known.size:
        return {}
    return {"share_lower": float((known < 0).mean()), "share_higher": float((known > 0).mean())}


def _worst_of(each: GroupDisparity, scope: str, confidence: float) -> dict[str, float]:
    """Return the intervals with missing ratings at their worst, and what inexact ratings leave possible."""
    estimate = each.scopes.get(scope)
    if not isinstance(estimate, GapEstimate):
        return {}
    row: dict[str, float] = {}
    if not math.isnan(each.off):
        row |= {"bound_low": estimate.delta - each.off, "bound_high": estimate.delta + each.off}
    ends = each.at_worst(scope, confidence)
    if ends is None:
        return row
    for name, level in (("worst", confidence), ("worst_eq", 2 * confidence - 1)):
        least, most = (t_interval(one.delta, one.se, one.df, confidence=level) for one in ends)
        row |= {f"{name}_low": least[0], f"{name}_high": most[1]}
    return row


def _without_extreme(each: GroupDisparity, scope: str) -> dict[str, Any]:
    made = each.without_extreme.get(scope)
    if not isinstance(made, GapEstimate):
        return {}
    return {"extreme": "; ".join(each.extreme), "without_extreme": made.delta, "without_low": made.ci_low,
            "without_high": made.ci_high}  # fmt: skip


def _sd_of_terms(view: RatedView, terms: Sequence[FamilyMember], group: str) -> float:
    """Return the standard deviation (n − 1) of a group's terms; NaN with one term."""
    of = [own for own in view.of_columns if own != view.against]
    own = [member.estimate for member, each in zip(terms, of, strict=True) if each == group]
    known = [each.delta for each in own if each is not None]
    return float(np.std(known, ddof=1)) if len(known) == len(own) > 1 else _NAN


def _of_all(plan: DisparityPlan, estimated: ViewEstimates, spreads: Sequence[float]) -> dict[str, Any]:
    """Test all groups of a view at once."""
    view = estimated.view
    row: dict[str, Any] = {}
    sizes = (view.members > 0).sum(axis=1) - 1
    if sizes.sum() and not np.isnan([sd for sd, n in zip(spreads, sizes, strict=True) if n]).any():
        pooled = float((sizes * np.nan_to_num(spreads) ** 2).sum() / sizes.sum()) ** 0.5
        row["term_sd"] = pooled
    if not isinstance(estimated.labels, NotEstimableError):
        found = estimated.labels
        row |= {"labels_sd": found.sd, "labels_largest": found.largest, "n_labels": found.n}
    if plan.outcome.covariates is not None:
        return row | {"note": "there is no test of all groups at once for replies that are not matched"}
    narrow = {each.group: each.narrow for each in estimated.groups}
    known = {name: each for name, each in narrow.items() if each is not None}
    if len(known) < len(narrow):
        return row | {"note": "the ratings do not determine the disparity of every group"}
    own = np.stack([each.by_narrative for each in known.values()])
    own = own[:, ~np.isnan(own).any(axis=0)]
    counts = {"n_narratives": own.shape[1], "n_answers": next(iter(known.values())).n_answers}
    if own.shape[1] <= len(known):
        return row | counts | {"note": "a test of all groups at once takes more narratives than groups"}
    if float(np.ptp(own, axis=1).max()) <= _DUST * float(np.abs(own).max()):
        return row | counts | {"note": "all narratives have the same disparities: there is nothing to test by"}
    tested = hotelling(own)
    return row | counts | {name: value for name, value in tested.items() if name != "n_members"}


def _own_of_narratives(view: RatedView, belongs: BoolArray, contrasts: FloatArray) -> FloatArray:
    """Return contrasts of each narrative by its own ratings, shape (M, N); NaN where they do not determine it.

    ``belongs``, shape (K, C), marks the columns of each of K parts, groups or terms, ``contrasts``, shape (M, K), weigh
    these: least squares on the part within the narrative, next to a level for each row.
    """
    y = view.y
    columns = np.repeat(belongs.astype(np.float64)[:, None], y.shape[1], axis=1)
    sums = Swept.of(y, columns, np.repeat(view.row_weights[:, None], y.shape[2], axis=1))
    inverse, _ = pseudo_inverse(sums.columns_columns)
    means = (inverse @ sums.columns_y[:, :, None])[:, :, 0]
    told = np.abs(contrasts @ inverse @ sums.columns_columns - contrasts).max(axis=2) < 1e-6
    own = np.where(told, means @ contrasts.T, np.nan).T
    own[np.abs(own) <= _DUST * max(1.0, float(np.nanmax(np.abs(y), initial=0.0)))] = 0.0
    return own
