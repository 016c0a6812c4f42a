"""Folders of runs and of comparisons: the only code that writes to disk, built so that a run may be interrupted.

``manifest.json`` describes the run; ``ratings/part-*.parquet`` (or ``replies/``, ``answers/``) has its rows, one file a
shard. A shard is a fixed range of the prompt grid, written under another name and renamed once complete. A shard is
therefore whole or absent, and a run continues with the shards that are absent. Scores of replies are stored alike, in
``scores/NAME/``. In a finished run each table is one file, ``ratings.parquet`` or ``scores/NAME/scores.parquet``;
:mod:`audit.runs.parts` reads both forms.
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
from audit.runs.files import check_in_place, refuse_link, write_atomically, writing
from audit.runs.manifest import COPY, ChoicesManifest, ComparisonManifest, JudgementManifest, Manifest, OfRuns
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.one_file import OneFile
from audit.runs.parquet import Rows, concatenate, give_memory_back, in_pandas, read_parquet
from audit.runs.parts import Parts, part_name
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import unpacked
from audit.tables.base import Table
from audit.tables.ratings import Status
from audit.tables.stored import KEPT
from stimuli.files import read_file
from stimuli.hashes import fingerprint
from stimuli.json_text import parse_json

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
LEDGER: Final = 1  # value of the manifest's `ledger` if the folder's files are in a ledger
_BEGUN: Final = "part-begun.jsonl"  # file of a run folder with a server's answers to the part being asked
_HASHED: Final = {"lines": "sha256"}  # says in the first line that the others have hashes; earlier versions wrote none
Kind: TypeAlias = Literal["ratings", "replies", "answers"]  # what a run collects; also the folder's name
KINDS: Final[tuple[Kind, ...]] = ("ratings", "replies", "answers")


def _in_order(kept: tuple[str, Table]) -> tuple[bool, bool, str]:
    """Sort collected tables before others, and tables of which there may be several last."""
    file, _ = kept
    return file.partition(".")[0] not in KINDS, "*" in file, file


class _Folder:
    """A folder of ours, held by one process at a time."""

    collects: ClassVar[bool] = True  # whether it has files that cannot be made again, so that a ledger is kept
    confirms: ClassVar[bool] = True  # whether reads are checked against that ledger

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=0)
        self._made: list[Path] = []  # the folder and its parents, as far as this process made them
        self._ledger = ledger.Ledger(path, kept=self.collects, confirms=self.confirms)

    def check(self) -> None:
        """Raise StoreError if the folder cannot be ours: it is a file, or has other files."""
        with writing(self.path):
            self._check()

    def _check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"run_dir={self.path} is a file; give a folder")

    def __enter__(self) -> Self:
        with writing(self.path):
            self._check()
            self._made = [place for place in (self.path, *self.path.parents) if not place.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            refuse_link(self.path / ".lock")
            try:
                self._lock.acquire()
            except Timeout as error:
                raise StoreError(
                    f"run_dir={self.path} is in use by another run; wait for it, or choose another folder"
                ) from error
            try:
                self._prepare()
            except BaseException:
                self._lock.release()  # __exit__ does not run if __enter__ fails
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._ledger.settle()
        except StoreError:
            if kind is None:  # the error that ended the work matters more than this one
                raise
        finally:
            if kind is not None:
                self._remove_unused()
            self._lock.release()

    def _remove_unused(self) -> None:
        """Remove the folder, with parents made for it, if this process made it and nothing was kept in it."""
        with contextlib.suppress(OSError):  # another process may have begun to use it
            files = list(self.path.iterdir()) if self._made else []
            if any(path.is_dir() or (path.name != ".lock" and path.stat().st_size) for path in files):
                return
            for path in files:
                path.unlink()
            for place in self._made:
                place.rmdir()

    def _prepare(self) -> None:
        """Remove what an interrupted process left behind."""
        for place in ledger.PLACES:
            for unfinished in self.path.glob(f"{place}/.*.unfinished"):
                unfinished.unlink()
        self._ledger.settle()
        # Earlier versions kept no ledger: record the files as they are, and that they were taken over.
        if (
            self.collects
            and not (self.path / ledger.FILE).exists()
            and not Manifest.content_of(self.path).get("ledger")
        ):
            self._ledger.take_over()

    def _check_stored(self, may_lack: Callable[[str], bool] | None = None) -> None:
        """Raise StoreError if stored files differ from the ledger."""
        needed = bool(Manifest.content_of(self.path).get("ledger"))
        ledger.check(self.path, needed=needed, may_lack=may_lack)

    def write_manifest(self, manifest: Manifest | OfRuns) -> None:
        """Write the manifest over the old one."""
        kept = manifest.having(ledger=LEDGER) if self.collects else manifest
        self._ledger.write(MANIFEST, kept.to_bytes())

    def write_file(self, name: str, content: bytes) -> Path:
        """Write a file of the folder, e.g. ``tables/gap.csv``, and return its path."""
        return self._ledger.write(name, content)

    def clear(self, name: str) -> None:
        """Remove a folder and its consolidated file, so that nothing of an earlier one is left."""
        self._ledger.remove([f"{name}.parquet", *self._ledger.names(name)])
        with writing(self.path / name):
            if (self.path / name).is_dir():
                shutil.rmtree(self.path / name)

    def consolidate(self, say: Callable[[str], None] | None = None) -> None:
        """Write each table that is in parts into one file; if that fails, ``say`` gets the reason."""
        try:
            for parts in self._tables():
                parts.consolidate()
        except StoreError as error:
            if say is None:
                raise
            say(f"note: the collected answers stay in parts: {error}")

    def table(self, table: Table) -> OneFile:
        """Return a table that is one file from the start."""
        return OneFile(self.path, table, self._ledger)

    def parts(self, table: Table, name: str = "") -> Parts:
        """Return a table that is kept in parts; ``name`` selects one of several such."""
        assert table.kept is not None
        place, file = (each.replace("*", name) for each in (table.kept.parts, table.kept.file))
        return Parts(self.path, place, file, table, self._ledger)

    def names(self, table: Table) -> list[str]:
        """Return the names of the tables present if there may be several; otherwise one empty name."""
        assert table.kept is not None
        several = "*" in table.kept.parts
        return sorted(path.name for path in self.path.glob(table.kept.parts)) if several else [""]

    def confirm(self, name: str) -> None:
        """Raise StoreError if a file just read differs from what was stored."""
        self._ledger.confirm(name)

    def _tables(self) -> Iterator[Parts]:
        """Yield the tables in parts; StoreError for a file of no declared table, which would be left out."""
        story = ledger.story_of(self.path)
        accepted = () if story is None else story.accepted
        stored = [name for name in ledger.stored_in(self.path) if name.endswith(".parquet") and name not in accepted]
        known = [each for table in KEPT.values() if (kept := table.kept) for each in (kept.file, kept.parts)]
        for name in sorted({name.partition("/part-")[0] for name in stored}):
            if not any(fnmatchcase(name, each) for each in known):
                raise StoreError(f"{self.path / name} belongs to no table of a run; move it out of the folder")
        for _, table in sorted(KEPT.items(), key=_in_order):
            if table.kept is not None and table.kept.parts:
                yield from (self.parts(table, name) for name in self.names(table))


class ComparisonFolder(_Folder):
    """A folder made from several runs: nothing in it is collected, and all of it can be made again."""

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
                f"run_dir={self.path} has files that do not belong to a {self._manifest.kind_written}; give an "
                "empty or new folder"
            )


class JudgementFolder(ComparisonFolder):
    """The folder in which a model compares two runs' replies; it collects the judge's answers, in parts."""

    collects = True
    _manifest = JudgementManifest
    _names = _OF_A_JUDGEMENT

    def _prepare(self) -> None:
        super()._prepare()
        self._check_stored(may_lack=lambda name: ledger.JUDGED.fullmatch(name) is not None)


class ChoicesFolder(ComparisonFolder):
    """The folder in which people choose between two runs' replies. Unlike its base class it collects."""

    collects = True
    _manifest = ChoicesManifest
    _names = _OF_CHOICES

    def _prepare(self) -> None:
        super()._prepare()
        self._check_stored()

    def has_choices(self) -> bool:
        """Whether the raters' choices are there."""
        return (self.path / "tables" / "choices.csv").exists()


class RunFolder(_Folder):
    """One run's folder: entering creates and locks it, leaving (or dying) unlocks it; a complete run needs no lock."""

    def _check(self) -> None:
        super()._check()
        fresh = not self.path.exists() or not any(self.path.iterdir())
        if not fresh and not any((self.path / name).exists() for name in (MANIFEST, COPY, ".lock")):
            raise StoreError(f"run_dir={self.path} is not empty and is not a run folder; give an empty or new folder")

    def _collected(self, kind: Kind) -> Parts:
        file = f"{kind}.parquet"
        return Parts(self.path, kind, file, KEPT.get(file), self._ledger)

    def write_manifest(self, manifest: Manifest | OfRuns) -> None:
        """Write the manifest over the old one, and before it a copy for ``recover``."""
        self._ledger.write(COPY, manifest.having(ledger=LEDGER).to_bytes())
        super().write_manifest(manifest)

    def read_manifest(self) -> Manifest | None:
        """Return the manifest, or None in a new folder; files that the run's command asks anew may be missing."""
        return self.read_lacking()[0]

    def read_lacking(self) -> tuple[Manifest | None, tuple[str, ...]]:
        """Return :meth:`read_manifest` and the names of the missing files that the run's command asks anew."""
        if not (self.path / MANIFEST).exists():
            return None, ()
        return Manifest.read(self.path, check=False).checked(self.path, may_lack=self._may_lack)

    def set_aside(self, name: str, target: Path) -> None:
        """Move a file to where nothing reads it; the ledger records it as gone."""
        self._ledger.move(name, target)

    def accept(self, faults: ledger.LedgerDifferences) -> None:
        """Accept changed files as they are; the ledger records that."""
        self._ledger.accept(faults)

    def mark_accepted(self, names: Sequence[str]) -> None:
        """Record in the ledger that files yet to be written replace what was stored."""
        self._ledger.accept(ledger.LedgerDifferences(), names)

    def _may_lack(self, name: str) -> bool:
        """Whether a missing file is collected anew: a stage only together with the answers that followed it."""
        if name == "stages.parquet":
            return not any(self.shards(kind) for kind in KINDS)
        if name.startswith("stages/"):
            return not any(int(name.split("-")[1]) in self.shards(kind) for kind in KINDS)
        if name in ("given.parquet", "end_shares.parquet", "prompts.json.gz"):
            return not any(self.shards(kind) for kind in KINDS)
        return ledger.asked_anew(name)

    def shards(self, kind: Kind = "ratings") -> set[int]:
        """Return the numbers of the shards present."""
        return self._collected(kind).numbers()

    def write_shard(self, number: int, rows: Rows, kind: Kind = "ratings") -> None:
        """Write the rows of one shard, and remove what was made from earlier rows of it."""
        for table in KEPT.values():
            if table.kept is not None and table.kept.of_part == kind:
                for name in self.names(table):
                    self.parts(table, name).drop(part_name(number))
            if table.kept is not None and table.kept.of_all == kind:
                self.clear(table.kept.parts)
        self._collected(kind).write(part_name(number), rows)

    def stamped(self, manifest: Manifest, versions: Mapping[str, str]) -> Manifest:
        """Return the manifest with the analysis's generation, package versions and digest, and the accepted files."""
        story = ledger.story_of(self.path)
        if story is not None:
            manifest = manifest.accepting(story.accepted)
        generation = self.generation_of(manifest, versions)
        return manifest.having(generation=generation, analysed_by=dict(versions), digest=self.digest(manifest))

    def generation_of(self, manifest: Manifest, versions: Mapping[str, str]) -> str:
        """Return a short hash that identifies an analysis; parameters as in :meth:`stamped`."""
        story = ledger.story_of(self.path)
        files = {} if story is None else story.files
        collected = {table.name: table.sha256() for table in self._tables() if table.names()}
        others = {
            name: sha256
            for name, sha256 in files.items()
            # The manifest is left out because of its times: equal answers and settings are one generation.
            if not (name == MANIFEST or ledger.is_made(name) or name in collected or "/part-" in name)
        }
        told = [collected, others, manifest.config.recorded, manifest.seed, versions]
        # The settings name the file of covariates, and not what it held.
        return fingerprint([*told, *filter(None, [manifest.covariates.sha256])])[:12]

    def digest(self, manifest: Manifest) -> str:
        """Return the run's digest, computed from its files now; see :mod:`audit.runs.digest`."""
        tables, files = {}, {}
        for parts in self._tables():
            if parts.names():
                tables[parts.name] = rows_sha256(parts.read(), parts.table)
                if any(counts := list(parts.counts().values())):
                    files[f"{parts.name}: counts"] = fingerprint(counts)
        for name in ledger.stored_in(self.path):
            path = self.path / name
            if name in tables or "/part-" in name or name == MANIFEST:
                continue
            if (table := KEPT.get(name)) is not None and table.kept is not None and not table.kept.parts:
                with contextlib.suppress(StoreError):  # damaged and accepted
                    tables[name] = rows_sha256(concatenate([read_parquet(path, table)], table), table)
                    continue
            try:
                content = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{path} cannot be read ({error.strerror or error})") from error
            if name == PROMPTS:  # gzip's bytes differ between versions for the same text
                with contextlib.suppress(OSError, EOFError, zlib.error, ValueError):  # damaged: hash its bytes
                    content = unpacked(path)
            files[name] = hashlib.sha256(content).hexdigest()
        return digest_of(manifest, tables=tables, files=files)

    def publish(self, manifest: Manifest, files: Mapping[str, bytes]) -> None:
        """Replace an earlier analysis's manifest and files, all or nothing; on StoreError it stays."""
        check_in_place(self.path)
        ledger.check(self.path, needed=True)
        earlier = [*self._ledger.names("tables"), *self._ledger.names("figures")]
        written = manifest.having(ledger=LEDGER).to_bytes()
        every = {**files, COPY: written, MANIFEST: written}
        self._ledger.publish(every, instead_of=earlier, generation=manifest.generation)

    def appending(self, name: str) -> BinaryIO:
        """Open a file of the run for another process's output."""
        path = self.path / name
        refuse_link(path)
        with writing(path):
            return path.open("ab")

    @contextmanager
    def output_in(self, name: str) -> Iterator[None]:
        """Append all output of libraries, Python or native, to a file of the run."""
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
        """Return all ratings in grid order; see :meth:`read`."""
        return self.read("ratings", n_prompts=n_prompts, unfinished=unfinished)

    def ratings_of(self, manifest: Manifest, *, unfinished: bool = False) -> pd.DataFrame:
        """Return all ratings of a run in grid order, as :meth:`read`; StoreError for one off the scale or lost."""
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
                f"{self.path}/ratings: prompt {first['prompt_index']} has the rating {first['intensity']:g} on a "
                f"scale from {low:g} to {high:g} ({len(wrong):,} in all are beyond it), which no answer can give: "
                f"the file has changed; {recovery(self.path, 'sets it aside, and the same run command asks again')}"
            )
        return ratings

    def read(self, kind: Kind, *, n_prompts: int, unfinished: bool = False) -> pd.DataFrame:
        """Return all rows in grid order; words are categoricals, ``in_group`` and ``n_shared`` nullable.

        A prompt has one row, in ``answers`` one for each item. Raises StoreError if a shard cannot be read, a prompt
        has two rows or (in a finished run) none, or the run collected something else.
        """
        collected = [other for other in KINDS if self.shards(other)]
        if collected and kind not in collected:
            raise StoreError(f"{self.path} is a run of {collected[0]} and has no {kind}; give a run of {kind}")
        table = self._collected(kind).read()
        key = table.select([name for name in ("prompt_index", "item_id") if name in table.column_names]).to_pandas()
        index = key["prompt_index"]
        enough = unfinished or index.nunique() == n_prompts
        said = f"{self.path} holds {index.nunique():,} of {n_prompts:,} prompts in {len(index):,} rows"
        if key.duplicated().any() or not index.between(0, n_prompts - 1).all():
            does = (
                "sets aside rows without a prompt or with the same prompt twice, and the same run command asks what "
                "is then missing"
            )
            raise StoreError(f"{said}; {recovery(self.path, does)}")
        if not enough:
            raise StoreError(f"{said}; run the command in its manifest.json again to complete it")
        ordered = index.is_monotonic_increasing  # shards in name order are
        del key, index
        table = table.unify_dictionaries()
        rows = in_pandas(table)
        del table
        give_memory_back()
        return rows if ordered else rows.sort_values("prompt_index", ignore_index=True, kind="stable")

    def ratings_sha256(self) -> str:
        """Return the SHA-256 of the shards of ratings, as they were written; see :class:`Parts`."""
        return self._collected("ratings").sha256()

    def part_begun(self, part: str) -> PartBegun:
        """Return the store for answers of the part being asked; answers of other parts are dropped."""
        return PartBegun(self.path / _BEGUN, part)

    def drop_part_begun(self) -> None:
        """Remove the stored answers of a part: all parts are complete."""
        with writing(self.path / _BEGUN):
            (self.path / _BEGUN).unlink(missing_ok=True)


class PartBegun:
    """Answers of the part being asked, stored one by one, since a process may end at any of them.

    The file has one JSON line for each answer; the first line names the part. A line that is incomplete or does not
    match its SHA-256 is ignored, and that prompt is asked again.
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
        """Return the answer stored under a name; None if there is none."""
        return self._answers.get(name)

    def put(self, name: str, answer: Mapping[str, Any]) -> None:
        """Store an answer; it is in the file when this returns."""
        check_in_place(self._path.parent)
        refuse_link(self._path)
        with writing(self._path):
            if not self._begun:
                write_atomically(self._path, f"{json.dumps({'part': self._part, **_HASHED})}\n".encode())
                self._begun = True
            with self._path.open("a", encoding="utf-8") as stream:
                # The leading newline ends the line of a process that was killed.
                line = {"name": name, "answer": answer, "sha256": _told(name, answer)}
                stream.write(f"\n{json.dumps(line)}\n")


def _told(name: str, answer: Mapping[str, Any]) -> str:
    """Return the hash that ties an answer to its name."""
    return fingerprint([name, answer])


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line's JSON; None if it is empty or incomplete."""
    try:
        found = parse_json(line, numbers_alone=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
