"""Which of two runs' replies a judge prefers: the share with its interval, its gap, and the judge's position bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.estimates import INTERVAL, GapEstimate, summarise_contrasts
from audit.statistics.families import adjust_p
from audit.statistics.headline import headline_gap
from audit.statistics.ratings import FloatArray
from audit.statistics.remarks import FEW_NARRATIVES, MISSING_SHARE, Remark
from audit.tables.formatting import count, fixed, plural, rate
from audit.tables.preference import PREFERENCE
from audit.tables.ratings import Status

GAP: Final = "gap"
"""Names the row of the gap in the column ``pairs``."""
_UNREAD: Final = (Status.REFUSED, Status.UNPARSEABLE, Status.FAILED)
"""Statuses of an answer about a pair that contains no choice."""
_ROUNDING: Final = 1e-12
"""A smaller difference of shares is floating-point error."""
_MANY_INCONSISTENT: Final = 0.25
"""Smallest share of inconsistent pairs that gets a remark; our choice."""
_LOW_MASS: Final = 0.5
"""Below this probability of A or B the judge would mostly write something else; as for ratings."""


def preference_table(pairs: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Estimate how far the first run's replies are preferred, and the gap of that, by dimension.

    ``pairs`` has the columns of ``JUDGED_PAIRS``, of one criterion; the result has those of ``PREFERENCE``: for each
    dimension, in order of first appearance, the rows ``all``, ``in_group``, ``out_group``, ``baseline`` if there are
    such pairs, and ``gap``. What cannot be estimated is a row of NaN with a note.

    Notes
    -----
    The sample is one of narratives. The preference is the mean over narratives of their pairs' mean, with a t interval
    of N − 1 degrees of freedom. So is the position bias, from how often the reply that stood first was chosen; since
    each pair is asked in both orders, it does not depend on which replies are better.

    The gap treats the preference as the rating of its pair of identities, and is δ of that: free of the levels of
    single perceivers and experiencers, by each narrative's own gap, whatever pairs are missing.
    """
    rows: list[dict[str, Any]] = []
    for _, own in pairs.groupby("dimension", observed=True, sort=False):
        rows += _dimension_rows(own, confidence=confidence)
    table = pd.DataFrame(rows, columns=list(PREFERENCE))
    return corrected_by_kind(table)


def corrected_by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """Correct p by Holm among rows of one kind of pairs."""
    for kind in table["pairs"].unique():
        of_kind = table["pairs"] == kind
        adjusted, n_tests = adjust_p(table.loc[of_kind, "p"].to_numpy(dtype=np.float64), method="Holm")
        table.loc[of_kind, "p_adjusted"] = adjusted
        table.loc[of_kind, "family_size"] = n_tests
    return table.astype({"family_size": np.int64})


def remarks_on_preference(preference: pd.DataFrame) -> Iterator[Remark]:
    """Yield what limits the preferences of :func:`preference_table`."""
    for row in preference.loc[preference["pairs"] == "all"].to_dict("records"):
        dimension, n_read = str(row["dimension"]), int(row["n_read"])
        said: list[tuple[str, str]] = []
        # One narrative has no interval; if several all show the same bias, none is needed.
        if (
            row["n_narratives"] > 1
            and not row["bias_low"] <= 0 <= row["bias_high"]
            and abs(row["position_bias"]) > _ROUNDING
        ):
            place = "first" if row["position_bias"] > 0 else "second"
            size = fixed(abs(row["position_bias"]) * 100, decimals=1)
            said.append(
                (
                    "position_bias",
                    f"The judge leans to the reply that stands {place}, by {size} percentage points. Asking in both "
                    "orders cancels that in the preference, and does not make the judge a good one.",
                )
            )
        if n_read and row["inconsistent"] >= _MANY_INCONSISTENT:
            said.append(
                (
                    "inconsistent",
                    f"In {rate(row['inconsistent'])} of the pairs the judge contradicts itself when the order is "
                    "swapped: there it tells the replies apart by their place.",
                )
            )
        if n_read and row["mean_mass"] < _LOW_MASS:
            said.append(
                (
                    "low_mass",
                    "On average A and B together have only "
                    f"{rate(row['mean_mass'])} of what the judge would write: the preference says nothing of the rest. "
                    "method=generate shows whether it judges at all.",
                )
            )
        for name, why in (
            ("n_no_reply", "have no two replies to compare (refused, empty, failed or in another script)"),
            ("n_unread", "got no choice that can be read in one order or both"),
        ):
            if row[name] > MISSING_SHARE * row["n_pairs"]:
                said.append(
                    (name, f"{count(row[name])} of {plural(row['n_pairs'], 'pair')} {why}: the others are compared.")
                )
        if row["n_same_text"]:
            same = plural(row["n_same_text"], "pair")
            said.append(
                ("same_text", f"The two replies of {same} are the same words, which pull the preference to one half.")
            )
        if 0 < row["n_narratives"] < FEW_NARRATIVES:
            narratives = plural(row["n_narratives"], "narrative")
            said.append(
                ("few_narratives", f"All of it comes from {narratives}: its intervals lean on how these differ.")
            )
        yield from (Remark(dimension, "", code, text) for code, text in said)


def _dimension_rows(own: pd.DataFrame, *, confidence: float) -> Iterator[dict[str, Any]]:
    inside = own["in_group"].astype("boolean")
    kinds = {
        "all": np.ones(len(own), dtype=np.bool_),
        "in_group": inside.fillna(False).to_numpy(dtype=np.bool_),
        "out_group": (~inside).fillna(False).to_numpy(dtype=np.bool_),
        "baseline": inside.isna().to_numpy(dtype=np.bool_),
    }
    for kind, chosen in kinds.items():
        part = own.loc[chosen]
        if len(part):
            yield _row(part, kind) | _shares(part, confidence=confidence)
    between = own.loc[~kinds["baseline"]]
    if len(between):
        yield _row(between, GAP) | _gap(between, confidence=confidence)


def _row(part: pd.DataFrame, kind: str) -> dict[str, Any]:
    """Count how the pairs of a kind ended; the estimates are still missing."""
    asked = part["given_status"] != ""
    read = part["preference"].notna()
    answers = pd.concat([part.loc[asked, "given_status"], part.loc[asked, "swapped_status"]])
    return dict.fromkeys(PREFERENCE, np.nan) | {
        "dimension": part["dimension"].iloc[0],
        "criterion": part["criterion"].iloc[0],
        "pairs": kind,
        "n_pairs": len(part),
        "n_no_reply": int((~asked).sum()),
        "n_unread": int((asked & ~read).sum()),
        **{f"n_{status}": int((answers == status).sum()) for status in _UNREAD},
        "n_same_text": int((part["same_text"].astype(bool) & read).sum()),
        "n_read": int(read.sum()),
        "n_narratives": part.loc[read, "narrative_id"].nunique(),
        "note": "",
    }


def _shares(part: pd.DataFrame, *, confidence: float) -> dict[str, Any]:
    read = part.loc[part["preference"].notna()]
    if read.empty:
        return {"note": "no pair was read in both orders"}
    preferred, first_place = (_summary(read, column, confidence=confidence) for column in ("preference", "first_place"))
    return {
        "preference": preferred.delta + 0.5,
        **{name: getattr(preferred, name) for name in INTERVAL},
        "ci_low": preferred.ci_low + 0.5,
        "ci_high": preferred.ci_high + 0.5,
        "position_bias": first_place.delta,
        "bias_low": first_place.ci_low,
        "bias_high": first_place.ci_high,
        "inconsistent": 1 - float(read["consistent"].astype(np.float64).mean()),
        "mean_mass": float(pd.concat([read["given_mass"], read["swapped_mass"]]).astype(np.float64).mean()),
        "note": preferred.not_estimable.replace("contrast", "preference"),
    }


def _summary(read: pd.DataFrame, column: str, *, confidence: float) -> GapEstimate:
    """Summarise a share's distance from one half over narratives."""
    means = read.groupby("narrative_id", observed=True, sort=False)[column].mean()
    above: FloatArray = means.to_numpy(dtype=np.float64) - 0.5
    return summarise_contrasts(above, rounding=_ROUNDING, confidence=confidence, n_answers=len(read))


def share_cube(between: pd.DataFrame, shares: pd.Series) -> NarrativeCube:
    """Lay out shares as ratings of their pairs of identities; a missing share counts as unparseable.

    ``between`` holds rows of one dimension with the columns that identify a prompt in ``tables.RATINGS``. ``shares``
    has one value a row, between 0 and 1 or NaN.
    """
    taken = between.assign(
        variant=GAP,
        status=np.where(shares.notna(), Status.RATED.value, Status.UNPARSEABLE.value),
        intensity=shares,
        number_mass=np.nan,
        mode=np.nan,
    )
    return NarrativeCube.from_ratings(taken, dimension=str(between["dimension"].iloc[0]), variant=GAP)


def _gap(between: pd.DataFrame, *, confidence: float) -> dict[str, Any]:
    """Estimate δ of the preference, treated as the rating of its pair of identities."""
    read = between["preference"].notna()
    if not read.any():
        return {"note": "no pair was read in both orders"}
    try:
        cube = share_cube(between, between["preference"])
        made = headline_gap(cube, confidence=confidence)
    except NotEstimableError as error:
        return {"note": str(error)}
    n_missing = int((~read).sum())
    notes = [made.not_estimable, f"missing: {plural(n_missing, 'pair')}" if n_missing else ""]
    return {
        "preference": made.delta,
        **{name: getattr(made, name) for name in INTERVAL},
        "n_narratives": made.n_narratives,
        "note": "; ".join(filter(None, notes)),
    }
