"""How fast ratings are elicited, way by way, on the same model and prompts, in one run: rates and their ratios.

    python benchmarks/throughput.py                                     # the embedded model, in float32
    python benchmarks/throughput.py n=100 ways=packed,whole             # fewer prompts, only these ways
    python benchmarks/throughput.py model=OWNER/NAME dtype=bfloat16     # another model, for instance on a GPU
    python benchmarks/throughput.py shape=8b dtype=bfloat16             # random weights of the shape of Llama-3.1-8B
    python benchmarks/throughput.py n=75 ways=bounds                    # what max_pruned_points costs and does
    python benchmarks/throughput.py n=75 ways=bounds "begun=Number: "   # the same of answers that are begun so
    python benchmarks/throughput.py n=48 ways=ends "begun=Number: "     # what elicitation.ends=calibrated does
    python benchmarks/throughput.py ways=limit dtype=bfloat16           # the rate of matrix products in another format

The ways, each in a process of its own:

- ``published``: as the study's script calls vLLM: rendered strings in the file's order, temperature 0, max_tokens 128.
- ``pipeline``: transformers' text-generation pipeline, one prompt after another, 128 tokens at most.
- ``whole``: `expected`, each prompt and each continuation read as a whole sequence, in batches.
- ``vllm``: `expected` by the toolkit's vLLM engine.
- ``packed``: `expected` by the toolkit's packed pass.
- ``distinct``: one pass over the distinct tokens of the prompts, in packs, and nothing asked of the tree of numbers.
- ``limit``: no way, but what bounds them: the time of the matrix products alone, at the rate at which this machine
  multiplies the model's own shapes, for the distinct tokens of the prompts and of the tree of numbers that ``packed``
  asked about. The rate for fewer rows at a time is told too.
- ``bounds``: no way either, and left out unless asked for: `expected` at several bounds on what is not asked.
- ``ends``: likewise: `expected` with ends of numbers asked of each prompt, and taken from a sample of other prompts.

A way that is not installed is left out. `expected` ratings are compared with ``whole``'s.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

BOUNDS = (0.05, 0.5, 1.0, 2.0, 3.0)
"""In points, for ``bounds``."""
ROWS = (30, 120, 300, 600)
"""Of matrix products whose rate is told."""
WAYS = ("published", "pipeline", "whole", "vllm", "packed", "distinct", "limit")
SLOW = {"pipeline": 12, "whole": 6}
"""Ways that are asked only so many prompts, spread over all of them: their rate does not depend on the number."""
SHAPES = {
    "8b": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    },
}  # fmt: skip


def settings(arguments):
    """Return the command line's KEY=VALUE over the defaults."""
    found = {
        "model": "embedded:smollm2", "dtype": "float32", "n": "300", "ways": ",".join(WAYS), "shape": "",
        "pack_tokens": "", "max_pruned_points": "", "engine_options": "{}", "begun": "",
    }  # fmt: skip
    for argument in arguments:
        key, sign, value = argument.partition("=")
        if not sign or key not in found:
            raise SystemExit(f"throughput: {argument!r} is none of {', '.join(f'{k}=' for k in found)}")
        found[key] = value
    return found


def cards(asked, engine):
    """Return the model's card and the engine's."""
    from audit.configuration.engine import EngineConfig
    from audit.configuration.model import ModelConfig

    model = ModelConfig(
        name="benchmarked", path=asked["model"], revision=None, tokenizer=None, dtype=asked["dtype"],
        quantization=None, max_model_len=1024, trust_remote_code=False, elicitation="expected",
    )  # fmt: skip
    options = {
        "name": engine, "tensor_parallel_size": 1, "gpu_memory_utilization": 0.9, "kv_cache_gib": 2,
        "enforce_eager": None, "block_size": None, "device": "auto", "batch_size": 16,
        "pack_tokens": int(asked["pack_tokens"]) if asked["pack_tokens"] else None,
    }  # fmt: skip
    return model, EngineConfig(**(options | json.loads(asked["engine_options"])))


def grid_of(n):
    """Return a grid of n prompts or more, in the packaged wording `origin`: pairs of religions in each narrative."""
    import yaml

    from audit.configuration.composition import conf_folder
    from stimuli.identities import load_dimensions
    from stimuli.narratives import load_narratives
    from stimuli.prompts import PromptGrid, PromptVariant, Scale

    base = yaml.safe_load((conf_folder() / "prompt" / "base.yaml").read_text())
    own = {**base, **yaml.safe_load((conf_folder() / "prompt" / "origin.yaml").read_text())}
    texts = {key: str(own[key]).strip() for key in ("persona", "system", "user")}
    scale = Scale(**own["scale"])
    variant = PromptVariant(name="origin", narrative=own["narrative"], scale=scale, **texts)
    dimensions = load_dimensions("geneva", own=None, names=["religion"], unspecified=True, no_persona=False)
    return PromptGrid(dimensions, load_narratives("geneva", situations_per_emotion=max(1, -(-n // 300))), variant)


def prompts_of(n):
    """Return n prompts and their scale."""
    grid = grid_of(n)
    return [grid.prompt(cell) for cell in grid[:n]], grid.variant.scale


def in_group_of(n):
    """Return of n prompts whether perceiver and experiencer share their group; None of the baseline's."""
    return [cell.dimension.in_group(cell.perceiver, cell.experiencer) for cell in grid_of(n)[:n]]


def write_random(shape, folder):
    """Write a model of a shape with random weights, and the embedded model's tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from audit.engines.resolve import EMBEDDED, find_folder

    source = os.environ.get("THROUGHPUT_TOKENIZER") or str(
        find_folder("embedded:smollm2", asked="x", revision=None, check=lambda _: None, packaged=EMBEDDED).folder
    )
    tokenizer = AutoTokenizer.from_pretrained(source)
    config = AutoConfig.for_model(
        "llama", **SHAPES[shape], vocab_size=len(tokenizer), max_position_embeddings=8192, tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def way(name, asked):
    """Run one way, and return its rate and what it found."""
    from audit.asking.elicitation.expected import ExpectedElicitation

    n = int(asked["n"])
    prompts, scale = prompts_of(n)
    prompts = [replace(prompt, begun=asked["begun"]) for prompt in prompts]
    if name in SLOW:
        prompts = prompts[:: max(1, n // SLOW[name])]
    points = float(asked["max_pruned_points"] or default_points())
    if name == "published":
        return published(asked, prompts)
    engine = opened(asked, "vllm" if name == "vllm" else "transformers")
    if name == "limit":
        return limit(engine, prompts, points, scale)
    if name == "bounds":
        return bounds(engine, prompts, scale, in_group_of(n))
    if name == "ends":
        return ends(engine, n, asked["begun"], points)
    if name == "pipeline":
        return pipeline(engine, prompts)
    if name == "distinct":
        encoded = [engine.tokenizer.encode(engine.tokenizer.render(prompt)) for prompt in prompts]

        def ask(some):
            for reading in engine.read(some):
                reading.probabilities([[()]] * len(reading.places), [32])

        ask(encoded[:20])
        return timed(lambda: ask(encoded), len(prompts)) | {"facts": facts(engine)}
    if name == "whole":
        engine._packs = False
    elicitation = ExpectedElicitation(scale, points)
    elicitation.elicit(engine, prompts[:20])  # what is done once: the tree of numbers, the trial of packs, warm caches
    engine.forget()
    found = []
    took = timed(lambda: found.extend(elicitation.elicit(engine, prompts)), len(prompts))
    step = max(1, n // SLOW["whole"])
    kept = found if name in SLOW else found[::step]
    return took | {"ratings": [one.intensity for one in kept], "facts": facts(engine)}


def default_points():
    """Return the configuration's own bound."""
    import yaml

    from audit.configuration.composition import conf_folder

    return yaml.safe_load((conf_folder() / "elicitation" / "base.yaml").read_text())["max_pruned_points"]


def opened(asked, engine):
    from audit.engines.open import open_model

    return open_model(*cards(asked, engine), seed=0).engine


def facts(engine):
    return f"{engine.facts.name} {engine.facts.version}, {engine.facts.device}, {engine.facts.dtype}"


def timed(work, n):
    synchronise()
    start = time.perf_counter()
    work()
    synchronise()
    return {"rate": n / (time.perf_counter() - start), "n": n}


def synchronise():
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def published(asked, prompts):
    """vLLM as the study calls it; the first prompts warm it up."""
    import vllm
    from transformers import AutoTokenizer

    from audit.engines.chat import ChatTokenizer
    from audit.engines.resolve import resolve_model

    folder = str(resolve_model(cards(asked, "vllm")[0]).folder)
    tokenizer = ChatTokenizer(AutoTokenizer.from_pretrained(folder), name="benchmarked")
    texts = [tokenizer.render(prompt) for prompt in prompts]
    llm = vllm.LLM(model=folder, seed=0, dtype=asked["dtype"])
    sampling = vllm.SamplingParams(temperature=0, seed=0, max_tokens=128)
    llm.generate(texts[:8], sampling, use_tqdm=False)
    return timed(lambda: llm.generate(texts, sampling, use_tqdm=False), len(texts)) | {
        "facts": f"vllm {vllm.__version__}"
    }


def pipeline(engine, prompts):
    import transformers

    texts = [engine.tokenizer.render(prompt) for prompt in prompts]
    model = engine._model
    write = transformers.pipeline("text-generation", model=model, tokenizer=engine.tokenizer.hf, device=model.device)

    def ask(some):
        for text in some:
            write(text, max_new_tokens=128, do_sample=False, return_full_text=False)

    ask(texts[:2])
    return timed(lambda: ask(texts), len(texts)) | {"facts": facts(engine)}


def limit(engine, prompts, points, scale):
    """The matrix products of the distinct tokens at the measured rate: no attention, no activations, no bookkeeping."""
    from audit.asking.elicitation.expected import ExpectedElicitation

    encoded = [tuple(engine.tokenizer.encode(engine.tokenizer.render(prompt))) for prompt in prompts]
    n_distinct = len({ids[:end] for ids in encoded for end in range(1, len(ids) + 1)})
    some = prompts[: max(1, len(prompts) // 4)]  # whole pairs, where the prompts are some hundreds
    elicitation = ExpectedElicitation(scale, points)
    elicitation.elicit(engine, some[:12])
    with counted() as count:
        elicitation.elicit(engine, some)
    n_asked = count.asked / len(some) * len(prompts)  # the ends of prompts among them, which are no tokens of their own
    n_tree = n_asked - len(prompts)
    body, head, rates = matrix_seconds(engine)
    seconds = (n_distinct + n_tree) * body + n_asked * head
    n = len(prompts)
    return {
        "rate": n / seconds, "n": n, "facts": facts(engine),
        "distinct_tokens": n_distinct / n, "tokens": sum(map(len, encoded)) / n,
        "tree_nodes": n_tree / n, "matrix_gflops": rates,
    }  # fmt: skip


@contextmanager
def counted():
    """Count the nodes that packs are asked about meanwhile."""
    from audit.engines.packed import PackedReading

    probabilities, count = PackedReading.probabilities, SimpleNamespace(asked=0)

    def counting(self, tails, token_ids):
        count.asked += sum(map(len, tails))
        return probabilities(self, tails, token_ids)

    PackedReading.probabilities = counting
    try:
        yield count
    finally:
        PackedReading.probabilities = probabilities


def bounds(engine, prompts, scale, in_group):
    """What each bound costs, and what it does to ratings and to their mean in-group minus their mean out-group."""
    from audit.asking.elicitation.expected import ExpectedElicitation

    ExpectedElicitation(scale, BOUNDS[-1]).elicit(engine, prompts[:20])
    rows, exact = [], None
    for points in BOUNDS:
        with counted() as count:
            start = time.perf_counter()
            found = ExpectedElicitation(scale, points).elicit(engine, prompts)
            rate = len(prompts) / (time.perf_counter() - start)
        ratings = [one.intensity for one in found]
        exact = exact or ratings
        means = [
            statistics.fmean(r for r, own in zip(ratings, in_group, strict=True) if own is k) for k in (True, False)
        ]
        rows.append({
            "bound": points, "rate": rate, "nodes": count.asked / len(prompts) - 1,
            "largest_bound": max(one.pruned_points for one in found),
            "largest_shift": max(abs(a - b) for a, b in zip(ratings, exact, strict=True)), "gap": means[0] - means[1],
        })  # fmt: skip
    return {"rate": rows[-1]["rate"], "n": len(prompts), "facts": facts(engine), "rows": rows}


def ends(engine, n, begun, points):
    """What a sample of other prompts costs, and what its shares of ends save and do to ratings and to the gap."""
    import numpy as np

    from audit.asking.elicitation.ends import SAMPLE, Sampled, why_exact
    from audit.asking.elicitation.expected import ExpectedElicitation

    grid = grid_of(5 * n)
    order = np.random.default_rng(0).permutation(len(grid)).tolist()
    pairs = {place: grid[place].dimension.in_group(grid[place].perceiver, grid[place].experiencer) for place in order}
    in_group = [place for place in order if pairs[place]]
    others = [place for place in order if not pairs[place]]
    half = SAMPLE // 2
    sampled = [*in_group[:half], *others[:half]]
    places = [*in_group[half : half + n // 3], *others[half : half + n - n // 3]]  # a third: for the gap's sake

    def prompts_at(those):
        return [replace(grid.prompt(grid[place]), begun=begun) for place in those]

    scale = grid.variant.scale
    plain = ExpectedElicitation(scale, points)
    plain.elicit(engine, prompts_at(others[-8:]))  # what is done once
    with counted() as count:
        start = time.perf_counter()
        sample = plain.calibrate(
            engine, prompts_at(sampled), [Sampled(k, pairs[place]) for k, place in enumerate(sampled)]
        )
        seconds = time.perf_counter() - start
    told = {"rate": SAMPLE / seconds, "n": n, "facts": facts(engine), "sample_nodes": count.asked / SAMPLE - 1}
    if sample is None:
        return told
    told |= {"why": why_exact(sample, scale), "sample_rms": sample.rms, "systematic": sample.systematic}
    rows, exact = [], None
    for name, elicitation in (("exact", plain), ("calibrated", ExpectedElicitation(scale, points, sample))):
        with counted() as count:
            start = time.perf_counter()
            found = elicitation.elicit(engine, prompts_at(places))
            rate = n / (time.perf_counter() - start)
        ratings = np.array([one.intensity for one in found])
        bound = np.array(
            [one.pruned_points if one.ends_points != one.ends_points else one.ends_points for one in found]
        )
        exact = ratings if exact is None else exact
        own = np.array([pairs[place] is True for place in places])
        out = np.array([pairs[place] is False for place in places])
        rows.append({
            "ends": name, "rate": rate, "nodes": count.asked / n - 1,
            "rms": float(np.sqrt(((ratings - exact) ** 2).mean())), "largest": float(abs(ratings - exact).max()),
            "bound": float(np.median(bound)), "outside": int((abs(ratings - exact) > bound + points).sum()),
            "gap": float(ratings[own].mean() - ratings[out].mean()),
        })  # fmt: skip
    return told | {"ends": rows}


def matrix_seconds(engine):
    """Return the seconds a token of all layers' products, and of the output layer's; and GFLOP/s by rows at a time."""
    import torch

    model = engine._model
    head = model.get_output_embeddings().weight
    weights = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name and p is not head]

    def products(some, n_rows):
        ones = {w.shape[1]: torch.ones(n_rows, w.shape[1], dtype=w.dtype, device=w.device) for w in some}

        def multiply():
            with torch.inference_mode():
                for weight in some:
                    torch.nn.functional.linear(ones[weight.shape[1]], weight)

        multiply()
        times = []
        for _ in range(3):
            synchronise()
            start = time.perf_counter()
            multiply()
            synchronise()
            times.append(time.perf_counter() - start)
        return min(times) / n_rows

    many = 1024 if model.device.type == "cpu" else 8192
    top = products([head], many)
    body = {n_rows: products(weights, n_rows) for n_rows in (*ROWS, many)}
    flops = 2 * sum(w.numel() for w in weights)
    return body[many], top, {n_rows: flops / seconds / 1e9 for n_rows, seconds in body.items()}


def hardware():
    """Return what the machine is, for the table's heading."""
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
    cpu = f"{name}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    gpu = f"; {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{cpu}{gpu}; torch {torch.__version__}"


def main():
    asked = settings(sys.argv[1:])
    if "THROUGHPUT_WAY" in os.environ:
        print("RESULT " + json.dumps(way(os.environ["THROUGHPUT_WAY"], asked)), flush=True)
        return
    print(hardware(), flush=True)
    with tempfile.TemporaryDirectory() as made:
        if asked["shape"]:
            write_random(asked["shape"], made)
            asked |= {"model": made, "shape": ""}
        arguments = [f"{key}={value}" for key, value in asked.items()]
        found = {}
        for name in asked["ways"].split(","):
            if name in ("published", "vllm") and importlib.util.find_spec("vllm") is None:
                print(f"{name}: vLLM is not installed", flush=True)
                continue
            environment = os.environ | {
                "THROUGHPUT_WAY": name,
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_LOGGING_LEVEL": "ERROR",
            }
            done = subprocess.run(
                [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False
            )
            line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
            if line is None:
                print(f"{name}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            found[name] = json.loads(line.removeprefix("RESULT "))
            print(
                f"{name:10} {found[name]['rate']:9.2f} prompts/s  n={found[name]['n']:<6} {found[name]['facts']}",
                flush=True,
            )
    report(found)


def report(found):
    """Print what the rates amount to."""
    for row in found.get("bounds", {}).get("rows", ()):
        print(
            f"bound {row['bound']:4}: {row['rate']:5.2f} prompts/s, {row['nodes']:5.1f} nodes a prompt, largest bound "
            f"{row['largest_bound']:.2f}, largest shift {row['largest_shift']:.2f}, "
            f"in-group minus out-group {row['gap']:.3f}"
        )
    if "ends" in found:
        told = found["ends"]
        print(
            f"sample: {told['sample_nodes']:.1f} nodes a prompt; "
            + (
                f"its ratings are moved by {told['sample_rms']:.3f} points (root mean square), and apart by at most "
                f"{told['systematic']:.3f}; {told['why'] or 'calibrated'}"
                if "ends" in told
                else "nothing to calibrate"
            )
        )
        for row in told.get("ends", ()):
            print(
                f"{row['ends']:10}: {row['rate']:5.2f} prompts/s, {row['nodes']:5.1f} nodes a prompt, shift "
                f"{row['rms']:.3f} (root mean square), {row['largest']:.3f} at most; median bound {row['bound']:.3f}, "
                f"{row['outside']} outside; in-group minus out-group {row['gap']:+.3f}"
            )
    if "limit" in found:
        bound = found["limit"]
        print(
            f"a prompt: {bound['tokens']:.1f} tokens, {bound['distinct_tokens']:.1f} of them distinct; "
            f"{bound['tree_nodes']:.1f} nodes of the tree of numbers; "
            "GFLOP/s of matrix products by rows: "
            + ", ".join(f"{n_rows}: {rate:.0f}" for n_rows, rate in bound["matrix_gflops"].items())
        )
        for name in ("packed", "vllm", "whole"):
            if name in found:
                print(f"{name} goes at {found[name]['rate'] / bound['rate']:.0%} of the limit")
    if {"packed", "vllm"} <= set(found):
        print(f"packed is {found['packed']['rate'] / found['vllm']['rate']:.2f} times vllm")
    if {"packed", "distinct"} <= set(found):
        print(
            f"packed costs {found['distinct']['rate'] / found['packed']['rate']:.2f} times one pass of the distinct "
            "tokens"
        )
    for name in ("packed", "vllm"):
        if {name, "whole"} <= set(found):
            pairs = zip(found[name]["ratings"], found["whole"]["ratings"], strict=True)
            largest = max(abs(a - b) for a, b in pairs)
            print(f"{name}: ratings differ from whole sequences' by at most {largest:.1e} points")


if __name__ == "__main__":
    main()
