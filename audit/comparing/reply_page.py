"""The page of a comparison of replies: the change of each measure's gap, and of the replies themselves.

Like a run's report it is self-contained and escaped, has no script except for the table of contents, and links every
number to its place in ``tables/``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.comparing.first_screen import in_pairs, summary_of_changes
from audit.comparing.page import run_facts
from audit.comparing.paper_table import PaperTable, told_columns, with_interval
from audit.comparing.tables import REPLY_RUNS
from audit.report.effect_size import reach_in_sd
from audit.report.manifest import ExampleView
from audit.report.numbers import PlacedRow, rounded, rows_of, show, show_rounded_interval
from audit.report.page import picture, render_page
from audit.report.section import (
    Bullets,
    Captioned,
    Card,
    Note,
    Paragraph,
    Section,
    bullets,
    captioned,
    present,
    section,
)
from audit.report.table_layout import ShownColumn, ShownTable, number_column, speaks_of, statistics_table, text
from audit.report.tables import measure_controls_table
from audit.tables.formatting import (
    MISSING,
    bare_p,
    brief,
    count,
    coverage,
    dimension_title,
    error_rate,
    interval,
    mean_count,
    percentage_points,
    plural,
    points,
    rate,
    unsigned,
)
from audit.tables.replies import ReplyStatus
from audit.tasks.task_words import TaskWords

_SHOWN_CHANGES: Final = 6
"""Most changes named in an answer; the tables have the others."""
_SHOWN_SECTIONS: Final = 24
"""Most sections of changes, one for each run and dimension; the file has all."""
_SHOWN_BESIDE: Final = 8
"""Most runs side by side in a table."""
_SHOWN_ROWS: Final = 200
"""Most rows on the page of the table for a paper; its files have all."""
_STATUSES: Final = tuple(status for status in ReplyStatus if status != ReplyStatus.WRITTEN)
_DECIDING: Final = (
    "what decides whether a gap is one between groups, run by run. Without a word in common: δ of pairs that repeat "
    "nothing. Real minus invented groups: how far δ goes beyond that of groups of which the model can know nothing"
)


def render_reply_comparison(
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    paper: PaperTable,
    words: TaskWords,
    remarks: Sequence[str],
    left_out: Sequence[str],
    confidence: float,
    command: str,
    example: ExampleView | None = None,
) -> str:
    """Render the page of a comparison of runs of replies, as HTML that can be encoded as UTF-8.

    Parameters
    ----------
    tables
        The tables of ``tables.REPLY_COMPARISON_TABLES`` by name, indexed from 0 as they are written.
    figures
        SVG by name: ``changes-<dimension>-<place of the run, from 1>``. Missing figures are left out.
    left_out
        Runs that were asked for and failed, in words.
    command
        Makes the page again.
    example
        A prompt of the first run.
    """
    level = coverage(confidence)
    runs = rows_of(tables["runs"], "runs")
    shared, different, hashes = run_facts(runs, list(REPLY_RUNS))
    changes = rows_of(tables["measure_changes"], "measure_changes")
    scored = tables["measures"].loc[tables["measures"]["status"] == "scored"]
    titles = dict(zip(scored["measure"], scored["title"], strict=True))
    sections = list(_sections(changes, figures, titles, [str(row["run"]) for row in runs], confidence=confidence))
    n_rows = len(paper.table.rows)
    return render_page(
        "reply_comparison.html.j2",
        words=words,
        summary=summary_of_changes(runs, changes, titles, words=words, confidence=confidence),
        example=example,
        answers=[
            _answer([row for row in changes if row["dimension"] == dimension], titles, confidence=confidence)
            for dimension in dict.fromkeys(row["dimension"] for row in changes)
        ],
        n_runs=len(runs),
        references=_of_references(changes),
        sections=sections[:_SHOWN_SECTIONS],
        n_sections=len(sections),
        costs=[
            Captioned(
                _costs_table(rows_of(own, "reply_costs")),
                f"{dimension_title(str(dimension))}: what became of the prompts between identities, and in brackets "
                "the change against the reference, in percentage points; what a reply takes",
            )
            for dimension, own in tables["reply_costs"].groupby("dimension", sort=False)
        ],
        beside=present(
            *_beside(tables["gap"], titles, level=level),
            *_controls(tables["controls"], titles, level=level),
        ),
        n_beside=_SHOWN_BESIDE,
        missing=_missing(tables["measures"]),
        paper=paper,
        shown_paper=ShownTable(paper.table.head, paper.table.rows[:_SHOWN_ROWS], words=paper.table.words),
        caption=paper.caption + (f" The first {_SHOWN_ROWS} of {n_rows} rows." if n_rows > _SHOWN_ROWS else ""),
        shared=shared,
        different=different,
        hashes=hashes,
        notes=[Note(Markup("<bdi>{}</bdi>").format(text)) for text in remarks],
        left_out=[Note(Markup("<bdi>{}</bdi>").format(text), "Left out") for text in left_out],
        level=level,
        command=command,
    )  # fmt: skip


def changes_paper(tables: Mapping[str, pd.DataFrame], told: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the table for a paper: the change against the reference, one row for each run, dimension and measure.

    ``told`` has runs in rows, by label, and a column for each thing that sets them apart.
    """
    level = coverage(confidence)
    rows = rows_of(tables["measure_changes"], "measure_changes")
    return PaperTable(
        statistics_table(
            [row for row in rows if math.isfinite(row.number("p"))],
            *told_columns(told),
            text("against", "reference"),
            ShownColumn("dimension", lambda row: dimension_title(str(row["dimension"])), words=True),
            text("measure", "outcome"),
            ShownColumn("δ of the reference", lambda row: show(row, "reference_delta", rounded(row))),
            ShownColumn("δ", lambda row: show(row, "delta", rounded(row))),
            ShownColumn(
                f"change of δ [{level} CI]", lambda row: _with_interval(row, "delta_change", "ci_low", "ci_high")
            ),
            number_column("in SD", "change_sd", points),
            number_column("p", "p", bare_p),
            number_column("p, corrected", "p_adjusted", bare_p),
            speaks_of("scope"),
            ShownColumn(
                f"change of the mean [{level} CI]",
                lambda row: _with_interval(row, "mean_change", "mean_low", "mean_high"),
            ),
            number_column("n narratives", "n_narratives", count),
        ),
        "δ is in-group minus out-group, in the measure's unit, on the narratives that run and reference share; its "
        f"change is paired by narrative, with its {level} interval, which counts groups' spread where it "
        "speaks of groups, and in standard deviations of the reference's "
        "scored replies. p is two-sided; corrected is Holm over all measures and runs of the dimension. Beside it the "
        "change of the measure's mean over all pairs. Intervals are not corrected. Changes without a test are left "
        "out; units are in tables/measures.csv.",
    )


def _with_interval(row: PlacedRow, name: str, low: str, high: str) -> Markup:
    return with_interval(row, name, low, high, write=rounded(row, low, high))


def _controls(controls: pd.DataFrame, titles: Mapping[str, str], *, level: str) -> Iterator[Section | None]:
    """Yield, by dimension and run, the control that shows whether a gap is one between groups."""
    for dimension, own in controls.loc[controls["headline"].astype(bool)].groupby("dimension", sort=False):
        shown = own.loc[own["run"].isin(list(dict.fromkeys(own["run"]))[:_SHOWN_BESIDE])]
        title = dimension_title(str(dimension))
        yield section(
            f"{title}: groups or repeated words?",
            captioned(
                measure_controls_table(shown, lambda row: titles[str(row["outcome"])], level=level, titles=("run",)),
                f"{title}: {_DECIDING}",
            ),
            look="folded",
        )


def _of_references(changes: Sequence[PlacedRow]) -> list[tuple[str, str]]:
    """List each run with its reference, once."""
    return list(dict.fromkeys((str(row["run"]), str(row["reference"])) for row in changes))


def _answer(rows: Sequence[PlacedRow], titles: Mapping[str, str], *, confidence: float) -> Card:
    """Say which gaps change after correction, and in which direction; or what changes remain possible."""
    title = dimension_title(str(rows[0]["dimension"]))
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    if not tested:
        return _card(title, "absent", "Nothing could be tested", Markup("Why stands beside each measure below."))
    lead = Markup("Tested: {} of δ, of {} in {}, with p corrected for their number").format(
        plural(len(tested), "change"),
        plural(len({row["outcome"] for row in tested}), "measure"),
        plural(len({row["run"] for row in tested}), "run"),
    )
    if len(tested) < len(rows):
        lead += Markup("; {} more could not be tested").format(count(len(rows) - len(tested)))
    found = sorted(
        (row for row in tested if row.number("p_adjusted") < 1 - confidence), key=lambda row: row.number("p")
    )
    if not found:
        lead += Markup(". That none is found does not mean that there is none{}.").format(
            reach_in_sd(tested, level=coverage(confidence))
        )
        return _card(title, "undecided", "No change of a gap is found", lead)
    if len(found) > _SHOWN_CHANGES:
        lead += Markup("; below are the {} of the smallest p").format(_SHOWN_CHANGES)
    changes = (_change(row, titles, level=coverage(confidence)) for row in found[:_SHOWN_CHANGES])
    several = plural(len(found), "measure" if len({row["run"] for row in rows}) == 1 else "comparison")
    return _card(title, "gap", f"The gap changes in {several}", lead + ".", bullets(changes))


def _card(title: str, kind: str, verdict: str, lead: Markup, changes: Bullets | None = None) -> Card:
    return Card(title, present(Paragraph(verdict, "verdict"), Paragraph(lead, "lead"), changes), kind=kind)


def _change(row: PlacedRow, titles: Mapping[str, str], *, level: str) -> Markup:
    """Describe one change of a gap, and of the mean beside it."""
    write = rounded(row)
    sentence = Markup("<bdi>{}</bdi>, {} ({}): δ = <strong>{}</strong>, and {} in <bdi>{}</bdi>").format(
        row["run"], titles[row["outcome"]], row["unit"], show(row, "delta", write), show(row, "reference_delta", write),
        row["reference"],
    )  # fmt: skip
    sentence += Markup("; change{} {} ({} interval {})").format(
        in_pairs([row], "scope"), show(row, "delta_change", write), level, show_rounded_interval(row)
    )
    if not math.isfinite(row.number("mean_change")):
        return sentence + Markup(".")
    level_of = rounded(row, "mean_low", "mean_high", signed=False)
    return sentence + Markup(". Beside it, the mean over all pairs goes from {} to {} ({}).").format(
        show(row, "reference_mean", level_of),
        show(row, "mean", level_of),
        show(row, "mean_change", rounded(row, "mean_low", "mean_high")),
    )


def _sections(
    changes: Sequence[PlacedRow],
    figures: Mapping[str, bytes],
    titles: Mapping[str, str],
    labels: Sequence[str],
    *,
    confidence: float,
) -> Iterator[Section]:
    """Yield the changes, by dimension and run."""
    level = coverage(confidence)
    for dimension, run in dict.fromkeys((str(row["dimension"]), str(row["run"])) for row in changes):
        rows = [row for row in changes if (row["dimension"], row["run"]) == (dimension, run)]
        title, reference = dimension_title(dimension), str(rows[0]["reference"])
        drawn = f"changes-{dimension}-{labels.index(run) + 1}"
        alt = f"{title}, {run} against {reference}: {_described(rows, titles)}."
        notes: dict[str, list[str]] = {}
        for row in rows:
            if row["note"]:
                notes.setdefault(str(row["note"]), []).append(str(titles[row["outcome"]]))
        seen = [row for row in rows if _changes(row)]
        untested = ", ".join(titles[row["outcome"]] for row in rows if not _changes(row))
        where = f"{title}, {run}"
        content = present(
            captioned(
                picture(figures, drawn, alt),
                f"{where}: what changes in each measure's δ, and beside it in its mean over all pairs, in standard "
                f"deviations of the measure among the replies of {reference}. A filled mark has a corrected p below "
                f"{error_rate(confidence)}. A measure without a spread among these replies is in the tables alone.",
            ),
            captioned(
                _gaps_table(seen, titles, level=level),
                f"{where}: δ of each measure against {reference}, in the measure's unit",
            ),
            captioned(
                _means_table(seen, titles, level=level),
                f"{where}: mean of each measure over all pairs, against {reference}, in the measure's unit",
            ),
            Paragraph(f"Without any difference to be tested: {untested}.", "caption") if untested else None,
            section(
                "Notes on single measures",
                bullets(
                    (
                        Markup("<strong>{}</strong>: <bdi>{}</bdi>").format(", ".join(names), note)
                        for note, names in notes.items()
                    ),
                    "small",
                ),
                look="folded",
            ),
        )
        heading = Markup("<bdi>{}</bdi>: <bdi>{}</bdi> against <bdi>{}</bdi>").format(title, run, reference)
        yield Section(heading, content)


def _described(rows: Sequence[PlacedRow], titles: Mapping[str, str]) -> str:
    """Write the alternative text of a figure of changes."""
    said = [
        f"{titles[row['outcome']]}: {points(row.number('change_sd'))}"
        + (f", {interval(row['sd_ci_low'], row['sd_ci_high'])}" if math.isfinite(row.number("sd_ci_low")) else "")
        for row in rows
        if math.isfinite(row.number("change_sd"))
    ]
    return f"changes of δ in standard deviations, with a line at 0. {'; '.join(said)}"


def _gaps_table(rows: Sequence[PlacedRow], titles: Mapping[str, str], *, level: str) -> ShownTable:
    """Show both gaps of each measure, and their change."""
    return statistics_table(
        rows,
        ShownColumn("measure", lambda row: _named(row, titles)),
        ShownColumn("δ of the reference", lambda row: show(row, "reference_delta", rounded(row))),
        ShownColumn("δ", lambda row: show(row, "delta", rounded(row))),
        ShownColumn("change", lambda row: show(row, "delta_change", rounded(row))),
        ShownColumn(f"{level} interval", show_rounded_interval),
        number_column("in SD", "change_sd", points),
        number_column("p", "p", bare_p),
        number_column("p, corrected", "p_adjusted", bare_p),
        speaks_of("scope"),
        number_column("narratives", "n_narratives", count),
    )


def _means_table(rows: Sequence[PlacedRow], titles: Mapping[str, str], *, level: str) -> ShownTable:
    """Show both means of each measure, their change, and the numbers of replies."""

    def mean(row: PlacedRow, name: str, *, signed: bool = False) -> Markup:
        return show(row, name, rounded(row, "mean_low", "mean_high", signed=signed))

    return statistics_table(
        rows,
        ShownColumn("measure", lambda row: _named(row, titles)),
        ShownColumn("mean of the reference", lambda row: mean(row, "reference_mean")),
        ShownColumn("mean", lambda row: mean(row, "mean")),
        ShownColumn("change", lambda row: mean(row, "mean_change", signed=True)),
        ShownColumn(f"{level} interval", lambda row: show_rounded_interval(row, "mean_low", "mean_high")),
        number_column("in SD", "mean_sd", points),
        number_column("replies of the reference", "reference_answers", count),
        number_column("replies", "n_answers", count),
        number_column("without a number, of the reference", "reference_missing", count),
        number_column("without a number", "n_missing", count),
    )


def _named(row: PlacedRow, titles: Mapping[str, str]) -> Markup:
    return Markup('{}<br><span class="small">{}</span>').format(titles[row["outcome"]], row["unit"])


def _changes(row: PlacedRow) -> bool:
    """Whether a row has anything to show: a test, or numbers that differ between the runs."""
    numbers = (row.number("delta_change"), row.number("mean_change"))
    return math.isfinite(row.number("p")) or any(math.isfinite(number) and number != 0 for number in numbers)


def _costs_table(rows: Sequence[PlacedRow]) -> ShownTable:
    """Show how each run's prompts ended, and the cost of a reply."""
    names = [status for status in _STATUSES if any(row.number(f"{status}_share") for row in rows)]
    if ReplyStatus.REFUSED not in names:
        names.insert(0, ReplyStatus.REFUSED)
    return statistics_table(
        rows,
        ShownColumn("run", lambda row: str(row["run"])),
        number_column("prompts", "n_prompts", count),
        *(ShownColumn(status.value.replace("_", " "), partial(_share, status=status)) for status in names),
        number_column("calls", "n_calls", mean_count),
        number_column("tokens read by stages", "n_prompt_tokens", mean_count),
        number_column("written by stages", "n_tokens", mean_count),
        number_column("read by the question", "n_question_tokens", mean_count),
        number_column("of a reply", "n_reply_tokens", mean_count),
        number_column("shortened", "shortened_share", rate),
        number_column("seconds", "seconds", unsigned),
    )


def _share(row: PlacedRow, status: ReplyStatus) -> Markup:
    """Write a share, with its change in percentage points."""
    share = show(row, f"{status}_share", rate)
    if not math.isfinite(row.number(f"{status}_change")):
        return share
    return share + Markup(" ({})").format(show(row, f"{status}_change", percentage_points))


def _beside(gaps: pd.DataFrame, titles: Mapping[str, str], *, level: str) -> Iterator[Captioned]:
    """Yield a table of each measure's δ for each dimension, one column a run."""
    labels = list(dict.fromkeys(gaps["run"]))[:_SHOWN_BESIDE]
    narrow = gaps.loc[(gaps["scope"] == "narratives") & gaps["run"].isin(labels)]
    for dimension, own in narrow.groupby("dimension", sort=False):
        by_measure: dict[str, dict[str, PlacedRow]] = {}
        tested = set(own.loc[own["se"].notna(), "outcome"])
        for row in rows_of(own.loc[own["outcome"].isin(tested)], "gap"):
            by_measure.setdefault(str(row["outcome"]), {})[str(row["run"])] = row
        yield Captioned(
            ShownTable(
                ("measure", *(f"δ, {brief(label, at_most=60)} [{level} CI]" for label in labels)),
                tuple(
                    (
                        titles[measure],
                        *(
                            _with_interval(found[label], "delta", "ci_low", "ci_high") if label in found else MISSING
                            for label in labels
                        ),
                    )
                    for measure, found in by_measure.items()
                ),
            ),
            f"{dimension_title(str(dimension))}: δ of each measure, run by run",
        )


def _missing(measures: pd.DataFrame) -> list[tuple[str, str, str]]:
    """List what is not compared, in which runs and why, each reason once."""
    left = measures.loc[measures["note"].astype(bool)]
    titles: dict[tuple[str, str], list[str]] = {}
    for row in left.to_dict("records"):
        titles.setdefault((str(row["run"]), str(row["note"])), []).append(str(row["title"]))
    runs: dict[tuple[str, str], list[str]] = {}
    for (run, why), names in titles.items():
        runs.setdefault((", ".join(names), why), []).append(run)
    everywhere = measures["run"].nunique()
    return [(names, "all runs" if len(of) == everywhere else "; ".join(of), why) for (names, why), of in runs.items()]
