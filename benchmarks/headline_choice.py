"""Compare three estimators of δ where ratings are missing, on data whose truth is known, and print a table as Markdown.

Run as ``python benchmarks/headline_choice.py [n_datasets] [narratives]`` where the project is installed (or with
``PYTHONPATH=.``): each narrative's own gap, pooled (the headline); the mixed model with narrative × perceiver and
narrative × experiencer effects (statsmodels); and least squares beside narratives' levels, errors clustered (CR2). The
mixed model has no small-sample interval in statsmodels: its interval is read with as many degrees of freedom as there
are narratives less one.
"""

import sys
import warnings

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats

from audit.statistics.cells import NarrativeCube
from audit.statistics.headline import headline_gap
from audit.statistics.mixed import fit_mixed
from audit.statistics.sensitivity import weighted_gap

K, DELTA, SLOPE, INTERACTION, NOISE = 5, 1.5, 1.5, 8.0, 8.0
SEED = 20_251
OWN = np.eye(K, dtype=bool)
MISSING = {"none": 0.0, "one rating": 1 / 25, "20% at random": 0.2, "40% at random": 0.4}


def draw(n, how, rng):
    """Draw ratings, shape (n, K, K), of groups of one term."""
    y = 50 + rng.normal(0, 6, (n, 1, 1)) + OWN * rng.normal(DELTA, SLOPE, (n, 1, 1)) + rng.normal(0, NOISE, (n, K, K))
    y += rng.normal(0, INTERACTION, (n, K, 1)) + rng.normal(0, INTERACTION, (n, 1, K))
    y += rng.normal(0, 4, (1, K, 1)) + rng.normal(0, 4, (1, 1, K))
    if how == "one rating":
        y[0, 0, 0] = np.nan
    else:
        y[rng.random(y.shape) < MISSING[how]] = np.nan
    return y


def long(y):
    """Return the ratings that there are, one a row."""
    n, p, e = (axis.ravel() for axis in np.indices(y.shape))
    own = OWN[p, e].astype(float)
    return pd.DataFrame({"y": y.ravel(), "n": n, "p": p, "e": e, "own": own}).dropna()


def cube_of(y):
    """Lay the ratings out as the statistics read them."""
    table = long(y)
    terms = np.array([f"term {k}" for k in range(K)])
    ratings = pd.DataFrame(
        {
            "prompt_index": np.arange(len(table)), "dimension": "religion", "variant": "origin",
            "narrative_id": table["n"].astype(str).to_numpy(), "emotion": "sadness",
            "perceiver": terms[table["p"]], "experiencer": terms[table["e"]],
            "perceiver_group": terms[table["p"]], "experiencer_group": terms[table["e"]],
            "in_group": table["own"].to_numpy() == 1, "n_shared": table["own"].astype(int).to_numpy(),
            "status": "rated", "intensity": table["y"].to_numpy(), "number_mass": np.nan, "mode": np.nan,
        }
    )  # fmt: skip
    return NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin")


def full_model(y):
    """δ and its standard error by the mixed model with both interactions; None where it did not converge."""
    variances = {"own": "0 + own", "np": "0 + C(p)", "ne": "0 + C(e)"}
    model = smf.mixedlm("y ~ own + C(p) + C(e)", long(y), groups="n", re_formula="1", vc_formula=variances)
    fit = model.fit(method=["lbfgs"], maxiter=300)
    return (fit.params["own"], fit.bse["own"]) if fit.converged and np.isfinite(fit.bse["own"]) else None


def main(n_datasets=200, n=12):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(SEED)
    rows = []
    for how in MISSING:
        for _ in range(n_datasets):
            y = draw(n, how, rng)
            cube = cube_of(y)
            for name, found in (
                ("each narrative's own gap", headline_gap(cube, confidence=0.95)),
                ("clustered least squares (CR2)", weighted_gap(cube, np.ones((1, 1, 1)), confidence=0.95)),
                ("mixed, without interactions", fit_mixed(cube).estimate(confidence=0.95)),
            ):
                rows.append((how, name, found.ci_low < DELTA < found.ci_high, found.se, found.delta - DELTA))
            if (fitted := full_model(y)) is not None:
                delta, se = fitted
                covered = abs(delta - DELTA) < se * stats.t.ppf(0.975, n - 1)
                rows.append((how, "mixed, with both interactions", covered, se, delta - DELTA))
    table = pd.DataFrame(rows, columns=["missing", "estimator", "covered", "se", "error"])
    print(f"{n_datasets} data sets a row, N = {n}, K = {K}, interactions SD {INTERACTION:g}")
    print("\n| missing | estimator | coverage, % | mean SE | SD of the error | data sets |\n|---|---|---|---|---|---|")
    for (how, name), part in table.groupby(["missing", "estimator"], sort=False):
        numbers = (
            f"{100 * part['covered'].mean():.1f} | {part['se'].mean():.2f} | {part['error'].std():.2f} | {len(part)}"
        )
        print(f"| {how} | {name} | {numbers} |")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
