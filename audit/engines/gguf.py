"""A GGUF file as a model: unpacked once into a folder that every engine reads.

The audit is then of the file's dequantised weights, which for a quantised file differ from those of the original model.
transformers converts the file; if it would silently drop a part of the model, the file is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from audit.configuration.model import ModelConfig
from audit.engines.digests import sha256
from audit.engines.libraries import need_libraries
from audit.errors import ModelError
from stimuli.files import open_file

_CONVERSION: Final = "1"
"""Version of the unpacking in cache names; change it with the conversion, so that caches do not go stale."""
SERVE: Final = "serve it with llama.cpp or Ollama, and use engine=openai (docs/endpoints.md)"
"""Remedy for files that transformers cannot convert."""
_UNPACKING: Final = ("torch", "transformers", "accelerate", "gguf")  # libraries
_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_BESIDE: Final = 2**26  # bytes of an unpacked folder besides the weights: mostly the tokenizer
_FORMATS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""``struct`` format by GGUF value type; 8 is a string and 9 an array."""
_TEXT, _LIST = 8, 9
_MOST_AXES: Final = 8
_LONGEST: Final = 2**24  # bytes of a string in the header, at most
_COMPUTED_WITH: Final = re.compile(r"rope\.scal|softcap|_scale$|\.scale$|alibi")
"""Settings that change what the model computes."""
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""How Llama 3.1 and later scale positions, except for the factor."""


@dataclass(frozen=True)
class Header:
    """A GGUF file's metadata."""

    values: dict[str, Any]  # the settings by name; for arrays only the length
    # shape as stored, type number, and offset of the content from start
    tensors: dict[str, tuple[tuple[int, ...], int, int]]
    start: int

    @property
    def n_weights(self) -> int:
        """Number of weights in the model."""
        return sum(prod(shape) for name, (shape, _, _) in self.tensors.items() if not name.startswith("rope_"))

    @property
    def architecture(self) -> str:
        """llama.cpp's name for the architecture."""
        return str(self.values.get("general.architecture", ""))


def read_header(path: Path, asked: str) -> Header:
    """Read a GGUF file's metadata, checking everything against the file's size."""
    size = path.stat().st_size
    try:
        with open_file(path) as handle:
            if handle.read(4) != b"GGUF":
                raise ModelError(
                    f"{asked} is a file, but not a GGUF file; a model is a folder with config.json and weights, a "
                    "GGUF file, or a hub id"
                )
            reader = _Reader(handle, size)
            version, n_tensors, n_values = reader.numbers("<IQQ")
            if version not in (2, 3):
                raise ModelError(f"{asked}: is GGUF version {version & 0xFFFF}, but 2 or 3 is needed; {SERVE}")
            values = {}
            for _ in range(n_values):
                name = reader.text()
                values[name] = reader.value(reader.numbers("<I")[0])
            tensors = {}
            for _ in range(n_tensors):
                name = reader.text()
                shape = reader.shape()
                kind, offset = reader.numbers("<IQ")
                tensors[name] = (shape, kind, offset)
            align = values.get("general.alignment", 32)
            if not isinstance(align, int) or align < 1:
                raise ValueError("no alignment of its weights")
            return Header(values, tensors, -(-handle.tell() // align) * align)
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{asked}: cannot be read ({error.strerror or error})") from error
    except Exception as error:
        raise _damaged(asked, size) from error


class _Reader:
    def __init__(self, handle: Any, size: int) -> None:
        self._handle = handle
        self._size = size

    def _take(self, n: int) -> bytes:
        if not 0 <= n <= _LONGEST:
            raise ValueError("longer than any text")
        taken: bytes = self._handle.read(n)
        if len(taken) < n:
            raise ValueError("the file ends")
        return taken

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def shape(self) -> tuple[int, ...]:
        (n,) = self.numbers("<I")
        if n > _MOST_AXES:
            raise ValueError("more axes than a tensor has")
        return self.numbers(f"<{n}Q")

    def text(self) -> str:
        return self._take(self.numbers("<Q")[0]).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            return self.numbers(_FORMATS[kind])[0]
        inner, n = self.numbers("<IQ")
        if inner == _TEXT:
            for _ in range(n):
                self._skip(self.numbers("<Q")[0])
        elif inner == _LIST:
            for _ in range(n):
                self.value(_LIST)
        else:
            self._skip(n * struct.calcsize(_FORMATS[inner]))
        return n

    def _skip(self, n: int) -> None:
        if self._handle.tell() + n > self._size:
            raise ValueError("the file ends")
        self._handle.seek(n, os.SEEK_CUR)


def _damaged(asked: str, size: int) -> ModelError:
    return ModelError(f"{asked}: is damaged or incomplete ({size / 1e6:,.1f} MB); copy or download it again")


@dataclass(frozen=True)
class Unpacking:
    """A GGUF file and the folder it is unpacked into."""

    path: Path
    asked: str
    digest: str  # the file's SHA-256
    form: str  # the number format of the unpacked weights
    kinds: tuple[str, ...]  # the formats in the file, most frequent first
    header: Header
    folder: Path

    @property
    def n_bytes(self) -> int:
        """Approximate size of the unpacked folder."""
        return self.header.n_weights * _BYTES[self.form] + _BESIDE

    @property
    def made_of(self) -> str:
        """Origin of the weights, for manifests."""
        return (
            f"dequantised from {', '.join(self.kinds)}" if set(self.kinds) - {"F32", "F16", "BF16"} else "a GGUF file"
        )

    def announced(self) -> str:
        """Say what will be unpacked and how much disk it takes; empty if it has been unpacked."""
        if self.folder.is_dir():
            return ""
        return (
            f"{self.asked}: unpacking once, {self.header.n_weights / 1e6:,.0f} million weights from "
            f"{', '.join(self.kinds)} to {self.form}: {_size(self.n_bytes)} in {self.folder}, and as much memory ..."
        )

    def unpack(self) -> None:
        """Create the folder, whole or not at all, unless it exists."""
        if self.folder.is_dir():
            return
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder.with_suffix(".lock")):
                if not self.folder.is_dir():
                    self._refuse_what_is_left_out()
                    self._refuse_too_little_room()
                    convert(self.path, self.folder, form=self.form, made=self._made)
        except ModelError:
            raise
        except OSError as error:
            raise ModelError(
                f"{self.asked}: could not be unpacked into {self.folder} ({error.strerror or error}); it needs "
                f"{_size(self.n_bytes)}; set XDG_CACHE_HOME to another disk if this one is full"
            ) from error
        except Exception as error:
            # transformers and safetensors raise anything, mostly for unknown architectures.
            raise ModelError(
                f"{self.asked}: transformers cannot convert it ({_line(error)}); {SERVE}, or take the model from the "
                "hub"
            ) from error

    def _refuse_too_little_room(self) -> None:
        free = shutil.disk_usage(self.folder.parent).free
        if free < self.n_bytes:
            half = "" if _BYTES[self.form] == 2 else "; model.dtype=bfloat16 takes half of it"
            raise ModelError(
                f"{self.asked}: unpacked it takes {_size(self.n_bytes)}, and {self.folder.parent} has "
                f"{_size(free)} free{half}; free some space, or set XDG_CACHE_HOME to another disk"
            )

    def _refuse_what_is_left_out(self) -> None:
        """Raise ModelError if transformers would drop a setting that the model computes with."""
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(str(self.path.parent), gguf_file=self.path.name)
        own = f"{self.header.architecture}."
        for name, value in self.header.values.items():
            found = _COMPUTED_WITH.search(name) if name.startswith(own) else None
            # transformers reads position scaling for one architecture only, and wrongly there.
            known = None if found is None or found[0] == "rope.scal" else getattr(config, name.rpartition(".")[2], None)
            if found is not None and value not in ("none", "", 0.0, 1.0) and known != value:
                raise ModelError(
                    f"{self.asked}: transformers ignores {_line(name)}={_line(value)}, without which it is a "
                    f"different model; {SERVE}, or take the model from the hub"
                )

    def _made(self, tokenizer: Any, network: Any, loading: Any) -> None:
        """Correct what transformers loaded; raise ModelError if weights are missing or added."""
        lacking = sorted(map(str, loading["missing_keys"]))
        n_here = sum(each.numel() for each in network.parameters())
        # Shared weights count once in both.
        if lacking or n_here != self.header.n_weights:
            first = f" (first: {lacking[0]})" if lacking else ""
            raise ModelError(
                f"{self.asked}: transformers builds a model with {n_here:,} weights{first} from the file's "
                f"{self.header.n_weights:,}, so it would be a different model; {SERVE}, or take the model from the hub"
            )
        factors = [name for name in self.header.tensors if name.startswith("rope_")]
        if factors:
            network.config.rope_parameters = self._stretched(network.config, factors)
        self._begin(tokenizer)

    def _begin(self, tokenizer: Any) -> None:
        """Make the tokenizer start texts with a BOS exactly if the file says so, which transformers ignores."""
        from tokenizers.processors import TemplateProcessing

        said = self.header.values.get("tokenizer.ggml.add_bos_token")
        if said is None:  # llama.cpp's defaults
            said = self.header.values.get("tokenizer.ggml.pre") in ("llama3", "llama-v3", "llama-bpe")
            said = said or self.header.values.get("tokenizer.ggml.model") == "llama"
        bos = tokenizer.bos_token
        if bos and said != (tokenizer("x")["input_ids"][:1] == [tokenizer.bos_token_id]):
            begun = {"single": [bos, "$A"], "special_tokens": [(bos, tokenizer.bos_token_id)]}
            plain = {"single": ["$A"], "special_tokens": []}
            tokenizer.backend_tokenizer.post_processor = TemplateProcessing(**(begun if said else plain))

    def _stretched(self, config: Any, factors: list[str]) -> dict[str, Any]:
        """Return transformers' rule for position scaling, which the file stores as factors."""
        import numpy as np

        own = dict(config.rope_parameters or {})
        if factors == ["rope_freqs.weight"] and self.header.architecture == "llama":
            (n,), kind, offset = self.header.tensors["rope_freqs.weight"]
            if kind == 0:
                said = np.fromfile(self.path, dtype="<f4", count=n, offset=self.header.start + offset)
                factor = float(said.max(initial=1))
                wanted = _llama3_factors(float(own["rope_theta"]), 2 * n, factor)
                if np.allclose(said, wanted, rtol=1e-3):
                    return {**own, "rope_type": "llama3", "factor": factor, **_LLAMA3}
        raise ModelError(
            f"{self.asked}: transformers ignores {factors[0]}, which stretches positions; {SERVE}, or take the "
            "model from the hub"
        )


def _llama3_factors(theta: float, dim: int, factor: float) -> Any:
    """Return the divisors of frequencies that llama.cpp writes for Llama 3.1 and later."""
    import numpy as np

    longest = float(_LLAMA3["original_max_position_embeddings"])
    waves = 2 * np.pi * theta ** (np.arange(0, dim, 2) / dim)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = (longest / waves - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(waves < longest / high, 1.0, np.where(waves > longest / low, factor, between))


def look_into(model: ModelConfig, cache_folder: Path) -> Unpacking:
    """Return how the GGUF file ``model.path`` will be unpacked; refuse one that is damaged or one of several parts."""
    path, asked = Path(os.path.expanduser(model.path)), f"model.path={model.path}"
    header = read_header(path, asked)
    named = re.search(r"-\d{5}-of-(\d{5})\.gguf$", path.name)
    stated = header.values.get("split.count", 0)
    n_parts = max(stated if isinstance(stated, int) else 0, int(named[1]) if named else 0)
    if n_parts > 1:
        raise ModelError(
            f"{asked}: is one of {n_parts} parts; join them with llama.cpp's llama-gguf-split --merge FIRST_PART "
            "WHOLE.gguf, then give model.path=WHOLE.gguf"
        )
    need_libraries(asked, *_UNPACKING)
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    size = path.stat().st_size
    kinds: Counter[str] = Counter()
    try:
        for shape, number, offset in header.tensors.values():
            kind = GGMLQuantizationType(number)
            block, n_bytes = GGML_QUANT_SIZES[kind]
            kinds[kind.name] += prod(shape)
            if header.start + offset + prod(shape) // block * n_bytes > size:
                raise _damaged(asked, size)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{asked}: has weights in an unknown format ({error}); {SERVE}") from error
    if not header.tensors or not header.architecture:
        raise ModelError(f"{asked}: has no model (only a vocabulary?); give the file with the weights")
    digest = sha256(path)
    form = model.dtype if model.dtype in ("bfloat16", "float16") else "float32"
    folder = cache_folder / f"gguf-{form}-{_CONVERSION}-{digest[:16]}"
    return Unpacking(path, asked, digest, form, tuple(name for name, _ in kinds.most_common()), header, folder)


def convert(packed: Path, folder: Path, *, form: str, made: Callable[[Any, Any, Any], None] | None = None) -> None:
    """Convert a GGUF file into a folder of safetensors; the folder appears whole or not at all."""
    need_libraries(str(packed), *_UNPACKING)
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    how: dict[str, Any] = {"quantization_config": GgufConfig(dequantize=True), "dtype": form}
    # Written into the tokenizer's settings, which are part of the model's identity: it must not depend on a variable.
    here = {} if made is None else {"local_files_only": True}
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".partial", dir=folder.parent))
    try:
        with _each_once(gguf, "GGUFReader", "get_tensor_name_map"):
            tokenizer = AutoTokenizer.from_pretrained(str(packed.parent), gguf_file=packed.name, **here)
            network, loading = AutoModelForCausalLM.from_pretrained(
                str(packed.parent), gguf_file=packed.name, output_loading_info=True, **how, **here
            )
        if made is not None:
            made(tokenizer, network, loading)
        tokenizer.save_pretrained(unfinished)
        network.save_pretrained(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


@contextmanager
def _each_once(module: Any, *names: str) -> Iterator[None]:
    """Cache results of functions of a module.

    transformers reads the file's 49,000 words three times and builds its layer names for each module: 10 of the 25
    seconds of the first command here.
    """
    given = {name: getattr(module, name) for name in names}
    for name, function in given.items():
        setattr(module, name, cache(function))
    try:
        yield
    finally:
        for name, function in given.items():
            setattr(module, name, function)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB"


def _line(said: object) -> str:
    """Return text from a file or a library as one printable line."""
    shown = "".join(each if each.isprintable() else " " for each in str(said))
    return " ".join(shown.split())[:300] or type(said).__name__
