"""``consolidate``: merges the parts of finished runs into one file for each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage, see, usage_lines
from audit.cli.terminal.printing import tell
from audit.errors import ConfigError

_USAGE: Final = Usage("consolidate", "RUN_DIR ...")

_HELP: Final = """
Writes each table of a finished run that lies in parts, as in runs of earlier versions, into one file: ratings/ becomes
ratings.parquet, of the same rows. What `run` finishes is so already. Nothing is analysed, and no model is needed.
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP


def _consolidate(words: Sequence[str]) -> int:
    from audit.tasks.pipeline import consolidate_run

    given = _USAGE.read(words)
    if not given.places:
        raise ConfigError(f"consolidate takes run folders, got none; {see('consolidate')}")
    for path in map(Path, given.places):
        consolidate_run(path)
        tell(f"consolidated: {path}")
    return OK


COMMAND: Final = Command(
    "consolidate", "put the parts of finished runs together, one file a table", _help, _consolidate, usages=(_USAGE,)
)
