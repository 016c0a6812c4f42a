"""Whether a rendered prompt shows every message: perceiver, earlier turns, narrative and question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from audit.engines.dialects import without_thoughts
from stimuli.prompts import Prompt

NOTHING: Final = "empathy-audit-nothing-said"
_TOLD_APART: Final = 8  # characters from which a text is too long to occur in a template by chance


def not_shown_once(prompt: Prompt, render: Callable[[Prompt], str]) -> str:
    """Say how a template fails to show every message once, in order, up to white space and earlier thoughts."""
    said = [
        (who, text.strip())
        for who, text in (("system", prompt.system), *prompt.turns, ("user", prompt.user))
        if text.strip() and (who != "assistant" or without_thoughts(text) == text)
    ]
    text, place = render(prompt), 0
    for who, each in said:
        found = text.find(each, place)
        if found < 0:
            how = "changes the order of the messages" if each in text else "leaves out part of the messages"
            return f"{how} ({who}: {quoted_start(each)})"
        place = found + len(each)
    joined = "\0".join(each for _, each in said)
    for who, each in said:
        more = text.count(each) - joined.count(each)
        if more and len(each) >= _TOLD_APART and more > _frame(prompt, render).count(each):
            return f"repeats part of the messages ({who}: {quoted_start(each)})"
    return ""


def _frame(prompt: Prompt, render: Callable[[Prompt], str]) -> str:
    """Return a prompt rendered with empty messages."""
    turns = tuple((role, NOTHING) for role, _ in prompt.turns)
    system = NOTHING if prompt.system else ""
    return render(replace(prompt, system=system, turns=turns, user=NOTHING)).replace(NOTHING, "")


def quoted_start(text: str) -> str:
    """Return a text's beginning, in quotes and in one line."""
    words = " ".join(text.split())
    return repr(words if len(words) <= 60 else f"{words[:57]}...")
