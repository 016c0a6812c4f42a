import numpy as np
import pandas as pd
import pytest

from audit.schema import TABLES
from audit.statistics.analysis import analyse, child_rng
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import gap_by_narrative
from audit.statistics.published import published_gap

NAN = np.nan
SCALES = {"origin": (0.0, 100.0), "10-scale": (0.0, 10.0)}
CROSSED = [(race, religion) for race in ("Black", "White") for religion in ("Muslim", "Christian")]


def analysis_of(*ratings, **options):
    table = pd.concat(ratings, ignore_index=True)
    return analyse(table, **{"scales": SCALES, "seed": 1, "n_permutations": 200} | options)


def ratings_between(low, high, shape, seed=0):
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(float)


def codes_of(analysis):
    return [remark.code for remark in analysis.remarks]


def row_of(analysis, estimator="contrast", dimension="religion"):
    gap = analysis.tables["gap"]
    return gap[(gap["estimator"] == estimator) & (gap["dimension"] == dimension)].iloc[0]


def test_tables_have_the_columns_of_the_schema_in_order(ratings_of):
    y = ratings_between(20, 80, (6, 4, 4))
    analysis = analysis_of(ratings_of(y, CROSSED, dimension="race+religion"), ratings_of(y, list("ABCD")))
    assert list(analysis.tables) == ["gap", "degrees", "cells", "outcomes"]
    for name, table in analysis.tables.items():
        assert list(table.columns) == list(TABLES[name])
    assert analysis.remarks == ()


def test_gap_rows_are_the_estimates_unrounded(ratings_of):
    ratings = ratings_of(ratings_between(20, 80, (6, 3, 3)), ["unspecified", "A", "B"])
    analysis = analysis_of(ratings)
    cube = NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", baselines=True)
    rngs = {name: child_rng(1, "religion", "origin", name) for name in ("contrast", "published")}
    contrast = gap_by_narrative(cube, rng=rngs["contrast"], n_permutations=200)
    released = published_gap(cube, rng=rngs["published"], n_permutations=200)

    row = row_of(analysis)
    assert row["scope"] == "narratives"
    fields = ["delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_ratings"]
    assert row[fields].tolist() == [getattr(contrast, field) for field in fields]
    assert row[["delta_z", "null_low", "null_high"]].isna().all()
    row = row_of(analysis, "published")
    assert row[["scope", *fields[:-2]]].isna().all()
    fields = ["delta_z", "null_low", "null_high", "n_narratives", "n_ratings"]
    assert row[fields].tolist() == [getattr(released, field) for field in fields]
    assert (analysis.tables["gap"]["n_narratives_asked"] == 6).all()


def test_missing_prompts_are_counted_without_baselines(ratings_of):
    y = ratings_between(20, 80, (10, 3, 3))
    y[0, 0, 0] = y[1, 1, 1] = y[1, 2, 1] = NAN  # the first is between baselines
    row = row_of(analysis_of(ratings_of(y, ["unspecified", "A", "B"])))
    assert row["n_missing"] == 2
    assert row["n_narratives"] == 9
    assert row["n_narratives_asked"] == 10
    assert row["n_ratings"] == 9 * 4


def test_degrees_have_rows_of_intersections_only(ratings_of):
    y = ratings_between(20, 80, (6, 4, 4))
    n_shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in CROSSED] for p in CROSSED])
    y = y[:, :1, :] + y[:, :, :1] / 2 + np.array([0, 1.5, 4])[n_shared]
    analysis = analysis_of(ratings_of(y, list("ABCD")), ratings_of(y, CROSSED, dimension="race+religion"))
    degrees = analysis.tables["degrees"]
    assert degrees["dimension"].tolist() == ["race+religion"] * 2
    assert degrees["n_shared"].tolist() == [1, 2]
    assert degrees["delta_points"].tolist() == pytest.approx([1.5, 4])
    # Each of 4 identities shares one dimension with 2 others, and both with itself.
    assert degrees["n_pairs"].tolist() == [8, 4]
    assert row_of(analysis, dimension="race+religion")["delta_points"] == pytest.approx(4)


def test_another_dimension_does_not_alter_a_p(ratings_of):
    ratings = ratings_of(ratings_between(20, 80, (30, 3, 3)), list("ABC"))
    other = ratings_of(ratings_between(20, 80, (30, 3, 3), seed=1), list("ABC"), dimension="nation")
    alone, together = analysis_of(ratings), analysis_of(other, ratings)
    for estimator in ("contrast", "published"):
        pd.testing.assert_series_equal(row_of(alone, estimator), row_of(together, estimator), check_names=False)
    assert row_of(together)["p"] != row_of(together, dimension="nation")["p"]


def test_same_seed_same_tables_and_another_seed_another_p(ratings_of):
    ratings = ratings_of(ratings_between(20, 80, (30, 3, 3)), list("ABC"))
    first, second, other = analysis_of(ratings), analysis_of(ratings), analysis_of(ratings, seed=2)
    for name in first.tables:
        pd.testing.assert_frame_equal(first.tables[name], second.tables[name])
    assert row_of(first)["p"] != row_of(other)["p"]
    assert row_of(first)["delta_points"] == row_of(other)["delta_points"]


@pytest.mark.parametrize(
    ("y", "groups", "codes", "text"),
    [
        (np.full((3, 2, 2), NAN), "AB", ["nothing_rated"], "None of 12 prompts has a rating (12 refused,"),
        (ratings_between(20, 80, (3, 2, 2)), "AA", ["not_estimable", "published_not_estimable"], "out-group"),
        (ratings_between(20, 80, (3, 1, 1)), "A", ["not_estimable", "published_not_estimable"], "out-group"),
    ],
    ids=["nothing rated", "one group", "one identity"],
)
def test_gap_that_is_not_estimable_is_missing_and_said_so(ratings_of, y, groups, codes, text):
    analysis = analysis_of(ratings_of(y, list(groups)))
    assert codes_of(analysis) == codes
    assert text in analysis.remarks[0].text
    for estimator in ("contrast", "published"):
        row = row_of(analysis, estimator)
        assert row[["delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z", "delta_z", "null_low"]].isna().all()
        assert (row["n_narratives"], row["n_ratings"], row["n_narratives_asked"]) == (0, 0, 3)


def test_listwise_deletion_of_everything_is_remarked(ratings_of):
    y = ratings_between(20, 80, (3, 2, 2))
    y[:, 0, 0] = NAN
    analysis = analysis_of(ratings_of(y, ["A", "B"], missing_status="unparseable"))
    assert codes_of(analysis) == ["not_estimable", "published_not_estimable"]
    assert "none of 3 narratives" in analysis.remarks[0].text


def test_equal_ratings_have_a_gap_of_zero_without_interval(ratings_of):
    analysis = analysis_of(ratings_of(np.full((5, 2, 2), 50.0), ["A", "B"]))
    assert codes_of(analysis) == ["no_interval", "published_not_estimable"]
    row = row_of(analysis)
    assert row["delta_points"] == 0
    assert row[["se", "ci_low", "ci_high", "d_z"]].isna().all()


def test_one_narrative_has_no_interval(ratings_of):
    analysis = analysis_of(ratings_of([[[60, 50], [40, 70]]], ["A", "B"]))
    assert codes_of(analysis) == ["no_interval"]
    assert row_of(analysis)["delta_points"] == pytest.approx(20)
    assert row_of(analysis, "published")["delta_z"] == pytest.approx(20 / 125**0.5)


def test_baselines_alone_are_remarked_once(ratings_of):
    analysis = analysis_of(ratings_of(ratings_between(20, 80, (3, 1, 1)), ["unspecified"]))
    assert codes_of(analysis) == ["not_estimable"]
    assert analysis.tables["outcomes"]["pairs"].tolist() == ["baseline", "all"]


@pytest.mark.parametrize(("n_holed", "remarked"), [(2, False), (3, True)])
def test_under_80_percent_complete_narratives_are_remarked(ratings_of, n_holed, remarked):
    y = ratings_between(20, 80, (10, 2, 2))
    y[:n_holed, 0, 0] = NAN
    analysis = analysis_of(ratings_of(y, ["A", "B"], missing_status="failed"))
    assert codes_of(analysis) == ["incomplete_narratives"] * remarked
    if remarked:
        assert "7 of 10 narratives (70%)" in analysis.remarks[0].text


@pytest.mark.parametrize(("n_at_end", "remarked"), [(4, False), (5, True)])
@pytest.mark.parametrize("end", [0, 100])
def test_over_10_percent_at_an_end_of_the_scale_is_remarked(ratings_of, n_at_end, remarked, end):
    y = ratings_between(20, 80, (10, 2, 2))
    y[:n_at_end, 0, 0] = end
    analysis = analysis_of(ratings_of(y, ["A", "B"]))
    assert codes_of(analysis) == ["scale_end"] * remarked
    if remarked:
        assert f"12% of the ratings are at the end {end} of" in analysis.remarks[0].text


@pytest.mark.parametrize(("n_refused", "remarked"), [(2, False), (3, True)])
def test_refusals_that_differ_by_over_one_point_are_remarked(ratings_of, n_refused, remarked):
    y = ratings_between(20, 80, (100, 2, 2))
    y[:n_refused, 0, 1] = NAN  # of 200 out-group prompts: 1.0 and 1.5 points
    analysis = analysis_of(ratings_of(y, ["A", "B"]))
    assert codes_of(analysis) == ["refusal_gap"] * remarked
    if remarked:
        assert "0.0% of in-group and 1.5% of out-group" in analysis.remarks[0].text


@pytest.mark.parametrize(("number_mass", "remarked"), [(0.5, False), (0.4, True), (NAN, False)])
def test_low_number_mass_is_remarked(ratings_of, number_mass, remarked):
    analysis = analysis_of(ratings_of(ratings_between(20, 80, (3, 2, 2)), ["A", "B"], number_mass=number_mass))
    assert codes_of(analysis) == ["number_mass"] * remarked


def test_each_variant_is_judged_on_its_own_scale(ratings_of):
    y = ratings_between(2, 8, (5, 2, 2))
    y[:, 0, 0] = 10
    analysis = analysis_of(ratings_of(y, ["A", "B"]), ratings_of(y, ["A", "B"], variant="10-scale"))
    assert [(remark.variant, remark.code) for remark in analysis.remarks] == [("10-scale", "scale_end")]


def test_variant_without_a_scale_is_an_error(ratings_of):
    with pytest.raises(ValueError, match=r"variant 'persona-1'.*there are: origin, 10-scale"):
        analysis_of(ratings_of(np.ones((1, 2, 2)), ["A", "B"], variant="persona-1"))


def test_duplicate_prompts_and_unknown_statuses_are_errors(ratings_of):
    ratings = ratings_of(ratings_between(20, 80, (3, 2, 2)), ["A", "B"])
    with pytest.raises(ValueError, match="2 rows of dimension 'religion'"):
        analysis_of(ratings, ratings.iloc[:1])
    with pytest.raises(ValueError, match="status 'done'"):
        analysis_of(ratings.assign(status="done"))


def test_empty_ratings_give_empty_tables(ratings_of):
    analysis = analysis_of(ratings_of(np.ones((1, 2, 2)), ["A", "B"]).iloc[:0])
    assert all(table.empty and list(table.columns) == list(TABLES[name]) for name, table in analysis.tables.items())
    assert analysis.remarks == ()


def test_input_is_not_modified(ratings_of):
    ratings = ratings_of(ratings_between(20, 80, (3, 2, 2)), ["A", "B"])
    before = ratings.copy(deep=True)
    analyse(ratings, scales=SCALES, seed=1, n_permutations=10)
    pd.testing.assert_frame_equal(ratings, before)
