"""Tables embedded in the page as CSV, which a spreadsheet can open without running anything."""

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
    """A table that the page offers."""

    name: str
    n_rows: int  # without the header
    inside: bool  # whether it is in the page; a table too large for that is only in the run folder


def pack_tables(tables: Mapping[str, pd.DataFrame], *, max_bytes: int) -> tuple[tuple[Download, ...], str]:
    """Pack tables with rows, smallest first, up to ``max_bytes``, as JSON of gzipped files in base64."""
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
