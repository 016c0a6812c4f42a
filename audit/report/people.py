"""What the page of a run of ratings says of people: their δ beside the model's, agreement, and norms of narratives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import rows_of, show, show_interval
from audit.report.tables import Table
from audit.tables.shared import OVERALL
from audit.wording import bare_p, brief, count, dimension_title, plural, points, rate, unsigned

SHOWN_FLAGGED = 20
"""Flagged narratives that the page lists; ``tables/norming.csv`` has all."""


@dataclass(frozen=True, slots=True)
class PeopleSection:
    """People beside the model.

    Attributes
    ----------
    gaps
        δ of people and of the model, a row a dimension; None where nobody rated as a perceiver.
    agreement
        How people's and the model's means of narratives go together; None likewise.
    norming
        Flagged narratives; None where none is, or nobody read for norms.
    normed
        How many narratives were normed and how many are flagged, in words; empty without readers.
    """

    gaps: Table | None
    agreement: Table | None
    norming: Table | None
    normed: str


def people_section(tables: Mapping[str, pd.DataFrame], *, level: str) -> PeopleSection | None:
    """Show what people gave; None where there is nothing.

    Parameters
    ----------
    tables
        By name, of which ``people_gap``, ``people_agreement`` and ``norming`` are read.
    level
        Coverage of the intervals, in words.
    """
    gap, agreement, norming = (tables[name] for name in ("people_gap", "people_agreement", "norming"))
    if gap.empty and agreement.empty and norming.empty:
        return None
    flagged = norming.loc[norming["flags"].astype(str) != ""]
    normed = ""
    if len(norming):
        n_shown = f" The first {SHOWN_FLAGGED} are shown." if len(flagged) > SHOWN_FLAGGED else ""
        normed = f"{plural(len(norming), 'narrative')} were read, {count(len(flagged))} are flagged.{n_shown}"
    return PeopleSection(
        gaps=_gaps(gap, level=level) if len(gap) else None,
        agreement=_agreement(agreement, level=level) if len(agreement) else None,
        norming=_flagged(flagged.iloc[:SHOWN_FLAGGED]) if len(flagged) else None,
        normed=normed,
    )


def _gaps(table: pd.DataFrame, *, level: str) -> Table:
    several = table["variant"].nunique() > 1
    rows = rows_of(table, "people_gap")
    head = ("dimension", "δ of people", f"{level} interval", "p", "raters", "groups", "narratives", "ratings")
    is_free = any(math.isfinite(row.number("model_echo_free")) for row in rows)
    notes = [("people", "note"), ("model", "model_note")]
    # Where no dimension's terms allow an echo-free δ, the page need not say so in each row: the text beneath does.
    free = ("δ of the model, echo-free", f"{level} interval") if is_free else ()
    notes += [("model, echo-free", "model_echo_free_note")] if is_free else []
    return Table(
        (*head, "raters left out", "items left out", "δ of the model", f"{level} interval", *free, "note"),
        tuple(
            (
                dimension_title(str(row["dimension"])) + (f", {row['variant']}" if several else ""),
                show(row, "delta_points", points),
                show_interval(row),
                show(row, "p", bare_p),
                *(show(row, name, count) for name in ("n_raters", "n_groups", "n_narratives", "n_ratings")),
                Markup("{} ({} ratings)").format(
                    show(row, "n_excluded", count), show(row, "n_ratings_excluded", count)
                ),
                show(row, "n_skipped", count),
                show(row, "model_delta_points", points),
                show_interval(row, "model_ci_low", "model_ci_high"),
                *((show(row, "model_echo_free", points),) if is_free else ()),
                *((show_interval(row, "model_echo_free_low", "model_echo_free_high"),) if is_free else ()),
                "; ".join(f"{whose}: {row[name]}" for whose, name in notes if row[name]),
            )
            for row in rows
        ),
        words=frozenset((12 + len(free),)),
    )


def _agreement(table: pd.DataFrame, *, level: str) -> Table:
    return Table(
        ("emotion", "r", f"{level} interval", "narratives", "raters", "ratings by people", "note"),
        tuple(
            (
                "all emotions together" if row["emotion"] == OVERALL else brief(str(row["emotion"])),
                show(row, "r", points),
                show_interval(row),
                *(show(row, name, count) for name in ("n", "n_raters", "n_ratings")),
                str(row["note"]),
            )
            for row in rows_of(table, "people_agreement")
        ),
        words=frozenset((6,)),
    )


def _flagged(table: pd.DataFrame) -> Table:
    return Table(
        ("narrative", "designed for", "chose it", "most chosen", "intensity", "SD", "plausibility", "readers", "flags"),
        tuple(
            (
                brief(str(row["narrative_id"]), at_most=40),
                brief(str(row["emotion"])),
                show(row, "share_designed", rate),
                brief(str(row["most_chosen"])),
                *(show(row, name, unsigned) for name in ("mean_intensity", "sd_intensity", "mean_plausibility")),
                show(row, "n", count),
                str(row["flags"]),
            )
            for row in rows_of(table, "norming")
        ),
        words=frozenset((1, 3, 8)),
    )
