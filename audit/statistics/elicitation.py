"""Whether a rating depends on how it is elicited: from probabilities or in words, and from one asking to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import stats

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import control_row
from audit.statistics.echo import without_echo
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.headline import headline_gap
from audit.statistics.noise import NoiseFloor, noise_floor, noise_row
from audit.statistics.outcome import INTENSITY
from audit.statistics.ratings import STATUSES, FloatArray, compact_ratings, split_ratings, without_dimensions
from audit.tables.controls import CONTROLS, ELICITATION

_ESTIMATED: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives")
_FEWEST: Final = 3  # the fewest pairs of ratings for a correlation


@dataclass(frozen=True)
class ElicitationTables:
    """Tables on how ratings were elicited."""

    elicitation: pd.DataFrame  # empty if nothing was answered in words
    controls: pd.DataFrame  # the rows `elicitation`, `noise`, and `noise_` with each number format
    noise: NoiseFloor | None  # None if nothing was asked again
    # by number format, how far repeated prompts in it differ from those in the run's own
    noise_formats: Mapping[str, NoiseFloor] = field(default_factory=dict)


def elicitation_tables(
    ratings: pd.DataFrame,
    sample: pd.DataFrame,  # columns of ELICITATION_SAMPLE; empty if nothing was asked
    again: pd.DataFrame,
    *,
    confidence: float,
    # δ is the run's headline, and invented groups (placebo) are left out
    stems: Mapping[str, Mapping[str, str]] | None = None,
    placebo: Collection[str] = (),
    notes: Mapping[str, str] | None = None,  # what limits the sample; keys are "dimension variant"
    # by number format, prompts of `again` asked in the same order and batches, in that format
    in_formats: Mapping[str, pd.DataFrame] | None = None,
) -> ElicitationTables:
    """Compare a run's ratings with those of the same prompts in words, and with those of the same prompts again."""
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    if sample.empty and again.empty:
        return ElicitationTables(pd.DataFrame(columns=list(ELICITATION)), pd.DataFrame(columns=list(CONTROLS)), None)
    real = without_dimensions(ratings, placebo)
    floor = noise_floor(ratings, again) if len(again) else None
    # Against the repeated prompts, not against the run, whose order and batches differ too.
    formats = {
        name: noise_floor(again, answers.loc[answers["prompt_index"].isin(again["prompt_index"])])
        for name, answers in (in_formats or {}).items()
        if len(answers) and len(again)
    }
    asked = real.loc[real["prompt_index"].isin(sample["prompt_index"])]
    words = answered(asked, sample)
    parts = {(dimension, variant): part for dimension, variant, part in split_ratings(words)} if len(words) else {}
    for dimension, variant, part in split_ratings(real):
        told = (stems or {}).get(dimension, {})
        own = parts.get((dimension, variant))
        if own is not None:
            pair = of_both(asked, words, dimension=dimension, variant=variant, stems=told)
            note = (notes or {}).get(f"{dimension} {variant}", "")
            made = list(elicitation_rows(*pair, confidence=confidence, note=note))
            rows += made
            controls.append(_control(pair, made[-1], n_missing=len(own) - made[-1]["n_rated"], confidence=confidence))
        if floor is not None:
            cube = NarrativeCube.from_ratings(part, dimension=dimension, variant=variant)
            n_wordings = int(part["wording"].nunique())
            free = without_echo(cube, told)
            controls.append(noise_row(free, floor, confidence=confidence, n_wordings=n_wordings))
            controls += [
                noise_row(free, own_floor, confidence=confidence, n_wordings=n_wordings, dtype=name)
                for name, own_floor in formats.items()
            ]
    named = map(INTENSITY.named, controls)
    return ElicitationTables(
        pd.DataFrame(rows, columns=list(ELICITATION)), pd.DataFrame(named, columns=list(CONTROLS)), floor, formats
    )


def answered(ratings: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the ratings of the prompts that were asked once more, with the new answers in place of the old."""
    asked = ratings.loc[ratings["prompt_index"].isin(answers["prompt_index"])].reset_index(drop=True)
    own = answers.set_index("prompt_index").loc[asked["prompt_index"]]
    return asked.assign(
        status=own["status"].astype(str).to_numpy(),
        intensity=own["intensity"].to_numpy(dtype=np.float64),
        number_mass=np.nan,
        mode=np.nan,
    )


def of_both(
    expected: pd.DataFrame, words: pd.DataFrame, *, dimension: str, variant: str, stems: Mapping[str, str]
) -> tuple[NarrativeCube, NarrativeCube]:
    """Return the cubes of the same prompts by either method, in one dimension and variant, as for the headline."""
    first, second = (
        NarrativeCube.from_ratings(compact_ratings(each), dimension=dimension, variant=variant)
        for each in (expected, words)
    )
    return without_echo(first, stems), without_echo(second, stems)


def elicitation_rows(
    expected: NarrativeCube, words: NarrativeCube, *, confidence: float, note: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``ELICITATION`` of one dimension and variant: ``expected``, then ``generate``.

    Notes
    -----
    Both gaps are of the prompts that both methods rated, so that what one of them lacks makes no difference; where
    there is no such prompt, the expected gap is of all that it rated. Narratives are the units of the difference of the
    two gaps: it is paired, and its interval is of t with N - 1 degrees of freedom. Correlations and the mean difference
    are over prompts, and describe them.
    """
    y, z = expected.y, words.y
    both = ~(np.isnan(y) | np.isnan(z))
    used = both if both.any() else ~np.isnan(y)
    first, second = (_gap(replace(cube, y=np.where(used, cube.y, np.nan)), confidence) for cube in (expected, words))
    asked = words.status >= 0
    shared = {"dimension": words.dimension, "variant": words.variant, "n_prompts": int(asked.sum())}
    compared: dict[str, Any] = {}
    n_both = int(both.sum())
    if n_both:
        compared["mean_difference"] = float((z[both] - y[both]).mean())
        compared |= _correlations(y[both], z[both])
    for method, cube, gap in zip(("expected", "generate"), (expected, words), (first, second), strict=True):
        counts = np.bincount(cube.status[asked], minlength=len(STATUSES)).tolist()
        row: dict[str, Any] = dict.fromkeys(ELICITATION, float("nan")) | shared
        row |= {
            "method": method,
            "n_answers": int(used.sum()) if method == "expected" else n_both,
            "n_narratives": 0,
            "share_alike": _share_alike(cube.y),
            "note": note,
        }
        row |= {f"n_{status}": n for status, n in zip(STATUSES, counts, strict=True)}
        if isinstance(gap, GapEstimate):
            row |= {name: getattr(gap, name) for name in _ESTIMATED}
        reason = gap.not_estimable if isinstance(gap, GapEstimate) else str(gap)
        if method == "generate":
            row |= {
                **compared,
                "refusal_rate": row["n_refused"] / row["n_prompts"],
                **_difference(first, second, confidence),
            }
            if not row["n_rated"]:
                reason = f"none of {row['n_prompts']} answers in words states a number of the scale"
        yield row | {"note": "; ".join(filter(None, [note, reason]))}


def _control(
    pair: tuple[NarrativeCube, NarrativeCube], row: Mapping[str, Any], *, n_missing: int, confidence: float
) -> dict[str, Any]:
    """Return the row ``elicitation`` of ``CONTROLS``: δ of all that the sample rates in words."""
    gap = _gap(pair[1], confidence)
    made = control_row(pair[1], "elicitation", gap, levels=1, n_missing=n_missing)
    of = f"of {row['n_prompts']} prompts answered in words; the table elicitation has δ of the same prompts as expected"
    return made | {"note": "; ".join(filter(None, [of, made["note"]]))}


def _gap(cube: NarrativeCube, confidence: float) -> GapEstimate | NotEstimableError:
    return attempt(lambda: headline_gap(cube, confidence=confidence))


def _share_alike(y: FloatArray) -> float:
    """Return the share of narratives with two ratings or more whose ratings are all the same; NaN without any."""
    ratings = y.reshape(len(y), -1)
    several = ratings[np.count_nonzero(~np.isnan(ratings), axis=1) > 1]
    return float(np.mean(np.nanmax(several, axis=1) == np.nanmin(several, axis=1))) if len(several) else float("nan")


def _correlations(one: FloatArray, other: FloatArray) -> dict[str, float]:
    """Pearson's and Spearman's correlation; empty for few values, or if one side is constant."""
    if one.size < _FEWEST or not np.ptp(one) or not np.ptp(other):
        return {}
    return {
        "pearson": float(np.corrcoef(one, other)[0, 1]),
        "spearman": float(np.corrcoef(stats.rankdata(one), stats.rankdata(other))[0, 1]),
    }


def _difference(
    expected: GapEstimate | NotEstimableError, words: GapEstimate | NotEstimableError, confidence: float
) -> dict[str, float]:
    """Return how much further the gap in words goes than the expected one, narrative by narrative."""
    if isinstance(expected, NotEstimableError) or isinstance(words, NotEstimableError):
        return {}
    differences = words.by_narrative - expected.by_narrative
    if np.isnan(differences).all():
        return {}
    pooled = summarise_contrasts(
        differences,
        rounding=expected.rounding + words.rounding,
        confidence=confidence,
        n_answers=expected.n_answers + words.n_answers,
    )
    return {"difference": pooled.delta, "difference_low": pooled.ci_low, "difference_high": pooled.ci_high}
