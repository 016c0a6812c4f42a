"""``cache``: lists what the cache holds, and frees it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_text, option_lines
from audit.cli.terminal.printing import disk_size, print_table, tell
from audit.configuration.packaged import cache_folder
from audit.errors import ConfigError
from audit.tables.formatting import brief
from stimuli.errors import suggest

_ALL: Final = "all"
_FREE: Final[Option[str | None]] = Option("free", a_text, None, "what to delete: a name, or all", "NAME")
_USAGE: Final = Usage("cache", options=(_FREE,))
_HELP: Final = f"""\
usage: python -m audit cache [free=NAME|all]

Lists the models that runs have unpacked from GGUF files and packages, and the hashes of large files, with their sizes.
With free=, deletes them; what is in use is not deleted. A later run creates what it needs again. Models that were
downloaded from the hub are not here: `hf cache ls` lists them.

options:
{option_lines(_FREE)}
"""


@dataclass(frozen=True)
class Cached:
    """A file or folder of the cache."""

    path: Path

    @property
    def files(self) -> list[os.stat_result]:
        """What the system says of its files."""
        places = [self.path, *self.path.rglob("*")] if self.path.is_dir() else [self.path]
        return [place.lstat() for place in places if not place.is_dir()]

    @property
    def what(self) -> str:
        """The model's own name, or what it is."""
        if self.path.name == "digests":
            return "hashes of large files"
        with contextlib.suppress(OSError, ValueError, AttributeError):
            own = json.loads((self.path / "config.json").read_text("utf-8")).get("_model_name_or_path")
            return brief(f"unpacked model {own}" if own else "unpacked model")
        return "unfinished"

    @property
    def lock(self) -> Path:
        """The file that is locked while it is unpacked; an unfinished one has a further suffix."""
        return self.path.with_name(f"{self.path.name.partition('.')[0]}.lock")

    def users(self) -> list[str]:
        """Return the processes that have a file of it open or in memory, if this user may see that."""
        inside = f"{self.path.resolve()}/"
        return [own.name for own in Path("/proc").glob("[0-9]*") if any(inside in each for each in _open(own))]

    def free(self) -> None:
        """Delete it. Raises ConfigError if a process uses it."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.lock, timeout=0):
                if users := self.users():
                    raise ConfigError(
                        f"{self.path.name} is in use by process {', '.join(users)}; wait until it has ended"
                    )
                if self.path.is_dir() and not self.path.is_symlink():
                    shutil.rmtree(self.path)
                else:
                    self.path.unlink()
                self.lock.unlink(missing_ok=True)
        except Timeout as error:
            raise ConfigError(f"{self.path.name} is being unpacked; wait for its end") from error
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be deleted ({error.strerror or error}); check its permissions"
            ) from error


def _open(process: Path) -> Iterator[str]:
    """Yield the paths of a process's files, open or mapped; none of another user's process."""
    with contextlib.suppress(OSError):
        yield from (process / "maps").read_text("utf-8", "replace").splitlines()
    with contextlib.suppress(OSError):
        for number in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(number)


def _cache(words: Sequence[str]) -> int:
    given = _USAGE.read(words)
    if given.places:
        raise ConfigError(f"{given.places[0]}: cache takes no folders; to delete, write free={given.places[0]}")
    folder, wanted = cache_folder(), given[_FREE]
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    cached = {path.name: Cached(path) for path in paths if path.suffix != ".lock"}
    if wanted is None:
        _list(folder, list(cached.values()))
        return OK
    if wanted not in (_ALL, *cached):
        raise ConfigError(f"free={wanted}: {folder} does not have it; {suggest(wanted, (_ALL, *cached))}")
    refused = []
    for each in cached.values() if wanted == _ALL else (cached[wanted],):
        size = sum(file.st_size for file in each.files)
        try:
            each.free()
        except ConfigError as error:
            refused.append(str(error))
        else:
            tell(f"freed: {each.path.name}, {disk_size(size)}")
    if refused:
        raise ConfigError("; ".join(refused))
    return OK


def _list(folder: Path, cached: Sequence[Cached]) -> None:
    lines, total = [("name", "what", "size", "last used")], 0
    for each in cached:
        files = each.files
        size = sum(file.st_size for file in files)
        used = [max(file.st_atime, file.st_mtime) for file in files]
        day = time.strftime("%Y-%m-%d", time.localtime(max(used))) if used else "–"
        lines.append((each.path.name, each.what, disk_size(size), day))
        total += size
    if cached:
        print_table(lines)
    tell(f"{folder}: {disk_size(total)}")


COMMAND: Final = Command("cache", "list and delete unpacked models", lambda: _HELP, _cache, usages=(_USAGE,))
