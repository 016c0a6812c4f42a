"""How vLLM is loaded, with stand-ins for its library and for CUDA: the order of things, and what a folder needs."""

import json
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from audit.engines import ENVIRONMENT
from audit.engines.open import open_model
from audit.engines.resolve import resolve_model
from audit.engines.vllm import VllmEngine
from audit.errors import ModelError

HEAD = "A head_dtype different from the model dtype is only supported for an unquantized lm_head."


class Library(ModuleType):
    """Stands for vLLM: notes how it was asked to load a model, and fails as it is told to."""

    def __init__(self, tokenizer, *, faults=(), version=(0, 32, 0), resets=(True,), tokens=4096):
        super().__init__("vllm")
        self.__version__, self.__version_tuple__ = ".".join(map(str, version)), version
        self.tokenizer, self.faults, self.tokens = tokenizer, list(faults), tokens
        self.resets, self.reset_by = list(resets), []
        self.loads = []

    def SamplingParams(self, **settings):
        return settings

    def LLM(self, **options):
        self.loads.append(options)
        if self.faults:
            raise self.faults.pop(0)
        cache = SimpleNamespace(kv_cache_size_tokens=self.tokens, block_size=16)
        return SimpleNamespace(
            get_tokenizer=lambda: self.tokenizer,
            generate=lambda prompts, sampling, use_tqdm: [],
            reset_prefix_cache=self.reset,
            llm_engine=SimpleNamespace(
                vllm_config=SimpleNamespace(cache_config=cache), model_config=SimpleNamespace(dtype="torch.bfloat16")
            ),
        )

    def reset(self, reset_running_requests=False):
        self.reset_by.append(reset_running_requests)
        return self.resets.pop(0)


@pytest.fixture
def loaded(tiny_model, tiny_config, monkeypatch):
    """Return a function that loads a model with a library like that, and the library."""
    from transformers import AutoTokenizer

    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: False, get_device_name=lambda: "a card")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

    def load(folder=tiny_model, *, n_gpus=1, device="auto", **behaviour):
        library = Library(AutoTokenizer.from_pretrained(tiny_model), **behaviour)
        monkeypatch.setitem(sys.modules, "vllm", library)
        monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
        model, engine = tiny_config(folder, device=device)
        engine = engine.model_copy(update={"tensor_parallel_size": n_gpus})
        return VllmEngine(model, engine, resolve_model(model), 0), library

    return load


def quantised(folder, tmp_path):
    """Return a copy of a model's folder that says that it is quantised."""
    copy = tmp_path / "quantised"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))
    return copy


def test_logits_are_float32_except_where_the_output_layer_is_quantised(loaded, tiny_model, tmp_path):
    engine, library = loaded()
    assert [each["hf_overrides"] for each in library.loads] == [{"head_dtype": "float32"}]
    assert engine.notes == ()
    engine, library = loaded(faults=[ValueError(HEAD)])
    assert [each["hf_overrides"] for each in library.loads] == [{"head_dtype": "float32"}, {}]
    assert engine.notes == ("logits in the model's number format, because its output layer is quantised",)
    with pytest.raises(ModelError, match=r"^vLLM cannot load model .*: out of memory; engine=transformers works"):
        loaded(faults=[ValueError("out of memory")])
    with pytest.raises(ModelError, match="out of memory"):
        loaded(faults=[ValueError(HEAD), ValueError("out of memory")])
    # The processes of several GPUs tell their cause to their logs alone.
    cause = RuntimeError("Engine core initialization failed. See root cause above.")
    engine, library = loaded(quantised(tiny_model, tmp_path), n_gpus=2, faults=[cause])
    assert [each["hf_overrides"] for each in library.loads] == [{"head_dtype": "float32"}, {}]
    with pytest.raises(ModelError, match="Engine core"):
        loaded(n_gpus=2, faults=[cause])


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_another_device_than_vllm_s_own_is_refused(device, loaded):
    with pytest.raises(ModelError, match=rf"^engine\.device={device}: this vLLM runs on cuda alone; leave"):
        loaded(device=device)
    assert loaded(device="cuda")[0].notes == ()


def test_of_weights_in_two_forms_those_of_transformers_are_read(loaded, tiny_model, tmp_path):
    own = {"tokenizer_mode": "hf", "config_format": "hf", "load_format": "safetensors"}
    _, library = loaded()
    assert not own.keys() & library.loads[0].keys()
    assert library.loads[0]["language_model_only"]
    folder = quantised(tiny_model, tmp_path)
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    _, library = loaded(folder)
    assert own.items() <= library.loads[0].items()
    (folder / "model.safetensors").unlink()  # nothing to prefer
    _, library = loaded(folder)
    assert not own.keys() & library.loads[0].keys()


def test_a_group_takes_a_quarter_of_the_cache_that_vllm_states(loaded):
    # Of a hybrid model the cache holds other numbers of tokens than its blocks times their size.
    engine, _ = loaded(tokens=400)
    prompts = [[1] * 40, [2] * 40, [3] * 40, [4] * 40]
    assert [len(reading.places) for reading in engine.read(prompts)] == [2, 2]
    engine, _ = loaded(tokens=None)
    assert [len(reading.places) for reading in engine.read(prompts)] == [4]


def test_what_prompts_of_a_group_share_is_counted_once_and_in_whole_blocks(loaded):
    # A quarter of 800 tokens is 200. A prompt of 50 takes 4 blocks of 16, 64 tokens; a further one that shares 40
    # tokens with it shares 2 of the blocks and takes 32 more: 64 + 4 * 32 = 192.
    engine, _ = loaded(tokens=800)
    alike = [[*[1] * 40, *[2 + k] * 10] for k in range(7)]
    assert [len(reading.places) for reading in engine.read(alike)] == [5, 2]
    # With 63 shared tokens, 48 are in whole blocks: 80 + 7 * 32 = 304 would fit into a quarter of 1,216, not of 1,215.
    longer = [[*[1] * 63, *[2 + k] * 10] for k in range(8)]
    assert [len(reading.places) for reading in loaded(tokens=1216)[0].read(longer)] == [8]
    assert [len(reading.places) for reading in loaded(tokens=1215)[0].read(longer)] == [7, 1]
    # The next group begins with all of its first prompt.
    assert [len(reading.places) for reading in loaded(tokens=256)[0].read(alike)] == [1] * 7


def test_a_newer_version_than_the_tested_one_is_said(loaded):
    assert loaded(version=(0, 32, 7))[0].notes == ()
    assert loaded(version=(0, 33, 0))[0].notes == ("vLLM 0.33.0 is newer than 0.32, the tested one",)
    assert "1.0.0 is newer" in loaded(version=(1, 0, 0))[0].notes[0]


def test_a_cache_that_is_not_emptied_ends_the_run(loaded):
    engine, library = loaded(resets=[True])
    engine.forget()
    assert library.reset_by == [False]
    engine, library = loaded(resets=[False, True])
    engine.forget()
    assert library.reset_by == [False, True]
    engine, _ = loaded(resets=[False, False])
    with pytest.raises(ModelError, match="vLLM does not empty its cache"):
        engine.forget()


def test_a_temperature_that_vllm_refuses_is_one_line(loaded):
    engine, _ = loaded()
    with pytest.raises(ModelError, match=r"^temperature=2\.5: vLLM samples at 2 at most; use engine=transformers"):
        engine.generate([[1, 2]], max_tokens=4, temperature=2.5, seeds=[1])


def test_before_vllm_is_imported_a_gpu_is_counted_and_cuda_is_not_begun(tiny_model, tiny_config, monkeypatch):
    import torch

    def begun(*_):
        raise AssertionError("CUDA was begun before vLLM was imported")

    for name in ("is_available", "init", "get_device_properties", "get_device_name", "current_device"):
        monkeypatch.setattr(torch.cuda, name, begun)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", begun, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("audit.engines.open._kept", None)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    found = {}

    class Import(ModuleType):
        """Fails when it is first used, and notes what was set by then."""

        def __getattr__(self, name):
            if name == "__path__":
                return []
            found.update(os.environ)
            raise ImportError("seen enough")

    monkeypatch.setitem(sys.modules, "vllm", Import("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.platforms", Import("vllm.platforms"))
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: object())
    model, engine = tiny_config(tiny_model, engine="auto", device="auto", dtype="auto")
    with pytest.raises(ImportError, match="seen enough"):
        open_model(model, engine, seed=0)
    assert found["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert ENVIRONMENT.keys() <= found.keys()


WHEN_IMPORTED = """
import json, os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "vllm", "transformers"):
            print(json.dumps(dict(os.environ)), flush=True)
            os._exit(0)

sys.meta_path.insert(0, Watch())
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "then",
    [
        "from audit.engines.hardware import has_gpu; has_gpu()",
        "from audit.cli.main import main; main(['doctor', 'probe=0'])",
        "import audit.asking.workers.devices as devices; devices.visible_gpus()",
    ],
)
def test_the_environment_is_set_before_torch_is_imported(then, child_environment, tmp_path):
    bare = {name: value for name, value in child_environment.items() if name not in ENVIRONMENT}
    own = {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}  # a user has a reason for it
    done = subprocess.run(
        [sys.executable, "-c", WHEN_IMPORTED + then],
        env=bare | own, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert (ENVIRONMENT | own).items() <= found.items()
