"""Who gets less, in words. The run has decided about each group (:mod:`audit.statistics.disparity_answers`).

Every page, table and export takes its words for the groups of a dimension from here, so that none says more than
another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.effect_size import share_of_response
from audit.report.numbers import PlacedRow, rounded, show, show_gap, show_interval, show_rounded_interval
from audit.report.verdicts import (
    NO_STEP,
    OF_MEASURES,
    REASONS,
    STEPS_OF_MEASURES,
    Step,
    few,
    is_of_measure,
    narratives_needed,
    to_decide,
)
from audit.tables.disparity import REFUSALS, SHOWN_APART, deciding_rows
from audit.tables.formatting import bare_p, brief, count, coverage, listed, magnitude, p_value, rate, unsigned

_NOTHING: Final = Markup("")
DISPARITY_MEANING: Final = Markup(
    "<strong>The disparity D</strong> of a group: how much lower (−) or higher (+) it is rated than the other groups, "
    "whoever speaks. δ cannot show this: what every speaker does alike is removed from it."
)
MEASURE_DISPARITY_MEANING: Final = Markup(
    "<strong>The disparity D</strong> of a group in a measure: how much lower (−) or higher (+) the measure is for it "
    "than for the other groups. Lower is not worse, unless less of the measure is."
)
DISPARITY_IN_SHORT: Final = Markup(
    "<strong>The disparity D</strong>: how much lower (−) or higher (+) a group is rated than the other groups"
)
"""The meaning of D before the first number, without a full stop."""
_REASONS: Final = REASONS | {
    "no_interval": "every narrative gives the same difference, so there is no interval",
    "margin_open": "the intervals reach beyond the margin",
    "not_corrected": "no difference remains after correction for the number of groups",
    "one_term": "one term per group cannot tell a group from its word",
    "same_stem": "the terms of a group share a stem, so they cannot tell a group from its word",
    "stems_not_stated": "it is not stated which terms share a stem, so a group cannot be told from its words",
    "intersection": "groups of an intersection share their words",
    "terms_differ": "the terms of a group differ as much as groups do, or one of them alone makes the difference",
    "invented_as_large": "labels of invented groups differ as much",
    "bystander": "it differs only because other groups do",
    "any_label": "any label may be rated so beside “a person”: no invented groups were asked about",
    "observational": "what the groups wrote differs, and that may be why",
    "one_perceiver": "not shown without one of the personas",
    "personas_differ": "on average; some personas rate it the other way",
    "one_cue": "not shown without one of the cues that tell of the group",
    **SHOWN_APART,
    "these_wordings": "not shown for other wordings of the prompt",
    "two_groups": "of two groups one is lower just as the other is higher",
    "missing": "missing ratings could change the answer",
    "bounded": "ratings are known only within bounds, and that could change the answer",
    "many_missing": "many ratings are missing",
}
"""Codes of ``limits``, in words that follow a colon."""
_REASONS_OF_MEASURES: Final = _REASONS | OF_MEASURES | {
    "not_corrected": "no difference remains after correction for the number of groups and measures",
    "unanswered_group": "the replies to this group do not match the story",
}  # fmt: skip
"""The same of measures of texts."""
_BLOCKING: Final = ("own_stories", "number_mass", "few_narratives", "many_missing", "unrated_identity", "scale_end",
                    "beyond_scale", "missing", "bounded", "invented_as_large", "intensity_not_followed", *SHOWN_APART,
                    "margin_open")  # fmt: skip
"""Codes that leave a group undecided."""
_STEPS: Final = {
    "unfinished": Step.of("finish"),
    "accepted": Step.of("ask_again"),
    **dict.fromkeys(
        ("manipulation", "unanswered_group"),
        Step.of("other_model", "Change the prompt (prompt=) or how ratings are obtained (elicitation=)."),
    ),
    **dict.fromkeys(("number_mass", "nothing_rated", "constant"), Step.of("other_elicitation")),
    "few_narratives": Step.of("more_narratives"),
    "scale_end": Step.of("other_scale"),
    "beyond_scale": Step.of("other_scale", "Use another scale or prompt, so that fewer ratings are beyond the scale."),
    **dict.fromkeys(("many_missing", "unrated_identity"), Step("Find out why ratings are missing.")),
    "missing": Step.of("missing_shift"),
    "bounded": Step.of("narrower_bounds"),
    **dict.fromkeys(("one_term", "same_stem"), Step.of("controls")),
    "stems_not_stated": Step("State the stem of each term (a column stem in groups=FILE), and analyse again."),
    **dict.fromkeys(
        ("terms_differ", "invented_as_large"),
        Step.of("other_terms", "Run again with more terms per group: the result depends on the words."),
    ),
    **dict.fromkeys(("margin_open", "not_corrected"), Step.of("more_narratives")),
}
"""The next step for each code; of several codes the first one here counts."""
_STEPS_OF_MEASURES: Final = {
    **dict.fromkeys(("manipulation", "unanswered_group"), Step(STEPS_OF_MEASURES["other_model"])),
    **dict.fromkeys(("number_mass", "nothing_rated", "constant"), Step("Use another measure.")),
    **dict.fromkeys(("many_missing", "unrated_identity", "missing"), Step("Find out why texts have no score.")),
}
"""Codes with another step for a measure of texts than for ratings."""
_WHOEVER: Final = {
    "all": "whoever speaks",
    "no_persona": "by the model without a persona",
    "unspecified": "by “a person”",
    "baseline": "than “a person”",
}
"""How each view qualifies an answer."""
_WHOEVER_WROTE: Final = {"all": "whoever speaks", "no_persona": "without a persona", "unspecified": "as “a person”"}
"""The same of measures of texts."""
_FOUND: Final = ("lower", "higher")
_CLAIMED: Final = {"words": ", in these words", "observational": ", observational"}
_DUST: Final = 1e-9  # a smaller difference of means is floating-point error


@dataclass(frozen=True, slots=True)
class DisparitySentence:
    """Who gets less in one dimension and variant, in words."""

    kind: str  # as of audit.report.verdicts.VerdictSentence
    words: Markup
    row: PlacedRow | None = None  # of the group that the number is of: the one farthest from the others
    number: Markup = _NOTHING
    of_which: Markup = _NOTHING  # whose number it is; empty if the words name this group alone
    interval: Markup = _NOTHING
    facts: Markup = _NOTHING  # its p
    size: Markup = _NOTHING  # in percent of the scale and of the response to the story, and in how many narratives
    bound: Markup = _NOTHING  # how small any difference is
    step: Step = NO_STEP  # what to do next; empty if the answer is clear
    found: tuple[PlacedRow, ...] = ()  # the groups that are shown to be lower or higher

    @property
    def spread(self) -> Markup:
        """The interval, and whose it is unless the words say so."""
        return Markup("; ").join(filter(None, (self.of_which, self.interval)))

    @property
    def weight(self) -> float:
        """How far the interval of the group is from 0, in percent of the scale; 0 if it includes 0 or has no scale."""
        row = self.row
        if row is None or not self.found or not math.isfinite(row.number("percent_of_scale")):
            return 0.0
        least = max(row.number("ci_low"), -row.number("ci_high"), 0.0)
        return least * abs(row.number("percent_of_scale") / row.number("disparity"))


def who_gets_less(rows: Iterable[PlacedRow], *, confidence: float, of: str = "rated") -> DisparitySentence:
    """Put in words which groups get less; ``rows`` are of one outcome, dimension and variant.

    ``of`` says what is lower, after the group's name and "is": "rated" of ratings. If it is empty, the words are of a
    measure, whose name stands before them: "Lower for Muslim than for the others".
    """
    heads = deciding_rows(rows)
    if not heads:
        return DisparitySentence("absent", Markup("No answer: fewer than two groups were compared"))
    codes = {str(row["code"]) for row in heads}
    far = sorted(heads, key=lambda row: -_size(row))
    row = far[0]
    # Of groups that were not found to differ one is the farthest by chance: naming it would suggest a finding.
    known = _told_of(row, Markup(f"the farthest of {len(heads)} groups"), confidence=confidence)
    found = tuple(each for each in far if each["code"] in _FOUND)
    if found:
        return _of_found(found, confidence=confidence, of=of)
    if codes <= {"no_verdict", "no_estimate"}:
        start = "No verdict" if "no_verdict" in codes else "No answer"
        alike = is_of_measure(row) and codes == {"no_estimate"} and 0 <= _size(row) < _DUST
        said = limit_in_words("constant", row) if alike else because(heads) or _why_not_estimated(heads)
        return DisparitySentence("absent", Markup("{}: {}").format(start, said), step=_step(heads))
    bound = _bound(heads)
    if codes == {"within"}:
        margin = show(row, "margin", unsigned)
        words = Markup("No group is {} lower or higher than the others by {} points or more").format(of, margin)
        return DisparitySentence("none", words, row, *known, bound=bound)
    undecided = [each for each in heads if each["code"] not in ("within", "not_shown")]
    if undecided:
        why = because(undecided)
        which = Markup("") if len(undecided) == len(heads) else Markup(" about {}").format(_names(undecided))
        words = Markup("Undecided{}{}").format(which, Markup(": {}").format(why) if why else "")
        return DisparitySentence("undecided", words, row, *known, bound=bound, step=_step(undecided))
    words = (
        Markup("No group is shown to be {} lower or higher than the others").format(of)
        if of
        else Markup("Not shown to be lower or higher for any group")
    )
    # Nothing kept a group from being found: what cannot tell a group from its words is no reason.
    # Without a margin, more narratives alone could never rule a difference out.
    step = Step.of("more_narratives" if is_of_measure(row) else "margin")
    return DisparitySentence("undecided", words, row, *known, bound=bound, step=step)


def who_is_refused(rows: Iterable[PlacedRow], *, confidence: float) -> DisparitySentence | None:
    """Put in words which groups are refused more often; None if none is shown to be.

    ``rows`` are of one dimension and variant.
    """
    found = who_gets_less([row for row in rows if row["outcome"] == REFUSALS], confidence=confidence, of="refused")
    return found if any(row["code"] == "higher" for row in found.found) else None


def is_lower(row: PlacedRow) -> bool:
    """Whether a group is shown to be lower than the others."""
    return bool(row["code"] == "lower")


def without_reasons(found: DisparitySentence) -> Markup:
    """Return an answer without its reasons, for counting runs that have it."""
    words = found.words
    if found.kind == "absent":
        return Markup("no verdict" if words.startswith("No verdict") else "no answer")
    if words.startswith("Undecided"):
        return Markup("undecided")
    return words if found.found else words[:1].lower() + words[1:]


def _of_found(found: Sequence[PlacedRow], *, confidence: float, of: str) -> DisparitySentence:
    """Name the groups that are lower or higher: the question is who gets less, so lower ones come first."""
    parts: list[Markup] = []
    # Of refusals, more is worse.
    refused = found[0]["outcome"] == REFUSALS
    codes = ("higher", "lower") if refused else ("lower", "higher")
    how = {"higher": "more often", "lower": "less often"} if refused else dict(zip(codes, codes, strict=True))
    for code in codes:
        own = [each for each in found if each["code"] == code]
        if own and not of:
            parts.append(Markup("{} for {}").format(code if parts else code.capitalize(), _names(own)))
        elif own:
            verb = Markup("is" if len(own) == 1 else "are") + Markup(" ") + of if not parts else Markup("")
            parts.append(Markup(" ").join(filter(None, (_names(own), verb, Markup(how[code])))))
    view = str(found[0]["view"])
    alone = any("one_perceiver" in limits_of_row(each) for each in found)
    on_average = alone or any("personas_differ" in limits_of_row(each) for each in found)
    whoever = "on average over the personas asked" if on_average else (_WHOEVER if of else _WHOEVER_WROTE)[view]
    others = Markup("the others, {}" if of else "for the others, {}").format(whoever)
    words = Markup(" and ").join(parts) + Markup(" than {}").format(others)
    if any(each["claim"] == "observational" for each in found):
        words += Markup(", in observational data")
    elif all(each["claim"] == "words" for each in found):
        words += Markup(", in these words")
    elif any(each["claim"] == "words" for each in found):
        words += Markup(" ({} in these words only)").format(_names([e for e in found if e["claim"] == "words"]))
    sizes = {str(each["size"]) for each in found}
    if len(sizes) == 1 and sizes & {"beyond", "smaller"}:
        by = "more" if "beyond" in sizes else "less"
        words += Markup(", by {} than {} points").format(by, show(found[0], "margin", unsigned))
    if any("these_wordings" in str(each["limits"]) for each in found):
        words += Markup("; not shown for other wordings")
    if alone:
        words += Markup("; not shown without one of these personas")
    if any("one_cue" in limits_of_row(each) for each in found):
        words += Markup("; not shown without one of the cues that tell of the group")
    first = next((each for each in found if each["code"] == codes[0]), found[0])
    kind = "within" if sizes == {"smaller"} else "gap"
    known = _told_of(first, _names([first]) if len(found) > 1 else Markup(""), confidence=confidence)
    return DisparitySentence(kind, words, first, *known, step=_step(found), found=tuple(found))


def _told_of(row: PlacedRow, of_which: Markup, *, confidence: float) -> tuple[Markup, Markup, Markup, Markup, Markup]:
    """Return number, whose it is, interval, p and size of one group; all empty without an interval."""
    if not math.isfinite(row.number("ci_low")):
        return _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING
    rated = row["unit"] == "points"
    number = show_gap(row, "disparity") if rated else show(row, "disparity", rounded(row))
    interval = Markup("{} interval {}").format(
        coverage(confidence), show_interval(row) if rated else show_rounded_interval(row)
    )
    facts = Markup("{}, corrected for {} tests: {}").format(
        show(row, "p", p_value), show(row, "family_size", count), show(row, "p_adjusted", bare_p)
    )
    return number, of_which, interval, facts, size_of(row)


def size_of(row: PlacedRow) -> Markup:
    """Say how large a disparity is: of the scale, of the response to the story, and in how many narratives."""
    side = "lower" if row.number("disparity") < 0 else "higher"
    parts = []
    if is_of_measure(row):
        if math.isfinite(row.number("disparity_sd")):
            size = show(row, "disparity_sd", magnitude)
            parts.append(Markup("{} times the spread (SD) of the measure").format(size))
    elif math.isfinite(row.number("percent_of_scale")):
        parts.append(Markup("{}% of the scale").format(show(row, "percent_of_scale", magnitude)))
        parts += filter(None, [share_of_response(row)])
    if math.isfinite(row.number(f"share_{side}")):
        parts.append(
            Markup("{} in {} of {} narratives").format(
                side, show(row, f"share_{side}", rate), show(row, "n_narratives", count)
            )
        )
    return Markup("; ").join(parts)


def _bound(heads: Sequence[PlacedRow]) -> Markup:
    """Say how small any difference is, if that is known of every group."""
    if not all(math.isfinite(row.number("supported_margin")) for row in heads):
        return Markup("")
    row = max(heads, key=lambda each: each.number("supported_margin"))
    return Markup("Any group differs from the others by less than {} {}.").format(
        show(row, "supported_margin", unsigned), row["unit"]
    )


def _size(row: PlacedRow) -> float:
    size = abs(row.number("disparity"))
    return size if math.isfinite(size) else -1.0


def _names(rows: Sequence[PlacedRow]) -> Markup:
    return few([Markup("<bdi>{}</bdi>").format(brief(str(row["group"]))) for row in rows], at_most=3)


def limits_of_row(row: PlacedRow) -> tuple[str, ...]:
    """Return the codes of what limits the answer on a group."""
    return tuple(filter(None, str(row["limits"]).split("; "))) if isinstance(row["limits"], str) else ()


def because(rows: Sequence[PlacedRow]) -> str:
    """Say why the answers on groups are open, each reason once."""
    return listed([limit_in_words(code, rows[0]) for code in _telling(rows)])


def _telling(rows: Sequence[PlacedRow]) -> list[str]:
    """Return the codes that say why there is no answer; else all of them."""
    codes = list(dict.fromkeys(code for row in rows for code in limits_of_row(row)))
    if any(row["code"] == "no_verdict" for row in rows):
        return codes[:1]  # what allows no verdict comes first
    if any(row["code"] in ("lower", "higher") for row in rows):
        return codes
    return [code for code in codes if code in _BLOCKING] or codes


def _why_not_estimated(rows: Sequence[PlacedRow]) -> str:
    """Say why there is no answer if no code does."""
    told = next((row["note"] for row in rows if isinstance(row["note"], str) and row["note"]), "")
    return told or f"the {'scores' if is_of_measure(rows[0]) else 'ratings'} do not determine it"


def answer_in_words(row: PlacedRow) -> Markup:
    """Say in short what is decided about one group; empty for a row that decides nothing."""
    code = str(row["code"])
    if code == "within":
        return Markup("within {} points").format(show(row, "margin", unsigned))
    if code not in _FOUND:
        return Markup(code.replace("_", " "))
    words = Markup(f"{code}{_CLAIMED.get(str(row['claim']), '')}")
    if row.get("size"):
        by = "more" if row["size"] == "beyond" else "less"
        words += Markup(", by {} than {} points").format(by, show(row, "margin", unsigned))
    return words


def limit_in_words(code: str, row: PlacedRow | None = None) -> str:
    """Word a code of ``limits``, for ratings or for the measure of a row."""
    return (_REASONS_OF_MEASURES if row is not None and is_of_measure(row) else _REASONS).get(code, code)


def limits_in_words(row: PlacedRow, but: Collection[str] = ()) -> str:
    """Say what limits the answer on a group, ``but`` for codes that are told elsewhere."""
    return listed([limit_in_words(code, row) for code in limits_of_row(row) if code not in but])


def limits_of_all(rows: Sequence[PlacedRow]) -> tuple[str, ...]:
    """Return the codes that limit the answer on each of several groups; none of a single one."""
    first, *others = map(limits_of_row, rows)
    return tuple(code for code in first if all(code in each for each in others)) if others else ()


def farthest_group(rows: Iterable[PlacedRow]) -> PlacedRow | None:
    """Return the group that lies farthest from the others, of equals the first; None without one."""
    sizes = [(row, abs(row.number("disparity"))) for row in rows]
    return max(sizes, key=lambda each: each[1] if math.isfinite(each[1]) else 0.0, default=(None, 0.0))[0]


def step_for(codes: Collection[str], *, of_measure: bool = False) -> Step:
    """Say what to do about codes of ``limits``; empty if nothing helps."""
    code, step = next((each for each in _STEPS.items() if each[0] in codes), ("", NO_STEP))
    return _STEPS_OF_MEASURES.get(code, step) if of_measure else step


def _step(rows: Sequence[PlacedRow]) -> Step:
    step = step_for(_telling(rows), of_measure=is_of_measure(rows[0]))
    if step.code != "more_narratives":
        return step
    most = max(rows, key=lambda row: row.number("n_needed") if math.isfinite(row.number("n_needed")) else 0.0)
    return to_decide(most, narratives_needed(most), found="disparity" if most["code"] in _FOUND else "")
