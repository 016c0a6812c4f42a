"""What a worker is inside: it opens the model, and does one job after another."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

from audit.asking.workers.base import Do
from audit.asking.workers.pool import Answered, Event, Raised
from audit.configuration.schema import EngineConfig, ModelConfig
from audit.engines.base import Done, OpenModel
from audit.errors import AuditError


@dataclass(frozen=True)
class Opening:
    """What a worker opens.

    Attributes
    ----------
    model, engine, seed, writes
        As of :func:`audit.engines.open.open_model`.
    shared
        What all jobs share.
    """

    model: ModelConfig
    engine: EngineConfig
    seed: int
    writes: bool
    shared: object

    def open(self) -> OpenModel:
        """Open the model.

        Raises
        ------
        ModelError
            If it cannot be opened.
        """
        from audit.engines.open import open_model

        return open_model(self.model, self.engine, seed=self.seed, writes=self.writes)


def do_job(number: int, do: Do, shared: object, model: OpenModel, done: Done) -> Event:
    """Do a job, and return what is told of its end.

    What is the user's to mend, and what an engine cannot do, is told. Any other error is one after which neither the
    engine nor its device can be trusted to answer right: it ends the worker.
    """
    try:
        model.engine.forget()
        return Answered(number, do(shared, model, done))
    except (AuditError, NotImplementedError) as error:
        return Raised(number, told(error))


def told(error: Exception) -> Exception:
    """Return an error as it can be told to another process: itself, or one of its kind with its words."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    if type(again) is type(error) and str(again) == str(error):
        return error
    kind: Callable[[str], Exception] = NotImplementedError if isinstance(error, NotImplementedError) else AuditError
    return kind(str(error))
