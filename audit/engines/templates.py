"""The user's own chat template of a model, or our plain form for base models; and the date that templates print.

Templates are rendered here and not by transformers, so that they get our clock and a prompt does not depend on the
version: from 5.22 on, transformers hands a template the name of a function in place of the function.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from audit.errors import ModelError

PLAIN: Final = "plain"
"""The plain form's name, as ``model.chat_template`` has it."""
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
_LONGEST: Final = 2**20
"""Bytes of a template's file, at most: what is longer is no template."""


@dataclass(frozen=True)
class ChatTemplate:
    """How messages become the text that a model is given, where that is not left to the model's own tokenizer.

    Attributes
    ----------
    asked
        How messages call it, such as ``model.chat_template=FILE``.
    text
        A Jinja template, as transformers takes one; see :func:`rendered`.
    is_plain
        Whether it is our plain form.
    """

    asked: str
    text: str
    is_plain: bool

    @property
    def sha256(self) -> str:
        """The hash of its text, by which a run names it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fault(self, error: Exception) -> str:
        """Say in a line what is wrong with the template, and where."""
        line = getattr(error, "lineno", None)
        if line is None:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)
        place = f", line {line}" if line is not None else ""
        return f"{self.asked}{place}: {' '.join(str(error).split()) or type(error).__name__}"

    def cut(self, text: str) -> str:
        """Return what a model wrote, up to where it goes on with a question of its own.

        A base model does not end its answer: in the plain form it goes on with the next question. A user's own template
        says nothing of the kind.
        """
        found = _NEXT_QUESTION.search(text) if self.is_plain else None
        return text if found is None else text[: found.start()].rstrip()


def read_template(asked: str | None) -> ChatTemplate | None:
    """Return the template that ``model.chat_template`` names; None where it names none.

    Parameters
    ----------
    asked
        A file, or ``plain``.

    Raises
    ------
    ModelError
        If the file cannot be read, or holds no text.
    """
    if asked is None:
        return None
    said = f"model.chat_template={asked}"
    if asked == PLAIN:
        return ChatTemplate(said, _PLAIN, True)
    path = Path(os.path.expanduser(asked))
    try:
        with path.open("rb") as handle:
            content = handle.read(_LONGEST + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{said}: is no text in UTF-8; give a Jinja file, or {PLAIN}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{said}: cannot be read ({reason}); give a Jinja file, or {PLAIN}") from error
    if len(content) > _LONGEST or not text.strip():
        wrong = "is empty" if not text.strip() else "is longer than a template"
        raise ModelError(f"{said}: {wrong}; give a Jinja file, or {PLAIN}")
    return ChatTemplate(said, text, False)


def rendered(template: str, messages: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> str:
    """Return what a chat template makes of messages, up to where the answer begins.

    Parameters
    ----------
    template
        Jinja, with the names that transformers gives a chat template: ``raise_exception``, ``tojson`` without escapes,
        ``break``, ``continue`` and ``generation``. It runs in a sandbox, and cannot change what it is given.
    messages
        Each with ``role`` and ``content``.
    told
        What else it may read, such as :func:`pinned`, and the names of special tokens.

    Raises
    ------
    Exception
        Of any kind, as the template's author chose.
    """
    shown = {"tools": None, "documents": None, **told}
    return _compiled(template).render(messages=messages, add_generation_prompt=True, **shown)


@lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _as_json
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(template)


class _Generation(Extension):
    """``{% generation %}``, by which templates tell trainers what the model wrote: shown as it stands."""

    tags = {"generation"}  # noqa: RUF012 (jinja asks for a set)

    def parse(self, parser: Parser) -> nodes.Node:
        """Read up to the tag's end; what is set within holds there alone."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _as_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own writes < and & for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def pinned(date: str) -> dict[str, Any]:
    """Return the variables by which a chat template is told the date, whichever of the two ways it asks for it.

    Llama's write ``date_string`` where it is given; others call ``strftime_now``.

    Parameters
    ----------
    date
        YYYY-MM-DD.
    """
    return {"date_string": datetime.fromisoformat(date).strftime("%d %b %Y"), "strftime_now": clock(date)}


def clock(date: str) -> Callable[[str], str]:
    """Return what writes a date, YYYY-MM-DD, in the form that it is given: ``strftime_now`` on that day."""
    day = datetime.fromisoformat(date)

    def strftime_now(form: str) -> str:
        return day.strftime(form)

    return strftime_now


def another_day(date: str) -> str:
    """Return a date, YYYY-MM-DD, that has no part in common with another one."""
    first, second = "2011-03-05", "2012-11-19"
    return second if set(date.split("-")) & set(first.split("-")) else first


def shows_day(text: str, day: datetime) -> str | None:
    """Return a date as a text shows it, in one of the forms that chat templates use; None where it does not."""
    forms = ("%Y-%m-%d", "%d %b %Y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y", "%d-%m-%Y", "%d/%m/%Y", "%m/%d/%Y")
    return next((shown for form in forms if (shown := day.strftime(form)) in text), None)
