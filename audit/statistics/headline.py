"""The headline estimate of δ: each narrative's own gap, pooled over narratives, whatever is missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import in_group_weights, listwise_gap, sign_flip_p
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.narrative_fits import narrative_fits
from audit.tables.formatting import plural


def headline_gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ from all narratives whose own valid ratings determine a gap; baselines are left out.

    One missing rating alters the estimate by what that rating says, and by no more: the estimator is the same with and
    without it, and free of what a narrative adds to single perceivers or experiencers.

    ``by_narrative`` is each narrative's own gap d_i, by least squares on in-group, perceiver and experiencer within it,
    NaN where its ratings do not determine that; ``noise`` is σ²/s_i of
    :func:`~audit.statistics.narrative_fits.narrative_fits`. ``n_answers`` are those of the narratives that are used. On
    complete ratings δ is the mean of the contrasts and its standard error sd/√N. p is the t-test's.
    """
    compared = cube.without_baselines()
    valid = ~np.isnan(compared.y)
    if valid.size and not valid.any():
        raise NotEstimableError("no pair of identities has a rating")
    fits = narrative_fits(compared)
    used = ~np.isnan(fits.gaps)
    if not used.any() or not compared.in_group.any():
        raise NotEstimableError(_why_none(compared))
    return summarise_contrasts(
        fits.gaps,
        noise=fits.noise,
        rounding=fits.rounding,
        confidence=confidence,
        n_answers=int(np.count_nonzero(valid[used])),
    )


def complete_gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ from the narratives alone that lack no rating; baselines must be left out of the cube."""
    if cube.expected.all():
        return listwise_gap(cube, confidence=confidence)
    in_group_weights(cube)
    complete = ~np.asarray(cube.lacking.any(axis=(1, 2)))
    if not complete.any():
        raise NotEstimableError(
            f"none of {plural(complete.size, 'narrative')} has a rating in all pairs that it was asked about"
        )
    found = headline_gap(cube.of_narratives(complete), confidence=confidence)
    return replace(found, n_narratives_asked=complete.size)


def with_sign_flips(estimate: GapEstimate, *, rng: np.random.Generator, n_permutations: int) -> GapEstimate:
    """Add the p of flipping the signs of an estimate's narratives' gaps, each times what it counts for.

    Notes
    -----
    The statistic is |Σ w_i d_i|, the weights held: the same test whatever is missing, and of equal weights that of the
    plain contrasts.
    """
    used = ~np.isnan(estimate.by_narrative)
    weighted = estimate.by_narrative[used] * estimate.weights[used]
    return replace(estimate, p_sign_flip=sign_flip_p(weighted, rng=rng, n_permutations=n_permutations))


def _why_none(compared: NarrativeCube) -> str:
    rated = (~np.isnan(compared.y)).any(axis=0)
    for kind, pairs in (("in-group", compared.in_group), ("out-group", ~compared.in_group)):
        if not (rated & pairs).any():
            return f"no rated pair of identities is {kind}"
    return (
        f"none of {plural(len(compared.y), 'narrative')} has ratings that tell in-group from the effects of its "
        "perceivers and experiencers"
    )
