"""What a run's page shows of one dimension and variant: the answers, and everything beneath them.

Its order is that of `_beneath`; the tables' columns are in :mod:`audit.tasks.intensity.dimension_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.cell_matrix import BASELINES
from audit.report.dimensions import Key, RemarkLike, keys_of, own_rows, title_of
from audit.report.disparities import DisparitySentence, who_gets_less, who_is_refused
from audit.report.disparity_section import FIGURE, disparity_section, invented_rows
from audit.report.effect_size import story_check
from audit.report.elicitation_check import elicited
from audit.report.glance import Mark, mark, marks
from audit.report.manifest import ManifestView
from audit.report.numbers import PlacedRow, show
from audit.report.refusals import RefusalGap, say_refusal_gap
from audit.report.results import Results
from audit.report.section import Captioned, Card, Note, Paragraph, Section, paragraph, present, section
from audit.report.sentences import OF_METHOD, WordedResult, answer
from audit.report.summary import LESS, REFUSED_MORE, SIDE
from audit.report.texts import FIGURE_CAPTION, text_section
from audit.report.verdicts import step_elsewhere
from audit.report.wordings import wordings_section
from audit.tables.disparity import REFUSALS, deciding_rows
from audit.tables.formatting import points
from audit.tables.shared import OVERALL
from audit.tasks.intensity import dimension_tables
from audit.tasks.intensity.first_screen import FirstScreenGap

FIGURES: Final = {
    "interaction": (
        "What δ is made of: means of pairs after removing row and column effects. Framed: in-group. The colours end at "
        "the largest value shown, however small.",
        "cells",
    ),
    "cells": ("Raw means of the same pairs. Baselines are shown apart and not part of δ.", "cells"),
    "disparity": (FIGURE, "disparity"),
    "emotions": ("δ of each emotion. Filled marks: the corrected p is below the level of the test.", "families"),
    "groups": (
        "Each group's own gap: how much higher it rates its own than expected from how it rates others and how others "
        "rate it. Filled marks: the corrected p is below the level.",
        "families",
    ),
    "contrasts": ("The gap of each narrative. δ is their mean, weighted if ratings are missing.", "narratives"),
    "ratings": ("Distribution of the ratings, with the ends of the scale shown apart.", "distributions"),
    "refusals": ("Refusals by pair, in percent of its prompts.", "cells"),
    "wordings": (
        "δ in each wording of the prompt, δ over all of them with the interval for wordings like these, and what δ "
        "varies with.",
        "wordings",
    ),
    "texts": (FIGURE_CAPTION, "stage_texts"),
    "null": (
        "The published gap and those of shuffled matrices. This is a null interval, not a confidence interval.",
        "null",
    ),
    "published": ("The published form: cells in standard deviations of the matrix.", "published_cells"),
    "published-masked": ("The same, with only the cells that the published mask shows.", "published_cells"),
}
"""Kinds of figure in order of importance, each with its caption and the table that holds its numbers."""
_MADE_OF: Final = ("interaction", "cells")  # the parts of δ first, then the means that they are computed from
_PARTS: Final = ("emotions", "groups", "contrasts")
_SPREAD: Final = ("cells", "ratings", "refusals")
_PUBLISHED: Final = ("published", "published-masked", "null")
_NONE_FOUND: Final = {
    "none": "nothing beyond the margin", "average": "nothing beyond the margin on average", "undecided": "undecided",
    "absent": "no verdict",
}  # fmt: skip
"""How a folded part is headed."""
_HEATMAPS: Final = (*_MADE_OF, *_PUBLISHED[:2])
_LOWER_OR_HIGHER: Final = ("lower", "higher")
_WRITTEN: Final = "What the strategy wrote about each group"
_OF_PARTS: Final = (
    "These tables show what was measured. Each interval is for its own row; the corrected p is for the whole table. "
    "Which parts count as findings is decided over all gaps of the run: see the answer above."
)
_HUMAN: Final = Markup(
    "People's intensities come from <bdi>{}</bdi>. A model that ranks narratives as people do may still rate them "
    "higher or lower, and can have any δ: the means are over all identities. The row of all emotions includes "
    "differences between emotions. The p of single emotions are corrected (Holm)."
)
_PUBLISHED_STATISTIC: Final = Markup(
    "δ<sub>z</sub> is the difference of in-group and out-group cell means in standard deviations of this matrix's own "
    "cells, after Hou, Daumé III and Rudinger (2025). Do not compare it across models, dimensions or designs. The null "
    "interval is the middle 95% of δ<sub>z</sub> over shuffled matrices. It is not a confidence interval: it treats "
    "the narratives as fixed, and main effects of single identities change δ<sub>z</sub>. So it cannot show that other "
    "narratives or identities would give a gap."
)


class Rated:
    """One dimension and variant of a run; ``anchor`` is that of its part of the page."""

    def __init__(
        self,
        results: Results,
        key: Key,
        anchor: str,
        remarks: Sequence[RemarkLike],
        *,
        view: ManifestView,
        drawn: Set[str] = frozenset(),
        several: bool = False,
    ) -> None:
        self.key, self.anchor, self.title = key, anchor, title_of(key, several=several)
        self._own = own = results.of(key, self.title)
        self._invented = invented_rows(results, key[1])
        self._drawn, self._view = drawn, view
        self._remarks = [remark for remark in remarks if (remark.dimension, remark.variant) == key]
        self._refusals = say_refusal_gap(own.row("missing", outcome="refused"), confidence=view.confidence)
        self.whose = all(remark.code != "no_perceivers" for remark in self._remarks)
        rows = own.rows("disparity", outcome="intensity")
        less = who_gets_less(rows, confidence=view.confidence) if deciding_rows(rows) else None
        self.less = less and _less_for(view, less)
        self.refused = who_is_refused(own.rows("disparity", outcome=REFUSALS), confidence=view.confidence)
        said = answer(
            own, _identities(own.tables["cells"]), scale=view.scale, codes=_codes(remarks, [key]),
            refusals_told=self._refusals is not None, drawn=key[0] in view.drawn,
            n_left_out=view.left_out.get(key[0], 0),
        )  # fmt: skip
        self.answer = _answer_for(view, said)

    def told(self) -> FirstScreenGap:
        """Return what the first screen tells."""
        row = self._own.row("gap", headline=True, scope="narratives")
        return FirstScreenGap(
            self.title, self.anchor, self.answer, row, self._refusals, check=story_check(self._own), whose=self.whose,
            less=self.less, refused=self.refused, marks=self._marks(), groups=self._groups(),
        )  # fmt: skip

    def _marks(self) -> tuple[Mark, ...]:
        """Return what the picture shows of δ: the deciding estimate, and invented groups."""
        decided, verdict = self.answer.decided, self._own.row("verdicts")
        found = verdict is not None and verdict["code"] == "gap"  # one smaller than the margin is found, too
        invented = self._own.row("controls", control="placebo")
        return marks(
            None if decided is None else mark(decided, "delta", "own vs. others", found=found),
            None if invented is None else mark(invented, "delta", "invented groups", look="beside"),
        )

    def _groups(self) -> tuple[Mark, ...]:
        """Return the disparities for the picture, those found and the farthest first."""
        rows = deciding_rows(self._own.rows("disparity", outcome="intensity"))
        rows = sorted(rows, key=lambda row: (row["code"] not in _LOWER_OR_HIGHER, -abs(row.number("disparity"))))
        return marks(*(mark(row, "disparity", row["group"], found=row["code"] in _LOWER_OR_HIGHER) for row in rows))

    def who(self) -> tuple[str, str] | None:
        """Return a perceiver and an experiencer of another group, as the prompts named them; None without ratings."""
        for row in self._own.rows("cells"):
            groups = row["perceiver_group"], row["experiencer_group"]
            if row["n_rated"] > 0 and groups[0] != groups[1] and not {*groups} & {*BASELINES}:
                return str(row["perceiver"]), str(row["experiencer"])
        return None

    def cards(self, *, alone: bool) -> Iterator[Card]:
        """Yield the cards beneath the summary: the gap, who gets less, and refusals if they matter."""
        if self.whose or self.less is None:
            tail = "" if self.less is None else SIDE
            yield _card(self.title, self.anchor, self.answer, alone=alone, tail=tail)
        for less, tail in ((self.less, LESS), (self.refused, REFUSED_MORE)):
            if less is None:
                continue
            unit = f" {less.row['unit']}" if less.row is not None and less.number else ""
            head = _head(less.words, less.number, unit, less.spread, less.facts)
            content = present(
                *((paragraph(_against_zero(less.facts, "D"), "spread"),) if alone else head),
                paragraph(less.size, "size"),
                *(() if alone else (paragraph(less.bound, "small"), paragraph(less.step, "small"))),
            )
            yield Card(self.title, content, kind=less.kind, anchor=self.groups_anchor, tail=tail)
        if self._refusals is not None:
            gap = self._refusals
            head = _head(gap.verdict.words, gap.gap, " percentage points", gap.spread, gap.facts)
            yield Card(
                self.title,
                present(
                    *((paragraph(_against_zero(gap.facts), "spread"),) if alone else head), Paragraph(gap.lead, "size")
                ),
                kind=gap.verdict.kind,
                anchor=self.anchor,
                tail=": refusals",
            )

    def part(self, *, several: bool) -> Section:
        """Return the evidence on δ; what few readers look for is folded, of ``several`` also where no gap is found."""
        side = self.whose or self.less is None
        words = section("", *_shown(self.answer, self._refusals), look="words") if side else None
        content = present(
            section("", words, self._picture(_MADE_OF[0]), look="sides"),
            section("Numbers, sizes and scopes in full", *_in_full(self.answer), look="folded") if side else None,
            *self._folded(),
        )
        if several and self.answer.verdict.kind not in ("gap", "within"):
            return Section(self._headed(self.answer.verdict.kind), content, anchor=self.anchor, look="folded")
        return Section(self.title, content, anchor=self.anchor, look="part")

    def groups(self, *, several: bool) -> Section | None:
        """Return the evidence on who gets less; None if the groups were not compared.

        Of ``several`` dimensions, those are folded in which no group is found to, and of the others the tables.
        """
        make = partial(
            disparity_section, self._own, self._picture("disparity"), invented=self._invented,
            anchor=self.groups_anchor, found=self.less,
        )  # fmt: skip
        if several and self.less is not None and not self.less.found:
            return make(title=self._headed(self.less.kind), look="folded")
        return make(folded=several)

    def _headed(self, kind: str) -> Markup:
        return Markup("<bdi>{}</bdi>: {}").format(self.title, _NONE_FOUND[kind])

    @property
    def groups_anchor(self) -> str:
        """Anchor of the groups' part of the page."""
        return f"{self.anchor}-groups"

    def _folded(self) -> Iterator[Section | None]:
        """Yield what can be unfolded, in the page's order."""
        own, human = self._own, dimension_tables.human(self._own)
        kinds = _HEATMAPS if self._view.replicates else _MADE_OF
        lacking = [kind for kind in kinds if self.whose and "-".join((kind, *self.key)) not in self._drawn]
        yield section(
            "Group or words? Other estimates of δ",
            *(Note(remark.text) for remark in self._remarks if remark.code not in OF_METHOD),
            dimension_tables.controls(own),
            dimension_tables.sensitivity(own),
            dimension_tables.covariates(own),
            *((human, Paragraph(_HUMAN.format(self._view.human), "small")) if human else ()),
            look="folded",
        )
        yield section(
            "Emotions, groups and pairs",
            section("", *map(self._picture, _PARTS), look="pair"),
            Paragraph(_OF_PARTS, "small") if own.rows("families") else None,
            dimension_tables.heterogeneity(own),
            *dimension_tables.families(own),
            look="folded",
        )
        yield section(
            "Prompts, refusals and how ratings are spread",
            *dimension_tables.prompts(own),
            section("", *map(self._picture, _SPREAD), look="pair"),
            elicited(own, self._view.noise, self._view.noise_formats),
            paragraph(f"Not drawn, because ratings are missing: {', '.join(lacking)}." if lacking else "", "absent"),
            look="folded",
        )
        yield section(_WRITTEN, text_section(own, self._picture("texts")), look="folded")
        yield wordings_section(own, self._picture("wordings"))
        yield section("Your own model", dimension_tables.own_model(own), look="folded")
        yield section(
            "The published statistic, for replication", self._published(), *map(self._picture, _PUBLISHED),
            look="folded",
        )  # fmt: skip

    def _picture(self, kind: str) -> Captioned | None:
        caption, table = FIGURES[kind]
        alt = f"{caption} Its numbers are in tables/{table}.csv."
        return self._own.picture("-".join((kind, *self.key)), caption, alt=alt)

    def _published(self) -> Section | None:
        """Show the published study's statistic; None if it could not be estimated."""
        rows = self._own.rows("gap", estimator="published")
        row = next((row for row in rows if math.isfinite(row["delta_z"])), None)
        if row is None:
            return None
        numbers = (show(row, name, points) for name in ("delta_z", "null_low", "null_high"))
        found = Markup("δ<sub>z</sub> = {}; null interval {} to {} ({}).").format(*numbers, row["note"])
        return section("", Paragraph(found), Paragraph(_PUBLISHED_STATISTIC, "small"), look="replication")


def told_overall(
    narrow: Sequence[tuple[str, PlacedRow]], results: Results, remarks: Sequence[RemarkLike], *, view: ManifestView
) -> Iterator[FirstScreenGap]:
    """Yield what the first screen tells of each variant's mean over dimensions."""
    for title, row in narrow:
        if row["dimension"] == OVERALL:
            key = OVERALL, str(row["variant"])
            single = {each["dimension"]: each for _, each in narrow if _is_part(each, key[1])}
            parts = [(dimension, key[1]) for dimension in single]

            tables = {**own_rows(results.tables, key), "manipulation": results.tables["manipulation"]}
            del tables["outcomes"]  # the dimensions say what was left out
            for name in ("families", "modes", "controls"):
                rows = results.tables[name]
                tables[name] = rows.loc[[found in parts for found in keys_of(rows)]]
            own = replace(results, tables=tables, title=title, key=key)
            found = answer(own, scale=view.scale, codes=_codes(remarks, parts), dimensions=single)
            yield FirstScreenGap(title, "gaps", _answer_for(view, found), row, of_all=True)


def overall_card(told: FirstScreenGap) -> Card:
    """Return the card of a mean over dimensions."""
    return _card(told.title, told.anchor, told.answer)


def _answer_for(view: ManifestView, found: WordedResult) -> WordedResult:
    """Return an answer with a step that its reader can take: who used another tool has none of our options."""
    if not view.of_another_tool:
        return found
    return replace(found, verdict=replace(found.verdict, step=step_elsewhere(found.verdict.step)))


def _less_for(view: ManifestView, less: DisparitySentence) -> DisparitySentence:
    """Return the answer on groups with such a step."""
    return replace(less, step=step_elsewhere(less.step)) if view.of_another_tool else less


# --- The answer in words ---------------------------------------------------------------------------------------------


def _card(title: str, anchor: str, found: WordedResult, *, alone: bool = False, tail: str = "") -> Card:
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
    return Card(title, content, kind=found.verdict.kind, anchor=anchor, tail=tail)


def _against_zero(facts: str, what: str = "δ") -> str:
    return Markup("Test of {} against 0: {}.").format(what, facts) if facts else ""


def _head(verdict: str, number: str, unit: str, spread: str, facts: str) -> tuple[Paragraph, ...]:
    beneath = Markup("{}<br>{}").format(spread, facts) if facts else spread
    return (
        Paragraph(verdict, "verdict"),
        Paragraph(Markup("<strong>{}</strong>{}").format(number, unit), "delta"),
        Paragraph(beneath, "spread"),
    )


def _shown(found: WordedResult, refusals: RefusalGap | None) -> Iterator[Paragraph | None]:
    """Yield the answer in a sentence, what is repetition of words, and the refusal gap."""
    yield Paragraph(found.lead, "lead")
    yield _named(
        "Group or words?", Markup("{} {}").format(found.control, found.dealt) if found.dealt else found.control
    )
    if refusals is not None:
        facts = Markup("; {}").format(refusals.facts) if refusals.facts else ""
        yield Paragraph(
            Markup("<strong>{}.</strong> {} percentage points ({}{}). {}").format(
                refusals.verdict.words, refusals.gap, refusals.spread, facts, refusals.lead
            )
        )


def _in_full(found: WordedResult) -> Iterator[Paragraph | None]:
    """Yield everything else that is said of a gap."""
    size = Markup(" The gap is {}.").format(found.size) if found.size else ""
    yield Paragraph(Markup("{}{} {} {}").format(found.evidence, size, found.raw, found.excluded))
    yield paragraph(found.response)
    yield paragraph(found.varies)
    yield paragraph(Markup(" ").join(filter(None, (found.bound, found.power, found.written))))
    yield _named("These identities.", found.scope)
    yield _named("Any such identities.", found.wider)


def _named(what: str, text: str) -> Paragraph | None:
    return Paragraph(Markup("<strong>{}</strong> {}").format(what, text)) if text else None


def _codes(remarks: Sequence[RemarkLike], keys: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Codes of the remarks on these dimensions and variants, and on the whole run."""
    return frozenset(each.code for each in remarks if (each.dimension, each.variant) in {*keys, ("", "")})


def _is_part(row: PlacedRow, variant: str) -> bool:
    """Whether a headline is one of those that this variant's mean over dimensions is made of."""
    return row["variant"] == variant and row["dimension"] != OVERALL and "+" not in str(row["dimension"])


def _identities(cells: pd.DataFrame) -> list[str]:
    """Return the terms that have a rating as perceiver or experiencer, without baselines."""
    cells = cells.loc[cells["n_rated"] > 0]
    sides = ((cells[f"{side}_group"], cells[side]) for side in ("perceiver", "experiencer"))
    terms = (str(term) for groups, column in sides for group, term in zip(groups, column, strict=True)
             if group not in BASELINES)  # fmt: skip
    return list(dict.fromkeys(terms))
