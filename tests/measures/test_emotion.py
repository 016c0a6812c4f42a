"""Emotions named in replies, against sentences read by hand; labels of answers; which replies have no number."""

import json
import time

import numpy as np
import pytest

from audit.tasks.measures.base import Reply
from audit.tasks.measures.emotion import EMOTION, EmotionScorer, label_of, named_emotions, vocabulary_of
from audit.tasks.measures.wordlists import EmotionForms, load_forms
from stimuli.narratives import HOU2025_COUNTS, EmotionWords, emotion_words, load_narratives

PACKAGED = emotion_words()
CROWD = {name: PACKAGED[name] for name in HOU2025_COUNTS}
GENEVA, WHEEL = (
    {narrative.emotion: narrative.words for narrative in load_narratives(source).narratives}
    for source in ("geneva", "geneva20")
)
VOCABULARY = vocabulary_of(CROWD)
GENEVA_VOCABULARY = vocabulary_of(GENEVA)
WHEEL_VOCABULARY = vocabulary_of(WHEEL)


# --- Forms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_every_packaged_emotion_is_named_by_its_name_noun_and_adjective(name):
    words = PACKAGED[name]
    for form in (name, words.noun, words.adjective):
        assert name in named_emotions(f"You felt {form.upper()}.", vocabulary_of())


@pytest.mark.parametrize(("words", "n"), [(CROWD, 12), (GENEVA, 12), (WHEEL, 20)], ids=["crowd", "geneva", "wheel"])
def test_no_form_names_two_emotions_of_one_packaged_set(words, n):
    forms = [form for its in vocabulary_of(words).forms.values() for form in its]
    assert len(forms) == len(set(forms))
    assert len(words) == n


def test_the_packaged_emotions_are_those_of_the_three_sets():
    assert set(PACKAGED) == {*CROWD, *GENEVA, *WHEEL}


@pytest.mark.parametrize(
    ("text", "crowd", "geneva"),
    [
        ("You seem sadder than before.", ["sadness"], ["sad"]),
        ("That is frightening.", [], []),  # a synonym
        ("How scary! You were afraid.", ["fear"], ["scared"]),
        ("How disappointing.", [], ["disappointed"]),
        ("You are content with the contents, and relieved.", ["relief"], []),
        ("Angrily you feared the boredom.", ["anger", "fear", "boredom"], ["scared"]),
        ("First relief, then joy, then relief again.", ["relief", "joy"], []),
        ("Sadly, it rained; happily, surprisingly, nobody minded.", [], []),  # adverbs of the whole sentence
        ("You enjoyed it and felt unhappy.", [], []),  # joy and happy are only parts of these words
        ("**Pride**, and joy-filled days.", ["pride", "joy"], []),
        ("", [], []),
    ],
)
def test_a_form_names_its_emotion_and_others_do_not(text, crowd, geneva):
    assert list(named_emotions(text, VOCABULARY)) == crowd
    assert list(named_emotions(text, GENEVA_VOCABULARY)) == geneva


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("How disappointing.", ["disappointment"]),
        ("You are content with the contents, and relieved.", ["contentment", "relief"]),
        ("You regretted it, lovingly.", ["regret", "love"]),
        ("You admire them with hatred and contempt.", ["admiration", "hate", "contempt"]),
        ("It pleased you and amused you.", ["pleasure", "amusement"]),
        ("A lovely, loveless day of pity.", []),
    ],
)
def test_a_family_of_the_wheel_is_named_by_its_forms(text, named):
    assert list(named_emotions(text, WHEEL_VOCABULARY)) == named


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("You are not sad.", []),
        ("You were never afraid.", []),
        ("You aren’t really angry.", []),
        ("There is nothing to be ashamed of.", []),
        ("There's no reason for you to feel guilty.", []),
        ("You are neither sad nor angry.", []),
        ("You don't have to be sad, or angry.", []),
        ("You told it without any shame.", []),
        ("It is sadness rather than anger.", ["sadness"]),
        ("You are not sad but angry.", ["anger"]),
        ("You are not only sad but angry.", ["sadness", "anger"]),
        ("No wonder you are sad.", ["sadness"]),
        ("It was not fair, and you are angry.", ["anger"]),
        ("No, sadness is what I hear.", ["sadness"]),
        ("I can't imagine how sad you are.", ["sadness"]),
        ("You couldn't be prouder.", ["pride"]),
        ("You couldn't be more relieved.", ["relief"]),
        ("You couldn't be proud.", []),
        ("You were never so proud.", ["pride"]),
        ("He said no. Sad, that.", ["sadness"]),  # a negation ends with its sentence
    ],
)
def test_a_negated_form_names_nothing(text, named):
    assert list(named_emotions(text, VOCABULARY)) == named


@pytest.mark.parametrize(
    "text",
    [
        "I'm happy to help.",
        "I’m afraid that I can't say.",
        "What a shame!",
        "Trust me.",
        "It was a surprise party.",
        "Try a relaxation exercise and cheer up.",
        "Thank you for the content of your message.",
        "I'd love to help, and I would love to listen.",
        "I am pleased to help.",
        "If you're interested, it is in your best interest.",
    ],
)
def test_a_form_in_a_set_phrase_names_nothing(text):
    assert named_emotions(text, vocabulary_of()) == ()


def test_a_user_s_emotion_is_named_by_its_own_words_and_by_a_family_that_one_is_in():
    own = vocabulary_of({"loss": EmotionWords("grief", ""), "low mood": EmotionWords("", "saddened")})
    assert named_emotions("A low-mood day of sadness, then Grief.", own) == ("low mood", "loss")
    assert named_emotions("grieving", own) == ()
    assert own.forms["loss"] == ("loss", "grief")


def test_a_form_that_two_emotions_have_names_both():
    both = vocabulary_of({"sad": PACKAGED["sad"], "sadness": PACKAGED["sadness"]})
    assert named_emotions("so sad", both) == ("sad", "sadness")


def test_forms_of_one_s_own_take_the_packaged_ones_place():
    own = EmotionForms("own.yaml", (("sad", "down in the dumps"),), (r"sad song",))
    vocabulary = vocabulary_of({"sad": PACKAGED["sad"]}, forms=own)
    assert named_emotions("down in the\ndumps", vocabulary) == ()  # a line is a sentence
    assert named_emotions("Down in the dumps.", vocabulary) == ("sad",)
    assert named_emotions("A sad song. You are saddened.", vocabulary) == ()
    assert vocabulary.sha256 != vocabulary_of({"sad": PACKAGED["sad"]}).sha256


@pytest.mark.parametrize("words", [{}, {" ": EmotionWords("a", "b")}])
def test_a_vocabulary_without_an_emotion_is_refused(words):
    with pytest.raises(ValueError, match="an emotion needs a name"):
        vocabulary_of(words)


@pytest.mark.parametrize("words", ["sad or angry ", "not very ", "you really are not ", "never so "])
def test_a_long_sentence_is_read_in_a_moment(words):
    started = time.perf_counter()
    named_emotions(words * 5_000 + "sad", VOCABULARY)
    assert time.perf_counter() - started < 10


# --- Scores ----------------------------------------------------------------------------------------------------------


def scored(*replies):
    return EmotionScorer(VOCABULARY).score(replies)


@pytest.mark.parametrize(
    ("text", "emotion", "row"),
    [
        ("You must be so sad.", "sadness", [1, 1, 1]),
        ("You must be so sad.", "anger", [1, 0, 0]),
        ("Sad and angry at once.", "anger", [1, 1, 1]),
        ("I see.", "anger", [0, 0, np.nan]),  # no emotion named: a miss, and no accuracy
        ("You are not angry.", "anger", [0, 0, np.nan]),
        ("You must be so sad.", "awe", [1, np.nan, np.nan]),  # not in the vocabulary: nothing to be right about
        ("", "anger", [np.nan] * 3),
        ("…", "anger", [np.nan] * 3),
        ("Ты злишься. angry", "anger", [np.nan] * 3),
    ],
)
def test_named_hit_and_accuracy(text, emotion, row):
    np.testing.assert_array_equal(scored(Reply(text, emotion=emotion)), [row])


def test_accuracy_is_hits_over_replies_that_name_an_emotion():
    texts = ["sad", "angry", "I see.", "so sad, so angry", "proud", "nothing"]
    table = scored(*(Reply(text, emotion="sadness") for text in texts))
    assert table[:, 0].sum() == 4
    assert table[:, 1].mean() == pytest.approx(2 / 6)
    assert np.nanmean(table[:, 2]) == pytest.approx(2 / 4)


def test_a_reply_in_another_script_than_its_narrative_has_no_number():
    assert np.isnan(scored(Reply("You are angry.", narrative="Я злюсь.", emotion="anger"))).all()


def test_no_reply_gives_no_row_and_rows_do_not_depend_on_each_other():
    replies = [Reply("sad", emotion="sadness"), Reply(""), Reply("angry", emotion="joy")]
    assert scored().shape == (0, len(EMOTION))
    np.testing.assert_array_equal(scored(*replies), np.concatenate([scored(reply) for reply in replies]))


def test_the_facts_are_plain_values_that_tell_two_vocabularies_apart():
    facts = EmotionScorer(VOCABULARY).facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["vocabulary"]["emotions"] == list(CROWD)
    assert facts["forms"] == {"source": "packaged", "sha256": load_forms().sha256}
    assert facts["vocabulary"]["sha256"] != EmotionScorer().facts["vocabulary"]["sha256"]
    assert [measure.name for measure in EmotionScorer().measures] == [
        "emotion_named", "emotion_hit", "emotion_accuracy",
    ]  # fmt: skip


# --- The label of an answer ------------------------------------------------------------------------------------------

LABELS = ("happy", "sad", "angry", "looking forward", "no emotion")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("sad", "sad"),
        ("**SAD**.", "sad"),
        ("1. Sad", "sad"),
        ("The speaker feels sad.", "sad"),
        ("Sadness", "sad"),  # of the label's family
        ("Looking-forward", "looking forward"),
        ("They are looking forward to it.", "looking forward"),
        ("No emotion", "no emotion"),
        ("Emotion: sad", "sad"),
        ("**Emotion:** Sad\n\nThey are not happy, they could be angry.", "sad"),
        ("Emotion:\nsad\nIt is no happy line.", "sad"),
        ("Sad\n\nAn angry person would have shouted.", "sad"),
        ("An angry person would have shouted.\n\nFinal answer: sad", "sad"),
        ("The emotion expressed in this utterance is most likely anger.", "angry"),
        ('{"emotion": "sad", "reason": "she is angry"}', "sad"),
        ('The emotion is "sad" because she was angry.', "sad"),
        ("Possible emotions: sad, angry\nAnswer: sad", "sad"),
        ("The speaker is not sad but angry.", "angry"),
        ("Sad? No. Angry.", "angry"),
        ('"I am so happy today" is said in an angry voice.', "angry"),
        ("<think>Could be happy.</think>sad", "sad"),
    ],
)
def test_an_answer_that_gives_one_label_is_that_label(answer, label):
    assert label_of(answer, LABELS) == label


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I see.",
        "sad or angry",
        "sad, angry",
        "sad\nangry",
        "happy\nEmotion: sad",  # two statements
        "Emotion: sad, angry",
        "Emotion: frustrated\nReason: she is angry.",  # states another emotion than any label
        "The emotion is frustration. She sounds angry.",
        "The emotion is not sadness.",
        "unhappy",
        "saddle",
        "Is she sad?",
        '"I am so happy today" sounds frustrated.',
        "As an AI, I cannot determine whether she is sad.",
        "<think>It is sad",  # thinking that does not end
    ],
)
def test_in_doubt_there_is_no_label(answer):
    assert label_of(answer, LABELS) is None


def test_synonyms_stand_for_their_label_and_a_word_of_two_labels_for_none():
    synonyms = {"angry": ["furious", "worked up"], "sad": ["blue", "worked-up"], "happy": ["sad"]}
    assert label_of("She is FURIOUS.", LABELS, synonyms=synonyms) == "angry"
    assert label_of("Emotion: blue", LABELS, synonyms=synonyms) == "sad"
    assert label_of("She is worked up.", LABELS, synonyms=synonyms) is None
    assert label_of("sad", LABELS, synonyms=synonyms) == "sad"  # a label is itself
    assert label_of("She is furious.", LABELS) is None


def test_a_form_of_a_family_that_two_labels_are_of_is_neither():
    assert label_of("afraid", ("fear", "scared")) is None
    assert label_of("fear", ("fear", "scared")) == "fear"
    assert label_of("afraid", ("fear", "joy")) == "fear"


@pytest.mark.parametrize("labels", [(), ("sad", ""), ("sad", "Sad"), ("no emotion", "no_emotion")])
def test_labels_that_are_empty_or_the_same_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be at least one,"):
        label_of("sad", labels)


def test_a_synonym_of_no_label_is_refused():
    with pytest.raises(ValueError, match="synonyms of 'mad', which is not one of the labels"):
        label_of("sad", LABELS, synonyms={"mad": ["cross"]})


def test_of_two_labels_the_longer_one_that_fits_is_read():
    assert label_of("She looks pleasantly surprised.", ("surprised", "pleasantly surprised")) == "pleasantly surprised"
    assert label_of("He has mixed feelings.", ("mixed", "mixed feelings")) == "mixed feelings"
