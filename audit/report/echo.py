"""Say whether a gap is one between groups: how much of it remains without repeated words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import PlacedRow, rows_of, show, show_interval
from audit.tables.controls import NO_STEM
from audit.tables.formatting import brief, count, dimension_title, points, printable
from stimuli.words import capital

NOT_CONTROLLED: Final = Markup(
    "Repeated words are not controlled: in-group pairs repeat the perceiver's words, out-group pairs do not."
)
_MIXED: Final = Markup("Repeated words are controlled in some dimensions only; each dimension says whether they are.")


@dataclass(frozen=True, slots=True)
class Control:
    """What the controls for repeated words say about a gap."""

    # echo_free (the gap is of pairs without a word in common), placebo (it is compared with invented groups) or none
    kind: str
    beyond: PlacedRow | None  # for placebo, the row of the difference
    words: Markup  # what was controlled, and what the other controls show
    wording: PlacedRow | None = None  # the row of the gap that generalises over wordings; None if one wording was asked


def control_of(rows: Sequence[PlacedRow], *, several: bool = False) -> Control:
    """Read the table of controls of one dimension and variant; empty if ratings had no such analysis."""
    if several:
        decided = {row["control"] for row in rows if row["headline"] and _has_interval(row)}
        all_free = bool(rows) and decided == {"echo_free"} and not _any_without(rows)
        return Control("echo_free" if all_free else "none", None, Markup("") if all_free else _MIXED)
    told = {str(row["control"]): row for row in rows if math.isfinite(row.number("delta"))}
    found = {name: row for name, row in told.items() if _has_interval(row)}
    free, difference, wording = (found.get(name) for name in ("echo_free", "placebo_difference", "wording"))
    over = Markup("")
    if wording is not None:
        words = Markup(" Over {} wordings of the prompt, for wordings like these: {}.")
        over = words.format(show(wording, "levels", count), _told(wording))
    if free is not None:
        said = [Markup("δ counts only pairs described in different words.")]
        if "all_terms" in told:
            said.append(Markup("Counting all pairs: {}.").format(_told(told["all_terms"])))
        if "same_words" in told and "placebo" in told:
            words = Markup("Counting only pairs with identical words: {}, and {} for invented groups.")
            said.append(words.format(_told(told["same_words"]), _told(told["placebo"])))
        return Control("echo_free", None, Markup(" ").join(said) + over, wording)
    if difference is not None:
        words = Markup(
            "For invented groups, about which the model cannot know anything, the gap is {}. After "
            "subtracting that: {}."
        )
        said = [words.format(_told(told["placebo"]), _told(difference))]
        return Control("placebo", difference, Markup(" ").join(said) + over, wording)
    unstated = next((str(row["note"]) for row in rows if row["control"] == "echo_free" and NO_STEM in row["note"]), "")
    why = Markup(" {}.").format(capital(unstated)) if unstated else Markup("")
    return Control("none", None, NOT_CONTROLLED + why + over, wording)


def controls_of_measures(controls: pd.DataFrame) -> dict[str, Control]:
    """Read the controls of one variant, measure by measure."""
    return {str(name): control_of(rows_of(own, "controls")) for name, own in controls.groupby("outcome", sort=False)}


def control_lines(controls: pd.DataFrame) -> Iterator[str]:
    """Yield lines for a terminal on how much of each gap is repetition of words."""
    rows = rows_of(controls, "controls")
    for key in dict.fromkeys((str(row["dimension"]), str(row["variant"])) for row in rows):
        own = control_of([row for row in rows if (str(row["dimension"]), str(row["variant"])) == key])
        yield f"group or words? {dimension_title(key[0])} ({printable(brief(key[1]))}): {own.words.striptags()}"


def _any_without(rows: Sequence[PlacedRow]) -> bool:
    """Tell whether a dimension among these rows has no deciding control."""
    return {row["dimension"] for row in rows} != {
        row["dimension"] for row in rows if row["headline"] and _has_interval(row)
    }


def _has_interval(row: PlacedRow) -> bool:
    return math.isfinite(row.number("ci_low"))


def _told(row: PlacedRow) -> Markup:
    if not _has_interval(row):
        return Markup("{} (no interval)").format(show(row, "delta", points))
    return Markup("{} ({})").format(show(row, "delta", points), show_interval(row))
