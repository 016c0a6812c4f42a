"""The run that a paper is about: its manifest, its rows, and the tables of its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pandas as pd

from audit.extras.exchange.groups import ComparedGroups, compared_groups, refusal_gap, refused_groups
from audit.report.cell_matrix import BASELINES
from audit.report.numbers import PlacedRow, rows_of
from audit.runs.manifest import Manifest
from audit.tables.formatting import SCOPES, coverage
from audit.tables.shared import OVERALL

Row = Mapping[str, Any]
NARRATIVES, TERMS = SCOPES  # scopes of an interval: any such narratives, and any such identities as well
SERVED: Final = "openai"  # the engine that asks a server
CONVERSATIONS: Final = "conversations"  # stimuli source whose narratives are utterances
OF_MEASURES: Final = (
    "how much higher a measure is where perceiver and experiencer are of one group than where they are not, beyond "
    "what single perceivers and experiencers add"
)
"""Definition of the gap of a measure of written texts."""
CONTROL_ROWS: Final = ("all_terms", "same_words", "placebo", "placebo_difference", "wording")
"""Controls shown beneath the gap in a paper's table."""


@dataclass(frozen=True, eq=False)
class Study:
    """A run of ratings or of written texts."""

    manifest: Manifest
    kind: str  # ratings or replies
    rows: pd.DataFrame  # what was collected, one row a prompt
    n_missing: int  # prompts that have not been asked yet
    asked_to: str  # the request to the model, see audit.tasks.base.Task
    tables: Mapping[str, pd.DataFrame]  # of statistics, by name

    @property
    def level(self) -> str:
        """The coverage of intervals."""
        return coverage(self.manifest.statistics.confidence)

    @property
    def is_rated(self) -> bool:
        """Whether the run has ratings, by the model or another tool."""
        return self.kind == "ratings"

    @property
    def has_perceivers(self) -> bool:
        """Whether the model was given identities of groups, or another tool's ratings have such; else there is no δ."""
        return not self.rows["perceiver_group"].astype(str).isin(list(BASELINES)).all()

    @cached_property
    def compared(self) -> tuple[ComparedGroups, ...]:
        """The groups that were compared; empty if an earlier version analysed the run."""
        return tuple(compared_groups(self.tables["disparity"], confidence=self.manifest.statistics.confidence))

    @property
    def refused(self) -> tuple[ComparedGroups, ...]:
        """Where a group is shown to be refused more often than the others."""
        return tuple(refused_groups(self.tables["refusals"], confidence=self.manifest.statistics.confidence))

    @property
    def is_of_groups_alone(self) -> bool:
        """Whether who gets less is all that the run can answer."""
        return bool(self.compared) and not self.has_perceivers

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Headline gaps."""
        found = self.tables["gap"]
        return found.loc[found["headline"].astype(bool)]

    def of_scope(self, scope: str) -> list[dict[str, Any]]:
        """Return the headline's rows of one scope."""
        return _records(self.gaps.loc[self.gaps["scope"] == scope])

    @property
    def narrow(self) -> list[dict[str, Any]]:
        """Headline rows that generalise over narratives."""
        return self.of_scope(NARRATIVES)

    @property
    def wider(self) -> list[dict[str, Any]]:
        """Headline rows that generalise over identities too, if they have an interval."""
        return [row for row in self.of_scope(TERMS) if has_interval(row)]

    @property
    def over_conversations(self) -> bool:
        """Whether narratives are utterances, with standard errors clustered by conversation."""
        return self.manifest.stimuli.source == CONVERSATIONS and any(
            str(gap.get("note") or "").startswith("over ") for gap in self.narrow
        )

    @property
    def several_variants(self) -> bool:
        """Whether gaps have several variants of the prompt, so that a dimension alone does not name one."""
        return len({gap["variant"] for gap in self.narrow}) > 1

    def own(self, table: str, gap: Row) -> pd.DataFrame:
        """Return the rows of a table for a gap's dimension and variant."""
        rows = self.tables[table]
        found: pd.DataFrame = rows.loc[(rows["dimension"] == gap["dimension"]) & (rows["variant"] == gap["variant"])]
        return found

    def verdict(self, gap: Row) -> PlacedRow | None:
        """Return the verdict on a gap; None if an earlier version analysed the run."""
        own = self.own("verdicts", gap)
        return next(iter(rows_of(own.loc[own["outcome"] == gap["outcome"]], "verdicts")), None)

    def refusal_gap(self, gap: Row) -> str:
        """Say that refusals of ratings differ between in-group and out-group; empty if that is not found or known."""
        return refusal_gap(self.tables["missing"], gap["dimension"], gap["variant"], manifest=self.manifest)

    def equivalence(self, gap: Row) -> pd.DataFrame:
        """Return the row that tests a headline gap against the margin; empty if the tests were not made."""
        own = self.own("equivalence", gap)
        own = own.loc[(own["estimator"] == gap["estimator"]) & (own["scope"] == gap["scope"])]
        tested: pd.DataFrame = own.loc[own["p_equivalence"].map(is_finite)]
        return tested

    def controls(self, gap: Row) -> dict[str, dict[str, Any]]:
        """Return a gap's estimable controls by name. The mean over dimensions has none."""
        if gap["dimension"] == OVERALL:
            return {}
        own = self.own("controls", gap)
        own = own.loc[own["outcome"] == gap["outcome"]]
        return {str(row["control"]): row for row in _records(own) if is_finite(row["delta"])}

    def title(self, gap: Row) -> str:
        """Return the title of a gap's measure."""
        return self.measure_title(str(gap["outcome"]))

    def measure_title(self, outcome: str) -> str:
        """Return a measure's title."""
        measures = self.tables["measures"]
        own = measures.loc[measures["measure"] == outcome, "title"]
        return str(own.iloc[0]) if len(own) else outcome

    def is_free(self, gap: Row) -> bool:
        """Tell whether a gap is of pairs without a word in common: whether its deciding control has an interval."""
        found = self.controls(gap).get("echo_free")
        return found is not None and bool(found["headline"]) and has_interval(found)

    def is_controlled(self, gap: Row) -> bool:
        """Tell whether a gap is controlled for repeated words; true also if no gap was estimated."""
        if self.is_free(gap) or not is_finite(gap["delta"]):
            return True
        against = self.controls(gap).get("placebo_difference")
        return against is not None and has_interval(against)

    def noise(self, gap: Row) -> float:
        """Return the standard error of δ from asking the same prompts again; NaN if unknown."""
        own = self.own("controls", gap)
        own = own.loc[(own["control"] == "noise") & (own["outcome"] == gap["outcome"])]
        return float(own["se"].iloc[0]) if len(own) else float("nan")

    @property
    def followed(self) -> list[dict[str, Any]]:
        """Rows of the manipulation check; empty for texts that are no replies."""
        return _records(self.tables["manipulation"])


def is_finite(value: Any) -> bool:
    """Tell whether a table's cell holds a finite number."""
    return value is not None and value is not pd.NA and float(value) - float(value) == 0


def has_interval(row: Row) -> bool:
    """Tell whether a gap has an interval."""
    return is_finite(row["ci_low"]) and is_finite(row["ci_high"])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
