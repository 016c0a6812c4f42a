"""What people said of how a reply to each narrative communicates empathy: EPITOME's levels, from a user's file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from stimuli.errors import StimulusError
from stimuli.tables import check_unique, column_names, read_cells

LEVELS: Final = ("0", "1", "2")  # no, weak and strong communication of a mechanism


def read_levels(path: Path, narrative_ids: Collection[str], mechanisms: Sequence[str]) -> dict[str, dict[str, int]]:
    """Read the levels, 0, 1 or 2, of a reference reply to each narrative: narrative → mechanism → level.

    A CSV file with ``narrative_id`` and a column for each mechanism that it has. Rows of other narratives are not read.
    """
    there = column_names(path)
    mechanisms = [name for name in mechanisms if name in there] or mechanisms
    columns = {"narrative_id": "narrative_id", **{name: name for name in mechanisms}}
    rows = read_cells(path, columns, of="levels")
    check_unique((cells["narrative_id"] for _, cells in rows), of="narrative", place=str(path))
    wanted = set(map(str, narrative_ids))
    found: dict[str, dict[str, int]] = {}
    for place, cells in rows:
        if cells["narrative_id"] not in wanted:
            continue
        for name in mechanisms:
            if cells[name] not in LEVELS:
                raise StimulusError(f"{place}: {name} is {cells[name]!r}; a level is 0, 1 or 2")
        found[cells["narrative_id"]] = {name: int(cells[name]) for name in mechanisms}
    if not found:
        raise StimulusError(f"{path}: names none of this run's {len(wanted):,} narratives in narrative_id")
    return found
