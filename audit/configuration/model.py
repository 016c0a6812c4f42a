"""The options ``model.NAME``: which model it is, and how it is loaded."""

from __future__ import annotations

import re
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from audit.configuration.groups import GroupWithNewOptions, ModelName
from audit.configuration.planted import PlantedConfig
from audit.errors import ConfigError

ThinksIn: TypeAlias = (
    Literal[
        "auto",
        "think",
        "seed",
        "kimi",
        "gpt-oss",
        "gemma",
        "cohere",
        "apertus",
        "mistral",
        "apriel",
        "granite",
        "solar",
        "hunyuan",
        "minimax",
        "plamo",
        "k2",
        "kimi-k3",
        "openthinker",
        "thought",
        "thinking",
    ]
    | tuple[str, str]
)
"""How a model marks its thoughts: a dialect of :mod:`audit.engines.dialects`, or the opening and closing mark."""
DATE: Final = "2024-07-26"
"""The date that chat templates are given (YYYY-MM-DD): the one that Llama's templates use by default."""


class ModelAtServer(GroupWithNewOptions):
    """A model that may run on a server: its address and the environment variable that holds its key."""

    _of_servers: ClassVar[tuple[str, ...]] = ("base_url", "api_key_env")
    base_url: str | None = None
    api_key_env: str | None = None

    @field_validator("base_url")
    @classmethod
    def _names_a_server_alone(cls, url: str | None) -> str | None:
        if url is None:
            return None
        # The message does not repeat the URL: it may contain a secret.
        try:
            parts = urlsplit(url)
            told = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            told = False
        if not told or re.search(r"\s", url):
            raise ConfigError("base_url: is not a server's address; write one such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                "base_url: has more than an address (a user, a password, or text after ? or #), and manifests "
                "would record it; leave that out, and put the key in an environment variable: api_key_env=NAME"
            )
        if too_much := re.search(r"/(chat/completions|completions|responses|models)/*$", parts.path):
            raise ConfigError(
                f"base_url: ends in {too_much[0]}, which requests add themselves; leave that out: most addresses end "
                "in /v1"
            )
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ConfigError(
                "api_key_env: is not the name of an environment variable (capital letters, digits and _); export "
                "the key, and give the variable's name: api_key_env=OPENAI_API_KEY"
            )
        return name


class ModelConfig(ModelAtServer):
    """A model card: which model it is and how to load it."""

    _of_servers = (*ModelAtServer._of_servers, "chat_template", "date", "thinks_in", "planted")

    base_url: str | None = Field(
        default=None,
        description="engine=openai: the server's address, such as http://localhost:8000/v1; model.path is then the "
        "model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="engine=openai: the environment variable with the server's key; null = no key",
    )
    name: ModelName = Field(
        description="your own name for the model, shown first in reports; a packaged card's name is not shown"
    )
    path: str = Field(
        min_length=1,
        description="the model: a hub id, a local folder, a GGUF file, embedded:smollm2, or its name at a server: "
        "docs/models.md",
    )
    revision: str | None = Field(description="a commit, branch or tag of the hub; null = the newest")
    tokenizer: str | None = Field(description="another hub id or folder for the tokenizer; null = the model's own")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        description="the number format that the model runs in; auto = the files' own on a GPU; on a CPU float32, "
        "unless bfloat16 is native and no slower"
    )
    quantization: str | None = Field(description="vllm: awq, gptq, fp8, ...; null = as in the model's files")
    max_model_len: int = Field(ge=16, description="maximum tokens of prompt and answer together")
    trust_remote_code: bool = Field(description="true = run code from the model's repository on this machine")
    elicitation: Literal["auto", "generate", "expected"] = Field(
        description="the meaning of elicitation=auto for this model; auto = chosen by trials (docs/statistics.md)"
    )
    chat_template: str | None = Field(
        default=None,
        min_length=1,
        description="null = the model's own; plain = plain text, for a base model; or a Jinja file",
    )
    date: str = Field(
        default=DATE,
        description="the date for chat templates that print today's date, so that prompts do not change from day to "
        "day",
    )
    thinks_in: ThinksIn = Field(
        default="auto",
        description="the marks that separate its thoughts from its answers: think, gpt-oss, gemma and others "
        "(docs/thinking.md); auto = found in its template or vocabulary",
    )
    planted: PlantedConfig | None = Field(
        default=None, description="what a scripted respondent's answers hold; null unless model=planted"
    )

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_day(cls, date: object) -> object:
        try:
            told = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(date))) and datetime.fromisoformat(str(date)) is not None
        except ValueError:
            told = False
        if not told:
            raise ConfigError(f"model.date={str(date)[:60]}: is not a date; write it as {DATE}")
        return str(date)
