"""Replies that vary from asking to asking, or with the wording of the prompt: what is claimed of their measures."""

from __future__ import annotations

import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, compared_replies, leave_out_figures, named_in, read_exactly, scripted_models
from test_planted_strategy import Scripted

from audit.cli.main import main
from audit.comparing.preference.judging import JudgeSettings, paired_replies, two_runs
from audit.engines.base import Generated
from audit.runs.manifest import Manifest
from audit.tables.replies import OF_AGAIN

pytestmark = pytest.mark.long

OF_ALL = (
    "run", "task=reply", "measures.names=[lexical]", "stimuli.emotions=[sad,happy]", "stimuli.unspecified=false",
    "stimuli.situations_per_emotion=12", "statistics.n_permutations=100", *FOUR_RELIGIONS,
)  # fmt: skip
PLANTED = (*OF_ALL, "model=planted", "model.planted.response=30")
SAMPLED = "task.temperature=1"
NOISY = ("model.planted.gap=4", "model.planted.noise=20", "seed=2")
N_NARRATIVES, N_AGAIN = 24, 32
N_PROMPTS = 16 * N_NARRATIVES


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with runs whose replies vary by more than their gap, have none, vary by less, and not at all."""
    planted = {
        "noisy": (*NOISY, SAMPLED),
        "none": ("model.planted.noise=20", SAMPLED),
        "clear": ("model.planted.gap=12", "model.planted.noise=4", SAMPLED),
        "greedy": ("model.planted.gap=8", "model.planted.noise=4"),
    }
    words = {name: (*PLANTED, *own) for name, own in planted.items()}
    return compared_replies(tmp_path_factory.mktemp("again"), words, compared=("noisy", "clear")) / "runs"


def table(run, name):
    return read_exactly(run / "tables" / f"{name}.csv")


def noise_of(run):
    controls = table(run, "controls")
    return controls.loc[controls["control"] == "noise"].set_index("outcome")


def verdicts_of(run):
    return table(run, "verdicts").set_index("outcome")


def scores_of(run):
    scores = pd.read_parquet(run / "scores/lexical/scores.parquet")
    return {name: own.set_index("prompt_index")["value"] for name, own in scores.groupby("measure", observed=True)}


# --- What asking again changes ---------------------------------------------------------------------------------------


def test_replies_that_vary_by_more_than_their_gap_show_none(runs):
    noisy, noise = verdicts_of(runs / "noisy"), noise_of(runs / "noisy")
    assert noise.loc["n_words", "se"] > 1.5
    assert abs(noisy.loc["n_words", "delta"]) < 2 * noise.loc["n_words", "se"]
    assert (noisy.loc["n_words", "code"], noisy.loc["n_words", "reasons"]) == ("no_verdict", "noise_floor")
    assert noisy.loc["n_words", "p"] < 0.05  # by chance of the replies alone it may be there
    assert noisy.loc["n_words", "next_step"] == "more_narratives"
    assert "gap" not in set(noisy["code"])


def test_noise_takes_no_verdict_from_a_gap_that_is_not_found_anyway(runs):
    none = verdicts_of(runs / "none").loc["n_words"]
    assert abs(none["delta"]) < 2 * noise_of(runs / "none").loc["n_words", "se"]
    assert (none["code"], none["reasons"]) == ("undecided", "holds_zero")


def test_a_gap_larger_than_what_asking_again_changes_is_found(runs):
    clear, noise = verdicts_of(runs / "clear").loc["n_words"], noise_of(runs / "clear").loc["n_words"]
    assert clear["code"] == "gap"
    assert clear["delta"] == pytest.approx(12, abs=2)
    assert 0 < 2 * noise["se"] < clear["delta"]


def test_replies_without_chance_have_no_noise(runs):
    assert (noise_of(runs / "greedy")["se"] == 0).all()
    assert verdicts_of(runs / "greedy").loc["n_words", "code"] == "gap"


def test_the_noise_is_the_one_worked_by_hand(runs):
    again = pd.read_parquet(runs / "noisy" / "asked_again.parquet").set_index("prompt_index")["response"]
    first = pd.read_parquet(runs / "noisy" / "replies.parquet").set_index("prompt_index")["text"]
    change = again.str.split().str.len() - first[again.index].str.split().str.len()
    assert len(again) == N_AGAIN
    # A narrative's gap is the sum of c·y over the sum of c² of its 16 replies, c = 3/4 in-group and −1/4 else:
    # 4·(3/4)² + 12·(1/4)² = 3. So its variance is r²/3, and that of the mean of 24 is r²/(3·24).
    by_hand = np.sqrt((change**2).mean() / (3 * N_NARRATIVES))
    assert noise_of(runs / "noisy").loc["n_words", "se"] == pytest.approx(by_hand)


def test_what_was_asked_again_is_stored_scored_and_told(runs):
    for name, varied in (("noisy", "seed, order and batches"), ("greedy", "order and batches")):
        check = Manifest.read(runs / name).checks["asked_again"]
        assert (check.n_prompts, check.varied) == (N_AGAIN, varied)
        again = pd.read_parquet(runs / name / "asked_again.parquet")
        scores = scores_of(runs / name)
        assert sorted(scores[f"{OF_AGAIN}n_words"].index) == sorted(again["prompt_index"])
        assert len(scores["n_words"]) == N_PROMPTS  # what was scored first stays
        assert set(noise_of(runs / name).index) == set(verdicts_of(runs / name).index)
        page, controls = (runs / name / "report.html").read_text(), table(runs / name, "controls")
        for row in controls.index[controls["control"] == "noise"]:
            assert f'data-at="controls:{row}:se"' in page


def test_a_gate_says_that_repeating_changes_a_measure_by_as_much_as_the_margin(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    noise = noise_of(runs / "noisy").loc["sentiment", "se"]
    told = {}
    for margin in (noise, 3 * noise):
        main(["gate", "runs/noisy", "measure=sentiment", f"margin={margin}", "strict_average=true", "out=gate"])
        told[margin] = "repeating the prompts" in json.dumps(
            json.loads((runs.parent / "gate/verdict.json").read_text())
        )
    assert told == {noise: True, 3 * noise: False}


def test_a_comparison_an_index_and_a_paper_tell_it(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    compared = table(runs.parent / "side", "verdicts").query("outcome == 'n_words'")
    codes = dict(zip(compared["run"], zip(compared["code"], compared["reasons"].fillna(""), strict=True), strict=True))
    assert sorted(codes.values())[0][0] == "gap"
    assert sorted(codes.values())[1] == ("no_verdict", "noise_floor")
    index = read_exactly(runs / "index.csv").query("outcome == 'Length'").set_index("folder")
    assert (index.loc["noisy", "verdict"], index.loc["clear", "verdict"]) == ("absent", "gap")
    monkeypatch.setattr("audit.extras.exchange.paper.export._figures", lambda *_: ({}, ""))
    for name in ("noisy", "clear"):
        assert main(["export", f"runs/{name}", "form=paper", f"to=paper-{name}"]) == 0
        methods = (runs.parent / f"paper-{name}" / "methods.md").read_text()
        assert ("of Length: δ is below twice what it would vary by" in methods) == (name == "noisy")
        assert f"{N_AGAIN} prompts were asked again, with other seed, order and batches." in methods


def test_only_what_is_missing_is_asked_and_scored_and_a_damaged_sample_is_asked_anew(
    runs, tmp_path, monkeypatch, capsys
):
    """A run without the sample has no row of it, which nothing calls a fault; with it, the same run gets one."""
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    words = [*PLANTED, SAMPLED, *NOISY, "run_dir=run"]
    assert main([*words, "elicitation.noise_sample=0"]) == 0
    assert noise_of(tmp_path / "run").empty
    assert "noise" not in json.dumps(table(tmp_path / "run", "verdicts").to_dict())
    before = scores_of(tmp_path / "run")
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr()
    assert f"asking a sample again: {N_AGAIN} of {N_AGAIN} prompts" in said.err + said.out
    for name, own in before.items():
        pd.testing.assert_series_equal(own, scores_of(tmp_path / "run")[name])
    pd.testing.assert_frame_equal(noise_of(tmp_path / "run"), noise_of(runs / "noisy"))
    assert main(words) == 0
    assert f"all {N_PROMPTS} prompts are already answered" in capsys.readouterr().err
    sample = tmp_path / "run" / "asked_again.parquet"
    whole = pd.read_parquet(sample)
    sample.write_bytes(sample.read_bytes()[:100])
    assert main(["recover", "run"]) == 0
    assert main(words) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(sample), whole)


def test_scores_of_a_file_have_no_noise_and_leave_that_of_others(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    shutil.copytree(runs / "noisy", "run")
    pd.DataFrame({"prompt_index": range(N_PROMPTS), "warmth": [k % 7 for k in range(N_PROMPTS)]}).to_csv(
        "mine.csv", index=False
    )
    words = [*PLANTED, SAMPLED, *NOISY, "run_dir=run"]
    assert main([*words, "measures.scores=mine.csv"]) == 0
    assert "scores_warmth" in verdicts_of(tmp_path / "run").index
    pd.testing.assert_frame_equal(noise_of(tmp_path / "run"), noise_of(runs / "noisy"))


def test_whether_a_reply_is_refused_is_asked_again_too(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    assert main([*PLANTED, SAMPLED, "model.planted.refusals=0.4", "run_dir=run"]) == 0
    again = pd.read_parquet("run/asked_again.parquet").set_index("prompt_index")["status"].astype(str)
    first = pd.read_parquet("run/replies.parquet").set_index("prompt_index")["status"].astype(str)[again.index]
    differ = (again == "refused") != (first == "refused")
    assert 0 < differ.mean() < 1
    assert (first == "refused").any()
    rows = noise_of(tmp_path / "run")
    assert rows.loc["refused", "se"] == pytest.approx(np.sqrt(differ.mean() / (3 * N_NARRATIVES)))
    both = int(((first == "written") & (again == "written")).sum())  # a refused reply has no length
    assert f"estimated from {both} that were" in rows.loc["n_words", "note"]


def test_an_assistant_without_perceivers_is_asked_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    words = [word for word in PLANTED if not word.startswith("stimuli.unspecified")]
    assert main([*words, SAMPLED, "experiment=deployed", "run_dir=run"]) == 0
    assert not (tmp_path / "run" / "asked_again.parquet").exists()
    assert main(["plan", *words[1:], SAMPLED, "experiment=deployed", "probe=0", "out=plan.json"]) == 0
    assert [each["what"] for each in json.loads((tmp_path / "plan.json").read_text())["calls"]] == ["prompts"]


def test_a_plan_counts_what_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", *PLANTED[1:], "elicitation.noise_formats=[float32]", "probe=0", "out=plan.json"]) == 0
    calls = {each["what"]: each["n"] for each in json.loads((tmp_path / "plan.json").read_text())["calls"]}
    assert calls == {"prompts": N_PROMPTS, "asked again": N_AGAIN}


# --- Other wordings of the prompt ------------------------------------------------------------------------------------

V, CARRIES, CARRIED = 8, 5, 24  # wordings, which one has a gap of length, and about how many words it is
LAST_LINES = (
    "Your reply:", "What you reply:", "Reply:", "Your answer:", "You write back:", "Your reply to this:",
    "Your response:", "Now your reply:",
)  # fmt: skip
"""Of the question, by wording."""


class Worded(Scripted):
    """In one wording it writes more to its own group, in all it writes more kindly to it; how much is the story's."""

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        self.calls.append(len(prompts))
        return [Generated(self.reply(bytes(ids).decode()), 3, False) for ids in prompts]

    def reply(self, text):
        system, user = re.fullmatch(r"system: (.*)\nuser: (.*)", text, re.DOTALL).groups()
        perceiver, experiencer = (
            re.search("buddhist|christian|hindu|muslim", re.sub('"[^"]*"', "", each.lower()))[0]
            for each in (system, user)
        )
        wording = LAST_LINES.index(user.splitlines()[-1])
        same = perceiver == experiencer
        story = sha256(re.search('"([^"]+)"', user)[1].encode()).digest()[0]
        n = 20 + story % 7 + (CARRIED - 1 + story % 3 if same and wording == CARRIES else 0)
        last = ("lovely", "good", "great")[story % 3] if same else "table"
        return " ".join([*[*named_in(text), *(["word"] * n)][: n - 1], last])


@pytest.fixture(scope="module")
def worded(tmp_path_factory):
    """Return a run in eight wordings, and the calls of its model."""
    folder = tmp_path_factory.mktemp("worded")
    engine = Worded()
    with scripted_models(folder) as load, pytest.MonkeyPatch.context() as patch:
        leave_out_figures(patch)
        load(engine)
        words = [*OF_ALL, f"wordings={V}", "model.path=scripted", "stimuli.situations_per_emotion=10", "run_dir=run"]
        words.remove("stimuli.situations_per_emotion=12")
        assert main(words) == 0
    return folder / "run", engine


def test_every_wording_is_asked_and_kept(worded):
    run, engine = worded
    replies = pd.read_parquet(run / "replies.parquet")
    assert replies["wording"].value_counts().to_dict() == dict.fromkeys(range(V), 16 * 20)
    assert sum(engine.calls) == V * 16 * 20 + N_AGAIN


def test_a_gap_in_one_wording_is_not_claimed_for_others_and_one_in_all_is(worded):
    verdicts = verdicts_of(worded[0])
    length, kind = verdicts.loc["n_words"], verdicts.loc["sentiment"]
    assert (length["code"], kind["code"]) == ("gap", "gap")
    assert length["delta"] == pytest.approx(CARRIED / V, abs=1 / V)
    assert "any such wordings" in length["of_these_wordings"]
    assert pd.isna(kind["of_these_wordings"])
    page = (worded[0] / "report.html").read_text()
    assert page.count("not shown for other wordings") >= 1


def test_each_wording_has_its_own_gap_and_their_interval_is_the_crossed_one(worded):
    run = worded[0]
    by_wording = table(run, "wordings").set_index(["outcome", "wording"])["delta"]
    gap = by_wording["n_words"][CARRIES]
    assert by_wording["n_words"].tolist() == pytest.approx([gap * (k == CARRIES) for k in range(V)])
    rows = table(run, "controls").query("control == 'wording'").set_index("outcome")
    row = rows.loc["n_words"]
    # One of eight wordings is g apart: mean g/8, standard deviation g/√8, standard error g/8, and t(.975, 7) = 2.3646.
    assert (row["delta"], row["se"]) == pytest.approx((gap / V, gap / V), rel=0.01)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((-1.3646 * gap / V, 3.3646 * gap / V), rel=0.02)
    shares = table(run, "wording_shares").query("outcome == 'n_words'").set_index("part")["share"]
    assert shares["wordings"] > 0.95
    assert 0 < rows.loc["sentiment", "ci_low"] < by_wording["sentiment"].min()
    assert by_wording["sentiment"].max() - by_wording["sentiment"].min() < 0.05


def test_runs_in_several_wordings_are_compared_wording_by_wording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    words = [*PLANTED, "wordings=2", "elicitation.noise_sample=0", "stimuli.situations_per_emotion=6"]
    words.remove("stimuli.situations_per_emotion=12")
    for name in ("none", "basic-empathy"):
        assert main([*words, f"strategy={name}", f"run_dir={name}"]) == 0
    assert main(["report", "none", "basic-empathy", "run_dir=side"]) == 0
    of = [pd.read_parquet(f"{name}/replies.parquet") for name in ("none", "basic-empathy")]
    keys = ["narrative_id", "perceiver", "experiencer", "wording"]
    before, after = (
        own.assign(**own[keys].astype(str)).set_index(keys)["text"].str.split().str.len().sort_index() for own in of
    )
    row = table(tmp_path / "side", "measure_changes").query("outcome == 'n_words' and dimension == 'faith'").iloc[0]
    assert row["mean_change"] == pytest.approx((after - before).mean())
    runs = two_runs([Path("none"), Path("basic-empathy")])
    paired, _ = paired_replies(*runs, JudgeSettings(model=None))
    assert len(paired) == 16 * 12  # of the original wording alone
    assert set(of[0].set_index("prompt_index").loc[paired["prompt_index_1"], "wording"]) == {0}
