"""Runs that lead the model by a strategy: what is asked, kept and shown, and where an interrupted one goes on."""

from __future__ import annotations

import base64
import gzip
import json
import shutil

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, collected, in_parts

from audit.cli.main import main
from audit.runs.parts import Parts, part_name
from audit.runs.store import RunFolder
from audit.tables.stages import GIVEN, STAGES
from stimuli.examples import EXAMPLES_FILE

EXAMPLES = ("strategy=few-shot-1-random", f"strategy.examples.pool={EXAMPLES_FILE}")

N_PROMPTS = 25  # 5 perceivers x 5 experiencers x 1 narrative, in shards of ten: 10, 10 and 5
SHARDS = [0, 1, 2]
COE = ("strategy=coe-cbt", "strategy.stages.emotion.max_tokens=3", "strategy.stages.factors.max_tokens=4")


def overrides(model, run_dir, *more):
    return [
        f"model.path={model}", "model.max_model_len=512", "engine=transformers", "engine.device=cpu",
        "elicitation=expected", "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]", *FOUR_RELIGIONS,
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=200", "shard_size=10", f"run_dir={run_dir}", *more,
    ]  # fmt: skip


def files_of(run, folder):
    return {path.name: path.read_bytes() for path in sorted((run / folder).iterdir())}


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def shown_in(run):
    page = (run / "report.html").read_text()
    packed = page.split('id="explore-data">')[1].split("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.fixture(autouse=True)
def in_an_empty_folder_without_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture(scope="module")
def led_once(audit_in, tiny_model, tmp_path_factory):
    """Folder of a finished run; not to be written to."""
    folder = tmp_path_factory.mktemp("led")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        assert audit_in(folder, "run", *overrides(tiny_model, "led", *COE)) == 0
    return folder / "led"


@pytest.fixture
def led(led_once, tmp_path):
    """Folder of a finished run, ``led`` in the folder that the test runs in."""
    return shutil.copytree(led_once, tmp_path / "led")


def test_every_call_of_every_prompt_is_kept_and_shown(led):
    with RunFolder(led) as folder:
        stages = folder.parts(STAGES).frame()
        ratings = folder.read_ratings(n_prompts=N_PROMPTS)
    assert list(stages) == list(STAGES)
    assert stages.groupby("stage", observed=True)["prompt_index"].nunique().to_dict() == {"emotion": 25, "factors": 25}
    assert len(stages) == 2 * N_PROMPTS
    assert set(stages["status"]) <= {"written", "cut", "empty"}
    assert (stages["n_tokens"] > 0).all()
    assert (ratings["status"] == "rated").all()
    strategy = manifest_of(led)["strategy"]
    assert (strategy["name"], strategy["stages"]) == ("coe-cbt", ["emotion", "factors"])
    shown = shown_in(led)["calls"]["columns"]
    assert shown["name"]["of"] == ["emotion", "factors"]
    assert set(shown["written"]["of"]) == set(stages["text"])
    assert "Now reason as cognitive behavioural therapy does." in json.dumps(shown["frame"]["of"])
    assert {"cut at 3 tokens", "cut at 4 tokens"} <= set(shown["note"]["of"])


@pytest.mark.parametrize("told", [False, True])
def test_naming_an_emotion_is_scored_of_stages_that_were_not_told_it(told, tiny_model, tmp_path):
    prompt = "'{Experiencer} felt {emotion_noun}: {narrative}'" if told else "'{Experiencer} felt this: {narrative}'"
    assert main(["run", *overrides(tiny_model, "run", *COE, f"strategy.stages.emotion.prompt={prompt}")]) == 0
    measures = set(pd.read_csv(tmp_path / "run" / "tables" / "stage_texts.csv")["measure"])
    assert "n_words" in measures
    assert ("emotion_named" in measures) != told


def test_examples_are_shown_as_what_the_model_did_not_write(tiny_model, tmp_path):
    assert main(["run", *overrides(tiny_model, "run", *EXAMPLES, "model.max_model_len=1024")]) == 0
    with RunFolder(tmp_path / "run") as folder:
        [given] = folder.table(GIVEN).rows()
    shown = shown_in(tmp_path / "run")["calls"]["columns"]
    assert {name: column["of"] for name, column in shown.items() if name != "frame"} == {
        "name": ["example 1"], "system": [None], "written": [given["answer"]], "note": ["shown beforehand"],
        "example": [1],
    }  # fmt: skip
    [[user, _, _]] = shown["frame"]["of"]
    assert given["text"] in user


def lacks_a_stage(stages, ratings):
    return stages.loc[stages["stage"] != "factors"], ratings


def failed_at_once(stages, ratings):
    return stages.assign(text="", status="failed", n_prompt_tokens=0), ratings


def failed_at_the_second(stages, ratings):
    second = stages["stage"] == "factors"
    status = stages["status"].astype(object).mask(second, "failed")
    return stages.assign(text=stages["text"].mask(second, ""), status=status), ratings


def had_to_leave_out(stages, ratings):
    return stages.assign(status="empty", text=" ", n_dropped=1), ratings.assign(n_dropped=2)


@pytest.mark.parametrize(
    ("change", "notes", "of_the_question"),
    [
        (lacks_a_stage, {"cut at 3 tokens", "not in the run folder"}, None),
        (
            failed_at_once,
            {"failed: it does not fit into the model's context", "not asked, since an earlier call failed"},
            ["the question was not asked, since an earlier call failed"],
        ),
        (
            failed_at_the_second,
            {"cut at 3 tokens", "failed: no answer"},
            ["the question was not asked, since an earlier call failed"],
        ),
        (
            had_to_leave_out,
            {"nothing but white space was written; 1 example or earlier call did not fit and was left out"},
            ["2 examples or earlier calls did not fit and were left out"],
        ),
    ],
)
def test_what_became_of_each_call_is_shown(change, notes, of_the_question, led, monkeypatch):
    with RunFolder(led) as folder:
        stages, ratings = change(folder.parts(STAGES).frame(), folder.read_ratings(n_prompts=N_PROMPTS))
    monkeypatch.setattr(Parts, "frame", lambda self: stages)
    monkeypatch.setattr(RunFolder, "read_ratings", lambda self, **_: ratings)
    assert main(["report", str(led)]) == 0
    shown = shown_in(led)
    assert notes <= set(shown["calls"]["columns"]["note"]["of"])
    assert set(shown["calls"]["columns"]["name"]["of"]) == {"emotion", "factors"}
    assert shown["ratings"]["columns"].get("note", {}).get("of") == of_the_question


def test_a_strategy_changes_the_ratings_and_none_is_what_it_was_before(led, tiny_model, tmp_path):
    assert main(["run", *overrides(tiny_model, "plain")]) == 0
    plain = manifest_of(tmp_path / "plain")
    assert "strategy" not in plain["identity"]
    assert not (tmp_path / "plain" / "stages").exists()
    intensities = []
    for run in (tmp_path / "plain", led):
        with RunFolder(run) as folder:
            intensities.append(folder.read_ratings(n_prompts=N_PROMPTS)["intensity"])
    assert (intensities[0] != intensities[1]).any()


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_an_interrupted_run_goes_on_at_the_stage_where_it_stopped(nth, led, tiny_model, tmp_path, monkeypatch):
    """Calls of generate: two stages for each of three shards."""
    from audit.engines.transformers import TransformersEngine

    answer, calls = TransformersEngine.generate, []

    def counting(self, *arguments, **settings):
        calls.append(settings)
        if len(calls) == nth:
            raise KeyboardInterrupt
        return answer(self, *arguments, **settings)

    monkeypatch.setattr(TransformersEngine, "generate", counting)
    assert main(["run", *overrides(tiny_model, "run", *COE)]) == 130
    kept = collected(tmp_path / "run", "stages")
    assert len(kept) == nth - 1
    assert main(["run", *overrides(tiny_model, "run", *COE)]) == 0
    assert len(calls) == 6 + 1  # one was asked twice: the one that was interrupted
    for table in ("stages", "ratings"):
        assert collected(tmp_path / "run", table) == collected(led, table) != {}
    assert files_of(tmp_path / "run", "tables") == files_of(led, "tables")
    # The shard that the first session had begun is not timed: that session took a part of its time.
    assert manifest_of(tmp_path / "run")["timings"]["n_prompts"] == {1: 25, 2: 15, 4: 5}[nth]


def test_a_session_that_only_ends_a_shard_has_no_time_a_prompt(led, tiny_model):
    assert manifest_of(led)["timings"]["n_prompts"] == N_PROMPTS
    (in_parts(led) / "ratings" / "part-000001.parquet").unlink()
    assert main(["run", *overrides(tiny_model, "led", *COE)]) == 0
    assert set(manifest_of(led)["timings"]) == {"load_s"}


@pytest.mark.parametrize("of", ["another stage", "other prompts"])
def test_stages_of_another_run_are_not_gone_on_with(of, led, tiny_model, capsys):
    (in_parts(led) / "ratings" / "part-000001.parquet").unlink()
    with RunFolder(led) as folder:
        rows = folder.parts(STAGES).read_part(part_name(1, 1)).to_pylist()
        changed = {"stage": "reasons"} if of == "another stage" else {"prompt_index": 0}
        folder.parts(STAGES).write(part_name(1, 1), [row | changed for row in rows])
    assert main(["run", *overrides(tiny_model, "led", *COE)]) == 2
    said = "what shard 1 holds as stage 2 is not factors of its prompts, so it does not belong to this run; python"
    assert said in capsys.readouterr().err


def test_stages_without_a_manifest_are_no_start(led, tiny_model, capsys):
    (led / "manifest.json").unlink()
    (led / "ratings.parquet").unlink()
    assert main(["run", *overrides(tiny_model, "led", *COE)]) == 2
    assert (
        "led has ratings or stages but no manifest.json; python -m audit recover led restores it"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("other", ["basic-empathy", "none"])
def test_another_strategy_is_another_run(other, led, tiny_model, capsys):
    assert main(["run", *overrides(tiny_model, "led", f"strategy={other}")]) == 2
    assert "run_dir=led holds another run: strategy" in capsys.readouterr().err


def test_a_prompt_whose_stages_do_not_fit_fails_and_the_run_goes_on(tiny_model, tmp_path):
    settings = ("strategy=two-stage", "strategy.stages.infer.max_tokens=500", "strategy.overrun=fail")
    assert main(["run", *overrides(tiny_model, "run", *settings)]) == 0
    with RunFolder(tmp_path / "run") as folder:
        assert set(folder.parts(STAGES).frame()["status"]) == {"failed"}
        assert set(folder.read_ratings(n_prompts=N_PROMPTS)["status"]) == {"failed"}
    assert "None of 25 prompts has a rating" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["strategy=ecnn"], "strategy=ecnn: unknown choice; did you mean 'ecn'?"),
        (["strategy=ecn", "strategy.stages.reflection.prompt='{narativ}'"], "unknown placeholder {narativ}"),
        (["strategy=ecn", "strategy.stages.perspective.prompt='{stage_synthesis}'"], "does not exist yet"),
        (["strategy.question='How much?'"], "strategy none: changes what is asked; give it its own name"),
        (["strategy=ecn", "strategy.history=none"], "strategy ecn: no later call sees stages.perspective, so"),
        (
            ["strategy=ecn", "strategy.stages.synthesis.max_tokens=2048"],
            "strategy.stages.synthesis.max_tokens=2048 leaves no room for a prompt in model.max_model_len=2048 tokens",
        ),
    ],
)
def test_a_strategy_that_can_not_be_used_ends_in_one_line_before_any_model_is_loaded(words, line, capsys):
    assert main(["run", *words, "model.path=no-such-model"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert line in said


@pytest.mark.parametrize("files", [{"mine": "mine"}, {"mine": "yours", "yours": "mine"}])
def test_strategy_files_that_lead_back_to_each_other_are_one_line(files, tmp_path, capsys):
    (tmp_path / "own" / "strategy").mkdir(parents=True)
    for name, other in files.items():
        (tmp_path / "own" / "strategy" / f"{name}.yaml").write_text(f"defaults: [{other}]\nname: {name}\n")
    assert main(["run", "--config-dir=own", "strategy=mine", "model.path=no-such-model"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert "the defaults of strategy=mine form a loop; remove one of them" in said
