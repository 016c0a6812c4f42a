"""Where narratives come from: the packaged Geneva situations, the crowd-enVENT study, or a user's own file.

Every source becomes the same thing: a tuple of :class:`Narrative`, each in up to three wordings.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from stimuli.emotion_names import EmotionWords as EmotionWords
from stimuli.emotion_names import complete
from stimuli.emotion_names import emotion_words as emotion_words
from stimuli.errors import Faults, StimulusError, suggest
from stimuli.person import PLACE, article_before, has_place, in_first_person, placed
from stimuli.tables import check_unique, read_cells
from stimuli.words import words_alone
from stimuli.yaml_files import read_yaml

WORDINGS: Final = ("neutral", "first_person", "third_person")
"""The wordings a narrative may have. ``neutral`` is what the writer tells: for crowd-enVENT ``generated_text``, for the
packaged situations the first person."""

_DATA: Final = Path(__file__).parent / "data"
GENEVA_FILE: Final = _DATA / "geneva_narratives.csv"
GENEVA20_FILE: Final = _DATA / "geneva20_narratives.csv"
_WORDS: Final = ("emotion_noun", "emotion_adjective")
VALENCES: Final = ("positive", "negative", "neutral")
_NO_VALUE: Final = frozenset({"na", "n/a", "#n/a", "nan", "null"})
"""What R, pandas, spreadsheets and data banks write where there is no value."""
_SHOWN: Final = 50  # letters of a text that a message shows
_PLACES: Final = 50  # rows that a message names beside the first
LATER_TURNS: Final = tuple(f"turn_{number}" for number in range(2, 17))
"""What the person says after a narrative, message by message: placeholders of strategies, and our names of columns."""
INTENSITIES: Final = ("mild", "middle", "strong")  # the intensities that each situation of `geneva20` is written in
HOU2025_COUNTS: Final = {
    "anger": 550, "disgust": 550, "fear": 550, "sadness": 550, "boredom": 550, "joy": 550, "pride": 550,
    "trust": 550, "relief": 550, "surprise": 550, "guilt": 275, "shame": 275,
}  # fmt: skip
_HOU2025_COLUMNS: Final = {
    "narrative_id": "text_id",
    "emotion": "emotion",
    "neutral": "generated_text",
    "first_person": "first_person_text",
    "third_person": "third_person_text",
}
_HOU2025_ORIGIN: Final = (
    "the files come with the released code of Hou, Daumé III and Rudinger (2025), arXiv:2503.01030; set "
    "stimuli.path to the folder with the files"
)


@cache
def emotion_valence() -> dict[str, str]:
    """Return the packaged emotions' valence, positive, negative or neutral, by the emotion's name.

    Examples
    --------
    >>> emotion_valence()["sad"], emotion_valence()["happy"]
    ('negative', 'positive')
    """
    return {name: body["valence"] for name, body in read_yaml(_DATA / "emotions.yaml").items()}


@dataclass(frozen=True, slots=True)
class Narrative:
    """One situation in which somebody felt an emotion; a wording that the source lacks is empty."""

    narrative_id: str
    emotion: str
    words: EmotionWords
    neutral: str
    first_person: str
    third_person: str
    situation: str = ""  # what narratives of one event in several intensities share
    intensity: str = ""  # which of INTENSITIES it was written for
    later: tuple[str, ...] = ()  # what the person says after it, message by message
    # What was answered before each of `later`, to be shown as the model's; empty if the model answers itself.
    answered: tuple[str, ...] = ()
    identity: str = ""  # whose story it is, a group or a term: it is asked about with this experiencer alone
    valence: str = ""  # of the emotion, one of VALENCES, if a user's file gives it; else empty

    def wording(self, name: str, *, experiencer: str = "the person") -> str:
        """Return the text in one of :data:`WORDINGS`, with these words in the experiencer's place, if it has one."""
        return placed(str(getattr(self, name)), experiencer)


@dataclass(frozen=True)
class Narratives:
    """The narratives of a run and where they came from."""

    source: str  # geneva, hou2025, csv or conversations
    narratives: tuple[Narrative, ...]  # in the order of their file
    n_available: int  # in the source for the emotions asked, of which narratives may be a subset
    sha256: str  # of the texts, identifiers and emotion words, in their order
    said: tuple[str, ...] = ()  # what was taken for words of emotions that a user's file lacks: a line each
    # what else the source holds, in the order of its file; no part of the run, and not kept with it
    others: tuple[Narrative, ...] = field(default=(), repr=False, compare=False)
    n_not_asked: int = 0  # utterances that have an emotion and are only shown, since they are marks alone
    n_short: int = 0  # conversations that are left out, since the person says less than the strategy shows

    @property
    def remark(self) -> str:
        """What to know of the words that were taken for emotions, and how to give others; empty if there were none."""
        if not self.said:
            return ""
        return (
            f"your file gives no words for these emotions, so these are used: {'; '.join(self.said)}. To use "
            "others, add the columns emotion_noun and emotion_adjective; one row per emotion is enough"
        )

    @property
    def emotions(self) -> tuple[str, ...]:
        """The emotions, in the order of the narratives."""
        return tuple(dict.fromkeys(n.emotion for n in self.narratives))

    @property
    def valence(self) -> dict[str, str]:
        """The valence of the emotions of which a user's file gives it, also of those that are not asked about."""
        return {each.emotion: each.valence for each in (*self.narratives, *self.others) if each.valence}

    @property
    def by_emotion(self) -> tuple[Narrative, ...]:
        """The narratives of each emotion together, as they are asked about."""
        rank = {emotion: place for place, emotion in enumerate(self.emotions)}
        return tuple(sorted(self.narratives, key=lambda n: rank[n.emotion]))

    def check_wording(self, wording: str, *, asked_by: str) -> None:
        """Raise StimulusError if any narrative lacks the wording that a prompt variant shows."""
        lacking = [n.narrative_id for n in self.narratives if not n.wording(wording)]
        if lacking:
            raise StimulusError(
                f"{asked_by} shows the {wording} wording, which {len(lacking)} of {len(self.narratives)} narratives "
                f"lack (first: {lacking[0]!r}); set stimuli.columns.{wording} or choose another prompt"
            )


def load_narratives(
    source: str,
    *,
    path: Path | None = None,
    columns: Mapping[str, str | Sequence[str] | None] | None = None,
    emotions: Sequence[str] | None = None,
    situations_per_emotion: int | None = None,
    seed: int = 0,
    intensity: str = "rotate",
    shown: str | None = None,
    third_person_fits: bool = True,
    missing: Sequence[str] = (),
) -> Narratives:
    """Return the narratives of a source, or an emotion-stratified random subset of them.

    ``source`` is ``geneva`` or ``geneva20`` (packaged), ``hou2025`` (the folder with the study's TSV files) or ``csv``
    (a user's file). ``columns`` has the file's column for each of ``narrative_id emotion neutral first_person
    third_person emotion_noun emotion_adjective valence``; None where the file has none. Several columns may make an
    identifier.
    ``turns`` has the columns of what the person says later, in order, and ``identity`` the one of whose story it is.
    ``emotion_noun``, ``emotion_adjective`` and ``valence`` are
    also taken from columns of these names, and from one row of an emotion for its others; see
    :func:`stimuli.emotion_names.words_of_emotion` for the words that are taken where there are none.

    ``situations_per_emotion`` are drawn without replacement, each emotion from its own random stream, so that leaving
    out an emotion changes no other's draw; where stories have an ``identity``, so many of each. ``intensity`` is of
    ``geneva20``: ``mild``, ``middle`` or ``strong``, or ``rotate``: each situation in one of them, every third of an
    emotion's situations in the same. Never in several, since versions of one event are no independent narratives.

    ``shown`` is the wording of a user's file that prompts show, whose texts are checked: told by the experiencer or, in
    the third person, with a place for them; see :mod:`stimuli.person`. Packaged texts are so by their tests, and those
    of the study by its own columns. ``third_person_fits`` says whether ``prompt=3-person`` is a remedy where such a
    text is refused. ``missing`` is what stands for an empty cell.

    StimulusError for what a user can mend: also a cell that stands for no value, an emotion that is spelt in two ways,
    two rows that tell the same, and a text of nobody whom a prompt could name.

    Examples
    --------
    >>> drawn = load_narratives("geneva", emotions=["sad", "happy"], situations_per_emotion=1)
    >>> sorted(drawn.emotions), len(drawn.narratives)
    (['happy', 'sad'], 2)
    >>> drawn.n_available  # 34 situations for each of the two emotions
    68
    """
    if emotions is not None and not emotions:
        raise StimulusError("stimuli.emotions is empty; give at least one emotion, or null for all")
    said: Mapping[str, str] = {}
    match source:
        case "geneva" | "geneva20" if path is not None:
            raise StimulusError(
                f"stimuli.path={path}: the {source} narratives are packaged; to read a file, use stimuli=csv"
            )
        case "geneva20":
            rows = in_intensity(geneva20_versions(), intensity)
        case "geneva":
            read = _read_table(GENEVA_FILE, {c: c for c in ("narrative_id", "emotion", *WORDINGS[1:])})
            rows = [replace(row, neutral=row.first_person) for row in read]
        case "hou2025":
            rows = _read_hou2025(path, emotions)
        case "csv":
            rows, said = _read_csv(path, columns or {}, missing, shown, third_person_fits)
        case _:
            raise StimulusError(
                f"stimuli.source={source!r}: {suggest(source, ('geneva', 'geneva20', 'hou2025', 'csv'))}"
            )
    chosen = choose_narratives(source, rows, emotions=emotions, per_emotion=situations_per_emotion, seed=seed)
    return replace(chosen, said=tuple(said[emotion] for emotion in chosen.emotions if emotion in said))


def geneva20_versions() -> list[Narrative]:
    """Return every situation of ``geneva20`` in each of its intensities."""
    wanted = ("narrative_id", "emotion", "situation", "intensity", *WORDINGS[1:])
    return [replace(row, neutral=row.first_person) for row in _read_table(GENEVA20_FILE, {c: c for c in wanted})]


@cache
def supposed(source: str) -> Mapping[str, frozenset[str]]:
    """Return what each situation of a packaged source supposes of the person, by its identifier.

    A situation in which a person's baby has a fever supposes "a small child". Other sources say nothing: they have no
    entry.

    Examples
    --------
    >>> sorted(supposed("geneva")["worried-17"]), sorted(supposed("geneva")["surprised-01"])
    (['a small child'], [])
    >>> supposed("csv")
    {}
    """
    path = {"geneva": GENEVA_FILE, "geneva20": GENEVA20_FILE}.get(source)
    if path is None:
        return {}
    columns = {name: name for name in ("narrative_id", "supposes")}
    read = read_cells(path, columns, of="narratives", may_be_empty=["supposes"])
    return {cells["narrative_id"]: frozenset(filter(None, cells["supposes"].split("; "))) for _, cells in read}


@cache
def supposed_of_any() -> frozenset[str]:
    """Return all that packaged situations suppose."""
    return frozenset().union(*supposed("geneva").values(), *supposed("geneva20").values())


def in_intensity(versions: Sequence[Narrative], intensity: str) -> list[Narrative]:
    """Return each situation in one of its intensities; see :func:`load_narratives`.

    Examples
    --------
    >>> versions = geneva20_versions()
    >>> mild = in_intensity(versions, "mild")
    >>> len(versions) == 3 * len(mild)  # each situation is written in three intensities
    True
    >>> {each.intensity for each in mild}
    {'mild'}
    """
    if intensity != "rotate" and intensity not in INTENSITIES:
        raise StimulusError(f"stimuli.intensity={intensity!r}: {suggest(intensity, ('rotate', *INTENSITIES))}")
    place: dict[str, dict[str, int]] = {}
    for row in versions:
        own = place.setdefault(row.emotion, {})
        own.setdefault(row.situation, len(own))
    return [
        row
        for row in versions
        if row.intensity == (INTENSITIES[place[row.emotion][row.situation] % 3] if intensity == "rotate" else intensity)
    ]


def choose_narratives(
    source: str, rows: Sequence[Narrative], *, emotions: Sequence[str] | None, per_emotion: int | None, seed: int
) -> Narratives:
    """Return the narratives of some emotions, or a random subset of each; see :func:`load_narratives`."""
    if emotions is not None:
        known = {r.emotion for r in rows}
        for emotion in emotions:
            if emotion not in known:
                raise StimulusError(f"stimuli.emotions: {source} has no {emotion!r}; {suggest(emotion, known)}")
    wanted = [r for r in rows if emotions is None or r.emotion in emotions]
    chosen = wanted if per_emotion is None else _sample(wanted, per_emotion, seed)
    taken = {r.narrative_id for r in chosen}
    others = tuple(r for r in rows if r.narrative_id not in taken)
    return Narratives(source, tuple(chosen), len(wanted), hash_of(chosen), others=others)


def hash_of(narratives: Iterable[Narrative]) -> str:
    """Return the SHA-256 of narratives' texts, identifiers, emotion words and given valence, in their order."""
    digest = hashlib.sha256()
    for n in narratives:
        texts = (n.neutral, n.first_person, n.third_person)
        later = (n.later, n.answered) if n.later else ()
        bound = (n.identity,) if n.identity else ()
        given = ({"valence": n.valence},) if n.valence else ()  # another one makes other prompts of the story check
        parts = (n.narrative_id, n.emotion, n.words.noun, n.words.adjective, *texts, *later, *bound, *given)
        digest.update(json.dumps(parts).encode() + b"\n")
    return digest.hexdigest()


def _sample(rows: Sequence[Narrative], per_emotion: int, seed: int) -> list[Narrative]:
    if per_emotion < 1:
        raise StimulusError(f"stimuli.situations_per_emotion={per_emotion} must be at least 1")
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        of = f"{row.emotion} of {row.identity}" if row.identity else row.emotion
        places.setdefault(of, []).append(place)
    kept: list[int] = []
    for emotion, available in places.items():
        if per_emotion > len(available):
            raise StimulusError(
                f"stimuli.situations_per_emotion={per_emotion}, but {emotion} has {len(available)}; "
                f"ask for at most {min(map(len, places.values()))}, or for all (stimuli.situations_per_emotion=all)"
            )
        rng = np.random.default_rng([seed, zlib.crc32(emotion.encode())])
        kept.extend(rng.choice(available, size=per_emotion, replace=False).tolist())
    return [rows[place] for place in sorted(kept)]


def _read_hou2025(path: Path | None, emotions: Sequence[str] | None) -> list[Narrative]:
    if path is None:
        raise StimulusError(f"stimuli=hou2025 needs stimuli.path; {_HOU2025_ORIGIN}")
    if not os.path.isdir(path):  # False too where it may not be looked at
        raise StimulusError(f"stimuli.path={path} is not a folder; {_HOU2025_ORIGIN}")
    for emotion in emotions or ():
        if emotion not in HOU2025_COUNTS:
            raise StimulusError(f"stimuli.emotions: hou2025 has no {emotion!r}; {suggest(emotion, HOU2025_COUNTS)}")
    wanted = [e for e in HOU2025_COUNTS if emotions is None or e in emotions]
    files = {e: path / f"crowd-enVent_{e}.tsv" for e in wanted}
    present = [e for e, file in files.items() if file.is_file()]
    missing = [files[e].name for e in wanted if e not in present]
    if missing:
        subset = f"; to use the files you have: stimuli.emotions=[{','.join(present)}]" if present else ""
        raise StimulusError(
            f"stimuli.path={path}: {len(missing)} of {len(wanted)} files are missing: {', '.join(missing)}; "
            f"{_HOU2025_ORIGIN}{subset}"
        )
    rows: list[Narrative] = []
    for emotion, file in files.items():
        read = _read_table(file, _HOU2025_COLUMNS, delimiter="\t")
        for row in read:
            if row.emotion != emotion:
                raise StimulusError(
                    f"{file}: text_id {row.narrative_id!r} says emotion {row.emotion!r}, not {emotion!r}"
                )
        rows.extend(read)
    _check_unique(rows, str(path))
    return rows


def _read_csv(
    path: Path | None,
    columns: Mapping[str, str | Sequence[str] | None],
    missing: Sequence[str],
    shown: str | None,
    third_person_fits: bool,
) -> tuple[list[Narrative], Mapping[str, str]]:
    """Return a file's narratives, and by emotion what was taken for words that it does not give."""
    if path is None:
        raise StimulusError("stimuli=csv needs stimuli.path, a CSV file or spreadsheet with named columns")
    named = {ours: theirs for ours, theirs in columns.items() if theirs is not None}
    for ours in ("narrative_id", "emotion"):
        if ours not in named:
            raise StimulusError(f"stimuli.columns.{ours} must name a column of {path}")
    turns = named.pop("turns", ())
    if len(turns) > len(LATER_TURNS):
        raise StimulusError(f"stimuli.columns.turns names {len(turns)} columns; name at most {len(LATER_TURNS)}")
    named |= dict(zip(LATER_TURNS, turns, strict=False))
    if not any(wording in named for wording in WORDINGS):
        raise StimulusError(f"stimuli.columns must name a column for at least one of {', '.join(WORDINGS)}")
    read = read_cells(
        path,
        named,
        of="narratives",
        may_be_empty=(*_WORDS, "valence"),
        may_be_missing=[name for name in (*_WORDS, "valence") if name not in named],
        missing=missing,
        key=_column_key,
    )
    _check_own(read, path, named)
    valence = _valence(read, path, named.get("valence"))
    if shown in named:
        column = named[shown]
        _check_told(read, shown, column if isinstance(column, str) else ", ".join(column), third_person_fits)
    cells = [row for _, row in read]
    words, said = complete(
        [(row["emotion"], row["emotion_noun"], row["emotion_adjective"]) for row in cells], place=path
    )
    rows = [
        _narrative(row | {"valence": valence.get(row["emotion"], "")}, own)
        for row, own in zip(cells, words, strict=True)
    ]
    _check_unique(rows, str(path))
    return rows, said


def _column_key(ours: str, theirs: str) -> str:
    """Return the option that names a column of a file, as it is typed in a shell."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w-]*", theirs, re.ASCII) and theirs.casefold() not in ("null", "true", "false")
    named = theirs if is_plain else '"' + theirs.replace('"', '\\"') + '"'
    return shlex.quote(f"stimuli.columns.{ours}={named}")


def _check_own(
    read: Sequence[tuple[str, Mapping[str, str]]], path: Path, named: Mapping[str, str | Sequence[str]]
) -> None:
    """Refuse what nobody meant a model to see: no value, two spellings of one emotion, a row given twice."""
    faults = Faults(str(path))
    spelt: dict[str, tuple[str, str]] = {}
    told: dict[tuple[str, ...], str] = {}
    for place, cells in read:
        for name in ("emotion", *WORDINGS, *_WORDS, *LATER_TURNS):
            cell = cells.get(name, "")
            if cell.casefold() in _NO_VALUE:
                faults.add(
                    place,
                    f"{cell!r} in column {named.get(name, name)!r} means no value; fill the cell, or leave the row out",
                )
            if cell and not any(map(str.isalpha if name in ("emotion", *_WORDS) else str.isalnum, cell)):
                faults.add(
                    place,
                    f"{cell!r} in column {named.get(name, name)!r} has no letter; write it in words, or leave the row "
                    "out",
                )
        emotion = cells["emotion"]
        same = _spelling(emotion)
        first, where = spelt.setdefault(same, (emotion, place))
        if emotion != first:
            earlier = where.removeprefix(f"{path}: ")
            faults.add(place, f"the emotion {emotion!r} is {first!r} on {earlier}; write it one way")
        # A text with another full stop is asked about once more, and makes every interval too narrow.
        texts = (same, *(words_alone(cell) or cell for cell in (cells.get(name, "") for name in WORDINGS)))
        twin = told.setdefault(texts, cells["narrative_id"])
        if twin != cells["narrative_id"]:
            faults.add(
                place, f"narrative {cells['narrative_id']!r} has the text and the emotion of {twin!r}; keep one of them"
            )
    faults.check()


def _valence(
    read: Sequence[tuple[str, Mapping[str, str]]], path: Path, stated: str | Sequence[str] | None
) -> dict[str, str]:
    """Return the valence of the emotions of which a file gives it; StimulusError if it is none, or rows differ.

    A column of numbers that merely has this name, such as raters' scores of a text, is not taken for it.
    """
    given = [cells["valence"] for _, cells in read if cells["valence"]]
    if stated is None and not any(any(map(str.isalpha, cell)) for cell in given):
        return {}
    column = stated or "valence"
    faults = Faults(str(path))
    valence: dict[str, str] = {}
    for place, cells in read:
        cell, emotion = cells["valence"], cells["emotion"]
        if not cell:
            continue
        if cell not in VALENCES:
            faults.add(place, f"{cell!r} in column {column!r} is no valence; {suggest(cell, VALENCES)}")
        elif valence.setdefault(emotion, cell) != cell:
            faults.add(
                place,
                f"the emotion {emotion!r} is {cell}, but {valence[emotion]} before; give it one valence",
            )
    faults.check()
    return valence


def _check_told(
    read: Sequence[tuple[str, Mapping[str, str]]], shown: str, column: str, third_person_fits: bool
) -> None:
    """Refuse texts that are neither told by the experiencer nor have a place for them; see :mod:`stimuli.person`."""
    faults = [(place, cells[shown], fault) for place, cells in read if (fault := _fault_of(cells[shown], shown))]
    if not faults:
        return
    place, text, fault = faults[0]
    others = f" (and {len(faults) - 1} more of {len(read)} rows)" if len(faults) > 1 else ""
    by = f"prompt=3-person {_column_key('third_person', column)}"
    told = "write it as that person tells it (I, my, we)"
    where = f"{place}{others}: {_beginning(text)!r}"
    more = _others(faults[1:])
    if fault == "article":
        raise StimulusError(
            f"{where} has {article_before(text)!r}; remove the article: the words that replace {{experiencer}} "
            f"have their own{more}"
        )
    if fault == "no place":
        raise StimulusError(
            f"{where} is in the third person, but does not name the experiencer; write {{experiencer}} for the "
            f"person, as in '{{experiencer}} opened a letter'{more}"
        )
    if fault == "third":
        raise StimulusError(
            f"{where} has {{experiencer}}, but the prompt shows it as what the experiencer tells; "
            f"{f'ask such texts by {by}' if third_person_fits else told}{more}"
        )
    placed_there = f"; or write {{experiencer}} for the person, and add {by}" if third_person_fits else ""
    raise StimulusError(
        f"{where} is not in the first person (it has no I, my, we or the like; what is in quotation marks, or "
        "after a colon or a dash, does not count), but the prompt shows it as what the experiencer tells; "
        f"{told}{placed_there}; if you have checked that this person tells every row, as in notes without I: "
        f"stimuli.check_person=false{more}"
    )


def _others(faults: Sequence[tuple[str, str, str]]) -> str:
    """Return where more rows have a fault, so that a user can look at each of them."""
    if not faults:
        return ""
    places = [place.rpartition(": ")[2] for place, _, _ in faults[:_PLACES]]
    return f"; the others: {', '.join([*places, *(['...'] if len(faults) > _PLACES else [])])}"


def _fault_of(text: str, shown: str) -> str:
    """Return what keeps a text from being of the experiencer whom prompts name; nothing if nothing does."""
    if article_before(text):
        return "article"
    if shown == "third_person":
        return "" if has_place(text) else "no place"
    if PLACE.search(text):
        return "third"
    return "" if in_first_person(text) else "nobody"


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _spelling(emotion: str) -> str:
    """Return an emotion's name without what nobody would tell two emotions by: capitals, spaces, invisible signs."""
    seen = "".join(c for c in unicodedata.normalize("NFKC", emotion) if unicodedata.category(c) != "Cf")
    return " ".join(seen.casefold().split())


def _read_table(path: Path, columns: Mapping[str, str], *, delimiter: str | None = None) -> list[Narrative]:
    """Read a packaged or published file; ``columns`` maps our names to the file's."""
    rows = [
        _narrative(cells, emotion_words().get(cells["emotion"], EmotionWords("", "")))
        for _, cells in read_cells(path, columns, of="narratives", delimiter=delimiter)
    ]
    _check_unique(rows, str(path))
    return rows


def _narrative(cells: Mapping[str, str], words: EmotionWords) -> Narrative:
    return Narrative(
        narrative_id=cells["narrative_id"],
        emotion=cells["emotion"],
        words=words,
        neutral=cells.get("neutral", ""),
        first_person=cells.get("first_person", ""),
        third_person=cells.get("third_person", ""),
        situation=cells.get("situation", ""),
        intensity=cells.get("intensity", ""),
        later=tuple(cells[name] for name in LATER_TURNS if name in cells),
        identity=cells.get("identity", ""),
        valence=cells.get("valence", ""),
    )


def _check_unique(rows: Iterable[Narrative], place: str) -> None:
    check_unique((row.narrative_id for row in rows), of="narrative", place=place)
