r"""Makes the texts of tables safe for spreadsheets: none is run as a formula, and each can be read back.

Invisible characters are written out first, as ``\u202e``: a terminal would act on them, or a name would look like
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

FORMULA: Final = tuple("=+-@\t\r\n＝＋－＠")
"""How a cell begins that a spreadsheet runs as a formula; full-width forms of the signs count too."""

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Control characters except tabs and line ends, characters that reverse text, and zero-width ones. Joiners stay,
because scripts and emoji need them, and so do direction marks that reverse nothing, as on pages."""


def seen(text: str) -> str:
    r"""Write out the invisible characters of a text.

    Examples
    --------
    >>> seen("a\u202eb")
    'a\\u202eb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def seen_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Apply :func:`seen` to a table's texts."""
    return _each_text(table, seen)


def defused(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before every text that a spreadsheet would run as a formula, apostrophes before it or not."""
    return _each_text(seen_texts(table), lambda text: f"'{text}" if _looks_so(text) else text)


def as_it_was(table: pd.DataFrame) -> pd.DataFrame:
    """Undo :func:`defused`."""
    return _each_text(table, lambda text: text[1:] if text.startswith("'") and _looks_so(text) else text)


def _looks_so(text: str) -> bool:
    """Tell whether a text, without apostrophes and spaces at its head, would be run as a formula."""
    return text.lstrip("' ").startswith(FORMULA)


def _each_text(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Change a table's texts; a column in which no text changes stays the same object."""
    import pandas as pd

    changed = {}
    for name, column in table.items():
        if not pd.api.types.is_numeric_dtype(column.dtype):
            was = column.tolist()
            now = [change(value) if isinstance(value, str) else value for value in was]
            if any(new is not old for new, old in zip(now, was, strict=True)):
                kept = column.dtype if isinstance(column.dtype, pd.StringDtype) else object
                changed[str(name)] = pd.Series(now, index=table.index, dtype=kept)
    return table.assign(**changed) if changed else table
