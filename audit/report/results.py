"""The results that a page shows: rows, tables and figures, of a whole run or of one dimension and variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from audit.report.dimensions import Key, own_rows
from audit.report.numbers import PlacedRow, rows_of
from audit.report.page import picture
from audit.report.section import Captioned, captioned
from audit.report.table_layout import Named, lay_out
from audit.tables.base import Table
from audit.tables.formatting import coverage


def with_absent(tables: Mapping[str, pd.DataFrame], declared: Mapping[str, Table]) -> dict[str, pd.DataFrame]:
    """Return all declared tables in order; those that are absent have no rows."""
    return {
        name: tables[name] if name in tables else pd.DataFrame(columns=list(columns))
        for name, columns in declared.items()
    }


@dataclass(frozen=True)
class Results:
    """Tables and figures to show."""

    tables: Mapping[str, pd.DataFrame]  # by name, indexed as written; one that is absent has no rows
    declared: Mapping[str, Table]  # the declarations of all tables that there can be
    confidence: float
    figures: Mapping[str, bytes] = field(default_factory=dict)  # SVG by name
    title: str = ""  # of the dimension, to stand before captions; empty for the whole run
    key: Key = ("", "")  # the dimension and variant; empty for the whole run
    _rows: dict[str, list[PlacedRow]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def level(self) -> str:
        """Coverage of the intervals in words: "95%"."""
        return coverage(self.confidence)

    def of(self, key: Key, title: str) -> Results:
        """Return the results of one dimension and variant, with the tables that are of the whole run."""
        return replace(self, tables={**self.tables, **own_rows(self.tables, key)}, title=title, key=key)

    def rows(self, name: str, **values: object) -> list[PlacedRow]:
        """Return the rows of a table that have these values."""
        if name not in self._rows:
            self._rows[name] = rows_of(self.tables[name], name) if name in self.tables else []
        return [row for row in self._rows[name] if all(row[column] == value for column, value in values.items())]

    def row(self, name: str, **values: object) -> PlacedRow | None:
        """Return the first row of a table that has these values; None if there is none."""
        return next(iter(self.rows(name, **values)), None)

    def table(
        self, name: str, caption: str, *columns: Named, rows: Sequence[PlacedRow] | None = None
    ) -> Captioned | None:
        """Show columns of a table, of all its rows or of these; None without rows."""
        shown = self.rows(name) if rows is None else rows
        if not shown:
            return None
        return captioned(lay_out(self.declared[name], shown, columns, level=self.level), self.captioned(caption))

    def picture(self, name: str, caption: str, *, alt: str = "") -> Captioned | None:
        """Show a figure; None if it was not drawn. ``alt`` says what it shows, if the caption does not."""
        return captioned(picture(self.figures, name, f"Figure: {alt or caption}"), self.captioned(caption))

    def captioned(self, caption: str) -> str:
        """Put the title of the dimension before a caption."""
        return f"{self.title}: {caption}" if self.title else caption
