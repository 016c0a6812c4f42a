"""Prediction-powered inference: what a judge says of all replies, corrected by people's scores of some of them.

A judge scores every reply, and may be wrong. People score a random sample of the replies. How far the judge is off in
the sample corrects what it says of all, and the interval holds the uncertainty of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.estimates import EPSILON, GapEstimate, t_interval
from audit.statistics.ratings import BoolArray, FloatArray, IntArray
from audit.statistics.remarks import FEW_NARRATIVES
from audit.tables.formatting import brief, count, plural

_LEAST_WEIGHT: Final = 1e-12  # smaller weights are what is left of a difference of equal ones
_PER_STRATUM: Final = 5  # labelled replies that a sample should have on average in its smallest stratum


@dataclass(frozen=True)
class Corrected:
    """An estimate of a gap; unrounded, NaN where the scores do not determine a value."""

    estimate: float
    se: float
    df: float
    ci_low: float
    ci_high: float
    p: float  # two-sided, against 0
    tuning: float  # λ: how much the judge's scores count

    @classmethod
    def of(cls, found: Linear, tuning: float, *, confidence: float, n_tuned: int = 0) -> Self:
        """Give an estimate its t interval; each of ``n_tuned`` parameters takes a degree of freedom."""
        se, df = found.spread()
        df = max(df - n_tuned, 1.0)
        return cls(found.value, se, df, *t_interval(found.value, se, df, confidence=confidence), tuning)


@dataclass(frozen=True, eq=False)
class Strata:
    """The cells of a contrast in groups with one weight each, by which a sample of replies is weighted."""

    of_cell: IntArray  # shape (C,): the stratum of each cell; −1 for a cell without a weight
    weights: FloatArray  # shape (S,): of a stratum's mean in the contrast
    names: tuple[str, ...]  # length S

    @classmethod
    def of(cls, weights: FloatArray, labels: Sequence[str]) -> Self:
        """Join cells of one label and one weight; ``weights`` and ``labels`` have shape (C,)."""
        keys = [(label, f"{weight:.9g}") for label, weight in zip(labels, weights, strict=True)]
        counts = np.abs(weights) > _LEAST_WEIGHT
        weighted = dict.fromkeys(key for key, own in zip(keys, counts, strict=True) if own)
        place = {key: k for k, key in enumerate(weighted)}
        of_cell = np.array([place[key] if own else -1 for key, own in zip(keys, counts, strict=True)], dtype=np.int64)
        sums = np.bincount(of_cell[counts], weights=weights[counts], minlength=len(place))
        return cls(of_cell, np.asarray(sums, dtype=np.float64), tuple(label for label, _ in place))


@dataclass(frozen=True, eq=False)
class LabelledSample:
    """The replies that people scored, n of them."""

    people: FloatArray  # shape (n,): the mean over raters
    judge: FloatArray  # shape (n,): the judge's score of the same reply
    cells: IntArray  # shape (n,): the cell of each reply among the C cells of perceivers and experiencers
    clusters: IntArray  # shape (n,): the narrative (of utterances, the conversation) of each, from 0

    def part(self, used: BoolArray) -> Self:
        """Return some of the replies; ``used`` has shape (n,)."""
        return replace(self, **{each.name: getattr(self, each.name)[used] for each in fields(self)})

    def apart(self, deviations: FloatArray, scores: FloatArray) -> FloatArray:
        """Return deviations of scores from their means; what is left of equal ones by rounding is 0."""
        largest = max(float(np.nanmax(np.abs(each))) for each in (scores, self.people, self.judge))
        return np.where(np.abs(deviations) <= scores.size * EPSILON * largest, 0.0, deviations)


@dataclass(frozen=True, eq=False)
class Linear:
    """An estimate as a sum over K clusters, and the covariance that the parts had if all errors had one variance."""

    value: float
    parts: FloatArray  # shape (K,): each cluster's part in the error, raised by CR2
    own: FloatArray  # shape (K,)
    shared: FloatArray  # shape (K, S): the covariance is diag(own) − shared shared'

    @classmethod
    def of_all(cls, estimate: GapEstimate, clusters: IntArray, n_clusters: int) -> Self:
        """Take an estimate from all replies; ``clusters``, shape (N,), has the cluster of each narrative."""
        used = ~np.isnan(estimate.by_narrative)
        errors, of = estimate.by_narrative[used] - estimate.delta, clusters[used]
        errors = np.where(np.abs(errors) <= 2 * estimate.rounding, 0.0, errors)
        counts = estimate.weights[used] if estimate.weights.size else np.full(of.size, 1 / of.size)
        weight = np.bincount(of, weights=counts, minlength=n_clusters)
        rest = 1 - weight
        parts = np.bincount(of, weights=counts * errors, minlength=n_clusters) / np.sqrt(rest)
        variance = float(parts @ parts)
        shared = variance**0.5 * weight / np.sqrt(rest)
        return cls(estimate.delta, parts, variance * weight / rest, shared[:, None])

    @classmethod
    def of_sample(cls, scores: FloatArray, sample: LabelledSample, strata: Strata, n_clusters: int) -> Self:
        """Weight the means that scores of a sample, shape (n,), have in strata."""
        of, n_strata = strata.of_cell[sample.cells], strata.weights.size
        sizes = np.bincount(of, minlength=n_strata)
        means = np.bincount(of, weights=scores, minlength=n_strata) / sizes
        residuals = sample.apart(scores - means[of], scores)
        place, shape = sample.clusters * n_strata + of, (n_clusters, n_strata)
        there = np.bincount(place, minlength=n_clusters * n_strata).reshape(shape)
        sums = np.bincount(place, weights=residuals, minlength=n_clusters * n_strata).reshape(shape)
        beta = strata.weights / sizes / np.sqrt(1 - there / sizes)
        variance = float(residuals @ residuals) / max(scores.size - n_strata, 1)
        return cls(
            float(strata.weights @ means),
            (beta * sums).sum(axis=1),
            variance * (beta**2 * there).sum(axis=1),
            variance**0.5 * beta * there / np.sqrt(sizes),
        )

    def plus(self, other: Linear, times: float) -> Linear:
        """Add another estimate over the same clusters, times a number."""
        return Linear(
            self.value + times * other.value,
            self.parts + times * other.parts,
            self.own + times**2 * other.own,
            np.hstack([self.shared, times * other.shared]),
        )

    def spread(self) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom; NaN if the clusters do not differ."""
        se = float(self.parts @ self.parts) ** 0.5
        lost = (self.shared**2).sum(axis=1)
        expected = float((self.own - lost).sum())
        square = float((self.own**2).sum() - 2 * self.own @ lost + ((self.shared.T @ self.shared) ** 2).sum())
        return (se, expected**2 / square) if se > 0 and square > 0 else (float("nan"), float("nan"))


def stratified(
    sample: LabelledSample, weights: FloatArray, labels: Sequence[Sequence[str]]
) -> tuple[LabelledSample, Strata]:
    """Return the part of a sample that a contrast is of, and the finest strata that it fills.

    ``weights`` has shape (C,); each of ``labels``, the finest first, tells the cells of one stratum, shape (C,).
    NotEstimableError if the labelled replies are to too few narratives, or do not fill the strata.
    """
    own = sample.part(np.abs(weights[sample.cells]) > _LEAST_WEIGHT)
    n_narratives = np.unique(own.clusters).size
    if n_narratives < FEW_NARRATIVES:
        raise NotEstimableError(
            f"the labelled replies are to {plural(n_narratives, 'narrative')}, and an interval takes {FEW_NARRATIVES}: "
            f"label at least {FEW_NARRATIVES} replies, each to another narrative, drawn at random"
        )
    reasons = []
    for label in labels:
        strata = Strata.of(weights, label)
        there = np.unique(np.stack([strata.of_cell[own.cells], own.clusters]), axis=1)[0]
        n_each = np.bincount(there, minlength=strata.weights.size)
        if n_each.min() >= 2:
            return own, strata
        sizes = np.bincount(strata.of_cell[strata.of_cell >= 0])
        needed = int(np.ceil(_PER_STRATUM * sizes.sum() / sizes.min()))
        reasons.append(
            f"{brief(strata.names[int(n_each.argmin())])} has labelled replies to "
            f"{plural(n_each.min(), 'narrative')} and needs two: label about {count(needed)} replies drawn at random "
            f"(there are {count(own.people.size)})"
        )
    raise NotEstimableError(reasons[-1])


def correct(
    judged: GapEstimate,
    narratives: IntArray,
    sample: LabelledSample,
    strata: Strata,
    *,
    confidence: float,
) -> dict[str, Corrected]:
    """Correct a contrast of a judge's scores by those that people gave a sample of the same replies.

    ``judged`` is the contrast of all scored replies, and ``narratives``, shape (N,), the cluster of each of its
    narratives. ``sample`` and ``strata`` are those of :func:`stratified`. Returns the contrast of the ``measure`` (the
    judge's scores alone), of ``people`` (their scores of the sample alone), ``ppi`` and ``ppi_tuned``.

    Notes
    -----
    Prediction-powered inference [1]_ of a contrast θ. With θ_J from the judge's scores of all replies, and θ̂(·) from
    scores of the labelled ones, the estimate is

        θ_λ = λ θ_J + θ̂(people − λ judge) = θ̂(people) + λ (θ_J − θ̂(judge)).

    λ is 0 for ``people``, 1 for ``ppi``, and for ``ppi_tuned`` what makes the variance of chance in the sample least,
    as in PPI++ [2]_: λ = Σ_s W_s² Cov_s(people, judge) / n_s over Σ_s W_s² Var_s(judge) / n_s, of the n_s labelled
    replies of each stratum s, W_s its weight. Labelled replies are among all replies here, and not beside them: of a
    mean over n labelled and N other independent replies, θ_λ is the estimate of [2]_ with λ N / (n + N), exactly.
    Whatever λ is, θ_λ estimates the contrast of people's scores.

    A contrast is a weighted sum of the means of cells, a perceiver and an experiencer each; θ̂ takes in their place the
    means over the labelled replies of a stratum, whose cells all have one weight. So a sample may have more replies of
    some strata than of others, as long as chance decided which. The units are narratives, since one of them gives
    labelled replies and others: the variance is Σ_i u_i², u_i the sum of all that narrative i adds to the error of θ_λ,
    with CR2 as of :func:`~audit.statistics.clustered.clustered` and Satterthwaite's degrees of freedom, of which λ
    takes one. If the judge makes no error, it is the plain t-test of θ_J.

    References
    ----------
    .. [1] Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), Prediction-powered inference, Science 382(6671),
       669–674.
    .. [2] Angelopoulos, Duchi and Zrnic (2023), PPI++: efficient prediction-powered inference, arXiv:2311.01453.
    """
    n_clusters = int(narratives.max()) + 1
    of_all = Linear.of_all(judged, narratives, n_clusters)

    def of(scores: FloatArray) -> Linear:
        return Linear.of_sample(scores, sample, strata, n_clusters)

    tuning = _tuning(sample, strata)
    return {
        "measure": Corrected.of(of_all, float("nan"), confidence=confidence),
        "people": Corrected.of(of(sample.people), 0.0, confidence=confidence),
        "ppi": Corrected.of(of(sample.people - sample.judge).plus(of_all, 1.0), 1.0, confidence=confidence),
        "ppi_tuned": Corrected.of(
            of(sample.people - tuning * sample.judge).plus(of_all, tuning), tuning, confidence=confidence, n_tuned=1
        ),
    }


def _tuning(sample: LabelledSample, strata: Strata) -> float:
    """Return λ of PPI++; 0 if the judge gave all labelled replies of every stratum the same score."""
    of = strata.of_cell[sample.cells]
    sizes = np.bincount(of)

    def centred(scores: FloatArray) -> FloatArray:
        return sample.apart(scores - (np.bincount(of, weights=scores) / sizes)[of], scores)

    people, judge = centred(sample.people), centred(sample.judge)
    counts = (strata.weights**2 / sizes / (sizes - 1))[of]
    variance = float(counts @ judge**2)
    return float(counts @ (people * judge)) / variance if variance > 0 else 0.0
