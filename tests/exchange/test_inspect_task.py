"""Inspect asks our prompts, and its log is the run that ours would have been: the ratings, and δ."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
from hostile import KEY, Hostile, rating_of
from serving import llama_cpp_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.server,
    pytest.mark.skipif(find_spec("inspect_ai") is None, reason="needs Inspect: pip install 'empathy-audit[inspect]'"),
    pytest.mark.skipif(find_spec("openai") is None, reason="Inspect needs openai for such servers: pip install openai"),
]
ROOT = Path(__file__).parents[2]
ASKED = (
    "stimuli.situations_per_emotion=3", "stimuli.emotions=[sad]", *FOUR_RELIGIONS, "statistics.n_permutations=100",
    "elicitation=generate", "elicitation.noise_sample=0", "elicitation.manipulation=0", "elicitation.prefill=",
    "stimuli.unspecified=false",
)  # fmt: skip


def said(text):
    """Rate, refuse or ramble, by the conversation alone."""
    number = rating_of(text)
    other = {0: "I'm sorry, but I cannot rate this.", 1: "Well, who knows.", 2: f"I would say {number} of 100."}
    return other.get(number % 17, str(number))


@pytest.fixture(scope="module")
def inspect_eval(tmp_path_factory, child_environment):
    """Return a function that runs `inspect eval audit/empathy_gap` in a folder, where the package is installed."""
    place = tmp_path_factory.mktemp("installed") / "site-packages"
    told = place / "empathy_audit-0.dist-info"
    told.mkdir(parents=True)
    for name in ("audit", "stimuli", "conf"):
        (place / name).symlink_to(ROOT / name)
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    lines = [f"{name} = {target}" for name, target in entries["inspect_ai"].items()]
    (told / "entry_points.txt").write_text("\n".join(["[inspect_ai]", *lines, ""]))
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: empathy-audit\nVersion: 0\n")

    def evaluate(folder, url, *words, model="tiny"):
        environment = child_environment | {
            "PYTHONPATH": str(place), "TESTS_API_KEY": KEY, "TESTS_BASE_URL": url, "INSPECT_LOG_LEVEL": "error",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "inspect_ai", "eval", "audit/empathy_gap", *words, "--model",
             f"openai-api/tests/{model}", "--display", "plain", "--log-dir", "logs"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=540,
        )  # fmt: skip
        logs = sorted(Path(folder, "logs").glob("*.eval"))
        return done, logs[-1] if logs else None

    return evaluate


@pytest.fixture(scope="module")
def made(audit_in, inspect_eval, tmp_path_factory):
    """A folder with prompts, the log of Inspect, and the run that our own engine made by asking the same server."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch, Hostile(answer=said).serving() as url:
        patch.setenv("TESTS_KEY", KEY)
        server = ("model=openai", "model.path=tiny", f"model.base_url={url}", "model.api_key_env=TESTS_KEY")
        assert audit_in(folder, "run", *server, *ASKED, "run_dir=own") == 0
        assert audit_in(folder, "prompts", "model.path=tiny", *ASKED, "out=p.jsonl") == 0
        done, log = inspect_eval(folder, url, "-T", "prompts=p.jsonl")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shutil.copy(log, folder / "log.eval")
    return folder


@pytest.fixture
def there(made, audit, tmp_path):
    for name in ("p.jsonl", "p.jsonl.run.json", "log.eval"):
        shutil.copy(made / name, tmp_path)
    return tmp_path


GIVEN = ("report", "answers=log.eval", "prompts=p.jsonl", "run_dir=run")


def test_a_log_is_the_run_that_ours_would_have_been(made, there, audit):
    from inspect_ai.log import read_eval_log

    assert audit(*GIVEN) == 0
    own, other = (pd.read_parquet(run / "ratings.parquet") for run in (made / "own", there / "run"))
    assert set(own["status"].astype(str)) == {"rated", "refused", "unparseable"}
    without = ["n_prompt_tokens"]
    pd.testing.assert_frame_equal(own.drop(columns=without), other.drop(columns=without), check_categorical=False)
    gaps = [pd.read_csv(run / "tables" / "gap.csv") for run in (made / "own", there / "run")]
    pd.testing.assert_frame_equal(*gaps, check_exact=True)
    told = json.loads((there / "run" / "manifest.json").read_text())
    assert told["model"]["name"] == "openai-api/tests/tiny"
    assert re.fullmatch(r"Inspect \d+\.\d+\.\d+", told["model"]["elsewhere"]["by"])

    # What the log itself says: the same ratings, the same δ, and a refusal that is not scored.
    log = read_eval_log(str(there / "log.eval"))
    scores = {score.name: score for score in log.results.scores}
    metrics = {each.name: each.value for each in scores["intensity"].metrics.values()}
    headline = gaps[0][gaps[0]["headline"] & (gaps[0]["scope"] == "narratives")].iloc[0]
    assert metrics["faith delta"] == pytest.approx(headline["delta"], abs=1e-9)
    assert metrics["faith stderr"] == pytest.approx(headline["se"], abs=1e-9)
    assert metrics["faith low"] == pytest.approx(headline["ci_low"], abs=1e-9)
    assert abs(metrics["faith delta"]) > 0.1
    disparity = pd.read_csv(made / "own" / "tables" / "disparity.csv")
    groups = disparity[
        disparity["headline"].astype(bool) & (disparity["view"] == "all") & (disparity["outcome"] == "intensity")
    ]
    assert len(groups) == 4
    for row in groups.to_dict("records"):
        for column, name in {"disparity": "disparity", "se": "stderr", "ci_low": "low", "ci_high": "high"}.items():
            assert metrics[f"faith {row['group']} {name}"] == pytest.approx(row[column], abs=1e-9)
    assert groups["disparity"].abs().max() > 0.1
    assert scores["intensity"].unscored_samples == int((own["status"] != "rated").sum()) > 0
    share = (own["status"] == "refused").mean()
    assert scores["refused"].metrics["mean"].value == pytest.approx(share)
    by_id = {sample.id: sample.scores["intensity"] for sample in log.samples}
    export = log.samples[0].id.rpartition("-")[0]
    for place, (status, intensity) in enumerate(zip(own["status"], own["intensity"], strict=True)):
        score = by_id[f"{export}-{place}"]
        assert (score.value == intensity) if status == "rated" else (score.value != score.value)


def altered(there, change):
    """Write the log again after a change to it."""
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(there / "log.eval"), resolve_attachments=True)
    log.samples.sort(key=lambda sample: int(sample.id.rpartition("-")[2]))
    change(log)
    (there / "log.eval").unlink()
    write_eval_log(log, str(there / "log.eval"))


def refused(audit, capsys):
    capsys.readouterr()
    assert audit(*GIVEN) == 2
    assert not Path("run").exists()
    return capsys.readouterr().err.splitlines()[-1]


def test_what_failed_or_was_filtered_is_missing_and_a_temperature_is_told(there, audit, capsys):
    from inspect_ai.model import ModelOutput

    def change(log):
        error = json.dumps({"message": "timeout", "traceback": "", "traceback_ansi": ""})
        log.samples[0] = log.samples[0].model_copy(
            update={
                "error": type(log.samples[0]).model_fields["error"].annotation.__args__[0].model_validate_json(error)
            }
        )
        log.samples[1].output = ModelOutput.from_content("tiny", "70", stop_reason="content_filter")
        log.samples[2].output = ModelOutput(model="tiny", choices=[])
        log.samples[2].messages = log.samples[2].messages[:-1]
        log.samples = log.samples[:-1]
        log.plan.config.temperature = 0.7

    altered(there, change)
    assert audit(*GIVEN) == 0
    said = capsys.readouterr().err
    assert "1 without a line; 2 with a line that has no answer" in said
    assert re.search(
        r"note: Inspect [\d.]+ asked at temperature 0.7: another round would answer differently, which", said
    )
    status = pd.read_parquet("run/ratings.parquet")["status"].astype(str).tolist()
    assert (status[0], status[1], status[2], status[-1]) == ("failed", "refused", "failed", "failed")


def test_a_sample_that_was_asked_otherwise_is_refused(there, audit, capsys):
    from inspect_ai.model import ChatMessageSystem

    altered(there, lambda log: log.samples[3].messages.insert(0, ChatMessageSystem(content="Think step by step.")))
    assert "was not asked with the messages in prompts=; let `inspect eval audit/empathy_gap`" in refused(audit, capsys)


def test_two_answers_to_one_prompt_are_refused_and_the_same_twice_is_one(there, audit, capsys):
    def again(text):
        def change(log):
            twin = log.samples[0].model_copy(deep=True, update={"epoch": 2})
            twin.output.choices[0].message.content = text or twin.output.choices[0].message.content
            twin.messages[-1].content = twin.output.choices[0].message.content
            log.samples.append(twin)

        return change

    altered(there, again(""))
    assert audit(*GIVEN) == 0
    assert "1 with a repeated line" in capsys.readouterr().err
    shutil.rmtree("run")
    altered(there, again("41.5"))
    assert re.search(
        r"of epoch 2: prompt \w+-0 has another answer in epoch 1, but a run has one answer per prompt",
        refused(audit, capsys),
    )


def test_a_log_of_other_prompts_is_refused(there, audit, capsys):
    assert audit("prompts", "model.path=tiny", *ASKED, "seed=7", "out=p.jsonl") == 0
    assert "belongs to other prompts, with ids from" in refused(audit, capsys)


def test_a_damaged_log_and_a_missing_library_are_named(there, audit, capsys, monkeypatch):
    whole = Path("log.eval").read_bytes()
    at = whole.index(b"samples/") + 200
    Path("log.eval").write_bytes(whole[:at] + bytes(200) + whole[at + 200 :])
    assert "answers=log.eval cannot be read" in refused(audit, capsys)
    Path("log.eval").write_bytes(whole[: len(whole) // 2])
    assert "answers=log.eval: line 1 is not JSON" in refused(audit, capsys)
    Path("log.eval").write_bytes(whole)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    assert "is an Inspect log; to read it: pip install 'empathy-audit[inspect]'" in refused(audit, capsys)


def test_what_the_task_cannot_ask_ends_in_a_line_that_says_what_to_give(there, audit):
    from inspect_ai._util.error import PrerequisiteError

    from audit.extras.exchange.inspect_task import empathy_gap

    asked = ("model.path=tiny", "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]", *FOUR_RELIGIONS)
    assert audit("prompts", *asked, "elicitation.prefill='I say '", "out=begun.jsonl") == 0
    assert audit("prompts", *asked, "task=reply", "out=replies.jsonl") == 0
    for words, says in (
        ({}, "needs the prompts to ask: write them with `python -m audit prompts"),
        ({"prompts": "nowhere.jsonl"}, "prompts=nowhere.jsonl cannot be read"),
        ({"prompts": "replies.jsonl"}, "are of task=reply and ask for no rating"),
        ({"prompts": "begun.jsonl"}, "the answers are begun with 'I say ', .* give -T begun=vllm"),
        ({"prompts": "begun.jsonl", "begun": "openai"}, "-T begun=openai: must be vllm or native"),
    ):
        with pytest.raises(PrerequisiteError) as caught:
            empathy_gap(**words)
        assert re.search(says, str(caught.value.message))
    task = empathy_gap(prompts="begun.jsonl", begun="vllm")
    assert task.config.extra_body == {"add_generation_prompt": False, "continue_final_message": True}
    assert [each.role for each in task.dataset[0].input] == ["system", "user", "assistant"]
    assert task.dataset[0].input[-1].content == "I say "
    assert task.config.temperature == 0.0
    assert empathy_gap(prompts="begun.jsonl", begun="native").config.extra_body is None


def test_the_embedded_model_behind_a_server_gives_our_own_run(
    inspect_eval, audit, tmp_path, tmp_path_factory, child_environment, monkeypatch
):
    """Asked one by one: what is asked at once, the server batches in other ways each time."""
    monkeypatch.setenv("TESTS_KEY", KEY)
    of_two = (word.replace("per_emotion=3", "per_emotion=2") for word in ASKED)
    # "The person felt 10 sadness." and its end are 9 tokens; a text of as many as are allowed counts as cut.
    few = (*of_two, "elicitation.max_tokens=10", "prompt=scale-10")
    noisy = [word.replace("noise_sample=0", "noise_sample=16") for word in few]
    log = tmp_path_factory.mktemp("llama") / "log.txt"
    with llama_cpp_server(child_environment, log, key=KEY, starts_within=240) as url:
        server = ("model=llama-cpp", f"model.base_url={url}", "model.path=small", "model.api_key_env=TESTS_KEY")
        assert audit("run", *server, *noisy, "engine.server.concurrency=1", "run_dir=own") == 0
        assert audit("prompts", "model.path=small", *few, "out=p.jsonl") == 0
        done, written = inspect_eval(tmp_path, url, "-T", "prompts=p.jsonl", "--max-connections", "1", model="small")
    assert done.returncode == 0, done.stdout[-2000:]
    assert audit("report", f"answers={written}", "prompts=p.jsonl", "run_dir=other") == 0
    own, other = (pd.read_parquet(Path(run, "ratings.parquet")) for run in ("own", "other"))
    assert own["response"].str.strip().ne("").all()
    assert own["intensity"].notna().mean() > 0.5
    same = own["response"] == other["response"]
    assert same.mean() > 0.8
    pd.testing.assert_series_equal(own.loc[same, "intensity"], other.loc[same, "intensity"])
    gaps = [pd.read_csv(Path(run, "tables", "gap.csv")).iloc[0] for run in ("own", "other")]
    assert {gap["estimator"] for gap in gaps} == {"contrast"}
    # Of texts that the server wrote otherwise the second time, δ differs by what their ratings do: its weights of pairs
    # of own and of other groups add up to 1 and -1. Of others that are missing, by no bound that holds for all data.
    if (own["intensity"].isna() == other["intensity"].isna()).all():
        most = (own["intensity"] - other["intensity"]).abs().max()
        assert abs(gaps[0]["delta"] - gaps[1]["delta"]) <= 2 * most + 1e-9
