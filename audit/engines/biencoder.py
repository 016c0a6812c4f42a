"""EPITOME's published classifier: two RoBERTa encoders, and attention from the response to the seeker's post.

The architecture is that of Sharma, Miner, Atkins and Althoff [1]_ and of their released code: each side is read in 64
tokens; the response's hidden states get what one head of attention finds in the seeker's; a level head reads their
first token, and a rationale head every token. The weights' names are those of the released code, so its checkpoints
load. The code is ours: no code of a model's repository is run.

References
----------
.. [1] Sharma, Miner, Atkins and Althoff (2020), A Computational Approach to Understanding Empathy Expressed in
   Text-Based Mental Health Support, arXiv:2009.08441.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.engines.classifier import softmax
from audit.engines.digests import sha256
from audit.engines.resolve import (
    ModelFiles,
    check_model_folder,
    find_folder,
    hush,
    network_facts,
    refuse_revision,
    stated_licence,
    unloadable,
)
from audit.errors import ModelError
from stimuli.files import LARGEST_TEXT, read_file
from stimuli.json_text import parse_json

MAX_TOKENS: Final = 64  # of each side, special ones included; shorter texts are padded, as in the released code
_UNUSED: Final = re.compile(r"norm\.|.*\bpooler\.|.*\b(?:position_ids|token_type_ids)$")
"""Weights of released checkpoints that no output depends on."""
_ENDINGS: Final = (".safetensors", ".bin", ".pth", ".pt")  # of files of weights, the preferred first
_PARTS: Final = "seeker_encoder|responder_encoder|attn|norm|rationale_classifier|empathy_classifier"
_REMEDY: Final = "download or copy it again, or choose another"
Span: TypeAlias = tuple[int, int]
"""Where a rationale begins and ends, in characters of the response."""


class BiEncoder:
    """EPITOME's network in float32, without dropout; made by :func:`open_biencoder`.

    ``n_cut`` counts the texts that were longer than :data:`MAX_TOKENS`.
    """

    labels = ("0", "1", "2")  # no, weak and strong communication, in the order of the columns

    def __init__(self, network: Any, tokenizer: Any, *, name: str, facts: dict[str, Any], batch_size: int) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self.name = name
        self.facts = facts
        self.n_cut = 0

    def probabilities(self, posts: Sequence[str], responses: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the probability of each level, shape (n, 3); rows sum to 1."""
        return self.read(posts, responses)[0]

    def read(
        self, posts: Sequence[str], responses: Sequence[str]
    ) -> tuple[npt.NDArray[np.float64], list[tuple[Span, ...]]]:
        """Return the probability of each level, shape (n, 3), and each response's rationale.

        The rationale are the tokens that the rationale head takes for one, neighbours together. It means something only
        at level 1 or 2: the released training data mark all of a response without the mechanism.
        """
        import torch

        if len(posts) != len(responses):
            raise ValueError(f"{len(posts)} posts and {len(responses)} responses: must be as many")
        levels, spans = np.empty((len(responses), len(self.labels))), []
        for start in range(0, len(responses), self._batch_size):
            rows = slice(start, start + self._batch_size)
            post, response = self._encode(posts[rows]), self._encode(responses[rows])
            with torch.inference_mode():
                of_levels, of_tokens = _forward(self._network, self._inputs(post), self._inputs(response))
            levels[rows] = of_levels.double().cpu().numpy()
            chosen = of_tokens.argmax(dim=-1).bool().cpu().numpy()
            for k, text in enumerate(responses[rows]):
                own = [at for at, is_special in enumerate(response["special_tokens_mask"][k]) if not is_special]
                places = [response["offset_mapping"][k][at] for at in own if chosen[k, at]]
                spans.append(_joined(text, places))
        unfit = np.flatnonzero(~np.isfinite(levels).all(axis=1))
        if len(unfit):
            raise ModelError(
                f"classifier {self.name}: its logits of {len(unfit)} of {len(levels)} texts are not finite (first: "
                f"text {unfit[0] + 1}); its weights may be damaged: {_REMEDY}"
            )
        return softmax(levels), spans

    def _encode(self, texts: Sequence[str]) -> Mapping[str, list[list[Any]]]:
        read = self._tokenizer
        given = [_pinned(text) for text in texts] if self.facts["lower_case"] else list(texts)
        self.n_cut += sum(len(ids) > MAX_TOKENS for ids in read(given, verbose=False)["input_ids"])
        encoded: Mapping[str, list[list[Any]]] = read(
            given,
            max_length=MAX_TOKENS,
            truncation=True,
            padding="max_length",
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=True,
            split_special_tokens=True,
        )
        if not self.facts["lower_case"]:
            return encoded
        return {
            **encoded,
            "offset_mapping": [[(max(a - 1, 0), b - 1) for a, b in own] for own in encoded["offset_mapping"]],
        }

    def _inputs(self, encoded: Mapping[str, list[list[Any]]]) -> tuple[Any, Any]:
        import torch

        where = self.facts["device"]
        return torch.tensor(encoded["input_ids"], device=where), torch.tensor(encoded["attention_mask"], device=where)


def open_biencoder(
    model: str,
    *,
    asked: str,
    encoder: str,
    lower_case: bool = False,
    revision: str | None = None,
    device: str = "cpu",
    batch_size: int = 16,
    download: bool = False,
) -> BiEncoder:
    """Load a checkpoint of EPITOME's classifier: a file of weights, or a folder or hub id that has them.

    ``encoder`` is a folder or hub id of the RoBERTa that it was trained from. Its sizes and its tokenizer are used
    where the checkpoint comes without its own. ``lower_case`` reads texts as the released code does with the version of
    transformers that it pins (2.7.0): in lower case, after a blank.
    """
    hush(asked)
    import transformers

    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: must be 1 or more")
    weights, files = _find_weights(model, asked=asked, revision=revision, download=download)
    base, settings = weights.parent, _settings(weights.parent)
    if settings.get("model_type") != "roberta" or not (base / "tokenizer_config.json").exists():
        what = f"{asked}: its encoder {encoder}"
        check = partial(check_model_folder, name=encoder, weights=False)
        found = find_folder(encoder, asked=what, revision=None, check=check, weights=False, download=download)
        base = found.folder
        settings = settings if settings.get("model_type") == "roberta" else _settings(base)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(base), local_files_only=True, trust_remote_code=False
        )
        network = _network(transformers.RobertaConfig.from_dict(settings))
        stored = _read(weights)
    except Exception as error:
        raise ModelError(f"{asked} cannot be loaded from {weights}: {unloadable(error, _REMEDY)}") from error
    _fill(network, stored, asked=asked, weights=weights)
    n_rows = network["responder_encoder"]["roberta"].get_input_embeddings().num_embeddings
    if not tokenizer.is_fast or len(tokenizer) > n_rows:
        raise ModelError(f"{asked}: the tokenizer in {base} is not one of its {n_rows} tokens; {_REMEDY}")
    try:
        network = network.to(device).eval()
    except Exception as error:
        raise ModelError(f"{asked}: {unloadable(error, 'choose another measures.device')}") from error
    facts = {
        **network_facts(model, files, network["responder_encoder"]["roberta"]),
        "max_tokens": MAX_TOKENS,
        "lower_case": lower_case,
        **stated_licence(files),
    }
    if base != files.folder:
        facts["encoder"] = {path.name: sha256(path) for path in sorted(base.glob("*.json"))}
    return BiEncoder(network, tokenizer, name=model, facts=facts, batch_size=batch_size)


def _find_weights(model: str, *, asked: str, revision: str | None, download: bool) -> tuple[Path, ModelFiles]:
    """Return the file of weights, and the model that it belongs to."""
    path = Path(os.path.expanduser(model))
    if path.is_file():
        refuse_revision(revision, asked)
        return path.resolve(), ModelFiles(path.resolve(), None)
    check = partial(check_model_folder, name=model, weights=False)
    files = find_folder(model, asked=asked, revision=revision, check=check, pickled=True, card=True, download=download)
    found = [path for ending in _ENDINGS for path in sorted(files.folder.glob(f"*{ending}"))]
    if not found:
        raise ModelError(
            f"{asked}: {files.folder} has no weights ({', '.join(f'*{each}' for each in _ENDINGS)}); {_REMEDY}"
        )
    return found[0], files


def _settings(folder: Path) -> dict[str, Any]:
    """Return a folder's config.json; empty if there is none."""
    path = folder / "config.json"
    if not path.is_file():
        return {}
    check_model_folder(folder, name=folder.name, weights=False)
    settings: dict[str, Any] = parse_json(read_file(path, at_most=LARGEST_TEXT), numbers_alone=False)
    return settings


def _network(config: Any) -> Any:
    """Return the network with random weights, its parts under the names of the released code."""
    from torch import nn, random
    from transformers import RobertaModel

    size = config.hidden_size
    with random.fork_rng(devices=[]):  # what the audited model draws must not depend on its scorers
        encoders = {
            name: nn.ModuleDict({"roberta": RobertaModel(config, add_pooling_layer=False)})
            for name in ("seeker_encoder", "responder_encoder")
        }
        return nn.ModuleDict(
            {
                **encoders,
                "attn": nn.ModuleDict(
                    {name: nn.Linear(size, size) for name in ("q_linear", "k_linear", "v_linear", "out")}
                ),
                "rationale_classifier": nn.Linear(size, 2),
                "empathy_classifier": nn.ModuleDict({"dense": nn.Linear(size, size), "out_proj": nn.Linear(size, 3)}),
            }
        )


def _forward(network: Any, post: tuple[Any, Any], response: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the logits of the levels, shape (n, 3), and of each of the response's tokens, shape (n, 64, 2).

    Each side comes as token ids and attention mask, shape (n, 64). As in the released code, the response also attends
    to the post's padding: its numbers depend on it, so both sides are always padded to 64 tokens.
    """
    seeker, responder = (
        network[name]["roberta"](input_ids=ids, attention_mask=mask).last_hidden_state
        for name, (ids, mask) in (("seeker_encoder", post), ("responder_encoder", response))
    )
    attention = network["attn"]
    queries, keys = attention["q_linear"](responder), attention["k_linear"](seeker)
    weights = (queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5).softmax(dim=-1)
    responder = responder + attention["out"](weights @ attention["v_linear"](seeker))
    head = network["empathy_classifier"]
    return head["out_proj"](head["dense"](responder[:, 0]).relu()), network["rationale_classifier"](responder)


def _read(weights: Path) -> dict[str, Any]:
    """Return the stored weights by name, without running anything that they contain."""
    if weights.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(weights))
    import torch

    stored = torch.load(weights, map_location="cpu", weights_only=True)
    if not isinstance(stored, dict) or not all(isinstance(each, torch.Tensor) for each in stored.values()):
        raise ValueError("it is not a state_dict, names with weights")
    return stored


def _fill(network: Any, stored: Mapping[str, Any], *, asked: str, weights: Path) -> None:
    """Load stored weights; raise ModelError unless they are those of the architecture."""
    named = {_name(name): weight.float() for name, weight in stored.items()}
    named = {name: weight for name, weight in named.items() if not _UNUSED.match(name)}
    own = network.state_dict()
    wrong = [
        *(f"has no {name}" for name in own if name not in named),
        *(f"has {name}" for name in named if name not in own),
        *(
            f"has {name} of shape {tuple(named[name].shape)}, not {tuple(own[name].shape)}"
            for name in own
            if name in named and named[name].shape != own[name].shape
        ),
    ]
    if wrong:
        raise ModelError(
            f"{asked}: {weights} is not EPITOME's bi-encoder: it {wrong[0]} ({len(wrong)} of {len(own)} weights differ)"
            "; choose one of its checkpoints, or a sequence classifier of pairs"
        )
    network.load_state_dict(named)


def _name(stored: str) -> str:
    """Return a weight's name in the released code: without what wraps the network, and with the encoders' own name."""
    name = re.sub(rf"^(?:\w+\.)*?(?=(?:{_PARTS})\.)", "", stored)
    return re.sub(r"^(seeker_encoder|responder_encoder)\.(?!roberta\.)", r"\1.roberta.", name)


def _pinned(text: str) -> str:
    """Return a text as the released code's tokenizer reads it; letters whose lower case is longer stay."""
    lower = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    return lower if lower[:1].isspace() else f" {lower}"


def _joined(text: str, places: Sequence[Span]) -> tuple[Span, ...]:
    """Join tokens with nothing but white space between them, and leave out white space around them."""
    joined: list[Span] = []
    for start, end in places:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    bare = [
        (start + len(own) - len(own.lstrip()), start + len(own.rstrip()))
        for start, end in joined
        for own in [text[start:end]]
    ]
    return tuple((start, end) for start, end in bare if start < end)
