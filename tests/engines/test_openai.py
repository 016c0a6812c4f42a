"""A server as the model: what it is asked, how its faults are borne, what a run that it stops has lost (nothing)."""

from __future__ import annotations

import contextlib
import html
import io
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from email.utils import formatdate
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest
from hostile import FAULTS, KEY, N_FIRST, Hostile, rating_of, say
from runs import FOUR_RELIGIONS

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation
from audit.configuration.engine import ServerConfig
from audit.engines import open as opening
from audit.engines.open import open_model
from audit.engines.server import BudgetError, Key, Pace, wait_asked
from audit.errors import ConfigError, ModelError
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

pytestmark = pytest.mark.server

HUNDRED = Scale(0, 100)
QUICK = {"backoff_s": 0.01, "timeout_s": 60, "concurrency": 6, "retries": 4}
IMPATIENT = {"slow": 0.5, "drip": 0.5}
"""Seconds before an answer is too slow, for the faults that are. In other tests no busy machine is, nor asks twice."""
PROMPTS = [Prompt("Judge.", f"How sad is number {place}?") for place in range(24)]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.engines.open._kept", None)


@pytest.fixture
def opened(tiny_config):
    """Return a function that opens the model of a server, with settings of how it is asked."""
    engines = []

    def at(url, *, name="tiny", key="TESTS_KEY", card=(), seed=3, **settings):
        model, engine = tiny_config(
            name, engine="openai", **({"dtype": "auto", "base_url": url, "api_key_env": key} | dict(card))
        )
        engine = engine.model_copy(update={"server": ServerConfig(**(QUICK | settings))})
        engines.append(open_model(model, engine, seed=seed).engine)
        return engines[-1]

    yield at
    for engine in engines:
        engine.close()


def texts_of(written):
    return [each.text for each in written]


def whole(prompts):
    return [str(rating_of(f"system: {each.system}\nuser: {each.user}")) for each in prompts]


# --- What it is asked ------------------------------------------------------------------------------------------------


def test_a_conversation_goes_as_messages_and_its_text_and_tokens_come_back(opened):
    server = Hostile()
    with server.serving() as url:
        prompt = Prompt("Be calm.", "How sad?", turns=(("user", "Who?"), ("assistant", "I.")))
        [written] = opened(url).write([prompt], max_tokens=9)
    body = server.bodies[-1]
    assert [(each["role"], each["content"]) for each in body["messages"]] == [
        ("system", "Be calm."), ("user", "Who?"), ("assistant", "I."), ("user", "How sad?"),
    ]  # fmt: skip
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("tiny", 9, 0, 3)
    text = "system: Be calm.\nuser: Who?\nassistant: I.\nuser: How sad?"
    assert (written.text, written.n_prompt_tokens, written.n_tokens) == (str(rating_of(text)), len(text.split()), 1)


PLAIN = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}  # fmt: skip


def test_no_setting_is_left_to_the_model_s_generation_config(opened):
    server = Hostile(logprobs=top_of({"70": 1.0}))
    with server.serving() as url:
        engine = opened(url)
        engine.write(PROMPTS[:1], max_tokens=9)
        engine.write(PROMPTS[1:2], max_tokens=9, temperature=0.7, top_p=0.9, seeds=[5])
        engine.top(PROMPTS[2:3], n_tokens=3)
    of_probe, greedy, sampled, top = server.bodies
    for body in (of_probe, greedy, top):
        assert body | PLAIN | {"temperature": 0.0, "seed": 3} == body
    assert sampled | PLAIN | {"top_p": 0.9, "temperature": 0.7, "seed": 5} == sampled


class Strict(Hostile):
    """Refuses requests with certain fields, as hosts word it."""

    def __init__(self, refuses, says, **behaviour):
        super().__init__(**behaviour)
        self.refuses, self.says, self.n_refused = refuses, says, 0

    def post(self, handler):
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        there = [name for name in self.refuses if name in json.loads(raw)]
        if there:
            self.n_refused += 1
            say(handler, self.says(there[0]), status=422 if "detail" in self.says("") else 400)
            return
        handler.rfile = io.BytesIO(raw)
        super().post(handler)


@pytest.mark.parametrize(
    ("refuses", "says"),
    [
        (
            ("top_k", "min_p", "repetition_penalty"),
            lambda name: {"error": {"message": f"Unrecognized request argument supplied: {name}", "code": None}},
        ),
        (
            ("temperature", "top_p", "presence_penalty"),
            lambda name: {
                "error": {"message": f"Unsupported value: '{name}' does not support 0 with this model.", "param": name}
            },
        ),
        (
            ("seed", "top_k"),
            lambda name: {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs"}]},
        ),
        (("top_k",), lambda name: {"error": {"message": f'Invalid JSON payload. Unknown name "{name}": Cannot find'}}),
        (("min_p",), lambda name: {"error": {"message": "a field is not supported"}}),  # which, it does not say
    ],
    ids=["OpenAI", "a model that reasons", "pydantic", "Google", "no name"],
)
def test_settings_that_a_strict_host_refuses_are_left_out_and_said(refuses, says, tiny_config):
    server = Strict(refuses, says)
    model, engine = tiny_config("tiny", engine="openai", dtype="auto", api_key_env="TESTS_KEY", base_url="http://x/v1")
    engine = engine.model_copy(update={"server": ServerConfig(**QUICK)})
    with server.serving() as url:
        found = open_model(model.model_copy(update={"base_url": url}), engine, seed=3)
        assert texts_of(found.engine.write(PROMPTS, max_tokens=9)) == whole(PROMPTS)
        found.engine.close()
    left_out = list(refuses) if "a field" not in str(says("")) else ["top_k", "min_p", "repetition_penalty"]
    assert sorted(found.source.facts()["server"]["settings_refused"]) == sorted(left_out)
    assert found.source.identity()["server"].keys() == {"base_url", "id"}
    assert "so its own values are in use" in found.why
    assert all(name in found.why for name in left_out)
    assert server.n_refused <= len(left_out)  # learnt at the first question, before any prompt
    kept = (PLAIN | {"temperature": 0.0, "seed": 3}).keys() - set(left_out)
    assert all(body.keys() >= kept and not body.keys() & set(left_out) for body in server.bodies)


def test_a_prompt_s_own_words_in_an_error_are_no_setting(opened):
    server = Hostile()
    with server.serving() as url:
        engine = opened(url)
        server.post = lambda handler: say(
            handler, {"error": {"message": "cannot answer: My seed did not grow."}}, status=400
        )
        with pytest.raises(ModelError, match=r"rejected the request .*My seed did not grow"):
            engine.write([Prompt("Judge.", "My seed did not grow.")], max_tokens=9)
    assert engine.refused == []


def test_seeds_and_settings_of_sampled_texts_are_passed_on(opened):
    server = Hostile()
    with server.serving() as url:
        opened(url).write(PROMPTS[:2], max_tokens=9, temperature=0.7, top_p=0.9, seeds=[5, 2**62])
    own = sorted(server.bodies[1:], key=lambda body: body["seed"])
    assert [(body["seed"], body["temperature"], body["top_p"]) for body in own] == [(5, 0.7, 0.9), (2**62, 0.7, 0.9)]


def test_a_server_that_calls_the_room_otherwise_is_asked_by_that_name(opened):
    def answer(text):
        return str(rating_of(text))

    server = Hostile(answer=answer)
    whole_ = server.post

    def post(handler):
        length = int(handler.headers["Content-Length"])
        raw = handler.rfile.read(length)
        if b'"max_tokens"' in raw:
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            say(handler, {"error": {"message": message}}, status=400)
            return
        handler.rfile = io.BytesIO(raw)
        whole_(handler)

    server.post = post
    with server.serving() as url:
        assert texts_of(opened(url).write(PROMPTS, max_tokens=9)) == whole(PROMPTS)
    assert "max_completion_tokens" in server.bodies[-1]


@pytest.mark.parametrize(
    ("said", "status", "intensity"),
    [
        ("70", Status.RATED, 70),
        ("", Status.UNPARSEABLE, None),
        ("\ud800 70", Status.RATED, 70),
        ("   \n", Status.UNPARSEABLE, None),
        ("I'm sorry, but I can't rate this.", Status.REFUSED, None),
        ({"role": "assistant", "content": None, "refusal": "I can't help with that."}, Status.REFUSED, None),
        ({"role": "assistant", "content": "", "finish_reason": "content_filter"}, Status.REFUSED, None),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}, Status.UNPARSEABLE, None),
        ({"role": "assistant", "content": [{"type": "text", "text": "70"}]}, Status.UNPARSEABLE, None),
        ({"role": "assistant", "content": None, "reasoning": "0", "finish_reason": "length"}, Status.UNPARSEABLE, None),
        ({"role": "assistant", "content": "The number 8", "finish_reason": "length"}, Status.UNPARSEABLE, None),
        ({"role": "assistant", "content": "8", "finish_reason": "max_tokens"}, Status.UNPARSEABLE, None),
        ({"role": "assistant", "content": "80\n\nThe person waited 6", "finish_reason": "length"}, Status.RATED, 80),
        ("<think>\nPerhaps 90.\n</think>\n\n70", Status.RATED, 70),
        ("<think>\nPerhaps 90, or", Status.UNPARSEABLE, None),
        ({"choices": []}, Status.FAILED, None),
    ],
)
def test_what_is_no_rating_is_missing_in_its_own_way_and_never_0(opened, said, status, intensity):
    asked = "user: How sad?"
    server = Hostile(answer=lambda text: json.loads(json.dumps(said)) if text.endswith(asked) else "50")
    with server.serving() as url:
        outcomes = GenerateElicitation(HUNDRED, 16, "scale").elicit(opened(url), [Prompt("", "How sad?"), PROMPTS[0]])
    assert outcomes[0].status is status
    assert math.isnan(outcomes[0].intensity) if intensity is None else outcomes[0].intensity == intensity
    assert outcomes[1].intensity == 50


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("This model's maximum context length is 8192 tokens", Status.FAILED),
        ("The response was filtered due to content management policy", Status.REFUSED),
    ],
)
def test_a_prompt_that_is_refused_for_its_own_sake_is_missing_and_others_are_not(opened, message, status):
    server = Hostile()
    post = server.post

    def picky(handler):
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        if b"number 7?" in raw:
            say(handler, {"error": {"message": message}}, status=400)
            return
        handler.rfile = io.BytesIO(raw)
        post(handler)

    server.post = picky
    with server.serving() as url:
        outcomes = GenerateElicitation(HUNDRED, 16, "scale").elicit(opened(url), PROMPTS)
    assert [place for place, each in enumerate(outcomes) if each.status is not Status.RATED] == [7]
    assert outcomes[7].status is status


def test_an_answer_that_is_begun_is_refused_where_nobody_knows_that_it_is_gone_on_with(opened):
    with Hostile().serving() as url, pytest.raises(ModelError, match=r"leave elicitation\.prefill empty"):
        opened(url).write([Prompt("", "How sad?", begun="Number: ")], max_tokens=3)


@pytest.mark.parametrize("prompt", [Prompt("", "How sad?", thinks=True), Prompt("", "How sad?", thought="Very.")])
def test_a_thought_is_refused_where_nobody_knows_what_becomes_of_it(prompt, opened):
    with Hostile().serving() as url:
        engine = opened(url)
        for ask in (lambda: engine.write([prompt], max_tokens=3), lambda: engine.fits([prompt], room=3)):
            with pytest.raises(ModelError, match="use thinking=off, or serve the model with vLLM"):
                ask()


# --- Which server, and whose key -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://ada:secret@localhost:1/v1", "has more than an address"),
        ("http://localhost:1/v1?key=secret", "has more than an address"),
        ("ftp://localhost/secret", "is not a server's address"),
        ("localhost:8000/secret", "is not a server's address"),
    ],
)
def test_an_address_with_a_secret_in_it_is_refused_and_not_repeated(tiny_config, url, says):
    with pytest.raises(ConfigError, match=says) as refused:
        tiny_config("tiny", base_url=url)
    assert "secret" not in str(refused.value)


def test_a_key_in_place_of_a_variable_s_name_is_refused_and_not_repeated(tiny_config):
    with pytest.raises(ConfigError, match="is not the name of an environment variable") as refused:
        tiny_config("tiny", base_url="http://h/v1", api_key_env=KEY)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [(None, "this environment variable is not set or"), ("", "is empty"), ("a b\nc", "cannot be a key")],
)
def test_a_variable_without_a_key_is_named(monkeypatch, value, says):
    monkeypatch.delenv("TESTS_KEY")
    if value is not None:
        monkeypatch.setenv("TESTS_KEY", value)
    with pytest.raises(ModelError, match=rf"^model\.api_key_env=TESTS_KEY: .*{says}"):
        Key.of("TESTS_KEY")
    assert "c" not in repr(Key("c"))


def test_a_wrong_key_is_refused_in_a_line_that_does_not_hold_it(opened, monkeypatch):
    monkeypatch.setenv("TESTS_KEY", "sk-another-secret")
    server = Hostile()
    with server.serving() as url, pytest.raises(ModelError, match=r"rejected the key \(HTTP 401: .*\[key\]") as refused:
        opened(url)
    assert "sk-another-secret" not in str(refused.value)
    assert str(refused.value).endswith("; export TESTS_KEY=... with a key for this server")
    assert server.n == 1  # and is not tried again


@pytest.mark.parametrize(
    "escaped",
    [
        lambda secret: json.dumps({"error": {"message": f"bad {secret}"}}).replace("/", "\\/"),
        lambda secret: json.dumps({"error": {"message": json.dumps({"key": secret}).replace("/", "\\/")}}),
        lambda secret: json.dumps({"error": {"message": f"bad ?key={quote(secret, safe='')}"}}),
        lambda secret: f"<html><body>{html.escape(secret)}",
        lambda secret: "".join(f"\\u{ord(letter):04x}" for letter in secret).join(('{"error": "bad ', '"}')),
    ],
)
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_key_that_a_server_repeats_in_another_form_is_hidden(opened, monkeypatch, escaped, status):
    secret = "ab/cd+ef&gh=ij"
    monkeypatch.setenv("TESTS_KEY", secret)
    server = Hostile()
    server.post = lambda handler: (
        handler.rfile.read(int(handler.headers["Content-Length"])),
        say(handler, escaped(secret).encode(), status=status),
    )
    with server.serving() as url, pytest.raises(ModelError) as refused:
        opened(url, retries=0)
    said = str(refused.value)
    assert not any(part in said for part in ("ab/cd", "ab\\/cd", "ab%2Fcd", "gh=ij", "gh&amp;"))


@pytest.mark.parametrize("word", ["null", "none", "token", "content", "true", "1234", "choices"])
def test_a_placeholder_for_a_key_changes_no_answer(opened, monkeypatch, word):
    monkeypatch.setattr("hostile.KEY", word)
    monkeypatch.setenv("TESTS_KEY", word)
    server = Hostile(
        answer=lambda text: f"none, 1234 and {word}" if "Judge" in text else "50",
        logprobs=lambda text, n: [{"token": "5", "logprob": -0.1, "top_logprobs": [{"token": "5", "logprob": -0.1}]}],
    )
    with server.serving() as url:
        assert texts_of(opened(url).write(PROMPTS[:1], max_tokens=9)) == [f"none, 1234 and {word}"]


def test_a_server_that_wants_a_key_and_is_given_none_says_where_to_name_one(opened):
    with Hostile().serving() as url, pytest.raises(ModelError, match=r"asks for a key \(HTTP 401") as refused:
        opened(url, key=None)
    assert "api_key_env=" in str(refused.value)


def test_a_model_that_is_not_served_is_named_with_those_that_are(opened):
    with (
        Hostile(models=("tiny-instruct",)).serving() as url,
        pytest.raises(ModelError, match="there are: tiny-instruct"),
    ):
        opened(url)


def test_a_server_without_a_list_of_models_is_asked_all_the_same(opened):
    with Hostile(models=None).serving() as url:
        assert texts_of(opened(url).write(PROMPTS[:3], max_tokens=3)) == whole(PROMPTS[:3])


def test_what_is_of_files_is_left_to_the_server(opened):
    of_files = {"dtype": "float32", "quantization": "awq", "revision": "main", "tokenizer": "x"}
    for name, value in {**of_files, "chat_template": "plain"}.items():
        with pytest.raises(
            ModelError,
            match=rf"model\.{name}={value}: engine=openai leaves this to the "
            r"server",
        ):
            opened("http://127.0.0.1:9/v1", card={name: value})
    with pytest.raises(ModelError, match=r"engine=openai needs the server's address, model\.base_url="):
        opened(None)


def test_a_date_is_told_to_no_server_that_takes_none(opened):
    with Hostile().serving() as url:
        with pytest.raises(
            ModelError,
            match=r"^model\.date=2026-11-24: http://.* is neither vLLM nor llama.cpp, and takes "
            r"no date",
        ):
            opened(url, card={"date": "2026-11-24"})
        assert texts_of(opened(url).write(PROMPTS[:1], max_tokens=3)) == whole(PROMPTS[:1])


def test_an_address_without_a_server_ends_in_one_line(opened):
    with pytest.raises(
        ModelError,
        match=r"http://127\.0\.0\.1:9/v1: no answer after 2 tries \(last: ConnectError.*run the same command again$",
    ):
        opened("http://127.0.0.1:9/v1", retries=1)


def test_a_refused_connection_is_told_at_once_and_not_for_each_try(opened, capfd):
    began = time.monotonic()
    with pytest.raises(ModelError):
        opened("http://127.0.0.1:9/v1", retries=3, backoff_s=0.05)
    assert time.monotonic() - began < 10
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("http://127.0.0.1:9/v1: ConnectError: ")
    assert "kept" not in line  # there is no folder yet
    assert "; try 2 of 4 in 0." in line


def test_faults_that_pass_while_others_are_answered_are_not_told(opened, capfd):
    server = Hostile(fault=lambda try_, n: "429" if n > 1 and n % 3 == 0 else "")
    with server.serving() as url:
        opened(url, retries=8).write(PROMPTS, max_tokens=9)
    assert server.n > len(PROMPTS) + 1
    assert capfd.readouterr().err == ""


def test_a_server_that_answers_nothing_for_two_seconds_is_told_without_its_control_characters(
    opened, capfd, monkeypatch
):
    monkeypatch.setattr("audit.engines.server.SILENT", 0.0)
    server = Hostile(fault=lambda try_, n: "500 with a colour" if n == 2 else "")
    colour = {"error": {"message": "busy \x1b[31m now"}}
    monkeypatch.setitem(FAULTS, "500 with a colour", lambda handler, answer: say(handler, colour, status=500))
    with server.serving() as url:
        opened(url).write(PROMPTS[:1], max_tokens=9)
    [line] = capfd.readouterr().err.splitlines()
    assert "HTTP 500: busy ?[31m now; try 2 of 5 in " in line


@pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/", "/completions", "/models", "/responses"])
def test_an_address_with_what_requests_add_is_refused_with_what_to_leave_out(tiny_config, end):
    with pytest.raises(ConfigError, match=rf"base_url: ends in {end}.*leave that out"):
        tiny_config("tiny", base_url=f"http://h/v1{end}")


@pytest.mark.parametrize(
    ("served", "says"), [(True, r"below: model\.base_url=http://.*/v1$"), (False, r"most end in /v1")]
)
def test_an_address_without_v1_is_mended_in_the_message_if_the_server_has_it_there(opened, served, says):
    class AtV1(Hostile):
        def post(self, handler):
            if handler.path == "/v1/chat/completions":
                super().post(handler)
            else:
                handler.rfile.read(int(handler.headers["Content-Length"]))
                say(handler, {"error": "Not Found"}, status=404)

    with AtV1(models=("tiny",) if served else None).serving() as url:
        with pytest.raises(ModelError, match=says):
            opened(url.removesuffix("/v1"))
        assert texts_of(opened(url).write(PROMPTS[:1], max_tokens=3)) == whole(PROMPTS[:1])


def test_a_web_page_in_place_of_an_answer_says_what_addresses_end_in(opened):
    with Hostile(fault=lambda try_, n: "HTML").serving() as url, pytest.raises(ModelError, match=r"end in /v1"):
        opened(url, retries=0)


@pytest.mark.parametrize("there", [False, True])
def test_a_server_that_cannot_be_reached_leaves_no_folder(audit, tmp_path, there, monkeypatch):
    (tmp_path / "runs").mkdir() if there else None
    settings = [word for word in asked_for("http://127.0.0.1:9/v1", "runs/of/today") if "retries" not in word]
    assert audit("run", *settings, "engine.server.retries=0") == 2
    assert (tmp_path / "runs").exists() == there
    assert not (tmp_path / "runs" / "of").exists()


def test_an_address_of_a_server_is_refused_by_an_engine_of_this_machine(tiny_config):
    model, engine = tiny_config("tiny", base_url="http://localhost:1/v1")
    with pytest.raises(ModelError, match=r"engine=transformers runs models on this machine; use engine=openai"):
        open_model(model, engine, seed=0)


def test_a_secret_in_the_address_of_a_judge_is_refused_before_anything_is_written(audit, tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert audit("judge", "a", "b", "model=tiny", "base_url=http://ada:secret@localhost:1/v1") == 2
    assert "has more than an address" in capsys.readouterr().err
    assert files_with("secret", tmp_path) == []


# --- Faults ----------------------------------------------------------------------------------------------------------

PASSING = [
    "429",
    "429, at once",
    "429 within",
    "error within",
    "500",
    "503",
    "garbage",
    "HTML",
    "half-closed",
    "no answer",
    "slow",
    "drip",
    "empty choices",
    "no message",
]


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_not_seen_in_what_comes_back(opened, fault):
    """Every third prompt meets it on its first try, and every sixth on its second."""

    def faults(try_, n):
        return fault if n > 1 and ((try_ == 1 and n % 3 == 0) or (try_ == 2 and n % 2 == 0)) else ""

    server = Hostile(fault=faults)
    told = []
    with server.serving() as url:
        settings = {"timeout_s": IMPATIENT.get(fault, QUICK["timeout_s"])}
        written = opened(url, retries=8, **settings).write(PROMPTS, max_tokens=9, done=told.append)
    assert texts_of(written) == whole(PROMPTS)
    assert sum(told) == len(PROMPTS)
    assert server.n > len(PROMPTS) + 1  # it was tried again


LASTING = {
    "429": r"no answer after 3 tries \(last: HTTP 429: slow down\).*the same command",
    "429, long": r"asks to wait 7200 s, more than engine\.server\.max_wait_s=300; run the same command "
    r"later",
    "429 within": r"no answer after 3 tries \(last: HTTP 429: slow down upstream\)",
    "402 within": r"rejected the request \(HTTP 402: no credits\)",
    "error within": r"its responses contain no answer \(no choices: it is down, 3 times\)",
    "500": r"no answer after 3 tries \(last: HTTP 500",
    "503": r"no answer after 3 tries \(last: HTTP 503\).*run the same command again; answers so far are kept$",
    "garbage": r"no answer after 3 tries \(last: what begins .* instead of JSON\)",
    "HTML": r"no answer after 3 tries \(last: a web page instead of JSON",
    "half-closed": r"no answer after 3 tries \(last: RemoteProtocolError",
    "no answer": r"no answer after 3 tries \(last: RemoteProtocolError",
    "drip": r"no answer after 3 tries \(last: slower than engine\.server\.timeout_s=0\.5\)",
    "slow": r"no answer after 3 tries \(last: slower than engine\.server\.timeout_s=0\.5\)",
    "empty choices": r"its responses contain no answer \(no choices, 3 times\); .*the same command",
    "wrong model": r"answers as 'another' now and as 'tiny-2026-01-01' before",
    "401": r"rejected the key \(HTTP 401: bad key \[key\]\)",
    "400": r"rejected the request \(HTTP 400: what is this\? key \[key\]\)",
    "redirect": r"redirects elsewhere \(HTTP 307\)",
}


def collected(run, url, *overrides, said=None):
    """Collect what is missing of a run of 50 prompts, without its report, and return its ratings."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from audit.configuration.composition import conf_folder
    from audit.configuration.schema import load_config
    from audit.runs.store import RunFolder
    from audit.tasks.registry import TASKS

    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        composed = compose("audit", [*asked_for(url, run), *overrides])
    values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    config = load_config(values)
    task = TASKS[config.task.kind]
    plan = task.plan(config)
    lines = [] if said is None else said
    with RunFolder(Path(run)) as folder:
        try:
            manifest = task.collect(plan, folder, command="audit run", say=lines.append)
        finally:  # as at the end of a process
            if opening._kept is not None:
                opening._kept[1].engine.close()
                opening._kept = None
        folder.write_manifest(manifest)
        return folder.read_ratings(n_prompts=len(plan.grid))


def asked_for(url, run):
    settings = (f"engine.server.{name}={value}" for name, value in (QUICK | {"retries": 2}).items())
    return [
        "model=openai", "model.path=tiny", f"model.base_url={url}", "model.api_key_env=TESTS_KEY", *settings,
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS, "shard_size=20",
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0", f"run_dir={run}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, Hostile().serving() as url:
        patch.setenv("TESTS_KEY", KEY)
        patch.setattr("audit.engines.open._kept", None)
        return collected(tmp_path_factory.mktemp("undisturbed") / "run", url)


@pytest.mark.parametrize("fault", LASTING)
def test_a_run_that_a_lasting_fault_stops_goes_on_and_has_lost_nothing(fault, tmp_path, undisturbed):
    mended = threading.Event()
    server = Hostile(fault=lambda try_, n: fault if n > 30 and not mended.is_set() else "")
    said = []
    more = (f"engine.server.timeout_s={IMPATIENT[fault]}",) if fault in IMPATIENT else ()
    with server.serving() as url:
        with pytest.raises(ModelError, match=LASTING[fault]) as stopped:
            collected(tmp_path / "run", url, *more, said=said)
        assert "\n" not in str(stopped.value)
        mended.set()
        n_answered, n_kept = len(server.asked), n_kept_of(tmp_path / "run")
        ratings = collected(tmp_path / "run", url, said=said)
    pd.testing.assert_frame_equal(ratings, undisturbed)
    assert ratings["prompt_index"].tolist() == list(range(50))  # no row lost, none twice
    assert ratings["status"].astype(str).eq("rated").all()
    # What had been answered was not asked again: there is a question at the beginning of each session.
    assert len(server.asked) - n_answered == 50 - n_kept + 1
    # An answer that an impatient run did not wait for is not kept.
    assert n_kept == n_answered - N_FIRST or (fault in IMPATIENT and n_kept < n_answered)
    assert KEY not in str(stopped.value)
    assert files_with(KEY, tmp_path) == []
    assert not any(KEY in line for line in said)
    assert not (tmp_path / "run" / "part-begun.jsonl").exists()


def n_kept_of(run):
    """Return how many prompts' answers a run that was stopped has, in whole shards and of one that was begun."""
    begun = run / "part-begun.jsonl"
    n_begun = len(begun.read_text().split("\n\n")) - 1 if begun.exists() else 0
    return sum(len(pd.read_parquet(shard)) for shard in run.glob("ratings/part-*.parquet")) + n_begun


def files_with(secret, folder):
    return [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_most_answers_of_a_shard_that_is_interrupted_are_kept(tmp_path, undisturbed):
    server = Hostile(fault=lambda try_, n: "401" if n == 31 else "")
    with server.serving() as url:
        with pytest.raises(ModelError):
            collected(tmp_path / "run", url, "shard_size=50")
        assert not [*(tmp_path / "run").glob("ratings/part-*.parquet")]
        n_kept = n_kept_of(tmp_path / "run")
        n_asked = server.n
        assert n_kept == n_asked - N_FIRST - 1  # but for the questions at the beginning, and what was refused
        ratings = collected(tmp_path / "run", url, "shard_size=50")
        assert server.n == n_asked + 1 + 50 - n_kept
    pd.testing.assert_frame_equal(ratings, undisturbed)


@pytest.mark.parametrize(("budget", "name"), [(23, "max_requests"), (600, "max_tokens")])
def test_a_budget_stops_a_run_that_goes_on_session_by_session(budget, name, tmp_path, undisturbed):
    server = Hostile()
    n_sessions = 0
    with server.serving() as url:
        while True:
            n_sessions += 1
            assert n_sessions < 40
            with contextlib.suppress(BudgetError):
                ratings = collected(tmp_path / "run", url, f"engine.server.{name}={budget}")
                break
    assert n_sessions > 2
    pd.testing.assert_frame_equal(ratings, undisturbed)
    # Each prompt once, a question at the beginning of each session, and two more of the first.
    assert server.n == 50 + n_sessions + N_FIRST - 1
    if name == "max_requests":
        assert n_sessions == math.ceil((50 + N_FIRST - 1) / (budget - 1))


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": -7}, {"prompt_tokens": "7"}])
def test_a_budget_of_tokens_stops_a_run_whose_server_no_longer_counts_them(usage, tmp_path, undisturbed):
    class Forgetful(Hostile):
        def whole(self, body, text):
            return super().whole(body, text) | ({"usage": usage} if self.n > 30 and not mended.is_set() else {})

    mended = threading.Event()
    server = Forgetful()
    with server.serving() as url:
        with pytest.raises(BudgetError, match=r"max_tokens=100000: .* does not report .* answers so far are kept$"):
            collected(tmp_path / "run", url, "engine.server.max_tokens=100000")
        assert n_kept_of(tmp_path / "run") >= 30 - N_FIRST - QUICK["concurrency"]
        mended.set()
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url), undisturbed)


def test_what_is_asked_again_for_the_noise_is_asked_and_not_remembered(tmp_path):
    server = Hostile()
    with server.serving() as url:
        collected(tmp_path / "run", url, "elicitation.noise_sample=8")
    assert server.n == N_FIRST + 50 + 8


def test_a_server_that_answers_unlike_questions_alike_is_told_once_and_on_the_page(audit, tmp_path, capsys):
    same = "50, <b>as\x1b[31m always</b>"
    server = Hostile(answer=lambda text: same, fault=lambda try_, n: "401" if n == 31 else "")
    quick = ("elicitation=generate", "stimuli.placebo=0", "statistics.n_permutations=100")
    with server.serving() as url:
        assert audit("run", *asked_for(url, "run"), *quick) == 2
        first = capsys.readouterr().err
        n_asked, n_kept = len(server.asked), n_kept_of(tmp_path / "run")
        assert audit("run", *asked_for(url, "run"), *quick) == 0
        assert len(server.asked) == n_asked + 50 - n_kept  # the two are not asked again
    assert first.count("warning: the server gave the same answer to two unlike questions") == 1
    assert "“50, <b>as\\x1b[31m always</b>”" in first
    assert "unlike questions" not in capsys.readouterr().err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["model"]["same_answer"] == same
    assert "engine_checked" not in manifest
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("The server gave the same answer to two unlike questions") == 1
    assert "“50, &lt;b&gt;as\\x1b[31m always&lt;/b&gt;”" in page


def thinking_for_long(text):
    """Answer the first question only; the room of others goes into a thought that is not shown."""
    return "7" if text.endswith("7") else {"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}


@pytest.mark.parametrize(
    ("answer", "checked", "same"),
    [
        (str, "two unlike prompts get different texts", None),
        (lambda text: "7" + " " * len(text), None, "7"),
        (thinking_for_long, None, None),
    ],
)
def test_what_two_unlike_questions_show_is_in_the_manifest(answer, checked, same, tmp_path):
    server = Hostile(answer=answer, fault=lambda try_, n: "401" if n > N_FIRST + 2 else "")
    said = []
    with server.serving() as url, contextlib.suppress(ModelError):
        collected(tmp_path / "run", url, said=said)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest.get("engine_checked"), manifest["model"].get("same_answer")) == (checked, same)
    assert any("unlike questions" in line for line in said) == (same is not None)


def test_the_manifest_says_which_server_and_how_it_changed(tmp_path):
    server = Hostile(fault=lambda try_, n: "401" if n == 31 else "")
    said = []
    with server.serving() as url:
        with pytest.raises(ModelError):
            collected(tmp_path / "run", url)
        server.fingerprint = "fp_2"
        collected(tmp_path / "run", url, said=said)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["model"]["server"] == {"base_url": url, "id": "tiny-2026-01-01"}
    assert manifest["model"]["files"] == {}
    assert [each["fingerprints"] for each in manifest["model"]["seen"]] == [["fp_1"], ["fp_2"]]
    assert all(each["date"].startswith("20") for each in manifest["model"]["seen"])
    assert manifest["engine"]["name"] == "openai"
    assert "server" not in manifest["identity"]["engine"]
    assert any("the server reported 2 fingerprints during this run (fp_1, fp_2)" in line for line in said)


KILLED = """
    import sys
    sys.path[:0] = {tests!r}
    from test_openai import collected
    collected({run!r}, {url!r}, "shard_size=50", "engine.server.concurrency=2")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_run_killed_half_way_goes_on_without_a_row_lost_or_twice(tmp_path, undisturbed, child_environment):
    def answer(text):
        time.sleep(0.02)
        return str(rating_of(text))

    server = Hostile(answer=answer)
    with server.serving() as url:
        script = textwrap.dedent(
            KILLED.format(
                tests=[str(Path(__file__).parents[1]), str(Path(__file__).parent)], run=str(tmp_path / "run"), url=url
            )
        )
        environment = child_environment | {"TESTS_KEY": KEY}
        for n in (18, 34):
            with subprocess.Popen([sys.executable, "-c", script], env=environment) as process:
                deadline = time.monotonic() + 120
                while server.n < n and time.monotonic() < deadline and process.poll() is None:
                    time.sleep(0.002)
                os.kill(process.pid, signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
        assert files_with(KEY, tmp_path) == []
        ratings = collected(tmp_path / "run", url, "shard_size=50")
    pd.testing.assert_frame_equal(ratings, undisturbed)
    assert server.n <= 50 + N_FIRST + 2 + 2 * 2  # each prompt once, but for those under way


def test_an_interruption_by_the_user_does_not_wait_for_a_slow_server(opened, request):
    # Worker processes of the tests ignore what a user's terminal sends.
    request.addfinalizer(
        partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
    )
    asked, answers = threading.Event(), threading.Event()

    def answer(text):
        if "How sad" in text:
            asked.set()
            answers.wait(60)
        return "1"

    def interrupt():
        asked.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    server = Hostile(answer=answer)
    with server.serving() as url:
        engine = opened(url)
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            engine.write(PROMPTS, max_tokens=3)
        assert not any("How sad" in text for text in server.asked)  # it has answered none by now
        answers.set()


# --- Patience --------------------------------------------------------------------------------------------------------


def test_what_a_server_asks_to_wait_is_read_in_seconds_and_as_a_date():
    assert wait_asked({"retry-after": "7"}) == 7
    assert wait_asked({"retry-after": "0.5"}) == 0.5
    assert wait_asked({"retry-after": formatdate(time.time() + 60, usegmt=True)}) == pytest.approx(60, abs=2)
    assert wait_asked({"retry-after": formatdate(time.time() - 60, usegmt=True)}) == 0
    for unclear in ({}, {"retry-after": ""}, {"retry-after": "soon"}, {"retry-after": "nan"}, {"retry-after": "inf"}):
        assert wait_asked(unclear) is None


def test_the_wait_that_is_asked_for_is_waited(opened):
    server = Hostile(fault=lambda try_, n: "429" if n == 2 else "")
    with server.serving() as url:
        engine = opened(url, backoff_s=0.0)
        began = time.monotonic()
        engine.write(PROMPTS[:1], max_tokens=3)
    assert time.monotonic() - began >= 0.05


def test_a_server_that_asks_for_no_wait_gets_growing_pauses_all_the_same(opened):
    for at_once in ("0", formatdate(time.time() - 60, usegmt=True)):
        server = Hostile()
        whole_, times = server.post, []

        def post(handler, at_once=at_once, whole_=whole_, times=times):
            times.append(time.monotonic())
            if 1 < len(times) < 5:
                handler.rfile.read(int(handler.headers["Content-Length"]))
                say(handler, {"error": {"message": "slow down"}}, status=429, Retry_After=at_once)
            else:
                whole_(handler)

        server.post = post
        with server.serving() as url:
            opened(url, backoff_s=0.08).write(PROMPTS[:1], max_tokens=3)
        pauses = [after - before for before, after in pairwise(times[1:])]
        # Each is random, from half of .08, .16 and .32 s to all of it.
        assert all(pause > least for pause, least in zip(pauses, (0.04, 0.08, 0.16), strict=True))


def test_requests_at_a_time_are_halved_once_a_server_asks_for_fewer_and_grow_again():
    pace = Pace(16)
    pace.slow(0.2)
    pace.slow(0.2)  # of requests that were under way together
    assert pace.limit == 8
    for _ in range(8):
        pace.went_well()
    assert pace.limit == pytest.approx(9, abs=0.1)
    for _ in range(200):
        pace.went_well()
    assert pace.limit == 16


def test_no_more_requests_are_under_way_than_are_allowed(opened):
    server = Hostile(answer=lambda text: time.sleep(0.02) or "1")
    with server.serving() as url:
        opened(url, concurrency=3).write(PROMPTS, max_tokens=3)
    assert 1 < server.most_at_once <= 3


# --- Probabilities ---------------------------------------------------------------------------------------------------


def top_of(*places):
    """Return logprobs as OpenAI's interface has them: at each place the tokens and their probabilities."""
    return lambda text, n: [
        {
            "token": max(table, key=table.get),
            "logprob": math.log(max(table.values())),
            "top_logprobs": [
                {"token": token, "logprob": math.log(p)}
                for token, p in sorted(table.items(), key=lambda each: -each[1])[:n]
            ],
        }
        for table in places
    ]


def test_a_distribution_is_read_from_the_likeliest_tokens_with_bounds(opened):
    # Tokens for whole numbers: 70 .5, 80 .3, "I" .1, and .1 that was not seen. Mean (35 + 24) / .8 = 73.75; if all that
    # was not seen were on 0: 59 / .9 = 65.56; on 100: 69 / .9 = 76.67. The farther is 8.19 off.
    server = Hostile(logprobs=top_of({"70": 0.5, "80": 0.3, "I": 0.1}))
    with server.serving() as url:
        [rated] = ExpectedElicitation.of(HUNDRED, 9.0).elicit(opened(url), PROMPTS[:1])
        [missing] = ExpectedElicitation.of(HUNDRED, 1.0).elicit(opened(url), PROMPTS[:1])
    assert missing.status is Status.INEXACT
    assert math.isnan(missing.intensity)
    assert missing.pruned_points == rated.pruned_points
    body = server.bodies[-1]
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 5)
    assert rated.status is Status.RATED
    assert rated.intensity == pytest.approx(73.75)
    assert rated.number_mass == pytest.approx(0.8)
    assert rated.mode == 70
    assert rated.pruned_points == pytest.approx(73.75 - 59 / 0.9)


def test_an_answer_without_a_number_among_the_likeliest_is_no_rating(opened):
    server = Hostile(logprobs=top_of({"I": 0.6, "Well": 0.3}))
    with server.serving() as url:
        [rated] = ExpectedElicitation.of(HUNDRED, 1.0).elicit(opened(url), PROMPTS[:1])
    assert rated.status is Status.UNPARSEABLE
    assert math.isnan(rated.intensity)


def test_a_server_without_logprobs_is_refused_with_the_remedy(opened):
    with (
        Hostile().serving() as url,
        pytest.raises(ModelError, match=r"returns no logprobs for tiny.*elicitation=generate"),
    ):
        ExpectedElicitation.of(HUNDRED, 1.0).elicit(opened(url), PROMPTS[:1])


def test_logprobs_that_cannot_be_read_are_missing_and_others_are_not(opened):
    good = top_of({"70": 0.99})

    def tell(text, n):
        return [{"token": "7", "top_logprobs": [{"token": "7"}]}] if "number 1?" in text else good(text, n)

    server = Hostile(logprobs=tell)
    with server.serving() as url:
        outcomes = ExpectedElicitation.of(HUNDRED, 1.0).elicit(opened(url), PROMPTS[:3])
    assert [each.status for each in outcomes] == [Status.RATED, Status.FAILED, Status.RATED]


def test_a_number_format_is_the_server_s(opened):
    with Hostile().serving() as url, contextlib.ExitStack() as stack:
        engine = opened(url)
        with pytest.raises(ModelError, match="the number format"):
            stack.enter_context(engine.in_format("bfloat16"))


# --- Everything else that a model is asked for -----------------------------------------------------------------------

REPLY = "I am sorry to hear that. It must have been hard for you, and I am here if you want to talk."


def test_replies_stages_and_their_judge_are_asked_of_servers(audit, tmp_path):
    """The judge is another server's model; it is asked in words, and its key is that of the environment, too."""
    judge, writer = Hostile(answer=lambda text: "3"), Hostile(answer=lambda text: REPLY)
    judge.models = ("grader",)
    judge.name = "grader-1"
    with judge.serving() as judge_url, writer.serving() as url:
        words = [
            *asked_for(url, "run"), "task=reply", "strategy=perspective", "measures.names=[lexical,judge]",
            "measures.judge.model=grader", f"measures.judge.base_url={judge_url}", "measures.judge.own_gap=0",
            "measures.judge.api_key_env=TESTS_KEY", "measures.judge.method=generate", "statistics.n_permutations=100",
        ]  # fmt: skip
        assert audit("run", *words) == 0
        n_asked = writer.n, judge.n
        assert audit("run", *words) == 0
    assert (writer.n, judge.n) == n_asked  # a complete run asks nobody
    replies = pd.read_parquet(tmp_path / "run" / "replies.parquet")
    assert replies["status"].astype(str).eq("written").all()
    assert len(replies) == 50
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["scorers"]["judge"]["facts"]["server"] == {"base_url": judge_url, "id": "grader-1"}
    assert files_with(KEY, tmp_path) == []


def test_questionnaires_are_filled_in_by_a_server(audit, tmp_path):
    server = Hostile(answer=lambda text: "2")
    with server.serving() as url:
        words = [*asked_for(url, "run"), "stimuli.emotions=[sad]", "shard_size=500", "statistics.n_permutations=100"]
        assert audit("run", *words, "task=inventory", "task.method=generate", "task.n_orders=1") == 0
    answers = pd.read_parquet(tmp_path / "run" / "answers.parquet")
    assert answers["status"].astype(str).eq("rated").all()
    assert server.n == N_FIRST + answers["prompt_index"].nunique()
    assert files_with(KEY, tmp_path) == []
