"""How commands speak: remarks on standard error, what was found as a table on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from audit.wording import (
    MINUS,
    SCOPES,
    bare_p,
    count,
    coverage,
    dimension_title,
    fixed,
    interval,
    p_value,
    plural,
    points,
    printable,
    unsigned,
)

if TYPE_CHECKING:
    from audit.publish import Outcome

WIDTH: Final = 118
"""Letters of a line of help."""


def say(line: str) -> None:
    """Tell the user something on standard error; what would act in a terminal is escaped."""
    print("\n".join(map(printable, line.split("\n"))), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Tell the user what to know of what was found."""
    say(f"note: {text}")


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Print lines of cells, the head first, in columns."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def percent(row: Mapping[Any, Any], *names: str, signed: bool) -> str:
    """Write a share of a row in percent, or two of them as an interval; "none" where it is missing."""
    if row[names[0]] != row[names[0]]:
        return "none"
    return " to ".join(fixed(100 * row[name], decimals=1, signed=signed) for name in names)


def show_outcome(outcome: Outcome) -> None:
    """Print what was found in a run, and where its report lies."""
    about: dict[str, list[str]] = {}
    for remark in outcome.remarks:
        about.setdefault(remark.text, []).extend([dimension_title(remark.dimension)] if remark.dimension else [])
    for text, dimensions in about.items():
        note(f"{', '.join(dict.fromkeys(dimensions))}{': ' if dimensions else ''}{text}")
    if "measure" in outcome.gap:
        print_table(_measure_lines(outcome))
    elif "subscale" in outcome.gap:
        print_table(_inventory_lines(outcome))
    else:
        print_table(_gap_lines(outcome))
        for line in outcome.controls:
            print(line)
    print(f"report: {outcome.report}")


def _gap_lines(outcome: Outcome) -> list[tuple[str, ...]]:
    head = ("dimension", "variant", "speaks of", "average gap (points)", f"{coverage(outcome.confidence)} interval")
    lines: list[tuple[str, ...]] = [(*head, "p", "corrected p", "from")]
    for row in outcome.gap[outcome.gap["headline"]].to_dict("records"):
        estimated = row["se"] == row["se"]
        counts = (
            f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'narrative')}, "
            f"{plural(row['n_missing'], 'rating')} missing"
        )
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["variant"],
                SCOPES[row["scope"]],
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                p_value(row["p"]) if estimated else "none",
                bare_p(row["p_adjusted"]),
                counts if row["scope"] == "narratives" else row["note"] or plural(row["df"] + 1, "group"),
            )
        )
    return lines


def _measure_lines(outcome: Outcome) -> list[tuple[str, ...]]:
    level = coverage(outcome.confidence)
    head = ("dimension", "measure", "gap (its unit)", f"{level} interval", "p", "corrected p", "from")
    lines: list[tuple[str, ...]] = [head]
    headlines = outcome.gap[outcome.gap["headline"].astype(bool) & (outcome.gap["scope"] == "narratives")]
    for row in headlines.sort_values("dimension", kind="stable").to_dict("records"):
        estimated = row["se"] == row["se"]
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["measure"],
                points(row["delta"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                bare_p(row["p"]),
                bare_p(row["p_adjusted"]),
                f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'narrative')}",
            )
        )
    return lines


def _inventory_lines(outcome: Outcome) -> list[tuple[str, ...]]:
    level = coverage(outcome.confidence)
    affect = "change" in outcome.gap
    said = ("situations", f"evoked {MINUS} default", f"{level} interval", "corrected p", "from")
    lines = [("dimension", "group", "subscale", *(said if affect else ("score", f"{level} interval", "items")))]
    for row in outcome.gap.to_dict("records"):
        spread = f"{interval(row['ci_low'], row['ci_high'])}" if row["ci_low"] == row["ci_low"] else "none"
        if affect:
            found: tuple[str, ...] = (
                row["narratives"],
                points(row["change"]),
                spread,
                bare_p(row["p_adjusted"]),
                f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'situation')}",
            )
        else:
            n_items = f"{count(row['n_items_used'])} of {count(row['n_items'])}"
            found = (unsigned(row["score"]), spread.replace("+", ""), n_items)
        lines.append((dimension_title(row["dimension"]), row["perceiver_group"], row["subscale"], *found))
    return lines
