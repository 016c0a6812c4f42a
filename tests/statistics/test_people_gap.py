"""δ of people: a planted one is recovered, none is not found, and what is left out is counted."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.errors import NotEstimableError
from audit.people.gap import fisher_interval, people_gap, people_gap_tables
from audit.report.results import Results
from audit.report.section import Captioned
from audit.tables.run_of_ratings import TABLES
from audit.tasks.intensity.people_section import people_section

GROUPS = ("Buddhist", "Christian", "Hindu", "Muslim")


def model_ratings(narratives, *, gap=0.0, groups=GROUPS, dimension="religion"):
    """Return a model's ratings of every pair and narrative: 40 + narrative + gap, each narrative's its own."""
    rows = [
        (dimension, "origin", name, "sad" if k % 2 else "joy", f"a {p}", f"a {e}", p, e, p == e, int(p == e), "rated",
         40 + 2 * k + gap * (p == e) * (1 + 0.1 * (k % 3 - 1)), math.nan, math.nan)
        for k, name in enumerate(narratives) for p in groups for e in groups
    ]  # fmt: skip
    names = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "perceiver_group"]
    names += ["experiencer_group", "in_group", "n_shared", "status", "intensity", "number_mass", "mode"]
    return pd.DataFrame(rows, columns=names)


def people(rng, *, n_raters=12, n=24, gap=6.0, slope_sd=0.0, groups=GROUPS):
    """Return ratings of a Latin square and who is of which group, before any rounding."""
    level = {"narrative": rng.normal(0, 9, n), "experiencer": rng.normal(0, 4, len(groups))}
    rows, members = [], []
    for who in range(n_raters):
        own, mean = who % len(groups), rng.normal(0, 10)
        own_gap = gap + rng.normal(0, slope_sd)
        members.append((f"r{who}", "religion", groups[own]))
        for k in range(n):
            e = (k + who // len(groups)) % len(groups)
            y = 50 + mean + level["narrative"][k] + level["experiencer"][e] + own_gap * (e == own) + rng.normal(0, 8)
            emotion = "sad" if k % 2 else "joy"
            rows.append((f"r{who}", "l", "religion", f"n{k}", emotion, f"a {groups[e]}", groups[e], y))
    names = ["rater", "list", "dimension", "narrative_id", "emotion", "experiencer", "experiencer_group", "intensity"]
    return pd.DataFrame(rows, columns=names), pd.DataFrame(members, columns=["rater", "dimension", "group"])


def row_of(given, members, ratings=None):
    ratings = model_ratings([f"n{k}" for k in range(24)]) if ratings is None else ratings
    tables = people_gap_tables(given, members, ratings, confidence=0.95, stems=STEMS)
    return tables["people_gap"].iloc[0]


def test_a_planted_gap_is_recovered_and_none_is_not_found():
    given, members = people(np.random.default_rng(0))
    row = row_of(given, members)
    assert 0 < row["ci_low"] < 6 < row["ci_high"]
    assert row["p"] < 0.001
    assert row[["n_raters", "n_groups", "n_narratives", "n_ratings", "n_excluded"]].to_list() == [12, 4, 24, 288, 0]
    none = row_of(*people(np.random.default_rng(0), gap=0.0))
    assert none["ci_low"] < 0 < none["ci_high"]
    # The same errors: least squares moves by exactly the gap.
    assert row["delta"] - none["delta"] == pytest.approx(6)


def test_groups_that_raters_do_not_belong_to_tell_nothing():
    given, members = people(np.random.default_rng(2))
    shifted = members.assign(group=members["group"].map(dict(zip(GROUPS, (*GROUPS[1:], GROUPS[0]), strict=True))))
    assert row_of(given, shifted)["ci_low"] < 0
    assert row_of(given, members)["ci_low"] > 0


@pytest.mark.simulation
@pytest.mark.parametrize("slope_sd", [0.0, 6.0])
def test_the_interval_covers_as_often_as_it_says(slope_sd):
    # 300 data sets of 12 raters whose own gaps differ by slope_sd: 95% covers in 0.95 ± 3 · 0.0126.
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(300):
        given, members = people(rng, slope_sd=slope_sd)
        codes = {name: pd.factorize(given[name])[0] for name in ("rater", "narrative_id", "experiencer")}
        own = given["rater"].map(members.set_index("rater")["group"])
        found = people_gap(
            given["intensity"].to_numpy(), rater=codes["rater"], narrative=codes["narrative_id"],
            experiencer=codes["experiencer"], confidence=0.95,
            shared=(own == given["experiencer_group"]).to_numpy(dtype=float)[:, None],
        )  # fmt: skip
        covered.append(found.ci_low <= 6 <= found.ci_high)
    covered = np.mean(covered)
    assert 0.912 <= covered <= 0.985


def test_the_estimate_is_that_of_statsmodels_with_a_term_for_each_rater():
    import statsmodels.formula.api as smf

    given, members = people(np.random.default_rng(4))
    given = given.sample(frac=0.8, random_state=0)  # unbalanced
    own = given.merge(members[["rater", "group"]], on="rater")
    own["same"] = (own["group"] == own["experiencer_group"]).astype(float)
    fit = smf.ols("intensity ~ same + C(rater) + C(narrative_id) + C(experiencer)", own).fit()
    assert row_of(given, members)["delta"] == pytest.approx(fit.params["same"])


def test_in_a_balanced_square_delta_is_a_difference_of_means():
    # Two raters of two groups, two narratives, no error: y = 10 + 3·[second narrative] + 5·[own].
    y = np.array([15.0, 13.0, 10.0, 18.0])
    found = people_gap(
        y, rater=np.array([0, 0, 1, 1]), narrative=np.array([0, 1, 0, 1]), experiencer=np.array([0, 1, 0, 1]),
        shared=np.array([[1.0], [0.0], [0.0], [1.0]]), confidence=0.95,
    )  # fmt: skip
    # Narrative and experiencer are one here, which least squares does not mind: (15−13 + 18−10)/2 = 5.
    assert found.delta == pytest.approx(5)
    assert math.isnan(found.se)
    assert "2 raters say nothing" in found.note


def test_raters_without_a_group_and_skipped_items_are_left_out_and_counted():
    given, members = people(np.random.default_rng(5))
    full = row_of(given, members)
    strange, _ = people(np.random.default_rng(6), n_raters=2, gap=90.0)
    strange = strange.assign(rater="x" + strange["rater"])
    outside = pd.DataFrame(
        [("xr0", "religion", "none of these"), ("xr1", "religion", "prefer not to say")], columns=list(members)
    )
    row = row_of(pd.concat([given, strange]), pd.concat([members, outside]))
    assert row["delta"] == pytest.approx(full["delta"])
    assert row[["n_raters", "n_excluded", "n_ratings_excluded"]].to_list() == [12, 2, 48]
    gone = given.assign(intensity=given["intensity"].mask(given.index < 3))
    assert row_of(gone, members)[["n_skipped", "n_ratings"]].to_list() == [3, 285]


def test_raters_of_one_group_tell_nothing_and_few_raters_give_no_interval():
    given, members = people(np.random.default_rng(7))
    hindu = members.loc[members["group"] == "Hindu", "rater"]
    row = row_of(given.loc[given["rater"].isin(hindu)], members)
    assert math.isnan(row["delta"])
    assert "raters of two groups or more" in row["note"]
    few = row_of(given.loc[given["rater"].isin(["r0", "r1", "r2"])], members)
    assert math.isfinite(few["delta"])
    assert math.isnan(few["ci_low"])
    assert "3 raters say nothing about how raters differ" in few["note"]
    nobody = row_of(given, members.assign(group="none of these"))
    assert "no rating is by a rater who belongs" in nobody["note"]


def test_the_model_s_gap_is_of_the_same_narratives_and_groups():
    given, members = people(np.random.default_rng(8), n=12)
    ratings = model_ratings([f"n{k}" for k in range(24)], gap=3.0)
    ratings.loc[ratings["narrative_id"].isin([f"n{k}" for k in range(12, 24)]), "intensity"] = 7.0
    row = row_of(given, members, ratings)
    assert row["model_delta"] == pytest.approx(3.0)  # 1 ± 0.1 of 3 over thirds of the twelve narratives
    assert row["model_n_narratives"] == 12
    # Where no Muslim took part, the model as a Muslim is not compared.
    odd = ratings.assign(
        intensity=ratings["intensity"] + 50 * ((ratings["perceiver_group"] == "Muslim") & ratings["in_group"])
    )
    muslims = members.loc[members["group"] == "Muslim", "rater"]
    without = given.loc[~given["rater"].isin(muslims)]
    assert row_of(without, members, odd)["model_delta"] == pytest.approx(3.0)
    assert row_of(given, members, odd)["model_delta"] > 10


WORDED = {"Hindu": ("a Hindu", "a follower of the Gita"), "Muslim": ("a Muslim", "a follower of Islam")}
STEMS = {"religion": {term: term for terms in WORDED.values() for term in terms}}


def worded_ratings(*, gap, echo, terms=WORDED, n=12):
    """Return a model's ratings of groups of two terms each: 40 + narrative + gap, more where the words are the same."""
    rows = [
        ("religion", "origin", f"n{k}", "joy", perceiver, experiencer, p, e, p == e, int(p == e), "rated",
         40 + 2 * k + gap * (p == e) * (1 + 0.1 * (k % 3 - 1)) + echo * (perceiver == experiencer), math.nan, math.nan)
        for k in range(n) for p in terms for e in terms for perceiver in terms[p] for experiencer in terms[e]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(model_ratings(["n0"])))


def test_the_model_s_echo_free_gap_stands_beside_the_one_in_whatever_words():
    given, members = people(np.random.default_rng(8), n=12, groups=tuple(WORDED))  # told of "a Hindu" and "a Muslim"
    row = row_of(given, members, worded_ratings(gap=3.0, echo=8.0))
    # One of two perceivers' terms repeats the experiencer's: 3 + 8/2 in whatever words, 3 without a word in common.
    assert row["model_delta"] == pytest.approx(7.0)
    assert row["model_echo_free"] == pytest.approx(3.0)
    assert row["model_echo_free_low"] < 3.0 < row["model_echo_free_high"]
    assert (row["model_note"], row["model_echo_free_note"]) == ("", "")
    # A gap of the words alone is none without them.
    echo = row_of(given, members, worded_ratings(gap=0.0, echo=8.0))
    assert echo["model_delta"] == pytest.approx(4.0)
    assert echo["model_echo_free"] == pytest.approx(0.0, abs=1e-9)
    assert (row["delta"], row["ci_low"]) == (echo["delta"], echo["ci_low"])  # people's stays what it is


def test_where_terms_share_a_stem_no_gap_is_called_echo_free():
    given, members = people(np.random.default_rng(8), n=12)
    row = row_of(given, members)
    assert math.isnan(row["model_echo_free"])
    assert row["model_echo_free_note"] == "every two terms of a group share a word or its stem"
    assert math.isfinite(row["model_delta"])
    given, members = people(np.random.default_rng(8), n=12, groups=tuple(WORDED))
    told = {"religion": {term: group for group, terms in WORDED.items() for term in terms}}
    tables = people_gap_tables(given, members, worded_ratings(gap=3.0, echo=8.0), confidence=0.95, stems=told)
    assert math.isnan(tables["people_gap"]["model_echo_free"].iloc[0])
    nobody = row_of(given, members.assign(group="none of these"))
    assert nobody["model_echo_free_note"] == "no groups"


@pytest.mark.parametrize("echo_free", [True, False])
def test_the_page_names_the_echo_free_gap_where_there_is_one(echo_free):
    given, members = people(np.random.default_rng(8), n=12, groups=tuple(WORDED))
    ratings = worded_ratings(gap=3.0, echo=8.0) if echo_free else model_ratings([f"n{k}" for k in range(12)])
    tables = people_gap_tables(given, members, ratings, confidence=0.95, stems=STEMS)
    section = people_section(Results(tables, TABLES, 0.95))
    gaps = next(block.content for block in section.content if isinstance(block, Captioned))
    head, [row] = gaps.head, gaps.rows
    assert len(row) == len(head)
    assert gaps.words == ({head.index("note")} if "note" in head else set())
    assert ("δ of the model, echo-free" in head) == echo_free
    if echo_free:
        place = head.index("δ of the model, echo-free")
        assert "people_gap:0:model_echo_free" in row[place]
        assert "+3.00" in row[place]
        assert "people_gap:0:model_echo_free_low" in row[place + 1]
        assert "+7.00" in row[head.index("δ of the model")]
    assert "echo-free" not in row[-1]


def test_a_crossed_dimension_takes_the_raters_group_in_each_part():
    pairs = [(race, faith) for race in ("B", "W") for faith in ("H", "M")]
    names = {pair: " + ".join(pair) for pair in pairs}
    model, rows, members = [], [], []
    for p in pairs:
        for e in pairs:
            shared = sum(a == b for a, b in zip(p, e, strict=True))
            model += [
                ("race+faith", "origin", f"n{k}", "sad", names[p], names[e], names[p], names[e], shared == 2, shared,
                 "rated", 50.0 + k + 2 * (shared == 1) + 7 * (shared == 2), math.nan, math.nan) for k in range(4)
            ]  # fmt: skip
    for who, (race, faith) in enumerate(pairs * 2):
        members += [(f"r{who}", "race", race), (f"r{who}", "faith", faith)]
        for k in range(8):
            e = pairs[(k + who) % 4]
            shared = (e[0] == race) + (e[1] == faith)
            y = 50.0 + 3 * who + k + 2 * (shared == 1) + 7 * (shared == 2)
            rows.append((f"r{who}", "l", "race+faith", f"n{k % 4}", "sad", names[e], names[e], y + 0.1 * (who % 3)))
    ratings = pd.DataFrame(model, columns=list(model_ratings(["n0"])))
    given = pd.DataFrame(rows, columns=list(people(np.random.default_rng(0))[0]))
    row = row_of(given, pd.DataFrame(members, columns=["rater", "dimension", "group"]), ratings)
    assert row["n_raters"] == 8
    assert row["model_delta"] == pytest.approx(7)


def test_agreement_by_emotion_is_pearson_s_with_fisher_s_interval():
    rng = np.random.default_rng(9)
    given, members = people(rng, n_raters=16)
    tables = people_gap_tables(given, members, model_ratings([f"n{k}" for k in range(24)]), confidence=0.95)
    table = tables["people_agreement"].set_index("emotion")
    assert list(table.index) == ["all", "joy", "sad"]
    # Each narrative's mean over 16 raters who all rated it, which their own means do not move.
    means = given.groupby("narrative_id")["intensity"].mean()
    model = pd.Series({f"n{k}": 40.0 + 2 * k for k in range(24)})
    expected = stats.pearsonr(means, model[means.index])
    low, high = expected.confidence_interval(0.95)
    assert table.loc["all", ["r", "ci_low", "ci_high"]].to_list() == pytest.approx([expected.statistic, low, high])
    odd = means.index[means.index.str[1:].astype(int) % 2 == 1]
    assert table.loc["sad", "r"] == pytest.approx(stats.pearsonr(means[odd], model[odd]).statistic)
    assert table["n"].to_list() == [24, 12, 12]


def test_fisher_s_interval_by_hand():
    # z = atanh .5 = .5493, 1.96/√25 = .392: tanh(.1573) = .156, tanh(.9413) = .736.
    low, high = fisher_interval(0.5, 28, confidence=0.95)
    assert (round(low, 3), round(high, 3)) == (0.156, 0.736)
    assert all(map(math.isnan, fisher_interval(0.5, 3, confidence=0.95)))


def test_without_raters_there_are_no_rows():
    given, members = people(np.random.default_rng(0))
    tables = people_gap_tables(given.iloc[:0], members.iloc[:0], model_ratings(["n0"]), confidence=0.95)
    assert [len(table) for table in tables.values()] == [0, 0]


def test_what_can_not_be_told_apart_is_an_error_of_its_own():
    with pytest.raises(NotEstimableError, match="raters of two groups"):
        people_gap(
            np.arange(4.0), rater=np.array([0, 0, 1, 1]), narrative=np.array([0, 1, 0, 1]),
            experiencer=np.array([0, 1, 0, 1]), shared=np.array([[1.0], [0.0], [1.0], [0.0]]), confidence=0.95,
        )  # fmt: skip
