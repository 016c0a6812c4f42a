"""Who gets less, on the page of a comparison: each run's answer as on its own page, and what differs between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.comparing.page import SHOWN_ROWS, folded_page
from audit.comparing.pair_answers import GROUPS, largest_first
from audit.report.disparities import (
    DISPARITY_MEANING,
    DisparitySentence,
    answer_in_words,
    limits_in_words,
    who_gets_less,
    who_is_refused,
)
from audit.report.numbers import PlacedRow
from audit.report.results import Results
from audit.report.section import Captioned, Paragraph, Section, bullets, paragraph, section
from audit.report.table_layout import ShownColumn, names
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import brief, dimension_title

_ABOUT_CHANGES: Final = (
    "Two runs on the same narratives are compared narrative by narrative: D of a group in the first run minus D in the "
    "second. An interval counts what words, or labels of invented groups, differ by in either run; the corrected p "
    "(Holm) is for all groups and pairs of runs of the dimension. Shown is only what holds wherever missing ratings "
    "lie, and not because another group's D differs. Of runs whose own page gives no answer nothing is said."
)


@dataclass(frozen=True)
class DimensionAnswers:
    """Who gets less in one dimension, in each run that compared its groups."""

    dimension: str
    by_run: Mapping[str, DisparitySentence]
    refused: Mapping[str, DisparitySentence]  # who is refused more, in the runs in which that is shown
    rows: Sequence[PlacedRow]  # of the table ``disparity``
    changes: Sequence[PlacedRow]  # of the table ``disparity_changes``

    @property
    def title(self) -> str:
        """The dimension, as pages name it."""
        return dimension_title(self.dimension)


def answers_of(results: Results) -> list[DimensionAnswers]:
    """Return who gets less in each dimension, as the runs' own pages say it."""
    made = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in results.rows("disparity")):
        every = results.rows("disparity", dimension=dimension)
        rows = [row for row in every if row["outcome"] != REFUSALS]
        by_run = {
            run: who_gets_less([row for row in rows if row["run"] == run], confidence=results.confidence)
            for run in dict.fromkeys(str(row["run"]) for row in rows)
        }
        changes = results.rows("disparity_changes", dimension=dimension)
        refused = {
            run: said
            for run in by_run
            if (said := who_is_refused([row for row in every if row["run"] == run], confidence=results.confidence))
        }
        made.append(DimensionAnswers(dimension, by_run, refused, every, changes))
    return made


def less_section(results: Results, answers: Sequence[DimensionAnswers]) -> Section | None:
    """Show each run's answer and groups, and the paired changes, dimension by dimension."""
    return folded_page(
        "less", "Who gets less?", "Who gets less, in each run and between runs",
        Paragraph(DISPARITY_MEANING, "small"),
        Paragraph("Each run's answer is that of its own page, with the settings of this comparison."),
        *(_of_dimension(results, each) for each in answers),
    )  # fmt: skip


def _of_dimension(results: Results, own: DimensionAnswers) -> Section | None:
    first = {run: next(row for row in own.rows if row["run"] == run) for run in own.by_run}
    refused = [Markup("<bdi>{}</bdi>: {}.").format(brief(run), said.words) for run, said in own.refused.items()]
    shown = largest_first(own.changes, GROUPS)
    rest = [row for row in own.changes if row not in shown]
    many = f": the first {SHOWN_ROWS} of {len(rest)}; all are in tables/disparity_changes.csv"
    return section(
        Markup("<bdi>{}</bdi>").format(own.title),
        results.table(
            "disparity", f"Who gets less in each run, {own.title}",
            names("run", "run"), _said("who gets less", own, lambda said: said.words),
            _said("D, points", own, lambda said: said.number, words=False),
            _said("interval", own, lambda said: said.spread),
            _said("p", own, lambda said: said.facts), _said("size", own, lambda said: said.size),
            rows=list(first.values()),
        ),
        bullets(refused),
        _changes(results, f"Shown to differ between runs, {own.title}", shown),
        paragraph(_ABOUT_CHANGES, "small") if own.changes else None,
        section(
            "Every group of every run, and every pair of runs",
            results.table(
                "disparity", f"Each group against the others, {own.title}",
                names("group", "group"), names("run", "run"), _what(own.rows),
                ShownColumn("answer", answer_in_words, words=True),
                "disparity", "ci_low", "p_adjusted", "percent_of_scale",
                ("share_lower", "lower in"), "n_narratives",
                ShownColumn("what limits it", limits_in_words, words=True), "note",
                rows=sorted(own.rows, key=lambda row: str(row["group"])),
            ),
            _changes(results, f"Not shown to differ, {own.title}{many if len(rest) > SHOWN_ROWS else ''}",
                     rest[:SHOWN_ROWS]),
            look="folded",
        ),
    )  # fmt: skip


def _changes(results: Results, caption: str, rows: Sequence[PlacedRow]) -> Captioned | None:
    return results.table(
        "disparity_changes", caption,
        names("group", "group"), _what(rows),
        names("first", "first", words=True), names("second", "second", words=True),
        ShownColumn("first against second", answer_in_words, words=True), ("disparity_first", "D, first"),
        ("disparity_second", "D, second"), ("disparity_change", "change"), "ci_low", "p_adjusted", "unit",
        "n_narratives", ShownColumn("what limits it", limits_in_words, words=True), "note",
        rows=rows,
    )  # fmt: skip


def _what(rows: Sequence[PlacedRow]) -> ShownColumn:
    """Return a column that tells refusals from ratings, if there are both."""
    several = len({row["outcome"] for row in rows}) > 1
    of = {REFUSALS: "refusals", "intensity": "ratings"}
    return ShownColumn("of", lambda row: of[str(row["outcome"])] if several else "", words=True)


def _said(
    head: str, own: DimensionAnswers, of: Callable[[DisparitySentence], Markup], *, words: bool = True
) -> ShownColumn:
    """Return a column of what is said of a row's run."""
    return ShownColumn(head, lambda row: of(own.by_run[str(row["run"])]), words=words)
