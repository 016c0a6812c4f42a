"""``init``: makes a starter folder for a user's own situations and groups, and prints the command that audits them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage, usage_lines
from audit.cli.terminal.printing import command_line, tell
from audit.errors import ConfigError, StoreError

_USAGE: Final = Usage("init", "FOLDER")
_FILES: Final = Path(__file__).parent / "starter"
_DIMENSION: Final = "football"
_HELP: Final = """
Makes a folder to begin an audit of your own with: vignettes.csv (situations), identities.yaml (groups) and README.md,
which explains them. Prints the command that audits the embedded model on them; it works at once. FOLDER must be new or
empty: nothing is ever overwritten.
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP


def _init(words: Sequence[str]) -> int:
    folder = _USAGE.read(words).one_folder("folder")
    texts = {file.name: file.read_text("utf-8") for file in sorted(_FILES.iterdir()) if file.is_file()}
    command = run_command(folder)
    page = str(folder / "run" / "report.html")
    texts["README.md"] = texts["README.md"].replace("@COMMAND@", command).replace("@PAGE@", page)
    _check_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written ({error.strerror or error}); name another folder") from error
    for name in texts:
        tell(f"written: {folder / name}")
    tell("")
    tell("change the files as you like, and then:")
    tell(f"  {command}")
    return OK


def run_command(folder: Path) -> str:
    """Return the command line that audits the embedded model on a folder's files."""
    places = {
        "stimuli.path": folder / "vignettes.csv",
        "stimuli.own_identities": folder / "identities.yaml",
        "run_dir": folder / "run",
    }
    words = [f"{name}={_value(str(place))}" for name, place in places.items()]
    return command_line("run", "stimuli=csv", *words[:2], f"dimensions=[{_DIMENSION}]", words[2])


def _value(text: str) -> str:
    """Write a text as an override's value: in double quotes unless it is plain."""
    if re.fullmatch(r"[A-Za-z_/.][\w./-]*", text, re.ASCII):
        return text
    # Backslashes are halved before a quote and at the end.
    escaped = re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), text).replace(
        "${", "\\${"
    )
    return f'"{escaped}"'


def _check_empty(folder: Path) -> None:
    """Refuse a file, and a folder that is not empty."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{str(folder)!r}: it is no UTF-8, and a manifest cannot name it; name another one"
        ) from error
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{shlex.quote(str(folder))} is a file; name a folder that is new or empty")
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(
                f"{shlex.quote(str(folder))} is not empty, and nothing is overwritten; name a new or empty folder"
            )
    except OSError as error:
        raise StoreError(f"{folder} cannot be read ({error.strerror or error}); name another folder") from error


COMMAND: Final = Command(
    "init", "make a folder with situations and groups of your own, and the command to audit a model on them", _help,
    _init, usages=(_USAGE,),
)  # fmt: skip
