"""The parts of the reference that are made of the code when the site is built.

A page has a line `<!-- generated: NAME -->`, in whose place the part stands. What the commands of a tutorial printed
stands at its end. Each part has one source: options those of
`audit options`, columns the tables of which `dictionary.csv` is made, commands the text of their `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sphinx.application import Sphinx

from audit.cli.main import COMMANDS
from audit.comparing.preference.human_choices import PEOPLE_PREFERENCE_TABLES
from audit.comparing.preference.judging import PREFERENCE_TABLES
from audit.comparing.tables import COMPARISON_TABLES, REPLY_COMPARISON_TABLES
from audit.configuration.options import group_rows, option_rows
from audit.tables.base import Table
from audit.tables.formatting import in_markdown
from audit.tables.run_of_ratings import OF_RATINGS
from audit.tables.run_of_replies import OF_REPLIES
from audit.tables.validation import VALIDATION_TABLES
from audit.tasks.inventory.tables import AFFECT_TABLES, OF_ANSWERS

_MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_FOLDERS: Sequence[tuple[str, Sequence[Table] | Mapping[str, Table]]] = (
    ("A run of ratings", OF_RATINGS),
    ("A run of replies", OF_REPLIES),
    ("A run of questionnaires", OF_ANSWERS),
    ("Affect before and after a situation", AFFECT_TABLES),
    ("A comparison of runs of ratings", COMPARISON_TABLES),
    ("A comparison of runs of replies", REPLY_COMPARISON_TABLES),
    ("Replies that a model as judge compared", PREFERENCE_TABLES),
    ("Replies that people compared", PEOPLE_PREFERENCE_TABLES),
    ("A measure of replies beside people", VALIDATION_TABLES),
)


def commands() -> Iterator[str]:
    """Yield what each command prints when it is asked for help."""
    for command in COMMANDS.values():
        yield f"## {command.name}\n\n{_prose(_sentence(command.summary))}\n"
        yield f"```text\n{command.help().rstrip()}\n```\n"


def options() -> Iterator[str]:
    """Yield the groups with their choices, and a table of the options of each."""
    for group in group_rows():
        rows = [row for row in option_rows() if row.group == group.name]
        if not rows and not group.choices:
            continue
        yield f"## {group.name}\n" if group.choices else "## Options of no group\n"
        if group.choices:
            yield f"`{group.name}={group.default}` unless another one is chosen.\n" if group.default else ""
            choices = ((_code(f"{group.name}={choice.name}"), _prose(choice.meaning)) for choice in group.choices)
            yield from _table(("choice", "what it is"), choices)
        if rows:
            cells = (
                (_code(r.name), _prose(r.type), _code(r.default) if r.default else "must be given", _prose(r.meaning))
                for r in rows
            )
            yield from _table(("option", "takes", "default", "meaning"), cells)


def columns() -> Iterator[str]:
    """Yield every column of every table, by what folder holds it; a table of several kinds of folders comes once."""
    told: set[int] = set()
    for title, tables in _FOLDERS:
        yield f"## {title}\n"
        for table in tables.values() if isinstance(tables, Mapping) else tables:
            if id(table) in told:
                yield f"`{table.name}`: as above.\n"
                continue
            told.add(id(table))
            how = "Collected (Parquet)" if table.stored else "Computed (CSV)"
            yield f"### {in_markdown(table.name)}\n\n{how}. One row is {_prose(table.row)}.\n"
            cells = ((_code(name), _prose(c.meaning), c.type.plain, c.unit) for name, c in table.items())
            yield from _table(("column", "meaning", "type", "unit"), cells)
            if table.former:
                names = ", ".join(f"{_code(former)} is now {_code(name)}" for former, name in table.former.items())
                file = f" The table of replies was {_code(table.former_file)}." if table.former_file else ""
                yield f"Former names: {names}.{file}\n"


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {"commands": commands, "options": options, "columns": columns}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _prose(text: str) -> str:
    """Return a text in which nothing is Markdown but words in backticks."""
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(_code(part) if place % 2 else in_markdown(part) for place, part in enumerate(parts))


def _code(text: str) -> str:
    """Return a word as code, whatever it holds."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}{text}{fence}".replace("|", r"\|")


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    yield "\n".join(lines) + "\n"


def transcript(page: str, folder: Path) -> Iterator[str]:
    """Yield what the commands of a tutorial printed, if `benchmarks/transcripts.py` has followed it."""
    place = folder / "transcripts" / f"{page}.txt"
    if place.is_file():
        printed = place.read_text(encoding="utf-8").rstrip()
        fence = "`" * (max([2, *map(len, re.findall("`+", printed))]) + 1)
        yield "\n\n## What the commands printed\n\nTimes, rates and dates are left out.\n"
        yield f"{fence}text\n{printed}\n{fence}\n"


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda found: "\n".join(PARTS[found[1]]()), source[0])
    source[0] += "\n".join(transcript(page, Path(app.srcdir)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the parts with Sphinx."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
