"""The user's chat template for a model, our plain form for base models, and the date that templates print."""

from __future__ import annotations

import hashlib
import os
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from audit.errors import ModelError
from stimuli.errors import in_one_line
from stimuli.files import open_file

PLAIN: Final = "plain"  # value of `model.chat_template` for the plain form
_PLAIN: Final = (
    "{%- for message in messages %}"
    "{%- if message['role'] == 'user' %}{{ 'Question:\\n' }}"
    "{%- elif message['role'] == 'assistant' %}{{ 'Answer:\\n' }}"
    "{%- endif %}"
    "{{ message['content'] + '\\n\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ 'Answer:\\n' }}{%- endif %}"
)
_NEXT_QUESTION: Final = re.compile(r"^[ \t]*Question:", re.MULTILINE)
_LONGEST: Final = 2**20  # bytes of a template's file, at most


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template in place of the one in the model's own tokenizer."""

    asked: str  # names it in messages
    text: str  # Jinja, as transformers takes it
    is_plain: bool

    @property
    def sha256(self) -> str:
        """The text's hash, part of a run's identity."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fault(self, error: Exception) -> str:
        """Say in one line what is wrong with the template, and where."""
        line = getattr(error, "lineno", None)
        if line is None:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)
        place = f", line {line}" if line is not None else ""
        return f"{self.asked}{place}: {in_one_line(error) or type(error).__name__}"

    def cut(self, text: str) -> str:
        """Return a model's text up to where it starts a question of its own, as a base model does in the plain form."""
        found = _NEXT_QUESTION.search(text) if self.is_plain else None
        return text if found is None else text[: found.start()].rstrip()


def read_template(asked: str | None) -> ChatTemplate | None:
    """Return the template that ``model.chat_template`` names, a file or ``plain``; None if it names none."""
    if asked is None:
        return None
    said = f"model.chat_template={asked}"
    if asked == PLAIN:
        return ChatTemplate(said, _PLAIN, True)
    path = Path(os.path.expanduser(asked))
    try:
        with open_file(path) as handle:
            content = handle.read(_LONGEST + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{said}: is not UTF-8 text; give a Jinja file, or {PLAIN}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{said}: cannot be read ({reason}); give a Jinja file, or {PLAIN}") from error
    if len(content) > _LONGEST or not text.strip():
        wrong = "is empty" if not text.strip() else "is longer than a template"
        raise ModelError(f"{said}: {wrong}; give a Jinja file, or {PLAIN}")
    return ChatTemplate(said, text, False)


def pinned(date: str) -> dict[str, Any]:
    """Return the template variables that give the date (YYYY-MM-DD), in both ways that templates ask for it."""
    return {"date_string": datetime.fromisoformat(date).strftime("%d %b %Y"), "strftime_now": clock(date)}


def clock(date: str) -> Callable[[str], str]:
    """Return ``strftime_now`` for a fixed day, YYYY-MM-DD."""
    day = datetime.fromisoformat(date)

    def strftime_now(form: str) -> str:
        return day.strftime(form)

    return strftime_now


def another_day(date: str) -> str:
    """Return a date, YYYY-MM-DD, with year, month and day all different."""
    first, second = "2011-03-05", "2012-11-19"
    return second if set(date.split("-")) & set(first.split("-")) else first


def shows_day(text: str, day: datetime) -> str | None:
    """Return a date as a text shows it, in one of the forms of chat templates, or None."""
    forms = ("%Y-%m-%d", "%d %b %Y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y", "%d-%m-%Y", "%d/%m/%Y", "%m/%d/%Y")
    return next((shown for form in forms if (shown := day.strftime(form)) in text), None)
