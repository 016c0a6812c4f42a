"""Describes tables: named columns, each with its type, unit, meaning and the table version that introduced it.

A :class:`Table` is declared once, in the module of its family beside this one. The declaration gives the schema of its
Parquet file, the checks on writing and reading, the fill values for columns that an earlier version did not write, and
its rows of ``dictionary.csv``. Nothing in a table is rounded. A value that does not apply or cannot be estimated is
missing (NaN, an empty CSV field), never 0.

To add a column, add its line to its table, with the meaning that readers see. If the table is kept as Parquet, also add
``since=`` the table's :attr:`Table.version` plus one, and ``before=`` the value in earlier rows if it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from audit.tables.spreadsheets import defused

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class Type(StrEnum):
    """The type of a column's values."""

    WORD = "word"  # text that many rows share; Parquet stores it as a dictionary
    TEXT = "text"
    FLAG = "flag"
    INT8 = "int8"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float64"

    @property
    def plain(self) -> str:
        """The type's name in ``dictionary.csv``."""
        return {"word": "text", "text": "text", "flag": "true or false", "float64": "number"}.get(self, "whole number")


INT8, INT32, INT64 = Type.INT8, Type.INT32, Type.INT64


@dataclass(frozen=True)
class Column:
    """One column of a table; its name is the table's key."""

    meaning: str  # shown to readers
    type: Type
    unit: str = ""  # empty for values without one, such as texts, flags and places
    since: int = 1  # the first version of the table that has it
    before: str | float | None = None  # the value in rows of earlier versions; None if it is missing there
    lengths: int = 0  # bound on the absolute value, in lengths of the scale: 1 for a gap, 2 for its change, 0 for none

    def adding(self, more: str) -> Column:
        """Return the column with ``more`` added to its meaning."""
        return replace(self, meaning=self.meaning + more)

    def reworded(self, old: str, new: str) -> Column:
        """Return the column with other words in its meaning."""
        return replace(self, meaning=self.meaning.replace(old, new))

    def fits(self, values: pd.Series) -> bool:
        """Tell whether values have the column's type or are missing."""
        from pandas.api.types import infer_dtype

        found = infer_dtype(values, skipna=True)
        if found == "categorical":
            found = infer_dtype(values.cat.categories, skipna=True)
        if found == "empty" or values.isna().all():
            return True
        if self.type in (Type.WORD, Type.TEXT):
            return found == "string"
        if self.type == Type.FLAG:
            return found == "boolean"
        if self.type == Type.FLOAT:
            return found in ("floating", "integer", "mixed-integer-float", "integer-na")
        known = values.dropna()
        return found in ("integer", "integer-na") or (
            found in ("floating", "mixed-integer-float") and bool((known.astype(float) % 1 == 0).all())
        )


def number(
    meaning: str,
    unit: str = "",
    *,
    type: Type = Type.FLOAT,
    since: int = 1,
    before: float | None = None,
    lengths: int = 0,
) -> Column:
    """Describe a column of numbers; without a unit they are pure numbers."""
    return Column(meaning, type, unit, since, before, lengths)


word: Final[Callable[..., Column]] = partial(Column, type=Type.WORD)
text: Final[Callable[..., Column]] = partial(Column, type=Type.TEXT)
flag: Final[Callable[..., Column]] = partial(Column, type=Type.FLAG)
whole: Final[Callable[..., Column]] = partial(number, type=Type.INT64)  # a place, or another number that is no count
count: Final[Callable[..., Column]] = partial(number, unit="count", type=Type.INT64)
tokens: Final[Callable[..., Column]] = partial(number, unit="tokens")
points: Final[Callable[..., Column]] = partial(number, unit="points")
squared_points: Final[Callable[..., Column]] = partial(number, unit="squared points")
percent: Final[Callable[..., Column]] = partial(number, unit="%")
percentage_points: Final[Callable[..., Column]] = partial(number, unit="percentage points")
share: Final[Callable[..., Column]] = partial(number, unit="share")
probability: Final[Callable[..., Column]] = partial(number, unit="probability")
cell_sds: Final[Callable[..., Column]] = partial(number, unit="standard deviations of the cells")
seconds: Final[Callable[..., Column]] = partial(number, unit="seconds")
in_row_unit: Final[Callable[..., Column]] = partial(number, unit="the row's unit")
in_measure_unit: Final[Callable[..., Column]] = partial(number, unit="the measure's unit")


def spelt_out(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Store words as plain text, for a table with few rows."""
    return {
        name: replace(column, type=Type.TEXT) if column.type == Type.WORD else column
        for name, column in columns.items()
    }


@dataclass(frozen=True)
class Storage:
    """Where a folder keeps a table that cannot be made again; names are relative to the folder."""

    file: str  # a Parquet or CSV file; * stands for a name if there are several such tables
    parts: str = ""  # the folder of its parts before they are consolidated; empty if it is one file from the start
    of_part: str = ""  # the table whose part of this name each part was made from: both are dropped together
    of_all: str = ""  # the table that it was made from as a whole, so that it is dropped when any part of that changes
    again: str = ""  # how to recreate a CSV file that cannot be read


KEPT: Final[dict[str, Table]] = {}  # Parquet tables by file; a table registers when its module is imported


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Column]):
    """A table's columns by name, in order."""

    name: str  # the stem of its file or folder
    row: str  # what one row describes, in words
    columns: Mapping[str, Column] = field(repr=False)
    kept: Storage | None = None  # where a collected table is kept; None for tables derived from those, which are CSV
    # Former name → name of columns. The CSV file has them, too, for one version, and a reader accepts either.
    former: Mapping[str, str] = field(default_factory=dict, repr=False)
    former_file: str = ""  # the stem of its file in earlier versions; empty if that has not changed

    def __post_init__(self) -> None:
        if self.kept is not None and self.stored:
            if self.kept.file in KEPT:
                raise ValueError(f"two tables are stored in {self.kept.file}")
            KEPT[self.kept.file] = self

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def stored(self) -> bool:
        """Whether it is collected and kept as Parquet."""
        return self.kept is not None and self.kept.file.endswith(".parquet")

    @property
    def version(self) -> int:
        """The version of the format: that of the column added last."""
        return max(column.since for column in self.columns.values())

    def pick(self, *names: str) -> dict[str, Column]:
        """Return the named columns, in that order, for another table."""
        return {name: self.columns[name] for name in names}

    def without(self, *names: str) -> dict[str, Column]:
        """Return all other columns, in order, for another table."""
        return {name: column for name, column in self.columns.items() if name not in names}

    def former_columns(self) -> dict[str, Column]:
        """Describe the columns of former names, which the CSV file has after the others."""
        return {
            former: replace(self[name], meaning=f"former name of {name}; gone in the next version")
            for former, name in self.former.items()
        }

    def renamed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table read from CSV under today's names; columns added since get the value known for its rows."""
        names = {former: name for former, name in self.former.items() if former in table and name not in table}
        renamed = table.rename(columns=names) if names else table
        before = {name: column.before for name, column in self.items() if column.before is not None}
        if added := {name: value for name, value in before.items() if name not in renamed}:
            renamed = renamed.assign(**added)
        gone = [former for former in self.former if former in renamed]
        return renamed.drop(columns=gone) if gone else renamed

    def place(self, folder: Path) -> Path:
        """Return the path of its CSV file in a folder, under the former name if an earlier version wrote it."""
        path, former = (folder / f"{name}.csv" for name in (self.name, self.former_file))
        return former if self.former_file and former.is_file() and not path.is_file() else path

    def check(self, table: pd.DataFrame) -> None:
        """Check a table before it is written: exactly these columns, in this order, with values of their types."""
        if list(table.columns) != list(self):
            different = sorted(set(map(str, table.columns)) ^ set(self)) or ["their order"]
            raise ValueError(f"the table {self.name} does not have the right columns: {', '.join(different)}")
        for name, column in self.items():
            if not column.fits(table[name]):
                raise ValueError(
                    f"the column {name} of the table {self.name} must have values of type {column.type.plain}, but "
                    f"has {table[name].dropna().iloc[0]!r}"
                )

    def csv(self, table: pd.DataFrame, *, capital_flags: bool = False) -> bytes:
        """Check a table and return its CSV file.

        Texts that a spreadsheet would run as a formula get an apostrophe. With ``capital_flags``, flags are TRUE and
        FALSE, because R reads True as text.
        """
        self.check(table)
        if capital_flags:
            flags = [name for name, column in self.items() if column.type == Type.FLAG]
            table = table.assign(**{name: table[name].map({True: "TRUE", False: "FALSE"}) for name in flags})
        table = table.assign(**{former: table[name] for former, name in self.former.items()})
        return defused(table).to_csv(index=False).encode("utf-8", "replace")


def by_name(*tables: Table) -> dict[str, Table]:
    """Map names to tables, in order."""
    return {table.name: table for table in tables}


def dictionary(tables: Iterable[Table]) -> bytes:
    """Write ``dictionary.csv``: table, column, description, type and unit of every column."""
    import pandas as pd

    rows = [
        {
            "table": table.name,
            "column": name,
            "description": column.meaning,
            "type": column.type.plain,
            "unit": column.unit,
        }
        for table in tables
        for name, column in {**table, **table.former_columns()}.items()
    ]
    return pd.DataFrame(rows).to_csv(index=False).encode()
