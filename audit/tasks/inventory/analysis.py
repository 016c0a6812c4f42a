"""The analysis of a filled-in questionnaire: scores by group, how prompts ended, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from audit.statistics.estimates import t_interval
from audit.statistics.remarks import FEW_NARRATIVES, MISSING_SHARE, Remark
from audit.tables.formatting import either, plural, rate
from audit.tables.ratings import Status
from audit.tasks.inventory.affect import affect_tables
from audit.tasks.inventory.group_differences import MIN_ITEMS, ONE_ORDER, too_few_items
from audit.tasks.inventory.scores import inventory_tables
from audit.tasks.inventory.tables import AFFECT_GROUPS, DEFAULT, INVENTORY_GROUPS, INVENTORY_OUTCOMES
from stimuli.inventories import Inventory

_PARTS: Final = ["dimension", "variant"]
_NAN: Final = float("nan")


def scored_tables(
    answers: pd.DataFrame,
    inventory: Inventory,
    *,
    confidence: float,
    kinds: Mapping[str, str] | None,
    affect: bool,
    alone: bool,
) -> dict[str, pd.DataFrame]:
    """Score a run's answers by perceiver and by group, and compare the groups.

    ``affect`` says whether situations were imagined, ``alone`` whether each item was shown alone: its orders are then
    the directions of the scale, and no sample.

    Notes
    -----
    A group's answer to an item in an order is the mean over its perceivers, and missing if one of them has none, as
    in the differences; perceivers without any answer are left out. Its interval is the t interval over items and, for a
    list, orders, cut at the ends of the scale: the variance is the sum of the two squared standard errors, with degrees
    of freedom after Satterthwaite (1946), Biometrics Bulletin 2(6), 110–114. An effect that an order has on all groups
    widens it, and cancels in the differences. Fewer than ``group_differences.MIN_ITEMS`` items have no interval.
    """
    shown: dict[str, Any] = {"alone": alone, "confidence": confidence}
    by_default = answers.loc[answers["narrative_id"] == DEFAULT]
    tables = inventory_tables(by_default, inventory, **shown)
    averaged = inventory_tables(_averaged(by_default), inventory, **shown)["inventory_scores"]
    sizes = _sizes(by_default)
    rows = (_group_row(row, sizes, scale=inventory.scale, **shown) for row in averaged.to_dict("records"))
    tables["inventory_groups"] = pd.DataFrame(list(rows), columns=list(INVENTORY_GROUPS))
    if affect:
        tables |= affect_tables(answers, inventory, kinds=kinds, **shown)
        of_groups = affect_tables(_averaged(answers), inventory, kinds=kinds, **shown)
        tables["affect_groups"] = of_groups["affect_changes"][list(AFFECT_GROUPS)]
    return tables


def _answering(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of perceivers with any answer; if a whole group has none, all of its rows."""
    given = answers["answer"].notna()
    by_perceiver = given.groupby([answers[name].astype(str) for name in (*_PARTS, "perceiver")]).transform("any")
    by_group = given.groupby([answers[name].astype(str) for name in (*_PARTS, "perceiver_group")]).transform("any")
    return answers.loc[by_perceiver | ~by_group]


def _averaged(answers: pd.DataFrame) -> pd.DataFrame:
    """Replace each group's perceivers by their mean."""
    keys = [*_PARTS, "perceiver_group", "narrative_id", "order", "item_id"]
    grouped = _answering(answers).groupby(keys, observed=True, sort=False)["answer"]
    means = grouped.mean().where(grouped.count() == grouped.size()).reset_index()
    return means.assign(perceiver=means["perceiver_group"])


def _sizes(answers: pd.DataFrame) -> dict[tuple[str, str, str], int]:
    with_answers = answers.loc[answers["answer"].notna()]
    counted = with_answers.groupby([*_PARTS, "perceiver_group"], observed=True)["perceiver"].nunique()
    rows = counted.rename("n").reset_index().to_dict("records")
    return {(str(row["dimension"]), str(row["variant"]), str(row["perceiver_group"])): int(row["n"]) for row in rows}


def _group_row(
    row: Mapping[Any, Any], sizes: Mapping[tuple[str, str, str], int], *, scale: Any, alone: bool, confidence: float
) -> dict[str, Any]:
    n_perceivers = sizes.get((row["dimension"], row["variant"], row["perceiver_group"]), 0)
    nothing = dict.fromkeys(("se", "df", "ci_low", "ci_high"), _NAN)
    made = {name: row[name] for name in INVENTORY_GROUPS if name in row} | nothing | {"n_perceivers": n_perceivers}
    over_items = row["se_items"] ** 2
    one_order = row["n_orders"] < 2 if alone else row["se_orders"] != row["se_orders"]
    over_orders = 0.0 if one_order or alone else row["se_orders"] ** 2
    variance = over_items + over_orders
    notes = [row["note"]]
    if variance >= 0 and row["n_items_used"] < MIN_ITEMS:
        return made | {"note": "; ".join(filter(None, [*notes, too_few_items(row["n_items_used"])]))}
    if variance == 0:
        notes.append("all items have the same score, so its spread is 0")
    if not variance > 0:
        return made | {"note": "; ".join(filter(None, notes))}
    free = over_items**2 / (row["n_items_used"] - 1) + over_orders**2 / max(row["n_orders_used"] - 1, 1)
    df = variance**2 / free
    low, high, _ = t_interval(row["score"], variance**0.5, df, confidence=confidence)
    if one_order:
        notes.append(ONE_ORDER)
    elif low <= scale.low and high >= scale.high:
        notes.append(f"{'items' if alone else 'items or orders'} differ so much that the interval is the whole scale")
    return made | {
        "se": variance**0.5,
        "df": df,
        "ci_low": max(low, float(scale.low)),
        "ci_high": min(high, float(scale.high)),
        "note": "; ".join(filter(None, notes)),
    }


def answer_outcomes(answers: pd.DataFrame) -> pd.DataFrame:
    """Count by group, for the default and for situations, how answers ended: ``tables.INVENTORY_OUTCOMES``."""
    imagined = (answers["narrative_id"] != DEFAULT).map({False: DEFAULT, True: "evoked"}).rename("imagined")
    rows = []
    for key, part in answers.groupby([*_PARTS, "perceiver_group", imagined], observed=True, sort=False):
        counts = part["status"].value_counts()
        rows.append(
            dict(zip((*_PARTS, "perceiver_group", "imagined"), map(str, key), strict=True))
            | {"n_asked": len(part)}
            | {f"n_{status}": int(counts.get(str(status), 0)) for status in Status}
            | {"mean_number_mass": float(part["number_mass"].mean())}
        )
    return pd.DataFrame(rows, columns=list(INVENTORY_OUTCOMES))


def remarks_on_answers(
    answers: pd.DataFrame, tables: Mapping[str, pd.DataFrame], *, n_prompts: int, min_number_mass: float
) -> Iterator[Remark]:
    """Yield what limits the tables of :func:`scored_tables`."""
    n_asked = answers["prompt_index"].nunique()
    if n_asked < n_prompts:
        yield Remark(
            "",
            "",
            "unfinished",
            f"{n_asked:,} of {plural(n_prompts, 'prompt')} {either(n_asked, 'has', 'have')} been asked; the run's "
            "command, given again, asks the others.",
        )
    for key, part in answers.groupby(_PARTS, observed=True, sort=False):
        dimension, variant = map(str, key)
        n_missing = int(part["answer"].isna().sum())
        if n_missing == len(part):
            yield Remark(
                dimension,
                variant,
                "no_answer",
                f"None of {plural(len(part), 'answer')} could be read, so nothing is scored. A model that writes no "
                "numbers can be asked by task.presentation=single task.method=expected.",
            )
            continue
        if n_missing > MISSING_SHARE * len(part):
            yield Remark(
                dimension,
                variant,
                "many_missing",
                f"{rate(n_missing / len(part))} of {plural(len(part), 'answer')} are missing; what is missing may "
                "differ from what was answered.",
            )
        mass = float(part["number_mass"].mean())
        if mass < min_number_mass:
            yield Remark(
                dimension,
                variant,
                "number_mass",
                f"The model answers with a number of the scale with a probability of only {mass:.2f} on average. The "
                "scores say nothing about its other answers.",
            )
    yield from _few_situations(tables)


def _few_situations(tables: Mapping[str, pd.DataFrame]) -> Iterator[Remark]:
    if "affect_groups" not in tables:
        return
    for key, part in tables["affect_groups"].groupby(_PARTS, sort=False):
        asked = part.drop_duplicates("narratives").set_index("narratives")["n_narratives_asked"]
        few = {kind: n for kind, n in asked.items() if n < FEW_NARRATIVES}
        if few:
            said = ", ".join(f"{n} of kind {kind}" for kind, n in few.items())
            yield Remark(
                str(key[0]),
                str(key[1]),
                "few_narratives",
                f"What is evoked comes from few situations ({said}): its intervals lean on how these few differ.",
            )
