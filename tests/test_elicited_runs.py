"""How runs get ratings, end to end: answers that are begun, a sample answered in words, and what is asked again."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from audit.engines.base import Generated
from audit.runs.store import RunFolder


def overrides(model, run_dir, *more):
    """Overrides of a small run: 5 perceivers (a baseline among them), all experiencers of religion, 2 narratives."""
    return [
        f"model.path={model}",
        "engine=transformers",
        "engine.device=cpu",
        "elicitation=expected",
        "elicitation.max_tokens=6",
        "elicitation.check_sample=0",
        "elicitation.noise_sample=0",
        "elicitation.manipulation=0",
        "elicitation.max_pruned_points=0",
        "stimuli.situations_per_emotion=1",
        "stimuli.emotions=[sad,happy]",
        "stimuli.perceiver_terms=1",
        "stimuli.placebo=0",
        "dimensions=religion",
        "stimuli.identities=geneva",
        "stimuli.pairs=all",
        "statistics.n_permutations=200",
        f"run_dir={run_dir}",
        *more,
    ]


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def ratings_of(run):
    with RunFolder(run) as folder:
        return folder.read_ratings(n_prompts=manifest_of(run)["n_prompts"])


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture
def no_model(monkeypatch):
    """Make any loading of a model fail."""

    def fail(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("audit.engines.open.open_model", fail)


# --- An answer that is begun for the model ----------------------------------------------------------------------------


def test_a_beginning_makes_another_run_and_none_leaves_the_run_and_its_folder_as_they_were():
    from audit.asking.plan import make_plan
    from audit.asking.run_identity import default_run_dir, plan_difference
    from audit.configuration.composition import compose

    def planned(*more):
        found = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", list(sys.argv))
            words = ["model.path=x", "elicitation=expected", "elicitation.ends=exact", *more]
            compose(words, lambda each: found.append(each.validated()))
        return make_plan(found[0])

    plain, begun = planned(), planned("elicitation.prefill='Number: '")
    # What the identity held before an answer could be begun.
    assert set(plain.identity()["elicitation"]) == {"method", "max_tokens", "parser", "max_pruned_points", "reads"}
    assert begun.identity()["elicitation"]["prefill"] == "Number: "
    assert default_run_dir(plain) != default_run_dir(begun)
    for there, here, said in (
        (plain, plain, "None"),
        (begun, begun, "None"),
        (plain, begun, "elicitation.prefill is None there and 'Number: ' here"),
        (begun, plain, "elicitation.prefill is 'Number: ' there and None here"),
    ):
        assert str(plan_difference(there.identity(), here)) == said


def test_a_run_says_what_its_answers_were_begun_with(number_model, audit, tmp_path):
    assert audit("run", *overrides(number_model, "plain")) == 0
    assert audit("run", *overrides(number_model, "begun", "elicitation.prefill='I would say '")) == 0
    plain, begun = tmp_path / "plain", tmp_path / "begun"
    manifest = manifest_of(begun)
    assert manifest["elicitation"]["prefill"] == manifest["example_prompt"]["begun"] == "I would say "
    assert "<q>I would say </q>" in (begun / "report.html").read_text()
    assert "begun with <bdi>“I would say ”</bdi>" in (begun / "report.html").read_text()
    assert "begun for the model" not in (plain / "report.html").read_text()
    assert "begun with" not in (plain / "report.html").read_text()
    ratings, others = ratings_of(begun), ratings_of(plain)
    assert (ratings["n_prompt_tokens"] > others["n_prompt_tokens"]).all()
    assert np.abs(ratings["intensity"] - others["intensity"]).max() > 0.1


@pytest.mark.parametrize(("prefill", "said"), [("' '", "white space only"), ("'I would say 80 '", "reads as a rating")])
def test_a_beginning_that_can_not_be_used_ends_in_one_line(number_model, audit, capsys, no_model, prefill, said):
    assert audit("run", *overrides(number_model, "run", f"elicitation.prefill={prefill}")) == 2
    assert said in capsys.readouterr().err


# --- The same prompts in words, and again -----------------------------------------------------------------------------


def checked(model, *more):
    return overrides(model, "run", "elicitation.check_sample=80", "elicitation.noise_sample=16", *more)


@pytest.fixture
def says(monkeypatch):
    """Return a function that makes the engine write one text whatever it is asked, and counts what it is asked."""
    from audit.engines.transformers import TransformersEngine

    def saying(text, *, fail_at=0):
        calls = []

        def generate(self, prompts, *, done=None, **_):
            calls.append(len(prompts))
            if len(calls) == fail_at:
                raise KeyboardInterrupt
            return [Generated(text, 2, False) for _ in prompts]

        monkeypatch.setattr(TransformersEngine, "generate", generate)
        return calls

    return saying


def test_a_rating_told_of_the_person_counts_where_the_emotion_is_the_one_asked_about(
    number_model, audit, tmp_path, says
):
    says("The person felt 90 sadness.")
    assert audit("run", *checked(number_model)) == 0
    sample = pd.read_parquet(tmp_path / "run" / "elicitation_sample.parquet")
    emotions = ratings_of(tmp_path / "run").set_index("prompt_index")["emotion"].loc[sample["prompt_index"]].to_numpy()
    assert set(sample.loc[emotions == "sad", "intensity"]) == {90}
    assert set(sample.loc[emotions == "happy", "status"]) == {"unparseable"}


def test_a_text_that_ends_at_the_most_tokens_is_no_rating_and_the_page_says_how_many(number_model, audit, tmp_path):
    # max_tokens=1: the first token of "80" is "8", which was a rating before.
    assert audit("run", *overrides(number_model, "run", "elicitation=generate", "elicitation.max_tokens=1")) in (0, 1)
    ratings = ratings_of(tmp_path / "run")
    assert ratings["cut"].all()
    assert ratings["response"].str.fullmatch(r"\s*[0-9]\s*").any()
    assert not (ratings["status"].astype(str) == "rated").any()
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert f"{len(ratings):,} responses of {len(ratings):,} were cut" in page
    calls = pd.read_csv(tmp_path / "run" / "tables" / "calls.csv")
    assert calls["n_cut"].sum() == len(ratings)


def test_a_run_answers_a_sample_in_words_and_asks_some_again(number_model, audit, tmp_path, says, capsys, monkeypatch):
    says("I would say 90.")
    assert audit("run", *checked(number_model)) == 0
    run = tmp_path / "run"
    said = capsys.readouterr().err
    assert "answering a sample in words: 64 of 64 prompts" in said
    assert "asking a sample again: 16 of 16 prompts" in said
    # Two whole narratives: 4 perceivers x 8 experiencers each.
    sample = pd.read_parquet(run / "elicitation_sample.parquet")
    ratings = ratings_of(run)
    assert list(sample) == ["prompt_index", "status", "intensity", "response"]
    assert set(sample["response"]) == {"I would say 90."}
    assert (sample["status"] == "rated").all()
    own = ratings.loc[ratings["prompt_index"].isin(sample["prompt_index"])]
    assert own["in_group"].notna().all()
    assert own.groupby("narrative_id", observed=True).size().tolist() == [32, 32]
    # What is written disagrees with the distribution, which the tables say.
    table = pd.read_csv(run / "tables" / "elicitation.csv").set_index("method")
    assert table.loc["generate", "mean_difference"] == pytest.approx(90 - own["intensity"].mean())
    assert table.loc["generate", "delta"] == 0
    assert table.loc["generate", "difference"] == pytest.approx(-table.loc["expected", "delta"])
    controls = pd.read_csv(run / "tables" / "controls.csv").set_index("control")
    assert controls.loc["elicitation", "delta"] == 0
    assert 0 <= controls.loc["noise", "se"] < 0.001  # float32: the last bits
    noise = manifest_of(run)["noise"]
    assert (noise["n"], noise["n_changed"], noise["varied"]) == (16, 0, "order and batches")
    assert noise["rms_points"] <= noise["max_points"] < 0.01
    page = (run / "report.html").read_text()
    assert "Do written answers match the probabilities?" in page
    assert "The model also wrote an answer to" in page
    assert "Repeatability: when asked again with other order and batches, ratings of 16 prompts changed by" in page
    # All is there: the same command asks nothing more.
    monkeypatch.setattr("audit.engines.open.open_model", None)
    assert audit("run", *checked(number_model)) == 0


def test_the_noise_sample_is_asked_in_another_format_where_that_is_asked_for(
    number_model, audit, tmp_path, capsys, monkeypatch
):
    more = ("elicitation.check_sample=0", "elicitation.noise_formats=[bfloat16,float32]")
    run = tmp_path / "run"
    assert audit("run", *overrides(number_model, "run", "elicitation.noise_sample=16")) == 0
    before, noise, page = ratings_of(run), manifest_of(run)["noise"], (run / "report.html").read_text()
    assert "noise_formats" not in manifest_of(run)
    assert "bfloat16" not in page.partition("asked again with other")[2].partition("</p>")[0]
    capsys.readouterr()
    # The same run: it is asked beside.
    assert audit("run", *checked(number_model, *more)) == 0
    said = capsys.readouterr().err
    assert "asking a sample in bfloat16: 16 of 16 prompts" in said
    assert "asking a sample in float32: left out, because float32 is the format the model already runs in" in said
    assert "to skip it, set elicitation.noise_formats=[]" in said
    pd.testing.assert_frame_equal(ratings_of(run), before)
    manifest = manifest_of(run)
    assert manifest["noise"] == noise
    [(name, own)] = manifest["noise_formats"].items()
    assert (name, own["n"], own["varied"]) == ("bfloat16", 16, "number format (bfloat16 in place of float32)")
    assert 10 * noise["max_points"] < own["rms_points"] <= own["max_points"]
    half, again = (pd.read_parquet(run / f"{each}.parquet") for each in ("asked_in_bfloat16", "asked_again"))
    assert half["prompt_index"].tolist() == again["prompt_index"].tolist()
    differences = (half["intensity"] - again["intensity"]).astype(float)
    assert own["rms_points"] == pytest.approx(np.sqrt((differences**2).mean()))
    controls = pd.read_csv(run / "tables" / "controls.csv").set_index("control")
    assert controls.loc["noise_bfloat16", "se"] > 10 * controls.loc["noise", "se"]
    assert "noise_float32" not in controls.index
    assert manifest["checks"]["asked_in_float32"]["refused"]
    page = (run / "report.html").read_text()
    said = "In another number format (bfloat16 in place of float32), ratings of the same 16 prompts, in the same order"
    assert said in page
    assert "repeatability: asked again in bfloat16" in page
    # Neither is asked again.
    monkeypatch.setattr("audit.engines.open.open_model", None)
    assert audit("run", *checked(number_model, *more)) == 0


def test_a_format_in_which_the_model_fails_costs_nothing_of_the_run(number_model, audit, tmp_path, capsys, monkeypatch):
    from audit.engines.transformers import TransformersEngine

    def fails(self, dtype):
        raise RuntimeError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(TransformersEngine, "in_format", fails)
    more = ("elicitation.noise_sample=16", "elicitation.noise_formats=bfloat16")
    assert audit("run", *overrides(number_model, "run", *more)) == 0
    assert (
        "asking a sample in bfloat16: left out, because CUDA out of memory.; to skip it, set elicit"
        in capsys.readouterr().err
    )
    assert manifest_of(tmp_path / "run")["noise"]["n"] == 16
    assert "noise_formats" not in manifest_of(tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["elicitation.noise_formats=[bfloat16]"], "other formats are asked in the noise sample, which is empty; set"),
        (
            ["elicitation.noise_sample=4", "elicitation.noise_formats=[float16,float16]"],
            "a format is given twice; keep one",
        ),
        (["elicitation.noise_sample=4", "elicitation.noise_formats=[float64]"], "noise_formats"),
    ],
)
def test_formats_that_can_not_be_asked_end_in_one_line(number_model, audit, capsys, no_model, words, said):
    assert audit("run", *overrides(number_model, "run", *words)) == 2
    [line] = [each for each in capsys.readouterr().err.splitlines() if each.startswith("audit:")]
    assert said in line


def test_a_sample_that_was_interrupted_goes_on_with_what_is_missing(number_model, audit, tmp_path, says, monkeypatch):
    monkeypatch.setattr("audit.tasks.asked_again.PART", 24)
    run = tmp_path / "run"
    calls = says("70", fail_at=3)
    assert audit("run", *checked(number_model)) == 130
    assert calls == [24, 24, 16]
    first = pd.read_parquet(run / "elicitation_sample.parquet")
    assert len(first) == 48
    assert manifest_of(run)["status"] == "running"
    assert not (run / "asked_again.parquet").exists()
    calls = says("80")
    assert audit("run", *checked(number_model)) == 0
    assert calls == [16]
    sample = pd.read_parquet(run / "elicitation_sample.parquet")
    assert sample["intensity"].value_counts().to_dict() == {70: 48, 80: 16}
    assert sample["prompt_index"].is_monotonic_increasing
    assert len(pd.read_parquet(run / "asked_again.parquet")) == 16


def test_ratings_are_the_same_run_with_and_without_a_sample_and_one_can_be_added(number_model, audit, tmp_path, says):
    assert audit("run", *overrides(number_model, "run")) == 0
    run = tmp_path / "run"
    plain = ratings_of(run)
    timed = manifest_of(run)["timings"]
    assert not (run / "elicitation_sample.parquet").exists()
    assert "Do written answers match" not in (run / "report.html").read_text()
    calls = says("70")
    assert audit("run", *checked(number_model)) == 0
    assert sum(calls) == 64
    pd.testing.assert_frame_equal(ratings_of(run), plain)
    assert manifest_of(run)["timings"]["elicit_s"] == timed["elicit_s"]


def test_prose_is_a_finding_and_the_page_says_so(number_model, audit, tmp_path, says):
    says("The person felt it strongly.")
    assert audit("run", *checked(number_model)) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The model was also asked to write its answers. None of" in page
    assert pd.read_csv(tmp_path / "run" / "tables" / "elicitation.csv")["n_unparseable"].tolist() == [0, 64]


def test_an_engine_that_can_not_write_leaves_the_sample_out_and_says_so(
    number_model, audit, tmp_path, capsys, monkeypatch
):
    from audit.engines.transformers import TransformersEngine

    def generate(self, *_, **__):
        raise NotImplementedError

    monkeypatch.setattr(TransformersEngine, "generate", generate)
    assert audit("run", *checked(number_model)) == 0
    assert "left out, because the engine cannot write text" in capsys.readouterr().err
    assert manifest_of(tmp_path / "run")["checks"]["elicitation_sample"]["refused"]
    assert len(pd.read_parquet(tmp_path / "run" / "asked_again.parquet")) == 16
    monkeypatch.setattr("audit.engines.open.open_model", None)
    assert audit("run", *checked(number_model)) == 0  # and is not tried again each time


def test_a_run_that_is_written_in_words_is_asked_again_in_words_and_has_no_sample(number_model, audit, tmp_path, says):
    calls = says("70")
    assert audit("run", *checked(number_model, "elicitation=generate")) == 0
    assert calls[-1] == 16
    assert not (tmp_path / "run" / "elicitation_sample.parquet").exists()
    assert manifest_of(tmp_path / "run")["noise"]["max_points"] == 0


def test_a_strategy_s_texts_are_used_and_not_asked_again(number_model, audit, tmp_path, says):
    calls = says("I see. 70")
    more = ("strategy=perspective", "strategy.stages.day.max_tokens=4", "stimuli.emotions=[sad]")
    assert audit("run", *checked(number_model, *more, "shard_size=20")) == 0
    n_prompts = manifest_of(tmp_path / "run")["n_prompts"]
    assert len(pd.read_parquet(tmp_path / "run" / "asked_again.parquet")) == 16
    assert sum(calls) <= n_prompts + 64
