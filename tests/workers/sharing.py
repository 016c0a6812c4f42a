"""Runs that workers share out, as their tests make, disturb and compare them."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest
from runs import FOUR_RELIGIONS, collected

from audit.runs.store import RunFolder

N_PROMPTS = 25  # 5 perceivers x 5 experiencers x 1 narrative, in shards of four: seven
TABLES = ("ratings", "stages", "replies", "answers", "asked_again", "elicitation_sample", "manipulated")
CHECKED = (
    "elicitation.check_sample=6", "elicitation.noise_sample=70", "elicitation.noise_formats=[bfloat16]",
    "elicitation.manipulation=2", "stimuli.situations_per_emotion=3",
)  # fmt: skip
LED = ("strategy=coe-cbt", "strategy.stages.emotion.max_tokens=3", "strategy.stages.factors.max_tokens=4")
TWO = "engine.replicas=2"


def overrides(model, *more):
    return [
        f"model.path={model}", "model.max_model_len=1024", "engine=transformers", "engine.device=cpu",
        "engine.batch_size=2", "elicitation=expected", "elicitation.max_tokens=4", "stimuli.situations_per_emotion=1",
        "stimuli.emotions=[sad]", *FOUR_RELIGIONS, "elicitation.check_sample=0", "elicitation.noise_sample=0",
        "elicitation.manipulation=0", "statistics.n_permutations=100", "shard_size=4", *more,
    ]  # fmt: skip


def collect(run, words, lines=None):
    """Collect a run as the command does, without what comes after; return its manifest."""
    from audit.configuration.composition import compose
    from audit.tasks.registry import TASKS

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setattr("audit.engines.open._kept", None)
        compose([*words, f"run_dir={run}"], lambda each: found.append(each.validated()))
        config = found[0]
        task = TASKS[config.task.kind]
        plan = task.plan(config)
        with RunFolder(run) as folder:
            manifest = task.collect(plan, folder, command="a test", say=(lines if lines is not None else []).append)
            folder.write_manifest(manifest)
            folder.consolidate()
    return manifest


def same(run, other):
    found, expected = collected(run, *TABLES), collected(other, *TABLES)
    assert set(found) == set(expected) != set()
    assert [name for name in found if found[name] != expected[name]] == []


def process_of(state):
    """Return the process of a worker, wherever it was started."""
    return int(re.search(r"process (\d+)\)", state.worker.name)[1])


def actor_of(state):
    """Return the process of the actor that started a worker."""
    return int(re.search(r"actor (\d+)", state.worker.name)[1])


def signalled(number, to, most=1, only=lambda state: True, of=process_of):
    """Send the first workers that have answered something a signal; ``to`` takes their process ids."""
    lock = threading.Lock()

    def act(state):
        with lock:
            pid = of(state)
            if len(to) < most and pid not in to and only(state):
                to.append(pid)
                os.kill(pid, number)

    return act


def gone(pids, within=10):
    """Say whether processes have ended, within some seconds."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not any(map(lives, pids)):
            return True
        time.sleep(0.05)
    return False


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
