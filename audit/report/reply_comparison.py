"""Several runs of replies to one page: what changes in the gap of each measure, and in the replies at all.

The page is built as a run's report is: self-contained, without a script, everything escaped, and every number with its
place in ``tables/``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.comparison import facts_of
from audit.report.numbers import Row, rounded, rows_of, show, show_rounded_interval
from audit.report.page import Picture, asset, encodable, environment, picture, policy
from audit.report.paper_table import PaperTable, with_interval
from audit.report.tables import Table, measure_controls_table
from audit.report.words import TaskWords
from audit.tables.replies import ReplyStatus
from audit.tables.reply_comparison import REPLY_RUNS
from audit.wording import (
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

_SHOWN_CHANGES: Final = 6
"""Changes that an answer names; the others stand in the tables."""
_SHOWN_SECTIONS: Final = 24
"""Runs and dimensions whose changes the page has; the file has all."""
_SHOWN_BESIDE: Final = 8
"""Runs that stand beside each other in one table."""
_SHOWN_ROWS: Final = 200
"""Rows of the table to paste that the page shows; its files have all."""
_COUNTED: Final = ("reference_replies", "n_replies", "reference_missing", "n_missing")
_STATUSES: Final = tuple(status for status in ReplyStatus if status != ReplyStatus.WRITTEN)


@dataclass(frozen=True, slots=True)
class Answer:
    """What changes in one dimension.

    Attributes
    ----------
    title
        The dimension.
    kind
        ``gap`` where a gap changes, else ``undecided``, or ``absent`` where nothing could be tested.
    verdict, lead
        The same in words, and what stands behind it.
    changes
        The changes that remain after correction, those of the smallest p.
    """

    title: str
    kind: str
    verdict: str
    lead: Markup
    changes: tuple[Markup, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """What changes between one run and its reference in one dimension.

    Attributes
    ----------
    title, run, reference
        The dimension, and the two runs.
    figure
        The changes of gaps and of means, if there were any to draw.
    gaps, means
        The measures in which there is anything to see.
    untested
        The others, by title.
    notes
        Titles of measures, and what is to be known of them.
    """

    title: str
    run: str
    reference: str
    figure: Picture | None
    gaps: Table
    means: Table
    untested: str
    notes: tuple[tuple[str, str], ...]


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
) -> str:
    """Render the page of a comparison of runs of replies.

    Parameters
    ----------
    tables
        The tables of ``tables.REPLY_COMPARISON_TABLES`` by name, as they are written (indexed from 0).
    figures
        SVG by name: ``changes-<dimension>-<place of the run, from 1>``. An absent figure is left out.
    paper
        The table to paste.
    words
        What is said of the runs' task.
    remarks
        What limits the comparison, in words.
    left_out
        Runs that were asked for and have come to nothing, in words.
    confidence
        Coverage of the intervals.
    command
        What to type to make the page again.

    Returns
    -------
    str
        A whole HTML document, encodable as UTF-8.
    """
    level = coverage(confidence)
    runs = rows_of(tables["runs"], "runs")
    shared, different, hashes = facts_of(runs, list(REPLY_RUNS))
    changes = rows_of(tables["measure_changes"], "measure_changes")
    scored = tables["measures"].loc[tables["measures"]["status"] == "scored"]
    titles = dict(zip(scored["measure"], scored["title"], strict=True))
    sections = list(_sections(changes, figures, titles, [str(row["run"]) for row in runs], level=level))
    n_rows = len(paper.table.rows)
    page = environment().get_template("reply_comparison.html.j2").render(
        words=words,
        answers=[
            _answer([row for row in changes if row["dimension"] == dimension], titles, confidence=confidence)
            for dimension in dict.fromkeys(row["dimension"] for row in changes)
        ],
        n_runs=len(runs),
        references=_of_references(changes),
        sections=sections[:_SHOWN_SECTIONS],
        n_sections=len(sections),
        costs=[
            (dimension_title(str(dimension)), _costs_table(rows_of(own, "reply_costs")))
            for dimension, own in tables["reply_costs"].groupby("dimension", sort=False)
        ],
        beside=list(_beside(tables["measure_gap_all"], titles, level=level)),
        n_beside=_SHOWN_BESIDE,
        controls=list(_controls(tables["measure_controls"], titles, level=level)),
        missing=_missing(tables["measures"]),
        paper=Table(paper.table.head, paper.table.rows[:_SHOWN_ROWS], words=paper.table.words),
        caption=paper.caption + (f" The first {_SHOWN_ROWS} of {n_rows} rows." if n_rows > _SHOWN_ROWS else ""),
        markdown=paper.markdown(),
        latex=paper.latex(),
        shared=shared,
        different=different,
        hashes=hashes,
        remarks=remarks,
        left_out=left_out,
        level=level,
        alpha=error_rate(confidence),
        command=command,
        style=asset("style.css"),
        policy=policy(),
    )  # fmt: skip
    return encodable(page)


def changes_paper(tables: Mapping[str, pd.DataFrame], told: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the table to paste: a row a run, dimension and measure, with its change against the reference.

    Parameters
    ----------
    tables
        The tables of ``tables.REPLY_COMPARISON_TABLES`` by name.
    told
        Runs in rows, by label; what sets them apart in columns, each headed by its name.
    confidence
        Coverage of the intervals.
    """
    level = coverage(confidence)
    rows = rows_of(tables["measure_changes"], "measure_changes")
    head = (
        *map(str, told.columns),
        "against",
        "dimension",
        "measure",
        "δ of the reference",
        "δ",
        f"change of δ [{level} CI]",
        "in SD",
        "p",
        "p, corrected",
        f"change of the mean [{level} CI]",
        "n narratives",
    )
    n_words = len(told.columns)
    return PaperTable(
        Table(
            head,
            tuple(
                (
                    *told.loc[row["run"]],
                    str(row["reference"]),
                    dimension_title(str(row["dimension"])),
                    str(row["measure"]),
                    show(row, "reference_delta", rounded(row)),
                    show(row, "delta", rounded(row)),
                    _with_interval(row, "delta_change", "ci_low", "ci_high"),
                    show(row, "change_sd", points),
                    show(row, "p", bare_p),
                    show(row, "p_adjusted", bare_p),
                    _with_interval(row, "mean_change", "mean_low", "mean_high"),
                    show(row, "n_narratives", count),
                )
                for row in rows
                if math.isfinite(row.number("p"))
            ),
            words=frozenset(range(1, n_words + 3)),
        ),
        "δ is in-group minus out-group, in the measure's unit, on the narratives that run and reference share; its "
        f"change is paired by narrative, with its {level} interval, and in standard deviations of the reference's "
        "scored replies. p is two-sided; corrected is Holm over all measures and runs of the dimension. Beside it the "
        "change of the measure's mean over all pairs. Intervals are not corrected. Changes without a test are left "
        "out; units are in tables/measures.csv.",
    )


def _with_interval(row: Row, name: str, low: str, high: str) -> Markup:
    return with_interval(row, name, low, high, write=rounded(row, low, high))


def _controls(controls: pd.DataFrame, titles: Mapping[str, str], *, level: str) -> Iterator[tuple[str, Table]]:
    """Lay out, by dimension, the control that decides whether a gap is one between groups, run by run."""
    for dimension, own in controls.loc[controls["headline"].astype(bool)].groupby("dimension", sort=False):
        shown = own.loc[own["run"].isin(list(dict.fromkeys(own["run"]))[:_SHOWN_BESIDE])]
        made = measure_controls_table(shown, lambda row: titles[str(row["measure"])], level=level, titles=("run",))
        if made is not None:
            yield dimension_title(str(dimension)), made


def _of_references(changes: Sequence[Row]) -> list[tuple[str, str]]:
    """List which run is held against which, once each."""
    return list(dict.fromkeys((str(row["run"]), str(row["reference"])) for row in changes))


def _answer(rows: Sequence[Row], titles: Mapping[str, str], *, confidence: float) -> Answer:
    """Say which gaps change after correction, and which way; or what changes the intervals leave possible."""
    title = dimension_title(str(rows[0]["dimension"]))
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    if not tested:
        return Answer(title, "absent", "Nothing could be tested", Markup("Why stands beside each measure below."))
    lead = Markup("Tested: {} of δ, of {} in {}, with p corrected for their number").format(
        plural(len(tested), "change"),
        plural(len({row["measure"] for row in tested}), "measure"),
        plural(len({row["run"] for row in tested}), "run"),
    )
    if len(tested) < len(rows):
        lead += Markup("; {} more could not be tested").format(count(len(rows) - len(tested)))
    found = sorted(
        (row for row in tested if row.number("p_adjusted") < 1 - confidence), key=lambda row: row.number("p")
    )
    if not found:
        lead += Markup(". That none is found does not mean that there is none{}.").format(
            _reach(tested, level=coverage(confidence))
        )
        return Answer(title, "undecided", "No change of a gap is found", lead)
    if len(found) > _SHOWN_CHANGES:
        lead += Markup("; below are the {} of the smallest p").format(_SHOWN_CHANGES)
    said = tuple(_change(row, titles, level=coverage(confidence)) for row in found[:_SHOWN_CHANGES])
    several = plural(len(found), "measure" if len({row["run"] for row in rows}) == 1 else "comparison")
    return Answer(title, "gap", f"The gap changes in {several}", lead + ".", said)


def _change(row: Row, titles: Mapping[str, str], *, level: str) -> Markup:
    """Say how a gap changes, and what stands beside it."""
    write = rounded(row)
    sentence = Markup("<bdi>{}</bdi>, {} ({}): δ = <strong>{}</strong>, and {} in <bdi>{}</bdi>").format(
        row["run"], titles[row["measure"]], row["unit"], show(row, "delta", write), show(row, "reference_delta", write),
        row["reference"],
    )  # fmt: skip
    sentence += Markup("; change {} ({} interval {})").format(
        show(row, "delta_change", write), level, show_rounded_interval(row)
    )
    if not math.isfinite(row.number("mean_change")):
        return sentence + Markup(".")
    level_of = rounded(row, "mean_low", "mean_high", signed=False)
    return sentence + Markup(". Beside it, the mean over all pairs goes from {} to {} ({}).").format(
        show(row, "reference_mean", level_of),
        show(row, "mean", level_of),
        show(row, "mean_change", rounded(row, "mean_low", "mean_high")),
    )


def _reach(rows: Sequence[Row], *, level: str) -> Markup:
    """Say how large a change the intervals leave possible."""
    in_sd = [row for row in rows if math.isfinite(row.number("sd_ci_low"))]
    if not in_sd:
        return Markup("")
    low = min(in_sd, key=lambda row: row.number("sd_ci_low"))
    high = max(in_sd, key=lambda row: row.number("sd_ci_high"))
    return Markup(": the {} intervals of single replies' measures reach from {} to {} standard deviations").format(
        level, show(low, "sd_ci_low", points), show(high, "sd_ci_high", points)
    )


def _sections(
    changes: Sequence[Row],
    figures: Mapping[str, bytes],
    titles: Mapping[str, str],
    labels: Sequence[str],
    *,
    level: str,
) -> Iterator[Section]:
    """Yield the changes, dimension by dimension and run by run."""
    for dimension, run in dict.fromkeys((str(row["dimension"]), str(row["run"])) for row in changes):
        rows = [row for row in changes if (row["dimension"], row["run"]) == (dimension, run)]
        title, reference = dimension_title(dimension), str(rows[0]["reference"])
        drawn = figures.get(f"changes-{dimension}-{labels.index(run) + 1}")
        alt = f"{title}, {run} against {reference}: {_described(rows, titles)}."
        notes: dict[str, list[str]] = {}
        for row in rows:
            if row["note"]:
                notes.setdefault(str(row["note"]), []).append(str(titles[row["measure"]]))
        said = tuple((", ".join(names), note) for note, names in notes.items())
        seen = [row for row in rows if _changes(row)]
        yield Section(
            title=title,
            run=run,
            reference=reference,
            figure=picture(drawn, alt),
            gaps=_gaps_table(seen, titles, level=level),
            means=_means_table(seen, titles, level=level),
            untested=", ".join(titles[row["measure"]] for row in rows if not _changes(row)),
            notes=said,
        )


def _described(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Describe a figure for those who can not see it."""
    said = [
        f"{titles[row['measure']]}: {points(row.number('change_sd'))}"
        + (f", {interval(row['sd_ci_low'], row['sd_ci_high'])}" if math.isfinite(row.number("sd_ci_low")) else "")
        for row in rows
        if math.isfinite(row.number("change_sd"))
    ]
    return f"changes of δ in standard deviations, with a line at 0. {'; '.join(said)}"


def _gaps_table(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table:
    """Show both gaps of each measure, and what changes in it."""
    return Table(
        (
            "measure",
            "δ of the reference",
            "δ",
            "change",
            f"{level} interval",
            "in SD",
            "p",
            "p, corrected",
            "narratives",
        ),
        tuple(
            (
                _named(row, titles),
                show(row, "reference_delta", rounded(row)),
                show(row, "delta", rounded(row)),
                show(row, "delta_change", rounded(row)),
                show_rounded_interval(row),
                show(row, "change_sd", points),
                show(row, "p", bare_p),
                show(row, "p_adjusted", bare_p),
                show(row, "n_narratives", count),
            )
            for row in rows
        ),
    )


def _means_table(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table:
    """Show both means of each measure, what changes in it, and how many replies there are."""
    head = ("measure", "mean of the reference", "mean", "change", f"{level} interval", "in SD")
    return Table(
        (*head, "replies of the reference", "replies", "without a number, of the reference", "without a number"),
        tuple(
            (
                _named(row, titles),
                show(row, "reference_mean", rounded(row, "mean_low", "mean_high", signed=False)),
                show(row, "mean", rounded(row, "mean_low", "mean_high", signed=False)),
                show(row, "mean_change", rounded(row, "mean_low", "mean_high")),
                show_rounded_interval(row, "mean_low", "mean_high"),
                show(row, "mean_sd", points),
                *(show(row, name, count) for name in _COUNTED),
            )
            for row in rows
        ),
    )


def _named(row: Row, titles: Mapping[str, str]) -> Markup:
    return Markup('{}<br><span class="small">{}</span>').format(titles[row["measure"]], row["unit"])


def _changes(row: Row) -> bool:
    """Say whether there is anything to see: a test, or numbers that differ between the runs."""
    numbers = (row.number("delta_change"), row.number("mean_change"))
    return math.isfinite(row.number("p")) or any(math.isfinite(number) and number != 0 for number in numbers)


def _costs_table(rows: Sequence[Row]) -> Table:
    """Show what became of the prompts of each run, and what a reply takes."""
    names = [status for status in _STATUSES if any(row.number(f"{status}_share") for row in rows)]
    if ReplyStatus.REFUSED not in names:
        names.insert(0, ReplyStatus.REFUSED)
    head = ("run", "prompts", *(status.value.replace("_", " ") for status in names), "calls", "tokens read by stages")
    head = (*head, "written by stages", "read by the question", "of a reply", "shortened", "seconds")
    return Table(
        head,
        tuple(
            (
                str(row["run"]),
                show(row, "n_prompts", count),
                *(_share(row, status) for status in names),
                *(
                    show(row, name, mean_count)
                    for name in ("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens")
                ),
                show(row, "n_reply_tokens", mean_count),
                show(row, "shortened_share", rate),
                show(row, "seconds", unsigned),
            )
            for row in rows
        ),
    )


def _share(row: Row, status: ReplyStatus) -> Markup:
    """Write a share, and in percentage points what changed in it."""
    share = show(row, f"{status}_share", rate)
    if not math.isfinite(row.number(f"{status}_change")):
        return share
    return share + Markup(" ({})").format(show(row, f"{status}_change", percentage_points))


def _beside(gaps: pd.DataFrame, titles: Mapping[str, str], *, level: str) -> Iterator[tuple[str, Table]]:
    """Yield for each dimension δ of each measure, a column a run."""
    labels = list(dict.fromkeys(gaps["run"]))[:_SHOWN_BESIDE]
    narrow = gaps.loc[(gaps["scope"] == "narratives") & gaps["run"].isin(labels)]
    for dimension, own in narrow.groupby("dimension", sort=False):
        by_measure: dict[str, dict[str, Row]] = {}
        tested = set(own.loc[own["se"].notna(), "measure"])
        for row in rows_of(own.loc[own["measure"].isin(tested)], "measure_gap_all"):
            by_measure.setdefault(str(row["measure"]), {})[str(row["run"])] = row
        yield (
            dimension_title(str(dimension)),
            Table(
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
