"""Reads a CSV table back as it was written: texts stay texts, and numbers are the same to the last bit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.tables.spreadsheets import as_it_was
from stimuli.files import read_file

if TYPE_CHECKING:
    import pandas as pd

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
    deprecates.
    """
    import pandas as pd

    written = pd.read_csv(io.BytesIO(read_file(path)), dtype=str, keep_default_na=False)
    if table is not None:
        written = table.renamed(written)
    texts = {name for name, column in (table or {}).items() if column.type.plain == "text"}
    others = {name: _read(written[name]) for name in written.columns if name not in texts}
    return as_it_was(written.assign(**others))


def _read(written: pd.Series) -> pd.Series:
    """Convert texts to numbers or flags; a column with any other text stays as it is."""
    import numpy as np
    import pandas as pd

    values = written.to_numpy(dtype=object)
    missing = values == ""
    if set(values[~missing]) <= set(_FLAGS) and not missing.all():
        flags: list[Any] = [_FLAGS.get(value, np.nan) for value in values]
        return pd.Series(flags, index=written.index, dtype=object if missing.any() else bool)
    filled = np.where(missing, "nan", values).astype(object)
    for dtype in (np.float64,) if missing.any() else (np.int64, np.float64):
        try:
            return pd.Series(filled.astype(dtype), index=written.index)
        except (ValueError, OverflowError):
            continue
    return written
