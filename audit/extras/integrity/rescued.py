"""Save the answers of a run folder without a manifest as tables from which ``report`` makes another run.

``recovered/ratings.csv`` and ``recovered/groups.csv`` have the form in which another tool's ratings are read, see
:mod:`audit.runs.outside`. What that form cannot express is left out, with a line that says so.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from audit.asking.plan import prompt_columns
from audit.errors import StoreError
from audit.runs import ledger
from audit.runs.outside import DEFAULT_ENDS
from audit.runs.parquet import concatenate, in_pandas
from audit.runs.parts import Parts
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import PromptsAsked
from audit.runs.store import KINDS, RunFolder
from audit.tables.formatting import either, plural
from audit.tables.ratings import RATINGS

FOLDER: Final = "recovered"
_COLUMNS: Final = ("perceiver", "experiencer", "narrative_id", "rating", "emotion", "dimension", "variant", "status",
                   "prompt_index", "response")  # fmt: skip
"""Columns of ``ratings.csv``. The last two are for people; no code reads them."""


def rescue(
    folder: RunFolder,
    asked: PromptsAsked | None,
    faults: ledger.LedgerDifferences,
    done: list[str],
    following: list[str],
) -> None:
    """Write the ratings of a folder without a manifest, but not of changed files, as tables.

    ``asked`` gives identities, scale and sets of invented groups. What was done, and what to do next, is appended.
    """
    there = [kind for kind in KINDS if _has(folder._collected(kind))]
    if "ratings" not in there:
        what = there[0] if there else "no answers"
        done.append(f"the folder has {what}, from which no command makes a run without a manifest")
        following.append(f"any tool can read the Parquet files in {folder.path}; the run itself has to be made again")
        return
    ratings = pd.concat(_tables(folder, faults, done), ignore_index=True)
    asked, ratings = _as_asked(ratings, asked, done)
    ratings = _within(_told_apart(ratings, done), asked, done)
    story = ledger.story_of(folder.path)
    for name in () if story is None else story.accepted:
        done.append(f"note: {name} had been accepted although it changed; the report cannot say so")
    groups = pd.DataFrame(_groups(ratings, asked, done), columns=["dimension", "term", "group", "stem"])
    kept = ratings[ratings["dimension"].isin(groups["dimension"])]
    if kept.empty:
        done.append("no rating is left to write")
        following.append(f"any tool can read the Parquet files in {folder.path}; the run itself has to be made again")
        return
    wordings = kept["wording"].astype("Int64").fillna(0).astype(int)
    variant = kept["variant"].astype(str)
    kept = kept.assign(
        rating=kept["intensity"], variant=variant.where(wordings == 0, variant + ", wording " + wordings.astype(str))
    )
    groups = groups if groups["stem"].ne("").any() else groups.drop(columns="stem")
    paths = [
        folder.write_file(f"{FOLDER}/{name}.csv", table.to_csv(index=False).encode("utf-8", "replace"))
        for name, table in (("ratings", kept[list(_COLUMNS)]), ("groups", groups))
    ]
    n_rated = int(kept["rating"].notna().sum())
    done.append(f"written: {paths[0]}, {plural(n_rated, 'rating')} of {plural(len(kept), 'prompt')}")
    done.append(f"written: {paths[1]}, {plural(len(groups), 'term')}")
    ends, told = _ends(kept, asked)
    command = ["python", "-m", "audit", "report", f"ratings={paths[0]}", f"groups={paths[1]}"]
    out = folder.path.resolve()
    command += [f"run_dir={out.with_name(f'{out.name}-recovered')}", *ends]
    following.append("to analyse the ratings as those of another tool" + told + ":")
    following.append(shlex.join(command))


def _has(parts: Parts) -> bool:
    """Tell whether a table has any file, readable or not."""
    folder, file = parts.places
    return file.exists() or any(folder.glob("part-*.parquet"))


def _tables(folder: RunFolder, faults: ledger.LedgerDifferences, done: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the parts of the ratings; report those that cannot be read or were changed."""
    parts = folder._collected("ratings")
    story = ledger.story_of(folder.path)
    was = {} if story is None else story.was
    not_ours = dict.fromkeys(faults.changed, "has changed since it was stored (its SHA-256 differs)")
    not_ours |= dict.fromkeys(faults.foreign, "was not stored by this run")
    try:
        names = parts.names()
    except StoreError as error:
        done.append(f"left out: {_reason(error)}")
        # Parts beside an unreadable file may still be readable.
        parts = parts.beside_alone()
        names = parts.names()
    yield in_pandas(concatenate((), RATINGS)).astype(object)
    for name in names:
        try:
            rows = parts.read_part(name)
        except StoreError as error:
            done.append(f"left out: {_reason(error)}")
        else:
            if rows is None:
                continue
            beside = parts.places[0] / f"{name}.parquet"
            place = (beside if beside.exists() else parts.places[1]).relative_to(folder.path).as_posix()
            stored = was.get(beside.relative_to(folder.path).as_posix())
            # In a changed file, a part is as stored if writing it again gives the same bytes.
            if place in not_ours and hashlib.sha256(parts.bytes_of(rows)).hexdigest() != stored:
                what = place if beside.exists() else f"{name} of {place}"
                done.append(f"left out: {what} {not_ours[place]} ({plural(rows.num_rows, 'row')})")
            else:
                yield in_pandas(rows).astype(object)


def _as_asked(
    ratings: pd.DataFrame, asked: PromptsAsked | None, done: list[str]
) -> tuple[PromptsAsked | None, pd.DataFrame]:
    """Keep the rows that agree with their prompts; drop the prompts instead if most rows disagree."""
    if asked is None or ratings.empty:
        return asked, ratings
    right = [_is_of(row, asked) for row in ratings.to_dict("records")]
    n = len(right) - sum(right)
    if 2 * n > len(right):
        done.append(f"note: {PROMPTS} does not belong to these ratings and was not used")
        return None, ratings
    if n:
        of = either(n, "is about somebody or something else than its prompt", "are about others than their prompts")
        done.append(f"left out: {plural(n, 'row')} that {of}, by {PROMPTS}")
    return asked, ratings[right]


def _is_of(row: Mapping[Any, Any], asked: PromptsAsked) -> bool:
    """Tell whether a row agrees with its prompt."""
    place = row["prompt_index"]
    if not 0 <= place < len(asked.grid):
        return False
    told = prompt_columns(asked.grid[int(place)], "")
    return all(row[name] == value for name, value in told.items() if name != "variant")


def _reason(error: StoreError) -> str:
    return str(error).partition("); ")[0] + ")"


def _told_apart(ratings: pd.DataFrame, done: list[str]) -> pd.DataFrame:
    """Keep one row for each prompt; drop prompts with two different ratings, since either could be theirs."""
    same = ratings.drop_duplicates()
    if n := len(ratings) - len(same):
        done.append(f"left out: {plural(n, 'row')} that {'is' if n == 1 else 'are'} there twice")
    keys = ["dimension", "variant", "wording", "narrative_id", "perceiver", "experiencer"]
    twice = same.duplicated("prompt_index", keep=False) | same.duplicated(keys, keep=False)
    if twice.any():
        done.append(f"left out: {plural(int(twice.sum()), 'row')} of prompts that have two different ones")
    return same[~twice].sort_values("prompt_index", ignore_index=True)


def _within(ratings: pd.DataFrame, asked: PromptsAsked | None, done: list[str]) -> pd.DataFrame:
    """Drop ratings beyond the scale, which another tool's table may not have."""
    scale = None if asked is None else asked.grid.variant.scale
    if scale is None:
        return ratings
    beyond = ~ratings["intensity"].astype(float).between(scale.low, scale.high) & ratings["intensity"].notna()
    if n := int(beyond.sum()):
        done.append(f"left out: {plural(n, 'rating')} beyond the scale from {scale.low} to {scale.high}")
    return ratings[~beyond]


def _groups(ratings: pd.DataFrame, asked: PromptsAsked | None, done: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each dimension's terms with group and stem; report a dimension that one group per term cannot describe."""
    known = {} if asked is None else {dimension.name: dimension for dimension in asked.grid.dimensions}
    for dimension, rows in ratings.groupby("dimension", sort=False):
        found = _one_group_a_term(rows)
        if found is None:
            done.append(
                f"left out: dimension {dimension}, in which an identity is of the own group of several others "
                f"({plural(len(rows), 'rating')})"
            )
            continue
        stems: Mapping[str, str] = known[str(dimension)].stems if str(dimension) in known else {}
        if str(dimension) in known and known[str(dimension)].placebo:
            done.append(f"note: {dimension} is a set of invented groups; the report treats it like other dimensions")
        for term, group in found.items():
            yield str(dimension), term, group, stems.get(term, "")


def _one_group_a_term(rows: pd.DataFrame) -> dict[str, str] | None:
    """Return a group for each term, such that in-group pairs share it; None if that is impossible."""
    pairs = rows[["perceiver", "perceiver_group", "experiencer", "experiencer_group", "in_group"]].drop_duplicates()
    named = {str(row["experiencer_group"]): str(row["experiencer_group"]) for row in pairs.to_dict("records")}
    named |= {str(row["perceiver_group"]): str(row["perceiver_group"]) for row in pairs.to_dict("records")}
    for row in pairs.to_dict("records"):
        if not pd.isna(row["in_group"]) and bool(row["in_group"]):
            own, other = named[str(row["perceiver_group"])], named[str(row["experiencer_group"])]
            named = {name: own if now == other else now for name, now in named.items()}
    group_of: dict[str, str] = {}
    for row in pairs.to_dict("records"):
        for side in ("perceiver", "experiencer"):
            group = named[str(row[f"{side}_group"])]
            if group_of.setdefault(str(row[side]), group) != group:
                return None
    said = [
        row for row in pairs.to_dict("records")
        if not pd.isna(row["in_group"])
        and bool(row["in_group"]) != (group_of[str(row["perceiver"])] == group_of[str(row["experiencer"])])
    ]  # fmt: skip
    return None if said else group_of


def _ends(ratings: pd.DataFrame, asked: PromptsAsked | None) -> tuple[list[str], str]:
    """Return the scale's ends as options, and what the user must know about them."""
    scale = None if asked is None else asked.grid.variant.scale
    if scale is not None:
        return [f"low={scale.low}", f"high={scale.high}"], ""
    rated: Any = ratings["rating"].astype(float)
    if (rated.min(), rated.max()) == DEFAULT_ENDS:
        return [], ""
    return ["low=LOW", "high=HIGH"], " (LOW and HIGH are the ends of the scale, which are not recorded here)"
