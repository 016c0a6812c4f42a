"""Ratings whose truth is planted, of which careless words would be false.

``python tests/planted.py FOLDER`` writes the CSV files of each case and its report, and prints the commands that make
the reports: ``python -m audit report ratings=FOLDER/CASE/ratings.csv groups=FOLDER/CASE/groups.csv ...``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from audit.statistics.analysis import Analysis
from audit.statistics.average_gaps import judged_rows
from audit.statistics.disparity_answers import with_limits
from audit.statistics.verdict import Limits
from audit.tables.verdicts import JUDGED, VERDICTS

EMOTIONS = ("joy", "pride", "relief", "anger", "fear")
FIVE_UP_TWO_DOWN = {"joy": 5.0, "pride": 5.0, "relief": 5.0, "anger": -7.5, "fear": -7.5}


@dataclass(frozen=True)
class Planted:
    """Ratings and groups as `audit report` reads them, and the settings of the analysis."""

    ratings: pd.DataFrame
    groups: pd.DataFrame
    settings: Mapping[str, float] = field(default_factory=dict)

    def write(self, folder: Path) -> list[str]:
        """Write the two files and return the arguments of the command that analyses them."""
        folder.mkdir(parents=True, exist_ok=True)
        self.ratings.to_csv(folder / "ratings.csv", index=False)
        self.groups.to_csv(folder / "groups.csv", index=False)
        settings = [f"statistics.{name}={value:g}" for name, value in self.settings.items()]
        files = [f"ratings={folder / 'ratings.csv'}", f"groups={folder / 'groups.csv'}", f"run_dir={folder / 'run'}"]
        return [*files, "low=0", "high=100", *settings]


def ratings_of(
    groups: Mapping[str, str],
    *,
    n: int,
    gap: Callable[[str, str], float] = lambda emotion, group: 0.0,
    level: Callable[[str], float] = lambda group: 0.0,
    sd: float = 1.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Return complete ratings: 50, a gap towards the in-group, and how high each identity rates and is rated.

    Parameters
    ----------
    groups
        Term → group.
    n
        Narratives, of the five emotions in turn.
    gap
        Points that a perceiver of a group gives more to its own, in narratives of an emotion.
    level
        Points by which each perceiver and each experiencer of a group is higher than others.
    sd
        Of each rating's noise, in points.
    """
    rng = np.random.default_rng(seed)
    rows = [
        (f"n{k:03d}", emotion, p, e,
         50.0 + level(groups[p]) + level(groups[e]) + (gap(emotion, groups[p]) if groups[p] == groups[e] else 0.0))
        for k, emotion in enumerate(EMOTIONS[k % len(EMOTIONS)] for k in range(n)) for p in groups for e in groups
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["narrative_id", "emotion", "perceiver", "experiencer", "rating"])
    return table.assign(rating=(table["rating"] + rng.normal(0, sd, len(table))).clip(0, 100).round(4), status="rated")


def grouped(groups: Mapping[str, str]) -> pd.DataFrame:
    """Return the table that says which group each term belongs to."""
    return pd.DataFrame({"term": list(groups), "group": list(groups.values())})


def alone(n: int) -> dict[str, str]:
    """Return n terms, each a group of its own."""
    return {f"a term {k:02d}": f"group {k:02d}" for k in range(n)}


def refused(table: pd.DataFrame, gone: pd.Series) -> pd.DataFrame:
    """Return the ratings with some of them refused."""
    return table.assign(rating=table["rating"].mask(gone), status=table["status"].mask(gone, "refused"))


def claims_of(page: str) -> str:
    """Return a page without its picture, which names every group, and its glossary, which says what verdicts can be."""
    return re.sub(r'<table class="glance".*?</table>|<dl>\n<dt>in-group.*?</dl>', " ", page, flags=re.DOTALL)


def decided(analysis: Analysis, *, margin: float | None = None, remarks: Sequence[object] = ()) -> Analysis:
    """Return the analysis with ``verdicts``, ``judged`` and ``disparity`` under its own remarks and these."""
    on_place: dict[tuple[str, str], set[str]] = {}
    for remark in (*analysis.remarks, *remarks):
        on_place.setdefault((remark.dimension, remark.variant), set()).add(remark.code)
    on_run = frozenset(code for (dimension, _), codes in on_place.items() if not dimension for code in codes)
    limits = Limits(on_run, on_place)
    judged, verdicts = analysis.averages.verdicts(limits, margin=margin)
    tables = {
        "disparity": with_limits(analysis.tables["disparity"], limits),
        "verdicts": pd.DataFrame([each.row() for each in verdicts], columns=list(VERDICTS)),
        "judged": pd.DataFrame(judged_rows(judged), columns=list(JUDGED)),
    }
    return replace(analysis, tables=analysis.tables | tables)


def opposite_emotions() -> Planted:
    """+5 in three emotions and −7.5 in two: 0 on average."""
    groups = alone(4)
    ratings = ratings_of(groups, n=120, gap=lambda emotion, group: FIVE_UP_TWO_DOWN[emotion])
    return Planted(ratings, grouped(groups), {"margin": 4})


def one_odd_group() -> Planted:
    """One identity of twelve gives its own 36 points more, the others nothing: 3 on average."""
    groups = alone(12)
    ratings = ratings_of(groups, n=40, gap=lambda emotion, group: 36.0 if group == "group 03" else 0.0, sd=4.0)
    return Planted(ratings, grouped(groups), {"margin": 4})


def unequal_groups() -> Planted:
    """A group of six terms that rates and is rated low, among groups of two: plain means 46 and 51.1, δ +2.85."""
    sizes = {"large": 6, "small": 2, "other": 2}
    groups = {f"a {name} {k}": name for name, size in sizes.items() for k in range(size)}
    low = lambda group: -5.29 if group == "large" else 4.96  # noqa: E731
    return Planted(
        ratings_of(groups, n=40, gap=lambda emotion, group: 2.85, level=low, sd=0.5, seed=1), grouped(groups)
    )


def alike() -> Planted:
    """No gap, in any emotion or group."""
    groups = alone(4)
    return Planted(ratings_of(groups, n=100), grouped(groups), {"margin": 4})


def few_narratives() -> Planted:
    """Three narratives without a gap, which happen to agree."""
    groups = alone(4)
    return Planted(ratings_of(groups, n=3, sd=0.1), grouped(groups), {"margin": 4})


def refused_when_high() -> Planted:
    """A gap of 6, of which nothing is left since the model refuses to rate its own high."""
    groups = alone(4)
    ratings = ratings_of(groups, n=60, gap=lambda emotion, group: 6.0, sd=8.0)
    own = ratings["perceiver"] == ratings["experiencer"]
    return Planted(refused(ratings, own & (ratings["rating"] > 56)), grouped(groups), {"margin": 4})


def constant() -> Planted:
    """A model that answers 50, whatever it is asked."""
    groups = alone(4)
    return Planted(ratings_of(groups, n=30, sd=0.0), grouped(groups), {"margin": 4})


def constant_within_narratives() -> Planted:
    """A model that tells narratives apart, and no identities."""
    planted = constant()
    place = planted.ratings["narrative_id"].str[1:].astype(int)
    return Planted(planted.ratings.assign(rating=20.0 + place), planted.groups, planted.settings)


def nearly_constant() -> Planted:
    """A model that writes 50 in 95 of 100 prompts, and a little less in the others."""
    planted = constant()
    rare = np.arange(len(planted.ratings)) % 20 == 0
    return Planted(planted.ratings.assign(rating=np.where(rare, 45.0, 50.0)), planted.groups, planted.settings)


def two_words_each(names: Sequence[str] = ("Alder", "Birch", "Cedar", "Elm", "Maple")) -> dict[str, str]:
    """Return two terms of each group, without a word in common."""
    return {f"{word} {name}": name for name in names for word in ("one person of", "somebody in")}


def gets_less(
    less: float = -20.0, *, gap: float = 0.0, margin: float | None = 2.0, n: int = 60, stems: bool = True
) -> Planted:
    """Everybody rates people of Birch so many points lower, next to a gap towards the in-group; 2 terms a group."""
    groups = two_words_each()
    ratings = ratings_of(groups, n=n, gap=lambda emotion, group: gap, sd=4.0, seed=2)
    ratings["rating"] += less * (ratings["experiencer"].map(groups) == "Birch")
    table = grouped(groups)
    return Planted(ratings, table.assign(stem=table["term"]) if stems else table, {} if margin is None else {
        "margin": margin})  # fmt: skip


CASES: Mapping[str, Callable[[], Planted]] = {
    "b1-emotions": opposite_emotions,
    "b1-group": one_odd_group,
    "b3-unbalanced": unequal_groups,
    "alike": alike,
    "few-narratives": few_narratives,
    "refused-when-high": refused_when_high,
    "constant": constant,
    "constant-within-narratives": constant_within_narratives,
    "nearly-constant": nearly_constant,
    "less-for-one": gets_less,
    "less-and-own": lambda: gets_less(gap=8.0),
    "own-alone": lambda: gets_less(0.0, gap=8.0),
    "no-less": lambda: gets_less(0.0, n=200),
    "less-in-these-words": lambda: gets_less(stems=False),
}


def main(folder: Path) -> None:
    """Write each case, and make its report by the command line."""
    for name, case in CASES.items():
        command = [sys.executable, "-m", "audit", "report", *case().write(folder / name)]
        print(" ".join(("python", *command[1:])))
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
