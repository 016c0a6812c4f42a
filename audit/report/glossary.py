"""The page's terms in short, from the documentation's glossary: one text for both."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

TERMS: Final = (
    "in-group", "perceiver", "experiencer", "narrative", "term", "δ", "disparity", "margin", "interval", "corrected p",
    "own gap", "echo", "invented groups", "manipulation check", "any such identities", "elicitation", "number mass",
    "refused", "unparseable", "tipping point",
)  # fmt: skip
"""Those that a reader meets on pages of runs."""
_ALSO: Final = {"Check:": "manipulation check", "out-group": "in-group", "narratives": "narrative", "terms": "term"}
"""Other words for them on the page."""
_TAG: Final = re.compile(r"(<[^>]+>)")
_APART: Final = frozenset(
    {"a", "bdi", "blockquote", "button", "code", "dialog", "dl", "figure", "form", "h2", "h3", "h4", "pre", "script",
     "style", "summary", "svg", "table"}
)  # fmt: skip
"""Elements whose text is not explained: names that anybody may have chosen, headings, tables and what is pressed."""


@cache
def glossary() -> dict[str, str]:
    """Return the definition of each term, without links and emphasis."""
    packaged = resources.files("audit.report").joinpath("glossary.md")
    beside = Path(__file__).parents[2] / "docs" / "glossary.md"
    text = packaged.read_text("utf-8") if packaged.is_file() else beside.read_text("utf-8")
    found: dict[str, str] = {}
    for block in re.findall(r"```\{glossary\}\n(.*?)```", text, re.DOTALL):
        for entry in block.strip().split("\n\n"):
            lines = entry.splitlines()
            said = " ".join(line.strip() for line in lines if line.startswith("  "))
            said = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", said)
            found |= {line: said for line in lines if not line.startswith("  ")}
    return found


def words() -> Markup:
    """List the terms with their definitions."""
    rows = (Markup('<dt>{}</dt><dd id="{}">{}</dd>').format(name, _anchor(name), glossary()[name]) for name in TERMS)
    return Markup("<dl>\n{}\n</dl>").format(Markup("\n").join(rows))


def explained(page: str) -> Markup:
    """Mark each term of :func:`words` where it first stands, if the page has them."""
    if f'id="{_anchor(TERMS[0])}"' not in page:
        return Markup(page)
    left = {str(escape(name)): name for name in TERMS} | _ALSO
    parts = _TAG.split(page)
    apart = 0
    for at, part in enumerate(parts):
        if at % 2:
            element = re.match(r"</?(\w+)", part)
            if element is not None and element[1] in _APART:
                apart += -1 if part.startswith("</") else 1
            continue
        if apart or not part.strip():
            continue
        for word, name in list(left.items()):
            # Between spaces, so that no mark of punctuation is torn from its word.
            found = re.search(rf"(?:^|(?<=\s)){re.escape(word)}(?=\s|$)", part)
            if found is not None and word in left:
                marked = f'<dfn tabindex="0" aria-describedby="{_anchor(name)}">{word}</dfn>'
                parts[at] = part = part[: found.start()] + marked + part[found.end() :]
                left = {other: same for other, same in left.items() if same != name}
                break  # one of a text: what was written into it is no text
    return Markup("".join(parts))


def _anchor(name: str) -> str:
    return "term-" + name.replace(" ", "-")
