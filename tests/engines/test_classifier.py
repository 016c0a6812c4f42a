import hashlib
import json
import shutil

import numpy as np
import pytest

from audit.engines.classifier import open_classifier, softmax
from audit.errors import ModelAbsentError, ModelError

pytestmark = pytest.mark.model

WORDS = ["i", "lost", "my", "dog", "you", "are", "so", "sad", "sorry", "the", "cat", "slept", "well", "thank", "XYZ"]
WORDS += ["a", "muslim", "black", "person", "/", "s", "<", ">"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
LABELS = ("contradiction", "neutral", "entailment")
TEXTS = ["i lost my dog", "sorry", "the cat slept so well you are sad", "thank you", "my dog slept"]
PAIRS = ["the cat slept", "i lost my dog thank you", "so sad", "well", "you are the cat"]


def write_classifier(folder, labels=LABELS, *, kind="bert", bias=None, n_positions=24, n_embedded=None, **config):
    """Write a one-layer BERT, RoBERTa, BART or GPT-2 of fixed random weights that classifies texts and pairs.

    With ``bias``, its logits are these whatever it reads.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        AutoConfig,
        AutoModelForSequenceClassification,
        PreTrainedTokenizerFast,
    )

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if kind == "bert" else [])],
        # Of RoBERTa's positions, the first two are not for tokens: its tokenizers may leave that to the network.
        **({} if kind == "roberta" else {"model_max_length": n_positions}),
    ).save_pretrained(folder)
    sizes = {
        "bart": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
        | {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "init_std": 0.5},
        "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.5},
    }.get(kind, {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32})
    own = {
        "vocab_size": n_embedded or len(vocabulary),
        "max_position_embeddings": n_positions + 2 * (kind == "roberta"),
        "initializer_range": 0.5,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20190902)
        network = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(kind, **own | sizes | config))
    if bias is not None:
        network.classifier.weight.data.zero_()
        network.classifier.bias.data = torch.tensor(bias, dtype=torch.float32)
    network.save_pretrained(folder)
    return folder


def one_at_a_time(folder, texts, pairs=None, **options):
    """Return the probabilities by transformers itself, without batches."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        given = [(text,) for text in texts] if pairs is None else zip(texts, pairs, strict=True)
        read = [tokenizer(*each, return_tensors="pt", **options) for each in given]
        return np.array([network(**each).logits[0].double().softmax(0).numpy() for each in read])


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def copy(bert, tmp_path):
    return shutil.copytree(bert, tmp_path / "copy")


def refused(model, **options):
    with pytest.raises(ModelError) as raised:
        open_classifier(str(model), **options)
    [line] = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize("kind", ["bert", "roberta", "bart", "gpt2"])
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["single", "pairs"])
def test_probabilities_are_those_of_transformers_in_the_order_of_the_texts(kind, pairs, tmp_path):
    write_classifier(tmp_path, kind=kind)
    expected = one_at_a_time(tmp_path, TEXTS, pairs)
    for batch_size in (1, 2, 16):
        classifier = open_classifier(str(tmp_path), batch_size=batch_size)
        shares = classifier.probabilities(TEXTS, pairs)
        np.testing.assert_allclose(shares, expected, atol=1e-5)
    assert shares.dtype == np.float64
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
    assert np.ptp(shares, axis=0).max() > 0.01  # the texts are told apart
    assert (classifier.labels, classifier.n_cut) == (LABELS, 0)


@pytest.mark.parametrize("spoil", [{"pad_token_id": None}, {"pad_token_id": 2}], ids=["no padding", "another padding"])
def test_a_network_that_pads_otherwise_than_its_tokenizer_reads_the_texts_one_by_one(spoil, tmp_path):
    write_classifier(tmp_path, kind="gpt2", **spoil)
    shares = open_classifier(str(tmp_path)).probabilities(TEXTS)
    np.testing.assert_allclose(shares, one_at_a_time(tmp_path, TEXTS), atol=1e-5)


def test_no_texts_have_no_rows(bert):
    assert open_classifier(str(bert)).probabilities([]).shape == (0, 3)


def test_pairs_of_another_number_are_refused(bert):
    with pytest.raises(ValueError, match="5 texts and 1 pairs"):
        open_classifier(str(bert)).probabilities(TEXTS, ["one"])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_what_is_too_long_loses_the_end_of_the_text_and_is_counted(kind, tmp_path):
    write_classifier(tmp_path, kind=kind, n_positions=10)
    classifier = open_classifier(str(tmp_path))
    assert classifier.facts["max_tokens"] == 10
    # Three tokens begin, part and end a pair: seven words fit.
    texts = ["my dog " * 3, "my dog " * 4, "my dog", "my dog slept"]
    pairs = ["cat", "cat slept", "cat " * 6, "cat slept so well you are sad sorry thank you"]
    read = ["my dog " * 3, "my dog " * 2 + "my", "my", "my dog slept"]
    paired = ["cat", "cat slept", "cat " * 6, "cat slept so well"]
    shares = classifier.probabilities(texts, pairs)
    np.testing.assert_allclose(shares, one_at_a_time(tmp_path, read, paired), atol=1e-5)
    assert classifier.n_cut == 3
    np.testing.assert_allclose(  # two tokens: eight words
        classifier.probabilities(["my dog " * 5, "cat"]), one_at_a_time(tmp_path, ["my dog " * 4, "cat"]), atol=1e-5
    )
    assert classifier.n_cut == 4


def test_a_special_token_in_a_text_is_read_as_its_characters(tmp_path):
    # BART finds a text's end by </s>, and cannot read texts together that hold different numbers of it.
    write_classifier(tmp_path, kind="bart")
    texts = ["my </s> dog", "my <pad> dog", "my < / s > dog"]
    shares = open_classifier(str(tmp_path)).probabilities(texts)
    np.testing.assert_allclose(shares, one_at_a_time(tmp_path, texts, split_special_tokens=True), atol=1e-5)
    assert np.abs(shares[0] - one_at_a_time(tmp_path, ["my </s> dog"])[0]).max() > 1e-3


def test_softmax_is_the_hand_worked_one():
    # ln 1, ln 2 and ln 5 are weights of 1, 2 and 5, of 8; e^2000 is too large for a float.
    shares = softmax(np.array([np.log([1, 2, 5]), [2000.0, 0, 2000]]))
    np.testing.assert_allclose(shares, [[0.125, 0.25, 0.625], [0.5, 0, 0.5]], atol=1e-15)


def test_facts_tell_the_model_and_do_not_change_with_its_use(bert, capfd):
    import transformers

    classifier = open_classifier(str(bert))
    expected = {
        "name": str(bert),
        "revision": None,
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(bert.iterdir())},
        "library": f"transformers {transformers.__version__}",
        "device": "cpu",
        "dtype": "float32",
        "max_tokens": 24,
        "labels": list(LABELS),
    }
    assert classifier.facts == expected
    classifier.probabilities(["my dog " * 40])
    assert classifier.facts == json.loads(json.dumps(expected))
    assert capfd.readouterr() == ("", "")


def test_weights_of_half_precision_are_read_as_float32(copy):
    import torch
    from safetensors.torch import load_file, save_file

    halves = {name: weights.to(torch.bfloat16) for name, weights in load_file(copy / "model.safetensors").items()}
    save_file(halves, copy / "model.safetensors", metadata={"format": "pt"})
    assert open_classifier(str(copy)).facts["dtype"] == "float32"


def test_pickled_weights_are_read_without_running_them(copy, bert):
    import torch
    from safetensors.torch import load_file

    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(weights, copy / "pytorch_model.bin")
    own, its = (open_classifier(str(folder)).probabilities(TEXTS) for folder in (copy, bert))
    np.testing.assert_array_equal(own, its)

    class Evil:
        def __reduce__(self):
            return open, (str(copy / "ran"), "w")

    torch.save(weights | {"evil": Evil()}, copy / "pytorch_model.bin")
    assert "cannot be loaded" in refused(copy)
    assert not (copy / "ran").exists()


@pytest.mark.parametrize(
    ("architectures", "named"),
    [(["BertForMaskedLM"], "BertForMaskedLM"), ([], "no architecture"), (None, "no architecture")],
)
def test_another_kind_of_model_is_refused_by_its_name(architectures, named, copy):
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": architectures}))
    assert refused(copy) == (
        f"classifier {copy}: config.json in {copy} names {named}, so it is not a sequence classifier; "
        "choose a model ...ForSequenceClassification"
    )


def test_a_head_that_is_missing_is_not_made_up(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    del weights["classifier.weight"], weights["classifier.bias"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert f"2 weights are missing in {copy} (first: classifier.bias): it may not be trained" in refused(copy)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"labels": ["score"]}, "it has only one label"),
        ({"problem_type": "multi_label_classification"}, "it has labels for multi_label_classification"),
        ({"n_embedded": 20}, "has more tokens than the 20 embedded"),
    ],
)
def test_a_classifier_that_can_not_be_used_is_refused(wrong, said, tmp_path):
    assert said in refused(write_classifier(tmp_path, **wrong))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_one_line(name, copy):
    (copy / name).write_bytes(b"{damaged")
    assert refused(copy).startswith(f"classifier {copy} cannot be loaded from {copy}: ")


def test_weights_that_are_not_finite_are_not_scored(tmp_path):
    classifier = open_classifier(str(write_classifier(tmp_path, bias=[0, float("nan"), 0])))
    with pytest.raises(ModelError, match=r"logits of 5 of 5 texts are not finite \(first: text 1\)"):
        classifier.probabilities(TEXTS)


def test_a_model_that_is_absent_is_named_as_it_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ModelAbsentError,
        match=r"^the judge a/b is not on this machine; to download it: hf "
        r"download a/b$",
    ):
        open_classifier("a/b", asked="the judge a/b")


def test_a_folder_without_configuration_is_no_model(tmp_path):
    assert refused(tmp_path) == (
        f"model {tmp_path}: {tmp_path} has no config.json, so it is not a model folder; "
        "give the folder that has config.json and the weights"
    )


def test_a_batch_of_none_is_refused_before_anything_is_loaded():
    with pytest.raises(ValueError, match="batch_size=0: must be 1 or more"):
        open_classifier("no-such-folder", batch_size=0)
