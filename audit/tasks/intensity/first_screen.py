"""The first screen of a run of ratings: who rated whom, the gaps in short, and what does not follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.manifest import ManifestView
from audit.report.numbers import PlacedRow, show
from audit.report.refusals import RefusalGap
from audit.report.run_page import led_by, source_of
from audit.report.sentences import WordedResult
from audit.report.summary import CHANGED, EVERY_PART, NO_GAP, NO_GROUPS, NOT_THE_GROUPS, ShortAnswer, Summary, summary
from audit.report.verdicts import least_of
from audit.tables.formatting import OF_GROUPS_AND_MODELS, brief, count, either, scale_end

NOT_FOLLOWED: Final = "anything about empathy (the check failed)"
MEANING_IN_SHORT: Final = Markup(
    "<strong>The gap δ</strong>: how much higher people of one's own group are rated than others, after removing that "
    "some raters rate everyone higher and that some people are rated higher by everyone."
)
"""The meaning of δ without the field's words, before the first number."""
_COVERED: Final = {
    "groups": "narratives and groups like these",
    "pairs": "narratives like these, but only these words for these groups",
}
"""What the deciding interval generalises to, by the scope of the estimate."""
_OUTSIDE: Final = "outside"
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


def summary_of_ratings(
    told: Sequence[FirstScreenGap],
    *,
    view: ManifestView,
    who: tuple[str, str] | None,
    codes: Set[str],
    limits: Sequence[Limit],
) -> Summary:
    """Write the first screen; ``who`` is a perceiver and an experiencer of another group, if anything was rated."""
    covered = _covered(told)
    findings = [finding for each in told for finding in _findings(each, several=len(told) > 1)]
    return summary(
        _asked(
            [each.row for each in told if each.row is not None],
            view=view,
            who=who,
            without_perceivers=_without_perceivers(codes),
        ),
        findings,
        [
            ("Check", next((each.check for each in told if each.check), "")),
            ("How big", _size(told)),
            ("The intervals cover", Markup("{}.").format(covered) if covered and len(told) > 1 else ""),
            ("How it varies", _variation(told)),
            ("How sure", _sure(told)),
            ("What next", _next(told)),
        ],
        not_concluded=list(_not_concluded([each.answer for each in told], codes=codes)),
        limits=limits,
        source=source_of(view),
        chosen_by="how far their intervals are from 0, in percent of the scale or percentage points",
        meaning=MEANING_IN_SHORT if told and not _without_perceivers(codes) else "",
    )


def _findings(told: FirstScreenGap, *, several: bool) -> Iterator[ShortAnswer]:
    found = told.answer
    # The dimensions stand beneath their mean, so it need not name them again.
    short = found.verdict.short if told.of_all else None
    covered = _covered([told])
    yield ShortAnswer(
        told.title, short or found.verdict.words, found.delta, " points" if found.scope else "",
        Markup("{}, for {}").format(found.spread, covered) if covered and not several else found.spread,
        kind=found.verdict.kind, anchor=told.anchor, weight=_percent_from_0(told),
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


def _without_perceivers(codes: Set[str]) -> bool:
    """Whether the model was given no identity."""
    return "no_perceivers" in codes


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
    if without_perceivers:
        return Markup(
            "{start}<bdi>{model}</bdi>{led} was given no identity. It was asked to read {accounts} by people of "
            "several groups, and to rate how strongly each felt, from {low} to {high}."
        ).format(
            start="Another tool collected these ratings: " if view.method == _OUTSIDE else "",
            model=view.model, led=led_by(view), accounts=accounts, low=scale_end(view.low), high=scale_end(view.high),
        )  # fmt: skip
    # It was asked even if it refused.
    words = Markup(
        "{start}<bdi>{model}</bdi>{led} was asked to speak as one person{one}, to read {accounts} by people of the "
        "same and of other groups{other}, and to rate how strongly each felt, from {low} to {high}."
    )
    return words.format(
        start="Another tool collected these ratings: " if view.method == _OUTSIDE else "",
        one=one, model=view.model, led=led_by(view), accounts=accounts, other=other,
        low=scale_end(view.low), high=scale_end(view.high),
    )  # fmt: skip


def _size(told: Sequence[FirstScreenGap]) -> Markup:
    """Say how big the gap is; if there are several, the largest one."""
    sized = [each for each in told if each.answer.size and each.answer.decided is not None]
    if not sized:
        return Markup("")
    largest = max(sized, key=lambda each: abs(each.answer.decided["delta"]) if each.answer.decided else 0.0)
    if len(told) == 1:
        return Markup("{}.").format(largest.answer.size)
    return Markup("the largest gap, <bdi>{}</bdi>, is {}.").format(largest.title, largest.answer.size)


def _covered(told: Sequence[FirstScreenGap]) -> Markup:
    """Say what the interval of the deciding estimate covers, if that is one for all gaps; empty without an interval."""
    rows = [each.answer.decided for each in told if each.answer.decided is not None]
    scopes = {str(row["scope"]) for row in rows if math.isfinite(row.number("ci_low"))}
    if len(scopes) != 1:
        return Markup("")
    return Markup(_COVERED["groups" if scopes == {"groups"} else "pairs"])


def _sure(told: Sequence[FirstScreenGap]) -> Markup:
    """For a single gap, say how small any average gap is, and how the true groups rank among reshuffled terms."""
    if len(told) != 1 or told[0].answer.verdict.kind == "absent":
        return Markup("")
    return Markup(" ").join(each for each in (told[0].answer.bound, told[0].answer.dealt) if each)


def _next(told: Sequence[FirstScreenGap]) -> Markup:
    """Say what would decide; if there are several gaps, what would decide most of them."""
    steps = [each.answer.verdict.step for each in told if each.answer.verdict.step and not each.of_all]
    still_open = [step for step in steps if not step.startswith("Nothing")]
    return Markup("{}").format(max(still_open, key=still_open.count) if still_open else next(iter(steps), ""))


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


def _not_concluded(answers: Sequence[WordedResult], *, codes: Set[str]) -> Iterator[str]:
    """Yield what does not follow: first what these data rule out, then what no such data could show."""
    if "accepted" in codes:
        yield CHANGED
    kinds = {found.verdict.kind for found in answers}
    if "manipulation" in codes:
        yield NOT_FOLLOWED
    elif kinds & {"absent", "undecided"} and not _without_perceivers(codes):
        yield NO_GAP
    if any("controls_disagree" in found.verdict.reasons for found in answers):
        yield NO_GROUPS
    if any(found.verdict.kind in ("gap", "within") and found.control_kind == "none" for found in answers):
        yield NOT_THE_GROUPS
    if "average" in kinds:
        yield EVERY_PART
    yield "which rating is right"
    yield OF_GROUPS_AND_MODELS
