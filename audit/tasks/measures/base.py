"""Measures of written replies, and the protocol of scorers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig

CHANGE: Final = "{}_change"  # the name of a measure's change over a talk


@dataclass(frozen=True, slots=True)
class Reply:
    """A written reply, with everything else that a measure may read."""

    text: str
    narrative: str = ""  # as the model was shown it
    narrative_id: str = ""  # unique within the narrative's source
    emotion: str = ""  # the narrative's own, as its source names it
    dimension: str = ""
    perceiver: str = ""
    experiencer: str = ""
    prompt_index: int = -1  # its place in the run, if it is of one


@dataclass(frozen=True, slots=True)
class Measure:
    """One number taken of each reply."""

    name: str  # the column, e.g. eq_perspective: lower-case letters, digits and underscores
    title: str
    unit: str  # e.g. `probability` or `words`
    better: Literal["higher", "lower", "neither"]  # which direction is more empathic, or better written
    source: str  # of the formula
    caution: str = ""  # what the number must not be taken for
    low: float = -math.inf  # bounds of the number; infinite if it has none
    high: float = math.inf


def of_turn(measure: str, turn: int) -> str:
    """Return the name under which a measure of one turn of a talk is kept; turns count from 1."""
    return f"{measure}_turn_{turn}"


def change_of(measure: Measure) -> Measure:
    """Return the change of a measure over a talk: of the last reply less of the first."""
    width = measure.high - measure.low
    return replace(
        measure,
        name=CHANGE.format(measure.name),
        title=f"{measure.title}: change over the talk",
        source=f"{measure.source}; of the last reply less of the first",
        low=-width,
        high=width,
    )


def measure_facts(measure: Measure) -> dict[str, Any]:
    """Return a measure as plain values; an infinite bound is None."""
    return {name: None if value in (math.inf, -math.inf) else value for name, value in asdict(measure).items()}


class Scorer(Protocol):
    """Takes one or several measures of replies."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Its measures, in the order of the columns of :meth:`score`."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that tells two scorers apart, as plain values: model, revision, files, templates, patterns."""

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, n_measures); NaN if a reply has no such number, never 0.

        A reply's numbers do not depend on the other replies of the call or on their order, up to rounding.
        """


@runtime_checkable
class Marking(Protocol):
    """A scorer that also finds the words of a reply that a number rests on: its rationale."""

    @property
    def marks(self) -> bool:
        """Whether it finds any; one that may need not."""

    def score_and_mark(
        self, replies: Sequence[Reply]
    ) -> tuple[npt.NDArray[np.float64], list[tuple[int, str, int, int]]]:
        """Return :meth:`Scorer.score`, and of each rationale: the reply's place, the measure, and the characters."""


@runtime_checkable
class Counting(Protocol):
    """A scorer that also counts events that readers of its numbers must know."""

    @property
    def counts(self) -> Mapping[str, Mapping[str, float]]:
        """Events since the scorer was made, by measure; ``""`` stands for all of the scorer's measures.

        ``cut`` counts texts read only in part. A judge counts ``rated``, ``refused``, ``unparseable`` and ``failed``
        questions, ``blank`` replies, and ``mass``, the sum of the probability on the scale's numbers over ``with_mass``
        answers.
        """


@dataclass(frozen=True)
class Wanted:
    """A scorer that the configuration asks for."""

    name: str  # among measures.names
    asked: dict[str, Any]  # everything in the configuration that its numbers depend on, as plain values
    open: Callable[[], Scorer]  # loads it; ModelError if it cannot be used
    absent: str = ""  # why it cannot be used, as far as is known without opening it
    # finds out whether it can be opened, where opening it before the model is asked would cost too much
    check: Callable[[], object] | None = None


def reading(config: MeasuresConfig) -> dict[str, Any]:
    """Return how classifiers read texts, which alters no number but by rounding."""
    return {"device": config.device, "batch_size": config.batch_size, "download": config.download}
