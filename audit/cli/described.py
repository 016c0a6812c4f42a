"""``options``: explains every option of a run, with its default and choices."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage
from audit.cli.terminal.printing import WIDTH, note, tell
from audit.configuration.options import RUN, GroupRow, OptionRow, group_rows, offered, option_rows
from audit.configuration.overrides import FLAGS
from audit.errors import ConfigError, command_line
from audit.tables.formatting import plural
from stimuli.errors import suggest

_USAGE: Final = Usage("options", "[GROUP ...]")
_LONGEST: Final = 60  # most characters shown of a default: a prompt's text may fill a page
_HELP: Final = """
Explains the options of `run`, `plan`, `prompts` and `doctor`, with their defaults and choices. GROUP is a group of
options (statistics), one option (model.dtype), the start of several names (stimuli.columns), or a word to look for
(margin). Without GROUP, lists all options, then the groups.

To see the values that another choice sets, such as another model card: run ... --cfg job
"""


def _options(words: Sequence[str]) -> int:
    asked = _USAGE.read([word if word.startswith("-") else word.partition("=")[0] for word in words]).places
    for word in words:
        _say_whose_values(word)
    chosen = [option_rows(name) for name in asked] if asked else [option_rows()]
    groups = {group.name: group for group in group_rows()}
    shown = dict.fromkeys([name for name in asked if name in groups] if asked else groups)
    for name in dict.fromkeys([*shown, *(row.group for rows in chosen for row in rows)]):
        rows = [row for row in dict.fromkeys(row for rows in chosen for row in rows) if row.group == name]
        _show(groups[name], rows, whole=name in shown)
    if not asked:
        _show_index(list(groups.values()))
    return OK


def _say_whose_values(word: str) -> None:
    """For ``GROUP=CHOICE``, say how to show that choice's values, since the list shows the default choice's."""
    group, _, choice = word.partition("=")
    usual = next((each.default for each in group_rows() if each.name == group), "")
    if not (usual and choice):
        return
    if choice not in offered()[group]:
        raise ConfigError(f"{word}: unknown choice; {suggest(choice, offered()[group])}")
    if choice != usual:
        note(
            f"defaults shown are those of {group}={usual}; for those of {word}: "
            f"{command_line('run', word, '--cfg=job', f'--package={group}')}"
        )


def _show(group: GroupRow, rows: Sequence[OptionRow], *, whole: bool) -> None:
    """Print options of a group; for a ``whole`` group also its choices."""
    if whole:
        _heading(group)
    for row in rows:
        default = row.default or "..."
        if len(default) > _LONGEST:
            default = f"{default[: _LONGEST - 4]} ..."
        tell(f"  {row.name}={default}")
        takes = row.type.replace("one of the choices", " | ".join(row.choices))
        more = f" ({', '.join(row.choices)})" if row.choices and "one of the choices" not in row.type else ""
        must = "" if row.default else "; the default depends on the choice, or a value must be given"
        _paragraph(row.meaning, indent=6)
        _paragraph(f"takes: {takes}{more}{must}", indent=6)
    tell("")


def _heading(group: GroupRow) -> None:
    if group.name == RUN:
        tell("run: options that belong to no group, and flags")
        for flag, meaning in FLAGS.items():
            tell(f"  {flag}")
            _paragraph(meaning, indent=6)
        return
    tell(f"{group.name}={group.default}")
    width = max(len(choice.name) for choice in group.choices) + 2
    for choice in group.choices:
        _paragraph(choice.meaning, indent=4 + width, head=f"    {choice.name:<{width}}")


def _show_index(groups: Sequence[GroupRow]) -> None:
    tell("groups (give a name to see one alone):")
    for group in groups:
        n = len([row for row in option_rows() if row.group == group.name])
        counted = [*([plural(len(group.choices), "choice")] if group.choices else ()), plural(n, "option")]
        tell(f"  {command_line('options', group.name):<40}{', '.join(counted)}")


def _paragraph(text: str, *, indent: int, head: str = "") -> None:
    filled = textwrap.fill(
        text, WIDTH, initial_indent=head or " " * indent, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    for line in filled.splitlines():
        tell(line)


COMMAND: Final = Command(
    "options", "explain every option of a run, with its default and choices", lambda: _USAGE.help(_HELP), _options,
    usages=(_USAGE,),
)  # fmt: skip
