"""Reads prompts one whole sequence after another: slow, and right for every causal model of transformers.

For models that cannot be read in packs: those that mix in earlier tokens by other means than attention, or look back no
further than a window. Also the reference that shows whether a model can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from audit.engines.base import TokenIds

if TYPE_CHECKING:
    from audit.engines.packed import PackedReader

_TRIED_TOKENS: Final = 24  # tokens from a prompt's beginning for the test of packed reading


class WholeReader:
    """Reads sequences of equal length together, at most ``batch_size``, so that there is no padding."""

    def __init__(self, torch: Any, model: Any, *, device: str, batch_size: int) -> None:
        self._torch = torch
        self._model = model
        self._device = device
        self._batch_size = batch_size

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[WholeReading]:
        """Yield readings of ``batch_size`` prompts each."""
        for start in range(0, len(prompts), self._batch_size):
            yield WholeReading(self, prompts, range(start, min(start + self._batch_size, len(prompts))))

    def probabilities(self, asked: Sequence[TokenIds], token_ids: TokenIds) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n sequences."""
        torch = self._torch
        found = np.empty((len(asked), len(token_ids)))
        order = sorted(range(len(asked)), key=lambda k: len(asked[k]))
        for _, alike in groupby(order, key=lambda k: len(asked[k])):
            rows = list(alike)
            for start in range(0, len(rows), self._batch_size):
                batch = rows[start : start + self._batch_size]
                ids = torch.tensor([list(asked[row]) for row in batch], device=self._device)
                with torch.inference_mode():
                    logits = self._model(input_ids=ids, use_cache=False).logits[:, -1]
                found[batch] = logits.double().log_softmax(-1)[:, list(token_ids)].exp().cpu().numpy()
        return found


class ReadsWhole(Protocol):
    """Reads whole sequences; it may or may not cache what they share."""

    def probabilities(self, asked: Sequence[TokenIds], token_ids: TokenIds) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n sequences."""


class WholeReading:
    """Asks each question as a whole sequence; see :class:`audit.engines.base.CachedPrompts`."""

    def __init__(self, reader: ReadsWhole, prompts: Sequence[TokenIds], places: Sequence[int]) -> None:
        self.places = places
        self._reader = reader
        self._prompts = [prompts[place] for place in places]

    def probabilities(self, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds) -> list[npt.NDArray[np.float64]]:
        """See :class:`audit.engines.base.CachedPrompts`."""
        asked = [[*prompt, *tail] for prompt, own in zip(self._prompts, tails, strict=True) for tail in own]
        table = self._reader.probabilities(asked, token_ids)
        return list(np.split(table, np.cumsum([len(own) for own in tails])[:-1]))


def sliding_window(config: Any) -> int | None:
    """Return the shortest attention window of a model's layers, in tokens; None if all layers see everything."""
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    layers = getattr(text, "layer_types", None)
    slides = any("sliding" in kind or "chunked" in kind for kind in layers) if layers else True
    chunk = getattr(text, "attention_chunk_size", None)
    sizes = [size for size in (window, chunk) if isinstance(size, int) and slides]
    return min(sizes, default=None)


def reads_packed(packed: PackedReader, whole: WholeReader, prompts: Sequence[TokenIds]) -> bool:
    """Whether a model gives the same probabilities in packs as for whole sequences.

    Tested on beginnings of the prompts, with continuations that share a token: a model that mixes branches or counts
    positions otherwise cannot get these right by accident.
    """
    one, other = list(prompts[0])[:_TRIED_TOKENS], list(prompts[-1])[-_TRIED_TOKENS:]
    tried = [one, [*one[: len(one) // 2], *other], [*one, *other]]
    tails = [[(), tuple(other[:1]), (*other[:1], *one[:1])], [tuple(one[:1])], [(), tuple(one[:2])]]
    tokens = sorted({*one, *other})[:100]
    try:
        read: list[Any] = [None] * len(tried)
        for reading in packed.read(tried):
            tables = reading.probabilities([tails[place] for place in reading.places], tokens)
            again = reading.probabilities([[(*other[:1], *other[:1])]] * len(reading.places), tokens)
            for place, table, more in zip(reading.places, tables, again, strict=True):
                read[place] = np.vstack([table, more])
    except Exception:  # other architectures raise anything on an unknown mask or cache
        return False
    right = [
        whole.probabilities([[*prompt, *tail] for tail in (*own, (*other[:1], *other[:1]))], tokens)
        for prompt, own in zip(tried, tails, strict=True)
    ]
    error = max(float(np.abs(a - b).max()) for a, b in zip(read, right, strict=True))
    largest = max(float(b.max()) for b in right)
    half = str(packed.dtype) != "torch.float32"
    return error <= (0.05 if half else 1e-3) * max(largest, 1e-3)
