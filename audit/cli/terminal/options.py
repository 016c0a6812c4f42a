"""KEY=VALUE options: one declaration serves parsing, error messages and help."""

from __future__ import annotations

import math
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from audit.cli.terminal.printing import WIDTH
from audit.configuration.peers import option_here
from audit.errors import PROGRAM, ConfigError, command_line
from stimuli.errors import suggest

_Value = TypeVar("_Value")
_Choice = TypeVar("_Choice", bound=str)

Reader: TypeAlias = Callable[[str, str], _Value]
"""Parses the text after "=", given the option's name; raises ``ConfigError`` with both."""

_MOST_DIGITS: Final = 18
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
SETTING: Final = "statistics."  # prefix of the settings of an analysis
MEASURED: Final = "measures."  # prefix of the settings of what is measured of replies


@dataclass(frozen=True)
class Option(Generic[_Value]):
    """A KEY=VALUE option of a command."""

    name: str  # the text before "="
    read: Reader[_Value]
    default: _Value
    help: str
    shown: str = ""  # what the help writes after "="; if empty, the default
    choices: Callable[[], Iterable[str]] = tuple  # the fixed words that it takes, if neither read nor shown has them

    @property
    def words(self) -> tuple[str, ...]:
        """The fixed words that it takes, if any."""
        if self.read is true_or_false:
            return ("true", "false")
        if isinstance(self.read, _OneOf):
            return tuple(self.read.choices)
        return tuple(self.choices()) or (tuple(self.shown.split("|")) if "|" in self.shown else ())

    def __str__(self) -> str:
        return f"{self.name}={self.shown or str(self.default).lower()}"


@dataclass(frozen=True)
class Usage:
    """One way to call a command."""

    command: str  # with its step, if it has steps: "people export"
    places: str = ""  # the folders and files it takes, as in the help: "RUN_DIR"
    needed: tuple[Option[Any], ...] = ()  # options that must be given
    options: tuple[Option[Any], ...] = ()
    settings: bool = False  # whether it also takes `statistics.KEY=VALUE`
    measures: bool = False  # whether it also takes `measures.KEY=VALUE`

    def help(self, text: str) -> str:
        """Return how to call it, and a text in which ``{options}`` stands for what its options do."""
        options = (*self.needed, *self.options)
        return usage_lines(self) + text.format(options=option_lines(*options) if options else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its options, without the settings."""
        return tuple(option.name for option in (*self.needed, *self.options))

    def read(self, words: Sequence[str]) -> Given:
        """Separate folders and files from options; refuse flags, unknown options and repeated ones."""
        names = [*self.names, *(_settings() if self.settings else ()), *(_measures() if self.measures else ())]
        places: list[str] = []
        texts: dict[str, str] = {}
        for place, word in enumerate(words):
            name, sign, text = word.partition("=")
            if not word:
                raise ConfigError(f"{self.command} got an empty argument; a shell variable may be unset")
            if word.startswith("-"):
                value = text if sign else next(iter(words[place + 1 : place + 2]), "")
                meant = self._named(name.lstrip("-").replace("-", "_"), names)
                typed = f"{meant}={value or 'VALUE'}"
                hint = f"options are written without dashes: {shlex.quote(typed)}; " if meant else ""
                raise ConfigError(f"{self.command} has no flag {word}; {hint}{see(self.command)}")
            if not sign or os.path.isdir(word) or (name not in names and os.path.isfile(word)):
                places.append(word)
            elif name not in names:
                near, there, known = suggest(name, names).partition("there are: ")
                hint = f"{near}{see(self.command)}" if near else f"{there}{known}"
                bare = name.removeprefix(SETTING)
                if (meant := self._named(bare, names)) and meant != name:
                    hint = f"did you mean {shlex.quote(f'{meant}={text}')}?"
                raise ConfigError(f"{name}: {self.command} does not take this option; {hint.rstrip()}")
            elif name in texts:
                raise ConfigError(f"{name} is given twice, as {texts[name]!r} and {text!r}; keep one")
            else:
                texts[name] = text
        return Given(self.command, tuple(places), texts)

    @staticmethod
    def _named(bare: str, names: Sequence[str]) -> str:
        """Return the option, of those named, that a name means, here or in another tool; empty if there is none."""
        here = (option_here(bare) or bare).removeprefix(SETTING)
        return next((each for each in (bare, f"{SETTING}{bare}", here, f"{SETTING}{here}") if each in names), "")


@dataclass(frozen=True)
class Given:
    """What the user gave a command; a value is parsed when it is asked for, so that unused ones cause no error."""

    command: str
    places: tuple[str, ...]  # the folders and files, in order
    texts: Mapping[str, str]  # the text after "=" of each given option, by name

    def __getitem__(self, option: Option[_Value]) -> _Value:
        """Parse an option's value, or return its default."""
        return option.read(option.name, self.texts[option.name]) if option.name in self.texts else option.default

    def need(self, option: Option[_Value | None], *, to: str) -> _Value:
        """Return the value of an option that must be given; the error says what it is needed ``to`` do."""
        value = self[option] if self.texts.get(option.name) else None
        if value is None:
            raise ConfigError(f"{option.name}= must be given to {to}; {see(self.command)}")
        return value

    def one_folder(self, what: str = "run folder") -> Path:
        """Return the only folder given; ConfigError if there is none or more than one."""
        if len(self.places) != 1:
            given = shlex.join(self.places) or "none"
            raise ConfigError(f"{self.command} needs one {what}, got {given}; {see(self.command)}")
        return Path(self.places[0])

    def settings(self) -> dict[str, str | bool | None]:
        """Return the settings of the analysis as text, since a formula is not YAML; null, true and false as values."""
        values = {"null": None, "true": True, "false": False}
        return {
            name.removeprefix(SETTING): values.get(text, text)
            for name, text in self.texts.items()
            if name.startswith(SETTING)
        }

    @property
    def measures(self) -> tuple[str, ...]:
        """The settings of what is measured, as typed."""
        return tuple(f"{name}={text}" for name, text in self.texts.items() if name.startswith(MEASURED))


def see(command: str) -> str:
    """Say where a command is explained, for the end of an error message."""
    return f"see {command_line(*command.split(), '--help')}"


def usage_lines(*usages: Usage) -> str:
    """Write the usage lines that begin a command's help."""
    lines = []
    for number, usage in enumerate(usages):
        head = f"{'       ' if number else 'usage: '}{' '.join(PROGRAM)} {usage.command} "
        words = [usage.places] if usage.places else []
        words += [*map(str, usage.needed), *(f"[{option}]" for option in usage.options)]
        words += [f"[{MEASURED}KEY=VALUE ...]"] if usage.measures else []
        words += [f"[{SETTING}KEY=VALUE ...]"] if usage.settings else []
        # No line breaks inside brackets, or between a folder and the "..." after it.
        kept = " ".join(word.replace(" ", "\N{NO-BREAK SPACE}") for word in words)
        filled = _fill(kept, head, indent=len(head)) or head.rstrip()
        lines.append(filled.replace("\N{NO-BREAK SPACE}", " "))
    return "\n".join(lines) + "\n"


def option_lines(*options: Option[Any]) -> str:
    """Write the help on each option, without the last newline."""
    width = max(len(str(option)) for option in options) + 3
    return "\n".join(_fill(option.help, f"  {option!s:<{width}}", indent=width + 2) for option in options)


def a_text(name: str, text: str) -> str:
    """Return a text unchanged, or refuse it if the shell passed bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name}={text!r}: is not valid UTF-8; rename the file, or give another value") from error
    return text


def a_path(name: str, text: str) -> Path:
    """Parse the path of a file or folder, which need not exist; an empty one is a mistake."""
    if not text:
        raise ConfigError(f"{name}= is empty; give a path, or leave it out")
    return Path(text)


def a_number(name: str, text: str) -> float:
    """Parse a finite number in plain digits; Python would also take 1_0 for 10."""
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{name}={text}: must be a number")
    return number


def numbers(name: str, text: str) -> tuple[float | str, ...]:
    """Parse a number, a text that stands for one in a table, or a list of these in brackets."""
    inside = text.strip()
    if inside.startswith("[") and inside.endswith("]"):
        inside = inside[1:-1]
    if "[" in inside or "]" in inside:
        raise ConfigError(f"{name}={text}: must be a number, a text, or a list of these in brackets: {name}=[-1,NA]")
    parts = [part.strip() for part in inside.split(",")] if inside.strip() else []
    if "" in parts:
        raise ConfigError(
            f"{name}=: must have a number or a text on each side of a comma; empty cells count as missing anyway"
        )
    return tuple(float(part) if _NUMBER.fullmatch(part) else part for part in parts)


def whole_from(least: int) -> Reader[int]:
    """Make a reader for whole numbers of at least ``least``."""

    def read(name: str, text: str) -> int:
        # Python refuses to convert very long digit strings, and no count needs them.
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) >= least):
            raise ConfigError(f"{name}={text}: must be a whole number of at least {least}")
        return int(text)

    return read


class _OneOf(Generic[_Choice]):
    """Parses one of some words."""

    def __init__(self, choices: Sequence[_Choice]) -> None:
        self.choices = choices

    def __call__(self, name: str, text: str) -> _Choice:
        found = next((choice for choice in self.choices if choice == text), None)
        if found is None:
            near = suggest(text, self.choices).partition("there are: ")[0].strip()
            raise ConfigError(f"{name}={text}: must be {' or '.join(self.choices)}{f'; {near}' if near else ''}")
        return found


def one_of(*choices: _Choice) -> Reader[_Choice]:
    """Make a reader for one of some words."""
    return _OneOf(choices)


def true_or_false(name: str, text: str) -> bool:
    """Parse ``true`` or ``false``."""
    return one_of("true", "false")(name, text) == "true"


def _fill(text: str, head: str, *, indent: int) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _measures() -> list[str]:
    from audit.configuration.schema import option_names

    return [name for name in option_names() if name.startswith(MEASURED)]


def _settings() -> list[str]:
    from audit.configuration.analysis_settings import AnalysisSettings

    return [f"{SETTING}{name}" for name in AnalysisSettings.model_fields]
