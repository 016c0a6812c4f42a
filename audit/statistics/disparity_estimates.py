"""Estimates of how far each group, and each term, lies below or above the others, whoever perceives.

:mod:`audit.statistics.disparity` says what a disparity is, and makes rows of these;
:mod:`audit.statistics.disparity_answers` decides what they show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError, attempt
from audit.statistics.adjusted import adjusted_contrasts, reply_weights
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Dependent
from audit.statistics.deciding_estimate import moved, units_of, with_missing_filled
from audit.statistics.echo import Overlap
from audit.statistics.estimates import GapEstimate, summarise_contrasts, t_interval, with_variance
from audit.statistics.families import FamilyMember, adjust_p, estimate_contrasts
from audit.statistics.incomplete import cell_means, rating_weights
from audit.statistics.outcome import Outcome
from audit.statistics.ratings import BASELINES, NO_PERSONA, UNSPECIFIED, BoolArray, FloatArray, IntArray
from audit.statistics.wordings import crossed_over_wordings, wording_cubes
from audit.tables.controls import NO_STEM
from audit.tables.formatting import brief

NARRATIVES: Final = "narratives"
TERMS: Final = "narratives_and_terms"
LABELS: Final = "narratives_and_labels"
WORDINGS: Final = "narratives_and_wordings"
_NAN: Final = float("nan")
_LEAST: Final = 1e-14  # smaller weights are what is left of a difference of equal ones


@dataclass(frozen=True, eq=False)
class RatedView:
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
        """The term of each column."""
        return self.cube.experiencers if self.side == "experiencer" else self.cube.perceivers

    @property
    def of_columns(self) -> tuple[str, ...]:
        """The group of each column."""
        return self.cube.experiencer_groups if self.side == "experiencer" else self.cube.perceiver_groups

    @property
    def of_rows(self) -> tuple[str, ...]:
        """The group of each row."""
        return self.cube.perceiver_groups if self.side == "experiencer" else self.cube.experiencer_groups

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The groups that are compared, without the baseline."""
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

    def without(self, place: int, left_out: Sequence[int]) -> FloatArray:
        """Weights of the means of groups, shape (K,), in the disparity of one of them without some others."""
        weights = np.full(len(self.groups), -1 / (len(self.groups) - 1 - len(left_out)))
        weights[[*left_out]], weights[place] = 0.0, 1.0
        return weights

    @property
    def of_groups(self) -> FloatArray:
        """Weights of the columns, shape (G, C), in each group's disparity."""
        return self.contrasts @ self.members

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


def rated_views(cube: NarrativeCube) -> Iterator[RatedView]:
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
        view = RatedView(side, name, kept, tuple(each for each in names[0] if each not in names[1]), against)
        if len(view.groups) >= (1 if against else 2) and (not against or against in view.of_columns):
            yield view


def term_contrasts(view: RatedView) -> FloatArray:
    """Weights, shape (T, C), of each term less the mean of the other groups' means, or less the baseline."""
    rows = []
    for column, group in enumerate(view.of_columns):
        if group != view.against:
            place = view.groups.index(group)
            own = np.eye(len(view.of_columns))[column]
            rows.append(own + view.contrasts[place] @ view.members - view.members[place])
    return np.array(rows)


@dataclass(frozen=True, eq=False)
class GroupByCue:
    """The terms of a group that tell it by one cue, compared with the other groups told so."""

    group: str
    cue: str
    columns: FloatArray  # weights, shape (C,)
    n_terms: int


def groups_by_cue(view: RatedView, cues: Mapping[str, str]) -> tuple[GroupByCue, ...]:
    """Return every group by every cue; empty if terms are told by one cue, or it is not stated by which."""
    told = [cues.get(term, "") for term in view.terms]
    names = list(dict.fromkeys(filter(None, told)))
    found = []
    for cue in names if len(names) > 1 else ():
        own = np.array([each == cue for each in told]) & (view.members[: len(view.groups)] > 0)
        there = np.flatnonzero(own.any(axis=1))
        if len(there) < (1 if view.against else 2):
            continue
        means = own[there] / own[there].sum(axis=1, keepdims=True)
        for row, place in enumerate(there.tolist()):
            others = view.members[-1] if view.against else np.delete(means, row, axis=0).mean(axis=0)
            found.append(GroupByCue(view.groups[place], cue, means[row] - others, int(own[place].sum())))
    return tuple(found)


@dataclass(frozen=True)
class WordSpread:
    """How far words, or labels, of one kind differ: a variance free of the noise of ratings, and its df."""

    variance: float  # in squared units
    df: float
    sd: float = _NAN  # as observed, noise included
    largest: float = _NAN
    n: int = 0
    names: tuple[Any, ...] = ()  # length U, of each word or label
    deviations: FloatArray = field(default_factory=lambda: np.empty((0, 0)), repr=False)  # shape (U, N), by narrative
    narrative_ids: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class GroupDisparity:
    """The disparity of one group in one view, and what is needed to decide about it."""

    view: RatedView = field(repr=False)
    group: str
    member: FamilyMember
    scopes: Mapping[str, GapEstimate | NotEstimableError]  # by scope; the narrow one is there if there is an estimate
    # the estimate with missing ratings where they make it lowest, and highest; None if none is missing
    worst: tuple[GapEstimate, GapEstimate] | NotEstimableError | None = None
    off: float = 0.0  # how far it could be off because ratings are known within bounds, in its unit; NaN without bounds
    shares: Mapping[str, float] = field(default_factory=dict)  # by scope, what it has of the variance of words
    # The groups that differ more and lie on the other side, and the disparity of this one without them, by scope; empty
    # if there are none, against a baseline, and of two groups.
    extreme: tuple[str, ...] = ()
    without_extreme: Mapping[str, GapEstimate | NotEstimableError] = field(default_factory=dict)
    shares_without: Mapping[str, float] = field(default_factory=dict)  # what that has of the variance of words
    # Without its farthest word, for any such words; None where terms do not tell a group from its words.
    without_word: GapEstimate | None = None
    # Without the cue that adds most to it; None of one cue.
    without_cue: GapEstimate | None = None
    # Without the group of perceivers that adds most to it; None of one group of perceivers, and without identities.
    without_perceiver: GapEstimate | None = None
    perceivers_differ: bool = False  # whether a group of perceivers has it on the other side

    @property
    def narrow(self) -> GapEstimate | None:
        """The estimate over narratives; None if there is none."""
        return self.member.estimate

    @property
    def asked(self) -> BoolArray:
        """The narratives, shape (N,), in which the group itself was asked about: others say nothing of it."""
        return self._among(self.view.laid(self.view.cube.expected))

    @property
    def n_rated(self) -> int:
        """The number of narratives in which the group itself has a rating."""
        return int(self._among(~np.isnan(self.view.y)).sum())

    def _among(self, cells: BoolArray) -> BoolArray:
        """Mark the narratives with a cell of the group, and of the baseline if it is against one."""
        marked = np.ones(len(cells), dtype=np.bool_)
        for name in filter(None, (self.group, self.view.against)):
            marked &= cells[:, :, [own == name for own in self.view.of_columns]].any(axis=(1, 2))
        return marked

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
class ViewEstimates:
    """All disparities of one view."""

    view: RatedView
    groups: tuple[GroupDisparity, ...]
    terms: tuple[FamilyMember, ...]  # one a column, the baseline left out
    cues: tuple[tuple[GroupByCue, FamilyMember], ...]
    within: WordSpread | NotEstimableError  # of terms within groups
    labels: WordSpread | NotEstimableError  # of invented groups
    others: tuple[ViewEstimates, ...] = ()  # of the view over all perceivers: as rated without a persona, by "a person"


@dataclass(frozen=True, eq=False)
class DisparityPlan:
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
    cues: Mapping[str, str] = field(default_factory=dict)  # what each term tells its group by
    conversations: tuple[str, ...] = ()  # of each narrative; empty if narratives are independent

    def units_of(self, narrative_ids: Sequence[Any], made: GapEstimate) -> tuple[Any, ...]:
        """Return the units that an estimate has a disparity for: narratives, or their conversations."""
        return units_of(narrative_ids, made, dict(zip(self.cube.narrative_ids, self.conversations, strict=False)))

    @property
    def confidence(self) -> float:
        """Of all intervals."""
        return self.settings.confidence

    def adjusted_in(self, scope: str, groups: Sequence[GroupDisparity]) -> tuple[FloatArray, int]:
        """Correct the p that the groups of a view have in one scope; NaN where there is no estimate."""
        made = [each.scopes.get(scope) for each in groups]
        return self.adjusted([each.p if isinstance(each, GapEstimate) else _NAN for each in made])

    def adjusted(self, p: Sequence[float]) -> tuple[FloatArray, int]:
        """Correct p by Holm, times the outcomes that are looked at together; return the number of tests, too."""
        adjusted, size = adjust_p(p, method="Holm")
        return np.minimum(adjusted * self.n_outcomes, 1.0), size * self.n_outcomes

    def estimated(self, labels: Mapping[str, WordSpread]) -> Iterator[ViewEstimates]:
        """Estimate every view; ``labels`` is what invented groups differ by, by view."""
        wordings = wording_cubes(self.prompts, dimension=self.cube.dimension, variant=self.cube.variant, baselines=True)
        by_wording = [{(each.side, each.name): each for each in rated_views(own)} for own in wordings.values()]
        for view in rated_views(self.cube):
            yield self._of_view(view, labels, [each.get((view.side, view.name)) for each in by_wording])

    def _of_view(
        self, view: RatedView, labels: Mapping[str, WordSpread], wordings: Sequence[RatedView | None]
    ) -> ViewEstimates:
        of_groups, of_terms = view.of_groups, term_contrasts(view)
        units = attempt(lambda: self._units(view))
        deviations = np.empty((0, len(view.terms))) if isinstance(units, NotEstimableError) else units.deviations
        by_cue = groups_by_cue(view, self.cues) if view.side == "experiencer" else ()
        of_cues = np.array([each.columns for each in by_cue]).reshape(-1, len(view.terms))
        found = self._contrasts(view, view.y, view.cells(np.vstack([of_groups, of_terms, of_cues, deviations])))
        n = len(of_groups)
        m = n + len(of_terms)
        k = m + len(of_cues)
        within = units if isinstance(units, NotEstimableError) else _variance(found[k:], units, view.cube.narrative_ids)
        none_asked = NotEstimableError("no invented groups were asked about in this view")
        of_labels: WordSpread | NotEstimableError = none_asked
        if view.side == "experiencer" and not self.invented:
            of_labels = labels.get(view.name, none_asked)
        groups = []
        for place, (name, narrow) in enumerate(zip(view.groups, found[:n], strict=True)):
            share = _share_of_words(units, view.contrasts[place])
            groups.append(self._of_group(view, place, name, narrow, within, share, of_labels, wordings))
        terms = tuple(found[n:m])
        of_cue = tuple(zip(by_cue, found[m:k], strict=True))
        groups = self._with_rest(view, groups, terms, of_cue, units, within, of_labels)
        return ViewEstimates(view, tuple(groups), terms, of_cue, within, of_labels)

    def _with_rest(
        self, view: RatedView, groups: Sequence[GroupDisparity], terms: Sequence[FamilyMember],
        of_cue: Sequence[tuple[GroupByCue, FamilyMember]], units: WordUnits | NotEstimableError,
        within: WordSpread | NotEstimableError, labels: WordSpread | NotEstimableError,
    ) -> list[GroupDisparity]:  # fmt: skip
        """Add to each group its disparity without other groups, a word, a cue or perceivers that may have made it.

        One group that is rated 20 points lower makes each of three others 6.7 points higher than the rest.
        """
        if view.side != "experiencer":
            return list(groups)
        sizes = np.array([0.0 if each.narrow is None else each.narrow.delta for each in groups])
        raters = _Raters.of(view)
        cells: list[FloatArray] = []
        left: list[tuple[int, str, FloatArray]] = []  # the group, what was left out, and the weights of the groups
        opposite: dict[int, list[int]] = {}
        shares: dict[int, float] = {}
        made = list(groups)
        for place, size in enumerate(sizes):
            if size == 0:
                continue
            weights = view.contrasts[place]
            farther = [other for other, own in enumerate(sizes) if own * size < 0 and abs(own) > abs(size)]
            opposite[place] = sorted(farther, key=lambda other: groups[other].group)
            if opposite[place] and not view.against and len(groups) > 2:
                of_rest = view.without(place, opposite[place])
                left.append((place, "groups", of_rest))
                cells.append(view.cells((of_rest @ view.members)[None])[0])
            if isinstance(units, WordUnits):
                columns, shares[place] = units.but_farthest(view, place, size, terms)
                left.append((place, "word", weights))
                cells.append(view.cells((columns + weights @ view.members - view.members[place])[None])[0])
            told = [(of.columns, np.sign(size) * member.estimate.delta) for of, member in of_cue
                    if of.group == groups[place].group and member.estimate is not None]  # fmt: skip
            if len(told) > 1:
                but_farthest = sorted(told, key=lambda each: each[1])[:-1]
                left.append((place, "cue", weights))
                cells.append(view.cells(np.mean([columns for columns, _ in but_farthest], axis=0)[None])[0])
            if raters is not None:
                left.append((place, "perceiver", weights))
                of_all = view.cells((weights @ view.members)[None])[0]
                cells.append(raters.but_farthest(of_all, size))
                made[place] = replace(made[place], perceivers_differ=bool((raters.parts(of_all) * size < 0).any()))
        if not cells:
            return made
        found = self._contrasts(view, view.y, np.array(cells))
        for (place, what, weights), member in zip(left, found, strict=True):
            rest = member.estimate
            if rest is None:
                continue
            if what == "word":
                wide = self._beside(rest, within, shares[place])
                made[place] = replace(made[place], without_word=wide if isinstance(wide, GapEstimate) else None)
            elif what == "cue":
                made[place] = replace(made[place], without_cue=rest)
            elif what == "perceiver":
                made[place] = replace(made[place], without_perceiver=rest)
            else:
                n = len(groups) - len(opposite[place])
                of_words = {TERMS: _share_of_words(units, weights), LABELS: n / (n - 1)}
                made[place] = replace(
                    made[place],
                    extreme=tuple(groups[each].group for each in opposite[place]),
                    without_extreme={
                        NARRATIVES: rest,
                        TERMS: self._beside(rest, within, of_words[TERMS]),
                        LABELS: self._beside(rest, labels, of_words[LABELS]),
                    },
                    shares_without=of_words,
                )
        return made

    def _units(self, view: RatedView) -> WordUnits:
        """Divide the terms of each group by their stems; NotEstimableError if a group does not have two."""
        if view.side != "experiencer":
            raise NotEstimableError("it is of experiencers alone")
        if "+" in self.cube.dimension:
            raise OneWord("intersection", "groups of an intersection share their words")
        return WordUnits.of(view, self.stems)

    def _contrasts(self, view: RatedView, y: FloatArray, weights: FloatArray) -> list[FamilyMember]:
        """Estimate contrasts of the cells of y, shape (N, R, C), by weights, shape (M, R, C)."""
        if self.outcome.covariates is None:
            found = estimate_contrasts(y, weights, confidence=self.confidence, levels=view.levels)
            return list(map(self._over, found))
        return adjusted_contrasts(y, weights, self._covariates, self._units_of_cube, confidence=self.confidence)

    @property
    def _covariates(self) -> FloatArray:
        """What is known of the message of each narrative, shape (N, K)."""
        assert self.outcome.covariates is not None
        return self.outcome.covariates.loc[list(self.cube.narrative_ids)].to_numpy(dtype=np.float64)

    @property
    def _units_of_cube(self) -> tuple[str, ...]:
        return self.conversations or tuple(map(str, self.cube.narrative_ids))

    def _over(self, member: FamilyMember) -> FamilyMember:
        """Give a contrast the uncertainty of conversations, where narratives are utterances of them."""
        if self.dependent is None or member.estimate is None or member.estimate.not_estimable:
            return member
        estimate, note = self.dependent(member.estimate, self.cube.narrative_ids)
        return replace(member, estimate=estimate, note="; ".join(filter(None, (member.note, note))))

    def _of_group(
        self, view: RatedView, place: int, name: str, narrow: FamilyMember, within: WordSpread | NotEstimableError,
        share_of_terms: float, labels: WordSpread | NotEstimableError, wordings: Sequence[RatedView | None],
    ) -> GroupDisparity:  # fmt: skip
        estimate = narrow.estimate
        if estimate is None:
            return GroupDisparity(view, name, narrow, {})
        scopes: dict[str, GapEstimate | NotEstimableError] = {NARRATIVES: estimate}
        if view.side == "experiencer":
            scopes[TERMS] = self._beside(estimate, within, share_of_terms)
            if isinstance(labels, WordSpread):
                scopes[LABELS] = self._beside(estimate, labels, view.of_labels)
            if wordings and self.dependent is None:
                scopes[WORDINGS] = attempt(lambda: self._over_wordings(view, name, wordings))
        weights = view.cells(view.contrasts[[place]] @ view.members)[0]
        worst = None if view.side == "perceiver" else self._worst(view, weights, estimate)
        shares = {TERMS: share_of_terms, LABELS: view.of_labels}
        return GroupDisparity(view, name, narrow, scopes, worst, _off(view, weights), shares)

    def _beside(
        self, estimate: GapEstimate, spread: WordSpread | NotEstimableError, share: float
    ) -> GapEstimate | NotEstimableError:
        """Add to an estimate's variance what words or labels differ by."""
        if isinstance(spread, NotEstimableError):
            return spread
        return with_variance(estimate, spread.variance * share, spread.df, confidence=self.confidence)

    def _over_wordings(self, view: RatedView, group: str, wordings: Sequence[RatedView | None]) -> GapEstimate:
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
        self, view: RatedView, weights: FloatArray, estimate: GapEstimate
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
        of_asked = self._weights_of_asked(view, weights)
        each = np.broadcast_to(weights / n, cube.y.shape) if of_asked is None else of_asked
        if self.settings.missing_shift is not None:
            half = self.settings.missing_shift * float((np.abs(each) * cube.lacking).sum())
            return moved(estimate, -half), moved(estimate, half)

        def at(toward: int) -> GapEstimate:
            filled = with_missing_filled(cube, toward * each, self.scale).y
            if self.outcome.covariates is not None:
                [member] = self._contrasts(view, filled, weights[None])
                if member.estimate is None:
                    raise NotEstimableError(member.note)
                own, delta = member.estimate, member.estimate.delta
            else:
                delta = float((each * np.nan_to_num(filled)).sum())
                # Of a draw of pairs each narrative has others: what pairs differ by is not how narratives differ.
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

    def _weights_of_asked(self, view: RatedView, weights: FloatArray) -> FloatArray | None:
        """Weights of the ratings, shape (N, R, C), in a contrast of cells if all that were asked for were there.

        None if every narrative was asked about every pair: each then has the contrast's own weights.
        """
        expected = view.laid(view.cube.expected)
        if expected.all():
            return None
        there = expected.reshape(len(expected), -1)
        if self.outcome.covariates is None:
            of_asked = rating_weights(there, weights.ravel(), view.levels)
        else:
            of_asked = reply_weights(there, weights.ravel(), self._covariates)
        return of_asked.reshape(expected.shape)


class OneWord(NotEstimableError):
    """Why a group cannot be told from its words by its terms; the code is one of ``limits``."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


@dataclass(frozen=True, eq=False)
class WordUnits:
    """The terms of each group, those that share a stem as one unit."""

    means: FloatArray  # shape (U, C): the mean of each unit
    deviations: FloatArray  # shape (U, C): the same less the mean of its group's units
    df: int
    terms: tuple[tuple[str, ...], ...]  # length U, of each
    shares: FloatArray  # shape (K,): what the mean of each group has of the variance of units; 0 for the baseline

    @classmethod
    def of(cls, view: RatedView, stems: Mapping[str, str]) -> WordUnits:
        """Divide the terms; NotEstimableError if a group has one unit, or it is not stated how many."""
        every, deviations, names, df, shares = [], [], [], 0, np.zeros(len(view.members))
        for group in sorted(view.groups):  # in any order of rows the same group is named
            place = view.groups.index(group)
            columns = [column for column, own in enumerate(view.of_columns) if own == group]
            terms = [view.terms[column] for column in columns]
            if len(terms) < 2:
                raise OneWord("one_term", f"{group} has one term, which cannot be told from the group")
            lacking = sorted(term for term in terms if term not in stems)
            if lacking:
                raise OneWord(
                    "stems_not_stated",
                    f"{NO_STEM} {brief(lacking[0])!r}, so that the terms of {group} may be one word; state it for all "
                    "terms (a column stem in groups=FILE, or `stem:` in stimuli.own_identities), and analyse again",
                )
            overlap = Overlap.of(terms, terms, stems)
            units = _connected(overlap.same_words | overlap.same_stem)
            if len(units) < 2:
                raise OneWord("same_stem", f"the terms of {group} share a stem, so that they are one word of it")
            means = np.zeros((len(units), len(view.of_columns)))
            for row, unit in enumerate(units):
                means[row, [columns[each] for each in unit]] = 1 / len(unit)
                shares[place] += (len(unit) / len(terms)) ** 2
            every.append(means)
            deviations.append(means - means.mean(axis=0))
            names += [tuple(sorted(terms[each] for each in unit)) for unit in units]
            df += len(units) - 1
        return cls(np.vstack(every), np.vstack(deviations), df, tuple(names), shares)

    def but_farthest(
        self, view: RatedView, place: int, size: float, terms: Sequence[FamilyMember]
    ) -> tuple[FloatArray, float]:
        """Weights of the columns, shape (C,), in the mean of a group without the unit that adds most to its disparity.

        Also what that disparity has of the variance of units. ``terms`` are the disparities of terms, the baseline's
        left out.
        """
        far = np.zeros(len(view.of_columns))
        far[[own != view.against for own in view.of_columns]] = [
            0.0 if each.estimate is None else each.estimate.delta for each in terms
        ]
        of_group = view.members[place] > 0
        own = self.means[(self.means[:, of_group] > 0).any(axis=1)]
        kept = of_group & ~(own[np.argmax(np.sign(size) * (own @ far))] > 0)
        weights: FloatArray = kept / kept.sum()
        left = view.contrasts[place] ** 2 * self.shares
        # A unit is so many of the terms that are left.
        share = left.sum() - left[place] + float((weights @ (own > 0).T) @ (weights @ (own > 0).T))
        return weights, float(share)


@dataclass(frozen=True, eq=False)
class _Raters:
    """The groups of perceivers over whom a view is averaged, two or more."""

    belongs: BoolArray  # shape (G, R)
    means: FloatArray  # shape (R, C), of cells

    @classmethod
    def of(cls, view: RatedView) -> _Raters | None:
        names = [name for name in dict.fromkeys(view.of_rows) if name not in BASELINES]
        if len(names) < 2:
            return None
        means = cell_means(view.y.reshape(len(view.y), -1)).reshape(view.y.shape[1:])
        # A pair that was never asked about says nothing: it counts as the mean of its perceiver.
        means = np.where(np.isnan(means), np.nanmean(means, axis=1, keepdims=True), means)
        return cls(np.array([[own == name for own in view.of_rows] for name in names]), means)

    def but_farthest(self, cells: FloatArray, size: float) -> FloatArray:
        """Weights of cells, shape (R, C), without the group of perceivers that adds most to a disparity."""
        n = len(self.belongs)
        far = np.argmax(np.sign(size) * self.parts(cells))
        kept: FloatArray = np.where(self.belongs[far][:, None], 0.0, cells) * n / (n - 1)
        return kept

    def parts(self, cells: FloatArray) -> FloatArray:
        """Return what each group of perceivers adds to a disparity, shape (G,)."""
        added: FloatArray = self.belongs @ (cells * self.means).sum(axis=1)
        return added


def _share_of_words(units: WordUnits | NotEstimableError, contrast: FloatArray) -> float:
    """Return what a contrast of groups, shape (K,), has of the variance of units; 0 if terms are not divided."""
    return 0.0 if isinstance(units, NotEstimableError) else float(units.shares @ contrast**2)


def _connected(shared: BoolArray) -> list[list[int]]:
    """Divide terms into units: those that are linked by shared words, shape (T, T), are one."""
    linked = np.linalg.matrix_power(shared.astype(np.int64), len(shared)) > 0
    return [np.flatnonzero(row).tolist() for row in np.unique(linked, axis=0)]


def _variance(
    found: Sequence[FamilyMember], units: WordUnits, narrative_ids: tuple[Any, ...]
) -> WordSpread | NotEstimableError:
    """Return the variance of what contrasts are deviations from, each of them without the noise of its estimate.

    Notes
    -----
    A deviation has the expected square of its true value and of its standard error: σ² = Σ (d² − se²) / df, not below
    0.
    """
    estimates = [member.estimate for member in found if member.estimate is not None]
    if len(estimates) < len(found):
        return NotEstimableError("the ratings do not determine every term")
    d = np.array([each.delta for each in estimates])
    se = np.nan_to_num([each.se for each in estimates])
    return WordSpread(
        max(0.0, float((d**2 - se**2).sum()) / units.df),
        float(units.df),
        names=units.terms,
        deviations=np.stack([each.by_narrative for each in estimates]),
        narrative_ids=narrative_ids,
    )


def spread_of_labels(invented: Sequence[ViewEstimates]) -> Mapping[str, WordSpread]:
    """Return, by view, what labels of invented groups differ by, over all sets of them.

    Among themselves; in the view baseline from "a person": any label at all may be rated otherwise than none.
    """
    by_view: defaultdict[str, list[ViewEstimates]] = defaultdict(list)
    for each in invented:
        if each.view.side == "experiencer":
            by_view[each.view.name].append(each)
    found = {}
    for name, sets in by_view.items():
        squares, noise, raw, df, d = 0.0, 0.0, 0.0, 0, []
        narratives = tuple(dict.fromkeys(key for each in sets for key in each.view.cube.narrative_ids))
        place_of = {key: place for place, key in enumerate(narratives)}
        names, deviations = [], []
        for each in sets:
            own = [one.narrow for one in each.groups if one.narrow is not None]
            if len(own) < len(each.groups):
                continue
            # A disparity is n/(n − 1) times the label's deviation from the mean of the set.
            lost = 0 if each.view.against else 1
            scale = (len(own) - lost) / len(own)
            squares += scale**2 * sum(one.delta**2 for one in own)
            noise += scale**2 * sum(float(np.nan_to_num(one.se)) ** 2 for one in own)
            raw += sum(one.delta**2 for one in own)
            df += len(own) - lost
            d += [abs(one.delta) for one in own]
            cube = each.view.cube
            names += [(cube.dimension, one.group) for one in each.groups]
            rows = np.full((len(own), len(narratives)), np.nan)
            at = [place_of[key] for key in cube.narrative_ids]
            for row, one in zip(rows, own, strict=True):
                if len(one.by_narrative) == len(at):  # else it is of conversations, and no narrative's is known
                    row[at] = scale * one.by_narrative
            deviations.append(rows)
        if df:
            found[name] = WordSpread(
                max(0.0, squares - noise) / df, float(df), (raw / len(d)) ** 0.5, max(d), len(d), tuple(names),
                np.vstack(deviations), narratives,
            )  # fmt: skip
    return found


def _off(view: RatedView, weights: FloatArray) -> float:
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
