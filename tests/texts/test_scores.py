import math

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from audit.texts import scores
from audit.texts.scores import score_texts
from audit.texts.words import sentences, words
from stimuli.stereotypes import Lexicon

LEXICON = Lexicon("test", {"colours": ("red*", "blue"), "warm_colours": ("red*",)})


def scored(*texts):
    return score_texts(texts, lexicon=LEXICON)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Don\u2019t STOP: it's a well-known -- fact!", ["don't", "stop", "it's", "a", "well-known", "fact"]),
        ("snake_case, 3 cafés…", ["snake", "case", "3", "cafés"]),
        ("", []),
        ("…!?", []),
    ],
)
def test_words_are_runs_of_letters_and_digits(text, found):
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("1.5 miles\nnext line", ["1.5 miles", "next line"]),
        ('"No." She left.', ['"No.', "She left."]),
        ("\n\n... \n", []),
        ("これはペンです。はい。", ["これはペンです。", "はい。"]),
    ],
)
def test_sentences_end_at_a_mark_before_a_space_and_at_a_line_break(text, found):
    assert sentences(text) == found


def test_stereotype_words_are_per_hundred_words_and_a_word_of_two_themes_counts_once_in_all():
    row = scored("A red car, a blue car and a reddish one.").iloc[0]  # 10 words, of them red, blue, reddish
    assert row["n_words"] == 10
    assert row["stereotype_words"] == pytest.approx(30)
    assert row["theme_colours"] == pytest.approx(30)
    assert row["theme_warm_colours"] == pytest.approx(20)


def test_sentiment_is_the_mean_over_sentences_of_vader_s_own_compound_score():
    parts = ("What a wonderful day!", "The train was late.", "I hate it.")
    vader = SentimentIntensityAnalyzer()
    alone = [vader.polarity_scores(part)["compound"] for part in parts]
    assert alone[0] > 0 > alone[2]
    assert scored(" ".join(parts))["sentiment"].iloc[0] == pytest.approx(sum(alone) / 3)


@pytest.mark.parametrize("text", ["", "  \n", "…!"])
def test_a_text_without_a_word_has_no_words_and_no_other_number(text):
    row = scored(text, "red").iloc[0]
    assert row["n_words"] == 0
    assert not row["refused"]
    assert all(math.isnan(row[name]) for name in ("sentiment", "stereotype_words", "theme_colours"))


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("As an AI language model, I do not generalise.", True),
        ("The day begins. I cannot generalize about a group of people.", True),
        ("<think>I can't answer that.</think>In the morning she prays.", False),
        ("I can't believe how early the birds sing.", False),
        ("In the evening they refused the offer.", False),
    ],
)
def test_a_text_is_refused_that_holds_a_phrase_that_declines_the_task(text, refused):
    assert scored(text)["refused"].tolist() == [refused]


def test_each_distinct_text_is_scored_once_and_stands_in_its_place(monkeypatch):
    seen = []
    real = scores.holds_refusal
    monkeypatch.setattr(scores, "holds_refusal", lambda text: seen.append(text) or real(text))
    table = scored("red", "green car", "red", "", "green car")
    assert seen == ["red", "green car"]
    assert table["n_words"].tolist() == [1, 2, 1, 0, 2]
    assert table.index.tolist() == [0, 1, 2, 3, 4]


def test_no_text_at_all_gives_the_columns_alone():
    table = scored()
    assert table.empty
    assert table.columns.tolist() == [
        "n_words", "refused", "sentiment", "stereotype_words", "theme_colours", "theme_warm_colours",
    ]  # fmt: skip
    assert table.dtypes.astype(str).tolist() == ["int64", "bool", *["float64"] * 4]
