"""A distribution over the scale's numbers as far as the likeliest tokens tell it, and how far its mean could be off.

A server that tells the likeliest tokens at each place of one answer leaves much unseen: the tokens beyond them, and
what would have followed those that were not written. So the mean is known within bounds. What is seen of a number
counts for it: a number whose end was not seen is taken to end there. What is not seen could be anything that is
possible: a token beyond the likeliest could begin any number that goes on from there, or none; a number that was not
followed to its end could end, go on to any longer one, or to none of the scale. The bounds are the least and the
greatest mean over all of these together.

Where the likeliest tokens hold numbers of several digits, the tokenizer has a token for each number, and a number then
ends by itself, as in :mod:`audit.elicitation.numbers`. Where they hold none, it is taken to have one for each
digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from audit.engines.base import TopTokens
from stimuli.prompts import Scale

_BEGUN: Final = re.compile(r" ?([0-9]*)")
"""What an answer is that may still become a number: nothing, a space, or digits after one space at most."""
_SEVERAL: Final = re.compile(r" ?[0-9]{2,}")


class Loose(NamedTuple):
    """Mass that may be on any numbers of a range, or on none.

    Attributes
    ----------
    mass
        A probability.
    low, high
        The least and the greatest number of the scale that it could be on.
    likely
        The number that it is taken to be on; None where it is taken to be on none.
    """

    mass: float
    low: int
    high: int
    likely: int | None


@dataclass(frozen=True)
class Bounded:
    """What is known of one answer's distribution.

    Attributes
    ----------
    distribution
        Shape (n,): the mass of each number of the scale, as far as it was seen.
    lowest, highest
        Bounds of the mean over numbers, in points; NaN where there is no number at all.
    unseen
        The mass of the first tokens beyond the likeliest.
    """

    distribution: npt.NDArray[np.float64]
    lowest: float
    highest: float
    unseen: float


def read_bounded(top: TopTokens, scale: Scale) -> Bounded:
    """Read the distribution over a scale's numbers of one answer's likeliest tokens.

    Parameters
    ----------
    top
        The tokens, from the answer's beginning.
    scale
        Whose whole numbers are read.
    """
    known = np.zeros(scale.high - scale.low + 1)
    whole = any(_SEVERAL.fullmatch(token) for table in top.tables for token in table)
    loose: list[Loose] = []
    unseen = 1.0
    before, mass = "", 1.0
    for place, (token, table) in enumerate(zip(top.written, top.tables, strict=True)):
        goes_on = place + 1 < len(top.tables)
        beyond = mass * max(0.0, 1.0 - sum(table.values()))
        if place == 0:
            unseen = beyond
        loose += _range(before, beyond, scale, likely=False)
        for other, probability in table.items():
            if other == token and goes_on and _may_go_on(before + other, scale, whole=whole):
                continue
            _count(before, other, mass * probability, scale, known, loose, whole=whole)
        if not (goes_on and _may_go_on(before + token, scale, whole=whole)):
            break
        mass *= table.get(token, 0.0)
        before += token
    for each in loose:
        if each.likely is not None:
            known[each.likely - scale.low] += each.mass
    lowest, highest = bounds(_certain(known, loose, scale), loose, scale.low)
    return Bounded(known, lowest, highest, unseen)


def _certain(known: npt.NDArray[np.float64], loose: Iterable[Loose], scale: Scale) -> npt.NDArray[np.float64]:
    """Return the mass that is on its numbers for certain: without what is only taken to be there."""
    certain = known.copy()
    for each in loose:
        if each.likely is not None:
            certain[each.likely - scale.low] -= each.mass
    return np.maximum(certain, 0.0)


def _count(
    before: str,
    token: str,
    mass: float,
    scale: Scale,
    known: npt.NDArray[np.float64],
    loose: list[Loose],
    *,
    whole: bool,
) -> None:
    """Count a token that nothing was seen to follow."""
    text = before + token
    if _BEGUN.fullmatch(text):
        number = text.strip()
        if whole and number and scale.low <= int(number) <= scale.high and _spelt(number):
            known[int(number) - scale.low] += mass
        else:
            loose += _range(text, mass, scale, likely=True)
        return
    ended = re.match(r" ?([0-9]+)[^0-9]", text)
    # A number that ended before this token did: "7" of "7.", and of " 7 points".
    if ended and _spelt(ended[1]) and scale.low <= int(ended[1]) <= scale.high:
        known[int(ended[1]) - scale.low] += mass


def _range(text: str, mass: float, scale: Scale, *, likely: bool) -> Iterator[Loose]:
    """Yield mass that follows a text, on whatever numbers can go on from there; nothing where none can."""
    if mass <= 0:
        return
    matched = _BEGUN.fullmatch(text)
    assert matched is not None
    reached = [number for number in range(scale.low, scale.high + 1) if str(number).startswith(matched[1])]
    if reached:
        own = int(matched[1]) if matched[1] and _spelt(matched[1]) else None
        ends = likely and own is not None and scale.low <= own <= scale.high
        yield Loose(mass, reached[0], reached[-1], own if ends else None)


def _may_go_on(text: str, scale: Scale, *, whole: bool) -> bool:
    """Say whether what follows a text may still say which number it is."""
    matched = _BEGUN.fullmatch(text)
    if matched is None or (whole and matched[1]):
        return False
    return any(str(number).startswith(matched[1]) for number in range(scale.low, scale.high + 1))


def _spelt(digits: str) -> bool:
    """Whether digits are how a number is spelt: "07" is none of the scale's."""
    return digits == str(int(digits))


def bounds(certain: npt.NDArray[np.float64], loose: Iterable[Loose], low: int) -> tuple[float, float]:
    """Return the least and the greatest mean that mass of which some is loose can have; NaN where there is none.

    Parameters
    ----------
    certain
        Shape (n,): mass of the numbers from ``low`` up.
    loose
        Mass of which any part may be on any number of its range.
    low
        The scale's lowest number.

    Notes
    -----
    The mean of a mixture is moved most by all of what lies beyond it and nothing of what does not: so loose mass is
    taken from the farthest end on, as long as it lies beyond the mean.
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
