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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from audit.errors import StoreError
from audit.inventory_schema import ANSWERS
from audit.reply_schema import JUDGED_PAIRS, REPLIES, SCORES
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.manifest import ChoicesManifest, ComparisonManifest, JudgementManifest, Manifest, OfRuns
from audit.schema import ANSWERED, GIVEN, MANIPULATED, RATINGS, STAGES

_OF_A_COMPARISON: Final = frozenset(
    {"comparison.html", "table.md", "table.tex", "manifest.json", "tables", "figures", ".lock"}
)
_OF_A_JUDGEMENT: Final = frozenset({"judgement.html", "manifest.json", "dictionary.csv", "tables", "parts", ".lock"})
_OF_CHOICES: Final = frozenset(
    {"raters", "key.csv", "sides.csv", "questions.yaml", "manifest.json", "dictionary.csv", "tables", ".lock"}
)
_SCORER: Final = "scorer.json"
"""What a scorer is, beside its scores."""
_WORD: Final = pa.dictionary(pa.int32(), pa.string())
_TYPES: Final = {
    "prompt_index": pa.int64(),
    "in_group": pa.bool_(),
    "n_shared": pa.int8(),
    "wording": pa.int8(),
    "response": pa.string(),
    "intensity": pa.float64(),
    "number_mass": pa.float64(),
    "mode": pa.float64(),
    "spread": pa.float64(),
    "n_prompt_tokens": pa.int32(),
    "n_dropped": pa.int32(),
    "pruned_points": pa.float64(),
}
RATINGS_SCHEMA: Final = pa.schema([(column, _TYPES.get(column, _WORD)) for column in RATINGS])
"""The ratings table as Parquet stores it; columns of words are dictionaries."""
_STAGE_TYPES: Final = {"text": pa.string(), "stage": _WORD, "status": _WORD}
STAGES_SCHEMA: Final = pa.schema([(column, _STAGE_TYPES.get(column, pa.int64())) for column in STAGES])
"""The table of a strategy's stages, likewise."""
ANSWERED_SCHEMA: Final = pa.schema([(column, _TYPES.get(column, _WORD)) for column in ANSWERED])
"""The table of prompts that were asked once more, likewise."""
MANIPULATED_SCHEMA: Final = pa.schema([(column, _TYPES.get(column, _WORD)) for column in MANIPULATED])
"""The table of prompts without identities, likewise."""
Answers: TypeAlias = Literal["elicitation_sample", "asked_again"]
"""What prompts are asked once more for, and the stem of the file."""
_GIVEN_TYPES: Final = {"place": pa.int32(), "similarity": pa.float64()}
GIVEN_SCHEMA: Final = pa.schema([(column, _GIVEN_TYPES.get(column, pa.string())) for column in GIVEN])
"""The table of a strategy's examples and knowledge, likewise."""
_REPLY_TYPES: Final = {**_TYPES, "text": pa.string(), "n_tokens": pa.int32()}
REPLIES_SCHEMA: Final = pa.schema([(column, _REPLY_TYPES.get(column, _WORD)) for column in REPLIES])
"""The table of replies, likewise."""
_SCORE_TYPES: Final = {"prompt_index": pa.int64(), "measure": _WORD, "value": pa.float64()}
SCORES_SCHEMA: Final = pa.schema([(column, _SCORE_TYPES[column]) for column in SCORES])
"""The table of scores, likewise."""
_PAIR_TYPES: Final = {
    **{name: pa.int64() for name in ("pair", "first_prompt_index", "second_prompt_index")},
    **{name: pa.bool_() for name in ("in_group", "same_text", "consistent")},
    "n_shared": pa.int8(),
    **{name: pa.float64() for name in ("preference", "first_place")},
    **{f"{order}_{name}": pa.float64() for order in ("given", "swapped") for name in ("chose_first", "mass")},
}
JUDGED_PAIRS_SCHEMA: Final = pa.schema([(column, _PAIR_TYPES.get(column, pa.string())) for column in JUDGED_PAIRS])
"""The table of judged pairs, likewise."""
_ANSWER_TYPES: Final = {**_TYPES, "answer": pa.float64(), "order": pa.int32(), "place": pa.int32()}
ANSWERS_SCHEMA: Final = pa.schema([(column, _ANSWER_TYPES.get(column, _WORD)) for column in ANSWERS])
"""The table of a questionnaire's answers, likewise."""
Kind: TypeAlias = Literal["ratings", "replies", "answers"]
"""What a run collects, and the folder that it lies in."""
_SCHEMAS: Final[dict[Kind, pa.Schema]] = {
    "ratings": RATINGS_SCHEMA,
    "replies": REPLIES_SCHEMA,
    "answers": ANSWERS_SCHEMA,
}
Given: TypeAlias = Literal["replies", "intensity", "raters", "norming"]
"""What people give a run: scores of replies, intensities, their own groups, or what they make of narratives."""
_PEOPLE: Final[dict[Given, tuple[str, dict[str, type]]]] = {
    "replies": (
        "people/ratings.csv",
        {"rater": str, "prompt_index": np.int64, "question": str, "score": np.float64},
    ),
    "intensity": (
        "people/ratings.csv",
        {
            **dict.fromkeys(("rater", "list", "dimension", "narrative_id", "emotion"), str),
            **dict.fromkeys(("experiencer", "experiencer_group"), str),
            "intensity": np.float64,
        },
    ),
    "raters": ("people/raters.csv", dict.fromkeys(("rater", "dimension", "group"), str)),
    "norming": (
        "norming/ratings.csv",
        {
            **dict.fromkeys(("rater", "narrative_id", "emotion", "felt"), str),
            **dict.fromkeys(("intensity", "plausibility"), np.float64),
        },
    ),
}
"""Where each lies in a run's folder, and its columns."""
_PART: Final = re.compile(r"part-(\d{6})\.parquet")
_ADDED: Final = ("n_prompt_tokens", "n_dropped", "pruned_points", "wording")
"""The last columns of ratings, which those of earlier runs lack, or the last of them."""
_BEFORE: Final = {"wording": 0}
"""What earlier runs had that had no such column; others are missing there."""


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


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def _read_parquet(path: Path, schema: pa.Schema, what: str) -> pa.Table:
    """Read a part of a run; StoreError if it is damaged or not ours."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as part:
            table = part.read()
        table.validate(full=True)
        if schema is RATINGS_SCHEMA and table.column_names == schema.names[: len(table.column_names)]:
            for name in (name for name in _ADDED if name not in table.column_names):
                own = schema.field(name).type
                known = pa.scalar(_BEFORE.get(name), type=own)
                table = table.append_column(schema.field(name), pa.repeat(known, len(table)))
        if not table.schema.equals(schema):
            raise pa.ArrowInvalid(f"its columns are not those of {what}")
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{path} can not be read ({reason}); delete it and run the same command again: it redoes that part"
        ) from error
    return table


def _read_all(paths: Sequence[Path], schema: pa.Schema, what: str) -> pa.Table:
    """Read the parts of a table one after another; StoreError as of each part."""
    tables = [_read_parquet(path, schema, what) for path in paths]
    return pa.concat_tables(tables) if tables else schema.empty_table()


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
        """Write judged pairs; columns of :data:`audit.reply_schema.JUDGED_PAIRS`."""
        table = pa.Table.from_pandas(pairs, schema=JUDGED_PAIRS_SCHEMA, preserve_index=False).replace_schema_metadata()
        self.write_file(f"parts/part-{number:06d}.parquet", _parquet(table))

    def read_parts(self) -> pd.DataFrame:
        """Return all judged pairs, in the order of parts; no rows where there are none.

        Raises
        ------
        StoreError
            If a part can not be read.
        """
        return _in_pandas(_read_all(sorted(self.path.glob("parts/part-*.parquet")), JUDGED_PAIRS_SCHEMA, "pairs"))


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
        for place in (*_SCHEMAS, "stages", "scores/*", "judged", "people", "norming"):
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
        rows: Sequence[Mapping[str, object]] | Mapping[str, Sequence[object]] | pd.DataFrame,
        kind: Kind = "ratings",
    ) -> None:
        """Write one shard's rows, or columns, or a table; the keys are those of its kind, such as ``schema.RATINGS``.

        What was scored of replies that are written again was of other texts, and goes.
        """
        if kind == "replies":
            for path in self.path.glob(f"scores/*/part-{number:06d}.*"):
                path.unlink()
            self.clear("judged")
        schema = _SCHEMAS[kind]
        if isinstance(rows, pd.DataFrame):
            table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False).replace_schema_metadata()
        elif isinstance(rows, Mapping):
            table = pa.Table.from_pydict(dict(rows), schema=schema)
        else:
            table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
        self.write_file(f"{kind}/part-{number:06d}.parquet", _parquet(table))

    def judged(self) -> set[int]:
        """Return the numbers of the dimensions whose judge's own gap has been asked about."""
        return _numbers(self.path / "judged")

    def write_judged(self, number: int, ratings: pd.DataFrame) -> None:
        """Write what a judge gave the same replies as ones to every experiencer; columns of ``schema.RATINGS``."""
        table = pa.Table.from_pandas(ratings, schema=RATINGS_SCHEMA, preserve_index=False).replace_schema_metadata()
        self.write_file(f"judged/part-{number:06d}.parquet", _parquet(table))

    def read_judged(self) -> pd.DataFrame:
        """Return the same of all dimensions, as :meth:`read` returns ratings; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        table = _read_all(sorted(self.path.glob("judged/part-*.parquet")), RATINGS_SCHEMA, "judged")
        return _in_pandas(table)

    def has_people(self, kind: Given = "replies") -> bool:
        """Tell whether people have given something."""
        return (self.path / _PEOPLE[kind][0]).exists()

    def write_people(self, given: pd.DataFrame, kind: Given = "replies") -> None:
        """Write what people gave: of replies the columns rater, prompt_index, question and score; NaN is left out."""
        place, types = _PEOPLE[kind]
        self.write_file(place, given[list(types)].to_csv(index=False).encode("utf-8", "replace"))

    def read_people(self, kind: Given = "replies") -> pd.DataFrame:
        """Return what :meth:`write_people` wrote; no rows where there is nothing.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        place, types = _PEOPLE[kind]
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
            Columns of :data:`audit.reply_schema.SCORES`.
        counts
            As of :class:`audit.measures.base.Counting`, of this shard alone.
        """
        place = f"scores/{name}/part-{number:06d}"
        # The scores are what says that a shard is done, so they come last.
        if counts:
            self.write_file(f"{place}.json", f"{json.dumps(counts, sort_keys=True, allow_nan=False)}\n".encode())
        table = pa.Table.from_pandas(scores, schema=SCORES_SCHEMA, preserve_index=False).replace_schema_metadata()
        self.write_file(f"{place}.parquet", _parquet(table))

    def read_scores(self) -> pd.DataFrame:
        """Return all scores, in the order of scorers' names and shards; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        scores: pd.DataFrame = _read_all(
            sorted(self.path.glob("scores/*/part-*.parquet")), SCORES_SCHEMA, "scores"
        ).to_pandas()
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
                    f"{path} can not be read ({error}); delete the folder {path.parent} and run the same command "
                    "again: it scores anew"
                ) from error
        return total

    def write_given(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write a strategy's examples and knowledge; see :data:`audit.schema.GIVEN` for the keys."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=GIVEN_SCHEMA)
        self.write_file("given.parquet", _parquet(table))

    def read_given(self) -> list[dict[str, Any]]:
        """Return a strategy's examples and knowledge; no rows where it brought none.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        path = self.path / "given.parquet"
        rows: list[dict[str, Any]] = _read_parquet(path, GIVEN_SCHEMA, "given").to_pylist() if path.exists() else []
        return rows

    def write_answers(self, name: Answers, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what prompts that were asked once more gave; the keys are those of ``schema.ANSWERED``."""
        self._write_rows(name, rows, ANSWERED_SCHEMA)

    def read_answers(self, name: Answers) -> pd.DataFrame:
        """Return the same, in the order of prompts; no rows where none was asked.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        return self._read_rows(name, ANSWERED_SCHEMA)

    def write_manipulated(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what prompts without identities gave; the keys are those of ``schema.MANIPULATED``."""
        self._write_rows("manipulation", rows, MANIPULATED_SCHEMA)

    def read_manipulated(self) -> pd.DataFrame:
        """Return the same; no rows where nothing was asked.

        Raises
        ------
        StoreError
            If the file can not be read.
        """
        return self._read_rows("manipulation", MANIPULATED_SCHEMA)

    def _write_rows(self, name: str, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> None:
        # NaN is how Python says missing; the table has nulls.
        plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        self.write_file(f"{name}.parquet", _parquet(pa.Table.from_pylist(plain, schema=schema)))

    def _read_rows(self, name: str, schema: pa.Schema) -> pd.DataFrame:
        path = self.path / f"{name}.parquet"
        return _in_pandas(_read_all([path] if path.exists() else [], schema, name))

    def write_stage(self, number: int, stage: int, rows: Sequence[Mapping[str, object]]) -> None:
        """Write what one stage of a strategy wrote for one shard; see :data:`audit.schema.STAGES` for the keys."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=STAGES_SCHEMA)
        self.write_file(f"stages/part-{number:06d}-{stage:02d}.parquet", _parquet(table))

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
        rows: list[dict[str, Any]] = _read_parquet(path, STAGES_SCHEMA, "stages").to_pylist()
        return rows

    def read_stages(self) -> pd.DataFrame:
        """Return what all stages wrote, in the order of shards and stages; no rows where there are none.

        Raises
        ------
        StoreError
            If a file can not be read.
        """
        paths = sorted(self.path.glob("stages/part-*.parquet"))
        stages: pd.DataFrame = _read_all(paths, STAGES_SCHEMA, "stages").to_pandas()
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
        collected = [other for other in _SCHEMAS if self.shards(other)]
        if collected and kind not in collected:
            raise StoreError(f"{self.path} is a run of {collected[0]} and has no {kind}; name a run of {kind}")
        table = _read_all(sorted(self.path.glob(f"{kind}/part-*.parquet")), _SCHEMAS[kind], kind)
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
