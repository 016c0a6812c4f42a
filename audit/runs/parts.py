"""Parquet files of a folder: a table is many parts while it grows, and one file once it is complete.

A part has the rows of one shard, ``ratings/part-000003.parquet``. It is written under another name and renamed once
complete, so it is whole or absent. When no part is missing, :meth:`Parts.consolidate` writes all of them, in order,
into one file, ``ratings.parquet``, and then removes them. The file's metadata says which rows came from which part. A
part beside that file overrides its rows there: either it was written later, or it was about to be removed and is the
same.
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
    concatenate,
    in_pandas,
    opened,
    parquet,
    read_parquet,
    reading,
    schema_of,
)
from audit.tables.base import Table
from audit.tables.json_text import parse_json
from stimuli.files import open_file, read_file

_PARTS: Final = b"audit.parts"  # metadata key for `[[name, n_rows, SHA-256 of the part's file], …]`, as JSON
_PARTS_SHA256: Final = b"audit.parts_sha256"  # metadata key for the SHA-256 of the parts' files, one after another
_DATA_SHA256: Final = b"audit.data_sha256"
"""Metadata key for the SHA-256 of the file's bytes before the footer: shows whether the above still holds."""
_COUNTS: Final = b"audit.counts"  # metadata key for counts kept beside parts: by part name, as JSON
_ALL: Final = "all of it"  # what is collected anew if a consolidated file is lost
_PART: Final = re.compile(r"part-(\d{6})(-\d{2})?")
_N_ROWS: Final = 2**16
_N_BYTES: Final = 2**26  # limits of a row group: this many rows or bytes in memory, whichever is less

Counts: TypeAlias = Mapping[str, Mapping[str, float]]
"""Counts kept beside a part, see :class:`audit.tasks.measures.base.Counting`."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Consolidated:
    """An open consolidated file and its metadata."""

    file: pq.ParquetFile
    places: Mapping[str, range]  # rows of each part, by name, in file order
    sha256_of: Mapping[str, str]  # of each part's file, by name
    sha256: str  # of all parts' files, one after another
    data_sha256: str  # of this file's bytes before the footer; different if other data were written since
    counts: Mapping[str, Counts]

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Self:
        """Read a file's metadata; raise ValueError if it is missing or false."""
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
    """Return a part's name, for a shard or a stage of one."""
    return f"part-{number:06d}" if stage is None else f"part-{number:06d}-{stage:02d}"


class Parts:
    """One table of a folder, in parts or consolidated; one process may write while others read."""

    def __init__(self, root: Path, folder: str, file: str, table: Table | None, ledger: Ledger) -> None:
        self.name = file
        self._root, self._place = root, folder
        self._folder, self._file = root / folder, root / file
        self._table = table
        self._ledger = ledger

    @property
    def table(self) -> Table:
        """The table in the parts; raises LookupError if the module that declares it was not imported."""
        if self._table is None:
            raise LookupError(f"no table is declared that is kept in {self.name}: import the module that has it")
        return self._table

    @property
    def places(self) -> tuple[Path, Path]:
        """The parts' folder and the consolidated file."""
        return self._folder, self._file

    def beside_alone(self) -> Parts:
        """Return this table without its consolidated file."""
        without = f"{self._place}/.{Path(self.name).name}.without"
        return Parts(self._root, self._place, without, self._table, self._ledger)

    def bytes_of(self, rows: pa.Table) -> bytes:
        """Return a part's bytes for these rows: always the same with the same pyarrow."""
        return parquet(self.table, rows.to_pydict())

    def __contains__(self, name: str) -> bool:
        """Whether a part exists; does not list the folder, which may be large."""
        if (self._folder / f"{name}.parquet").exists():
            return True
        with self._consolidated() as there:
            return there is not None and name in there.places

    def names(self) -> list[str]:
        """Return the names of all parts, in order, such as ``part-000003``."""
        beside = self._beside()
        with self._consolidated() as there:
            return sorted({*beside, *(there.places if there is not None else ())})

    def numbers(self) -> set[int]:
        """Return the numbers of all parts."""
        return {int(name.split("-")[1]) for name in self.names()}

    def write(self, name: str, rows: Rows, counts: Counts | None = None) -> None:
        """Write or overwrite a part and its counts."""
        if counts:  # before the rows, since a part exists once its rows do
            content = f"{json.dumps(counts, sort_keys=True, allow_nan=False)}\n".encode()
            self._ledger.write(f"{self._place}/{name}.json", content)
        self._ledger.write(f"{self._place}/{name}.parquet", parquet(self.table, rows))

    def read(self) -> pa.Table:
        """Return all rows in part order. Raises StoreError if a file is unreadable or was changed."""
        return self._steadily(self._all)

    def frame(self) -> pd.DataFrame:
        """Return :meth:`read` in pandas: words are categoricals, flags and small numbers nullable."""
        return in_pandas(self.read())

    def read_part(self, name: str) -> pa.Table | None:
        """Return one part's rows; None if it does not exist."""
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
        """Return the counts beside each part, by part name; empty if there are none."""
        return self._steadily(lambda beside, there: {name: self._counted(name, beside, there) for name in self.names()})

    def sha256(self) -> str:
        """Return the SHA-256 of the parts' files, one after another, as they were when they were parts.

        It is therefore the same before and after consolidation. If parts were written after that, it covers the earlier
        SHA-256, as text, and those parts. If the consolidated file no longer has the data written, its own SHA-256
        stands for the earlier one: any change changes the hash.
        """
        return self._steadily(self._sha256)

    def drop(self, name: str) -> None:
        """Remove a part and its counts."""
        self._ledger.remove(f"{self._place}/{name}{suffix}" for suffix in (".parquet", ".json"))
        if name in self:
            self._write(self._beside(), without=name)

    def consolidate(self) -> None:
        """Write all parts into one file, then remove them; safe to interrupt and repeat at any moment."""
        beside = self._beside()
        with self._consolidated() as there:
            new = [path for name, path in beside.items() if not _is_of(path, name, there)]
        if new:
            self._write(beside)
        if self._folder.is_dir() and self._file.exists():
            self._clear(beside)

    def _clear(self, beside: Mapping[str, Path]) -> None:
        """Remove parts that are consolidated, then their counts: without the part a count is ignored."""
        there = (*beside.values(), *self._folder.glob("part-*.json"))
        self._ledger.remove(f"{self._place}/{path.name}" for path in there)
        with writing(self._folder):
            if not any(self._folder.iterdir()):
                self._folder.rmdir()

    def _beside(self) -> dict[str, Path]:
        """Return the parts' files by name, in order."""
        return {path.stem: path for path in sorted(self._folder.glob("part-*.parquet")) if _PART.fullmatch(path.stem)}

    @contextmanager
    def _consolidated(self) -> Iterator[_Consolidated | None]:
        """Open the consolidated file; None if there is none. Raises StoreError if it is unreadable."""
        if not self._file.exists():
            yield None
            return
        with opened(self._file, _ALL) as file:
            with reading(self._file, _ALL):
                there = _Consolidated.of(file)
            yield there

    def _steadily(self, read: Callable[[Mapping[str, Path], _Consolidated | None], _T]) -> _T:
        """Read parts, again if another process consolidated them meanwhile."""
        while True:
            beside = self._beside()
            try:
                with self._consolidated() as there:
                    return read(beside, there)
            except StoreError:
                if all(path.exists() for path in beside.values()):
                    raise

    def _all(self, beside: Mapping[str, Path], there: _Consolidated | None) -> pa.Table:
        rows = concatenate(self._read(beside, there), self.table)
        self._confirm(beside)
        if there is not None:
            self._ledger.confirm(self.name)
        return rows

    def _confirm(self, names: Iterable[str], suffix: str = ".parquet") -> None:
        """Raise StoreError for parts that differ from what was stored."""
        for name in names:
            self._ledger.confirm(f"{self._place}/{name}{suffix}")

    def _read(self, beside: Mapping[str, Path], there: _Consolidated | None) -> Iterator[pa.Table]:
        """Yield all rows in part order."""
        if there is not None and not beside:
            yield self._checked(there)
        else:
            yield from (rows for _, rows in self._each(beside, there))

    def _each(self, beside: Mapping[str, Path], there: _Consolidated | None) -> Iterator[tuple[str, pa.Table]]:
        """Yield each part's name and rows, in order; holds no more than one part and one row group in memory."""
        places = there.places if there is not None else {}
        left = [place for name, place in places.items() if name not in beside]
        slices = self._slices(there, left) if there is not None else iter(())
        for name in sorted({*beside, *places}):
            yield name, read_parquet(beside[name], self.table) if name in beside else next(slices)

    def _slices(self, there: _Consolidated, places: Iterable[range]) -> Iterator[pa.Table]:
        """Yield ranges of the consolidated file's rows; ranges must be ascending and must not overlap."""
        metadata = there.file.metadata
        ends = accumulate(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        groups = enumerate(ends)
        begin, end, group = 0, 0, concatenate((), self.table)
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
            yield concatenate(wanted, self.table)

    def _checked(self, there: _Consolidated, group: int | None = None) -> pa.Table:
        """Read one row group of the consolidated file, or all of it."""
        with reading(self._file, _ALL):
            rows = there.file.read() if group is None else there.file.read_row_group(group)
            return checked(there.file, rows, self._file, self.table)

    def _counted(self, name: str, beside: Mapping[str, Path], there: _Consolidated | None) -> Counts:
        """Return the counts beside a part."""
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
        """Rewrite the consolidated file from its rows and the parts beside it, both checked against the ledger."""
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
    """A file to write to that computes the SHA-256 of what is written."""

    def __init__(self, handle: io.BufferedWriter) -> None:
        self._handle = handle
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self._handle.write(content)


def _checked_counts(counts: Any) -> Counts:
    """Return a part's counts; raise AttributeError or TypeError if they are something else."""
    for own in counts.values():
        sum(own.values())
    checked: Counts = counts
    return checked


def _grouped(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine parts into row groups."""
    held: list[pa.Table] = []
    for rows in parts:
        held.append(rows)
        if sum(map(len, held)) >= _N_ROWS or sum(each.nbytes for each in held) >= _N_BYTES:
            yield pa.concat_tables(held).unify_dictionaries()
            held = []
    if held:
        yield pa.concat_tables(held).unify_dictionaries()


def _is_of(path: Path, name: str, there: _Consolidated | None) -> bool:
    """Whether the consolidated file already has this very part."""
    return there is not None and there.sha256_of.get(name) == _sha256_of(path)


def _sha256_of(path: Path) -> str:
    """Return a file's SHA-256; raise StoreError if it cannot be read."""
    with reading(path, A_PART):
        sha256 = sha256_of(path)
        if sha256 is None:
            raise FileNotFoundError(path)
    return sha256


def _data_sha256_of(path: Path) -> str:
    """Return the SHA-256 of a Parquet file's bytes before its footer."""
    with reading(path, A_PART), open_file(path) as handle:
        handle.seek(-8, os.SEEK_END)  # the footer's length and the magic bytes
        left = path.stat().st_size - 8 - int.from_bytes(handle.read(4), "little")
        handle.seek(0)
        digest = hashlib.sha256()
        while left > 0 and (content := handle.read(min(left, 2**20))):
            digest.update(content)
            left -= len(content)
    return digest.hexdigest()
