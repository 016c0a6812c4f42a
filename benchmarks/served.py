"""Ask the embedded model through vLLM's server, kill the run half way, go on, and hold it against engine=vllm.

    python benchmarks/served.py                                       # 48 prompts
    python benchmarks/served.py stimuli.emotions=[sad] shard_size=4   # 16 of them
    python benchmarks/served.py file=FILE.gguf n=36                   # llama.cpp's server against the file itself

Arguments are overrides of ``audit run``, for both runs. The server listens on loopback and wants a key, which is drawn
anew. The run is killed by SIGKILL once half of its shards are there, and the same command is given again; then the
server is stopped, and the same prompts are asked by ``engine=vllm`` in a process of its own. Printed as Markdown: how
far the ratings are apart, beside the noise floor of ``engine=vllm`` (what it says when some prompts are asked again in
another order), δ of both, what the kill cost, and in how many files the key is: run folders, what the runs printed, and
the server's log. The exit code is 1 if a row is lost or there twice, a rating changed after the kill, a file has the
key, the server answers without one, or two ratings are further apart than TOLERANCE.

With ``file=``, n prompts are asked through llama.cpp's server, with the default bound, and of the same file as it is
read here, with none. The exit code is 1 if a served rating has a wider bound than was allowed.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
import runpy
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
from throughput import hardware

DESIGN = (
    "dimensions=[religion]", "stimuli.emotions=[sad,happy,tense]", "stimuli.situations_per_emotion=1",
    "stimuli.perceiver_terms=1", "stimuli.experiencer_terms=1", "stimuli.unspecified=false", "stimuli.placebo=0",
    "elicitation=expected", "elicitation.prefill='Number: '", "elicitation.max_pruned_points=2",
    "elicitation.check_sample=0", "elicitation.manipulation=0", "statistics.n_permutations=100", "shard_size=6",
)  # fmt: skip
PACKED = re.compile(rb"\bH4sI[A-Za-z0-9+/]+=*")
"""How gzip begins in base64."""
NAME, KEY_IN = "embedded", "SERVED_KEY"
TOLERANCE = 0.001
"""Points of 100: what sums of float32 in another order may come to."""
STARTS, RUNS = 900, 5_400
"""Seconds that the server may take to start, and a run to end."""
SERVING = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "engines" / "serving.py"))
real_server, llama_cpp_server = SERVING["real_server"], SERVING["llama_cpp_server"]


def served_from(model):
    """Return what takes a port and returns the words that serve a model's folder; the key is in the environment."""
    return lambda port: [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", NAME,
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "1024", "--block-size",
        "32", "--enforce-eager", "--disable-log-stats",
    ]  # fmt: skip


def audit(words, folder, environment, *, kill_at=None):
    """Run a command, which is killed once so many shards are there, and return those; what it prints goes to a file."""
    run = folder / "run"
    folder.mkdir(exist_ok=True)
    with (folder / "printed.txt").open("ab") as out, subprocess.Popen(
        [sys.executable, "-m", "audit", "run", *words, f"run_dir={run}"], env=environment, stdout=out, stderr=out
    ) as process:  # fmt: skip
        deadline = time.monotonic() + RUNS
        while process.poll() is None and time.monotonic() < deadline:
            if kill_at is not None and len(list(run.glob("ratings/part-*.parquet"))) >= kill_at:
                break
            time.sleep(0.01)
        process.kill()
    wanted = 0 if kill_at is None else -signal.SIGKILL
    if process.returncode != wanted:
        raise SystemExit(f"served: exit code {process.returncode}\n{(folder / 'printed.txt').read_text()[-2000:]}")
    return pd.concat(map(pd.read_parquet, sorted(run.glob("ratings/part-*.parquet")))) if kill_at else None


def says_without_key(url):
    """Return the status with which the server answers who has no key."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def holds(path, key):
    """Tell whether a file has the key, also within what is compressed: tables, kept prompts, what a page unpacks."""
    content = path.read_bytes()
    texts = [content, *(gzip.decompress(base64.b64decode(one)) for one in PACKED.findall(content))]
    if path.suffix == ".gz":
        texts.append(gzip.decompress(content))
    if path.suffix == ".parquet":
        texts.append(pd.read_parquet(path).to_csv().encode())
    return any(key.encode() in text for text in texts)


def rated(words, prompts, scale, points):
    """Return what a model says of prompts by `expected`; the words choose it."""
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.configuration.composition import compose
    from audit.engines.open import open_model

    found = []
    compose(words, lambda composed: found.append(composed.validated()))
    engine = open_model(found[0].model, found[0].engine, seed=0).engine
    return ExpectedElicitation.of(scale, points).elicit(engine, prompts)


def against_file(file, n):
    """Ask llama.cpp's server and the file that it serves, and print how far they are apart."""
    from throughput import default_points, prompts_of

    print(hardware(), flush=True)
    every, scale = prompts_of(192)
    prompts = every[:: max(1, 192 // n)][:n]
    os.environ[KEY_IN] = f"sk-{secrets.token_hex(16)}"
    points = float(default_points())
    with tempfile.TemporaryDirectory() as made:
        log = Path(made) / "server.txt"
        with llama_cpp_server(os.environ, log, key=os.environ[KEY_IN], starts_within=STARTS, file=file) as url:
            card = ["model=llama-cpp", "model.path=small", f"model.base_url={url}", f"model.api_key_env={KEY_IN}"]
            theirs = rated(card, prompts, scale, points)
    ours = rated([f"model.path={file}"], prompts, scale, 0.0)
    there = [(one, other) for one, other in zip(theirs, ours, strict=True) if one.status == other.status == "rated"]
    apart = [abs(one.intensity - other.intensity) for one, other in there]
    bound = max((one.pruned_points for one, _ in there), default=float("nan"))
    rows = {
        "prompts": len(prompts),
        "rated by both; missing": f"{len(there)}; {len(prompts) - len(there)}",
        "mean, served": f"{np.mean([one.intensity for one, _ in there]):.2f}",
        "mean of the same prompts, from the file": f"{np.mean([other.intensity for _, other in there]):.2f}",
        "largest difference": f"{max(apart, default=float('nan')):.2f} points",
        "largest bound": f"{bound:.2f} points",
    }
    print("\n| | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    return int(bound > points + 1e-9)


def main(overrides):
    """Make both runs, and print the table."""
    given = dict(word.split("=", 1) for word in overrides)
    if "file" in given:
        return against_file(given["file"], int(given.get("n", 36)))
    from audit import open_run
    from audit.engines.resolve import EMBEDDED, find_folder

    print(hardware(), flush=True)
    card = "embedded:smollm2"
    model = find_folder(card, asked=card, revision=None, check=lambda _: None, packaged=EMBEDDED).folder
    key = f"sk-{secrets.token_hex(16)}"
    quiet = os.environ | {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as made:
        served, local = Path(made) / "served", Path(made) / "local"
        log = Path(made) / "server.txt"
        with real_server(served_from(model), quiet | {"VLLM_API_KEY": key}, log, starts_within=STARTS) as url:
            refused = says_without_key(url)
            words = [
                *DESIGN, *overrides, "model=vllm-serve", f"model.path={NAME}", f"model.base_url={url}",
                f"model.api_key_env={KEY_IN}", "elicitation.noise_sample=0",
            ]  # fmt: skip
            size = next(int(word.split("=")[1]) for word in reversed(words) if word.startswith("shard_size="))
            n = len(asked(words))
            n_shards = -(-n // size)
            print(f"{n} prompts, {n_shards} shards: the server is there", flush=True)
            there = audit(words, served, quiet | {KEY_IN: key}, kill_at=n_shards // 2)
            print(f"killed with {len(there) // size} shards", flush=True)
            audit(words, served, quiet | {KEY_IN: key})
        print("asked; the server is stopped", flush=True)
        own = ["model=smollm2", "engine=vllm", "model.max_model_len=1024", "elicitation.noise_sample=16"]
        audit([*DESIGN, *overrides, *own], local, quiet)
        theirs, ours = open_run(served / "run"), open_run(local / "run")
        files = [path for path in Path(made).rglob("*") if path.is_file()]
        with_key = sum(holds(path, key) for path in files)
        got = theirs.answers.set_index("prompt_index")["intensity"]
        apart = (got[~got.index.duplicated()] - ours.answers.set_index("prompt_index")["intensity"]).to_numpy()
        kept = there.set_index("prompt_index")["intensity"]
        n_lost, n_twice = n - got.index.nunique(), int(got.index.duplicated().sum())
        n_changed = int((got[~got.index.duplicated()].reindex(kept.index) != kept).sum())
        noise = ours.manifest.noise
        gaps = told(theirs), told(ours)
    rows = {
        "prompts": n,
        "ratings, largest difference": f"{np.max(np.abs(apart)):.2g} points",
        "ratings, root mean square of differences": f"{np.sqrt(np.mean(apart**2)):.2g} points",
        f"noise floor of engine=vllm: {noise.n} prompts again, largest": f"{noise.max_points:.2g} points",
        "its root mean square": f"{noise.rms_points:.2g} points",
        "δ, served": gaps[0],
        "δ, engine=vllm": gaps[1],
        "shards at the kill": f"{len(there) // size} of {n_shards}",
        "rows lost": n_lost,
        "rows twice": n_twice,
        "ratings from before the kill that are others at the end": n_changed,
        "the server's answer without the key": f"HTTP {refused}",
        "files with the key": f"{with_key} of {len(files)}",
    }
    print("\n| | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    far = not np.max(np.abs(apart)) <= TOLERANCE  # also where one is missing
    return int(far or bool(n_lost or n_twice or n_changed or with_key) or refused != 401)


def asked(words):
    """Return the grid of a run's prompts."""
    from audit.asking.plan import make_plan
    from audit.configuration.composition import compose

    plans = []
    compose(words, lambda composed: plans.append(make_plan(composed.validated())))
    return plans[0].grid


def told(run):
    """Write δ with its interval."""
    row = run.headline.iloc[0]
    return f"{row['delta']:+.6f} points ({row['ci_low']:+.6f} to {row['ci_high']:+.6f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
