"""How often the disparity of groups errs, on ratings drawn with a known one, through the whole analysis of a run.

    python benchmarks/disparity.py [datasets=1000] [cases=0,3] [seed=0] [margin=20]

Ratings have a level of each narrative (SD 10), what a narrative adds to one perceiver (SD 8) and to one group (SD as
the table says), effects of perceivers (SD 3), of each term of an experiencer group ("words"), and noise (SD 4). Words
are drawn anew in each data set: an interval over narratives should hold the disparity of the words that were drawn, an
interval over terms or labels that of the groups, which is 0, or with one group planted 20 points lower −20 for it.

- *coverage*: of the intervals of all groups and data sets, of each scope, in %.
- *family*: data sets in which any group has p < .05 after Holm, nothing planted, in %.
- *omnibus*: data sets in which the test of all groups has p < .05, nothing planted and words alike, in %.
- *found*: data sets in which the planted group is "lower"; *others*: in which another group is named.
- *within*, *beyond*: with ``margin=20``, at which the planted group lies, data sets in which it is shown to lie within
  the margin, and beyond it: both are wrong.

One core draws 5 to 20 data sets a second, of many pairs fewer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.tables.disparity import without_refusals
from audit.tables.ratings import RATINGS

PLANTED = -20.0
SETTINGS = AnalysisSettings(n_permutations=100)
NO_MARGIN = float("nan")


@dataclass(frozen=True)
class Case:
    """A design, and how its ratings differ."""

    n_narratives: int
    n_groups: int
    n_terms: int
    n_perceivers: int
    missing: float = 0.0  # share of the prompts, at random
    by_group: float = 1.0  # SD of what a narrative adds to a group
    words: float = 0.0  # SD of the effects of terms, and of labels of invented groups
    invented: int = 0  # sets of four invented groups of one term
    drawn: bool = False  # whether each narrative is asked about its own pairs and half of the others


CASES = (
    Case(12, 4, 2, 4),
    Case(12, 4, 2, 4, missing=0.1),
    Case(30, 8, 2, 8, missing=0.2, by_group=3.0),
    Case(60, 5, 3, 1, by_group=2.0),
    Case(100, 4, 1, 1, missing=0.3, by_group=4.0),
    Case(24, 3, 2, 3, words=2.0),
    Case(24, 4, 2, 4, words=2.0, missing=0.1),
    Case(100, 12, 2, 12, words=2.0),
    Case(24, 6, 2, 6, words=2.0, drawn=True),
    Case(24, 4, 1, 4, words=2.0, invented=1),
    Case(24, 6, 1, 6, words=2.0, invented=3, missing=0.1),
)


def rate(
    case: Case, groups: list[str], n_terms: int, planted: npt.NDArray[np.float64], *, dimension: str,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:  # fmt: skip
    """Draw ratings of one dimension; return them, and the effect of each term."""
    n, k, p = case.n_narratives, len(groups), min(case.n_perceivers, len(groups))
    of = np.repeat(np.arange(k), n_terms)
    terms = np.array([f"{groups[own]}, word {place % n_terms}" for place, own in enumerate(of)])
    effects = planted[of] + rng.normal(0, case.words, of.size) if case.words else planted[of].astype(float)
    y = (
        50 + rng.normal(0, 10, (n, 1, 1)) + rng.normal(0, 8, (n, p, 1)) + rng.normal(0, 3, (1, p, 1))
        + effects + rng.normal(0, case.by_group, (n, 1, k))[:, :, of] + rng.normal(0, 4, (n, p, of.size))
    )  # fmt: skip
    own = np.arange(p)[:, None] == of
    asked = np.ones(y.shape, dtype=bool)
    if case.drawn:
        asked = own | (rng.random(y.shape) < 0.5)
    missing = rng.random(y.shape) < case.missing
    i, a, e = np.nonzero(asked)
    rated = ~missing[i, a, e]
    names = np.array(groups)
    rows = {
        "dimension": dimension, "variant": "origin", "narrative_id": np.array([f"n{each}" for each in range(n)])[i],
        "emotion": "joy", "perceiver": terms[::n_terms][a], "experiencer": terms[e], "perceiver_group": names[a],
        "experiencer_group": names[of[e]], "in_group": own[a, e], "n_shared": own[a, e].astype(int),
        "status": np.where(rated, "rated", "refused"), "intensity": np.where(rated, y[i, a, e], np.nan),
        "wording": 0,
    }  # fmt: skip
    table = pd.DataFrame({name: rows.get(name) for name in RATINGS}, index=range(i.size))
    types = {"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"}
    return table.astype(types), effects


def analysed(
    case: Case, *, planted: float, seed: int, margin: float = NO_MARGIN
) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Return the rows of the first view of one data set, and by group its disparity in these words, and in any."""
    rng = np.random.default_rng([seed, int(planted != 0)])
    groups = [f"group {place}" for place in range(case.n_groups)]
    true = np.zeros(case.n_groups)
    true[0] = planted
    parts = []
    table, effects = rate(case, groups, case.n_terms, true, dimension="religion", rng=rng)
    parts.append(table)
    names = [f"invented {place}" for place in range(case.invented)]
    for name in names:
        labels = [f"{name}{letter}" for letter in "abcd"]
        parts.append(rate(case, labels, 1, np.zeros(4), dimension=name, rng=rng)[0])
    stems = {term: term for term in table["experiencer"].unique()} if case.n_terms > 1 else {}
    told = Repetition({"religion": stems}, placebo=tuple(names), drawn=("religion", *names) if case.drawn else ())
    scale = {"origin": (-50.0, 150.0)}  # wide enough that no rating lies beyond it
    settings = SETTINGS.model_copy(update={"margin": margin} if margin == margin else {})
    found = analyse(pd.concat(parts, ignore_index=True), scales=scale, seed=0, settings=settings, repetition=told)
    rows = without_refusals(found.tables["disparity"])
    rows = rows[(rows["side"] == "experiencer") & (rows["view"] == "all") & (rows["dimension"] == "religion")]

    def against_others(of: npt.NDArray[np.float64]) -> pd.Series:
        return pd.Series((of - of.mean()) * case.n_groups / (case.n_groups - 1), index=groups)

    return rows, against_others(effects.reshape(case.n_groups, -1).mean(axis=1)), against_others(true)


SCOPES = {"narratives": "", "narratives_and_terms": ", terms", "narratives_and_labels": ", labels"}


def errors(case: Case, *, datasets: int, seed: int, margin: float = NO_MARGIN) -> dict[str, float]:
    """Draw data sets without and with a planted group; return the shares in %."""
    counts: Counter[str] = Counter()
    of: Counter[str] = Counter()

    def add(name: str, values: Any) -> None:
        known = np.atleast_1d(values)
        counts[name] += int(known.sum())
        of[name] += known.size

    for each in range(datasets):
        for planted in (0.0, PLANTED):
            rows, these, any_words = analysed(case, planted=planted, seed=seed + each, margin=margin)
            for scope, said in SCOPES.items():
                own = rows[(rows["level"] == "group") & (rows["scope"] == scope)].set_index("group")
                own = own[own["se"].notna()]
                if own.empty:
                    continue
                true = (these if scope == "narratives" else any_words)[own.index]
                held = (own["ci_low"] <= true) & (true <= own["ci_high"])
                add(f"coverage{said}{' planted' if planted else ''}", held)
                if not planted and (scope != "narratives" or not case.words):
                    add(f"family{said}", (own["p_adjusted"] < 0.05).any())
            omnibus = rows.loc[rows["level"] == "all", "p"].dropna()
            if not planted and not case.words and len(omnibus):
                add("omnibus", omnibus < 0.05)
            if planted:
                heads = rows[rows["headline"].astype(bool)].set_index("group")
                answers = heads["code"]
                add("found", answers.iloc[0] == "lower")
                add("others", answers.iloc[1:].isin(["lower", "higher"]).any())
                if margin == margin:
                    add("within", answers.iloc[0] == "within" or heads["size"].iloc[0] == "smaller")
                    add("beyond", heads["size"].iloc[0] == "beyond")
    return {name: 100 * counts[name] / of[name] for name in of}


COLUMNS = (
    "coverage", "coverage planted", "family", "omnibus", "coverage, terms", "coverage, terms planted", "family, terms",
    "coverage, labels", "coverage, labels planted", "family, labels", "found", "others", "within",
    "beyond",
)  # fmt: skip


def lines(datasets: int, cases: list[int], seed: int, margin: float) -> Iterator[str]:
    """Yield the table in Markdown."""
    head = "narratives, groups, terms, perceivers | missing | SD of narrative × group, of words | other"
    yield f"| {head} | {' | '.join(COLUMNS)} |"
    yield "|---" * (4 + len(COLUMNS)) + "|"
    for place in cases:
        case = CASES[place]
        found = errors(case, datasets=datasets, seed=seed, margin=margin)
        other = ", ".join(
            filter(None, ("drawn pairs" if case.drawn else "", f"{case.invented} invented" if case.invented else ""))
        )
        numbers = [f"{found[name]:.1f}" if name in found else "–" for name in COLUMNS]
        design = f"{case.n_narratives}, {case.n_groups}, {case.n_terms}, {case.n_perceivers}"
        yield f"| {design} | {case.missing:.0%} | {case.by_group:g}, {case.words:g} | {other} | {' | '.join(numbers)} |"


def main() -> None:
    """Print the table."""
    told = dict(word.split("=") for word in sys.argv[1:])
    cases = [int(each) for each in told["cases"].split(",")] if "cases" in told else list(range(len(CASES)))
    margin = float(told.get("margin", NO_MARGIN))
    for line in lines(int(told.get("datasets", 1000)), cases, int(told.get("seed", 0)), margin):
        print(line, flush=True)


if __name__ == "__main__":
    main()
