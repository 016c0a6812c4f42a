"""Write ratings as CSV, with a dictionary of their columns."""

from __future__ import annotations

from typing import Final

from audit.extras.exchange.base import Collected, ExportOptions, Files, Form
from audit.extras.exchange.facts import about
from audit.tables.base import dictionary

_FILES: Final = """\
`ratings.csv`: UTF-8 with commas; an empty field is missing, and what is true or false is TRUE or FALSE. A text that a
spreadsheet would take for a formula has an apostrophe before it. `dictionary.csv` describes the columns."""


def _make(collected: Collected, told: ExportOptions) -> Files:
    return {
        "ratings.csv": collected.table.csv(collected.rows, capital_flags=True),
        "dictionary.csv": dictionary([collected.table]),
        "ABOUT.md": about(collected, files=_FILES).encode(),
    }


FORM: Final = Form("csv", "ratings as CSV, with a dictionary of the columns", ("ratings",), _make, options=("texts",))
