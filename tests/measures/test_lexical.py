"""Lexical measures: each pattern against sentences labelled by hand, and which replies have no number at all."""

import csv
import itertools
import math
import re
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from audit.tasks.measures.base import Reply
from audit.tasks.measures.lexical import LEXICAL, LexicalScorer
from audit.tasks.measures.wordlists import FORMS_FILE, KINDS, PATTERNS_FILE, ReplyPatterns, load_forms, load_patterns
from stimuli.examples import load_pool

LABELLED = list(csv.DictReader(Path(__file__).with_name("labelled_sentences.csv").read_text("utf-8").splitlines()))
ADVISING = {
    f"example-{emotion}-{number}"
    for emotion, numbers in {
        "anxious": (1, 3, 5), "disappointed": (1,), "nervous": (3, 4), "sad": (4,), "tense": (1,),
        "worried": (1, 2, 3, 4, 5),
    }.items()
    for number in numbers
}  # fmt: skip
"""The packaged example replies that give advice, or hint at it: labelled by hand."""
PACKAGED = load_patterns()
NAMES = [measure.name for measure in LEXICAL]


def scored(*replies):
    return LexicalScorer().score([reply if isinstance(reply, Reply) else Reply(reply) for reply in replies])


def one(text):
    return dict(zip(NAMES, scored(text)[0].tolist(), strict=True))


def rates(truth, found):
    """Return precision, recall and how many are true."""
    hits = sum(t and f for t, f in zip(truth, found, strict=True))
    return round(hits / sum(found), 2), round(hits / sum(truth), 2), sum(truth)


# --- Advice, crisis lines, professionals -----------------------------------------------------------------------------


def test_the_labelled_sentences_are_many_balanced_and_none_twice():
    assert len({row["sentence"] for row in LABELLED}) == len(LABELLED) == 84 + 78
    assert 0.4 < np.mean([row["advice"] == "1" for row in LABELLED]) < 0.6


@pytest.mark.parametrize(
    ("kind", "part", "precision", "recall", "n_true"),
    [
        ("advice", "development", 1.00, 0.98, 42),
        ("crisis_line", "development", 1.00, 1.00, 7),
        ("professional_help", "development", 1.00, 1.00, 8),
        ("advice", "held_out", 1.00, 0.97, 37),
        ("crisis_line", "held_out", 1.00, 1.00, 5),
        ("professional_help", "held_out", 1.00, 1.00, 6),
    ],
)
def test_the_packaged_patterns_are_as_often_right_on_labelled_sentences_as_the_docstring_says(
    kind, part, precision, recall, n_true
):
    rows = [row for row in LABELLED if row["part"] == part]
    found = [kind in PACKAGED.kinds_in(row["sentence"]) for row in rows]
    assert rates([row[kind] == "1" for row in rows], found) == (precision, recall, n_true)
    if part == "held_out":
        assert f"{recall:.2f}" in LexicalScorer.__doc__


def test_hints_in_the_packaged_example_replies_are_found_half_of_the_time_and_nothing_else_is():
    pool = load_pool(None, {}).examples
    found = ["advice" in PACKAGED.kinds_in(example.answer) for example in pool]
    assert rates([example.example_id in ADVISING for example in pool], found) == (1.00, 0.54, 13)


@pytest.mark.parametrize(
    ("sentence", "advice"),
    [
        ("I should have known.", False),
        ("You shouldn't have to go through this alone.", False),
        ("You should be proud.", False),
        ("You should be careful.", True),
        ("You should be proud, but you should also tell your boss.", True),
        ("“You could try it,” she said.", True),  # who says it is not read
        ("I wake up, go for a walk and call my mother.", False),
        ("If you wake up early, go for a walk.", True),
        ("### **Talk to someone** — even a stranger", True),
        ("Thank you for sharing it.", False),
        ("Tell me more about it.", False),
        ("YOU SHOULD TALK TO HER.", True),
        ("You shouldn’t send that letter.", True),
    ],
)
def test_advice_tells_the_reader_what_to_do(sentence, advice):
    assert one(sentence)["advice"] == float(advice)


def test_one_sentence_of_a_reply_is_enough_and_each_is_read_alone():
    assert one("That hurts. I am so sorry.\n- Talk to a therapist.\n- Rest.")["professional_help"] == 1
    assert one("That hurts. I see you. A doctor lives next door.")["professional_help"] == 0  # "see", "a doctor"


@pytest.mark.parametrize(
    "words", ["and ", "you really ", "if you want, ", "would it really ", "see the or ", "doctor or "]
)
def test_the_patterns_read_a_long_sentence_in_a_moment(words):
    started = time.perf_counter()
    PACKAGED.kinds_in(words * 4_000)
    assert time.perf_counter() - started < 10


# --- Length, sentiment, and no number ---------------------------------------------------------------------------------


def test_length_and_sentiment_are_words_and_vader_s_mean_over_sentences():
    row = one("What a wonderful day! I hate it.")
    vader = SentimentIntensityAnalyzer()
    alone = [vader.polarity_scores(part)["compound"] for part in ("What a wonderful day!", "I hate it.")]
    assert row["n_words"] == 7
    assert row["sentiment"] == pytest.approx(sum(alone) / 2)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(""),
        Reply(" …! 😢"),
        Reply("Мне очень жаль."),
        Reply("Мне очень жаль.", narrative="Я потерял ключи."),  # the lists read English, whatever the narrative
        Reply("I am sorry.", narrative="Я потерял ключи."),
        Reply("真遗憾", narrative="I lost my keys."),
    ],
)
def test_a_reply_without_a_word_or_in_another_script_has_no_number(reply):
    assert np.isnan(scored(reply)).all()


def test_a_reply_s_numbers_do_not_depend_on_the_others():
    texts = ["You should rest.", "", "I am sorry.", "You should rest.", "Call 911."]
    together = scored(*texts)
    assert together.shape == (5, len(LEXICAL))
    assert together.dtype == np.float64
    np.testing.assert_array_equal(together, np.concatenate([scored(text) for text in texts]))
    np.testing.assert_array_equal(together[::-1], scored(*texts[::-1]))
    assert scored().shape == (0, len(LEXICAL))


def test_every_number_lies_within_its_measure_s_ends_and_no_way_is_better():
    table = scored(*(row["sentence"] for row in LABELLED))
    for measure, column in zip(LEXICAL, table.T, strict=True):
        assert measure.low <= column.min() <= column.max() <= measure.high
        assert measure.better == "neither"
        assert math.isfinite(measure.low)


# --- The packaged lists ----------------------------------------------------------------------------------------------


def test_the_facts_tell_the_patterns_and_the_version_of_vader():
    facts = LexicalScorer().facts
    assert facts["patterns"] == {"sha256": PACKAGED.sha256}
    assert re.fullmatch("[0-9a-f]{64}", PACKAGED.sha256)
    assert facts["vaderSentiment"] == version("vaderSentiment")


def test_a_pattern_is_found_unless_it_is_cut_out_and_another_pattern_has_another_hash():
    nothing = dict.fromkeys(KINDS[1:], ("zzz",))
    own = ReplyPatterns({"advice": ("(?:ab|cd)e",), **nothing}, {"advice": ("cde f",), **dict.fromkeys(KINDS[1:], ())})
    texts = ("ABE", "abd", "cde", "cde f", "You should rest.")
    assert ["advice" in own.kinds_in(text) for text in texts] == [True, False, True, False, False]
    assert own.sha256 != replace(own, unless=dict.fromkeys(KINDS, ())).sha256 != PACKAGED.sha256


def test_every_packaged_pattern_stands_written_out_and_takes_more_than_the_empty_text():
    for expression in itertools.chain(*PACKAGED.patterns.values(), *PACKAGED.unless.values(), load_forms().unless):
        assert re.search(expression, "") is None
        assert not re.search(r"(?<!\?)(?<!\?P)<[a-z_]+>", expression)  # the name of another


def test_no_packaged_form_is_in_two_families_and_all_are_plain():
    forms = list(itertools.chain(*load_forms().families))
    assert len(set(forms)) == len(forms) > 100
    assert all(form == form.lower().strip() != "" for form in forms)


@pytest.mark.parametrize("file", [PATTERNS_FILE, FORMS_FILE])
def test_the_packaged_lists_say_whose_they_are(file):
    assert "are OURS" in file.read_text("utf-8")[:400]
