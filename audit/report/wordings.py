"""Section on the prompt's wordings: δ in each, δ for any such wordings, and what δ varies with."""

from __future__ import annotations

import math
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show, show_interval
from audit.report.results import Results
from audit.report.section import Captioned, Paragraph, Section, section
from audit.report.table_layout import ShownColumn, said
from audit.tables.formatting import count, points

_PARTS: Final = {
    "narratives": "narratives: which situation",
    "wordings": "wordings: how the prompt is worded",
    "rest": "rest: narrative by wording, and noise",
    "identities": "identities: which groups",
}


def wordings_section(own: Results, figure: Captioned | None) -> Section | None:
    """Make the section of one dimension and variant; None if there is only one wording."""
    wordings = own.rows("wordings")
    if not wordings:
        return None
    crossed = own.row("controls", control="wording")
    varies = own.table(
        "wording_shares", "what a gap varies with, as shares of its variance",
        said("part", "part", _PARTS), ("sd", "SD between them, points"),
        ("share", "share of one narrative's gap in one wording"), ("share_of_delta", "share of δ's"),
        ("levels", "number"), "note",
    )  # fmt: skip
    return section(
        "Wordings",
        Paragraph(_found(crossed, len(wordings), level=own.level)),
        figure,
        own.table(
            "wordings", "δ in each wording and over all of them",
            ShownColumn("wording", _name), "delta", "ci_low", "p", "n_narratives", "n_answers", "note",
            rows=[*([] if crossed is None else [crossed]), *wordings],
        ),
        varies,
        look="folded",
    )  # fmt: skip


def _found(crossed: PlacedRow | None, n_wordings: int, *, level: str) -> Markup:
    """Say what δ is over all wordings, and whether another wording could give another sign."""
    if crossed is None or not math.isfinite(crossed.number("delta")):
        why = "" if crossed is None else f": {crossed['note']}"
        words = Markup("The prompt was asked in {} wordings, but no gap could be estimated{}.")
        return words.format(n_wordings, why)
    words = Markup("Over {} wordings of the prompt, δ is {} points").format(
        count(n_wordings), show(crossed, "delta", points)
    )
    if not math.isfinite(crossed.number("ci_low")):
        return words + Markup(", without an interval: {}.").format(crossed["note"])
    out = not crossed["ci_low"] <= 0 <= crossed["ci_high"]
    what = (
        "It excludes 0: on average over such wordings there is a gap of this sign, but single wordings may differ."
        if out
        else "It includes 0: on average over such wordings there may be no gap, or one in the other direction."
    )
    return words + Markup(
        " ({} interval {}). The interval covers narratives and wordings like these, for exactly these identities. {} "
        "The δ at the top of the page is for these wordings only."
    ).format(level, show_interval(crossed), what)


def _name(row: PlacedRow) -> str:
    if row.table == "controls":
        return "wordings like these"
    return f"{row['wording']}, the original" if row["wording"] == 0 else str(row["wording"])
