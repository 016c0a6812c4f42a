"""Which number format a model is computed in, and what a run says of it."""

import json
from pathlib import Path

import pytest
from runs import FOUR_RELIGIONS

from audit.engines import formats
from audit.engines.formats import choose_format, native_bfloat16


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a model's configuration and returns its folder."""

    def write(**config):
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return write


@pytest.fixture
def machine(monkeypatch):
    """Return a function that makes this CPU one that multiplies bfloat16 natively, or not."""

    def make(*, native):
        monkeypatch.setattr(formats, "native_bfloat16", lambda: native)
        monkeypatch.setattr(formats, "cpu_capability", lambda: "AVX512" if native else "AVX2")

    return make


@pytest.mark.parametrize(
    "config", [{"dtype": "bfloat16"}, {"torch_dtype": "bfloat16"}, {"text_config": {"dtype": "bfloat16"}}]
)
def test_the_files_bfloat16_is_taken_on_a_cpu_only_where_it_is_native(config, files, machine):
    machine(native=True)
    assert choose_format("auto", device="cpu", folder=files(**config)).dtype == "bfloat16"
    machine(native=False)
    chosen = choose_format("auto", device="cpu", folder=files(**config))
    assert chosen.dtype == "float32"
    assert "bfloat16, the files' own, is not faster on this CPU (AVX2)" in chosen.why


@pytest.mark.parametrize("config", [{"dtype": "float16"}, {"dtype": "float32"}, {}])
def test_anything_else_is_float32_on_a_cpu(config, files, machine):
    machine(native=True)
    assert choose_format("auto", device="cpu", folder=files(**config)).dtype == "float32"


def test_what_is_asked_for_is_taken_and_said_to_be_slow_where_it_is_emulated(files, machine):
    machine(native=False)
    folder = files(dtype="float32")
    assert choose_format("float32", device="cpu", folder=folder).dtype == "float32"
    for asked in ("bfloat16", "float16"):
        chosen = choose_format(asked, device="cpu", folder=folder)
        assert chosen == (asked, "asked for, and slow: AVX2 emulates it")
    machine(native=True)
    assert choose_format("bfloat16", device="cpu", folder=folder).why == "asked for"


def test_on_a_gpu_the_engine_takes_the_files_own(files, machine):
    machine(native=False)
    assert choose_format("auto", device="cuda", folder=files(dtype="bfloat16")) == ("auto", "the files' own, on cuda")


@pytest.mark.model
def test_a_cpu_that_is_told_to_do_without_avx512_does_not_take_bfloat16(monkeypatch):
    # As ATEN_CPU_CAPABILITY=avx2 tells torch, whatever the CPU has.
    monkeypatch.setattr(formats, "cpu_capability", lambda: "AVX2")
    native_bfloat16.cache_clear()
    assert native_bfloat16() is False
    native_bfloat16.cache_clear()


@pytest.mark.model
def test_native_bfloat16_that_is_slower_is_not_taken(monkeypatch):
    import torch

    monkeypatch.setattr(formats, "cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    for seconds, native in (
        ({torch.bfloat16: 2.0, torch.float32: 1.0}, False),
        ({torch.bfloat16: 1.0, torch.float32: 2.0}, True),
    ):
        monkeypatch.setattr(formats, "_seconds", lambda _, dtype, seconds=seconds: seconds[dtype])
        native_bfloat16.cache_clear()
        assert native_bfloat16() is native
    native_bfloat16.cache_clear()


def test_a_run_says_engine_format_and_why(tiny_model, audit, capsys):
    arguments = [
        "engine=transformers",
        *FOUR_RELIGIONS,
        "stimuli.emotions=sad",
        "stimuli.situations_per_emotion=1",
    ]
    assert audit("run", f"model.path={tiny_model}", *arguments, "elicitation=expected", "run_dir=run") == 0
    said = capsys.readouterr().err
    assert "why: transformers: asked for; float32: the files' own" in said
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["engine_why"] == "transformers: asked for; float32: the files' own"
