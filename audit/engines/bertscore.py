"""BERTScore: similarity of a text's tokens to those of reference texts, by an encoder's hidden states.

The formula is that of Zhang, Kishore, Wu, Weinberger and Artzi [1]_, without idf weights and without rescaling to a
baseline, as in their own tool (bert-score 0.3.13), with which tests compare. That tool is no longer maintained, and
TorchMetrics 1.9 pairs texts with the wrong references if their lengths are ordered differently; hence our own code.

References
----------
.. [1] Zhang et al. (2020), BERTScore: Evaluating Text Generation with BERT, arXiv:1904.09675.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from audit.engines.embedding import PACKAGED
from audit.engines.resolve import check_model_folder, find_folder, hush, network_facts
from audit.engines.tokens import AS_CHARACTERS, batches, context_length, load_scorer, padded
from audit.errors import ModelError

LAYERS: Final = {"embedded:minilm": 5}
"""The layer for each packaged encoder.

Of six layers the authors chose the fifth for DistilBERT and DistilRoBERTa; that the same is good for this one is our
guess.
"""
BATCH_TOKENS: Final = 4096  # tokens read at once, including padding, unless one text has more

_REMEDY: Final = "choose an encoder such as embedded:minilm or FacebookAI/roberta-large, or download it again"


class _EncodedText(NamedTuple):
    vectors: npt.NDArray[np.float32]  # shape (tokens, width), each of length 1; with CLS and SEP
    averaged: npt.NDArray[np.bool_]  # shape (tokens,): whether a token counts in averages
    cut: bool  # whether the text lost its end


class BertScorer:
    """Computes precision, recall and F1 of texts against references.

    Each token's hidden state is compared by cosine with every token of the other text, and the greatest cosine is
    taken. The mean over the text's tokens is precision, over the reference's tokens recall; F1 is their harmonic mean.
    CLS and SEP may be matched but are not averaged. Over several references the best precision, recall and F1 are taken
    separately. All this is as in the authors' tool. Deviations: an empty text gets NaN, not 0, and so does F1 if
    precision or recall is not above 0. As there, a text that is longer than the encoder reads loses its end.

    ``model`` is ``embedded:minilm``, a folder, or a hub id in this machine's cache. ``layer`` is counted from 1, 0
    being the embeddings. It is required except for ``embedded:minilm``: the authors chose it for each model by its
    agreement with people, 17 for ``FacebookAI/roberta-large``.
    """

    facts: dict[str, Any]  # what identifies the scorer; files are SHA-256 by name

    def __init__(
        self,
        model: str = "embedded:minilm",
        *,
        layer: int | None = None,
        revision: str | None = None,
        device: str = "cpu",
        download: bool = False,
    ) -> None:
        self._asked = f"BERTScore's model {model}"
        hush(self._asked)
        import transformers

        if layer is None and not model.startswith("embedded:"):
            raise ModelError(
                f"{self._asked}: needs the layer whose hidden states are compared (0 is its embeddings); the "
                "authors of BERTScore chose 9 of bert-base-uncased's 12 and 17 of roberta-large's 24"
            )
        files = find_folder(
            model,
            asked=self._asked,
            revision=revision,
            check=partial(check_model_folder, name=model),
            pickled=True,
            download=download,
            packaged=PACKAGED,
        )
        layer = LAYERS[model] if layer is None else layer
        self._network, self._tokenizer = load_scorer(
            files.folder, kind="AutoModel", asked=self._asked, remedy=_REMEDY, device=device
        )
        self._device = device
        self._ends = {self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}
        if self._tokenizer.pad_token_id is None or not self._ends <= set(self._tokenizer("")["input_ids"]):
            raise ModelError(
                f"{self._asked}: its tokenizer in {files.folder} does not put CLS and SEP around text, or cannot "
                f"pad, so this is not an encoder; {_REMEDY}"
            )
        n_layers = int(self._network.config.num_hidden_layers)
        if not 0 <= layer <= n_layers:
            raise ModelError(f"{self._asked}: has no layer {layer}; give 0 to {n_layers}")
        self._layer = layer
        self._limit = context_length(self._network, self._tokenizer)
        # Byte-level tokenizers encode a word at a text's beginning differently from one after a space.
        marked = (transformers.GPT2Tokenizer, transformers.RobertaTokenizer)
        self._before = " " if isinstance(self._tokenizer, marked) else ""
        self.n_cut = 0
        self.facts = {**network_facts(model, files, self._network), "layer": self._layer, "max_tokens": self._limit}

    def score(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> npt.NDArray[np.float64]:
        """Return precision, recall and F1 of each text, shape (n, 3); NaN if it or all its references have no token."""
        if len(texts) != len(references):
            raise ValueError(f"{len(texts)} texts, and references for {len(references)}")
        scores = np.full((len(texts), 3), np.nan)
        places: dict[str, list[int]] = {}
        for place, (text, own) in enumerate(zip(texts, references, strict=True)):
            if own:
                places.setdefault(text, []).append(place)
        wanted = list(dict.fromkeys(reference for own in references for reference in own))
        encoded = dict(self._encoded(wanted))
        for text, tokens in self._encoded(list(places)):
            for place in places[text]:
                theirs = [encoded[reference] for reference in references[place]]
                scores[place] = np.fmax.reduce([_match(tokens, reference) for reference in theirs])
                self.n_cut += tokens.cut or any(reference.cut for reference in theirs)
        return scores

    def _encoded(self, texts: Sequence[str]) -> Iterator[tuple[str, _EncodedText]]:
        """Yield each text with its tokens, in arbitrary order."""
        import torch

        read = [self._read(self._before + text.strip()) for text in texts]
        rows = [ids for ids, _ in read]
        for batch in batches(rows, n_tokens=BATCH_TOKENS):
            asked = padded([rows[row] for row in batch], padding=self._tokenizer.pad_token_id, device=self._device)
            with torch.inference_mode():
                states = self._network(**asked, output_hidden_states=True).hidden_states[self._layer].cpu().numpy()
            for k, row in enumerate(batch):
                vectors = states[k, : len(rows[row])]
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
                if not np.all(np.isfinite(lengths) & (lengths > 0)):
                    raise ModelError(
                        f"{self._asked}: hidden states are zero or not finite; its weights may be damaged: {_REMEDY}"
                    )
                averaged = np.array([token not in self._ends for token in rows[row]])
                yield texts[row], _EncodedText(vectors / lengths, averaged, read[row][1])

    def _read(self, text: str) -> tuple[list[int], bool]:
        """Return a text's tokens, and whether it lost its end."""
        whole = self._tokenizer(text, **AS_CHARACTERS)["input_ids"]
        if self._limit is None or len(whole) <= self._limit:
            return whole, False
        cut = self._tokenizer(text, truncation=True, max_length=self._limit, **AS_CHARACTERS)["input_ids"]
        return cut, True


def _match(text: _EncodedText, reference: _EncodedText) -> tuple[float, float, float]:
    """Return precision, recall and F1 of one text against one reference."""
    if not text.averaged.any() or not reference.averaged.any():
        return (np.nan, np.nan, np.nan)
    cosines = np.clip(text.vectors.astype(np.float64) @ reference.vectors.T.astype(np.float64), -1.0, 1.0)
    precision = float(cosines.max(axis=1)[text.averaged].mean())
    recall = float(cosines.max(axis=0)[reference.averaged].mean())
    f1 = 2 * precision * recall / (precision + recall) if precision > 0 and recall > 0 else np.nan
    return (precision, recall, f1)
