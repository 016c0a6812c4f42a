"""Read the published study's released results as ratings tables: one small file a pair of identities, or raw batches.

``processed_results/<dimension>_<variant>_<model>_<perceiver>_<experiencer>.tsv`` has one row a narrative, a column
``intensity`` (−1 for no rating) and perhaps the answer itself in ``response``. The study made these files from
``results/exp_<model>/<dimension>_<variant>_batch-<N>.tsv``, which hold prompts and answers of all pairs. Names and
prompts are read against the packaged wordings. Nothing is guessed: a contradiction ends in a one-line error that names
it.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.errors import EmptyDataError, ParserError

from audit.asking.elicitation.rules import read_by_both, study_intensities
from audit.errors import ConfigError, StoreError
from audit.runs.outside import ABSENT, FloatArray, IntArray, ratings_table
from audit.tables.formatting import plural
from audit.tables.ratings import Status
from stimuli.errors import in_one_line, suggest
from stimuli.files import read_file
from stimuli.identities import Dimension, Identity, load_dimensions
from stimuli.prompts import PUBLISHED_VARIANTS

STUDY: Final = "hou2025"
NO_RATING: Final = -1.0  # the study's code for a refusal and for an answer without a number
N_STUDY: Final = 6_050  # number of narratives in the study
FULL_SCALE: Final = (0.0, 100.0)
_SCALES: Final = {"10-scale": (0.0, 10.0)}
_CALLED: Final = {
    "religion": ("religion",),
    "nationality": ("nationality", "country"),
    "race_ethnicity": ("race_ethnicity", "ethnicity", "race"),
}
"""Spellings of each dimension in file names, matched case-insensitively."""
_UNSPECIFIED: Final = ("default", "unspecified")  # spellings of the unspecified identity, besides its wording
_FROM: Final = "a person from "
_ARTICLES: Final = frozenset({"a", "an"})
"""An article belongs to the identity after it. A model's name may end in one only if that identity has its own."""
_WORD: Final = re.compile(r"[^\s_\-]+")
_IDS: Final = ("text_id", "narrative_id", "oid")
_SIDES: Final = {"perceiver": ("persona", "perceiver"), "experiencer": ("experiencer",)}
"""Columns of a batch that name the identities. Without them, the prompts do."""
_PROMPTS: Final = {"perceiver": "system_prompt", "experiencer": "user_input"}
FIRST_MODEL: Final = "llama-8b"  # the model whose place the study's scripts leave empty in names
_BATCH: Final = "batch"
_NAME: Final = "DIMENSION_VARIANT_MODEL_PERCEIVER_EXPERIENCER.tsv"
_BATCH_NAME: Final = "exp_MODEL/DIMENSION_VARIANT_batch-N.tsv"
_PLACE: Final = "give the folder processed_results of the study's repository"
_CODES: Final = {status.value: code for code, status in enumerate(Status)}


@dataclass(frozen=True)
class ReleasedFile:
    """A result file and what its name says: the ratings of one pair of identities by one model in one variant."""

    path: Path
    dimension: str
    variant: str
    model: str
    perceiver: str
    experiencer: str


@dataclass(frozen=True)
class ReleasedRun:
    """All files of one model and variant."""

    model: str
    variant: str
    # Dimension → (perceiver, experiencer) → file. All pairs of identities are there; those with baselines all or none.
    files: Mapping[str, Mapping[tuple[str, str], Path]]
    # dimension → its raw batches in order, if it is not in files
    batches: Mapping[str, Sequence[Path]] = field(default_factory=dict)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Dimensions in the study's order."""
        return tuple(name for name in _dimensions() if name in self.files or name in self.batches)

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files of the run."""
        return tuple(
            path
            for name in self.dimensions
            for path in (self.batches[name] if name in self.batches else self.files[name].values())
        )


@dataclass(frozen=True, eq=False)
class ReleasedRatings:
    """The ratings of one run."""

    tables: Mapping[str, pd.DataFrame]  # dimension → columns of RATINGS; prompt_index runs on across dimensions
    scale: tuple[float, float]  # the two ends, in points
    sha256: str  # of the files' names and bytes
    n_narratives: int  # rows of each file
    emotions: tuple[str, ...]  # only "not given" if no emotion is known
    n_beyond: int  # ratings outside the variant's scale that were kept
    has_responses: bool  # whether the answers are there, so that refusals can be told from answers without a number
    without_baselines: tuple[str, ...]  # dimensions without the unspecified identity
    not_read: tuple[str, ...]  # columns of the files that are ignored


# --- Names -----------------------------------------------------------------------------------------------------------


@cache
def _dimensions() -> dict[str, Dimension]:
    return {dimension.name: dimension for dimension in load_dimensions(STUDY)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text))


@cache
def _spellings(dimension: str) -> tuple[dict[tuple[str, ...], str], dict[tuple[str, ...], frozenset[str]]]:
    """Map words to terms: exactly (one term), and case-insensitively (every term that matches)."""
    exact: dict[tuple[str, ...], str] = {}
    identities = _dimensions()[dimension].perceivers
    alone = {group for group, own in itertools.groupby(identities, key=lambda each: each.group) if len(list(own)) == 1}
    for identity in identities:
        for text in _called(identity, alone=identity.group in alone):
            exact.setdefault(_words(text), identity.term)
    folded: dict[tuple[str, ...], set[str]] = {}
    for words, term in exact.items():
        folded.setdefault(tuple(word.casefold() for word in words), set()).add(term)
    return exact, {words: frozenset(terms) for words, terms in folded.items()}


def _called(identity: Identity, *, alone: bool) -> Iterator[str]:
    """Yield the spellings of an identity in file names: its wording with and without article, its place, its group."""
    yield identity.term
    yield identity.term.partition(" ")[2]
    if identity.is_baseline:
        yield from _UNSPECIFIED
        return
    place = identity.term.removeprefix(_FROM)
    if place != identity.term:
        yield place
        yield place.removeprefix("the ")
    if alone:
        yield identity.group


def _term(words: tuple[str, ...], dimension: str) -> str | None:
    exact, folded = _spellings(dimension)
    found = exact.get(words)
    if found is None:
        terms = folded.get(tuple(word.casefold() for word in words), frozenset())
        found = next(iter(terms)) if len(terms) == 1 else None
    return found


def parse_name(path: Path) -> ReleasedFile:
    """Read what the name of a result file says. Words may be separated by blanks, ``_`` or ``-``."""
    found = list(_WORD.finditer(path.stem))
    words = tuple(match[0] for match in found)
    dimension, variant, start = _head(path, words, _NAME)
    # Between two separators: the study's scripts leave the name of their first model empty.
    unnamed = start < len(found) and path.stem[found[start - 1].end() : found[start].start()].count("_") > 1
    readings = [
        (middle, perceiver, experiencer)
        for last, experiencer in _endings(words, len(words), start, dimension)
        for middle, perceiver in _endings(words, last, start, dimension)
        if (middle == start and unnamed)
        or (middle > start and (words[middle - 1].casefold() not in _ARTICLES or words[middle].casefold() in _ARTICLES))
    ]
    if not readings:
        which = "experiencer" if not any(_endings(words, len(words), start, dimension)) else "model and perceiver"
        terms = ", ".join(_listed_terms(dimension))
        _refuse(path, f"no {which} of {dimension} can be read at its end; identities of the study: {terms}")
    shortest = min(middle for middle, *_ in readings)
    best = {reading[1:] for reading in readings if reading[0] == shortest}
    if len(best) > 1:
        pairs = " or ".join(f"{perceiver!r} and {experiencer!r}" for perceiver, experiencer in sorted(best))
        _refuse(path, f"its end can be read as {pairs}; rename it")
    [(perceiver, experiencer)] = best
    model = path.stem[found[start].start() : found[shortest - 1].end()] if shortest > start else FIRST_MODEL
    return ReleasedFile(path, dimension, variant, model, perceiver, experiencer)


def _head(path: Path, words: tuple[str, ...], form: str) -> tuple[str, str, int]:
    """Return the dimension and variant at the start of the words, and the index of the first word after them."""
    called = {each: name for name, own in _CALLED.items() for each in own}
    dimension, start = _beginning(words, 0, called)
    if dimension is None:
        _refuse(path, f"it begins with no dimension; {suggest(words[0] if words else '', called)}", form)
    variant, start = _beginning(words, start, {name: name for name in PUBLISHED_VARIANTS})
    if variant is None:
        spelt = ["-".join(words[start:end]) for end in range(start + 1, start + 4)]
        hints = [suggest(each, PUBLISHED_VARIANTS) for each in spelt]
        hint = next((hint for hint in hints if hint.startswith("did")), f"there are: {', '.join(PUBLISHED_VARIANTS)}")
        _refuse(path, f"after {dimension} comes no variant; {hint}", form)
    return dimension, variant, start


def is_batch(path: Path) -> bool:
    """Tell whether a file is a raw batch of answers: its name ends in ``batch-N``."""
    *_, last, number = ("", "", *_words(path.stem))
    return last.casefold() == _BATCH and number.isdecimal()


def parse_batch(path: Path) -> tuple[str, str, str, int]:
    """Return dimension, variant, model and number of a raw batch from the names of the file and its folder.

    The study names them ``exp_MODEL/DIMENSION_VARIANT_batch-N.tsv`` (``exp`` alone is its first model);
    ``DIMENSION_VARIANT_MODEL/batch-N.tsv`` is read too.
    """
    folder = path.resolve().parent.name
    number = int(_words(path.stem)[-1])
    text = path.stem if len(_words(path.stem)) > 2 else f"{folder}_{_BATCH}-{number}"
    found = list(_WORD.finditer(text))[:-2]
    dimension, variant, start = _head(path, tuple(match[0] for match in found), _BATCH_NAME)
    if start < len(found):
        return dimension, variant, text[found[start].start() : found[-1].end()], number
    of_folder = _words(folder) if text == path.stem else ()
    if of_folder[:1] == ("exp",):
        folder = folder[len("exp") :].strip(" _-")
    return dimension, variant, folder if of_folder and folder else FIRST_MODEL, number


def _beginning(words: tuple[str, ...], start: int, known: Mapping[str, str]) -> tuple[Any, int]:
    """Match the longest known spelling at ``start``; return its value (or None) and where it ends."""
    folded = tuple(word.casefold() for word in words)
    for spelt in sorted(known, key=lambda each: -len(_words(each))):
        own = _words(spelt)
        if folded[start : start + len(own)] == own:
            return known[spelt], start + len(own)
    return None, start


def _endings(words: tuple[str, ...], end: int, start: int, dimension: str) -> Iterator[tuple[int, str]]:
    """Yield each identity that the words before ``end`` can spell, with the index of its first word."""
    for first in range(start, end):
        term = _term(words[first:end], dimension)
        if term is not None:
            yield first, term


def _refuse(path: Path, fault: str, form: str = _NAME) -> Any:
    raise ConfigError(f"{path}: the name cannot be read as {form}: {fault}")


# --- Folders ---------------------------------------------------------------------------------------------------------


def find_released(folder: Path) -> list[ReleasedRun]:
    """Find the result files of a folder, one run for each model and variant, and check that none is missing.

    The files lie in the folder or its ``processed_results``; raw batches in the folder, its subfolders, or those of its
    ``results``. Other files are ignored. Models are sorted by name, variants in the study's order. All pairs of a
    dimension's identities must be there, those with the unspecified identity all or none.
    """
    if not os.path.isdir(folder):  # also False if access is denied
        raise StoreError(f"{folder} is not a folder; {_PLACE}")
    paths = sorted(folder.glob("*.tsv")) or sorted((folder / "processed_results").glob("*.tsv"))
    if not paths:
        paths = sorted(filter(is_batch, (*folder.glob("*/*.tsv"), *folder.glob("results/*/*.tsv"))))
    if not paths:
        raise StoreError(f"{folder} has no .tsv file; {_PLACE}")
    batches = [path for path in paths if is_batch(path)]
    if batches and len(batches) < len(paths):
        other = next(path for path in paths if path not in batches)
        raise ConfigError(
            f"{folder} has raw batches, {batches[0].name}, and other files, {other.name}; move one kind into its "
            "own folder"
        )
    runs = dict(_of_batch_files(batches) if batches else _of_pair_files(paths))
    return [runs[key] for key in sorted(runs, key=lambda key: (key[0], PUBLISHED_VARIANTS.index(key[1])))]


def _of_pair_files(paths: Sequence[Path]) -> Iterator[tuple[tuple[str, str], ReleasedRun]]:
    """Yield the runs of result files with their model and variant."""
    runs: dict[tuple[str, str], dict[str, dict[tuple[str, str], Path]]] = {}
    for path in paths:
        file = parse_name(path)
        of_dimension = runs.setdefault((file.model, file.variant), {}).setdefault(file.dimension, {})
        pair = file.perceiver, file.experiencer
        if pair in of_dimension:
            raise ConfigError(
                f"{of_dimension[pair].name} and {path.name} are both for perceiver {pair[0]!r} and experiencer "
                f"{pair[1]!r}; keep one in {path.parent}"
            )
        of_dimension[pair] = path
    for (model, variant), own in runs.items():
        files = {name: _in_order(own[name], name, model, variant) for name in _dimensions() if name in own}
        yield (model, variant), ReleasedRun(model, variant, files)


def _of_batch_files(paths: Sequence[Path]) -> Iterator[tuple[tuple[str, str], ReleasedRun]]:
    """Yield the runs of raw batches with their model and variant."""
    runs: dict[tuple[str, str], dict[str, dict[int, Path]]] = {}
    for path in paths:
        dimension, variant, model, number = parse_batch(path)
        of_dimension = runs.setdefault((model, variant), {}).setdefault(dimension, {})
        if number in of_dimension:
            raise ConfigError(
                f"{of_dimension[number]} and {path} are both batch {number} of {dimension}, {variant}, {model}; keep "
                "one"
            )
        of_dimension[number] = path
    for (model, variant), own in runs.items():
        batches = {name: _whole(own[name]) for name in _dimensions() if name in own}
        yield (model, variant), ReleasedRun(model, variant, {}, batches)


def _whole(batches: Mapping[int, Path]) -> list[Path]:
    """Return raw batches in order; ConfigError if one in between is missing."""
    gone = next((number for number in range(min(batches), max(batches)) if number not in batches), None)
    if gone is not None:
        last = batches[max(batches)]
        raise ConfigError(f"{last}: batch {gone} is missing; add it, because it has the answers of whole pairs")
    return [batches[number] for number in sorted(batches)]


def _in_order(
    files: Mapping[tuple[str, str], Path], dimension: str, model: str, variant: str
) -> dict[tuple[str, str], Path]:
    """Sort files by perceiver, then experiencer; ConfigError if a pair is missing."""
    wanted = _wanted(dimension, files)
    missing = [pair for pair in wanted if pair not in files]
    if missing and all(is_baseline(dimension, *pair) for pair in missing):
        there = [path.name for pair, path in files.items() if is_baseline(dimension, *pair)]
        some, them = (
            (f"are there, {there[0]} and others", "them") if len(there) > 1 else (f"is there, {there[0]}", "it")
        )
        raise ConfigError(
            f"{dimension}, {variant}, {model}: {len(there):,} of the {len(there) + len(missing):,} files with the "
            f"unspecified identity {some}; remove {them}, or add the other {len(missing):,}, the first that of "
            f"perceiver {missing[0][0]!r} and experiencer {missing[0][1]!r}"
        )
    if missing:
        (perceiver, experiencer), be = missing[0], "is" if len(missing) == 1 else "are"
        raise ConfigError(
            f"{dimension}, {variant}, {model}: {len(missing):,} of {plural(len(wanted), 'file')} {be} missing, the "
            f"first that of perceiver {perceiver!r} and experiencer {experiencer!r}, beside "
            f"{next(iter(files.values()))}; add them, or remove the files of {dimension} for this model and variant"
        )
    return {pair: files[pair] for pair in wanted}


def _wanted(dimension: str, there: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs that must be there, perceivers in rows: those with the unspecified identity all or none."""
    with_baselines = any(is_baseline(dimension, *pair) for pair in there)
    return [
        (perceiver.term, experiencer.term)
        for perceiver, experiencer in _dimensions()[dimension].pairs()
        if with_baselines or not (perceiver.is_baseline or experiencer.is_baseline)
    ]


def is_baseline(dimension: str, perceiver: str, experiencer: str) -> bool:
    """Tell whether one of the pair is the dimension's unspecified identity."""
    terms = {identity.term for identity in _dimensions()[dimension].perceivers if identity.is_baseline}
    return perceiver in terms or experiencer in terms


def clusters_of(run: ReleasedRun) -> dict[str, dict[str, str]]:
    """Return the cultural cluster of each group, for dimensions that have clusters."""
    return {name: dict(_dimensions()[name].clusters) for name in run.dimensions if _dimensions()[name].clusters}


# --- What is in them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Content:
    """The rows of one pair, with the path and name of their file or part of a batch for messages."""

    place: str
    name: str
    intensity: FloatArray
    responses: pd.Series | None
    ids: tuple[str, ...] | None
    emotions: tuple[str, ...] | None
    prompts: tuple[int, ...] | None  # distance of each row's `idx` from the first row's
    not_read: tuple[str, ...]


def read_released(
    run: ReleasedRun,
    *,
    emotion_of: Mapping[str, str] | None = None,
    keep_beyond: bool = False,
    done: Callable[[int], None] = lambda n: None,
) -> ReleasedRatings:
    """Read and check all files of a run.

    ``emotion_of`` None takes the files' own column ``emotion``. ``keep_beyond`` keeps ratings of up to 100 in the
    variant 10-scale, as the study's parser did. They lie outside the scale; the run's report counts them.

    Where there are answers, why a rating is missing follows our rule,
    ``audit.asking.elicitation.parsing.parse_response``. An intensity of a batch is what the study's own rule reads in
    the answer; that of a result file is the released one.
    """
    digest = hashlib.sha256()
    scale = _SCALES.get(run.variant, FULL_SCALE)
    first: _Content | None = None
    tables: dict[str, pd.DataFrame] = {}
    n_beyond, n_rows, names = 0, 0, tuple[str, ...]()
    emotions: tuple[str, ...] | None = None
    labels: dict[str, Any] = {}
    without: list[str] = []
    for dimension in run.dimensions:
        contents: dict[tuple[str, str], _Content] = {}
        for pair, content in _contents(run, dimension, digest, done):
            if first is None:
                first = content
                n_rows = len(content.intensity)
                names = content.ids or tuple(str(row) for row in range(1, n_rows + 1))
                _check_names(content.place, names)
                emotions = content.emotions if emotion_of is None else _emotions(content, emotion_of)
            else:
                _check_alike(content, first)
            n_beyond += _check_scale(content, scale, variant=run.variant, keep_beyond=keep_beyond)
            contents[pair] = content
        labels = _labels(run.variant, dimension, list(contents), names, emotions)
        tables[dimension] = _table(labels, contents, dimension, scale, sum(map(len, tables.values())))
        if not any(is_baseline(dimension, *pair) for pair in contents):
            without.append(dimension)
    assert first is not None
    return ReleasedRatings(
        tables=tables,
        scale=scale,
        sha256=digest.hexdigest(),
        n_narratives=n_rows,
        emotions=tuple(map(str, labels["emotion"].categories)),
        n_beyond=n_beyond,
        has_responses=first.responses is not None,
        without_baselines=tuple(without),
        not_read=first.not_read,
    )


def _contents(
    run: ReleasedRun, dimension: str, digest: Any, done: Callable[[int], None]
) -> Iterator[tuple[tuple[str, str], _Content]]:
    """Yield the rows of each pair of a dimension, perceivers in rows."""
    if dimension in run.batches:
        yield from _of_batches(run.batches[dimension], dimension, digest, done)
        return
    for pair, path in run.files[dimension].items():
        yield pair, _read(path, digest)
        done(1)


def _bytes(path: Path, digest: Any) -> bytes:
    try:
        content = read_file(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror or error})") from error
    digest.update(f"{path.name}\n{len(content)}\n".encode("utf-8", "replace") + content)
    return content


def _read(path: Path, digest: Any) -> _Content:
    """Read the known columns of a result file."""
    read, not_read = _columns(path, digest, ("intensity",), ("response", "emotion", "idx", *_IDS))
    key = next((name for name in _IDS if name in read), None)
    return _Content(
        place=str(path),
        name=path.name,
        intensity=_intensities(path, read["intensity"]),
        responses=read.get("response"),
        ids=None if key is None else tuple(read[key].str.strip()),
        emotions=tuple(read["emotion"].str.strip()) if "emotion" in read else None,
        prompts=_distances(_places_of(path, read["idx"])) if "idx" in read else None,
        not_read=not_read,
    )


def _columns(
    path: Path, digest: Any, needed: Sequence[str], optional: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read columns of a file as texts; return them and the names of the other columns."""
    content = _bytes(path, digest)
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise ConfigError(f"{path}: the file is empty; replace the file with the study's")
    try:
        head = [name.strip().casefold() for name in content.split(b"\n", 1)[0].decode("utf-8-sig").split("\t")]
        head = [name.strip('"') for name in head]
        for name in (*needed, *optional):
            if head.count(name) > 1:
                raise ConfigError(f"{path}: {head.count(name)} columns are called {name!r}; keep one")
        for name in needed:
            if name not in head:
                hint = "; separate the cells by tabs" if len(head) == 1 and head[0] else ""
                raise ConfigError(f"{path}: no column {name!r}; {suggest(name, filter(None, head))}{hint}")
        places = {head.index(name): name for name in (*needed, *optional) if name in head}
        read = pd.read_csv(
            io.BytesIO(content), sep="\t", header=0, names=list(range(len(head))), usecols=list(places), dtype=str,
            keep_default_na=False, index_col=False, encoding="utf-8-sig",
        ).rename(columns=places).fillna("")  # fmt: skip
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    except (ParserError, EmptyDataError, ValueError) as error:
        raise StoreError(f"{path} cannot be read as TSV ({in_one_line(error)})") from error
    if read.empty:
        raise ConfigError(f"{path}: has columns but no rows")
    return read, tuple(name for place, name in enumerate(head) if place not in places and name)


def _places_of(path: Path, column: pd.Series) -> IntArray:
    """Return the positions of prompts in the study's list of all prompts."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(numbers) | (numbers % 1 != 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(
            f"{path}: row {row + 1}{_more(wrong)}: the idx {column.iloc[row]!r} is not a whole number; replace the "
            "file with the study's"
        )
    return numbers.astype(np.int64)


def _distances(places: IntArray) -> tuple[int, ...]:
    return tuple((places - places[0]).tolist())


def _intensities(path: Path, column: pd.Series) -> FloatArray:
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(
            f"{path}: row {row + 1}{_more(wrong)}: the intensity {column.iloc[row]!r} is not a number; write -1 if "
            "there is no rating"
        )
    return values


def _more(wrong: Any) -> str:
    n_more = int(np.count_nonzero(wrong)) - 1
    return f" (and {n_more:,} more)" if n_more else ""


def _check_scale(content: _Content, scale: tuple[float, float], *, variant: str, keep_beyond: bool) -> int:
    """Replace −1 by NaN, in place; return how many ratings outside the scale are kept."""
    intensity = content.intensity
    intensity[intensity == NO_RATING] = np.nan
    beyond = (intensity < scale[0]) | (intensity > scale[1])
    if not beyond.any():
        return 0
    off = (intensity < FULL_SCALE[0]) | (intensity > FULL_SCALE[1])
    if keep_beyond and not off.any():
        return int(beyond.sum())
    row = int(np.argmax(off if keep_beyond else beyond))
    remedy = "correct the file: a rating is on the scale, or -1 if there is none"
    if scale != FULL_SCALE and not off.any():
        remedy = "the study's parser accepted answers up to 100 there; beyond=keep accepts them too"
    raise ConfigError(
        f"{content.place}: row {row + 1}{_more(off if keep_beyond else beyond)}: the intensity {intensity[row]:g} "
        f"is outside the scale of {variant}, {scale[0]:g} to {scale[1]:g}; {remedy}"
    )


def _check_names(place: str, names: Sequence[str]) -> None:
    if len(set(names)) == len(names) and all(names):
        return
    row = next(place for place, name in enumerate(names) if not name or name in names[:place])
    fault = f"narrative {names[row]!r} occurs twice" if names[row] else "the narrative's identifier is empty"
    raise ConfigError(f"{place}: row {row + 1}: {fault}; give each row its own")


def _check_alike(content: _Content, first: _Content) -> None:
    """Refuse a file whose rows differ from the first file's in number, narratives, emotions or having answers."""
    n_rows, n_first = len(content.intensity), len(first.intensity)
    if n_rows != n_first:
        raise ConfigError(
            f"{content.place}: has {plural(n_rows, 'row')}, and {first.name} has {n_first:,}; all files of a model and "
            "variant have one row a narrative, in one order"
        )
    for what, has, other_has in (
        ("narrative", content.ids, first.ids),
        ("emotion", content.emotions, first.emotions),
        ("answer", content.responses, first.responses),
    ):
        if (has is None) != (other_has is None):
            with_it, without = (content, first) if other_has is None else (first, content)
            raise ConfigError(
                f"{without.place}: has no column for the {what}, and {with_it.name} has; give it to all files or to "
                "none"
            )
    for what, own, other in (
        ("narrative", content.ids, first.ids),
        ("emotion", content.emotions, first.emotions),
        ("prompt (idx, counted from the first row's)", content.prompts, first.prompts),
    ):
        if own is not None and other is not None and own != other:
            row = next(place for place, (one, two) in enumerate(zip(own, other, strict=True)) if one != two)
            raise ConfigError(
                f"{content.place}: row {row + 1} is of {what} {own[row]!r}, and of {other[row]!r} in {first.name}; "
                "bring the rows into one order"
            )


def _emotions(content: _Content, emotion_of: Mapping[str, str]) -> tuple[str, ...]:
    if content.ids is None:
        raise ConfigError(
            f"narratives= cannot be used: {content.name} has no column text_id, and the study's order of the 12 "
            "narrative files is unknown; leave narratives= out"
        )
    unknown = next((name for name in content.ids if name not in emotion_of), None)
    if unknown is not None:
        raise ConfigError(
            f"{content.place}: text_id {unknown!r} is in no file of narratives=; give a folder with all 12 files"
        )
    return tuple(emotion_of[name] for name in content.ids)


# --- The table -------------------------------------------------------------------------------------------------------


def _labels(
    variant: str, dimension: str, pairs: Sequence[tuple[str, str]], names: Sequence[str], emotions: Sequence[str] | None
) -> dict[str, Any]:
    """Label the rows, ordered by pair, then narrative."""
    n_pairs, n_rows = len(pairs), len(names)
    sides = [pd.factorize(pd.Series([pair[side] for pair in pairs])) for side in (0, 1)]
    of_rows, known = pd.factorize(pd.Series(emotions if emotions is not None else [ABSENT["emotion"]] * n_rows))

    def constant(text: str) -> Any:
        return pd.Categorical.from_codes(np.zeros(n_pairs * n_rows, dtype=np.int8), categories=pd.Index([text]))

    return {
        "dimension": constant(dimension),
        "variant": constant(variant),
        "narrative_id": pd.Categorical.from_codes(np.tile(np.arange(n_rows), n_pairs), categories=pd.Index(names)),
        "emotion": pd.Categorical.from_codes(np.tile(of_rows, n_pairs), categories=pd.Index(known)),
        "perceiver": pd.Categorical.from_codes(np.repeat(sides[0][0], n_rows), categories=pd.Index(sides[0][1])),
        "experiencer": pd.Categorical.from_codes(np.repeat(sides[1][0], n_rows), categories=pd.Index(sides[1][1])),
    }


def _table(
    labels: Mapping[str, pd.Categorical],
    contents: Mapping[tuple[str, str], _Content],
    dimension: str,
    scale: tuple[float, float],
    start: int,
) -> pd.DataFrame:
    group_of = {identity.term: identity.group for identity in _dimensions()[dimension].perceivers}
    groups = list(dict.fromkeys(group_of.values()))
    pairs, own = list(contents), list(contents.values())
    n_rows = len(own[0].intensity)
    sides = [np.repeat([groups.index(group_of[pair[side]]) for pair in pairs], n_rows) for side in (0, 1)]
    intensity = np.concatenate([content.intensity for content in own])
    missing = np.isnan(intensity)
    status = np.where(missing, _CODES[Status.UNPARSEABLE], _CODES[Status.RATED]).astype(np.int8)
    answers = [content.responses for content in own if content.responses is not None]
    if answers:
        responses = pd.concat(answers, ignore_index=True)
        of_missing = read_by_both(responses[missing], low=scale[0], high=scale[1])
        status[np.flatnonzero(missing)[(of_missing["ours"] == Status.REFUSED).to_numpy()]] = _CODES[Status.REFUSED]
    table = ratings_table(labels, sides, groups, intensity=intensity, status=status, first=start)
    return table.assign(response=responses) if answers else table


# --- Raw batches -----------------------------------------------------------------------------------------------------


@cache
def _terms(dimension: str) -> re.Pattern[str]:
    """Return a pattern that finds the dimension's wordings in a prompt, longer ones first."""
    terms = sorted((identity.term for identity in _dimensions()[dimension].perceivers), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, terms))})(?!\w)")


def _of_batches(
    paths: Sequence[Path], dimension: str, digest: Any, done: Callable[[int], None]
) -> Iterator[tuple[tuple[str, str], _Content]]:
    """Yield the rows of each pair from raw batches: prompts name the pair, the study's rule reads the answers."""
    parts: list[pd.DataFrame] = []
    not_read: tuple[str, ...] = ()
    begun: dict[str, str] = {}
    for path in paths:
        named = [name for names in _SIDES.values() for name in names]
        read, not_read = _columns(path, digest, ("response",), ("idx", "emotion", *_IDS, *named, *_PROMPTS.values()))
        columns = {side: _side(path, read, side, dimension, begun) for side in _SIDES}
        rest = _narratives_of(read, columns["experiencer"])
        kept = read[[name for name in ("response", "idx", "emotion", *_IDS) if name in read]]
        parts.append(kept.assign(**columns, rest=rest, place=_places_of(path, read["idx"]) if "idx" in read else -1))
        done(1)
    if len({tuple(part.columns) for part in parts}) > 1:
        raise ConfigError(
            f"{paths[0].parent}: the batches of {dimension} have different columns; give them the same columns"
        )
    rows = pd.concat(parts, ignore_index=True)
    if "idx" in rows:
        again = rows["place"].duplicated()
        if again.any():
            raise ConfigError(
                f"{paths[0].parent}: the batches of {dimension} have the idx {rows['place'][again].iloc[0]} twice; "
                "keep one row for each prompt"
            )
        rows = rows.sort_values("place", kind="stable", ignore_index=True)
    of_pair = {(str(p), str(e)): own for (p, e), own in rows.groupby(["perceiver", "experiencer"], sort=False)}
    wanted = _wanted(dimension, of_pair)
    if gone := [pair for pair in wanted if pair not in of_pair]:
        raise ConfigError(
            f"{paths[0].parent}: the batches of {dimension} ({', '.join(path.name for path in paths)}) have no answers "
            f"for {len(gone):,} of {plural(len(wanted), 'pair')}, the first perceiver {gone[0][0]!r} and experiencer "
            f"{gone[0][1]!r}; add the batch that has them"
        )
    first = wanted[0]
    key = next((name for name in _IDS if name in rows), None)
    for pair in wanted:
        own = of_pair[pair]
        place = f"{paths[0].parent}, {dimension}, perceiver {pair[0]!r}, experiencer {pair[1]!r}"
        if len(own) == len(of_pair[first]) and not np.array_equal(own["rest"], of_pair[first]["rest"]):
            raise ConfigError(
                f"{place}: its prompts have other narratives than those of perceiver {first[0]!r} and experiencer "
                f"{first[1]!r}, or in another order; bring them into one order"
            )
        responses = own["response"].reset_index(drop=True)
        yield (
            pair,
            _Content(
                place=place,
                name=f"perceiver {pair[0]!r} with experiencer {pair[1]!r}",
                intensity=study_intensities(responses),
                responses=responses,
                ids=None if key is None else tuple(own[key].str.strip()),
                emotions=tuple(own["emotion"].str.strip()) if "emotion" in own else None,
                prompts=_distances(own["place"].to_numpy()) if "idx" in own else None,
                not_read=not_read,
            ),
        )


def _side(path: Path, read: pd.DataFrame, side: str, dimension: str, begun: dict[str, str]) -> pd.Series:
    """Return each row's perceiver or experiencer: from a column, or from its fixed place in the prompt."""
    named = next((name for name in _SIDES[side] if name in read), None)
    if named is not None:
        terms = {text: _term(_words(text), dimension) for text in read[named].unique()}
        found = read[named].map(terms)
        if found.isna().any():
            row = int(np.argmax(found.isna()))
            raise ConfigError(
                f"{path}: row {row + 1}: {read[named].iloc[row]!r} is no {side} of {dimension}; identities of the "
                f"study: {', '.join(_listed_terms(dimension))}"
            )
        return found
    prompt = _PROMPTS[side]
    if prompt not in read:
        raise ConfigError(
            f"{path}: has neither a column {_SIDES[side][0]!r} nor {prompt!r}, so the {side} of each row is unknown; "
            "replace it with the study's file"
        )
    of_text: dict[str, str | None] = {}
    for text in read[prompt].unique():
        match = _terms(dimension).search(text)
        before = text[: match.start()] if match else None
        # The text before the identity is part of the prompt and the same in all rows; otherwise a narrative named it.
        of_text[text] = match[0] if match and begun.setdefault(side, str(before)) == before else None
    found = read[prompt].map(of_text)
    if found.isna().any():
        row = int(np.argmax(found.isna()))
        raise ConfigError(
            f"{path}: row {row + 1}{_more(found.isna().to_numpy())}: no {side} of {dimension} can be read in its "
            f"{prompt} {read[prompt].iloc[row][:80]!r}; identities of the study: {', '.join(_listed_terms(dimension))}"
        )
    return found


def _narratives_of(read: pd.DataFrame, experiencers: pd.Series) -> list[bytes]:
    """Return a hash of each row's prompt without the experiencer, for the narrative; empty without prompts."""
    if (prompt := _PROMPTS["experiencer"]) not in read:
        return [b""] * len(read)
    kept: dict[tuple[str, str], bytes] = {}
    for text, term in zip(read[prompt], experiencers, strict=True):
        if (text, term) not in kept:
            kept[text, term] = hashlib.sha256(text.replace(term, "", 1).encode("utf-8", "replace")).digest()[:8]
    return [kept[pair] for pair in zip(read[prompt], experiencers, strict=True)]


def _listed_terms(dimension: str) -> list[str]:
    return [identity.term for identity in _dimensions()[dimension].perceivers]
