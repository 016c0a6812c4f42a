"""The probabilities of tokens at one place, held against what probabilities can be.

A server that fills the field of log-probabilities with probabilities, logits or zeros would be rated as if it were
exact. So whatever is read as probabilities passes here, of every engine: logarithms are finite and at most 0, tokens
are different ones, and together they have a probability of 1 at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

ROUNDING: Final = 0.01
"""By how much probabilities may exceed 1: logits of half precision, and logarithms that are told with few digits."""
_HALVES: Final = "\ufffd"
"""How servers show a token that is a part of a letter."""


class ImpossibleError(ValueError):
    """What was told as probabilities cannot be probabilities; says why, as the end of a sentence."""


class NextTokens(Mapping[str, float]):
    """The probabilities of some tokens at one place, by their texts.

    Parameters
    ----------
    table
        By text. What is left of 1 is that of tokens that were not told.

    Raises
    ------
    ImpossibleError
        If a probability is not finite, below 0 or above 1, or their sum is above 1, by more than :data:`ROUNDING`.
    """

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[str, float]) -> None:
        check_probabilities(np.array(list(table.values()), dtype=np.float64))
        self._table = dict(table)

    @classmethod
    def of_logs(cls, told: Iterable[tuple[Hashable, str, Any]], *, chosen: Hashable = None) -> NextTokens:
        """Read what a server tells: of each token what it is told apart by, its text, and its log-probability.

        Parameters
        ----------
        told
            The tokens. Texts may be equal where the tokens are not: parts of letters and marks are shown alike.
        chosen
            The text of the one that was written, which must be among them; None where none was.

        Raises
        ------
        ImpossibleError
            If they cannot be probabilities of different tokens, or the written one is not among them.
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
    """Return a number of a server's as such; None of what is none, or has no end."""
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
    """Return what tells a token apart: its number, else its bytes, else its text; None of texts that tell nothing."""
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    if isinstance(octets, list) and octets:
        return (text, *map(str, octets))
    return text if text and _HALVES not in text else object()


def check_probabilities(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities of different tokens, shape (..., k), if they can be that.

    Raises
    ------
    ImpossibleError
        If one is not finite, below 0 or above 1, or the sum over the last axis is above 1, by more than
        :data:`ROUNDING`.
    """
    if not np.isfinite(table).all():
        raise ImpossibleError("a probability is no finite number")
    if table.size and (table.min() < 0 or table.max() > 1 + ROUNDING):
        raise ImpossibleError(f"probabilities lie from {table.min():.4g} to {table.max():.4g}, not from 0 to 1")
    if table.size and (most := float(table.sum(axis=-1).max())) > 1 + ROUNDING:
        raise ImpossibleError(f"the probabilities of different tokens have the sum {most:.4g}, which is more than 1")
    return table
