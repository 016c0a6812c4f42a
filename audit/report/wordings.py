"""Section on the prompt's wordings: δ in each, δ for any such wordings, and what δ varies with."""

from __future__ import annotations

import math
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.section import Captioned, Paragraph, Section, captioned, section
from audit.report.table_layout import Column, Table, interval, number, table_of
from audit.tables.formatting import bare_p, count, points, rate, unsigned

_PARTS: Final = {
    "narratives": "narratives: which situation it is",
    "wordings": "wordings: how the prompt is put",
    "rest": "rest: a narrative in a wording, and noise",
    "identities": "identities: which groups are asked about",
}


def wordings_section(
    wordings: pd.DataFrame,
    controls: pd.DataFrame,
    shares: pd.DataFrame,
    *,
    title: str,
    level: str,
    figure: Captioned | None,
) -> Section | None:
    """Make the section of one dimension and variant; None if there is only one wording."""
    own = rows_of(wordings, "wordings")
    if not own:
        return None
    crossed = next(iter(rows_of(controls.loc[controls["control"] == "wording"], "controls")), None)
    gaps = table_of(
        [*([] if crossed is None else [crossed]), *own],
        Column("wording", _name),
        number("δ, points", "delta", points),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        number("ratings", "n_answers", count),
        note="note",
    )
    varies = captioned(
        _shares(rows_of(shares, "wording_shares")),
        f"{title}: what a gap varies with, as shares of its variance",
    )
    return section(
        "Wordings",
        Paragraph(_found(crossed, len(own), level=level)),
        figure,
        captioned(gaps, f"{title}: δ in each wording, and over all of them"),
        varies,
        look="open",
    )


def _found(crossed: Row | None, n_wordings: int, *, level: str) -> Markup:
    """Say what δ is over all wordings, and whether another wording could give another sign."""
    if crossed is None or not math.isfinite(crossed.number("delta")):
        why = "" if crossed is None else f": {crossed['note']}"
        return Markup("The prompt was asked in {} wordings, of which nothing can be said{}.").format(n_wordings, why)
    said = Markup("Over {} wordings of the prompt δ is {} points").format(
        count(n_wordings), show(crossed, "delta", points)
    )
    if not math.isfinite(crossed.number("ci_low")):
        return said + Markup(", without an interval: {}.").format(crossed["note"])
    out = not crossed["ci_low"] <= 0 <= crossed["ci_high"]
    what = (
        "it leaves out 0, so that a gap of this sign is there on average over such wordings; single ones may differ"
        if out
        else "it holds 0, so that on average over such wordings there might be no gap, or one the other way"
    )
    return said + Markup(
        "; the {} interval {} speaks of any such narratives and any such wordings, these identities given: {}. The δ "
        "that stands first speaks of these wordings alone."
    ).format(level, show_interval(crossed), what)


def _name(row: Row) -> str:
    if row.table == "controls":
        return "any such wordings"
    return f"{row['wording']}, the original" if row["wording"] == 0 else str(row["wording"])


def _shares(rows: list[Row]) -> Table:
    return table_of(
        rows,
        Column("part", lambda row: _PARTS[row["part"]]),
        number("SD between them, points", "sd", unsigned),
        number("share of one narrative's gap in one wording", "share", rate),
        number("share of δ's", "share_of_delta", rate),
        number("number", "levels", count),
        note="note",
    )
