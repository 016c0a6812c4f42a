"""``ledger.jsonl``: the SHA-256 of every file that was stored in a folder, so that none changes unseen.

A line says what files are about to be, ``{"after": ..., "files": {NAME: SHA-256 or null}}``, null of one that is about
to go. It is on the disk before the file takes its place. So a folder that a process was killed in has at most the files
of the last line in either state, and which one is written down when the folder is next entered. ``after`` is the
SHA-256 of the line before: no line can be changed or left out but the last.

Whoever may write to the folder can write the ledger anew, too. It tells mistakes and swaps, not forgery.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from audit.errors import StoreError, recovery
from audit.runs.files import sha256_of, sync_folder, whole, writing

FILE: Final = "ledger.jsonl"
ASIDE: Final = ".publishing"
"""Where an analysis is written before all of it takes the place of an earlier one."""
_MADE: Final = re.compile(
    r"(tables|figures|raters|people/raters|norming/raters)/.+|calibration\.csv|dictionary\.csv|manifest\.copy\.json|[^/]+\.(html|md|tex|png)"
)
"""What an analysis made of what was stored, or what is sent to raters: it may go, and can be made again."""
_READ: Final = (
    "manifest.json", "prompts.json.gz", "corpus.json", "given.parquet", "manipulation.parquet", "pairs.parquet",
    "elicitation_sample.parquet", "asked_again.parquet", "asked_in_*.parquet",
    *(f"{name}.parquet" for name in ("ratings", "replies", "answers", "stages", "judged")),
    *(f"{name}/part-*.parquet" for name in ("ratings", "replies", "answers", "stages", "judged", "parts")),
    "scores/*/part-*.parquet", "scores/*/part-*.json", "scores/*/scores.parquet", "scores/*/scorer.json",
    *(f"{folder}/{name}" for folder in ("people", "norming")
      for name in ("ratings.csv", "raters.csv", "key.csv", "study.json", "questions.yaml")),
    "key.csv", "sides.csv", "questions.yaml",
)  # fmt: skip
"""What is read of a folder where it is there; other files in it are nobody's."""
_ASKED_ANEW: Final = re.compile(
    r"(ratings|replies|answers|judged|elicitation_sample|asked_again|asked_in_\w+)(/.*)?(\.parquet)?"
    r"|scores/[^/]+/(part-.*|scores\.parquet)"
)
"""What the run's own command collects anew where it is gone."""


@dataclass(frozen=True)
class Faults:
    """What of a folder is not as its ledger says.

    Attributes
    ----------
    changed, gone
        Names of files that hold something else than was stored, and of those that are not there.
    foreign
        Names of files that would be read, and were not stored.
    ledger
        What is wrong with the ledger itself; empty if nothing is.
    """

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    ledger: str = ""

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.foreign or self.ledger)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with each file, and what it is: a file's name and words."""
        if self.ledger:
            yield FILE, self.ledger
        yield from ((name, "is not what was stored: its SHA-256 has changed") for name in self.changed)
        yield from ((name, "was stored, and is gone") for name in self.gone)
        yield from ((name, "was not stored by this run") for name in self.foreign)


@dataclass
class _Told:
    """What the lines of a ledger say, taken together."""

    files: dict[str, str | None] = field(default_factory=dict)
    was: dict[str, str] = field(default_factory=dict)
    """What each file was when it was last there."""
    before: dict[str, str | None] = field(default_factory=dict)
    """Of the files of the last line, what was said of them before."""
    last: str = ""
    """SHA-256 of the last line."""
    n_lines: int = 0
    n_bytes: int = 0
    """Of all lines that were written to their end."""
    published: bool = False
    """Whether the last line is of an analysis that is put in place."""
    taken_over: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    fault: str = ""

    def allowed(self, name: str) -> tuple[str | None, ...]:
        """Return what a file may be: one of the last line may still be what it was before."""
        return (self.files.get(name), self.before[name]) if name in self.before else (self.files.get(name),)


def _read(folder: Path) -> _Told | None:
    """Return what a folder's ledger says; None where it has none. OSError if it cannot be read."""
    try:
        content = (folder / FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    told = _Told()
    for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
        told.n_lines += 1
        try:
            said = json.loads(line)
            files, after = said["files"], said["after"]
            if not all(
                isinstance(name, str) and (value is None or isinstance(value, str)) for name, value in files.items()
            ):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            told.fault = f"line {told.n_lines} cannot be read"
            break
        if after != told.last:
            told.fault = f"line {told.n_lines} does not follow the one before it: a line was changed or left out"
            break
        told.before = {name: told.files.get(name) for name in files}
        told.files |= files
        told.was |= {name: sha256 for name, sha256 in files.items() if sha256 is not None}
        told.published = "published" in said
        told.taken_over += tuple(files) if "taken_over" in said else ()
        # A table that was made again is as it was made, whatever had been accepted before.
        told.accepted = tuple(name for name in told.accepted if not (is_made(name) and name in files))
        told.accepted += tuple(map(str, said.get("accepted", ())))
        told.last = hashlib.sha256(line).hexdigest()
        told.n_bytes += len(line)
    return told


def faults_of(folder: Path, *, made: bool = False, needed: bool = False) -> Faults:
    """Return what of a folder is not as its ledger says; nothing of one without a ledger.

    Parameters
    ----------
    folder
        May be written to meanwhile by the process that holds it.
    made
        Whether to look at tables, figures and pages too, which can be made again.
    needed
        Whether there must be a ledger.

    Raises
    ------
    StoreError
        If a file cannot be read.
    """
    while True:
        try:
            told = _read(folder)
            if told is None:
                return Faults(ledger="is gone, so that nobody can tell whether files were changed" if needed else "")
            found = _compare(folder, told, made=made)
            if not found:
                return found
            later = _read(folder)
        except OSError as error:
            raise StoreError(f"{error.filename or folder} cannot be read ({error.strerror or error})") from error
        if later == told:
            return found


def _compare(folder: Path, told: _Told, *, made: bool) -> Faults:
    if told.fault:
        return Faults(ledger=told.fault)
    changed: list[str] = []
    gone: list[str] = []
    for name in sorted(told.files):
        if is_made(name) and not made:
            continue
        actual, allowed = sha256_of(folder / name), told.allowed(name)
        if actual not in allowed and any(allowed):
            (changed if actual is not None else gone).append(name)
    there = _there(folder)
    known = {name for name in told.files if any(told.allowed(name))}
    foreign = sorted(there - known)
    return Faults(tuple(changed), tuple(gone), tuple(foreign))


def _there(folder: Path) -> set[str]:
    """Return the names of the files that would be read of a folder."""
    return _named((path for pattern in _READ for path in folder.glob(pattern)), folder)


def _named(paths: Iterable[Path], folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in paths}


def is_made(name: str) -> bool:
    """Tell whether a file of a folder can be made again of what was stored in it."""
    return _MADE.fullmatch(name) is not None


def check(folder: Path, *, needed: bool = False, may_lack: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """Refuse a folder of which something that was stored is not as its ledger says.

    Parameters
    ----------
    folder, needed
        As of :func:`faults_of`.
    may_lack
        Tells of a file that is gone whether that may be.

    Returns
    -------
    tuple
        Names of the files that are gone and may be.

    Raises
    ------
    StoreError
        If something was changed, is gone, or was not stored; names the first file and the remedy.
    """
    found = faults_of(folder, needed=needed)
    lacking = tuple(name for name in found.gone if may_lack is not None and may_lack(name))
    found = Faults(
        found.changed, tuple(name for name in found.gone if name not in lacking), found.foreign, found.ledger
    )
    wrong = list(found.lines())
    if wrong:
        name, what = wrong[0]
        more = f" (and {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
        verify = shlex.join(["python", "-m", "audit", "verify", str(folder)])
        raise StoreError(
            f"{folder / name} {what}{more}; {remedy_for(folder, name, what)}; `{verify}` lists all that is wrong"
        )
    return lacking


def remedy_for(folder: Path, name: str, what: str) -> str:
    """Say what to do about a file of a folder; each of these works when it is followed."""
    if "not stored by" in what:
        return "move it out of the folder"
    if is_made(name):
        return "`python -m audit report` makes it anew"
    if _ASKED_ANEW.fullmatch(name):
        lost = "that part" if "/" in name else "all of it"
        if what.endswith("gone"):
            return f"put a copy of it back, or run the same command again: it collects {lost} anew"
        return (
            f"put a copy of it back, or {recovery(folder, 'sets it aside')} and the same run command collects it anew"
        )
    if name in ("manifest.json", FILE):
        return f"put a copy of it back, or {recovery(folder, 'restores what can be')}"
    return "put a copy of it back, or give `verify` accept=true, which takes it as it is, and the report says so"


def asked_anew(name: str) -> bool:
    """Tell whether the run's own command collects a file anew that is gone."""
    return _ASKED_ANEW.fullmatch(name) is not None


@dataclass(frozen=True)
class Story:
    """What a folder's ledger tells of it.

    Attributes
    ----------
    files
        SHA-256 of the files that are to be there, by name.
    n_lines
        Of the ledger.
    was
        The same of all that ever were: parts that were put together in one file are gone from ``files``.
    taken_over
        Names of files that were there already when the ledger was begun: what became of them before is not known.
    accepted
        Names of files that were changed, gone or foreign and were accepted as they are.
    """

    files: Mapping[str, str]
    was: Mapping[str, str]
    n_lines: int
    taken_over: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """Names of accepted files, without tables, figures and pages, which are made of the others."""
        return tuple(dict.fromkeys(name for name in self.accepted if not is_made(name)))


def check_made(folder: Path, name: str, *, remedy: str) -> None:
    """Refuse a table or a page that is not what an analysis wrote.

    Parameters
    ----------
    folder, name
        The run's folder, and the file's name in it.
    remedy
        What makes it again.

    Raises
    ------
    StoreError
        If it has changed.
    """
    told = _read(folder)
    if told is None or told.fault or not any(told.allowed(name)):
        return
    if sha256_of(folder / name) not in told.allowed(name):
        raise StoreError(f"{folder / name} is not what was written: its SHA-256 has changed; {remedy}")


def story_of(folder: Path) -> Story | None:
    """Return what a folder's ledger tells; None where there is none, or none that can be read."""
    try:
        told = _read(folder)
    except OSError:
        return None
    if told is None:
        return None
    files = {name: sha256 for name, sha256 in sorted(told.files.items()) if sha256 is not None}
    return Story(files, told.was, told.n_lines, told.taken_over, told.accepted)


class Ledger:
    """The ledger of one folder, through which all its files are written.

    Parameters
    ----------
    folder
        The folder; only one process at a time may write to it.
    kept
        Whether there is one: of a folder in which nothing is collected there is none, and files are but written.
    """

    def __init__(self, folder: Path, *, kept: bool = True) -> None:
        self._folder = folder
        self._kept = kept
        self._told = _Told()
        self._open = False

    def write(self, name: str, content: bytes) -> Path:
        """Write a file so that it is there whole or not at all, and return where it is.

        Raises
        ------
        StoreError
            If the disk is full or the place may not be written to.
        """
        with self.whole(name) as handle:
            handle.write(content)
        return self._folder / name

    @contextmanager
    def whole(self, name: str) -> Iterator[io.BufferedWriter]:
        """Open a file to write it whole; see :func:`audit.runs.files.whole`."""
        path = self._folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path, before=lambda written: self._begin({name: sha256_of(written)})) as handle:
            yield handle
        self._open = False

    def remove(self, names: Iterable[str]) -> None:
        """Remove files that are there, or were, in that order; StoreError if that cannot be done."""
        own = [name for name in dict.fromkeys(names) if self._known(name) or (self._folder / name).exists()]
        if not own:
            return
        self._begin(dict.fromkeys(own))
        folders = {(self._folder / name).parent for name in own}
        with writing(self._folder):
            for name in own:
                (self._folder / name).unlink(missing_ok=True)
            for folder in folders:
                if folder.is_dir():
                    sync_folder(folder)
        self._open = False

    def move(self, name: str, target: Path) -> None:
        """Move a file to where nothing reads it; StoreError if that cannot be done."""
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        self._begin({name: None})
        with writing(target):
            (self._folder / name).replace(target)
            sync_folder(target.parent)
            sync_folder((self._folder / name).parent)
        self._open = False

    def names(self, beneath: str) -> list[str]:
        """Return the files beneath a folder of the folder, whether they are there or the ledger says so."""
        there = {
            path.relative_to(self._folder).as_posix() for path in (self._folder / beneath).rglob("*") if path.is_file()
        }
        said = {name for name, sha256 in self._current().files.items() if sha256 and name.startswith(f"{beneath}/")}
        return sorted(there | said)

    def publish(self, files: Mapping[str, bytes], *, instead_of: Iterable[str], generation: str) -> None:
        """Put files in the place of an earlier analysis's, all of them or none.

        They are written aside first. A process that is killed while they take their places is made good by the next
        one that enters the folder.

        Parameters
        ----------
        files
            What is to be there, by name.
        instead_of
            Names of what is to go if it is not among them.
        generation
            What they were made of, in a few letters.

        Raises
        ------
        StoreError
            If the disk is full or the place may not be written to: the earlier analysis stays.
        """
        aside = self._folder / ASIDE
        with writing(aside):
            try:
                shutil.rmtree(aside, ignore_errors=True)
                for name, content in files.items():
                    place = aside / name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with place.open("wb") as handle:
                        handle.write(content)
                        handle.flush()
                        os.fsync(handle.fileno())
                for folder in {(aside / name).parent for name in files}:
                    sync_folder(folder)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
        going = {name: None for name in instead_of if name not in files}
        put = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self._begin({**going, **put}, published=generation)
        self._put_in_place()
        self._open = False

    def _put_in_place(self) -> None:
        """Give the files of the last line their places, as far as they have not taken them."""
        told, aside = self._current(), self._folder / ASIDE
        with writing(self._folder):
            for name in told.before:
                path = self._folder / name
                if told.files[name] is None:
                    path.unlink(missing_ok=True)
                elif (aside / name).exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    (aside / name).replace(path)
            for folder in {(self._folder / name).parent for name in told.before}:
                if folder.is_dir():
                    sync_folder(folder)
                    if not any(folder.iterdir()):
                        folder.rmdir()
            shutil.rmtree(aside, ignore_errors=True)

    def settle(self) -> None:
        """Write down what became of the last line's files; finish an analysis that was being put in place.

        Raises
        ------
        StoreError
            If the folder may not be written to.
        """
        told = self._current()
        if told.fault:
            return
        aside = self._folder / ASIDE
        if aside.exists():
            if told.published:
                self._put_in_place()
            else:
                with writing(aside):
                    shutil.rmtree(aside, ignore_errors=True)
        if told.before:
            self._open = True
            self._close()

    def take_over(self, *, accepted: Faults | None = None) -> None:
        """Take what is in the folder as it is: what an earlier version stored, or what is accepted although it differs.

        Parameters
        ----------
        accepted
            What differs from the ledger that there was. If None, there was none; nothing is written if the folder has
            no file that would be in it.

        Raises
        ------
        StoreError
            If a file cannot be read, or the folder may not be written to.
        """
        with writing(self._folder):
            there = {
                path.relative_to(self._folder).as_posix() for pattern in _READ for path in self._folder.glob(pattern)
            }
            files = {name: sha256_of(self._folder / name) for name in sorted(there)}
            if accepted is None:
                if files:
                    self._append({"files": files, "taken_over": True})
                return
            if accepted.ledger and (self._folder / FILE).exists():
                number = 1 + sum(1 for _ in self._folder.glob("ledger.before-*.jsonl"))
                (self._folder / FILE).replace(self._folder / f"ledger.before-{number}.jsonl")
            said = self._current()
            gone = {
                name: None for name in said.files if name not in files and (not is_made(name) or name in accepted.gone)
            }
            made = {name: sha256_of(self._folder / name) for name in said.files if is_made(name)}
            names = [*accepted.changed, *accepted.gone, *accepted.foreign, *([FILE] if accepted.ledger else [])]
            self._append({"files": {**gone, **made, **files}, "accepted": names})
        self.settle()

    def _begin(self, files: Mapping[str, str | None], **more: Any) -> None:
        """Write down what files are about to be."""
        if self._open:
            self._close()
        self._append({"files": dict(files), **more})
        self._open = True

    def _close(self) -> None:
        """Write down that the files of the last line are what it says, or else what they are."""
        told = self._current()
        with writing(self._folder):
            actual = {name: sha256_of(self._folder / name) for name in told.before}
        # What is neither what it was nor what it was to be is another's doing: the ledger goes on saying so.
        other = {n: sha for n, sha in actual.items() if sha != told.files[n] and sha == told.before[n]}
        self._append({"files": other})
        if other:
            self._append({"files": {}})
        self._open = False

    def _known(self, name: str) -> bool:
        return bool(self._current().files.get(name))

    def _current(self) -> _Told:
        """Return what the ledger says, read again if another process has written to it."""
        path = self._folder / FILE
        try:
            n_bytes = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            n_bytes = 0
        if n_bytes != self._told.n_bytes or not n_bytes:
            with writing(path):
                self._told = _read(self._folder) or _Told()
        return self._told

    def _append(self, said: Mapping[str, Any]) -> None:
        if not self._kept:
            return
        told, path = self._current(), self._folder / FILE
        if told.fault:
            raise StoreError(f"{path} {told.fault}; {remedy_for(self._folder, FILE, '')}")
        line = f"{json.dumps({'after': told.last, **said})}\n".encode()
        new = not path.exists()
        with writing(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                # Whatever a process that was killed has left of a line ends here.
                os.ftruncate(descriptor, told.n_bytes)
                os.lseek(descriptor, 0, os.SEEK_END)
                done = 0
                while done < len(line):
                    done += os.write(descriptor, line[done:])
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                sync_folder(self._folder)
        files = said["files"]
        told.before = {name: told.files.get(name) for name in files}
        told.files.update(files)
        told.published = "published" in said
        told.last = hashlib.sha256(line).hexdigest()
        told.n_lines += 1
        told.n_bytes += len(line)
