"""A run is killed with SIGKILL, again and again, and ends in the ratings of a run that nobody disturbed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from forked import TIMEOUT, started
from runs import FOUR_RELIGIONS

from audit.runs.store import RunFolder
from audit.tables.run_of_ratings import TABLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL"),
]
N_PROMPTS = 250  # 5 perceivers x 5 experiencers x 10 narratives
SHARD_SIZE = 5


def overrides(model, run):
    return [
        "run",
        f"model.path={model}", "engine=transformers", "engine.device=cpu", "elicitation=expected",
        "stimuli.situations_per_emotion=5", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=100", f"shard_size={SHARD_SIZE}", f"run_dir={run}",
    ]  # fmt: skip


def shards(run):
    return sorted(RunFolder(run).shards())


def wait_until(condition, process):
    """Wait for a condition as long as the process lives."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if condition() or not process.is_alive():
            return
        time.sleep(0.002)
    raise AssertionError("the run neither went on nor ended")


def status(run):
    path = run / "manifest.json"
    return json.loads(path.read_text())["status"] if path.exists() else None


def moments(run, rng):
    """Yield ten conditions to kill at, each with a further delay in seconds, from the start of a run to its end."""
    yield "while it starts", lambda _: True, rng.uniform(0.2, 2)
    yield "once there is a manifest", lambda _: status(run) is not None, 0
    for _ in range(6):
        more = rng.randint(1, 6)
        # The delay is of the order of a shard, so that a kill falls anywhere in asking or writing one.
        yield (
            f"after {more} more shards",
            lambda before, more=more: len(shards(run)) >= before + more,
            rng.uniform(0, 0.05),
        )
    yield "once all is asked", lambda _: status(run) == "complete", rng.uniform(0, 0.3)
    yield "while it reports", lambda _: (run / "tables").exists(), rng.uniform(0, 0.3)


def test_a_run_killed_ten_times_ends_in_the_same_ratings(tiny_model, child_environment, tmp_path):
    run, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    said = tmp_path / "said.txt"
    with started(overrides(tiny_model, undisturbed), said) as process:
        pass
    assert process.exitcode == 0, said.read_text()[-1000:]
    seen, n_killed = [], 0
    for moment, condition, delay in moments(run, random.Random(11)):
        before = len(shards(run))
        with started(overrides(tiny_model, run), said) as process:
            wait_until(lambda c=condition, b=before: c(b), process)
            time.sleep(delay)
            process.kill()
        # On a busy machine the last ones may be through before they are hit; none may end in an error.
        assert process.exitcode in (0, -signal.SIGKILL), f"{moment}: {said.read_text()[-1000:]}"
        n_killed += process.exitcode != 0
        seen.append(len(shards(run)))
    assert seen == sorted(seen)
    assert n_killed >= 8
    assert len({n for n in seen if 0 < n < N_PROMPTS // SHARD_SIZE}) >= 5, f"too few kills between shards: {seen}"
    # The last one is started as a user starts it.
    last = subprocess.run(
        [sys.executable, "-m", "audit", *overrides(tiny_model, run)],
        check=False, timeout=TIMEOUT, env=child_environment, capture_output=True, text=True,
    )  # fmt: skip
    assert last.returncode == 0, last.stderr[-1000:]

    assert shards(run) == shards(undisturbed)
    assert (run / "ratings.parquet").read_bytes() == (undisturbed / "ratings.parquet").read_bytes()
    assert not (run / "ratings").exists()
    assert not [*run.rglob("*.unfinished")]
    with RunFolder(run) as killed, RunFolder(undisturbed) as whole:
        ratings = killed.read_ratings(n_prompts=N_PROMPTS)
        assert ratings.equals(whole.read_ratings(n_prompts=N_PROMPTS))
    assert ratings["prompt_index"].tolist() == list(range(N_PROMPTS))
    kept, whole = (
        {path.name: path.read_bytes() for path in (folder / "tables").glob("*.csv")} for folder in (run, undisturbed)
    )
    assert kept == whole
    assert {"gap.csv", "verdicts.csv", "cells.csv"} <= set(kept) <= {f"{name}.csv" for name in (*TABLES, "dictionary")}
    assert status(run) == "complete"
    assert (run / "report.html").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_run_that_is_asked_to_end_says_so_and_goes_on_later(name, tiny_model, tmp_path):
    run, said, number = tmp_path / "run", tmp_path / "said.txt", signal.Signals[name]
    with started(overrides(tiny_model, run), said) as process:
        wait_until(lambda: len(shards(run)) >= 3, process)
        os.kill(process.pid, number)
    assert process.exitcode == 128 + number
    assert said.read_text().splitlines()[-1] == (
        f"ended by {name}; what was collected is kept: run the same command to continue"
    )
    there = len(shards(run))
    assert 3 <= there < N_PROMPTS / SHARD_SIZE
    with started(overrides(tiny_model, run), said) as process:
        pass
    assert process.exitcode == 0
    assert f"{there * SHARD_SIZE:,} of {N_PROMPTS:,}" in said.read_text()
    assert status(run) == "complete"
