"""Who gets less, for every form of export: the groups that were compared and what is decided about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    import pandas as pd

    from audit.report.disparities import DisparitySentence
    from audit.report.numbers import PlacedRow
    from audit.runs.manifest import Manifest

MEANING: Final = (
    "how much lower (negative) or higher (positive) it is rated than the other groups, whoever perceives: the mean of "
    "its terms less the mean of the other groups' means"
)
"""Definition of a group's disparity D, of ratings."""
OF_MEASURES: Final = (
    "how much lower (negative) or higher (positive) a measure is for it than for the other groups, whoever perceives: "
    "the mean of its terms less the mean of the other groups' means"
)
_DONE: Final = {"intensity": "rated", "refusals": "refused"}
"""What is done to groups, by outcome; of a measure, nothing."""
NO_GAP: Final = "The gap δ is not defined: the model was given no group's identity, so no group is its own."
"""Said of a run without perceivers."""


@dataclass(frozen=True, slots=True)
class ComparedGroups:
    """The groups of one outcome, dimension and variant."""

    outcome: str
    dimension: str
    variant: str
    rows: tuple[PlacedRow, ...]  # of disparity.csv, one a group, in the view that decides
    said: DisparitySentence

    @property
    def view(self) -> str:
        """The view that decides."""
        return str(self.rows[0]["view"])

    @property
    def number(self) -> str:
        """The group farthest from the others: D, interval, p and size, as text; empty without an answer."""
        row = self.said.row
        if row is None or not self.said.number:
            return ""
        told = Markup("D = {} {} ({}; {}).").format(self.said.number, row["unit"], self.said.spread, self.said.facts)
        return plain(told + (Markup(" That is {}.").format(self.said.size) if self.said.size else Markup("")))


def compared_groups(disparity: pd.DataFrame, *, confidence: float) -> Iterator[ComparedGroups]:
    """Yield what was compared, in the order of the table; ``disparity`` has the columns of ``DISPARITY``."""
    from audit.report.disparities import who_gets_less
    from audit.report.numbers import rows_of
    from audit.tables.disparity import deciding_rows

    heads = [row for row in rows_of(disparity, "disparity") if row["headline"] and not row["invented"]]
    for key in dict.fromkeys((str(row["outcome"]), str(row["dimension"]), str(row["variant"])) for row in heads):
        own = [row for row in heads if (row["outcome"], row["dimension"], row["variant"]) == key]
        said = who_gets_less(own, confidence=confidence, of=_DONE.get(key[0], ""))
        yield ComparedGroups(*key, tuple(deciding_rows(own)), said)


def refused_groups(refusals: pd.DataFrame, *, confidence: float) -> Iterator[ComparedGroups]:
    """Yield the same of refusals, where a group is shown to be refused more often, as the run's page does."""
    for each in compared_groups(refusals, confidence=confidence):
        if any(row["code"] == "higher" for row in each.said.found):
            yield each


def refusal_gap(missing: pd.DataFrame, dimension: str, variant: str, *, manifest: Manifest) -> str:
    """Say that refusals of ratings differ between in-group and out-group; empty if that is not found or known.

    ``missing`` has the columns of ``tables.MISSING``.
    """
    from audit.report.numbers import rows_of
    from audit.report.refusals import say_refusal_gap
    from audit.tasks.limits import limits_of_folder

    if any(limits_of_folder(manifest)):
        return ""
    own = (missing["outcome"] == "refused") & (missing["dimension"] == dimension) & (missing["variant"] == variant)
    said = say_refusal_gap(
        next(iter(rows_of(missing.loc[own], "missing")), None), confidence=manifest.statistics.confidence
    )
    if said is None or said.verdict.kind != "gap":
        return ""
    return plain(Markup("{}: δ = {} percentage points ({}).").format(said.verdict.words, said.gap, said.spread))


def plain(words: Markup) -> str:
    """Return words of a page as text, without tags and line breaks."""
    return " ".join(words.striptags().split())
