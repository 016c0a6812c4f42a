"""Builds run folders through the package, for the tests of what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

import audit.figures.style
from audit.__main__ import _statistics
from audit.pipeline import report_outside

SMALL_IDENTITIES: Final = (
    f"stimuli.own_identities={Path(__file__).with_name('small_identities.yaml')}",
    "stimuli.placebo=0",
)
"""Overrides: identities of the tests' own beside the packaged ones, which are more and may change, and no invented
groups. ``dimensions`` is then faith, heritage or both."""
FOUR_RELIGIONS: Final = (*SMALL_IDENTITIES, "dimensions=[faith]")


@contextmanager
def svg_alone() -> Iterator[None]:
    """Draw figures as SVG alone, which is all that a page has; PNG and PDF take most of the time."""
    draw = audit.figures.style.figure_bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "audit.figures.style.figure_bytes", lambda figure, form: draw(figure, form) if form == "svg" else b""
        )
        yield


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
