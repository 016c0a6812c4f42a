"""The Parquet files of a folder: a table is many parts while it grows, and one file once it is whole.

A part has the rows of one shard, ``ratings/part-000003.parquet``. It is written under another name and renamed when it
is complete, so it is there whole or not at all. Once no part is missing, :meth:`Parts.consolidate` writes all of them,
in their order, into one file, ``ratings.parquet``, and removes them then. The file's metadata say which of its rows
were which part. A part that lies beside the file takes the place of its rows: it was written later, or it was to be
removed and is the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import StoreError
from audit.runs.files import sha256_of, writing
from audit.runs.ledger import Ledger
from audit.runs.parquet import (
    A_PART,
    Rows,
    checked,
    in_pandas,
    joined,
    opened,
    parquet,
    read_parquet,
    reading,
    schema_of,
)
from audit.tables.base import Table
from audit.tables.json_text import parse_json
from stimuli.files import open_file, read_file

_PARTS: Final = b"audit.parts"
"""Where a consolidated file says what its rows were: ``[[name, n_rows, SHA-256 of the part's file], …]``, as JSON."""
_PARTS_SHA256: Final = b"audit.parts_sha256"
"""Where it says the SHA-256 of the parts' files, one after another."""
_DATA_SHA256: Final = b"audit.data_sha256"
"""Where it says the SHA-256 of its own bytes before the footer: whether the above still holds."""
_COUNTS: Final = b"audit.counts"
"""Where it keeps what was counted beside parts: by a part's name, as JSON."""
_ALL: Final = "all of it"
"""What is collected anew without a consolidated file."""
_PART: Final = re.compile(r"part-(\d{6})(-\d{2})?")
_N_ROWS: Final = 2**16
_N_BYTES: Final = 2**26
"""Parts are put together to row groups of as many rows, or of as many bytes in memory if that is less."""

Counts: TypeAlias = Mapping[str, Mapping[str, float]]
"""What was counted beside a part, as of :class:`audit.tasks.measures.base.Counting`."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Consolidated:
    """A consolidated file that is open, and what it says of itself.

    Attributes
    ----------
    file
        The file.
    places
        The rows of each part, by its name, in the order of the file.
    sha256_of
        The SHA-256 of each part's file, by its name.
    sha256
        That of all of them, one after another.
    data_sha256
        That of the file's own bytes before its footer. Nothing, or not this, where other data were written since.
    counts
        What was counted beside parts, by their names.
    """

    file: pq.ParquetFile
    places: Mapping[str, range]
    sha256_of: Mapping[str, str]
    sha256: str
    data_sha256: str
    counts: Mapping[str, Counts]

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Self:
        """Read what a file says; ValueError if it says nothing, or what is not so."""
        said = file.metadata.metadata or {}
        try:
            parts = [(str(name), int(n_rows), str(own)) for name, n_rows, own in parse_json(said[_PARTS])]
            counts = {str(name): _checked_counts(own) for name, own in parse_json(said[_COUNTS]).items()}
            sha256 = said[_PARTS_SHA256].decode()
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("it does not say which parts it has") from error
        if wrong := next((name for name, n_rows, _ in parts if not _PART.fullmatch(name) or n_rows < 0), None):
            raise ValueError(
                f"it says that it has a part {wrong[:40]!r}, which no part is called, or of fewer rows than none"
            )
        if len({name for name, _, _ in parts}) < len(parts):
            raise ValueError("it says of a part twice that it has it")
        places, end = {}, 0
        for name, n_rows, _ in parts:
            places[name] = range(end, end := end + n_rows)
        if end != file.metadata.num_rows:
            raise ValueError(f"it has {file.metadata.num_rows:,} rows, and its parts had {end:,}")
        return cls(
            file, places, {name: own for name, _, own in parts}, sha256, said.get(_DATA_SHA256, b"").decode(), counts
        )


def part_name(number: int, stage: int | None = None) -> str:
    """Return what a part is called, of a shard, a stage of a shard, or whatever else the parts are of."""
    return f"part-{number:06d}" if stage is None else f"part-{number:06d}-{stage:02d}"


class Parts:
    """One table of a folder, in parts or consolidated.

    Only one process may write. What it consolidates meanwhile is read by others all the same. ``name`` is that of the
    consolidated file.

    Parameters
    ----------
    root
        The folder whose ledger says what is stored.
    folder
        Where in it the parts lie.
    file
        Where in it they are consolidated.
    table
        What they hold; None if that is not known, so that parts can be named and not read.
    ledger
        The folder's.
    """

    def __init__(self, root: Path, folder: str, file: str, table: Table | None, ledger: Ledger) -> None:
        self.name = file
        self._root, self._place = root, folder
        self._folder, self._file = root / folder, root / file
        self._table = table
        self._ledger = ledger

    @property
    def table(self) -> Table:
        """What the parts hold.

        Raises
        ------
        LookupError
            If the module that declares it was not imported.
        """
        if self._table is None:
            raise LookupError(f"no table is declared that is kept in {self.name}: import the module that has it")
        return self._table

    @property
    def places(self) -> tuple[Path, Path]:
        """The folder of the parts, and the file that they are consolidated in."""
        return self._folder, self._file

    def beside_alone(self) -> Parts:
        """Return the same table without its consolidated file: of what lies beside it alone."""
        without = f"{self._place}/.{Path(self.name).name}.without"
        return Parts(self._root, self._place, without, self._table, self._ledger)

    def bytes_of(self, rows: pa.Table) -> bytes:
        """Return what a part of these rows holds: the same bytes for the same rows, with the same pyarrow."""
        return parquet(self.table, rows.to_pydict())

    def __contains__(self, name: str) -> bool:
        """Say whether a part is there; a folder of many parts is not listed for that."""
        if (self._folder / f"{name}.parquet").exists():
            return True
        with self._consolidated() as there:
            return there is not None and name in there.places

    def names(self) -> list[str]:
        """Return the names of all parts, in their order, such as ``part-000003``."""
        beside = self._beside()
        with self._consolidated() as there:
            return sorted({*beside, *(there.places if there is not None else ())})

    def numbers(self) -> set[int]:
        """Return the numbers of all parts."""
        return {int(name.split("-")[1]) for name in self.names()}

    def write(self, name: str, rows: Rows, counts: Counts | None = None) -> None:
        """Write a part, in place of the one there was, and what was counted beside it; errors as of :func:`parquet` and
        :meth:`audit.runs.ledger.Ledger.write`.
        """
        if counts:  # before the rows, which are what says that the part is there
            content = f"{json.dumps(counts, sort_keys=True, allow_nan=False)}\n".encode()
            self._ledger.write(f"{self._place}/{name}.json", content)
        self._ledger.write(f"{self._place}/{name}.parquet", parquet(self.table, rows))

    def read(self) -> pa.Table:
        """Return all rows, in the order of parts; no rows where there are none.

        Raises
        ------
        StoreError
            If a file cannot be read, or is not what was stored.
        """
        return self._steadily(self._all)

    def frame(self) -> pd.DataFrame:
        """Return the same as pandas has them: words are categoricals, flags and small numbers nullable."""
        return in_pandas(self.read())

    def read_part(self, name: str) -> pa.Table | None:
        """Return the rows of one part; None where it is not there.

        Raises
        ------
        StoreError
            If its file cannot be read, or is not what was stored.
        """
        path = self._folder / f"{name}.parquet"
        if path.exists():
            rows = read_parquet(path, self.table)
            self._confirm([name])
            return rows
        with self._consolidated() as there:
            if there is None or name not in there.places:
                return None
            rows = next(self._slices(there, [there.places[name]]))
        self._ledger.confirm(self.name)
        return rows

    def counts(self) -> dict[str, Counts]:
        """Return what was counted beside the parts, by their names; nothing for a part where nothing was.

        Raises
        ------
        StoreError
            If a file cannot be read.
        """
        return self._steadily(lambda beside, there: {name: self._counted(name, beside, there) for name in self.names()})

    def sha256(self) -> str:
        """Return the SHA-256 of the parts' files, one after another, as they were when they were parts.

        So it is the same before and after they are consolidated. Where parts were written after that, it is the one of
        the earlier SHA-256, as text, and of these parts. Where the consolidated file holds other data than it was
        written with, the SHA-256 of the file stands for the earlier one: whatever changes, the hash changes.

        Raises
        ------
        StoreError
            If a file cannot be read.
        """
        return self._steadily(self._sha256)

    def drop(self, name: str) -> None:
        """Remove a part, and what was counted beside it.

        Raises
        ------
        StoreError
            If that cannot be done.
        """
        self._ledger.remove(f"{self._place}/{name}{suffix}" for suffix in (".parquet", ".json"))
        if name in self:
            self._write(self._beside(), without=name)

    def consolidate(self) -> None:
        """Write all parts into one file, and remove them once it is there.

        It may be interrupted at any moment: no row is lost, and it can be done again.

        Raises
        ------
        StoreError
            If a part cannot be read, or the file cannot be written: the parts stay.
        """
        beside = self._beside()
        with self._consolidated() as there:
            new = [path for name, path in beside.items() if not _is_of(path, name, there)]
        if new:
            self._write(beside)
        if self._folder.is_dir() and self._file.exists():
            self._clear(beside)

    def _clear(self, beside: Mapping[str, Path]) -> None:
        """Remove parts that the consolidated file has, and then what was counted beside them, which counts no more."""
        there = (*beside.values(), *self._folder.glob("part-*.json"))
        self._ledger.remove(f"{self._place}/{path.name}" for path in there)
        with writing(self._folder):
            if not any(self._folder.iterdir()):
                self._folder.rmdir()

    def _beside(self) -> dict[str, Path]:
        """Return the files of parts by their names, in their order."""
        return {path.stem: path for path in sorted(self._folder.glob("part-*.parquet")) if _PART.fullmatch(path.stem)}

    @contextmanager
    def _consolidated(self) -> Iterator[_Consolidated | None]:
        """Open the consolidated file; None where there is none. StoreError if it cannot be read."""
        if not self._file.exists():
            yield None
            return
        with opened(self._file, _ALL) as file:
            with reading(self._file, _ALL):
                there = _Consolidated.of(file)
            yield there

    def _steadily(self, read: Callable[[Mapping[str, Path], _Consolidated | None], _T]) -> _T:
        """Read parts; again if another process consolidated them meanwhile."""
        while True:
            beside = self._beside()
            try:
                with self._consolidated() as there:
                    return read(beside, there)
            except StoreError:
                if all(path.exists() for path in beside.values()):
                    raise

    def _all(self, beside: Mapping[str, Path], there: _Consolidated | None) -> pa.Table:
        rows = joined(self._read(beside, there), self.table)
        self._confirm(beside)
        if there is not None:
            self._ledger.confirm(self.name)
        return rows

    def _confirm(self, names: Iterable[str], suffix: str = ".parquet") -> None:
        """Refuse parts that are not what was stored."""
        for name in names:
            self._ledger.confirm(f"{self._place}/{name}{suffix}")

    def _read(self, beside: Mapping[str, Path], there: _Consolidated | None) -> Iterator[pa.Table]:
        """Yield all rows, in the order of parts."""
        if there is not None and not beside:
            yield self._checked(there)
        else:
            yield from (rows for _, rows in self._each(beside, there))

    def _each(self, beside: Mapping[str, Path], there: _Consolidated | None) -> Iterator[tuple[str, pa.Table]]:
        """Yield each part's name and rows, in their order; no more is held than a part and a row group."""
        places = there.places if there is not None else {}
        left = [place for name, place in places.items() if name not in beside]
        slices = self._slices(there, left) if there is not None else iter(())
        for name in sorted({*beside, *places}):
            yield name, read_parquet(beside[name], self.table) if name in beside else next(slices)

    def _slices(self, there: _Consolidated, places: Iterable[range]) -> Iterator[pa.Table]:
        """Yield ranges of the consolidated file's rows; each begins where the one before ends, or later."""
        metadata = there.file.metadata
        ends = accumulate(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        groups = enumerate(ends)
        begin, end, group = 0, 0, joined((), self.table)
        for place in places:
            wanted = []
            while place:
                if place.start < end:
                    wanted.append(group.slice(place.start - begin, min(place.stop, end) - place.start))
                    place = place[len(wanted[-1]) :]
                else:
                    begin, (number, end) = end, next(groups)
                    if place.start < end:
                        group = self._checked(there, number)
            yield joined(wanted, self.table)

    def _checked(self, there: _Consolidated, group: int | None = None) -> pa.Table:
        """Read a row group of the consolidated file, or all of it."""
        with reading(self._file, _ALL):
            rows = there.file.read() if group is None else there.file.read_row_group(group)
            return checked(there.file, rows, self._file, self.table)

    def _counted(self, name: str, beside: Mapping[str, Path], there: _Consolidated | None) -> Counts:
        """Return what was counted beside a part."""
        if name not in beside:
            return there.counts.get(name, {}) if there is not None else {}
        path = self._folder / f"{name}.json"
        if not path.exists():
            return {}
        try:
            counted = _checked_counts(parse_json(read_file(path)))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); set the folder {path.parent} aside under another name and run "
                "the same command again: it scores anew"
            ) from error
        self._confirm([name], ".json")
        return counted

    def _sha256(self, beside: Mapping[str, Path], there: _Consolidated | None) -> str:
        later = [path for name, path in beside.items() if not _is_of(path, name, there)]
        digest = hashlib.sha256()
        if there is not None:
            intact = _data_sha256_of(self._file) == there.data_sha256
            earlier = there.sha256 if intact else _sha256_of(self._file)
            if not later:
                return earlier
            digest.update(earlier.encode())
        for path in later:
            with reading(path, A_PART):
                digest.update(read_file(path))
        return digest.hexdigest()

    def _write(self, beside: Mapping[str, Path], *, without: str = "") -> None:
        """Write the consolidated file anew, of what it has and the parts beside it, if they are what was stored."""
        with self._ledger.whole(self.name) as handle, self._consolidated() as there:
            said: list[tuple[str, int, str]] = []
            counts: dict[str, Counts] = {}
            for name in sorted({*beside, *(there.places if there is not None else ())} - {without}):
                if there is not None and name not in beside:
                    said.append((name, len(there.places[name]), there.sha256_of[name]))
                else:
                    with opened(beside[name], A_PART) as part:
                        said.append((name, part.metadata.num_rows, _sha256_of(beside[name])))
                if counted := self._counted(name, beside, there):
                    counts[name] = counted
            schema = schema_of(self.table)
            told = {
                _PARTS: json.dumps(said),
                _COUNTS: json.dumps(counts, sort_keys=True, allow_nan=False),
                _PARTS_SHA256: self._sha256(beside, there),
            }
            schema = schema.with_metadata({**schema.metadata, **told})
            sink = _Hashed(handle)
            with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
                for group in _grouped(rows for name, rows in self._each(beside, there) if name != without):
                    writer.write_table(group.replace_schema_metadata(schema.metadata))
                writer.add_key_value_metadata({_DATA_SHA256: sink.digest.hexdigest()})
            self._confirm(beside)
            if there is not None:
                self._ledger.confirm(self.name)


class _Hashed(io.RawIOBase):
    """A file to write to that takes the SHA-256 of what is written."""

    def __init__(self, handle: io.BufferedWriter) -> None:
        self._handle = handle
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self._handle.write(content)


def _checked_counts(counts: Any) -> Counts:
    """Return what was counted beside a part; AttributeError or TypeError if it is something else."""
    for own in counts.values():
        sum(own.values())
    checked: Counts = counts
    return checked


def _grouped(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put parts together to row groups."""
    held: list[pa.Table] = []
    for rows in parts:
        held.append(rows)
        if sum(map(len, held)) >= _N_ROWS or sum(each.nbytes for each in held) >= _N_BYTES:
            yield pa.concat_tables(held).unify_dictionaries()
            held = []
    if held:
        yield pa.concat_tables(held).unify_dictionaries()


def _is_of(path: Path, name: str, there: _Consolidated | None) -> bool:
    """Say whether a part is what the consolidated file has in its place."""
    return there is not None and there.sha256_of.get(name) == _sha256_of(path)


def _sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; StoreError if it cannot be read."""
    with reading(path, A_PART):
        sha256 = sha256_of(path)
        if sha256 is None:
            raise FileNotFoundError(path)
    return sha256


def _data_sha256_of(path: Path) -> str:
    """Return the SHA-256 of a Parquet file's bytes before its footer; StoreError if it cannot be read."""
    with reading(path, A_PART), open_file(path) as handle:
        handle.seek(-8, os.SEEK_END)  # how long the footer is, and four letters
        left = path.stat().st_size - 8 - int.from_bytes(handle.read(4), "little")
        handle.seek(0)
        digest = hashlib.sha256()
        while left > 0 and (content := handle.read(min(left, 2**20))):
            digest.update(content)
            left -= len(content)
    return digest.hexdigest()
