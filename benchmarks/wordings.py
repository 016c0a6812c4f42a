"""Count how often the interval for any such wordings holds the true gap, and print the table as Markdown.

Run as ``python benchmarks/wordings.py [n_datasets]`` where the project is installed (or with ``PYTHONPATH=.``); 4,000
data sets of each cell if not told otherwise. d_iv = a_i + b_v + e_iv, with narratives' gaps of SD 1 and a rest of SD 2
about a true gap of 0. Beside the crossed interval stand those that take one of the two for given: of the narratives'
means over wordings, and of the wordings' means over narratives. The last rows have wordings from a t distribution with
four degrees of freedom, of the same SD. The exit code is 1 if a crossed interval covers in less than 93% or in more
than 97% by more than chance allows.
"""

import sys

import numpy as np
from scipy import special

from audit.statistics.crossed import crossed_gap

N_DATASETS = 4_000
SEED = 20_252
NARRATIVES, REST = 1.0, 2.0
SDS = (0.0, 0.5, 1.0)
DESIGNS = [(n, v) for n in (24, 100, 408) for v in (4, 8, 16)]
HEAVY = [(24, 8), (100, 8)]
CLAIMED = 0.93, 0.97


def draw(n, v, sd, rng, *, heavy=False):
    """Draw the gaps of n narratives in v wordings, shape (n, v), about a true gap of 0."""
    wordings = rng.standard_t(4, v) / 2**0.5 if heavy else rng.standard_normal(v)
    return NARRATIVES * rng.standard_normal((n, 1)) + sd * wordings + REST * rng.standard_normal((n, v))


def holds(means):
    """Tell whether the t interval of a sample's mean holds 0."""
    half = special.stdtrit(means.size - 1, 0.975) * means.std(ddof=1) / means.size**0.5
    return abs(means.mean()) <= half


def coverage(n, v, sd, n_datasets, rng, *, heavy=False):
    """Return the coverage of the intervals: narratives alone, wordings alone, crossed."""
    found = np.zeros(3)
    for _ in range(n_datasets):
        gaps = draw(n, v, sd, rng, heavy=heavy)
        made = crossed_gap(gaps, confidence=0.95, n_answers=gaps.size).estimate
        found += holds(gaps.mean(axis=1)), holds(gaps.mean(axis=0)), made.ci_low <= 0 <= made.ci_high
    return found / n_datasets


def main(n_datasets):
    """Print the table, and return whether all crossed intervals cover as they claim."""
    rng = np.random.default_rng(SEED)
    margin = 3 * (0.05 * 0.95 / n_datasets) ** 0.5
    good = True
    print("| N, V | SD of wordings | narratives alone | wordings alone | crossed |\n|---|---|---|---|---|")
    for design, heavy in [*((each, False) for each in DESIGNS), *((each, True) for each in HEAVY)]:
        found = np.array([coverage(*design, sd, n_datasets, rng, heavy=heavy) for sd in SDS])
        good &= bool(((found[:, 2] > CLAIMED[0] - margin) & (found[:, 2] < CLAIMED[1] + margin)).all())
        shares = [" / ".join(f"{100 * share:.1f}" for share in column) for column in found.T]
        name = f"{design[0]}, {design[1]}" + (", t₄" if heavy else "")
        print(f"| {name} | {' / '.join(f'{sd:g}' for sd in SDS)} | {' | '.join(shares)} |", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else N_DATASETS) else 1)
