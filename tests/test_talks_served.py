"""What a server is sent in a talk: the user's messages, the identity once, and the corpus' or its own replies."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

from audit.engines.proof import PROMPTS
from audit.runs.store import RunFolder
from audit.tables.stages import STAGES

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, Hostile

pytestmark = [pytest.mark.server, pytest.mark.long]

SETTINGS = (
    "experiment=deployed", "task=reply", "stimuli.placebo=0", "stimuli.unspecified=false", "model=openai",
    "stimuli.situations_per_emotion=all", "model.path=tiny", "model.api_key_env=TESTS_KEY", "measures.names=[lexical]",
    "statistics.n_permutations=100", "run_dir=run",
)  # fmt: skip
# In the columns of EmpatheticDialogues; written for this test.
DIALOGUES = """conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags
c:1,1,proud,My kite won.,7,My kite won the race_comma_ by a "mile".,5|5|5_2|2|5,
c:1,2,proud,My kite won.,9,Which one was it?,5|5|5_2|2|5,
c:1,3,proud,My kite won.,7,The red one_comma_ with {two} tails.,5|5|5_2|2|5,
c:1,4,proud,My kite won.,9,Well done!,5|5|5_2|2|5,
c:2,1,lonely,Nobody rang.,4,"Nobody rang me this week.,5|5|5_2|2|5,
c:2,2,lonely,Nobody rang.,3,Did you ring anybody?,5|5|5_2|2|5,,one_comma_ two|three
"""


@pytest.fixture
def ask(tmp_path, audit_in, monkeypatch):
    """Ask a server for replies; return the messages of each of its requests."""
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})

    def run(*words):
        server = Hostile(answer=lambda text: f"Reply {text.count('user: ')} to {sha256(text.encode()).hexdigest()[:6]}")
        with server.serving() as url:
            assert audit_in(tmp_path, "run", *SETTINGS, f"model.base_url={url}", *words) == 0
        asked = [body["messages"] for body in server.bodies]
        proof = {each.user for each in PROMPTS}  # that the server gives unlike answers
        return [said for said in asked if said[-1]["content"] not in proof and "one number" not in str(said)]

    return run


def test_the_server_gets_the_identity_once_and_its_own_replies_as_turns(ask, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text(
        'narrative_id,emotion,text,second,third\nn1,sad,I lost my {dog}.,"He was {14}, and ill.",I miss him.\n'
        "n2,happy,I won a prize.,It is a big one.,I told my mum.\n"
    )
    asked = ask(
        "strategy=talk-file", "stimuli=csv", f"stimuli.path={file}", "stimuli.columns.turns=[second,third]",
        "stimuli.cues=[label,earlier_turn]",
    )  # fmt: skip
    assert {message["role"] for messages in asked for message in messages} == {"user", "assistant"}
    whole = [messages for messages in asked if messages[-1]["content"] in ("I miss him.", "I told my mum.")]
    assert len(asked) == 3 * len(whole) > 0
    for messages in whole:
        earlier = "May I tell you" in messages[0]["content"]
        said = [each["content"] for each in messages if each["role"] == "user"][earlier:]
        first, second = said[:2]
        assert sum("I am " in text for text in [each["content"] for each in messages]) == 1  # the identity, once
        assert first.endswith(("I lost my {dog}.", "I won a prize."))
        assert second in ("He was {14}, and ill.", "It is a big one.")
        # Each reply that is shown is what the server wrote to the messages before it.
        for place in range(2 * earlier + 1, len(messages), 2):
            before = [each for each in asked if each == messages[:place]]
            assert len(before) == 1
    with RunFolder(tmp_path / "run") as folder:
        stages = folder.parts(STAGES).frame()
    assert set(stages["stage"]) == {"turn_1", "turn_2"}


def test_a_corpus_is_sent_as_messages_and_its_listener_is_the_assistant(ask, tmp_path):
    file = tmp_path / "test.csv"
    file.write_text(DIALOGUES)
    asked = ask("stimuli=empathetic-dialogues", f"stimuli.path={file}", "stimuli.cues=[label]")
    told = [[(each["role"], each["content"].partition(".")[2].strip() if not place else each["content"])
             for place, each in enumerate(messages)] for messages in asked]  # fmt: skip
    assert {tuple(messages) for messages in told} == {
        (("user", 'My kite won the race, by a "mile".'),),
        (
            ("user", 'My kite won the race, by a "mile".'),
            ("assistant", "Which one was it?"),
            ("user", "The red one, with {two} tails."),
        ),
        (("user", '"Nobody rang me this week.'),),
    }
    assert all(messages[0]["content"].startswith("I am ") for messages in asked)
    replies = pd.read_parquet(tmp_path / "run/replies.parquet")
    assert set(replies["narrative_id"]) == {"c:1:1", "c:1:3", "c:2:1"}
    assert dict(zip(replies["narrative_id"], replies["emotion"], strict=True)) == {
        "c:1:1": "proud", "c:1:3": "proud", "c:2:1": "lonely",
    }  # fmt: skip


def test_the_speaker_of_a_corpus_talks_to_the_model_in_place_of_the_listener(ask, tmp_path, capsys):
    file = tmp_path / "test.csv"
    monologue = DIALOGUES.replace("c:2,2,lonely,Nobody rang.,3,", "c:2,2,lonely,Nobody rang.,4,")
    file.write_text(
        f"{monologue}d:1,1,sad,Lost.,7,It is lost.,,\nd:1,2,sad,Lost.,8,What?,,\nd:1,3,sad,Lost.,7,My ring.,,\n"
    )
    asked = ask(
        "strategy=talk-file", "strategy.turns=['{turn_2}']", "stimuli=empathetic-dialogues", f"stimuli.path={file}",
        "stimuli.conversations.shown=speaker", "stimuli.cues=[label]",
    )  # fmt: skip
    last = [messages for messages in asked if len(messages) == 3]
    assert {messages[2]["content"] for messages in last} == {"The red one, with {two} tails.", "My ring."}
    assert {messages[1]["role"] for messages in last} == {"assistant"}
    assert not [text for text in ("Which one", "What?", "Nobody") if text in str(asked)]
    assert (
        "1 conversation is left out: the person says less in it than the strategy has turns" in capsys.readouterr().err
    )
