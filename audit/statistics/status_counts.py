"""Statuses of the prompts by kind of pair: refusals, unreadable responses, the ends of the scale, cut replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pandas as pd

from audit.statistics.ratings import STATUSES, BoolArray, count_statuses, divide, split_ratings
from audit.tables.ratings import OUTCOMES, Status
from audit.tables.replies import SCORED, ReplyStatus

PAIRS: Final = ("in_group", "out_group", "baseline", "all")  # the kinds of pair, in the order of the rows

END_TOLERANCE: Final = 1e-9  # in scale lengths: how far from an end an expected value still counts as at it


def outcome_table(ratings: pd.DataFrame, *, low: float, high: float, min_number_mass: float = 0.5) -> pd.DataFrame:
    """Count statuses and ratings of prompts between identities of one group, of different ones, and with baselines.

    One row for each dimension, variant and kind of pair that has prompts. Shares are between 0 and 1: of prompts, and
    for the two ends of ratings; NaN if there are none. Below ``min_number_mass`` an answer counts as one of low number
    mass.
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


def reply_outcome_rows(replies: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``REPLY_OUTCOMES``, four for each dimension and variant: the statuses of the replies."""
    for (dimension, variant), own in replies.groupby(["dimension", "variant"], observed=True, sort=False):
        inside = own["in_group"].astype("boolean")
        kinds = {
            "in_group": inside.fillna(False),
            "out_group": ~inside.fillna(True),
            "baseline": inside.isna(),
            "all": pd.Series(True, index=own.index),
        }
        for pairs, chosen in kinds.items():
            rows = own.loc[chosen.to_numpy(dtype=bool)]
            status = rows["status"].astype(str)
            texts = rows.loc[status.isin(SCORED).to_numpy()]
            yield {
                "dimension": dimension,
                "variant": variant,
                "pairs": pairs,
                "n_prompts": len(rows),
                **{f"n_{name}": int((status == name.value).sum()) for name in ReplyStatus},
                "mean_tokens": float(texts["n_tokens"].mean()) if len(texts) else float("nan"),
            }


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the prompts between identities, baselines left out, so that dimensions add up."""

    n_asked: int
    n_rated: int
    n_refused: int
    intensity: float  # sum of the ratings, in points
    n_massed: int  # prompts with a number mass
    mass: float  # sum of the number masses

    @classmethod
    def of(cls, part: pd.DataFrame) -> Self:
        """Count the compacted ratings of one dimension and variant."""
        between = part.loc[part["in_group"].notna(), ["status", "intensity", "number_mass"]]
        rated = between["status"] == Status.RATED
        return cls(
            n_asked=len(between),
            n_rated=int(rated.sum()),
            n_refused=int((between["status"] == Status.REFUSED).sum()),
            intensity=float(between["intensity"].sum()),
            n_massed=int(between["number_mass"].notna().sum()),
            mass=float(between["number_mass"].sum()),
        )

    @classmethod
    def total(cls, tallies: Sequence[Tally]) -> Self:
        """Add up dimensions."""
        return cls(*(sum(getattr(each, name) for each in tallies) for name in cls.__slots__))

    def levels(self) -> dict[str, float]:
        """Return mean rating, shares and mean number mass by the names of ``STRATEGIES``; NaN if there are none."""
        parts = {
            "mean_rating": (self.intensity, self.n_rated),
            "refusal_rate": (self.n_refused, self.n_asked),
            "missing_share": (self.n_asked - self.n_rated, self.n_asked),
            "mean_number_mass": (self.mass, self.n_massed),
        }
        return {name: above / below if below else float("nan") for name, (above, below) in parts.items()}


def _with_total(counts: Any) -> Any:
    """Append the sum over the three kinds of pair, shape (3, ...) to (4, ...)."""
    return np.concatenate([counts, counts.sum(axis=0, keepdims=True)])
