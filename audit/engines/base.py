"""What an engine is asked for, so that all of them are asked the same prompts and fill the same tables.

Every engine takes conversations and writes texts. What needs more asks for more: the probabilities of tokens are read
by a :class:`TokenReader`, which :func:`token_reader` finds, or says in a line that the engine is none. Files, hashes,
chat templates and token ids are of the engines that have them, see :mod:`audit.engines.local`.
"""

from __future__ import annotations

import math
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
Done: TypeAlias = Callable[[int], None]
"""Takes how many prompts more have been answered."""


def unwatched(n_prompts: int) -> None:
    """Be told of answered prompts, and do nothing."""


@dataclass(frozen=True)
class EngineFacts:
    """What is recorded of an engine: enough to tell two engines' ratings apart."""

    name: str
    version: str
    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Generated:
    """What a model wrote after one prompt.

    Attributes
    ----------
    text
        Without special tokens; None where the engine could give none.
    n_tokens
        Tokens written, the one that ends the text among them.
    cut
        Whether the text stopped at ``max_tokens``, and not at an end of its own; None where nobody said.
    n_prompt_tokens
        Tokens that the model read; None where it was not asked, or they were not told.
    refused
        Whether a server says that the request was declined, whatever the text.
    """

    text: str | None
    n_tokens: int
    cut: bool | None
    n_prompt_tokens: int | None = None
    refused: bool = False


def storable(text: str) -> str:
    """Return a text as UTF-8 can hold it: half of a pair of surrogates, which JSON may have, is replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Engine(Protocol):
    """Runs one model.

    An engine's answers depend on the prompts of one call and on nothing before it, so that a run that was
    interrupted and goes on gives the same ratings as one that was not.
    """

    @property
    def facts(self) -> EngineFacts:
        """Name, version, device and number format."""
        ...

    def forget(self) -> None:
        """Drop whatever was cached of earlier prompts; called before each shard."""
        ...

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """Compute in another number format for a while; the weights are as they were afterwards, to the last bit.

        Parameters
        ----------
        dtype
            ``bfloat16``, ``float16`` or ``float32``.

        Raises
        ------
        ModelError
            If that is the engine's own format, or it cannot change it.
        """
        ...

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """Say of each prompt whether it and ``room`` tokens of answer are within the model's context.

        Raises
        ------
        ModelError
            If the model's chat template cannot show a prompt.
        """
        ...

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
        """Return what the model writes after each prompt; no text of one that is too long, which is not asked.

        A sampled text depends on its prompt, its seed and these settings alone: not on what else is in the call, nor on
        the order. As at temperature 0, this holds up to the rounding of logits, which a batch may alter in their last
        bits. Two engines draw different texts from one seed.

        Parameters
        ----------
        prompts
            n conversations. What an answer is begun with is no part of the text.
        max_tokens
            Length of a text, in tokens, the one that ends it among them.
        temperature
            0 takes the likeliest token at each step; above 0, tokens are drawn from softmax(logits / temperature).
        top_p
            Above temperature 0, only the smallest set of likeliest tokens that has this probability is drawn from.
        seeds
            Above temperature 0, one a prompt, see :func:`sampling_seeds`; at temperature 0 not used.
        done
            Told how many prompts more have been answered, batch by batch.

        Raises
        ------
        ValueError
            If these settings cannot be sampled with.
        ModelError
            If the model's chat template cannot show a prompt.
        """
        ...

    def close(self) -> None:
        """Free what the model takes."""
        ...


class Tokenises(Protocol):
    """What has its model's tokenizer."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The model's tokenizer and chat template."""
        ...

    @property
    def max_model_len(self) -> int:
        """How many tokens prompt and response may have together."""
        ...


@runtime_checkable
class TokenReader(Tokenises, Protocol):
    """What reads the probabilities of tokens."""

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[Reading]:
        """Yield readings that together hold every prompt once; one is over when the next one is asked for.

        The engine chooses which prompts it reads together, and keeps what it computed of them as long as their reading
        lasts: so what is asked after a prompt costs little more than its own tokens.

        Parameters
        ----------
        prompts
            Token ids of n prompts, none of them empty.
        """
        ...


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The likeliest tokens at each place of an answer.

    Attributes
    ----------
    written
        The answer's tokens, as texts: the likeliest at each place. Empty where the request was declined.
    tables
        For each of them the probabilities of the likeliest tokens at its place, by their texts; checked.
    n_prompt_tokens
        As of :class:`Generated`.
    """

    written: tuple[str, ...]
    tables: tuple[Mapping[str, float], ...]
    n_prompt_tokens: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(map(NextTokens, self.tables)))


@runtime_checkable
class TopReader(Protocol):
    """What tells the probabilities of the likeliest tokens alone."""

    def top(self, prompts: Sequence[Prompt], *, n_tokens: int, done: Done = unwatched) -> list[TopTokens | None]:
        """Return the likeliest tokens at the first places of each answer; None where a prompt was not answered.

        Parameters
        ----------
        prompts
            n conversations.
        n_tokens
            Places, at most.
        done
            Told how many prompts more have been answered.

        Raises
        ------
        ModelError
            If no probabilities are told.
        """
        ...


@runtime_checkable
class GoesOn(Protocol):
    """What may go on with an answer that is begun for the model, and then tells the likeliest tokens after it."""

    def goes_on(self, prompts: Sequence[Prompt], tops: Sequence[TopTokens | None]) -> bool:
        """Say whether it does, as far as these prompts' own answers can show it.

        Parameters
        ----------
        prompts
            n conversations.
        tops
            What :meth:`TopReader.top` told of each.
        """
        ...

    def top_after(
        self, prompts: Sequence[Prompt], tops: Sequence[TopTokens], begun: Sequence[tuple[str, ...]]
    ) -> list[TopTokens | None]:
        """Return the likeliest tokens after each prompt and the tokens that its answer is begun with.

        Of an answer that was not told, or not gone on with, None. To be asked only where :meth:`goes_on` says so.

        Parameters
        ----------
        prompts, tops
            As of :meth:`goes_on`; a prompt may stand there several times.
        begun
            Of each the tokens.
        """
        ...


class Kept(Protocol):
    """Keeps answers of what is being asked, until the part of a run that they belong to is whole."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return what was kept by that name; None where nothing was."""
        ...

    def put(self, name: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """An engine each of whose answers is worth keeping at once."""

    def keep_in(self, kept: Kept | None) -> None:
        """Keep answers there as they come, and take those that are there; None keeps none."""
        ...


@runtime_checkable
class Answered(Protocol):
    """An engine whose answers are there already: one for each prompt of a run, also for those that are the same."""

    def at(self, places: Sequence[int]) -> None:
        """Be told which prompts of the run are asked next, all together and in this order."""
        ...


class Reading(Protocol):
    """Prompts that an engine has before it.

    Attributes
    ----------
    places
        Which of the prompts of :meth:`TokenReader.read`.
    """

    @property
    def places(self) -> Sequence[int]:
        """The places of its prompts."""
        ...

    def probabilities(self, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds) -> list[npt.NDArray[np.float64]]:
        """Return the probabilities of given tokens after each prompt and each of its tails.

        Parameters
        ----------
        tails
            For each prompt the continuations to ask after, each once; the empty one asks after the prompt itself.
        token_ids
            The k tokens asked about, at most 128.

        Returns
        -------
        list of arrays
            For each prompt shape (n_tails, k), probabilities under the full softmax at temperature 1.
        """
        ...


class ModelSource(Protocol):
    """What a model is, beyond its name: what tells it from another one, as the engine that runs it knows it."""

    @property
    def revision(self) -> str | None:
        """The hub's commit, or what stands for it; None where there is none."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what a manifest records of it beside its revision, as plain values that are the same tomorrow."""
        ...

    def states(self) -> Sequence[str] | None:
        """Return the fingerprints that a server told of its state so far; None where there is no server."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return what ratings depend on of it: a run goes on only with a model of the same."""
        ...


@dataclass(frozen=True)
class Known:
    """What a manifest says of a loaded model, wherever it is loaded.

    Attributes
    ----------
    facts
        Of the engine.
    source, why
        As of :class:`OpenModel`.
    """

    facts: EngineFacts
    source: ModelSource
    why: str


@dataclass(frozen=True)
class OpenModel:
    """A loaded model.

    Attributes
    ----------
    engine
        Runs it.
    source
        What the model is.
    why
        Why the engine and the number format are what they are, in words.
    """

    engine: Engine
    source: ModelSource
    why: str = ""

    @property
    def known(self) -> Known:
        """What the model is, which outlives it."""
        return Known(self.engine.facts, self.source, self.why)


def token_reader(engine: Engine, *, remedy: str) -> TokenReader:
    """Return what reads the probabilities of an engine's tokens: the one way to ask for more than texts.

    Parameters
    ----------
    engine
        Of whatever kind.
    remedy
        What can be done where it only writes: ``use elicitation=generate``.

    Raises
    ------
    ModelError
        If it only writes.
    """
    if isinstance(engine, TokenReader):
        return engine
    raise ModelError(f"engine={engine.facts.name} writes texts and tells no probabilities of tokens; {remedy}")


def encode_prompts(asked: Tokenises, prompts: Sequence[Prompt], *, room: int) -> list[list[int] | None]:
    """Return each prompt's token ids; None where prompt and ``room`` tokens of answer exceed the model's context."""
    encoded = asked.tokenizer.encode_prompts(prompts)
    return [ids if len(ids) + room <= asked.max_model_len else None for ids in encoded]


def read_probabilities(
    reading: Reading, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
) -> list[npt.NDArray[np.float64]]:
    """Return :meth:`Reading.probabilities` of different tokens, held against what probabilities can be.

    Raises
    ------
    ModelError
        If they cannot be probabilities.
    """
    tables = reading.probabilities(tails, token_ids)
    try:
        return [check_probabilities(table) for table in tables]
    except ImpossibleError as error:
        raise ModelError(
            f"what the model's engine gives as probabilities is none ({error}): its number format may be too coarse; "
            "use model.dtype=float32, or elicitation=generate"
        ) from error


def next_token_probabilities(
    reader: TokenReader, prompts: Sequence[TokenIds], tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
) -> list[npt.NDArray[np.float64]]:
    """Return :meth:`Reading.probabilities` of all prompts, in their order, where one question is enough."""
    found: list[npt.NDArray[np.float64]] = [np.empty((0, len(token_ids)))] * len(prompts)
    for reading in reader.read(prompts):
        tables = read_probabilities(reading, [tails[place] for place in reading.places], token_ids)
        for place, table in zip(reading.places, tables, strict=True):
            found[place] = table
    return found


def sampling_seeds(
    n_prompts: int, *, temperature: float, top_p: float, seeds: Sequence[int] | None
) -> list[int] | None:
    """Check the settings of :meth:`Engine.write` and return the seeds to sample with; None at temperature 0.

    A seed is a whole number from 0 up, below 2^63. vLLM on a CPU tells two seeds apart by their lower 32 bits only.

    Raises
    ------
    ValueError
        If the temperature is negative or not finite, ``top_p`` is not above 0 and at most 1, or, above temperature 0,
        there is not one such seed for each prompt.
    """
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature={temperature}: must be 0 or a positive number")
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
            raise ValueError(f"seed {seed}: must be from 0 up and below 2^63")
    return checked
