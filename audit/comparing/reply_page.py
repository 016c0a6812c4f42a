"""The page of a comparison of replies: the change of each measure's gap, and of the replies themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from markupsafe import Markup

from audit.comparing.base import ComparisonContent
from audit.comparing.first_screen import counted_verdicts, summary_of_changes
from audit.comparing.measure_disparity_page import less_section
from audit.comparing.page import COSTS, compared_answer, comparison_prose, folded_page, paper_blocks, render_comparison
from audit.comparing.pair_answers import CLAIMS, FOUND, NONE
from audit.comparing.paper_table import with_rounded_interval
from audit.report.effect_size import reach_in_sd
from audit.report.numbers import PlacedRow, rounded, show, show_rounded_interval
from audit.report.page import prose
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import (
    Bullets,
    Captioned,
    Card,
    Paragraph,
    Section,
    bullets,
    captioned,
    paragraph,
    present,
    section,
)
from audit.report.summary import RenderedPage
from audit.report.table_layout import Named, ShownColumn, ShownTable, number_column, speaks_of, text
from audit.report.tables import estimable, measure_controls
from audit.report.verdicts import worded
from audit.tables.formatting import (
    MISSING,
    brief,
    count,
    coverage,
    dimension_title,
    error_rate,
    percentage_points,
    plural,
    points,
    rate,
)
from audit.tables.replies import ReplyStatus
from audit.tasks.task_words import TaskWords

_SHOWN_CHANGES: Final = 6
"""Most changes named in an answer; the tables have the others."""
_SHOWN_SECTIONS: Final = 24
"""Most sections of changes, one for each run and dimension; the file has all."""
_SHOWN_BESIDE: Final = 8
"""Most runs side by side in a table."""
_STATUSES: Final = tuple(status for status in ReplyStatus if status != ReplyStatus.WRITTEN)
_LEDE: Final = (
    "The gap δ of a measure is how much higher it is in replies to in-group experiencers than in replies to out-group "
    "ones, beyond what single identities write or get throughout, on average over narratives. Each δ is a property of "
    "one model under one prompt, one set of narratives and one measure."
)
_DECIDING: Final = (
    "what decides whether a gap is one between groups, run by run. Without a word in common: δ of pairs that repeat "
    "nothing. Real minus invented groups: how far δ goes beyond that of groups of which the model can know nothing"
)
_Titles: TypeAlias = Mapping[str, str]
"""The title of each measure."""


def reply_page(content: ComparisonContent, results: Results, *, words: TaskWords) -> RenderedPage:
    """Render the page of a comparison of runs of replies."""
    runs, changes = results.rows("runs"), results.rows("measure_changes")
    titles = {str(row["measure"]): str(row["title"]) for row in results.rows("measures", status="scored")}
    labels = [str(row["run"]) for row in runs]
    first = content.answered(summary_of_changes(results, titles, words=words))
    parts = list(_sections_of_changes(results, titles, labels))
    more = f"The first {_SHOWN_SECTIONS} of {len(parts)}; all are in tables/measure_changes.csv."
    beside = labels[:_SHOWN_BESIDE]
    sections = [
        compared_answer(
            content, results, first, f"How does the gap {words.where} differ between the runs?",
            Paragraph(_held_against(changes)), comparison_prose("care"),
            none=Markup('No measure could be compared; why stands under <a href="#missing">Not compared</a>.'),
        ),
        page_section(
            "changes", "What changes", "What changes",
            prose("macros", "cards", [
                _answer([row for row in changes if row["dimension"] == dimension], titles,
                        results.rows("verdicts", dimension=dimension), confidence=results.confidence)
                for dimension in dict.fromkeys(row["dimension"] for row in changes)
            ]),
            section(
                "Every measure", Paragraph(_LEDE, "small"), *parts[:_SHOWN_SECTIONS],
                None if parts else Paragraph("There is nothing to compare.", "absent"),
                Paragraph(more, "caption") if len(parts) > _SHOWN_SECTIONS else None,
                comparison_prose("changes"),
                look="folded",
            ),
        ),
        less_section(results, titles),
        folded_page(
            "costs", "Refusals and costs", "Refusals and costs", *_costs(results), comparison_prose("costs")
        ),
        folded_page(
            "side", "Side by side", "Side by side", comparison_prose("side", results.level),
            *_tables_beside(results, titles, beside), comparison_prose("about_side", len(beside), len(runs)),
        ),
        folded_page("missing", "Not compared", "Not compared", comparison_prose("missing", _missing(results))),
        folded_page(
            "paper", "Table for a paper", "The table for a paper", *paper_blocks(content.papers["table"]),
            comparison_prose("paper_of_replies"),
        ),
    ]  # fmt: skip
    return render_comparison(
        content, results, first, sections, gap=words.gap, kicker="empathy-audit comparison of replies",
        texts="replies and scores", limits=comparison_prose("limits_of_replies", results.level),
    )  # fmt: skip


def _held_against(changes: Sequence[PlacedRow]) -> Markup:
    """Name each run with its reference, once."""
    pairs = dict.fromkeys((str(row["run"]), str(row["reference"])) for row in changes)
    if not pairs:
        return Markup("No run is compared with another.")
    said = Markup("; ").join(Markup("<bdi>{}</bdi> against <bdi>{}</bdi>").format(*pair) for pair in pairs)
    return Markup("Each run is compared with its reference, narrative by narrative: {}.").format(said)


def _answer(
    rows: Sequence[PlacedRow], titles: _Titles, verdicts: Sequence[PlacedRow] = (), *, confidence: float
) -> Card:
    """Say which gaps change after correction, and in which direction; or what changes remain possible."""
    title = dimension_title(str(rows[0]["dimension"]))
    own = Markup("")
    if verdicts:
        said = Markup("Verdicts on {}, one for each run and measure, as on the runs' own pages: {}.")
        own = said.format(plural(len(verdicts), "gap"), counted_verdicts(verdicts))
    tested = [row for row in rows if row["code"] not in NONE]
    if not tested:
        return _card(title, "absent", "Nothing could be tested", Markup("Why stands beside each measure below."), own)
    lead = Markup("Tested: {} of δ, of {} in {}, with p corrected for their number").format(
        plural(len(tested), "change"),
        plural(len({row["outcome"] for row in tested}), "measure"),
        plural(len({row["run"] for row in tested}), "run"),
    )
    if len(tested) < len(rows):
        lead += Markup("; {} more could not be tested").format(count(len(rows) - len(tested)))
    found = sorted((row for row in tested if row["code"] in FOUND), key=lambda row: row.number("p"))
    if not found:
        lead += Markup(". That none is found does not mean that there is none{}.").format(
            reach_in_sd(tested, level=coverage(confidence))
        )
        return _card(title, "undecided", "No change of a gap is found", lead, own)
    if len(found) > _SHOWN_CHANGES:
        lead += Markup("; below are the {} of the smallest p").format(_SHOWN_CHANGES)
    changes = (_change(row, titles, level=coverage(confidence)) for row in found[:_SHOWN_CHANGES])
    several = plural(len(found), "measure" if len({row["run"] for row in rows}) == 1 else "comparison")
    return _card(title, "gap", f"The gap changes in {several}", lead + ".", own, bullets(changes))


def _card(title: str, kind: str, verdict: str, lead: Markup, own: str, changes: Bullets | None = None) -> Card:
    content = present(Paragraph(verdict, "verdict"), Paragraph(lead, "lead"), changes, paragraph(own))
    return Card(title, content, kind=kind)


def _change(row: PlacedRow, titles: _Titles, *, level: str) -> Markup:
    """Describe one change of a gap, and of the mean beside it."""
    write = rounded(row)
    sentence = Markup("<bdi>{}</bdi>, {} ({}): δ = <strong>{}</strong>, and {} in <bdi>{}</bdi>").format(
        row["run"], titles[row["outcome"]], row["unit"], show(row, "delta", write), show(row, "reference_delta", write),
        row["reference"],
    )  # fmt: skip
    sentence += Markup("; change{} {} ({} interval {})").format(
        CLAIMS[str(row["claim"])], show(row, "delta_change", write), level, show_rounded_interval(row)
    )
    if not math.isfinite(row.number("mean_change")):
        return sentence + Markup(".")
    return sentence + Markup(". Beside it, the mean over all pairs goes from {} to {} ({}).").format(
        _mean(row, "reference_mean"), _mean(row, "mean"), _mean(row, "mean_change")
    )


def _sections_of_changes(results: Results, titles: _Titles, labels: Sequence[str]) -> Iterator[Section | None]:
    """Yield the changes, by dimension and run."""
    changes = results.rows("measure_changes")
    for dimension, run in dict.fromkeys((str(row["dimension"]), str(row["run"])) for row in changes):
        rows = results.rows("measure_changes", dimension=dimension, run=run)
        title, reference = dimension_title(dimension), str(rows[0]["reference"])
        where = f"{title}, {run}"
        notes: dict[str, list[str]] = {}
        for row in rows:
            if row["note"]:
                notes.setdefault(str(row["note"]), []).append(titles[row["outcome"]])
        seen = [row for row in rows if _has_change(row)]
        untested = ", ".join(titles[row["outcome"]] for row in rows if not _has_change(row))
        noted = (
            Markup("<strong>{}</strong>: <bdi>{}</bdi>").format(", ".join(names), note) for note, names in notes.items()
        )
        measure = _measure(titles)
        yield section(
            Markup("<bdi>{}</bdi>: <bdi>{}</bdi> against <bdi>{}</bdi>").format(title, run, reference),
            results.picture(
                f"changes-{dimension}-{labels.index(run) + 1}",
                f"{where}: what changes in each measure's δ, and beside it in its mean over all pairs, in standard "
                f"deviations of the measure among the replies of {reference}. A filled mark has a corrected p below "
                f"{error_rate(results.confidence)}. A measure without a spread among these replies is in the tables "
                "alone.",
                alt=f"Changes of δ in standard deviations, {where} against {reference}, with a line at 0. Its numbers "
                "are below.",
            ),
            results.table(
                "measure_changes", f"{where}: δ of each measure against {reference}, in the measure's unit",
                measure, ("reference_delta", "δ of the reference"), "delta", ("delta_change", "change"), "ci_low",
                ("change_sd", "in SD"), "p", ("p_adjusted", "p, corrected"), speaks_of("scope"), "n_narratives",
                rows=seen,
            ),
            results.table(
                "measure_changes",
                f"{where}: mean of each measure over all pairs, against {reference}, in the measure's unit",
                measure, *_means(results.level), rows=seen,
            ),
            Paragraph(f"Without any difference to be tested: {untested}.", "caption") if untested else None,
            section("Notes on single measures", bullets(noted, "small"), look="folded"),
        )  # fmt: skip


def _mean(row: PlacedRow, name: str) -> Markup:
    return show(row, name, rounded(row, "mean_low", "mean_high", signed=name.startswith("mean_")))


def _means(level: str) -> tuple[Named, ...]:
    """Return the columns of the means of both runs, their change, and the numbers of replies."""
    return (
        ShownColumn("mean of the reference", partial(_mean, name="reference_mean")),
        ShownColumn("mean", partial(_mean, name="mean")),
        ShownColumn("change", partial(_mean, name="mean_change")),
        ShownColumn(f"{level} interval", lambda row: show_rounded_interval(row, "mean_low", "mean_high")),
        number_column("in SD", "mean_sd", points),
        ("reference_answers", "replies of the reference"),
        "n_answers",
        ("reference_missing", "without a number, of the reference"),
        ("n_missing", "without a number"),
    )


def _measure(titles: _Titles) -> ShownColumn:
    unit = Markup('{}<br><span class="small">{}</span>')
    return ShownColumn("measure", lambda row: unit.format(titles[row["outcome"]], row["unit"]))


def _has_change(row: PlacedRow) -> bool:
    """Whether a row has anything to show: a test, or numbers that differ between the runs."""
    numbers = (row.number("delta_change"), row.number("mean_change"))
    return math.isfinite(row.number("p")) or any(math.isfinite(number) and number != 0 for number in numbers)


def _costs(results: Results) -> Iterator[Captioned | None]:
    """Yield how each run's prompts ended, and the cost of a reply, one table a dimension."""
    for dimension in dict.fromkeys(str(row["dimension"]) for row in results.rows("reply_costs")):
        rows = results.rows("reply_costs", dimension=dimension)
        shown = [
            each
            for each in _STATUSES
            if each == ReplyStatus.REFUSED or any(row.number(f"{each}_share") for row in rows)
        ]
        yield results.table(
            "reply_costs",
            f"{dimension_title(dimension)}: what happened to the prompts between identities, and in brackets the "
            "change against the reference, in percentage points; what a reply takes",
            text("run", "run"), "n_prompts",
            *(ShownColumn(each.value.replace("_", " "), partial(_share, status=each)) for each in shown), *COSTS,
            ("n_reply_tokens", "tokens of a reply"),
            rows=rows,
        )  # fmt: skip


def _share(row: PlacedRow, status: ReplyStatus) -> Markup:
    """Write a share, with its change in percentage points."""
    share = show(row, f"{status}_share", rate)
    if not math.isfinite(row.number(f"{status}_change")):
        return share
    return share + Markup(" ({})").format(show(row, f"{status}_change", percentage_points))


def _tables_beside(results: Results, titles: _Titles, labels: Sequence[str]) -> Iterator[Captioned | Section | None]:
    """Yield, by dimension, each measure's δ, verdict and deciding control, run by run."""
    gaps = [row for row in results.rows("gap", scope="narratives") if row["run"] in labels]
    tested = {(row["dimension"], row["outcome"]) for row in gaps if math.isfinite(row.number("se"))}
    shown = [row for row in gaps if (row["dimension"], row["outcome"]) in tested]
    head = f"δ, {{}} [{results.level} CI]"
    for dimension in dict.fromkeys(row["dimension"] for row in gaps):
        title = dimension_title(str(dimension))
        own = [row for row in shown if row["dimension"] == dimension]
        verdicts = [row for row in results.rows("verdicts", dimension=dimension) if row["run"] in labels]
        controls = [row for row in results.rows("controls", dimension=dimension, headline=True) if row["run"] in labels]
        yield captioned(
            _by_run(own, titles, labels, head, lambda row: with_rounded_interval(row, "delta", "ci_low", "ci_high")),
            f"{title}: δ of each measure, run by run",
        )
        yield section(
            f"{title}: what each run decides",
            captioned(
                _by_run(verdicts, titles, labels, "{}", lambda row: worded(row).words),
                f"{title}: the verdict on δ of each measure, as on the run's own page",
            ),
            look="folded",
        )
        yield section(
            f"{title}: groups or repeated words?",
            results.table(
                "controls", f"{title}: {_DECIDING}",
                text("run", "run"), *measure_controls(lambda row: titles[row["outcome"]]), rows=estimable(controls),
            ),
            look="folded",
        )  # fmt: skip


def _by_run(
    rows: Sequence[PlacedRow], titles: _Titles, labels: Sequence[str], head: str, cell: Callable[[PlacedRow], Markup]
) -> ShownTable:
    """Lay out a cell of each measure, measures in rows and runs in columns."""
    cells = {(str(row["outcome"]), str(row["run"])): cell(row) for row in rows}
    return ShownTable(
        ("measure", *(head.format(brief(label, at_most=60)) for label in labels)),
        tuple(
            (titles[measure], *(cells.get((measure, label), MISSING) for label in labels))
            for measure in dict.fromkeys(measure for measure, _ in cells)
        ),
        frozenset(range(1, len(labels) + 1)) if "CI" not in head else frozenset(),
    )


def _missing(results: Results) -> list[tuple[str, str, str]]:
    """List what is not compared, in which runs and why, each reason once."""
    measures = results.rows("measures")
    titles: dict[tuple[str, str], list[str]] = {}
    for row in measures:
        if row["note"]:
            titles.setdefault((str(row["run"]), str(row["note"])), []).append(str(row["title"]))
    runs: dict[tuple[str, str], list[str]] = {}
    for (run, why), names in titles.items():
        runs.setdefault((", ".join(names), why), []).append(run)
    everywhere = len({row["run"] for row in measures})
    return [(names, "all runs" if len(of) == everywhere else "; ".join(of), why) for (names, why), of in runs.items()]
