"""What an elicitation returns for one prompt, and the protocol of elicitations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.engines.base import Done, Engine, unwatched
from audit.tables.ratings import Status
from stimuli.prompts import Prompt


@dataclass(frozen=True, slots=True)
class ElicitedRating:
    """The outcome of one prompt; its fields are columns of the ratings table."""

    status: Status
    intensity: float = math.nan
    response: str = ""
    number_mass: float = math.nan
    mode: float = math.nan
    spread: float = math.nan
    pruned_points: float = math.nan
    n_prompt_tokens: int | None = None
    cut: bool | None = None
    """Whether the response stopped at its length limit; None if there was no response or the engine did not tell."""


class Elicitation(Protocol):
    """Elicits ratings from an engine."""

    @property
    def room(self) -> int:
        """The most tokens that an answer may take."""
        ...

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[ElicitedRating]:
        """Return one outcome for each prompt, in order; ``done`` is told how many more have been answered."""
        ...
