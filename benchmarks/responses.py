"""What the check of whether ratings follow the story answers, on models whose response is known; printed as Markdown.

Run as ``python benchmarks/responses.py [n_datasets]`` where the project is installed (or with ``PYTHONPATH=.``). A
narrative's own emotion and a wrong one are rated with errors of one standard deviation each, on a scale of 100 points;
the response is what the own emotion is rated higher by. Beside the three answers stand what the earlier rule said (no
verdict unless the interval leaves out 0) and, of data sets in which nothing was shown, the share that is decided by as
many narratives as the check then asks for.

The last rows are of coarse scales, 0 to 10 and 1 to 7: the same ratings, rounded to whole numbers. All is in percent of
the scale.
"""

import sys

import numpy as np
import pandas as pd

from audit.statistics.manipulation import manipulation_rows

SEED = 34
ROWS = (
    *((response, sd, n, 0) for sd in (8.0, 20.0) for response in (0.0, 0.1, 3.0, 30.0) for n in (12, 60, 400)),
    (0.1, 8.0, 10_000, 0),
    *((response, 8.0, n, steps) for steps in (10, 6) for response in (0.0, 3.0, 30.0) for n in (60, 400)),
)
"""Response in points, standard deviation of a rating, narratives, and steps of the scale; 0 steps: not rounded."""
ANSWERS = ("follows", "does_not_follow", "not_shown")
MOST = 10_000
"""Narratives that are asked for again, at most."""


def checked(response, sd, n, rng, steps=0):
    """Return the row of a check of drawn ratings; rounded ones are of narratives of several levels."""
    ratings = {"own": response, "wrong": 0.0}
    levels = np.tile(rng.uniform(30, 50, n), 2) if steps else 40.0
    drawn = levels + np.repeat(list(ratings.values()), n) + rng.normal(0, sd, 2 * n)
    answers = pd.DataFrame(
        {
            "narrative_id": np.tile(np.arange(n), 2),
            "kind": np.repeat(list(ratings), n),
            "status": "rated",
            "intensity": np.round(drawn * steps / 100) * 100 / steps if steps else drawn,
        }
    )
    [row] = manipulation_rows(answers, length=100, least_response=0.01, confidence=0.95, power=0.8)
    return row


def shares(response, sd, n, steps, *, n_datasets, rng):
    """Return the share of each answer, of the earlier rule's failures, and of what is decided by asking on."""
    rows = [checked(response, sd, n, rng, steps) for _ in range(n_datasets)]
    found = {answer: np.mean([row["answer"] == answer for row in rows]) for answer in ANSWERS}
    open_ = [row for row in rows if row["answer"] == "not_shown" and row["n_needed"] <= MOST]
    again = [checked(response, sd, int(row["n_needed"]), rng, steps)["answer"] != "not_shown" for row in open_[:100]]
    needed = np.median([row["n_needed"] for row in open_]) if open_ else np.nan
    return {
        **found,
        "earlier": np.mean([not row["ci_low"] > 0 for row in rows]),
        "needed": needed,
        "decided": np.mean(again) if again else np.nan,
    }


def main(n_datasets=1000):
    """Print the table."""
    rng = np.random.default_rng(SEED)
    head = ("response, SD of a rating, narratives, steps of the scale", "follows", "does not follow", "not shown")
    print(f"| {' | '.join((*head, 'no verdict by the earlier rule', 'narratives asked for', 'decided by these'))} |")
    print("|---|---|---|---|---|---|---|")
    for response, sd, n, steps in ROWS:
        found = shares(response, sd, n, steps, n_datasets=n_datasets, rng=rng)
        told = " | ".join(f"{found[answer]:.1%}" for answer in (*ANSWERS, "earlier"))
        asked = "– | –" if np.isnan(found["decided"]) else f"{found['needed']:,.0f} | {found['decided']:.0%}"
        print(f"| {response:g}, {sd:g}, {n:,}, {steps or 'any'} | {told} | {asked} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
