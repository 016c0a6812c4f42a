"""Who gets less, between runs: planted disparities that differ or not, and what keeps a change from being said."""

import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import Planted, grouped, ratings_of, refused
from scipy import stats

from audit.comparing.changes import OTHER_TEXTS
from audit.comparing.disparity_changes import OTHER_GROUPS, OTHER_VIEWS, disparity_change_rows
from audit.comparing.run_gaps import gaps_of_ratings
from audit.comparing.tables import DISPARITY_CHANGES
from audit.configuration.schema import load_statistics
from audit.runs.outside import read_outside
from audit.statistics.controls import Repetition
from audit.statistics.disparity_answers import with_limits
from audit.statistics.verdict import Limits
from audit.tables.disparity import DISPARITY

NAMES = ("Red", "Blue", "Green", "Tan")
TERMS = {f"{word} {name}": name for name in NAMES for word in ("one", "an other")}
ONE_TERM = {f"a {name}": name for name in NAMES}


def minus(by, name="Red"):
    """Level of a group by which it alone is rated, and rates, lower."""
    return lambda group: -by if group == name else 0.0


def gaps_of(table, groups, *, high=100.0, limits=(), stems=True, **statistics):
    """Analyse ratings of one run; return its gaps, and what the run says about each group."""
    known = grouped(groups)
    known = known.assign(stem=known["term"]) if stems else known
    with tempfile.TemporaryDirectory() as folder:
        Planted(table, known).write(Path(folder))
        read = read_outside(Path(folder) / "ratings.csv", Path(folder) / "groups.csv", low=0, high=high)
    [made] = gaps_of_ratings(
        read.ratings, scale=(0.0, high), seed=0, settings=load_statistics(statistics), repetition=Repetition(read.stems)
    )
    table = with_limits(pd.DataFrame(list(made.disparity), columns=list(DISPARITY)), Limits(frozenset(limits)))
    return made, table.to_dict("records")


def changes_of(texts=None, **runs):
    """Compare runs, given by label; return a row of the table by pair and group."""
    texts = texts or dict.fromkeys(runs, "the same")
    made = disparity_change_rows(
        {label: run for label, (run, _) in runs.items()}, {label: rows for label, (_, rows) in runs.items()},
        texts=texts, confidence=0.95,
    )  # fmt: skip
    table = pd.DataFrame(list(made), columns=list(DISPARITY_CHANGES))
    return table[table["outcome"] == "intensity"].set_index(["first", "second", "group"])


LOWER = gaps_of(ratings_of(TERMS, n=40, level=minus(20), sd=3.0, seed=1), TERMS)
EQUAL = gaps_of(ratings_of(TERMS, n=40, sd=3.0, seed=2), TERMS)
ALSO_EQUAL = gaps_of(ratings_of(TERMS, n=40, sd=3.0, seed=3), TERMS)


def test_a_group_that_one_run_rates_20_points_lower_is_named_and_the_others_are_bystanders():
    found = changes_of(A=LOWER, B=EQUAL).loc[("A", "B")]
    assert found["code"].to_dict() == {"Red": "lower"} | dict.fromkeys(NAMES[1:], "not_shown")
    assert found["claim"].to_dict() == {"Red": "group"} | dict.fromkeys(NAMES[1:], "")
    red = found.loc["Red"]
    # 20 points lower than each of the others, so 20 lower than their mean.
    assert red["disparity_change"] == pytest.approx(-20, abs=1)
    assert red["ci_low"] < -20 < red["ci_high"]
    assert red["disparity_change"] == pytest.approx(red["disparity_first"] - red["disparity_second"])
    # The others are 20/3 points higher than their others, of which one fell by 20, and beside Red they stay.
    for name in NAMES[1:]:
        assert found.loc[name, "disparity_change"] == pytest.approx(20 / 3, abs=1)
        assert found.loc[name, "p_adjusted"] < 0.05
        assert found.loc[name, "extreme"] == "Red"
        assert abs(found.loc[name, "without_extreme"]) < 1
        assert found.loc[name, "limits"] == "bystander"


def test_the_order_of_the_runs_turns_the_change_around():
    found = changes_of(B=EQUAL, A=LOWER).loc[("B", "A", "Red")]
    assert (found["code"], found["claim"]) == ("higher", "group")
    assert found["disparity_change"] == pytest.approx(20, abs=1)


def test_the_gap_between_runs_stays_as_it_is_where_everybody_rates_one_group_lower():
    from audit.comparing.changes import compare_runs

    [row] = compare_runs({"A": LOWER[0], "B": EQUAL[0]}, texts={"A": "x", "B": "x"}, confidence=0.95)
    assert abs(row["delta_change"]) < 1
    assert row["p_adjusted"] > 0.05


def test_runs_that_rate_all_groups_alike_show_no_change():
    found = changes_of(A=EQUAL, B=ALSO_EQUAL)
    assert set(found["code"]) == {"not_shown"}
    assert (found["disparity_change"].abs() < 1).all()


def test_the_change_is_a_paired_t_test_over_narratives_widened_by_what_words_change_by():
    """Oracle: scipy's paired t test on means by hand, and a variance of words that is planted."""
    word = {"one Red": -6.0, "an other Red": 6.0}  # terms of a group differ by 12 points in the first run alone
    table = ratings_of(TERMS, n=40, level=minus(10), sd=3.0, seed=1)
    table["rating"] += table["experiencer"].map(word).fillna(0.0)
    first = gaps_of(table, TERMS)
    found = changes_of(A=first, B=EQUAL).loc[("A", "B", "Red")]

    def by_narrative(ratings):
        group = ratings["experiencer"].map(TERMS)
        means = ratings.assign(group=group).pivot_table("rating", "narrative_id", "group")
        return (means["Red"] - means.drop(columns="Red").mean(axis=1)).to_numpy()

    other = ratings_of(TERMS, n=40, sd=3.0, seed=2)
    tested = stats.ttest_rel(by_narrative(table), by_narrative(other))
    assert found["disparity_change"] == pytest.approx((by_narrative(table) - by_narrative(other)).mean())
    narrow = abs(found["disparity_change"] / tested.statistic)
    # Two terms 6 points off the group's mean, pooled over four groups with one df each: (36 + 36)/4 = 18. Of this the
    # mean of two terms has a half, and each of the three other groups a half of a ninth: 18 (1/2 + 3/18) = 12.
    assert found["se"] ** 2 - narrow**2 == pytest.approx(12, rel=0.1)
    assert found["df"] == 4


def test_words_that_differ_as_much_as_groups_leave_a_change_unshown():
    word = {"one Red": -40.0}  # one term of the group alone is rated lower
    table = ratings_of(TERMS, n=40, sd=3.0, seed=1)
    table["rating"] += table["experiencer"].map(word).fillna(0.0)
    found = changes_of(A=gaps_of(table, TERMS), B=EQUAL).loc[("A", "B", "Red")]
    assert found["disparity_change"] == pytest.approx(-20, abs=1)
    assert found["code"] == "not_shown"


@pytest.mark.parametrize("stems", [True, False])
def test_one_term_a_group_speaks_of_words(stems):
    lower = gaps_of(ratings_of(ONE_TERM, n=40, level=minus(20), sd=3.0, seed=1), ONE_TERM, stems=stems)
    equal = gaps_of(ratings_of(ONE_TERM, n=40, sd=3.0, seed=2), ONE_TERM, stems=stems)
    found = changes_of(A=lower, B=equal).loc[("A", "B", "Red")]
    assert (found["code"], found["claim"], found["limits"]) == ("lower", "words", "one_term")


def test_scales_that_differ_are_compared_in_percent():
    tenth = ratings_of(TERMS, n=40, level=minus(20), sd=3.0, seed=1)
    tenth["rating"] /= 10
    found = changes_of(A=gaps_of(tenth, TERMS, high=10.0), B=EQUAL).loc[("A", "B", "Red")]
    same = changes_of(A=LOWER, B=EQUAL).loc[("A", "B", "Red")]
    assert found["unit"] == "% of the scale"
    assert same["unit"] == "points"
    for name in ("disparity_first", "disparity_second", "disparity_change", "se", "ci_low", "ci_high", "p"):
        assert found[name] == pytest.approx(same[name], rel=1e-3)


@pytest.mark.parametrize("which", [0, 1])
def test_nothing_is_said_where_the_own_page_of_one_run_gives_no_verdict(which):
    tables = [ratings_of(TERMS, n=40, level=minus(20), sd=3.0, seed=1), ratings_of(TERMS, n=40, sd=3.0, seed=2)]
    runs = [gaps_of(each, TERMS, limits=["manipulation"] * (place == which)) for place, each in enumerate(tables)]
    found = changes_of(A=runs[0], B=runs[1])
    assert set(found["code"]) == {"no_verdict"}
    assert found["limits"].str.startswith("manipulation").all()
    assert (found["claim"] == "").all()
    assert found["disparity_change"].notna().all()  # the numbers stay


@pytest.mark.parametrize("n", [3, 5])
def test_few_narratives_leave_a_change_undecided(n):
    lower = gaps_of(ratings_of(TERMS, n=n, level=minus(20), sd=1.0, seed=1), TERMS)
    found = changes_of(A=lower, B=EQUAL).loc[("A", "B", "Red")]
    assert found["code"] == "undecided"
    assert "few_narratives" in found["limits"]


def test_missing_ratings_that_could_make_the_change_leave_it_undecided():
    table = ratings_of(TERMS, n=40, level=minus(3), sd=1.0, seed=1)
    red = table["experiencer"].map(TERMS) == "Red"
    gone = refused(table, red & (np.arange(len(table)) % 3 == 0))  # a third of the group's could all be 100
    found = changes_of(A=gaps_of(gone, TERMS), B=EQUAL).loc[("A", "B", "Red")]
    assert found["p_adjusted"] < 0.05
    assert found["code"] == "undecided"
    assert "missing" in found["limits"]
    told = gaps_of(gone, TERMS, missing_shift=2)
    assert changes_of(A=told, B=EQUAL).loc[("A", "B", "Red"), "limits"] != "missing"


def test_missing_ratings_that_could_hide_a_change_are_named_where_none_is_shown():
    table = ratings_of(TERMS, n=40, sd=1.0, seed=1)
    # Before: not shown, without a limit.
    gone = refused(table, table["narrative_id"].isin(["n000", "n001"]))
    found = changes_of(A=gaps_of(gone, TERMS), B=EQUAL)
    assert set(found["code"]) == {"not_shown"}
    assert set(found["limits"]) == {"missing"}
    assert set(changes_of(A=gaps_of(table, TERMS), B=EQUAL)["limits"]) == {""}
    # 100 points in one of 40 narratives and of 16 pairs move its group's mean by 0.16 points, and D of each other group
    # by a third of that at most: 0.05, less than a tenth of how far the intervals reach.
    one = refused(table, table.index == 0)
    found = changes_of(A=gaps_of(one, TERMS), B=EQUAL)
    assert set(found.drop(index=("A", "B", "Red"))["limits"]) == {""}


def test_on_other_narratives_or_beside_other_groups_nothing_is_subtracted():
    found = changes_of({"A": "one", "B": "another"}, A=LOWER, B=EQUAL)
    assert set(found["note"]) == {OTHER_TEXTS}
    three = {term: name for term, name in TERMS.items() if name != "Tan"}
    fewer = changes_of(A=LOWER, B=gaps_of(ratings_of(three, n=40, seed=2), three))
    assert set(fewer["note"]) == {OTHER_GROUPS}
    for rows in (found, fewer):
        assert set(rows["code"]) == {"no_estimate"}
        assert rows["disparity_change"].isna().all()
        assert (rows["family_size"] == 0).all()


def test_p_is_corrected_for_all_groups_and_pairs_of_the_dimension():
    found = changes_of(A=LOWER, B=EQUAL, C=ALSO_EQUAL)
    assert set(found["family_size"]) == {4 * 3}
    p = np.sort(found["p"].to_numpy())
    holm = np.minimum(np.maximum.accumulate(p * np.arange(12, 0, -1)), 1)
    assert np.sort(found["p_adjusted"].to_numpy()) == pytest.approx(holm)
    assert {(first, second) for first, second, _ in found.index} == set(combinations("ABC", 2))
    assert found.loc[("A", "B", "Red"), "code"] == found.loc[("A", "C", "Red"), "code"] == "lower"
    assert set(found.loc[("B", "C")]["code"]) == {"not_shown"}


def test_without_the_group_that_differs_most_a_change_is_that_of_disparities_without_it():
    """Oracle: the disparities of a table from which that group's ratings are taken out."""
    found = changes_of(A=LOWER, B=EQUAL).loc[("A", "B")]
    three = {term: name for term, name in TERMS.items() if name != "Red"}

    def without(level, seed):
        table = ratings_of(TERMS, n=40, level=level, sd=3.0, seed=seed)
        kept = table.loc[table["experiencer"].isin(list(three))]
        means = kept.assign(group=kept["experiencer"].map(TERMS)).pivot_table("rating", "narrative_id", "group")
        return means["Blue"] - means[["Green", "Tan"]].mean(axis=1)

    change = without(minus(20), 1) - without(minus(0), 2)
    assert found.loc["Blue", "without_extreme"] == pytest.approx(change.mean())


def test_two_groups_are_one_comparison():
    two = {term: name for term, name in TERMS.items() if name in NAMES[:2]}
    lower = gaps_of(ratings_of(two, n=40, level=minus(20), sd=3.0, seed=1), two)
    found = changes_of(A=lower, B=gaps_of(ratings_of(two, n=40, sd=3.0, seed=2), two)).loc[("A", "B")]
    assert found["code"].to_dict() == {"Red": "lower", "Blue": "higher"}
    assert found["limits"].str.contains("two_groups").all()


def test_a_run_without_perceivers_is_compared_with_one_of_many_and_the_note_says_so():
    table = ratings_of(TERMS, n=40, level=minus(20), sd=3.0, seed=1)
    nobody = table.loc[table["perceiver"] == "one Blue"].assign(perceiver="no persona")
    groups = pd.concat([grouped(TERMS).assign(stem=list(TERMS)),
                        pd.DataFrame({"term": ["no persona"], "group": ["unspecified"], "stem": [""]})])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Planted(nobody, groups).write(Path(folder))
        read = read_outside(Path(folder) / "ratings.csv", Path(folder) / "groups.csv", low=0, high=100)
    [made] = gaps_of_ratings(
        read.ratings, scale=(0.0, 100.0), seed=0, settings=load_statistics({}), repetition=Repetition(read.stems)
    )
    assert next(row["code"] for row in made.disparity) == "lower"
    found = changes_of(A=(made, list(made.disparity)), B=EQUAL).loc[("A", "B", "Red")]
    assert (found["code"], found["note"]) == ("lower", OTHER_VIEWS)
    alone = changes_of(A=(made, list(made.disparity)), B=(made, list(made.disparity)))
    assert set(alone["code"]) == {"no_estimate"}  # the very same ratings: there is no spread
