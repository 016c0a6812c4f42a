"""Who gets less in which measure, on the page of a comparison of replies: what differs from the reference run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.comparing.page import SHOWN_ROWS
from audit.report.disparities import answer_in_words, limits_in_words
from audit.report.numbers import PlacedRow, rounded, show, show_rounded_interval
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Captioned, Section, bullets, paragraph, section
from audit.report.table_layout import ShownColumn, names
from audit.tables.formatting import bare_p, brief, count, dimension_title

_FOUND: Final = ("lower", "higher")
_TESTED: Final = (*_FOUND, "not_shown", "undecided")
_NAMED: Final = 2  # changes on the first screen
_LISTED: Final = 12  # changes in the section's list; the table has all
_ABOUT: Final = (
    "D of a group in a measure is how much lower (−) or higher (+) the measure is for it than for the other groups, "
    "whoever speaks. A change is D of the run minus D of its reference, narrative by narrative. Its interval counts "
    "what words, or labels of invented groups, differ by in either run; the corrected p (Holm) is for all groups, "
    "measures and runs of the dimension. Named is only what holds wherever missing replies lie, and not because "
    "another group's D differs."
)


def changed_groups(rows: Sequence[PlacedRow], titles: Mapping[str, str]) -> Markup:
    """Say in short which groups get less or more than in the reference; empty if nothing could be tested."""
    found = _found(rows)
    if not any(row["code"] in _TESTED for row in rows):
        return Markup("")
    if not found:
        return Markup("no group’s D was shown to change in any measure; that does not show that none does.")
    named = Markup("; ").join(_told(row, titles) for row in found[:_NAMED])
    rest = f"; and {count(len(found) - _NAMED)} more" if len(found) > _NAMED else ""
    return Markup("{}{}.").format(named, rest)


def less_section(results: Results, titles: Mapping[str, str]) -> Section | None:
    """Show which groups' D differs from the reference, measure by measure; None if groups were not compared."""
    rows = results.rows("measure_disparity_changes")
    if not rows:
        return None
    found = _found(rows)
    rest = [row for row in rows if row["code"] not in _FOUND]
    many = f": the first {SHOWN_ROWS} of {count(len(rest))}; all are in tables/measure_disparity_changes.csv"
    return page_section(
        "less", "Who gets less?", "Who gets less?",
        bullets(_told(row, titles) for row in found[:_LISTED]) or paragraph(_sentence(changed_groups(rows, titles))),
        _table(results, "Groups whose D differs from the reference's", found, titles),
        paragraph(_ABOUT, "small"),
        section(
            "Every other group and measure",
            _table(results, f"Not shown to differ{many if len(rest) > SHOWN_ROWS else ''}", rest[:SHOWN_ROWS], titles),
            look="folded",
        ),
    )  # fmt: skip


def _found(rows: Sequence[PlacedRow]) -> list[PlacedRow]:
    """Return the changes that are shown, the smallest p first."""
    return sorted((row for row in rows if row["code"] in _FOUND), key=lambda row: row.number("p"))


def _sentence(words: Markup) -> Markup:
    return words[:1].upper() + words[1:] if words else Markup("Nothing could be tested.")


def _told(row: PlacedRow, titles: Mapping[str, str]) -> Markup:
    words = ", in these words" if row["claim"] == "words" else ""
    said = "<bdi>{}</bdi>, {} ({}): D {} in <bdi>{}</bdi> than in <bdi>{}</bdi>, by {} {}{} (corrected p {})"
    return Markup(said).format(
        brief(str(row["group"])), titles[str(row["outcome"])], dimension_title(str(row["dimension"])), row["code"],
        brief(str(row["first"])), brief(str(row["second"])),
        show(row, "disparity_change", lambda value: rounded(row, signed=False)(abs(value))), row["unit"], words,
        show(row, "p_adjusted", bare_p),
    )  # fmt: skip


def _table(results: Results, caption: str, rows: Sequence[PlacedRow], titles: Mapping[str, str]) -> Captioned | None:
    def number(row: PlacedRow, name: str) -> Markup:
        return show(row, name, rounded(row))

    return results.table(
        "measure_disparity_changes", caption,
        names("group", "group"), ShownColumn("measure", lambda row: titles[str(row["outcome"])], words=True),
        "dimension", names("run", "first", words=True), names("reference", "second", words=True),
        ShownColumn("against the reference", answer_in_words, words=True),
        ShownColumn("D of the reference", partial(number, name="disparity_second")),
        ShownColumn("D", partial(number, name="disparity_first")),
        ShownColumn("change", partial(number, name="disparity_change")),
        ShownColumn(f"{results.level} interval", show_rounded_interval), "p_adjusted", "unit", "n_narratives",
        ShownColumn("what limits it", limits_in_words, words=True), "note",
        rows=rows,
    )  # fmt: skip
