"""Builds run folders through the package, for the tests of what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from audit.__main__ import _statistics
from audit.pipeline import report_outside


def outside_run(folder: Path, ratings: pd.DataFrame, groups: pd.DataFrame, **statistics: Any) -> Path:
    """Analyse ratings as another tool would have collected them, and return the run's folder."""
    ratings.to_csv(folder / "ratings.csv", index=False)
    groups.to_csv(folder / "groups.csv", index=False)
    outcome = report_outside(
        folder / "ratings.csv",
        folder / "groups.csv",
        folder / "run",
        low=0,
        high=100,
        model="a model",
        seed=0,
        statistics=_statistics() | statistics,
        command="python -m audit report ...",
        say=lambda line: None,
    )
    return outcome.run_dir
