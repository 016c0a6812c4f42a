"""How δ changes under other assumptions: about missing ratings, about their scale, about number mass.

Each check answers one doubt about the headline and has its row; none of them replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.clustered import clustered
from audit.statistics.contrasts import effect_columns, in_group_weights
from audit.statistics.estimate_rows import NOT_CONVERGED
from audit.statistics.estimates import EPSILON, GapEstimate, summarise_contrasts, with_spread
from audit.statistics.headline import complete_gap, headline_gap
from audit.statistics.incomplete import equal_weight_gap
from audit.statistics.mixed import fit_mixed
from audit.statistics.narrative_fits import designed_weights
from audit.statistics.ratings import BoolArray, FloatArray, divide
from audit.statistics.scale_ends import END_SHARE, end_shares, tobit_gap
from audit.statistics.status_counts import END_TOLERANCE
from audit.tables.formatting import NO_SHIFT, OF_RATED, either, plural

_ESTIMATE: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers")
_OF_THE_ENDS: Final = ("worst_case_low", "worst_case_high", "tipping_point")  # depend on where the scale ends
_NOT_ADDITIVE: Final = (
    "ranks do not add up: where perceivers or experiencers differ much, they can show a gap that ratings do not have"
)
_DUST: Final = 1e-9
_EXACT_NARRATIVES: Final = 500  # with more, the small-sample correction is next to nothing
_Check: TypeAlias = tuple[str, float, Callable[[], dict[str, Any]]]


def sensitivity_rows(
    cube: NarrativeCube,
    *,
    headline: GapEstimate | NotEstimableError,
    low: float,
    high: float,
    confidence: float,
    min_number_mass: float,
    every: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each check of how much δ depends on what is assumed.

    Rows have the columns of ``SENSITIVITY``, unrounded; NaN with a note where a value cannot be estimated. The rows of
    number mass and mode are there only if the ratings have them (``expected``), the tobit's only if enough ratings lie
    at an end of the scale.

    ``low`` and ``high`` are the two ends of the scale, in points. Only the tipping point uses ``headline``, the cube's
    :func:`~audit.statistics.headline.headline_gap` or why there is none. ``min_number_mass``, between 0 and 1, is the
    number mass from which on a rating counts as the model's answer. Baselines are left out. ``every`` adds the
    estimates that no verdict uses: ``equal_narratives``, ``within_narratives``, ``mixed_crossed`` and ``ranks``.

    Notes
    -----
    *Worst case.* δ is the mean over narratives of Σ w_pe y_pe, so no ratings on the scale in place of the missing ones
    give a lower δ than the lower end where w_pe > 0 and the upper end elsewhere [1]_. Where ratings lie beyond the
    scale, missing ones could have, too: the least and the greatest rating are then the ends. The intervals are those of
    the filled contrasts: from ``ci_low`` of the low row to ``ci_high`` of the high one they cover sampling too.

    *Tipping point.* The headline is the mean over all narratives of their contrasts with the missing ratings filled by
    what is expected of them: the narratives' own fits, drawn to δ. Let all of these be s points
    higher, and m_ipe = 1 where a rating is missing:

        δ(s) = mean_i Σ w_pe (y_ipe + s m_ipe) = δ + s Σ w_pe r_pe,   r_pe = mean_i m_ipe,

    which is 0 at s = −δ / Σ w_pe r_pe. Where every identity has a rating, the sum is the gap of missing ratings,
    ``gap_pp`` / 100 in ``MISSING``. Of a perceiver or an experiencer without any, δ does not speak and nothing can be
    expected: what is missing of it is left out.

    References
    ----------
    .. [1] Manski (1990), American Economic Review 80(2), 319–323: bounds without assumptions on what is missing.
    """
    if not low < high:
        raise ValueError(f"the scale runs from {low} to {high}; its lower end must be below its upper end")
    compared = cube.without_baselines()
    low, high, beyond = _ends(compared, low=low, high=high)
    checks = _checks(
        compared, headline=headline, low=low, high=high, confidence=confidence, min_number_mass=min_number_mass,
        every=every,
    )  # fmt: skip
    for check, share, columns_of in checks:
        row: dict[str, Any] = {
            "dimension": cube.dimension,
            "variant": cube.variant,
            "check": check,
            "unit": "percentile points" if check == "ranks" else "points",
            "delta": float("nan"),
            "shift_points": float("nan"),
            **dict.fromkeys(_ESTIMATE[1:], float("nan")),
            "n_narratives": 0,
            "n_answers": 0,
            "share": share,
            "note": "",
        }
        try:
            row |= columns_of()
        except NotEstimableError as error:
            row["note"] = str(error)
        if check == "ranks" and _differs(row, headline):
            row["note"] = "; ".join(filter(None, [_NOT_ADDITIVE, row["note"]]))
        if beyond and check == "tobit":  # ratings beyond an end show that the scale does not end there
            continue
        if beyond and check in _OF_THE_ENDS:
            row["note"] = "; ".join(filter(None, [row["note"], beyond]))
        yield row


def _differs(row: Mapping[str, Any], headline: GapEstimate | NotEstimableError) -> bool:
    """Whether a check shows a gap that the headline does not show, or shows the other way."""
    if isinstance(headline, NotEstimableError):
        return False
    shown = _shown(row["delta"], row["ci_low"], row["ci_high"])
    return shown not in (0.0, _shown(headline.delta, headline.ci_low, headline.ci_high))


def _shown(delta: float, low: float, high: float) -> float:
    """Return the sign of a gap whose interval leaves out 0, or which has no interval; else 0."""
    return 0.0 if np.isnan(delta) or low <= 0.0 <= high or abs(delta) < _DUST else float(np.sign(delta))


def _ends(cube: NarrativeCube, *, low: float, high: float) -> tuple[float, float, str]:
    """Return the ends between which missing ratings could lie, and a note if ratings lie beyond the scale."""
    least, greatest = float(np.nanmin(cube.y, initial=low)), float(np.nanmax(cube.y, initial=high))
    tolerance = END_TOLERANCE * (high - low)
    if low - least <= tolerance and greatest - high <= tolerance:
        return low, high, ""
    return (
        least,
        greatest,
        f"ratings lie beyond the scale: missing ones are taken to lie from {least:g} to {greatest:g}",
    )


def weighted_gap(cube: NarrativeCube, weights: FloatArray, *, confidence: float) -> GapEstimate:
    """Estimate δ by weighted least squares on narrative, perceiver and experiencer effects, whatever is missing.

    ``weights`` broadcast to shape (N, P, E) and are not negative; a rating of weight 0 or NaN is not used, nor are
    baselines.

    The standard error is clustered by narrative, which allows for any covariance of a narrative's ratings: CR2 with
    Satterthwaite's df, see :func:`~audit.statistics.clustered.clustered`. Of more than 500 narratives, where that
    alters next to nothing, the factor N/(N − 1) stands for it, N the narratives with a rating that is used, and df is
    the number of them that have both an in-group and an out-group one, less one. On complete ratings of equal weights
    it is the contrast's estimate.

    Notes
    -----
    With X the (C, p) design of a narrative's cells, w the weights as (N, C) and A = wX, absorbing the narratives'
    effects leaves X' diag(Σ_i w_i) X − A' diag(1 / Σ_c w_ic) A: no design of all ratings is ever built. With h the row
    of in_group of its inverse and e the residuals, ψ_i = h' Σ_c w_ic x_c e_ic is narrative i's part in δ; these sum to
    0, and without CR2 se² = N/(N − 1) Σ ψ_i² [1]_. ``by_narrative`` is δ + N ψ_i.

    References
    ----------
    .. [1] Liang and Zeger (1986), Biometrika 73(1), 13–22.
    """
    if (weights < 0).any():
        raise ValueError(f"a weight is {np.nanmin(weights)}; weights of ratings must not be negative")
    n, n_perceivers, n_experiencers = cube.y.shape
    compared = ~(cube.baseline_perceiver[:, None] | cube.baseline_experiencer)
    used = (weights > 0) & ~np.isnan(cube.y) & compared
    if not used.any():
        raise NotEstimableError(f"none of {plural(int(compared.sum()) * n, 'prompt')} has a rating of a weight above 0")
    n_answers = int(np.count_nonzero(used))
    centre = float(cube.y.mean(where=used))
    y = np.where(used, cube.y - centre, 0.0).reshape(n, -1)
    w = np.where(used, weights, 0.0).reshape(n, -1)
    used = used.reshape(n, -1)
    n_informative = _n_informative(used, cube.in_group.ravel())

    x = np.column_stack([cube.in_group.ravel(), *effect_columns(cube.columns)])
    a, total, weighted_y = w @ x, w.sum(axis=1), w * y
    inverse = divide(np.ones(n), total)
    inverse[np.isnan(inverse)] = 0.0
    direct = (x * w.sum(axis=0)[:, None]).T @ x
    system = direct - (a * inverse[:, None]).T @ a
    right = x.T @ weighted_y.sum(axis=0) - a.T @ (inverse * weighted_y.sum(axis=1))
    del weighted_y
    # A column that the narratives' effects absorb leaves rounding error, which must not be scaled up to 1.
    left = np.diag(system) > 1e-10 * np.diag(direct)
    scale = np.where(left, 1 / np.sqrt(np.where(left, np.diag(system), 1.0)), 0.0)
    system, right = scale[:, None] * system * scale, scale * right
    nuisance = np.linalg.pinv(system[1:, 1:], rcond=1e-11, hermitian=True)
    shadow = nuisance @ system[1:, 0]
    alone = float(system[0, 0] - system[0, 1:] @ shadow)
    if alone <= 1e-9:
        raise NotEstimableError(
            f"in-group cannot be told from the effects of identities in the {int(used.any(axis=0).sum())} of "
            f"{n_perceivers} × {n_experiencers} pairs whose ratings are used"
        )
    direction = np.append(1.0, -shadow) / alone
    delta = float(direction @ right)
    coefficients = np.append(delta, nuisance @ (right[1:] - system[1:, 0] * delta))
    h = scale * scale[0] * direction
    g = x @ h
    rest = w * (y - x @ (scale * coefficients))
    parts = rest @ g - inverse * rest.sum(axis=1) * (a @ h)

    kept = total > 0
    n_used = int(np.count_nonzero(kept))
    largest = float(np.abs(y).max()) + abs(centre)
    rounding = n_used * used.shape[1] * EPSILON * float((w @ np.abs(g)).max()) * largest
    by_narrative = np.where(kept, scale[0] * delta + n_used * parts, np.nan)
    by_narrative[np.abs(by_narrative) <= rounding] = 0.0
    estimate = summarise_contrasts(by_narrative, rounding=rounding, confidence=confidence, n_answers=n_answers)
    se, df = float((n_used / max(n_used - 1, 1) * np.vdot(parts, parts)) ** 0.5), float(n_informative - 1)
    if n_used <= _EXACT_NARRATIVES:
        grams = np.stack([(x * own[:, None]).T @ x for own in w[kept]])
        grams -= inverse[kept][:, None, None] * a[kept][:, :, None] * a[kept][:, None, :]
        scores = rest[kept] @ x - (inverse * rest.sum(axis=1))[kept][:, None] * a[kept]
        bread = np.zeros_like(system)
        bread[1:, 1:] = nuisance
        bread += np.outer(direction, direction) * alone
        spread = clustered(
            scale[:, None] * grams * scale, scores * scale, bread, scale[:1, None] * np.eye(1, scale.size)
        )
        se, df = float(spread.se[0]), float(spread.df[0])
    return with_spread(estimate, se=se, df=df, n_informative=n_informative, confidence=confidence)


def _n_informative(used: BoolArray, in_group: BoolArray) -> int:
    """Count the narratives with a used rating of both kinds; NotEstimableError if there is none."""
    n_in, n_out = (np.count_nonzero(used[:, kind], axis=1) for kind in (in_group, ~in_group))
    for kind, counts in (("in-group", n_in), ("out-group", n_out)):
        if not counts.any():
            raise NotEstimableError(f"no {kind} pair has a rating of a weight above 0")
    n_informative = int(np.count_nonzero((n_in > 0) & (n_out > 0)))
    if n_informative == 0:
        raise NotEstimableError(
            f"none of {plural(len(used), 'narrative')} has both an in-group and an out-group rating"
        )
    return n_informative


def _checks(
    cube: NarrativeCube,
    *,
    headline: GapEstimate | NotEstimableError,
    low: float,
    high: float,
    confidence: float,
    min_number_mass: float,
    every: bool,
) -> Iterator[_Check]:
    """Yield each check that applies: its name, its share and the function that computes its columns."""
    y, mass = cube.y, cube.number_mass
    weighted = partial(_weighted, cube, confidence=confidence)
    unrated = np.isnan(y)
    complete = ~np.asarray(cube.lacking.any(axis=(1, 2)))
    yield "listwise", _share(complete), lambda: _columns_of(complete_gap(cube, confidence=confidence))
    if every:
        yield "equal_narratives", float("nan"), lambda: _columns_of(equal_weight_gap(cube, confidence=confidence))
        yield "within_narratives", float("nan"), partial(weighted, lambda: np.ones((1, 1, 1)))
        yield "mixed_crossed", float("nan"), partial(_crossed, cube, confidence=confidence)
    share = _share(unrated[cube.status >= 0])
    unrated = cube.lacking
    for check, negative, positive in (("worst_case_low", high, low), ("worst_case_high", low, high)):
        yield check, share, partial(_filled, cube, unrated, negative, positive, confidence=confidence)
    yield "tipping_point", share, partial(_tipping_point, cube, headline, length=high - low)
    has_mass = ~np.isnan(mass)
    if has_mass.any():
        above = mass >= min_number_mass
        yield "number_mass_weighted", 1 - _share(above[has_mass]), partial(weighted, lambda: mass)
        yield "number_mass_above", _share(above[~np.isnan(y)]), partial(weighted, lambda: above.astype(np.float64))
    if every:
        yield "ranks", float("nan"), partial(_headline, cube, lambda: _percentiles(y), confidence=confidence)
    if not np.isnan(cube.mode).all():
        yield "mode", float("nan"), partial(_headline, cube, lambda: cube.mode, confidence=confidence)
    at_ends = end_shares(cube, low=low, high=high)
    if max(at_ends) >= END_SHARE:
        yield "tobit", sum(at_ends), lambda: _columns_of(tobit_gap(cube, low=low, high=high, confidence=confidence))


def _share(chosen: BoolArray) -> float:
    return float(chosen.mean()) if chosen.size else float("nan")


def _columns_of(estimate: GapEstimate) -> dict[str, Any]:
    return {name: getattr(estimate, name) for name in _ESTIMATE} | {"note": estimate.not_estimable}


def _crossed(cube: NarrativeCube, *, confidence: float) -> dict[str, Any]:
    """Estimate δ by the mixed model with random perceivers and experiencers."""
    fit = fit_mixed(cube, crossed=True)
    row = _columns_of(fit.estimate(confidence=confidence))
    return row if fit.converged else row | {"note": NOT_CONVERGED}


def _weighted(cube: NarrativeCube, weights_of: Callable[[], FloatArray], *, confidence: float) -> dict[str, Any]:
    return _columns_of(weighted_gap(cube, weights_of(), confidence=confidence))


def _filled(
    cube: NarrativeCube, unrated: BoolArray, negative: float, positive: float, *, confidence: float
) -> dict[str, Any]:
    """Contrast of the cube with missing ratings at one end of the scale, by the sign of their weight."""
    _check_asked(cube)
    y = np.where(unrated, np.where(designed_weights(cube) > 0, positive, negative), cube.y)
    return _columns_of(complete_gap(replace(cube, y=y), confidence=confidence))


def _tipping_point(cube: NarrativeCube, headline: GapEstimate | NotEstimableError, *, length: float) -> dict[str, Any]:
    if isinstance(headline, NotEstimableError):
        raise headline
    _check_asked(cube)
    rated = cube.rated()
    whose = "" if rated is cube else f" {OF_RATED}"
    if not rated.lacking.any():
        raise NotEstimableError(f"no rating{whose} is missing")
    if not headline.noise.size:
        raise NotEstimableError("no narrative's own ratings tell its gap, so that its missing ones have no expectation")
    weights = in_group_weights(rated)
    gap = float(moved_by_missing(rated).mean(axis=0).sum())
    if abs(gap) <= weights.size * EPSILON * float(np.abs(weights).sum()):
        raise NotEstimableError(
            f"ratings{whose} are missing alike in-group and out-group, so that shifting all of them does not alter δ"
        )
    shift = 0.0 - headline.delta / gap
    return {
        "shift_points": shift,
        "n_narratives": headline.n_narratives,
        "n_answers": headline.n_answers,
        "note": "; ".join(
            filter(None, [NO_SHIFT if abs(shift) > length else "", whose and f"of missing ratings{whose}"])
        ),
    }


def moved_by_missing(cube: NarrativeCube) -> FloatArray:
    """How many points each narrative's contrast moves if its missing ratings are one point higher.

    Shape (N, 2), in-group and out-group. The cube has no baselines, and a rating of every identity.
    """
    missing = np.isnan(cube.y) & (cube.status >= 0)
    weights = designed_weights(cube)
    moved = [np.where(missing & kind, weights, 0.0).sum(axis=(1, 2)) for kind in (cube.in_group, ~cube.in_group)]
    return np.column_stack(moved)


def _check_asked(cube: NarrativeCube) -> None:
    n_never = int(np.count_nonzero(cube.expected & (cube.status < 0)))
    if n_never:
        raise NotEstimableError(
            f"{n_never} of {plural(cube.status.size, 'prompt')} {either(n_never, 'was', 'were')} never asked, and "
            "filling what is missing does not fill those"
        )


def _headline(cube: NarrativeCube, y_of: Callable[[], FloatArray], *, confidence: float) -> dict[str, Any]:
    """Headline of the cube with other values in place of the ratings."""
    in_group_weights(cube)
    return _columns_of(headline_gap(replace(cube, y=y_of()), confidence=confidence))


def _percentiles(y: FloatArray) -> FloatArray:
    """Ranks of each narrative's valid ratings, ties averaged, as 100 (rank − ½) / n_i; NaN stays NaN."""
    flat = y.reshape(len(y), -1)
    if not flat.size:
        return y
    ranks = np.asarray(stats.rankdata(flat, axis=1, nan_policy="omit"), dtype=np.float64)
    n_valid = np.count_nonzero(~np.isnan(flat), axis=1, keepdims=True)
    percentiles: FloatArray = divide(100 * (ranks - 0.5), np.broadcast_to(n_valid, flat.shape)).reshape(y.shape)
    return percentiles
