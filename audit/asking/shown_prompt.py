"""One prompt as a terminal shows it, before a model is asked: whether the text is of the person whom it asks about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.tables.formatting import plural

_SHOWN: Final = 700
"""Letters of a message that are shown."""


def shown_prompt(prompt: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a prompt, shortened.

    Parameters
    ----------
    prompt
        ``system``, ``user`` and, where there are any, ``turns`` between them and what the answer is ``begun`` with.
    """
    n_turns, begun = len(prompt.get("turns", ())), prompt.get("begun", "")
    before = f"({plural(n_turns, 'message')} before it) " if n_turns else ""
    yield "the first prompt:"
    for role, text in (("system", prompt["system"]), ("user", before + prompt["user"]), ("begun", begun)):
        lines = _middle_out(text).splitlines()
        yield from (f"  {f'{role}:' if place == 0 else '':<8}{line}" for place, line in enumerate(lines))


def _middle_out(text: str) -> str:
    """Return a text, of a long one its beginning and its end."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"
