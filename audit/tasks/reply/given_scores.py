"""Scores of replies from the user's own file, taken by whatever tool."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.asking.elicitation.plain_text import answer_of
from audit.errors import ModelError
from audit.tasks.measures.base import Measure, Reply, Wanted
from stimuli.errors import StimulusError
from stimuli.hashes import fingerprint
from stimuli.tables import check_unique, column_names, read_cells, read_numbers

NAME: Final = "scores"
_INDEX: Final = "prompt_index"
_TEXT: Final = "text"


@dataclass(frozen=True)
class GivenScores:
    """Scores by prompt; made by :func:`read_scores_file`."""

    path: Path
    columns: tuple[str, ...]
    values: Mapping[int, tuple[float, ...]]
    texts: Mapping[int, str]  # the replies that were scored, if the file has them

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One for each column of the file."""
        source = f"column {{}} of {self.path.name}"
        caution = "" if self.texts else "the file has no replies (text), so nothing shows that it scores these"
        return tuple(
            Measure(f"{NAME}_{each}", each.replace("_", " "), "points", "neither", source.format(each), caution)
            for each in self.columns
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The file's name, and a digest of what it says."""
        said = [self.columns, sorted(self.values.items()), sorted(self.texts.items())]
        return {"name": self.path.name, "sha256": fingerprint({"said": repr(said)})}

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n, columns); NaN for a reply without a row or number. ModelError if the file is of others."""
        for reply in replies:
            scored = self.texts.get(reply.prompt_index)
            if scored is not None and answer_of(scored).split() != reply.text.split():
                raise ModelError(
                    f"measures.scores={self.path}: the text in the row of {_INDEX} {reply.prompt_index} is not that "
                    "reply of this run; score this run's replies, which are in replies.parquet"
                )
        nothing = (math.nan,) * len(self.columns)
        return np.array([self.values.get(reply.prompt_index, nothing) for reply in replies], dtype=np.float64)


def read_scores_file(path: Path, *, n_prompts: int) -> GivenScores:
    """Read a CSV file with ``prompt_index``, a column for each measure, and perhaps ``text``, the scored replies."""
    columns = tuple(name for name in column_names(path, (_INDEX,)) if name not in (_INDEX, _TEXT))
    for name in columns:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise StimulusError(
                f"{path}: the column {name!r} cannot name a measure; use lower-case letters, digits and underscores"
            )
    if not columns:
        raise StimulusError(f"{path}: has no column of scores beside {_INDEX}")
    names = {name: name for name in (_INDEX, *columns)}
    rows = read_cells(
        path, names, of="scores", may_be_empty=(*columns, _TEXT), may_be_missing=(_TEXT,), numbers=columns
    )
    check_unique((cells[_INDEX] for _, cells in rows), of=_INDEX, place=str(path))
    indices = []
    for place, cells in rows:
        if not cells[_INDEX].isascii() or not cells[_INDEX].isdigit() or int(cells[_INDEX]) >= n_prompts:
            raise StimulusError(
                f"{place}: {_INDEX} is {cells[_INDEX]!r}; it must be that of a prompt of this run, 0 to {n_prompts - 1}"
            )
        indices.append(int(cells[_INDEX]))
    by_column = []
    for name in columns:
        numbers, wrong = read_numbers([cells[name] for _, cells in rows])
        if wrong:
            place, cells = rows[wrong[0]]
            raise StimulusError(f"{place}: {name} is {cells[name]!r}; write a number, or leave it empty")
        by_column.append(numbers)
    values = dict(zip(indices, zip(*by_column, strict=True), strict=True))
    texts = {index: cells[_TEXT] for index, (_, cells) in zip(indices, rows, strict=True) if cells[_TEXT]}
    return GivenScores(path, columns, values, texts)


def wanted_scores(path: Path, *, n_prompts: int) -> Wanted:
    """Return the scorer of a file, read before the model is asked."""
    scorer = read_scores_file(path, n_prompts=n_prompts)
    return Wanted(NAME, scorer.facts, lambda: scorer)
