"""The part of a ratings page on people: their δ beside the model's, agreement, and norms of narratives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of, show
from audit.report.section import Paragraph, Section, captioned, section
from audit.report.table_layout import Column, Table, interval, number, table_of, text
from audit.report.tables import emotion_of
from audit.tables.formatting import bare_p, brief, count, dimension_title, plural, points, rate, unsigned

SHOWN_FLAGGED = 20
"""The most flagged narratives that the page lists; ``tables/norming.csv`` has all."""
_WHO: Final = Markup(
    "People who belong to the groups read the same narratives, told by experiencers of their own and of other groups, "
    "and rated the same emotions on the same scale. Their δ is what they rated their own group's experiencers higher "
    "(or lower) by, beyond each rater's own level and those of the narratives and experiencers."
)
_GAPS: Final = (
    "δ of people and of the model, in points, on the same narratives, with the same experiencers and the same "
    "perceivers' groups"
)
_WHOSE: Final = Markup(
    "The two intervals speak of different things: that of people of such raters with these narratives, that of the "
    "model of such narratives with these identities. No test of their difference is made. The model is told its "
    "identity in words, which in-group pairs may repeat; people are not. So the δ of the model is of all pairs, "
    "whatever their words, and beside it, where the terms of a dimension allow that, stands its echo-free δ: of "
    "in-group pairs without a word in common. People's δ is of those who took part and of how they were asked; it is "
    "not that of their groups, and no standard for the model: nothing here says which rating is right. Raters who "
    "belong to none of the groups, or did not say, are left out, and counted."
)
_AGREEMENT: Final = "How far people's and the model's mean ratings of the narratives go together (Pearson's r)"
_NOISY: Final = Markup(
    "A mean of few ratings is noisy, which draws r towards 0. Agreement on narratives says nothing about δ, in which "
    "who is said to feel is compared. The row of all emotions counts how emotions differ, too. Intervals are Fisher's, "
    "each for its own row."
)
_NORMED: Final = (
    "Readers saw the narratives without any identity. {} A narrative is flagged where fewer than 5 readers answered a "
    "question, fewer than half chose the emotion that it was designed for, its mean intensity is below a quarter of "
    "the scale, or its mean plausibility is below 4 (of 1 to 7). These thresholds are conventions of ours. Flagged "
    "narratives are in all numbers of this page; <code>tables/norming.csv</code> has them all."
)


def people_section(tables: Mapping[str, pd.DataFrame], *, level: str) -> Section | None:
    """Show what people answered, from ``people_gap``, ``people_agreement`` and ``norming``; None if all are empty."""
    gap, agreement, norming = (tables[name] for name in ("people_gap", "people_agreement", "norming"))
    if gap.empty and agreement.empty and norming.empty:
        return None
    flagged = norming.loc[norming["flags"].astype(str) != ""]
    normed = ""
    if len(norming):
        n_shown = f" The first {SHOWN_FLAGGED} are shown." if len(flagged) > SHOWN_FLAGGED else ""
        normed = f"{plural(len(norming), 'narrative')} were read, {count(len(flagged))} are flagged.{n_shown}"
    gaps = captioned(_gaps(gap, level=level), _GAPS)
    agrees = captioned(_agreement(agreement, level=level), _AGREEMENT)
    return section(
        "People beside the model",
        Paragraph(_WHO) if gaps else None,
        gaps,
        Paragraph(_WHOSE, "small") if gaps else None,
        agrees,
        Paragraph(_NOISY, "small") if agrees else None,
        section(
            "What readers made of the narratives",
            Paragraph(Markup(_NORMED).format(normed)),
            captioned(_flagged(flagged.iloc[:SHOWN_FLAGGED]), "Flagged narratives"),
            anchor="norms",
        )
        if normed
        else None,
        anchor="people",
        label="People",
        look="page",
    )


def _gaps(table: pd.DataFrame, *, level: str) -> Table:
    several = table["variant"].nunique() > 1
    rows = rows_of(table, "people_gap")
    notes = [("people", "note"), ("model", "model_note")]
    free: list[Column] = []
    # If no dimension's terms allow an echo-free δ, the text below the table says so once for all rows.
    if any(math.isfinite(row.number("model_echo_free")) for row in rows):
        notes.append(("model, echo-free", "model_echo_free_note"))
        free = [
            number("δ of the model, echo-free", "model_echo_free", points),
            interval(level, "model_echo_free_low", "model_echo_free_high"),
        ]
    return table_of(
        rows,
        Column(
            "dimension",
            lambda row: dimension_title(str(row["dimension"])) + (f", {row['variant']}" if several else ""),
        ),
        number("δ of people", "delta", points),
        interval(level),
        number("p", "p", bare_p),
        *(number(name, f"n_{name}", count) for name in ("raters", "groups", "narratives", "ratings")),
        Column("raters left out", _left_out),
        number("items left out", "n_skipped", count),
        number("δ of the model", "model_delta", points),
        interval(level, "model_ci_low", "model_ci_high"),
        *free,
        Column(
            "note",
            lambda row: "; ".join(f"{whose}: {row[name]}" for whose, name in notes if row[name]),
            words=True,
        ),
    )


def _left_out(row: Row) -> Markup:
    return Markup("{} ({} ratings)").format(show(row, "n_excluded", count), show(row, "n_ratings_excluded", count))


def _agreement(table: pd.DataFrame, *, level: str) -> Table:
    return table_of(
        rows_of(table, "people_agreement"),
        Column("emotion", emotion_of),
        number("r", "r", points),
        interval(level),
        number("narratives", "n", count),
        number("raters", "n_raters", count),
        number("ratings by people", "n_ratings", count),
        text("note", "note"),
    )


def _flagged(table: pd.DataFrame) -> Table:
    return table_of(
        rows_of(table, "norming"),
        Column("narrative", lambda row: brief(str(row["narrative_id"]), at_most=40)),
        Column("designed for", lambda row: brief(str(row["emotion"])), words=True),
        number("chose it", "share_designed", rate),
        Column("most chosen", lambda row: brief(str(row["most_chosen"])), words=True),
        number("intensity", "mean_intensity", unsigned),
        number("SD", "sd_intensity", unsigned),
        number("plausibility", "mean_plausibility", unsigned),
        number("readers", "n", count),
        text("flags", "flags"),
    )
