"""``index``: shows all runs of a folder on one page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_path
from audit.cli.terminal.printing import note, print_table, say, tell
from audit.errors import command_line
from audit.tables.formatting import plural, printable

_OUT: Final[Option[Path | None]] = Option(
    "out", a_path, None, "the page; the other files are written next to it, under the same name", "FOLDER/index.html"
)
_USAGE: Final = Usage("index", "FOLDER", options=(_OUT,))

_HELP: Final = """
Lists all runs in a folder on one page, index.html, and in index.csv, index.claims.csv and index.json: model, date, gap
by dimension with its interval, verdict, controls, checks, missing ratings. Gaps that can be compared are grouped
together. Models are not ranked.

Each run's tables are checked against its ledger and read; nothing is computed again. A run without tables, or a folder
that cannot be read, is listed with the reason. No model is loaded.

{options}
"""


def _index(words: Sequence[str]) -> int:
    from audit.extras.index.write import write_index

    given = _USAGE.read(words)
    folder = given.one_folder("folder of runs")
    made = write_index(folder, out=given[_OUT])
    rows = made.rows
    reasons = rows.loc[rows["state"] != "gap"].to_dict("records")
    for row in reasons:
        note(f"{row['folder']}: {row['reason']}")
    if any(command_line() in str(row["reason"]) for row in reasons) and folder.resolve() != Path.cwd():
        note(f"run the commands in these notes in the folder of the runs: cd {shlex.quote(str(folder))}")
    lines = [("group", "about", "gaps", "models")]
    for group in made.groups:
        own = {str(row["model"]) for row in group.rows}
        lines.append((str(group.number), group.title, str(len(group.rows)), _named(sorted(own))))
    if made.groups:
        print_table(lines)
    else:
        say("no run in this folder has a gap to show")
    if made.answer:
        tell(f"answer: {printable(made.answer)}")
    for line in filter(None, (made.step.words, *made.step.commands[:1])):
        tell(f"next: {printable(line)}" if line == made.step.words else printable(line))
    n_runs = rows.loc[rows["state"] != "not_read", "folder"].nunique()
    tell(f"{plural(n_runs, 'run')}, {plural(int((rows['state'] == 'not_read').sum()), 'folder')} not read")
    for path in made.files:
        tell(f"written: {path}")
    tell(f"index: {made.page}")
    return OK


def _named(models: Sequence[str]) -> str:
    shown = ", ".join(printable(name)[:40] for name in models[:3])
    return shown if len(models) <= 3 else f"{shown} and {len(models) - 3} more"


COMMAND: Final = Command(
    "index",
    "show all runs of a folder on one page, grouped by which can be compared with each other",
    lambda: _USAGE.help(_HELP),
    _index,
)
