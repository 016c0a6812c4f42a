"""What people said of how intense an emotion was, by narrative: the writers themselves, or readers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stimuli.errors import Faults, StimulusError
from stimuli.files import read_file
from stimuli.tables import read_cells, read_numbers


@dataclass(frozen=True)
class HumanIntensities:
    """Human intensities of a run's narratives."""

    mean: dict[str, float]  # by narrative: the mean over its rows, such as several readers, in the unit of the file
    n_ratings: int  # rows that these are made of
    n_empty: int  # rows of these narratives without a rating
    where: str  # the file
    sha256: str  # of its bytes


def read_human(path: Path, narrative_ids: Collection[str], *, id_column: str, rating_column: str) -> HumanIntensities:
    """Read the human intensities of narratives from a user's table, one row a rating; other narratives are not read."""
    columns = {"narrative_id": id_column, "rating": rating_column}
    remedy = "set statistics.human_id and statistics.human_rating"
    rows = read_cells(path, columns, of="ratings", may_be_empty=("rating",), numbers=("rating",), remedy=remedy)
    wanted = set(map(str, narrative_ids))
    own = [(place, cells) for place, cells in rows if cells["narrative_id"] in wanted]
    numbers, wrong = read_numbers([cells["rating"] for _, cells in own])
    faults = Faults(str(path))
    for row in wrong:
        place, cells = own[row]
        faults.add(
            place,
            f"{rating_column} is {cells['rating']!r}, and should be a number, or empty where there is no rating",
        )
    faults.check()
    given: dict[str, list[float]] = {}
    for (_, cells), number in zip(own, numbers, strict=True):
        if not math.isnan(number):
            given.setdefault(cells["narrative_id"], []).append(number)
    if not given:
        raise StimulusError(
            f"{path}: column {id_column!r} names none of this run's {len(wanted):,} narratives (the file's first is "
            f"{rows[0][1]['narrative_id']!r}, the run's {min(wanted, default='')!r}); set statistics.human_id"
        )
    return HumanIntensities(
        mean={name: float(np.mean(ratings)) for name, ratings in given.items()},
        n_ratings=sum(map(len, given.values())),
        n_empty=len(own) - sum(map(len, given.values())),
        where=str(path),
        sha256=hashlib.sha256(read_file(path)).hexdigest(),
    )
