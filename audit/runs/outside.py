"""Read ratings that another tool collected: two files in, one checked ratings table out.

One file has the ratings, one row a prompt; the other maps each term to its group. Neither is trusted: any inconsistency
ends in one line that names the file, the line and the remedy.
"""

from __future__ import annotations

import math
import shlex
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import AuditError, ConfigError, StoreError
from audit.runs.manifest import Manifest
from audit.runs.provenance import now, versions
from audit.tables.formatting import plural
from audit.tables.ratings import NARRATIVE_COVARIATES, RATINGS, Status
from stimuli.errors import StimulusError, suggest
from stimuli.headings import guess_columns
from stimuli.identities import NO_PERSONA, UNSPECIFIED
from stimuli.table_files import SUFFIXES, WRITTEN_AS, MalformedRowError, TableFile, plain_name
from stimuli.tables import is_no_number, open_table, read_numbers
from stimuli.yaml_files import may_be_file

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

METHOD: Final = "outside"  # elicitation method in the manifest for ratings that we did not collect
ABSENT: Final = {"dimension": "identity", "variant": "outside", "emotion": "not given"}
"""Values of columns that the ratings file lacks."""

_REQUIRED: Final = ("perceiver", "experiencer", "narrative_id", "rating")
_OPTIONAL: Final = (*ABSENT, "status")
_OF_GROUPS: Final = ("term", "group", "dimension", "stem")
COLUMNS: Final = tuple(dict.fromkeys((*_REQUIRED, *_OPTIONAL, *_OF_GROUPS)))
"""Our names of the columns of both files."""
_STATUSES: Final = tuple(status.value for status in Status)
_RATED, _UNPARSEABLE = _STATUSES.index(Status.RATED), _STATUSES.index(Status.UNPARSEABLE)
_NOT_TOLD: Final = ("number_mass", "mode", "spread", "n_prompt_tokens", "n_dropped", "pruned_points", "ends_points")
"""Numeric columns that another tool does not provide."""
DEFAULT_ENDS: Final = (0.0, 100.0)  # scale assumed if none is given; the ratings must then reach both ends
CODES: Final = (-1.0, -2.0, -7.0, -8.0, -9.0, -77.0, -88.0, -98.0, -99.0, -999.0, -9999.0, 999.0, 9999.0)
"""Numbers that other tools write for a missing rating. They count as codes only if the scale does not reach them."""
_ALSO: Final = ("intensity",)  # other names for `rating`; our own exports use this one
_LONGEST_LABEL: Final = 100  # characters of a covariate of narratives: a longer one is a text
_SHOWN: Final = 3  # further faulty rows named in a message
_PROMPT: Final = ("dimension", "variant", "narrative_id", "perceiver", "experiencer")  # columns that identify a prompt


@dataclass(frozen=True, eq=False)
class OutsideRatings:
    """Another tool's ratings in our form, and the files they came from."""

    # The columns of RATINGS, in file order. response is empty, and what the other tool does not provide (number_mass,
    # mode, spread, tokens) is missing.
    ratings: pd.DataFrame
    low: float  # the scale's ends, in points
    high: float
    # Codes for a missing rating, without duplicates and in a fixed order, so that the order given does not matter.
    missing: tuple[float | str, ...]
    n_missing_codes: int  # ratings that were one of these codes
    ratings_path: Path
    groups_path: Path
    ratings_sha256: str
    groups_sha256: str
    # Whether the file has a column status. Without one a missing rating counts as unparseable, though it may have been
    # a refusal.
    status_given: bool
    stems: Mapping[str, Mapping[str, str]]  # dimension → term → stem, as far as the groups file gives stems
    narratives: pd.DataFrame  # rows of NARRATIVE_COVARIATES: what further columns say of narratives
    not_kept: Mapping[str, str]  # further columns that are no covariates of narratives, and why
    # the files' names of columns, by ours, as the user gave them
    named: Mapping[str, str] = field(default_factory=dict)


def read_outside(
    ratings: Path,
    groups: Path,
    *,
    low: float | None = None,
    high: float | None = None,
    missing: Sequence[float | str] = (),
    columns: Mapping[str, str] | None = None,
) -> OutsideRatings:
    """Read and check ratings that another tool collected.

    ``ratings`` has one row a prompt: delimited text, a spreadsheet, JSON lines, Parquet or SPSS's ``.sav``, with
    ``perceiver`` and ``experiencer`` (terms), ``narrative_id``, and ``rating`` (or ``intensity``) in points. Optional:
    ``dimension``, ``variant``, ``emotion`` (one for each narrative) and ``status``. A missing rating is empty or a
    usual mark such as ``NA``.

    Each further column that is the same in all rows of a narrative is kept as a covariate of narratives, for a user's
    formula.

    ``groups`` has ``term`` and ``group``, ``dimension`` if a term's group depends on it, and ``stem`` to say which
    terms share a stem; where it is absent or empty, terms with a word in common count as one
    (:meth:`audit.statistics.echo.Overlap.of`). The group ``unspecified`` is the baseline; the perceiver ``no persona``
    is none at all.

    If ``low`` and ``high`` are None, they are 0 and 100, and the ratings must reach them: ratings from 1 to 7 do not
    prove a scale from 1 to 7. ``missing`` has codes for a refusal or no answer: a number leaves the row its ``status``,
    or makes it unparseable like an empty cell; a text stands for an empty cell in every column.

    ``columns`` maps our names, of :data:`COLUMNS`, to those of the files. Names are compared without case and
    surrounding blanks. Labels keep their case and lose surrounding blanks. A
    CSV line may be shorter than the header, since spreadsheets omit empty cells at the end.
    """
    ends = tuple(taken if given is None else given for given, taken in zip((low, high), DEFAULT_ENDS, strict=True))
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise ConfigError(
            f"low={ends[0]:g} high={ends[1]:g}: low must be below high; give the two ends of the rating scale"
        )
    named = dict(sorted((columns or {}).items()))
    try:
        table = read_table("ratings", ratings, _REQUIRED, _OPTIONAL, missing, named, by="narrative_id")
    except _HeadingsError as error:
        error.join(lambda: read_table("groups", groups, _OF_GROUPS[:2], _OF_GROUPS[2:], missing, named))
        raise
    labels = {
        name: words_of(table, name, absent=default)
        for name, default in {**dict.fromkeys(_REQUIRED[:3], ""), **ABSENT}.items()
    }
    given = _intensities(table)
    table.check()
    intensity, is_code = _without_codes(table, given, missing, ends)
    _check_reached(table, intensity, low=low, high=high, given=missing)
    status = _statuses(table, intensity)
    _check_scale(table, intensity, low=ends[0], high=ends[1], given=missing)
    _check_prompts(table, labels)
    _check_emotions(table, labels)
    mapping = read_table("groups", groups, _OF_GROUPS[:2], _OF_GROUPS[2:], missing, named)
    sides, names = _groups_of(table, mapping, labels)
    narratives, not_kept = _covariates_of(table.further, decimal_comma=table.decimal_comma)
    return OutsideRatings(
        ratings=ratings_table(labels, sides, names, intensity=intensity, status=status),
        low=ends[0],
        high=ends[1],
        missing=_in_order(missing),
        n_missing_codes=int(np.count_nonzero(is_code)),
        ratings_path=ratings,
        groups_path=groups,
        ratings_sha256=table.sha256,
        groups_sha256=mapping.sha256,
        status_given="status" in table.columns,
        stems=stems_of(mapping, list(labels["dimension"].categories)),
        narratives=narratives,
        not_kept=not_kept,
        named=named,
    )


def ratings_table(
    # dimension, variant, narrative_id, emotion, perceiver, experiencer: shape (n,) each
    labels: Mapping[str, pd.Categorical],
    sides: Sequence[npt.NDArray[Any]],  # their groups, as indices into groups: shape (n,) each
    groups: Sequence[str],
    *,
    intensity: FloatArray,  # shape (n,), in points; NaN if there is no rating
    status: npt.NDArray[np.int8],  # shape (n,), indices into the statuses
    first: int = 0,  # prompt_index of the first row
) -> pd.DataFrame:
    """Return another tool's ratings, n rows, as a table with the columns of :data:`audit.tables.ratings.RATINGS`."""
    baselines = [place for place, name in enumerate(groups) if name in (UNSPECIFIED, NO_PERSONA)]
    baseline = np.isin(sides[0], baselines) | np.isin(sides[1], baselines)
    same = (sides[0] == sides[1]) & ~baseline
    n_rows = len(intensity)
    columns: dict[str, Any] = {
        **labels,
        "prompt_index": np.arange(first, first + n_rows, dtype=np.int64),
        "perceiver_group": _categorical(sides[0], groups),
        "experiencer_group": _categorical(sides[1], groups),
        "in_group": pd.arrays.BooleanArray(same, baseline),
        "n_shared": pd.arrays.IntegerArray(same.astype(np.int8), baseline.copy()),
        "status": _categorical(status, _STATUSES),
        "intensity": intensity,
        "response": pd.Series("", index=range(n_rows)),
        **{name: np.full(n_rows, np.nan) for name in _NOT_TOLD},
        "wording": pd.array(np.zeros(n_rows, dtype=np.int8), dtype="Int8"),
        "cut": pd.array([pd.NA] * n_rows, dtype="boolean"),
    }
    return pd.DataFrame(columns, columns=list(RATINGS), copy=False)


def describe_outside(outside: OutsideRatings, *, command: str, seed: int = 0, model: str | None = None) -> Manifest:
    """Return the manifest of a run folder with outside ratings, in one shard; what is unknown is left out."""
    ratings = outside.ratings
    return outside_manifest(
        command=command,
        seed=seed,
        model=model or outside.ratings_path.name,
        scale=(outside.low, outside.high),
        source=outside.ratings_path.name,
        variants=[str(variant) for variant in ratings["variant"].cat.categories],
        dimensions=[str(dimension) for dimension in ratings["dimension"].cat.categories],
        emotions=[str(emotion) for emotion in ratings["emotion"].cat.categories],
        n_narratives=ratings["narrative_id"].nunique(),
        n_prompts=len(ratings),
        missing=outside.missing,
        n_missing_codes=outside.n_missing_codes,
        files={
            "ratings": str(outside.ratings_path),
            "ratings_sha256": outside.ratings_sha256,
            "groups": str(outside.groups_path),
            "groups_sha256": outside.groups_sha256,
            "status_given": outside.status_given,
            **({"columns": dict(outside.named)} if outside.named else {}),
        },
    ).having(stems_stated=True, stems=outside.stems)


def outside_manifest(
    *,
    command: str,
    seed: int,
    model: str,
    scale: tuple[float, float] | None,  # None if nothing was rated
    source: str,
    variants: Sequence[str],
    dimensions: Sequence[str],
    emotions: Sequence[str],
    n_narratives: int,
    n_prompts: int,
    missing: Sequence[float | str],
    n_missing_codes: int,
    files: Mapping[str, Any],
) -> Manifest:
    """Return the manifest of a run folder whose ratings, or replies, were read, not collected."""
    kind = "ratings" if scale is not None else "replies"
    time, given = now(), list(emotions) != [ABSENT["emotion"]]
    ends = {} if scale is None else {"low": scale[0], "high": scale[1]}
    # Left out if there are no codes, so that folders of earlier versions keep their identity.
    codes = {"missing": list(missing)} if missing else {}
    named = {"columns": files["columns"]} if "columns" in files else {}
    content = {
        "status": "complete",
        "command": command,
        "started": time,
        "finished": time,
        "n_prompts": n_prompts,
        "shard_size": n_prompts,
        "seed": seed,
        "model": {"name": model} if ends else {"name": model, "elsewhere": {}},
        **({"elicitation": {"method": METHOD}, "scale": {**ends, "low_label": "", "high_label": ""}} if ends else {}),
        "stimuli": {
            "source": source,
            "n_narratives": n_narratives,
            "n_emotions": len(emotions) if given else None,
            "emotions": list(emotions) if given else None,
        },
        "prompt": {"variant": ", ".join(variants)},
        "dimensions": list(dimensions),
        "outside": {**files, **(codes | {"n_missing_codes": n_missing_codes} if codes else {})},
        "versions": versions(),
        "config": {kind: files[kind], "groups": files["groups"], **ends, **codes, **named, "model": model},
        "identity": {
            "model": {"name": model},
            **({"scale": ends} if ends else {}),
            "outside": {
                kind: files[f"{kind}_sha256"],
                "groups": files["groups_sha256"],
                "missing": codes.get("missing"),
                **named,
            },
        },
    }
    return Manifest.of(content)


# --- Files -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Further:
    """What the columns that we do not know say of each narrative."""

    places: dict[str, int]  # in a row, of columns that may be covariates; without those that differ in a narrative
    cells: dict[str, dict[str, str]]  # column → narrative → cell; without empty ones
    not_kept: dict[str, str]  # column → why it is no covariate of narratives

    @classmethod
    def of(cls, header: Sequence[str], known: Collection[str]) -> _Further:
        """Take the columns that are neither known to this reader nor our own, as in the exports of a run."""
        ours = {*known, *_ALSO, *RATINGS, ""}
        others = {name: place for place, name in enumerate(header) if plain_name(name) not in ours}
        not_kept = {name: "a formula cannot name it" for name in others if iskeyword(name) or not name.isidentifier()}
        places = {name: place for name, place in others.items() if name not in not_kept}
        return cls(places, {name: {} for name in places}, not_kept)

    def add(self, row: Sequence[str], narrative: str, marks: Collection[str]) -> None:
        """Add the cells of a row."""
        for name, place in tuple(self.places.items()):
            cell = row[place].strip() if place < len(row) else ""
            if not cell or cell in marks:
                continue
            if len(cell) > _LONGEST_LABEL:
                self._leave_out(name, f"a cell has more than {_LONGEST_LABEL} characters")
            elif self.cells[name].setdefault(narrative, cell) != cell:
                self._leave_out(name, f"it differs within the narrative {narrative!r}")

    def _leave_out(self, name: str, why: str) -> None:
        self.not_kept[name] = why
        del self.places[name], self.cells[name]


@dataclass(frozen=True, eq=False)
class ReadTable:
    """The columns that we read from a file, and how to name a row's place in it."""

    name: str
    sha256: str
    columns: dict[str, list[str]]
    counts: str
    numbers: Sequence[int]
    decimal_comma: bool
    marks: Collection[str]
    further: _Further
    faults: dict[int, Callable[[int], str]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Name a row, counted from 0, as the user's editor does."""
        return f"{self.counts} {self.numbers[row]}"

    def note(self, wrong: BoolArray, fault: Callable[[int], str]) -> None:
        """Record a fault for rows; each row keeps its first."""
        for row in np.flatnonzero(wrong).tolist():
            self.faults.setdefault(row, fault)

    def check(self) -> None:
        """Raise ConfigError if any row is faulty: one line with the first few rows and the number of others."""
        if not self.faults:
            return
        row, *others = sorted(self.faults)
        more = f" (and {len(others):,} more)" if others else ""
        # The remedy is given once, with the first row.
        told = [f"{self.place(other)}: {self.faults[other](other).partition(';')[0]}" for other in others[:_SHOWN]]
        rest = ["..."] if len(others) > _SHOWN else []
        also = f"; also {'; '.join([*told, *rest])}" if others else ""
        raise ConfigError(f"{self.name}: {self.place(row)}{more}: {self.faults[row](row)}{also}")

    def refuse(self, wrong: BoolArray, fault: Callable[[int], str]) -> None:
        """Raise ConfigError if any row is wrong."""
        self.note(wrong, fault)
        self.check()


def read_table(
    option: str,
    path: Path,
    required: Sequence[str],
    optional: Sequence[str],
    missing: Sequence[float | str],
    named: Mapping[str, str],  # the file's names, by ours, of columns that are not called as ours
    *,
    by: str = "",  # the column that further columns may be covariates of; empty to read none of them
    opened: TableFile | None = None,  # if it was read already
) -> ReadTable:
    """Read the columns of a user's table that we know; ConfigError or StoreError in one line if it cannot be used."""
    name, suffix = f"{option}={path}", path.suffix.lower()
    if opened is None and suffix not in SUFFIXES:
        raise ConfigError(
            f"{name} has {f'the suffix {suffix!r}' if suffix else 'no suffix'}; give a table: {WRITTEN_AS}"
        )
    if opened is None and not may_be_file(path):
        raise StoreError(f"{name} is not a file; give the path of a {suffix} file")
    try:
        table = opened or open_table(
            path,
            [named.get(column, column) for column in required],
            also=[*(named.get(column, column) for column in optional), *_ALSO],
            numbers=[named.get("rating", "rating"), *_ALSO],
            every=bool(by),
            long_cells=True,
        )
        if not table.header:
            raise StoreError(f"{name} is empty")
        header = _in_our_names(name, table.header, (*required, *optional), named)
        found = _find_columns(name, header, required, optional, named)
        columns: dict[str, list[str]] = {column: [] for column in found}
        further = _Further.of(header if by else (), found)
        marks = {mark for mark in missing if isinstance(mark, str)}
        numbers = array("q")
        same: dict[str, str] = {}  # labels recur in many rows: keep one copy of each
        for number, row in table.rows:
            if any(cell.strip() for cell in row[len(table.header) :]):
                raise ConfigError(
                    f"{name}: {table.counts} {number} has {len(row)} cells and the header {len(table.header)}; put "
                    "quotation marks around text that contains the separator, and write decimals with a point"
                )
            numbers.append(number)
            for column, place in found.items():
                cell = row[place].strip() if place < len(row) else ""
                columns[column].append(same.setdefault(cell, cell))
            if further.places:
                further.add(row, columns[by][-1], marks)
    except StimulusError as error:
        raise StoreError(f"{name}{str(error).removeprefix(str(path))}") from error
    except MalformedRowError as error:
        if "never closed" in str(error):
            raise ConfigError(
                f"{name}: the quotation mark that opens on line {error.line} is never closed; close or remove it"
            ) from error
        raise StoreError(f"{name} cannot be read as CSV (line {error.line}: {error})") from error
    if not numbers:
        raise ConfigError(f"{name}: has columns but no rows")
    return ReadTable(name, table.sha256, columns, table.counts, numbers, table.delimiter == ";", marks, further)


def _in_our_names(name: str, header: Sequence[str], wanted: Sequence[str], named: Mapping[str, str]) -> list[str]:
    """Return a header in our names; ConfigError if a wanted column that the user names is not there."""
    named = {ours: named[ours] for ours in wanted if ours in named}
    plain = [plain_name(heading) for heading in header]
    ours_of = {plain_name(theirs): ours for ours, theirs in named.items() if plain_name(theirs) in plain}
    for ours, theirs in named.items():
        # Both files may have a dimension, and one of them another name for it.
        if ours not in ours_of.values() and not (ours == "dimension" and ("term" in wanted or ours in plain)):
            raise ConfigError(f"{name}: columns={ours}:{theirs}: no such column; {suggest(theirs, header)}")
    # A column that is called as one of ours is none of them if the user names another for it.
    taken = ours_of.values()
    return [ours_of.get(each, "" if each in taken else heading) for each, heading in zip(plain, header, strict=True)]


class _HeadingsError(ConfigError):
    """Columns that we need are not called as ours; ``told`` guesses which are which, the file's names by ours."""

    def __init__(self, fault: str, told: Mapping[str, str]) -> None:
        self.fault, self.told = fault, dict(told)
        super().__init__()

    def __str__(self) -> str:
        told = ",".join(f"{ours}:{theirs}" for ours, theirs in self.told.items())
        return f"{self.fault}; or say which is which: {shlex.quote(f'columns={told}')}"

    def join(self, read: Callable[[], object]) -> None:
        """Read another table, too, and add what its headings lack: a user maps all columns at once."""
        try:
            read()
        except _HeadingsError as other:
            self.fault = f"{self.fault}; {other.fault}"
            self.told |= other.told
        except AuditError:
            return  # told once these columns are found


def _find_columns(
    name: str, header: Sequence[str], required: Sequence[str], optional: Sequence[str], named: Mapping[str, str]
) -> dict[str, int]:
    """Return the positions of the columns present; raise ConfigError if one is missing or there twice."""
    known = [column.strip().casefold() for column in header]
    if "rating" in required and "rating" not in known:  # the name in our own exports
        known = ["rating" if column in _ALSO else column for column in known]
    for column in (*required, *optional):
        if known.count(column) > 1:
            raise ConfigError(f"{name}: {known.count(column)} columns are called {column!r}; keep one")
    if absent := [column for column in required if column not in known]:
        ours = ("", *required, *optional)
        others = [heading for heading, column in zip(header, known, strict=True) if column not in ours]
        shown = f"column{'s' if len(absent) > 1 else ''} {', '.join(map(repr, absent))}"
        fault = f"{name}: no {shown}; {suggest(absent[0], known)}"
        if len(known) == 1:
            raise ConfigError(f"{fault}; separate the cells by commas, semicolons or tabs")
        also = [column for column in optional if column not in known]
        raise _HeadingsError(fault, {**named, **guess_columns(absent, others, optional=also)})
    return {column: known.index(column) for column in (*required, *optional) if column in known}


# --- Columns ---------------------------------------------------------------------------------------------------------


def _categorical(codes: npt.NDArray[Any], names: Sequence[str]) -> pd.Categorical:
    """Label codes, with categories in order of first appearance, as in a run folder."""
    places, used = pd.factorize(codes)
    return pd.Categorical.from_codes(places, categories=pd.Index([names[code] for code in used]))


def words_of(table: ReadTable, column: str, *, absent: str = "") -> pd.Categorical:
    """Return the labels of a column; the table notes rows without one. ``absent`` stands for all if it is not there."""
    if column not in table.columns:
        return _categorical(np.zeros(table.n_rows, dtype=np.int8), [absent])
    given = table.columns[column]
    names = ["", *dict.fromkeys(cell for cell in given if cell and cell not in table.marks)]
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place.get(cell, 0) for cell in given], dtype=np.int64)
    table.note(
        codes == 0,
        lambda row: (
            f"the {column} is {f'{given[row]!r}, which counts as missing (missing=)' if given[row] else 'empty'}; "
            "fill it, or leave the row out"
        ),
    )
    return _categorical(codes, names)


def _intensities(table: ReadTable) -> FloatArray:
    """Return the ratings as floats; NaN if missing."""
    given = table.columns["rating"]
    cells = ["" if cell in table.marks else cell for cell in given]
    numbers, wrong = read_numbers(cells, decimal_comma=table.decimal_comma)
    is_wrong = np.zeros(table.n_rows, dtype=np.bool_)
    is_wrong[wrong] = True
    table.note(
        is_wrong,
        lambda row: (
            f"the rating {given[row]!r} is not a number; write it as 72 or 72.5, leave it empty if there is none, "
            "or give the mark for a missing rating: missing=MARK"
        ),
    )
    return np.array(numbers, dtype=np.float64)


def _statuses(table: ReadTable, intensity: FloatArray) -> npt.NDArray[np.int8]:
    """Return each row's status as an index into the statuses."""
    missing = np.isnan(intensity)
    if "status" not in table.columns:
        return np.where(missing, _UNPARSEABLE, _RATED).astype(np.int8)
    words = words_of(table, "status")
    names = [str(name) for name in words.categories]
    known = np.array([name in ("", *_STATUSES) for name in names])[words.codes]  # words_of has noted empty ones
    table.note(~known, lambda row: f"unknown status {words[row]!r}; {suggest(str(words[row]), _STATUSES)}")
    table.check()
    status: npt.NDArray[np.int8] = np.array([_STATUSES.index(name) for name in names], dtype=np.int8)[words.codes]

    def contradicts(row: int) -> str:
        rating = "it has no rating" if missing[row] else f"it has the rating {intensity[row]:.12g}"
        if missing[row] and not is_no_number(given := table.columns["rating"][row]):
            rating = f"its rating {given} counts as missing (missing=)"
        return f"the status is {_STATUSES[status[row]]!r} but {rating}; only 'rated' rows have a rating"

    table.refuse((status == _RATED) == missing, contradicts)
    return status


# --- What must hold across rows --------------------------------------------------------------------------------------


def _without_codes(
    table: ReadTable, values: FloatArray, missing: Sequence[float | str], ends: tuple[float, ...]
) -> tuple[FloatArray, BoolArray]:
    """Return the ratings with codes for missing replaced by NaN, and a mask of those."""
    is_code = np.zeros(table.n_rows, dtype=np.bool_)
    for code in missing:
        if isinstance(code, str):
            here = np.array([cell == code for cell in table.columns["rating"]], dtype=np.bool_)
            there = any(code in cells for cells in table.columns.values())
        else:
            if not math.isfinite(code) or ends[0] <= code <= ends[1]:
                raise ConfigError(
                    f"missing={code:.12g}: a number that means no rating must lie outside the scale from "
                    f"{ends[0]:.12g} to {ends[1]:.12g}; leave it out, or give the ends of the scale with low= and high="
                )
            here = values == code
            there = bool(here.any())
        if not there:
            raise ConfigError(
                f"missing={code_text(code)}: {table.name} has no such rating; leave it out, or correct it"
            )
        is_code |= here
    return np.where(is_code, np.nan, values), is_code


def code_text(code: float | str) -> str:
    """Return a code for a missing rating as a user types it."""
    return code if isinstance(code, str) else f"{code:.12g}"


def _in_order(missing: Sequence[float | str]) -> tuple[float | str, ...]:
    numbers = sorted({float(code) for code in missing if not isinstance(code, str)}, key=lambda code: (abs(code), code))
    return (*numbers, *sorted({code for code in missing if isinstance(code, str)}))


def _check_reached(
    table: ReadTable, intensity: FloatArray, *, low: float | None, high: float | None, given: Sequence[float | str]
) -> None:
    """Raise ConfigError if an end of the scale was not given and the ratings do not reach the default."""
    rated = intensity[~np.isnan(intensity)]
    if not rated.size:
        return
    codes = [code for code in CODES if _is_code(code, rated, low=low, high=high)]
    values = rated[~np.isin(rated, codes)]
    least, greatest = (float(values.min()), float(values.max())) if values.size else (math.nan, math.nan)
    asked = [
        name
        for name, end, unreached in (
            ("low=", low, least != DEFAULT_ENDS[0]),
            ("high=", high, greatest != DEFAULT_ENDS[1]),
        )
        if end is None and unreached
    ]
    if not asked or not values.size:
        return
    hint = f"; {_code_words(codes, given)}" if codes else ""
    raise ConfigError(
        f"{table.name}: the ratings go from {least:.12g} to {greatest:.12g}, which does not show where the scale "
        f"ends; give its ends with low= and high= (for a scale from 1 to 7: low=1 high=7){hint}"
    )


def _is_code(code: float, rated: FloatArray, *, low: float | None, high: float | None) -> bool:
    """Whether a rating looks like a code for missing: a usual one, and apart from all other ratings."""
    if not (rated == code).any() or (low is not None and high is not None and low <= code <= high):
        return False
    others = rated[~np.isin(rated, CODES)]
    if not others.size:
        return code < 0
    # A scale from -3 to 3 holds -1.
    return bool(others.min() >= 0) if code < 0 else bool(code > 2 * others.max())


def _code_words(codes: Sequence[float], given: Sequence[float | str]) -> str:
    """Say what to give as ``missing`` for the codes found, together with those already given."""
    every = [code_text(code) for code in dict.fromkeys((*given, *codes))]
    option = f"missing={every[0]}" if len(every) == 1 else f"missing=[{','.join(every)}]"
    named = " and ".join(f"{code:.12g}" for code in codes)
    which = "is likely a code" if len(codes) == 1 else "are likely codes"
    return f"{named} {which} for a refusal or a missing answer: if so, add {option}"


def _check_scale(
    table: ReadTable, intensity: FloatArray, *, low: float, high: float, given: Sequence[float | str]
) -> None:
    beyond = (intensity < low) | (intensity > high)
    if not beyond.any():
        return
    rated = intensity[~np.isnan(intensity)]
    codes = [code for code in CODES if not low <= code <= high and _is_code(code, rated, low=low, high=high)]
    remedies = [_code_words(codes, given)] if codes else []
    if not np.isin(intensity[beyond], codes).all():
        remedies.append("give its ends with low= and high=, or correct the file")
    table.refuse(
        beyond,
        lambda row: (
            f"the rating {intensity[row]:.12g} is outside the scale from {low:.12g} to {high:.12g}; "
            f"{'; '.join(remedies)}"
        ),
    )


def _check_prompts(table: ReadTable, labels: dict[str, pd.Categorical]) -> None:
    prompts = pd.DataFrame({name: labels[name].codes for name in _PROMPT}, copy=False)
    again = prompts.duplicated().to_numpy()

    def is_given_again(row: int) -> str:
        first = int(np.argmax((prompts == prompts.iloc[row]).all(axis=1).to_numpy()))
        prompt = ", ".join(f"{name} {labels[name][row]!r}" for name in _PROMPT)
        return (
            f"this prompt was on {table.place(first)} already: {prompt}; keep one row (the mean, if it was asked "
            "again), or add a column variant that separates them"
        )

    table.refuse(again, is_given_again)


def _check_emotions(table: ReadTable, labels: dict[str, pd.Categorical]) -> None:
    narratives, emotions = labels["narrative_id"], labels["emotion"]
    emotion_of = np.zeros(len(narratives.categories), dtype=emotions.codes.dtype)
    emotion_of[narratives.codes[::-1]] = emotions.codes[::-1]  # reversed, so that the first row's emotion wins
    earlier = emotion_of[narratives.codes]
    table.refuse(
        earlier != emotions.codes,
        lambda row: (
            f"narrative {narratives[row]!r} has the emotion {emotions[row]!r} here and "
            f"{emotions.categories[earlier[row]]!r} before; give it one emotion, or use two identifiers for two "
            "narratives"
        ),
    )


def _covariates_of(further: _Further, *, decimal_comma: bool) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the covariates of narratives, a number where all of a column are, and why other columns are none."""
    not_kept, rows = dict(further.not_kept), []
    for name, cells in further.cells.items():
        numbers, wrong = read_numbers(list(cells.values()), decimal_comma=decimal_comma)
        if len({*cells.values()}) < 2:
            not_kept[name] = "it is the same in all narratives"
            continue
        for narrative, cell, number in zip(cells, cells.values(), numbers, strict=True):
            own = {"label": cell} if wrong else {"number": number}
            rows.append({"narrative_id": narrative, "covariate": name, "number": math.nan, "label": None} | own)
    return pd.DataFrame(rows, columns=list(NARRATIVE_COVARIATES)), not_kept


def _always(fault: str, row: int) -> str:
    return fault


def _groups_of(
    table: ReadTable, mapping: ReadTable, labels: dict[str, pd.Categorical]
) -> tuple[list[npt.NDArray[np.intp]], list[str]]:
    """Return the group codes of each row's perceiver and experiencer, and the group names."""
    by_dimension = "dimension" in mapping.columns
    if by_dimension and "dimension" not in table.columns:
        raise ConfigError(
            f"{mapping.name} has a column 'dimension' but {table.name} does not; add it to both, or remove it"
        )
    group_of = read_groups(mapping, by_dimension=by_dimension)
    names = list(dict.fromkeys(group_of.values()))
    dimensions = labels["dimension"]
    scopes = [str(dimension) if by_dimension else "" for dimension in dimensions.categories]
    known = {scope for scope, _ in group_of}
    for code, scope in enumerate(scopes):
        if scope not in known:
            fault = f"{mapping.name} has no dimension {scope!r}; {suggest(scope, known)}"
            table.refuse(dimensions.codes == code, partial(_always, fault))
    sides: list[npt.NDArray[np.intp]] = []
    lacking: dict[tuple[str, str], None] = {}
    for side in ("perceiver", "experiencer"):
        terms = labels[side]
        of_term = [[group_of.get((scope, term)) for term in terms.categories] for scope in scopes]
        lookup = np.array([[-1 if group is None else names.index(group) for group in row] for row in of_term])
        sides.append(lookup[dimensions.codes, terms.codes])
        asked = np.zeros(lookup.shape, dtype=np.bool_)
        asked[dimensions.codes, terms.codes] = True
        lacking |= {(scopes[d], terms.categories[t]): None for d, t in np.argwhere(asked & (lookup < 0))}
    if lacking:
        scope, term = next(iter(lacking))
        of_it = np.asarray((labels["perceiver"] == term) | (labels["experiencer"] == term))
        of_it &= np.array([known_scope == scope for known_scope in scopes])[dimensions.codes]
        where = f" in dimension {scope!r}" if scope else ""
        more = f" (and for {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
        options = [known_term for known_scope, known_term in group_of if known_scope == scope]
        raise ConfigError(
            f"{mapping.name}: has no group for the term {term!r}{where}{more}, which occurs in "
            f"{plural(of_it.sum(), 'row')} of {table.name} (first: {table.place(int(np.argmax(of_it)))}); add it, "
            f"or correct its wording: {suggest(term, options)}"
        )
    return sides, names


def stems_of(mapping: ReadTable, dimensions: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the stems in the groups file by dimension of the ratings."""
    if "stem" not in mapping.columns:
        return {}
    terms = words_of(mapping, "term")
    stems = ["" if stem in mapping.marks else stem for stem in mapping.columns["stem"]]
    scopes = words_of(mapping, "dimension") if "dimension" in mapping.columns else [""] * mapping.n_rows
    given: dict[tuple[str, str], str] = {}
    for row, (scope, term, stem) in enumerate(zip(scopes, terms, stems, strict=True)):
        if stem and given.setdefault((scope, term), stem) != stem:
            raise ConfigError(
                f"{mapping.name}: {mapping.place(row)}: the stem of {term!r} is {stem!r} here and "
                f"{given[scope, term]!r} before; keep one"
            )
    found = {
        str(name): {term: stem for (scope, term), stem in given.items() if scope in ("", name)} for name in dimensions
    }
    return {name: stems for name, stems in found.items() if stems}


def read_groups(mapping: ReadTable, *, by_dimension: bool) -> dict[tuple[str, str], str]:
    """Return group by (dimension, term); the dimension is empty if groups do not depend on it."""
    terms, groups = words_of(mapping, "term"), words_of(mapping, "group")
    dimensions = words_of(mapping, "dimension") if by_dimension else [""] * mapping.n_rows
    mapping.check()
    group_of: dict[tuple[str, str], str] = {}
    first: dict[tuple[str, str], int] = {}
    written: dict[tuple[str, str], tuple[str, int]] = {}
    for row, (dimension, term, group) in enumerate(zip(dimensions, terms, groups, strict=True)):
        nobody = term.casefold() == NO_PERSONA
        if group.casefold() == NO_PERSONA and not nobody:
            raise ConfigError(
                f"{mapping.name}: {mapping.place(row)}: the group of {term!r} is {group!r}, which is reserved for a "
                f"perceiver without identity; rename it, or call it {UNSPECIFIED!r} if it is a baseline"
            )
        key, named = (dimension, term), UNSPECIFIED if group.casefold() == UNSPECIFIED else group
        if nobody and group.casefold() in (UNSPECIFIED, NO_PERSONA):
            named = NO_PERSONA  # else it would be taken for "a person"
        if group_of.setdefault(key, named) != named:
            where = f" of dimension {dimension!r}" if by_dimension else ""
            raise ConfigError(
                f"{mapping.name}: {mapping.place(row)}: the term {term!r}{where} is in group {named!r} here and in "
                f"{group_of[key]!r} on {mapping.place(first[key])}; keep one"
            )
        first.setdefault(key, row)
        before, its_row = written.setdefault((dimension, " ".join(named.casefold().split())), (named, row))
        if before != named:  # two groups of one name would make pairs of one group count as pairs of two
            raise ConfigError(
                f"{mapping.name}: {mapping.place(row)}: the group {named!r} is written {before!r} on "
                f"{mapping.place(its_row)}; write a group's name in one way"
            )
    return group_of
