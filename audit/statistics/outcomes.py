"""What became of the prompts: refusals, unreadable responses and the ends of the scale, by kind of pair."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.ratings import STATUSES, BoolArray, count_statuses, divide, split_ratings
from audit.tables.ratings import OUTCOMES

PAIRS: Final = ("in_group", "out_group", "baseline", "all")
"""The kinds of pair, in the order of the rows."""

END_TOLERANCE: Final = 1e-9
"""How far from an end of the scale, in scale lengths, an expected value still counts as at it."""


def outcome_table(ratings: pd.DataFrame, *, low: float, high: float, min_number_mass: float = 0.5) -> pd.DataFrame:
    """Count what became of the prompts between identities of the same group, of different ones, and with baselines.

    Parameters
    ----------
    ratings
        Columns of ``tables.RATINGS``, one row a prompt, all on one scale.
    low, high
        The scale's two ends, in points.
    min_number_mass
        Number mass below which an answer counts as one of low number mass, between 0 and 1.

    Returns
    -------
    pandas.DataFrame
        Columns of ``tables.OUTCOMES``, one row for each dimension, variant and kind of pair that has prompts, in the
        order of ``PAIRS``. Shares are between 0 and 1: of prompts, and for the two ends of ratings; NaN of nothing.

    Raises
    ------
    ValueError
        If ``low`` is not below ``high``, or as :func:`~audit.statistics.ratings.compact_ratings`.
    """
    if not low < high:
        raise ValueError(f"the scale runs from {low} to {high}; its lower end must be below its upper end")
    rows: list[dict[str, Any]] = []
    for dimension, variant, part in split_ratings(ratings):
        in_group = part["in_group"].to_numpy()
        kinds = np.where(np.isnan(in_group), 2, np.where(in_group == 1, 0, 1)).astype(np.int64)
        intensity, mass = part["intensity"].to_numpy(), part["number_mass"].to_numpy()
        tolerance = END_TOLERANCE * (high - low)
        has_mass = ~np.isnan(mass)

        def by_kind(chosen: BoolArray, kinds: Any = kinds) -> Any:
            return _with_total(np.bincount(kinds[chosen], minlength=3))

        counts = _with_total(count_statuses(part["status"], kinds, n_groups=3))
        n_prompts, n_rated = counts.sum(axis=1), counts[:, 0]
        columns = {
            "n_prompts": n_prompts,
            **{f"n_{status}": counts[:, code] for code, status in enumerate(STATUSES)},
            "refusal_rate": divide(counts[:, 1], n_prompts),
            "unparseable_rate": divide(counts[:, 2], n_prompts),
            "floor_share": divide(by_kind(np.abs(intensity - low) <= tolerance), n_rated),
            "ceiling_share": divide(by_kind(np.abs(intensity - high) <= tolerance), n_rated),
            "n_below_scale": by_kind(intensity < low - tolerance),
            "n_above_scale": by_kind(intensity > high + tolerance),
            "mean_number_mass": divide(
                _with_total(np.bincount(kinds[has_mass], weights=mass[has_mass], minlength=3)), by_kind(has_mass)
            ),
            "low_mass_share": divide(by_kind(mass < min_number_mass), by_kind(has_mass)),
        }
        rows.extend(
            {"dimension": dimension, "variant": variant, "pairs": pairs}
            | {name: values[kind] for name, values in columns.items()}
            for kind, pairs in enumerate(PAIRS)
            if n_prompts[kind] > 0
        )
    return pd.DataFrame(rows, columns=list(OUTCOMES))


def _with_total(counts: Any) -> Any:
    """Append the sum over the three kinds of pair, shape (3, ...) to (4, ...)."""
    return np.concatenate([counts, counts.sum(axis=0, keepdims=True)])
