"""Oracles: statsmodels' cluster-robust least squares, δ without each conversation, and simulated corpora."""

from types import SimpleNamespace

import numpy as np
import pytest
import statsmodels.api as sm
from cubes import cube_of
from scipy import stats

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.comparisons import Labelled
from audit.statistics.contrasts import contrast_by_narrative, in_group_weights, sign_flip_p
from audit.statistics.conversations import (
    conversation_of,
    conversations_of,
    gaps_over_conversations,
    over_conversations,
    told_apart_by,
)
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.mixed import fit_mixed
from audit.tables.shared import OVERALL

GROUPS = ("Jew", "Sikh", "Jain", "Copt")


def estimate_of(contrasts):
    return summarise_contrasts(np.asarray(contrasts, dtype=float), rounding=1e-12, confidence=0.95, n_answers=9)


def over(contrasts, conversations, **options):
    return over_conversations(estimate_of(contrasts), conversations, confidence=0.95, **options)


def corpus(rng, sizes, *, between=1.0, missing=0.0):
    """Draw a cube without a gap, in which conversations differ in it, and the conversation of each utterance."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    gaps = rng.normal(0, between, len(sizes))[of] + rng.normal(0, 0.5, of.size)
    y = rng.normal(0, 1, (of.size, 4, 4)) + rng.normal(0, 1, of.size)[:, None, None]
    y += gaps[:, None, None] * np.eye(4)
    y[rng.random(y.shape) < missing] = np.nan
    return cube_of(y, groups=GROUPS), [f"c{k}" for k in of]


def contrasts_of(cube):
    return contrast_by_narrative(cube.y, in_group_weights(cube), used=np.ones(len(cube.y), dtype=bool))[0]


def test_of_conversations_of_one_length_the_error_is_the_cluster_robust_one():
    """Oracle: statsmodels, contrasts on a constant, clustered, with its factor C/(C - 1), and t with C - 1."""
    cube, conversations = corpus(np.random.default_rng(1), [5] * 12)
    d = contrasts_of(cube)
    fitted = sm.OLS(d, np.ones(d.size)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(12), 5)}, use_t=True
    )
    found = over(d, conversations)
    low, high = fitted.conf_int()[0]
    assert [found.delta, found.se, found.df, found.ci_low, found.ci_high, found.p] == pytest.approx(
        [fitted.params[0], fitted.bse[0], 11, low, high, fitted.pvalues[0]]
    )
    assert (found.d_z, found.n_narratives) == (estimate_of(d).d_z, 60)


def test_of_conversations_of_any_length_the_error_is_that_of_leaving_each_out():
    cube, conversations = corpus(np.random.default_rng(2), [1, 1, 2, 3, 5, 8, 13])
    d, of = contrasts_of(cube), np.array(conversations)
    without = np.array([d[of != name].mean() for name in dict.fromkeys(conversations)])
    found = over(d, conversations)
    assert found.se == pytest.approx(np.sqrt(6 / 7 * ((without - without.mean()) ** 2).sum()))
    assert found.df == 6
    assert found.by_narrative.mean() == pytest.approx(d.mean())
    assert found.by_narrative.std(ddof=1) / 7**0.5 == pytest.approx(found.se)


def test_signs_are_flipped_by_conversation_in_a_dimension_and_not_in_the_mean_over_dimensions():
    # Six conversations of two utterances, each with a gap of 1 to 6: of 2⁶ = 64 signs of their sums, 2 reach the sum.
    d = np.repeat(np.arange(1.0, 7.0), 2)
    cube, conversations = corpus(np.random.default_rng(5), [2] * 6)
    of = dict(zip(cube.narrative_ids, conversations, strict=True)).get
    estimate = estimate_of(d)
    numbers = {name: getattr(estimate, name) for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "p_sign_flip")}
    row = {"variant": "origin", "estimator": "contrast", "scope": "narratives", "note": ""} | numbers
    own, mean = gaps_over_conversations(
        [row | {"dimension": name} for name in ("religion", OVERALL)],
        [(cube, SimpleNamespace(contrast=estimate, mixed=NotEstimableError("not fitted")))],
        {"religion": [Labelled("origin", estimate, cube.narrative_ids, (0.0, 1.0))]},
        of,
        seed=0,
        settings=AnalysisSettings(),
    )
    assert own["p_sign_flip"] == 2 / 64
    assert np.isnan(mean["p_sign_flip"])
    assert own["se"] == mean["se"] == pytest.approx(np.arange(1.0, 7.0).std(ddof=1) / 6**0.5)


def test_of_the_mixed_model_the_error_is_near_that_of_fitting_without_each_conversation():
    cube, conversations = corpus(np.random.default_rng(3), [2, 3, 4, 5, 6, 7] * 3, missing=0.15)
    fit = fit_mixed(cube)
    found = over_conversations(fit.estimate(confidence=0.95), conversations, confidence=0.95)
    of = np.array(conversations)
    without = np.array([fit_mixed(cube.of_narratives(of != name)).delta for name in dict.fromkeys(conversations)])
    refitted = np.sqrt(17 / 18 * ((without - without.mean()) ** 2).sum())
    assert found.se == pytest.approx(refitted, rel=0.03)
    assert found.se > 1.5 * fit.se
    assert (found.df, found.delta) == (17, fit.delta)


def test_each_utterance_its_own_conversation_is_the_estimate_of_narratives():
    d = np.random.default_rng(4).normal(1, 2, 9)
    d[4] = np.nan
    plain, found = estimate_of(d), over(d, [f"c{k}" for k in range(9)])
    for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "d_z"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name))
    np.testing.assert_allclose(found.by_narrative, d)


def test_signs_are_flipped_by_conversation():
    """Sums are 3, 3 and 2: of the 8 flips the two that leave all signs alike reach |8|."""
    found = over(
        [1, 2, 3, 1, 1],
        ["a", "a", "b", "c", "c"],
        p_of=lambda sums: sign_flip_p(sums, rng=np.random.default_rng(0)),
    )
    assert found.p_sign_flip == 2 / 8
    assert found.p == pytest.approx(2 * stats.t(2).sf(found.delta / found.se))


@pytest.mark.parametrize(
    ("contrasts", "conversations", "said"),
    [
        ([1, 2, 4], "aaa", "utterances of 1 conversation say nothing about how conversations differ"),
        ([1, 2, np.nan], "aab", "utterances of 1 conversation say"),
        ([1, 3, 3, 1], "aabb", "all 2 conversations have the same gap, so their spread is 0"),
        ([2, 2, 2], "aab", "all 3 narratives give the same contrast, so their spread is 0"),
    ],
)
def test_without_a_spread_over_conversations_there_is_no_interval(contrasts, conversations, said):
    found = over(contrasts, conversations)
    assert np.isnan([found.se, found.ci_low, found.ci_high, found.p]).all()
    assert said in found.not_estimable
    assert found.delta == pytest.approx(np.nanmean(contrasts))


def test_a_conversation_is_what_stands_before_the_last_colon():
    assert conversation_of("S01:E02:7") == "S01:E02"
    assert conversations_of(["a:1", "a:2", "b:1"], conversation_of) == ("a", "a", "b")
    assert conversations_of(["a:1", "b:1"], conversation_of) == ()
    assert conversations_of(["a:1", "a:2"], None) == ()
    assert told_apart_by("conversations") is conversation_of
    assert told_apart_by("csv") is told_apart_by("") is None


def rejected(sizes, *, n, missing=0.0):
    """Share of corpora without a gap in which p is below .05: of utterances, of conversations, and by their flips."""
    counts = np.zeros(3)
    for seed in range(n):
        cube, conversations = corpus(np.random.default_rng([seed, 5]), sizes, missing=missing)
        flips = np.random.default_rng(seed)
        if missing:
            naive, p_of = fit_mixed(cube).estimate(confidence=0.95), None
        else:
            naive = estimate_of(contrasts_of(cube))
            p_of = lambda sums, rng=flips: sign_flip_p(sums, rng=rng, n_permutations=400)  # noqa: E731
        found = over_conversations(naive, conversations, confidence=0.95)
        flipped = over_conversations(naive, conversations, confidence=0.95, p_of=p_of)
        counts += np.array([naive.p, found.p, flipped.p_sign_flip]) < 0.05
    return counts / n


def test_where_conversations_differ_in_their_gaps_one_in_twenty_is_found_where_there_is_none():
    """Of 600 corpora 5% is 30 ± 5.3: below 8.5% and above 2.5% by four standard deviations."""
    naive, found, flipped = rejected([1, 2, 3, 5, 9] * 4, n=600)
    assert naive > 0.25
    assert 0.02 < found < 0.085
    assert 0.02 < flipped < 0.085


@pytest.mark.simulation
def test_so_it_is_by_the_mixed_model():
    naive, found, _ = rejected([1, 2, 3, 5, 9] * 4, n=300, missing=0.1)
    assert naive > 0.25
    assert 0.015 < found < 0.1
