"""Count how often each estimate of δ errs, on data whose truth is known, and print the tables as Markdown.

Run as ``python benchmarks/calibration.py [n_datasets] [workers] [published-scale]`` where the project is installed (or
with ``PYTHONPATH=.``); 1,000 data sets of each row by one worker if not told otherwise. The headline is judged in all
of them, the other estimators in the first tenth: a table says how many. With
``published-scale`` there is one row, of 6,050 narratives. Every row is drawn in batches with seeds of their own, so
that the numbers do not depend on the workers. A batch draws the effects of perceivers and experiencers anew; they have
no part in any estimate but the published one. Shares, bias and standard errors are over the data sets in which an
estimator gives an interval: how many those are stands in brackets where they are not all.

The headline claims a coverage of 93 to 97% and 3 to 7% of false positives in the cases that are marked so. Each is
compared with these bounds, and the exit code is 1 if one lies outside by more than chance allows.

Run as ``python benchmarks/calibration.py RUN_DIR [n_datasets=1000] [delta=POINTS] [seed=0] [out=calibration.csv]`` it
simulates data of that run's own design instead, with its identities, narratives, variances and missing ratings: with no
gap, and with a gap of ``delta`` points (the smallest that the run can detect, unless given).
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from missing_shifts import MissingShifts
from simulated_ratings import CALIBRATION, Truth, calibrate, calibrate_ratings, simulate
from tqdm import tqdm

from audit.configuration.schema import load_statistics
from audit.errors import NotEstimableError, check_margin
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.statistics.cells import NarrativeCube
from audit.statistics.controls import Repetition
from audit.statistics.headline import headline_gap

N_DATASETS = 1_000
N_BATCHES = 20
DELTA = 1.0
SEED = 20_250
HEADLINE = [("contrast", "narratives")]
OTHERS = [("mixed", "narratives"), ("listwise", "narratives"), ("headline", "narratives_and_terms"), ("published", "")]
CLAIMED = {"coverage": (0.93, 0.97), "false_positives": (0.03, 0.07)}
FIVE, MANY, UNEQUAL = [1] * 5, [1] * 21, [5, 4, 3, 6]
SLOPES = {"slope_variance": 1.5**2}


def cases(sizes, n, missing, *, interactions=0.0, claimed=True, **fields):
    """Lay out one row for each way that ratings are missing: name, terms of groups, narratives, truth, claimed."""
    spread = f"interactions SD {interactions:g}, " if interactions else ""
    extra = dict.fromkeys(("perceiver_interaction_variance", "experiencer_interaction_variance"), interactions**2)
    return [(spread + name, sizes, n, {**SLOPES, **extra, **fields, **how}, claimed) for name, how in missing.items()]


NONE = {"none missing": {}}
ONE = {"one rating missing": {"one_missing": True}}
FIFTH = {"20% missing at random": {"missing": 0.2}}
TWO_FIFTHS = {"40% missing at random": {"missing": 0.4}}
PAIR = {"30% of out-group prompts": {"refused": 0.3}}
LEVEL = {
    "30% of out-group prompts, by the narrative's level (r = .8)": {
        "refused": 0.3,
        "selective": 0.8,
        "selects_on": "level",
    }
}
GAP = {
    f"slopes SD 2, 15% of out-group prompts, by the narrative's gap (r = {r})": {"refused": 0.15, "selective": r}
    for r in (0.4, 0.8)
}
RATING = {
    f"{share:.0%} of out-group ratings, those that would have been high": {
        "refused": share,
        "selective": 1.0,
        "selects_on": "rating",
    }
    for share in (0.09, 0.22)
}
SCENARIOS = [
    *cases(FIVE, 12, NONE | ONE | FIFTH | TWO_FIFTHS | PAIR, interactions=8.0),
    *cases(FIVE, 50, NONE | FIFTH),
    *cases(FIVE, 50, NONE | ONE | FIFTH, interactions=4.0),
    *cases(FIVE, 50, NONE | ONE | FIFTH | TWO_FIFTHS | PAIR | LEVEL, interactions=8.0),
    *cases(FIVE, 408, NONE | ONE | FIFTH | LEVEL, interactions=8.0),
    *cases(FIVE, 50, {"no slopes, none missing": {}}, slope_variance=0.0),
    *cases(FIVE, 50, {"pair effects SD 0.5, none missing": {}}, pair_sd=0.5),
    *cases(MANY, 50, {"group-specific gaps SD 1, none missing": {}}, group_gap_sd=1.0),
    *cases(UNEQUAL, 50, {"main effects SD 4, groups of 5/4/3/6 terms, none missing": {}}, main_sd=4.0),
    *cases(UNEQUAL, 50, {"main effects SD 4, groups of 5/4/3/6 terms, 20% at random": {"missing": 0.2}}, main_sd=4.0),
    *cases(FIVE, 50, GAP, claimed=False, slope_variance=4.0),
    *cases(FIVE, 408, GAP, claimed=False, slope_variance=4.0),
    *cases(FIVE, 50, RATING, claimed=False),
    *cases(FIVE, 408, RATING, claimed=False),
]
PUBLISHED_SCALE = cases(FIVE, 6050, ONE | PAIR, interactions=8.0)


def design_of(n, sizes, *, one_missing=False):
    """Lay out n narratives and groups of these numbers of terms; all prompts are asked, or all but one."""
    groups = tuple(f"group {group}" for group, size in enumerate(sizes) for _ in range(size))
    terms = tuple(f"term {term}" for term in range(len(groups)))
    in_group = np.equal.outer(groups, groups)
    shape = n, len(terms), len(terms)
    nothing, status = np.full(shape, np.nan), np.zeros(shape, dtype=np.int8)
    if one_missing:
        status[0, 0, -1] = -1
    return NarrativeCube(
        dimension="simulated",
        variant="simulated",
        y=nothing,
        status=status,
        number_mass=nothing,
        mode=nothing,
        n_shared=in_group.astype(np.int64),
        in_group=in_group,
        asked=np.ones(shape[1:], dtype=np.bool_),
        baseline_perceiver=np.zeros(len(terms), dtype=np.bool_),
        baseline_experiencer=np.zeros(len(terms), dtype=np.bool_),
        narrative_ids=tuple(range(n)),
        emotions=("",) * n,
        perceivers=terms,
        experiencers=terms,
        perceiver_groups=groups,
        experiencer_groups=groups,
    )


def truth_of_batch(cube, rng, *, main_sd=0.0, missing=0.0, refused=0.0, one_missing=False, **fields):
    """Draw the effects of perceivers and experiencers; lose a share of all prompts, and of out-group prompts."""
    n_terms = len(cube.perceivers)
    ordinary = {"pair_sd": 0.0, "group_gap_sd": 0.0, "slope_variance": 0.0, "covariance": 0.0, "selective": 0.0}
    return Truth(
        level=50.0,
        perceiver_effects=main_sd * rng.standard_normal(n_terms),
        experiencer_effects=main_sd * rng.standard_normal(n_terms),
        intercept_variance=36.0,
        residual_variance=64.0,
        missing_rates=np.where(cube.in_group, missing, missing + refused),
        **ordinary | fields,
    )


def run_batch(job):
    """Calibrate one batch of one scenario."""
    place, batch, n_datasets = job
    name, sizes, n, fields, claimed = (*SCENARIOS, *PUBLISHED_SCALE)[place]
    cube = design_of(n, sizes, one_missing=fields.get("one_missing", False))
    start = time.process_time()
    tables = []
    for estimators, size in ((HEADLINE, n_datasets), (OTHERS, max(1, n_datasets // 10))):
        rng = np.random.default_rng([SEED, place, batch])
        truth = truth_of_batch(cube, rng, **fields)
        tables.append(calibrate(cube, truth, deltas=(0.0, DELTA), n_datasets=size, rng=rng, estimators=estimators))
    grid = (
        at_shifts(cube, truth, n_datasets, rng=np.random.default_rng([SEED, place, batch, 1])) if sees(fields) else []
    )
    row = {
        "place": place,
        "batch": batch,
        "data": name,
        "N": n,
        "K": sum(sizes),
        "claimed": claimed,
        "seconds": time.process_time() - start,
    }
    return pd.concat(tables, ignore_index=True).assign(**row), [(place, *each) for each in grid]


def sees(fields):
    """Say whether a scenario selects on the rating itself."""
    return fields.get("selects_on") == "rating"


def at_shifts(cube, truth, n_datasets, *, rng):
    """Draw data sets; of each the headline's error, how much a point of shift moves it, and what shifts need."""
    found = []
    for child in rng.spawn(n_datasets):
        drawn, target = simulate(truth, cube, delta=0.0, rng=child)
        try:
            shifts = MissingShifts.of(drawn, headline_gap(drawn, confidence=0.95))
        except NotEstimableError:
            continue
        found.append((target, shifts))
    return found


def shift_lines(grids):
    """Yield a row for each scenario of selection on the rating: coverage at no shift, and at the true one.

    The true shift is by how much the refused ratings exceed what the others let one expect, on average: estimated in
    the first half of the data sets, and judged in the second.
    """
    yield "| data (N, K) | true shift, points | coverage at no shift, % | coverage at the true shift, % |"
    yield "|---|---|---|---|"
    for place in dict.fromkeys(place for place, *_ in grids):
        name, sizes, n, *_ = SCENARIOS[place]
        own = [(target, shifts) for each, target, shifts in grids if each == place]
        first, second = own[: len(own) // 2], own[len(own) // 2 :]
        errors = sum(target - shifts.delta for target, shifts in first)
        shift = errors / sum(shifts.moved[:, 1].mean() for _, shifts in first)
        covered = []
        for points in (0.0, shift):
            rows = [(target, shifts.at(0.0, points, confidence=0.95)) for target, shifts in second]
            covered.append(np.mean([row["ci_low"] <= target <= row["ci_high"] for target, row in rows]))
        yield f"| {name} ({n:,}, {sum(sizes)}) | {shift:+.1f} | {percent(covered[0])} | {percent(covered[1])} |"


def pool_batches(tables):
    """Average the batches' shares, each weighed by the data sets that were estimable in it."""
    shares = ["bias", "mean_se", "false_positives", "false_positives_others", "coverage", "power"]
    by = ["place", "data", "N", "K", "claimed", "delta", "estimator"]
    tables[shares] = tables[shares].mul(tables["n_estimable"], axis=0)
    pooled = tables.groupby(by, sort=False)[["n_datasets", "n_estimable", "n_converged", *shares]].sum(min_count=1)
    pooled[shares] = pooled[shares].div(pooled["n_estimable"].where(pooled["n_estimable"] > 0), axis=0)
    return pooled.reset_index()


COLUMNS = [
    ("false positives", "contrast", "false_positives", 0.0),
    ("coverage", "contrast", "coverage", 0.0),
    ("power", "contrast", "power", DELTA),
    ("mean SE", "contrast", "mean_se", 0.0),
    ("bias", "contrast", "bias", 0.0),
    ("mixed: coverage", "mixed", "coverage", 0.0),
    ("mixed: power", "mixed", "power", DELTA),
    ("listwise: coverage", "listwise", "coverage", 0.0),
    ("any such: false positives", "headline", "false_positives_others", 0.0),
    ("published: false positives", "published", "false_positives_others", 0.0),
]
"""Of a table's columns: head, estimator, number, and the true gap at which it is counted."""


def markdown(pooled):
    """Lay out one row a scenario; a dash where there is no number, and of how many data sets if not of all."""
    yield "| data (N, K) | " + " | ".join(head for head, *_ in COLUMNS) + " | n |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for (_, name, n, k), own in pooled.groupby(["place", "data", "N", "K"], sort=True):
        rows = own.set_index(["estimator", "delta"])
        cells = []
        for _, estimator, value, delta in COLUMNS:
            row = rows.loc[(estimator, delta)]
            form = signed if value == "bias" else "{:.3f}".format if value == "mean_se" else percent
            number = "–" if pd.isna(row[value]) else form(row[value])
            whole = row["n_estimable"] in (0, row["n_datasets"])
            cells.append(number if whole else f"{number} [{row['n_estimable']:.0f}]")
        counts = [rows.loc[(estimator, 0.0), "n_datasets"] for estimator in ("contrast", "mixed")]
        yield f"| {name} ({n:,}, {k}) | " + " | ".join(cells) + f" | {counts[0]:,.0f}, {counts[1]:,.0f} |"


def outside(pooled):
    """Yield what of the headline lies outside its claimed bounds, and whether chance could have put it there."""
    claimed = pooled.loc[pooled["claimed"] & (pooled["estimator"] == "contrast") & (pooled["delta"] == 0.0)]
    for row in claimed.to_dict("records"):
        for name, (low, high) in CLAIMED.items():
            error = (0.05 * 0.95 / row["n_estimable"]) ** 0.5
            beyond = max(low - row[name], row[name] - high)
            if beyond > 0:
                yield f"{row['data']} ({row['N']:,}, {row['K']}): {name} {percent(row[name])}%", beyond > 2 * error


def percent(share):
    return f"{100 * share:.1f}"


def signed(points, decimals=2):
    return f"{round(points, decimals) + 0.0:+.{decimals}f}".replace("-", "−")  # + 0.0: no −0.00


def calibrate_run(path, *, n_datasets=N_DATASETS, delta=None, seed=0, out=Path("calibration.csv")):
    """Simulate data of a complete run's own design, print how often its estimators err, and write the table."""
    manifest = Manifest.read(path)
    statistics = load_statistics(manifest.config.recorded)
    check_margin("delta", None if delta is None else abs(delta), low=manifest.scale.low, high=manifest.scale.high)
    ratings = RunFolder(path).ratings_of(manifest)
    with tqdm(unit="data set", smoothing=0.1) as bar:

        def say(done, total):
            bar.total = total
            bar.update(done - bar.n)

        table = calibrate_ratings(
            ratings,
            n_datasets=n_datasets,
            delta=delta,
            seed=seed,
            confidence=statistics.confidence,
            power=statistics.power,
            say=say,
            repetition=Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn),
        )
    out.write_bytes(CALIBRATION.csv(table))
    print(*of_run(table), sep="\n")
    print(f"table: {out}")
    return table


def of_run(table):
    """Lay out a run's calibration as a Markdown table; what has no gap says why."""
    yield "| dimension | variant | true gap | estimator | scope | false positives | coverage | power | bias | n |"
    yield "|---" * 10 + "|"
    for row in table.to_dict("records"):
        if not row["n_datasets"]:
            yield f"| {row['dimension']} | {row['variant']} | {row['note']} |" + " – |" * 7
            continue
        shares = (
            "–" if pd.isna(row[name]) else percent(row[name]) for name in ("false_positives", "coverage", "power")
        )
        bias = "–" if pd.isna(row["bias"]) else signed(row["bias"], 3)
        of_gap = f"{signed(row['delta'])} | {row['estimator']} | {row['scope'] or '–'} | {' | '.join(shares)} | {bias}"
        yield f"| {row['dimension']} | {row['variant']} | {of_gap} | {row['n_estimable']:,.0f} |"


def main():
    if sys.argv[1:] and not sys.argv[1].isdecimal():
        read = {"n_datasets": int, "delta": float, "seed": int, "out": Path}
        given = [word.split("=", 1) for word in sys.argv[2:]]
        calibrate_run(Path(sys.argv[1]), **{name: read[name](value) for name, value in given})
        return 0
    n_datasets = int(sys.argv[1]) if len(sys.argv) > 1 else N_DATASETS
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    large = sys.argv[3:] == ["published-scale"]
    places = range(len(SCENARIOS) + len(PUBLISHED_SCALE))[len(SCENARIOS) :] if large else range(len(SCENARIOS))
    n_batches = min(N_BATCHES, n_datasets)
    sizes = [len(part) for part in np.array_split(range(n_datasets), n_batches)]
    jobs = [(place, batch, size) for place in places for batch, size in enumerate(sizes)]
    tables, grids = [], []
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for table, grid in pool.map(run_batch, jobs):
            tables.append(table)
            grids += grid
            print(f"\r{len(tables)} of {len(jobs)} batches", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return show(tables, grids, n_datasets)


def show(tables, grids, n_datasets):
    """Print the tables; the exit code says whether what is claimed holds."""
    seconds = pd.concat(tables).groupby(["place", "batch"])["seconds"].first().groupby("place").sum()
    pooled = pool_batches(pd.concat(tables, ignore_index=True))
    error = 100 * (0.05 * 0.95 / n_datasets) ** 0.5
    print(
        f"n: data sets in which the headline is judged, and the others. The Monte-Carlo standard error of the headline "
        f"is {error:.1f} points for a share of 5% and {50 / n_datasets**0.5:.1f} for one of 50%. Ratings have a "
        "residual SD of 8, narratives' levels one of 6, their gaps one of 1.5. Shares in %, power at a gap of "
        f"{DELTA:g} point, mean SE and bias in points. In brackets: the data sets with an interval, where not all.\n"
    )
    for claimed, title in (
        (True, "What the headline claims"),
        (False, "What it does not claim, and no estimator holds"),
    ):
        own = pooled.loc[pooled["claimed"] == claimed]
        if len(own):
            print(f"{title}\n")
            print(*markdown(own), sep="\n")
            print()
    if grids:
        print("Ratings refused because they would have been high: the grid of shifts, half of the data sets\n")
        print(*shift_lines(grids), sep="\n")
        print()
    found = list(outside(pooled))
    n_claimed = len(CLAIMED) * int((pooled["claimed"] & (pooled["estimator"] == "contrast")).sum()) // 2
    bounds = "coverage of 93 to 97% and 3 to 7% of false positives"
    print(f"Of {n_claimed} claimed numbers {n_claimed - len(found)} lie within a {bounds}.")
    for line, certain in found:
        print(f"outside: {line}{'' if certain else ', by less than two Monte-Carlo standard errors'}")
    fits = pooled.loc[pooled["delta"] == 0.0, ["n_estimable", "n_converged"]].sum().astype(int)
    unconfirmed = fits["n_estimable"] - fits["n_converged"]
    print(f"Of {fits['n_estimable']:,} estimates, {unconfirmed:,} are of a fit that was not confirmed as the optimum.")
    print(f"processor time {seconds.sum():.0f} s; by row:", seconds.round(1).tolist(), file=sys.stderr)
    return int(any(certain for _, certain in found))


if __name__ == "__main__":
    sys.exit(main())
