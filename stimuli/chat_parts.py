"""The text of a message whose content is a list of parts, as chat programs export it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_TEXTS: Final = frozenset({"text", "output_text", "input_text"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Parts that were written before the answer, and are none of it."""


def joined_parts(content: Any) -> str | None:
    """Return the text of a list of parts, one after the other; None if it is no such list, or more than text is in it.

    A part is a text, or has ``text`` and, where it says so, a ``type``; thoughts are left out.

    Examples
    --------
    >>> joined_parts([{"type": "thinking", "thinking": "20?"}, {"type": "text", "text": "80"}])
    '80'
    >>> joined_parts([{"type": "image_url", "image_url": "..."}]) is None
    True
    """
    if not isinstance(content, list):
        return None
    texts = [_text(part) for part in content]
    return None if None in texts else "".join(text for text in texts if text is not None)


def has_refused(content: Any) -> bool:
    """Tell whether a part of a list says that the model refused."""
    return isinstance(content, list) and any(
        isinstance(part, Mapping) and (part.get("type") == "refusal" or has_refused(part.get("content")))
        for part in content
    )


def cell_text(cell: str) -> str:
    """Return a table's cell; of one that is a list of parts, their text."""
    if not (cell.startswith("[{") and cell.endswith("}]")):
        return cell
    try:
        text = joined_parts(json.loads(cell))
    except (ValueError, RecursionError):
        return cell
    return cell if text is None else text.strip()


def _text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type", "text")
    if kind in _THOUGHTS or part.get("thought") is True:
        return ""
    if kind == "message":
        inside = part.get("content")
        return inside if isinstance(inside, str) else joined_parts(inside)
    text = part.get("refusal") if kind == "refusal" else part.get("text") if kind in _TEXTS else None
    if isinstance(text, Mapping):
        text = text.get("value")
    return text if isinstance(text, str) else None
