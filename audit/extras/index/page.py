"""Render the index of a folder's runs as one page: group by group of comparable gaps, with no ranking.

Like a report, the page is self-contained and fully escaped, and every number names its place in ``index.csv`` or
``claims.csv``. Without JavaScript the same tables are shown, but cannot be sorted or filtered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.extras.index.answer import IndexStep
from audit.report.disparities import DISPARITY_MEANING
from audit.report.glance import Axis
from audit.report.numbers import PlacedRow, rounded, show, show_gap, show_interval, show_rounded_interval
from audit.report.page import render_page
from audit.report.table_layout import named
from audit.report.verdicts import is_of_measure
from audit.tables.formatting import (
    MEANING,
    MISSING,
    count,
    coverage,
    dimension_title,
    either,
    fixed,
    listed,
    plural,
    rate,
)

MARK: Final = '<meta name="generator" content="empathy-audit index">'  # marks our own page, which may be overwritten
VERDICTS: Final = {
    "gap": "a gap",
    "within": "a gap smaller than the margin",
    "none": "no gap larger than the margin",
    "average": "no average gap larger than the margin",
    "undecided": "undecided",
    "absent": "no verdict",
}
"""Kinds of verdicts, in the words of the filter."""
LESS: Final = {
    "gap": "a group gets less or more",
    "within": "a group gets less or more, by less than the margin",
    "none": "no group differs by the margin",
    "undecided": "undecided",
    "absent": "no verdict",
}
"""Kinds of answers to who gets less."""
LESS_IN_A_WORD: Final = {"none": "within the margin", "undecided": "undecided", "absent": "no verdict"}
WORDS: Final = {
    "gap": "gap",
    "within": "small gap",
    "none": "within the margin",
    "average": "within the margin on average",
    "undecided": "undecided",
    "absent": "no verdict",
}
"""Kinds of verdicts in a word or two; the sentence is a tap away."""
_CONTROLS: Final = {
    "echo_free": "pairs without a word in common",
    "placebo": "compared with invented groups",
    "none": "not controlled",
}
_MANIPULATION: Final = {"passed": "manipulation check passed", "not made": "no manipulation check made"}
"""Failed or inconclusive checks are shown among the limits instead."""
_ABOUT_CLAIMS: Final = (
    "Each δ is a property of one model under one prompt and one set of narratives. The claims are about the size of "
    "the gap, whichever way it goes. A pair of runs bears on a claim if it differs in that alone, as far as it was "
    "recorded. The difference is the paired one of a comparison in this folder; with fewer than five groups its "
    "interval says nothing of other groups or words. A pair cannot tell if the comparison does not show the difference "
    "after correction for all of its differences, if the gaps behind the two verdicts are not shown to go the same "
    "way, or if a run's own page gives no verdict."
)
_SAID: Final = {"for": "as claimed", "against": "the other way", "cannot_tell": "cannot tell"}
_SEARCHED: Final = ("folder", "model", "prompt", "strategy")
_WIDE: Final = 120  # px of a drawn interval
_ROOM: Final = 5 / 110  # beside its outermost ends, 5 px, as a share of what lies between
_FAMILY: Final = 3  # fewest runs of which a claim is shown unfolded
_SHOWN: Final = 50  # Pairs of a claim shown on the page. The files have all.


@dataclass(frozen=True)
class GroupShown:
    """A group of comparable gaps, as shown on the page."""

    number: int
    title: str
    facts: Sequence[tuple[str, str]]  # what its gaps have in common, as names and values
    against: str  # which groups it cannot be compared with, and why
    unrecorded: Sequence[str]  # what its runs did not record, in words
    rows: Sequence[PlacedRow]  # of the index


@dataclass(frozen=True)
class ClaimShown:
    """A claim of the literature (:class:`audit.extras.index.claims.Claim`) with the pairs of runs that bear on it."""

    words: str
    caution: str
    lacking: str
    rows: Sequence[PlacedRow]
    command: str  # makes the missing comparisons


@dataclass(frozen=True)
class MadeOfRuns:
    """A folder made from several runs. ``page`` is empty if it has none, ``note`` says what is wrong with it."""

    folder: str
    kind: str
    page: str
    n_runs: int
    note: str


@dataclass(frozen=True)
class IndexCell:
    """A cell of a table: its content, its sort key, whether it holds words, and of a verdict its kind."""

    shown: str
    by: str
    words: bool = False
    kind: str = ""  # CSS class of a verdict or an answer


@dataclass(frozen=True)
class _Column:
    head: str
    cell: Callable[[PlacedRow], IndexCell]
    kind: str = "text"


def _axis(rows: Sequence[PlacedRow]) -> Axis:
    """Return what all intervals of a group are drawn on, with 0 and room beside the outermost ends."""
    ends = [row.number(name) for row in rows for name in ("ci_low", "ci_high", "delta")]
    known = [0.0, *filter(math.isfinite, ends)]
    low, high = min(known), max(known)
    length = high - low or 1.0
    return Axis(low - _ROOM * length, low + (1 + _ROOM) * length)


def _drawn(row: PlacedRow, axis: Axis) -> Markup:
    """Draw an interval with its estimate, and a line at 0; what it shows stands beside it in numbers."""
    low, high, delta = (row.number(name) for name in ("ci_low", "ci_high", "delta"))
    if not math.isfinite(low):
        return Markup("")
    return Markup(
        '<svg class="spark" width="{wide}" height="16" aria-hidden="true">'
        '<line class="zero" x1="{zero}" y1="0" x2="{zero}" y2="16"/><line x1="{low}" y1="8" x2="{high}" y2="8"/>'
        '<circle cx="{delta}" cy="8" r="3"/></svg> '
    ).format(wide=_WIDE, zero=axis.place(0.0), low=axis.place(low), high=axis.place(high), delta=axis.place(delta))


def render_index(
    *,
    name: str,
    rows: Sequence[PlacedRow],
    groups: Sequence[GroupShown],
    claims: Sequence[ClaimShown],
    made_of_runs: Sequence[MadeOfRuns],
    copies: Sequence[Sequence[str]],  # folders that have the same answers
    answer: str,
    step: IndexStep,
    stem: str,
) -> str:
    """Render the page as a whole HTML document. ``stem`` is the name of the files beside the page."""
    without = [row for row in rows if row["state"] == "no_gap"]
    unread = [row for row in rows if row["state"] == "not_read"]
    with_gap = [row for group in groups for row in group.rows]
    n_runs = len({row["folder"] for row in rows if row["state"] != "not_read"})
    verdicts = [kind for kind in VERDICTS if any(row["verdict"] == kind for row in with_gap)]
    return render_page(
        "index.html.j2",
        styles=("style.css", "index.css"),
        scripts=("index.js",),
        mark=Markup(MARK),
        name=name,
        meaning=MEANING,
        disparity_meaning=DISPARITY_MEANING,
        answer=answer,
        step=step,
        summary=_summary(n_runs, with_gap, len(groups), without, unread),
        tables=[
            _shown(own, folded)
            for folded in (False, True)
            if (own := [group for group in groups if is_of_measure(group.rows[0]) is folded])
        ],
        several_groups=len(groups) > 1,
        copies=[f"{len(each)} runs are copies, with the same answers: {listed(list(each))}." for each in copies],
        by_chance=_by_chance(with_gap),
        dimensions=[(each, dimension_title(each)) for each in dict.fromkeys(str(row["dimension"]) for row in with_gap)],
        verdicts=[(kind, VERDICTS[kind]) for kind in verdicts],
        unread=[(named(row["folder"]), row["reason"]) for row in unread],
        without=[(_link(row), named(row["model"]), row["task"], row["reason"]) for row in without],
        claims=[_claim(claim) for claim in claims if _is_decided(claim)],
        undecided_claims=[_claim(claim) for claim in claims if not _is_decided(claim)],
        about_claims=_ABOUT_CLAIMS,
        made_of_runs=[
            (_linked(each.folder, each.page), each.kind, plural(each.n_runs, "run"), each.note) for each in made_of_runs
        ],
        stem=stem,
        packed="{}",
    )  # fmt: skip


def _summary(
    n_runs: int, with_gap: Sequence[PlacedRow], n_groups: int, without: Sequence[PlacedRow], unread: Sequence[PlacedRow]
) -> str:
    """Say what the folder holds, and what is not among the gaps."""
    n_with_gap = len({row["folder"] for row in with_gap})
    parts = []
    if with_gap:
        among = f" in {n_groups} sets; compare only within a set" if n_groups > 1 else ""
        parts.append(f"{'' if n_with_gap == n_runs else n_with_gap} with {plural(len(with_gap), 'gap')}{among}")
    if without:
        parts.append(f"{len(without)} without a gap to show")
    if unread:
        parts.append(f"{plural(len(unread), 'folder')} could not be read")
    told = _counted("Verdicts", "verdict", VERDICTS, with_gap) + _counted("Who gets less", "less", LESS, with_gap)
    runs = plural(n_runs, "run") + ("" if n_with_gap == n_runs else ": ")
    return f"{runs}{'; '.join(parts)}.{told}"


def _counted(head: str, column: str, words: Mapping[str, str], rows: Sequence[PlacedRow]) -> str:
    """Count the gaps of each verdict, or answer."""
    counted = Counter(str(row[column]) for row in rows)
    told = [f"{words[kind]} ({counted[kind]})" for kind in words if counted[kind]]
    return f" {head}: {', '.join(told)}." if told else ""


def _by_chance(rows: Sequence[PlacedRow]) -> str:
    """Say how many intervals would exclude 0 by chance; empty if there are fewer than two."""
    found = [row for row in rows if math.isfinite(row.number("ci_low"))]
    if len(found) < 2:
        return ""
    expected = sum(1 - row.number("confidence") for row in found)
    return (
        f"No interval is corrected for there being {len(found)} of them: if there were no gap anywhere, about "
        f"{fixed(expected, decimals=1)} of them would leave out 0 by chance."
    )


# --- A group ---------------------------------------------------------------------------------------------------------


def _shown(groups: Sequence[GroupShown], folded: bool) -> dict[str, object]:
    """Lay out groups as one table; those of measures of texts, of which a run has many, are folded."""
    columns = _columns([row for group in groups for row in group.rows])
    n_gaps = sum(len(group.rows) for group in groups)
    return {
        "folded": f"Measures of what models wrote: {plural(n_gaps, 'gap')} in {plural(len(groups), 'set')}"
        if folded
        else "",
        "head": [(column.head, column.kind) for column in columns],
        "groups": [
            {
                "anchor": f"group-{group.number}",
                "number": group.number,
                "title": group.title,
                "facts": group.facts,
                "against": group.against,
                "unrecorded": listed(list(group.unrecorded)),
                "models": _models(group.rows),
                "rows": [
                    {
                        "cells": [column.cell(row) for column in own],
                        "dimension": row["dimension"],
                        "verdict": row["verdict"],
                        "text": " ".join(str(row[name]) for name in _SEARCHED).casefold(),
                    }
                    for row in group.rows
                ],
            }
            for group in groups
            for own in [_columns(group.rows, columns)]
        ],
    }


def _models(rows: Sequence[PlacedRow]) -> str:
    """Warn that several models are not ranked; empty if there is only one."""
    n_models = len({(row["model"], row["server"]) for row in rows})
    if n_models < 2:
        return ""
    return (
        f"{n_models} models, in the order of their folders. Sorting them by δ makes no ranking: whether two δ differ "
        "is told by their difference, which a comparison of the runs has, and not by two intervals."
    )


def _columns(rows: Sequence[PlacedRow], of_table: Sequence[_Column] = ()) -> list[_Column]:
    """Return the columns of a table, or with ``of_table`` of one of its groups: on its own axis."""
    levels = {coverage(row.number("confidence")) for row in rows}
    one_level = next(iter(levels)) if len(levels) == 1 else ""
    axis = _axis(rows)
    heads = {column.head for column in of_table}
    choices = [
        _Column(name, _name(name))
        for name in ("server", "prompt", "strategy")
        if (name in heads if of_table else len({row[name] for row in rows}) > 1)
    ]
    return [
        _Column("run", lambda row: IndexCell(_link(row), str(row["folder"]))),
        _Column("whose side?", _verdict, "words"),
        _Column("who gets less?", partial(_who, level=one_level), "words"),
        _Column("gap δ, interval", partial(_delta, axis=axis, level=one_level), "number"),
        _Column("D", _disparity, "number"),
        _Column("model", _name("model")),
        *choices,
        _Column("missing", _missing, "number"),
        _Column("narratives", lambda row: _number(row, "n_narratives", count), "number"),
        _Column("date", lambda row: IndexCell(str(row["started"])[:10] or MISSING, str(row["started"]))),
        _Column("size", _size, "number"),
    ]


def _verdict(row: PlacedRow) -> IndexCell:
    """Show the verdict in a word; the sentence, its control and what limits it are a tap away."""
    if not row["verdict_words"]:
        return IndexCell(MISSING, "")
    facts = [
        ("Group or words?", _CONTROLS.get(row["control"], "")),
        ("Response to the story", _response(row)),
        ("Checks and limits", "; ".join(_checks(row))),
    ]
    return _on_tap(WORDS[str(row["verdict"])], row["verdict_words"], facts, str(row["verdict"]))


def _who(row: PlacedRow, level: str) -> IndexCell:
    """Name the group that gets less or more, if one is shown to; the sentence is a tap away."""
    kind = str(row["less"])
    word: str = LESS_IN_A_WORD.get(kind, "not known")
    if kind in ("gap", "within"):
        way = "lower" if row.number("disparity") < 0 else "higher"
        word = Markup("{} {}{}").format(named(row["less_group"]), way, ", small" if kind == "within" else "")
    if row["refused_words"]:
        word = Markup("{}; one refused more").format(word)
    farthest = kind not in ("gap", "within") and math.isfinite(row.number("disparity"))
    facts = [
        ("Who is refused more?", row["refused_words"]),
        ("D is of", "the group that lies farthest from the others" if farthest else ""),
        ("Interval of D", _interval(row, level, "disparity_low", "disparity_high")),
    ]
    return _on_tap(word, row["less_words"] or MISSING, facts, kind)


def _on_tap(word: str, sentence: str, facts: Sequence[tuple[str, str]], kind: str) -> IndexCell:
    more = Markup("").join(Markup("<br>{}: {}.").format(what, said) for what, said in facts if said and said != MISSING)
    shown = Markup("<details><summary>{}</summary>{}.{}</details>").format(word, sentence, more)
    return IndexCell(shown, str(sentence), words=True, kind=kind)


def _name(column: str) -> Callable[[PlacedRow], IndexCell]:
    return lambda row: IndexCell(named(row[column]) if row[column] else MISSING, str(row[column]), words=True)


def _number(row: PlacedRow, column: str, write: Callable[[float], str]) -> IndexCell:
    value = row.number(column)
    return IndexCell(show(row, column, write), repr(value) if math.isfinite(value) else "")


def _delta(row: PlacedRow, axis: Axis, level: str) -> IndexCell:
    """Show the gap with its interval, drawn on the group's axis and in numbers; under no verdict as a drawing alone."""
    number = row.number("delta")
    if not math.isfinite(number):
        return IndexCell(MISSING, "")
    shown = show_gap(row) if row["unit"] == "points" else show(row, "delta", rounded(row))
    said = Markup('<span class="figures">{} ({})</span>').format(shown, _interval(row, level))
    return IndexCell(_drawn(row, axis) + said, repr(number))


def _disparity(row: PlacedRow) -> IndexCell:
    """Show the disparity of the group that is lower or higher, with its name; else of the farthest, without."""
    number = row.number("disparity")
    if not math.isfinite(number):
        return IndexCell(MISSING, "")
    ends = "disparity_low", "disparity_high"
    in_points = row["unit"] == "points"
    shown = show_gap(row, "disparity", *ends) if in_points else show(row, "disparity", rounded(row, *ends))
    return IndexCell(shown, repr(number))


def _interval(row: PlacedRow, level: str, low_end: str = "ci_low", high_end: str = "ci_high") -> Markup:
    write = show_interval if row["unit"] == "points" else show_rounded_interval
    shown = write(row, low_end, high_end)
    if not level and math.isfinite(row.number(low_end)):
        shown = Markup("{}, {}").format(shown, coverage(row.number("confidence")))
    return shown


def _response(row: PlacedRow) -> Markup:
    """Show how much higher a story's own emotion is rated than a wrong one, without any identity."""
    if not math.isfinite(row.number("response")):
        return Markup("")
    shown = show_gap(row, "response", "response_low", "response_high")
    if math.isfinite(row.number("response_low")):
        shown += Markup(" ({})").format(show_interval(row, "response_low", "response_high"))
    if math.isfinite(row.number("share_higher")):
        shown += Markup(", higher in {}").format(show(row, "share_higher", rate))
    return shown


def _missing(row: PlacedRow) -> IndexCell:
    if math.isfinite(row.number("missing_share")):
        return _number(row, "missing_share", rate)
    return _number(row, "n_missing", count)


def _checks(row: PlacedRow) -> Iterable[str]:
    passed = _MANIPULATION.get(row["manipulation"], "")
    return filter(None, (row["limits"], passed))


def _size(row: PlacedRow) -> IndexCell:
    n, n_bytes = row.number("parameters"), row.number("weights_bytes")
    said = []
    if math.isfinite(n):
        said.append(Markup("{} million parameters").format(show(row, "parameters", lambda value: _millions(value))))
    if math.isfinite(n_bytes):
        said.append(Markup("{} MB").format(show(row, "weights_bytes", lambda value: _millions(value))))
    by = n if math.isfinite(n) else n_bytes
    return IndexCell(Markup(", ").join(said) or "not recorded", repr(by) if math.isfinite(by) else "", words=True)


def _millions(value: float) -> str:
    return fixed(value / 1e6, decimals=1 if value < 1e9 else 0)


# --- Claims ----------------------------------------------------------------------------------------------------------


def _is_decided(claim: ClaimShown) -> bool:
    """Whether several runs, more than a pair, decide a claim one way."""
    decided = [row for row in claim.rows if row["says"] in ("for", "against")]
    runs = {str(row[name]) for row in decided for name in ("first", "second")}
    return len(runs) >= _FAMILY and len({row["says"] for row in decided}) == 1


def _claim(claim: ClaimShown) -> dict[str, object]:
    rows = claim.rows[:_SHOWN]
    return {
        "words": claim.words,
        "summary": _told(claim),
        "caution": claim.caution,
        "command": claim.command,
        "left_out": f"{plural(rest, 'more row')} in the files." if (rest := len(claim.rows) - _SHOWN) > 0 else "",
        "rows": [
            (
                named(row["first"]), named(row["second"]), dimension_title(str(row["dimension"])),
                *(show_gap(row, name) for name in ("delta_first", "delta_second", "delta_change")),
                show_interval(row), row["unit"] or MISSING,
                _SAID[row["says"]] + (f": {row['why']}" if row["why"] else ""),
            )
            for row in rows
        ],
    }  # fmt: skip


def _told(claim: ClaimShown) -> str:
    """Say in a sentence what the runs show about a claim."""
    if not claim.rows:
        return f"These runs cannot tell: {claim.lacking}."
    n = {said: sum(row["says"] == said for row in claim.rows) for said in _SAID}
    n_pairs = len({(row["first"], row["second"]) for row in claim.rows})
    bears = f"{plural(n_pairs, 'pair')} of runs {either(n_pairs, 'bears', 'bear')} on it"
    if len(claim.rows) > n_pairs:  # a pair has a row for each dimension
        bears += f", with {plural(len(claim.rows), 'difference')}"
    if n["for"] == n["against"] == 0:
        return f"These runs cannot tell: {bears}, and none of them decides."
    return (
        f"{bears}: {n['for']} as claimed, {n['against']} the other way, {n['cannot_tell']} "
        "cannot tell. Pairs that share a run are not independent."
    )


# --- Names and places ------------------------------------------------------------------------------------------------


def _link(row: PlacedRow) -> Markup:
    return _linked(str(row["folder"]), str(row["page"]))


def _linked(folder: str, page: str) -> Markup:
    """Show a folder's name, linked to its page if it has one; relative, so that the whole folder may move."""
    if not page:
        return named(folder)
    return Markup('<a href="{}">{}</a>').format(page, named(folder))
