"""The self-contained report of a run of replies, built like that of a run of ratings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from audit.report.cell_matrix import BASELINES
from audit.report.dimensions import RemarkLike, keys_of, limits_by_text, note_on, title_of
from audit.report.disparities import MEASURE_DISPARITY_MEANING
from audit.report.effect_size import story_check
from audit.report.manifest import view_manifest
from audit.report.numbers import PlacedRow, rounded, show, show_sum
from audit.report.page import isolated, prose
from audit.report.results import Results, with_absent
from audit.report.run_page import OTHER_PROMPTS, answer_section, asked_section, page_section, render_run
from audit.report.section import Block, Captioned, Paragraph, Section, bullets, captioned, paragraph, present, section
from audit.report.sentences import LIMITS_OF_REPLIES, contradicting
from audit.report.summary import RenderedPage
from audit.report.table_layout import Named, ShownColumn, ShownTable, lay_out, named, out_of, said, sized
from audit.report.tables import calls, estimable, measure_controls
from audit.report.texts import FIGURE_CAPTION, text_section
from audit.report.verdicts import next_step, worded
from audit.runs.manifest import Manifest
from audit.tables.formatting import brief, count, either, fixed, plural, unsigned
from audit.tables.replies import SCORED, ReplyStatus
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tables.shared import OVERALL
from audit.tasks.reply.first_screen import Replied, summary_of_replies
from audit.tasks.reply.group_section import group_section
from audit.tasks.reply.measure_disparities import Measures, head_of_measure
from audit.tasks.reply.page_sections import topic_sections
from audit.tasks.task_words import TaskWords
from stimuli.words import capital

_SHOWN_NARRATIVES: Final = 4  # narratives of each dimension with replies to read on the page
_SHOWN_REPLIES: Final = 6  # replies to each of them, half in-group and half out-group
_MAX_CELLS: Final = 4_000  # most means of pairs on the page: each takes a hundred bytes, and nobody reads more
_MAX_GROUPS: Final = 1_000
_MAX_ROWS: Final = 400  # most rows of disparities of single measures
_BETTER: Final = {"higher": "higher is better", "lower": "lower is better", "neither": "neither is better"}
_OF_GROUPS: Final = "Each interval is for its own row. The corrected p (Holm) is for the groups of one measure."
_prose: Final = partial(prose, "audit.tasks.reply:prose")


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply to read: whose, to whom, its status, and its numbers."""

    whose: str
    pieces: tuple[tuple[str, str], ...]  # the text in pieces, each with what it is a rationale of, if of anything
    status: str
    numbers: tuple[tuple[str, str], ...]


def render_replies(
    *,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
    replies: pd.DataFrame,
    values: pd.DataFrame,
    rationales: pd.DataFrame,
    narratives: Mapping[str, str],
    words: TaskWords,
) -> RenderedPage:
    """Render the report of one run of replies, as HTML that can be encoded as UTF-8.

    The replies to read are drawn from ``replies`` and ``values``, which has one column a measure, indexed by
    ``prompt_index``; ``rationales`` are marked in them. A narrative without a text is shown by its identifier.
    """
    task = manifest.task
    view = view_manifest(manifest, rated=False, shown=_told(manifest))
    known = with_absent(tables, REPLY_TABLES)
    results = Results(known, REPLY_TABLES, view.confidence, figures)
    measures = {str(row["measure"]): row for row in results.rows("measures")}
    keys = sorted(dict.fromkeys(keys_of(known["gap"])), key=lambda key: key[0] == OVERALL)
    several = len({variant for _, variant in keys}) > 1
    read = bool(manifest.outside.replies)
    written = [
        Replied(results.of(key, title_of(key, several=several)), f"part-{place}", measures)
        for place, key in enumerate(keys, start=1)
    ]
    limits = list(
        limits_by_text(remarks, {code: title for code, (title, _) in LIMITS_OF_REPLIES.items()}, several=several)
    )
    stands_beside = list(topic_sections(results, {name: str(row["title"]) for name, row in measures.items()}))
    absent = [(row["title"], row["note"]) for row in measures.values() if row["status"] == "absent"]
    whole = results.rows("reply_outcomes", pairs="all")
    whose = all(remark.code != "no_perceivers" for remark in remarks)
    check = Markup("Check {}").format(story_check(results)) if results.row("manipulation") and not read else ""
    first = summary_of_replies(written, words=words, view=view, limits=limits, whose=whose, check=check)
    heading = words.heading if whose else words.heading_groups
    before, after = heading.split("{}")
    shown = [
        (each.title, list(_read(each, replies, values, rationales, measures, narratives, manifest.seed)))
        for each in written
    ]
    sections = [
        answer_section(
            f"{words.question} Who gets less?" if whose else words.of_groups, first,
            Markup("{} {}").format(words.asked if whose else words.asked_groups, MEASURE_DISPARITY_MEANING),
            _prose("absent", absent) if absent else None,
            *(note_on(remark) for remark in remarks if remark.code not in LIMITS_OF_REPLIES),
            limits=limits, cards=[card for each in written for card in each.cards(whose=whose)],
            none="No dimension was measured.", folded="Each answer in full",
        ),
        page_section(
            "dimensions", "Evidence", "Evidence: whose side?" if whose else "Evidence",
            *(
                _part(each, share=1 / len(written), whose=whose, n_left_out=view.left_out.get(each.own.key[0], 0))
                for each in written
            ),
            section("Replies to read", _prose("read", shown, whose), anchor="read", look="folded"),
        ),
        section(
            "Groups: who gets less?",
            *(
                group_section(
                    each.own, each.disparity,
                    results.rows("disparity", variant=each.own.key[1], invented=True),
                    room=int(_MAX_ROWS / len(written)), anchor=each.groups_anchor,
                )
                for each in written if each.disparity.answers
            ),
            anchor="groups", label="Groups", look="page",
        ),
        *stands_beside,
        asked_section(
            view,
            {
                "Analysed on" if read else "Run started": view.date,
                "File of replies" if read else "Narratives": isolated(view.stimuli),
                "Prompt variant": "" if read else isolated(view.variant),
                "Strategy": view.strategy and isolated(view.strategy),
                "Replies": Markup("{} written and {} cut of {}{}").format(
                    *(show_sum(whole, name, count) for name in ("n_written", "n_cut", "n_prompts")),
                    "" if read else f" prompts; up to {task.max_tokens} tokens, temperature {task.temperature}",
                ),
            },
            "", OTHER_PROMPTS,
            section(
                "What δ and D are, and are not" if whose else "What D is, and is not",
                _prose("meaning", any(each.anchor == "people" for each in stands_beside), whose), anchor="meaning",
            ),
            section(
                "What was measured",
                results.table(
                    "measures", "The measures, their scorers, and their mean over all replies including baselines",
                    *_OF_MEASURES,
                    rows=[row for row in measures.values() if row["status"] != "absent"],
                ),
                bullets(_cautions(measures)), _prose("measures"), anchor="measures", look="folded",
            ),
            section("Do the replies match the story?", _check(results), anchor="check", look="folded"),
            section("How δ is estimated", _prose("estimators"), look="folded") if whose else None,
        ),
    ]  # fmt: skip
    return render_run(
        view,
        first,
        sections,
        title=heading.replace("{}", view.model),
        heading=Markup("{}<bdi>{}</bdi>{}").format(before, view.model, after),
        kicker=f"report of written {words.texts}",
        tables=tables,
        cite=_prose("cite", view),
    )  # fmt: skip


def _check(results: Results) -> Captioned | None:
    """Show whether replies match the story."""
    return results.table(
        "manipulation",
        "Percent of a reply's own words that are in the story that it answers, and in another one of the same emotion, "
        "or of one that is as pleasant. Identities, and copies of five or more words in a row, are left out. The check "
        "is passed if the interval is above the required difference, and failed, so that there is no verdict, if it is "
        "below",
        "answer", "n_asked", "n_pairs", ("mean_higher", "in its own story, %"), ("mean_lower", "in another one, %"),
        "difference", "ci_low", "p", "share_higher", "least_response", "n_needed", "note",
    )  # fmt: skip


def _part(each: Replied, *, share: float, whose: bool, n_left_out: int) -> Section:
    """Show the evidence on a dimension and variant; ``share`` is its share of the room for tables."""
    gap = Paragraph(each.verdict.words, "lead"), Paragraph(each.verdict.lead)
    less = paragraph(contradicting(n_left_out) if n_left_out else "", "small")
    figure = each.own.picture(
        "-".join(("measures", *each.own.key)),
        "δ of each measure of single replies, in standard deviations of the measure over replies, so that measures "
        "can be compared. A filled mark is a gap that was found. A measure without a δ is only in the table.",
        alt=f"δ of each measure, {each.title}. Its numbers are below.",
    )
    content = present(
        section("", section("", *gap, less, look="words"), figure if whose else None, look="sides"),
        *((section("δ of each measure", *_gaps(each), look="folded"), *_groups_and_pairs(each, share=share)) if whose
          else ()),
        section("What happened to the replies", *_of_replies(each), look="folded"),
    )  # fmt: skip
    return Section(each.title, content, anchor=each.anchor, look="part")


def _gaps(each: Replied) -> Iterator[Block | None]:
    """Yield the tables of δ."""
    own = each.own
    measure = ShownColumn("measure", lambda row: head_of_measure(each.name_of(row), each.unit_of(row)))
    yield own.table(
        "verdicts", "the verdict on each measure, and the estimate it uses, in the measure's unit",
        measure, ShownColumn("verdict", lambda row: worded(row).words, words=True), "delta", "ci_low", "p_adjusted",
        _IN_SD, "n_narratives", ShownColumn("what next", next_step, words=True),
    )  # fmt: skip
    yield own.table(
        "gap", "δ of each measure, in its own unit. Intervals cover narratives like these, for exactly these "
               "identities",
        measure, "delta", "ci_low", "p", "p_adjusted", _IN_SD,
        out_of("narratives", "n_narratives", "n_narratives_asked"), "n_answers", "n_missing", "estimator", "note",
        rows=each.narrow,
    )  # fmt: skip
    controls = own.table(
        "controls",
        "δ of each measure by which pairs are counted, and δ of invented groups, about which the model cannot know "
        "anything",
        *measure_controls(each.name_of),
        rows=[row for row in estimable(own.rows("controls")) if row["control"] != "wording"],
    )
    yield section("Groups or repeated words?", controls, look="folded")
    noise = own.table(
        "controls", "how much δ of each measure would vary if all prompts were asked again, in the measure's unit. A δ "
                    "of less than twice that is not found",
        measure, ("se", "would vary by"), "n_narratives", "note",
        rows=[row for row in own.rows("controls", control="noise") if math.isfinite(row.number("se"))],
    )  # fmt: skip
    yield section("What asking again would change", noise, look="folded")
    rewordings = own.table(
        "controls", "δ of each measure over all wordings of the prompt. Intervals cover narratives and wordings like "
                    "these, for exactly these identities. δ in each wording is in tables/wordings.csv",
        measure, "delta", "ci_low", "p", "n_narratives", ("levels", "wordings"), "note",
        rows=[row for row in own.rows("controls", control="wording") if math.isfinite(row.number("delta"))],
    )  # fmt: skip
    yield section("Other wordings of the prompt", rewordings, look="folded")
    wide = own.table(
        "gap", "δ of each measure. Intervals cover narratives and groups like these. p is not corrected",
        measure, "delta", "ci_low", "p", _IN_SD, "note",
        rows=[row for row in each.headlines("narratives_and_terms") if math.isfinite(row.number("se"))],
    )  # fmt: skip
    yield section("The same gaps, with intervals that cover other groups, too", wide, look="folded")


def _groups_and_pairs(each: Replied, *, share: float) -> Iterator[Block | None]:
    """Yield each group's own gap, and the mean of each pair."""
    own = each.own
    families, cells = own.rows("families", family="group"), own.rows("cells")
    columns = ("member", "group"), "delta", "ci_low", "p", "p_adjusted"
    groups = {
        name: lay_out(REPLY_TABLES["families"], rows, columns, level=own.level)
        for name, rows in _by_measure(families).items()
    }
    shown = _chosen(each, groups, room=int(_MAX_GROUPS * share))
    about = f"{_OF_GROUPS} {_left_out(len(shown), len(groups), 'families')}"
    yield section(
        "Each group's own gap, by measure",
        Paragraph(Markup(about), "small"), *shown, look="folded",
    ) if shown else None  # fmt: skip
    means = {name: _matrix(rows) for name, rows in _by_measure(cells).items()}
    shown = _chosen(each, means, ", perceivers in rows", room=int(_MAX_CELLS * share))
    about = _left_out(len(shown), len(means), "cells")
    yield section(
        "Mean of each pair, by measure", paragraph(Markup(about), "small"), *shown, look="folded"
    ) if shown else None  # fmt: skip


def _of_replies(each: Replied) -> Iterator[Block | None]:
    """Yield what became of the replies, of the strategy's calls and of the texts of its stages."""
    own, suffix = each.own, "-".join(each.own.key)
    yield own.table(
        "reply_outcomes",
        "what happened to the replies. Cut: reached the token limit, and scored up to there. Refused, empty, in "
        "another script or failed: not in any measure but their own",
        ShownColumn("pairs", lambda row: str(row["pairs"]).replace("_", "-")),
        "n_prompts", *(f"n_{status.value}" for status in ReplyStatus), "mean_tokens",
    )  # fmt: skip
    yield calls(own)
    yield text_section(own, own.picture(f"texts-{suffix}", FIGURE_CAPTION))


def _left_out(n_shown: int, n: int, table: str) -> str:
    """Say where the measures are that do not fit on the page; empty if all do."""
    if n_shown == n:
        return ""
    others = f"{count(n - n_shown)} {either(n - n_shown, 'other is', 'others are')}"
    return f"Shown: {plural(n_shown, 'measure')} with the smallest p. The {others} in <code>tables/{table}.csv</code>."


def _chosen(each: Replied, tables: Mapping[str, ShownTable], more: str = "", *, room: int) -> list[Captioned | None]:
    """Choose the tables that fit on the page: those of the smallest p, in the measures' order."""
    rows = {str(row["outcome"]): row for row in each.narrow}
    # A measure with the same number for all replies has nothing to show.
    varying = [name for name in tables if name in rows and math.isfinite(rows[name].number("p"))]
    chosen: set[str] = set()
    used = 0
    for name in sorted(varying, key=lambda name: rows[name].number("p")):
        used += sum(len(row) - 1 for row in tables[name].rows)
        if used > room and chosen:
            break
        chosen.add(name)
    return [
        captioned(tables[name], f"{each.title}: {each.name_of(rows[name])} ({each.unit_of(rows[name])}){more}")
        for name in varying
        if name in chosen
    ]


def _told(manifest: Manifest) -> dict[str, object]:
    """Leave out of the manifest what the page shows elsewhere: the scorers' measures, and absent ones."""
    scorers = {name: taken.facts.content for name, taken in manifest.scorers.items()}
    return {name: value for name, value in manifest.content.items() if name != "absent"} | {"scorers": scorers}


def _by_measure(rows: Sequence[PlacedRow]) -> dict[str, list[PlacedRow]]:
    by_measure: dict[str, list[PlacedRow]] = {}
    for row in rows:
        by_measure.setdefault(str(row["outcome"]), []).append(row)
    return by_measure


def _matrix(rows: Sequence[PlacedRow]) -> ShownTable:
    """Lay out a measure's means, perceivers in rows."""
    cells = {(str(row["perceiver"]), str(row["experiencer"])): row for row in rows}
    experiencers = list(dict.fromkeys(experiencer for _, experiencer in cells))
    return ShownTable(
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


# --- Measures, and replies to read -----------------------------------------------------------------------------------


def _counted(row: PlacedRow) -> Markup:
    """Say which texts the scorer read only in part or could not score; empty if it does not count them."""
    said = [
        Markup(text).format(show(row, name, write))
        for name, text, write in (
            ("n_cut", f"{{}} {either(row.number('n_cut'), 'text', 'texts')} read in part", count),
            ("n_refused", "{} declined", count),
            ("n_unparseable", "{} unreadable", count),
            ("n_failed", "{} failed", count),
            ("n_inexact", "{} too inexact", count),
            ("mean_mass", "mean number mass {}", unsigned),
        )
        if math.isfinite(row.number(name)) and (name != "n_inexact" or row.number(name) > 0)
    ]
    return Markup(", ").join(said)


def _taken_by(row: PlacedRow) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(row["scorer"]), at_most=60))


_IN_SD: Final = ShownColumn("δ in SD", lambda row: show(row, "delta_sd", rounded(row, "sd_ci_low", "sd_ci_high")))
_OF_MEASURES: Final[tuple[Named, ...]] = (
    ShownColumn("measure", lambda row: row["title"]), "unit", ShownColumn("scorer", _taken_by, words=True),
    ("source", "formula"), said("better", "better", _BETTER), out_of("replies with a score", "n_scored", "n_replies"),
    "mean", "sd", ShownColumn("not or partly scored", _counted, words=True),
)  # fmt: skip
"""Columns of the measures."""


def _cautions(measures: Measures) -> list[Markup]:
    """List each caution once, with its measures."""
    of: dict[str, list[str]] = {}
    for row in measures.values():
        if row["caution"]:
            of.setdefault(str(row["caution"]).removesuffix("."), []).append(str(row["title"]))
    return [
        Markup("<strong>{}</strong>: {}").format(", ".join(titles), f"{capital(caution)}.")
        for caution, titles in of.items()
    ]


def _read(
    each: Replied,
    replies: pd.DataFrame,
    values: pd.DataFrame,
    rationales: pd.DataFrame,
    measures: Measures,
    narratives: Mapping[str, str],
    seed: int,
) -> Iterator[tuple[str, tuple[ShownReply, ...]]]:
    """Yield a few narratives with a few replies each, drawn by the run's seed, half of them in-group."""
    key = each.own.key
    own = replies.loc[(replies["dimension"] == key[0]) & (replies["variant"] == key[1])]
    whose = not own["perceiver_group"].isin(BASELINES).all()
    own = own.loc[~(own["perceiver_group"].isin(BASELINES) & whose) & ~own["experiencer_group"].isin(BASELINES)]
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(map(str, own["narrative_id"])))
    for name in sorted(rng.permutation(names)[:_SHOWN_NARRATIVES].tolist()):
        to_it = own.loc[own["narrative_id"] == name]
        inside = to_it["in_group"].fillna(False).astype(bool)
        halves = [to_it.loc[inside], to_it.loc[~inside]]
        chosen = [half.iloc[np.sort(rng.permutation(len(half))[: _SHOWN_REPLIES // 2])] for half in halves if len(half)]
        text = narratives.get(name, "")
        shown = tuple(_shown(row, values, rationales, measures) for half in chosen for row in half.to_dict("records"))
        yield (f"{name}: {text}" if text else name), shown


def _shown(row: Mapping[Any, Any], values: pd.DataFrame, rationales: pd.DataFrame, measures: Measures) -> ShownReply:
    place = row["prompt_index"]
    numbers: tuple[tuple[str, str], ...] = ()
    if place in values.index and row["status"] in SCORED:
        scored = values.loc[place].dropna()
        numbers = tuple((str(measures[str(name)]["title"]), _plain(float(value))) for name, value in scored.items())
    status = "" if row["status"] == ReplyStatus.WRITTEN.value else str(row["status"]).replace("_", " ")
    own = rationales.loc[rationales["prompt_index"] == place]
    marks = [(int(a), int(b), str(measures[name]["title"])) for name, a, b in
             zip(own["measure"], own["start"], own["end"], strict=True) if name in measures]  # fmt: skip
    pieces = tuple(_pieces(str(row["text"]), marks))
    if row["perceiver_group"] in BASELINES:
        return ShownReply(f"to {row['experiencer']}", pieces, status, numbers)
    inside = "in-group" if bool(row["in_group"]) else "out-group"
    return ShownReply(f"{row['perceiver']} to {row['experiencer']} ({inside})", pieces, status, numbers)


def _pieces(text: str, marks: Sequence[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """Yield a text in pieces, each with the names of the marks that cover it; marks may overlap."""
    ends = sorted({0, len(text), *(min(end, len(text)) for start, stop, _ in marks for end in (start, stop))})
    for start, end in pairwise(ends):
        names = dict.fromkeys(name for a, b, name in marks if a <= start and end <= b)
        yield text[start:end], ", ".join(names)


def _plain(value: float) -> str:
    """Write one reply's number; whole numbers are counts or answers and get no decimals."""
    return fixed(value, decimals=0) if value.is_integer() else sized(value)
