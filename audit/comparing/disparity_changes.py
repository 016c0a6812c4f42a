"""Who gets less, over runs: how a group's disparity differs between two runs, narrative by narrative.

What one run's own page refuses to say of a group, no comparison says of its change. To say that a disparity differs is
as hard as to say that there is one: it must differ wherever missing ratings lie, beyond what invented groups show, and
not only because another group's disparity differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from audit.comparing.changes import OTHER_TEXTS
from audit.comparing.run_gaps import RatingGaps, ReplyGaps, RunGaps
from audit.comparing.tables import DISPARITY_CHANGES, MEASURE_DISPARITY_CHANGES
from audit.errors import NotEstimableError, attempt
from audit.statistics.comparisons import Labelled, compare_estimates, difference, over_words
from audit.statistics.deciding_estimate import DecidedGap, Made
from audit.statistics.disparity_answers import is_shown
from audit.statistics.estimates import INTERVAL, GapEstimate, summarise_contrasts, with_variance
from audit.statistics.families import adjust_p
from audit.statistics.outcome import OWN_UNIT, ROUNDING
from audit.statistics.ratings import FloatArray
from audit.statistics.series import clearly_farther
from audit.tables.formatting import brief

_NAN: Final = float("nan")
_SILENT: Final = ("no_verdict", "no_estimate")
"""Codes of answers that say nothing about a group."""
_ONE_OF_ITS_TERMS: Final = "terms_differ"
OTHER_GROUPS: Final = "the two compare it with different groups"
OTHER_VIEWS: Final = "one is over all perceivers, the other is not: what differs may be that"


def disparity_change_rows(
    runs: Mapping[str, RatingGaps],
    decided: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    texts: Mapping[str, str],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.DISPARITY_CHANGES``: of every two runs and each group, by dimension.

    ``decided`` are the runs' rows of ``tables.DISPARITY`` that decide, as they hold; ``texts`` says what a run's
    narrative identifiers stand for: only runs with equal values are paired. p is corrected by Holm over the groups and
    pairs of a dimension, of ratings and of refusals each.
    """
    sides = {label: _sides_of(run, decided[label]) for label, run in runs.items()}
    for place in dict.fromkeys(place for each in sides.values() for place in each):
        dimension = place[1]
        there = [label for label in runs if place in sides[label]]
        rows: list[_Changed] = []
        for first, second in combinations(there, 2):
            pair = sides[first][place], sides[second][place]
            known = {"outcome": place[0], "dimension": dimension, "first": first, "second": second}
            rows += _changes(pair, known, alike=texts[first] == texts[second], confidence=confidence)
        yield from _decided(rows, list(DISPARITY_CHANGES), alpha=1 - confidence)


def measure_disparity_change_rows(
    runs: Mapping[str, ReplyGaps],
    decided: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    references: Mapping[str, str],
    comparable: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.MEASURE_DISPARITY_CHANGES``: of each run against its reference, by measure and group.

    ``comparable`` names each run's measures that the same scorer took in its reference; the others are those of
    :func:`disparity_change_rows`. p is corrected by Holm over the groups, measures and runs of a dimension.
    """
    sides = {label: _sides_of(run, decided[label]) for label, run in runs.items()}
    by_dimension: dict[str, list[_Changed]] = {}
    for label, reference in references.items():
        own, theirs = sides[label], sides[reference]
        for measure in comparable[label]:
            for place in (each for each in own if each[0] == measure and each in theirs):
                dimension = place[1]
                known = {"dimension": dimension, "outcome": measure, "first": label, "second": reference}
                by_dimension.setdefault(dimension, []).extend(
                    _changes(
                        (own[place], theirs[place]), known, alike=texts[label] == texts[reference],
                        confidence=confidence,
                    )
                )  # fmt: skip
    for rows in by_dimension.values():
        yield from _decided(rows, list(MEASURE_DISPARITY_CHANGES), alpha=1 - confidence)


@dataclass(frozen=True, eq=False)
class _Side:
    """A group's disparity in one run, with the run's own answer."""

    gap: DecidedGap
    row: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Changed:
    """A row before its p is corrected, and what is needed to say what it shows."""

    row: dict[str, Any]
    sides: tuple[_Side, _Side]
    change: GapEstimate | None = None
    narrow_se: float = _NAN  # of the change over narratives alone
    shared_ids: tuple[Any, ...] = ()  # the narratives that both runs have, as change.by_narrative
    beside: GapEstimate | None = None  # without the group that changes most; None of that one, and of two groups
    others: tuple[Made, ...] = ()  # what must lie on the same side: with missing ratings at their worst
    invented: tuple[Made, ...] = ()  # beyond what invented groups show


def _sides_of(run: RunGaps, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, _Side]]:
    """Return each group's disparity in a run, by outcome and dimension."""
    made: dict[tuple[str, str], dict[str, _Side]] = {}
    for gap, row in zip(run.disparities, rows, strict=True):
        made.setdefault((gap.outcome.name, gap.dimension), {})[gap.member] = _Side(gap, row)
    return made


def _changes(
    pair: tuple[Mapping[str, _Side], Mapping[str, _Side]], known: Mapping[str, Any], *, alike: bool, confidence: float
) -> list[_Changed]:
    """Subtract the second run's disparities from the first's, group by group."""
    own, theirs = pair
    why = OTHER_TEXTS if not alike else OTHER_GROUPS if set(own) != set(theirs) else ""
    made: dict[str, _Changed] = {}
    for group in (name for name in own if name in theirs):
        sides = own[group], theirs[group]
        row: dict[str, Any] = dict.fromkeys(DISPARITY_CHANGES, _NAN)
        row |= {**known, "group": group, "unit": _unit(sides), "extreme": "", "n_groups": len(own)}
        row |= {"view_first": sides[0].row["view"], "view_second": sides[1].row["view"], "n_narratives": 0, "note": ""}
        made[group] = _Changed(row | {"note": why}, sides)
        if not why:
            made[group] = _paired(made[group], confidence=confidence)
    return list(_beside(made, confidence=confidence))


def _unit(sides: tuple[_Side, _Side]) -> str:
    if not sides[0].gap.outcome.rated:
        return sides[0].gap.outcome.unit
    return "points" if sides[0].gap.scale == sides[1].gap.scale else "% of the scale"


def _factors(sides: tuple[_Side, _Side]) -> tuple[float, float]:
    """Bring points of each side into the unit of the row."""
    if sides[0].gap.scale == sides[1].gap.scale:
        return 1.0, 1.0
    first, second = (100 / abs(each.gap.scale[1] - each.gap.scale[0]) for each in sides)
    return first, second


def _paired(of: _Changed, *, confidence: float) -> _Changed:
    """Take the difference of two runs' disparities of one group, with its uncertainty."""
    first, second = of.sides
    for side, name in zip(of.sides, ("first", "second"), strict=True):
        if isinstance(side.gap.made, NotEstimableError):
            return replace(of, row=of.row | {"note": f"{brief(str(of.row[name]))}: {side.gap.made}"})
    pair = _labelled(first, first.gap.made), _labelled(second, second.gap.made)
    pair = replace(pair[0], label="first"), replace(pair[1], label="second")
    [found] = compare_estimates(pair, dimension=str(of.row["dimension"]), confidence=confidence)
    row = of.row | {
        "disparity_first": found["delta_first"], "disparity_second": found["delta_second"],
        "disparity_change": found["delta_change"], "n_narratives": found["n_narratives"],
    }  # fmt: skip
    other_view = OTHER_VIEWS if row["view_first"] != row["view_second"] else ""
    row["note"] = "; ".join(filter(None, (found["note"], other_view)))
    if not np.isfinite(found["se"]):
        return replace(of, row=row)
    narrow, shared_ids = difference(*pair, confidence=confidence)
    change = _beside_words(narrow, of.sides, (first.gap.made, second.gap.made), confidence=confidence)
    worst: tuple[Made, ...] = ()
    if first.gap.worst is not None or second.gap.worst is not None:
        (least, most), (their_least, their_most) = _ends(first.gap), _ends(second.gap)
        corners = ((least, their_most), (most, their_least))
        worst = tuple(_change_of(of.sides, a, b, confidence=confidence) for a, b in corners)
    invented: tuple[Made, ...] = ()
    if first.gap.other is not None or second.gap.other is not None:
        a, b = (side.gap.made if side.gap.other is None else side.gap.other for side in of.sides)
        parts = tuple(_of_labels(side.gap) for side in of.sides)
        invented = (_change_of(of.sides, a, b, parts=parts, confidence=confidence),)
    row |= {name: getattr(change, name) for name in INTERVAL}
    return replace(
        of, row=row, change=change, narrow_se=narrow.se, shared_ids=shared_ids, others=worst, invented=invented
    )


def _labelled(side: _Side, made: Made) -> Labelled:
    assert isinstance(made, GapEstimate)
    scale = side.gap.scale if side.gap.outcome.rated else OWN_UNIT
    return Labelled(side.gap.member, made, side.gap.narrative_ids, scale)


def _ends(gap: DecidedGap) -> tuple[Made, Made]:
    """Return a disparity with missing ratings where they make it lowest, and highest; it itself if none is missing."""
    if isinstance(gap.worst, NotEstimableError):
        return gap.worst, gap.worst
    return (gap.made, gap.made) if gap.worst is None else gap.worst


def _of_labels(gap: DecidedGap) -> float:
    """Return what labels of invented groups add to the variance of a disparity, in squared points."""
    if not (isinstance(gap.made, GapEstimate) and isinstance(gap.other, GapEstimate)):
        return gap.pair_variance
    return max(0.0, gap.other.se**2 - (gap.made.se**2 - gap.pair_variance))


def _change_of(
    sides: tuple[_Side, _Side],
    own: Made,
    theirs: Made,
    *,
    parts: Sequence[float] = (),  # of the variance, what words or labels differ by in each run; empty: what decides
    confidence: float,
) -> Made:
    """Subtract two estimates of a group, narrative by narrative, and add what words, or labels, differ by anyway."""
    if isinstance(own, NotEstimableError):
        return own
    if isinstance(theirs, NotEstimableError):
        return theirs
    first, second = _labelled(sides[0], own), _labelled(sides[1], theirs)
    made = attempt(lambda: difference(first, second, confidence=confidence)[0])
    if isinstance(made, NotEstimableError):
        return made
    return _beside_words(made, sides, (own, theirs), parts=parts, confidence=confidence)


def _beside_words(
    change: GapEstimate,
    sides: tuple[_Side, _Side],
    of: tuple[Made, Made],
    *,
    parts: Sequence[float] = (),
    confidence: float,
) -> GapEstimate:
    """Add to a change over narratives what words, or labels, differ by in it."""
    if change.not_estimable:
        return change
    words = [side.gap.words for side in sides]
    if not parts and words[0] is not None and words[1] is not None:
        return over_words(change, words[0], words[1], confidence=confidence)  # as the gate does beside a baseline
    parts = parts or [side.gap.pair_variance for side in sides]
    added = sum(factor**2 * part for factor, part in zip(_factors(sides), parts, strict=True))
    # A disparity that is the same in every narrative has no degrees of freedom, and adds no uncertainty.
    df = min((each.df for each in of if isinstance(each, GapEstimate) and np.isfinite(each.df)), default=_NAN)
    return with_variance(change, added, df, confidence=confidence)


def _beside(made: Mapping[str, _Changed], *, confidence: float) -> Iterator[_Changed]:
    """Add to each change the same without the group that changes most.

    Notes
    -----
    With D_g the disparity of one of G groups, c_g = D_g (G − 1)/G is how far its mean lies from the mean of all groups,
    and the c sum to 0. Without group h, the disparity of g is its mean less that of the G − 2 others:
    c_g + (c_g + c_h)/(G − 2) = ((G − 1) c_g + c_h)/(G − 2), narrative by narrative.

    Of the variance v_k that the words of each group have, D_g has v_g + Σ_{k≠g} v_k/(G − 1)². These G equations give
    the v_k, and without group h there is v_g + Σ_{k≠g,h} v_k/(G − 2)².
    """
    known = {name: each.change for name, each in made.items() if each.change is not None}
    if len(made) < 3 or len(known) < len(made):
        yield from made.values()
        return
    n = len(made)
    left_out = max(known, key=lambda name: (abs(known[name].delta), name))
    ids = {name: each.shared_ids for name, each in made.items()}
    own = {name: dict(zip(ids[name], known[name].by_narrative.tolist(), strict=True)) for name in made}
    words = _variances_of_words([made[name] for name in made])
    for place, (name, each) in enumerate(made.items()):
        if name == left_out:
            yield each
            continue
        common = [key for key in ids[name] if key in own[left_out]]
        c = np.array([[own[of][key] * (n - 1) / n for key in common] for of in (name, left_out)])
        without: FloatArray = ((n - 1) * c[0] + c[1]) / (n - 2)
        if not np.isfinite(without).any():
            yield each
            continue
        rounding = ROUNDING * float(np.nanmax(np.abs(c), initial=1.0))
        narrow = summarise_contrasts(without, rounding=rounding, confidence=confidence, n_answers=0)
        others = [k for k, of in enumerate(made) if of not in (name, left_out)]
        added = float(words[place] + words[others].sum() / (n - 2) ** 2)
        assert isinstance(each.change, GapEstimate)
        beside = narrow if narrow.not_estimable else with_variance(narrow, added, each.change.df, confidence=confidence)
        row = each.row | {
            "extreme": left_out, "without_extreme": beside.delta, "without_low": beside.ci_low,
            "without_high": beside.ci_high,
        }  # fmt: skip
        yield replace(each, row=row, beside=beside)


def _variances_of_words(made: Sequence[_Changed]) -> FloatArray:
    """Return what the words of each group add to the variance of its mean, in both runs, in the row's squared unit."""
    n = len(made)
    total = np.array([_variance_of_words(each) for each in made])
    shares = np.eye(n) + (1 - np.eye(n)) / (n - 1) ** 2
    return np.asarray(np.maximum(np.linalg.solve(shares, total), 0.0))


def _variance_of_words(of: _Changed) -> float:
    """Return what words add to the variance of one change."""
    assert of.change is not None
    return max(0.0, float(np.nan_to_num(of.change.se**2 - of.narrow_se**2)))


def _decided(rows: Sequence[_Changed], columns: Sequence[str], *, alpha: float) -> Iterator[dict[str, Any]]:
    """Correct the p of a dimension's changes, and say what each shows."""
    adjusted, size = adjust_p([each.row["p"] for each in rows], method="Holm")
    # The tests without the group that changes most are several, too.
    both = [each.row["p"] if each.beside is None else max(each.row["p"], each.beside.p) for each in rows]
    beside, _ = adjust_p(both, method="Holm")
    for each, p, p_beside in zip(rows, adjusted.tolist(), beside.tolist(), strict=True):
        row = each.row | {"p_adjusted": p, "method": "Holm", "family_size": size}
        row |= _answer(each, p, p_beside, alpha=alpha)
        yield {column: row[column] for column in columns}


def _answer(of: _Changed, p_adjusted: float, p_beside: float, *, alpha: float) -> dict[str, str]:
    """Say whether a disparity is lower or higher in the first run, and what limits that."""
    silent = [side.row for side in of.sides if _is_silent(side)]
    if silent:
        code = "no_verdict" if any(row["code"] == "no_verdict" for row in silent) else "no_estimate"
        return _said(code, [each for row in silent for each in str(row["limits"]).split("; ")])
    change = of.change
    if change is None or not change.se > 0:
        return _said("no_estimate")
    back = [code for side in of.sides for code in side.gap.held_back]
    words = [code for side in of.sides for code in side.gap.unproven if code != _ONE_OF_ITS_TERMS]
    if not p_adjusted <= alpha:
        limits = [*back, *words, *(["not_corrected"] if change.p <= alpha else [])]
        if not back and _missing_may_widen(of, change):
            limits.append("missing")
        return _said("undecided" if back else "not_shown", limits)
    against = list(_speaks_against(of, change))
    others: list[str] = []  # it is not the group that differs, but others or one of its terms
    if of.beside is not None and not (p_beside <= alpha and is_shown(of.beside, change.delta)):
        others.append("bystander")
    if _ONE_OF_ITS_TERMS in _farther(of).gap.unproven:
        others.append(_ONE_OF_ITS_TERMS)
    limits = [*back, *against, *others, *words]
    if back or against:
        return _said("undecided", limits)
    if others:
        return _said("not_shown", limits)
    claim = "words" if words else "group"
    if of.row["n_groups"] == 2:
        limits.append("two_groups")
    return _said("lower" if change.delta < 0 else "higher", limits, claim=claim)


def _missing_may_widen(of: _Changed, change: GapEstimate) -> bool:
    """Whether missing ratings leave clearly larger changes possible than those that are there."""
    ends = [(-math.inf, math.inf) if isinstance(each, NotEstimableError) else (each.ci_low, each.ci_high)
            for each in of.others]  # fmt: skip
    return any(clearly_farther(each, (change.ci_low, change.ci_high)) for each in ends)


def _farther(of: _Changed) -> _Side:
    """Return the run in which the group lies farther from the others: what it shows makes the change."""
    first, second = (abs(of.row[f"disparity_{name}"]) for name in ("first", "second"))
    return of.sides[0] if first >= second else of.sides[1]


def _is_silent(side: _Side) -> bool:
    """Whether a run says nothing about a group.

    A measure that is the same in all replies, such as refusals where there are none, has no test of its own. Its
    disparity is known, and a change from it can be tested.
    """
    alike = side.row["code"] == "no_estimate" and isinstance(side.gap.made, GapEstimate) and not side.gap.outcome.rated
    return side.row["code"] in _SILENT and not alike


def _said(code: str, limits: Sequence[str] = (), *, claim: str = "") -> dict[str, str]:
    return {"code": code, "claim": claim, "limits": "; ".join(dict.fromkeys(filter(None, limits)))}


def _speaks_against(of: _Changed, change: GapEstimate) -> Iterator[str]:
    """Yield what an interval that leaves out 0 cannot answer: missing ratings, inexact ratings, invented groups."""
    if not all(is_shown(each, change.delta) for each in of.others):
        yield "missing"
    off = sum(factor * side.gap.off for factor, side in zip(_factors(of.sides), of.sides, strict=True))
    if off > 0 and not (change.ci_low if change.delta > 0 else -change.ci_high) > off:
        yield "bounded"
    if not all(is_shown(each, change.delta) for each in of.invented):
        yield "invented_as_large"
