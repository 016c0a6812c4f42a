"""``completion``: prints a shell's completion script for commands, options and their choices.

The script contains all words, so the shell need not call the program while the user types. They come from
:mod:`audit.configuration.options` and the commands' own options when the script is printed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import SETTING, Option, Usage, a_path, see
from audit.configuration.options import RUN, group_rows, option_rows
from audit.configuration.overrides import FLAGS
from audit.errors import ConfigError
from stimuli.errors import suggest

SHELLS: Final = ("bash", "zsh", "fish")
FILES: Final = "@files"  # stands for file names after an option's equals sign
_COMMANDS: Final = "commands"
_OVERRIDES: Final = "overrides"
_SETTINGS: Final = "settings"
_PLACES: Final = frozenset({"RUN", "RUN_DIR", "RUN_A", "FOLDER", "FILE"})  # files and folders in the commands' help
_USAGE: Final = Usage("completion", "|".join(SHELLS))
_HELP: Final = """
Prints the script that completes commands, options, their choices and names of files, for `empathy-audit` and for
`python -m audit`. Print it again after an update.

  bash   python -m audit completion bash > ~/.empathy-audit.bash
         and in ~/.bashrc:                      source ~/.empathy-audit.bash
  zsh    python -m audit completion zsh > ~/.empathy-audit.zsh
         and in ~/.zshrc, after compinit:       source ~/.empathy-audit.zsh
  fish   python -m audit completion fish > ~/.config/fish/conf.d/empathy-audit.fish
"""


@dataclass(frozen=True)
class Candidate:
    """A word that may be typed."""

    scope: str  # a command; `commands` for their names; `overrides` or `settings` for words that several commands share
    word: str  # with what may follow its equals sign: model=, model=llama3, run_dir=@files
    meaning: str


def candidates(commands: Collection[Command]) -> Iterator[Candidate]:
    """Yield all words that may be typed, for every command."""
    for command in commands:
        yield Candidate(_COMMANDS, command.name, command.summary)
        yield Candidate(command.name, "--help", "explains the command")
        for usage in command.usages:
            step = usage.command.removeprefix(command.name).strip()
            if step:
                yield Candidate(command.name, step, "")
            for option in (*usage.needed, *usage.options):
                yield from _of_option(command.name, option)
    yield from (
        Candidate(_COMMANDS, flag, meaning) for flag, meaning in (("--help", "lists the commands"), ("--version", ""))
    )
    yield from (Candidate(_USAGE.command, shell, "") for shell in SHELLS)
    yield from _of_table()


def scopes(commands: Collection[Command]) -> Mapping[str, tuple[str, ...]]:
    """Map each command to the scopes of its words; ``@files`` if it also takes files or folders."""
    return {
        command.name: (
            command.name,
            *([_OVERRIDES] if command.overrides else ()),
            *([_SETTINGS] if any(usage.settings for usage in command.usages) else ()),
            *([FILES] if any(set(usage.places.split()) & _PLACES for usage in command.usages) else ()),
        )
        for command in commands
    }


def script(shell: str, commands: Collection[Command]) -> str:
    """Build the completion script of a shell."""
    if shell not in SHELLS:
        raise ConfigError(f"completion {shell}: no completion script exists for this shell; {suggest(shell, SHELLS)}")
    text = (Path(__file__).parent / "shells" / f"completion.{shell}").read_text("utf-8")
    rows = dict.fromkeys(candidates(commands))
    shown = rows if shell != "bash" else (replace(row, meaning="") for row in rows)  # bash shows no meanings
    lines = "\n".join("\t".join((row.scope, row.word, " ".join(row.meaning.split()))) for row in shown)
    taken = "\n".join(" ".join((name, *of)) for name, of in scopes(commands).items())
    return text.replace("@TABLE@", _quoted(lines)).replace("@SCOPES@", _quoted(taken))


def _of_table() -> Iterator[Candidate]:
    """Yield the words of the option table: overrides, settings, and the names that `options` explains."""
    for flag, meaning in FLAGS.items():
        head, sign, value = flag.partition("=")
        shown = head + sign + ("" if value.isupper() else value)
        yield from (
            Candidate(_OVERRIDES, word, meaning) for word in (shown, *([shown + FILES] if value == "FOLDER" else ()))
        )
    for group in group_rows():
        yield Candidate("options", group.name, "")
        if group.name != RUN:
            yield Candidate(_OVERRIDES, f"{group.name}=", f"one of the choices; usually {group.default}")
        for choice in group.choices:
            yield Candidate(_OVERRIDES, f"{group.name}={choice.name}", choice.meaning)
    for row in option_rows():
        yield Candidate("options", row.name, row.meaning)
        if "NAME" in row.name.split("."):  # the user chooses the name
            continue
        words = row.choices or (("true", "false") if "true or false" in row.type else ())
        null = ("null",) if row.type.endswith("null") else ()
        found = list(_with_values(row.name, row.meaning, (*words, *null), files=row.type.startswith("path")))
        for scope in (_OVERRIDES, *([_SETTINGS] if row.name.startswith(SETTING) else ())):
            yield from (Candidate(scope, word, meaning) for word, meaning in found)


def _of_option(scope: str, option: Option[Any]) -> Iterator[Candidate]:
    for word, meaning in _with_values(option.name, option.help, option.words, files=option.read is a_path):
        yield Candidate(scope, word, meaning)


def _with_values(name: str, meaning: str, words: Iterable[str], *, files: bool) -> Iterator[tuple[str, str]]:
    yield f"{name}=", meaning
    yield from ((f"{name}={word}", "") for word in words)
    if files:
        yield f"{name}={FILES}", ""


def _quoted(text: str) -> str:
    """Quote a text in single quotes that all three shells accept."""
    return "'" + text.replace("\\", "/").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") + "'"


def completing(commands: Collection[Command]) -> tuple[Command, ...]:
    """Add the command that completes these commands and itself."""

    def complete(words: Sequence[str]) -> int:
        given = _USAGE.read(words)
        if len(given.places) != 1:
            raise ConfigError(f"completion needs one shell: {', '.join(SHELLS)}; {see('completion')}")
        print(script(given.places[0], every), end="")
        return OK

    summary = "print the script that completes commands and options in bash, zsh or fish"
    every = (*commands, Command(_USAGE.command, summary, lambda: _USAGE.help(_HELP), complete))
    return every
