"""The vLLM engine: offline batch inference on GPUs, or on a CPU with vLLM's CPU build."""

from __future__ import annotations

import contextlib
import gc
import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.schema import EngineConfig, ModelConfig
from audit.engines import hardware
from audit.engines.base import (
    CachedPrompts,
    Done,
    EngineFacts,
    Generated,
    OpenModel,
    TokenIds,
    sampling_seeds,
    unwatched,
)
from audit.engines.chat import ChatTokenizer
from audit.engines.endings import ending_of
from audit.engines.local import TokenEngine, open_local
from audit.engines.resolve import ModelFiles, first_line
from audit.engines.templates import read_template
from audit.engines.whole import WholeReading
from audit.errors import ModelError

GROUP_CPU: Final = 32  # most prompts read together on a CPU: more than one of its steps takes, and seconds of work
GROUP: Final = 2048  # most prompts read together on GPUs


def open_model(model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
    """Open a model with this engine; see :class:`audit.engines.open.Opens`."""
    device = "cuda" if hardware.has_gpu() else "cpu"
    return open_local(VllmEngine, model, config, device=device, seed=seed, why=why)


class VllmEngine(TokenEngine):
    """Runs a model in this process with ``vllm.LLM``."""

    def __init__(self, model: ModelConfig, config: EngineConfig, files: ModelFiles, seed: int) -> None:
        # In one process one signal interrupts a run, and nothing is spawned that would import __main__ again.
        if config.tensor_parallel_size == 1:
            os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        import vllm
        from vllm.platforms import current_platform

        cpu = bool(current_platform.is_cpu())
        options: dict[str, Any] = {"gpu_memory_utilization": config.gpu_memory_utilization}
        if cpu:
            # Block sizes must be a multiple of 32 on a CPU; with the default of 128, longer than our prompts, no block
            # would be reused. Prefill is not chunked: after each chunk vLLM draws a token and reverts the draw by a
            # method that a CPU's random generator lacks ("CPU Generator does not use offset").
            options = {
                "kv_cache_memory_bytes": config.kv_cache_gib * 2**30,
                "max_num_batched_tokens": max(2048, model.max_model_len),
                "enable_chunked_prefill": False,
            }
        block_size = config.block_size or (32 if cpu else None)
        if block_size is not None:
            options["block_size"] = block_size
        try:
            self._llm = vllm.LLM(
                model=str(files.folder),
                tokenizer=model.tokenizer,
                trust_remote_code=model.trust_remote_code,
                dtype=model.dtype,
                quantization=model.quantization,
                max_model_len=model.max_model_len,
                tensor_parallel_size=config.tensor_parallel_size,
                enforce_eager=cpu if config.enforce_eager is None else config.enforce_eager,
                enable_prefix_caching=True,
                # Half-precision logits have steps of 6% to 12%: too coarse for a distribution over numbers.
                hf_overrides={"head_dtype": "float32"},
                seed=seed,
                disable_log_stats=True,
                **options,
            )
        except Exception as error:
            raise ModelError(
                f"vLLM cannot load model {model.name} from {files.folder}: {first_line(error)}; "
                "engine=transformers does without vLLM"
            ) from error
        self._vllm = vllm
        self.tokenizer = ChatTokenizer(
            self._llm.get_tokenizer(),
            name=model.name,
            add_special_tokens=config.add_special_tokens,
            template=read_template(model.chat_template),
            date=model.date,
            thinks_in=model.thinks_in,
        )
        self.max_model_len = model.max_model_len
        # A later question about a prompt finds it in the cache unless others have evicted it.
        cache = self._llm.llm_engine.vllm_config.cache_config
        n_cached = int(cache.num_gpu_blocks or 0) * int(cache.block_size or 0)
        self._group_tokens: float = n_cached // 4 or math.inf
        self._max_group = GROUP_CPU if cpu else GROUP
        self.facts = EngineFacts(
            name="vllm",
            version=str(vllm.__version__),
            device="cpu" if cpu else str(current_platform.get_device_name()),
            dtype=str(self._llm.llm_engine.model_config.dtype).removeprefix("torch."),
        )

    def forget(self) -> None:
        """See :class:`audit.engines.base.Engine`."""
        self._llm.reset_prefix_cache()

    def in_format(self, dtype: str) -> contextlib.AbstractContextManager[None]:
        """Raise ModelError: vLLM compiles the number format in. See :class:`audit.engines.base.Engine`."""
        raise ModelError(f"engine=vllm does not change to {dtype} once a model is loaded; engine=transformers does")

    def generate(
        self,
        prompts: Sequence[TokenIds],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        until: str = "",
        done: Done = unwatched,
    ) -> list[Generated]:
        """See :class:`audit.engines.local.TokenEngine`."""
        own_seeds = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        stop = {"stop": [until], "skip_special_tokens": False} if until else {}
        sampling = partial(self._vllm.SamplingParams, max_tokens=max_tokens, **stop)
        if own_seeds is None:
            outputs = self._run(prompts, sampling(temperature=0.0), done)
        else:
            settings = {"temperature": temperature, "top_p": top_p}
            outputs = self._run(prompts, [sampling(seed=seed, **settings) for seed in own_seeds], done)
        return [_generated(output, until, self.tokenizer) for output in outputs]

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """See :class:`audit.engines.base.TokenReader`. Prompts with a common beginning are read in sequence."""
        group: list[int] = []
        n_tokens = 0
        for place in sorted(range(len(prompts)), key=lambda place: list(prompts[place])):
            if group and (len(group) == self._max_group or n_tokens + len(prompts[place]) > self._group_tokens):
                yield WholeReading(self, prompts, tuple(group))
                group, n_tokens = [], 0
            group.append(place)
            n_tokens += len(prompts[place])
        if group:
            yield WholeReading(self, prompts, tuple(group))

    def probabilities(self, asked: Sequence[TokenIds], token_ids: TokenIds) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n whole sequences."""
        parameters = self._vllm.SamplingParams(
            temperature=0.0, max_tokens=1, logprob_token_ids=list(token_ids), detokenize=False
        )
        rows = [output.outputs[0].logprobs[0] for output in self._run(asked, parameters)]
        table = [[math.exp(row[token].logprob) for token in token_ids] for row in rows]
        return np.array(table, dtype=np.float64).reshape(len(rows), len(token_ids))

    def _run(self, prompts: Sequence[TokenIds], parameters: Any, done: Done = unwatched) -> list[Any]:
        if not prompts:
            return []
        outputs: list[Any] = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts], parameters, use_tqdm=partial(_bar, done)
        )
        return outputs

    def close(self) -> None:
        """Free the model's memory."""
        del self._llm
        gc.collect()
        with contextlib.suppress(Exception):
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()


class _Bar:
    """Replaces vLLM's progress bar and reports finished prompts to ours."""

    def __init__(self, done: Done) -> None:
        self._done = done
        self.format_dict = {"elapsed": math.inf}  # vLLM divides by this for a rate that nobody sees
        self.n = 0
        self.postfix = ""

    def update(self, n: int = 1) -> None:
        self.n += n
        self._done(n)

    def refresh(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _bar(done: Done, waiting: Any = None, **_: Any) -> Any:
    """Return a substitute for tqdm; iterating over waiting prompts shows nothing."""
    return _Bar(done) if waiting is None else waiting


def _generated(output: Any, until: str, tokenizer: ChatTokenizer) -> Generated:
    if not output.outputs:
        return Generated(None, 0, False)
    written = output.outputs[0]
    cut = written.stop_reason != until if until else ending_of({"finish_reason": written.finish_reason}).at_worst
    text = written.text if until else tokenizer.written(list(written.token_ids), written.text)
    return Generated(text, len(written.token_ids), cut)
