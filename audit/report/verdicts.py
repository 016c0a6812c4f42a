"""Verdicts in words. The run has decided them (:mod:`audit.statistics.verdict`); this module only words them.

Every page, table and export takes its words for a run's average gap from here, so that none says more than another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show
from audit.tables.formatting import count, first_few, listed, magnitude, towards, unsigned
from audit.tables.verdicts import DEALINGS_DRAWN

REASONS: Final = {
    "accepted": "files were changed after they were collected",
    "nothing_rated": "there are no ratings",
    "constant": "all identities were rated alike",
    "unfinished": "the run is not finished",
    "narratives_repeated": "the table holds narratives several times",
    "scale_unused": "all ratings lie near the low end of the stated scale",
    "manipulation": "the ratings do not match the story",
    "unanswered_group": "replies to some people do not match the story, where those to others do",
    "number_mass": "the model would mostly write something other than a number",
    "noise_floor": "asking again changes δ by as much",
    "own_stories": "each group has stories of its own, and they may be why",
    "few_shared": "the dimensions share too few narratives",
    "few_narratives": "too few narratives",
    "many_missing": "many ratings are missing",
    "incomplete_narratives": "many narratives are incomplete",
    "refusal_gap": "refusals differ between in-group and out-group",
    "unrated_identity": "an identity has no rating",
    "scale_end": "many ratings are at an end of the scale",
    "beyond_scale": "some ratings are beyond the scale",
    "intensity_not_followed": "ratings do not match how strong the emotion is",
    "not_additive": "perceivers use the scale in different ways",
    "not_converged": "a fit did not converge",
    "missing": "missing ratings could change the answer",
    "bounded": "ratings are known only within bounds, and that could change the answer",
    "controls_disagree": "in identical words, not shown to exceed invented groups",
    "gap_in_same_words": "among pairs with identical words, the gap exceeds that of invented groups",
    "by_control_alone": "the gap appears only after subtracting the gap of invented groups",
    "not_corrected": "no gap remains after correction for all gaps of the run",
    "rare_gaps": "a large gap in a few narratives may have been missed",
    "margin_open": "the interval reaches beyond the margin",
    "holds_zero": "compatible with no average gap",
    "not_controlled": "repeated words alone could cause the gap",
    "pairs_alone": "the result holds for these pairs of words only",
    "few_refusals": "too few narratives to say how rare refusals are",
    "no_interval": "δ has no interval",
    "no_perceivers": "the model was given no group's identity, so there is no δ",
    "not_estimable": "δ cannot be estimated",
}
"""Codes of what prevents a verdict, in words that follow a colon."""
STEPS: Final = {
    "nothing": "No further run is needed: the answer is clear.",
    "more_narratives": "Run again with more narratives.",
    "shared_narratives": "Read each dimension by itself. For their mean, run again with narratives that all of them "
    "have.",
    "more_groups": "Run again with at least five groups and two terms each: fewer cannot show a gap between groups.",
    "controls": "Use two terms per group that share no word, or add invented groups (stimuli.placebo=1).",
    "missing_shift": "Find out why ratings are missing, or set how far they may be from the expected ratings "
    "(statistics.missing_shift=POINTS).",
    "narrower_bounds": "Run again in a new folder with narrower bounds on ratings (elicitation.max_pruned_points).",
    "margin": "Set the largest gap that is too small to matter (statistics.margin=POINTS), or run again with more "
    "narratives.",
    "finish": "Give the same command again: the run continues where it stopped.",
    "other_scale": "Use another scale or prompt, so that fewer ratings are at an end of the scale.",
    "other_elicitation": "Read some answers on the page, then change the prompt (prompt=) or how ratings are obtained "
    "(elicitation=, elicitation.prefill=).",
    "other_model": "Change the prompt (prompt=) or how ratings are obtained (elicitation=). If the check still fails, "
    "this model cannot be judged.",
    "other_terms": "Run again with other terms for the same groups: the result depends on the words.",
    "ask_again": "Run again in a new folder.",
    "disparity": "See which groups get less than others (the disparity D).",
}
STEPS_ELSEWHERE: Final = {
    "controls": "Use two terms per group that share no word, with their stems (a column stem in groups=FILE), or ask "
    "about invented groups, too.",
    "ask_again": "Correct the table, and analyse it again in a new folder.",
    "other_scale": "Give the ends of the scale on which the ratings were given (low=, high=).",
    "other_elicitation": "Collect the ratings in another way.",
    "other_model": "Collect the ratings with another prompt or in another way.",
}
"""What to do next if another tool asks, which has none of our options."""
CHECK_FIRST: Final = (
    "First find out whether the ratings match the story: check more narratives (elicitation.manipulation=N), or change "
    "the prompt if the answers do not depend on the story."
)
"""What comes before the step that a verdict states, if the check was inconclusive."""
_DECIDED_LATER: Final = ("nothing", "margin", "more_narratives")
"""Steps that have no use while it is not known whether the ratings match the story."""
_RUN_AGAIN: Final = {"Run again with": "Collect ratings of", "run again with": "collect ratings of"}
OF_MEASURES: Final = {
    "nothing_rated": "no text has a score",
    "constant": "all identities have the same score",
    "manipulation": "the replies do not match the story",
    "number_mass": "the judge would mostly write something other than a number",
    "few_narratives": "too few narratives in which scores differ",
    "many_missing": "many texts have no score",
    "incomplete_narratives": "many narratives have texts without a score",
    "unrated_identity": "an identity has no text with a score",
    "not_additive": "the spread of scores differs between perceivers, and that alone can create a gap",
    "missing": "texts without a score could change the answer",
    "not_corrected": "no gap remains after correction for all measures of the dimension",
}
"""Codes with other words for a measure of texts than for ratings."""
STEPS_OF_MEASURES: Final = {
    "other_model": "Read the replies, and collect them with another prompt (prompt=) or strategy (strategy=). If the "
    "check still fails, this model cannot be judged by its replies.",
    "missing_shift": "Find out why texts have no score.",
    "other_scale": "Use another measure.",
    "other_elicitation": "Use another measure.",
}
NOT_TOLD_APART: Final = "not distinguishable from invented groups"
"""Said of a gap not shown to exceed that of invented groups: equivalence alone would acquit."""
CLAIMED_PLAINLY: Final = {
    "groups": "",
    "pairs": ", in these words",
    "uncontrolled": ", which repeated words alone could cause",
}
"""What a gap that is found is of, after it is told in everyday words."""
_NAMED: Final = 2


class Step(Markup):
    """What to do next, in a sentence; empty if unknown. A command is found by its code, never by its words."""

    code: str = ""  # a key of STEPS; empty if no command does it
    n_needed: float = math.nan  # narratives that would decide, if that is known
    n_used: float = math.nan  # narratives that the estimate has, of those that the run has

    @classmethod
    def of(cls, code: str, words: str | None = None, *, n_needed: float = math.nan, n_used: float = math.nan) -> Self:
        """Return the step of a code, in its own words or in others."""
        made = cls(STEPS.get(code, "") if words is None else words)
        made.code, made.n_needed, made.n_used = code, n_needed, n_used
        return made

    def reworded(self, words: str) -> Self:
        """Return the same step in other words."""
        return self.of(self.code, words, n_needed=self.n_needed, n_used=self.n_used)

    def n_of_run(self, n_narratives: float) -> float:
        """Narratives of a run that would decide, if the estimate has its share of them; ``n_narratives`` it has now."""
        return self.n_needed * max(1.0, n_narratives / self.n_used) if self.n_used > 0 else self.n_needed


NO_STEP: Final = Step()
_TALLIED: Final = {"absent": "no verdict", "undecided": "undecided"}  # counted in comparisons without their reasons


@dataclass(frozen=True, slots=True)
class VerdictSentence:
    """A verdict in words."""

    # For colours and counts: gap; within, one smaller than the margin; none larger than the margin, in every part too;
    # average, none larger on average; undecided; absent, no verdict.
    kind: str
    words: Markup
    short: Markup | None = None  # words without the names of parts for which it does not hold; None if it names none
    step: Step = NO_STEP
    reasons: tuple[str, ...] = ()  # codes of what prevents a firmer verdict


def worded(row: PlacedRow | None, *, in_probabilities: bool = False, parts: str = "") -> VerdictSentence:
    """Put a verdict in words; None is for a run analysed by an earlier version.

    ``in_probabilities`` says whether the gap is one of the model's probabilities that its most probable answers hardly
    show. ``parts`` are the run's, e.g. "emotion or group".
    """
    if row is None:
        return VerdictSentence("absent", Markup("No verdict: an earlier version analysed this run"))
    code, where = str(row["code"]), ", in the model's probabilities" if in_probabilities else ""
    reasons, step = preventing_codes(row), next_step(row)
    why = listed([reason_in_words(each, row) for each in reasons])
    if code == "no_estimate":
        return VerdictSentence("absent", Markup("No answer: {}").format(why), step=step)
    if code == "no_verdict":
        return VerdictSentence("absent", Markup("No verdict: {}").format(why), step=step)
    margin = show(row, "margin", unsigned) if math.isfinite(row.number("margin")) else None
    if code == "undecided":
        against = Markup(" at a margin of {} points").format(margin) if margin is not None else Markup("")
        if _tells_bound(row):
            what, echo = ruled_out(row)
            small = show(row, "supported_margin", unsigned)
            said = Markup("No average gap found{}{}: any gap is smaller than {} points").format(where, what, small)
            elsewhere = _of_wordings(row)
            return VerdictSentence("undecided", said + echo + elsewhere, said + elsewhere, step=step, reasons=reasons)
        if reasons == ("margin_open",):
            return VerdictSentence("undecided", Markup("Undecided{}{}").format(against, where), step=step)
        said = Markup("Undecided{}{}: {}").format(against, where, why)
        return VerdictSentence("undecided", said, step=step, reasons=reasons)
    if code == "gap":
        return _of_gap(row, margin, where, step)
    beyond, not_shown = (_members(row, name) for name in ("parts_beyond", "parts_not_shown"))
    what, echo = ruled_out(row)
    elsewhere = _of_wordings(row)
    if beyond or not_shown or not parts:
        said = Markup("No average gap larger than {} points{}{}{}").format(margin, what, echo, where)
        short = said + _in_a_part(beyond, not_shown) + elsewhere if beyond or not_shown else None
        return VerdictSentence("average", said + _otherwise(beyond, not_shown) + elsewhere, short, step)
    words = Markup("No gap larger than {} points{}, on average or in any {}{}{}{}")
    return VerdictSentence("none", words.format(margin, what, parts, echo, where, elsewhere), step=step)


def told_plainly(row: PlacedRow | None, *, in_probabilities: bool = False) -> Markup:
    """Answer in everyday words whose side the model takes, in a sentence that claims what the verdict does."""
    if row is None:
        return worded(None).words + "."
    code, why = str(row["code"]), listed([reason_in_words(each, row) for each in preventing_codes(row)])
    if code in ("no_verdict", "no_estimate"):
        return Markup("We cannot judge this model: {}.").format(why)
    start = "In its probabilities, this model" if in_probabilities else "This model"
    rates = f"{start}, when it speaks as one group, rates that group's people"
    what, echo = ruled_out(row)
    if code == "within":
        margin = show(row, "margin", unsigned)
        beyond, not_shown = (_members(row, name) for name in ("parts_beyond", "parts_not_shown"))
        return Markup("{} within {} points of others on average{}{}{}{}.").format(
            rates, margin, what, echo, _in_a_part(beyond, not_shown), _of_wordings(row)
        )
    if code == "undecided":
        return Markup("{} is not shown to favour either side when it speaks as one group.").format(start)
    size = show(row, "delta", magnitude)
    side, beyond = "higher" if row.number("direction") > 0 else "lower", row["control"] == "placebo"
    return Markup("{}{} {} than others on average{}{}{}.").format(
        rates, "" if beyond else Markup(" {} points").format(size), side, CLAIMED_PLAINLY[str(row["claim"])],
        # What exceeds the gap of invented groups is not the whole difference.
        Markup(", by {} points more than for invented groups").format(size) if beyond else "",
        _of_wordings(row),
    )  # fmt: skip


def tallied(row: PlacedRow) -> tuple[str, Markup]:
    """Return a verdict's kind and its words for counting runs: without reasons and names of parts."""
    found = worded(row)
    words = found.short or found.words
    return found.kind, Markup(_TALLIED.get(found.kind) or f"{words[:1].lower()}{words[1:]}")


def _of_wordings(row: PlacedRow) -> str:
    return "; not shown for other wordings" if row["of_these_wordings"] else ""


def ruled_out(row: PlacedRow) -> tuple[str, str]:
    """Return what qualifies a gap that is ruled out, after its name and after its size; empty if between groups."""
    # The gap of invented groups may itself be large, and repeated words can hide a gap between groups or make one.
    words = " in these pairs of words" if row["scope"] == "pairs" else ""
    beyond = " beyond that of invented groups" if row["control"] == "placebo" else ""
    return words + beyond, ", including repeated words" if row["control"] == "none" else ""


def _of_gap(row: PlacedRow, margin: Markup | None, where: str, step: Step) -> VerdictSentence:
    size, claim = str(row["size"]), str(row["claim"])
    start = "A tiny average gap" if size == "tiny" else "An average gap"
    # A higher or lower measure favours no side.
    toward = f"δ {'above' if row.number('direction') > 0 else 'below'} 0" if is_of_measure(row) else towards(
        row.number("direction")
    )  # fmt: skip
    said = {
        "groups": f"{start} between groups, {toward}",
        "pairs": f"{start} in these pairs of words, {toward}",
        "uncontrolled": f"{start} {toward}, which repeated words alone could cause",
    }[claim]
    words = Markup("{}{}").format(said, _of_wordings(row))
    if size in ("beyond", "smaller"):
        words += Markup(", {} than {} points").format("larger" if size == "beyond" else "smaller", margin)
    words += Markup("{}").format(where)
    if size != "smaller":
        return VerdictSentence("gap", words, step=step)
    beyond, not_shown = (_members(row, name) for name in ("parts_beyond", "parts_not_shown"))
    short = words + _in_a_part(beyond, not_shown) if beyond or not_shown else None
    return VerdictSentence("within", words + _otherwise(beyond, not_shown), short, step)


def preventing_codes(row: Mapping[str, object]) -> tuple[str, ...]:
    """Return the codes of what prevents a verdict."""
    return tuple(filter(None, str(row["reasons"]).split("; "))) if isinstance(row["reasons"], str) else ()


def reason_in_words(code: str, row: Mapping[str, object]) -> str:
    """Word a reason's code, for ratings or for a measure of texts."""
    if not is_of_measure(row):
        return REASONS.get(code, code)
    if code == "holds_zero" and row["control"] == "placebo":
        return NOT_TOLD_APART
    return OF_MEASURES.get(code) or REASONS.get(code, code)


def is_of_measure(row: Mapping[str, object]) -> bool:
    """Whether a row is of a measure of texts, not of ratings."""
    return row.get("outcome", "intensity") != "intensity"


def next_step(row: PlacedRow) -> Step:
    """Say what to do next."""
    code, more = str(row["next_step"]), narratives_needed(row)
    if is_of_measure(row):
        # A failed check comes first, whatever else is wrong with one measure.
        failed = "reasons" in row and "manipulation" in preventing_codes(row)
        code = "other_model" if failed else code
        if code in STEPS_OF_MEASURES:
            return Step(STEPS_OF_MEASURES[code])
    elif code in _DECIDED_LATER and "manipulation_not_shown" in str(row.get("limits", "")).split("; "):
        # No margin and no size says more than ratings that may not depend on the story.
        return Step.of("check", CHECK_FIRST)
    if code == "margin" and more:
        words = Markup(
            "Set the largest gap that is too small to matter (statistics.margin=POINTS), or run again with {}."
        )
        return _counting(row, code, words.format(more))
    if code == "more_narratives":
        return to_decide(row, more, found="gap" if row["code"] == "gap" else "")
    if code == "nothing" and (row["code"] == "within" or row["size"] == "smaller") and not_in_a_part(row):
        return Step("The average is clear, but not every emotion and group: see below which differ.")
    return Step.of(code)


def step_elsewhere(step: Step) -> Step:
    """Word a step for ratings that another tool collects."""
    if step.code in STEPS_ELSEWHERE:
        return Step(STEPS_ELSEWHERE[step.code])
    words = str(step)
    for ours, theirs in _RUN_AGAIN.items():
        words = words.replace(ours, theirs)
    return step.reworded(words)


def step_of(row: Mapping[str, object]) -> Step:
    """Return a row's step in the words of ratings, or of a measure of texts."""
    code = str(row["next_step"])
    words = STEPS_OF_MEASURES.get(code) if is_of_measure(row) else None
    return Step.of(code) if words is None else Step(words)


def to_decide(row: PlacedRow, more: Markup, *, found: str) -> Step:
    """Say with how many narratives to run again; of what is ``found``, only its size is left to decide."""
    margin = row.number("margin")
    if found and math.isfinite(margin):
        words = Markup("To decide whether the {} is larger than {} points, run again with {}.")
        return _counting(
            row, "more_narratives", words.format(found, show(row, "margin", unsigned), more or "more narratives")
        )
    if not more:
        return Step.of("more_narratives")
    return _counting(row, "more_narratives", Markup("To decide, run again with {}.").format(more))


def _counting(row: PlacedRow, code: str, words: Markup) -> Step:
    return Step.of(code, words, n_needed=row.number("n_needed"), n_used=row.number("n_narratives"))


def narratives_needed(row: PlacedRow) -> Markup:
    """Say how many narratives would decide; empty if that is not known."""
    if not math.isfinite(row.number("n_needed")):
        return Markup("")
    return Markup("at least {} narratives (this run has {})").format(
        show(row, "n_needed", count), show(row, "n_narratives", count)
    )


_EVEN_IF_RARE: Final = "even if a few narratives with a large gap were missed"


def supported(row: PlacedRow | None) -> Markup:
    """Say which margin the data support, if the verdict does not: how small any average gap is."""
    if row is None or not math.isfinite(row.number("supported_margin")) or _tells_bound(row):
        return Markup("")
    what, echo = ruled_out(row)
    small = show(row, "supported_margin", unsigned)
    if row["code"] == "gap":  # beside its narrower interval, "is smaller than" would read as if one of them were wrong
        return Markup("The gate would pass this gap at a margin of {} points or more, {}.").format(small, _EVEN_IF_RARE)
    rare = "" if row["code"] == "within" else f", {_EVEN_IF_RARE}"
    elsewhere = _of_wordings(row) if row["code"] == "undecided" else ""
    return Markup("Any average gap{} is smaller than {} points{}{}{}.").format(what, small, echo, rare, elsewhere)


def _tells_bound(row: PlacedRow) -> bool:
    """Tell whether the verdict itself says how small any gap is: no gap was found, and there is no margin."""
    found_none = row["code"] == "undecided" and preventing_codes(row) == ("holds_zero",)
    return found_none and math.isfinite(row.number("supported_margin"))


def dealt(row: PlacedRow | None) -> Markup:
    """Say how the true groups rank among ways to deal their terms; empty if groups have one term."""
    if row is None or not row.number("n_dealings") > 1:
        return Markup("")
    rank, n = row.number("rank"), show(row, "n_dealings", count)
    if row["n_dealings"] == DEALINGS_DRAWN + 1:  # no number of groups and terms has exactly this many dealings
        return Markup("Of {} random ways to assign the terms to groups, {} a larger gap than the true one.").format(
            _counted(DEALINGS_DRAWN), Markup("{} give").format(_counted(rank - 1)) if rank > 1 else "none gives"
        )
    if rank == 1:
        return Markup("Of {} ways to assign the terms to groups, the true one gives the largest gap.").format(n)
    return Markup("Of {} ways to assign the terms to groups, {} give a larger gap than the true one.").format(
        n, _counted(rank - 1)
    )


def _counted(n: float) -> Markup:
    return Markup('<data value="{}">{}</data>').format(int(n), count(n))


def is_zero(gap: PlacedRow) -> bool:
    """Tell whether δ is 0, up to floating-point error."""
    return abs(gap.number("delta")) < 1e-9


def least_of(gap: PlacedRow) -> float:
    """Return the interval's smallest distance from 0, in points; 0 if it includes 0."""
    return max(gap.number("ci_low"), -gap.number("ci_high"), 0.0)


def _members(row: PlacedRow, column: str) -> list[Markup]:
    return [Markup("<bdi>{}</bdi>").format(each) for each in str(row[column]).split("; ") if each] if isinstance(
        row[column], str
    ) else []  # fmt: skip


def _otherwise(larger: Sequence[Markup], not_shown: Sequence[Markup]) -> Markup:
    """Name the parts for which a verdict on the average does not hold, or was not shown to hold."""
    said = Markup(", but larger in {}").format(few(larger, at_most=_NAMED)) if larger else Markup("")
    return said + (Markup("; not shown for {}").format(few(not_shown, at_most=_NAMED)) if not_shown else "")


def not_in_a_part(row: PlacedRow) -> bool:
    """Tell whether a gap ruled out on average is larger in some part, or was not ruled out there."""
    return any(_members(row, name) for name in ("parts_beyond", "parts_not_shown"))


def _in_a_part(larger: Sequence[Markup], not_shown: Sequence[Markup]) -> str:
    """Say, without naming it, that a verdict on the average does not hold in some part, or was not shown to hold."""
    return ", but larger in some part" if larger else "; not shown for every part" if not_shown else ""


def few(names: Sequence[Markup], *, at_most: int) -> Markup:
    """List the first names, each of which is escaped, and how many more there are."""
    return Markup(first_few(names, at_most))
