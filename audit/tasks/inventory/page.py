"""The self-contained report of a filled-in questionnaire: its tables, figures and manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import RemarkLike, keys_of, limits_by_text, title_of
from audit.report.elicitation import describe_elicitation
from audit.report.manifest import view_manifest
from audit.report.numbers import PlacedRow
from audit.report.page import isolated, prose
from audit.report.results import Results
from audit.report.run_page import OTHER_PROMPTS, answer_section, asked_section, page_section, render_run
from audit.report.section import Captioned, Card, Paragraph, Section, captioned, present, section
from audit.report.summary import RenderedPage
from audit.report.table_layout import (
    IfKnown,
    Named,
    ShownColumn,
    ShownTable,
    names,
    number_column,
    out_of,
    statistics_table,
)
from audit.runs.manifest import Manifest
from audit.tables.formatting import brief, error_rate, points, scale_end
from audit.tasks.inventory.first_screen import LIMITS, against, leads, summary_of_answers
from audit.tasks.inventory.tables import AFFECT_TABLES, DEFAULT, INVENTORY_TABLES
from stimuli.words import capital

_ORDERS: Final = {
    "single": "one item per prompt; orders of the scale's ends: {}",
    "list": "all items in one prompt; orders of the items: {}",
}
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
    "perceiver_group", ShownColumn("imagined", lambda row: "nothing" if row["imagined"] == DEFAULT else "a situation",
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
) -> RenderedPage:
    """Render the report of a filled-in questionnaire, as HTML that can be encoded as UTF-8."""
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
    limits = list(limits_by_text(remarks, LIMITS, several=several))
    results = Results(tables, _TABLES, view.confidence, figures)
    parts = {f"part-{at}": results.of(key, title_of(key, several=several)) for at, key in enumerate(keys, start=1)}
    first = summary_of_answers(parts, name=name, scale=scale, affect=affect, limits=limits, view=view)
    how = "each item" if single else "the items"
    sections = [
        answer_section(
            "Does this model answer differently as different groups?", first, _prose("lede", affect),
            limits=limits, cards=[Card(own.title, tuple(leads(own)), anchor=anchor) for anchor, own in parts.items()],
            none="Nothing was asked.", of="answers", folded="Each answer in full",
        ),
        page_section(
            "dimensions", "Evidence", "Evidence",
            *(_part(own, anchor) for anchor, own in parts.items()),
            _prose("scores", single, affect, error_rate(view.confidence)),
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
            _prose("asked", got if single else "", scale), OTHER_PROMPTS,
            section(
                "The questionnaire",
                Paragraph(Markup("Before {}: <q><bdi>{}</bdi></q>").format(how, inventory.instruction)),
                captioned(_items_table(inventory.items), "The items as shown, with their key"),
                anchor="items", look="folded",
            ),
            section(
                "What these scores are and are not", _prose("meaning", single, affect, inventory.total),
                anchor="meaning",
            ),
        ),
    ]  # fmt: skip
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
    suffix = "-".join(own.key)
    between, evoked = own.rows("inventory_differences"), own.rows("affect_differences")
    among, moved = (against(rows, baselines=False) for rows in (between, evoked))
    nothing, of_evoked = "nothing imagined", "in evoked scores"
    shown = present(
        own.picture(f"inventory-{suffix}", f"subscale scores by group of perceivers, {nothing}. {_BELOW}"),
        own.picture(f"affect-{suffix}", f"how imagining situations changes each subscale, {_MINUS}. {_BELOW}"),
        _differences(own, "inventory_differences", f"differences between groups, {nothing}", among),
    )
    folded = (
        own.table("inventory_groups", f"subscale scores by group, {nothing}", "perceiver_group", *_SCORES),
        own.table("affect_groups", f"{_MINUS}, by group", "perceiver_group", *_CHANGES),
        _differences(own, "affect_differences", f"differences between groups {of_evoked}", moved),
        _differences(own, "inventory_differences", f"differences from baselines, {nothing}", against(between)),
        _differences(own, "affect_differences", f"differences from baselines {of_evoked}", against(evoked)),
        own.table("inventory_scores", f"subscale scores by perceiver, {nothing}", *_OF_PERCEIVERS),
        own.table("affect_changes", f"{_MINUS}, by perceiver", "perceiver", *_CHANGES),
        own.table("inventory_outcomes", "what happened to the answers", *_OUTCOMES),
    )
    content = (*shown, *present(*(_folded(own, table) for table in folded)))
    return Section(own.title, content, anchor=anchor, look="part")


def _folded(own: Results, shown: Captioned | None) -> Section | None:
    """Fold a table beneath its caption without the dimension."""
    if shown is None:
        return None
    title = shown.caption.removeprefix(f"{own.title}: ")
    return section(capital(title), shown, look="folded")


def _differences(own: Results, name: str, caption: str, rows: Sequence[PlacedRow]) -> Captioned | None:
    """Show a group against others; of what is evoked by kind of situations, where means are changes."""
    evoked = name == "affect_differences"
    means = [number_column(head, column, points) for head, column in _MEANS] if evoked else [(c, h) for h, c in _MEANS]
    return own.table(
        name, caption, "perceiver_group", ("compared_with", "against"), "subscale", *([_SITUATIONS] if evoked else []),
        *means, "difference", "ci_low", "p", "p_adjusted", "note",
        rows=rows,
    )  # fmt: skip


def _items_table(items: Sequence[Mapping[str, Any]]) -> ShownTable:
    return statistics_table(
        [PlacedRow(item, table="items", line=line) for line, item in enumerate(items)],
        names("item", "item_id"),
        ShownColumn("text", lambda row: isolated(str(row["text"])), words=True),
        names("subscale", "subscale", words=True),
        ShownColumn("key", lambda row: "reverse" if row["reverse"] else "as given", words=True),
    )
