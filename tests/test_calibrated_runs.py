"""Runs that take ends of numbers from a sample of their prompts, end to end."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest

from audit.asking.elicitation.ends import EndSample
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import END_SHARES, MANIPULATED

CALIBRATED = ("elicitation.max_pruned_points=0.5",)  # ends are calibrated by default
EXACT = (*CALIBRATED, "elicitation.ends=exact")


def overrides(model, run_dir, *more):
    """Overrides of a run of 72 prompts in 5 shards: 6 religions and 2 narratives."""
    return [
        f"model.path={model}", "engine=transformers", "engine.device=cpu", "elicitation=expected",
        "elicitation.check_sample=0", "elicitation.noise_sample=4", "elicitation.manipulation=1",
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", "stimuli.perceiver_terms=1",
        "stimuli.experiencer_terms=1", "stimuli.placebo=0", "stimuli.unspecified=false", "dimensions=religion",
        "stimuli.pairs=all", "statistics.n_permutations=100", "shard_size=16", f"run_dir={run_dir}", *more,
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Samples of four prompts, worth it in any run; no figures."""
    for name, value in (("SAMPLE", 4), ("LEAST", 4), ("WORTH", 1)):
        monkeypatch.setattr(f"audit.asking.elicitation.ends.{name}", value)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture
def nodes(monkeypatch):
    """Return a list of the nodes that each reading asks about."""
    from audit.engines.packed import PackedReading

    asked, probabilities = [], PackedReading.probabilities

    def counting(self, tails, token_ids):
        asked.append(sum(map(len, tails)))
        return probabilities(self, tails, token_ids)

    monkeypatch.setattr(PackedReading, "probabilities", counting)
    return asked


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def ratings_of(run):
    with RunFolder(run) as folder:
        return folder.read_ratings(n_prompts=manifest_of(run)["n_prompts"])


def stored(run, *names):
    return [
        hashlib.sha256((run / name).read_bytes()).hexdigest()
        for name in names or ("ratings.parquet", "end_shares.parquet")
    ]


def test_a_calibrated_run_asks_less_keeps_its_sample_and_says_so(tiny_model, audit, tmp_path, nodes, capsys):
    assert audit("run", *overrides(tiny_model, "exact", "elicitation.max_pruned_points=0.05", EXACT[-1])) == 0
    n_exact = sum(nodes)
    nodes.clear()
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    run = tmp_path / "run"
    ends = manifest_of(run)["ends"]
    assert ends["way"] == "calibrated"
    assert "how often numbers end is estimated from 4 prompts" in capsys.readouterr().err
    sample = EndSample.of(RunFolder(run).table(END_SHARES).rows())
    assert len(sample.prompts) == ends["n_prompts"] == 4
    assert ends["max_points"] == pytest.approx(abs(sample.moved[0]).max())
    assert ends["systematic_points"] == pytest.approx(sample.systematic)
    assert sum(nodes) < 0.75 * n_exact
    found, exact = ratings_of(run), ratings_of(tmp_path / "exact")
    assert found["pruned_points"].max() <= 0.5 + sample.systematic / 2
    off = found["pruned_points"] + found["ends_points"] + 0.05
    assert (np.abs(found["intensity"] - exact["intensity"]) <= off).mean() > 0.95
    without, asked = (
        RunFolder(each).table(MANIPULATED).frame()["intensity"].to_numpy() for each in (run, tmp_path / "exact")
    )
    assert 0 < np.abs(without - asked).max() <= off.max()  # prompts without identities take the same ends
    assert exact["ends_points"].isna().all()
    assert "a random sample of 4 prompts" in (run / "report.html").read_text()
    assert "sample of 4 prompts" not in (tmp_path / "exact" / "report.html").read_text()
    assert "ends" not in manifest_of(tmp_path / "exact")


def test_a_run_that_goes_on_later_gives_the_same_bytes(tiny_model, audit, tmp_path, monkeypatch):
    assert audit("run", *overrides(tiny_model, "whole", *CALIBRATED)) == 0
    write, calls = RunFolder.write_shard, []

    def interrupted(self, *arguments, **named):
        write(self, *arguments, **named)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_shard", interrupted)
        audit("run", *overrides(tiny_model, "run", *CALIBRATED))
    run = tmp_path / "run"
    before = (run / "end_shares.parquet").read_bytes()
    assert manifest_of(run)["status"] == "running"
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    assert (run / "end_shares.parquet").read_bytes() == before
    assert stored(run) == stored(tmp_path / "whole")


def test_the_order_of_shards_changes_no_rating(tiny_model, audit, tmp_path):
    assert audit("run", *overrides(tiny_model, "one", *CALIBRATED)) == 0
    assert audit("run", *overrides(tiny_model, "other", *CALIBRATED, "shard_size=7")) == 0
    one, other = (ratings_of(tmp_path / name) for name in ("one", "other"))
    np.testing.assert_allclose(one["intensity"], other["intensity"], atol=1e-4)


def test_a_run_begun_the_exact_way_goes_on_so_and_one_begun_with_a_sample_is_not_asked_the_exact_way(
    tiny_model, audit, tmp_path, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "consolidate", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        audit("run", *overrides(tiny_model, "run", *EXACT))
    (tmp_path / "run" / "ratings.parts" / "00002.parquet").unlink(missing_ok=True)
    assert "ends" not in manifest_of(tmp_path / "run")["identity"]["elicitation"]
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    assert audit("run", *overrides(tiny_model, "exact", *EXACT)) == 0
    assert "ends" not in manifest_of(tmp_path / "run")
    assert not (tmp_path / "run" / "end_shares.parquet").exists()
    assert stored(tmp_path / "run", "ratings.parquet") == stored(tmp_path / "exact", "ratings.parquet")
    assert audit("run", *overrides(tiny_model, "sampled", *CALIBRATED)) == 0
    capsys.readouterr()
    assert audit("run", *overrides(tiny_model, "sampled", *EXACT)) == 2
    assert "elicitation.ends is 'calibrated' there and None here" in capsys.readouterr().err


def test_the_default_folder_is_an_earlier_version_s_where_there_is_one(tiny_model, audit, tmp_path):
    def asked(*more):
        own = [each for each in overrides(tiny_model, "") if not each.startswith("run_dir=")]
        assert audit("run", *own, *more) == 0
        return set((tmp_path / "reports").iterdir())

    [exact] = asked("elicitation.ends=exact")
    [sampled] = asked() - {exact}  # who asks for the exact way has a folder for it
    manifest = manifest_of(exact)
    del manifest["config"]["elicitation"]["ends"]  # which earlier versions did not know
    with RunFolder(exact) as folder:
        folder.write_manifest(Manifest.of(manifest))
    shutil.rmtree(sampled)
    assert asked() == {exact}


def test_a_run_of_few_prompts_is_asked_the_exact_way_and_nothing_is_said(
    tiny_model, audit, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("audit.asking.elicitation.ends.WORTH", 50)
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    ends = manifest_of(tmp_path / "run")["ends"]
    assert (ends["way"], ends["why"]) == ("exact", "72 prompts are too few to save questions (at least 200)")
    assert not (tmp_path / "run" / "end_shares.parquet").exists()
    assert "whether numbers end" not in capsys.readouterr().err
    assert audit("run", *overrides(tiny_model, "exact", *EXACT)) == 0
    assert stored(tmp_path / "run", "ratings.parquet") == stored(tmp_path / "exact", "ratings.parquet")


def test_answers_in_words_ask_no_ends_and_are_the_same_run_whatever_the_option(tiny_model, audit, tmp_path):
    more = ("elicitation=generate", "elicitation.max_tokens=4")
    assert audit("run", *overrides(tiny_model, "run", *more)) == 0
    assert "ends" not in manifest_of(tmp_path / "run")["identity"]["elicitation"]
    assert audit("run", *overrides(tiny_model, "run", *more, "elicitation.ends=exact")) == 0


@pytest.mark.parametrize(
    "more",
    [
        ("wordings=2",),
        ("stimuli.placebo=1",),
        ("elicitation.method=auto", "elicitation.prefill=auto"),
        ("stimuli.pairs=balanced",),
        pytest.param(("engine.replicas=2",), marks=[pytest.mark.process, pytest.mark.long]),
    ],
    ids=["wordings", "invented groups", "trials", "some pairs", "two processes"],
)
def test_ratings_of_every_design_lie_within_their_bounds_of_the_exact_ones(
    tiny_model, audit, tmp_path, monkeypatch, more
):
    monkeypatch.setattr("audit.tasks.intensity.trials.METHODS", ("expected",))
    monkeypatch.setattr("audit.asking.elicitation.ends.SAMPLE", 16)
    assert audit("run", *overrides(tiny_model, "exact", *EXACT, *more)) == 0
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED, *more)) == 0
    ends = manifest_of(tmp_path / "run")["ends"]
    assert (ends["way"], ends["n_prompts"]) == ("calibrated", 16)
    found, exact = ratings_of(tmp_path / "run"), ratings_of(tmp_path / "exact")
    off = np.abs(found["intensity"] - exact["intensity"])
    assert found["ends_points"].notna().any()
    assert (off <= found["pruned_points"] + found["ends_points"].fillna(0) + exact["pruned_points"]).mean() > 0.9


def test_after_a_strategy_s_texts_each_prompt_is_asked(tiny_model, audit, tmp_path):
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED, "strategy=two-stage")) == 0
    assert manifest_of(tmp_path / "run")["ends"] == {"way": "exact", "why": "prompts show what the model wrote before"}


def test_a_comparison_and_a_gate_say_that_one_run_took_ends_from_a_sample_and_what_that_may_move(
    tiny_model, audit, tmp_path, capsys
):
    assert audit("run", *overrides(tiny_model, "exact", *EXACT)) == 0
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    most = f"up to {manifest_of(tmp_path / 'run')['ends']['systematic_points']:.2g} points for that"
    assert audit("report", "run", "exact", "run_dir=compared") == 0
    assert most in (tmp_path / "compared" / "comparison.html").read_text()
    capsys.readouterr()
    assert audit("gate", "run", "baseline=exact", "margin=50") in (0, 1, 3)
    told = capsys.readouterr()
    assert most in told.out + told.err
    assert audit("run", *overrides(tiny_model, "other", *EXACT, "seed=1")) == 0
    assert audit("report", "other", "exact", "run_dir=alike") == 0
    assert "a sample of prompts" not in (tmp_path / "alike" / "comparison.html").read_text()


def test_where_ends_vary_the_exact_way_is_taken_and_ratings_are_those_of_an_exact_run(
    tiny_model, audit, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("audit.asking.elicitation.ends.VARIES", 1e-9)
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    assert audit("run", *overrides(tiny_model, "exact", *EXACT)) == 0
    ends = manifest_of(tmp_path / "run")["ends"]
    assert ends["way"] == "exact"
    assert "ends of numbers vary between prompts" in ends["why"]
    assert "note: each prompt is asked how often numbers end" in capsys.readouterr().err
    found, exact = ratings_of(tmp_path / "run"), ratings_of(tmp_path / "exact")
    assert found["intensity"].tolist() == exact["intensity"].tolist()


def test_a_run_whose_sample_is_lost_is_not_continued_with_another(tiny_model, audit, tmp_path, monkeypatch, capsys):
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    (tmp_path / "run" / "end_shares.parquet").unlink()
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 2
    assert "end_shares.parquet" in capsys.readouterr().err


def test_a_run_with_nothing_to_calibrate_is_asked_the_exact_way(tiny_model, audit, tmp_path, monkeypatch):
    # As from a server that returns only the likeliest tokens, or with a token for each number.
    monkeypatch.setattr("audit.asking.elicitation.expected.ExpectedElicitation.calibrate", lambda *_, **__: None)
    assert audit("run", *overrides(tiny_model, "run", *CALIBRATED)) == 0
    ends = manifest_of(tmp_path / "run")["ends"]
    assert (ends["way"], "leave no end to ask for" in ends["why"]) == ("exact", True)
    assert not (tmp_path / "run" / "end_shares.parquet").exists()
    assert ratings_of(tmp_path / "run")["ends_points"].isna().all()
