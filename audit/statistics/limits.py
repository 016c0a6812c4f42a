"""The limits that a run's published tables show, as codes of remarks.

The tables have no column for the remarks that a page makes. Those that limit what may be claimed follow from the
tables, by the bounds of :mod:`audit.statistics.remarks`, and a test holds them against the pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from audit.runs.manifest import Manifest
from audit.statistics.manipulation import codes_of
from audit.statistics.ratings import BASELINES
from audit.statistics.remarks import (
    FEW_NARRATIVES,
    are_few_complete,
    are_many_missing,
    is_written_apart,
    refusals_differ,
)
from audit.statistics.scale_ends import END_SHARE
from audit.statistics.verdict import Verdict

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


def limits_of_folder(manifest: Manifest) -> Iterator[str]:
    """Yield the codes for accepted files and for prompts that are still to be asked."""
    if manifest.accepted:
        yield "accepted"
    if manifest.status != "complete":
        yield "unfinished"


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
        "number_mass": total.get("mean_number_mass", math.nan) < manifest.statistics.min_number_mass,
        "refusal_gap": any(map(refusals_differ, refusals.to_dict("records"))),
        "not_converged": bool((own["variances"]["converged"].map(str) == "False").any()),
        "written_differs": any(is_written_apart(row, length=length) for row in written),
        "one_cue": _has_one_cue(own["cells"], manifest.cues.get(dimension, {})),
    }  # fmt: skip
    if n_rated:
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
