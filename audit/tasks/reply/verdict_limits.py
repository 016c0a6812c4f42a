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
from audit.tasks.measures.outcomes import OUTCOMES
from audit.tasks.publishing import on_run

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark
    from audit.statistics.verdict import Limits
    from audit.tasks.base import Unanswered


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
    manifest: Manifest,
    measures: pd.DataFrame,
    codes: Collection[str],
    unanswered: Collection[Unanswered] = (),
    *,
    min_number_mass: float,
) -> Limits:
    """Return what limits verdicts besides the numbers: ``codes`` on the whole run, and a judge of low number mass.

    That replies do not match the story limits what is measured of them, but not whether there is one. If those to one
    group do not, D of this group is of canned words; if those to one's own group or to all others do not, so is δ.
    """
    from audit.statistics.verdict import UNANSWERED, Limits
    from audit.tasks.limits import limits_of_folder

    unsure = set(unsure_measures(manifest, measures, min_number_mass=min_number_mass)["measure"])
    of_texts = {"manipulation"} & {*codes}
    on_place: dict[tuple[str, ...], frozenset[str]] = {
        (dimension, manifest.prompt.variant, measure): frozenset(
            {*(() if measure in OUTCOMES else of_texts), *({"number_mass"} if measure in unsure else ())}
        )
        for dimension in (*manifest.dimensions, OVERALL)
        for measure in measures["measure"]
    }
    for each in () if manifest.outside.replies else unanswered:  # finished chats are what people got, whatever it fits
        for measure in (name for name in measures["measure"] if name not in OUTCOMES):
            place = (each.dimension, manifest.prompt.variant, measure)
            for limited in [(*place, each.group)] if each.group else [place, (OVERALL, *place[1:])]:
                on_place[limited] = on_place.get(limited, frozenset()) | {UNANSWERED}
    return Limits(frozenset({*codes, *limits_of_folder(manifest)} - of_texts), on_place)


def unsure_measures(manifest: Manifest, measures: pd.DataFrame, *, min_number_mass: float) -> pd.DataFrame:
    """Return the judge's measures of low number mass, the lowest first."""
    taken = manifest.scorers.get(JUDGE)
    names = [] if taken is None else [each["name"] for each in taken.measures]
    own = measures.loc[measures["measure"].isin(names)]
    return own.loc[own["mean_mass"] < min_number_mass].sort_values("mean_mass", kind="stable")
