"""Prediction-powered inference: against the library ppi-python, against plain t-tests, and on planted biased judges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from validated_gaps import CONTRASTS, DESIGNS, LABELS, coverage, drawn, estimates

from audit.errors import NotEstimableError
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.prediction_powered import LabelledSample, Strata, correct, stratified

PEOPLE = np.array([3.0, 4.5, 2.0, 5.0, 3.5, 1.0, 4.0, 2.5])
LABELLED = np.array([3.4, 4.1, 2.9, 4.8, 3.1, 2.2, 3.9, 3.0])
OTHERS = np.array([2.7, 3.3, 4.4, 3.8, 2.1, 4.9, 3.6, 3.0, 2.5, 4.0, 3.2, 1.9])
BY_LIBRARY = {"people": 3.1875, "ppi": 3.1025}
"""By ppi_mean_pointestimate of ppi-python 0.2.3, with lam=0 and, since 12 of 20 replies have no label, lam=0.6."""


def mean_of(people, labelled, others):
    """Return the estimates of a mean in which every reply is of a narrative of its own, labelled ones first."""
    judge = np.concatenate([labelled, others])
    of_all = summarise_contrasts(judge, rounding=0.0, confidence=0.95, n_answers=judge.size)
    n = people.size
    sample = LabelledSample(people, labelled, np.zeros(n, dtype=np.int64), np.arange(n))
    return correct(of_all, np.arange(judge.size), sample, Strata.of(np.ones(1), ["all"]), confidence=0.95)


def contrast_of(people, judge, chosen, what="delta"):
    """Return the estimates of a contrast of crossed replies, shape (N, 16); those at ``chosen`` are labelled."""
    weights, _ = CONTRASTS[what]
    narratives, cells = np.divmod(chosen, weights.size)
    own = LabelledSample(people[narratives, cells], judge[narratives, cells], cells, narratives)
    sample, strata = stratified(own, weights, LABELS)
    of_all = summarise_contrasts(judge @ weights, rounding=0.0, confidence=0.95, n_answers=judge.size)
    return correct(of_all, np.arange(len(people)), sample, strata, confidence=0.95)


def ends(found):
    return found.ci_low, found.ci_high


def interval_of(values):
    """The one-sample t interval, by scipy."""
    return tuple(stats.ttest_1samp(values, 0).confidence_interval(0.95))


def test_the_mean_is_that_of_the_library():
    found = mean_of(PEOPLE, LABELLED, OTHERS)
    for name, estimate in BY_LIBRARY.items():
        assert found[name].estimate == pytest.approx(estimate, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_is_that_of_the_library_whatever_the_tuning(seed):
    ppi = pytest.importorskip("ppi_py")
    rng = np.random.default_rng(seed)
    n, n_others = 400, 2_000
    truth = rng.normal(3, 1, n + n_others)
    judge = 0.8 * truth + rng.normal(1, 0.5, truth.size)
    people, labelled, others = truth[:n], judge[:n], judge[n:]
    found = mean_of(people, labelled, others)
    for name in ("people", "ppi", "ppi_tuned"):
        # Of all replies the library's λ counts those without labels alone.
        lam = found[name].tuning * n_others / (n + n_others)
        theirs = float(np.ravel(ppi.ppi_mean_pointestimate(people, labelled, others, lam=lam))[0])
        assert found[name].estimate == pytest.approx(theirs, abs=1e-6)
        # Theirs is a normal interval with variances over n: ours is wider by a factor of 1.003.
        low, high = (float(np.ravel(end)[0]) for end in ppi.ppi_mean_ci(people, labelled, others, alpha=0.05, lam=lam))
        assert found[name].ci_high - found[name].ci_low == pytest.approx(high - low, rel=0.01)
    # The library's own λ has the judge's variance of all replies; ours of the labelled ones, as their covariance is.
    tuned = float(np.ravel(ppi.ppi_mean_pointestimate(people, labelled, others))[0])
    assert found["ppi_tuned"].estimate == pytest.approx(tuned, abs=0.5 * found["ppi_tuned"].se)


def test_the_measure_alone_and_people_alone_are_plain_t_intervals():
    found = mean_of(PEOPLE, LABELLED, OTHERS)
    assert ends(found["people"]) == pytest.approx(interval_of(PEOPLE))
    assert ends(found["measure"]) == pytest.approx(interval_of(np.concatenate([LABELLED, OTHERS])))


@pytest.mark.parametrize("what", CONTRASTS)
def test_if_people_scored_every_reply_it_is_the_t_test_of_their_contrasts(what):
    people, judge = drawn(30, np.random.default_rng(0))
    found = contrast_of(people, judge, np.arange(people.size), what)
    weights, _ = CONTRASTS[what]
    assert ends(found["people"]) == pytest.approx(interval_of(people @ weights))
    for name in ("people", "ppi", "ppi_tuned"):
        assert found[name].estimate == pytest.approx(float((people @ weights).mean()))


def test_a_judge_without_error_gives_the_t_test_of_its_contrasts_of_all_replies():
    people, _ = drawn(60, np.random.default_rng(1))
    found = contrast_of(people, people, np.random.default_rng(2).permutation(people.size)[:200])
    weights, _ = CONTRASTS["delta"]
    assert ends(found["ppi"]) == pytest.approx(interval_of(people @ weights))
    assert found["ppi_tuned"].tuning == pytest.approx(1)
    assert found["ppi_tuned"].se == pytest.approx(found["measure"].se)


def test_a_judge_of_noise_counts_for_nothing_if_it_is_tuned():
    rng = np.random.default_rng(3)
    people, _ = drawn(200, rng)
    found = contrast_of(people, rng.normal(0, 5, people.shape), rng.permutation(people.size)[:400])
    assert found["ppi_tuned"].tuning == pytest.approx(0, abs=0.1)
    assert found["ppi_tuned"].se == pytest.approx(found["people"].se, rel=0.05)
    assert found["ppi"].se > 1.5 * found["people"].se


@pytest.mark.parametrize("score", [0.1, 1 / 3, 2 / 3, 4.1])
def test_equal_scores_have_no_interval_whatever_their_means_are_rounded_to(score):
    people, judge = drawn(60, np.random.default_rng(0))
    chosen = np.random.default_rng(1).permutation(people.size)[:300]
    alike = np.full_like(people, score)
    for found in (contrast_of(alike, judge, chosen), contrast_of(alike, alike, chosen)):
        for name in ("people", "ppi_tuned"):
            assert np.isnan([found[name].se, found[name].p]).all()
            assert found[name].tuning == 0


def test_the_unit_of_the_judge_does_not_matter_if_it_is_tuned():
    rng = np.random.default_rng(4)
    people, judge = drawn(60, rng)
    chosen = rng.permutation(people.size)[:200]
    own, scaled = (contrast_of(people, scale * judge, chosen)["ppi_tuned"] for scale in (1, 100))
    assert ends(own) == pytest.approx(ends(scaled))
    assert own.tuning == pytest.approx(100 * scaled.tuning)


def test_a_sample_with_more_replies_of_some_pairs_is_weighted():
    # No noise: people score 10 by the cell's number, so δ and the correction are known whatever is drawn.
    cells = np.arange(16.0)
    people, judge = np.tile(10 * cells, (30, 1)), np.tile(cells**2, (30, 1))
    every = np.arange(people.size)
    chosen = np.concatenate([every[every % 16 % 5 == 0], every[every % 7 == 0]])  # all in-group, some others
    found = contrast_of(people, judge, np.unique(chosen))
    weights, _ = CONTRASTS["delta"]
    for name in ("people", "ppi"):
        assert found[name].estimate == pytest.approx(float(10 * cells @ weights), abs=1e-9)
    assert found["measure"].estimate == pytest.approx(float(cells**2 @ weights))


def test_narratives_that_differ_widen_the_interval_as_a_jackknife_over_them_says():
    people, judge = drawn(40, np.random.default_rng(5))
    weights, _ = CONTRASTS["delta"]
    chosen = np.random.default_rng(6).permutation(people.size)[:400]
    found = contrast_of(people, judge, chosen)["ppi"]
    narratives, cells = np.divmod(chosen, 16)

    def without(left_out):
        kept = narratives != left_out
        off = people[narratives[kept], cells[kept]] - judge[narratives[kept], cells[kept]]
        means = np.bincount(cells[kept], weights=off, minlength=16) / np.bincount(cells[kept], minlength=16)
        return means @ weights + np.delete(judge, left_out, axis=0).mean(axis=0) @ weights

    each = np.array([without(k) for k in range(40)])
    by_hand = (39 / 40 * ((each - each.mean()) ** 2).sum()) ** 0.5
    assert found.se == pytest.approx(by_hand, rel=0.05)


def test_too_few_labelled_narratives_are_refused_with_the_number_that_it_takes():
    people, judge = drawn(60, np.random.default_rng(7))
    with pytest.raises(NotEstimableError, match=r"to 5 narratives, and an interval takes 20: label at least 20"):
        contrast_of(people, judge, np.arange(80))


def test_too_few_labels_are_refused_with_the_number_that_it_takes():
    people, judge = drawn(60, np.random.default_rng(8))
    in_group = np.arange(0, people.size, 16)  # the first cell of each narrative alone
    # δ weights in-group and out-group replies to each group: 16 cells, of which the smallest stratum has one, 5 · 16.
    with pytest.raises(
        NotEstimableError, match=r"to 0 narratives and needs two: label about 80 replies .* \(there are 60"
    ):
        contrast_of(people, judge, in_group)


def test_where_labels_do_not_fill_the_pairs_of_groups_they_are_weighted_by_experiencer():
    people, judge = drawn(60, np.random.default_rng(9))
    every = np.arange(people.size)
    chosen = every[np.isin(every % 16, [0, 5, 10, 15, 1, 2, 4, 3])]  # out-group cells to each of the four, not all
    weights, _ = CONTRASTS["delta"]
    narratives, cells = np.divmod(chosen, 16)
    own = LabelledSample(people[narratives, cells], judge[narratives, cells], cells, narratives)
    _, strata = stratified(own, weights, LABELS)
    assert strata.weights.size == 8
    assert strata.names[0] == "to 0"


@pytest.mark.parametrize("what", CONTRASTS)
def test_a_biased_judge_is_corrected(what):
    truth = CONTRASTS[what][1]
    [found] = estimates(60, 300, seed=2, n_sets=1, what=what)
    assert not found["measure"].ci_low <= truth <= found["measure"].ci_high
    for name in ("people", "ppi", "ppi_tuned"):
        assert found[name].ci_low <= truth <= found[name].ci_high
    assert found["measure"].se < found["ppi_tuned"].se < found["people"].se


@pytest.mark.simulation
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("what", CONTRASTS)
def test_corrected_intervals_hold_the_truth_as_often_as_they_say(what, design):
    found = coverage(*design, seed=sum(design), n_sets=2_000, what=what)
    assert found["measure"][0] < 0.1
    for name in ("ppi", "ppi_tuned"):
        assert 0.93 <= found[name][0] <= 0.97
    assert found["ppi_tuned"][1] < found["people"][1]
