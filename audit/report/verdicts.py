"""What the data of one gap decide, and what forbids to say so.

One rule decides: the interval that is printed. A gap is found where it leaves out 0; a gap larger than the margin is
ruled out where it lies inside the margin, in the average and in every part of it. Where the data could be otherwise
than the interval takes them to be, nothing is ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.controlled import Control
from audit.report.numbers import Row, show
from audit.tables.gap import off_of
from audit.wording import SAME, coverage, listed, towards, unsigned

RESERVATIONS: Final = {
    "unfinished": ("the run is not finished", "the prompts that are left will go as those that were asked"),
    "few_narratives": ("few narratives", "such narratives' gaps are spread about normally"),
    "many_missing": ("many ratings are missing", "missing ratings are like those of the same pairs and narratives"),
    "incomplete_narratives": (
        "many narratives are incomplete",
        "missing ratings are like those of the same pairs and narratives",
    ),
    "refusal_gap": ("refusals differ", "missing ratings are like those of the same pairs and narratives"),
    "unrated_identity": ("an identity has no rating", "it is not taken to speak of identities without a rating"),
    "scale_end": ("ratings lie at an end of the scale", "the ends of the scale squeeze no gap"),
    "beyond_scale": ("ratings lie beyond the scale", "ratings beyond the scale are meant as they are written"),
    "number_mass": ("low number mass", "what the model would write in place of a number does not matter"),
    "not_converged": ("a fit could not be confirmed", "the fit is the best one"),
}
"""Remarks under which nothing is ruled out, by code: the reason in short, and what the interval takes to be so."""
INEXACT: Final = "the ratings are known too inexactly"
"""Why a gap is undecided that the interval alone would decide: its ratings could lie elsewhere within their bounds."""
NOT_CORRECTED: Final = " (not found after correction)"
WORST_CASE: Final = ("some ratings are missing", "missing ratings are like those of the same pairs and narratives")
"""The same where fewer are missing: not for their number, but where the worst that they could be passes the bound."""
_MANY: Final = "many_missing"
_SAME: Final = ("incomplete_narratives",)
"""Reservations that say no more than that many ratings are missing, where that has been said."""
_NAMED: Final = 2
_DUST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data decide.

    Attributes
    ----------
    kind
        ``gap``, ``within`` (an average gap within the margin), ``none`` (no gap larger than the margin, in no part
        either), ``average`` (no average gap larger than the margin; of some part it could not be shown), ``echo``
        (a gap that goes no further than that of invented groups), ``undecided`` or ``absent``.
    words
        The same in words.
    short
        The same without the names of parts of which it does not hold; None where it names none.
    """

    kind: str
    words: Markup
    short: Markup | None = None


@dataclass(frozen=True, slots=True)
class Reservations:
    """Why nothing is ruled out, and what the interval takes to be so; both empty where nothing is in the way."""

    reasons: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether something is in the way."""
        return bool(self.reasons)


def reservations(
    gap: Row | None, codes: Set[str], worst: Sequence[Row] = (), *, margin: float = math.nan
) -> Reservations:
    """Collect what forbids to rule out a gap.

    Parameters
    ----------
    gap
        The headline's row, of which missing ratings are counted.
    codes
        Codes of the remarks on the gap and on the run.
    worst
        Rows of the sensitivity table for ``worst_case_low`` and ``worst_case_high``.
    margin
        In points; NaN without one.

    Notes
    -----
    However few ratings are missing, and whatever they depend on, the worst cases bound what they could do. They are in
    the way where these reach beyond the margin or, without one, beyond the printed interval.
    """
    found = [said for code, said in RESERVATIONS.items() if code in codes and not (code in _SAME and _MANY in codes)]
    if gap is not None and gap.number("n_missing") > 0 and _worse(gap, worst, margin=margin):
        found.append(WORST_CASE)
    assumptions = dict.fromkeys(assumption for _, assumption in found)
    reasons = [reason for reason, _ in found]
    if len(found) > 1 and found[-1] is WORST_CASE and WORST_CASE[1] in {said for _, said in found[:-1]}:
        reasons.pop()  # that many are missing has been said
    return Reservations(tuple(reasons), tuple(assumptions))


def _worse(gap: Row, worst: Sequence[Row], *, margin: float) -> bool:
    ends = [row.number(name) for row in worst for name in ("ci_low", "ci_high")]
    if not ends or not all(map(math.isfinite, ends)):
        return True
    reach = margin if math.isfinite(margin) else reach_of(gap)
    return not max(map(abs, ends)) <= reach


def reach_of(gap: Row) -> float:
    """Return the farthest that the printed interval reaches from 0, in points."""
    return max(abs(gap.number("ci_low")), abs(gap.number("ci_high")))


def least_of(gap: Row) -> float:
    """Return how far from 0 the printed interval lies at the least, in points; 0 where it holds 0."""
    return max(gap.number("ci_low"), -gap.number("ci_high"), 0.0)


def is_zero(gap: Row) -> bool:
    """Whether δ is 0, but for the rest of a floating-point sum."""
    return abs(gap.number("delta_points")) < _DUST


def all_alike(gap: Row) -> bool:
    """Whether all narratives have one gap, of which there is no interval."""
    return SAME in str(gap["note"])


def farthest(gap: Row) -> str:
    """Name the column of the interval's end that is farther from 0."""
    return "ci_low" if abs(gap.number("ci_low")) > abs(gap.number("ci_high")) else "ci_high"


def verdict(
    gap: Row | None,
    margin: Row | None,
    *,
    larger: Sequence[Markup],
    not_shown: Sequence[Markup],
    held_back: Reservations,
    parts: str,
    constant: Markup | None,
    in_probabilities: bool,
    control: Control,
    no_verdict: str = "",
    taken_back: bool = False,
) -> Verdict:
    """Say what the data decide, against the margin where one was set.

    Parameters
    ----------
    gap
        The headline's row, or None.
    margin
        The row of the equivalence table that has the margin, if there is one.
    larger
        Parts whose gap was found to lie beyond the margin, the largest first.
    not_shown
        Other parts of which it could not be shown that their gap lies within the margin, likewise.
    held_back
        What forbids to rule out a gap.
    parts
        What the parts are: "emotion or group"; empty where there are none.
    constant
        What the ratings are where they do not differ.
    in_probabilities
        Whether the gap is one of the model's probabilities, which its most probable answers hardly show.
    no_verdict
        Why there can be no verdict whatever the gap is; empty where there can.
    control
        What the controls of repeated words say: a gap that does not go beyond that of invented groups is none between
        groups.
    taken_back
        Whether a gap that the interval shows is not found after correction for all gaps of the page.
    """
    if gap is None or not math.isfinite(gap.number("delta_points")):
        return Verdict("absent", Markup("No answer"))
    if constant is not None:
        return Verdict("absent", constant)
    if no_verdict:
        return Verdict("absent", Markup("No verdict: {}").format(no_verdict))
    if not math.isfinite(gap.number("ci_low")):
        why = "every narrative's gap is 0, and has no interval" if is_zero(gap) and all_alike(gap) else ""
        return Verdict("absent", Markup("No answer: {}").format(why or "δ has no interval"))
    where = ", in the model's probabilities" if in_probabilities else ""
    found = not gap.number("ci_low") <= 0.0 <= gap.number("ci_high")
    if found and control.kind == "placebo" and not control.goes_beyond:
        return Verdict("echo", Markup("No more than invented groups show{}").format(where))
    off = off_of(gap)
    if found and gap.number("ci_low") - off <= 0.0 <= gap.number("ci_high") + off:
        return Verdict("undecided", Markup("Undecided: {}{}").format(INEXACT, where))
    gap_words = _gap_words(gap, control, taken_back=taken_back)
    if margin is None or not math.isfinite(margin.number("margin")):
        if found:
            return Verdict("gap", Markup("{}{}").format(gap_words, where))
        return Verdict("undecided", Markup("Undecided: compatible with no average gap{}").format(where))
    size = show(margin, "margin", unsigned)
    inside = reach_of(gap) + off < margin.number("margin")
    if found:
        if inside and not held_back:
            rest = _otherwise(larger, not_shown)
            said = Markup("{}, smaller than {} points{}").format(gap_words, size, where)
            return Verdict("within", said + rest, said + _in_a_part(larger, not_shown))
        return Verdict("gap", Markup("{}{}").format(gap_words, where))
    if not inside:
        why = f": {INEXACT}" if reach_of(gap) < margin.number("margin") else ""
        return Verdict("undecided", Markup("Undecided against {} points{}{}").format(size, where, why))
    if held_back:
        words = Markup("Undecided against {} points{}: {}")
        return Verdict("undecided", words.format(size, where, listed(list(held_back.reasons))))
    missing = bool(parts) and gap.number("n_missing") > 0
    if larger or not_shown or not parts or missing:
        rest = _otherwise(larger, not_shown)
        if missing and not (larger or not_shown):
            rest = Markup("; not shown for any one {}, since some ratings are missing").format(parts)
        said = Markup("No average gap larger than {} points{}").format(size, where)
        return Verdict("average", said + rest, said + _in_a_part(larger, not_shown) if larger or not_shown else None)
    words = Markup("No gap larger than {} points, on average or in any {}{}")
    return Verdict("none", words.format(size, parts, where))


def _gap_words(gap: Row, control: Control, *, taken_back: bool) -> str:
    """Name a gap that was found: between groups, where repeated words cannot have made it."""
    only = "; not shown for other wordings" if control.is_of_these_wordings else ""
    only = f"{NOT_CORRECTED}{only}" if taken_back else only
    if control.kind == "none":
        return f"An average gap {towards(gap.number('delta_points'))}{only}"
    decided = gap if control.beyond is None else control.beyond
    return f"An average gap between groups, {towards(decided.number('delta_points'))}{only}"


def _otherwise(larger: Sequence[Markup], not_shown: Sequence[Markup]) -> Markup:
    """Name the parts for which a verdict of the average does not hold, or was not shown to."""
    said = Markup(", but larger in {}").format(few(larger, at_most=_NAMED)) if larger else Markup("")
    return said + (Markup("; not shown for {}").format(few(not_shown, at_most=_NAMED)) if not_shown else "")


def _in_a_part(larger: Sequence[Markup], not_shown: Sequence[Markup]) -> str:
    """Say that a verdict of the average does not hold in some part, or was not shown to, without naming it."""
    return ", but larger in a part" if larger else "; not shown for every part" if not_shown else ""


def few(names: Sequence[Markup], *, at_most: int) -> Markup:
    """List names, of more than a few the first ones and how many more there are."""
    shown = list(names[:at_most])
    rest = len(names) - len(shown)
    if rest:
        return Markup("{} and {} more").format(Markup(", ").join(shown), rest)
    return Markup(" and ").join(filter(None, (Markup(", ").join(shown[:-1]), *shown[-1:])))


def bound(gap: Row, held_back: Reservations, *, confidence: float) -> Markup:
    """Say what size of average gap the data rule out; or, with reservations, what the interval takes to be so."""
    if not math.isfinite(gap.number("ci_low")):
        return Markup("")
    largest = show(gap, farthest(gap), lambda value: unsigned(abs(value)))
    if held_back:
        return Markup("The {} interval reaches {} points from 0. It holds if {}.").format(
            coverage(confidence), largest, listed(list(held_back.assumptions))
        )
    if off := off_of(gap):
        return Markup(
            "The {} interval reaches {} points from 0, and {} more if all ratings are as far off as they can be."
        ).format(coverage(confidence), largest, unsigned(off))
    return Markup("Average gaps larger than {} points, in either direction, are ruled out ({} interval).").format(
        largest, coverage(confidence)
    )
