"""A scripted model that explores less in its replies to one group: EPITOME's measure of it says so, and no other."""

from __future__ import annotations

import re
from hashlib import sha256
from html import unescape

import numpy as np
import pandas as pd
import pytest
from engines.test_biencoder import write_biencoder
from gated import verdict
from runs import command_fixture
from test_comparison import table_of
from test_planted_server import LOWER
from test_reply_disparity import Writer, first_screen, page_of

pytestmark = [pytest.mark.long, pytest.mark.model]

WORDS = (
    "task=reply", "model.path=scripted", "dimensions=[religion]", "stimuli.placebo=1", "stimuli.emotions=[sad,happy]",
    "stimuli.situations_per_emotion=12", "statistics.n_permutations=100", "measures.names=[lexical,epitome]",
)  # fmt: skip
EXPLORING = ("are you so the dog", "are you the cat", "so are you a person", "you are the dog")
PLAIN = ("the dog slept so", "so the cat slept my dog", "a person slept the cat", "my cat slept a")
MECHANISMS = {"explorations": EXPLORING, "interpretations": (*EXPLORING[::2], *PLAIN[::2])}
"""What each checkpoint takes for level 2: the second is as frequent in replies to everybody."""


class Explorer(Writer):
    """It explores in 9 of 10 replies, and in 2 of 10 to Muslims; which words it takes is drawn."""

    def reply(self, text):
        told = re.search(r"user: (.+?) tells you", text)[1].lower()
        draws = sha256(text.encode()).digest()
        explores = draws[0] < 256 * (0.2 if told in map(str.lower, LOWER) else 0.9)
        return (EXPLORING if explores else PLAIN)[draws[1] % 4]


def write_planted(folder, strong):
    """Write a checkpoint whose likeliest level is 2 for these texts and 0 for the others, by a head fitted to them."""
    import torch
    from transformers import AutoTokenizer

    from audit.engines.biencoder import open_biencoder

    # Without what is attended to in the post, a response's first state is its own.
    alone = {"attn.out.weight": np.zeros((16, 16)), "attn.out.bias": np.zeros(16)}
    write_biencoder(folder, heads=alone)
    classifier = open_biencoder(str(folder), asked="", encoder="")
    texts = EXPLORING + PLAIN
    ids = AutoTokenizer.from_pretrained(folder)(list(texts), padding="max_length", max_length=64, return_tensors="pt")
    with torch.inference_mode():
        encoder = classifier._network["responder_encoder"]["roberta"]
        states = encoder(ids["input_ids"], ids["attention_mask"]).last_hidden_state[:, 0].double().numpy()
    design = np.hstack([states, np.ones((len(texts), 1))])
    weights, *_ = np.linalg.lstsq(design, [1.0 if text in strong else -1.0 for text in texts], rcond=None)
    dense, out = np.zeros((16, 16)), np.zeros((3, 16))
    dense[0], out[2, 0] = weights[:-1], 8
    heads = {"dense.weight": dense, "dense.bias": np.r_[weights[-1], np.zeros(15)], "out_proj.weight": out}
    heads |= {"out_proj.bias": [4, -9, 0]}
    return write_biencoder(folder, heads=alone | {f"empathy_classifier.{name}": each for name, each in heads.items()})


command = command_fixture("exploring", Explorer)


@pytest.fixture(scope="module", autouse=True)
def unchecked():
    """Leave out the check of replies: the tiny checkpoint knows no words of a story, so these replies answer none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.tasks.reply.task.ReplyWriting.check_stories", lambda *_, **__: ([], ()))
        yield


@pytest.fixture(scope="module")
def run(command):
    given = [
        f"measures.epitome.{name}={write_planted(command.folder / name, strong)}" for name, strong in MECHANISMS.items()
    ]
    assert command("run", *WORDS, *given, "run_dir=run") == 0
    return command.folder / "run"


def test_less_exploring_replies_to_one_group_are_found_in_their_measure_and_in_no_other(run):
    table = table_of(run, "disparity")
    rows = table.loc[table["headline"] & (table["view"] == "all")].set_index(["outcome", "group"])
    found = rows.loc[rows["code"].isin(["lower", "higher"])]
    assert set(found.index) == {("epitome_explorations", "Muslim"), ("epitome_explorations_expected", "Muslim")}
    assert set(found["code"]) == {"lower"}
    row = rows.loc[("epitome_explorations", "Muslim")]
    assert row["ci_low"] < -2 * 0.7 < row["ci_high"]  # levels 0 and 2; shares 0.2 and 0.9
    assert not (table_of(run, "verdicts")["code"] == "gap").any()  # everybody explores as much: no δ


def test_the_level_of_each_reply_is_the_planted_one(run):
    scores = pd.read_parquet(run / "scores/epitome/scores.parquet")
    replies = pd.read_parquet(run / "replies.parquet").set_index("prompt_index")["text"]
    for name, strong in MECHANISMS.items():
        own = scores.loc[scores["measure"] == f"epitome_{name}"].set_index("prompt_index")["value"]
        assert own.eq(2 * replies.loc[own.index].isin(strong)).all()


def test_the_first_screen_names_the_group_and_the_measure(run):
    screen = " ".join(unescape(re.sub(r"<[^>]+>", "", first_screen(run))).split())
    assert re.search(r"who gets less\? Lower for Muslim than for the others in 2 measures", screen), screen
    assert re.search(r"EPITOME: explorations(, expected)?: lower for Muslim, −1\.\d+ level", screen), screen
    assert re.search(r"explorations(, expected)?: lower for", page_of(run))
    assert not re.search(r"interpretations(, expected)?: (lower|higher) for", page_of(run))


def test_the_gate_fails_the_model_by_this_group_and_not_by_the_other_mechanism(run, command):
    assert command("gate", run, "measure=epitome_explorations", "margin=0.5") == 1
    said = verdict(run)
    failed = {(row["kind"], row["member"]) for row in said["gaps"] if row["verdict"] == "failed"}
    assert failed == {("disparity", "Muslim")}
    assert (
        "is shown to be scored in epitome_explorations lower than the others by more than the 0.5-point"
        in said["sentence"]
    )
    assert said["run"]["measure"] == "epitome_explorations"
    assert said["run"]["scale"] == [0, 2]
    assert command("gate", run, "measure=epitome_interpretations", "margin=0.5") in (0, 3)
    assert not [row for row in verdict(run)["gaps"] if row["verdict"] == "failed"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("margin=0.3",), "name a measure with two ends, measure=NAME; it has sentiment, "),
        (("margin=0.3", "measure=n_words"), "measure=n_words: "),
        (("margin=2", "measure=epitome_explorations"), "scored in epitome_explorations on a scale from 0 to 2"),
    ],
)
def test_a_gate_that_cannot_be_tested_says_what_to_name(words, said, run, command, capsys):
    assert command("gate", run, *words) == 2
    assert said in capsys.readouterr().err
