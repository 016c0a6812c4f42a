"""How often do intervals of a judged gap hold the true one, if the judge is biased by group and people label a sample?

    python benchmarks/validated_gaps.py [sets=2000]

Replies of four groups to each other are drawn, with people's scores of all of them. The judge is milder in replies to
one's own group, and in those to the group that people score lower than the others. People's scores of a random sample
are shown to the estimators of :func:`audit.statistics.prediction_powered.correct`. The table is that of
docs/replies.md. One core needs 10 seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from audit.errors import NotEstimableError
from audit.statistics.contrasts import column_weights
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.prediction_powered import Corrected, LabelledSample, correct, stratified

GROUPS = 4
GAP, LESS = 1.0, -1.0
"""People's own-group gap, and how much lower they score replies to the last group than to the others, in points."""
DELTA = column_weights(np.eye(GROUPS)[None])[0].ravel()
DISPARITY = np.tile(np.where(np.arange(GROUPS) == GROUPS - 1, 1.0, -1 / (GROUPS - 1)) / GROUPS, GROUPS)
CONTRASTS = {"delta": (DELTA, GAP), "disparity": (DISPARITY, LESS)}
"""Weights of the cells, shape (16,), and what is true of people's scores."""
LABELS = (
    [f"{one} to {other}" for one in range(GROUPS) for other in range(GROUPS)],
    [f"to {other}" for _ in range(GROUPS) for other in range(GROUPS)],
)
DESIGNS = ((24, 120), (60, 120), (60, 300), (200, 200))  # narratives, and labelled replies


def drawn(n: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Draw people's and the judge's scores of all replies, shape (n, 16) each."""
    own, last = np.eye(GROUPS).ravel(), np.tile(np.arange(GROUPS) == GROUPS - 1, GROUPS)
    level, slope = rng.normal(0, 2, (n, 1)), rng.normal(GAP, 1, (n, 1))
    people = 5 + level + slope * own + LESS * last + rng.normal(0, 1.5, (n, own.size))
    judge = people + rng.normal(0, 1, (n, 1)) + 2 * own + 1.5 * last + rng.normal(0, 1, people.shape)
    return people, judge


def estimates(n: int, n_labels: int, *, seed: int, n_sets: int, what: str) -> Iterator[dict[str, Corrected]]:
    """Yield the estimates of a contrast in each of some sets of n narratives, but in those that are refused."""
    weights, _ = CONTRASTS[what]
    rng = np.random.default_rng(seed)
    for _ in range(n_sets):
        people, judge = drawn(n, rng)
        chosen = rng.permutation(people.size)[:n_labels]
        narratives, cells = np.divmod(chosen, weights.size)
        own = LabelledSample(people[narratives, cells], judge[narratives, cells], cells, narratives)
        try:
            sample, strata = stratified(own, weights, LABELS)
        except NotEstimableError:  # some stratum has no two labels
            continue
        of_all = summarise_contrasts(judge @ weights, rounding=0.0, confidence=0.95, n_answers=judge.size)
        yield correct(of_all, np.arange(n), sample, strata, confidence=0.95)


def coverage(n: int, n_labels: int, *, seed: int, n_sets: int, what: str) -> dict[str, tuple[float, float]]:
    """Return by estimator how often 95% intervals hold the truth, and their mean length in points."""
    truth = CONTRASTS[what][1]
    found = list(estimates(n, n_labels, seed=seed, n_sets=n_sets, what=what))
    return {
        name: (
            float(np.mean([each[name].ci_low <= truth <= each[name].ci_high for each in found])),
            float(np.mean([each[name].ci_high - each[name].ci_low for each in found])),
        )
        for name in found[0]
    }


def main(*words: str) -> None:
    """Print the table in Markdown."""
    n_sets = int(dict(word.split("=") for word in words).get("sets", 2000))
    print("| gap | narratives | labelled replies | measure alone | people alone | corrected | corrected, tuned |")
    print("|---|---|---|---|---|---|---|")
    for what in CONTRASTS:
        for n, n_labels in DESIGNS:
            found = coverage(n, n_labels, seed=n + n_labels, n_sets=n_sets, what=what)
            cells = (f"{100 * held:.1f}% ({length:.2f})" for held, length in found.values())
            print(f"| {'δ' if what == 'delta' else 'D'} | {n} | {n_labels} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
