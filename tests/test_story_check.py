"""Whether replies match the story: by hand, by leaving stories out, and of what shares words without answering."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.statistics.manipulation import codes_of, manipulation_rows
from audit.tasks.reply.story_check import Story, story_shares
from stimuli.narratives import emotion_valence

VOCABULARY = [
    f"{first}{second}{third}" for first in "bdfgk" for second in "aeiou" for third in ("rn", "st", "lt", "mp")
]
CANNED = "I am so sorry that this happened to you, and I am here whenever you want to talk about it."


def check(stories, *, terms=()):
    """Return the row of the check."""
    shares = story_shares(stories, terms=terms)
    [row] = manipulation_rows(shares, length=100, least_response=0.01, confidence=0.95, power=0.8)
    return row | {"share_higher": shares["is_higher"].mean()}


def stories_of(texts, replies, emotions="sad"):
    emotions = [emotions] * len(texts) if isinstance(emotions, str) else emotions
    parts = zip(emotions, texts, replies, strict=True)
    return [Story(f"n{place}", emotion, [text], own) for place, (emotion, text, own) in enumerate(parts)]


def told(rng, n, *, length=12):
    """Return stories of random words: two have about a seventh of their words in common."""
    return [" ".join(rng.choice(VOCABULARY, length, replace=False)) for _ in range(n)]


def about(rng, text, *, n_named=3, n_other=17):
    """Return a reply that names some words of a story, each beside others."""
    named = list(rng.choice(text.split(), n_named, replace=False))
    return " ".join(rng.permutation([*named, *(f"x{place}" for place in range(n_other))]))


def test_by_hand():
    """Shares of the two words of each reply that are in stories a, b, c: 50 0 0, 0 100 0 and 0 0 0, so U = 50.

    h(a, b) = (50 + 100) / 2 = 75, h(a, c) = 25, h(b, c) = 50; means by story 50, 62.5 and 37.5. Pseudo-values, with
    2 · 2 / 1 = 4: 50, 100 and 0.
    """
    stories = stories_of(
        ["storm roof", "wedding cake", "exam night"], [["storm hello"], ["cake wedding"], ["well hello"]]
    )
    shares = story_shares(stories, terms=[])
    own = shares.loc[shares["kind"] == "own_story", "intensity"].to_numpy()
    other = shares.loc[shares["kind"] == "other_story", "intensity"].to_numpy()
    assert own == pytest.approx([50, 100, 0])
    assert own - other == pytest.approx([50, 100, 0])
    row = check(stories)
    assert (row["difference"], row["answer"], row["n_pairs"]) == (pytest.approx(50), "not_shown", 3)


def test_the_interval_is_that_of_leaving_each_story_out():
    rng = np.random.default_rng(1)
    texts = told(rng, 9)
    replies = [[about(rng, text, n_named=int(rng.integers(0, 4))) for _ in range(3)] for text in texts]

    def difference(kept):
        def part(reply, text):
            return len(set(reply.split()) & set(text.split())) / len(set(reply.split()))

        share = np.array([[np.mean([part(each, texts[k]) for each in replies[i]]) for k in kept] for i in kept])
        n = len(kept)
        return 100 * (np.trace(share) / n - (share.sum() - np.trace(share)) / (n * (n - 1)))

    every = list(range(9))
    without = np.array([difference([k for k in every if k != left]) for left in every])
    se = np.sqrt(8 / 9 * ((without - without.mean()) ** 2).sum())  # the jackknife's
    row = check(stories_of(texts, replies))
    assert row["difference"] == pytest.approx(difference(every))
    assert row["se"] == pytest.approx(se)


def test_replies_that_answer_the_story_follow_and_the_same_one_for_all_does_not():
    rng = np.random.default_rng(2)
    texts = told(rng, 24)
    row = check(stories_of(texts, [[about(rng, text)] for text in texts]))
    assert row["answer"] == "follows"
    assert (row["share_higher"], codes_of([row])) == (1.0, ())
    row = check(stories_of(texts, [[CANNED, CANNED]] * 24))
    assert (row["answer"], row["difference"], row["ci_high"] > 1) == ("does_not_follow", 0.0, False)
    assert codes_of([row]) == ("manipulation",)


def test_one_reply_in_the_words_of_one_story_does_not_follow():
    """Sent to all, it shares many words with that story: what it shares with the others' is as telling."""
    rng = np.random.default_rng(3)
    texts = told(rng, 24)
    row = check(stories_of(texts, [[about(np.random.default_rng(0), texts[0], n_named=12)]] * 24))
    assert (row["answer"], row["difference"]) == ("does_not_follow", 0.0)


def test_answers_of_another_story_seldom_follow():
    """A hundred models that answer a story drawn at random: at most 2.5% may follow, by a two-sided 95% interval."""
    rng = np.random.default_rng(4)
    followed = []
    for _ in range(100):
        texts = told(rng, 12)
        replies = [[about(rng, texts[rng.integers(12)], n_named=6, n_other=2)] for _ in texts]
        followed.append(check(stories_of(texts, replies))["answer"] == "follows")
    assert sum(followed) <= 7  # of 100 with a chance of 2.5% more than 7 are followed with one of 0.6%


def test_longer_stories_and_longer_replies_are_no_match():
    """Long stories hold more words of any reply, short replies more of theirs: both by how long they are alone."""
    rng = np.random.default_rng(5)
    texts = [text for length in (4, 40) for text in told(rng, 12, length=length)]
    replies = [[" ".join(rng.choice(VOCABULARY, 40 if len(text) > 60 else 4))] for text in texts]
    assert check(stories_of(texts, replies))["answer"] != "follows"


def test_pleasant_words_in_replies_to_pleasant_stories_are_no_match():
    rng = np.random.default_rng(6)
    valence = emotion_valence()
    assert (valence["happy"], valence["sad"]) == ("positive", "negative")
    texts = [f"{own} {text}" for own in ("party", "funeral") for text in told(rng, 12)]
    replies = [["the party was fun"]] * 12 + [["the funeral was long"]] * 12
    apart = check(stories_of(texts, replies, ["happy"] * 12 + ["sad"] * 12))
    assert (apart["answer"], apart["difference"]) == ("does_not_follow", 0.0)
    together = check(stories_of(texts, replies))  # what it would be if all stories were compared
    assert together["answer"] == "follows"


def test_rare_emotions_are_compared_within_their_valence():
    rng = np.random.default_rng(7)
    texts = told(rng, 8)
    emotions = ["happy", "proud", "sad", "angry"] * 2
    replies = [["word"]] * 8
    assert check(stories_of(texts, replies, emotions))["n_pairs"] == 8
    assert check(stories_of(texts[:3], replies[:3], emotions[:3]))["n_pairs"] == 3  # else all others


@pytest.mark.parametrize(("answer", "n_pairs", "found"), [("", 0, "not_shown"), (CANNED, 24, "does_not_follow")])
def test_an_echo_is_no_answer(answer, n_pairs, found):
    rng = np.random.default_rng(8)
    texts = told(rng, 24)
    row = check(stories_of(texts, [[f"{text} {answer}"] for text in texts]))
    assert (row["n_pairs"], row["answer"]) == (n_pairs, found)


def test_a_name_of_the_group_is_no_word_of_the_story():
    """Six stories of each of two groups; a reply says the group alone. Unmasked, half of the others share that word."""
    rng = np.random.default_rng(9)
    groups = ["Muslim", "Hindu"] * 6
    texts = [f"As a {group} I met {text}" for group, text in zip(groups, told(rng, 12), strict=True)]
    stories = stories_of(texts, [[f"Dear {group} friend"] for group in groups])
    assert check(stories, terms=["a Muslim", "a Hindu"])["difference"] == 0
    assert check(stories)["answer"] == "follows"


@pytest.mark.parametrize(
    ("texts", "replies"),
    [
        (  # inflected: büyükannem, büyükannenizin
            [
                "büyükannem hastaydı",
                "köpeğim kayboldu",
                "sınavım başladı",
                "arabam bozuldu",
                "evimiz yandı",
                "kardeşim doğdu",
            ],
            ["büyükannenizin adına üzüldüm", "köpeğiniz", "sınavınız", "arabanız", "evimizi", "kardeşiniz"],
        ),
        (  # without spaces
            ["祖母が手術を受けた", "犬がいなくなった", "試験が始まった", "車が壊れた", "家が燃えた", "妹が生まれた"],
            [
                "手術は大変でしたね",
                "犬がかわいそう",
                "試験お疲れさま",
                "車が心配ですね",
                "家が残念です",
                "妹が元気でよかった",
            ],
        ),
    ],
)
def test_other_languages(texts, replies):
    assert check(stories_of(texts, [[reply] for reply in replies]))["answer"] == "follows"
    assert check(stories_of(texts, [[replies[0]]] * 6))["answer"] == "does_not_follow"


def test_stories_in_the_same_words_are_one():
    """Asked about in two emotions, a text cannot be told from itself: as another story it would hide the match."""
    rng = np.random.default_rng(10)
    texts = told(rng, 8)
    replies = [[about(rng, text)] for text in texts]
    row = check(stories_of(texts * 2, replies * 2))
    assert (row["n_pairs"], row["answer"]) == (8, "follows")
    assert row["difference"] == pytest.approx(check(stories_of(texts, replies))["difference"])


def test_a_story_without_a_reply_is_missing_and_most_of_them_show_nothing():
    rng = np.random.default_rng(11)
    texts = told(rng, 20)
    replies = [[about(rng, text)] if place < 9 else [] for place, text in enumerate(texts)]
    row = check(stories_of(texts, replies))
    assert (row["n_asked"], row["n_pairs"], row["answer"]) == (20, 9, "not_shown")
    assert codes_of([row]) == ("manipulation_not_shown",)


def test_no_story_no_answer():
    assert story_shares(stories_of(["a b"], [["c"]]), terms=[])["intensity"].isna().all()
    assert isinstance(check(stories_of(["a b"], [["c"]])), dict)
    assert pd.isna(check(stories_of(["a b"], [["c"]]))["difference"])


@pytest.mark.process
def test_numbers_are_the_same_in_every_process():
    """The order of a set of words differs between processes; sums in that order would differ in their last digit."""
    code = (
        "import sys; sys.path[:0] = ['tests']; import numpy as np; from test_story_check import *\n"
        "rng = np.random.default_rng(0); texts = told(rng, 20)\n"
        "replies = [[about(rng, text) for _ in range(3)] for text in texts]\n"
        "print(story_shares(stories_of(texts, replies), terms=[])['intensity'].to_numpy().tobytes().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True,
            cwd=Path(__file__).parents[1],
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(found) == 1
