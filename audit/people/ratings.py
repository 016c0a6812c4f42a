"""From a sample to the files that raters fill in, and from their files back to scores: nothing is ever taken as 0."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pandas as pd

from audit.errors import ConfigError
from audit.people.items import KEY, ItemSample
from audit.people.questions import Asked, Choice, Questions
from audit.tables.formatting import brief, either, plural, printable
from audit.tables.spreadsheets import FORMULA, seen
from stimuli.errors import Faults, suggest
from stimuli.files import read_file
from stimuli.tables import check_unique, read_cells

ITEMS_FILE: Final = "raters/items.csv"
KEY_FILE: Final = "key.csv"
QUESTIONS_COPY: Final = "questions.yaml"
"""What an export's folder holds; only the folder ``raters`` is for raters."""

HUMAN_RATINGS: Final[dict[str, str]] = {
    "rater": "who rated; a name's control characters are escaped",
    "item_id": "what was rated, as in the key",
    "question": "what was asked",
    "score": "in points of the question's scale, or the place of the option, from 0; missing where it was left out",
}

_WHOLE: Final = re.compile(r"\+?[0-9]{1,9}(?:[.,]0*)?")
_YES_NO: Final = {"true": True, "false": False}
_TRUTHS: Final = ("in_group", "names_perceiver", "names_experiencer")
"""Columns of the key that are true or false."""

Place: TypeAlias = tuple[str, str]


@dataclass(frozen=True, eq=False)
class HumanRatings:
    """What raters answered.

    Attributes
    ----------
    table
        Columns of :data:`HUMAN_RATINGS`, one row for each rater, item of the key and question; ``score`` is NaN where
        the rater left the question out or the item is not in the rater's file.
    n_double
        Rows that a rater gave again for an item, without contradiction; dropped.
    n_missing_rows
        Pairs of a rater and an item without a row.
    n_left_out
        Questions that are empty in rows that there are.
    without_score
        Raters whose files hold no score at all; they are not in the table.
    files
        Each file's path, as the user named it but printable, and the SHA-256 of its bytes.
    about
        By rater: by question about the rater, the option that was given; no entry where it was left out.
    """

    table: pd.DataFrame
    n_double: int
    n_missing_rows: int
    n_left_out: int
    without_score: tuple[str, ...]
    files: Mapping[str, str]
    about: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was counted on the way, in plain words."""
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
        """Raters in the table."""
        return int(self.table["rater"].nunique())


def export_files(sample: ItemSample, questions: Questions) -> dict[str, bytes]:
    """Return the files of an export by their paths in its folder, but for the form.

    Parameters
    ----------
    sample
        What is to be rated.
    questions
        What is asked.

    Returns
    -------
    dict
        ``raters/items.csv`` for spreadsheets: what raters see, and an empty column for each question; a text that a
        spreadsheet would run as a formula has an apostrophe before it. ``key.csv``, which must never go to raters.
        ``questions.yaml``, which the import reads. The form is :func:`audit.report.form.render_form`'s.
    """
    return {
        ITEMS_FILE: items_file(sample.shown, questions),
        KEY_FILE: key_file(sample.key),
        QUESTIONS_COPY: questions.to_yaml().encode("utf-8", "replace"),
    }


def items_file(shown: pd.DataFrame, questions: Questions) -> bytes:
    """Return a spreadsheet of what raters see, with an empty column for each question; no cell runs as a formula."""
    names = (*questions.names, *(each.name for each in questions.about))
    return _csv(shown.assign(**dict.fromkeys(names, "")).map(_defused))


def key_file(key: pd.DataFrame) -> bytes:
    """Return a key as :func:`read_key` reads it."""
    words = [str(name) for name in key if name not in ("prompt_index", *_TRUTHS)]
    return _csv(key.assign(**{name: key[name].map(_escaped) for name in words}))


def read_key(path: Path, columns: Collection[str] = tuple(KEY), *, may_be_empty: Collection[str] = ()) -> pd.DataFrame:
    """Read the key of an export.

    Parameters
    ----------
    path
        The file.
    columns
        Of the kind of export, such as :data:`audit.people.items.KEY`.
    may_be_empty
        Those of them whose cells may be empty.

    Returns
    -------
    pandas.DataFrame
        These columns, one row an item.

    Raises
    ------
    StimulusError
        If the file cannot be read, lacks a column or has an item twice.
    ConfigError
        If a number, or a true or false, cannot be read.
    """
    rows = read_cells(
        path,
        dict(zip(columns, columns, strict=True)),
        of="items",
        may_be_empty=may_be_empty,
    )
    check_unique((cells["item_id"] for _, cells in rows), of="item", place=str(path))
    found: dict[str, list[object]] = {name: [] for name in columns}
    for place, cells in rows:
        for name, cell in cells.items():
            if name == "prompt_index":
                if not _WHOLE.fullmatch(cell):
                    raise ConfigError(f"{place}: prompt_index {brief(cell)!r} is no number; take the key as exported")
                found[name].append(_whole(cell))
            elif name in _TRUTHS:
                if cell.lower() not in _YES_NO:
                    raise ConfigError(f"{place}: {name} {brief(cell)!r} is not True or False; take the key as exported")
                found[name].append(_YES_NO[cell.lower()])
            else:
                found[name].append(cell.removeprefix("'"))
    return pd.DataFrame(found)


def read_human_ratings(paths: Sequence[Path], *, key: pd.DataFrame, questions: Questions) -> HumanRatings:
    """Read what raters sent back, of the form or of a spreadsheet.

    Parameters
    ----------
    paths
        Tables with the columns ``item_id`` and one for each question, those about the rater among them. The rater is
        in a column ``rater``, or else the file's name without its suffix. Other columns are not read.
    key
        The export's, of which ``item_id`` is used and, where items come in lists, ``list``: a rater has one list.
    questions
        The export's.

    Raises
    ------
    StimulusError
        If a file cannot be read, is not UTF-8, lacks a column or has no rows.
    ConfigError
        If there is no file, or one twice; an item is of no or of another export; a score is no whole number of the
        scale, or none of the options; a rater gives an item two different scores, or two answers about themselves; a
        rater has items of two lists; two files without raters have one name; or nobody rated anything.

    Notes
    -----
    A rater may send a file again when more is done: rows for the same item that do not contradict each other are taken
    together. An empty cell contradicts nothing.
    """
    if not paths:
        raise ConfigError("no file of ratings was named; give the CSV files that raters saved")
    resolved = [path.resolve() for path in paths]
    for path, whole in zip(paths, resolved, strict=True):
        if resolved.count(whole) > 1:
            raise ConfigError(f"{printable(str(path))} is named twice; name each file once")
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
        for place, rater, item, answers in _rows(path, questions, known, named):
            n_double += (rater, item) in seen
            seen.add((rater, item))
            if own_list.setdefault(rater, list_of[item]) != list_of[item]:
                raise ConfigError(
                    f"{place}: rater {brief(rater)!r} has items of {own_list[rater]} and of {list_of[item]}, and would "
                    "have read the same texts twice; keep the first list, or give two people a name each"
                )
            for name, score in answers.items():
                at = (rater, "" if name in about else item, name)
                if scores.setdefault(at, score) != score:
                    what = "" if name in about else f"item {item!r} "
                    raise ConfigError(
                        f"{place}: rater {brief(rater)!r} gives {what}{_said(asked[name], score)} for {name}, and "
                        f"{_said(asked[name], scores[at])} on {places[at]}; keep one, or give two people a name each"
                    )
                places.setdefault(at, place)
    of_raters = {at: scores.pop(at) for at in list(scores) if at[2] in about}
    everybody = sorted({rater for rater, _ in seen})
    active = sorted({rater for rater, _, _ in scores})
    if not active:
        raise ConfigError(
            f"no score is in what was named, {plural(len(paths), 'file')}, the first {printable(str(paths[0]))}; take "
            "the files that were filled in"
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
    path: Path, questions: Questions, known: frozenset[str], named: dict[str, Path]
) -> list[tuple[str, str, str, dict[str, float]]]:
    """Return a file's rows: place, rater, item and the scores that were given."""
    file = printable(str(path))
    asked = (*questions.questions, *questions.about)
    columns = ["item_id", *(question.name for question in asked)]
    remedy = "these files were made with other questions, or a column was renamed"
    rows = read_cells(
        path,
        dict(zip(columns, columns, strict=True)),
        of="ratings",
        may_be_empty=[*columns, "rater"],
        may_be_missing=["rater"],
        numbers=[question.name for question in asked if not isinstance(question, Choice)],
        remedy=remedy,
    )
    rows = [(printable(place), cells) for place, cells in rows if any(cells.values())]
    own_name = not any(cells.get("rater") for _, cells in rows)
    if own_name and (other := named.setdefault(path.stem, path)) != path:
        raise ConfigError(
            f"{file} and {printable(str(other))} have no rater in them and the same name, which would make them one "
            "rater; rename one"
        )
    if rows and not known & {cells["item_id"] for _, cells in rows}:
        raise ConfigError(
            f"{file}: none of its items is in the key (the first is {brief(rows[0][1]['item_id'])!r}): it is of "
            "another run, or of another seed; import it with its own export's key"
        )
    found = []
    faults = Faults(file, ConfigError)
    for place, cells in rows:
        rater, item = printable(path.stem if own_name else cells["rater"]), cells["item_id"]
        if not rater:
            faults.add(place, "no rater, though other rows have one; fill the cell")
        if item not in known:
            faults.add(place, f"the item {brief(item)!r} is not in the key; mend it, or remove the row")
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


def _score(cell: str, question: Asked) -> float:
    if isinstance(question, Choice):
        if cell not in question.options:
            raise ConfigError(
                f"{question.name} {brief(cell)!r} is none of its answers; {suggest(cell, question.options)}"
            )
        return float(question.options.index(cell))
    if not _WHOLE.fullmatch(cell) or not question.low <= _whole(cell) <= question.high:
        raise ConfigError(
            f"{question.name} {brief(cell)!r} is no whole number from {question.low} to {question.high}; mend "
            "it, or empty the cell"
        )
    return float(_whole(cell))


def _said(question: Asked, score: float) -> str:
    return f"{brief(question.options[int(score)])!r}" if isinstance(question, Choice) else f"{score:g}"


def _whole(cell: str) -> int:
    return int(re.split("[.,]", cell)[0])


def _csv(table: pd.DataFrame) -> bytes:
    # All cells in quotation marks: a spreadsheet that splits at semicolons must not find one of its own in a text.
    text = table.to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    return b"\xef\xbb\xbf" + text.encode("utf-8", "replace")


def _defused(text: str) -> str:
    text = seen(text)
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def _escaped(text: object) -> str:
    """Defuse a text of the key so that it can be read back: an apostrophe of its own gets another one."""
    return f"'{text}" if str(text).lstrip(" ").startswith((*FORMULA, "'")) else str(text)
