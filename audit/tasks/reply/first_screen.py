"""The first screen of a run of replies: which measures show a gap, who gets less, and what does not follow from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.echo import NOT_CONTROLLED
from audit.report.effect_size import reach_in_sd
from audit.report.glance import Mark, mark, marks
from audit.report.manifest import ManifestView
from audit.report.numbers import PlacedRow, rounded, show, show_rounded_interval
from audit.report.results import Results
from audit.report.run_page import led_by, source_of
from audit.report.section import Card, Paragraph, bullets, paragraph, present
from audit.report.sentences import LIMITS, LIMITS_OF_REPLIES
from audit.report.summary import (
    CHANGED,
    LESS,
    NO_GROUPS,
    NOT_FOLLOWED,
    NOT_THE_GROUPS,
    OBSERVATIONAL,
    SIDE,
    WORDS_DIFFER,
    ShortAnswer,
    Summary,
    not_from_absence,
    summary,
)
from audit.report.verdicts import NOT_TOLD_APART, Step, next_step, preventing_codes, reason_in_words, worded
from audit.tables.formatting import OF_GROUPS_AND_MODELS, count, coverage, either, magnitude, plural
from audit.tasks.reply.measure_disparities import Measures, combined_disparity
from audit.tasks.task_words import TaskWords
from stimuli.words import capital

_DRAWN: Final = 3  # measures that the picture has room for
_SHOWN_GAPS: Final = 5  # most gaps named in an answer; the table has the others
_FREE: Final = "echo_free"
_CLAIMS: Final = {
    "groups": " between groups", "pairs": " in these pairs of words",
    "uncontrolled": ", which repeated words alone could cause,",
}  # fmt: skip
"""What a found gap is between, to follow "a gap"."""
_OF_RUN: Final = {"accepted", "unfinished", "manipulation"}  # reasons why a whole run has no verdict
_OF_ZERO: Final = {"holds_zero", "not_corrected"}  # reasons why a gap that could have been found was not


@dataclass(frozen=True, slots=True)
class CombinedVerdict:
    """The verdicts on all measures of one dimension and variant, combined."""

    kind: str  # for the style sheet
    words: str
    lead: Markup  # what was tested, and what limits it
    found: tuple[PlacedRow, ...] = ()  # the verdicts that are a gap, smallest p first
    n_tested: int = 0  # measures with a verdict
    n_untested: int = 0  # measures without one
    n_alike: int = 0  # measures not told apart from invented groups
    claims: frozenset[str] = frozenset()  # what the found gaps are between; see audit.statistics.verdict.Verdict

    @property
    def counted(self) -> str:
        """Say how many measures the verdict is about, to follow it."""
        lacking = f", {count(self.n_untested)} could not be" if self.n_untested else ""
        return f" ({count(self.n_tested)} tested{lacking})" if self.n_tested else ""


class Replied:
    """One dimension and variant of a run of replies; ``anchor`` is that of its part of the page."""

    def __init__(self, own: Results, anchor: str, measures: Measures) -> None:
        self.own, self.title, self.anchor, self._measures = own, own.title, anchor, measures
        self.groups_anchor = f"{anchor}-groups"
        self.narrow = self.headlines("narratives")
        self.verdict = combined(own.rows("verdicts"), measures, confidence=own.confidence)
        self.disparity = combined_disparity(own.rows("disparity"), measures, confidence=own.confidence)

    def headlines(self, scope: str) -> list[PlacedRow]:
        """Return the headline gaps of this scope."""
        return [row for row in self.own.rows("gap", scope=scope) if row["headline"]]

    def name_of(self, row: PlacedRow) -> str:
        """Name a row's measure."""
        return _named(row, self._measures)

    def unit_of(self, row: PlacedRow) -> str:
        """Name the unit of a row's measure."""
        return str(self._measures[str(row["outcome"])]["unit"])

    def _told(self, row: PlacedRow, words: str) -> Markup:
        shown = show(row, "delta", rounded(row))
        return Markup(words).format(self.name_of(row), shown, self.unit_of(row), show_rounded_interval(row))

    def findings(self, *, whose: bool) -> Iterator[ShortAnswer]:
        """Yield what the first screen says: the gap of the smallest p, if ``whose``, and who gets less."""
        if whose:
            yield self._finding()
        if self.disparity.answers or not whose:
            yield ShortAnswer(
                self.title, self.disparity.words + self.disparity.counted,
                spread=self.disparity.in_short(self.own.level), kind=self.disparity.kind,
                anchor=self.groups_anchor, tail=LESS,
                weight=len(self.disparity.found) + len(self.disparity.unvaried), question="less",
            )  # fmt: skip

    def _finding(self) -> ShortAnswer:
        found, spread = self.verdict.found, Markup("")
        if found:
            words = f"Smallest p: {{}} <strong>{{}}</strong> {{}}, {self.own.level} interval {{}}"
            spread = self._told(found[0], words)
        return ShortAnswer(
            self.title, self.verdict.words + self.verdict.counted, spread=spread, kind=self.verdict.kind,
            anchor=self.anchor, tail=SIDE, weight=len(found), question="side", marks=self._marks(),
        )  # fmt: skip

    def _marks(self) -> tuple[Mark, ...]:
        """Return δ of measures for the picture, in their SDs: those found, then those farthest from 0."""
        rows = [row for row in self.own.rows("verdicts") if row["code"] not in ("no_verdict", "no_estimate")]
        rows.sort(key=lambda row: (row["code"] != "gap", -abs(row.number("delta_sd"))))
        drawn = [
            mark(row, "delta_sd", self.name_of(row), low="sd_ci_low", found=row["code"] == "gap", in_points=False)
            for row in rows
        ]
        return marks(*drawn)[:_DRAWN]

    def cards(self, *, whose: bool) -> Iterator[Card]:
        """Yield what stands beneath the summary: the gaps of the smallest p, if ``whose``, and who gets less."""
        if whose:
            yield self._card()
        if self.disparity.answers or not whose:
            content = present(
                Paragraph(self.disparity.words, "verdict"),
                Paragraph(self.disparity.lead, "lead"),
                bullets(self.disparity.lines(self.own.level)),
            )
            yield Card(self.title, content, kind=self.disparity.kind, anchor=self.groups_anchor, tail=LESS)

    def _card(self) -> Card:
        found = self.verdict.found
        first = f"The {_SHOWN_GAPS} gaps of the smallest p" if len(found) > _SHOWN_GAPS else "δ"
        content = present(
            Paragraph(self.verdict.words, "verdict"),
            Paragraph(self.verdict.lead, "lead"),
            paragraph(f"{first}, in-group minus out-group, with {self.own.level} intervals:" if found else "", "lead"),
            bullets(self._told(row, "{}: <strong>{} {}</strong> ({})") for row in found[:_SHOWN_GAPS]),
        )
        return Card(self.title, content, kind=self.verdict.kind, anchor=self.anchor, tail=SIDE)


def summary_of_replies(
    written: Sequence[Replied],
    *,
    words: TaskWords,
    view: ManifestView,
    limits: Sequence[Limit],
    whose: bool = True,
    check: str = "",
) -> Summary:
    """Write the first screen: which measures show a gap, how large the largest is, and what does not follow.

    ``whose`` says whether the model was given an identity, so that a group can be its own; ``check`` whether replies
    match the story, see :func:`audit.report.effect_size.story_check`.
    """
    one, more = words.about
    about = Markup(more)
    narrow = [row for each in written for row in each.narrow]
    largest = max(narrow, key=lambda row: row.number("n_narratives_asked"), default=None)
    if largest is not None and largest.number("n_narratives_asked") > 0:
        n = largest.number("n_narratives_asked")
        about = Markup("{} {}").format(show(largest, "n_narratives_asked", count), either(n, one, more))
    # It was asked even if it refused.
    start = "was asked to speak as one person and to" if whose else "was given no identity and was asked to"
    start = "" if words.read else start
    to = Markup(words.to if whose else words.to_groups).format(about)
    asked = Markup("<bdi>{}</bdi>{} {}.").format(view.model, led_by(view), Markup(" ").join(filter(None, (start, to))))
    verdicts = [each.verdict for each in written]
    # What was found stands first, whichever question it answers.
    sure = _sure(written, whose=whose)
    findings = [finding for each in written for finding in each.findings(whose=whose)]
    return summary(
        asked,
        sorted(findings, key=lambda each: each.kind != "gap"),
        [
            ("How big", _size(written, words)),
            ("How it varies", _ways(verdicts)),
            ("How sure", Markup(" ").join(filter(None, (check, sure if not check else sure[:1].upper() + sure[1:])))),
        ],
        not_concluded=list(_not_concluded(written, words=words, limits=limits, whose=whose)),
        limits=limits,
        source=source_of(view),
        chosen_by="how many gaps and differences were found",
        headline=_headline(written, whose=whose),
        unit="Standard deviations of each measure, the farthest from 0 first.",
        step=_next(written),
    )


def _headline(written: Sequence[Replied], *, whose: bool) -> Markup:
    """Say in how many measures, of all dimensions, something was found."""
    answered = [each.disparity for each in written if each.disparity.answers]
    counts = [
        (sum(len(each.verdict.found) for each in written) if whose else 0,
         sum(each.verdict.n_tested for each in written) if whose else 0,
         "between the model's own group and others"),
        (sum(len(each.found) for each in answered), sum(each.n_tested for each in answered), "between groups"),
    ]  # fmt: skip
    one = "measure" if len(written) == 1 else "test"
    return Markup(" ").join(
        Markup("{} of {} {} a difference {}.").format(
            count(n) if n else "None", plural(of, one), either(n or 1, "shows", "show"), where
        )
        for n, of, where in counts
        if of
    )


def _next(written: Sequence[Replied]) -> Step:
    """Say what would decide most of the open measures."""
    nothing = Step.of("nothing")
    rows = [row for each in written for row in each.own.rows("verdicts")]
    steps = Counter(step for row in rows if row["code"] != "gap" and (step := next_step(row)) and step != nothing)
    return steps.most_common(1)[0][0] if steps else nothing if rows else Step.of("")


def _size(written: Sequence[Replied], words: TaskWords) -> Markup:
    """Say how large the largest gap found is, over the spread of its measure."""
    sized = [(row, each) for each in written for row in each.verdict.found if math.isfinite(row.number("delta_sd"))]
    if not sized:
        return Markup("")
    row, own = max(sized, key=lambda each: abs(each[0].number("delta_sd")))
    several = len({each.title for each in written}) > 1
    return Markup("the largest gap found, {}{}, is {} times the spread (SD) of that measure over all {}.").format(
        own.name_of(row),
        Markup(" (<bdi>{}</bdi>)").format(own.title) if several else "",
        show(row, "delta_sd", magnitude),
        words.texts,
    )


def _sure(written: Sequence[Replied], *, whose: bool) -> Markup:
    """Say how large a gap, and a difference between groups, the intervals allow where none is found."""
    asked: list[tuple[str, list[tuple[PlacedRow, str]]]] = [
        ("a gap where none is found", [
            (row, each.name_of(row)) for each in written for row in each.own.rows("verdicts")
            if whose and row["code"] == "undecided"
        ]),
        ("a difference between groups", [
            (row, answer.title) for each in written for answer in each.disparity.answers if not answer.said.found
            for row in answer.groups if row["code"] not in ("no_verdict", "no_estimate")
        ]),
    ]  # fmt: skip
    said: list[Markup] = []
    for what, rows in asked:
        ends = [(abs(row.number(end)), row, end, name) for row, name in rows for end in ("sd_ci_low", "sd_ci_high")]
        known = [each for each in ends if math.isfinite(each[0])]
        if known:
            _, row, end, name = max(known, key=lambda each: each[0])
            size = show(row, end, magnitude)
            said.append(Markup("{} may be as large as {} standard deviations ({})").format(what, size, name))
    if not said:
        return Markup("")
    level = written[0].own.level
    return Markup("{}; by the {} interval of each measure.").format(Markup(", ").join(said), level)


def _ways(verdicts: Sequence[CombinedVerdict]) -> Markup:
    """Count measures by the sign of the δ found, and those not told apart from invented groups."""
    found = [row for verdict in verdicts for row in verdict.found]
    n = sum(verdict.n_tested for verdict in verdicts)
    if not n:
        return Markup("")
    above = sum(row.number("direction") > 0 for row in found)
    words = Markup("δ is above 0 in {} of {}, below 0 in {} and undecided in {}").format(
        count(above), plural(n, "test"), count(len(found) - above), count(n - len(found))
    )
    alike = sum(verdict.n_alike for verdict in verdicts)
    if alike:
        words += Markup("; {} not {}").format(count(alike), NOT_TOLD_APART.removeprefix("not "))
    return words + "."


def _not_concluded(
    written: Sequence[Replied], *, words: TaskWords, limits: Sequence[Limit], whose: bool
) -> Iterator[str]:
    verdicts, disparities = [each.verdict for each in written], [each.disparity for each in written]
    if any(limit.title == LIMITS["accepted"][0] for limit in limits):
        yield CHANGED
    if failed := any(limit.title == LIMITS_OF_REPLIES["manipulation"][0] for limit in limits):
        yield NOT_FOLLOWED
    no_gap = any(verdict.kind in ("undecided", "absent") for verdict in verdicts) and whose
    none_less = any(not each.found and (each.answers or not whose) for each in disparities)
    if (no_gap or none_less) and not failed:
        found = any(verdict.found for verdict in verdicts), any(each.found for each in disparities)
        yield not_from_absence(no_gap=no_gap, none_less=none_less, gap=found[0], less=found[1])
    if not no_gap and any(len(verdict.found) < verdict.n_tested for verdict in verdicts):
        yield "that measures without a gap found have none"
    if not none_less and any(len(each.found) < each.n_tested for each in disparities):
        yield "that groups get the same in other measures"
    if any(verdict.n_alike for verdict in verdicts):
        yield NO_GROUPS
    if any("pairs" in verdict.claims for verdict in verdicts):
        yield "that other words for these groups, or other groups, show the same gap"
    if any("uncontrolled" in verdict.claims for verdict in verdicts):
        yield NOT_THE_GROUPS
    if any(row["claim"] == "words" for each in disparities for answer in each.found for row in answer.said.found):
        yield WORDS_DIFFER
    if any(limit.title == LIMITS["observational"][0] for limit in limits):
        yield OBSERVATIONAL
    yield words.no_better
    yield "that a measure is empathy itself"
    yield OF_GROUPS_AND_MODELS


def combined(rows: Sequence[PlacedRow], measures: Measures, *, confidence: float) -> CombinedVerdict:
    """Combine the verdicts on measures: which show a gap, between what, and why the others do not."""
    if not rows:
        return CombinedVerdict("absent", str(worded(None).words), Markup("To get one, make the report again."))
    tested = [row for row in rows if row["code"] not in ("no_verdict", "no_estimate")]
    if all(preventing_codes(row) == ("no_perceivers",) for row in rows):
        return CombinedVerdict("absent", "No δ", Markup("The model was given no group's identity."))
    if not tested:
        of_run = {code for row in rows for code in preventing_codes(row)} & _OF_RUN
        lead = Markup("{}.").format(capital(_reasons(rows)))
        return CombinedVerdict(
            "absent", "No verdict" if of_run else "Nothing could be tested", lead, n_untested=len(rows)
        )
    found = sorted((row for row in tested if row["code"] == "gap"), key=lambda row: row.number("p"))
    open_ones = [row for row in tested if row["code"] != "gap"]
    lead = Markup("Tested: {}, with p corrected for their number").format(plural(len(tested), "measure"))
    n_untested = len(rows) - len(tested)
    if n_untested:
        lead += Markup("; {} more could not be tested").format(count(n_untested))
    if any(row["control"] == _FREE for row in tested):
        lead += Markup(". δ counts only pairs described in different words, if a measure allows it")
    claims = frozenset(str(row["claim"]) for row in found)
    if "pairs" in claims:
        lead += Markup(". In these pairs of words only: {}").format(
            "; ".join(dict.fromkeys(str(row["why_pairs"]) for row in found if row["claim"] == "pairs"))
        )
    if "uncontrolled" in claims:
        lead += Markup(". {}").format(NOT_CONTROLLED.rstrip("."))
    alike = [row for row in open_ones if row["control"] == "placebo" and "holds_zero" in preventing_codes(row)]
    if alike:
        lead += Markup(". {}: {}").format(capital(NOT_TOLD_APART), _few(alike, measures))
    others = [row for row in open_ones if not any(row is each for each in alike)]
    if others:
        lead += Markup(". Undecided: {}").format(_reasons(others))
    counts = len(tested), n_untested, len(alike)
    if found:
        return CombinedVerdict("gap", _words(found), lead + ".", tuple(found), *counts, claims)
    reach = reach_in_sd(tested, level=coverage(confidence))
    said = Markup("{}. No gap was found, but there may still be one{}.").format(lead, reach)
    by_zero = all(set(preventing_codes(row)) <= _OF_ZERO for row in open_ones)
    words = capital(NOT_TOLD_APART) if len(alike) == len(tested) else "No gap is found" if by_zero else "Undecided"
    return CombinedVerdict("undecided", words, said, (), *counts)


def _words(found: Sequence[PlacedRow]) -> str:
    """Say in how many measures a gap is found, by what it is between."""
    n_of = {claim: sum(row["claim"] == claim for row in found) for claim in _CLAIMS}
    said = [f"a gap{words} in {plural(n_of[claim], 'measure')}" for claim, words in _CLAIMS.items() if n_of[claim]]
    return capital(", ".join(said))


def _few(rows: Sequence[PlacedRow], measures: Measures) -> Markup:
    """Name the first measures, and count the others."""
    named = Markup(", ").join(_named(row, measures) for row in rows[:_SHOWN_GAPS])
    more = len(rows) - _SHOWN_GAPS
    return named + (Markup(" and {} more").format(count(more)) if more > 0 else Markup(""))


def _reasons(rows: Sequence[PlacedRow]) -> Markup:
    """Count the reasons that prevent verdicts."""
    n_of = Counter(reason_in_words(code, row) for row in rows for code in preventing_codes(row))
    return Markup("; ").join(Markup("{} ({})").format(words, count(n)) for words, n in n_of.most_common())


def _named(row: PlacedRow, measures: Measures) -> str:
    return str(measures[str(row["outcome"])]["title"])
