"""Questionnaires and answers to them, for the tests of their statistics."""

import math
from itertools import product

import numpy as np
import pandas as pd

from stimuli.inventories import Inventory, Item
from stimuli.prompts import Scale

PERCEIVERS = {"a Hindu": "Hindu", "a Jain": "Jain", "a Sikh": "Sikh"}
WITH_BASELINES = PERCEIVERS | {"a person": "unspecified", "no persona": "no persona"}


def inventory_of(care=3, thirst=2, *, reverse=("care2",), total=False, low=0, high=4):
    items = [(f"care{k}", "care") for k in range(care)] + [(f"thirst{k}", "thirst") for k in range(thirst)]
    made = tuple(Item(item_id, item_id, subscale, item_id in reverse) for item_id, subscale in items)
    return Inventory("tea test", "made up", Scale(low, high), "How often?", total, made)


def answers_of(answer, inventory, *, perceivers=PERCEIVERS, n_orders=1, narratives=None, dimension="religion"):
    """One row an answer; ``answer(perceiver, item_id, order)``, or with the narrative before the order."""
    rows = []
    shown = product(perceivers, inventory.items, narratives or [None], range(n_orders))
    for perceiver, item, narrative, order in shown:
        key = (perceiver, item.item_id, order) if narrative is None else (perceiver, item.item_id, narrative, order)
        rows.append(
            {"dimension": dimension, "variant": "origin", "perceiver": perceiver,
             "perceiver_group": perceivers[perceiver], "order": order, "item_id": item.item_id,
             "answer": answer(*key)}
            | ({} if narrative is None else {"narrative_id": narrative})
        )  # fmt: skip
    return pd.DataFrame(rows)


def one(table, **where):
    found = table.loc[np.logical_and.reduce([table[name] == value for name, value in where.items()])]
    assert len(found) == 1
    return found.iloc[0]


def welch(over_units, over_orders, n_units, n_orders):
    """Standard error and degrees of freedom of two variances of a mean that add up."""
    total = over_units + over_orders
    return math.sqrt(total), total**2 / (over_units**2 / (n_units - 1) + over_orders**2 / (n_orders - 1))
