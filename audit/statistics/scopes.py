"""The second scope of δ: not only any such narratives, but any such identities too.

The interval over narratives speaks about the identities that were asked. To speak about others, the spread of δ over
identities must count as well. It shows in how δ changes when a group is left out: effects of pairs, and gaps that
differ between identities, widen that spread; effects of perceivers and experiencers as such do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import column_weights, effect_columns
from audit.statistics.estimates import GapEstimate, by_t, without_interval
from audit.statistics.incomplete import cell_means
from audit.statistics.mixed import MixedFit
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.formatting import either, plural

MIN_GROUPS_FOR_OTHERS: Final = 5
"""With fewer groups their spread says too little about others: the range is shown, and nothing is claimed."""


@dataclass(frozen=True, eq=False)
class GroupScope:
    """What δ says about groups that were not asked."""

    estimate: GapEstimate  # δ with the standard error and interval of this scope; without them if nothing is claimed
    leave_one_out: dict[str, float]  # δ in points without each group that counts; empty if groups cannot be left out
    jackknife_se: float  # the groups' part of the standard error, in points; NaN if groups cannot be left out
    no_claim: str  # why there is no interval
    uncounted: tuple[str, ...] = ()  # groups about whose gap the ratings say nothing

    @property
    def note(self) -> str:
        """Why there is no interval, or how many groups count if not all do; empty otherwise."""
        if self.no_claim or not self.uncounted:
            return self.no_claim
        n = len(self.leave_one_out)
        return (
            f"{n} of {n + len(self.uncounted)} groups {either(n, 'counts', 'count')}: {_why_uncounted(self.uncounted)}"
        )


def group_scope(
    cube: NarrativeCube, narrow: GapEstimate, *, confidence: float, fit: MixedFit | None = None
) -> GroupScope:
    """Widen an estimate of δ from "these identities" to "any such identities".

    Only the uncertainty of ``narrow`` changes. ``fit`` is the mixed model, if the estimate is its own: its cell means
    and slope variance are taken.

    Notes
    -----
    V = V_jack + τ̂² Σ ω_i², with V_jack = (G − 1)/G · Σ(θ₋k − θ̄)², θ₋k the adjusted gap of the cell means without the
    perceivers and experiencers of group k, τ̂² the variance of the narratives' true gaps and ω_i what each counts for,
    1/N on complete ratings. There the cell means are plain means and τ̂² is max(0, sd_d² − σ̂²/s), σ̂² the mean square of
    the double-centred residuals with (N − 1)((P − 1)(E − 1) − 1) degrees of freedom and s the sum of squares of the
    double-centred mask; else the cell means are :func:`~audit.statistics.incomplete.cell_means`, free of narratives'
    levels, and τ̂² is the headline's by REML. The narratives' noise is within V_jack already. The interval is a t
    interval with G − 1 degrees of freedom. Neither is the standard error ever less than the narratives' own, nor are
    the degrees of freedom more than theirs, so that the interval is never the narrower one. Groups, not terms, are
    left out: terms of a group share what makes it one.

    G counts the groups of whose own gap δ is made. Let g_k be 1 in the rated cells between identities of group k and 0
    in the other rated cells, so that in-group is Σ g_k. If effects of perceivers and experiencers can make up g_k, they
    take up whatever gap the group has: δ weighs rated cells by a w that is orthogonal to these effects, in the
    contrast and in least squares alike, so that the group's gap has the weight ⟨w, g_k⟩ = 0. That
    is so of a group without a rating, of one whose own identities have no rating of each other, as perceivers or as
    experiencers or at all, and of one that rates, or is rated by, its own identities alone. How gaps differ between
    groups does not show in such a group: it is not left out, and counts neither in the sum nor in G nor towards
    ``MIN_GROUPS_FOR_OTHERS``. Its ratings of others still inform the others' effects and stay in every θ₋k, where those
    with group k leave with it. Where every cell has a rating, all groups count.
    """
    compared = cube.without_baselines()
    if fit is None:
        means = cell_means(compared.y.reshape(len(compared.y), -1)).reshape(compared.in_group.shape)
    else:
        means = fit.cell_means
    left_out, uncounted, reason = _leave_one_out(compared, means)
    n_groups = len(left_out)
    gaps = np.array(list(left_out.values()))
    jackknife = float((n_groups - 1) / n_groups * ((gaps - gaps.mean()) ** 2).sum()) if n_groups > 1 else float("nan")
    if not reason and n_groups < MIN_GROUPS_FOR_OTHERS:
        reason = f"{plural(n_groups, 'group')} {either(n_groups, 'is', 'are')} too few to speak about others"
        if uncounted:
            of_all = (
                f"{n_groups} of {n_groups + len(uncounted)} groups {either(n_groups, 'counts', 'count')}, too "
                "few to speak about others"
            )
            reason = f"{of_all}: {_why_uncounted(uncounted)}"
    if not reason and not np.isfinite(narrow.se):
        reason = narrow.not_estimable or "the narratives' own uncertainty cannot be estimated"
    if reason:
        return GroupScope(without_interval(narrow, reason), left_out, jackknife**0.5, reason, uncounted)
    slopes = None if fit is None else fit.slope_variance / narrow.n_narratives
    estimate = widened(narrow, [left_out], confidence=confidence, slopes=slopes)
    return GroupScope(estimate, left_out, jackknife**0.5, reason, uncounted)


def widened(
    narrow: GapEstimate, without: Sequence[Mapping[str, float]], *, confidence: float, slopes: float | None = None
) -> GapEstimate:
    """Give an estimate the uncertainty of groups that are samples of such groups, besides that of narratives.

    ``without`` has, for each independent sample of groups, the estimate without each of them, in points; only their
    differences count. ``slopes`` is the narratives' part of the variance, in squared points; None takes that of the
    estimate's own narratives.

    Notes
    -----
    V = Σ_j V_j + τ̂² Σ ω_i², V_j the jackknife variance of sample j, (G_j − 1)/G_j Σ_k (θ_j,−k − θ̄_j)². Degrees of
    freedom are Satterthwaite's of the V_j, each with G_j − 1, and no more than the narratives'. The standard error is
    never less than the narratives' own.
    """
    return widened_by(narrow, *jackknife_variance(without), confidence=confidence, slopes=slopes)


def jackknife_variance(without: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """Return what independent samples of groups add to an estimate's variance, in squared points, and its df."""
    parts, dfs = [], []
    for sample in without:
        gaps = np.array(list(sample.values()))
        parts.append((gaps.size - 1) / gaps.size * float(((gaps - gaps.mean()) ** 2).sum()))
        dfs.append(gaps.size - 1)
    squares = sum(part**2 / df for part, df in zip(parts, dfs, strict=True))
    df = float(dfs[0]) if len(parts) == 1 or not squares > 0 else sum(parts) ** 2 / squares
    return sum(parts), df


def widened_by(
    narrow: GapEstimate, of_groups: float, df: float, *, confidence: float, slopes: float | None = None
) -> GapEstimate:
    """Add the groups' part of an estimate's variance, in squared points, to that of narratives; see :func:`widened`."""
    variance = of_groups + (slope_variance(narrow) if slopes is None else slopes)
    se, df = max(variance**0.5, narrow.se), min(df, narrow.df)
    numbers = by_t(narrow.delta, se, df, confidence=confidence)
    return replace(narrow, **numbers, d_z=float("nan"), p_sign_flip=float("nan"), not_estimable="")


def _why_uncounted(groups: tuple[str, ...]) -> str:
    named, rest = ", ".join(groups[:3]), len(groups) - 3
    return f"the ratings tell nothing of the gap of {named}{f' and {rest} more' if rest > 0 else ''}"


def _leave_one_out(compared: NarrativeCube, means: FloatArray) -> tuple[dict[str, float], tuple[str, ...], str]:
    """δ without each group that counts, the groups that do not count, and the reason if no group can be left out."""
    groups = list(dict.fromkeys(compared.perceiver_groups))
    if set(groups) != set(compared.experiencer_groups):
        apart = "perceivers and experiencers belong to different groups, so that no group can be left out of both"
        return {}, (), apart
    if (compared.n_shared != compared.in_group).any():
        shared = "the groups of an intersection share dimensions, so that leaving one out is no fresh draw of groups"
        return {}, (), shared
    left_out = {}
    weights = compared.cell_weights
    perceivers, experiencers = np.array(compared.perceiver_groups), np.array(compared.experiencer_groups)
    counted = _counted(compared, means, groups)
    uncounted = tuple(group for group in groups if group not in counted)
    for group in counted:
        kept = np.ix_(perceivers != group, experiencers != group)
        try:
            left_out[group] = adjusted_gap(
                means[kept], compared.columns[:, kept[0], kept[1]], None if weights is None else weights[kept]
            )
        except NotEstimableError:
            return {}, uncounted, f"without {group} there is no gap to compare with"
    return left_out, uncounted, ""


def _counted(compared: NarrativeCube, means: FloatArray, groups: list[str]) -> list[str]:
    """Pick the groups whose in-group column is no sum of columns of perceivers and experiencers in the rated cells."""
    known: BoolArray = np.isfinite(means)
    if known.all():  # no group's is, once there are two
        return groups
    _, perceivers, experiencers = (columns[known.ravel()] for columns in effect_columns(compared.columns))
    of_group = np.array(groups) == np.array(compared.perceiver_groups)[:, None]
    own = (compared.in_group[:, :, None] & of_group[:, None, :])[known].astype(np.float64)
    effects = np.column_stack([perceivers, experiencers])
    fitted, *_ = np.linalg.lstsq(effects, own, rcond=1e-9)
    squares = ((own - effects @ fitted) ** 2).sum(axis=0)
    return [group for group, rest in zip(groups, squares.tolist(), strict=True) if rest >= 1e-9]


def adjusted_gap(means: FloatArray, columns: FloatArray, cell_weights: FloatArray | None = None) -> float:
    """Return the in-group coefficient of cell means on in-group, perceiver and experiencer.

    ``means`` has shape (P, E), in points; a cell of NaN is left out. ``columns`` has shape (D, P, E), 0/1: those that
    in-group is estimated beside, then in-group. ``cell_weights``, shape (P, E), is what each cell counts for; None for
    all alike. NotEstimableError if the cells do not determine the coefficient.

    Examples
    --------
    >>> means = np.array([[60.0, 50.0], [52.0, 58.0]])
    >>> round(adjusted_gap(means, np.eye(2)[None]), 6)  # (60 + 58 - 50 - 52) / 2
    8.0
    """
    known: BoolArray = np.isfinite(means)
    weights = column_weights(columns, cell_weights)
    if known.all():
        return float((weights[-1] * means).sum())
    lesser, perceivers, experiencers = (columns[known.ravel()] for columns in effect_columns(columns))
    in_group = columns[-1][known]
    root = 1.0 if cell_weights is None else np.sqrt(cell_weights[known])[:, None]
    others = np.column_stack([perceivers, experiencers, lesser]) * root
    both = np.column_stack([in_group, means[known]]) * root
    fitted, *_ = np.linalg.lstsq(others, both, rcond=1e-9)
    rest = both - others @ fitted
    squares = float(rest[:, 0] @ rest[:, 0])
    if squares < 1e-9:
        raise NotEstimableError("the cells that have a rating do not tell in-group from the effects of identities")
    return float(rest[:, 0] @ rest[:, 1]) / squares


def slope_variance(narrow: GapEstimate) -> float:
    """Return the variance of the weighted mean of narratives' true gaps; of their gaps if the noise is unknown."""
    variance = narrow.slope_variance
    if np.isnan(variance):
        variance = float(np.nanvar(narrow.by_narrative, ddof=1))
    return variance * float((narrow.weights**2).sum())
