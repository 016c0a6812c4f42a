"""The first screen of a page as lines for a terminal; they say what it says, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from markupsafe import Markup

from audit.report.summary import LESS, REFUSED_MORE, SIDE, Summary

NEXT: Final = "next"
_ASKED: Final = {
    SIDE: "Does its own group get more or less?",
    LESS: "Does a group get less, whoever it speaks as?",
    REFUSED_MORE: "Is a group refused more, whoever it speaks as?",
    ": refusals": "Does it refuse more often about its own group or about others?",
}
"""A finding's question, in everyday words."""
_LINK: Final = re.compile(r" <a .*?</a>")  # to the page's banner


def in_lines(first: Summary) -> dict[str, str]:
    """Return a first screen as lines for a terminal by their names; what it says of no number, they do not say."""
    answers: dict[tuple[str, str], list[str]] = {}
    for each in first.findings:
        shown = (f"{_plain(each.number)}{each.unit}" if each.number else "", _plain(each.spread))
        number = "; ".join(filter(None, shown)) if each.kind != "absent" else ""
        said = f"{_plain(each.verdict)}{f' ({number})' if number else ''}."
        answers.setdefault((each.title, said), []).append(_ASKED.get(each.tail, ""))
    answer = [
        " ".join(filter(None, [f"{title}:", *(asked if len(asked) == 1 else ()), said]))
        for (title, said), asked in answers.items()
    ]
    lines = {name: _plain(words) for name, words in first.lines}
    check = [f"{name} {lines[name][:1].lower()}{lines[name][1:]}" for name in ("Check", "Not checked") if name in lines]
    care = [f"Read with care: {lines['Read with care']}"] if "Read with care" in lines else []
    named = {
        "answer": "\n".join([*(answer or ["Nothing was measured."]), *filter(None, [first.left_out])]),
        "how sure": " ".join(filter(None, [*check, lines.get("How sure", ""), *care])),
        "careful": f"This does not show {lines['This does not show']}" if "This does not show" in lines else "",
        NEXT: "\n".join([_plain(first.step), *first.commands]),
    }
    return {name: words for name, words in named.items() if words}


def named_lines(lines: Mapping[str, str]) -> Iterator[str]:
    """Yield lines with their names in front, as a command prints them."""
    for name, words in lines.items():
        for place, line in enumerate(words.split("\n")):
            yield f"{'' if place else f'{name}:':<10}{line}"


def _plain(words: str) -> str:
    return Markup(_LINK.sub("", words)).striptags()
