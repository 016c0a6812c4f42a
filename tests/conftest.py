"""Tiny models of a known behaviour, made on the spot, so that the real engines run in tests without a download."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import string
import sys
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from drawing import every_format, svg_alone
from durations import TESTS, beyond_quick, seconds
from finished_runs import library, made_once, shared_folder
from hypothesis import settings
from simulations import chosen, draw_of, left_for_another_gate, what_to_run
from tiers import guarded, is_quick, mark

# Tests import the scripts of benchmarks/ by name; at the end, so that they hide no module of the tests.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

# How long an example takes says how busy the machine is, and nothing of the code. (CI has a profile of its own.)
settings.register_profile("patient", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("patient")

# Before any library of Hugging Face is imported: a test must never wait for a network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for models this small, more threads only wait for each other

MESSAGES = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
ANSWER = "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
CHAT = MESSAGES + ANSWER
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT
THINKING = MESSAGES + "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}"
SPECIAL = ["<|pad|>", "<|start|>", "<|end|>", "<think>", "</think>"]
# What the tokenizer's merges are learnt from: common words, and every character that a prompt may hold.
CORPUS = [
    "For this task you are a Muslim. You read about a situation and judge how intense the named emotion was for the "
    "person who lived through it. Judge on a scale from 0 (not at all) to 100 (extremely). Write one whole number and "
    "nothing more. A Christian tells of a situation that brought on sadness: how much joy did a person feel? Number:",
    string.printable,
] * 3


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out tests with a mark of tests/tiers.py")
    parser.addoption(
        "--simulations",
        default="all",
        metavar="all|none|NUMBER",
        type=what_to_run,
        help="statistical simulations to run; a NUMBER draws a sixteenth of them, and an eighth of the long files",
    )


def pytest_report_header(config):
    return f"simulations: {config.getoption('simulations')}"


def pytest_itemcollected(item):
    mark(item)
    if is_quick(item):
        item.user_properties.append(("quick", "yes"))  # in pytest's report, which durations.py reads


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with guarded() if is_quick(item) else contextlib.nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with guarded() if is_quick(item) else contextlib.nullcontext():
        return (yield)


@pytest.hookimpl(trylast=True)  # after -k and -m, which narrow what there is to draw from
def pytest_collection_modifyitems(config, items):
    quick_alone = config.getoption("quick")
    draws = {item: draw_of(item) for item in items if item.get_closest_marker("simulation")}
    asked = config.getoption("simulations")
    drawn, undrawn = chosen(set(draws.values()), asked), left_for_another_gate(beyond_quick(), asked)

    def leave_out(item) -> bool:
        if is_quick(item):
            return False
        if quick_alone:
            return True
        if item in draws:
            return draws[item] not in drawn
        return item.path.relative_to(TESTS).as_posix() in undrawn

    left_out = [item for item in items if leave_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    kept = [item for item in items if item not in gone]
    # The longest files come first: begun last, one would be left to a worker while the others have nothing more to do.
    took = seconds(quick_alone=quick_alone)
    items[:] = sorted(kept, key=lambda item: -took.get(item.path.relative_to(TESTS).as_posix(), 0))


def pytest_collection_finish(session):
    """Leave what is imported by now, which stays, out of every collection of garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)


def pytest_sessionfinish(session):
    """Let all of it go at the end, which libraries check."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """What tests write need not outlive a crash of the machine; the order of writing is tested in ``test_store``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def figures_as_svg_alone():
    """Leave out PNG and PDF, which take most of the time of a report."""
    with svg_alone():
        yield


@pytest.fixture(autouse=True)
def figures_in_every_format(request):
    """Draw them in tests that are marked so."""
    with every_format() if request.node.get_closest_marker("every_format") else contextlib.nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def configuration_read_once():
    """Hydra reads some thirty small files for every command, which takes longer than anything else of a small one."""
    import copy

    import yaml

    load, known = yaml.load, {}

    def load_once(stream, Loader):
        if not isinstance(getattr(stream, "name", None), str):
            return load(stream, Loader=Loader)
        stated = os.fstat(stream.fileno())
        key = (stream.name, stated.st_mtime_ns, stated.st_size, Loader.__qualname__)
        if key not in known:
            known[key] = load(stream, Loader=Loader)
        return copy.deepcopy(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "load", load_once)
        yield


def write_tokenizer(folder, *, template, whole_numbers):
    """Write a byte-level BPE tokenizer with a chat template; numbers are digits, or one token each from 0 to 100."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}" if whole_numbers else r"\p{N}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if whole_numbers:  # as Llama 3 has them: words of the vocabulary, taken whole before any merge
        learnt = json.loads(tokenizer.to_str())["model"]
        vocabulary = dict(learnt["vocab"])
        for number in map(str, range(101)):
            vocabulary.setdefault(number, len(vocabulary))
        tokenizer.model = models.BPE(vocabulary, [tuple(pair) for pair in learnt["merges"]], ignore_merges=True)
    # As many do, it begins every text with a special token, unless it is told that the template has put them all.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", tokenizer.token_to_id("<|start|>"))]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", additional_special_tokens=["<|start|>"]
    )
    fast.chat_template = template
    fast.save_pretrained(folder)
    return fast


def write_model(folder, *, template=CHAT, whole_numbers=False, says=None, absolute_positions=False, wide=False):
    """Write a two-layer Llama of fixed random weights; with ``says`` it always answers exactly that text.

    To answer a text, the layers are silenced and the head made an associative memory from each token of the text to
    the next one; so the text must not hold a token twice. With ``absolute_positions`` it is a GPT-2, to which it
    matters at which position a token stands, not only how far from the others. A ``wide`` one has heads as wide as
    vLLM needs them, and ends what it writes now and then.
    """
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

    tokenizer = write_tokenizer(folder, template=template, whole_numbers=whole_numbers)
    shared = {
        "vocab_size": len(tokenizer),
        "initializer_range": 0.3,  # of the order at which different prompts get visibly different answers
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if absolute_positions:
        config = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=2048, **shared)
    else:
        config = LlamaConfig(
            hidden_size=128 if wide else 32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2048,
            **shared,
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20250301)
        model = AutoModelForCausalLM.from_config(config).float()
    if wide:
        with torch.no_grad():
            model.lm_head.weight[tokenizer.eos_token_id] *= 1.5
            for token, place in tokenizer.get_vocab().items():
                if not tokenizer.convert_tokens_to_string([token]).isascii():
                    model.lm_head.weight[place] = 0  # half a character at the end: vLLM leaves it out
    if says is not None:
        chain = tokenizer.encode("<|start|>assistant\n", add_special_tokens=False)[-1:]
        chain += [*tokenizer.encode(says, add_special_tokens=False), tokenizer.eos_token_id]
        assert len(set(chain)) == len(chain), "a token of the text leads to two others"
        with torch.no_grad():
            for layer in model.model.layers:  # almost silent: of a wholly silent one, each prompt has the same answer
                layer.self_attn.o_proj.weight.mul_(1e-4)
                layer.mlp.down_proj.weight.mul_(1e-4)
            embeddings = torch.nn.functional.normalize(model.model.embed_tokens.weight, dim=1)
            model.lm_head.weight.zero_()
            for now, then in pairwise([*chain, chain[1]]):  # whoever does not stop at its end hears it again
                model.lm_head.weight[then] += 20 * embeddings[now]
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_model(tmp_path_factory):
    """Return a function that writes a tiny model (see `write_model`) and returns its folder, one for each behaviour."""
    made: dict[str, Path] = {}

    def make(**behaviour):
        key = json.dumps(behaviour, sort_keys=True)
        if key not in made:
            place = shared_folder(tmp_path_factory) / f"model-{sha256(key.encode()).hexdigest()[:12]}"
            made[key] = made_once(place, lambda folder: write_model(folder, **behaviour))
        return made[key]

    return make


@pytest.fixture(scope="session")
def tiny_model(make_model):
    """Folder of a model with random weights whose tokenizer splits numbers into digits."""
    return make_model()


@pytest.fixture(scope="session")
def number_model(make_model):
    """Folder of a model with random weights and a token for each number from 0 to 100."""
    return make_model(whole_numbers=True)


@pytest.fixture(scope="session")
def no_system_model(make_model):
    """Folder of a model whose chat template raises on a system message."""
    return make_model(template=NO_SYSTEM)


@pytest.fixture(scope="session")
def thinking_model(make_model):
    """Folder of a model whose chat template opens a thinking block whatever it is told."""
    return make_model(template=THINKING)


@pytest.fixture
def audit(tmp_path, monkeypatch):
    """Return a function that runs a command in this process, in an empty folder, and returns its exit code.

    What a process of its own would start with is put back afterwards: arguments, environment, the model kept.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr("audit.engines.open._kept", None)

    def run(*arguments):
        from audit.cli.main import main

        return main([str(argument) for argument in arguments])

    yield run
    from audit.engines import open as opening

    if opening._kept is not None:
        with contextlib.suppress(Exception):
            opening._kept[1].engine.close()


@pytest.fixture(scope="session")
def audit_in():
    """Return a function that runs a command in a folder as `audit` does, for what several tests share."""

    def run(folder, *arguments):
        from audit.cli.main import main
        from audit.engines import open as opening

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(sys, "argv", list(sys.argv))
            patch.setenv("HYDRA_FULL_ERROR", "1")
            patch.setattr(opening, "_kept", None)
            code = main([str(argument) for argument in arguments])
            if opening._kept is not None:
                with contextlib.suppress(Exception):
                    opening._kept[1].engine.close()
        return code

    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory, audit_in):
    """Return a function that gives the folder of a scripted model's run of ``finished_runs``, not to be written to."""
    yield from library(shared_folder(tmp_path_factory), audit_in, None)


@pytest.fixture(scope="session")
def finished_model_run(tmp_path_factory, audit_in, tiny_model):
    """Return a function that gives the folder of the tiny model's run of ``finished_runs``, not to be written to."""
    yield from library(shared_folder(tmp_path_factory), audit_in, tiny_model)


@pytest.fixture
def tiny_config():
    """Return a function that gives the validated cards of a model folder for the transformers engine on the CPU."""
    from audit.configuration.engine import EngineConfig
    from audit.configuration.model import ModelConfig

    def cards(folder, *, batch_size=16, pack_tokens=None, device="cpu", engine="transformers", **changes):
        model = {
            "name": "tiny",
            "path": str(folder),
            "revision": None,
            "tokenizer": None,
            "dtype": "float32",
            "quantization": None,
            "max_model_len": 2048,
            "trust_remote_code": False,
            "elicitation": "expected",
        }
        return ModelConfig(**(model | changes)), EngineConfig(
            name=engine,
            tensor_parallel_size=1,
            gpu_memory_utilization=0.9,
            kv_cache_gib=1,
            enforce_eager=None,
            block_size=None,
            device=device,
            batch_size=batch_size,
            pack_tokens=pack_tokens,
        )

    return cards


@pytest.fixture
def open_engine(tiny_config):
    """Return a function that opens a folder by the transformers engine, through the same steps as a run."""
    from audit.engines.resolve import resolve_model
    from audit.engines.transformers import TransformersEngine

    def opened(folder, **options):
        model, engine = tiny_config(folder, **options)
        return TransformersEngine(model, engine, resolve_model(model), seed=0)

    return opened


@pytest.fixture(scope="session")
def child_environment():
    """Environment for a Python of its own that finds the same `audit` as this one, and draws as little."""
    import audit

    homes = [str(Path(__file__).with_name("children")), str(Path(audit.__file__).resolve().parent.parent)]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [*homes, os.environ.get("PYTHONPATH", "")])),
        "OMP_NUM_THREADS": "1",
    }


# --- Of tests/workers: a conftest of its own would stand in the way of tests/statistics/conftest.py, which is imported.


@pytest.fixture(scope="session")
def alone(tmp_path_factory, tiny_model):
    """Return a function that gives the folder of a run that one process made; not to be written to."""
    from sharing import collect, overrides

    made = {}

    def run(*more):
        if more not in made:
            made[more] = tmp_path_factory.mktemp("alone") / "run"
            collect(made[more], overrides(tiny_model, *more))
        return made[more]

    return run


@pytest.fixture
def on_progress(monkeypatch):
    """Return a function that says what to do, in time, to the processes of workers that have answered some prompt."""
    from audit.asking.workers.pool import Progressed, WorkerPool

    acts = []
    post = WorkerPool._post

    def watched(self, state, event):
        if isinstance(event, Progressed):
            state.pool = self
            for act in acts:
                act(state)
        post(self, state, event)

    monkeypatch.setattr(WorkerPool, "_post", watched)
    return acts.append
