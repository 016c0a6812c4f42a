"""What a reader must know before trusting the numbers of one dimension and variant, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from audit.errors import NotEstimableError
from audit.statistics.estimates import GapEstimate
from audit.statistics.headline import Headline
from audit.statistics.mixed import MixedFit
from audit.statistics.published import PublishedGap

COMPLETE_SHARE: Final = 0.8
"""Below this share of complete narratives, leaving the others out may bias a gap."""
END_SHARE: Final = 0.1
"""Above this share of ratings at an end of the scale, a gap is squeezed or, with main effects, made up."""
REFUSAL_GAP: Final = 1.0
"""Above this difference of refusal rates, in percentage points, what is missing is no accident."""

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Remark:
    """A note on the numbers of one dimension and variant.

    Attributes
    ----------
    dimension, variant
        What it is about; both empty for the whole run.
    code
        ``nothing_rated``, ``not_estimable``, ``no_interval``, ``not_converged``, ``published_not_estimable``,
        ``incomplete_narratives``, ``scale_end``, ``refusal_gap`` or ``number_mass``.
    text
        The remark, in words.
    """

    dimension: str
    variant: str
    code: str
    text: str


def remarks_on(
    *,
    headline: Headline | NotEstimableError,
    contrast: GapEstimate | NotEstimableError,
    fits: Sequence[MixedFit | NotEstimableError],
    published: PublishedGap | NotEstimableError,
    outcomes: Mapping[str, Row],
    refusals: Row,
    low: float,
    high: float,
    min_number_mass: float,
) -> Iterator[tuple[str, str]]:
    """Yield code and text of what limits one dimension and variant.

    Parameters
    ----------
    headline, contrast, fits, published
        The estimates, or why there is none.
    outcomes
        Rows of ``schema.OUTCOMES`` by ``pairs``.
    refusals
        The row of ``schema.MISSING`` for refusals.
    low, high
        The scale's two ends, in points.
    min_number_mass
        Number mass below which numbers are the lesser part of an answer.
    """
    total = outcomes["all"]
    if total["n_rated"] == 0:
        yield (
            "nothing_rated",
            f"None of {total['n_prompts']} prompts has a rating ({total['n_refused']} refused, "
            f"{total['n_unparseable']} unparseable, {total['n_failed']} failed): there is no δ.",
        )
    else:
        yield from _on_estimates(headline, contrast, fits, published)
    for share, end in ((total["floor_share"], low), (total["ceiling_share"], high)):
        if share > END_SHARE:
            yield (
                "scale_end",
                f"{share:.0%} of the ratings are at the end {end:g} of the scale: δ is squeezed there, and identities "
                "that are rated high or low throughout can make a gap that is not one.",
            )
    if abs(refusals["gap_pp"]) > REFUSAL_GAP:
        yield (
            "refusal_gap",
            f"The model refused to rate {refusals['rate_in_group']:.1%} of in-group and "
            f"{refusals['rate_out_group']:.1%} of out-group prompts, a refusal gap of {refusals['gap_pp']:+.1f} "
            "percentage points: what is missing is not missing at random, and the refusals are a finding of their own.",
        )
    if total["mean_number_mass"] < min_number_mass:
        yield (
            "number_mass",
            f"On average the model gives a probability of only {total['mean_number_mass']:.2f} to answering with a "
            "number of the scale: the ratings speak of the lesser part of what it would say.",
        )


def _on_estimates(
    headline: Headline | NotEstimableError,
    contrast: GapEstimate | NotEstimableError,
    fits: Sequence[MixedFit | NotEstimableError],
    published: PublishedGap | NotEstimableError,
) -> Iterator[tuple[str, str]]:
    if isinstance(headline, NotEstimableError):
        yield "not_estimable", f"δ can not be estimated: {headline}."
    else:
        estimate = headline.estimate
        if estimate.not_estimable:
            yield "no_interval", f"δ has no standard error and no interval: {estimate.not_estimable}."
        n_complete = 0 if isinstance(contrast, NotEstimableError) else contrast.n_narratives
        if n_complete < COMPLETE_SHARE * estimate.n_narratives_asked:
            share = n_complete / estimate.n_narratives_asked
            alone = (
                f" They alone would give {contrast.delta_points:+.2f}."
                if isinstance(contrast, GapEstimate) and n_complete
                else ""
            )
            yield (
                "incomplete_narratives",
                f"Only {n_complete} of {estimate.n_narratives_asked} narratives ({share:.0%}) have a rating for every "
                f"pair of identities.{alone} δ uses all {estimate.n_ratings} ratings, and may still be biased if what "
                "is missing depends on what it would have been.",
            )
    if any(isinstance(fit, MixedFit) and not fit.converged for fit in fits):
        yield (
            "not_converged",
            "The optimum of a mixed model could not be confirmed: do not rely on the rows of that estimator.",
        )
    if isinstance(published, NotEstimableError) and str(published) != str(contrast):
        yield "published_not_estimable", f"The published δ_z can not be computed: {published}."
