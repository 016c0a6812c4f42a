"""How much answers differ if the same prompts are asked again, and what that gives δ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import control_row
from audit.statistics.headline import headline_gap
from audit.statistics.narrative_fits import narrative_fits


@dataclass(frozen=True)
class NoiseFloor:
    """How much the answers to the same prompts differ when they are asked again."""

    n: int  # prompts rated both times
    n_changed: int  # prompts that had a rating only once, the first time or the second
    rms_points: float  # root mean square of the differences, in points; NaN if no prompt was rated both times
    max_points: float


def noise_floor(ratings: pd.DataFrame, again: pd.DataFrame) -> NoiseFloor:
    """Measure how much prompts differ when they are asked again; ``again`` holds some of the prompts of ``ratings``."""
    before = ratings.set_index("prompt_index").loc[again["prompt_index"], "intensity"].to_numpy(dtype=np.float64)
    differences = again["intensity"].to_numpy(dtype=np.float64) - before
    both = ~np.isnan(differences)
    n_changed = int(np.count_nonzero(np.isnan(before) != again["intensity"].isna().to_numpy()))
    if not both.any():
        return NoiseFloor(0, n_changed, float("nan"), float("nan"))
    known = differences[both]
    return NoiseFloor(
        int(both.sum()), n_changed, float(np.sqrt((known**2).mean())), float(np.abs(known).max(initial=0.0))
    )


def noise_row(
    cube: NarrativeCube, floor: NoiseFloor, *, confidence: float, n_wordings: int = 1, dtype: str = ""
) -> dict[str, Any]:
    """Return the row ``noise`` of ``CONTROLS``: how much δ would vary if prompts were asked again.

    ``confidence`` is that of the estimate whose weights of narratives are used. Ratings are means over ``n_wordings``,
    with whose root the noise shrinks. ``dtype`` is the number format that the prompts were asked in, if the row is
    about one.

    Notes
    -----
    A rating's noise of SD r gives a narrative's own gap r/√s, s the information of its design
    (:class:`~audit.statistics.narrative_fits.NarrativeFits`), and δ, the mean of gaps that count w, the root of
    Σ w² r²/s; of N alike, r/√(sN). r is the root mean square difference of two askings, which holds the noise of both:
    of one alone it would be smaller by √2. So the number errs to the large side.

    All of this takes the differences of prompts to be independent. A number format may move ratings of some groups more
    than others, which a sample of a few prompts does not tell.
    """
    gap = attempt(lambda: headline_gap(cube, confidence=confidence))
    control = f"noise_{dtype}" if dtype else "noise"
    row = control_row(cube, control, NotEstimableError(""), levels=0, n_missing=0)
    if isinstance(gap, NotEstimableError) or not floor.n:
        reason = str(gap) if isinstance(gap, NotEstimableError) else "no prompt was rated both times"
        return row | {"note": reason}
    used = gap.weights > 0
    information = narrative_fits(cube.without_baselines()).information[used]
    se = floor.rms_points / n_wordings**0.5 * float(np.sqrt((gap.weights[used] ** 2 / information).sum()))
    return row | {
        "se": se,
        "n_narratives": gap.n_narratives,
        "n_answers": gap.n_answers,
        "note": f"se is the spread of δ if all prompts were asked {f'in {dtype}' if dtype else 'again'}, estimated "
        f"from {floor.n} that were",
    }
