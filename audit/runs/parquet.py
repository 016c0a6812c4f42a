"""Tables as Parquet files, read in the form of today's version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import StoreError, recovery
from audit.tables.base import Column, Table, Type
from stimuli.files import open_file

_ARROW: Final = {
    Type.WORD: pa.dictionary(pa.int32(), pa.string()),
    Type.TEXT: pa.string(),
    Type.FLAG: pa.bool_(),
    Type.INT8: pa.int8(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT: pa.float64(),
}
_VERSION: Final = b"audit.table_version"  # metadata key for the version of the file's table; older files have none
_COPY: Final = "manifest.copy.json"  # a file that only run folders have, see audit.runs.manifest.COPY
A_PART: Final = "that part"  # what is collected anew if one of many files is lost
Rows: TypeAlias = Sequence[Mapping[str, object]] | Mapping[str, Sequence[object]] | pd.DataFrame
"""Rows of a table, its columns, or a DataFrame, to be written."""


# --- Writing ---------------------------------------------------------------------------------------------------------


def parquet(table: Table, rows: Rows) -> bytes:
    """Return a table as a Parquet file; the rows must have exactly its columns."""
    schema = schema_of(table)
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
    written = written.replace_schema_metadata(schema.metadata)  # drops pandas' metadata
    sink = pa.BufferOutputStream()
    pq.write_table(written, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def plain_parquet(table: Table, rows: pd.DataFrame) -> bytes:
    """Return a table as a Parquet file for other tools: words are strings, and the metadata has nothing of ours."""
    _check_columns(table, rows.columns)
    plain = pa.schema(
        [(name, pa.string() if column.type == Type.WORD else _ARROW[column.type]) for name, column in table.items()]
    )
    sink = pa.BufferOutputStream()
    written = pa.Table.from_pandas(rows, schema=plain, preserve_index=False).replace_schema_metadata(None)
    pq.write_table(written, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def schema_of(table: Table) -> pa.Schema:
    """Return a table's Arrow schema; columns of words are dictionaries."""
    fields = [(name, _ARROW[column.type]) for name, column in table.items()]
    return pa.schema(fields, metadata={_VERSION: str(table.version).encode()})


def _check_columns(table: Table, names: Iterable[str]) -> None:
    if different := set(names) ^ set(table):
        raise ValueError(f"rows of {table.name} have not just its columns: {', '.join(sorted(different))}")


# --- Reading ---------------------------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path, lost: str) -> Iterator[None]:
    """Turn read errors into one line that says what is collected anew if the file is lost."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise StoreError(f"{path} cannot be read ({reason}); {_remedy(path, lost)}") from error


def _remedy(path: Path, lost: str) -> str:
    """Say what to do about an unreadable file; in a run's folder there is a command for it."""
    run = next((folder for folder in list(path.parents)[:3] if (folder / _COPY).exists()), None)
    if run is not None:
        return f"{recovery(run, 'sets it aside')}, and the same run command collects {lost} anew"
    return (
        "put a copy of it back, or set it aside under another name and run the same command again: it collects "
        f"{lost} anew"
    )


@contextmanager
def opened(path: Path, lost: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; errors as in :func:`reading`."""
    with contextlib.ExitStack() as stack:
        with reading(path, lost):
            source = stack.enter_context(_source(path))
            file = stack.enter_context(pq.ParquetFile(source, page_checksum_verification=True))
        yield file


def _source(path: Path) -> contextlib.AbstractContextManager[Path | BinaryIO]:
    """Return the path, or an open file if the name is not UTF-8, which pyarrow cannot open."""
    stream = open_file(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return stream
    stream.close()
    return contextlib.nullcontext(path)


def read_parquet(path: Path, table: Table) -> pa.Table:
    """Read a part in today's form; raise StoreError if it is damaged, foreign or of a newer version."""
    with opened(path, A_PART) as file, reading(path, A_PART):
        return checked(file, file.read(), path, table)


def checked(file: pq.ParquetFile, rows: pa.Table, path: Path, table: Table) -> pa.Table:
    """Return rows of a file in today's form; raise ValueError if they are damaged or not the table's."""
    rows.validate(full=True)
    version = int((file.metadata.metadata or {}).get(_VERSION, b"1"))
    if version > table.version:
        raise StoreError(
            f"{path} was written by a newer version of empathy-audit: its {table.name} are of format {version}, "
            f"this version reads up to {table.version}; upgrade empathy-audit"
        )
    return _completed(rows.replace_schema_metadata(), table, version)


def _completed(rows: pa.Table, table: Table, version: int) -> pa.Table:
    """Add the columns that a part's version did not have; all of its version's columns must be there.

    Parts without a version are of the first version, or of one before versions were recorded: those may have some of
    the later columns.
    """
    twice = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if twice:
        raise pa.ArrowInvalid(f"its columns are not those of {table.name}: {', '.join(twice)} stands twice")
    unknown = [name for name in rows.column_names if name not in table]
    missing = [name for name, column in table.items() if column.since <= version and name not in rows.column_names]
    if unknown or missing:
        lacking = f"without {', '.join(missing)}" if missing else f"with {', '.join(unknown)}"
        raise pa.ArrowInvalid(f"its columns are not those of {table.name}: {lacking}")
    schema = schema_of(table).remove_metadata()
    for name, column in table.items():
        if name not in rows.column_names:
            rows = rows.append_column(name, _repeated(column, len(rows)))
        elif rows.schema.field(name).type != schema.field(name).type:
            raise pa.ArrowInvalid(f"its column {name} is of another type than that of {table.name}")
    return rows.select(schema.names).cast(schema)


def _repeated(column: Column, n_rows: int) -> pa.Array:
    """Return the values of a column that did not exist yet."""
    if column.type == Type.WORD:
        return pa.repeat(pa.scalar(column.before, type=pa.string()), n_rows).dictionary_encode()
    return pa.repeat(pa.scalar(column.before, type=_ARROW[column.type]), n_rows)


def concatenate(tables: Iterable[pa.Table], table: Table) -> pa.Table:
    """Concatenate tables; without any, return no rows."""
    there = list(tables)
    return pa.concat_tables(there) if there else schema_of(table).remove_metadata().empty_table()


def in_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a table in pandas: words are categoricals, flags and small numbers nullable."""
    rows: pd.DataFrame = table.unify_dictionaries().to_pandas(
        types_mapper={pa.bool_(): pd.BooleanDtype(), pa.int8(): pd.Int8Dtype()}.get
    )
    return rows


def give_memory_back() -> None:
    """Return unused Arrow memory to the system: for millions of rows it exceeds what pandas has."""
    pa.default_memory_pool().release_unused()
