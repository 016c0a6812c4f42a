"""Writes the files that raters fill in, and reads scores back from them; a missing answer is never taken as 0."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pandas as pd

from audit.errors import ConfigError
from audit.people.items import KEY, ItemSample
from audit.people.questions import Asked, OptionQuestion, Questions
from audit.tables.formatting import brief, either, plural, printable
from audit.tables.spreadsheets import FORMULA, seen
from stimuli.errors import Faults, suggest
from stimuli.files import read_file
from stimuli.tables import check_unique, read_cells

ITEMS_FILE: Final = "raters/items.csv"
KEY_FILE: Final = "key.csv"
QUESTIONS_COPY: Final = "questions.yaml"  # the files of an export; only the folder `raters` goes to raters

HUMAN_RATINGS: Final[dict[str, str]] = {
    "rater": "who rated; a name's control characters are escaped",
    "item_id": "what was rated, as in the key",
    "question": "what was asked",
    "score": "in points of the question's scale, or the place of the option, from 0; missing where it was left out",
}

_WHOLE: Final = re.compile(r"\+?[0-9]{1,9}(?:[.,]0*)?")
_YES_NO: Final = {"true": True, "false": False}
_TRUTHS: Final = ("in_group", "names_perceiver", "names_experiencer")  # columns of the key that hold true or false


@dataclass(frozen=True, eq=False)
class HumanRatings:
    """The answers of the raters."""

    # Columns of HUMAN_RATINGS, one row for each rater, item and question; score is NaN if the rater left the question
    # out or the item is not in the rater's file.
    table: pd.DataFrame
    n_double: int  # repeated rows of a rater and item that agree with the first; dropped
    n_missing_rows: int  # pairs of rater and item without a row
    n_left_out: int  # empty answers in existing rows
    without_score: tuple[str, ...]  # raters without any score, who are not in the table
    files: Mapping[str, str]  # each file's printable path, as the user named it, and the SHA-256 of its bytes
    # by rater, the answers to the questions about the rater; left-out ones are absent
    about: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on what was counted while reading."""
        said = [f"{plural(self.table['score'].notna().sum(), 'score')} by {plural(self.n_raters, 'rater')}"]
        if self.n_double:
            said.append(
                f"{plural(self.n_double, 'row')} of items that a rater had rated alike "
                f"{either(self.n_double, 'was', 'were')} dropped"
            )
        if self.n_missing_rows:
            said.append(
                f"{plural(self.n_missing_rows, 'item')} {either(self.n_missing_rows, 'is', 'are')} missing in raters' "
                "files"
            )
        if self.n_left_out:
            said.append(f"{plural(self.n_left_out, 'question')} left out: missing, not 0")
        if self.without_score:
            named = ", ".join(brief(rater) for rater in self.without_score)
            said.append(f"no score is in what these raters sent, who are left out: {named}")
        return tuple(said)

    @property
    def n_raters(self) -> int:
        """How many raters the table has."""
        return int(self.table["rater"].nunique())


def export_files(sample: ItemSample, questions: Questions) -> dict[str, bytes]:
    """Build the files of an export except the form, by path in its folder.

    ``raters/items.csv`` shows raters the items, with an empty column for each question; an apostrophe defuses texts
    that a spreadsheet would run as a formula. ``key.csv`` must never go to raters.
    """
    return {
        ITEMS_FILE: items_file(sample.shown, questions),
        KEY_FILE: key_file(sample.key),
        QUESTIONS_COPY: questions.to_yaml().encode("utf-8", "replace"),
    }


def items_file(shown: pd.DataFrame, questions: Questions) -> bytes:
    """Write a spreadsheet of what raters see, with an empty column for each question; no cell runs as a formula."""
    names = (*questions.names, *(each.name for each in questions.about))
    return _csv(shown.assign(**dict.fromkeys(names, "")).map(_defused))


def key_file(key: pd.DataFrame) -> bytes:
    """Write a key that :func:`read_key` can read."""
    words = [str(name) for name in key if name not in ("prompt_index", *_TRUTHS)]
    return _csv(key.assign(**{name: key[name].map(_escaped) for name in words}))


def read_key(path: Path, columns: Collection[str] = tuple(KEY), *, may_be_empty: Collection[str] = ()) -> pd.DataFrame:
    """Read the key of an export: its ``columns``, one row an item. Cells of ``may_be_empty`` may be empty."""
    rows = read_cells(path, dict(zip(columns, columns, strict=True)), of="items", may_be_empty=may_be_empty)
    check_unique((cells["item_id"] for _, cells in rows), of="item", place=str(path))
    found: dict[str, list[object]] = {name: [] for name in columns}
    for place, cells in rows:
        for name, cell in cells.items():
            if name == "prompt_index":
                if not _WHOLE.fullmatch(cell):
                    raise ConfigError(f"{place}: prompt_index {brief(cell)!r} is not a number; use the key as exported")
                found[name].append(_whole(cell))
            elif name in _TRUTHS:
                if cell.lower() not in _YES_NO:
                    raise ConfigError(f"{place}: {name} {brief(cell)!r} is not True or False; use the key as exported")
                found[name].append(_YES_NO[cell.lower()])
            else:
                found[name].append(cell.removeprefix("'"))
    return pd.DataFrame(found)


def read_human_ratings(
    paths: Sequence[Path],
    *,
    key: pd.DataFrame,
    questions: Questions,
    shown: Mapping[str, str] | None = None,  # the reply of each item
) -> HumanRatings:
    """Read what raters sent back, from the form or a spreadsheet. A reply in it must be that of the row's item.

    The rater is in a column ``rater``, or else the file's name without its suffix. If items come in lists (``list`` in
    the key), each rater has one. Contradictions of a rater, items of another export and scores off the scale raise
    ConfigError.

    A rater may send a file again with more answers: rows on the same item that do not contradict each other are merged.
    An empty cell contradicts nothing.
    """
    if not paths:
        raise ConfigError("no file of ratings was given; give the CSV files that raters saved")
    resolved = [path.resolve() for path in paths]
    for path, whole in zip(paths, resolved, strict=True):
        if resolved.count(whole) > 1:
            raise ConfigError(f"{printable(str(path))} is given twice; give each file once")
    known = frozenset(key["item_id"].astype(str))
    about = {each.name for each in questions.about}
    asked = {each.name: each for each in (*questions.questions, *questions.about)}
    scores: dict[tuple[str, str, str], float] = {}
    places: dict[tuple[str, str, str], str] = {}
    seen: set[tuple[str, str]] = set()
    named: dict[str, Path] = {}
    lists = key["list"].astype(str) if "list" in key else [""] * len(key)
    list_of = dict(zip(key["item_id"].astype(str), lists, strict=True))
    own_list: dict[str, str] = {}
    n_double = 0
    for path in paths:
        for place, rater, item, answers in _rows(path, questions, known, named, shown or {}):
            n_double += (rater, item) in seen
            seen.add((rater, item))
            if own_list.setdefault(rater, list_of[item]) != list_of[item]:
                raise ConfigError(
                    f"{place}: rater {brief(rater)!r} has items of {own_list[rater]} and of {list_of[item]}, and "
                    "so read the same texts twice; keep the first list, or give two people different names"
                )
            for name, score in answers.items():
                at = (rater, "" if name in about else item, name)
                if scores.setdefault(at, score) != score:
                    what = "" if name in about else f"item {item!r} "
                    raise ConfigError(
                        f"{place}: rater {brief(rater)!r} gives {what}{_said(asked[name], score)} for {name}, and "
                        f"{_said(asked[name], scores[at])} on {places[at]}; keep one, or give two people different "
                        "names"
                    )
                places.setdefault(at, place)
    of_raters = {at: scores.pop(at) for at in list(scores) if at[2] in about}
    everybody = sorted({rater for rater, _ in seen})
    active = sorted({rater for rater, _, _ in scores})
    if not active:
        raise ConfigError(
            f"no score is in the files given, {plural(len(paths), 'file')}, the first {printable(str(paths[0]))}; "
            "give the files that raters filled in"
        )
    items = {name: sorted(item for item in known if list_of[item] == name) for name in set(own_list.values())}
    index = [(rater, item, name) for rater in active for item in items[own_list[rater]] for name in questions.names]
    table = pd.DataFrame(index, columns=list(HUMAN_RATINGS)[:3], dtype=object)
    table["score"] = [scores.get(at, math.nan) for at in index]
    n_rows = sum(rater in set(active) for rater, _ in seen)
    return HumanRatings(
        table=table,
        n_double=n_double,
        n_missing_rows=sum(len(items[own_list[rater]]) for rater in active) - n_rows,
        n_left_out=n_rows * len(questions.names) - len(scores),
        without_score=tuple(rater for rater in everybody if rater not in set(active)),
        files={printable(str(path)): hashlib.sha256(read_file(path)).hexdigest() for path in paths},
        about={
            rater: {
                each.name: each.options[int(of_raters[rater, "", each.name])]
                for each in questions.about
                if (rater, "", each.name) in of_raters
            }
            for rater in active
        },
    )


def _rows(
    path: Path, questions: Questions, known: frozenset[str], named: dict[str, Path], shown: Mapping[str, str]
) -> list[tuple[str, str, str, dict[str, float]]]:
    """Read a file's rows: place, rater, item and the scores given."""
    file = printable(str(path))
    asked = (*questions.questions, *questions.about)
    columns = ["item_id", *(question.name for question in asked)]
    remedy = "these files were made with other questions, or a column was renamed"
    rows = read_cells(
        path,
        dict(zip(columns, columns, strict=True)),
        of="ratings",
        may_be_empty=[*columns, "rater"],
        may_be_missing=["rater", *(["reply"] if shown else [])],
        numbers=[question.name for question in asked if not isinstance(question, OptionQuestion)],
        remedy=remedy,
    )
    rows = [(printable(place), cells) for place, cells in rows if any(cells.values())]
    own_name = not any(cells.get("rater") for _, cells in rows)
    if own_name and (other := named.setdefault(path.stem, path)) != path:
        raise ConfigError(
            f"{file} and {printable(str(other))} have no rater column and the same name, so they would count as "
            "one rater; rename one file"
        )
    if rows and not known & {cells["item_id"] for _, cells in rows}:
        raise ConfigError(
            f"{file}: none of its items is in the key (the first is {brief(rows[0][1]['item_id'])!r}): it belongs "
            "to another run or seed; import it with the key of its own export"
        )
    found = []
    faults = Faults(file, ConfigError)
    for place, cells in rows:
        rater, item = printable(path.stem if own_name else cells["rater"]), cells["item_id"]
        if not rater:
            faults.add(place, "has no rater, but other rows have one; fill the cell")
        if item not in known:
            faults.add(place, f"the item {brief(item)!r} is not in the key; correct it, or remove the row")
        elif (read := _letters(cells.get("reply", ""))) and read != _letters(seen(shown[item])):
            faults.add(
                place,
                f"the reply is not that of item {item!r}: columns were sorted apart, or the text was edited; have the "
                "rater rate the sheet as it was exported",
            )
        try:
            given = {
                question.name: _score(cells[question.name], question) for question in asked if cells[question.name]
            }
        except ConfigError as fault:
            faults.add(place, f"rater {brief(rater)!r}, item {item!r}: {fault}")
            continue
        found.append((place, rater, item, given))
    faults.check()
    return found


def _letters(text: str) -> str:
    """Return what a spreadsheet leaves as it is of a text."""
    return re.sub(r"[\W_]+", "", text)


def _score(cell: str, question: Asked) -> float:
    if isinstance(question, OptionQuestion):
        if cell not in question.options:
            raise ConfigError(
                f"{question.name} {brief(cell)!r} is not one of its answers; {suggest(cell, question.options)}"
            )
        return float(question.options.index(cell))
    if not _WHOLE.fullmatch(cell) or not question.low <= _whole(cell) <= question.high:
        raise ConfigError(
            f"{question.name} {brief(cell)!r} is not a whole number from {question.low} to {question.high}; "
            "correct it, or empty the cell"
        )
    return float(_whole(cell))


def _said(question: Asked, score: float) -> str:
    return f"{brief(question.options[int(score)])!r}" if isinstance(question, OptionQuestion) else f"{score:g}"


def _whole(cell: str) -> int:
    return int(re.split("[.,]", cell)[0])


def _csv(table: pd.DataFrame) -> bytes:
    # Quote all cells: a spreadsheet that splits at semicolons must not split a text.
    text = table.to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    return b"\xef\xbb\xbf" + text.encode("utf-8", "replace")


def _defused(text: str) -> str:
    text = seen(text)
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def _escaped(text: object) -> str:
    """Defuse a text of the key so that it can be read back: an apostrophe of its own gets another one."""
    return f"'{text}" if str(text).lstrip(" ").startswith((*FORMULA, "'")) else str(text)
