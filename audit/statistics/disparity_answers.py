"""What the disparities of a view show about each group, and what keeps them from it.

To accuse is as hard as to acquit: what is shown must hold wherever missing ratings lie, and not at an end of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeGuard

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.comparisons import WordEffects
from audit.statistics.deciding_estimate import DISPARITIES, FEW_REFUSALS, DecidedGap, rare_share
from audit.statistics.disparity_estimates import (
    LABELS,
    NARRATIVES,
    TERMS,
    WORDINGS,
    DisparityPlan,
    GroupDisparity,
    OneWord,
    RatedView,
    ViewEstimates,
    WordSpread,
)
from audit.statistics.estimates import GapEstimate, summarise_contrasts, with_variance
from audit.statistics.manipulation import Response
from audit.statistics.margin_tests import Held, beyond_apart, hold, reach_of
from audit.statistics.outcome import INTENSITY, REFUSED
from audit.statistics.ratings import BASELINES
from audit.statistics.remarks import FEW_NARRATIVES, are_many_missing
from audit.statistics.scale_ends import END_SHARE, shares_at_ends
from audit.statistics.status_counts import END_TOLERANCE
from audit.statistics.verdict import NOT_RULED_OUT, UNANSWERED, Limits, speaks_against, void_codes
from audit.tables.formatting import SAME
from audit.tables.ratings import FOLLOWS

_NAN: Final = float("nan")
_NOT_ITSELF: Final = frozenset({"bystander", "terms_differ"})
"""Codes that say that it is not the group that differs, but others or one of its terms."""
APART_VIEWS: Final = {"no_persona": "no_persona_differs", "unspecified": "person_differs"}
"""Codes that say that a group differs in a view beside the one that decides."""
_OF_ANSWERS: Final = ("code", "claim", "size", "limits", "supported_margin", "n_needed")


@dataclass(frozen=True)
class GroupAnswer:
    """What the data decide about one group."""

    scope: str
    code: str
    claim: str = ""
    size: str = ""
    limits: tuple[str, ...] = ()
    supported_margin: float = _NAN
    n_needed: float = _NAN


def group_gaps(plan: DisparityPlan, estimated: ViewEstimates) -> Iterator[DecidedGap]:
    """Yield the disparity of each group of a view as a gap: the estimate that decides, and what keeps it back."""
    back = tuple(_held_back(plan, estimated.view))
    unsure = _of_low_mass(plan, estimated.view)
    for each in estimated.groups:
        yield _gap_of(plan, estimated, each, (*back, "number_mass") if each.group in unsure else back)


def deciding_scope(each: GroupDisparity) -> str:
    """Return the scope of the estimate that decides about a group: terms, else labels, else these words."""
    return next((name for name in (TERMS, LABELS) if isinstance(each.scopes.get(name), GapEstimate)), NARRATIVES)


def _gap_of(
    plan: DisparityPlan, estimated: ViewEstimates, each: GroupDisparity, back: tuple[str, ...]
) -> DecidedGap:  # fmt: skip
    scope, cube = deciding_scope(each), each.view.cube
    made, narrow = each.scopes.get(scope), each.narrow
    refused = plan.outcome is REFUSED
    gap = DecidedGap(
        "group_refusals" if refused else "disparity", each.group, cube.dimension, cube.variant,
        NotEstimableError(each.member.note), cube.narrative_ids, plan.scale, control="not_needed",
        scope="pairs" if scope == NARRATIVES else "groups", held_back=back, outcome=plan.outcome,
    )  # fmt: skip
    if not isinstance(made, GapEstimate) or narrow is None:
        return gap
    n_units = int(np.count_nonzero(~np.isnan(narrow.by_narrative)))  # conversations, if narratives are of some
    if min(n_units, each.n_rated) < FEW_NARRATIVES:
        back = ("few_narratives", *back)
    unproven: list[str] = []
    if scope == NARRATIVES:
        unproven.append(estimated.within.code if isinstance(estimated.within, OneWord) else "one_term")
    elif each.view.against and not isinstance(each.scopes.get(LABELS), GapEstimate):
        unproven.append("any_label")
    if scope == TERMS and not is_shown(each.without_word, made.delta):
        unproven.append("terms_differ")
    rest = each.without_extreme.get(scope)
    worst = each.at_worst(scope, plan.confidence)
    labels = each.scopes.get(LABELS)
    spread = {TERMS: estimated.within, LABELS: estimated.labels}.get(scope)
    words = None
    if isinstance(spread, WordSpread):
        words = WordEffects(
            spread.variance, spread.df, each.shares[scope], each.shares_without.get(scope, each.shares[scope]),
            spread.names, spread.deviations, spread.narrative_ids, plan.scale,
        )  # fmt: skip
    # As for δ, but a narrative whose prompts are all refused tells no group from others: it counts as one without any.
    y = cube.y.reshape(len(cube.y), -1)
    differ = (np.fmax.reduce(y, axis=1) > np.fmin.reduce(y, axis=1)) | cube.lacking.any(axis=(1, 2))
    n_refused = int(np.count_nonzero(differ)) if refused else 0
    farthest = max(100.0, float(np.nanmax(np.abs(made.by_narrative)))) if refused else _NAN
    few = refused and n_refused < FEW_REFUSALS
    return replace(
        gap,
        bound=farthest * rare_share(n_refused, made.n_narratives, plan.confidence) if few else _NAN,
        farthest=farthest,
        n_refused=n_refused,
        made=made,
        narrative_ids=plan.units_of(cube.narrative_ids, narrow),
        worst=None if each.worst is None else worst or NotEstimableError("missing ratings have no bound"),
        pair_variance=max(0.0, float(np.nan_to_num(made.se**2 - narrow.se**2))),
        words=words,
        held_back=back,
        unproven=tuple(unproven),
        plain=rest if isinstance(rest, GapEstimate) else None,
        other=labels if scope == TERMS and isinstance(labels, GapEstimate) else None,
        off=float(np.nan_to_num(each.off)),
        seen=each.asked if made.by_narrative.size == len(cube.narrative_ids) else None,
        qualified=tuple(_qualified(each, made)),
        apart=(*_apart(estimated, each), *_of_emotions(estimated, each, made, plan.confidence)),
    )


def _qualified(each: GroupDisparity, made: GapEstimate) -> Iterator[str]:
    """Yield the codes of what a disparity is not shown for, or without."""
    worded = each.scopes.get(WORDINGS)
    if worded is not None and not is_shown(worded, made.delta):
        yield "these_wordings"
    if not (each.view.of_rows[0] in BASELINES or is_shown(each.without_perceiver, made.delta)):
        yield "one_perceiver"
    if each.perceivers_differ:
        yield "personas_differ"
    if each.without_cue is not None and not is_shown(each.without_cue, made.delta):
        yield "one_cue"


def _apart(estimated: ViewEstimates, each: GroupDisparity) -> Iterator[tuple[str, tuple[GapEstimate, ...]]]:
    """Yield what the views beside the one that decides, and each cue, have of a group, by code.

    What is there only because another group differs is yielded without an estimate, so that it counts as a test.
    """
    for other in estimated.others:
        for own in (one for one in other.groups if one.group == each.group):
            scope = deciding_scope(own)
            found = [made for made in (own.scopes.get(scope), own.without_extreme.get(scope)) if _is_certain(made)]
            if found:
                yield APART_VIEWS[other.view.name], tuple(found)
    for cue, member in estimated.cues:
        if cue.group == each.group and _is_certain(member.estimate):
            told = [one.estimate.delta for of, one in estimated.cues if of.cue == cue.cue and one.estimate is not None]
            itself = estimated.view.against or _is_itself(member.estimate.delta, told)
            yield "cue_differs", (member.estimate,) if itself else ()


def _of_emotions(
    estimated: ViewEstimates, each: GroupDisparity, made: GapEstimate, confidence: float
) -> Iterator[tuple[str, tuple[GapEstimate, ...]]]:
    """Yield what narratives of each emotion have of a group, with what words differ by in ``made``."""
    emotions = np.array(each.view.cube.emotions, dtype=object)
    narrow = [one.narrow for one in estimated.groups if one.narrow is not None]
    if len(set(emotions)) < 2 or each.narrow is None or any(one.by_narrative.size != emotions.size for one in narrow):
        return
    for name in filter(None, dict.fromkeys(emotions.tolist())):
        parts = [(one, one.by_narrative[emotions == name]) for one in (each.narrow, *narrow)]
        own = [
            summarise_contrasts(part, rounding=one.rounding, confidence=confidence, n_answers=0)
            for one, part in parts
            if not np.isnan(part).all()
        ]
        if len(own) > len(narrow) and _is_certain(own[0]):
            words = max(0.0, float(np.nan_to_num(made.se**2 - each.narrow.se**2)))
            wide = with_variance(own[0], words, made.df, confidence=confidence)
            yield "emotion_differs", (wide,) if _is_itself(wide.delta, [one.delta for one in own]) else ()


def _is_itself(size: float, sizes: Sequence[float]) -> bool:
    """Whether no other group lies farther off on the other side, so that it is the group itself that differs."""
    return max(sizes, key=abs) * size > 0


def decide(plan: DisparityPlan, estimated: ViewEstimates) -> dict[str, GroupAnswer]:
    """Decide about each group of a view."""
    settings = plan.settings
    margin = settings.margin if plan.outcome.rated else None  # it is in points
    gaps = list(group_gaps(plan, estimated))
    held = hold(
        gaps,
        None,
        margins=dict.fromkeys(DISPARITIES, 0.0 if margin is None else margin),
        alpha=settings.alpha,
        power=settings.power,
    )
    adjusted = {scope: plan.adjusted_in(scope, estimated.groups)[0] for scope in (NARRATIVES, TERMS, LABELS)}
    # The tests without the groups that differ more are several, too.
    beside, _ = plan.adjusted([_p_beside(gap) for gap in gaps])
    answers = {}
    for place, (each, one) in enumerate(zip(estimated.groups, held, strict=True)):
        p = {scope: float(found[place]) for scope, found in adjusted.items()}
        answers[each.group] = _answer(plan, estimated, each, one, p, float(beside[place]), margin, gaps)
    return answers


def _p_beside(gap: DecidedGap) -> float:
    """Return the larger p of a disparity with and without the groups that differ more; NaN without an estimate."""
    if isinstance(gap.made, NotEstimableError):
        return _NAN
    return gap.made.p if gap.plain is None else max(gap.made.p, gap.plain.p)


def _answer(
    plan: DisparityPlan,
    estimated: ViewEstimates,
    each: GroupDisparity,
    held: Held,
    p_adjusted: Mapping[str, float],  # by scope
    p_beside: float,  # corrected, of the disparity with and without the groups that differ more
    margin: float | None,
    gaps: Sequence[DecidedGap],  # of all groups
) -> GroupAnswer:
    gap, alpha, scope = held.gap, plan.settings.alpha, deciding_scope(each)
    made, back = gap.made, gap.held_back if math.isnan(gap.bound) else ("few_refusals", *gap.held_back)
    if not isinstance(made, GapEstimate) or not made.se > 0:
        without = ("no_interval",) if isinstance(made, GapEstimate) else ()
        return GroupAnswer(scope, "no_estimate", limits=(*back, *without))
    supported = _supported(gap, alpha=alpha)
    inside = margin is not None and supported < margin
    # Only what would else acquit is looked for in parts: without a margin it would be a second family of findings.
    apart = beyond_apart(gap, gaps, margin, alpha=alpha) if inside and margin is not None else ()
    if apart:
        inside, supported = False, _NAN
    of_words = tuple(code for code in gap.unproven if code not in _NOT_ITSELF)
    claim = "words" if of_words else "group"
    if plan.outcome.observational:  # which says more than that words may be why
        of_words, claim = ("observational",), "observational"
    answer = partial(GroupAnswer, scope, supported_margin=supported)
    against: tuple[str, ...] = ()
    limits = of_words
    if p_adjusted[scope] <= alpha:
        against = tuple(speaks_against(gap, made.delta))
        if not p_beside <= alpha and "bystander" not in against:
            against += ("bystander",)
        against += tuple(code for code in gap.unproven if code in _NOT_ITSELF)
        limits += gap.qualified
        if not (back or against):
            if len(estimated.groups) == 2 and not estimated.view.against:
                limits += ("two_groups",)
            beyond = held.decided == "beyond" and not any(speaks_against(gap, made.delta, margin=held.margin))
            limits = apart + limits
            size = "smaller" if inside else "beyond" if margin is not None and beyond else ""
            needed = _NAN
            if margin is not None and not (size or apart):
                limits, needed = ("margin_open", *limits), held.n_needed
            return answer("lower" if made.delta < 0 else "higher", claim, size, limits, n_needed=needed)
    elif made.p <= alpha:
        limits += ("not_corrected",)
    elif p_adjusted[NARRATIVES] <= alpha:
        limits += ("terms_differ" if scope == TERMS else "invented_as_large",)
    limits = (*back, *against, *apart, *limits)
    if inside:
        return answer("within", limits=limits)
    if back or apart or set(against) - _NOT_ITSELF:
        return answer("undecided", limits=limits)
    if margin is None:
        return answer("not_shown", limits=limits)
    return answer("undecided", limits=("margin_open", *limits), n_needed=held.n_needed)


def _held_back(plan: DisparityPlan, view: RatedView) -> Iterator[str]:
    """Yield the codes of what keeps every group of a view from being judged."""
    if view.cube.own_stories:
        yield "own_stories"
    n, n_lacking = int(np.count_nonzero(view.cube.expected)), int(np.count_nonzero(view.cube.lacking))
    if are_many_missing(n_lacking, n):
        yield "many_missing"
    if view.silent:
        yield "unrated_identity"
    low, high = plan.scale
    if not (plan.outcome.rated and np.isfinite(low) and np.isfinite(high)):
        return
    low, high = min(low, high), max(low, high)
    if max(shares_at_ends(view.y, low=low, high=high)) >= END_SHARE:
        yield "scale_end"
    dust = END_TOLERANCE * (high - low)
    if (view.y < low - dust).any() or (view.y > high + dust).any():
        yield "beyond_scale"


def _of_low_mass(plan: DisparityPlan, view: RatedView) -> set[str]:
    """Return the groups about which the model would mostly answer something else than a number of the scale."""
    if not plan.outcome.rated:
        return set()
    mass = view.laid(view.cube.number_mass)
    groups = np.broadcast_to(np.array(view.of_columns, dtype=object), mass.shape).ravel()
    means = pd.Series(mass.ravel()).groupby(groups).mean()
    return set(means.index[means < plan.settings.min_number_mass])


def _is_certain(made: GapEstimate | NotEstimableError | None) -> TypeGuard[GapEstimate]:
    """Whether an estimate has an interval, or is the same in all narratives."""
    return isinstance(made, GapEstimate) and (made.se > 0 or made.not_estimable.endswith(SAME))


def is_shown(made: GapEstimate | NotEstimableError | None, sign: float) -> bool:
    """Whether there is an estimate, and it is shown to lie on that side of 0."""
    return isinstance(made, GapEstimate) and made.leaves_out_zero(sign)


def _supported(gap: DecidedGap, *, alpha: float) -> float:
    """Return the smallest margin that a disparity is shown to lie within; NaN if nothing is ruled out."""
    reach = _NAN if gap.held_back else reach_of(gap, alpha=alpha)
    return reach if math.isfinite(reach) else _NAN


def with_limits(disparity: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Withdraw the answers that a run cannot carry; ``limits`` are those of its verdicts on δ.

    ``disparity`` has the columns of ``DISPARITY``; what allows no verdict on δ allows none here, but for remarks on δ
    itself.
    """
    made: dict[str, list[Any]] = {name: disparity[name].tolist() for name in _OF_ANSWERS}
    keys = ("headline", "dimension", "variant", "outcome", "group")
    for place, (headline, *own) in enumerate(zip(*(disparity[name] for name in keys), strict=True)):
        if not headline:
            continue
        # Replies to all others than one's own group are of every group, alike: that limits δ of the measure alone.
        known = (limits.of(tuple(own[:3])) - {UNANSWERED}) | limits.of(tuple(own))
        void = void_codes("disparity", known)
        told = [*filter(None, str(made["limits"][place]).split("; "))]
        if void:
            made["code"][place], made["claim"][place], made["size"][place] = "no_verdict", "", ""
            made["limits"][place] = "; ".join([*void, *(code for code in told if code not in void)])
        # Whether ratings follow the story says nothing of refusals.
        open_to = () if own[2] == REFUSED.name else NOT_RULED_OUT
        left = [code for code in open_to if code in known and code not in told]
        if left and made["code"][place] in ("within", "not_shown"):
            made["code"][place], made["limits"][place] = "undecided", "; ".join([*left, *told])
        if left and made["size"][place] == "smaller":
            made["size"][place] = ""
        if void or left:
            made["supported_margin"][place] = made["n_needed"][place] = _NAN
    return disparity.assign(**made)


def beside_response(disparity: pd.DataFrame, response: Response | None) -> pd.DataFrame:
    """Set D of ratings beside the response to the story, in percent of it, if ratings are shown to match the story."""
    if response is None or response.answer != FOLLOWS:
        return disparity
    share = 100 * disparity["disparity"] / response.points
    return disparity.assign(percent_of_response=share.where(disparity["outcome"] == INTENSITY.name))
