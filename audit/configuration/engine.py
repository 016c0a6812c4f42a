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
        description="maximum requests at a time; lowered while the server asks for fewer (429)",
    )
    timeout_s: float = Field(default=120, gt=0, description="time limit for an answer, in seconds")
    retries: int = Field(default=8, ge=0, description="number of retries after a temporary failure")
    backoff_s: float = Field(
        default=0.5,
        ge=0,
        description="seconds before the first retry, doubled for each further one; the server's own Retry-After comes "
        "first",
    )
    max_wait_s: float = Field(
        default=300,
        ge=0,
        description="longest wait that a server may ask for, in seconds; if it asks for more, the run stops and can be "
        "continued later",
    )
    max_requests: int | None = Field(
        default=None,
        ge=1,
        description="maximum requests per session; then the run stops, and the same command continues it; null = no "
        "limit",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="maximum tokens per session, read and written, as the server counts them; null = no limit",
    )


HANG_S: Final = 3600.0
"""Default of ``engine.hang_s``, in seconds."""


class RayConfig(OptionGroup):
    """The Ray cluster to run on; if ``address`` is None, one is started on this machine."""

    address: str | None = Field(
        default=None,
        description="null = start a cluster on this machine for the run; auto = the cluster that this machine belongs "
        "to",
    )
    num_cpus: int = Field(default=1, ge=1, description="CPU cores per worker")


class EngineConfig(GroupWithNewOptions):
    """Which library runs the model, and how."""

    _of_servers = ("server", "batch", "replicas", "hang_s", "ray")
    name: Name = Field(
        description="the library that runs the model; set by engine=, and for engine=ray: auto, vllm or transformers"
    )
    tensor_parallel_size: int = Field(ge=1, description="vllm: number of GPUs that share the model")
    gpu_memory_utilization: float = Field(gt=0, le=1, description="vllm: the share of GPU memory to use, 0 to 1")
    kv_cache_gib: int = Field(ge=1, description="vllm on a CPU: memory for the keys and values, in GiB")
    enforce_eager: bool | None = Field(description="vllm: true = no compilation; null = on a CPU true, on a GPU false")
    block_size: int | None = Field(
        ge=1, description="vllm: tokens per cache block; null = 32 on a CPU, vLLM's own choice on a GPU"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        description="transformers: where the model runs: cuda, mps or cpu; auto = the best available"
    )
    batch_size: int = Field(ge=1, description="transformers: prompts per forward pass")
    pack_tokens: int | None = Field(
        default=None,
        ge=1,
        description="transformers with elicitation=expected: tokens to read at once; null = 1536 on a CPU, 8192 "
        "elsewhere",
    )
    add_special_tokens: bool = Field(
        default=False,
        description="true = the tokenizer adds its own special tokens to the text that the chat template made, as "
        "vLLM does for prompts given as strings. A model whose template already writes the begin-of-text token (BOS) "
        "then reads it twice. The published study asked this way. All engines do the same, and the run records what "
        "was added.",
    )
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default=1,
        description="Number of processes on this machine that share the run, each with its own copy of the model and "
        "its own GPUs (tensor_parallel_size each); auto = as many as the GPUs allow, 1 on a CPU; with engine=ray, as "
        "many as fit on the cluster: docs/scale.md",
    )
    hang_s: float | None = Field(
        default=HANG_S,
        gt=0,
        allow_inf_nan=False,
        description="with several processes: stop one that answers no prompt for this many seconds; null = never",
    )
    ray: RayConfig | None = Field(
        default=None, description="the Ray cluster that runs the models; null unless engine=ray"
    )
    server: ServerConfig | None = Field(
        default=None, description="how requests are sent to the server; null unless engine=openai"
    )
    batch: bool | None = Field(
        default=None,
        description="openai: true = use the batch interface (/v1/batches), often cheaper, answered within a day: "
        "docs/endpoints.md",
    )

    @field_validator("batch")
    @classmethod
    def _of_a_server(cls, batch: bool | None, info: ValidationInfo) -> bool | None:
        if batch and info.data.get("name") != "openai":
            raise ValueError("batches need a server: use engine=openai, or a model card that sets it")
        return batch or None
