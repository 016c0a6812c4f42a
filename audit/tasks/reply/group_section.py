"""The part of a dimension on who gets less: an answer for each measure, each group's disparity, and what is beneath."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from audit.report.disparity_section import disparity_section
from audit.report.numbers import PlacedRow, rounded, show
from audit.report.results import Results
from audit.report.section import Block, Captioned, Paragraph, Section, captioned, paragraph, section
from audit.report.table_layout import ShownColumn, ShownTable, named
from audit.tables.formatting import MISSING, count, either, plural
from audit.tasks.reply.measure_disparities import CombinedDisparity, MeasureAnswer

_FIGURE: Final = (
    "how far each group lies below or above the others in this measure. Filled marks: lower or higher is shown"
)


def group_section(
    own: Results, found: CombinedDisparity, invented: Sequence[PlacedRow] = (), *, room: int, anchor: str = ""
) -> Section | None:
    """Show who gets less in which measure; ``room`` is the most rows of single measures.

    ``invented`` are the rows of invented groups of the same variant, in all measures.
    """
    return section(
        own.title,
        Paragraph(found.words + ".", "lead"),
        Paragraph(found.lead),
        section("", *_pictures(own, found), look="pair"),
        captioned(_by_group(found), own.captioned(
            "D of each group in each measure, in the measure's unit. Bold: shown to be lower or higher than the others"
        )),
        section("Turn by turn", _by_turn(own, found), look="folded"),
        section("The answer of each measure", _of_measures(own, found), look="folded"),
        section("Measure by measure", *_each_measure(own, found, invented, room=room), look="folded"),
        anchor=anchor,
    )  # fmt: skip


def _pictures(own: Results, found: CombinedDisparity) -> Iterator[Captioned | None]:
    for each in found.found:
        name = "-".join(("disparity", *own.key, each.name))
        yield own.picture(name, f"{each.title}: {_FIGURE}")


def _of_measures(own: Results, found: CombinedDisparity) -> Captioned | None:
    """Lay out the answer of each measure, with the group that lies farthest from the others."""
    answers = {each.name: each for each in found.answers}
    rows = [each.farthest for each in found.answers]

    def answer(row: PlacedRow) -> MeasureAnswer:
        return answers[str(row["outcome"])]

    return own.table(
        "disparity",
        "the answer of each measure, and the group that is farthest from the others: D in the measure's unit. p is "
        "corrected for the groups of all measures",
        ShownColumn("measure", lambda row: answer(row).heading),
        ShownColumn("answer", lambda row: answer(row).said.words, words=True),
        ShownColumn("farthest", lambda row: named(row["group"]) if answer(row).differs else "", words=True),
        "disparity", "ci_low", "p_adjusted", "disparity_sd", ("share_lower", "lower in"), "n_narratives",
        ShownColumn("what next", lambda row: answer(row).said.step, words=True),
        rows=rows,
    )  # fmt: skip


def _by_turn(own: Results, found: CombinedDisparity) -> Captioned | None:
    """Lay out D of each group in each turn of a talk, for the measures that differ between groups in some turn."""
    headings = {each.name: each.heading for each in found.answers}
    rows = own.rows("turns")
    differing = {row["outcome"] for row in rows if row.number("disparity")}
    return own.table(
        "turns",
        "D of each group in each of the model's replies. Intervals are not corrected for the number of turns: the "
        "measures called change are what is tested",
        ShownColumn("measure", lambda row: headings.get(str(row["outcome"]), named(row["outcome"]))),
        "group", "turn", "mean", "disparity", "ci_low", "n_narratives", "note",
        rows=[row for row in rows if row["outcome"] in differing],
    )  # fmt: skip


def _by_group(found: CombinedDisparity) -> ShownTable:
    """Lay out D of every group in every measure that differs between them."""
    groups = list(dict.fromkeys(str(row["group"]) for each in found.answers for row in each.groups))
    return ShownTable(
        ("measure", *map(named, groups)),
        tuple(
            (each.heading, *(_cell(each, group) for group in groups)) for each in found.answers if each.differs
        ),
    )  # fmt: skip


def _cell(each: MeasureAnswer, group: str) -> str:
    row = next((row for row in each.groups if row["group"] == group), None)
    if row is None or not math.isfinite(row.number("disparity")):
        return MISSING
    number = show(row, "disparity", rounded(row))
    return Markup("<strong>{}</strong>").format(number) if row in each.said.found else number


def _each_measure(
    own: Results, found: CombinedDisparity, invented: Sequence[PlacedRow], *, room: int
) -> Iterator[Block | None]:
    """Yield the sections of single measures that fit on the page: those of the smallest p."""
    varying = [each for each in found.answers if each.differs]
    chosen: set[str] = set()
    used = 0
    for each in sorted(varying, key=lambda each: each.least_p):
        used += len(own.rows("disparity", outcome=each.name))
        if used > room and chosen:
            break
        chosen.add(each.name)
    yield paragraph(_left_out(varying, len(chosen)), "small")
    for each in varying:
        if each.name in chosen:
            beside = [row for row in invented if row["outcome"] == each.name]
            yield disparity_section(
                own, outcome=each.name, of="", measure=each.title, invented=beside, title=each.title, look="folded"
            )


def _left_out(varying: Sequence[MeasureAnswer], n_shown: int) -> Markup:
    rest = len(varying) - n_shown
    if not rest:
        return Markup("")
    return Markup("Shown: {} with the smallest p. The {} in <code>tables/disparity.csv</code>.").format(
        plural(n_shown, "measure"), f"{count(rest)} {either(rest, 'other is', 'others are')}"
    )
