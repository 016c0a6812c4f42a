"""The first screen of a questionnaire: how many differences between groups are found, and what does not follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.glance import mark, marks
from audit.report.manifest import ManifestView
from audit.report.numbers import PlacedRow, show, show_interval
from audit.report.results import Results
from audit.report.run_page import source_of
from audit.report.section import Paragraph
from audit.report.summary import CHANGED, ShortAnswer, Summary, summary
from audit.tables.formatting import OF_GROUPS_AND_MODELS, brief, count, either, magnitude, plural, points

_DRAWN: Final = 6  # differences that the picture has room for
_NAMED: Final = 4  # most differences named in a sentence
_OTHERS: Final = "other groups"
NOT_ALIKE: Final = "that groups are alike because no difference was found"
NOT_UNMOVED: Final = "that situations change nothing because no change was found"
LIMITS: Final = {
    "accepted": "Files that were changed",
    "unfinished": "The run is not finished",
    "no_answer": "No answer",
    "many_missing": "Many missing answers",
    "number_mass": "Low number mass",
    "few_narratives": "Few situations",
}


def summary_of_answers(
    parts: Mapping[str, Results], *, name: str, scale: str, affect: bool, limits: Sequence[Limit], view: ManifestView
) -> Summary:
    """Write the first screen: differences between groups that remain, the largest one, and what does not follow."""
    alpha = 1 - view.confidence
    findings, largest, n_open, answered = [], None, 0, False
    for anchor, own in parts.items():
        compared = [*own.rows("inventory_differences"), *own.rows("affect_differences")]
        tested = _tested(against(compared, baselines=False))
        found = _remaining(tested, "difference", alpha=alpha)
        n_open += len(tested) - len(found)
        answered |= any(row["n_rated"] for row in own.rows("inventory_outcomes"))
        words, spread, kind = "No difference between groups could be tested", Markup(""), "absent"
        if tested:
            told = count(len(found)) if found else "None"
            of_all = plural(len(tested), "difference")
            words = f"{told} of {of_all} between a group and the others {either(len(found), 'was', 'were')} found"
            kind = "gap" if found else "undecided"
        if found:
            row = found[0]
            largest = row if largest is None or abs(row["difference"]) > abs(largest["difference"]) else largest
            spread = Markup("Largest found: <bdi>{}</bdi> <strong>{}</strong> points, {} interval {}").format(
                _whose(row), show(row, "difference", points), own.level, show_interval(row)
            )
        rest = sorted((row for row in tested if row not in found), key=lambda row: -abs(row["difference"]))
        drawn = [mark(row, "difference", _whose(row).rstrip(":"), found=row in found) for row in (*found, *rest)]
        findings.append(
            ShortAnswer(own.title, words, spread=spread, kind=kind, anchor=anchor, weight=len(found),
                        marks=marks(*drawn)[:_DRAWN])
        )  # fmt: skip
    size = Markup("")
    if largest is not None:
        words_of = Markup("the largest found is {} points on an item scale of {}.")
        size = words_of.format(show(largest, "difference", magnitude), scale)
    tested = [row for own in parts.values() for row in _tested(own.rows("affect_groups"))]
    varies = Markup("")
    denied = [CHANGED] if any(limit.title == LIMITS["accepted"] for limit in limits) else []
    if n_open or any(finding.kind == "absent" for finding in findings):
        denied.append(NOT_ALIKE)
    if tested:
        found = _remaining(tested, "change", alpha=alpha)
        told = count(len(found)) if found else "none"
        varies = Markup("of {} from default to evoked, {} {} found.").format(
            plural(len(tested), "change"), told, either(len(found), "was", "were")
        )
        if len(found) < len(tested):
            denied.append(NOT_UNMOVED)
    # It was asked even if it gave no answer.
    asked = Markup(
        "<bdi>{}</bdi> was asked to speak as one person and to fill in the questionnaire “<bdi>{}</bdi>”{}{}."
    ).format(
        view.model, name, ", as it is and in situations to imagine" if affect else "",
        "" if answered else "; it gave no answer that could be read",
    )  # fmt: skip
    return summary(
        asked,
        findings,
        [("How big", size), ("How it varies", varies)],
        not_concluded=[*denied, "what the model is like or feels", OF_GROUPS_AND_MODELS],
        limits=limits,
        source=source_of(view),
        chosen_by="how many differences were found",
    )


def _remaining(tested: Sequence[PlacedRow], column: str, *, alpha: float) -> list[PlacedRow]:
    """Return the rows significant after correction, the largest first."""
    return sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row[column]))


def _tested(rows: Sequence[PlacedRow]) -> list[PlacedRow]:
    return [row for row in rows if math.isfinite(row.number("p_adjusted"))]


def leads(own: Results) -> Iterator[Paragraph]:
    """Yield what was found in one dimension and variant, a paragraph for each kind of comparison."""
    alpha = 1 - own.confidence
    between = against(own.rows("inventory_differences"), baselines=False)
    yield _lead(between, "difference", "Differences between a group and the others", alpha=alpha)
    if changes := own.rows("affect_groups"):
        yield _lead(changes, "change", "Changes from default to evoked", alpha=alpha)
    if moved := against(own.rows("affect_differences"), baselines=False):
        what = "Differences between a group and the others in evoked scores"
        yield _lead(moved, "difference", what, alpha=alpha)


def _lead(rows: Sequence[PlacedRow], column: str, what: str, *, alpha: float) -> Paragraph:
    """Say how many rows remain after correction, and which are the largest."""
    tested = _tested(rows)
    if not tested:
        return Paragraph(Markup("{}: none could be tested.").format(what), "lead")
    shown = _remaining(tested, column, alpha=alpha)
    of_all = Markup("{}: {} tested").format(what, count(len(tested)))
    if not shown:
        none = "{}, none remains after correction for their number. There may still be one."
        return Paragraph(Markup(none).format(of_all), "lead")
    said = Markup("; ").join(
        Markup("<bdi>{}</bdi> {} ({})").format(_whose(row), show(row, column, points), show_interval(row))
        for row in shown[:_NAMED]
    )
    first = "" if len(shown) <= _NAMED else f" The {_NAMED} largest:"
    words = Markup("{}, {} {} after correction for their number.{} {}.").format(
        of_all, count(len(shown)), "remains" if len(shown) == 1 else "remain", first, said
    )
    return Paragraph(words, "lead")


def _whose(row: PlacedRow) -> str:
    kind = f" in {row['narratives']} situations" if "narratives" in row else ""
    return f"{brief(str(row['perceiver_group']))}, {brief(str(row['subscale']))}{kind}:"


def against(rows: Sequence[PlacedRow], *, baselines: bool = True) -> list[PlacedRow]:
    """Return the differences from baselines, or else those between groups."""
    return [row for row in rows if (row["compared_with"] != _OTHERS) == baselines]
