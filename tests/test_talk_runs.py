"""Talks of several turns with a user who says who they are: who gets colder replies in the end, and what is asked."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from html import unescape

import pandas as pd
import pytest
from gated import verdict
from runs import FOUR_RELIGIONS, collected, command_fixture, named_in, scripted_models
from test_comparison import files_of, table_of
from test_planted_strategy import Scripted
from test_reply_disparity import first_screen, heads_of

from audit.cli.main import main
from audit.engines.base import Generated

pytestmark = pytest.mark.long

WORDS = (
    "task=reply", "strategy=talk", "model.path=scripted", *FOUR_RELIGIONS, "measures.names=[lexical]",
    "stimuli.unspecified=false", "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=12",
    "statistics.n_permutations=100", "stimuli.pairs=all", "stimuli.placebo=1", "shard_size=200",
)  # fmt: skip
GROUPS = ["Buddhist", "Christian", "Hindu", "Muslim"]
KIND, COLD = "That sounds lovely.", "That sounds horrible."


class Talker(Scripted):
    """It is kind in 9 of 10 replies of equal length, and names the story in the second; to Muslims it ends coldly."""

    cold_in = (3,)
    stops_at = None  # the call at which it is interrupted

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        if len(self.calls) == self.stops_at:
            raise KeyboardInterrupt
        self.calls.append(prompts)
        return [Generated(self.reply(bytes(ids).decode()), 3, False) for ids in prompts]

    def reply(self, text):
        told = re.search(r"user: (.+?) tells you", text)[1].removeprefix("A ")
        turn = text.count("user: ")
        named = " ".join(named_in(text))
        kind = sha256(text.replace(f"{named} ", "").encode()).digest()[0] < 256 * 0.9
        said = KIND if kind != (told == "Muslim" and turn in self.cold_in) else COLD
        return f"{named} {said}" if turn == 2 else said


command = command_fixture("talks", Talker)


@pytest.fixture(scope="module")
def run(command):
    assert command("run", *WORDS, "run_dir=run") == 0
    return command.folder / "run"


def test_a_group_that_gets_colder_replies_in_the_end_is_found_in_the_change_and_nothing_else_is(run):
    heads = heads_of(run)
    found = heads.loc[heads["code"].isin(["lower", "higher"])]
    assert set(found.index) == {("sentiment", "Muslim"), ("sentiment_change", "Muslim")}
    assert set(found["code"]) == {"lower"}
    assert heads.loc[("n_words_change", "Muslim"), "disparity"] == 0
    assert not (table_of(run, "verdicts")["code"] == "gap").any()  # whoever writes is as cold: no δ


def test_the_change_is_the_last_reply_less_the_first(run):
    scores = pd.read_parquet(run / "scores/lexical/scores.parquet")
    of = {name: own.set_index("prompt_index")["value"] for name, own in scores.groupby("measure", observed=True)}
    stages = pd.read_parquet(run / "stages.parquet")
    last = pd.read_parquet(run / "replies.parquet").set_index("prompt_index")["text"]
    first = stages.loc[stages["stage"] == "turn_1"].set_index("prompt_index")["text"]
    kind, cold = of["sentiment"][last == KIND].unique(), of["sentiment"][last == COLD].unique()
    assert (len(kind), len(cold)) == (1, 1)
    by_hand = {(KIND, KIND): 0.0, (COLD, COLD): 0.0, (KIND, COLD): cold[0] - kind[0], (COLD, KIND): kind[0] - cold[0]}
    pairs = [by_hand[pair] for pair in zip(first.sort_index(), last.sort_index(), strict=True)]
    assert of["sentiment_change"].sort_index().tolist() == pytest.approx(pairs)


def test_the_last_reply_alone_is_asked_again_and_its_change_is_from_the_first_one(run):
    scores = pd.read_parquet(run / "scores/lexical/scores.parquet")
    of = {name: own.set_index("prompt_index")["value"] for name, own in scores.groupby("measure", observed=True)}
    places = pd.read_parquet(run / "asked_again.parquet")["prompt_index"]
    assert len(places) == 32
    for name in ("sentiment", "sentiment_change"):  # this model answers alike each time
        assert of[f"again_{name}"][places].tolist() == of[name][places].tolist()
    assert of["sentiment_change"][places].nunique() > 1
    assert not [name for name in of if name.startswith("again_") and "_turn_" in name]
    noise = table_of(run, "controls").query("control == 'noise'").set_index("outcome")["se"]
    assert noise["sentiment_change"] == noise["sentiment"] == 0


def test_each_turn_has_the_d_of_its_own_replies(run):
    table = table_of(run, "turns")
    sentiment = table.loc[table["outcome"] == "sentiment"].set_index(["turn", "group"])
    assert set(table["turn"]) == {1, 2, 3}
    replies = pd.read_parquet(run / "replies.parquet")
    stages = pd.read_parquet(run / "stages.parquet")
    group = replies.set_index("prompt_index")["experiencer_group"].astype(str)
    scores = pd.read_parquet(run / "scores/lexical/scores.parquet")
    of_text = {KIND: 0.5859, COLD: -0.5423}  # VADER's lexicon: lovely 2.8, horrible −2.5, x / √(x² + 15)
    for turn in (1, 2, 3):
        texts = (replies if turn == 3 else stages.loc[stages["stage"] == f"turn_{turn}"]).set_index("prompt_index")
        said = texts["text"].astype(str).str.extract("(That .*)")[0]
        mean = said.map(of_text).groupby(group).mean()[GROUPS]
        for name in mean.index:  # a complete design: plain means
            row = sentiment.loc[(turn, name)]
            assert row["mean"] == pytest.approx(mean[name], abs=1e-4)
            assert row["disparity"] == pytest.approx(mean[name] - mean.drop(name).mean(), abs=1e-4)
    assert sentiment.loc[(1, "Muslim"), "ci_low"] < 0 < sentiment.loc[(1, "Muslim"), "ci_high"]
    assert sentiment.loc[(3, "Muslim"), "ci_high"] < 0
    assert set(scores["measure"]) >= {"sentiment_turn_1", "sentiment_turn_2"}


def test_the_first_screen_names_the_group_and_the_change(run):
    screen = " ".join(unescape(re.sub(r"<[^>]+>", "", first_screen(run))).split())
    assert "Lower for Muslim than for the others in 2 measures" in re.sub(r"In these words, l", "L", screen), screen
    assert "change over the talk" in screen


def test_the_page_shows_d_of_the_measure_that_changes_in_each_turn_and_none_of_those_that_never_differ(run):
    page, table = (run / "report.html").read_text("utf-8"), table_of(run, "turns")
    for place, row in table.iterrows():
        assert (f'data-at="turns:{place}:disparity"' in page) == (row["outcome"] == "sentiment")


def test_the_gate_fails_the_model_by_the_change_for_this_group_and_by_no_other(run, command):
    assert command("gate", run, "measure=sentiment_change", "margin=0.2") == 1
    failed = {(row["kind"], row["member"]) for row in verdict(run)["gaps"] if row["verdict"] == "failed"}
    assert failed == {("disparity", "Muslim")}
    assert command("gate", run, "measure=advice_change", "margin=0.2") in (0, 3)
    assert not [row for row in verdict(run)["gaps"] if row["verdict"] == "failed"]


def test_a_group_that_gets_colder_replies_throughout_is_no_change(command, monkeypatch):
    monkeypatch.setattr(Talker, "cold_in", (1, 2, 3))
    assert command("run", *WORDS, "run_dir=throughout") == 0
    heads = heads_of(command.folder / "throughout")
    assert set(heads.index[heads["code"].isin(["lower", "higher"])]) == {("sentiment", "Muslim")}


@pytest.mark.parametrize("stop_at", [1, 5])
def test_an_interrupted_talk_goes_on_where_it_stopped_to_the_same_bytes(stop_at, run, command, monkeypatch):
    """Calls: three turns of each of four shards."""
    name = f"stopped_{stop_at}"
    monkeypatch.setattr(Talker, "stops_at", stop_at)
    assert command("run", *WORDS, f"run_dir={name}") == 130
    stopped = command.folder / name
    n_kept = len(collected(stopped, "stages")) + len(collected(stopped, "replies"))
    assert n_kept == stop_at
    monkeypatch.setattr(Talker, "stops_at", None)
    assert command("run", *WORDS, f"run_dir={name}") == 0
    for table in ("stages", "replies"):
        assert collected(stopped, table) == collected(run, table) != {}
    assert files_of(stopped / "tables") == files_of(run / "tables")


def test_a_reply_that_declines_has_no_number_and_its_talk_no_change(command, monkeypatch):
    plain = Talker.reply

    def declining(self, text):
        first = text.count("user: ") == 1
        return "I'm sorry, but I can't help with that." if first and "A Hindu " in text else plain(self, text)

    monkeypatch.setattr(Talker, "reply", declining)
    assert command("run", *WORDS, "run_dir=declined") == 0
    scores = pd.read_parquet(command.folder / "declined/scores/lexical/scores.parquet")
    replies = pd.read_parquet(command.folder / "declined/replies.parquet").set_index("prompt_index")
    hindus = set(replies.index[replies["experiencer_group"] == "Hindu"])
    assert len(hindus) == 4 * 24
    own = scores.loc[scores["prompt_index"].isin(hindus)]
    assert "n_words_turn_1" not in set(own["measure"])
    assert own.loc[own["measure"] == "n_words_change", "value"].isna().all()
    assert own.loc[own["measure"] == "n_words", "value"].notna().all()


# --- What is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["strategy=talk"], "add task=reply"),
        (["strategy=talk", "task=reply", "thinking=on"], "a model thinks before the last only"),
        (["strategy=talk", "task=reply", "strategy.overrun=oldest"], "would not say who writes"),
        (["strategy=talk", "task=reply", "strategy.turns=['{stage_turn_1}']"], "unknown placeholder {stage_turn_1}"),
        (["strategy=talk", "task=reply", "strategy.turns=[' ']"], "message 1 is empty"),
        (["strategy=talk-file", "task=reply"], "has 0 later messages"),
        (["strategy=ecn", "task=reply", "strategy.turns=[Why?]"], "cannot go together"),
    ],
)
def test_a_talk_that_cannot_be_asked_ends_in_one_line(words, said, capsys):
    assert main(["prompts", *words, "dimensions=[religion]"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_the_first_prompt_of_an_export_shows_the_turns_in_brackets(capsys):
    assert main(["prompts", "task=reply", "strategy=talk", "dimensions=[religion]"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [stage["stage"] for stage in first["stages"]] == ["turn_1", "turn_2"]
    assert first["turns"][1] == ["assistant", "[what stage turn_1 writes]"]


class Decliner(Talker):
    """It declines the second of three messages of Hindus, and goes on as if nothing was."""

    def reply(self, text):
        told = re.search(r"user: (.+?) tells you", text)[1].removeprefix("A ")
        return "I'm sorry, but I can't help with that." if told == "Hindu" and text.count("user: ") == 2 else KIND


def test_a_group_that_is_refused_in_an_earlier_turn_is_found(tmp_path):
    with scripted_models(tmp_path) as load:
        load(Decliner())
        assert main(["run", *WORDS, f"run_dir={tmp_path / 'run'}"]) == 0
    heads = heads_of(tmp_path / "run")
    found = heads.loc[("refused_earlier", "Hindu")]
    assert found["disparity"] == 1
    assert heads.loc[("refused", "Hindu"), "disparity"] == 0
    measures = table_of(tmp_path / "run", "measures").set_index("measure")
    assert measures.loc["refused_earlier", "mean"] == pytest.approx(0.25)
    assert "declined in an earlier turn" in first_screen(tmp_path / "run")
