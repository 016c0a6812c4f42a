"""What tests of workers share."""

from __future__ import annotations

import pytest
from sharing import collect, overrides

from audit.workers.pool import Pool, Progressed


@pytest.fixture(scope="session")
def alone(tmp_path_factory, tiny_model):
    """Return a function that gives the folder of a run that one process made; not to be written to."""
    made = {}

    def run(*more):
        if more not in made:
            made[more] = tmp_path_factory.mktemp("alone") / "run"
            collect(made[more], overrides(tiny_model, *more))
        return made[more]

    return run


@pytest.fixture
def on_progress(monkeypatch):
    """Return a function that says what to do, in time, to the processes of workers that have answered some prompt."""
    acts = []
    post = Pool._post

    def watched(self, state, event):
        if isinstance(event, Progressed):
            state.pool = self
            for act in acts:
                act(state)
        post(self, state, event)

    monkeypatch.setattr(Pool, "_post", watched)
    return acts.append
