"""Tables, figures and manifest to one self-contained HTML page.

The page asks the network for nothing and runs no script: figures are data URIs, the style sheet is inlined, and a
Content-Security-Policy forbids the rest. Model names, responses, narratives and identity wordings are untrusted text
and are escaped by Jinja2. The tables come unrounded; this is where numbers are rounded, by `audit.wording`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from audit.grid import BASELINES, Grid, lay_out
from audit.report.manifest import ManifestError, ManifestView, read_manifest
from audit.report.sentences import ELICITATION, Answer, Row, answer, describe_cells, describe_gaps, describe_interaction
from audit.report.tables import (
    Table,
    beneath_tables,
    comparisons_table,
    gaps_table,
    missing_table,
    outcomes_table,
    own_model_table,
    sensitivity_table,
)
from audit.schema import OVERALL, TABLES
from audit.wording import MISSING, coverage, dimension_title, fixed, p_value, points, rate

_EXAMPLE_COLUMNS: Final = {
    "dimension": "dimension",
    "variant": "variant",
    "perceiver": "perceiver",
    "experiencer": "experiencer",
    "emotion": "emotion",
    "narrative_id": "narrative",
    "narrative": "narrative's text",
    "status": "status",
    "intensity": "intensity",
    "response": "response, verbatim",
    "number_mass": "number mass",
    "mode": "most probable number",
    "spread": "spread",
}


class RemarkLike(Protocol):
    """A note of the statistics on one dimension and variant; both empty if it is on the whole run."""

    @property
    def dimension(self) -> str: ...  # noqa: D102
    @property
    def variant(self) -> str: ...  # noqa: D102
    @property
    def code(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as it is embedded; width and height in CSS pixels keep its place while it is decoded."""

    uri: str
    alt: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page shows of one dimension and variant."""

    anchor: str
    title: str
    answer: Answer
    remarks: tuple[RemarkLike, ...]
    cells: Picture | None
    cells_table: Table | None
    interaction: Picture | None
    outcomes: Table | None
    missing: Table | None
    beneath: tuple[tuple[str, Table], ...]
    sensitivity: Table | None
    own_model: Table | None
    published: Row | None


def render_report(
    *,
    manifest: Mapping[str, object],
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike] = (),
    examples: pd.DataFrame | None = None,
) -> str:
    """Render the report of one run.

    Parameters
    ----------
    manifest
        The run's manifest; see `read_manifest` for what must be there.
    tables
        The tables of `schema.TABLES` by name, of which ``gap`` must be there; an absent one leaves its part out.
    figures
        SVG by name: ``gaps``, and ``cells-<dimension>-<variant>`` and ``interaction-<dimension>-<variant>``. An absent
        figure is left out, and the page says so.
    remarks
        Notes shown with their dimension and variant, or at the top where they name none that was measured.
    examples
        Some rows of the ratings table to show verbatim.

    Returns
    -------
    str
        A whole HTML document, encodable as UTF-8.

    Raises
    ------
    ManifestError
        If the manifest or the tables lack what the page can not do without.
    """
    if "gap" not in tables:
        raise ManifestError(f"a report needs the table 'gap'; there are: {', '.join(tables) or 'none'}")
    view = read_manifest(manifest)
    known = {name: tables.get(name, pd.DataFrame(columns=list(columns))) for name, columns in TABLES.items()}
    measured = [
        key
        for key in dict.fromkeys(key for name in ("gap", "cells", "outcomes") for key in _keys(known[name]))
        if key[0] != OVERALL
    ]
    several = len({variant for _, variant in measured}) > 1
    sections = [
        _section(key, f"part-{place}", known, figures, remarks, view=view, several=several)
        for place, key in enumerate(measured, start=1)
    ]
    rows: list[tuple[str, Row]] = [
        (_title((str(row["dimension"]), str(row["variant"])), several=several), row) for row in _headlines(known["gap"])
    ]
    page = _environment().get_template("template.html.j2").render(
        run=view,
        sections=sections,
        remarks=[remark for remark in remarks if (remark.dimension, remark.variant) not in set(measured)],
        gaps=_picture(
            figures.get("gaps"),
            describe_gaps([row for row in rows if row[1]["scope"] == "narratives"], confidence=view.confidence),
        ),
        gaps_table=gaps_table(rows, level=coverage(view.confidence)),
        comparisons=comparisons_table(known["comparisons"], level=coverage(view.confidence)),
        examples=_examples(examples),
        level=coverage(view.confidence),
        elicitation=_elicitation(view),
        variants=", ".join(dict.fromkeys(variant for _, variant in measured)) or view.variant,
        style=Markup(resources.files("audit.report").joinpath("style.css").read_text("utf-8")),
    )  # fmt: skip
    # File names may hold bytes that are not UTF-8 (surrogates); the page must be writable all the same.
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> Environment:
    folder = resources.files("audit.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(points=points, rate=rate, p_value=p_value)
    return environment


def _section(
    key: tuple[str, str],
    anchor: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
    *,
    view: ManifestView,
    several: bool,
) -> Section:
    dimension, variant = key
    own = {name: table.loc[[found == key for found in _keys(table)]] for name, table in tables.items()}
    headline = {str(row["scope"]): row for row in _headlines(own["gap"])}
    published = own["gap"].loc[own["gap"]["estimator"] == "published"].to_dict("records")
    grid = None if own["cells"].empty else lay_out(own["cells"])
    decimals = 1 if view.high - view.low > 20 else 2
    return Section(
        anchor=anchor,
        title=_title(key, several=several),
        answer=answer(
            headline.get("narratives"),
            own["outcomes"],
            _identities(own["cells"]),
            wider=headline.get("narratives_and_terms"),
            left_out=own["leave_one_out"].to_dict("records"),
            equivalence=_first(own["equivalence"], headline.get("narratives")),
            power=next(iter(own["power"].to_dict("records")), None),
            tipping=next(
                (row for row in own["sensitivity"].to_dict("records") if row["check"] == "tipping_point"), None
            ),
            dimension=dimension,
            scale=view.scale,
            confidence=view.confidence,
        ),
        remarks=tuple(remark for remark in remarks if (remark.dimension, remark.variant) == key),
        cells=_picture(figures.get(f"cells-{dimension}-{variant}"), describe_cells(grid, dimension, decimals=decimals)),
        cells_table=None if grid is None else _cells_table(grid, decimals=decimals),
        interaction=_picture(figures.get(f"interaction-{dimension}-{variant}"), describe_interaction(grid, dimension)),
        outcomes=outcomes_table(own["outcomes"]),
        missing=missing_table(own["missing"], level=coverage(view.confidence)),
        beneath=tuple(beneath_tables(own["families"], level=coverage(view.confidence))),
        sensitivity=sensitivity_table(own["sensitivity"], level=coverage(view.confidence)),
        own_model=own_model_table(own["own_model"], level=coverage(view.confidence)),
        published=_published(next(iter(published), None)),
    )


def _keys(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Dimension and variant of each row; comparisons, which are between variants, have none."""
    variants = table["variant"] if "variant" in table else [""] * len(table)
    return [(str(dimension), str(variant)) for dimension, variant in zip(table["dimension"], variants, strict=True)]


def _headlines(gap: pd.DataFrame) -> list[dict[Any, Any]]:
    return gap.loc[gap["headline"].astype(bool)].to_dict("records")


def _first(table: pd.DataFrame, headline: Row | None) -> Row | None:
    """Return the row of a table that is about the headline's estimator and scope."""
    if headline is None:
        return None
    rows = (row for row in table.to_dict("records") if all(row[k] == headline[k] for k in ("estimator", "scope")))
    return next(rows, None)


def _title(key: tuple[str, str], *, several: bool) -> str:
    return dimension_title(key[0]) + (f" (variant {key[1]})" if several else "")


def _identities(cells: pd.DataFrame) -> list[str]:
    sides = ((cells[f"{side}_group"], cells[side]) for side in ("perceiver", "experiencer"))
    terms = (str(term) for groups, column in sides for group, term in zip(groups, column, strict=True)
             if group not in BASELINES)  # fmt: skip
    return list(dict.fromkeys(terms))


def _elicitation(view: ManifestView) -> str:
    words = ELICITATION.get(
        view.method, "This report has no description of the method {method!r}; see its documentation."
    )
    return words.format(scale=f"{view.scale}", method=view.method)


def _published(row: Row | None) -> Row | None:
    return row if row is not None and math.isfinite(row["delta_z"]) else None


def _picture(svg: bytes | None, alt: str) -> Picture | None:
    if svg is None:
        return None
    sides = [re.search(rb"<svg[^>]*?\s" + side + rb'="([\d.]+)pt"', svg[:4000]) for side in (b"width", b"height")]
    width, height = (round(float(found.group(1)) * 4 / 3) if found else 0 for found in sides)
    return Picture("data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii"), alt, width, height)


def _cells_table(grid: Grid, *, decimals: int) -> Table:
    values = grid.mean.to_numpy()

    def write(row: int, column: int) -> str:
        if grid.unrated[row, column]:
            return "no rating"
        return fixed(values[row, column], decimals=decimals) + ("*" if grid.sparse[row, column] else "")

    return Table(
        ("perceiver \\ experiencer", *map(str, grid.mean.columns)),
        tuple(
            (str(term), *(write(row, column) for column in range(values.shape[1])))
            for row, term in enumerate(grid.mean.index)
        ),
        frozenset((row, column + 1) for row, column in zip(*grid.in_group.nonzero(), strict=True)),
    )


def _examples(examples: pd.DataFrame | None) -> Table | None:
    if examples is None or examples.empty:
        return None
    shown = [name for name in _EXAMPLE_COLUMNS if name in examples and examples[name].replace("", None).notna().any()]
    return Table(
        tuple(_EXAMPLE_COLUMNS[name] for name in shown),
        tuple(tuple(_leaf(name, row[name]) for name in shown) for row in examples.to_dict("records")),
    )


def _leaf(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
        return MISSING
    if name == "number_mass":
        return rate(float(value))
    if name in ("intensity", "mode", "spread"):
        return fixed(float(value), decimals=2)
    return dimension_title(str(value)) if name == "dimension" else str(value)
