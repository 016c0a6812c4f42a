"""The cells of one dimension as matrices: in reading order, baselines last, main effects removed on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import MissingCellError

BASELINES: Final = frozenset({"unspecified", "no persona"})  # groups outside δ: placed last, and set apart
SPARSE_BELOW: Final = 0.8  # share of rated prompts below which a cell's mean is marked

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CellMatrix:
    """The cells of one dimension and variant, perceivers in rows and experiencers in columns."""

    mean: pd.DataFrame  # mean intensity in points; NaN if nothing was rated
    asked: Mask  # whether the pair has prompts
    in_group: Mask  # false for baselines
    sparse: Mask  # whether some of the pair's prompts were rated, but less than SPARSE_BELOW of them
    row_groups: tuple[str, ...]
    column_groups: tuple[str, ...]

    @property
    def unrated(self) -> Mask:
        """Pairs that were asked and have no rating at all."""
        missing: Mask = self.asked & self.mean.isna().to_numpy()
        return missing

    def align(self, table: pd.DataFrame, column: str) -> pd.DataFrame:
        """Lay out another column of the pairs as the means are; NaN if the pair has no value."""
        return _matrix(_pairs(table)[column], rows=self.mean.index, columns=self.mean.columns)

    def without_baselines(self) -> CellMatrix:
        """Keep the pairs of identities, which δ is about."""
        rows = np.array([group not in BASELINES for group in self.row_groups], dtype=bool)
        columns = np.array([group not in BASELINES for group in self.column_groups], dtype=bool)
        pick = np.ix_(rows, columns)
        return CellMatrix(
            mean=self.mean.loc[rows, columns],
            asked=self.asked[pick],
            in_group=self.in_group[pick],
            sparse=self.sparse[pick],
            row_groups=tuple(group for group in self.row_groups if group not in BASELINES),
            column_groups=tuple(group for group in self.column_groups if group not in BASELINES),
        )

    def centred(self) -> pd.DataFrame:
        """Remove row and column means."""
        values = self.mean.to_numpy()
        if values.size == 0:
            raise ValueError("there are no pairs of identities among the cells, only baselines")
        missing = np.argwhere(np.isnan(values))
        if len(missing):
            row, column = missing[0]
            raise MissingCellError(
                f"{len(missing)} of {values.size} identity pairs have no mean, the first "
                f"({self.mean.index[row]!r}, {self.mean.columns[column]!r}): main effects cannot be removed"
            )
        centred = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()
        return pd.DataFrame(centred, index=self.mean.index, columns=self.mean.columns)


def lay_out_matrix(cells: pd.DataFrame, *, clusters: Mapping[str, str] | None = None) -> CellMatrix:
    """Lay out cells in order of appearance, a cluster's groups and a group's terms together, on both sides alike."""
    if cells.empty:
        raise ValueError("there are no cells to lay out")
    for name in ("dimension", "variant"):
        if cells[name].nunique() > 1:
            found = ", ".join(sorted(map(str, cells[name].unique())))
            raise ValueError(f"cells of one {name} are laid out at a time, and there are several: {found}")
    pairs = _pairs(cells)
    rows = _in_order(cells, "perceiver", clusters or {})
    columns = _in_order(cells, "experiencer", clusters or {})
    if set(columns) <= set(rows):
        columns = {term: columns[term] for term in rows if term in columns}

    def matrix(values: pd.Series[Any]) -> pd.DataFrame:
        return _matrix(values, rows=pd.Index(list(rows)), columns=pd.Index(list(columns)))

    mean = matrix(pairs["mean"])
    share = matrix(pairs["n_rated"] / pairs["n_prompts"].where(pairs["n_prompts"] > 0))
    return CellMatrix(
        mean=mean,
        asked=(matrix(pairs["n_prompts"]) > 0).to_numpy(),
        in_group=(matrix(pairs["in_group"].astype("boolean").fillna(False)) == 1.0).to_numpy(),
        sparse=((share < SPARSE_BELOW) & mean.notna()).to_numpy(),
        row_groups=tuple(rows.values()),
        column_groups=tuple(columns.values()),
    )


def colour_limits(means: npt.NDArray[np.float64], *, low: float, high: float) -> tuple[float, float]:
    """Return the means at the two ends of the colours, the same for all panels of a run.

    These are the least and the greatest mean, widened to at least a tenth of the scale so that noise does not look like
    structure, but not past an end of the scale unless a mean lies beyond it. They are the scale if nothing was rated.
    """
    rated = means[np.isfinite(means)]
    if rated.size == 0:
        return low, high
    least, greatest = float(rated.min()), float(rated.max())
    middle = (least + greatest) / 2
    half = max(greatest - least, (high - low) / 10) / 2
    # A parser may accept ratings beyond the scale, as the published one does; such a mean is drawn like any other.
    return max(min(low, least), middle - half), min(max(high, greatest), middle + half)


def mean_decimals(low: float, high: float) -> int:
    """Return the number of decimals of a cell's mean."""
    return 1 if high - low > 20 else 2


def interaction(cells: pd.DataFrame) -> pd.DataFrame:
    """Remove the main effects of perceivers and of experiencers from the identity pairs' means.

    This is what δ is made of: δ is its weighted mean over in-group minus out-group cells. Rows and columns have mean 0,
    in points. Baselines are left out. MissingCellError if an identity pair has no mean.
    """
    return lay_out_matrix(cells).without_baselines().centred()


def _pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Index a table by its pairs; ValueError if one is in it twice."""
    pairs = table.set_index(["perceiver", "experiencer"])
    if not pairs.index.is_unique:
        perceiver, experiencer = pairs.index[pairs.index.duplicated()][0]
        raise ValueError(f"the pair ({perceiver!r}, {experiencer!r}) is in the cells twice")
    return pairs


def _matrix(values: pd.Series[Any], *, rows: pd.Index[Any], columns: pd.Index[Any]) -> pd.DataFrame:
    return values.astype(float).unstack("experiencer").reindex(index=rows, columns=columns)


def _in_order(cells: pd.DataFrame, side: str, clusters: Mapping[str, str]) -> dict[str, str]:
    """Map each term to its group: in order of appearance, a cluster's and a group's terms together, baselines last."""
    group_of = dict(zip(cells[side], cells[f"{side}_group"], strict=True))
    groups = dict.fromkeys(group_of.values())
    place = {group: index for index, group in enumerate(groups)}
    # A group without a cluster is a cluster of its own; the tuple cannot equal a cluster's name.
    cluster_of = {group: clusters.get(group) or (group,) for group in groups}
    first = {cluster: index for index, cluster in enumerate(dict.fromkeys(cluster_of.values()))}

    def order(item: tuple[str, str]) -> tuple[bool, int, int]:
        return item[1] in BASELINES, first[cluster_of[item[1]]], place[item[1]]

    return dict(sorted(group_of.items(), key=order))
