"""Differences between groups of replies that are not matched: against statsmodels, and the definition of CR2."""

import numpy as np
import pytest
from sandwiches import bell_mccaffrey
from statsmodels.regression.linear_model import OLS

from audit.statistics.adjusted import ADJUSTED, adjusted_contrasts, reply_weights
from audit.statistics.clustered import clustered

N_GROUPS = 4


def draw(*, n=120, per_unit=3, seed=0, slope=0.5, effect=0.0, longer=0.0):
    """Replies to n messages, per_unit in each conversation: y, shape (n, 1, 4), and the length of each message."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, N_GROUPS, n)
    length = rng.integers(10, 60, n) + longer * (group == 0)
    units = [f"u{k // per_unit}" for k in range(n)]
    shared = np.repeat(rng.normal(0, 2, n // per_unit + 1), per_unit)[:n]
    numbers = 20 + slope * length + effect * (group == 0) + shared + rng.normal(0, 3, n)
    y = np.full((n, 1, N_GROUPS), np.nan)
    y[np.arange(n), 0, group] = numbers
    return y, length.astype(float)[:, None], units, group, numbers


def of_groups():
    """Each group less the mean of the others."""
    return ((np.eye(N_GROUPS) * N_GROUPS - 1) / (N_GROUPS - 1))[:, None, :]


def test_estimates_are_those_of_statsmodels_and_errors_those_of_the_definition():
    y, covariates, units, group, numbers = draw()
    members = adjusted_contrasts(y, of_groups(), covariates, units, confidence=0.95)
    design = np.hstack([np.eye(N_GROUPS)[group], covariates])
    fitted = OLS(numbers, design).fit(cov_type="cluster", cov_kwds={"groups": np.unique(units, return_inverse=True)[1]})
    for member, weights in zip(members, of_groups(), strict=True):
        direction = np.append(weights.ravel(), 0.0)
        se, df = bell_mccaffrey(design, numbers, np.array(units), direction)
        made = member.estimate
        assert member.estimator == ADJUSTED
        assert made.delta == pytest.approx(float(direction @ fitted.params), abs=1e-10)
        assert (made.se, made.df) == (pytest.approx(se), pytest.approx(df))
        # statsmodels' CR1 is another correction of the same sandwich
        assert made.se == pytest.approx(float(fitted.t_test(direction).sd[0, 0]), rel=0.1)
        assert made.by_narrative.mean() == pytest.approx(made.delta, abs=1e-10)
        assert (made.n_narratives, made.by_narrative.size) == (120, 40)


def test_a_group_that_writes_longer_messages_differs_only_without_adjustment():
    y, covariates, units, *_ = draw(longer=25.0, n=400)
    [first, *_] = adjusted_contrasts(y, of_groups(), covariates, units, confidence=0.95)
    [plain, *_] = adjusted_contrasts(y, of_groups(), covariates[:, :0], units, confidence=0.95)
    assert plain.estimate.ci_low > 5  # 0.5 words for each of 25 words more
    assert first.estimate.ci_low < 0 < first.estimate.ci_high


def test_the_interval_covers_the_planted_difference_in_95_of_100_draws():
    covered = [
        (made := adjusted_contrasts(y, of_groups()[:1], x, units, confidence=0.95)[0].estimate).ci_low
        < -8.0
        < made.ci_high
        for y, x, units, *_ in (draw(seed=seed, effect=-8.0, longer=10.0, n=90) for seed in range(300))
    ]
    assert 0.92 <= np.mean(covered) <= 0.98  # binomial: 0.95 ± 2.4 standard errors of 0.0126


def test_a_group_whose_messages_alone_have_a_covariate_cannot_be_told_from_it():
    y, _, units, group, _ = draw()
    same = (group == 0).astype(float)[:, None]
    [first, *_] = adjusted_contrasts(y, of_groups(), same, units, confidence=0.95)
    assert first.estimate is None
    assert "told apart" in first.note


def test_a_covariate_that_is_the_same_in_all_messages_changes_nothing():
    y, covariates, units, *_ = draw()
    more = np.hstack([covariates, np.ones((len(y), 1))])
    one, other = (adjusted_contrasts(y, of_groups(), x, units, confidence=0.95)[1] for x in (covariates, more))
    assert other.estimate.delta == pytest.approx(one.estimate.delta)
    assert other.estimate.se == pytest.approx(one.estimate.se)


def test_weights_of_replies_make_the_estimate():
    y, covariates, units, *_ = draw()
    there = ~np.isnan(y[:, 0])
    weights = of_groups()[2, 0]
    each = reply_weights(there, weights, covariates)
    made = adjusted_contrasts(y, of_groups()[2:3], covariates, units, confidence=0.95)[0].estimate
    assert float((each * np.nan_to_num(y[:, 0])).sum()) == pytest.approx(made.delta)
    assert not each[~there].any()


@pytest.mark.parametrize("most", [0, 500])
def test_degrees_of_freedom_are_those_of_the_whole_matrix(most, monkeypatch):
    """G written out: g_ij = δ_ij q_i'L_iq_i − (L_iq_i)'B(L_jq_j); and as clustered takes it of many narratives."""
    monkeypatch.setattr("audit.statistics.clustered._WHOLE", most)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(12, 5, 3))
    grams = np.einsum("nrp,nrq->npq", x, x)
    scores = np.einsum("nrp,nr->np", x, rng.normal(size=(12, 5)))
    inverse = np.linalg.inv(grams.sum(axis=0))
    direction = rng.normal(size=(1, 3))
    values, vectors = np.linalg.eigh(inverse)
    root = (vectors * np.sqrt(values)) @ vectors.T
    q = []
    for gram in grams:
        leverage, axes = np.linalg.eigh(root @ gram @ root)
        q.append(root @ axes @ np.diag((1 - leverage) ** -0.5) @ axes.T @ root @ direction[0])
    moved = np.array([gram @ each for gram, each in zip(grams, q, strict=True)])
    g = np.diag([each @ own for each, own in zip(q, moved, strict=True)]) - moved @ inverse @ moved.T
    assert clustered(grams, scores, inverse, direction).df[0] == pytest.approx(np.trace(g) ** 2 / (g**2).sum())
