"""What a run folder must know of what a run is going to ask; each task has a plan of its own."""

from __future__ import annotations

from typing import Any, Protocol

from audit.configuration.schema import AuditConfig
from audit.runs.store import Kind
from stimuli.identities import Dimension
from stimuli.narratives import Narratives
from stimuli.prompts import PromptVariant
from stimuli.strategies import Strategy


class Grid(Protocol):
    """The prompts of a run, by their places."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Whose perceivers are asked."""

    @property
    def narratives(self) -> Narratives | None:
        """What they are told; None where nothing is."""

    @property
    def variant(self) -> PromptVariant:
        """In which wording."""

    def __len__(self) -> int:
        """Return the number of prompts."""


class Planned(Protocol):
    """What a run is going to ask, whatever its task is."""

    @property
    def config(self) -> AuditConfig:
        """What it was made of."""

    @property
    def grid(self) -> Grid:
        """The prompts."""

    @property
    def strategy(self) -> Strategy:
        """The calls of each prompt."""

    @property
    def before(self) -> tuple[str, ...]:
        """The calls of each prompt before the one for its answer, by name."""

    @property
    def room(self) -> int:
        """Tokens that an answer may take, whichever way it is got."""

    @property
    def kind(self) -> Kind:
        """What the model is asked for, and the folder that it is kept in."""

    @property
    def named(self) -> tuple[str, ...]:
        """Words for the run folder's name: the task, and what is asked about."""

    @property
    def announced(self) -> str:
        """What is asked of whom, in a line."""

    def identity(self) -> dict[str, Any]:
        """Return what makes two runs the same run, as far as it is known before the model is loaded."""

    def described(self) -> dict[str, Any]:
        """Return how an answer is got, as the manifest keeps it."""
