"""Scorers are tried before a reply is paid for: a server's log shows when, and no reply ends without a page."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from engines.test_biencoder import write_biencoder
from engines.test_classifier import write_classifier
from runs import FOUR_RELIGIONS

from audit import open_run
from audit.engines.biencoder import BiEncoder
from audit.errors import ModelError

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, Hostile

pytestmark = [pytest.mark.server, pytest.mark.model, pytest.mark.long]

N_PROMPTS = 2 * 16
WORDS = (
    "task=reply", "model=openai", "model.path=tiny", "model.api_key_env=TESTS_KEY", *FOUR_RELIGIONS,
    "stimuli.unspecified=false", "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=1",
    "statistics.n_permutations=100", "engine.server.backoff_s=0.01", "elicitation.noise_sample=0", "run_dir=run",
)  # fmt: skip
GOOD = "measures.epitome.interpretations="
ASKED = "tells you"  # of every prompt; the server is also asked once whether it goes on


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
    served = Hostile(answer=lambda text: "I am so sorry. Are you well?")
    with served.serving() as url:
        served.url = url
        yield served


def page_of(run):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", (run / "report.html").read_text("utf-8"))).split())


def measures_of(run):
    return pd.read_csv(run / "tables/measures.csv").set_index("measure")


def said_before_asking(server, monkeypatch):
    """Collect what is said, each with the number of calls that the server had got by then."""
    from audit.cli.terminal import printing

    lines, tell = [], printing.say

    def say(text):
        lines.append((server.n, text))
        tell(text)

    monkeypatch.setattr("audit.cli.run.say", say)
    return lines


def test_a_folder_of_another_architecture_is_named_before_the_first_call_and_the_others_go_on(
    server, audit, tmp_path, monkeypatch
):
    good = write_biencoder(tmp_path / "good")
    wrong = write_classifier(tmp_path / "wrong", ("0", "1", "2"))
    config = json.loads((wrong / "config.json").read_text())
    (wrong / "config.json").write_text(json.dumps(config | {"architectures": ["BertForTokenClassification"]}))
    (wrong / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    lines = said_before_asking(server, monkeypatch)
    words = (*WORDS, f"model.base_url={server.url}", "measures.names=[lexical,regard,epitome]",
             f"measures.regard.model={wrong}", f"{GOOD}{good}")  # fmt: skip
    assert audit("run", *words) == 0
    [(n_calls, line)] = [each for each in lines if "note: regard is not measured" in each[1]]
    assert n_calls == 0
    assert f"config.json in {wrong} names BertForTokenClassification, so it is not a sequence classifier" in line
    assert sum(ASKED in text for text in server.asked) == N_PROMPTS
    measures = measures_of(tmp_path / "run")
    assert measures.loc["regard", "status"] == "absent"
    assert measures.loc["epitome_interpretations", "n_scored"] == N_PROMPTS
    assert measures.loc["n_words", "n_scored"] == N_PROMPTS
    assert "names BertForTokenClassification" in page_of(tmp_path / "run")
    # The folder is mended: the same command scores the same replies, and asks nothing.
    asked = server.n
    write_classifier(wrong, ("negative", "neutral", "positive", "other"))
    assert audit("run", *words) == 0
    assert server.n == asked
    assert measures_of(tmp_path / "run").loc["regard", "n_scored"] == N_PROMPTS


@pytest.mark.parametrize("wrong", ["architecture", "labels", "files"])
def test_a_required_scorer_that_cannot_be_used_ends_the_run_with_no_call(wrong, server, audit, tmp_path, capsys):
    folder = write_classifier(tmp_path / "wrong", ("low", "high", "0") if wrong == "labels" else ("0", "1", "2"))
    if wrong == "architecture":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    elif wrong == "files":
        (folder / "model.safetensors").unlink()
    words = (*WORDS, f"model.base_url={server.url}", "measures.names=[lexical,epitome]", f"{GOOD}{folder}",
             "measures.required=[epitome]")  # fmt: skip
    assert audit("run", *words) == 2
    [line] = [each for each in capsys.readouterr().err.splitlines() if each.startswith("audit: ")]
    assert line.startswith("audit: measures.required has epitome, which cannot be used: ")
    assert server.n == 0
    assert audit("run", *words[:-1]) == 0  # it is not required: the run goes on without it
    assert sum(ASKED in text for text in server.asked) == N_PROMPTS
    asked = server.n
    capsys.readouterr()
    assert audit("run", *words) == 2  # where all replies are there, too
    assert capsys.readouterr().err.splitlines()[-1].startswith("audit: measures.required has epitome, which cannot be")
    assert server.n == asked


def test_a_licence_that_excludes_commercial_use_is_named_before_the_first_call(server, audit, tmp_path, monkeypatch):
    folder = write_biencoder(tmp_path / "good")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    lines = said_before_asking(server, monkeypatch)
    words = (*WORDS, f"model.base_url={server.url}", "measures.names=[epitome]", f"{GOOD}{folder}")
    assert audit("run", *words) == 0
    [n_calls] = [n for n, line in lines if f"the licence of {folder} is cc-by-nc-4.0" in line]
    assert n_calls == 0


@pytest.mark.parametrize("error", [ModelError("its logits are not finite"), RuntimeError("out of memory")])
def test_a_scorer_that_fails_on_replies_that_were_paid_for_leaves_them_their_page(
    error, server, audit, tmp_path, monkeypatch
):
    folder = write_biencoder(tmp_path / "good")
    words = (*WORDS, f"model.base_url={server.url}", "measures.names=[epitome,lexical]", f"{GOOD}{folder}")

    def fails(*_):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("audit.engines.biencoder.BiEncoder.read", fails)
        assert audit("run", *words) == 0
    measures = measures_of(tmp_path / "run")
    assert str(error) in measures.loc["epitome", "note"]
    assert measures.loc["n_words", "n_scored"] == N_PROMPTS
    assert str(error) in page_of(tmp_path / "run")
    asked = server.n
    assert audit("run", *words) == 0
    assert server.n == asked
    assert measures_of(tmp_path / "run").loc["epitome_interpretations", "n_scored"] == N_PROMPTS


def test_rationales_are_kept_at_their_place_in_the_reply_and_marked_on_the_page(server, audit, tmp_path):
    server.answer = lambda text: "<think>\nAre you sad?\n</think>\n\nI am <so> sorry. Are you well?"
    # A head that takes every token for a rationale, and one that takes level 2 for the likeliest.
    heads = {"rationale_classifier.bias": [0, 99], "empathy_classifier.out_proj.bias": [0, 0, 99]}
    folder = write_biencoder(tmp_path / "good", heads=heads)
    words = (*WORDS, f"model.base_url={server.url}", "measures.names=[epitome]", f"{GOOD}{folder}")
    assert audit("run", *words) == 0
    rationales = pd.read_parquet(tmp_path / "run/rationales.parquet")
    texts = open_run(tmp_path / "run").answers.set_index("prompt_index")["text"]
    assert len(rationales) == N_PROMPTS
    assert set(rationales["measure"]) == {"epitome_interpretations"}
    for index, start, end in zip(rationales["prompt_index"], rationales["start"], rationales["end"], strict=True):
        assert texts[index][start:end] == "I am <so> sorry. Are you well?"
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert '<mark title="EPITOME: interpretations">I am &lt;so&gt; sorry. Are you well?</mark></pre>' in page
    # Rationales that are lost are found again in the same replies.
    (tmp_path / "run/rationales.parquet").unlink()
    asked = server.n
    assert audit("run", *words) == 0
    assert server.n == asked
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run/rationales.parquet"), rationales)
    # A level of 0 has no rationale: the released training data mark all of such a reply.
    none = write_biencoder(tmp_path / "none", heads=heads | {"empathy_classifier.out_proj.bias": [99, 0, 0]})
    assert audit("run", *words[:-1], f"{GOOD}{none}") == 0
    assert not len(pd.read_parquet(tmp_path / "run/rationales.parquet"))
    assert "<mark" not in (tmp_path / "run/report.html").read_text("utf-8")


def test_the_scorers_of_replies_in_a_file_are_loaded_once_and_may_be_required(audit, tmp_path, monkeypatch, capsys):
    folder = write_biencoder(tmp_path / "good")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    monkeypatch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
    loaded, load = [], BiEncoder.__init__
    monkeypatch.setattr(BiEncoder, "__init__", lambda *given, **more: loaded.append(1) or load(*given, **more))
    rows = [f'"I lost {k}",I am so sorry {k},{group}' for k, group in enumerate(["Muslim", "Hindu"] * 6)]
    (tmp_path / "replies.csv").write_text("\n".join(["message,reply,group", *rows]) + "\n")
    words = ("report", "replies=replies.csv", "run_dir=run", "measures.names=[lexical,epitome]",
             "measures.required=[epitome]")  # fmt: skip
    assert audit(*words, f"{GOOD}{tmp_path / 'gone'}") == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("audit: measures.required has epitome, which cannot be")
    assert audit(*words, f"{GOOD}{folder}") == 0
    assert len(loaded) == 1
    assert f"the licence of {folder} is cc-by-nc-4.0, which excludes commercial use" in capsys.readouterr().err
    assert measures_of(tmp_path / "run").loc["epitome_interpretations", "n_scored"] == 12
