"""Controls of δ for the repetition of words: by terms that share no word, and by invented groups.

A gap is one *between groups* if it is there without any repetition of a word, or, where every two terms of a group
share a word, if it goes beyond what the same design shows for groups that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.crossed import crossed_gap
from audit.statistics.echo import echo_free, echo_of_words, same_words_cube, without_echo
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.headline import headline_gap
from audit.statistics.ratings import FloatArray, split_ratings
from audit.tables.controls import CONTROLS

RANDOM_SETS: Final = 4  # with this many sets of invented groups or more, they are taken for a sample of such sets
GapOf: TypeAlias = Callable[[NarrativeCube], GapEstimate]  # estimates δ of a cube, narrative by narrative
Dependent: TypeAlias = Callable[[GapEstimate, Sequence[Any]], tuple[GapEstimate, str]]
"""Gives an estimate over these narrative ids the uncertainty of the units that they are parts of, and a note."""
_NUMBERS: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers")


@dataclass(frozen=True)
class _Gaps:
    """The gap of each narrative of one cube."""

    narrative_ids: tuple[Any, ...]
    estimate: GapEstimate


@dataclass(frozen=True)
class Repetition:
    """What the wordings tell about repeated words, invented groups and the design."""

    # dimension → wording → its stem, if stated; see Overlap.of
    stems: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    placebo: Collection[str] = ()  # sets of invented groups: they are a control, and have no δ of their own
    # dimension → wording → how it tells its group: label, name or context
    cues: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drawn: Collection[str] = ()  # dimensions that asked about a draw of pairs: others are missing by design

    def cube_of(self, ratings: pd.DataFrame, *, dimension: str, variant: str, baselines: bool = False) -> NarrativeCube:
        """Build the cube of ratings as :meth:`NarrativeCube.from_ratings`, by the design of the dimension."""
        return NarrativeCube.from_ratings(
            ratings, dimension=dimension, variant=variant, baselines=baselines, by_design=dimension in self.drawn
        )

    def controlled(
        self, ratings: pd.DataFrame, *, confidence: float, dependent: Dependent | None = None
    ) -> Iterator[tuple[NarrativeCube, pd.DataFrame, list[dict[str, Any]]]]:
        """Yield each dimension and variant with its controls; sets of invented groups have no turn of their own.

        Each is the cube of its ratings with baselines, whose δ is echo-free if its terms allow that; the same as a
        table; and its rows of ``CONTROLS``.
        """
        parts = list(split_ratings(ratings))
        placebos: dict[str, dict[str, NarrativeCube]] = {}
        for dimension, variant, part in parts:
            if dimension in self.placebo:
                cube = self.cube_of(part, dimension=dimension, variant=variant)
                placebos.setdefault(variant, {})[dimension] = cube
        for dimension, variant, part in parts:
            if dimension in self.placebo:
                continue
            cube = self.cube_of(part, dimension=dimension, variant=variant, baselines=True)
            stems = self.stems.get(dimension, {})
            rows = control_rows(
                cube,
                stems=stems,
                placebos=placebos.get(variant, {}),
                placebo_stems=self.stems,
                confidence=confidence,
                n_missing=_n_missing([cube]),
                dependent=dependent,
            )
            yield without_echo(cube, stems), part, list(rows)


def control_rows(
    cube: NarrativeCube,
    *,
    stems: Mapping[str, str],  # of the wordings, if stated; see Overlap.of
    placebos: Mapping[str, NarrativeCube],  # by set of invented groups, the ratings of the same variant
    placebo_stems: Mapping[str, Mapping[str, str]],
    confidence: float,
    n_missing: int,  # prompts between the dimension's identities without a rating
    dependent: Dependent | None = None,  # widens intervals if narratives are not independent
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``CONTROLS`` for the repetition of words.

    They are ``all_terms``, ``echo_free``, ``echo``, ``same_words``, ``placebo`` and ``placebo_difference``. What cannot
    be estimated has a note in place of numbers. ``headline`` marks the row that decides whether δ is a gap between
    groups: ``echo_free`` where there is one, else ``placebo_difference``.

    Notes
    -----
    Real and invented groups are compared in what both have: in-group pairs that repeat the very same words, against
    other groups, ``same_words``. A narrative's placebo gap is the mean over sets; their difference is paired by
    narrative. From :data:`RANDOM_SETS` sets on, narratives and sets are crossed
    (:func:`~audit.statistics.crossed.crossed_gap`); fewer say nothing about other sets, and the interval is of these;
    so it is of any number where narratives are dependent.
    """
    estimate_gap = partial(headline_gap, confidence=confidence)

    def own(which: Callable[[NarrativeCube, Mapping[str, str]], NarrativeCube]) -> GapEstimate | NotEstimableError:
        return attempt(lambda: estimate_gap(which(cube, stems)))

    real = own(same_words_cube)
    sets, refused = _placebo_gaps(placebos, placebo_stems, estimate_gap)
    pool = partial(_pool, confidence=confidence, sampled=dependent is None and len(sets) >= RANDOM_SETS)
    invented = attempt(lambda: _of_sets(sets, refused, cube.narrative_ids, pool))
    difference = (
        attempt(lambda: _paired(real, sets, cube.narrative_ids, pool))
        if not isinstance(real, NotEstimableError) and sets
        else NotEstimableError(str(real if isinstance(real, NotEstimableError) else invented))
    )
    free = own(echo_free)
    made: dict[str, tuple[GapEstimate | NotEstimableError, int]] = {
        "all_terms": (own(lambda each, _: each), 1),
        "echo_free": (free, 1),
        "echo": (own(echo_of_words), 1),
        "same_words": (real, 1),
        "placebo": (invented, len(sets)),
        "placebo_difference": (difference, len(sets)),
    }
    decides = "placebo_difference" if isinstance(free, NotEstimableError) or free.not_estimable else "echo_free"
    for control, (estimate, levels) in made.items():
        missing = _n_missing(placebos.values()) if control == "placebo" else n_missing
        note = ""
        if dependent is not None and isinstance(estimate, GapEstimate):
            estimate, note = dependent(estimate, cube.narrative_ids)
        row = control_row(cube, control, estimate, levels=levels, n_missing=missing, decides=control == decides)
        yield row | {"note": row["note"] or note}


def beyond_placebo(
    real: GapEstimate,
    narrative_ids: Sequence[Any],
    *,
    placebos: Mapping[str, NarrativeCube],
    stems: Mapping[str, Mapping[str, str]],
    confidence: float,
    independent: bool = True,
) -> GapEstimate:
    """Estimate how much further a gap goes than that of invented groups, narrative by narrative.

    ``real`` is a gap of pairs in the very same words (:func:`.same_words_cube`): the average, or that of some
    narratives or of one group. If narratives are not ``independent``, the result speaks of these sets only.
    NotEstimableError if no narrative was asked with both real and invented groups.
    """
    sets, refused = _placebo_gaps(placebos, stems, partial(headline_gap, confidence=confidence))
    if not sets:
        raise NotEstimableError(refused)
    pool = partial(_pool, confidence=confidence, sampled=independent and len(sets) >= RANDOM_SETS)
    return _paired(real, sets, narrative_ids, pool)


def control_row(
    cube: NarrativeCube,
    control: str,
    estimate: GapEstimate | NotEstimableError,
    *,
    levels: int,
    n_missing: int,
    decides: bool = False,
) -> dict[str, Any]:
    """Return one control as a row of ``CONTROLS``; an error is a row without numbers that says why."""
    row = dict.fromkeys(CONTROLS, float("nan")) | {
        "dimension": cube.dimension,
        "variant": cube.variant,
        "control": control,
        "estimator": "contrast",
        "scope": "narratives",
        "headline": decides,
        "n_narratives": 0,
        "n_answers": 0,
        "n_narratives_asked": len(cube.narrative_ids),
        "n_missing": n_missing,
        "levels": levels,
        "note": "",
    }
    if isinstance(estimate, NotEstimableError):
        return row | {"note": str(estimate), "levels": 0}
    return row | {name: getattr(estimate, name) for name in _NUMBERS} | {"note": estimate.not_estimable}


def _placebo_gaps(
    placebos: Mapping[str, NarrativeCube], stems: Mapping[str, Mapping[str, str]], estimate_gap: GapOf
) -> tuple[dict[str, _Gaps], str]:
    """Gaps of every set that has some, and the reason if no set has."""
    sets, reason = {}, "no invented groups were asked about"
    for name, cube in placebos.items():
        try:
            estimate = estimate_gap(same_words_cube(cube, stems.get(name, {})))
        except NotEstimableError as error:
            reason = f"{name}: {error}"
            continue
        sets[name] = _Gaps(cube.narrative_ids, estimate)
    return sets, reason


def _matrix(sets: Mapping[str, _Gaps], narrative_ids: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Gaps and their noise, shape (N, V), of these narratives in every set; NaN where there is none."""
    gaps, noise = np.full((2, len(narrative_ids), len(sets)), np.nan)
    for place, each in enumerate(sets.values()):
        row_of = {name: row for row, name in enumerate(each.narrative_ids)}
        rows = [row_of.get(name, -1) for name in narrative_ids]
        known = np.array(rows) >= 0
        taken = np.array(rows)[known]
        gaps[known, place] = each.estimate.by_narrative[taken]
        noise[known, place] = each.estimate.noise[taken]
    return gaps, noise


def _of_sets(
    sets: Mapping[str, _Gaps], refused: str, narrative_ids: Sequence[Any], pool: Callable[..., GapEstimate]
) -> GapEstimate:
    """δ of the invented groups."""
    if not sets:
        raise NotEstimableError(refused)
    gaps, noise = _matrix(sets, narrative_ids)
    n_answers = sum(each.estimate.n_answers for each in sets.values())
    return pool(gaps, noise, rounding=_rounding(sets), n_answers=n_answers)


def _paired(
    real: GapEstimate, sets: Mapping[str, _Gaps], narrative_ids: Sequence[Any], pool: Callable[..., GapEstimate]
) -> GapEstimate:
    """How much further the gap of real groups goes than that of invented ones, narrative by narrative."""
    gaps, noise = _matrix(sets, narrative_ids)
    return pool(
        real.by_narrative[:, None] - gaps,
        noise,
        own_noise=real.noise,
        rounding=real.rounding + _rounding(sets),
        n_answers=real.n_answers + sum(each.estimate.n_answers for each in sets.values()),
    )


def _pool(
    gaps: FloatArray,
    noise: FloatArray,
    *,
    rounding: float,
    n_answers: int,
    confidence: float,
    sampled: bool,
    own_noise: FloatArray | None = None,
) -> GapEstimate:
    """Average over sets and narratives; if ``sampled``, sets count as a sample of such sets."""
    if sampled:
        return crossed_gap(gaps, confidence=confidence, n_answers=n_answers).estimate
    means = gaps.mean(axis=1)
    if np.isnan(means).all():
        raise NotEstimableError("no narrative was asked with both real and invented groups")
    of_means = noise.mean(axis=1) / gaps.shape[1] + (0.0 if own_noise is None else own_noise)
    means[np.abs(means) <= rounding] = 0.0
    return summarise_contrasts(means, noise=of_means, rounding=rounding, confidence=confidence, n_answers=n_answers)


def _rounding(sets: Mapping[str, _Gaps]) -> float:
    return max(each.estimate.rounding for each in sets.values())


def _n_missing(cubes: Iterable[NarrativeCube]) -> int:
    """Count the prompts between identities without a rating."""
    compared = [cube.without_baselines() for cube in cubes]
    return sum(int(np.count_nonzero((cube.status >= 0) & np.isnan(cube.y))) for cube in compared)
