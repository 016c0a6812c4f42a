"""What is said of who is rated lower by everybody, with a margin. Oracles: scipy, numbers by hand, planted truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import build_ratings
from markupsafe import Markup
from scipy import stats
from test_disparity import answers_of, disparities, drawn, with_invented

from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.disparities import who_gets_less
from audit.report.numbers import rows_of
from audit.statistics.controls import Repetition
from audit.statistics.disparity import disparity_gaps
from audit.statistics.disparity_answers import with_limits
from audit.statistics.estimates import GapEstimate
from audit.statistics.margin_tests import hold
from audit.statistics.outcome import INTENSITY, analyse_outcome
from audit.statistics.ratings import compact_ratings
from audit.statistics.verdict import NOT_RULED_OUT, VOID, Limits, judge_gap

ABCD = list("ABCD")
PAIRS = list("AABBCCDD")
ONE_TERM = Repetition()


def at(margin, **more):
    return AnalysisSettings(n_permutations=100, margin=margin, **more)


def headlines(table, view="all", dimension="religion"):
    kept = table["headline"].astype(bool) & (table["view"] == view) & (table["dimension"] == dimension)
    return table[kept].set_index("group")


def limits_in(row):
    return row["limits"].split("; ") if row["limits"] else []


def gaps_of(ratings, *, settings=None, told=None, scale=(0.0, 100.0)):
    told = told or ONE_TERM
    settings = settings or at(None)
    found = analyse_outcome(INTENSITY, compact_ratings(ratings), seed=0, settings=settings, repetition=told)
    return list(disparity_gaps(found, scales={"origin": scale}, settings=settings, repetition=told))


def terms_of(ratings):
    return {term: term for term in ratings["experiencer"].unique()}


# --- By hand ----------------------------------------------------------------------------------------------------------


def by_narrative(y, place):
    """Each narrative's own disparity, by hand: a group less the mean of the others, over all perceivers."""
    others = [each for each in range(y.shape[2]) if each != place]
    return (y[:, :, place] - y[:, :, others].mean(axis=2)).mean(axis=1)


def bet_against(own, mean, *, reach, alpha=0.05):
    """Whether a bet at fixed stakes, for and against, rules out a mean at ±mean: 1/α is won (Waudby-Smith, Ramdas)."""
    won = []
    for side in (1, -1):
        z, m = (side * own + reach) / (2 * reach), (mean + reach) / (2 * reach)
        stakes = np.array([1.0, *np.geomspace(0.003, 0.8, 15)]) / (1 - m)
        shares = np.array([0.5, *[0.5 / 15] * 15])
        won.append((shares * np.prod(1 + stakes[:, None] * (m - z), axis=1)).sum())
    return min(won) >= 1 / alpha


def test_within_is_two_one_sided_t_tests_and_a_bound_for_rare_ones():
    y = drawn(30, "ABC", perceivers=["no persona"], noise=0.3, seed=40) / 20 + 1  # about 4 on a scale from 1 to 7
    ratings = build_ratings(y, ["no persona"], list("ABC"))
    table = disparities(ratings, repetition=ONE_TERM, scale=(1.0, 7.0), settings=at(0.7))
    for place, group in enumerate("ABC"):
        row = headlines(table, "no_persona").loc[group]
        own = by_narrative(y, place)
        p = max(
            stats.ttest_1samp(own, -0.7, alternative="greater").pvalue,
            stats.ttest_1samp(own, 0.7, alternative="less").pvalue,
        )
        assert (row["code"], row["margin"]) == ("within", 0.7)
        assert p < 0.05
        # The least margin is where the bet is just won: of so few narratives that is more than the t interval's end.
        assert bet_against(own, row["supported_margin"] + 1e-6, reach=6.0)
        assert not bet_against(own, row["supported_margin"] - 1e-6, reach=6.0)
        assert row["supported_margin"] > max(abs(row["eq_low"]), abs(row["eq_high"]))
    tighter = disparities(ratings, repetition=ONE_TERM, scale=(1.0, 7.0), settings=at(0.5))
    assert set(answers_of(tighter, "no_persona").values()) == {"undecided"}
    assert set(headlines(tighter, "no_persona")["limits"]) == {"margin_open; one_term"}


def test_where_the_t_interval_is_wider_than_the_bound_it_decides():
    y = drawn(400, "ABC", perceivers=["no persona"], noise=25.0, seed=41)
    row = headlines(disparities(build_ratings(y, ["no persona"], list("ABC")), repetition=ONE_TERM,
                                scale=(-100.0, 200.0), settings=at(50.0)), "no_persona").loc["A"]  # fmt: skip
    low, high = stats.t.interval(0.9, 399, by_narrative(y, 0).mean(), stats.sem(by_narrative(y, 0)))
    assert (row["eq_low"], row["eq_high"]) == pytest.approx((low, high))
    assert row["supported_margin"] >= max(abs(low), abs(high))


def test_beyond_is_a_t_test_against_the_margin_corrected_for_the_groups():
    y = drawn(30, "ABCD", planted={"A": -12.0}, seed=42)
    ratings = build_ratings(y, ABCD)
    own = by_narrative(y, 0)
    # 2 P(T > (|D| − m)/se) < .05/4: Holm's first step of four groups, of which A is farthest beyond.
    last = abs(own.mean()) - stats.sem(own) * stats.t.ppf(1 - 0.05 / 8, 29)
    for margin, size in ((last - 0.01, "beyond"), (last + 0.01, "")):
        row = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(margin))).loc["A"]
        assert (row["code"], row["size"], row["margin"]) == ("lower", size, margin)
        held = hold(gaps_of(ratings), None, margins={"disparity": margin}, alpha=0.05, power=0.8)
        p = 2 * stats.t.sf((abs(own.mean()) - margin) / stats.sem(own), 29)
        assert (held[0].p_beyond, held[0].p_adjusted) == pytest.approx((p, 4 * p))
        assert (held[0].decided == "beyond") == (size == "beyond")


def test_a_group_that_is_lower_by_less_than_the_margin_is_said_to_be_so():
    y = drawn(60, "ABCD", planted={"A": -4.0}, noise=1.0, seed=43)
    row = headlines(disparities(build_ratings(y, ABCD), repetition=ONE_TERM, settings=at(25.0))).loc["A"]
    assert (row["code"], row["size"]) == ("lower", "smaller")
    assert row["supported_margin"] < 25.0
    none = headlines(disparities(build_ratings(y, ABCD), repetition=ONE_TERM, settings=at(None))).loc["A"]
    assert (none["code"], none["size"]) == ("lower", "")
    assert np.isnan(none["margin"])
    assert np.isnan(none["n_needed"])


def test_beside_a_baseline_it_is_the_paired_change_of_size():
    before, after = (drawn(40, "ABCD", planted={"A": size}, seed=44) for size in (-5.0, -12.0))
    after[..., 1] += np.random.default_rng(45).normal(0, 2, (40, 4))
    ours, theirs = (gaps_of(build_ratings(y, ABCD)) for y in (after, before))
    baselines = {each.key: each for each in theirs}
    margin = 3.0
    held = hold(ours, baselines, margins={"disparity": margin}, alpha=0.05, power=0.8)
    for place, line in enumerate(held):
        own, old = by_narrative(after, place), by_narrative(before, place)
        assert line.value == pytest.approx(abs(own.mean()) - abs(old.mean()))
        sides = []
        for side in (1, -1):  # farther by more than the margin, on one side: change and sum both are
            both = [side * (own - old), side * (own + old)]
            sides.append(max(stats.ttest_1samp(each, margin, alternative="greater").pvalue for each in both))
        p = 2 * min(sides)
        if line.gap.plain is None:
            assert line.p_beyond == pytest.approx(min(1.0, p), rel=1e-6)
        (d_low, d_high), (s_low, s_high) = (
            stats.t.interval(0.95, 39, both.mean(), stats.sem(both)) for both in (own - old, own + old)
        )
        assert line.low == pytest.approx(max(min(d_low, s_low), min(-d_high, -s_high)))
        assert line.high == pytest.approx(max(min(d_high, s_high), min(-d_low, -s_low)))
    codes = {each.gap.member: each.decided for each in held}
    assert codes["A"] == "beyond"
    assert held[0].value == pytest.approx(7.0, abs=1.5)
    unchanged = hold(theirs, baselines, margins={"disparity": 3.0}, alpha=0.05, power=0.8)
    assert {each.value for each in unchanged} == {0.0}
    assert not any(judge_gap(each, set()).outcome == "beyond" for each in unchanged)


def test_a_lower_group_that_became_worse_fails_although_a_rating_is_missing_and_not_if_it_may_be_all_there_is():
    before, after = (drawn(60, PAIRS, planted={"A": size}, seed=46) for size in (-5.0, -13.0))
    for n_missing, outcome in ((3, "beyond"), (250, "undecided")):
        holed = after.copy()
        places = np.random.default_rng(47).choice(60 * 8 * 6, n_missing, replace=False)
        i, p, e = np.unravel_index(places, (60, 8, 6))
        holed[i, p, e + 2] = np.nan  # of the others
        told = Repetition({"religion": terms_of(build_ratings(after, PAIRS))})
        ours, theirs = (gaps_of(build_ratings(y, PAIRS), told=told) for y in (holed, before))
        [held] = [
            each
            for each in hold(ours, {each.key: each for each in theirs}, margins={"disparity": 3.0}, alpha=0.05,
                             power=0.8)
            if each.gap.member == "A"
        ]  # fmt: skip
        judged = judge_gap(held, set())
        assert (held.decided, judged.outcome) == ("beyond", outcome)
        assert set(judged.reasons) == (set() if outcome == "beyond" else {"missing"})


# --- Gaps for the gate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("perceivers", "view"), [
    ([*PAIRS, "unspecified", "no persona"], "all"), (["unspecified", "no persona"], "no_persona"),
    (["unspecified"], "unspecified"),
])  # fmt: skip
def test_each_group_has_one_gap_in_the_view_that_decides(perceivers, view):
    rng = np.random.default_rng(48)
    y = 50 + rng.normal(0, 5, (24, 1, 1)) + rng.normal(0, 1, (24, len(perceivers), 9))
    ratings = build_ratings(y, perceivers, [*PAIRS, "unspecified"])
    told = Repetition({"religion": terms_of(ratings)})
    gaps = gaps_of(ratings, told=told)
    assert [each.member for each in gaps] == ABCD
    assert {(each.kind, each.dimension, each.variant, each.control) for each in gaps} == {
        ("disparity", "religion", "origin", "not_needed")
    }
    table = headlines(disparities(ratings, repetition=told), view)
    assert len(table) == 4
    for each in gaps:
        assert isinstance(each.made, GapEstimate)
        row = table.loc[each.member]
        assert (each.made.delta, each.made.se) == pytest.approx((row["disparity"], row["se"]))
        assert each.scope == "groups"
    assert {each.scope for each in gaps_of(ratings)} == {"pairs"}  # no stems are stated: these words alone


def test_invented_groups_have_no_gap_of_their_own():
    ratings, told = with_invented((0, 0, 0, 0), (-4.0, 4.0, -1.0, 1.0))
    gaps = gaps_of(ratings, told=told)
    assert [each.dimension for each in gaps] == ["religion"] * 4


# --- Planted: what is said with a margin ------------------------------------------------------------------------------


def test_bystanders_of_a_group_are_not_named_nor_acquitted_with_a_margin():
    ratings = build_ratings(drawn(40, planted={"A": -20.0}, seed=49), PAIRS)
    table = headlines(disparities(ratings, settings=at(3.0)))
    assert (table.loc["A", "code"], table.loc["A", "size"]) == ("lower", "beyond")
    others = table.drop("A")
    assert set(others["code"]) == {"undecided"}
    assert all({"margin_open", "bystander"} <= {*limits_in(row)} for _, row in others.iterrows())
    told = Repetition({"religion": terms_of(ratings)})
    held = hold(gaps_of(ratings, told=told), None, margins={"disparity": 3.0}, alpha=0.05, power=0.8)
    outcomes = {each.gap.member: judge_gap(each, set()).outcome for each in held}
    assert outcomes == dict.fromkeys("BCD", "undecided") | {"A": "beyond"}


def test_of_two_groups_of_eight_that_are_lower_the_six_others_are_bystanders():
    # Before, the farthest alone was left out: with the other one still there, all six were "higher".
    groups = list("ABCDEFGH")
    ratings = build_ratings(drawn(30, groups, planted={"A": -20.0, "B": -20.0}, perceivers=ABCD, seed=80), ABCD, groups)
    table = headlines(disparities(ratings, repetition=ONE_TERM))
    assert table["code"].to_dict() == dict.fromkeys("CDEFGH", "not_shown") | {"A": "lower", "B": "lower"}
    rest = table.loc[list("CDEFGH")]
    assert set(rest["limits"]) == {"bystander; one_term"}
    assert set(rest["extreme"]) == {"A; B"}
    assert rest["without_extreme"].to_numpy() == pytest.approx(0.0, abs=1.5)
    assert table.loc["A", "extreme"] == ""


def test_groups_on_both_sides_are_both_named():
    y = drawn(40, "ABCDEF", planted={"A": -20.0, "B": 15.0}, perceivers=ABCD, seed=51)
    table = headlines(disparities(build_ratings(y, ABCD, list("ABCDEF")), repetition=ONE_TERM))
    assert table["code"].to_dict() == dict.fromkeys("CDEF", "not_shown") | {"A": "lower", "B": "higher"}
    assert table.loc["B", "extreme"] == "A"
    assert table.loc["B", "without_extreme"] == pytest.approx(15.0, abs=1.5)


def test_one_odd_term_among_many_words_is_not_its_group():
    # Before: 24 terms pool what the odd one differs by away; "lower", of the group, in up to all data sets.
    groups = [f"g{place:02}" for place in range(16) for _ in range(2)]
    y = drawn(24, groups, perceivers=ABCD[:2], noise=2.0, seed=52)
    y[:, :, 0] -= 20.0
    rows = headlines(disparities(build_ratings(y, groups[0:4:2], groups), settings=at(1.0)))
    assert rows.loc["g00", "p_adjusted"] < 0.05
    assert rows.loc["g00", "code"] == "undecided"
    assert limits_in(rows.loc["g00"]) == ["margin_open", "terms_differ"]
    y[:, :, 1] -= 20.0  # both of its terms
    rows = headlines(disparities(build_ratings(y, groups[0:4:2], groups), settings=at(1.0)))
    assert (rows.loc["g00", "code"], rows.loc["g00", "claim"], rows.loc["g00", "size"]) == ("lower", "group", "beyond")


@pytest.mark.parametrize(("own", "others"), [(-18.0, 0.0), (-18.0, -18.0)])
def test_what_one_group_of_perceivers_does_is_not_said_of_whoever_speaks(own, others):
    y = drawn(40, PAIRS, seed=53)
    y[:, 2:4, :2] += own
    y[:, [0, 1, 4, 5, 6, 7], :2] += others
    table = disparities(build_ratings(y, PAIRS))
    row = headlines(table).loc["A"]
    assert (row["code"], row["claim"]) == ("lower", "group")
    assert ("one_perceiver" in limits_in(row)) == (others == 0.0)
    words = str(sentence(table).words)
    if others:
        assert "than the others, whoever speaks" in words
    else:
        assert "on average over the personas asked; not shown without one of these personas" in words


def test_one_persona_alone_is_not_whoever_speaks():
    y = drawn(40, PAIRS, planted={"B": -20.0}, perceivers=["A"], seed=54)
    table = disparities(build_ratings(y, ["A"], PAIRS))
    assert limits_in(headlines(table).loc["B"]) == ["one_perceiver"]
    assert "whoever" not in sentence(table).words
    nobody = disparities(build_ratings(y, ["no persona"], PAIRS))
    assert limits_in(headlines(nobody, "no_persona").loc["B"]) == []


def test_what_some_personas_rate_the_other_way_is_not_said_of_whoever_speaks():
    y = drawn(40, PAIRS, planted={"A": -18.0}, seed=54)
    y[:, :2, :2] += 36.0  # A's own perceivers rate A 18 higher
    table = disparities(build_ratings(y, PAIRS))
    row = headlines(table).loc["A"]
    assert (row["code"], limits_in(row)) == ("lower", ["personas_differ"])
    assert "on average over the personas asked" in sentence(table).words


@pytest.mark.parametrize(
    ("perceiver", "code"), [("no persona", "no_persona_differs"), ("unspecified", "person_differs")]
)
def test_a_group_that_is_lower_without_a_persona_alone_is_not_said_to_be_rated_alike(perceiver, code):
    perceivers = [*ABCD, perceiver]
    y = drawn(60, PAIRS, perceivers=perceivers, noise=1.0, seed=67)
    for size, margin, wanted in ((0.0, 8.0, "within"), (-20.0, 8.0, "undecided"), (-20.0, None, "not_shown"),
                                 (-2.0, 8.0, "within"), (0.0, None, "not_shown")):  # fmt: skip
        planted = y.copy()
        planted[:, -1, :2] += size
        ratings = build_ratings(planted, perceivers, PAIRS)
        table = disparities(ratings, settings=at(margin))
        row = headlines(table).loc["A"]
        assert row["code"] == wanted, (size, margin)
        assert (code in limits_in(row)) == (wanted == "undecided")
        assert (set(headlines(table)["code"]) == {wanted}) == (wanted != "undecided")  # of A alone
        if wanted == "undecided":
            assert np.isnan(row["supported_margin"])
            assert sentence(table).kind == "undecided"
            told = Repetition({"religion": terms_of(ratings)})
            held = {
                each.gap.member: each
                for each in hold(gaps_of(ratings, told=told), None, margins={"disparity": 8.0}, alpha=0.05, power=0.8)
            }  # fmt: skip
            assert (held["A"].decided, held["A"].reasons) == ("undecided", (code,))
            assert held["B"].decided == "within"


@pytest.mark.parametrize(("by_label", "by_name", "code", "limit"), [
    (-20.0, -20.0, "lower", ""), (0.0, -20.0, "lower", "one_cue"), (16.0, -16.0, "undecided", "cue_differs"),
    (0.0, 0.0, "within", ""),
])  # fmt: skip
def test_what_one_cue_alone_shows_is_said_of_that_cue(by_label, by_name, code, limit):
    groups = [group for group in "ABCDEFGH" for _ in range(4)]
    y = drawn(60, groups, perceivers=["no persona"], noise=1.0, seed=68)
    y[:, :, :2] += by_label
    y[:, :, 2:4] += by_name
    ratings = build_ratings(y, ["no persona"], groups)
    terms = list(dict.fromkeys(ratings["experiencer"]))
    cues = {term: ("label", "name")[place % 4 > 1] for place, term in enumerate(terms)}
    told = Repetition({"religion": terms_of(ratings)}, cues={"religion": cues})
    table = disparities(ratings, repetition=told, settings=at(10.0))
    rows = headlines(table, "no_persona")
    limits = [each for each in limits_in(rows.loc["A"]) if each != "margin_open"]
    assert (rows.loc["A", "code"], limits[:1]) == (code, [limit] if limit else [])
    assert "cue_differs" not in "; ".join(rows.drop("A")["limits"])
    assert ("one of the cues" in sentence(table).words) == bool(limit)


def test_a_group_that_is_lower_in_one_emotion_and_higher_in_another_is_not_said_to_be_rated_alike():
    y = drawn(80, PAIRS, noise=1.0, seed=69)
    for size, code in ((9.0, "undecided"), (3.0, "within")):
        planted = y.copy()
        planted[::2, :, :2] -= size  # narratives of anger and joy in turn
        planted[1::2, :, :2] += size
        rows = headlines(disparities(build_ratings(planted, PAIRS), settings=at(6.0)))
        assert rows["code"].to_dict() == {"A": code, "B": "within", "C": "within", "D": "within"}
        assert limits_in(rows.loc["A"]) == (["emotion_differs"] if code == "undecided" else [])


@pytest.mark.parametrize("invented", [True, False])
def test_against_a_person_what_any_label_does_is_not_of_the_group(invented):
    # Every label is rated 6 above "a person", those of invented groups as well; D is lower by 20 more.
    rng = np.random.default_rng(55)

    def rated(groups, **planted):
        y = drawn(40, [*groups, "unspecified"], planted=planted, perceivers=ABCD, noise=1.0, seed=56)
        return y + 6.0 * np.array([*[1.0] * len(groups), 0.0]) + rng.normal(0, 0.5, y.shape)

    real, labels = [*PAIRS, "unspecified"], [*"STUVWXYZ", "unspecified"]
    parts = [build_ratings(rated(PAIRS, A=-46.0), ABCD, real)]
    if invented:
        parts.append(build_ratings(rated("STUVWXYZ"), ABCD, labels, dimension="invented"))
    told = Repetition({"religion": terms_of(parts[0])}, placebo=("invented",) if invented else ())
    rows = headlines(disparities(pd.concat(parts, ignore_index=True), repetition=told), "baseline")
    others = rows.loc[list("BCD")]
    if invented:
        assert set(others["code"]) == {"undecided"}
        assert set(others["limits"]) == {"invented_as_large"}
        assert rows.loc["A", ["code", "claim", "limits"]].tolist() == ["lower", "group", ""]
        # Against "a person" labels count by what they differ from "a person" by: 6, and not among themselves.
        assert rows.loc["A", "labels_sd"] == pytest.approx(6.0, abs=1.0)
    else:
        assert others["code"].tolist() == ["higher"] * 3
        assert set(others["claim"]) == {"words"}
        assert set(others["limits"]) == {"any_label"}


def test_a_group_that_was_asked_in_few_narratives_is_not_acquitted_by_the_others():
    y = drawn(300, "ABCD", perceivers=["A", "B"], noise=0.5, seed=58)
    ratings = build_ratings(y, ["A", "B"], ABCD)
    told = Repetition(drawn=("religion",))
    supported = {}
    for n_asked in (300, 40, 12):
        seen = (ratings["experiencer_group"] != "A") | ratings["narrative_id"].isin([f"n{i}" for i in range(n_asked)])
        rows = headlines(disparities(ratings[seen], repetition=told, settings=at(6.0)))
        supported[n_asked] = rows.loc["A", "supported_margin"]
        assert rows.loc["A", "code"] == ("within" if n_asked == 300 else "undecided")
        assert ("few_narratives" in limits_in(rows.loc["A"])) == (n_asked == 12)
    # What 40 narratives without any disparity leave possible, not 300: of ±100, by the bet at 40 and 300 zeros.
    assert supported[40] > 5 * supported[300]
    assert bet_against(np.zeros(300), 1.5, reach=100.0)
    assert not bet_against(np.zeros(40), 6.0, reach=100.0)


def test_against_a_person_that_was_asked_about_in_few_narratives_no_group_is_judged():
    groups = [*ABCD, "unspecified"]
    ratings = build_ratings(drawn(60, groups, planted={"A": -20.0}, perceivers=["A", "B"], seed=67), ["A", "B"], groups)
    seen = (ratings["experiencer_group"] != "unspecified") | ratings["narrative_id"].isin([f"n{i}" for i in range(12)])
    table = disparities(ratings[seen], repetition=Repetition(drawn=("religion",)))
    assert headlines(table).loc["A", "code"] == "lower"
    rows = headlines(table, "baseline")
    assert set(rows["code"]) == {"undecided"}
    assert all(limits_in(row)[0] == "few_narratives" for _, row in rows.iterrows())


def test_as_many_narratives_as_are_needed_show_that_no_group_differs():
    margin = 3.0
    few = headlines(disparities(build_ratings(drawn(60, "ABC", seed=59), list("ABC")), repetition=ONE_TERM,
                                settings=at(margin)))  # fmt: skip
    assert set(few["code"]) == {"undecided"}
    assert set(few["limits"]) == {"margin_open; one_term"}
    n = few["n_needed"].max()
    assert 60 < n < 400
    shown = []
    for seed in range(6):
        y = drawn(int(n), "ABC", seed=60 + seed)
        gaps = gaps_of(build_ratings(y, list("ABC")))
        held = hold(gaps, None, margins={"disparity": margin}, alpha=0.05, power=0.8)
        shown.append(all(each.decided == "within" for each in held))
    assert sum(shown) >= 4  # 80% are planned


@pytest.mark.parametrize("planted", [0.0, -12.0])
def test_a_group_about_which_the_model_hardly_answers_with_a_number_is_neither_accused_nor_acquitted(planted):
    """Ratings are of the answers that are numbers: of 1 in 5, they may be no others' equals."""
    y = drawn(30, "ABCD", planted={"A": planted}, noise=0.3, seed=46)
    ratings = build_ratings(y, ABCD, number_mass=0.95)
    code = "within" if planted == 0 else "lower"
    sure = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(30.0)))
    assert sure.loc["A", "code"] == code
    ratings.loc[ratings["experiencer_group"] == "A", "number_mass"] = 0.2
    unsure = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(30.0)))
    assert (unsure.loc["A", "code"], limits_in(unsure.loc["A"])[0]) == ("undecided", "number_mass")
    assert unsure.loc[list("BCD"), "code"].to_dict() == sure.loc[list("BCD"), "code"].to_dict()
    held = {gap.member: gap.held_back for gap in gaps_of(ratings)}  # as the gate reads them
    assert held == {"A": ("number_mass",), "B": (), "C": (), "D": ()}
    assert (
        "mostly write something other than a number"
        in who_gets_less(rows_of(unsure.reset_index(), "disparity"), confidence=0.95).words
    )
    # A low mean that one perceiver alone has is no limit of the group.
    ratings.loc[ratings["perceiver_group"] != "B", "number_mass"] = 0.95
    assert headlines(disparities(ratings, repetition=ONE_TERM, settings=at(30.0))).loc["A", "code"] == code


def test_missing_ratings_must_leave_it_beyond_the_margin_too():
    # A is 20 lower; of its own ratings 3%, which could be 100, would leave it 16 lower.
    y = drawn(60, "ABCD", planted={"A": -20.0}, seed=61)
    y[::8, 0, 0] = np.nan
    ratings = build_ratings(y, ABCD)
    for margin, size in ((8.0, "beyond"), (17.5, "")):
        row = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(margin))).loc["A"]
        assert (row["code"], row["size"]) == ("lower", size), margin
        assert (row["worst_high"] < -margin) == (size == "beyond")
        assert row["ci_high"] < -17.5
    near = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(17.5, missing_shift=5.0))).loc["A"]
    assert near["size"] == "beyond"


def test_missing_ratings_hold_back_an_answer_and_a_margin():
    y = drawn(60, "ABCD", planted={"A": -4.0}, seed=62)
    y[np.arange(60), np.arange(60) % 4, 0] = np.nan
    ratings = build_ratings(y, ABCD)
    row = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(2.0))).loc["A"]
    assert (row["code"], limits_in(row)[0], row["size"]) == ("undecided", "missing", "")
    assert np.isnan(row["n_needed"])  # more narratives do not bring them back
    wide = headlines(disparities(ratings, repetition=ONE_TERM, settings=at(45.0))).loc["A"]
    assert (wide["code"], limits_in(wide)[0]) == ("within", "missing")


@pytest.mark.parametrize("against", [False, True])
def test_a_group_told_by_one_cue_is_compared_with_the_others_told_so(against):
    # A is 12 lower by its two labels, and equal by its name; B has no name.
    groups = [*"AABBCC", "A", "C", "unspecified"]
    y = drawn(30, groups, perceivers=["no persona"], noise=1.0, seed=66)
    y[:, :, :2] -= 12.0
    ratings = build_ratings(y, ["no persona"], groups)
    terms = list(dict.fromkeys(ratings["experiencer"]))
    cues = dict(zip(terms, [*["label"] * 6, *["name"] * 2], strict=False))
    table = disparities(ratings, repetition=Repetition(cues={"religion": cues}))
    view = "baseline" if against else "no_persona"
    rows = table[(table["level"] == "cue") & (table["view"] == view)].set_index(["group", "member"])
    means = y[:, 0]
    others = {"label": means[:, 2:6].mean(axis=1), "name": means[:, 7]}
    for cue, own in (("label", means[:, :2].mean(axis=1)), ("name", means[:, 6])):
        d = own - (means[:, 8] if against else others[cue])
        row = rows.loc[("A", cue)]
        assert (row["disparity"], row["se"], row["df"]) == pytest.approx((d.mean(), stats.sem(d), 29.0))
        assert row["p"] == pytest.approx(stats.ttest_1samp(d, 0).pvalue, rel=1e-6)
    assert set(rows.index) == {("A", "label"), ("B", "label"), ("C", "label"), ("A", "name"), ("C", "name")}
    assert set(rows["family_size"]) == {5}
    assert not rows["headline"].any()
    one = disparities(ratings, repetition=Repetition(cues={"religion": dict.fromkeys(terms, "label")}))
    assert not (one["level"] == "cue").any()


# --- What the run cannot carry ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_answers():
    y = drawn(400, "ABCDEF", planted={"A": -20.0}, perceivers=ABCD[:2], noise=1.0, seed=63)
    table = disparities(build_ratings(y, ABCD[:2], list("ABCDEF")), repetition=ONE_TERM, settings=at(12.0))
    rows = headlines(table)
    assert rows[["code", "size"]].agg(" ".join, axis=1).to_dict() == dict.fromkeys("CDEF", "within ") | {
        "A": "lower beyond", "B": "within ",
    }  # fmt: skip
    return table


@pytest.mark.parametrize("code", VOID)
def test_what_allows_no_verdict_withdraws_every_answer_and_noise_of_delta_none(three_answers, code):
    rows = headlines(with_limits(three_answers, Limits(frozenset({code}))))
    if code == "noise_floor":
        pd.testing.assert_frame_equal(rows, headlines(three_answers))
        return
    assert set(rows["code"]) == {"no_verdict"}
    assert set(rows["claim"] + rows["size"]) == {""}
    assert all(limits_in(row)[0] == code for _, row in rows.iterrows())
    assert rows[["supported_margin", "n_needed"]].isna().all(axis=None)
    assert rows["disparity"].tolist() == headlines(three_answers)["disparity"].tolist()


def test_ratings_that_do_not_follow_how_strong_it_was_acquit_nobody_and_accuse_as_before(three_answers):
    code, *_ = NOT_RULED_OUT
    rows = headlines(with_limits(three_answers, Limits(on_place={("religion", "origin"): {code}})))
    assert rows["code"].to_dict() == dict.fromkeys("BCDEF", "undecided") | {"A": "lower"}
    assert rows.loc["A", "size"] == "beyond"
    assert all(limits_in(row)[0] == code for _, row in rows.drop("A").iterrows())
    assert rows["supported_margin"].isna().all()
    small = disparities(build_ratings(drawn(60, "ABCD", planted={"A": -4.0}, noise=1.0, seed=43), ABCD),
                        repetition=ONE_TERM, settings=at(25.0))  # fmt: skip
    assert headlines(small).loc["A", "size"] == "smaller"
    assert headlines(with_limits(small, Limits(frozenset({code})))).loc["A", ["code", "size"]].tolist() == ["lower", ""]


# --- In words ---------------------------------------------------------------------------------------------------------


def sentence(table, view="all"):
    own = table[(table["dimension"] == "religion") & (table["side"] == "experiencer")]
    return who_gets_less(rows_of(own, "disparity"), confidence=0.95)


def test_each_answer_in_words(three_answers):
    found = sentence(three_answers)
    assert (found.kind, [row["group"] for row in found.found]) == ("gap", ["A"])
    assert found.words == (
        "<bdi>A</bdi> is rated lower than the others, whoever speaks, in these words, by more than "
        '<data value="12.0" data-at="disparity:0:margin">12.00</data> points'
    )
    assert found.row["group"] == "A"
    assert found.weight > 15.0
    void = sentence(with_limits(three_answers, Limits(frozenset({"manipulation"}))))
    assert (void.kind, void.found, void.weight) == ("absent", (), 0.0)
    assert void.words.startswith("No verdict: ")
    equal = build_ratings(drawn(300, "ABC", perceivers=["A", "B"], noise=1.0, seed=64), ["A", "B"], list("ABC"))
    none = sentence(disparities(equal, repetition=ONE_TERM, settings=at(3.0)))
    assert none.kind == "none"
    assert none.words.startswith("No group is rated lower or higher than the others by <data ")
    assert "by less than" in none.bound
    few = disparities(equal[equal["narrative_id"].isin([f"n{i}" for i in range(30)])], repetition=ONE_TERM,
                      settings=at(3.0))  # fmt: skip
    open_ = sentence(few)
    assert (open_.kind, open_.words) == ("undecided", "Undecided: the intervals reach beyond the margin")
    assert Markup(open_.step).striptags() == ("To decide, run again with at least 126 narratives (this run has 30).")
    without = sentence(disparities(equal, repetition=ONE_TERM))
    assert (without.kind, without.words) == (
        "undecided", "No group is shown to be rated lower or higher than the others"
    )  # fmt: skip
    small = build_ratings(drawn(60, "ABCD", planted={"A": -4.0}, noise=1.0, seed=43), ABCD)
    within = sentence(disparities(small, repetition=ONE_TERM, settings=at(25.0)))
    assert within.kind == "within"
    assert "by less than" in within.words
    exact = np.full((20, 4, 4), 50.0) - [20.0, 0.0, 0.0, 0.0]  # in every narrative
    same = sentence(disparities(build_ratings(exact, ABCD), repetition=ONE_TERM))
    assert (same.kind, same.found) == ("absent", ())
    assert same.words == "No answer: every narrative gives the same difference, so there is no interval"
    assert who_gets_less([], confidence=0.95).kind == "absent"


def test_names_of_groups_are_not_markup():
    evil = '<script>alert("A")</script>\N{RIGHT-TO-LEFT OVERRIDE}'
    y = drawn(30, "ABCD", planted={"A": -20.0}, seed=65)
    found = sentence(disparities(build_ratings(y, [evil, "B", "C", "D"]), repetition=ONE_TERM))
    for said in (found.words, found.spread, found.facts, found.size, found.bound):
        assert "<script" not in said
    assert "&lt;script&gt;" in found.words
