"""The judge's own gap: planted, and found by the package's own statistics."""

import re
from dataclasses import replace

import numpy as np
import pytest
from judging import around, draw, opened, shown

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import ConfigError
from audit.statistics.analysis import analyse
from audit.statistics.estimates import summarise_contrasts
from audit.tables.ratings import RATINGS
from audit.tasks.measures.base import Reply
from audit.tasks.reply.judge.own_gap import experiencer_effects, own_gap_ratings, sample_replies
from audit.tasks.reply.judge.rubric import RubricJudge
from stimuli.identities import load_dimensions
from stimuli.rubrics import load_rubric

[_RELIGION] = load_dimensions("geneva", names=["religion"])
_ONE_TERM = tuple({each.group: each for each in reversed(_RELIGION.perceivers)}.values())[::-1]
RELIGION = replace(_RELIGION, perceivers=_ONE_TERM, experiencers=_ONE_TERM)
WRITERS = [identity for identity in RELIGION.perceivers if not identity.is_baseline]
N, BIAS = 40, 0.4
MEASURE = "judge_one_empathy"


def one_criterion():
    rubric = load_rubric("empathy")
    return rubric.model_copy(update={"name": "one", "criteria": {"empathy": rubric.criteria["empathy"]}})


def written(n=N, to="a person"):
    """Replies of each group to each narrative; every one names its writer."""
    return [
        Reply(f"As {w.term} I feel with you, {k}.", f"Story {k}.", f"n{k:02d}", "joy", "religion", w.term, to)
        for k in range(n)
        for w in WRITERS
    ]


def judged(bias, replies=None, *, method="expected", refuses=lambda text: False):
    """Ratings of a judge whose score of a text has a bias(experiencer's term, writer's term), in points."""

    def answer(text):
        experiencer, (story, reply) = shown(text)
        writer = re.match("As (.+) I feel", reply)[1]
        score = 3 + draw(0.3, story) + draw(0.2, reply) + draw(0.1, text)
        score = float(np.clip(score + bias(experiencer.lower(), writer.lower()), 1, 4.99))
        if refuses(text):
            return "I cannot rate this." if method == "generate" else {"I": 1.0}
        return around(score) if method == "expected" else f"{score:.2f}"

    judge = RubricJudge(one_criterion(), opened(answer), "a judge", method)
    ratings = own_gap_ratings(judge, written() if replies is None else replies, RELIGION)
    return judge, ratings


def scales_of(judge):
    return {measure.name: (measure.low, measure.high) for measure in judge.measures}


def gap_of(judge, ratings):
    settings = AnalysisSettings(confidence=0.99, n_permutations=100)
    tables = analyse(ratings, scales=scales_of(judge), seed=0, settings=settings)
    gap = tables.tables["gap"]
    return gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0]


def effect_intervals(ratings):
    [found] = experiencer_effects(ratings)
    intervals = {}
    for place, group in enumerate(found.groups):
        estimate = summarise_contrasts(found.by_narrative[:, place], rounding=1e-12, confidence=0.99, n_answers=1)
        intervals[group] = (estimate.ci_low, estimate.ci_high)
    return found, intervals


def for_its_own(experiencer, writer):
    return BIAS * (experiencer == writer)


def for_muslims(experiencer, writer):
    return BIAS * (experiencer == "a muslim")


def holds(interval, value):
    return interval[0] < value < interval[1]


@pytest.mark.parametrize("method", ["expected", "generate"])
def test_a_planted_gap_of_the_judge_is_recovered_within_its_interval(method):
    judge, ratings = judged(for_its_own, method=method)
    gap = gap_of(judge, ratings)
    assert gap["ci_low"] < BIAS < gap["ci_high"]
    assert gap["ci_high"] - gap["ci_low"] < BIAS  # another amount, such as none or twice it, would not be
    assert (gap["estimator"], gap["n_narratives"], gap["n_answers"]) == ("contrast", N, N * 16)
    # Each experiencer is in-group to one writer of four, so no experiencer stands out.
    _, intervals = effect_intervals(ratings)
    assert all(holds(intervals[group], 0) for group in ("Buddhist", "Christian", "Hindu", "Muslim"))
    assert holds(intervals["unspecified"], -BIAS / 4)


def test_a_planted_leaning_to_one_group_is_an_effect_and_no_gap():
    judge, ratings = judged(for_muslims)
    gap = gap_of(judge, ratings)
    assert gap["ci_low"] < 0 < gap["ci_high"]
    found, intervals = effect_intervals(ratings)
    assert holds(intervals["Muslim"], BIAS * 3 / 4)
    assert all(holds(intervals[group], -BIAS / 4) for group in ("Buddhist", "Christian", "Hindu", "unspecified"))
    effects = found.by_narrative.mean(axis=0)[~found.baseline]
    assert np.ptp(effects) == pytest.approx(BIAS, abs=0.1)
    assert effects.sum() == pytest.approx(0, abs=1e-12)


def test_all_criteria_are_analysed_at_once_each_on_its_own_scale():
    judge = RubricJudge(load_rubric("epitome"), opened(lambda text: around(1 + draw(0.2, text))), "a judge", "expected")
    found = analyse(own_gap_ratings(judge, written(5), RELIGION), scales=scales_of(judge), seed=0)
    assert set(found.tables["gap"]["variant"]) >= {f"judge_epitome_{name}" for name in judge.rubric.criteria}


def test_a_judge_without_leanings_shows_none():
    judge, ratings = judged(lambda experiencer, writer: 0)
    gap = gap_of(judge, ratings)
    assert gap["ci_low"] < 0 < gap["ci_high"]
    found, intervals = effect_intervals(ratings)
    assert all(holds(interval, 0) for interval in intervals.values())
    assert np.ptp(found.by_narrative.mean(axis=0)[~found.baseline]) < BIAS / 4


def test_refusals_are_missing_and_the_planted_gap_is_still_recovered():
    judge, ratings = judged(for_its_own, method="generate", refuses=lambda text: draw(1, "refuse", text) < -1.64)
    refused = ratings["status"] == "refused"
    assert 10 < refused.sum() < 100
    assert ratings.loc[refused, "intensity"].isna().all()
    gap = gap_of(judge, ratings)
    assert gap["estimator"] == "contrast"
    assert gap["ci_low"] < BIAS < gap["ci_high"]
    [found] = experiencer_effects(ratings)
    lacking = ratings.loc[refused].groupby(["narrative_id", "perceiver"]).ngroups
    assert found.n_replies == N * 4 - lacking


def test_replies_of_one_writer_to_each_narrative_show_the_gap_too():
    some = [reply for place, reply in enumerate(written(80)) if place % 4 == place // 4 % 4]
    assert len({reply.narrative_id for reply in some}) == len(some) == 80
    judge, ratings = judged(for_its_own, some)
    gap = gap_of(judge, ratings)
    assert gap["estimator"] == "mixed"  # no narrative has a gap of its own
    assert gap["ci_low"] < BIAS < gap["ci_high"]
    assert gap["ci_low"] > 0


def test_effects_are_the_hand_worked_ones():
    # Two replies of one narrative, experiencers B C H M and "a person". First: 1 2 3 4 and 5: mean of the four 2.5,
    # deviations -1.5 -.5 .5 1.5 and 2.5. Second: 3 3 3 3 and 1: 0 0 0 0 and -2. Their mean: -.75 -.25 .25 .75 and .25.
    scores = {WRITERS[0].term: (1, 2, 3, 4, 5), WRITERS[1].term: (3, 3, 3, 3, 1)}
    order = [identity.term for identity in RELIGION.experiencers]

    def answer(text):
        experiencer, (_, reply) = shown(text)
        place = next(place for place, term in enumerate(order) if term.lower() == experiencer.lower())
        return str(scores[re.match("As (.+) I feel", reply)[1]][place])

    judge = RubricJudge(one_criterion(), opened(answer), "a judge", "generate")
    ratings = own_gap_ratings(judge, [reply for reply in written(1) if reply.perceiver in scores], RELIGION)
    [found] = experiencer_effects(ratings)
    assert found.experiencers == tuple(order)
    assert found.baseline.tolist() == [False] * 4 + [True]
    assert found.by_narrative.tolist() == [pytest.approx([-0.75, -0.25, 0.25, 0.75, 0.25])]
    ratings.loc[0, "intensity"] = np.nan
    ratings.loc[5, "intensity"] = np.nan
    [none] = experiencer_effects(ratings)
    assert (none.n_replies, none.by_narrative.shape) == (0, (0, 5))


def test_the_table_is_that_of_ratings_with_each_reply_shown_to_every_experiencer_unchanged():
    judge, ratings = judged(for_its_own, written(2))
    assert list(ratings.columns) == list(RATINGS)
    assert ratings["prompt_index"].tolist() == list(range(2 * 4 * 5))
    assert set(ratings["variant"]) == {MEASURE}
    rows = ratings.query("narrative_id == 'n00' and perceiver_group == 'Hindu'")
    in_group = dict(zip(rows["experiencer_group"], rows["in_group"], strict=True))
    assert {group: in_group[group] for group in ("Hindu", "Muslim")} == {"Hindu": True, "Muslim": False}
    assert rows["in_group"].isna().tolist() == [False] * 4 + [True]
    read = dict.fromkeys(judge.opened.engine.texts)
    assert len(read) == 2 * 4 * 5
    assert all(
        len({shown(text)[1][1] for text in read if writer.term in text.split("> As")[1]}) == 2 for writer in WRITERS
    )


def test_the_prompts_say_who_wrote_a_reply_only_where_the_reply_does():
    silent = [replace(reply, text=f"I feel with you, {reply.narrative_id}.") for reply in written(1)][:1]
    judge = RubricJudge(one_criterion(), opened(lambda text: "3"), "a judge", "expected")
    own_gap_ratings(judge, silent, RELIGION)
    for text in judge.opened.engine.texts:
        experiencer = shown(text)[0].lower()
        assert not any(w.term.lower() in text.lower() for w in WRITERS if w.term.lower() != experiencer)


def test_a_sample_takes_whole_narratives_and_replies_to_the_unspecified_where_there_are():
    rng = np.random.default_rng(0)
    replies = [*written(6, "a Hindu"), *written(6, "a Muslim"), *written(4), replace(written(1)[0], dimension="x")]
    sample = sample_replies(replies, RELIGION, n_narratives=6, rng=rng)
    to = {reply.narrative_id: reply.experiencer for reply in sample}
    assert {(reply.narrative_id, reply.experiencer) for reply in sample} == set(to.items())  # one for each narrative
    assert [to[f"n0{k}"] for k in range(4)] == ["a person"] * 4
    assert {to["n04"], to["n05"]} <= {"a Hindu", "a Muslim"}
    assert len(sample) == 6 * 4
    few = sample_replies(replies, RELIGION, n_narratives=2, rng=np.random.default_rng(1))
    again = sample_replies(replies[::-1], RELIGION, n_narratives=2, rng=np.random.default_rng(1))
    assert len(few) == 8
    assert few == again[::-1]
    blank = [replace(written(1)[0], text=" ")]
    assert sample_replies(blank, RELIGION, n_narratives=2, rng=rng) == []


def test_a_sample_leaves_out_replies_whose_narrative_names_whom_they_are_to():
    rng = np.random.default_rng(0)
    named = [replace(reply, narrative="I, a Hindu, fell.") for reply in written(3, "a Hindu")]
    assert sample_replies(named, RELIGION, n_narratives=3, rng=rng) == []
    other = [replace(reply, experiencer="a Muslim") for reply in named if reply.narrative_id == "n01"]
    assert sample_replies([*named, *other], RELIGION, n_narratives=3, rng=rng) == other


@pytest.mark.parametrize(
    ("change", "settings", "said"),
    [
        (
            {"perceiver": "a Moslem"},
            {},
            "by 'a Moslem' to narrative 'n00': no perceiver of religion; did you mean 'a Muslim'",
        ),
        ({"text": " "}, {}, "is blank; leave it out"),
        ({"narrative": "I, a Hindu, fell.", "experiencer": "a Hindu"}, {}, "the narrative names 'a Hindu'"),
        ({}, {"shown_as": "a person"}, "shown_as='a person' hides the experiencer"),
    ],
)
def test_what_can_not_tell_of_the_judge_s_gap_is_refused(change, settings, said):
    judge = RubricJudge(one_criterion(), opened(lambda text: "3"), "a judge", "expected", **settings)
    with pytest.raises(ConfigError, match=re.escape(said)):
        own_gap_ratings(judge, [replace(written(1)[0], **change)], RELIGION)
    assert judge.opened.engine.texts == []


def test_two_replies_by_one_writer_and_a_rubric_without_experiencer_are_refused():
    with pytest.raises(ConfigError, match="has two replies; keep one, as sample_replies does"):
        judged(for_its_own, [*written(1), *written(1, "a Hindu")])
    blind = one_criterion().model_copy(update={"user": "{narrative}\n{reply}\n{question} {low} {high}"})
    judge = RubricJudge(blind, opened(lambda text: "3"), "a judge", "expected")
    with pytest.raises(ConfigError, match="rubric one does not show the experiencer"):
        own_gap_ratings(judge, written(1), RELIGION)
