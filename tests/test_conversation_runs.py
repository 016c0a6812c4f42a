"""Whole runs on a user's corpus of conversations: emotions recognised and causes found, by identity."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, as_stored, of_before

from audit.runs.store import RunFolder
from audit.tasks.reply.scoring import read_scores, write_scores

SAID = {"joy": "I got the job!", "anger": "He took my bike again.", "sadness": "She has moved away."}


@pytest.fixture
def corpus(tmp_path):
    rows = []
    for number in range(6):
        label = list(SAID)[number % 3]
        rows.append([f"c{number}", 1, "Ann", "How was your week?", "", "", ""])
        rows.append([f"c{number}", 2, "Bob", SAID[label], label, "Hindu" if number % 2 else "Muslim", SAID[label]])
    columns = ["conversation_id", "turn", "speaker", "text", "emotion", "who", "why"]
    path = tmp_path / "corpus.csv"
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


def overrides(model, corpus, run, *more):
    return [
        "engine=transformers", "engine.device=cpu", f"model.path={model}", "model.dtype=float32",
        "stimuli=conversations", f"stimuli.path={corpus}", "stimuli.conversations.identity=who",
        "stimuli.situations_per_emotion=all",
        *FOUR_RELIGIONS, "stimuli.unspecified=false", "shard_size=64", f"run_dir={run}", *more,
    ]  # fmt: skip


def tables_of(run):
    return {path.stem: pd.read_csv(path) for path in (run / "tables").glob("*.csv")}


def test_emotions_are_recognised_by_perceiver_experiencer_and_the_speakers_own_identity(
    audit, make_model, corpus, tmp_path
):
    assert audit("run", *overrides(make_model(says="anger"), corpus, "run", "task=emotion")) == 0
    tables = tables_of(tmp_path / "run")
    recognition = tables["recognition"].set_index(["by", "level"])
    everything = recognition.loc["all"].iloc[0]
    assert everything["n"] == 6 * 4 * 4
    assert everything["accuracy"] == pytest.approx(1 / 3)
    assert everything["unreadable"] == 0
    # anger: precision 1/3, recall 1, F1 1/2; the two others 0
    assert everything["macro_f1"] == pytest.approx(1 / 6)
    assert set(recognition.loc["speaker"].index) == {"Hindu", "Muslim"}
    assert set(recognition.loc["pairs"].index) == {"in_group", "out_group"}
    measures = tables["measures"].set_index("measure")
    assert measures.loc["recognised", "mean"] == pytest.approx(1 / 3)
    assert "n_words" not in measures.index
    with RunFolder(tmp_path / "run") as folder:
        manifest = folder.read_manifest()
    assert "anger, joy or sadness" in manifest.example_prompt.system
    assert "Person B: " in manifest.example_prompt.user
    assert "Bob" not in json.dumps(manifest.example_prompt.content)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run" / "tables").iterdir()}
    corpus.rename(tmp_path / "elsewhere.csv")
    assert audit("report", "run") == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "run" / "tables").iterdir()} == before
    (of_before(tmp_path / "run") / "corpus.json").unlink()
    assert audit("report", "run") == 0
    assert "The run folder has no corpus.json" in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "run" / "corpus.json").write_text("[]")
    as_stored(tmp_path / "run")
    assert audit("report", "run") == 2


def test_synonyms_are_read_as_their_label_and_are_no_other_run(audit, make_model, corpus, tmp_path):
    given = overrides(make_model(says="rage"), corpus, "run", "task=emotion")
    assert audit("run", *given) == 0
    assert tables_of(tmp_path / "run")["recognition"]["unreadable"].eq(1).all()
    assert audit("run", *given, "stimuli.conversations.synonyms={anger: [rage, fury]}") == 0
    tables = tables_of(tmp_path / "run")
    assert tables["recognition"]["unreadable"].eq(0).all()
    assert tables["measures"].set_index("measure").loc["recognised", "mean"] == pytest.approx(1 / 3)


def test_utterances_of_a_conversation_are_not_taken_for_independent(audit, make_model, corpus, tmp_path):
    said = pd.read_csv(corpus)
    said["conversation_id"] = said["conversation_id"].str[1:].astype(int) // 2
    said["turn"] = range(len(said))
    said["speaker"] += said["turn"].astype(str)
    said.to_csv(corpus, index=False)
    assert audit("run", *overrides(make_model(says="anger"), corpus, "run", "task=emotion")) == 0
    with RunFolder(tmp_path / "run") as folder:
        scores = read_scores(folder)
        scores["value"] = np.random.default_rng(1).random(len(scores))  # in place of answers that are all the same
        for number, own in scores.groupby(scores["prompt_index"] // 64):
            write_scores(folder, "recognition", number, own, {})
    assert audit("report", "run") == 0
    gaps = tables_of(tmp_path / "run")["gap"].set_index(["outcome", "estimator", "scope"])
    row = gaps.loc[("recognised", "contrast", "narratives")]
    assert (row["n_narratives"], row["df"]) == (6, 2)
    assert row["note"] == "over 3 conversations: utterances of one are not independent"
    assert "Each δ comes from only 3 conversations" in (tmp_path / "run" / "report.html").read_text()


def test_causes_are_held_against_the_marked_words(audit, make_model, corpus, tmp_path):
    more = ("task=cause", "stimuli.conversations.cause=why", "stimuli.emotions=[joy]")
    assert audit("run", *overrides(make_model(says="I got"), corpus, "run", *more)) == 0
    measures = tables_of(tmp_path / "run")["measures"].set_index("measure")
    assert measures.loc["cause_em", "mean"] == 0
    # of "I got (the) job", without the article: precision 1, recall 2/3
    assert measures.loc["cause_f1", "mean"] == pytest.approx(0.8)
    causes = tables_of(tmp_path / "run")["recognition_causes"].set_index(["by", "level"])
    assert causes.loc[("all", "all"), ["exact", "f1", "f1_marked"]].tolist() == pytest.approx([0, 0.8, 0.8])
    assert causes.loc[("all", "all"), ["n", "n_marked", "n_unmarked", "n_conversations"]].tolist() == [32, 32, 0, 2]
    assert {"Hindu", "Muslim"} == set(causes.loc["speaker"].index)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "How well causes are found" in page


def test_each_possible_cause_is_asked_about_as_in_reccon(audit, make_model, corpus, tmp_path):
    said = pd.read_csv(corpus).assign(why=["", "1||2"] * 3 + ["", "none"] * 3)
    said.to_csv(corpus, index=False)
    more = ("task=entailment", "stimuli.conversations.evidence=why")
    assert audit("run", *overrides(make_model(says="Yes"), corpus, "run", *more)) == 0
    tables = tables_of(tmp_path / "run")
    row = tables["recognition_entailment"].set_index(["by", "level"]).loc[("all", "all")]
    # 6 targets with 2 possible causes each, 16 pairs of identities; both are causes in 3 conversations
    assert row[["n", "n_causes", "n_said", "n_unreadable", "n_conversations"]].tolist() == [192, 96, 192, 0, 6]
    assert row[["precision", "recall", "f1", "f1_negative", "macro_f1"]].tolist() == pytest.approx(
        [1 / 2, 1, 2 / 3, 0, 1 / 3]
    )
    measures = tables["measures"].set_index("measure")["mean"]
    assert measures[["cause_confirmed", "cause_denied", "entailment_unreadable"]].tolist() == [1, 0, 0]
    gaps = tables["gap"].set_index(["outcome", "estimator", "scope"])
    assert gaps.loc[("entailment_right", "contrast", "narratives"), "delta"] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "How well causes are recognised" in page
    with RunFolder(tmp_path / "run") as folder:
        prompt = folder.read_manifest().example_prompt
    assert "The possible cause is line 1." in prompt.user


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["task=emotion", "stimuli.source=geneva", "stimuli.path=null"],
            "give stimuli=conversations stimuli.path=FILE",
        ),
        (["task=entailment"], "needs a column with the turns of the causes: stimuli.conversations.evidence=COLUMN"),
        (
            ["task=entailment", "stimuli.conversations.evidence=why", "stimuli.conversations.shown=speaker"],
            "shown=speaker: task=entailment asks about a conversation, in which the model takes no part",
        ),
        (["task=cause"], "needs a column of causes: stimuli.conversations.cause=COLUMN"),
        (
            ["task=emotion", "strategy=two-stage-oracle"],
            "strategy two-stage-oracle, or task.user, reveals the emotion",
        ),
        (["task=emotion", "stimuli.path=null"], "stimuli=conversations needs stimuli.path"),
        (["task=emotion", "stimuli.conversations.speaker=whom"], "no column 'whom' (for speaker)"),
        (["task=emotion", "stimuli.conversations.synonyms={happy: [glad]}"], "'happy' is not an emotion in"),
    ],
)
def test_what_can_not_be_asked_is_said_before_the_model_is_loaded(more, said, audit, corpus, capsys):
    assert audit("run", *overrides("no/model", corpus, "run", *more)) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_model_that_always_says_yes_or_one_label_is_told_to_guess(audit, make_model, corpus, tmp_path, capsys):
    said = pd.read_csv(corpus).assign(why=["", "1||2"] * 3 + ["", "none"] * 3)
    said.to_csv(corpus, index=False)
    more = ("task=entailment", "stimuli.conversations.evidence=why")
    assert audit("run", *overrides(make_model(says="Yes"), corpus, "yes", *more)) == 0
    page = (tmp_path / "yes" / "report.html").read_text()
    assert "Yes is not shown to be said more often of causes than of other utterances" in page
    assert "To say yes of all has F1 0.67 of causes" in page  # half of the utterances are causes: 2 · ½ / (1 + ½)
    assert "answers no better than guesses" in capsys.readouterr().out
    assert audit("run", *overrides(make_model(says="anger"), corpus, "label", "task=emotion")) == 0
    page = (tmp_path / "label" / "report.html").read_text()
    assert "Answers are not shown to be right more often than" in page
