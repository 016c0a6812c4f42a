"""Tables packed by column, for the explorer's script to read.

A column is a list of the values that occur, in ascending order, and for each row the place in it, in as few characters
as do. Every number is written by `audit.wording` before, so that the script never rounds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.wording import MISSING as NOTHING
from audit.wording import brief, plural

ALPHABET: Final = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"\\<>&')
"""What a place is written in: printable, one byte each, and never escaped."""
LONGEST_TEXT: Final = 20_000
"""Characters of a text that are shown."""
IntArray = npt.NDArray[np.int64]
_T = TypeVar("_T")


def pack(n_rows: Sequence[int], **columns: tuple[npt.ArrayLike, Sequence[object] | None]) -> dict[str, object]:
    """Pack columns of rows that come in groups; equal stretches of groups, of which there are many, are kept once."""
    ends = np.cumsum([0, *n_rows])
    return {"n": list(map(int, n_rows)), "columns": {name: _column(*column, ends) for name, column in columns.items()}}


def _column(places: npt.ArrayLike, values: Sequence[object] | None, ends: IntArray) -> dict[str, object]:
    """Pack one column: places in the values, of which those that occur are kept, or numbers from 0 themselves."""
    codes = np.asarray(places, dtype=np.int64)
    kept = None
    if values is not None:
        used, codes = np.unique(codes, return_inverse=True)
        kept = [values[place] for place in used]
    width, base, largest = 0, len(ALPHABET), int(codes.max(initial=0))
    while largest >= base**width:
        width += 1
    letters = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
    digits = [letters[codes // base**power % base] for power in reversed(range(width))]
    text = np.stack(digits, axis=1).tobytes().decode() if width else ""
    stretches: dict[str, int] = {}
    at = [stretches.setdefault(text[a * width : b * width], len(stretches)) for a, b in pairwise(ends.tolist())]
    return {"of": kept, "w": width, "s": list(stretches), "at": at}


def write_numbers(values: pd.Series[Any], write: Callable[[float], str]) -> tuple[IntArray, list[object]]:
    """Write numbers; the texts are in the numbers' order, what is missing comes last."""
    numbers = values.to_numpy(dtype=float, na_value=math.nan)
    unique, places = np.unique(numbers, return_inverse=True)
    texts: list[object] = [NOTHING if math.isnan(value) else write(value) for value in unique.tolist()]
    new = np.array([at == 0 or text != texts[at - 1] for at, text in enumerate(texts)], dtype=np.int64)
    return (np.cumsum(new) - 1)[places].astype(np.int64), [
        text for text, is_new in zip(texts, new, strict=True) if is_new
    ]


def code_names(values: pd.Series[Any]) -> tuple[IntArray, list[object]]:
    """Code names, in the order that people look them up in."""
    codes, names = pd.factorize(values.astype(object))
    return _sorted_codes(codes, list(map(str, names)))


def code_values(values: Sequence[_T], write: Callable[[_T], object]) -> tuple[list[int], list[object]]:
    """Code values in the order in which they come."""
    codes: dict[_T, int] = {}
    return [codes.setdefault(value, len(codes)) for value in values], [write(value) for value in codes]


def _sorted_codes(codes: npt.NDArray[Any], names: list[str]) -> tuple[IntArray, list[object]]:
    order = sorted(range(len(names)), key=lambda place: natural_order(names[place]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[codes], [brief(names[place]) for place in order]


def natural_order(name: str) -> list[tuple[bool, int, str]]:
    """Sort t2 before t10."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]", name)
    return [(True, int(p), p) if p[0] in "0123456789" else (False, 0, p.casefold()) for p in pieces] + [
        (False, 0, name)
    ]


def shorten(text: str, longest: int = LONGEST_TEXT) -> object:
    """Return a text, or of a long one its beginning and its length."""
    if len(text) <= longest:
        return text
    return [text[:longest], f"cut here: {plural(len(text), 'character')}"]


def as_json(content: object) -> str:
    """Return JSON that is UTF-8 and in which no character can end a script element, or turn round what is read."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return re.sub("[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text)
