"""The options ``engine.NAME``: what runs the model, and how prompts are sent to it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from audit.configuration.groups import GroupWithNewOptions, Name, OptionGroup


class ServerConfig(OptionGroup):
    """How to call a server; none of this changes an answer."""

    concurrency: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="requests at a time, at most; fewer for as long as the server asks for fewer (429)",
    )
    timeout_s: float = Field(default=120, gt=0, description="seconds that an answer may take")
    retries: int = Field(
        default=8, ge=0, description="how often a request is tried again that fails by a fault that may pass"
    )
    backoff_s: float = Field(
        default=0.5,
        ge=0,
        description="seconds before a request is tried again, twice as long before each further time; the server's "
        "own wish comes first",
    )
    max_wait_s: float = Field(
        default=300,
        ge=0,
        description="seconds that a server may ask to wait; where it asks for more, the run stops and can go on later",
    )
    max_requests: int | None = Field(
        default=None,
        ge=1,
        description="budget of a session, in requests; when it is spent, the run stops, and the same command goes "
        "on; null = no limit",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="budget of a session, in tokens read and written, as the server counts them; null = no limit",
    )


HANG_S: Final = 3600.0
"""Default of ``engine.hang_s``, in seconds."""


class RayConfig(OptionGroup):
    """The Ray cluster to run on; if ``address`` is None, one is started on this machine."""

    address: str | None = Field(
        default=None,
        description="null = a cluster of this machine, begun for the run; auto = the one that this machine is part of",
    )
    num_cpus: int = Field(default=1, ge=1, description="cores of each worker")


class EngineConfig(GroupWithNewOptions):
    """Which library runs the model, and how."""

    _of_servers = ("server", "batch", "replicas", "hang_s", "ray")
    name: Name = Field(
        description="which library runs the model; set by engine=, and of engine=ray: auto, vllm or transformers"
    )
    tensor_parallel_size: int = Field(ge=1, description="vllm: GPUs that share the model")
    gpu_memory_utilization: float = Field(
        gt=0, le=1, description="vllm: the share of a GPU's memory that is used, 0 to 1"
    )
    kv_cache_gib: int = Field(ge=1, description="vllm on a CPU: memory for the keys and values, in GiB")
    enforce_eager: bool | None = Field(description="vllm: true = no compilation; null = on a CPU true, on a GPU false")
    block_size: int | None = Field(
        ge=1, description="vllm: tokens of a cache block; null = 32 on a CPU, vLLM's own choice on a GPU"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        description="transformers: where the model runs: cuda, mps or cpu; auto = the best that there is"
    )
    batch_size: int = Field(ge=1, description="transformers: prompts of a forward pass")
    pack_tokens: int | None = Field(
        default=None,
        ge=1,
        description="transformers with elicitation=expected: tokens that are read at once; null = 1536 on a CPU, "
        "8192 elsewhere",
    )
    add_special_tokens: bool = Field(
        default=False,
        description="true = the tokenizer adds its own special tokens to the text that the chat template made, as "
        "vLLM does to a prompt that it is handed as a string: a model whose template writes the token "
        "that begins a text (BOS) then reads it twice. It is how the published study asked; every engine"
        " does the same, and the run says what was added.",
    )
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default=1,
        description="How many processes of this machine share the run, each with the model and with GPUs of its own "
        "(tensor_parallel_size of them); auto = as many as there are GPUs for, on a CPU one; with "
        "engine=ray as many as the cluster has room for: docs/scale.md",
    )
    hang_s: float | None = Field(
        default=HANG_S,
        gt=0,
        allow_inf_nan=False,
        description="with several processes: seconds within which one must answer a prompt, or it is stopped; null ="
        " never",
    )
    ray: RayConfig | None = Field(
        default=None, description="the Ray cluster that shares the run; null unless engine=ray"
    )
    server: ServerConfig | None = Field(default=None, description="how the server is asked; null unless engine=openai")
    batch: bool | None = Field(
        default=None,
        description="openai: true = by the batch interface (/v1/batches), often cheaper, answered within a day: "
        "docs/endpoints.md",
    )

    @field_validator("batch")
    @classmethod
    def _of_a_server(cls, batch: bool | None, info: ValidationInfo) -> bool | None:
        if batch and info.data.get("name") != "openai":
            raise ValueError("batches are a server's: they need engine=openai, or a card that sets it")
        return batch or None
