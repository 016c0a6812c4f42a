"""EPITOME's bi-encoder: against the published formulas in plain numpy, and what is no checkpoint of it."""

import json
import math
import shutil
from itertools import pairwise

import numpy as np
import pytest
from engines.test_classifier import write_classifier

from audit.engines.biencoder import MAX_TOKENS, open_biencoder
from audit.errors import ModelAbsentError, ModelError

pytestmark = pytest.mark.model

POSTS = ["i lost my dog", "the cat slept so well", "so sad " * 40]
RESPONSES = ["sorry you are sad", "thank you", "are you so sad " * 20]
HEADS = 2


def write_biencoder(folder, *, wrapped="", file="model.safetensors", heads=None, n_positions=66):
    """Write a checkpoint with the names of the released code, of fixed random weights, with its encoder's tokenizer.

    ``heads`` replaces weights by name.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, RobertaModel

    write_classifier(folder, kind="roberta", n_positions=n_positions)
    (folder / "model.safetensors").unlink()
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"architectures": ["BiEncoderAttentionWithRationaleClassification"], "num_attention_heads": HEADS}
    (folder / "config.json").write_text(json.dumps(settings))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2009)
        config = AutoConfig.from_pretrained(folder)
        weights = {}
        for side in ("seeker_encoder", "responder_encoder"):
            encoder = RobertaModel(config)
            weights |= {f"{side}.roberta.{name}": weight for name, weight in encoder.state_dict().items()}
            weights[f"{side}.roberta.embeddings.position_ids"] = torch.arange(n_positions + 2)[None]
        size = config.hidden_size
        for name, shape in [
            *((f"attn.{part}", (size, size)) for part in ("q_linear", "v_linear", "k_linear", "out")),
            ("rationale_classifier", (2, size)),
            ("empathy_classifier.dense", (size, size)),
            ("empathy_classifier.out_proj", (3, size)),
        ]:
            weights[f"{name}.weight"], weights[f"{name}.bias"] = torch.randn(shape) / 4, torch.randn(shape[0]) / 4
        weights |= {"norm.alpha": torch.ones(size), "norm.bias": torch.zeros(size)}  # defined, and used nowhere
    weights |= {name: torch.as_tensor(weight, dtype=torch.float32) for name, weight in (heads or {}).items()}
    weights = {f"{wrapped}{name}": weight.detach().clone().contiguous() for name, weight in weights.items()}
    if file.endswith(".safetensors"):
        save_file(weights, folder / file)
    else:
        torch.save(weights, folder / file)
    return folder


def opened(folder, **options):
    return open_biencoder(str(folder), asked="EPITOME's classifier", encoder="a/b", **options)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_biencoder(tmp_path_factory.mktemp("epitome"))


# --- The published formulas, without torch's layers


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(x, w, name, eps=1e-12):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def roberta(w, ids, mask):
    """Return the hidden states of a RoBERTa of one layer; positions are counted from the padding index, 1."""
    positions = np.where(mask == 1, np.cumsum(mask) + 1, 1)
    x = sum(w[f"embeddings.{name}.weight"][at] for name, at in
            (("word_embeddings", ids), ("position_embeddings", positions), ("token_type_embeddings", 0)))  # fmt: skip
    x = layer_norm(x, w, "embeddings.LayerNorm")
    at = "encoder.layer.0."
    q, k, v = (linear(x, w, f"{at}attention.self.{name}") for name in ("query", "key", "value"))
    size = q.shape[1] // HEADS
    heads = []
    for start, end in pairwise(range(0, q.shape[1] + 1, size)):
        scores = q[:, start:end] @ k[:, start:end].T / math.sqrt(size)
        heads.append(softmax(np.where(mask == 1, scores, -1e30)) @ v[:, start:end])
    attended = linear(np.hstack(heads), w, f"{at}attention.output.dense")
    x = layer_norm(x + attended, w, f"{at}attention.output.LayerNorm")
    middle = linear(x, w, f"{at}intermediate.dense")
    middle = middle * 0.5 * (1 + np.vectorize(math.erf)(middle / math.sqrt(2)))
    return layer_norm(x + linear(middle, w, f"{at}output.dense"), w, f"{at}output.LayerNorm")


def by_formula(folder, post, response):
    """Return the probabilities of the levels, and whether each of the response's 64 tokens is in its rationale."""
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    w = {name: weight.astype(np.float64) for name, weight in load_file(folder / "model.safetensors").items()}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    hidden = []
    for side, text in (("seeker_encoder", post), ("responder_encoder", response)):
        ids = tokenizer(text)["input_ids"]
        ids = ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]
        mask = np.array([1] * len(ids) + [0] * (MAX_TOKENS - len(ids)))
        own = {name.removeprefix(f"{side}.roberta."): weight for name, weight in w.items() if name.startswith(side)}
        hidden.append(roberta(own, np.array(ids + [1] * (MAX_TOKENS - len(ids))), mask))
    seeker, responder = hidden
    q, k, v = (linear(x, w, f"attn.{name}_linear") for name, x in (("q", responder), ("k", seeker), ("v", seeker)))
    found = softmax(q @ k.T / math.sqrt(q.shape[1])) @ v  # without a mask: the post's padding is attended to
    responder = responder + linear(found, w, "attn.out")
    head = linear(np.maximum(linear(responder[0], w, "empathy_classifier.dense"), 0), w, "empathy_classifier.out_proj")
    return softmax(head), linear(responder, w, "rationale_classifier").argmax(axis=1) == 1


def test_levels_and_rationales_are_those_of_the_published_formulas(checkpoint):
    levels, spans = opened(checkpoint, batch_size=2).read(POSTS, RESPONSES)
    for post, response, own, rationale in zip(POSTS, RESPONSES, levels, spans, strict=True):
        expected, chosen = by_formula(checkpoint, post, response)
        np.testing.assert_allclose(own, expected, atol=1e-5)
        words = response.split()[: MAX_TOKENS - 2]  # a token a word, after the first special one
        marked = " ".join(response[start:end] for start, end in rationale)
        assert marked.split() == [word for word, is_in in zip(words, chosen[1:], strict=False) if is_in]
    assert len(np.unique(levels.round(3), axis=0)) == 3
    assert any(spans)


def test_a_response_is_read_beside_its_post_and_texts_over_64_tokens_are_counted(checkpoint):
    classifier = opened(checkpoint)
    levels = classifier.probabilities([*POSTS[:2], POSTS[0]], ["thank you"] * 3)
    np.testing.assert_array_equal(levels[0], levels[2])
    assert abs(levels[0] - levels[1]).max() > 1e-3
    assert classifier.n_cut == 0
    classifier.read([POSTS[2]], [RESPONSES[2]])
    assert classifier.n_cut == 2
    assert classifier.labels == ("0", "1", "2")


def test_it_neither_draws_from_nor_resets_the_random_numbers_of_the_audited_model(checkpoint):
    import torch

    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    opened(checkpoint)
    assert torch.rand(1) == expected


@pytest.mark.parametrize("form", ["released file", "wrapped", "without roberta", "half", "lone file"])
def test_a_checkpoint_has_the_same_levels_in_every_form(form, checkpoint, tmp_path):
    import torch
    from safetensors.torch import load_file

    weights = load_file(checkpoint / "model.safetensors")
    expected = opened(checkpoint).probabilities(POSTS, RESPONSES)
    folder = shutil.copytree(checkpoint, tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors"))
    path, options = folder, {}
    match form:
        case "wrapped":
            weights = {f"module.{name}": weight for name, weight in weights.items()}
        case "without roberta":
            weights = {name.replace("_encoder.roberta.", "_encoder."): weight for name, weight in weights.items()}
        case "half":
            weights = {name: weight.bfloat16() if weight.is_floating_point() else weight
                       for name, weight in weights.items()}  # fmt: skip
        case "lone file":
            path, options = tmp_path / "reddit_EX.pth", {"encoder": str(folder)}
    torch.save(weights, path / "reddit_EX.pth" if path is folder else path)
    options = {"encoder": "a/b", **options}
    read = open_biencoder(str(path), asked="", **options).probabilities(POSTS, RESPONSES)
    np.testing.assert_allclose(read, expected, atol=0.2 if form == "half" else 1e-6)


def test_texts_are_read_as_the_pinned_release_does_if_told(checkpoint):
    shouted = [text.upper() for text in RESPONSES]
    plain, lower = opened(checkpoint), opened(checkpoint, lower_case=True)
    (levels, spans), expected = lower.read(POSTS, shouted), plain.read(POSTS, RESPONSES)
    np.testing.assert_allclose(levels, expected[0], atol=1e-6)
    assert spans == expected[1]
    assert abs(plain.probabilities(POSTS, shouted) - levels).max() > 1e-3
    assert lower.facts["lower_case"] is True


def fault(folder, **options):
    with pytest.raises(ModelError) as raised:
        opened(folder, **options)
    [line] = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize(
    "spoil", ["another network", "a lost head", "another size", "no tensors", "code", "no weights"]
)
def test_what_is_no_checkpoint_is_named_in_one_line(spoil, checkpoint, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoint, tmp_path / "copy")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    match spoil:
        case "another network":
            save_file({"roberta.encoder.weight": torch.ones(2)}, folder / "model.safetensors")
            said = "is not EPITOME's bi-encoder: it has no seeker_encoder.roberta."
        case "a lost head":
            kept = {name: own for name, own in weights.items() if name != "empathy_classifier.out_proj.bias"}
            save_file(kept, folder / "model.safetensors")
            said = "it has no empathy_classifier.out_proj.bias (1 of"
        case "another size":
            save_file(weights | {"attn.out.bias": torch.ones(3)}, folder / "model.safetensors")
            said = "it has attn.out.bias of shape (3,), not (16,) (1 of"
        case "no tensors":
            torch.save({"epoch": 3}, folder / "reddit.pth")
            said = "it is not a state_dict"
        case "code":
            torch.save({"weights": shutil.rmtree}, folder / "reddit.pth")
            said = "would run code on this machine"
        case "no weights":
            said = f"{folder} has no weights (*.safetensors, *.bin, *.pth, *.pt)"
    line = fault(folder)
    assert line.startswith("EPITOME's classifier")
    assert said in line


def test_an_encoder_that_is_not_there_says_how_to_get_it(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    lone = shutil.copy(checkpoint / "model.safetensors", tmp_path / "reddit.safetensors")
    with pytest.raises(
        ModelAbsentError, match="its encoder a/b is not on this machine; to download it: hf download a/b"
    ):
        opened(lone)


def test_a_stated_licence_is_a_fact(checkpoint, tmp_path):
    assert "licence" not in opened(checkpoint).facts
    folder = shutil.copytree(checkpoint, tmp_path / "copy")
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: CC-BY-NC-4.0\n---\nlicense: mit\n")
    assert opened(folder).facts["licence"] == "cc-by-nc-4.0"
