"""``verify``: checks that a run's folder is what was collected, and that its tables and page are made from that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, true_or_false
from audit.cli.terminal.printing import say, tell
from audit.errors import ConfigError, report_command

WRONG: Final = 1
_ACCEPT: Final = Option(
    "accept",
    true_or_false,
    False,
    "accept the files as they are now, changed or not; the ledger and the report list which were accepted",
    "true",
)


def _a_digest(name: str, text: str) -> str:
    digest = text.strip().casefold()
    if re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise ConfigError(
            f"{name}={text}: a run's digest has 64 characters, 0 to 9 and a to f, but this has "
            f"{len(text.strip())}; copy all of it: a part proves nothing, because anyone can make a run whose "
            "digest begins or ends like it"
        )
    return digest


_EXPECT: Final = Option(
    "expect",
    _a_digest,
    "",
    "the digest that the run must have, all 64 characters, as in its page, its card or `gate`; exit code 1 if it "
    "differs",
    "DIGEST",
)
_USAGE: Final = Usage("verify", "RUN_DIR", options=(_EXPECT, _ACCEPT))
_HELP: Final = """
Checks, without a model and without writing anything:

  - every stored file exists and has the SHA-256 in ledger.jsonl, and no file was added;
  - with expect=, the run has the digest that you got from somebody else: you then have the same run;
  - every prompt has one answer, about the identities and the narrative that were asked, and within the scale;
  - manifest, tables and page belong to one analysis, and the statistics are the same when computed again.

A comparison of runs has no ledger: it is made again from its runs and compared with its files. For the choices of a
judge or of raters, only the stored files are checked.

Each fault is one line with the file and what to do. Exit code 0 if there is none, 1 otherwise. `run`, `report` and all
other commands do the first check whenever they read a run.

{options}
"""


def _verify(words: Sequence[str]) -> int:
    from audit.extras.integrity.verification import accept_run, verify_run
    from audit.extras.integrity.verified_comparison import is_of_runs, verify_of_runs

    given = _USAGE.read(words)
    path, expect = given.one_folder(), given[_EXPECT]
    if expect and given[_ACCEPT]:
        raise ConfigError("expect= and accept=true cannot be combined: accept the files first, then compare the digest")
    if expect and is_of_runs(path):
        raise ConfigError(
            f"expect=: {path} is made of several runs and has no digest; verify each of its runs with expect="
        )
    if given[_ACCEPT]:
        lines = [f"{name} {what}" for name, what in accept_run(path).lines()]
        for line in lines:
            tell(f"accepted: {line}")
        if lines:
            tell(f"{path}: the files are accepted as they are; `python -m audit report {path}` notes it on the page")
        elif verify_run(path, say=lambda line: None):
            again = report_command(path)
            tell(f"{path}: nothing that was collected has changed; for tables and pages, run `{again}`")
        else:
            tell(f"{path}: nothing has changed")
        return OK
    found = verify_of_runs(path, say=say)
    if found is None:
        found = verify_run(path, say=say, expect=expect)
    for finding in found:
        tell(f"wrong: {finding}")
    if found:
        return WRONG
    tell(f"verified: {path}")
    return OK


COMMAND: Final = Command(
    "verify",
    "check that a run's files are unchanged, and that its tables and page follow from them: exit code 0 or 1",
    lambda: _USAGE.help(_HELP),
    _verify,
    usages=(_USAGE,),
)
