"""``recover``: restores as much as possible of a damaged run folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage
from audit.cli.terminal.printing import tell

_USAGE: Final = Usage("recover", "RUN_DIR")

_HELP: Final = """
Repairs a damaged run folder as far as possible, and says what to do next. Nothing is deleted.

A missing or damaged manifest is restored from its copy. Files that cannot be read, occur twice or belong to another run
are moved to RUN_DIR/set-aside/; the command that made the run then asks for them again. If there is no manifest and no
copy, as in runs of earlier versions, the ratings are written to RUN_DIR/recovered/, and the command is printed that
analyses them as ratings of another tool.
"""


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
    "recover", "repair a damaged run folder as far as possible", lambda: _USAGE.help(_HELP), _recover, usages=(_USAGE,)
)
