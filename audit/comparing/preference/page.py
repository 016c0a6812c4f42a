"""The page of a judge's comparison: the preference first, then the judge's position bias, then pairs to read.

Like a run's report it is self-contained and escaped, has no script except for the table of contents, and links every
number to its place in ``tables/``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.comparing.page import comparison_prose
from audit.report.dimensions import Limit, RemarkLike, limits_by_text
from audit.report.numbers import PlacedRow, show
from audit.report.page import isolated, prose, render_page
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Captioned, Card, Note, Paragraph, paragraph, present, section
from audit.report.summary import ShortAnswer, Summary, summary
from audit.report.table_layout import (
    ShownColumn,
    ShownTable,
    Write,
    ends,
    number_column,
    plain_interval,
    statistics_table,
    text,
)
from audit.runs.manifest import JudgementManifest
from audit.tables.formatting import (
    MISSING,
    OF_GROUPS_AND_MODELS,
    bare_p,
    count,
    dimension_title,
    either,
    fixed,
    percentage_points,
    rate,
)

_EACH: Final = 2
"""Pairs of each kind to read on the page, in each dimension."""
NOT_EQUAL: Final = "that the replies are equally good"
NOT_EVERYWHERE: Final = "that the preference is the same for in-group and out-group pairs"
NO_DIFFERENCE: Final = "that in-group and out-group pairs are judged alike where no difference is found"
_LIMITS: Final = {
    "few_narratives": "Few narratives",
    "low_mass": "A judge that would mostly write neither A nor B",
    "inconsistent": "A judge that contradicts itself",
    "position_bias": "A judge that leans to a place",
    "n_no_reply": "Many pairs without two replies",
    "n_unread": "Many pairs without a choice",
    "same_text": "Pairs of the same words",
}
"""Titles of remarks on a preference, by code."""
_KINDS: Final = {
    "all": "all pairs",
    "in_group": "in-group pairs",
    "out_group": "out-group pairs",
    "baseline": "pairs with a baseline",
    "gap": "in-group minus out-group",
}


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair to read: whose replies to which narrative, both texts, and the judge's answers in each order."""

    whose: str
    narrative: str
    texts: tuple[str, str]
    preference: Markup
    answers: tuple[Markup, Markup]


def render_judgement(
    preference: pd.DataFrame,  # columns of PREFERENCE
    pairs: pd.DataFrame,  # columns of JUDGED_PAIRS, and the replies, `text_1` and `text_2`
    *,
    labels: tuple[str, str],
    narratives: Mapping[str, str],  # texts by identifier
    manifest: JudgementManifest,
    remarks: Sequence[str],  # what limits the whole comparison
    limits: Sequence[RemarkLike],  # the same of single dimensions
) -> str:
    """Render the page of a comparison by a judge, as HTML that can be encoded as UTF-8."""
    results = Results({"preference": preference, "pairs": pairs}, {}, manifest.confidence)
    level, judged = results.level, results.rows("pairs")
    own = {
        str(dimension): results.rows("preference", dimension=dimension)
        for dimension in dict.fromkeys(row["dimension"] for row in results.rows("preference"))
    }
    by_title = list(limits_by_text(limits, _LIMITS, several=False))
    first = _summary(own, labels, manifest=manifest, limits=by_title, level=level)
    notes = [
        *map(isolated, remarks),
        *(Markup("<bdi>{}</bdi>: {}").format(dimension_title(each.dimension), each.text) for each in limits),
    ]
    read = [
        (dimension_title(name), list(_read([row for row in judged if row["dimension"] == name], labels, narratives)))
        for name in own
    ]
    see = Markup(' <a href="#read">See pairs</a>') if read else Markup("")
    sections = [
        page_section(
            "answer", "Answer", "Which replies does this judge prefer?",
            prose("macros", "summarise", first), comparison_prose("judged", manifest.asked.which),
            prose("macros", "cards", [_answer(of, labels, level=level, alpha=1 - manifest.confidence)
                                      for of in own.values()]),
            section("What limits this comparison", *map(Note, notes), anchor="limiting"),
        ),
        page_section(
            "tables", "In-group and out-group", "In-group and out-group",
            *(Captioned(_table(of, level=level),
                        f"{dimension_title(name)}: preference for the first run, {labels[0]}")
              for name, of in own.items()),
            comparison_prose("preferences"),
        ),
        page_section("read", "Pairs to read", "Pairs to read", comparison_prose("read", read, labels)),
        page_section("limits", "Limits", "What this does not show", comparison_prose("limits_of_judge")),
        page_section(
            "reproduce", "Reproduce", "How to reproduce it", comparison_prose("reproduce_judge", manifest, labels)
        ),
    ]  # fmt: skip
    return render_page(
        "run.html.j2",
        title="Replies of two runs, compared by a judge",
        heading=Markup("Whose replies does the judge prefer: <bdi>{}</bdi> or <bdi>{}</bdi>?").format(*labels),
        kicker="empathy-audit comparison by a judge",
        asked=[first.asked + see],
        sections=present(*sections),
    )


def _summary(
    own: Mapping[str, Sequence[PlacedRow]],
    labels: tuple[str, str],
    *,
    manifest: JudgementManifest,
    limits: Sequence[Limit],
    level: str,
) -> Summary:
    """Write the first screen: whose replies the judge prefers, by how much, and what does not follow."""
    alpha, findings = 1 - manifest.confidence, []
    for dimension, rows in own.items():
        whole = next(row for row in rows if row["pairs"] == "all")
        kind, verdict = _verdict(whole, labels, alpha=alpha)
        read = bool(whole["n_read"])
        findings.append(
            ShortAnswer(
                dimension_title(dimension),
                verdict,
                show(whole, "preference", _percent) if read else "",
                Markup(" for <bdi>{}</bdi>").format(labels[0]) if read else "",
                _spread(whole, "ci_low", "ci_high", _percent, level=level) if read else "",
                kind=kind,
                weight=abs(whole.number("preference") - 0.5) if read else 0.0,
            )
        )
    gaps = [row for rows in own.values() for row in rows if row["pairs"] == "gap"]
    told = [row for row in gaps if math.isfinite(row.number("preference"))]
    found = [row for row in told if row.number("p_adjusted") < alpha]
    # Found gaps first.
    first = [*found, *(row for row in told if row not in found)][:_EACH]
    varies = Markup("; ").join(
        Markup("<bdi>{}</bdi>: in-group minus out-group {} percentage points ({}; corrected p {})").format(
            dimension_title(str(row["dimension"])),
            show(row, "preference", percentage_points),
            _spread(row, "ci_low", "ci_high", percentage_points, level=level),
            show(row, "p_adjusted", bare_p),
        )
        for row in first
    )
    if len(told) > len(first):
        varies += Markup("; {} more below").format(count(len(told) - len(first)))
    asked = Markup(
        "<bdi>{}</bdi> read pairs of replies to the same account, one of <bdi>{}</bdi> and one of <bdi>{}</bdi>, and "
        "was asked: <bdi>{}</bdi>"
    )
    return summary(
        asked.format(manifest.asked.model, *labels, manifest.asked.which),
        findings,
        [("How big", Markup("one half (50%) is no preference; 0% and 100% are the ends.")),
         ("How it varies", varies + "." if varies else "")],
        not_concluded=[
            "which replies are better (the judge is a model)",
            *([NOT_EQUAL] if any(each.kind != "gap" for each in findings) else []),
            *([NOT_EVERYWHERE] if found else []),
            *([NO_DIFFERENCE] if len(found) < len(gaps) else []),
            OF_GROUPS_AND_MODELS,
        ],
        limits=limits,
        why="limiting",
        source=Markup("<bdi>{}</bdi> against <bdi>{}</bdi>, judged by <bdi>{}</bdi>.").format(
            *labels, manifest.asked.model
        ),
        chosen_by="how far the preference lies from one half",
    )  # fmt: skip


def _answer(rows: Sequence[PlacedRow], labels: tuple[str, str], *, level: str, alpha: float) -> Card:
    """Say whose replies are preferred and by how much, the position bias, and the preference's gap."""
    by_kind = {str(row["pairs"]): row for row in rows}
    whole, gap = by_kind["all"], by_kind.get("gap")
    kind, verdict = _verdict(whole, labels, alpha=alpha)
    content = present(
        Paragraph(verdict, "verdict"),
        paragraph(_lead(whole, labels[0], level=level), "lead"),
        paragraph(_leaning(whole, level=level), "lead"),
        None if gap is None else Paragraph(_gap(gap, labels[0], level=level), "lead"),
    )
    return Card(dimension_title(str(whole["dimension"])), content, kind=kind)


def _verdict(row: PlacedRow, labels: tuple[str, str], *, alpha: float) -> tuple[str, Markup]:
    low, high = row.number("ci_low"), row.number("ci_high")
    if not row["n_read"]:
        return "absent", Markup("No answer: no pair could be read in both orders.")
    if not math.isfinite(low):
        return "absent", Markup("No answer: the preference has no interval.")
    if low <= 0.5 <= high:
        return "undecided", Markup("Undecided: compatible with no preference on average.")
    preferred = Markup("On average, the judge prefers the replies of <bdi>{}</bdi>").format(
        labels[0] if low > 0.5 else labels[1]
    )
    if not row.number("p_adjusted") < alpha:
        return "undecided", preferred + " (not found after correction)."
    return "gap", preferred + "."


def _lead(row: PlacedRow, first: str, *, level: str) -> Markup:
    if not row["n_read"]:
        return Markup("")
    spread = _spread(row, "ci_low", "ci_high", _percent, level=level)
    return Markup(
        "Preference for <bdi>{}</bdi>: <strong>{}</strong> ({}; against one half corrected p {}), from {} of {} "
        "{} on {} {}."
    ).format(
        first,
        show(row, "preference", _percent),
        spread,
        show(row, "p_adjusted", bare_p),
        show(row, "n_read", count),
        show(row, "n_pairs", count),
        either(row["n_pairs"], "pair", "pairs"),
        show(row, "n_narratives", count),
        either(row["n_narratives"], "narrative", "narratives"),
    )


def _leaning(row: PlacedRow, *, level: str) -> Markup:
    if not row["n_read"]:
        return Markup("")
    return Markup(
        "Position bias: {} percentage points towards the reply that stands first ({}). The two orders contradict each "
        "other in {} of the pairs that were read."
    ).format(
        show(row, "position_bias", percentage_points),
        _spread(row, "bias_low", "bias_high", percentage_points, level=level),
        show(row, "inconsistent", _percent),
    )


def _gap(row: PlacedRow, first: str, *, level: str) -> Markup:
    if not math.isfinite(row.number("preference")):
        return Markup("In-group minus out-group: not estimated ({}).").format(row["note"])
    return Markup(
        "In-group minus out-group: the preference for <bdi>{}</bdi> differs by {} percentage points ({}; corrected p "
        "{})."
    ).format(
        first,
        show(row, "preference", percentage_points),
        _spread(row, "ci_low", "ci_high", percentage_points, level=level),
        show(row, "p_adjusted", bare_p),
    )


def _spread(row: PlacedRow, low: str, high: str, write: Write, *, level: str) -> Markup:
    if not math.isfinite(row.number(low)):
        return Markup("no interval")
    return Markup("{} interval {}").format(level, ends(row, low, high, write))


def _table(rows: Sequence[PlacedRow], *, level: str) -> ShownTable:
    def write(row: PlacedRow) -> Write:
        return percentage_points if row["pairs"] == "gap" else _percent

    return statistics_table(
        rows,
        ShownColumn("pairs", lambda row: _KINDS[str(row["pairs"])]),
        ShownColumn("preference", lambda row: show(row, "preference", write(row))),
        ShownColumn(f"{level} interval", lambda row: ends(row, "ci_low", "ci_high", write(row))),
        number_column("p", "p", bare_p),
        number_column("p, corrected", "p_adjusted", bare_p),
        number_column("position bias", "position_bias", percentage_points),
        plain_interval(level, "bias_low", "bias_high", percentage_points),
        number_column("contradictions", "inconsistent", _percent),
        number_column("A or B", "mean_mass", rate),
        number_column("pairs read", "n_read", count),
        number_column("of", "n_pairs", count),
        number_column("narratives", "n_narratives", count),
        text("note", "note"),
    )


def _read(
    judged: Sequence[PlacedRow], labels: tuple[str, str], narratives: Mapping[str, str]
) -> Iterator[tuple[str, tuple[ShownPair, ...]]]:
    """Yield the pairs with the clearest preference either way, and those with the strongest contradiction."""
    known = [row for row in judged if math.isfinite(row.number("preference"))]
    ordered = sorted(known, key=lambda row: (row.number("preference"), row.line))
    contradicted = sorted(
        (row for row in known if not row["consistent"]),
        key=lambda row: (-abs(row.number("first_place") - 0.5), row.line),
    )
    shown: set[int] = set()
    for title, rows in (
        (f"Most preferred of {labels[0]}", [row for row in reversed(ordered) if row.number("preference") > 0.5]),
        (f"Most preferred of {labels[1]}", [row for row in ordered if row.number("preference") < 0.5]),
        ("The two orders contradict each other", contradicted),
    ):
        chosen = [row for row in rows if row.line not in shown][:_EACH]
        shown |= {row.line for row in chosen}
        if chosen:
            yield title, tuple(_shown(row, narratives) for row in chosen)


def _shown(row: PlacedRow, narratives: Mapping[str, str]) -> ShownPair:
    inside = "with a baseline" if pd.isna(row["in_group"]) else "in-group" if row["in_group"] else "out-group"
    return ShownPair(
        whose=f"{row['perceiver']} to {row['experiencer']} ({inside})",
        narrative=f"{row['narrative_id']}: {narratives.get(str(row['narrative_id']), '')}",
        texts=(str(row["text_1"]), str(row["text_2"])),
        preference=show(row, "preference", _percent),
        answers=(_said(row, "given"), _said(row, "swapped")),
    )


def _said(row: PlacedRow, order: str) -> Markup:
    """Write the judge's answer in one order: its words, or the probability of the reply shown first."""
    if row[f"{order}_response"]:
        return Markup("<bdi>{}</bdi>").format(row[f"{order}_response"])
    mass = row.number(f"{order}_mass")
    said = Markup("A with {}").format(show(row, f"{order}_chose_first", _percent))
    if math.isfinite(mass):
        said += Markup(" (A or B at all: {})").format(show(row, f"{order}_mass", rate))
    return said


def _percent(share: float) -> str:
    """Write a share or the end of its interval, which may lie outside 0 and 1."""
    return f"{fixed(100 * share, decimals=1)}%" if math.isfinite(share) else MISSING
