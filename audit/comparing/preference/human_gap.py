"""Which of two runs' replies people prefer: the share with its interval over raters and narratives, and its gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from audit.comparing.preference.statistics import GAP, corrected_by_kind, share_cube
from audit.errors import NotEstimableError
from audit.statistics.estimates import EPSILON, INTERVAL, t_interval
from audit.statistics.narrative_fits import narrative_fits
from audit.statistics.ratings import FloatArray, IntArray
from audit.tables.formatting import count
from audit.tables.preference import PEOPLE_PREFERENCE


@dataclass(frozen=True)
class CrossedMean:
    """A mean over a sample of narratives and a sample of raters. Unrounded; NaN if it cannot be estimated."""

    mean: float  # over narratives, of the mean over their raters
    se: float
    df: float
    ci_low: float
    ci_high: float
    p: float  # of the t-test against 0
    var_raters: float  # variance between the raters' true means, at least 0
    var_narratives: float  # the same between the narratives'
    note: str = ""  # why there is no interval, or what it generalises to


def crossed_mean(y: FloatArray, *, rater: IntArray, narrative: IntArray, confidence: float) -> CrossedMean:
    """Average raters' values over narratives, with an interval that generalises to other raters and narratives.

    ``y`` has shape (n,), one value for each rater and narrative; ``rater`` and ``narrative`` are codes from 0 without
    gaps, of the same shape, and no rater has a narrative twice.

    Notes
    -----
    y_rn = μ + a_r + b_n + e_rn, whatever is missing. With w_rn = 1/(N R_n), R_n the raters of narrative n, the mean is
    Σ w y. The sums of w (y − mean) over a rater's narratives give V_R = R/(R − 1) Σ_r (·)², those over a narrative's
    raters V_N likewise, and the residuals of least squares on raters and narratives V_E = σ² Σ w². The variance of the
    mean is max(V_R, V_N, V_R + V_N − V_E); its degrees of freedom are Satterthwaite's of the three, or R − 1 or N − 1
    if one of the first two is the largest. If every rater has every narrative this is the crossed design of
    :func:`~audit.statistics.crossed.crossed_gap`; else V_R and V_N are the cluster-robust variances of a mean [1]_, and
    V_E removes what both contain.

    A single rater says nothing about others: the interval is then over narratives alone, and the note says so.

    References
    ----------
    .. [1] Cameron, Gelbach and Miller (2011), Robust Inference with Multiway Clustering, Journal of Business & Economic
       Statistics 29(2), 238–249.
    """
    n_raters, n_narratives = int(rater.max()) + 1, int(narrative.max()) + 1
    of_narrative = np.bincount(narrative)
    weight: FloatArray = 1 / (n_narratives * of_narrative[narrative])
    mean = float(weight @ y)
    scores: FloatArray = weight * (y - mean)
    dust = (16 * EPSILON * float(np.abs(y).max(initial=0.0))) ** 2
    by_rater, by_narrative = (_clustered(scores, codes, dust=dust) for codes in (rater, narrative))
    residual, residual_df = _residual(y, rater, narrative)
    rest = residual * float(weight @ weight) if residual > dust else 0.0
    nan = float("nan")
    apart = np.isfinite([by_rater, by_narrative]).all() and residual_df > 0
    share = float(np.square(np.bincount(rater, weights=weight)).sum())
    var_raters = max(0.0, by_rater - rest) / share if apart else nan
    var_narratives = max(0.0, by_narrative - rest) * n_narratives if apart else nan

    def of(variance: float, df: float, note: str) -> CrossedMean:
        if not variance > 0:
            note, variance = note or "all choices are alike, and say nothing of how others differ", nan
        low, high, p = t_interval(mean, variance**0.5, df, confidence=confidence)
        return CrossedMean(mean, variance**0.5, df, low, high, p, var_raters, var_narratives, note)

    if n_narratives < 2:
        return of(nan, nan, "one narrative says nothing about how narratives differ")
    if n_raters < 2:
        return of(by_narrative, n_narratives - 1, "of one rater, who says nothing about how raters differ")
    both = by_rater + by_narrative - rest
    largest = max(by_rater, by_narrative, both)
    if largest == both and both > 0:
        parts = by_rater**2 / (n_raters - 1) + by_narrative**2 / (n_narratives - 1)
        df = both**2 / (parts + (rest**2 / residual_df if residual_df > 0 else 0.0))
    else:
        df = float(n_raters - 1 if by_rater >= by_narrative else n_narratives - 1)
    return of(largest, df, "")


def preference_of_people(choices: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Estimate how far people prefer the first run's replies, and the gap of that, by dimension and question.

    ``choices`` has the columns of ``CHOICES``, one row for each rater, pair and question; the result has those of
    ``PEOPLE_PREFERENCE``, with the rows ``all``, ``in_group``, ``out_group`` and ``gap``. What cannot be estimated is a
    row of NaN with a note.

    Notes
    -----
    A rater's choices about one narrative are one value, their mean, since they are not independent. For the gap that
    value is the in-group coefficient of least squares on in-group, perceiver and experiencer within these choices, as
    for δ of ratings; in a square of two perceivers and two experiencers, in-group mean minus out-group mean. Then
    :func:`crossed_mean`.
    """
    rows = [
        row
        for _, own in choices.groupby(["dimension", "question"], observed=True, sort=False)
        for row in _rows(own, confidence=confidence)
    ]
    return corrected_by_kind(pd.DataFrame(rows, columns=list(PEOPLE_PREFERENCE)))


def _rows(own: pd.DataFrame, *, confidence: float) -> Iterator[dict[str, Any]]:
    inside = own["in_group"].astype(bool)
    for kind, part in (("all", own), ("in_group", own.loc[inside]), ("out_group", own.loc[~inside])):
        if len(part):
            yield _counted(part, kind) | _share(part, confidence=confidence)
    yield _counted(own, GAP) | _gap(own, confidence=confidence)


def _counted(part: pd.DataFrame, kind: str) -> dict[str, Any]:
    """Count the choices of a kind of pairs; the estimates are still missing."""
    made = part.loc[part["chose"].notna()]
    return dict.fromkeys(PEOPLE_PREFERENCE, np.nan) | {
        "dimension": part["dimension"].iloc[0],
        "question": part["question"].iloc[0],
        "pairs": kind,
        "n_raters": made["rater"].nunique(),
        "n_narratives": made["narrative_id"].nunique(),
        "n_pairs": made["item_id"].nunique(),
        "n_choices": len(made),
        "n_ties": int((made["chose"] == 0.5).sum()),
        "n_left_out": len(part) - len(made),
        "note": "",
    }


def _share(part: pd.DataFrame, *, confidence: float) -> dict[str, Any]:
    made = part.loc[part["chose"].notna()]
    if made.empty:
        return {"note": "nobody chose"}
    cells = made.groupby(["rater", "narrative_id"], observed=True, sort=False)[["chose", "chose_place"]].mean()
    chosen, placed = (_mean_of(cells[name] - 0.5, confidence=confidence) for name in ("chose", "chose_place"))
    return {
        "share": chosen.mean + 0.5,
        **{name: getattr(chosen, name) for name in INTERVAL},
        "ci_low": chosen.ci_low + 0.5,
        "ci_high": chosen.ci_high + 0.5,
        "var_raters": chosen.var_raters,
        "var_narratives": chosen.var_narratives,
        "position_bias": placed.mean,
        "bias_low": placed.ci_low,
        "bias_high": placed.ci_high,
        "note": chosen.note,
    }


def _gap(own: pd.DataFrame, *, confidence: float) -> dict[str, Any]:
    """Estimate in-group minus out-group from each rater's choices about each narrative."""
    gaps: list[pd.DataFrame] = []
    why = "nobody chose"
    for rater, part in own.groupby("rater", observed=True, sort=False):
        try:
            found = _gaps_of_rater(part)
        except NotEstimableError as error:
            why = str(error)
            continue
        gaps.append(found.rename_axis("narrative_id").to_frame("gap").assign(rater=rater).reset_index())
    told = pd.concat(gaps, ignore_index=True).dropna(subset="gap") if gaps else pd.DataFrame()
    if told.empty:
        return {"note": "no rater's choices tell in-group from perceiver and experiencer" if gaps else why}
    made = _mean_of(told.set_index(["rater", "narrative_id"])["gap"], confidence=confidence)
    n_cells = len(own.loc[own["chose"].notna(), ["rater", "narrative_id"]].drop_duplicates())
    silent = n_cells - len(told)
    left = f"{count(silent)} of {count(n_cells)} sets of a rater's choices about a narrative do not tell it"
    return {
        "share": made.mean,
        **{name: getattr(made, name) for name in INTERVAL},
        "var_raters": made.var_raters,
        "var_narratives": made.var_narratives,
        "n_raters": told["rater"].nunique(),
        "n_narratives": told["narrative_id"].nunique(),
        "note": "; ".join(filter(None, [made.note, left if silent else ""])),
    }


def _gaps_of_rater(part: pd.DataFrame) -> pd.Series:
    """Return a rater's in-group coefficient by narrative; NaN if the choices do not determine it."""
    if part["chose"].isna().all():
        raise NotEstimableError("nobody chose")
    cube = share_cube(part, part["chose"])
    return pd.Series(narrative_fits(cube.without_baselines()).gaps, index=[str(name) for name in cube.narrative_ids])


def _mean_of(cells: pd.Series, *, confidence: float) -> CrossedMean:
    rater, narrative = (pd.factorize(cells.index.get_level_values(name))[0] for name in ("rater", "narrative_id"))
    return crossed_mean(cells.to_numpy(dtype=np.float64), rater=rater, narrative=narrative, confidence=confidence)


def _clustered(scores: FloatArray, codes: IntArray, *, dust: float) -> float:
    """Return the variance of a mean from scores summed by cluster; NaN for one cluster."""
    sums = np.bincount(codes, weights=scores).astype(np.float64)
    n = len(sums)
    if n < 2:
        return float("nan")
    variance = n / (n - 1) * float(sums @ sums)
    return variance if variance > dust else 0.0


def _residual(y: FloatArray, rater: IntArray, narrative: IntArray) -> tuple[float, int]:
    """Return the residual variance of least squares on raters and narratives, and its df; 0 if none are left."""
    columns = np.column_stack([np.eye(int(codes.max()) + 1)[codes] for codes in (rater, narrative)])
    fitted, _, rank, _ = np.linalg.lstsq(columns, y, rcond=None)
    df = len(y) - int(rank)
    if df < 1:
        return 0.0, 0
    rest = y - columns @ fitted
    return float(rest @ rest) / df, df
