"""``verify``: whether a run's folder is what was collected, and its tables and page are made of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from audit.cli.base import OK, Command
from audit.cli.composition import statistics_defaults
from audit.cli.options import Option, Usage, option_lines, true_or_false, usage_lines
from audit.cli.printing import say, tell
from audit.errors import report_command

WRONG: Final = 1
_ACCEPT: Final = Option(
    "accept",
    true_or_false,
    False,
    "take the files as they are now, changed or not; the ledger and the report say which were accepted",
    "true",
)
_USAGE: Final = Usage("verify", "RUN_DIR", options=(_ACCEPT,))
_HELP: Final = """
Checks, without a model and without writing anything:

  - that every file that was stored is there and has the SHA-256 that ledger.jsonl says, and that none was added;
  - that every prompt has one answer, of the identities and the narrative that were asked, and within the scale;
  - that manifest, tables and page are of one analysis, and that the statistics, computed again, are the same.

Of a comparison of runs, which has no ledger, all is made again from its runs and held against what is there. Of what a
judge or raters chose the stored files are checked, and no number is computed again.

Each thing that is wrong is a line that names the file and what to do. Exit code 0 if nothing is, 1 if something is.
`run`, `report` and all other commands do the first of these whenever they read a run.

{options}
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP.format(options=option_lines(*_USAGE.options))


def _verify(words: Sequence[str]) -> int:
    from audit.verification import accept_run, verify_run
    from audit.verified_comparison import verify_of_runs

    given = _USAGE.read(words)
    path = given.one_folder()
    if given[_ACCEPT]:
        lines = [f"{name} {what}" for name, what in accept_run(path).lines()]
        for line in lines:
            tell(f"accepted: {line}")
        if lines:
            tell(f"{path}: the files are taken as they are; `python -m audit report {path}` says so on its page")
        elif verify_run(path, defaults=statistics_defaults(), say=lambda line: None):
            again = report_command(path)
            tell(
                f"{path}: nothing that was collected had changed; what `verify` says of tables and pages, `{again}` "
                "makes anew"
            )
        else:
            tell(f"{path}: nothing had changed")
        return OK
    found = verify_of_runs(path, defaults=statistics_defaults(), say=say)
    if found is None:
        found = verify_run(path, defaults=statistics_defaults(), say=say)
    for finding in found:
        tell(f"wrong: {finding}")
    if found:
        return WRONG
    tell(f"verified: {path}")
    return OK


COMMAND: Final = Command(
    "verify",
    "check that a run's files are those that were stored, and its tables and page are made of them: exit code 0 or 1",
    _help,
    _verify,
    usages=(_USAGE,),
)
