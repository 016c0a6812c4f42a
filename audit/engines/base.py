"""The interface of engines, so that all of them are asked the same prompts and fill the same tables.

Every engine takes conversations and writes texts. Token probabilities need a :class:`TokenReader`, which
:func:`token_reader` returns, or an error in one line. Files, hashes, chat templates and token ids belong to the engines
that have them, see :mod:`audit.engines.local`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from audit.engines.chat import ChatTokenizer
from audit.engines.next_tokens import ImpossibleError, NextTokens, check_probabilities
from audit.errors import ModelError
from stimuli.prompts import Prompt

TokenIds: TypeAlias = Sequence[int]
Done: TypeAlias = Callable[[int], None]  # called with the number of further prompts answered


def unwatched(n_prompts: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class EngineFacts:
    """What is recorded of an engine: enough to tell two engines' ratings apart."""

    name: str
    version: str
    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Generated:
    """What a model wrote after one prompt."""

    text: str | None  # without special tokens; None if the engine gave none
    n_tokens: int  # including the one that ends the text
    cut: bool | None  # whether the text stopped at max_tokens instead of its own end; None if unknown
    n_prompt_tokens: int | None = None  # None if not asked or not reported
    refused: bool = False  # whether a server says that the request was declined, whatever the text


def storable(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates, which JSON may have, are replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Engine(Protocol):
    """Runs one model.

    Answers depend only on the prompts of one call and on nothing before it, so that an interrupted run gives the same
    ratings as an uninterrupted one.
    """

    @property
    def facts(self) -> EngineFacts:
        """Name, version, device and number format."""

    def forget(self) -> None:
        """Drop all caches of earlier prompts; called before each shard."""

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """Compute in another number format for a while, then restore the weights exactly; ModelError if it cannot."""

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """Return for each prompt whether it and ``room`` answer tokens fit into the model's context."""

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        done: Done = unwatched,
    ) -> list[Generated]:
        """Return what the model writes after each prompt; a prompt that is too long is not asked and gets no text.

        A sampled text depends only on its prompt, its seed and these settings: not on other prompts in the call, nor on
        the order. As at temperature 0, this holds up to the rounding of logits, whose last bits may depend on the
        batch. Two engines draw different texts from one seed.

        The beginning given to an answer is not part of the text. ``max_tokens`` includes the token that ends it. Above
        temperature 0, tokens are drawn from softmax(logits / temperature), among the smallest set of likeliest tokens
        with probability ``top_p``, by one seed a prompt (:func:`sampling_seeds`).
        """

    def close(self) -> None:
        """Free the model's resources."""


class Tokenises(Protocol):
    """Has its model's tokenizer."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The model's tokenizer and chat template."""

    @property
    def max_model_len(self) -> int:
        """Most tokens of prompt and response together."""


@runtime_checkable
class TokenReader(Tokenises, Protocol):
    """Reads the probabilities of tokens."""

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """Yield readings that together have every prompt once; a reading ends when the next one is requested.

        The engine chooses which prompts to read together, and caches them as long as their reading lasts: a later
        question about a prompt costs little more than the question's own tokens. No prompt may be empty.
        """


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The likeliest tokens at each position of an answer."""

    written: tuple[str, ...]  # the likeliest token at each position, as text; empty if the request was declined
    tables: tuple[Mapping[str, float], ...]  # checked probabilities of the likeliest tokens at each position, by text
    n_prompt_tokens: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(map(NextTokens, self.tables)))


@runtime_checkable
class TopReader(Protocol):
    """Reads the probabilities of the likeliest tokens only."""

    def top(self, prompts: Sequence[Prompt], *, n_tokens: int, done: Done = unwatched) -> list[TopTokens | None]:
        """Return the likeliest tokens at the first positions of each answer; None for a prompt without an answer."""


@runtime_checkable
class GoesOn(Protocol):
    """May continue an answer that is begun for the model, and then returns the likeliest tokens after it."""

    def goes_on(self, prompts: Sequence[Prompt], tops: Sequence[TopTokens | None]) -> bool:
        """Whether it does, as far as the answers to these prompts show; ``tops`` is from :meth:`TopReader.top`."""

    def top_after(
        self, prompts: Sequence[Prompt], tops: Sequence[TopTokens], begun: Sequence[tuple[str, ...]]
    ) -> list[TopTokens | None]:
        """Return the likeliest tokens after each prompt and its ``begun`` tokens; None if there is no such answer."""


class AnswerStore(Protocol):
    """Stores answers until the part of a run that they belong to is complete."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the answer stored under a name, or None."""

    def put(self, name: str, answer: Mapping[str, Any]) -> None:
        """Store an answer."""


@runtime_checkable
class Keeps(Protocol):
    """An engine whose answers are worth storing one by one."""

    def keep_in(self, kept: AnswerStore | None) -> None:
        """Store answers in ``kept`` as they come, and reuse those there; None stores none."""


@runtime_checkable
class AnswersOfRun(Protocol):
    """An engine whose answers exist already: one for each prompt of a run, also for equal prompts."""

    def at(self, places: Sequence[int]) -> None:
        """Announce the indices of the prompts to be asked next, together and in this order."""


class CachedPrompts(Protocol):
    """Prompts that an engine has in its cache."""

    @property
    def places(self) -> Sequence[int]:
        """Indices into the prompts of :meth:`TokenReader.read`."""

    def probabilities(self, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds) -> list[npt.NDArray[np.float64]]:
        """Return the probabilities of k ≤ 128 given tokens after each prompt and each of its tails, at temperature 1.

        Shape (n_tails, k) for each prompt. Tails must be distinct; the empty one asks after the prompt itself.
        """


class ModelSource(Protocol):
    """A model's identity beyond its name, as the engine that runs it knows it."""

    @property
    def revision(self) -> str | None:
        """The hub's commit or an equivalent; None if there is none."""

    def facts(self) -> dict[str, Any]:
        """Return facts for the manifest besides the revision: plain values that do not change with time."""

    def states(self) -> Sequence[str] | None:
        """Return the state fingerprints that a server has reported; None without a server."""

    def identity(self) -> dict[str, Any]:
        """Return what ratings depend on: a run continues only with an identical model."""


@dataclass(frozen=True)
class Known:
    """A loaded model's facts for the manifest, whichever process loaded it."""

    facts: EngineFacts
    source: ModelSource
    why: str
    checked: str = ""


@dataclass(frozen=True)
class OpenModel:
    """A loaded model; ``why`` says in words why it has this engine and number format, ``checked`` what it proved."""

    engine: Engine
    source: ModelSource
    why: str = ""
    checked: str = ""  # see audit.engines.proof
    apart: tuple[float, ...] = ()  # largest differences found there, as shares of the largest probability

    def say_checked(self) -> None:
        """Print what was checked, for the log of a run; nothing of an engine that proves nothing."""
        if self.checked:
            off = f" (differences: {', '.join(f'{each:.1g}' for each in self.apart)})" if self.apart else ""
            print(f"checked: {self.checked}{off}", file=sys.stderr)

    @property
    def known(self) -> Known:
        """What the manifest needs; valid after the model is closed."""
        return Known(self.engine.facts, self.source, self.why, self.checked)


def token_reader(engine: Engine, *, remedy: str) -> TokenReader:
    """Return the engine as a token reader, or raise ModelError with the remedy, e.g. ``use elicitation=generate``."""
    if isinstance(engine, TokenReader):
        return engine
    raise ModelError(f"engine={engine.facts.name} writes text but does not return token probabilities; {remedy}")


def encode_prompts(asked: Tokenises, prompts: Sequence[Prompt], *, room: int) -> list[list[int] | None]:
    """Return each prompt's token ids; None if prompt and ``room`` answer tokens exceed the model's context."""
    encoded = asked.tokenizer.encode_prompts(prompts)
    return [ids if len(ids) + room <= asked.max_model_len else None for ids in encoded]


def read_probabilities(
    reading: CachedPrompts, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
) -> list[npt.NDArray[np.float64]]:
    """Return :meth:`CachedPrompts.probabilities` of distinct tokens; raise ModelError if they are impossible."""
    tables = reading.probabilities(tails, token_ids)
    try:
        return [check_probabilities(table) for table in tables]
    except ImpossibleError as error:
        raise ModelError(
            f"the engine returned invalid probabilities ({error}): its number format may be too coarse; use "
            "model.dtype=float32, or elicitation=generate"
        ) from error


def next_token_probabilities(
    reader: TokenReader, prompts: Sequence[TokenIds], tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
) -> list[npt.NDArray[np.float64]]:
    """Return :meth:`CachedPrompts.probabilities` of all prompts, in order, if one question suffices."""
    found: list[npt.NDArray[np.float64]] = [np.empty((0, len(token_ids)))] * len(prompts)
    for reading in reader.read(prompts):
        tables = read_probabilities(reading, [tails[place] for place in reading.places], token_ids)
        for place, table in zip(reading.places, tables, strict=True):
            found[place] = table
    return found


def sampling_seeds(
    n_prompts: int, *, temperature: float, top_p: float, seeds: Sequence[int] | None
) -> list[int] | None:
    """Check the settings of :meth:`Engine.write` and return the seeds, 0 to below 2^63; None at temperature 0."""
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature={temperature}: must be at least 0")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p}: must be above 0 and at most 1")
    if temperature == 0:
        return None
    if seeds is None or len(seeds) != n_prompts:
        given = "no" if seeds is None else len(seeds)
        raise ValueError(
            f"temperature={temperature} needs a seed for each of {n_prompts} prompts; there are {given} seeds"
        )
    checked = [int(seed) for seed in seeds]
    for seed in checked:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed {seed}: must be at least 0 and below 2^63")
    return checked
