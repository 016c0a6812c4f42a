"""Probabilities of tokens at one position, checked to be possible.

If a server filled the log-probability field with probabilities, logits or zeros, ratings would look exact and be wrong.
So the probabilities of every engine are checked here: logarithms are finite and at most 0, tokens are distinct, and
their probabilities sum to at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

ROUNDING: Final = 0.01  # tolerance above 1: for half-precision logits and for logarithms with few digits
_HALVES: Final = "\ufffd"  # how servers show a token that is part of a character


class ImpossibleError(ValueError):
    """Values that cannot be probabilities; the message is the end of a sentence."""


class NextTokens(Mapping[str, float]):
    """Probabilities of some tokens at one position, by text; the rest to 1 belongs to tokens not listed."""

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[str, float]) -> None:
        check_probabilities(np.array(list(table.values()), dtype=np.float64))
        self._table = dict(table)

    @classmethod
    def of_logs(cls, told: Iterable[tuple[Hashable, str, Any]], *, chosen: Hashable = None) -> NextTokens:
        """Read a server's tokens as (key that tells them apart, text, log-probability).

        Texts of different tokens may be equal: parts of characters and marks look alike. ``chosen`` is the written
        token's text, which must be among them. Raises ImpossibleError.
        """
        table: dict[str, float] = {}
        seen: set[Hashable] = set()
        for key, text, logprob in told:
            value = _finite(logprob)
            if value is None:
                raise ImpossibleError(f"the log-probability of {text[:20]!r} is {_shown(logprob)}, no finite number")
            if value > ROUNDING:
                raise ImpossibleError(f"the log-probability of {text[:20]!r} is {value:.4g}, and can be 0 at most")
            if key in seen:
                raise ImpossibleError(f"the token {text[:20]!r} is told twice")
            seen.add(key)
            table[text] = table.get(text, 0.0) + math.exp(min(value, 0.0))
        if chosen is not None and chosen not in table:
            raise ImpossibleError(f"the token that was written, {str(chosen)[:20]!r}, is not among the likeliest")
        return cls(table)

    def __getitem__(self, text: str) -> float:
        return self._table[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"NextTokens({self._table})"


def _finite(told: Any) -> float | None:
    """Return a server's number as a float; None if it is no number, or infinite."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    try:
        value = float(told)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _shown(told: Any) -> str:
    return f"{told:.4g}" if isinstance(told, float) else "a " + type(told).__name__


def token_key(text: str, *, number: object = None, octets: object = None) -> Hashable:
    """Return what distinguishes a token: its number, else its bytes, else its text, else a unique object."""
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    if isinstance(octets, list) and octets:
        return (text, *map(str, octets))
    return text if text and _HALVES not in text else object()


def check_probabilities(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probabilities of distinct tokens, shape (..., k), if they are possible; see :class:`NextTokens`."""
    if not np.isfinite(table).all():
        raise ImpossibleError("a probability is no finite number")
    if table.size and (table.min() < 0 or table.max() > 1 + ROUNDING):
        raise ImpossibleError(f"probabilities lie from {table.min():.4g} to {table.max():.4g}, not from 0 to 1")
    if table.size and (most := float(table.sum(axis=-1).max())) > 1 + ROUNDING:
        raise ImpossibleError(f"the probabilities of different tokens have the sum {most:.4g}, which is more than 1")
    return table
