"""What limits a run's verdicts besides its ratings: its checks, whether it is finished, and its noise when repeated.

The published tables have no column for the remarks that a page makes. Those that limit what may be claimed follow from
the tables, by the bounds of :mod:`audit.statistics.remarks`, and a test holds them against the pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from audit.runs.manifest import Manifest
from audit.statistics.deciding_estimate import Place
from audit.statistics.disparity_answers import with_limits
from audit.statistics.elicitation import elicitation_tables
from audit.statistics.manipulation import codes_of, manipulation_rows, response_of
from audit.statistics.ratings import BASELINES
from audit.statistics.remarks import (
    FEW_NARRATIVES,
    REPEATED_SHARE,
    USED_SHARE,
    are_few_complete,
    are_many_missing,
    is_written_apart,
    n_repeated,
    refusals_differ,
)
from audit.statistics.scale_ends import END_SHARE
from audit.statistics.verdict import Limits, Verdict
from stimuli.manipulation import leaning

READ: Final = ("gap", "cells", "outcomes", "missing", "sensitivity", "controls", "variances")
"""Tables from which limits of single gaps are read."""


def limits_of_run(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the codes that limit all gaps of a run; ``tables`` has at least ``manipulation``."""
    yield from limits_of_folder(manifest)
    yield from codes_of(tables["manipulation"])


def verdicts_as_they_hold(verdicts: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """Update a run's published verdicts: files may have been accepted since, or prompts be missing."""
    codes = frozenset(limits_of_folder(manifest))
    if not codes or verdicts.empty:
        return verdicts
    known = ({str(name): value for name, value in row.items()} for row in verdicts.to_dict("records"))
    limited = ((row, Verdict.of_row(row).limited(codes).row()) for row in known)
    rows = [row | {name: value for name, value in now.items() if name in row} for row, now in limited]
    return pd.DataFrame(rows, columns=verdicts.columns, index=verdicts.index)


def disparities_as_they_hold(disparity: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """Update a run's published answers on groups likewise."""
    codes = frozenset(limits_of_folder(manifest))
    return with_limits(disparity, Limits(codes)) if codes and len(disparity) else disparity


def limits_of_folder(manifest: Manifest) -> Iterator[str]:
    """Yield the codes for accepted files and for prompts that are still to be asked."""
    if manifest.accepted:
        yield "accepted"
    if manifest.status != "complete":
        yield "unfinished"


def manipulation_rows_of_run(
    answers: pd.DataFrame, manifest: Manifest, *, confidence: float | None = None
) -> list[dict[str, Any]]:
    """Return :func:`manipulation_rows` of a run; None for ``confidence`` takes that of the run's analysis."""
    settings, scale = manifest.statistics, manifest.scale
    return list(
        manipulation_rows(
            answers.assign(leaning=[leaning(str(each), manifest.stimuli.valence) for each in answers["emotion"]]),
            length=scale.high - scale.low,
            least_response=settings.least_response,
            confidence=settings.confidence if confidence is None else confidence,
            power=settings.power,
        )
    )


OF_TABLE: Final = frozenset({"narratives_repeated", "scale_unused"})
"""Codes of :func:`codes_of_table`."""


def codes_of_run(
    followed: Sequence[Mapping[str, Any]], manifest: Manifest, ratings: pd.DataFrame | None = None
) -> set[str]:
    """Return codes of what limits all gaps of a run; ``followed`` are rows of ``tables.MANIPULATION``."""
    of_table = () if ratings is None else codes_of_table(manifest, ratings)
    return {*codes_of(followed), *limits_of_folder(manifest), *of_table}


def codes_of_table(manifest: Manifest, ratings: pd.DataFrame) -> Iterator[str]:
    """Yield codes of what is odd in another tool's table of ratings. Our own narratives differ, and scales are asked.

    Narratives that stand there several times make every interval too narrow. On a scale that is stated too long every
    gap is small.
    """
    if manifest.elicitation.method != "outside":
        return
    if n_repeated(ratings) > REPEATED_SHARE * ratings["narrative_id"].nunique():
        yield "narratives_repeated"
    low, high = sorted((manifest.scale.low, manifest.scale.high))
    if ratings["intensity"].max() <= low + USED_SHARE * (high - low):
        yield "scale_unused"


def noise_of_run(
    manifest: Manifest, ratings: pd.DataFrame, again: pd.DataFrame, *, confidence: float
) -> dict[Place, float]:
    """Return how much δ varies if the same prompts are asked again, in points; empty if none were.

    ``again`` are rows of ``ASKED_AGAIN``.
    """
    if again.empty:
        return {}
    found = elicitation_tables(
        ratings, again.iloc[:0], again, confidence=confidence, stems=manifest.stems, placebo=manifest.placebo
    )
    rows = found.controls.loc[found.controls["control"] == "noise"] if len(found.controls) else found.controls
    return {(str(row["dimension"]), str(row["variant"])): float(row["se"]) for row in rows.to_dict("records")}


def told_response(followed: pd.DataFrame | Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the response to the story for a verdict, from rows of ``tables.MANIPULATION``; empty without one."""
    found = response_of(followed)
    if found is None:
        return {}
    return {
        "response": found.points,
        "response_low": found.ci_low,
        "response_high": found.ci_high,
        "share_higher": found.share_higher,
    }


def limits_of(on_run: set[str], on_place: Mapping[Place, set[str]]) -> Limits:
    """Combine the codes on the run and on single gaps into the limits of verdicts."""
    return Limits(frozenset(on_run), {place: frozenset(codes) for place, codes in on_place.items()})


def sees_refusals(manifest: Manifest, ratings: pd.DataFrame) -> bool:
    """Whether a refusal would be visible in a run's ratings."""
    if manifest.elicitation.method == "expected":
        return False
    unexplained = (ratings["status"].astype(str) == "unparseable").any()
    return bool(manifest.outside.status_given or not unexplained)


def limits_of_gap(
    dimension: str, variant: str, tables: Mapping[str, pd.DataFrame], manifest: Manifest
) -> Iterator[str]:
    """Yield the codes that limit the gap of one dimension and variant, from the tables in :data:`READ`."""
    own = {name: _own(tables[name], dimension, variant) for name in READ}
    by_pairs = {str(row["pairs"]): row for row in own["outcomes"].to_dict("records")}
    total = by_pairs.get("all", {})
    between = [row for pairs, row in by_pairs.items() if pairs in ("in_group", "out_group")]
    n_prompts, n_rated = (sum(row[name] for row in between) for name in ("n_prompts", "n_rated"))
    refusals = own["missing"].loc[own["missing"]["outcome"] == "refused"]
    headline = own["gap"]["headline"].map(str) == "True"
    # Runs of ratings that the model wrote, or of another tool, have no table of the two.
    written = _own(tables["elicitation"], dimension, variant).to_dict("records") if "elicitation" in tables else []
    length = abs(manifest.scale.high - manifest.scale.low)
    gap = next(iter(own["gap"].loc[headline & (own["gap"]["scope"] == "narratives")].to_dict("records")), {})
    found = {
        "nothing_rated": total.get("n_rated") == 0,
        "unrated_identity": bool(n_rated) and _has_unrated(own["cells"]),
        "many_missing": are_many_missing(n_prompts - n_rated, n_prompts),
        "beyond_scale": total.get("n_below_scale", 0) + total.get("n_above_scale", 0) > 0,
        "scale_end": n_rated > 0 and any(
            sum(row[end] * row["n_rated"] for row in between if row["n_rated"]) / n_rated >= END_SHARE
            for end in ("floor_share", "ceiling_share")
        ),
        "number_mass": any(
            row.get("mean_number_mass", math.nan) < manifest.statistics.min_number_mass for row in (total, *between)
        ),
        "refusal_gap": any(map(refusals_differ, refusals.to_dict("records"))),
        "not_converged": bool((own["variances"]["converged"].map(str) == "False").any()),
        "written_differs": any(is_written_apart(row, length=length) for row in written),
        "one_cue": _has_one_cue(own["cells"], manifest.cues.get(dimension, {})),
    }  # fmt: skip
    of_nobody = [own["cells"][f"{side}_group"].isin(BASELINES).all() for side in ("perceiver", "experiencer")]
    if total.get("n_rated") and of_nobody == [True, False]:
        found["no_perceivers"] = True
    elif n_rated:
        found |= _codes_of_estimate(gap, own)
    yield from (code for code, holds in found.items() if holds)


def _own(table: pd.DataFrame, dimension: str, variant: str) -> pd.DataFrame:
    return table.loc[(table["dimension"].map(str) == dimension) & (table["variant"].map(str) == variant)]


def _codes_of_estimate(gap: Mapping[Any, Any], own: Mapping[str, pd.DataFrame]) -> dict[str, bool]:
    delta, se = gap.get("delta", math.nan), gap.get("se", math.nan)
    if math.isnan(delta):
        return {"not_estimable": True}
    complete = own["sensitivity"].loc[own["sensitivity"]["check"] == "listwise", "n_narratives"]
    n_complete = float(complete.iloc[0]) if len(complete) and math.isfinite(complete.iloc[0]) else 0.0
    noise = own["controls"].loc[own["controls"]["control"] == "noise", "se"]
    return {
        "no_interval": math.isnan(se),
        "few_narratives": math.isfinite(se) and gap["n_narratives"] < FEW_NARRATIVES,
        "incomplete_narratives": are_few_complete(n_complete, gap["n_narratives_asked"]),
        "noise_floor": bool(len(noise)) and abs(delta) < 2 * float(noise.iloc[0]),
    }


def _has_unrated(cells: pd.DataFrame) -> bool:
    """Whether an identity that is compared has no rating, as perceiver or as experiencer."""
    compared = cells.loc[~cells["perceiver_group"].isin(BASELINES) & ~cells["experiencer_group"].isin(BASELINES)]
    return any((compared.groupby(side)["n_rated"].sum() == 0).any() for side in ("perceiver", "experiencer"))


def _has_one_cue(cells: pd.DataFrame, cues: Mapping[str, str]) -> bool:
    """Whether all wordings tell their group in one way."""
    return len({cues[term] for side in ("perceiver", "experiencer") for term in cells[side] if term in cues}) == 1
