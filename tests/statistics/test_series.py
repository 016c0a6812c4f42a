"""Trends along a series of runs: against least squares in each narrative, and data of which a claim would be false."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.estimates import summarise_contrasts, with_variance
from audit.statistics.series import SeriesPoint, positions_fault, series_tables

N = 40


def gap_of(numbers, *, member="", kind=None, without=(), ids=None, **more):
    """Return a gap of these narratives' gaps."""
    made = summarise_contrasts(np.asarray(numbers, float), rounding=0.0, confidence=0.95, n_answers=0)
    words = more.pop("of_words", 0.0)
    if words:
        made = with_variance(made, words, more.pop("words_df", 3.0), confidence=0.95)
    kind = kind or ("disparity" if member else "average")
    ids = tuple(range(len(numbers))) if ids is None else ids
    return DecidedGap(kind, member, "religion", "origin", made, ids, (0.0, 100.0), without=without, **more)


def points_of(by_run, positions, *, member="", **more):
    """Return a point for each run; ``by_run`` has shape (runs, narratives)."""
    return [
        SeriesPoint(f"run {k}", float(x), gap_of(own, member=member, **more))
        for k, (own, x) in enumerate(zip(by_run, positions, strict=True))
    ]


def planted(means, *, sd=2.0, shared=3.0, seed=0, n=N):
    """Return gaps of runs with these means, each narrative higher or lower in all of them: shape (runs, n)."""
    rng = np.random.default_rng(seed)
    return np.asarray(means, float)[:, None] + rng.normal(0, shared, n) + rng.normal(0, sd, (len(means), n))


def trend_of(points, confidence=0.95):
    [row] = series_tables(points, confidence=confidence).trends
    return row


@pytest.mark.parametrize("positions", [(1, 2, 3), (29.9, 31.9, 33.9, 36.1), (0, 10, 12, 12, 40)])
def test_trend_is_the_mean_of_the_narratives_least_squares_slopes(positions):
    gaps = planted(np.linspace(6, 1, len(positions)))
    slopes = [sm.OLS(own, sm.add_constant(np.array(positions, float))).fit().params[1] for own in gaps.T]
    t = stats.ttest_1samp(slopes, 0)
    row = trend_of(points_of(gaps, positions))
    low, high = t.confidence_interval(0.95)
    assert [row["estimate"], row["se"], row["df"], row["ci_low"], row["ci_high"], row["p"]] == pytest.approx(
        [np.mean(slopes), np.std(slopes, ddof=1) / N**0.5, N - 1, low, high, t.pvalue], rel=1e-10
    )
    line = np.polynomial.Polynomial.fit(positions, gaps.mean(axis=1), 1)
    assert [row["line_first"], row["line_last"]] == pytest.approx([line(positions[0]), line(positions[-1])], rel=1e-10)


def test_order_of_the_runs_does_not_matter():
    gaps, places = planted([6, 4, 2]), [0, 1, 2]
    points = points_of(gaps, places)
    back = series_tables([points[2], points[0], points[1]], confidence=0.95)
    there = series_tables(points, confidence=0.95)
    assert back.trends == there.trends
    assert back.changes == there.changes


def test_step_is_the_paired_difference_and_of_runs_at_one_position_their_mean():
    gaps = planted([6, 5, 4, 1])
    [first, second] = series_tables(points_of(gaps, [1, 2, 2, 3]), confidence=0.95).changes
    t = stats.ttest_1samp(gaps[[1, 2]].mean(axis=0) - gaps[0], 0)
    assert first["estimate"] == pytest.approx((gaps[[1, 2]].mean(axis=0) - gaps[0]).mean(), rel=1e-10)
    assert first["p"] == pytest.approx(t.pvalue, rel=1e-10)
    assert (first["first"], first["second"]) == ("run 0", "run 1; run 2")
    assert second["p_adjusted"] == pytest.approx(min(first["p"], 2 * second["p"]) if first["p"] < second["p"] else
                                                 2 * second["p"], rel=1e-10)  # fmt: skip


def test_narratives_that_a_run_lacks_are_left_out_of_all():
    gaps = planted([6, 4, 2])
    points = points_of(gaps, [1, 2, 3])
    short = SeriesPoint("run 1", 2.0, gap_of(gaps[1, 5:], ids=tuple(range(5, N))))
    row = trend_of([points[0], short, points[2]])
    assert row["n_narratives"] == N - 5
    assert row["estimate"] == pytest.approx(((gaps[2] - gaps[0]) / 2)[5:].mean(), rel=1e-10)


def test_a_group_that_is_left_out_leaves_all_runs():
    # Leave-one-out values of the slope (c = -1/2, 0, 1/2): A -2, B -3, C -4. Jackknife variance 2/3 of the sum of
    # squares about -3: 2/3 (1 + 0 + 1) = 4/3, to which the narratives' part is added.
    gaps = planted([6, 4, 0])
    without = [{"A": 6.0, "B": 7.0, "C": 8.0}, {"A": 4.0, "B": 4.0, "C": 4.0}, {"A": 2.0, "B": 1.0, "C": 0.0}]
    points = [
        SeriesPoint(f"run {k}", float(k), gap_of(own, without=(left,)))
        for k, (own, left) in enumerate(zip(gaps, without, strict=True))
    ]
    row = trend_of(points)
    of_narratives = ((gaps[2] - gaps[0]) / 2).var(ddof=1) / N
    assert row["se"] ** 2 == pytest.approx(4 / 3 + of_narratives, rel=1e-10)
    assert row["df"] == 2
    assert row["code"] == "not_shown"  # groups differ too much, though narratives agree


def test_words_widen_a_disparitys_trend_as_if_independent_or_the_same_whichever_is_more():
    gaps = planted([6, 4, 0])
    own = ((gaps[2] - gaps[0]) / 2).var(ddof=1) / N
    row = trend_of(points_of(gaps, [0, 1, 2], member="A", of_words=2.0))
    assert row["se"] ** 2 == pytest.approx(own + 2 * 0.25 * 2.0, rel=1e-9)  # c = -1/2, 0, 1/2
    assert row["df"] == 3
    # Growing from 0 to a standard deviation of 4: the same words move the slope by 4/2, variance 4 against 16/4.
    growing = [
        SeriesPoint(f"run {k}", float(k), gap_of(each, member="A", of_words=words))
        for k, (each, words) in enumerate(zip(gaps, (1.0, 9.0, 25.0), strict=True))
    ]
    # Independent: (1 + 25)/4 = 6.5; the same: ((5 - 1)/2)^2 = 4.
    assert trend_of(growing)["se"] ** 2 == pytest.approx(own + 6.5, rel=1e-9)


def disparities(by_group, positions, **more):
    """Return points of groups whose means over runs are these, as disparities against the mean of the others."""
    names, n_groups = list(by_group), len(by_group)
    rng = np.random.default_rng(3)
    means = np.array([by_group[name] for name in names], float)[:, :, None]  # groups, runs, 1
    levels = means + rng.normal(0, 2, (n_groups, means.shape[1], N))
    found = []
    for place, name in enumerate(names):
        others = np.delete(levels, place, axis=0).mean(axis=0)
        found += points_of(levels[place] - others, positions, member=name, **more)
    return found, levels


def test_only_the_group_that_changes_is_named_and_not_those_that_rise_against_it():
    points, levels = disparities({"A": [-20, -12, -4], "B": [0, 0, 0], "C": [0, 0, 0], "D": [0, 0, 0]}, [1, 2, 3])
    made = series_tables(points, confidence=0.95)
    assert {row["member"]: row["code"] for row in made.trends} == {
        "A": "rises", "B": "not_shown", "C": "not_shown", "D": "not_shown",
    }  # fmt: skip
    rows = {row["member"]: row for row in made.trends}
    assert rows["A"]["size"] == "nearer"
    assert rows["B"]["p"] < 1e-6  # without the rule it would be named
    assert rows["B"]["limits"] == "bystander"
    assert {row["member"] for row in made.changes if row["code"] != "not_shown"} == {"A"}
    # Without A: B against the mean of C and D alone.
    t = stats.ttest_1samp((levels[1, 2] - levels[1, 0] - (levels[2:, 2] - levels[2:, 0]).mean(axis=0)) / 2, 0)
    on_side = np.sign(t.statistic) == np.sign(rows["B"]["estimate"])
    assert rows["B"]["p_beside"] == pytest.approx(t.pvalue if on_side else 1.0, rel=1e-9)


def test_two_groups_change_against_each_other():
    points, _ = disparities({"A": [-20, -12, -4], "B": [0, 0, 0]}, [1, 2, 3])
    assert [row["code"] for row in series_tables(points, confidence=0.95).trends] == ["rises", "falls"]


@pytest.mark.parametrize(
    ("means", "code", "size"),
    [
        ([6, 4, 2], "falls", "nearer"),
        ([-6, -4, -2], "rises", "nearer"),
        ([2, 4, 6], "rises", "farther"),
        ([-2, -4, -6], "falls", "farther"),
        ([6, 0, -6], "falls", "crosses"),
        ([9, 3, -3], "falls", "crosses"),  # |line| falls from 9 to 3, and yet the gap is on the other side
        ([3, 1.5, 0], "falls", "nearer"),
        ([1.5, 0, -1.5], "falls", "crosses"),
        ([4, 4, 4], "not_shown", ""),
        ([0, 0, 0], "not_shown", ""),
    ],
)
def test_what_a_trend_shows(means, code, size):
    row = trend_of(points_of(planted(means, sd=1.0, shared=1.0, n=200), [1, 2, 3]))
    assert (row["code"], row["size"]) == (code, size)


def test_a_slope_about_a_gap_that_is_not_told_from_0_is_neither_nearer_nor_farther():
    # The shared part is so noisy that no run's gap leaves out 0, and the differences of runs are exact.
    gaps = planted([1, 0.5, 0], sd=0.1, shared=30.0)
    row = trend_of(points_of(gaps - gaps.mean(axis=1)[1] + 0.5, [1, 2, 3]))
    assert (row["code"], row["size"]) == ("falls", "")


def test_a_jump_is_found_in_its_step_alone():
    gaps = planted([0, 0, 5, 5], sd=1.0)
    made = series_tables(points_of(gaps, [1, 2, 3, 4]), confidence=0.95)
    assert [row["code"] for row in made.changes] == ["not_shown", "rises", "not_shown"]
    assert made.changes[1]["line_change"] == pytest.approx(made.trends[0]["estimate"], rel=1e-12)
    assert made.changes[1]["line_change"] < made.changes[1]["ci_low"]  # more than the straight line has


def test_p_of_trends_and_of_steps_are_corrected_within_their_own_family():
    points, _ = disparities({"A": [0, 0.4, 0.8], "B": [0, 0, 0], "C": [0, 0, 0]}, [1, 2, 3])
    points += points_of(planted([1, 0.6, 0.2]), [1, 2, 3])
    made = series_tables(points, confidence=0.95)
    for rows in (made.trends, made.changes):
        p = np.array([row["p_beside"] for row in rows])
        order = np.argsort(p)
        holm = np.empty_like(p)
        holm[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
        assert [row["p_adjusted"] for row in rows] == pytest.approx(holm.tolist())
        assert {row["family_size"] for row in rows} == {len(rows)}
    assert len(made.changes) == 2 * len(made.trends)


def test_runs_without_a_verdict_take_no_part_and_two_make_no_trend():
    points = points_of(planted([6, 4, 2, -50]), [1, 2, 3, 4])
    void = [*points[:3], SeriesPoint("run 3", 4.0, points[3].gap, void=("manipulation",))]
    made = series_tables(void, confidence=0.95)
    assert made.trends[0]["estimate"] == pytest.approx(trend_of(points[:3])["estimate"], rel=1e-12)
    assert (made.trends[0]["n_runs"], made.trends[0]["n_left_out"]) == (3, 1)
    assert [row["note"] for row in made.points] == ["", "", "", "manipulation"]
    two = series_tables(void[1:], confidence=0.95)
    assert two.trends[0]["code"] == "no_estimate"
    assert two.trends[0]["note"] == "a trend takes 3 runs with a verdict, and 2 of 3 have one"
    assert np.isnan(two.trends[0]["estimate"])
    assert not two.changes


def test_no_estimate_in_a_run_leaves_it_out():
    points = points_of(planted([6, 4, 2]), [1, 2, 3])
    gap = DecidedGap("average", "", "religion", "origin", NotEstimableError("nothing"), (), (0.0, 100.0))
    made = series_tables([*points, SeriesPoint("run 3", 4.0, gap)], confidence=0.95)
    assert made.trends[0]["n_runs"] == 3
    assert made.points[-1]["note"] == "nothing"


def test_what_limits_a_run_keeps_a_trend_from_being_said():
    gaps = planted([6, 4, 2])
    points = points_of(gaps, [1, 2, 3])
    held = [*points[:2], SeriesPoint("run 2", 3.0, points[2].gap, held_back=("scale_end",))]
    row = trend_of(held)
    assert (row["code"], row["size"], row["limits"]) == ("undecided", "", "scale_end")


@pytest.mark.parametrize(("pull", "code"), [(0.5, "falls"), (9.0, "undecided")])
def test_missing_ratings_that_could_make_a_trend_keep_it_undecided(pull, code):
    gaps = planted([6, 4, 2])
    worst = [tuple(gap_of(own + side * pull).made for side in (-1, 1)) for own in gaps]
    points = [
        SeriesPoint(f"run {k}", float(k), gap_of(own, worst=ends))
        for k, (own, ends) in enumerate(zip(gaps, worst, strict=True))
    ]
    assert trend_of(points)["code"] == code


@pytest.mark.parametrize(("off", "code"), [(0.5, "falls"), (9.0, "undecided")])
def test_ratings_known_within_bounds_likewise(off, code):
    row = trend_of(points_of(planted([6, 4, 2]), [1, 2, 3], off=off))
    assert (row["code"], row["limits"]) == (code, "" if code == "falls" else "bounded")


@pytest.mark.parametrize(
    ("field", "said"), [("other", "controls_disagree"), ("plain", "by_control_alone")]
)  # fmt: skip
def test_a_second_control_without_the_trend_keeps_it_undecided(field, said):
    gaps, flat = planted([6, 4, 2]), planted([1, 1, 1], seed=8)
    for shown, limits in ((gaps, ""), (flat, said)):
        points = [
            SeriesPoint(f"run {k}", float(k), gap_of(own, control="placebo", **{field: gap_of(beside).made}))
            for k, (own, beside) in enumerate(zip(gaps, shown, strict=True))
        ]
        assert trend_of(points)["limits"] == limits


def test_gaps_under_different_controls_make_no_trend():
    gaps = planted([6, 4, 2])
    points = points_of(gaps, [1, 2, 3])
    mixed = [*points[:2], SeriesPoint("run 2", 3.0, gap_of(gaps[2], control="echo_free"))]
    assert "not the same gap" in trend_of(mixed)["note"]


def test_a_trend_without_spread_has_no_p():
    row = trend_of(points_of([np.full(N, value) for value in (3.0, 2.0, 1.0)], [1, 2, 3]))
    assert row["code"] == "no_estimate"  # the runs' own gaps have no interval


def test_ties_are_no_more_positions():
    points = points_of(planted([6, 4, 2]), [1, 1, 2])
    assert trend_of(points)["note"] == "a trend takes 3 positions, and the runs with a verdict have 2"
    assert positions_fault([1, 1, 2]) == "a series takes 3 different positions or more, got 2"
    assert positions_fault([1, 2]) == "a series takes 3 runs or more, got 2 runs"
    assert not positions_fault([1, 1, 2, 3])
