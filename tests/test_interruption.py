"""A run is killed with SIGKILL, again and again, and ends in the ratings of a run that nobody disturbed."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from audit.schema import TABLES
from audit.store import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")]
N_PROMPTS = 500  # 5 perceivers x 5 experiencers x 20 narratives
SHARD_SIZE = 5
TIMEOUT = 120  # seconds a single process may take; two cores do the whole test in 80


def command(model, run):
    return [
        sys.executable, "-m", "audit", "run",
        f"model.path={model}", "engine=transformers", "engine.device=cpu", "elicitation=expected",
        "stimuli.situations_per_emotion=10", "stimuli.emotions=[sad,happy]", "dimensions=religion",
        "statistics.n_permutations=100", f"shard_size={SHARD_SIZE}", f"run_dir={run}",
    ]  # fmt: skip


def shards(run):
    return sorted(path.name for path in (run / "ratings").glob("part-*.parquet"))


def wait_until(condition, process):
    """Wait for a condition as long as the process lives."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if condition() or process.poll() is not None:
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
        more = rng.randint(1, 12)
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
    with said.open("w") as stream:
        options = {"env": child_environment, "cwd": tmp_path, "stdout": stream, "stderr": stream}
        subprocess.run(command(tiny_model, undisturbed), check=True, timeout=TIMEOUT, **options)
        seen, n_killed = [], 0
        for moment, condition, delay in moments(run, random.Random(11)):
            before = len(shards(run))
            with subprocess.Popen(command(tiny_model, run), **options) as process:
                wait_until(lambda c=condition, b=before: c(b), process)
                time.sleep(delay)
                process.kill()
            # On a busy machine the last ones may be through before they are hit; none may end in an error.
            assert process.returncode in (0, -signal.SIGKILL), f"{moment}: {said.read_text()[-1000:]}"
            n_killed += process.returncode != 0
            seen.append(len(shards(run)))
        assert seen == sorted(seen)
        assert n_killed >= 8
        assert len({n for n in seen if 0 < n < N_PROMPTS // SHARD_SIZE}) >= 5, f"too few kills between shards: {seen}"
        last = subprocess.run(command(tiny_model, run), check=False, timeout=TIMEOUT, **options)
        assert last.returncode == 0, said.read_text()[-1000:]

    assert shards(run) == shards(undisturbed)
    for name in shards(run):
        assert (run / "ratings" / name).read_bytes() == (undisturbed / "ratings" / name).read_bytes(), name
    assert not [*run.rglob("*.unfinished")]
    with RunFolder(run) as killed, RunFolder(undisturbed) as whole:
        ratings = killed.read_ratings(n_prompts=N_PROMPTS)
        assert ratings.equals(whole.read_ratings(n_prompts=N_PROMPTS))
    assert ratings["prompt_index"].tolist() == list(range(N_PROMPTS))
    for name in TABLES:
        assert (run / "tables" / f"{name}.csv").read_bytes() == (undisturbed / "tables" / f"{name}.csv").read_bytes()
    assert status(run) == "complete"
    assert (run / "report.html").exists()
