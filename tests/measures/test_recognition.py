"""Answers about emotions and causes, read and scored; the F1 of words by hand, and as SQuAD's functions have it."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.tasks.measures.base import Reply
from audit.tasks.measures.spans import exact_match, span_words, word_f1
from audit.tasks.recognition.scorer import CauseEntailment, CauseSpans, EmotionRecognition, says_none, says_yes

LABELS = ("anger", "joy", "no emotion")
NAN = np.nan
SQUAD = json.loads((Path(__file__).parents[1] / "reference" / "scores.json").read_text(encoding="utf-8"))["spans"]


# --- Emotions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "label", "scores"),
    [
        ("joy", "joy", [1, 0]),
        ("The emotion is **Joy**.", "joy", [1, 0]),
        ("anger", "anger", [0, 0]),
        ("No emotion.", "no emotion", [0, 0]),
        ("joy or anger", None, [0, 1]),
        ("I cannot tell.", None, [0, 1]),
        ("envy", None, [0, 1]),
        ("<think>anger?</think>joy", "joy", [1, 0]),
        ("delighted", None, [0, 1]),
    ],
)
def test_the_label_that_is_read_is_compared_with_the_corpus_own(answer, label, scores):
    scorer = EmotionRecognition(LABELS)
    assert scorer.read([answer, answer]) == [label, label]
    assert scorer.score([Reply(answer, emotion="joy")]).tolist() == [scores]


def test_synonyms_are_the_user_s():
    scorer = EmotionRecognition(LABELS, {"joy": ["delighted"]})
    assert scorer.score([Reply("delighted", emotion="joy")]).tolist() == [[1, 0]]
    assert scorer.facts["synonyms"] == {"joy": ["delighted"]}
    assert scorer.facts["labels"] == list(LABELS)


def test_an_emotion_that_is_no_label_can_not_be_recognised():
    scores = EmotionRecognition(LABELS).score([Reply("joy", emotion="pride"), Reply("hm", emotion="pride")])
    np.testing.assert_equal(scores, [[NAN, 0], [NAN, 1]])


@pytest.mark.parametrize(
    ("labels", "synonyms", "said"),
    [(("joy", "Joy"), None, "labels must be"), (LABELS, {"fear": ["dread"]}, "synonyms of 'fear'")],
)
def test_labels_and_synonyms_that_do_not_match_are_refused_at_once(labels, synonyms, said):
    with pytest.raises(ValueError, match=said):
        EmotionRecognition(labels, synonyms)


# --- Causes ----------------------------------------------------------------------------------------------------------

SPANS = {"k:1": ["I lost my job", "the whole office closed"], "k:2": [], "k:3": ["Nothing."]}


def cause(answer, narrative_id="k:1"):
    return CauseSpans(SPANS).score([Reply(answer, narrative_id=narrative_id)])[0].tolist()


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("I lost my job", [1, 1]),
        ('Cause: "I lost my job."', [1, 1]),
        ("**Cause:** I lost my job", [1, 1]),
        ("Person A: I lost my job!", [1, 1]),
        ("The cause:\nI lost my job", [1, 1]),
        ("The whole office closed", [1, 1]),  # articles do not count, and any of the spans is right
        ("lost my job", [0, 6 / 7]),  # 2 · 3 / (3 + 4)
        ("The office closed today", [0, 4 / 6]),  # the second span: 2 · 2 / (3 + 3)
        ("my job, my job", [0, 4 / 8]),  # a word counts as often as both have it
        ("The soup was cold", [0, 0]),
        ("none", [0, 0]),
        ("I lost my job. She says so.", [0, 8 / 11]),  # what is said after it costs
        ("...", [NAN, NAN]),
        ("<think>I lost my job", [NAN, NAN]),
    ],
)
def test_an_answer_is_compared_with_the_marked_words(answer, scores):
    np.testing.assert_allclose(cause(answer), scores)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("none", 1),
        ("None. Nobody says why.", 1),
        ("Cause: none", 1),
        ("There is no cause.", 1),
        ("No clear cause is mentioned in the conversation.", 1),
        ("The cause is not stated.", 1),
        ("N/A", 1),
        ("None of them called.", 0),
        ("There is no bus.", 0),
        ("I lost my job", 0),
    ],
)
def test_where_there_is_no_cause_only_an_answer_that_says_so_is_right(answer, right):
    assert says_none(answer) == right
    assert cause(answer, "k:2") == [right, right]


def test_words_that_deny_a_cause_may_be_the_cause_themselves():
    assert cause("Nothing.", "k:3") == [1, 1]
    assert CauseSpans({"k": ["No cause."]}).score([Reply("no cause", narrative_id="k")]).tolist() == [[1, 1]]


def test_curly_quotation_marks_are_straight_ones():
    scorer = CauseSpans({"k": ["I can’t swim"]})
    assert scorer.score([Reply("“I can't swim.”", narrative_id="k")]).tolist() == [[1, 1]]


def test_a_narrative_without_annotation_has_no_score():
    assert np.isnan(cause("none", "k:9")).all()
    assert CauseSpans(SPANS).score([]).shape == (0, 2)


def test_facts_tell_two_annotations_apart():
    facts = CauseSpans(SPANS).facts
    assert (facts["n_narratives"], facts["n_with_cause"]) == (3, 2)
    assert CauseSpans(SPANS | {"k:2": ["soup"]}).facts["sha256"] != facts["sha256"]


def test_one_string_is_no_sequence_of_spans():
    with pytest.raises(ValueError, match="the spans of 'k' are one string"):
        CauseSpans({"k": "soup"})


@pytest.mark.parametrize("case", SQUAD)
def test_words_are_compared_as_by_squad(case):
    """Oracle: transformers' functions of SQuAD (tests/reference)."""
    wanted, found = span_words(case["true"]), span_words(case["predicted"])
    assert exact_match(found, wanted) == case["exact"]
    assert word_f1(found, wanted) == pytest.approx(case["f1"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The CAT, a dog; an owl!", ["cat", "dog", "owl"]),
        ("theatre than", ["theatre", "than"]),
        ("don't", ["dont"]),
        ("a", []),
        ("¿qué? 猫。", ["¿qué", "猫。"]),
    ],
)
def test_a_span_is_normalised_as_published(text, words):
    assert span_words(text) == words


WORDS = st.lists(st.sampled_from(["soup", "The", "a", "cold.", "we", "we,"]), max_size=5).map(" ".join)


@given(spans=st.lists(WORDS, max_size=3), answer=WORDS.filter(lambda text: text))
def test_of_several_spans_the_best_counts(spans, answer):
    known = [words for span in spans if (words := span_words(span))] or [[]]
    expected = [max(score(span_words(answer), own) for own in known) for score in (exact_match, word_f1)]
    scores = CauseSpans({"k": spans}).score([Reply(answer, narrative_id="k")])
    np.testing.assert_allclose(scores, [expected])


@given(first=WORDS, second=WORDS)
def test_agreement_of_words_is_symmetric_and_1_of_the_same(first, second):
    one, other = span_words(first), span_words(second)
    assert word_f1(one, other) == word_f1(other, one)
    assert word_f1(one, one) == exact_match(one, one) == 1
    assert exact_match(one, other) <= word_f1(one, other)


# --- Causes as utterances --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes.", True), ("**No**", False), ("no, it came later", False),
        ("Answer: yes", True), ("The answer is no.", False),
        ("<think>no</think>yes", True), ("Yes, but only in part.", None), ("yes and no", None), ("Yes or no?", None),
        ("No doubt it did.", None), ("Nothing did.", None), ("I cannot say.", None), ("It did, yes.", None), ("", None),
    ],
)  # fmt: skip
def test_an_answer_is_read_as_yes_or_no_by_how_it_begins(answer, said):
    assert says_yes(answer) is said


def test_an_answer_about_a_possible_cause_is_right_wrong_or_missing():
    scorer = CauseEntailment({"a:2.1": True, "a:2.2": False})
    asked = [("yes", "a:2.1"), ("no", "a:2.1"), ("yes", "a:2.2"), ("no", "a:2.2"), ("hm", "a:2.1"), ("yes", "z:1.1")]
    np.testing.assert_equal(
        scorer.score([Reply(text, narrative_id=name) for text, name in asked]),
        [[1, 1, NAN, 0], [0, 0, NAN, 0], [0, NAN, 0, 0], [1, NAN, 1, 0], [NAN, NAN, NAN, 1], [NAN] * 4],
    )
    assert (scorer.facts["n_narratives"], scorer.facts["n_causes"]) == (2, 1)
