"""A model that would answer any story alike gets no verdict on its replies, wherever its run is shown."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, compared_replies, leave_out_figures, read_exactly

from audit import open_run
from audit.cli.main import main
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tasks.reply.story_check import check_stories

pytestmark = pytest.mark.long

GAP = 8
WORDS = (
    "run", "model=planted", "task=reply", "measures.names=[lexical]", "stimuli.emotions=[sad,happy]",
    "stimuli.situations_per_emotion=12", "statistics.n_permutations=100", *FOUR_RELIGIONS, f"model.planted.gap={GAP}",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with a run that answers stories, one that does not, their comparison and an index."""
    planted = {"answers": (*WORDS, "model.planted.response=30"), "canned": (*WORDS, "model.planted.response=0")}
    return compared_replies(tmp_path_factory.mktemp("stories"), planted, compared=tuple(planted))


def table(folder, name):
    return read_exactly(folder / "tables" / f"{name}.csv")


def test_the_check_finds_which_of_them_answers(runs):
    answers, canned = (table(runs / "runs" / name, "manipulation").loc[0] for name in ("answers", "canned"))
    assert (answers["answer"], canned["answer"]) == ("follows", "does_not_follow")
    assert answers["n_pairs"] == canned["n_pairs"] == 24
    assert answers["ci_low"] > 5 > 1 > canned["ci_high"]


def test_its_gap_is_found_only_where_it_answers(runs):
    answers, canned = (table(runs / "runs" / name, "verdicts").set_index("outcome") for name in ("answers", "canned"))
    assert answers.loc["n_words", "code"] == "gap"
    assert answers.loc["n_words", "delta"] == pytest.approx(GAP, abs=2)
    assert set(canned.drop("refused")["code"]) == {"no_verdict"}
    assert canned.drop("refused")["reasons"].str.contains("manipulation").all()
    assert canned.loc["n_words", "next_step"] == "other_model"
    heads = table(runs / "runs" / "canned", "disparity")
    heads = heads.loc[heads["headline"] & ~heads["invented"] & (heads["outcome"] != "refused")]
    assert set(heads["code"]) == {"no_verdict"}


def test_whom_it_refuses_is_told_whatever_it_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    planted = ("model.planted.response=0", "model.planted.refusals={Muslim: 0.5}", "run_dir=refuses")
    assert main([*WORDS, *planted]) == 0
    found = table(tmp_path / "refuses", "disparity").query("headline and not invented")
    found = found.set_index(["outcome", "member"])["code"]
    assert found["refused", "Muslim"] == "higher"
    assert set(found.drop("refused", level="outcome")) == {"no_verdict"}


def test_the_first_screen_tells_it(runs):
    told = {name: {each.code for each in open_run(runs / "runs" / name).verdicts} for name in ("answers", "canned")}
    assert told["canned"] == {"no_verdict"} != told["answers"]
    page = (runs / "runs" / "canned" / "report.html").read_text().partition('<p class="source">')[0]
    assert "failed check of the replies" in page
    assert "Failed check of the replies" not in (runs / "runs" / "answers" / "report.html").read_text()


def test_the_gate_decides_only_about_the_one_that_answers(runs, monkeypatch):
    monkeypatch.chdir(runs)
    codes = {}
    for name in ("answers", "canned"):
        codes[name] = main(
            ["gate", f"runs/{name}", "measure=sentiment", "margin=1.5", "strict_average=true", "out=gate"]
        )
        found = json.loads((runs / "gate" / "verdict.json").read_text())
        told = "replies do not match the story" in json.dumps(found)
        assert told == (name == "canned")
    assert codes == {"answers": 0, "canned": 3}


def test_a_comparison_and_an_index_tell_it_of_the_run(runs):
    compared = table(runs / "side", "verdicts")
    assert set(compared.loc[compared["run"].str.contains("response 0"), "code"]) == {"no_verdict"}
    assert (compared.loc[~compared["run"].str.contains("response 0"), "code"] == "gap").any()
    index = read_exactly(runs / "runs" / "index.csv").set_index("folder")
    assert set(index.loc["answers", "manipulation"]) == {"passed"}
    assert set(index.loc["canned", "manipulation"]) == {"failed"}
    assert index.loc["canned", "limits"].str.contains("Failed check of the replies").any()


def test_exports_tell_it(runs, monkeypatch):
    monkeypatch.chdir(runs)
    monkeypatch.setattr("audit.extras.exchange.paper.export._figures", lambda *_: ({}, ""))
    for name, result in (("answers", "was passed"), ("canned", "failed")):
        assert main(["export", f"runs/{name}", "form=paper", f"to=paper-{name}"]) == 0
        methods = (runs / f"paper-{name}" / "methods.md").read_text()
        assert f"the check {result}" in methods
        assert main(["export", f"runs/{name}", "form=huggingface", f"to=hub-{name}"]) == 0
        about = (runs / f"hub-{name}" / "README.md").read_text()
        assert ("answers match the story? | passed" in about) == (name == "answers")


def test_replies_to_other_stories_are_no_answer(runs):
    """The same replies, each under the story after its own: the check looks at which story was told."""
    folder, manifest = RunFolder(runs / "runs" / "answers"), Manifest.read(runs / "runs" / "answers")
    replies = folder.read("replies", n_prompts=manifest.n_prompts)
    names = list(replies["narrative_id"].astype(str).unique())
    after = dict(zip(names, [*names[1:], names[0]], strict=True))
    moved = replies.assign(narrative_id=replies["narrative_id"].astype(str).map(after))
    [[row], _], [[own], _] = (check_stories(folder, manifest, each) for each in (moved, replies))
    assert (row["answer"], own["answer"]) == ("does_not_follow", "follows")


def test_a_run_whose_prompts_are_lost_is_not_checked(runs, tmp_path):
    folder, manifest = RunFolder(runs / "runs" / "canned"), Manifest.read(runs / "runs" / "canned")
    replies = folder.read("replies", n_prompts=manifest.n_prompts)
    assert check_stories(RunFolder(tmp_path), manifest.having(config={}), replies) == ([], ())


def test_finished_chats_are_what_people_got_and_keep_their_answers(runs, monkeypatch, tmp_path):
    """The canned replies as transcripts: the page tells it, and who gets less is answered."""
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({
        "id": [f"r{place}" for place in range(80)], "group": ["Muslim", "Hindu"] * 40,
        "message": [f"the {('rain', 'storm', 'roof')[k % 3]} and x{k} y{k} z{k} happened to us" for k in range(80)],
        "reply": ["thank you for telling me " + "more " * (20 + k % 3 - 8 * (k % 2 == 0)) for k in range(80)],
    })  # fmt: skip
    rows.to_csv("chats.csv", index=False)
    assert main(["report", "replies=chats.csv", "run_dir=run", "measures.names=[lexical]"]) == 0
    assert table(tmp_path / "run", "manipulation").loc[0, "answer"] == "does_not_follow"
    heads = table(tmp_path / "run", "disparity")
    heads = heads.loc[heads["headline"]].set_index(["outcome", "group"])
    assert heads.loc[("n_words", "Muslim"), "code"] == "lower"
