"""The estimate that a verdict on a gap rests on, one for each gap of a run.

A gap is one *between groups* only where repeated words cannot have made it and where groups, not these pairs of words,
show it. So each gap has one deciding estimate:

- **Control.** Of pairs without a common word (``echo_free``) where terms allow that. Else what the same words show
  beyond invented groups in the same narratives (``placebo``). Else the gap as it is (``none``).
- **Scope.** ``groups``: the groups are a sample of such groups, and their spread counts beside that of narratives
  (:func:`~audit.statistics.scopes.widened`). It takes five groups. With fewer, the estimate speaks of these pairs of
  words alone (``pairs``), and no gap between groups can be claimed.

The interval over narratives alone treats every pair of words as fixed. Where pairs of groups differ (SD .5) and there
is no gap, it leaves out 0 in 20 to 45% of runs of 100 narratives; the deciding estimate in 1 to 6% (docs/statistics.md
has the table, ``python benchmarks/deciding_test.py`` makes it).

A group's own gap is estimated beside the pairs that stand out (:func:`~audit.statistics.odd_pairs.odd_pairs`), and held
against how much the other pairs differ anyway (:func:`~audit.statistics.own_groups.pair_variance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from scipy import special

from audit.errors import NotEstimableError, attempt
from audit.statistics import scopes
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import WordEffects
from audit.statistics.controls import RANDOM_SETS, Repetition, beyond_placebo
from audit.statistics.conversations import wider_over_conversations
from audit.statistics.echo import same_words_cube
from audit.statistics.estimates import GapEstimate, with_variance
from audit.statistics.families import own_group_gaps
from audit.statistics.headline import headline_gap
from audit.statistics.incomplete import rating_weights
from audit.statistics.inexactness import gap_off
from audit.statistics.missing import estimate_refusal_gap
from audit.statistics.narrative_fits import designed_weights
from audit.statistics.odd_pairs import beside_odd_pairs, odd_pairs
from audit.statistics.outcome import INTENSITY, DimensionAnalysis, Outcome
from audit.statistics.own_groups import MIN_GROUPS_OF_OWN_GAPS, own_group_weights, pair_variance
from audit.statistics.ratings import BoolArray, FloatArray
from audit.statistics.scopes import GroupScope, group_scope, widened
from audit.tables.formatting import SAME

Kind: TypeAlias = Literal["average", "emotion", "group", "refusals", "disparity", "group_refusals"]
Control: TypeAlias = Literal["echo_free", "placebo", "none", "not_needed"]
Scope: TypeAlias = Literal["groups", "pairs"]
Made: TypeAlias = "GapEstimate | NotEstimableError"
Place: TypeAlias = tuple[str, ...]  # dimension and variant; for measures of texts also the measure
DISPARITIES: Final = ("disparity", "group_refusals")
"""Kinds of D: of ratings, and of refusals."""
FEW_REFUSALS: Final = 10  # with fewer narratives that have one, a t interval is too narrow: an exact bound is used
_NAN: Final = float("nan")


@dataclass(frozen=True, eq=False)
class DecidedGap:
    """One gap of a run, with the estimate that decides about it."""

    kind: Kind
    member: str
    dimension: str
    variant: str
    made: Made  # in points of the scale, for refusals in percentage points; or why there is none
    narrative_ids: tuple[Any, ...]  # as made.by_narrative; conversations, if narratives are utterances of them
    scale: tuple[float, float]  # the two ends, in points; for refusals 0 and 100; infinite without a scale
    # If ratings are missing, the estimate with them where they make it lowest, and highest, or why that cannot be told.
    worst: tuple[GapEstimate, GapEstimate] | NotEstimableError | None = None
    control: Control = "none"  # for repeated words; not_needed for refusals
    scope: Scope = "groups"
    why_pairs: str = ""  # why it speaks of these pairs of words alone; empty if it speaks of groups
    # by sample of groups, the estimate without each group, in points; empty if it speaks of pairs
    without: tuple[Mapping[str, float], ...] = ()
    # The part of its variance that narratives do not have, in squared points: of a group's own gap due to pairs, of a
    # disparity due to terms or labels.
    pair_variance: float = 0.0
    words: WordEffects | None = None  # of a disparity: what that part is of; None if it speaks of these words alone
    # Codes of what keeps it from being judged, of a disparity or a mean over dimensions, and of what keeps a disparity
    # from being one of the group.
    held_back: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    qualified: tuple[str, ...] = ()  # codes of what is to be said beside it, such as that one perceiver alone shows it
    # Of a disparity, the same in another view, cue or emotion, by code; all estimates must lie beyond a margin.
    apart: tuple[tuple[str, tuple[GapEstimate, ...]], ...] = ()
    # Of a disparity, the narratives in which the group itself was asked about, shape (N,); None if all say something.
    seen: BoolArray | None = None
    # The gap before invented groups' gap was taken off; a disparity without the groups that differ more, on the other
    # side. What is shown of the gap must be shown of this one, too. None if there is no such.
    plain: GapEstimate | None = None
    # A second control, if there are two: the same words beyond invented groups, of the same emotion or group (of the
    # average, if the group's terms do not tell its own gap in the same words); or why it has no estimate.
    other: Made | None = None
    off: float = 0.0  # how far the estimate could be off because ratings are known within bounds, in points
    # For refusals in fewer than FEW_REFUSALS narratives: no gap is larger, in percentage points, with a confidence of 1
    # − α; else NaN.
    bound: float = _NAN
    farthest: float = _NAN  # for refusals, the largest gap that a narrative can have, in percentage points
    n_refused: int = 0  # for refusals, how many narratives had one
    outcome: Outcome = INTENSITY  # what the gap is of, and in whose unit

    @property
    def place(self) -> Place:
        """Dimension and variant, and the measure if there is one."""
        return (self.dimension, self.variant, *(() if self.outcome.rated else (self.outcome.name,)))

    @property
    def is_disparity(self) -> bool:
        """Whether it is a group's disparity, of ratings or of refusals."""
        return self.kind in DISPARITIES

    @property
    def is_of_refusals(self) -> bool:
        """Whether it is in percentage points of prompts."""
        return self.kind in ("refusals", "group_refusals")

    @property
    def may_be_rare(self) -> bool:
        """Whether a large one in a few narratives that were not drawn is reckoned with."""
        return self.kind in ("average", "disparity")

    @property
    def n_narratives(self) -> int:
        """The number of narratives that the estimate uses; 0 without an estimate."""
        return 0 if isinstance(self.made, NotEstimableError) else self.made.n_narratives

    @property
    def reach(self) -> float:
        """The farthest from 0 that a narrative's gap can lie, in its unit."""
        # A difference of two gaps reaches twice as far as one. So does a group's own gap: what its other ratings lead
        # to expect may itself lie beyond the scale.
        times = (2 if self.kind == "group" else 1) + (1 if self.control == "placebo" else 0)
        return abs(self.scale[1] - self.scale[0]) * times

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identifies the gap within a run."""
        return self.dimension, self.variant, self.kind, self.member


@dataclass(frozen=True, eq=False)
class _Estimated:
    """An estimate, its scope, and the parts of its spread."""

    estimate: GapEstimate
    without: tuple[Mapping[str, float], ...] = ()
    why_pairs: str = ""
    pair_variance: float = 0.0
    plain: GapEstimate | None = None


def gaps_of(
    part: DimensionAnalysis,  # its gap is echo-free if terms allow that
    *,
    placebos: Mapping[str, NarrativeCube],  # ratings in the variant by set of invented groups
    repetition: Repetition,
    scale: tuple[float, float],  # the two ends, in points; infinite without a scale
    confidence: float,  # of the intervals, and of the bound of rare refusals
    # the farthest that missing ratings may lie from what is expected, in points; None: anywhere
    missing_shift: float | None = None,
    average_alone: bool = False,  # leave out emotions, groups and refusals
    refusals: bool = True,  # whether the run can show refusals
) -> Iterator[DecidedGap]:
    """Yield the gaps of one dimension and variant that a verdict looks at.

    Notes
    -----
    If the gap is not echo-free and invented groups were asked, each gap is of pairs in the very same words, less the
    mean gap of invented groups in the same narratives: the row ``placebo_difference`` of the controls, and the same of
    the narratives of each emotion, and of each group's own gap. Of two groups there is one gap, which is the average.
    """
    lay = _EstimationPlan.of(
        part, placebos, repetition, scale=scale, confidence=confidence, missing_shift=missing_shift
    )
    yield lay.average()
    if average_alone:
        return
    emotions = [name for name in dict.fromkeys(lay.cube.emotions) if name]
    for name in emotions if len(emotions) > 1 else ():
        yield lay.average(name)
    yield from lay.groups()
    if refusals:
        yield _refusals(part.cube, confidence=confidence)


@dataclass(frozen=True, eq=False)
class _EstimationPlan:
    """How the gaps of one dimension and variant are estimated: cube, control, scale and confidence."""

    part: DimensionAnalysis
    cube: NarrativeCube
    headline: tuple[GapEstimate, GroupScope] | None
    control: Control
    placebos: Mapping[str, NarrativeCube]
    stems: Mapping[str, Mapping[str, str]]
    scale: tuple[float, float]
    confidence: float
    missing_shift: float | None
    second: _EstimationPlan | None = None

    @classmethod
    def of(
        cls,
        part: DimensionAnalysis,
        placebos: Mapping[str, NarrativeCube],
        repetition: Repetition,
        *,
        scale: tuple[float, float],
        confidence: float,
        missing_shift: float | None,
    ) -> _EstimationPlan:
        cube, stems = part.cube.without_baselines(), repetition.stems
        plain = cls(part, cube, _headline(part), "none", {}, stems, scale, confidence, missing_shift)
        beyond = None
        if placebos:
            same = attempt(lambda: same_words_cube(replace(cube, echoing=None), stems.get(cube.dimension, {})))
            if not isinstance(same, NotEstimableError):
                layout = replace(plain, cube=same, headline=None, control="placebo", placebos=placebos)
                if not isinstance(attempt(lambda: layout.estimate(same)), NotEstimableError):
                    beyond = layout
        if part.cube.echoing is not None:
            return replace(plain, control="echo_free", second=beyond)
        return plain if beyond is None else beyond

    def average(self, emotion: str = "") -> DecidedGap:
        """Return the average gap of all narratives, or of those of one emotion."""
        of = self._of_emotion(emotion)
        gap = self._laid("emotion" if emotion else "average", emotion, of, self.estimate, lambda: designed_weights(of))
        second = self.second
        if second is None:
            return gap
        return replace(gap, other=attempt(lambda: second.estimate(second._of_emotion(emotion)).estimate))

    def _of_emotion(self, emotion: str) -> NarrativeCube:
        if not emotion:
            return self.cube
        return self.cube.of_narratives(np.array([each == emotion for each in self.cube.emotions]))

    @cached_property
    def _without_odd_pairs(self) -> NarrativeCube:
        return beside_odd_pairs(self.cube, odd_pairs(self.cube))

    @cached_property
    def _why_pairs(self) -> str:
        """Why these gaps speak of pairs of words alone; empty if they speak of groups."""
        found = attempt(lambda: self.estimate(self.cube))
        return str(found) if isinstance(found, NotEstimableError) else found.why_pairs

    def groups(self) -> Iterator[DecidedGap]:
        """Yield each group's own gap, estimated beside the pairs of groups that stand out."""
        cube = self._without_odd_pairs
        groups = tuple(dict.fromkeys(cube.perceiver_groups))
        undetermined = (
            len(groups) >= MIN_GROUPS_OF_OWN_GAPS
            and set(groups) == set(cube.experiencer_groups)
            and "+" not in cube.dimension
        )
        if not (undetermined or own_group_gaps(cube, confidence=self.confidence)):
            return
        for place, name in enumerate(groups):
            estimate = partial(self._of_group, name=name)
            gap = self._laid("group", name, cube, estimate, partial(_group_weights, cube, groups, place))
            yield gap if self.second is None else replace(gap, other=self.second._as_control(name))

    def _as_control(self, group: str) -> Made:
        """Return a group's own gap as a second control; the average if the terms do not determine the group's own."""
        own = attempt(lambda: self._of_group(self._without_odd_pairs, name=group).estimate)
        return own if isinstance(own, GapEstimate) else attempt(lambda: self.estimate(self.cube).estimate)

    def estimate(self, of: NarrativeCube, placebos: Mapping[str, NarrativeCube] | None = None) -> _Estimated:
        """Estimate the average gap of a cube, over groups if it has enough of them, else over pairs."""
        # All narratives are asked for by the average, by each group and as a second control.
        return self._whole if of is self.cube and placebos is None else self._estimated(of, placebos)

    @cached_property
    def _whole(self) -> _Estimated:
        return self._estimated(self.cube, None)

    def _estimated(self, of: NarrativeCube, placebos: Mapping[str, NarrativeCube] | None) -> _Estimated:
        if of is self.cube and self.headline is not None:
            narrow, scope = self.headline
        else:
            narrow = self._gap_of(of)
            scope = self._scope_of(of, narrow)
        over = self._over(narrow, of.narrative_ids)
        wide = scope.estimate
        if not scope.no_claim and over is not narrow:
            wide = over if over.not_estimable else wider_over_conversations(
                wide, over, narrow, confidence=self.confidence
            )  # fmt: skip
        if self.control != "placebo":
            if scope.no_claim:
                return _Estimated(over, why_pairs=scope.no_claim)
            return _Estimated(wide, (scope.leave_one_out,))
        used = self.placebos if placebos is None else placebos
        left = self._over(self._beyond(narrow, of.narrative_ids, used), of.narrative_ids)
        # Narratives that all show one gap have no spread of their own; less invented groups' gaps they have one.
        alike = narrow.not_estimable.endswith(SAME) and len(scope.leave_one_out) >= scopes.MIN_GROUPS_FOR_OTHERS
        if scope.no_claim and not alike:
            return _Estimated(left, why_pairs=scope.no_claim, plain=over)
        samples = (scope.leave_one_out, *self._invented(used))
        if left.not_estimable:  # with one narrative that has both gaps, say: there is no interval to widen
            return _Estimated(left, samples, plain=wide)
        return _Estimated(widened(left, samples, confidence=self.confidence), samples, plain=wide)

    def _gap_of(self, cube: NarrativeCube) -> GapEstimate:
        return headline_gap(cube, confidence=self.confidence)

    def _scope_of(self, cube: NarrativeCube, narrow: GapEstimate) -> GroupScope:
        return group_scope(cube, narrow, confidence=self.confidence)

    def _over(self, narrow: GapEstimate, narrative_ids: Sequence[Any]) -> GapEstimate:
        """Widen an estimate over conversations, where narratives are utterances of them."""
        return narrow if self.part.dependent is None else self.part.dependent(narrow, narrative_ids)[0]

    def _of_group(
        self, of: NarrativeCube, placebos: Mapping[str, NarrativeCube] | None = None, *, name: str
    ) -> _Estimated:
        gaps = own_group_gaps(of, confidence=self.confidence, only=name)
        if name not in gaps:
            raise NotEstimableError("the ratings do not determine this group's own gap")
        extra, df = pair_variance(of, name)

        def noisy(narrow: GapEstimate) -> GapEstimate:
            return with_variance(narrow, extra, df, confidence=self.confidence)

        # Few groups are not a sample of groups, for one group's own gap either.
        known = partial(_Estimated, why_pairs=self._why_pairs, pair_variance=extra)
        if self.control != "placebo":
            return known(noisy(gaps[name]))
        left = self._beyond(gaps[name], of.narrative_ids, self.placebos if placebos is None else placebos)
        return known(noisy(left), plain=noisy(gaps[name]))

    def _beyond(
        self, narrow: GapEstimate, narrative_ids: Sequence[Any], placebos: Mapping[str, NarrativeCube]
    ) -> GapEstimate:
        return beyond_placebo(
            narrow, narrative_ids, placebos=placebos, stems=self.stems, confidence=self.confidence,
            independent=self.part.dependent is None,
        )  # fmt: skip

    def _invented(self, placebos: Mapping[str, NarrativeCube]) -> Iterator[Mapping[str, float]]:
        """For each set of invented groups, what it takes off the gap without each of its groups.

        With :data:`RANDOM_SETS` or more, the sets are a sample of such sets, and their spread is in the difference
        already.
        """
        if self.part.dependent is None and len(placebos) >= RANDOM_SETS:
            return
        for name, each in placebos.items():
            cube = attempt(lambda each=each, name=name: same_words_cube(each, self.stems.get(name, {})))  # type: ignore[misc]
            if isinstance(cube, NotEstimableError):
                continue
            narrow = attempt(lambda cube=cube: self._gap_of(cube))  # type: ignore[misc]
            if isinstance(narrow, GapEstimate):
                scope = self._scope_of(cube, narrow)
                if len(scope.leave_one_out) > 1:
                    yield {group: -delta / len(placebos) for group, delta in scope.leave_one_out.items()}

    def _laid(
        self, kind: Kind, member: str, of: NarrativeCube, estimate: Callable[..., _Estimated],
        weights: Callable[[], FloatArray],
    ) -> DecidedGap:  # fmt: skip
        found = attempt(lambda: estimate(of))
        gap = DecidedGap(
            kind, member, of.dimension, of.variant, NotEstimableError(""), of.narrative_ids, self.scale,
            control=self.control, outcome=self.part.outcome,
        )  # fmt: skip
        if isinstance(found, NotEstimableError):
            return replace(gap, made=found)
        return replace(
            gap,
            made=found.estimate,
            narrative_ids=self._units(of.narrative_ids, found.estimate),
            worst=self._worst(of, estimate, weights, found),
            scope="pairs" if found.why_pairs else "groups",
            why_pairs=found.why_pairs,
            without=found.without,
            pair_variance=found.pair_variance,
            plain=found.plain,
            off=self._off(of, found.estimate),
        )

    def _units(self, narrative_ids: tuple[Any, ...], made: GapEstimate) -> tuple[Any, ...]:
        """Return the units that an estimate has a gap for: narratives, or their conversations."""
        return units_of(
            narrative_ids, made, dict(zip(self.part.cube.narrative_ids, self.part.conversations, strict=False))
        )

    def _off(self, of: NarrativeCube, estimate: GapEstimate) -> float:
        """How far a gap, less invented groups', could be off in points because ratings are known within bounds."""
        own = gap_off(of, estimate)
        invented = []
        for name, each in self.placebos.items():
            cube = attempt(lambda each=each, name=name: same_words_cube(each, self.stems.get(name, {})))  # type: ignore[misc]
            if isinstance(cube, NarrativeCube) and isinstance(
                narrow := attempt(lambda cube=cube: self._gap_of(cube)),  # type: ignore[misc]
                GapEstimate,
            ):
                invented.append(np.nan_to_num(gap_off(cube, narrow)))
        return float(np.nan_to_num(own) + (np.mean(invented) if invented else 0.0))

    def _worst(
        self, of: NarrativeCube, estimate: Callable[..., _Estimated], weights: Callable[[], FloatArray],
        found: _Estimated,
    ) -> tuple[GapEstimate, GapEstimate] | NotEstimableError | None:  # fmt: skip
        """Return the estimate with every missing rating where it makes the gap lowest, and highest."""
        cubes = [of, *(each.without_baselines() for each in self.placebos.values())]
        if any((each.expected & (each.status < 0)).any() for each in cubes):
            return NotEstimableError("some prompts were never asked")
        if not any(each.lacking.any() for each in cubes):
            return None
        own = attempt(weights)
        if isinstance(own, NotEstimableError):
            return own
        signs = [own, *(_placebo_weights(each, self.stems) for each in cubes[1:])]
        if self.missing_shift is not None:
            half = self.missing_shift * sum(
                float((np.abs(w) * each.lacking).sum(axis=(1, 2)).mean()) / (1 if place == 0 else len(self.placebos))
                for place, (each, w) in enumerate(zip(cubes, signs, strict=True))
            )
            return moved(found.estimate, -half), moved(found.estimate, half)

        def at(toward: int) -> GapEstimate:
            filled = [with_missing_filled(each, toward * (w if place == 0 else -w), self.scale)
                      for place, (each, w) in enumerate(zip(cubes, signs, strict=True))]  # fmt: skip
            return estimate(filled[0], dict(zip(self.placebos, filled[1:], strict=True)) or None).estimate

        least, most = attempt(lambda: at(-1)), attempt(lambda: at(1))
        if isinstance(least, NotEstimableError):
            return least
        return most if isinstance(most, NotEstimableError) else (least, most)


def _headline(part: DimensionAnalysis) -> tuple[GapEstimate, GroupScope] | None:
    """Return the run's headline and its wider scope, as the table of gaps has them; None if there is no headline."""
    found = part.estimates
    if isinstance(found.headline, NotEstimableError):
        return None
    scope = found.scopes[found.estimator]
    return None if isinstance(scope, NotEstimableError) else (found.headline, scope)


def units_of(narrative_ids: Sequence[Any], made: GapEstimate, unit_of: Mapping[Any, str]) -> tuple[Any, ...]:
    """Return the units that an estimate has a gap for: narratives, or their conversations."""
    if len(made.by_narrative) == len(narrative_ids):
        return tuple(narrative_ids)
    return tuple(dict.fromkeys(unit_of[name] for name in narrative_ids))


def moved(estimate: GapEstimate, by: float) -> GapEstimate:
    """Shift an estimate, and each narrative's gap, by that many points; its uncertainty stays."""
    # Bounds of rare gaps, and changes against a baseline, use narratives' gaps and not their mean.
    return replace(
        estimate, delta=estimate.delta + by, ci_low=estimate.ci_low + by, ci_high=estimate.ci_high + by,
        by_narrative=estimate.by_narrative + by,
    )  # fmt: skip


def with_missing_filled(cube: NarrativeCube, weights: FloatArray, scale: tuple[float, float]) -> NarrativeCube:
    """Fill missing ratings with the upper end of the scale where weights are positive, with the lower end elsewhere.

    Without a scale, the ends are the lowest and the highest number in the cube.
    """
    ends = float(np.nanmin(cube.y, initial=np.inf)), float(np.nanmax(cube.y, initial=-np.inf))
    low = min(scale[0], ends[0]) if np.isfinite(scale[0]) else ends[0]
    high = max(scale[1], ends[1]) if np.isfinite(scale[1]) else ends[1]
    return replace(cube, y=np.where(cube.lacking, np.where(weights > 0, high, low), cube.y))


def _placebo_weights(cube: NarrativeCube, stems: Mapping[str, Mapping[str, str]]) -> FloatArray:
    found = attempt(lambda: designed_weights(same_words_cube(cube, stems.get(cube.dimension, {})).without_baselines()))
    return np.zeros(cube.status.shape) if isinstance(found, NotEstimableError) else found


def _group_weights(cube: NarrativeCube, groups: Sequence[str], place: int) -> FloatArray:
    every = np.ones(cube.in_group.shape, dtype=bool)
    weights: FloatArray = own_group_weights(
        groups, cube.perceiver_groups, cube.experiencer_groups, rated=every, nuisance=cube.nuisance
    )[place]
    if np.isnan(weights).any():
        raise NotEstimableError("the pairs of identities do not determine this group's own gap")
    expected = cube.expected
    if expected.all():
        return np.broadcast_to(weights, expected.shape)
    return rating_weights(expected.reshape(len(expected), -1), weights.ravel()).reshape(expected.shape)


def _refusals(cube: NarrativeCube, *, confidence: float) -> DecidedGap:
    """Return the gap of refusals; if there are few, with the largest gap that they leave possible.

    Where k of N narratives had a refusal, the share of narratives that would have one lies below Clopper and Pearson's
    limit u with a confidence of 1 − α, and a narrative's gap within ±100 Σ w⁺ percentage points: |gap| ≤ 100 u Σ w⁺, of
    a draw of pairs with the largest Σ w⁺.
    """
    compared = cube.without_baselines()
    known: dict[str, Any] = {
        "kind": "refusals", "member": "", "dimension": cube.dimension, "variant": cube.variant,
        "narrative_ids": compared.narrative_ids, "scale": (0.0, 100.0), "control": "not_needed",
    }  # fmt: skip
    try:
        made, with_any = estimate_refusal_gap(cube, confidence=confidence)
    except NotEstimableError as error:
        return DecidedGap(made=error, **known)
    k, n = int(np.count_nonzero(with_any)), made.n_narratives
    weights = designed_weights(compared)
    farthest, bound = 100 * float(np.maximum(weights, 0.0).sum(axis=(1, 2)).max()), _NAN
    if k < FEW_REFUSALS:
        bound = farthest * rare_share(k, n, confidence)
    return DecidedGap(made=made, bound=bound, farthest=farthest, n_refused=k, **known)


def rare_share(k: int, n: int, confidence: float) -> float:
    """Clopper and Pearson's upper limit of a share, k of n."""
    return 1.0 if k >= n else float(special.betaincinv(k + 1, n - k, confidence))
