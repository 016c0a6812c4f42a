"""The first screen of every page: who was asked what, the answer, its size, and what it does not allow.

It fits on one printed page: the page's script prints it alone. Every number appears again further down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.glance import Axis, Mark, axis_of
from audit.report.verdicts import NO_STEP, Step

MOST: Final = 4
"""Findings that fit the first screen of a phone."""
CHANGED: Final = "that these are the model's own answers (files were changed after they were collected)"
NO_GAP: Final = "that there is no gap because none was found"
NONE_LESS: Final = "that all groups get the same because none was found to get less"
NO_GAP_NONE_LESS: Final = "that groups are treated alike because nothing was found"
NO_GAP_ELSEWHERE: Final = "that there is no gap where none was found"
NONE_LESS_ELSEWHERE: Final = "that groups get the same where none was found to get less"
ALIKE_ELSEWHERE: Final = "that groups are treated alike where nothing was found"
WORDS_DIFFER: Final = "that groups differ, rather than the words for them"
OBSERVATIONAL: Final = "that the group is why: what people of these groups wrote may differ in other ways"
NOT_FOLLOWED: Final = "anything about empathy (the check failed)"
NO_GROUPS: Final = "that the model distinguishes real groups (invented groups may show the same gap)"
NOT_THE_GROUPS: Final = "that groups cause the gap: repeated words could"
NO_LARGER: Final = "that the gap between groups is no larger (repeated words can hide one)"
NOT_IN_ITSELF: Final = "that the gap itself is no larger (the gap of invented groups is subtracted)"
THESE_WORDS: Final = "that other groups, or other words for these groups, show the same"
EVERY_PART: Final = "that this holds for every emotion and group"
SIDE: Final = ": whose side?"
LESS: Final = ": who gets less?"
REFUSED_MORE: Final = ": who is refused more?"
"""What follows a dimension's name where a page answers both questions."""
_FOUND: Final = ("gap", "within")


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """An answer in short."""

    title: str
    verdict: str
    number: str = ""  # the deciding number; empty if there is none
    unit: str = ""
    spread: str = ""
    kind: str = ""  # CSS class of the verdict; empty if there is none
    anchor: str = ""  # where the page says more about it; empty if nowhere
    tail: str = ""  # text after the title
    # Of more than MOST answers, those that found something are shown first, then those of the largest weight, and the
    # first ones on ties. The page says what the weight measures. NaN counts as 0.
    weight: float = 0.0
    question: str = ""  # of a page with several questions, which of them it answers: each keeps one answer
    marks: tuple[Mark, ...] = ()  # what the picture shows of it


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of the first screen."""

    asked: str  # who was asked what about whom
    findings: tuple[ShortAnswer, ...]  # in the page's order, at most MOST
    n_findings: int  # how many there are in all
    lines: tuple[tuple[str, str], ...]  # heading and sentence: the size, how it varies, what must not be concluded
    source: str  # what the numbers are of, for a printed page that is passed on
    chosen_by: str  # what the findings were chosen by, if there are more
    meaning: str = ""  # what the number is; empty if the page says it elsewhere
    headline: str = ""  # the answer in everyday words; empty if the findings say it
    beside: tuple[Mark, ...] = ()  # what the picture shows besides, to compare the findings with
    axis: Axis | None = None  # of the picture; None if there is nothing to draw
    unit: str = "Points of the scale."  # of the picture
    step: Step = NO_STEP  # what to do next; empty if unknown
    commands: tuple[str, ...] = ()  # that do it, of a page of several runs

    @property
    def left_out(self) -> str:
        """Say which findings are shown if there are more; else empty."""
        if self.n_findings == len(self.findings):
            return ""
        shown = f"{len(self.findings)} of {self.n_findings} findings"
        return f"Shown: {shown}, chosen by {self.chosen_by}. The others are below."


class RenderedPage(str):
    """A page as HTML, with its first screen, which the terminal shows."""

    summary: Summary

    @classmethod
    def of(cls, page: str, first: Summary) -> RenderedPage:
        """Return a page with its first screen."""
        rendered = cls(page)
        rendered.summary = first
        return rendered


def summary(
    asked: str,
    findings: Sequence[ShortAnswer],
    lines: Sequence[tuple[str, str]],  # before what must not be concluded; those without words are left out
    *,
    not_concluded: Sequence[str],  # each to stand after "this does not show:"
    limits: Sequence[Limit] = (),  # content of the page's banner; named here by its titles
    why: str = "limits",  # anchor of the banner
    source: str,
    chosen_by: str,
    meaning: str = "",
    headline: str = "",
    beside: Sequence[Mark] = (),
    margin: float | None = None,  # drawn in the picture
    unit: str = "Points of the scale.",
    step: Step = NO_STEP,
) -> Summary:
    """Put a first screen together; at most `MOST` findings are shown."""
    # A NaN among the weights would leave the others unsorted.
    weights = [each.weight if math.isfinite(each.weight) else 0.0 for each in findings]
    found = [bool(each.question) and each.kind in _FOUND for each in findings]
    by_weight = sorted(range(len(findings)), key=lambda place: (not found[place], -weights[place]))
    questions = dict.fromkeys(each.question for each in findings)
    first = [next(place for place in by_weight if findings[place].question == question) for question in questions]
    by_weight.sort(key=lambda place: place not in first)
    shown = tuple(findings[place] for place in sorted(by_weight[:MOST]))
    several = len({finding.title for finding in findings}) > 1
    named = Markup("; ").join(_named(limit, several=several) for limit in limits)
    care = Markup('{}. <a href="#{}">Why that matters</a>').format(named, why) if limits else ""
    all_lines = [
        *lines,
        ("This does not show", Markup("; ").join(not_concluded) + "." if not_concluded else ""),
        ("Read with care", care),
    ]
    axis = axis_of([*(each for finding in shown for each in finding.marks), *beside], margin=margin)
    lines_there = tuple(line for line in all_lines if line[1])
    return Summary(
        asked, shown, len(findings), lines_there, source, chosen_by, meaning, headline, tuple(beside), axis, unit, step
    )


def not_from_absence(*, no_gap: bool, none_less: bool, gap: bool, less: bool) -> str:
    """Say what does not follow where no gap was found, or no group that gets less; empty if there is no such place.

    ``gap`` and ``less`` say whether one was found elsewhere on the page: then it is not so that nothing was.
    """
    if no_gap and none_less:
        return ALIKE_ELSEWHERE if gap or less else NO_GAP_NONE_LESS
    if no_gap:
        return NO_GAP_ELSEWHERE if gap else NO_GAP
    return (NONE_LESS_ELSEWHERE if less else NONE_LESS) if none_less else ""


def _named(limit: Limit, *, several: bool) -> Markup:
    where = Markup(" (<bdi>{}</bdi>)").format(limit.where) if limit.where and several else ""
    return Markup("{}{}").format(f"{limit.title[:1].lower()}{limit.title[1:]}", where)
