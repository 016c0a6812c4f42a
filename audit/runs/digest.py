"""A run's digest: one SHA-256 of what was asked and answered, independent of how files store it.

Tables are hashed by value. The digest therefore does not depend on Parquet's encoding, on whether a table is in parts,
or on what a report made of it. Any change to a rating, reply, prompt, label, score or the model's name changes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit.runs.manifest import Manifest
from audit.tables.base import Column, Table, Type
from stimuli.hashes import fingerprint

_FORM: Final = 1  # version of the digest's definition; part of what is hashed
_ASKED: Final = (
    "n_prompts", "seed", "task", "inventory", "scale", "elicitation", "language", "stimuli", "prompt", "strategy",
    "dimensions", "placebo", "clusters", "stems", "cues", "identity", "outside",
)  # fmt: skip
"""Manifest fields that say what was asked. Neither an analysis nor a later session changes them."""
_OF_SESSIONS: Final = frozenset({"seen", "not_checked"})
"""Fields of the manifest's model that depend on how often the run's command was given."""


def digest_of(manifest: Manifest, *, tables: Mapping[str, str], files: Mapping[str, str]) -> str:
    """Return a run's digest, of :func:`rows_sha256` of each collected table and the SHA-256 of other files, by name."""
    asked = {name: manifest.content[name] for name in _ASKED if name in manifest.content}
    model = {name: value for name, value in manifest.model.content.items() if name not in _OF_SESSIONS}
    told = {"form": _FORM, "asked": {**asked, "model": model}, "tables": tables, "files": files}
    return fingerprint(told)


def rows_sha256(rows: pa.Table, table: Table) -> str:
    """Return the SHA-256 of a table's values; a column of nothing but its default for earlier versions is left out."""
    digest = hashlib.sha256(json.dumps([table.name, rows.num_rows]).encode())
    for name, column in table.items():
        values = rows.column(name)
        if _says_nothing(values, column):
            continue  # so that adding a column does not change the digest of runs without it
        for part in (json.dumps([name, column.type.plain]).encode(), *_plain(values, column)):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _says_nothing(values: pa.ChunkedArray, column: Column) -> bool:
    if column.before is None:
        return bool(values.null_count == len(values))
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    return bool(pc.all(pc.equal(values, pa.scalar(column.before, values.type)), skip_nulls=False).as_py() is True)


def _plain(values: pa.ChunkedArray, column: Column) -> tuple[bytes, ...]:
    """Return a column's values as bytes that depend on nothing else; missing values have one form."""
    if column.type in (Type.WORD, Type.TEXT):
        encoded = values.cast(pa.large_string()).combine_chunks().dictionary_encode()
        places = np.asarray(encoded.indices.fill_null(-1))
        codes = np.full(len(places), -1, dtype="<i8")
        codes[places >= 0], order = pd.factorize(places[places >= 0])  # texts in order of appearance
        texts = encoded.dictionary.to_pylist()
        return json.dumps([texts[place] for place in order]).encode(), codes.tobytes()
    missing = np.asarray(values.is_null())
    if column.type == Type.FLOAT:
        numbers: np.ndarray[Any, Any] = np.asarray(values.cast(pa.float64()).fill_null(float("nan")), dtype="<f8") + 0.0
        return (np.where(np.isnan(numbers), np.nan, numbers).tobytes(),)  # one zero and one NaN
    return missing.tobytes(), np.asarray(values.cast(pa.int64()).fill_null(0), dtype="<i8").tobytes()
