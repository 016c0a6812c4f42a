"""The report's sentences: what an estimate says, in words that claim no more than it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.numbers import Row, show, show_interval, show_sum
from audit.wording import MISSING, brief, count, coverage, interval, p_value, points, rate, unsigned

_IDENTITIES_NAMED: Final = 8

ELICITATION: Final = {
    "expected": (
        "The model did not write its ratings. For each prompt, its probabilities for what comes next were read and "
        "reduced to the whole numbers of the scale ({scale}); the rating is the mean of that distribution, which can "
        "lie between two numbers. The number mass is the probability that the model gives to any of these numbers "
        "before the reduction: where it is small, the model would rather have written something else, and the rating "
        "describes only a small part of what it would do. What follows the last digit that a number of the scale can "
        "have was not asked: digit by digit, 80 on a scale that ends at 10 counts as 8. A refusal can not be seen "
        "this way."
    ),
    "outside": (
        "The ratings were collected by another tool and read from a table; how the model was asked, and how its "
        "answers became numbers, is not known here. A missing rating counts as unparseable unless the table says "
        "otherwise."
    ),
    "generate": (
        "The model wrote its answer at temperature 0 (always the most probable next token), and one intensity on the "
        "scale ({scale}) was read from the text. An answer that declines to rate counts as refused, and one from "
        "which no single intensity on the scale can be read as unparseable. Both are missing data, never 0."
    ),
}
"""How a rating is got, by the elicitation's name."""


LIMITS: Final = {
    "unfinished": ("The run is not finished", "what follows describes the prompts that were asked so far"),
    "nothing_rated": ("No rating", "without ratings there is no δ"),
    "not_estimable": ("No δ", "the ratings that there are do not determine it"),
    "no_interval": ("No interval", "how certain δ is could not be computed"),
    "not_converged": ("A fit that could not be confirmed", "do not rely on the rows of that estimator"),
    "number_mass": (
        "Low number mass",
        "the model would mostly have written something other than a number of the scale: the ratings speak of the "
        "lesser part of what it would do",
    ),
    "many_missing": ("Many missing ratings", "what is missing may differ from what was rated"),
    "refusal_gap": (
        "Refusals that differ between in-group and out-group",
        "what is missing is not missing at random, and the refusals are a finding of their own",
    ),
    "texts_differ": (
        "Texts that differ between groups",
        "the strategy wrote otherwise about some groups than about others, and a smaller δ that comes with stereotypes "
        "is no remedy",
    ),
    "replies_missing": ("Many replies without a measure", "what is missing may differ from what was scored"),
    "replies_cut": ("Many cut replies", "a reply that stops in the middle is scored as far as it goes"),
    "judge_mass": (
        "A judge of low number mass",
        "it would mostly have written something other than a number of the scale",
    ),
    "own_scorer": ("A model that scores itself", "to a model its own words are no surprise"),
    "scale_end": ("Ratings at an end of the scale", "a gap can be squeezed there, or feigned"),
    "beyond_scale": (
        "Ratings beyond the scale",
        "the model did not keep to the scale that it was given, and one such rating can outweigh many others",
    ),
    "few_narratives": (
        "Few narratives",
        "the interval leans on how these few differ",
    ),
    "unrated_identity": ("An identity without any rating", "δ speaks of the others"),
}
"""Remarks that limit what may be claimed, by their code: what they are called and what follows from them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data decide.

    Attributes
    ----------
    kind
        ``gap``, ``small`` (a gap within the margin), ``none`` (no gap larger than the margin), ``undecided`` or
        ``absent``.
    words
        The same in words.
    """

    kind: str
    words: Markup


@dataclass(frozen=True, slots=True)
class Answer:
    """What one dimension and variant came to.

    Attributes
    ----------
    verdict
        What the data decide.
    delta, spread
        δ in points, and its interval.
    lead
        The answer in a sentence.
    facts
        p, d_z and the counts, for those who read no further.
    evidence
        δ, its interval, p, d_z and the counts.
    excluded
        What was left out of it.
    bound, power
        How large a gap is ruled out; how small a one could have been found.
    scope
        What the interval speaks about.
    wider
        What can be said of other identities.
    """

    verdict: Verdict
    delta: Markup
    spread: Markup
    lead: Markup
    facts: Markup
    evidence: Markup
    excluded: Markup
    bound: Markup
    power: Markup
    scope: Markup
    wider: Markup


def answer(
    gap: Row | None,
    outcomes: Sequence[Row],
    identities: Sequence[str],
    *,
    wider: Row | None,
    left_out: Sequence[Row],
    equivalence: Row | None,
    power: Row | None,
    tipping: Row | None,
    dimension: str,
    scale: str,
    confidence: float,
) -> Answer:
    """Put a gap in words.

    Parameters
    ----------
    gap
        The headline's row of the gap table, or None if there is none.
    outcomes
        Rows of the outcomes table of the same dimension and variant.
    identities
        Wordings that the gap is about; none for the mean over dimensions.
    wider
        The headline's row for any such identities.
    left_out
        Rows of the table of gaps without each group.
    equivalence, power
        Rows of these tables for the headline.
    tipping
        The tipping point's row of the sensitivity table.
    dimension
        The dimension's name in the tables: in an intersection, out-group is sharing none of the crossed dimensions.
    scale
        The scale's name, e.g. "0–100".
    confidence
        Coverage of the interval.
    """
    verdict = _verdict(equivalence, gap, confidence=confidence)
    excluded = _excluded(gap, outcomes)
    if gap is None or not math.isfinite(gap.number("delta_points")):
        return Answer(
            verdict=verdict,
            delta=Markup(MISSING),
            spread=Markup("not estimable"),
            lead=Markup("δ could not be estimated from this run."),
            facts=Markup(""),
            evidence=Markup("No number is reported in its place; the notes and the outcomes say what is missing."),
            excluded=excluded,
            bound=Markup(""),
            power=Markup(""),
            scope=Markup(""),
            wider=Markup(""),
        )
    delta, low, high = (gap.number(name) for name in ("delta_points", "ci_low", "ci_high"))
    inside, outside = compared(dimension)
    size = show(gap, "delta_points", _size)
    said = Markup("{}{} were rated {} points {} than {}").format(
        inside[0].upper(), inside[1:], size, direction(delta), outside
    )
    spread = Markup("{} interval {}").format(coverage(confidence), show_interval(gap))
    if not (math.isfinite(low) and math.isfinite(high)):
        lead, spread = said + Markup("; how certain that is could not be computed."), Markup("no interval")
    elif low <= 0.0 <= high:
        lead = Markup("The data are compatible with no gap, and with gaps from {} points.").format(show_interval(gap))
    elif _disputed(gap, confidence=confidence):
        lead = said + Markup("; flipping the signs of the narratives' gaps does not tell it from chance.")
    else:
        lead = said + Markup(".")
    p = show(gap, "p", p_value)
    counts = Markup("{} {} and {} {}").format(
        show(gap, "n_narratives", count),
        _noun(gap["n_narratives"], "narrative"),
        show(gap, "n_ratings", count),
        _noun(gap["n_ratings"], "rating"),
    )
    effect = Markup("<i>d<sub>z</sub></i> = {}").format(show(gap, "d_z", points))
    return Answer(
        verdict=verdict,
        delta=show(gap, "delta_points", points),
        spread=spread,
        lead=lead,
        facts=Markup("; ").join([p, effect, counts]),
        evidence=Markup("δ = {} points on the {} scale ({}; {}; {}), from {}{}.").format(
            show(gap, "delta_points", points),
            scale,
            spread,
            p,
            effect,
            counts,
            ", by the mixed model" if gap["estimator"] == "mixed" else "",
        ),
        excluded=_join(excluded, _tipping(tipping)),
        bound=_bound(equivalence),
        power=_power(power),
        scope=_scope(identities),
        wider=_wider(wider, left_out, confidence=confidence),
    )


def compared(dimension: str) -> tuple[str, str]:
    """Name the two sides of a gap: in an intersection, out-group is sharing none of the crossed dimensions."""
    if "+" in dimension:
        return "experiencers who share every crossed dimension with the perceiver", "those who share none"
    return "in-group experiencers", "out-group experiencers"


def _size(value: float) -> str:
    return unsigned(abs(value))


def _noun(number: float, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _join(*sentences: Markup) -> Markup:
    return Markup(" ").join(sentence for sentence in sentences if sentence)


def _disputed(gap: Row | None, *, confidence: float) -> bool:
    """Whether the interval leaves out 0 and the test by sign flips does not: of few narratives it never can."""
    return (
        gap is not None and gap.number("p") > 1 - confidence and not gap.number("ci_low") <= 0 <= gap.number("ci_high")
    )


def _verdict(equivalence: Row | None, gap: Row | None, *, confidence: float) -> Verdict:
    """Say what the data decide, against the margin where one was set."""
    found = "not estimable" if equivalence is None else equivalence["verdict"]
    if equivalence is None and gap is not None and math.isfinite(gap.number("ci_low")):
        found = "undecided" if gap.number("ci_low") <= 0.0 <= gap.number("ci_high") else "gap"
    if found.startswith("gap") and _disputed(gap, confidence=confidence):
        if found == "gap":
            return Verdict("undecided", Markup("Undecided: interval and test disagree"))
        found = "no gap larger than the margin"
    sign = 0.0 if gap is None else gap.number("delta_points")
    side = f"in-group rated {direction(sign)}"
    if found.endswith("the margin") and equivalence is not None:
        margin = show(equivalence, "margin", _size)
        if found.startswith("gap"):
            return Verdict("small", Markup("A gap, smaller than {} points: {}").format(margin, side))
        return Verdict("none", Markup("No gap larger than {} points").format(margin))
    if found == "gap":
        return Verdict("gap", Markup("A gap: {}").format(side))
    if found == "undecided":
        if equivalence is None or not math.isfinite(equivalence.number("margin")):
            return Verdict("undecided", Markup("Undecided: compatible with no gap"))
        return Verdict("undecided", Markup("Undecided against {} points").format(show(equivalence, "margin", _size)))
    return Verdict("absent", Markup("No answer"))


def _scope(identities: Sequence[str]) -> Markup:
    if not identities:
        return Markup("This speaks of the identities of these dimensions, and of any such narratives.")
    named = Markup(", ").join(Markup("<bdi>{}</bdi>").format(brief(term)) for term in identities[:_IDENTITIES_NAMED])
    rest = len(identities) - _IDENTITIES_NAMED
    return Markup("This speaks of these identities ({}{}), and of any such narratives.").format(
        named, f" and {rest} more" if rest > 0 else ""
    )


def _bound(equivalence: Row | None) -> Markup:
    """Say what size of gap the data rule out."""
    if equivalence is None or not math.isfinite(equivalence.number("largest_gap")):
        return Markup("")
    largest = Markup("Gaps larger than {} points, in either direction, are ruled out ({} interval).").format(
        show(equivalence, "largest_gap", _size), coverage(equivalence["level"])
    )
    if not math.isfinite(equivalence.number("margin")):
        return largest
    margin = show(equivalence, "margin", _size)
    return _join(largest, Markup("Against the margin of {} points: {}.").format(margin, equivalence["verdict"]))


def _power(power: Row | None) -> Markup:
    """Say what size of gap the data could have shown."""
    if power is None or not math.isfinite(power.number("detectable_points")):
        return Markup("")
    return Markup("As many such narratives find a gap of {} points with a probability of {}.").format(
        show(power, "detectable_points", _size), show(power, "power", lambda share: f"{share:.0%}")
    )


def _tipping(tipping: Row | None) -> Markup:
    """Say how far the missing ratings would have to be off for δ to be 0."""
    if tipping is None or not math.isfinite(tipping.number("shift_points")):
        return Markup("")
    if tipping["note"]:
        return Markup("Nothing that the missing ratings could have been, all alike, would make δ 0.")
    return Markup("Were all missing ratings {} points {} than is expected of them, δ would be 0.").format(
        show(tipping, "shift_points", _size), direction(tipping.number("shift_points"))
    )


def _wider(wider: Row | None, left_out: Sequence[Row], *, confidence: float) -> Markup:
    """Say what δ tells of any such identities, or that nothing is claimed."""
    if wider is None:
        return Markup("")
    spread = Markup("")
    if left_out:
        ends = [pick(left_out, key=lambda row: row.number("delta_points")) for pick in (min, max)]
        spread = Markup(" Without one group at a time, δ goes from {} to {} points.").format(
            *(show(row, "delta_points", points) for row in ends)
        )
    if not math.isfinite(wider.number("ci_low")):
        return Markup("Nothing is claimed about other identities: {}.").format(wider["note"]) + spread
    low, high = wider.number("ci_low"), wider.number("ci_high")
    said = "is compatible with no gap" if low <= 0.0 <= high else "leaves out 0"
    groups = f"these {len(left_out)} groups" if left_out else "these groups"
    return (
        Markup("If {} stand for others like them, the {} interval is {} ({}) and {}.").format(
            groups, coverage(confidence), show_interval(wider), show(wider, "p", p_value), said
        )
        + spread
    )


def direction(delta: float) -> str:
    """Say which way a difference goes."""
    return "lower" if delta < 0 else "higher"


def _excluded(gap: Row | None, outcomes: Sequence[Row]) -> Markup:
    between = [row for row in outcomes if row["pairs"] in ("in_group", "out_group")]
    asked = sum(int(row["n_prompts"]) for row in between)
    missing = asked - sum(int(row["n_rated"]) for row in between)
    if gap is not None and math.isfinite(gap.number("n_missing")):
        missing = int(gap["n_missing"])
    used, narratives = (gap.number(name) if gap else math.nan for name in ("n_narratives", "n_narratives_asked"))
    dropped = narratives - used if math.isfinite(narratives) and math.isfinite(used) else 0
    if not missing and not dropped:
        return Markup("Nothing was left out: every prompt asked between these identities gave a rating.")
    parts = []
    if missing:
        number = show(gap, "n_missing", count) if gap is not None else Markup(count(missing))
        of = Markup(" of {}").format(show_sum(between, "n_prompts", count)) if asked else ""
        why = Markup(", ").join(
            Markup("{} {}").format(show_sum(between, f"n_{kind}", count), kind)
            for kind in ("refused", "unparseable", "failed")
            if sum(int(row[f"n_{kind}"]) for row in between)
        )
        cause = Markup(" ({})").format(why) if why else ""
        parts.append(Markup("{}{} prompts between these identities gave no rating{}").format(number, of, cause))
    if dropped and gap is not None:
        of_all = Markup("{} {}").format(show(gap, "n_narratives_asked", count), _noun(narratives, "narrative"))
        parts.append(Markup("{} of {} could not be used").format(count(dropped), of_all))
    sentence = Markup("Left out: {}.").format(Markup("; ").join(parts))
    refusals = {row["pairs"]: show(row, "refusal_rate", rate) for row in between if row["n_prompts"]}
    if len(refusals) == 2 and any(row["n_refused"] for row in between):
        sentence += Markup(" Refused: {in_group} of in-group and {out_group} of out-group prompts.").format(**refusals)
    return sentence


def describe_gaps(gaps: Sequence[tuple[str, Row]], *, confidence: float) -> str:
    """Describe the forest plot for those who can not see it: each title with its δ and interval."""
    described = []
    for title, gap in gaps:
        if not math.isfinite(gap["delta_points"]):
            described.append(f"{title}: not estimable")
        elif not math.isfinite(gap["ci_low"]):
            described.append(f"{title}: {points(gap['delta_points'])}, no interval")
        else:
            described.append(f"{title}: {points(gap['delta_points'])}, {interval(gap['ci_low'], gap['ci_high'])}")
    start = f"Forest plot of δ in scale points with {coverage(confidence)} intervals and a line at 0."
    return f"{start} {'; '.join(described)}."
