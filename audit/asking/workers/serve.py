"""What a worker runs: it opens the model and does one job after another."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

from audit.asking.workers.base import Do
from audit.asking.workers.pool import Event, JobDone, Raised
from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import Done, OpenModel
from audit.errors import AuditError


@dataclass(frozen=True)
class Opening:
    """What a worker needs to open the model (the arguments of ``open_model``); ``shared`` is passed to all jobs."""

    model: ModelConfig
    engine: EngineConfig
    seed: int
    writes: bool
    shared: object

    def open(self) -> OpenModel:
        """Open the model."""
        from audit.engines.open import open_model

        model = open_model(self.model, self.engine, seed=self.seed, writes=self.writes)
        model.say_checked()
        return model


def do_job(number: int, do: Do, shared: object, model: OpenModel, done: Done) -> Event:
    """Run a job and return its outcome.

    After an error that is neither the user's to fix nor an engine's limit, the engine and its device may answer
    wrongly, so it ends the worker.
    """
    try:
        model.engine.forget()
        return JobDone(number, do(shared, model, done))
    except (AuditError, NotImplementedError) as error:
        return Raised(number, told(error))


def told(error: Exception) -> Exception:
    """Make an error picklable: the error itself, or one of its kind with the same message."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    if type(again) is type(error) and str(again) == str(error):
        return error
    kind: Callable[[str], Exception] = NotImplementedError if isinstance(error, NotImplementedError) else AuditError
    return kind(str(error))
