"""Classifiers of texts or text pairs, by transformers' sequence classification: probabilities of labels."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.engines.resolve import (
    ModelFiles,
    check_model_folder,
    find_folder,
    hush,
    network_facts,
    stated_licence,
    unloadable,
)
from audit.engines.tokens import context_length
from audit.errors import ModelError
from stimuli.files import LARGEST_TEXT, read_file

_SEVERAL: Final = "multi_label_classification"
SEQUENCE: Final = "ForSequenceClassification"
"""How the names of sequence classifiers' architectures end."""


class Classifier:
    """A sequence classifier in float32, without dropout; made by :func:`open_classifier`.

    A special token in a text, such as ``</s>``, is read as its characters. ``labels`` are in the order of the columns.
    ``n_cut`` counts the texts that were longer than the model reads; a text with several pairs counts with each.
    """

    def __init__(self, network: Any, tokenizer: Any, *, name: str, files: ModelFiles, batch_size: int) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._inputs = set(inspect.signature(network.forward).parameters)
        self._limit = context_length(network, tokenizer)
        # Some networks find a text's end by the padding, and some count positions from the left. A network that padding
        # would disturb gets single texts.
        padding = network.config.get_text_config().pad_token_id
        padded = padding is not None and padding == tokenizer.pad_token_id and tokenizer.padding_side == "right"
        self._batch_size = batch_size if padded else 1
        self.name = name
        self.exclusive = network.config.problem_type != _SEVERAL
        self.labels = tuple(str(network.config.id2label[k]) for k in range(network.config.num_labels))
        self.n_cut = 0
        self.facts: dict[str, Any] = {
            **network_facts(name, files, network),
            "max_tokens": self._limit,
            "labels": list(self.labels),
            **stated_licence(files),
        }

    def logits(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Return the logit of each label, shape (n, k); independent of the other texts and their order, up to rounding.

        A text that is too long loses its end. ``pairs`` are read after the texts, and lose their end only if a pair
        alone leaves no room for a text.
        """
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} pairs: must be as many")
        logits = np.empty((len(texts), len(self.labels)))
        if not len(texts):
            return logits
        import torch

        encoded = self._encode(texts, pairs)
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]["input_ids"]))
        with torch.inference_mode():
            for start in range(0, len(order), self._batch_size):
                places = order[start : start + self._batch_size]
                batch = [encoded[place] for place in places]
                if len(batch) > 1:
                    inputs = self._tokenizer.pad(batch, return_tensors="pt", verbose=False)
                else:
                    inputs = {name: torch.tensor([ids]) for name, ids in batch[0].items()}
                given = {name: ids.to(self._network.device) for name, ids in inputs.items()}
                logits[places] = self._network(**given).logits.double().cpu().numpy()
        unfit = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if len(unfit):
            raise ModelError(
                f"classifier {self.name}: its logits of {len(unfit)} of {len(texts)} texts are not finite (first: text "
                f"{unfit[0] + 1}); its weights may be damaged: download or copy them again, or choose another"
            )
        return logits

    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Return the probability of each label, shape (n, k).

        It is the softmax of :meth:`logits`, or, if several labels may fit one text, the logistic function of each.
        """
        logits = self.logits(texts, pairs)
        if self.exclusive:
            return softmax(logits)
        each: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0.0, -logits))
        return each

    def _encode(self, texts: Sequence[str], pairs: Sequence[str] | None) -> list[dict[str, list[int]]]:
        read = partial(self._tokenizer, split_special_tokens=True, verbose=False)
        whole = read(list(texts), None if pairs is None else list(pairs))
        names = [name for name in whole if name in self._inputs]
        encoded = [{name: whole[name][place] for name in names} for place in range(len(texts))]
        if self._limit is None:
            return encoded
        for place, text in enumerate(texts):
            surplus = len(encoded[place]["input_ids"]) - self._limit
            if surplus <= 0:
                continue
            fits = surplus < len(read(text, add_special_tokens=False)["input_ids"])
            cut = read(
                text,
                None if pairs is None else pairs[place],
                truncation="only_first" if fits else "longest_first",
                max_length=self._limit,
            )
            encoded[place] = {name: cut[name] for name in names}
            self.n_cut += 1
        return encoded


def open_classifier(
    model: str,
    *,
    asked: str | None = None,
    revision: str | None = None,
    several: bool = False,
    device: str = "cpu",
    batch_size: int = 16,
    download: bool = False,
) -> Classifier:
    """Load a sequence classifier of two labels or more; the model's own code is not run.

    Its labels must exclude one another, unless ``several`` may fit one text.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: must be 1 or more")
    asked = asked or f"classifier {model}"
    hush(asked)
    files = find_folder(
        model,
        asked=asked,
        revision=revision,
        check=partial(_check_folder, name=model, asked=asked),
        pickled=True,  # the format of many older classifiers
        card=True,
        download=download,
    )
    network, tokenizer = _load(files.folder, asked, device, several)
    return Classifier(network, tokenizer, name=model, files=files, batch_size=batch_size)


def softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the softmax of each row, shape (n, k); large logits do not overflow."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: npt.NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _check_folder(folder: Path, *, name: str, asked: str) -> None:
    check_model_folder(folder, name=name)
    kinds = architectures(folder)
    if not any(kind.endswith(SEQUENCE) for kind in kinds):
        named = ", ".join(kinds) or "no architecture"
        raise ModelError(
            f"{asked}: config.json in {folder} names {named}, so it is not a sequence classifier; choose a model "
            "...ForSequenceClassification"
        )


def architectures(folder: Path) -> list[str]:
    """Return the architectures that a folder's config.json names."""
    config = json.loads(read_file(folder / "config.json", at_most=LARGEST_TEXT))
    kinds = config.get("architectures") if isinstance(config, dict) else None
    return list(map(str, kinds)) if isinstance(kinds, list) else []


def _load(folder: Path, asked: str, device: str, several: bool) -> tuple[Any, Any]:
    import transformers

    own = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **own)
        network, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
            str(folder), dtype="float32", output_loading_info=True, **own
        )
        network = network.to(device).eval()
    except Exception as error:
        raise ModelError(
            f"{asked} cannot be loaded from {folder}: "
            + unloadable(error, "download or copy it again, or choose another")
        ) from error
    # transformers fills missing weights at random and only warns.
    lacking = sorted(map(str, loading["missing_keys"]))
    if lacking:
        raise ModelError(
            f"{asked}: {len(lacking)} weights are missing in {folder} (first: {lacking[0]}): it may not be trained "
            "to classify; download or copy it again, or choose another"
        )
    config = network.config
    kinds = (None, "single_label_classification", *([_SEVERAL] if several else []))
    if config.num_labels < 2 or config.problem_type not in kinds:
        what = "only one label" if config.num_labels < 2 else f"labels for {config.problem_type}"
        wanted = "with two labels or more" if several else "whose labels exclude one another"
        raise ModelError(f"{asked}: it has {what}; choose a classifier {wanted}")
    n_rows = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > n_rows:
        raise ModelError(
            f"{asked}: its tokenizer in {folder} has more tokens than the {n_rows} embedded; download or copy it again"
        )
    return network, tokenizer
