"""Whether answers about conversations are better than guesses: planted answers, and what is said of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from audit.tasks.recognition.guesses import one_label_remarks, yes_remarks
from audit.tasks.recognition.statistics import recognition_tables


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
