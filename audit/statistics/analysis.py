"""From ratings to every statistics table, with remarks in words on what limits them."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.schema import DEGREES, GAP, TABLES
from audit.statistics.cells import NarrativeCube, cell_table
from audit.statistics.contrasts import degree_gaps, gap_by_narrative
from audit.statistics.estimates import GapEstimate
from audit.statistics.outcomes import outcome_table
from audit.statistics.published import PublishedGap, published_gap
from audit.statistics.ratings import split_ratings

COMPLETE_SHARE: Final = 0.8
"""Below this share of complete narratives, leaving the others out may bias δ."""
END_SHARE: Final = 0.1
"""Above this share of ratings at an end of the scale, a gap is squeezed or, with main effects, made up."""
REFUSAL_GAP: Final = 0.01
"""Above this difference of refusal rates between in-group and out-group, what is missing is no accident."""
NUMBER_MASS: Final = 0.5
"""Below this probability of answering with a number, an expected value speaks of the lesser part of the answer."""


@dataclass(frozen=True)
class Remark:
    """What a reader must know before trusting the numbers of one dimension and variant.

    Attributes
    ----------
    dimension, variant
        What it is about.
    code
        ``nothing_rated``, ``not_estimable``, ``no_interval``, ``published_not_estimable``, ``incomplete_narratives``,
        ``scale_end``, ``refusal_gap`` or ``number_mass``.
    text
        The remark, in words.
    """

    dimension: str
    variant: str
    code: str
    text: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """All statistics of a run.

    Attributes
    ----------
    tables
        ``gap``, ``degrees``, ``cells`` and ``outcomes``, with the columns of ``schema.TABLES``; unrounded, NaN where
        something does not apply or can not be estimated.
    remarks
        In the order of the tables.
    """

    tables: dict[str, pd.DataFrame]
    remarks: tuple[Remark, ...]


def analyse(
    ratings: pd.DataFrame,
    *,
    scales: Mapping[str, tuple[float, float]],
    seed: int,
    n_permutations: int = 10_000,
    confidence: float = 0.95,
) -> Analysis:
    """Compute every table of statistics from the ratings, dimension by dimension and variant by variant.

    Parameters
    ----------
    ratings
        Columns of ``schema.RATINGS``, one row a prompt. Not modified.
    scales
        The lower and the upper end of each variant's scale, in points.
    seed
        With the names of dimension and variant it seeds each one's draws, so that what else is in the ratings does not
        alter a p.
    n_permutations
        Draws of the sign-flip test and of the published null.
    confidence
        Coverage of the intervals.

    Returns
    -------
    Analysis
        A δ that can not be estimated is a row of NaN and a remark that says why; never an exception.

    Raises
    ------
    ValueError
        If a variant has no scale, a prompt occurs twice, or the ratings contradict themselves.
    """
    gap: list[dict[str, Any]] = []
    degrees: list[dict[str, Any]] = []
    cells: list[pd.DataFrame] = []
    outcomes: list[pd.DataFrame] = []
    remarks: list[Remark] = []
    for dimension, variant, part in split_ratings(ratings):
        if variant not in scales:
            raise ValueError(
                f"the ratings hold variant {variant!r}, of which no scale is given; there are: {', '.join(scales)}"
            )
        low, high = scales[variant]
        cube = NarrativeCube.from_ratings(part, dimension=dimension, variant=variant, baselines=True)
        of_part = outcome_table(part, low=low, high=high)
        estimates = _Estimates.of(cube, seed=seed, n_permutations=n_permutations, confidence=confidence)
        gap.extend(_gap_rows(cube, estimates, n_missing=_n_missing(of_part)))
        degrees.extend(_degree_rows(cube, estimates))
        cells.append(cell_table(part))
        outcomes.append(of_part)
        remarks.extend(
            Remark(dimension=dimension, variant=variant, code=code, text=text)
            for code, text in _remarks(estimates, of_part, low=low, high=high)
        )
    tables = {"gap": pd.DataFrame(gap, columns=list(GAP)), "degrees": pd.DataFrame(degrees, columns=list(DEGREES))}
    for name, parts in (("cells", cells), ("outcomes", outcomes)):
        tables[name] = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(TABLES[name]))
    return Analysis(tables=tables, remarks=tuple(remarks))


def child_rng(seed: int, dimension: str, variant: str, statistic: str) -> np.random.Generator:
    """Make the generator of one statistic of one dimension and variant, from the run's seed and these names alone."""
    name = "\n".join((dimension, variant, statistic))
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))


@dataclass(frozen=True)
class _Estimates:
    """The estimates of one dimension and variant, or in their place the reason why there is none."""

    contrast: GapEstimate | NotEstimableError
    published: PublishedGap | NotEstimableError
    degrees: dict[int, GapEstimate]

    @classmethod
    def of(cls, cube: NarrativeCube, *, seed: int, n_permutations: int, confidence: float) -> _Estimates:
        contrast: GapEstimate | NotEstimableError
        published: PublishedGap | NotEstimableError
        degrees: dict[int, GapEstimate] = {}
        options: dict[str, Any] = {"n_permutations": n_permutations, "confidence": confidence}
        try:
            contrast = gap_by_narrative(cube, rng=child_rng(seed, cube.dimension, cube.variant, "contrast"), **options)
        except NotEstimableError as error:
            contrast = error
        if (cube.n_shared != cube.in_group).any():  # of a single dimension, sharing one is being in-group
            try:
                degrees = degree_gaps(cube, rng=child_rng(seed, cube.dimension, cube.variant, "degrees"), **options)
            except NotEstimableError:
                degrees = {}
        try:
            rng = child_rng(seed, cube.dimension, cube.variant, "published")
            published = published_gap(cube, rng=rng, n_permutations=n_permutations)
        except NotEstimableError as error:
            published = error
        return cls(contrast=contrast, published=published, degrees=degrees)


_CONTRAST_FIELDS: Final = ("delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_ratings")
_PUBLISHED_FIELDS: Final = ("delta_z", "null_low", "null_high", "n_narratives", "n_ratings")


def _gap_rows(cube: NarrativeCube, estimates: _Estimates, *, n_missing: int) -> Iterator[dict[str, Any]]:
    """Rows of ``schema.GAP``: the contrast's and the published one's."""
    for name, scope, fields, estimate in (
        ("contrast", "narratives", _CONTRAST_FIELDS, estimates.contrast),
        ("published", None, _PUBLISHED_FIELDS, estimates.published),
    ):
        row: dict[str, Any] = {"dimension": cube.dimension, "variant": cube.variant, "estimator": name, "scope": scope}
        row |= dict.fromkeys((*_CONTRAST_FIELDS, *_PUBLISHED_FIELDS), float("nan"))
        row |= {
            "n_narratives": 0,
            "n_ratings": 0,
            "n_narratives_asked": len(cube.narrative_ids),
            "n_missing": n_missing,
        }
        if not isinstance(estimate, NotEstimableError):
            row |= {field: getattr(estimate, field) for field in fields}
        yield row


def _degree_rows(cube: NarrativeCube, estimates: _Estimates) -> Iterator[dict[str, Any]]:
    """Rows of ``schema.DEGREES``, of an intersection only."""
    compared = cube.without_baselines()
    for degree, estimate in sorted(estimates.degrees.items()):
        yield {
            "dimension": cube.dimension,
            "variant": cube.variant,
            "n_shared": degree,
            **{field: getattr(estimate, field) for field in ("delta_points", "se", "df", "ci_low", "ci_high")},
            "n_pairs": int(np.count_nonzero(compared.n_shared == degree)),
            "n_narratives": estimate.n_narratives,
        }


def _n_missing(outcomes: pd.DataFrame) -> int:
    """Prompts without a rating between identities, baselines left out."""
    between = outcomes.loc[outcomes["pairs"].isin(("in_group", "out_group"))]
    return int(between["n_prompts"].sum() - between["n_rated"].sum())


def _remarks(estimates: _Estimates, outcomes: pd.DataFrame, *, low: float, high: float) -> Iterator[tuple[str, str]]:
    """Code and text of what limits one dimension and variant."""
    of_pairs: dict[str, dict[Hashable, Any]] = {row["pairs"]: row for row in outcomes.to_dict("records")}
    total = of_pairs["all"]
    if total["n_rated"] == 0:
        yield (
            "nothing_rated",
            f"None of {total['n_prompts']} prompts has a rating ({total['n_refused']} refused, "
            f"{total['n_unparseable']} unparseable, {total['n_failed']} failed): there is no δ.",
        )
    else:
        yield from _estimate_remarks(estimates)
    for share, end in ((total["floor_share"], low), (total["ceiling_share"], high)):
        if share > END_SHARE:
            yield (
                "scale_end",
                f"{share:.0%} of the ratings are at the end {end:g} of the scale: δ is squeezed there, and identities "
                "that are rated high or low throughout can make a gap that is not one.",
            )
    if {"in_group", "out_group"} <= set(of_pairs):
        in_group, out_group = of_pairs["in_group"]["refusal_rate"], of_pairs["out_group"]["refusal_rate"]
        if abs(in_group - out_group) > REFUSAL_GAP:
            yield (
                "refusal_gap",
                f"The model refused to rate {in_group:.1%} of in-group and {out_group:.1%} of out-group prompts: what "
                "is missing is not missing at random, and the refusals are a finding of their own.",
            )
    if total["mean_number_mass"] < NUMBER_MASS:
        yield (
            "number_mass",
            f"On average the model gives a probability of only {total['mean_number_mass']:.2f} to answering with a "
            "number of the scale: the ratings speak of the lesser part of what it would say.",
        )


def _estimate_remarks(estimates: _Estimates) -> Iterator[tuple[str, str]]:
    contrast, published = estimates.contrast, estimates.published
    if isinstance(contrast, NotEstimableError):
        yield "not_estimable", f"δ can not be estimated: {contrast}."
    else:
        if contrast.not_estimable:
            yield "no_interval", f"δ has no standard error and no interval: {contrast.not_estimable}."
        if contrast.n_narratives < COMPLETE_SHARE * contrast.n_narratives_asked:
            share = contrast.n_narratives / contrast.n_narratives_asked
            yield (
                "incomplete_narratives",
                f"Only {contrast.n_narratives} of {contrast.n_narratives_asked} narratives ({share:.0%}) have a rating "
                "for every pair of identities. δ uses these alone, and may be biased if what is missing depends on the "
                "pair.",
            )
    if isinstance(published, NotEstimableError) and str(published) != str(contrast):
        yield "published_not_estimable", f"The published δ_z can not be computed: {published}."
