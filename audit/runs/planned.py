"""What a run folder must know of a planned run; each task has its own plan."""

from __future__ import annotations

from typing import Any, Protocol

from audit.configuration.schema import AuditConfig
from audit.runs.store import Kind
from stimuli.identities import Dimension
from stimuli.narratives import Narratives
from stimuli.prompts import PromptVariant
from stimuli.strategies import Strategy


class PromptsByIndex(Protocol):
    """The prompts of a run, by index."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The identity dimensions of the run."""

    @property
    def narratives(self) -> Narratives | None:
        """The narratives shown; None if there are none."""

    @property
    def variant(self) -> PromptVariant:
        """The prompt's wording."""

    def __len__(self) -> int:
        """Return the number of prompts."""


class Planned(Protocol):
    """A planned run of any task."""

    @property
    def config(self) -> AuditConfig:
        """The configuration it was made from."""

    @property
    def grid(self) -> PromptsByIndex:
        """The prompts."""

    @property
    def strategy(self) -> Strategy:
        """The calls of each prompt."""

    @property
    def before(self) -> tuple[str, ...]:
        """Names of each prompt's calls before the one for its answer."""

    @property
    def room(self) -> int:
        """Most tokens of an answer, however it is obtained."""

    @property
    def n_again(self) -> int:
        """How many prompts are asked once more for the noise of answers."""

    @property
    def kind(self) -> Kind:
        """What the model is asked for; also the folder's name."""

    @property
    def named(self) -> tuple[str, ...]:
        """Words for the run folder's name: the task, and what is asked about."""

    @property
    def announced(self) -> str:
        """What is asked of whom, in one line."""

    def identity(self) -> dict[str, Any]:
        """Return what makes two runs the same run, as far as known before the model is loaded."""

    def described(self) -> dict[str, Any]:
        """Return how answers are obtained, for the manifest."""
