"""Section on who gets less in one dimension and variant: the answer, a figure of the groups, and what lies beneath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from audit.report.disparities import (
    DISPARITY_MEANING,
    DisparitySentence,
    answer_in_words,
    limit_in_words,
    limits_in_words,
    limits_of_all,
    who_gets_less,
)
from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.section import Captioned, Paragraph, Section, paragraph, section
from audit.report.table_layout import IfKnown, Named, ShownColumn, degrees, names, said
from audit.tables.disparity import deciding_rows
from audit.tables.formatting import fixed, listed, p_value

FIGURE: Final = (
    "How far each group lies below or above the others. Filled marks: lower or higher is shown. Shaded: the margin, if "
    "one was set. Beneath the line: invented groups, if they were asked about."
)
_VIEWS: Final = {
    "all": "over all perceivers",
    "unspecified": "perceiver: “a person”",
    "no_persona": "without a persona",
    "baseline": "against “a person”",
}
_VIEWS_OF_PERSONAS: Final = {
    "all": "over all experiencers",
    "no_persona": "against no persona",
    "baseline": "against the persona “a person”",
}
_SCOPES: Final = {
    "narratives": "these words",
    "narratives_and_terms": "any such terms",
    "narratives_and_labels": "beyond what labels differ by",
    "narratives_and_wordings": "any such wordings of the prompt",
}
_CUES: Final = {"name": "first name", "earlier_turn": "label, in an earlier turn"}
_COLUMNS: Final = "disparity", "ci_low", "p", "p_adjusted"


def disparity_section(
    own: Results,
    figure: Captioned | None = None,
    *,
    outcome: str = "intensity",
    of: str = "rated",
    measure: str = "",
    invented: Sequence[PlacedRow] = (),
    title: str = "",
    anchor: str = "",
    look: str = "heading",
    folded: bool = False,
    found: DisparitySentence | None = None,
) -> Section | None:
    """Make the section of one dimension, variant and outcome; None if its groups were not compared.

    ``of`` says what is lower, as in :func:`who_gets_less`; ``measure`` names the outcome in captions, where there are
    several. ``invented`` are the rows of invented groups, which are dimensions of their own, of the same variant and
    outcome (:func:`invented_rows`). ``figure`` is one of :func:`audit.report.figures.forests.plot_disparity`.
    ``folded`` folds the table of groups. ``found`` is the answer, where the page has it already.
    """
    rows = own.rows("disparity", outcome=outcome)
    if not deciding_rows(rows):
        return None
    found = found or who_gets_less(rows, confidence=own.confidence, of=of)
    decided, *others = _tables(own, rows, invented, measure)
    return section(
        title or own.title,
        section(
            "",
            section("", Paragraph(found.words + Markup("."), "lead"), paragraph(_number(found)), look="words"),
            figure,
            look="sides",
        ),
        section("Every group", decided, look="folded") if folded else decided,
        section(
            "The groups' terms, invented groups, and other views",
            # Of measures it stands once; and without personas nothing is removed that δ would leave out.
            Paragraph(DISPARITY_MEANING, "small") if deciding_rows(rows)[0]["view"] == "all" and not measure else None,
            paragraph(Markup(" ").join(filter(None, (found.bound, found.step, _tested(rows)))), "small"), *others,
            look="folded",
        ),
        anchor=anchor,
        look=look,
    )  # fmt: skip


def invented_rows(results: Results, variant: str) -> list[PlacedRow]:
    """Return the rows of invented groups of ratings of a variant, from the results of the whole run."""
    return results.rows("disparity", variant=variant, outcome="intensity", invented=True)


def _number(found: DisparitySentence) -> Markup:
    """Write the group that lies farthest from the others: its number, how sure it is, and how large."""
    row = found.row
    if row is None or not found.number:
        return Markup("")
    said = Markup("D = {} {} ({}; {}).").format(found.number, row["unit"], found.spread, found.facts)
    return said + (Markup(" That is {}.").format(found.size) if found.size else "")


def _tested(rows: Sequence[PlacedRow]) -> Markup:
    """Say whether the groups differ at all, by one test of all of them; empty if there is none."""
    view = str(deciding_rows(rows)[0]["view"])
    row = next(iter(_of(rows, view=view, level="all")), None)
    if row is None or not math.isfinite(row.number("p")):
        return Markup("")
    return Markup("One test of all groups at once: F = {} with {} and {} degrees of freedom, {}.").format(
        show(row, "statistic", lambda value: fixed(value, decimals=2)),
        show(row, "df", degrees), show(row, "df_residual", degrees), show(row, "p", p_value),
    )  # fmt: skip


def _tables(
    own: Results, rows: Sequence[PlacedRow], invented: Sequence[PlacedRow], measure: str
) -> list[Captioned | None]:
    """Lay out the groups that are decided about, their terms, invented groups, other views, and perceivers."""
    decided = deciding_rows(rows)
    view = str(decided[0]["view"])
    start = f"{measure}: " if measure else ""

    def lay(caption: str, *columns: Named, of: Sequence[PlacedRow]) -> Captioned | None:
        return own.table("disparity", start + caption, *columns, rows=of)

    def lowest_first(some: Sequence[PlacedRow]) -> list[PlacedRow]:
        return sorted(some, key=lambda row: (math.isnan(row.number("disparity")), row.number("disparity")))

    group = names("group", "member")
    speaks_of, in_view = said("scope", "speaks of", _SCOPES), said("view", "view", _VIEWS)
    others = [
        row for row in _of(rows, level="group")
        if (not row["headline"] or row["view"] != view) and (row["scope"] == "narratives" or _is_known(row))
    ]  # fmt: skip
    shared = limits_of_all(decided)  # told once: a table of many groups would repeat it in each row
    of_all = listed([limit_in_words(code, decided[0]) for code in shared])
    return [
        lay(
            f"each group against the others, {_VIEWS[view]}: D and what it shows. The corrected p is for all groups"
            + (f". What limits every answer: {of_all}" if shared else ""),
            group, ShownColumn("answer", answer_in_words, words=True), "disparity", "ci_low", "p_adjusted",
            IfKnown("percent_of_scale"), IfKnown("percent_of_response"), IfKnown("disparity_sd"),
            ("share_lower", "lower in"), "n_narratives",
            speaks_of,
            ShownColumn(
                f"what {'else ' if shared else ''}limits it", lambda row: limits_in_words(row, shared), words=True
            ),
            of=lowest_first(decided),
        ),
        lay(
            f"each term against the other groups, {_VIEWS[view]}: terms of a group that differ show that words "
            "matter. p is corrected for all terms",
            names("term", "member"), names("group", "group", words=True), *_COLUMNS, ("share_lower", "lower in"),
            "n_narratives", "note",
            of=_of(rows, level="term", view=view),
        ),
        lay(
            f"each group by how its terms tell it, against the others told so, {_VIEWS[view]}. p is corrected for all "
            "rows",
            names("group", "group"), said("member", "told by", _CUES), *_COLUMNS, ("share_lower", "lower in"),
            "n_narratives", "note",
            of=lowest_first(_of(rows, level="cue", view=view)),
        ),
        lay(
            f"invented groups against each other, {_VIEWS[view]}: the model can know nothing of them, so this is what "
            "labels differ by",
            group, *_COLUMNS, ("share_lower", "lower in"), "n_narratives", "note",
            of=lowest_first(_of(invented, level="group", view=view, scope="narratives")),
        ),
        lay(
            "the same groups in other views, and with intervals for other words. Without an answer: only the first "
            "table decides",
            group, in_view, speaks_of, *_COLUMNS, "n_narratives", "note",
            of=others,
        ),
        lay(
            "perceivers: which persona gives less to everybody. No verdict is made of this",
            names("persona", "member"), said("view", "view", _VIEWS_OF_PERSONAS), *_COLUMNS, "n_narratives", "note",
            of=lowest_first([row for row in rows if row["side"] == "perceiver" and row["level"] == "group"
                             and row["scope"] == "narratives"]),
        ),
    ]  # fmt: skip


def _is_known(row: PlacedRow) -> bool:
    return math.isfinite(row.number("disparity"))


def _of(rows: Sequence[PlacedRow], **values: object) -> list[PlacedRow]:
    """Return the rows of experiencers that have these values."""
    return [
        row
        for row in rows
        if row["side"] == "experiencer" and all(row[column] == value for column, value in values.items())
    ]
