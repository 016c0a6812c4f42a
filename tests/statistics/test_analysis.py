"""Oracles: scipy and statsmodels on numbers laid out by hand, the analysis of ratings of which a part is left out, and
the estimators themselves, which have tests of their own."""

import dataclasses
import io

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from conftest import build_ratings
from cubes import cube_of
from pandas.testing import assert_frame_equal, assert_series_equal
from scipy import stats

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import ConfigError
from audit.statistics import estimate_rows as rows
from audit.statistics.analysis import analyse
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import overall_row
from audit.statistics.estimate_rows import child_rng
from audit.statistics.headline import headline_gap, with_sign_flips
from audit.statistics.interactions import interaction_variances
from audit.statistics.mixed import fit_mixed
from audit.statistics.published import published_gap
from audit.statistics.scopes import group_scope
from audit.tables.base import dictionary
from audit.tables.formatting import points
from audit.tables.ratings import ELICITATION_SAMPLE, END_SHARES, MANIPULATED, NARRATIVE_COVARIATES, RATINGS
from audit.tables.run_of_ratings import OF_RATINGS, TABLES
from audit.tables.stages import GIVEN, STAGES

NAN = np.nan
SCALES = {"origin": (0.0, 100.0), "10-scale": (0.0, 10.0)}
CROSSED = [(race, religion) for race in ("Black", "White") for religion in ("Muslim", "Christian")]
INTERVAL = ["delta", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers"]
OF_OTHERS = {"calls", "stage_texts", "marked_words"}  # of a strategy's calls, not of ratings
OF_PEOPLE = {"human", "people_gap", "people_agreement", "norming"}
DECIDED = {"verdicts", "judged"}
"""Filled where the run is published: its checks limit them."""
NO_ODD_PAIR = {"odd_pairs"}
OF_A_FILE = {"covariates"}
OF_WORDINGS = {"wordings", "wording_shares"}
ASKED_BESIDE = {"elicitation", "manipulation"}  # of prompts beside the ratings: a sample in words, checks
EMPTY = OF_OTHERS | OF_PEOPLE | OF_WORDINGS | ASKED_BESIDE | DECIDED | NO_ODD_PAIR | OF_A_FILE
VALENCE = {"joy": "positive", "anger": "negative"}
CLUSTERS = {"religion": {"A": "first", "B": "first", "C": "second"}}


def analysis_of(*ratings, scales=SCALES, seed=1, valence=None, clusters=None, **settings):
    table = pd.concat(ratings, ignore_index=True)
    settings = AnalysisSettings(**{"n_permutations": 200} | settings)
    return analyse(
        table, scales=scales, seed=seed, settings=settings, valence=valence, clusters=clusters, replicates=True
    )


def ratings_between(low, high, shape, seed=0):
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(float)


def sloped(n, groups, seed=0, holes=0):
    """Ratings of narratives whose gaps differ, about 60 for in-group and 50 for out-group pairs."""
    rng, k = np.random.default_rng(seed), len(groups)
    own = np.array([[a == b for b in groups] for a in groups])
    y = 50 + rng.normal(0, 6, (n, 1, 1)) + rng.normal(10, 4, (n, 1, 1)) * own + rng.normal(0, 5, (n, k, k))
    y[np.arange(holes), np.arange(holes) % k, -1] = NAN
    return y


def remarks_of(analysis):
    """The remarks but for those on the number of narratives and of missing ratings, which have tests of their own."""
    return [remark for remark in analysis.remarks if remark.code not in ("few_narratives", "many_missing")]


def codes_of(analysis):
    return [remark.code for remark in remarks_of(analysis)]


def row_of(analysis, estimator="contrast", dimension="religion", scope="narratives", table="gap"):
    gap = analysis.tables[table]
    chosen = (gap["estimator"] == estimator) & (gap["dimension"] == dimension)
    if "scope" in gap and estimator != "published":
        chosen &= gap["scope"] == scope
    (row,) = (row for _, row in gap[chosen].iterrows())
    return row


def cube_from(ratings):
    return NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", baselines=True)


def same_numbers(row, estimate, columns=INTERVAL):
    assert row[columns].tolist() == pytest.approx([getattr(estimate, name) for name in columns], nan_ok=True)


# --- The tables ------------------------------------------------------------------------------------------------------


def test_tables_have_the_columns_of_the_schema_in_order():
    y = ratings_between(20, 80, (6, 5, 5))
    analysis = analysis_of(
        build_ratings(y[:, 1:, 1:], CROSSED, dimension="race+religion"),
        build_ratings(y, ["unspecified", *"ABCD"]),
        build_ratings(y / 10, ["unspecified", *"ABCD"], variant="10-scale"),
        build_ratings(y + 5, list("ABCDE"), dimension="nation"),
        formula="intensity ~ in_group",
        fit="ols",
        valence=VALENCE,
        clusters=CLUSTERS,
    )
    assert sorted(analysis.tables) == sorted(TABLES)
    for name, table in analysis.tables.items():
        assert list(table.columns) == list(TABLES[name])
        assert table.empty == (name in EMPTY), name
    assert analysis.tables["families"]["family"].unique().tolist() == [
        "pair", "group", "emotion", "valence", "degree", "cluster", "uplift",
    ]  # fmt: skip
    assert remarks_of(analysis) == []


def test_the_dictionary_describes_each_column_of_each_table_once():
    described = pd.read_csv(io.BytesIO(dictionary(OF_RATINGS)), keep_default_na=False)
    assert not described.duplicated(["table", "column"]).any()
    collected = {"ratings": RATINGS, "stages": STAGES, "given": GIVEN, "manipulated": MANIPULATED}
    collected |= {"narrative_covariates": NARRATIVE_COVARIATES, "end_shares": END_SHARES}
    collected |= {"elicitation_sample": ELICITATION_SAMPLE, "asked_again": ELICITATION_SAMPLE}
    collected |= {f"asked_in_{name}": ELICITATION_SAMPLE for name in ("bfloat16", "float16", "float32")}
    expected = {**collected, **TABLES}
    found = {table: part["column"].tolist() for table, part in described.groupby("table")}
    assert found == {table: [*columns, *columns.former] for table, columns in expected.items()}
    assert described["description"].str.len().min() > 5
    assert set(described["type"]) == {"text", "number", "whole number", "true or false"}
    known = described.set_index(["table", "column"])["unit"]
    assert known["ratings", "intensity"] == "points"
    assert known["wordings", "delta"] == known["gap", "delta"] == "the row's unit"
    assert known["ratings", "response"] == ""


def test_gap_rows_are_the_estimates_unrounded():
    ratings = build_ratings(sloped(30, "-AABCDE", holes=4), ["unspecified", *"AABCDE"])
    analysis, cube = analysis_of(ratings), cube_from(ratings)
    compared = cube.without_baselines()
    rngs = {name: child_rng(1, "religion", "origin", name) for name in ("contrast", "published")}
    headline = headline_gap(compared, confidence=0.95)
    mixed = fit_mixed(compared)
    released = published_gap(cube, rng=rngs["published"], n_permutations=200)
    same_numbers(row_of(analysis), headline)
    flipped = with_sign_flips(headline, rng=rngs["contrast"], n_permutations=200).p_sign_flip
    assert row_of(analysis)["p_sign_flip"] == flipped
    same_numbers(row_of(analysis, "mixed"), mixed.estimate(confidence=0.95))
    wider = row_of(analysis, scope="narratives_and_terms")
    same_numbers(wider, group_scope(compared, headline, confidence=0.95).estimate)
    assert wider["se"] >= row_of(analysis)["se"]
    of_model = group_scope(compared, mixed.estimate(confidence=0.95), confidence=0.95, fit=mixed).estimate
    same_numbers(row_of(analysis, "mixed", scope="narratives_and_terms"), of_model)
    row = row_of(analysis, "published")
    same_numbers(row, released, ["delta_z", "null_low", "null_high", "n_narratives", "n_answers"])
    assert row["note"] == released.null
    assert row[["scope", *INTERVAL[:-2]]].isna().all()
    gap = analysis.tables["gap"]
    assert gap.loc[gap["estimator"] != "published", ["delta_z", "null_low", "null_high"]].isna().all(axis=None)
    assert gap["p_sign_flip"].notna().tolist() == [True] + [False] * (len(gap) - 1)
    assert (gap["n_narratives_asked"] == 30).all()


def test_the_listwise_check_is_the_headline_of_the_complete_narratives_alone():
    y = sloped(30, "AABCDE", holes=4)
    holed = analysis_of(build_ratings(y, list("AABCDE"))).tables["sensitivity"].set_index("check").loc["listwise"]
    complete = row_of(analysis_of(build_ratings(y[4:], list("AABCDE"))))
    names = ["delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers"]
    assert holed["se"] > 0
    assert holed[names].tolist() == pytest.approx(complete[names].tolist())


@pytest.mark.parametrize(
    ("y", "groups"),
    [
        (sloped(12, "ABC"), "ABC"),
        (sloped(12, "ABC", holes=1), "ABC"),
        (np.full((3, 2, 2), NAN), "AB"),
        (sloped(12, "AB"), "AA"),
    ],
    ids=["complete", "a rating missing", "nothing rated", "one group"],
)
def test_headline_is_one_estimator_whatever_is_missing(y, groups):
    """The flag does not go by what could be estimated: a headline that cannot be is flagged, and says why."""
    gap = analysis_of(build_ratings(y, list(groups))).tables["gap"]
    flagged = gap[gap["headline"]]
    assert flagged["estimator"].tolist() == ["contrast"] * 2
    assert flagged["scope"].tolist() == ["narratives", "narratives_and_terms"]
    assert (flagged["delta"].isna() <= (flagged["note"] != "")).all()


def test_where_no_narrative_has_a_gap_of_its_own_the_mixed_model_s_stands_first_and_a_note_says_so():
    """Planted: each narrative was rated by one perceiver, as replies of one writer are."""
    y, groups = sloped(40, "ABCD"), list("ABCD")
    one_each = np.where(np.arange(4)[:, None] == (np.arange(40) % 4)[:, None, None], y, NAN)
    ratings = build_ratings(one_each, groups)
    analysis = analysis_of(ratings)
    own, mixed = row_of(analysis), row_of(analysis, "mixed")
    assert (own["headline"], mixed["headline"]) == (False, True)
    assert np.isnan(own["delta"])
    oracle = fit_mixed(cube_from(ratings))
    assert (mixed["delta"], mixed["se"]) == pytest.approx((oracle.delta, oracle.se))
    assert "no_own_gaps" in codes_of(analysis)
    assert "no_own_gaps" not in codes_of(analysis_of(build_ratings(y, groups)))


def test_missing_prompts_are_counted_without_baselines():
    y = ratings_between(20, 80, (10, 3, 3))
    y[0, 0, 0] = y[1, 1, 1] = y[1, 2, 1] = NAN  # the first is between baselines
    analysis = analysis_of(build_ratings(y, ["unspecified", "A", "B"]))
    row, mixed = row_of(analysis), row_of(analysis, "mixed")
    assert (analysis.tables["gap"]["n_missing"] == 2).all()
    # Of four ratings none can be missing; the mixed model takes what is left of that narrative too.
    assert row[["n_narratives", "n_narratives_asked", "n_answers"]].tolist() == [9, 10, 9 * 4]
    assert mixed[["n_narratives", "n_narratives_asked", "n_answers"]].tolist() == [10, 10, 40 - 2]


def test_variances_are_the_fits_and_make_up_the_standard_error():
    y = sloped(40, "ABCDE")
    ratings = build_ratings(y, list("ABCDE"))
    analysis = analysis_of(ratings)
    table = analysis.tables["variances"]
    assert table["estimator"].tolist() == ["contrast", "mixed"]
    fit = fit_mixed(cube_from(ratings))
    fields = [name for name in table if hasattr(fit, name)]
    assert len(fields) == len(table.columns) - 6  # all but dimension, variant, estimator, note and interactions
    of_fit = table.to_dict("records")[1]
    assert [of_fit[name] for name in fields] == pytest.approx([getattr(fit, name) for name in fields], nan_ok=True)
    own, mixed = table.iloc[0], table.iloc[1]
    found = interaction_variances(cube_from(ratings))
    names = ["narrative_perceiver_variance", "narrative_experiencer_variance", "residual_variance", "n_narratives"]
    assert own[names].tolist() == [found.perceiver, found.experiencer, found.residual, 40]
    # Complete ratings, off the boundary: se² = (τ² + σ²/s)/N with s = K − 1 for one-term groups.
    assert not mixed["boundary"]
    for row, estimator, rel in ((own, "contrast", 1e-12), (mixed, "mixed", 1e-6)):
        se = ((row["slope_variance"] + row["residual_variance"] / 4) / 40) ** 0.5
        assert row_of(analysis, estimator)["se"] == pytest.approx(se, rel=rel)


def test_leave_one_out_rows_are_the_gap_without_each_group():
    """Of complete ratings they are the contrast of the ratings that are left."""
    groups = np.array(list("AABCDE"))
    y = sloped(15, "AABCDE")
    table = analysis_of(build_ratings(y, list(groups))).tables["leave_one_out"]
    assert table["group"].tolist() == list("ABCDE")
    assert (table["estimator"] == "contrast").all()
    for group, delta in zip(table["group"], table["delta"], strict=True):
        kept = groups != group
        left = analysis_of(build_ratings(y[:, kept][:, :, kept], list(groups[kept])))
        assert delta == pytest.approx(row_of(left)["delta"], abs=1e-9)


def test_leave_one_out_rows_are_the_headline_s_where_a_rating_is_missing_and_none_without_one():
    ratings = build_ratings(sloped(15, "AABCDE", holes=3), list("AABCDE"))
    table = analysis_of(ratings).tables["leave_one_out"]
    cube = cube_from(ratings)
    oracle = group_scope(cube, headline_gap(cube, confidence=0.95), confidence=0.95).leave_one_out
    assert dict(zip(table["group"], table["delta"], strict=True)) == pytest.approx(oracle)
    assert (table["estimator"] == "contrast").all()
    assert analysis_of(build_ratings(np.full((3, 3, 3), NAN), list("ABC"))).tables["leave_one_out"].empty


def test_degrees_are_a_family_of_intersections_only():
    y = ratings_between(20, 80, (6, 4, 4))
    n_shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in CROSSED] for p in CROSSED])
    y = y[:, :1, :] + y[:, :, :1] / 2 + np.array([0, 1.5, 4])[n_shared]
    analysis = analysis_of(build_ratings(y, list("ABCD")), build_ratings(y, CROSSED, dimension="race+religion"))
    degrees = analysis.tables["families"].query("family == 'degree'")
    assert degrees["dimension"].tolist() == ["race+religion"] * 2
    assert degrees["member"].tolist() == ["1", "2"]
    assert degrees["delta"].tolist() == pytest.approx([1.5, 4])
    assert row_of(analysis, dimension="race+religion")["delta"] == pytest.approx(4)


def test_valences_and_clusters_are_of_the_dimension_that_they_are_given_for():
    ratings = [build_ratings(sloped(12, "ABC"), list("ABC"), dimension=name) for name in ("nation", "religion")]
    families = analysis_of(*ratings, valence=VALENCE, clusters=CLUSTERS).tables["families"]
    members = families.groupby(["dimension", "family"])["member"].agg(list)
    assert members["religion", "cluster"] == ["same cluster", "same group", "first", "second"]
    assert ("nation", "cluster") not in members.index
    assert members["nation", "valence"] == ["negative", "positive"]
    assert "valence" not in set(analysis_of(*ratings).tables["families"]["family"])


def test_equivalence_and_power_go_by_the_rows_of_the_gap():
    analysis = analysis_of(build_ratings(sloped(30, "ABCDE"), list("ABCDE")), margin=12.0, wanted=1.0, confidence=0.9)
    gap = analysis.tables["gap"].query("estimator != 'published'")
    table = analysis.tables["equivalence"]
    assert_frame_equal(table[["estimator", "scope"]], gap[["estimator", "scope"]].reset_index(drop=True))
    assert table["delta"].tolist() == gap["delta"].tolist()
    # Tests err at .1 each, so the interval is of 80%: its ends are δ ± t(.9) se.
    half = stats.t.ppf(0.9, gap["df"]) * gap["se"]
    assert table["level"].tolist() == pytest.approx([0.8] * len(table))
    assert table["low"].tolist() == pytest.approx((gap["delta"] - half).tolist())
    assert table["largest_gap"].tolist() == pytest.approx((gap["delta"] + half).tolist())
    assert (table["verdict"] == "gap, smaller than the margin").all()
    (power,) = analysis.tables["power"].to_dict("records")
    row, variances = row_of(analysis), analysis.tables["variances"].iloc[0]
    assert power["sd_contrast"] == pytest.approx(row["se"] * 30**0.5)
    assert power["sum_of_squares"] == pytest.approx(4)  # K − 1
    assert (power["slope_sd"], power["residual_sd"]) == pytest.approx(
        (variances["slope_variance"] ** 0.5, variances["residual_variance"] ** 0.5)
    )
    assert [power[name] for name in ("wanted_points", "margin_points", "alpha")] == pytest.approx([1, 12, 0.1])
    # statistics.md, section 5, at alpha .1: (z(.95) + z(.8)) sd/√N, a little more by the t distribution.
    assert power["detectable_points"] == pytest.approx((1.645 + 0.842) * row["se"], rel=0.05)
    assert power["n_for_wanted"] > 30 > power["n_for_margin"]


def test_power_counts_the_narratives_that_tell_of_the_gap():
    y = sloped(20, "ABC")
    y[0, ~np.eye(3, dtype=bool)] = NAN
    analysis = analysis_of(build_ratings(y, list("ABC")))
    assert analysis.tables["power"]["n_narratives"].tolist() == [19]
    assert row_of(analysis, "mixed")[["n_narratives", "df"]].tolist() == [20, 18]


# --- Over dimensions and between variants ----------------------------------------------------------------------------


def test_over_all_dimensions_stands_the_mean_of_their_gaps_paired_on_narratives():
    first, second = sloped(25, "ABC"), sloped(25, "AABBC", seed=1)
    first, second = first - 1, second + 1
    ratings = [
        build_ratings(first, list("ABC")),
        build_ratings(second, list("AABBC"), dimension="nation"),
        build_ratings(sloped(25, "ABCD", seed=2), CROSSED, dimension="race+religion"),
    ]
    analysis = analysis_of(*ratings)
    row = row_of(analysis, dimension="all")
    parts = [row_of(analysis, dimension=name) for name in ("religion", "nation")]
    assert row["delta"] == pytest.approx(np.mean([part["delta"] for part in parts]), abs=1e-12)
    cubes = [NarrativeCube.from_ratings(r, dimension=r["dimension"][0], variant="origin") for r in ratings[:2]]
    contrasts = np.mean([headline_gap(cube, confidence=0.95).by_narrative for cube in cubes], axis=0)
    t = stats.ttest_1samp(contrasts, 0)
    interval = t.confidence_interval(0.95)
    assert row[["p", "df", "ci_low", "ci_high"]].tolist() == pytest.approx([t.pvalue, 24, *interval])
    assert row["se"] == pytest.approx(contrasts.std(ddof=1) / 5)
    assert row[["headline", "scope", "note"]].tolist() == [True, "narratives", ""]
    assert row[["n_narratives", "n_narratives_asked", "n_answers", "n_missing"]].tolist() == [25, 25, 25 * 34, 0]
    assert row_of(analysis, dimension="all", table="equivalence")["delta"] == row["delta"]
    wider = row_of(analysis, dimension="all", scope="narratives_and_terms")
    assert wider[["headline", "delta", "n_narratives"]].tolist() == [True, row["delta"], 25]
    assert wider[["se", "df", "ci_low", "p"]].isna().all()
    assert wider["note"] == "religion, nation: 3 groups are too few to speak about others"
    assert analysis.tables["gap"]["dimension"].tolist().count("all") == 2


def test_over_all_dimensions_any_such_identities_are_spoken_of_where_each_dimension_speaks_of_them():
    ratings = [
        build_ratings(sloped(25, "ABCDE"), list("ABCDE")),
        build_ratings(sloped(25, "ABCDEF", seed=1, holes=3), list("ABCDEF"), dimension="nation"),
    ]
    analysis = analysis_of(*ratings)
    wider = row_of(analysis, dimension="all", scope="narratives_and_terms")
    parts = [row_of(analysis, dimension=name, scope="narratives_and_terms") for name in ("religion", "nation")]
    cubes = [NarrativeCube.from_ratings(r, dimension=r["dimension"][0], variant="origin") for r in ratings]
    contrasts = [headline_gap(cube, confidence=0.95).by_narrative for cube in cubes]
    weights = overall_row(
        {name: headline_gap(cube, confidence=0.95) for name, cube in zip("ab", cubes, strict=True)},
        dict.fromkeys("ab", cubes[0].narrative_ids),
        confidence=0.95,
    ).weights
    covariance = np.cov(*contrasts, aweights=weights, ddof=0)[0, 1]
    variance = sum(part["se"] ** 2 for part in parts) / 4 + max(0, covariance) / (2 * 24)
    assert wider["se"] == pytest.approx(variance**0.5)
    assert wider[["df", "note"]].tolist() == [4, "groups that count: 5 of religion, 6 of nation"]
    assert row_of(analysis, dimension="all", scope="narratives")["note"] == ""


def test_a_row_says_how_many_of_the_groups_count():
    y = sloped(25, "ABCDEF")
    y[:, 5] = NAN
    analysis = analysis_of(build_ratings(y, list("ABCDEF")))
    wider = row_of(analysis, "mixed", scope="narratives_and_terms")
    assert wider[["df", "note"]].tolist() == [4, "5 of 6 groups count: the ratings tell nothing of the gap of F"]
    assert analysis.tables["leave_one_out"]["group"].tolist() == list("ABCDE")


def test_the_mean_over_dimensions_takes_narratives_whose_ratings_are_missing_in_either():
    whole, holed = sloped(25, "ABC"), sloped(25, "AABBC", seed=1, holes=2)
    analysis = analysis_of(build_ratings(whole, list("ABC")), build_ratings(holed, list("AABBC"), dimension="nation"))
    row = row_of(analysis, dimension="all")
    cubes = [cube_of(whole, groups="ABC"), cube_of(holed, groups="AABBC")]
    parts = [headline_gap(cube, confidence=0.95) for cube in cubes]
    gaps = np.mean([part.by_narrative for part in parts], axis=0)
    noise = (parts[0].noise + parts[1].noise) / 4
    weights = 1 / (row_of(analysis, dimension="all")["se"] ** 2 * 25 - noise.mean() + noise)  # τ² + v is near 25 se²
    assert row["delta"] == pytest.approx(np.average(gaps, weights=weights), abs=1e-3)
    assert row[["n_narratives", "n_answers", "n_missing"]].tolist() == [25, 25 * 34 - 2, 2]


def test_one_dimension_and_its_intersection_or_another_variant_have_no_mean_over_dimensions():
    y = sloped(9, "ABCD")
    analysis = analysis_of(
        build_ratings(y, list("ABCD")),
        build_ratings(y, CROSSED, dimension="race+religion"),
        build_ratings(y / 10, list("ABCD"), dimension="nation", variant="10-scale"),
    )
    assert "all" not in set(analysis.tables["gap"]["dimension"])
    assert analysis.tables["comparisons"].empty


def test_variants_are_compared_narrative_by_narrative_in_shares_of_the_scale_where_scales_differ():
    y = sloped(12, "AB")
    other = y / 10 + np.random.default_rng(5).normal(0, 0.3, y.shape)
    ratings = [build_ratings(y, list("AB")), build_ratings(other, list("AB"), variant="10-scale")]
    # w = ±1/2; of a scale of 100 a point is 1%, of a scale of 10 it is 10%.
    a, b = ((each * [[0.5, -0.5], [-0.5, 0.5]]).sum(axis=(1, 2)) for each in (y, 10 * other))
    for scales, second, unit in ((SCALES, b, "% of the scale"), (dict.fromkeys(SCALES, (0, 100)), b / 10, "points")):
        (row,) = analysis_of(*ratings, scales=scales).tables["comparisons"].to_dict("records")
        paired = stats.ttest_rel(a, second)
        expected = [a.mean(), second.mean(), (a - second).mean(), paired.pvalue, 11, np.corrcoef(a, second)[0, 1]]
        columns = ("delta_first", "delta_second", "delta_change", "p", "df", "correlation")
        assert [row[name] for name in columns] == pytest.approx(expected)
        assert [row[name] for name in ("first", "second", "unit")] == ["origin", "10-scale", unit]


def test_variants_without_a_gap_are_not_compared():
    y = sloped(12, "AB")
    nothing = build_ratings(np.full(y.shape, NAN), list("AB"), variant="10-scale")
    assert analysis_of(build_ratings(y, list("AB")), nothing).tables["comparisons"].empty


# --- The user's own model, the published heatmap ---------------------------------------------------------------------


def test_own_model_is_fitted_by_the_settings():
    """statsmodels on the same ratings; the coefficient of in_group is the contrast's δ, and its p by clusters a t's.

    Groups have as many terms: δ counts groups alike, and an own model counts ratings alike.
    """
    ratings = build_ratings(sloped(12, "AABBCC"), list("AABBCC"))
    formula = "intensity ~ in_group + C(perceiver) + C(experiencer) + C(narrative_id)"
    analysis = analysis_of(ratings, formula=formula, fit="ols", cluster="emotion")
    row = analysis.tables["own_model"].set_index("term").loc["in_group"]
    assert row["estimate"] == pytest.approx(row_of(analysis)["delta"], abs=1e-9)
    fitted = smf.ols(formula, ratings.astype({"in_group": float, "intensity": float})).fit()
    clustered = fitted.get_robustcov_results("cluster", groups=pd.factorize(ratings["emotion"])[0])
    assert row["se"] == pytest.approx(clustered.bse[fitted.model.exog_names.index("in_group")], rel=1e-6)
    assert analysis_of(ratings).tables["own_model"].empty
    with pytest.raises(ConfigError, match="intensty"):
        analysis_of(ratings, formula="intensty ~ in_group")


def test_published_cells_are_the_pairs_that_were_asked():
    y = sloped(9, "-AB")
    table = analysis_of(build_ratings(y, ["unspecified", "A", "B"])).tables["published_cells"]
    assert len(table) == 9
    row = table[(table["perceiver"] == "person 1 of A") & (table["experiencer"] == "person 2 of B")].iloc[0]
    assert row["p_perceiver"] == pytest.approx(stats.ttest_rel(y[:, 1, 2], y[:, 1, 1]).pvalue)
    assert row["p_experiencer"] == pytest.approx(stats.ttest_rel(y[:, 1, 2], y[:, 2, 2]).pvalue)
    level = 0.05 / (2 + 1) ** 2
    assert row["shown"] == (row["p_perceiver"] < level and row["p_experiencer"] < level)
    assert table["shown"].sum() == 5 + 2 + 2 * row["shown"]  # baselines, own cells


# --- Seeds and order -------------------------------------------------------------------------------------------------


def test_another_dimension_does_not_alter_a_p():
    ratings = build_ratings(ratings_between(20, 80, (30, 3, 3)), list("ABC"))
    other = build_ratings(ratings_between(20, 80, (30, 3, 3), seed=1), list("ABC"), dimension="nation")
    alone, together = analysis_of(ratings), analysis_of(other, ratings)
    for estimator in ("contrast", "published"):
        rows = [row_of(each, estimator).drop(["p_adjusted", "family_size"]) for each in (alone, together)]
        assert_series_equal(*rows, check_names=False)
    assert row_of(together)["p"] != row_of(together, dimension="nation")["p"]


def test_shuffled_gaps_are_kept_of_a_replication_alone():
    ratings = build_ratings(sloped(12, "ABC"), list("ABC"))
    plain = analyse(ratings, scales=SCALES, seed=1, settings=AnalysisSettings(n_permutations=200)).tables
    assert plain["null"].empty
    assert plain["gap"].query("estimator == 'published'")["null_low"].notna().all()
    assert not analysis_of(ratings).tables["null"].empty


def test_the_seed_alters_drawn_p_and_nulls_and_nothing_else():
    ratings = build_ratings(sloped(30, "AABCDEF"), list("AABCDEF"))
    first, second, other = analysis_of(ratings), analysis_of(ratings), analysis_of(ratings, seed=2)
    drawn = {"gap": ["p", "p_adjusted", "null_low", "null_high"], "null": ["low", "high", "n_shuffles"]}
    for name, table in first.tables.items():
        assert_frame_equal(table, second.tables[name], check_exact=True)
        tables = [each.drop(columns=drawn.get(name, [])) for each in (table, other.tables[name])]
        assert_frame_equal(*tables, check_exact=True)
    assert row_of(first, "published")["null_low"] != row_of(other, "published")["null_low"]


def test_neither_the_order_of_rows_nor_the_seed_alters_a_table_where_all_flips_and_shuffles_are_taken():
    """2⁷ flips and 5! shuffles are under 200. Rows of tables follow the ratings' order; their numbers do not."""
    ratings = build_ratings(sloped(7, "-ABCDE", holes=3), ["unspecified", *"ABCDE"])
    shuffled = ratings.sample(frac=1, random_state=3)
    analyses = [analysis_of(each, seed=seed, valence=VALENCE) for seed, each in enumerate((ratings, shuffled))]
    for name in TABLES:
        tables = []
        for analysis in analyses:
            table = analysis.tables[name].copy()
            if name == "families":  # a pair of groups has no order
                pair = [" and ".join(sorted(names)) for names in table[["member", "partner"]].to_numpy()]
                table = table.drop(columns="partner").assign(member=pair)
            labels = [column for column in table.select_dtypes(exclude="number") if column != "note"]
            tables.append(table.sort_values(labels, ignore_index=True))
        assert_frame_equal(*tables, rtol=1e-5, atol=1e-6, check_column_type=False)
    assert analyses[0].remarks == analyses[1].remarks != ()


def test_input_is_not_modified():
    ratings = build_ratings(ratings_between(20, 80, (3, 2, 2)), ["A", "B"])
    before = ratings.copy(deep=True)
    analysis_of(ratings)
    analyse(ratings, scales=SCALES, seed=1)
    assert_frame_equal(ratings, before)


# --- What cannot be estimated ---------------------------------------------------------------------------------------


def rated_where(y, rated):
    return np.where(rated, y, NAN)


SOME = ratings_between(20, 80, (6, 4, 4))
BAD = {
    "one perceiver": (SOME[:, :1, :3], "A", "ABC", "cannot tell in-group from the identity itself"),
    "one group": (SOME[:, :2, :2], "AA", None, "nothing is out-group"),
    "one pair": (SOME[:, :1, :1], "A", None, "nothing is out-group"),
    "no in-group pair": (SOME[:, :2, :2], "AB", "CD", "nothing is in-group"),
    "an identity without a rating": (rated_where(SOME, np.arange(4) != 3), "ABCD", None, ""),
    "in-group refused": (rated_where(SOME, np.eye(4) == 0), "ABCD", None, "no rated pair of identities is in-group"),
    "out-group refused": (rated_where(SOME, np.eye(4) == 1), "ABCD", None, "no rated pair of identities is out-group"),
    "everything refused": (rated_where(SOME, False), "ABCD", None, "no pair of identities has a rating"),
    "one rating": (rated_where(SOME[:1], np.arange(16).reshape(4, 4) == 1), "ABCD", None, "is in-group"),
    "all ratings equal": (np.full((5, 3, 3), 50.0), "ABC", None, "all 5 narratives give the same contrast"),
    "all equal but one missing": (rated_where(np.full((5, 3, 3), 1 / 3), np.arange(45).reshape(5, 3, 3) > 0), "ABC",
                                  None, "all 5 narratives give the same contrast"),
    "one contrast": (np.repeat(SOME[:, :1], 4, axis=1), "ABCD", None, "all 6 narratives give the same"),
    "one narrative": (SOME[:1], "ABCD", None, "one narrative says nothing about how narratives differ"),
    "one narrative, holed": (rated_where(SOME[:1], np.eye(4) == 1) + 0, "ABCD", None,
                             "no rated pair of identities is out-group"),
    "baselines only": (SOME[:, :1, :1], ["unspecified"], None, "the ratings hold baselines only"),
    "no intersection is shared": (SOME[:, :2, :2], [("A", "C"), ("B", "D")], [("A", "D"), ("B", "C")],
                                  "no perceiver shares every group"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_a_design_does_not_determine_is_a_row_with_a_note(name):
    """Nothing raises, nothing warns (pytest makes warnings errors), nothing is infinite or a number out of nothing."""
    y, groups, others, reason = BAD[name]
    ratings = build_ratings(y, list(groups), None if others is None else list(others))
    tables = analysis_of(ratings, margin=1.0, wanted=1.0, valence=VALENCE, clusters=CLUSTERS).tables
    gap = tables["gap"]
    assert gap["estimator"].tolist() == ["contrast"] * 2 + ["mixed"] * 2 + ["published"]
    assert (gap["n_narratives_asked"] == len(y)).all()
    assert reason in gap.loc[gap["headline"], "note"].iloc[0]
    for table, value in (
        ("gap", "se"), ("variances", "residual_variance"), ("families", "se"), ("power", "sd_contrast"),
        ("missing", "se"), ("sensitivity", "se"),
    ):  # fmt: skip
        unknown = tables[table][tables[table][value].isna()]
        if table == "sensitivity":  # a tipping point is a shift, and has no standard error
            unknown = unknown[unknown["shift_points"].isna()]
        assert (unknown["note"] != "").all()
    unknown = gap[(gap["estimator"] != "published") & gap["delta"].isna()]
    assert unknown[INTERVAL[:-2]].isna().all(axis=None)
    assert (unknown[INTERVAL[-2:]] == 0).all(axis=None)
    assert (tables["equivalence"]["verdict"][tables["equivalence"]["low"].isna()] == "not estimable").all()
    assert not any(np.isinf(table.select_dtypes("number").astype(float)).any(axis=None) for table in tables.values())


def test_an_identity_without_a_rating_is_left_out_of_the_mixed_model_and_remarked():
    y, *_ = BAD["an identity without a rating"]
    analysis = analysis_of(build_ratings(y, list("ABCD")))
    assert codes_of(analysis) == ["unrated_identity", "incomplete_narratives", "published_not_estimable"]
    assert "The experiencer 'person 3 of D' has no rating at all" in remarks_of(analysis)[0].text
    without = analysis_of(build_ratings(y[:, :, :3], list("ABCD"), list("ABC")))
    row, oracle = row_of(analysis, "mixed"), row_of(without, "mixed")
    assert row[["delta", "se"]].tolist() == pytest.approx(oracle[["delta", "se"]].tolist(), rel=1e-6)


def test_empty_ratings_give_empty_tables():
    analysis = analysis_of(build_ratings(np.ones((1, 2, 2)), ["A", "B"]).iloc[:0], formula="intensity ~ in_group")
    assert all(table.empty and list(table.columns) == list(TABLES[name]) for name, table in analysis.tables.items())
    assert sorted(analysis.tables) == sorted(TABLES)
    assert remarks_of(analysis) == []


def test_variant_without_a_scale_is_an_error():
    with pytest.raises(ValueError, match=r"variant 'persona-1'.*there are: origin, 10-scale"):
        analysis_of(build_ratings(np.ones((1, 2, 2)), ["A", "B"], variant="persona-1"))


def test_duplicate_prompts_and_unknown_statuses_are_errors():
    ratings = build_ratings(ratings_between(20, 80, (3, 2, 2)), ["A", "B"])
    with pytest.raises(ValueError, match="2 rows of dimension 'religion'"):
        analysis_of(ratings, ratings.iloc[:1])
    with pytest.raises(ValueError, match="status 'done'"):
        analysis_of(ratings.assign(status="done"))


# --- Remarks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "groups", "codes", "text"),
    [
        (np.full((3, 2, 2), NAN), "AB", ["nothing_rated"], "None of 12 prompts has a rating (12 refused, 0 unpars"),
        (SOME[:, :2, :2], "AA", ["not_estimable", "published_not_estimable"], "cannot be estimated: every perceiver"),
        (SOME[:, :1, :1], ["unspecified"], ["not_estimable"], "cannot be estimated: the ratings hold baselines only"),
        (np.full((5, 2, 2), 50.0), "AB", ["no_interval", "published_not_estimable"], "no interval: all 5 narratives"),
        (SOME[:1], "ABCD", ["no_interval"], "no interval: one narrative"),
    ],
    ids=["nothing rated", "one group", "baselines only", "all equal", "one narrative"],
)
def test_gap_without_an_estimate_or_an_interval_is_remarked_once(y, groups, codes, text):
    analysis = analysis_of(build_ratings(y, list(groups)))
    assert codes_of(analysis) == codes
    assert text in remarks_of(analysis)[0].text


def test_no_complete_narrative_is_remarked_and_leaves_their_own_gaps():
    y = sloped(6, "ABC")
    y[:, 0, 0] = NAN
    analysis = analysis_of(build_ratings(y, list("ABC"), missing_status="unparseable"))
    assert codes_of(analysis) == ["incomplete_narratives", "published_not_estimable"]
    text = remarks_of(analysis)[0].text
    assert text.startswith("Only 0 of 6 narratives (0%)")
    assert "δ uses 48 ratings of 6 narratives." in text
    assert "These alone" not in text
    assert row_of(analysis)["se"] > 0


@pytest.mark.parametrize(("n_holed", "remarked"), [(2, False), (3, True)])
def test_under_80_percent_complete_narratives_are_remarked(n_holed, remarked):
    y = ratings_between(20, 80, (10, 2, 2))
    y[:n_holed, 0, 0] = NAN
    analysis = analysis_of(build_ratings(y, ["A", "B"], missing_status="failed"))
    assert codes_of(analysis) == ["incomplete_narratives"] * remarked
    if remarked:
        assert "7 of 10 narratives (70%)" in remarks_of(analysis)[0].text
        assert f"These alone give a δ of {points(row_of(analysis)['delta'])}." in remarks_of(analysis)[0].text


@pytest.mark.parametrize(("n_at_end", "remarked"), [(3, False), (4, True), (5, True)])
@pytest.mark.parametrize("end", [0, 100])
def test_10_percent_at_an_end_of_the_scale_or_more_are_remarked(n_at_end, remarked, end):
    y = ratings_between(20, 80, (10, 2, 2))
    y[:n_at_end, 0, 0] = end
    analysis = analysis_of(build_ratings(y, ["A", "B"]))
    sensitivity = analysis.tables["sensitivity"].set_index("check")
    assert codes_of(analysis) == ["scale_end"] * remarked
    assert ("tobit" in sensitivity.index) == remarked
    if remarked:
        text = remarks_of(analysis)[0].text
        assert f"{n_at_end / 40:.0%} of the ratings between identities are at the end {end} of" in text
        assert f"δ would be {points(sensitivity.loc['tobit', 'delta'])} (interval" in text


def test_ratings_at_an_end_that_belong_to_a_baseline_alone_do_not_limit_a_gap():
    y = ratings_between(20, 80, (10, 3, 3))
    y[:, 2] = y[:, :, 2] = 100
    analysis = analysis_of(build_ratings(y, ["A", "B", "unspecified"]))
    assert codes_of(analysis) == []
    assert "tobit" not in analysis.tables["sensitivity"]["check"].tolist()


def test_where_a_scale_without_ends_can_not_be_estimated_the_remark_says_so():
    y = np.where(ratings_between(0, 100, (10, 2, 2)) > 50, 100.0, 0.0)
    texts = [remark.text for remark in analysis_of(build_ratings(y, ["A", "B"])).remarks if remark.code == "scale_end"]
    assert texts
    assert all("cannot be estimated: no rating lies between the ends of the scale." in text for text in texts)


@pytest.mark.parametrize(("n_refused", "remarked"), [(2, False), (3, False), (10, True)])
def test_a_refusal_gap_of_over_one_point_that_is_no_accident_is_remarked(n_refused, remarked):
    """Of 200 out-group prompts: 1.0, 1.5 and 5.0 points. Three refusals are compatible with no gap."""
    y = ratings_between(20, 80, (100, 2, 2))
    y[:n_refused, 0, 1] = NAN
    analysis = analysis_of(build_ratings(y, ["A", "B"]))
    assert codes_of(analysis) == ["refusal_gap"] * remarked
    if remarked:
        text = remarks_of(analysis)[0].text
        assert "0% of in-group and 5.0% of out-group prompts, a refusal gap of −5.00" in text
        # Refused by pair alone, drawn apart from the ratings: nothing is known of what they would have been.
        assert "at random" not in text
        assert "δ only covers prompts that were rated. sensitivity.csv shows" in text


def test_a_refusal_gap_that_all_narratives_show_alike_is_remarked_and_one_narratives_is_not():
    """Neither has an interval: in the first, since no narrative differs; in the second, since there is one."""
    y = ratings_between(20, 80, (30, 3, 3))
    y[:, 0, 1] = NAN
    assert "refusal_gap" in codes_of(analysis_of(build_ratings(y, list("ABC"))))
    assert "refusal_gap" not in codes_of(analysis_of(build_ratings(y[:1], list("ABC"))))


def test_refusals_of_one_identity_throughout_are_no_refusal_gap():
    """With groups of unequal numbers of terms its raw rates differ; the contrast of the refusals is free of it."""
    y = ratings_between(20, 80, (100, 3, 3))
    y[:50, 2] = NAN  # of person C in-group 50 of 500 prompts, out-group 100 of 400
    analysis = analysis_of(build_ratings(y, list("AAC")))
    assert "refusal_gap" not in codes_of(analysis)
    row = analysis.tables["missing"].query("outcome == 'refused'").iloc[0]
    assert row[["rate_in_group", "rate_out_group"]].tolist() == [0.1, 0.25]
    assert row["gap_pp"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("number_mass", "remarked"), [(0.5, False), (0.4, True), (NAN, False)])
def test_low_number_mass_is_remarked(number_mass, remarked):
    analysis = analysis_of(build_ratings(ratings_between(20, 80, (3, 2, 2)), ["A", "B"], number_mass=number_mass))
    assert codes_of(analysis) == ["number_mass"] * remarked
    assert analysis.tables["outcomes"]["low_mass_share"].isna().all() == np.isnan(number_mass)
    assert "number_mass" not in codes_of(
        analysis_of(build_ratings(SOME, list("ABCD"), number_mass=0.4), min_number_mass=0.3)
    )


@pytest.mark.parametrize("groups", [("A", "B"), ("A", "B", "C", "D")])
@pytest.mark.parametrize("in_group", [True, False])
def test_low_number_mass_of_in_group_or_out_group_prompts_alone_is_remarked(groups, in_group):
    k = len(groups)
    table = build_ratings(ratings_between(20, 80, (8, k, k)), list(groups), number_mass=0.95)
    table.loc[table["in_group"] == in_group, "number_mass"] = 0.4
    analysis = analysis_of(table)
    [remark] = [each for each in remarks_of(analysis) if each.code == "number_mass"]
    assert analysis.tables["outcomes"].set_index("pairs").loc["all", "mean_number_mass"] > 0.5
    assert "0.40" in remark.text
    assert ("in-group" if in_group else "out-group") in remark.text


@pytest.mark.parametrize("side", ["perceiver", "experiencer"])
def test_low_number_mass_of_one_identity_alone_is_remarked(side):
    table = build_ratings(ratings_between(20, 80, (8, 4, 4)), ["A", "B", "C", "unspecified"], number_mass=0.95)
    table.loc[table[side] == "person 1 of B", "number_mass"] = 0.25
    table.loc[table[side] == "person 3 of unspecified", "number_mass"] = 0.1
    [remark] = [each for each in remarks_of(analysis_of(table)) if each.code.startswith("number_mass")]
    assert remark.code == "number_mass_identity"
    assert f"about the {side} 'person 1 of B' (0.25) with a number" in remark.text


def test_a_fit_that_was_not_confirmed_is_noted_in_its_rows_and_remarked_once(monkeypatch):
    fit = fit_mixed
    monkeypatch.setattr(rows, "fit_mixed", lambda *a, **o: dataclasses.replace(fit(*a, **o), converged=False))
    analysis = analysis_of(build_ratings(sloped(12, "ABC"), list("ABC")))
    assert codes_of(analysis) == ["not_converged"]
    note = "the optimum of the likelihood could not be confirmed"
    assert row_of(analysis, "mixed")["note"] == note
    assert analysis.tables["variances"]["note"].tolist() == ["", note]
    assert row_of(analysis)["note"] == ""


def test_each_variant_is_judged_on_its_own_scale():
    y = ratings_between(2, 8, (5, 2, 2))
    y[:, 0, 0] = 10
    analysis = analysis_of(build_ratings(y, ["A", "B"]), build_ratings(y, ["A", "B"], variant="10-scale"))
    assert [(remark.variant, remark.code) for remark in remarks_of(analysis)] == [("10-scale", "scale_end")]


@pytest.mark.parametrize(("n", "remarked"), [(19, True), (20, False)])
def test_under_20_narratives_are_remarked(n, remarked):
    analysis = analysis_of(build_ratings(ratings_between(20, 80, (n, 3, 3)), list("ABC")))
    assert ("few_narratives" in [remark.code for remark in analysis.remarks]) == remarked
    if remarked:
        assert "δ comes from only 19 narratives" in analysis.remarks[0].text


@pytest.mark.parametrize(("n_missing", "remarked"), [(20, False), (21, True), (200, False)])
def test_over_10_percent_of_prompts_without_a_rating_are_remarked(n_missing, remarked):
    """Of 50 · 2 · 2 prompts; where none is rated, another remark says so."""
    y = ratings_between(20, 80, (50, 2, 2))
    y.reshape(-1)[:n_missing] = np.nan
    analysis = analysis_of(build_ratings(y, list("AB")))
    texts = [remark.text for remark in analysis.remarks if remark.code == "many_missing"]
    assert [text.startswith("21 of 200 prompts between identities (10.5%)") for text in texts] == [True] * remarked
