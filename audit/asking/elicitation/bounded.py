"""A distribution over the scale's numbers as far as the likeliest tokens show it, with bounds on its mean.

A server that returns the likeliest tokens at each place of one answer leaves much unseen: the other tokens, and what
would have followed tokens that were not written. An unseen token could begin any number that fits there, or none. A
number that was not followed to its end could end, become any longer number, or leave the scale. The bounds are the
least and the greatest mean over all of these cases together.

Digits that longer numbers of the scale begin with, and that were not followed, count for no number: "8" may be 80. A
number that can only end or leave the scale is assumed to end. If the server can continue an answer that was begun for
the model, what follows such digits is asked, the weightiest first, see :func:`unfollowed`.

A tokenizer has a token for each digit, or a token for each number, which then ends by itself, as in
:mod:`audit.asking.elicitation.numbers`. It is assumed to be of the second kind if the likeliest tokens include some of
several digits. A single digit then ends by itself if such a token begins with it. What was seen comes before this: if
digits follow a number, as "00" follows "1", that is read, and numbers of as many digits do not end by themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.engines.base import TopTokens
from stimuli.prompts import Scale

Path: TypeAlias = tuple[str, ...]  # the texts of an answer's tokens, from its beginning
Seen: TypeAlias = Mapping[Path, Mapping[str, float]]
"""The likeliest tokens after each beginning that was asked about, including the empty one."""
_BEGUN: Final = re.compile(r" ?([0-9]*)")  # may still become a number: nothing, a space, or digits after one
_SEVERAL: Final = re.compile(r" ?([0-9]{2,})")
_DIGITS: Final = re.compile(r"[0-9]+")
_GO_ON: Final = 0.05  # probability of digits after a number from which such numbers do not end by themselves
_ENDED: Final = re.compile(r" ?([0-9]+)[^0-9]")
_HOPELESS: Final = 3  # give up on an answer if what no question can settle exceeds this many times the limit


class Loose(NamedTuple):
    """Mass that may be on any numbers of a range, or on none."""

    mass: float
    low: int  # the least number of the scale that it may be on
    high: int
    likely: int | None  # the number that it is counted for; None if for none
    path: Path | None = None  # the beginning to ask after to find out where it is; None if no question tells


@dataclass(frozen=True)
class Bounded:
    """What is known of one answer's distribution."""

    distribution: npt.NDArray[np.float64]  # shape (n,): the mass seen on each number of the scale
    lowest: float  # bounds of the mean over numbers, in points; NaN if there is no number at all
    highest: float
    loose: tuple[Loose, ...] = ()  # mass whose number is uncertain

    def mean(self, scale: Scale) -> float:
        """Return the mean over the scale's numbers, in points; NaN if no number has mass."""
        total = float(self.distribution.sum())
        numbers = np.arange(scale.low, scale.high + 1)
        return float(self.distribution @ numbers) / total if total > 0 else float("nan")

    def off(self, scale: Scale) -> float:
        """Return how far the mean could be off, in points: inf if nothing is known, NaN if there is no number."""
        mean = self.mean(scale)
        if np.isnan(mean):
            return float("nan") if np.isnan(self.lowest) else float("inf")
        return max(self.highest - mean, mean - self.lowest, 0.0)


def seen_of(top: TopTokens) -> dict[Path, Mapping[str, float]]:
    """Map each beginning of a written answer to the likeliest tokens after it."""
    return {top.written[:place]: table for place, table in enumerate(top.tables)}


def read_seen(seen: Seen, scale: Scale) -> Bounded:
    """Read the distribution over the scale's numbers from tokens seen after several beginnings of an answer."""
    spelling = _Spelling.of(seen, scale)
    known = np.zeros(scale.high - scale.low + 1)
    loose: list[Loose] = []
    left: list[tuple[Path, float]] = [((), 1.0)]
    while left:
        path, mass = left.pop()
        table, before = seen[path], "".join(path)
        beyond = mass * max(0.0, 1.0 - math.fsum(table.values()))
        if beyond > 0 and spelling.ends(before):
            _count(path, beyond, spelling, known, loose)
        elif beyond > 0 and (reached := spelling.reached(before)):
            loose.append(Loose(beyond, reached[0], reached[-1], None))
        for token, probability in table.items():
            after, own = (*path, token), mass * probability
            if token and after in seen and spelling.reached(before + token):
                left.append((after, own))
            elif own > 0:
                _count(after, own, spelling, known, loose)
    certain = known.copy()
    for each in loose:
        if each.likely is not None:
            known[each.likely - scale.low] += each.mass
    lowest, highest = bounds(certain, loose, scale.low)
    return Bounded(known, lowest, highest, tuple(loose))


def unfollowed(known: Bounded, scale: Scale, max_points: float) -> list[Path]:
    """List the beginnings to ask after, so that the mean is known within ``max_points``; empty if asking cannot help.

    The influence of loose mass on the mean is at most its share times its distance. The least influential beginnings
    are left out as long as all that stays open is within the limit.
    """
    if known.off(scale) <= max_points:
        return []
    mean = known.mean(scale)
    mean = (scale.low + scale.high) / 2 if np.isnan(mean) else mean
    total = float(known.distribution.sum()) + sum(each.mass for each in known.loose if each.likely is None)
    weights = sorted(
        (each.mass * max(abs(each.high - mean), abs(each.low - mean)) / total, each.path or ()) for each in known.loose
    )
    left_open = sum(weight for weight, path in weights if not path)
    if left_open > _HOPELESS * max_points:
        return []
    asked = []
    for weight, path in weights:
        if path:
            left_open += weight
            if left_open > max_points / 2:
                asked.append(path)
    return asked or [path for _, path in weights[-1:] if path]


@dataclass(frozen=True)
class _Spelling:
    """How a tokenizer spells the scale's numbers, as far as the seen tokens show."""

    scale: Scale
    begun: frozenset[str]  # first digits of number tokens: such digits end by themselves
    several: bool  # whether any token has several digits
    go_on: frozenset[int]  # how many digits numbers have that digits were seen to follow

    @classmethod
    def of(cls, seen: Seen, scale: Scale) -> _Spelling:
        told = {token for table in seen.values() for token in table}
        numbers = {matched[1] for matched in map(_SEVERAL.fullmatch, told) if matched}
        go_on = {
            len(begun[1])
            for path, table in seen.items()
            if (begun := _BEGUN.fullmatch("".join(path))) and begun[1]
            if math.fsum(p for token, p in table.items() if _DIGITS.fullmatch(token)) > _GO_ON
        }
        return cls(scale, frozenset(number[0] for number in numbers), bool(numbers), frozenset(go_on))

    def reached(self, text: str) -> list[int]:
        """Return the numbers of the scale that begin with a text, including the number itself."""
        matched = _BEGUN.fullmatch(text)
        if matched is None:
            return []
        low, high = self.scale.low, self.scale.high
        return [number for number in range(low, high + 1) if str(number).startswith(matched[1])]

    def ends(self, text: str) -> bool:
        """Whether the digits of a text end by themselves."""
        matched = _BEGUN.fullmatch(text)
        digits = matched[1] if matched else ""
        longer = any(len(str(number)) > len(digits) for number in self.reached(text))
        told = bool(digits) and self.several and len(digits) not in self.go_on
        return told and (len(digits) > 1 or digits in self.begun or not longer)

    def number(self, digits: str) -> int | None:
        """Return the number of the scale that digits spell; None if they spell none: "07" is not 7."""
        own = int(digits) if digits and digits == str(int(digits)) else None
        return own if own is not None and self.scale.low <= own <= self.scale.high else None


def _count(path: Path, mass: float, spelling: _Spelling, known: npt.NDArray[np.float64], loose: list[Loose]) -> None:
    """Count a token after which nothing was seen."""
    text, low = "".join(path), spelling.scale.low
    begun, ended = _BEGUN.fullmatch(text), _ENDED.match(text)
    digits = begun[1] if begun else ended[1] if ended else ""
    number = spelling.number(digits)
    # An empty text is a mark or part of a letter, not a digit; or the number ended before this token did: "7.".
    if not path[-1] or begun is None or spelling.ends(text):
        if number is not None:
            known[number - low] += mass
        return
    reached = spelling.reached(text)
    if reached:
        only = number if reached == [number] else None
        loose.append(Loose(mass, reached[0], reached[-1], only, path if digits else None))


def bounds(certain: npt.NDArray[np.float64], loose: Iterable[Loose], low: int) -> tuple[float, float]:
    """Return the least and the greatest mean that partly loose mass can have, in points; NaN if there is no mass.

    ``certain`` has shape (n,): the mass of the numbers from ``low`` up. Any part of a ``loose`` mass may be on any
    number of its range.

    Notes
    -----
    A mean moves farthest if it includes all mass beyond it and no other. So loose mass is added from the farthest end
    inwards, as long as it lies beyond the mean.
    """
    numbers = low + np.arange(len(certain), dtype=np.float64)
    total, points = float(certain.sum()), float(certain @ numbers)
    loose = list(loose)

    def farthest(ends: list[tuple[float, float]], sign: int) -> float:
        mass, sum_ = total, points
        for end, own in sorted(ends, key=lambda each: -sign * each[0]):
            if mass > 0 and sign * (end - sum_ / mass) <= 0:
                break
            mass, sum_ = mass + own, sum_ + own * end
        return sum_ / mass if mass > 0 else float("nan")

    return farthest([(each.low, each.mass) for each in loose], -1), farthest(
        [(each.high, each.mass) for each in loose], 1
    )
