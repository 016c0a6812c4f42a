"""A loaded model proves that its answers follow from what it reads, before a run takes them for ratings.

Engines have returned the same probability for every token, without an error, where they do not support a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from audit.configuration.model import ModelConfig
from audit.engines.base import OpenModel, TokenIds, TokenReader, next_token_probabilities, read_probabilities
from audit.engines.local import LocalModel
from audit.errors import ModelError
from stimuli.prompts import Prompt

_Tables = npt.NDArray[np.float64]

PROMPTS: Final = (
    Prompt("Answer briefly.", "A dog barked, a door fell shut, and it began to rain. Which number comes after 41?"),
    Prompt("Answer briefly.", "Name the colour of the sky on a clear day."),
)
ROOM: Final = 64  # tokens of a written answer to each of them: enough for two answers that only begin alike
_ASKED: Final = 100  # tokens, most
_LEAST: Final = 1e-3  # smaller probabilities are compared as parts of this one
_SMALL: Final = 1.2e9  # bytes of weights; larger models are not loaded a second time
# How far two readings may be apart, as a share of the largest probability: a wrong one is off by more than all of it.
_ALIKE: Final = {"float32": 0.02, "other": 0.5}


def prove(opened: OpenModel, model: ModelConfig) -> OpenModel:
    """Return the model with what was checked; raise ModelError if its probabilities cannot be answers to prompts.

    Checked are engines that read tokens: two unlike prompts get different probabilities, which are finite and not all
    equal; on this machine, a cached reading equals an uncached one; and vLLM agrees with transformers on a small model.
    """
    engine = opened.engine
    if not isinstance(engine, TokenReader):
        return opened
    prompts = engine.tokenizer.encode_prompts(PROMPTS)
    tokens = sorted({token for ids in prompts for token in ids})[:_ASKED]
    tail = prompts[1][:2]
    is_served = engine.facts.device == "server"  # its cache is not ours to empty, and its tokens may cost money
    engine.forget()
    first, more = _cached(engine, prompts, () if is_served else tail, tokens)
    said, off = ["two unlike prompts get different probabilities"], []
    if any(np.ptp(table) <= 1e-6 * table.max() for table in first):
        raise _unfit(opened, model, "gives every token the same probability")
    if np.array_equal(*first):
        raise _unfit(opened, model, "gives the same probabilities after two unlike prompts")
    form = "float32" if engine.facts.dtype == "float32" else "other"
    if not is_served:
        engine.forget()
        fresh = np.vstack(next_token_probabilities(engine, [[*ids, *tail] for ids in prompts], [[()]] * 2, tokens))
        engine.forget()
        off.append(_apart(more, fresh))
        if off[-1] > _ALIKE[form]:
            raise _unfit(opened, model, "gives other probabilities for a cached prompt than for the same one uncached")
        said.append("a cached reading equals an uncached one")
    if (plain := _by_transformers(opened, model, prompts, tokens)) is not None:
        off.append(_apart(first, plain))
        if off[-1] > _ALIKE[form]:
            raise _unfit(opened, model, "gives other probabilities than transformers")
        said.append("transformers gives the same probabilities")
    return replace(opened, checked="; ".join(said), apart=tuple(off))


def _cached(
    engine: TokenReader, prompts: Sequence[TokenIds], tail: TokenIds, tokens: TokenIds
) -> tuple[_Tables, _Tables]:
    """Return the probabilities after each prompt, and then, from the engine's cache, after its tail, if any."""
    first, more = np.empty((2, len(prompts), len(tokens)))
    for reading in engine.read(prompts):
        places = list(reading.places)
        for table, tails in ((first, [()]), (more, [tail]))[: 2 if tail else 1]:
            table[places] = np.vstack(read_probabilities(reading, [tails] * len(places), tokens))
    return first, more


def _apart(one: _Tables, other: _Tables) -> float:
    largest = np.maximum(np.maximum(one, other).max(axis=1), _LEAST)
    return float((np.abs(one - other).max(axis=1) / largest).max())


def _by_transformers(
    opened: OpenModel, model: ModelConfig, prompts: Sequence[TokenIds], tokens: TokenIds
) -> _Tables | None:
    """Return the probabilities by a plain pass of transformers in float32; None unless a small model of vLLM's."""
    if opened.engine.facts.name != "vllm" or not isinstance(opened.source, LocalModel):
        return None
    folder: Path = opened.source.files.folder
    if model.quantization or sum(path.stat().st_size for path in folder.glob("*.safetensors")) > _SMALL:
        return None
    for context in (nullcontext, getattr(opened.engine, "configured", nullcontext)):
        with suppress(Exception), context():  # transformers may not know the model, and raises anything
            return _plainly(folder, model, prompts, tokens)
    return None


def _plainly(folder: Path, model: ModelConfig, prompts: Sequence[TokenIds], tokens: TokenIds) -> _Tables:
    import torch
    import transformers

    own = {"trust_remote_code": model.trust_remote_code, "dtype": "float32"}
    network = transformers.AutoModelForCausalLM.from_pretrained(str(folder), **own).eval()
    for module in network.modules():
        if hasattr(module, "do_not_compile"):  # a class that vLLM has changed
            module.do_not_compile = True
    with torch.inference_mode():
        logits = [network(input_ids=torch.tensor([list(ids)])).logits[0, -1].double() for ids in prompts]
    return np.vstack([each.softmax(-1)[list(tokens)].numpy() for each in logits])


def _unfit(opened: OpenModel, model: ModelConfig, fault: str) -> ModelError:
    facts = opened.engine.facts
    remedy = {
        "transformers": "use model.dtype=float32, or download or copy it again",
        "vllm": "use engine=transformers, or another version of vLLM",
    }.get(facts.name, "serve it with another version or number format")
    return ModelError(
        f"model {model.name}: {facts.name} {facts.version} on {facts.device} {fault}, so its answers would not be "
        f"about the prompts; {remedy}"
    )
