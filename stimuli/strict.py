"""A model of a file that a user may write: no key that it does not know, and nothing changed afterwards."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Refuses unknown keys; frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)
