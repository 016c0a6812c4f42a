"""Write the small ratings tables that lme4.R fits: ``python tests/reference/make_ratings.py [FOLDER]``.

One CSV a scenario, with columns narrative, perceiver, experiencer, in_group, rating; a missing rating is an absent row.
A term is a letter, its group, and a number: ``b2`` is the second term of group b. Ratings follow
y = mu + delta g + a_p + b_e + u_i + v_i g + noise, with u and v correlated. The seeds of boundary, boundary_missing,
intercept_zero and crossed_boundary were chosen so that the REML estimate lies on the boundary.
"""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MEAN, DELTA, CORRELATION = 50.0, 1.5, 0.4


@dataclass(frozen=True)
class Scenario:
    """How one table is drawn; SDs and the gap in scale points."""

    seed: int
    group_sizes: tuple[int, ...]
    n_narratives: int
    intercept_sd: float = 8.0
    slope_sd: float = 4.0
    perceiver_sd: float = 3.0
    experiencer_sd: float = 3.0
    residual_sd: float = 5.0
    missing: Callable[..., np.ndarray] | None = None


def at_random(rate: float) -> Callable[..., np.ndarray]:
    """Every rating is missing with the same probability."""
    return lambda rng, in_group, slopes: rng.random((len(slopes), *in_group.shape)) < rate


def by_slope(rng: np.random.Generator, in_group: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Out-group ratings are missing more often where the narrative's gap is low."""
    out_group_rate = 0.36 / (1 + np.exp(slopes / 2))
    rate = np.where(in_group, 0.05, out_group_rate[:, None, None])
    return rng.random(rate.shape) < rate


def uneven(rng: np.random.Generator, in_group: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """A fifth at random; narratives 0-5 keep one to three ratings, 6-10 no in-group one, 11 and 12 no out-group one."""
    missing = rng.random((len(slopes), *in_group.shape)) < 0.2
    missing[:6] = True
    for narrative, n_kept in enumerate([1, 1, 2, 2, 3, 3]):
        missing[narrative].flat[rng.choice(in_group.size, n_kept, replace=False)] = False
    missing[6:11] |= in_group
    missing[11:13] |= ~in_group
    return missing


SCENARIOS = {
    "complete": Scenario(seed=7, group_sizes=(1,) * 4, n_narratives=60),
    "missing": Scenario(seed=2, group_sizes=(1,) * 5, n_narratives=60, missing=by_slope),
    "missing_uneven": Scenario(seed=3, group_sizes=(1,) * 5, n_narratives=60, missing=uneven),
    "unequal_groups": Scenario(seed=4, group_sizes=(3, 2, 1, 1), n_narratives=40),
    "unequal_missing": Scenario(seed=6, group_sizes=(3, 2, 1, 1), n_narratives=40, missing=at_random(0.1)),
    "boundary": Scenario(seed=5, group_sizes=(1,) * 4, n_narratives=60, slope_sd=0),
    "boundary_missing": Scenario(seed=1, group_sizes=(1,) * 4, n_narratives=60, slope_sd=0, missing=at_random(0.1)),
    "intercept_zero": Scenario(seed=12, group_sizes=(1,) * 4, n_narratives=60, intercept_sd=0, slope_sd=0),
    "crossed": Scenario(seed=9, group_sizes=(1,) * 8, n_narratives=45, missing=at_random(0.12)),
    "crossed_boundary": Scenario(
        seed=10, group_sizes=(1,) * 6, n_narratives=45, perceiver_sd=0, missing=at_random(0.12)
    ),
}


def draw(scenario: Scenario) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Draw the terms, their K x K in-group mask and the ratings, N x K x K with NaN where missing."""
    rng = np.random.default_rng(scenario.seed)
    terms = [f"{chr(97 + group)}{n + 1}" for group, size in enumerate(scenario.group_sizes) for n in range(size)]
    in_group = np.array([[p[0] == e[0] for e in terms] for p in terms])
    standard = rng.standard_normal((2, scenario.n_narratives))
    intercepts = scenario.intercept_sd * standard[0]
    slopes = scenario.slope_sd * (CORRELATION * standard[0] + np.sqrt(1 - CORRELATION**2) * standard[1])
    perceivers = scenario.perceiver_sd * rng.standard_normal(len(terms))
    experiencers = scenario.experiencer_sd * rng.standard_normal(len(terms))
    ratings = MEAN + perceivers[:, None] + experiencers + intercepts[:, None, None]
    ratings = ratings + (DELTA + slopes)[:, None, None] * in_group
    ratings = ratings + scenario.residual_sd * rng.standard_normal(ratings.shape)
    if scenario.missing is not None:
        ratings[scenario.missing(rng, in_group, slopes)] = np.nan
    return terms, in_group, ratings


def write(path: Path, scenario: Scenario) -> None:
    """Write the ratings that are there, to 6 decimals."""
    terms, in_group, ratings = draw(scenario)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["narrative", "perceiver", "experiencer", "in_group", "rating"])
        for narrative, p, e in np.argwhere(~np.isnan(ratings)):
            rows.writerow([narrative, terms[p], terms[e], int(in_group[p, e]), f"{ratings[narrative, p, e]:.6f}"])


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, scenario in SCENARIOS.items():
        write(folder / f"{name}.csv", scenario)
