"""The part of a ratings page on people: their δ beside the model's, agreement, and norms of narratives."""

from __future__ import annotations

import math
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import title_of
from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.section import Captioned, Paragraph, Section, section
from audit.report.table_layout import ShownColumn
from audit.tables.formatting import count, plural

SHOWN_FLAGGED = 20  # the most flagged narratives that the page lists; `tables/norming.csv` has all
_WHO: Final = Markup(
    "People who belong to the groups read the same narratives, told by experiencers of their own and of other groups, "
    "and rated the same emotions on the same scale. Their δ is how much higher (or lower) they rated their own group's "
    "experiencers, after removing the levels of raters, narratives and experiencers."
)
_GAPS: Final = (
    "δ of people and of the model, in points, on the same narratives, with the same experiencers and the same "
    "perceivers' groups"
)
_WHOSE: Final = Markup(
    "The two intervals generalise over different things: that of people over raters, with these narratives; that of "
    "the model over narratives, with these identities. Their difference is not tested. The model is told its "
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


def people_section(results: Results) -> Section | None:
    """Show what people answered, from ``people_gap``, ``people_agreement`` and ``norming``; None if all are empty."""
    norming = results.rows("norming")
    flagged = [row for row in norming if row["flags"]]
    gaps = _gaps(results)
    agreement = results.table(
        "people_agreement", _AGREEMENT, "emotion", "r", "ci_low", ("n", "narratives"), "n_raters",
        ("n_ratings", "ratings by people"), "note",
    )  # fmt: skip
    normed = f"{plural(len(norming), 'narrative')} were read, {count(len(flagged))} are flagged."
    if len(flagged) > SHOWN_FLAGGED:
        normed += f" The first {SHOWN_FLAGGED} are shown."
    return section(
        "People beside the model",
        Paragraph(_WHO) if gaps else None,
        gaps,
        Paragraph(_WHOSE, "small") if gaps else None,
        agreement,
        Paragraph(_NOISY, "small") if agreement else None,
        section(
            "What readers made of the narratives",
            Paragraph(Markup(_NORMED).format(normed)),
            results.table(
                "norming", "Flagged narratives", "narrative_id", ("emotion", "designed for"),
                ("share_designed", "chose it"), "most_chosen", ("mean_intensity", "intensity"), ("sd_intensity", "SD"),
                ("mean_plausibility", "plausibility"), ("n", "readers"), "flags",
                rows=flagged[:SHOWN_FLAGGED],
            ),
            anchor="norms",
        )
        if norming
        else None,
        anchor="people",
        label="People",
        look="page",
    )  # fmt: skip


def _gaps(results: Results) -> Captioned | None:
    rows = results.rows("people_gap")
    several = len({row["variant"] for row in rows}) > 1
    # If no dimension's terms allow an echo-free δ, the text below the table says so once for all rows.
    free = any(math.isfinite(row.number("model_echo_free")) for row in rows)
    notes = [("people", "note"), ("model", "model_note")]
    notes += [("model, echo-free", "model_echo_free_note")] if free else []

    def noted(row: PlacedRow) -> str:
        return "; ".join(f"{whose}: {row[name]}" for whose, name in notes if row[name])

    return results.table(
        "people_gap",
        _GAPS,
        ShownColumn("dimension", lambda row: title_of((row["dimension"], row["variant"]), several=several)),
        ("delta", "δ of people"), "ci_low", "p", "n_raters", "n_groups", "n_narratives", "n_ratings",
        ShownColumn("raters left out", _left_out), ("n_skipped", "items left out"), ("model_delta", "δ of the model"),
        "model_ci_low",
        *((("model_echo_free", "δ of the model, echo-free"), "model_echo_free_low") if free else ()),
        ShownColumn("note", noted, words=True),
        rows=rows,
    )  # fmt: skip


def _left_out(row: PlacedRow) -> Markup:
    return Markup("{} ({} ratings)").format(show(row, "n_excluded", count), show(row, "n_ratings_excluded", count))
