"""``recover``: restores as much as possible of a damaged run folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage, usage_lines
from audit.cli.terminal.printing import tell

_USAGE: Final = Usage("recover", "RUN_DIR")

_HELP: Final = """
Brings back what can be of a run's folder that was damaged, and says what to do next. Nothing is deleted.

A manifest that is gone or damaged is restored from its copy. Files that cannot be read, are there twice or are not of
this run are moved to RUN_DIR/set-aside/, so that the command that made the run asks for them anew. Where no manifest
can be had, as in runs of earlier versions, the ratings are written to RUN_DIR/recovered/, and the command is printed
that analyses them as those of another tool.
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP


def _recover(words: Sequence[str]) -> int:
    from audit.extras.integrity.recover import recover

    path = _USAGE.read(words).one_folder()
    made = recover(path)
    for line in made.done:
        tell(line)
    for number, line in enumerate(made.next):
        tell(line if number else f"next: {line}")
    return OK


COMMAND: Final = Command(
    "recover", "bring back what can be of a run's folder that was damaged", _help, _recover, usages=(_USAGE,)
)
