"""How often the trends of a series of runs err, on ratings drawn with a known one, through each run's whole analysis.

    python benchmarks/series.py [datasets=200] [cases=0,3] [seed=0]

A data set is a series of runs on the same narratives. Ratings have a level of each narrative (SD 10) and what it adds
to a group (SD 1) in all runs, what it adds to a group in one run (SD 1), noise (SD 4), and effects of terms and
affinities of pairs of groups, drawn anew in each data set: the same in all runs, or in each run its own. Without a
trend, δ is 2 in all runs; with one, group 0 is rated 10, 5, 0, ... points lower, and δ falls from 4 to 0.

- *coverage*: of the intervals of all trends, of δ and of the groups' D, in %; the truth is that of any such words.
- *family, steps*: data sets in which any trend, or step, is shown, nothing planted, in %.
- *found*: data sets in which the planted trend of δ, and of group 0, is shown; *nearer*: and said to come nearer to 0.
- *others*: data sets in which another group's trend is shown.

One core draws 2 to 6 data sets a second.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from audit.comparing.run_gaps import RatingGaps, gaps_of_ratings
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.controls import Repetition
from audit.statistics.series import SeriesPoint, series_tables
from audit.tables.ratings import RATINGS

SETTINGS = AnalysisSettings(n_permutations=100)
SCALE = (-50.0, 150.0)  # wide enough that no rating lies beyond it


@dataclass(frozen=True)
class Case:
    """A design, and how its ratings differ."""

    n_runs: int
    n_narratives: int
    n_groups: int
    n_terms: int
    missing: float = 0.0  # share of the prompts, at random
    words: float = 0.0  # SD of terms' effects and of affinities of pairs of groups, the same in all runs
    own_words: float = 0.0  # SD of those of each run


CASES = (
    Case(3, 24, 6, 2),
    Case(3, 24, 6, 2, missing=0.1, words=1.0),
    Case(5, 24, 6, 2, own_words=1.0),
    Case(3, 24, 6, 2, words=1.0, own_words=1.0),
    Case(4, 60, 4, 1),
)


def ratings(
    case: Case, of_run: np.random.Generator, shared: dict[str, Any], *, gap: float, low: float
) -> tuple[pd.DataFrame, list[str]]:
    """Draw the ratings of one run; return them, and its terms."""
    n, k = case.n_narratives, case.n_groups
    of = np.repeat(np.arange(k), case.n_terms)
    size = of.size
    affinities = shared["affinities"] + of_run.normal(0, case.own_words, (k, k))
    effects = shared["words"] + of_run.normal(0, case.own_words, size) + low * (of == 0)
    y = (
        50 + shared["levels"][:, None, None] + (shared["by_group"] + of_run.normal(0, 1, (n, k)))[:, None, of] + effects
        + affinities[of][:, of] + gap * (of[:, None] == of) + of_run.normal(0, 4, (n, size, size))
    )  # fmt: skip
    rated = (of_run.random(y.shape) >= case.missing).ravel()
    i, a, e = (each.ravel() for each in np.indices(y.shape))
    terms = np.array([f"group {own}, word {place % case.n_terms}" for place, own in enumerate(of)])
    names = np.array([f"group {own}" for own in range(k)])
    rows = {
        "dimension": "religion", "variant": "origin", "narrative_id": np.array([f"n{each}" for each in range(n)])[i],
        "emotion": "joy", "perceiver": terms[a], "experiencer": terms[e], "perceiver_group": names[of[a]],
        "experiencer_group": names[of[e]], "in_group": of[a] == of[e], "n_shared": (of[a] == of[e]).astype(int),
        "status": np.where(rated, "rated", "refused"), "intensity": np.where(rated, y.ravel(), np.nan), "wording": 0,
    }  # fmt: skip
    table = pd.DataFrame({name: rows.get(name) for name in RATINGS}, index=range(i.size))
    types = {"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"}
    return table.astype(types), terms.tolist()


def series(case: Case, *, planted: bool, seed: int) -> Iterator[SeriesPoint]:
    """Draw and analyse the runs of one data set; yield their gaps."""
    rng = np.random.default_rng([seed, int(planted)])
    k = case.n_groups
    shared = {
        "levels": rng.normal(0, 10, case.n_narratives),
        "by_group": rng.normal(0, 1, (case.n_narratives, k)),
        "words": rng.normal(0, case.words, k * case.n_terms),
        "affinities": rng.normal(0, case.words, (k, k)),
    }
    for place in range(case.n_runs):
        left = 1 - place / (case.n_runs - 1) if planted else 0.5
        table, terms = ratings(case, rng, shared, gap=4 * left, low=-10 * left if planted else 0.0)
        stems = {term: term for term in terms} if case.n_terms > 1 else {}
        [run] = gaps_of_ratings(
            table, scale=SCALE, seed=0, settings=SETTINGS, repetition=Repetition({"religion": stems})
        )
        yield from points(run, f"run {place}", float(place))


def points(run: RatingGaps, name: str, position: float) -> Iterator[SeriesPoint]:
    """Yield the deciding gaps of a run: δ, and each group's D."""
    assert run.averages is not None
    for gap in (*(each for each in run.averages.gaps if each.kind == "average"), *run.disparities):
        yield SeriesPoint(name, position, gap, held_back=gap.held_back)


def errors(case: Case, *, datasets: int, seed: int) -> dict[str, float]:
    """Draw data sets without and with a trend; return the shares in %."""
    counts: Counter[str] = Counter()
    of: Counter[str] = Counter()

    def add(name: str, is_so: bool) -> None:
        counts[name] += is_so
        of[name] += 1

    n = case.n_groups
    for each in range(datasets):
        for planted in (False, True):
            made = series_tables(list(series(case, planted=planted, seed=seed + each)), confidence=0.95)
            shown = {row["member"]: row for row in made.trends if row["code"] in ("falls", "rises")}
            step = 1 / (case.n_runs - 1)
            for row in made.trends:
                true = 0.0
                if planted:
                    of_group = 10 * step if row["member"] == "group 0" else -10 * step / (n - 1)
                    true = of_group if row["member"] else -4 * step
                name = "coverage D" if row["member"] else "coverage δ"
                add(name, row["ci_low"] <= true <= row["ci_high"])
            if planted:
                for member, name in (("", "δ"), ("group 0", "D")):
                    add(f"found {name}", member in shown)
                    add(f"nearer {name}", member in shown and shown[member]["size"] == "nearer")
                add("others", bool(shown.keys() - {"", "group 0"}))
            else:
                add("family", bool(shown))
                add("steps", any(row["code"] in ("falls", "rises") for row in made.changes))
    return {name: 100 * counts[name] / of[name] for name in of}


COLUMNS = (
    "coverage δ", "coverage D", "family", "steps", "found δ", "nearer δ", "found D", "nearer D", "others",
)  # fmt: skip


def main() -> None:
    """Print the table in Markdown."""
    told = dict(word.split("=") for word in sys.argv[1:])
    cases = [int(each) for each in told["cases"].split(",")] if "cases" in told else list(range(len(CASES)))
    head = "runs, narratives, groups, terms | missing | SD of words and pairs: shared, own"
    print(f"| {head} | {' | '.join(COLUMNS)} |")
    print("|---" * (3 + len(COLUMNS)) + "|")
    for place in cases:
        case = CASES[place]
        found = errors(case, datasets=int(told.get("datasets", 200)), seed=int(told.get("seed", 0)))
        design = f"{case.n_runs}, {case.n_narratives}, {case.n_groups}, {case.n_terms}"
        numbers = " | ".join(f"{found[name]:.1f}" for name in COLUMNS)
        print(f"| {design} | {case.missing:.0%} | {case.words:g}, {case.own_words:g} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
