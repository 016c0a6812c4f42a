"""A user's own formula: against a sandwich by hand, lme4 and the closed form; and nothing that goes wrong is silent."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.errors import ConfigError
from audit.statistics.own_model import LABELS, NUMBERS, check_own_model, own_model_table
from audit.tables.gap import OWN_MODEL
from audit.tables.ratings import RATINGS

REFERENCE = Path(__file__).parents[1] / "reference"
GROUPS = ("Reds", "Blues", "Greens")
ADDITIVE = "intensity ~ in_group + perceiver + experiencer"


def fit_table(ratings, formula=ADDITIVE, **options):
    fit = options.get("fit", "mixed")
    defaults = {"random": "~ in_group" if fit == "mixed" else None, "cluster": "narrative_id", "confidence": 0.95}
    return own_model_table(ratings, **{"formula": formula, "fit": fit, **defaults, **options})


def row_of(table, term):
    (row,) = table.loc[table["term"] == term].to_dict("records")
    return row


def draw(seed=0, *, n=40, k=3, slope_sd=4.0, gap=2.0, noise=5.0):
    """N narratives of K x K ratings, with an intercept and an in-group slope of each narrative."""
    rng = np.random.default_rng(seed)
    intercepts, slopes = rng.normal(0, 8, n), rng.normal(0, slope_sd, n) if slope_sd else np.zeros(n)
    y = 50 + intercepts[:, None, None] + (gap + slopes)[:, None, None] * np.eye(k)
    return y + rng.normal(0, noise, (n, k, k)) if noise else y


# --- Least squares -------------------------------------------------------------------------------------------------


def test_ols_is_least_squares_with_the_sandwich_of_clusters(ratings_of):
    y = draw(n=15)
    y[3, 0, 1] = y[7, 2, 2] = np.nan
    ratings = ratings_of(y, GROUPS)
    table = fit_table(ratings, "intensity ~ in_group * C(emotion) + perceiver", fit="ols", confidence=0.9)

    # Oracle: numpy. b = (X'X)^-1 X'y; V = c (X'X)^-1 [sum over clusters of X_g'u_g u_g'X_g] (X'X)^-1,
    # c = G/(G-1) (n-1)/(n-k), t with G-1 degrees of freedom.
    rated = ratings.loc[ratings["intensity"].notna()]
    same, joy = rated["in_group"].to_numpy(float), (rated["emotion"] == "joy").to_numpy(float)
    person = [(rated["perceiver"] == f"person {p} of {GROUPS[p]}").to_numpy(float) for p in (1, 2)]
    x = np.column_stack([np.ones(len(rated)), joy, *person, same, same * joy])
    v = rated["intensity"].to_numpy(float)
    bread = np.linalg.inv(x.T @ x)
    estimate = bread @ x.T @ v
    scores = x * (v - x @ estimate)[:, None]
    of_cluster = np.stack(
        [scores[rated["narrative_id"] == name].sum(axis=0) for name in rated["narrative_id"].unique()]
    )
    n, k = x.shape
    se = np.sqrt(np.diag(bread @ of_cluster.T @ of_cluster @ bread) * 15 / 14 * (n - 1) / (n - k))

    fixed = table.loc[table["component"] == "fixed"]
    assert fixed["term"].tolist() == [
        "Intercept",
        "C(emotion)[T.joy]",
        "perceiver[T.person 1 of Blues]",
        "perceiver[T.person 2 of Greens]",
        "in_group",
        "in_group:C(emotion)[T.joy]",
    ]
    np.testing.assert_allclose(fixed["estimate"], estimate, rtol=1e-9)
    np.testing.assert_allclose(fixed["se"], se, rtol=1e-9)
    np.testing.assert_allclose(fixed["statistic"], estimate / se, rtol=1e-9)
    np.testing.assert_allclose(fixed["p"], 2 * stats.t(14).sf(np.abs(estimate / se)), rtol=1e-9)
    np.testing.assert_allclose(fixed["ci_low"], estimate - stats.t(14).ppf(0.95) * se, rtol=1e-9)
    np.testing.assert_allclose(fixed["ci_high"], estimate + stats.t(14).ppf(0.95) * se, rtol=1e-9)
    assert row_of(table, "residual")["estimate"] == pytest.approx(((v - x @ estimate) ** 2).sum() / (n - k))
    assert list(table) == list(OWN_MODEL)
    assert (table["df"].dropna() == 14).all()
    counts = table[["n_ratings", "n_clusters", "n_excluded"]].drop_duplicates()
    assert counts.to_numpy().tolist() == [[15 * 9 - 2, 15, 2]]
    assert table["converged"].all()
    assert not table["singular"].any()
    assert (table["message"] == "").all()


def test_a_term_that_others_determine_is_left_out_and_named(ratings_of):
    ratings = ratings_of(draw(), GROUPS)
    table = fit_table(ratings, "intensity ~ in_group + perceiver + perceiver_group", fit="ols")
    without = fit_table(ratings, "intensity ~ in_group + perceiver", fit="ols")
    # Oracle: R's lm, which leaves out the later of two collinear terms; so the others are as without it.
    determined = table["term"].str.startswith("perceiver_group", na=False)
    assert determined.sum() == 2
    assert table.loc[determined, ["estimate", "se", "p", "ci_low"]].isna().all(axis=None)
    kept = table.loc[~determined].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept[["term", "estimate", "se", "p"]], without[["term", "estimate", "se", "p"]])
    assert table["singular"].all()
    assert "rank deficient" in table["message"][0]
    assert "perceiver_group[T.Greens]" in table["message"][0]


def test_a_standard_error_of_0_by_construction_is_missing(ratings_of):
    # Two narratives, one for each emotion, and a mean for each emotion: every cluster's residuals sum to 0.
    table = fit_table(ratings_of(draw(n=2), GROUPS), "intensity ~ emotion", fit="ols")
    fixed = table.loc[table["component"] == "fixed"]
    assert fixed["estimate"].notna().all()
    assert fixed[["se", "p", "ci_low"]].isna().all(axis=None)
    assert "no standard error for 2 terms" in table["message"][0]
    assert "2 clusters for 2 terms" in table["message"][0]


def test_an_exact_fit_has_no_standard_error(ratings_of):
    table = fit_table(ratings_of(np.broadcast_to(50 + np.eye(3), (4, 3, 3)), GROUPS), "intensity ~ in_group", fit="ols")
    assert row_of(table, "in_group")["estimate"] == pytest.approx(1)
    assert np.isnan(row_of(table, "in_group")["se"])
    assert "exactly" in table["message"][0]


# --- The mixed model -----------------------------------------------------------------------------------------------


def reference_ratings(scenario):
    lme4 = pd.read_csv(REFERENCE / f"{scenario}.csv")
    columns = {
        **{name: pd.NA for name in RATINGS},
        "prompt_index": lme4.index,
        "dimension": "religion",
        "variant": "origin",
        "narrative_id": lme4["narrative"].astype(str),
        "emotion": "joy",
        "perceiver": lme4["perceiver"],
        "experiencer": lme4["experiencer"],
        "perceiver_group": lme4["perceiver"].str[0],
        "experiencer_group": lme4["experiencer"].str[0],
        "in_group": lme4["in_group"] == 1,
        "n_shared": lme4["in_group"],
        "status": "rated",
        "intensity": lme4["rating"],
        "response": "",
    }
    return pd.DataFrame(columns)


def lme4_fits():
    fits = pd.read_csv(REFERENCE / "lme4.csv")
    return [pytest.param(fit, id=fit["scenario"]) for fit in fits.loc[fits["model"] == "fixed"].to_dict("records")]


@pytest.mark.parametrize("lme4", lme4_fits())
def test_mixed_is_what_lme4_finds(lme4):
    table = fit_table(reference_ratings(lme4["scenario"]))
    gap, variances = row_of(table, "in_group"), table.set_index("term")["estimate"]
    # MixedLM's optimiser and its Hessian leave a standard error off by up to 0.2%.
    assert gap["estimate"] == pytest.approx(lme4["delta"], abs=1e-4)
    assert gap["se"] == pytest.approx(lme4["se"], rel=3e-3)
    assert variances["residual"] == pytest.approx(lme4["var_residual"], rel=1e-4)
    for term, name in (
        ("var(Intercept)", "var_intercept"),
        ("cov(Intercept, in_group)", "cov_intercept_slope"),
        ("var(in_group)", "var_slope"),
    ):
        assert variances[term] == pytest.approx(lme4[name], rel=2e-3, abs=1e-3)
    assert gap["singular"] == bool(lme4["singular"])
    assert gap["converged"]
    assert ("singular" in gap["message"]) == bool(lme4["singular"])
    assert (gap["n_ratings"], gap["n_clusters"]) == (lme4["n_ratings"], lme4["n_narratives"])
    assert np.isnan(gap["df"])
    assert gap["p"] == pytest.approx(2 * stats.norm.sf(abs(gap["statistic"])))


def test_mixed_is_the_closed_form_on_complete_data(ratings_of):
    n, k = 40, 3
    y = draw(seed=2)
    gap = row_of(fit_table(ratings_of(y, GROUPS)), "in_group")
    # Oracle: REML in closed form. With one identity a group, w = G~/s, G~ = I - 1/k, s = k - 1;
    # D = S_b - sigma² (Z'Z)^-1 is positive definite here, and then Var = (D_22 + sigma²/s)/N.
    z = np.column_stack([np.ones(k * k), np.eye(k).ravel()])
    inverse = np.linalg.inv(z.T @ z)
    centred, s = np.eye(k) - 1 / k, k - 1
    deviations, means = (y - y.mean(axis=0)).reshape(n, -1), y.mean(axis=0)
    coefficients = deviations @ z @ inverse
    double = means - means.mean(axis=0) - means.mean(axis=1)[:, None] + means.mean()
    left = ((deviations - coefficients @ z.T) ** 2).sum() + n * (
        (double - centred * (centred * double).sum() / s) ** 2
    ).sum()
    residual = left / ((n - 1) * (k * k - 2) + k * k - 2 * k)
    covariance = coefficients.T @ coefficients / (n - 1) - residual * inverse
    assert np.linalg.eigvalsh(covariance)[0] > 0
    assert gap["estimate"] == pytest.approx((centred * means).sum() / s, abs=1e-8)
    assert gap["se"] == pytest.approx(np.sqrt((covariance[1, 1] + residual / s) / n), rel=1e-3)
    margin = stats.norm.ppf(0.975) * gap["se"]
    assert (gap["ci_low"], gap["ci_high"]) == pytest.approx((gap["estimate"] - margin, gap["estimate"] + margin))


@pytest.mark.parametrize("random", [None, "1", "~ 1"])
def test_without_random_terms_there_is_an_intercept_for_each_cluster(ratings_of, random):
    table = fit_table(ratings_of(draw(), GROUPS), random=random)
    assert table.loc[table["component"] == "random", "term"].tolist() == ["var(Intercept)"]
    assert table.iloc[-1][["term", "component"]].tolist() == ["residual", "residual"]


def test_equal_slopes_are_recorded_as_singular(ratings_of):
    # Negative intraclass correlation: the narratives' slopes vary less than their noise, so REML has them at 0.
    y = draw(slope_sd=0)
    y -= np.eye(3) * (y[:, range(3), range(3)].mean(axis=1) - y.mean(axis=(1, 2)))[:, None, None]
    table = fit_table(ratings_of(y, GROUPS))
    assert table["singular"].all()
    assert "singular" in table["message"][0]


@pytest.mark.parametrize("y", [np.full((6, 3, 3), 50.0), np.broadcast_to(50 + np.eye(3), (6, 3, 3))])
def test_ratings_without_variance_do_not_pass_for_converged(ratings_of, y):
    table = fit_table(ratings_of(y, GROUPS))
    assert not table["converged"].any()
    assert (table["message"] != "").all()


def test_random_terms_that_fixed_terms_determine_are_refused(ratings_of):
    # Two narratives of two emotions: emotion and its interaction tell all narratives apart, nothing is left to vary.
    # MixedLM itself returns its starting values, variances of 1, and says that it converged.
    table = fit_table(ratings_of(draw(n=2), GROUPS), "intensity ~ in_group * emotion")
    (row,) = table.to_dict("records")
    assert row["message"].startswith("not fitted: the fixed terms leave nothing of the random Intercept, in_group")
    assert not row["converged"]
    assert np.isnan(row["estimate"])
    assert row["term"] is None


# --- Which ratings -------------------------------------------------------------------------------------------------


def test_only_rated_prompts_between_identities_are_used(ratings_of):
    y = draw(n=10, k=4)
    y[0, 1, 1] = y[1, 3, 3] = np.nan  # the second lies in the baseline, which was never to be used
    ratings = ratings_of(y, (*GROUPS, "unspecified"))
    before = ratings.copy()
    table = fit_table(ratings, fit="ols")
    expected = fit_table(ratings_of(y[:, :3, :3], GROUPS), fit="ols")
    pd.testing.assert_frame_equal(table, expected)
    assert (table["n_ratings"][0], table["n_excluded"][0]) == (89, 1)
    pd.testing.assert_frame_equal(ratings, before)


def test_a_rating_that_misses_a_column_of_the_formula_is_excluded(ratings_of):
    ratings = ratings_of(draw(), GROUPS, number_mass=0.5)
    ratings["number_mass"] = np.linspace(0.1, 0.9, len(ratings))
    ratings.loc[:9, "number_mass"] = np.nan
    table = fit_table(ratings, "intensity ~ in_group + np.log(number_mass)", fit="ols")
    assert (table["n_ratings"][0], table["n_excluded"][0]) == (350, 10)
    assert row_of(table, "np.log(number_mass)")["se"] > 0


def test_every_dimension_and_variant_is_fitted_alone(ratings_of):
    one, other = (
        ratings_of(draw(seed, n=12), GROUPS, dimension=name) for seed, name in ((1, "religion"), (2, "football"))
    )
    table = fit_table(pd.concat([one, other], ignore_index=True), fit="ols")
    apart = pd.concat([fit_table(one, fit="ols"), fit_table(other, fit="ols")], ignore_index=True)
    pd.testing.assert_frame_equal(table, apart)
    assert table["dimension"].unique().tolist() == ["religion", "football"]


@pytest.mark.parametrize("fit", ["ols", "mixed"])
@pytest.mark.parametrize(
    ("y", "formula", "reason"),
    [
        (np.full((4, 3, 3), np.nan), ADDITIVE, "0 ratings in 0 clusters"),
        (draw(n=1), ADDITIVE, "9 ratings in 1 cluster; two clusters are needed"),
        (draw(n=2, k=1), "intensity ~ narrative_id", "2 ratings do not determine 2 terms"),
        (draw(n=4), "intensity ~ number_mass", "0 ratings in 0 clusters"),
        (draw(n=4), "intensity ~ np.log(in_group)", "np.log(in_group) is not a finite number in 24 of 36 ratings"),
    ],
)
def test_what_can_not_be_fitted_is_one_row_with_the_reason(ratings_of, fit, y, formula, reason):
    (row,) = fit_table(ratings_of(y, GROUPS[: y.shape[1]]), formula, fit=fit).to_dict("records")
    assert f"not fitted: {reason}" in row["message"]
    assert row["converged"] is False
    assert row["term"] is None
    assert all(np.isnan(row[name]) for name in ("estimate", "se", "statistic", "df", "p", "ci_low", "ci_high"))


def test_no_ratings_are_an_empty_table(ratings_of):
    table = fit_table(ratings_of(draw(n=1), GROUPS).iloc[:0])
    assert table.empty
    assert list(table) == list(OWN_MODEL)


def test_a_fitter_s_exception_is_a_row_and_its_print_is_none(ratings_of, monkeypatch, capsys):
    def fail(*_args, **_options):
        warnings.warn("first\nwarning", UserWarning, stacklevel=1)
        raise np.linalg.LinAlgError("Singular\nmatrix")

    monkeypatch.setattr("statsmodels.regression.mixed_linear_model.MixedLM.fit", fail)
    (row,) = fit_table(ratings_of(draw(n=4), GROUPS)).to_dict("records")
    assert row["message"] == "not fitted: Singular matrix; first warning"
    assert capsys.readouterr() == ("", "")


# --- The formula ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"formula": "intensity ~ (in_group"}, "statistics.formula='intensity ~ (in_group' cannot be read ("),
        ({"formula": "intensity ~ in_group +"}, "; write it as 'intensity ~ in_group + C(perceiver) + C(experiencer)'"),
        ({"formula": "intensity ~ in_group emotion"}, "cannot be read ("),
        ({"formula": "intensity ~ C(emotoin)"}, "unknown column or function 'emotoin'; did you mean 'emotion'?"),
        ({"formula": "intensity ~ log(n_shared)"}, "unknown column or function 'log'; there are: intensity, "),
        ({"formula": "intensty ~ in_group"}, "the left side must be a numeric column, as in 'intensity ~ in_group"),
        ({"formula": "intensty ~ in_group"}, "did you mean 'intensity'?"),
        ({"formula": "emotion ~ in_group"}, "the left side must be a numeric column"),
        ({"formula": "np.log(intensity) ~ in_group"}, "the left side must be a numeric column"),
        ({"formula": "intensity + in_group ~ 1"}, "the left side must be a numeric column"),
        ({"formula": "~ in_group"}, "the left side must be a numeric column"),
        ({"formula": ""}, "statistics.formula='': the left side must be a numeric column"),
        ({"formula": "intensity ~ 0"}, "the right side has no term"),
        (
            {"cluster": "narative_id"},
            "statistics.cluster='narative_id' with statistics.formula='intensity ~ in_group + ",
        ),
        ({"cluster": "narative_id"}, "did you mean 'narrative_id'?"),
        ({"cluster": "intensity"}, "unknown column to cluster by; there are: emotion, "),
        (
            {"random": "~ in_grup"},
            "statistics.random='~ in_grup': unknown column or function 'in_grup'; did you mean",
        ),
        ({"random": "intensity ~ in_group"}, "nothing left of '~'; write it as '~ in_group'"),
        ({"random": "~ 0"}, "statistics.random='~ 0': needs a term"),
        ({"random": "~ ("}, "statistics.random='~ (' cannot be read ("),
        ({"random": "~ in_group", "fit": "ols"}, "leave it out, or use statistics.fit=mixed"),
    ],
)
def test_a_mistake_in_the_formula_is_one_line_with_the_remedy(options, says, ratings_of):
    with pytest.raises(ConfigError) as caught:
        fit_table(ratings_of(draw(n=2), GROUPS), **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_formula_that_fails_on_all_ratings_is_the_user_s_mistake(ratings_of):
    ratings = ratings_of(draw(n=4), GROUPS)
    formula = "intensity ~ C(perceiver_group, Treatment('Reds'))"
    assert fit_table(ratings, formula, fit="ols")["term"].str.contains("T.Blues").any()
    with pytest.raises(
        ConfigError, match=r"^statistics.formula=.* on the ratings \(.*'No' not found\); change the formula$"
    ):
        fit_table(ratings, formula.replace("Reds", "No"), fit="ols")


def test_a_formula_that_fails_on_one_dimension_leaves_the_others(ratings_of):
    one = ratings_of(draw(n=4), GROUPS)
    other = ratings_of(draw(n=4), ("Ants", "Bees", "Cats"), dimension="animals")
    both = pd.concat([one, other], ignore_index=True)
    table = fit_table(both, "intensity ~ C(perceiver_group, Treatment('Reds'))", fit="ols")
    failed = table.loc[table["dimension"] == "animals"]
    assert len(failed) == 1
    assert "cannot be evaluated on these ratings" in failed["message"].item()
    assert table.loc[table["dimension"] == "religion", "converged"].all()


def test_nothing_is_fitted_before_the_formula_is_known_to_be_good(ratings_of, monkeypatch):
    monkeypatch.setattr("audit.statistics.own_model._rows", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(ConfigError):
        fit_table(ratings_of(draw(n=4), GROUPS), "intensity ~ bs(n_shared, df=-1)")


@pytest.mark.parametrize(
    "term",
    [
        "__import__('os').getcwd()",
        "open('x')",
        "C.__globals__",
        "np.load('x')",
        "np.linalg.norm(intensity)",
        "'{0.__class__}'.format(C)",
        "f'{C.__class__}'",
        "[x for x in emotion]",
        "I((lambda y: y)(1))",
        "Q('emotion')",
    ],
)
def test_a_formula_names_columns_and_arithmetic_alone(term):
    # Whoever passes on a formula must not pass on a program.
    with pytest.raises(ConfigError, match=r"cannot be used in a formula|unknown column or function"):
        check_own_model(f"intensity ~ {term}", fit="ols", random=None, cluster="narrative_id")


TOKENS = st.sampled_from(
    [
        *NUMBERS,
        *LABELS,
        "C",
        "np",
        "np.log",
        "x",
        "0",
        "1",
        "~",
        "+",
        "-",
        "*",
        ":",
        "**",
        "/",
        "(",
        ")",
        "[",
        "'",
        "\\",
    ]
)


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=30), st.lists(TOKENS, max_size=12).map(" ".join)))
def test_any_text_is_a_formula_or_one_line(text):
    for formula, random in ((text, None), (f"intensity ~ {text}", None), (ADDITIVE, text)):
        message = "one line"
        try:
            check_own_model(formula, fit="mixed", random=random, cluster="narrative_id")
        except ConfigError as error:
            message = str(error)
        assert len(message.splitlines()) == 1


# --- Wordings that nobody vetted -------------------------------------------------------------------------------------


WORDINGS = ("a 'q\"uoted' {x} {0}", "[T.b]:\n\r\u2028%s %(a)s]", "__import__('os').abort()")


@pytest.mark.parametrize("fit", ["ols", "mixed"])
@pytest.mark.parametrize("formula", [ADDITIVE, "intensity ~ in_group + C(perceiver) * C(experiencer_group)"])
def test_a_wording_is_a_name_whatever_it_holds(ratings_of, fit, formula):
    plain = ratings_of(draw(n=12), GROUPS)
    wild = plain.copy()
    # Keys and values sort alike, so that the same level is the reference.
    names = dict(zip(sorted(plain["perceiver"].unique()), sorted(WORDINGS), strict=True))
    groups = dict(zip(sorted(GROUPS), sorted(WORDINGS), strict=True))
    for column in ("perceiver", "experiencer"):
        wild[column] = plain[column].map(names)
        wild[f"{column}_group"] = plain[f"{column}_group"].map(groups)
    expected, table = fit_table(plain, formula, fit=fit), fit_table(wild, formula, fit=fit)
    numbers = ["estimate", "se", "p", "ci_low", "n_ratings", "converged", "singular"]
    pd.testing.assert_frame_equal(table[numbers], expected[numbers])
    assert table["term"].str.contains(sorted(WORDINGS)[1], regex=False).any()
    assert all(len(message.splitlines()) <= 1 for message in table["message"])


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=3, max_size=3, unique=True)
)
def test_any_wording_is_fitted(ratings_of, names):
    ratings = ratings_of(draw(n=4), GROUPS)
    perceivers = dict(zip(ratings["perceiver"].unique(), names, strict=True))
    table = fit_table(
        ratings.assign(perceiver=ratings["perceiver"].map(perceivers)), "intensity ~ perceiver", fit="ols"
    )
    assert set(table["term"]) == {"Intercept", "residual", *(f"perceiver[T.{name}]" for name in sorted(names)[1:])}
    assert table.loc[table["component"] == "fixed", "se"].notna().all()


def test_labels_compare_as_strings(ratings_of):
    ratings = ratings_of(draw(n=12), GROUPS)
    same = fit_table(ratings, "intensity ~ I((perceiver_group == experiencer_group) * 1.0)", fit="ols")
    np.testing.assert_allclose(same["estimate"], fit_table(ratings, "intensity ~ in_group", fit="ols")["estimate"])
