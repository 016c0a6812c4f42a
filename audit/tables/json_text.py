"""Reads outside JSON; whatever is wrong with it raises a ValueError that says so."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes, *, numbers_alone: bool = True) -> Any:
    """Parse JSON; bytes are UTF-8. Raises ValueError if it is invalid or nested too deeply.

    ``numbers_alone`` refuses numbers beyond any float, and ``NaN`` and ``Infinity``, which are not JSON but which
    Python reads. We never write them; some servers do.

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
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large")
    return number
