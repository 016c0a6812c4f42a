"""Whether ratings follow the emotion and its strength where nobody's identity is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.statistics.estimates import EPSILON, summarise_contrasts
from audit.tables.ratings import MANIPULATION

CHECKS: Final = {"emotion": ("own", "wrong"), "intensity": ("strong", "mild")}
"""Of each check, the kind of prompt that is to be rated higher, and the other one."""
_NUMBERS: Final = ("se", "df", "ci_low", "ci_high", "p")


def manipulation_rows(answers: pd.DataFrame, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.MANIPULATION``: of each check that was asked, a paired t-test over narratives.

    Parameters
    ----------
    answers
        Columns of ``tables.MANIPULATED``.
    confidence
        Coverage of the intervals, between 0 and 1.

    Notes
    -----
    A check is passed where the whole interval of the mean difference lies above 0.
    """
    rated = answers.assign(intensity=answers["intensity"].where(answers["status"].astype(str) == "rated"))
    wide = rated.pivot(index="narrative_id", columns="kind", values="intensity") if len(rated) else pd.DataFrame()
    for check, (higher, lower) in CHECKS.items():
        if not {higher, lower} <= set(wide.columns):
            continue
        asked = wide[[higher, lower]].astype(float)
        pairs = asked.dropna()
        row = dict.fromkeys(MANIPULATION, float("nan")) | {
            "check": check,
            "n_asked": int(answers["kind"].eq(lower).sum()),
            "n_pairs": len(pairs),
            "mean_higher": float(pairs[higher].mean()) if len(pairs) else float("nan"),
            "mean_lower": float(pairs[lower].mean()) if len(pairs) else float("nan"),
            "passed": None,
            "note": "",
        }
        if pairs.empty:
            yield row | {"note": "no narrative was rated both times"}
            continue
        differences = (pairs[higher] - pairs[lower]).to_numpy()
        largest = float(np.abs(pairs.to_numpy()).max())
        found = summarise_contrasts(
            differences, rounding=4 * EPSILON * largest, confidence=confidence, n_ratings=2 * len(pairs)
        )
        row |= {"difference": found.delta_points, **{name: getattr(found, name) for name in _NUMBERS}}
        if len(pairs) > 1:
            row["passed"] = bool(found.ci_low > 0) if np.isfinite(found.ci_low) else bool(found.delta_points > 0)
        yield row | {"note": found.not_estimable}
