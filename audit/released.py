"""The study's released result files become ratings tables: one small file a pair of identities, found by its name.

``processed_results/<dimension>_<variant>_<model>_<perceiver>_<experiencer>.tsv`` has one row a narrative and a column
``intensity``, which is −1 where there is no rating. How names spell identities is not known to us to the letter, so
they are read against the packaged wordings. Nothing is guessed: what does not add up ends in one line that names it.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.errors import EmptyDataError, ParserError

from audit.errors import ConfigError, StoreError
from audit.runs.outside import ABSENT, FloatArray, ratings_table
from audit.tables.ratings import Status
from audit.wording import plural
from stimuli.errors import suggest
from stimuli.files import read_file
from stimuli.identities import Dimension, Identity, load_dimensions
from stimuli.prompts import PUBLISHED_VARIANTS

STUDY: Final = "hou2025"
NO_RATING: Final = -1.0
"""What the study writes for a refusal, and for an answer without a number."""
N_STUDY: Final = 6_050
"""Narratives of the study."""
FULL_SCALE: Final = (0.0, 100.0)
_SCALES: Final = {"10-scale": (0.0, 10.0)}
_CALLED: Final = {
    "religion": ("religion",),
    "nationality": ("nationality", "country"),
    "race_ethnicity": ("race_ethnicity", "ethnicity", "race"),
}
"""What a dimension may be called in a file's name; its first word there is matched without regard to case."""
_UNSPECIFIED: Final = ("default", "unspecified")
"""What the unspecified identity may be called, beside its wording."""
_FROM: Final = "a person from "
_ARTICLES: Final = frozenset({"a", "an"})
"""Belong to the identity that follows; a model's name ends in one only where that identity has its own."""
_WORD: Final = re.compile(r"[^\s_\-]+")
_IDS: Final = ("text_id", "narrative_id")
_NAME: Final = "DIMENSION_VARIANT_MODEL_PERCEIVER_EXPERIENCER.tsv"
_PLACE: Final = "name the folder processed_results of the study's repository"
_RATED: Final = tuple(Status).index(Status.RATED)
_UNPARSEABLE: Final = tuple(Status).index(Status.UNPARSEABLE)


@dataclass(frozen=True)
class ReleasedFile:
    """One file, and what its name says: the ratings of one pair of identities in one model and variant."""

    path: Path
    dimension: str
    variant: str
    model: str
    perceiver: str
    experiencer: str


@dataclass(frozen=True)
class ReleasedRun:
    """All files of one model and variant: by dimension, the file of each pair, perceivers in rows.

    Attributes
    ----------
    model, variant
        As in the files' names.
    files
        Dimension → (perceiver, experiencer) → file; complete between identities, and with baselines all or none.
    """

    model: str
    variant: str
    files: Mapping[str, Mapping[tuple[str, str], Path]]

    @property
    def n_files(self) -> int:
        """How many files it has."""
        return sum(map(len, self.files.values()))


@dataclass(frozen=True, eq=False)
class ReleasedRatings:
    """The ratings of one run.

    Attributes
    ----------
    tables
        By dimension, columns of :data:`audit.tables.ratings.RATINGS`; ``prompt_index`` runs on over them.
    scale
        The two ends, in points.
    sha256
        Of names and bytes of the files.
    n_narratives
        Rows of each file.
    emotions
        That the rows have; ``not given`` alone where nobody tells.
    n_beyond
        Ratings beyond the variant's scale that were kept.
    not_read
        Columns that the files have beside those that are read.
    """

    tables: Mapping[str, pd.DataFrame]
    scale: tuple[float, float]
    sha256: str
    n_narratives: int
    emotions: tuple[str, ...]
    n_beyond: int
    not_read: tuple[str, ...]


# --- Names -----------------------------------------------------------------------------------------------------------


@cache
def _dimensions() -> dict[str, Dimension]:
    return {dimension.name: dimension for dimension in load_dimensions(STUDY)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text))


@cache
def _spellings(dimension: str) -> tuple[dict[tuple[str, ...], str], dict[tuple[str, ...], frozenset[str]]]:
    """Return the term that words stand for: to the letter, and without regard to case."""
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
    """Yield how a name may spell an identity: its wording, the same without its article, its place, its group."""
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
    """Read what the name of a result file says.

    Parameters
    ----------
    path
        The file; only its name is read. Words may be separated by blanks, ``_`` or ``-``.

    Raises
    ------
    ConfigError
        If the name has no dimension, variant, model, perceiver or experiencer of the study, or can be read in two ways;
        it names the part that was expected.
    """
    found = list(_WORD.finditer(path.stem))
    words = tuple(match[0] for match in found)
    dimension, start = _beginning(words, 0, {each: name for name, own in _CALLED.items() for each in own})
    if dimension is None:
        _refuse(path, f"it begins with no dimension; {suggest(words[0] if words else '', _called_all())}")
    variant, start = _beginning(words, start, {name: name for name in PUBLISHED_VARIANTS})
    if variant is None:
        spelt = ["-".join(words[start:end]) for end in range(start + 1, start + 4)]
        hints = [suggest(each, PUBLISHED_VARIANTS) for each in spelt]
        hint = next((hint for hint in hints if hint.startswith("did")), _listed(PUBLISHED_VARIANTS))
        _refuse(path, f"after {dimension} comes no variant; {hint}")
    readings = [
        (middle, perceiver, experiencer)
        for last, experiencer in _endings(words, len(words), start, dimension)
        for middle, perceiver in _endings(words, last, start, dimension)
        if middle > start and (words[middle - 1].casefold() not in _ARTICLES or words[middle].casefold() in _ARTICLES)
    ]
    if not readings:
        which = "experiencer" if not any(_endings(words, len(words), start, dimension)) else "model and perceiver"
        terms = [identity.term for identity in _dimensions()[dimension].perceivers]
        _refuse(path, f"no {which} of {dimension} can be read at its end; identities of the study: {', '.join(terms)}")
    shortest = min(middle for middle, *_ in readings)
    best = {reading[1:] for reading in readings if reading[0] == shortest}
    if len(best) > 1:
        pairs = " or ".join(f"{perceiver!r} and {experiencer!r}" for perceiver, experiencer in sorted(best))
        _refuse(path, f"its end can be read as {pairs}; rename it")
    [(perceiver, experiencer)] = best
    model = path.stem[found[start].start() : found[shortest - 1].end()]
    return ReleasedFile(path, dimension, variant, model, perceiver, experiencer)


def _beginning(words: tuple[str, ...], start: int, known: Mapping[str, str]) -> tuple[Any, int]:
    """Return what the words from ``start`` on begin with, the longest of what is known, and where it ends."""
    folded = tuple(word.casefold() for word in words)
    for spelt in sorted(known, key=lambda each: -len(_words(each))):
        own = _words(spelt)
        if folded[start : start + len(own)] == own:
            return known[spelt], start + len(own)
    return None, start


def _endings(words: tuple[str, ...], end: int, start: int, dimension: str) -> Iterator[tuple[int, str]]:
    """Yield the identities that the words before ``end`` can be, each with where it begins."""
    for first in range(start, end):
        term = _term(words[first:end], dimension)
        if term is not None:
            yield first, term


def _called_all() -> list[str]:
    return [each for own in _CALLED.values() for each in own]


def _listed(names: Iterable[str]) -> str:
    return f"there are: {', '.join(names)}"


def _refuse(path: Path, fault: str) -> Any:
    raise ConfigError(f"{path}: the name cannot be read as {_NAME}: {fault}")


# --- Folders ---------------------------------------------------------------------------------------------------------


def find_released(folder: Path) -> list[ReleasedRun]:
    """Find the result files of a folder, and check that none is missing.

    Parameters
    ----------
    folder
        With the files, or with ``processed_results`` in it. What is no ``.tsv`` is passed over.

    Returns
    -------
    list of ReleasedRun
        One for each model and variant; models by name, variants and dimensions in the study's order.

    Raises
    ------
    StoreError
        If the folder is none, or has no ``.tsv`` file.
    ConfigError
        If a name cannot be read, two files are of one pair, or a pair has no file: all pairs of a dimension's
        identities must be there, and those with the unspecified identity all or none.
    """
    if not os.path.isdir(folder):  # False too where it may not be looked at
        raise StoreError(f"{folder} is not a folder; {_PLACE}")
    inside = folder / "processed_results"
    paths = sorted(folder.glob("*.tsv")) or sorted(inside.glob("*.tsv"))
    if not paths:
        raise StoreError(f"{folder} has no .tsv file; {_PLACE}")
    runs: dict[tuple[str, str], dict[str, dict[tuple[str, str], Path]]] = {}
    for path in paths:
        file = parse_name(path)
        of_dimension = runs.setdefault((file.model, file.variant), {}).setdefault(file.dimension, {})
        pair = file.perceiver, file.experiencer
        if pair in of_dimension:
            raise ConfigError(
                f"{of_dimension[pair].name} and {path.name} are both of perceiver {pair[0]!r} and experiencer "
                f"{pair[1]!r}; keep one in {path.parent}"
            )
        of_dimension[pair] = path
    ordered = []
    for model, variant in sorted(runs, key=lambda key: (key[0], PUBLISHED_VARIANTS.index(key[1]))):
        own = runs[model, variant]
        files = {name: _in_order(own[name], name, model, variant) for name in _dimensions() if name in own}
        ordered.append(ReleasedRun(model, variant, files))
    return ordered


def _in_order(
    files: Mapping[tuple[str, str], Path], dimension: str, model: str, variant: str
) -> dict[tuple[str, str], Path]:
    """Return the files perceiver by perceiver; ConfigError if a pair has none."""
    known = _dimensions()[dimension]
    with_baselines = any(is_baseline(dimension, *pair) for pair in files)
    wanted = [
        (perceiver.term, experiencer.term)
        for perceiver, experiencer in known.pairs()
        if with_baselines or not (perceiver.is_baseline or experiencer.is_baseline)
    ]
    missing = [pair for pair in wanted if pair not in files]
    if missing and all(is_baseline(dimension, *pair) for pair in missing):
        there = [path.name for pair, path in files.items() if is_baseline(dimension, *pair)]
        some, them = (
            (f"are there, {there[0]} and others", "them") if len(there) > 1 else (f"is there, {there[0]}", "it")
        )
        raise ConfigError(
            f"{dimension}, {variant}, {model}: {len(there):,} of the {len(there) + len(missing):,} files with the "
            f"unspecified identity {some}; take {them} away, or add the other {len(missing):,}, the first that of "
            f"perceiver {missing[0][0]!r} and experiencer {missing[0][1]!r}"
        )
    if missing:
        (perceiver, experiencer), be = missing[0], "is" if len(missing) == 1 else "are"
        raise ConfigError(
            f"{dimension}, {variant}, {model}: {len(missing):,} of {plural(len(wanted), 'file')} {be} missing, the "
            f"first that of perceiver {perceiver!r} and experiencer {experiencer!r}, beside "
            f"{next(iter(files.values()))}; add them, or take the files of {dimension} of this model and variant away"
        )
    return {pair: files[pair] for pair in wanted}


def is_baseline(dimension: str, perceiver: str, experiencer: str) -> bool:
    """Say whether one of the pair is the unspecified identity of the dimension."""
    terms = {identity.term for identity in _dimensions()[dimension].perceivers if identity.is_baseline}
    return perceiver in terms or experiencer in terms


def clusters_of(run: ReleasedRun) -> dict[str, dict[str, str]]:
    """Return the cultural cluster of each group, of the dimensions that have clusters."""
    return {name: dict(_dimensions()[name].clusters) for name in run.files if _dimensions()[name].clusters}


# --- What is in them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Content:
    intensity: FloatArray
    ids: tuple[str, ...] | None
    emotions: tuple[str, ...] | None
    not_read: tuple[str, ...]


def read_released(
    run: ReleasedRun,
    *,
    emotion_of: Mapping[str, str] | None = None,
    keep_beyond: bool = False,
    done: Callable[[int], None] = lambda n: None,
) -> ReleasedRatings:
    """Read all files of a run, and check them.

    Parameters
    ----------
    run
        The files.
    emotion_of
        By ``text_id``, the emotion of each narrative; None takes the files' own column ``emotion``, if they have one.
    keep_beyond
        Whether ratings of up to 100 of the variant 10-scale are kept, as the study's parser took them. They lie beyond
        the scale, and the run's report counts them.
    done
        Is told how many files more were read.

    Raises
    ------
    StoreError
        If a file cannot be read.
    ConfigError
        If a file has no column ``intensity`` or has it twice, another number of rows than the others, other narratives
        or emotions in its rows, or an intensity that is neither −1 nor a number of the scale; or ``emotion_of`` cannot
        be used.
    """
    digest = hashlib.sha256()
    scale = _SCALES.get(run.variant, FULL_SCALE)
    first: tuple[Path, _Content] | None = None
    tables: dict[str, pd.DataFrame] = {}
    n_beyond, n_rows, names = 0, 0, tuple[str, ...]()
    emotions: tuple[str, ...] | None = None
    labels: dict[str, Any] = {}
    for dimension, files in run.files.items():
        intensities: list[FloatArray] = []
        for path in files.values():
            content = _read(path, digest)
            if first is None:
                first = path, content
                n_rows = len(content.intensity)
                names = content.ids or tuple(str(row) for row in range(1, n_rows + 1))
                _check_names(path, names)
                emotions = content.emotions if emotion_of is None else _emotions(path, content, emotion_of)
            else:
                _check_alike(path, content, *first)
            n_beyond += _check_scale(path, content.intensity, scale, variant=run.variant, keep_beyond=keep_beyond)
            intensities.append(content.intensity)
            done(1)
        labels = _labels(run.variant, dimension, list(files), names, emotions)
        tables[dimension] = _table(labels, list(files), intensities, dimension, sum(map(len, tables.values())))
    assert first is not None
    return ReleasedRatings(
        tables=tables,
        scale=scale,
        sha256=digest.hexdigest(),
        n_narratives=n_rows,
        emotions=tuple(map(str, labels["emotion"].categories)),
        n_beyond=n_beyond,
        not_read=first[1].not_read,
    )


def _bytes(path: Path, digest: Any) -> bytes:
    try:
        content = read_file(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror or error})") from error
    digest.update(f"{path.name}\n{len(content)}\n".encode("utf-8", "replace") + content)
    return content


def _read(path: Path, digest: Any) -> _Content:
    """Read the columns of a file that we know."""
    content = _bytes(path, digest)
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise ConfigError(f"{path}: the file is empty; put the study's file in its place")
    try:
        head = [name.strip().casefold() for name in content.split(b"\n", 1)[0].decode("utf-8-sig").split("\t")]
        head = [name.strip('"') for name in head]
        for name in ("intensity", "emotion", *_IDS):
            if head.count(name) > 1:
                raise ConfigError(f"{path}: {head.count(name)} columns are called {name!r}; keep one")
        if "intensity" not in head:
            hint = "; separate the cells by tabs" if len(head) == 1 and head[0] else ""
            raise ConfigError(f"{path}: no column 'intensity'; {suggest('intensity', filter(None, head))}{hint}")
        places = {head.index(name): name for name in ("intensity", "emotion", *_IDS) if name in head}
        read = pd.read_csv(
            io.BytesIO(content), sep="\t", header=0, names=list(range(len(head))), usecols=list(places), dtype=str,
            keep_default_na=False, index_col=False, encoding="utf-8-sig",
        ).rename(columns=places)  # fmt: skip
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} is not UTF-8 ({error.reason}); write it anew as UTF-8") from error
    except (ParserError, EmptyDataError, ValueError) as error:
        raise StoreError(f"{path} cannot be read as TSV ({' '.join(str(error).split())})") from error
    if read.empty:
        raise ConfigError(f"{path}: has columns but no rows")
    key = next((name for name in _IDS if name in read), None)
    return _Content(
        intensity=_intensities(path, read["intensity"]),
        ids=None if key is None else tuple(read[key].str.strip()),
        emotions=tuple(read["emotion"].str.strip()) if "emotion" in read else None,
        not_read=tuple(name for place, name in enumerate(head) if place not in places and name),
    )


def _intensities(path: Path, column: pd.Series) -> FloatArray:
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(
            f"{path}: row {row + 1}{_more(wrong)}: the intensity {column.iloc[row]!r} is no number; write -1 where "
            "there is no rating"
        )
    return values


def _more(wrong: Any) -> str:
    n_more = int(np.count_nonzero(wrong)) - 1
    return f" (and {n_more:,} more)" if n_more else ""


def _check_scale(
    path: Path, intensity: FloatArray, scale: tuple[float, float], *, variant: str, keep_beyond: bool
) -> int:
    """Make −1 missing, in place; return how many ratings beyond the scale are kept."""
    intensity[intensity == NO_RATING] = np.nan
    beyond = (intensity < scale[0]) | (intensity > scale[1])
    if not beyond.any():
        return 0
    off = (intensity < FULL_SCALE[0]) | (intensity > FULL_SCALE[1])
    if keep_beyond and not off.any():
        return int(beyond.sum())
    row = int(np.argmax(off if keep_beyond else beyond))
    remedy = "mend the file: a rating is on the scale, or -1 where there is none"
    if scale != FULL_SCALE and not off.any():
        remedy = "the study's parser took answers of up to 100 there; beyond=keep takes them too"
    raise ConfigError(
        f"{path}: row {row + 1}{_more(off if keep_beyond else beyond)}: the intensity {intensity[row]:g} is beyond the "
        f"scale of {variant}, {scale[0]:g} to {scale[1]:g}; {remedy}"
    )


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) == len(names) and all(names):
        return
    row = next(place for place, name in enumerate(names) if not name or name in names[:place])
    fault = f"narrative {names[row]!r} stands twice" if names[row] else "the narrative's identifier is empty"
    raise ConfigError(f"{path}: row {row + 1}: {fault}; give each row one of its own")


def _check_alike(path: Path, content: _Content, first_path: Path, first: _Content) -> None:
    """Refuse a file whose rows are not those of the first one."""
    n_rows, n_first = len(content.intensity), len(first.intensity)
    if n_rows != n_first:
        raise ConfigError(
            f"{path}: has {plural(n_rows, 'row')}, and {first_path.name} has {n_first:,}; all files of a model and "
            "variant have one row a narrative, in one order"
        )
    for what, own, other in (("narrative", content.ids, first.ids), ("emotion", content.emotions, first.emotions)):
        if (own is None) != (other is None):
            with_it, without = (path, first_path) if other is None else (first_path, path)
            raise ConfigError(
                f"{without}: has no column for the {what}, and {with_it.name} has; give it to all files or to none"
            )
        if own is not None and other is not None and own != other:
            row = next(place for place, (one, two) in enumerate(zip(own, other, strict=True)) if one != two)
            raise ConfigError(
                f"{path}: row {row + 1} is of {what} {own[row]!r}, and of {other[row]!r} in {first_path.name}; bring "
                "the rows into one order"
            )


def _emotions(path: Path, content: _Content, emotion_of: Mapping[str, str]) -> tuple[str, ...]:
    if content.ids is None:
        raise ConfigError(
            f"narratives= cannot be used: {path.name} has no column text_id, and in which order the study put the "
            "twelve files of narratives is not known; leave narratives= out"
        )
    unknown = next((name for name in content.ids if name not in emotion_of), None)
    if unknown is not None:
        raise ConfigError(
            f"{path}: text_id {unknown!r} is in no file of narratives=; name a folder that has all twelve of them"
        )
    return tuple(emotion_of[name] for name in content.ids)


# --- The table -------------------------------------------------------------------------------------------------------


def _labels(
    variant: str, dimension: str, pairs: Sequence[tuple[str, str]], names: Sequence[str], emotions: Sequence[str] | None
) -> dict[str, Any]:
    """Label the rows, pair by pair and within each narrative by narrative."""
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
    pairs: Sequence[tuple[str, str]],
    intensities: Sequence[FloatArray],
    dimension: str,
    start: int,
) -> pd.DataFrame:
    group_of = {identity.term: identity.group for identity in _dimensions()[dimension].perceivers}
    groups = list(dict.fromkeys(group_of.values()))
    n_rows = len(intensities[0])
    sides = [np.repeat([groups.index(group_of[pair[side]]) for pair in pairs], n_rows) for side in (0, 1)]
    intensity = np.concatenate(intensities)
    status = np.where(np.isnan(intensity), _UNPARSEABLE, _RATED).astype(np.int8)
    return ratings_table(labels, sides, groups, intensity=intensity, status=status, first=start)
