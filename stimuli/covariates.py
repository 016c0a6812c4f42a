"""Numbers of groups, or of pairs of groups, that a user gives: a cultural distance, a group's size."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from stimuli.errors import Faults, StimulusError, suggest
from stimuli.files import read_file
from stimuli.tables import column_names, read_cells, read_numbers

PAIR: Final = ("perceiver_group", "experiencer_group")
GROUP: Final = ("group",)
_DIMENSION: Final = "dimension"
_NEAR: Final = 0.75  # how alike two names are, by difflib, that may be meant to be one


@dataclass(frozen=True)
class CovariateRow:
    """A row of the table: a group, or a perceiver's and an experiencer's, and their numbers."""

    place: str  # in the file, for messages
    dimension: str  # empty if it holds in every dimension
    groups: tuple[str, ...]
    numbers: tuple[float, ...]  # in the order of the covariates; NaN if unknown


@dataclass(frozen=True)
class GroupCovariates:
    """A table of covariates, either of groups or of pairs of groups."""

    names: tuple[str, ...]
    rows: tuple[CovariateRow, ...]
    where: str  # the file
    sha256: str  # of its bytes

    @property
    def of_pairs(self) -> bool:
        """Whether they are of pairs of groups."""
        return len(self.rows[0].groups) == len(PAIR)

    def numbers(self, name: str, dimension: str) -> dict[tuple[str, ...], float]:
        """Return a covariate's known numbers in a dimension, by group or by perceiver's and experiencer's group.

        A pair that the file has in one order only has that number in both orders.
        """
        place = self.names.index(name)
        given = {row.groups: row.numbers[place] for row in self.rows if row.dimension in ("", dimension)}
        both = {tuple(reversed(groups)): number for groups, number in given.items()} | given
        return {groups: number for groups, number in both.items() if not math.isnan(number)}

    def check(self, groups: Mapping[str, Collection[str]]) -> None:
        """Raise StimulusError if the file misspells a group of the run, or names none; ``groups`` by dimension.

        A file may have other groups than the run, such as all countries, and need not have all of the run's.
        """
        faults, n_known = Faults(self.where), 0
        named = {(row.dimension, group) for row in self.rows for group in row.groups}
        for row in self.rows:
            place = f"{self.where}: {row.place}"
            if row.dimension and row.dimension not in groups:
                lacking = {name for name in groups if not any(name == dimension for dimension, _ in named)}
                if meant := _meant(row.dimension, lacking):
                    faults.add(place, f"the run has no dimension {row.dimension!r}; did you mean {meant!r}?")
                continue
            there = {name for dimension, own in groups.items() if row.dimension in ("", dimension) for name in own}
            lacking = {name for name in there if (row.dimension, name) not in named}
            for group in row.groups:
                if group not in there and (meant := _meant(group, lacking)):
                    faults.add(
                        place,
                        f"the run has no group {group!r}; did you mean {meant!r}? If not, add a row for {meant!r}, "
                        "with an empty cell if its number is not known",
                    )
            n_known += set(row.groups) <= there
        faults.check()
        if not n_known:
            every = sorted({name for own in groups.values() for name in own})
            raise StimulusError(
                f"{self.where}: no row is of this run's groups (the file's first is "
                f"{' and '.join(map(repr, self.rows[0].groups))}, the run has {', '.join(map(repr, every))}); write "
                "groups as the run names them"
            )

    def content(self) -> dict[str, Any]:
        """Return it for a manifest; a number that is unknown is null."""
        rows = [
            {
                "place": row.place,
                "dimension": row.dimension,
                "groups": list(row.groups),
                "numbers": [None if math.isnan(number) else number for number in row.numbers],
            }
            for row in self.rows
        ]
        return {"where": self.where, "sha256": self.sha256, "names": list(self.names), "rows": rows}


def read_covariates(path: Path) -> GroupCovariates:
    """Read a user's table of numbers of groups (``group``) or of pairs (``perceiver_group``, ``experiencer_group``).

    Each other column is a covariate, but for ``dimension``, which tells groups of one name apart. An empty cell is a
    number that is not known.
    """
    keys, names = _columns(path, column_names(path, [*GROUP, *PAIR, _DIMENSION]))
    cells = read_cells(path, {name: name for name in (*keys, *names)}, of="groups", may_be_empty=names, numbers=names)
    faults = Faults(str(path))
    columns = [_numbers(name, cells, faults) for name in names]
    rows: list[CovariateRow] = []
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    for (place, row), numbers in zip(cells, zip(*columns, strict=True), strict=True):
        short = place.removeprefix(f"{path}: ")
        dimension, groups = row.get(_DIMENSION, ""), tuple(row[key] for key in keys if key != _DIMENSION)
        if (before := first.setdefault((dimension, groups), short)) != short:
            faults.add(place, f"{' and '.join(map(repr, groups))} is in {before} already; keep one")
        rows.append(CovariateRow(short, dimension, groups, numbers))
    faults.check()
    return GroupCovariates(tuple(names), tuple(rows), str(path), hashlib.sha256(read_file(path)).hexdigest())


def _columns(path: Path, header: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns that name groups, and the covariates."""
    if not header:
        raise StimulusError(f"{path}: is empty; write the names of the columns in its first row")
    of_pairs = [name for name in PAIR if name in header]
    if of_pairs and "group" in header:
        raise StimulusError(
            f"{path}: has the columns 'group' and {of_pairs[0]!r}; give numbers of groups, or of pairs of groups, in a "
            "file of their own"
        )
    if len(of_pairs) == 1 or not (of_pairs or "group" in header):
        lacking = next(name for name in PAIR if name not in header) if of_pairs else "group"
        also = "" if of_pairs else " (for pairs of groups: 'perceiver_group' and 'experiencer_group')"
        others = [name for name in header if name not in of_pairs]
        raise StimulusError(f"{path}: no column {lacking!r}{also}; {suggest(lacking, others)}")
    keys = [*(PAIR if of_pairs else GROUP), *([_DIMENSION] if _DIMENSION in header else [])]
    names = [name for name in header if name not in keys]
    if not names:
        raise StimulusError(f"{path}: has no column of numbers; add one, such as 'distance'")
    for name in names:
        if not name.isidentifier() or iskeyword(name):
            plain = "".join(letter if f"_{letter}".isidentifier() else "_" for letter in name)
            plain = plain if plain.isidentifier() and not iskeyword(plain) else f"x_{plain}"
            raise StimulusError(f"{path}: a formula cannot name the column {name!r}; call it {plain!r}")
    return keys, names


def _numbers(name: str, cells: Sequence[tuple[str, Mapping[str, str]]], faults: Faults) -> list[float]:
    """Read one column, and note the cells that are no numbers."""
    numbers, wrong = read_numbers([row[name] for _, row in cells])
    for place in wrong:
        faults.add(
            cells[place][0],
            f"{name} is {cells[place][1][name]!r}, but must be a number, or empty if it is not known; leave out "
            "columns of words",
        )
    return numbers


def _meant(name: str, lacking: Collection[str]) -> str:
    """Return which of the names that the file lacks may be meant; empty if none is near."""
    return next(_near(name, sorted(lacking)), "")


def _near(name: str, options: Sequence[str]) -> Iterator[str]:
    yield from (each for each in options if each.casefold() == name.casefold())
    yield from difflib.get_close_matches(name, options, n=1, cutoff=_NEAR)
