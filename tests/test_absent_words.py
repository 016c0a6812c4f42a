"""What tests look for in vain could be there: that a sentence's former words are absent says nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import audit
import stimuli

TESTS = Path(__file__).parent
PACKAGES = [Path(package.__file__ or "").parent for package in (audit, stimuli)]
WORDS = 3
"""Of a sentence in a row by which it is known; what has fewer is a name or a unit."""


def words_of(text: str) -> list[str]:
    """Return a text's words as a reader sees them, with a mark for each that a number or a name is filled into."""
    plain = re.sub(r"<[^>]*>", "", text).replace("&#39;", "'").replace("&amp;", "&")
    return [word.strip(".,:;()?\"“”'") for word in re.sub(r"\{\{.*?\}\}|\{[^}%]*\}|\S*\d\S*", " \0 ", plain).split()]


def runs_of(text: str) -> set[tuple[str, ...]]:
    """Return every few words in a row of a text, without those that are filled in."""
    words = words_of(text)
    rows = (tuple(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1))
    return {row for row in rows if "\0" not in row}


def strings_of(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module but docstrings; what an f-string fills in is marked."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in (node for node in ast.walk(tree) if id(node) not in docstrings):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def written() -> set[tuple[str, ...]]:
    """Return every few words in a row that the packages may write."""
    found: set[tuple[str, ...]] = set()
    files = (path for package in PACKAGES for path in package.rglob("*"))
    for path in (path for path in files if path.suffix in (".py", ".j2", ".js", ".yaml")):
        text = path.read_text("utf-8")
        for each in strings_of(ast.parse(text)) if path.suffix == ".py" else [text]:
            found |= runs_of(each)
    return found


def looked_for_in_vain(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that a module asserts to be absent, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for each in ast.walk(node.test):
                if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.NotIn):
                    yield from ((each.lineno, text) for text in strings_of(each.left))


def test_what_is_said_to_be_absent_is_written_somewhere(written: set[tuple[str, ...]]) -> None:
    gone = []
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for line, text in looked_for_in_vain(tree):
            runs = runs_of(text)
            # A test may plant the words itself, or see them where they should be.
            if runs and not runs & written and sum(bool(runs & runs_of(own)) for own in strings_of(tree)) < 2:
                gone.append(f"{path.relative_to(TESTS)}:{line}: {text}")
    assert not gone, "\n".join(gone)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("Of {n} pairs, <b>12</b> were left out: long.", {("were", "left", "out"), ("left", "out", "long")}),
        ("two words", set()),
    ],
)
def test_filled_in_values_part_the_words(text: str, runs: set[tuple[str, ...]]) -> None:
    assert runs_of(text) == runs
