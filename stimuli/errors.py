"""The error that every fault of the stimuli ends in, and the suggestion it carries."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StimulusError(ValueError):
    """A user's stimuli cannot be used: the message names the value, the place and the remedy."""


def suggest(name: str, options: Iterable[str]) -> str:
    """Return ``did you mean 'x'? `` or an empty string, then the options there are.

    Parameters
    ----------
    name
        What the user wrote.
    options
        What would have been accepted there.

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
