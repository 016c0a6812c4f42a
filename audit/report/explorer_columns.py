"""Tables packed by column, for the explorer's script.

A column is a list of its distinct values, in ascending order, and each row's position in that list. Numbers are
formatted by `audit.tables.formatting` beforehand, so that the script never rounds. Repetition is left to gzip.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.tables.formatting import MISSING as NOTHING
from audit.tables.formatting import brief, plural

LONGEST_TEXT: Final = 20_000  # characters of a text that are shown
IntArray = npt.NDArray[np.int64]
_T = TypeVar("_T")


def pack_columns(n_rows: Sequence[int], **columns: tuple[npt.ArrayLike, Sequence[object] | None]) -> dict[str, object]:
    """Pack columns of rows that come in groups of these sizes."""
    return {"n": list(map(int, n_rows)), "columns": {name: _column(*column) for name, column in columns.items()}}


def _column(places: npt.ArrayLike, values: Sequence[object] | None) -> dict[str, object]:
    """Pack one column: positions in the values, of which those that occur are kept, or numbers from 0 themselves."""
    codes = np.asarray(places, dtype=np.int64)
    kept = None
    if values is not None:
        used, codes = np.unique(codes, return_inverse=True)
        kept = [values[place] for place in used]
    return {"of": kept, "codes": codes.tolist() if codes.any() else None}


def write_numbers(values: pd.Series[Any], write: Callable[[float], str]) -> tuple[IntArray, list[object]]:
    """Format numbers, and return positions and texts; texts are in the numbers' order, missing values last."""
    numbers = values.to_numpy(dtype=float, na_value=math.nan)
    unique, places = np.unique(numbers, return_inverse=True)
    texts: list[object] = [NOTHING if math.isnan(value) else write(value) for value in unique.tolist()]
    new = np.array([at == 0 or text != texts[at - 1] for at, text in enumerate(texts)], dtype=np.int64)
    return (np.cumsum(new) - 1)[places].astype(np.int64), [
        text for text, is_new in zip(texts, new, strict=True) if is_new
    ]


def code_names(values: pd.Series[Any]) -> tuple[IntArray, list[object]]:
    """Code names in natural order, for lookup."""
    codes, names = pd.factorize(values.astype(object))
    return _sorted_codes(codes, list(map(str, names)))


def code_values(values: Sequence[_T], write: Callable[[_T], object]) -> tuple[list[int], list[object]]:
    """Code values in order of first appearance."""
    codes: dict[_T, int] = {}
    return [codes.setdefault(value, len(codes)) for value in values], [write(value) for value in codes]


def _sorted_codes(codes: npt.NDArray[Any], names: list[str]) -> tuple[IntArray, list[object]]:
    order = sorted(range(len(names)), key=lambda place: natural_order(names[place]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[codes], [brief(names[place]) for place in order]


def natural_order(name: str) -> list[tuple[bool, int, str]]:
    """Sort key that puts t2 before t10."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]", name)
    return [(True, int(p), p) if p[0] in "0123456789" else (False, 0, p.casefold()) for p in pieces] + [
        (False, 0, name)
    ]


def shorten(text: str, longest: int = LONGEST_TEXT) -> object:
    """Return a text; if it is long, its beginning and a note of its length."""
    if len(text) <= longest:
        return text
    return [text[:longest], f"cut here: {plural(len(text), 'character')}"]


def compact_json(content: object) -> bytes:
    """Return compact JSON in UTF-8."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text).encode()


def compressed(content: bytes) -> str:
    """Gzip for a script, deterministic, and in base64 so that nothing ends the HTML element."""
    return base64.b64encode(gzip.compress(content, compresslevel=9, mtime=0)).decode()
