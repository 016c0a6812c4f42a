"""Renders chat templates here instead of in transformers: they get our clock, and prompts do not depend on its version.

From 5.22 on, transformers gives a template the name of a function in place of the function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


def rendered(template: str, messages: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> str:
    """Return what a chat template makes of messages up to the answer, in a sandbox with the names of transformers."""
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
    """``{% generation %}``, which marks the model's text for training: rendered as its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja asks for a set)

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse up to the end tag; variables set inside stay local."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _as_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes < and & for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
