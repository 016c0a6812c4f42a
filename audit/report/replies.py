"""Tables, figures and manifest of one run of replies to one self-contained page, built as a run of ratings' is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from audit.grid import BASELINES
from audit.report.beside import beside
from audit.report.controlled import NOT_CONTROLLED, UNCONTROLLED, Control, controls_of_measures
from audit.report.downloads import pack
from audit.report.manifest import view_manifest
from audit.report.numbers import Row, rounded, rows_of, show, show_rounded_interval, show_sum
from audit.report.page import Picture, asset, encodable, environment, picture, policy
from audit.report.render import RemarkLike, keys_of, limits_by_text, title_of
from audit.report.sentences import LIMITS
from audit.report.tables import Table, calls_table, measure_controls_table
from audit.report.texts import FIGURE_CAPTION, TextSection, text_section
from audit.report.words import TaskWords
from audit.runs.manifest import Manifest
from audit.tables.registry import REPLY_TABLES
from audit.tables.replies import SCORED, ReplyStatus
from audit.tables.shared import OVERALL
from audit.wording import bare_p, brief, count, coverage, either, error_rate, fixed, plural, points, unsigned

_MAX_DOWNLOADS: Final = 500_000
_SHOWN_NARRATIVES: Final = 4
"""Narratives of each dimension whose replies can be read on the page."""
_SHOWN_REPLIES: Final = 6
"""Replies to each of them, in-group and out-group in turn."""
_SHOWN_GAPS: Final = 5
"""Gaps that an answer names; the others stand in the table."""
_MAX_CELLS: Final = 4_000
"""Means of pairs on the page, and gaps of groups: a hundred bytes each, and nobody reads more."""
_MAX_GROUPS: Final = 1_000
_BETTER: Final = {"higher": "higher is better", "lower": "lower is better", "neither": "no way is better"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A reply to read: whose, to whom, what became of it, and its numbers."""

    whose: str
    text: str
    status: str
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a card says of one dimension and variant.

    Attributes
    ----------
    kind
        ``gap``, ``undecided`` or ``absent``.
    verdict, lead
        The same in words, and what stands behind it.
    head, gaps
        Measures with a gap: what each is called, δ with its unit, and its interval; and what stands above them.
    """

    kind: str
    verdict: str
    lead: Markup
    head: str = ""
    gaps: tuple[tuple[str, Markup, Markup], ...] = ()


@dataclass(frozen=True, slots=True)
class Beneath:
    """Tables of single measures, and how many more there would be."""

    tables: tuple[tuple[str, Table], ...]
    n_more: int


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page shows of one dimension and variant."""

    anchor: str
    title: str
    answer: Answer
    forest: Picture | None
    gaps: Table
    controls: Table | None
    wider: Table | None
    outcomes: Table | None
    groups: Beneath
    cells: Beneath
    texts: TextSection | None
    calls: Table | None
    read: tuple[tuple[str, tuple[Shown, ...]], ...]


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
    """Render the report of one run of replies.

    Parameters
    ----------
    manifest
        The run's manifest; see :func:`~audit.report.manifest.view_manifest` for what must be there.
    tables
        The tables of ``tables.REPLY_TABLES`` by name, as they are written (indexed from 0).
    figures
        SVG by name: ``measures-<dimension>-<variant>`` and ``texts-<dimension>-<variant>``. An absent one is left out.
    remarks
        What limits the numbers, in words.
    replies, values
        Columns of ``tables.REPLIES``; and a column a measure, indexed by ``prompt_index``: of them the replies to
        read are taken.
    narratives
        The narratives' texts by identifier; one that is not known is shown by its identifier alone.
    words
        What is said of the task.

    Returns
    -------
    str
        A whole HTML document, encodable as UTF-8.
    """
    task = manifest.task
    view = view_manifest(manifest, rated=False, shown=_told(manifest))
    known = {name: tables.get(name, pd.DataFrame(columns=list(columns))) for name, columns in REPLY_TABLES.items()}
    measures = {str(row["measure"]): row for row in rows_of(known["measures"], "measures")}
    keys = sorted(dict.fromkeys(keys_of(known["measure_gaps"])), key=lambda key: key[0] == OVERALL)
    several = len({variant for _, variant in keys}) > 1
    sections = [
        _section(
            key,
            f"part-{place}",
            known,
            figures,
            measures,
            confidence=view.confidence,
            several=several,
            share=1 / len(keys),
            read=_read(key, replies, values, measures, narratives, seed=manifest.seed),
        )
        for place, key in enumerate(keys, start=1)
    ]
    whole = rows_of(known["reply_outcomes"].loc[known["reply_outcomes"]["pairs"] == "all"], "reply_outcomes")
    downloads, packed = pack(tables, max_bytes=_MAX_DOWNLOADS)
    script = asset("downloads.js")
    page = environment().get_template("replies.html.j2").render(
        run=view,
        task=task,
        words=words,
        beside=beside(known, {name: str(row["title"]) for name, row in measures.items()}, confidence=view.confidence),
        sections=sections,
        n_prompts=show_sum(whole, "n_prompts", count),
        n_scored=[show_sum(whole, f"n_{status}", count) for status in (ReplyStatus.WRITTEN, ReplyStatus.CUT)],
        limits=list(limits_by_text(remarks, {code: title for code, (title, _) in LIMITS.items()}, several=several)),
        remarks=[remark for remark in remarks if remark.code not in LIMITS],
        measures=_measures_table([row for row in measures.values() if row["status"] == "scored"]),
        cautions=_cautions(measures),
        absent=[(row["title"], row["note"]) for row in measures.values() if row["status"] == "absent"],
        downloads=downloads,
        packed=Markup(packed),
        alpha=error_rate(view.confidence),
        style=asset("style.css"),
        script=script,
        policy=policy(script),
    )  # fmt: skip
    return encodable(page)


def _told(manifest: Manifest) -> dict[str, object]:
    """Leave out what the page shows elsewhere: what the scorers measure, and which are absent."""
    scorers = {name: taken.facts.content for name, taken in manifest.scorers.items()}
    return {name: value for name, value in manifest.content.items() if name != "absent"} | {"scorers": scorers}


def _section(
    key: tuple[str, str],
    anchor: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    measures: Mapping[str, Row],
    *,
    confidence: float,
    several: bool,
    share: float,
    read: Iterator[tuple[str, tuple[Shown, ...]]],
) -> Section:
    own = {
        name: table.loc[[found == key for found in keys_of(table)]]
        for name, table in tables.items()
        if "dimension" in table
    }
    title = title_of(key, several=several)
    headlines = rows_of(own["measure_gaps"].loc[own["measure_gaps"]["headline"].astype(bool)], "measure_gaps")
    narrow = [row for row in headlines if row["scope"] == "narratives"]
    wide = [row for row in headlines if row["scope"] == "narratives_and_terms" and math.isfinite(row.number("se"))]
    level, suffix = coverage(confidence), f"{key[0]}-{key[1]}"
    forest = picture(figures.get(f"measures-{suffix}"), f"Figure: δ of each measure, {title}. Its numbers are below.")
    drawn = picture(figures.get(f"texts-{suffix}"), f"Figure: {FIGURE_CAPTION}")
    outcomes = rows_of(own["reply_outcomes"], "reply_outcomes")
    of_all = key[0] == OVERALL
    beneath = tables["measure_controls"].loc[tables["measure_controls"]["variant"] == key[1]] if of_all else None
    single = None if beneath is None else beneath.loc[~beneath["dimension"].str.contains("+", regex=False)]
    controls = controls_of_measures(own["measure_controls"] if single is None else single, several=of_all)
    of_groups = own["measure_families"].loc[own["measure_families"]["family"] == "group"]
    groups = _groups(rows_of(of_groups, "measure_families"), level=level)
    cells = _cells(rows_of(own["measure_cells"], "measure_cells"))
    return Section(
        anchor=anchor,
        title=title,
        answer=_answer(narrow, measures, controls, confidence=confidence),
        forest=forest,
        gaps=_gaps_table(narrow, measures, level=level),
        controls=measure_controls_table(own["measure_controls"], partial(_named, measures=measures), level=level),
        wider=_gaps_table(wide, measures, level=level, wide=True) if wide else None,
        outcomes=_outcomes_table(outcomes) if outcomes else None,
        groups=_beneath(groups, narrow, measures, room=int(_MAX_GROUPS * share)),
        cells=_beneath(cells, narrow, measures, room=int(_MAX_CELLS * share)),
        texts=text_section(
            own["stage_texts"],
            own["marked_words"],
            title=title,
            confidence=confidence,
            figure=None if drawn is None else (drawn, f"{title}: {FIGURE_CAPTION}"),
        ),
        calls=calls_table(own["calls"]),
        read=tuple(read),
    )


def _answer(
    rows: Sequence[Row], measures: Mapping[str, Row], controls: Mapping[str, Control], *, confidence: float
) -> Answer:
    """Say which measures show a gap after correction, and which way; or what the others leave possible.

    A gap that does not go beyond that of invented groups is none between groups.
    """
    alpha = 1 - confidence
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    if not tested:
        return Answer("absent", "Nothing could be tested", Markup("Why stands beside each measure below."))
    shown = sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: row.number("p"))
    lead = Markup("Tested: {}, with p corrected for their number").format(plural(len(tested), "measure"))
    if len(tested) < len(rows):
        lead += Markup("; {} more could not be tested").format(count(len(rows) - len(tested)))
    of_words = [row for row in shown if _is_of_words(controls.get(str(row["measure"]), UNCONTROLLED))]
    if shown:
        first = f"The {_SHOWN_GAPS} gaps of the smallest p" if len(shown) > _SHOWN_GAPS else "δ"
        told = [controls.get(str(row["measure"]), UNCONTROLLED) for row in shown]
        if any(control.kind == "echo_free" for control in told):
            lead += Markup(". Of pairs without a word in common, where a measure allows it")
        if of_words:
            names = Markup(", ").join(_named(row, measures) for row in of_words[:_SHOWN_GAPS])
            more = len(of_words) - _SHOWN_GAPS
            rest = Markup(" and {} more").format(count(more)) if more > 0 else Markup("")
            lead += Markup(". No more than invented groups show: {}{}").format(names, rest)
        if any(control.kind == "none" for control in told):
            lead += Markup(". {}").format(NOT_CONTROLLED.rstrip("."))
        n_between = len(shown) - len(of_words)
        between = " between groups" if all(control.kind != "none" for control in told) else ""
        return Answer(
            "gap" if n_between else "echo",
            f"A gap{between} in {plural(n_between, 'measure')}" if n_between else "No more than invented groups show",
            lead + ".",
            f"{first}, in-group minus out-group, with {coverage(confidence)} intervals:",
            tuple(
                (
                    _named(row, measures),
                    Markup("{} {}").format(_show_gap(row), _unit(measures, row)),
                    show_rounded_interval(row),
                )
                for row in shown[:_SHOWN_GAPS]
            ),
        )
    said = Markup("{}. That none shows a gap does not mean that there is none{}.")
    reach = _reach(tested, level=coverage(confidence))
    return Answer("undecided", "No measure shows a gap", said.format(lead, reach))


def _is_of_words(control: Control) -> bool:
    return control.kind == "placebo" and not control.goes_beyond


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
    """Write a mean: three digits, or as a gap where it is smaller than ten."""
    if not abs(value) >= 10:
        return unsigned(value)
    return fixed(value, decimals=max(0, 2 - math.floor(math.log10(abs(value)))))


def _gaps_table(rows: Sequence[Row], measures: Mapping[str, Row], *, level: str, wide: bool = False) -> Table:
    """Lay out gaps; those of the wider scope have no correction, and the same narratives and replies."""
    head = ("measure", "δ", f"{level} interval", "p", "δ in SD")
    if wide:
        return Table(
            (*head, "note"),
            tuple((*_gap_cells(row, measures), str(row["note"] or "")) for row in rows),
            words=frozenset((len(head),)),
        )
    return Table(
        (*head[:4], "corrected p", head[4], "narratives", "replies", "missing", "estimator", "note"),
        tuple(
            (
                *_gap_cells(row, measures)[:4],
                show(row, "p_adjusted", bare_p),
                *_gap_cells(row, measures)[4:],
                Markup("{} of {}").format(show(row, "n_narratives", count), show(row, "n_narratives_asked", count)),
                show(row, "n_replies", count),
                show(row, "n_missing", count),
                str(row["estimator"]),
                str(row["note"] or ""),
            )
            for row in rows
        ),
        words=frozenset((9, 10)),
    )


def _gap_cells(row: Row, measures: Mapping[str, Row]) -> tuple[str, ...]:
    return (
        Markup('{}<br><span class="small">{}</span>').format(_named(row, measures), _unit(measures, row)),
        _show_gap(row),
        show_rounded_interval(row),
        show(row, "p", bare_p),
        show(row, "delta_sd", rounded(row, "sd_ci_low", "sd_ci_high")),
    )


def _measures_table(rows: Sequence[Row]) -> Table:
    return Table(
        ("measure", "unit", "taken by", "formula", "better", "replies with a number", "mean", "SD", "of the scorer"),
        tuple(
            (
                row["title"],
                row["unit"],
                Markup("<bdi>{}</bdi>").format(brief(str(row["scorer"]), at_most=60)),
                row["source"],
                _BETTER[str(row["better"])],
                Markup("{} of {}").format(show(row, "n_scored", count), show(row, "n_replies", count)),
                show(row, "mean", _sized),
                show(row, "sd", _sized),
                _counted(row),
            )
            for row in rows
        ),
        words=frozenset((1, 2, 3, 4, 8)),
    )


def _counted(row: Row) -> Markup:
    """Say what the scorer did not read to the end, or had no score for; nothing where it counts nothing."""
    said = [
        Markup(text).format(show(row, name, write))
        for name, text, write in (
            ("n_cut", f"{{}} {either(row.number('n_cut'), 'text', 'texts')} read in part", count),
            ("n_refused", "{} declined", count),
            ("n_unparseable", "{} unreadable", count),
            ("n_failed", "{} failed", count),
            ("mean_mass", "mean number mass {}", unsigned),
        )
        if math.isfinite(row.number(name))
    ]
    return Markup(", ").join(said)


def _cautions(measures: Mapping[str, Row]) -> list[tuple[str, str]]:
    """Say each caution once, and of which measures."""
    of: dict[str, list[str]] = {}
    for row in measures.values():
        if row["caution"]:
            of.setdefault(str(row["caution"]).removesuffix("."), []).append(str(row["title"]))
    return [(", ".join(titles), f"{caution[:1].upper()}{caution[1:]}.") for caution, titles in of.items()]


def _outcomes_table(rows: Sequence[Row]) -> Table:
    names = [status.value for status in ReplyStatus]
    return Table(
        ("pairs", "prompts", *(name.replace("_", " ") for name in names), "mean tokens"),
        tuple(
            (
                str(row["pairs"]).replace("_", "-"),
                show(row, "n_prompts", count),
                *(show(row, f"n_{name}", count) for name in names),
                show(row, "mean_tokens", _sized),
            )
            for row in rows
        ),
    )


def _beneath(tables: Mapping[str, Table], gaps: Sequence[Row], measures: Mapping[str, Row], *, room: int) -> Beneath:
    """Choose the tables that have room on the page: of the measures with the smallest p, in the measures' order."""
    p = {str(row["measure"]): row.number("p") for row in gaps}
    # In a measure in which all replies are alike there is nothing to see.
    varying = [name for name in tables if math.isfinite(p.get(name, math.nan))]
    chosen: set[str] = set()
    used = 0
    for name in sorted(varying, key=lambda name: p[name]):
        used += sum(len(row) - 1 for row in tables[name].rows)
        if used > room and chosen:
            break
        chosen.add(name)
    shown = tuple(
        (f"{measures[name]['title']} ({measures[name]['unit']})", tables[name]) for name in varying if name in chosen
    )
    return Beneath(shown, len(tables) - len(shown))


def _groups(rows: Sequence[Row], *, level: str) -> dict[str, Table]:
    """Return, measure by measure, each group's own gap."""
    by_measure: dict[str, list[Row]] = {}
    for row in rows:
        by_measure.setdefault(str(row["measure"]), []).append(row)
    return {
        measure: Table(
            ("group", "δ", f"{level} interval", "p", "corrected p"),
            tuple(
                (
                    Markup("<bdi>{}</bdi>").format(brief(str(row["member"]))),
                    _show_gap(row),
                    show_rounded_interval(row),
                    show(row, "p", bare_p),
                    show(row, "p_adjusted", bare_p),
                )
                for row in own
            ),
        )
        for measure, own in by_measure.items()
    }


def _cells(rows: Sequence[Row]) -> dict[str, Table]:
    """Return, measure by measure, the mean of each pair of identities."""
    by_measure: dict[str, dict[str, dict[str, Row]]] = {}
    for row in rows:
        own = by_measure.setdefault(str(row["measure"]), {})
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
    """Yield some narratives with some replies to each, drawn by the run's seed, half of them in-group."""
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
    """Write one reply's number, of which whole ones are counts and answers."""
    return fixed(value, decimals=0) if value.is_integer() else _sized(value)


def _named(row: Row, measures: Mapping[str, Row]) -> str:
    return str(measures[str(row["measure"])]["title"])


def _unit(measures: Mapping[str, Row], row: Row) -> str:
    return str(measures[str(row["measure"])]["unit"])
