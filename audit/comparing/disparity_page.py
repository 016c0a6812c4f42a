"""Who gets less, on the page of a comparison: each run's answer as on its own page, and what differs between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.comparing.page import SHOWN_ROWS, counted_alike
from audit.report.disparities import (
    DISPARITY_MEANING,
    DisparitySentence,
    answer_in_words,
    limits_in_words,
    who_gets_less,
    without_reasons,
)
from audit.report.numbers import PlacedRow, rows_of, show
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Captioned, Card, Paragraph, Section, paragraph, present, section
from audit.report.summary import NONE_LESS, WORDS_DIFFER, ShortAnswer
from audit.report.table_layout import ShownColumn, names
from audit.tables.formatting import bare_p, brief, dimension_title, plural, printable, unsigned

TAIL: Final = ": who gets less?"
"""What follows a dimension's name where a page answers whose side a model takes, too."""
LOWER: Final = ("lower", "higher")
"""Codes of what is shown."""
_ORDER: Final = ("absent", "gap", "within", "none", "undecided")
"""Kinds of answers, in the order in which they are counted."""
_NAMED: Final = 2
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
    rows: Sequence[PlacedRow]  # of the table ``disparity``
    changes: Sequence[PlacedRow]  # of the table ``disparity_changes``

    @property
    def title(self) -> str:
        """The dimension, as pages name it."""
        return dimension_title(self.dimension)

    @property
    def found(self) -> list[PlacedRow]:
        """The changes that are shown, the largest first."""
        shown = [row for row in self.changes if row["code"] in LOWER]
        return sorted(shown, key=lambda row: -abs(row.number("disparity_change")))

    @property
    def counted(self) -> Markup:
        """How many runs give each answer, without reasons."""
        said = sorted(self.by_run.values(), key=lambda each: _ORDER.index(each.kind))
        return counted_alike(map(without_reasons, said))

    @property
    def farthest(self) -> Markup:
        """The group that lies farthest from the others in any run, of those that are shown to."""
        known = [(run, said, said.row) for run, said in self.by_run.items() if said.found and said.row is not None]
        if not known:
            return Markup("")
        run, said, row = max(known, key=lambda each: abs(each[2].number("disparity")))
        return Markup("D of <bdi>{}</bdi>: {} {} ({}), in <bdi>{}</bdi>").format(
            brief(str(row["group"])), said.number, row["unit"], said.interval, brief(run)
        )

    def short(self) -> ShortAnswer:
        """Return the answer for the first screen."""
        kinds = [each.kind for each in self.by_run.values()]
        kind = kinds[0] if len(set(kinds)) == 1 else "gap" if "gap" in kinds else "undecided"
        n_found = sum(bool(each.found) for each in self.by_run.values())
        return ShortAnswer(
            self.title, self.counted, spread=self.farthest, kind=kind, tail=TAIL, weight=n_found, question="less"
        )

    def card(self) -> Card:
        """Return the answer beneath the first screen."""
        lead = Markup("Answers of {}, as on their own pages: {}.").format(plural(len(self.by_run), "run"), self.counted)
        return Card(
            self.title,
            present(Paragraph(lead, "verdict"), paragraph(changed([self])), Paragraph(DISPARITY_MEANING, "small")),
            tail=TAIL,
        )


def answers_of(results: Results) -> list[DimensionAnswers]:
    """Return who gets less in each dimension, as the runs' own pages say it."""
    made = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in results.rows("disparity")):
        rows = results.rows("disparity", dimension=dimension)
        by_run = {
            run: who_gets_less([row for row in rows if row["run"] == run], confidence=results.confidence)
            for run in dict.fromkeys(str(row["run"]) for row in rows)
        }
        changes = results.rows("disparity_changes", dimension=dimension)
        made.append(DimensionAnswers(dimension, by_run, rows, changes))
    return made


def changed(answers: Sequence[DimensionAnswers]) -> Markup:
    """Say which groups get less in one run than in another; empty if no two runs could be compared."""
    found = [(each, row) for each in answers for row in each.found]
    tested = [row for each in answers for row in each.changes if row["code"] in (*LOWER, "not_shown", "undecided")]
    if not tested:
        return Markup("")
    if not found:
        return Markup("no group’s D was shown to differ between runs; that does not show that none does.")
    several = len(answers) > 1
    said = Markup("; ").join(_of_change(row, f" ({each.title})" if several else "") for each, row in found[:_NAMED])
    rest = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return Markup("{}{} (p corrected).").format(said, rest)


def _of_change(row: PlacedRow, where: str) -> Markup:
    words = ", in these words" if row["claim"] == "words" else ""
    return Markup("<bdi>{}</bdi>{}: D {} in <bdi>{}</bdi> than in <bdi>{}</bdi> by {} {}{}, p {}").format(
        brief(str(row["group"])), where, row["code"], brief(str(row["first"])), brief(str(row["second"])),
        show(row, "disparity_change", lambda value: unsigned(abs(value))), row["unit"], words,
        show(row, "p_adjusted", bare_p),
    )  # fmt: skip


def left_open(answers: Sequence[DimensionAnswers]) -> list[str]:
    """Return what does not follow from who gets less."""
    said = [each for own in answers for each in own.by_run.values()]
    open_ones = any(each.kind == "undecided" for each in said)
    words = any(row["claim"] == "words" for each in said for row in each.found)
    return [
        *([NONE_LESS] if open_ones else []),
        *([WORDS_DIFFER] if words else []),
    ]


def less_section(results: Results, answers: Sequence[DimensionAnswers]) -> Section:
    """Show each run's answer and groups, and the paired changes, dimension by dimension."""
    return page_section(
        "less", "Who gets less?", "Who gets less?",
        Paragraph("Each run's answer is that of its own page, with the settings of this comparison."),
        *(_of_dimension(results, each) for each in answers),
    )  # fmt: skip


def _of_dimension(results: Results, own: DimensionAnswers) -> Section | None:
    first = {run: next(row for row in own.rows if row["run"] == run) for run in own.by_run}
    shown = own.found
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
        _changes(results, f"Shown to differ between runs, {own.title}", shown),
        paragraph(_ABOUT_CHANGES, "small") if own.changes else None,
        section(
            "Every group of every run, and every pair of runs",
            results.table(
                "disparity", f"Each group against the others, {own.title}",
                names("group", "group"), names("run", "run"), ShownColumn("answer", answer_in_words, words=True),
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
        names("group", "group"), names("first", "first", words=True), names("second", "second", words=True),
        ShownColumn("first against second", answer_in_words, words=True), ("disparity_first", "D, first"),
        ("disparity_second", "D, second"), ("disparity_change", "change"), "ci_low", "p_adjusted", "unit",
        "n_narratives", ShownColumn("what limits it", limits_in_words, words=True), "note",
        rows=rows,
    )  # fmt: skip


def _said(
    head: str, own: DimensionAnswers, of: Callable[[DisparitySentence], Markup], *, words: bool = True
) -> ShownColumn:
    """Return a column of what is said of a row's run."""
    return ShownColumn(head, lambda row: of(own.by_run[str(row["run"])]), words=words)


def disparity_lines(disparity: pd.DataFrame, *, confidence: float) -> Iterator[str]:
    """Yield for each run and dimension a line that says who gets less."""
    rows = rows_of(disparity, "disparity")
    for run, dimension in dict.fromkeys((str(row["run"]), str(row["dimension"])) for row in rows):
        own = [row for row in rows if (row["run"], row["dimension"]) == (run, dimension)]
        words = who_gets_less(own, confidence=confidence).words.striptags()
        yield f"who gets less? {printable(run)}, {dimension_title(dimension)}: {printable(words)}"
