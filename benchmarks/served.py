"""Ask a model through a server, kill the run half way, go on, and compare with the engine of this machine.

    python benchmarks/served.py                                       # vLLM's server, 48 prompts
    python benchmarks/served.py stimuli.emotions=[sad] shard_size=4   # 16 of them
    python benchmarks/served.py file=FILE.gguf                        # llama.cpp's server
    python benchmarks/served.py file=FILE.gguf form=float32           # the same with unquantised arithmetic

Arguments are overrides of ``audit run``, for both runs. The server listens on loopback and wants a key, which is drawn
anew. The run is killed by SIGKILL once half of its shards are there, and the same command is given again; then the
server is stopped, and the same prompts are asked by ``engine=vllm`` of the embedded model, or of the file by
``engine=transformers``, in a process of its own. Printed as Markdown: how far the ratings are apart, beside the noise
floor of the engine here (what it says when some prompts are asked again in another order), δ of both, what the kill
cost, and in how many files the key is: run folders, what the runs printed, and the server's log. The exit code is 1 if
a row is lost or there twice, a rating changed after the kill, a file has the key, the server answers without one, or
two ratings are further apart than TOLERANCE or ``within=`` points.

llama.cpp multiplies quantised weights by quantised activations, and its attention is of half precision. With
``form=float32`` it is given the file's weights in float32, and computes attention in it.
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
OURS = ("file=", "form=", "within=")
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
        with urllib.request.urlopen(url, timeout=60) as answer:
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


def as_float32(file, folder):
    """Write a GGUF file's model with its weights in float32, and return the new file."""
    import gguf

    reader, made = gguf.GGUFReader(file), folder / "float32.gguf"
    writer = gguf.GGUFWriter(made, reader.fields["general.architecture"].contents())
    for name, each in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            inner = each.types[-1] if each.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, each.contents(), each.types[0], sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def main(overrides):
    """Make both runs, and print the table."""
    here = {word.partition("=")[0]: word.partition("=")[2] for word in overrides if word.startswith(OURS)}
    overrides = [word for word in overrides if not word.startswith(OURS)]
    file, exact, tolerance = here.get("file"), "form" in here, float(here.get("within", TOLERANCE))
    from audit import open_run
    from audit.engines.resolve import EMBEDDED, find_folder

    print(hardware(), flush=True)
    key = f"sk-{secrets.token_hex(16)}"
    quiet = os.environ | {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as made:
        served, local = Path(made) / "served", Path(made) / "local"
        log = Path(made) / "server.txt"
        if file is None:
            name, card, path, own = NAME, "model=vllm-serve", "/models", ["model=smollm2", "engine=vllm"]
            model = "embedded:smollm2"
            model = find_folder(model, asked=model, revision=None, check=lambda _: None, packaged=EMBEDDED).folder
            server = real_server(served_from(model), quiet | {"VLLM_API_KEY": key}, log, starts_within=STARTS)
        else:
            name, card, path = "small", "model=llama-cpp", "/slots"
            own = [f"model.path={file}", "engine=transformers", "model.dtype=float32"]
            file = as_float32(file, Path(made)) if exact else file
            server = llama_cpp_server(quiet, log, key=key, starts_within=STARTS, file=file, exact=exact)
        with server as url:
            refused = says_without_key(url.removesuffix("/v1" if file else "") + path)
            words = [
                *DESIGN, *overrides, card, f"model.path={name}", f"model.base_url={url}",
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
        audit([*DESIGN, *overrides, *own, "model.max_model_len=1024", "elicitation.noise_sample=16"], local, quiet)
        theirs, ours = open_run(served / "run"), open_run(local / "run")
        files = [path for path in Path(made).rglob("*") if path.is_file() and path.suffix != ".gguf"]
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
        f"noise floor of the engine here: {noise.n} prompts again, largest": f"{noise.max_points:.2g} points",
        "its root mean square": f"{noise.rms_points:.2g} points",
        "δ, served": gaps[0],
        "δ, the engine here": gaps[1],
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
    far = not np.max(np.abs(apart)) <= tolerance  # also where one is missing
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
