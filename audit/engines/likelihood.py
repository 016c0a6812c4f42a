"""How likely a causal language model finds texts, token by token; by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.engines.resolve import EMBEDDED, check_model_folder, find_folder, hush, network_facts
from audit.engines.tokens import AS_CHARACTERS, batches, context_length, load_scorer, padded
from audit.errors import ModelError

WINDOW: Final = 1024  # most tokens read at once, whatever the model's limit: bounds the memory for a text
BATCH_TOKENS: Final = 2048
"""Tokens read at once, including padding, unless one text has more.

Their probabilities take 4 bytes for each token of the vocabulary.
"""

_REMEDY: Final = "choose a causal model such as embedded:smollm2 or openai-community/gpt2, or download it again"


@dataclass(frozen=True)
class Likelihoods:
    """How likely n texts are."""

    nll: npt.NDArray[np.float64]  # shape (n,): the sum of −log p over scored tokens, in nats; NaN without one
    n_tokens: npt.NDArray[np.int64]  # shape (n,): scored tokens


class LikelihoodModel:
    """A causal model in float32 that reads texts and writes none.

    A text's first token is scored after the tokenizer's beginning-of-sequence token (BOS), as in Hugging Face's
    evaluate [1]_. Without a BOS the first token is not scored, since nothing comes before it.

    A text longer than the window is read in windows that overlap by half, as in Hugging Face's guide [2]_: every token
    is scored once, those of later windows after at least half a window of the text.

    ``model`` is ``embedded:smollm2``, a folder, or a hub id in this machine's cache.

    References
    ----------
    .. [1] https://huggingface.co/spaces/evaluate-metric/perplexity, with ``add_start_token=True``.
    .. [2] https://huggingface.co/docs/transformers/perplexity.
    """

    facts: dict[str, Any]

    def __init__(self, model: str, *, revision: str | None = None, device: str = "cpu", download: bool = False) -> None:
        self._asked = f"scorer {model}"
        hush(self._asked)
        files = find_folder(
            model,
            asked=self._asked,
            revision=revision,
            check=partial(check_model_folder, name=model),
            pickled=True,
            download=download,
            packaged=EMBEDDED,
        )
        self._network, self._tokenizer = load_scorer(
            files.folder, kind="AutoModelForCausalLM", asked=self._asked, remedy=_REMEDY, device=device
        )
        self._device = device
        self._check_causal()
        self._bos = self._tokenizer.bos_token_id
        limit = context_length(self._network, self._tokenizer)
        self._window = max(min(limit or WINDOW, WINDOW), 2)
        self._stride = self._window // 2
        self.facts = {
            **network_facts(model, files, self._network),
            "first_token": "left out: the tokenizer has no BOS"
            if self._bos is None
            else f"scored after the tokenizer's BOS {self._tokenizer.bos_token}",
            "window": self._window,
            "stride": self._stride,
        }

    def score(self, texts: Sequence[str]) -> Likelihoods:
        """Return how likely each text is; independent of the other texts, up to rounding."""
        import torch

        sums, n_tokens = np.zeros(len(texts)), np.zeros(len(texts), dtype=np.int64)
        rows: list[list[int]] = []
        about: list[tuple[int, int]] = []  # for each row: its text, and how many of its last tokens to score
        start = [] if self._bos is None else [int(self._bos)]
        for place, text in enumerate(texts):
            ids = start + list(self._tokenizer(text, add_special_tokens=False, **AS_CHARACTERS)["input_ids"])
            for window, n_scored in self._windows(ids):
                rows.append(window)
                about.append((place, n_scored))
                n_tokens[place] += n_scored
        for batch in batches(rows, n_tokens=BATCH_TOKENS):
            asked = padded([rows[row] for row in batch], padding=self._padding, device=self._device)
            with torch.inference_mode():
                logits = self._network(**asked, use_cache=False).logits
                for k, row in enumerate(batch):
                    (place, n_scored), end = about[row], len(rows[row])
                    # Row by row: in float64 the whole batch would take double the memory.
                    log_p = logits[k, end - n_scored - 1 : end - 1].double().log_softmax(-1)
                    own = asked["input_ids"][k, end - n_scored : end]
                    sums[place] -= float(log_p.gather(1, own[:, None]).sum())
        unfit = np.flatnonzero(~np.isfinite(sums))
        if len(unfit):
            raise ModelError(
                f"{self._asked}: the probabilities of {len(unfit)} of {len(texts)} texts are 0 or not numbers "
                f"(first: text {unfit[0] + 1}); its weights may be damaged: {_REMEDY}"
            )
        return Likelihoods(np.where(n_tokens > 0, sums, np.nan), n_tokens)

    def _windows(self, ids: list[int]) -> list[tuple[list[int], int]]:
        """Return a text's windows, each with the number of its last tokens to score."""
        windows: list[tuple[list[int], int]] = []
        done = 1  # nothing comes before the first token
        for begin in range(0, len(ids), self._stride):
            end = min(begin + self._window, len(ids))
            if end > done:
                windows.append((ids[begin:end], end - done))
                done = end
        return windows

    @property
    def _padding(self) -> int:
        own = self._tokenizer.pad_token_id
        return int(own if own is not None else 0)

    def _check_causal(self) -> None:
        """Raise ModelError for a network like BERT, which transformers loads as causal with no more than a warning."""
        import torch

        last = self._network.get_input_embeddings().num_embeddings - 1
        asked = padded([[0, 1, 0], [0, 1, last]], padding=0, device=self._device)
        with torch.inference_mode():
            first, second = self._network(**asked, use_cache=False).logits[:, :2].double()
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
            raise ModelError(
                f"{self._asked}: the {self._network.config.model_type} reads ahead, so it is not a causal model; "
                f"{_REMEDY}"
            )
