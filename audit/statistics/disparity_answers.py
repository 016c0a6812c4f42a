"""What the disparities of a view show about each group, and what keeps them from it.

To accuse is as hard as to acquit: what is shown must hold wherever missing ratings lie, and not at an end of the scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.bounded_mean import bounded_mean
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
)
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.remarks import FEW_NARRATIVES, are_many_missing
from audit.statistics.scale_ends import END_SHARE, shares_at_ends
from audit.statistics.status_counts import END_TOLERANCE
from audit.statistics.verdict import VOID, Limits

_NAN: Final = float("nan")
_NOT_OF_DISPARITY: Final = frozenset({"noise_floor"})
"""Remarks without which δ has no verdict, but which say nothing about a disparity."""


@dataclass(frozen=True)
class GroupAnswer:
    """What the data decide about one group."""

    scope: str
    code: str
    claim: str
    limits: tuple[str, ...]
    supported_margin: float


def decide(plan: DisparityPlan, estimated: ViewEstimates) -> dict[str, GroupAnswer]:
    """Decide about each group of a view."""
    back = tuple(_held_back(plan, estimated.view))
    adjusted = {scope: plan.adjusted_in(scope, estimated.groups)[0] for scope in (NARRATIVES, TERMS, LABELS)}
    return {
        each.group: _answer(plan, estimated, each, {scope: float(p[place]) for scope, p in adjusted.items()}, back)
        for place, each in enumerate(estimated.groups)
    }


def _answer(
    plan: DisparityPlan,
    estimated: ViewEstimates,
    each: GroupDisparity,
    p_adjusted: Mapping[str, float],
    back: tuple[str, ...],
) -> GroupAnswer:
    alpha, narrow = plan.settings.alpha, each.narrow
    scope = next((name for name in (TERMS, LABELS) if isinstance(each.scopes.get(name), GapEstimate)), NARRATIVES)
    made = each.scopes.get(scope)
    if narrow is None or not isinstance(made, GapEstimate) or not made.se > 0:
        return GroupAnswer(scope, "no_estimate", "", back, _NAN)
    if narrow.n_narratives < FEW_NARRATIVES:
        back = ("few_narratives", *back)
    margin = _supported(plan, each, scope, back)
    said: list[str] = []
    if scope == NARRATIVES:
        within = estimated.within
        said.append(within.code if isinstance(within, OneWord) else "one_term")
    wider = "terms_differ" if scope == TERMS else "invented_as_large"
    shown, sign = p_adjusted[scope] <= alpha, made.delta
    if shown:
        against = list(_speaks_against(plan, each, scope, sign))
        worded = each.scopes.get(WORDINGS)
        if worded is not None and not _leaves_out_zero(worded, sign):
            said.append("these_wordings")
        if back or against:
            return GroupAnswer(scope, "undecided", "", (*back, *against, *said), margin)
        if len(estimated.groups) == 2 and not estimated.view.against:
            said.append("two_groups")
        rest = each.without_extreme.get(scope)
        if isinstance(rest, GapEstimate) and not _leaves_out_zero(rest, sign):
            return GroupAnswer(scope, "not_shown", "", ("bystander", *said), margin)
        code, claim = "lower" if sign < 0 else "higher", "words" if scope == NARRATIVES else "group"
        return GroupAnswer(scope, code, claim, tuple(said), margin)
    if made.p <= alpha:
        said.append("not_corrected")
    elif p_adjusted[NARRATIVES] <= alpha:
        said.append(wider)
    return GroupAnswer(scope, "undecided" if back else "not_shown", "", (*back, *said), margin)


def _held_back(plan: DisparityPlan, view: RatedView) -> Iterator[str]:
    """Yield the codes of what keeps every group of a view from being judged."""
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


def _speaks_against(plan: DisparityPlan, each: GroupDisparity, scope: str, sign: float) -> Iterator[str]:
    """Yield what a disparity that is shown cannot answer."""
    made = each.scopes[scope]
    assert isinstance(made, GapEstimate)
    if each.worst is not None:
        ends = each.at_worst(scope, plan.confidence)
        if ends is None or not all(_leaves_out_zero(one, sign) for one in ends):
            yield "missing"
    if each.off > 0 and not (made.ci_low if sign > 0 else -made.ci_high) > each.off:
        yield "bounded"
    labels = each.scopes.get(LABELS)
    if scope == TERMS and isinstance(labels, GapEstimate) and not _leaves_out_zero(labels, sign):
        yield "invented_as_large"


def _leaves_out_zero(made: GapEstimate | NotEstimableError, sign: float) -> bool:
    if isinstance(made, NotEstimableError):
        return False
    return made.ci_low > 0 if sign > 0 else made.ci_high < 0


def _supported(plan: DisparityPlan, each: GroupDisparity, scope: str, back: tuple[str, ...]) -> float:
    """Return the smallest margin that a disparity is shown to lie within; NaN if nothing is ruled out.

    It includes narratives with a large one that were not drawn, as the margin of an average gap does.
    """
    made, narrow = each.scopes[scope], each.narrow
    length = abs(plan.scale[1] - plan.scale[0])
    if back or not isinstance(made, GapEstimate) or narrow is None or not np.isfinite(length):
        return _NAN
    worst = each.at_worst(scope, plan.confidence)
    if worst is None:
        return _NAN
    off = float(np.nan_to_num(each.off))
    reach = []
    for one in (made, *worst):
        low, high, _ = t_interval(one.delta, one.se, one.df, confidence=2 * plan.confidence - 1)
        reach += [abs(low) + off, abs(high) + off]
    for one in (narrow, *(each.worst if isinstance(each.worst, tuple) else ())):
        rare = bounded_mean(one.by_narrative, reach=length, alpha=plan.settings.alpha)
        reach += [abs(rare[0]) + off, abs(rare[1]) + off]
    return min(max(reach), length)


def with_limits(disparity: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Withdraw the answers that a run cannot carry; ``limits`` are those of its verdicts on δ.

    ``disparity`` has the columns of ``DISPARITY``; what allows no verdict on δ allows none here, but for remarks on δ
    itself.
    """
    codes, added = disparity["code"].tolist(), disparity["limits"].tolist()
    claims, margins = disparity["claim"].tolist(), disparity["supported_margin"].tolist()
    keys = ("headline", "dimension", "variant", "outcome")
    for place, (headline, *own) in enumerate(zip(*(disparity[name] for name in keys), strict=True)):
        if not headline:
            continue
        known = limits.of(tuple(own[:2])) | limits.of(tuple(own))
        void = [code for code in VOID if code in known and code not in _NOT_OF_DISPARITY]
        if void:
            codes[place], claims[place], margins[place] = "no_verdict", "", _NAN
            added[place] = "; ".join([*void, *filter(None, str(added[place]).split("; "))])
    return disparity.assign(code=codes, claim=claims, limits=added, supported_margin=margins)
