"""Gaps by elicitation: planted ones, of which each claim about sign and verdict is true of one and false of another."""

import numpy as np
import pandas as pd
import pytest
from conftest import STEMS
from scipy import stats

from audit.comparing.changes import elicitation_range, elicitation_rows
from audit.comparing.run_gaps import gaps_of_ratings
from audit.comparing.tables import ELICITATION_RANGES, ELICITATIONS
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.controls import Repetition
from audit.statistics.verdict import Limits, Verdict
from audit.tables.shared import OVERALL

SETTINGS = AnalysisSettings(n_permutations=100)
GROUPS = ("Hindu", "Muslim")
NAN = float("nan")


def draws(seed, *, gap, n=12, sd=1.0):
    """Ratings of n narratives whose own gaps are the gap planted, and normal noise of that SD which sums to 0."""
    noise = np.random.default_rng(seed).normal(size=n)
    own = gap + sd * (noise - noise.mean()) / noise.std(ddof=1)
    return 50 + np.arange(n)[:, None, None] + own[:, None, None] / 2 * np.array([[1.0, -1.0], [-1.0, 1.0]])


@pytest.fixture
def measure(ratings_of):
    def measured(settings=SETTINGS, **y_of):
        ratings = pd.concat(ratings_of(y, GROUPS, dimension=name) for name, y in y_of.items())
        ratings["prompt_index"] = range(len(ratings))
        (only,) = gaps_of_ratings(ratings, scale=(0, 100), seed=3, settings=settings)
        return only

    return measured


def decided(runs):
    """Return what the runs decide, where nothing but their numbers limits them."""
    return {
        (label, each.dimension): each.row()
        for label, run in runs.items()
        for each in run.averages.verdicts(Limits(frozenset(), {}), margin=run.averages.settings.margin)[1]
    }


def planted_verdict(**values):
    return Verdict(dimension="religion", variant="origin", **values).row()


def beside(runs, *, dimension="religion", verdicts=None):
    """Return the rows of one dimension, and what they come to."""
    named = {label: f"by {label}" for label in runs}
    made = elicitation_rows(runs, elicitations=named, verdicts=verdicts or decided(runs), confidence=0.95)
    rows = [row for row in made if row["dimension"] == dimension]
    return rows, elicitation_range(rows, scale=(0, 100), confidence=0.95)


@pytest.mark.parametrize(
    ("gaps", "margin", "sign", "verdict", "n_found"),
    [
        pytest.param([3, 3.2], None, "same", "same", 0, id="both found, in one direction"),
        pytest.param([3, 8], None, "same", "same", 1, id="other sizes of one sign and verdict"),
        pytest.param([3, -3], None, "reverses", "differs", 1, id="found in both directions"),
        pytest.param([0.1, -0.1], None, "differs", "same", 0, id="on both sides of 0 and not found"),
        pytest.param([3, 0.1], None, "same", "differs", 1, id="found once, of one sign"),
        pytest.param([3, -0.1], None, "differs", "differs", 1, id="found once, of another sign"),
        pytest.param([0.8, 0.5], None, "same", "differs", 0, id="another verdict, and no difference shown"),
        # The first interval lies within 0.65 points: too few narratives to rule out rare large gaps, so both are open.
        pytest.param([0.1, 0.2], 0.65, "same", "same", 0, id="two intervals of which one is within the margin"),
        pytest.param([0.1, 0.2], 40, "same", "same", 0, id="both within the margin"),
        pytest.param([0.1, 3], 40, "same", "differs", 1, id="within the margin, and a gap that is smaller"),
        pytest.param([3, 3.1, -3], None, "reverses", "differs", 1, id="the last of three"),
    ],
)
def test_sign_and_verdict_of_planted_gaps(measure, gaps, margin, sign, verdict, n_found):
    settings = AnalysisSettings(n_permutations=100, margin=margin)
    runs = {f"{k}": measure(settings, religion=draws(k, gap=gap)) for k, gap in enumerate(gaps)}
    rows, whole = beside(runs)
    assert (whole["sign"], whole["verdict"], whole["n_found"]) == (sign, verdict, n_found)
    assert (whole["lowest"], whole["highest"]) == pytest.approx((min(gaps), max(gaps)))
    assert whole["range"] == pytest.approx(max(gaps) - min(gaps))
    assert whole["highest_elicitation"] == f"by {gaps.index(max(gaps))}"
    assert (whole["n_elicitations"], whole["n_estimated"], whole["n_intervals"]) == (len(gaps),) * 3
    assert list(whole) == list(ELICITATION_RANGES)
    assert all(list(row) == list(ELICITATIONS) for row in rows)


def test_a_change_is_the_run_s_gap_less_the_first_s_narrative_by_narrative(measure):
    y = [draws(k, gap=gap) for k, gap in enumerate((3, 2, 5))]
    own = [(each[:, 0, 0] + each[:, 1, 1] - each[:, 0, 1] - each[:, 1, 0]) / 2 for each in y]
    rows, whole = beside({f"{k}": measure(religion=each) for k, each in enumerate(y)})
    assert [row["reference"] for row in rows] == ["0"] * 3
    assert np.isnan(rows[0]["delta_change"])
    assert (rows[0]["method"], rows[0]["family_size"], rows[0]["n_narratives"]) == ("", 0, 0)
    tests = [stats.ttest_rel(each, own[0]) for each in own[1:]]
    for row, test, change in zip(rows[1:], tests, (-1, 2), strict=True):
        assert row["delta_change"] == pytest.approx(change)
        low, high = test.confidence_interval()
        assert (row["change_low"], row["change_high"], row["p"]) == pytest.approx((low, high, test.pvalue))
        assert (row["family_size"], row["n_narratives"]) == (2, 12)
    # Holm over two: the smaller p twice, the larger one as it is or as the smaller's.
    small, large = sorted(test.pvalue for test in tests)
    assert sorted(row["p_adjusted"] for row in rows[1:]) == pytest.approx([2 * small, max(2 * small, large)])
    assert whole["n_changes"] == 2


def test_the_echo_of_a_word_that_an_elicitation_hears_does_not_turn_the_sign(echoing):
    gaps = [2.0, 2.5, 1.5, 2.2, 1.8, 2.0]
    runs = {}
    for label, echo in (("expected", 0.0), ("generate", -20.0)):
        ratings = echoing(gaps, echo=echo)
        ratings["prompt_index"] = range(len(ratings))
        told = Repetition(STEMS)
        (runs[label],) = gaps_of_ratings(ratings, scale=(0, 100), seed=3, settings=SETTINGS, repetition=told)
    rows, whole = beside(runs)
    # In whatever words the second gap is 2 − 20/2 = −8: the sign would seem to turn.
    of_all = [r["delta"] for r in runs["generate"].controls if r["control"] == "all_terms"]
    assert of_all == pytest.approx([-8.0])
    assert [row["delta"] for row in rows] == pytest.approx([2.0, 2.0])
    assert [row["pairs"] for row in rows] == ["echo_free"] * 2
    assert (whole["sign"], whole["verdict"]) == ("same", "same")


def test_where_terms_share_a_stem_the_gap_is_of_all_words_and_a_mean_may_be_mixed(echoing, ratings_of):
    def measured(stems, **more):
        parts = [echoing([1.0, 3.0, 2.0, 2.5], echo=10.0), *more.values()]
        ratings = pd.concat(parts)
        ratings["prompt_index"] = range(len(ratings))
        return next(gaps_of_ratings(ratings, scale=(0, 100), seed=1, settings=SETTINGS, repetition=Repetition(stems)))

    names = ("a Hindu", "a follower of the Gita", "a Muslim", "a follower of Islam")
    told = {"religion": dict(zip(names, "aabb", strict=True))}
    rows, _ = beside({"A": measured(told), "B": measured(told)})
    assert {row["pairs"] for row in rows} == {"all_terms"}
    other = ratings_of(draws(5, gap=1, n=4), GROUPS, dimension="nationality")
    runs = {"A": measured(STEMS, other=other), "B": measured(STEMS, other=other)}
    assert {row["pairs"] for row in beside(runs, dimension=OVERALL)[0]} == {"mixed"}
    assert {row["pairs"] for row in beside(runs, dimension="nationality")[0]} == {"all_terms"}


def test_an_elicitation_that_rates_nothing_has_no_gap_and_nothing_is_claimed(measure):
    y = draws(1, gap=3)
    runs = {"expected": measure(religion=y), "generate": measure(religion=np.full_like(y, NAN))}
    rows, whole = beside(runs)
    assert [row["pairs"] for row in rows] == ["all_terms", ""]
    assert "generate cannot be estimated" in rows[1]["note"]
    assert (whole["sign"], whole["verdict"], whole["n_estimated"], whole["n_changes"]) == ("", "", 1, 0)


def test_gaps_without_a_spread_have_no_verdict_and_nothing_is_claimed(measure):
    runs = {f"{gap}": measure(religion=draws(1, gap=gap, sd=0)) for gap in (3, -3)}
    _, whole = beside(runs)
    assert (whole["sign"], whole["verdict"], whole["n_intervals"], whole["n_verdicts"]) == ("", "", 0, 0)
    assert (whole["lowest"], whole["highest"]) == pytest.approx((-3, 3))


def test_a_gap_of_0_has_not_the_sign_of_another(measure):
    _, whole = beside({"zero": measure(religion=draws(1, gap=0)), "3": measure(religion=draws(2, gap=3))})
    assert (whole["sign"], whole["verdict"]) == ("differs", "differs")


@pytest.mark.parametrize(
    ("second", "sign", "verdict", "n_changes"),
    [
        ({"code": "gap", "claim": "groups", "direction": 1}, "same", "same", 1),
        ({"code": "gap", "claim": "pairs", "direction": 1}, "same", "differs", 1),
        ({"code": "undecided"}, "same", "differs", 1),
        ({"code": "within"}, "same", "differs", 1),
        ({"code": "no_verdict"}, "", "", 0),
        ({"code": "no_estimate"}, "", "", 0),
    ],
)
def test_verdicts_are_the_runs_own_whatever_the_intervals(measure, second, sign, verdict, n_changes):
    """The second gap's interval leaves out 0; what its own page says is planted."""
    runs = {f"{k}": measure(religion=draws(k, gap=3)) for k in range(2)}
    found = {"code": "gap", "claim": "groups", "direction": 1}
    planted = {("0", "religion"): planted_verdict(**found), ("1", "religion"): planted_verdict(**second)}
    rows, whole = beside(runs, verdicts=planted)
    assert rows[1]["verdict"] == second["code"]
    assert (whole["sign"], whole["verdict"], whole["n_changes"]) == (sign, verdict, n_changes)


def test_intervals_on_opposite_sides_reverse_a_sign_though_neither_run_decides(measure):
    runs = {f"{gap}": measure(religion=draws(1, gap=gap)) for gap in (3, -3)}
    planted = {(label, "religion"): planted_verdict(code="undecided") for label in runs}
    _, whole = beside(runs, verdicts=planted)
    assert (whole["sign"], whole["verdict"]) == ("reverses", "same")


def test_intervals_on_which_no_verdict_rests_reverse_no_sign(measure):
    """Over narratives alone +3 and −3, each far from 0; with the groups as a sample both intervals hold 0."""
    runs = {f"{gap}": measure(religion=draws(1, gap=gap)) for gap in (3, -3)}
    planted = {
        (f"{gap}", "religion"): planted_verdict(
            code="undecided", scope="groups", delta=gap, ci_low=gap - 9.0, ci_high=gap + 9.0
        )
        for gap in (3, -3)
    }
    rows, whole = beside(runs, verdicts=planted)
    assert (whole["sign"], whole["verdict"]) == ("differs", "same")
    assert [(row["ci_low"], row["ci_high"]) for row in rows] == [(-6, 12), (-12, 6)]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({}, "same"),
        ({"scope": "pairs"}, "differs"),
        ({"control": "none"}, "differs"),
        ({"parts_not_shown": ("joy",)}, "differs"),
        ({"parts_beyond": ("joy",)}, "differs"),
    ],
)
def test_two_verdicts_that_rule_out_another_gap_are_not_the_same(measure, other, verdict):
    runs = {f"{k}": measure(religion=draws(k, gap=0.1)) for k in range(2)}
    known = {"code": "within", "margin": 9.0, "scope": "groups", "control": "echo_free"}
    planted = {("0", "religion"): planted_verdict(**known), ("1", "religion"): planted_verdict(**(known | other))}
    assert beside(runs, verdicts=planted)[1]["verdict"] == verdict


def test_other_runs_of_the_comparison_are_no_part_of_the_set(measure):
    runs = {"A": measure(religion=draws(1, gap=3)), "other": measure(religion=draws(2, gap=-9))}
    runs["B"] = measure(religion=draws(3, gap=3))
    rows = list(
        elicitation_rows(runs, elicitations={"A": "expected", "B": "generate"}, verdicts=decided(runs), confidence=0.95)
    )
    assert [row["run"] for row in rows] == ["A", "B"]
