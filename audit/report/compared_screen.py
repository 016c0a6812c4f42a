"""The first screens of comparisons: what was asked in all runs, what differs between them, and what does not follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from audit.report.held_against import size_of
from audit.report.numbers import Row, show, unbroken
from audit.report.summary import Finding, Summary, summary
from audit.report.words import TaskWords
from audit.wording import (
    OF_GROUPS_AND_MODELS,
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    listed,
    plural,
    points,
    unsigned,
)

DIFFERING: Final = {
    "model": "the model",
    "prompt": "the wording of the prompt",
    "strategy": "what leads the model before the question",
    "narratives": "the accounts",
    "elicitation": "how the rating is got",
    "generation": "what a reply may be",
    "scale": "the scale",
    "seed": "the seed",
    "dtype": "the precision of the model",
    "quantization": "the compression of the model",
}
"""Columns of the tables of runs whose difference the first screen names, in plain words."""
_NAMED: Final = 2
_RUNS_NAMED: Final = 8


def summary_of_runs(
    runs: Sequence[Row],
    specifications: Sequence[Row],
    gaps: Sequence[Row],
    strategies: Sequence[Row],
    names: Mapping[str, str],
    *,
    confidence: float,
) -> Summary:
    """Say first what several runs of ratings came to.

    Parameters
    ----------
    runs, specifications, gaps, strategies
        Rows of these tables; of the gaps, those about narratives.
    names
        Run → what its strategy is called.
    confidence
        Coverage of the intervals.
    """
    level, alpha = coverage(confidence), 1 - confidence
    tested = [row for row in strategies if math.isfinite(row.number("p_adjusted"))]
    findings = [
        _of_strategies(row, own, strategies, alpha=alpha)
        if (own := [each for each in tested if each["dimension"] == row["dimension"]])
        else _of_choices(row, level=level)
        for row in specifications
    ]
    how = _changes(tested, names, alpha=alpha) if tested else _agreement(specifications)
    return summary(
        Markup(
            "In each of {} runs, a model asked to be a certain person read accounts by people of the same and of other "
            "groups, and rated how strongly they felt; {}."
        ).format(count(len(runs)), told_apart(runs)),
        findings,
        [("How big", _largest(gaps)), ("How it varies", how)],
        not_concluded=list(_not_concluded(specifications, tested, alpha=alpha)),
        source=source_of(runs),
    )


def told_apart(runs: Sequence[Row]) -> str:
    """Say what the runs differ in, as far as that is a choice."""
    differ = [
        words
        for name, words in DIFFERING.items()
        if len({str(row[name]) for row in runs if name in row}) > 1
    ]  # fmt: skip
    return f"they differ in {listed(differ)}" if differ else "they differ in none of the choices that are named below"


def source_of(runs: Sequence[Row]) -> Markup:
    """Say which runs a page of paper is of."""
    named = Markup(", ").join(Markup("<bdi>{}</bdi>").format(row["run"]) for row in runs[:_RUNS_NAMED])
    more = f" and {len(runs) - _RUNS_NAMED} more" if len(runs) > _RUNS_NAMED else ""
    return Markup("Runs: {}{}.").format(named, more)


def tally(rows: Sequence[Row], column: str, *, alpha: float) -> tuple[int, int, int]:
    """Count changes: lower, higher, and those whose corrected p finds neither.

    Parameters
    ----------
    rows
        Of tested changes.
    column
        Of the change.
    alpha
        Of the test, by corrected p.
    """
    found = [row for row in rows if row.number("p_adjusted") < alpha]
    lower = sum(row.number(column) < 0 for row in found)
    return lower, len(found) - lower, len(rows) - len(found)


def told_tally(rows: Sequence[Row], column: str, *, alpha: float) -> str:
    """Write that count: "1 lower · 2 higher · 5 undecided"."""
    kinds = ("lower", "higher", "undecided")
    counted = zip(tally(rows, column, alpha=alpha), kinds, strict=True)
    return " \N{MIDDLE DOT} ".join(f"{n}\N{NO-BREAK SPACE}{kind}" for n, kind in counted)


def _of_strategies(row: Row, own: Sequence[Row], strategies: Sequence[Row], *, alpha: float) -> Finding:
    """Say of one dimension in how many strategies δ is lower or higher than without."""
    lower, higher, _ = tally(own, "delta_change", alpha=alpha)
    references = {each["reference"] for each in own}
    without = [
        each for each in strategies if each["dimension"] == row["dimension"] and each["run"] in references
    ]  # fmt: skip
    ends = [pick(own, key=lambda each: each.number("delta")) for pick in (min, max)]
    reach = unbroken(*(show(each, "delta", points) for each in ends))
    spread = Markup("{} {} with them").format(reach, row["unit"])
    if len(without) == 1:
        spread = Markup("{} {} without, {} with").format(show(without[0], "delta", points), row["unit"], reach)
    return Finding(
        dimension_title(str(row["dimension"])),
        told_tally(own, "delta_change", alpha=alpha),
        spread=Markup("δ: {}").format(spread),
        kind="gap" if lower or higher else "undecided",
        tail=f": {len(own)} {either(len(own), 'strategy', 'strategies')}",
        weight=lower + higher,
    )


def _of_choices(row: Row, *, level: str) -> Finding:
    """Say of one dimension how many runs show a gap, either way, and how far δ goes."""
    title = dimension_title(str(row["dimension"]))
    if not row["n_estimated"]:
        return Finding(title, "No run has a δ", kind="absent")
    counted = [
        Markup("{}\N{NO-BREAK SPACE}{}").format(show(row, name, count), words)
        for name, words in (
            ("n_below", "towards the out-group"),
            ("n_above", "towards the in-group"),
            ("n_compatible", "undecided"),
            ("n_no_interval", "without an interval"),
        )
        if row[name]
    ]
    of = Markup(" (of {} with a δ, {} intervals)").format(show(row, "n_estimated", count), level)
    ends = unbroken(*(show(row, name, points) for name in ("lowest", "highest")))
    return Finding(
        title, Markup(" \N{MIDDLE DOT} ").join(counted) + of, spread=Markup("δ: {}, in {}").format(ends, row["unit"]),
        kind="gap" if row["n_below"] or row["n_above"] else "undecided",
        weight=max(abs(row.number("lowest")), abs(row.number("highest"))),
    )  # fmt: skip


def _largest(gaps: Sequence[Row]) -> Markup:
    sized = [row for row in gaps if size_of(row)]
    if not sized:
        return Markup("")
    row = max(sized, key=lambda each: abs(each.number("percent_of_scale")))
    return Markup("the largest δ, of <bdi>{}</bdi> in {}, is {}.").format(
        row["run"], dimension_title(str(row["dimension"])), size_of(row)
    )


def _changes(tested: Sequence[Row], names: Mapping[str, str], *, alpha: float) -> Markup:
    """Name the largest changes that are found."""
    found = sorted(
        (row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row.number("delta_change"))
    )
    if not found:
        return Markup("no strategy was found to change δ; that does not show that none does.")
    said = Markup("; ").join(
        Markup("<bdi>{}</bdi> ({}): δ {} by {} {}, p {}").format(
            names[str(row["run"])],
            dimension_title(str(row["dimension"])),
            "lower" if row.number("delta_change") < 0 else "higher",
            show(row, "delta_change", lambda value: points(abs(value), signed=False)),
            row["unit"],
            show(row, "p_adjusted", bare_p),
        )
        for row in found[:_NAMED]
    )
    rest = len(found) - _NAMED
    more = f"; and {rest} more" if rest > 0 else ""
    return said + Markup("{} (p corrected).").format(more)


def _agreement(specifications: Sequence[Row]) -> Markup:
    """Say where the runs agree least in δ's sign."""
    known = [row for row in specifications if row["n_estimated"] > 1]
    if not known:
        return Markup("")
    row = min(known, key=lambda each: each.number("share_same_sign"))
    where = Markup("in {}, ").format(dimension_title(str(row["dimension"]))) if len(known) > 1 else Markup("")
    return Markup("{}{} of {} runs have one sign of δ; that is no test.").format(
        where, show(row, "n_same_sign", count), show(row, "n_estimated", count)
    )


def _not_concluded(specifications: Sequence[Row], tested: Sequence[Row], *, alpha: float) -> Iterator[str]:
    if tested:
        yield "that a δ nearer to 0 is less bias"
        if tally(tested, "delta_change", alpha=alpha)[2]:
            yield "that an undecided strategy changes nothing"
    elif any(row["n_compatible"] for row in specifications):
        yield "that an undecided run has no gap"
    yield "which run's ratings are right"
    yield OF_GROUPS_AND_MODELS


def summary_of_changes(
    runs: Sequence[Row], changes: Sequence[Row], titles: Mapping[str, str], *, words: TaskWords, confidence: float
) -> Summary:
    """Say first what several runs of replies came to.

    Parameters
    ----------
    runs, changes
        Rows of the tables ``runs`` and ``measure_changes``.
    titles
        Measure → what it is called.
    words
        What is said of the task.
    confidence
        Coverage of the intervals.
    """
    alpha = 1 - confidence
    tested = [row for row in changes if math.isfinite(row.number("p_adjusted"))]
    findings = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in changes):
        own = [row for row in tested if row["dimension"] == dimension]
        if not own:
            findings.append(Finding(dimension_title(dimension), "Nothing could be tested", kind="absent"))
            continue
        lower, higher, _ = tally(own, "delta_change", alpha=alpha)
        told = f"δ: {told_tally(own, 'delta_change', alpha=alpha)} (of {plural(len(own), 'test')}, corrected)"
        kind = "gap" if lower or higher else "undecided"
        findings.append(Finding(dimension_title(dimension), told, kind=kind, weight=lower + higher))
    found = sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: row.number("p"))
    sized = [row for row in found if math.isfinite(row.number("change_sd"))]
    size = Markup("")
    if sized:
        row = max(sized, key=lambda each: abs(each.number("change_sd")))
        size = Markup(
            "the largest change, of {} in <bdi>{}</bdi>, is {} times the spread (SD) of that measure over replies."
        ).format(titles[row["measure"]], row["run"], show(row, "change_sd", lambda value: unsigned(abs(value))))
    named = Markup("; ").join(
        Markup("<bdi>{}</bdi>, {}: {}").format(
            row["run"], titles[row["measure"]], "lower" if row.number("delta_change") < 0 else "higher"
        )
        for row in found[:_NAMED]
    )
    rest = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    none = Markup("no δ was found to change; that does not show that none does.") if tested else Markup("")
    did = words.did.replace("each of {} ", "")
    return summary(
        Markup("In each of {} runs, a model asked to be a certain person {}; {}.").format(
            count(len(runs)), did, told_apart(runs)
        ),
        findings,
        [("How big", size), ("How it varies", Markup("{}{}.").format(named, rest) if found else none)],
        not_concluded=[
            "that a δ nearer to 0 is less bias",
            *(["that an undecided measure is unchanged"] if len(found) < len(tested) else []),
            words.no_better,
            OF_GROUPS_AND_MODELS,
        ],
        source=source_of(runs),
    )
