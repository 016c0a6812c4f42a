"""Oracle: the truth that was drawn. Bands are four Monte-Carlo standard errors, of seeds that are fixed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import STEMS
from cubes import cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from simulated_ratings import CALIBRATION, ESTIMATORS, Truth, calibrate, calibrate_ratings, simulate, truth_of

from audit.errors import NotEstimableError
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.statistics.headline import headline_gap
from audit.statistics.incomplete import equal_weight_gap
from audit.statistics.mixed import fit_mixed
from audit.statistics.scopes import group_scope

NAN = np.nan
INVENTED = Repetition(STEMS, placebo=["invented_1"])


def truth_for(k, **fields):
    """Ratings of k identities about 50 with a residual SD of 8, narratives' levels of SD 6, and what is asked for."""
    return Truth(
        **{
            "level": 50.0,
            "perceiver_effects": np.zeros(k),
            "experiencer_effects": np.zeros(k),
            "pair_sd": 0.0,
            "group_gap_sd": 0.0,
            "intercept_variance": 36.0,
            "slope_variance": 0.0,
            "covariance": 0.0,
            "residual_variance": 64.0,
            "missing_rates": np.zeros((k, k)),
            "selective": 0.0,
        }
        | fields
    )


def design(n, groups, **fields):
    return cube_of(np.zeros((n, len(groups), len(groups))), groups=groups, **fields)


def rng(seed=0):
    return np.random.default_rng(seed)


def table_of(n, groups, truth, *, deltas=(0.0,), n_datasets=3, seed=0, **options):
    options = {"n_permutations": 200} | options
    return calibrate(design(n, groups), truth, deltas=deltas, n_datasets=n_datasets, rng=rng(seed), **options)


def row_of(table, estimator, *, delta=0.0):
    return table[(table["estimator"] == estimator) & (table["delta"] == delta)].iloc[0]


def test_a_large_draw_has_the_variances_and_effects_that_were_asked_for():
    effects = np.array([4.0, -1, 0, -3])
    truth = truth_for(4, perceiver_effects=effects, experiencer_effects=-effects, slope_variance=9.0, covariance=-12.0)
    drawn, target = simulate(truth, design(4000, "ABCD"), delta=1.5, rng=rng())
    # Each narrative by hand: its contrast c has variance τ² + σ²/s, s = K − 1; out-group means have τ₀² + σ²/12.
    y, mask = drawn.y, mask_of("ABCD") == 1
    out = y[:, ~mask].mean(axis=1)
    gaps = y[:, mask].mean(axis=1) - out
    assert target == 1.5
    assert gaps.mean() == pytest.approx(1.5, abs=4 * (30 / 4000) ** 0.5)
    assert gaps.var() == pytest.approx(9 + 64 / 3, rel=0.1)
    assert out.var() == pytest.approx(36 + 64 / 12, rel=0.1)
    assert np.cov(gaps, out)[0, 1] == pytest.approx(-12 - 64 / 12, rel=0.15)
    means = y.mean(axis=0) - 1.5 * mask
    assert means.mean(axis=1) - 50 == pytest.approx(effects, abs=0.6)
    assert means.mean(axis=0) - 50 == pytest.approx(-effects, abs=0.6)
    assert (drawn.status == 0).all()
    assert np.isnan(drawn.mode).all()


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_truth_that_was_drawn_is_found_again(missing):
    k = 30
    effects = 4 * rng(5).normal(size=k)
    truth = truth_for(
        k,
        perceiver_effects=effects - effects.mean(),
        pair_sd=1.0,
        group_gap_sd=3.0,
        slope_variance=4.0,
        covariance=6.0,
        missing_rates=np.full((k, k), missing),
    )
    drawn, _ = simulate(truth, design(120, [str(group) for group in range(k)]), delta=1.0, rng=rng(1))
    found = truth_of(drawn)
    # Standard errors: an SD of n normal values is known to 1/√(2n) of itself, n = 30, 120 and 841.
    assert found.group_gap_sd == pytest.approx(3, rel=3 / 60**0.5)
    assert found.pair_sd == pytest.approx(1, rel=4 / 1682**0.5)
    assert found.intercept_variance**0.5 == pytest.approx(6, rel=4 / 240**0.5)
    assert found.slope_variance**0.5 == pytest.approx(2, rel=4 / 240**0.5 * 1.5)
    assert found.covariance == pytest.approx(6, abs=4)
    assert found.residual_variance == pytest.approx(64, rel=0.02)
    assert found.level == pytest.approx(50, abs=4 * 6 / 120**0.5)
    assert found.perceiver_effects == pytest.approx(truth.perceiver_effects, abs=1.2)
    assert found.missing_rates.mean() == pytest.approx(missing, abs=0.002)
    assert found.selective == 0


def test_identities_without_effects_of_pairs_are_found_to_have_none():
    """Their moment estimate has the noise taken off, so that it is 0 in about half of all runs; raw it never is."""
    drawn = [simulate(truth_for(6), design(40, "ABCDEF"), delta=1.0, rng=rng(seed))[0] for seed in range(12)]
    found = [truth_of(cube) for cube in drawn]
    assert np.median([truth.pair_sd for truth in found]) < 0.5  # raw: 8/√40 = 1.26
    assert min(truth.group_gap_sd for truth in found) == 0


def test_few_identities_leave_nothing_to_judge_effects_of_pairs_by():
    drawn, _ = simulate(truth_for(2), design(40, "AB"), delta=1.0, rng=rng())
    found = truth_of(drawn)
    assert (found.pair_sd, found.group_gap_sd) == (0, 0)


@settings(max_examples=25, deadline=None)
@given(groups=st.sampled_from(["ABC", "AABBC", "ABCDE"]), seed=st.integers(0, 99), delta=st.floats(-9, 9))
def test_the_target_is_the_gap_of_the_identities_that_were_drawn(groups, seed, delta):
    """Without noise every narrative's least-squares coefficient is the target; numpy's lstsq is the oracle."""
    k = len(groups)
    truth = truth_for(k, pair_sd=1.0, group_gap_sd=2.0, intercept_variance=0.0, residual_variance=0.0)
    truth = replace(truth, perceiver_effects=rng(seed).normal(size=k))
    drawn, target = simulate(truth, design(2, groups), delta=delta, rng=rng(seed))
    rows, columns = np.divmod(np.arange(k * k), k)
    dummies = np.column_stack([mask_of(groups).ravel(), np.eye(k)[rows], np.eye(k)[columns]])
    gap = np.linalg.lstsq(dummies, drawn.y[1].ravel(), rcond=None)[0][0]
    assert target == pytest.approx(gap, abs=1e-9)
    assert target != pytest.approx(delta, abs=1e-9)


def test_the_pairs_of_one_group_share_their_gap():
    truth = truth_for(5, group_gap_sd=2.0, intercept_variance=0.0, residual_variance=0.0)
    y = simulate(truth, design(1, "AABBC"), delta=1.0, rng=rng())[0].y[0] - 50
    mask = mask_of("AABBC") == 1
    assert (y[~mask] == 0).all()
    assert len(np.unique(y[:2, :2])) == len(np.unique(y[2:4, 2:4])) == 1
    assert len(np.unique(y[mask])) == 3


def test_selective_refusals_take_the_out_group_ratings_of_narratives_with_a_large_gap():
    truth = truth_for(5, slope_variance=4.0, residual_variance=0.0, intercept_variance=0.0)
    truth = replace(truth, missing_rates=np.full((5, 5), 0.2), selective=1.0)
    drawn, _ = simulate(truth, design(2000, "ABCDE"), delta=0.0, rng=rng())
    mask, refused = mask_of("ABCDE") == 1, drawn.status == 1
    assert (np.isnan(drawn.y) == refused).all()
    lost = refused[:, ~mask].any(axis=1)
    assert (refused[lost][:, ~mask]).all()
    slopes = np.nanmean(np.where(refused, NAN, drawn.y)[:, mask][~refused[:, mask].all(axis=1)], axis=1) - 50
    lost = lost[~refused[:, mask].all(axis=1)]
    assert slopes[lost].min() > slopes[~lost].max()
    assert refused[:, ~mask].mean() == pytest.approx(0.2, abs=4 * 0.4 / 2000**0.5)
    assert refused[:, mask].mean() == pytest.approx(0.2, abs=4 * 0.4 / 10_000**0.5)
    assert refused[lost.nonzero()][:, mask].mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("fields", [{}, {"selective": 0.7, "slope_variance": 4.0}, {"selective": 0.7}])
def test_the_rates_of_missing_ratings_are_kept_however_selective(fields):
    rates = np.array([[0, 0.1, 1], [0.5, 0.02, 0.3], [0.2, 0.2, 0.2]])
    drawn, _ = simulate(truth_for(3, missing_rates=rates, **fields), design(4000, "ABC"), delta=0, rng=rng())
    assert np.isnan(drawn.y).mean(axis=0) == pytest.approx(rates, abs=4 * 0.5 / 4000**0.5)


@pytest.mark.parametrize("selects_on", ["level", "rating"])
def test_what_is_selected_on_is_high_where_an_out_group_prompt_is_refused(selects_on):
    """Without noise of its own a rating is its narrative's level; at 1 the highest fifth goes, and no other."""
    truth = truth_for(4, residual_variance=0.0 if selects_on == "level" else 64.0, selects_on=selects_on)
    truth = replace(truth, missing_rates=np.full((4, 4), 0.2), selective=1.0)
    complete, _ = simulate(replace(truth, missing_rates=np.zeros((4, 4))), design(2000, "ABCD"), delta=0.0, rng=rng())
    drawn, _ = simulate(truth, design(2000, "ABCD"), delta=0.0, rng=rng())
    outside, refused = mask_of("ABCD") == 0, drawn.status == 1
    for p, e in np.argwhere(outside):
        of_pair, lost = complete.y[:, p, e], refused[:, p, e]
        assert of_pair[lost].min() > of_pair[~lost].max()
    assert refused[:, outside].mean() == pytest.approx(0.2, abs=4 * 0.4 / 2000**0.5)
    kept = complete.y[:, ~outside][~refused[:, ~outside]]
    assert kept.mean() == pytest.approx(complete.y[:, ~outside].mean(), abs=1)


def test_what_narratives_add_to_single_identities_is_drawn_and_found_again():
    truth = truth_for(6, perceiver_interaction_variance=25.0, experiencer_interaction_variance=9.0, slope_variance=4.0)
    drawn, _ = simulate(truth, design(400, "ABCDEF"), delta=1.0, rng=rng(3))
    found = truth_of(drawn)
    assert found.perceiver_interaction_variance == pytest.approx(25, rel=0.15)
    assert found.experiencer_interaction_variance == pytest.approx(9, rel=0.3)
    assert found.residual_variance == pytest.approx(64, rel=0.06)
    assert found.slope_variance == pytest.approx(4, abs=4)  # of contrasts with a variance of 4 + 64/5
    assert found.intercept_variance == pytest.approx(36, rel=0.4)
    # By hand: perceivers' means within a narrative differ by 25 + (9 + 64)/6 about the narrative's.
    of_perceivers = drawn.y.mean(axis=2)
    assert of_perceivers.var(axis=1, ddof=1).mean() == pytest.approx(25 + 64 / 6 + 4 / 36, rel=0.15)


def test_the_design_is_kept_and_its_ratings_are_not_looked_at():
    y = rng().normal(size=(6, 4, 4))
    y[0, 0, 0] = NAN
    status = np.where(np.isnan(y), 1, 0)
    status[:, 1, 2] = -1
    cube = cube_of(y, groups=["A", "B", "C", "unspecified"], status=status)
    drawn, _ = simulate(truth_for(3), cube, delta=0.0, rng=rng())
    assert drawn.perceivers == cube.perceivers[:3]
    assert drawn.narrative_ids == cube.narrative_ids
    assert (drawn.status == np.where(status == -1, -1, 0)[:, :3, :3]).all()
    assert (np.isnan(drawn.y) == (drawn.status == -1)).all()
    again, _ = simulate(truth_for(3), replace(cube, y=y + 9), delta=0.0, rng=rng())
    refused, _ = simulate(truth_for(3, missing_rates=np.full((3, 3), 0.5)), cube, delta=0.0, rng=rng())
    assert ((refused.status == -1) == (drawn.status == -1)).all()
    assert np.array_equal(again.y, drawn.y, equal_nan=True)


@cache
def sloped():
    return table_of(30, "ABCDEFGHIJ", truth_for(10, slope_variance=16.0), n_datasets=120, n_permutations=300)


@cache
def paired():
    truth = truth_for(5, slope_variance=4.0, pair_sd=2.0)
    return table_of(60, "ABCDE", truth, n_datasets=120, n_permutations=300, deltas=(0.0, 3.0))


@cache
def refusing():
    truth = truth_for(5, slope_variance=9.0, missing_rates=0.1 * (1 - mask_of("ABCDE")), selective=0.7)
    return table_of(100, "ABCDE", truth, n_datasets=50, deltas=(0.0, 3.0))


LEVEL = 0.05 + 4 * (0.05 * 0.95 / 120) ** 0.5


@pytest.mark.simulation
@pytest.mark.parametrize("estimator", ["contrast", "mixed", "mixed_crossed", "equal_narratives", "headline"])
def test_with_gaps_that_differ_between_narratives_every_interval_holds_its_level(estimator):
    row = row_of(sloped(), estimator)
    assert row["false_positives"] <= LEVEL
    assert row["coverage"] >= 1 - LEVEL
    # τ² + σ²/s = 16 + 64/9, over 30 narratives.
    assert row["sd_estimate"] == pytest.approx((23.1 / 30) ** 0.5, rel=4 / 240**0.5)
    assert row["mean_se"] == pytest.approx((23.1 / 30) ** 0.5, rel=0.15)
    assert abs(row["bias"]) < 4 * (23.1 / 30 / 120) ** 0.5
    assert (row["n_datasets"], row["n_estimable"]) == (120, 120)
    assert row["monte_carlo_se"] == pytest.approx(0.0199, abs=1e-4)  # √(.05 · .95/120)


@pytest.mark.simulation
def test_with_gaps_that_differ_between_narratives_the_published_null_errs_often():
    """Its spread is that of cells alone, σ/√s = 2.67 of √23.1 = 4.81 points: it rejects beyond 1.96 · .555, 28%."""
    row = row_of(sloped(), "published")
    assert row["false_positives"] == pytest.approx(0.28, abs=4 * (0.28 * 0.72 / 120) ** 0.5)
    assert row["false_positives"] > 0.15
    assert row[["bias", "coverage", "mean_se", "power"]].isna().all()


@pytest.mark.simulation
def test_effects_of_pairs_mislead_the_narratives_interval_about_others_and_not_the_wider_one():
    contrast, wider = row_of(paired(), "contrast"), row_of(paired(), "headline")
    assert contrast["false_positives"] <= LEVEL  # about the identities that were drawn it is right
    assert contrast["false_positives_others"] > 0.3
    assert row_of(paired(), "mixed_crossed")["false_positives_others"] > 0.3
    assert wider["false_positives"] == wider["false_positives_others"] <= LEVEL
    assert wider["coverage"] >= 1 - LEVEL
    # Its target is δ itself: pairs add 2²/s = 1 to the variance (4 + 64/4)/60.
    assert wider["sd_estimate"] == pytest.approx((20 / 60 + 1) ** 0.5, rel=4 / 240**0.5)


@pytest.mark.simulation
def test_power_is_counted_where_there_is_a_gap_and_false_positives_do_not_depend_on_it():
    powers = paired().set_index(["delta", "estimator"])["power"]
    assert powers[0.0].isna().all()
    assert (powers[3.0][["contrast", "mixed", "mixed_crossed", "equal_narratives"]] > 0.9).all()
    assert (powers[3.0][["headline", "published"]] > 0.3).all()
    columns = ["bias", "sd_estimate", "mean_se", "coverage", "false_positives"]
    at_0, at_3 = (row_of(paired(), "mixed", delta=delta)[columns] for delta in (0.0, 3.0))
    assert at_0.equals(at_3)
    assert np.isnan(row_of(paired(), "published", delta=3.0)["false_positives"])


@pytest.mark.simulation
def test_selective_refusals_bias_what_is_left_after_listwise_deletion_and_hardly_the_mixed_model():
    listwise, mixed = row_of(refusing(), "listwise"), row_of(refusing(), "mixed")
    equal, contrast = row_of(refusing(), "equal_narratives"), row_of(refusing(), "contrast")
    assert listwise["bias"] < -1
    assert abs(mixed["bias"]) < 0.25 * abs(listwise["bias"])
    assert abs(equal["bias"]) < 0.25 * abs(listwise["bias"])
    assert abs(contrast["bias"]) < 0.25 * abs(listwise["bias"])
    assert listwise["coverage"] < mixed["coverage"]
    assert row_of(refusing(), "mixed", delta=3.0)["power"] > row_of(refusing(), "listwise", delta=3.0)["power"]


@pytest.mark.simulation
def test_refusals_of_ratings_that_would_have_been_high_bias_every_estimate():
    """No estimator can know them: that is what the calibration is there to show."""
    truth = truth_for(5, missing_rates=0.2 * (1 - mask_of("ABCDE")), selective=1.0, selects_on="rating")
    table = table_of(50, "ABCDE", truth, n_datasets=30)
    for estimator in ("contrast", "mixed", "equal_narratives"):
        assert row_of(table, estimator)["bias"] > 1
        assert row_of(table, estimator)["coverage"] < 0.5


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_gap_of_delta_is_judged_as_if_the_ratings_had_been_drawn_with_it(missing):
    """One fit serves all deltas; the oracle draws with each of them and estimates anew."""
    truth = truth_for(5, slope_variance=4.0, pair_sd=1.0, missing_rates=np.full((5, 5), missing))
    table = table_of(40, "ABCDE", truth, deltas=(2.0,), n_datasets=1, seed=4)
    drawn, target = simulate(truth, design(40, "ABCDE"), delta=2.0, rng=rng(4).spawn(1)[0])
    headline = headline_gap(drawn, confidence=0.95)
    oracle = {
        "contrast": (headline, target),
        "equal_narratives": (equal_weight_gap(drawn, confidence=0.95), target),
        "mixed": (fit_mixed(drawn).estimate(confidence=0.95), target),
        "mixed_crossed": (fit_mixed(drawn, crossed=True).estimate(confidence=0.95), target),
        "headline": (group_scope(drawn, headline, confidence=0.95).estimate, 2.0),
    }
    oracle["contrast"] = headline, target
    if not missing:
        oracle["listwise"] = oracle["contrast"]
    for estimator, (estimate, aim) in oracle.items():
        row = row_of(table, estimator, delta=2.0)
        assert row["bias"] == pytest.approx(estimate.delta_points - aim, abs=1e-5)
        assert row["mean_se"] == pytest.approx(estimate.se, rel=1e-4)
        assert row["power"] == (estimate.p < 0.05)
        assert row["coverage"] == (estimate.ci_low < aim < estimate.ci_high)


def test_one_seed_gives_one_table_and_the_first_data_sets_of_a_longer_one():
    def stop_after(done, total):
        heard.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    heard, truth = [], truth_for(5, slope_variance=4.0)
    two = table_of(20, "ABCDE", truth, n_datasets=2, deltas=(0.0, 1.0))
    interrupted = table_of(20, "ABCDE", truth, n_datasets=5, deltas=(0.0, 1.0), say=stop_after)
    assert heard == [(1, 5), (2, 5)]
    assert_frame_equal(interrupted, two)
    assert not table_of(20, "ABCDE", truth, n_datasets=2, seed=1)["bias"].equals(two["bias"][:5])


def test_an_interrupt_before_the_first_data_set_is_done_leaves_no_table(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulated_ratings.simulate", stop)
    with pytest.raises(KeyboardInterrupt):
        table_of(20, "ABCDE", truth_for(5))


def test_what_is_not_estimable_is_said_and_is_no_number():
    truth = truth_for(4, missing_rates=np.full((4, 4), 0.9))
    table = table_of(20, "ABCD", truth, deltas=(0.0, 1.0), n_datasets=2)
    assert list(table) == list(CALIBRATION)
    assert [tuple(pair) for pair in table[["estimator", "scope"]].to_numpy()] == list(ESTIMATORS) * 2
    notes = {
        "listwise": "none of 20 narratives has a rating in all 4 × 4 pairs",
        "headline": "none of 20 narratives has ratings that tell in-group from the effects of its perceivers",
        "published": "listwise deletion leaves none of 20 narratives",
    }
    for estimator, note in notes.items():
        row = row_of(table, estimator)
        assert note in row["note"]
        assert (row["n_datasets"], row["n_estimable"], row["n_converged"]) == (2, 0, 0)
        assert pd.isna(row["bias":"monte_carlo_se"]).all()


def test_pairs_that_are_never_rated_have_no_part_in_the_target():
    """Numpy's least squares on the 8 cells that are left is the oracle."""
    rates = np.zeros((3, 3))
    rates[0, 1] = 1.0
    truth = truth_for(3, pair_sd=5.0, missing_rates=rates, intercept_variance=0.0, residual_variance=0.0)
    drawn, target = simulate(truth, design(2, "ABC"), delta=1.0, rng=rng())
    rows, columns = np.nonzero(rates == 0)
    dummies = np.column_stack([rows == columns, np.eye(3)[rows], np.eye(3)[columns]])
    assert target == pytest.approx(np.linalg.lstsq(dummies, drawn.y[0][rows, columns], rcond=None)[0][0])
    with pytest.raises(NotEstimableError):
        simulate(replace(truth, missing_rates=np.ones((3, 3))), design(2, "ABC"), delta=1.0, rng=rng())


def test_intersections_are_calibrated_too():
    crossed = [(race, faith) for race in "AB" for faith in "CD"]
    shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in crossed] for p in crossed])
    cube = cube_of(np.zeros((30, 4, 4)), shared)
    table = calibrate(cube, truth_for(4), deltas=[0], n_datasets=3, rng=rng(), n_permutations=100)
    estimable = dict.fromkeys(table["estimator"], 3) | {"headline": 0}
    assert table.set_index("estimator")["n_estimable"].to_dict() == estimable
    drawn, _ = simulate(truth_for(4), cube, delta=0.0, rng=rng())
    assert truth_of(drawn).residual_variance == pytest.approx(64, rel=0.3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pair_sd": -1.0}, "pair_sd of the truth is -1.0"),
        ({"residual_variance": NAN}, "residual_variance of the truth is nan"),
        ({"level": np.inf}, "level of the truth is inf"),
        ({"selective": 1.5}, "selective of the truth is 1.5"),
        ({"selects_on": "mood"}, "selects_on of the truth is 'mood'"),
        ({"perceiver_interaction_variance": -1.0}, "perceiver_interaction_variance of the truth is -1.0"),
        ({"missing_rates": np.full((3, 3), 12.0)}, "missing_rates of the truth hold 12.0"),
        ({"slope_variance": 1.0, "covariance": -7.0}, "covariance of the truth is -7.0; .* allow 6 at the most"),
    ],
)
def test_a_truth_that_can_not_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        truth_for(3, **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"deltas": ()}, r"deltas are \[\]"),
        ({"deltas": (0.0, NAN)}, r"deltas are \[0.0, nan\]"),
        ({"n_datasets": 0}, "n_datasets is 0"),
        ({"n_permutations": 0}, "n_permutations is 0"),
        ({"confidence": 95}, "confidence is 95"),
        ({"estimators": [("median", "narratives")]}, "estimators hold"),
    ],
)
def test_options_out_of_range_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        table_of(5, "ABC", truth_for(3), **wrong)


def test_a_truth_of_another_design_or_a_gap_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"the truth has \(4, 4\) identities .* 3 perceivers and 3 experiencers"):
        simulate(truth_for(4), design(5, "ABC"), delta=0.0, rng=rng())
    with pytest.raises(ValueError, match="delta is nan"):
        simulate(truth_for(3), design(5, "ABC"), delta=NAN, rng=rng())


# --- From a run's ratings --------------------------------------------------------------------------------------------


def calibrated(*ratings, delta=None, seed=1, say=None, **more):
    table = pd.concat(ratings, ignore_index=True)
    options = {"n_datasets": 2, "delta": delta, "seed": seed, "confidence": 0.95, "power": 0.8, "say": say}
    return calibrate_ratings(table, **options, **more)


def drawn_ratings(ratings_of, n=12, seed=0, **fields):
    y = simulate(truth_for(4, slope_variance=4.0), design(n, "ABCD"), delta=1.0, rng=rng(seed))[0].y
    return ratings_of(y, list("ABCD"), **fields)


def test_a_run_is_calibrated_at_no_gap_and_at_the_smallest_one_that_its_power_table_says_it_detects(ratings_of):
    ratings = drawn_ratings(ratings_of)
    power = analyse(ratings, scales={"origin": (0, 100)}, seed=1).tables["power"].iloc[0]
    table = calibrated(ratings)
    assert list(table) == list(CALIBRATION)
    assert table["delta"].unique().tolist() == pytest.approx([0, power["detectable_points"]])
    assert table["estimator"].tolist() == [estimator for estimator, _ in ESTIMATORS] * 2
    assert (table["n_datasets"] == 2).all()
    assert calibrated(ratings, delta=2.5)["delta"].unique().tolist() == [0, 2.5]


def test_the_gap_that_is_calibrated_is_the_echo_free_one_of_the_report_and_invented_groups_have_none(
    ratings_of, echoing
):
    noise = np.random.default_rng(5).normal(scale=0.5, size=12)
    ratings = echoing(2.0 + noise, echo=10.0)
    ratings["intensity"] += np.random.default_rng(6).normal(size=len(ratings))
    power = analyse(ratings, scales={"origin": (0, 100)}, seed=1, repetition=INVENTED).tables["power"].iloc[0]
    table = calibrated(ratings, drawn_ratings(ratings_of, dimension="invented_1"), repetition=INVENTED)
    assert set(table["dimension"]) == {"religion"}
    assert table["delta"].unique().tolist() == pytest.approx([0, power["detectable_points"]])
    assert table.loc[table["estimator"] == "contrast", "bias"].notna().all()
    one_stem = Repetition({"religion": dict.fromkeys(ratings["perceiver"], "one")})
    of_all_terms = calibrated(ratings, repetition=one_stem)["delta"].iloc[-1]
    assert of_all_terms != pytest.approx(power["detectable_points"], rel=0.05)


def test_each_dimension_is_calibrated_with_draws_of_its_own_and_of_the_seed(ratings_of):
    ratings, other = drawn_ratings(ratings_of), drawn_ratings(ratings_of, 9, seed=2, dimension="nation")
    heard = []
    together = calibrated(other, ratings, say=lambda *done: heard.append(done))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert_frame_equal(together[together["dimension"] == "religion"].reset_index(drop=True), calibrated(ratings))
    assert not calibrated(ratings, seed=2)["bias"].equals(calibrated(ratings)["bias"])
    same = drawn_ratings(ratings_of, dimension="nation")
    assert not calibrated(same)["bias"].equals(calibrated(ratings)["bias"])


def test_a_dimension_whose_gap_can_not_be_estimated_is_a_row_that_says_why(ratings_of):
    none = ratings_of(np.full((3, 2, 2), NAN), list("AB"), dimension="nation")
    one = drawn_ratings(ratings_of, 1, dimension="race")
    table = calibrated(none, one, drawn_ratings(ratings_of))
    bad = table[table["dimension"] != "religion"]
    assert bad["note"].tolist() == [
        "no pair of identities has a rating",
        "1 of 1 narrative has an in-group and an out-group rating, and how narratives differ shows in two or more",
    ]
    assert (bad["n_datasets"] == 0).all()
    assert bad.loc[:, "bias":"monte_carlo_se"].isna().all(axis=None)
    assert (table["dimension"] == "religion").sum() == 2 * len(ESTIMATORS)
    assert list(calibrated(none.iloc[:0])) == list(CALIBRATION)


def interrupted_after(n, *ratings):
    heard = []

    def say(done, total):
        heard.append(done)
        if len(heard) == n:
            raise KeyboardInterrupt

    return calibrated(*ratings, say=say)


def test_an_interrupt_leaves_the_dimensions_that_were_done_and_goes_on_with_no_other(ratings_of):
    first, second = drawn_ratings(ratings_of, dimension="nation"), drawn_ratings(ratings_of)
    third = drawn_ratings(ratings_of, dimension="race")
    table = interrupted_after(3, first, second, third)
    whole = calibrated(first)
    assert_frame_equal(table.iloc[: len(whole)], whole)
    assert table.groupby("dimension", sort=False)["n_datasets"].max().to_dict() == {"nation": 2, "religion": 1}


def test_narratives_that_all_give_the_same_contrast_are_a_row_that_says_why(ratings_of):
    y = np.repeat(np.round(drawn_ratings(ratings_of)["intensity"].to_numpy(float).reshape(-1, 4, 4)[:, :1]), 4, axis=1)
    table = calibrated(ratings_of(y, list("ABCD")))
    assert table["n_datasets"].tolist() == [0]
    assert "same contrast" in table["note"].iloc[0]


def test_an_interrupt_within_the_first_data_set_of_a_dimension_leaves_those_that_were_done(ratings_of, monkeypatch):
    first, second = drawn_ratings(ratings_of, dimension="nation"), drawn_ratings(ratings_of)
    whole = calibrated(first)
    draw, drawn = simulate, []

    def stop(*arguments, **options):
        drawn.append(1)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return draw(*arguments, **options)

    monkeypatch.setattr("simulated_ratings.simulate", stop)
    try:
        table = calibrated(first, second)
    except KeyboardInterrupt:  # pytest itself would stop
        pytest.fail("the table of the first dimension is lost")
    assert_frame_equal(table, whole)
