"""How many prompts a second vLLM's host part allows: with a device that takes no time, so without a GPU.

    python benchmarks/host_time.py            # both tokenizers: about 2 minutes
    python benchmarks/host_time.py n=300      # more prompts

vLLM itself runs (its CPU build will do): requests, scheduler, prefix cache, model runner. Only the network and the
sampler of the model runner are replaced: they return at once, with probabilities that depend on how much of a number
stands at a request's end. Each number of the scale is as probable as any other, which is the hardest case: of a surer
model fewer numbers are asked. Tokenizers are made from the embedded model's: ``digits`` has a token for each digit, as
Qwen's and Gemma's, ``numbers`` one for each number up to 999, as Llama 3's.

Rates count the processor time of the thread that runs vLLM, not the time on the clock, so that other processes on the
machine matter little. The ways take turns on the same prompts:

- ``plain``: requests as ``vllm.LLM.generate`` takes them, every end of a number asked.
- ``exact``, ``calibrated``: as the toolkit's engine makes them, by ``elicitation.ends``.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

ROUNDS = 3
GOES_ON = {"digits": (0.98, 0.9, 0.03, 0.001), "numbers": (0.98, 0.03, 0.001, 0.001)}
"""The probability that a token of a number follows a prompt, one such token, two and three."""
SPACE = 1e-6
"""The probability that a space follows."""
os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}  # idle threads would wait in loops
GPUS = (1, 8, 64)
DESIGN = 37_300_000
"""Prompts of the study's design."""


def write_tokenizer(folder, kind):
    """Write the embedded model's tokenizer, which has a token a digit, or one with a token for each number to 999."""
    from audit.engines.resolve import EMBEDDED, find_folder

    own = find_folder("embedded:smollm2", asked="x", revision=None, check=lambda _: None, packaged=EMBEDDED).folder
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (own / name).exists():
            (folder / name).write_bytes((own / name).read_bytes())
    if kind == "numbers":
        file = folder / "tokenizer.json"
        table = json.loads(file.read_text())
        words = table["model"]["vocab"]
        first = 1 + max(*words.values(), *(each["id"] for each in table["added_tokens"]))
        more = [str(number) for number in range(1000) if str(number) not in words]
        words |= {number: first + k for k, number in enumerate(more)}
        table["model"]["ignore_merges"] = True  # words of the vocabulary are taken whole
        split = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated", "invert": False}
        table["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, table["pre_tokenizer"]]}
        file.write_text(json.dumps(table))


def opened_without_device(folder, kind, scale, prompt):
    """Return the toolkit's engine with a network that takes no time."""
    import numpy as np
    import torch
    from throughput import SHAPES, opened, settings, write_random
    from vllm.v1.outputs import LogprobsTensors, SamplerOutput

    from audit.asking.elicitation.numbers import number_tree
    from audit.engines.vllm import GROUP

    SHAPES["narrow"] = {
        "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1,
    }  # fmt: skip
    os.environ["THROUGHPUT_TOKENIZER"] = str(folder)
    write_random("narrow", folder)
    engine = opened(settings([f"model={folder}"]), "vllm")
    engine._max_group = GROUP  # as on GPUs
    tree = number_tree(engine.tokenizer, scale, before=engine.tokenizer.render(prompt))
    spaces = np.array([not engine.tokenizer.hf.decode([token]).strip() for token in tree.tokens])
    shares = np.where(spaces, SPACE, np.array(GOES_ON[kind])[:, None] / (~spaces).sum())
    logs = torch.tensor(np.log(shares), dtype=torch.float32)
    runner = engine._llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner

    def sample(logits, sampling_metadata):
        batch, n = runner.input_batch, len(logits)
        last = batch.num_prompt_tokens[:n, None] - 1 - np.arange(logs.shape[0] - 1)
        own = np.isin(batch.token_ids_cpu[np.arange(n)[:, None], last], tree.tokens)
        found = logs[np.cumprod(own, axis=1).sum(axis=1)]
        ids = torch.tensor([0, *tree.tokens], dtype=torch.int32).expand(n, -1)
        ones = torch.ones(n, 1, dtype=torch.int32)
        return SamplerOutput(ones, LogprobsTensors(ids, torch.hstack([-ones, found]), ones[:, 0]))

    runner._model_forward = lambda input_ids, **_: torch.zeros(1, 1).expand(len(input_ids), 1)
    runner.model.compute_logits = lambda states: states
    runner.sampler = sample
    return engine


def plainly(engine, way):
    """Return what asks vLLM as its documentation does: ``LLM.generate``, in its two halves."""
    import numpy as np
    from vllm import SamplingParams

    def probabilities(asked, token_ids):
        parameters = SamplingParams(temperature=0.0, max_tokens=1, logprob_token_ids=list(token_ids), detokenize=False)
        start = time.thread_time()
        engine._llm.enqueue([{"prompt_token_ids": list(ids)} for ids in asked], parameters, use_tqdm=False)
        way.before += time.thread_time() - start
        rows = [output.outputs[0].logprobs[0] for output in engine._llm.wait_for_completion(use_tqdm=False)]
        return np.array([[math.exp(row[token].logprob) for token in token_ids] for row in rows])

    return probabilities


def rates(engine, prompts, scale, points):
    """Return for each way requests a prompt and, of each round, requests a second of the thread's processor time."""
    from audit.asking.elicitation.ends import SAMPLE, Sampled
    from audit.asking.elicitation.expected import ExpectedElicitation

    exact = ExpectedElicitation(scale, points)
    sample = exact.calibrate(engine, prompts[:SAMPLE], [Sampled(k, k % 2 == 0) for k in range(SAMPLE)])
    ways = {"plain": exact, "exact": exact, "calibrated": ExpectedElicitation(scale, points, sample)}
    own, prompts = engine.probabilities, prompts[SAMPLE:]
    found = {name: SimpleNamespace(asked=0, seconds=[], before=0.0, ratings=[]) for name in ways}
    for _ in range(ROUNDS):
        for name, way in found.items():
            way.asked, asks = 0, plainly(engine, way) if name == "plain" else own

            def counting(asked, token_ids, way=way, asks=asks):
                way.asked += len(asked)
                return asks(asked, token_ids)

            engine.probabilities = counting
            engine.forget()
            start = time.thread_time()
            way.ratings = [rated.intensity for rated in ways[name].elicit(engine, prompts)]
            way.seconds.append(time.thread_time() - start)
    engine.probabilities = own
    return found


def report(kind, found, n, tokens):
    """Print rates, ratios, and by arithmetic how long the study's design takes."""
    print(f"{kind}: {n} prompts of {tokens:.0f} tokens")
    plain = found["plain"]
    for name, way in found.items():
        seconds = statistics.median(way.seconds)
        per_request = [1e3 * each / way.asked for each in way.seconds]
        shift = max(abs(a - b) for a, b in zip(way.ratings, plain.ratings, strict=True))
        ratio = statistics.median(a / b for a, b in zip(way.seconds, plain.seconds, strict=True))
        print(
            f"{name:10} {way.asked / n:6.1f} requests a prompt, {way.asked / seconds:6.0f} requests/s "
            f"({min(per_request):.2f} to {max(per_request):.2f} ms a request), {n / seconds:6.1f} prompts/s; "
            f"{ratio:.2f} of plain's time; ratings differ from plain's by at most {shift:.1g}"
        )
        hours = [f"{gpus}: {DESIGN * seconds / n / gpus / 3600:,.1f} h" for gpus in GPUS]
        print(f"{'':10} {DESIGN:,} prompts, by processes that each have a GPU and a core: {', '.join(hours)}")
    print(f"plain spends {plain.before / sum(plain.seconds):.0%} of its time before the device begins")


def main():
    from throughput import default_points, hardware, prompts_of

    n = 48
    for argument in sys.argv[1:]:
        if not argument.startswith("n=") or not argument[2:].isdigit():
            raise SystemExit(f"host_time: {argument!r} is not n=NUMBER")
        n = int(argument[2:])
    print(hardware(), flush=True)
    from audit.asking.elicitation.ends import SAMPLE

    prompts, scale = prompts_of(n + SAMPLE)
    for kind in GOES_ON:
        with tempfile.TemporaryDirectory() as made:
            write_tokenizer(Path(made), kind)
            engine = opened_without_device(Path(made), kind, scale, prompts[0])
            lengths = [len(ids) for ids in engine.tokenizer.encode_prompts(prompts)]
            report(kind, rates(engine, prompts, scale, float(default_points())), n, statistics.fmean(lengths))


if __name__ == "__main__":
    main()
