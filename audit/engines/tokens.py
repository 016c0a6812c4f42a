"""Loads networks that score texts by their tokens, and arranges tokens in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from audit.engines.resolve import first_line
from audit.errors import ModelError

UNREAD: Final = ("pooler.",)  # prefixes of weights that affect no hidden state or probability; files may lack them

AS_CHARACTERS: Final = {"split_special_tokens": True, "verbose": False}
"""Tokenizer arguments that make a special token in a text, such as ``</s>``, be read as its characters."""


def load_scorer(folder: Path, *, kind: str, asked: str, remedy: str, device: str) -> tuple[Any, Any]:
    """Load a network of a ``kind`` of transformers and its tokenizer, in float32; the model's own code is not run."""
    import transformers

    own: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        config = transformers.AutoConfig.from_pretrained(str(folder), **own)
        if config.is_encoder_decoder:
            raise ModelError(f"{asked}: the {config.model_type} in {folder} is an encoder-decoder; {remedy}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **own)
        network, loading = getattr(transformers, kind).from_pretrained(
            str(folder), dtype="float32", output_loading_info=True, **own
        )
        network = network.to(device).eval()
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{asked} cannot be loaded from {folder} ({first_line(error)}); {remedy}") from error
    # transformers fills missing weights at random and only warns.
    lacking = sorted(name for name in map(str, loading["missing_keys"]) if not name.startswith(UNREAD))
    if lacking:
        raise ModelError(
            f"{asked}: {len(lacking)} weights are missing in {folder} (first: {lacking[0]}); it is another kind of "
            f"model, or damaged: {remedy}"
        )
    n_rows = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > n_rows:
        raise ModelError(
            f"{asked}: its tokenizer in {folder} has {len(tokenizer)} tokens, more than the {n_rows} embedded; {remedy}"
        )
    return network, tokenizer


def context_length(network: Any, tokenizer: Any) -> int | None:
    """Return the most tokens that a network reads at once; None if neither it nor its tokenizer has a limit."""
    # Tokenizers without a limit name none, -1 or a huge number.
    limits = [tokenizer.model_max_length, getattr(network.config.get_text_config(), "max_position_embeddings", None)]
    # RoBERTa and its kin count positions from the padding index on.
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(limit) for limit in limits if limit is not None and 0 < limit < 10**9), default=None)


def batches(rows: Sequence[Sequence[int]], *, n_tokens: int) -> Iterator[list[int]]:
    """Yield indices of rows of similar length, longest first, at most ``n_tokens`` a batch including padding."""
    batch: list[int] = []
    for place in sorted((p for p, row in enumerate(rows) if row), key=lambda p: (-len(rows[p]), p)):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > n_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(rows: Sequence[Sequence[int]], *, padding: int, device: str) -> dict[str, Any]:
    """Return rows as network inputs: ``input_ids``, padded on the right, and ``attention_mask``."""
    import torch

    width = max(map(len, rows))
    ids = [[*row, *[padding] * (width - len(row))] for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    return {"input_ids": torch.tensor(ids, device=device), "attention_mask": torch.tensor(mask, device=device)}
