"""The engine of OpenAI-compatible servers: finds out how a server can be asked.

Any is asked by conversations (:mod:`audit.engines.chat_completions`). One that shows its tokenizer and the probability
of any token is asked by tokens (:mod:`audit.engines.served_tokens`): vLLM's and llama.cpp's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from audit.configuration.engine import EngineConfig, ServerConfig
from audit.configuration.model import DATE, ModelConfig
from audit.engines.base import OpenModel
from audit.engines.chat_completions import ChatEngine
from audit.engines.served_tokens import RemoteTokenizer, token_engine
from audit.engines.server import Json, Key, Server
from audit.errors import ModelError
from stimuli.errors import suggest
from stimuli.hashes import fingerprint


@dataclass
class ServedModel:
    """A model at a server; a :class:`audit.engines.base.ModelSource`."""

    base_url: str  # without credentials
    stated: str  # the server's own name for the model, often with a version date
    root: str  # what the server says the model was made from; empty if it does not say
    fingerprints: list[str]  # the distinct states that the server reported, oldest first
    refused: list[str] = field(default_factory=list)  # settings that it does not take
    tokenizer: RemoteTokenizer | None = None  # None unless the server shows how its chat template renders messages
    revision = None  # a server does not identify its weights

    def facts(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        chat = self.tokenizer.chat if self.tokenizer is not None else {}
        refused = {"settings_refused": self.refused} if self.refused else {}
        return {"files": {}, "server": self._server | refused, **({"chat": chat} if chat else {})}

    @property
    def _server(self) -> dict[str, str]:
        made_of = {"root": self.root} if self.root else {}
        return {"base_url": self.base_url, "id": self.stated, **made_of}

    def states(self) -> list[str]:
        """See :class:`audit.engines.base.ModelSource`; also names the date if prompts show the server's own."""
        today = self.tokenizer.today() if self.tokenizer is not None else None
        return [*self.fingerprints, *([f"prompts show {today}"] if today else [])]

    def identity(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        chat = self.tokenizer.chat_identity if self.tokenizer is not None else {}
        server = self._server
        return {"server": server, "model_files": fingerprint(server), **({"chat": chat} if chat else {})}


def open_model(model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
    """Connect to a server's model; see :class:`audit.engines.open.Opens`."""
    base_url, key = check_asked(model, config)
    server = Server(base_url, key, config.server or ServerConfig())
    try:
        return _opened(server, model, seed=seed, why=why, batch=bool(config.batch))
    except BaseException:
        server.close()
        raise


def check_asked(model: ModelConfig, config: EngineConfig) -> tuple[str, Key]:
    """Return the server's address and key without contacting it; refuse settings that are the server's."""
    if model.base_url is None:
        raise ModelError(
            "engine=openai needs the server's address, model.base_url=http://HOST:PORT/v1, and the model's name "
            "there, model.path=NAME; model=openai, model=ollama, model=llama-cpp and model=vllm-serve are model "
            "cards to start from"
        )
    _refuse_what_is_of_files(model, config)
    return model.base_url, Key.of(model.api_key_env)


def _opened(server: Server, model: ModelConfig, *, seed: int, why: str, batch: bool) -> OpenModel:
    """Identify the server and return its model with the matching engine."""
    listed = _listed(server, model.path)
    chat = ChatEngine(server, model, seed=seed)
    chat.probe()
    engine = token_engine(chat, model, listed)
    root = str(listed.get("root") or "")
    root = "" if root == chat.stated else root
    source = ServedModel(server.base_url, chat.stated, root, chat.fingerprints, chat.refused)
    if engine is None:
        return _by_conversations(chat, model, source, why=why, batch=batch)
    named = engine.facts.version.partition(" ")[0].replace("vllm", "vLLM")
    if batch:
        raise ModelError(f"engine.batch=true: {server.base_url} is {named}, which has no batches; leave it out")
    source = replace(source, tokenizer=engine.tokenizer)
    said = [why, f"the server is {named}, which is asked by tokens", engine.tokenizer.say_chat()]
    if today := engine.tokenizer.today():
        said.append(
            f"its chat template prints today's date ({today}), which model.date cannot fix there: prompts differ "
            "from day to day"
        )
    return OpenModel(engine, source, "; ".join(filter(None, said)))


def _by_conversations(chat: ChatEngine, model: ModelConfig, source: ServedModel, *, why: str, batch: bool) -> OpenModel:
    """Return a server's model that is asked by conversations."""
    if batch:
        chat.by_batch()
    if model.date != DATE:
        raise ModelError(
            f"model.date={model.date}: {source.base_url} is neither vLLM nor llama.cpp, and takes no date for its chat "
            "template; leave it out"
        )
    how = ", asked in batches" if batch else ""
    refused = f"; it refuses {', '.join(chat.refused)}, so its own values are in use" if chat.refused else ""
    if not chat.counts:
        refused += "; it does not report how many tokens it reads, so prompts that it cuts off would not be noticed"
    return OpenModel(chat, source, f"{why}; the server's own number format, and its chat template{how}{refused}")


def _refuse_what_is_of_files(model: ModelConfig, config: EngineConfig) -> None:
    """Raise ModelError for settings that concern model files: those are the server's."""
    asked = {
        "model.revision": model.revision,
        "model.tokenizer": model.tokenizer,
        "model.quantization": model.quantization,
        "model.dtype": None if model.dtype == "auto" else model.dtype,
        "model.trust_remote_code": model.trust_remote_code or None,
        "model.chat_template": model.chat_template,
        "engine.add_special_tokens": config.add_special_tokens or None,
    }
    for name, value in asked.items():
        if value is not None:
            raise ModelError(f"{name}={value}: engine=openai leaves this to the server; leave it out")


def _listed(server: Server, name: str) -> Json:
    """Return the server's list entry for a model, or an empty dict if it has no list."""
    listed = (server.get("/models") or {}).get("data")
    listed = listed if isinstance(listed, list) else []
    models = {str(each["id"]): each for each in listed if isinstance(each, dict) and "id" in each}
    if models and name not in models:
        raise ModelError(f"model.path={name}: {server.base_url} serves no such model; {suggest(name, models)}")
    return models.get(name, {})
