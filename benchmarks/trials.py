"""Which way to elicit ratings the trials of ``elicitation=auto`` choose, where the response of each is known.

    python benchmarks/trials.py [DATA_SETS]

A response is in standard deviations of the difference between narratives (own minus wrong emotion), for the four ways
in order; differences of one narrative are correlated by 0.5 over the ways. Printed as Markdown: the share of data sets
in which each way is chosen.
"""

import sys

import numpy as np
import pandas as pd

RESPONSES = ((0, 0, 0, 0), (0.3, 0.3, 0.3, 0.3), (2, 2, 2, 2), (0, 1, 0, 1), (0.3, 0.3, 0.3, 1), (0.3, 1, 0.3, 2))
SHARED = 0.5  # of the variance


def chosen(responses, rng):
    """Return the place of the way that is chosen in one data set."""
    from audit.statistics.manipulation import best_way, way_row
    from audit.tasks.intensity.trials import N_NARRATIVES

    shared = rng.normal(size=N_NARRATIVES) * SHARED**0.5
    rows = []
    for response in responses:
        differences = response + shared + rng.normal(size=N_NARRATIVES) * (1 - SHARED) ** 0.5
        kinds = {"own": 50 + differences, "wrong": np.full(N_NARRATIVES, 50.0)}
        answers = pd.concat(
            pd.DataFrame({"narrative_id": np.arange(N_NARRATIVES).astype(str), "kind": kind, "intensity": ratings})
            for kind, ratings in kinds.items()
        ).assign(status="rated", number_mass=np.nan)
        rows.append(way_row(answers, n_asked=N_NARRATIVES, min_number_mass=0))
    return best_way(rows)


def main(n=2000):
    """Print the table."""
    print(
        "| response of each way, in SDs | "
        + " | ".join(f"way {place}" for place in (1, 2, 3, 4))
        + " |\n|---|"
        + "---|" * 4
    )
    for responses in RESPONSES:
        rng = np.random.default_rng(0)
        found = np.bincount([chosen(responses, rng) for _ in range(n)], minlength=4) / n
        print(f"| {', '.join(map(str, responses))} | " + " | ".join(f"{share:.0%}" for share in found) + " |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
