"""Render the index of a folder's runs as one page: group by group of comparable gaps, with no ranking.

Like a report, the page is self-contained and fully escaped, and every number names its place in ``index.csv`` or
``claims.csv``. Without JavaScript the same tables are shown, but cannot be sorted or filtered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.disparities import DISPARITY_MEANING
from audit.report.numbers import PlacedRow, rounded, show, show_interval, show_rounded_interval
from audit.report.page import render_page
from audit.report.table_layout import ends, named
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
    points,
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
    "absent": "no answer",
}
"""Kinds of answers to who gets less."""
_CONTROLS: Final = {
    "echo_free": "pairs without a word in common",
    "placebo": "compared with invented groups",
    "none": "not controlled",
}
_MANIPULATION: Final = {"passed": "manipulation check passed", "not made": "no manipulation check made"}
"""Failed or inconclusive checks are shown among the limits instead."""
_SAID: Final = {"for": "as claimed", "against": "the other way", "cannot_tell": "cannot tell"}
_SHORT: Final = 12  # Longest unit shown in a column heading, in letters. The facts of the group have it in any case.
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


def render_index(
    *,
    name: str,
    rows: Sequence[PlacedRow],
    groups: Sequence[GroupShown],
    claims: Sequence[ClaimShown],
    made_of_runs: Sequence[MadeOfRuns],
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
        summary=_summary(n_runs, with_gap, len(groups), without, unread),
        groups=[_shown(group) for group in groups],
        several_groups=len(groups) > 1,
        folded=_folded([group for group in groups if _is_measure(group)]),
        by_chance=_by_chance(with_gap),
        dimensions=[(each, dimension_title(each)) for each in dict.fromkeys(str(row["dimension"]) for row in with_gap)],
        verdicts=[(kind, VERDICTS[kind]) for kind in verdicts],
        unread=[(named(row["folder"]), row["reason"]) for row in unread],
        without=[(_link(row), named(row["model"]), row["task"], row["reason"]) for row in without],
        claims=[_claim(claim) for claim in claims],
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
    parts = []
    if with_gap:
        among = f" in {n_groups} groups that cannot be compared with each other" if n_groups > 1 else ""
        parts.append(f"{len({row['folder'] for row in with_gap})} with {plural(len(with_gap), 'gap')}{among}")
    if without:
        parts.append(f"{len(without)} without a gap to show")
    if unread:
        parts.append(f"{plural(len(unread), 'folder')} could not be read")
    told = _counted("Verdicts", "verdict", VERDICTS, with_gap) + _counted("Who gets less", "less", LESS, with_gap)
    return f"{plural(n_runs, 'run')}: {'; '.join(parts)}.{told}"


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


def _shown(group: GroupShown) -> dict[str, object]:
    columns = _columns(group.rows)
    return {
        "anchor": f"group-{group.number}",
        "folded": _is_measure(group),
        "number": group.number,
        "title": group.title,
        "facts": group.facts,
        "against": group.against,
        "unrecorded": listed(list(group.unrecorded)),
        "models": _models(group.rows),
        "head": [(column.head, column.kind) for column in columns],
        "rows": [
            {
                "cells": [column.cell(row) for column in columns],
                "dimension": row["dimension"],
                "verdict": row["verdict"],
                "text": " ".join(str(row[name]) for name in ("folder", "model", "prompt", "strategy")).casefold(),
            }
            for row in group.rows
        ],
    }


def _is_measure(group: GroupShown) -> bool:
    """Tell whether the gaps are of measures of texts, of which a run has many."""
    return str(group.rows[0]["outcome"]) != "intensity"


def _folded(groups: Sequence[GroupShown]) -> str:
    n_gaps = sum(len(group.rows) for group in groups)
    return f"Measures of what models wrote: {plural(n_gaps, 'gap')} in {plural(len(groups), 'group')}" if groups else ""


def _models(rows: Sequence[PlacedRow]) -> str:
    """Warn that several models are not ranked; empty if there is only one."""
    n_models = len({(row["model"], row["server"]) for row in rows})
    if n_models < 2:
        return ""
    return (
        f"{n_models} models, in the order of their folders. Sorting them by δ makes no ranking: whether two δ differ "
        "is told by their difference, which a comparison of the runs has, and not by two intervals."
    )


def _columns(rows: Sequence[PlacedRow]) -> list[_Column]:
    levels = {coverage(row.number("confidence")) for row in rows}
    one_level = next(iter(levels)) if len(levels) == 1 else ""
    led = any(row["strategy"] not in ("", "none") for row in rows)
    served = len({row["server"] for row in rows}) > 1
    unit = str(rows[0]["unit"])
    return [
        _Column("run", lambda row: IndexCell(_link(row), str(row["folder"]))),
        _Column("model", _name("model")),
        *([_Column("server", _name("server"))] if served else []),
        _Column(f"δ ({unit})" if len(unit) <= _SHORT else "δ", _delta, "number"),
        _Column(f"{one_level} interval".strip(), lambda row: _interval(row, one_level), "number"),
        _Column("verdict", lambda row: _words(row["verdict_words"] or MISSING, row["verdict"]), "long"),
        _Column("who gets less?", lambda row: _words(row["less_words"] or MISSING, row["less"]), "long"),
        _Column(f"D ({unit})" if len(unit) <= _SHORT else "D", _disparity, "number"),
        _Column(
            f"{one_level} interval of D".strip(),
            lambda row: _interval(row, one_level, "disparity_low", "disparity_high"),
            "number",
        ),
        _Column("group or words?", lambda row: _words(_CONTROLS.get(row["control"], MISSING))),
        *([_Column("response to the story", _response, "number")] if any(map(_has_response, rows)) else []),
        _Column("checks and limits", lambda row: _words("; ".join(_checks(row)) or MISSING), "long"),
        _Column("missing", _missing, "number"),
        _Column("narratives", lambda row: _number(row, "n_narratives", count), "number"),
        _Column("prompt", _name("prompt")),
        *([_Column("strategy", _name("strategy"))] if led else []),
        _Column("date", lambda row: IndexCell(str(row["started"])[:10] or MISSING, str(row["started"]))),
        _Column("size", _size, "number"),
    ]


def _name(column: str) -> Callable[[PlacedRow], IndexCell]:
    return lambda row: IndexCell(named(row[column]) if row[column] else MISSING, str(row[column]), words=True)


def _words(text: str, kind: str = "") -> IndexCell:
    return IndexCell(text, text, words=True, kind=kind)


def _number(row: PlacedRow, column: str, write: Callable[[float], str]) -> IndexCell:
    value = row.number(column)
    return IndexCell(show(row, column, write), repr(value) if math.isfinite(value) else "")


def _delta(row: PlacedRow) -> IndexCell:
    return _number(row, "delta", points if row["unit"] == "points" else rounded(row))


def _disparity(row: PlacedRow) -> IndexCell:
    """Show the disparity of the group that is lower or higher, with its name; else of the farthest, without."""
    number = row.number("disparity")
    if not math.isfinite(number):
        return IndexCell(MISSING, "")
    write = points if row["unit"] == "points" else rounded(row, "disparity_low", "disparity_high")
    which = named(row["less_group"]) if row["less"] in ("gap", "within") else "the farthest"
    return IndexCell(Markup("{} ({})").format(show(row, "disparity", write), which), repr(number))


def _interval(row: PlacedRow, level: str, low_end: str = "ci_low", high_end: str = "ci_high") -> IndexCell:
    write = show_interval if row["unit"] == "points" else show_rounded_interval
    low, shown = row.number(low_end), write(row, low_end, high_end)
    if not level and math.isfinite(low):
        shown = Markup("{} ({})").format(shown, coverage(row.number("confidence")))
    return IndexCell(shown, repr(low) if math.isfinite(low) else "")


def _has_response(row: PlacedRow) -> bool:
    return math.isfinite(row.number("response"))


def _response(row: PlacedRow) -> IndexCell:
    """Show how much higher a story's own emotion is rated than a wrong one, without any identity."""
    if not _has_response(row):
        return IndexCell(MISSING, "")
    shown = show(row, "response", points)
    if math.isfinite(row.number("response_low")):
        shown += Markup(" ({})").format(show_interval(row, "response_low", "response_high"))
    if math.isfinite(row.number("share_higher")):
        shown += Markup(", higher in {}").format(show(row, "share_higher", rate))
    return IndexCell(shown, repr(row.number("response")))


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
    return IndexCell(Markup(", ").join(said) or "not recorded", repr(by) if math.isfinite(by) else "")


def _millions(value: float) -> str:
    return fixed(value / 1e6, decimals=1 if value < 1e9 else 0)


# --- Claims ----------------------------------------------------------------------------------------------------------


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
                show(row, "delta_first", points), show(row, "delta_second", points),
                show(row, "delta_change", points), ends(row, "ci_low", "ci_high", points), row["unit"] or MISSING,
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
        "cannot tell. Those that share a run are not independent, and none is corrected for their number."
    )


# --- Names and places ------------------------------------------------------------------------------------------------


def _link(row: PlacedRow) -> Markup:
    return _linked(str(row["folder"]), str(row["page"]))


def _linked(folder: str, page: str) -> Markup:
    """Show a folder's name, linked to its page if it has one; relative, so that the whole folder may move."""
    if not page:
        return named(folder)
    return Markup('<a href="{}">{}</a>').format(page, named(folder))


__all__ = ["MARK", "VERDICTS", "ClaimShown", "GroupShown", "MadeOfRuns", "render_index"]
