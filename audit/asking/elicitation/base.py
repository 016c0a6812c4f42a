"""The protocol of elicitations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from audit.engines.base import Done, Engine, unwatched
from audit.tables.ratings import ElicitedRating
from stimuli.prompts import Prompt


class Elicitation(Protocol):
    """Elicits ratings from an engine."""

    @property
    def room(self) -> int:
        """The most tokens that an answer may take."""

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[ElicitedRating]:
        """Return one outcome for each prompt, in order; ``done`` is told how many more have been answered."""
