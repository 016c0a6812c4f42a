"""Time and measure the report: from a run folder's Parquet to its tables, figures and page.

Run as ``python benchmarks/report.py`` where the project is installed (or with ``PYTHONPATH=.``). Each size is a run of
random ratings, complete and with 5% refused. It is rendered again by ``python -m audit report RUN_DIR`` in a process of
its own, whose wall time and peak memory are taken.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

SIZES = [(408, 5), (6_050, 21)]
EMOTIONS = 12


def write_ratings(folder, n, k, *, refused):
    """Write n narratives times k perceivers times k experiencers as another tool would, and their groups."""
    rng = np.random.default_rng(n + k)
    y = 55 + 4 * rng.normal(size=(1, k, 1)) + 4 * rng.normal(size=(1, 1, k)) + 10 * rng.normal(size=(n, 1, 1))
    y = np.clip(np.round(y + np.eye(k) + 8 * rng.normal(size=(n, k, k)), 1), 0, 100)
    y[rng.random(y.shape) < refused] = np.nan
    narrative, perceiver, experiencer = (places.ravel() for places in np.indices(y.shape))
    terms = [f"a person from C{place}" for place in range(k)]
    missing = np.isnan(y).ravel()
    pd.DataFrame(
        {
            "perceiver": pd.Categorical.from_codes(perceiver, terms),
            "experiencer": pd.Categorical.from_codes(experiencer, terms),
            "narrative_id": pd.Categorical.from_codes(narrative, [f"t{place}" for place in range(n)]),
            "emotion": pd.Categorical.from_codes(narrative % EMOTIONS, [f"emotion {e}" for e in range(EMOTIONS)]),
            "rating": y.ravel(),
            "status": pd.Categorical.from_codes(missing.astype(int), ["rated", "refused"]),
        }
    ).to_parquet(folder / "ratings.parquet")
    pd.DataFrame({"term": terms, "group": [f"C{place}" for place in range(k)]}).to_csv(
        folder / "groups.csv", index=False
    )


def measure(*arguments):
    """Run a command of the audit; return its seconds and its peak memory in GB."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "audit", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, arguments
    return time.perf_counter() - start, usage.ru_maxrss / 1e6


def main():
    print("| narratives | terms | ratings | refused | s | GB | report.html, MB |\n|---|---|---|---|---|---|---|")
    for n, k in SIZES:
        for refused in (0, 0.05):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                write_ratings(folder, n, k, refused=refused)
                run = folder / "run"
                ratings, groups = (
                    f"{name}={folder / name}{end}" for name, end in (("ratings", ".parquet"), ("groups", ".csv"))
                )
                measure("report", ratings, groups, f"run_dir={run}", "low=0", "high=100")
                seconds, peak = measure("report", str(run))
                size = (run / "report.html").stat().st_size / 1e6
                print(
                    f"| {n:,} | {k} | {n * k * k:,} | {refused:.0%} | {seconds:.1f} | {peak:.2f} | {size:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
