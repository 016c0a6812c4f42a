"""Replies that were read from a file: what is planted is found, what only messages differ by is not, and bad files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import command_fixture, read_exactly
from test_reply_disparity import WORDS as ASKED
from test_reply_disparity import Writer

from audit import open_run
from audit.__main__ import main
from audit.asking.conversations import narratives_of
from audit.extras.exchange.paper.figures import PaperFigures
from audit.runs.manifest import Manifest
from audit.tasks.reply.observed import Observed
from audit.tasks.transcripts import read_transcripts

pytestmark = pytest.mark.long

GROUPS = ("Muslim", "Hindu", "Jewish", "Christian")
FILLER = ("day", "work", "rain", "table", "window", "street", "phone", "letter", "walk", "garden")
LEXICAL = "measures.names=[lexical]"
command = command_fixture("observed", lambda: Writer(shorter={"Muslim": 8}, declined={"Hindu": 0.2}))


def transcripts(*, shorter=0, colder=False, longer_messages=0, n=240, seed=1) -> pd.DataFrame:
    """Replies of about half the length of their messages, in conversations of two: what is planted is for Muslims."""
    rng = np.random.default_rng(seed)
    group = rng.choice(GROUPS, n)
    first = group == "Muslim"
    length = rng.integers(10, 60, n) + longer_messages * first
    written = np.round(20 + 0.5 * length + rng.normal(0, 3, n)).astype(int) - shorter * first
    ends = [rng.choice(["terrible", "bad"] if colder and own else ["good", "bad", "sad", "fine"]) for own in first]

    def text(k: int) -> str:
        return " ".join(rng.choice(FILLER, k))

    return pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(n)], "conversation": [f"c{k // 2}" for k in range(n)], "group": group,
            "message": [text(k) for k in length],
            "reply": [f"{text(k - 1)} {end}" for k, end in zip(written, ends, strict=True)],
        }
    )  # fmt: skip


@pytest.fixture
def audit(tmp_path, monkeypatch):
    """Write a table and report it: returns the exit code, and the heads of its disparities by measure and group."""
    monkeypatch.chdir(tmp_path)

    def report(rows: pd.DataFrame, *words: str):
        rows.to_csv("replies.csv", index=False)
        shutil.rmtree("run", ignore_errors=True)
        assert main(["report", "replies=replies.csv", "run_dir=run", LEXICAL, *words]) == 0
        return heads_of("run")

    return report


def heads_of(run, view="no_persona") -> pd.DataFrame:
    table = read_exactly(f"{run}/tables/disparity.csv")
    return table.loc[table["headline"] & (table["view"] == view)].set_index(["outcome", "group"])


def named(heads: pd.DataFrame) -> set[tuple[str, str, str]]:
    found = heads.loc[heads["code"].isin(["lower", "higher"])]
    return {(*key, code) for key, code in found["code"].items()}


def first_screen() -> str:
    page = Path("run/report.html").read_text("utf-8")
    return page.partition('<div class="summary">')[2].partition('<p class="source">')[0]


def test_shorter_replies_are_found_and_said_to_be_observational(audit, capsys):
    heads = audit(transcripts(shorter=8))
    assert named(heads) == {("n_words", "Muslim", "lower")}
    muslim = heads.loc[("n_words", "Muslim")]
    assert (muslim["claim"], muslim["estimator"]) == ("observational", "adjusted")
    assert "observational" in muslim["limits"]
    assert muslim["ci_low"] < -8 < muslim["ci_high"]
    assert muslim["n_narratives"] == 240
    assert "Observational: lower for <bdi>Muslim</bdi>" in first_screen()
    assert "Observational: lower for Muslim" in capsys.readouterr().out
    for measure in ([], ["measure=sentiment"]):  # nobody chose who writes what, so nobody is accused
        assert main(["gate", "run", "margin=0.2", *measure]) == 2
        assert "replies that were read from a file" in capsys.readouterr().err


def test_an_export_says_that_replies_were_read_and_are_observational(audit):
    audit(transcripts(shorter=8))
    assert main(["export", "run", "form=huggingface", "to=hub"]) == 0
    about = Path("hub/README.md").read_text("utf-8")
    assert "240 replies read from a file: nothing was asked by this tool; OBSERVATIONAL" in about
    assert "prompts were asked" not in about


def test_a_paper_does_not_say_that_replies_of_a_file_were_asked_for(audit, monkeypatch):
    monkeypatch.setattr("audit.extras.exchange.paper.figures.draw_for_journal", lambda *_, **__: PaperFigures({}, {}))
    audit(transcripts(shorter=8))
    assert main(["export", "run", "form=paper", "to=paper"]) == 0
    text = Path("paper/methods.md").read_text("utf-8")
    assert "The texts were not collected by us: another tool did so, and we read its table." in text
    for claim in ("was asked to", "In each prompt", "It was asked", "The wording of the prompts", "with seed"):
        assert claim not in text


def test_scores_of_a_file_are_of_the_reply_in_that_place(audit, tmp_path):
    rows = transcripts(n=240)
    given = pd.DataFrame({"prompt_index": range(len(rows)), "text": rows["reply"], "warmth": range(len(rows))})
    given.iloc[::-1].to_csv("scores.csv", index=False)
    rows.to_csv("replies.csv", index=False)
    assert (
        main(["report", "replies=replies.csv", "run_dir=run", "measures.names=[]", "measures.scores=scores.csv"]) == 0
    )
    scores = pd.concat(map(pd.read_parquet, Path("run/scores/scores").glob("*.parquet")))
    own = scores.set_index("prompt_index")["value"]
    assert own.tolist() == own.index.tolist() == list(range(240))


def test_colder_replies_are_found_in_their_measure_alone(audit):
    heads = audit(transcripts(colder=True))
    assert named(heads) == {("sentiment", "Muslim", "lower")}


def test_longer_messages_of_one_group_are_no_finding_and_would_be_one_without_covariates(audit, monkeypatch):
    rows = transcripts(longer_messages=30)
    assert named(audit(rows)) == set()
    monkeypatch.setattr("audit.tasks.reply.observed.Observed._base", lambda self: pd.DataFrame(index=self.told.index))
    own = rows.assign(message=rows["id"])  # nor is the same measure of the message left
    own.to_csv("replies.csv", index=False)
    assert main(["report", "replies=replies.csv", "run_dir=plain", LEXICAL]) == 0
    assert ("n_words", "Muslim", "higher") in named(heads_of("plain"))


def test_copies_of_chats_are_no_further_chats(audit):
    """A difference that 40 chats do not show is not shown by eight copies of each."""
    rows = transcripts(n=40, seed=11).drop(columns="conversation")
    copies = pd.concat([rows.assign(id=rows["id"] + f"-{k}") for k in range(8)])
    assert named(audit(copies)) == set()
    assert "280 of the chats repeat the messages of an earlier one" in Path("run/report.html").read_text("utf-8")


def test_a_message_that_is_sent_again_is_no_other_message(audit, tmp_path):
    """Three messages, 20 times each: how replies to these differ is no finding about messages."""
    TERMS.to_csv("groups.csv", index=False)
    rows = pd.concat([
        matched(n=3, seed=seed, **{group: 3 * place for place, group in enumerate(GROUPS)}).assign(
            match_id=lambda own, seed=seed: own["match_id"] + f"-{seed}"
        )
        for seed in range(20)
    ])  # fmt: skip
    assert named(audit(rows, "groups=groups.csv")) == set()
    assert read_transcripts(tmp_path / "replies.csv", tmp_path / "groups.csv").rows["conversation"].nunique() == 3
    heads = audit(matched(n=60, Hindu=9), "groups=groups.csv")  # as many other messages are a finding
    assert ("n_words", "Hindu", "lower") in named(heads)


def test_a_group_of_one_user_shows_nothing_of_the_group(audit):
    rows = transcripts(shorter=8)
    alone = rows["conversation"].where(rows["group"] != "Muslim", "one Muslim")
    assert named(audit(rows.assign(conversation=alone))) == set()
    notes = read_exactly("run/tables/disparity.csv").query("view == 'no_persona' and outcome == 'n_words'")["note"]
    assert notes.str.contains("all replies to some group are of one conversation").any()


def test_a_system_prompt_that_one_group_meets_more_often_is_adjusted_for(audit):
    rows = transcripts()
    brief = np.random.default_rng(5).random(len(rows)) < np.where(rows["group"] == "Muslim", 0.8, 0.2)
    rows["reply"] = rows["reply"].where(~brief, rows["reply"].str.split().str[8:].str.join(" "))
    told = rows.assign(system=np.where(brief, "Be brief.", "Be kind."))
    assert named(audit(told)) == set()
    assert "the system prompt. Other differences" in Path("run/report.html").read_text("utf-8")
    # prompts that name each user cannot be adjusted for, nor can words for a date
    unique = told.assign(system=told["system"] + told["id"], date=told["system"])
    assert ("n_words", "Muslim", "lower") in named(audit(unique))
    assert "message and the same measure of the message. Other" in Path("run/report.html").read_text("utf-8")
    rows.to_csv("replies.csv", index=False)
    assert main(["report", "replies=replies.csv", "run_dir=untold", LEXICAL]) == 0
    assert ("n_words", "Muslim", "lower") in named(heads_of("untold"))


def test_what_replies_are_adjusted_for():
    n = 60
    told = pd.DataFrame(
        {
            "prompt_index": range(n), "message": ["one two three"] * n, "model": ["m"] * n,
            "system": ["a"] * 30 + ["b"] * 20 + ["c"] * 5 + ["d"] * 5,
            "date": ["2026-01-01", "2026-01-03T12:00:00+00:00", ""] + ["2026-01-02"] * (n - 3),
        },
        index=[f"r{k}" for k in range(n)],
    )  # fmt: skip
    base = Observed(Manifest.of({}), told)._base()
    assert list(base) == ["words", "log_words", "system_0", "system_1", "days", "no_days"]
    assert base.loc["r0", ["words", "log_words"]].tolist() == [3, pytest.approx(np.log(4))]
    # c and d are rare, and count together with what is left
    assert base[["system_0", "system_1"]].drop_duplicates().to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]
    assert base["days"].iloc[1] - base["days"].iloc[0] == 2.5
    assert base["no_days"].to_numpy().nonzero()[0].tolist() == [2]


def test_replies_that_were_asked_for_have_the_same_disparities_when_they_are_read_back(command):
    """To the last digit: the same replies, told apart by narrative, as another tool would have kept them."""
    assert command("run", *ASKED, "run_dir=asked", "stimuli.placebo=0") == 0
    run = command.folder / "asked"
    manifest, replies = Manifest.read(run), open_run(run).answers
    messages = narratives_of(run, manifest)
    rows = replies.rename(columns={"narrative_id": "match_id", "text": "reply"}).astype(object)
    rows["message"] = [messages[name] for name in rows["match_id"]]
    kept = ["match_id", "dimension", "variant", "emotion", "perceiver", "experiencer", "message", "reply", "status"]
    rows[kept].to_csv(command.folder / "back.csv", index=False)
    stems = {term: stem for of in manifest.stems.values() for term, stem in of.items()}
    groups = rows[["experiencer", "experiencer_group"]].set_axis(["term", "group"], axis=1).drop_duplicates()
    groups.assign(stem=groups["term"].map(stems)).to_csv(command.folder / "groups.csv", index=False)
    assert command("report", "replies=back.csv", "groups=groups.csv", "run_dir=back", LEXICAL,
                   "statistics.n_permutations=100") == 0  # fmt: skip
    asked, back = (read_exactly(command.folder / name / "tables" / "disparity.csv") for name in ("asked", "back"))
    assert len(asked) > 100
    assert (asked["claim"] == "words").any()
    pd.testing.assert_frame_equal(asked, back, check_exact=True)
    gaps = [read_exactly(command.folder / name / "tables" / "gap.csv") for name in ("asked", "back")]
    pd.testing.assert_frame_equal(*gaps, check_exact=True)


def matched(*, n=40, change=lambda message, group: message, seed=2, **shorter) -> pd.DataFrame:
    """n messages, each from every group and with replies of 20 to 39 words."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "match_id": f"m{k}", "experiencer": f"a {group}",
            "message": change(f"As a {group}, I lost my {FILLER[k % 10]} number {k}.", group),
            "reply": " ".join(rng.choice(FILLER, rng.integers(20, 40) - shorter.get(group, 0))),
        }
        for k in range(n) for group in GROUPS
    )  # fmt: skip


TERMS = pd.DataFrame({"term": [f"a {group}" for group in GROUPS], "group": GROUPS})


def test_matches_that_differ_only_in_the_group_are_no_observation(audit, tmp_path):
    TERMS.to_csv("groups.csv", index=False)
    heads = audit(matched(Hindu=9), "groups=groups.csv")
    hindu = heads.loc[("n_words", "Hindu")]
    assert (hindu["code"], hindu["claim"], hindu["estimator"]) == ("lower", "words", "contrast")
    assert "Observational" not in first_screen()


def test_matches_whose_messages_differ_are_observational(audit):
    TERMS.to_csv("groups.csv", index=False)
    heads = audit(
        matched(Hindu=9, change=lambda text, group: text + " Help!" * (group == "Hindu")), "groups=groups.csv"
    )
    assert heads.loc[("n_words", "Hindu"), "claim"] == "observational"
    assert "In 40 of 40 matches" in Path("run/report.html").read_text("utf-8")


def test_matches_that_were_asked_on_other_days_are_observational(audit):
    """All that one group got is of another month; some minutes, or a night, are no reason."""
    TERMS.to_csv("groups.csv", index=False)
    for late, claim in (("2026-05-01T00:10:00Z", "words"), ("2026-06-01T00:10:00Z", "observational")):
        rows = matched(Hindu=9).assign(date="2026-04-30T23:50:00Z")
        rows.loc[rows["experiencer"] == "a Hindu", "date"] = late
        assert audit(rows, "groups=groups.csv").loc[("n_words", "Hindu"), "claim"] == claim


def test_the_page_tells_if_nothing_in_the_file_tells_the_model_the_group(audit):
    TERMS.to_csv("groups.csv", index=False)
    for text, is_told in (("A {} lost number {}.", True), ("I lost number {1}.", False)):
        change = lambda message, group, text=text: text.format(group, message.split()[-1])  # noqa: E731
        audit(matched(change=change), "groups=groups.csv")
        page = Path("run/report.html").read_text("utf-8")
        assert ("In 40 of 40 matches all groups have the same messages" in page) == (not is_told)


def test_a_system_prompt_that_tells_the_group_is_no_other_system_prompt(audit):
    TERMS.to_csv("groups.csv", index=False)
    rows = matched(Hindu=9)
    rows["system"] = "The user is " + rows["experiencer"] + "."
    assert audit(rows, "groups=groups.csv").loc[("n_words", "Hindu"), "claim"] == "words"


def test_an_incomplete_match_is_used_for_what_it_has(audit):
    TERMS.to_csv("groups.csv", index=False)
    rows = matched(Hindu=9)
    heads = audit(rows.drop(index=[1, 6, 11]), "groups=groups.csv")
    hindu = heads.loc[("n_words", "Hindu")]
    assert (hindu["code"], hindu["estimator"]) == ("lower", "pairs")
    assert "many_missing" not in hindu["limits"]


def test_a_conversation_that_holds_several_matches_makes_them_one_unit(tmp_path):
    rows = matched(n=6).assign(conversation=lambda own: own["match_id"])
    rows.loc[rows["match_id"] == "m1", "conversation"] = "m0"
    rows.to_csv(tmp_path / "r.csv", index=False)
    TERMS.to_csv(tmp_path / "g.csv", index=False)
    read = read_transcripts(tmp_path / "r.csv", tmp_path / "g.csv").rows
    units = read.groupby("narrative_id")["conversation"].unique().map(list)
    assert units.to_dict() == {f"m{k}": [f"m{max(k, 1) if k > 1 else 0}"] for k in range(6)}


def test_a_reply_that_declines_is_an_outcome_and_missing_in_the_others(audit):
    rows = transcripts()
    declined = rows.index[rows["group"] == "Hindu"][::2]
    rows.loc[declined, "reply"] = "I'm sorry, but I can't help with that."
    heads = audit(rows)
    assert ("refused", "Hindu", "higher") in named(heads)
    assert heads.loc[("refused", "Hindu"), "claim"] == "observational"
    words = heads.loc[("n_words", "Hindu")]
    assert words["worst_low"] < words["ci_low"] < words["ci_high"] < words["worst_high"]


# --- Other forms of files --------------------------------------------------------------------------------------------


def chat(*turns: str, system: str = "", **more: object) -> dict:
    """One conversation, user first."""
    said = [{"role": "system", "content": system}] if system else []
    said += [{"role": ("user", "assistant")[k % 2], "content": text} for k, text in enumerate(turns)]
    return {"messages": said, **more}


def write_lines(path, *lines: object) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


def test_conversations_are_read_turn_by_turn_and_groups_from_what_was_said_so_far(tmp_path):
    write_lines(
        tmp_path / "log.jsonl",
        chat("Hello", "Hi!", "I am a Muslim and I lost a friend.", "I am so sorry.", "Thanks", "Any time.", id="x",
             system="Be kind."),
        chat([{"type": "text", "text": "My Hindu neighbour, a Muslim, moved."}], "Oh.", id="y"),
        chat("I am a HINDU.", "Welcome.", metadata={"model": "tiny", "date": "2026-01-02"}),
    )  # fmt: skip
    pd.DataFrame({"term": ["a Muslim", "Hindu"], "group": ["Muslim", "Hindu"]}).to_csv(tmp_path / "g.csv", index=False)
    found = read_transcripts(tmp_path / "log.jsonl", tmp_path / "g.csv")
    rows = found.rows
    assert rows["id"].tolist() == ["x:2", "x:3", "3"]  # nothing was told before the second turn; y tells two groups
    assert found.n_untold == 2
    assert rows["experiencer_group"].tolist() == ["Muslim", "Muslim", "Hindu"]
    assert rows["message"].tolist()[1:] == ["Thanks", "I am a HINDU."]
    assert rows["conversation"].nunique() == 2
    assert rows.loc[2, ["model", "date"]].tolist() == ["tiny", "2026-01-02"]
    assert rows.loc[0, "system"] == "Be kind."


def test_columns_may_have_other_names(tmp_path):
    rows = transcripts(n=8).rename(columns={"message": "User text", "reply": "Answer", "group": "Faith"})
    rows.to_csv(tmp_path / "r.csv", index=False, sep=";")
    columns = {"message": "User text", "reply": "Answer", "group": "Faith"}
    read = read_transcripts(tmp_path / "r.csv", None, columns=columns).rows
    assert read["experiencer_group"].tolist() == rows["Faith"].tolist()
    assert read["reply"].tolist() == rows["Answer"].tolist()


def test_a_log_of_inspect_is_read(tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ModelOutput

    def sample(k: int, group: str) -> EvalSample:
        output = ModelOutput.from_content("tiny", f"Reply {k}.", stop_reason="max_tokens" if k == 1 else "stop")
        asked = [ChatMessageSystem(content="Be kind."), ChatMessageUser(content=f"Message {k}")]
        return EvalSample(
            id=k, epoch=1, input="", target="", messages=[*asked, output.choices[0].message], output=output,
            metadata={"group": group},
        )  # fmt: skip

    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="chat", dataset=EvalDataset(), model="tests/tiny", config=EvalConfig()
    )
    made = EvalLog(eval=spec, status="success", samples=[sample(1, "Muslim"), sample(2, "Hindu")])
    log.write_eval_log(made, str(tmp_path / "log.eval"))
    rows = read_transcripts(tmp_path / "log.eval", None).rows
    kept = rows[["id", "experiencer_group", "message", "reply", "system", "model", "status"]].to_numpy().tolist()
    assert kept == [
        ["1", "Muslim", "Message 1", "Reply 1.", "Be kind.", "tests/tiny", "cut"],
        ["2", "Hindu", "Message 2", "Reply 2.", "Be kind.", "tests/tiny", ""],
    ]


def test_what_a_file_holds_is_shown_as_text(audit):
    evil = "<img src=x onerror=alert(1)>"
    rows = transcripts(shorter=8).replace({"group": {"Muslim": evil}})
    rows["message"] = rows["message"] + evil
    rows["reply"] = rows["reply"] + evil
    audit(rows, f"model={evil}")
    page = Path("run/report.html").read_text("utf-8")
    assert evil not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") > 5


def test_a_finished_folder_is_analysed_again_without_its_file(audit, tmp_path):
    heads = audit(transcripts(shorter=8))
    (tmp_path / "replies.csv").unlink()
    assert main(["report", "run", "statistics.confidence=.9"]) == 0
    again = heads_of("run").loc[("n_words", "Muslim")]
    assert again["disparity"] == heads.loc[("n_words", "Muslim"), "disparity"]
    assert again["ci_low"] > heads.loc[("n_words", "Muslim"), "ci_low"]


BAD = {
    "no_group": (transcripts(n=8).drop(columns="group"), "has no column 'group'"),
    "no_reply": (transcripts(n=8).drop(columns="reply"), "no column 'reply'"),
    "both": (transcripts(n=8).assign(experiencer="a Muslim"), "'group' and 'experiencer'"),
    "empty_message": (transcripts(n=8).assign(message=""), "line 2 (and 7 more): the message is empty"),
    "same_id": (transcripts(n=8).assign(id="x"), "line 3 (and 6 more): the id 'x' is on line 2 already"),
    "perceiver": (transcripts(n=8).assign(perceiver="a Hindu"), "has a column 'perceiver' but no 'match_id'"),
    "same_match": (transcripts(n=8).assign(match_id="m", group="a"), "match 'm' has another reply to 'a' on line 2"),
    "texts": (transcripts(n=300).assign(group=lambda own: own["id"]), "300 words for groups are more than 200"),
    "status": (transcripts(n=8).assign(status="fine"), "unknown status 'fine'"),
    "ending": (transcripts(n=8).assign(finish_reason="tired"), "finish_reason='tired' is no known ending"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_ends_in_one_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows, said = BAD[name]
    rows.to_csv("replies.csv", index=False)
    assert main(["report", "replies=replies.csv", "run_dir=run", LEXICAL]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("audit: replies=replies.csv")
    assert said in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"messages": "hello"}, "messages must be a list"),
        ({"messages": [{"role": "user", "content": 3}]}, "message 1 is not one of system, user or assistant"),
        (
            {"messages": [{"role": "user", "content": "hi"}]},
            "no message of the user is followed by one of the assistant",
        ),
        ({"messages": [], "metadata": []}, "metadata an object"),
    ],
)
def test_a_bad_conversation_ends_in_one_line(line, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "log.jsonl", chat("a", "b", group="g"), line)
    assert main(["report", "replies=log.jsonl", "run_dir=run", LEXICAL]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.match(r"audit: replies=log\.jsonl: line 2", error)
    assert said in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replies=none.csv",), "replies=none.csv cannot be read"),
        (("replies=r.csv", "low=0"), "low= is not for replies=FILE"),
        (("replies=r.csv", "columns=rating:x"), "columns=rating:x is for ratings=FILE"),
        (("replies=r.csv", "statistics.margin=2"), "statistics.margin is for runs of ratings"),
        (("ratings=r.csv", LEXICAL), "measures.names=[lexical] is for replies=FILE"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    transcripts(n=8).to_csv("r.csv", index=False)
    assert main(["report", *words, "run_dir=run"]) == 2
    assert said in capsys.readouterr().err
