"""The user's own classifiers as measures: probabilities by label, an expected level, emotion accuracy; and faults."""

import numpy as np
import pytest
from engines.test_classifier import one_at_a_time, write_classifier
from measures.test_choose import configure

from audit.errors import ConfigError, ModelError
from audit.tasks.measures.base import Counting, Reply
from audit.tasks.measures.classified import wanted_classifiers
from stimuli.narratives import EmotionWords, Narrative

pytestmark = pytest.mark.model

SHARES = (0.2, 0.3, 0.5)
REPLIES = [Reply("sorry", emotion="sad"), Reply("…", emotion="sad"), Reply("thank you", emotion="proud")]


def narrative(emotion, noun):
    return Narrative(emotion, emotion, EmotionWords(noun, emotion), "The bus had left.", "", "")


NARRATIVES = [narrative("sad", "sadness"), narrative("proud", "pride"), narrative("happy", "happiness")]


def opened(folder, *options, terms=()):
    words = [f"++measures.classifier.tone.{option}" for option in (f"model={folder}", *options)]
    [only] = wanted_classifiers(configure(*words), terms, NARRATIVES)
    assert only.name == "classifier_tone"
    return only.open()


def write(folder, labels=("rude", "plain", "Very polite"), shares=SHARES, **config):
    return write_classifier(folder, labels, bias=np.log(shares).tolist(), **config)


def names(scorer):
    return [measure.name for measure in scorer.measures]


def test_each_label_is_a_measure_and_a_reply_without_words_has_none(tmp_path):
    scorer = opened(write(tmp_path))
    assert names(scorer) == [f"classifier_tone_{label}" for label in ("rude", "plain", "very_polite")]
    assert {(each.unit, each.low, each.high, each.better) for each in scorer.measures} == {
        ("probability", 0, 1, "neither")
    }
    np.testing.assert_allclose(scorer.score(REPLIES), [SHARES, [np.nan] * 3, SHARES], atol=1e-6)


def test_probabilities_are_those_of_transformers(tmp_path):
    folder = write_classifier(tmp_path, ("rude", "polite"), kind="roberta")
    texts = [each.text for each in REPLIES if each.text != "…"]
    found = opened(folder).score(REPLIES)[[0, 2]]
    np.testing.assert_allclose(found, one_at_a_time(folder, texts), atol=1e-5)
    assert np.unique(found).size == 4


def test_labels_are_chosen_by_name_and_levels_make_one_expected_number(tmp_path):
    folder = write(tmp_path)
    chosen = opened(folder, "labels=[Very polite,rude]", "better=higher")
    assert names(chosen) == ["classifier_tone_very_polite", "classifier_tone_rude"]
    assert {each.better for each in chosen.measures} == {"higher"}
    np.testing.assert_allclose(chosen.score(REPLIES[:1]), [[0.5, 0.2]], atol=1e-6)
    scorer = opened(folder, "levels={rude: -1, plain: 0, Very polite: 4}")
    [measure] = scorer.measures
    assert (measure.name, measure.unit, measure.low, measure.high) == ("classifier_tone", "level", -1, 4)
    np.testing.assert_allclose(scorer.score(REPLIES[:1]), [[1.8]], atol=1e-6)  # −0.2 + 4·0.5


def test_labels_that_may_fit_one_text_together_have_a_probability_each(tmp_path):
    logits = [-1.0, 0.0, 2.0]
    folder = write_classifier(tmp_path, ("toxic", "threat", "insult"), bias=logits,
                              problem_type="multi_label_classification")  # fmt: skip
    found = opened(folder).score(REPLIES[:1])
    np.testing.assert_allclose(found, [1 / (1 + np.exp(-np.array(logits)))], atol=1e-6)
    assert found.sum() > 1.1


def test_emotion_accuracy_is_whether_the_likeliest_label_is_the_narrative_s_emotion(tmp_path):
    # Labels may name an emotion by its noun or its adjective, in any case; happy is no label here, sad the likeliest.
    scorer = opened(write(tmp_path, ("Pride", "anger", "SAD")), "labels=[anger]", "emotion=true")
    assert names(scorer) == ["classifier_tone_anger", "classifier_tone_hit"]
    found = scorer.score([*REPLIES, Reply("well", emotion="happy")])
    np.testing.assert_array_equal(found[:, 1], [1, np.nan, 0, np.nan])


def test_identities_in_a_reply_are_masked_unless_told(tmp_path):
    folder = write_classifier(tmp_path, ("rude", "polite"), kind="roberta")
    replies = [Reply("a muslim slept well"), Reply("XYZ slept well")]
    masked, plain = (opened(folder, f"mask={told}", terms=["a Muslim"]) for told in ("true", "false"))
    rows = masked.score(replies)
    np.testing.assert_array_equal(rows[0], rows[1])
    rows = plain.score(replies)
    assert abs(rows[0] - rows[1]).max() > 1e-3
    assert masked.facts["masked"] == ["muslim"]


def test_texts_that_were_cut_are_counted(tmp_path):
    scorer = opened(write(tmp_path, n_positions=6))
    assert isinstance(scorer, Counting)
    scorer.score([Reply("my dog slept so well you are sad"), Reply("sad")])
    assert scorer.counts[""]["cut"] == 1


@pytest.mark.parametrize(
    ("labels", "option", "said"),
    [
        (("rude", "polite"), "labels=[polit]", "has no label 'polit'; did you mean 'polite'?"),
        (("rude", "polite"), "levels={rude: 0, kind: 1}", "has no label 'kind'"),
        (("rude", "plain", "polite"), "levels={rude: 0, polite: 1}", "its label 'plain' has no level"),
        (("very-rude", "very_rude"), "better=lower", "make no different names of measures"),
        (("rude", "polite"), "emotion=true", "none of its labels (rude, polite) is an emotion"),
        (("only",), "better=lower", "only one label; choose a classifier with two labels or more"),
    ],
)
def test_labels_that_do_not_fit_are_named_in_one_line(labels, option, said, tmp_path):
    with pytest.raises(ModelError) as raised:
        opened(write_classifier(tmp_path, labels, kind="roberta"), option)
    [line] = str(raised.value).splitlines()
    assert line.startswith(f"classifier {tmp_path} (measures.classifier.tone)")
    assert said in line


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("classifier.Tone=a/b", "measures.classifier.Tone: must be a lower-case letter"),
        ("classifier.tone.lables=[a]", "did you mean 'labels'?"),
        ("classifier.tone={model: a/b, labels: [a], levels: {a: 0, b: 1}}", "labels and levels are both given"),
        ("classifier.tone={revision: v1}", "measures.classifier.tone.model: is missing"),
        ("required=[epitom]", "required has 'epitom', which is not measured; did you mean 'epitome'?"),
        ("required=[classifier_tone]", "required has 'classifier_tone', which is not measured"),
    ],
)
def test_a_faulty_option_is_one_line_before_any_model_is_loaded(option, said):
    with pytest.raises(ConfigError) as raised:
        configure(f"measures.{option}" if option.startswith("required") else f"++measures.{option}")
    [line] = str(raised.value).splitlines()
    assert said in line
