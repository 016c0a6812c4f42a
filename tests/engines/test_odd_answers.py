"""A server's JSON that is JSON and no answer: tokens that are none, choices without places, counts beyond counting."""

import json
import math
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pytest

from audit.configuration.engine import ServerConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import Generated
from audit.engines.batch import Batches
from audit.engines.chat_completions import ChatEngine
from audit.engines.served_tokens import VllmServerEngine
from audit.engines.server import Key, Server
from audit.errors import ModelError
from stimuli.prompts import Prompt

CARD = {
    "name": "tiny", "path": "tiny", "revision": None, "tokenizer": None, "dtype": "float32", "quantization": None,
    "max_model_len": 2048, "trust_remote_code": False, "elicitation": "expected",
}  # fmt: skip
DEEP = b'{"choices":' + b"[" * 100_000


class Line:
    """In place of a connection: gives what a function of method and address says."""

    def __init__(self, answer):
        self.answer = answer

    @contextmanager
    def stream(self, method, url, **_):
        content = self.answer(method, url)
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        yield SimpleNamespace(status_code=200, headers={}, iter_bytes=lambda: iter((content,)))


def server(answer):
    made = Server("http://localhost/v1", Key(""), ServerConfig(concurrency=1, retries=0, backoff_s=0))
    made._client = Line(answer if callable(answer) else lambda *_: answer)
    return made


def chat(answer):
    return ChatEngine(server(answer), ModelConfig(**CARD), seed=0)


def tokens(answer):
    return VllmServerEngine(chat(answer), ModelConfig(**CARD), version="1", longest=2048)


def choice(**changes):
    return {"index": 0, "text": "72", "finish_reason": "stop"} | changes


@pytest.mark.parametrize("found", [{}, {"tokens": 3}, {"tokens": [{}]}, {"tokens": ["x"]}, {"tokens": [-1]}, DEEP])
def test_a_tokenizer_that_gives_no_tokens_is_named(found):
    with pytest.raises(ModelError, match=r"http://localhost/v1: (tokenize answers with no tokens|no answer after)"):
        tokens(found).tokenizer.encode("x")


def test_a_server_renders_its_own_template_where_transformers_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    tokenizer = tokens({"tokens": [1, 2]}).tokenizer
    monkeypatch.setattr(type(tokenizer.hf), "apply_chat_template", lambda *_, **__: "by the server")
    assert tokenizer._applied([{"role": "user", "content": "x"}], {}) == "by the server"


@pytest.mark.parametrize("found", [{}, {"prompt": 3}, {"prompt": None}])
def test_a_tokenizer_that_gives_no_text_is_named(found):
    with pytest.raises(ModelError, match="detokenize answers with no text"):
        tokens(found).tokenizer.decode([1])


@pytest.mark.parametrize("changes", [{"index": None}, {"index": []}, {"index": -1}, {"text": 3}, {"text": None}])
def test_a_choice_that_cannot_be_placed_or_read_is_no_answer(changes):
    # Its tokenizer is asked, too: how a thought is marked stands in its chat template.
    answers = {"/tokenize": {"tokens": [1]}, "/detokenize": {"prompt": "x"}}
    answers["/v1/completions"] = {"choices": [choice(**changes)]}
    engine = tokens(lambda _, url: answers[url.removeprefix("http://localhost")])
    with pytest.raises(ModelError, match="its responses contain no answer"):
        engine.generate([[1]], max_tokens=3)


@pytest.mark.parametrize("logprob", [math.nan, math.inf, -math.inf, 900.0, 0.7, True, "x", "-1", None, [], {}])
def test_a_probability_that_is_none_is_no_answer(logprob):
    answer = {"choices": [choice(logprobs={"top_logprobs": [{"token_id:3": logprob}]})]}
    with pytest.raises(ModelError, match="no probabilities of the tokens asked about"):
        tokens(answer).probabilities([[1]], [3])


@pytest.mark.parametrize(("logprob", "expected"), [(1e-9, 1.0), (-9999.0, 0.0), (math.log(0.5), 0.5)])
def test_a_logprob_above_0_by_rounding_is_a_probability_of_1(logprob, expected):
    answer = {"choices": [choice(logprobs={"top_logprobs": [{"token_id:3": logprob}]})]}
    assert tokens(answer).probabilities([[1]], [3]).tolist() == [[pytest.approx(expected)]]


@pytest.mark.parametrize("told", [2**200, -1, True, "9", 1.5, None])
def test_a_count_of_tokens_that_none_can_be_is_not_told(told):
    answer = {
        "choices": [{"message": {"content": "72"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": told, "prompt_tokens": told, "total_tokens": told},
    }
    engine = chat(answer)
    [written] = engine.write([Prompt("", "x")], max_tokens=3)
    assert (written.text, written.n_tokens, written.n_prompt_tokens) == ("72", 0, None)
    pa.array([written.n_tokens], pa.int32())  # as it is stored
    if not isinstance(told, int) or told < 1:
        assert engine.server._spent.n_tokens == 0


@pytest.mark.parametrize("status", [{}, [], None, 3])
def test_a_batch_that_does_not_say_how_it_is_is_named(status):
    asked = {"/files": {"id": "f"}, "/batches": {"id": "b"}, "/batches/b": {"id": "b", "status": status}}
    batches = Batches(server(lambda method, url: asked[url.removeprefix("http://localhost/v1")]), say=lambda _: None)
    with pytest.raises(ModelError, match="does not report the state of batch b"):
        batches.ask_all("/chat/completions", [{"n": k} for k in range(100)], lambda _: Generated("", 0, False))
