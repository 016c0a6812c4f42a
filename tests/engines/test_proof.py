"""What a loaded model must show before a run: engines that answer without reading end in one line."""

import io
import json
import shutil
from contextlib import redirect_stderr
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from audit.engines.base import EngineFacts, OpenModel
from audit.engines.local import LocalModel
from audit.engines.proof import PROMPTS, prove
from audit.engines.resolve import ModelFiles
from audit.engines.whole import WholeReading
from audit.errors import ModelError

TABLE = np.random.default_rng(7).gumbel(size=(50, 50))
FACTS = EngineFacts("vllm", "0.32.0", "cpu", "float32")


def sums(ids):
    """Probabilities of 50 tokens that depend on all tokens of a sequence."""
    logits = sum(TABLE[token % 50] * (1 + place % 5) for place, token in enumerate(ids)) / 3
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


@dataclass
class Reader:
    """An engine whose probabilities after a sequence are ``law``'s, or ``cached``'s of what it has read before."""

    law: object = sums
    cached: object = None
    facts: EngineFacts = FACTS
    max_model_len: int = 99
    n_forgotten: int = 0

    def __post_init__(self):
        self.read_before = set()
        self.tokenizer = SimpleNamespace(
            encode_prompts=lambda prompts: [[ord(letter) % 50 for letter in prompt.user] for prompt in prompts]
        )

    def forget(self):
        self.read_before.clear()
        self.n_forgotten += 1

    def read(self, prompts):
        return iter([WholeReading(self, prompts, range(len(prompts)))])

    def probabilities(self, asked, token_ids):
        laws = [self.cached if self.cached and self.is_known(ids) else self.law for ids in asked]
        self.read_before |= {tuple(ids) for ids in asked}
        return np.array([law(ids)[list(token_ids)] for law, ids in zip(laws, asked, strict=True)])

    def is_known(self, ids):
        return any(tuple(ids[:n]) in self.read_before for n in range(1, len(ids)))


def proven(reader, tiny_config, source=None):
    return prove(OpenModel(reader, source), tiny_config("x")[0])


def test_an_engine_that_reads_its_prompts_is_taken_and_has_forgotten_them(tiny_config):
    reader = Reader()
    said = io.StringIO()
    with redirect_stderr(said):
        opened = proven(reader, tiny_config)
    checked = opened.checked
    assert said.getvalue() == ""
    with redirect_stderr(said):
        opened.say_checked()
    assert checked == "two unlike prompts get different probabilities; a cached reading equals an uncached one"
    assert said.getvalue() == f"checked: {checked} (differences: 0)\n"
    assert not reader.read_before
    sure = ord("?") % 50  # after which another token is almost certain
    proven(Reader(law=lambda ids: sums(ids) * (1e-9 if ids[-1] == sure else 1)), tiny_config)
    proven(Reader(cached=lambda ids: sums(ids) * 0.999), tiny_config)  # as rounding would
    proven(Reader(facts=EngineFacts("vllm", "1", "H100", "bfloat16"), cached=lambda ids: sums(ids) * 0.9), tiny_config)


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [
        ({"law": lambda ids: np.full(50, 1 / 1417)}, "gives every token the same probability"),
        ({"law": lambda ids: sums([1, 2, 3])}, "gives the same probabilities after two unlike prompts"),
        (
            {"law": lambda ids: sums(ids[-1:]), "cached": lambda ids: sums([5])},
            "the same probabilities after two unlike",
        ),
        ({"cached": lambda ids: sums(ids[-2:])}, "gives other probabilities for a cached prompt"),
        ({"cached": lambda ids: sums(ids) * 0.9}, "gives other probabilities for a cached prompt"),
        ({"law": lambda ids: np.full(50, np.nan)}, "the engine returned invalid probabilities"),
        ({"law": lambda ids: sums(ids) * 3}, "the engine returned invalid probabilities"),
    ],
    ids=[
        "uniform",
        "constant",
        "the last token alone",
        "another cache",
        "a cache a little off",
        "not finite",
        "above 1",
    ],
)
def test_an_engine_that_does_not_is_refused_in_one_line(behaviour, fault, tiny_config):
    last = PROMPTS[0].user[-1]
    if fault == "the same probabilities after two unlike":
        reader = Reader(**behaviour)
        reader.tokenizer.encode_prompts = lambda prompts: [[k, *range(9), ord(last) % 50] for k in range(len(prompts))]
    else:
        reader = Reader(**behaviour)
    with pytest.raises(ModelError, match=fault) as raised:
        proven(reader, tiny_config)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("right", [True, False])
def test_vllm_agrees_with_transformers_on_a_small_model(right, tiny_model, open_engine, tiny_config):
    own = open_engine(tiny_model)
    prompts = own.tokenizer.encode_prompts(PROMPTS)

    def law(ids):
        known = [*ids] if right else [*ids[:-4], *ids[-3:]]
        row = own._whole.probabilities([known], range(len(own.tokenizer.hf)))[0]
        return row

    reader = Reader(law=law)
    reader.tokenizer.encode_prompts = lambda _: prompts
    source = LocalModel(ModelFiles(tiny_model, None), {})
    if right:
        assert proven(reader, tiny_config, source).checked.endswith("; transformers gives the same probabilities")
    else:
        with pytest.raises(ModelError, match="gives other probabilities than transformers, so its answers"):
            proven(reader, tiny_config, source)


def test_a_server_is_asked_about_two_prompts_and_no_more(tiny_config):
    served = EngineFacts("openai", "vllm 0.32.0", "server", "unknown")
    reader = Reader(facts=served, cached=lambda ids: sums(ids[-2:]))
    assert proven(reader, tiny_config).checked == "two unlike prompts get different probabilities"
    assert len(reader.read_before) == 2
    with pytest.raises(ModelError, match=r"gives every token the same probability.*; serve it with another version"):
        proven(Reader(lambda ids: np.full(50, 1 / 1417), facts=served), tiny_config)


def test_an_engine_that_writes_alone_proves_nothing(tiny_config):
    writes = SimpleNamespace(facts=EngineFacts("openai", "", "server", "unknown"))
    assert prove(OpenModel(writes, None), tiny_config("x")[0]).checked == ""


def test_a_run_records_what_was_checked(audit, tiny_model, tmp_path, capsys):
    run = tmp_path / "run"
    assert audit(
        "run", f"model.path={tiny_model}", "engine=transformers", "engine.device=cpu", "stimuli.emotions=[sad]",
        "stimuli.situations_per_emotion=1", "dimensions=[religion]", "stimuli.placebo=0", "elicitation=generate",
        "elicitation.max_tokens=2", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=100", f"run_dir={run}",
    ) == 0  # fmt: skip
    checked = json.loads((run / "manifest.json").read_text())["engine_checked"]
    assert f"checked: {checked} (differences: " in capsys.readouterr().err
    assert checked == "two unlike prompts get different probabilities; a cached reading equals an uncached one"


def test_a_run_with_a_model_that_gives_every_token_the_same_probability_ends_in_one_line(
    audit, tiny_model, tmp_path, capsys
):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "silent"
    shutil.copytree(tiny_model, folder)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"].zero_()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for elicitation in ("expected", "generate"):
        assert audit("run", f"model.path={folder}", "engine=transformers", "engine.device=cpu",
                     f"elicitation={elicitation}", f"run_dir={tmp_path / elicitation}") == 2  # fmt: skip
        last = capsys.readouterr().err.splitlines()[-1]
        assert "transformers 5" in last
        assert "gives every token the same probability, so its answers would not be about the prompts; use" in last
