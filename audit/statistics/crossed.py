"""Narratives crossed with another sample, such as wordings: an interval for both at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.errors import NotEstimableError
from audit.statistics.estimates import EPSILON, GapEstimate, by_t
from audit.statistics.ratings import FloatArray
from audit.tables.formatting import either, plural


@dataclass(frozen=True)
class Crossed:
    """A mean of gaps, narratives × wordings, that speaks of any such narratives and any such wordings.

    The three variances are between narratives' and between wordings' true gaps, and of the residual, in squared points;
    not below 0, NaN if one narrative or one wording does not show any.
    """

    estimate: GapEstimate  # by_narrative is each narrative's mean over wordings, NaN where it lacks one
    n_wordings: int
    narratives: float
    wordings: float
    rest: float


def crossed_gap(gaps: FloatArray, *, confidence: float, n_answers: int) -> Crossed:
    """Average gaps over narratives and wordings, both of which are a sample.

    ``gaps`` has shape (N, V), in points: of each narrative in each wording; narratives with NaN are left out.
    NotEstimableError if fewer than two narratives are left, or there is one wording.

    Notes
    -----
    d_iv = δ + a_i + b_v + e_iv. With MS_N = V var(row means), MS_V = N var(column means) and MS_R the mean square of
    the rest, the variance of the grand mean is max(MS_N, MS_V, MS_N + MS_V − MS_R)/(NV), its degrees of freedom those
    of Satterthwaite for the three mean squares, N − 1 or V − 1 where one of them is the largest. [1]_ calls this the
    crossed design of participants and stimuli.

    References
    ----------
    .. [1] Judd, Westfall and Kenny (2012), Journal of Personality and Social Psychology 103(1), 54–69.

    Examples
    --------
    Two narratives differ by 2 points in each of two wordings, and the wordings do not differ:

    >>> found = crossed_gap(np.array([[1.0, 1.0], [3.0, 3.0]]), confidence=0.95, n_answers=32)
    >>> found.estimate.delta, found.narratives, found.wordings
    (2.0, 2.0, 0.0)
    """
    used = ~np.isnan(gaps).any(axis=1)
    d = gaps[used]
    n, v = d.shape
    if v < 2:
        raise NotEstimableError("one wording says nothing about how wordings differ")
    if n < 2:
        raise NotEstimableError(
            f"{n} of {plural(len(gaps), 'narrative')} {either(n, 'has', 'have')} a gap in every one of {v} wordings; "
            "two are needed"
        )
    rows, columns, mean = d.mean(axis=1), d.mean(axis=0), float(d.mean())
    dust = (16 * EPSILON * float(np.abs(d).max(initial=0.0))) ** 2
    of_rows, of_columns = v * float(rows.var(ddof=1)), n * float(columns.var(ddof=1))
    rest = float(((d - rows[:, None] - columns + mean) ** 2).sum()) / ((n - 1) * (v - 1))
    of_rows, of_columns, rest = (square if square > dust else 0.0 for square in (of_rows, of_columns, rest))
    both = of_rows + of_columns - rest
    largest = max(of_rows, of_columns, both)
    if largest == both and both > 0:
        df = both**2 / (of_rows**2 / (n - 1) + of_columns**2 / (v - 1) + rest**2 / ((n - 1) * (v - 1)))
    else:
        df = float(n - 1 if of_rows >= of_columns else v - 1)
    reason = "" if largest > 0 else "all narratives give the same gap in every wording"
    se = (largest / (n * v)) ** 0.5 if largest > 0 else float("nan")
    by_narrative = np.full(len(gaps), np.nan)
    by_narrative[used] = rows
    return Crossed(
        estimate=GapEstimate(
            **by_t(mean, se, df, confidence=confidence),
            d_z=float("nan"),
            n_narratives=n,
            n_narratives_asked=len(gaps),
            n_answers=n_answers,
            not_estimable=reason,
            by_narrative=by_narrative,
        ),
        n_wordings=v,
        narratives=max(0.0, of_rows - rest) / v,
        wordings=max(0.0, of_columns - rest) / n,
        rest=rest,
    )
