"""How large a model is, as the headers of its weights say: nothing is loaded for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from audit.tables.json_text import parse_json

_NUMBERS: Final = frozenset({"F64", "F32", "F16", "BF16"})
"""Types of safetensors in which a number of the file is a weight of the model; others are packed."""
_LONGEST: Final = 100_000_000
"""Bytes of a header that the format allows."""


def size_of(folder: Path) -> dict[str, int]:
    """Return what a model's weights come to: ``parameters``, and ``weights_bytes`` on the disk.

    Parameters
    ----------
    folder
        Holds the model. Its files of safetensors count; others have no header that tells.

    Returns
    -------
    dict
        Without ``parameters`` where weights are packed, as quantised ones are, so that their number is not the
        model's. Nothing at all where a file cannot be read as safetensors, or there is none. A weight that two layers
        share counts once, as it is stored once.
    """
    files = sorted(folder.glob("*.safetensors"))
    found = [_numbers_in(path) for path in files]
    if not found or None in found:
        return {}
    sizes = {"weights_bytes": sum(path.stat().st_size for path in files)}
    numbers = [n for each in found if each is not None for n in each]
    return sizes if None in numbers else {"parameters": sum(n for n in numbers if n is not None), **sizes}


def _numbers_in(path: Path) -> list[int | None] | None:
    """Return how many numbers each tensor has, None of a packed one; None where the header cannot be read."""
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
