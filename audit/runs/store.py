"""The folders of runs and of comparisons: the only place that writes to the disk, and makes a run safe to interrupt.

``manifest.json`` says what the run is; ``ratings/part-*.parquet``, or ``replies/`` or ``answers/``, hold its rows, one
file a shard. A shard is a fixed range of the prompt grid, written under another name and renamed when it is complete.
So a shard is there whole or not at all, and a run goes on by doing the shards that are not there. Scores of replies lie
beside them, shard by shard too, in ``scores/NAME/``. Of a run that is finished each table is one file,
``ratings.parquet`` or ``scores/NAME/scores.parquet``: see :mod:`audit.runs.parts`, which reads both alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from audit.errors import StoreError, recovery
from audit.runs import ledger
from audit.runs.digest import digest_of, rows_sha256
from audit.runs.files import refuse_link, write_atomically, writing
from audit.runs.manifest import COPY, ChoicesManifest, ComparisonManifest, JudgementManifest, Manifest, OfRuns
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.one_file import OneFile
from audit.runs.parquet import Rows, give_memory_back, in_pandas, joined, read_parquet
from audit.runs.parts import Parts, part_name
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import unpacked
from audit.tables.base import KEPT, Table
from audit.tables.json_text import parse_json
from audit.tables.ratings import Status
from stimuli.files import read_file

_OF_A_COMPARISON: Final = frozenset(
    {"comparison.html", "table.md", "table.tex", "manifest.json", "tables", "figures", ".lock"}
)
_OF_A_JUDGEMENT: Final = frozenset(
    {"judgement.html", "manifest.json", "dictionary.csv", "tables", "parts", "pairs.parquet", ".lock", ledger.FILE}
)
_OF_CHOICES: Final = frozenset(
    {
        "raters",
        "key.csv",
        "sides.csv",
        "questions.yaml",
        "manifest.json",
        "dictionary.csv",
        "tables",
        ".lock",
        ledger.FILE,
    }
)
LEDGER: Final = 1
"""What the manifest of a folder says in ``ledger`` whose files are in one."""
_BEGUN: Final = "part-begun.jsonl"
"""The file of a run folder that keeps what a server has answered of the part that is being asked."""
_HASHED: Final = {"lines": "sha256"}
"""What its first line says of the others, beside which part it is of; earlier versions wrote no hashes."""
Kind: TypeAlias = Literal["ratings", "replies", "answers"]
"""What a run collects, and the folder that it lies in."""
KINDS: Final[tuple[Kind, ...]] = ("ratings", "replies", "answers")


def _in_order(kept: tuple[str, Table]) -> tuple[bool, bool, str]:
    """Sort what a run collects before what else is kept, and tables of which there may be several last."""
    file, _ = kept
    return file.partition(".")[0] not in KINDS, "*" in file, file


class _Folder:
    """A folder of ours, held by one process at a time.

    Attributes
    ----------
    collects
        Whether something in it cannot be made again, so that a ledger is kept of its files.
    confirms
        Whether what is read is held against the ledger.
    """

    collects: ClassVar[bool] = True
    confirms: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=0)
        self._ledger = ledger.Ledger(path, kept=self.collects, confirms=self.confirms)

    def check(self) -> None:
        """Raise StoreError if the folder cannot be ours: it is a file, or holds other files."""
        with writing(self.path):
            self._check()

    def _check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"run_dir={self.path} is a file; name a folder")

    def __enter__(self) -> Self:
        """Make and lock the folder."""
        with writing(self.path):
            self._check()
            self.path.mkdir(parents=True, exist_ok=True)
            refuse_link(self.path / ".lock")
            try:
                self._lock.acquire()
            except Timeout as error:
                raise StoreError(
                    f"run_dir={self.path} is in use by another run; wait for it or name another"
                ) from error
            try:
                self._prepare()
            except BaseException:
                self._lock.release()  # what fails on entering is never left
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give the folder back."""
        try:
            self._ledger.settle()
        except StoreError:
            if kind is None:  # what ended the work says more than that its end could not be written down
                raise
        finally:
            self._lock.release()

    def _prepare(self) -> None:
        """Remove what an interrupted process has left behind."""
        for place in ledger.PLACES:
            for unfinished in self.path.glob(f"{place}/.*.unfinished"):
                unfinished.unlink()
        self._ledger.settle()
        # An earlier version kept none: what is there is taken as it is, and said to be.
        if (
            self.collects
            and not (self.path / ledger.FILE).exists()
            and not Manifest.content_of(self.path).get("ledger")
        ):
            self._ledger.take_over()

    def _check_stored(self, may_lack: Callable[[str], bool] | None = None) -> None:
        """Refuse the folder if what was stored in it is not as its ledger says."""
        needed = bool(Manifest.content_of(self.path).get("ledger"))
        ledger.check(self.path, needed=needed, may_lack=may_lack)

    def write_manifest(self, manifest: Manifest | OfRuns) -> None:
        """Write the manifest, in place of the one there was."""
        kept = manifest.having(ledger=LEDGER) if self.collects else manifest
        self._ledger.write(MANIFEST, kept.to_bytes())

    def write_file(self, name: str, content: bytes) -> Path:
        """Write a file of the folder, e.g. ``tables/gap.csv``, and return where it is."""
        return self._ledger.write(name, content)

    def clear(self, name: str) -> None:
        """Remove a folder, and the file that its parts were consolidated in: nothing is left of an earlier one."""
        self._ledger.remove([f"{name}.parquet", *self._ledger.names(name)])
        with writing(self.path / name):
            if (self.path / name).is_dir():
                shutil.rmtree(self.path / name)

    def consolidate(self, say: Callable[[str], None] | None = None) -> None:
        """Write each table that lies in parts into one file; where that cannot be done, the parts stay.

        Parameters
        ----------
        say
            Takes a line that says why parts stay. If None, the error is raised.

        Raises
        ------
        StoreError
            If a part cannot be read, or a file cannot be written.
        """
        try:
            for parts in self._tables():
                parts.consolidate()
        except StoreError as error:
            if say is None:
                raise
            say(f"note: what was collected stays in parts: {error}")

    def table(self, table: Table) -> OneFile:
        """Return a table that is one file from the first."""
        return OneFile(self.path, table, self._ledger)

    def parts(self, table: Table, name: str = "") -> Parts:
        """Return a table that is kept in parts; ``name`` tells it from others, where there are several such."""
        assert table.kept is not None
        place, file = (each.replace("*", name) for each in (table.kept.parts, table.kept.file))
        return Parts(self.path, place, file, table, self._ledger)

    def names(self, table: Table) -> list[str]:
        """Return the names of those that are there of several such tables; an empty one where there is but one."""
        assert table.kept is not None
        several = "*" in table.kept.parts
        return sorted(path.name for path in self.path.glob(table.kept.parts)) if several else [""]

    def confirm(self, name: str) -> None:
        """Raise StoreError if a file that was read is not what was stored."""
        self._ledger.confirm(name)

    def _tables(self) -> Iterator[Parts]:
        """Yield the tables that are collected in parts.

        Raises
        ------
        StoreError
            If the folder holds a table that nothing declares, so that it would be passed over, or taken for a file.
        """
        story = ledger.story_of(self.path)
        accepted = () if story is None else story.accepted
        stored = [name for name in ledger.stored_in(self.path) if name.endswith(".parquet") and name not in accepted]
        known = [each for table in KEPT.values() if (kept := table.kept) for each in (kept.file, kept.parts)]
        for name in sorted({name.partition("/part-")[0] for name in stored}):
            if not any(fnmatchcase(name, each) for each in known):
                raise StoreError(f"{self.path / name} is of no table that a run has; move it out of the folder")
        for _, table in sorted(KEPT.items(), key=_in_order):
            if table.kept is not None and table.kept.parts:
                yield from (self.parts(table, name) for name in self.names(table))


class ComparisonFolder(_Folder):
    """The folder of what was made of several runs: nothing in it is collected, all of it can be made again.

    Use as a context manager, as :class:`RunFolder`.

    Parameters
    ----------
    path
        Made if it is not there.

    Raises
    ------
    StoreError
        On entering: if another process holds the folder, it may not be written to, or it holds other files than a
        comparison's.
    """

    collects = False
    _manifest: type[OfRuns] = ComparisonManifest
    _names = _OF_A_COMPARISON

    def _check(self) -> None:
        super()._check()
        if not self.path.exists():
            return
        names = {path.name for path in self.path.iterdir() if not path.name.endswith(".unfinished")}
        if names - self._names or (names - {".lock"} and self._manifest.read_if_there(self.path) is None):
            raise StoreError(
                f"run_dir={self.path} has files in it that are no {self._manifest.kind_written}'s; "
                "name an empty or new folder"
            )


class JudgementFolder(ComparisonFolder):
    """The folder in which a model compares the replies of two runs; judged pairs are kept in parts.

    Use as :class:`ComparisonFolder`, of which it says that nothing is collected: here the judge's answers are.
    """

    collects = True
    _manifest = JudgementManifest
    _names = _OF_A_JUDGEMENT

    def _prepare(self) -> None:
        super()._prepare()
        self._check_stored(may_lack=lambda name: ledger.JUDGED.fullmatch(name) is not None)


class ChoicesFolder(ComparisonFolder):
    """The folder in which people choose between the replies of two runs; use as :class:`ComparisonFolder`."""

    collects = True
    _manifest = ChoicesManifest
    _names = _OF_CHOICES

    def _prepare(self) -> None:
        super()._prepare()
        self._check_stored()

    def has_choices(self) -> bool:
        """Tell whether what raters sent back is there."""
        return (self.path / "tables" / "choices.csv").exists()


class RunFolder(_Folder):
    """One run's folder, held by one process at a time.

    Use as a context manager: entering takes the folder's lock, leaving gives it back, and so does dying. A complete
    run may be read without that, also where nothing may be written.

    Parameters
    ----------
    path
        Made if it is not there.

    Raises
    ------
    StoreError
        On entering: if another run holds the folder, it may not be written to, or it holds other files than a run's.
    """

    def _check(self) -> None:
        super()._check()
        fresh = not self.path.exists() or not any(self.path.iterdir())
        if not fresh and not any((self.path / name).exists() for name in (MANIFEST, COPY, ".lock")):
            raise StoreError(f"run_dir={self.path} has files in it and is no run folder; name an empty or new folder")

    def _collected(self, kind: Kind) -> Parts:
        file = f"{kind}.parquet"
        return Parts(self.path, kind, file, KEPT.get(file), self._ledger)

    def write_manifest(self, manifest: Manifest | OfRuns) -> None:
        """Write the manifest, in place of the one there was, and before it a copy, for ``recover``."""
        self._ledger.write(COPY, manifest.having(ledger=LEDGER).to_bytes())
        super().write_manifest(manifest)

    def read_manifest(self) -> Manifest | None:
        """Return the manifest, or None in a new folder; what the run's command asks anew may be gone."""
        return self.read_lacking()[0]

    def read_lacking(self) -> tuple[Manifest | None, tuple[str, ...]]:
        """Return the same, and the names of stored files that are gone, which the run's command collects anew."""
        if not (self.path / MANIFEST).exists():
            return None, ()
        return Manifest.read(self.path, check=False).checked(self.path, may_lack=self._may_lack)

    def set_aside(self, name: str, target: Path) -> None:
        """Move a file to a place where nothing reads it; the ledger says that it is gone."""
        self._ledger.move(name, target)

    def accept(self, faults: ledger.Faults) -> None:
        """Take files as they are that had changed; the ledger says so from then on."""
        self._ledger.accept(faults)

    def mark_accepted(self, names: Sequence[str]) -> None:
        """Have the ledger say of files that what takes their place is not what was stored."""
        self._ledger.accept(ledger.Faults(), names)

    def _may_lack(self, name: str) -> bool:
        """Tell whether a stored file that is gone is collected anew: a stage only with the answers that followed it."""
        if name == "stages.parquet":
            return not any(self.shards(kind) for kind in KINDS)
        if name.startswith("stages/"):
            return not any(int(name.split("-")[1]) in self.shards(kind) for kind in KINDS)
        if name in ("given.parquet", "prompts.json.gz"):
            return not any(self.shards(kind) for kind in KINDS)
        return ledger.asked_anew(name)

    def shards(self, kind: Kind = "ratings") -> set[int]:
        """Return the numbers of the shards that are there."""
        return self._collected(kind).numbers()

    def write_shard(
        self,
        number: int,
        rows: Rows,
        kind: Kind = "ratings",
    ) -> None:
        """Write one shard's rows, or columns, or a table; the keys are those of its kind, such as ``tables.RATINGS``.

        What was made of rows that are written again goes: it was made of others.
        """
        for table in KEPT.values():
            if table.kept is not None and table.kept.of_part == kind:
                for name in self.names(table):
                    self.parts(table, name).drop(part_name(number))
            if table.kept is not None and table.kept.of_all == kind:
                self.clear(table.kept.parts)
        self._collected(kind).write(part_name(number), rows)

    def stamped(self, manifest: Manifest, versions: Mapping[str, str]) -> Manifest:
        """Return the manifest that says what an analysis is made of, and what was accepted although it had changed.

        Parameters
        ----------
        manifest
            With the settings of the analysis.
        versions
            Of the packages that compute it.
        """
        story = ledger.story_of(self.path)
        if story is not None:
            manifest = manifest.accepting(story.accepted)
        generation = self.generation_of(manifest, versions)
        return manifest.having(generation=generation, analysed_by=dict(versions), digest=self.digest(manifest))

    def generation_of(self, manifest: Manifest, versions: Mapping[str, str]) -> str:
        """Return what tells an analysis from others, in a few letters; parameters as of :meth:`stamped`."""
        story = ledger.story_of(self.path)
        files = {} if story is None else story.files
        collected = {table.name: table.sha256() for table in self._tables() if table.names()}
        others = {
            name: sha256
            for name, sha256 in files.items()
            # The manifest has times in it: the same answers, analysed alike, are the same generation.
            if not (name == MANIFEST or ledger.is_made(name) or name in collected or "/part-" in name)
        }
        made_of = json.dumps([collected, others, manifest.statistics.content, manifest.seed, versions], sort_keys=True)
        return _sha256(made_of.encode())[:12]

    def digest(self, manifest: Manifest) -> str:
        """Return the run's digest, of what its files hold now; see :mod:`audit.runs.digest`.

        Parameters
        ----------
        manifest
            The run's.

        Raises
        ------
        StoreError
            If a file cannot be read.
        """
        tables, files = {}, {}
        for parts in self._tables():
            if parts.names():
                tables[parts.name] = rows_sha256(parts.read(), parts.table)
                if any(counts := list(parts.counts().values())):
                    files[f"{parts.name}: counts"] = _sha256(json.dumps(counts, sort_keys=True).encode())
        for name in ledger.stored_in(self.path):
            path = self.path / name
            if name in tables or "/part-" in name or name == MANIFEST:
                continue
            if (table := KEPT.get(name)) is not None and table.kept is not None and not table.kept.parts:
                with contextlib.suppress(StoreError):  # damaged, and accepted so
                    tables[name] = rows_sha256(joined([read_parquet(path, table)], table), table)
                    continue
            try:
                content = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{path} cannot be read ({error.strerror or error})") from error
            if name == PROMPTS:  # gzip packs the same text otherwise from version to version
                with contextlib.suppress(OSError, EOFError, zlib.error, ValueError):  # damaged, it is what it is
                    content = unpacked(path)
            files[name] = _sha256(content)
        return digest_of(manifest, tables=tables, files=files)

    def publish(self, manifest: Manifest, files: Mapping[str, bytes]) -> None:
        """Put a manifest and what an analysis made in the place of an earlier one's, all of it or nothing.

        Parameters
        ----------
        manifest
            What it is to say.
        files
            The tables, figures and the page, by name: all of them.

        Raises
        ------
        StoreError
            If the disk is full or the place may not be written to, or a stored file has changed since it was read: the
            earlier analysis stays.
        """
        ledger.check(self.path, needed=True)
        earlier = [*self._ledger.names("tables"), *self._ledger.names("figures")]
        written = manifest.having(ledger=LEDGER).to_bytes()
        every = {**files, COPY: written, MANIFEST: written}
        self._ledger.publish(every, instead_of=earlier, generation=manifest.generation)

    def appending(self, name: str) -> BinaryIO:
        """Open a file of the run that another process appends to what it prints."""
        path = self.path / name
        refuse_link(path)
        with writing(path):
            return path.open("ab")

    @contextmanager
    def output_in(self, name: str) -> Iterator[None]:
        """Append to a file of the run what libraries, in Python or beneath it, print meanwhile."""
        path = self.path / name
        refuse_link(path)
        with writing(path):
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sys.stdout.flush()
        sys.stderr.flush()
        kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
        try:
            for descriptor in kept:
                os.dup2(log, descriptor)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, original in kept.items():
                os.dup2(original, descriptor)
                os.close(original)
            os.close(log)

    def read_ratings(self, *, n_prompts: int, unfinished: bool = False) -> pd.DataFrame:
        """Return all ratings in the grid's order; see :meth:`read`."""
        return self.read("ratings", n_prompts=n_prompts, unfinished=unfinished)

    def ratings_of(self, manifest: Manifest, *, unfinished: bool = False) -> pd.DataFrame:
        """Return all ratings of a run in the grid's order, each within the scale; see :meth:`read`.

        Raises
        ------
        StoreError
            As :meth:`read`, or if a rating lies beyond the scale, or is none: no answer was read so.
        """
        ratings = self.read_ratings(n_prompts=manifest.n_prompts, unfinished=unfinished)
        low, high = manifest.scale.low, manifest.scale.high
        if not manifest.elicitation.keeps_scale or not low < high:
            return ratings
        rated = (ratings["status"] == Status.RATED.value).to_numpy()
        within = ratings["intensity"].between(low, high).to_numpy(dtype=bool, na_value=False)
        wrong = np.flatnonzero(rated & ~within)
        if len(wrong):
            first = ratings.iloc[wrong[0]]
            raise StoreError(
                f"{self.path}/ratings: prompt {first['prompt_index']} is rated {first['intensity']:g} on a scale from "
                f"{low:g} to {high:g} ({len(wrong):,} in all are beyond it), which no answer is read as: the file was "
                f"changed since; {recovery(self.path, 'sets it aside, and the same run command asks anew')}"
            )
        return ratings

    def read(self, kind: Kind, *, n_prompts: int, unfinished: bool = False) -> pd.DataFrame:
        """Return all rows in the grid's order; words are categoricals, ``in_group`` and ``n_shared`` nullable.

        A prompt has one row, in ``answers`` one for each of its items.

        Parameters
        ----------
        kind
            What the run has collected.
        n_prompts
            Of the run's grid.
        unfinished
            Whether prompts may be missing.

        Raises
        ------
        StoreError
            If a shard cannot be read, a prompt of the grid has two rows or, in a finished run, none, or the run has
            collected something else.
        """
        collected = [other for other in KINDS if self.shards(other)]
        if collected and kind not in collected:
            raise StoreError(f"{self.path} is a run of {collected[0]} and has no {kind}; name a run of {kind}")
        table = self._collected(kind).read()
        key = table.select([name for name in ("prompt_index", "item_id") if name in table.column_names]).to_pandas()
        index = key["prompt_index"]
        enough = unfinished or index.nunique() == n_prompts
        said = f"{self.path} holds {index.nunique():,} of {n_prompts:,} prompts in {len(index):,} rows"
        if key.duplicated().any() or not index.between(0, n_prompts - 1).all():
            does = "sets aside what is of no prompt or there twice, and the same run command asks what is missing then"
            raise StoreError(f"{said}; {recovery(self.path, does)}")
        if not enough:
            raise StoreError(f"{said}; run the command in its manifest.json again to complete it")
        ordered = index.is_monotonic_increasing  # as shards are, in the order of their names
        del key, index
        table = table.unify_dictionaries()
        rows = in_pandas(table)
        del table
        give_memory_back()
        return rows if ordered else rows.sort_values("prompt_index", ignore_index=True, kind="stable")

    def ratings_sha256(self) -> str:
        """Return the SHA-256 of the shards of ratings, one after another, as they were written; see :class:`Parts`.

        Raises
        ------
        StoreError
            If a file cannot be read.
        """
        return self._collected("ratings").sha256()

    def part_begun(self, part: str) -> PartBegun:
        """Return what keeps the answers of the part that is being asked; those of another part are dropped."""
        return PartBegun(self.path / _BEGUN, part)

    def drop_part_begun(self) -> None:
        """Remove the answers that were kept of a part: all parts are whole."""
        with writing(self.path / _BEGUN):
            (self.path / _BEGUN).unlink(missing_ok=True)


class PartBegun:
    """The answers of a part of a run that is being asked, one by one as they come: a process may end at any of them.

    Parameters
    ----------
    path
        A file with a line of JSON for each answer; the first one names the part. A line that was not written to its
        end, or is not what its SHA-256 says, is no answer: that prompt is asked again.
    part
        The part's name.

    Raises
    ------
    StoreError
        If the file cannot be read or written.
    """

    def __init__(self, path: Path, part: str) -> None:
        self._path = path
        self._part = part
        self._answers: dict[str, dict[str, Any]] = {}
        with writing(path):
            lines = read_file(path).split(b"\n") if path.exists() else []
        found = [line for line in map(_parsed, lines) if line is not None]
        self._begun = bool(found) and found[0].get("part") == part
        if self._begun:
            for line in found[1:]:
                name, answer = line.get("name"), line.get("answer")
                if not (isinstance(name, str) and isinstance(answer, dict)):
                    continue
                if found[0].keys() == {"part"} or line.get("sha256") == _told(name, answer):
                    self._answers[name] = answer

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the answer that was kept by a name; None where none was."""
        return self._answers.get(name)

    def put(self, name: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer: it is in the file before this returns."""
        refuse_link(self._path)
        with writing(self._path):
            if not self._begun:
                write_atomically(self._path, f"{json.dumps({'part': self._part, **_HASHED})}\n".encode())
                self._begun = True
            with self._path.open("a", encoding="utf-8") as stream:
                # Whatever a process that was killed left of its last line ends here.
                line = {"name": name, "answer": answer, "sha256": _told(name, answer)}
                stream.write(f"\n{json.dumps(line)}\n")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _told(name: str, answer: Mapping[str, Any]) -> str:
    """Return what says of an answer that it is the one that was kept by a name."""
    return hashlib.sha256(json.dumps([name, answer], sort_keys=True).encode()).hexdigest()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line's JSON; None of one that is empty, or was not written to its end."""
    try:
        found = parse_json(line, numbers_alone=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
