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
from audit.report.dimensions import Limit, RemarkLike, keys_of, limits_by_text, note_on, title_of
from audit.report.echo import NOT_CONTROLLED
from audit.report.manifest import ManifestView, view_manifest
from audit.report.numbers import Row, rounded, show, show_rounded_interval, show_sum
from audit.report.page import isolated, prose
from audit.report.results import Results
from audit.report.run_page import (
    answer_section,
    asked_section,
    led_by,
    page_section,
    render_run,
    source_of,
    strategy_of,
)
from audit.report.section import Captioned, Card, Paragraph, Section, bullets, captioned, present, section
from audit.report.sentences import LIMITS
from audit.report.summary import CHANGED, NO_GAP, NO_GROUPS, NOT_THE_GROUPS, Finding, Summary, summary
from audit.report.table_layout import Column, Named, Table, lay_out, named, out_of, said, sized
from audit.report.tables import calls, estimable, measure_controls
from audit.report.task_words import TaskWords
from audit.report.texts import FIGURE_CAPTION, text_section
from audit.report.verdicts import NOT_TOLD_APART, next_step, reason_in_words, reasons_of, worded
from audit.runs.manifest import Manifest
from audit.tables.formatting import (
    OF_GROUPS_AND_MODELS,
    brief,
    count,
    coverage,
    either,
    fixed,
    plural,
    points,
    unsigned,
)
from audit.tables.replies import SCORED, ReplyStatus
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tables.shared import OVERALL
from audit.tasks.reply.page_sections import beside

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
_prose: Final = partial(prose, "audit.tasks.reply:prose")
Measures = Mapping[str, Row]
"""The measures by name, for their titles and units."""


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
    results = Results(known, REPLY_TABLES, view.confidence, figures)
    measures = {str(row["measure"]): row for row in results.rows("measures")}
    keys = sorted(dict.fromkeys(keys_of(known["measure_gaps"])), key=lambda key: key[0] == OVERALL)
    several = len({variant for _, variant in keys}) > 1
    written = [
        Written(results.of(key, title_of(key, several=several)), f"part-{place}", measures)
        for place, key in enumerate(keys, start=1)
    ]
    limits = list(limits_by_text(remarks, {code: title for code, (title, _) in LIMITS.items()}, several=several))
    stands_beside = list(beside(results, {name: str(row["title"]) for name, row in measures.items()}))
    absent = [(row["title"], row["note"]) for row in measures.values() if row["status"] == "absent"]
    whole = results.rows("reply_outcomes", pairs="all")
    first = _summary(written, words=words, view=view, limits=limits)
    before, after = words.heading.split("{}")
    sections = [
        answer_section(
            words.question,
            first,
            words.asked,
            _prose("absent", absent) if absent else None,
            *(note_on(remark) for remark in remarks if remark.code not in LIMITS),
            limits=limits,
            cards=[each.card() for each in written],
            none="No dimension was measured.",
        ),
        page_section(
            "dimensions",
            "Dimensions",
            "Dimension by dimension",
            *(each.part(share=1 / len(written)) for each in written),
            _prose("estimators"),
        ),
        *stands_beside,
        page_section(
            "measures",
            "Measures",
            "What was measured",
            results.table(
                "measures",
                "The measures, what took them, and their mean over all replies, baselines included",
                *_OF_MEASURES,
                rows=[row for row in measures.values() if row["status"] == "scored"],
            ),
            bullets(_cautions(measures)),
            _prose("measures"),
        ),
        page_section(
            "read",
            "Replies to read",
            "Replies to read",
            _prose("read", [each.read(replies, values, narratives, seed=manifest.seed) for each in written]),
        ),
        page_section(
            "meaning",
            "What δ means",
            "What δ is and is not",
            _prose("meaning", any(each.anchor == "people" for each in stands_beside)),
        ),
        asked_section(
            view,
            {
                "Run started": view.date,
                "Narratives": isolated(view.stimuli),
                "Prompt variant": isolated(view.variant),
                "Strategy": view.strategy and isolated(view.strategy),
                "Replies": Markup("{} written and {} cut of {} prompts; up to {} tokens, temperature {}").format(
                    *(show_sum(whole, f"n_{status}", count) for status in (ReplyStatus.WRITTEN, ReplyStatus.CUT)),
                    show_sum(whole, "n_prompts", count),
                    task.max_tokens,
                    task.temperature,
                ),
            },
            [strategy_of(view)],
        ),
    ]
    return render_run(
        view,
        first,
        sections,
        title=words.heading.replace("{}", view.model),
        heading=Markup("{}<bdi>{}</bdi>{}").format(before, view.model, after),
        kicker=f"report of written {words.texts}",
        tables=tables,
        cite=_prose("cite", view),
    )  # fmt: skip


class Written:
    """One dimension and variant of a run of replies.

    Parameters
    ----------
    own
        Its results.
    anchor
        Of its part of the page.
    """

    def __init__(self, own: Results, anchor: str, measures: Measures) -> None:
        self.title, self.anchor = own.title, anchor
        self._own, self._measures = own, measures
        self.narrow = self._headlines("narratives")
        self._judged = own.rows("verdicts")
        self.verdict = _verdict(self._judged, measures, confidence=own.confidence)

    def _headlines(self, scope: str) -> list[Row]:
        return [row for row in self._own.rows("measure_gaps", scope=scope) if row["headline"]]

    def name_of(self, row: Row) -> str:
        """Name a row's measure."""
        return _named(row, self._measures)

    def finding(self) -> Finding:
        """Return what the first screen says, with the gap of the smallest p."""
        spread = Markup("")
        if self.verdict.found:
            row = self.verdict.found[0]
            spread = Markup("Smallest p: {} <strong>{}</strong> {}, {} interval {}").format(
                _named(row, self._measures), _show_gap(row), _unit(self._measures, row), self._own.level,
                show_rounded_interval(row),
            )  # fmt: skip
        return Finding(
            self.title, self.verdict.words + self.verdict.counted, spread=spread, kind=self.verdict.kind,
            anchor=self.anchor, weight=len(self.verdict.found),
        )  # fmt: skip

    def card(self) -> Card:
        """Say beneath the summary what was found, with the gaps of the smallest p."""
        found = self.verdict.found
        first = f"The {_SHOWN_GAPS} gaps of the smallest p" if len(found) > _SHOWN_GAPS else "δ"
        return Card(
            self.title,
            present(
                Paragraph(self.verdict.words, "verdict"),
                Paragraph(self.verdict.lead, "lead"),
                Paragraph(f"{first}, in-group minus out-group, with {self._own.level} intervals:", "lead")
                if found
                else None,
                bullets(
                    Markup("{}: <strong>{} {}</strong> ({})").format(
                        _named(row, self._measures), _show_gap(row), _unit(self._measures, row),
                        show_rounded_interval(row),
                    )
                    for row in found[:_SHOWN_GAPS]
                ),
            ),
            kind=self.verdict.kind,
            anchor=self.anchor,
        )  # fmt: skip

    def part(self, *, share: float) -> Section:
        """Show everything beneath its answer; ``share`` is its share of the room for tables."""
        own, suffix = self._own, "-".join(self._own.key)
        wide = [row for row in self._headlines("narratives_and_terms") if math.isfinite(row.number("se"))]
        measure = Column("measure", self._with_unit)
        return Section(
            self.title,
            present(
                Paragraph(self.verdict.words, "lead"),
                Paragraph(self.verdict.lead),
                own.picture(
                    f"measures-{suffix}",
                    "δ of each measure of single replies, in standard deviations of the measure among replies, so that "
                    "units can stand beside each other. A filled mark is a gap that is found. A measure without a δ is "
                    "in the table alone.",
                    alt=f"δ of each measure, {self.title}. Its numbers are below.",
                ),
                own.table(
                    "verdicts",
                    "what was decided of each measure, and the estimate that decides, in its own unit",
                    measure, Column("verdict", lambda row: worded(row).words, words=True), "delta", "ci_low",
                    "p_adjusted", _IN_SD, "n_narratives", Column("to decide", next_step, words=True),
                ),
                own.table(
                    "measure_gaps",
                    "δ of each measure, in its own unit; these identities, any such narratives",
                    measure, "delta", "ci_low", "p", "p_adjusted", _IN_SD,
                    out_of("narratives", "n_narratives", "n_narratives_asked"), "n_replies", "n_missing", "estimator",
                    "note",
                    rows=self.narrow,
                ),
                section(
                    "Groups or repeated words?",
                    own.table(
                        "measure_controls",
                        "δ of each measure by what perceiver and experiencer have in common, and of invented groups, "
                        "of which the model can know nothing",
                        *measure_controls(partial(_named, measures=self._measures)),
                        rows=estimable(own.rows("measure_controls")),
                    ),
                    look="folded",
                ),
                section(
                    "The same gaps, speaking of any such identities too",
                    own.table(
                        "measure_gaps",
                        "δ of each measure; any such identities, any such narratives. p is not corrected",
                        measure, "delta", "ci_low", "p", _IN_SD, "note",
                        rows=wide,
                    ),
                    look="folded",
                ),
                own.table(
                    "reply_outcomes",
                    "what became of the replies. Cut: at the most tokens, and scored as far as they go. Refused, "
                    "empty, in another script or failed: in no measure but their own",
                    Column("pairs", lambda row: str(row["pairs"]).replace("_", "-")),
                    "n_prompts", *(f"n_{status.value}" for status in ReplyStatus), "mean_tokens",
                ),
                calls(own),
                text_section(own, own.picture(f"texts-{suffix}", FIGURE_CAPTION)),
                self._groups(room=int(_MAX_GROUPS * share)),
                self._pairs(room=int(_MAX_CELLS * share)),
            ),
            anchor=self.anchor,
            look="part",
        )  # fmt: skip

    def _groups(self, *, room: int) -> Section | None:
        """Show each group's own gap, by measure."""
        by_measure = _by_measure(self._own.rows("measure_families", family="group"))
        columns = ("member", "group"), "delta", "ci_low", "p", "p_adjusted"
        tables = {
            name: lay_out(REPLY_TABLES["measure_families"], rows, columns, level=self._own.level)
            for name, rows in by_measure.items()
        }
        shown = self._chosen(tables, "", room=room)
        about = "Intervals are for their own row; the corrected p (Holm) is for the groups of one measure."
        if len(tables) > len(shown):
            about += (
                f" Of {len(shown)} measures with the smallest p; those of {len(tables) - len(shown)} others are in "
                "<code>tables/measure_families.csv</code>."
            )
        return section(
            "Each group's own gap, beyond how it is with others, measure by measure",
            Paragraph(Markup(about), "small"), *shown, look="folded",
        ) if shown else None  # fmt: skip

    def _pairs(self, *, room: int) -> Section | None:
        """Show the mean of each pair of identities, by measure."""
        by_measure = _by_measure(self._own.rows("measure_cells"))
        tables = {name: _matrix(rows) for name, rows in by_measure.items()}
        shown = self._chosen(tables, ", perceivers in rows", room=room)
        about = (
            f"Of {len(shown)} measures with the smallest p; those of {len(tables) - len(shown)} others, or in which "
            "all replies are alike, are in <code>tables/measure_cells.csv</code>."
        )
        more = Paragraph(Markup(about), "small") if len(tables) > len(shown) else None
        return section("Mean of each pair, measure by measure", more, *shown, look="folded") if shown else None

    def _chosen(self, tables: Mapping[str, Table], more: str, *, room: int) -> list[Captioned | None]:
        """Choose the tables that fit on the page: those of the smallest p, in the measures' order."""
        p = {str(row["measure"]): row.number("p") for row in self.narrow}
        # A measure with the same number for all replies has nothing to show.
        varying = [name for name in tables if math.isfinite(p.get(name, math.nan))]
        chosen: set[str] = set()
        used = 0
        for name in sorted(varying, key=lambda name: p[name]):
            used += sum(len(row) - 1 for row in tables[name].rows)
            if used > room and chosen:
                break
            chosen.add(name)
        titles = {name: f"{self._measures[name]['title']} ({self._measures[name]['unit']})" for name in chosen}
        return [captioned(tables[name], f"{self.title}: {titles[name]}{more}") for name in varying if name in chosen]

    def _with_unit(self, row: Row) -> Markup:
        unit = _unit(self._measures, row)
        return Markup('{}<br><span class="small">{}</span>').format(_named(row, self._measures), unit)

    def read(
        self, replies: pd.DataFrame, values: pd.DataFrame, narratives: Mapping[str, str], *, seed: int
    ) -> tuple[str, list[tuple[str, tuple[Shown, ...]]]]:
        """Return the title, and a few narratives with a few replies each, drawn by the run's seed."""
        return self.title, list(_read(self._own.key, replies, values, self._measures, narratives, seed=seed))


def _by_measure(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_measure: dict[str, list[Row]] = {}
    for row in rows:
        by_measure.setdefault(str(row["measure"]), []).append(row)
    return by_measure


def _matrix(rows: Sequence[Row]) -> Table:
    """Lay out a measure's means, perceivers in rows."""
    cells = {(str(row["perceiver"]), str(row["experiencer"])): row for row in rows}
    experiencers = list(dict.fromkeys(experiencer for _, experiencer in cells))
    return Table(
        ("perceiver", *(f"to {brief(name)}" for name in experiencers)),
        tuple(
            (
                named(perceiver),
                *(show(cells[perceiver, name], "mean", sized) if (perceiver, name) in cells else ""
                  for name in experiencers),
            )
            for perceiver in dict.fromkeys(perceiver for perceiver, _ in cells)
        ),
    )  # fmt: skip


# --- The answer in words ---------------------------------------------------------------------------------------------


def _summary(written: Sequence[Written], *, words: TaskWords, view: ManifestView, limits: Sequence[Limit]) -> Summary:
    """Write the first screen: which measures show a gap, how large the largest is, and what does not follow."""
    one, more = words.about
    about = Markup(more)
    narrow = [row for each in written for row in each.narrow]
    largest = max(narrow, key=lambda row: row.number("n_narratives_asked"), default=None)
    if largest is not None and largest.number("n_narratives_asked") > 0:
        n = largest.number("n_narratives_asked")
        about = Markup("{} {}").format(show(largest, "n_narratives_asked", count), either(n, one, more))
    # It was asked even if it refused.
    asked = Markup("<bdi>{}</bdi>{} was asked to be a certain person and to {}.").format(
        view.model, led_by(view), Markup(words.to).format(about)
    )
    verdicts = [each.verdict for each in written]
    return summary(
        asked,
        [each.finding() for each in written],
        [("How big", _size(written, words)), ("How it varies", _ways(verdicts))],
        not_concluded=list(_not_concluded(verdicts, words=words, limits=limits)),
        limits=limits,
        source=source_of(view),
        chosen_by="how many gaps were found",
    )


def _size(written: Sequence[Written], words: TaskWords) -> Markup:
    """Say how large the largest gap found is, over the spread of its measure."""
    sized_rows = [
        (abs(row.number("delta_sd")), row, each)
        for each in written
        for row in each.verdict.found
        if math.isfinite(row.number("delta_sd"))
    ]
    if not sized_rows:
        return Markup("")
    _, row, own = max(sized_rows, key=lambda each: each[0])
    several = len({each.title for each in written}) > 1
    return Markup("the largest that is found, {}{}, is {} times the spread (SD) of that measure over all {}.").format(
        own.name_of(row),
        Markup(" (<bdi>{}</bdi>)").format(own.title) if several else "",
        show(row, "delta_sd", lambda value: unsigned(abs(value))),
        words.texts,
    )


def _ways(verdicts: Sequence[Verdict]) -> Markup:
    """Count measures by the sign of the δ found, and those not told apart from invented groups."""
    found = [row for verdict in verdicts for row in verdict.found]
    n = sum(verdict.n_tested for verdict in verdicts)
    if not n:
        return Markup("")
    above = sum(row.number("direction") > 0 for row in found)
    words = Markup("δ is above 0 in {} of {}, below 0 in {} and undecided in {}").format(
        count(above), plural(n, "test"), count(len(found) - above), count(n - len(found))
    )
    alike = sum(verdict.n_alike for verdict in verdicts)
    if alike:
        words += Markup("; {} not {}").format(count(alike), NOT_TOLD_APART.removeprefix("not "))
    return words + "."


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


def _verdict(rows: Sequence[Row], measures: Measures, *, confidence: float) -> Verdict:
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


def _few(rows: Sequence[Row], measures: Measures) -> Markup:
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


def _named(row: Row, measures: Measures) -> str:
    return str(measures[str(row["measure"])]["title"])


def _unit(measures: Measures, row: Row) -> str:
    return str(measures[str(row["measure"])]["unit"])


# --- Measures, and replies to read -----------------------------------------------------------------------------------


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


def _taken_by(row: Row) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(row["scorer"]), at_most=60))


_IN_SD: Final = Column("δ in SD", lambda row: show(row, "delta_sd", rounded(row, "sd_ci_low", "sd_ci_high")))
_OF_MEASURES: Final[tuple[Named, ...]] = (
    Column("measure", lambda row: row["title"]), "unit", Column("taken by", _taken_by, words=True),
    ("source", "formula"), said("better", "better", _BETTER), out_of("replies with a number", "n_scored", "n_replies"),
    "mean", "sd", Column("of the scorer", _counted, words=True),
)  # fmt: skip
"""Columns of the measures."""


def _cautions(measures: Measures) -> list[Markup]:
    """List each caution once, with its measures."""
    of: dict[str, list[str]] = {}
    for row in measures.values():
        if row["caution"]:
            of.setdefault(str(row["caution"]).removesuffix("."), []).append(str(row["title"]))
    return [
        Markup("<strong>{}</strong>: {}").format(", ".join(titles), f"{caution[:1].upper()}{caution[1:]}.")
        for caution, titles in of.items()
    ]


def _read(
    key: tuple[str, str],
    replies: pd.DataFrame,
    values: pd.DataFrame,
    measures: Measures,
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


def _shown(row: Mapping[Any, Any], values: pd.DataFrame, measures: Measures) -> Shown:
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
    return fixed(value, decimals=0) if value.is_integer() else sized(value)
