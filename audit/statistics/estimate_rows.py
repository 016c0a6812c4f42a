"""The estimates of one dimension and variant, and their rows in the tables: one an estimator and scope."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import Labelled, overall_row, overall_scope
from audit.statistics.estimates import GapEstimate
from audit.statistics.headline import complete_gap, headline_gap, with_sign_flips
from audit.statistics.interactions import InteractionVariances, interaction_variances
from audit.statistics.mixed import MixedFit, fit_mixed
from audit.statistics.narrative_fits import design_information
from audit.statistics.planning import equivalence_row, power_row
from audit.statistics.published import PublishedGap, published_cells, published_gap, published_mask, released_matrix
from audit.statistics.scopes import GroupScope, group_scope
from audit.tables.gap import GAP, VARIANCES
from audit.tables.shared import OVERALL

Rows = Iterator[dict[str, Any]]
Made: TypeAlias = GapEstimate | GroupScope | MixedFit | PublishedGap | NotEstimableError

NOT_CONVERGED: Final = "the optimum of the likelihood could not be confirmed"


def child_rng(seed: int, dimension: str, variant: str, statistic: str) -> np.random.Generator:
    """Make the generator of one statistic of one dimension and variant, from the run's seed and these names alone."""
    name = "\n".join((dimension, variant, statistic))
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))


@dataclass(frozen=True)
class Estimates:
    """The estimates of one dimension and variant; in place of each, the reason if there is none."""

    # The headline's: contrast, or mixed if no narrative's own ratings determine its gap (each was rated by one
    # perceiver, say) and the mixed model still has one.
    estimator: str
    headline: GapEstimate | NotEstimableError
    contrast: GapEstimate | NotEstimableError  # narratives' own gaps, pooled
    listwise: GapEstimate | NotEstimableError  # the same for the complete narratives alone
    mixed: MixedFit | NotEstimableError
    published: PublishedGap | NotEstimableError
    interactions: InteractionVariances | NotEstimableError
    # by estimator, contrast and mixed, what it says about any such identities
    scopes: dict[str, GroupScope | NotEstimableError]

    @classmethod
    def of(cls, cube: NarrativeCube, *, seed: int, settings: AnalysisSettings, published: bool = True) -> Estimates:
        """Compute every estimate of a cube with baselines; the seed and the cube's names seed the draws.

        Without ``published`` the study's own arithmetic, which only makes sense for ratings, is left out.
        """
        compared = cube.without_baselines()
        names, n_permutations, confidence = (cube.dimension, cube.variant), settings.n_permutations, settings.confidence

        def contrast() -> GapEstimate:
            rng = child_rng(seed, *names, "contrast")
            return with_sign_flips(
                headline_gap(compared, confidence=confidence), rng=rng, n_permutations=n_permutations
            )

        own = attempt(contrast)
        listwise = attempt(lambda: complete_gap(compared, confidence=confidence))
        mixed = attempt(lambda: fit_mixed(compared))
        in_z: PublishedGap | NotEstimableError = NotEstimableError("not asked for")
        if published:
            in_z = attempt(
                lambda: published_gap(cube, rng=child_rng(seed, *names, "published"), n_permutations=n_permutations)
            )
        scopes: dict[str, GroupScope | NotEstimableError] = {
            "contrast": own
            if isinstance(own, NotEstimableError)
            else group_scope(compared, own, confidence=confidence),
            "mixed": mixed
            if isinstance(mixed, NotEstimableError)
            else group_scope(compared, mixed.estimate(confidence=confidence), confidence=confidence, fit=mixed),
        }
        interactions = attempt(lambda: interaction_variances(compared))
        estimator, headline = "contrast", own
        if isinstance(own, NotEstimableError) and not isinstance(mixed, NotEstimableError):
            estimator, headline = "mixed", mixed.estimate(confidence=confidence)
        return cls(estimator, headline, own, listwise, mixed, in_z, interactions, scopes)

    def without(self, estimator: str) -> tuple[Mapping[str, float], ...]:
        """Return an estimator's δ without each group, by sample of groups; empty if it speaks of pairs alone."""
        scope = self.scopes[estimator]
        return () if isinstance(scope, NotEstimableError) or scope.no_claim else (scope.leave_one_out,)


_NUMBERS: Final = (
    "delta", "se", "df", "ci_low", "ci_high", "p", "p_sign_flip", "d_z", "delta_z", "null_low", "null_high",
)  # fmt: skip
_COUNTS: Final = ("n_narratives", "n_answers")


def gap_rows(cube: NarrativeCube, found: Estimates, *, confidence: float, n_missing: int) -> Rows:
    """Yield the rows of ``GAP``: each estimator in each scope."""
    made: tuple[tuple[str, str | None, Made], ...] = (
        ("contrast", "narratives", found.contrast),
        ("contrast", "narratives_and_terms", found.scopes["contrast"]),
        ("mixed", "narratives", found.mixed),
        ("mixed", "narratives_and_terms", found.scopes["mixed"]),
        ("published", None, found.published),
    )
    for estimator, scope, each in made:
        yield gap_row(
            cube, estimator, scope, each, headline=found.estimator, confidence=confidence, n_missing=n_missing
        )


def gap_row(
    cube: NarrativeCube,
    estimator: str,
    scope: str | None,
    made: Made,
    *,
    headline: str,
    confidence: float,
    n_missing: int,
) -> dict[str, Any]:
    """Return a row of ``GAP``; ``headline`` is the estimator that stands first."""
    known = {
        "dimension": cube.dimension,
        "variant": cube.variant,
        "estimator": estimator,
        "scope": scope,
        "headline": estimator == headline,
        "n_narratives_asked": len(cube.narrative_ids),
        "n_missing": n_missing,
    }
    return _gap_row(known, made, confidence=confidence)


def _gap_row(known: dict[str, Any], made: Made, *, confidence: float) -> dict[str, Any]:
    row = dict.fromkeys(GAP, float("nan")) | dict.fromkeys(_COUNTS, 0) | {"note": ""} | known
    match made:
        case NotEstimableError():
            return row | {"note": str(made)}
        case GroupScope():
            estimate, note = made.estimate, made.note
        case MixedFit():
            estimate, note = made.estimate(confidence=confidence), "" if made.converged else NOT_CONVERGED
        case PublishedGap():
            return row | {name: getattr(made, name) for name in (*_NUMBERS[-3:], *_COUNTS)} | {"note": made.null}
        case GapEstimate():
            estimate, note = made, made.not_estimable
    return row | {name: getattr(estimate, name) for name in (*_NUMBERS[:-3], *_COUNTS)} | {"note": note}


def overall_rows(gap: list[dict[str, Any]], labelled: Mapping[str, list[Labelled]], *, confidence: float) -> Rows:
    """Yield the rows of the mean over single dimensions; those of the second scope if every dimension has one."""
    of_variant: defaultdict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in gap:
        if "+" not in row["dimension"] and row["headline"]:
            of_variant[row["variant"]][row["scope"]].append(row)
    for variant, by_scope in of_variant.items():
        own = by_scope["narratives"]
        if len(own) < 2:
            continue
        parts = {
            name: each for name, estimates in labelled.items() for each in estimates if each.label == variant
        }  # fmt: skip
        made = attempt(lambda own=own, parts=parts: _mean_gap(own, parts, confidence=confidence))  # type: ignore[misc]
        known = {
            "dimension": OVERALL,
            "variant": variant,
            "estimator": "mixed" if any(row["estimator"] == "mixed" for row in own) else "contrast",
            "scope": "narratives",
            "headline": True,
            "n_narratives_asked": len({name for each in parts.values() for name in each.narrative_ids}),
            "n_missing": sum(row["n_missing"] for row in own),
        }
        yield _gap_row(known, made, confidence=confidence)
        wider = by_scope["narratives_and_terms"]
        if len(wider) == len(own):
            yield _wider_row(known | {"scope": "narratives_and_terms"}, made, wider, parts, confidence=confidence)


def _mean_gap(own: list[dict[str, Any]], parts: Mapping[str, Labelled], *, confidence: float) -> GapEstimate:
    """Average the gaps of these dimensions; NotEstimableError if one of them has none."""
    for row in own:
        if row["dimension"] not in parts:
            raise NotEstimableError(f"δ of {row['dimension']} cannot be estimated, and so no mean over dimensions")
    return overall_row(*_contrasts_of(own, parts), confidence=confidence)


def _contrasts_of(
    own: list[dict[str, Any]], parts: Mapping[str, Labelled]
) -> tuple[dict[str, GapEstimate], dict[str, tuple[Any, ...]]]:
    """Estimates and narratives of these dimensions."""
    chosen = {row["dimension"]: parts[row["dimension"]] for row in own}
    return (
        {name: each.estimate for name, each in chosen.items()},
        {name: each.narrative_ids for name, each in chosen.items()},
    )


def _wider_row(
    known: dict[str, Any],
    made: GapEstimate | NotEstimableError,
    wider: list[dict[str, Any]],
    parts: Mapping[str, Labelled],
    *,
    confidence: float,
) -> dict[str, Any]:
    """Row of the mean over dimensions in the second scope; its note says how many groups of each dimension count."""
    if isinstance(made, NotEstimableError):
        return _gap_row(known, made, confidence=confidence)
    by_dimension = {row["dimension"]: row for row in wider}
    estimate = overall_scope(made, by_dimension, *_contrasts_of(wider, parts), confidence=confidence)
    row = _gap_row(known, estimate, confidence=confidence)
    counts = ", ".join(f"{each['df'] + 1:.0f} of {name}" for name, each in by_dimension.items())
    return row if row["note"] else row | {"note": f"groups that count: {counts}"}


def variance_rows(cube: NarrativeCube, found: Estimates) -> Rows:
    """Yield the rows of ``VARIANCES``: from the narratives' own fits, and from the mixed model."""
    nothing = dict.fromkeys(VARIANCES, float("nan")) | {"n_narratives": 0, "n_informative": 0, "n_answers": 0}
    known = {"dimension": cube.dimension, "variant": cube.variant, "note": ""}
    own, contrast = found.interactions, found.contrast
    row = nothing | known | {"estimator": "contrast"}
    if isinstance(own, NotEstimableError):
        row |= {"note": str(own)}
    else:
        row |= {
            "residual_variance": own.residual,
            "narrative_perceiver_variance": own.perceiver,
            "narrative_experiencer_variance": own.experiencer,
            "n_narratives": own.n_narratives,
            "n_answers": own.n_answers,
            "note": own.note,
        }
    if isinstance(contrast, GapEstimate):
        row |= {"slope_variance": contrast.slope_variance, "n_informative": contrast.n_narratives}
    yield row
    row, fit = nothing | known | {"estimator": "mixed"}, found.mixed
    if isinstance(fit, NotEstimableError):
        yield row | {"note": str(fit)}
    else:
        fitted = {name: getattr(fit, name) for name in VARIANCES if hasattr(fit, name)}
        yield row | fitted | {"note": "" if fit.converged else NOT_CONVERGED}


def leave_one_out_rows(cube: NarrativeCube, found: Estimates) -> Rows:
    """Yield the rows of ``LEAVE_ONE_OUT`` for the headline's estimator."""
    scope = found.scopes[found.estimator]
    if isinstance(scope, NotEstimableError):
        return
    known = {"dimension": cube.dimension, "variant": cube.variant, "estimator": found.estimator}
    for group, delta in scope.leave_one_out.items():
        yield known | {"group": group, "delta": delta}


def equivalence_rows(gap: list[dict[str, Any]], settings: AnalysisSettings) -> Rows:
    """Yield the rows of ``EQUIVALENCE``: one for each row of the gap that is in points."""
    for row in gap:
        if row["estimator"] != "published":
            copied = ("dimension", "variant", "estimator", "scope", "delta", "se", "df")
            yield equivalence_row(**{name: row[name] for name in copied}, margin=settings.margin, alpha=settings.alpha)


def power_rows(cube: NarrativeCube, found: Estimates, settings: AnalysisSettings) -> Rows:
    """Yield the row of ``POWER``, if there is a headline."""
    if isinstance(found.headline, NotEstimableError):
        return
    estimate, own = found.headline, found.interactions
    variances = estimate.slope_variance, float("nan") if isinstance(own, NotEstimableError) else own.residual
    slope_sd, residual_sd = (None if np.isnan(variance) else variance**0.5 for variance in variances)
    yield power_row(
        dimension=cube.dimension,
        variant=cube.variant,
        se=estimate.se,
        n_narratives=estimate.n_narratives,
        sum_of_squares=design_information(cube.without_baselines()),
        slope_sd=slope_sd,
        residual_sd=residual_sd,
        wanted=settings.wanted,
        margin=settings.margin,
        power=settings.power,
        alpha=settings.alpha,
        note=estimate.not_estimable,
    )


def published_cell_rows(cube: NarrativeCube) -> Rows:
    """Yield the rows of ``PUBLISHED_CELLS``, one a pair that was asked."""
    of_perceiver, of_experiencer, shown = published_mask(cube)
    z = published_cells(cube)
    n_narratives = int(np.count_nonzero(released_matrix(cube)[0]))
    for p, e in np.argwhere(cube.asked):
        yield {
            "dimension": cube.dimension,
            "variant": cube.variant,
            "perceiver": cube.perceivers[p],
            "experiencer": cube.experiencers[e],
            "z": z[p, e],
            "p_perceiver": of_perceiver[p, e],
            "p_experiencer": of_experiencer[p, e],
            "shown": bool(shown[p, e]),
            "n_narratives": n_narratives,
        }
