"""A GGUF file as a model: unpacked once into a folder that every engine reads.

What is audited then is the file's weights, dequantised: numbers of a quantised file differ from those of the model that
it was made of. transformers converts; where it would leave a part of the model out without a word, the file is refused.
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

from audit.configuration.schema import ModelConfig
from audit.engines.digests import sha256
from audit.errors import ModelError
from stimuli.files import open_file

_CONVERSION: Final = "1"
"""Names how a file is unpacked; change it when the conversion changes, so that caches do not go stale."""
SERVE: Final = "serve it by llama.cpp or Ollama, and ask it by engine=openai (docs/endpoints.md)"
"""The remedy for files that transformers cannot convert."""
_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_BESIDE: Final = 2**26
"""Bytes that a folder takes beside the weights: its tokenizer, above all."""
_FORMATS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""How values are stored, by the number of their type; 8 is a text and 9 a list."""
_TEXT, _LIST = 8, 9
_MOST_AXES: Final = 8
_LONGEST: Final = 2**24
"""Bytes of a text in the header, at most."""
_COMPUTED_WITH: Final = re.compile(r"rope\.scal|softcap|_scale$|\.scale$|alibi")
"""Settings without which a model computes something else."""
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""How every Llama from 3.1 on stretches its positions, but for the factor."""


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself before its weights.

    Attributes
    ----------
    values
        Its settings by their names; of a list, its length.
    tensors
        For each tensor its shape, as stored, the number of its type, and where its content begins, from the first's.
    start
        Where the tensors' content begins.
    """

    values: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], int, int]]
    start: int

    @property
    def n_weights(self) -> int:
        """How many numbers the model has."""
        return sum(prod(shape) for name, (shape, _, _) in self.tensors.items() if not name.startswith("rope_"))

    @property
    def architecture(self) -> str:
        """What llama.cpp calls the kind of model."""
        return str(self.values.get("general.architecture", ""))


def read_header(path: Path, asked: str) -> Header:
    """Read what a GGUF file says of itself; nothing of it is believed before it is checked against the file's size.

    Parameters
    ----------
    path
        The file.
    asked
        How messages call it, such as ``model.path=FILE``.

    Raises
    ------
    ModelError
        If it is no GGUF file, cannot be read, or is damaged.
    """
    size = path.stat().st_size
    try:
        with open_file(path) as handle:
            if handle.read(4) != b"GGUF":
                raise ModelError(
                    f"{asked} is a file, and not a GGUF file; a model is a folder with config.json and weights, a GGUF "
                    "file, or a hub id"
                )
            reader = _Reader(handle, size)
            version, n_tensors, n_values = reader.numbers("<IQQ")
            if version not in (2, 3):
                raise ModelError(f"{asked}: is GGUF of version {version & 0xFFFF}; versions 2 and 3 are read; {SERVE}")
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
    return ModelError(f"{asked}: is damaged or not whole ({size / 1e6:,.1f} MB); copy or download it again")


@dataclass(frozen=True)
class Unpacking:
    """What a GGUF file becomes.

    Attributes
    ----------
    path, asked
        The file, and how messages call it.
    digest
        Its SHA-256.
    form
        The number format that the weights are written in.
    kinds
        The formats that they have in the file, most of them first.
    header
        What the file says of itself.
    folder
        Where it is unpacked.
    """

    path: Path
    asked: str
    digest: str
    form: str
    kinds: tuple[str, ...]
    header: Header
    folder: Path

    @property
    def n_bytes(self) -> int:
        """What the folder takes on the disk, about."""
        return self.header.n_weights * _BYTES[self.form] + _BESIDE

    @property
    def made_of(self) -> str:
        """What the weights are, for manifests."""
        return (
            f"dequantised from {', '.join(self.kinds)}" if set(self.kinds) - {"F32", "F16", "BF16"} else "a GGUF file"
        )

    def announced(self) -> str:
        """Say what is going to be done, and how much disk it takes; empty where it has been done."""
        if self.folder.is_dir():
            return ""
        return (
            f"{self.asked}: is unpacked once, {self.header.n_weights / 1e6:,.0f} million weights from "
            f"{', '.join(self.kinds)} to {self.form}: {_size(self.n_bytes)} in {self.folder}, and as much memory ..."
        )

    def unpack(self) -> None:
        """Make the folder, whole or not at all; nothing where it is there.

        Raises
        ------
        ModelError
            If the file cannot be converted, or there is too little room on the disk.
        """
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
                f"{_size(self.n_bytes)}, and XDG_CACHE_HOME may point elsewhere"
            ) from error
        except Exception as error:
            # Whatever transformers and safetensors raise: of kinds of models that they do not know, above all.
            raise ModelError(
                f"{self.asked}: transformers cannot convert it ({_line(error)}); {SERVE}, or take the model from the "
                "hub"
            ) from error

    def _refuse_too_little_room(self) -> None:
        free = shutil.disk_usage(self.folder.parent).free
        if free < self.n_bytes:
            half = "" if _BYTES[self.form] == 2 else "; model.dtype=bfloat16 takes half of it"
            raise ModelError(
                f"{self.asked}: unpacked it takes {_size(self.n_bytes)}, and {self.folder.parent} has {_size(free)} "
                f"free{half}; free some, or let XDG_CACHE_HOME point elsewhere"
            )

    def _refuse_what_is_left_out(self) -> None:
        """Raise ModelError where transformers would leave out a setting that the model computes with."""
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(str(self.path.parent), gguf_file=self.path.name)
        own = f"{self.header.architecture}."
        for name, value in self.header.values.items():
            found = _COMPUTED_WITH.search(name) if name.startswith(own) else None
            # A stretch of positions is read of none but one kind of model, and wrongly there.
            known = None if found is None or found[0] == "rope.scal" else getattr(config, name.rpartition(".")[2], None)
            if found is not None and value not in ("none", "", 0.0, 1.0) and known != value:
                raise ModelError(
                    f"{self.asked}: transformers leaves out {_line(name)}={_line(value)}, without which it is another "
                    f"model; {SERVE}, or take the model from the hub"
                )

    def _made(self, tokenizer: Any, network: Any, loading: Any) -> None:
        """Put right what transformers makes of the file; ModelError where not all of it is there, or more is."""
        lacking = sorted(map(str, loading["missing_keys"]))
        n_here = sum(each.numel() for each in network.parameters())
        # Those that are shared are in the file once, and here.
        if lacking or n_here != self.header.n_weights:
            first = f" (first: {lacking[0]})" if lacking else ""
            raise ModelError(
                f"{self.asked}: transformers makes a model of {n_here:,} weights{first} of the file's "
                f"{self.header.n_weights:,}, so it is another model; {SERVE}, or take the model from the hub"
            )
        factors = [name for name in self.header.tensors if name.startswith("rope_")]
        if factors:
            network.config.rope_parameters = self._stretched(network.config, factors)
        self._begin(tokenizer)

    def _begin(self, tokenizer: Any) -> None:
        """Let the tokenizer begin texts with a BOS if the file says so, and only then; transformers does not look."""
        from tokenizers.processors import TemplateProcessing

        said = self.header.values.get("tokenizer.ggml.add_bos_token")
        if said is None:  # as llama.cpp takes it
            said = self.header.values.get("tokenizer.ggml.pre") in ("llama3", "llama-v3", "llama-bpe")
            said = said or self.header.values.get("tokenizer.ggml.model") == "llama"
        bos = tokenizer.bos_token
        if bos and said != (tokenizer("x")["input_ids"][:1] == [tokenizer.bos_token_id]):
            begun = {"single": [bos, "$A"], "special_tokens": [(bos, tokenizer.bos_token_id)]}
            plain = {"single": ["$A"], "special_tokens": []}
            tokenizer.backend_tokenizer.post_processor = TemplateProcessing(**(begun if said else plain))

    def _stretched(self, config: Any, factors: list[str]) -> dict[str, Any]:
        """Return how positions are stretched, which such a file says by factors and transformers by a rule."""
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
            f"{self.asked}: transformers leaves out {factors[0]}, by which positions are stretched; {SERVE}, or take "
            "the model from the hub"
        )


def _llama3_factors(theta: float, dim: int, factor: float) -> Any:
    """Return what frequencies are divided by, as llama.cpp writes it of Llama 3.1 and later."""
    import numpy as np

    longest = float(_LLAMA3["original_max_position_embeddings"])
    waves = 2 * np.pi * theta ** (np.arange(0, dim, 2) / dim)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = (longest / waves - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(waves < longest / high, 1.0, np.where(waves > longest / low, factor, between))


def look_into(model: ModelConfig, cache_folder: Path) -> Unpacking:
    """Say what a GGUF file, ``model.path``, is going to be.

    Parameters
    ----------
    model
        The model's card.
    cache_folder
        Where unpacked models are kept.

    Raises
    ------
    ModelError
        If it is no GGUF file, is damaged, or is one of several parts.
    """
    path, asked = Path(os.path.expanduser(model.path)), f"model.path={model.path}"
    header = read_header(path, asked)
    named = re.search(r"-\d{5}-of-(\d{5})\.gguf$", path.name)
    stated = header.values.get("split.count", 0)
    n_parts = max(stated if isinstance(stated, int) else 0, int(named[1]) if named else 0)
    if n_parts > 1:
        raise ModelError(
            f"{asked}: is one part of {n_parts}; join them by llama.cpp's llama-gguf-split --merge FIRST_PART "
            "WHOLE.gguf, and give model.path=WHOLE.gguf"
        )
    try:
        import accelerate  # noqa: F401
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    except ImportError as error:
        raise ModelError(f"{asked}: unpacking it needs {error.name}: pip install gguf accelerate") from error
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
        raise ModelError(f"{asked}: holds weights in a format that is not known ({error}); {SERVE}") from error
    if not header.tensors or not header.architecture:
        raise ModelError(f"{asked}: holds no model (a vocabulary alone?); give the file that holds the weights")
    digest = sha256(path)
    form = model.dtype if model.dtype in ("bfloat16", "float16") else "float32"
    folder = cache_folder / f"gguf-{form}-{_CONVERSION}-{digest[:16]}"
    return Unpacking(path, asked, digest, form, tuple(name for name, _ in kinds.most_common()), header, folder)


def convert(packed: Path, folder: Path, *, form: str, made: Callable[[Any, Any, Any], None] | None = None) -> None:
    """Write a GGUF file as a folder of safetensors in a number format; the folder appears whole or not at all.

    Parameters
    ----------
    packed
        The file.
    folder
        Is made.
    form
        ``float32``, ``bfloat16`` or ``float16``.
    made
        Takes the tokenizer, the network, and what transformers says of its loading, before they are written.

    Raises
    ------
    Exception
        Whatever transformers and safetensors raise.
    """
    try:
        import accelerate  # noqa: F401
        import gguf
    except ImportError as error:
        raise ModelError(f"unpacking the embedded model needs {error.name}: pip install gguf accelerate") from error
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    how: dict[str, Any] = {"quantization_config": GgufConfig(dequantize=True), "dtype": form}
    # It is written into the tokenizer's settings, which are part of what a model is: so it must not follow a variable.
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
    """Have functions of a module remember what they returned.

    transformers reads the 49,000 words of the file three times, and lays out the names of its layers for each module:
    10 of the 25 seconds that the first command takes here.
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
    """Return words of a file, or of a library about one, as a line that can be shown."""
    shown = "".join(each if each.isprintable() else " " for each in str(said))
    return " ".join(shown.split())[:300] or type(said).__name__
