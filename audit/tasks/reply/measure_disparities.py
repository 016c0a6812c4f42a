"""Who gets less in which measure: the answers on the groups of a dimension and variant, over all measures of texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.disparities import (
    DisparitySentence,
    farthest_group,
    is_lower,
    limit_in_words,
    limits_of_row,
    who_gets_less,
)
from audit.report.effect_size import reach_in_sd
from audit.report.numbers import PlacedRow, rounded, show, show_rounded_interval
from audit.report.verdicts import few
from audit.tables.disparity import deciding_rows
from audit.tables.formatting import brief, count, coverage, plural, points
from audit.tables.replies import ReplyStatus
from stimuli.words import capital

_SHOWN: Final = 5  # most measures named; the tables have the others
_NOT_SHOWN: Final = "not_shown"  # the code of a group that nothing kept from being found
_DUST: Final = 1e-9  # a smaller difference of means is floating-point error
Measures = Mapping[str, PlacedRow]  # the measures by name, for their titles and units


@dataclass(frozen=True, slots=True)
class MeasureAnswer:
    """What one measure shows of the groups."""

    measure: PlacedRow  # its row of ``tables.MEASURES``
    groups: tuple[PlacedRow, ...]  # the rows that decide, one a group
    said: DisparitySentence

    @property
    def name(self) -> str:
        """The measure's name."""
        return str(self.measure["measure"])

    @property
    def title(self) -> str:
        """The measure's title."""
        return str(self.measure["title"])

    @property
    def heading(self) -> Markup:
        """The measure's title and unit, to head a row of a table."""
        return head_of_measure(self.title, str(self.measure["unit"]))

    @property
    def farthest(self) -> PlacedRow:
        """The row of the group that the answer is about, or else of the one farthest from the others."""
        return self.said.row or farthest_group(self.groups) or self.groups[0]

    @property
    def differs(self) -> bool:
        """Whether the groups differ at all in this measure."""
        return any(abs(row.number("disparity")) > _DUST for row in self.groups)

    @property
    def least_p(self) -> float:
        """The smallest p of a group; 1 if none was tested."""
        return min((row.number("p") for row in self.groups if math.isfinite(row.number("p"))), default=1.0)

    @property
    def words(self) -> Markup:
        """The answer, to follow the measure's title and a colon."""
        return self.said.words[:1].lower() + self.said.words[1:]

    @property
    def unvaried(self) -> PlacedRow | None:
        """The group that differs most, if it differs alike in every narrative, which leaves nothing to test by."""
        rows = [row for row in self.groups if row["code"] == "no_estimate" and row.number("n_narratives") > 1]
        row = farthest_group(rows)
        return row if row is not None and abs(row.number("disparity")) > _DUST else None

    @property
    def ways(self) -> Markup:
        """Say for which groups the measure is lower or higher."""
        said = []
        for way, is_way in (("lower", True), ("higher", False)):
            own = [_group(row) for row in self.said.found if is_lower(row) is is_way]
            said += [Markup("{} for {}").format(way, few(own, at_most=_SHOWN))] if own else []
        return Markup(", ").join(said)

    def number(self, level: str) -> Markup:
        """Write how far the group that the answer is about lies from the others, in the measure's unit and SD."""
        row = self.said.row
        if row is None or not self.said.number:
            return Markup("")
        of = Markup(" for {}").format(_group(row)) if len(self.said.found) != 1 else Markup("")
        in_sd = Markup("")
        if math.isfinite(row.number("disparity_sd")):
            in_sd = Markup("; {} SD").format(show(row, "disparity_sd", points))
        return Markup("<strong>{} {}</strong>{} ({} interval {}{})").format(
            self.said.number, row["unit"], of, level, show_rounded_interval(row), in_sd
        )


@dataclass(frozen=True, slots=True)
class CombinedDisparity:
    """The answers of all measures of one dimension and variant, combined."""

    kind: str  # one of audit.report.verdicts.KINDS
    words: str
    lead: Markup  # what was compared, and what limits it
    answers: tuple[MeasureAnswer, ...] = ()  # of all measures in which groups were compared, in their order
    found: tuple[MeasureAnswer, ...] = ()  # of measures in which a group is lower or higher; refusals, then the largest
    n_tested: int = 0

    @property
    def counted(self) -> str:
        """Say how many measures the answer is about, to follow it."""
        n_untested = len(self.answers) - self.n_tested
        lacking = f", {count(n_untested)} could not be" if n_untested else ""
        return f" ({count(self.n_tested)} compared{lacking})" if self.n_tested else ""

    @property
    def unvaried(self) -> tuple[MeasureAnswer, ...]:
        """Measures that differ between groups alike in every narrative."""
        return tuple(each for each in self.answers if each.unvaried is not None)

    def in_short(self, level: str) -> Markup:
        """Tell the first finding with its number, and name the others; empty without one."""
        parts = []
        if self.found:
            first, others = self.found[0], self.found[1:]
            parts.append(Markup("{}: {}, {}").format(capital(first.title), first.ways, first.number(level)))
            if others:
                named = [Markup("{} ({})").format(each.title, each.ways) for each in others]
                parts.append(Markup("Also: {}").format(few(named, at_most=_SHOWN - 1)))
        if self.unvaried:
            parts.append(self._told_unvaried())
        return Markup(". ").join(parts)

    def lines(self, level: str) -> Iterator[Markup]:
        """Yield a line on each of the first findings."""
        for each in self.found[:_SHOWN]:
            yield Markup("{}: {}: {}").format(capital(each.title), each.words, each.number(level))

    def _told_unvaried(self) -> Markup:
        return Markup("The same in every narrative, so not tested: {}").format(
            Markup("; ").join(
                Markup("{}, {} {} for {}").format(
                    each.title, show(row, "disparity", rounded(row)), row["unit"], _group(row)
                )
                for each in self.unvaried[:_SHOWN]
                if (row := each.unvaried) is not None
            )
        )


def combined_disparity(rows: Sequence[PlacedRow], measures: Measures, *, confidence: float) -> CombinedDisparity:
    """Combine what measures show of the groups: rows of ``tables.DISPARITY`` of one dimension and variant."""
    answers = []
    for name in dict.fromkeys(str(row["outcome"]) for row in rows if row["headline"]):
        own = [row for row in rows if row["outcome"] == name]
        # A measure of few texts may have rows against "a person" alone.
        if groups := tuple(deciding_rows(own)):
            said = who_gets_less(own, confidence=confidence, of="")
            answers.append(MeasureAnswer(measures[name], groups, said))
    if not answers:
        return CombinedDisparity("absent", "No answer", Markup("Fewer than two groups were compared."))
    tested = [each for each in answers if each.said.kind != "absent"]
    if not tested:
        lead = Markup("{}.").format(capital(_reasons(answers)))
        held = {str(row["code"]) for each in answers for row in each.groups}
        words = "No verdict" if held == {"no_verdict"} else "Nothing could be compared"
        return CombinedDisparity("absent", words, lead, tuple(answers))
    found = sorted((each for each in tested if each.said.found), key=_rank)
    lead = Markup("Compared: {}, with p corrected for groups and measures").format(plural(len(tested), "measure"))
    if len(answers) > len(tested):
        lead += Markup("; {} more could not be compared").format(count(len(answers) - len(tested)))
    unfound = [each for each in tested if not each.said.found]
    held_back = [each for each in unfound if any(row["code"] != _NOT_SHOWN for row in each.groups)]
    if held_back:
        lead += Markup(". Undecided: {}").format(_reasons(held_back))
    if limits := _limits(row for each in found for row in each.said.found):
        lead += Markup(". What limits these findings: {}").format(limits)
    if found:
        return CombinedDisparity("gap", _words(found), lead + ".", tuple(answers), tuple(found), len(tested))
    reach = reach_in_sd([row for each in tested for row in each.groups], level=coverage(confidence))
    lead += Markup(". No difference was found, but there may still be one{}.").format(reach)
    words = "Undecided" if held_back else "No measure is shown to be lower or higher for any group"
    return CombinedDisparity("undecided", words, lead, tuple(answers), (), len(tested))


def head_of_measure(title: str, unit: str) -> Markup:
    """Write a measure's title with its unit beneath, to head a row of a table."""
    return Markup('{}<br><span class="small">{}</span>').format(title, unit)


def _group(row: PlacedRow) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(row["group"])))


def _rank(each: MeasureAnswer) -> tuple[bool, float]:
    """Put refusals first, then measures by how far a group is from the others, in SD."""
    sizes = [abs(row.number("disparity_sd")) for row in each.said.found if math.isfinite(row.number("disparity_sd"))]
    return each.name != ReplyStatus.REFUSED.value, -max(sizes, default=0.0)


def _words(found: Sequence[MeasureAnswer]) -> str:
    """Say for whom how many measures are lower or higher, and how many of them in these words alone."""
    rows = [row for each in found for row in each.said.found]
    known = {is_lower(row) for row in rows}
    ways = " or ".join(way for way, is_way in (("lower", True), ("higher", False)) if is_way in known)
    n_of = Counter(any(row["claim"] == "group" for row in each.said.found) for each in found)
    whole, in_words = (plural(n_of[beyond], "measure") for beyond in (True, False))
    groups = few([*dict.fromkeys(map(_group, rows))], at_most=_SHOWN)
    start = Markup("{} for {} than for the others in ").format(ways, groups)
    if any(row["claim"] == "observational" for row in rows):
        return Markup("Observational: {}{}").format(start, plural(len(found), "measure"))
    if not n_of[False]:
        return capital(start + whole)
    if not n_of[True]:
        return Markup("In these words, {}{}").format(start, in_words)
    return capital(Markup("{}{}, and in these words in {} more").format(start, whole, in_words))


def _reasons(answers: Iterable[MeasureAnswer]) -> Markup:
    """Count by reason the measures that have no answer."""
    n_of: Counter[str] = Counter()
    for each in answers:
        held = [row for row in each.groups if row["code"] != _NOT_SHOWN]
        words = dict.fromkeys(limit_in_words(code, row) for row in held for code in limits_of_row(row))
        n_of.update(list(words) or [_noted(held)])
    return Markup("; ").join(Markup("{} ({})").format(words, count(n)) for words, n in n_of.most_common())


def _noted(rows: Iterable[PlacedRow]) -> str:
    return next((str(row["note"]) for row in rows if row["note"]), "the scores do not determine it")


def _limits(rows: Iterable[PlacedRow]) -> str:
    return "; ".join(dict.fromkeys(limit_in_words(code, row) for row in rows for code in limits_of_row(row)))
