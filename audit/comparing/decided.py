"""What the difference of two runs' δ shows. To say that a gap differs is as hard as to say that there is one.

It must be told from 0 after correction, stay on that side wherever missing ratings lie and under each control that the
runs' verdicts rest on, and neither run's own limits may hold it back. Of runs without a verdict nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from audit.comparing.base import ComparedRun
from audit.comparing.series import point_of
from audit.errors import NotEstimableError, attempt
from audit.statistics.outcome import INTENSITY
from audit.statistics.series import SeriesPoint, against_difference, missing_may_widen
from audit.statistics.verdict import next_step_for

_NONE: Final = ("no_verdict", "no_estimate")


@dataclass(frozen=True, eq=False)
class _DecidedSide:
    """The average gap of one run, with the run's verdict on it."""

    point: SeriesPoint
    verdict: Mapping[str, Any]


DecidedSides: TypeAlias = Mapping[tuple[str, str, str], _DecidedSide]


def sides_of(runs: Mapping[str, ComparedRun]) -> DecidedSides:
    """Return each run's average gaps with their verdicts, by run, outcome and dimension."""
    made = {}
    for label, run in runs.items():
        verdicts = {(row["outcome"], row["dimension"]): row for row in run.verdicts}
        for gap in run.known_gaps.deciding:
            place = gap.outcome.name, gap.dimension
            if (row := verdicts.get(place)) is not None:
                point = point_of(label, gap, str(row["code"]), str(row["reasons"]))
                made[label, *place] = _DecidedSide(point, row)
    return made


def with_answers(
    rows: Iterable[Mapping[str, Any]],
    sides: DecidedSides,
    *,
    first: str = "first",  # the columns that name the two runs
    second: str = "second",
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Add to paired differences of δ what each shows: ``code``, ``claim``, ``limits`` and ``next_step``."""
    for row in rows:
        answer = dict.fromkeys(("code", "claim", "limits", "next_step"), "")
        if row[second] not in ("", row[first]):
            place = row.get("outcome", INTENSITY.name), row["dimension"]
            pair = [side for name in (first, second) if (side := sides.get((row[name], *place))) is not None]
            answer |= _answer(row, pair, scope=str(row.get("change_scope", row.get("scope"))), alpha=1 - confidence)
        yield {**row, **answer}


def _answer(row: Mapping[str, Any], pair: list[_DecidedSide], *, scope: str, alpha: float) -> dict[str, str]:
    silent = [each.verdict for each in pair if each.verdict["code"] in _NONE]
    if silent:
        codes = [code for verdict in silent for code in str(verdict["reasons"]).split("; ")]
        return _said("no_verdict" if any(each["code"] == "no_verdict" for each in silent) else "no_estimate", codes)
    if len(pair) < 2 or not math.isfinite(row["p_adjusted"]):
        return _said("no_estimate", [])
    first, second = (each.point for each in pair)
    back = [*first.held_back, *second.held_back]
    if not row["p_adjusted"] <= alpha:
        limits = [*back, *(["not_corrected"] if row["p"] <= alpha else [])]
        # That no large difference is possible is said of the ratings that are there.
        if not back and attempt(lambda: missing_may_widen(first, second, confidence=1 - alpha)) is True:
            limits.append("missing")
        return _said("undecided" if back else "not_shown", limits or ["holds_zero"])
    try:
        made, against = against_difference(first, second, confidence=1 - alpha)
    except NotEstimableError:
        return _said("undecided", [*back, "not_estimable"])
    if against:
        return _said("undecided", against)
    # The paired difference is of the gaps as they are; what invented groups show alike is no change between groups.
    controls = {each.verdict["control"] for each in pair}
    free = "none" not in controls and made.leaves_out_zero(row["delta_change"])
    claim = "uncontrolled" if not free else "groups" if scope == "groups" else "pairs"
    lacking = {"groups": [], "pairs": ["pairs_alone"], "uncontrolled": ["not_controlled"]}[claim]
    return _said("lower" if row["delta_change"] < 0 else "higher", lacking, claim=claim)


def _said(code: str, limits: Iterable[str], *, claim: str = "") -> dict[str, str]:
    codes = list(dict.fromkeys(filter(None, limits)))
    step = "more_narratives" if codes == ["holds_zero"] else next_step_for(codes)
    told = "; ".join(code for code in codes if code != "holds_zero")
    return {"code": code, "claim": claim, "limits": told, "next_step": step}
