"""The error that every fault of the stimuli ends in, and the suggestion it carries."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 3  # faults of further rows that are told with the first


class StimulusError(ValueError):
    """A user's stimuli cannot be used: the message names the value, the place and the remedy."""


def in_one_line(error: object) -> str:
    """Return the whole message of an error in one line."""
    return " ".join(str(error).split())


def suggest(name: str, options: Iterable[str]) -> str:
    """Return ``did you mean 'x'? `` or an empty string, then the options there are.

    Examples
    --------
    >>> suggest("relgion", ["religion", "nationality"])
    "did you mean 'religion'? there are: nationality, religion"
    """
    known = sorted(options)
    near = [each for each in known if each.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}there are: {', '.join(known)}" if known else f"{hint}there are none"


def _number_of(fault: tuple[str, str]) -> int:
    found = re.search(r"(\d+)$", fault[0])
    return int(found[1]) if found else 0


class Faults:
    """What is wrong with the rows of a file, gathered so that a user can mend all of them at once.

    The places of faults begin with ``file``, which is told once; ``error`` is raised.
    """

    def __init__(self, file: str, error: type[Exception] = StimulusError) -> None:
        self._file = file
        self._error = error
        self._said: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Say whether there is a fault."""
        return bool(self._said)

    def add(self, place: str, said: str) -> None:
        """Note what is wrong at a place; of a place the first fault is kept."""
        self._said.setdefault(place, said)

    def check(self) -> None:
        """Raise the faults in one line, if there are any: the first as a whole, the next few without their remedies.

        Examples
        --------
        >>> faults = Faults("a.csv")
        >>> faults.add("a.csv: line 2", "the text is empty; fill it")
        >>> faults.add("a.csv: line 7", "the text is empty; fill it")
        >>> faults.check()
        Traceback (most recent call last):
        stimuli.errors.StimulusError: a.csv: line 2: the text is empty; fill it; 1 more row: line 7: the text is empty
        """
        if not self._said:
            return
        (place, said), *others = sorted(self._said.items(), key=_number_of)
        raise self._error(f"{place}: {said}{self._more(others)}")

    def _more(self, others: list[tuple[str, str]]) -> str:
        if not others:
            return ""
        told = [f"{place.removeprefix(f'{self._file}: ')}: {said.partition(';')[0]}" for place, said in others[:_SHOWN]]
        rest = ["..."] if len(others) > _SHOWN else []
        return f"; {len(others):,} more row{'s' if len(others) > 1 else ''}: {'; '.join([*told, *rest])}"
