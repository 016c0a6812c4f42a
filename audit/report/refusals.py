"""The gap of refusals in words: who is refused is a finding of its own, whatever the ratings say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show, show_gap, show_interval
from audit.report.verdicts import VerdictSentence
from audit.tables.formatting import coverage, p_value, rate

WORTH_SAYING: Final = 0.01  # if a smaller share of prompts is refused, no card says that a gap of refusals is undecided


@dataclass(frozen=True, slots=True)
class RefusalGap:
    """The refusals of one dimension and variant, in words."""

    verdict: VerdictSentence
    gap: Markup  # in percentage points
    spread: Markup  # its interval
    facts: Markup  # p
    lead: Markup  # how many of either side were refused, and what the gap leaves out
    least: float  # smallest distance of the interval from 0, in percentage points; 0 if it includes 0 or there is none


def say_refusal_gap(row: PlacedRow | None, *, confidence: float) -> RefusalGap | None:
    """Put the gap of refusals in words; None if nothing was refused, or too little for a gap not found."""
    if row is None or not row.number("n_with_outcome") > 0:
        return None
    low, high, gap = (row.number(name) for name in ("ci_low", "ci_high", "gap_pp"))
    has_interval = math.isfinite(low) and math.isfinite(high)
    found = has_interval and not low <= 0.0 <= high
    if has_interval and not found and row.number("n_with_outcome") < WORTH_SAYING * row.number("n_prompts"):
        return None
    inside, outside = (row.number(f"rate_{side}") for side in ("in_group", "out_group"))
    shares = [show(row, f"rate_{side}", rate) for side in ("in_group", "out_group")]
    opposed = math.isfinite(gap) and (gap < 0) != (inside < outside) and inside != outside
    if found and opposed:
        verdict = VerdictSentence("gap", Markup("A refusal gap, after removing how often each identity is refused"))
    elif found:
        verdict = VerdictSentence(
            "gap", Markup(f"The model refuses {'less' if gap < 0 else 'more'} often if the person is of its own group")
        )
    elif has_interval:
        verdict = VerdictSentence("undecided", Markup("Undecided: compatible with no refusal gap"))
    else:
        rates = Markup("Refused: {} of in-group and {} of out-group prompts; the gap has no interval").format(*shares)
        verdict = VerdictSentence("absent", rates)
    return RefusalGap(
        verdict=verdict,
        gap=show_gap(row, "gap_pp"),
        spread=Markup("{} interval {}").format(coverage(confidence), show_interval(row)) if has_interval
        else Markup("no interval"),
        facts=show(row, "p", p_value) if has_interval else Markup(""),
        lead=Markup(
            "Refused: {} of in-group and {} of out-group prompts. The gap is what remains after removing how often "
            "each perceiver and each experiencer is refused."
        ).format(*shares),
        least=max(low, -high, 0.0) if has_interval else 0.0,
    )  # fmt: skip
