"""Whether answers about conversations are better than guesses: planted answers, and what is said of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from audit.tasks.measures.base import Reply
from audit.tasks.recognition.guesses import one_label_remarks, span_remarks, yes_remarks
from audit.tasks.recognition.scorer import CauseSpans, span_guesses
from audit.tasks.recognition.statistics import recognition_tables
from stimuli.conversations import read_conversations


def possible_causes(yes_to_causes, yes_to_others, *, n=40, seed=1):
    """Answers about n conversations with three utterances each, a third of them causes, asked for four pairs."""
    rng = np.random.default_rng(seed)
    rows = [
        ("faith", "v", f"c{k}:{turn}", p, e, p == e, "", turn == 0,
         bool(rng.random() < (yes_to_causes if turn == 0 else yes_to_others)))
        for k in range(n) for turn in range(3) for p in "ab" for e in "ab"
    ]  # fmt: skip
    names = ["dimension", "variant", "narrative_id", "perceiver", "experiencer", "in_group", "identity", "is_cause"]
    return pd.DataFrame(rows, columns=[*names, "said"]).astype({"said": "boolean"})


def said_of(answers):
    return [remark.text for remark in yes_remarks(answers, confidence=0.95)]


def test_yes_to_all_and_to_any_is_a_guess_and_yes_to_causes_is_none():
    assert len(said_of(possible_causes(1, 1))) == len(said_of(possible_causes(0.7, 0.7))) == 1
    assert said_of(possible_causes(0.8, 0.4)) == []
    assert len(said_of(possible_causes(0.4, 0.8))) == 1
    [text] = said_of(possible_causes(1, 1))
    assert "F1 0.50 of causes" in text  # 2 · ⅓ / (1 + ⅓)


def test_a_random_answer_is_called_better_than_a_guess_in_one_of_forty():
    found = [not said_of(possible_causes(0.5, 0.5, seed=seed)) for seed in range(200)]
    assert sum(found) <= 13  # the lower end of a 95% interval is above 0 in 2.5%; 13 of 200 or more have p 0.001


def test_one_label_always_is_a_guess_and_reading_is_none():
    rng = np.random.default_rng(2)
    rows = possible_causes(1, 1).drop(columns=["is_cause", "said"])
    gold = rows["narrative_id"].map({name: rng.choice(["joy", "fear"], p=[0.7, 0.3]) for name in rows["narrative_id"]})
    for read, n in ((rows.index >= 0, 0), (rng.random(len(rows)) < 0.9, 0), (rows.index < 0, 1)):
        answers = rows.assign(gold=gold, predicted=gold.where(read, "joy"))
        remarks = list(one_label_remarks(recognition_tables(answers, seed=1, n_draws=200)))
        assert len(remarks) == n


SAID = ("we had dinner with my aunt in town", "then the dog ran off into the woods and never came back home", "I cried")
CAUSE = ("my aunt in town", "the dog ran off", "")  # of every third conversation each; the last has none


def spans(tmp_path, copied, *, n=30):
    """Score what is copied of n conversations of three lines, the last with an emotion; return remarks and answers."""
    rows = [
        (f"c{k}", turn, "Ann", said, ("", "", ("sad", "glad")[k % 2])[turn - 1], ("", "", CAUSE[k % 3])[turn - 1])
        for k in range(n) for turn, said in enumerate(SAID, start=1)
    ]  # fmt: skip
    columns = ["conversation_id", "turn", "speaker", "text", "emotion", "cause"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "said.csv", index=False)
    corpus = read_conversations(tmp_path / "said.csv", columns={name: name for name in columns}, history=None)
    names = [each.narrative_id for each in corpus.narratives.narratives]
    texts = [copied(k, corpus.causes[name]) for k, name in enumerate(names)]
    replies = [Reply(text, narrative_id=name) for text, name in zip(texts, names, strict=True)]
    f1 = CauseSpans(corpus.causes).score(replies)[:, 1]
    answers = pd.DataFrame({"dimension": "faith", "variant": "v", "narrative_id": names, "f1": f1})
    guesses = span_guesses(corpus, names)
    return [remark.text for remark in span_remarks(answers, guesses, confidence=0.95)], guesses


def test_copying_the_same_line_always_is_a_guess_and_finding_the_cause_is_none(tmp_path):
    for copied in (
        lambda k, own: SAID[1],
        lambda k, own: SAID[2],
        lambda k, own: " ".join(SAID),
        lambda k, own: "none",
    ):
        said, guesses = spans(tmp_path, copied)
        assert len(said) == 1
    # By hand: "none" is right of every third. Of "the dog ran off", without the article, the longest line shares 3 of 3
    # words and has 11 of its own: F1 2 · 3 / (3 + 11), of every third.
    assert np.mean([*guesses["that there is no cause"].values()]) == 1 / 3
    assert np.isclose(np.mean([*guesses["the longest line"].values()]), 6 / 14 / 3)
    assert "of that there is no cause in every case it is 0.33" in said[0]
    # A model that finds the words of three in four, and says of the others that there is no cause.
    found, _ = spans(tmp_path, lambda k, own: own[0] if own and k % 4 else "none")
    assert found == []
