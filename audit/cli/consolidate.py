"""``consolidate``: merges the parts of finished runs into one file for each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage, see
from audit.cli.terminal.printing import tell
from audit.errors import ConfigError

_USAGE: Final = Usage("consolidate", "RUN_DIR ...")

_HELP: Final = """
Merges tables that runs of earlier versions stored in parts: ratings/ becomes ratings.parquet, with the same rows. Runs
of this version are merged already when they finish. Nothing is analysed, and no model is needed.
"""


def _consolidate(words: Sequence[str]) -> int:
    from audit.tasks.pipeline import consolidate_run

    given = _USAGE.read(words)
    if not given.places:
        raise ConfigError(f"consolidate needs one run folder or more, got none; {see('consolidate')}")
    for path in map(Path, given.places):
        consolidate_run(path)
        tell(f"consolidated: {path}")
    return OK


COMMAND: Final = Command(
    "consolidate",
    "merge the parts of finished runs of earlier versions into one file per table",
    lambda: _USAGE.help(_HELP),
    _consolidate,
    usages=(_USAGE,),
)
