"""The second scope of δ: not only any such narratives, but any such identities too.

The interval over narratives speaks about the identities that were asked. To speak about others, the spread of δ over
identities must count as well, and it shows in how δ changes when a group is left out: effects of pairs and gaps that
differ between identities widen that spread; effects of perceivers and experiencers as such do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import contrast_weights, effect_columns
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.headline import Headline
from audit.statistics.ratings import BoolArray, FloatArray, IntArray

MIN_GROUPS: Final = 5
"""With fewer groups their spread says too little about others: the range is shown, and nothing is claimed."""


@dataclass(frozen=True, eq=False)
class GroupScope:
    """What δ says about groups that were not asked.

    Attributes
    ----------
    estimate
        δ with the standard error and interval of this scope; without them where nothing is claimed.
    leave_one_out
        δ in points without each group, by the group's name; empty where groups can not be left out.
    jackknife_se
        The groups' part of the standard error, in points; NaN where groups can not be left out.
    no_claim
        Why there is no interval, in words; empty if there is one.
    """

    estimate: GapEstimate
    leave_one_out: dict[str, float]
    jackknife_se: float
    no_claim: str


def group_scope(cube: NarrativeCube, headline: Headline, *, confidence: float) -> GroupScope:
    """Widen an estimate of δ from "these identities" to "any such identities".

    Parameters
    ----------
    cube
        The ratings that the headline was made of; baselines are left out.
    headline
        The estimate, which stays as it is: only its uncertainty changes.
    confidence
        Coverage of the interval, between 0 and 1.

    Notes
    -----
    V = V_jack + τ̂²/N, with V_jack = (G − 1)/G · Σ(θ₋k − θ̄)², θ₋k the adjusted gap of the cell means without the
    perceivers and experiencers of group k, and τ̂² the variance of the narratives' gaps: on complete data
    max(0, sd_d² − σ̂²/s), σ̂² the mean square of the double-centred residuals with (N − 1)((P − 1)(E − 1) − 1) degrees of
    freedom and s the sum of squares of the double-centred mask; else the mixed model's. The narratives' noise is
    within V_jack already. The interval is a t interval with G − 1 degrees of freedom, and the standard error is never
    less than the narratives' own. Groups, not terms, are left out: terms of a group share what makes it one.
    """
    compared = cube.without_baselines()
    means = _cell_means(compared, headline)
    left_out, reason = _leave_one_out(compared, means)
    n_groups = len(left_out)
    gaps = np.array(list(left_out.values()))
    jackknife = float((n_groups - 1) / n_groups * ((gaps - gaps.mean()) ** 2).sum()) if n_groups > 1 else float("nan")
    narrow = headline.estimate
    if not reason and n_groups < MIN_GROUPS:
        reason = f"{n_groups} groups are too few to speak about others"
    if not reason and not np.isfinite(narrow.se):
        reason = narrow.not_estimable or "the narratives' own uncertainty can not be estimated"
    se = df = float("nan")
    if not reason:
        slopes = _slope_variance(compared, headline) / narrow.n_narratives
        se, df = max((jackknife + slopes) ** 0.5, narrow.se), float(n_groups - 1)
    low, high, p = t_interval(narrow.delta_points, se, df, confidence=confidence)
    estimate = GapEstimate(
        delta_points=narrow.delta_points,
        se=se,
        df=df,
        ci_low=low,
        ci_high=high,
        p=p,
        d_z=float("nan"),
        n_narratives=narrow.n_narratives,
        n_narratives_asked=narrow.n_narratives_asked,
        n_ratings=narrow.n_ratings,
        not_estimable=reason,
    )
    return GroupScope(estimate, left_out, jackknife**0.5, reason)


def _cell_means(compared: NarrativeCube, headline: Headline) -> FloatArray:
    """Means of the cells, shape (P, E), free of what narratives owe to being there; NaN where there is no rating."""
    if headline.fit is None:
        means: FloatArray = compared.y.mean(axis=0)
        return means
    return headline.fit.cell_means


def _leave_one_out(compared: NarrativeCube, means: FloatArray) -> tuple[dict[str, float], str]:
    """δ without each group, and why there is no such thing if there is not."""
    groups = list(dict.fromkeys(compared.perceiver_groups))
    if set(groups) != set(compared.experiencer_groups):
        return {}, "perceivers and experiencers belong to different groups, so that no group can be left out of both"
    if (compared.n_shared != compared.in_group).any():
        return {}, "the groups of an intersection share dimensions, so that leaving one out is no fresh draw of groups"
    left_out = {}
    perceivers, experiencers = np.array(compared.perceiver_groups), np.array(compared.experiencer_groups)
    for group in groups:
        kept = np.ix_(perceivers != group, experiencers != group)
        try:
            left_out[group] = adjusted_gap(means[kept], compared.n_shared[kept])
        except NotEstimableError:
            return {}, f"without {group} there is no gap to compare with"
    return left_out, ""


def adjusted_gap(means: FloatArray, n_shared: IntArray) -> float:
    """Return the in-group coefficient of cell means on in-group, perceiver and experiencer.

    Parameters
    ----------
    means
        Shape (P, E), in points; a cell of NaN is left out, and the others are weighed alike.
    n_shared
        Shape (P, E).

    Raises
    ------
    NotEstimableError
        As :func:`contrast_weights`, or if the cells there are do not determine the coefficient.
    """
    known: BoolArray = np.isfinite(means)
    weights = contrast_weights(n_shared)
    if known.all():
        return float((weights[-1] * means).sum())
    lesser, perceivers, experiencers = (columns[known.ravel()] for columns in effect_columns(n_shared))
    in_group = (n_shared == n_shared.max())[known]
    others = np.column_stack([perceivers, experiencers, lesser])
    fitted, *_ = np.linalg.lstsq(others, np.column_stack([in_group, means[known]]), rcond=1e-9)
    rest = np.column_stack([in_group, means[known]]) - others @ fitted
    squares = float(rest[:, 0] @ rest[:, 0])
    if squares < 1e-9:
        raise NotEstimableError("the cells that have a rating do not tell in-group from the effects of identities")
    return float(rest[:, 0] @ rest[:, 1]) / squares


def _slope_variance(compared: NarrativeCube, headline: Headline) -> float:
    """Variance between the narratives' gaps, in squared points."""
    if headline.fit is not None:
        return headline.fit.slope_variance
    n, n_perceivers, n_experiencers = compared.y.shape
    df = (n - 1) * ((n_perceivers - 1) * (n_experiencers - 1) - 1)
    contrasts = headline.estimate.by_narrative
    if df < 1:
        return float(np.var(contrasts, ddof=1))
    weights = contrast_weights(compared.n_shared)[-1]
    squares = float((weights**2).sum())  # 1/s
    deviations = compared.y - compared.y.mean(axis=0)
    deviations -= deviations.mean(axis=2, keepdims=True)
    deviations -= deviations.mean(axis=1, keepdims=True)
    total = float(np.vdot(deviations, deviations))
    residual = total - float(((contrasts - contrasts.mean()) ** 2).sum()) / squares
    return float(max(0.0, np.var(contrasts, ddof=1) - max(0.0, residual) / df * squares))
