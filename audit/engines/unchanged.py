"""Whether a model is still the one that a run asked, by its files or revision and without loading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from audit.configuration.model import ModelConfig
from audit.configuration.packaged import cache_folder
from audit.engines.gguf import look_into
from audit.engines.resolve import check_model_folder, file_hashes, find_folder, packaged_revision
from audit.errors import ModelError
from stimuli.errors import in_one_line

_PATIENCE_S = 10.0  # seconds that the hub may take to name a model's commit


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A comparison of a model with what a run recorded; both fields are empty if it is the same."""

    changed: str = ""  # how it differs
    unknown: str = ""  # why that could not be determined


def compare_model(model: ModelConfig, *, revision: str, files: Mapping[str, str]) -> ModelChange:
    """Compare a model as it is now with what a run recorded.

    Packaged models and GGUF files are compared by their own bytes, not by what they were unpacked to. A hub model is at
    the commit that the hub names or, if the hub is unavailable, the one in the local cache, which a run would then
    load.
    """
    if model.planted is not None:  # its options are part of the run's settings
        return ModelChange()
    if model.base_url is not None:
        return ModelChange(unknown="a server reports no hash of its weights")
    path = Path(os.path.expanduser(model.path))
    try:
        if path.is_dir():
            check_model_folder(path, name=model.name)
            return _files(file_hashes(path), files)
        if not revision:
            there = "recorded no revision of it" if path.exists() or not files else "asked a folder that is gone"
            return ModelChange(unknown=f"model.path={model.path}: the run {there}")
        if model.path.startswith("embedded:"):
            now = packaged_revision(model.path)[1]
        elif path.is_file():
            now = f"gguf:{look_into(model, cache_folder()).digest}"
        else:
            now = _on_the_hub(model)
    except (ModelError, OSError) as error:
        return ModelChange(unknown=in_one_line(error))
    return ModelChange() if now == revision else ModelChange(changed=f"it was {revision} and is now {now}")


def _files(now: Mapping[str, str], then: Mapping[str, str]) -> ModelChange:
    if not then:
        return ModelChange(unknown="the run recorded no hashes of its files")
    name = next((name for name in sorted({*then, *now}) if now.get(name) != then.get(name)), None)
    if name is None:
        return ModelChange()
    what = "is new" if name not in then else "is gone" if name not in now else "is another file"
    return ModelChange(changed=f"{name} {what}")


def _on_the_hub(model: ModelConfig) -> str:
    """Return the commit of a hub model that a run would load now."""
    try:
        from huggingface_hub import HfApi

        found = HfApi().model_info(model.path, revision=model.revision, timeout=_PATIENCE_S).sha
    except Exception:
        found = None  # network errors, offline mode, no library or no hub id: a run takes what is on this machine
    if found is not None:
        return found
    kept = find_folder(
        model.path,
        asked=f"model.path={model.path}",
        revision=model.revision,
        check=partial(check_model_folder, name=model.name),
        download=False,
    )
    return str(kept.revision)
