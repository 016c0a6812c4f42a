"""Tables, figures and manifest of one filled-in questionnaire to one self-contained page, as a run of ratings' is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.report.downloads import pack
from audit.report.elicitations import describe_elicitation
from audit.report.manifest import view_manifest
from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.page import Picture, asset, encodable, environment, picture, policy
from audit.report.render import RemarkLike, keys_of, limits_by_text, title_of
from audit.report.tables import Table
from audit.runs.manifest import Manifest
from audit.tables.inventory import DEFAULT
from audit.wording import (
    MISSING,
    bare_p,
    brief,
    count,
    coverage,
    error_rate,
    points,
    scale_end,
    unsigned,
)

_MAX_DOWNLOADS: Final = 500_000
_NAMED: Final = 4
"""Differences that a sentence names."""
_OTHERS: Final = "other groups"
_LIMITS: Final = {
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


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page shows of one dimension and variant; what is empty was not asked."""

    anchor: str
    title: str
    leads: tuple[Markup, ...]
    pictures: tuple[tuple[Picture, str], ...]
    tables: tuple[tuple[str, Table], ...]
    details: tuple[tuple[str, Table], ...]


def render_inventory(
    *,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
) -> str:
    """Render the report of one run that filled in a questionnaire.

    Parameters
    ----------
    manifest
        The run's manifest, with ``task`` and ``inventory``.
    tables
        The run's tables by name, as they are written (indexed from 0); those of affect only where it was evoked.
    figures
        SVG by name: ``inventory-<dimension>-<variant>`` and ``affect-<dimension>-<variant>``. An absent one is left
        out.
    remarks
        What limits the numbers, in words.

    Returns
    -------
    str
        A whole HTML document, encodable as UTF-8.
    """
    inventory, task = manifest.inventory, manifest.task
    assert inventory is not None
    # The items have a table of their own.
    told = {name: value for name, value in inventory.content.items() if name != "items"}
    view = view_manifest(manifest, rated=False, shown={**manifest.content, "inventory": told})
    scale = f"{scale_end(inventory.scale.low)}\N{EN DASH}{scale_end(inventory.scale.high)}"
    keys = list(dict.fromkeys(keys_of(tables["inventory_outcomes"])))
    several = len({variant for _, variant in keys}) > 1
    single = task.presentation == "single"
    got = describe_elicitation(task.method, scale=scale, asks_ends=view.asks_ends)
    how = Markup("Each answer was got as a rating is. {}").format(got) if single else _WRITTEN.format(scale=scale)
    downloads, packed = pack(tables, max_bytes=_MAX_DOWNLOADS)
    script = asset("downloads.js")
    page = environment().get_template("inventory.html.j2").render(
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
        sections=[
            _section(
                key, f"part-{place}", tables, figures, title=title_of(key, several=several), confidence=view.confidence
            )
            for place, key in enumerate(keys, start=1)
        ],
        limits=list(limits_by_text(remarks, _LIMITS, several=several)),
        downloads=downloads,
        packed=Markup(packed),
        alpha=error_rate(view.confidence),
        style=asset("style.css"),
        script=script,
        policy=policy(script),
    )  # fmt: skip
    return encodable(page)


def _section(
    key: tuple[str, str],
    anchor: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    *,
    title: str,
    confidence: float,
) -> Section:
    own = {name: rows_of(table.loc[[found == key for found in keys_of(table)]], name) for name, table in tables.items()}
    level, alpha = coverage(confidence), 1 - confidence
    scores, differences = own["inventory_groups"], own["inventory_differences"]
    changes, contrasts = own.get("affect_groups", []), own.get("affect_differences", [])
    suffix = "-".join(key)
    drawn = [
        (f"inventory-{suffix}", "Subscale scores by group of perceivers, nothing imagined"),
        (f"affect-{suffix}", "What imagining situations changes in each subscale, evoked minus default"),
    ]
    embedded = [(picture(figures.get(name), f"Figure: {said}, {title}."), said) for name, said in drawn]
    shown = [
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
    return Section(
        anchor=anchor,
        title=title,
        leads=tuple(_leads(differences, changes, contrasts, alpha=alpha)),
        pictures=tuple((content, said) for content, said in embedded if content is not None),
        tables=tuple((said, content) for said, content in shown if content.rows),
        details=tuple((said, content) for said, content in folded if content.rows),
    )


# --- Sentences -------------------------------------------------------------------------------------------------------


def _leads(
    differences: Sequence[Row], changes: Sequence[Row], contrasts: Sequence[Row], *, alpha: float
) -> Iterator[Markup]:
    between = _against(differences, baselines=False)
    yield _lead(between, "difference", "Differences between a group and the others", alpha=alpha)
    if changes:
        yield _lead(changes, "change", "Changes from default to evoked", alpha=alpha)
    moved = _against(contrasts, baselines=False)
    if moved:
        what = "Differences between a group and the others in what is evoked"
        yield _lead(moved, "difference", what, alpha=alpha)


def _lead(rows: Sequence[Row], column: str, what: str, *, alpha: float) -> Markup:
    """Say how many of them remain after correction, and which are the largest."""
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    if not tested:
        return Markup("{}: none could be tested.").format(what)
    shown = sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row[column]))
    of_all = Markup("{}: {} tested").format(what, count(len(tested)))
    if not shown:
        none = "{}, none remains after correction for their number; that does not show that there is none."
        return Markup(none).format(of_all)
    said = Markup("; ").join(
        Markup("<bdi>{}</bdi> {} ({})").format(_whose(row), show(row, column, points), show_interval(row))
        for row in shown[:_NAMED]
    )
    first = "" if len(shown) <= _NAMED else f" The {_NAMED} largest:"
    return Markup("{}, {} {} after correction for their number.{} {}.").format(
        of_all, count(len(shown)), "remains" if len(shown) == 1 else "remain", first, said
    )


def _whose(row: Row) -> str:
    kind = f" in {row['narratives']} situations" if "narratives" in row else ""
    return f"{brief(str(row['perceiver_group']))}, {brief(str(row['subscale']))}{kind}:"


# --- Tables ----------------------------------------------------------------------------------------------------------


def _against(rows: Sequence[Row], *, baselines: bool = True) -> list[Row]:
    return [row for row in rows if (row["compared_with"] != _OTHERS) == baselines]


def _name(value: object) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(value)))


def _used(row: Row, column: str, of: str) -> Markup:
    return Markup("{} of {}").format(show(row, column, count), show(row, of, count))


def _scale_interval(row: Row) -> Markup:
    """Write an interval of scores, without signs."""
    if not math.isfinite(row.number("ci_low")):
        return Markup(MISSING)
    return Markup("{} to {}").format(show(row, "ci_low", unsigned), show(row, "ci_high", unsigned))


def _noted(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...], *, words: Sequence[int]) -> Table:
    """Leave the last column, of notes, out where there are none."""
    if any(row[-1] for row in rows):
        return Table(head, rows, words=frozenset(words))
    return Table(head[:-1], tuple(row[:-1] for row in rows), words=frozenset(words))


def _scores_table(rows: Sequence[Row], who: str, *, level: str) -> Table:
    return _noted(
        ("group", "subscale", "score", f"{level} interval", "SE", "items", "orders", "perceivers", "note"),
        tuple(
            (
                _name(row[who]),
                _name(row["subscale"]),
                show(row, "score", unsigned),
                _scale_interval(row),
                show(row, "se", unsigned),
                _used(row, "n_items_used", "n_items"),
                show(row, "n_orders", count),
                show(row, "n_perceivers", count),
                str(row["note"] or ""),
            )
            for row in rows
        ),
        words=(1, 8),
    )


def _perceivers_table(rows: Sequence[Row]) -> Table:
    return _noted(
        ("perceiver", "subscale", "score", "SE over items", "SE over orders", "SD within items", "answers", "note"),
        tuple(
            (
                _name(row["perceiver"]),
                _name(row["subscale"]),
                *(show(row, name, unsigned) for name in ("score", "se_items", "se_orders", "sd_within_items")),
                _used(row, "n_answered", "n_asked"),
                str(row["note"] or ""),
            )
            for row in rows
        ),
        words=(1, 7),
    )


def _changes_table(rows: Sequence[Row], who: str, *, level: str) -> Table:
    head = ("subscale", "situations", "default", "evoked", "change", f"{level} interval", "p", "corrected p")
    return _noted(
        ("group" if who == "perceiver_group" else who, *head, "used", "note"),
        tuple(
            (
                _name(row[who]),
                _name(row["subscale"]),
                str(row["narratives"]),
                show(row, "default", unsigned),
                show(row, "evoked", unsigned),
                show(row, "change", points),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "p_adjusted", bare_p),
                _used(row, "n_narratives", "n_narratives_asked"),
                str(row["note"] or ""),
            )
            for row in rows
        ),
        words=(1, 2, 10),
    )


def _differences_table(rows: Sequence[Row], *, level: str) -> Table:
    evoked = any("narratives" in row for row in rows)
    kinds = ("situations",) if evoked else ()
    return _noted(
        ("group", "against", "subscale", *kinds, "mean", "theirs", "difference", f"{level} interval", "p",
         "corrected p", "note"),
        tuple(
            (
                _name(row["perceiver_group"]),
                str(row["compared_with"]),
                _name(row["subscale"]),
                *((str(row["narratives"]),) if evoked else ()),
                show(row, "mean", points if evoked else unsigned),
                show(row, "mean_compared", points if evoked else unsigned),
                show(row, "difference", points),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "p_adjusted", bare_p),
                str(row["note"] or ""),
            )
            for row in rows
        ),
        words=(1, 2, 3, 10) if evoked else (1, 2, 9),
    )  # fmt: skip


def _outcomes_table(rows: Sequence[Row]) -> Table:
    return Table(
        ("group", "imagined", "asked for", "answered", "refused", "unparseable", "failed", "mean number mass"),
        tuple(
            (
                _name(row["perceiver_group"]),
                "nothing" if row["imagined"] == DEFAULT else "a situation",
                *(show(row, f"n_{name}", count) for name in ("asked", "rated", "refused", "unparseable", "failed")),
                show(row, "mean_number_mass", unsigned),
            )
            for row in rows
        ),
        words=frozenset((1,)),
    )


def _items_table(items: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        ("item", "text", "subscale", "key"),
        tuple(
            (
                _name(item["item_id"]),
                Markup("<bdi>{}</bdi>").format(str(item["text"])),
                _name(item["subscale"]),
                "reverse" if item["reverse"] else "as given",
            )
            for item in items
        ),
        words=frozenset((1, 2, 3)),
    )
