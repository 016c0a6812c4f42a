"""Comparing δ on shared narratives: over all dimensions, and between variants, strategies or models.

A narrative that makes one model favour the in-group often makes another do so too. Differences are therefore taken
narrative by narrative, which removes what the two share. δ_z is never subtracted: it is measured in the spread of its
own matrix.

If both gaps speak of any such groups, so does their difference: a model's own liking for single pairs of words is no
change of its gap between groups. How much a group moves the difference is found by leaving it out of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, Final, Protocol

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.estimates import INTERVAL, GapEstimate, by_t, summarise_contrasts, with_variance
from audit.statistics.families import adjust_p
from audit.statistics.ratings import FloatArray
from audit.statistics.scopes import jackknife_variance, widened, widened_by
from audit.tables.gap import COMPARISONS

_SAME: Final = 1e-9  # contrasts that differ by up to this share of the largest are equal in floating point
_NUMBERS: Final = ("delta_first", "delta_second", "delta_change", *INTERVAL, "correlation")


class Scaled(Protocol):
    """What has a scale."""

    @property
    def scale(self) -> tuple[float, float]:
        """The two ends, in points."""


@dataclass(frozen=True)
class Labelled:
    """An estimate of δ to compare."""

    label: str  # the name of a variant, a strategy or a model
    estimate: GapEstimate  # by narrative, with noise; NaN throughout leaves every comparison without a number
    narrative_ids: tuple[Any, ...]  # length N, unique, in the order of estimate.by_narrative
    scale: tuple[float, float]  # the two ends, in points
    # by sample of groups, the estimate without each group, in points; empty if it speaks of these pairs alone
    without: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class WordEffects:
    """What the words of groups, or labels of invented groups, differ by in one run, and a disparity's share of it."""

    variance: float  # in squared points, free of the noise of ratings
    df: float
    share: float  # what the disparity has of the variance
    share_beside: float  # what it has without the groups that differ more
    names: tuple[Any, ...]  # length U, what each word is known by in other runs
    deviations: FloatArray  # shape (U, N): how far each lies from the mean of its kind, by narrative; NaN if unknown
    narrative_ids: tuple[Any, ...]
    scale: tuple[float, float]


def overall_row(
    estimates: Mapping[str, GapEstimate], narrative_ids: Mapping[str, tuple[Any, ...]], *, confidence: float
) -> GapEstimate:
    """Estimate δ over all dimensions: the mean of the dimensions' δ, each with the same weight.

    The estimate uses the narratives that all dimensions use (``n_narratives``); those asked are all that any dimension
    asked, and ``by_narrative`` has them in order of first appearance. ``n_answers`` is the sum of the dimensions'.
    Where dimensions use different narratives, δ is the mean of their gaps on the common ones, and need not be the mean
    of ``delta``. NotEstimableError if there is no common narrative.

    Notes
    -----
    A narrative's gaps are averaged over dimensions, and the averages are pooled as
    :func:`~audit.statistics.estimates.summarise_contrasts` does, so that what the dimensions share within a narrative
    is in the standard error. The noise of an average is Σ v_d/D², the sum of the dimensions': ratings of two dimensions
    are different ratings, and their noise is taken to be independent given the narrative. That bears on what narratives
    with missing ratings count for, and not on the standard error, which goes by how the averages differ.
    """
    if not estimates:
        raise ValueError("there is no dimension to take the mean of")
    by_dimension, noise = _by_dimension(estimates, narrative_ids)
    contrasts: FloatArray = by_dimension.mean(axis=0)
    used = ~np.isnan(contrasts)
    if not used.any():
        raise NotEstimableError(f"no narrative is used by all of the dimensions {', '.join(estimates)}")
    return summarise_contrasts(
        contrasts,
        noise=noise.mean(axis=0) / len(noise),
        rounding=_rounding(by_dimension[:, used]),
        confidence=confidence,
        n_answers=sum(estimate.n_answers for estimate in estimates.values()),
    )


def mean_of(parts: Mapping[str, Labelled], *, confidence: float) -> Labelled:
    """Average the estimates of dimensions as :func:`overall_row` does; label and scale are those of the first."""
    ids = {name: each.narrative_ids for name, each in parts.items()}
    mean = overall_row({name: each.estimate for name, each in parts.items()}, ids, confidence=confidence)
    asked = tuple(dict.fromkeys(chain.from_iterable(ids.values())))
    # Groups of different dimensions are different samples, each of which moves the mean by its share.
    samples = tuple(
        {group: delta / len(parts) for group, delta in sample.items()}
        for each in parts.values()
        for sample in each.without
    )
    without = samples if all(each.without for each in parts.values()) else ()
    return replace(next(iter(parts.values())), estimate=mean, narrative_ids=asked, without=without)


def overall_scope(
    overall: GapEstimate,
    wider: Mapping[str, Mapping[str, Any]],
    estimates: Mapping[str, GapEstimate],
    narrative_ids: Mapping[str, tuple[Any, ...]],
    *,
    confidence: float,
) -> GapEstimate:
    """Widen δ over all dimensions from "these identities" to "any such identities".

    Only the uncertainty of ``overall`` changes. There is no interval if a dimension has none in this scope;
    ``not_estimable`` then names those dimensions and says why. ``wider`` is each dimension's own row of this scope in
    ``GAP``: ``se``, ``df``, and ``note`` if it has no interval.

    Notes
    -----
    The identities of D dimensions are D independent samples, asked about the same narratives. With V_jack,d and τ̂²_d of
    :func:`~audit.statistics.scopes.group_scope`, narratives contribute the variance of their mean gap, and groups and
    noise the mean of what they contribute to each dimension:

        V = Σ V_jack,d/D² + [Σ τ̂²_d + Σ_{d≠d'} cov_dd'] / (D²N) = Σ V_d/D² + Σ_{d≠d'} cov_dd' / (D²N)

    V_d is the dimension's own V, and cov the covariance over narratives of their gaps in two dimensions, each narrative
    counting for what it does in ``overall``. Ratings of two dimensions have no noise in common, so that it is the
    covariance of the narratives' gaps. A negative sum of covariances is not subtracted, and V is never less than the
    variance over narratives alone. With one dimension it is that dimension's.

    Degrees of freedom are the fewest of any dimension: a cautious choice, whatever the dimensions' shares in V. The
    chance 2Φ(−c√v) that an estimate errs by c√v is convex in v, so that by Jensen's inequality it is for the estimated
    Σ V_d/D² at most the shares' mean of what it is for each V_d alone, which is that of its own t distribution.
    Satterthwaite's degrees of freedom promise no such thing where one dimension has few groups.
    """
    without: dict[str, list[str]] = {}
    for name, row in wider.items():
        if not np.isfinite(row["se"]):
            without.setdefault(row["note"], []).append(name)
    reason = "; ".join(f"{', '.join(names)}: {note}" for note, names in without.items()) or overall.not_estimable
    se = df = float("nan")
    if not reason:
        by_dimension, _ = _by_dimension(estimates, narrative_ids)
        there = ~np.isnan(by_dimension).any(axis=0)
        used, shares = by_dimension[:, there], overall.weights[there]
        deviations = used - (used @ shares)[:, None]
        own = float((deviations**2 @ shares).sum()) / (len(used) ** 2 * (used.shape[1] - 1))
        shared = max(0.0, overall.se**2 - own)
        variance = sum(float(row["se"]) ** 2 for row in wider.values()) / len(wider) ** 2 + shared
        se, df = max(variance**0.5, overall.se), min(float(row["df"]) for row in wider.values())
    numbers = by_t(overall.delta, se, df, confidence=confidence)
    return replace(overall, **numbers, d_z=float("nan"), not_estimable=reason)


def _by_dimension(
    estimates: Mapping[str, GapEstimate], narrative_ids: Mapping[str, tuple[Any, ...]]
) -> tuple[FloatArray, FloatArray]:
    """Gaps and their noise, shapes (D, N), of the narratives that any dimension asked, in order of first appearance."""
    of_dimension = [_by_id(name, estimate, narrative_ids[name]) for name, estimate in estimates.items()]
    asked = dict.fromkeys(chain.from_iterable(narrative_ids[name] for name in estimates))
    nan = float("nan")
    gaps, noise = np.array([[own.get(key, (nan, nan)) for key in asked] for own in of_dimension]).transpose(2, 0, 1)
    return gaps, noise


def compare_estimates(estimates: Sequence[Labelled], *, dimension: str, confidence: float) -> Iterator[dict[str, Any]]:
    """Compare every two estimates of one dimension's δ, narrative by narrative.

    Yields rows of ``COMPARISONS``, unrounded. A pair with fewer than two narratives in common is a row of NaN with a
    note; differences without a spread have no interval and no p, and a note. Neither counts in the family. Labels must
    be unique; the earlier estimate of a pair is the first. The intervals are not corrected for multiplicity.

    Notes
    -----
    D = d_first − d_second on the narratives that both have, of noise v_first + v_second, pooled as
    :func:`~audit.statistics.estimates.summarise_contrasts` does: t with N − 1 degrees of freedom, Holm [1]_ over the
    pairs. Where both speak of any such groups, :func:`over_groups` widens it, and ``scope`` is ``groups``; else it
    speaks of these pairs of words alone, and ``scope`` is ``pairs``. ``delta_first`` and ``delta_second`` are the gaps
    by the same weights, so that they differ by ``delta_change``; where ratings are missing they need not be the gaps
    that each has on its own.

    References
    ----------
    .. [1] Holm (1979), Scandinavian Journal of Statistics 6(2), 65–70.
    """
    labels: set[str] = set()
    for each in estimates:
        if each.label in labels:
            raise ValueError(f"two estimates of dimension {dimension!r} have the label {each.label!r}: rename one")
        if not each.scale[0] < each.scale[1]:
            raise ValueError(f"the scale of {each.label!r} is {each.scale}; give its lower end, then its upper end")
        labels.add(each.label)
        _by_id(each.label, each.estimate, each.narrative_ids)
    rows = [
        {"first": first.label, "second": second.label} | _paired(first, second, confidence=confidence)
        for first, second in combinations(estimates, 2)
    ]
    adjusted, size = adjust_p([row["p"] for row in rows], method="Holm")
    for row, p_adjusted in zip(rows, adjusted.tolist(), strict=True):
        row |= {"dimension": dimension, "p_adjusted": p_adjusted, "method": "Holm", "family_size": size}
        yield {column: row[column] for column in COMPARISONS}


def difference(first: Labelled, second: Labelled, *, confidence: float) -> tuple[GapEstimate, tuple[Any, ...]]:
    """Estimate how much larger the first's gap is, in points, narrative by narrative, as :func:`compare_estimates`.

    Also returns the narratives that both have, in the order of ``by_narrative``; NotEstimableError if there are none.
    """
    return combination((first, second), (1.0, -1.0), confidence=confidence)


def combination(
    parts: Sequence[Labelled], factors: Sequence[float], *, confidence: float
) -> tuple[GapEstimate, tuple[Any, ...]]:
    """Estimate the sum of gaps, each times its factor, narrative by narrative, over narratives alone.

    Also returns the narratives that all have, in the order of ``by_narrative``; NotEstimableError if there are none.
    """
    common, gaps, noise = _side_by_side(*parts)
    if not common:
        raise NotEstimableError(f"there is no narrative that {'both' if len(parts) == 2 else 'all'} have")
    of_each: FloatArray = np.array(factors)[:, None] * gaps
    pooled = summarise_contrasts(
        of_each.sum(axis=0),
        noise=(np.square(factors)[:, None] * noise).sum(axis=0),
        rounding=_rounding(of_each),
        confidence=confidence,
        n_answers=0,
    )
    return pooled, common


def over_groups(
    pair: GapEstimate,
    first: Labelled,
    second: Labelled,
    *,
    confidence: float,
    sign: float = -1.0,
    slopes: float | None = None,
) -> GapEstimate:
    """Widen a difference of two gaps (``sign`` −1) or their sum (1), as :func:`over_groups_of_all`."""
    return over_groups_of_all(pair, (first, second), (1.0, sign), confidence=confidence, slopes=slopes)


def over_groups_of_all(
    narrow: GapEstimate,
    parts: Sequence[Labelled],
    factors: Sequence[float],
    *,
    confidence: float,
    slopes: float | None = None,
) -> GapEstimate:
    """Give a sum of gaps, each times its factor, the uncertainty of groups that are a sample of such groups.

    ``narrow`` is the sum over narratives alone, in points, or in % of the scale where scales differ; it stays as it is
    if one of the gaps speaks of pairs alone. ``slopes`` is the narratives' part of the variance, in squared points;
    None takes that of its own narratives.

    Notes
    -----
    A group that is left out leaves all gaps, so that what runs have in common of it cancels in a difference. Where not
    the same groups count in all, that is not known: the standard deviation is at most the sum of all, each times its
    factor without the sign, and the degrees of freedom are the fewest.
    """
    if narrow.not_estimable or not all(each.without for each in parts):
        return narrow
    samples = [
        # Runs may have asked about the same dimensions in another order.
        sorted(({group: unit * delta for group, delta in sample.items()} for sample in each.without), key=sorted)
        for each, unit in zip(parts, units_of(*parts), strict=True)
    ]
    first, *others = [[set(sample) for sample in own] for own in samples]
    if all(own == first for own in others):
        together = [
            {
                group: sum(factor * own[place][group] for factor, own in zip(factors, samples, strict=True))
                for group in samples[0][place]
            }
            for place in range(len(first))
        ]
        return widened(narrow, together, confidence=confidence, slopes=slopes)
    variances, dfs = zip(*map(jackknife_variance, samples), strict=True)
    at_most = sum(abs(factor) * variance**0.5 for factor, variance in zip(factors, variances, strict=True)) ** 2
    return widened_by(narrow, at_most, min(dfs), confidence=confidence, slopes=slopes)


def over_words(
    pair: GapEstimate, first: WordEffects, second: WordEffects, *, confidence: float, sign: float = -1.0
) -> GapEstimate:
    """Give a difference of two disparities, or their sum, the uncertainty of words that are a sample of such words.

    ``pair`` is the difference or sum of the two over narratives alone; ``sign`` is −1 for the difference, 1 for the
    sum.

    Notes
    -----
    What two runs have in common of a word cancels in the difference. With c_u = d_u − d'_u of the deviations of word u
    in both, narrative by narrative, σ² = Σ (c_u² − se_u²) / df takes the place of a run's own variance of words, and of
    the sum likewise. Where not the same words count in both, that is not known: the standard deviation is at most the
    sum of both.
    """
    if pair.not_estimable:
        return pair
    units = units_of(first, second)
    variance = _variance_of_words(first, second, units, sign)
    if variance is None:
        parts = [unit * (each.share * each.variance) ** 0.5 for unit, each in zip(units, (first, second), strict=True)]
        return with_variance(pair, sum(parts) ** 2, min(first.df, second.df), confidence=confidence)
    return with_variance(pair, first.share * variance, first.df, confidence=confidence)


def _variance_of_words(first: WordEffects, second: WordEffects, units: Sequence[float], sign: float) -> float | None:
    """Return the variance of what words differ by in a difference or sum; None where not the same words count."""
    if {*first.names} != {*second.names} or not np.isclose(first.share, second.share) or first.df != second.df:
        return None
    common = {*first.narrative_ids} & {*second.narrative_ids}
    ours, theirs = (unit * _by_name(each, common) for unit, each in zip(units, (first, second), strict=True))
    both = ours + sign * theirs
    n = (~np.isnan(both)).sum(axis=1)
    if not (n > 1).all():
        return None
    noise = np.nanvar(both, axis=1, ddof=1) / n
    return max(0.0, float((np.nanmean(both, axis=1) ** 2 - noise).sum()) / first.df)


def _by_name(words: WordEffects, narrative_ids: Collection[Any]) -> FloatArray:
    """Return the deviations in these narratives, words and narratives in an order that all runs have in common."""
    rows = sorted(range(len(words.names)), key=lambda row: words.names[row])
    place_of = {key: place for place, key in enumerate(words.narrative_ids)}
    deviations: FloatArray = words.deviations[rows][:, [place_of[key] for key in sorted(narrative_ids, key=str)]]
    return deviations


def scope_of(change: GapEstimate, narrow: GapEstimate) -> str:
    """Return the scope of a change, after :func:`over_groups` of the narrow one; empty without an interval."""
    if not np.isfinite(change.se):
        return ""
    return "pairs" if change is narrow else "groups"


def units_of(*parts: Scaled) -> list[float]:
    """Factors that bring points of each to one unit: 1, or where scales differ the % of its own scale."""
    same = len({each.scale for each in parts}) == 1
    return [1.0 if same else 100 / (each.scale[1] - each.scale[0]) for each in parts]


def _side_by_side(*parts: Labelled) -> tuple[tuple[Any, ...], FloatArray, FloatArray]:
    """Narratives that all have; the gaps, and their noise, shapes (parts, narratives); in % where scales differ."""
    of_parts = [_by_id(each.label, each.estimate, each.narrative_ids) for each in parts]
    common = tuple(key for key in of_parts[0] if all(key in own for own in of_parts[1:]))
    sides = np.array(
        [
            np.array([own[key] for key in common]).reshape(-1, 2) * (unit, unit**2)
            for own, unit in zip(of_parts, units_of(*parts), strict=True)
        ]
    )
    return common, sides[:, :, 0], sides[:, :, 1]


def _paired(first: Labelled, second: Labelled, *, confidence: float) -> dict[str, Any]:
    """Compute the columns of a row that do not depend on the other pairs."""
    row: dict[str, Any] = dict.fromkeys(_NUMBERS, float("nan"))
    common, (a, b), noise = _side_by_side(first, second)
    unit = "points" if first.scale == second.scale else "% of the scale"
    row |= {"unit": unit, "scope": "", "n_narratives": len(common), "note": ""}
    if len(common) < 2:
        row["note"] = f"a difference needs two narratives that both have, and there {_count(len(common))}"
        return row
    narrow = summarise_contrasts(
        a - b, noise=noise.sum(axis=0), rounding=_rounding(a, b), confidence=confidence, n_answers=0
    )
    change = over_groups(narrow, first, second, confidence=confidence)
    row["scope"] = scope_of(change, narrow)
    row |= {"delta_first": float(change.weights @ a), "delta_second": float(change.weights @ b)}
    row |= {"delta_change": change.delta} | {name: getattr(change, name) for name in INTERVAL}
    if change.not_estimable:
        row["note"] = f"the difference is the same in all {len(common)} narratives, so its spread is 0"
    if len(common) > 2 and all(np.ptp(each) > 2 * _rounding(each) for each in (a, b)):
        row["correlation"] = float(np.corrcoef(a, b)[0, 1])
    return row


def _by_id(name: str, estimate: GapEstimate, narrative_ids: tuple[Any, ...]) -> dict[Any, tuple[float, float]]:
    """Gap and noise of each narrative that an estimate uses, by its id."""
    gaps = estimate.by_narrative
    noise = estimate.noise if estimate.noise.size else np.full(gaps.size, np.nan)
    known = dict(zip(narrative_ids, zip(gaps.tolist(), noise.tolist(), strict=True), strict=False))
    if not len(known) == len(narrative_ids) == gaps.size:
        raise ValueError(
            f"{name!r} has {len(narrative_ids)} narratives, {len(set(narrative_ids))} of them different, and "
            f"{gaps.size} contrasts: give one narrative for each contrast"
        )
    return {key: own for key, own in known.items() if not np.isnan(own[0])}


def _rounding(*contrasts: FloatArray) -> float:
    """Half the difference up to which contrasts count as equal, as ``summarise_contrasts`` takes it."""
    return _SAME / 2 * max(float(np.abs(each).max()) for each in contrasts)


def _count(n: int) -> str:
    return "is one" if n == 1 else "is none"
