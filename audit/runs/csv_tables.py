"""Reads a CSV table back as it was written: texts stay texts, and numbers are the same to the last bit."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.tables.spreadsheets import as_it_was
from stimuli.files import read_file

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pandas.api.extensions import ExtensionArray

    from audit.tables.base import Table

_FLAGS: Final = {"True": True, "False": False}


def read_table(path: Path, table: Table | None) -> pd.DataFrame:
    """Read a table that an analysis published, with the columns of its file.

    ``table`` says which columns hold text, and how they were named before. Texts are as they were before formulas were
    defused: a group called "NA" or "007" is that group, and an empty text is empty. In other columns an empty field is
    missing. Whole numbers are int64 if none is missing, other numbers float64. Flags are bool, or objects if one is
    missing. A file that is no table raises ValueError.

    Notes
    -----
    Python reads the numbers, not pandas: the pandas parser only gets the last digit right with an option that pandas 3
    deprecates. The table is put together once: with tens of columns and few rows, pandas takes longer for each change
    of a column than Python for the whole file.
    """
    import pandas as pd

    names, rows = _cells(read_file(path).decode("utf-8-sig"))
    texts = {name for name, column in (table or {}).items() if column.type.plain == "text"}
    if table is not None:
        texts |= {former for former, name in table.former.items() if name in texts}
    columns = zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)
    read = pd.DataFrame({name: _read(cells, is_text=name in texts) for name, cells in columns}, copy=False)
    return as_it_was(read if table is None else table.renamed(read))


def _cells(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the names of a table's columns and the cells of its rows."""
    usual = csv.field_size_limit()
    csv.field_size_limit(max(usual, len(text)))
    try:
        lines = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    finally:
        csv.field_size_limit(usual)  # which other readers hold users' files to
    if not lines:
        raise ValueError("the file is empty")
    names, *rows = lines
    if len(set(names)) < len(names):
        raise ValueError("two columns have the same name")
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"a row does not have the {len(names)} cells that the header has")
    return names, rows


def _read(cells: Sequence[str], *, is_text: bool) -> np.ndarray[Any, Any] | ExtensionArray:
    """Convert texts to numbers or flags; a column with any other text stays as it is."""
    import numpy as np
    import pandas as pd

    if is_text:
        return pd.array(cells, dtype="str")
    given = set(cells) - {""}
    if given and given <= set(_FLAGS):
        flags = [_FLAGS.get(cell, np.nan) for cell in cells]
        return np.array(flags, dtype=object if "" in cells else bool)
    for number, dtype in ((int, np.int64), (float, np.float64)):
        try:
            return np.array([number(cell or "nan") for cell in cells], dtype=dtype)
        except (ValueError, OverflowError):
            continue
    return pd.array(cells, dtype="str")
