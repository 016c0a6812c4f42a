"""Time the published null interval, vectorised against a plain Python loop over the same shuffles.

Run as ``python benchmarks/permutation.py`` where the project is installed (or with ``PYTHONPATH=.``). Both sides
shuffle the rows and the columns of a matrix of standardised cells and take the difference of in-group and out-group
means; the vectorised one takes the 2.5 and 97.5 percentiles as well, and at K = 5 it lists the 120 shuffles that can
differ in place of drawing. The loop runs fewer shuffles, and its time is
scaled up to theirs.
"""

import random
import time

import numpy as np

from audit.statistics.published import exact_null, permutation_null, standardise_cells

N_PERMUTATIONS = 10_000
N_LOOPED = 1_000
N_REPEATS = 7
DESIGNS = {
    "religion, K = 5": [1] * 5,
    "ethnicity, K = 18 (4 groups)": [5, 4, 3, 6],
    "nationality, K = 21": [1] * 21,
}


def loop_null(z, in_group, draws):
    """Shuffle and average one draw at a time, on lists."""
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


def vectorised_null(z, in_group, rng):
    """List the shuffles that can differ or draw them all at once, as the package does; take the percentiles."""
    null = exact_null(z, in_group, at_most=N_PERMUTATIONS)
    if null is None:
        null = permutation_null(z, in_group, rng=rng, n_permutations=N_PERMUTATIONS)
    return np.percentile(null, [2.5, 97.5])


def fastest(function, *arguments):
    """Return the least of the repeats, in seconds: what the machine can do when nothing else disturbs it."""
    times = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    print(
        f"time of {N_PERMUTATIONS:,} shuffles, the fastest of {N_REPEATS} repeats; "
        f"the loop ran {N_LOOPED:,} of them and its time is scaled by {N_PERMUTATIONS / N_LOOPED:g}"
    )
    print(f"{'design':<30}{'loop, ms':>12}{'vectorised, ms':>16}{'ratio':>8}")
    for name, sizes in DESIGNS.items():
        groups = np.repeat(np.arange(len(sizes)), sizes)
        in_group = groups[:, None] == groups
        z = standardise_cells(np.random.default_rng(0).normal(50, 10, size=in_group.shape).round(2))
        vectorised = fastest(vectorised_null, z, in_group, np.random.default_rng(1))
        looped = fastest(loop_null, z.tolist(), in_group.tolist(), random.Random(1))
        loop = looped * N_PERMUTATIONS / N_LOOPED
        print(f"{name:<30}{loop * 1e3:>12.1f}{vectorised * 1e3:>16.2f}{loop / vectorised:>8.0f}")


if __name__ == "__main__":
    main()
