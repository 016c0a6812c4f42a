"""What limits a run's verdicts besides its ratings: its checks, whether it is finished, and its noise when repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import ASKED_AGAIN, ELICITATION_SAMPLE

if TYPE_CHECKING:
    from audit.statistics.deciding_estimate import Place
    from audit.statistics.verdict import Limits


def codes_of_run(followed: Sequence[Mapping[str, Any]], manifest: Manifest) -> set[str]:
    """Return codes of what limits all gaps of a run; ``followed`` are rows of ``tables.MANIPULATION``."""
    from audit.statistics.limits import limits_of_folder
    from audit.statistics.manipulation import codes_of

    return {*codes_of(followed), *limits_of_folder(manifest)}


def noise_of_run(
    manifest: Manifest, folder: RunFolder, ratings: pd.DataFrame, *, confidence: float
) -> dict[Place, float]:
    """Return how much δ varies if the same prompts are asked again, in points; empty if none were."""
    from audit.statistics.elicitation import elicitation_tables

    again = folder.table(ASKED_AGAIN).frame()
    if again.empty:
        return {}
    found = elicitation_tables(
        ratings, folder.table(ELICITATION_SAMPLE).frame(), again, confidence=confidence, stems=manifest.stems,
        placebo=manifest.placebo, notes={}, in_formats={},
    )  # fmt: skip
    rows = found.controls.loc[found.controls["control"] == "noise"] if len(found.controls) else found.controls
    return {(str(row["dimension"]), str(row["variant"])): float(row["se"]) for row in rows.to_dict("records")}


def told_response(followed: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the response to the story for a verdict, from rows of ``tables.MANIPULATION``; empty without one."""
    from audit.statistics.manipulation import response_of

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
    from audit.statistics.verdict import Limits

    return Limits(frozenset(on_run), {place: frozenset(codes) for place, codes in on_place.items()})


def sees_refusals(manifest: Manifest, ratings: pd.DataFrame) -> bool:
    """Whether a refusal would be visible in a run's ratings."""
    if manifest.elicitation.method == "expected":
        return False
    unexplained = (ratings["status"].astype(str) == "unparseable").any()
    return bool(manifest.outside.status_given or not unexplained)
