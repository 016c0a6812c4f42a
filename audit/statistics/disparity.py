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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError, attempt
from audit.statistics.bounded_mean import bounded_mean
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Dependent, Repetition
from audit.statistics.deciding_estimate import moved, with_missing_filled
from audit.statistics.echo import Overlap
from audit.statistics.estimates import GapEstimate, summarise_contrasts, t_interval, with_variance
from audit.statistics.families import FamilyMember, adjust_p, estimate_contrasts
from audit.statistics.heterogeneity import hotelling
from audit.statistics.incomplete import cell_means, rating_weights
from audit.statistics.narrative_fits import Swept, pseudo_inverse
from audit.statistics.outcome import Outcome, OutcomeAnalysis
from audit.statistics.ratings import BASELINES, NO_PERSONA, UNSPECIFIED, BoolArray, FloatArray, IntArray, split_ratings
from audit.statistics.remarks import FEW_NARRATIVES, are_many_missing
from audit.statistics.scale_ends import END_SHARE
from audit.statistics.status_counts import END_TOLERANCE
from audit.statistics.verdict import VOID, Limits
from audit.statistics.wordings import crossed_over_wordings, wording_cubes
from audit.tables.controls import NO_STEM
from audit.tables.disparity import DISPARITY
from audit.tables.formatting import brief

NARRATIVES: Final = "narratives"
TERMS: Final = "narratives_and_terms"
LABELS: Final = "narratives_and_labels"
WORDINGS: Final = "narratives_and_wordings"
_NAN: Final = float("nan")
_NUMBERS: Final = ("se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers")
_DUST: Final = 1e-9
_LEAST: Final = 1e-14  # smaller weights are what is left of a difference of equal ones
_NOT_OF_DISPARITY: Final = frozenset({"noise_floor"})
"""Remarks without which δ has no verdict, but which say nothing about a disparity."""


@dataclass(frozen=True, eq=False)
class _RatedView:
    """The ratings of one view: those who are compared in columns, those over whom it is averaged in rows."""

    side: str
    name: str
    cube: NarrativeCube  # its pairs alone; identities without a rating are left out
    silent: tuple[str, ...]  # terms that are compared and have no rating
    against: str = ""  # the baseline in place of the other groups

    def laid(self, numbers: Any) -> Any:
        """Return numbers of the cube, shape (N, P, E), as (N, rows, columns)."""
        return numbers if self.side == "experiencer" else numbers.transpose(0, 2, 1)

    @property
    def y(self) -> FloatArray:
        """Shape (N, R, C)."""
        laid: FloatArray = np.ascontiguousarray(self.laid(self.cube.y))
        return laid

    @property
    def terms(self) -> tuple[str, ...]:
        return self.cube.experiencers if self.side == "experiencer" else self.cube.perceivers

    @property
    def of_columns(self) -> tuple[str, ...]:
        """The group of each column."""
        return self.cube.experiencer_groups if self.side == "experiencer" else self.cube.perceiver_groups

    @property
    def of_rows(self) -> tuple[str, ...]:
        return self.cube.perceiver_groups if self.side == "experiencer" else self.cube.experiencer_groups

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(self.of_columns) if name != self.against)

    @cached_property
    def members(self) -> FloatArray:
        """Weights of the columns, shape (K, C), in the mean of each group, the baseline last if there is one."""
        names = (*self.groups, *([self.against] if self.against else []))
        belongs = np.array([[own == name for own in self.of_columns] for name in names], dtype=np.float64)
        means: FloatArray = belongs / belongs.sum(axis=1, keepdims=True)
        return means

    @cached_property
    def contrasts(self) -> FloatArray:
        """Weights of the means of groups, shape (G, K), in each group's disparity."""
        n = len(self.groups)
        if self.against:
            return np.hstack([np.eye(n), np.full((n, 1), -1.0)])
        return np.asarray((np.eye(n) * n - 1) / (n - 1))

    def without(self, left_out: int) -> FloatArray:
        """Weights of the means of groups, shape (G, K), in disparities without one group; of that group 0."""
        n = len(self.groups)
        weights = np.asarray((np.eye(n) * (n - 1) - 1) / (n - 2))
        weights[left_out], weights[:, left_out] = 0.0, 0.0
        return weights

    @property
    def of_labels(self) -> float:
        """What the disparity of a group has of the variance of labels."""
        n = len(self.groups)
        return 1.0 if self.against else n / (n - 1)

    @cached_property
    def row_weights(self) -> FloatArray:
        """What each row counts for, shape (R,): groups alike, whatever their number of terms."""
        rows = np.array(self.of_rows, dtype=object)
        _, inverse, sizes = np.unique(rows.astype(str), return_inverse=True, return_counts=True)
        return np.asarray(1 / (sizes.size * sizes[inverse]), dtype=np.float64)

    def cells(self, of_columns: FloatArray) -> FloatArray:
        """Lay out weights of columns, shape (M, C), as weights of cells, shape (M, R, C)."""
        cells: FloatArray = self.row_weights[None, :, None] * of_columns[:, None, :]
        return np.where(np.abs(cells) < _LEAST, 0.0, cells)

    @property
    def levels(self) -> IntArray:
        """The row of each cell: a narrative has a level for each of those over whom is averaged."""
        return np.repeat(np.arange(len(self.of_rows)), len(self.of_columns))


def _views(cube: NarrativeCube) -> Iterator[_RatedView]:
    """Yield the views that a cube with baselines allows."""
    perceivers, experiencers = (
        np.array(list(each), dtype=object) for each in (cube.perceiver_groups, cube.experiencer_groups)
    )
    raters, rated = ~np.isin(perceivers, BASELINES), ~np.isin(experiencers, BASELINES)
    person, nobody = perceivers == UNSPECIFIED, perceivers == NO_PERSONA
    anyone = experiencers == UNSPECIFIED
    over = raters if raters.any() else nobody if nobody.any() else person
    for side, name, rows, columns, against in (
        ("experiencer", "all", raters, rated, ""),
        ("experiencer", "unspecified", person, rated, ""),
        ("experiencer", "no_persona", nobody, rated, ""),
        ("experiencer", "baseline", over, rated | anyone, UNSPECIFIED),
        ("perceiver", "all", raters, rated, ""),
        ("perceiver", "baseline", raters | person, rated, UNSPECIFIED),
        ("perceiver", "no_persona", raters | nobody, rated, NO_PERSONA),
    ):
        if not (rows.any() and columns.any()):
            continue
        asked = cube.select(rows, columns)
        kept = asked.rated()
        if not kept.in_group.size:
            continue
        names = (
            (asked.experiencers, kept.experiencers) if side == "experiencer" else (asked.perceivers, kept.perceivers)
        )
        view = _RatedView(side, name, kept, tuple(each for each in names[0] if each not in names[1]), against)
        if len(view.groups) >= (1 if against else 2) and (not against or against in view.of_columns):
            yield view


def _of_terms(view: _RatedView) -> FloatArray:
    """Weights, shape (T, C), of each term less the mean of the other groups' means, or less the baseline."""
    rows = []
    for column, group in enumerate(view.of_columns):
        if group != view.against:
            place = view.groups.index(group)
            own = np.eye(len(view.of_columns))[column]
            rows.append(own + view.contrasts[place] @ view.members - view.members[place])
    return np.array(rows)


@dataclass(frozen=True)
class _Spread:
    """How far words, or labels, of one kind differ: a variance free of the noise of ratings, and its df."""

    variance: float  # in squared units
    df: float
    sd: float = _NAN  # as observed, noise included
    largest: float = _NAN
    n: int = 0


@dataclass(frozen=True, eq=False)
class GroupDisparity:
    """The disparity of one group in one view, and what is needed to decide about it."""

    view: _RatedView = field(repr=False)
    group: str
    member: FamilyMember
    scopes: Mapping[str, GapEstimate | NotEstimableError]  # by scope; the narrow one is there if there is an estimate
    # the estimate with missing ratings where they make it lowest, and highest; None if none is missing
    worst: tuple[GapEstimate, GapEstimate] | NotEstimableError | None = None
    off: float = 0.0  # how far it could be off because ratings are known within bounds, in its unit; NaN without bounds
    # The group that differs most, and the disparity of this one without it, by scope; empty for that group itself,
    # against a baseline, and of two groups.
    extreme: str = ""
    without_extreme: Mapping[str, GapEstimate | NotEstimableError] = field(default_factory=dict)

    @property
    def narrow(self) -> GapEstimate | None:
        """The estimate over narratives; None if there is none."""
        return self.member.estimate

    def at_worst(self, scope: str, confidence: float) -> tuple[GapEstimate, GapEstimate] | None:
        """Return the estimate of a scope with missing ratings at their worst; None if that has no bound.

        Without missing ratings it is the estimate itself, twice.
        """
        made, narrow = self.scopes.get(scope), self.narrow
        if not isinstance(made, GapEstimate) or narrow is None or isinstance(self.worst, NotEstimableError):
            return None
        if self.view.side == "perceiver" or scope == WORDINGS:
            return None
        if self.worst is None:
            return made, made
        extra = max(0.0, float(np.nan_to_num(made.se**2 - narrow.se**2)))
        least, most = (with_variance(each, extra, made.df, confidence=confidence) for each in self.worst)
        return least, most


@dataclass(frozen=True, eq=False)
class _ViewEstimates:
    """All disparities of one view."""

    view: _RatedView
    groups: tuple[GroupDisparity, ...]
    terms: tuple[FamilyMember, ...]  # one a column, the baseline left out
    within: _Spread | NotEstimableError  # of terms within groups
    labels: _Spread | NotEstimableError  # of invented groups


@dataclass(frozen=True, eq=False)
class _DisparityPlan:
    """How the disparities of one dimension and variant are estimated."""

    outcome: Outcome
    cube: NarrativeCube  # with baselines
    prompts: pd.DataFrame
    stems: Mapping[str, str]
    scale: tuple[float, float]  # infinite without a scale
    settings: AnalysisSettings
    dependent: Dependent | None
    n_outcomes: int = 1
    invented: bool = False

    @property
    def confidence(self) -> float:
        return self.settings.confidence

    def adjusted(self, p: Sequence[float]) -> tuple[FloatArray, int]:
        """Correct p by Holm, times the outcomes that are looked at together; return the number of tests, too."""
        adjusted, size = adjust_p(p, method="Holm")
        return np.minimum(adjusted * self.n_outcomes, 1.0), size * self.n_outcomes

    def estimated(self, labels: Mapping[str, _Spread]) -> Iterator[_ViewEstimates]:
        """Estimate every view; ``labels`` is what invented groups differ by, by view."""
        wordings = wording_cubes(self.prompts, dimension=self.cube.dimension, variant=self.cube.variant, baselines=True)
        by_wording = [{(each.side, each.name): each for each in _views(own)} for own in wordings.values()]
        for view in _views(self.cube):
            yield self._of_view(view, labels, [each.get((view.side, view.name)) for each in by_wording])

    def _of_view(
        self, view: _RatedView, labels: Mapping[str, _Spread], wordings: Sequence[_RatedView | None]
    ) -> _ViewEstimates:
        of_groups = view.contrasts @ view.members
        of_terms = _of_terms(view)
        units = attempt(lambda: self._units(view))
        deviations = np.empty((0, len(view.terms))) if isinstance(units, NotEstimableError) else units.deviations
        found = estimate_contrasts(
            view.y,
            view.cells(np.vstack([of_groups, of_terms, deviations])),
            confidence=self.confidence,
            levels=view.levels,
        )
        n, m = len(of_groups), len(of_groups) + len(of_terms)
        within = units if isinstance(units, NotEstimableError) else _variance(found[m:], units.df)
        of_labels: _Spread | NotEstimableError = NotEstimableError("no invented groups were asked about in this view")
        if view.side == "experiencer" and not self.invented:
            # Against "a person", labels are held against what they differ by among themselves.
            kind = "all" if view.name == "baseline" else view.name
            of_labels = labels.get(kind, of_labels)
        groups = []
        for place, (name, narrow) in enumerate(zip(view.groups, found[:n], strict=True)):
            shares = None if isinstance(units, NotEstimableError) else units.shares @ view.contrasts[place] ** 2
            groups.append(
                self._of_group(view, place, name, self._over(narrow), within, float(shares or 0.0), of_labels, wordings)
            )
        groups = self._with_extreme(view, groups, units, within, of_labels)
        return _ViewEstimates(view, tuple(groups), tuple(map(self._over, found[n:m])), within, of_labels)

    def _with_extreme(
        self, view: _RatedView, groups: Sequence[GroupDisparity], units: _Units | NotEstimableError,
        within: _Spread | NotEstimableError, labels: _Spread | NotEstimableError,
    ) -> list[GroupDisparity]:  # fmt: skip
        """Add to each group its disparity without the group that differs most.

        One group that is rated 20 points lower makes each of three others 6.7 points higher than the rest.
        """
        sizes = [0.0 if each.narrow is None else abs(each.narrow.delta) for each in groups]
        if view.against or view.side == "perceiver" or len(groups) < 3 or not max(sizes) > 0:
            return list(groups)
        left_out = max(range(len(groups)), key=lambda place: (sizes[place], groups[place].group))
        contrasts = view.without(left_out)
        kept = [place for place in range(len(groups)) if place != left_out]
        members = estimate_contrasts(
            view.y, view.cells(contrasts[kept] @ view.members), confidence=self.confidence, levels=view.levels
        )
        made = list(groups)
        for place, member in zip(kept, map(self._over, members), strict=True):
            if member.estimate is None:
                continue
            n = len(kept)
            shares = 0.0 if isinstance(units, NotEstimableError) else float(units.shares @ contrasts[place] ** 2)
            made[place] = replace(
                groups[place],
                extreme=groups[left_out].group,
                without_extreme={
                    NARRATIVES: member.estimate,
                    TERMS: self._beside(member.estimate, within, shares),
                    LABELS: self._beside(member.estimate, labels, n / (n - 1)),
                },
            )
        return made

    def _units(self, view: _RatedView) -> _Units:
        """Divide the terms of each group by their stems; NotEstimableError if a group does not have two."""
        if view.side != "experiencer":
            raise NotEstimableError("it is of experiencers alone")
        if "+" in self.cube.dimension:
            raise _OneWord("intersection", "groups of an intersection share their words")
        return _Units.of(view, self.stems)

    def _over(self, member: FamilyMember) -> FamilyMember:
        """Give a contrast the uncertainty of conversations, where narratives are utterances of them."""
        if self.dependent is None or member.estimate is None or member.estimate.not_estimable:
            return member
        estimate, note = self.dependent(member.estimate, self.cube.narrative_ids)
        return replace(member, estimate=estimate, note="; ".join(filter(None, (member.note, note))))

    def _of_group(
        self, view: _RatedView, place: int, name: str, narrow: FamilyMember, within: _Spread | NotEstimableError,
        share_of_terms: float, labels: _Spread | NotEstimableError, wordings: Sequence[_RatedView | None],
    ) -> GroupDisparity:  # fmt: skip
        estimate = narrow.estimate
        if estimate is None:
            return GroupDisparity(view, name, narrow, {})
        scopes: dict[str, GapEstimate | NotEstimableError] = {NARRATIVES: estimate}
        if view.side == "experiencer":
            scopes[TERMS] = self._beside(estimate, within, share_of_terms)
            if isinstance(labels, _Spread):
                scopes[LABELS] = self._beside(estimate, labels, view.of_labels)
            if wordings and self.dependent is None:
                scopes[WORDINGS] = attempt(lambda: self._over_wordings(view, name, wordings))
        weights = view.cells(view.contrasts[[place]] @ view.members)[0]
        worst = None if view.side == "perceiver" else self._worst(view, weights, estimate)
        return GroupDisparity(view, name, narrow, scopes, worst, _off(view, weights))

    def _beside(
        self, estimate: GapEstimate, spread: _Spread | NotEstimableError, share: float
    ) -> GapEstimate | NotEstimableError:
        """Add to an estimate's variance what words or labels differ by."""
        if isinstance(spread, NotEstimableError):
            return spread
        return with_variance(estimate, spread.variance * share, spread.df, confidence=self.confidence)

    def _over_wordings(self, view: _RatedView, group: str, wordings: Sequence[_RatedView | None]) -> GapEstimate:
        """Estimate a group's disparity for any such wordings of the prompt."""
        row_of = {name: row for row, name in enumerate(view.cube.narrative_ids)}
        own = np.full((len(row_of), len(wordings)), np.nan)
        n_answers = 0
        for column, each in enumerate(wordings):
            if each is None or group not in each.groups:
                continue
            weights = each.cells(each.contrasts[[each.groups.index(group)]] @ each.members)
            [member] = estimate_contrasts(each.y, weights, confidence=self.confidence, levels=each.levels)
            if member.estimate is None:
                raise NotEstimableError(member.note)
            rows = [row_of[name] for name in each.cube.narrative_ids]
            own[rows, column] = member.estimate.by_narrative
            n_answers += member.estimate.n_answers
        return crossed_over_wordings(own, confidence=self.confidence, n_answers=n_answers).estimate

    def _worst(
        self, view: _RatedView, weights: FloatArray, estimate: GapEstimate
    ) -> tuple[GapEstimate, GapEstimate] | NotEstimableError | None:
        """Return the estimate with every missing rating where it makes the disparity lowest, and highest.

        A rating counts for what it would if all that were asked for were there. The interval is that of the narratives
        with these ratings, and never narrower than the estimate's own.
        """
        cube = view.cube
        if (cube.expected & (cube.status < 0)).any():
            return NotEstimableError("some prompts were never asked")
        if not cube.lacking.any():
            return None
        n = len(cube.y)
        each = np.broadcast_to(weights / n, cube.y.shape)
        if not cube.expected.all():
            of_asked = rating_weights(cube.expected.reshape(n, -1), weights.ravel(), view.levels)
            each = of_asked.reshape(cube.y.shape)
        if self.settings.missing_shift is not None:
            half = self.settings.missing_shift * float((np.abs(each) * cube.lacking).sum())
            return moved(estimate, -half), moved(estimate, half)

        def at(toward: int) -> GapEstimate:
            filled = with_missing_filled(cube, toward * each, self.scale).y
            delta = float((each * np.nan_to_num(filled)).sum())
            # Of a draw of pairs each narrative has others: what pairs differ by is no part of how narratives differ.
            means = cell_means(filled.reshape(n, -1)).reshape(filled.shape[1:])
            parts = n * (each * np.nan_to_num(filled - means)).sum(axis=(1, 2))
            own = summarise_contrasts(
                parts - parts.mean() + delta, rounding=estimate.rounding, confidence=self.confidence, n_answers=0
            )
            if self.dependent is not None and not own.not_estimable:
                own, _ = self.dependent(own, cube.narrative_ids)
            se = max((one for one in (own.se, estimate.se) if np.isfinite(one)), default=_NAN)
            df = min((one for one in (own.df, estimate.df) if np.isfinite(one)), default=_NAN)
            low, high, p = t_interval(delta, se, df, confidence=self.confidence)
            return replace(
                estimate, delta=delta, se=se, df=df, ci_low=low, ci_high=high, p=p, by_narrative=own.by_narrative
            )

        return at(-1), at(1)


class _OneWord(NotEstimableError):
    """Why a group cannot be told from its words by its terms; the code is one of ``limits``."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


@dataclass(frozen=True, eq=False)
class _Units:
    """The terms of each group, those that share a stem as one unit."""

    deviations: FloatArray  # shape (U, C): the mean of each unit less the mean of its group's units
    df: int
    shares: FloatArray  # shape (K,): what the mean of each group has of the variance of units; 0 for the baseline

    @classmethod
    def of(cls, view: _RatedView, stems: Mapping[str, str]) -> _Units:
        """Divide the terms; NotEstimableError if a group has one unit, or it is not stated how many."""
        deviations, df, shares = [], 0, np.zeros(len(view.members))
        for group in sorted(view.groups):  # in any order of rows the same group is named
            place = view.groups.index(group)
            columns = [column for column, own in enumerate(view.of_columns) if own == group]
            terms = [view.terms[column] for column in columns]
            if len(terms) < 2:
                raise _OneWord("one_term", f"{group} has one term, which cannot be told from the group")
            lacking = sorted(term for term in terms if term not in stems)
            if lacking:
                raise _OneWord(
                    "stems_not_stated",
                    f"{NO_STEM} {brief(lacking[0])!r}, so that the terms of {group} may be one word; state it for all "
                    "terms (a column stem in groups=FILE, or `stem:` in stimuli.own_identities), and analyse again",
                )
            overlap = Overlap.of(terms, terms, stems)
            units = _connected(overlap.same_words | overlap.same_stem)
            if len(units) < 2:
                raise _OneWord("same_stem", f"the terms of {group} share a stem, so that they are one word of it")
            means = np.zeros((len(units), len(view.of_columns)))
            for row, unit in enumerate(units):
                means[row, [columns[each] for each in unit]] = 1 / len(unit)
                shares[place] += (len(unit) / len(terms)) ** 2
            deviations.append(means - means.mean(axis=0))
            df += len(units) - 1
        return cls(np.vstack(deviations), df, shares)


def _connected(shared: BoolArray) -> list[list[int]]:
    """Divide terms into units: those that are linked by shared words, shape (T, T), are one."""
    linked = np.linalg.matrix_power(shared.astype(np.int64), len(shared)) > 0
    return [np.flatnonzero(row).tolist() for row in np.unique(linked, axis=0)]


def _variance(found: Sequence[FamilyMember], df: float, *, scale: float = 1.0) -> _Spread | NotEstimableError:
    """Return the variance of what contrasts are deviations from, each of them without the noise of its estimate.

    Notes
    -----
    A deviation has the expected square of its true value and of its standard error: σ² = Σ (d² − se²) / df, not below
    0. ``scale`` turns a contrast into a deviation.
    """
    estimates = [member.estimate for member in found]
    if not all(isinstance(each, GapEstimate) for each in estimates):
        return NotEstimableError("the ratings do not determine every term")
    d = scale * np.array([each.delta for each in estimates if each is not None])
    se = scale * np.nan_to_num([each.se for each in estimates if each is not None])
    return _Spread(max(0.0, float((d**2 - se**2).sum()) / df), float(df))


def _labels_of(invented: Sequence[_ViewEstimates]) -> Mapping[str, _Spread]:
    """Return, by view, what labels of invented groups differ by, over all sets of them."""
    by_view: defaultdict[str, list[_ViewEstimates]] = defaultdict(list)
    for each in invented:
        if each.view.side == "experiencer" and not each.view.against:
            by_view[each.view.name].append(each)
    found = {}
    for name, sets in by_view.items():
        squares, noise, raw, df, d = 0.0, 0.0, 0.0, 0, []
        for each in sets:
            own = [one.narrow for one in each.groups if one.narrow is not None]
            if len(own) < len(each.groups):
                continue
            # A disparity is n/(n − 1) times the label's deviation from the mean of the set.
            scale = (len(own) - 1) / len(own)
            squares += scale**2 * sum(one.delta**2 for one in own)
            noise += scale**2 * sum(float(np.nan_to_num(one.se)) ** 2 for one in own)
            raw += sum(one.delta**2 for one in own)
            df += len(own) - 1
            d += [abs(one.delta) for one in own]
        if df:
            found[name] = _Spread(max(0.0, squares - noise) / df, float(df), (raw / len(d)) ** 0.5, max(d), len(d))
    return found


def _off(view: _RatedView, weights: FloatArray) -> float:
    """How far a disparity could be off because ratings are known within bounds, in its unit; NaN without bounds."""
    cube = view.cube
    if cube.off is None or np.isnan(cube.off).all():
        return _NAN
    y, off = view.y, np.nan_to_num(view.laid(cube.off))
    valid = ~np.isnan(y)
    if valid.all():
        return float((np.abs(weights) * off).sum() / len(y))
    each = rating_weights(valid.reshape(len(y), -1), weights.ravel(), view.levels)
    return float((np.abs(each) * off.reshape(each.shape)).sum())


def _own_of_narratives(view: _RatedView, belongs: BoolArray, contrasts: FloatArray) -> FloatArray:
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


# --- Rows ------------------------------------------------------------------------------------------------------------


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
    told = repetition or Repetition()
    dependent = found.parts[0].dependent if found.parts else None
    outcome = found.parts[0].outcome if found.parts else None
    if outcome is None:
        return
    by_variant: defaultdict[str, list[_ViewEstimates]] = defaultdict(list)
    invented: list[tuple[_DisparityPlan, list[_ViewEstimates]]] = []
    for dimension, variant, own in split_ratings(found.prompts):
        if dimension in told.placebo:
            cube = told.cube_of(own, dimension=dimension, variant=variant, baselines=True)
            plan = _DisparityPlan(
                outcome,
                cube,
                own,
                told.stems.get(dimension, {}),
                scales[variant],
                settings,
                dependent,
                n_outcomes,
                invented=True,
            )
            made = list(plan.estimated({}))
            by_variant[variant] += made
            invented.append((plan, made))
    labels = {variant: _labels_of(made) for variant, made in by_variant.items()}
    for part in found.parts:
        cube = part.cube
        plan = _DisparityPlan(
            outcome,
            cube,
            part.prompts,
            told.stems.get(cube.dimension, {}),
            scales[cube.variant],
            settings,
            dependent,
            n_outcomes,
        )
        for each in plan.estimated(labels.get(cube.variant, {})):
            yield from _rows_of(plan, each)
    for plan, made in invented:
        for each in made:
            yield from _rows_of(plan, each)


def _rows_of(plan: _DisparityPlan, estimated: _ViewEstimates) -> Iterator[dict[str, Any]]:
    """Yield the rows of one view: its groups in every scope, their terms, and the test of all groups."""
    view, cube = estimated.view, plan.cube
    known: dict[str, Any] = plan.outcome.named(
        dict.fromkeys(DISPARITY, _NAN)
        | {"dimension": cube.dimension, "variant": cube.variant, "side": view.side, "view": view.name,
           "member": "", "group": "", "invented": plan.invented, "scope": NARRATIVES, "headline": False,
           "estimator": "", "method": "Holm", "family_size": 0, "n_narratives": 0, "n_answers": 0, "n_pairs": 0,
           "n_labels": 0, "extreme": "", "code": "", "claim": "", "limits": "", "note": ""}
    )  # fmt: skip
    belongs = view.members > 0
    own = _own_of_narratives(view, belongs, view.contrasts)
    spreads = [_sd_of_terms(view, estimated.terms, name) for name in view.groups]
    decided = _decided(plan, estimated) if view.side == "experiencer" and not plan.invented else {}
    scopes = dict.fromkeys(scope for each in estimated.groups for scope in each.scopes) or {NARRATIVES: None}
    for scope in scopes:
        adjusted, size = plan.adjusted([_p(each.scopes.get(scope)) for each in estimated.groups])
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
                row |= {"headline": True, "code": answer.code, "claim": answer.claim,
                        "limits": "; ".join(answer.limits), "supported_margin": answer.supported_margin}  # fmt: skip
            yield row
    terms = [column for column, group in enumerate(view.of_columns) if group != view.against]
    own = _own_of_narratives(view, np.eye(len(view.of_columns), dtype=bool), _of_terms(view))
    adjusted, size = plan.adjusted([_p(each.estimate) for each in estimated.terms])
    for column, member, shares, p_adjusted in zip(terms, estimated.terms, own, adjusted.tolist(), strict=True):
        row = known | {
            "level": "term", "member": view.terms[column], "group": view.of_columns[column], "n_terms": 1,
            "p_adjusted": p_adjusted, "family_size": size,
        }  # fmt: skip
        yield row | _numbers(member, member.estimate, plan) | _shares(shares)
    if not view.against:
        yield known | {"level": "all", "n_terms": len(terms)} | _of_all(plan, estimated, spreads)


def _p(estimate: GapEstimate | NotEstimableError | None) -> float:
    return estimate.p if isinstance(estimate, GapEstimate) else _NAN


def _numbers(
    member: FamilyMember, estimate: GapEstimate | NotEstimableError | None, plan: _DisparityPlan
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
    return {"extreme": each.extreme, "without_extreme": made.delta, "without_low": made.ci_low,
            "without_high": made.ci_high}  # fmt: skip


def _sd_of_terms(view: _RatedView, terms: Sequence[FamilyMember], group: str) -> float:
    """Return the standard deviation (n − 1) of a group's terms; NaN with one term."""
    of = [own for own in view.of_columns if own != view.against]
    own = [member.estimate for member, each in zip(terms, of, strict=True) if each == group]
    known = [each.delta for each in own if each is not None]
    return float(np.std(known, ddof=1)) if len(known) == len(own) > 1 else _NAN


def _of_all(plan: _DisparityPlan, estimated: _ViewEstimates, spreads: Sequence[float]) -> dict[str, Any]:
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


# --- What is decided -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _GroupAnswer:
    """What the data decide about one group."""

    scope: str
    code: str
    claim: str
    limits: tuple[str, ...]
    supported_margin: float


def _decided(plan: _DisparityPlan, estimated: _ViewEstimates) -> dict[str, _GroupAnswer]:
    """Decide about each group of a view."""
    back = tuple(_held_back(plan, estimated.view))
    adjusted: dict[str, dict[str, float]] = {}
    for scope in (NARRATIVES, TERMS, LABELS):
        p, _ = plan.adjusted([_p(each.scopes.get(scope)) for each in estimated.groups])
        adjusted[scope] = dict(zip((each.group for each in estimated.groups), p.tolist(), strict=True))
    return {
        each.group: _answer(plan, estimated, each, {scope: p[each.group] for scope, p in adjusted.items()}, back)
        for each in estimated.groups
    }


def _answer(
    plan: _DisparityPlan,
    estimated: _ViewEstimates,
    each: GroupDisparity,
    p_adjusted: Mapping[str, float],
    back: tuple[str, ...],
) -> _GroupAnswer:
    alpha, narrow = plan.settings.alpha, each.narrow
    scope = next((name for name in (TERMS, LABELS) if isinstance(each.scopes.get(name), GapEstimate)), NARRATIVES)
    made = each.scopes.get(scope)
    if narrow is None or not isinstance(made, GapEstimate) or not made.se > 0:
        return _GroupAnswer(scope, "no_estimate", "", back, _NAN)
    if narrow.n_narratives < FEW_NARRATIVES:
        back = ("few_narratives", *back)
    said: list[str] = []
    if scope == NARRATIVES:
        within = estimated.within
        said.append(within.code if isinstance(within, _OneWord) else "one_term")
    wider = "terms_differ" if scope == TERMS else "invented_as_large"
    shown, sign = p_adjusted[scope] <= alpha, made.delta
    if shown:
        against = list(_speaks_against(plan, each, scope, sign))
        worded = each.scopes.get(WORDINGS)
        if worded is not None and not _leaves_out_zero(worded, sign):
            said.append("these_wordings")
        if back or against:
            return _GroupAnswer(scope, "undecided", "", (*back, *against, *said), _supported(plan, each, scope, back))
        if len(estimated.groups) == 2 and not estimated.view.against:
            said.append("two_groups")
        rest = each.without_extreme.get(scope)
        if isinstance(rest, GapEstimate) and not _leaves_out_zero(rest, sign):
            return _GroupAnswer(scope, "not_shown", "", ("bystander", *said), _supported(plan, each, scope, back))
        code, claim = "lower" if sign < 0 else "higher", "words" if scope == NARRATIVES else "group"
        return _GroupAnswer(scope, code, claim, tuple(said), _supported(plan, each, scope, back))
    if made.p <= alpha:
        said.append("not_corrected")
    elif p_adjusted[NARRATIVES] <= alpha:
        said.append(wider)
    return _GroupAnswer(
        scope, "undecided" if back else "not_shown", "", (*back, *said), _supported(plan, each, scope, back)
    )


def _held_back(plan: _DisparityPlan, view: _RatedView) -> Iterator[str]:
    """Yield the codes of what keeps every group of a view from being judged."""
    n, n_lacking = int(np.count_nonzero(view.cube.expected)), int(np.count_nonzero(view.cube.lacking))
    if are_many_missing(n_lacking, n):
        yield "many_missing"
    if view.silent:
        yield "unrated_identity"
    low, high = plan.scale
    if not (plan.outcome.rated and np.isfinite(low) and np.isfinite(high)):
        return
    known = view.y[~np.isnan(view.y)]
    dust = END_TOLERANCE * abs(high - low)
    if any(float((np.abs(known - end) <= dust).mean()) >= END_SHARE for end in (low, high)):
        yield "scale_end"
    if (known < min(low, high) - dust).any() or (known > max(low, high) + dust).any():
        yield "beyond_scale"


def _speaks_against(plan: _DisparityPlan, each: GroupDisparity, scope: str, sign: float) -> Iterator[str]:
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


def _supported(plan: _DisparityPlan, each: GroupDisparity, scope: str, back: tuple[str, ...]) -> float:
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
