"""The number against the text, and one asking against the next: exact values, and planted disagreement."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.asking.elicitation.sample import choose_again, choose_sample
from audit.runs.manifest import Manifest
from audit.statistics.elicitation import elicitation_tables
from audit.statistics.noise import noise_floor
from audit.statistics.remarks import FEWEST_WRITTEN, written_differs
from audit.statistics.status_counts import outcome_table
from audit.tables.controls import ELICITATION
from audit.tables.run_of_ratings import TABLES
from audit.tasks.limits import READ, limits_of_gap

GROUPS = ("Hindu", "Jew", "Muslim")


def ratings_of(rate, *, n=6, groups=GROUPS, terms=("a {}",), dimension="religion", first=0, baseline=True):
    """A complete table of ratings; ``rate`` takes narrative, perceiver's and experiencer's group."""
    rows = []
    sides = [(term.format(group), group) for group in groups for term in terms]
    sides += [("a person", "unspecified")] if baseline else []
    for (perceiver, p_group), (experiencer, e_group), i in itertools.product(sides, sides, range(n)):
        compared = "unspecified" not in (p_group, e_group)
        rows.append(
            {
                "prompt_index": first + len(rows),
                "dimension": dimension,
                "variant": "origin",
                "narrative_id": f"n{i}",
                "emotion": "sad",
                "perceiver": perceiver,
                "experiencer": experiencer,
                "perceiver_group": p_group,
                "experiencer_group": e_group,
                "in_group": p_group == e_group if compared else pd.NA,
                "n_shared": int(p_group == e_group) if compared else pd.NA,
                "status": "rated",
                "intensity": float(rate(i, p_group, e_group)),
                "number_mass": 0.9,
                "mode": 50.0,
            }
        )
    return pd.DataFrame(rows).astype({"in_group": "boolean", "n_shared": "Int8"})


def answers_of(ratings, change, status=lambda row: "rated"):
    rows = [
        {"prompt_index": row.prompt_index, "status": status(row), "intensity": change(row), "response": "x"}
        for row in ratings.itertuples()
    ]
    answers = pd.DataFrame(rows)
    return answers.assign(intensity=answers["intensity"].where(answers["status"] == "rated"))


def plain(i, p, e):
    return 40 + 3 * i + 2 * GROUPS.index(p) if p in GROUPS else 40 + 3 * i


def in_group(i, p, e):
    return 50 + (4 + i if p == e else 0)


EMPTY = answers_of(ratings_of(plain, n=1), lambda row: 0.0).iloc[:0]


def compared(rate, change, **more):
    ratings = ratings_of(rate)
    chosen = ratings.loc[ratings["in_group"].notna()]
    found = elicitation_tables(ratings, answers_of(chosen, change, **more), EMPTY, confidence=0.95)
    assert list(found.elicitation) == list(ELICITATION)
    expected, words = found.elicitation.to_dict("records")
    [control] = found.controls.to_dict("records")
    assert (expected["method"], words["method"], control["control"]) == ("expected", "generate", "elicitation")
    return expected, words, control


def test_a_model_that_writes_what_its_probabilities_say_shows_no_difference():
    expected, words, control = compared(in_group, lambda row: row.intensity)
    # Gaps of the narratives are 4 to 9, whatever the method: mean 6.5, sd² 3.5.
    assert expected["delta"] == words["delta"] == control["delta"] == pytest.approx(6.5, abs=1e-12)
    assert words["se"] == pytest.approx(math.sqrt(3.5 / 6), abs=1e-12)
    assert (words["pearson"], words["spearman"]) == pytest.approx((1, 1), abs=1e-12)
    assert (words["mean_difference"], words["difference"]) == (0, 0)
    assert (words["n_prompts"], words["n_rated"], words["n_answers"], words["n_narratives"]) == (54, 54, 54, 6)


def test_a_text_that_disagrees_with_the_distribution_shows_it():
    # In words the gap is the reverse: in-group 10 lower and 2 lower with each narrative. The difference of narrative i
    # is -(10 + 2i) - (4 + i) = -(14 + 3i), i from 0 to 5: mean -21.5, sd² 9·3.5.
    def text(row):
        i = int(row.narrative_id[1:])
        return 60 - (10 + 2 * i) if row.in_group else 60

    expected, words, control = compared(in_group, text)
    assert expected["delta"] == pytest.approx(6.5, abs=1e-12)
    assert words["delta"] == control["delta"] == pytest.approx(-15, abs=1e-12)
    assert words["difference"] == pytest.approx(-21.5, abs=1e-12)
    half = stats.t.ppf(0.975, 5) * math.sqrt(9 * 3.5 / 6)
    assert (words["difference_low"], words["difference_high"]) == pytest.approx((-21.5 - half, -21.5 + half), abs=1e-9)
    # 18 of 54 pairs are in-group: the mean of the differences 10 and, there, -21.5 + 10... by hand: 10 - 21.5 / 3
    assert words["mean_difference"] == pytest.approx(10 - 21.5 / 3, abs=1e-12)
    assert words["pearson"] < -0.9 > words["spearman"]
    assert math.isnan(expected["pearson"])
    assert math.isnan(expected["refusal_rate"])


def test_refusals_and_prose_are_counted_and_both_gaps_are_of_the_prompts_that_both_rated():
    # Narratives 0 and 1 are refused, and in narrative 2 one pair writes prose: their expected gaps do not count.
    def status(row):
        if row.narrative_id in ("n0", "n1"):
            return "refused"
        prose = row.narrative_id == "n2" and (row.perceiver_group, row.experiencer_group) == ("Hindu", "Jew")
        return "unparseable" if prose else "rated"

    expected, words, control = compared(in_group, lambda row: row.intensity + 5, status=status)
    assert (words["n_refused"], words["n_unparseable"], words["n_rated"]) == (18, 1, 35)
    assert words["refusal_rate"] == pytest.approx(18 / 54)
    assert (expected["n_rated"], expected["n_answers"], words["n_answers"]) == (54, 35, 35)
    assert expected["n_narratives"] == words["n_narratives"] == 4
    assert expected["delta"] == pytest.approx(words["delta"], abs=1e-9)
    assert words["mean_difference"] == pytest.approx(5)
    assert control["n_missing"] == 19


def test_a_model_that_writes_no_number_is_a_finding_and_no_error():
    expected, words, control = compared(in_group, lambda row: math.nan, status=lambda row: "unparseable")
    assert words["note"] == "none of 54 answers in words states a number of the scale"
    assert words["n_unparseable"] == 54
    assert expected["delta"] == pytest.approx(6.5)  # of all, since there is nothing to compare it with
    assert (expected["n_answers"], words["n_answers"]) == (54, 0)
    for name in ("delta", "pearson", "mean_difference", "difference"):
        assert math.isnan(words[name])
    assert math.isnan(control["delta"])
    assert "answered in words" in control["note"]


def test_a_text_that_is_always_the_same_has_no_correlation():
    expected, words, _ = compared(in_group, lambda row: 70.0)
    assert math.isnan(words["pearson"])
    assert math.isnan(words["spearman"])
    assert words["delta"] == 0
    assert words["difference"] == pytest.approx(-6.5)
    assert (expected["share_alike"], words["share_alike"]) == (0, 1)


def test_narratives_whose_written_ratings_are_all_the_same_are_counted():
    # Of 6 narratives, 1 has no rating in words and 1 a single one: of the other 4, three have one number for all.
    def status(row):
        single = row.narrative_id == "n1" and row.perceiver_group == row.experiencer_group == "Hindu"
        return "refused" if row.narrative_id == "n0" or (row.narrative_id == "n1" and not single) else "rated"

    def text(row):
        return 85.0 if row.narrative_id != "n5" or row.in_group else 80.0

    _, words, _ = compared(in_group, text, status=status)
    assert words["share_alike"] == 0.75
    _, none, _ = compared(in_group, text, status=lambda row: "refused")
    assert math.isnan(none["share_alike"])


# --- Asking again -----------------------------------------------------------------------------------------------------


def test_the_noise_floor_is_the_hand_worked_one_and_what_it_gives_delta_too():
    ratings = ratings_of(in_group, n=8)
    again = answers_of(ratings.iloc[:4], lambda row: row.intensity + (0.3, -0.4, 0.0, 1.2)[row.prompt_index])
    floor = noise_floor(ratings, again)
    assert (floor.n, floor.n_changed, floor.max_points) == (4, 0, pytest.approx(1.2))
    assert floor.rms_points == pytest.approx(math.sqrt((0.09 + 0.16 + 1.44) / 4))
    [row] = elicitation_tables(ratings, EMPTY, again, confidence=0.95).controls.to_dict("records")
    # Of a 3 x 3 mask of one-term groups s = 3 - 1 = 2; 8 narratives that count alike.
    assert row["control"] == "noise"
    assert math.isnan(row["delta"])
    assert row["se"] == pytest.approx(floor.rms_points / math.sqrt(2) / math.sqrt(8))
    assert row["n_narratives"] == 8


def test_the_spread_of_a_format_is_told_apart_from_that_of_order_and_batches():
    ratings = ratings_of(in_group, n=8)
    again = answers_of(ratings.iloc[:4], lambda row: row.intensity + 30)  # order and batches move by 30 points
    half = answers_of(ratings.iloc[:4], lambda row: row.intensity + 30 + (0.3, -0.4, 0.0, 1.2)[row.prompt_index])
    found = elicitation_tables(ratings, EMPTY, again, confidence=0.95, in_formats={"bfloat16": half, "float16": EMPTY})
    assert found.noise.rms_points == pytest.approx(30)
    assert list(found.noise_formats) == ["bfloat16"]
    own = found.noise_formats["bfloat16"]
    assert (own.n, own.max_points) == (4, pytest.approx(1.2))
    assert own.rms_points == pytest.approx(math.sqrt((0.09 + 0.16 + 1.44) / 4))
    noise, of_format = found.controls.to_dict("records")
    assert (noise["control"], of_format["control"]) == ("noise", "noise_bfloat16")
    assert noise["se"] == pytest.approx(30 / math.sqrt(2) / math.sqrt(8))
    assert of_format["se"] == pytest.approx(own.rms_points / math.sqrt(2) / math.sqrt(8))
    assert "if all prompts were asked in bfloat16, estimated from 4 that were" in of_format["note"]
    assert "if all prompts were asked again, estimated from 4 that were" in noise["note"]
    # Without that they were asked again in the run's own format, there is nothing to tell the format by.
    alone = elicitation_tables(ratings, half, EMPTY, confidence=0.95, in_formats={"bfloat16": half})
    assert alone.noise_formats == {}


@pytest.mark.long
def test_noise_of_that_size_moves_delta_as_it_says():
    # Oracle: the spread of δ over data sets that differ by such noise alone. r is of a difference: √2 of one asking's.
    rng = np.random.default_rng(0)
    ratings = ratings_of(in_group, n=8, baseline=False)
    again = answers_of(ratings, lambda row: row.intensity + 0.5 * (-1) ** row.prompt_index)
    [row] = elicitation_tables(ratings, EMPTY, again, confidence=0.95).controls.to_dict("records")
    moved = []
    for _ in range(200):
        noisy = ratings.assign(intensity=ratings["intensity"] + rng.normal(0, 0.5, len(ratings)))
        table = elicitation_tables(noisy, answers_of(noisy, lambda each: each.intensity), EMPTY, confidence=0.95)
        moved.append(table.elicitation["delta"].iloc[0])
    assert row["se"] == pytest.approx(np.std(moved), rel=0.15)


def test_a_rating_that_comes_or_goes_is_counted():
    ratings = ratings_of(in_group)
    again = answers_of(ratings.iloc[:3], lambda row: row.intensity, status=lambda row: "unparseable")
    floor = noise_floor(ratings, again)
    assert (floor.n, floor.n_changed) == (0, 3)
    assert math.isnan(floor.rms_points)
    [row] = elicitation_tables(ratings, EMPTY, again, confidence=0.95).controls.to_dict("records")
    assert (math.isnan(row["se"]), row["note"]) == (True, "no prompt was rated both times")


def test_invented_groups_are_left_out_of_both():
    real, invented = ratings_of(in_group), ratings_of(plain, dimension="invented", first=1000)
    ratings = pd.concat([real, invented], ignore_index=True)
    answers = answers_of(ratings.loc[ratings["in_group"].notna()], lambda row: row.intensity)
    found = elicitation_tables(ratings, answers, answers, confidence=0.95, placebo=["invented"])
    assert set(found.elicitation["dimension"]) == set(found.controls["dimension"]) == {"religion"}


# --- Which prompts ----------------------------------------------------------------------------------------------------


def test_a_sample_holds_whole_narratives_without_baselines_and_as_many_of_each_dimension():
    one = ratings_of(plain, n=20)
    two = ratings_of(plain, n=20, dimension="nationality", first=10_000, groups=("a", "b", "c", "d"))
    ratings = pd.concat([one, two], ignore_index=True)
    sample = choose_sample(ratings, size=100, seed=1)
    drawn = ratings.loc[ratings["prompt_index"].isin(sample.places)]
    assert sample.notes == {}
    assert drawn["in_group"].notna().all()
    # 50 prompts each: 5 narratives of 9 pairs, 3 of 16.
    for dimension, n_narratives, n_pairs in (("religion", 5, 9), ("nationality", 3, 16)):
        own = drawn.loc[drawn["dimension"] == dimension]
        assert own.groupby("narrative_id").size().tolist() == [n_pairs] * n_narratives
    assert np.array_equal(sample.places, choose_sample(ratings, size=100, seed=1).places)
    assert not np.array_equal(sample.places, choose_sample(ratings, size=100, seed=2).places)
    # A dimension's draw owes nothing to the others, but for its share.
    alone = choose_sample(one, size=50, seed=1).places
    assert np.array_equal(alone, sample.places[sample.places < 10_000])


def test_where_two_narratives_are_too_many_the_sample_is_of_fewer_identities_and_says_so():
    wide = ratings_of(lambda *_: 1, n=5, groups=[f"g{k}" for k in range(12)], terms=("a {}", "one of the {}"))
    sample = choose_sample(wide, size=100, seed=0)
    drawn = wide.loc[wide["prompt_index"].isin(sample.places)]
    # 50 pairs: 7 groups, one term each on either side; then all 24 x 24 pairs no more.
    assert drawn["perceiver"].nunique() == drawn["experiencer"].nunique() == 7
    assert set(drawn["perceiver_group"]) == set(drawn["experiencer_group"])
    assert drawn["narrative_id"].nunique() == 2
    assert drawn["in_group"].sum() == 2 * 7
    [note] = sample.notes.values()
    assert note.startswith("49 of 576 pairs of identities: two narratives of all of them are more than 100")


def test_terms_of_a_group_are_kept_before_groups_are_let_go():
    wide = ratings_of(lambda *_: 1, n=5, groups=list("abc"), terms=("a {}", "one of the {}", "some {}"))
    drawn = wide.loc[wide["prompt_index"].isin(choose_sample(wide, size=60, seed=0).places)]
    assert (drawn["perceiver"].nunique(), drawn["experiencer"].nunique()) == (3, 9)


def test_a_share_too_small_for_two_groups_holds_nothing_and_says_so():
    sample = choose_sample(ratings_of(plain), size=7, seed=0)
    assert len(sample.places) == 0
    assert list(sample.notes.values()) == ["7 prompts do not hold two narratives of two groups"]


def test_prompts_are_asked_again_in_another_order():
    ratings = ratings_of(plain)
    places = choose_again(ratings, size=32, seed=0)
    assert len(set(places.tolist())) == 32
    assert sorted(places) != places.tolist()
    assert len(choose_again(ratings.iloc[:5], size=32, seed=0)) == 5


@pytest.mark.parametrize(
    ("apart", "n", "found"),
    [(40.0, 6, True), (-40.0, 6, True), (9.0, 6, False), (40.0, 1, False)],
    ids=["higher", "lower", "near", "few"],
)
def test_written_ratings_far_from_the_probabilities_are_remarked_on(apart: float, n: int, found: bool) -> None:
    """Planted: every written rating is so many points off. On a scale of 100 points, 10 and less are not far."""
    ratings = ratings_of(lambda i, p, e: 50.0, n=n, baseline=False)
    if n == 1:
        ratings = ratings.iloc[: FEWEST_WRITTEN - 1]
    sample = answers_of(ratings, lambda row: row.intensity + apart)
    made = elicitation_tables(ratings, sample, EMPTY, confidence=0.95)
    remarks = list(written_differs(made.elicitation.to_dict("records"), length=100.0))
    assert [remark.code for remark in remarks] == ["written_differs"] * found
    for remark in remarks:
        assert f"{abs(apart):.2f} points {'higher' if apart > 0 else 'lower'} on average" in remark.text
    # An index of runs tells the same from the published tables alone.
    tables = {name: pd.DataFrame(columns=list(TABLES[name])) for name in READ} | {"elicitation": made.elicitation}
    scale = Manifest.of({"scale": {"low": 0.0, "high": 100.0}})
    assert ("written_differs" in set(limits_of_gap("religion", "origin", tables, scale))) == found


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("mass", [0.4, 0.6])
def test_low_number_mass_of_one_kind_of_pairs_limits_the_gap(in_group: bool, mass: float) -> None:
    ratings = ratings_of(plain, baseline=False).assign(number_mass=0.95)
    ratings.loc[ratings["in_group"] == in_group, "number_mass"] = mass
    outcomes = outcome_table(ratings, low=0.0, high=100.0)
    assert outcomes.set_index("pairs").loc["all", "mean_number_mass"] > 0.5
    tables = {name: pd.DataFrame(columns=list(TABLES[name])) for name in READ} | {"outcomes": outcomes}
    found = set(limits_of_gap("religion", "origin", tables, Manifest.of({"scale": {"low": 0.0, "high": 100.0}})))
    assert ("number_mass" in found) == (mass < 0.5)
