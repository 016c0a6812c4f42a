import numpy as np
import pytest
from engines.test_classifier import write_classifier

from audit.errors import ConfigError, ModelAbsentError, ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.measures.eq import HYPOTHESES, open_eq

pytestmark = pytest.mark.model

TEXTS = ["sorry you lost the cat", "thank you", "i so", "the cat slept so well you are sad"]
# Of words that the tiny models know.
OWN = {"emotion": "you are so sad", "perspective": "i lost the cat", "advice": "thank you well"}
REPLIES = [Reply(text) for text in TEXTS]


def refused(model, **options):
    with pytest.raises(ModelError) as raised:
        open_eq(str(model), **options)
    [line] = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("bart", ("contradiction", "neutral", "entailment")),
        ("bert", ("Entailment", "NEUTRAL", "Contradiction")),
        ("roberta", ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")),
    ],
)
def test_parts_are_those_of_the_zero_shot_pipeline_and_eq_their_mean(kind, labels, tmp_path):
    from transformers import pipeline

    write_classifier(tmp_path, labels, kind=kind)
    zero_shot = pipeline("zero-shot-classification", model=str(tmp_path), device="cpu")
    expected = []
    for text in TEXTS:
        found = zero_shot(text, list(OWN.values()), hypothesis_template="{}", multi_label=True)
        of = dict(zip(found["labels"], found["scores"], strict=True))
        parts = [of[OWN[part]] for part in ("emotion", "perspective", "advice")]
        expected.append([*parts, sum(parts) / 3])
    scorer = open_eq(str(tmp_path), hypotheses=OWN, batch_size=5)
    scores = scorer.score(REPLIES)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.ptp(scores, axis=0).min() > 0.01  # replies are told apart
    assert np.ptp(scores[:, :3], axis=1).min() > 0.01  # and so are hypotheses
    assert [measure.name for measure in scorer.measures] == ["eq_emotion", "eq_perspective", "eq_advice", "eq"]


def test_contradiction_is_found_by_its_name_and_neutral_counts_for_nothing(tmp_path):
    # Weights of 3, 1 and 100: 3/4. The pipeline would take the last label for contradiction: 3/103.
    write_classifier(tmp_path, ["entailment", "contradiction", "neutral"], bias=np.log([3, 1, 100]).tolist())
    np.testing.assert_allclose(open_eq(str(tmp_path)).score(REPLIES), np.full((4, 4), 0.75), atol=1e-6)


def test_a_reply_without_a_word_has_no_score_and_alters_no_other(tmp_path):
    scorer = open_eq(str(write_classifier(tmp_path)), hypotheses=OWN)
    scores = scorer.score([Reply(""), REPLIES[0], Reply(" \n"), Reply("… — _ 🙂"), REPLIES[1]])
    assert np.isnan(scores).tolist() == [[True] * 4, [False] * 4, [True] * 4, [True] * 4, [False] * 4]
    np.testing.assert_allclose(scores[[1, 4]], scorer.score(REPLIES[:2]), atol=1e-6)
    assert np.isnan(scorer.score([Reply("!")])).all()
    assert scorer.score([]).shape == (0, 4)


def test_facts_hold_the_hypotheses_that_were_asked_and_measures_are_called_circular(tmp_path):
    write_classifier(tmp_path)
    ours, own = open_eq(str(tmp_path)), open_eq(str(tmp_path), hypotheses=OWN)
    assert (ours.facts["hypotheses"], own.facts["hypotheses"]) == (dict(HYPOTHESES), OWN)
    assert ours.facts["name"] == str(tmp_path)
    assert ours.facts["files"].keys() >= {"model.safetensors", "config.json"}
    assert all((m.unit, m.low, m.high, m.better) == ("probability", 0, 1, "higher") for m in ours.measures)
    assert all("Circular for ECN" in measure.caution for measure in ours.measures)


def test_a_long_reply_is_cut_and_its_hypothesis_is_not(tmp_path):
    # Twelve tokens, three of which begin, part and end: with a hypothesis of three words, six of the reply are read.
    write_classifier(tmp_path, n_positions=12)
    scorer = open_eq(str(tmp_path), hypotheses=dict.fromkeys(OWN, "thank you well"))
    long, short = scorer.score([Reply("my dog slept so well you are the cat"), Reply("my dog slept so well you")])
    np.testing.assert_allclose(long, short, atol=1e-6)
    assert scorer.counts == {"": {"cut": 1}}


def test_a_reply_that_is_cut_with_some_hypotheses_is_counted_once(tmp_path):
    # Twelve tokens: of a reply nine less the hypothesis' words are read, so eight, six and two.
    scorer = open_eq(
        str(write_classifier(tmp_path, n_positions=12)),
        hypotheses={"emotion": "sad", "perspective": "thank you well", "advice": "i lost my dog you are so"},
    )
    assert scorer.counts == {"": {"cut": 0}}
    scorer.score([Reply("so sad"), Reply("my dog slept"), Reply("my dog slept so well you are"), Reply("sad " * 9)])
    assert scorer.counts == {"": {"cut": 3}}  # 1, 2 and 3 of them with each hypothesis
    scorer.score([Reply("thank you well")])
    assert scorer.counts == {"": {"cut": 4}}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["negative", "positive"], "of its labels (negative, positive) 0 begin with 'contra'"),
        (["entailment", "not_entailment"], "of its labels (entailment, not_entailment) 0 begin with 'contra'"),
        (["contradiction", "LABEL_1"], "of its labels (contradiction, LABEL_1) 0 begin with 'entail'"),
        (["contra", "entailed", "entails"], "of its labels (contra, entailed, entails) 2 begin with 'entail'"),
    ],
)
def test_labels_that_are_not_those_of_inference_are_named(labels, said, tmp_path):
    assert refused(write_classifier(tmp_path, labels)).startswith(f"EQ's NLI model {tmp_path}: {said}")


def test_an_absent_model_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelAbsentError, match=r"hf download facebook/bart-large-mnli$"):
        open_eq()


@pytest.mark.parametrize(
    ("hypotheses", "said"),
    [
        ({**OWN, "emotions": "x"}, "unknown part 'emotions'; did you mean 'emotion'?"),
        ({"emotion": "x"}, "the part 'perspective' needs a hypothesis"),
        ({**OWN, "advice": " "}, "the part 'advice' needs a hypothesis"),
    ],
)
def test_hypotheses_that_are_not_of_the_three_parts_are_refused(hypotheses, said):
    with pytest.raises(ConfigError) as raised:
        open_eq("no-such-folder", hypotheses=hypotheses)
    assert said in str(raised.value)
