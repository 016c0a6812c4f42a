"""References for the size of a gap in points: the scale's length, how ratings differ, and the plain means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.cells import NarrativeCube
from audit.statistics.families import adjust_p
from audit.statistics.ratings import FloatArray
from audit.tables.base import Table
from audit.tables.shared import OVERALL

_OF_RATINGS = ("sd_within", "raw_in", "raw_out")

BEYOND_SCALE: Final = "too few narratives: an interval would reach further than the scale allows, and ends there"
_OF_SCALE: Final = ("run", "first", "variant")  # columns that say whose scale a row is on: the first that is there
_PERCENT: Final = 100.0  # length of a scale whose unit is not points: percent of the scale, or percentiles


def within_scale(
    tables: Mapping[str, pd.DataFrame], described: Mapping[str, Table], lengths: Mapping[str, float]
) -> dict[str, pd.DataFrame]:
    """Cut intervals where the scale ends, with a note in rows where one reached further.

    ``described`` says which columns the scale bounds; ``lengths`` is the length of each run's or variant's scale, in
    points.
    """
    return {
        name: _within(table, {each: column.lengths for each, column in described[name].items()}, lengths)
        if name in described
        else table
        for name, table in tables.items()
    }


def _within(table: pd.DataFrame, times: Mapping[str, int], lengths: Mapping[str, float]) -> pd.DataFrame:
    bounded = [name for name, n in times.items() if n and name in table]
    if not bounded or not len(table):
        return table
    length = table[next(name for name in _OF_SCALE if name in table)].map(lengths).astype(float)
    if "unit" in table:
        length = length.where(table["unit"] == "points", _PERCENT)
    # A row that is a difference of two gaps reaches twice as far as a gap. So may a group's own gap: what its other
    # ratings lead to expect can itself lie beyond the scale.
    twice = pd.Series(False, index=table.index)
    if "control" in table:
        # A verdict's ``placebo`` has invented groups' gap taken off; in the table of controls it is that gap.
        difference = "placebo" if "claim" in table else "placebo_difference"
        twice |= table["control"] == difference
    if "delta" in table:
        twice |= table["delta"].astype(float).abs() > length
    kept, cut = {}, pd.Series(False, index=table.index)
    for name in bounded:
        values = table[name].astype(float)
        reach = length * np.where(twice, 2, times[name])
        kept[name] = values.clip(-reach, reach)
        cut |= values.notna() & kept[name].ne(values)
    if "note" not in table:
        return table.assign(**kept)
    said = table["note"].map(lambda note: "; ".join(filter(None, (str(note or ""), BEYOND_SCALE))))
    return table.assign(**kept, note=table["note"].where(~cut, said))


def anchored_rows(
    gap: Sequence[Mapping[str, Any]], cube: NarrativeCube, *, scale: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Add to each gap of one dimension and variant the references for its size; baselines are left out.

    Rows of ``GAP`` get ``percent_of_scale``, and headlines ``sd_within``, ``delta_sd``, ``raw_in`` and ``raw_out``; NaN
    without a value. ``scale`` has its two ends, in points.

    Notes
    -----
    ``sd_within`` is the root of Σ_i Σ_k (y_ik − ȳ_i)² / Σ_i (n_i − 1) over the ratings k of narrative i: what a
    reader of one narrative sees ratings of it differ by, whoever perceives and whoever experiences. In an intersection
    ``raw_out`` is of the pairs that share nothing, with which δ compares, and not of those that share a part. Where δ
    is echo-free, both means are of pairs without a word in common.
    """
    compared = cube.without_baselines()
    free = compared.asked if compared.echoing is None else compared.asked & ~compared.echoing
    own = {
        "sd_within": sd_within(compared.y),
        "raw_in": _mean(compared.y[:, compared.in_group & free]),
        "raw_out": _mean(compared.y[:, (compared.n_shared == 0) & free]),
    }
    for row in gap:
        yield _anchored(row, own if row["headline"] else {}, scale)


def anchored_overall(
    overall: Sequence[Mapping[str, Any]], gap: Sequence[Mapping[str, Any]], scales: Mapping[str, tuple[float, float]]
) -> Iterator[dict[str, Any]]:
    """Add the same references to rows of the mean over single dimensions, from the rows of those dimensions.

    Each dimension counts alike, as it does in the mean: the mean of their plain means, and the root of the mean of
    their variances within narratives.
    """
    for row in overall:
        parts = [
            each
            for each in gap
            if each["variant"] == row["variant"]
            and each["headline"]
            and each["scope"] == row["scope"]
            and each["dimension"] != OVERALL
            and "+" not in each["dimension"]
        ]
        sd, raw_in, raw_out = (np.array([each[name] for each in parts], dtype=np.float64) for name in _OF_RATINGS)
        own = {"sd_within": float((sd**2).mean()) ** 0.5, "raw_in": raw_in.mean(), "raw_out": raw_out.mean()}
        yield _anchored(row, {name: float(value) for name, value in own.items()}, scales[row["variant"]])


def one_family(row: Mapping[str, Any]) -> str | None:
    """Put all gaps into one family, but for the mean over dimensions.

    It tests no hypothesis beside theirs, and would cost each of them power.
    """
    return None if row["dimension"] == OVERALL else ""


def with_adjusted_p(
    gap: Iterable[Mapping[str, Any]], *, family_of: Callable[[Mapping[str, Any]], Hashable | None] = one_family
) -> Iterator[dict[str, Any]]:
    """Correct the p of all headlines within narratives by Holm, in each family.

    NaN for rows that are not a headline within narratives, or of no family (None). Rows without a column ``headline``
    are all headlines.
    """
    rows = [{**row, "p_adjusted": float("nan"), "family_size": float("nan")} for row in gap]
    families: defaultdict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("headline", True) and row["scope"] == "narratives":
            families[family_of(row)].append(row)
    families.pop(None, None)
    for family in families.values():
        adjusted, size = adjust_p([row["p"] for row in family], method="Holm")
        for row, p in zip(family, adjusted.tolist(), strict=True):
            row |= {"p_adjusted": p, "family_size": size}
    yield from rows


def sd_within(y: FloatArray) -> float:
    """Return the standard deviation of ratings, shape (N, P, E), about their narratives' means; NaN without a df."""
    flat = y.reshape(len(y), -1)
    there = ~np.isnan(flat)
    n = there.sum(axis=1)
    used = n > 0
    df = int((n[used] - 1).sum())
    if df < 1:
        return float("nan")
    filled = np.where(there, flat, 0.0)[used]
    means = filled.sum(axis=1, keepdims=True) / n[used, None]
    squares = np.where(there[used], filled - means, 0.0) ** 2
    return float((squares.sum() / df) ** 0.5)


def _mean(ratings: FloatArray) -> float:
    known = ratings[~np.isnan(ratings)]
    return float(known.mean()) if known.size else float("nan")


def _anchored(row: Mapping[str, Any], own: Mapping[str, float], scale: tuple[float, float]) -> dict[str, Any]:
    sd = own.get("sd_within", float("nan"))
    return {
        **row,
        "percent_of_scale": 100 * row["delta"] / (scale[1] - scale[0]),
        **dict.fromkeys(_OF_RATINGS, float("nan")),
        **own,
        "delta_sd": row["delta"] / sd if sd > 0 else float("nan"),
    }
