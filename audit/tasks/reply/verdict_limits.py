"""What limits verdicts on measures of texts besides their numbers: unfinished runs, and a judge of low number mass."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pandas as pd

from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.replies import SCORES
from audit.tables.shared import OVERALL
from audit.tasks.measures.choose import JUDGE
from audit.tasks.publishing import on_run

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark
    from audit.statistics.verdict import Limits


def unscored_remarks(manifest: Manifest, folder: RunFolder) -> Iterator[Remark]:
    """Remark on scorers that have not scored all replies yet."""
    there = folder.shards("replies")
    for name in manifest.wanted:
        left = there - folder.parts(SCORES, name).numbers()
        if name not in manifest.absent and (name not in manifest.scorers or left):
            yield on_run(
                "unfinished",
                f"{name} has not scored all replies yet. Replies without its score count as missing. Give the same "
                "command again to continue.",
            )


def limits_of_measures(
    manifest: Manifest, measures: pd.DataFrame, codes: Collection[str], *, min_number_mass: float
) -> Limits:
    """Return what limits verdicts besides the numbers: ``codes`` on the whole run, and a judge of low number mass."""
    from audit.statistics.limits import limits_of_folder
    from audit.statistics.verdict import Limits

    unsure = unsure_measures(manifest, measures, min_number_mass=min_number_mass)
    places = [
        (dimension, manifest.prompt.variant, measure)
        for dimension in (*manifest.dimensions, OVERALL)
        for measure in unsure["measure"]
    ]
    return Limits(frozenset({*codes, *limits_of_folder(manifest)}), dict.fromkeys(places, frozenset({"number_mass"})))


def unsure_measures(manifest: Manifest, measures: pd.DataFrame, *, min_number_mass: float) -> pd.DataFrame:
    """Return the judge's measures of low number mass, the lowest first."""
    taken = manifest.scorers.get(JUDGE)
    names = [] if taken is None else [each["name"] for each in taken.measures]
    own = measures.loc[measures["measure"].isin(names)]
    return own.loc[own["mean_mass"] < min_number_mass].sort_values("mean_mass", kind="stable")
