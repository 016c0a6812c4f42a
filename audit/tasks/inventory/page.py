"""The self-contained report of a filled-in questionnaire: its tables, figures and manifest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import Key, Limit, RemarkLike, keys_of, limits_by_text, own_rows, title_of
from audit.report.downloads import pack
from audit.report.elicitation import describe_elicitation
from audit.report.manifest import ManifestView, view_manifest
from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.page import picture, render_page
from audit.report.section import Card, Paragraph, Section, captioned, present, section
from audit.report.summary import CHANGED, Finding, Summary, summary
from audit.report.table_layout import Column, Table, interval, names, number, out_of, plain_interval, table_of, text
from audit.runs.manifest import Manifest
from audit.tables.formatting import (
    OF_GROUPS_AND_MODELS,
    bare_p,
    brief,
    count,
    coverage,
    either,
    error_rate,
    plural,
    points,
    scale_end,
    unsigned,
)
from audit.tasks.inventory.tables import DEFAULT

_MAX_DOWNLOADS: Final = 500_000
_NAMED: Final = 4
"""Most differences named in a sentence."""
_OTHERS: Final = "other groups"
NOT_ALIKE: Final = "that groups are alike where no difference is found"
NOT_UNMOVED: Final = "that situations change nothing where no change is found"
_MISSING: Final = ("refused", "unparseable", "failed")
_LIMITS: Final = {
    "accepted": "Files that were changed",
    "unfinished": "The run is not finished",
    "no_answer": "No answer",
    "many_missing": "Many missing answers",
    "number_mass": "Low number mass",
    "few_narratives": "Few situations",
}
_WRITTEN: Final = (
    "The model wrote one line for each item at temperature 0 (always the most probable next token). A line that begins "
    "with the item's number and gives one whole number of the scale ({scale}) is its answer; whatever is unclear is "
    "missing, never 0."
)
_ORDERS: Final = {
    "single": "an item a prompt; orders of the scale's ends: {}",
    "list": "all items in one prompt; orders of the items: {}",
}


def render_inventory(
    *,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
) -> str:
    """Render the report of a filled-in questionnaire, as HTML that can be encoded as UTF-8.

    Parameters
    ----------
    manifest
        With ``task`` and ``inventory``.
    tables
        By name, indexed from 0 as they are written; those of affect only if it was evoked.
    figures
        SVG by name: ``inventory-<dimension>-<variant>`` and ``affect-<dimension>-<variant>``. Missing ones are left
        out.
    """
    inventory, task = manifest.inventory, manifest.task
    assert inventory is not None
    # Items are shown in their own table.
    told = {name: value for name, value in inventory.content.items() if name != "items"}
    view = view_manifest(manifest, rated=False, shown={**manifest.content, "inventory": told})
    scale = f"{scale_end(inventory.scale.low)}\N{EN DASH}{scale_end(inventory.scale.high)}"
    keys = list(dict.fromkeys(keys_of(tables["inventory_outcomes"])))
    several = len({variant for _, variant in keys}) > 1
    single = task.presentation == "single"
    got = describe_elicitation(task.method, scale=scale, asks_ends=view.asks_ends)
    how = Markup("Each answer was got as a rating is. {}").format(got) if single else _WRITTEN.format(scale=scale)
    downloads, packed = pack(tables, max_bytes=_MAX_DOWNLOADS)
    limits = list(limits_by_text(remarks, _LIMITS, several=several))
    rows = {key: {name: rows_of(table, name) for name, table in own_rows(tables, key).items()} for key in keys}
    titles = {key: title_of(key, several=several) for key in keys}
    anchors = {key: f"part-{place}" for place, key in enumerate(keys, start=1)}
    return render_page(
        "inventory.html.j2",
        scripts=("page.js", "downloads.js"),
        run=view,
        name=brief(inventory.name),
        source=brief(inventory.source, at_most=400),
        instruction=inventory.instruction,
        total=inventory.total,
        affect=task.affect,
        single=single,
        shown=_ORDERS[task.presentation].format(task.n_orders),
        how=how,
        scale=scale,
        ends=inventory.scale,
        items=_items_table(inventory.items),
        summary=_summary(
            [(titles[key], anchors[key], rows[key]) for key in keys],
            name=brief(inventory.name),
            scale=scale,
            affect=task.affect,
            limits=limits,
            view=view,
        ),
        answers=[
            Card(titles[key], tuple(_leads(rows[key], alpha=1 - view.confidence)), anchor=anchors[key]) for key in keys
        ],
        parts=[
            _part(key, rows[key], figures, title=titles[key], anchor=anchors[key], confidence=view.confidence)
            for key in keys
        ],
        limits=limits,
        downloads=downloads,
        packed=Markup(packed),
        alpha=error_rate(view.confidence),
    )  # fmt: skip


def _part(
    key: Key,
    own: Mapping[str, Sequence[Row]],
    figures: Mapping[str, bytes],
    *,
    title: str,
    anchor: str,
    confidence: float,
) -> Section:
    """Show everything about one dimension and variant that was asked."""
    level = coverage(confidence)
    scores, differences = own["inventory_groups"], own["inventory_differences"]
    changes, contrasts = own.get("affect_groups", []), own.get("affect_differences", [])
    suffix = "-".join(key)
    drawn = [
        (f"inventory-{suffix}", "Subscale scores by group of perceivers, nothing imagined"),
        (f"affect-{suffix}", "What imagining situations changes in each subscale, evoked minus default"),
    ]
    tables = [
        ("subscale scores by group, nothing imagined", _scores_table(scores, "perceiver_group", level=level)),
        (
            "differences between groups, nothing imagined",
            _differences_table(_against(differences, baselines=False), level=level),
        ),
        ("evoked minus default, by group", _changes_table(changes, "perceiver_group", level=level)),
        (
            "differences between groups in what is evoked",
            _differences_table(_against(contrasts, baselines=False), level=level),
        ),
    ]
    folded = [
        ("differences from baselines, nothing imagined", _differences_table(_against(differences), level=level)),
        ("differences from baselines in what is evoked", _differences_table(_against(contrasts), level=level)),
        ("subscale scores by perceiver, nothing imagined", _perceivers_table(own["inventory_scores"])),
        (
            "evoked minus default, by perceiver",
            _changes_table(own.get("affect_changes", []), "perceiver", level=level),
        ),
        ("what became of the answers asked for", _outcomes_table(own["inventory_outcomes"])),
    ]
    content = present(
        *(
            captioned(picture(figures, name, f"Figure: {said}, {title}."), f"{title}: {said}. The numbers are below.")
            for name, said in drawn
        ),
        *(captioned(table, f"{title}: {said}") for said, table in tables),
        *(
            section(f"{said[:1].upper()}{said[1:]}", captioned(table, f"{title}: {said}"), look="folded")
            for said, table in folded
        ),
    )
    return Section(title, content, anchor=anchor, look="part")


# --- Sentences -------------------------------------------------------------------------------------------------------


def _summary(
    parts: Sequence[tuple[str, str, Mapping[str, Sequence[Row]]]],
    *,
    name: str,
    scale: str,
    affect: bool,
    limits: Sequence[Limit],
    view: ManifestView,
) -> Summary:
    """Write the first screen: differences between groups that remain, the largest one, and what does not follow."""
    alpha, level = 1 - view.confidence, coverage(view.confidence)
    findings, largest, n_open, answered = [], None, 0, False
    for title, anchor, own in parts:
        tested = [
            row
            for table in ("inventory_differences", "affect_differences")
            for row in _against(own.get(table, ()), baselines=False)
            if math.isfinite(row.number("p_adjusted"))
        ]
        found = _remaining(tested, "difference", alpha=alpha)
        n_open += len(tested) - len(found)
        answered |= any(row["n_rated"] for row in own["inventory_outcomes"])
        words, spread, kind = "No difference between groups could be tested", Markup(""), "absent"
        if tested:
            told = count(len(found)) if found else "None"
            of_all = plural(len(tested), "difference")
            words = f"{told} of {of_all} between a group and the others {either(len(found), 'is', 'are')} found"
            kind = "gap" if found else "undecided"
        if found:
            row = found[0]
            largest = row if largest is None or abs(row["difference"]) > abs(largest["difference"]) else largest
            spread = Markup("Largest found: <bdi>{}</bdi> <strong>{}</strong> points, {} interval {}").format(
                _whose(row), show(row, "difference", points), level, show_interval(row)
            )
        findings.append(Finding(title, words, spread=spread, kind=kind, anchor=anchor, weight=len(found)))
    size = Markup("")
    if largest is not None:
        words_of = Markup("the largest that is found is {} points, where an item's scale is {}.")
        size = words_of.format(show(largest, "difference", lambda value: unsigned(abs(value))), scale)
    changed = [row for _, _, own in parts for row in own.get("affect_groups", ())]
    tested = [row for row in changed if math.isfinite(row.number("p_adjusted"))]
    varies = Markup("")
    denied = [CHANGED] if any(limit.title == _LIMITS["accepted"] for limit in limits) else []
    if n_open or any(finding.kind == "absent" for finding in findings):
        denied.append(NOT_ALIKE)
    if tested:
        found = _remaining(tested, "change", alpha=alpha)
        told = count(len(found)) if found else "none"
        varies = Markup("of {} from default to evoked, {} {} found.").format(
            plural(len(tested), "change"), told, either(len(found), "is", "are")
        )
        if len(found) < len(tested):
            denied.append(NOT_UNMOVED)
    # It was asked even if it gave no answer.
    asked = Markup(
        "<bdi>{}</bdi> was asked to be a certain person and to fill in the questionnaire “<bdi>{}</bdi>”{}{}."
    ).format(
        view.model, name, ", as it is and in situations to imagine" if affect else "",
        "" if answered else "; it gave no answer that could be read",
    )  # fmt: skip
    return summary(
        asked,
        findings,
        [("How big", size), ("How it varies", varies)],
        not_concluded=[*denied, "what the model is like or feels", OF_GROUPS_AND_MODELS],
        limits=limits,
        source=Markup("<bdi>{}</bdi>, revision <bdi>{}</bdi>; run of {}; empathy-audit {}.").format(
            view.model, view.revision, view.date, view.version
        ),
        chosen_by="how many differences were found",
    )


def _remaining(tested: Sequence[Row], column: str, *, alpha: float) -> list[Row]:
    """Return the rows significant after correction, the largest first."""
    return sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row[column]))


def _leads(own: Mapping[str, Sequence[Row]], *, alpha: float) -> Iterator[Paragraph]:
    between = _against(own["inventory_differences"], baselines=False)
    yield _lead(between, "difference", "Differences between a group and the others", alpha=alpha)
    if changes := own.get("affect_groups", []):
        yield _lead(changes, "change", "Changes from default to evoked", alpha=alpha)
    if moved := _against(own.get("affect_differences", []), baselines=False):
        what = "Differences between a group and the others in what is evoked"
        yield _lead(moved, "difference", what, alpha=alpha)


def _lead(rows: Sequence[Row], column: str, what: str, *, alpha: float) -> Paragraph:
    """Say how many rows remain after correction, and which are the largest."""
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    if not tested:
        return Paragraph(Markup("{}: none could be tested.").format(what), "lead")
    shown = _remaining(tested, column, alpha=alpha)
    of_all = Markup("{}: {} tested").format(what, count(len(tested)))
    if not shown:
        none = "{}, none remains after correction for their number; that does not show that there is none."
        return Paragraph(Markup(none).format(of_all), "lead")
    said = Markup("; ").join(
        Markup("<bdi>{}</bdi> {} ({})").format(_whose(row), show(row, column, points), show_interval(row))
        for row in shown[:_NAMED]
    )
    first = "" if len(shown) <= _NAMED else f" The {_NAMED} largest:"
    words = Markup("{}, {} {} after correction for their number.{} {}.").format(
        of_all, count(len(shown)), "remains" if len(shown) == 1 else "remain", first, said
    )
    return Paragraph(words, "lead")


def _whose(row: Row) -> str:
    kind = f" in {row['narratives']} situations" if "narratives" in row else ""
    return f"{brief(str(row['perceiver_group']))}, {brief(str(row['subscale']))}{kind}:"


# --- Tables ----------------------------------------------------------------------------------------------------------


def _against(rows: Sequence[Row], *, baselines: bool = True) -> list[Row]:
    return [row for row in rows if (row["compared_with"] != _OTHERS) == baselines]


def _scores_table(rows: Sequence[Row], who: str, *, level: str) -> Table:
    return table_of(
        rows,
        names("group", who),
        names("subscale", "subscale", words=True),
        number("score", "score", unsigned),
        plain_interval(level, "ci_low", "ci_high", unsigned),
        number("SE", "se", unsigned),
        out_of("items", "n_items_used", "n_items"),
        number("orders", "n_orders", count),
        number("perceivers", "n_perceivers", count),
        note="note",
    )


def _perceivers_table(rows: Sequence[Row]) -> Table:
    return table_of(
        rows,
        names("perceiver", "perceiver"),
        names("subscale", "subscale", words=True),
        number("score", "score", unsigned),
        number("SE over items", "se_items", unsigned),
        number("SE over orders", "se_orders", unsigned),
        number("SD within items", "sd_within_items", unsigned),
        out_of("answers", "n_answered", "n_asked"),
        note="note",
    )


def _changes_table(rows: Sequence[Row], who: str, *, level: str) -> Table:
    return table_of(
        rows,
        names("group" if who == "perceiver_group" else who, who),
        names("subscale", "subscale", words=True),
        text("situations", "narratives"),
        number("default", "default", unsigned),
        number("evoked", "evoked", unsigned),
        number("change", "change", points),
        interval(level),
        number("p", "p", bare_p),
        number("corrected p", "p_adjusted", bare_p),
        out_of("used", "n_narratives", "n_narratives_asked"),
        note="note",
    )


def _differences_table(rows: Sequence[Row], *, level: str) -> Table:
    evoked = any("narratives" in row for row in rows)
    return table_of(
        rows,
        names("group", "perceiver_group"),
        text("against", "compared_with"),
        names("subscale", "subscale", words=True),
        *([text("situations", "narratives")] if evoked else []),
        number("mean", "mean", points if evoked else unsigned),
        number("theirs", "mean_compared", points if evoked else unsigned),
        number("difference", "difference", points),
        interval(level),
        number("p", "p", bare_p),
        number("corrected p", "p_adjusted", bare_p),
        note="note",
    )


def _outcomes_table(rows: Sequence[Row]) -> Table:
    missing = (*_MISSING, *(("inexact",) if any(row["n_inexact"] for row in rows) else ()))
    outcomes = (("asked for", "asked"), ("answered", "rated"), *((name, name) for name in missing))
    return table_of(
        rows,
        names("group", "perceiver_group"),
        Column("imagined", lambda row: "nothing" if row["imagined"] == DEFAULT else "a situation", words=True),
        *(number(head, f"n_{name}", count) for head, name in outcomes),
        number("mean number mass", "mean_number_mass", unsigned),
    )


def _items_table(items: Sequence[Mapping[str, Any]]) -> Table:
    return table_of(
        [Row(item, table="items", line=line) for line, item in enumerate(items)],
        names("item", "item_id"),
        Column("text", lambda row: Markup("<bdi>{}</bdi>").format(str(row["text"])), words=True),
        names("subscale", "subscale", words=True),
        Column("key", lambda row: "reverse" if row["reverse"] else "as given", words=True),
    )
