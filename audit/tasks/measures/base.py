"""What a measure of a written reply is, and the protocol of what scores replies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Reply:
    """A written reply, and what a measure may read beside it.

    Attributes
    ----------
    text
        The reply, as the model wrote it.
    narrative
        What it replies to, as the model was shown it.
    narrative_id
        The narrative, unique within its source.
    emotion
        The narrative's own emotion, as its source names it.
    dimension
        What perceiver and experiencer differ in.
    perceiver, experiencer
        Wording of the two identities.
    """

    text: str
    narrative: str = ""
    narrative_id: str = ""
    emotion: str = ""
    dimension: str = ""
    perceiver: str = ""
    experiencer: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that is taken of each reply.

    Attributes
    ----------
    name
        The column, e.g. ``eq_perspective``: lower-case letters, digits and underscores.
    title
        What a reader sees.
    unit
        Of the number, e.g. ``probability`` or ``words``.
    better
        Which way is more empathic, or better written; ``neither`` where no way is.
    source
        Where the formula is from.
    caution
        What the number must not be taken for; empty without.
    low, high
        The ends that the number cannot pass; infinite without.
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    source: str
    caution: str = ""
    low: float = -math.inf
    high: float = math.inf


def described(measure: Measure) -> dict[str, Any]:
    """Return a measure as plain values; an end that is not there is None."""
    return {name: None if value in (math.inf, -math.inf) else value for name, value in asdict(measure).items()}


class Scorer(Protocol):
    """Takes one or several measures of replies."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What it takes, in the order of the columns of :meth:`score`."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What tells two scorers apart, as plain values: model, revision, files, templates, patterns."""
        ...

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, n_measures); NaN where a reply has no such number, never 0 in its place.

        A reply's numbers do not depend on the other replies of the call, nor on their order, up to rounding.
        """
        ...


@runtime_checkable
class Counting(Protocol):
    """A scorer that counts what a reader of its numbers must know."""

    @property
    def counts(self) -> Mapping[str, Mapping[str, float]]:
        """What happened, and how often, since the scorer was made: by measure, ``""`` being all of the scorer's.

        ``cut``, texts of which it read the beginning alone; of a judge ``rated``, ``refused``, ``unparseable`` and
        ``failed`` questions, ``blank`` replies, and ``mass``, the sum of the probability on the scale's numbers over
        ``with_mass`` answers.
        """
        ...
