"""The pages of the documentation, read as Markdown: their links, headings and blocks of code."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BESIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "reports" / "README.md"]
SHELLS = ("", "console", "sh", "bash")
_COMMENT_MARK = re.compile(r"<!--(.*?)-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its text, and what the comment right before it says."""

    page: str
    language: str
    text: str
    remark: str


@cache
def tokens(page: Path):
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark").enable("table")
    return parser.parse(page.read_text(encoding="utf-8"))


def inline(page: Path):
    for token in tokens(page):
        yield from token.children or []


def links(page: Path) -> list[str]:
    """The targets of all links and pictures."""
    named = {"link_open": "href", "image": "src"}
    return [str(token.attrs[named[token.type]]) for token in inline(page) if token.type in named]


def anchors(page: Path) -> set[str]:
    """What a link to a heading may end in, by GitHub's rule; the site's is the same."""
    found: list[str] = []
    after_heading = False
    for token in tokens(page):
        if after_heading:
            text = "".join(each.content for each in token.children if each.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
        after_heading = token.type == "heading_open"
    return set(found)


def blocks(page: Path) -> Iterator[Block]:
    remark = ""
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            yield Block(page.name, token.info.split(" ")[0], token.content, remark)
        said = _COMMENT_MARK.search(token.content) if token.type == "html_block" else None
        remark = said[1].strip() if said else ""


def shell_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a block, with what the block itself says that a variable is."""
    lines = text.replace("\\\n", " ").splitlines()
    known: dict[str, str] = {}
    for line in lines:
        line = line.removeprefix("$ ")
        if given := re.fullmatch(r'([A-Z]+)="([^"]*)"', line):
            known[given[1]] = given[2]
        for name, value in known.items():
            line = line.replace(f"${name}", value)
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:  # a line of prose, such as one with an apostrophe
            continue
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set(";|&"):
                if command:
                    yield command
                command = []
            else:
                command.append(word)


def audits(page: Path) -> list[list[str]]:
    """The words after `python -m audit` of every command of a page, in its blocks and in its sentences."""
    found = []
    texts = [block.text for block in blocks(page) if block.language in SHELLS]
    texts += [token.content for token in inline(page) if token.type == "code_inline"]
    for text in texts:
        for words in shell_commands(text):
            place = next((n for n in range(len(words) - 1) if words[n : n + 2] == ["-m", "audit"]), None)
            if place is not None and re.search(r"(^|/)python$", words[place - 1]):
                found.append(words[place + 2 :])
    return found
