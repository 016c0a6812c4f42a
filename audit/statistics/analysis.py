"""From ratings to every statistics table, with remarks in words on what limits them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.anchors import anchored_overall, anchored_rows, with_adjusted_p, within_scale
from audit.statistics.average_gaps import Averages, averages_of, placebo_cubes
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import compare_estimates
from audit.statistics.controls import Repetition
from audit.statistics.covariates import FormulaCovariates, covariate_rows
from audit.statistics.disparity import disparity_rows, refusal_rows_and_gaps
from audit.statistics.distributions import cell_emotion_rows, distribution_rows, narrative_rows, null_rows
from audit.statistics.estimate_rows import (
    Estimates,
    child_rng,
    equivalence_rows,
    leave_one_out_rows,
    power_rows,
    published_cell_rows,
    variance_rows,
)
from audit.statistics.estimates import GapEstimate
from audit.statistics.families import adjust_p
from audit.statistics.heterogeneity import heterogeneity_rows
from audit.statistics.inexactness import bounded_overall, bounded_rows
from audit.statistics.missing import missing_rows
from audit.statistics.most_common_answers import mode_rows
from audit.statistics.odd_pairs import odd_pairs
from audit.statistics.outcome import INTENSITY, DimensionAnalysis, analyse_outcome
from audit.statistics.published import PublishedGap
from audit.statistics.ratings import FloatArray, compact_ratings, without_dimensions
from audit.statistics.remarks import OWN_STORIES, Remark, remarks_of
from audit.statistics.sensitivity import sensitivity_rows
from audit.statistics.status_counts import outcome_table
from audit.statistics.unexplained_missing import rows_without_reasons, without_reasons
from audit.statistics.wordings import cube_of_prompts
from audit.tables.run_of_ratings import TABLES
from stimuli.covariates import GroupCovariates

_CUES: Final = {"label": "its label", "name": "a first name", "context": "what its members do"}
_EARLIER: Final = {"earlier_turn": "its label in an earlier turn"}  # of models without a perceiver alone


@dataclass(frozen=True, eq=False)
class Analysis:
    """All statistics of a run."""

    tables: dict[str, pd.DataFrame]  # unrounded; NaN where something does not apply or cannot be estimated
    remarks: tuple[Remark, ...]
    averages: Averages


def analyse(
    ratings: pd.DataFrame,
    *,
    scales: Mapping[str, tuple[float, float]],  # the lower and the upper end of each variant's scale, in points
    seed: int,  # with the names of dimension and variant, so that the other ratings do not alter a p
    settings: AnalysisSettings | None = None,
    valence: Mapping[str, str] | None = None,  # emotion → positive, negative or neutral
    clusters: Mapping[str, Mapping[str, str]] | None = None,  # dimension → group → cultural cluster
    # tells repeated words from groups; invented groups are in `controls` and in no other table
    repetition: Repetition | None = None,
    sees_refusals: bool = True,  # whether these ratings can show a refusal
    reasons_known: bool = True,  # whether statuses say why a rating is missing; else nothing is told by reason
    replicates: bool = False,  # whether `null` has the gaps of shuffled matrices, as the study's histogram
    covariates: GroupCovariates | None = None,  # a user's numbers of groups or of pairs of groups
    narratives: pd.DataFrame | None = None,  # rows of NARRATIVE_COVARIATES, for the formula
) -> Analysis:
    """Compute every table of statistics from the ratings, dimension by dimension and variant by variant.

    What cannot be estimated is a row of NaN and a note or remark that says why; never an exception. A formula of the
    user's own that cannot be used raises ConfigError.

    For a prompt in several wordings the estimates use the mean over its rated wordings; tables that count prompts
    (``cells``, ``outcomes``, ``missing``, ``modes``, ``distributions``) count each, and ``controls`` has the interval
    for any such wordings.
    """
    settings = settings or AnalysisSettings()
    told = repetition or Repetition()
    compact = compact_ratings(ratings)
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    frames: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
    remarks: list[Remark] = []
    found = analyse_outcome(INTENSITY, compact, seed=seed, settings=settings, repetition=told)
    for part in found.parts:
        cube = part.cube
        if cube.variant not in scales:
            raise ValueError(
                f"the ratings hold variant {cube.variant!r}, of which no scale is given; there are: {', '.join(scales)}"
            )
        frames["cells"].append(part.cells())
        rows["controls"] += part.controls()
        rows["families"] += part.families(valence, clusters)
        if covariates is not None:
            rows["covariates"] += covariate_rows(
                cube, covariates, seed=seed, n_permutations=settings.n_permutations, confidence=settings.confidence
            )
        rows["odd_pairs"] += [
            {"dimension": cube.dimension, "variant": cube.variant, **asdict(pair)}
            for pair in odd_pairs(cube.without_baselines())
        ]
        remarks += _of_ratings(part, scales[cube.variant], seed, rows, frames, reasons_known=reasons_known)
        if cube.own_stories:
            remarks.append(Remark(cube.dimension, cube.variant, "own_stories", OWN_STORIES))
        remarks += _on_cues(cube, told.cues.get(cube.dimension, {}))
        if replicates and isinstance(part.estimates.published, PublishedGap):
            rows["null"] += null_rows(cube, part.estimates.published.shuffled)
    rows["disparity"] += disparity_rows(found, scales=scales, settings=settings, repetition=told)
    rows["disparity"] += refusal_rows_and_gaps(found, settings=settings, repetition=told)[0] if sees_refusals else ()
    overall = list(bounded_overall(list(anchored_overall(found.overall, rows["gap"], scales)), rows["gap"]))
    rows["gap"] = list(with_adjusted_p([*rows["gap"], *overall]))
    rows["heterogeneity"] = _corrected(rows["heterogeneity"])
    rows["equivalence"] += equivalence_rows(overall, settings)
    for dimension, estimates in found.labelled.items():
        in_points = [replace(each, scale=scales[each.label]) for each in estimates]
        rows["comparisons"] += compare_estimates(in_points, dimension=dimension, confidence=settings.confidence)
    tables = {name: pd.DataFrame(rows[name], columns=list(columns)) for name, columns in TABLES.items()}
    tables |= {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}
    lengths = {variant: abs(high - low) for variant, (low, high) in scales.items()}
    tables = within_scale(tables, TABLES, lengths)
    if not reasons_known:
        tables |= {name: without_reasons(tables[name]) for name in ("cells", "cell_emotions")}
    if settings.formula is not None:
        of_groups = without_dimensions(compact, told.placebo)
        tables["own_model"] = _own_model(
            of_groups, settings.formula, settings, FormulaCovariates(covariates, narratives)
        )
    averages = averages_of(
        found, placebos=placebo_cubes(compact, told), scales=scales, seed=seed, settings=settings,
        repetition=told, sees_refusals=sees_refusals,
    )  # fmt: skip
    return Analysis(tables=tables, remarks=tuple(remarks), averages=averages)


def _of_ratings(
    part: DimensionAnalysis,
    scale: tuple[float, float],
    seed: int,
    rows: defaultdict[str, list[dict[str, Any]]],
    frames: defaultdict[str, list[pd.DataFrame]],
    *,
    reasons_known: bool,
) -> list[Remark]:
    """Add the tables that only ratings have to ``rows`` and ``frames``; return the remarks."""
    cube, found, settings, (low, high) = part.cube, part.estimates, part.settings, scale
    confidence, min_number_mass = settings.confidence, settings.min_number_mass
    outcomes = outcome_table(part.prompts, low=low, high=high, min_number_mass=min_number_mass)
    every = cube
    if part.worded is not None:
        every = cube_of_prompts(part.prompts, dimension=cube.dimension, variant=cube.variant)
        rows["wordings"] += part.wordings()
        rows["wording_shares"] += part.wording_shares()
    missing = list(missing_rows(cube, confidence=confidence))
    if not reasons_known:
        outcomes, missing = without_reasons(outcomes), list(rows_without_reasons(missing))
    gap = list(bounded_rows(list(anchored_rows(part.gap, cube, scale=scale)), cube, found.headline))
    rows["gap"] += gap
    rows["variances"] += variance_rows(cube, found)
    rows["leave_one_out"] += leave_one_out_rows(cube, found)
    rows["equivalence"] += equivalence_rows(gap, settings)
    rows["power"] += power_rows(cube, found, settings)
    rows["missing"] += missing
    rows["heterogeneity"] += heterogeneity_rows(
        cube,
        _contrasts(cube, found),
        rng=child_rng(seed, cube.dimension, cube.variant, "heterogeneity"),
        n_permutations=settings.n_permutations,
        confidence=confidence,
    )
    rows["modes"] += mode_rows(every)
    sensitivity = list(
        sensitivity_rows(
            cube,
            headline=found.headline,
            low=low,
            high=high,
            confidence=confidence,
            min_number_mass=min_number_mass,
            every=settings.sensitivity,
        )
        if cube.has_perceivers
        else ()
    )
    rows["sensitivity"] += sensitivity
    rows["cell_emotions"] += cell_emotion_rows(cube)
    rows["narratives"] += narrative_rows(cube, _contrasts(cube, found))
    rows["distributions"] += distribution_rows(every, low=low, high=high)
    rows["published_cells"] += published_cell_rows(cube)
    frames["outcomes"].append(outcomes)
    return list(
        remarks_of(
            cube,
            found,
            outcomes=outcomes,
            missing=missing,
            sensitivity=sensitivity,
            low=low,
            high=high,
            min_number_mass=min_number_mass,
        )
    )


def _corrected(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Correct the p of all tests of heterogeneity by Holm."""
    adjusted, _ = adjust_p([row["p"] for row in rows], method="Holm")
    return [{**row, "p_adjusted": p} for row, p in zip(rows, adjusted.tolist(), strict=True)]


def _contrasts(cube: NarrativeCube, found: Estimates) -> FloatArray:
    """Each narrative's own gap, shape (N,); NaN where its ratings do not determine it."""
    if isinstance(found.contrast, GapEstimate):
        return found.contrast.by_narrative
    return np.full(len(cube.narrative_ids), np.nan)


def _on_cues(cube: NarrativeCube, cues: Mapping[str, str]) -> Iterator[Remark]:
    """Yield a remark if all wordings tell their group in one way, or if groups without a δ are told in other ways."""
    used = {cues[term] for term in (*cube.perceivers, *cube.experiencers) if term in cues}
    if len(used) == 1:
        way = (_CUES | _EARLIER)[used.pop()]
        others = " or ".join(each for each in _CUES.values() if each != way)
        yield Remark(
            cube.dimension,
            cube.variant,
            "one_cue",
            f"Every term names its group by {way}. Naming it by {others} may give another result.",
        )
    elif not cube.has_perceivers:
        told: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for term, group in zip(cube.experiencers, cube.experiencer_groups, strict=True):
            if term in cues:
                told[group][cues[term]] += 1
        if len({frozenset(each.items()) for each in told.values()}) > 1:
            yield Remark(
                cube.dimension,
                cube.variant,
                "uneven_cues",
                "Groups are not told in the same ways: some have more first names, say. A difference between groups "
                "may be one between these ways. Compare groups that are told alike (stimuli.cues=[label]).",
            )


def _own_model(
    compact: pd.DataFrame, formula: str, settings: AnalysisSettings, covariates: FormulaCovariates
) -> pd.DataFrame:
    # Imported here: statsmodels and patsy take a second, and only a formula needs them.
    from audit.statistics.own_model import own_model_table

    return own_model_table(
        compact,
        formula=formula,
        fit=settings.fit,
        random=settings.random,
        cluster=settings.cluster,
        confidence=settings.confidence,
        covariates=covariates,
    )
