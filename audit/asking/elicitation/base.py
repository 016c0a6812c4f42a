"""What an elicitation gives for one prompt, and the protocol of the two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.engines.base import Done, Engine, unwatched
from audit.tables.ratings import Status
from stimuli.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Elicited:
    """What became of one prompt; the fields are columns of the ratings table."""

    status: Status
    intensity: float = math.nan
    response: str = ""
    number_mass: float = math.nan
    mode: float = math.nan
    spread: float = math.nan
    pruned_points: float = math.nan
    n_prompt_tokens: int | None = None
    cut: bool | None = None
    """Whether the response stopped at the limit of its length; None where none was written, or nothing said so."""


class Elicitation(Protocol):
    """Gets ratings from an engine."""

    @property
    def room(self) -> int:
        """Tokens that an answer may take."""
        ...

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[Elicited]:
        """Return one outcome a prompt, in their order; ``done`` is told how many more have been answered."""
        ...
