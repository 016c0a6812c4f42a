"""Differences between replies that were not matched: least squares beside what is known of each message.

Of transcripts nobody chose which group writes what. A group that writes longer messages may get longer replies for
that alone. So a measure is regressed on who is replied to and on the messages' covariates, together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from audit.statistics.clustered import clustered
from audit.statistics.estimates import EPSILON, summarise_contrasts, with_spread
from audit.statistics.families import FamilyMember
from audit.statistics.ratings import BoolArray, FloatArray, IntArray

ADJUSTED: Final = "adjusted"  # as `estimator` of tables
_NOTHING: Final = 1e-10  # a column's remaining sum of squares counts as 0 below this share of its own
_ONE_UNIT: Final = "all replies to some group are of one conversation, or answer one message: leave that group out"
_UNDETERMINED: Final = "groups, or what replies are adjusted for, cannot be told apart in these replies"


class _Design(NamedTuple):
    """The columns of n replies: who is replied to, then covariates, both without a level of their own."""

    x: FloatArray  # shape (n, C + K); columns of covariates have mean 0 and standard deviation 1
    narrative: IntArray  # shape (n,), of each reply
    cell: IntArray  # shape (n,)
    inverse: FloatArray  # shape (C + K, C + K), (X'X)⁺

    @classmethod
    def of(cls, there: BoolArray, covariates: FloatArray) -> _Design:
        """Lay out the replies that are there, shape (N, C), with their messages' covariates, shape (N, K)."""
        narrative, cell = np.nonzero(there)
        known = covariates[narrative]
        known = known - known.mean(axis=0) if len(known) else known
        sd = known.std(axis=0)
        # what is the same in all messages of these replies explains nothing
        known = (known / np.where(sd > 0, sd, 1.0))[:, sd > 0]
        x = np.hstack([np.eye(there.shape[1])[cell], known])
        return cls(x, narrative, cell, np.linalg.pinv(x.T @ x, rcond=_NOTHING, hermitian=True))

    def directions(self, weights: FloatArray) -> FloatArray:
        """Write contrasts of cells, shape (M, C), as combinations of all coefficients."""
        return np.hstack([weights, np.zeros((len(weights), self.x.shape[1] - weights.shape[1]))])


def adjusted_contrasts(
    y: FloatArray, weights: FloatArray, covariates: FloatArray, units: Sequence[str], *, confidence: float
) -> list[FamilyMember]:
    """Contrasts of pairs by least squares beside covariates, with errors clustered by unit.

    ``y`` has shape (N, P, E), in the measure's unit, NaN where there is no reply or no number; ``weights`` has shape
    (M, P, E); ``covariates`` has shape (N, K), one row a message; ``units`` has length N, the conversation of each.

    Notes
    -----
    The model is y_r = μ_c(r) + x_r'γ + ε_r, c the pair that reply r is of, by ordinary least squares; the contrast is
    ⟨w, μ̂⟩. Standard errors are CR2 with Satterthwaite's degrees of freedom, clustered by conversation, see
    :func:`~audit.statistics.clustered.clustered`; each pair of the contrast needs replies of two. ``by_narrative`` has
    a value for each unit u, ⟨w, μ̂⟩ + U ψ_u with its part ψ_u = w'(X'X)⁺X_u'e_u in the estimate, so that their mean is
    the contrast.
    """
    flat, w = y.reshape(len(y), -1), weights.reshape(len(weights), -1)
    there = ~np.isnan(flat)
    if not there.any():
        return [FamilyMember(note=_UNDETERMINED) for _ in w]
    design = _Design.of(there, covariates)
    x, numbers = design.x, flat[there]
    directions = design.directions(w)
    moments = x.T @ numbers
    coefficients = design.inverse @ moments
    residuals = numbers - x @ coefficients
    residuals[np.abs(residuals) <= 64 * EPSILON * float(np.abs(numbers).max())] = 0.0
    delta = directions @ coefficients
    reached = directions @ design.inverse @ (x.T @ x)
    determined = np.abs(reached - directions).max(axis=1) <= 1e-6 * np.abs(w).sum(axis=1)
    place_of = {name: place for place, name in enumerate(dict.fromkeys(units))}
    unit = np.array([place_of[name] for name in units], dtype=np.int64)[design.narrative]
    grams = np.zeros((len(place_of), x.shape[1], x.shape[1]))
    np.add.at(grams, unit, x[:, :, None] * x[:, None, :])
    scores = np.zeros((len(place_of), x.shape[1]))
    np.add.at(scores, unit, x * residuals[:, None])
    used = np.bincount(unit, minlength=len(place_of)) > 0
    spread = clustered(grams[used], scores[used], design.inverse, directions)
    parts = np.where(used, directions @ design.inverse @ scores.T, np.nan)
    n_units, rounding = int(used.sum()), 64 * EPSILON * float(np.abs(numbers).max()) * len(numbers) ** 0.5
    of_cell = np.bincount(design.cell, minlength=w.shape[1])
    # with one unit a group's mean and the unit's are the same: residuals do not show how units differ
    n_units_of = np.bincount(np.unique(np.stack([design.cell, unit]), axis=1)[0], minlength=w.shape[1])
    members = []
    for m, own in enumerate(w):
        n_pairs = int(np.count_nonzero(own))
        if not determined[m] or (of_cell[own != 0] == 0).any():
            members.append(FamilyMember(n_pairs=n_pairs, estimator=ADJUSTED, note=_UNDETERMINED))
            continue
        if (n_units_of[own != 0] < 2).any():
            members.append(FamilyMember(n_pairs=n_pairs, estimator=ADJUSTED, note=_ONE_UNIT))
            continue
        size = 0.0 if abs(delta[m]) <= rounding else float(delta[m])
        pooled = summarise_contrasts(
            size + n_units * parts[m], rounding=rounding, confidence=confidence,
            n_answers=int(of_cell[own != 0].sum()),
        )  # fmt: skip
        estimate = with_spread(
            replace(pooled, delta=size),
            se=float(spread.se[m]),
            df=float(spread.df[m]),
            n_informative=n_units,
            confidence=confidence,
        )
        n_replies = len(np.unique(design.narrative))
        estimate = replace(estimate, n_narratives=n_replies, n_narratives_asked=len(y))
        members.append(FamilyMember(estimate, n_pairs, ADJUSTED, estimate.not_estimable))
    return members


def reply_weights(there: BoolArray, weights: FloatArray, covariates: FloatArray) -> FloatArray:
    """Weights of the replies themselves, shape (N, C), in a contrast of :func:`adjusted_contrasts`.

    ``there`` has shape (N, C), ``weights`` (C,). A reply has w'(X'X)⁺x_r, and 0 where there is none.
    """
    design = _Design.of(there, covariates)
    found = np.zeros(there.shape)
    found[there] = (design.directions(weights[None]) @ design.inverse @ design.x.T)[0]
    return found
