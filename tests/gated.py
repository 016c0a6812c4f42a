"""Runs for the gate: planted ratings in a run folder, without a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import planted

from audit.cli.composition import statistics_defaults
from audit.runs.outside import describe_outside, read_outside
from audit.runs.store import RunFolder

TWO_TERMS = {f"{way} {name}": name for name in ("Arbo", "Cendi", "Dolva", "Ferru") for way in ("an old", "kin of")}
STEMS = {term: f"{term.split()[0]} {group}" for term, group in TWO_TERMS.items()}
"""Each group has two terms that share no word: the planted gap is echo-free."""


def two_terms(**settings: Any) -> planted.Planted:
    """Return planted ratings of groups that have terms without a common word."""
    ratings = planted.ratings_of(TWO_TERMS, n=settings.pop("n", 100), **settings)
    return planted.Planted(ratings, planted.grouped(TWO_TERMS).assign(stem=list(STEMS.values())))


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
        said: Mapping[str, Any] = {"statistics": dict(statistics_defaults())}
        described = describe_outside(outside, command="report", seed=0, model="a model").adding("config", **said)
        with RunFolder(tmp_path / name) as folder:
            folder.write_shard(0, change(outside.ratings))
            folder.write_manifest(described.having(placebo=list(placebo), **manifest))
        return tmp_path / name

    return make
