"""δ of measures of replies: against the statistics of ratings, planted gaps, and diversity worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.configuration.analysis_settings import AnalysisSettings
from audit.runs.manifest import Manifest
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.statistics.conversations import conversation_of
from audit.statistics.outcome import Outcome
from audit.tables.cells import CELLS
from audit.tables.gap import FAMILIES, GAP
from audit.tables.replies import REPLY_OUTCOMES, ReplyStatus
from audit.tables.shared import OUTCOME
from audit.tasks.reply.gaps import measure_tables, remarks_on_replies
from audit.tasks.reply.measure_values import measures_of

GROUPS = ("Jew", "Sikh", "Jain", "Hindu", "Copt", "unspecified")
SETTINGS = AnalysisSettings(n_permutations=500)
OF_RATINGS = {
    "gap": ("delta_z", "null_low", "null_high", "percent_of_scale", "sd_within", "raw_in", "raw_out", "bound_low",
            "bound_high"),
    "cells": ("n_refused", "n_unparseable", "n_failed", "n_inexact", "refusal_rate", "unparseable_rate"),
}  # fmt: skip
"""Columns that only ratings have numbers in."""


def replies_of(ratings, **change):
    """Take each prompt of some ratings as one that asked for a reply; a missing rating is a refusal."""
    status = np.where(ratings["status"] == "rated", "written", "refused")
    texts = [f"Reply {k} to you." for k in range(len(ratings))]
    table = ratings.drop(columns=["response", "intensity", "mode", "spread", "number_mass"])
    told = {"status": status, "text": texts, "n_tokens": 5, "n_prompt_tokens": 9, "n_dropped": 0, "wording": 0}
    return table.assign(**(told | change))


def values_of(ratings):
    return pd.Series(ratings["intensity"].astype("Float64").to_numpy(float, na_value=np.nan), ratings["prompt_index"])


def tables_of(replies, *measured, seed=0, settings=SETTINGS, **options):
    return measure_tables(replies, measured, seed=seed, settings=settings, **options)


def gap_of(tables, measure, *, scope="narratives", dimension="religion"):
    gaps = tables["gap"]
    chosen = gaps["headline"].astype(bool) & (gaps["scope"] == scope)
    [row] = gaps.loc[chosen & (gaps["outcome"] == measure) & (gaps["dimension"] == dimension)].to_dict("records")
    return row


def cube(rng, *, n=14, missing=0.0):
    k = len(GROUPS)
    y = rng.normal(50, 10, (n, k, k)) + rng.normal(0, 5, (n, 1, 1))
    y[rng.random(y.shape) < missing] = np.nan
    return y


def two_dimensions(ratings_of, rng, *, missing):
    parts = [
        ratings_of(cube(rng, missing=missing), GROUPS, dimension=name) for name in ("religion", "nationality")
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).assign(prompt_index=lambda table: np.arange(len(table)))


@pytest.mark.parametrize("missing", [0.0, 0.03])
def test_of_a_measure_that_is_an_intensity_every_number_is_the_one_of_ratings(ratings_of, missing):
    ratings = two_dimensions(ratings_of, np.random.default_rng(3), missing=missing)
    valence = {"anger": "negative", "joy": "positive"}
    clusters = {"religion": {"Jain": "Dharmic", "Hindu": "Dharmic", "Sikh": "Dharmic"}}
    options = {"seed": 7, "settings": SETTINGS, "valence": valence, "clusters": clusters}
    wanted = analyse(ratings, scales={"origin": (0.0, 100.0)}, **options).tables
    replies = replies_of(ratings).set_index(pd.Index(range(5, 5 + len(ratings))))
    before = replies.copy()
    found = tables_of(replies, Outcome("eq", values=values_of(ratings)), **options)
    pd.testing.assert_frame_equal(replies, before)

    own = found["gap"]
    gap = wanted["gap"].loc[lambda table: table["estimator"].isin(["contrast", "mixed"])]
    # Of ratings, p is corrected over dimensions, and a gap is held against ratings of one narrative.
    apart = (*OUTCOME, "p_adjusted", "family_size", "delta_sd", "sd_ci_low", "sd_ci_high", *OF_RATINGS["gap"])
    shared = [name for name in gap if name not in apart]
    assert {"delta", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers", "n_missing"} < {*shared}
    assert own[list(OF_RATINGS["gap"])].isna().all(axis=None)
    assert (set(own["outcome"]), set(gap["outcome"])) == ({"eq"}, {"intensity"})
    pd.testing.assert_frame_equal(own[shared], gap[shared].reset_index(drop=True), check_exact=True)
    assert set(own["dimension"]) == {"religion", "nationality", "all"}
    assert set(own.loc[own["headline"].astype(bool), "estimator"]) == {"contrast"}

    shared = list(FAMILIES.without(*OUTCOME))
    pd.testing.assert_frame_equal(found["families"][shared], wanted["families"][shared], check_exact=True)
    shared = list(CELLS.without(*OUTCOME, *OF_RATINGS["cells"]))
    pd.testing.assert_frame_equal(found["cells"][shared], wanted["cells"][shared], check_exact=True)

    sd = float(values_of(ratings).std(ddof=1))
    pd.testing.assert_series_equal(own["delta_sd"], own["delta"] / sd, check_names=False)
    pd.testing.assert_series_equal(own["sd_ci_high"], own["ci_high"] / sd, check_names=False)
    assert [list(found[name]) for name in ("gap", "cells", "reply_outcomes")] == [
        list(GAP), list(CELLS), list(REPLY_OUTCOMES)
    ]  # fmt: skip


def test_a_prompt_that_was_never_asked_is_not_a_reply_that_is_missing(ratings_of):
    ratings = ratings_of(cube(np.random.default_rng(3)), GROUPS)
    replies = replies_of(ratings)
    assert gap_of(tables_of(replies.iloc[:-50], Outcome("eq", values=values_of(ratings))), "eq")["n_missing"] == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_a_planted_gap_is_found_in_its_measure_and_in_no_other(ratings_of, seed, missing):
    """By 99.9% intervals: of the 8 x 4 of them one would fail in 30 tries of the test with other seeds."""
    rng = np.random.default_rng([seed, 11])
    inside = np.equal.outer(GROUPS, GROUPS)
    whole = [cube(rng, n=24) for _ in range(4)]
    whole[0] += 8.0 * inside
    refused = rng.random(whole[0].shape) < missing
    ratings = [ratings_of(np.where(refused, np.nan, y), GROUPS) for y in whole]
    measured = [Outcome(f"m{k}", values=values_of(own)) for k, own in enumerate(ratings)]
    tables = tables_of(replies_of(ratings[0]), *measured, seed=seed, settings=AnalysisSettings(confidence=0.999))
    rows = [gap_of(tables, each.name) for each in measured]
    assert all(row["ci_low"] < (8.0 if k == 0 else 0.0) < row["ci_high"] for k, row in enumerate(rows))
    assert [row["p_adjusted"] < 0.01 for row in rows] == [True] + 3 * [False]


def test_holm_corrects_over_the_measures_of_a_dimension_that_have_a_p(ratings_of):
    rng = np.random.default_rng(5)
    ratings = two_dimensions(ratings_of, rng, missing=0)
    values = [values_of(ratings) + rng.normal(0, 10, len(ratings)) for _ in range(3)]
    measured = [Outcome(f"m{k}", values=own) for k, own in enumerate(values)]
    constant = Outcome("constant", values=values[0] * 0 + 1)
    gaps = tables_of(replies_of(ratings), *measured, constant)["gap"]
    family = gaps.loc[gaps["headline"].astype(bool) & (gaps["scope"] == "narratives")]
    assert gaps.drop(family.index)[["p_adjusted", "family_size"]].isna().all(axis=None)
    for _, own in family.groupby("dimension"):
        assert own["family_size"].tolist() == [3] * 4
        p = own["p"].to_numpy()
        assert np.isnan([p[3], own["p_adjusted"].iloc[3]]).all()
        low, middle, high = np.sort(p[:3])
        wanted = {low: min(1, 3 * low), middle: min(1, max(3 * low, 2 * middle))}
        wanted[high] = min(1, max(wanted[middle], high))
        assert own["p_adjusted"].iloc[:3].tolist() == pytest.approx([wanted[each] for each in p[:3]])
    assert family["dimension"].nunique() == 3


def test_people_s_questions_are_a_family_of_their_own(ratings_of):
    """So that importing them leaves the corrected p of all other measures as it was."""
    rng = np.random.default_rng(6)
    ratings = ratings_of(cube(rng), GROUPS)
    measured = [
        Outcome(name, values=values_of(ratings) + rng.normal(0, 10, len(ratings)))
        for name in ("eq", "people_warmth", "regard", "people_help", "people_care")
    ]
    gaps = tables_of(replies_of(ratings), *measured)["gap"]
    alone = tables_of(replies_of(ratings), measured[0], measured[2])["gap"]
    others = gaps.loc[~gaps["outcome"].str.startswith("people_")].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, alone)
    people = gaps.loc[gaps["p_adjusted"].notna() & gaps["outcome"].str.startswith("people_")]
    assert people["family_size"].tolist() == [3, 3, 3]
    assert people["p_adjusted"].min() == pytest.approx(min(1, 3 * people["p"].min()))


NUMBERS = ["se", "df", "ci_low", "ci_high", "p"]


def utterances(ratings_of, *, missing=0.0, each=4):
    """Replies about utterances of two dimensions' cube, so many a conversation; conversations differ in their gap."""
    rng = np.random.default_rng(9)
    gaps = np.repeat(rng.normal(0, 8, 24 // each), each)[:, None, None] * np.eye(len(GROUPS))
    parts = [ratings_of(cube(rng, n=24, missing=missing) + gaps, GROUPS, dimension=name) for name in ("a", "b")]
    ratings = pd.concat(parts, ignore_index=True)
    turn = ratings["narrative_id"].str[1:].astype(int)
    names = "S:" + (turn // each).astype(str) + ":" + turn.astype(str)
    return ratings.assign(prompt_index=np.arange(len(ratings)), narrative_id=names)


@pytest.mark.parametrize("missing", [0.0, 0.04])
def test_conversations_of_one_utterance_are_narratives(ratings_of, missing):
    ratings = utterances(ratings_of, each=1, missing=missing)
    measured = [Outcome("recognised", values=values_of(ratings))]
    plain, found = (
        tables_of(replies_of(ratings), *measured, conversation_of=of) for of in (None, conversation_of)
    )  # fmt: skip
    for name, table in plain.items():
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


@pytest.mark.parametrize("missing", [0.0, 0.04])
def test_utterances_of_a_conversation_are_not_independent(ratings_of, missing):
    ratings = utterances(ratings_of, missing=missing)
    measured = [Outcome("recognised", values=values_of(ratings))]
    replies, valence = replies_of(ratings), {"joy": "positive", "anger": "negative"}
    plain, found = (
        tables_of(replies, *measured, valence=valence, conversation_of=of) for of in (None, conversation_of)
    )
    for name in ("cells", "reply_outcomes"):
        pd.testing.assert_frame_equal(found[name], plain[name])
    gaps, naive = (each["gap"].loc[lambda table: table["outcome"] == "recognised"] for each in (found, plain))
    same = [
        name
        for name in gaps
        if name not in (*NUMBERS, "p_sign_flip", "p_adjusted", "family_size", "sd_ci_low", "sd_ci_high", "note")
    ]
    pd.testing.assert_frame_equal(gaps[same], naive[same])
    there = naive["se"].notna()
    assert there.sum() == 10  # two estimators in two dimensions and the mean over these, in two scopes each
    assert (gaps.loc[gaps["headline"].astype(bool), "se"] > 1.2 * naive["se"][naive["headline"].astype(bool)]).all()
    assert (gaps.loc[there, "df"] <= 5).all()
    assert gaps.loc[there, "note"].str.contains("over [56] conversations: utterances of one are not ind").all()
    wide = gaps.loc[there & (gaps["scope"] == "narratives_and_terms")].set_index(["dimension", "estimator"])
    narrow = gaps.loc[there & (gaps["scope"] == "narratives")].set_index(["dimension", "estimator"])
    assert (wide["se"] >= narrow["se"]).all()
    assert wide["note"].str.match("(5 groups|groups that count: 5 of a, 5 of b); over [56] conv").all()
    families, naive = (each["families"] for each in (found, plain))
    told = ["eq_low", "eq_high", "change_se", "change_p", "change_p_adjusted"]
    same = [name for name in families if name not in (*NUMBERS, "p_adjusted", "note", *told)]
    of_changes = families["change"].notna()
    assert set(families.loc[of_changes, "family"]) == {"pair", "group", "emotion"}
    pd.testing.assert_frame_equal(families[same], naive[same])
    assert set(families["family"]) == {"pair", "group", "emotion", "valence", "uplift"}
    assert (families["df"] <= 5).all()
    assert (families["se"] > naive["se"]).mean() > 0.8
    assert families["note"].str.fullmatch("over [3456] conversations: utterances of one are not independent").all()
    # What is not known of conversations is left out, and what could not be tested is in no family.


def test_where_a_dimension_has_no_gap_the_mean_over_dimensions_has_no_interval_either(ratings_of):
    ratings = utterances(ratings_of)
    values = values_of(ratings)
    first = ratings["dimension"].iloc[0]
    values = values.mask((ratings["dimension"] == first).to_numpy())
    found = tables_of(replies_of(ratings), Outcome("recognised", values=values), conversation_of=conversation_of)
    gaps = found["gap"]
    own = gaps.loc[gaps["scope"] == "narratives"].groupby("dimension")["se"].count()
    assert own.drop([first, "all"]).gt(0).all()
    assert gaps.loc[gaps["dimension"].isin([first, "all"]), ["delta", *NUMBERS]].isna().all(axis=None)


def test_the_mean_over_dimensions_is_of_conversations_too(ratings_of):
    """Oracle: δ of both dimensions' contrasts without each conversation, all of four utterances."""
    ratings = utterances(ratings_of)
    tables = tables_of(replies_of(ratings), Outcome("m", values=values_of(ratings)), conversation_of=conversation_of)
    row = gap_of(tables, "m", dimension="all")
    own = ratings.loc[ratings["in_group"].notna()]
    inside = np.eye(5) - 1 / 5
    turns = own.groupby(["narrative_id", "dimension"], sort=False)["intensity"]
    gaps = turns.apply(lambda y: (y.to_numpy(float).reshape(5, 5) * inside).sum() / (inside**2).sum())
    by_conversation = gaps.groupby(gaps.index.get_level_values(0).map(conversation_of)).mean()
    assert row["delta"] == pytest.approx(gaps.mean())
    assert row["se"] == pytest.approx(by_conversation.std(ddof=1) / 6**0.5)
    assert (row["df"], row["n_narratives"], row["n_narratives_asked"]) == (5, 24, 24)


def test_a_family_over_conversations_is_the_one_of_their_means_where_these_have_one_length(ratings_of):
    """Oracle: the families of a corpus with an utterance a conversation, the mean of its utterances."""
    ratings = utterances(ratings_of).query("dimension == 'a'").reset_index(drop=True)
    units = ratings["narrative_id"].map(conversation_of)
    of_pairs = ["perceiver", "experiencer"]
    means = ratings.assign(narrative_id=units, intensity=ratings["intensity"].astype(float))
    means["intensity"] = means.groupby(["narrative_id", *of_pairs])["intensity"].transform("mean")
    means = means.drop_duplicates(["narrative_id", *of_pairs])
    found, wanted = (
        tables_of(replies_of(own), Outcome("m", values=values_of(own)), conversation_of=of)
        for own, of in ((ratings, conversation_of), (means, None))
    )
    changes = ["delta_rest", "change", "change_se", "change_p", "change_p_adjusted"]
    names = ["member", "partner", "delta", *NUMBERS, "p_adjusted", "eq_low", "eq_high", *changes]
    own, other = (
        each["families"].loc[lambda table: table["family"].isin(["pair", "group", "uplift"]), names]
        for each in (found, wanted)
    )
    pd.testing.assert_frame_equal(own.reset_index(drop=True), other.reset_index(drop=True))


def remarks_on(replies, *, source="geneva", files=None, scorers=None):
    return remarks_on_replies(replies, source=source, files=files or {}, scorers=scorers or {})


def test_a_reader_is_told_of_few_conversations(ratings_of):
    replies = replies_of(utterances(ratings_of))
    texts = [remark.text for remark in remarks_on(replies, source="conversations")]
    assert [text[:40] for text in texts] == ["Each δ comes from only 6 conversations. "] * 2
    assert list(remarks_on(replies, source="csv")) == []


STATUSES = ("written", "cut", "empty", "refused", "other_script", "failed")


def with_statuses(ratings_of, statuses=STATUSES):
    """Replies of which every eleventh, from the first, has a status in turn."""
    ratings = ratings_of(cube(np.random.default_rng(8), n=12), GROUPS)
    status = np.full(len(ratings), "written", dtype=object)
    status[::11] = np.resize(statuses, len(status[::11]))
    known = values_of(ratings).where(np.isin(status, ["written", "cut"]))
    return replies_of(ratings).assign(status=status), known


def test_replies_that_are_not_scored_are_missing_and_never_0(ratings_of):
    replies, values = with_statuses(ratings_of)
    between = replies["in_group"].notna()
    scored = replies["status"].isin(["written", "cut"])
    tables = tables_of(replies, Outcome("eq", values=values.dropna()))
    row = gap_of(tables, "eq")
    assert row["estimator"] == "contrast"
    assert row["n_missing"] == (between & ~scored).sum() > 0
    by_model = tables["gap"].query("outcome == 'eq' and estimator == 'mixed' and scope == 'narratives'")
    assert by_model["n_answers"].tolist() == [(between & scored).sum()]
    assert 0 < row["n_answers"] <= (between & scored).sum()
    cells = tables["cells"].set_index(["perceiver", "experiencer"])
    wanted = replies.assign(value=values.to_numpy()).groupby(["perceiver", "experiencer"])["value"]
    assert cells["mean"].to_dict() == pytest.approx(wanted.mean().to_dict())
    assert cells["n_rated"].to_dict() == wanted.count().to_dict()
    assert (cells["n_prompts"] == 12).all()


def test_outcomes_are_counted_and_are_measures_of_their_own(ratings_of):
    replies, _ = with_statuses(ratings_of)
    manifest = Manifest.of({"diversity": True, "absent": {"eq": "not here"}})
    described, measured = measures_of(manifest, replies, pd.DataFrame(columns=["prompt_index", "measure", "value"]))
    assert described["measure"].tolist() == ["dist_1", "dist_2", "refused", "empty", "other_script", "cut", "eq"]
    tables = tables_of(replies, *measured)
    outcomes = tables["reply_outcomes"].set_index("pairs")
    inside = replies["in_group"]
    for pairs, chosen in {
        "in_group": inside.fillna(False), "out_group": ~inside.fillna(True), "baseline": inside.isna(),
        "all": inside.isna() | True,
    }.items():  # fmt: skip
        counts = replies.loc[chosen.astype(bool), "status"].value_counts()
        assert outcomes.loc[pairs, "n_prompts"] == counts.sum() > 0
        for status in ReplyStatus:
            assert outcomes.loc[pairs, f"n_{status}"] == counts.get(str(status), 0)

    asked = replies.loc[replies["status"] != "failed"]
    by_hand = asked.assign(hit=asked["status"] == "refused").groupby(["perceiver", "experiencer"])["hit"].mean()
    cells = tables["cells"].loc[lambda table: table["outcome"] == "refused"]
    assert cells.set_index(["perceiver", "experiencer"])["mean"].to_dict() == pytest.approx(by_hand.to_dict())
    between = replies["in_group"].notna()
    assert gap_of(tables, "refused")["n_missing"] == (between & (replies["status"] == "failed")).sum()


def test_where_no_reply_was_refused_the_gap_of_refusals_is_0_and_has_no_interval(ratings_of):
    replies, _ = with_statuses(ratings_of, ["written"])
    _, measured = measures_of(Manifest.of({}), replies, pd.DataFrame(columns=["prompt_index", "measure", "value"]))
    assert [each.name for each in measured] == ["refused"]
    row = gap_of(tables_of(replies, *measured), "refused")
    assert row["delta"] == 0
    assert np.isnan([row["se"], row["ci_low"], row["p"], row["p_adjusted"], row["delta_sd"]]).all()
    assert row["note"] == "every reply between identities has the same number, 0"


def test_what_few_replies_show_and_what_few_have_a_number_of_is_said(ratings_of):
    rng = np.random.default_rng(1)
    ratings = ratings_of(cube(rng, n=12), GROUPS)
    share, most = (pd.Series(0.0, index=ratings["prompt_index"]) for _ in range(2))
    share.iloc[[1, 40, 80]] = 1.0  # the first, second and third narrative
    most[:] = np.where(rng.random(len(most)) < 0.4, np.nan, rng.normal(size=len(most)))
    tables = tables_of(replies_of(ratings), Outcome("share", values=share), Outcome("most", values=most))
    assert gap_of(tables, "share")["note"] == "only in 3 of 12 narratives do replies differ in it"
    row = gap_of(tables, "most")
    assert row["estimator"] == "contrast"
    between = ratings["in_group"].notna().to_numpy()
    lacking = np.isnan(most.to_numpy()[between]).mean()
    assert f"{lacking:.1%} of the replies have no such number" in row["note"]
    assert row["n_missing"] == np.isnan(most.to_numpy()[between]).sum()


def test_a_number_that_is_not_finite_is_missing(ratings_of):
    ratings = ratings_of(cube(np.random.default_rng(1)), GROUPS)
    values = values_of(ratings)
    scores = pd.DataFrame({"prompt_index": values.index, "measure": "x", "value": values.to_numpy()})
    scores.loc[3, "value"] = np.inf
    measure = {"name": "x", "title": "x", "unit": "", "better": "higher", "source": "", "caution": "", "low": None}
    manifest = Manifest.of({"scorers": {"s": {"facts": {}, "measures": [measure | {"high": None}]}}})
    described, measured = measures_of(manifest, replies_of(ratings), scores)
    row = described.iloc[0]
    known = values.drop(values.index[3])
    assert (row["n_scored"], row["mean"], row["sd"]) == pytest.approx((len(known), known.mean(), known.std(ddof=1)))
    found = gap_of(tables_of(replies_of(ratings), measured[0]), "x")
    wanted = gap_of(tables_of(replies_of(ratings), Outcome("x", values=known)), "x")
    pd.testing.assert_series_equal(pd.Series(found), pd.Series(wanted), check_exact=True)


def test_diversity_is_a_number_of_all_replies_together_and_has_no_gap(ratings_of):
    """Words: a 5, b 3; pairs of words: a b 2, b a, a a. Refused and invented groups' replies are not counted."""
    replies = replies_of(ratings_of(np.zeros((1, 2, 2)), ["Jew", "Sikh"])).assign(text=["a b", "a b", "b a", "a a"])
    invented = replies_of(ratings_of(np.zeros((1, 2, 2)), ["Xan", "Yor"])).assign(text="c", dimension="invented_1")
    both = pd.concat([replies, invented], ignore_index=True)
    manifest = Manifest.of({"diversity": True}).having(placebo=("invented_1",))
    described, measured = measures_of(manifest, both, pd.DataFrame(columns=["prompt_index", "measure", "value"]))
    rows = described.set_index("measure").loc[["dist_1", "dist_2"]]
    assert rows["mean"].tolist() == pytest.approx([2 / 8, 3 / 4])
    assert rows["status"].tolist() == ["described"] * 2
    assert rows["n_scored"].tolist() == [4, 4]
    assert not {"dist_1", "dist_2"} & {outcome.name for outcome in measured}


def one_group(replies):
    return replies.assign(perceiver_group="Jew", experiencer_group="Jew", in_group=True, n_shared=1)


DEGENERATE = {
    "one narrative": lambda replies: replies.loc[replies["narrative_id"] == "n0"],
    "nothing scored": lambda replies: replies.assign(status="refused"),
    "everything failed": lambda replies: replies.assign(status="failed", text=""),
    "one group": lambda replies: one_group(replies.loc[replies["in_group"].notna()]),
    "baselines only": lambda replies: replies.loc[replies["in_group"].isna()],
    "one reply": lambda replies: replies.iloc[:1],
    "no replies": lambda replies: replies.iloc[:0],
    "no words": lambda replies: replies.assign(text="…"),
    "one perceiver": lambda replies: replies.loc[replies["perceiver_group"] == "Jew"],
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_what_can_not_be_estimated_is_a_row_that_says_why(ratings_of, kind):
    """Neither an exception nor a warning, which is an error here."""
    ratings = ratings_of(cube(np.random.default_rng(0), n=6), GROUPS)
    replies = DEGENERATE[kind](replies_of(ratings))
    scored = replies.loc[replies["status"] == "written", "prompt_index"]
    values = values_of(ratings).loc[scored]
    scores = pd.DataFrame({"prompt_index": scored, "measure": "eq", "value": values.to_numpy()})
    described, measured = measures_of(Manifest.of({"diversity": True}), replies, scores)
    tables = tables_of(replies, Outcome("eq", values=values), Outcome("none", values=values * np.nan), *measured)
    gaps = tables["gap"]
    of_status = described.loc[described["status"] == "scored", "measure"]
    assert set(gaps["outcome"]) == ({"eq", "none", *of_status} if len(replies) else set())
    without = gaps.loc[gaps["se"].isna()]
    assert (without["note"] != "").all()
    if kind not in ("no words", "no replies"):
        assert gaps.loc[gaps["outcome"] == "eq", "se"].isna().all()
    list(remarks_on(replies))


def test_a_reader_is_told_of_few_narratives_missing_and_cut_replies_and_of_a_model_that_scores_itself(ratings_of):
    replies, _ = with_statuses(ratings_of, ["refused"])
    files = {"model.safetensors": "aa", "config.json": "bb"}
    other = {"model.safetensors": "cc", "config.json": "bb"}
    codes = [remark.code for remark in remarks_on(replies, files=files, scorers={"own": files, "other": other})]
    assert codes == ["few_narratives", "own_scorer"]  # one in eleven is not many, but for its share between identities
    half = replies.assign(status=np.resize(["cut", "refused"], len(replies)))
    assert {"replies_missing", "replies_cut"} < {remark.code for remark in remarks_on(half)}


def test_a_measure_that_no_reply_has_is_no_error_where_narratives_are_utterances(ratings_of):
    ratings = two_dimensions(ratings_of, np.random.default_rng(2), missing=0)
    ratings["narrative_id"] = [f"talk {int(name[1:]) // 2}:{name}" for name in ratings["narrative_id"]]
    nothing = Outcome("nothing", values=values_of(ratings) * np.nan)
    gaps = tables_of(replies_of(ratings), nothing, conversation_of=conversation_of)["gap"]
    assert set(gaps["dimension"]) == {"religion", "nationality", "all"}
    assert gaps["delta"].isna().all()
    assert (gaps["note"] != "").all()


def test_how_a_wording_tells_its_group_is_a_family_of_any_outcome(ratings_of):
    ratings = ratings_of(cube(np.random.default_rng(2)), GROUPS)
    terms = list(dict.fromkeys(ratings["experiencer"]))
    cues = dict(zip(terms, ["label", "name", "label", "name", "label"], strict=False))
    told = Repetition(cues={"religion": cues})
    wanted = analyse(ratings, scales={"origin": (0.0, 100.0)}, seed=0, settings=SETTINGS, repetition=told)
    wanted = wanted.tables["families"].query("family == 'cue'")
    found = tables_of(replies_of(ratings), Outcome("eq", values=values_of(ratings)), repetition=told)
    found = found["families"].query("family == 'cue'")
    assert found["member"].tolist() == ["label", "name"]
    shared = list(FAMILIES.without(*OUTCOME))
    pd.testing.assert_frame_equal(
        found[shared].reset_index(drop=True), wanted[shared].reset_index(drop=True), check_exact=True
    )
