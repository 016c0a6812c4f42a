"""Tables that are one file from the start: Parquet, or CSV if people read it too."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from audit.errors import StoreError
from audit.runs.ledger import Ledger
from audit.runs.parquet import concatenate, in_pandas, parquet, read_parquet
from audit.tables.base import Table, Type
from audit.tables.spreadsheets import as_it_was
from stimuli.files import read_file

_READ_AS: Final[dict[Type, type]] = {Type.INT64: np.int64, Type.FLOAT: np.float64}  # of CSV columns; others are text


class OneFile:
    """One table of a folder, in one file."""

    def __init__(self, root: Path, table: Table, ledger: Ledger) -> None:
        assert table.kept is not None
        self.name, self._again = table.kept.file, table.kept.again
        self._path, self._table, self._ledger = root / self.name, table, ledger

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    def write(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write or overwrite the Parquet file."""
        # Callers use NaN for missing values; the table has nulls.
        plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        self._ledger.write(self.name, parquet(self._table, plain))

    def write_csv(self, rows: pd.DataFrame) -> None:
        """Write or overwrite the CSV file, without columns that are not the table's."""
        self._ledger.write(self.name, self._table.csv(rows[list(self._table)]))

    def rows(self) -> list[dict[str, Any]]:
        """Return the Parquet file's rows; none without a file. Raises StoreError if it is unreadable or changed."""
        rows: list[dict[str, Any]] = self._read().to_pylist()
        return rows

    def frame(self) -> pd.DataFrame:
        """Return the rows in pandas; reads CSV files too."""
        return self._read_csv() if self.name.endswith(".csv") else in_pandas(self._read())

    def _read(self) -> pa.Table:
        table = concatenate([read_parquet(self._path, self._table)] if self.exists() else [], self._table)
        self._ledger.confirm(self.name)
        return table

    def _read_csv(self) -> pd.DataFrame:
        types = {name: _READ_AS.get(column.type, str) for name, column in self._table.items()}
        if not self.exists():
            return pd.DataFrame({name: pd.Series(dtype=each) for name, each in types.items()})
        empty = {name: [""] for name, each in types.items() if each is np.float64}
        try:
            content = io.BytesIO(read_file(self._path))
            read = as_it_was(pd.read_csv(content, dtype=types, keep_default_na=False, na_values=empty)[list(types)])
        except (OSError, ValueError, KeyError, OverflowError) as error:
            raise StoreError(f"{self._path} cannot be read ({error}); {self._again}") from error
        self._ledger.confirm(self.name)
        return read
