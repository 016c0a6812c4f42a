"""Measure what ratings and δ differ by where the same command runs elsewhere: another CPU, format, engine, threads.

Run as ``python benchmarks/reproduction.py [n=2] [at_once=1] [only=NAME,NAME]`` where the project is installed with its
embedded model (or with ``PYTHONPATH=.``); n is the number of situations, at_once how many rows are made at a time. Each
row is a run of its own, in a process of its own, of the same prompts; the first is what the others are held against.
Another CPU is imitated: PyTorch and oneDNN are told to use an older one's instructions. Differences are those of the
noise floor (``statistics.elicitation.NoiseFloor``): root mean square and largest, in points of the scale. Some prompts
are also answered in words (``generate``).
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from audit.runs.store import RunFolder
from audit.statistics.noise import noise_floor

BASE = (
    "dimensions=[religion]", "stimuli.placebo=0", "stimuli.emotions=[sad]", "elicitation.check_sample=8",
    "elicitation.max_tokens=8", "elicitation.noise_sample=0", "elicitation.manipulation=0", "elicitation=expected",
    "statistics.n_permutations=100",
)  # fmt: skip
COLLECT = "COLLECT "
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
TRANSFORMERS = "engine=transformers"
WAYS = {
    "this machine": ((TRANSFORMERS,), {}),
    "again": ((TRANSFORMERS,), {"PYTHONHASHSEED": "7"}),
    "1 thread": ((TRANSFORMERS,), {"OMP_NUM_THREADS": "1"}),
    "shards of 16": ((TRANSFORMERS, "shard_size=16"), {}),
    "AVX2": ((TRANSFORMERS,), AVX2),
    "no AVX": ((TRANSFORMERS,), PLAIN),
    "packs of 512 tokens": ((TRANSFORMERS, "engine.pack_tokens=512"), {}),
    "bfloat16": ((TRANSFORMERS, "model.dtype=bfloat16"), {}),
    "bfloat16, AVX2": ((TRANSFORMERS, "model.dtype=bfloat16"), AVX2),
    "vLLM": (("engine=vllm", "engine.kv_cache_gib=1"), {}),
}
"""What sets a run apart from the first: overrides, and variables of its environment."""


def collect(folder, words):
    """Collect a run, as the command does, without its figures and page; return δ and what PyTorch makes use of."""
    import torch

    from audit.configuration.composition import compose
    from audit.statistics.cells import NarrativeCube
    from audit.statistics.echo import without_echo
    from audit.statistics.headline import headline_gap
    from audit.statistics.ratings import compact_ratings
    from audit.tasks.registry import TASKS

    found = []
    compose([*words, f"run_dir={folder}"], lambda each: found.append(each.validated()))
    [config] = found
    task = TASKS[config.task.kind]
    with RunFolder(config.run_dir) as run:
        manifest = task.collect(task.plan(config), run, command="benchmark", say=lambda line: None)
        run.write_manifest(manifest)
        run.consolidate(lambda line: None)
        ratings = run.read_ratings(n_prompts=manifest.n_prompts)
    cube = NarrativeCube.from_ratings(compact_ratings(ratings), dimension="religion", variant="origin")
    gap = headline_gap(without_echo(cube, manifest.stems.get("religion", {})), confidence=0.95)
    return gap.delta, torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()


def machine():
    """Return what the processor is called, and how many of it there are."""
    found = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{found[0].split(':')[1].strip() if found else 'a processor'}, {os.cpu_count()} cores"


def ask(folder, words, environment, n):
    """Run the audit in a process of its own; return ratings, what was answered in words, δ, and of which machine."""
    words = [*BASE, f"stimuli.situations_per_emotion={n}", *words]
    done = subprocess.run(
        [sys.executable, __file__, COLLECT, folder, *words],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{words}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    [said] = [line for line in done.stdout.splitlines() if line.startswith(COLLECT)]
    delta, *machine = json.loads(said.removeprefix(COLLECT))
    ratings, answered = (pd.read_parquet(folder / f"{name}.parquet") for name in ("ratings", "elicitation_sample"))
    return ratings, answered, delta, machine


def row(name, found, first):
    """Return a row of the table: a run against the first."""
    ratings, words, delta, (instructions, threads) = found
    floor = noise_floor(first[0], ratings)
    both = first[1].merge(words, on="prompt_index", suffixes=("", "_now"))
    n_texts = int((both["response"] != both["response_now"]).sum())
    n_bits = int((ratings["intensity"].to_numpy() != first[0]["intensity"].to_numpy()).sum())
    cells = [
        name, f"{instructions}, {threads}", f"{n_bits} of {len(ratings)}", f"{floor.rms_points:.2g}",
        f"{floor.max_points:.2g}", f"{delta:+.5f}", f"{delta - first[2]:+.2g}", f"{n_texts} of {len(both)}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main(n=2, at_once=1, only=None):
    """Print the table, a row as soon as it and those before it are there."""
    print(machine(), flush=True)
    head = (
        "way", "instructions, threads", "ratings that differ", "rms (points)", "largest (points)", "δ", "change of δ",
        "texts that differ",
    )  # fmt: skip
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    ways = {name: way for k, (name, way) in enumerate(WAYS.items()) if not k or only is None or name in only.split(",")}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(at_once) as pool:
        asked = [
            pool.submit(ask, Path(scratch) / f"{place}", words, environment, n)
            for place, (words, environment) in enumerate(ways.values())
        ]
        for name, found in zip(ways, asked, strict=True):
            print(row(name, found.result(), asked[0].result()), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [COLLECT]:
        print(COLLECT + json.dumps(collect(sys.argv[2], sys.argv[3:])))
        sys.exit()
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    main(int(given.get("n", 2)), int(given.get("at_once", 1)), given.get("only"))
