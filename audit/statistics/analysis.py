"""From ratings to every statistics table, with remarks in words on what limits them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.anchors import anchored_overall, anchored_rows, with_adjusted_p
from audit.statistics.cells import NarrativeCube, cell_table
from audit.statistics.comparisons import Labelled, compare
from audit.statistics.controls import Repetition
from audit.statistics.distributions import cell_emotion_rows, distribution_rows, narrative_rows, null_rows
from audit.statistics.echo import echo_free
from audit.statistics.estimates import GapEstimate
from audit.statistics.families import adjust_p, family_rows
from audit.statistics.heterogeneity import heterogeneity_rows
from audit.statistics.missing import missing_rows
from audit.statistics.missing_grid import missing_grid_rows
from audit.statistics.modes import mode_rows
from audit.statistics.outcomes import outcome_table
from audit.statistics.published import PublishedGap
from audit.statistics.ratings import FloatArray, compact_ratings, without_dimensions
from audit.statistics.remarks import Remark, remarks_of
from audit.statistics.rows import (
    Estimates,
    Settings,
    child_rng,
    equivalence_rows,
    gap_rows,
    leave_one_out_rows,
    overall_rows,
    power_rows,
    published_cell_rows,
    variance_rows,
)
from audit.statistics.sensitivity import sensitivity_rows
from audit.statistics.wordings import Worded, cube_of_prompts
from audit.tables.registry import TABLES

_CUES: Final = {"label": "its label", "name": "a first name", "context": "what its members do"}


@dataclass(frozen=True, eq=False)
class Analysis:
    """All statistics of a run.

    Attributes
    ----------
    tables
        By name, with the columns of ``tables.TABLES``; unrounded, NaN where something does not apply or can not be
        estimated. ``own_model`` and ``comparisons`` may have no rows.
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
    settings: Settings | None = None,
    valence: Mapping[str, str] | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    repetition: Repetition | None = None,
) -> Analysis:
    """Compute every table of statistics from the ratings, dimension by dimension and variant by variant.

    Parameters
    ----------
    ratings
        Columns of ``tables.RATINGS``, one row a prompt. Not modified. Of a prompt in several wordings the estimates
        are of the mean over its rated wordings; what counts prompts (``cells``, ``outcomes``, ``missing``, ``modes``,
        ``distributions``) counts each, and ``controls`` has the interval for any such wordings.
    scales
        The lower and the upper end of each variant's scale, in points.
    seed
        With the names of dimension and variant it seeds each one's draws, so that what else is in the ratings does not
        alter a p.
    settings
        How; None takes the defaults.
    valence
        Emotion → positive, negative or neutral.
    clusters
        Dimension → group → cultural cluster.
    repetition
        What tells repeated words from groups; sets of invented groups are in ``controls`` and in no other table.

    Returns
    -------
    Analysis
        What can not be estimated is a row of NaN and a note or remark that says why; never an exception.

    Raises
    ------
    ConfigError
        If the user's own formula can not be used.
    ValueError
        If a variant has no scale, a prompt occurs twice, or the ratings contradict themselves.
    """
    settings = settings or Settings()
    compact = compact_ratings(ratings)
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    frames: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
    remarks: list[Remark] = []
    labelled: defaultdict[str, list[Labelled]] = defaultdict(list)
    told = repetition or Repetition()
    for cube, part, controls in told.controlled(compact, confidence=settings.confidence):
        dimension, variant = cube.dimension, cube.variant
        if variant not in scales:
            raise ValueError(
                f"the ratings hold variant {variant!r}, of which no scale is given; there are: {', '.join(scales)}"
            )
        low, high = scales[variant]
        rows["controls"] += controls
        outcomes = outcome_table(part, low=low, high=high, min_number_mass=settings.min_number_mass)
        found = Estimates.of(cube, seed=seed, settings=settings)
        # A wording whose ratings do not allow what the headline is of has no δ, and no other one.
        within = partial(echo_free if cube.nuisance is not None else _whole, stems=told.stems.get(dimension, {}))
        worded = Worded.of(part, cube, within=within, confidence=settings.confidence)
        every = cube
        if worded is not None:
            every = cube_of_prompts(part, dimension=dimension, variant=variant)
            rows["controls"].append(worded.control(n_missing=_n_missing(outcomes)))
            rows["wordings"] += worded.rows()
            rows["wording_shares"] += worded.shares(found.scopes["contrast"], found.contrast)
            rows["wording_splits"] += worded.splits()
        missing = list(missing_rows(cube, confidence=settings.confidence))
        made = list(gap_rows(cube, found, confidence=settings.confidence, n_missing=_n_missing(outcomes)))
        gap = list(anchored_rows(made, cube, scale=(low, high)))
        rows["gap"] += gap
        rows["variances"] += variance_rows(cube, found)
        rows["leave_one_out"] += leave_one_out_rows(cube, found)
        rows["equivalence"] += equivalence_rows(gap, settings)
        rows["power"] += power_rows(cube, found, settings)
        rows["missing"] += missing
        rows["families"] += family_rows(
            cube,
            confidence=settings.confidence,
            valence=valence or {},
            clusters=(clusters or {}).get(dimension, {}),
            cues=told.cues.get(dimension, {}),
        )
        rows["heterogeneity"] += heterogeneity_rows(
            cube,
            _contrasts(cube, found),
            rng=child_rng(seed, dimension, variant, "heterogeneity"),
            n_permutations=settings.n_permutations,
            confidence=settings.confidence,
        )
        rows["modes"] += mode_rows(every)
        sensitivity = list(
            sensitivity_rows(
                cube,
                headline=found.headline,
                low=low,
                high=high,
                confidence=settings.confidence,
                min_number_mass=settings.min_number_mass,
            )
        )
        rows["sensitivity"] += sensitivity
        if found.estimator == "contrast" and isinstance(found.headline, GapEstimate):
            rows["missing_grid"] += missing_grid_rows(
                cube, found.headline, low=low, high=high, confidence=settings.confidence
            )
        rows["cell_emotions"] += cell_emotion_rows(cube)
        rows["narratives"] += narrative_rows(cube, _contrasts(cube, found))
        rows["distributions"] += distribution_rows(every, low=low, high=high)
        if isinstance(found.published, PublishedGap):
            rows["null"] += null_rows(cube, found.published.shuffled)
        rows["published_cells"] += published_cell_rows(cube)
        frames["cells"].append(cell_table(part))
        frames["outcomes"].append(outcomes)
        remarks += remarks_of(
            cube,
            found,
            outcomes=outcomes,
            missing=missing,
            sensitivity=sensitivity,
            low=low,
            high=high,
            min_number_mass=settings.min_number_mass,
        )
        remarks += _on_cues(cube, told.cues.get(dimension, {}))
        if isinstance(found.headline, GapEstimate):
            ids = cube.narrative_ids
            labelled[dimension].append(Labelled(variant, found.headline, ids, (low, high)))
    means = list(overall_rows(rows["gap"], labelled, confidence=settings.confidence))
    overall = list(anchored_overall(means, rows["gap"], scales))
    rows["gap"] = list(with_adjusted_p([*rows["gap"], *overall]))
    rows["heterogeneity"] = _corrected(rows["heterogeneity"])
    rows["equivalence"] += equivalence_rows(overall, settings)
    for dimension, estimates in labelled.items():
        rows["comparisons"] += compare(estimates, dimension=dimension, confidence=settings.confidence)
    tables = {name: pd.DataFrame(rows[name], columns=list(columns)) for name, columns in TABLES.items()}
    tables |= {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}
    if settings.formula is not None:
        of_groups = without_dimensions(compact, told.placebo)
        tables["own_model"] = _own_model(of_groups, settings.formula, settings)
    return Analysis(tables=tables, remarks=tuple(remarks))


def _corrected(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Correct the p of all tests of heterogeneity by Holm."""
    adjusted, _ = adjust_p([row["p"] for row in rows], method="Holm")
    return [{**row, "p_adjusted": p} for row, p in zip(rows, adjusted.tolist(), strict=True)]


def _contrasts(cube: NarrativeCube, found: Estimates) -> FloatArray:
    """Each narrative's own gap; NaN where its ratings do not tell it."""
    if isinstance(found.contrast, GapEstimate):
        return found.contrast.by_narrative
    return np.full(len(cube.narrative_ids), np.nan)


def _whole(cube: NarrativeCube, stems: Mapping[str, str]) -> NarrativeCube:
    del stems
    return cube


def _on_cues(cube: NarrativeCube, cues: Mapping[str, str]) -> Iterator[Remark]:
    """Say so where all wordings tell their group in one way."""
    used = {cues[term] for term in (*cube.perceivers, *cube.experiencers) if term in cues}
    if len(used) == 1:
        way = _CUES[used.pop()]
        others = " or ".join(each for each in _CUES.values() if each != way)
        yield Remark(
            cube.dimension,
            cube.variant,
            "one_cue",
            f"Every term tells its group by {way}: told by {others}, the gap may be another one.",
        )


def _n_missing(outcomes: pd.DataFrame) -> int:
    """Prompts without a rating between identities, baselines left out."""
    between = outcomes.loc[outcomes["pairs"].isin(("in_group", "out_group"))]
    return int(between["n_prompts"].sum() - between["n_rated"].sum())


def _own_model(compact: pd.DataFrame, formula: str, settings: Settings) -> pd.DataFrame:
    # Imported here: statsmodels and patsy take a second, and only a formula needs them.
    from audit.statistics.own_model import own_model_table

    return own_model_table(
        compact,
        formula=formula,
        fit=settings.fit,
        random=settings.random,
        cluster=settings.cluster,
        confidence=settings.confidence,
    )
