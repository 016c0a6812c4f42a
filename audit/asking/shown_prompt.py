"""Prints one prompt in the terminal before the model is asked, so that the user can check whom the text is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.tables.formatting import plural

_SHOWN: Final = 700  # longest message that is shown whole, in characters


def shown_prompt(prompt: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a prompt, shortened."""
    n_turns, begun = len(prompt.get("turns", ())), prompt.get("begun", "")
    before = f"({plural(n_turns, 'message')} before it) " if n_turns else ""
    yield "the first prompt:"
    for role, text in (("system", prompt["system"]), ("user", before + prompt["user"]), ("begun", begun)):
        lines = _middle_out(text).splitlines()
        yield from (f"  {f'{role}:' if place == 0 else '':<8}{line}" for place, line in enumerate(lines))


def _middle_out(text: str) -> str:
    """Return a text, without its middle if it is long."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"
