from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from complete_gaps import gap_by_narrative
from cubes import contrast_weights, cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sandwiches import bell_mccaffrey
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics import sensitivity
from audit.statistics.headline import headline_gap
from audit.statistics.missing import missing_rows
from audit.statistics.mixed import fit_mixed
from audit.statistics.sensitivity import sensitivity_rows, weighted_gap
from audit.tables.controls import SENSITIVITY

NAN = np.nan
NO_SHIFT = "no shift on the scale explains δ away"
ONE = np.ones((1, 1, 1))
CROSSED = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in ("xu", "xv", "yu", "yv", "yw")]
                    for p in ("xu", "xv", "yu", "yv", "yw")])  # fmt: skip
DESIGNS = {
    "one-term groups": mask_of(list("ABCD")),
    "unequal groups": mask_of(list("AABBBC")),
    "non-square": mask_of(list("AAB"), list("ABBCC")),
    "crossed": CROSSED,
}
FIELDS = ["delta", "se", "df", "ci_low", "ci_high", "p", "d_z"]


def ratings_with_effects(n_shared, n, rng, *, gap=3.0, missing=0.0):
    """Ratings in points with effects of narratives, their slopes and identities; NaN at random."""
    p, e = n_shared.shape
    y = 50 + rng.normal(0, 8, (n, 1, 1)) + rng.normal(0, 5, (1, p, 1)) + rng.normal(0, 5, (1, 1, e))
    y = y + rng.normal(gap, 2, (n, 1, 1)) * (n_shared == n_shared.max()) + rng.normal(0, 4, (n, p, e))
    return np.where(rng.random(y.shape) < missing, NAN, y)


def table_of(cube, headline=None, *, low=0, high=100, confidence=0.95, min_number_mass=0.5, every=True):
    if headline is None:
        try:
            headline = headline_gap(cube, confidence=confidence)
        except NotEstimableError as error:
            headline = error
    rows = list(
        sensitivity_rows(
            cube,
            headline=headline,
            low=low,
            high=high,
            confidence=confidence,
            min_number_mass=min_number_mass,
            every=every,
        )
    )
    assert all(sorted(row) == sorted(SENSITIVITY) for row in rows)
    return pd.DataFrame(rows, columns=list(SENSITIVITY)).set_index("check")


# --- Weighted least squares on narrative effects ---------------------------------------------------------------------


@pytest.mark.parametrize("n_shared", DESIGNS.values(), ids=DESIGNS)
def test_equal_weights_on_complete_ratings_give_the_contrast_s_estimate(n_shared):
    cube = cube_of(ratings_with_effects(n_shared, 12, np.random.default_rng(1)), n_shared)
    contrast = gap_by_narrative(cube, rng=np.random.default_rng(0))
    for weight in (1.0, 0.3):
        ours = weighted_gap(cube, weight * ONE, confidence=0.95)
        assert [getattr(ours, name) for name in FIELDS] == pytest.approx(
            [getattr(contrast, name) for name in FIELDS], rel=1e-10, abs=1e-10
        )
        np.testing.assert_allclose(ours.by_narrative, contrast.by_narrative, rtol=0, atol=1e-10)
        assert (ours.n_narratives, ours.n_answers, ours.not_estimable) == (12, cube.y.size, "")


def explicit(cube, weights):
    """Dummies of every used rating: in-group, lesser degrees, narratives, all but a perceiver and an experiencer."""
    i, p, e = np.nonzero((np.broadcast_to(weights, cube.y.shape) > 0) & ~np.isnan(cube.y))
    shared = cube.n_shared[p, e]
    degrees = [shared == degree for degree in range(cube.n_shared.max(), 0, -1)]
    terms = [codes == code for codes, first in ((i, 0), (p, 1), (e, 1)) for code in np.unique(codes)[first:]]
    x = np.column_stack([*degrees, *terms]).astype(float)
    return cube.y[i, p, e], x, np.broadcast_to(weights, cube.y.shape)[i, p, e], i


@pytest.mark.parametrize("n_shared", DESIGNS.values(), ids=DESIGNS)
def test_weighted_gap_equals_least_squares_on_explicit_dummies(n_shared):
    """statsmodels WLS with its cluster covariance without small-sample factors, and the sandwich written out."""
    rng = np.random.default_rng(2)
    cube = cube_of(ratings_with_effects(n_shared, 15, rng, missing=0.3), n_shared)
    weights = np.where(rng.random(cube.y.shape) < 0.1, rng.choice([0.0, NAN]), rng.uniform(0, 1, cube.y.shape))
    y, x, w, narrative = explicit(cube, weights)
    fit = sm.WLS(y, x, weights=w).fit()
    clustered = fit.get_robustcov_results("cluster", groups=narrative, use_correction=False)
    bread = np.linalg.inv((x * w[:, None]).T @ x)
    scores = np.stack([x.T @ np.where(narrative == i, w * fit.resid, 0) for i in range(15)])
    sandwich = bread @ scores.T @ scores @ bread
    assert clustered.bse[0] == pytest.approx(sandwich[0, 0] ** 0.5, rel=1e-8)

    ours = weighted_gap(cube, weights, confidence=0.9)
    se, df = bell_mccaffrey(x * w[:, None] ** 0.5, y * w**0.5, narrative, np.eye(1, x.shape[1])[0])
    assert se == pytest.approx(clustered.bse[0] * (15 / 14) ** 0.5, rel=0.1)
    half = stats.t.ppf(0.95, df) * se
    delta = fit.params[0]
    assert [getattr(ours, name) for name in FIELDS] == pytest.approx(
        [delta, se, df, delta - half, delta + half, 2 * stats.t.sf(abs(delta / se), df), delta / se / 15**0.5], rel=1e-7
    )
    assert ours.n_answers == y.size
    np.testing.assert_allclose(ours.by_narrative, delta + 15 * scores @ bread[0], rtol=0, atol=1e-8)
    assert ours.by_narrative.mean() == pytest.approx(delta, abs=1e-9)


def test_narratives_with_one_kind_of_pair_count_for_identities_but_not_for_degrees_of_freedom():
    rng = np.random.default_rng(3)
    n_shared = mask_of(list("ABCD"))
    y = ratings_with_effects(n_shared, 9, rng)
    y[0] = NAN
    y[1][n_shared == 1] = NAN
    y[2][n_shared == 0] = NAN
    cube = cube_of(y, n_shared)
    ours = weighted_gap(cube, ONE, confidence=0.95)
    values, x, w, narrative = explicit(cube, ONE)
    fit = sm.WLS(values, x, weights=w).fit()
    se, df = bell_mccaffrey(x, values, narrative, np.eye(1, x.shape[1])[0])
    assert [ours.delta, ours.se, ours.df] == pytest.approx([fit.params[0], se, df])
    assert df < 6  # 6 narratives tell of the gap
    assert (ours.n_narratives, ours.n_narratives_asked) == (8, 9)
    assert np.flatnonzero(np.isnan(ours.by_narrative)).tolist() == [0]


def test_identities_that_nothing_is_known_of_do_not_matter():
    n_shared = mask_of(list("ABCD"))
    y = ratings_with_effects(n_shared, 9, np.random.default_rng(4))
    weights = np.ones_like(y)
    weights[:, 3] = weights[:, :, 3] = 0
    ours = weighted_gap(cube_of(y, n_shared), weights, confidence=0.95)
    without = weighted_gap(cube_of(y[:, :3, :3], n_shared[:3, :3]), ONE, confidence=0.95)
    assert [ours.delta, ours.se] == pytest.approx([without.delta, without.se], rel=1e-10)


@pytest.mark.parametrize(
    ("y", "fields", "reason"),
    [
        (np.full((3, 2, 2), NAN), {}, "none of 12 prompts has a rating of a weight above 0"),
        ([[[1, NAN], [NAN, 2]]] * 3, {}, "no out-group pair has a rating"),
        ([[[NAN, 1], [2, NAN]]] * 3, {}, "no in-group pair has a rating"),
        (np.ones((3, 2, 2)), {"groups": "AA"}, "no out-group pair has a rating"),
        ([[[1, NAN], [NAN, 2]], [[NAN, 1], [2, NAN]]], {}, "none of 2 narratives has both an in-group and an out-g"),
        ([[[1, 2], [NAN, NAN]], [[1, 3], [NAN, NAN]]], {}, "in the 2 of 2 × 2 pairs whose ratings are used"),
    ],
)
def test_what_ratings_do_not_determine_is_refused_in_words(y, fields, reason):
    with pytest.raises(NotEstimableError, match=reason):
        weighted_gap(cube_of(y, **fields), ONE, confidence=0.95)


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match=r"a weight is -0\.5"):
        weighted_gap(cube_of(np.ones((2, 2, 2))), -0.5 * ONE, confidence=0.95)


# --- The rows --------------------------------------------------------------------------------------------------------


def test_nothing_missing_leaves_the_headline_as_it_is():
    cube = cube_of(ratings_with_effects(mask_of(list("ABC")), 8, np.random.default_rng(5)))
    headline = headline_gap(cube, confidence=0.95)
    table = table_of(cube, headline)
    assert table.index.tolist() == [
        "listwise", "equal_narratives", "within_narratives", "mixed_crossed", "worst_case_low", "worst_case_high",
        "tipping_point", "ranks",
    ]  # fmt: skip
    plain = table_of(cube, headline, every=False)
    assert plain.index.tolist() == ["listwise", "worst_case_low", "worst_case_high", "tipping_point"]
    pd.testing.assert_frame_equal(plain, table.loc[plain.index])
    crossed = fit_mixed(cube, crossed=True).estimate(confidence=0.95)
    for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers"):
        assert table.loc["mixed_crossed", name] == pytest.approx(getattr(crossed, name), rel=1e-12)
    same = ["listwise", "equal_narratives", "within_narratives", "worst_case_low", "worst_case_high"]
    columns = ["delta", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers"]
    expected = [getattr(headline, name) for name in columns]
    for check in same:
        assert table.loc[check, columns].tolist() == pytest.approx(expected, rel=1e-9)
    assert table.loc[same, "share"].tolist() == pytest.approx([1, NAN, NAN, 0, 0], nan_ok=True)
    assert table.loc["tipping_point", ["shift_points", "note"]].tolist() == pytest.approx(
        [NAN, "no rating is missing"], nan_ok=True
    )
    assert table["unit"].tolist() == ["points"] * 7 + ["percentile points"]


def test_bounds_and_listwise_worked_by_hand():
    # w = ±1/2 on a scale of 0 to 10. Complete: (9 + 8 − 3 − 4)/2 = 5 and (5 + 5 − 5 − 3)/2 = 1: mean 3, sd √8, se 2.
    # Third: an in-group and an out-group one missing: (7 + 0 − 5 − 10)/2 = −4 up to (7 + 10 − 5 − 0)/2 = 6.
    y = np.array([[[9, 3], [4, 8]], [[5, 5], [3, 5]], [[7, 5], [NAN, NAN]]], dtype=float)
    table = table_of(cube_of(y), low=0, high=10)
    assert table.loc["listwise", ["delta", "se", "df", "share"]].tolist() == pytest.approx([3, 2, 1, 2 / 3])
    assert table.loc["worst_case_low", ["delta", "share", "n_answers"]].tolist() == pytest.approx(
        [(5 + 1 - 4) / 3, 2 / 12, 12]
    )
    assert table.loc["worst_case_high", "delta"] == pytest.approx((5 + 1 + 6) / 3)
    interval = stats.ttest_1samp([5, 1, -4], 0).confidence_interval(0.95)
    assert table.loc["worst_case_low", ["ci_low", "ci_high"]].tolist() == pytest.approx(list(interval))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(list(DESIGNS.values())), st.floats(0.05, 1))
def test_no_ratings_on_the_scale_lead_beyond_the_bounds(seed, n, n_shared, missing):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random((n, *n_shared.shape)) < missing, NAN, rng.integers(0, 11, (n, *n_shared.shape)))
    bounds = table_of(cube_of(y, n_shared), NotEstimableError("unread"), low=0, high=10)["delta"]
    w = contrast_weights(n_shared)[-1]
    for fill in (rng.integers(0, 11, y.shape), rng.choice([0, 10], y.shape)):
        delta = (np.where(np.isnan(y), fill, y) * w).sum(axis=(1, 2)).mean()
        assert bounds["worst_case_low"] - 1e-9 <= delta <= bounds["worst_case_high"] + 1e-9


def test_bounds_are_reached_by_ratings_at_the_ends():
    rng = np.random.default_rng(6)
    n_shared = mask_of(list("AABBBC"))
    y = ratings_with_effects(n_shared, 5, rng, missing=0.4)
    table = table_of(cube_of(y, n_shared))
    w = contrast_weights(n_shared)[-1]
    for check, at_positive, at_negative in (("worst_case_low", 0, 100), ("worst_case_high", 100, 0)):
        filled = np.where(np.isnan(y), np.where(w > 0, at_positive, at_negative), y)
        assert table.loc[check, "delta"] == pytest.approx((filled * w).sum(axis=(1, 2)).mean())


def test_at_the_tipping_point_the_gap_of_the_filled_ratings_is_0():
    """Ratings without noise: what the headline assumes of a missing one is its true value."""
    rng = np.random.default_rng(7)
    n_shared = mask_of(list("AABC"))
    y = rng.normal(50, 9, (20, 1, 1)) + rng.normal(0, 5, (4, 1)) + rng.normal(0, 5, 4)
    y = y + rng.normal(2, 1, (20, 1, 1)) * n_shared
    missing = rng.random(y.shape) < np.where(n_shared == 1, 0.1, 0.4)
    truth = headline_gap(cube_of(y, n_shared), confidence=0.95)
    cube = cube_of(np.where(missing, NAN, y), n_shared)
    row = table_of(cube, truth).loc["tipping_point"]
    filled = cube_of(y + row["shift_points"] * missing, n_shared)
    assert headline_gap(filled, confidence=0.95).delta == pytest.approx(0, abs=1e-9)
    # The out-group's are missing more often, so they are what must be higher for a gap of 2 to vanish.
    assert row["shift_points"] > 0
    assert row[["share", "n_narratives", "n_answers", "note"]].tolist() == [missing.mean(), 20, y.size, ""]
    assert np.isnan(row["delta"])
    gap_pp = [r["gap_pp"] for r in missing_rows(cube, confidence=0.95) if r["outcome"] == "missing"]
    assert row["shift_points"] == pytest.approx(-truth.delta / (gap_pp[0] / 100))


def test_at_the_tipping_point_the_mean_of_all_filled_narratives_moves_by_the_headline():
    """Each narrative completed by numpy's least squares, and by the shift: all of them, whatever they weigh in δ."""
    rng = np.random.default_rng(8)
    n_shared = mask_of(list("ABCD"))
    cube = cube_of(ratings_with_effects(n_shared, 25, rng, missing=0.2), n_shared)
    headline = headline_gap(cube, confidence=0.95)
    p, e = (axis.ravel() for axis in np.indices((4, 4)))
    x = np.column_stack([*(codes == code for codes in (p, e) for code in range(4)), n_shared.ravel()]).astype(float)
    shift = table_of(cube, headline).loc["tipping_point", "shift_points"]
    moved = []
    for own in cube.y.reshape(25, 16):
        known = ~np.isnan(own)
        fitted = x @ np.linalg.lstsq(x[known], own[known], rcond=None)[0]
        gaps = [np.linalg.lstsq(x, np.where(known, own, fitted + by), rcond=None)[0][-1] for by in (0.0, shift)]
        moved.append(gaps[1] - gaps[0])
    assert np.mean(moved) == pytest.approx(-headline.delta, abs=1e-9)


def test_a_tipping_point_beyond_the_scale_is_no_explanation():
    # δ = (9 + 9 − 1 − 1)/2 = 8 wherever complete. One in-group rating of 2 × 12 is missing: Σ w r = 1/2 · 1/12, so the
    # shift is −8 · 24 = −192 points.
    y = np.array([[[9.0, 1], [1, 9]]] * 12)
    headline = headline_gap(cube_of(y), confidence=0.95)
    y[0, 0, 0] = NAN
    for high, note in ((10, NO_SHIFT), (191, NO_SHIFT), (193, "")):
        row = table_of(cube_of(y), headline, low=0, high=high).loc["tipping_point"]
        assert (row["shift_points"], row["note"]) == (pytest.approx(-192), note)


def test_ratings_missing_alike_have_no_tipping_point():
    y = ratings_with_effects(mask_of(list("ABC")), 9, np.random.default_rng(9))
    headline = headline_gap(cube_of(y), confidence=0.95)
    for place in range(9):
        y[place].flat[place] = NAN
    row = table_of(cube_of(y), headline).loc["tipping_point"]
    assert np.isnan(row["shift_points"])
    assert row["note"].startswith("ratings are missing alike in-group and out-group")


def test_ranks_worked_by_hand():
    # Of 4: percentiles 12.5, 37.5, 62.5, 87.5. First: 90 > 80 > 20 > 10, so (87.5 + 62.5 − 37.5 − 12.5)/2 = 50.
    # Second: 60 and 60 share 62.5 and 87.5, 75 each; (75 + 12.5 − 75 − 37.5)/2 = −12.5. Mean 18.75.
    y = np.array([[[90, 20], [10, 80]], [[60, 60], [55, 5]]], dtype=float)
    row = table_of(cube_of(y)).loc["ranks"]
    assert row[["delta", "se", "n_answers"]].tolist() == pytest.approx([18.75, 62.5 / 2, 8])


def test_ranks_are_among_the_ratings_that_are_there_and_unmoved_by_bending_the_scale():
    n_shared = mask_of(list("ABCD"))
    y = ratings_with_effects(n_shared, 20, np.random.default_rng(10), missing=0.2)
    ranks = np.stack([[np.nansum(row < v) + (np.nansum(row == v) + 1) / 2 for v in row.ravel()] for row in y])
    percentiles = 100 * (ranks - 0.5) / np.count_nonzero(~np.isnan(y), axis=(1, 2))[:, None]
    by_hand = cube_of(np.where(np.isnan(y), NAN, percentiles.reshape(y.shape)), n_shared)
    expected = headline_gap(by_hand, confidence=0.95)
    row = table_of(cube_of(y, n_shared)).loc["ranks"]
    assert row[["delta", "se"]].tolist() == pytest.approx([expected.delta, expected.se])
    bent = table_of(cube_of(np.exp(y / 30), n_shared)).loc["ranks"]
    assert bent["delta"] == pytest.approx(row["delta"])


def test_number_mass_and_mode():
    rng = np.random.default_rng(11)
    n_shared = mask_of(list("ABC"))
    y = ratings_with_effects(n_shared, 10, rng)
    mass = rng.choice([0.2, 0.5, 0.9], size=y.shape)
    mode = np.round(y, -1)
    mass[0, 0], y[0, 0], mode[0, 0, 0] = NAN, NAN, NAN  # failed prompts
    y[0, 1, 1] = mode[0, 1, 1] = NAN  # no number had any probability
    mass[0, 1, 1] = 0.0
    cube = cube_of(y, n_shared, number_mass=mass, mode=mode)
    table = table_of(cube, min_number_mass=0.5)
    weighted = weighted_gap(cube, mass, confidence=0.95)
    above = weighted_gap(cube, np.where(mass >= 0.5, 1.0, 0.0), confidence=0.95)
    assert table.loc["number_mass_weighted", "delta"] == weighted.delta
    assert table.loc["number_mass_weighted", "share"] == pytest.approx((mass < 0.5).sum() / 87)
    assert table.loc["number_mass_above", "delta"] == above.delta
    assert table.loc["number_mass_above", "share"] == pytest.approx(above.n_answers / 86)
    assert table.loc["mode", "delta"] == headline_gap(cube_of(mode, n_shared), confidence=0.95).delta


def test_no_rating_of_enough_number_mass():
    y = ratings_with_effects(mask_of(list("ABC")), 4, np.random.default_rng(12))
    table = table_of(cube_of(y, number_mass=np.full(y.shape, 0.1)))
    row = table.loc["number_mass_above"]
    assert (np.isnan(row["delta"]), row["share"], row["n_answers"]) == (True, 0, 0)
    assert row["note"] == "none of 36 prompts has a rating of a weight above 0"
    assert table.loc["number_mass_weighted", "share"] == 1
    assert table.loc["number_mass_weighted", "delta"] == pytest.approx(table.loc["listwise", "delta"])


def test_everything_missing():
    # w = ±1/2 on four cells: the ends alone make −100 and +100, the same for every narrative.
    table = table_of(cube_of(np.full((3, 2, 2), NAN)))
    assert table["delta"].dropna().to_dict() == {"worst_case_low": -100, "worst_case_high": 100}
    assert table.loc[["listwise", "worst_case_low", "tipping_point"], "share"].tolist() == [0, 1, 1]
    assert table["se"].isna().all()
    assert (table["note"] != "").all()


@pytest.mark.parametrize("missing", [False, True])
def test_all_equal_ratings_have_a_gap_of_0_and_no_interval(missing):
    y = np.full((4, 3, 3), 37.3)
    if missing:
        y[0, 0, 1] = NAN
    table = table_of(cube_of(y))
    checks = ["listwise", "equal_narratives", "within_narratives"]
    assert table.loc[checks, "delta"].tolist() == [0, 0, 0]
    assert table.loc[checks, "se"].isna().all()
    assert table.loc["within_narratives", "note"] == "all 4 narratives give the same contrast, so their spread is 0"


def test_a_crossed_fit_that_was_not_confirmed_says_so(monkeypatch):
    monkeypatch.setattr(sensitivity, "fit_mixed", lambda *a, **o: replace(fit_mixed(*a, **o), converged=False))
    table = table_of(cube_of(ratings_with_effects(mask_of(list("ABC")), 8, np.random.default_rng(5))))
    assert table.loc["mixed_crossed", "note"] == "the optimum of the likelihood could not be confirmed"


def test_one_narrative_has_values_and_no_intervals():
    table = table_of(cube_of(ratings_with_effects(mask_of(list("ABC")), 1, np.random.default_rng(13))))
    estimated = table.drop(["tipping_point", "mixed_crossed"])
    assert estimated["delta"].notna().all()
    assert estimated["se"].isna().all()
    assert estimated["note"].str.startswith("one ").all()


@pytest.mark.parametrize(
    "fields",
    [{"groups": "AAA"}, {"groups": ["unspecified"] * 3}, {"n_shared": np.zeros((3, 3)), "in_group": np.eye(3) > 1}],
    ids=["one group", "baselines only", "none in-group"],
)
def test_no_two_kinds_of_pair_to_compare(fields):
    y = ratings_with_effects(mask_of(list("ABC")), 5, np.random.default_rng(14), missing=0.1)
    y[1] = 50.0
    table = table_of(cube_of(y, **fields))
    assert table[["delta", "shift_points"]].isna().all(axis=None)
    assert (table["note"] != "").all()


def test_prompts_that_were_never_asked_have_no_bounds():
    y = ratings_with_effects(mask_of(list("ABC")), 6, np.random.default_rng(15))
    y[0, 0, 0] = y[1, 1, 2] = NAN
    status = np.where(np.isnan(y), 1, 0)
    status[1, 1, 2] = -1
    table = table_of(cube_of(y, status=status))
    for check in ("worst_case_low", "worst_case_high", "tipping_point"):
        assert table.loc[check, ["delta", "shift_points"]].isna().all()
        assert table.loc[check, "note"].startswith("1 of 54 prompts was never asked")
        assert table.loc[check, "share"] == 1 / 53
    assert table.loc[["listwise", "equal_narratives", "within_narratives", "ranks"], "se"].notna().all()


def test_baselines_are_left_out_and_the_cube_is_not_modified():
    rng = np.random.default_rng(16)
    y = ratings_with_effects(mask_of(list("ABCD")), 7, rng, missing=0.1)
    mass = rng.random(y.shape)
    cube = cube_of(y, groups=["unspecified", *"ABC"], number_mass=mass, mode=y)
    before = y.copy(), mass.copy()
    table = table_of(cube)
    inner = cube_of(y[:, 1:, 1:], groups=list("ABC"), number_mass=mass[:, 1:, 1:], mode=y[:, 1:, 1:])
    pd.testing.assert_frame_equal(table, table_of(inner))
    direct, apart = (weighted_gap(c, c.number_mass, confidence=0.95) for c in (cube, inner))
    assert [direct.delta, direct.se] == pytest.approx([apart.delta, apart.se], rel=1e-10)
    np.testing.assert_array_equal(cube.y, before[0])
    np.testing.assert_array_equal(cube.number_mass, before[1])


def test_a_scale_upside_down_is_refused():
    cube = cube_of(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="runs from 10 to 0"):
        table_of(cube, NotEstimableError("unread"), low=10, high=0)


def test_where_ratings_lie_beyond_the_scale_missing_ones_could_too():
    """Oracle: the cube filled by hand. In-group weights are positive: 85 there and −3 elsewhere raise δ most."""
    y = np.random.default_rng(0).integers(0, 11, size=(6, 2, 2)).astype(float)
    y[0, 0, 0], y[1, 0, 1] = 85, -3
    y[2, 0, 0] = y[3, 1, 0] = np.nan
    cube = cube_of(y)
    rows = {
        row["check"]: row
        for row in sensitivity_rows(
            cube,
            headline=headline_gap(cube, confidence=0.95),
            low=0,
            high=10,
            confidence=0.95,
            min_number_mass=0.5,
            every=True,
        )
    }
    for check, own, other in (("worst_case_low", -3, 85), ("worst_case_high", 85, -3)):
        filled = y.copy()
        filled[2, 0, 0], filled[3, 1, 0] = own, other
        assert rows[check]["delta"] == pytest.approx(
            ((filled[:, 0, 0] + filled[:, 1, 1] - filled[:, 0, 1] - filled[:, 1, 0]) / 2).mean()
        )
        assert "ratings lie beyond the scale: missing ones are taken to lie from -3 to 85" in rows[check]["note"]
    assert "beyond the scale" not in rows["listwise"]["note"] + rows["ranks"]["note"]
    y[4:] = 10  # a third of the ratings at an end that others pass
    ends = dict(low=0, high=10, confidence=0.95, min_number_mass=0.5)
    whole = headline_gap(cube_of(y), confidence=0.95)
    assert "tobit" not in {row["check"] for row in sensitivity_rows(cube_of(y), headline=whole, **ends)}
    y[y > 10] = 10
    assert "tobit" in {row["check"] for row in sensitivity_rows(cube_of(np.clip(y, 0, 10)), headline=whole, **ends)}
    y = np.random.default_rng(0).integers(0, 11, size=(6, 2, 2)).astype(float)
    assert not any("beyond" in row["note"] for row in sensitivity_rows(
        cube_of(np.clip(y, 0, 10)), headline=headline_gap(cube_of(np.clip(y, 0, 10)), confidence=0.95), low=0, high=10,
        confidence=0.95, min_number_mass=0.5,
    ))  # fmt: skip


def test_a_tipping_point_is_of_identities_that_have_a_rating():
    """Whether the perceiver D and the experiencer C were asked in vain must not alter what is said of the others."""
    rng = np.random.default_rng(31)
    y = ratings_with_effects(mask_of(list("ABCD")), 14, rng, gap=4.0)
    y[:, 0, 0][:5] = NAN
    y[:, 3], y[:, :, 2] = NAN, NAN
    row = table_of(cube_of(y)).loc["tipping_point"]
    others = table_of(cube_of(y[:, :3][:, :, [0, 1, 3]], mask_of(list("ABC"), list("ABD")))).loc["tipping_point"]
    assert row["shift_points"] == pytest.approx(others["shift_points"], rel=1e-9)
    assert (row["note"], others["note"]) == ("of missing ratings between identities that have some at all", "")


def test_where_only_an_identity_without_ratings_lacks_any_there_is_no_tipping_point():
    y = ratings_with_effects(mask_of(list("ABCD")), 9, np.random.default_rng(32))
    y[:, 3] = NAN
    row = table_of(cube_of(y)).loc["tipping_point"]
    assert np.isnan(row["shift_points"])
    assert row["note"] == "no rating between identities that have some at all is missing"


def test_ranks_that_contradict_the_ratings_are_explained():
    """Identities' effects alone: each narrative's gap is 0, and ranks make one of them all the same."""
    perceivers, experiencers = np.array([-20.0, -9, -3, 2, 8, 20]), np.array([-25.0, -7, 0, 3, 10, 22])
    y = 50 + np.arange(12.0)[:, None, None] + perceivers[:, None] + experiencers
    ranks = table_of(cube_of(y)).loc["ranks"]
    assert headline_gap(cube_of(y), confidence=0.95).delta == 0
    assert abs(ranks["delta"]) > 0.5
    assert ranks["note"].startswith("ranks do not add up: ")
    inside = np.eye(6) * 3 + np.random.default_rng(2).normal(0, 1, (12, 6, 6))
    assert table_of(cube_of(50 + inside)).loc["ranks", "note"] == ""
