"""Runs that several processes of this machine share out: the same answers as of one, whatever becomes of a process."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sharing import CHECKED, LED, N_PROMPTS, TWO, collect, gone, overrides, same, signalled

from audit.asking.workers.local import LocalWorker
from audit.asking.workers.serve import told
from audit.errors import AuditError, ModelError, WorkerError
from audit.runs.store import RunFolder
from audit.tables.stages import STAGES

# --- The same as one -------------------------------------------------------------------------------------------------


def test_two_replicas_make_the_run_that_one_process_makes_byte_for_byte(alone, tiny_model, tmp_path):
    lines = []
    manifest = collect(tmp_path / "run", overrides(tiny_model, *CHECKED, TWO), lines)
    same(tmp_path / "run", alone(*CHECKED))
    one = json.loads((alone(*CHECKED) / "manifest.json").read_text())
    assert manifest.content["identity"] == one["identity"]
    assert manifest.content["checks"] == one["checks"]
    assert set(one["checks"]) == {"manipulation", "elicitation_sample", "asked_again", "asked_in_bfloat16"}
    assert manifest.content["timings"].pop("replicas") == 2
    assert set(manifest.content["timings"]) == set(one["timings"])
    assert manifest.content["config"]["engine"].pop("replicas") == 2
    assert manifest.content["config"]["engine"] == one["config"]["engine"]
    assert [line for line in lines if line.startswith("2 x transformers ")]
    assert sorted(path.name for path in (tmp_path / "run").glob("engine*.log")) == ["engine-1.log", "engine-2.log"]
    assert (alone(*CHECKED) / "engine.log").exists()


@pytest.mark.slow
@pytest.mark.simulation
def test_thoughts_of_two_replicas_are_those_of_one_process(alone, tiny_model, tmp_path):
    thinks = ("thinking=budget", "thinking.max_tokens=5", "thinking.temperature=1", *LED, "elicitation.noise_sample=9")
    collect(tmp_path / "run", overrides(tiny_model, *thinks, TWO))
    same(tmp_path / "run", alone(*thinks))
    assert "thought" in set(RunFolder(tmp_path / "run").parts(STAGES).frame()["stage"])


@pytest.mark.slow
@pytest.mark.simulation
def test_a_run_goes_on_with_another_number_of_replicas(alone, tiny_model, tmp_path, on_progress):
    on_progress(signalled(signal.SIGKILL, killed := [], most=2))
    words = overrides(tiny_model, *LED)
    with pytest.raises(WorkerError, match="all 2"):
        collect(tmp_path / "run", [*words, TWO])
    assert len(killed) == 2
    collect(tmp_path / "run", words)
    same(tmp_path / "run", alone(*LED))


# --- What becomes of a process ---------------------------------------------------------------------------------------


def test_a_replica_that_is_killed_is_named_and_its_shard_taken_over(alone, tiny_model, tmp_path, on_progress):
    on_progress(signalled(signal.SIGKILL, killed := []))
    lines = []
    manifest = collect(tmp_path / "run", overrides(tiny_model, *LED, TWO), lines)
    same(tmp_path / "run", alone(*LED))
    [note] = [line for line in lines if line.startswith("note:")]
    assert re.search(rf"replica [12] \(CPU, 1 thread, process {killed[0]}\) has ended at shard \d+, stage \w+: ", note)
    assert "signal SIGKILL" in note
    assert note.endswith("; 1 of 2 go on")
    assert manifest.content["timings"]["n_prompts"] == N_PROMPTS
    assert gone(killed)


@pytest.mark.slow
@pytest.mark.simulation
def test_a_replica_that_is_stopped_is_found_and_its_shard_taken_over(alone, tiny_model, tmp_path, on_progress):
    stop, limits = signalled(signal.SIGSTOP, stopped := []), []

    def act(state):
        stop(state)
        limits.append(state.pool._hang_s)
        state.pool._hang_s = 5.0  # not while torch is imported, which on a busy machine may take so long

    on_progress(act)
    lines = []
    collect(tmp_path / "run", overrides(tiny_model, *LED, TWO, "engine.hang_s=300"), lines)
    assert limits[0] == 300
    same(tmp_path / "run", alone(*LED))
    [note] = [line for line in lines if line.startswith("note:")]
    assert f"process {stopped[0]}) has ended at shard " in note
    assert "it did not respond for" in note
    assert gone(stopped)


@pytest.mark.slow
@pytest.mark.simulation
def test_where_all_are_killed_the_command_says_so_in_a_line_and_then_goes_on(
    alone, tiny_model, audit, tmp_path, capsys, on_progress, monkeypatch
):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    on_progress(signalled(signal.SIGKILL, killed := [], most=2))
    command = ("run", *overrides(tiny_model, TWO, "run_dir=run"))
    assert audit(*command) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("audit: ")
    assert "the same command to continue" in line
    assert gone(killed)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "running"
    assert audit(*command) == 0
    same(tmp_path / "run", alone())


@pytest.mark.slow
@pytest.mark.simulation
def test_a_shard_that_ends_two_replicas_is_named(tiny_model, tmp_path, on_progress):
    on_progress(signalled(signal.SIGSEGV, [], most=9, only=lambda state: state.task.job.part == "shard 3"))
    with pytest.raises(WorkerError, match=r"shard 3 ended 2 workers one after another \(replica .* signal SIGSEGV"):
        collect(tmp_path / "run", overrides(tiny_model, TWO))
    with RunFolder(tmp_path / "run") as folder:
        assert 3 not in folder.shards()


def test_a_model_that_cannot_be_loaded_ends_in_one_line_once(tiny_model, audit, tmp_path, capsys):
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_model, tmp_path / "broken")
    weights = load_file(tmp_path / "broken" / "model.safetensors")
    weights.pop("model.norm.weight")
    save_file(weights, tmp_path / "broken" / "model.safetensors", metadata={"format": "pt"})
    assert audit("run", *overrides(tmp_path / "broken", TWO, "run_dir=run")) == 2
    said = capsys.readouterr()
    assert (said.err + said.out).count("weights are missing") == 1
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.slow
def test_what_no_engine_can_mend_ends_the_worker_and_its_log_is_told(tiny_model, tmp_path, monkeypatch):
    """An error of CUDA, or of ours, after which the process cannot be trusted to answer right."""
    monkeypatch.setattr("audit.asking.collect._answer", fails)
    with pytest.raises(WorkerError, match=r"all 2 .*engine-[12]\.log ends: .*CUDA error: an illegal"):
        collect(tmp_path / "run", overrides(tiny_model, TWO))


def fails(shared, model, done, **_):
    raise RuntimeError("CUDA error: an illegal memory access")


# --- What becomes of the command -------------------------------------------------------------------------------------


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(number, marks=pytest.mark.simulation) for number in (signal.SIGINT, signal.SIGKILL)),
    ],
)
def test_no_replica_outlives_the_command(number, tiny_model, child_environment, tmp_path):
    command = [sys.executable, "-m", "audit", "run", *overrides(tiny_model, TWO, "run_dir=run", "shard_size=2")]
    with (tmp_path / "said.txt").open("w") as said:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=child_environment, stdout=said, stderr=said,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which tests in the background ignore
        )  # fmt: skip
    try:
        workers, deadline = [], time.monotonic() + 60
        while not list(tmp_path.glob("run/ratings/part-*")) and time.monotonic() < deadline:
            assert process.poll() is None, (tmp_path / "said.txt").read_text()
            time.sleep(0.005)
        workers = children(process.pid)
        assert len(workers) == 2
        process.send_signal(number)
        assert process.wait(20) == (-number if number == signal.SIGKILL else 128 + number)
        assert gone(workers)
    finally:
        process.kill()
        process.wait()


# --- Other tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.simulation
def test_a_questionnaire_and_replies_are_shared_out_too(alone, tiny_model, tmp_path):
    lines = []
    for name, words in {
        "inventory": ("task=inventory", "task.affect=true", "task.presentation=single", "task.n_orders=1"),
        "reply": ("task=reply", "task.max_tokens=5", "measures.names=[lexical]", "shard_size=25"),
    }.items():
        collect(tmp_path / name, overrides(tiny_model, *words, TWO), lines)
        same(tmp_path / name, alone(*words))
    [idle] = [line for line in lines if "some are idle" in line]
    assert idle.startswith("note: 1 shard of 25 prompts for 2 workers")
    assert idle.endswith("shard_size=13 gives all of them work")


# --- What is refused -------------------------------------------------------------------------------------------------


def test_a_server_is_asked_by_one_process(audit, capsys):
    asked = ("engine=openai", "model=openai", "model.path=x", "model.base_url=http://127.0.0.1:9/v1", TWO)
    assert audit("run", *[word for word in overrides("x", "run_dir=run") if not word.startswith("engine")], *asked) == 2
    assert "engine.server.concurrency" in capsys.readouterr().err.splitlines()[-1]


def test_auto_is_one_process_on_a_cpu(alone, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalWorker, "start", None)
    manifest = collect(tmp_path / "run", overrides(tiny_model, "engine.replicas=auto"))
    same(tmp_path / "run", alone())
    assert "replicas" not in manifest.content["timings"]


@pytest.mark.parametrize("value", ["0", "many", "1.5"])
def test_a_number_of_replicas_that_cannot_be_ends_in_one_line(value, audit, capsys):
    assert audit("run", *overrides("x", "run_dir=run", f"engine.replicas={value}")) == 2
    assert "engine.replicas" in capsys.readouterr().err.splitlines()[-1]


def test_errors_keep_their_kind_and_words_on_their_way():
    class Odd(AuditError):
        def __init__(self, name, place):
            super().__init__(f"{name} at {place}")

    for error in (ModelError("no"), NotImplementedError("cannot"), Odd("a", "b")):
        there = told(error)
        assert isinstance(there, NotImplementedError) == isinstance(error, NotImplementedError)
        assert isinstance(there, AuditError) == isinstance(error, AuditError)
        assert str(there) == str(error)
