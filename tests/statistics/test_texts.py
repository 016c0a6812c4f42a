"""Oracles: scipy's t-test on differences made by hand, log odds by hand, planted differences, simulated nulls."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.statistics.text_differences import MEASURES, count_differences, log_odds_ratio, text_tables, texts_remarks
from audit.tables.stages import MARKED_WORDS, STAGE_TEXTS

GROUPS = {"a Hindu": "Hindu", "a Jain": "Jain", "a Sikh": "Sikh"}
BASELINES = {"a person": "unspecified"}


def stages_of(*, n=6, stage="day", perceivers=GROUPS, experiencers=GROUPS, by_narrative=True, seed=0, effect=None):
    """Return random scores: a text a prompt, or one for each pair whatever the narrative."""
    rng = np.random.default_rng(seed)
    rows = []
    drawn = {}
    for k, p, e in product(range(n), perceivers, experiencers):
        text = f"{stage} {k if by_narrative else ''} {p} {e}"
        if text not in drawn:
            drawn[text] = rng.normal(size=2)
        rows.append(
            {
                "dimension": "religion", "variant": "origin", "stage": stage, "narrative_id": f"n{k:03}",
                "perceiver": p, "experiencer": e,
                "perceiver_group": perceivers[p], "experiencer_group": experiencers[e],
                "text": text, "status": "written", "n_words": 100, "refused": False,
                "sentiment": drawn[text][0] + (effect or {}).get(experiencers[e], 0.0),
                "stereotype_words": drawn[text][1], "theme_piety": drawn[text][1] / 2,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def rows_of(stages, confidence=0.95):
    table = text_tables(stages, confidence=confidence)["stage_texts"]
    assert table.columns.tolist() == list(STAGE_TEXTS)
    return table


def one(table, measure, group):
    found = table.loc[(table["measure"] == measure) & (table["group"] == group)]
    assert len(found) == 1
    return found.iloc[0]


def differences(stages, measure, group, over):
    """One a unit: the group's mean less the mean of the other groups' means, each the mean over terms and the rest."""
    means = stages.pivot_table(index=over, columns="experiencer_group", values=measure, aggfunc="mean")
    return (means[group] - means.drop(columns=group).mean(axis=1)).to_numpy()


@pytest.mark.parametrize(
    ("by_narrative", "over", "units", "n_units"),
    [(True, "narrative_id", "narratives", 6), (False, "perceiver", "perceivers", 3)],
)
@pytest.mark.parametrize("group", ["Hindu", "Sikh"])
def test_the_interval_is_scipy_s_over_narratives_or_over_perceivers_where_the_narrative_changes_no_text(
    by_narrative, over, units, n_units, group
):
    stages = stages_of(by_narrative=by_narrative)
    row = one(rows_of(stages, confidence=0.9), "sentiment", group)
    by_hand = differences(stages, "sentiment", group, over)
    tested = stats.ttest_1samp(by_hand, 0.0)
    interval = tested.confidence_interval(0.9)
    assert (row["units"], row["n_units"], row["df"]) == (units, n_units, n_units - 1)
    assert row["difference"] == pytest.approx(by_hand.mean())
    assert row["mean"] - row["mean_others"] == pytest.approx(row["difference"])
    assert row["se"] == pytest.approx(stats.sem(by_hand))
    assert [row["ci_low"], row["ci_high"], row["p"]] == pytest.approx([interval.low, interval.high, tested.pvalue])
    assert row["note"] == ""


def test_copies_of_one_text_do_not_narrow_the_interval():
    once = stages_of(n=1, by_narrative=False)
    few, many = (rows_of(stages_of(n=n, by_narrative=False)) for n in (2, 40))
    number = ["mean", "difference", "se", "ci_low", "ci_high", "p", "n_units", "n_texts"]
    pd.testing.assert_frame_equal(few[number], many[number])
    by_hand = differences(once, "sentiment", "Hindu", "perceiver")
    assert one(many, "sentiment", "Hindu")["se"] == pytest.approx(stats.sem(by_hand))


def test_narratives_or_perceivers_with_the_same_texts_make_one_unit_and_the_row_says_so():
    stages = stages_of(n=3)
    doubled = pd.concat([stages, stages.assign(narrative_id=stages["narrative_id"] + "b")], ignore_index=True)
    row, alone = (one(rows_of(each), "sentiment", "Jain") for each in (doubled, stages))
    assert [row[name] for name in ("difference", "se", "n_units")] == pytest.approx(
        [alone[name] for name in ("difference", "se", "n_units")]
    )
    assert row["note"] == "of 6 narratives 3 have the texts of another one and are counted with it"
    # A perceiver that the model takes no notice of: its texts are another's.
    pairs = stages_of(by_narrative=False)
    more = pairs.loc[pairs["perceiver"] == "a Jain"].assign(perceiver="a Jaina")
    row, alone = (one(rows_of(each), "sentiment", "Jain") for each in (pd.concat([pairs, more]), pairs))
    assert row["se"] == pytest.approx(alone["se"])
    assert row["note"] == "of 4 perceivers 1 have the texts of another one and are counted with it"


def test_one_text_that_differs_by_accident_does_not_make_narratives_independent():
    stages = stages_of(n=20, by_narrative=False)
    stages.loc[0, "text"] = "another wording of the first narrative's first text"
    assert set(rows_of(stages)["units"]) == {"perceivers"}


def test_a_planted_difference_lies_within_its_interval_and_is_found():
    # 1 more about Sikhs is 1 above both others; about Hindus it is 1/2 below the mean of Jains (0) and Sikhs (1).
    table = rows_of(stages_of(n=200, effect={"Sikh": 1.0}))
    for group, planted in (("Sikh", 1.0), ("Hindu", -0.5), ("Jain", -0.5)):
        row = one(table, "sentiment", group)
        assert row["ci_low"] < planted < row["ci_high"]
        assert row["ci_high"] - row["ci_low"] < 0.5
        assert row["p_adjusted"] < 0.001
    assert table.loc[table["measure"] == "stereotype_words", "p_adjusted"].min() > 0.05


@pytest.mark.parametrize("by_narrative", [True, False])
def test_groups_that_do_not_differ_are_found_to_differ_as_often_as_the_level_says(by_narrative):
    # 150 stages of noise at once, two measures of one group each: 300 tests at .10. Of a binomial (300, .1), 99.9% lie
    # between 14 and 48.
    stages = pd.concat(
        stages_of(n=8, stage=f"s{k}", seed=k, by_narrative=by_narrative, perceivers=dict.fromkeys("abcde", "Jain"))
        for k in range(150)
    )
    table = rows_of(stages)
    p = table.loc[(table["group"] == "Hindu") & table["measure"].isin(("sentiment", "stereotype_words")), "p"]
    assert len(p) == 300
    assert 14 <= (p < 0.1).sum() <= 48


def test_the_family_is_all_stages_measures_and_groups_and_holm_s():
    stages = pd.concat([stages_of(stage="day", seed=1), stages_of(stage="feel", seed=2)])
    table = rows_of(stages)
    p = table["p"].dropna()
    assert set(table.loc[p.index, "measure"]) == {"sentiment", "stereotype_words"}  # lengths and refusals are constant
    assert set(table["family_size"]) == {2 * 2 * 3}
    ordered = p.sort_values()
    by_hand = (ordered * np.arange(len(p), 0, -1)).cummax().clip(upper=1)
    assert table.loc[ordered.index, "p_adjusted"].tolist() == pytest.approx(by_hand.tolist())


def test_a_theme_is_described_and_not_tested():
    row = one(rows_of(stages_of()), "theme_piety", "Hindu")
    assert row["difference"] == pytest.approx(one(rows_of(stages_of()), "stereotype_words", "Hindu")["difference"] / 2)
    assert row[["se", "ci_low", "p", "p_adjusted"]].isna().all()
    assert "theme_piety" not in MEASURES


def test_baselines_are_no_group_on_either_side():
    with_them = stages_of(perceivers=GROUPS | {"": "no persona"} | BASELINES, experiencers=GROUPS | BASELINES)
    identities = ~with_them["experiencer_group"].isin(["unspecified"])
    identities &= ~with_them["perceiver_group"].isin(["unspecified", "no persona"])
    pd.testing.assert_frame_equal(rows_of(with_them), rows_of(with_them.loc[identities]))
    assert set(rows_of(with_them)["group"]) == {"Hindu", "Jain", "Sikh"}


# Of one stage, narratives n0 and n1, both perceivers' texts about Hindu, Jain and Sikh: does the text name an emotion,
# and the narrative's own? Named none: no accuracy. p2 names none about the Jain in n0, and is left out there.
EMOTIONS = {
    ("n000", "a Hindu"): ((1, 1), (1, 0), (1, 0)),
    ("n000", "a Jain"): ((1, 1), (0, None), (1, 1)),
    ("n001", "a Hindu"): ((1, 1), (1, 0), (1, 0)),
    ("n001", "a Jain"): ((1, 0), (1, 0), (1, 1)),
}


def with_emotions(stages, scores=EMOTIONS):
    """Put beside each text what it names."""
    found = [
        scores[n, p][list(GROUPS).index(e)]
        for n, p, e in stages[["narrative_id", "perceiver", "experiencer"]].itertuples(index=False)
    ]
    named, right = zip(*found, strict=True)
    return stages.assign(emotion_named=np.array(named, dtype=float), emotion_accuracy=np.array(right, dtype=float))


def test_naming_an_emotion_is_of_all_texts_and_the_right_one_of_those_that_name_one_about_every_group():
    two = {name: GROUPS[name] for name in ("a Hindu", "a Jain")}
    table = rows_of(with_emotions(stages_of(n=2, perceivers=two)))
    hindu, jain, sikh = (one(table, "emotion_named", group) for group in ("Hindu", "Jain", "Sikh"))
    assert [row["unit"] for row in (hindu, jain)] == ["% of texts"] * 2
    # Jain: 1/2 in n0, 2/2 in n1, so 75; Hindu and Sikh are named in all. Differences by narrative: -50 and 0.
    assert (hindu["mean"], jain["mean"], jain["mean_others"], jain["difference"]) == (100, 75, 100, -25)
    assert jain["se"] == pytest.approx(stats.sem([-50, 0]))
    assert jain["p"] == pytest.approx(stats.ttest_1samp([-50, 0], 0).pvalue)
    hindu, jain, sikh = (one(table, "emotion_accuracy", group) for group in ("Hindu", "Jain", "Sikh"))
    assert hindu["unit"] == "% of texts that name an emotion"
    # n0 by the Hindu perceiver alone: 100, 0, 0. n1 by both: Hindu (1 + 0)/2, Jain 0, Sikh (0 + 1)/2.
    assert [row["mean"] for row in (hindu, jain, sikh)] == [75, 0, 25]
    by_hand = [100 - 0, 50 - 25]  # Hindu less the mean of Jain and Sikh
    assert hindu["difference"] == np.mean(by_hand)
    assert hindu["se"] == pytest.approx(stats.sem(by_hand))
    assert (hindu["n_units"], hindu["units"]) == (2, "narratives")
    # Four distinct texts about each group, one about Jains names no emotion.
    assert [(row["n_texts"], row["n_scored"]) for row in (hindu, jain, sikh)] == [(4, 4), (4, 3), (4, 4)]


def test_emotions_are_of_the_family_and_change_no_p_but_the_corrected_ones():
    plain = stages_of(n=2, perceivers={name: GROUPS[name] for name in ("a Hindu", "a Jain")})
    without, table = rows_of(plain), rows_of(with_emotions(plain))
    # 6 tests of sentiment and stereotype words, 3 of naming; of accuracy 2, for that about Jains is 50 lower in both.
    assert set(without["family_size"]) == {6}
    assert set(table["family_size"]) == {11}
    old = ["measure", "group", "mean", "difference", "p"]
    kept = table.loc[~table["measure"].str.startswith("emotion")]
    pd.testing.assert_frame_equal(kept[old].reset_index(drop=True), without[old])
    ordered = table["p"].dropna().sort_values()
    by_hand = (ordered * np.arange(11, 0, -1)).cummax().clip(upper=1)
    assert table.loc[ordered.index, "p_adjusted"].tolist() == pytest.approx(by_hand.tolist())
    # What is counted and remarked is stereotype words and sentiment, as before.
    assert count_differences(table, confidence=0.95) == {("religion", "origin"): (6, 0)}


def test_texts_that_are_the_same_whatever_the_narrative_tell_nothing_of_its_emotion():
    stages = stages_of(n=4, by_narrative=False).assign(emotion_named=1.0)
    stages["emotion_accuracy"] = (stages["narrative_id"] == "n000").astype(float)
    table = rows_of(stages)
    row = one(table, "emotion_accuracy", "Jain")
    assert row[["mean", "difference", "p", "p_adjusted"]].isna().all()
    assert (row["n_units"], row["n_texts"], row["n_scored"]) == (0, 3, 0)
    assert row["note"] == "the texts are the same whatever the narrative, and tell nothing of its emotion"
    assert one(table, "emotion_named", "Jain")["mean"] == 100


def test_where_no_text_names_an_emotion_none_is_right_or_wrong_and_the_row_says_so():
    table = rows_of(stages_of(n=3).assign(emotion_named=0.0, emotion_accuracy=math.nan))
    assert one(table, "emotion_named", "Jain")["mean"] == 0
    row = one(table, "emotion_accuracy", "Jain")
    assert math.isnan(row["mean"])
    assert row["note"] == "in none of 3 narratives is there a text about every group that names an emotion"


def test_failed_and_empty_texts_and_those_in_another_script_name_nothing_and_are_no_zero():
    stages = stages_of(n=3).assign(emotion_named=1.0, emotion_accuracy=1.0)
    of_jain = stages.index[stages["experiencer"] == "a Jain"]
    stages.loc[of_jain[0], ["text", "status", "n_words"]] = ["", "failed", 0]
    stages.loc[of_jain[1], ["text", "status", "n_words"]] = ["", "empty", 0]
    stages.loc[of_jain[:3], ["emotion_named", "emotion_accuracy"]] = math.nan  # the third: in another script
    row = one(rows_of(stages), "emotion_named", "Jain")
    assert (row["mean"], row["n_texts"], row["n_scored"], row["n_failed"], row["n_empty"]) == (100, 7, 6, 1, 1)


def test_groups_count_alike_whatever_their_number_of_terms():
    stages = stages_of(experiencers=GROUPS | {"a Sikh woman": "Sikh", "a Sikh man": "Sikh"})
    by_hand = differences(stages, "sentiment", "Hindu", "narrative_id")
    assert one(rows_of(stages), "sentiment", "Hindu")["difference"] == pytest.approx(by_hand.mean())


def test_failed_texts_are_missing_and_empty_ones_are_counted():
    stages = stages_of()
    failed = stages.index[(stages["narrative_id"] == "n000") & (stages["experiencer"] == "a Jain")]
    changed = ["text", "status", "n_words", "sentiment", "stereotype_words"]
    stages.loc[failed, changed] = ["", "failed", 0, math.nan, math.nan]
    empty = stages.index[(stages["narrative_id"] == "n001") & (stages["experiencer"] == "a Sikh")][:1]
    stages.loc[empty, changed] = [" ", "empty", 0, math.nan, math.nan]
    table = rows_of(stages)
    jain, sikh = (one(table, "n_words", group) for group in ("Jain", "Sikh"))
    assert (jain["n_failed"], jain["n_empty"], jain["n_texts"]) == (3, 0, 15)
    assert (sikh["n_failed"], sikh["n_empty"], sikh["n_texts"]) == (0, 1, 17)
    # Lengths: narrative 0 is left out, as no perceiver has all groups there; an empty text is one of 0 words.
    assert jain["n_units"] == 5
    assert sikh["mean"] == pytest.approx((4 * 100 + 200 / 3) / 5)
    # Sentiment: an empty text has none, and so its perceiver is left out in narrative 1, for every group.
    whole = stages.drop(index=failed).loc[lambda t: t["narrative_id"] != "n000"]
    whole = whole.loc[~((whole["narrative_id"] == "n001") & (whole["perceiver"] == stages["perceiver"][empty[0]]))]
    by_hand = differences(whole, "sentiment", "Hindu", "narrative_id")
    assert one(table, "sentiment", "Hindu")["difference"] == pytest.approx(by_hand.mean())


def test_refusals_are_in_percent_of_texts():
    stages = stages_of(n=4)
    stages["refused"] = (stages["experiencer_group"] == "Jain") & stages["narrative_id"].isin(["n000", "n001"])
    row = one(rows_of(stages), "refused", "Jain")
    assert (row["unit"], row["mean"], row["mean_others"], row["difference"]) == ("% of texts", 50.0, 0.0, 50.0)
    assert row["se"] == pytest.approx(stats.sem([100.0, 100.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"n": 1}, r"one unit \(narrative\) says nothing about how narratives differ"),
        ({"experiencers": {"a Hindu": "Hindu"}}, "there is no other group to compare it with"),
        ({"n": 3, "perceivers": {"a": "A"}, "by_narrative": False}, r"one unit \(perceiver\) says nothing"),
    ],
)
def test_what_can_not_be_estimated_is_missing_with_a_reason(change, note):
    row = one(rows_of(stages_of(**change)), "sentiment", "Hindu")
    assert row[["se", "ci_low", "ci_high", "p", "p_adjusted"]].isna().all()
    assert pd.Series([row["note"]]).str.contains(note).all()
    assert row["family_size"] == 0


def test_a_difference_without_spread_is_said_to_be_constant_and_is_remarked():
    stages = stages_of()
    stages["stereotype_words"] = np.where(stages["experiencer_group"] == "Jain", 30.0, 0.0)
    table = rows_of(stages)
    own = table.loc[table["measure"] == "stereotype_words"].set_index("group")
    assert own["constant"].tolist() == [True, True, True]
    assert own["p"].isna().all()
    assert own.loc["Jain", "difference"] == 30.0
    assert not table.loc[table["measure"] == "n_words", "constant"].any()  # alike, and no difference
    [remark] = texts_remarks(table, confidence=0.95)
    assert "Jain (+30.00 stereotype words per 100 words, in all narratives alike" in remark.text
    assert count_differences(table, confidence=0.95) == {("religion", "origin"): (6, 3)}


def test_empty_texts_are_no_copies_of_each_other():
    stages = stages_of(n=12)
    empty = stages.index[(stages["experiencer"] != "a Jain") & (stages["narrative_id"] != "n000")]
    stages.loc[empty, ["text", "status", "n_words", "sentiment", "stereotype_words"]] = [
        "",
        "empty",
        0,
        math.nan,
        math.nan,
    ]
    row = one(rows_of(stages), "n_words", "Jain")
    assert (row["units"], row["n_units"]) == ("narratives", 12)
    assert "have the texts of another" not in row["note"]


def test_two_groups_are_one_question_and_one_test():
    two = {"a Hindu": "Hindu", "a Jain": "Jain"}
    table = rows_of(stages_of(perceivers=two, experiencers=two))
    first, second = (one(table, "sentiment", group) for group in ("Hindu", "Jain"))
    assert first["difference"] == pytest.approx(-second["difference"])
    assert math.isnan(second["p"])
    assert second["note"] == "the other side of the difference of Hindu, and no test of its own"
    assert (
        first["family_size"] == table["p"].notna().sum() == 2
    )  # sentiment and stereotype words; the others are constant


def test_no_spread_and_no_text_have_their_reasons():
    stages = stages_of()
    length = one(rows_of(stages), "n_words", "Hindu")
    assert (length["mean"], length["difference"]) == (100.0, 0.0)
    assert length["note"] == "all 6 narratives give the same difference, so their spread is 0"
    nothing = stages.assign(status="failed", sentiment=math.nan)
    row = one(rows_of(nothing), "sentiment", "Hindu")
    assert (row["n_units"], row["n_texts"], row["n_failed"]) == (0, 0, 18)
    assert math.isnan(row["mean"])
    assert row["note"].startswith("in none of ")


@pytest.mark.parametrize("by_narrative", [True, False])
def test_the_order_of_the_rows_does_not_matter(by_narrative):
    stages = stages_of(by_narrative=by_narrative)
    stages["text"] = [f"{text} word{k % 7} word{k % 3}" for k, text in enumerate(stages["text"])]
    shuffled = stages.sample(frac=1.0, random_state=1)
    for name, table in text_tables(stages, confidence=0.95).items():
        pd.testing.assert_frame_equal(table, text_tables(shuffled, confidence=0.95)[name], check_exact=True)


def test_the_input_is_left_as_it_was_and_may_be_categorical_and_nothing_gives_empty_tables():
    stages = stages_of().astype({"stage": "category", "experiencer_group": "category", "perceiver": "category"})
    before = stages.copy()
    assert len(rows_of(stages)) == 3 * 5
    pd.testing.assert_frame_equal(stages, before)
    empty = text_tables(stages.iloc[:0], confidence=0.95)
    assert {name: list(table.columns) for name, table in empty.items()} == {
        "stage_texts": list(STAGE_TEXTS), "marked_words": list(MARKED_WORDS),
    }  # fmt: skip
    assert all(table.empty for table in empty.values())


def test_a_prompt_that_occurs_twice_is_refused():
    stages = stages_of()
    with pytest.raises(ValueError, match="a prompt occurs twice"):
        text_tables(pd.concat([stages, stages.iloc[:1]]), confidence=0.95)


# --- Marked words ----------------------------------------------------------------------------------------------------


def test_log_odds_and_z_are_those_worked_by_hand():
    # Counts inside (3, 1), outside (1, 5); prior = the sum (4, 6), so smoothed (7, 7) of 14 and (5, 11) of 16.
    # First word: log(7/7) - log(5/11) = log 2.2; z = log 2.2 / sqrt(1/7 + 1/5).
    delta, z = log_odds_ratio([3, 1], [1, 5])
    assert delta == pytest.approx([math.log(2.2), math.log(1 / 2.2)])
    assert z == pytest.approx([math.log(2.2) / math.sqrt(1 / 7 + 1 / 5), -math.log(2.2) / math.sqrt(1 / 7 + 1 / 11)])


def marked_of(texts_of, n=4):
    """Return the marked words of a stage where perceiver k wrote the k-th text about each group."""
    rows = stages_of(n=2, perceivers={f"p{k}": "P" for k in range(n)}, by_narrative=False)
    rows["text"] = [
        texts_of[group][int(p[1:])] for group, p in zip(rows["experiencer_group"], rows["perceiver"], strict=True)
    ]
    table = text_tables(rows, confidence=0.95)["marked_words"]
    assert table.columns.tolist() == list(MARKED_WORDS)
    return table


def test_marked_words_count_distinct_texts_once_and_leave_out_the_identities_own_words_and_rare_ones():
    texts = {
        "Hindu": ["The Hindu's temple zz", "temple of Hindus zz", "temple yes", "temple yes"],
        "Jain": ["the road k0", "the road k1", "the road k2", "the road k3"],
        "Sikh": ["the road to it", "a road", "road of them", "this road"],
    }
    table = marked_of(texts)
    hindu = table.loc[table["group"] == "Hindu"]
    # "temple yes" is one text for two perceivers; zz is in two texts alone; hindu, hindu's and hindus name the group.
    assert hindu[["word", "n_group", "n_others"]].to_numpy().tolist() == [["temple", 3, 0]]
    # Words tested: road (8 texts), temple (3), the (6); "a" is a word of "a Hindu".
    assert set(table["family_size"]) == {3}
    counts = {"temple": (3, 0), "the": (1, 5), "road": (0, 8), "zz": (2, 0), "of": (1, 1), "yes": (1, 0)}
    others = {f"k{k}": (0, 1) for k in range(4)} | dict.fromkeys(("to", "it", "them", "this"), (0, 1))
    _, z = log_odds_ratio(*zip(*(counts | others).values(), strict=True))
    assert hindu["z"].iloc[0] == pytest.approx(z[0])
    assert hindu["p_adjusted"].iloc[0] == pytest.approx(min(1, 2 * stats.norm.sf(z[0]) * 3), rel=1e-6)


def test_a_planted_word_is_the_most_marked_and_fifteen_are_listed_at_most():
    rng = np.random.default_rng(0)
    noise = [f"w{k}" for k in range(40)]
    texts = {
        group: [" ".join([*rng.choice(noise, 60), *["planted"] * (5 if group == "Sikh" else 1)]) for _ in range(12)]
        for group in ("Hindu", "Jain", "Sikh")
    }
    table = marked_of(texts, n=12)
    assert (table.groupby("group").size() <= 15).all()
    assert (table["z"] > 0).all()
    first = table.loc[table["group"] == "Sikh"].iloc[0]
    assert first["word"] == "planted"
    assert (first["n_group"], first["n_others"]) == (60, 24)
    assert first["p_adjusted"] < 0.01


# --- Remarks ---------------------------------------------------------------------------------------------------------


def test_a_remark_names_what_differs_and_there_is_none_where_nothing_does():
    (remark,) = texts_remarks(rows_of(stages_of(n=200, effect={"Sikh": 1.0})), confidence=0.95)
    assert (remark.dimension, remark.variant, remark.code) == ("religion", "origin", "texts_differ")
    assert "Sikh (+" in remark.text
    assert "sentiment" in remark.text
    assert list(texts_remarks(rows_of(stages_of(n=6)), confidence=0.95)) == []


def test_length_and_refusals_alone_make_no_remark():
    stages = stages_of(n=40).assign(sentiment=0.5, stereotype_words=2.0)
    stages["n_words"] += np.where(stages["experiencer_group"] == "Sikh", 50, 0) + np.arange(len(stages)) % 7
    table = rows_of(stages)
    assert one(table, "n_words", "Sikh")["p_adjusted"] < 0.001
    assert list(texts_remarks(table, confidence=0.95)) == []
