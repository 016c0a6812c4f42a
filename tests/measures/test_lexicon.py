"""Emotion words of reply and narrative held against each other, by values worked by hand; lexicons that are refused."""

import math

import numpy as np
import pytest

from audit.tasks.measures.base import Reply
from audit.tasks.measures.lexicon import LEXICON, EmotionLexicon, LexiconScorer, load_lexicon
from audit.tasks.measures.wordlists import load_forms
from stimuli.errors import StimulusError
from stimuli.narratives import EmotionWords

NRC = "gloom\tsadness\t1\ngloom\tjoy\t0\ngloom\tnegative\t1\nfeast\tjoy\t1\nfeast\tsadness\t0\nwolf\tfear\t1\n"
"""In the form of NRC's file, with words and associations of ours."""
OWN = EmotionLexicon(
    "file", {"gloom": ("sadness", "negative"), "feast": ("joy",), "wolf": ("fear",), "black": ("sadness",)}
)


def scores(text, narrative, lexicon=OWN, held="text", **settings):
    [row] = LexiconScorer(lexicon, narrative=held, **settings).score([Reply(text, narrative=narrative, emotion="sad")])
    return row.tolist()


@pytest.fixture
def lexicon(tmp_path):
    def write(text, name="own.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load_lexicon(path)

    return write


# --- The formula -----------------------------------------------------------------------------------------------------


def test_distance_and_cosine_are_those_worked_by_hand():
    # Narrative: gloom twice, feast once: a = sadness 2, negative 2, joy 1. Reply: gloom, wolf twice: b = sadness 1,
    # negative 1, fear 2. p = (.4, .4, .2, 0), q = (.25, .25, 0, .5): half of .15 + .15 + .2 + .5 = .5.
    # a·b = 2 + 2 = 4; |a|² = 4 + 4 + 1 = 9; |b|² = 1 + 1 + 4 = 6: 4 / √54.
    found = scores("Gloom! The wolf, a wolf.", "Gloom and gloom, then a feast.")
    assert found == pytest.approx([0.5, 4 / math.sqrt(54)], abs=1e-15)


def test_how_often_a_profile_is_repeated_does_not_matter():
    once = scores("gloom wolf", "feast gloom")
    assert scores("gloom wolf " * 7, "feast gloom feast gloom") == pytest.approx(once, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "narrative", "expected"),
    [
        ("Gloom.", "What gloom it was.", [0.0, 1.0]),
        ("A feast.", "Gloom.", [1.0, 0.0]),
        ("Gloomy days at feasts.", "Gloom.", [math.nan, math.nan]),  # other words than those of the lexicon
        ("Gloom.", "It rained.", [math.nan, math.nan]),
        ("", "Gloom.", [math.nan, math.nan]),
    ],
)
def test_the_ends_and_what_is_missing(text, narrative, expected):
    np.testing.assert_allclose(scores(text, narrative), expected, atol=1e-12, equal_nan=True)


def test_an_identity_that_the_lexicon_has_a_word_of_is_no_emotion():
    plain, named = "A feast and gloom.", "As a Black person, a feast and gloom."
    assert scores(named, plain) != scores(plain, plain)
    assert scores(named, plain, terms=["a Black person"]) == scores(plain, plain) == pytest.approx([0.0, 1.0])
    assert scores(plain, named, terms=["a Black person"]) == pytest.approx([0.0, 1.0])


def test_a_reply_can_be_held_against_the_words_of_the_emotion():
    lexicon = EmotionLexicon("file", {"sad": ("sadness",), "blue": ("sadness", "joy"), "gloom": ("fear",)})
    words = {"sad": EmotionWords("gloom", "sad")}
    # The name and the adjective are one word: a = sadness 1, fear 1; the reply: b = sadness 1, joy 1.
    settings = {"lexicon": lexicon, "held": "emotion"}
    assert scores("Blue.", "Nothing of it.", emotions=words, **settings) == pytest.approx([0.5, 0.5])
    bare = {"sad": EmotionWords("", "")}  # its name alone: a = sadness 1
    assert scores("Blue.", "Nothing.", emotions=bare, **settings) == pytest.approx([0.5, 0.5**0.5])


def test_scores_do_not_depend_on_the_other_replies_of_the_call():
    replies = [Reply("Gloom.", "A feast."), Reply("Wolf, gloom.", "Gloom."), Reply("x", "y")]
    scorer = LexiconScorer(OWN)
    alone = np.vstack([scorer.score([reply]) for reply in replies])
    np.testing.assert_array_equal(scorer.score(replies), alone)
    assert scorer.score([]).shape == (0, len(LEXICON))


# --- The packaged lexicon --------------------------------------------------------------------------------------------


def test_the_packaged_lexicon_is_the_forms_by_family_and_valence():
    packaged = load_lexicon()
    assert set(packaged.emotions) == {form for family in load_forms().families for form in family}
    assert packaged.emotions["happier"] == ("happiness", "positive")
    assert packaged.emotions["scary"] == ("fear", "negative")
    assert packaged.emotions["surprised"] == ("surprise",)  # neither
    without = {own[0] for own in packaged.emotions.values() if len(own) == 1}
    assert without == {"surprise"}
    # happy: happiness, positive; joyful: joy, positive; one of two is shared, and 1 / √(2 · 2).
    assert scores("How joyful!", "She was happy.", packaged) == pytest.approx([0.5, 0.5])
    assert np.isnan(scores("I am happy to help.", "She was happy.", packaged)).all()  # a phrase that names nothing


# --- Files -----------------------------------------------------------------------------------------------------------


def test_nrc_s_form_and_csv_give_the_same_lexicon(lexicon):
    plain = lexicon(f"\n{NRC}")
    rows = "\n".join(line.replace("\t", ",") for line in NRC.splitlines())
    table = lexicon(f"word,emotion,association\n{rows}\n", "own.csv")
    assert plain == table
    assert plain.emotions == {"gloom": ("sadness", "negative"), "feast": ("joy",), "wolf": ("fear",)}
    assert plain.names == ("fear", "joy", "negative", "sadness")
    assert plain.sha256 == table.sha256 != load_lexicon().sha256


def test_entries_of_several_words_are_counted_since_they_are_never_found(lexicon):
    found = lexicon("Wolf\tFear\t1\nwerewolf's den\tfear\t1\nno one\tfear\t0\n")
    assert (found.emotions, found.n_phrases) == ({"wolf": ("fear",)}, 1)
    assert LexiconScorer(found).facts["lexicon"]["n_phrases"] == 1


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("gloom\tsadness\t2\n", "a.txt", "line 1: the association of 'gloom' with 'sadness' is '2'; write 1 or 0"),
        (
            "gloom\tsadness\t1\n\ngloom\tsadness\t0\n",
            "a.txt",
            "line 3: 'gloom' is associated with 'sadness' in one row and not in another",
        ),
        ("gloom,sadness,1\n", "a.txt", "must be word, emotion and 0 or 1, separated by tabs"),
        ("gloom\tsadness\n", "a.txt", "line 1: 'gloom\\tsadness' must be word, emotion and 0 or 1"),
        ("gloom\tsadness\t0\n", "a.txt", "no word has an association of 1"),
        ("", "a.txt", "no word has an association of 1"),
        ("word,emotion\ngloom,sadness\n", "a.csv", "no column 'association'"),
        ("word,emotion,association\ngloom,,1\n", "a.csv", "the cell in column 'emotion' is empty"),
    ],
)
def test_a_lexicon_that_can_not_be_used_is_one_line(lexicon, text, name, message):
    with pytest.raises(StimulusError) as error:
        lexicon(text, name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_lexicon_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StimulusError, match="nothing is not a file"):
        load_lexicon(tmp_path / "nothing")
