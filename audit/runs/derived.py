"""Tables of a folder's last analysis. One without rows has no file; ``dictionary.csv`` describes it all the same."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.runs.ledger import story_of
from audit.tables.base import Table
from audit.tables.reading import read_table

if TYPE_CHECKING:
    import pandas as pd

_DICTIONARY: Final = "tables/dictionary.csv"


def tables_of(folder: Path, names: Collection[str]) -> set[str]:
    """Return which of these tables the folder's last analysis has, be they empty; not those whose file was lost."""
    there = {name for name in names if (folder / f"tables/{name}.csv").is_file()}
    if len(there) == len(names) or not (folder / _DICTIONARY).is_file():
        return there
    story = story_of(folder)
    written = {} if story is None else story.files
    return there | {name for name in names if f"tables/{name}.csv" not in written}


def has_table(folder: Path, name: str) -> bool:
    """Whether the folder's last analysis has a table; see :func:`tables_of`."""
    return bool(tables_of(folder, (name,)))


def place_of(folder: Path, name: str, table: Table | None) -> Path:
    """Return where the folder's last analysis keeps a table, which it may have without a file."""
    return folder / "tables" / f"{name}.csv" if table is None else table.place(folder / "tables")


def derived_table(folder: Path, name: str, table: Table | None) -> pd.DataFrame:
    """Read a table of the folder's last analysis; FileNotFoundError if there is none, ValueError if it is damaged."""
    import pandas as pd

    path = place_of(folder, name, table)
    if table is not None and not path.exists() and has_table(folder, name):
        return pd.DataFrame(columns=list(table))
    return read_table(path, table)
