"""Time and measure all of a run but the model: prompts, tokens, rows, shards, resume, one file, reading, report.

Run as ``python benchmarks/pipeline.py [NARRATIVES]`` where the project is installed with its embedded model (or with
``PYTHONPATH=.``); NARRATIVES leaves out what has more of them. The prompts are the study's design: 22 nationalities,
"a person" among them, rate 22 others in each narrative, in 484 prompts. Narratives are words of the packaged ones, in
random order. The tokenizer is SmolLM2's; in the model's place is one that answers at once. Each row is a process of its
own, whose wall time (without imports, but for the report) and peak memory are taken. ``resume`` redoes the last shard.
"""

import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from audit.engines.local import TokenEngine

CASES = [(300, "generate", 4_096), (300, "generate", 128), (300, "expected", 4_096), (6_050, "generate", 4_096)]
"""Narratives, how a rating is got, and prompts a shard: 4,096 on a GPU, 128 on a CPU. The last is the study's size."""
TERMS = 22
EMOTIONS = ("anger", "fear", "sadness", "joy", "pride", "trust")
READ_TOGETHER = 512
"""Prompts of a reading of the model that answers at once."""


def write_narratives(path, n):
    """Write n narratives of about 20 words, drawn from those of the packaged ones."""
    from stimuli.narratives import load_narratives

    rng = np.random.default_rng(n)
    texts = [narrative.neutral for narrative in load_narratives("geneva").narratives]
    words = sorted({word for text in texts for word in text.split()})
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["narrative_id", "emotion", "text"])
        for place in range(n):
            text = " ".join(rng.choice(words, rng.integers(8, 33)))
            table.writerow([f"t{place:05d}", EMOTIONS[place % len(EMOTIONS)], f"I felt it when {text}."])


def configure(folder, method, shard_size):
    """Return the validated configuration of the run in a folder."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from audit.configuration.composition import conf_folder
    from audit.configuration.schema import load_config

    overrides = [
        "+model=smollm2", "stimuli=csv", f"stimuli.path={folder}/narratives.csv", "stimuli.identities=hou2025",
        "dimensions=[nationality]", "stimuli.situations_per_emotion=all", f"elicitation={method}",
        f"shard_size={shard_size}", f"run_dir={folder}/{method}",
    ]  # fmt: skip
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", overrides), resolve=True)
    values.pop("experiment", None)
    return load_config(values)


class AtOnce(TokenEngine):
    """An engine without a model: it writes "50", and gives each token that is asked about the same each time."""

    max_model_len = 1024

    def __init__(self, tokenizer):
        from audit.engines.base import EngineFacts

        self.tokenizer = tokenizer
        self.facts = EngineFacts("at once", "1", "cpu", "float32")

    def forget(self):
        pass

    def close(self):
        pass

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        from audit.engines.base import Generated

        answers = [Generated("50", 2, False) for _ in prompts]
        done(len(prompts))
        return answers

    def read(self, prompts):
        for start in range(0, len(prompts), READ_TOGETHER):
            yield AtOnceReading(range(start, min(start + READ_TOGETHER, len(prompts))))


class AtOnceReading:
    def __init__(self, places):
        self.places = places

    def probabilities(self, tails, token_ids):
        shares = 0.7 * 0.3 ** np.arange(len(token_ids))  # most of it on few tokens, as models have it
        return [np.tile(shares, (len(own), 1)) for own in tails]


def open_at_once(model, engine, *, seed, writes=True):
    from audit.engines.base import OpenModel
    from audit.engines.chat import ChatTokenizer
    from audit.engines.local import LocalModel
    from audit.engines.resolve import resolve_model

    files = resolve_model(model)
    tokenizer = ChatTokenizer.load(str(files.folder), name=model.name, trust_remote_code=False)
    return OpenModel(AtOnce(tokenizer), LocalModel(files, {}))


def collect_run(folder, method, shard_size):
    """Collect what is missing of a run; return its seconds and how many prompts those were."""
    import audit.engines.open
    from audit.asking.collect import earlier_manifest, missing_shards
    from audit.asking.plan import make_plan
    from audit.runs.store import RunFolder
    from audit.tasks.registry import TASKS

    config = configure(folder, method, shard_size)
    audit.engines.open.open_model = open_at_once
    audit.engines.open.choose_engine = lambda *_, **__: audit.engines.open.EngineChoice("at once", "asked for")
    # Imported once in a process, and no part of the rate.
    from transformers import AutoTokenizer  # noqa: F401

    start = time.perf_counter()
    plan = make_plan(config)
    with RunFolder(config.run_dir) as run:
        earlier = earlier_manifest(plan, run)
        n = len(plan.grid)
        if earlier is not None:
            n = sum(map(len, missing_shards(plan, earlier, run).values()))
        manifest = TASKS[config.task.kind].collect(plan, run, command="benchmark", say=lambda line: None)
        run.write_manifest(manifest)
    return time.perf_counter() - start, n


def read_run(folder, method, shard_size):
    """Read all ratings of a run."""
    from audit.runs.manifest import Manifest
    from audit.runs.store import RunFolder

    start = time.perf_counter()
    ratings = RunFolder(folder / method).read_ratings(n_prompts=Manifest.read(folder / method).n_prompts)
    return time.perf_counter() - start, len(ratings)


def consolidate_run(folder, method, shard_size):
    """Put the shards of a run into one file; return its seconds and how many prompts those were."""
    from audit.runs.manifest import Manifest
    from audit.runs.store import RunFolder

    start = time.perf_counter()
    with RunFolder(folder / method) as run:
        run.consolidate(print)
    return time.perf_counter() - start, Manifest.read(folder / method).n_prompts


STAGES = {"collect": collect_run, "resume": collect_run, "consolidate": consolidate_run, "read": read_run}


def measure(*arguments):
    """Run a command; return what it printed, its seconds and its peak memory in GB."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([sys.executable, *map(str, arguments)], stdout=said, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        assert status == 0, arguments
        said.seek(0)
        return said.read(), seconds, usage.ru_maxrss / 1e6


def machine():
    """Return what the processor is called, how many of it there are, and what torch makes use of."""
    import torch

    found = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    name = found[0].split(":")[1].strip() if found else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}"


def main(most):
    print(machine())
    print("| what | how | prompts | a shard | s | prompts/s | GB |\n|---|---|---|---|---|---|---|")
    for n, method, shard_size in CASES:
        if n > most:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            write_narratives(folder / "narratives.csv", n)
            run = folder / method
            for what in STAGES:
                if what == "resume":
                    max((run / "ratings").iterdir()).unlink()
                said, _, peak = measure(__file__, what, folder, method, shard_size)
                seconds, done = json.loads(said)
                size, rate = f"{done:,} | {shard_size:,}", f"{done / seconds:,.0f}"
                print(f"| {what} | {method} | {size} | {seconds:.1f} | {rate} | {peak:.2f} |", flush=True)
            _, seconds, peak = measure("-m", "audit", "report", run)
            print(
                f"| report | {method} | {n * TERMS**2:,} | {shard_size:,} | {seconds:.1f} | | {peak:.2f} |", flush=True
            )


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STAGES:
        what, folder, method, shard_size = sys.argv[1:]
        print(json.dumps(STAGES[what](Path(folder), method, int(shard_size))))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else CASES[-1][0])
