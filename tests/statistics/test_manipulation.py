"""Oracles: scipy's paired t-test; statsmodels for the number of narratives that decide; binomial tails by hand."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.power import TTestPower

from audit.configuration.analysis_settings import AnalysisSettings
from audit.runs.manifest import Manifest
from audit.statistics.manipulation import (
    answers_of,
    best_way,
    codes_of,
    deciding,
    fewest,
    manipulation_rows,
    response_of,
    way_row,
)
from audit.tables.ratings import MANIPULATION
from audit.tasks.intensity.publish import _on_check
from audit.tasks.limits import manipulation_rows_of_run


def answers(**columns):
    """Ratings by kind, one a narrative; NaN is a refusal."""
    intensity = np.concatenate([np.empty(0), *columns.values()])
    return pd.DataFrame(
        {
            "narrative_id": [f"n{k}" for values in columns.values() for k in range(len(values))],
            "kind": np.repeat(list(columns), [len(values) for values in columns.values()]),
            "emotion": "joy",
            "intensity": intensity,
            "response": "",
            "status": np.where(np.isnan(intensity), "refused", "rated"),
        }
    )


def rows_of(table, *, length=100, **settings):
    settings = {"least_response": 0.01, "confidence": 0.95, "power": 0.8} | settings
    return {row["check"]: row for row in manipulation_rows(table, length=length, **settings)}


def shifted(mean, se, n):
    """Answers whose differences have exactly this mean and standard error over n narratives."""
    spread = np.random.default_rng(0).normal(size=n)
    spread = (spread - spread.mean()) / spread.std(ddof=1)
    wrong = np.full(n, 40.0)
    return answers(own=wrong + mean + se * n**0.5 * spread, wrong=wrong)


def leaning_answers(*, n_pleasant, n_unpleasant, response, preference, sd=5.0):
    """Answers of a model with a response, which rates pleasant emotions higher than unpleasant ones by a preference."""
    rng = np.random.default_rng(1)
    pleasant = np.repeat([1.0, -1.0], [n_pleasant, n_unpleasant])
    own = 50 + response / 2 + preference / 2 * pleasant + rng.normal(0, sd, pleasant.size)
    wrong = 50 - response / 2 - preference / 2 * pleasant + rng.normal(0, sd, pleasant.size)
    return answers(own=own, wrong=wrong).assign(leaning=np.concatenate([pleasant, -pleasant])), pleasant, own - wrong


@pytest.mark.parametrize("shares", [(30, 30), (45, 15), (5, 55)])
def test_a_preference_for_pleasant_words_is_no_response(shares):
    """The oracle is least squares of statsmodels."""
    table, pleasant, differences = leaning_answers(
        n_pleasant=shares[0], n_unpleasant=shares[1], response=0, preference=30
    )
    found = rows_of(table)["emotion"]
    fit = sm.OLS(differences, sm.add_constant(pleasant)).fit()
    low, high = fit.conf_int()[0]
    assert found["difference"] == pytest.approx(fit.params[0], abs=1e-9)
    assert (found["se"], found["df"]) == (pytest.approx(fit.bse[0], rel=1e-9), fit.df_resid)
    assert (found["ci_low"], found["ci_high"]) == (pytest.approx(low, rel=1e-9), pytest.approx(high, rel=1e-9))
    assert found["mean_higher"] - found["mean_lower"] == pytest.approx(found["difference"], abs=1e-9)
    assert found["answer"] != "follows"
    assert shares == (30, 30) or abs(differences.mean()) > 10  # what would count without the preference
    follows, _, _ = leaning_answers(n_pleasant=shares[0], n_unpleasant=shares[1], response=20, preference=30)
    assert rows_of(follows)["emotion"]["answer"] == "follows"


def test_the_valence_of_a_user_s_file_tells_a_preference_for_pleasant_words_from_a_response():
    table, _, differences = leaning_answers(n_pleasant=40, n_unpleasant=20, response=0, preference=30)
    emotion = np.where(table["leaning"] > 0, "elation", "grief")  # neither is a packaged label
    table = table.drop(columns="leaning").assign(emotion=emotion)
    known = {"scale": {"low": 0, "high": 100}, "config": {"statistics": AnalysisSettings().model_dump(mode="json")}}
    for valence in ({}, {"elation": "positive", "grief": "negative"}):
        [row] = manipulation_rows_of_run(table, Manifest.of({**known, "stimuli": {"valence": valence}}))
        assert (row["answer"] == "follows") == (valence == {})
        assert row["difference"] == pytest.approx(0 if valence else differences.mean(), abs=2)
    assert differences.mean() > 8


def test_where_all_narratives_lean_one_way_a_preference_and_a_response_look_the_same():
    table, _, _ = leaning_answers(n_pleasant=60, n_unpleasant=0, response=0, preference=30)
    found = rows_of(table)["emotion"]
    assert (found["answer"], found["difference"] > 25, found["n_needed"]) == (
        "not_shown",
        True,
        pytest.approx(np.nan, nan_ok=True),
    )
    assert "pleasant" in found["note"]


def test_one_narrative_of_the_other_kind_decides_nothing():
    table, _, _ = leaning_answers(n_pleasant=59, n_unpleasant=1, response=60, preference=0, sd=0.5)
    found = rows_of(table)["emotion"]
    assert (found["answer"], found["ci_low"] > 1) == ("not_shown", True)


def test_a_preference_without_any_noise_leaves_nothing():
    table, _, _ = leaning_answers(n_pleasant=20, n_unpleasant=40, response=0, preference=30, sd=0)
    assert rows_of(table)["emotion"]["answer"] == "does_not_follow"
    table, _, _ = leaning_answers(n_pleasant=20, n_unpleasant=40, response=8, preference=30, sd=0)
    assert rows_of(table)["emotion"]["answer"] == "follows"


def test_a_check_is_a_paired_t_test_over_narratives_rated_both_times():
    rng = np.random.default_rng(0)
    own, wrong = rng.normal(60, 10, 20), rng.normal(30, 10, 20)
    own[3] = wrong[7] = np.nan
    found = rows_of(answers(own=own, wrong=wrong))["emotion"]
    both = ~np.isnan(own + wrong)
    test = stats.ttest_rel(own[both], wrong[both])
    assert (found["n_asked"], found["n_pairs"], found["answer"], found["passed"]) == (20, 18, "follows", True)
    assert found["share_higher"] == np.mean(own[both] > wrong[both])
    assert [found[name] for name in ("p", "ci_low", "ci_high")] == pytest.approx(
        [test.pvalue, *test.confidence_interval(0.95)]
    )
    assert set(found) == set(MANIPULATION)


@pytest.mark.parametrize(
    ("mean", "se", "n", "answer"),
    [
        (2.78, 0.75, 48, "follows"),  # a model of 1.5 billion parameters: 2.01 · 0.75 = 1.51, so from 1.27 up
        (3.17, 1.4428, 12, "not_shown"),  # the same on 12: 2.201 · 1.4428 = 3.176, so from −0.006 to 6.35
        (0.15, 0.0766, 10_000, "does_not_follow"),  # 0.00 to 0.30: sure to be above 0, and as good as none
        (0.1, 0.005, 10_000, "does_not_follow"),
        (0.1, 0.8, 200, "not_shown"),
        (-20.0, 1.0, 60, "does_not_follow"),  # follows the wrong emotion
        (60.0, 3.0, 12, "follows"),
    ],
)
def test_the_interval_is_held_against_a_least_response_and_not_against_0(mean, se, n, answer):
    found = rows_of(shifted(mean, se, n))["emotion"]
    assert found["answer"] == answer
    assert found["least_response"] == 1.0
    assert found["passed"] is {"follows": True, "does_not_follow": False, "not_shown": None}[answer]


def test_the_least_response_is_a_share_of_the_scale():
    told = shifted(0.5, 0.05, 60)  # from 0.4 to 0.6 points
    assert rows_of(told)["emotion"]["answer"] == "does_not_follow"
    assert rows_of(told, length=7)["emotion"]["answer"] == "follows"  # of 7 points 1% is 0.07
    assert rows_of(told, length=7, least_response=0.1)["emotion"]["answer"] == "does_not_follow"


def test_where_nothing_is_shown_the_narratives_that_would_decide_are_told():
    found = rows_of(shifted(3.17, 1.4428, 12))["emotion"]
    sd = 1.4428 * 12**0.5
    needed = TTestPower().solve_power(effect_size=1 / sd, alpha=0.05, power=0.8, alternative="two-sided")
    assert found["n_needed"] == math.ceil(needed)
    assert 150 < found["n_needed"] < 250
    for decided in (shifted(60, 3, 12), shifted(0, 0.1, 60)):
        assert math.isnan(rows_of(decided)["emotion"]["n_needed"])


@pytest.mark.parametrize(
    ("difference", "n", "answer", "needed"),
    [
        (0, 10, "does_not_follow", math.nan),
        (0.5, 10, "does_not_follow", math.nan),
        (5, 10, "follows", math.nan),
        (1, 10, "not_shown", math.nan),  # just the least response; more of the same would not tell
        (0, 6, "does_not_follow", math.nan),
        (0, 5, "not_shown", 6),
        (5, 5, "not_shown", 6),
        (5, 1, "not_shown", 6),
    ],
)
def test_answers_that_are_all_alike_stand_for_themselves_from_six_narratives_on(difference, n, answer, needed):
    same = np.full(n, 50.0)
    found = rows_of(answers(own=same, wrong=same - difference))["emotion"]
    assert found["answer"] == answer
    assert found["n_needed"] == pytest.approx(needed, nan_ok=True)
    assert math.isnan(found["ci_low"])
    assert found["note"]


def test_the_fewest_narratives_are_those_of_a_sign_test():
    for confidence in (0.9, 0.95, 0.99):
        n = fewest(confidence)
        two_sided = [2 * stats.binom.sf(k - 1, k, 0.5) for k in (n, n - 1)]
        assert two_sided[0] <= 1 - confidence + 1e-12 < two_sided[1]


def test_few_narratives_show_nothing_however_far_apart_and_no_interval_leaves_the_scale():
    found = rows_of(answers(own=[90.0, 20.0], wrong=[10.0, 12.0]))["emotion"]
    assert (found["answer"], found["ci_low"], found["ci_high"]) == ("not_shown", -100, 100)
    assert found["n_needed"] > 6
    assert rows_of(answers(own=[90.0, 91, 92], wrong=[1.0, 2, 4]))["emotion"]["answer"] == "not_shown"


def test_without_a_pair_nothing_is_shown():
    found = rows_of(answers(own=[50.0, np.nan], wrong=[np.nan, 40.0]))["emotion"]
    assert (found["answer"], found["passed"], found["n_pairs"]) == ("not_shown", None, 0)
    assert found["note"] == "no narrative was rated both times"
    assert rows_of(answers()) == {}


@pytest.mark.parametrize(
    ("n_refused", "answer"), [(0, "follows"), (30, "follows"), (31, "not_shown"), (60, "not_shown")]
)
def test_where_most_narratives_were_refused_the_others_show_nothing(n_refused, answer):
    rng = np.random.default_rng(2)
    own, wrong = rng.normal(60, 5, 60), rng.normal(20, 5, 60)
    wrong[:n_refused] = np.nan
    found = rows_of(answers(own=own, wrong=wrong))["emotion"]
    assert (found["answer"], found["n_asked"], found["n_pairs"]) == (answer, 60, 60 - n_refused)
    assert math.isnan(found["n_needed"])  # more narratives would be refused likewise


def test_a_check_of_strengths_is_held_the_same_way():
    mild = np.random.default_rng(1).normal(50, 5, 24)
    for shift, answer in ((20, "follows"), (0.2, "does_not_follow"), (-20, "does_not_follow")):
        found = rows_of(answers(own=mild, mild=mild, strong=mild + shift + np.linspace(-0.5, 0.5, 24)))
        assert {check: row["answer"] for check, row in found.items()} == {"intensity": answer}


@pytest.mark.parametrize(
    ("emotion", "intensity", "codes"),
    [
        ("follows", "follows", ()),
        ("follows", None, ()),
        ("follows", "not_shown", ()),
        ("follows", "does_not_follow", ("intensity_not_followed",)),
        ("not_shown", "follows", ("manipulation_not_shown",)),
        ("not_shown", "does_not_follow", ("manipulation_not_shown", "intensity_not_followed")),
        ("does_not_follow", "follows", ("manipulation",)),
        ("does_not_follow", "does_not_follow", ("manipulation", "intensity_not_followed")),
        (None, "does_not_follow", ("manipulation",)),
        (None, "not_shown", ("manipulation_not_shown",)),
        (None, None, ()),
    ],
)
def test_the_check_of_emotions_decides_where_it_was_made(emotion, intensity, codes):
    told = {"intensity": intensity, "emotion": emotion}
    rows = [{"check": check, "answer": answer} for check, answer in told.items() if answer]
    assert codes_of(rows) == codes
    assert deciding(rows) == (emotion or intensity)
    assert codes_of(pd.DataFrame(rows, columns=["check", "answer"])) == codes


@pytest.mark.parametrize(
    ("passed", "answer"),
    [(True, "follows"), ("True", "follows"), (1.0, "follows"), (False, "does_not_follow"), ("False", "does_not_follow"),
     (None, "not_shown"), (math.nan, "not_shown"), ("", "not_shown")],
)  # fmt: skip
def test_of_an_earlier_version_the_answer_is_what_its_page_said(passed, answer):
    for row in ({"passed": passed}, {"passed": passed, "answer": math.nan}, {"passed": passed, "answer": ""}):
        assert answers_of([{"check": "emotion", **row}]) == {"emotion": answer}


def test_the_response_is_own_minus_wrong():
    own, wrong = [60.0, 50, 40, 70, 30, 80, 55, 45], [40.0, 45, 41, 50, 30, 45, 35, 30]
    response = response_of(pd.DataFrame(rows_of(answers(own=own, wrong=wrong)).values()))
    # Differences 20, 5, −1, 20, 0, 35, 20, 15: their mean is 114 / 8 = 14.25, and six of eight lie above 0.
    assert (response.points, response.share_higher, response.n) == (14.25, 0.75, 8)
    assert response.ci_low < 14.25 < response.ci_high
    deaf = response_of(rows_of(answers(own=[50.0] * 8, wrong=[50.0] * 8)).values())
    assert (deaf.points, deaf.share_higher, deaf.answer) == (0, 0, "does_not_follow")
    assert response_of(rows_of(answers(strong=[50.0] * 8, mild=[40.0] * 8)).values()) is None
    assert response_of(rows_of(answers(own=[np.nan], wrong=[1.0])).values()) is None


@pytest.mark.simulation
@pytest.mark.parametrize("n", [12, 60, 400])
@pytest.mark.parametrize(
    ("response", "may_be"),
    [
        (0.0, ("does_not_follow", "not_shown")),
        (0.1, ("does_not_follow", "not_shown")),
        (1.0, ("not_shown",)),  # the least response itself: either other answer errs
        (3.0, ("follows", "not_shown")),
        (30.0, ("follows", "not_shown")),
    ],
)
def test_a_wrong_answer_is_as_rare_as_the_interval_says(response, may_be, n):
    """Planted: ratings with an error of SD 8. Each end of a 95% interval errs in 2.5%, or in 2.5% at the bound each."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(400):
        own, wrong = 40 + response + rng.normal(0, 8, n), 40 + rng.normal(0, 8, n)
        found.append(rows_of(answers(own=own, wrong=wrong))["emotion"]["answer"])
    n_wrong = sum(answer not in may_be for answer in found)
    assert stats.binom.sf(n_wrong - 1, 400, 0.05 if response == 1 else 0.025) > 0.001
    if response == 30:
        assert found.count("follows") == 400


@pytest.mark.simulation
@pytest.mark.parametrize("response", [0.0, 2.0])
def test_as_many_narratives_as_are_asked_for_decide_with_the_power_that_was_planned(response):
    rng = np.random.default_rng(7)
    n_decided = n_open = 0
    for _ in range(200):
        first = rows_of(answers(own=40 + response + rng.normal(0, 4, 60), wrong=40 + rng.normal(0, 4, 60)))["emotion"]
        if first["answer"] == "not_shown":
            n = int(first["n_needed"])
            again = rows_of(answers(own=40 + response + rng.normal(0, 4, n), wrong=40 + rng.normal(0, 4, n)))["emotion"]
            n_open, n_decided = (
                n_open + 1,
                n_decided + (again["answer"] == ("follows" if response else "does_not_follow")),
            )
    # The standard deviation is one of 60 narratives, which makes the power vary about 80%.
    assert n_open > 100
    assert 0.7 < n_decided / n_open < 0.88


# --- Which way to elicit ratings follows best ------------------------------------------------------------------------


def way(t, *, difference=10.0, n=12, note=""):
    return {"difference": difference, "standard_errors": t, "n_pairs": n, "note": note}


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        # sqrt(1 + 4^2 / 24) = 1.291: the first within it of 4 has 2.71 or more
        ((way(2.70), way(4.0)), 1),
        ((way(2.72), way(4.0)), 0),
        ((way(4.9), way(30.0)), 1),  # and from 5 on it is sure
        ((way(5.1), way(30.0)), 0),
        ((way(0.0, difference=0.0), way(-1.0, difference=-3.0)), 0),
        ((way(9.0, note="only 2 of 12 narratives were rated both times"), way(1.0)), 1),
        ((way(1.0, note="none"), way(2.0, note="none"), way(4.0, note="none")), 2),
        ((way(None, difference=0.0), way(3.0)), 1),  # all narratives rated alike: t is 0
        ((way(4.0), way(None, difference=20.0)), 1),  # all narratives differ by 20: nothing is surer
        ((way(None, difference=None, n=0, note="cannot"), way(None, difference=None, n=0, note="cannot")), 0),
    ],
)
def test_the_first_way_within_one_standard_error_of_the_best_or_sure_to_follow_is_taken(rows, chosen):
    assert best_way(rows) == chosen


def test_a_way_counts_by_pairs_alone_and_a_refusal_is_missing():
    nan = float("nan")
    asked = answers(own=[10.0, 20.0, 30.0, nan], wrong=[4.0, 12.0, 20.0, 5.0]).assign(number_mass=0.5)
    row = way_row(asked, n_asked=4, min_number_mass=0.4)
    # Differences 6, 8, 10: mean 8, SD 2, SE 2/sqrt(3) = 1.1547, t = 6.9282.
    assert (row["n_pairs"], row["difference"], row["note"]) == (3, 8.0, "")
    assert row["standard_errors"] == pytest.approx(8 / (2 / 3**0.5))
    assert "of the probability" in way_row(asked, n_asked=4, min_number_mass=0.6)["note"]
    assert "3 of 8" in way_row(asked, n_asked=8, min_number_mass=0.4)["note"]


@pytest.mark.parametrize(("ci_low", "said"), [(-2.0, True), (0.4, False)])
def test_ratings_that_may_not_depend_on_the_story_are_not_remedied_by_more_narratives_alone(ci_low, said):
    row = {
        "check": "emotion", "n_pairs": 60, "difference": 0.8, "ci_low": ci_low, "ci_high": 3.0, "least_response": 1.0,
        "n_needed": 386, "note": "",
    }  # fmt: skip
    told = _on_check(row, "manipulation_not_shown", n_available=408)
    assert "386 narratives would decide" in told
    assert ("change the prompt (prompt=)" in told) == said
