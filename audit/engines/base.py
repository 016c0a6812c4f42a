"""The protocol that every engine keeps, so that all of them are asked the same prompts and fill the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.engines.chat import ChatTokenizer

TokenIds: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class EngineFacts:
    """What is recorded of an engine: enough to tell two engines' ratings apart."""

    name: str
    version: str
    device: str
    dtype: str


class Engine(Protocol):
    """Runs one model.

    An engine's answers depend on the prompts of one call and on nothing before it, so that a run that was
    interrupted and goes on gives the same ratings as one that was not.
    """

    @property
    def facts(self) -> EngineFacts:
        """Name, version, device and number format."""
        ...

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The model's tokenizer and chat template."""
        ...

    @property
    def max_model_len(self) -> int:
        """How many tokens prompt and response may have together."""
        ...

    def forget(self) -> None:
        """Drop whatever was cached of earlier prompts; called before each shard."""
        ...

    def generate(self, prompts: Sequence[TokenIds], *, max_tokens: int) -> list[str | None]:
        """Return the text after each prompt at temperature 0; None where the engine could give none."""
        ...

    def next_token_probabilities(
        self, prompts: Sequence[TokenIds], tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
    ) -> list[npt.NDArray[np.float64]]:
        """Return the probabilities of given tokens after each prompt and each of its tails.

        Parameters
        ----------
        prompts
            Token ids of n prompts.
        tails
            For each prompt the continuations to ask after; all tails of one call have one length, which may be 0.
        token_ids
            The k tokens asked about, at most 128.

        Returns
        -------
        list of arrays
            For each prompt shape (n_tails, k), probabilities under the full softmax at temperature 1.
        """
        ...
