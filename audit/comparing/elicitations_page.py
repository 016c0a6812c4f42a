"""Whether the answer depends on the elicitation: one sentence and one table for each set of runs and dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import PlacedRow, rows_of, show
from audit.report.section import Paragraph, Section, captioned, paragraph, present
from audit.report.table_layout import (
    ShownColumn,
    ShownTable,
    interval_column,
    number_column,
    speaks_of,
    statistics_table,
    text,
)
from audit.report.verdicts import worded
from audit.tables.formatting import (
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    error_rate,
    listed,
    points,
    unsigned,
)

Verdicts: TypeAlias = Mapping[tuple[str, str], Markup]
"""The verdicts on the runs' own pages, by run and dimension."""
_PAIRS: Final = {
    "echo_free": "without a word in common",
    "all_terms": "in whatever words",
    "mixed": "without a word in common where a dimension allows that",
    "": "",
}
"""The in-group pairs of a δ, in the words of the table of controls."""


def elicitation_sections(
    elicitations: pd.DataFrame, ranges: pd.DataFrame, verdicts: Sequence[PlacedRow], *, confidence: float
) -> Iterator[Section]:
    """Yield a section for each set of runs and dimension. ``verdicts`` are rows of the table ``verdicts``."""
    level = coverage(confidence)
    said = {(str(row["run"]), str(row["dimension"])): worded(row).words for row in verdicts}
    rows = rows_of(elicitations, "elicitations")
    several = ranges["reference"].nunique() > 1
    for whole in rows_of(ranges, "elicitation_ranges"):
        key = whole["reference"], whole["dimension"]
        own = [row for row in rows if (row["reference"], row["dimension"]) == key]
        title = dimension_title(str(whole["dimension"])) + (f", beside {whole['reference']}" if several else "")
        caption = f"δ by elicitation, {title}: each against the first, {own[0]['elicitation']}"
        content = present(
            Paragraph(_sentence(whole, own, said), "verdict"),
            paragraph(_spread(whole, own, confidence=confidence)),
            captioned(_table(own, said, level=level), caption),
        )
        yield Section(Markup("<bdi>{}</bdi>").format(title), content)


def _sentence(whole: PlacedRow, rows: Sequence[PlacedRow], said: Verdicts) -> Markup:
    """Say whether the sign or the verdict depends on the elicitation."""
    by_verdict: dict[Markup, list[str]] = {}
    for row in rows:
        by_verdict.setdefault(said[str(row["run"]), str(row["dimension"])], []).append(str(row["elicitation"]))
    found = Markup(" ").join(
        Markup("With {}: {}{}.").format("each" if len(by_verdict) == 1 else _named(names), words[0].lower(), words[1:])
        for words, names in by_verdict.items()
    )
    if not whole["sign"]:
        lacking = "Whether the sign of δ or the verdict depends on the elicitation is not known: of {} {} a verdict. {}"
        return Markup(lacking).format(
            show(whole, "n_elicitations", count),
            Markup("{} {}").format(show(whole, "n_verdicts", count), either(whole["n_verdicts"], "has", "have")),
            found,
        )
    chance = "which may be chance, since no two intervals leave out 0 on opposite sides"
    depends = {
        ("same", "same"): "Neither the sign of δ nor the verdict depends on the elicitation",
        ("same", "differs"): "The verdict depends on the elicitation, the sign of δ does not",
        ("differs", "same"): f"The sign of δ differs between elicitations, {chance}; the verdict does not",
        ("differs", "differs"): f"The sign of δ differs between elicitations, {chance}, and so does the verdict",
        ("reverses", "same"): "The sign of δ depends on the elicitation, the verdict does not",
        ("reverses", "differs"): "Both the sign of δ and the verdict depend on the elicitation",
    }[str(whole["sign"]), str(whole["verdict"])]
    return Markup("{}. {}").format(depends, found)


def _spread(whole: PlacedRow, rows: Sequence[PlacedRow], *, confidence: float) -> Markup:
    """Say how far δ ranges, and whether paired differences confirm it."""
    if not whole["n_estimated"]:
        return Markup("")
    said = Markup("δ goes from {} (<bdi>{}</bdi>) to {} (<bdi>{}</bdi>), a range of {} points over {} {}.").format(
        show(whole, "lowest", points),
        whole["lowest_elicitation"],
        show(whole, "highest", points),
        whole["highest_elicitation"],
        show(whole, "range", unsigned),
        show(whole, "n_estimated", count),
        either(whole["n_estimated"], "elicitation", "elicitations"),
    )
    if not whole["n_changes"]:
        return said + Markup(" No paired difference has a p.")
    said += Markup(" Of {} paired {} from <bdi>{}</bdi>, {} {} found (corrected p below {}).").format(
        show(whole, "n_changes", count),
        either(whole["n_changes"], "difference", "differences"),
        rows[0]["elicitation"],
        show(whole, "n_found", count),
        either(whole["n_found"], "is", "are"),
        error_rate(confidence),
    )
    if not whole["n_found"] and "differs" in (whole["sign"], whole["verdict"]):
        said += Markup(" So that δ itself depends on the elicitation is not shown.")
    return said


def _named(names: Sequence[str]) -> Markup:
    return Markup(listed([Markup("<bdi>{}</bdi>").format(name) for name in names]))


def _pairs(row: PlacedRow) -> str:
    """Name the in-group pairs of a gap, and whether the gap of invented groups was subtracted."""
    beyond = ", beyond invented groups" if row["control"] == "placebo" else ""
    return _PAIRS[str(row["pairs"])] + beyond


def _table(rows: Sequence[PlacedRow], said: Verdicts, *, level: str) -> ShownTable:
    return statistics_table(
        rows,
        ShownColumn("elicitation", lambda row: str(row["elicitation"])),
        text("run", "run"),
        ShownColumn("in-group pairs", _pairs, words=True),
        number_column("δ, points", "delta", points),
        interval_column(level),
        speaks_of("scope"),
        ShownColumn("verdict", lambda row: said[str(row["run"]), str(row["dimension"])], words=True),
        number_column("less the first", "delta_change", points),
        interval_column(level, "change_low", "change_high"),
        number_column("p, corrected", "p_adjusted", bare_p),
        speaks_of("change_scope"),
        ShownColumn(
            "narratives", lambda row: show(row, "n_narratives", count) if row["run"] != row["reference"] else ""
        ),
        note="note",
    )
