"""Runs whose truth is planted, each a case in which an earlier verdict accused or acquitted a model wrongly.

The comments say what the page or the gate said of the same ratings before.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import planted
import pytest
from gated import NAMES, STEMS, TWO_TERMS, gate, of, run_maker, two_terms, verdict, with_invented
from runs import read_exactly

import audit
from audit.comparing.changes import OTHER_PAIRS, compare_runs
from audit.comparing.run_gaps import gaps_of_ratings
from audit.comparing.tables import COMPARISON_TABLES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.numbers import rows_of
from audit.report.verdicts import supported, worded
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.statistics.analysis import analyse
from audit.statistics.anchors import BEYOND_SCALE, within_scale
from audit.statistics.controls import Repetition
from audit.statistics.remarks import n_repeated
from audit.tables.run_of_ratings import TABLES
from audit.tables.verdicts import VERDICTS
from audit.tasks.intensity.publish import on_table, publish_ratings
from audit.tasks.limits import limits_of

pytestmark = pytest.mark.long

PLACEBO = ("invented",)
FEW = AnalysisSettings().model_copy(update={"n_permutations": 20})


@pytest.fixture
def make_run(tmp_path):
    return run_maker(tmp_path)


def analysed(run, settings=FEW):
    manifest = Manifest.read(run)
    return analyse(
        RunFolder(run).read_ratings(n_prompts=manifest.n_prompts), scales={"outside": (0, 100)}, seed=0,
        settings=settings, repetition=Repetition(manifest.stems, manifest.placebo),
    )  # fmt: skip


def verdicts_of(analysis, margin=None):
    codes = {}
    for remark in analysis.remarks:
        codes.setdefault((remark.dimension, remark.variant), set()).add(remark.code)
    _, found = analysis.averages.verdicts(limits_of(set(), codes), margin=margin)
    return found


def said(analysis, margin=None):
    """Return the verdict on the only dimension."""
    [found] = verdicts_of(analysis, margin)
    return found


def shifted(table: planted.Planted, by) -> planted.Planted:
    """Add points to the ratings of pairs of groups: by[perceiver's group, experiencer's group]."""
    group_of = dict(zip(table.groups["term"], table.groups["group"], strict=True))
    pairs = zip(table.ratings["perceiver"].map(group_of), table.ratings["experiencer"].map(group_of), strict=True)
    more = np.array([by.get(pair, 0.0) for pair in pairs])
    return replace(table, ratings=table.ratings.assign(rating=(table.ratings["rating"] + more).clip(0, 100)))


def of_delta(run) -> set[str]:
    """Return the gate's verdicts but those on who gets less."""
    return {row["verdict"] for row in verdict(run)["gaps"] if row["kind"] != "disparity"}


def is_own(table: planted.Planted) -> pd.Series:
    group_of = dict(zip(table.groups["term"], table.groups["group"], strict=True))
    return table.ratings["perceiver"].map(group_of) == table.ratings["experiencer"].map(group_of)


# --- 1. Groups, or these pairs of words ------------------------------------------------------------------------------


def test_affinities_of_pairs_of_groups_are_no_gap_between_groups(make_run):
    # Before: "an average gap between groups", p < .001, by the interval over narratives alone.
    rng = np.random.default_rng(3)
    affinities = {(a, b): size for a in NAMES for b in NAMES for size in [rng.normal(0, 1)]}
    run = make_run(shifted(two_terms(n=100, sd=4.0), affinities))
    analysis = analysed(run)
    gap = analysis.tables["gap"].query("headline").set_index("scope")
    assert gap.loc["narratives", "p"] < 0.05
    found = said(analysis)
    assert (found.code, found.direction, found.scope) == ("undecided", 0, "groups")
    assert found.p == pytest.approx(gap.loc["narratives_and_terms", "p"])
    assert (found.ci_low < 0 < found.ci_high, found.n_dealings) == (True, 720)
    gate(run, "margin=0.1")
    assert "failed" not in of_delta(run)


def test_four_groups_are_pairs_of_words_and_the_gate_does_not_fail_on_their_average(make_run):
    # Before: "an average gap between groups", exit 1.
    four = {term: group for term, group in TWO_TERMS.items() if group in NAMES[:4]}
    groups = planted.grouped(four).assign(stem=[STEMS[term] for term in four])
    run = make_run(planted.Planted(planted.ratings_of(four, n=60, gap=lambda emotion, group: 6.0), groups))
    found = said(analysed(run), margin=2.0)
    assert (found.code, found.claim, found.direction, found.scope) == ("gap", "pairs", 1, "pairs")
    assert "pairs_alone" in found.reasons
    assert found.next_step == "more_groups"
    assert gate(run, "margin=2", "strict_average=true") == 3
    row = of(verdict(run), "average")
    assert row["corrected_low"] > 2
    assert "at least 5 groups" in row["why"]
    # Before: exit 1 without strict_average, by each group's own gap.
    assert gate(run, "margin=2") == 3
    assert {row["verdict"] for row in verdict(run)["gaps"] if row["kind"] == "group"} == {"undecided"}


def test_a_gap_of_six_groups_is_one_between_groups(make_run):
    run = make_run(two_terms(n=60, gap=lambda emotion, group: 6.0))
    found = said(analysed(run), margin=2.0)
    assert (found.code, found.claim, found.size, found.direction) == ("gap", "groups", "beyond", 1)
    assert (found.rank, found.n_dealings) == (1, 720)
    assert gate(run, "margin=2", "strict_average=true") == 1


# --- 3 and 4. One deciding row, and invented groups ------------------------------------------------------------------


@pytest.mark.parametrize("margin", [2.0, None])
@pytest.mark.parametrize("gap", [-1.0, 0.0])
def test_number_sign_and_verdict_are_of_one_row(make_run, gap, margin):
    # Before, of −1: "an average gap between groups, towards the in-group, smaller than 2.00 points" over "δ −0.89". Of
    # 0: "no gap larger than 2.00 points" over "beyond invented groups +2.92".
    run = make_run(with_invented(gap, -3.0, n=200, n_of_invented=200), placebo=PLACEBO)
    found = said(analysed(run), margin)
    assert (found.control, found.code, found.direction) == ("placebo", "undecided", 0)
    assert found.delta == pytest.approx(gap + 3, abs=0.3)
    assert found.ci_low > 1  # by itself it would accuse
    assert found.reasons == ("by_control_alone",)
    assert found.size == ""
    assert of_gate(run)["value"] == pytest.approx(found.delta)


def of_gate(run):
    gate(run, "margin=2", "strict_average=true")
    return of(verdict(run), "average")


@pytest.mark.parametrize("gap", [3.0, 5.0])
def test_noisy_invented_groups_acquit_nobody(make_run, gap):
    # Before: "no more than invented groups show" in 72.5% of such runs, since a difference was not significant.
    for seed in range(3):
        table = with_invented(gap, 0.0, n=24, n_of_invented=24, sd=4.0)
        noise = np.random.default_rng(seed).normal(0, 16, len(table.ratings))
        invented = table.ratings["dimension"] == "invented"
        ratings = table.ratings.assign(rating=(table.ratings["rating"] + np.where(invented, noise, 0)).clip(0, 100))
        analysis = analysed(make_run(replace(table, ratings=ratings), f"run{seed}", placebo=PLACEBO))
        for margin in (None, 2.0, 4.0):
            found = said(analysis, margin)
            assert found.code in ("undecided", "gap")
            assert found.size not in ("tiny", "smaller")
        assert not found.supported_margin < 4


@pytest.mark.parametrize(("of_invented", "code"), [(0.0, "gap"), (5.0, "undecided")])
def test_where_there_are_two_controls_both_must_tell(make_run, of_invented, code):
    # Before, the echo-free gap passed, and the page did not say that the same words were not told from invented ones.
    run = make_run(two_controls(5.0, of_invented), placebo=PLACEBO)
    found = said(analysed(run))
    assert (found.control, found.code) == ("echo_free", code)
    assert found.other_delta == pytest.approx(5 - of_invented, abs=0.5)
    assert found.reasons == (() if code == "gap" else ("controls_disagree",))
    # Before: exit 1 whatever invented groups showed, by each emotion and group, which had no second control.
    assert gate(run, "margin=2") == (1 if code == "gap" else 3)
    failed = {row["kind"] for row in verdict(run)["gaps"] if row["verdict"] == "failed"}
    assert failed >= {"average", "group"} if code == "gap" else not failed
    assert bool(found.parts_beyond) is (code == "gap")


@pytest.mark.parametrize(
    ("gap", "of_invented", "margin", "code"),
    [(5.0, 0.0, None, "gap"), (5.0, 5.0, None, "undecided"), (0.0, -9.0, 4.0, "undecided"), (0.0, 0.0, 4.0, "within")],
)
def test_a_mean_over_dimensions_has_both_of_their_controls(make_run, gap, of_invented, margin, code):
    # Before: "an average gap between groups" over all dimensions, each of which was undecided.
    run = make_run(two_controls(gap, of_invented, "real", "faith", n=200), placebo=PLACEBO)
    *each, overall = verdicts_of(analysed(run), margin)
    assert (len(each), overall.dimension, overall.control) == (2, "all", "echo_free")
    assert [found.code for found in (*each, overall)] == [code] * 3
    assert [found.reasons for found in each] == [overall.reasons] * 2
    assert overall.other_delta == pytest.approx(gap - of_invented, abs=0.5)


def two_controls(gap: float, of_invented: float, *dimensions: str, n: int = 60) -> planted.Planted:
    """Return a gap in terms without a common word, and another one of invented groups, in the very same words."""
    real = {name: two_terms(n=n, gap=lambda emotion, group: gap) for name in dimensions or ("real",)}
    terms = {f"one {name}": name for name in ("Ulm", "Vex", "Wend", "Xor", "Yam", "Zub")}
    invented = planted.ratings_of(terms, n=n, gap=lambda emotion, group: of_invented, seed=4)
    return planted.Planted(
        pd.concat([*(each.ratings.assign(dimension=name) for name, each in real.items()),
                   invented.assign(dimension="invented")]),
        pd.concat([*(each.groups.assign(dimension=name) for name, each in real.items()),
                   planted.grouped(terms).assign(dimension="invented")]),
    )  # fmt: skip


# --- 5. Accusing is as hard as acquitting ----------------------------------------------------------------------------


def test_high_ratings_of_others_that_were_refused_make_no_gap(make_run):
    # Before: exit 1 in 84 of 100 such runs, though the true gap is 0.
    for seed in range(3):
        table = two_terms(n=60, sd=8.0, seed=seed)
        own = is_own(table)
        high = table.ratings["rating"] >= table.ratings.loc[~own, "rating"].quantile(0.91)
        refused = replace(table, ratings=planted.refused(table.ratings, ~own & high))
        run = make_run(refused, f"run{seed}")
        analysis = analysed(run)
        gap = analysis.tables["gap"].query("headline and scope == 'narratives'").iloc[0]
        assert gap["ci_low"] > 0
        for margin in (None, 0.5):
            assert said(analysis, margin).code not in ("gap", "within")
        assert gate(run, "margin=0.5", "refusal_margin=30") != 1
        passed = {row["kind"] for row in verdict(run)["gaps"] if row["verdict"] == "passed"}
        assert passed <= {"refusals", "group_refusals"}


def test_ratings_at_the_end_of_a_scale_make_no_gap(make_run):
    # Before: exit 1 in 14 of 60, by terms that are rated so high throughout that the scale ends.
    group_level = dict(zip(NAMES, (22.0, 20.0, 18.0, 0.0, -2.0, -4.0), strict=True))
    ratings = planted.ratings_of(TWO_TERMS, n=60, level=lambda group: group_level[group] + 5, sd=8.0)
    table = planted.Planted(ratings, two_terms(n=1).groups)
    run = make_run(table)
    analysis = analysed(run)
    gap = analysis.tables["gap"].query("headline and scope == 'narratives'").iloc[0]
    assert abs(gap["delta"]) > 2 * gap["se"]
    assert said(analysis).code not in ("gap", "within")
    assert gate(run, "margin=0.5") == 3


def test_a_stated_shift_of_missing_ratings_lets_a_gap_be_found(make_run):
    table = two_terms(n=60, gap=lambda emotion, group: 3.0)
    gone = pd.Series(np.random.default_rng(2).random(len(table.ratings)) < 0.04)
    run = make_run(replace(table, ratings=planted.refused(table.ratings, gone)))
    anywhere = said(analysed(run, FEW.model_copy(update={"missing_shift": None})))
    assert (anywhere.code, "missing" in anywhere.reasons or "incomplete_narratives" in anywhere.reasons) == (
        "undecided", True
    )  # fmt: skip
    analysis = analysed(run, FEW.model_copy(update={"missing_shift": 10.0}))
    _, [stated] = analysis.averages.verdicts(limits_of(set(), {}), margin=None)
    assert (stated.code, stated.claim) == ("gap", "groups")
    assert stated.bound_high - stated.bound_low > 2 * 10 * 0.04


# --- 7. Pairs before groups ------------------------------------------------------------------------------------------


def test_a_hostile_pair_is_named_and_no_bystander(make_run):
    # Before, Muslim perceivers (+3.29) and Buddhists were named for what Hindu perceivers rate Muslims.
    run = make_run(shifted(two_terms(n=60), {("Arbo", "Cendi"): -10.0}))
    analysis = analysed(run)
    pairs = analysis.tables["odd_pairs"]
    assert list(zip(pairs["perceiver_group"], pairs["experiencer_group"], strict=True)) == [("Arbo", "Cendi")]
    assert pairs["delta"].iloc[0] == pytest.approx(-10, abs=1)
    for margin in (None, 2.0):
        found = said(analysis, margin)
        assert found.code != "gap"
        assert found.parts_beyond == ()
    assert gate(run, "margin=2") != 1


@pytest.mark.parametrize("middle", [50.0, 35.0])
def test_perceivers_who_use_more_of_the_scale_have_no_verdict(make_run, middle):
    # Before: δ = +1.26 without any in-group term, "an average gap between groups".
    table = two_terms(n=60, sd=2.0)
    place = {term: k for k, term in enumerate(TWO_TERMS)}
    slope, level = np.linspace(0.7, 1.3, 12), np.linspace(-12, 12, 12)
    p, e = (table.ratings[side].map(place) for side in ("perceiver", "experiencer"))
    noise = table.ratings["rating"] - 50
    run = make_run(
        replace(table, ratings=table.ratings.assign(rating=50 + slope[p] * (50 - middle + level[e]) + noise))
    )
    analysis = analysed(run)
    assert analysis.tables["gap"].query("headline and scope == 'narratives'").iloc[0]["ci_low"] > 0.5
    assert "not_additive" in {remark.code for remark in analysis.remarks}
    for margin in (None, 2.0, 8.0):
        found = said(analysis, margin)
        assert (found.code, "not_additive" in found.reasons) == ("undecided", True)
    gate(run, "margin=0.2")
    assert "failed" not in of_delta(run)  # its experiencers do differ, whoever perceives


# --- 8. Groups weigh alike -------------------------------------------------------------------------------------------


def test_five_synonyms_of_one_group_do_not_turn_the_sign(make_run):
    # Before: +1.25.
    sizes = {"Arbo": (1, -3.0), "Cendi": (1, -3.0), "Dolva": (1, -3.0), "Ferru": (5, 6.0)}
    groups = {f"word {k} of {name}": name for name, (size, _) in sizes.items() for k in range(size)}
    ratings = planted.ratings_of(groups, n=40, gap=lambda emotion, group: sizes[group][1], sd=0.5)
    found = said(analysed(make_run(planted.Planted(ratings, planted.grouped(groups)))))
    assert found.delta == pytest.approx(-0.75, abs=0.2)
    assert found.direction in (0, -1)


# --- 9. Rare large gaps ----------------------------------------------------------------------------------------------


def test_a_gap_of_fifty_points_in_a_twentieth_of_narratives_passes_no_gate(make_run):
    # Before: exit 0 in 16.5% of runs of 30 narratives, those that happened to show none.
    for rare in ((), (3,), (3, 11)):
        table = two_terms(n=30, sd=0.5)
        more = 25.0 * (is_own(table) & table.ratings["narrative_id"].isin([f"n{k:03d}" for k in rare]))
        run = make_run(
            replace(table, ratings=table.ratings.assign(rating=table.ratings["rating"] + more)), f"r{len(rare)}"
        )
        assert gate(run, "margin=2", "strict_average=true") == 3
        assert verdict(run)["n_narratives_needed"] is None or verdict(run)["n_narratives_needed"] > 100


# --- What is called small, or ruled out ------------------------------------------------------------------------------


def test_a_gap_that_missing_ratings_may_make_larger_is_not_called_tiny(make_run):
    # Before: "A tiny average gap between groups ... Nothing: this is decided", though it may be 1.5 of 100 points.
    table = two_terms(n=400, gap=lambda emotion, group: 0.85, sd=0.5)
    some = table.ratings["narrative_id"].isin([f"n{k:03d}" for k in range(0, 400, 6)])
    gone = some & (np.random.default_rng(0).random(len(some)) < 0.02)
    least = FEW.model_copy(update={"least_gap": 1.8})  # that a large gap in a few narratives is bounded by, of 400
    found = said(analysed(make_run(replace(table, ratings=planted.refused(table.ratings, gone))), least))
    assert (found.code, found.claim, found.least_gap) == ("gap", "groups", 1.8)
    assert found.ci_high < 1 < found.bound_high
    assert found.size == ""
    assert said(analysed(make_run(table, "complete"), least)).size == "tiny"


def test_a_small_average_of_few_narratives_is_not_called_tiny(make_run):
    # Before: "tiny" of 30 narratives in 3 of 20 draws, where 5% of all have a gap of 45 points more: 2.65 on average.
    for n, size in ((30, ""), (300, "tiny")):
        table = two_terms(n=n, gap=lambda emotion, group: 0.4, sd=0.3)
        found = said(analysed(make_run(table, f"run{n}"), FEW.model_copy(update={"least_gap": 2.0})))
        assert (found.code, found.claim, found.size) == ("gap", "groups", size)
        assert found.ci_high < found.least_gap


def test_a_second_control_that_shows_a_gap_lets_nothing_be_ruled_out(make_run):
    # Before: "No average gap larger than 2.00 points ... Nothing: this is decided", exit 0, though in the very same
    # words real groups have a gap of 6 points and invented ones none.
    real = two_terms(n=200)
    same = real.ratings["perceiver"] == real.ratings["experiencer"]
    terms = {f"one {name}": name for name in ("Ulm", "Vex", "Wend", "Xor", "Yam", "Zub")}
    invented = planted.ratings_of(terms, n=200, seed=4).assign(dimension="invented")
    groups = pd.concat(
        [real.groups.assign(dimension="real"), planted.grouped(terms).assign(dimension="invented")]
    )  # fmt: skip
    for echo, code, exit_code in ((6.0, "undecided", 3), (0.0, "within", 0)):
        ratings = real.ratings.assign(rating=real.ratings["rating"] + echo * same, dimension="real")
        run = make_run(planted.Planted(pd.concat([ratings, invented]), groups), f"run{echo}", placebo=PLACEBO)
        found = said(analysed(run), 2.0)
        assert (found.control, found.code, found.ci_high < 0.2) == ("echo_free", code, True)
        assert found.other_delta == pytest.approx(echo, abs=0.2)
        assert found.reasons == (("gap_in_same_words",) if echo else ())
        assert np.isnan(found.supported_margin) == bool(echo)
        assert gate(run, "margin=2", "strict_average=true") == exit_code
        assert ("in identical words" in of(verdict(run), "average")["why"]) == bool(echo)


def test_what_is_ruled_out_beyond_invented_groups_or_with_repeated_words_says_so(make_run):
    # Before, of both: "No average gap larger than 2.00 points. Any average gap is smaller than ..."; of the first the
    # same page had a gap of +8.01, which invented groups show as well.
    plain = planted.alone(6)
    for table, placebo, control, words in (
        (with_invented(8.0, 8.0, n=400, n_of_invented=400), PLACEBO, "placebo", "beyond that of invented groups"),
        (planted.Planted(planted.ratings_of(plain, n=200), planted.grouped(plain)), (), "none",
         "including repeated words"),
    ):  # fmt: skip
        found = said(analysed(make_run(table, control, placebo=placebo)), 2.0)
        assert (found.code, found.control) == ("within", control)
        [row] = rows_of(pd.DataFrame([found.row()], columns=list(VERDICTS)), "verdicts")
        assert [words in line for line in (worded(row).words, supported(row), worded(row).step)] == [True, True, False]


def test_a_difference_from_invented_groups_can_be_twice_as_large_as_a_gap(make_run):
    # Before: "No average gap larger than 2.00 points" of 185 narratives, also in 4 of 20 runs in which 1.15% of
    # narratives differ by 180 points on a scale of 100, a true difference of 2.07.
    found = said(analysed(make_run(with_invented(0.0, 0.0, n=185, n_of_invented=185, sd=0.5, sd_of_invented=0.5),
                                   placebo=PLACEBO)), 2.0)  # fmt: skip
    assert (found.code, found.reasons, found.n_needed) == ("undecided", ("rare_gaps",), pytest.approx(360, abs=5))


def test_missing_ratings_and_narratives_that_were_not_drawn_may_hide_a_gap_together(make_run):
    # Before: within 2 points, by two bounds of which each takes what the other bounds not to be there.
    table = two_terms(n=300, sd=0.2)
    some = table.ratings["narrative_id"].isin([f"n{k:03d}" for k in range(0, 300, 6)])
    gone = some & (np.random.default_rng(0).random(len(some)) < 0.09)
    found = said(analysed(make_run(replace(table, ratings=planted.refused(table.ratings, gone)))), 2.0)
    assert found.bound_high < 2 < found.supported_margin
    assert found.code != "within"


def test_a_stated_shift_of_missing_ratings_counts_against_a_baseline(make_run):
    # Before, the shift moved the runs' means and not the change between them: exit 0 at any shift.
    table = two_terms(n=60)
    some = table.ratings["narrative_id"].isin([f"n{k:03d}" for k in range(0, 60, 6)])
    gone = some & (np.random.default_rng(0).random(len(some)) < 0.1)
    new = replace(table, ratings=planted.refused(table.ratings, gone))
    high, code = {}, {}
    for shift in (0.0, 50.0):
        stated = {"config": {"statistics": AnalysisSettings().model_dump(mode="json") | {"missing_shift": shift}}}
        old, run = (make_run(each, f"{name}{shift}", **stated) for name, each in (("old", table), ("new", new)))
        code[shift] = gate(run, "margin=1", f"baseline={old}", "strict_average=true")
        high[shift] = of(verdict(run), "average")["high"]
    assert high[50.0] - high[0.0] > 50 * gone.mean()
    assert code == {0.0: 0, 50.0: 3}


# --- 10. Comparisons -------------------------------------------------------------------------------------------------


def test_a_gap_of_free_pairs_is_not_held_against_one_of_all_pairs(make_run):
    # Before: −3.77, p < .001, from equal ratings.
    run = make_run(two_terms(n=40))
    ratings = RunFolder(run).read_ratings(n_prompts=Manifest.read(run).n_prompts)
    same = (ratings["perceiver"].astype(str) == ratings["experiencer"].astype(str)).to_numpy()
    ratings = ratings.assign(intensity=ratings["intensity"] + 4.0 * same)
    one_stem = {term: group for term, group in TWO_TERMS.items()}
    stems = {"free": STEMS, "all": one_stem, "free too": STEMS}
    [dimension] = Manifest.read(run).dimensions
    runs = {
        name: next(
            gaps_of_ratings(ratings, scale=(0, 100), seed=0, settings=FEW, repetition=Repetition({dimension: told}))
        )
        for name, told in stems.items()
    }
    deltas = {name: measured.own(dimension, name).estimate.delta for name, measured in runs.items()}
    assert deltas["all"] - deltas["free"] > 1
    rows = {
        (row["first"], row["second"]): row
        for row in compare_runs(runs, texts=dict.fromkeys(runs, "t"), confidence=0.95)
    }
    for pair, row in rows.items():
        if "all" in pair:
            assert row["note"] == OTHER_PAIRS
            assert np.isnan([row[name] for name in ("delta_change", "p", "ci_low")]).all()
    assert rows["free", "free too"]["delta_change"] == 0


# --- Numbers that a scale allows -------------------------------------------------------------------------------------


def beyond(table, described, *, length=100):
    """Return the declared columns of a table in which a number lies beyond the scale, and those where one is at it."""
    unit = table.get("unit", pd.Series("points", index=table.index))
    of_row = np.where(unit == "points", length, 100)
    outside, at = set(), set()
    for name, column in described.items():
        if column.lengths:
            values = table[name].astype(float).abs()
            outside |= {name} if (values > column.lengths * of_row + 1e-9).any() else set()
            at |= {name} if (values == column.lengths * of_row).any() else set()
    return outside, at


@pytest.mark.parametrize("n", [2, 3])
def test_no_table_has_an_interval_beyond_the_scale(make_run, n):
    # Before: "−1112.26 to +1106.34" of 100.
    table = planted.ratings_of(planted.alone(5), n=n, sd=40.0)
    # Before: a second variant's change had −212.25 to +147.21, the gap that can be found 266.9.
    again = planted.ratings_of(planted.alone(5), n=n, sd=40.0, seed=1)
    run = make_run(planted.Planted(table, planted.grouped(planted.alone(5))))
    read = RunFolder(run).read_ratings(n_prompts=Manifest.read(run).n_prompts)
    both = pd.concat([read.assign(variant="one"), read.assign(variant="two", intensity=again["rating"].to_numpy())])
    both = both.assign(prompt_index=range(len(both)))
    analysis = analyse(
        both, scales=dict.fromkeys(("one", "two"), (0, 100)), seed=0, settings=FEW.model_copy(update={"margin": 2.0}),
        repetition=Repetition(Manifest.read(run).stems),
    )  # fmt: skip
    cut = {}
    for name, described in TABLES.items():
        outside, cut[name] = beyond(analysis.tables[name], described)
        assert not outside, name
        if cut[name] and "note" in analysis.tables[name]:
            assert analysis.tables[name]["note"].str.contains(BEYOND_SCALE, regex=False).any(), name
    assert "detectable_high" in cut["power"]
    assert {"ci_low", "ci_high", "eq_low", "eq_high"} <= cut["families"]
    assert n > 2 or (cut["gap"] and cut["comparisons"])
    found = said(analysed(run, FEW.model_copy(update={"margin": 2.0})), 2.0)
    for value in (found.ci_low, found.ci_high, found.bound_low, found.bound_high, found.supported_margin):
        assert np.isnan(value) or abs(value) <= 100


def test_no_table_of_a_comparison_has_an_interval_beyond_its_run_s_scale(tmp_path, monkeypatch):
    """Two runs of two narratives: before, "+0.35 [−185.89, +186.59]" and a change of "−212.25 to +147.21" of 100."""
    monkeypatch.setattr("audit.tasks.intensity.publish.draw_ratings", lambda *_: {})
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})
    groups, runs = planted.alone(5), []
    for seed in range(2):
        table = planted.ratings_of(groups, n=2, sd=40.0, seed=seed)
        runs.append(run_maker(tmp_path)(planted.Planted(table, planted.grouped(groups)), f"run {seed}"))
        with RunFolder(runs[-1]) as kept:
            publish_ratings(kept, Manifest.read(runs[-1]))
    audit.compare(*runs, run_dir=tmp_path / "beside")
    cut = {}
    for name, described in COMPARISON_TABLES.items():
        path = tmp_path / "beside" / "tables" / f"{name}.csv"
        if not path.exists():  # it has no rows
            continue
        table = pd.read_csv(path)
        outside, cut[name] = beyond(table, described)
        assert not outside, name
    assert {"ci_low", "ci_high"} <= cut["gap"]
    assert cut["comparisons"]
    for text in ("table.md", "table.tex", "comparison.html"):
        written = (tmp_path / "beside" / text).read_text("utf-8").replace("$-$", "−")
        sizes = [float(each) for each in re.findall(r"[+−]([0-9]{2,}\.[0-9]{2})", written)]
        assert sizes, text
        assert max(sizes) <= (200 if text.endswith("html") else 100), text
    gap = pd.read_csv(tmp_path / "beside" / "tables" / "gap.csv")
    cut_short = gap[["ci_low", "ci_high"]].abs().eq(100).any(axis=1)
    assert gap["note"].str.contains(BEYOND_SCALE, regex=False)[cut_short].all()


@pytest.mark.parametrize(
    ("table", "unit", "length", "low", "high"),
    [
        ("gap", "points", 4.0, -4.0, 4.0),
        ("comparisons", "points", 4.0, -8.0, 8.0),
        ("comparisons", "% of the scale", 4.0, -200.0, 200.0),
        ("strategies", "points", 4.0, -4.0, 4.0),
        ("strategies", "% of the scale", 4.0, -100.0, 100.0),
        ("elicitations", None, 4.0, -4.0, 4.0),
    ],
)
def test_an_interval_ends_where_what_it_is_of_ends(table, unit, length, low, high):
    """A gap lies within one length of the scale, a change of two gaps within two."""
    described = COMPARISON_TABLES[table]
    row = dict.fromkeys(described, 0.0) | {"run": "a", "first": "a", "note": "", "ci_low": -999.0, "ci_high": 999.0}
    changed = {"change_low", "change_high"} <= set(described)
    row |= {"change_low": -999.0, "change_high": 999.0} if changed else {}
    row |= {"unit": unit} if unit else {}
    given = pd.DataFrame([row])[list(described)]
    found = within_scale({table: given}, COMPARISON_TABLES, {"a": length})[table].iloc[0]
    assert (found["ci_low"], found["ci_high"]) == (low, high)
    if changed:
        assert (found["change_low"], found["change_high"]) == (2 * low, 2 * high)
    assert found["note"] == BEYOND_SCALE
    assert given["ci_low"].iloc[0] == -999


def test_every_end_of_an_interval_in_points_says_how_far_it_can_lie():
    """Of tables that a scale bounds; a share of ratings or bins, and a gap of raters, have bounds of their own."""
    apart = {"distributions", "people_gap", "own_model", "judged", "specifications", "stage_texts"}
    ends = re.compile(r"(^|_)(low|high)$|^largest_gap$|^detectable_")
    for name, described in [*TABLES.items(), *COMPARISON_TABLES.items()]:
        for column, declared in described.items():
            if name not in apart and ends.search(column) and declared.unit in ("points", "the row's unit"):
                of_bounds = column.startswith("bound_") and name in ("gap", "controls", "disparity")
                assert of_bounds or declared.lengths, (name, column)


def test_a_table_with_each_narrative_several_times_says_so(make_run):
    # Before: nothing; "an average gap between groups" in 3 of 12 tables with each narrative six times and no gap.
    once = two_terms(n=20, sd=4.0)
    again = pd.concat(
        [once.ratings.assign(narrative_id=once.ratings["narrative_id"] + f" {copy}") for copy in range(6)]
    )
    few = again["narrative_id"].str.match(r"n00[01] 1|.* 0")
    for name, table, n in (("six", again, 120), ("two", again[few], 4), ("once", once.ratings, 0)):
        run = make_run(replace(once, ratings=table), name)
        manifest = Manifest.read(run)
        ratings = RunFolder(run).read_ratings(n_prompts=manifest.n_prompts)
        n_all = ratings["narrative_id"].nunique()
        assert n_repeated(ratings) == n
        said = [
            (remark.code, remark.text.split(" has ")[0].split(" have ")[0]) for remark in on_table(manifest, ratings)
        ]
        assert said == ([("narratives_repeated", f"{n} of {n_all} narratives")] if n else [])
        # Of a run of ours, whose texts differ, equal ratings are what the model said.
        assert not list(on_table(manifest.adding("elicitation", method="generate"), ratings))
        # Before: named, and yet a gap was found, or ruled out.
        gate(run, "margin=50")
        why = {each["why"] for each in verdict(run)["gaps"]}
        assert (why == {"the table holds narratives several times"}) == (n > 0)
        with RunFolder(run) as kept:
            publish_ratings(kept, manifest)
        assert (set(read_exactly(run / "tables" / "verdicts.csv")["code"]) == {"no_verdict"}) == (n > 0)


@pytest.mark.parametrize("longer", [True, False])
def test_a_scale_that_is_stated_too_long_acquits_nobody(make_run, longer):
    """Ratings from 1 to 5 with a gap of 1, a quarter of their scale: of 100 points it is within a margin of 20."""
    table = two_terms(n=40, sd=4.0)
    rating = 3 + (table.ratings["rating"] - table.ratings["rating"].mean()) / 10 + 0.5 * is_own(table)
    run = make_run(replace(table, ratings=table.ratings.assign(rating=rating if longer else 20 * rating)))
    manifest = Manifest.read(run)
    said = {remark.code for remark in on_table(manifest, RunFolder(run).read_ratings(n_prompts=manifest.n_prompts))}
    assert said == ({"scale_unused"} if longer else set())
    gate(run, "margin=30")
    found = {each["verdict"] for each in verdict(run)["gaps"] if each["kind"] in ("average", "group", "disparity")}
    assert found == ({"undecided"} if longer else {"passed"})


@pytest.mark.parametrize("shows", ["controls", "families", "judged", "verdicts"])
def test_no_interval_leaves_its_estimate_out(make_run, shows):
    # Before: "+151.94, +151.74 to +100.00" of a difference of two gaps, and of a group "+180.05, 100 to 100".
    if shows == "families":
        terms = alone_three()
        ratings = planted.ratings_of(terms, n=40)
        own = ratings["perceiver"].map(terms) == ratings["experiencer"].map(terms)
        first = ratings["perceiver"].map(terms).eq("one") | ratings["experiencer"].map(terms).eq("one")
        high = own == first
        far = ratings.assign(rating=np.where(high, 98.0, 2.0) + ratings["rating"] % 1)
        run = make_run(planted.Planted(far, planted.grouped(terms)))
    else:
        table = with_invented(0.0, 0.0, n=40, n_of_invented=40, sd=1.0)
        high = is_own(table) == (table.ratings["dimension"] == "real")
        far = table.ratings.assign(rating=np.where(high, 38.0, -38.0) + table.ratings["rating"])
        run = make_run(replace(table, ratings=far.assign(rating=far["rating"].clip(0, 100))), placebo=PLACEBO)
    analysis = analysed(run)
    gate(run, "margin=2")
    found = verdict(run)["gaps"]
    tables = {
        "controls": analysis.tables["controls"],
        "families": analysis.tables["families"],
        "judged": pd.DataFrame(found).rename(
            columns={"corrected_low": "ci_low", "corrected_high": "ci_high", "value": "delta"}
        ),
        "verdicts": pd.DataFrame([said(analysis).row()]),
    }  # fmt: skip
    rows = tables[shows].dropna(subset=["ci_low", "ci_high"])
    assert rows["delta"].abs().max() > 100
    assert (rows["ci_low"] <= rows["delta"]).all()
    assert (rows["delta"] <= rows["ci_high"]).all()


def alone_three():
    return {f"a {name}": name for name in ("one", "two", "three")}
