"""Collects what a command can tell its user: the text of every fault, note and line, from the syntax trees.

``python tests/cli/messages.py`` writes ``messages.txt`` anew; read what changed there as a user would.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).with_name("messages.txt")
_HEAD: Final = """\
# What a command can tell its user, by the module that says it: faults (raise), remarks (say, note) and results (tell).
# Made by: python tests/cli/messages.py. {...} stands for a value. Read it whole when wording is reviewed.
"""
_RETURNING: Final = frozenset(
    {"audit/configuration/overrides.py", "audit/configuration/composition.py", "stimuli/faults.py"}
)
"""Modules whose functions return what others raise."""
_TOLD: Final = frozenset({"say", "note", "tell"})
_GATHERED: Final = frozenset({"add", "note", "refuse"})
"""What gathers faults of rows: a place or rows, and what is wrong there."""
_FAULT: Final = re.compile(r"(Error|Fault|Malformed)$")


def messages(source: str, *, returned: bool = False) -> list[str]:
    """Return the templates of the messages of a module, in their order, each once.

    ``returned``: whether the module's functions return messages, which others raise.

    Examples
    --------
    >>> messages('raise ConfigError(f"{name}={text}: a number" " is wanted")')
    ['{name}={text}: a number is wanted']
    >>> messages('say(f"note: {a if b else 1:.2f}")')
    ['note: {...}']
    """
    return list(dict.fromkeys(_texts(ast.parse(source), returned=returned)))


def written() -> str:
    """Return the whole of the file, as the sources have it now."""
    blocks = [_HEAD]
    for path in sorted([*(ROOT / "audit").rglob("*.py"), *(ROOT / "stimuli").rglob("*.py")]):
        name = path.relative_to(ROOT).as_posix()
        if found := messages(path.read_text("utf-8"), returned=name in _RETURNING):
            blocks.append("\n".join([f"== {name}", *found]) + "\n")
    return "\n".join(blocks)


def _texts(tree: ast.AST, *, returned: bool = False) -> Iterator[str]:
    for node in ast.walk(tree):
        if returned and isinstance(node, (ast.Return, ast.Assign)) and node.value is not None:
            text = _template(node.value)
            if text.count(" ") > 2:  # a sentence, or the part of one
                yield text
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _FAULT.search(_name(node.exc)):
            yield from _of_call(node.exc)
        elif isinstance(node, ast.Call) and (_name(node) in _TOLD or _makes_a_fault(node)):
            yield from _of_call(node)
        if isinstance(node, ast.Call) and _name(node) in _GATHERED and len(node.args) == 2:
            said = node.args[1].body if isinstance(node.args[1], ast.Lambda) else node.args[1]
            if (text := _template(said)).count(" ") > 2:
                yield text


def _makes_a_fault(call: ast.Call) -> bool:
    return bool(_FAULT.search(_name(call))) and bool(call.args)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _of_call(call: ast.Call) -> Iterator[str]:
    for argument in call.args[:1]:
        text = _template(argument)
        if re.search(r"[A-Za-z]{2}", re.sub(r"\{[^}]*\}", "", text)):
            yield text


def _template(node: ast.expr) -> str:
    """Return a text with its values in braces; those that are no plain names are left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("\n", "\\n")
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        plain = isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript))
        shown = ast.unparse(node.value) if plain else "..."
        return "{" + (shown if "{" not in shown and len(shown) <= 40 else "...") + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_template(node.body)} | {_template(node.orelse)}"
    return "{...}"


if __name__ == "__main__":
    FILE.write_text(written(), "utf-8")
    print(f"written: {FILE}")
