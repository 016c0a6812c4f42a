"""``ledger.jsonl``: the SHA-256 of every file that was stored in a folder, so that none changes unseen.

A line says what files are about to be, ``{"files": {NAME: SHA-256 or null}}``, null of one that is about to go. It is
on the disk before the file takes its place. So a folder that a process was killed in has at most the files of the last
line in either state, and which one is written down when the folder is next entered.

Whoever may write to the folder can write the ledger anew, too. It tells mistakes and swaps, not forgery: that is what
the run's digest is for, see :mod:`audit.runs.digest`.
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
from audit.runs.files import NO_FILE, refuse_link, sha256_of, sync_folder, unfinished_of, whole, writing
from audit.runs.told import FILE as FILE
from audit.runs.told import OTHER_LINE_ENDS, Told, read

ASIDE: Final = ".publishing"
"""Where an analysis is written before all of it takes the place of an earlier one."""
GENERATION: Final = "tables/generation.txt"
"""Says which analysis the tables beside it are of, as the manifest and the page do."""
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
PLACES: Final = tuple(sorted({pattern.rpartition("/")[0] or "." for pattern in _READ}))
"""The folders that these lie in."""
_SHOWN: Final = ("tables/*.csv", "figures/*.svg", "figures/*.png", "figures/*.pdf")
"""What a reader takes for a part of an analysis where it lies there."""
_SET_ASIDE: Final = re.compile(r"prompts\.json\.gz|(given|manipulation)\.parquet|stages(\.parquet|/.*)|scores/.*\.json")
"""What `audit recover` looks at, and that the run's command does not collect anew as long as answers are there."""
JUDGED: Final = re.compile(r"parts/part-\d+\.parquet|pairs\.parquet")
"""What a judge is asked anew where it is gone."""
_ASKED_ANEW: Final = re.compile(
    r"(ratings|replies|answers|judged|elicitation_sample|asked_again|asked_in_\w+)(/.*)?(\.parquet)?"
    r"|scores/[^/]+/(part-.*|scores\.parquet)"
)
"""What the run's own command collects anew where it is gone."""


CHANGED: Final = "is not what was stored: its SHA-256 has changed"
_FOREIGN: Final = "was not stored by this run"
_NOT_MADE: Final = "was not made by this run's analysis"


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
        yield from ((name, CHANGED) for name in self.changed)
        yield from ((name, "was stored, and is gone") for name in self.gone)
        yield from ((name, _NOT_MADE if is_made(name) else _FOREIGN) for name in self.foreign)


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
    return _held_against(folder, made=made, needed=needed)[0]


def _held_against(folder: Path, *, made: bool, needed: bool) -> tuple[Faults, Told]:
    """Return what is not as the ledger says, and what it says."""
    while True:
        try:
            told = read(folder)
            if told is None:
                gone = "is gone, so that nobody can tell whether files were changed" if needed else ""
                return Faults(ledger=gone), Told()
            found = _compare(folder, told, made=made)
            if not found:
                return found, told
            later = read(folder)
        except OSError as error:
            raise StoreError(f"{error.filename or folder} cannot be read ({error.strerror or error})") from error
        if later == told:
            return found, told


def _compare(folder: Path, told: Told, *, made: bool) -> Faults:
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
    there = stored_in(folder)
    if made and any(is_made(name) and told.knows(name) for name in told.files):
        there |= _named((path for pattern in _SHOWN for path in folder.glob(pattern)), folder)
    known = {name for name in told.files if told.knows(name)}
    foreign = sorted(there - known)
    return Faults(tuple(changed), tuple(gone), tuple(foreign))


def stored_in(folder: Path) -> set[str]:
    """Return the names of the files that would be read of a folder."""
    return _named((path for pattern in _READ for path in folder.glob(pattern)), folder)


def _named(paths: Iterable[Path], folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in paths if not path.name.startswith(".")}


def is_made(name: str) -> bool:
    """Tell whether a file of a folder can be made again of what was stored in it."""
    return _MADE.fullmatch(name) is not None


@dataclass(frozen=True)
class Checked:
    """What is to be known of a folder in which nothing is wrong.

    Attributes
    ----------
    lacking
        Names of the files that are gone and may be.
    accepted
        Names of files that had changed, and were accepted as they are.
    """

    lacking: tuple[str, ...]
    accepted: tuple[str, ...]


def check(folder: Path, *, needed: bool = False, may_lack: Callable[[str], bool] | None = None) -> Checked:
    """Refuse a folder of which something that was stored is not as its ledger says.

    Parameters
    ----------
    folder, needed
        As of :func:`faults_of`.
    may_lack
        Tells of a file that is gone whether that may be.

    Raises
    ------
    StoreError
        If something was changed, is gone, or was not stored; names the first file and the remedy.
    """
    found, told = _held_against(folder, made=False, needed=needed)
    lacking = tuple(name for name in found.gone if may_lack is not None and may_lack(name))
    found = Faults(
        found.changed, tuple(name for name in found.gone if name not in lacking), found.foreign, found.ledger
    )
    wrong = list(found.lines())
    if wrong:
        raise StoreError(_refusal(folder, *wrong[0], n_more=len(wrong) - 1))
    return Checked(lacking, told.accepted)


def _refusal(folder: Path, name: str, what: str, *, n_more: int = 0) -> str:
    """Say of a file what is wrong with it, and what to do."""
    more = f" (and {n_more:,} more)" if n_more else ""
    verify = shlex.join(["python", "-m", "audit", "verify", str(folder)])
    return f"{folder / name} {what}{more}; {remedy_for(folder, name, what)}; `{verify}` lists all that is wrong"


def remedy_for(folder: Path, name: str, what: str) -> str:
    """Say what to do about a file of a folder; each of these works when it is followed."""
    if what in (_FOREIGN, _NOT_MADE):
        return "move it out of the folder"
    if OTHER_LINE_ENDS in what:
        return "put the folder's files back as they were, in git with a line `* -text` in its .gitattributes"
    if _is_of_runs(folder):
        return _remedy_of_runs(name, what)
    if is_made(name):
        return f"`{report_command(folder)}` makes it anew"
    if _ASKED_ANEW.fullmatch(name):
        lost = "that part" if "/" in name else "all of it"
        if what.endswith("gone"):
            return f"put a copy of it back, or run the same command again: it collects {lost} anew"
        return (
            f"put a copy of it back, or {recovery(folder, 'sets it aside')} and the same run command collects it anew"
        )
    if _SET_ASIDE.fullmatch(name) and not what.endswith("gone"):
        does = "sets it aside if it cannot be used, or takes it as it is, and the report says so"
        return f"put a copy of it back, or {recovery(folder, does)}; the same run command goes on from there"
    if name in ("manifest.json", FILE):
        return f"put a copy of it back, or {recovery(folder, 'restores what can be')}"
    return "put a copy of it back, or give `verify` accept=true, which takes it as it is, and the report says so"


def _is_of_runs(folder: Path) -> bool:
    """Tell whether a folder is one of judged pairs or of choices: `recover` and accept=true are for runs."""
    return any((folder / name).exists() for name in ("parts", "pairs.parquet", "sides.csv", "judgement.html"))


def _remedy_of_runs(name: str, what: str) -> str:
    if JUDGED.fullmatch(name):
        first = "" if what.endswith("gone") else "move it out of the folder and "
        return f"put a copy of it back, or {first}give the same judge command again, which asks those pairs anew"
    if is_made(name):
        return "the command that made it, `judge` or `people import`, makes it anew"
    return "put a copy of it back, or give the same command with another run_dir, which begins anew"


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
    anew
        Names of parts of answers that were stored more than once, with other answers each time.
    """

    files: Mapping[str, str]
    was: Mapping[str, str]
    n_lines: int
    taken_over: tuple[str, ...]
    accepted: tuple[str, ...]
    anew: tuple[str, ...]


def check_made(folder: Path, name: str, *, remedy: str) -> str:
    """Refuse a table or a page that is not what the folder's last analysis wrote.

    Parameters
    ----------
    folder, name
        The run's folder, and the file's name in it.
    remedy
        What makes it again.

    Returns
    -------
    str
        What tells this analysis from others; empty where the folder has no ledger that knows it.

    Raises
    ------
    StoreError
        If it has changed, is of no analysis, or the last analysis has not taken its place whole.
    """
    try:
        told = read(folder)
        if told is None or told.fault or not any(is_made(each) and told.knows(each) for each in told.files):
            return ""
        actual = sha256_of(folder / name)
    except OSError as error:
        raise StoreError(f"{error.filename or folder} cannot be read ({error.strerror or error})") from error
    if actual is None:  # which says itself that it is not there
        return told.files.get(GENERATION) or ""
    if told.published and (folder / ASIDE).exists():
        raise StoreError(
            f"{folder / name} may be of another analysis than what lies beside it: the last one has not taken its "
            f"place whole; {remedy}"
        )
    if not told.knows(name):
        raise StoreError(f"{folder / name} {_NOT_MADE}; {remedy_for(folder, name, _NOT_MADE)}")
    if actual not in told.allowed(name):
        raise StoreError(f"{folder / name} is not what was written: its SHA-256 has changed; {remedy}")
    return told.files.get(GENERATION) or ""


def story_of(folder: Path) -> Story | None:
    """Return what a folder's ledger tells; None where there is none, or none that can be read."""
    try:
        told = read(folder)
    except OSError:
        return None
    if told is None:
        return None
    files = {name: sha256 for name, sha256 in sorted(told.files.items()) if sha256 is not None}
    return Story(files, told.was, told.n_lines, told.taken_over, told.accepted, told.anew)


class Ledger:
    """The ledger of one folder, through which all its files are written.

    Parameters
    ----------
    folder
        The folder; only one process at a time may write to it.
    kept
        Whether there is one: of a folder in which nothing is collected there is none, and files are but written.
    confirms
        Whether :meth:`confirm` holds files against it; not where what is damaged is looked for.
    """

    def __init__(self, folder: Path, *, kept: bool = True, confirms: bool = True) -> None:
        self._folder = folder
        self._kept = kept
        self._confirms = kept and confirms
        self._told = Told()
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
        self._refuse_links([name])
        refuse_link(unfinished_of(path))
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
        """Move a file to where nothing reads it; StoreError if that cannot be done."""
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
        """Give the files of the last line their places, as far as they have not taken them."""
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
            if told.published and not aside.is_symlink():
                self._put_in_place()
            else:
                with writing(aside):
                    _clear_away(aside)
        if told.before:
            self._open = True
            self._close()

    def take_over(self) -> None:
        """Begin the ledger of a folder that an earlier version stored, with the files as they are.

        Nothing is written if the folder has no file that would be in it.

        Raises
        ------
        StoreError
            If a file cannot be read, or the folder may not be written to.
        """
        if files := self._as_they_are(stored_in(self._folder)):
            self._append({"files": files, "taken_over": True})

    def accept(self, faults: Faults, others: Iterable[str] = ()) -> None:
        """Take files as they are although they differ from what was stored, and say so from then on.

        Of a ledger that cannot be read a new one takes the place, with all files as they are; it is kept beside it.

        Parameters
        ----------
        faults
            What differs; other files are held against the ledger as before.
        others
            Names of files of which the same is to be said, and that are yet to be written.

        Raises
        ------
        StoreError
            If a file cannot be read, or the folder may not be written to.
        """
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
        """Return the SHA-256 of files; StoreError if one is none, or cannot be read."""
        with writing(self._folder):
            files = {name: sha256_of(self._folder / name) for name in sorted(names)}
        if odd := next((name for name, sha256 in files.items() if sha256 == NO_FILE), None):
            raise StoreError(f"{self._folder / odd} is no file; move it out of the folder")
        return files

    def confirm(self, name: str) -> None:
        """Refuse a file that was read and is not what was stored; nothing is known of one without a ledger.

        The folder may be written to meanwhile by the process that holds it.

        Raises
        ------
        StoreError
            If it has changed, was not stored, or cannot be read.
        """
        if not self._confirms:
            return
        while True:
            told = self._current()
            n_bytes = told.n_bytes
            if not told.n_lines or told.fault:  # which is said where the folder's manifest is read
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
        """Refuse to write or remove files beneath a link."""
        for parent in dict.fromkeys(PurePosixPath(name).parent for name in names):
            for place in (parent, *parent.parents):
                if place.parts:
                    refuse_link(self._folder / place)

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

    def _current(self) -> Told:
        """Return what the ledger says, read again if another process has written to it."""
        path = self._folder / FILE
        try:
            n_bytes = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            n_bytes = 0
        if n_bytes != self._told.n_bytes or not n_bytes:
            with writing(path):
                self._told = read(self._folder) or Told()
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
        told.n_lines += 1
        told.n_bytes += len(line)


def _clear_away(aside: Path) -> None:
    """Remove what was written aside; of a link, the link alone."""
    if aside.is_symlink():
        aside.unlink()
    shutil.rmtree(aside, ignore_errors=True)
