"""Which tests a gate takes, by a number that its commit draws: a 16th of the simulations, an 8th of the long files."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Collection, Mapping

import pytest

SHARE = 1 / 16
LONG = 5
"""Seconds of a file's tests beyond `make test` from which on a gate takes an eighth of such files."""


def chosen(names: Collection[str], asked: str) -> set[str]:
    """Return those of the names that are asked for by ``all``, ``none`` or the seed of a draw.

    The order of the names is of no account: all workers of pytest-xdist must take the same.
    """
    if asked == "all":
        return set(names)
    if asked == "none":
        return set()
    return set(random.Random(int(asked)).sample(sorted(names), math.ceil(SHARE * len(names))))


def left_for_another_gate(took: Mapping[str, float], asked: str) -> set[str]:
    """Return the long files that a number does not draw: seven of each eight that follow each other in length."""
    if asked in ("all", "none"):
        return set()
    long = sorted((name for name, each in took.items() if each >= LONG), key=lambda name: (-took[name], name))
    draw = random.Random(int(asked))
    eights = [long[k : k + 8] for k in range(0, len(long), 8)]
    return {each for eight in eights for each in draw.sample(eight, len(eight) * 7 // 8)}


def draw_of(item: pytest.Item) -> str:
    """Return what a simulation is drawn by: its own name, or one that it shares with all that need the same set-up."""
    mark = item.get_closest_marker("simulation")
    assert mark is not None
    return str(mark.kwargs.get("together", item.nodeid))


def what_to_run(given: str) -> str:
    """Read what ``--simulations`` is given; what is neither ``all``, ``none`` nor a number is an error of argparse."""
    if given not in ("all", "none") and not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given}: give all, none, or a number, which draws a sixteenth of them")
    return given
