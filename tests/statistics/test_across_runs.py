import numpy as np
import pandas as pd
import pytest
from conftest import STEMS
from scipy import stats

from audit.comparing.changes import OTHER_TEXTS, compare_runs, compared_gap_table, in_one_unit, specification_rows
from audit.comparing.run_gaps import RatingGaps, gaps_of_ratings
from audit.comparing.tables import COMPARED_GAP, SPECIFICATIONS
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.tables.gap import COMPARISONS
from audit.tables.shared import OVERALL

NAN = float("nan")
GROUPS = ("a", "b")
GROUPS_OF_TERMS = (("a Hindu", "a follower of the Gita"), ("a Muslim", "a follower of Islam"))
SETTINGS = AnalysisSettings(n_permutations=200, margin=3.0)


def draws(seed, shift=0.0, n=8):
    """Ratings of shape (n, 2, 2), in-group ones higher by ``shift``."""
    rng = np.random.default_rng(seed)
    return 50 + rng.normal(scale=4, size=(n, 1, 1)) + rng.normal(size=(n, 2, 2)) + shift * np.eye(2)


def contrasts(y):
    """δ of each narrative for two groups a and b: (aa + bb − ab − ba) / 2."""
    return (y[:, 0, 0] + y[:, 1, 1] - y[:, 0, 1] - y[:, 1, 0]) / 2


@pytest.fixture
def measure(ratings_of):
    """Return a function that measures one run, of one variant, from the ratings of each dimension."""

    def measured(scale=(0, 100), **y_of):
        ratings = pd.concat(ratings_of(y, GROUPS, dimension=name) for name, y in y_of.items())
        ratings["prompt_index"] = range(len(ratings))
        (only,) = gaps_of_ratings(ratings, scale=scale, seed=3, settings=SETTINGS)
        return only

    return measured


def specification(*gaps):
    """Return the one row about runs whose δ, low and high are given."""
    runs = {}
    for number, (delta, low, high) in enumerate(gaps):
        row = {name: NAN for name in COMPARED_GAP if name != "run"}
        row |= {"dimension": "religion", "scope": "narratives", "delta": delta, "ci_low": low, "ci_high": high}
        identities = {"religion": ((), ())}
        runs[f"run {number}"] = RatingGaps(
            variant="origin", scale=(0, 100), gap=(row,), estimates={}, identities=identities
        )
    (only,) = specification_rows(runs)
    return only


@pytest.mark.parametrize("holes", [0, 3])
def test_a_run_has_the_headline_of_its_own_report(ratings_of, holes):
    y = np.full((12, 3, 3), 50.0)
    y[:, :2, :2] = draws(1, shift=1.0, n=12)
    y[:holes, 0, 0] = y[0, 2, 2] = NAN  # the second is a baseline's
    ratings = pd.concat(
        [
            ratings_of(y, (*GROUPS, "unspecified"), dimension="religion"),
            ratings_of(draws(2, n=12), GROUPS, dimension="nationality"),
        ]
    )
    ratings["prompt_index"] = range(len(ratings))
    (measured,) = gaps_of_ratings(ratings, scale=(0, 100), seed=7, settings=SETTINGS)
    gap = analyse(ratings, scales={"origin": (0, 100)}, seed=7, settings=SETTINGS).tables["gap"]
    expected = gap[gap["headline"]].reset_index(drop=True)
    found = compared_gap_table({"a run": measured})
    copied = [name for name in COMPARED_GAP if name in expected]
    order = {"religion": 0, "nationality": 1, OVERALL: 2}
    expected = expected.sort_values("dimension", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(found[copied], expected[copied], check_dtype=False)
    assert set(found["run"]) == {"a run"}
    assert found.loc[found["dimension"] == "religion", "n_asked"].tolist() == [48, 48]
    assert found.loc[found["dimension"] == "religion", "missing_share"].tolist() == [holes / 48] * 2
    assert list(found) == list(COMPARED_GAP)


@pytest.mark.parametrize("told", [False, True])
def test_a_run_of_two_terms_and_invented_groups_has_the_echo_free_headline_of_its_own_report(ratings_of, echoing, told):
    gaps = [1.0, 3.0, 2.0, 2.5, 1.5, 2.0]
    invented = ratings_of(draws(4, shift=9.0, n=6), ("Velta", "Dorr"), dimension="invented_1")
    ratings = pd.concat([echoing(gaps, echo=10.0), invented])
    ratings["prompt_index"] = range(len(ratings))
    # Where every two terms of a group are told to be of one stem, nothing is free of the echo, and δ is of all pairs.
    stems = {"religion": {name: group[-1] for group in GROUPS_OF_TERMS for name in group}} if told else STEMS
    given = {"seed": 7, "settings": SETTINGS, "repetition": Repetition(stems, ["invented_1"])}
    (measured,) = gaps_of_ratings(ratings, scale=(0, 100), **given)
    found = compared_gap_table({"a run": measured})
    expected = analyse(ratings, scales={"origin": (0, 100)}, **given).tables["gap"]
    expected = expected[expected["headline"]].reset_index(drop=True)
    copied = [name for name in COMPARED_GAP if name in expected]
    pd.testing.assert_frame_equal(found[copied], expected[copied], check_dtype=False)
    assert set(found["dimension"]) == set(measured.identities) == {"religion"}
    # Of the four in-group pairs of a group two repeat the words: 2 + 10 / 2.
    assert found["delta"].tolist() == pytest.approx([2.0 + (5.0 if told else 0.0)] * 2)


def test_the_variants_of_a_run_are_measured_apart(ratings_of):
    ratings = pd.concat([ratings_of(draws(n), GROUPS, variant=f"v{n}") for n in (1, 2)])
    ratings["prompt_index"] = range(len(ratings))
    first, second = gaps_of_ratings(ratings, scale=(0, 100), seed=0, settings=SETTINGS)
    assert (first.variant, second.variant) == ("v1", "v2")
    deltas = [each.gap[0]["delta"] for each in (first, second)]
    assert deltas == pytest.approx([contrasts(draws(n)).mean() for n in (1, 2)])


def test_a_difference_is_the_paired_t_test_of_the_narratives_own_gaps(measure):
    y = {"A": draws(1), "B": draws(2, shift=2.0)}
    rows = compare_runs({k: measure(religion=v) for k, v in y.items()}, texts={"A": "t", "B": "t"}, confidence=0.95)
    (row,) = rows
    expected = stats.ttest_rel(contrasts(y["A"]), contrasts(y["B"]))
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["delta_change"] == pytest.approx(contrasts(y["A"] - y["B"]).mean())
    assert (row["first"], row["second"], row["n_narratives"], row["note"]) == ("A", "B", 8, "")
    assert list(row) == list(COMPARISONS)


def test_the_same_identifier_of_another_text_is_not_paired_and_does_not_count(measure):
    runs = {name: measure(religion=draws(seed)) for seed, name in enumerate("ABC")}
    rows = {
        (row["first"], row["second"]): row
        for row in compare_runs(runs, texts={"A": "t", "B": "other", "C": "t"}, confidence=0.95)
    }
    for pair in (("A", "B"), ("B", "C")):
        assert rows[pair]["note"] == OTHER_TEXTS
        assert np.isnan(rows[pair]["delta_change"])
    assert np.isfinite(rows["A", "C"]["p"])
    assert rows["A", "C"]["p_adjusted"] == rows["A", "C"]["p"]
    assert rows["A", "C"]["family_size"] == 1


def test_different_scales_meet_in_percent_of_the_scale(measure):
    y = draws(1)
    runs = {"100": measure(religion=y), "10": measure(scale=(0, 10), religion=y / 10)}
    (row,) = compare_runs(runs, texts=dict.fromkeys(runs, "t"), confidence=0.95)
    assert row["unit"] == "% of the scale"
    assert row["delta_change"] == pytest.approx(0)
    (described,) = specification_rows(runs)
    assert described["unit"] == "% of the scale"
    assert [described[name] for name in ("lowest", "median", "highest")] == pytest.approx([contrasts(y).mean()] * 3)


def test_means_over_the_same_dimensions_are_compared_and_others_are_not(measure):
    both = {"religion": draws(1), "nationality": draws(2)}
    runs = {"A": measure(**both), "B": measure(religion=draws(3), nationality=draws(4))}
    texts = dict.fromkeys("ABC", "t")
    mean = {row["dimension"]: row for row in compare_runs(runs, texts=texts, confidence=0.95)}[OVERALL]
    by_hand = [(contrasts(draws(a)) + contrasts(draws(b))) / 2 for a, b in ((1, 2), (3, 4))]
    assert mean["p"] == pytest.approx(stats.ttest_rel(*by_hand).pvalue)
    runs["C"] = measure(religion=draws(1), age=draws(2))
    assert OVERALL not in {row["dimension"] for row in compare_runs(runs, texts=texts, confidence=0.95)}
    assert OVERALL not in {row["dimension"] for row in specification_rows(runs)}
    assert compared_gap_table(runs)["dimension"].unique().tolist() == ["religion", "nationality", "age", OVERALL]


def test_a_run_of_one_dimension_does_not_keep_the_others_from_being_compared(measure):
    both = {"religion": draws(1), "nationality": draws(2)}
    runs = {"A": measure(**both), "B": measure(**both), "C": measure(religion=draws(3))}
    rows = [row for row in specification_rows(runs) if row["dimension"] == OVERALL]
    assert [row["n_runs"] for row in rows] == [2]


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        pytest.param(
            [(-2, -3, -1), (1, -1, 3), (-1, -1.5, -0.5)],
            {"median": -1, "lowest": -2, "highest": 1, "n_same_sign": 2, "share_same_sign": 2 / 3, "n_below": 2}
            | {"n_above": 0, "n_compatible": 1, "share_below": 2 / 3, "lowest_run": "run 0", "highest_run": "run 1"},
            id="three runs",
        ),
        pytest.param(
            [(4, 3, 5), (1, 0, 2)],
            {"median": 2.5, "n_same_sign": 2, "n_above": 1, "n_compatible": 1, "share_above": 0.5},
            id="an interval that ends at 0 holds it",
        ),
        pytest.param(
            [(-1, -2, 0.5), (1, -0.5, 2)],
            {"median": 0, "n_same_sign": 0, "share_same_sign": 0, "n_compatible": 2},
            id="a median of 0 has no sign",
        ),
        pytest.param(
            [(-1, -2, 0.5), (0, -1, 1), (1, -0.5, 2)],
            {"median": 0, "n_same_sign": 0, "n_estimated": 3},
            id="nor is it that of a run of 0",
        ),
        pytest.param(
            [(1, NAN, NAN), (NAN, NAN, NAN)],
            {"n_runs": 2, "n_estimated": 1, "n_no_interval": 1, "median": 1, "n_compatible": 0},
            id="without interval, without δ",
        ),
        pytest.param(
            [(NAN, NAN, NAN)],
            {"n_estimated": 0, "n_same_sign": 0, "median": NAN, "share_same_sign": NAN, "lowest_run": ""},
            id="nothing estimable",
        ),
    ],
)
def test_what_all_runs_show_is_counted(gaps, expected):
    row = specification(*gaps)
    assert list(row) == list(SPECIFICATIONS)
    assert {name: row[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_one_unit_leaves_the_table_as_it_was(measure):
    gap = compared_gap_table({"A": measure(religion=draws(1))})
    before = gap.copy(deep=True)
    in_unit, unit = in_one_unit(gap, {"A": (0, 100)})
    pd.testing.assert_frame_equal(gap, before)
    assert unit == "points"
    assert in_unit["delta"].tolist() == pytest.approx([contrasts(draws(1)).mean()])
