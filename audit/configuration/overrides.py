"""Checks command-line words that are overrides or flags, and explains in our own words what is wrong.

Every suggested fix can be typed as it stands: it is quoted for the shell and was parsed before it is shown. Hydra is
not imported here; :mod:`audit.configuration.composition` passes in the parser.
"""

from __future__ import annotations

import difflib
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from audit.configuration.peers import written_here
from audit.errors import ConfigError
from stimuli.errors import suggest

Parse: TypeAlias = Callable[[str], Any | None]  # parses a word; None if it cannot be parsed

_LONG: Final = {"-m": "--multirun", "-c": "--cfg", "-cd": "--config-dir", "-p": "--package"}
_SWITCHES: Final = ("--multirun", "--resolve")
_VALUED: Final = {"--cfg": "job", "--config-dir": "FOLDER", "--package": "GROUP"}  # flags that take a value, and which
_FLAGS: Final = ("-m", "-c", "-cd", "-p", *_SWITCHES, *_VALUED)
FLAGS: Final[Mapping[str, str]] = {
    "-m": "runs a sweep over all comma-separated values: -m prompt=origin,persona-1",
    "--config-dir=FOLDER": "adds your own choices to the groups: FOLDER/prompt/mine.yaml is prompt=mine",
    "--cfg=job": "shows all options and their values as YAML; runs nothing",
    "--resolve": "with --cfg: replaces references to other options by their values",
    "--package=GROUP": "with --cfg: shows only the options of one group",
}
"""The flags of commands that take overrides, as they are typed, with their meaning."""
_SHOWN: Final = ("job", "hydra", "all")  # values of `--cfg`
_OF_HYDRA: Final = ("--info", "--hydra-help", "--shell-completion", "-sc", "--config-path", "-cp", "--config-name",
                    "-cn", "--experimental-rerun", "--run", "-r")  # fmt: skip
_FEW: Final = 3
_LONGEST: Final = 100_000
_MOST_SIGNS: Final = 2500
"""The length of a word in characters, and its signs between names: the parser takes time for each, several times
over."""
_QUOTED: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_NESTED: Final = re.compile(r"[\[{(]{100}")
_SIGN: Final = re.compile(r"[^\w]")
_HYDRAS: Final = re.compile(r"hydra\b")
_HANDED: Final = re.compile(r"hydra(?:[./](?:launcher|sweeper)\b|\.job_logging=\w*$)")
"""Hydra settings that are allowed, for the launchers of sweeps; Hydra itself rejects its logging."""
_NAME: Final = re.compile(r"[A-Za-z_][\w\-]*([./@:][\w\-]+)*", re.ASCII)
_CLOSED_BY: Final = {"[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True)
class Options:
    """What an override may name."""

    groups: Mapping[str, Sequence[str]]
    takes: Mapping[str, frozenset[str]]  # full option names → what they take, see option_types

    def of(self, name: str) -> frozenset[str]:
        """Return what an option takes; empty if there is no such option."""
        return self.takes.get(name.lstrip("+~"), frozenset())

    def near(self, name: str) -> str:
        """Suggest the option or group that a name means or resembles; empty if there is none."""
        return written_here(name) or did_you_mean(name, [*self.groups, *self.takes])

    def of_flag(self, flag: str, value: str) -> str:
        """Say how a flag is written as an option; empty if none is meant."""
        name = flag.lstrip("-").replace("-", "_")
        if name == "model" and value and value not in self.groups[name]:
            name = "model.path"
        if name in self.groups or name in self.takes:
            return f"options are written without dashes: {name}={shlex.quote(value) if value else 'VALUE'}"
        written = written_here(name, value)
        return f"{written}options are written KEY=VALUE" if written else ""


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Suggest up to three names that end in a name, or the one that it resembles; empty if there is none."""
    by_end = [each for each in names if each.endswith(f".{name}")]
    near = by_end or difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near[:_FEW]))}? " if near else ""


def arranged(words: Sequence[str], options: Options) -> list[str]:
    """Bring flags to their long form, each in one word with its value; refuse what cannot be used."""
    made: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            made.append(word)
            continue
        given, sign, value = word.partition("=")
        flag = _LONG.get(given, given)
        if flag in _SWITCHES:
            if sign:
                raise ConfigError(f"{word}: {given} takes no value; write {given}")
            made.append(flag)
        elif flag in _VALUED:
            if not sign:
                value = left.pop(0) if left and not left[0].startswith("-") and _is_value(flag, left[0]) else ""
            made.append(f"{flag}={_checked(given, flag, value)}")
        elif given in _OF_HYDRA:
            raise ConfigError(
                f"{given} is a flag of Hydra's that has no use here; python -m audit options explains every "
                "option, run --cfg job shows their values, and python -m audit doctor shows the machine and the "
                "packages"
            )
        elif given == "--":
            raise ConfigError("--: it is not needed; leave it out")
        elif meant := options.of_flag(given, value if sign or not left else left[0]):
            raise ConfigError(f"{word}: unknown flag; {meant}")
        elif sign and (name := given.lstrip("-")) and _NAME.fullmatch(name):
            plain = shlex.quote(f"{name}={value}")
            raise ConfigError(f"{word}: unknown flag; options are written without dashes: {plain}")
        else:
            hint = f"{suggest(given, _FLAGS)}; "
            if hint.startswith("there are"):
                hint = options.near(given.lstrip("-")) or hint
            raise ConfigError(f"{word}: unknown flag; {hint}options are written KEY=VALUE")
    names = [word.partition("=")[0] for word in made if word.startswith("-")]
    short = {flag: "-m" if flag == "--multirun" else flag for flag in names}
    if {"--cfg", "--multirun"} <= short.keys():
        raise ConfigError(f"{' and '.join(short[f] for f in short if f in ('--cfg', '--multirun'))} cannot be "
                          "combined; keep one")  # fmt: skip
    for flag in ("--resolve", "--package"):
        if flag in short and "--cfg" not in short:
            raise ConfigError(f"{flag} changes what --cfg shows; add --cfg job, or leave it out")
    return made


def _is_value(flag: str, word: str) -> bool:
    """Tell whether the next word is a flag's value and not an override; a folder's name may have an equals sign."""
    return "=" not in word or (flag == "--config-dir" and Path(word).is_dir())


def _checked(given: str, flag: str, value: str) -> str:
    """Return a flag's value, or raise ConfigError if it cannot be used."""
    if not value:
        raise ConfigError(f"{given} needs a value: {given}={_VALUED[flag]}")
    if flag == "--cfg" and value not in _SHOWN:
        raise ConfigError(f"{given}={value}: must be job, hydra or all; --cfg job shows all options and their values")
    if flag == "--config-dir" and not Path(value).is_dir():
        what = "is a file" if Path(value).exists() else "does not exist"
        raise ConfigError(
            f"{given}={value} {what}; give a folder with your own groups, such as FOLDER/prompt/mine.yaml"
        )
    return value


def check_lengths(words: Sequence[str]) -> None:
    """Refuse a word that would keep Hydra's parser busy for long; text in quotes costs it nothing."""
    for word in words:
        if len(word) > _LONGEST or len(_SIGN.findall(_QUOTED.sub("", word))) > _MOST_SIGNS:
            if _NESTED.search(word):
                raise ConfigError(f"{word[:60]}...: is nested too deeply; a value is a word, a number or a short list")
            raise ConfigError(
                f"{word[:60]}...: is too long for the command line; write it in a file, and give its folder: "
                "--config-dir=FOLDER"
            )


def check_of_hydra(words: Sequence[str]) -> None:
    """Refuse Hydra's own settings, which may write anywhere, except those of the launchers of sweeps."""
    for word in words:
        bare = word.lstrip("+~")
        if _HYDRAS.match(bare) and not _HANDED.match(bare):
            raise ConfigError(
                f"{word} is one of Hydra's own settings and has no effect here; leave it out: run_dir= and "
                "reports_dir= set where runs are stored"
            )


def check_texts(words: Sequence[str], parse: Parse, options: Options) -> None:
    """Refuse a path that Hydra would read as a number, a list or null, and show how to quote it."""
    for word in words:
        name, sign, text = word.partition("=")
        if word.startswith("-") or not sign or "path" not in options.of(name):
            continue
        if not _is_unicode(text):
            raise ConfigError(
                f"{name}={text!r}: the path is not valid UTF-8, so a manifest cannot record it; rename it, or link "
                f"it under another name (ln -s): {name}=NAME"
            )
        parsed = parse(word)
        if parsed is None or parsed.is_sweep_override() or parsed.is_delete():
            continue
        value = parsed.value()
        if not text:
            raise ConfigError(f"{word} is empty; give a path, or leave it out")
        if isinstance(value, (bool, int, float, list, dict)):
            what = (
                "a list" if isinstance(value, list) else "names with values" if isinstance(value, dict) else "no text"
            )
            raise ConfigError(f"{word}: must be a path, but is {what}; {_in_quotes(word, parse)}")


def given_twice(words: Sequence[str]) -> list[str]:
    """Report options that are given more than once, because Hydra silently takes the last.

    Examples
    --------
    >>> given_twice(["seed=1", "wordings=8", "seed=2"])
    ['seed is given more than once; the last one counts: seed=2']
    """
    given: dict[str, list[str]] = {}
    for word in words:
        name, sign, value = word.lstrip("+").partition("=")
        if word.startswith(("-", "~")) or not sign or not _NAME.fullmatch(name):
            continue
        given.setdefault(name, []).append(value)
    return [
        f"{name} is given more than once; the last one is used: {shlex.quote(f'{name}={values[-1]}')}"
        for name, values in given.items()
        if len(set(values)) > 1
    ]


def why_unread(word: str, rest: Sequence[str], parse: Parse, options: Options) -> str:
    """Explain why a word is no override, and how to write it."""
    said = f"{word!r} is not an option; options are written KEY=VALUE"
    name, sign, value = word.partition("=")
    bare = name.lstrip("+~")
    if not sign:
        if bare in options.groups or bare in options.takes:
            return f"{said}; it has no value; write {bare}=VALUE, without spaces around the equals sign"
        owners = [group for group, choices in options.groups.items() if word in choices]
        if owners:
            return f"{said}; did you mean {owners[0]}={word}?"
        return f"{said}; {options.near(word)}see python -m audit options"
    if not _NAME.fullmatch(bare):
        return f"{said}; {name!r} is not an option; {options.near(bare)}see python -m audit options"
    if bare in options.groups:
        return f"{said}; {bare}= needs one name; {suggest(value.strip(',; '), options.groups[bare])}"
    if "path" in options.of(bare) and value.startswith("~/") and not value.startswith("~/~"):
        at_home = quoted_override(f"{name}={Path(value).expanduser()}", parse)
        return f"{said}; a shell replaces ~ by the home folder only at the start of a word: {at_home}"
    is_list = options.of(bare) >= {"list"} and value.endswith("]")
    if is_list and parse(without := re.sub(r",\s*\]$", "]", word)) is not None:
        return f"{said}; a list must not end with a comma: {shlex.quote(without)}"
    if "${" in value and (quoted := quoted_override(word.replace("${", "\\${"), parse)):
        return f"{said}; to use it as text, quote it and put a backslash before ${{: {quoted}"
    is_text = "path" in options.of(bare) or not (is_list or value.lstrip().startswith((*_CLOSED_BY, "'", '"')))
    if is_text and (quoted := quoted_override(word, parse)):
        return f"{said}; quote its value: {quoted}"
    if (closed := _closed(word, rest, parse)) is not None:
        return f"{said}; its value is not closed, or has spaces: {closed}"
    if quoted := quoted_override(word, parse):
        return f"{said}; its value is not a list; to use it as text, quote it: {quoted}"
    return f"{said}; its value cannot be read: write a list as [a,b], and put text with other characters in quotes"


def several_values(word: str, name: str, values: str, options: Options, parse: Parse) -> str:
    """Explain what a word with several values may mean outside a sweep."""
    sweep = f"run {shlex.join(['-m', word])} runs each"
    takes = options.of(name)
    if name not in options.groups and "(" not in values:
        if "list" in takes:
            return f"{word}: several values; did you mean {shlex.quote(f'{name}=[{values}]')}? {sweep}"
        if takes & {"text", "path"} and (quoted := quoted_override(word, parse)):
            sweep += f"; for one text, write {quoted}"
    return f"{word}: several values; {sweep}"


def stands_for(reason: str, words: Sequence[str]) -> str:
    """Explain that ``${...}`` in a word refers to a missing option; empty if that is not the reason."""
    shown = next((word for word in words if "${" in word), None)
    if shown is None or "nterpolation" not in reason:
        return ""
    literal = shlex.quote(shown.replace("${", "\\${"))
    return (
        f"{shown}: ${{...}} refers to another option, but no option has that name ({reason.splitlines()[0]}); to "
        f"use it as text, put a backslash before it: {literal}"
    )


def quoted_override(word: str, parse: Parse) -> str:
    """Put an override's value in quotes, for the shell; empty if that would change its meaning."""
    key, sign, value = word.partition("=")
    if not sign or not value or not all(map(_is_typed, value)):
        return ""
    # Backslashes are halved before a quote and at the end.
    escaped = re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), value)
    quoted = f'{key}="{escaped}"'
    parsed = parse(quoted)
    return shlex.quote(quoted) if parsed is not None and str(parsed.value()) == value else ""


def _in_quotes(word: str, parse: Parse) -> str:
    quoted = quoted_override(word, parse)
    return f"quote it: {quoted}" if quoted else "choose another path"


def _closed(word: str, rest: Sequence[str], parse: Parse) -> str | None:
    """Find an override in a word and those after it, by shell quotes or closed brackets."""
    for n in range(1, len(rest) + 1):
        whole = " ".join([word, *rest[:n]])
        if "=" in rest[n - 1]:
            break
        if parse(whole) is not None:
            return shlex.quote(whole)
    open_ = []
    for sign in word.partition("=")[2]:
        if sign in _CLOSED_BY:
            open_.append(_CLOSED_BY[sign])
        elif open_ and sign == open_[-1]:
            open_.pop()
    name, _, value = word.partition("=")
    closed = word + "".join(reversed(open_)) if open_ else f"{name}=[{value}" if value.endswith("]") else word
    return shlex.quote(closed) if closed != word and parse(closed) is not None else None


def _is_typed(letter: str) -> bool:
    """Tell whether a letter can be typed as shown: no control or format character, line end or invalid byte."""
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _is_unicode(text: str) -> bool:
    """Tell whether a text is valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
