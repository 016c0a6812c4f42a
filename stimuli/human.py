"""What people said of how intense an emotion was, by narrative: the writers themselves, or readers."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from stimuli.errors import StimulusError
from stimuli.tables import read_cells

_DECIMAL_COMMA: Final = re.compile(r"^([+-]?\d*),(\d{1,2}|\d{4,})$")
"""Three digits after a comma may be thousands, and are refused."""


@dataclass(frozen=True)
class HumanIntensities:
    """Human intensities of a run's narratives.

    Attributes
    ----------
    mean
        By narrative: the mean over its rows, such as several readers. In the unit of the file.
    n_ratings
        Rows that these are made of.
    n_empty
        Rows of these narratives without a rating.
    where
        The file.
    sha256
        Of its bytes.
    """

    mean: dict[str, float]
    n_ratings: int
    n_empty: int
    where: str
    sha256: str


def read_human(path: Path, narrative_ids: Collection[str], *, id_column: str, rating_column: str) -> HumanIntensities:
    """Read the human intensities of narratives from a user's CSV or TSV file.

    Parameters
    ----------
    path
        One row a rating; a narrative may have several. Rows of other narratives are not read.
    narrative_ids
        The run's.
    id_column, rating_column
        The file's columns of the narrative's identifier and of the number; a cell without a number is a missing rating.

    Raises
    ------
    StimulusError
        If the file cannot be read, a rating is no number, or none of the narratives is in it.
    """
    columns = {"narrative_id": id_column, "rating": rating_column}
    remedy = "set statistics.human_id and statistics.human_rating"
    rows = read_cells(path, columns, of="ratings", may_be_empty=("rating",), remedy=remedy)
    wanted = set(map(str, narrative_ids))
    given: dict[str, list[float]] = {}
    n_empty = 0
    for place, cells in rows:
        if cells["narrative_id"] not in wanted:
            continue
        if not cells["rating"]:
            n_empty += 1
            continue
        given.setdefault(cells["narrative_id"], []).append(_number(cells["rating"], place, rating_column))
    if not given:
        raise StimulusError(
            f"{path}: column {id_column!r} names none of this run's {len(wanted):,} narratives (the file's first is "
            f"{rows[0][1]['narrative_id']!r}, the run's {min(wanted, default='')!r}); set statistics.human_id"
        )
    return HumanIntensities(
        mean={name: float(np.mean(ratings)) for name, ratings in given.items()},
        n_ratings=sum(map(len, given.values())),
        n_empty=n_empty,
        where=str(path),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _number(cell: str, place: str, column: str) -> float:
    try:
        number = float(_DECIMAL_COMMA.sub(r"\1.\2", cell))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise StimulusError(f"{place}: {column} is {cell!r}, and should be a number, or empty where there is no rating")
    return number
