"""People as perceivers: δ of raters who belong to groups, beside the model's δ on the same narratives and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.clustered import clustered
from audit.statistics.echo import echo_free
from audit.statistics.estimates import t_interval
from audit.statistics.headline import headline_gap
from audit.statistics.ratings import FloatArray, IntArray, split_ratings
from audit.tables.formatting import count
from audit.tables.people import PEOPLE_AGREEMENT, PEOPLE_GAP
from audit.tables.shared import OVERALL

MIN_RATERS: Final = 4  # with fewer raters there is no interval
_MIN_NARRATIVES: Final = 4  # with fewer narratives, Fisher's interval of a correlation does not exist
_TOGETHER: Final = " + "  # joins the groups of crossed dimensions, as in the ratings


@dataclass(frozen=True)
class PeopleGap:
    """δ of people over raters, unrounded (as ``GapEstimate``); NaN if the ratings do not determine a value."""

    delta: float
    se: float
    df: float
    ci_low: float
    ci_high: float
    p: float
    note: str = ""  # why there is no interval


def people_gap_tables(
    given: pd.DataFrame,
    members: pd.DataFrame,
    ratings: pd.DataFrame,
    *,
    confidence: float,
    stems: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, pd.DataFrame]:
    """Estimate δ of people for each dimension, and how far people and model agree on the order of narratives.

    ``given`` has one row for each rater and item of the rater's list; ``dimension`` is empty for the unspecified
    experiencer, ``intensity`` NaN if left out. ``members`` has the group that each rater answered, by dimension.
    """
    gaps: list[dict[str, Any]] = []
    agreements: list[dict[str, Any]] = []
    if len(given):
        answered = {(str(r), str(d)): str(g) for r, d, g in members[["rater", "dimension", "group"]].to_numpy()}
        for dimension, variant, part in split_ratings(ratings):
            told = (stems or {}).get(dimension, {})
            gaps += _gap_row(
                given, answered, part, dimension=dimension, variant=variant, confidence=confidence, stems=told
            )
        rated = ratings.loc[ratings["intensity"].notna()]
        for name, own in rated.groupby("variant", sort=False, observed=True):
            agreements += [{"variant": str(name), **row} for row in _agreement_rows(given, own, confidence=confidence)]
    return {
        "people_gap": pd.DataFrame(gaps, columns=list(PEOPLE_GAP)),
        "people_agreement": pd.DataFrame(agreements, columns=list(PEOPLE_AGREEMENT)),
    }


def people_gap(
    y: FloatArray, *, rater: IntArray, narrative: IntArray, experiencer: IntArray, shared: FloatArray, confidence: float
) -> PeopleGap:
    """Estimate in-group minus out-group from raters who each read a narrative once; NotEstimableError if inseparable.

    ``y``, in points, and the codes of rater, narrative and experiencer have shape (n,). ``shared``, shape (n, D), is
    0/1: whether rater and experiencer share the group in exactly d of the crossed dimensions, in-group last; one column
    for a single dimension.

    Notes
    -----
    Least squares for δ in y_rne = a_r + b_n + c_e + δ·[in-group] + ε, with each rater's mean removed. Raters are the
    sample: the standard error is CR2, clustered on raters, with Satterthwaite's degrees of freedom, so δ and the errors
    may differ between raters. Narratives are fixed: the interval does not generalise to others.
    """
    narratives, experiencers = (np.eye(int(codes.max()) + 1)[codes] for codes in (narrative, experiencer))
    x = np.column_stack([narratives, experiencers, shared])
    grams, swept = [], []
    for who in range(int(rater.max()) + 1):
        own = x[rater == who] - x[rater == who].mean(axis=0)
        grams.append(own.T @ own)
        swept.append((own, y[rater == who] - y[rater == who].mean()))
    stacked = np.stack(grams)
    system = stacked.sum(axis=0)
    inverse = np.linalg.pinv(system, rcond=1e-10, hermitian=True)
    direction = np.zeros((1, x.shape[1]))
    direction[0, -1] = 1.0
    if np.abs(direction @ inverse @ system - direction).max() > 1e-7:
        raise NotEstimableError(
            "in-group cannot be told from the levels of raters, narratives and experiencers; this needs raters of two "
            "groups or more, each with in-group and out-group items"
        )
    beta = inverse @ sum(own.T @ values for own, values in swept)
    scores = np.stack([own.T @ (values - own @ beta) for own, values in swept])
    delta = float(beta[-1])
    if len(grams) < MIN_RATERS:
        nothing = float("nan")
        few = f"{count(len(grams))} raters say nothing about how raters differ; an interval takes {MIN_RATERS}"
        return PeopleGap(delta, nothing, nothing, nothing, nothing, nothing, few)
    spread = clustered(stacked, scores, inverse, direction)
    se, df = float(spread.se[0]), float(spread.df[0])
    low, high, p = t_interval(delta, se, df, confidence=confidence)
    return PeopleGap(delta, se, df, low, high, p, "" if se > 0 else "the ratings do not show how raters differ in it")


def fisher_interval(r: float, n: int, *, confidence: float) -> tuple[float, float]:
    """Return Fisher's interval of a correlation; NaN for fewer than 4 pairs, or if it is 1 or −1.

    Examples
    --------
    >>> low, high = fisher_interval(0.5, 28, confidence=0.95)  # tanh(0.549 ± 1.96 / √25)
    >>> round(low, 3), round(high, 3)
    (0.156, 0.736)
    """
    if n < _MIN_NARRATIVES or not abs(r) < 1:
        return float("nan"), float("nan")
    half = float(special.ndtri(0.5 + confidence / 2)) / (n - 3) ** 0.5
    middle = np.arctanh(r)
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


def _gap_row(
    given: pd.DataFrame,
    answered: Mapping[tuple[str, str], str],
    part: pd.DataFrame,
    *,
    dimension: str,
    variant: str,
    confidence: float,
    stems: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """Yield the row of a dimension and variant; nothing if it has no items."""
    own = given.loc[given["dimension"] == dimension]
    if own.empty:
        return
    compared = part.loc[part["n_shared"].notna()]
    pairs = compared[["perceiver_group", "experiencer_group"]].astype(str).agg(tuple, axis=1)
    shared = dict(zip(pairs, compared["n_shared"].astype(int), strict=True))
    sides = dimension.split("+")
    groups = own["rater"].map(lambda rater: _TOGETHER.join(answered.get((str(rater), side), "") for side in sides))
    known = set(compared["perceiver_group"].astype(str))
    belongs = groups.isin(known).to_numpy()
    has = own["intensity"].notna().to_numpy()
    used = own.loc[belongs & has].assign(group=groups.loc[belongs & has])
    row: dict[str, Any] = dict.fromkeys(PEOPLE_GAP, float("nan")) | {
        "dimension": dimension,
        "variant": variant,
        "n_raters": used["rater"].nunique(),
        "n_groups": used["group"].nunique(),
        "n_narratives": used["narrative_id"].nunique(),
        "n_ratings": len(used),
        "n_excluded": own.loc[~belongs, "rater"].nunique(),
        "n_ratings_excluded": int((~belongs & has).sum()),
        "n_skipped": int((~has).sum()),
        "note": "",
        "model_n_narratives": 0,
        **dict.fromkeys(("model_note", "model_echo_free_note"), ""),
    }
    if used.empty:
        row |= dict.fromkeys(("model_note", "model_echo_free_note"), "no groups")
        yield row | {"note": "no rating is by a rater who belongs to one of the groups"}
        return
    degree = np.array([shared[each] for each in zip(used["group"], used["experiencer_group"], strict=True)])
    top = max(shared.values())
    codes = {name: pd.factorize(used[name])[0] for name in ("rater", "narrative_id", "experiencer")}
    try:
        found = people_gap(
            used["intensity"].to_numpy(dtype=np.float64),
            rater=codes["rater"],
            narrative=codes["narrative_id"],
            experiencer=codes["experiencer"],
            shared=np.column_stack([degree == d for d in range(1, top + 1)]).astype(np.float64),
            confidence=confidence,
        )
        row |= {name: getattr(found, name) for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "note")}
    except NotEstimableError as error:
        row["note"] = str(error)
    yield row | _model_gap(compared, used, dimension=dimension, variant=variant, confidence=confidence, stems=stems)


def _model_gap(
    compared: pd.DataFrame,
    used: pd.DataFrame,
    *,
    dimension: str,
    variant: str,
    confidence: float,
    stems: Mapping[str, str],
) -> dict[str, Any]:
    """Estimate the model's δ on what people rated, of all pairs: people have no words that a pair could repeat."""
    same = (
        compared["narrative_id"].astype(str).isin(set(used["narrative_id"]))
        & compared["perceiver_group"].astype(str).isin(set(used["group"]))
        & compared["experiencer"].astype(str).isin(set(used["experiencer"]))
    )
    try:
        if not same.any():
            raise NotEstimableError("the model was not asked as these groups about these narratives")
        cube = NarrativeCube.from_ratings(compared.loc[same], dimension=dimension, variant=variant)
        found = headline_gap(cube, confidence=confidence)
    except NotEstimableError as error:
        return dict.fromkeys(("model_note", "model_echo_free_note"), str(error))
    row = {
        "model_delta": found.delta,
        "model_ci_low": found.ci_low,
        "model_ci_high": found.ci_high,
        "model_n_narratives": found.n_narratives,
        "model_note": found.not_estimable,
    }
    free = attempt(lambda: headline_gap(echo_free(cube, stems), confidence=confidence))
    if isinstance(free, NotEstimableError):
        return row | {"model_echo_free_note": str(free)}
    return row | {
        "model_echo_free": free.delta,
        "model_echo_free_low": free.ci_low,
        "model_echo_free_high": free.ci_high,
        "model_echo_free_note": free.not_estimable,
    }


def _agreement_rows(given: pd.DataFrame, rated: pd.DataFrame, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the correlation of people's and the model's narrative means, over all emotions and for each."""
    have = given.loc[given["intensity"].notna()]
    level = have["intensity"] - have.groupby("rater")["intensity"].transform("mean")
    people = level.groupby(have["narrative_id"]).mean()
    model = rated.groupby(rated["narrative_id"].astype(str))["intensity"].mean()
    emotion = have.drop_duplicates("narrative_id").set_index("narrative_id")["emotion"].astype(str)
    for name in (OVERALL, *dict.fromkeys(emotion)):
        ids = [each for each in people.index if name in (OVERALL, emotion[each]) and each in model.index]
        own = have.loc[have["narrative_id"].isin(ids)]
        first, second = people.loc[ids].to_numpy(), model.loc[ids].to_numpy(dtype=np.float64)
        row: dict[str, Any] = {
            "emotion": name,
            "n": len(ids),
            "n_raters": own["rater"].nunique(),
            "n_ratings": len(own),
            **dict.fromkeys(("r", "ci_low", "ci_high"), float("nan")),
            "note": "",
        }
        if len(ids) < _MIN_NARRATIVES - 1:
            yield row | {"note": f"{count(len(ids))} narratives make no correlation, which takes {_MIN_NARRATIVES - 1}"}
            continue
        if np.ptp(first) == 0 or np.ptp(second) == 0:
            yield row | {"note": "one side is the same for all narratives, and so has no order"}
            continue
        r = float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
        low, high = fisher_interval(r, len(ids), confidence=confidence)
        few = "" if low == low else f"Fisher's interval takes {_MIN_NARRATIVES} narratives, and no perfect correlation"
        yield row | {"r": r, "ci_low": low, "ci_high": high, "note": few}
