"""Statuses of prompts by in-group and out-group: a refusal is an outcome of its own, with a gap of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import contrast_by_narrative
from audit.statistics.estimates import EPSILON, GapEstimate, summarise_contrasts
from audit.statistics.narrative_fits import designed_weights
from audit.statistics.ratings import STATUSES, BoolArray, divide
from audit.tables.formatting import plural

Counts: TypeAlias = npt.NDArray[np.int16]  # prompts of a narrative and pair, shape (N, P, E)
_VERB: Final = {
    "refused": "was refused",
    "unparseable": "was unparseable",
    "failed": "failed",
    "inexact": "was known too inexactly",
    "missing": "lacks a rating",
}
_ESTIMATE: Final = ("se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives")
_RATED: Final = STATUSES.index("rated")
_REFUSED: Final = STATUSES.index("refused")
_FAILED: Final = STATUSES.index("failed")
_INEXACT: Final = STATUSES.index("inexact")


def missing_rows(cube: NarrativeCube, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield a row of ``MISSING`` for each outcome that leaves a prompt without a rating: its rates and its gap.

    Values are unrounded; NaN with a note if one cannot be estimated. Baselines are left out.

    Notes
    -----
    A prompt that failed says nothing about what the model would have done: it is no refusal and no answer. So the rates
    of all but ``failed`` and ``missing`` are over the prompts that did not fail, and their gaps over the narratives
    without a failure. Of a prompt in several wordings all count, and its indicator is the share of them, so that gaps
    stay in percentage points of prompts. Narratives with a prompt that was never asked are in no gap. An
    outcome that no prompt shows has a gap of 0 and no interval: that none was seen does not make its rate known.
    """
    compared = cube.without_baselines()
    counts = compared.n_by_status
    asked = counts.sum(axis=-1)
    answered = asked - counts[..., _FAILED]
    shows = {name: (counts[..., code], asked if code == _FAILED else answered) for code, name in enumerate(STATUSES)}
    del shows["rated"]
    if not counts[..., _INEXACT].any():  # models that give the probability of every token have none
        del shows["inexact"]
    shows["missing"] = asked - counts[..., _RATED], asked
    for outcome, (shown, could) in shows.items():
        yield _row(compared, outcome, shown, could, wanted=int(asked.max(initial=1)), confidence=confidence)


def estimate_refusal_gap(cube: NarrativeCube, *, confidence: float) -> tuple[GapEstimate, BoolArray]:
    """Estimate the gap of refusals in percentage points, as in the row ``refused`` of :func:`missing_rows`.

    Also returns, shape (N,), which of the narratives that it uses had a refusal. NotEstimableError if no narrative was
    asked and answered for all pairs.
    """
    compared = cube.without_baselines()
    counts = compared.n_by_status
    asked = counts.sum(axis=-1)
    answered, refused = asked - counts[..., _FAILED], counts[..., _REFUSED]
    found = _gap(compared, refused, answered, wanted=int(asked.max(initial=1)), confidence=confidence)
    return found, refused.any(axis=(1, 2)) & ~np.isnan(found.by_narrative)


def _row(
    cube: NarrativeCube, outcome: str, shown: Counts, could: Counts, *, wanted: int, confidence: float
) -> dict[str, Any]:
    n_could, n_with = could.sum(axis=0), shown.sum(axis=0)
    inside = cube.in_group
    row: dict[str, Any] = {
        "dimension": cube.dimension,
        "variant": cube.variant,
        "outcome": outcome,
        "rate_in_group": float(divide(n_with[inside].sum(), n_could[inside].sum())),
        "rate_out_group": float(divide(n_with[~inside].sum(), n_could[~inside].sum())),
        "gap_pp": float("nan"),
        **dict.fromkeys(_ESTIMATE, float("nan")),
        "n_narratives": 0,
        "n_prompts": int(n_could.sum()),
        "n_with_outcome": int(n_with.sum()),
        "note": "",
    }
    try:
        estimate = _gap(cube, shown, could, wanted=wanted, confidence=confidence)
    except NotEstimableError as error:
        return row | {"note": str(error)}
    none = "" if row["n_with_outcome"] else f"none of {plural(row['n_prompts'], 'prompt')} {_VERB[outcome]}"
    row |= {"gap_pp": estimate.delta, "note": none or estimate.not_estimable}
    return row | {name: getattr(estimate, name) for name in _ESTIMATE}


def _gap(cube: NarrativeCube, shown: Counts, could: Counts, *, wanted: int, confidence: float) -> GapEstimate:
    """Estimate the gap of an outcome in percentage points, from narratives whose every prompt could show it."""
    weights = designed_weights(cube)
    used = np.asarray(((could == wanted) | ~cube.expected).all(axis=(1, 2)))
    if not used.any():
        asked = cube.n_by_status.sum(axis=-1)
        was = "was asked" if np.array_equal(could, asked) else "was asked and answered"
        raise NotEstimableError(
            f"none of {plural(len(used), 'narrative')} {was} for all {' × '.join(map(str, weights.shape[1:]))} pairs "
            f"of identities{' that it has' if cube.by_design else ''}"
        )
    if cube.by_design:
        contrasts = np.where(used, 100 * np.einsum("npe,npe->n", weights, shown / wanted), np.nan)
        rounding = float(100 * EPSILON * np.abs(weights).sum(axis=(1, 2)).max() * weights[0].size)
        contrasts[np.abs(contrasts) <= rounding] = 0.0
        n_answers = int(np.count_nonzero(cube.expected[used]))
    else:
        contrasts, rounding = contrast_by_narrative(shown / wanted, 100 * weights[0], used=used)
        n_answers = int(np.count_nonzero(used)) * weights[0].size
    return summarise_contrasts(contrasts, rounding=rounding, confidence=confidence, n_answers=n_answers)
