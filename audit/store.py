"""The folders of runs and of comparisons: the only place that writes to the disk, and makes a run safe to interrupt.

``manifest.json`` says what the run is; ``ratings/part-*.parquet``, or ``replies/`` or ``answers/``, hold its rows, one
file a shard. A shard is a fixed range of the prompt grid, written under another name and renamed when it is complete.
So a shard is there whole or not at all, and a run goes on by doing the shards that are not there. Scores of replies lie
beside them, shard by shard too, in ``scores/NAME/``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from audit.errors import StoreError
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.manifest import ChoicesManifest, ComparisonManifest, JudgementManifest, Manifest, OfRuns
from audit.tables.base import Column, Table, Type
from audit.tables.inventory import ANSWERS
from audit.tables.people import PEOPLE_INTENSITIES, PEOPLE_SCORES, RATERS, READINGS
from audit.tables.preference import JUDGED_PAIRS
from audit.tables.ratings import ASKED_AGAIN, ASKED_IN_FORMATS, ELICITATION_SAMPLE, MANIPULATED, RATINGS
from audit.tables.replies import REPLIES, SCORES
from audit.tables.stages import GIVEN, STAGES

_OF_A_COMPARISON: Final = frozenset(
    {"comparison.html", "table.md", "table.tex", "manifest.json", "tables", "figures", ".lock"}
)
_OF_A_JUDGEMENT: Final = frozenset({"judgement.html", "manifest.json", "dictionary.csv", "tables", "parts", ".lock"})
_OF_CHOICES: Final = frozenset(
    {"raters", "key.csv", "sides.csv", "questions.yaml", "manifest.json", "dictionary.csv", "tables", ".lock"}
)
_SCORER: Final = "scorer.json"
"""What a scorer is, beside its scores."""
_ARROW: Final = {
    Type.WORD: pa.dictionary(pa.int32(), pa.string()),
    Type.TEXT: pa.string(),
    Type.FLAG: pa.bool_(),
    Type.INT8: pa.int8(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT: pa.float64(),
}
_VERSION: Final = b"audit.table_version"
"""Where a Parquet file says which version of its table it is; those of before say nothing."""
Answers: TypeAlias = Literal[
    "elicitation_sample", "asked_again", "asked_in_bfloat16", "asked_in_float16", "asked_in_float32"
]
"""What prompts are asked once more for, and the stem of the file."""
ASKED_IN: Final[Mapping[str, Answers]] = {
    "bfloat16": "asked_in_bfloat16",
    "float16": "asked_in_float16",
    "float32": "asked_in_float32",
}
"""The same by the number format that they are asked in."""
_ANSWERED: Final[dict[Answers, Table]] = {
    "elicitation_sample": ELICITATION_SAMPLE,
    "asked_again": ASKED_AGAIN,
    **{ASKED_IN[name]: table for name, table in ASKED_IN_FORMATS.items()},
}
Kind: TypeAlias = Literal["ratings", "replies", "answers"]
"""What a run collects, and the folder that it lies in."""
_COLLECTED: Final[dict[Kind, Table]] = {"ratings": RATINGS, "replies": REPLIES, "answers": ANSWERS}
Given: TypeAlias = Literal["replies", "intensity", "raters", "norming"]
"""What people give a run: scores of replies, intensities, their own groups, or what they make of narratives."""
_PEOPLE: Final[dict[Given, tuple[str, Table]]] = {
    "replies": ("people/ratings.csv", PEOPLE_SCORES),
    "intensity": ("people/ratings.csv", PEOPLE_INTENSITIES),
    "raters": ("people/raters.csv", RATERS),
    "norming": ("norming/ratings.csv", READINGS),
}
"""Where each lies in a run's folder, and its table."""
_READ_AS: Final[dict[Type, type]] = {Type.INT64: np.int64, Type.FLOAT: np.float64}
"""What a column of a CSV file is read as; others are text."""
_PART: Final = re.compile(r"part-(\d{6})\.parquet")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn the disk's refusals into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space and give the same command again: what is collected is kept"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "choose a folder that you may write to with run_dir=PATH"
        else:
            remedy = "mend that and give the same command again"
        raise StoreError(f"{path} can not be written ({error.strerror or error}); {remedy}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises
    ------
    StoreError
        If the disk is full or the place may not be written to.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    with _writing(path):
        try:
            with unfinished.open("wb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


Rows: TypeAlias = Sequence[Mapping[str, object]] | Mapping[str, Sequence[object]] | pd.DataFrame
"""Rows of a table, or its columns, or the table itself, to be written."""


def _schema(table: Table) -> pa.Schema:
    """Return what a table's Parquet file looks like; columns of words are dictionaries."""
    fields = [(name, _ARROW[column.type]) for name, column in table.items()]
    return pa.schema(fields, metadata={_VERSION: str(table.version).encode()})


def _parquet(table: Table, rows: Rows) -> bytes:
    """Return the Parquet file of a table.

    Raises
    ------
    ValueError
        If the rows have not just its columns.
    pyarrow.ArrowException
        If values are of another type.
    """
    schema = _schema(table)
    if isinstance(rows, pd.DataFrame):
        _check_columns(table, rows.columns)
        written = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
    elif isinstance(rows, Mapping):
        _check_columns(table, rows)
        written = pa.Table.from_pydict(dict(rows), schema=schema)
    else:
        for row in rows:
            _check_columns(table, row)
        written = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    written = written.replace_schema_metadata(schema.metadata)  # without what pandas adds
    sink = pa.BufferOutputStream()
    pq.write_table(written, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def _check_columns(table: Table, names: Iterable[str]) -> None:
    if different := set(names) ^ set(table):
        raise ValueError(f"rows of {table.name} have not just its columns: {', '.join(sorted(different))}")


def _read_parquet(path: Path, table: Table) -> pa.Table:
    """Read a part of a run as today's version has it; StoreError if it is damaged, not ours or of a newer version."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as part:
            rows = part.read()
        rows.validate(full=True)
        version = int((rows.schema.metadata or {}).get(_VERSION, b"1"))
        if version > table.version:
            raise StoreError(
                f"{path} was written by a newer version of empathy-audit: its {table.name} are of format {version}, "
                f"this version reads up to {table.version}; upgrade empathy-audit"
            )
        return _completed(rows.replace_schema_metadata(), table, version)
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{path} cannot be read ({reason}); put a copy of it back, or set it aside under another name and run the "
            "same command again: it collects that part anew"
        ) from error


def _completed(rows: pa.Table, table: Table, version: int) -> pa.Table:
    """Fill the columns that a part's version had not yet; what its version had must be there.

    Parts that say no version are of the first one, or of one of those before versions were told: of what came later
    they have what they have.
    """
    unknown = [name for name in rows.column_names if name not in table]
    missing = [name for name, column in table.items() if column.since <= version and name not in rows.column_names]
    if unknown or missing:
        lacking = f"without {', '.join(missing)}" if missing else f"with {', '.join(unknown)}"
        raise pa.ArrowInvalid(f"its columns are not those of {table.name}: {lacking}")
    schema = _schema(table).remove_metadata()
    for name, column in table.items():
        if name not in rows.column_names:
            rows = rows.append_column(name, _repeated(column, len(rows)))
        elif rows.schema.field(name).type != schema.field(name).type:
            raise pa.ArrowInvalid(f"its column {name} is of another type than that of {table.name}")
    return rows.select(schema.names).cast(schema)


def _repeated(column: Column, n_rows: int) -> pa.Array:
    """Return what stands in a column that was not there yet."""
    if column.type == Type.WORD:
        return pa.repeat(pa.scalar(column.before, type=pa.string()), n_rows).dictionary_encode()
    return pa.repeat(pa.scalar(column.before, type=_ARROW[column.type]), n_rows)


def _read_all(paths: Sequence[Path], table: Table) -> pa.Table:
    """Read the parts of a table one after another; StoreError as of each part."""
    tables = [_read_parquet(path, table) for path in paths]
    return pa.concat_tables(tables) if tables else _schema(table).remove_metadata().empty_table()


def _in_pandas(table: pa.Table) -> pd.DataFrame:
    rows: pd.DataFrame = table.unify_dictionaries().to_pandas(
        types_mapper={pa.bool_(): pd.BooleanDtype(), pa.int8(): pd.Int8Dtype()}.get
    )
    return rows


def _numbers(folder: Path) -> set[int]:
    """Return the numbers of a folder's parts; none where there is no folder."""
    names = (_PART.fullmatch(path.name) for path in folder.glob("part-*.parquet"))
    return {int(name[1]) for name in names if name}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Folder:
    """A folder of ours, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=0)

    def check(self) -> None:
        """Raise StoreError if the folder can not be ours: it is a file, or holds other files."""
        with _writing(self.path):
            self._check()

    def _check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"run_dir={self.path} is a file; name a folder")

    def __enter__(self) -> Self:
        """Make and lock the folder."""
        with _writing(self.path):
            self._check()
            self.path.mkdir(parents=True, exist_ok=True)
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

    def __exit__(self, *_: object) -> None:
        """Give the folder back."""
        self._lock.release()

    def _prepare(self) -> None:
        """Remove what an interrupted process has left behind."""
        for unfinished in self.path.glob(".*.unfinished"):
            unfinished.unlink()

    def write_manifest(self, manifest: Manifest | OfRuns) -> None:
        """Write the manifest, in place of the one there was."""
        write_atomically(self.path / MANIFEST, manifest.to_bytes())

    def write_file(self, name: str, content: bytes) -> Path:
        """Write a file of the folder, e.g. ``tables/gap.csv``, and return where it is."""
        path = self.path / name
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
        return path

    def clear(self, name: str) -> None:
        """Remove a folder of what an analysis writes, so that nothing of an earlier one is left in it."""
        with _writing(self.path / name):
            if (self.path / name).is_dir():
                shutil.rmtree(self.path / name)


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

    _manifest = JudgementManifest
    _names = _OF_A_JUDGEMENT

    def _prepare(self) -> None:
        super()._prepare()
        for unfinished in self.path.glob("parts/.*.unfinished"):
            unfinished.unlink()

    def parts(self) -> set[int]:
        """Return the numbers of the parts that are there."""
        return _numbers(self.path / "parts")

    def write_part(self, number: int, pairs: pd.DataFrame) -> None:
        """Write judged pairs; columns of :data:`audit.tables.preference.JUDGED_PAIRS`."""
        self.write_file(f"parts/part-{number:06d}.parquet", _parquet(JUDGED_PAIRS, pairs))

    def read_parts(self) -> pd.DataFrame:
        """Return all judged pairs, in the order of parts; no rows where there are none.

        Raises
        ------
        StoreError
            If a part can not be read.
        """
        return _in_pandas(_read_all(sorted(self.path.glob("parts/part-*.parquet")), JUDGED_PAIRS))


class ChoicesFolder(ComparisonFolder):
    """The folder in which people choose between the replies of two runs; use as :class:`ComparisonFolder`."""

    _manifest = ChoicesManifest
    _names = _OF_CHOICES

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
        if not fresh and not (self.path / MANIFEST).exists() and not (self.path / ".lock").exists():
            raise StoreError(f"run_dir={self.path} has files in it and is no run folder; name an empty or new folder")

    def _prepare(self) -> None:
        super()._prepare()
        for place in (*_COLLECTED, "stages", "scores/*", "judged", "people", "norming"):
            for unfinished in self.path.glob(f"{place}/.*.unfinished"):
                unfinished.unlink()

    def read_manifest(self) -> Manifest | None:
        """Return the manifest, or None in a new folder."""
        return Manifest.read(self.path) if (self.path / MANIFEST).exists() else None

    def shards(self, kind: Kind = "ratings") -> set[int]:
        """Return the numbers of the shards that are there."""
        return _numbers(self.path / kind)

    def write_shard(
        self,
        number: int,
        rows: Rows,
        kind: Kind = "ratings",
    ) -> None:
        """Write one shard's rows, or columns, or a table; the keys are those of its kind, such as ``tables.RATINGS``.

        What was scored of replies that are written again was of other texts, and goes.
        """
        if kind == "replies":
            for path in self.path.glob(f"scores/*/part-{number:06d}.*"):
                path.unlink()
            self.clear("judged")
        self.write_file(f"{kind}/part-{number:06d}.parquet", _parquet(_COLLECTED[kind], rows))

    def judged(self) -> set[int]:
        """Return the numbers of the dimensions whose judge's own gap has been asked about."""
        return _numbers(self.path / "judged")

    def write_judged(self, number: int, ratings: pd.DataFrame) -> None:
        """Write what a judge gave the same replies as ones to every experiencer; columns of ``tables.RATINGS``."""
        self.write_file(f"judged/part-{number:06d}.parquet", _parquet(RATINGS, ratings))

    def read_judged(self) -> pd.DataFrame:
        """Return the same of all dimensions, as :meth:`read` returns ratings; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        return _in_pandas(_read_all(sorted(self.path.glob("judged/part-*.parquet")), RATINGS))

    def has_people(self, kind: Given = "replies") -> bool:
        """Tell whether people have given something."""
        return (self.path / _PEOPLE[kind][0]).exists()

    def write_people(self, given: pd.DataFrame, kind: Given = "replies") -> None:
        """Write what people gave: of replies the columns rater, prompt_index, question and score; NaN is left out."""
        place, table = _PEOPLE[kind]
        self.write_file(place, table.csv(given[list(table)]))

    def read_people(self, kind: Given = "replies") -> pd.DataFrame:
        """Return what :meth:`write_people` wrote; no rows where there is nothing.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        place, table = _PEOPLE[kind]
        types = {name: _READ_AS.get(column.type, str) for name, column in table.items()}
        path = self.path / place
        if not path.exists():
            return pd.DataFrame({name: pd.Series(dtype=each) for name, each in types.items()})
        empty = {name: [""] for name, each in types.items() if each is np.float64}
        try:
            return pd.read_csv(path, dtype=types, keep_default_na=False, na_values=empty)[list(types)]
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{path} can not be read ({error}); import the raters' files again") from error

    def scored(self, name: str) -> set[int]:
        """Return the numbers of the shards whose replies a scorer has scored."""
        return _numbers(self.path / "scores" / name)

    def write_scorer(self, name: str, taken: Mapping[str, Any]) -> None:
        """Write what a scorer is, beside its scores: they stay its own where the manifest names it no more."""
        self.write_file(f"scores/{name}/{_SCORER}", f"{json.dumps(taken, indent=2, sort_keys=True)}\n".encode())

    def read_scorer(self, name: str) -> dict[str, Any]:
        """Return what :meth:`write_scorer` wrote; nothing where there is no such file, or none that can be read."""
        try:
            taken = json.loads((self.path / "scores" / name / _SCORER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return taken if isinstance(taken, dict) else {}

    def write_scores(
        self, name: str, number: int, scores: pd.DataFrame, counts: Mapping[str, Mapping[str, float]]
    ) -> None:
        """Write what a scorer gave the replies of one shard, and what it counted meanwhile.

        Parameters
        ----------
        name
            The scorer's.
        number
            The shard's.
        scores
            Columns of :data:`audit.tables.replies.SCORES`.
        counts
            As of :class:`audit.measures.base.Counting`, of this shard alone.
        """
        place = f"scores/{name}/part-{number:06d}"
        # The scores are what says that a shard is done, so they come last.
        if counts:
            self.write_file(f"{place}.json", f"{json.dumps(counts, sort_keys=True, allow_nan=False)}\n".encode())
        self.write_file(f"{place}.parquet", _parquet(SCORES, scores))

    def read_scores(self) -> pd.DataFrame:
        """Return all scores, in the order of scorers' names and shards; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        scores: pd.DataFrame = _read_all(sorted(self.path.glob("scores/*/part-*.parquet")), SCORES).to_pandas()
        return scores

    def read_score_counts(self, name: str) -> dict[str, dict[str, float]]:
        """Return what a scorer counted over all its shards; nothing where it counts nothing.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        total: dict[str, dict[str, float]] = {}
        for number in sorted(self.scored(name)):
            path = self.path / "scores" / name / f"part-{number:06d}.json"
            try:
                counts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
                for measure, own in counts.items():
                    of_measure = total.setdefault(measure, {})
                    for what, n in own.items():
                        of_measure[what] = of_measure.get(what, 0) + n
            except (OSError, ValueError, AttributeError, TypeError) as error:
                raise StoreError(
                    f"{path} cannot be read ({error}); set the folder {path.parent} aside under another name and run "
                    "the same command again: it scores anew"
                ) from error
        return total

    def write_given(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write a strategy's examples and knowledge; see :data:`audit.tables.stages.GIVEN` for the keys."""
        self.write_file("given.parquet", _parquet(GIVEN, rows))

    def read_given(self) -> list[dict[str, Any]]:
        """Return a strategy's examples and knowledge; no rows where it brought none.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        path = self.path / "given.parquet"
        rows: list[dict[str, Any]] = _read_parquet(path, GIVEN).to_pylist() if path.exists() else []
        return rows

    def write_answers(self, name: Answers, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what prompts that were asked once more gave; the keys are those of ``tables.ELICITATION_SAMPLE``."""
        self._write_rows(name, rows, _ANSWERED[name])

    def read_answers(self, name: Answers) -> pd.DataFrame:
        """Return the same, in the order of prompts; no rows where none was asked.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        return self._read_rows(name, _ANSWERED[name])

    def write_manipulated(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what prompts without identities gave; the keys are those of ``tables.MANIPULATED``."""
        self._write_rows("manipulation", rows, MANIPULATED)

    def read_manipulated(self) -> pd.DataFrame:
        """Return the same; no rows where nothing was asked.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        return self._read_rows("manipulation", MANIPULATED)

    def _write_rows(self, name: str, rows: Sequence[Mapping[str, object]], table: Table) -> None:
        # NaN is how Python says missing; the table has nulls.
        plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        self.write_file(f"{name}.parquet", _parquet(table, plain))

    def _read_rows(self, name: str, table: Table) -> pd.DataFrame:
        path = self.path / f"{name}.parquet"
        return _in_pandas(_read_all([path] if path.exists() else [], table))

    def write_stage(self, number: int, stage: int, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what one stage of a strategy wrote for one shard; the keys are those of ``tables.STAGES``."""
        self.write_file(f"stages/part-{number:06d}-{stage:02d}.parquet", _parquet(STAGES, rows))

    def has_stages(self, number: int | None = None) -> bool:
        """Say whether a stage of one shard is there; None asks for any shard."""
        if number is not None:  # the first one is written first; a folder of many shards is not listed for each
            return (self.path / "stages" / f"part-{number:06d}-00.parquet").exists()
        return next(self.path.glob("stages/part-*.parquet"), None) is not None

    def read_stage(self, number: int, stage: int) -> list[dict[str, Any]] | None:
        """Return what one stage wrote for one shard, in the prompts' order; None where it is not there.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        path = self.path / "stages" / f"part-{number:06d}-{stage:02d}.parquet"
        if not path.exists():
            return None
        rows: list[dict[str, Any]] = _read_parquet(path, STAGES).to_pylist()
        return rows

    def read_stages(self) -> pd.DataFrame:
        """Return what all stages wrote, in the order of shards and stages; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        paths = sorted(self.path.glob("stages/part-*.parquet"))
        stages: pd.DataFrame = _read_all(paths, STAGES).to_pandas()
        return stages

    @contextmanager
    def output_in(self, name: str) -> Iterator[None]:
        """Append to a file of the run what libraries, in Python or beneath it, print meanwhile."""
        path = self.path / name
        with _writing(path):
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
            If a shard can not be read, a prompt of the grid has two rows or, in a finished run, none, or the run has
            collected something else.
        """
        collected = [other for other in _COLLECTED if self.shards(other)]
        if collected and kind not in collected:
            raise StoreError(f"{self.path} is a run of {collected[0]} and has no {kind}; name a run of {kind}")
        table = _read_all(sorted(self.path.glob(f"{kind}/part-*.parquet")), _COLLECTED[kind])
        key = table.select([name for name in ("prompt_index", "item_id") if name in table.column_names]).to_pandas()
        index = key["prompt_index"]
        enough = unfinished or index.nunique() == n_prompts
        if not enough or key.duplicated().any() or not index.between(0, n_prompts - 1).all():
            raise StoreError(
                f"{self.path} holds {index.nunique():,} of {n_prompts:,} prompts in {len(index):,} rows; "
                "run the command in its manifest.json again to complete it"
            )
        ordered = index.is_monotonic_increasing  # as shards are, in the order of their names
        del key, index
        table = table.unify_dictionaries()
        rows = _in_pandas(table)
        del table
        pa.default_memory_pool().release_unused()  # of millions of rows, more than what they take in pandas
        return rows if ordered else rows.sort_values("prompt_index", ignore_index=True, kind="stable")

    def ratings_sha256(self) -> str:
        """Return the SHA-256 of the files of ratings, one after another."""
        digest = hashlib.sha256()
        for path in sorted(self.path.glob("ratings/part-*.parquet")):
            digest.update(path.read_bytes())
        return digest.hexdigest()
