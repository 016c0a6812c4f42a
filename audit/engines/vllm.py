"""The vLLM engine: offline batch inference on GPUs, or on a CPU with vLLM's CPU build; the same module runs both."""

from __future__ import annotations

import contextlib
import gc
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.config import EngineConfig, ModelConfig
from audit.engines.base import EngineFacts, Generated, TokenIds, sampling_seeds
from audit.engines.chat import ChatTokenizer
from audit.engines.resolve import ModelFiles, first_line
from audit.errors import ModelError


class VllmEngine:
    """Runs a model in this process by ``vllm.LLM``."""

    def __init__(self, model: ModelConfig, config: EngineConfig, files: ModelFiles, *, seed: int) -> None:
        # In one process a run is interrupted by one signal, and nothing is spawned that would import __main__ again.
        if config.tensor_parallel_size == 1:
            os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        import vllm
        from vllm.platforms import current_platform

        cpu = bool(current_platform.is_cpu())
        options: dict[str, Any] = {"gpu_memory_utilization": config.gpu_memory_utilization}
        if cpu:
            # The CPU backend wants a multiple of 32; its default of 128 is longer than our prompts, so none is reused.
            # A prompt is read in one step: vLLM draws a token after each part of one, and takes the draw back by a
            # means that a CPU's random generator lacks ("CPU Generator does not use offset").
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
                # Logits in half precision are steps of 6% to 12%: too coarse for a distribution over numbers.
                hf_overrides={"head_dtype": "float32"},
                seed=seed,
                disable_log_stats=True,
                **options,
            )
        except Exception as error:
            raise ModelError(
                f"vLLM can not load model {model.name} from {files.folder}: {first_line(error)}"
            ) from error
        self._vllm = vllm
        self._tokenizer = ChatTokenizer(self._llm.get_tokenizer(), name=model.name)
        self._max_model_len = model.max_model_len
        self.facts = EngineFacts(
            name="vllm",
            version=str(vllm.__version__),
            device="cpu" if cpu else str(current_platform.get_device_name()),
            dtype=str(self._llm.llm_engine.model_config.dtype).removeprefix("torch."),
        )

    @property
    def tokenizer(self) -> ChatTokenizer:
        """See :class:`audit.engines.base.Engine`."""
        return self._tokenizer

    @property
    def max_model_len(self) -> int:
        """See :class:`audit.engines.base.Engine`."""
        return self._max_model_len

    def forget(self) -> None:
        """See :class:`audit.engines.base.Engine`."""
        self._llm.reset_prefix_cache()

    def generate(
        self,
        prompts: Sequence[TokenIds],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
    ) -> list[Generated]:
        """See :class:`audit.engines.base.Engine`."""
        own_seeds = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        sampling = self._vllm.SamplingParams
        if own_seeds is None:
            outputs = self._run(prompts, sampling(temperature=0.0, max_tokens=max_tokens))
        else:
            settings = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
            outputs = self._run(prompts, [sampling(seed=seed, **settings) for seed in own_seeds])
        return [_generated(output) for output in outputs]

    def next_token_probabilities(
        self, prompts: Sequence[TokenIds], tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds
    ) -> list[npt.NDArray[np.float64]]:
        """See :class:`audit.engines.base.Engine`."""
        asked = [[*prompt, *tail] for prompt, own in zip(prompts, tails, strict=True) for tail in own]
        parameters = self._vllm.SamplingParams(
            temperature=0.0, max_tokens=1, logprob_token_ids=list(token_ids), detokenize=False
        )
        outputs = iter(self._run(asked, parameters))
        probabilities = []
        for own in tails:
            rows = [next(outputs).outputs[0].logprobs[0] for _ in own]
            table = [[math.exp(row[token].logprob) for token in token_ids] for row in rows]
            probabilities.append(np.array(table, dtype=np.float64).reshape(len(own), len(token_ids)))
        return probabilities

    def _run(self, prompts: Sequence[TokenIds], parameters: Any) -> list[Any]:
        if not prompts:
            return []
        outputs: list[Any] = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts], parameters, use_tqdm=False
        )
        return outputs

    def close(self) -> None:
        """Free the model's memory."""
        del self._llm
        gc.collect()
        with contextlib.suppress(Exception):
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()


def _generated(output: Any) -> Generated:
    if not output.outputs:
        return Generated(None, 0, False)
    written = output.outputs[0]
    return Generated(written.text, len(written.token_ids), written.finish_reason == "length")
