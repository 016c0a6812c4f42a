"""The run that a paper is about: what its manifest says, its rows, and the tables that its report made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pandas as pd

from audit.runs.manifest import Manifest
from audit.tables.formatting import SCOPES
from audit.tables.shared import OVERALL

Row = Mapping[str, Any]
NARRATIVES, TERMS = SCOPES
"""The two scopes of an interval: any such narratives, and any such identities too."""
OUTSIDE: Final = "outside"
"""The method of a run whose ratings another tool collected."""
SERVED: Final = "openai"
"""The engine that asks a server."""
CONVERSATIONS: Final = "conversations"
"""The source of narratives that are utterances."""
OF_MEASURES: Final = (
    "how much higher a measure is where perceiver and experiencer are of one group than where they are not, beyond "
    "what single perceivers and experiencers add"
)
"""What the gap of a measure of written texts is."""
CONTROL_ROWS: Final = ("all_terms", "same_words", "placebo", "placebo_difference", "wording")
"""Controls that stand in a paper's table beneath the gap."""


@dataclass(frozen=True, eq=False)
class Study:
    """A run of ratings or of written texts.

    Attributes
    ----------
    manifest
        What the run says of itself.
    kind
        ``ratings`` or ``replies``.
    rows
        What was collected, a row a prompt.
    n_missing
        Prompts that have not been asked yet.
    asked_to
        What the model was asked to do, as :class:`audit.tasks.base.Task` says it.
    tables
        Tables of statistics by name.
    """

    manifest: Manifest
    kind: str
    rows: pd.DataFrame
    n_missing: int
    asked_to: str
    tables: Mapping[str, pd.DataFrame]

    @property
    def is_rated(self) -> bool:
        """Whether the model, or another tool, gave ratings."""
        return self.kind == "ratings"

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Headline gaps, named as those of ratings are; of written texts with ``measure``."""
        if self.is_rated:
            found = self.tables["gap"]
        else:
            names = {"delta": "delta_points", "n_replies": "n_ratings", "family_size": "p_family_size"}
            found = self.tables["measure_gaps"].rename(columns=names)
        return found.loc[found["headline"].astype(bool)]

    def of_scope(self, scope: str) -> list[dict[str, Any]]:
        """Return the headline's rows of one scope."""
        return _records(self.gaps.loc[self.gaps["scope"] == scope])

    @property
    def narrow(self) -> list[dict[str, Any]]:
        """The headline's rows about any such narratives."""
        return self.of_scope(NARRATIVES)

    @property
    def wider(self) -> list[dict[str, Any]]:
        """Those about any such identities that have an interval."""
        return [row for row in self.of_scope(TERMS) if has_interval(row)]

    @property
    def over_conversations(self) -> bool:
        """Whether narratives are utterances of fewer conversations, whose spread the standard errors go by."""
        return self.manifest.stimuli.source == CONVERSATIONS and any(
            str(gap.get("note") or "").startswith("over ") for gap in self.narrow
        )

    @property
    def several_variants(self) -> bool:
        """Whether gaps are of several variants of the prompt, so that a dimension alone does not name one."""
        return len({gap["variant"] for gap in self.narrow}) > 1

    def own(self, table: str, gap: Row) -> pd.DataFrame:
        """Return the rows of a table that are of a gap's dimension and variant."""
        rows = self.tables[table]
        found: pd.DataFrame = rows.loc[(rows["dimension"] == gap["dimension"]) & (rows["variant"] == gap["variant"])]
        return found

    def equivalence(self, gap: Row) -> pd.DataFrame:
        """Return the row that holds a headline's estimate against the margin, if the two tests were made."""
        own = self.own("equivalence", gap)
        own = own.loc[(own["estimator"] == gap["estimator"]) & (own["scope"] == gap["scope"])]
        tested: pd.DataFrame = own.loc[own["p_equivalence"].map(is_finite)]
        return tested

    def controls(self, gap: Row) -> dict[str, dict[str, Any]]:
        """Return the controls of a gap that could be estimated, by name; of a mean over dimensions there are none."""
        if gap["dimension"] == OVERALL:
            return {}
        if self.is_rated:
            table = self.tables["controls"]
        else:
            table = self.tables["measure_controls"].rename(columns={"delta": "delta_points"})
            table = table.loc[table["measure"] == gap["measure"]]
        own = table.loc[(table["dimension"] == gap["dimension"]) & (table["variant"] == gap["variant"])]
        return {str(row["control"]): row for row in _records(own) if is_finite(row["delta_points"])}

    def title(self, gap: Row) -> str:
        """Return what a measure is called."""
        measures = self.tables["measures"]
        own = measures.loc[measures["measure"] == gap["measure"], "title"]
        return str(own.iloc[0]) if len(own) else str(gap["measure"])

    def is_free(self, gap: Row) -> bool:
        """Whether a gap is one of pairs without a word in common: the control that decides has an interval."""
        found = self.controls(gap).get("echo_free")
        return found is not None and bool(found["headline"]) and has_interval(found)

    def is_controlled(self, gap: Row) -> bool:
        """Whether something tells a gap between groups from the repetition of words, or none was estimated."""
        if self.is_free(gap) or not is_finite(gap["delta_points"]):
            return True
        against = self.controls(gap).get("placebo_difference")
        return against is not None and has_interval(against)

    def noise(self, gap: Row) -> float:
        """Return what δ would vary by if the same prompts were asked again; NaN where that is not known."""
        if not self.is_rated:
            return float("nan")
        own = self.own("controls", gap)
        own = own.loc[own["control"] == "noise"]
        return float(own["se"].iloc[0]) if len(own) else float("nan")

    @property
    def followed(self) -> list[dict[str, Any]]:
        """Rows of the manipulation check; none of written texts."""
        return _records(self.tables["manipulation"]) if self.is_rated else []


def is_finite(value: Any) -> bool:
    """Whether a table has a number there."""
    return value is not None and value is not pd.NA and float(value) - float(value) == 0


def has_interval(row: Row) -> bool:
    """Whether a gap has an interval."""
    return is_finite(row["ci_low"]) and is_finite(row["ci_high"])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
