"""Reads JSON that comes from outside: whatever is wrong with a text, it ends in a ValueError that says so."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes, *, numbers_alone: bool = True) -> Any:
    """Return what a text of JSON holds.

    Parameters
    ----------
    text
        Bytes are UTF-8.
    numbers_alone
        Whether ``NaN`` and ``Infinity`` are refused, which Python's reader takes and JSON has not, and numbers that are
        larger than any float. Nothing of ours is written with them; some servers write them.

    Raises
    ------
    ValueError
        If it is no JSON, no UTF-8, or nested more deeply than can be read.

    Examples
    --------
    >>> parse_json('{"n": [1, 2.5]}')
    {'n': [1, 2.5]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    given = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        if numbers_alone:
            return json.loads(given, parse_constant=_refuse, parse_float=_finite)
        return json.loads(given)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number
