"""Ratings that are missing for an unknown reason: how many were refused is not known, which is not 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pandas as pd

_REASONS: Final = ("n_refused", "n_unparseable", "n_failed", "refusal_rate", "unparseable_rate")
_OUTCOMES: Final = frozenset({"refused", "unparseable", "failed"})
_KNOWN: Final = frozenset({"dimension", "variant", "outcome", "n_narratives", "n_prompts", "note"})
NOTE: Final = "the table of ratings does not say why a rating is missing"


def without_reasons(table: pd.DataFrame, *, of: pd.Series | bool = True) -> pd.DataFrame:
    """Blank the counts and rates of reasons wherever a prompt has no rating, in the rows that ``of`` marks.

    If all prompts are rated, none was refused: 0 stays.
    """
    names = [name for name in _REASONS if name in table]
    unknown = (table["n_rated"] < table["n_prompts"]) & of
    if not names or not unknown.any():
        return table
    # Objects, so that counts beside a missing one stay whole numbers.
    return table.assign(
        **{
            name: (table[name] if table[name].dtype == float else table[name].astype(object)).mask(unknown)
            for name in names
        }
    )


def rows_without_reasons(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Blank each reason's rate and gap in one dimension and variant's rows of ``MISSING``, if a rating is missing."""
    rows = list(rows)
    if not any(row["outcome"] == "missing" and row["n_with_outcome"] for row in rows):
        yield from map(dict, rows)
        return
    for row in rows:
        unknown = {name: float("nan") for name in row if name not in _KNOWN} | {"note": NOTE}
        yield {**row, **(unknown if row["outcome"] in _OUTCOMES else {})}
