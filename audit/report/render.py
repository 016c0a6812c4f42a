"""Tables, figures and manifest of one run to one self-contained HTML page.

The page asks the network for nothing, and no script runs in it but the package's own: figures are data URIs, style and
scripts are inlined, and a Content-Security-Policy forbids the rest. Model names, responses, narratives and identity
wordings are untrusted text and are escaped by Jinja2. The tables come unrounded; this is where numbers are rounded,
by `audit.wording`, and each says which cell of which table it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, Protocol

import pandas as pd
from markupsafe import Markup

from audit.grid import BASELINES
from audit.report.downloads import pack
from audit.report.elicitations import describe_elicitation
from audit.report.elicited import Elicited, elicited
from audit.report.explore import Explorer
from audit.report.held_against import Circumstances
from audit.report.manifest import ManifestError, ManifestView, read_manifest
from audit.report.numbers import Row, rows_of
from audit.report.page import Picture, asset, encodable, environment, picture, policy
from audit.report.people import people_section
from audit.report.refusals import RefusalGap, refusal_gap
from audit.report.sentences import LIMITS, Answer, answer, describe_gaps
from audit.report.tables import (
    Table,
    beneath_tables,
    calls_table,
    comparisons_table,
    controls_table,
    gaps_table,
    heterogeneity_table,
    human_table,
    manipulation_table,
    missing_table,
    outcomes_table,
    own_model_table,
    sensitivity_table,
)
from audit.report.texts import FIGURE_CAPTION, TextSection, text_section
from audit.report.wordings import Wordings, wordings_section
from audit.schema import OVERALL, TABLES
from audit.wording import MEANING, brief, coverage, dimension_title

MAX_FIGURES: Final = 900_000
"""Bytes that the embedded figures may take up together."""
MAX_DOWNLOADS: Final = 500_000
"""Bytes that the embedded tables may take up together."""
_FIGURES: Final = {
    "emotions": ("δ within each emotion. Filled marks: the corrected p is below the level of the test.", "families"),
    "groups": (
        "Each group's own gap: how far its ratings of its own lie above what its ratings of others, and others' "
        "ratings of it, lead one to expect. Filled marks: the corrected p is below the level.",
        "families",
    ),
    "contrasts": ("Each narrative's own gap; δ is their mean, weighed where ratings are missing.", "narratives"),
    "ratings": ("How the ratings are spread, with the ends of the scale apart.", "distributions"),
    "refusals": ("Refusals of each pair, in percent of its prompts.", "cells"),
    "missing-grid": (
        "δ if the missing ratings were higher or lower than the ratings that there are let one expect.",
        "missing_grid",
    ),
    "wordings": (
        "δ in each wording of the prompt, and over all of them with the interval for any such wordings; and what it "
        "varies with.",
        "wordings",
    ),
    "texts": (FIGURE_CAPTION, "stage_texts"),
    "null": ("The published gap beside those of shuffled matrices: a null interval, no confidence interval.", "null"),
    "cells": ("Mean intensity of each pair. Framed: in-group. Baselines stand apart, and are no part of δ.", "cells"),
    "interaction": ("What δ is made of: the same means with row and column effects removed.", "cells"),
    "published": ("The published form: cells in standard deviations of the matrix.", "published_cells"),
    "published-masked": ("The same, with the cells alone that the published mask shows.", "published_cells"),
}
"""Kinds of figure, the first ones first, with a caption and the table that has the numbers."""
_APART: Final = ("texts", "missing-grid", "wordings")
"""Kinds that have a place of their own on the page."""
_WORST: Final = ("worst_case_low", "worst_case_high")
_HEATMAPS: Final = ("cells", "interaction", "published", "published-masked")


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
class Limit:
    """A line of the banner: what keeps the data from carrying a claim, why that matters, and where."""

    title: str
    why: str
    where: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """What the first screen says of one dimension and variant, or of all dimensions."""

    title: str
    anchor: str
    answer: Answer
    refusals: RefusalGap | None


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page shows of one dimension and variant, beneath the answer."""

    anchor: str
    title: str
    answer: Answer
    refusals: RefusalGap | None
    remarks: tuple[RemarkLike, ...]
    figures: tuple[tuple[Picture, str], ...]
    heatmaps: tuple[tuple[Picture, str], ...]
    not_drawn: tuple[str, ...]
    texts: TextSection | None
    calls: Table | None
    elicited: Elicited | None
    outcomes: Table | None
    missing: Table | None
    beneath: tuple[tuple[str, Table], ...]
    heterogeneity: Table | None
    controls: Table | None
    sensitivity: Table | None
    missing_grid: tuple[Picture, str] | None
    wordings: Wordings | None
    own_model: Table | None
    human: Table | None
    published: Row | None


def render_report(
    *,
    manifest: Mapping[str, object],
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike] = (),
    explorer: Explorer | None = None,
    max_figures: int = MAX_FIGURES,
    max_downloads: int = MAX_DOWNLOADS,
) -> str:
    """Render the report of one run.

    Parameters
    ----------
    manifest
        The run's manifest; see `read_manifest` for what must be there.
    tables
        The tables of `schema.TABLES` by name, as they are written (indexed from 0), of which ``gap`` must be there; an
        absent one leaves its part out.
    figures
        SVG by name: ``gaps``, and ``KIND-<dimension>-<variant>`` for the kinds of the page. An absent figure is left
        out; one that does not fit is named.
    remarks
        Notes shown with their dimension and variant, or at the top where they name none that was measured.
    explorer
        The heatmaps and the ratings to look into; None leaves them out.
    max_figures, max_downloads
        Bytes that the figures and the tables inside the page may take up.

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
        for key in dict.fromkeys(key for name in ("gap", "cells", "outcomes") for key in keys_of(known[name]))
        if key[0] != OVERALL
    ]
    several = len({variant for _, variant in measured}) > 1
    fitting, left_out = _fit(figures, measured, max_bytes=max_figures)
    sections = [
        _section(key, f"part-{place}", known, fitting, remarks, drawn=set(figures), view=view, several=several)
        for place, key in enumerate(measured, start=1)
    ]
    headlines = rows_of(known["gap"].loc[known["gap"]["headline"].astype(bool)], "gap")
    titled = [(title_of(_key(row), several=several), row) for row in headlines]
    narrow = [(title, row) for title, row in titled if row["scope"] == "narratives"]
    downloads, packed = pack(tables, max_bytes=max_downloads)
    script = asset("unpack.js", "explore.js", "downloads.js")
    page = environment().get_template("report.html.j2").render(
        run=view,
        sections=sections,
        cards=[
            *(Card(section.title, section.anchor, section.answer, section.refusals) for section in sections),
            *_overall_cards(narrow, known, remarks, view=view),
        ],
        limits=list(_limits(remarks, several=several)),
        remarks=[remark for remark in remarks if (remark.dimension, remark.variant) not in set(measured)],
        gaps=picture(fitting.get("gaps"), describe_gaps(narrow, confidence=view.confidence)),
        gaps_table=gaps_table(titled, level=coverage(view.confidence)),
        people=people_section(known, level=coverage(view.confidence)),
        manipulation=manipulation_table(known["manipulation"], level=coverage(view.confidence)),
        comparisons=comparisons_table(known["comparisons"], level=coverage(view.confidence)),
        figures_left_out=left_out,
        explorer=explorer,
        downloads=downloads,
        packed=Markup(packed),
        level=coverage(view.confidence),
        narrower=coverage(2 * view.confidence - 1),
        meaning=MEANING,
        echo_free=any(section.answer.control_kind == "echo_free" for section in sections),
        n_corrected=max((int(row["p_family_size"]) for _, row in narrow if row["p_family_size"] > 0), default=0),
        elicitation=describe_elicitation(
            view.method, scale=view.scale, parser=view.parser, asks_ends=view.asks_ends, begun=view.begun
        ),
        variants=", ".join(dict.fromkeys(brief(variant) for _, variant in measured)) or view.variant,
        style=asset("style.css", "explore.css"),
        script=script,
        policy=policy(script),
    )  # fmt: skip
    return encodable(page)


def _fit(
    figures: Mapping[str, bytes], measured: Sequence[tuple[str, str]], *, max_bytes: int
) -> tuple[dict[str, bytes], list[str]]:
    """Choose the figures that fit, all dimensions' first kind before any one's second, and name the others."""
    names = ["gaps", *(f"{kind}-{dimension}-{variant}" for kind in _FIGURES for dimension, variant in measured)]
    fitting: dict[str, bytes] = {}
    left_out = []
    room = max_bytes
    for name in names:
        size = 4 * len(figures.get(name, b"")) // 3
        if name in figures and size <= room:
            fitting[name] = figures[name]
            room -= size
        elif name in figures:
            left_out.append(name)
    return fitting, left_out


def _section(
    key: tuple[str, str],
    anchor: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike],
    *,
    drawn: Set[str],
    view: ManifestView,
    several: bool,
) -> Section:
    dimension, variant = key
    own = _own(tables, key)
    level = coverage(view.confidence)
    title = title_of(key, several=several)

    def pictures(kinds: Sequence[str]) -> tuple[tuple[Picture, str], ...]:
        found = []
        for kind in kinds:
            caption, table = _FIGURES[kind]
            alt = f"Figure: {caption} Its numbers are in tables/{table}.csv."
            shown = picture(figures.get(f"{kind}-{dimension}-{variant}"), alt)
            found += [(shown, f"{title}: {caption}")] if shown else []
        return tuple(found)

    refusals = refusal_gap(next(_of(own, "missing", outcome="refused"), None), confidence=view.confidence)
    return Section(
        anchor=anchor,
        title=title,
        answer=_answer(
            own,
            dimension,
            _identities(own["cells"]),
            Circumstances(
                outcomes=rows_of(own["outcomes"], "outcomes"),
                modes=rows_of(own["modes"], "modes"),
                families=rows_of(own["families"], "families"),
                tests=rows_of(own["heterogeneity"], "heterogeneity"),
                worst=[row for check in _WORST for row in _of(own, "sensitivity", check=check)],
                controls=rows_of(own["controls"], "controls"),
                codes=_codes(remarks, [key]),
                refusals_told=refusals is not None,
            ),
            view=view,
        ),
        refusals=refusals,
        remarks=tuple(remark for remark in remarks if (remark.dimension, remark.variant) == key),
        texts=text_section(
            own["stage_texts"],
            own["marked_words"],
            title=title,
            confidence=view.confidence,
            figure=next(iter(pictures(["texts"])), None),
        ),
        figures=pictures([kind for kind in _FIGURES if kind not in (*_HEATMAPS, *_APART)]),
        heatmaps=pictures(_HEATMAPS),
        not_drawn=tuple(kind for kind in _HEATMAPS if f"{kind}-{dimension}-{variant}" not in drawn),
        calls=calls_table(own["calls"]),
        elicited=elicited(
            rows_of(own["elicitation"], "elicitation"), rows_of(own["controls"], "controls"), view.noise, level=level
        ),
        outcomes=outcomes_table(own["outcomes"]),
        missing=missing_table(own["missing"], level=level),
        beneath=tuple(beneath_tables(own["families"], level=level)),
        heterogeneity=heterogeneity_table(own["heterogeneity"]),
        controls=controls_table(own["controls"], level=level),
        sensitivity=sensitivity_table(own["sensitivity"], level=level),
        missing_grid=next(iter(pictures(["missing-grid"])), None),
        wordings=wordings_section(
            own["wordings"],
            own["controls"],
            own["wording_shares"],
            own["wording_splits"],
            level=level,
            figure=next(iter(pictures(["wordings"])), None),
        ),
        own_model=own_model_table(own["own_model"], level=level),
        human=human_table(own["human"], level=level),
        published=next((row for row in _of(own, "gap", estimator="published") if math.isfinite(row["delta_z"])), None),
    )


def _answer(
    own: Mapping[str, pd.DataFrame],
    dimension: str,
    identities: Sequence[str],
    known: Circumstances,
    *,
    view: ManifestView,
) -> Answer:
    headline = {row["scope"]: row for row in _of(own, "gap", headline=True)}
    narrow = headline.get("narratives")
    about = {} if narrow is None else {name: narrow[name] for name in ("estimator", "scope")}
    return answer(
        narrow,
        known,
        identities,
        wider=headline.get("narratives_and_terms"),
        left_out=rows_of(own["leave_one_out"], "leave_one_out"),
        equivalence=next(_of(own, "equivalence", **about), None) if about else None,
        power=next(_of(own, "power"), None),
        tipping=next(_of(own, "sensitivity", check="tipping_point"), None),
        dimension=dimension,
        scale=view.scale,
        confidence=view.confidence,
    )


def _codes(remarks: Sequence[RemarkLike], keys: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Codes of the remarks on these dimensions and variants, and on the whole run."""
    return frozenset(each.code for each in remarks if (each.dimension, each.variant) in {*keys, ("", "")})


def _of(own: Mapping[str, pd.DataFrame], name: str, **values: object) -> Iterator[Row]:
    """Yield a table's rows that have these values."""
    rows = rows_of(own[name], name)
    return (row for row in rows if all(row[column] == value for column, value in values.items()))


def _overall_cards(
    narrow: Sequence[tuple[str, Row]],
    tables: Mapping[str, pd.DataFrame],
    remarks: Sequence[RemarkLike],
    *,
    view: ManifestView,
) -> Iterator[Card]:
    """Yield a card for each variant's mean over dimensions."""
    for title, row in narrow:
        if row["dimension"] == OVERALL:
            key = _key(row)
            single = {each["dimension"]: each for _, each in narrow if _is_part(each, key[1])}
            parts = [(dimension, key[1]) for dimension in single]
            known = Circumstances(
                families=_rows_at(tables, "families", parts),
                modes=_rows_at(tables, "modes", parts),
                worst=[each for each in _rows_at(tables, "sensitivity", parts) if each["check"] in _WORST],
                controls=_rows_at(tables, "controls", parts),
                codes=_codes(remarks, parts),
                dimensions=single,
            )
            yield Card(title, "gaps", _answer(_own(tables, key), OVERALL, (), known, view=view), None)


def _is_part(row: Row, variant: str) -> bool:
    """Whether a headline is of a single dimension of this variant, which the mean over dimensions is made of."""
    return row["variant"] == variant and row["dimension"] != OVERALL and "+" not in str(row["dimension"])


def _own(tables: Mapping[str, pd.DataFrame], key: tuple[str, str]) -> dict[str, pd.DataFrame]:
    """Rows of one dimension and variant of each table that has dimensions."""
    return {
        name: table.loc[[found == key for found in keys_of(table)]]
        for name, table in tables.items()
        if "dimension" in table
    }


def _rows_at(tables: Mapping[str, pd.DataFrame], name: str, keys: Sequence[tuple[str, str]]) -> list[Row]:
    """Rows of one table that are of these dimensions and variants."""
    return rows_of(tables[name].loc[[found in keys for found in keys_of(tables[name])]], name)


def limits_by_text(
    remarks: Sequence[RemarkLike], titles: Mapping[str, str], *, several: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield for each text of a remark that limits a claim its title, where it holds, and the text.

    Parameters
    ----------
    remarks
        Those with a code that has no title are left out.
    titles
        Code → what it is called, in the order to show.
    several
        Whether the run has several variants.
    """
    for code, title in titles.items():
        own = [remark for remark in remarks if remark.code == code]
        for text in dict.fromkeys(remark.text for remark in own):
            where = [
                title_of((remark.dimension, remark.variant), several=several)
                for remark in own
                if remark.text == text and remark.dimension
            ]
            yield title, ", ".join(dict.fromkeys(where)), text


def _limits(remarks: Sequence[RemarkLike], *, several: bool) -> Iterator[Limit]:
    """Yield what the banner says: each limit once, with the dimensions that it concerns."""
    for code, (title, why) in LIMITS.items():
        own = [remark for remark in remarks if remark.code == code]
        if own:
            named = (
                title_of((remark.dimension, remark.variant), several=several) for remark in own if remark.dimension
            )
            texts = tuple(dict.fromkeys(remark.text for remark in own))
            yield Limit(title, why, tuple(dict.fromkeys(named)), texts)


def keys_of(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Dimension and variant of each row; comparisons, which are between variants, have none."""
    variants = table["variant"] if "variant" in table else [""] * len(table)
    return [(str(dimension), str(variant)) for dimension, variant in zip(table["dimension"], variants, strict=True)]


def _key(row: Row) -> tuple[str, str]:
    return str(row["dimension"]), str(row["variant"])


def title_of(key: tuple[str, str], *, several: bool) -> str:
    """Name a dimension, and where a run has several variants, the variant."""
    return dimension_title(key[0]) + (f" (variant {brief(key[1])})" if several else "")


def _identities(cells: pd.DataFrame) -> list[str]:
    """Return the terms of the dimension's groups that have a rating, as one who rates or one who is rated."""
    cells = cells.loc[cells["n_rated"] > 0]
    sides = ((cells[f"{side}_group"], cells[side]) for side in ("perceiver", "experiencer"))
    terms = (str(term) for groups, column in sides for group, term in zip(groups, column, strict=True)
             if group not in BASELINES)  # fmt: skip
    return list(dict.fromkeys(terms))
