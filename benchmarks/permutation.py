"""Time the two permutation tests, vectorised against loops that make one permutation at a time.

Run as ``python benchmarks/permutation.py`` where the project is installed (or with ``PYTHONPATH=.``).

- The published null interval: every side shuffles the rows and the columns of a matrix of standardised cells and takes
  the difference of in-group and out-group means: one loop on lists, cell by cell, and one that lets numpy shuffle and
  average each matrix. The vectorised one takes the 2.5 and 97.5 percentiles as well, and at K = 5 it lists the 120
  shuffles that can differ in place of drawing.
- The sign flips of the headline's p: every side flips the sign of each narrative's contrast and sums them: one loop on
  lists, and one that draws and sums a vector of signs by numpy.

The loops run fewer permutations, and their times are scaled up to theirs. Times are the processor's, so that what else
runs on the machine counts for little.
"""

import random
import time
from functools import partial

import numpy as np

from audit.statistics.contrasts import sign_flip_p
from audit.statistics.published import exact_null, permutation_null, standardise_cells

N_PERMUTATIONS = 10_000
N_LOOPED = 200
N_REPEATS = 7
DESIGNS = {
    "religion, K = 5": [1] * 5,
    "ethnicity, K = 18 (4 groups)": [5, 4, 3, 6],
    "nationality, K = 21": [1] * 21,
}
NARRATIVES = [50, 408, 6_050]


def list_null(z, in_group, draws):
    """Shuffle and average on lists."""
    size = len(z)
    rows, columns = list(range(size)), list(range(size))
    null = []
    for _ in range(N_LOOPED):
        draws.shuffle(rows)
        draws.shuffle(columns)
        in_sum = out_sum = 0.0
        n_in = n_out = 0
        for row, members in zip(rows, in_group, strict=True):
            cells = z[row]
            for column, member in zip(columns, members, strict=True):
                if member:
                    in_sum += cells[column]
                    n_in += 1
                else:
                    out_sum += cells[column]
                    n_out += 1
        null.append(in_sum / n_in - out_sum / n_out)
    return null


def numpy_null(z, in_group, rng):
    """Shuffle and average by numpy."""
    null = []
    for _ in range(N_LOOPED):
        shuffled = z[rng.permutation(len(z))][:, rng.permutation(len(z))]
        null.append(shuffled[in_group].mean() - shuffled[~in_group].mean())
    return null


def vectorised_null(z, in_group, rng):
    """List the shuffles that can differ or draw them all at once, as the package does; take the percentiles."""
    null = exact_null(z, in_group, at_most=N_PERMUTATIONS)
    if null is None:
        null = permutation_null(z, in_group, rng=rng, n_permutations=N_PERMUTATIONS)
    return np.percentile(null, [2.5, 97.5])


def list_flips(contrasts, draws):
    """Flip and sum on lists."""
    observed = abs(sum(contrasts))
    reached = 0
    for _ in range(N_LOOPED):
        total = 0.0
        for contrast in contrasts:
            total += contrast if draws.random() < 0.5 else -contrast
        reached += abs(total) >= observed
    return reached


def numpy_flips(contrasts, rng):
    """Flip and sum by numpy."""
    observed = abs(contrasts.sum())
    return sum(
        abs((contrasts * rng.choice([-1.0, 1.0], size=len(contrasts))).sum()) >= observed for _ in range(N_LOOPED)
    )


def seconds(function, *arguments):
    """Return the processor time of one call."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def compare(name, on_lists, by_numpy, vectorised):
    """Print the least processor times of the three, in turns, and the ratios."""
    scale = N_PERMUTATIONS / N_LOOPED
    times = [
        (
            seconds(on_lists) * scale,
            seconds(by_numpy) * scale,
            min(seconds(vectorised) for _ in range(N_REPEATS)),
        )
        for _ in range(N_REPEATS)
    ]
    least_lists, least_numpy, least = map(min, zip(*times, strict=True))
    ratios = f"{least_lists / least:.0f}, {least_numpy / least:.0f}"
    print(f"{name:<42}{least_lists * 1e3:>12.1f}{least_numpy * 1e3:>12.1f}{least * 1e3:>16.2f}{ratios:>12}")


def main():
    print(
        f"processor time of {N_PERMUTATIONS:,} permutations, the least of {N_REPEATS} repeats; the loops ran "
        f"{N_LOOPED:,} of them and their times are scaled by {N_PERMUTATIONS / N_LOOPED:g}"
    )
    print(f"{'design':<42}{'lists, ms':>12}{'numpy, ms':>12}{'vectorised, ms':>16}{'ratios':>12}")
    for name, sizes in DESIGNS.items():
        groups = np.repeat(np.arange(len(sizes)), sizes)
        in_group = groups[:, None] == groups
        z = standardise_cells(np.random.default_rng(0).normal(50, 10, size=in_group.shape).round(2))
        rng = np.random.default_rng(1)
        compare(
            f"published null, {name}",
            partial(list_null, z.tolist(), in_group.tolist(), random.Random(1)),
            partial(numpy_null, z, in_group, rng),
            partial(vectorised_null, z, in_group, rng),
        )
    for n in NARRATIVES:
        contrasts = np.random.default_rng(0).normal(0.1, 1, size=n)
        rng = np.random.default_rng(1)
        compare(
            f"sign flips, {n:,} narratives",
            partial(list_flips, contrasts.tolist(), random.Random(1)),
            partial(numpy_flips, contrasts, rng),
            partial(sign_flip_p, contrasts, rng=rng, n_permutations=N_PERMUTATIONS),
        )


if __name__ == "__main__":
    main()
