"""Commonsense inferences by a COMET model on this machine: what a person wants, needs or feels when something happens.

COMET-ATOMIC-2020 [1]_ is a BART trained to write an inference after a head and a relation's mark. Its weights were not
available here: this module was tested only with a tiny model of random weights.

References
----------
.. [1] Hwang, Bhagavatula, Le Bras, Da, Sakaguchi, Bosselut and Choi (2021), arXiv:2010.05953.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from audit.engines.resolve import ModelFiles, check_model_folder, file_hashes, find_folder, hush, unloadable
from audit.engines.tokens import context_length
from audit.errors import ModelError
from stimuli.narratives import Narrative


@dataclass(frozen=True)
class Inferred:
    """A COMET model's inferences from n heads."""

    texts: list[dict[str, str]]  # by head and relation, the inferences, likeliest first, joined by "; "
    facts: dict[str, Any]  # what identifies the model; n_cut counts the heads that were cut to max_tokens


def head_of(narrative: Narrative) -> str:
    """Return a narrative as the head of an inference.

    ATOMIC calls the agent PersonX, which replaces a leading "The person" of the third-person wording. Without that
    wording the neutral one is used, or else the first person's, unchanged.
    """
    third_person = re.sub(r"^The person\b", "PersonX", narrative.wording("third_person"))
    return third_person or narrative.neutral or narrative.first_person


Counted: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""From a number of inferences to a context that gets how many more are there."""


def infer(
    heads: Sequence[str],
    *,
    relations: Sequence[str],
    model: str,
    revision: str | None = None,
    n: int = 5,
    max_tokens: int = 24,
    batch_size: int = 16,
    device: str = "cpu",
    counted: Counted = lambda n: nullcontext(lambda more: None),
) -> Inferred:
    """Return a COMET model's n inferences from each head by each relation, such as ``xIntent``, by n beams.

    The model reads ``"{head} {relation} [GEN]"``, as the published one does. Empty and repeated inferences are dropped,
    as is "none", the model's word for nothing, unless it is the only one. A head that is too long loses its end, never
    its mark. Of the model's generation settings only the special tokens are kept, as in our engines. Nothing is
    sampled, and the model's own code is not run.
    """
    for name, value in (("n", n), ("max_tokens", max_tokens), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    hush(f"COMET model {model}")
    import torch
    import transformers

    files = find_folder(
        model,
        asked=f"COMET model {model}",
        revision=revision,
        check=partial(check_model_folder, name=model),
        pickled=True,  # the format of COMET-ATOMIC-2020
    )
    network, tokenizer = _load(files, model, device)
    marks = {relation: _mark(tokenizer, relation, model) for relation in relations}
    _keep_special_tokens_alone(network, tokenizer)
    settings = {"num_beams": n, "num_return_sequences": n, "max_new_tokens": max_tokens, "do_sample": False}

    limit = context_length(network, tokenizer)
    positions = getattr(network.config, "max_position_embeddings", None)
    if positions is not None and max_tokens >= positions:
        raise ModelError(
            f"COMET model {model} writes fewer than {positions} tokens; lower "
            f"strategy.knowledge.max_tokens={max_tokens}"
        )
    cut: set[int] = set()
    asked: list[tuple[int, str, list[int]]] = []
    for place, head in enumerate(heads):
        for relation in relations:
            ids = tokenizer(f"{head} {relation} [GEN]", verbose=False)["input_ids"]
            surplus = 0 if limit is None else len(ids) - limit
            if surplus > 0:
                cut.add(place)
                mark = len(ids) - 1 - ids[::-1].index(marks[relation])
                ids = ids[: max(mark - surplus, 1)] + ids[mark:]
            asked.append((place, relation, ids))
    asked.sort(key=lambda each: len(each[2]))

    texts: list[dict[str, str]] = [dict.fromkeys(relations, "") for _ in heads]
    with counted(len(asked)) as done, torch.inference_mode():
        for batch in _batches(asked, batch_size):
            width = max(len(ids) for _, _, ids in batch)
            padded = [ids + [tokenizer.pad_token_id] * (width - len(ids)) for _, _, ids in batch]
            mask = [[1] * len(ids) + [0] * (width - len(ids)) for _, _, ids in batch]
            written = network.generate(
                input_ids=torch.tensor(padded, device=device),
                attention_mask=torch.tensor(mask, device=device),
                **settings,
            )
            tails = tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            for row, (place, relation, _) in enumerate(batch):
                texts[place][relation] = _joined(tails[row * n : (row + 1) * n])
            done(len(batch))
    facts = {
        "name": model,
        "revision": files.revision,
        "files": file_hashes(files.folder),
        "library": f"transformers {transformers.__version__}",
        "device": str(network.device),
        "max_tokens": limit,
        "n_cut": len(cut),
    }
    return Inferred(texts, facts)


def _load(files: ModelFiles, model: str, device: str) -> tuple[Any, Any]:
    """Return network and tokenizer of an encoder-decoder."""
    import transformers

    folder = str(files.folder)
    remedy = "a COMET model is an encoder-decoder such as COMET-ATOMIC-2020's BART; download or copy it again"
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        if not config.is_encoder_decoder:
            raise ModelError(
                f"COMET model {model}: the {config.model_type} in {folder} is not an encoder-decoder (it may be a "
                "causal model); choose COMET-ATOMIC-2020's BART, or a similar model"
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        network, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype="float32", output_loading_info=True
        )
        network = network.to(device).eval()
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"COMET model {model} cannot be loaded from {folder}: {unloadable(error, remedy)}") from error
    # transformers fills missing weights at random and only warns.
    lacking = sorted(map(str, loading["missing_keys"]))
    if lacking:
        raise ModelError(
            f"COMET model {model}: {len(lacking)} weights are missing in {folder} (first: {lacking[0]}); {remedy}"
        )
    n_rows = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > n_rows or tokenizer.pad_token_id is None:
        what = (
            "has no padding token" if tokenizer.pad_token_id is None else f"has more tokens than the {n_rows} embedded"
        )
        raise ModelError(f"COMET model {model}: its tokenizer in {folder} {what}; {remedy}")
    return network, tokenizer


def _mark(tokenizer: Any, relation: str, model: str) -> int:
    """Return a relation's token. [GEN] need not be one: the published model's training code leaves it in pieces."""
    token = tokenizer.get_vocab().get(relation)
    if token is None or token not in tokenizer(f"PersonX sleeps {relation} [GEN]")["input_ids"]:
        raise ModelError(
            f"COMET model {model}: its tokenizer has no token {relation!r}, so it was not trained on that "
            "relation; choose a COMET-ATOMIC-2020 model, or other relations"
        )
    return int(token)


def _keep_special_tokens_alone(network: Any, tokenizer: Any) -> None:
    from transformers import GenerationConfig

    own = network.generation_config
    names = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id")
    special = {name: getattr(own, name, None) for name in names}
    network.generation_config = GenerationConfig(**special, pad_token_id=tokenizer.pad_token_id)


def _batches(asked: Sequence[tuple[int, str, list[int]]], size: int) -> Iterator[Sequence[tuple[int, str, list[int]]]]:
    for start in range(0, len(asked), size):
        yield asked[start : start + size]


def _joined(tails: Sequence[str]) -> str:
    distinct = [tail for tail in dict.fromkeys(" ".join(tail.split()) for tail in tails) if tail]
    said = [tail for tail in distinct if tail.casefold() != "none"]
    return "; ".join(said or distinct[:1])
