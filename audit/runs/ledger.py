"""``ledger.jsonl``: the SHA-256 of every file stored in a folder, so that no change goes unseen.

A line announces files, ``{"files": {NAME: SHA-256 or null}}``; null means that the file is about to go. The line is on
disk before the file is. So if a process is killed, only the files of the last line may be in either state, and the next
process to enter the folder writes down which.

Anyone who can write to the folder can also rewrite the ledger. It reveals mistakes and swaps, not forgery; for that
there is the run's digest, see :mod:`audit.runs.digest`.
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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from audit.errors import StoreError, recovery, report_command
from audit.runs.files import (
    NO_FILE,
    check_in_place,
    refuse_link,
    sha256_of,
    sync_folder,
    unfinished_of,
    whole,
    writing,
)
from audit.runs.told import FILE as FILE
from audit.runs.told import OTHER_LINE_ENDS, LedgerSummary, read_ledger

ASIDE: Final = ".publishing"  # where a whole analysis is written before it replaces an earlier one
GENERATION: Final = "tables/generation.txt"
"""Identifies the analysis that the tables beside it belong to, as the manifest and the page do."""
_MADE: Final = re.compile(
    r"(tables|figures|raters|people/raters|norming/raters|validation)/.+|calibration\.csv|dictionary\.csv|manifest\.copy\.json|[^/]+\.(html|md|tex|png)"
)
"""Files that an analysis made from stored files, or that are sent to raters: they can be lost and made again."""
_READ: Final = (
    "manifest.json", "prompts.json.gz", "corpus.json", "given.parquet", "trial_answers.parquet", "manipulation.parquet",
    "pairs.parquet", "end_shares.parquet", "elicitation_sample.parquet", "asked_again.parquet", "asked_in_*.parquet",
    "narrative_covariates.parquet",
    *(f"{name}.parquet" for name in ("ratings", "replies", "answers", "stages", "judged", "rationales")),
    *(f"{name}/part-*.parquet"
      for name in ("ratings", "replies", "answers", "stages", "judged", "rationales", "parts")),
    "scores/*/part-*.parquet", "scores/*/part-*.json", "scores/*/scores.parquet", "scores/*/scorer.json",
    *(f"{folder}/{name}" for folder in ("people", "norming")
      for name in ("ratings.csv", "raters.csv", "key.csv", "study.json", "questions.yaml")),
    "key.csv", "sides.csv", "questions.yaml",
)  # fmt: skip
"""Glob patterns of files that a folder may contain. Others are ignored."""
PLACES: Final = tuple(sorted({pattern.rpartition("/")[0] or "." for pattern in _READ}))  # the folders of these files
_SHOWN: Final = ("tables/*.csv", "figures/*.svg", "figures/*.png", "figures/*.pdf")
"""Files that a reader would take for part of an analysis."""
_SET_ASIDE: Final = re.compile(r"prompts\.json\.gz|(given|manipulation)\.parquet|stages(\.parquet|/.*)|scores/.*\.json")
"""Files that `audit recover` handles and that the run's command does not collect anew while answers exist."""
JUDGED: Final = re.compile(r"parts/part-\d+\.parquet|pairs\.parquet")  # files that a judge is asked for anew if gone
_ASKED_ANEW: Final = re.compile(
    r"(ratings|replies|answers|judged|rationales|elicitation_sample|asked_again|asked_in_\w+|narrative_covariates)(/.*)?(\.parquet)?"
    r"|scores/[^/]+/(part-.*|scores\.parquet)"
)
"""Files that the run's own command collects anew if they are gone."""


CHANGED: Final = "has changed since it was stored (its SHA-256 differs)"
_FOREIGN: Final = "was not stored by this run"
_NOT_MADE: Final = "was not made by this run's analysis"


@dataclass(frozen=True)
class LedgerDifferences:
    """How a folder differs from its ledger, by file name."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()  # would be read but were not stored
    ledger: str = ""  # what is wrong with the ledger itself

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.foreign or self.ledger)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield (file name, fault in words)."""
        if self.ledger:
            yield FILE, self.ledger
        yield from ((name, CHANGED) for name in self.changed)
        yield from ((name, "was stored but is gone") for name in self.gone)
        yield from ((name, _NOT_MADE if is_made(name) else _FOREIGN) for name in self.foreign)


def faults_of(folder: Path, *, made: bool = False, needed: bool = False) -> LedgerDifferences:
    """Return how a folder differs from its ledger; no faults without a ledger unless one is ``needed``.

    The process that holds the folder may write to it meanwhile. ``made`` includes tables, figures and pages.
    """
    return _held_against(folder, made=made, needed=needed)[0]


def _held_against(folder: Path, *, made: bool, needed: bool) -> tuple[LedgerDifferences, LedgerSummary]:
    """Return the faults and the ledger; reads again if the ledger changed meanwhile."""
    while True:
        try:
            told = read_ledger(folder)
            if told is None:
                gone = "is gone, so changes to files cannot be detected" if needed else ""
                return LedgerDifferences(ledger=gone), LedgerSummary()
            found = _compare(folder, told, made=made)
            if not found:
                return found, told
            later = read_ledger(folder)
        except OSError as error:
            raise StoreError(f"{error.filename or folder} cannot be read ({error.strerror or error})") from error
        if later == told:
            return found, told


def _compare(folder: Path, told: LedgerSummary, *, made: bool) -> LedgerDifferences:
    if told.fault:
        return LedgerDifferences(ledger=told.fault)
    changed: list[str] = []
    gone: list[str] = []
    for name in sorted(told.files):
        if is_made(name) and not made:
            continue
        actual, allowed = sha256_of(folder / name), told.allowed(name)
        if actual not in allowed and any(allowed):
            (changed if actual is not None else gone).append(name)
    there = stored_in(folder)
    if made and any(is_made(name) and told.knows(name) for name in told.files):
        there |= _named((path for pattern in _SHOWN for path in folder.glob(pattern)), folder)
    known = {name for name in told.files if told.knows(name)}
    foreign = sorted(there - known)
    return LedgerDifferences(tuple(changed), tuple(gone), tuple(foreign))


def stored_in(folder: Path) -> set[str]:
    """Return the names of the files in a folder that would be read."""
    return _named((path for pattern in _READ for path in folder.glob(pattern)), folder)


def _named(paths: Iterable[Path], folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in paths if not path.name.startswith(".")}


def is_made(name: str) -> bool:
    """Whether a file can be made again from stored files."""
    return _MADE.fullmatch(name) is not None


@dataclass(frozen=True)
class Checked:
    """A folder without faults: names of files that are missing and may be, and of accepted files."""

    lacking: tuple[str, ...]
    accepted: tuple[str, ...]


def check(folder: Path, *, needed: bool = False, may_lack: Callable[[str], bool] | None = None) -> Checked:
    """Raise StoreError if stored files differ from the ledger; the message names the first and its remedy."""
    found, told = _held_against(folder, made=False, needed=needed)
    lacking = tuple(name for name in found.gone if may_lack is not None and may_lack(name))
    found = LedgerDifferences(
        found.changed, tuple(name for name in found.gone if name not in lacking), found.foreign, found.ledger
    )
    wrong = list(found.lines())
    if wrong:
        raise StoreError(_refusal(folder, *wrong[0], n_more=len(wrong) - 1))
    return Checked(lacking, told.accepted)


def _refusal(folder: Path, name: str, what: str, *, n_more: int = 0) -> str:
    """Say what is wrong with a file and what to do."""
    more = f" (and {n_more:,} more)" if n_more else ""
    verify = shlex.join(["python", "-m", "audit", "verify", str(folder)])
    return f"{folder / name} {what}{more}; {remedy_for(folder, name, what)}; `{verify}` lists everything that is wrong"


def remedy_for(folder: Path, name: str, what: str) -> str:
    """Say what to do about a file; each of these remedies works."""
    if what in (_FOREIGN, _NOT_MADE):
        return "move it out of the folder"
    if OTHER_LINE_ENDS in what:
        return "put the folder's files back as they were, in git with a line `* -text` in its .gitattributes"
    if _is_of_runs(folder):
        return _remedy_of_runs(name, what)
    if is_made(name):
        return f"`{report_command(folder)}` makes it again"
    if _ASKED_ANEW.fullmatch(name):
        lost = "that part" if "/" in name else "all of it"
        if what.endswith("gone"):
            return f"restore it from a copy, or run the same command again: it collects {lost} again"
        return (
            f"restore it from a copy, or {recovery(folder, 'sets it aside')} and the same run command collects it again"
        )
    if _SET_ASIDE.fullmatch(name) and not what.endswith("gone"):
        does = "sets it aside if it cannot be used, or keeps it as it is (the report says so)"
        return f"restore it from a copy, or {recovery(folder, does)}; the same run command continues"
    if name in ("manifest.json", FILE):
        return f"restore it from a copy, or {recovery(folder, 'restores what can be')}"
    return "restore it from a copy, or give `verify` accept=true, which accepts it as it is (the report says so)"


def _is_of_runs(folder: Path) -> bool:
    """Whether a folder has judged pairs or choices: `recover` and accept=true are for runs."""
    return any((folder / name).exists() for name in ("parts", "pairs.parquet", "sides.csv", "judgement.html"))


def _remedy_of_runs(name: str, what: str) -> str:
    if JUDGED.fullmatch(name):
        first = "" if what.endswith("gone") else "move it out of the folder and "
        return f"restore it from a copy, or {first}give the same judge command again, which asks those pairs again"
    if is_made(name):
        return "the command that made it, `judge` or `people import`, makes it again"
    return "restore it from a copy, or give the same command with another run_dir, which starts again"


def asked_anew(name: str) -> bool:
    """Whether the run's own command collects a missing file anew."""
    return _ASKED_ANEW.fullmatch(name) is not None


@dataclass(frozen=True)
class Story:
    """What a folder's ledger records."""

    files: Mapping[str, str]  # SHA-256 by name of the files that should be there
    was: Mapping[str, str]  # SHA-256 of all files that ever were; consolidated parts are no longer in `files`
    n_lines: int
    taken_over: tuple[str, ...]  # files that were there when the ledger was begun; their earlier history is unknown
    accepted: tuple[str, ...]  # files that were changed, gone or foreign and were accepted
    anew: tuple[str, ...]  # parts that were stored more than once, with other answers each time


def check_made(folder: Path, name: str, *, remedy: str) -> str:
    """Return the generation of a table or page; StoreError if the last analysis did not write it so, or not fully."""
    try:
        told = read_ledger(folder)
        if told is None or told.fault or not any(is_made(each) and told.knows(each) for each in told.files):
            return ""
        actual = sha256_of(folder / name)
    except OSError as error:
        raise StoreError(f"{error.filename or folder} cannot be read ({error.strerror or error})") from error
    if actual is None:  # the caller reports a missing file
        return told.files.get(GENERATION) or ""
    if told.published and (folder / ASIDE).exists():
        raise StoreError(
            f"{folder / name} may come from another analysis than the files next to it, because the last analysis "
            f"was not stored completely; {remedy}"
        )
    if not told.knows(name):
        raise StoreError(f"{folder / name} {_NOT_MADE}; {remedy_for(folder, name, _NOT_MADE)}")
    if actual not in told.allowed(name):
        raise StoreError(f"{folder / name} has changed since it was written (its SHA-256 differs); {remedy}")
    return told.files.get(GENERATION) or ""


def story_of(folder: Path) -> Story | None:
    """Return what a folder's ledger records; None if it is missing or unreadable."""
    try:
        told = read_ledger(folder)
    except OSError:
        return None
    if told is None:
        return None
    files = {name: sha256 for name, sha256 in sorted(told.files.items()) if sha256 is not None}
    return Story(files, told.was, told.n_lines, told.taken_over, told.accepted, told.anew)


class Ledger:
    """The ledger of one folder, through which all its files are written, by one process at a time.

    ``kept=False`` writes files without a ledger, for folders that collect nothing; ``confirms=False`` lets
    :meth:`confirm` pass everything, for commands that look for damage.
    """

    def __init__(self, folder: Path, *, kept: bool = True, confirms: bool = True) -> None:
        self._folder = folder
        self._kept = kept
        self._confirms = kept and confirms
        self._told = LedgerSummary()
        self._open = False

    def write(self, name: str, content: bytes) -> Path:
        """Write a file, whole or not at all, and return its path."""
        with self.whole(name) as handle:
            handle.write(content)
        return self._folder / name

    @contextmanager
    def whole(self, name: str) -> Iterator[io.BufferedWriter]:
        """Open a file to be written whole; see :func:`audit.runs.files.whole`."""
        path = self._folder / name
        check_in_place(self._folder)
        self._refuse_links([name])
        refuse_link(unfinished_of(path))
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path, before=lambda written: self._begin({name: sha256_of(written)})) as handle:
            yield handle
        self._open = False

    def remove(self, names: Iterable[str]) -> None:
        """Remove files in this order; missing ones are ignored."""
        own = [name for name in dict.fromkeys(names) if self._known(name) or (self._folder / name).exists()]
        if not own:
            return
        self._refuse_links(own)
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
        """Move a file to where nothing reads it."""
        self._refuse_links([name, target.relative_to(self._folder).as_posix()])
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        self._begin({name: None})
        with writing(target):
            (self._folder / name).replace(target)
            sync_folder(target.parent)
            sync_folder((self._folder / name).parent)
        self._open = False

    def names(self, beneath: str) -> list[str]:
        """Return the files beneath a subfolder that are present or in the ledger."""
        there = {
            path.relative_to(self._folder).as_posix() for path in (self._folder / beneath).rglob("*") if path.is_file()
        }
        said = {name for name, sha256 in self._current().files.items() if sha256 and name.startswith(f"{beneath}/")}
        return sorted(there | said)

    def publish(self, files: Mapping[str, bytes], *, instead_of: Iterable[str], generation: str) -> None:
        """Replace an earlier analysis's files, all or none; on StoreError (disk full, not writable) they stay.

        The new files are written aside first. If a process is killed while they are moved into place, the next one to
        enter the folder finishes that. Files in ``instead_of`` that are not in ``files`` are removed.
        """
        aside = self._folder / ASIDE
        going = {name: None for name in instead_of if name not in files}
        self._refuse_links([*files, *going])
        with writing(aside):
            try:
                _clear_away(aside)
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
                _clear_away(aside)
                raise
        put = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self._begin({**going, **put}, published=generation)
        self._put_in_place()
        self._open = False

    def _put_in_place(self) -> None:
        """Move the files of the last line into place, as far as that is not done."""
        told, aside = self._current(), self._folder / ASIDE
        self._refuse_links([*told.before, *(f"{ASIDE}/{name}" for name in told.before)])
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
            _clear_away(aside)

    def settle(self) -> None:
        """Record what happened to the last line's files; finish an analysis that was being put in place."""
        told = self._current()
        if told.fault:
            return
        aside = self._folder / ASIDE
        if aside.exists():
            if told.published and not aside.is_symlink():
                self._put_in_place()
            else:
                with writing(aside):
                    _clear_away(aside)
        if told.before:
            self._open = True
            self._close()

    def take_over(self) -> None:
        """Begin the ledger of a folder from an earlier version, with the files as they are, if it has any."""
        if files := self._as_they_are(stored_in(self._folder)):
            self._append({"files": files, "taken_over": True})

    def accept(self, faults: LedgerDifferences, others: Iterable[str] = ()) -> None:
        """Accept files although they differ from what was stored, and record that; an unreadable ledger is kept."""
        path = self._folder / FILE
        names = [*faults.changed, *faults.gone, *faults.foreign, *others]
        if faults.ledger:
            earlier = self._current().accepted
            if path.exists():
                number = 1 + sum(1 for _ in self._folder.glob("ledger.before-*.jsonl"))
                with writing(path):
                    path.replace(self._folder / f"ledger.before-{number}.jsonl")
            files = self._as_they_are(stored_in(self._folder))
            names = [*earlier, *names, FILE]
        else:
            files = {**self._as_they_are([*faults.changed, *faults.foreign]), **dict.fromkeys(faults.gone)}
        self._append({"files": files, "accepted": list(dict.fromkeys(names))})
        self.settle()

    def _as_they_are(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the SHA-256 of files; raise StoreError for what is not a file."""
        with writing(self._folder):
            files = {name: sha256_of(self._folder / name) for name in sorted(names)}
        if odd := next((name for name, sha256 in files.items() if sha256 == NO_FILE), None):
            raise StoreError(f"{self._folder / odd} is not a file; move it out of the folder")
        return files

    def confirm(self, name: str) -> None:
        """Raise StoreError if a file just read differs from what was stored; without a ledger, do nothing."""
        if not self._confirms:
            return
        while True:
            told = self._current()
            n_bytes = told.n_bytes
            if not told.n_lines or told.fault:  # reading the manifest reports a faulty ledger
                return
            try:
                actual = sha256_of(self._folder / name)
            except OSError as error:
                raise StoreError(f"{self._folder / name} cannot be read ({error.strerror or error})") from error
            if actual is None or actual in told.allowed(name):
                return
            if self._current().n_bytes == n_bytes:
                break
        raise StoreError(_refusal(self._folder, name, CHANGED if told.knows(name) else _FOREIGN))

    def _refuse_links(self, names: Iterable[str]) -> None:
        """Raise StoreError for files beneath a symbolic link."""
        for parent in dict.fromkeys(PurePosixPath(name).parent for name in names):
            for place in (parent, *parent.parents):
                if place.parts:
                    refuse_link(self._folder / place)

    def _begin(self, files: Mapping[str, str | None], **more: Any) -> None:
        """Announce files in the ledger."""
        if self._open:
            self._close()
        self._append({"files": dict(files), **more})
        self._open = True

    def _close(self) -> None:
        """Record whether the announced files are in place, or still as before."""
        told = self._current()
        with writing(self._folder):
            actual = {name: sha256_of(self._folder / name) for name in told.before}
        # A file in neither state was changed by something else: the ledger keeps the announced hash and reports it.
        other = {n: sha for n, sha in actual.items() if sha != told.files[n] and sha == told.before[n]}
        self._append({"files": other})
        if other:
            self._append({"files": {}})
        self._open = False

    def _known(self, name: str) -> bool:
        return bool(self._current().files.get(name))

    def _current(self) -> LedgerSummary:
        """Return the ledger, read again if another process has written to it."""
        path = self._folder / FILE
        try:
            n_bytes = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            n_bytes = 0
        if n_bytes != self._told.n_bytes or not n_bytes:
            with writing(path):
                self._told = read_ledger(self._folder) or LedgerSummary()
        return self._told

    def _append(self, said: Mapping[str, Any]) -> None:
        if not self._kept:
            return
        told, path = self._current(), self._folder / FILE
        if told.fault:
            raise StoreError(f"{path} {told.fault}; {remedy_for(self._folder, FILE, '')}")
        line = f"{json.dumps(dict(said))}\n".encode()
        refuse_link(path)
        new = not path.exists()
        with writing(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                # Cut off what a killed process left of a line.
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
        told.n_lines += 1
        told.n_bytes += len(line)


def _clear_away(aside: Path) -> None:
    """Remove files written aside; if it is a link, only the link."""
    if aside.is_symlink():
        aside.unlink()
    shutil.rmtree(aside, ignore_errors=True)
