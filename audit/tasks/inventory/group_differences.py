"""Differences between groups of perceivers: which groups are compared, the t interval, and corrected p.

What answers have in common decides what an interval is over. A list is answered in one go, so its order affects all its
answers, and orders, of which there could be others, count besides items. Items shown alone are answered independently:
they are the units, each its mean over the two directions of the scale (from its low end, from its high end), which are
all the directions there are, balanced, and no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from audit.statistics.estimates import t_interval
from audit.statistics.families import adjust_p
from audit.statistics.ratings import NO_PERSONA, UNSPECIFIED, BoolArray, FloatArray, IntArray
from audit.tables.formatting import brief, either, plural
from audit.tasks.inventory.answers import Spread, settled, spread_over

OTHERS: Final = "other groups"
ONE_ORDER: Final = "one order: the interval takes it as it was shown"
MIN_ITEMS: Final = 3  # for an interval over items: two say next to nothing about how such items differ

_BASELINES: Final = (NO_PERSONA, UNSPECIFIED)
_NAN: Final = float("nan")
_INTERVAL: Final = ("se", "df", "ci_low", "ci_high", "p", "se_items", "se_orders")


@dataclass(frozen=True)
class GroupContrast:
    """One group's perceivers against those of one or several groups."""

    group: str
    compared_with: str
    own: IntArray  # places of the perceivers used
    others: tuple[IntArray, ...]  # places of the perceivers used of each group that it is compared with
    # If only two groups are compared and this is the second, the first one's name: the same difference with the other
    # sign.
    mirrored: str
    note: str  # why nothing can be compared, or who was left out

    @property
    def row(self) -> dict[str, Any]:
        """The row before any numbers: its labels, with NaN for estimates."""
        nothing = dict.fromkeys(("mean", "mean_compared", "difference", *_INTERVAL, "se_narratives"), _NAN)
        labels = {"perceiver_group": self.group, "compared_with": self.compared_with, "n_perceivers": self.own.size}
        return labels | nothing | {"n_items_used": 0, "n_narratives": 0, "note": self.note}

    def sides(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean over each side's perceivers, the first axis; NaN if one of them has no answer."""
        return y[self.own].mean(axis=0), np.mean([y[other].mean(axis=0) for other in self.others], axis=0)


def comparisons_of(groups: tuple[str, ...], usable: BoolArray) -> Iterator[GroupContrast]:
    """Compare every group with each baseline and with the other groups; notes count perceivers left out."""
    names = list(dict.fromkeys(groups))
    of = {name: np.flatnonzero(usable & np.array([group == name for group in groups])) for name in names}
    left_out = {name: groups.count(name) - of[name].size for name in names}
    real = [name for name in names if name not in _BASELINES]
    there = [name for name in real if of[name].size]

    def comparison(name: str, compared_with: str, partners: Sequence[str], mirrored: str = "") -> GroupContrast:
        others = tuple(of[partner] for partner in partners if of[partner].size)
        notes = []
        if not of[name].size:
            notes.append("no perceiver of the group has enough answers")
        if not others:
            notes.append(f"there are not enough answers of {compared_with}")
        n_lost = sum(left_out[each] for each in (name, *partners))
        if n_lost and not notes:
            notes.append(f"{plural(n_lost, 'perceiver')} without enough answers left out")
        return GroupContrast(name, compared_with, of[name], others, mirrored, "; ".join(notes))

    for baseline in _BASELINES:
        if baseline in names:
            for name in names:
                if name not in (baseline, NO_PERSONA):
                    yield comparison(name, baseline, [baseline])
    if len(real) > 1:
        for name in real:
            second = len(there) == 2 and name == there[1]
            partners = [other for other in real if other != name]
            yield comparison(name, OTHERS, partners, there[0] if second else "")


def interval_over(
    name: str,
    values: FloatArray,
    cells: FloatArray,
    *,
    unit: Literal["items", "narratives"],
    alone: bool,
    confidence: float,
    note: str = "",
) -> dict[str, Any]:
    """Return the mean of one value a unit as column ``name``, with its t interval; the note says why there is none.

    ``values`` has one a unit, in points, ``cells`` the answers that they are means of, shape (..., items, orders). If
    each item was shown ``alone``, orders are no sample, and narratives share the items. In a list both narratives and
    items share its orders.

    Notes
    -----
    The variance is the sum of the squared standard errors over units and over what they share, each over its number,
    with the degrees of freedom of [1]_.

    References
    ----------
    .. [1] Satterthwaite (1946), Biometrics Bulletin 2(6), 110–114.
    """
    row: dict[str, Any] = dict.fromkeys((name, *_INTERVAL, f"se_{unit}"), _NAN)
    used = values[~np.isnan(values)]
    n = used.size
    if n == 0:
        lacking = f"in none of {plural(values.size, unit[:-1])} were enough items answered"
        return row | {"note": join_notes(note, lacking)}
    mean = float(used.mean())
    row |= {name: mean, "note": note}
    over_units = float(settled(used - mean, used).std(ddof=1)) / n**0.5 if n > 1 else _NAN
    sampled: dict[str, Spread] = {unit: Spread(over_units, n, _NAN)}
    if not alone:
        sampled["orders"] = spread_over(cells)
    elif unit == "narratives":
        sampled["items"] = spread_over(cells.swapaxes(-1, -2))
    if n == 1 and unit == "narratives":
        return row | {"note": join_notes(note, "one of the narratives says nothing about how narratives differ")}
    if "items" in sampled and sampled["items"].n < MIN_ITEMS:
        return row | {"note": join_notes(note, too_few_items(sampled["items"].n))}
    row |= {f"se_{each}": spread.se for each, spread in sampled.items()}
    parts = [(spread.se**2, spread.n - 1) for spread in sampled.values() if spread.n > 1]
    variance = sum(own for own, _ in parts)
    if variance == 0:
        return row | {"note": join_notes(note, f"all {n} {unit} give the same value, so its spread is 0")}
    df = variance**2 / sum(own**2 / free for own, free in parts)
    low, high, p = t_interval(mean, variance**0.5, df, confidence=confidence)
    if (cells.shape[-1] if alone else sampled["orders"].n) < 2:
        row["note"] = join_notes(note, ONE_ORDER)
    return row | {"se": variance**0.5, "df": df, "ci_low": low, "ci_high": high, "p": p}


def too_few_items(n_items: int) -> str:
    """Say that so few items have no interval."""
    return f"{plural(n_items, 'item')} {either(n_items, 'is', 'are')} too few for an interval, which takes {MIN_ITEMS}"


def unmirrored(row: dict[str, Any], compared: GroupContrast) -> dict[str, Any]:
    """Remove the test from the second of two groups: it is the same question, and corrected for as one test."""
    if not compared.mirrored:
        return row
    said = f"the other side of the difference of {brief(compared.mirrored)}, and no test of its own"
    return row | {"p": _NAN, "note": join_notes(row["note"], said)}


def corrected(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows with p corrected within each value of ``compared_with``."""
    p = np.array([row["p"] for row in rows])
    compared_with = np.array([row["compared_with"] for row in rows], dtype=object)
    adjusted, size = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.int64)
    for each in set(compared_with.tolist()):
        adjusted[compared_with == each], size[compared_with == each] = adjust_p(p[compared_with == each], method="Holm")
    for row, p_adjusted, family_size in zip(rows, adjusted.tolist(), size.tolist(), strict=True):
        yield row | {"p_adjusted": p_adjusted, "method": "Holm", "family_size": family_size}


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty."""
    return "; ".join(note for note in notes if note)
