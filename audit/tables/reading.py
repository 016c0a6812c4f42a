"""Reads a table of ``tables/`` back as it was written: texts are texts, and numbers are the same to the last bit."""

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
    """Return a table that an analysis published, with the columns that its file has.

    Parameters
    ----------
    path
        A CSV file.
    table
        Says which columns hold text; None of one that nothing describes.

    Returns
    -------
    pandas.DataFrame
        Texts as they were before a spreadsheet's formulas were defused in them: a group called "NA" or "007" is that
        group, and an empty text is empty. Of other columns an empty field is missing. Whole numbers without a missing
        one are int64, all other numbers float64. Flags are bool, or objects where one is missing.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no table.

    Notes
    -----
    Numbers are read by Python and not by pandas: the parser of pandas reads the last digit only under an option that
    its third version deprecates.
    """
    import pandas as pd

    written = pd.read_csv(io.BytesIO(read_file(path)), dtype=str, keep_default_na=False)
    texts = {name for name, column in (table or {}).items() if column.type.plain == "text"}
    others = {name: _read(written[name]) for name in written.columns if name not in texts}
    return as_it_was(written.assign(**others))


def _read(written: pd.Series) -> pd.Series:
    """Return the numbers or flags that texts stand for; texts of which one stands for neither stay as they are."""
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
