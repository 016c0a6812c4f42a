"""The self-contained report of a filled-in questionnaire: its tables, figures and manifest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import Limit, RemarkLike, keys_of, limits_by_text, title_of
from audit.report.elicitation import describe_elicitation
from audit.report.manifest import ManifestView, view_manifest
from audit.report.numbers import Row, show, show_interval
from audit.report.page import isolated, prose
from audit.report.results import Results
from audit.report.run_page import answer_section, asked_section, page_section, render_run, source_of
from audit.report.section import Captioned, Card, Paragraph, Section, captioned, present, section
from audit.report.summary import CHANGED, Finding, Summary, summary
from audit.report.table_layout import Column, IfKnown, Named, Table, names, number, out_of, table_of
from audit.runs.manifest import Manifest
from audit.tables.formatting import (
    OF_GROUPS_AND_MODELS,
    brief,
    count,
    either,
    error_rate,
    plural,
    points,
    scale_end,
    unsigned,
)
from audit.tasks.inventory.tables import AFFECT_TABLES, DEFAULT, INVENTORY_TABLES

_NAMED: Final = 4
"""Most differences named in a sentence."""
_OTHERS: Final = "other groups"
NOT_ALIKE: Final = "that groups are alike where no difference is found"
NOT_UNMOVED: Final = "that situations change nothing where no change is found"
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
_LEDE: Final = (
    "The model was given an identity and filled in a questionnaire{}. A questionnaire made for people says of a model "
    "only what it writes under a persona: not what the model is like or feels, and nothing about the people whom the "
    "identity names."
)
_TWICE: Final = ", once as it is (default) and once in each situation that it was told to imagine (evoked)"
_TABLES: Final = INVENTORY_TABLES | AFFECT_TABLES
_SITUATIONS: Final = ("narratives", "situations")
_MEANS: Final = (("mean", "mean"), ("theirs", "mean_compared"))
_BELOW: Final = "The numbers are below."
_MINUS: Final = "evoked minus default"
_SCORES: Final[tuple[Named, ...]] = (
    "subscale", "score", "ci_low", "se", out_of("items", "n_items_used", "n_items"), "n_orders", "n_perceivers", "note",
)  # fmt: skip
_OF_PERCEIVERS: Final[tuple[Named, ...]] = (
    "perceiver", "subscale", "score", ("se_items", "SE over items"), ("se_orders", "SE over orders"),
    ("sd_within_items", "SD within items"), out_of("answers", "n_answered", "n_asked"), "note",
)  # fmt: skip
_CHANGES: Final[tuple[Named, ...]] = (
    "subscale", _SITUATIONS, "default", "evoked", "change", "ci_low", "p", "p_adjusted",
    out_of("used", "n_narratives", "n_narratives_asked"), "note",
)  # fmt: skip
_OUTCOMES: Final[tuple[Named, ...]] = (
    "perceiver_group", Column("imagined", lambda row: "nothing" if row["imagined"] == DEFAULT else "a situation",
                              words=True),
    ("n_asked", "asked for"), ("n_rated", "answered"), "n_refused", "n_unparseable", "n_failed",
    IfKnown("n_inexact", unless_zero=True), "mean_number_mass",
)  # fmt: skip
_prose: Final = partial(prose, "audit.tasks.inventory:prose")


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
    name, source = brief(inventory.name), brief(inventory.source, at_most=400)
    keys = list(dict.fromkeys(keys_of(tables["inventory_outcomes"])))
    several = len({variant for _, variant in keys}) > 1
    single, affect = task.presentation == "single", task.affect
    got = describe_elicitation(task.method, scale=scale, asks_ends=view.asks_ends)
    limits = list(limits_by_text(remarks, _LIMITS, several=several))
    results = Results(tables, _TABLES, view.confidence, figures)
    parts = {f"part-{at}": results.of(key, title_of(key, several=several)) for at, key in enumerate(keys, start=1)}
    first = _summary(parts, name=name, scale=scale, affect=affect, limits=limits, view=view)
    how = "each item" if single else "the items"
    sections = [
        answer_section(
            "Does this model answer differently as one group than as another?",
            first,
            _LEDE.format(_TWICE if affect else ""),
            limits=limits,
            cards=[Card(own.title, tuple(_leads(own)), anchor=anchor) for anchor, own in parts.items()],
            none="Nothing was asked.",
            of="answers",
        ),
        page_section(
            "dimensions",
            "Dimensions",
            "Dimension by dimension",
            *(_part(own, anchor) for anchor, own in parts.items()),
            _prose("scores", single, affect, error_rate(view.confidence)),
        ),
        page_section(
            "items",
            "Items",
            "The questionnaire",
            Paragraph(Markup("Before {}: <q><bdi>{}</bdi></q>").format(how, inventory.instruction)),
            captioned(_items_table(inventory.items), "The items as they were shown, and their key"),
        ),
        page_section(
            "meaning",
            "What it means",
            "What these scores are and are not",
            _prose("meaning", single, affect, inventory.total),
        ),
        asked_section(
            view,
            {
                "Run started": view.date,
                "Items from": isolated(source),
                "Shown": _ORDERS[task.presentation].format(task.n_orders),
                "Scale of an item": Markup("{} ({} to {})").format(
                    scale, isolated(inventory.scale.low_label), isolated(inventory.scale.high_label)
                ),
                "Situations": isolated(view.stimuli) if affect else "",
                "Persona of prompt": isolated(view.variant),
            },
            [
                Markup("Each answer was read in the way that a rating is. {}").format(got)
                if single
                else _WRITTEN.format(scale=scale)
            ],
        ),
    ]
    return render_run(
        view,
        first,
        sections,
        title=f"Questionnaire: {view.model}",
        heading=Markup("What <bdi>{}</bdi> answers to “<bdi>{}</bdi>”").format(view.model, name),
        kicker="report of a questionnaire",
        tables=tables,
        cite=_prose("cite", view, name, source),
    )  # fmt: skip


def _part(own: Results, anchor: str) -> Section:
    """Show everything about one dimension and variant that was asked."""
    suffix = "-".join(own.key)
    between, evoked = own.rows("inventory_differences"), own.rows("affect_differences")
    among, moved = (_against(rows, baselines=False) for rows in (between, evoked))
    nothing, of_evoked = "nothing imagined", "in what is evoked"
    shown = present(
        own.picture(f"inventory-{suffix}", f"subscale scores by group of perceivers, {nothing}. {_BELOW}"),
        own.picture(f"affect-{suffix}", f"what imagining situations changes in each subscale, {_MINUS}. {_BELOW}"),
        own.table("inventory_groups", f"subscale scores by group, {nothing}", "perceiver_group", *_SCORES),
        _differences(own, "inventory_differences", f"differences between groups, {nothing}", among),
        own.table("affect_groups", f"{_MINUS}, by group", "perceiver_group", *_CHANGES),
        _differences(own, "affect_differences", f"differences between groups {of_evoked}", moved),
    )
    folded = (
        _differences(own, "inventory_differences", f"differences from baselines, {nothing}", _against(between)),
        _differences(own, "affect_differences", f"differences from baselines {of_evoked}", _against(evoked)),
        own.table("inventory_scores", f"subscale scores by perceiver, {nothing}", *_OF_PERCEIVERS),
        own.table("affect_changes", f"{_MINUS}, by perceiver", "perceiver", *_CHANGES),
        own.table("inventory_outcomes", "what became of the answers asked for", *_OUTCOMES),
    )
    content = (*shown, *present(*(_folded(own, table) for table in folded)))
    return Section(own.title, content, anchor=anchor, look="part")


def _folded(own: Results, shown: Captioned | None) -> Section | None:
    """Fold a table beneath its caption without the dimension."""
    if shown is None:
        return None
    title = shown.caption.removeprefix(f"{own.title}: ")
    return section(f"{title[:1].upper()}{title[1:]}", shown, look="folded")


def _differences(own: Results, name: str, caption: str, rows: Sequence[Row]) -> Captioned | None:
    """Show a group against others; of what is evoked by kind of situations, where means are changes."""
    evoked = name == "affect_differences"
    means = [number(head, column, points) for head, column in _MEANS] if evoked else [(c, h) for h, c in _MEANS]
    return own.table(
        name, caption, "perceiver_group", ("compared_with", "against"), "subscale", *([_SITUATIONS] if evoked else []),
        *means, "difference", "ci_low", "p", "p_adjusted", "note",
        rows=rows,
    )  # fmt: skip


# --- Sentences -------------------------------------------------------------------------------------------------------


def _summary(
    parts: Mapping[str, Results],
    *,
    name: str,
    scale: str,
    affect: bool,
    limits: Sequence[Limit],
    view: ManifestView,
) -> Summary:
    """Write the first screen: differences between groups that remain, the largest one, and what does not follow."""
    alpha = 1 - view.confidence
    findings, largest, n_open, answered = [], None, 0, False
    for anchor, own in parts.items():
        compared = [*own.rows("inventory_differences"), *own.rows("affect_differences")]
        tested = _tested(_against(compared, baselines=False))
        found = _remaining(tested, "difference", alpha=alpha)
        n_open += len(tested) - len(found)
        answered |= any(row["n_rated"] for row in own.rows("inventory_outcomes"))
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
                _whose(row), show(row, "difference", points), own.level, show_interval(row)
            )
        findings.append(Finding(own.title, words, spread=spread, kind=kind, anchor=anchor, weight=len(found)))
    size = Markup("")
    if largest is not None:
        words_of = Markup("the largest that is found is {} points, where an item's scale is {}.")
        size = words_of.format(show(largest, "difference", lambda value: unsigned(abs(value))), scale)
    tested = [row for own in parts.values() for row in _tested(own.rows("affect_groups"))]
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
        source=source_of(view),
        chosen_by="how many differences were found",
    )


def _remaining(tested: Sequence[Row], column: str, *, alpha: float) -> list[Row]:
    """Return the rows significant after correction, the largest first."""
    return sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row[column]))


def _tested(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if math.isfinite(row.number("p_adjusted"))]


def _leads(own: Results) -> Iterator[Paragraph]:
    alpha = 1 - own.confidence
    between = _against(own.rows("inventory_differences"), baselines=False)
    yield _lead(between, "difference", "Differences between a group and the others", alpha=alpha)
    if changes := own.rows("affect_groups"):
        yield _lead(changes, "change", "Changes from default to evoked", alpha=alpha)
    if moved := _against(own.rows("affect_differences"), baselines=False):
        what = "Differences between a group and the others in what is evoked"
        yield _lead(moved, "difference", what, alpha=alpha)


def _lead(rows: Sequence[Row], column: str, what: str, *, alpha: float) -> Paragraph:
    """Say how many rows remain after correction, and which are the largest."""
    tested = _tested(rows)
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


def _against(rows: Sequence[Row], *, baselines: bool = True) -> list[Row]:
    return [row for row in rows if (row["compared_with"] != _OTHERS) == baselines]


def _items_table(items: Sequence[Mapping[str, Any]]) -> Table:
    return table_of(
        [Row(item, table="items", line=line) for line, item in enumerate(items)],
        names("item", "item_id"),
        Column("text", lambda row: isolated(str(row["text"])), words=True),
        names("subscale", "subscale", words=True),
        Column("key", lambda row: "reverse" if row["reverse"] else "as given", words=True),
    )
