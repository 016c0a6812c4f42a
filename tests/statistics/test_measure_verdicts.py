"""Verdicts on measures of replies, by the rules of ratings, on planted numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from audit.configuration.analysis_settings import AnalysisSettings
from audit.runs.manifest import Manifest
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.statistics.verdict import Limits, Verdict
from audit.tables.replies import REPLIES
from audit.tables.verdicts import VERDICTS
from audit.tasks.limits import verdicts_as_they_hold
from audit.tasks.reply.gaps import measure_tables

GROUPS = tuple("ABCDEF")
FEW = AnalysisSettings().model_copy(update={"n_permutations": 10})


def replies_of(*, groups=GROUPS, n=24, terms=2, invented=0, conversations=0):
    """Written replies of these groups in one dimension, and of so many invented groups in another."""
    parts = []
    for dimension, names in (("religion", groups), ("invented_1", tuple("VWXYZ"[:invented]))):
        pairs = [(f"{name}{k}", name) for name in names for k in range(terms)]
        rows = [
            (f"c{k % conversations}:{k}" if conversations else f"n{k}", p, e, pg, eg)
            for k in range(n) for p, pg in pairs for e, eg in pairs
        ]  # fmt: skip
        names_of = ["narrative_id", "perceiver", "experiencer", "perceiver_group", "experiencer_group"]
        parts.append(pd.DataFrame(rows, columns=names_of).assign(dimension=dimension))
    table = pd.concat(parts, ignore_index=True)
    inside = table["perceiver_group"] == table["experiencer_group"]
    return table.assign(
        prompt_index=range(len(table)), variant="origin", emotion="joy", status="written", text="some words",
        in_group=inside.astype("boolean"), n_shared=inside.astype("Int8"), n_tokens=9, n_prompt_tokens=50,
        n_dropped=0, wording=0,
    )[list(REPLIES)]  # fmt: skip


def own(replies):
    return replies["in_group"].to_numpy(bool).astype(float)


def same(replies):
    return (replies["perceiver"] == replies["experiencer"]).to_numpy(float)


def real(replies):
    return (replies["dimension"] == "religion").to_numpy(float)


def by_pair(replies, seed, sd=1.0):
    """An affinity of each pair of groups, of which none is in-group by more than chance."""
    affinity = np.random.default_rng(seed).normal(0, sd, (6, 6))
    at = {name: place for place, name in enumerate(GROUPS)}
    return affinity[replies["perceiver_group"].map(at), replies["experiencer_group"].map(at)]


def verdicts_of(
    replies, planted: Mapping[str, np.ndarray], *, sd=1.0, scale=None, limits=None,
    conversation_of=None, seed=0,
):  # fmt: skip
    """Return the table of verdicts on measures that are noise and what is planted, and the tables beside it."""
    outcomes = []
    for place, (name, values) in enumerate(planted.items()):
        noise = np.random.default_rng([seed, place]).normal(0, sd, len(replies))
        numbers = pd.Series(values + noise, index=replies["prompt_index"])
        outcomes.append(Outcome(name, "points", numbers, scale))
    terms = {name: name for name in (*replies["perceiver"].unique(),)}
    tables = measure_tables(
        replies, outcomes, seed=0, settings=FEW, limits=limits, conversation_of=conversation_of,
        repetition=Repetition(
            {"religion": terms, "invented_1": terms},
            placebo=("invented_1",) if (replies["dimension"] == "invented_1").any() else (),
        ),
    )  # fmt: skip
    return SimpleNamespace(rows=tables["verdicts"].set_index("outcome"), tables=tables)


def verdict(replies, values, **more):
    return verdicts_of(replies, {"m": values}, **more).rows.loc["m"]


@pytest.mark.parametrize("seed", range(4))
def test_affinities_of_pairs_of_groups_are_no_gap_between_groups(seed):
    """By the interval over narratives alone, three of these four were a gap between groups."""
    replies = replies_of()
    row = verdict(replies, by_pair(replies, seed), seed=seed)
    assert (row["code"], row["control"], row["scope"]) == ("undecided", "echo_free", "groups")
    assert row["ci_low"] < 0 < row["ci_high"]


@pytest.mark.parametrize(
    ("n", "terms", "claim"), [(5, 2, "groups"), (4, 2, "pairs"), (5, 1, "uncontrolled")],
)  # fmt: skip
def test_between_what_a_gap_is_said_to_be(n, terms, claim):
    replies = replies_of(groups=GROUPS[:n], terms=terms)
    row = verdict(replies, 3 * own(replies))
    assert (row["code"], row["claim"], row["direction"]) == ("gap", claim, 1)
    assert bool(row["why_pairs"]) == (claim == "pairs")
    assert row["ci_low"] < 3 < row["ci_high"]
    assert np.isnan([row["margin"], row["supported_margin"]]).all()


def test_what_invented_groups_show_as_well_is_undecided_and_neither_found_nor_ruled_out():
    replies = replies_of(terms=1, invented=5)
    row = verdict(replies, 3 * own(replies))
    assert (row["code"], row["control"], row["reasons"]) == ("undecided", "placebo", "holds_zero")
    beyond = verdict(replies, 3 * own(replies) * real(replies))
    assert (beyond["code"], beyond["control"], beyond["claim"]) == ("gap", "placebo", "groups")


def test_a_gap_that_is_there_only_once_that_of_invented_groups_is_taken_off_is_undecided():
    replies = replies_of(terms=1, invented=5)
    row = verdict(replies, own(replies) * np.where(real(replies) > 0, 1.0, 3.0))
    assert (row["code"], row["reasons"]) == ("undecided", "by_control_alone")


def test_where_there_are_two_controls_both_must_pass():
    """In-group +3, which the very same words have as well of invented groups."""
    replies = replies_of(invented=5)
    row = verdict(replies, 3 * own(replies) * real(replies) + 3 * same(replies) * (1 - real(replies)))
    assert (row["code"], row["control"], row["reasons"]) == ("undecided", "echo_free", "controls_disagree")
    assert row["other_low"] < 0 < row["other_high"]
    passed = verdict(replies, 3 * own(replies) * real(replies))
    assert (passed["code"], passed["claim"]) == ("gap", "groups")


def test_of_few_narratives_or_few_that_differ_nothing_is_found():
    few = replies_of(n=19)
    assert (row := verdict(few, 3 * own(few)))["code"] == "undecided"
    assert row["reasons"] == "few_narratives"
    replies = replies_of(n=40)
    rare = own(replies) * replies["narrative_id"].isin([f"n{k}" for k in range(19)])
    assert verdict(replies, rare.to_numpy(float), sd=0.0)["reasons"] == "few_narratives"


def test_p_is_corrected_over_the_measures_of_a_dimension_and_peoples_questions_are_a_family_of_their_own():
    replies = replies_of(n=20)
    nothing = np.zeros(len(replies))
    alone = verdicts_of(replies, {"m": 0.14 * own(replies), "people_a": nothing}).rows
    assert alone.loc["m", "p"] == alone.loc["m", "p_adjusted"] < 0.05
    among = verdicts_of(replies, {"m": 0.14 * own(replies)} | {f"o{k}": nothing for k in range(9)}).rows
    assert among.loc["m", "p"] == alone.loc["m", "p"]
    assert among.loc["m", "p_adjusted"] == pytest.approx(10 * alone.loc["m", "p"])
    assert (alone.loc["m", "code"], among.loc["m", "code"]) == ("gap", "undecided")
    assert among.loc["m", "reasons"] == "not_corrected"


def test_numbers_that_are_missing_could_be_any_that_others_are():
    """The highest numbers of out-group replies have none: what is left makes a gap that is not there."""
    replies = replies_of()
    values = np.random.default_rng(3).normal(0, 1, len(replies))
    high = (own(replies) == 0) & (values > np.quantile(values[own(replies) == 0], 0.95))
    row = verdict(replies, np.where(high, np.nan, values), sd=0.0)
    assert row["p_adjusted"] < 0.05
    assert (row["code"], row["reasons"]) == ("undecided", "incomplete_narratives; missing")
    few = np.flatnonzero(high)[::40]
    values[few] = np.nan
    assert verdict(replies, values + 3 * own(replies), sd=0.0)["code"] == "gap"
    assert "missing" in verdict(replies, values + 0.14 * own(replies), sd=0.0, scale=(-1000.0, 1000.0))["reasons"]


def test_utterances_of_a_conversation_are_not_independent():
    """Twenty-four conversations of four utterances, each with a gap of its own, and none on average."""
    replies = replies_of(n=96, conversations=24)
    conversation = replies["narrative_id"].str.split(":").str[0]
    rng = np.random.default_rng(5)
    gaps = rng.normal(0.35, 1, 24)
    values = own(replies) * gaps[conversation.str[1:].astype(int)]
    naive = verdict(replies, values)
    over = verdict(replies, values, conversation_of=lambda name: name.split(":")[0])
    assert naive["delta"] == pytest.approx(over["delta"])
    assert over["se"] > 1.5 * naive["se"]
    assert (over["code"], over["df"]) == ("undecided", 5)
    [wide] = [
        row for row in verdicts_of(replies, {"m": values}, conversation_of=lambda name: name.split(":")[0])
        .tables["gap"].query("headline").to_dict("records") if row["scope"] == "narratives_and_terms"
    ]  # fmt: skip
    assert over["se"] == pytest.approx(wide["se"])


def test_a_limit_of_a_judges_measure_is_of_that_measure_alone():
    replies = replies_of()
    limits = Limits(frozenset(), {("religion", "origin", "judged"): frozenset({"number_mass"})})
    rows = verdicts_of(replies, {"judged": 3 * own(replies), "m": 3 * own(replies)}, limits=limits).rows
    assert rows["code"].tolist() == ["no_verdict", "gap"]
    assert rows.loc["judged", "reasons"] == "number_mass"


def test_files_that_were_accepted_since_take_the_verdicts_back():
    replies = replies_of()
    table = verdicts_of(replies, {"m": 3 * own(replies)}).tables["verdicts"]
    assert list(table) == list(VERDICTS)
    stored = Verdict.of_row(table.to_dict("records")[0])
    assert (stored.code, stored.outcome, stored.delta) == ("gap", "m", table["delta"].iloc[0])
    manifest = Manifest.of({"status": "running"})
    now = verdicts_as_they_hold(table, manifest)
    assert (now["code"].iloc[0], now["reasons"].iloc[0]) == ("no_verdict", "unfinished")
    assert now["delta"].iloc[0] == table["delta"].iloc[0]
