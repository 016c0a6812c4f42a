"""What a run's page shows of one dimension and variant: the answers, and everything beneath them.

Whatever is more than a table is made here or in a module named after it, in the order of `_beneath`. Plain tables are
listed in :data:`audit.report.tables.SHOWN`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.cell_matrix import BASELINES
from audit.report.dimensions import Key, RemarkLike, keys_of, own_rows, title_of
from audit.report.effect_size import Circumstances
from audit.report.elicitation_check import elicited
from audit.report.manifest import ManifestView
from audit.report.numbers import Row, rows_of, show
from audit.report.page import picture
from audit.report.refusals import RefusalGap, refusal_gap
from audit.report.section import (
    Block,
    Captioned,
    Card,
    Note,
    Paragraph,
    Section,
    captioned,
    paragraph,
    present,
    section,
)
from audit.report.sentences import Answer, answer
from audit.report.table_layout import Table
from audit.report.tables import (
    Place,
    beneath_tables,
    heterogeneity_table,
    human_table,
    sensitivity_table,
    shown_at,
)
from audit.report.texts import FIGURE_CAPTION, text_section
from audit.report.wordings import wordings_section
from audit.tables.formatting import coverage, points
from audit.tables.shared import OVERALL
from audit.tasks.intensity.first_screen import Told

FIGURES: Final = {
    "interaction": (
        "What δ is made of: means of pairs with row and column effects removed. Framed: in-group.",
        "cells",
    ),
    "cells": ("The raw means of the same pairs. Baselines stand apart, and are no part of δ.", "cells"),
    "emotions": ("δ within each emotion. Filled marks: the corrected p is below the level of the test.", "families"),
    "groups": (
        "Each group's own gap: how far its ratings of its own lie above what its ratings of others, and others' "
        "ratings of it, lead one to expect. Filled marks: the corrected p is below the level.",
        "families",
    ),
    "contrasts": ("Each narrative's own gap; δ is their mean, weighed where ratings are missing.", "narratives"),
    "ratings": ("How the ratings are spread, with the ends of the scale apart.", "distributions"),
    "refusals": ("Refusals of each pair, in percent of its prompts.", "cells"),
    "wordings": (
        "δ in each wording of the prompt, and over all of them with the interval for any such wordings; and what it "
        "varies with.",
        "wordings",
    ),
    "texts": (FIGURE_CAPTION, "stage_texts"),
    "null": ("The published gap beside those of shuffled matrices: a null interval, no confidence interval.", "null"),
    "published": ("The published form: cells in standard deviations of the matrix.", "published_cells"),
    "published-masked": ("The same, with the cells alone that the published mask shows.", "published_cells"),
}
"""Kinds of figure in order of importance, each with its caption and the table that holds its numbers."""
_APART: Final = ("texts", "wordings")
"""Kinds that have their own place on the page."""
_MADE_OF: Final = ("interaction", "cells")
"""The parts of δ first, then the means that they are computed from."""
_PUBLISHED: Final = ("published", "published-masked")
_HEATMAPS: Final = (*_MADE_OF, *_PUBLISHED)
_TOGETHER: Final = (
    *_MADE_OF,
    *(kind for kind in FIGURES if kind not in (*_HEATMAPS, *_APART)),
)
_WORST: Final = ("worst_case_low", "worst_case_high")


class Rated:
    """One dimension and variant of a run.

    Parameters
    ----------
    anchor
        Of its part of the page.
    tables
        All tables of ``tables.TABLES``.
    figures
        SVG by name, of the figures that fit in the page.
    drawn
        Names of all figures that exist.
    remarks
        Those of the whole run.
    several
        Whether the run has several variants.
    """

    def __init__(
        self,
        key: Key,
        anchor: str,
        tables: Mapping[str, pd.DataFrame],
        figures: Mapping[str, bytes],
        remarks: Sequence[RemarkLike],
        *,
        drawn: Set[str],
        view: ManifestView,
        several: bool,
    ) -> None:
        self.key, self.anchor, self.title = key, anchor, title_of(key, several=several)
        self._own = own = own_rows(tables, key)
        self._figures, self._drawn, self._view = figures, drawn, view
        self._level = coverage(view.confidence)
        self._remarks = [remark for remark in remarks if (remark.dimension, remark.variant) == key]
        self._refusals = refusal_gap(next(_of(own, "missing", outcome="refused"), None), confidence=view.confidence)
        self.answer = _answer(
            own,
            key[0],
            _identities(own["cells"]),
            Circumstances(
                outcomes=rows_of(own["outcomes"], "outcomes"),
                modes=rows_of(own["modes"], "modes"),
                families=rows_of(own["families"], "families"),
                tests=rows_of(own["heterogeneity"], "heterogeneity"),
                worst=[row for check in _WORST for row in _of(own, "sensitivity", check=check)],
                controls=rows_of(own["controls"], "controls"),
                followed=rows_of(tables["manipulation"], "manipulation"),
                codes=_codes(remarks, [key]),
                refusals_told=self._refusals is not None,
                judged=rows_of(own["judged"], "judged"),
                odd=rows_of(own["odd_pairs"], "odd_pairs"),
                verdict=next(iter(rows_of(own["verdicts"], "verdicts")), None),
            ),
            view=view,
        )

    def told(self) -> Told:
        """Return what the first screen tells."""
        row = next(_of(self._own, "gap", headline=True, scope="narratives"), None)
        return Told(self.title, self.anchor, self.answer, row, self._refusals)

    def who(self) -> tuple[str, str] | None:
        """Return a perceiver and an experiencer of another group, as the prompts named them; None without ratings."""
        cells = self._own["cells"]
        cells = cells.loc[cells["n_rated"] > 0]
        apart = cells["perceiver_group"] != cells["experiencer_group"]
        for side in ("perceiver_group", "experiencer_group"):
            apart &= ~cells[side].isin(BASELINES)
        pairs = cells.loc[apart, ["perceiver", "experiencer"]].astype(str)
        return (pairs["perceiver"].iloc[0], pairs["experiencer"].iloc[0]) if len(pairs) else None

    def cards(self, *, alone: bool) -> Iterator[Card]:
        """Yield the cards beneath the summary: the gap, and refusals if they matter.

        If the gap is the only one (``alone``), its card leaves out what the summary has said.
        """
        yield _card(self.title, self.anchor, self.answer, alone=alone)
        if self._refusals is not None:
            gap = self._refusals
            head = _head(gap.verdict.words, gap.gap, " percentage points", gap.spread, gap.facts)
            yield Card(
                self.title,
                present(
                    *((paragraph(_against_zero(gap.facts), "spread"),) if alone else head),
                    Paragraph(gap.lead, "size"),
                ),
                kind=gap.verdict.kind,
                anchor=self.anchor,
                tail=": refusals",
            )

    def part(self) -> Section:
        """Return what the page shows beneath the answers."""
        together = section("", *(self._picture(kind) for kind in _TOGETHER), look="pair")
        content = present(
            *_in_full(self.answer, self._refusals), *(Note(remark.text) for remark in self._remarks), together,
            *self._beneath(),
        )  # fmt: skip
        return Section(self.title, content, anchor=self.anchor, look="part")

    def _beneath(self) -> Iterator[Block | None]:
        """Yield the tables, in the page's order."""
        own, level, title = self._own, self._level, self.title
        yield from self._shown(Place.PROMPTS)
        yield elicited(
            rows_of(own["elicitation"], "elicitation"), rows_of(own["controls"], "controls"), self._view.noise,
            self._view.noise_formats, title=title, level=level,
        )  # fmt: skip
        yield text_section(
            own["stage_texts"], own["marked_words"], title=title, confidence=self._view.confidence,
            figure=self._picture("texts"),
        )  # fmt: skip
        yield self._families()
        yield from self._shown(Place.DELTA)
        yield self._sensitivity()
        yield wordings_section(
            own["wordings"], own["controls"], own["wording_shares"],
            title=title, level=level, figure=self._picture("wordings"),
        )  # fmt: skip
        yield from self._human()
        yield from self._shown(Place.LAST)
        yield section("The published heatmaps", *(self._picture(kind) for kind in _PUBLISHED), look="folded")
        yield self._not_drawn()
        yield self._published()

    def _shown(self, place: Place) -> Iterator[Block | None]:
        return shown_at(place, self._own, level=self._level, title=self.title)

    def _table(self, table: Table | None, caption: str) -> Captioned | None:
        return captioned(table, f"{self.title}: {caption}")

    def _picture(self, kind: str) -> Captioned | None:
        caption, table = FIGURES[kind]
        alt = f"Figure: {caption} Its numbers are in tables/{table}.csv."
        return captioned(picture(self._figures, "-".join((kind, *self.key)), alt), f"{self.title}: {caption}")

    def _families(self) -> Section | None:
        tables = [
            self._table(table, caption) for caption, table in beneath_tables(self._own["families"], level=self._level)
        ]
        if not tables:
            return None
        return section(
            "Beneath δ: groups, pairs, emotions",
            Paragraph("Intervals are for their own row; the corrected p is for the whole family.", "small"),
            self._table(
                heterogeneity_table(self._own["heterogeneity"]),
                "is the gap the same in all emotions, and in all groups?",
            ),
            *tables,
            look="folded",
        )

    def _sensitivity(self) -> Section | None:
        table = self._table(
            sensitivity_table(self._own["sensitivity"], level=self._level),
            "δ under other assumptions; none of them replaces the headline",
        )
        if table is None:
            return None
        return section("If something else is assumed", table, look="folded")

    def _human(self) -> Iterator[Block | None]:
        table = self._table(
            human_table(self._own["human"], level=self._level),
            "does the model order the narratives as people do? Its mean rating of each, over all pairs of identities, "
            "beside people's",
        )
        if table is not None:
            yield table
            yield Paragraph(
                Markup(
                    "People's intensities are of <bdi>{}</bdi>. That model and people order narratives alike says "
                    "nothing about their levels, nor about δ: which identities were named is averaged out. The row of "
                    "all emotions counts how emotions differ, too; the p of the others are corrected (Holm)."
                ).format(self._view.human),
                "small",
            )

    def _not_drawn(self) -> Paragraph | None:
        kinds = _HEATMAPS if self._view.replicates else _MADE_OF
        lacking = [kind for kind in kinds if "-".join((kind, *self.key)) not in self._drawn]
        return paragraph(
            f"Not drawn, for want of ratings that it needs: {', '.join(lacking)}." if lacking else "", "absent"
        )

    def _published(self) -> Section | None:
        """Show the published study's statistic; None if it could not be estimated."""
        rows = (row for row in _of(self._own, "gap", estimator="published") if math.isfinite(row["delta_z"]))
        row = next(rows, None)
        if row is None:
            return None
        numbers = (show(row, name, points) for name in ("delta_z", "null_low", "null_high"))
        found = Markup("δ<sub>z</sub> = {}; null interval {} to {} ({}).").format(*numbers, row["note"])
        return section(
            "The published statistic, for replication",
            Paragraph(found),
            Paragraph(
                Markup(
                    "δ<sub>z</sub> is the difference of in-group and out-group cell means in standard deviations of "
                    "this matrix's own cells, after Hou, Daumé III and Rudinger (2025). It is not comparable across "
                    "models, dimensions or designs. The null interval is the middle 95% of δ<sub>z</sub> over shuffled "
                    "matrices; it is no confidence interval, it does not know that narratives are a sample, and main "
                    "effects of single identities can move δ<sub>z</sub>. So it cannot show that a gap would be found "
                    "with other narratives or other identities."
                ),
                "small",
            ),
            look="replication",
        )


def told_overall(
    narrow: Sequence[tuple[str, Row]],
    tables: Mapping[str, pd.DataFrame],
    remarks: Sequence[RemarkLike],
    *,
    view: ManifestView,
) -> Iterator[Told]:
    """Yield what the first screen tells of each variant's mean over dimensions.

    ``narrow`` holds the headlines of scope ``narratives``, each with its title; for the rest see `Rated`.
    """
    for title, row in narrow:
        if row["dimension"] == OVERALL:
            key = str(row["dimension"]), str(row["variant"])
            single = {each["dimension"]: each for _, each in narrow if _is_part(each, key[1])}
            parts = [(dimension, key[1]) for dimension in single]
            known = Circumstances(
                families=_rows_at(tables, "families", parts),
                modes=_rows_at(tables, "modes", parts),
                worst=[each for each in _rows_at(tables, "sensitivity", parts) if each["check"] in _WORST],
                controls=_rows_at(tables, "controls", parts),
                followed=rows_of(tables["manipulation"], "manipulation"),
                codes=_codes_of_mean(remarks, parts),
                dimensions=single,
                verdict=next(iter(_rows_at(tables, "verdicts", [key])), None),
            )
            found = _answer(own_rows(tables, key), OVERALL, (), known, view=view)
            yield Told(title, "gaps", found, row, of_all=True)


def overall_card(told: Told) -> Card:
    """Return the card of a mean over dimensions."""
    return _card(told.title, told.anchor, told.answer)


# --- The answer in words ---------------------------------------------------------------------------------------------


def _card(title: str, anchor: str, found: Answer, *, alone: bool = False) -> Card:
    """Say what was found; if it is the page's only gap, leave out what the summary has said."""
    unit = " points" if found.scope else ""
    head = (
        *_head(found.verdict.words, found.delta, unit, found.spread, found.facts),
        paragraph(found.size, "size"),
        paragraph(found.varies, "varies"),
        paragraph(found.verdict.step, "small"),
    )
    content = present(
        *((paragraph(_against_zero(found.facts), "spread"),) if alone else head),
        paragraph(found.response, "small"),
        paragraph(found.control, "small control"),
        paragraph(found.opposed, "opposed"),
        paragraph(found.written, "small"),
        Paragraph(found.excluded, "small"),
    )
    return Card(title, content, kind=found.verdict.kind, anchor=anchor)


def _against_zero(facts: str) -> str:
    return Markup("Test against 0: {}.").format(facts) if facts else ""


def _head(verdict: str, number: str, unit: str, spread: str, facts: str) -> tuple[Paragraph, ...]:
    beneath = Markup("{}<br>{}").format(spread, facts) if facts else spread
    return (
        Paragraph(verdict, "verdict"),
        Paragraph(Markup("<strong>{}</strong>{}").format(number, unit), "delta"),
        Paragraph(beneath, "spread"),
    )


def _in_full(found: Answer, refusals: RefusalGap | None) -> Iterator[Paragraph | None]:
    """Yield everything that is said of a gap, and of the refusal gap."""
    yield Paragraph(found.lead, "lead")
    size = Markup(" That is {}.").format(found.size) if found.size else ""
    yield Paragraph(Markup("{}{} {} {}").format(found.evidence, size, found.raw, found.excluded))
    yield Paragraph(found.response) if found.response else None
    yield _named(
        "Group or words?", Markup("{} {}").format(found.control, found.dealt) if found.dealt else found.control
    )
    for first, second in ((found.varies, found.written), (found.bound, found.power)):
        yield Paragraph(Markup("{} {}").format(first, second)) if first or second else None
    if refusals is not None:
        facts = Markup("; {}").format(refusals.facts) if refusals.facts else ""
        yield Paragraph(
            Markup("<strong>{}.</strong> {} percentage points ({}{}). {}").format(
                refusals.verdict.words, refusals.gap, refusals.spread, facts, refusals.lead
            )
        )
    yield _named("These identities.", found.scope)
    yield _named("Any such identities.", found.wider)


def _named(what: str, text: str) -> Paragraph | None:
    return Paragraph(Markup("<strong>{}</strong> {}").format(what, text)) if text else None


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
    return answer(
        narrow,
        known,
        identities,
        wider=headline.get("narratives_and_terms"),
        left_out=rows_of(own["leave_one_out"], "leave_one_out"),
        power=next(_of(own, "power"), None),
        tipping=next(_of(own, "sensitivity", check="tipping_point"), None),
        dimension=dimension,
        scale=view.scale,
        confidence=view.confidence,
    )


def _codes(remarks: Sequence[RemarkLike], keys: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Codes of the remarks on these dimensions and variants, and on the whole run."""
    return frozenset(each.code for each in remarks if (each.dimension, each.variant) in {*keys, ("", "")})


def _codes_of_mean(remarks: Sequence[RemarkLike], parts: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Codes of the remarks on a mean over dimensions: those of any part, but ``noise_floor`` only if all have it."""
    codes = _codes(remarks, parts)
    within = all("noise_floor" in _codes(remarks, [part]) for part in parts)
    return codes if within else codes - {"noise_floor"}


def _of(own: Mapping[str, pd.DataFrame], name: str, **values: object) -> Iterator[Row]:
    """Yield a table's rows that have these values."""
    rows = rows_of(own[name], name)
    return (row for row in rows if all(row[column] == value for column, value in values.items()))


def _is_part(row: Row, variant: str) -> bool:
    """Whether a headline is one of those that this variant's mean over dimensions is made of."""
    return row["variant"] == variant and row["dimension"] != OVERALL and "+" not in str(row["dimension"])


def _rows_at(tables: Mapping[str, pd.DataFrame], name: str, keys: Sequence[tuple[str, str]]) -> list[Row]:
    """Rows of one table for these dimensions and variants."""
    return rows_of(tables[name].loc[[found in keys for found in keys_of(tables[name])]], name)


def _identities(cells: pd.DataFrame) -> list[str]:
    """Return the terms that have a rating as perceiver or experiencer, without baselines."""
    cells = cells.loc[cells["n_rated"] > 0]
    sides = ((cells[f"{side}_group"], cells[side]) for side in ("perceiver", "experiencer"))
    terms = (str(term) for groups, column in sides for group, term in zip(groups, column, strict=True)
             if group not in BASELINES)  # fmt: skip
    return list(dict.fromkeys(terms))
