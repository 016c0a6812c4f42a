"""Time the exact REML fit against statsmodels' MixedLM and, where R is installed, lme4.

Run as ``python benchmarks/mixed.py [minutes]`` where the project is installed (or with ``PYTHONPATH=.``). Each size is
one table of complete ratings with 5% of them then removed; all three fit a random intercept and in-group slope for each
narrative and fixed effects of perceivers and experiencers, by REML. The others go on to the next size until a fit takes
longer than the given minutes (5). A fit that fails to converge is marked. Needs ``Rscript`` with lme4 for that column.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from calibration import design_of
from statsmodels.regression.mixed_linear_model import MixedLM

from audit.statistics.mixed import fit_mixed

SIZES = [(50, 5), (408, 5), (408, 21), (2_000, 21), (6_050, 21)]
R_SCRIPT = """
suppressMessages(library(lme4))
ratings <- read.csv(commandArgs(TRUE)[1], stringsAsFactors = TRUE)
time <- system.time(fit <- lmer(rating ~ in_group + perceiver + experiencer + (1 + in_group | narrative), ratings))
cat(time[["elapsed"]], fixef(fit)[["in_group"]], sqrt(vcov(fit)["in_group", "in_group"]),
    length(fit@optinfo$conv$lme4), sep = " ")
"""


def draw_ratings(n, k):
    """Draw n narratives and k one-term groups, 5% of the ratings missing, as a cube and as a table."""
    rng = np.random.default_rng(n + k)
    in_group = np.eye(k, dtype=bool)
    y = 50 + 4 * rng.normal(size=(1, k, 1)) + 4 * rng.normal(size=(1, 1, k)) + 6 * rng.normal(size=(n, 1, 1))
    y = y + (1 + 2 * rng.normal(size=(n, 1, 1))) * in_group + 8 * rng.normal(size=(n, k, k))
    y[rng.random(y.shape) < 0.05] = np.nan
    cube = replace(design_of(n, [1] * k), y=y, status=np.isnan(y).astype(np.int8))
    names = np.array(cube.perceivers)
    narrative, perceiver, experiencer = np.nonzero(~np.isnan(y))
    table = pd.DataFrame(
        {
            "narrative": narrative,
            "perceiver": names[perceiver],
            "experiencer": names[experiencer],
            "in_group": (perceiver == experiencer).astype(int),
            "rating": y[narrative, perceiver, experiencer],
        }
    )
    return cube, table


def time_ours(cube):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        fit = fit_mixed(cube)
        times.append(time.perf_counter() - start)
    return min(times), fit.delta, fit.se, "" if fit.converged else "*"


def time_statsmodels(table):
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixedLM.from_formula(
            "rating ~ in_group + C(perceiver) + C(experiencer)", table, groups="narrative", re_formula="~in_group"
        )
        fit = model.fit(reml=True)
    seconds = time.perf_counter() - start
    return seconds, fit.params["in_group"], fit.bse["in_group"], "" if fit.converged else "*"


def time_lme4(table):
    with tempfile.TemporaryDirectory() as folder:
        script, ratings = Path(folder) / "fit.R", Path(folder) / "ratings.csv"
        script.write_text(R_SCRIPT)
        table.to_csv(ratings, index=False)
        done = subprocess.run(["Rscript", script, ratings], capture_output=True, text=True, check=True)
    seconds, delta, se, problems = map(float, done.stdout.split())
    return seconds, delta, se, "*" if problems else ""


def main():
    limit = 60 * (float(sys.argv[1]) if len(sys.argv) > 1 else 5)
    others = {"statsmodels": time_statsmodels}
    if shutil.which("Rscript"):
        others["lme4"] = time_lme4
    print("Seconds a fit (ours: the fastest of 3), and how many times as long as ours; *: did not converge\n")
    names = ", ".join(others)
    print(f"| narratives × identities² | ratings | ours | {' | '.join(others)} | δ: ours less {names} | SE: ratio |")
    print("|---" * (5 + len(others)) + "|")
    for n, k in SIZES:
        cube, table = draw_ratings(n, k)
        seconds, delta, se, mark = time_ours(cube)
        columns, deltas, ratios = [], [], []
        for name, fit in list(others.items()):
            taken, other_delta, other_se, other_mark = fit(table)
            columns.append(f"{taken:.2f} ({taken / seconds:,.0f} ×){other_mark}")
            deltas.append(f"{delta - other_delta:+.0e}")
            ratios.append(f"{se / other_se:.5f}")
            if taken > limit:
                del others[name]
        row = [
            f"{n:,} × {k}²",
            f"{len(table):,}",
            f"{seconds:.3f}{mark}",
            *columns,
            ", ".join(deltas),
            ", ".join(ratios),
        ]
        print("| " + " | ".join(row) + " |", flush=True)
        if not others:
            break


if __name__ == "__main__":
    main()
