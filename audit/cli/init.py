"""``init``: makes a starter folder for a user's own situations and groups, and prints the command that audits them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Usage
from audit.cli.terminal.printing import tell
from audit.errors import ConfigError, StoreError, command_line

_USAGE: Final = Usage("init", "FOLDER")
_FILES: Final = Path(__file__).parent / "starter"
_DIMENSION: Final = "football"
_HELP: Final = """
Creates a folder to start your own audit from: vignettes.csv (situations), identities.yaml (groups) and README.md,
which explains both. Prints the command that audits the embedded model with them; it works as it is. FOLDER must be new
or empty: nothing is ever overwritten.
"""


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
        raise StoreError(f"{folder} cannot be written ({error.strerror or error}); choose another folder") from error
    for name in texts:
        tell(f"written: {folder / name}")
    tell("")
    tell("edit the files, then run:")
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
            f"{str(folder)!r}: is not valid UTF-8, so a manifest cannot record it; choose another folder"
        ) from error
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{shlex.quote(str(folder))} is a file; give a new or empty folder")
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(
                f"{shlex.quote(str(folder))} is not empty, and init overwrites nothing; give a new or empty folder"
            )
    except OSError as error:
        raise StoreError(f"{folder} cannot be read ({error.strerror or error}); choose another folder") from error


COMMAND: Final = Command(
    "init", "create a folder with situations and groups to edit, and the command that audits a model on them",
    lambda: _USAGE.help(_HELP), _init, usages=(_USAGE,),
)  # fmt: skip
