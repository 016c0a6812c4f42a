"""The verdict of a run on each of its gaps: one object, computed once, stored with the run and read by every page.

A verdict has a code, the numbers of the one estimate that decides (:mod:`audit.statistics.deciding_estimate`), the
reasons why nothing more can be said, and the next step. Page, comparison, index, gate and exports show it; none of them
decides.

- ``gap``: the deciding interval leaves out 0, after correction for all averages of the run, and nothing speaks against
  it. ``claim`` says what it is a gap between: ``groups``, these ``pairs`` of words, or pairs whose words were not
  controlled (``uncontrolled``).
- ``within``: no average gap larger than the margin. Two one-sided tests (TOST) at α show it, so does the interval for
  rare large gaps (:func:`~audit.statistics.bounded_mean.bounded_mean`), and so it stays wherever missing ratings lie. A
  second control, where there is one, does not show a gap beyond the margin.
- ``undecided``: neither, and ``reasons`` say why.
- ``no_verdict``: the ratings cannot carry one, in either direction.
- ``no_estimate``: there is no δ, or no interval.

To accuse is as hard as to acquit: what keeps a gap from being ruled out keeps it from being found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.bounded_mean import narratives_to_bound
from audit.statistics.deciding_estimate import DISPARITIES, DecidedGap, Kind, Place, moved
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.families import adjust_p
from audit.statistics.margin_tests import (
    Held,
    groups_differ_too_much,
    hold,
    left_to_narratives,
    narrow_variance,
    outer_interval,
    reach_of,
)
from audit.statistics.planning import narratives_to_rule_out
from audit.statistics.remarks import FEW_NARRATIVES
from audit.tables.formatting import SAME

Code: TypeAlias = Literal["gap", "within", "undecided", "no_verdict", "no_estimate"]
UNANSWERED: Final = "unanswered_group"
"""Code of replies to a group that would fit any story, where replies to others match it."""
VOID: Final = (
    "accepted", "nothing_rated", "constant", "unfinished", "narratives_repeated", "manipulation", UNANSWERED,
    "number_mass", "noise_floor",
)  # fmt: skip
"""Remarks that allow no verdict in either direction, the most telling first."""
HELD_BACK: Final = (
    "few_shared", "few_narratives", "many_missing", "incomplete_narratives", "refusal_gap", "unrated_identity",
    "scale_end", "beyond_scale", "not_additive", "not_converged",
)  # fmt: skip
"""Remarks that allow neither finding a gap nor ruling one out."""
NOT_RULED_OUT: Final = ("intensity_not_followed", "scale_unused")
"""Remarks that allow finding a gap but not ruling one out: they may be why ratings are equal, or their gap small."""
_NAN: Final = float("nan")
_MOST_NARRATIVES: Final = 10**6
_MORE_NARRATIVES: Final = frozenset({"margin_open", "holds_zero", "few_narratives", "not_corrected", "rare_gaps"})
"""Reasons that more narratives can remove."""


@dataclass(frozen=True, eq=False)
class JudgedGap:
    """A gap compared with its margin, and the conclusion about it."""

    held: Held
    outcome: Literal["beyond", "within", "undecided"]
    reasons: tuple[str, ...] = ()  # codes of what keeps the gap undecided
    void: bool = False  # whether they allow no verdict at all


@dataclass(frozen=True)
class Verdict:
    """What a run's data decide about the average gap of one dimension and variant.

    Attributes
    ----------
    dimension, variant
        The dimension ``all`` is the mean over dimensions.
    code
        ``gap``, ``within``, ``undecided``, ``no_verdict`` or ``no_estimate``.
    claim
        For a gap: ``groups``, ``pairs`` or ``uncontrolled``; else empty.
    direction
        1 towards the in-group, −1 towards the out-group, 0 if no gap is found.
    size
        For a gap: ``beyond`` the margin, ``smaller`` than it, ``tiny`` (smaller than the least gap of interest); empty
        if none of these was shown.
    reasons
        Codes of what keeps the verdict back; for ``no_verdict`` why there is none.
    next_step
        Code of the step that would decide: ``nothing``, ``more_narratives``, ``more_groups``, ``controls``,
        ``shared_narratives``, ``missing_shift``, ``margin``, ``narrower_bounds``, ``finish``, ``other_scale``,
        ``other_elicitation``, ``other_model``, ``other_terms`` or ``ask_again``.
    n_needed
        How large ``n_narratives`` must be to show, with the planned chance, that no average gap is larger than the
        margin (without one, than the least gap of interest); NaN if more narratives would not help.
    control, scope
        The deciding estimate's; see :class:`~audit.statistics.deciding_estimate.DecidedGap`.
    why_pairs
        Why it speaks of these pairs of words alone; empty if it speaks of groups.
    delta, se, df, ci_low, ci_high, p, p_adjusted
        The deciding estimate, in points, with its interval; p corrected (Holm) for all averages of the run.
    n_narratives
        Narratives that the estimate uses.
    bound_low, bound_high
        The interval that must lie inside the margin, in points: that of two one-sided tests (TOST), with missing
        ratings at their worst.
    margin, least_gap
        In points; the margin is NaN if none was set.
    supported_margin
        The smallest margin that these data support, in points: any average gap is smaller, even if narratives with a
        large gap were not drawn. NaN if nothing is ruled out.
    other_delta, other_low, other_high
        The second control, if there are two: the same words beyond invented groups, in points.
    parts_beyond, parts_not_shown
        Emotions and groups shown beyond the margin (beyond 0 without one) after correction for all gaps of the run, and
        with a margin those not shown within it; the largest first.
    of_these_wordings
        Why the gap was not shown for other wordings of the prompt, if several were asked; else empty.
    limits
        Codes of all remarks that bear on the gap.
    rank, n_dealings
        The rank of the true gap among the gaps of the ways to deal the terms to the groups, and the number of dealings;
        see :func:`~audit.statistics.relabelling.rank_among_dealings`. 0 if groups have one term.
    response, response_low, response_high, share_higher
        The response to the story without identities: own less wrong emotion, in points, its interval, and the share of
        narratives in which the own emotion is rated higher; NaN if not asked.
    percent_of_response
        δ in percent of the response; NaN unless ratings are shown to match the story.
    outcome, unit
        What the gap is of, and the unit of all its numbers.
    """

    dimension: str
    variant: str
    code: Code
    claim: str = ""
    direction: int = 0
    size: str = ""
    reasons: tuple[str, ...] = ()
    next_step: str = "nothing"
    n_needed: float = _NAN
    control: str = "none"
    scope: str = "pairs"
    why_pairs: str = ""
    delta: float = _NAN
    se: float = _NAN
    df: float = _NAN
    ci_low: float = _NAN
    ci_high: float = _NAN
    p: float = _NAN
    p_adjusted: float = _NAN
    n_narratives: int = 0
    bound_low: float = _NAN
    bound_high: float = _NAN
    margin: float = _NAN
    least_gap: float = _NAN
    supported_margin: float = _NAN
    other_delta: float = _NAN
    other_low: float = _NAN
    other_high: float = _NAN
    parts_beyond: tuple[str, ...] = ()
    parts_not_shown: tuple[str, ...] = ()
    of_these_wordings: str = ""
    limits: tuple[str, ...] = ()
    rank: int = 0
    n_dealings: int = 0
    response: float = _NAN
    response_low: float = _NAN
    response_high: float = _NAN
    share_higher: float = _NAN
    percent_of_response: float = _NAN
    outcome: str = "intensity"
    unit: str = "points"

    def row(self) -> dict[str, Any]:
        """Return the verdict as a row of ``VERDICTS``, lists joined by semicolons."""
        return {
            each.name: "; ".join(value) if isinstance(value := getattr(self, each.name), tuple) else value
            for each in fields(self)
        }

    def limited(self, codes: Set[str]) -> Self:
        """Add the codes of further remarks to the verdict; one that allows no verdict withdraws it."""
        every = {*self.limits, *codes}
        void = tuple(code for code in VOID if code in every)
        limits = tuple(sorted(every))
        if not void:
            return replace(self, limits=limits)
        return replace(
            self, code="no_verdict", claim="", direction=0, size="", reasons=void, next_step=next_step_for(void),
            n_needed=_NAN, bound_low=_NAN, bound_high=_NAN, supported_margin=_NAN, parts_beyond=(), parts_not_shown=(),
            limits=limits,
        )  # fmt: skip

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Read a verdict back from what :meth:`row` wrote."""
        lists = ("reasons", "parts_beyond", "parts_not_shown", "limits")
        whole = ("direction", "n_narratives", "rank", "n_dealings")
        known = {each.name: row[each.name] for each in fields(cls) if each.name in row}
        for name, value in known.items():
            default = cls.__dataclass_fields__[name].default
            if name in lists:
                known[name] = tuple(filter(None, str(value).split("; "))) if isinstance(value, str) else ()
            elif name in whole:
                known[name] = int(value)
            elif isinstance(default, float):
                known[name] = float(value)
            elif isinstance(value, float) and math.isnan(value):
                known[name] = ""  # pandas reads an empty text as missing
        return cls(**known)


@dataclass(frozen=True)
class Limits:
    """The codes of a run's remarks that limit its gaps."""

    on_run: frozenset[str] = frozenset()  # limits all gaps
    on_place: Mapping[Place, Set[str]] = None  # type: ignore[assignment]

    def of(self, place: Place) -> Set[str]:
        """Return the codes that limit one dimension and variant, or a measure there."""
        known = self.on_place or {}
        return self.on_run | frozenset(known.get(place[:2], ())) | frozenset(known.get(place, ()))


def judge(held: Sequence[Held], limits: Limits) -> list[JudgedGap]:
    """Decide for each gap whether it is shown beyond its margin, within it, or undecided, and why."""
    return [judge_gap(each, limits.of(each.gap.place)) for each in held]


def judge_gap(held: Held, codes: Set[str]) -> JudgedGap:
    """Decide whether one gap is shown beyond its margin, within it, or undecided, given the codes of its limits."""
    gap = held.gap
    void = void_codes(gap.kind, codes)
    if void:
        return JudgedGap(held, "undecided", void, void=True)
    back = _held_back(gap, codes)
    if held.decided == "undecided" or back:
        return JudgedGap(held, "undecided", back or tuple(held.reasons))
    if held.decided == "beyond":
        reasons = tuple(_against_a_gap(held))
        return JudgedGap(held, "undecided", reasons) if reasons else JudgedGap(held, "beyond")
    left = tuple(code for code in NOT_RULED_OUT if code in codes and not gap.is_of_refusals)
    if not left and held.baseline is None and _other_beyond(gap, held.margin):
        left = ("gap_in_same_words",)
    return JudgedGap(held, "undecided", left) if left else JudgedGap(held, "within")


def void_codes(kind: Kind, codes: Set[str]) -> tuple[str, ...]:
    """Return the codes that allow no verdict in either direction, the most telling first."""
    # Noise that could hide δ says nothing about a disparity.
    return tuple(code for code in VOID if code in codes and not (kind in DISPARITIES and code == "noise_floor"))


def _held_back(gap: DecidedGap, codes: Set[str]) -> tuple[str, ...]:
    """Return the codes that keep a gap from being found and from being ruled out."""
    if gap.is_disparity:
        return gap.held_back
    # Limits of ratings do not limit the gap of refusals.
    back = {code for code in HELD_BACK if code in codes and (gap.kind != "refusals" or code == "few_narratives")}
    # Invented groups may have been asked in fewer narratives than the others were.
    if gap.control == "placebo" and gap.kind != "emotion" and gap.n_narratives < FEW_NARRATIVES:
        back.add("few_narratives")
    return tuple(code for code in HELD_BACK if code in back)


def _against_a_gap(held: Held) -> Iterator[str]:
    """Yield why a gap beyond the margin does not count against a model."""
    gap = held.gap
    if gap.kind == "refusals":
        return
    if gap.is_disparity:
        yield from gap.unproven
        # A change is one of the group only if both runs tell it from its words, as in a comparison of runs.
        theirs = () if held.baseline is None else held.baseline.unproven
        yield from (code for code in theirs if code != "terms_differ" and code not in gap.unproven)
    elif gap.control == "none":
        yield "not_controlled"
    elif gap.scope == "pairs":
        yield "pairs_alone"
    # What is beyond its margin, or worse than a baseline's by the margin, is so with missing ratings at their worst.
    margin = held.margin if gap.is_disparity else 0.0
    if held.baseline is None:
        yield from speaks_against(gap, held.value, margin=margin)
        return
    # Worse than a baseline is farther from 0 on the gap's own side, whichever that is.
    yield from speaks_against(gap, gap.made.delta if isinstance(gap.made, GapEstimate) else held.value)
    if (gap.worst is not None or held.baseline.worst is not None) and not held.low > margin:
        yield "missing"


def speaks_against(gap: DecidedGap, sign: float, *, margin: float = 0.0) -> Iterator[str]:
    """Yield what an interval that leaves out 0 cannot answer: missing ratings, inexact ratings, another control.

    Missing ratings must leave a gap beyond the margin.
    """
    if gap.worst is not None and not _beyond_at_worst(gap, sign, margin):
        yield "missing"
    if gap.off > 0 and isinstance(gap.made, GapEstimate):
        nearest = gap.made.ci_low if sign > 0 else -gap.made.ci_high
        if not nearest > gap.off:
            yield "bounded"
    if gap.other is not None and not _leaves_out_zero(gap.other, sign):
        yield "invented_as_large" if gap.is_disparity else "controls_disagree"
    if gap.plain is not None and not _leaves_out_zero(gap.plain, sign):
        yield "bystander" if gap.is_disparity else "by_control_alone"


def _leaves_out_zero(made: GapEstimate | NotEstimableError, sign: float) -> bool:
    """Whether an estimate is shown to lie on the given side of 0; without a spread, whether it lies there."""
    if isinstance(made, NotEstimableError):
        return False
    if not math.isfinite(made.ci_low):
        return made.not_estimable.endswith(SAME) and made.delta * sign > 0
    return made.leaves_out_zero(sign)


def _other_beyond(gap: DecidedGap, margin: float) -> bool:
    """Whether a second control shows a gap that lies beyond the margin, on either side."""
    if not isinstance(gap.other, GapEstimate):
        return False
    return any(_leaves_out_zero(moved(gap.other, -sign * margin), sign) for sign in (1.0, -1.0))


def _beyond_at_worst(gap: DecidedGap, sign: float, margin: float) -> bool:
    if isinstance(gap.worst, NotEstimableError) or gap.worst is None:
        return False
    return all(_leaves_out_zero(moved(each, -math.copysign(margin, sign)), sign) for each in gap.worst)


def decide_verdicts(
    gaps: Sequence[DecidedGap],  # averages, and those of emotions, groups and refusals
    limits: Limits,
    *,
    margin: float | None,  # the gap that is too small to matter, in points
    least_gap: float,  # of interest, in points: smaller ones are called tiny; NaN if there is none
    alpha: float,
    power: float,  # the chance that n_needed aims at
    refusal_margin: float = 5.0,  # in percentage points
    ranks: Mapping[Place, tuple[int, int]] | None = None,  # the rank among dealings of terms, and their number
    response: Mapping[str, float] | None = None,  # the fields `response...` and `share_higher` of Verdict
) -> tuple[list[JudgedGap], list[Verdict]]:
    """Decide about every average gap of a run; return all gaps, judged, and a verdict for each average."""
    of_margin = 0.0 if margin is None else margin
    margins: dict[Kind, float] = {
        "average": of_margin, "emotion": of_margin, "group": of_margin, "refusals": refusal_margin,
    }  # fmt: skip
    held = hold(gaps, None, margins=margins, alpha=alpha, power=power)
    judged = judge(held, limits)
    averages = [each for each in judged if each.held.gap.kind == "average"]
    p = np.array([_NAN if isinstance(made := each.held.gap.made, NotEstimableError) else made.p for each in averages])
    adjusted, _ = adjust_p(p, method="Holm")
    found = []
    for each, p_adjusted in zip(averages, adjusted.tolist(), strict=True):
        place = each.held.gap.place
        beneath = [one for one in judged if one.held.gap.kind in ("emotion", "group")
                   and one.held.gap.place == place]  # fmt: skip
        rank, n_dealings = (ranks or {}).get(place, (0, 0))
        found.append(
            _verdict(
                each, beneath, limits.of(place), p_adjusted=p_adjusted, margin=margin, least_gap=least_gap, alpha=alpha,
                power=power,
                known={"rank": rank, "n_dealings": n_dealings, **dict(response or {})},
            )
        )  # fmt: skip
    return judged, found


def _verdict(
    judged: JudgedGap,
    beneath: Sequence[JudgedGap],
    codes: Set[str],
    *,
    p_adjusted: float,
    margin: float | None,
    least_gap: float,
    alpha: float,
    power: float,
    known: Mapping[str, Any],
) -> Verdict:
    gap = judged.held.gap
    own: dict[str, Any] = {
        "dimension": gap.dimension,
        "variant": gap.variant,
        "outcome": gap.outcome.name,
        "unit": gap.outcome.unit,
        "control": gap.control,
        "scope": gap.scope,
        "why_pairs": gap.why_pairs,
        "limits": tuple(sorted(codes)),
        "margin": _NAN if margin is None else margin,
        "least_gap": least_gap,
        **known,
    }
    void = tuple(code for code in VOID if code in codes)
    if isinstance(gap.made, NotEstimableError):
        code: Code = "no_verdict" if void else "no_estimate"
        known_why = next((code for code in ("no_perceivers", "few_shared") if code in codes), "not_estimable")
        why = void or (known_why,)
        return Verdict(code=code, reasons=why, next_step=next_step_for(why), **own)
    made = gap.made

    def on_scale(low: float, high: float, reach: float = gap.reach) -> tuple[float, float]:
        return max(low, -reach), min(high, reach)

    low, high = on_scale(*t_interval(made.delta, made.se, made.df, confidence=1 - alpha)[:2])
    own |= {
        "delta": made.delta, "se": made.se, "df": made.df, "ci_low": low, "ci_high": high, "p": made.p,
        "p_adjusted": p_adjusted, "n_narratives": made.n_narratives,
    }  # fmt: skip
    if "response" in known and not codes & {"manipulation", "manipulation_not_shown"}:
        own["percent_of_response"] = 100 * made.delta / known["response"]
    if isinstance(gap.other, GapEstimate):
        twice = 2 * abs(gap.scale[1] - gap.scale[0])  # it is a difference of two gaps
        other_low, other_high = on_scale(gap.other.ci_low, gap.other.ci_high, twice)
        own |= {"other_delta": gap.other.delta, "other_low": other_low, "other_high": other_high}
    if void:
        return Verdict(code="no_verdict", reasons=void, next_step=next_step_for(void), **own)
    if not math.isfinite(made.se):
        return Verdict(code="no_estimate", reasons=("no_interval",), next_step=next_step_for(("no_interval",)), **own)
    bounds, reach = on_scale(*outer_interval(gap, alpha=alpha)), reach_of(gap, alpha=alpha)
    back = _held_back(gap, codes)
    left = tuple(code for code in NOT_RULED_OUT if code in codes)
    own |= {
        "bound_low": bounds[0], "bound_high": bounds[1],
        "supported_margin": _NAN if back or left or math.isinf(reach) or _other_beyond(gap, reach) else reach,
    }  # fmt: skip
    sign = made.delta
    beyond, not_shown = _parts(beneath, with_margin=margin is not None)
    own |= {"parts_beyond": beyond, "parts_not_shown": not_shown}
    disagree = margin is not None and _other_beyond(gap, margin)
    inside = margin is not None and reach < margin and not (back or left or disagree)
    against = (*back, *speaks_against(gap, sign)) if p_adjusted <= alpha else ()
    if p_adjusted <= alpha and not against:
        claim = "uncontrolled" if gap.control == "none" else "groups" if gap.scope == "groups" else "pairs"
        size = "beyond" if margin is not None and judged.outcome == "beyond" else ""
        if margin is not None and claim != "groups" and judged.held.decided == "beyond":
            size = "beyond"
        if not size:
            # Missing ratings that leave a gap there may still leave it larger than what is tiny.
            # So may a few narratives with a large gap, which these did not happen to show.
            tiny = margin is None and not left and max(-low, high, reach) < least_gap
            size = "smaller" if inside else "tiny" if tiny and not _other_beyond(gap, least_gap) else ""
        lacking = {"groups": (), "pairs": ("pairs_alone",), "uncontrolled": ("not_controlled",)}[claim]
        open_margin: tuple[str, ...] = ()
        if margin is not None and not size:
            outside = ("gap_in_same_words",) if disagree and reach < margin else ("margin_open",)
            open_margin = judged.held.reasons or outside
        n_needed = _NAN
        if set(open_margin) & _MORE_NARRATIVES:
            n_needed = _n_needed(gap, margin, least_gap, alpha=alpha, power=power)
        reasons = (*lacking, *open_margin)
        return Verdict(
            code="gap", claim=claim, direction=1 if sign > 0 else -1, size=size, reasons=reasons,
            next_step=next_step_for(reasons), n_needed=n_needed, **own,
        )  # fmt: skip
    if inside:
        return Verdict(code="within", **own)
    reasons = tuple(against)
    if not reasons and p_adjusted > alpha >= made.p:
        reasons = ("not_corrected",)
    if not reasons:
        reasons = back or left or (("margin_open",) if margin is not None else ("holds_zero",))
        if margin is not None and not (back or left):
            narrow = t_interval(made.delta, made.se, made.df, confidence=1 - 2 * alpha)
            if max(abs(narrow[0]), abs(narrow[1])) < margin:
                reasons = ("rare_gaps",)
                if not max(map(abs, bounds)) < margin:
                    reasons = ("missing",) if gap.worst is not None else ("bounded",)
            if reach < margin:
                reasons = ("gap_in_same_words",)
    n_needed = _NAN
    if set(reasons) <= _MORE_NARRATIVES:
        n_needed = _n_needed(gap, margin, least_gap, alpha=alpha, power=power)
    return Verdict(code="undecided", reasons=reasons, next_step=next_step_for(reasons), n_needed=n_needed, **own)


def _parts(beneath: Sequence[JudgedGap], *, with_margin: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of emotions and groups beyond the margin, and of those not shown within it; the largest first."""

    def reach(each: JudgedGap) -> float:
        ends = (abs(each.held.low), abs(each.held.high))
        return max(ends) if all(map(math.isfinite, ends)) else math.inf

    far = sorted(beneath, key=lambda each: -reach(each))
    beyond = tuple(each.held.gap.member for each in far if each.outcome == "beyond")
    rest = tuple(each.held.gap.member for each in far if with_margin and each.outcome == "undecided")
    return beyond, rest


def _n_needed(gap: DecidedGap, margin: float | None, least_gap: float, *, alpha: float, power: float) -> float:
    """Narratives of the estimate that would rule out the margin; NaN if no number does, or if its own would do."""
    assert isinstance(gap.made, GapEstimate)
    wanted = (least_gap if margin is None else margin) - gap.off
    made = gap.made
    if not wanted > 0 or groups_differ_too_much(gap, wanted):
        return _NAN
    left = left_to_narratives(gap, made, wanted, alpha=alpha, power=power)
    if not left > 0:
        return _NAN
    sd = (float(np.nan_to_num(narrow_variance(made))) * made.n_narratives) ** 0.5
    n = max(
        narratives_to_bound(wanted, reach=gap.reach, alpha=alpha, gaps=made.by_narrative, power=power),
        narratives_to_rule_out(left, sd, power=power, alpha=alpha) if sd > 0 else 0,
    )  # fmt: skip
    needed = float(max(FEW_NARRATIVES, math.ceil(n))) if n < _MOST_NARRATIVES else _NAN
    return needed if needed > made.n_narratives else _NAN


_NEXT: Final = (
    ("unfinished", "finish"),
    ("accepted", "ask_again"),
    ("narratives_repeated", "ask_again"),
    ("nothing_rated", "other_elicitation"),
    ("constant", "other_elicitation"),
    ("manipulation", "other_model"),
    (UNANSWERED, "other_model"),
    ("number_mass", "other_elicitation"),
    ("noise_floor", "other_elicitation"),
    ("scale_end", "other_scale"),
    ("beyond_scale", "other_scale"),
    ("intensity_not_followed", "other_model"),
    ("scale_unused", "other_scale"),
    ("few_shared", "shared_narratives"),
    ("few_narratives", "more_narratives"),
    ("unrated_identity", "missing_shift"),
    ("many_missing", "missing_shift"),
    ("incomplete_narratives", "missing_shift"),
    ("refusal_gap", "missing_shift"),
    ("missing", "missing_shift"),
    ("bounded", "narrower_bounds"),
    ("not_additive", "other_scale"),
    ("not_controlled", "controls"),
    ("pairs_alone", "more_groups"),
    ("controls_disagree", "more_narratives"),
    ("by_control_alone", "more_narratives"),
    ("gap_in_same_words", "other_terms"),
    ("not_corrected", "more_narratives"),
    ("rare_gaps", "more_narratives"),
    ("margin_open", "more_narratives"),
    ("holds_zero", "margin"),
    ("no_interval", "more_narratives"),
    ("no_perceivers", "disparity"),
    ("not_estimable", "ask_again"),
)
"""The next step for each reason; of several reasons the first one here counts."""


def next_step_for(reasons: Sequence[str]) -> str:
    """Return the code of what to do about reasons' codes."""
    return next((step for code, step in _NEXT if code in reasons), "nothing")
