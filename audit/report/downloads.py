"""The tables inside the page: as CSV that a spreadsheet can open without running anything."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from audit.tables.spreadsheets import defused


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


def pack(tables: Mapping[str, pd.DataFrame], *, max_bytes: int) -> tuple[tuple[Download, ...], str]:
    """Pack tables for the page, the smallest first, until they are full.

    Parameters
    ----------
    tables
        By the file's stem. One without rows is not offered: there is nothing in it to save.
    max_bytes
        What they may take up together.

    Returns
    -------
    tuple
        What is offered, in the tables' order, and the JSON that holds it: each file's name and its bytes, compressed
        by gzip and in base64.
    """
    tables = {name: table for name, table in tables.items() if len(table)}
    packed = {
        f"{name}.csv": base64.b64encode(
            gzip.compress(defused(table).to_csv(index=False).encode("utf-8", "replace"), compresslevel=9, mtime=0)
        ).decode()
        for name, table in tables.items()
    }
    inside: dict[str, str] = {}
    for name in sorted(packed, key=lambda name: len(packed[name])):
        if sum(map(len, inside.values())) + len(packed[name]) > max_bytes:
            break
        inside[name] = packed[name]
    offered = (Download(f"{name}.csv", len(table), f"{name}.csv" in inside) for name, table in tables.items())
    return tuple(offered), json.dumps(inside, ensure_ascii=True, separators=(",", ":")).replace("<", r"\u003c")
