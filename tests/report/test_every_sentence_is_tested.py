"""No sentence of the first screens and of the cards beneath them is without a test that knows it by its words.

What is held here is that a test names each: whether it is true of what it is said of, those tests say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import audit
from audit.tables.formatting import listed

TESTS = Path(__file__).parents[1]
FOLDER = Path(audit.__file__).parent
MODULES = (
    "report/summary", "tasks/intensity/first_screen", "comparing/first_screen", "report/sentences", "report/verdicts",
    "report/heterogeneity", "report/effect_size", "report/echo", "report/refusals", "tasks/reply/first_screen",
    "tasks/inventory/first_screen", "comparing/reply_page", "comparing/preference/page",
)  # fmt: skip
WORDS = 3
"""Of a sentence in a row that a test has to name; what has fewer is a title or a unit."""
NO_SENTENCES = re.compile(
    r"(_table|_part|_sections|_described|_of_groups|_of_pairs|_counted|_column|changes_paper|describe_)"
)
"""Functions that write headings and captions: `tests/report/test_*_page.py` hold their numbers against the tables."""


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are no docstrings, and the lines that they begin in."""
    tree = ast.parse(path.read_text("utf-8"))
    left_out = {
        id(each)
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef) and NO_SENTENCES.search(node.name)) or isinstance(node, ast.Expr)
        for each in (ast.walk(node) if isinstance(node, ast.FunctionDef) else [node.value])
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def pieces(sentence: str) -> list[list[str]]:
    """Return the words between what is filled in, where these are enough to know the sentence by."""
    cut = [piece.strip(" .:;,()?").split() for piece in re.split(r"\{[^}]*\}|<[^>]*>", sentence)]
    return [words for words in cut if len(words) >= WORDS]


@pytest.fixture(scope="module")
def tested() -> str:
    """Return all tests but this one as one text: strings joined as Python does, expressions without backslashes."""
    text = " ".join(" ".join(path.read_text("utf-8").split()) for path in TESTS.rglob("*.py") if path != Path(__file__))
    return re.sub(r"""(["']) r?f?\1""", "", text).replace("\\", "")


@pytest.mark.parametrize("module", MODULES)
def test_each_sentence_is_named_by_a_test(module: str, tested: str) -> None:
    path = FOLDER / f"{module}.py"
    # A constant is known by its name, where a test uses it.
    constants = {
        line
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.AnnAssign) and re.search(rf"\b{ast.unparse(node.target)}\b", tested)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    unknown = [
        f"line {line}: {sentence}"
        for line, sentence in sentences(path)
        if line not in constants
        and pieces(sentence)
        and not any(
            " ".join(words[at : at + WORDS]) in tested
            for words in pieces(sentence)
            for at in range(len(words) - WORDS + 1)
        )
    ]
    assert unknown == [], listed(unknown)
