"""The tables inside the page: as CSV that a spreadsheet can open without running anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pandas as pd

from audit.report.page import compressed

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula; full-width forms of the signs are taken so, too."""
_WIDE: Final = ("\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}", "\N{FULLWIDTH HYPHEN-MINUS}")
_ALL: Final = (*FORMULA, *_WIDE, "\N{FULLWIDTH COMMERCIAL AT}")


@dataclass(frozen=True, slots=True)
class Download:
    """A table that the page offers.

    Attributes
    ----------
    name
        The file's name, e.g. "gap.csv".
    n_rows
        Its rows, without the header.
    inside
        Whether it is in the page; what is too large for it is in the run folder alone.
    """

    name: str
    n_rows: int
    inside: bool


def defused(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before every text that a spreadsheet would take for a formula; numbers stay as they are."""
    words = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name].dtype)]
    return table.assign(**{str(name): table[name].map(_defuse) for name in words})


def _defuse(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_ALL) else value


def pack(tables: Mapping[str, pd.DataFrame], *, max_bytes: int) -> tuple[tuple[Download, ...], str]:
    """Pack tables for the page, the smallest first, until they are full.

    Parameters
    ----------
    tables
        By the file's stem.
    max_bytes
        What they may take up together.

    Returns
    -------
    tuple
        What is offered, in the tables' order, and the JSON that holds it: each file's name and its bytes, as
        `compressed` makes them.
    """
    packed = {
        f"{name}.csv": compressed(defused(table).to_csv(index=False).encode("utf-8", "replace"))
        for name, table in tables.items()
    }
    inside: dict[str, str] = {}
    for name in sorted(packed, key=lambda name: len(packed[name])):
        if sum(map(len, inside.values())) + len(packed[name]) > max_bytes:
            break
        inside[name] = packed[name]
    offered = (Download(f"{name}.csv", len(table), f"{name}.csv" in inside) for name, table in tables.items())
    return tuple(offered), json.dumps(inside, ensure_ascii=True, separators=(",", ":")).replace("<", r"\u003c")
