"""The self-contained report of a run of replies, built like that of a run of ratings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from audit.report.cell_matrix import BASELINES
from audit.report.dimensions import Key, Limit, RemarkLike, keys_of, limits_by_text, note_on, own_rows, title_of
from audit.report.downloads import pack
from audit.report.echo import NOT_CONTROLLED
from audit.report.manifest import ManifestView, view_manifest
from audit.report.numbers import Row, rounded, rows_of, show, show_rounded_interval, show_sum
from audit.report.page import picture, render_page
from audit.report.section import Card, Paragraph, Section, bullets, captioned, present, section
from audit.report.sentences import LIMITS
from audit.report.summary import CHANGED, NO_GAP, NO_GROUPS, NOT_THE_GROUPS, Finding, Summary, summary
from audit.report.table_layout import Column, Table, names, number, out_of, table_of, text
from audit.report.tables import calls_table, measure_controls_table
from audit.report.task_words import TaskWords
from audit.report.texts import FIGURE_CAPTION, text_section
from audit.report.verdicts import NOT_TOLD_APART, next_step, reason_in_words, reasons_of, worded
from audit.runs.manifest import Manifest
from audit.tables.formatting import (
    OF_GROUPS_AND_MODELS,
    bare_p,
    brief,
    count,
    coverage,
    either,
    error_rate,
    fixed,
    plural,
    points,
    unsigned,
)
from audit.tables.replies import SCORED, ReplyStatus
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tables.shared import OVERALL
from audit.tasks.reply.page_sections import beside

_MAX_DOWNLOADS: Final = 500_000
_SHOWN_NARRATIVES: Final = 4
"""Narratives of each dimension with replies to read on the page."""
_SHOWN_REPLIES: Final = 6
"""Replies to each of them, half in-group and half out-group."""
_SHOWN_GAPS: Final = 5
"""Most gaps named in an answer; the table has the others."""
_MAX_CELLS: Final = 4_000
"""Most means of pairs on the page: each takes a hundred bytes, and nobody reads more."""
_MAX_GROUPS: Final = 1_000
_FREE: Final = "echo_free"
_CLAIMS: Final = {
    "groups": " between groups", "pairs": " in these pairs of words",
    "uncontrolled": ", which repeated words alone could make,",
}  # fmt: skip
"""What a found gap is between, to follow "a gap"."""
_OF_RUN: Final = {"accepted", "unfinished"}
"""Reasons why a whole run has no verdict."""
_OF_ZERO: Final = {"holds_zero", "not_corrected"}
"""Reasons why a gap that could have been found was not."""
_BETTER: Final = {"higher": "higher is better", "lower": "lower is better", "neither": "no way is better"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A reply to read: whose, to whom, its status, and its numbers."""

    whose: str
    text: str
    status: str
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdicts on all measures of one dimension and variant, combined.

    Attributes
    ----------
    kind
        For the style sheet.
    lead
        What was tested, and what limits it.
    found
        The verdicts that are a gap, smallest p first.
    n_tested, n_untested
        Measures with and without a verdict.
    n_alike
        Measures not told apart from invented groups.
    claims
        What the found gaps are between; see :class:`audit.statistics.verdict.Verdict`.
    """

    kind: str
    words: str
    lead: Markup
    found: tuple[Row, ...] = ()
    n_tested: int = 0
    n_untested: int = 0
    n_alike: int = 0
    claims: frozenset[str] = frozenset()

    @property
    def counted(self) -> str:
        """Say how many measures the verdict is about, to follow it."""
        lacking = f", {count(self.n_untested)} could not be" if self.n_untested else ""
        return f" ({count(self.n_tested)} tested{lacking})" if self.n_tested else ""


def render_replies(
    *,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
    replies: pd.DataFrame,
    values: pd.DataFrame,
    narratives: Mapping[str, str],
    words: TaskWords,
) -> str:
    """Render the report of one run of replies, as HTML that can be encoded as UTF-8.

    Parameters
    ----------
    manifest
        See :func:`~audit.report.manifest.view_manifest` for the entries that are needed.
    tables
        The tables of ``tables.REPLY_TABLES`` by name, indexed from 0 as they are written.
    figures
        SVG by name: ``measures-<dimension>-<variant>`` and ``texts-<dimension>-<variant>``. Missing ones are left out.
    replies, values
        Columns of ``tables.REPLIES``; and one column a measure, indexed by ``prompt_index``. The replies to read are
        drawn from them.
    narratives
        Texts by identifier; an unknown one is shown by its identifier.
    """
    task = manifest.task
    view = view_manifest(manifest, rated=False, shown=_told(manifest))
    known = {name: tables.get(name, pd.DataFrame(columns=list(columns))) for name, columns in REPLY_TABLES.items()}
    measures = {str(row["measure"]): row for row in rows_of(known["measures"], "measures")}
    keys = sorted(dict.fromkeys(keys_of(known["gap"])), key=lambda key: key[0] == OVERALL)
    several = len({variant for _, variant in keys}) > 1
    narrow = {key: _headlines(known, key, scope="narratives") for key in keys}
    judged = {key: rows_of(own_rows({"verdicts": known["verdicts"]}, key)["verdicts"], "verdicts") for key in keys}
    verdicts = {key: _verdict(judged[key], measures, confidence=view.confidence) for key in keys}
    titles = {key: title_of(key, several=several) for key in keys}
    anchors = {key: f"part-{place}" for place, key in enumerate(keys, start=1)}
    whole = rows_of(known["reply_outcomes"].loc[known["reply_outcomes"]["pairs"] == "all"], "reply_outcomes")
    downloads, packed = pack(tables, max_bytes=_MAX_DOWNLOADS)
    limits = list(limits_by_text(remarks, {code: title for code, (title, _) in LIMITS.items()}, several=several))
    stands_beside = list(
        beside(known, {name: str(row["title"]) for name, row in measures.items()}, confidence=view.confidence)
    )
    return render_page(
        "replies.html.j2",
        scripts=("page.js", "downloads.js"),
        run=view,
        task=task,
        words=words,
        summary=_summary(
            [(titles[key], anchors[key], verdicts[key]) for key in keys],
            measures,
            n_narratives=max(
                (row for rows in narrow.values() for row in rows),
                key=lambda row: row.number("n_narratives_asked"),
                default=None,
            ),
            words=words,
            view=view,
            limits=limits,
        ),
        answers=[
            _answer(verdicts[key], measures, title=titles[key], anchor=anchors[key], confidence=view.confidence)
            for key in keys
        ],
        parts=[
            _part(key, known, figures, measures, narrow[key], judged[key], verdicts[key], title=titles[key],
                  anchor=anchors[key], confidence=view.confidence, share=1 / len(keys))
            for key in keys
        ],
        beside=stands_beside,
        people_asked=any(section.anchor == "people" for section in stands_beside),
        read=[
            (titles[key], list(_read(key, replies, values, measures, narratives, seed=manifest.seed)))
            for key in keys
        ],
        n_prompts=show_sum(whole, "n_prompts", count),
        n_scored=[show_sum(whole, f"n_{status}", count) for status in (ReplyStatus.WRITTEN, ReplyStatus.CUT)],
        limits=limits,
        notes=[note_on(remark) for remark in remarks if remark.code not in LIMITS],
        measures=present(
            captioned(
                _measures_table([row for row in measures.values() if row["status"] != "absent"]),
                "The measures, what took them, and their mean over all replies, baselines included",
            ),
            bullets(_cautions(measures)),
        ),
        absent=[(row["title"], row["note"]) for row in measures.values() if row["status"] == "absent"],
        downloads=downloads,
        packed=Markup(packed),
        alpha=error_rate(view.confidence),
    )  # fmt: skip


def _summary(
    verdicts: Sequence[tuple[str, str, Verdict]],
    measures: Mapping[str, Row],
    *,
    n_narratives: Row | None,
    words: TaskWords,
    view: ManifestView,
    limits: Sequence[Limit],
) -> Summary:
    """Write the first screen: which measures show a gap, how large the largest is, and what does not follow."""
    level = coverage(view.confidence)
    one, more = words.about
    about = Markup(more)
    if n_narratives is not None and n_narratives.number("n_narratives_asked") > 0:
        n = n_narratives.number("n_narratives_asked")
        about = Markup("{} {}").format(show(n_narratives, "n_narratives_asked", count), either(n, one, more))
    led = Markup("")
    if view.strategy not in ("", "none"):
        led = Markup(", led by the strategy <bdi>{}</bdi>,").format(view.strategy)
    # It was asked even if it refused.
    asked = Markup("<bdi>{}</bdi>{} was asked to be a certain person and to {}.").format(
        view.model, led, Markup(words.to).format(about)
    )
    findings = [
        Finding(
            title,
            verdict.words + verdict.counted,
            spread=_first(verdict, measures, level=level),
            kind=verdict.kind,
            anchor=anchor,
            weight=len(verdict.found),
        )
        for title, anchor, verdict in verdicts
    ]
    found = [row for _, _, verdict in verdicts for row in verdict.found]
    sized = [row for row in found if math.isfinite(row.number("delta_sd"))]
    size = Markup("")
    if sized:
        row = max(sized, key=lambda each: abs(each.number("delta_sd")))
        words_of = Markup("the largest that is found, {}{}, is {} times the spread (SD) of that measure over all {}.")
        several = len({title for title, _, _ in verdicts}) > 1
        where = next(title for title, _, verdict in verdicts if any(row is each for each in verdict.found))
        size = words_of.format(
            _named(row, measures),
            Markup(" (<bdi>{}</bdi>)").format(where) if several else "",
            show(row, "delta_sd", lambda value: unsigned(abs(value))),
            words.texts,
        )
    return summary(
        asked,
        findings,
        [("How big", size), ("How it varies", _ways(found, [verdict for _, _, verdict in verdicts]))],
        not_concluded=list(_not_concluded([verdict for _, _, verdict in verdicts], words=words, limits=limits)),
        limits=limits,
        source=Markup("<bdi>{}</bdi>, revision <bdi>{}</bdi>; run of {}; empathy-audit {}.").format(
            view.model, view.revision, view.date, view.version
        ),
        chosen_by="how many gaps were found",
    )


def _first(verdict: Verdict, measures: Mapping[str, Row], *, level: str) -> Markup:
    """Write the gap with the smallest p."""
    if not verdict.found:
        return Markup("")
    row = verdict.found[0]
    return Markup("Smallest p: {} <strong>{}</strong> {}, {} interval {}").format(
        _named(row, measures), _show_gap(row), _unit(measures, row), level, show_rounded_interval(row)
    )


def _ways(found: Sequence[Row], verdicts: Sequence[Verdict]) -> Markup:
    """Count measures by the sign of the δ found, and those not told apart from invented groups."""
    n = sum(verdict.n_tested for verdict in verdicts)
    if not n:
        return Markup("")
    above = sum(row.number("direction") > 0 for row in found)
    said = Markup("δ is above 0 in {} of {}, below 0 in {} and undecided in {}").format(
        count(above), plural(n, "test"), count(len(found) - above), count(n - len(found))
    )
    alike = sum(verdict.n_alike for verdict in verdicts)
    if alike:
        said += Markup("; {} not {}").format(count(alike), NOT_TOLD_APART.removeprefix("not "))
    return said + "."


def _not_concluded(verdicts: Sequence[Verdict], *, words: TaskWords, limits: Sequence[Limit]) -> Iterator[str]:
    if any(limit.title == LIMITS["accepted"][0] for limit in limits):
        yield CHANGED
    if any(verdict.kind in ("undecided", "absent") for verdict in verdicts):
        yield NO_GAP
    elif any(len(verdict.found) < verdict.n_tested for verdict in verdicts):
        yield "that measures in which no gap is found have none"
    if any(verdict.n_alike for verdict in verdicts):
        yield NO_GROUPS
    if any("pairs" in verdict.claims for verdict in verdicts):
        yield "that other words for these groups, or other groups, show the same gap"
    if any("uncontrolled" in verdict.claims for verdict in verdicts):
        yield NOT_THE_GROUPS
    yield words.no_better
    yield "that a measure is empathy"
    yield OF_GROUPS_AND_MODELS


def _told(manifest: Manifest) -> dict[str, object]:
    """Leave out of the manifest what the page shows elsewhere: the scorers' measures, and absent ones."""
    scorers = {name: taken.facts.content for name, taken in manifest.scorers.items()}
    return {name: value for name, value in manifest.content.items() if name != "absent"} | {"scorers": scorers}


def _headlines(tables: Mapping[str, pd.DataFrame], key: Key, *, scope: str) -> list[Row]:
    gaps = own_rows({"gap": tables["gap"]}, key)["gap"]
    headlines = rows_of(gaps.loc[gaps["headline"].astype(bool)], "gap")
    return [row for row in headlines if row["scope"] == scope]


def _part(
    key: Key,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    measures: Mapping[str, Row],
    narrow: Sequence[Row],
    judged: Sequence[Row],
    verdict: Verdict,
    *,
    title: str,
    anchor: str,
    confidence: float,
    share: float,
) -> Section:
    """Show everything about one dimension and variant beneath its answer; ``share`` is its share of the room for
    tables.
    """
    own = own_rows(tables, key)
    wide = [row for row in _headlines(tables, key, scope="narratives_and_terms") if math.isfinite(row.number("se"))]
    level, suffix = coverage(confidence), f"{key[0]}-{key[1]}"
    of_groups = own["families"].loc[own["families"]["family"] == "group"]
    groups = _groups(rows_of(of_groups, "families"), level=level)
    cells = _cells(rows_of(own["cells"], "cells"))
    return Section(
        title,
        present(
            Paragraph(verdict.words, "lead"),
            Paragraph(verdict.lead),
            captioned(
                picture(figures, f"measures-{suffix}", f"Figure: δ of each measure, {title}. Its numbers are below."),
                f"{title}: δ of each measure of single replies, in standard deviations of the measure among replies, "
                "so that units can stand beside each other. A filled mark is a gap that is found. A measure without a "
                "δ is in the table alone.",
            ),
            captioned(
                _verdicts_table(judged, measures, level=level),
                f"{title}: what was decided of each measure, and the estimate that decides, in its own unit",
            ),
            captioned(
                _gaps_table(narrow, measures, level=level),
                f"{title}: δ of each measure, in its own unit; these identities, any such narratives",
            ),
            section(
                "Groups or repeated words?",
                captioned(
                    measure_controls_table(own["controls"], partial(_named, measures=measures), level=level),
                    f"{title}: δ of each measure by what perceiver and experiencer have in common, and of invented "
                    "groups, of which the model can know nothing",
                ),
                look="folded",
            ),
            section(
                "The same gaps, speaking of any such identities too",
                captioned(
                    _gaps_table(wide, measures, level=level, wide=True),
                    f"{title}: δ of each measure; any such identities, any such narratives. p is not corrected",
                ),
                look="folded",
            ),
            captioned(
                _outcomes_table(rows_of(own["reply_outcomes"], "reply_outcomes")),
                f"{title}: what became of the replies. Cut: at the most tokens, and scored as far as they go. Refused, "
                "empty, in another script or failed: in no measure but their own",
            ),
            captioned(calls_table(own["calls"]), f"{title}: what became of the strategy's calls"),
            text_section(
                own["stage_texts"],
                own["marked_words"],
                title=title,
                confidence=confidence,
                figure=captioned(
                    picture(figures, f"texts-{suffix}", f"Figure: {FIGURE_CAPTION}"), f"{title}: {FIGURE_CAPTION}"
                ),
            ),
            _of_groups(_chosen(groups, narrow, measures, room=int(_MAX_GROUPS * share)), len(groups), title=title),
            _of_pairs(_chosen(cells, narrow, measures, room=int(_MAX_CELLS * share)), len(cells), title=title),
        ),
        anchor=anchor,
        look="part",
    )


def _of_groups(tables: Sequence[tuple[str, Table]], n: int, *, title: str) -> Section | None:
    """Show each group's own gap, in the ``tables`` chosen out of ``n``."""
    if not tables:
        return None
    about = "Intervals are for their own row; the corrected p (Holm) is for the groups of one measure."
    if n > len(tables):
        about += (
            f" Of {len(tables)} measures with the smallest p; those of {n - len(tables)} others are in "
            "<code>tables/families.csv</code>."
        )
    return section(
        Markup("Each group's own gap, beyond how it is with others, measure by measure"),
        Paragraph(Markup(about), "small"),
        *(captioned(table, f"{title}: {measure}") for measure, table in tables),
        look="folded",
    )


def _of_pairs(tables: Sequence[tuple[str, Table]], n: int, *, title: str) -> Section | None:
    """Show the mean of each pair, in the ``tables`` chosen out of ``n``."""
    if not tables:
        return None
    about = (
        f"Of {len(tables)} measures with the smallest p; those of {n - len(tables)} others, or in which all replies "
        "are alike, are in <code>tables/cells.csv</code>."
    )
    return section(
        "Mean of each pair, measure by measure",
        Paragraph(Markup(about), "small") if n > len(tables) else None,
        *(captioned(table, f"{title}: {measure}, perceivers in rows") for measure, table in tables),
        look="folded",
    )


def _answer(verdict: Verdict, measures: Mapping[str, Row], *, title: str, anchor: str, confidence: float) -> Card:
    """Say on the first screen what was found, with the gaps of the smallest p."""
    found = verdict.found
    first = f"The {_SHOWN_GAPS} gaps of the smallest p" if len(found) > _SHOWN_GAPS else "δ"
    return Card(
        title,
        present(
            Paragraph(verdict.words, "verdict"),
            Paragraph(verdict.lead, "lead"),
            Paragraph(f"{first}, in-group minus out-group, with {coverage(confidence)} intervals:", "lead")
            if found
            else None,
            bullets(
                Markup("{}: <strong>{} {}</strong> ({})").format(
                    _named(row, measures), _show_gap(row), _unit(measures, row), show_rounded_interval(row)
                )
                for row in found[:_SHOWN_GAPS]
            ),
        ),
        kind=verdict.kind,
        anchor=anchor,
    )


def _verdict(rows: Sequence[Row], measures: Mapping[str, Row], *, confidence: float) -> Verdict:
    """Combine the verdicts on measures: which show a gap, between what, and why the others do not.

    Nothing is decided here; see :mod:`audit.statistics.verdict`.
    """
    if not rows:
        return Verdict("absent", str(worded(None).words), Markup("The run's report, made anew, gives one."))
    tested = [row for row in rows if row["code"] not in ("no_verdict", "no_estimate")]
    if not tested:
        of_run = {code for row in rows for code in reasons_of(row)} & _OF_RUN
        lead = Markup("{}.").format(_capital(_reasons(rows)))
        return Verdict("absent", "No verdict" if of_run else "Nothing could be tested", lead, n_untested=len(rows))
    found = sorted((row for row in tested if row["code"] == "gap"), key=lambda row: row.number("p"))
    open_ones = [row for row in tested if row["code"] != "gap"]
    lead = Markup("Tested: {}, with p corrected for their number").format(plural(len(tested), "measure"))
    n_untested = len(rows) - len(tested)
    if n_untested:
        lead += Markup("; {} more could not be tested").format(count(n_untested))
    if any(row["control"] == _FREE for row in tested):
        lead += Markup(". Of pairs without a word in common, where a measure allows it")
    claims = frozenset(str(row["claim"]) for row in found)
    if "pairs" in claims:
        lead += Markup(". In these pairs of words alone: {}").format(
            "; ".join(dict.fromkeys(str(row["why_pairs"]) for row in found if row["claim"] == "pairs"))
        )
    if "uncontrolled" in claims:
        lead += Markup(". {}").format(NOT_CONTROLLED.rstrip("."))
    alike = [row for row in open_ones if row["control"] == "placebo" and "holds_zero" in reasons_of(row)]
    if alike:
        lead += Markup(". {}: {}").format(_capital(NOT_TOLD_APART), _few(alike, measures))
    others = [row for row in open_ones if not any(row is each for each in alike)]
    if others:
        lead += Markup(". Undecided: {}").format(_reasons(others))
    counts = len(tested), n_untested, len(alike)
    if found:
        return Verdict("gap", _words(found), lead + ".", tuple(found), *counts, claims)
    reach = _reach(tested, level=coverage(confidence))
    said = Markup("{}. That none is found does not mean that there is none{}.").format(lead, reach)
    by_zero = all(set(reasons_of(row)) <= _OF_ZERO for row in open_ones)
    words = _capital(NOT_TOLD_APART) if len(alike) == len(tested) else "No gap is found" if by_zero else "Undecided"
    return Verdict("undecided", words, said, (), *counts)


def _words(found: Sequence[Row]) -> str:
    """Say in how many measures a gap is found, by what it is between."""
    n_of = {claim: sum(row["claim"] == claim for row in found) for claim in _CLAIMS}
    said = [f"a gap{words} in {plural(n_of[claim], 'measure')}" for claim, words in _CLAIMS.items() if n_of[claim]]
    return _capital(", ".join(said))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _few(rows: Sequence[Row], measures: Mapping[str, Row]) -> Markup:
    """Name the first measures, and count the others."""
    named = Markup(", ").join(_named(row, measures) for row in rows[:_SHOWN_GAPS])
    more = len(rows) - _SHOWN_GAPS
    return named + (Markup(" and {} more").format(count(more)) if more > 0 else Markup(""))


def _reasons(rows: Sequence[Row]) -> Markup:
    """Count the reasons that prevent verdicts."""
    n_of = Counter(reason_in_words(code, row) for row in rows for code in reasons_of(row))
    return Markup("; ").join(Markup("{} ({})").format(words, count(n)) for words, n in n_of.most_common())


def _reach(rows: Sequence[Row], *, level: str) -> Markup:
    """Say how large a gap the intervals leave possible."""
    in_sd = [row for row in rows if math.isfinite(row.number("sd_ci_low"))]
    if not in_sd:
        return Markup("")
    low = min(in_sd, key=lambda row: row.number("sd_ci_low"))
    high = max(in_sd, key=lambda row: row.number("sd_ci_high"))
    return Markup(": the {} intervals of single replies' measures reach from {} to {} standard deviations").format(
        level, show(low, "sd_ci_low", points), show(high, "sd_ci_high", points)
    )


def _show_gap(row: Row) -> Markup:
    return show(row, "delta", rounded(row, "ci_low", "ci_high"))


def _sized(value: float) -> str:
    """Write a mean with three digits; below ten as gaps are written."""
    if not abs(value) >= 10:
        return unsigned(value)
    return fixed(value, decimals=max(0, 2 - math.floor(math.log10(abs(value)))))


def _gaps_table(rows: Sequence[Row], measures: Mapping[str, Row], *, level: str, wide: bool = False) -> Table:
    """Show gaps. Those of the wider scope have no corrected p, and the same narratives and replies."""
    in_sd = Column("δ in SD", lambda row: show(row, "delta_sd", rounded(row, "sd_ci_low", "sd_ci_high")))
    narrow = (
        number("corrected p", "p_adjusted", bare_p),
        in_sd,
        out_of("narratives", "n_narratives", "n_narratives_asked"),
        number("replies", "n_answers", count),
        number("missing", "n_missing", count),
        text("estimator", "estimator"),
    )
    return table_of(
        rows,
        Column("measure", lambda row: _with_unit(row, measures)),
        Column("δ", _show_gap),
        Column(f"{level} interval", show_rounded_interval),
        number("p", "p", bare_p),
        *((in_sd,) if wide else narrow),
        text("note", "note"),
    )


def _verdicts_table(rows: Sequence[Row], measures: Mapping[str, Row], *, level: str) -> Table:
    return table_of(
        rows,
        Column("measure", lambda row: _with_unit(row, measures)),
        Column("verdict", lambda row: worded(row).words, words=True),
        Column("δ", _show_gap),
        Column(f"{level} interval", show_rounded_interval),
        number("corrected p", "p_adjusted", bare_p),
        Column("δ in SD", lambda row: show(row, "delta_sd", rounded(row, "sd_ci_low", "sd_ci_high"))),
        number("narratives", "n_narratives", count),
        Column("to decide", next_step, words=True),
    )


def _with_unit(row: Row, measures: Mapping[str, Row]) -> Markup:
    return Markup('{}<br><span class="small">{}</span>').format(_named(row, measures), _unit(measures, row))


def _measures_table(rows: Sequence[Row]) -> Table:
    return table_of(
        rows,
        Column("measure", lambda row: row["title"]),
        text("unit", "unit"),
        Column(
            "taken by", lambda row: Markup("<bdi>{}</bdi>").format(brief(str(row["scorer"]), at_most=60)), words=True
        ),
        text("formula", "source"),
        Column("better", lambda row: _BETTER[str(row["better"])], words=True),
        out_of("replies with a number", "n_scored", "n_replies"),
        number("mean", "mean", _sized),
        number("SD", "sd", _sized),
        Column("of the scorer", _counted, words=True),
    )


def _scorer(row: Row) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(row["scorer"]), at_most=60))


def _counted(row: Row) -> Markup:
    """Say which texts the scorer read only in part or could not score; empty if it does not count them."""
    said = [
        Markup(text).format(show(row, name, write))
        for name, text, write in (
            ("n_cut", f"{{}} {either(row.number('n_cut'), 'text', 'texts')} read in part", count),
            ("n_refused", "{} declined", count),
            ("n_unparseable", "{} unreadable", count),
            ("n_failed", "{} failed", count),
            ("n_inexact", "{} known too inexactly", count),
            ("mean_mass", "mean number mass {}", unsigned),
        )
        if math.isfinite(row.number(name)) and (name != "n_inexact" or row.number(name) > 0)
    ]
    return Markup(", ").join(said)


def _cautions(measures: Mapping[str, Row]) -> list[Markup]:
    """List each caution once, with its measures."""
    of: dict[str, list[str]] = {}
    for row in measures.values():
        if row["caution"]:
            of.setdefault(str(row["caution"]).removesuffix("."), []).append(str(row["title"]))
    return [
        Markup("<strong>{}</strong>: {}").format(", ".join(titles), f"{caution[:1].upper()}{caution[1:]}.")
        for caution, titles in of.items()
    ]


def _outcomes_table(rows: Sequence[Row]) -> Table:
    return table_of(
        rows,
        Column("pairs", lambda row: str(row["pairs"]).replace("_", "-")),
        number("prompts", "n_prompts", count),
        *(number(status.value.replace("_", " "), f"n_{status.value}", count) for status in ReplyStatus),
        number("mean tokens", "mean_tokens", _sized),
    )


def _chosen(
    tables: Mapping[str, Table], gaps: Sequence[Row], measures: Mapping[str, Row], *, room: int
) -> list[tuple[str, Table]]:
    """Choose the tables that fit on the page: those of the smallest p, in the measures' order."""
    p = {str(row["outcome"]): row.number("p") for row in gaps}
    # A measure with the same number for all replies has nothing to show.
    varying = [name for name in tables if math.isfinite(p.get(name, math.nan))]
    chosen: set[str] = set()
    used = 0
    for name in sorted(varying, key=lambda name: p[name]):
        used += sum(len(row) - 1 for row in tables[name].rows)
        if used > room and chosen:
            break
        chosen.add(name)
    return [
        (f"{measures[name]['title']} ({measures[name]['unit']})", tables[name]) for name in varying if name in chosen
    ]


def _groups(rows: Sequence[Row], *, level: str) -> dict[str, Table]:
    """Return each group's own gap, by measure."""
    by_measure: dict[str, list[Row]] = {}
    for row in rows:
        by_measure.setdefault(str(row["outcome"]), []).append(row)
    return {
        measure: table_of(
            own,
            names("group", "member"),
            Column("δ", _show_gap),
            Column(f"{level} interval", show_rounded_interval),
            number("p", "p", bare_p),
            number("corrected p", "p_adjusted", bare_p),
        )
        for measure, own in by_measure.items()
    }


def _cells(rows: Sequence[Row]) -> dict[str, Table]:
    """Return the mean of each pair of identities, by measure."""
    by_measure: dict[str, dict[str, dict[str, Row]]] = {}
    for row in rows:
        own = by_measure.setdefault(str(row["outcome"]), {})
        own.setdefault(str(row["perceiver"]), {})[str(row["experiencer"])] = row
    tables = {}
    for measure, matrix in by_measure.items():
        experiencers = list(dict.fromkeys(name for cells in matrix.values() for name in cells))
        tables[measure] = Table(
            ("perceiver", *(f"to {brief(name)}" for name in experiencers)),
            tuple(
                (
                    Markup("<bdi>{}</bdi>").format(brief(perceiver)),
                    *(show(cells[name], "mean", _sized) if name in cells else "" for name in experiencers),
                )
                for perceiver, cells in matrix.items()
            ),
        )
    return tables


def _read(
    key: tuple[str, str],
    replies: pd.DataFrame,
    values: pd.DataFrame,
    measures: Mapping[str, Row],
    narratives: Mapping[str, str],
    *,
    seed: int,
) -> Iterator[tuple[str, tuple[Shown, ...]]]:
    """Yield a few narratives with a few replies each, drawn by the run's seed, half of them in-group."""
    own = replies.loc[(replies["dimension"] == key[0]) & (replies["variant"] == key[1])]
    own = own.loc[~own["perceiver_group"].isin(BASELINES) & ~own["experiencer_group"].isin(BASELINES)]
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(map(str, own["narrative_id"])))
    for name in sorted(rng.permutation(names)[:_SHOWN_NARRATIVES].tolist()):
        to_it = own.loc[own["narrative_id"] == name]
        inside = to_it["in_group"].fillna(False).astype(bool)
        halves = [to_it.loc[inside], to_it.loc[~inside]]
        chosen = [half.iloc[np.sort(rng.permutation(len(half))[: _SHOWN_REPLIES // 2])] for half in halves if len(half)]
        text = narratives.get(name, "")
        shown = tuple(_shown(row, values, measures) for half in chosen for row in half.to_dict("records"))
        yield (f"{name}: {text}" if text else name), shown


def _shown(row: Mapping[Any, Any], values: pd.DataFrame, measures: Mapping[str, Row]) -> Shown:
    place = row["prompt_index"]
    numbers: tuple[tuple[str, str], ...] = ()
    if place in values.index and row["status"] in SCORED:
        scored = values.loc[place].dropna()
        numbers = tuple((str(measures[str(name)]["title"]), _plain(float(value))) for name, value in scored.items())
    status = "" if row["status"] == ReplyStatus.WRITTEN.value else str(row["status"]).replace("_", " ")
    inside = "in-group" if bool(row["in_group"]) else "out-group"
    return Shown(f"{row['perceiver']} to {row['experiencer']} ({inside})", str(row["text"]), status, numbers)


def _plain(value: float) -> str:
    """Write one reply's number; whole numbers are counts or answers and get no decimals."""
    return fixed(value, decimals=0) if value.is_integer() else _sized(value)


def _named(row: Row, measures: Mapping[str, Row]) -> str:
    return str(measures[str(row["outcome"])]["title"])


def _unit(measures: Mapping[str, Row], row: Row) -> str:
    return str(measures[str(row["outcome"])]["unit"])
