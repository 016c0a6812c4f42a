"""What a table is: named columns, each with its type, its unit, its meaning and the version that it is there since.

A :class:`Table` is declared once, in the module of its family beside this one, and all else follows from it: what a
Parquet file of it looks like, what is checked when it is written or read, what fills a column that an earlier version
did not write, and its rows of ``dictionary.csv``. Nothing in a table is rounded; a value that does not apply, or cannot
be estimated, is missing (NaN, an empty CSV field), never 0.

To add a column, add its line to its table, with the meaning that readers see. To a table that is kept as Parquet, add
``since=`` the table's :attr:`Table.version` plus one, and ``before=`` what earlier rows had if that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from audit.tables.spreadsheets import defused

if TYPE_CHECKING:
    import pandas as pd


class Type(StrEnum):
    """What the values of a column are."""

    WORD = "word"
    """Text of which many rows have the same: Parquet keeps it as a dictionary."""
    TEXT = "text"
    FLAG = "flag"
    INT8 = "int8"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float64"

    @property
    def plain(self) -> str:
        """What a reader of ``dictionary.csv`` is told."""
        return {"word": "text", "text": "text", "flag": "true or false", "float64": "number"}.get(self, "whole number")


INT8, INT32, INT64 = Type.INT8, Type.INT32, Type.INT64


@dataclass(frozen=True)
class Column:
    """One column of a table; its name is the table's key.

    Attributes
    ----------
    meaning
        What stands in it, as readers are told.
    type
        Of its values.
    unit
        Of its values; empty for what has none, such as texts, flags and places.
    since
        Version of the table that has it first.
    before
        What stands in rows of earlier versions; None if it is missing there.
    lengths
        How many lengths of the rating scale its values lie from 0 at most: 1 of a gap, 2 of a change of gaps; 0 where
        the scale sets no bound.
    """

    meaning: str
    type: Type
    unit: str = ""
    since: int = 1
    before: str | float | None = None
    lengths: int = 0

    def saying(self, meaning: str) -> Column:
        """Return the same column with another meaning."""
        return replace(self, meaning=meaning)

    def adding(self, more: str) -> Column:
        """Return the same column, of which more is said."""
        return replace(self, meaning=self.meaning + more)

    def reworded(self, old: str, new: str) -> Column:
        """Return the same column with other words in its meaning."""
        return replace(self, meaning=self.meaning.replace(old, new))

    def fits(self, values: pd.Series) -> bool:
        """Tell whether values are of the column's type, or missing."""
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
whole: Final[Callable[..., Column]] = partial(number, type=Type.INT64)
"""A place, or another whole number that counts nothing."""
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
    """Return the same columns with words kept as texts, for a table of few rows."""
    return {
        name: replace(column, type=Type.TEXT) if column.type == Type.WORD else column
        for name, column in columns.items()
    }


@dataclass(frozen=True)
class Kept:
    """Where a folder keeps a table that cannot be made again; names are relative to the folder.

    Attributes
    ----------
    file
        A Parquet or CSV file; a ``*`` stands for a name, where there are several such tables.
    parts
        The folder of its parts, which are consolidated in the file; empty where it is one file from the first.
    of_part
        The table whose parts its own are made of, each of the one of its name, so that they go together.
    of_all
        The table of which all of it is made, so that it goes where any part of that one changes.
    again
        How a CSV file is had again that cannot be read.
    """

    file: str
    parts: str = ""
    of_part: str = ""
    of_all: str = ""
    again: str = ""


KEPT: Final[dict[str, Table]] = {}
"""The tables that folders keep as Parquet, by their files: each is here once its module is imported."""


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Column]):
    """A table's columns by name, in their order.

    Attributes
    ----------
    name
        The stem of its file, or of its folder.
    row
        What one row is of, in words.
    columns
        By name.
    kept
        Where it is kept, if it is collected. Others are made of those, and are CSV.
    """

    name: str
    row: str
    columns: Mapping[str, Column] = field(repr=False)
    kept: Kept | None = None

    def __post_init__(self) -> None:
        if self.kept is not None and self.stored:
            if self.kept.file in KEPT:
                raise ValueError(f"two tables are kept in {self.kept.file}")
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
        """The format's number: that of the column added last."""
        return max(column.since for column in self.columns.values())

    def pick(self, *names: str) -> dict[str, Column]:
        """Return some columns, in the order of the names, for another table that has them too."""
        return {name: self.columns[name] for name in names}

    def without(self, *names: str) -> dict[str, Column]:
        """Return the other columns, in their order, for another table that has them too."""
        return {name: column for name, column in self.columns.items() if name not in names}

    def check(self, table: pd.DataFrame) -> None:
        """Hold a table that is to be written against its description.

        Raises
        ------
        ValueError
            If it has not just these columns, in this order, or one of them holds values of another type.
        """
        if list(table.columns) != list(self):
            different = sorted(set(map(str, table.columns)) ^ set(self)) or ["their order"]
            raise ValueError(f"the table {self.name} has not the columns that it is to have: {', '.join(different)}")
        for name, column in self.items():
            if not column.fits(table[name]):
                raise ValueError(
                    f"the column {name} of the table {self.name} is to hold values of type {column.type.plain}, and "
                    f"holds {table[name].dropna().iloc[0]!r} among others"
                )

    def csv(self, table: pd.DataFrame, *, capital_flags: bool = False) -> bytes:
        """Return the file of a table, which is checked first, as by :meth:`check`.

        A text that a spreadsheet would take for a formula has an apostrophe before it, see
        :mod:`audit.tables.spreadsheets`. With ``capital_flags``, flags are TRUE and FALSE: R takes True for a text.
        """
        self.check(table)
        if capital_flags:
            flags = [name for name, column in self.items() if column.type == Type.FLAG]
            table = table.assign(**{name: table[name].map({True: "TRUE", False: "FALSE"}) for name in flags})
        return defused(table).to_csv(index=False).encode("utf-8", "replace")


def by_name(*tables: Table) -> dict[str, Table]:
    """Return tables by their names, in their order."""
    return {table.name: table for table in tables}


def dictionary(tables: Iterable[Table]) -> bytes:
    """Return ``dictionary.csv``: table, column, description, type and unit of every column."""
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
        for name, column in table.items()
    ]
    return pd.DataFrame(rows).to_csv(index=False).encode()
