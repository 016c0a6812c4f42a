import hashlib
import json
import shutil

import pytest

from audit.engines.comet import head_of, infer
from audit.errors import ModelError
from stimuli.narratives import EmotionWords, Narrative

pytestmark = pytest.mark.model

WORDS = ["PersonX", "lost", "a", "dog", "won", "the", "race", "slept", "to", "rest", "find", "it", "sad", "none"]
WORDS += ["[", "GEN", "]"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
RELATIONS = ("xIntent", "xReact")
HEADS = ["PersonX lost a dog", "PersonX won the race", "PersonX slept", "PersonX won a dog to find it"]


def write_comet(folder, *, marks=RELATIONS, n_embedded=None):
    """Write a one-layer BART of fixed random weights that reads 16 tokens, with a token for each mark."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    fast.add_tokens(list(marks))
    fast.save_pretrained(folder)
    size = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(
        vocab_size=n_embedded or len(fast),
        d_model=16,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=16,
        init_std=0.5,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        **size,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20201012)
        BartForConditionalGeneration(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def comet(tmp_path_factory):
    return write_comet(tmp_path_factory.mktemp("comet"))


@pytest.fixture
def copy(comet, tmp_path):
    return shutil.copytree(comet, tmp_path / "copy")


@pytest.fixture
def scripted(monkeypatch):
    """Return a function that makes the network write given texts, and the list of calls it then got."""
    import torch
    from transformers import BartForConditionalGeneration

    calls = []

    def script(*texts):
        ids = [[2, *[len(SPECIAL) + WORDS.index(word) for word in text.split()]] for text in texts]
        width = max(map(len, ids))

        def generate(self, **given):
            calls.append(given)
            return torch.tensor([row + [1] * (width - len(row)) for row in ids])

        monkeypatch.setattr(BartForConditionalGeneration, "generate", generate)
        return calls

    return script


def texts_of(model, **settings):
    return infer(HEADS, relations=RELATIONS, model=str(model), **{"max_tokens": 6, **settings}).texts


def refused(model, **settings):
    with pytest.raises(ModelError) as raised:
        texts_of(model, **settings)
    [line] = str(raised.value).splitlines()
    return line


def test_the_libraries_that_read_it_are_quiet(comet, monkeypatch):
    hushed = []
    monkeypatch.setattr("audit.engines.comet.hush", lambda _: hushed.append(True))
    texts_of(comet)
    assert hushed == [True]


@pytest.mark.parametrize(("n", "max_tokens"), [(1, 6), (3, 4)])
def test_inferences_are_those_of_a_beam_search_after_head_relation_and_gen(n, max_tokens, comet):
    # Oracle: transformers asked directly, one head and relation at a time, without padding.
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(comet), AutoModelForSeq2SeqLM.from_pretrained(comet).eval()
    expected = []
    for head in HEADS:
        expected.append({})
        for relation in RELATIONS:
            ids = tokenizer(f"{head} {relation} [GEN]", return_tensors="pt")["input_ids"]
            rows = network.generate(input_ids=ids, num_beams=n, num_return_sequences=n, max_new_tokens=max_tokens)
            tails = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in rows]
            assert len(tails) == n
            expected[-1][relation] = "; ".join(dict.fromkeys(tail for tail in tails if tail and tail != "none"))
    texts = texts_of(comet, n=n, max_tokens=max_tokens)
    assert texts == expected
    assert len({text for own in texts for text in own.values()}) > len(HEADS)  # they are not all the same


def test_batches_alter_nothing(comet):
    assert texts_of(comet, batch_size=1) == texts_of(comet, batch_size=4)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["to rest", "none", "to rest", "", "sad"], "to rest; sad"),
        (["none", "", "none", "none", ""], "none"),
        (["", "", "", "", ""], ""),
    ],
    ids=["some", "none alone", "nothing"],
)
def test_repeated_and_empty_inferences_are_left_out_and_none_unless_it_is_all(written, kept, comet, scripted):
    [call] = [scripted(*written)]
    inferred = infer(["PersonX slept"], relations=["xReact"], model=str(comet), n=5, max_tokens=7)
    assert inferred.texts == [{"xReact": kept}]
    assert [(c["num_beams"], c["num_return_sequences"], c["max_new_tokens"], c["do_sample"]) for c in call] == [
        (5, 5, 7, False)
    ]


def test_a_head_that_is_too_long_loses_its_end_and_keeps_its_mark(comet, scripted):
    from transformers import AutoTokenizer

    calls = scripted("sad")
    heads = ["PersonX slept", "PersonX " + "won the race " * 20]
    facts = infer(heads, relations=["xReact"], model=str(comet), n=1, max_tokens=2, batch_size=1).facts
    asked = [AutoTokenizer.from_pretrained(comet).decode(call["input_ids"][0]) for call in calls]
    # 16 tokens: the two that begin and end, mark, [, GEN, ] and ten words of the head.
    assert asked == [
        "<s> PersonX slept xReact [ GEN ] </s>",
        "<s> PersonX" + " won the race" * 3 + " xReact [ GEN ] </s>",
    ]
    assert (facts["max_tokens"], facts["n_cut"]) == (16, 1)


def test_facts_tell_the_model(comet):
    import transformers

    facts = infer(HEADS, relations=RELATIONS, model=str(comet), max_tokens=2).facts
    assert facts == {
        "name": str(comet),
        "revision": None,
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(comet.iterdir())},
        "library": f"transformers {transformers.__version__}",
        "device": "cpu",
        "max_tokens": 16,
        "n_cut": 0,
    }


def test_a_model_s_own_generation_settings_are_not_used(copy, comet):
    path = copy / "generation_config.json"
    own = {"num_beams": 4, "no_repeat_ngram_size": 1, "length_penalty": 5.0, "min_length": 12, "max_length": 14}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    assert texts_of(copy) == texts_of(comet)


def test_pickled_weights_are_read_without_running_them(copy, comet):
    import torch
    from safetensors.torch import load_file

    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(weights, copy / "pytorch_model.bin")
    assert texts_of(copy) == texts_of(comet)

    class Evil:
        def __reduce__(self):
            return open, (str(copy / "ran"), "w")

    torch.save(weights | {"evil": Evil()}, copy / "pytorch_model.bin")
    assert "cannot be loaded" in refused(copy)
    assert not (copy / "ran").exists()


def test_a_relation_that_is_no_token_of_its_own_is_refused(tmp_path):
    line = refused(write_comet(tmp_path, marks=["xReact"]))
    assert (
        f"COMET model {tmp_path}: its tokenizer has no token 'xIntent', so it was not trained on that relation" in line
    )


def test_a_causal_model_is_no_comet_model(tiny_model):
    assert f"the llama in {tiny_model} is not an encoder-decoder (it may be a causal model)" in refused(tiny_model)


def test_a_tokenizer_of_more_tokens_than_are_embedded_is_refused(tmp_path):
    n_embedded = len(SPECIAL) + len(WORDS)
    line = refused(write_comet(tmp_path, n_embedded=n_embedded))
    assert f"has more tokens than the {n_embedded} embedded" in line


def test_more_tokens_than_the_model_can_write_are_refused(comet):
    assert "writes fewer than 16 tokens; lower strategy.knowledge.max_tokens=16" in refused(comet, max_tokens=16)


def test_weights_that_are_missing_are_not_made_up(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    weights.pop("model.decoder.layers.0.fc1.weight")
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert f"1 weights are missing in {copy} (first: model.decoder.layers.0.fc1.weight)" in refused(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_one_line(name, copy):
    (copy / name).write_bytes(b"{damaged")
    assert f"COMET model {copy} cannot be loaded from {copy}: " in refused(copy)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("no-such-folder", "COMET model no-such-folder is neither a folder on this machine nor a hub id (OWNER/NAME)"),
        (
            "nobody/no-such",
            "COMET model nobody/no-such: is not a folder here and could not be downloaded from the hub (",
        ),
    ],
)
def test_a_model_that_is_not_there_is_named(model, said):
    assert refused(model).startswith(said)


def test_a_folder_without_configuration_is_no_model(tmp_path):
    assert refused(tmp_path) == (
        f"model {tmp_path}: {tmp_path} has no config.json, so it is not a model folder; "
        "give the folder that has config.json and the weights"
    )


@pytest.mark.parametrize("wrong", [{"n": 0}, {"max_tokens": 0}, {"batch_size": 0}])
def test_numbers_below_one_are_refused_before_anything_is_loaded(wrong):
    with pytest.raises(ValueError, match="=0: must be at least 1"):
        infer(HEADS, relations=RELATIONS, model="no-such-folder", **wrong)


@pytest.mark.parametrize(
    ("wordings", "head"),
    [
        (("N.", "I slept.", "The person slept. The person woke."), "PersonX slept. The person woke."),
        (("N.", "I slept.", "The person's dog died."), "PersonX's dog died."),
        (("N.", "I slept.", "The personal assistant slept."), "The personal assistant slept."),
        (("N.", "I slept.", ""), "N."),
        (("", "I slept.", ""), "I slept."),
    ],
)
def test_the_person_of_a_narrative_is_personx(wordings, head):
    assert head_of(Narrative("n1", "joy", EmotionWords("joy", "joyful"), *wordings)) == head
