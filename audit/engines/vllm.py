"""The vLLM engine: offline batch inference on GPUs, or on a CPU with vLLM's CPU build."""

from __future__ import annotations

import contextlib
import gc
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
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
from audit.engines.packing import n_shared
from audit.engines.resolve import ModelFiles, first_line
from audit.engines.templates import read_template
from audit.engines.whole import WholeReading
from audit.errors import ModelError
from stimuli.files import LARGEST_TEXT, read_file

GROUP_CPU: Final = 32  # most prompts read together on a CPU: more than one of its steps takes, and seconds of work
GROUP: Final = 2048  # most prompts read together on GPUs
AHEAD: Final = 4096  # most requests that vLLM has at a time: four of its steps on a large GPU
SWEPT: Final = 50_000  # objects made before Python looks for garbage while vLLM works; as usual it costs a seventh
TESTED: Final = (0, 32)  # the newest version of vLLM that the tests were run with
HOTTEST: Final = 2.0  # vLLM's highest temperature


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
        import vllm
        from vllm.platforms import current_platform

        self._vllm = vllm
        cpu = bool(current_platform.is_cpu())
        if config.device not in ("auto", here := "cpu" if cpu else "cuda"):
            raise ModelError(
                f"engine.device={config.device}: this vLLM runs on {here} alone; leave engine.device out, or use "
                "engine=transformers"
            )
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
        if _has_mistral_s_own_form(files.folder):  # it has other names for weights, and a tokenizer without a template
            options |= {"tokenizer_mode": "hf", "config_format": "hf", "load_format": "safetensors"}
        options |= {
            "model": str(files.folder),
            "tokenizer": model.tokenizer,
            "trust_remote_code": model.trust_remote_code,
            "dtype": model.dtype,
            "quantization": model.quantization,
            "max_model_len": model.max_model_len,
            "tensor_parallel_size": config.tensor_parallel_size,
            "enforce_eager": cpu if config.enforce_eager is None else config.enforce_eager,
            "enable_prefix_caching": True,
            "language_model_only": True,
            "seed": seed,
            "disable_log_stats": True,
        }
        self._llm, self.notes = self._loaded(model, files, options)
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
        self._group_tokens: float = int(cache.kv_cache_size_tokens or 0) // 4 or math.inf
        self._block = int(cache.block_size)
        self._max_group = GROUP_CPU if cpu else GROUP
        self.facts = EngineFacts(
            name="vllm",
            version=str(vllm.__version__),
            device="cpu" if cpu else str(current_platform.get_device_name()),
            dtype=str(self._llm.llm_engine.model_config.dtype).removeprefix("torch."),
        )

    def _loaded(self, model: ModelConfig, files: ModelFiles, options: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        """Load the model, with logits in float32 unless its output layer is quantised; return it, and what to note."""
        newer = self._vllm.__version_tuple__[:2] > TESTED
        notes = (f"vLLM {self._vllm.__version__} is newer than {'.'.join(map(str, TESTED))}, the tested one",) * newer
        # Half-precision logits have steps of 6% to 12%: too coarse for a distribution over numbers.
        for heads in ({"head_dtype": "float32"}, {}):
            try:
                return self._tried(hf_overrides=heads, **options), notes
            except Exception as error:
                # Of several processes, the error that reaches this one is not the cause.
                untold = options["tensor_parallel_size"] > 1 and b'"quantization_config"' in read_file(
                    files.folder / "config.json", at_most=LARGEST_TEXT
                )
                if not (heads and (untold or "unquantized lm_head" in str(error))):
                    raise ModelError(
                        f"vLLM cannot load model {model.name} from {files.folder}: {first_line(error)}; "
                        "engine=transformers works without vLLM"
                    ) from error
            notes += ("logits in the model's number format, because its output layer is quantised",)
            self._free()
        raise AssertionError

    def _tried(self, **options: Any) -> Any:
        """Load the model and ask it for a token: on a CPU, loading does not use the output layer."""
        llm = self._vllm.LLM(**options)
        once = self._vllm.SamplingParams(temperature=0.0, max_tokens=1, detokenize=False)
        llm.generate([{"prompt_token_ids": [0]}], once, use_tqdm=False)
        return llm

    def forget(self) -> None:
        """See :class:`audit.engines.base.Engine`."""
        # Blocks may be in use for a moment after the last answer; a second try stops what uses them.
        if not (self._llm.reset_prefix_cache() or self._llm.reset_prefix_cache(reset_running_requests=True)):
            raise ModelError(
                "vLLM does not empty its cache, so answers could depend on earlier prompts; run the same command again"
            )

    def configured(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which transformers can build the classes that vLLM has changed, to compile them."""
        from vllm.config import set_current_vllm_config

        context: contextlib.AbstractContextManager[None] = set_current_vllm_config(self._llm.llm_engine.vllm_config)
        return context

    def in_format(self, dtype: str) -> contextlib.AbstractContextManager[None]:
        """Raise ModelError: vLLM compiles the number format in. See :class:`audit.engines.base.Engine`."""
        raise ModelError(f"engine=vllm cannot change to {dtype} once a model is loaded; use engine=transformers")

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
        if temperature > HOTTEST:
            raise ModelError(
                f"temperature={temperature:g}: vLLM samples at {HOTTEST:g} at most; use engine=transformers, or "
                "a lower temperature"
            )
        stop: dict[str, Any] = {"stop": [until], "skip_special_tokens": False} if until else {}
        sampling = partial(self._sampling, max_tokens=max_tokens, **stop)
        texts = [Generated(None, 0, False)] * len(prompts)

        def take(place: int, output: Any) -> None:
            texts[place] = _generated(output, until, self.tokenizer)
            done(1)

        if own_seeds is None:
            self._run(prompts, repeat(sampling()), take)
        else:
            settings = {"temperature": temperature, "top_p": top_p}
            self._run(prompts, (sampling(seed=seed, **settings) for seed in own_seeds), take)
        return texts

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """See :class:`audit.engines.base.TokenReader`. Prompts with a common beginning are read in sequence."""
        group: list[int] = []
        n_tokens = 0
        for place in sorted(range(len(prompts)), key=lambda place: list(prompts[place])):
            takes = math.ceil(len(prompts[place]) / self._block) * self._block
            shared = n_shared(prompts[group[-1]], prompts[place]) // self._block * self._block if group else 0
            if group and (len(group) == self._max_group or n_tokens + takes - shared > self._group_tokens):
                yield WholeReading(self, prompts, tuple(group))
                group, n_tokens, shared = [], 0, 0
            group.append(place)
            n_tokens += takes - shared  # the cache holds whole blocks, and those that prompts share once
        if group:
            yield WholeReading(self, prompts, tuple(group))

    def probabilities(self, asked: Sequence[TokenIds], token_ids: TokenIds) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n whole sequences."""
        # Spares a deep copy of the settings for each request, and an object for each token.
        parameters = self._sampling(
            max_tokens=1, logprob_token_ids=list(token_ids), detokenize=False, flat_logprobs=True, skip_clone=True
        )
        table: npt.NDArray[np.float64] = np.full((len(asked), len(token_ids)), np.nan)

        def take(place: int, output: Any) -> None:
            told = output.outputs[0].logprobs
            row = dict(zip(told.token_ids, told.logprobs, strict=True))
            table[place] = [row[token] for token in token_ids]

        self._run(asked, repeat(parameters), take)
        np.exp(table, out=table)
        return table

    def _sampling(self, *, temperature: float = 0.0, **settings: Any) -> Any:
        """Return vLLM's settings of a request that is answered once it is finished."""
        from vllm.sampling_params import RequestOutputKind

        return self._vllm.SamplingParams(temperature=temperature, output_kind=RequestOutputKind.FINAL_ONLY, **settings)

    def _run(self, prompts: Sequence[TokenIds], parameters: Iterable[Any], take: Callable[[int, Any], None]) -> None:
        """Ask requests, add further ones while these are computed, and hand over each output with its prompt's place.

        ``vllm.LLM.generate`` adds all of them first, while the device waits, and keeps all outputs until the last one.
        """
        engine = self._llm.llm_engine
        waiting = zip(range(len(prompts)), prompts, parameters, strict=False)  # parameters may be endless
        thresholds = gc.get_threshold()
        gc.set_threshold(SWEPT, *thresholds[1:])
        try:
            while True:
                for place, ids, own in islice(waiting, AHEAD - engine.get_num_unfinished_requests()):
                    engine.add_request(str(place), {"type": "token", "prompt_token_ids": list(ids)}, own)
                if not engine.has_unfinished_requests():
                    return
                for output in engine.step():
                    take(int(output.request_id), output)
        finally:
            gc.set_threshold(*thresholds)
            if engine.has_unfinished_requests():  # of an interrupted call, which the next one would take for its own
                engine.abort_request([str(place) for place in range(len(prompts))])

    def close(self) -> None:
        """Free the model's memory."""
        del self._llm
        self._free()

    def _free(self) -> None:
        gc.collect()
        with contextlib.suppress(Exception):
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()


def _has_mistral_s_own_form(folder: Path) -> bool:
    """Whether a folder has its weights twice: for transformers, and in the form of Mistral's own library."""
    weights = {path.name.startswith("consolidated") for path in folder.glob("*.safetensors")}
    return weights == {True, False}


def _generated(output: Any, until: str, tokenizer: ChatTokenizer) -> Generated:
    if not output.outputs:
        return Generated(None, 0, False)
    written = output.outputs[0]
    cut = written.stop_reason != until if until else ending_of({"finish_reason": written.finish_reason}).at_worst
    text = written.text if until else tokenizer.written(list(written.token_ids), written.text)
    return Generated(text, len(written.token_ids), cut)
