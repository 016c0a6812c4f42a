"""How large a model is: headers written by hand are the oracle."""

from __future__ import annotations

import json

import pytest

from audit.engines.size import model_size


def write(path, **tensors):
    """Write a file of safetensors of these types and shapes, without anything behind the header; return its size."""
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, (dtype, shape) in tensors.items()
    }
    content = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    return path.stat().st_size


def test_numbers_of_all_files_are_added_up(tmp_path):
    one = write(tmp_path / "model-1.safetensors", a=("F32", [3, 4]), b=("BF16", [5]))
    other = write(tmp_path / "model-2.safetensors", c=("F16", [2, 2, 2]), scalar=("F64", []))
    # 3·4 + 5 + 2·2·2 + 1
    assert model_size(tmp_path) == {"parameters": 26, "weights_bytes": one + other}


def test_packed_weights_have_a_size_and_no_number(tmp_path):
    size = write(tmp_path / "model.safetensors", a=("F32", [3]), packed=("I32", [100]))
    assert model_size(tmp_path) == {"weights_bytes": size}


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 9, (5).to_bytes(8, "little") + b"[1,2]", b"\x09" + b"\0" * 7 + b'{"a": 1}']
)
def test_what_is_no_safetensors_tells_nothing(tmp_path, content):
    write(tmp_path / "a.safetensors", a=("F32", [3]))
    (tmp_path / "model.safetensors").write_bytes(content)
    assert model_size(tmp_path) == {}


def test_a_folder_without_safetensors_tells_nothing(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert model_size(tmp_path) == {}
