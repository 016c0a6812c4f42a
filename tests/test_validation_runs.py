"""A measure of a run's replies beside people's planted scores: tables, page, terminal, and labels of no use."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from html import unescape

import numpy as np
import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, command_fixture, read_exactly
from scipy import stats
from test_planted_strategy import Scripted

from audit import open_run
from audit.engines.base import Generated
from audit.people.items import sample_items
from audit.runs.store import RunFolder

pytestmark = pytest.mark.long

WORDS = (
    "task=reply", "model.path=scripted", *FOUR_RELIGIONS, "measures.names=[lexical]", "stimuli.unspecified=false",
    "stimuli.emotions=[sad,happy,worried]", "stimuli.situations_per_emotion=8", "statistics.n_permutations=100",
    "run_dir=run",
)  # fmt: skip
MILDER, GAP = 2.0, 1.0
"""How much higher the planted judge scores replies to Muslims, and people those to their writer's own group."""


class Writer(Scripted):
    """It writes a word that depends on the prompt."""

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(f"word {sha256(bytes(ids)).hexdigest()[:6]}", 3, False) for ids in prompts]


command = command_fixture("validated", Writer)


@pytest.fixture(scope="module")
def planted(command):
    """Replies of a run, as a biased judge scored them in the run, and people, of whom only samples are shown."""
    assert command("run", *WORDS) == 0
    rng = np.random.default_rng(5)
    replies = open_run(command.folder / "run").answers.sort_values("prompt_index")
    level = replies["narrative_id"].astype(str).map({n: rng.normal(0, 1) for n in replies["narrative_id"].unique()})
    own = replies["in_group"].to_numpy(dtype=float)
    people = 5 + level.to_numpy(dtype=float) + GAP * own + rng.normal(0, 1, len(replies))
    judge = people + MILDER * (replies["experiencer_group"] == "Muslim") + rng.normal(0, 0.5, len(replies))
    scores = pd.DataFrame({"prompt_index": replies["prompt_index"], "judge": judge})
    scores.to_csv(command.folder / "scores.csv", index=False)
    assert command("run", *WORDS, "measures.scores=scores.csv") == 0
    return replies.assign(people=people, judge=judge)


def labelled(planted, command, n=200, *, seed=1, raters=2, name="labels.csv", **changes):
    """Write scores of a random sample by some raters, whose mean is people's score; return the file."""
    drawn = planted.sample(n, random_state=seed)
    rows = pd.concat(
        drawn[["prompt_index"]].assign(score=drawn["people"] + 0.3 * (-1) ** k, rater=f"r{k}") for k in range(raters)
    )
    rows.assign(**changes).to_csv(command.folder / name, index=False)
    return name


def validate(command, labels, *more):
    return command("judge", "validate", "run", f"labels={labels}", "measure=scores_judge", *more)


@pytest.fixture(scope="module")
def validated(planted, command):
    """The tables of the run's validation by 200 labelled replies, and its page."""
    assert validate(command, labelled(planted, command)) == 0
    return tables_of(command)


def tables_of(command):
    folder = command.folder / "run" / "validation" / "scores_judge" / "tables"
    return {path.stem: read_exactly(path) for path in folder.glob("*.csv")}


def row_of(table, **values):
    [row] = [row for row in table.to_dict("records") if all(row[name] == each for name, each in values.items())]
    return row


def text_of(page):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_measure_alone_has_the_gap_of_the_run_s_report(validated, command):
    gap = read_exactly(command.folder / "run" / "tables" / "gap.csv")
    own = row_of(gap, outcome="scores_judge", headline=True, scope="narratives", estimator="contrast")
    alone = row_of(validated["corrected_gaps"], gap="delta", estimator="measure")
    assert alone["estimate"] == pytest.approx(own["delta"])
    assert [alone[name] for name in ("se", "df", "ci_low", "ci_high", "p")] == pytest.approx(
        [own[name] for name in ("se", "df", "ci_low", "ci_high", "p")]
    )
    disparity = read_exactly(command.folder / "run" / "tables" / "disparity.csv")
    own = row_of(
        disparity,
        outcome="scores_judge",
        member="Muslim",
        level="group",
        view="all",
        side="experiencer",
        scope="narratives",
    )
    alone = row_of(validated["corrected_gaps"], group="Muslim", estimator="measure")
    assert [alone["estimate"], alone["ci_low"]] == pytest.approx([own["disparity"], own["ci_low"]])


def test_the_judge_s_gap_is_wrong_and_the_corrected_one_is_what_people_s_scores_of_all_replies_show(validated, planted):
    alone, corrected = (
        row_of(validated["corrected_gaps"], group="Muslim", estimator=name) for name in ("measure", "ppi_tuned")
    )
    means = planted.groupby("experiencer_group", observed=True)["people"].mean()
    truth = means["Muslim"] - means.drop("Muslim").mean()
    assert alone["ci_low"] > truth + 1
    assert corrected["ci_low"] < truth < corrected["ci_high"]
    assert corrected["se"] < row_of(validated["corrected_gaps"], group="Muslim", estimator="people")["se"]
    assert (corrected["n_labels"], corrected["n_replies"], corrected["headline"]) == (200, 384, True)
    delta = row_of(validated["corrected_gaps"], gap="delta", estimator="ppi_tuned")
    assert 0 < delta["ci_low"] < GAP < delta["ci_high"]
    assert delta["p_adjusted"] == delta["p"]
    assert corrected["p_adjusted"] >= corrected["p"]


def test_the_group_that_the_judge_is_milder_with_is_named_and_no_other(validated, planted):
    errors = validated["measure_errors"]
    assert dict(zip(errors["group"].fillna(""), errors["code"], strict=True)) == {
        "Muslim": "higher", "Buddhist": "not_shown", "Christian": "not_shown", "Hindu": "not_shown", "": "not_shown",
    }  # fmt: skip
    muslim = row_of(errors, group="Muslim")
    assert [muslim["error"], muslim["difference"]] == pytest.approx([MILDER, MILDER], abs=0.3)
    assert 1 < muslim["ci_low"] < muslim["difference"] < muslim["ci_high"]
    # Perceivers count alike: the mean over them of the mean error.
    own = planted.sample(200, random_state=1).query("experiencer_group == 'Muslim'")
    by_hand = (own["judge"] - own["people"]).groupby(own["perceiver_group"], observed=True).mean().mean()
    assert muslim["error"] == pytest.approx(by_hand)
    assert muslim["n_labels"] == len(own)


def test_agreement_is_of_raters_and_of_their_mean_with_the_measure(validated, planted):
    agreement = validated["agreement"].set_index("question")
    # The two raters differ by 0.6 everywhere, which is little beside replies; the judge is off for a quarter of them.
    assert 0.9 < agreement.loc["raters", "alpha"] < 1
    assert agreement.loc["people and the measure", "alpha"] < agreement.loc["raters", "alpha"] - 0.1
    assert agreement["n_items"].to_list() == [200, 200]
    own = planted.sample(200, random_state=1)
    found = row_of(validated["human_correlations"], emotion="all")
    assert found["rho"] == pytest.approx(stats.spearmanr(own["people"], own["judge"]).statistic)
    assert found["tau"] == pytest.approx(stats.kendalltau(own["people"], own["judge"]).statistic)
    assert found["rho_low"] < found["rho"] < found["rho_high"]


def test_the_page_has_the_numbers_of_the_tables_and_says_no_more(validated, command):
    page = (command.folder / "run" / "validation" / "scores_judge" / "validation.html").read_text("utf-8")
    table = validated["corrected_gaps"]
    for line in table.index[table["headline"]]:
        for name in ("estimate", "ci_low", "ci_high"):
            assert f'data-at="corrected_gaps:{line}:{name}"' in page
    screen = text_of(page.partition('<div class="summary">')[2].partition('<p class="source">')[0])
    assert screen.count("No difference is shown in people's scores") == 3
    assert screen.count("People's scores are higher") == 1
    assert "replies to Muslim (faith) are scored higher than by people, compared with the others" in screen


def test_the_terminal_shows_both_gaps_and_names_the_group(planted, command, capsys):
    capsys.readouterr()
    assert validate(command, labelled(planted, command)) == 0
    said = capsys.readouterr()
    assert "note: 400 scores of 200 replies by 2 raters." in said.err
    assert "replies to Muslim are scored higher than by people" in said.out
    assert said.out.count("are scored higher than by people") == 1
    assert re.search(r"Muslim minus the others +\+2\.", said.out)
    assert "do not look like a random sample" not in said.err


def test_labels_that_chance_did_not_choose_are_named(planted, command, capsys):
    middle = planted["judge"].median()
    chosen = planted.assign(kept=planted["judge"] > middle).query("kept")
    assert validate(command, labelled(chosen, command, 150, name="chosen.csv")) == 0
    said = capsys.readouterr().err
    assert "the labelled replies do not look like a random sample: mean the measure's score" in said
    early = planted.loc[planted["prompt_index"] < 350]
    assert validate(command, labelled(early, command, 200, name="early.csv")) == 0
    table = tables_of(command)["labelled_replies"]
    assert row_of(table, what="place")["p"] < row_of(table, what="score")["p"]


def test_labels_of_the_extremes_are_named_though_their_mean_is_that_of_all(planted, command, capsys):
    middle = planted["judge"] - planted.groupby("experiencer_group", observed=True)["judge"].transform("median")
    far = planted.loc[middle.abs().sort_values().index[-200:]]
    assert validate(command, labelled(far, command, 150, name="far.csv")) == 0
    found = row_of(tables_of(command)["labelled_replies"], what="spread")
    assert found["labelled"] > found["all"] + 0.2
    assert "mean how far the measure's score is from its mean" in capsys.readouterr().err


def test_raters_who_scored_other_groups_are_named(planted, command, capsys):
    """One rater, 2 points more severe, scored all replies to Hindus: people's D of them would be −2."""
    drawn = planted.sample(200, random_state=4)
    of_hindus = drawn["experiencer_group"] == "Hindu"
    rows = drawn[["prompt_index"]].assign(score=drawn["people"] - 2 * of_hindus)
    rows.assign(rater=np.where(of_hindus, "anna", "ben")).to_csv(command.folder / "split.csv", index=False)
    assert validate(command, "split.csv") == 0
    said = capsys.readouterr().err
    assert f"anna scored {of_hindus.sum()} replies to Hindu, and" in said
    rows.assign(rater=np.random.default_rng(1).choice(["anna", "ben"], 200)).to_csv(
        command.folder / "drawn.csv", index=False
    )
    assert validate(command, "drawn.csv") == 0
    assert "Raters scored unlike shares" not in capsys.readouterr().err


def test_scores_of_other_replies_and_scores_on_another_scale_are_told(planted, command, capsys):
    drawn = planted.sample(200, random_state=4)
    rows = drawn[["prompt_index"]].assign(score=drawn["people"].sample(frac=1, random_state=1).to_numpy())
    for name, scores, is_told in (("swapped", rows["score"], True), ("tenth", drawn["people"] / 10, False)):
        rows.assign(score=scores).to_csv(command.folder / f"{name}.csv", index=False)
        assert validate(command, f"{name}.csv") == 0
        said = capsys.readouterr().err
        assert ("The measure is not shown to order replies as people do" in said) == is_told
        assert f"People's scores are {scores.min():.3g} to {scores.max():.3g}, those of scores_judge" in said


def test_replies_without_a_score_are_counted_and_in_no_gap(planted, command, capsys):
    name = labelled(planted, command, raters=1, name="one.csv")
    labels = pd.read_csv(command.folder / name)
    labels.loc[:4, "score"] = np.nan
    labels.to_csv(command.folder / name, index=False)
    assert validate(command, name) == 0
    assert "195 scores of 195 replies by 1 rater" in capsys.readouterr().err
    assert row_of(tables_of(command)["corrected_gaps"], gap="delta", estimator="ppi")["n_labels"] == 195
    assert "ratings of two raters" in tables_of(command)["agreement"].set_index("question").loc["raters", "note"]


def test_an_import_of_people_s_scores_can_be_used_as_it_is(planted, command):
    name = labelled(planted, command, name="ratings.csv", question="empathy")
    table = pd.read_csv(command.folder / name)
    pd.concat([table, table.assign(question="coherence", score=1.0)]).to_csv(command.folder / name, index=False)
    assert validate(command, name, "question=empathy") == 0
    of_import = tables_of(command)["corrected_gaps"]
    assert validate(command, labelled(planted, command)) == 0
    pd.testing.assert_frame_equal(of_import, tables_of(command)["corrected_gaps"])


def test_a_sample_of_people_export_is_weighted_back(planted, command, capsys):
    # Half of its replies are in-group, and a quarter of all.
    drawn = sample_items(planted.assign(narrative=""), n=160, seed=3).key["prompt_index"]
    chosen = planted.loc[planted["prompt_index"].isin(drawn)]
    assert chosen["in_group"].mean() == 0.5
    assert validate(command, labelled(chosen, command, len(chosen), name="squares.csv")) == 0
    assert "do not look like a random sample" not in capsys.readouterr().err
    table = tables_of(command)
    compared = row_of(table["labelled_replies"], what="in_group")
    assert (compared["labelled"], compared["all"]) == (0.5, 0.25)
    delta = row_of(table["corrected_gaps"], gap="delta", estimator="ppi_tuned")
    assert 0 < delta["ci_low"] < GAP < delta["ci_high"]


def test_the_run_stays_as_it_was_and_verifies(validated, command, capsys):
    before = (command.folder / "run" / "manifest.json").read_bytes()
    assert command("verify", "run") == 0
    assert command("report", "run") == 0
    assert (command.folder / "run" / "validation" / "scores_judge" / "validation.html").exists()
    after = (command.folder / "run" / "manifest.json").read_bytes()
    assert json.loads(after)["digest"] == json.loads(before)["digest"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({}, ("measure=judge",), "measure=judge: the run has no such measure"),
        ({}, (), "measure= must say which measure people scored; there are: "),
        ({"prompt_index": "9999"}, ("measure=scores_judge",), "prompt_index '9999' is of no reply of this run"),
        (
            {"reply_sha256": sha256(b"another reply").hexdigest()}, ("measure=scores_judge",),
            "reply_sha256 is not of this run's reply to prompt_index 0: people scored another text",
        ),
        ({"score": "high"}, ("measure=scores_judge",), "score 'high' is not a number"),
        ({"score": "7"}, ("measure=sentiment",), "score 7 is beyond -1 to 1, the scale of sentiment: people"),
        ({"rater": "r"}, ("measure=scores_judge",), "a second score of prompt_index 0 by r (the first: "),
        ({"question": "q"}, ("measure=scores_judge", "question=z"), "labels=wrong.csv has no such question"),
        ({}, ("measure=scores_judge",), "label at least 20 replies, each to another narrative"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_in_one_line(change, more, said, planted, command, capsys):
    rows = pd.DataFrame({"prompt_index": ["0", "0", "1"], "score": ["0", "0.5", "1"], "rater": ["a", "b", "a"]})
    rows.assign(**change).to_csv(command.folder / "wrong.csv", index=False)
    capsys.readouterr()
    assert command("judge", "validate", "run", "labels=wrong.csv", *more) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


def test_labels_with_the_hashes_of_the_run_s_own_replies_are_taken(planted, command):
    with RunFolder(command.folder / "run") as folder:
        replies = folder.read("replies", n_prompts=folder.read_manifest().n_prompts).set_index("prompt_index")
    labels = pd.read_csv(command.folder / "labels.csv")
    texts = replies.loc[labels["prompt_index"], "text"]
    labels.assign(reply_sha256=[sha256(text.encode()).hexdigest() for text in texts]).to_csv(
        command.folder / "hashed.csv", index=False
    )
    assert command("judge", "validate", "run", "labels=hashed.csv", "measure=scores_judge") == 0


def test_replies_that_were_read_from_a_file_are_refused(command, capsys):
    rows = [{"id": k, "group": "AB"[k % 2], "message": f"m{k}", "reply": f"word {k}"} for k in range(40)]
    pd.DataFrame(rows).to_csv(command.folder / "chats.csv", index=False)
    assert command("report", "replies=chats.csv", "run_dir=chats", "measures.names=[lexical]") == 0
    capsys.readouterr()
    assert command("judge", "validate", "chats", "labels=labels.csv", "measure=n_words") == 2
    assert "chats has replies that were read from a file" in capsys.readouterr().err
