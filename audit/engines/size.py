"""A model's size from the headers of its weight files, without loading it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from audit.tables.json_text import parse_json

_NUMBERS: Final = frozenset({"F64", "F32", "F16", "BF16"})
"""Safetensors types in which each stored number is one weight; other types are packed."""
_LONGEST: Final = 100_000_000  # bytes of a header that the format allows


def model_size(folder: Path) -> dict[str, int]:
    """Return a model's number of ``parameters`` and its ``weights_bytes`` on disk, of safetensors files alone.

    ``parameters`` is missing if weights are packed, as quantised ones are. A weight that two layers share counts once.
    """
    files = sorted(folder.glob("*.safetensors"))
    found = [_numbers_in(path) for path in files]
    if not found or None in found:
        return {}
    sizes = {"weights_bytes": sum(path.stat().st_size for path in files)}
    numbers = [n for each in found if each is not None for n in each]
    return sizes if None in numbers else {"parameters": sum(n for n in numbers if n is not None), **sizes}


def _numbers_in(path: Path) -> list[int | None] | None:
    """Return each tensor's number of values, None for a packed one; None if the header cannot be read."""
    try:
        with path.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = parse_json(handle.read(length)) if 0 < length <= _LONGEST else None
        if not isinstance(header, dict):
            return None
        tensors = [each for name, each in header.items() if name != "__metadata__"]
        return [math.prod(each["shape"]) if each["dtype"] in _NUMBERS else None for each in tensors]
    except (OSError, ValueError, KeyError, TypeError):
        return None
