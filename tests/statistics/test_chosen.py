"""People's choices between two replies: shares worked by hand, the crossed design as oracle, planted preferences."""

import itertools

import numpy as np
import pandas as pd
import pytest

from audit.comparing.preference.human_gap import crossed_mean, preference_of_people
from audit.statistics.crossed import crossed_gap
from audit.statistics.estimates import t_interval
from audit.tables.preference import PEOPLE_PREFERENCE

TERMS = {"a Muslim": "Muslim", "a Hindu": "Hindu", "a Jew": "Jew"}


def choices_of(chose, *, raters=4, narratives=6, question="empathy", pairs=None):
    """Return choices of squares; ``chose(rater, narrative, perceiver, experiencer)`` is 1, 0.5, 0 or NaN."""
    pairs = pairs or list(itertools.product(list(TERMS)[:2], repeat=2))
    rows = [
        {
            "rater": f"r{r}",
            "item_id": f"{n}-{p}-{e}",
            "question": question,
            "dimension": "religion",
            "narrative_id": f"n{n}",
            "emotion": "joy",
            "perceiver": p,
            "experiencer": e,
            "perceiver_group": TERMS[p],
            "experiencer_group": TERMS[e],
            "in_group": p == e,
            "n_shared": int(p == e),
            "chose": chose(r, n, p, e),
            "chose_place": (r + n) % 2,
        }
        for r in range(raters)
        for n in range(narratives)
        for p, e in pairs
    ]
    return pd.DataFrame(rows)


def rows_of(choices):
    table = preference_of_people(choices, confidence=0.95)
    assert list(table) == list(PEOPLE_PREFERENCE)
    return table.set_index("pairs")


def mean_of(matrix):
    """Return the mean of a matrix, raters x narratives, NaN where a rater has not the narrative."""
    rater, narrative = np.nonzero(~np.isnan(matrix))
    return crossed_mean(matrix[rater, narrative], rater=rater, narrative=narrative, confidence=0.95)


# --- The estimator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raters", "narratives"), [(2, 2), (3, 9), (8, 5)])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_complete_choices_have_the_interval_of_the_crossed_design(raters, narratives, spread):
    rng = np.random.default_rng(raters)
    y = rng.normal(size=(raters, narratives)) + spread * rng.normal(size=(raters, 1)) + rng.normal(size=narratives)
    found, oracle = mean_of(y), crossed_gap(y.T, confidence=0.95, n_answers=y.size)
    for name in ("se", "df", "ci_low", "ci_high", "p"):
        assert getattr(found, name) == pytest.approx(getattr(oracle.estimate, name), rel=1e-10)
    assert found.mean == pytest.approx(oracle.estimate.delta, abs=1e-12)
    assert found.var_narratives == pytest.approx(oracle.narratives, abs=1e-12)
    assert found.var_raters == pytest.approx(oracle.wordings, abs=1e-12)


def test_missing_choices_are_those_worked_by_hand():
    # Narrative 0 has raters 0 and 1, who give 1 and 0: its mean is 1/2. Narrative 1 has rater 0 alone, 1: the mean is
    # 3/4. Scores w(y − 3/4) with w = 1/4, 1/4, 1/2 are 1/16, −3/16, 1/8. By narrative −1/8, 1/8: 2/1 · 2/64 = 1/16. By
    # rater 3/16 and −3/16: 2 · 18/256 = 9/64. No degree of freedom is left, so the variance is 1/16 + 9/64 = 13/64,
    # with df = (13/64)² / ((1/16)² + (9/64)²) = 169/97.
    found = mean_of(np.array([[1.0, 1.0], [0.0, np.nan]]))
    assert found.mean == pytest.approx(0.75)
    assert found.se == pytest.approx((13 / 64) ** 0.5)
    assert found.df == pytest.approx(169 / 97)
    assert (found.ci_low, found.ci_high, found.p) == pytest.approx(
        t_interval(0.75, (13 / 64) ** 0.5, 169 / 97, confidence=0.95)
    )
    assert np.isnan([found.var_raters, found.var_narratives]).all()


def test_one_rater_speaks_of_the_narratives_alone():
    y = np.array([[0.5, 1.0, 0.0, 1.0]])
    found = mean_of(y)
    assert found.se == pytest.approx(np.std(y, ddof=1) / 2)
    assert found.df == 3
    assert found.note == "of one rater, who says nothing about how raters differ"


@pytest.mark.parametrize(
    ("matrix", "note"),
    [([[1.0], [0.0]], "one narrative says nothing"), ([[1.0, 1.0], [1.0, 1.0]], "all choices are alike")],
)
def test_what_has_no_interval_says_why(matrix, note):
    found = mean_of(np.array(matrix))
    assert np.isnan([found.se, found.ci_low, found.ci_high, found.p]).all()
    assert note in found.note


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_interval_covers_a_planted_mean_where_raters_and_narratives_differ(missing):
    rng = np.random.default_rng(5)
    covered = {"crossed": 0, "narratives alone": 0}
    for _ in range(600):
        y = 0.2 + rng.normal(size=(6, 1)) * 0.5 + rng.normal(size=20) * 0.5 + rng.normal(size=(6, 20))
        y[rng.random(y.shape) < missing] = np.nan
        y = y[:, ~np.isnan(y).all(axis=0)]
        found = mean_of(y)
        covered["crossed"] += found.ci_low < 0.2 < found.ci_high
        means = np.nanmean(y, axis=0)
        low, high, _ = t_interval(means.mean(), means.std(ddof=1) / len(means) ** 0.5, len(means) - 1, confidence=0.95)
        covered["narratives alone"] += low < 0.2 < high
    assert 0.92 < covered["crossed"] / 600 < 0.985
    assert covered["narratives alone"] / 600 < 0.85  # who forgets the raters is too sure


# --- The table -------------------------------------------------------------------------------------------------------


def test_a_tie_counts_half_and_a_choice_left_out_is_missing_and_no_tie():
    given = {(0, 0): 1.0, (0, 1): 0.5, (1, 0): 0.0, (1, 1): np.nan}
    rows = rows_of(choices_of(lambda r, n, p, e: given[r, n], raters=2, narratives=2))
    # Narrative 0: 1 and 0, mean 1/2; narrative 1: 1/2 of the one who chose.
    assert rows.loc["all", "share"] == pytest.approx(0.5)
    assert rows.loc["all", ["n_choices", "n_ties", "n_left_out"]].tolist() == [12, 4, 4]
    full = rows_of(choices_of(lambda r, n, p, e: [1.0, np.nan][r], raters=2, narratives=2))
    assert full.loc["all", "share"] == pytest.approx(1.0)
    assert full.loc["all", "n_raters"] == 1


def test_a_planted_preference_by_group_and_its_gap_are_found():
    rng = np.random.default_rng(1)

    def chose(r, n, p, e):
        return float(rng.random() < (0.9 if p == e else 0.4))

    rows = rows_of(choices_of(chose, raters=6, narratives=30))
    for kind, truth in (("in_group", 0.9), ("out_group", 0.4), ("all", 0.65), ("gap", 0.5)):
        assert rows.loc[kind, "ci_low"] < truth < rows.loc[kind, "ci_high"], kind
        assert rows.loc[kind, "ci_high"] - rows.loc[kind, "ci_low"] < 0.2
    assert rows.loc["gap", "p"] < 0.001
    assert rows.loc[["all", "gap"], "note"].tolist() == ["", ""]


def test_perceivers_and_experiencers_that_are_preferred_throughout_make_no_gap():
    level = {"a Muslim": 0.4, "a Hindu": 0.1, "a Jew": 0.25}
    square = [("a Muslim", "a Muslim"), ("a Muslim", "a Hindu"), ("a Hindu", "a Muslim"), ("a Hindu", "a Hindu")]

    def chose(r, n, p, e):
        return level[p] + level[e] + 0.01 * (r * n % 3)

    rows = rows_of(choices_of(chose, pairs=square))
    assert rows.loc["gap", "share"] == pytest.approx(0.0, abs=1e-12)
    # With a pair missing, in-group minus out-group would be 0.15: the levels tell nothing of it, and it is left out.
    three = rows_of(choices_of(chose, pairs=square[:3]))
    assert three.loc["in_group", "share"] - three.loc["out_group", "share"] == pytest.approx(0.3, abs=0.02)
    assert np.isnan(three.loc["gap", "share"])
    assert three.loc["gap", "note"] != ""


def test_a_leaning_to_the_place_is_told_apart_from_the_preference():
    choices = choices_of(lambda r, n, p, e: float(r % 2))
    leaning = choices.assign(chose_place=1.0)
    rows = rows_of(leaning)
    assert rows.loc["all", ["position_bias", "share"]].tolist() == pytest.approx([0.5, 0.5])
    assert np.isnan(rows.loc["all", "bias_low"])  # all alike
    assert rows.loc["all", "ci_low"] < 0 < rows.loc["all", "ci_high"] - 1  # two raters each way say little


def test_p_is_corrected_over_dimensions_and_questions():
    rng = np.random.default_rng(3)
    both = pd.concat(
        [choices_of(lambda *_: float(rng.random() < 0.8), question=name) for name in ("empathy", "coherence")]
    )
    table = preference_of_people(both, confidence=0.95)
    alls = table.loc[table["pairs"] == "all"]
    assert alls["question"].tolist() == ["empathy", "coherence"]
    assert alls["family_size"].tolist() == [2, 2]
    least = alls["p"].idxmin()
    assert alls.loc[least, "p_adjusted"] == pytest.approx(2 * alls.loc[least, "p"])


def test_nobody_s_choices_are_no_half():
    rows = rows_of(choices_of(lambda *_: np.nan))
    assert rows["share"].isna().all()
    assert set(rows["note"]) == {"nobody chose"}
