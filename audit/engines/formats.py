"""The number format for computing a model: never one that the machine emulates, unless asked for by name."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from stimuli.files import LARGEST_TEXT, read_file

_HALF: Final = ("bfloat16", "float16")
_PROBED: Final = (256, 1024, 1024)  # rows, columns and width of the matrix products compared: milliseconds each


class Format(NamedTuple):
    """A number format, and the reason for it."""

    dtype: str
    why: str


def choose_format(asked: str, *, device: str, folder: Path) -> Format:
    """Return the format to compute a model in; ``asked`` is ``model.dtype``.

    On a CPU ``auto`` means float32, which is exact, unless the model's files are bfloat16 and the CPU multiplies that
    natively and no slower. On other devices it means the files' own format, which engines accept as ``auto``.
    """
    own = _format_of_files(folder)
    if device != "cpu":
        return Format(asked, "asked for" if asked != "auto" else f"the files' own, on {device}")
    faster = native_bfloat16()
    if asked != "auto":
        if asked == "float32":
            return Format(asked, "the model's card or the command asks for it; exact")
        slow = asked in _HALF and (asked == "float16" or not faster)
        return Format(asked, f"asked for, and slow: {cpu_capability()} emulates it" if slow else "asked for")
    if own not in _HALF:
        return Format("float32", "the files' own")
    if own == "bfloat16" and faster:
        return Format("bfloat16", f"the files' own, native to this CPU ({cpu_capability()}) and no slower")
    return Format("float32", f"exact, and {own}, the files' own, is not faster on this CPU ({cpu_capability()})")


def cpu_capability() -> str:
    """Return torch's name for the instruction set it uses on this CPU, such as AVX2 or AVX512."""
    import torch

    return str(torch.backends.cpu.get_cpu_capability())


@cache
def native_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively, and no slower than float32."""
    import torch

    supported = (getattr(torch.cpu, f"_is_{name}_supported", bool)() for name in ("avx512_bf16", "amx_tile"))
    # torch may be told not to use them (ATEN_CPU_CAPABILITY).
    if cpu_capability() in ("DEFAULT", "NO AVX", "AVX2") or not any(supported):
        return False
    return _seconds(torch, torch.bfloat16) <= _seconds(torch, torch.float32)


def _seconds(torch: Any, dtype: Any) -> float:
    """Return the shortest time of a matrix product, of five after a warm-up."""
    rows, columns, width = _PROBED
    one, other = torch.ones(rows, width, dtype=dtype), torch.ones(columns, width, dtype=dtype)
    times = []
    with torch.inference_mode():
        for _ in range(6):
            start = time.perf_counter()
            torch.nn.functional.linear(one, other)
            times.append(time.perf_counter() - start)
    return min(times[1:])


def _format_of_files(folder: Path) -> str:
    """Return the format in a model's ``config.json``; float32 if it names none."""
    try:
        config = json.loads(read_file(folder / "config.json", at_most=LARGEST_TEXT))
    except (OSError, ValueError):
        return "float32"
    inner = config.get("text_config") or {}
    named = config.get("dtype") or config.get("torch_dtype") or inner.get("dtype") or inner.get("torch_dtype")
    return str(named or "float32").removeprefix("torch.")
