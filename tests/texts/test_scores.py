import math

import numpy as np
import pandas as pd
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from audit.tasks.measures import text_scores as scores
from audit.tasks.measures.emotion import EmotionScorer, run_vocabulary
from audit.tasks.measures.text_scores import score_stages, score_texts
from stimuli.narratives import EmotionWords
from stimuli.sentences import sentences, words
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


# --- Emotions of what stages wrote -----------------------------------------------------------------------------------


def stages_about(*texts):
    """Return stages and ratings: a prompt a text, about the narratives of these emotions in turn."""
    emotions = ["sad", "wistful"]
    stages = pd.DataFrame({"prompt_index": range(len(texts)), "stage": "infer", "text": texts, "status": "written"})
    same = ("dimension", "variant", "narrative_id", "perceiver", "experiencer", "perceiver_group", "experiencer_group")
    own = {"prompt_index": range(len(texts)), "emotion": [emotions[k % 2] for k in range(len(texts))]}
    return stages, pd.DataFrame(own | dict.fromkeys(same, "x")).astype({"emotion": "category"})


@pytest.mark.parametrize(
    ("text", "named", "right"),
    [
        ("They felt sad.", 1, 1),
        ("They felt sad and angry.", 1, 1),  # of several, one is right
        ("Anger: the train was late.", 1, 0),
        ("They were not sad.", 0, None),  # names none, and so cannot be right or wrong
        ("They lost a friend.", 0, None),
        ("<think>Are they angry?</think>They felt sad.", 1, 1),  # thinking is no answer
        ("<think>Sad? I think so.</think>They lost a friend.", 0, None),
        ("", None, None),
        ("<think>sad</think>", None, None),
        (
            "\u041e\u043d\u0438 \u0433\u0440\u0443\u0441\u0442\u0438\u043b\u0438.",
            None,
            None,
        ),  # in another script, which the words cannot read
    ],
)
def test_a_stage_s_text_names_an_emotion_and_the_narrative_s_own_or_has_no_such_number(text, named, right):
    stages, ratings = stages_about(text)
    row = score_stages(stages, ratings, lexicon=LEXICON, read_emotions=EmotionScorer().read).iloc[0]
    for name, value in (("emotion_named", named), ("emotion_accuracy", right)):
        assert math.isnan(row[name]) if value is None else row[name] == value


def test_one_text_about_two_narratives_is_held_against_the_emotion_of_each_and_read_once_for_each():
    asked = []
    words = {"wistful": EmotionWords("wistfulness", "wistful")}
    scorer = EmotionScorer(run_vocabulary(["sad", "wistful", ""], words))

    def read(texts, emotions):
        asked.extend(zip(texts, emotions, strict=True))
        return scorer.read(texts, emotions)

    text = "A kind of wistfulness."
    stages, ratings = stages_about(text, text, text, text)
    before = ratings.copy()
    table = score_stages(stages, ratings, lexicon=LEXICON, read_emotions=read)
    assert asked == [(text, "sad"), (text, "wistful")]
    assert table["emotion_named"].tolist() == [1, 1, 1, 1]
    assert table["emotion_accuracy"].tolist() == [0, 1, 0, 1]
    pd.testing.assert_frame_equal(ratings, before)
    # Without the user's own word for it the noun is none, though the name is.
    assert np.isnan(EmotionScorer(run_vocabulary(["wistful"], {})).read([text], ["wistful"])["emotion_accuracy"]).all()


def test_without_a_reader_there_is_no_such_score_and_of_no_text_at_all_the_columns_alone():
    stages, ratings = stages_about("They felt sad.")
    assert "emotion_named" not in score_stages(stages, ratings, lexicon=LEXICON)
    nothing = score_stages(stages.iloc[:0], ratings, lexicon=LEXICON, read_emotions=EmotionScorer().read)
    assert nothing.empty
    assert {"emotion_named", "emotion_accuracy"} <= set(nothing)
