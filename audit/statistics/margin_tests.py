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
themselves, fails a model; and what passes is what is left, so that none acquits one. Likewise a group's disparity is
*beyond* only if it is without the groups that differ more: one that is 20 points lower makes each of three others 6.7
points higher than the rest.

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
max(min(D_u, S_u), min(−D_l, −S_l)). *No worse* (W < m) is shown if its upper end lies below m. W < m says (D < m or S <
m) and (D > −m or S > −m); each "or" is claimed if one of two one-sided tests at α/2 rejects, and is wrong with a
probability of α at most; both must be claimed. *Worse* (W > m) is shown if the lower end lies above m, which needs both
D and S beyond m on one side: p = 2 min(max(p_D⁺, p_S⁺), max(p_D⁻, p_S⁻)). An improvement by however much passes, and so
does a gap that changes its sign and not its size.

References
----------
.. [1] Berger (1982), Technometrics 24(4), 295–300.
.. [2] Holm (1979), Scandinavian Journal of Statistics 6(2), 65–70.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy import special

from audit.errors import NotEstimableError, attempt
from audit.statistics.bounded_mean import bounded_mean, narratives_to_bound
from audit.statistics.comparisons import Labelled, difference, over_groups, over_words
from audit.statistics.deciding_estimate import DecidedGap, Kind, Made, rare_share
from audit.statistics.estimates import GapEstimate, t_interval, with_variance
from audit.statistics.families import adjust_p
from audit.statistics.planning import narratives_to_rule_out
from audit.statistics.ratings import FloatArray
from audit.tables.disparity import SHOWN_APART

Decided: TypeAlias = Literal["within", "beyond", "undecided"]
_NAN: Final = float("nan")
_MANY: Final = 10**7  # more narratives than anyone will ask
_TO_TELL: Final = 2.80  # the margin in standard errors that a test at .05 tells from 0 with a chance of 80%


# --- One gap against the margin --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Held:
    """A gap, or how much larger it is than a baseline's, compared with the margin."""

    gap: DecidedGap
    baseline: DecidedGap | None  # the baseline's gap; None if the gap is held by itself
    margin: float  # in the gap's unit
    value: float  # δ, or |δ| − |δ₀|
    low: float  # the interval that must lie inside the margin, with missing ratings at their worst
    high: float
    p_beyond: float  # of lying beyond the margin
    p_adjusted: float = _NAN  # the same corrected for the family
    beyond_low: float = _NAN  # the interval that must lie wholly beyond the margin
    beyond_high: float = _NAN
    beyond_level: float = _NAN  # that interval's confidence
    decided: Decided = "undecided"  # what interval and corrected p show, before limits of the run are considered
    why: str = ""  # why it is not decided
    reasons: tuple[str, ...] = ()  # the same as codes
    # Narratives that would show, with the planned chance, that all gaps lie within, if there is no gap; NaN if more
    # narratives would not help.
    n_needed: float = _NAN


def hold(
    gaps: Sequence[DecidedGap],
    # the baseline's gaps by key; a gap that it lacks is not decided
    baselines: Mapping[tuple[str, str, str, str], DecidedGap] | None,
    *,
    margins: Mapping[Kind, float],  # positive, by kind, in the gap's unit
    alpha: float,  # between 0 and 0.5
    power: float,
    # narratives by dimension, in which n_needed is counted; without them in those that each estimate uses
    n_narratives: Mapping[str, int] | None = None,
) -> list[Held]:
    """Hold all gaps of a family against their margins, as the module describes."""
    lines = [_Line(gap, None if baselines is None else baselines.get(gap.key, _ABSENT), alpha) for gap in gaps]
    found = [
        Held(
            gap=line.gap,
            baseline=None if line.baseline is None or line.baseline is _ABSENT else line.baseline,
            margin=margins[line.gap.kind],
            value=line.value,
            low=_on_scale(line.outer(), line.gap, 1 if line.baseline is None else 2)[0],
            high=_on_scale(line.outer(), line.gap, 1 if line.baseline is None else 2)[1],
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
        low, high = _on_scale((low, high), line.gap, 1 if line.baseline is None else 2)
        at_most = each.high if line.baseline is not None else reach_of(each.gap, alpha=alpha)
        decided: Decided = "undecided"
        if p_adjusted <= alpha:
            decided = "beyond"
        elif at_most < each.margin:
            decided = "within"
        why, reasons = line.why(each.margin) if decided == "undecided" else ("", ())
        apart: tuple[str, ...] = ()
        if decided == "within" and line.baseline is None:
            apart = beyond_apart(line.gap, gaps, each.margin, alpha=alpha)
        if apart:
            decided, why, reasons = (
                "undecided",
                "; ".join(f"within the margin, but {SHOWN_APART[code]}" for code in apart),
                apart,
            )
        key = line.gap.dimension, line.gap.variant, line.gap.kind
        n_asked = None if n_narratives is None else n_narratives[line.gap.dimension]
        wanted = line.n_needed(each.margin, power=1 - (1 - power) / len(found), n_narratives=n_asked, sd=spreads[key])
        wanted = _NAN if apart else wanted
        made.append(
            replace(each, p_adjusted=p_adjusted, beyond_low=low, beyond_high=high, beyond_level=level, decided=decided,
                    why=why, reasons=reasons, n_needed=wanted)
        )  # fmt: skip
    return made


def beyond_apart(gap: DecidedGap, gaps: Sequence[DecidedGap], margin: float, *, alpha: float) -> tuple[str, ...]:
    """Return the codes of views, cues and emotions in which a disparity is shown beyond the margin, corrected for all.

    What is within the margin over all perceivers, terms and emotions does not acquit a model that rates a group lower
    as it is deployed, if it is told by a first name, or in its anger.
    """
    size = sum(len(each.apart) for each in gaps)
    return tuple(
        dict.fromkeys(
            code for code, found in gap.apart if found and _both_sides(found, margin + gap.off) <= alpha / size
        )
    )


def _levels(p: FloatArray, size: int, *, alpha: float) -> list[float]:
    """Return the confidence of each gap's own step of Holm's procedure; after the first step not taken, that step's."""
    levels, failed = [_NAN] * len(p), False
    level = _NAN
    for rank, place in enumerate(np.argsort(p, kind="stable")[:size]):
        if not failed:
            level = 1 - alpha / (size - rank)
            failed = not p[place] <= alpha / (size - rank)
        levels[place] = level
    return levels


_ABSENT: Final = DecidedGap(
    "average", "", "", "", NotEstimableError("the baseline does not have this gap"), (), (0.0, 1.0)
)


def outer_interval(gap: DecidedGap, *, alpha: float) -> tuple[float, float]:
    """Return the interval of a gap that must lie inside a margin, in the gap's unit; NaN without one.

    It is the interval of two one-sided tests at α, widened by the worst cases of missing ratings and of ratings that
    are known within bounds.
    """
    if isinstance(gap.made, NotEstimableError):
        return _NAN, _NAN
    low, high = _t(gap.made, 1 - 2 * alpha)
    if not math.isnan(gap.bound):
        return (-gap.bound, gap.bound) if math.isnan(low) else (min(low, -gap.bound), max(high, gap.bound))
    if isinstance(gap.worst, NotEstimableError):
        return _NAN, _NAN
    ends = [_t(each, 1 - 2 * alpha) for each in gap.worst or ()]
    low, high = _least(low, *(each[0] for each in ends)), _most(high, *(each[1] for each in ends))
    return low - gap.off, high + gap.off


def reach_of(gap: DecidedGap, *, alpha: float) -> float:
    """Return the smallest margin that a gap is shown to lie within, in its unit; NaN without an interval.

    For an average and a disparity, this includes narratives with a large gap that were not drawn (see
    :func:`~audit.statistics.bounded_mean.bounded_mean`), wherever missing ratings lie. Without a scale there is no such
    bound, and the margin is infinite.
    """
    ends = [*outer_interval(gap, alpha=alpha)]
    if gap.may_be_rare and math.isinf(gap.reach):
        return math.inf
    if gap.may_be_rare and isinstance(gap.made, GapEstimate):
        worst = () if isinstance(gap.worst, NotEstimableError) else gap.worst or ()
        for each in (gap.made, *worst):
            rare = bounded_mean(_of_seen(gap, each), reach=gap.reach, alpha=alpha)
            ends += (rare[0] - gap.off, rare[1] + gap.off)
    return min(_most(*map(abs, ends)), gap.reach)


def _of_seen(gap: DecidedGap, made: GapEstimate) -> FloatArray:
    """Return narratives' gaps that say something of the member: with n of N narratives it counts n/N in these."""
    own = made.by_narrative
    if gap.seen is None or gap.seen.all():
        return own
    share = float((~np.isnan(own[gap.seen])).sum() / (~np.isnan(own)).sum())
    return np.asarray(made.delta + share * (own[gap.seen] - made.delta))


def narrow_variance(made: GapEstimate) -> float:
    """Return the variance of an estimate over narratives alone; NaN with fewer than two narratives."""
    used = ~np.isnan(made.by_narrative)
    if used.sum() < 2:
        return _NAN
    return float((made.weights[used] * (made.by_narrative[used] - made.delta) ** 2).sum() / (used.sum() - 1))


def groups_differ_too_much(gap: DecidedGap, margin: float) -> bool:
    """Whether groups, or words, differ so much in a gap that no number of narratives is likely to show it inside."""
    among = gap.without or gap.is_disparity
    if isinstance(gap.made, NotEstimableError) or not among or not gap.made.se > 0:
        return False
    return further_variance(gap.made) * _TO_TELL**2 >= margin**2


def left_to_narratives(gap: DecidedGap, made: GapEstimate, margin: float, *, alpha: float, power: float) -> float:
    """Return what groups, or words, leave of a margin: they take their part however many narratives are asked."""
    further = further_variance(made) if gap.without or gap.is_disparity else 0.0
    if not further > 0:
        return margin
    # A margin of this many standard errors is ruled out with the chance ``power`` if there is no gap.
    errors = float(special.stdtrit(made.df, 1 - alpha) + special.ndtri((1 + power) / 2))
    return math.sqrt(max(0.0, margin**2 - further * errors**2))


def further_variance(made: GapEstimate) -> float:
    """Return the part of an estimate's variance that narratives do not have: of groups, of words."""
    return max(0.0, made.se**2 - float(np.nan_to_num(narrow_variance(made))))


class _Line:
    """The intervals and p of one gap, alone or beside the baseline's."""

    def __init__(self, gap: DecidedGap, baseline: DecidedGap | None, alpha: float) -> None:
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
            self.plain = self._pair(gap.plain, baseline.plain, plain=True)

    def _pair(self, own: Made, theirs: Made, *, plain: bool = False) -> tuple[GapEstimate, GapEstimate]:
        """Return the paired change D and sum S, narrative by narrative; ``plain`` marks the gaps before a control."""
        assert self.baseline is not None
        assert isinstance(own, GapEstimate) and isinstance(theirs, GapEstimate)  # noqa: PT018
        first, second = (
            Labelled(label, each, of.narrative_ids, of.scale, of.without)
            for label, each, of in (("run", own, self.gap), ("baseline", theirs, self.baseline))
        )
        opposite = replace(theirs, by_narrative=-theirs.by_narrative, delta=-theirs.delta)
        confidence = 1 - self.alpha
        change, _ = difference(first, second, confidence=confidence)
        total, _ = difference(first, replace(second, estimate=opposite), confidence=confidence)
        if self.gap.kind == "group":
            return self._beside_pairs(change), self._beside_pairs(total)
        if self.gap.is_disparity:
            return self._beside_words(change, -1.0, plain=plain), self._beside_words(total, 1.0, plain=plain)
        change = over_groups(change, first, second, confidence=confidence)
        return change, over_groups(total, first, second, confidence=confidence, sign=1.0)

    def _beside_pairs(self, pair: GapEstimate) -> GapEstimate:
        """Widen a change or sum by how much pairs of groups differ anyway."""
        assert self.baseline is not None
        if pair.not_estimable:
            return pair
        assert isinstance(self.gap.made, GapEstimate) and isinstance(self.baseline.made, GapEstimate)  # noqa: PT018
        extra = self.gap.pair_variance + self.baseline.pair_variance
        df = min(self.gap.made.df, self.baseline.made.df)
        return with_variance(pair, extra, df, confidence=1 - self.alpha)

    def _beside_words(self, pair: GapEstimate, sign: float, *, plain: bool) -> GapEstimate:
        """Widen a change or sum of disparities by how much words, or labels, differ in it."""
        assert self.baseline is not None
        known = [each.words for each in (self.gap, self.baseline) if each.words is not None]
        if plain:  # it is without the groups that differ more
            known = [replace(each, share=each.share_beside) for each in known]
        if len(known) == 2:
            return over_words(pair, *known, confidence=1 - self.alpha, sign=sign)
        for each in known:
            pair = with_variance(pair, each.share * each.variance, each.df, confidence=1 - self.alpha)
        return pair

    @property
    def value(self) -> float:
        if isinstance(self.gap.made, NotEstimableError):
            return _NAN
        if self.baseline is None:
            return self.gap.made.delta
        if self.change is None or self.sum is None:
            return _NAN
        return _worse(self.change.delta, self.sum.delta)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval at a confidence level; NaN without one."""
        if self.fault or isinstance(self.gap.made, NotEstimableError):
            return _NAN, _NAN
        if self.baseline is None:
            return _t(self.gap.made, level)
        assert self.change is not None
        assert self.sum is not None
        return _box(_t(self.change, level), _t(self.sum, level))

    @property
    def off(self) -> float:
        """How far the value could be off because ratings are known within bounds, in points."""
        return self.gap.off + (0.0 if self.baseline is None else self.baseline.off)

    def outer(self) -> tuple[float, float]:
        """Return the interval that must lie inside the margin, with missing and inexact ratings at their worst."""
        if self.fault or isinstance(self.gap.made, NotEstimableError):
            return _NAN, _NAN
        if self.baseline is None:
            return outer_interval(self.gap, alpha=self.alpha)
        low, high = self.interval(1 - self.alpha)
        low, high = low - self.off, high + self.off
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
        return _least(low, worst[0] - self.off), _most(high, worst[1] + self.off)

    def p_beyond(self, margin: float) -> float:
        if self.fault or isinstance(self.gap.made, NotEstimableError) or not math.isnan(self.gap.bound):
            return _NAN
        return _both_sides((*self._held, *self.plain), margin + self.off)

    @property
    def _held(self) -> tuple[GapEstimate, ...]:
        """The estimates that must all lie beyond the margin on one side."""
        if self.baseline is None:
            assert isinstance(self.gap.made, GapEstimate)
            return (self.gap.made,)
        assert self.change is not None
        assert self.sum is not None
        return self.change, self.sum

    def by_control(self, margin: float) -> bool:
        """Whether the gap lies beyond the margin only after a control, or beside another group that differs."""
        if not math.isfinite(self.p_beyond(margin)):
            return False
        return _both_sides(self._held, margin + self.off) <= self.alpha < self.p_beyond(margin)

    def why(self, margin: float) -> tuple[str, tuple[str, ...]]:
        """Why the gap is not decided, in words and as codes."""
        if self.fault:
            return self.fault, ("not_estimable",)
        for whose, each in (("", self.gap), ("of the baseline: ", self.baseline)):
            if each is not None and isinstance(each.worst, NotEstimableError):
                said = f"{whose}ratings are missing, and what they could be has no bound: {each.worst}"
                return said, ("missing",)
        if not math.isnan(self.gap.bound):
            return "too few narratives to say how rare refusals are", ("few_refusals",)
        if self.by_control(margin):
            if self.gap.is_disparity:
                return "beyond the margin only because another group differs", ("bystander",)
            said = (
                "beyond the margin only once the gap of invented groups is taken off: the gap of these groups is not "
                "shown to lie beyond it on that side"
            )
            return said, ("by_control_alone",)
        if self.off > 0 and _both_sides((*self._held, *self.plain), margin) <= self.alpha:
            return "ratings are known within bounds, in which the gap could lie within the margin", ("bounded",)
        low, high = self.interval(1 - (2 if self.baseline is None else 1) * self.alpha)
        inside = high < margin and (self.baseline is not None or low > -margin)
        if inside and self.gap.worst is None and self.off > 0:
            low, high = low - self.off, high + self.off
            if not (high < margin and (self.baseline is not None or low > -margin)):
                return "ratings are known within bounds, which could hide a gap beyond the margin", ("bounded",)
        if inside and (self.gap.worst is not None or (self.baseline is not None and self.baseline.worst is not None)):
            return "missing ratings could hide a gap beyond the margin", ("missing",)
        if inside:
            return "a few narratives with a large gap, which these did not happen to show, could hide one", (
                "rare_gaps",
            )
        if self.baseline is None and self.gap.is_disparity and groups_differ_too_much(self.gap, margin):
            return (
                "the interval reaches beyond the margin, and more narratives would not help: the words of a group, or "
                "the labels of invented groups, differ by as much; ask about more terms for each group"
            ), ("margin_open",)
        return "the interval reaches beyond the margin, and does not lie wholly beyond it", ("margin_open",)

    @property
    def planned(self) -> GapEstimate | None:
        """The estimate whose spread over narratives planning uses: the gap, or its change; None without one."""
        of = self.gap.made if self.baseline is None else self.change
        return None if self.fault or isinstance(of, NotEstimableError) else of

    def n_needed(self, margin: float, *, power: float, n_narratives: int | None, sd: float) -> float:
        """Narratives that show the gap (or its change) within the margin if it is 0; NaN if none do."""
        of = self.planned
        if of is None:
            return _NAN
        if not math.isnan(self.gap.bound):
            return self._n_for_refusals(of.n_narratives, margin)
        margin -= self.off  # no number of narratives makes up for inexact ratings
        if not (of.se > 0 and margin > 0) or self.by_control(margin):
            return _NAN
        if self.baseline is None and groups_differ_too_much(self.gap, margin):
            return _NAN
        # An emotion's few narratives tell badly what groups take.
        is_emotion = self.gap.kind == "emotion"
        left = margin if is_emotion else left_to_narratives(self.gap, of, margin, alpha=self.alpha, power=power)
        if not left > 0:
            return _NAN
        wanted = narratives_to_rule_out(left, sd, power=power, alpha=self.alpha) if sd > 0 else 0
        if self.gap.may_be_rare and self.baseline is None:
            own = _of_seen(self.gap, of)
            n_bound = narratives_to_bound(margin, reach=self.gap.reach, alpha=self.alpha, gaps=own, power=power)
            wanted = max(wanted, n_bound * len(of.by_narrative) / max(1, len(own)))
        wanted *= 1 if n_narratives is None else n_narratives / of.n_narratives
        return float(math.ceil(wanted)) if wanted < _MANY else _NAN

    def _n_for_refusals(self, n_now: int, margin: float) -> float:
        """Narratives that would show that refusals are rare, if they stay as rare as they are."""
        rate = self.gap.n_refused / n_now
        n = n_now
        while n < _MANY and self.gap.farthest * rare_share(math.ceil(rate * n), n, 1 - self.alpha) >= margin:
            n += max(1, n // 200)
        return float(n) if n < _MANY else _NAN


def _spread(lines: Sequence[_Line], dimension: str, variant: str, kind: Kind) -> float:
    """Return the SD of narratives in gaps of a kind, pooled: few narratives of one emotion tell it badly."""
    own = [(line.gap, line.planned) for line in lines if (line.gap.dimension, line.gap.variant, line.gap.kind)
           == (dimension, variant, kind)]  # fmt: skip
    # Of groups, or words, more narratives do not tell more.
    squares = [
        (each.se**2 - (further_variance(each) if gap.without or gap.is_disparity else 0.0)) * each.n_narratives
        for gap, each in own if each is not None and each.se > 0
    ]  # fmt: skip
    return float(np.mean(squares)) ** 0.5 if squares else _NAN


def _t(estimate: GapEstimate, level: float) -> tuple[float, float]:
    low, high, _ = t_interval(estimate.delta, estimate.se, estimate.df, confidence=level)
    return low, high


def _above(estimate: GapEstimate, margin: float, value: float) -> float:
    """One-sided p that a value with an estimate's spread lies above the margin; 0 or 1 without a spread."""
    if not estimate.se > 0:
        return 0.0 if value > margin else 1.0
    return float(special.stdtr(estimate.df, (margin - value) / estimate.se))


def _both_sides(estimates: Sequence[GapEstimate], margin: float) -> float:
    """Two-sided p that all estimates lie beyond the margin on one side."""
    up, down = (max(_above(each, margin, side * each.delta) for each in estimates) for side in (1, -1))
    return min(1.0, 2 * min(up, down))


def _worse(change: float, total: float) -> float:
    return max(min(change, total), min(-change, -total))


def _box(change: tuple[float, float], total: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of |δ| − |δ₀| where change and sum lie in these intervals; NaN if one is not finite."""
    if not all(map(math.isfinite, (*change, *total))):
        return _NAN, _NAN
    low = max(min(change[0], total[0]), min(-change[1], -total[1]))
    return low, max(min(change[1], total[1]), min(-change[0], -total[0]))


def _ends(gap: DecidedGap) -> tuple[GapEstimate | None, GapEstimate | None]:
    if isinstance(gap.worst, NotEstimableError) or isinstance(gap.made, NotEstimableError):
        return None, None
    return (gap.made, gap.made) if gap.worst is None else gap.worst


def _on_scale(ends: tuple[float, float], gap: DecidedGap, times: int = 1) -> tuple[float, float]:
    """Cut an interval where a gap can reach; for a change, at twice that."""
    length = times * gap.reach
    return max(ends[0], -length), min(ends[1], length)


def _least(*values: float) -> float:
    return _NAN if any(map(math.isnan, values)) else min(values)


def _most(*values: float) -> float:
    return _NAN if any(map(math.isnan, values)) else max(values)
