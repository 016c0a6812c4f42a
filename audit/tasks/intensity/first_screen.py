"""The first screen of a run of ratings: who rated whom, the gaps in short, and what does not follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.disparities import DISPARITY_IN_SHORT, DisparitySentence
from audit.report.effect_size import NOT_MADE
from audit.report.glance import Mark
from audit.report.manifest import ManifestView
from audit.report.numbers import PlacedRow, show
from audit.report.refusals import RefusalGap
from audit.report.run_page import led_by, source_of
from audit.report.sentences import COVERED, WordedResult
from audit.report.summary import (
    CHANGED,
    EVERY_PART,
    LESS,
    MOST,
    NO_GROUPS,
    NOT_FOLLOWED,
    NOT_THE_GROUPS,
    REFUSED_MORE,
    SIDE,
    WORDS_DIFFER,
    ShortAnswer,
    Summary,
    not_from_absence,
    summary,
)
from audit.report.verdicts import NO_STEP, Step, least_of
from audit.tables.formatting import OF_GROUPS_AND_MODELS, brief, count, either, plural, scale_end

MEANING_IN_SHORT: Final = Markup(
    "<strong>The gap δ</strong>: how much higher people of one's own group are rated than others, after removing that "
    "some raters rate everyone higher and that some people are rated higher by everyone."
)
"""The meaning of δ without the field's words, before the first number."""
_COVERED_BY_D: Final = {
    "narratives": "narratives like these, but only these words for these groups",
    "narratives_and_terms": "narratives like these, and other words for these groups",
    "narratives_and_labels": "narratives like these, beyond what the words for groups differ by",
}
"""What the deciding interval of D generalises to, by the scope of its row."""
_NOTHING: Final = Markup("")
_OPEN: Final = frozenset({"absent", "undecided"})
_FOUND: Final = ("gap", "within")
_RULED_OUT: Final = ("none", "average")
_GROUPS: Final = 6  # groups that the picture has room for
_FEW_GROUPS: Final = 2  # the same beside several dimensions
_NONE_LOWER: Final = Markup("No group is shown to be rated lower or higher than the others.")
_NAMED: Final = 1  # dimensions whose variation the first screen describes: a phone has room for one


@dataclass(frozen=True, slots=True)
class FirstScreenGap:
    """A gap for the first screen: its answer, its row and its refusal gap, if any."""

    title: str
    anchor: str
    answer: WordedResult
    row: PlacedRow | None
    refusals: RefusalGap | None = None
    of_all: bool = False  # the mean over dimensions
    check: str = ""  # in short, whether ratings match the story
    whose: bool = True  # whether a group was the model's own; else nothing is said of δ where D is known
    less: DisparitySentence | None = None  # who gets less; None of a mean over dimensions, and if it is not known
    refused: DisparitySentence | None = None  # who is refused more often; None if nobody is shown to be
    marks: tuple[Mark, ...] = ()  # δ in the picture, and what invented groups show
    groups: tuple[Mark, ...] = ()  # the disparities in the picture, the farthest group first

    @property
    def of_delta(self) -> bool:
        """Whether the first screen says anything of δ."""
        return self.whose or self.less is None


def summary_of_ratings(
    told: Sequence[FirstScreenGap],
    *,
    view: ManifestView,
    who: tuple[str, str] | None,
    codes: Set[str],
    limits: Sequence[Limit],
    whose: bool = True,  # whether a group was the model's own
    response: Mark | None = None,  # to the story, in the picture
) -> Summary:
    """Write the first screen; ``who`` is a perceiver and an experiencer of another group, if anything was rated."""
    covered = _intervals_cover(told)
    both = any(each.less is not None for each in told)
    # The mean of gaps of both sides is a gap of none of the dimensions.
    opposite = len({_side(each) for each in told if not each.of_all} - {0}) > 1
    shown = [each for each in told if not (each.of_all and opposite)]
    findings = [finding for each in shown for finding in _findings(each, several=len(told) > 1, both=both)]
    if both:  # what was found stands first, whichever question it answers
        findings.sort(key=lambda each: each.kind != "gap")
    return summary(
        _asked([each.row for each in told if each.row is not None], view=view, who=who, without_perceivers=not whose),
        findings,
        [
            _check(next((each.check for each in told if each.check), "")),
            ("How big", _size(told)),
            ("The intervals cover", covered if len(told) > 1 else ""),
            ("How it varies", _variation(told)),
            ("How sure", _sure(told)),
        ],
        not_concluded=list(_not_concluded(told, codes=codes)),
        limits=limits,
        source=source_of(view),
        chosen_by="result, then by size in percent"
        if both
        else "how far their intervals are from 0, in percent of the scale or percentage points",
        meaning=_meaning(delta=bool(told) and whose, disparity=both),
        headline=_headline(told),
        beside=() if response is None else (response,),
        margin=view.margin,
        step=_within_reach(_next(told), view),
    )


def _side(told: FirstScreenGap) -> int:
    """Return 1 for a gap towards the in-group, −1 for one towards the out-group, 0 if none is found."""
    row = told.answer.decided
    if row is None or not told.of_delta or told.answer.verdict.kind not in _FOUND:
        return 0
    return 1 if row.number("delta") > 0 else -1


def _headline(told: Sequence[FirstScreenGap]) -> Markup:
    """Answer both questions in everyday words, with what was found first."""
    single = [each for each in told if not each.of_all]
    if len(single) < 2:
        return Markup(" ").join(_answers(single[0])) if single else Markup("")
    answers = [list(_answers(each)) for each in single]
    if all(each.answer.verdict.kind == "absent" for each in single if each.of_delta) and all(
        each.less is None or each.less.kind == "absent" for each in single
    ):  # that nothing is shown would read as if it had been looked for
        same = all(each == answers[0] for each in answers)
        return Markup(" ").join(answers[0]) if same else _where(single[0], Markup(" ").join(answers[0]))
    of_delta, of_groups = [each for each in single if each.of_delta], [each for each in single if each.less is not None]
    said = [list(_sides(of_delta)), list(_lower(of_groups))]
    if not any(map(_side, of_delta)) and any(each.less is not None and each.less.found for each in of_groups):
        said.reverse()
    refused = [_where(each, words) for each in single for words in _refused(each)]
    if rest := len(refused) - _NAMED if refused else 0:
        refused[_NAMED:] = [Markup("Refusals differ in {}, see below.").format(plural(rest, "other dimension"))]
    return Markup(" ").join([*refused, *said[0], *said[1]])


def _sides(told: Sequence[FirstScreenGap]) -> Iterator[Markup]:
    """Yield whose side the model takes in several dimensions: one in full, of the others whether it is the same."""
    found = [each for each in told if each.answer.verdict.kind in _FOUND]
    for each in found[:_NAMED]:
        yield _where(each, each.answer.plain)
    for way, rest in (
        ("A gap", [each for each in found[_NAMED:] if _side(each) == _side(found[0])]),
        ("A gap the other way", [each for each in found[_NAMED:] if _side(each) != _side(found[0])]),
    ):
        if rest:
            where = Markup("<bdi>{}</bdi>").format(rest[0].title) if len(rest) == 1 else plural(len(rest), "dimension")
            yield Markup("{} is found in {}, see below.").format(way, where)
    if not found:
        none = "In none of {} dimensions is the model shown to rate its own group higher or lower."
        yield from _of_all([(each.answer.verdict.kind, each.answer.plain) for each in told], none)


def _lower(told: Sequence[FirstScreenGap]) -> Iterator[Markup]:
    """Yield which groups get less in several dimensions: of one in full, of the others in how many."""
    less = [(each, each.less) for each in told if each.less is not None]
    found = [(each, said) for each, said in less if said.found]
    for each, said in found[:_NAMED]:
        yield _where(each, said.words + ".")
    if rest := len(found) - _NAMED if found else 0:
        yield Markup("Groups are rated lower or higher in {}, see below.").format(plural(rest, "other dimension"))
    if not found:
        yield from _of_all([(said.kind, said.words + ".") for _, said in less], _NONE_LOWER)


def _of_all(said: Sequence[tuple[str, Markup]], none: str) -> Iterator[Markup]:
    """Yield what is ruled out in all dimensions, given the kind and words of each answer; else ``none``."""
    n = count(len(said))
    if said and all(kind in _RULED_OUT for kind, _ in said):
        if len({words.striptags() for _, words in said}) == 1:
            yield Markup("In each of {} dimensions: {}").format(n, said[0][1])
        else:
            yield Markup(
                "In none of {} dimensions is there an average gap larger than the margin; each answer below says of "
                "which words and parts."
            ).format(n)
    elif said:
        yield Markup(none).format(n)


def _refused(told: FirstScreenGap) -> Iterator[Markup]:
    """Yield that refusals differ, if they are found to."""
    if told.refused is not None:
        yield told.refused.words + "."
    elif told.refusals is not None and told.refusals.verdict.kind == "gap":
        yield told.refusals.verdict.words + "."


def _where(told: FirstScreenGap, sentence: Markup) -> Markup:
    return Markup("<bdi>{}</bdi>: {}").format(told.title, sentence)


def _answers(told: FirstScreenGap) -> Iterator[Markup]:
    """Yield the answers on a single dimension, what was found first; without any verdict the reason once."""
    kind, less = told.answer.verdict.kind, told.less
    yield from _refused(told)
    said = [(kind not in _FOUND, told.answer.plain)] if told.of_delta else []
    if less is not None and not (said and less.kind == kind == "absent"):
        # "Undecided" beside an answer to another question does not say what is.
        said.append((not less.found, _NONE_LOWER if less.kind == "undecided" else less.words + "."))
    yield from (words for _, words in sorted(said, key=lambda each: each[0]))


def _check(said: str) -> tuple[str, str]:
    return ("Not checked", "whether the ratings match the story.") if said == NOT_MADE else ("Check", said)


def _meaning(*, delta: bool, disparity: bool) -> Markup:
    """Say what the numbers are, before they stand."""
    less = DISPARITY_IN_SHORT + (", whoever speaks." if delta else ".") if disparity else Markup("")
    return Markup(" ").join(filter(None, (MEANING_IN_SHORT if delta else "", less)))


def _findings(told: FirstScreenGap, *, several: bool, both: bool) -> Iterator[ShortAnswer]:
    found, less = told.answer, told.less
    # The dimensions stand beneath their mean, so it need not name them again.
    short = found.verdict.short if told.of_all else None
    covered = _covered([told])
    if told.of_delta:
        yield ShortAnswer(
            told.title, short or found.verdict.words, found.delta, " points" if found.scope else "",
            Markup("{}, for {}").format(found.spread, covered) if covered and not several else found.spread,
            kind=found.verdict.kind, anchor=told.anchor, tail="" if less is None else SIDE,
            weight=_percent_from_0(told), question="side" if both else "",
            marks=told.marks if found.verdict.kind != "absent" else (),
        )  # fmt: skip
    if less is not None:
        yield ShortAnswer(
            told.title, less.words, less.number, " points" if less.number else "", less.spread, kind=less.kind,
            anchor=told.anchor, tail=LESS, weight=less.weight, question="less",
            marks=told.groups[: _FEW_GROUPS if several else _GROUPS] if less.kind != "absent" else (),
        )  # fmt: skip
    if told.refused is not None:
        who = told.refused
        yield ShortAnswer(
            told.title, who.words, who.number, " percentage points", who.spread, kind=who.kind, anchor=told.anchor,
            tail=REFUSED_MORE, weight=who.weight, question="refused",
        )  # fmt: skip
    if told.refusals is not None:
        gap = told.refusals
        yield ShortAnswer(
            told.title, gap.verdict.words, gap.gap, " percentage points", gap.spread, kind=gap.verdict.kind,
            anchor=told.anchor, tail=": refusals", weight=gap.least,
        )  # fmt: skip


def _percent_from_0(told: FirstScreenGap) -> float:
    """Return the distance of the deciding interval from 0, in percent of the scale; 0 if it includes 0."""
    gap, decided = told.row, told.answer.decided
    if gap is None or decided is None or not math.isfinite(decided.number("ci_low")) or not least_of(decided):
        return 0.0
    if not gap.number("delta"):
        return least_of(decided)
    return least_of(decided) * abs(gap.number("percent_of_scale") / gap.number("delta"))


def _asked(
    rows: Sequence[PlacedRow], *, view: ManifestView, who: tuple[str, str] | None, without_perceivers: bool
) -> Markup:
    """Say in a sentence who was asked what about whom."""
    largest = max(rows, key=lambda row: row.number("n_narratives_asked"), default=None)
    n = math.nan if largest is None else largest.number("n_narratives_asked")
    accounts = Markup("accounts")
    if largest is not None and n == n:
        accounts = Markup("{} {}").format(show(largest, "n_narratives_asked", count), either(n, "account", "accounts"))
    one, other = (Markup(" (such as <bdi>“{}”</bdi>)").format(brief(name, at_most=40)) for name in who or ("", ""))
    if who is None:
        one = other = Markup("")
    start = "Another tool collected these ratings: " if view.of_another_tool else ""
    model = "a model" if start and view.model == view.stimuli else view.model  # without model=, the file has its place
    if without_perceivers:
        return Markup(
            "{start}<bdi>{model}</bdi>{led} was given no identity. It was asked to read {accounts} by people of "
            "several groups, and to rate how strongly each felt, from {low} to {high}."
        ).format(
            start=start,
            model=model, led=led_by(view), accounts=accounts, low=scale_end(view.low), high=scale_end(view.high),
        )  # fmt: skip
    # It was asked even if it refused.
    words = Markup(
        "{start}<bdi>{model}</bdi>{led} was asked to speak as one person{one}, to read {accounts} by people of the "
        "same and of other groups{other}, and to rate how strongly each felt, from {low} to {high}."
    )
    return words.format(
        start=start, one=one, model=model, led=led_by(view), accounts=accounts, other=other,
        low=scale_end(view.low), high=scale_end(view.high),
    )  # fmt: skip


def _size(told: Sequence[FirstScreenGap]) -> Markup:
    """Say how big a disparity is that was found, and the gap; if there are several, the largest one of each."""
    found = [each for each in told if each.less is not None and each.less.found and each.less.size]
    less = max(found, key=_size_of_less, default=None)
    sized = [
        each for each in told
        if each.of_delta and each.answer.size and each.answer.decided is not None
        and each.answer.verdict.kind != "absent"
    ]  # fmt: skip
    largest = max(
        sized, key=lambda each: abs(each.answer.decided["delta"]) if each.answer.decided else 0.0, default=None
    )
    parts = []
    if less is not None and less.less is not None and less.less.row is not None:
        group = Markup("<bdi>{}</bdi>").format(brief(str(less.less.row["group"])))
        where = Markup("the disparity of {}").format(group)
        if len(told) > 1:
            where = Markup("the largest disparity, <bdi>{}</bdi> ({}),").format(less.title, group)
        parts.append(Markup("{} is {}.").format(where, less.less.size))
    if largest is not None:
        named = any(each.less is not None for each in told)
        where = Markup("the gap is " if named else "")
        if len(told) > 1:
            where = Markup("the largest gap, <bdi>{}</bdi>, is ").format(largest.title)
        parts.append(Markup("{}{}.").format(where, largest.answer.size))
    return Markup(" ").join(Markup("T") + each[1:] if place else each for place, each in enumerate(parts))


def _size_of_less(told: FirstScreenGap) -> float:
    row = None if told.less is None else told.less.row
    return 0.0 if row is None else abs(row.number("disparity"))


def _intervals_cover(told: Sequence[FirstScreenGap]) -> Markup:
    """Say what the deciding intervals cover, of each question if that is one for all of its answers."""
    delta = _covered([each for each in told if each.of_delta])
    rows = [each.less.row for each in told if each.less is not None and each.less.row is not None]
    scopes = {str(row["scope"]) for row in rows if math.isfinite(row.number("ci_low"))}
    less = _COVERED_BY_D[next(iter(scopes))] if len(scopes) == 1 else ""
    if not less:
        return Markup("{}.").format(delta) if delta and not rows else Markup("")
    return Markup("; ").join(
        Markup("of {}, {}").format(name, said) for name, said in (("δ", delta), ("D", less)) if said
    ) + Markup(".")


def _covered(told: Sequence[FirstScreenGap]) -> Markup:
    """Say what the interval of the deciding estimate covers, if that is one for all gaps; empty without an interval."""
    rows = [each.answer.decided for each in told if each.answer.decided is not None]
    scopes = {str(row["scope"]) for row in rows if math.isfinite(row.number("ci_low"))}
    if len(scopes) != 1:
        return Markup("")
    return Markup(COVERED["groups" if scopes == {"groups"} else "pairs"])


def _sure(told: Sequence[FirstScreenGap]) -> Markup:
    """Say how small any gap and any disparity is, and of a single dimension how the true groups rank among others."""
    single = [each for each in told if not each.of_all]
    said = []
    for each in single[:MOST]:
        of_delta = each.of_delta and each.answer.verdict.kind != "absent"
        own = [each.answer.bound, each.answer.dealt if len(told) == 1 else ""] if of_delta else []
        bounds = Markup(" ").join(filter(None, (*own, each.less.bound if each.less is not None else "")))
        if bounds:
            said.append(_where(each, bounds) if len(single) > 1 else bounds)
    return Markup(" ").join(said)


def _next(told: Sequence[FirstScreenGap]) -> Step:
    """Say what would decide; if there are several gaps, what would decide most of them; nothing if all is clear."""
    single = [each for each in told if not each.of_all]
    steps = [(each, each.answer.verdict.step) for each in single if each.of_delta]
    still_open = [(each, step) for each, step in steps if step and step.code != "nothing"]
    still_open += [(each, each.less.step) for each in single if each.less is not None and each.less.step]
    if not still_open:
        clear = any(step for _, step in steps) or any(
            each.less is not None and each.less.kind != "absent" for each in single
        )
        return Step.of("nothing") if clear else NO_STEP
    words = [step for _, step in still_open]
    first = max(words, key=words.count)
    # What decides the question that needs most narratives decides the others, if all have the same number of them.
    of, step = max(
        ((each, step) for each, step in still_open if step.code == first.code),
        key=lambda each: each[1].n_needed if math.isfinite(each[1].n_needed) else 0.0,
    )
    if math.isfinite(step.n_needed) and len({each.row["n_narratives_asked"] for each in single if each.row}) > 1:
        step = step.reworded(_where(of, step))
    return step.reworded(_question_left(single) + step)


def _within_reach(step: Step, view: ManifestView) -> Step:
    """Say so if a step needs more narratives than their source has."""
    if not step.n_of_run(view.n_narratives) > view.n_available > 0:
        return step
    words = Markup("{} <bdi>{}</bdi> has {}: for more, use narratives of your own (stimuli=csv).")
    return step.reworded(words.format(step, view.stimuli, count(view.n_available)))


def _question_left(single: Sequence[FirstScreenGap]) -> Markup:
    """Say which question of a single dimension is left open, if the other is answered; else empty."""
    if len(single) != 1 or single[0].less is None or not single[0].of_delta:
        return _NOTHING
    side, less = single[0].answer.verdict, single[0].less
    if less.kind not in _OPEN and not less.step and side.kind == "undecided":
        return Markup("Who gets less is clear; whose side is not. ")
    if side.kind not in _OPEN and side.step.code == "nothing" and less.kind == "undecided":
        return Markup("Whose side is clear; who gets less is not. ")
    return _NOTHING


def _variation(told: Sequence[FirstScreenGap]) -> Markup:
    """Say how the gap varies; if there are several, where it was found to vary."""
    single = [each for each in told if not each.of_all]
    if len(told) == 1:
        return told[0].answer.varies
    found = [each for each in single if each.answer.stands_out]
    if not found:
        same = dict.fromkeys(each.answer.varies for each in single if each.answer.varies)
        return next(iter(same)) if len(same) == 1 else Markup("")
    said = Markup(" ").join(
        Markup("<bdi>{}</bdi>: {}").format(each.title, each.answer.varies) for each in found[:_NAMED]
    )
    rest = len(found) - _NAMED
    more = f" The same is true of {rest} more {either(rest, 'dimension', 'dimensions')} below."
    return said + (more if rest > 0 else "")


def _not_concluded(told: Sequence[FirstScreenGap], *, codes: Set[str]) -> Iterator[str]:
    """Yield what does not follow: first what these data rule out, then what no such data could show."""
    answers = [each.answer for each in told if each.of_delta]
    less = [each.less for each in told if each.less is not None]
    if "accepted" in codes:
        yield CHANGED
    kinds = {found.verdict.kind for found in answers}
    no_gap = any(each.whose for each in told) and bool(kinds & _OPEN)
    none_less = any(each.kind in _OPEN for each in less)
    if "manipulation" in codes:
        yield NOT_FOLLOWED
    elif no_gap or none_less:
        yield not_from_absence(
            no_gap=no_gap, none_less=none_less,
            gap=bool(kinds & {*_FOUND}) or any(each.refusals and each.refusals.verdict.kind == "gap" for each in told),
            less=any(each.found for each in less) or any(each.refused for each in told),
        )  # fmt: skip
    if any("controls_disagree" in found.verdict.reasons for found in answers):
        yield NO_GROUPS
    if any(found.verdict.kind in ("gap", "within") and found.control_kind == "none" for found in answers):
        yield NOT_THE_GROUPS
    if any(row["claim"] == "words" for each in less for row in each.found):
        yield WORDS_DIFFER
    if "average" in kinds:
        yield EVERY_PART
    yield "which rating is right"
    yield OF_GROUPS_AND_MODELS
