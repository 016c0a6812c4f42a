"""Runs for the gate: planted ratings in a run folder, without a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import planted

from audit.cli.main import main
from audit.configuration.analysis_settings import AnalysisSettings
from audit.runs.outside import describe_outside, read_outside
from audit.runs.store import RunFolder

NAMES = ("Arbo", "Cendi", "Dolva", "Ferru", "Gorun", "Halda")
"""Six groups: five or more can carry a gap between groups."""
TWO_TERMS = {f"{way} {name}": name for name in NAMES for way in ("an old", "kin of")}
STEMS = {term: f"{term.split()[0]} {group}" for term, group in TWO_TERMS.items()}
"""Each group has two terms that share no word: the planted gap is echo-free."""


def two_terms(**settings: Any) -> planted.Planted:
    """Return planted ratings of groups that have terms without a common word."""
    ratings = planted.ratings_of(TWO_TERMS, n=settings.pop("n", 200), **settings)
    return planted.Planted(ratings, planted.grouped(TWO_TERMS).assign(stem=list(STEMS.values())))


def gate(*words: object) -> int:
    """Give the command, and return its exit code."""
    return main(["gate", *map(str, words)])


def verdict(run: Path) -> dict[str, Any]:
    """Read what it wrote."""
    found: dict[str, Any] = json.loads((run / "gate" / "verdict.json").read_text("ascii"))
    return found


def of(found: Mapping[str, Any], kind: str, member: str = "") -> dict[str, Any]:
    """Return the row of one gap."""
    return next(row for row in found["gaps"] if (row["kind"], row["member"]) == (kind, member))


def with_invented(
    gap: float,
    of_invented: float,
    *,
    n: int = 60,
    n_of_invented: int = 60,
    sd: float = 1.0,
    sd_of_invented: float = 1.0,
    n_groups: int = 4,
) -> planted.Planted:
    """Return planted ratings of some groups, and of as many invented ones in the first of their narratives."""
    real, invented = (
        {f"a {name}": name for name in names[:n_groups]}
        for names in (
            ("Hindu", "Muslim", "Sikh", "Jain", "Druze", "Parsi"),
            ("Arbo", "Cendi", "Dolva", "Ferru", "Gorlan", "Hilva"),
        )
    )
    parts = [
        planted.ratings_of(own, n=size, gap=lambda emotion, group, gap=own_gap: gap, sd=spread, seed=seed).assign(
            dimension=name
        )
        for name, own, own_gap, seed, size, spread in (
            ("real", real, gap, 1, n, sd),
            ("invented", invented, of_invented, 2, n_of_invented, sd_of_invented),
        )
    ]
    groups = pd.concat(
        [planted.grouped(real).assign(dimension="real"), planted.grouped(invented).assign(dimension="invented")]
    )
    return planted.Planted(pd.concat(parts), groups)


def run_maker(tmp_path: Path) -> Callable[..., Path]:
    """Return what keeps planted ratings in a run folder."""

    def make(
        planted_: planted.Planted,
        name: str = "run",
        *,
        placebo: tuple[str, ...] = (),
        change: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
        **manifest: Any,
    ) -> Path:
        for kind, table in (("ratings", planted_.ratings), ("groups", planted_.groups)):
            table.to_csv(tmp_path / f"{name}-{kind}.csv", index=False)
        files = [tmp_path / f"{name}-{kind}.csv" for kind in ("ratings", "groups")]
        outside = read_outside(*files, low=0, high=100)
        said: Mapping[str, Any] = {"statistics": AnalysisSettings().model_dump(mode="json")}
        described = describe_outside(outside, command="report", seed=0, model="a model").adding("config", **said)
        with RunFolder(tmp_path / name) as folder:
            folder.write_shard(0, change(outside.ratings))
            folder.write_manifest(described.having(placebo=list(placebo), **manifest))
        return tmp_path / name

    return make
