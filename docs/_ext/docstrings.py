"""What Sphinx's napoleon would read otherwise than numpydoc means it."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_SEVERAL = re.compile(r"^:ivar (?P<names>\w+(?:, \w+)+): ")


def _whole(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Keep a property's first line together: napoleon takes what stands before a colon in it for a type."""
    if what == "property":
        lines[:0] = ["..", ""]


def _one_field(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make one name of attributes that are described together: of two words Sphinx takes the first for a type."""
    lines[:] = [_SEVERAL.sub(lambda found: f":ivar {found['names'].replace(', ', '/')}: ", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Do one before napoleon's turn, which is 500, and one after it."""
    app.connect("autodoc-process-docstring", _whole, priority=400)
    app.connect("autodoc-process-docstring", _one_field, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
