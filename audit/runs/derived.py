"""Tables of a folder's last analysis. One without rows has no file; ``dictionary.csv`` describes it all the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.runs.ledger import story_of
from audit.tables.base import Table
from audit.tables.reading import read_table

if TYPE_CHECKING:
    import pandas as pd

_DICTIONARY: Final = "tables/dictionary.csv"


def has_table(folder: Path, name: str) -> bool:
    """Whether the folder's last analysis has a table, be it one without rows; not if its file was lost."""
    place = f"tables/{name}.csv"
    if (folder / place).is_file():
        return True
    if not (folder / _DICTIONARY).is_file():
        return False
    story = story_of(folder)
    return story is None or place not in story.files


def derived_table(folder: Path, name: str, table: Table | None) -> pd.DataFrame:
    """Read a table of the folder's last analysis; FileNotFoundError if there is none, ValueError if it is damaged."""
    import pandas as pd

    path = folder / "tables" / f"{name}.csv"
    if table is not None and not path.exists() and has_table(folder, name):
        return pd.DataFrame(columns=list(table))
    return read_table(path, table)
