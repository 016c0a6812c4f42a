"""Runs of replies that a judge scores: what it is asked again when settings change, and what is refused beforehand."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest
from finished_runs import FOUR_SAD, JUDGED
from ggufs import write_gguf
from runs import in_parts

from audit.report.sentences import LIMITS
from audit.runs.store import RunFolder
from audit.tasks.reply.scoring import read_scores, score_counts
from stimuli.narratives import load_narratives


def overrides(model, *more):
    return [f"model.path={model}", f"measures.judge.model={model}", *JUDGED, "run_dir=run", *more]


@pytest.fixture(scope="session")
def judged(finished_model_run):
    """Folder of a finished run; not to be written to."""
    return finished_model_run("judged-replies")


@pytest.fixture
def run(judged, audit, tmp_path):
    """Folder of a finished run, ``run`` in the folder that the test runs in."""
    return shutil.copytree(judged, tmp_path / "run")


def table(run, name):
    """Return a table; None if it has no rows, and so no file."""
    path = run / f"tables/{name}.csv"
    return pd.read_csv(path) if path.exists() else None


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def scores_of(run):
    return {path.name: path.read_bytes() for path in [run / "scores" / "judge" / "scores.parquet"]}


def check_counts(run):
    """What the judge did with each reply, counted shard by shard, adds up to what its scores and the table say."""
    measures = table(run, "measures").set_index("measure")
    with RunFolder(run) as folder:
        scores, counts = read_scores(folder), score_counts(folder, "judge")
    assert len(counts) == 3
    for name, own in counts.items():
        row = measures.loc[name]
        values = scores.loc[scores["measure"] == name, "value"]
        assert row["n_scored"] == values.notna().sum() == own.get("rated", 0)
        assert row[["n_refused", "n_unparseable", "n_failed"]].sum() + own.get("blank", 0) == values.isna().sum()
    assert measures.loc["n_words", ["n_cut", "n_refused", "mean_mass"]].isna().all()
    return measures.loc[list(counts)], counts


def test_what_a_judge_left_unscored_is_counted_beside_its_mean(run, audit, tiny_model):
    measures, counts = check_counts(run)
    # The tiny model writes random words: a reply of white space alone is none to judge, and is counted elsewhere.
    replies = pd.read_parquet(run / "replies.parquet")["status"].value_counts()
    assert set(replies.index) <= {"written", "cut", "empty"}
    assert replies.sum() == 64
    n_replies = replies.drop("empty", errors="ignore").sum()
    assert n_replies > 60
    for name, own in counts.items():
        assert measures.loc[name, "n_replies"] == n_replies
        assert measures.loc[name, "mean_mass"] == pytest.approx(own["mass"] / own["with_mass"])
        assert own["with_mass"] == n_replies
    assert LIMITS["judge_mass"][0] in re.sub("<[^>]+>", "", (run / "report.html").read_text())  # a term is explained
    (in_parts(run) / "scores/judge/part-000001.parquet").unlink()
    assert audit("run", *overrides(tiny_model, *FOUR_SAD, "measures.judge.own_gap=2")) == 0
    again, _ = check_counts(run)
    pd.testing.assert_frame_equal(again, measures)


def test_a_judge_that_writes_no_number_scores_nothing_and_is_counted(audit, tiny_model, tmp_path):
    how = ("measures.judge.own_gap=0", "measures.judge.method=generate", "measures.judge.max_tokens=2")
    assert audit("run", *overrides(tiny_model, *FOUR_SAD, *how)) == 0
    measures, _ = check_counts(tmp_path / "run")
    assert measures["n_unparseable"].sum() > 0
    assert measures["mean_mass"].isna().all()


@pytest.mark.parametrize("n", [3, 0])
def test_another_size_of_the_judge_s_own_gap_is_asked_and_no_reply_is_scored_again(n, run, audit, tiny_model):
    before = scores_of(run)
    assert audit("run", *overrides(tiny_model, *FOUR_SAD, f"measures.judge.own_gap={n}")) == 0
    assert scores_of(run) == before
    gap, effects = table(run, "judge_gap"), table(run, "judge_effects")
    if n == 0:
        assert (gap, effects) == (None, None)
        return
    assert set(gap.loc[gap["estimator"] == "contrast", "n_narratives"]) == {n}
    assert len(effects) == 12  # experiencers, measures


def test_what_a_judge_scored_outlasts_a_command_without_it_and_one_that_can_not_be_opened(
    run, audit, tiny_model, monkeypatch, capsys
):
    before, command = scores_of(run), overrides(tiny_model, *FOUR_SAD, "measures.judge.own_gap=2")
    assert audit("run", *command, "measures.judge.model=null") == 0
    assert set(table(run, "measures").query("status == 'absent'")["measure"]) == {"judge"}
    assert table(run, "judge_gap") is None
    (run.parent / "broken").mkdir()
    assert audit("run", *command, "measures.judge.model=broken") == 0  # the replies keep their page
    assert "judge is not measured: model broken: broken has no config.json" in "".join(capsys.readouterr())
    assert set(table(run, "measures").query("status == 'absent'")["measure"]) == {"judge"}
    assert scores_of(run) == before

    def opened(*_, **__):
        raise AssertionError("a model was opened")

    monkeypatch.setattr("audit.engines.open.open_model", opened)
    assert audit("run", *command) == 0
    assert scores_of(run) == before
    assert len(table(run, "judge_gap")) > 0


def test_narratives_that_name_whom_they_tell_are_left_out_of_the_judge_s_own_gap(audit, tiny_model, tmp_path):
    names = ("a Buddhist", "a Christian", "a Hindu", "a Muslim")
    rows = [f't{k},sad,"They sent me away and said: only {" or ".join(names)} would do that {k}."' for k in range(3)]
    (tmp_path / "told.csv").write_text("\n".join(["narrative_id,emotion,text", *rows, "t3,sad,I lost my keys."]))
    stimuli = ("stimuli=csv", "stimuli.path=told.csv", "stimuli.columns.first_person=text")
    assert audit("run", *overrides(tiny_model, *stimuli)) == 0
    run = tmp_path / "run"
    gap = table(run, "judge_gap")
    assert set(gap.loc[gap["estimator"] == "contrast", "n_narratives"]) == {1}
    assert manifest_of(run)["scorers"]["judge"]["own_gap"]["left_out"] == {"faith": 3}
    said = "3 narratives could not be used for the judge"
    assert said in (run / "report.html").read_text()
    assert audit("run", *overrides(tiny_model, *stimuli, "measures.judge.own_gap=0")) == 0
    assert said not in (run / "report.html").read_text()


def test_a_run_is_not_complete_while_it_is_scored_anew(run, audit, tiny_model, monkeypatch, capsys):
    assert manifest_of(run)["status"] == "complete"

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    command = ("run", *overrides(tiny_model, *FOUR_SAD, "measures.judge.own_gap=2", "measures.judge.rubric=epitome"))
    with monkeypatch.context() as patch:
        patch.setattr("audit.tasks.reply.scoring.write_scores", interrupted)
        assert audit(*command) == 130
    assert manifest_of(run)["status"] == "running"
    assert audit("people", "export", run) == 2
    assert "is not finished" in capsys.readouterr().err
    assert audit(*command) == 0
    assert manifest_of(run)["status"] == "complete"


@pytest.mark.parametrize(
    ("name", "content", "asked", "said"),
    [
        ("refs.csv", "narrative_id,reply\nx,y", "bertscore.references", "reference"),
        ("rubric.yaml", "mine: {{}}", "judge.rubric_file", "rubric.yaml"),
        ("levels.csv", "narrative_id,explorations\nnobody,1", "epitome.labels", "has none of this run's"),
        ("levels.csv", "narrative_id,explorations\nnobody,1\n{id},3", "epitome.labels", "a level must be 0, 1 or 2"),
        ("levels.csv", "narrative_id,empathy\n{id},1", "epitome.labels", "no column"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_before_the_model_is_asked(
    name, content, asked, said, audit, tiny_model, tmp_path, monkeypatch, capsys
):
    def opened(*_, **__):
        raise AssertionError("a model was opened")

    monkeypatch.setattr("audit.engines.open.open_model", opened)
    first = next(each.narrative_id for each in load_narratives("geneva", emotions=["sad"]).narratives)
    (tmp_path / name).write_text(content.format(id=first))
    names = ("measures.names=[lexical,bertscore,epitome,judge]", "measures.judge.rubric=epitome")
    everything = ("stimuli.emotions=[sad]", "stimuli.situations_per_emotion=all")
    assert audit("run", *overrides(tiny_model, *everything, *names, f"measures.{asked}={name}")) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("audit: ")
    assert said in line
    assert not (tmp_path / "run").exists()


@pytest.mark.model
def test_a_gguf_file_is_a_model_and_a_judge(audit, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packed = write_gguf(tmp_path / "tiny.gguf", q8=True)
    narratives = ("stimuli.emotions=[sad]", "stimuli.situations_per_emotion=1", "measures.judge.own_gap=0")
    assert audit("run", *overrides(packed, *narratives, "measures.judge.max_model_len=8192")) == 0
    assert f"model.path={packed}: unpacking once, 0 million weights from Q8_0, F32" in capsys.readouterr().err
    manifest = manifest_of(tmp_path / "run")
    assert manifest["model"]["weights"] == "dequantised from Q8_0, F32"
    assert manifest["model"]["revision"].startswith("gguf:")
    assert manifest["scorers"]["judge"]["facts"]["weights"] == "dequantised from Q8_0, F32"
    assert "dequantised from Q8_0, F32" in (tmp_path / "run" / "report.html").read_text()
    assert len(list((tmp_path / "cache" / "empathy-audit").glob("gguf-*-1-*/config.json"))) in (1, 2)
