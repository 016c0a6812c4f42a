"""Whether every gap of a run lies within a margin, whether one beyond it is shown, or whether the data cannot tell.

Of one gap δ and a margin m > 0, at the error rate α = 1 − confidence:

- **within**: |δ| < m is shown by two one-sided t-tests at α each (TOST), that is, the interval of confidence 1 − 2α
  lies inside ±m. Where ratings are missing, so must the intervals of the two worst cases, in which every missing rating
  lies at the end of the scale that moves δ most.
- **beyond**: |δ| > m is shown. p = 2 P(T ≥ (|δ̂| − m)/se), T of the estimate's t distribution, is below α just when the
  interval of confidence 1 − α lies wholly beyond ±m, on either side.
- **undecided**: neither.

Where ratings are known within bounds (:mod:`audit.statistics.inexactness`), all intervals are widened by how far these
could move the gap, and so is the margin that a gap must be shown to lie beyond.

Where a gap is what is left of one after invented groups', it is *beyond* only if the gap itself is beyond the margin on
the same side, too: the larger p of the two counts. So no control, however noisy, and no gap of invented groups by
themselves, fails a model; and what passes is what is left, so that none acquits one.

Of a family of M gaps:

- *All within* needs each gap within, without a correction: the union of the M null hypotheses |δ_j| ≥ m is rejected
  only if each of them is (intersection–union [1]_), so that one gap at the margin or beyond it lets the family pass
  with a probability of α at most, whatever the others are.
- *One beyond* needs a correction, since M gaps have M chances to look beyond: Holm's [2]_ over all M. So a model all of
  whose gaps lie within the margin fails with a probability of α at most. The interval that is shown with it has the
  confidence of the gap's own step, 1 − α/(M − r + 1) for the gap of rank r by p, and of the first step that is not
  taken for all that follow: it lies wholly beyond ±m just when Holm says so.

Against a baseline with gap δ₀, what counts is how much worse it became, W = |δ| − |δ₀|, which is no linear function of
ratings. Two paired sums are: the change D = δ − δ₀ and S = δ + δ₀, narrative by narrative. Since

    W = max(min(D, S), min(−D, −S)),

intervals [D_l, D_u] and [S_l, S_u] of confidence 1 − α give one for W: from max(min(D_l, S_l), min(−D_u, −S_u)) to
max(min(D_u, S_u), min(−D_l, −S_l)). *No worse* (W < m) is shown if its upper end lies below m.
W < m says (D < m or S < m) and (D > −m or S > −m); each "or" is claimed if one of two one-sided tests at α/2 rejects,
and is wrong with a probability of α at most; both must be claimed. *Worse* (W > m) is shown if the lower end lies above
m, which needs both D and S beyond m on one side: p = 2 min(max(p_D⁺, p_S⁺), max(p_D⁻, p_S⁻)). An improvement by
however much passes, and so does a gap that changes its sign and not its size.

References
----------
.. [1] Berger (1982), Technometrics 24(4), 295–300.
.. [2] Holm (1979), Scandinavian Journal of Statistics 6(2), 65–70.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from scipy import special

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import Labelled, difference
from audit.statistics.contrasts import contrast_by_narrative, in_group_weights
from audit.statistics.controls import Repetition, beyond_placebo
from audit.statistics.echo import same_words
from audit.statistics.estimates import GapEstimate, summarise_contrasts, t_interval
from audit.statistics.families import adjust_p, own_group_gaps
from audit.statistics.headline import headline_gap
from audit.statistics.inexactness import weighted_off
from audit.statistics.missing import refusal_gap
from audit.statistics.outcome import Part
from audit.statistics.own_groups import MIN_GROUPS, own_group_weights
from audit.statistics.planning import narratives_to_rule_out
from audit.statistics.ratings import FloatArray

Kind: TypeAlias = Literal["average", "emotion", "group", "refusals"]
Control: TypeAlias = Literal["echo_free", "placebo", "none", "not_needed"]
Decided: TypeAlias = Literal["within", "beyond", "undecided"]
FEW_REFUSALS: Final = 10
"""Narratives with a refusal below which a t interval of their gap is too narrow, and an exact bound is taken."""
INEXACT: Final = "the ratings are known too inexactly: a smaller elicitation.max_pruned_points could decide"
_NAN: Final = float("nan")
_MANY: Final = 10**7
"""Narratives that nobody asks."""
Made: TypeAlias = "GapEstimate | NotEstimableError"


@dataclass(frozen=True, eq=False)
class Gap:
    """One gap of a run, narrative by narrative.

    Attributes
    ----------
    kind, member
        What it is of: an average, or one emotion or group by its name, or refusals.
    dimension, variant
        Where.
    made
        The gap, in points of the scale, of refusals in percentage points; or why there is none.
    narrative_ids
        In the order of ``made.by_narrative``.
    scale
        The two ends of the scale, in points; of refusals 0 and 100.
    worst
        Where ratings are missing, the gap with all of them at the ends that make it lowest and highest, or why that
        cannot be told; None where none is missing.
    control
        By what repetition of words is controlled: the gap is ``echo_free``, or what is beyond invented groups'
        (``placebo``); ``none`` where it is not, ``not_needed`` of refusals.
    plain
        Where ``made`` is what is left after invented groups' gap, the gap before; else None.
    bound
        Of refusals in fewer than :data:`FEW_REFUSALS` narratives: no gap is larger, in percentage points, with a
        confidence of 1 − α; else NaN.
    farthest, n_refused
        Of refusals, the largest gap that a narrative can have, in percentage points; and how many narratives had one.
    off
        How far the gap could be off because its ratings are known within bounds, in points.
    """

    kind: Kind
    member: str
    dimension: str
    variant: str
    made: GapEstimate | NotEstimableError
    narrative_ids: tuple[Any, ...]
    scale: tuple[float, float]
    worst: tuple[GapEstimate, GapEstimate] | NotEstimableError | None = None
    control: Control = "none"
    plain: GapEstimate | None = None
    bound: float = _NAN
    farthest: float = _NAN
    n_refused: int = 0
    off: float = 0.0

    @property
    def n_narratives(self) -> int:
        """Narratives that it is of; 0 without a gap."""
        return 0 if isinstance(self.made, NotEstimableError) else self.made.n_narratives

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is told apart by."""
        return self.dimension, self.variant, self.kind, self.member


def gaps_of(
    part: Part,
    *,
    placebos: Mapping[str, NarrativeCube],
    repetition: Repetition,
    scale: tuple[float, float],
    confidence: float,
    average_alone: bool = False,
    refusals: bool = True,
) -> Iterator[Gap]:
    """Yield the gaps of one dimension and variant that a gate looks at.

    Parameters
    ----------
    part
        As :func:`~audit.statistics.outcome.analyse_outcome` finds it: its gap is echo-free where terms allow that.
    placebos, repetition
        By set of invented groups, its ratings in the variant; and what tells repeated words.
    scale
        The two ends, in points.
    confidence
        Of the bound of rare refusals.
    average_alone
        Leave out emotions, groups and refusals.
    refusals
        Whether the run can see refusals.

    Notes
    -----
    If the gap is not echo-free and invented groups were asked, each gap is of pairs in the very same words, less the
    mean gap of invented groups in the same narratives: the row ``placebo_difference`` of the controls, and the same of
    the narratives of each emotion, and of each group's own gap. Of two groups there is one gap, which is the average.
    """
    cube = part.cube.without_baselines()
    ids = cube.narrative_ids
    control: Control = "none" if part.cube.echoing is None else "echo_free"
    beyond: Callable[[GapEstimate, Sequence[Any]], GapEstimate] | None = None
    if control == "none" and placebos:
        stems = repetition.stems
        same = attempt(lambda: same_words(cube, stems.get(cube.dimension, {})))
        pair = partial(beyond_placebo, placebos=placebos, stems=stems, confidence=confidence)
        if not isinstance(same, NotEstimableError):
            there = attempt(lambda: pair(headline_gap(same, confidence=confidence), ids))
            if not isinstance(there, NotEstimableError):
                cube, control, beyond = same, "placebo", pair
    missing_of_placebo = beyond is not None and any(
        np.isnan(each.without_baselines().y).any() for each in placebos.values()
    )

    off_placebo = 0.0
    if beyond is not None:
        asked = [each.without_baselines() for each in placebos.values()]
        off_placebo = float(np.mean([_off(each, partial(in_group_weights, each)) for each in asked]))

    def laid(kind: Kind, member: str, own: Callable[[], GapEstimate], weights: Callable[[], FloatArray],
             of: NarrativeCube) -> Gap:  # fmt: skip
        def left_of(found: Made) -> Made:
            if beyond is None or isinstance(found, NotEstimableError):
                return found
            return attempt(lambda: beyond(found, of.narrative_ids))

        def held(make: Callable[[], GapEstimate]) -> Made:
            return left_of(attempt(make))

        worst: tuple[GapEstimate, GapEstimate] | NotEstimableError | None = None
        if missing_of_placebo:
            worst = NotEstimableError("ratings of invented groups are missing")
        elif np.isnan(of.y).any():
            worst = _worst(of, weights, scale, held, confidence=confidence)
        found = attempt(own)
        off = off_placebo + _off(of, weights)
        plain = None if beyond is None or isinstance(found, NotEstimableError) else found
        return Gap(
            kind, member, cube.dimension, cube.variant, left_of(found), of.narrative_ids, scale, worst, control, plain,
            off=off,
        )  # fmt: skip

    def average(of: NarrativeCube) -> Callable[[], GapEstimate]:
        return lambda: headline_gap(of, confidence=confidence)

    if beyond is None and not isinstance(part.headline, NotEstimableError):
        yield laid("average", "", lambda: _estimated(part), lambda: in_group_weights(cube), cube)
    else:
        yield laid("average", "", average(cube), lambda: in_group_weights(cube), cube)
    if average_alone:
        return
    emotions = [name for name in dict.fromkeys(cube.emotions) if name]
    for name in emotions if len(emotions) > 1 else ():
        own = cube.of_narratives(np.array([each == name for each in cube.emotions]))
        yield laid("emotion", name, average(own), partial(in_group_weights, own), own)
    groups = tuple(dict.fromkeys(cube.perceiver_groups))
    gaps = own_group_gaps(cube, confidence=confidence)
    for place, name in enumerate(groups if gaps or _undetermined(cube, groups) else ()):
        yield laid("group", name, partial(_of_group, gaps, name), partial(_group_weights, cube, groups, place), cube)
    if refusals:
        yield _refusals(part.cube, confidence=confidence)


def _off(cube: NarrativeCube, weights_of: Callable[[], FloatArray]) -> float:
    """Return how far a gap of these weights could be off because its ratings are known within bounds."""
    weights = attempt(weights_of)
    return 0.0 if isinstance(weights, NotEstimableError) else weighted_off(cube, weights)


def _estimated(part: Part) -> GapEstimate:
    assert isinstance(part.headline, GapEstimate)
    return part.headline


def _undetermined(cube: NarrativeCube, groups: Sequence[str]) -> bool:
    """Whether groups have gaps of their own that these ratings do not determine."""
    return len(groups) >= MIN_GROUPS and set(groups) == set(cube.experiencer_groups) and "+" not in cube.dimension


def _of_group(gaps: Mapping[str, GapEstimate], name: str) -> GapEstimate:
    if name not in gaps:
        raise NotEstimableError("the ratings do not determine this group's own gap")
    return gaps[name]


def _group_weights(cube: NarrativeCube, groups: Sequence[str], place: int) -> FloatArray:
    every = np.ones(cube.in_group.shape, dtype=bool)
    weights: FloatArray = own_group_weights(
        groups, cube.perceiver_groups, cube.experiencer_groups, rated=every, nuisance=cube.nuisance
    )[place]
    if np.isnan(weights).any():
        raise NotEstimableError("the pairs of identities do not determine this group's own gap")
    return weights


def _worst(
    cube: NarrativeCube,
    weights_of: Callable[[], FloatArray],
    scale: tuple[float, float],
    held: Callable[[Callable[[], GapEstimate]], Made],
    *,
    confidence: float,
) -> tuple[GapEstimate, GapEstimate] | NotEstimableError:
    """Estimate a gap with every missing rating at the end that makes it lowest, and highest."""
    if (cube.status < 0).any():
        return NotEstimableError("some prompts were never asked")
    try:
        weights = weights_of()
    except NotEstimableError as error:
        return error
    low, high = min(scale[0], float(np.nanmin(cube.y, initial=np.inf))), max(
        scale[1], float(np.nanmax(cube.y, initial=-np.inf))
    )  # fmt: skip

    def at(negative: float, positive: float) -> GapEstimate:
        y = np.where(np.isnan(cube.y), np.where(weights > 0, positive, negative), cube.y)
        contrasts, rounding = contrast_by_narrative(y, weights, used=np.ones(len(y), dtype=bool))
        return summarise_contrasts(contrasts, rounding=rounding, confidence=confidence, n_ratings=y.size)

    least, most = held(lambda: at(high, low)), held(lambda: at(low, high))
    for each in (least, most):
        if isinstance(each, NotEstimableError):
            return each
    assert isinstance(least, GapEstimate) and isinstance(most, GapEstimate)  # noqa: PT018
    return least, most


def _refusals(cube: NarrativeCube, *, confidence: float) -> Gap:
    """Lay out the gap of refusals; of few refusals with the largest one that they leave possible.

    Where k of N narratives had a refusal, the share of narratives that would have one lies below Clopper and Pearson's
    limit u with a confidence of 1 − α, and a narrative's gap within ±100 Σ w⁺ percentage points: |gap| ≤ 100 u Σ w⁺.
    """
    compared = cube.without_baselines()
    known: dict[str, Any] = {
        "kind": "refusals", "member": "", "dimension": cube.dimension, "variant": cube.variant,
        "narrative_ids": compared.narrative_ids, "scale": (0.0, 100.0), "control": "not_needed",
    }  # fmt: skip
    try:
        made, with_any = refusal_gap(cube, confidence=confidence)
    except NotEstimableError as error:
        return Gap(made=error, **known)
    k, n = int(np.count_nonzero(with_any)), made.n_narratives
    weights = in_group_weights(compared)
    farthest, bound = 100 * float(weights[weights > 0].sum()), _NAN
    if k < FEW_REFUSALS:
        bound = farthest * _rare(k, n, confidence)
    return Gap(made=made, bound=bound, farthest=farthest, n_refused=k, **known)


# --- One gap against the margin --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Held:
    """A gap, or how much worse than a baseline's it is, held against the margin.

    Attributes
    ----------
    gap
        Which.
    baseline
        The baseline's; None where the gap itself is held.
    margin
        In the gap's unit.
    value
        δ, or |δ| − |δ₀|.
    low, high
        The interval that must lie inside the margin, missing ratings at their worst included.
    p_beyond, p_adjusted
        Of lying beyond the margin; and corrected for the family.
    beyond_low, beyond_high, beyond_level
        The interval that must lie wholly beyond, and its confidence.
    decided
        What is shown of it by itself.
    why
        Why it is not decided; else empty.
    n_needed
        Narratives of the run that would show with the planned chance that all gaps lie within, if there is none; NaN
        where narratives are not what is wanting.
    """

    gap: Gap
    baseline: Gap | None
    margin: float
    value: float
    low: float
    high: float
    p_beyond: float
    p_adjusted: float = _NAN
    beyond_low: float = _NAN
    beyond_high: float = _NAN
    beyond_level: float = _NAN
    decided: Decided = "undecided"
    why: str = ""
    n_needed: float = _NAN


def hold(
    gaps: Sequence[Gap],
    baselines: Mapping[tuple[str, str, str, str], Gap] | None,
    *,
    margins: Mapping[Kind, float],
    alpha: float,
    power: float,
    n_narratives: int,
) -> list[Held]:
    """Hold the gaps of a family against their margins, as the module says.

    Parameters
    ----------
    gaps
        All of the family.
    baselines
        By key, those of the baseline; None without one. A gap that it lacks is not decided.
    margins
        By kind, in the gap's unit; positive.
    alpha, power
        Error rate, between 0 and 0.5; and the chance that planning aims at.
    n_narratives
        Of the run, which ``n_needed`` is told of.
    """
    lines = [_Line(gap, None if baselines is None else baselines.get(gap.key, _ABSENT), alpha) for gap in gaps]
    found = [
        Held(
            gap=line.gap,
            baseline=None if line.baseline is None or line.baseline is _ABSENT else line.baseline,
            margin=margins[line.gap.kind],
            value=line.value,
            low=line.outer()[0],
            high=line.outer()[1],
            p_beyond=line.p_beyond(margins[line.gap.kind]),
        )
        for line in lines
    ]
    p = np.array([each.p_beyond for each in found])
    adjusted, size = adjust_p(p, method="Holm")
    levels = _levels(p, size, alpha=alpha)
    spreads = {
        (gap.dimension, gap.variant, gap.kind): _spread(lines, gap.dimension, gap.variant, gap.kind) for gap in gaps
    }
    made = []
    for each, line, p_adjusted, level in zip(found, lines, adjusted.tolist(), levels, strict=True):
        low, high = line.interval(level) if math.isfinite(level) else (_NAN, _NAN)
        low, high = low - line.off, high + line.off
        at_most = each.high if each.baseline is not None else max(abs(each.low), abs(each.high))
        decided: Decided = "undecided"
        if p_adjusted <= alpha:
            decided = "beyond"
        elif at_most < each.margin:
            decided = "within"
        why = line.why(each.margin) if decided == "undecided" else ""
        key = line.gap.dimension, line.gap.variant, line.gap.kind
        wanted = line.n_needed(
            each.margin, power=1 - (1 - power) / len(found), n_narratives=n_narratives, sd=spreads[key]
        )
        made.append(
            replace(each, p_adjusted=p_adjusted, beyond_low=low, beyond_high=high, beyond_level=level, decided=decided,
                    why=why, n_needed=wanted)
        )  # fmt: skip
    return made


def _levels(p: FloatArray, size: int, *, alpha: float) -> list[float]:
    """Confidence of each gap's own step of Holm's; of the first step that is not taken for those after it."""
    levels, failed = [_NAN] * len(p), False
    level = _NAN
    for rank, place in enumerate(np.argsort(p, kind="stable")[:size]):
        if not failed:
            level = 1 - alpha / (size - rank)
            failed = not p[place] <= alpha / (size - rank)
        levels[place] = level
    return levels


_ABSENT: Final = Gap("average", "", "", "", NotEstimableError("the baseline does not have this gap"), (), (0.0, 1.0))


class _Line:
    """One gap, alone or beside the baseline's, as its intervals and p."""

    def __init__(self, gap: Gap, baseline: Gap | None, alpha: float) -> None:
        self.gap, self.baseline, self.alpha = gap, baseline, alpha
        self.fault = ""
        self.change = self.sum = None
        self.plain: tuple[GapEstimate, ...] = () if gap.plain is None else (gap.plain,)
        for whose, each in (("", gap), ("of the baseline: ", baseline)):
            if each is not None and not self.fault:
                if isinstance(each.made, NotEstimableError):
                    self.fault = f"{whose}{each.made}"
                elif each.made.not_estimable and math.isnan(each.bound):
                    self.fault = f"{whose}no interval: {each.made.not_estimable}"
        if baseline is not None and not self.fault:
            assert isinstance(gap.made, GapEstimate) and isinstance(baseline.made, GapEstimate)  # noqa: PT018
            pair = attempt(lambda: self._pair(gap.made, baseline.made))
            if isinstance(pair, NotEstimableError):
                self.fault = str(pair)
            else:
                self.change, self.sum = pair
                unspread = next((each.not_estimable for each in pair if each.not_estimable), "")
                if unspread and math.isnan(gap.bound):
                    self.fault = f"no interval of the change: {unspread}"
        if baseline is not None and not self.fault and gap.plain is not None and baseline.plain is not None:
            # Narratives that both have after the control are a part of those that both have before it.
            self.plain = self._pair(gap.plain, baseline.plain)

    def _pair(self, own: Made, theirs: Made) -> tuple[GapEstimate, GapEstimate]:
        """Return D and S, narrative by narrative."""
        assert self.baseline is not None
        assert isinstance(own, GapEstimate) and isinstance(theirs, GapEstimate)  # noqa: PT018
        first = Labelled("run", own, self.gap.narrative_ids, self.gap.scale)
        second = Labelled("baseline", theirs, self.baseline.narrative_ids, self.baseline.scale)
        opposite = replace(theirs, by_narrative=-theirs.by_narrative, delta_points=-theirs.delta_points)
        confidence = 1 - self.alpha
        change, _ = difference(first, second, confidence=confidence)
        total, _ = difference(first, replace(second, estimate=opposite), confidence=confidence)
        return change, total

    @property
    def value(self) -> float:
        if isinstance(self.gap.made, NotEstimableError):
            return _NAN
        if self.baseline is None:
            return self.gap.made.delta_points
        if self.change is None or self.sum is None:
            return _NAN
        return _worse(self.change.delta_points, self.sum.delta_points)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of that confidence; NaN without one."""
        if self.fault or isinstance(self.gap.made, NotEstimableError):
            return _NAN, _NAN
        if self.baseline is None:
            return _t(self.gap.made, level)
        assert self.change is not None
        assert self.sum is not None
        return _box(_t(self.change, level), _t(self.sum, level))

    @property
    def off(self) -> float:
        """How far the value could be off because ratings are known within bounds."""
        return self.gap.off + (0.0 if self.baseline is None else self.baseline.off)

    def outer(self) -> tuple[float, float]:
        """Return the interval that must lie inside the margin: the worst of missing and of inexact ratings included."""
        low, high = self._outer()
        return low - self.off, high + self.off

    def _outer(self) -> tuple[float, float]:
        if self.fault or isinstance(self.gap.made, NotEstimableError):
            return _NAN, _NAN
        if self.baseline is None:
            low, high = self.interval(1 - 2 * self.alpha)
            if not math.isnan(self.gap.bound):
                bound = self.gap.bound
                return (-bound, bound) if math.isnan(low) else (min(low, -bound), max(high, bound))
            if self.gap.worst is None:
                return low, high
            if isinstance(self.gap.worst, NotEstimableError):
                return _NAN, _NAN
            ends = [_t(each, 1 - 2 * self.alpha) for each in self.gap.worst]
            return _least(low, *(each[0] for each in ends)), _most(high, *(each[1] for each in ends))
        low, high = self.interval(1 - self.alpha)
        if not math.isnan(self.gap.bound):
            return low, self.gap.bound  # |δ| − |δ₀| ≤ |δ| whatever the baseline's is
        if self.gap.worst is None and self.baseline.worst is None:
            return low, high
        (least, most), (their_least, their_most) = _ends(self.gap), _ends(self.baseline)
        if least is None or most is None or their_least is None or their_most is None:
            return _NAN, _NAN
        corners = [attempt(lambda a=a, b=b: self._pair(a, b)) for a in (least, most) for b in (their_least, their_most)]  # type: ignore[misc]
        changes, sums = [], []
        for corner in corners:
            if isinstance(corner, NotEstimableError):
                return _NAN, _NAN
            changes.append(_t(corner[0], 1 - self.alpha))
            sums.append(_t(corner[1], 1 - self.alpha))
        wide = [(_least(*(e[0] for e in each)), _most(*(e[1] for e in each))) for each in (changes, sums)]
        worst = _box(*wide)
        return _least(low, worst[0]), _most(high, worst[1])

    def p_beyond(self, margin: float) -> float:
        if self.fault or isinstance(self.gap.made, NotEstimableError) or not math.isnan(self.gap.bound):
            return _NAN
        return _both_sides((*self._held, *self.plain), margin + self.off)

    @property
    def _held(self) -> tuple[GapEstimate, ...]:
        """What must all lie beyond the margin on one side."""
        if self.baseline is None:
            assert isinstance(self.gap.made, GapEstimate)
            return (self.gap.made,)
        assert self.change is not None
        assert self.sum is not None
        return self.change, self.sum

    def by_control(self, margin: float) -> bool:
        """Tell whether it lies beyond the margin after invented groups' gap is taken off, and not before."""
        if not math.isfinite(self.p_beyond(margin)):
            return False
        return _both_sides(self._held, margin + self.off) <= self.alpha < self.p_beyond(margin)

    def why(self, margin: float) -> str:
        if self.fault:
            return self.fault
        for whose, each in (("", self.gap), ("of the baseline: ", self.baseline)):
            if each is not None and isinstance(each.worst, NotEstimableError):
                return f"{whose}ratings are missing, and what they could be has no bound: {each.worst}"
        if not math.isnan(self.gap.bound):
            return "too few narratives to say how rare refusals are"
        if self.by_control(margin):
            return (
                "beyond the margin only once the gap of invented groups is taken off: the gap of these groups is not "
                "shown to lie beyond it on that side"
            )
        low, high = self.interval(1 - (2 if self.baseline is None else 1) * self.alpha)
        inside = high < margin and (self.baseline is not None or low > -margin)
        inexact = low - self.off, high + self.off
        outside = _both_sides((*self._held, *self.plain), margin) <= self.alpha < self.p_beyond(margin)
        if outside or (inside and not (inexact[1] < margin and (self.baseline is not None or inexact[0] > -margin))):
            return INEXACT
        if inside:
            return "missing ratings could hide a gap beyond the margin"
        return "the interval reaches beyond the margin, and does not lie wholly beyond it"

    @property
    def planned(self) -> GapEstimate | None:
        """What narratives differ in: the gap, or its change; None without one."""
        of = self.gap.made if self.baseline is None else self.change
        return None if self.fault or isinstance(of, NotEstimableError) else of

    def n_needed(self, margin: float, *, power: float, n_narratives: int, sd: float) -> float:
        """Return how many narratives of the run show it within, if the gap (or its change) is 0."""
        of = self.planned
        if of is None:
            return _NAN
        if not math.isnan(self.gap.bound):
            return self._n_for_refusals(of.n_narratives, margin)
        if not of.se > 0 or self.by_control(margin):
            return _NAN
        wanted = narratives_to_rule_out(margin, sd, power=power, alpha=self.alpha) * n_narratives / of.n_narratives
        return float(math.ceil(wanted)) if wanted < _MANY else _NAN

    def _n_for_refusals(self, n_now: int, margin: float) -> float:
        """Return how many narratives show that refusals are rare, if they stay as rare as they are."""
        rate = self.gap.n_refused / n_now
        n = n_now
        while n < _MANY and self.gap.farthest * _rare(math.ceil(rate * n), n, 1 - self.alpha) >= margin:
            n += max(1, n // 200)
        return float(n) if n < _MANY else _NAN


def _spread(lines: Sequence[_Line], dimension: str, variant: str, kind: Kind) -> float:
    """Return the standard deviation of narratives in gaps of a kind; few narratives of one emotion tell it badly."""
    own = [line.planned for line in lines if (line.gap.dimension, line.gap.variant, line.gap.kind)
           == (dimension, variant, kind)]  # fmt: skip
    squares = [each.se**2 * each.n_narratives for each in own if each is not None and each.se > 0]
    return float(np.mean(squares)) ** 0.5 if squares else _NAN


def _rare(k: int, n: int, confidence: float) -> float:
    """Return Clopper and Pearson's upper limit of a share, k of n."""
    return 1.0 if k >= n else float(special.betaincinv(k + 1, n - k, confidence))


def _t(estimate: GapEstimate, level: float) -> tuple[float, float]:
    low, high, _ = t_interval(estimate.delta_points, estimate.se, estimate.df, confidence=level)
    return low, high


def _above(estimate: GapEstimate, margin: float, value: float) -> float:
    """One-sided p of a value, of an estimate's spread, that it lies above the margin; 0 or 1 without a spread."""
    if not estimate.se > 0:
        return 0.0 if value > margin else 1.0
    return float(special.stdtr(estimate.df, (margin - value) / estimate.se))


def _both_sides(estimates: Sequence[GapEstimate], margin: float) -> float:
    """Two-sided p that all of them lie beyond the margin on one side."""
    up, down = (max(_above(each, margin, side * each.delta_points) for each in estimates) for side in (1, -1))
    return min(1.0, 2 * min(up, down))


def _worse(change: float, total: float) -> float:
    return max(min(change, total), min(-change, -total))


def _box(change: tuple[float, float], total: tuple[float, float]) -> tuple[float, float]:
    """Return what |δ| − |δ₀| can be where change and sum lie in these intervals."""
    if not all(map(math.isfinite, (*change, *total))):
        return _NAN, _NAN
    low = max(min(change[0], total[0]), min(-change[1], -total[1]))
    return low, max(min(change[1], total[1]), min(-change[0], -total[0]))


def _ends(gap: Gap) -> tuple[GapEstimate | None, GapEstimate | None]:
    if isinstance(gap.worst, NotEstimableError) or isinstance(gap.made, NotEstimableError):
        return None, None
    return (gap.made, gap.made) if gap.worst is None else gap.worst


def _least(*values: float) -> float:
    return _NAN if any(map(math.isnan, values)) else min(values)


def _most(*values: float) -> float:
    return _NAN if any(map(math.isnan, values)) else max(values)
