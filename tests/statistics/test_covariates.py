"""Oracles: planted slopes, statsmodels' and R's least squares, all permutations one by one, and hand."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from conftest import build_ratings
from cubes import cube_of
from statsmodels.stats.multitest import multipletests

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import ConfigError
from audit.statistics.analysis import analyse
from audit.statistics.covariates import FormulaCovariates, covariate_rows
from audit.statistics.own_model import own_model_table
from audit.tables.gap import COVARIATES
from audit.tables.ratings import NARRATIVE_COVARIATES
from stimuli.covariates import CovariateRow, GroupCovariates

NAN = np.nan
REFERENCE = Path(__file__).parents[1] / "reference"
NAMES = "ABCDEFGHIJKL"


def pairs_of(*matrices, names=NAMES, diagonal=False):
    """Covariates of pairs, x0, x1 and so on, from matrices of perceiver's by experiencer's group."""
    k = len(matrices[0])
    rows = [
        CovariateRow("", "", (names[a], names[b]), tuple(float(x[a, b]) for x in matrices))
        for a in range(k)
        for b in range(k)
        if a != b or diagonal
    ]
    return GroupCovariates(tuple(f"x{i}" for i in range(len(matrices))), tuple(rows), "pairs.csv", "")


def groups_of(*columns, names=NAMES):
    rows = [CovariateRow("", "", (name,), numbers) for name, *numbers in zip(names, *columns, strict=False)]
    return GroupCovariates(tuple(f"x{i}" for i in range(len(columns))), tuple(rows), "groups.csv", "")


def rows_of(cube, covariates, *, seed=1, n_permutations=10_000, confidence=0.95):
    found = list(covariate_rows(cube, covariates, seed=seed, n_permutations=n_permutations, confidence=confidence))
    assert all(list(row) == list(COVARIATES) for row in found)
    return found


def row_of(cube, covariates, *, of="groups", **settings):
    [row] = [row for row in rows_of(cube, covariates, **settings) if row["of"] in (of, "pairs")]
    return row


def random_y(n, k, seed=0, *, noise=3.0, pair_sd=0.0, x=None, slope=0.0):
    """Ratings with effects of narratives, perceivers and experiencers; out-group pairs fall by slope times x."""
    rng = np.random.default_rng(seed)
    y = 50 + rng.normal(0, 5, (n, 1, 1)) + rng.normal(0, 4, (1, k, 1)) + rng.normal(0, 4, (1, 1, k))
    y = y + rng.normal(0, pair_sd, (1, k, k)) + 6 * np.eye(k) + rng.normal(0, noise, (n, k, k))
    return y if x is None else y - slope * x * (1 - np.eye(k))


def symmetric(k, seed=3):
    x = np.random.default_rng(seed).uniform(0, 10, (k, k))
    return (x + x.T) / 2


def off_diagonal(matrix, x):
    """Least squares of out-group cells on x and dummy variables, by statsmodels; the fit."""
    p, e = np.nonzero(~np.eye(len(x), dtype=bool))
    dummies = [p == i for i in range(1, len(x))] + [e == i for i in range(1, len(x))]
    return sm.OLS(matrix[p, e], np.column_stack([x[p, e], np.ones(p.size), *dummies]).astype(float)).fit()


# --- Pairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_a_planted_slope_is_found_and_is_that_of_least_squares_with_dummies(directed):
    x = np.random.default_rng(5).uniform(0, 10, (6, 6)) if directed else symmetric(6)
    y = random_y(40, 6, x=x, slope=1.5)
    row = row_of(cube_of(y, groups=NAMES[:6]), pairs_of(x))
    # The gap is how much lower out-group pairs are rated: the slope of ratings with its sign turned.
    assert row["slope"] == pytest.approx(-off_diagonal(y.mean(axis=0), x).params[0], abs=1e-9)
    own = np.array([-off_diagonal(each, x).params[0] for each in y])
    assert row["se"] == pytest.approx(own.std(ddof=1) / 40**0.5, rel=1e-9)
    assert (row["df"], row["n_groups"], row["n_pairs"], row["n_answers"]) == (39, 6, 30, 1200)
    assert row["ci_low"] < 1.5 < row["ci_high"]
    assert row["ci_low"] > 0
    assert row["per_sd"] == pytest.approx(row["slope"] * x[~np.eye(6, dtype=bool)].std(ddof=1))
    assert (row["answer"], row["of"], row["p"]) == ("grows", "pairs", 1 / 720)
    assert row_of(cube_of(-y, groups=NAMES[:6]), pairs_of(x))["answer"] == "shrinks"


@pytest.mark.parametrize("seed", range(4))
def test_p_is_that_of_all_permutations_one_by_one(seed):
    """Each order of the groups is fitted by statsmodels; F of x is t²."""
    x = np.random.default_rng(seed).normal(size=(5, 5)) if seed % 2 else symmetric(5, seed)
    y = random_y(10, 5, seed, pair_sd=2.0, x=x, slope=0.3)
    row = row_of(cube_of(y, groups=NAMES[:5]), pairs_of(x))
    means = y.mean(axis=0)
    t = np.array([
        abs(off_diagonal(means, x[np.ix_(order, order)]).tvalues[0]) for order in map(list, permutations(range(5)))
    ])  # fmt: skip
    assert row["p"] == np.mean(t >= t[0] - 1e-9)
    assert (row["n_permutations"], row["p_least"]) == (120, 1 / 120)


def test_groups_of_several_terms_count_by_the_means_of_their_pairs():
    """Least squares on the means of the blocks, one a pair of groups, whatever the number of terms."""
    labels = "AABBBCDE"
    x, rng = symmetric(5), np.random.default_rng(2)
    y = rng.normal(50, 5, (12, 8, 8)) + rng.normal(0, 9, (1, 8, 1)) + rng.normal(0, 9, (1, 1, 8))
    row = row_of(cube_of(y, groups=labels), pairs_of(x))
    means = pd.DataFrame(y.mean(axis=0), index=list(labels), columns=list(labels))
    blocks = means.groupby(level=0).mean().T.groupby(level=0).mean().T.to_numpy()
    assert row["slope"] == pytest.approx(-off_diagonal(blocks, x).params[0], abs=1e-9)
    # 64 cells less those of one group: 4 + 9 + 1 + 1 + 1
    assert (row["n_groups"], row["n_pairs"]) == (5, 48)


@pytest.mark.parametrize("answer", pd.read_csv(REFERENCE / "covariates.csv").to_dict("records"))
def test_slope_and_p_are_those_that_r_finds(answer):
    """R's lm on effects of pairs, all orders of the groups, and lme4; `tests/reference/covariates.R`."""
    table = pd.read_csv(REFERENCE / f"{answer['scenario']}.csv")
    terms = sorted(table["perceiver"].unique())
    k = len(terms)
    y = np.full((table["narrative"].nunique(), k, k), NAN)
    y[table["narrative"], table["perceiver"].map(terms.index), table["experiencer"].map(terms.index)] = table["rating"]
    a, b = np.mgrid[1 : k + 1, 1 : k + 1]
    x = ((7 * a + 3 * b * b) % 11).astype(float)
    x = x * x.T if answer["distance"] == "symmetric" else x
    row = row_of(cube_of(y, groups=NAMES[:k]), pairs_of(x))
    assert row["slope"] == pytest.approx(-answer["slope"], rel=1e-9)
    assert row["p"] == pytest.approx(answer["p"], abs=1e-12)
    assert row["n_permutations"] == answer["n_orders"]
    if answer["scenario"] == "complete":
        assert row["slope"] == pytest.approx(-answer["lme4_slope"], abs=1e-6)


@pytest.mark.parametrize("never", [False, True])
def test_missing_ratings_do_not_move_a_slope_that_all_ratings_follow(never):
    x, k = symmetric(5), 5
    y = random_y(30, k, noise=0, x=x, slope=0.8)
    y[np.random.default_rng(1).random(y.shape) < 0.2] = NAN
    if never:
        y[:, 1, 3] = NAN
    row = row_of(cube_of(y, groups=NAMES[:k]), pairs_of(x))
    assert row["slope"] == pytest.approx(0.8, abs=1e-9)
    assert row["n_pairs"] == (19 if never else 20)
    assert row["p"] == pytest.approx(1 / 120)


def test_baselines_and_in_group_pairs_do_not_count():
    x = symmetric(5)
    y = random_y(10, 5, x=x, slope=1.0)
    plain = row_of(cube_of(y, groups=NAMES[:5]), pairs_of(x))
    wide = np.pad(y, ((0, 0), (0, 1), (0, 1)), constant_values=3.0)
    wide[:, np.arange(5), np.arange(5)] += np.random.default_rng(0).normal(0, 30, (10, 5))
    other = row_of(cube_of(wide, groups=(*NAMES[:5], "unspecified")), pairs_of(x + 99 * np.eye(5), diagonal=True))
    for column in ("slope", "se", "p", "n_pairs"):
        assert other[column] == pytest.approx(plain[column], abs=1e-9)


def test_what_terms_share_is_beside_the_slope():
    """An echo of 20 points in one out-group pair of terms would be a slope; as nuisance it is none."""
    x = symmetric(5)
    y = random_y(6, 5, noise=0)
    y[:, 0, 1] += 20
    nuisance = np.zeros((1, 5, 5))
    nuisance[0, 0, 1] = 1
    assert abs(row_of(cube_of(y, groups=NAMES[:5]), pairs_of(x))["slope"]) > 0.1
    assert row_of(cube_of(y, groups=NAMES[:5], nuisance=nuisance), pairs_of(x))["slope"] == pytest.approx(0, abs=1e-9)


def test_few_groups_bound_p_and_no_slope_is_claimed():
    """Of four groups a symmetric x leaves three numbers, one for each way to make two pairs of pairs: 4 of 24 orders
    leave them all as they are, so that p is at least 1/6 however steep the slope."""
    x = symmetric(4)
    row = row_of(cube_of(random_y(50, 4, noise=0.01, x=x, slope=5), groups="ABCD"), pairs_of(x))
    assert row["p"] == row["p_least"] == pytest.approx(1 / 6)
    assert row["ci_low"] > 4.9
    assert (row["answer"], row["n_permutations"]) == ("too_few_groups", 24)
    assert row["note"] == "of 24 orders of 4 groups, the smallest possible p is .167"


@pytest.mark.parametrize(
    ("groups", "x", "said"),
    [
        ("ABC", symmetric(3), "effects of perceivers and experiencers explain all of it in 3 groups: a symmetric cov"),
        ("ABCD", np.add.outer(np.arange(4.0), np.arange(4.0)), "effects of perceivers and experiencers explain all"),
        ("ABCD", np.full((4, 4), 0.1), "it is 0.1 in all out-group pairs"),
        ("AB", symmetric(2), "2 of 2 groups have all numbers; at least 3 are needed"),
        ("ABCD", np.full((4, 4), NAN), "0 of 4 groups have all numbers; at least 3 are needed"),
    ],
)
def test_what_pairs_do_not_determine_is_a_note(groups, x, said):
    row = row_of(cube_of(random_y(8, len(groups)), groups=groups), pairs_of(x))
    assert said in row["note"]
    assert np.isnan([row[name] for name in ("slope", "se", "p", "p_least", "p_adjusted")]).all()
    assert (row["answer"], row["family_size"]) == ("", 0)


def test_other_groups_on_the_other_side_are_a_note():
    cube = cube_of(random_y(8, 4), np.eye(4), groups="ABCD", experiencer_groups=tuple("WXYZ"))
    assert row_of(cube, pairs_of(symmetric(4)))["note"] == "perceivers and experiencers do not have the same groups"


def test_groups_without_all_numbers_are_left_out_and_named():
    x = symmetric(7)
    lacking = x.copy()
    lacking[2, 4] = lacking[4, 2] = lacking[2, 5] = NAN  # without the third group all are there
    y = random_y(15, 7, x=x, slope=1)
    row = row_of(cube_of(y, groups=NAMES[:7]), pairs_of(lacking))
    kept = np.array([0, 1, 3, 4, 5, 6])
    of_others = off_diagonal(y.mean(axis=0)[np.ix_(kept, kept)], x[np.ix_(kept, kept)]).params[0]
    assert row["slope"] == pytest.approx(-of_others, abs=1e-9)
    assert row["note"].startswith("left out, since a number is missing: C; of 720 orders of 6 groups")


def test_ratings_that_never_differ_test_nothing():
    row = row_of(cube_of(np.full((5, 5, 5), 40.0), groups=NAMES[:5]), pairs_of(symmetric(5)))
    assert (row["slope"], row["answer"], row["family_size"]) == (0, "", 0)
    assert np.isnan(row["p"])


def test_without_a_slope_p_is_uniform_where_the_interval_over_narratives_is_not():
    """Pairs differ for reasons of their own (SD 2): 300 data sets of 60 narratives and 6 groups, x unrelated.

    Of 300 uniform p a share of .05 has a standard error of .0126. The t interval over narratives takes these pairs for
    all there are, and finds a slope in most data sets.
    """
    p, t = [], []
    for seed in range(300):
        x = symmetric(6, seed + 1_000)
        row = row_of(cube_of(random_y(60, 6, seed, pair_sd=2.0), groups=NAMES[:6]), pairs_of(x))
        p.append(row["p"])
        t.append(row["ci_low"] > 0 or row["ci_high"] < 0)
    share = [float(np.mean(np.array(p) <= level)) for level in (0.05, 0.2, 0.5, 0.8)]
    assert share == pytest.approx([0.05, 0.2, 0.5, 0.8], abs=0.09)
    assert share[0] <= 0.05 + 3 * 0.0126
    assert np.mean(t) > 0.5


# --- Groups ----------------------------------------------------------------------------------------------------------


def test_the_slope_of_own_gaps_worked_by_hand():
    # Own gaps of 1, 3, 7 and 9 points; x of 0, 1, 3, 4: slope 2 without a rest. 24 orders; only this one and its
    # reverse, 4, 3, 1, 0, fit as well: p = 2/24.
    rng = np.random.default_rng(0)
    y = np.broadcast_to(rng.normal(50, 9, (4, 1)) + rng.normal(0, 9, 4) + np.diag([1.0, 3, 7, 9]), (5, 4, 4))
    y = y + rng.normal(0, 9, (5, 1, 1))
    row = row_of(cube_of(y, groups="ABCD"), groups_of([0.0, 1, 3, 4]))
    assert row["slope"] == pytest.approx(2, abs=1e-9)
    assert (row["p"], row["p_least"]) == (2 / 24, 2 / 24)
    assert (row["of"], row["answer"], row["n_groups"]) == ("groups", "too_few_groups", 4)


@pytest.mark.parametrize("seed", range(3))
def test_group_slopes_are_those_of_least_squares_and_p_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=6), random_y(20, 6, seed)
    y = y + np.diag(rng.normal(2, 3, 6) + x)
    row = row_of(cube_of(y, groups=NAMES[:6]), groups_of(x))
    p, e = (axis.ravel() for axis in np.indices((6, 6)))
    design = [(p == a) & (e == a) for a in range(6)] + [p == a for a in range(6)] + [e == a for a in range(1, 6)]

    def slope(matrix, numbers):
        own = np.linalg.lstsq(np.column_stack(design).astype(float), matrix.ravel(), rcond=None)[0][:6]
        return sm.OLS(own, sm.add_constant(numbers)).fit().params[1], np.corrcoef(own, numbers)[0, 1]

    of_narratives = np.array([slope(each, x)[0] for each in y])
    assert row["slope"] == pytest.approx(of_narratives.mean(), abs=1e-9)
    assert row["se"] == pytest.approx(of_narratives.std(ddof=1) / 20**0.5, rel=1e-9)
    r = np.array([abs(slope(y.mean(axis=0), np.array(order))[1]) for order in permutations(x)])
    assert row["p"] == np.mean(r >= r[0] - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_slopes_of_disparities_are_those_of_least_squares_and_p_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=6)
    y = random_y(20, 6, seed) + 2 * x
    row = row_of(cube_of(y, groups=NAMES[:6]), groups_of(x), of="disparity")

    def slope(means, numbers):
        against = (means - means.mean()) * 6 / 5  # a group against the mean of the others
        return sm.OLS(against, sm.add_constant(numbers)).fit().params[1], np.corrcoef(against, numbers)[0, 1]

    of_narratives = np.array([slope(each.mean(axis=0), x)[0] for each in y])
    assert row["slope"] == pytest.approx(of_narratives.mean(), abs=1e-9)
    assert row["se"] == pytest.approx(of_narratives.std(ddof=1) / 20**0.5, rel=1e-9)
    r = np.array([abs(slope(y.mean(axis=(0, 1)), np.array(order))[1]) for order in permutations(x)])
    assert row["p"] == np.mean(r >= r[0] - 1e-9)


def test_a_slope_of_disparities_is_none_of_the_gap_and_the_reverse():
    x = np.arange(6.0)
    seen = [np.arange(6) + 0 * x[:, None], np.diag(x)]  # whoever looks; only one's own
    found = []
    for planted in seen:
        y = 50 + np.random.default_rng(1).normal(0, 0.5, (40, 6, 6)) + 3 * planted
        cube = cube_of(y, groups=NAMES[:6])
        rows = rows_of(cube, groups_of(x))
        found.append({row["of"]: (row["answer"], row["slope"]) for row in rows})
    assert (found[0]["disparity"][0], found[0]["groups"][0]) == ("higher", "not_shown")
    assert found[1]["groups"][0] == "grows"
    assert found[1]["groups"][1] == pytest.approx(3, abs=0.3)
    # Whose own rating is higher is rated higher on average, too: one of six perceivers is of the group.
    assert found[1]["disparity"][1] == pytest.approx(3 / 5, abs=0.1)


def test_a_group_without_a_number_is_left_out():
    x = [0.0, 1, NAN, 3, 4]
    y = random_y(6, 5, noise=0) + np.diag([0, 2.0, 50, 6, 8])
    row = row_of(cube_of(y, groups="ABCDE"), groups_of(x))
    assert row["slope"] == pytest.approx(2, abs=1e-9)
    assert (row["n_groups"], row["note"][:40]) == (4, "left out, since a number is missing: C; ")


@pytest.mark.parametrize(
    ("x", "k", "said"), [([2.0] * 4, 4, "it is 2 in all groups"), ([1.0, 2], 2, "2 of 2 groups have all numbers; at ")]
)
def test_what_groups_do_not_determine_is_a_note(x, k, said):
    row = row_of(cube_of(random_y(8, k), groups=NAMES[:k]), groups_of(x))
    assert said in row["note"]
    assert np.isnan([row["slope"], row["p"]]).all()


@pytest.mark.simulation
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize(("k", "least"), [(5, 0.15), (8, 0.55), (12, 0.85)])
def test_error_rates_and_power_are_those_of_the_documentation(pairs, k, least):
    """1,000 data sets of 60 narratives without a slope, and as many with 2 points per SD of the groups' places.

    The share of p < .05 has a standard error of .0069 at .05. Pairs and own gaps differ for reasons of their own, which
    the interval over narratives takes for a slope in about a fifth.
    """
    found = {slope: np.mean([simulated(seed, k, slope, pairs) for seed in range(1_000)], axis=0) for slope in (0, 2)}
    assert found[0][0] <= 0.05 + 3 * 0.0069
    assert found[0][0] >= 0.02
    assert found[0][1] > 0.12
    assert found[2][2] >= least


def simulated(seed, k, slope, pairs):
    """Whether p is below .05, the interval leaves out 0, and the gap is said to grow."""
    rng = np.random.default_rng(seed)
    places, of_pairs, n = rng.normal(0, 1, k), rng.normal(0, 1, (k, k)), 60
    x = np.abs(places[:, None] - places) if pairs else places
    y = 50 + rng.normal(0, 5, (n, 1, 1)) + rng.normal(0, 4, (1, k, 1)) + rng.normal(0, 4, (1, 1, k))
    y = y + (of_pairs + of_pairs.T) / 2**0.5 * (1 - np.eye(k)) + rng.normal(0, 8, (n, k, k))
    y += np.eye(k) * (3 + rng.normal(0, 1, k) + (0 if pairs else slope * places))
    y -= slope * x * (1 - np.eye(k)) if pairs else 0
    given = pairs_of(x) if pairs else groups_of(x)
    row = row_of(cube_of(y, groups=NAMES[:k]), given, seed=seed, n_permutations=1_000)
    return row["p"] < 0.05, row["ci_low"] > 0 or row["ci_high"] < 0, row["answer"] == "grows"


# --- Families, seeds -------------------------------------------------------------------------------------------------


def test_p_is_corrected_for_the_covariates():
    matrices = [symmetric(6, seed) for seed in range(4)]
    y = random_y(30, 6, x=matrices[0], slope=1)
    rows = rows_of(cube_of(y, groups=NAMES[:6]), pairs_of(*matrices, np.ones((6, 6))))
    p = [row["p"] for row in rows[:4]]
    expected = multipletests(p, method="holm")[1]
    assert [row["p_adjusted"] for row in rows[:4]] == pytest.approx(expected)
    assert [row["family_size"] for row in rows] == [4] * 5
    assert rows[0]["answer"] == "grows"
    assert {row["answer"] for row in rows[1:4]} == {"not_shown"}


def test_more_orders_than_permutations_are_drawn_by_the_seed_alone():
    matrices = [symmetric(8, seed) for seed in (1, 2)]
    cube = cube_of(random_y(10, 8, pair_sd=3), groups=NAMES[:8])
    first, second = rows_of(cube, pairs_of(*matrices), n_permutations=500)
    assert rows_of(cube, pairs_of(*matrices), n_permutations=500) == [first, second]
    assert (first["n_permutations"], first["p_least"], first["note"]) == (500, 1 / 501, "")
    # Another covariate, or none, does not alter the p of this one; another seed does.
    alone = row_of(cube, pairs_of(matrices[0]), n_permutations=500)
    assert alone["p"] == first["p"]
    assert row_of(cube, pairs_of(matrices[0]), n_permutations=500, seed=2)["p"] != first["p"]
    exact = row_of(cube, pairs_of(matrices[0]), n_permutations=40_320)
    assert (exact["n_permutations"], exact["p_least"]) == (40_320, 1 / 40_320)
    assert first["p"] == pytest.approx(exact["p"], abs=4 * (exact["p"] * (1 - exact["p"]) / 500) ** 0.5)


def test_the_analysis_has_a_row_for_each_dimension_and_variant():
    x = symmetric(5)
    y = random_y(12, 5, x=x, slope=1)
    ratings = pd.concat(
        [build_ratings(y, NAMES[:5]), build_ratings(y, NAMES[:5], dimension="nation")], ignore_index=True
    )
    given = {"scales": {"origin": (0.0, 100.0)}, "seed": 1, "settings": AnalysisSettings(n_permutations=200)}
    with_numbers, without = analyse(ratings, **given, covariates=pairs_of(x)), analyse(ratings, **given)
    table = with_numbers.tables["covariates"]
    assert table[["dimension", "covariate"]].to_numpy().tolist() == [["religion", "x0"], ["nation", "x0"]]
    assert table["slope"].to_list() == pytest.approx([-off_diagonal(y.mean(axis=0), x).params[0]] * 2)
    assert without.tables["covariates"].empty
    for name, own in without.tables.items():
        if name != "covariates":
            pd.testing.assert_frame_equal(own, with_numbers.tables[name])


# --- In a formula ----------------------------------------------------------------------------------------------------


def fit(ratings, formula, covariates, **options):
    settings = {"fit": "ols", "random": None, "cluster": "narrative_id", "confidence": 0.95} | options
    return own_model_table(ratings, formula=formula, covariates=covariates, **settings)


def narratives_of(**columns):
    rows = [
        {"narrative_id": f"n{i}", "covariate": name, "number": NAN, "label": None}
        | ({"label": value} if isinstance(value, str) else {"number": value})
        for name, values in columns.items()
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=list(NARRATIVE_COVARIATES))


def merged(ratings):
    plain = ratings.astype({"in_group": float, "intensity": float})
    return plain.assign(a=plain["perceiver_group"].map(NAMES.index), b=plain["experiencer_group"].map(NAMES.index))


def test_a_formula_names_numbers_of_pairs():
    """statsmodels with a column that is merged by hand; in-group pairs count where the file has them."""
    x = symmetric(5)
    ratings = build_ratings(random_y(6, 5, x=x, slope=1), NAMES[:5])
    formula = "intensity ~ x0 + C(perceiver) + C(experiencer)"
    for diagonal in (False, True):
        table = fit(ratings, formula, FormulaCovariates(pairs_of(x, diagonal=diagonal)))
        data = merged(ratings)
        data = data.assign(x0=x[data["a"], data["b"]])
        data = data if diagonal else data[data["a"] != data["b"]]
        row = table.set_index("term").loc["x0"]
        assert row["estimate"] == pytest.approx(smf.ols(formula, data).fit().params["x0"], abs=1e-9)
        assert (row["n_ratings"], row["n_excluded"]) == ((150, 0) if diagonal else (120, 30))


def test_a_formula_names_numbers_of_either_side_s_group():
    x = np.array([1.0, 4, 2, 8])
    ratings = build_ratings(random_y(6, 4), NAMES[:4])
    formula = "intensity ~ in_group * perceiver_x0 + np.log(experiencer_x0)"
    table = fit(ratings, formula, FormulaCovariates(groups_of(x))).set_index("term")
    data = merged(ratings)
    fitted = smf.ols(formula, data.assign(perceiver_x0=x[data["a"]], experiencer_x0=x[data["b"]])).fit()
    for term in ("perceiver_x0", "in_group:perceiver_x0", "np.log(experiencer_x0)"):
        assert table.loc[term, "estimate"] == pytest.approx(fitted.params[term], abs=1e-8)


def test_a_formula_names_columns_of_narratives_and_clusters_by_a_label():
    ratings = build_ratings(random_y(6, 4), NAMES[:4])
    words, writers = [10.0, 20, 15, 40, 35, NAN], ["ann", "ann", "bob", "bob", "cy", "cy"]
    covariates = FormulaCovariates(None, narratives_of(words=words, writer=writers))
    formula = "intensity ~ in_group + words + C(writer)"
    table = fit(ratings, formula, covariates, cluster="writer").set_index("term")
    place = ratings["narrative_id"].str[1:].astype(int)
    data = merged(ratings).assign(words=np.array(words)[place], writer=np.array(writers)[place]).dropna(subset="words")
    fitted = smf.ols(formula, data).fit()
    for term in ("words", "C(writer)[T.bob]", "in_group"):
        assert table.loc[term, "estimate"] == pytest.approx(fitted.params[term], abs=1e-8)
    assert (table.loc["words", "n_clusters"], table.loc["words", "n_excluded"]) == (3, 16)


@pytest.mark.parametrize(
    ("formula", "covariates", "said"),
    [
        ("intensity ~ x1", groups_of([1.0, 2, 3]), "unknown column or function 'x1'; .*perceiver_x0, experiencer_x0"),
        ("intensity ~ x0", None, "unknown column or function 'x0'; "),
        ("intensity ~ in_group", GroupCovariates(("scale",), pairs_of(symmetric(3)).rows, "", ""), "'scale' has the "),
    ],
)
def test_a_formula_that_cannot_be_used_is_one_line(formula, covariates, said):
    with pytest.raises(ConfigError, match=said):
        fit(build_ratings(random_y(4, 3), NAMES[:3]), formula, FormulaCovariates(covariates))


def test_one_name_in_both_tables_is_refused_and_a_function_s_name_in_the_ratings_is_not():
    with pytest.raises(ConfigError, match="two covariates are called 'x0'"):
        FormulaCovariates(pairs_of(symmetric(3)), narratives_of(x0=[1.0]))
    covariates = FormulaCovariates(None, narratives_of(scale=[1.0, 2, 3, 4]))
    table = fit(build_ratings(random_y(4, 3), NAMES[:3]), "intensity ~ scale(in_group)", covariates)
    assert table["term"].tolist()[:2] == ["Intercept", "scale(in_group)"]
