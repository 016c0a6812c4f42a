"""δ of complete narratives alone, by plain contrasts and sign flips: what the estimators of the package are held to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from cubes import contrast_weights

from audit.errors import NotEstimableError
from audit.statistics.contrasts import complete_narratives, contrast_by_narrative, sign_flip_p
from audit.statistics.estimates import summarise_contrasts
from audit.tables.formatting import plural


def degree_gaps(cube, *, rng, n_permutations=10_000, confidence=0.95):
    """Estimate how much higher pairs that share d dimensions are rated than pairs that share none, for each d.

    Returns the estimates by degree, largest first; a degree that the pairs do not determine is absent. Baselines are
    left out, and so are narratives with a missing rating between the identities that remain. ``rng`` draws the sign
    flips, the largest degree first; if there are no more than ``n_permutations``, all of them are taken.
    """
    compared = cube.without_baselines()
    n_asked, n_perceivers, n_experiencers = compared.y.shape
    if n_perceivers == 0 or n_experiencers == 0:
        raise NotEstimableError("the ratings hold baselines only: no perceiver and experiencer have groups to compare")
    complete = complete_narratives(compared)
    n_cells = n_perceivers * n_experiencers
    if not complete.any():
        raise NotEstimableError(
            f"none of {plural(n_asked, 'narrative')} has a rating in all {n_perceivers} × {n_experiencers} pairs of "
            "identities"
        )
    weights = contrast_weights(compared.n_shared)
    gaps = {}
    for degree in range(len(weights), 0, -1):
        w = weights[degree - 1]
        if np.isnan(w).any():
            continue
        contrasts, rounding = contrast_by_narrative(compared.y, w, used=complete)
        estimate = summarise_contrasts(
            contrasts,
            rounding=rounding,
            confidence=confidence,
            n_answers=int(np.count_nonzero(complete)) * n_cells,
        )
        flipped = sign_flip_p(contrasts[complete], rng=rng, n_permutations=n_permutations)
        gaps[degree] = replace(estimate, p_sign_flip=flipped)
    return gaps


def gap_by_narrative(cube, *, rng, n_permutations=10_000, confidence=0.95):
    """Estimate δ: how much higher in-group pairs are rated than out-group pairs, narrative by narrative.

    A positive δ says that in-group experiencers were rated as feeling more; it does not say which rating is right. For
    an intersection, in-group is sharing every dimension, and it is compared with sharing none.

    ``rng`` draws the sign flips; if there are no more than ``n_permutations``, all 2^N are taken.

    Notes
    -----
    The contrast of a narrative is d = ⟨w, y⟩, the in-group coefficient of y ~ in_group + perceiver + experiencer within
    it; δ = mean(d), se = sd(d)/√N, t with N − 1 degrees of freedom. One narrative, or narratives that all give the
    same contrast, have no interval: those fields are NaN and ``not_estimable`` says so.
    """
    in_group = cube.without_baselines().in_group
    if in_group.size and not in_group.any():
        raise NotEstimableError(
            f"no perceiver shares every group with an experiencer in the {' × '.join(map(str, in_group.shape))} pairs "
            "of identities: nothing is in-group"
        )
    gaps = degree_gaps(cube, rng=rng, n_permutations=n_permutations, confidence=confidence)
    return gaps[max(gaps)]
