"""Numbers of corpora, such as the share of distinct words: the replies of a pair taken together, and their gap.

Such a number has no value for one reply. Its uncertainty is that of a jackknife, which leaves out one narrative at a
time; see :func:`audit.tasks.reply.gaps.measure_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.cells import BY_DESIGN, NarrativeCube
from audit.statistics.contrasts import complete_narratives, in_group_weights
from audit.statistics.estimate_rows import gap_row
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.formatting import either, plural
from audit.tables.replies import SCORED

Corpus: TypeAlias = Callable[[Sequence[str]], tuple[float, FloatArray]]
"""From the texts of a corpus to its number, and to the number without each of them, shape (n_texts,)."""

JACKKNIFE: Final = "jackknife"
"""The name of the estimator in the tables."""
ROUNDING: Final = 1e-12
"""Smaller differences, relative to the largest number or of a diversity (a share), are floating-point arithmetic."""
NO_SUCH_NUMBER: Final = "a pair's replies, or all of them but one, have no such number"


def is_scored(replies: pd.DataFrame) -> BoolArray:
    """Mark the replies that measures are taken of."""
    return np.asarray(replies["status"].isin(SCORED), dtype=np.bool_)


def complete_ids(cube: NarrativeCube) -> list[Any]:
    """Return the narratives with a reply to every pair of identities, baselines left out."""
    complete = complete_narratives(cube.without_baselines())
    return [name for name, there in zip(cube.narrative_ids, complete, strict=True) if there]


def corpus_numbers(
    cube: NarrativeCube, replies: pd.DataFrame, number: Corpus, names: Sequence[Any]
) -> tuple[FloatArray, FloatArray]:
    """Return each pair's number over the narratives ``names``, shape (P, E), and without each of them, (N, P, E).

    The axes are those of the cube; ``replies`` are between its identities.
    """
    place = {name: k for k, name in enumerate(names)}
    whole = np.full(cube.in_group.shape, np.nan)
    without = np.full((len(names), *whole.shape), np.nan)
    for (perceiver, experiencer), texts in _by_pair(
        replies.loc[is_scored(replies) & replies["narrative_id"].isin(names)]
    ):
        p, e = cube.perceivers.index(perceiver), cube.experiencers.index(experiencer)
        whole[p, e], left = number(texts["text"].tolist())
        without[[place[name] for name in texts["narrative_id"]], p, e] = left
    return whole, without


def pseudo_values(whole: FloatArray, without: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the narratives' pseudo-values of a weighted sum over pairs; their mean is the sum over all narratives."""
    total, left = float((weights * whole).sum()), (without * weights).sum(axis=(1, 2))
    pseudo: FloatArray = total + (len(without) - 1) * (left.mean() - left)
    pseudo[np.abs(pseudo) <= len(without) * ROUNDING] = 0.0
    return pseudo


@dataclass(frozen=True, eq=False)
class Corpora:
    """The replies of each pair of identities taken together, and the gap of the number that they have as a whole."""

    replies: pd.DataFrame
    number: Corpus
    confidence: float
    known: dict[tuple[str, str], _Numbers] = field(default_factory=dict, init=False)

    def gap(self, cube: NarrativeCube) -> GapEstimate:
        """Estimate δ of the cube's pairs by a jackknife over narratives; NotEstimableError says why not."""
        numbers = self._numbers(cube)
        n, n_asked = len(numbers.complete), len(cube.narrative_ids)
        kept = np.ix_(~cube.baseline_perceiver, ~cube.baseline_experiencer)
        weights = in_group_weights(cube.without_baselines())
        if n < 2 and not cube.without_baselines().expected.all():
            raise NotEstimableError(BY_DESIGN)
        if n < 2:
            raise NotEstimableError(
                f"{n} of {plural(n_asked, 'narrative')} {either(n, 'has', 'have')} a reply to every pair "
                "of identities: too few to take the replies together"
            )
        between, left = numbers.whole[kept], np.stack([one[kept] for one in numbers.without])
        if np.isnan(between).any() or np.isnan(left).any():
            raise NotEstimableError(NO_SUCH_NUMBER)
        pseudo = np.full(n_asked, np.nan)
        pseudo[[name in numbers.complete for name in cube.narrative_ids]] = pseudo_values(between, left, weights)
        rounding = n * ROUNDING
        made = summarise_contrasts(pseudo, rounding=rounding, confidence=self.confidence, n_answers=n * weights.size)
        if not made.not_estimable:
            return made
        return replace(made, not_estimable=f"leaving out any of {n} narratives leaves the same gap: no interval")

    def means(self, cube: NarrativeCube) -> FloatArray:
        """Return the number of each pair between identities, shape (P, E)."""
        return self._numbers(cube).whole[np.ix_(~cube.baseline_perceiver, ~cube.baseline_experiencer)]

    def row(self, cube: NarrativeCube, made: GapEstimate | NotEstimableError, *, n_missing: int) -> dict[str, Any]:
        """Return the gap as a row of ``GAP``; an error is a row without numbers that says why."""
        row = gap_row(
            cube, JACKKNIFE, "narratives", made, headline=JACKKNIFE, confidence=self.confidence, n_missing=n_missing
        )
        n_left_out = 0 if isinstance(made, NotEstimableError) else len(cube.narrative_ids) - made.n_narratives
        left_out = f"{plural(n_left_out, 'narrative')} without a reply to every pair left out" if n_left_out else ""
        return row | {"note": "; ".join(filter(None, (row["note"], left_out)))}

    def cells(self, cube: NarrativeCube) -> pd.DataFrame:
        """Describe the corpus of each pair of identities, baselines included, in columns of ``CELLS``."""
        numbers = self._numbers(cube)
        cells = []
        for (perceiver, experiencer), texts in _by_pair(numbers.replies):
            first = texts.iloc[0]
            number = numbers.whole[cube.perceivers.index(perceiver), cube.experiencers.index(experiencer)]
            cells.append(
                {name: first[name] for name in ("dimension", "variant", "perceiver", "experiencer")}
                | {name: first[name] for name in ("perceiver_group", "experiencer_group", "in_group", "n_shared")}
                | {"mean": number, "sd": np.nan, "n_prompts": len(texts), "n_rated": int(is_scored(texts).sum())}
            )
        return pd.DataFrame(cells).astype({"in_group": "boolean", "n_shared": "Int64"}) if cells else pd.DataFrame()

    def _numbers(self, cube: NarrativeCube) -> _Numbers:
        key = cube.dimension, cube.variant
        if key not in self.known:
            names = complete_ids(cube)
            own = self.replies.loc[
                (self.replies["dimension"] == cube.dimension)
                & (self.replies["variant"] == cube.variant)
                & self.replies["narrative_id"].isin(names)
            ]
            self.known[key] = _Numbers(set(names), *corpus_numbers(cube, own, self.number, names), own)
        return self.known[key]


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers of each pair over the complete narratives, shape (P, E), and without each, shape (n_complete, P, E)."""

    complete: set[Any]
    whole: FloatArray
    without: FloatArray
    replies: pd.DataFrame


def _by_pair(replies: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    yield from replies.groupby(["perceiver", "experiencer"], observed=True, sort=False)
