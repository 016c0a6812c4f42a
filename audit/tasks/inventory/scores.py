"""Subscale scores of questionnaires by perceiver, and differences between the perceivers' groups.

The answers of one model are no sample of respondents. Replications are the items of a subscale and the orders in which
a list of them was shown; every standard error says which of these it is over, and none is about people or other models.
See :mod:`audit.tasks.inventory.group_differences` for what an interval is over.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.ratings import FloatArray
from audit.tasks.inventory.answers import (
    answers_by_part,
    enough,
    mean_over_items,
    mean_over_orders,
    settled,
    spread_over,
    subscales_of,
    too_few_answers,
)
from audit.tasks.inventory.group_differences import (
    GroupContrast,
    comparisons_of,
    corrected,
    interval_over,
    join_notes,
    unmirrored,
)
from audit.tasks.inventory.tables import INVENTORY_DIFFERENCES, INVENTORY_SCORES
from stimuli.inventories import Inventory

_NAN: Final = float("nan")


def inventory_tables(
    answers: pd.DataFrame, inventory: Inventory, *, alone: bool, confidence: float
) -> dict[str, pd.DataFrame]:
    """Score an inventory by perceiver, and compare the perceivers' groups.

    ``answers`` has one row for each answer asked for, as it was given (not keyed), NaN if missing. ``alone`` says
    whether each item was shown alone, with the directions of the scale as orders; else all were shown in one list. A
    total is scored only if the inventory says that it has one; the file of the IRI cannot say so. ValueError if an
    answer occurs twice, lies outside the scale, or is to an item that the inventory does not have.

    Notes
    -----
    With x_pio the keyed answer of perceiver p to item i in order o, an item's score is its mean over the orders
    answered, and the subscale's the mean over items. All items but one, and at least two, must have a score; otherwise
    the subscale's score is missing.

    ``se_items`` treats the items as drawn from such items; ``se_orders`` treats the orders of a list so, and items as
    fixed. Neither is over respondents: a model asked ten times is one model, and its standard error cannot be compared
    with the spread of people's scores.

    A difference is taken in each item and order, x_gio − x_hio with groups the means over their perceivers, only where
    all that are compared answered. An effect that an order has on all perceivers cancels.

    For items shown alone, the interval is the paired t interval over the subscale's items, each item its mean over the
    directions of the scale (or the one that was answered): *such items, this model, these perceivers*. In simulations
    with 3 and 7 items whose answers are independent, 95% intervals hold the true difference in 95%.

    For a list the t interval is over items and orders: *such items in such orders*. Its variance is that of the items'
    means over their number plus that of the orders' means over theirs, with the degrees of freedom of [1]_;
    interactions of items and orders count in both. In simulations with 7 items and effects of orders of various sizes,
    the test at 5% rejects a difference of 0 in 1 to 5% of sets with five orders or more, in up to 7% with three and 11%
    with two; a test over items alone in up to 57%, since a list is answered in one go. With one order it is over items
    alone, and a note says so.

    Fewer than ``MIN_ITEMS`` items have no interval. Perceivers without a score are left out. Each family, corrected by
    Holm's method, is one comparison over all groups and subscales of a dimension and variant.

    Cronbach's α is left out. It compares what items have in common with how respondents differ, and there is one
    respondent: over orders α would describe the orders, over perceivers the prompts.

    References
    ----------
    .. [1] Satterthwaite (1946), Biometrics Bulletin 2(6), 110–114.
    """
    scores: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    for label, laid in answers_by_part(answers, inventory, by_narrative=False):
        y = laid.y[:, 0]
        family: list[dict[str, Any]] = []
        for subscale, items in subscales_of(inventory):
            asked = laid.asked[:, 0, items].sum(axis=(1, 2)).tolist()
            own = [_score(y[p, items], alone=alone) | {"n_asked": asked[p]} for p in range(len(y))]
            known = label | {"subscale": subscale, "n_items": len(items), "n_orders": y.shape[2]}
            scores += [known | laid.perceiver(p) | row for p, row in enumerate(own)]
            scored = np.array([not np.isnan(row["score"]) for row in own])
            for compared in comparisons_of(laid.groups, scored):
                family.append(known | _item_difference(compared, y[:, items], alone=alone, confidence=confidence))
        differences += corrected(family)
    return {
        "inventory_scores": pd.DataFrame(scores, columns=list(INVENTORY_SCORES)),
        "inventory_differences": pd.DataFrame(differences, columns=list(INVENTORY_DIFFERENCES)),
    }


def _score(cells: FloatArray, *, alone: bool) -> dict[str, Any]:
    """Score one perceiver's keyed answers, shape (items, orders)."""
    of_items = mean_over_orders(cells)
    used = of_items[~np.isnan(of_items)]
    orders = spread_over(cells)
    row: dict[str, Any] = dict.fromkeys(("score", "se_items", "se_orders"), _NAN) | {
        "sd_within_items": orders.sd_within,
        "n_items_used": used.size,
        "n_orders_used": 0 if alone else orders.n,
        "n_answered": int((~np.isnan(cells)).sum()),
    }
    if not enough(used.size, len(cells)):
        return row | {"note": too_few_answers(used.size, len(cells), "an answer")}
    return row | {
        "score": float(used.mean()),
        "se_items": float(settled(used - used.mean(), used).std(ddof=1)) / used.size**0.5,
        "se_orders": _NAN if alone else orders.se,
        "note": "" if used.size == len(cells) else f"the mean of {used.size} of {len(cells)} items",
    }


def _item_difference(compared: GroupContrast, y: FloatArray, **how: Any) -> dict[str, Any]:
    """Estimate a difference over items; ``y`` has shape (perceivers, items, orders)."""
    row = compared.row
    if not compared.own.size or not compared.others:
        return row
    own, others = compared.sides(y)
    cells = settled(own - others, own, others)
    of_items = mean_over_orders(cells)
    n_items, n_used = of_items.size, int((~np.isnan(of_items)).sum())
    row["n_items_used"] = n_used
    if not enough(n_used, n_items):
        lacking = too_few_answers(n_used, n_items, "an answer of all that are compared in one order")
        return row | {"note": join_notes(row["note"], lacking)}
    paired = np.isnan(cells)
    row["mean"] = float(mean_over_items(np.where(paired, np.nan, own)))
    row["mean_compared"] = float(mean_over_items(np.where(paired, np.nan, others)))
    row |= interval_over("difference", of_items, cells, unit="items", note=row["note"], **how)
    if n_used < n_items:
        row["note"] = join_notes(row["note"], f"the mean of {n_used} of {n_items} items")
    return unmirrored(row, compared)
