"""The same prompts in several wordings: δ in each, an interval for any such wordings, and what δ varies with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import control_row
from audit.statistics.crossed import Crossed, crossed_gap
from audit.statistics.estimates import GapEstimate, without_interval
from audit.statistics.headline import headline_gap
from audit.statistics.ratings import FloatArray
from audit.statistics.scopes import GroupScope
from audit.tables.controls import WORDINGS
from audit.tables.formatting import plural

_NUMBERS: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers")


def wording_cubes(
    part: pd.DataFrame, *, dimension: str, variant: str, baselines: bool = False
) -> dict[int, NarrativeCube]:
    """Build a cube for each wording of compacted ratings, the original first; empty if there is one wording."""
    wordings = part["wording"].to_numpy()
    found = np.unique(wordings).tolist()
    return {
        wording: NarrativeCube.from_ratings(
            part.iloc[np.flatnonzero(wordings == wording)], dimension=dimension, variant=variant, baselines=baselines
        )
        for wording in (found if len(found) > 1 else ())
    }


def cube_of_prompts(part: pd.DataFrame, *, dimension: str, variant: str) -> NarrativeCube:
    """Build a cube of every prompt by itself, baselines included: a narrative in another wording is another narrative.

    It serves to count statuses of prompts; it says nothing about how narratives differ.
    """
    wordings = part["wording"].to_numpy().astype(np.int64)
    keys = part["narrative_id"].array.codes.astype(np.int64) * (int(wordings.max()) + 1) + wordings
    codes, _ = pd.factorize(keys)
    apart = pd.Categorical.from_codes(codes, categories=pd.RangeIndex(int(codes.max()) + 1))
    return NarrativeCube.from_ratings(
        part.assign(narrative_id=apart, wording=np.int16(0)), dimension=dimension, variant=variant, baselines=True
    )


MIN_WORDINGS: Final = 8
"""With four wordings, one of them odd, the interval for any such wordings leaves out 0 in 45% of runs without a gap."""


def crossed_over_wordings(gaps: FloatArray, *, confidence: float, n_answers: int) -> Crossed:
    """Cross narratives and wordings by :func:`~audit.statistics.crossed.crossed_gap`; of few there is no interval."""
    crossed = crossed_gap(gaps, confidence=confidence, n_answers=n_answers)
    n = gaps.shape[1]
    if n >= MIN_WORDINGS:
        return crossed
    why = f"{plural(n, 'wording')} are too few to speak about others: that takes {MIN_WORDINGS}"
    return replace(crossed, estimate=without_interval(crossed.estimate, why))


@dataclass(frozen=True, eq=False)
class WordingGaps:
    """Gaps of narratives in each wording."""

    cube: NarrativeCube  # the ratings averaged over wordings, which give the narratives their order
    estimates: dict[int, GapEstimate | NotEstimableError]  # δ by wording, or why there is none
    gaps: FloatArray  # shape (N, V), in points; NaN where a narrative has no gap in a wording
    crossed: Crossed | NotEstimableError  # the estimate for any such wordings, or why there is none

    @classmethod
    def of(
        cls,
        part: pd.DataFrame,
        cube: NarrativeCube,
        *,
        within: Callable[[NarrativeCube], NarrativeCube] = lambda each: each,
        confidence: float,
    ) -> WordingGaps | None:
        """Estimate δ in each wording; None if there is one wording.

        ``part`` are compacted ratings of one dimension and variant, ``cube`` the same averaged over wordings.
        ``within`` turns a wording's cube into the one that δ is estimated in.

        Notes
        -----
        A narrative's gap in a wording is that of :func:`~audit.statistics.headline.headline_gap` by the wording's own
        ratings, so that how high a wording is rated as such cancels even where ratings are missing. The interval for
        any such wordings is of narratives that have a gap in every wording.
        """
        cubes = wording_cubes(part, dimension=cube.dimension, variant=cube.variant)
        if not cubes:
            return None
        row_of = {name: row for row, name in enumerate(cube.narrative_ids)}
        estimates: dict[int, GapEstimate | NotEstimableError] = {}
        gaps, n_rated = np.full((len(row_of), len(cubes)), np.nan), np.zeros((len(row_of), len(cubes)), dtype=np.int64)
        for place, (wording, own) in enumerate(cubes.items()):
            rows = [row_of[name] for name in own.narrative_ids]
            n_rated[rows, place] = np.count_nonzero(~np.isnan(own.y), axis=(1, 2))
            try:
                estimate = headline_gap(within(own), confidence=confidence)
            except NotEstimableError as error:
                estimates[wording] = error
                continue
            estimates[wording] = estimate
            gaps[rows, place] = estimate.by_narrative
        complete = ~np.isnan(gaps).any(axis=1)
        crossed: Crossed | NotEstimableError
        try:
            crossed = crossed_over_wordings(gaps, confidence=confidence, n_answers=int(n_rated[complete].sum()))
        except NotEstimableError as error:
            crossed = error
        return cls(cube, estimates, gaps, crossed)

    def control(self, *, n_missing: int) -> dict[str, Any]:
        """Return the row ``wording`` of ``CONTROLS``; ``n_missing`` are prompts between identities without a rating."""
        crossed = self.crossed
        estimate = crossed if isinstance(crossed, NotEstimableError) else crossed.estimate
        return control_row(self.cube, "wording", estimate, levels=len(self.estimates), n_missing=n_missing)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``WORDINGS``, one a wording."""
        for wording, estimate in self.estimates.items():
            row: dict[str, Any] = dict.fromkeys(WORDINGS, float("nan"))
            row |= {"dimension": self.cube.dimension, "variant": self.cube.variant, "wording": wording}
            if isinstance(estimate, NotEstimableError):
                yield row | {"n_narratives": 0, "n_answers": 0, "note": str(estimate)}
            else:
                yield row | {name: getattr(estimate, name) for name in _NUMBERS} | {"note": estimate.not_estimable}

    def shares(
        self, scope: GroupScope | NotEstimableError, headline: GapEstimate | NotEstimableError
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``WORDING_SHARES``; none if wordings have no estimate."""
        if isinstance(self.crossed, NotEstimableError):
            return
        known = {"dimension": self.cube.dimension, "variant": self.cube.variant}
        identities, n_groups, why_not = identities_variance(scope, headline)
        for row in variance_shares(self.crossed, identities=identities, n_groups=n_groups):
            note = why_not if row["part"] == "identities" else ""
            yield known | row | {"note": note}


def variance_shares(
    crossed: Crossed, *, identities: float = float("nan"), n_groups: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the sources of the gaps' variance: narratives, wordings, the rest, and, for δ as a whole, identities.

    The rows have the columns of ``WORDING_SHARES`` except the names and ``note``. ``identities`` is what they add to
    the variance of δ, in squared points, NaN if unknown.

    Notes
    -----
    The variance of one narrative's gap in one wording is σ_a² + σ_b² + σ_e². That of δ over N narratives and V wordings
    is σ_a²/N + σ_b²/V + σ_e²/(NV), and what identities add. A gap is of all identities at once, so that these have no
    part in one narrative's gap.
    """
    n, v = crossed.estimate.n_narratives, crossed.n_wordings
    parts = {
        "narratives": (crossed.narratives, crossed.narratives / n, n),
        "wordings": (crossed.wordings, crossed.wordings / v, v),
        "rest": (crossed.rest, crossed.rest / (n * v), n * v),
        "identities": (float("nan"), identities, n_groups),
    }
    of_one = sum(one for one, _, _ in parts.values() if one == one)
    of_delta = sum(part for _, part, _ in parts.values() if part == part)
    for name, (one, part, levels) in parts.items():
        yield {
            "part": name,
            "variance": one,
            "sd": one**0.5,
            "share": one / of_one if of_one > 0 else float("nan"),
            "of_delta": part,
            "share_of_delta": part / of_delta if of_delta > 0 else float("nan"),
            "levels": levels,
        }


def identities_variance(
    scope: GroupScope | NotEstimableError, headline: GapEstimate | NotEstimableError
) -> tuple[float, int, str]:
    """Return what identities add to the variance of δ, in squared points, their groups, and why it is unknown.

    Notes
    -----
    The jackknife over groups, less the noise of ratings that is within it: max(0, V_jack − Σ ω_i² v_i), with ω_i what
    narratives count for and v_i the noise of their gaps; on complete ratings Σ ω_i² v_i is σ̂²/(sN).
    """
    for part in (scope, headline):
        if isinstance(part, NotEstimableError):
            return float("nan"), 0, str(part)
    assert isinstance(scope, GroupScope)
    assert isinstance(headline, GapEstimate)
    if scope.no_claim:
        return float("nan"), len(scope.leave_one_out), scope.no_claim
    noise = float(np.nansum(headline.weights**2 * headline.noise))
    return max(0.0, scope.jackknife_se**2 - noise), len(scope.leave_one_out), ""
