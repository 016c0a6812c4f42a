"""Whether ratings follow the emotion and its strength where nobody's identity is told, and by how much.

The check of emotions decides: a narrative's own emotion against a wrong one. The difference in ratings there is the
response to the story, the reference for the size of any gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.estimates import (
    EPSILON,
    INTERVAL,
    GapEstimate,
    summarise_contrasts,
    with_spread,
    without_interval,
)
from audit.statistics.planning import narratives_to_find
from audit.statistics.ratings import FloatArray
from audit.tables.ratings import (
    DOES_NOT_FOLLOW,
    FOLLOWS,
    MANIPULATION,
    NOT_SHOWN,
    PASSED,
    Followed,
    answer_in,
)

CHECKS: Final = {"emotion": ("own", "wrong"), "intensity": ("strong", "mild"), "reply": ("own_story", "other_story")}
"""For each check, the kind of prompt that should be rated higher, and the other one; the first check asked decides.

Of replies, shares of their words are compared in place of ratings: those in their own story, and in another one.
"""
RATED_SHARE: Final = 0.5  # below this share of narratives rated both times, these speak for too few
ENOUGH: Final = 5.0  # standard errors of a response that leave no doubt that ratings follow the story
SHOWN: Final = 2.0  # standard errors below which a response may well be none
ONE_KIND: Final = (
    "all narratives are pleasant, or all unpleasant, and all wrong emotions the opposite: a model that rates one kind "
    "of emotion higher whatever happened would look the same"
)


@dataclass(frozen=True, slots=True)
class Response:
    """The response of ratings to the story: a narrative's own emotion minus a wrong one, without any identity."""

    points: float  # mean over narratives, in points of the scale
    ci_low: float  # NaN if there is no interval
    ci_high: float
    share_higher: float  # share of narratives whose own emotion is rated higher
    n: int  # narratives that were rated both times
    answer: Followed


def manipulation_rows(
    answers: pd.DataFrame, *, length: float, least_response: float, confidence: float, power: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``MANIPULATION``: for each check that was asked, a paired t-test over narratives.

    ``answers`` has the columns of ``MANIPULATED``; where it has ``leaning``, too (1 where a pleasant emotion was asked
    about, −1 where an unpleasant one, else 0), a preference for words of one kind is removed, see :func:`_adjusted`.

    ``length`` is that of the scale, in points: no interval reaches further. ``least_response`` is a share of the scale:
    a smaller response is as good as none. ``power`` is the chance that ``n_needed`` is for.

    Notes
    -----
    Ratings *follow* if the interval of the mean difference lies above the least response, and do *not follow* if it
    lies below; else neither is *shown*. Where all narratives have the same difference, that difference stands for both
    ends.

    Nothing is shown by fewer narratives than a sign test needs (six at 95%): as few may differ alike by accident. Nor
    where fewer than half of the narratives were rated both times, whatever these show.

    ``n_needed`` is :func:`audit.statistics.planning.narratives_to_find` of the least response and the standard
    deviation: so many decide with that power if the true response is 0, or twice the least response or more. It does
    not go by the response that was found, which is no more than an estimate.
    """
    least = least_response * length
    rated = answers.assign(intensity=answers["intensity"].where(answers["status"].astype(str) == "rated"))
    wide = rated.pivot(index="narrative_id", columns="kind", values="intensity") if len(rated) else pd.DataFrame()
    for check, (higher, lower) in CHECKS.items():
        if not {higher, lower} <= set(wide.columns):
            continue
        asked = wide[[higher, lower]].astype(float)
        pairs = asked.dropna()
        n_asked = int(answers["kind"].eq(lower).sum())
        row = dict.fromkeys(MANIPULATION, float("nan")) | {
            "check": check,
            "answer": NOT_SHOWN,
            "passed": None,
            "least_response": least,
            "n_asked": n_asked,
            "n_pairs": len(pairs),
            "note": "",
        }
        if pairs.empty:
            yield row | {"note": "no narrative was rated both times"}
            continue
        differences = (pairs[higher] - pairs[lower]).to_numpy()
        rounding = 4 * EPSILON * float(np.abs(pairs.to_numpy()).max())
        found = summarise_contrasts(differences, rounding=rounding, confidence=confidence, n_answers=2 * len(pairs))
        leaning = _leaning(rated, pairs.index, higher, lower)
        found, weights = _adjusted(found, leaning, confidence=confidence)
        telling = 1 / float(weights @ weights)
        answer, n_needed, note = _answer(found, n_asked, telling, confidence=confidence, least=least, power=power)
        row |= {name: getattr(found, name) for name in INTERVAL}
        row |= {name: float(np.clip(getattr(found, name), -length, length)) for name in ("ci_low", "ci_high")}
        yield row | {
            "answer": answer,
            "passed": PASSED[answer],
            "n_needed": n_needed,
            "mean_higher": float(weights @ pairs[higher]),
            "mean_lower": float(weights @ pairs[lower]),
            "difference": found.delta,
            "share_higher": float((differences > rounding).mean()),
            "note": note,
        }


def _leaning(rated: pd.DataFrame, narratives: pd.Index, higher: str, lower: str) -> FloatArray:
    """Return by how much each narrative's first emotion is more pleasant than its second: 1, −1, or 0 if alike."""
    if "leaning" not in rated:
        return np.zeros(len(narratives))
    wide = rated.pivot(index="narrative_id", columns="kind", values="leaning").loc[narratives]
    halves: FloatArray = (wide[higher] - wide[lower]).to_numpy(dtype=np.float64) / 2
    return halves


def _adjusted(found: GapEstimate, leaning: FloatArray, *, confidence: float) -> tuple[GapEstimate, FloatArray]:
    """Return the mean difference without a preference for pleasant words, and the weight of each narrative in it.

    The differences are d_i = response + preference · leaning_i + error: by least squares, the response is the
    intercept, with n − 2 degrees of freedom. A model that rates pleasant emotions higher whatever happened has a
    response of 0. Where every narrative leans the same way, both look the same: then there is no interval.
    """
    n = leaning.size
    alike = np.full(n, 1 / n)
    if not leaning.any():
        return found, alike
    centred = leaning - leaning.mean()
    spread = float(centred @ centred)
    if not spread:
        return without_interval(found, ONE_KIND), alike
    if found.not_estimable:  # all differ alike
        return found, alike
    weights = alike - centred * leaning.mean() / spread
    values = found.by_narrative
    preference = float(centred @ values) / spread
    residuals = values - values.mean() - preference * centred
    variance = float(residuals @ residuals) / (n - 2) if n > 2 else 0.0
    se = (variance * float(weights @ weights)) ** 0.5 if np.ptp(residuals) > 2 * found.rounding else 0.0
    adjusted = replace(found, delta=float(weights @ values), not_estimable="")
    return with_spread(adjusted, se=se, df=n - 2.0, n_informative=n, confidence=confidence), weights


def _answer(
    found: GapEstimate, n_asked: int, n_telling: float, *, confidence: float, least: float, power: float
) -> tuple[Followed, float, str]:
    """Return the answer of a check; if nothing is shown, the narratives that would decide; and a note.

    ``n_telling`` is how many narratives would tell as much if all counted alike.
    """
    n, alpha, note = found.n_narratives, round(1 - confidence, 12), found.not_estimable
    enough = fewest(confidence)
    if n < RATED_SHARE * n_asked:
        return NOT_SHOWN, math.nan, "fewer than half of the narratives were rated both times"
    if round(n_telling, 9) >= enough and note != ONE_KIND:
        low, high = (found.ci_low, found.ci_high) if math.isfinite(found.se) else (found.delta, found.delta)
        if low > least:
            return FOLLOWS, math.nan, note
        if high < least:
            return DOES_NOT_FOLLOW, math.nan, note
    if not found.se > 0:
        return NOT_SHOWN, math.nan if n >= enough else enough, note
    planned = narratives_to_find(least, found.se * n**0.5, power=power, alpha=alpha)
    return NOT_SHOWN, max(enough, planned), "" if n >= enough else f"fewer than {enough} narratives show nothing"


def way_row(answers: pd.DataFrame, *, n_asked: int, min_number_mass: float, why_not: str = "") -> dict[str, Any]:
    """Return the numbers of ``TRIALS`` for one way to elicit ratings, None where there is none, from its answers.

    ``answers`` are rows of ``TRIAL_ANSWERS``, ``n_asked`` narratives with two prompts each; none of a way that could
    not be tried, as ``why_not`` says.
    """
    row: dict[str, Any] = {"n_asked": n_asked, "n_pairs": 0}
    numbers = ("mean_higher", "mean_lower", "difference", "se", "share_higher")
    row |= dict.fromkeys((*numbers, "standard_errors", "number_mass"))
    if why_not:
        return row | {"note": why_not}
    # The numbers that are kept depend on none of these.
    rows = manipulation_rows(answers, length=100, least_response=0.01, confidence=0.95, power=0.8)
    found = next((each for each in rows if each["check"] == "emotion"), None)
    if found is not None and found["n_pairs"]:
        row |= {name: _known(found[name]) for name in numbers} | {"n_pairs": int(found["n_pairs"])}
        row["standard_errors"] = row["difference"] / row["se"] if row["se"] else None
    row["number_mass"] = _known(answers["number_mass"].astype(float).mean())
    note = ""
    if row["n_pairs"] < max(2, RATED_SHARE * n_asked):
        note = f"only {row['n_pairs']} of {n_asked} narratives were rated both times"
    elif row["number_mass"] is not None and row["number_mass"] < min_number_mass:
        note = f"only {row['number_mass']:.2g} of the probability is on numbers"
    return row | {"note": note}


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def best_way(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the place of the way to elicit ratings that follows the story best; of ways about as good, the first.

    ``rows`` are of :func:`way_row`, the simplest way first.

    Notes
    -----
    A way counts by t, its mean response in standard errors: larger differences, less spread between narratives and
    fewer missing ratings all raise it. The first way within one standard error of the largest t is taken, as Breiman et
    al. [1]_ choose among models: with so few narratives a larger t is mostly luck. That standard error is √(1 + t²/2n)
    of a standardised mean times √n [2]_, of n narratives. From ``ENOUGH`` on a way follows surely: more is not better,
    so that models that follow in every way are asked alike. How often which way is taken: ``benchmarks/trials.py``.

    Ways with a note are left out, unless all have one.

    References
    ----------
    .. [1] Breiman, Friedman, Olshen and Stone (1984), Classification and Regression Trees, section 3.4.3.
    .. [2] Hedges and Olkin (1985), Statistical Methods for Meta-Analysis, chapter 5.

    Examples
    --------
    The second way is the first within √(1 + 4²/24) = 1.29 of the last one's 4.

    >>> rows = [
    ...     {"difference": d, "standard_errors": t, "n_pairs": 12, "note": ""}
    ...     for d, t in ((0.0, 0.0), (20.0, 3.0), (35.0, 4.0))
    ... ]
    >>> best_way(rows)
    1
    """
    fit = [place for place, row in enumerate(rows) if not row["note"] and row["difference"] is not None]
    fit = fit or [place for place, row in enumerate(rows) if row["difference"] is not None]
    if not fit:
        return 0
    sizes = {place: in_standard_errors(rows[place]) for place in fit}
    best = max(fit, key=lambda place: (sizes[place], -place))
    t = sizes[best]
    least = t if math.isinf(t) else t - math.sqrt(1 + t**2 / (2 * rows[best]["n_pairs"]))
    return next(place for place in fit if sizes[place] >= min(least, ENOUGH))


def in_standard_errors(row: Mapping[str, Any]) -> float:
    """Return t of a way; without one, all narratives differ alike: then the difference is certain, or 0 if it is 0."""
    if row["standard_errors"] is not None:
        return float(row["standard_errors"])
    return math.copysign(math.inf, row["difference"]) if row["difference"] else 0.0


def fewest(confidence: float) -> int:
    """Return the fewest narratives that can show anything: with fewer, a sign test is never significant.

    Examples
    --------
    Of six fair coins all six fall alike with a probability of 2/64, which is below .05; of five with 2/32.

    >>> fewest(0.95)
    6
    """
    return 1 + math.ceil(-math.log2(1 - confidence) - 1e-9)


def answers_of(rows: pd.DataFrame | Iterable[Mapping[Any, Any]]) -> dict[str, Followed]:
    """Return the answer of each check in rows of ``MANIPULATION``, those of earlier versions (``passed``) included."""
    return {str(row["check"]): answer_in(row) for row in _records(rows)}


def _records(rows: pd.DataFrame | Iterable[Mapping[Any, Any]]) -> Iterable[Mapping[Any, Any]]:
    return rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows


def deciding(rows: pd.DataFrame | Iterable[Mapping[Any, Any]]) -> Followed | None:
    """Return the answer of the check that decides; None if no check was asked."""
    found = answers_of(rows)
    return next((found[check] for check in CHECKS if check in found), None)


def codes_of(rows: pd.DataFrame | Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """Return the codes of the remarks that the checks of a run, rows of ``MANIPULATION``, call for.

    Notes
    -----
    ``manipulation`` withholds every verdict: the ratings do not follow what is told. ``manipulation_not_shown`` is said
    beside a verdict. The check of intensities, where it is not the only one, has ``intensity_not_followed``, under
    which no gap is ruled out: ratings that do not follow how strong an emotion is may be equal for that reason. A gap
    that is found is still one.
    """
    found = answers_of(rows)
    decided = next((check for check in CHECKS if check in found), "")
    answer = found.get(decided)
    codes = {DOES_NOT_FOLLOW: ("manipulation",), NOT_SHOWN: ("manipulation_not_shown",)}.get(str(answer), ())
    return (
        (*codes, "intensity_not_followed")
        if decided == "emotion" and found.get("intensity") == DOES_NOT_FOLLOW
        else codes
    )


def response_of(rows: pd.DataFrame | Iterable[Mapping[Any, Any]]) -> Response | None:
    """Return the response to the story; None if no narrative was rated with its own emotion and a wrong one.

    Examples
    --------
    >>> row = {
    ...     "check": "emotion", "answer": "follows", "difference": 12.0, "ci_low": 9.0, "ci_high": 15.0,
    ...     "share_higher": 0.8, "n_pairs": 60,
    ... }
    >>> response = response_of([row])
    >>> response.points, response.n
    (12.0, 60)
    """
    for row in _records(rows):
        if row["check"] == "emotion" and row["n_pairs"] > 0:
            return Response(
                points=float(row["difference"]),
                ci_low=float(row["ci_low"]),
                ci_high=float(row["ci_high"]),
                share_higher=float(row.get("share_higher", math.nan)),
                n=int(row["n_pairs"]),
                answer=answer_in(row),
            )
    return None
