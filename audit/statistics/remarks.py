"""Remarks in words on what a reader must know before trusting the numbers of one dimension and variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.estimate_rows import Estimates
from audit.statistics.estimates import GapEstimate
from audit.statistics.mixed import MixedFit
from audit.statistics.odd_pairs import additivity
from audit.statistics.scale_ends import END_SHARE, end_shares
from audit.tables.formatting import brief, count, either, interval, p_value, plural, points, rate
from audit.tables.gap import WITHOUT_PERCEIVERS

COMPLETE_SHARE: Final = 0.8
"""Below this share of complete narratives, leaving the others out may bias a gap."""
FEW_NARRATIVES: Final = 20
"""Below this number of narratives an interval depends on how these few differ."""
MISSING_SHARE: Final = 0.1
"""Above this share of prompts without a rating, missing ratings may matter."""
NOT_ADDITIVE: Final = 0.01
"""p of additivity below which there is no verdict: at .05 one model of twenty would have none by chance."""
TOLD_APART: Final = 9
VALUES: Final = 5
"""Ratings of a narrative, and distinct values among them, from which another narrative hardly has the same by chance.
"""
REPEATED_SHARE: Final = 0.1
"""Above this share of narratives with the ratings of another one, a table may hold narratives several times."""
USED_SHARE: Final = 0.1
"""If all ratings are in this first part of the stated scale, they may have been given on a shorter one."""
WRITTEN_APART: Final = 0.1
"""Above this share of the scale between written ratings and those read from probabilities, they are not the same."""
FEWEST_WRITTEN: Final = 10
"""From fewer prompts with both ratings their mean difference says too little."""
REFUSAL_GAP: Final = 1.0
"""A gap of refusals above this, in percentage points, matters if it is not due to chance."""

OWN_STORIES: Final = (
    "Each narrative is the story of one group, asked about with this experiencer only. δ compares perceivers of the "
    "same story, in sets of one story of each group; where numbers count narratives, they count these sets. D compares "
    "groups that have other stories, so there is no verdict on it."
)

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Remark:
    """A note on the numbers of one dimension and variant.

    Attributes
    ----------
    dimension, variant
        Where it applies; both empty for the whole run.
    code
        ``nothing_rated``, ``no_perceivers``, ``unrated_identity``, ``not_estimable``, ``no_interval``,
        ``few_narratives``, ``not_converged``, ``no_own_gaps``, ``published_not_estimable``, ``many_missing``,
        ``incomplete_narratives``, ``scale_end``, ``beyond_scale``, ``refusal_gap``, ``number_mass``,
        ``not_additive``, ``one_cue``, ``uneven_cues``, ``own_stories``, ``written_differs`` or
        ``texts_differ``; of the whole run ``unfinished``, ``knowledge_empty``, ``missing_unexplained``,
        ``narratives_repeated``, ``responses_cut``, ``released_answers`` or ``intensity_differs``.
    text
        The remark, in words.
    """

    dimension: str
    variant: str
    code: str
    text: str


def remarks_of(
    cube: NarrativeCube,
    found: Estimates,
    *,
    outcomes: pd.DataFrame,
    missing: Sequence[Row],
    sensitivity: Sequence[Row],
    low: float,
    high: float,
    min_number_mass: float,
) -> Iterator[Remark]:
    """Yield the remarks on one dimension and variant, from its rows of the tables; the cube has baselines."""
    of_pairs = {row["pairs"]: row for row in outcomes.to_dict("records")}
    refusals = next(row for row in missing if row["outcome"] == "refused")
    tobit = next((row for row in sensitivity if row["check"] == "tobit"), None)
    for code, text in (
        *_on_ratings(cube, found, of_pairs["all"]),
        *_on_missing(of_pairs),
        *_on_ends(cube, tobit, low=low, high=high),
        *_on_beyond(of_pairs["all"], low=low, high=high),
        *_on_refusals(refusals, has_gap=not isinstance(found.headline, NotEstimableError)),
        *_on_answers(cube, of_pairs, min_number_mass=min_number_mass),
        *not_additive(cube, found),
    ):
        yield Remark(dimension=cube.dimension, variant=cube.variant, code=code, text=text)


def n_repeated(ratings: pd.DataFrame) -> int:
    """Count narratives that have the same ratings as another one, pair by pair, in a dimension and variant.

    Only narratives of :data:`TOLD_APART` ratings or more, with :data:`VALUES` values or more, are compared: others may
    agree by chance.
    """
    most = 0
    for _, own in ratings.groupby(["dimension", "variant"], sort=False, observed=True):
        rows = own.pivot(index="narrative_id", columns=["perceiver", "experiencer"], values="intensity")
        telling = rows[(rows.count(axis=1) >= TOLD_APART) & (rows.nunique(axis=1) >= VALUES)]
        most = max(most, int(telling.duplicated(keep=False).sum()))
    return most


def is_written_apart(row: Row, *, length: float) -> bool:
    """Whether a row of ``ELICITATION`` of written answers has ratings far from those read from probabilities.

    ``length`` is that of the scale, in points.
    """
    enough = row["method"] == "generate" and row["n_answers"] >= FEWEST_WRITTEN
    return bool(enough and abs(row["mean_difference"]) > WRITTEN_APART * length)


def written_differs(rows: Sequence[Row], *, length: float) -> Iterator[Remark]:
    """Remark on dimensions in which the model writes other ratings than its probabilities give."""
    for row in rows:
        if is_written_apart(row, length=length):
            apart = float(row["mean_difference"])
            yield Remark(
                str(row["dimension"]),
                str(row["variant"]),
                "written_differs",
                f"The ratings here are read from the model's probabilities. If it writes its answer instead, ratings "
                f"are {points(abs(apart), signed=False)} points {'higher' if apart > 0 else 'lower'} on average "
                f"({plural(row['n_answers'], 'prompt')} with both). δ of written answers may differ, too.",
            )


def not_additive(cube: NarrativeCube, found: Estimates) -> Iterator[tuple[str, str]]:
    """Yield code and text if perceivers' and experiencers' effects multiply, and δ beside that is another."""
    headline = found.headline
    if isinstance(headline, NotEstimableError) or not headline.se > 0:
        return
    tested = additivity(cube.without_baselines())
    if tested is None or not tested.p < NOT_ADDITIVE:
        return
    if abs(tested.delta - headline.delta) > headline.se:
        more = "more" if tested.slope > 0 else "less"
        spread = (
            f"those who rate high also spread their ratings {more}" if tested.slope == tested.slope
            else "some spread their ratings more than others"
        )  # fmt: skip
        yield (
            "not_additive",
            f"Perceivers use the scale in different ways: {spread} ({p_value(tested.p)}). That alone can create a gap. "
            f"With this taken into account, δ is {points(tested.delta)} points instead of {points(headline.delta)}.",
        )


def are_many_missing(n_missing: int, n_prompts: int) -> bool:
    """Tell whether so many prompts between identities, but not all, lack a rating that this may matter."""
    return MISSING_SHARE * n_prompts < n_missing < n_prompts


def are_few_complete(n_complete: float, n_narratives: int) -> bool:
    """Tell whether so few narratives are complete that what is missing may bias a gap."""
    return n_complete < COMPLETE_SHARE * n_narratives


def refusals_differ(gap: Row) -> bool:
    """Tell whether a refusal gap, a row of ``MISSING``, is not due to chance and large enough to matter.

    A gap that is equal in all narratives has no interval, and is not due to chance; one narrative has none either.
    """
    certain = gap["n_narratives"] > 1 and not gap["ci_low"] <= 0.0 <= gap["ci_high"]
    return bool(certain and abs(gap["gap_pp"]) > REFUSAL_GAP)


def unrated_identities(cube: NarrativeCube) -> Iterator[tuple[str, list[str]]]:
    """Yield ``perceiver`` and ``experiencer``, each with the wordings that have no rating at all."""
    compared = cube.without_baselines()
    rated = ~np.isnan(compared.y)
    for side, names, has in (
        ("perceiver", compared.perceivers, rated.any(axis=(0, 2))),
        ("experiencer", compared.experiencers, rated.any(axis=(0, 1))),
    ):
        yield side, [names[place] for place in np.flatnonzero(~np.asarray(has))]


def _on_ratings(cube: NarrativeCube, found: Estimates, total: Row) -> Iterator[tuple[str, str]]:
    if total["n_rated"] == 0:
        inexact = f", {count(total['n_inexact'])} known too inexactly" if total.get("n_inexact") else ""
        remedy = (
            " The server returns too few of the model's probabilities: use elicitation=generate." if inexact else ""
        )
        why = (
            f" ({count(total['n_refused'])} refused, {count(total['n_unparseable'])} unparseable, "
            f"{count(total['n_failed'])} failed{inexact})"
            if total["n_refused"] == total["n_refused"]
            else ""
        )
        of = plural(total["n_prompts"], "prompt")
        yield "nothing_rated", f"None of {of} has a rating{why}, so there is no δ.{remedy}"
    elif not cube.has_perceivers:
        yield "no_perceivers", WITHOUT_PERCEIVERS
    else:
        yield from _on_identities(cube)
        yield from _on_estimates(found)


def _on_missing(outcomes: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    between = [row for pairs, row in outcomes.items() if pairs in ("in_group", "out_group")]
    n_prompts = sum(row["n_prompts"] for row in between)
    n_missing = n_prompts - sum(row["n_rated"] for row in between)
    if are_many_missing(n_missing, n_prompts):
        yield (
            "many_missing",
            f"{count(n_missing)} of {plural(n_prompts, 'prompt')} between identities ({rate(n_missing / n_prompts)}) "
            "gave no rating. The sensitivity table shows δ under other assumptions about them.",
        )


def _on_ends(cube: NarrativeCube, tobit: Row | None, *, low: float, high: float) -> Iterator[tuple[str, str]]:
    if tobit is None:
        beyond = ""
    elif tobit["note"] and np.isnan(tobit["delta"]):
        beyond = f" δ on a scale without these ends cannot be estimated: {tobit['note']}."
    else:
        spread = "" if tobit["note"] else f" (interval {interval(tobit['ci_low'], tobit['ci_high'])})"
        beyond = (
            f" On a scale without ends, δ would be {points(tobit['delta'])}{spread}, if ratings beyond the ends were "
            "spread like the others (tobit, in the sensitivity table)."
        )
    for share, end in zip(end_shares(cube, low=low, high=high), (low, high), strict=True):
        if share >= END_SHARE:
            yield (
                "scale_end",
                f"{share:.0%} of the ratings between identities are at the end {end:g} of the scale. That can hide a "
                f"gap, or create one where identities are only rated high or low by everyone.{beyond}",
            )


def _on_beyond(total: Row, *, low: float, high: float) -> Iterator[tuple[str, str]]:
    beyond = [
        f"{plural(int(n), 'rating')} {side} {end:g}"
        for n, side, end in ((total["n_below_scale"], "below", low), (total["n_above_scale"], "above", high))
        if n
    ]
    if beyond:
        n_beyond = total["n_below_scale"] + total["n_above_scale"]
        yield (
            "beyond_scale",
            f"{' and '.join(beyond)}, beyond the scale from {low:g} to {high:g} ({rate(n_beyond / total['n_rated'])} "
            "of the ratings). The chosen parser accepts them, and δ includes them.",
        )


def _on_refusals(refusals: Row, *, has_gap: bool) -> Iterator[tuple[str, str]]:
    if refusals_differ(refusals):
        others = (
            " δ only covers prompts that were rated. sensitivity.csv shows δ for the worst case of the missing "
            "ratings, and how far they must be shifted for δ to be 0."
        )
        yield (
            "refusal_gap",
            f"The model refused to rate {rate(refusals['rate_in_group'])} of in-group and "
            f"{rate(refusals['rate_out_group'])} of out-group prompts, a refusal gap of {points(refusals['gap_pp'])} "
            f"percentage points after removing how often each perceiver and each experiencer is refused. The refusals "
            f"are a finding of their own.{others if has_gap else ''}",
        )


def _on_answers(
    cube: NarrativeCube, of_pairs: Mapping[str, Row], *, min_number_mass: float
) -> Iterator[tuple[str, str]]:
    # One kind of pairs alone would do: δ would compare all answers of the one with few of the other.
    where = {"all": "", "in_group": " in in-group prompts", "out_group": " in out-group prompts"}
    masses = {pairs: of_pairs[pairs]["mean_number_mass"] for pairs in where if pairs in of_pairs}
    low = next((pairs for pairs, mass in masses.items() if mass < min_number_mass), None)
    if low is not None:
        yield (
            "number_mass",
            f"The model answers{where[low]} with a number of the scale with a probability of only {masses[low]:.2f} "
            "on average. The ratings say nothing about its other answers.",
        )
        return
    compared = cube.without_baselines()
    for side, names, axes in (
        ("perceiver", compared.perceivers, (0, 2)),
        ("experiencer", compared.experiencers, (0, 1)),
    ):
        there = ~np.isnan(compared.number_mass)
        means = np.nansum(compared.number_mass, axis=axes) / np.maximum(there.sum(axis=axes), 1)
        few = [place for place in np.flatnonzero(there.any(axis=axes)) if means[place] < min_number_mass]
        if few:
            said = ", ".join(f"{brief(names[place])!r} ({means[place]:.2f})" for place in few)
            yield (
                "number_mass_identity",
                f"The model answers about the {side} {said} with a number of the scale with a low probability on "
                "average. These ratings say nothing about its other answers, and may not compare with those of others.",
            )


def _on_identities(cube: NarrativeCube) -> Iterator[tuple[str, str]]:
    for side, silent in unrated_identities(cube):
        if silent:
            names = ", ".join(repr(brief(each)) for each in silent)
            yield (
                "unrated_identity",
                f"The {side} {names} has no rating at all, so δ only covers the others.",
            )


def _on_estimates(found: Estimates) -> Iterator[tuple[str, str]]:
    headline, contrast, published = found.headline, found.listwise, found.published
    if isinstance(headline, NotEstimableError):
        yield "not_estimable", f"δ cannot be estimated: {headline}."
    else:
        estimate = headline
        if found.estimator == "mixed":
            yield (
                "no_own_gaps",
                f"No narrative has a gap of its own ({found.contrast}). So δ comes from a mixed model, which treats as "
                "noise how a narrative affects single perceivers and experiencers.",
            )
        if estimate.not_estimable:
            yield "no_interval", f"δ has no standard error and no interval: {estimate.not_estimable}."
        elif estimate.n_narratives < FEW_NARRATIVES:
            yield (
                "few_narratives",
                f"δ comes from only {plural(estimate.n_narratives, 'narrative')}. Its interval rests on how these "
                f"differ, and assumes that gaps are roughly normally distributed over narratives.",
            )
        n_complete = 0 if isinstance(contrast, NotEstimableError) else contrast.n_narratives
        if are_few_complete(n_complete, estimate.n_narratives_asked):
            share = n_complete / estimate.n_narratives_asked
            alone = (
                f" These alone give a δ of {points(contrast.delta)}."
                if isinstance(contrast, GapEstimate) and n_complete
                else ""
            )
            yield (
                "incomplete_narratives",
                f"Only {count(n_complete)} of {plural(estimate.n_narratives_asked, 'narrative')} ({share:.0%}) "
                f"{either(n_complete, 'has', 'have')} a rating for every pair of identities.{alone} δ uses "
                f"{plural(estimate.n_answers, 'rating')} of {plural(estimate.n_narratives, 'narrative')}. It may be "
                "biased if ratings are missing because they would have been high or low.",
            )
    if isinstance(found.mixed, MixedFit) and not found.mixed.converged:
        yield (
            "not_converged",
            "The mixed model may not have converged: do not rely on the rows of that estimator.",
        )
    if isinstance(published, NotEstimableError) and str(published) not in (str(contrast), str(headline)):
        yield "published_not_estimable", f"The published δ_z cannot be computed: {published}."
