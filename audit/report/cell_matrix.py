"""The cells of one dimension as matrices: in reading order, baselines last, main effects removed where asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import MissingCellError

BASELINES: Final = frozenset({"unspecified", "no persona"})
"""Groups that stand outside δ: placed last, set apart."""
SPARSE_BELOW: Final = 0.8
"""Share of rated prompts under which a cell's mean is marked."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """The cells of one dimension and variant, perceivers in rows and experiencers in columns.

    Attributes
    ----------
    mean
        Mean intensity in points; NaN where nothing was rated.
    asked
        Whether the pair has prompts.
    in_group
        Whether the pair is in-group; false for baselines.
    sparse
        Whether under `SPARSE_BELOW` of the pair's prompts were rated, though some were.
    row_groups, column_groups
        The group of each perceiver and of each experiencer.
    """

    mean: pd.DataFrame
    asked: Mask
    in_group: Mask
    sparse: Mask
    row_groups: tuple[str, ...]
    column_groups: tuple[str, ...]

    @property
    def unrated(self) -> Mask:
        """Pairs that were asked and have no rating at all."""
        missing: Mask = self.asked & self.mean.isna().to_numpy()
        return missing

    def align(self, table: pd.DataFrame, column: str) -> pd.DataFrame:
        """Lay another value of the pairs out as the means are: NaN where the pair has none.

        Parameters
        ----------
        table
            One row a pair, with its ``perceiver``, its ``experiencer`` and the column.
        column
            The value: numbers, or true and false, which become 1 and 0.

        Raises
        ------
        ValueError
            If a pair is in the table twice.
        """
        return _matrix(_pairs(table)[column], rows=self.mean.index, columns=self.mean.columns)

    def without_baselines(self) -> Grid:
        """Keep the pairs of identities, which δ is about."""
        rows = np.array([group not in BASELINES for group in self.row_groups], dtype=bool)
        columns = np.array([group not in BASELINES for group in self.column_groups], dtype=bool)
        pick = np.ix_(rows, columns)
        return Grid(
            mean=self.mean.loc[rows, columns],
            asked=self.asked[pick],
            in_group=self.in_group[pick],
            sparse=self.sparse[pick],
            row_groups=tuple(group for group in self.row_groups if group not in BASELINES),
            column_groups=tuple(group for group in self.column_groups if group not in BASELINES),
        )

    def centred(self) -> pd.DataFrame:
        """Remove row and column means.

        Raises
        ------
        MissingCellError
            If a pair has no mean, so that the main effects cannot be told from it.
        ValueError
            If there are no pairs.
        """
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


def lay_out(cells: pd.DataFrame, *, clusters: Mapping[str, str] | None = None) -> Grid:
    """Lay the cells out: identities as they appear, a group's terms together, experiencers in the perceivers' order.

    Parameters
    ----------
    cells
        Rows of the `tables.CELLS` table, of one dimension and one variant.
    clusters
        Group → its cultural cluster, whose groups are to stand together; a group without one stands alone.

    Raises
    ------
    ValueError
        If there are no cells, several dimensions or variants, or a pair twice.
    """
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
    return Grid(
        mean=mean,
        asked=(matrix(pairs["n_prompts"]) > 0).to_numpy(),
        in_group=(matrix(pairs["in_group"].astype("boolean").fillna(False)) == 1.0).to_numpy(),
        sparse=((share < SPARSE_BELOW) & mean.notna()).to_numpy(),
        row_groups=tuple(rows.values()),
        column_groups=tuple(columns.values()),
    )


def colour_limits(means: npt.NDArray[np.float64], *, low: float, high: float) -> tuple[float, float]:
    """Return the means at the two ends of the colours, the same for all panels of a run.

    Parameters
    ----------
    means
        In points, of any shape; NaN where nothing was rated.
    low, high
        Ends of the scale, in points.

    Returns
    -------
    tuple[float, float]
        The least and the greatest mean, widened to at least a tenth of the scale so that noise does not look like
        structure, but not over an end of the scale that no mean lies beyond; the scale itself if nothing was rated.
    """
    rated = means[np.isfinite(means)]
    if rated.size == 0:
        return low, high
    least, greatest = float(rated.min()), float(rated.max())
    middle = (least + greatest) / 2
    half = max(greatest - least, (high - low) / 10) / 2
    # A parser may accept what lies beyond the scale, as the published one does: it is drawn like any other mean.
    return max(min(low, least), middle - half), min(max(high, greatest), middle + half)


def mean_decimals(low: float, high: float) -> int:
    """Return how many decimals a cell's mean is written with."""
    return 1 if high - low > 20 else 2


def interaction(cells: pd.DataFrame) -> pd.DataFrame:
    """Remove the main effects of perceivers and of experiencers from the identity pairs' means.

    What is left is what δ is made of: its weighted mean over in-group minus out-group cells.

    Parameters
    ----------
    cells
        As in `lay_out`; baselines are left out.

    Returns
    -------
    pandas.DataFrame
        Perceivers in rows and experiencers in columns, in points; rows and columns have mean 0.

    Raises
    ------
    MissingCellError
        If an identity pair has no mean.
    ValueError
        As in `lay_out`, or if there are baselines only.
    """
    return lay_out(cells).without_baselines().centred()


def _pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Index a table by its pairs, each of which it has once."""
    pairs = table.set_index(["perceiver", "experiencer"])
    if not pairs.index.is_unique:
        perceiver, experiencer = pairs.index[pairs.index.duplicated()][0]
        raise ValueError(f"the pair ({perceiver!r}, {experiencer!r}) is in the cells twice")
    return pairs


def _matrix(values: pd.Series[Any], *, rows: pd.Index[Any], columns: pd.Index[Any]) -> pd.DataFrame:
    return values.astype(float).unstack("experiencer").reindex(index=rows, columns=columns)


def _in_order(cells: pd.DataFrame, side: str, clusters: Mapping[str, str]) -> dict[str, str]:
    """Map each term to its group: as they appear, a cluster's and a group's terms together, baselines last."""
    group_of = dict(zip(cells[side], cells[f"{side}_group"], strict=True))
    groups = dict.fromkeys(group_of.values())
    place = {group: index for index, group in enumerate(groups)}
    # A group without a cluster is its own, and a tuple is no cluster's name.
    cluster_of = {group: clusters.get(group) or (group,) for group in groups}
    first = {cluster: index for index, cluster in enumerate(dict.fromkeys(cluster_of.values()))}

    def order(item: tuple[str, str]) -> tuple[bool, int, int]:
        return item[1] in BASELINES, first[cluster_of[item[1]]], place[item[1]]

    return dict(sorted(group_of.items(), key=order))
