"""Gaps along a series of runs: versions, checkpoints or sizes of a model in an order.

Run k has the position x_k (its place in the order, log2 of its number of parameters, or a number or date that the user
gives) and, in narrative i, the gap d_ik. The trend of a gap is the least-squares slope of d_ik on x_k in each
narrative,

    t_i = Σ_k c_k d_ik,  c_k = (x_k − x̄) / Σ_l (x_l − x̄)²,

averaged over the narratives that all runs have, with a t interval over narratives: the summary-measure analysis of
repeated measurements [1]_. What narratives bring to all runs drops out, since Σ c_k = 0, and no assumption is made
about how a narrative's gaps in different runs are correlated. A step is the same with other factors: the mean of the
runs at one position less the mean of those at the position before.

The interval is widened, as that of a difference of two runs, for what groups, or words, differ by anyway:

- δ: by leaving each group out of all runs at once (:func:`~audit.statistics.comparisons.over_groups_of_all`).
- A group's D: of each run, the part v_k of its variance that narratives do not have is that of its words. Whether a
  word raises a group in all runs alike is not known, so the further variance is the larger of Σ c_k² v_k, as if words
  did so independently in each run, and (Σ c_k √v_k)², as if they did the same in all. It is enough for any equal
  correlation between 0 and 1.

A trend, or a step, is said to be there if its p, corrected (Holm) for all trends, or all steps, of the series, is at
most α and nothing speaks against it: no run's ratings at an end of the scale, no missing ratings that could make it
(each run's moved to its worst case, with the spread of the trend as it is), no second control without it. Of a
disparity p is the larger of that of the trend and that of the same trend without the other group whose own trend is
largest: if one group falls, all others rise against it. Without group h,

    D_g^(h) = (G − 1) / (G (G − 2)) · ((G − 1) D_g + D_h).

That a gap becomes *nearer* to 0, or *farther* from it, is a claim about |line|, which is no linear function of gaps.
The line's size falls from the first position to the last just when its slope and its value m halfway have opposite
signs. Both must be shown (intersection–union [2]_): the p is the larger of both, corrected likewise. If runs' own
intervals lie on both sides of 0 the gap *crosses* it, and is called neither.

The interval speaks of these runs and of narratives like these. Runs of a family are no sample of models: nothing
follows for a model that was not asked.

References
----------
.. [1] Matthews, Altman, Campbell and Royston (1990), BMJ 300, 230–235.
.. [2] Berger (1982), Technometrics 24(4), 295–300.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from audit.errors import NotEstimableError, attempt
from audit.statistics.comparisons import Labelled, combination, over_groups_of_all, units_of
from audit.statistics.deciding_estimate import DecidedGap, Made
from audit.statistics.estimates import INTERVAL, GapEstimate, with_variance
from audit.statistics.families import adjust_p
from audit.statistics.margin_tests import further_variance
from audit.statistics.ratings import FloatArray
from audit.tables.formatting import either, plural

MIN_RUNS: Final = 3  # with two there is a difference, and no trend
_CLEARLY: Final = 0.1
"""Share by which what missing ratings leave possible must be larger to be told."""
_NAN: Final = float("nan")
_Pick: TypeAlias = Callable[[DecidedGap], "Made | None"]
_Key: TypeAlias = tuple[str, str, str]  # kind, dimension, member


def _made(gap: DecidedGap) -> Made:
    return gap.made


@dataclass(frozen=True, eq=False)
class SeriesPoint:
    """A gap of one run of a series."""

    run: str
    position: float
    gap: DecidedGap
    void: tuple[str, ...] = ()  # codes of why the run has no verdict on it; it then takes no part
    held_back: tuple[str, ...] = ()  # codes of what keeps the run's gap from being found and from being ruled out

    @property
    def key(self) -> _Key:
        """What the gap is of, in any run."""
        return self.gap.kind, self.gap.dimension, self.gap.member

    @property
    def made(self) -> GapEstimate | None:
        """The estimate, if the run takes part."""
        made = self.gap.made
        return None if self.void or isinstance(made, NotEstimableError) or made.not_estimable else made


@dataclass(frozen=True, eq=False)
class SeriesTables:
    """Rows of the tables of a series."""

    trends: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    points: list[dict[str, Any]]


def series_tables(points: Sequence[SeriesPoint], *, confidence: float) -> SeriesTables:
    """Test the trend and the steps of each gap along the series, as the module describes."""
    by_key: dict[_Key, list[SeriesPoint]] = {}
    for point in points:
        by_key.setdefault(point.key, []).append(point)
    lines = [_GapLine.of(own, confidence) for own in by_key.values()]
    trends = [_trend_row(line, lines) for line in lines]
    changes = [row for line in lines if not line.why for row in _step_rows(line, lines)]
    for rows in (trends, changes):
        _decide(rows, alpha=1 - confidence)
    _tell_size(trends, alpha=1 - confidence)
    return SeriesTables(trends, changes, [row for line in lines for row in _point_rows(line)])


@dataclass(frozen=True, eq=False)
class _GapLine:
    """One gap along the series."""

    points: tuple[SeriesPoint, ...]  # in the order of positions
    used: tuple[SeriesPoint, ...]  # those that take part
    why: str  # why there is no trend; empty if there is one
    confidence: float

    @classmethod
    def of(cls, points: Sequence[SeriesPoint], confidence: float) -> _GapLine:
        ordered = sorted(points, key=lambda point: point.position)
        used = tuple(point for point in ordered if point.made is not None)
        n_positions = len({point.position for point in used})
        why = ""
        if len(used) < MIN_RUNS:
            why = (
                f"a trend takes {MIN_RUNS} runs with a verdict, and {len(used)} of {len(ordered)} "
                f"{either(len(used), 'has', 'have')} one"
            )
        elif n_positions < MIN_RUNS:
            why = f"a trend takes {MIN_RUNS} positions, and the runs with a verdict have {n_positions}"
        elif len({point.gap.control for point in used}) > 1:
            why = "the runs' gaps are controlled for repeated words in different ways, so they are not the same gap"
        return cls(tuple(ordered), used, why, confidence)

    @property
    def key(self) -> _Key:
        return self.points[0].key

    @property
    def is_disparity(self) -> bool:
        return self.key[0] == "disparity"

    @property
    def positions(self) -> FloatArray:
        return np.array([point.position for point in self.used], dtype=np.float64)

    @property
    def slopes(self) -> FloatArray:
        """The factors of the least-squares slope."""
        x = self.positions - self.positions.mean()
        return np.asarray(x / (x @ x), dtype=np.float64)

    def at(self, position: float) -> FloatArray:
        """Return the factors of the line's value at a position."""
        x = self.positions
        return np.asarray(1 / x.size + (position - x.mean()) * self.slopes, dtype=np.float64)

    def sum_of(self, factors: FloatArray, pick: _Pick = _made) -> GapEstimate:
        """Estimate the sum of the runs' gaps, each times its factor; NotEstimableError without a common narrative."""
        return _sum_of(self.used, factors, pick, self.confidence)


def _sum_of(points: Sequence[SeriesPoint], factors: FloatArray, pick: _Pick, confidence: float) -> GapEstimate:
    parts: list[Labelled] = []
    for point in points:
        made = pick(point.gap)
        if not isinstance(made, GapEstimate):
            raise NotEstimableError(f"{point.run} has no such estimate")
        deciding = made is point.gap.made
        without = point.gap.without if deciding else ()
        parts.append(Labelled(point.run, made, point.gap.narrative_ids, point.gap.scale, without))
    narrow, _ = combination(parts, factors.tolist(), confidence=confidence)
    if all(each.without for each in parts):
        return over_groups_of_all(narrow, parts, factors.tolist(), confidence=confidence)
    return _beside_words(narrow, [each.estimate for each in parts], factors, confidence=confidence)


def _beside_words(
    narrow: GapEstimate, parts: Sequence[GapEstimate], factors: FloatArray, *, confidence: float
) -> GapEstimate:
    """Widen a sum by what words, or groups, differ by anyway in each of its gaps, where they have such a part."""
    of_words = np.array([further_variance(each) for each in parts])
    of_words[of_words < 1e-12 * np.array([each.se**2 for each in parts])] = 0.0
    if not of_words.any():
        return narrow
    extra = max(float(factors**2 @ of_words), float(factors @ np.sqrt(of_words)) ** 2)
    df = min(each.df for each, own in zip(parts, of_words, strict=True) if own)
    return with_variance(narrow, extra, df, confidence=confidence)


def _without_largest(line: _GapLine, lines: Sequence[_GapLine], factors: FloatArray) -> GapEstimate | None:
    """Estimate a sum of a group's disparities without the other group in which it is largest; None if it is itself."""
    family = [other for other in lines if other.key[:2] == line.key[:2]]
    n = len(family)
    if not line.is_disparity or n < 3:  # of two groups each is the other's
        return None
    runs = [point.run for point in line.used]
    sizes: dict[str, float] = {}
    alike = {other.key[2]: [point for point in other.used if point.run in runs] for other in family}
    for member, points in alike.items():
        made = attempt(partial(_sum_of, points, factors, _made, line.confidence)) if len(points) == len(runs) else None
        if isinstance(made, GapEstimate):
            sizes[member] = abs(made.delta)
    largest = max(sizes, key=lambda member: sizes[member])
    if largest == line.key[2]:
        return None
    times = (n - 1) / (n * (n - 2))
    both = np.concatenate([times * (n - 1) * factors, times * factors])
    return _sum_of((*line.used, *alike[largest]), both, _made, line.confidence)


def _tested(line: _GapLine, lines: Sequence[_GapLine], factors: FloatArray) -> dict[str, Any]:
    """Return the columns of a trend or step, before correction: estimate, p, and what speaks against it."""
    try:
        made = line.sum_of(factors)
    except NotEstimableError as error:
        return {"note": str(error)}
    row = {"estimate": made.delta, "n_narratives": made.n_narratives, "note": made.not_estimable}
    row |= {name: getattr(made, name) for name in INTERVAL}
    if not made.se > 0:
        return row
    row["scope"] = "groups" if all(point.gap.scope == "groups" for point in line.used) else "pairs"
    rest = attempt(partial(_without_largest, line, lines, factors))
    row["p_beside"] = made.p if rest is None else max(made.p, _p_on_side(rest, made.delta))
    held = [code for point in line.used for code in point.held_back]
    row["limits"] = "; ".join(dict.fromkeys((*held, *_against(line, made, factors))))
    return row


def _against(line: _GapLine, made: GapEstimate, factors: FloatArray) -> Iterator[str]:
    """Yield codes of what could make a trend or step that is shown: missing or inexact ratings, another control."""
    nearest = made.ci_low if made.delta > 0 else -made.ci_high
    side = 1.0 if made.delta > 0 else -1.0
    pulled = _pulled(line, side * factors)
    if pulled and not nearest + pulled > 0:
        yield "missing"
    off = sum(abs(factor) * gap.off for gap, factor in _in_one_unit(line, factors))
    if off > 0 and not nearest > off:
        yield "bounded"
    picks: dict[str, _Pick] = {
        "invented_as_large" if line.is_disparity else "controls_disagree": lambda gap: gap.other,
    }
    if not line.is_disparity:  # what another group does to a disparity is tested with the trend itself
        picks["by_control_alone"] = lambda gap: gap.plain
    for code, pick in picks.items():
        if any(pick(point.gap) is not None for point in line.used):
            try:
                again = line.sum_of(factors, pick)
            except NotEstimableError:
                yield code
            else:
                if not again.leaves_out_zero(side):
                    yield code


def _in_one_unit(line: _GapLine, factors: FloatArray) -> list[tuple[DecidedGap, float]]:
    """Return each run's gap with its factor, which brings all to one unit."""
    gaps = [point.gap for point in line.used]
    return list(zip(gaps, (factors * units_of(*gaps)).tolist(), strict=True))


def _pulled(line: _GapLine, factors: FloatArray) -> float:
    """How far missing ratings could pull the sum of the runs' gaps, each times its factor, below its estimate."""
    return sum(_farthest(gap, factor) for gap, factor in _in_one_unit(line, factors))


def _farthest(gap: DecidedGap, factor: float) -> float:
    """How far missing ratings could pull a gap, times its factor, below its estimate; −inf if that has no bound."""
    if gap.worst is None:
        return 0.0
    if isinstance(gap.worst, NotEstimableError) or isinstance(gap.made, NotEstimableError):
        return -math.inf
    return min(factor * (each.delta - gap.made.delta) for each in gap.worst)


def against_difference(first: SeriesPoint, second: SeriesPoint, *, confidence: float) -> tuple[GapEstimate, list[str]]:
    """Estimate the first run's deciding gap minus the second's; also codes of what could make it, or holds it back.

    In points, or in % of the scale where scales differ; NotEstimableError without a narrative that both have.
    """
    line = _GapLine((first, second), (first, second), "", confidence)
    factors = np.array([1.0, -1.0])
    made = line.sum_of(factors)
    back = [code for point in line.used for code in point.held_back]
    return made, list(dict.fromkeys((*back, *(_against(line, made, factors) if made.se > 0 else ()))))


def missing_may_widen(first: SeriesPoint, second: SeriesPoint, *, confidence: float) -> bool:
    """Whether missing ratings leave clearly larger differences of two runs' deciding gaps possible than those rated do.

    NotEstimableError without a narrative that both have.
    """
    line = _GapLine((first, second), (first, second), "", confidence)
    factors = np.array([1.0, -1.0])
    made = line.sum_of(factors)
    widest = made.ci_low + _pulled(line, factors), made.ci_high - _pulled(line, -factors)
    return clearly_farther(widest, (made.ci_low, made.ci_high))


def clearly_farther(wide: tuple[float, float], narrow: tuple[float, float]) -> bool:
    """Whether an interval reaches clearly farther from 0 than another; never if that is not finite."""
    reach, known = (max(map(abs, each)) for each in (wide, narrow))
    return bool(math.isfinite(known) and not reach <= (1 + _CLEARLY) * known)


def _p_on_side(made: Made, sign: float) -> float:
    """Two-sided p of an estimate on the given side of 0; 1 on the other side, without a spread, or without one."""
    return made.p if isinstance(made, GapEstimate) and made.se > 0 and made.delta * sign > 0 else 1.0


def _named(line: _GapLine) -> dict[str, Any]:
    kind, dimension, member = line.key
    return {"kind": kind, "dimension": dimension, "member": member}


def _trend_row(line: _GapLine, lines: Sequence[_GapLine]) -> dict[str, Any]:
    blank: dict[str, Any] = dict.fromkeys(("estimate", *INTERVAL, "p_beside", "p_size"), _NAN)
    blank |= {"scope": "", "limits": "", "size": "", "n_narratives": 0, "note": line.why}
    row = _named(line) | blank | dict.fromkeys(("line_first", "line_last"), _NAN)
    row |= {"n_runs": len(line.used), "n_left_out": len(line.points) - len(line.used)}
    if line.why:
        return row
    first, last = line.positions[0], line.positions[-1]
    row |= _tested(line, lines, line.slopes)
    if math.isnan(row["estimate"]):
        return row
    halfway = line.sum_of(line.at((first + last) / 2))
    row |= {"line_first": line.sum_of(line.at(first)).delta, "line_last": line.sum_of(line.at(last)).delta}
    if row["se"] > 0 and halfway.se > 0:
        row["p_size"] = max(row["p_beside"], halfway.p)
        shown = [made for made in (point.made for point in line.used) if made is not None]
        crosses = any(made.ci_low > 0 for made in shown) and any(made.ci_high < 0 for made in shown)
        towards = row["estimate"] * halfway.delta < 0
        row["size"] = "crosses" if crosses else "nearer" if towards else "farther"
    return row


def _step_rows(line: _GapLine, lines: Sequence[_GapLine]) -> Iterator[dict[str, Any]]:
    """Yield the step from each position to the next; runs at one position are averaged."""
    x = line.positions
    places = np.unique(x)
    try:
        slope = line.sum_of(line.slopes).delta
    except NotEstimableError:
        slope = _NAN
    for before, after in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        of_both = np.isin(x, (before, after))
        factors = ((x == after) / (x == after).sum() - (x == before) / (x == before).sum())[of_both]
        both = replace(line, used=tuple(point for point, is_in in zip(line.used, of_both, strict=True) if is_in))
        blank: dict[str, Any] = dict.fromkeys(("estimate", *INTERVAL, "p_beside"), _NAN)
        blank |= {"scope": "", "limits": "", "n_narratives": 0, "note": ""}
        runs = {
            name: "; ".join(point.run for point in line.used if point.position == place)
            for name, place in (("first", before), ("second", after))
        }
        where = {"first_position": before, "second_position": after, "line_change": slope * (after - before)}
        yield _named(line) | blank | runs | where | _tested(both, lines, factors)


def _decide(rows: Sequence[dict[str, Any]], *, alpha: float) -> None:
    """Correct the p of a family of trends or steps (Holm), and say what each shows."""
    adjusted, size = adjust_p([row["p_beside"] for row in rows], method="Holm")
    for row, p in zip(rows, adjusted.tolist(), strict=True):
        row |= {"p_adjusted": p, "method": "Holm", "family_size": size}
        if math.isnan(row["p_beside"]):
            row["code"] = "no_estimate"
        elif not p <= alpha:
            row["code"] = "not_shown"
            told = "not_corrected" if row["p_beside"] <= alpha else "bystander" if row["p"] <= alpha else ""
            row["limits"] = told
        elif row["limits"]:
            row["code"] = "undecided"
        else:
            row["code"] = "falls" if row["estimate"] < 0 else "rises"


def _tell_size(trends: Sequence[dict[str, Any]], *, alpha: float) -> None:
    """Keep what is said about a gap's size only where its corrected p shows it."""
    adjusted, _ = adjust_p([row["p_size"] for row in trends], method="Holm")
    for row, p in zip(trends, adjusted.tolist(), strict=True):
        row["p_size"] = p
        shown = p <= alpha or row["size"] == "crosses"
        if not (shown and row["code"] in ("falls", "rises")):
            row["size"] = ""


def _point_rows(line: _GapLine) -> Iterator[dict[str, Any]]:
    for point in line.points:
        made, used = point.gap.made, point in line.used
        row: dict[str, Any] = {"run": point.run, "position": point.position} | _named(line)
        row |= dict.fromkeys(("delta", "ci_low", "ci_high"), _NAN) | {"takes_part": used, "note": ""}
        if isinstance(made, GapEstimate):
            row |= {"delta": made.delta, "ci_low": made.ci_low, "ci_high": made.ci_high}
        if not used:
            row["note"] = "; ".join(point.void) or str(getattr(made, "not_estimable", made))
        yield row


def positions_fault(positions: Sequence[float]) -> str:
    """Say why a trend cannot be taken over these positions, whatever the runs' gaps; empty if it can."""
    if len(positions) < MIN_RUNS:
        return f"a series takes {MIN_RUNS} runs or more, got {plural(len(positions), 'run')}"
    n = len(set(positions))
    return "" if n >= MIN_RUNS else f"a series takes {MIN_RUNS} different positions or more, got {n}"
