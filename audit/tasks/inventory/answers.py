"""Answers to a questionnaire laid out by perceiver, narrative, item and order, keyed, and means over known answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.statistics.estimates import EPSILON
from audit.statistics.ratings import BoolArray, FloatArray, IntArray, divide
from audit.tables.formatting import either, plural
from stimuli.inventories import Inventory

TOTAL: Final = "total"
MAY_LACK: Final = 1  # number of items of a subscale that may be unanswered; at least two need an answer in any case

_NAN: Final = float("nan")


@dataclass(frozen=True)
class KeyedAnswers:
    """Keyed answers of one dimension and variant."""

    perceivers: tuple[str, ...]
    groups: tuple[str, ...]  # the group of each perceiver
    narratives: tuple[str, ...]  # the situations imagined; one empty name if narratives are not told apart
    y: FloatArray  # shape (perceivers, narratives, items, orders), in points, reverse items mirrored; NaN if missing
    asked: BoolArray  # the same shape: whether an answer was asked for

    def perceiver(self, p: int) -> dict[str, str]:
        """Return the columns that name a row's perceiver."""
        return {"perceiver": self.perceivers[p], "perceiver_group": self.groups[p]}


def answers_by_part(
    answers: pd.DataFrame, inventory: Inventory, *, by_narrative: bool
) -> Iterator[tuple[dict[str, str], KeyedAnswers]]:
    """Yield the labels and answers of each dimension and variant, in order of appearance.

    ``answer`` is as it was given, not keyed. ValueError if one occurs twice, is off the scale, or to an unknown item.
    """
    for (dimension, variant), part in answers.groupby(["dimension", "variant"], observed=True, sort=False):
        label = {"dimension": str(dimension), "variant": str(variant), "inventory": inventory.name}
        yield label, _lay_out(part, inventory, by_narrative=by_narrative, place=", ".join(label.values()))


def _lay_out(part: pd.DataFrame, inventory: Inventory, *, by_narrative: bool, place: str) -> KeyedAnswers:
    place_of = {item.item_id: i for i, item in enumerate(inventory.items)}
    item_ids = part["item_id"].astype(str)
    strange = sorted(set(item_ids) - set(place_of))
    if strange:
        raise ValueError(f"{place}: an answer has the item {strange[0]!r}, which the inventory does not have")
    given = part["answer"].to_numpy(dtype=np.float64, na_value=np.nan)
    low, high = inventory.scale.low, inventory.scale.high
    outside = given[(given < low) | (given > high)]
    if outside.size:
        raise ValueError(f"{place}: the answer {outside[0]:g} is not on the scale from {low} to {high}")
    perceiver, perceivers = pd.factorize(part["perceiver"].astype(str))
    narrative_of = part["narrative_id"].astype(str) if by_narrative else pd.Series("", index=part.index)
    narrative, narratives = pd.factorize(narrative_of)
    order, order_names = pd.factorize(part["order"], sort=True)
    item = item_ids.map(place_of).to_numpy(dtype=np.int64)
    shape = (len(perceivers), len(narratives), len(place_of), len(order_names))
    flat = np.ravel_multi_index((perceiver, narrative, item, order), shape)
    asked = np.bincount(flat, minlength=int(np.prod(shape)))
    if asked.max(initial=0) > 1:
        raise ValueError(f"{place}: an answer occurs twice; give one row per perceiver, order and item")
    reverse = np.array([each.reverse for each in inventory.items], dtype=bool)
    y = np.full(asked.size, np.nan)
    y[flat] = np.where(reverse[item], low + high - given, given)
    group_of = dict(zip(part["perceiver"].astype(str), part["perceiver_group"].astype(str), strict=True))
    return KeyedAnswers(
        perceivers=tuple(map(str, perceivers)),
        groups=tuple(group_of[str(name)] for name in perceivers),
        narratives=tuple(map(str, narratives)),
        y=y.reshape(shape),
        asked=(asked > 0).reshape(shape),
    )


def subscales_of(inventory: Inventory) -> Iterator[tuple[str, IntArray]]:
    """Yield each subscale with the places of its items; the total last, if there is one."""
    names = [item.subscale for item in inventory.items]
    for name in dict.fromkeys(names):
        yield name, np.flatnonzero([own == name for own in names])
    if inventory.total:
        yield TOTAL, np.arange(len(names))


def enough(n_used: npt.NDArray[Any] | int, n_items: int) -> Any:
    """Whether this many answered items make a score; works on arrays too."""
    return n_used >= max(2, n_items - MAY_LACK)


def mean_over_orders(cells: FloatArray) -> FloatArray:
    """Return the mean over the last axis, ignoring NaN; NaN if all are."""
    known = ~np.isnan(cells)
    return divide(np.where(known, cells, 0.0).sum(axis=-1), known.sum(axis=-1))


def mean_over_items(cells: FloatArray) -> FloatArray:
    """Return the scores of cells of shape (..., items, orders); NaN if too few items have an answer."""
    of_items = mean_over_orders(cells)
    n_used = (~np.isnan(of_items)).sum(axis=-1)
    return np.where(enough(n_used, of_items.shape[-1]), mean_over_orders(of_items), np.nan)


def settled(differences: FloatArray, *made_of: FloatArray) -> FloatArray:
    """Set differences to 0 that are only floating-point error of ``made_of``."""
    largest = max((float(np.nanmax(np.abs(each), initial=0.0)) for each in made_of), default=0.0)
    return np.where(np.abs(differences) <= 64 * EPSILON * largest, 0.0, differences)


class Spread(NamedTuple):
    """How means vary over the units that they sample."""

    se: float  # standard error of the mean over units, in points; NaN for one unit
    n: int  # number of units
    sd_within: float  # standard deviation over repetitions of the same item, in points; NaN without repetitions


def spread_over(cells: FloatArray) -> Spread:
    """Return the spread over orders, the last axis of cells; or over items, if they are the last axis.

    Answers are first centred on their item, so that an order is not higher for lacking an item; an order with fewer
    than half of the answers does not count.
    """
    of_items = cells.reshape(-1, cells.shape[-1])
    centred = settled(of_items - mean_over_orders(of_items)[:, None], of_items)
    known = ~np.isnan(centred)
    by_order = mean_over_orders(centred.T)[2 * known.sum(axis=0) >= max(len(centred), 1)]
    se = float(by_order.std(ddof=1)) / by_order.size**0.5 if by_order.size > 1 else _NAN
    repeated = centred[known.sum(axis=1) > 1]
    n_free = int((~np.isnan(repeated)).sum()) - len(repeated)
    return Spread(se, by_order.size, float((np.nansum(repeated**2) / n_free) ** 0.5) if n_free else _NAN)


def too_few_answers(n_used: int, n_items: int, what: str) -> str:
    """Say that fewer items have ``what`` than a score needs."""
    needed = "both" if n_items == 2 else f"{max(2, n_items - MAY_LACK)}"
    return f"{n_used} of {plural(n_items, 'item')} {either(n_used, 'has', 'have')} {what}, and {needed} are needed"
