"""The transformers engine on CPU, CUDA or MPS: reads probabilities in packs and writes texts in batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

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
from audit.engines.local import TokenEngine, open_local
from audit.engines.packed import PackedReader
from audit.engines.resolve import ModelFiles, unloadable
from audit.engines.whole import WholeReader, reads_packed, sliding_window
from audit.errors import ModelError

LONGEST_TAIL: Final = 16  # more tokens than any continuation that is asked about
PACK_TOKENS_CPU: Final = 1536  # on a CPU: enough for efficient matrix products, few enough to show progress
PACK_TOKENS: Final = 8192  # default tokens of a pack elsewhere
ROW_TOKENS: Final = 192  # about three prompts, so that padding and attention between unrelated ones are small


def open_model(model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
    """Open a model with this engine; see :class:`audit.engines.open.Opens`."""
    device = choose_device(config.device)
    return open_local(TransformersEngine, model, config, device=device, seed=seed, why=why)


class TransformersEngine(TokenEngine):
    """Runs a model with ``AutoModelForCausalLM``."""

    def __init__(self, model: ModelConfig, config: EngineConfig, files: ModelFiles, seed: int) -> None:
        import torch
        import transformers

        if model.quantization is not None:
            raise ModelError(
                f"model.quantization={model.quantization}: engine=transformers reads quantization from the model's "
                "files; leave it null, or use engine=vllm"
            )
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        torch.manual_seed(seed)
        self._torch: Any = torch
        self._device = choose_device(config.device)
        self.tokenizer = ChatTokenizer.of(model, config, files.folder)
        try:
            loaded, loading = transformers.AutoModelForCausalLM.from_pretrained(
                str(files.folder),
                dtype=model.dtype,
                trust_remote_code=model.trust_remote_code,
                output_loading_info=True,
            )
            self._model: Any = _with_float32_head(torch, loaded).to(self._device).eval()
        except Exception as error:
            raise ModelError(
                f"transformers cannot load model {model.name} from {files.folder}: "
                + unloadable(
                    error, "download or copy it again; a model newer than the installed transformers needs a later one"
                )
            ) from error
        # transformers fills missing weights at random and only warns.
        lacking = sorted(map(str, loading["missing_keys"]))
        if lacking:
            raise ModelError(
                f"model {model.name}: {len(lacking)} weights are missing in {files.folder} (first: {lacking[0]}); "
                "download or copy it again"
            )
        # As vLLM at temperature 0: use the model's end tokens, but not its penalties and sampling settings.
        own = self._model.generation_config.eos_token_id
        self._ends = {*(own if isinstance(own, list) else [own]), self.tokenizer.hf.eos_token_id} - {None}
        self._model.generation_config = transformers.GenerationConfig(eos_token_id=sorted(self._ends) or None)
        self._batch_size = config.batch_size
        self._window = sliding_window(self._model.config)
        max_nodes = config.pack_tokens or (PACK_TOKENS_CPU if self._device == "cpu" else PACK_TOKENS)
        self._packed = PackedReader(torch, self._model, device=self._device, max_nodes=max_nodes, row_nodes=ROW_TOKENS)
        self._whole = WholeReader(torch, self._model, device=self._device, batch_size=config.batch_size)
        self._packs: bool | None = None
        self.max_model_len = model.max_model_len
        self.facts = EngineFacts(
            name="transformers",
            version=str(transformers.__version__),
            device=self._device,
            dtype=str(self._model.dtype).removeprefix("torch."),
        )

    def forget(self) -> None:
        """Do nothing: nothing is kept between calls."""

    @contextmanager
    def in_format(self, dtype: str) -> Iterator[None]:
        """See :class:`audit.engines.base.Engine`.

        Logits are computed in float32 in any format (:func:`_with_float32_head`). Half-precision weights convert to
        float32 and back without loss. Other conversions round, as ``model.dtype`` would, so the original weights are
        kept and restored.
        """
        torch, own, wanted = self._torch, self._model.dtype, getattr(self._torch, dtype)
        if wanted == own:
            raise ModelError(f"{dtype} is the format the model already runs in")
        # Buffers, such as position frequencies, are float32 in every format.
        weights = [each for each in self._model.parameters() if each.dtype == own]
        kept = [] if wanted == torch.float32 else [each.data for each in weights]
        head = self._model.get_output_embeddings()
        try:
            for each in weights:
                each.data = each.data.to(wanted)
            _with_float32_head(torch, self._model)
            self._packed.dtype = wanted
            yield
        finally:
            self._packed.dtype = own
            self._model.set_output_embeddings(head)
            for place, each in enumerate(weights):
                each.data = kept[place] if kept else each.data.to(own)

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
        answers = [Generated(None, 0, False)] * len(prompts)
        stop = {"stop_strings": [until], "tokenizer": self.tokenizer.hf} if until else {}
        for places, ids, mask in self._batches(prompts):
            sampler = None
            if own_seeds is not None:
                chosen = [own_seeds[place] for place in places]
                sampler = [_Sampler(self._torch, temperature=temperature, top_p=top_p, seeds=chosen)]
            with self._torch.inference_mode():
                written = self._model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    logits_processor=sampler,
                    pad_token_id=self._padding,
                    **stop,
                )
            for place, tokens in zip(places, written[:, ids.shape[1] :].tolist(), strict=True):
                answers[place] = self._up_to(until, tokens) if until else self._generated(tokens)
            done(len(places))
        return answers

    def _generated(self, tokens: list[int]) -> Generated:
        """Return a row's text up to its own end; the rest is padding to the longest row."""
        end = next((k for k, token in enumerate(tokens) if token in self._ends), None)
        own = tokens if end is None else tokens[: end + 1]
        return Generated(self.tokenizer.written(own), len(own), end is None)

    def _up_to(self, until: str, tokens: list[int]) -> Generated:
        """Return a row's text up to ``until``; the rest is ignored."""
        end = next((k for k, token in enumerate(tokens) if token in self._ends), None)
        own = tokens if end is None else tokens[: end + 1]

        def text(n: int) -> str:
            return self.tokenizer.decode(own[:n], marks=True)

        whole = text(len(own))
        if until not in whole:
            return Generated(whole, len(own), True)
        n = bisect_left(range(len(own)), True, key=lambda n: until in text(n))
        return Generated(whole[: whole.index(until)], n, False)

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """See :class:`audit.engines.base.TokenReader`. In packs if the model supports it, else one by one."""
        if not prompts:
            return iter(())
        if self._packs is None:
            self._packs = reads_packed(self._packed, self._whole, prompts)
        longest = max(map(len, prompts)) + LONGEST_TAIL
        if self._packs and (self._window is None or longest <= self._window):
            return iter(self._packed.read(prompts))
        return iter(self._whole.read(prompts))

    @property
    def _padding(self) -> int:
        hf = self.tokenizer.hf
        return int(hf.pad_token_id if hf.pad_token_id is not None else hf.eos_token_id or 0)

    def _batches(self, prompts: Sequence[TokenIds]) -> Iterator[tuple[list[int], Any, Any]]:
        """Yield indices, left-padded ids and mask; prompts of similar length go together."""
        order = sorted(range(len(prompts)), key=lambda place: (len(prompts[place]), place))
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            width = max(len(prompts[place]) for place in places)
            ids = [[self._padding] * (width - len(prompts[p])) + list(prompts[p]) for p in places]
            mask = [[0] * (width - len(prompts[p])) + [1] * len(prompts[p]) for p in places]
            tensor = self._torch.tensor
            yield places, tensor(ids, device=self._device), tensor(mask, device=self._device)

    def close(self) -> None:
        """Free the model's memory."""
        del self._model


class _Sampler:
    """A logits processor that makes a random draw the likeliest token of each row, by the Gumbel-max trick.

    The token with the largest logit / temperature + Gumbel noise is a draw from softmax(logits / temperature). Each row
    has its own generator, which draws once for each vocabulary token at every step, so rows do not affect each other.
    Noise and sums are float64 on the CPU, whatever the model runs on. torch's own CPU generator would use only 32 bits
    of a seed.
    """

    def __init__(self, torch: Any, *, temperature: float, top_p: float, seeds: Sequence[int]) -> None:
        from transformers import TopPLogitsWarper

        self._torch = torch
        self._temperature = temperature
        self._nucleus: Any = TopPLogitsWarper(top_p) if top_p < 1 else None
        self._generators = [np.random.default_rng(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logits = scores.cpu().double() / self._temperature
        if self._nucleus is not None:
            logits = self._nucleus(input_ids, logits)
        noise = np.stack([generator.gumbel(size=logits.shape[1]) for generator in self._generators])
        drawn = (logits + self._torch.from_numpy(noise)).argmax(-1, keepdim=True).to(scores.device)
        return self._torch.full_like(scores, -np.inf).scatter(1, drawn, 0.0)


def _with_float32_head(torch: Any, model: Any) -> Any:
    """Compute logits in float32, as vLLM does: half-precision ones have steps of 6% to 12%, too coarse for numbers."""
    head = model.get_output_embeddings()
    if head is None or head.weight.dtype == torch.float32:
        return model
    wide = torch.nn.Linear(head.in_features, head.out_features, bias=head.bias is not None, dtype=torch.float32)
    with torch.no_grad():
        wide.weight.copy_(head.weight)
        if head.bias is not None:
            wide.bias.copy_(head.bias)
    wide.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(), *inputs[1:]))
    model.set_output_embeddings(wide)
    return model


def choose_device(wanted: str) -> str:
    """Return torch's device for this setting, or the fastest available; raise ModelError if there is none."""
    import torch

    available = {"cuda": hardware.has_gpu(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, there in available.items() if there)
    if not available[wanted]:
        raise ModelError(f"engine.device={wanted}: this machine has no such device; use engine.device=auto")
    return wanted
