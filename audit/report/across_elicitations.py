"""Whether the answer depends on how the rating is got: one sentence a set of runs and dimension, and its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.tables import Table, with_notes
from audit.wording import (
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    error_rate,
    listed,
    points,
    towards,
    unsigned,
)

_PAIRS: Final = {
    "echo_free": "without a word in common",
    "all_terms": "in whatever words",
    "mixed": "without a word in common where a dimension allows that",
    "": "",
}
"""In-group pairs that a δ is of, as the table of controls calls them."""


@dataclass(frozen=True, slots=True)
class Part:
    """What elicitations come to in one set of runs and dimension.

    Attributes
    ----------
    title
        The dimension; beside which run, where there are several sets.
    sentence
        Whether the sign or the verdict depends on the elicitation.
    spread
        How far δ goes, and how many paired differences are found.
    table, caption
        δ of each elicitation, and its difference from the first.
    """

    title: str
    sentence: Markup
    spread: Markup
    table: Table
    caption: str


def elicitation_parts(elicitations: pd.DataFrame, ranges: pd.DataFrame, *, confidence: float) -> Iterator[Part]:
    """Yield what the page shows of the elicitations, one part a set and dimension.

    Parameters
    ----------
    elicitations, ranges
        As ``tables.ELICITATIONS`` and ``tables.ELICITATION_RANGES``.
    confidence
        Coverage of the intervals.
    """
    level = coverage(confidence)
    rows = rows_of(elicitations, "elicitations")
    several = ranges["reference"].nunique() > 1
    for whole in rows_of(ranges, "elicitation_ranges"):
        key = whole["reference"], whole["dimension"]
        own = [row for row in rows if (row["reference"], row["dimension"]) == key]
        title = dimension_title(str(whole["dimension"])) + (f", beside {whole['reference']}" if several else "")
        caption = f"δ by elicitation, {title}: each against the first, {own[0]['elicitation']}"
        yield Part(
            title, _sentence(whole, own), _spread(whole, own, confidence=confidence), _table(own, level=level), caption
        )


def _sentence(whole: Row, rows: Sequence[Row]) -> Markup:
    """Say whether the sign, or the verdict, depends on the elicitation."""
    if not whole["sign"]:
        lacking = "Whether the sign of δ or the verdict depends on the elicitation is not known: of {} {} a δ."
        return Markup(lacking).format(
            show(whole, "n_elicitations", count),
            Markup("{} {}").format(show(whole, "n_estimated", count), either(whole["n_estimated"], "has", "have")),
        )
    decided = [row for row in rows if math.isfinite(row.number("ci_low"))]
    chance = "which may be chance, since no two intervals leave out 0 on opposite sides"
    if not whole["verdict"]:
        signs = {
            "same": Markup("The sign of δ does not depend on the elicitation"),
            "differs": Markup("The sign of δ differs between elicitations, {}").format(chance),
        }
        return signs[str(whole["sign"])] + Markup("; there are no two verdicts to compare, for want of intervals.")
    said = {
        ("same", "same"): "Neither the sign of δ nor the verdict depends on the elicitation",
        ("same", "differs"): "The verdict depends on the elicitation, the sign of δ does not",
        ("differs", "same"): f"The sign of δ differs between elicitations, {chance}; the verdict does not",
        ("differs", "differs"): f"The sign of δ differs between elicitations, {chance}, and so does the verdict",
        ("reverses", "differs"): "Both the sign of δ and the verdict depend on the elicitation",
    }[str(whole["sign"]), str(whole["verdict"])]
    by_verdict: dict[str, list[str]] = {}
    for row in decided:
        by_verdict.setdefault(verdict_words(row), []).append(str(row["elicitation"]))
    found = Markup("; ").join(
        Markup("{} with {}").format(words, "each" if len(by_verdict) == 1 else _named(names))
        for words, names in by_verdict.items()
    )
    without = [str(row["elicitation"]) for row in rows if row not in decided]
    rest = Markup("; none with {}, for want of an interval").format(_named(without)) if without else ""
    return Markup("{}: {}{}.").format(said, found, rest)


def verdict_words(row: Row) -> str:
    """Say what an interval decides, with the direction of a gap that is found."""
    verdict = str(row["verdict"])
    if verdict.startswith("gap"):
        return f"an average gap {towards(row.number('delta_points'))}{verdict.removeprefix('gap')}"
    return {
        "undecided": "compatible with no average gap",
        "no gap larger than the margin": "no average gap larger than the margin",
    }.get(verdict, verdict)


def _spread(whole: Row, rows: Sequence[Row], *, confidence: float) -> Markup:
    """Say how far δ goes, and whether the paired differences show that it does."""
    if not whole["n_estimated"]:
        return Markup("")
    said = Markup("δ goes from {} (<bdi>{}</bdi>) to {} (<bdi>{}</bdi>), a range of {} points over {} {}.").format(
        show(whole, "lowest", points),
        whole["lowest_elicitation"],
        show(whole, "highest", points),
        whole["highest_elicitation"],
        show(whole, "range", unsigned),
        show(whole, "n_estimated", count),
        either(whole["n_estimated"], "elicitation", "elicitations"),
    )
    if not whole["n_changes"]:
        return said + Markup(" No paired difference has a p.")
    said += Markup(" Of {} paired {} from <bdi>{}</bdi>, {} {} found (corrected p below {}).").format(
        show(whole, "n_changes", count),
        either(whole["n_changes"], "difference", "differences"),
        rows[0]["elicitation"],
        show(whole, "n_found", count),
        either(whole["n_found"], "is", "are"),
        error_rate(confidence),
    )
    if not whole["n_found"] and "differs" in (whole["sign"], whole["verdict"]):
        said += Markup(" So that δ itself depends on the elicitation is not shown.")
    return said


def _named(names: Sequence[str]) -> Markup:
    return Markup(listed([Markup("<bdi>{}</bdi>").format(name) for name in names]))


def _table(rows: Sequence[Row], *, level: str) -> Table:
    head = ("elicitation", "run", "in-group pairs", "δ, points", f"{level} interval", "verdict")
    return with_notes(
        (*head, "less the first", f"{level} interval", "p, corrected", "narratives"),
        [
            (
                str(row["elicitation"]),
                str(row["run"]),
                _PAIRS[str(row["pairs"])],
                show(row, "delta_points", points),
                show_interval(row),
                verdict_words(row),
                show(row, "delta_change", points),
                show_interval(row, "change_low", "change_high"),
                show(row, "p_adjusted", bare_p),
                show(row, "n_narratives", count) if row["run"] != row["reference"] else "",
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
        words=(1, 2, 5),
    )
