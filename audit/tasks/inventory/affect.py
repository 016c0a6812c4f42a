"""What imagining a situation changes in a model's answers: evoked affect against the default, by perceiver and group.

Replications are the narratives and what they share with the default: the orders in which a list of words was shown, or
the words if each was shown alone; see :mod:`audit.tasks.inventory.group_differences`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.ratings import FloatArray
from audit.tasks.inventory.answers import answers_by_part, mean_over_items, settled, subscales_of
from audit.tasks.inventory.group_differences import GroupContrast, comparisons_of, corrected, interval_over, unmirrored
from audit.tasks.inventory.tables import AFFECT_CHANGES, AFFECT_DIFFERENCES, AFFECT_NARRATIVES, DEFAULT
from stimuli.inventories import Inventory

ALL: Final = "all"  # the kind of every narrative if no kinds are given


def affect_tables(
    answers: pd.DataFrame,
    inventory: Inventory,
    *,
    alone: bool,
    confidence: float,
    kinds: Mapping[str, str] | None = None,
) -> dict[str, pd.DataFrame]:
    """Compare evoked affect with the default, by perceiver, and between the perceivers' groups.

    ``answers`` and ``alone`` are those of :func:`inventory_tables`; ``narrative_id`` is ``default`` if none was shown.
    ``kinds`` gives each narrative's kind, such as its valence or emotion, so that glad and sad situations are not
    averaged; narratives without one are left out of means and tests, and None takes all together. The t intervals are
    not corrected for multiplicity.

    Notes
    -----
    As [1]_, except that words and situations are ours, scores are means and not sums, and a change is tested over
    narratives and not over repeated answers: with x_pnio the keyed answer while narrative n is imagined and x_p0io the
    default, a change is the mean over items of the mean over orders of x_pnio − x_p0io, where both were answered, with
    as many items as a score needs.

    All changes of a perceiver share its default, which more narratives do not make more certain: over narratives alone,
    random answers would seem to change. So the t interval is over narratives and over what the default was answered by,
    as in :func:`inventory_tables`: for a list its orders (*any such narratives in such orders of the words, this model,
    these words and perceivers*; with one order they cannot count, and a note says so), for items shown alone the items
    (*any such narratives and such words*). The variances of the mean over each add up, with the degrees of freedom of
    Satterthwaite.

    Differences between groups are taken in each narrative, item and order before anything is averaged. Families are as
    in :func:`inventory_tables`, and cover all kinds of narratives; the changes of all perceivers are one more family.

    References
    ----------
    .. [1] Huang et al. (2023), arXiv:2308.03656.
    """
    narratives: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    how: dict[str, Any] = {"alone": alone, "confidence": confidence}
    for label, laid in answers_by_part(answers, inventory, by_narrative=True):
        if DEFAULT not in laid.narratives:
            raise ValueError(f"{', '.join(label.values())}: no answers of the narrative {DEFAULT!r} to compare with")
        shown = [n for n, name in enumerate(laid.narratives) if name != DEFAULT]
        default, evoked = laid.y[:, [laid.narratives.index(DEFAULT)]], laid.y[:, shown]
        names = [laid.narratives[n] for n in shown]
        kind_of = np.array([ALL if kinds is None else kinds.get(name, "") for name in names], dtype=object)
        own: list[dict[str, Any]] = []
        family: list[dict[str, Any]] = []
        for subscale, items in subscales_of(inventory):
            known = label | {"subscale": subscale}
            before, after = default[:, :, items], evoked[:, :, items]
            moved = settled(after - before, after)
            change = mean_over_items(moved)
            start, end = (mean_over_items(np.where(np.isnan(moved), np.nan, each)) for each in (before, after))
            narratives += [
                known
                | laid.perceiver(p)
                | {"narrative_id": name, "default": start[p, n], "evoked": end[p, n], "change": change[p, n]}
                for p in range(len(change))
                for n, name in enumerate(names)
            ]
            for kind in (kind for kind in dict.fromkeys(kind_of.tolist()) if kind):
                inside = kind_of == kind
                of_kind = known | {"narratives": kind, "n_narratives_asked": int(inside.sum())}
                for p in range(len(change)):
                    used = inside & ~np.isnan(change[p])
                    own.append(
                        of_kind
                        | laid.perceiver(p)
                        | {"default": _mean(start[p, used]), "evoked": _mean(end[p, used])}
                        | interval_over("change", change[p, inside], moved[p, inside], unit="narratives", **how)
                        | {"n_narratives": int(used.sum())}
                    )
                changed = np.asarray((~np.isnan(change[:, inside])).any(axis=1))
                for compared in comparisons_of(laid.groups, changed):
                    estimated = _affect_difference(compared, moved[:, inside], **how)
                    family.append(of_kind | estimated)
        changes += corrected([row | {"compared_with": DEFAULT} for row in own])
        differences += corrected(family)
    return {
        "affect_narratives": pd.DataFrame(narratives, columns=list(AFFECT_NARRATIVES)),
        "affect_changes": pd.DataFrame(changes, columns=list(AFFECT_CHANGES)),
        "affect_differences": pd.DataFrame(differences, columns=list(AFFECT_DIFFERENCES)),
    }


def _affect_difference(compared: GroupContrast, moved: FloatArray, **how: Any) -> dict[str, Any]:
    """Estimate a difference of changes; ``moved`` has shape (perceivers, narratives, items, orders)."""
    row = compared.row
    if not compared.own.size or not compared.others:
        return row
    own, others = compared.sides(moved)
    cells = settled(own - others, own, others)
    by_narrative = mean_over_items(cells)
    paired = np.isnan(cells)
    for name, side in (("mean", own), ("mean_compared", others)):
        row[name] = _mean(mean_over_items(np.where(paired, np.nan, side))[~np.isnan(by_narrative)])
    row["n_narratives"] = int((~np.isnan(by_narrative)).sum())
    row |= interval_over("difference", by_narrative, cells, unit="narratives", note=row["note"], **how)
    return unmirrored(row, compared)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if values.size else float("nan")
