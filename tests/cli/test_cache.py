"""What the cache holds: listed with its size, freed by name, and refused while it is used."""

from __future__ import annotations

import json
import os

import pytest
from filelock import FileLock


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "empathy-audit"
    for name, n in (("gguf-a", 2_000_000), ("gguf-b", 5_000_000)):
        (folder / name).mkdir(parents=True)
        (folder / name / "model.safetensors").write_bytes(bytes(n))
        (folder / name / "config.json").write_text(json.dumps({"_model_name_or_path": f"Model {name}\x1b[31m"}))
        (folder / f"{name}.lock").touch()
    (folder / "digests").mkdir()
    return folder


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_there_is_listed_with_its_size(cache, audit, capsys):
    assert audit("cache") == 0
    _, *lines, total = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["digests", "gguf-a", "gguf-b"]
    assert "Model gguf-b" in lines[2]
    assert "5 MB" in lines[2]
    assert "\x1b" not in "".join(lines)  # a file's own name for its model is not trusted
    assert total == f"{cache}: 7 MB"


def test_an_empty_cache_is_no_fault(tmp_path, monkeypatch, audit, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert audit("cache") == audit("cache", "free=all") == 0
    assert not (tmp_path / "none").exists()


def test_one_is_freed_with_its_lock_and_no_other(cache, audit, capsys):
    assert audit("cache", "free=gguf-a") == 0
    assert capsys.readouterr().out == "freed: gguf-a, 2 MB\n"
    assert left(cache) == ["digests", "gguf-b", "gguf-b.lock"]
    assert audit("cache", "free=all") == 0
    assert left(cache) == []


def test_a_wrong_name_is_refused_with_those_that_are_there(cache, audit, capsys):
    assert audit("cache", "free=gguf") == 2
    assert "there are: all, digests, gguf-a, gguf-b" in capsys.readouterr().err
    assert audit("cache", "free=../x") == 2
    assert len(left(cache)) == 5


def test_what_a_process_has_open_is_refused_and_the_rest_is_freed(cache, audit, capsys):
    with open(cache / "gguf-a" / "model.safetensors", "rb"):
        assert audit("cache", "free=all") == 2
    assert f"gguf-a is in use by process {os.getpid()}" in capsys.readouterr().err
    assert left(cache) == ["gguf-a", "gguf-a.lock"]


def test_what_is_being_unpacked_is_refused(cache, audit, capsys):
    (cache / "gguf-a.x1.partial").mkdir()
    with FileLock(cache / "gguf-a.lock"):
        assert audit("cache", "free=gguf-a.x1.partial") == 2
    assert "is being unpacked" in capsys.readouterr().err
    assert (cache / "gguf-a.x1.partial").is_dir()
