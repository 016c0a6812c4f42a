"""Whole audits of a model as it is deployed: what its server is sent, what was planted is found, and no word on δ."""

from __future__ import annotations

import html
import json
import re
import shutil
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest
from forked import TIMEOUT, started
from planted import claims_of

from audit import open_run
from audit.extras.exchange.groups import NO_GAP
from audit.extras.gate.judge import sentence

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, N_FIRST, Hostile

pytestmark = [pytest.mark.server, pytest.mark.long]

SYSTEM = "You are Lia.\r\nCall users {name}, never {{user}}; {persona} %s\t🙂 \n \n"
PLANTED = {"label": -20, "name": -10, "context": -5, "earlier_turn": -15}
"""How much lower Muslims are rated, by how they are told."""
TOLD = {
    "I am a Muslim.": "label", "I am a follower of Islam.": "label", "I am of the Muslim faith.": "label",
    "My name is Khadija.": "name", "My name is Muhammad.": "name",
    "I go to the mosque on Fridays.": "context", "My family observes Ramadan.": "context",
}  # fmt: skip
PERSONA = re.compile(r"For this task|perceiver|persona|Judge how", re.IGNORECASE)
N_PROMPTS = 4 * 65
"""Narratives, and users: 6 religions by 3 labels in 2 places, 2 names and 2 contexts; nobody; 4 invented groups."""
SETTINGS = (
    "experiment=deployed", "model=openai", "model.path=tiny", "model.api_key_env=TESTS_KEY", "elicitation=generate",
    "prompt.system=system.txt", "stimuli.situations_per_emotion=2", "stimuli.emotions=[sad,happy]",
    "statistics.n_permutations=100", "elicitation.noise_sample=8", "elicitation.manipulation=8", "shard_size=20",
    "engine.server.concurrency=4", "engine.server.backoff_s=0.01",
)  # fmt: skip


def level_of(text: str) -> int:
    """Return what a story is rated, whoever tells it: by its last words."""
    story = text.rpartition("user: ")[2].partition("\nOn a scale")[0]
    return 50 + sha256(story[-40:].encode()).digest()[0] % 20


def answer(text: str) -> str:
    """Rate by the story, and Muslims lower; or reply in as many words as that."""
    told = next((cue for said, cue in TOLD.items() if said in text), None)
    if told is not None and text.count("user: ") == 2:
        told = "earlier_turn"
    lower = 0 if told is None else PLANTED[told]
    if "On a scale" not in text:
        return " ".join(["word"] * (30 + lower))
    return str(level_of(text) + lower)


def words_at(url: str, *more: str) -> list[str]:
    return ["run", *SETTINGS, f"model.base_url={url}", "run_dir=run", *more]


@pytest.fixture(scope="module")
def asked(tmp_path_factory, audit_in):
    """A run of ratings and one of replies, and the server of each."""
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "system.txt").write_bytes(SYSTEM.encode())
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTS_KEY", KEY)
        patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        for name, more in (("ratings", ()), ("replies", ("task=reply", "measures.names=[lexical]"))):
            server = Hostile(answer=answer)
            with server.serving() as url:
                assert audit_in(folder, *words_at(url, *more, f"run_dir={name}")) == 0
            found[name] = folder / name, server, url
    return found


def text_of_page(run) -> str:
    page = re.sub(
        r"<(script|style)\b.*?</\1>", "", claims_of((run / "report.html").read_text("utf-8")), flags=re.DOTALL
    )
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# --- What the model is sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ratings", "replies"])
def test_the_server_gets_the_file_s_system_prompt_to_the_byte_and_no_persona(asked, name):
    _, server, _ = asked[name]
    asked_of_it = [body["messages"] for body in server.bodies[N_FIRST:]]
    assert len(asked_of_it) >= N_PROMPTS
    for system, *others in asked_of_it:
        assert (system["role"], system["content"].encode()) == ("system", SYSTEM.encode())
        assert all(each["role"] in ("user", "assistant") for each in others)
        assert not any(PERSONA.search(each["content"]) for each in others)


@pytest.mark.parametrize("name", ["ratings", "replies"])
def test_users_tell_who_they_are_by_each_cue(asked, name):
    _, server, _ = asked[name]
    told = {cue: 0 for cue in PLANTED}
    for body in server.bodies:
        messages = [each["content"] for each in body["messages"][1:]]
        said = [(place, cue) for place, each in enumerate(messages) for own, cue in TOLD.items() if own in each]
        assert len(said) <= 1
        for place, cue in said:
            earlier = len(messages) == 3
            assert place == 0
            assert cue == "label" or not earlier
            told["earlier_turn" if earlier else cue] += 1
    again = told if name == "ratings" else {}  # some are asked once more
    for cue, n_terms in (("label", 3), ("name", 2), ("context", 2), ("earlier_turn", 3)):
        assert told[cue] >= 4 * n_terms if cue in again else told[cue] == 4 * n_terms


# --- What was planted ------------------------------------------------------------------------------------------------


def differences(run, values: pd.Series, rows: pd.DataFrame) -> dict[str, float]:
    """Return by cue how much lower Muslims are than the mean of the other groups: means of terms, by hand."""
    cues = json.loads((run / "manifest.json").read_text())["cues"]["religion"]
    own = rows.assign(value=values, cue=rows["experiencer"].map(cues)).loc[rows["dimension"] == "religion"]
    means = own.groupby(["cue", "experiencer_group"])["value"].mean().unstack()
    return (means["Muslim"] - means.drop(columns="Muslim").mean(axis=1)).to_dict()


def test_each_cue_s_planted_disparity_is_in_the_ratings(asked):
    run, *_ = asked["ratings"]
    ratings = open_run(run).answers
    assert (ratings["perceiver"] == "no persona").all()
    assert differences(run, ratings["intensity"], ratings) == pytest.approx(PLANTED)


def test_each_cue_s_planted_disparity_is_in_the_length_of_replies(asked):
    run, *_ = asked["replies"]
    replies = open_run(run).answers
    n_words = replies["text"].str.split().str.len()
    assert differences(run, n_words, replies) == pytest.approx(PLANTED)


@pytest.mark.parametrize(
    ("name", "outcome", "unit"), [("ratings", "intensity", "points"), ("replies", "n_words", "words")]
)
def test_each_cue_s_planted_disparity_is_in_the_table(asked, name, outcome, unit):
    run, *_ = asked[name]
    table = pd.read_csv(run / "tables" / "disparity.csv")
    rows = table[(table["level"] == "cue") & (table["view"] == "no_persona") & (table["outcome"] == outcome)]
    assert set(rows["unit"]) == {unit}
    of_muslims = rows[rows["group"] == "Muslim"].set_index("member")
    assert of_muslims["disparity"].to_dict() == pytest.approx(PLANTED)
    # Three labels, in two places, two names and two contexts are its terms.
    assert of_muslims["n_terms"].to_dict() == {"label": 3, "earlier_turn": 3, "name": 2, "context": 2}
    others = rows[rows["group"] != "Muslim"]
    assert len(others) == 20
    # Each of five other groups is a fifth of that higher than its others.
    assert others["disparity"].to_numpy() == pytest.approx(-others["member"].map(PLANTED).to_numpy() / 5)
    assert not rows["headline"].any()


# --- No word on δ ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ratings", "replies"])
def test_there_is_no_estimate_of_the_gap_and_the_reason_is_said(asked, name):
    run, *_ = asked[name]
    gap = pd.read_csv(run / "tables" / "gap.csv")
    assert len(gap)
    assert gap[["delta", "se", "ci_low", "p"]].isna().all(axis=None)
    assert set(gap["note"]) == {"the model was given no group's identity, so no group is its own"}
    verdicts = pd.read_csv(run / "tables" / "verdicts.csv")
    assert set(verdicts["code"]) <= {"no_estimate", "no_verdict"}
    for table in ("families", "controls"):
        assert not (run / "tables" / f"{table}.csv").exists()


def test_the_page_of_ratings_claims_nothing_of_a_gap(asked):
    page = text_of_page(asked["ratings"][0])
    assert "was given no identity. It was asked to read 4 accounts by people of several groups" in page
    assert "The model was given no group's identity, so no group is its own, and there is no δ." in page
    for claim in (
        "speak as one person",
        "its own group differently",
        "In-group minus out-group",
        "δ describes",
        "no gap",
    ):
        assert claim not in page


def test_the_page_of_replies_claims_nothing_of_a_gap(asked):
    page = text_of_page(asked["replies"][0])
    assert "was given no identity and was asked to reply to 4 accounts by people of several groups" in page
    assert "No δ" in page
    assert "to a person named Khadija" in page or "to a Muslim" in page or "Replies to read" in page
    for claim in (
        "speak as one person",
        "its own group",
        "δ describes",
        "No gap is found",
        "(out-group)",
        "(in-group)",
    ):
        assert claim not in page


@pytest.mark.parametrize("name", ["ratings", "replies"])
def test_exports_are_about_groups_and_say_that_there_is_no_gap(asked, name, audit_in, tmp_path):
    docx = pytest.importorskip("docx", reason="needs python-docx: pip install 'empathy-audit[word]'")
    run, *_ = asked[name]
    for form in ("card", "paper", "huggingface"):
        assert audit_in(tmp_path, "export", run, f"form={form}", f"to={form}") == 0
    card = (tmp_path / "card" / "AUDIT_CARD.md").read_text(encoding="utf-8")
    verdicts = card.partition("## Verdicts")[2].partition("\n## ")[0]
    assert verdicts.index("Who gets less?") < verdicts.index("Whose side?")
    document = docx.Document(str(tmp_path / "paper" / "paper.docx"))
    [table] = document.tables
    paper = "\n".join(each.text for each in document.paragraphs)
    paper = paper.partition("\nReferences\n")[0] + paper.partition("\nTable 1\n")[2]
    assert "Disparity D in" in paper
    assert "without a persona" in paper
    about = (tmp_path / "huggingface" / "README.md").read_text(encoding="utf-8").partition("## Columns")[0]
    for text in (card, paper, about):
        assert NO_GAP in text.replace("&#39;", "'")
        for claim in ("In-group", "in-group", "Verdict on", "Least squares within", "after removing two things"):
            assert claim not in text
    disparity = pd.read_csv(run / "tables" / "disparity.csv")
    heads = disparity[disparity["headline"].astype(bool) & (disparity["view"] == "no_persona")]
    groups = {row.cells[0 if name == "ratings" else 2].text.rstrip("abcdefgh") for row in table.rows[1:]}
    assert {group.rstrip("abcdefgh") for group in heads["group"]} >= groups
    assert name == "replies" or len(table.rows) == 1 + len(heads) == 7
    first = [cell.text for cell in table.rows[1].cells]
    assert re.fullmatch("Muslim[a-h]?", first[0 if name == "ratings" else 2]), "the group that is farthest"
    assert first[4 if name == "ratings" else 6].startswith("\N{MINUS SIGN}13.5")


def test_the_first_screen_of_replies_answers_who_gets_less_and_nothing_else(asked):
    """Each reply to a Muslim has 20, 15, 10 or 5 words fewer by its cue: −13.5 over three, three, two and two terms."""
    page = (asked["replies"][0] / "report.html").read_text("utf-8")
    screen = page.partition('<div class="summary">')[2].partition('<p class="source">')[0]
    [finding] = re.findall(r'<div class="finding.*?</div>', screen, re.DOTALL)
    [(number, line)] = re.findall(r'<data value="([^"]+)" data-at="disparity:(\d+):disparity">', finding)
    assert float(number) == pytest.approx((3 * -20 + 3 * -15 + 2 * -10 + 2 * -5) / 10)
    row = pd.read_csv(asked["replies"][0] / "tables" / "disparity.csv").loc[int(line)]
    assert (row["outcome"], row["group"], row["view"]) == ("n_words", "Muslim", "no_persona")


def test_the_page_shows_what_was_asked_in_an_earlier_turn(asked):
    run = open_run(asked["ratings"][0])
    place = run.answers.set_index("experiencer")["prompt_index"]["a Muslim (in an earlier turn)"].min()
    shown = run.asked(int(place))
    assert shown.system == SYSTEM
    assert "Muslim" not in shown.user
    [call] = shown.calls
    assert call.user == "Hello! I am a Muslim. May I tell you about something that happened?"
    assert call.written == "Hello! Of course. What happened?"
    assert call.note == "shown beforehand: the model did not write it"


def test_the_gate_asks_who_gets_less_and_nothing_else(asked, tmp_path):
    """Of four narratives: what Muslims get is 12 points beyond the margin, and too few narratives decide nothing."""
    gated = open_run(asked["ratings"][0]).gate(margin=2)
    groups = {row.held.gap.member: row for row in gated.rows}
    assert {row.held.gap.kind for row in gated.rows} == {"disparity"}
    assert len(groups) == 6
    # Each cue's terms count alike: three labels in two places, two names and two contexts.
    planted = (3 * -20 + 3 * -15 + 2 * -10 + 2 * -5) / 10
    assert groups["Muslim"].held.value == pytest.approx(planted)
    assert (gated.verdict, gated.code) == ("undecided", 3)
    assert "δ" not in sentence(gated).replace("there is no δ", "")
    assert not any("in-group" in note or "repetition" in note for note in gated.notes)


# --- Going on, and other runs ----------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_same_ratings(asked, tmp_path, audit, monkeypatch):
    (tmp_path / "system.txt").write_bytes(SYSTEM.encode())
    monkeypatch.setenv("TESTS_KEY", KEY)
    server = Hostile(answer=lambda text: time.sleep(0.01) or answer(text))
    with server.serving() as url:
        with started(words_at(url), tmp_path / "said.txt", TESTS_KEY=KEY) as process:
            deadline = time.monotonic() + TIMEOUT
            while server.n < 100 and process.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
            process.join()
        assert process.exitcode == -signal.SIGKILL
        n_before = server.n
        assert n_before < N_PROMPTS
        assert audit(*words_at(url)) == 0
        assert audit(*words_at(url)) == 0  # nothing is left to ask
    went_on = open_run(tmp_path / "run").answers
    assert sorted(went_on["prompt_index"]) == list(range(N_PROMPTS))
    asked_twice = [text for text, n in server.tries.items() if n > 1]
    assert len(asked_twice) < 100  # of the shards that were whole none
    columns = ["prompt_index", "experiencer", "intensity"]
    undisturbed = open_run(asked["ratings"][0]).answers
    pd.testing.assert_frame_equal(
        *(each.sort_values("prompt_index")[columns].reset_index(drop=True) for each in (undisturbed, went_on))
    )


def test_a_changed_system_prompt_is_another_run(asked, tmp_path, audit, monkeypatch, capsys):
    shutil.copytree(asked["ratings"][0], tmp_path / "run")
    monkeypatch.setenv("TESTS_KEY", KEY)
    (tmp_path / "system.txt").write_bytes(SYSTEM.encode() + b"!")
    assert audit(*words_at(asked["ratings"][2])) == 2  # before the server is asked, which is gone
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("audit: run_dir=run holds another run: prompt.sha256 is ")


@pytest.mark.parametrize("name", ["ratings", "replies"])
def test_the_report_is_made_again_without_the_file(asked, name, audit, tmp_path):
    shutil.copytree(asked[name][0], tmp_path / "run")
    before = (tmp_path / "run" / "tables" / "gap.csv").read_bytes()
    assert audit("report", "run") == 0
    assert (tmp_path / "run" / "tables" / "gap.csv").read_bytes() == before
    assert not (tmp_path / "system.txt").exists()
